"""Draws are the same for everyone, and what `make explore` finds becomes a case of `make test`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.kept_cases import KEPT_CASES, KeptCases

ROOT = Path(__file__).parents[2]
EXPLORED = "tests/suite/explored.py"
TEST = f"{EXPLORED}::test_sums_are_small"


def run(*arguments: str, kept: Path) -> subprocess.CompletedProcess[str]:
    """Python in the project's directory, with its own file of kept cases."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=os.environ | {"FEEDLINE_KEPT_CASES": str(kept)},
        capture_output=True,
        text=True,
        timeout=280,
    )


def pytest_output(*arguments: str, kept: Path) -> str:
    return run("pytest", "-q", "-p", "no:cacheprovider", *arguments, kept=kept).stdout


def test_a_case_that_explore_found_is_replayed_from_then_on(tmp_path):
    kept = tmp_path / "kept"
    explored = run("tests.explore", "200", EXPLORED, kept=kept)
    assert explored.returncode == 1, explored.stdout + explored.stderr
    assert explored.stdout.startswith("round 1: seed ")
    assert f'to repeat it:  make test ARGS="{TEST}"' in explored.stdout
    assert "numbers=[1000]" in explored.stdout
    (line,) = kept.read_text().splitlines()
    assert line.endswith(f" {TEST}")
    again = pytest_output(TEST, kept=kept)
    assert "numbers=[1000]" in again
    assert "1 failed" in again
    assert kept.read_text().splitlines() == [line]


def test_explore_that_finds_nothing_says_so_and_succeeds(tmp_path):
    explored = run("tests.explore", "0.1", "tests/test_spec.py", kept=tmp_path / "kept")
    assert (explored.returncode, explored.stderr) == (0, "")
    assert explored.stdout.splitlines()[-1] == "Rounds: 1. Nothing was found."
    assert not (tmp_path / "kept").exists()


def test_a_committed_case_stays_in_the_file_when_it_passes(tmp_path):
    path = tmp_path / "kept"

    def explore(limit):
        @given(st.integers())
        @settings(database=KeptCases(path, is_exploring=True))
        def check(number):
            assert number < limit

        check()

    with pytest.raises(AssertionError):
        explore(500)
    (kept,) = path.read_text().splitlines()
    explore(10**100)
    assert path.read_text().splitlines() == [kept]


def test_a_test_draws_the_same_cases_each_time_it_runs(tmp_path):
    first, second = (pytest_output("-s", EXPLORED, "-k", "draws", kept=tmp_path / "kept") for _ in range(2))
    numbers = re.findall(r"drew (-?\d+)", first)
    assert len(set(numbers)) > 50
    assert numbers == re.findall(r"drew (-?\d+)", second)


def test_fixed_draws_do_not_depend_on_which_modules_were_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "local.py").write_text("NUMBER = 987_654_321_987")

    def drawn():
        seen = []

        @seed(1)
        @given(st.integers())
        @settings(max_examples=500)
        def draw(number):
            seen.append(number)

        draw()
        return seen

    before = drawn()
    import local  # noqa: F401

    assert drawn() == before
    assert 987_654_321_987 not in before


def test_every_kept_case_names_a_test_that_exists():
    for line in KEPT_CASES.read_text().splitlines():
        path, _, name = line.partition(" ")[2].partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(), line
