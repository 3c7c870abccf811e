"""shard."""

import os

import pytest

from feedline import Dataset, TFRecordWriter, UsageError, records
from feedline.ops.shard import Shard
from feedline.testing import check_errors, check_laws
from tests.ops.sources import every_source
from tests.tfdata import both, both_refuse

SHARDS = [(1, 0), (3, 0), (3, 2), (10, 9), (40, 0), (40, 39)]


@pytest.mark.parametrize(("num_shards", "index"), SHARDS)
def test_shard_gives_what_tf_data_gives(num_shards, index):
    both(lambda D: D.range(10).shard(num_shards, index))
    both(lambda D: D.range(30).filter(lambda x: x % 3 == 0).shard(num_shards, index))
    both(lambda D: D.range(0).shard(num_shards, index))
    both(lambda D: D.range(3).repeat().shard(num_shards, index), most=20)
    both(lambda D: D.range(30).shard(num_shards, index).shard(2, 1))


@pytest.mark.parametrize("rows", [0, 1, 7, 30])
def test_the_shards_together_are_the_whole(rows):
    parts = [list(Dataset.range(rows).shard(4, index)) for index in range(4)]
    assert sorted(x for part in parts for x in part) == list(range(rows))


@every_source
def test_shard_obeys_the_laws(source):
    check_laws(lambda ds: ds.shard(2, 1), source)


@pytest.mark.parametrize(("num_shards", "index"), SHARDS)
def test_shard_obeys_the_laws_for_every_shard(num_shards, index):
    check_laws(lambda ds: ds.shard(num_shards, index), Dataset.range(9))
    check_laws(lambda ds: ds.shard(num_shards, index), Dataset.range(9).filter(lambda x: x != 5))


def test_errors_come_in_their_place():
    check_errors(lambda ds: ds.shard(3, 1), Dataset.range(12))
    check_errors(lambda ds: ds.shard(3, 1), Dataset.range(12).filter(lambda x: True))


@pytest.mark.parametrize(("num_shards", "index"), [(0, 0), (3, 3), (3, -1)])
def test_shard_refuses_what_tf_data_refuses(num_shards, index):
    both_refuse(lambda D: D.range(10).shard(num_shards, index))


@pytest.mark.parametrize(
    ("num_shards", "index", "text"),
    [
        (0, 0, "shard(num_shards=0): there must be 1 shard at least."),
        (-1, 0, "shard(num_shards=-1): there must be 1 shard at least."),
        (3, 3, "shard(num_shards=3, index=3): index must be 0 to 2."),
        (3, -1, "shard(index=-1): index must be 0 or more."),
        (2.0, 1, "shard(num_shards=2.0): num_shards must be an int, not float."),
        (2, "1", "shard(index='1'): index must be an int, not str."),
    ],
)
def test_shard_says_what_is_wrong(num_shards, index, text):
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).shard(num_shards, index)
    assert str(caught.value) == text


# Whole files


@pytest.fixture
def files(tmp_path):
    """17 files of 0, 1, 2, 3, 0 ... records, each with the number of its file."""
    paths = []
    for number in range(17):
        paths.append(str(tmp_path / f"{number:02}.tfrecord"))
        with TFRecordWriter(paths[-1]) as writer:
            writer.write_batch([b"%02d-%d" % (number, n) for n in range(number % 4)])
    return paths


def files_in(dataset):
    return {int(record[:2]) for record in dataset}


READERS = {
    "plain": Dataset.from_tfrecords,
    "with options": lambda files: Dataset.from_tfrecords(files).with_options(workers=0),
    "by turns": lambda files: Dataset.from_tfrecords(files, num_parallel_reads=3),
    "a directory": lambda files: Dataset.from_tfrecords(os.path.dirname(files[0])),
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("num_shards", [1, 2, 3, 17])
@pytest.mark.parametrize("indexed", [False, True])
def test_shards_of_files_are_disjoint_and_complete(files, read, num_shards, indexed):
    if indexed:
        records.index(files)
    whole = READERS[read](files)
    parts = [list(whole.shard(num_shards, index)) for index in range(num_shards)]
    assert sorted(record for part in parts for record in part) == sorted(whole)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("indexed", [False, True])
def test_with_8_files_for_each_shard_files_stay_whole_whatever_is_indexed(files, read, indexed):
    if indexed:
        records.index(files)
    parts = [files_in(READERS[read](files).shard(2, index)) for index in range(2)]
    assert parts[0] == {number for number in range(0, 17, 2) if number % 4}
    assert parts[1] == {number for number in range(1, 17, 2) if number % 4}


@pytest.mark.parametrize("indexed", [False, True])
def test_with_fewer_files_shards_differ_by_one_element_at_most(files, indexed):
    if indexed:
        records.index(files)
    whole = Dataset.from_tfrecords(files[:15])
    parts = [list(whole.shard(2, index)) for index in range(2)]
    assert parts == [list(whole)[0::2], list(whole)[1::2]]


def test_a_shard_of_files_opens_no_file_of_another_shard(files):
    shard = Dataset.from_tfrecords(files).shard(2, 1)
    for path in files[0::2]:
        os.unlink(path)
    assert files_in(shard) == {number for number in range(1, 17, 2) if number % 4}


def test_after_other_steps_and_of_other_sources_shards_are_of_elements(files):
    for whole in (
        Dataset.from_tfrecords(files).map(bytes.upper),
        Dataset.from_tfrecords(Dataset.from_tensor_slices(files)),
        Dataset.from_tensor_slices(list(range(30))),
    ):
        assert list(whole.shard(2, 1)) == list(whole)[1::2]


def test_a_shard_of_a_shard_of_files_has_whole_files_while_there_are_enough(files):
    quarter = Dataset.from_tfrecords(files * 2).shard(2, 1).shard(2, 0)
    assert sorted(quarter) == sorted(record for path in (files * 2)[1::4] for record in records.read(path))
    eighth = quarter.shard(2, 1)
    assert list(eighth) == list(quarter)[1::2]


@pytest.mark.parametrize("indexed", [False, True])
def test_a_shard_of_files_obeys_the_laws(files, indexed):
    if indexed:
        records.index(files)
    check_laws(lambda ds: ds.shard(2, 1), Dataset.from_tfrecords(files))


def test_a_shard_of_files_is_indexed_where_its_own_files_are(files):
    records.index(files[1::2])
    shard = Dataset.from_tfrecords(files).shard(2, 1)
    assert len(shard) == len(list(shard)) == len(shard.shuffle(seed=1))
    assert shard[0] == b"01-0"
    assert "feedline index" in str(Dataset.from_tfrecords(files).shard(2, 0).explain())


def test_explain_says_how_many_whole_files_a_shard_has(files):
    shown = str(Dataset.from_tfrecords(files).shard(2, 1).explain())
    assert "shard(2, index=1)" in shown
    assert "shard: whole files, 8 of 17." in shown


def test_shards_of_files_have_fingerprints_of_their_own(files):
    whole = Dataset.from_tfrecords(files)
    shards = [whole.shard(2, 0), whole.shard(2, 1), Dataset(Shard(whole._node, 2, 1)), whole]
    assert len({str(one.fingerprint()) for one in shards}) == 4


@pytest.mark.parametrize(
    "rest",
    [
        lambda ds: ds,
        lambda ds: ds.map(bytes.upper).batch(2),
        lambda ds: ds.shuffle(5),
        lambda ds: Dataset.zip(ds, ds.map(bytes.upper)),
    ],
)
@pytest.mark.parametrize("read", READERS)
def test_a_state_of_version_0_1_goes_on_by_elements(files, read, rest):
    """There, shard gave every n-th element whatever the number of files."""
    whole = READERS[read](files)
    rows = iter(rest(Dataset(Shard(whole._node, 2, 1))))
    state, left = None, []
    for row in rows:
        left.append(row)
        if len(left) == 2:
            state, left = rows.state_dict(), []
    resumed = iter(rest(whole.shard(2, 1)))
    other = resumed.state_dict()
    resumed.load_state_dict(state)
    assert list(map(str, resumed)) == list(map(str, left))
    resumed.load_state_dict(other)
    assert len(list(resumed)) == len(list(rest(whole.shard(2, 1))))
    with pytest.raises(UsageError, match="another pipeline"):
        resumed.load_state_dict(iter(rest(whole.shard(2, 0))).state_dict())


def test_the_shard_of_this_process_has_whole_files_too(files, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert list(Dataset.from_tfrecords(files).shard()) == list(Dataset.from_tfrecords(files).shard(2, 1))
