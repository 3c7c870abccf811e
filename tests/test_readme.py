"""The README's example runs, on a file like the one it speaks of."""

import doctest
from pathlib import Path

import numpy as np

from feedline import _native
from feedline.records import example

README = Path(__file__).parents[1] / "README.md"


def test_the_example_in_the_readme_runs(tmp_path, monkeypatch):
    columns = {"label": np.arange(1000) % 10, "pixels": np.zeros((1000, 784), np.float32)}
    (tmp_path / "train.tfrecord").write_bytes(b"".join(map(_native.frame, example.encode_batch(columns))))
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(README), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0
