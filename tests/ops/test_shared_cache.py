"""cache(location): each element is computed once for all runs, and all get what an uncached run gets."""

from __future__ import annotations

import threading
from itertools import islice

import pytest

from feedline import Cache, Dataset
from feedline.testing import Failed, assert_same, check_errors, check_laws
from tests.ops.sources import every_source

INDEXED, STREAMED = Dataset.range(100), Dataset.range(100).filter(lambda x: True)
each_kind = pytest.mark.parametrize("source", [INDEXED, STREAMED], ids=["indexed", "streamed"])


class Counted:
    """A function that counts its calls."""

    def __init__(self, function=lambda x: x):
        self.calls = 0
        self._function = function

    def __call__(self, *element):
        self.calls += 1
        return self._function(*element)


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
