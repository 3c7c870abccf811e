"""cache(location): each element is computed once for all runs, and all get what an uncached run gets."""

from __future__ import annotations

import os
import threading
import time
from itertools import islice

import numpy as np
import pytest

from feedline import Cache, Dataset, FixedLenFeature, TFRecordWriter, UsageError, records
from feedline.cache import filling
from feedline.cache.in_directory import DirectoryStore
from feedline.cache.shared import SharedEntry
from feedline.cache.store import NoRoom
from feedline.records.beside import index_path
from feedline.testing import Failed, assert_same, check_errors, check_laws
from tests.ops.counted import Counted
from tests.ops.sources import every_source

INDEXED, STREAMED = Dataset.range(100), Dataset.range(100).filter(lambda x: True)
each_kind = pytest.mark.parametrize("source", [INDEXED, STREAMED], ids=["indexed", "streamed"])


def ints(dataset):
    return [int(x) for x in dataset]


@every_source
def test_it_obeys_the_laws(source, tmp_path):
    check_laws(lambda ds: ds.cache(tmp_path / "new"), source)


@every_source
def test_what_is_cached_obeys_the_laws(source, tmp_path):
    elements = list(source.cache(tmp_path))
    assert_same(check_laws(lambda ds: ds, source.cache(tmp_path)), elements)
    assert_same(source, elements)


@each_kind
def test_elements_are_computed_once(source, tmp_path):
    function = Counted()
    mapped = source.map(lambda x: function(x))
    for _ in range(3):
        assert ints(mapped.cache(tmp_path, version="1")) == list(range(100))
    cached = mapped.cache(tmp_path, version="1")
    assert ints(cached.repeat(2)) == 2 * list(range(100))
    assert function.calls == 100


@each_kind
def test_errors_come_in_their_places(source, tmp_path):
    def fail(x):
        if x % 3 == 2:
            raise Failed(f"function, {x}")
        return x

    plain = check_errors(lambda ds: ds.map(fail), source.take(14))
    assert check_errors(lambda ds: ds.map(fail).cache(tmp_path), source.take(14)) == plain


@each_kind
def test_one_that_stops_early_is_gone_on_with(source, tmp_path):
    function = Counted()
    mapped = source.map(lambda x: function(x))
    assert ints(islice(mapped.cache(tmp_path, version="1"), 30)) == list(range(30))
    assert ints(mapped.cache(tmp_path, version="1")) == list(range(100))
    assert function.calls <= 100


def test_by_index(tmp_path):
    function = Counted()
    cached = INDEXED.map(lambda x: function(x)).cache(tmp_path, version="1")
    assert int(cached[57]) == 57
    assert sorted(ints(cached.shuffle(seed=1))) == list(range(100))
    assert ints(cached) == list(range(100))
    assert function.calls == 100


@each_kind
def test_threads_share_the_work(source, tmp_path):
    calls = []
    results = {}

    def slow(x):
        calls.append(int(x))
        return x

    def run(number):
        results[number] = ints(source.map(slow).cache(tmp_path, version="1"))

    threads = [threading.Thread(target=run, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[number] == list(range(100)) for number in range(4))
    assert sorted(calls) == list(range(100))


def test_an_entry_without_elements_is_complete(tmp_path):
    for source in (Dataset.range(0), Dataset.range(9).filter(lambda x: False)):
        assert list(source.cache(tmp_path)) == []
    assert [(entry.elements, entry.complete) for entry in Cache(tmp_path).entries()] == [(0, True)] * 2


def test_files_may_get_and_lose_their_index(tmp_path):
    path = str(tmp_path / "numbers.tfrecord")
    with TFRecordWriter(path) as writer:
        writer.write_batch({"n": np.arange(3000)})

    def numbers(location):
        rows = Dataset.from_tfrecords(path, {"n": FixedLenFeature([], np.int64)})
        return rows.map(lambda row: row["n"]).cache(tmp_path / location, version="1")

    def start(location):
        return [int(x) for x in islice(numbers(location), 40)]

    assert start("streamed") == list(range(40))
    records.index(path)
    assert len(Dataset.from_tfrecords(path)) == 3000
    assert ints(numbers("streamed")) == list(range(3000))
    assert sorted(ints(numbers("streamed").shuffle(seed=1))) == list(range(3000))
    assert start("indexed") == list(range(40))
    os.unlink(index_path(path))
    with pytest.warns(RuntimeWarning, match="read its input by number, 3,000 elements, and this one"):
        assert ints(numbers("indexed")) == list(range(3000))


SCALE = 1


@each_kind
def test_what_changes_between_two_iterations_is_not_mixed(source, tmp_path, monkeypatch):
    monkeypatch.setattr(filling, "PART_SECONDS", 0)  # so that the first iteration does not complete the entry
    scaled = source.map(lambda x: x * SCALE).cache(tmp_path)
    assert ints(islice(scaled, 3)) == [0, 1, 2]
    monkeypatch.setitem(globals(), "SCALE", 2)
    assert ints(scaled) == [2 * x for x in range(100)]
    monkeypatch.setitem(globals(), "SCALE", 1)
    assert ints(source.map(lambda x: x * SCALE).cache(tmp_path)) == list(range(100))


def test_who_is_late_with_its_plan_publishes_nothing_of_its_own(tmp_path, monkeypatch):
    """Two runs with seeds of their own make a plan at the same time: the first one's counts."""
    pipelines = [Dataset.range(60).shuffle().cache(tmp_path, version="1") for _ in range(2)]
    propose, others = SharedEntry.propose, []

    def late(self, plan):
        if not others:
            others.append(None)
            claim = SharedEntry.claim
            with monkeypatch.context() as patched:  # as if the first had been silent for long
                patched.setattr(SharedEntry, "claim", lambda self, name: claim(self, f"late-{name}"))
                others[0] = ints(islice(pipelines[1], 1))
        return propose(self, plan)

    monkeypatch.setattr(SharedEntry, "propose", late)
    first = ints(pipelines[0])
    assert sorted(first) == list(range(60))
    assert others[0] == first[:1]
    assert ints(Dataset.range(60).shuffle().cache(tmp_path, version="1")) == first


@each_kind
def test_rows_are_read_only_also_where_nothing_can_be_kept(source, tmp_path):
    cached = source.map(lambda x: np.full(3, x)).cache(tmp_path, cache_limit=1)
    with pytest.warns(RuntimeWarning, match="cache_limit=1"):
        elements = list(cached)
    assert len(elements) == 100
    assert not any(element.flags.writeable for element in elements)


def test_closing_does_not_wait_for_another_run(tmp_path):
    others = DirectoryStore(tmp_path).open(Dataset.range(9).fingerprint())
    claim = others.claim("part-00000000")  # it is busy, and there is no plan yet
    rows = iter(Dataset.range(9).cache(tmp_path).prefetch(2))

    def read():
        with pytest.raises(UsageError, match=r"closed while another thread read|iterator is closed"):
            next(rows)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    time.sleep(0.2)
    rows.close()
    reader.join(200)
    assert not reader.is_alive()
    claim.release()
    others.close()


def test_a_generator_runs_once_though_the_end_cannot_be_told(tmp_path, monkeypatch):
    yielded = []

    def numbers():
        for x in range(50):
            yielded.append(x)
            yield x

    def refuse(self, rows):
        raise NoRoom("no room for the manifest")

    monkeypatch.setattr(SharedEntry, "finish", refuse)
    with pytest.warns(RuntimeWarning, match="no room for the manifest"):
        assert ints(Dataset.from_generator(numbers).cache(tmp_path, version="1")) == list(range(50))
    assert len(yielded) == 50


def test_one_line_says_what_changed_since_the_newest_entry_of_the_same_steps(tmp_path, caplog):
    for count in range(40):  # more entries than those of the same steps
        list(Dataset.range(count + 1).batch(2).cache(tmp_path))
    assert len(caplog.messages) == 39
    caplog.clear()

    def cached(factor):
        return ints(Dataset.range(5).map(lambda x: x * factor).cache(tmp_path))

    for factor in (2, 3, 4):
        assert cached(factor) == [factor * n for n in range(5)]
    assert len(caplog.messages) == 2
    for message, was, now in zip(caplog.messages, (2, 3), (3, 4), strict=True):
        assert message.startswith(f"{tmp_path}: these steps were cached before, and are computed anew.")
        assert f"was {was}" in message
        assert f"is {now}" in message
    assert cached(4) == [0, 4, 8, 12, 16]
    assert len(caplog.messages) == 2


def test_its_arguments_are_checked(tmp_path):
    for arguments, message in (
        ({"version": 1}, "give a string"),
        ({"cache_limit": "many"}, "cache_limit"),
        ({"on_unavailable": "wait"}, "'compute' to go on without"),
        ({"blobs": tmp_path}, "only a cache in Redis"),
    ):
        with pytest.raises(UsageError, match=message):
            list(Dataset.range(3).cache(tmp_path, **arguments))
    with pytest.raises(UsageError, match="say where"):
        Dataset.range(3).cache(version="1")
    with pytest.raises(UsageError, match="give a directory or a URL"):
        Dataset.range(3).cache(None)
