import os
import pickle
import time
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from feedline import Cache, Dataset
from feedline.cache import eviction, filling
from feedline.cache.eviction import Bound, evict
from feedline.cache.in_directory import DirectoryStore
from feedline.cache.store import NoRoom, opened
from feedline.errors import CacheError
from tests.cache.places import put_entry, user_of
from tests.processes import start_python

OLD, MIDDLE, NEW, MINE = ("a" * 32, "b" * 32, "c" * 32, "d" * 32)


@pytest.fixture
def location(tmp_path):
    """Three entries of 1,000 bytes each."""
    now = time.time()
    put_entry(tmp_path, MIDDLE, 1000, used=now - 200)
    put_entry(tmp_path, OLD, 1000, used=now - 300)
    put_entry(tmp_path, NEW, 1000, used=now - 100)
    return tmp_path


@pytest.fixture
def store(location):
    return DirectoryStore(location)


def total(store):
    return sum(info.bytes for info in eviction.look(store))


@pytest.mark.parametrize(
    ("max_bytes", "gone"),
    [(3000, []), (2999, [OLD]), (2000, [OLD]), (1999, [OLD, MIDDLE]), (1, [OLD, MIDDLE, NEW])],
)
def test_the_least_recently_used_go_until_the_rest_fits(store, max_bytes, gone):
    removed = evict(store, max_bytes)
    assert [info.key for info in removed] == gone
    assert [info.bytes for info in removed] == [1000] * len(gone)
    assert store.keys() == sorted({OLD, MIDDLE, NEW} - set(gone))


def test_opening_an_entry_makes_it_the_one_that_goes_last(store):
    with opened(store, OLD):
        pass
    assert [info.key for info in evict(store, 1000)] == [MIDDLE, NEW]


def test_an_entry_that_this_process_has_open_stays(store):
    with opened(store, OLD):
        assert [info.key for info in evict(store, 0)] == [MIDDLE, NEW]
    assert [info.key for info in evict(store, 0)] == [OLD]


def test_an_entry_that_another_process_has_open_stays_until_that_is_killed(location, store):
    with user_of(location, OLD) as process:
        os.utime(location / OLD / "used", (1, 1))
        assert [info.key for info in evict(store, 2000)] == [MIDDLE]
        process.kill()
        process.wait(200)
        assert [info.key for info in evict(store, 1000)] == [OLD]


def test_an_entry_that_is_open_for_reading_only_stays(store, monkeypatch):
    """It cannot leave a mark there, but it has the lock."""
    monkeypatch.setattr(DirectoryStore, "_why_not", lambda self: "nothing may be written here")
    with opened(store, OLD):
        assert list(store.info(OLD).users) == []
        assert [info.key for info in evict(store, 2000)] == [MIDDLE]


def test_an_entry_that_cannot_be_removed_is_told_of_after_the_others_went(location, store, monkeypatch):
    class Stubborn(DirectoryStore):
        def remove(self, key):
            if key == OLD:
                raise CacheError("it stays.")
            return super().remove(key)

    assert [info.key for info in evict(Stubborn(location), 2000)] == [MIDDLE]
    with pytest.raises(CacheError, match=r"it stays\.\n  1 other entries"):
        evict(Stubborn(location), 0)
    assert store.keys() == [OLD]


def test_what_cannot_be_looked_at_is_passed_over(location, store):
    (location / ("e" * 32)).mkdir()
    (location / ("e" * 32) / "items").write_bytes(b"no folder")
    assert [info.key for info in evict(store, 0)] == [OLD, MIDDLE, NEW]


def test_a_location_that_is_not_there_has_nothing_to_evict(tmp_path):
    assert evict(DirectoryStore(tmp_path / "none"), 0) == []
    Bound(DirectoryStore(tmp_path / "none"), 10).make_room(10)


# The limit


def test_a_part_for_which_there_is_room_evicts_nothing(store):
    Bound(store, 4000).make_room(1000)
    assert len(store.keys()) == 3


def test_the_least_recently_used_make_room_for_a_part(store):
    Bound(store, 3999).make_room(1000)
    assert store.keys() == [MIDDLE, NEW]


def test_a_part_that_fits_beside_nothing_evicts_nothing(store):
    with pytest.raises(NoRoom):
        Bound(store, 3000).make_room(3001)
    with opened(store, NEW), pytest.raises(NoRoom):
        Bound(store, 3000).make_room(2001)
    assert len(store.keys()) == 3


def test_an_entry_grows_up_to_the_limit_and_no_further(location, store):
    bound = Bound(store, 2600)
    with opened(store, MINE) as entry:
        for number in range(5):
            bound.make_room(500)
            entry.put(f"part-{number}", [bytes(500)])
        with pytest.raises(NoRoom) as raised:
            bound.make_room(500)
    assert store.keys() == [MINE]
    text = str(raised.value)
    assert str(location) in text
    assert "cache_limit=2,600" in text
    assert "there are 2,500 bytes, and 2,500 are in use" in text
    assert "Give a larger cache_limit=" in text
    assert str(pickle.loads(pickle.dumps(raised.value))) == text


class Counting(DirectoryStore):
    looks = 0

    def keys(self):
        self.looks += 1
        return super().keys()


def test_far_from_the_limit_it_seldom_looks(location, monkeypatch):
    monkeypatch.setattr(eviction, "_SECONDS", 60.0)
    store = Counting(location)
    bound = Bound(store, 10**12)
    for _ in range(63):
        bound.make_room(1 << 20)
    assert store.looks == 1
    for _ in range(64):
        bound.make_room(1 << 20)
    assert store.looks == 2


def test_near_the_limit_it_looks_each_time(location):
    store = Counting(location)
    bound = Bound(store, 10_000)
    for _ in range(5):
        bound.make_room(1000)
    assert store.looks == 5


def test_what_it_saw_holds_for_a_while_only(location, monkeypatch):
    monkeypatch.setattr(eviction, "_SECONDS", 1000)
    store = Counting(location)
    bound = Bound(store, 10_000)
    bound.make_room(10)
    put_entry(location, MINE, 6995)  # by another
    with opened(store, MINE):
        bound.make_room(10)
        assert store.looks == 1
        bound._until = 0.0  # as if the time had passed
        bound.make_room(10)
    assert store.looks == 2
    assert store.keys() == [MIDDLE, NEW, MINE]


def test_a_little_more_goes_than_is_needed(store):
    """So that the next part need not look again at all entries, if there are many small ones."""
    Bound(store, 3200).make_room(1150)
    assert store.keys() == [NEW]


FILLER = """
import sys
from feedline.cache.eviction import Bound
from feedline.cache.in_directory import DirectoryStore
from feedline.cache.store import NoRoom

location, key, limit, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
store = DirectoryStore(location)
bound = Bound(store, limit)
entry = store.open(key)
print("ready", flush=True)
sys.stdin.readline()
number = 0
try:
    while True:
        bound.make_room(size)
        entry.put(f"part-{number:08}", [bytes(size)])
        number += 1
except NoRoom:
    print(number, flush=True)
sys.stdin.read()
"""


@contextmanager
def several_filling(location, limit, part, runs):
    """Processes that fill entries of their own until there is no room; how many parts each has put."""
    keys = [f"{number:032x}" for number in range(runs)]
    with ExitStack() as running:
        fillers = []
        for key in keys:
            filler = running.enter_context(start_python(FILLER, str(location), key, str(limit), str(part)))
            running.callback(filler.kill)
            fillers.append(filler)
        for filler in fillers:
            assert filler.stdout.readline() == "ready\n", filler.stderr.read()
        for filler in fillers:
            filler.stdin.write("go\n")
            filler.stdin.flush()
        yield keys, lambda: [int(filler.stdout.readline()) for filler in fillers]


def test_several_processes_that_fill_at_once_keep_the_limit(location, store):
    part, limit, runs = 20_000, 2_000_000, 4
    for number in range(20, 40):
        put_entry(location, f"{number:032x}", 90_000)
    most = 0
    with user_of(location, OLD), several_filling(location, limit, part, runs) as (keys, parts):
        for _ in range(100):
            most = max(most, total(store))
        put = parts()
        assert {OLD, *keys} <= set(store.keys()), "one went that was in use"
        rest = total(store) - part * sum(put)
        assert total(store) > limit - part
    assert sum(put) * part > limit // 2
    assert rest < limit // 2, "those that nobody used did not go"
    # Far from the limit, each run puts up to an eighth of what it saw free before it looks again.
    assert max(most, part * sum(put)) <= limit + runs * (part + limit // 8)


def test_near_the_limit_several_processes_exceed_it_by_a_part_each_at_most(location, store):
    part, limit, runs = 150_000, 1_000_000, 4  # an eighth is less than a part
    with several_filling(location, limit, part, runs) as (_, parts):
        put = parts()
        assert limit - part < total(store) <= limit + runs * part
    assert sum(put) >= limit // part


# In runs


def run(location, begin, **settings):
    """32 MB of rows, about."""
    rows = Dataset.range(begin, begin + 4000).map(lambda x: np.full(1000, x)).cache(location, **settings)
    return [int(row[0]) for row in rows] == list(range(begin, begin + 4000))


def test_a_run_evicts_what_was_not_used_for_the_longest_time(tmp_path):
    for begin in (0, 10_000, 20_000):
        assert run(tmp_path, begin, cache_limit="100MB")
    before = {entry.key for entry in Cache(tmp_path).entries()}
    oldest = Cache(tmp_path).entries()[-1].key
    assert run(tmp_path, 30_000, cache_limit="100MB")
    after = Cache(tmp_path).entries()
    assert before - {entry.key for entry in after} == {oldest}
    assert all(entry.complete for entry in after)
    assert sum(entry.bytes for entry in after) <= 100_000_000


def test_a_run_for_which_there_is_no_room_goes_on_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(filling, "PART_BYTES", 1 << 20)
    with pytest.warns(RuntimeWarning, match=r"cache_limit=10,000,000[^$]*goes on without this cache") as told:
        assert run(tmp_path, 0, cache_limit="10MB")
    assert len(told) == 1
    [entry] = Cache(tmp_path).entries()
    assert not entry.complete
    assert 8_000_000 < entry.bytes <= 10_000_000
    assert Cache(tmp_path).verify() == []
