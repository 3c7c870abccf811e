"""Errors of datasets over TFRecord files without an index say what helps, and only where it does."""

from __future__ import annotations

import os

import pytest

from feedline import Dataset, TFRecordWriter, UsageError, records


@pytest.fixture
def write(tmp_path):
    def write(name, compression=None):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with TFRecordWriter(path, compression=compression) as writer:
            writer.write_batch([b"a", b"b", b"c"])
        return str(path)

    return write


ASK = {
    "len(ds)": (len, TypeError),
    "ds[0]": (lambda ds: ds[0], TypeError),
    "ds.shuffle()": (lambda ds: ds.shuffle(), UsageError),
}


def told(ask, dataset):
    do, kind = ASK[ask]
    with pytest.raises(kind) as caught:
        do(dataset)
    return str(caught.value)


@pytest.mark.parametrize("ask", ASK)
def test_a_file_without_an_index_is_named_with_the_command_that_writes_it(write, ask):
    path = write("a b.tfrecord")
    error = told(ask, Dataset.from_tfrecords(path).map(lambda x: x).batch(2))
    assert f"{path} has no index. To write one:  feedline index '{path}'\n" in error
    records.index(path)
    ASK[ask][0](Dataset.from_tfrecords(path).map(lambda x: x).batch(2))


@pytest.mark.parametrize("ask", ASK)
def test_the_first_file_without_one_is_named_and_the_command_takes_all(write, ask):
    paths = [write("a"), write("b")]
    records.index(paths[0])
    error = told(ask, Dataset.from_tfrecords(paths))
    assert f"{paths[1]} has no index. To write one:  feedline index {paths[0]} {paths[1]}\n" in error


def test_for_many_files_the_command_takes_their_directories(write, tmp_path):
    paths = [write(f"{folder}/{n}") for folder in "cab" for n in range(2)]
    error = told("len(ds)", Dataset.from_tfrecords(paths))
    assert f"feedline index {tmp_path}/a {tmp_path}/b {tmp_path}/c\n" in error


def test_the_hint_in_python_can_be_pasted(write, tmp_path):
    paths = [write(f"{folder}/{n}") for folder in "ab" for n in range(2)]
    error = told("len(ds)", Dataset.from_tfrecords(paths))
    call = error.split("In Python:  feedline.")[1].split(". Then")[0]
    assert call == f"records.index(['{tmp_path}/a', '{tmp_path}/b'])"
    assert len(eval(call)) == 4
    assert len(Dataset.from_tfrecords(paths)) == 12


def test_a_file_that_changed_since_it_was_indexed_is_told_so(write):
    path = write("a")
    records.index(path)
    os.utime(path, (1, 1))
    assert f"{path} has changed or was copied since it was indexed." in told(
        "len(ds)", Dataset.from_tfrecords(path)
    )


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("compression", ["auto", "GZIP"])
def test_a_compressed_file_is_told_to_have_none(write, ask, compression):
    path = write("a.gz", "GZIP")
    error = told(ask, Dataset.from_tfrecords(path, compression=compression))
    assert f"{path} is compressed, so it cannot be indexed." in error
    assert "feedline index" not in error


@pytest.mark.parametrize("ask", ASK)
def test_with_records_left_out_no_index_helps(write, ask):
    path = write("a")
    records.index(path)
    error = told(ask, Dataset.from_tfrecords(path, on_corrupt="skip"))
    assert 'on_corrupt="skip" drops records' in error


def keep(x):
    return True


def generated():
    return Dataset.from_generator(lambda: iter([1]))


BEYOND_HELP = {
    "a filter": lambda path: Dataset.from_tfrecords(path).filter(keep),
    "another source": lambda path: Dataset.zip(generated(), Dataset.from_tfrecords(path)),
    "files by turns": lambda path: Dataset.from_tfrecords([path, path], num_parallel_reads=2),
    "no end": lambda path: Dataset.from_tfrecords(path).repeat(),
    "no files": lambda path: generated(),
}


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("pipeline", BEYOND_HELP)
def test_where_an_index_would_not_help_none_is_advised(write, ask, pipeline):
    assert "feedline index" not in told(ask, BEYOND_HELP[pipeline](write("a")))


def test_a_length_is_helped_where_random_access_is_not(write):
    path = write("a")
    shuffled = Dataset.from_tfrecords(path).shuffle(10)
    assert "feedline index" in told("len(ds)", shuffled)
    assert "feedline index" not in told("ds[0]", shuffled)


def test_explain_says_that_a_shared_cache_would_use_an_index(write, tmp_path):
    path = write("a")

    def cached():
        return Dataset.from_tfrecords(path).cache(tmp_path / "cache").filter(keep)

    shown = str(cached().explain())
    assert f"{path} has no index. To write one:  feedline index {path}" in shown
    assert "runs that fill a cache together use an index" in shown
    records.index(path)
    assert "feedline index" not in str(cached().explain())
    assert "feedline index" not in str(Dataset.from_tfrecords(write("b")).filter(keep).explain())
