"""The examples that read very many files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(name):
    ended = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, timeout=200
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_thousands_of_files_are_read_with_few_handles():
    text = printed("many_files")
    assert "20,000 elements of 2,000 files" in text
    found = re.search(r"at most: (\d+)", text)
    assert found is not None
    assert int(found[1]) <= 16 + 8  # those of Python and its standard streams, too


def test_trainers_read_each_record_once():
    assert "each record once: True" in printed("shards_of_records")


def test_processes_ask_a_reader_service_for_files():
    assert "each record once: True" in printed("reader_service")
