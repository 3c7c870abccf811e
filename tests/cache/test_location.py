import gc
import os
import shutil
import time

import msgspec
import pytest

import feedline as fl
from feedline.cache import filling, in_redis
from feedline.cache import plan as documents
from feedline.cache.in_directory import DirectoryStore
from feedline.cache.plan import Plan
from feedline.cache.store import opened
from tests.cache.places import put_entry, run_indexed, run_streamed, user_of
from tests.cache.redis_server import running
from tests.processes import start_python

KEY, OTHER = "0123" * 8, "0124" * 8


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    """1,000 numbers make four parts."""
    monkeypatch.setattr(filling, "PART_BYTES", 2048)
    monkeypatch.setattr(filling, "PART_SECONDS", 1000.0)


@pytest.fixture
def cache(tmp_path):
    return fl.Cache(tmp_path)


@pytest.fixture(params=[run_indexed, run_streamed])
def run(request):
    return request.param


def items(tmp_path, entry):
    return tmp_path / entry.key / "items"


def put_plan(location, key, data):
    with opened(DirectoryStore(location), key) as entry:
        entry.put("plan", [data])


# Looking


def test_an_entry_tells_what_it_has(tmp_path, cache, run):
    before = time.time()
    run(tmp_path)
    [entry] = cache.entries()
    assert (entry.elements, entry.parts, entry.parts_in_all, entry.complete) == (1000, 4, 4, True)
    assert entry.bytes == sum(item.stat().st_size for item in items(tmp_path, entry).iterdir()) > 8000
    assert before - 1 < entry.made <= entry.used + 0.1 < time.time() + 1
    assert (entry.hits, entry.users, entry.trouble) == (0, (), "")
    run(tmp_path)
    assert cache.entries()[0].hits == 1


def test_an_entry_that_is_not_complete_tells_how_far_it_is(tmp_path, cache):
    with iter(fl.Dataset.range(1000).cache(tmp_path)) as rows:
        next(rows)
        [entry] = cache.entries()
    assert (entry.elements, entry.parts, entry.parts_in_all, entry.complete) == (None, 1, 4, False)
    assert "1 of 4 parts" in repr(entry)


def test_how_many_parts_a_stream_has_is_known_at_its_end(tmp_path, cache):
    with iter(fl.Dataset.range(1000).filter(lambda x: x >= 0).cache(tmp_path)) as rows:
        next(rows)
        [entry] = cache.entries()
    assert (entry.elements, entry.parts, entry.parts_in_all, entry.complete) == (None, 1, None, False)


def test_an_entry_that_lost_a_part_is_not_complete(tmp_path, cache, run):
    run(tmp_path)
    (items(tmp_path, cache.entries()[0]) / "part-00000002").unlink()
    [entry] = cache.entries()
    assert (entry.elements, entry.parts, entry.parts_in_all, entry.complete) == (1000, 3, 4, False)


def test_the_steps_are_those_of_the_plan(tmp_path, cache):
    pipeline = {
        "range": "Range",
        "range: stop": "5",
        "map(double)": "Map",
        "map(double): function double": "...",
        "library numpy": "2.0",
        "feedline's steps": "1",
    }
    plan = Plan(key=KEY, length=None, seeds=(), pipeline=pipeline)
    put_plan(tmp_path, KEY, documents.encode(plan))
    [entry] = cache.entries()
    assert entry.steps == "range -> map(double)"
    assert entry.pipeline == pipeline
    assert repr(entry).startswith(f"<CacheEntry {KEY}: range -> map(double), ")


def test_the_one_that_was_used_last_comes_first(tmp_path, cache):
    put_entry(tmp_path, KEY, 10, used=1000)
    put_entry(tmp_path, OTHER, 10, used=2000)
    assert [entry.key for entry in cache.entries()] == [OTHER, KEY]
    put_entry(tmp_path, KEY, 10)
    assert [entry.key for entry in cache.entries()] == [KEY, OTHER]


def test_who_uses_an_entry_is_told_while_it_lives(tmp_path, cache):
    put_entry(tmp_path, KEY, 10)
    with user_of(tmp_path, KEY) as process:
        [user] = cache.entries()[0].users
        assert f"process {process.pid} " in user
        process.kill()
        process.wait(200)
        assert cache.entries()[0].users == ()


def test_an_entry_is_not_in_use_any_more_once_its_dataset_is_gone(tmp_path, cache, run):
    gc.disable()
    try:
        run(tmp_path)
        assert cache.entries()[0].users == ()
    finally:
        gc.enable()


def test_looking_does_not_count_as_use(tmp_path, cache, run):
    run(tmp_path)
    [entry] = cache.entries()
    os.utime(tmp_path / entry.key / "used", (1000, 1000))
    assert cache.verify() == []
    assert cache.entry(entry.key).used == 1000
    assert cache.entry(entry.key).hits == 0


def test_a_location_in_redis_is_looked_after_as_a_directory_is(tmp_path, monkeypatch):
    monkeypatch.setattr(in_redis, "SMALL", 1000)  # so that parts lie in `blobs`
    blobs = tmp_path / "blobs"
    (tmp_path / "redis").mkdir()
    with running(tmp_path / "redis") as server:
        dataset = fl.Dataset.range(1000).cache(server.url, blobs=blobs)
        assert len(list(dataset)) == 1000
        cache = fl.Cache(server.url, blobs=blobs)
        [entry] = cache.entries()
        assert (entry.elements, entry.parts, entry.complete, entry.steps) == (1000, 4, True, "range")
        assert cache.verify() == []
        assert {found.what for found in fl.Cache(server.url).verify()} == {
            "it lies elsewhere: blobs= was not given, or does not have it"
        }
        with pytest.raises(fl.CacheError, match=f"in use by process {os.getpid()} "):
            cache.remove(entry.key)
        del dataset
        assert [one.key for one in cache.evict(0)] == [entry.key]
        assert fl.Cache(blobs).entries() == []


def test_what_is_no_entry_is_not_listed(tmp_path, cache):
    (tmp_path / "notes").mkdir()
    (tmp_path / KEY).write_text("a file")
    assert cache.entries() == []
    assert cache.verify() == []


def test_a_location_that_is_not_there_has_no_entries(tmp_path):
    cache = fl.Cache(tmp_path / "none")
    assert (cache.entries(), cache.verify(), cache.evict(0)) == ([], [], [])
    assert not (tmp_path / "none").exists()


def test_a_location_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(fl.CacheError, match=f"{tmp_path}/file cannot be read: Not a directory"):
        fl.Cache(tmp_path / "file").entries()


def test_a_location_must_be_given():
    with pytest.raises(fl.UsageError, match="give the location"):
        fl.Cache("")
    assert repr(fl.Cache("/a/b")) == "Cache('/a/b')"


# Entries that are of no use


def damaged_plan(location):
    put_plan(location, KEY, b"this is no plan")


def plan_of_another_version(location):
    text = msgspec.json.encode({"key": KEY, "length": None, "seeds": [], "compression": "lz77"})
    put_plan(location, KEY, documents.digest(text).hex().encode() + b"\n" + text + b"\n")


def no_plan(location):
    put_entry(location, KEY, 100)


def nothing_at_all(location):
    (location / KEY).mkdir()


def only_folders(location):
    """Who made them was killed before it made the lock."""
    (location / KEY / "items").mkdir(parents=True)


def a_file_for_a_folder(location):
    (location / KEY).mkdir()
    (location / KEY / "items").write_text("a file")


USELESS = {
    damaged_plan: "damaged",
    plan_of_another_version: "cannot be read",
    no_plan: "no plan",
    nothing_at_all: "",
    only_folders: "",
    a_file_for_a_folder: "cannot be read",
}


@pytest.mark.parametrize("make", USELESS, ids=lambda make: make.__name__)
def test_an_entry_of_no_use_is_shown_and_can_be_removed(tmp_path, cache, make):
    make(tmp_path)
    [entry] = cache.entries()
    assert entry.key == KEY
    assert not entry.complete
    assert entry.elements is None
    assert USELESS[make] in entry.trouble
    assert bool(USELESS[make]) == bool(entry.trouble) == bool(cache.verify())
    assert KEY in repr(entry)
    cache.remove(KEY)
    assert cache.entries() == []
    assert list(tmp_path.iterdir()) == []


# Verifying


def flip_a_bit(parts):
    data = bytearray(parts[1].read_bytes())
    data[len(data) // 2] ^= 4
    parts[1].write_bytes(data)


def flip_a_bit_of_the_footer(parts):
    data = bytearray(parts[1].read_bytes())
    data[-40] ^= 1
    parts[1].write_bytes(data)


def truncate(parts):
    parts[1].write_bytes(parts[1].read_bytes()[:-1])


def empty(parts):
    parts[1].write_bytes(b"")


def fill_with_zeros(parts):
    parts[1].write_bytes(bytes(parts[1].stat().st_size))


def swap(parts):
    one, other = parts[1].read_bytes(), parts[2].read_bytes()
    parts[1].write_bytes(other)
    parts[2].write_bytes(one)


def copy_over(parts):
    parts[1].write_bytes(parts[2].read_bytes())


def lose(parts):
    parts[1].unlink()


def lose_the_last(parts):
    parts[3].unlink()


def add_one(parts):
    shutil.copy(parts[3], parts[3].with_name("part-00000004"))


def add_a_stranger(parts):
    parts[3].with_name("part-4").write_bytes(b"a stranger")


def flip_a_bit_of_the_manifest(parts):
    path = parts[0].with_name("manifest")
    path.write_bytes(path.read_bytes().replace(b"256", b"257", 1))


def lose_the_plan(parts):
    parts[0].with_name("plan").unlink()


def flip_a_bit_of_the_plan(parts):
    path = parts[0].with_name("plan")
    path.write_bytes(path.read_bytes().replace(b"seeds", b"seedz"))


DAMAGES = {
    flip_a_bit: {"part-00000001": "checksum"},
    flip_a_bit_of_the_footer: {"part-00000001": "checksum"},
    truncate: {"part-00000001": ""},
    empty: {"part-00000001": "0 bytes"},
    fill_with_zeros: {"part-00000001": "does not end as a part does"},
    swap: {"part-00000001": "the number 2", "part-00000002": "the number 1"},
    copy_over: {"part-00000001": "the number 2"},
    lose: {"part-00000001": "missing"},
    lose_the_last: {"part-00000003": "missing"},
    add_one: {"part-00000004": "the number 3"},
    add_a_stranger: {"part-4": "none of what an entry has"},
    flip_a_bit_of_the_manifest: {"manifest": "damaged"},
    lose_the_plan: {"plan": "missing"},
    flip_a_bit_of_the_plan: {"plan": "damaged"},
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_verify_finds_damage_and_leaves_it(tmp_path, cache, run, damage):
    expected = run(tmp_path)
    [entry] = cache.entries()
    put_entry(tmp_path, OTHER, 0)
    (tmp_path / OTHER / "items" / "part-00000000").unlink()
    assert cache.verify() == []
    damage([items(tmp_path, entry) / f"part-{number:08}" for number in range(4)])
    before = {path: path.read_bytes() for path in items(tmp_path, entry).iterdir()}
    findings = cache.verify()
    assert [(found.key, found.item) for found in findings] == [(entry.key, item) for item in DAMAGES[damage]]
    for found, what in zip(findings, DAMAGES[damage].values(), strict=True):
        assert what in found.what
        assert str(found) == f"{entry.key}: {found.item}: {found.what}"
    assert {path: path.read_bytes() for path in items(tmp_path, entry).iterdir()} == before
    assert cache.verify(entry.key[:6]) == findings
    assert cache.verify(OTHER) == []
    assert len(expected) == 1000


@pytest.mark.filterwarnings("ignore:.*It is computed again:RuntimeWarning")
@pytest.mark.parametrize("damage", [flip_a_bit, truncate, swap, lose, lose_the_last])
def test_a_run_mends_what_verify_finds(tmp_path, cache, run, damage):
    expected = run(tmp_path)
    damage([items(tmp_path, cache.entries()[0]) / f"part-{number:08}" for number in range(4)])
    assert cache.verify()
    assert run(tmp_path) == expected
    assert cache.verify() == []


def test_a_part_of_another_entry_is_found(tmp_path, cache, run):
    run(tmp_path, 1000)
    run(tmp_path, 1001)
    one, other = cache.entries()
    shutil.copy(items(tmp_path, one) / "part-00000001", items(tmp_path, other) / "part-00000001")
    [found] = cache.verify()
    assert (found.key, found.item) == (other.key, "part-00000001")
    assert "another plan" in found.what


def test_an_entry_under_the_key_of_another_is_found(tmp_path, cache, run):
    run(tmp_path)
    [entry] = cache.entries()
    (tmp_path / entry.key).rename(tmp_path / KEY)
    [found] = cache.verify()
    assert (found.key, found.item) == (KEY, "plan")
    assert entry.key in found.what


def test_a_manifest_of_another_entry_is_found(tmp_path, cache):
    run_indexed(tmp_path, 1000)
    run_indexed(tmp_path, 2000)
    one, other = cache.entries()
    shutil.copy(items(tmp_path, one) / "manifest", items(tmp_path, other) / "manifest")
    [found] = cache.verify()
    assert (found.key, found.item, found.what) == (other.key, "manifest", "it does not fit the plan")
    assert not cache.entry(other.key).complete
    assert "of another plan" in cache.entry(other.key).trouble


def test_a_manifest_that_tells_other_sizes_of_a_stream_is_found(tmp_path, cache):
    run_streamed(tmp_path)
    path = items(tmp_path, cache.entries()[0]) / "manifest"
    plan = documents.decode(path.read_bytes(), documents.Manifest).plan
    path.write_bytes(documents.encode(documents.Manifest(plan, (256, 255, 257, 232))))
    assert [found.item for found in cache.verify()] == ["part-00000001", "part-00000002"]
    path.write_bytes(documents.encode(documents.Manifest(plan, (256, 256, 256))))
    found = cache.verify()
    assert [one.item for one in found] == ["part-00000002", "part-00000003"]
    assert "whether it is the last" in found[0].what
    assert found[1].what == "there should be 3 parts only"


def test_an_entry_that_is_not_complete_is_verified_as_far_as_it_is(tmp_path, cache, run):
    run(tmp_path)
    folder = items(tmp_path, cache.entries()[0])
    (folder / "manifest").unlink()
    (folder / "part-00000002").unlink()
    assert cache.verify() == []
    flip_a_bit([folder / f"part-{number:08}" for number in range(4)])
    assert [found.item for found in cache.verify()] == ["part-00000001"]


def test_verify_tells_how_far_it_is(tmp_path, cache):
    run_indexed(tmp_path)
    told = []
    cache.verify(progress=told.append)
    assert len(told) == 4
    assert told == sorted(told)
    assert 8000 < told[-1] < cache.entries()[0].bytes


def test_an_entry_is_verified_while_another_process_uses_it(tmp_path, cache):
    run_indexed(tmp_path)
    with user_of(tmp_path, cache.entries()[0].key):
        assert cache.verify() == []


# Removing


def test_an_entry_is_removed_by_its_key_or_the_first_digits(tmp_path, cache):
    put_entry(tmp_path, KEY, 10)
    put_entry(tmp_path, OTHER, 10)
    cache.remove(KEY)
    assert [entry.key for entry in cache.entries()] == [OTHER]
    cache.remove("0124")
    assert cache.entries() == []


def test_first_digits_that_two_keys_have_are_refused(tmp_path, cache):
    put_entry(tmp_path, "0123" * 8, 10)
    put_entry(tmp_path, "01234" * 6 + "01", 10)
    with pytest.raises(fl.UsageError, match=rf"0123 may be {KEY} or 01234.*give more digits"):
        cache.remove("0123")
    cache.remove("01230")
    assert len(cache.entries()) == 1


@pytest.mark.parametrize("key", ["", "012", "01234z", "0123" * 9, "*", "../0123", 123, None])
def test_what_is_no_key_is_refused(tmp_path, cache, key):
    put_entry(tmp_path, KEY, 10)
    for use in (cache.remove, cache.entry):
        with pytest.raises(fl.UsageError, match="is no key of an entry"):
            use(key)
    assert len(cache.entries()) == 1


def test_a_key_that_no_entry_has_is_refused(tmp_path, cache):
    put_entry(tmp_path, KEY, 10)
    for use in (cache.remove, cache.entry, cache.verify):
        with pytest.raises(
            fl.UsageError, match=f"there is no entry {OTHER}.*\n.*feedline cache ls {tmp_path}"
        ):
            use(OTHER)


def test_an_entry_in_use_is_not_removed_and_the_error_says_by_whom(tmp_path, cache):
    put_entry(tmp_path, KEY, 10)
    with user_of(tmp_path, KEY) as process:
        with pytest.raises(fl.CacheError, match=f"entry {KEY} is in use by process {process.pid} "):
            cache.remove(KEY)
        assert cache.evict(0) == []
        assert cache.entries()[0].bytes == 10
        process.kill()
        process.wait(200)
        cache.remove(KEY)
    assert cache.entries() == []


def test_an_entry_that_was_removed_is_made_anew_by_the_next_run(tmp_path, cache, run):
    expected = run(tmp_path)
    cache.remove(cache.entries()[0].key)
    assert run(tmp_path) == expected
    assert cache.entries()[0].complete


# Evicting


def test_evict_gives_the_entries_that_went(tmp_path, cache):
    run_indexed(tmp_path, 1000)
    time.sleep(0.02)
    run_streamed(tmp_path, 1000)
    newest, oldest = cache.entries()
    assert cache.evict(newest.bytes + oldest.bytes) == []
    assert cache.evict(newest.bytes + oldest.bytes - 1) == [oldest]
    assert cache.entries() == [newest]
    assert cache.evict("1B") == [newest]


@pytest.mark.parametrize("max_bytes", [0, "0"])
def test_evict_to_nothing_removes_all(tmp_path, cache, max_bytes):
    put_entry(tmp_path, KEY, 10)
    assert [entry.key for entry in cache.evict(max_bytes)] == [KEY]


@pytest.mark.parametrize("max_bytes", [-1, "a lot", None, 1.5, False])
def test_a_size_that_cannot_be_meant_is_refused(tmp_path, cache, max_bytes):
    put_entry(tmp_path, KEY, 10)
    with pytest.raises(fl.UsageError, match=r"evict\(max_bytes="):
        cache.evict(max_bytes)
    assert len(cache.entries()) == 1


REMOVER = """
import sys
from feedline.cache.in_directory import DirectoryStore
store = DirectoryStore(sys.argv[1])
print("ready", flush=True)
while True:
    store.remove(sys.argv[2])
"""


def test_an_entry_can_be_opened_while_another_process_removes_it(tmp_path):
    """As by a run that begins in the moment in which another makes room."""
    store = DirectoryStore(tmp_path)
    with start_python(REMOVER, str(tmp_path), KEY) as remover:
        try:
            assert remover.stdout.readline() == "ready\n", remover.stderr.read()
            for _ in range(200):
                with opened(store, KEY) as entry:
                    entry.put("plan", [b"a plan"])
                    assert entry.has("plan")
        finally:
            remover.kill()
