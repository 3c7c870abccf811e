"""The examples that write TFRecords."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PRINTED = {
    "threads_write_one_file": "1,000 examples, 250 of the last thread, 0 damaged\n",
    "processes_write_shards": "5,150 examples in data-00000-of-00004.tfrecord data-00001-of-00004.tfrecord "
    "data-00002-of-00004.tfrecord data-00003-of-00004.tfrecord\n"
    "in each: 1288 1288 1287 1287\nin one file: 5,150\n",
    "processes_append": "".join(f"run {name}: 500 steps, in order: True\n" for name in "abc"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_example_prints_what_it_wrote(name):
    ended = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, timeout=100
    )
    assert (ended.stdout, ended.stderr) == (PRINTED[name], "")
