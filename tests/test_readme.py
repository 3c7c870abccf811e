"""The examples in the README and in docs/ run, on a file like the one that the README speaks of."""

import doctest
from pathlib import Path

import numpy as np
import pytest

from feedline import _native
from feedline.records import example

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))


def test_the_example_in_the_readme_runs(tmp_path, monkeypatch):
    columns = {"label": np.arange(1000) % 10, "pixels": np.zeros((1000, 784), np.float32)}
    (tmp_path / "train.tfrecord").write_bytes(b"".join(map(_native.frame, example.encode_batch(columns))))
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0
