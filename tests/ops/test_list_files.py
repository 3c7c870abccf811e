"""list_files: which paths match, and in which order they come."""

from __future__ import annotations

import glob
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


@pytest.fixture
def saved(tmp_path):
    """A directory after save_tfrecords, with what a writer that is killed leaves behind."""
    Dataset.range(10).map(lambda n: {"n": n}).save_tfrecords(tmp_path, shards=2)
    for name in (".data.set-0123456789abcdef", ".data.writing-0123456789abcdef"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data-00000-of-00001.tfrecord").write_bytes(b"")
    for name in (
        ".data.lock",
        ".feedline-0123456789abcdef-01234567",
        ".feedline-0123456789abcdef.new",
        ".x.tfrecord.flindex.4711",
    ):
        (tmp_path / name).write_bytes(b"junk")
    return tmp_path


SHARDS = ["data-00000-of-00002.tfrecord", "data-00001-of-00002.tfrecord"]


def names(dataset):
    return [os.path.basename(os.fsdecode(path)) for path in dataset]


@pytest.mark.parametrize("pattern", ["*", "data*", "[!x]*", "*/*", ".*"])
def test_patterns_leave_out_what_feedline_wrote_beside_the_data(saved, pattern):
    (saved / ".mine").write_bytes(b"")
    (saved / "mine").mkdir()
    (saved / "mine" / "a").write_bytes(b"")
    found = names(Dataset.list_files(str(saved / pattern), shuffle=False))
    expected = {"*": [".mine", *SHARDS, "mine"], "[!x]*": [".mine", *SHARDS, "mine"], "data*": SHARDS}
    assert found == expected.get(pattern, ["a"] if pattern == "*/*" else [".mine"])


def test_all_that_a_pattern_finds_after_save_tfrecords_can_be_read(saved):
    files = Dataset.list_files(str(saved / "*"), shuffle=False)
    assert len(list(files.interleave(Dataset.from_tfrecords, cycle_length=1))) == 10


def test_what_older_versions_wrote_is_left_out_too(saved):
    for path in saved.glob(".data*"):
        path.rename(saved / path.name.removeprefix("."))
    (saved / "mine.manifest.json").write_text('{"name": "mine"}')
    assert names(Dataset.list_files(str(saved / "data*"), shuffle=False))[:2] == SHARDS
    assert names(Dataset.list_files(str(saved / "*.json"), shuffle=False)) == ["mine.manifest.json"]


def test_a_path_without_a_pattern_is_taken_as_it_is(saved):
    path = saved / ".data.manifest.json"
    assert list(Dataset.list_files(path, shuffle=False)) == [os.fsencode(path)]
    place = saved / ".data.set-0123456789abcdef"
    assert names(Dataset.list_files(str(place / "*"), shuffle=False)) == ["data-00000-of-00001.tfrecord"]


@pytest.mark.parametrize("pattern", ["*.tfrecord", "data*", "[!.]*"])
def test_tf_data_reads_what_save_tfrecords_wrote(tmp_path, pattern):
    tf = tensorflow()
    Dataset.range(10).map(lambda n: {"n": n}).save_tfrecords(tmp_path, shards=2)
    files = tf.data.Dataset.list_files(str(tmp_path / pattern), shuffle=False)
    assert names(files.as_numpy_iterator()) == SHARDS
    assert len(list(tf.data.TFRecordDataset(files))) == 10


def test_python_and_tf_data_read_what_a_glob_of_python_finds(tmp_path):
    tf = tensorflow()
    Dataset.range(10).map(lambda n: {"n": n}).save_tfrecords(tmp_path, shards=2)
    assert len(list(tf.data.TFRecordDataset(sorted(glob.glob(f"{tmp_path}/*"))))) == 10
