"""A run of the tests ends with one line that says what was skipped and how to include it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def last_line(*arguments):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"FEEDLINE_MODULE_TO_MISS": "torch_that_does_not_exist"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_last_line_says_what_was_skipped_and_how_to_include_it(workers):
    files = ["tests/suite/skipped.py", "tests/suite/skipped_module.py"]
    pip = f"{os.path.relpath(sys.executable, ROOT)} -m pip install"
    assert last_line("-n", workers, *files) == (
        "Tests skipped: 5. To include 3: apt-get install redis-server. "
        f"To include 1: {pip} torch. For 1 of them, see the reasons above."
    )


def test_nothing_is_said_where_nothing_was_skipped():
    assert "1 passed" in last_line("tests/suite/skipped.py", "-k", "nothing")
