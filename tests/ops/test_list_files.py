"""list_files: which paths match, and in which order they come."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from feedline import Dataset, UsageError
from feedline.testing import check_laws
from tests.tfdata import both, both_refuse, tensorflow

NAMES = ["b.py", "a.txt", "c.py", ".hidden.py", "sub/d.py", "sub/e.txt", "other/deep/z.py", "x[1].py"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "pattern",
    [
        *("*.py", "*", "./*.py", "sub/*", "*/*.py", "**/*.py", "[ab].*", "[!a].py", "?.py", "sub*/d*", ".*"),
        *("a.txt", "sub", "sub/", "sub/../*.py", "**", "[^a].py", r"x\[1].py", r"\a.txt", "*/", "../*/*.py"),
        ["*.py", "*.txt"],
        ["b.py", "*.py"],
        ["nothing*", "a.txt"],
        ["c.py", "b.py"],
        ["*.py", "*.py"],
    ],
)
def test_paths_are_those_of_tf_data_and_sorted(here, pattern):
    both(lambda D: D.list_files(pattern, shuffle=False))


def test_absolute_patterns_give_absolute_paths(here):
    found = both(lambda D: D.list_files(str(here / "*.py"), shuffle=False))
    assert os.fsencode(here / "b.py") in found
    assert list(Dataset.list_files(here / "*.py", shuffle=False)) == found  # a Path is welcome, too
    assert list(Dataset.list_files(os.fsencode(here / "*.py"), shuffle=False)) == found


@pytest.mark.parametrize(
    "pattern", ["nothing*", "nothing", ["nothing*", "none*"], [], "", "x[1].py", "{a,b}.*"]
)
def test_no_match_is_an_error_at_once_as_in_tf_data(here, pattern):
    both_refuse(lambda D: D.list_files(pattern))


def test_the_error_names_the_patterns_and_where_they_start(here):
    with pytest.raises(UsageError, match=f"no file matches no\\*, nor\\*.\n.* start in {here}"):
        Dataset.list_files(["no*", "nor*"])


@pytest.mark.parametrize("pattern", [5, [5], None])
def test_what_is_no_pattern_is_refused(here, pattern):
    both_refuse(lambda D: D.list_files(pattern))


def orders(dataset, count=8):
    return [list(dataset.as_numpy_iterator()) for _ in range(count)]


def test_by_default_each_iteration_has_another_order_as_in_tf_data(here):
    for i in range(20):
        Path(f"f{i:02}").touch()
    for D in (Dataset, tensorflow().data.Dataset):
        for options in ({}, {"shuffle": True}, {"seed": 3}, {"shuffle": True, "seed": 3}):
            one, other = orders(D.list_files("f*", **options), 2)
            assert one != other
            assert sorted(one) == sorted(other) == [b"./f%02d" % i for i in range(20)]
        assert orders(D.list_files("f*", seed=3)) == orders(D.list_files("f*", seed=3))
        assert orders(D.list_files("f*"), 1) != orders(D.list_files("f*"), 1)
        one, other = orders(D.list_files("f*", shuffle=False, seed=3), 2)
        assert one == other == sorted(one)


def test_files_are_looked_for_once(here):
    files = Dataset.list_files("*.py", shuffle=False)
    Path("new.py").touch()
    assert b"./new.py" not in list(files)


def test_it_obeys_the_laws(here):
    check_laws(lambda ds: Dataset.list_files("*.py", shuffle=False), Dataset.range(0))
    check_laws(lambda ds: Dataset.list_files("*.py", seed=1), Dataset.range(0))


def test_paths_can_be_had_by_index_and_a_state_is_of_these_files_only(here):
    files = Dataset.list_files("[abc].*", shuffle=False)
    assert (len(files), files[0], files[-1]) == (3, b"./a.txt", b"./c.py")
    state = iter(files).state_dict()
    with pytest.raises(UsageError, match="another pipeline"):
        iter(Dataset.list_files("[ab].*", shuffle=False)).load_state_dict(state)
