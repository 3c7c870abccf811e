"""Entries in Redis, against a real server."""

from __future__ import annotations

import gc
import pickle
import signal
import time
import weakref
from contextlib import suppress

import pytest

from feedline.cache import in_redis
from feedline.cache import store as law
from feedline.cache.in_directory import DirectoryStore
from feedline.cache.in_redis import RedisStore
from feedline.cache.opening import open_store
from feedline.cache.store import NoRoom, Unavailable, opened
from feedline.errors import CacheError, UsageError
from tests.cache.conformance import KEY, OTHER_KEY, SLACK, StoreSuite, content
from tests.cache.redis_server import certificates, running
from tests.processes import comes_true, run_python, start_python, stop

MEGABYTE = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def url(shared_server):
    """Of a server that holds nothing."""
    RedisStore(shared_server.url)._client.call("flushall")
    return shared_server.url


class TestRedisStore(StoreSuite):
    @pytest.fixture
    def location(self, url):
        return url

    @staticmethod
    def make_store(location):
        return RedisStore(location)


class TestRedisStoreWithBlobs(StoreSuite):
    @pytest.fixture
    def location(self, url, tmp_path, monkeypatch):
        monkeypatch.setattr(in_redis, "SMALL", 500)  # so that many of these tests put such
        return f"{url} {tmp_path / 'blobs'}"

    @staticmethod
    def make_store(location):
        url, blobs = location.split()
        return RedisStore(url, DirectoryStore(blobs))


def said_in_full(error, *words):
    """An error with its place and a remedy, that can be pickled; and without the password."""
    text = str(error)
    assert "secret" not in text
    assert "\n  " in text
    for word in words:
        assert word in text
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), text)
    return True


# Claims


@pytest.mark.parametrize("wait", ["sleep", "evict"])
def test_a_lease_that_ran_out_publishes_nothing_even_when_nobody_else_has_it(url, monkeypatch, wait):
    monkeypatch.setattr(law, "SILENCE", 0.3)
    store = RedisStore(url)
    with opened(store, KEY) as entry:
        claim = entry.claim("part-0")
        if wait == "sleep":
            time.sleep(0.5)
        else:
            store._client.call("delete", f"feedline:{{{KEY}}}:claim:part-0")
        monkeypatch.setattr(law, "SILENCE", 200)
        claim.renew()
        assert entry.put("part-0", [b"late"], claim) is False
        assert entry.read("part-0") is None
        again = entry.claim("part-0")
        assert entry.put("part-0", [b"anew"], again) is True
        claim.release()
        assert entry.claim("part-0") is None
        again.release()


def test_tokens_of_claims_grow(url):
    with opened(RedisStore(url), KEY) as one, opened(RedisStore(url), KEY) as two:
        tokens = []
        for entry, name in ((one, "part-0"), (two, "part-0"), (two, "part-1"), (one, "part-0")):
            claim = entry.claim(name)
            tokens.append(int(claim.value.split()[0]))
            claim.release()
    assert tokens == sorted(set(tokens))


def test_scripts_that_run_a_second_time_because_their_answer_was_lost_do_no_harm(url):
    store = RedisStore(url)
    with opened(store, KEY) as entry:
        keys = [entry._name("entry"), entry._name("claim", "part-0")]
        first, second = (
            store._client.run(in_redis._CLAIM, keys, entry._id, "token", 10_000) for _ in range(2)
        )
        assert first == second == b"1 token"
        put = (in_redis._PUT, keys, entry._id, b"1 token", "part-0", "part-0:blob", b"5 part-0-abc")
        assert [store._client.run(*put) for _ in range(2)] == [1, 1]
        assert store._client.run(*put[:-1], b"5 part-0-xyz") == 0
        assert entry.put("part-0", [b"small"]) is False


# Large items


def blobs_of(blobs):
    """The names of those of the one entry, without the token that tells the place."""
    [key] = blobs.keys()
    return [name for name in blobs.names(key) if name != "place"]


def test_small_items_are_in_redis_and_large_ones_beside_it(url, tmp_path):
    blobs = DirectoryStore(tmp_path)
    store = RedisStore(url, blobs)
    with opened(store, KEY) as entry:
        assert entry.put("plan", [b"small"])
        assert entry.put("part-0", [MEGABYTE, b"!"])
        assert int(store._client.call("hstrlen", entry._name("entry"), "part-0:blob")) < 100
        assert content(entry.read("part-0")) == MEGABYTE + b"!"
    assert store.peek(KEY, "part-0") == MEGABYTE + b"!"
    assert store.names(KEY) == ["part-0", "plan"]
    assert store.info(KEY).bytes == len(MEGABYTE) + 6
    [blob_key] = blobs.keys()
    [blob] = blobs_of(blobs)
    assert blobs.peek(blob_key, blob) == MEGABYTE + b"!"
    assert store.remove(KEY)
    assert blobs.keys() == []


def test_a_blob_without_a_marker_is_nobodys(url, tmp_path):
    store = RedisStore(url, DirectoryStore(tmp_path))
    with opened(store, KEY) as entry:
        entry._blobs.put("part-0", [b"of one that was killed"])
        entry._blobs.put("part-0-0123456789abcdef", [b"likewise"])
        assert not entry.has("part-0")
        assert entry.put("part-0", [MEGABYTE])
        assert content(entry.read("part-0")) == MEGABYTE


@pytest.mark.parametrize("late", [True, False])
def test_the_blob_of_one_that_came_second_does_not_stay(url, tmp_path, monkeypatch, late):
    blobs = DirectoryStore(tmp_path)
    with opened(RedisStore(url, blobs), KEY) as one, opened(RedisStore(url, blobs), KEY) as two:
        assert one.put("part-0", [MEGABYTE])
        if late:
            monkeypatch.setattr(two, "has", lambda name: False)  # as it was when it began to write
        assert two.put("part-0", [MEGABYTE[::-1]]) is False
        assert len(blobs_of(blobs)) == 1
        assert content(two.read("part-0")) == MEGABYTE


@pytest.mark.parametrize("damage", ["gone", "cut off"])
def test_a_blob_that_is_lost_is_an_item_that_is_not_there(url, tmp_path, damage):
    store = RedisStore(url, DirectoryStore(tmp_path))
    with opened(store, KEY) as entry:
        entry.put("part-0", [MEGABYTE])
        [path] = tmp_path.glob("*/items/part-0-*")
        path.unlink()
        if damage == "cut off":
            path.write_bytes(MEGABYTE[:1000])
        assert entry.read("part-0") is None
        assert not entry.has("part-0")
        assert entry.put("part-0", [MEGABYTE]) is True
        assert content(entry.read("part-0")) == MEGABYTE


def test_a_damaged_blob_is_dropped_and_put_again(url, tmp_path):
    with opened(RedisStore(url, DirectoryStore(tmp_path)), KEY) as entry:
        entry.put("part-0", [MEGABYTE])
        [path] = tmp_path.glob("*/items/part-0-*")
        path.write_bytes(MEGABYTE[::-1])
        entry.drop("part-0", MEGABYTE)
        assert entry.has("part-0"), "this is not what was read"
        entry.drop("part-0", entry.read("part-0"))
        assert not entry.has("part-0")
        assert not path.exists()
        assert entry.put("part-0", [MEGABYTE]) is True


def test_one_who_does_not_know_where_large_items_are_is_told(url, tmp_path):
    with opened(RedisStore(url, DirectoryStore(tmp_path)), KEY) as entry:
        entry.put("part-0", [MEGABYTE])
    with opened(RedisStore(url), KEY) as entry, pytest.raises(CacheError) as raised:
        entry.read("part-0")
    assert said_in_full(raised.value, url, "part-0", "blobs=")


def test_one_with_another_place_for_large_items_is_told_and_does_no_harm(url, tmp_path):
    with opened(RedisStore(url, DirectoryStore(tmp_path / "one")), KEY) as entry:
        entry.put("part-0", [MEGABYTE])
    other = RedisStore(url, DirectoryStore(tmp_path / "two"))
    for use in (lambda: other.open(KEY), lambda: other.peek(KEY, "part-0")):
        with pytest.raises(CacheError) as raised:
            use()
        assert not isinstance(raised.value, Unavailable | NoRoom)
        assert said_in_full(raised.value, url, KEY, f"{tmp_path}/two", "blobs=", f"cache rm {url} {KEY}")
    assert not (tmp_path / "two").exists()
    assert other.info(KEY).users == []
    with opened(RedisStore(url, DirectoryStore(tmp_path / "one")), KEY) as entry:
        assert content(entry.read("part-0")) == MEGABYTE


def test_of_two_that_begin_an_entry_with_two_places_the_first_that_puts_wins(url, tmp_path):
    stores = [RedisStore(url, DirectoryStore(tmp_path / name)) for name in ("one", "two")]
    with opened(stores[0], KEY) as one, opened(stores[1], KEY) as two:
        assert one.put("part-0", [MEGABYTE])
        for use in (lambda: two.read("part-0"), lambda: two.put("part-1", [MEGABYTE])):
            with pytest.raises(CacheError, match=r"are not in .*two"):
                use()
        assert content(one.read("part-0")) == MEGABYTE
        assert one.has("part-0")
        assert two.put("plan", [b"small"]), "what is in Redis lies in no place"


def test_a_place_that_went_away_meanwhile_is_not_taken_for_one_that_lost_its_items(url, tmp_path):
    with opened(RedisStore(url, DirectoryStore(tmp_path / "blobs")), KEY) as entry:
        entry.put("part-0", [MEGABYTE])
        (tmp_path / "blobs").rename(tmp_path / "away")
        with pytest.raises(CacheError, match="not mounted"):
            entry.read("part-0")
        (tmp_path / "away").rename(tmp_path / "blobs")
        assert content(entry.read("part-0")) == MEGABYTE


def test_looking_at_large_items_leaves_no_trace_where_they_are(url, tmp_path):
    store = RedisStore(url, DirectoryStore(tmp_path))
    with opened(store, KEY) as entry:
        entry.put("part-0", [MEGABYTE])
        entry.put("part-1", [MEGABYTE])
    [lost] = tmp_path.glob("*/items/part-1-*")
    lost.unlink()

    def traces():
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    before = traces()
    assert store.peek(KEY, "part-0") == MEGABYTE
    assert store.peek(KEY, "part-1") is None
    assert traces() == before


# Who has it open


@pytest.mark.parametrize("may", ["all", "read"])
def test_an_entry_that_is_only_dropped_does_not_wait_for_garbage_collection(url, shared_server, may):
    store = RedisStore(url)
    with opened(store, KEY) as entry:
        entry.put("plan", [b"a"])
    if may == "read":
        rights = ("on", ">secret", "~*", "+@read", "+select")
        store._client.call("execute_command", "ACL", "SETUSER", "reader", *rights)
        store = RedisStore(f"redis://reader:secret@{shared_server.address}/0")
    gc.collect()
    gc.disable()
    try:
        entry = store.open(KEY)
        gone = weakref.ref(entry)
        assert content(entry.read("plan")) == b"a"
        del entry
        assert comes_true(lambda: gone() is None, 30)  # its heartbeat may just hold it
    finally:
        gc.enable()


# What is damaged


@pytest.mark.parametrize(
    "marker",
    [b"", b"1", b"1 2 3", b"x part-0-1", b"5 ../../plan", b"5 \xff", b"-1 part-0", b"9" * 400 + b" part-0"],
)
@pytest.mark.parametrize("with_blobs", [True, False])
def test_an_item_whose_marker_is_damaged_is_lost_and_put_again(url, tmp_path, marker, with_blobs):
    store = RedisStore(url, DirectoryStore(tmp_path) if with_blobs else None)
    with opened(store, KEY) as entry:
        store._client.call("hset", entry._name("entry"), "part-0:blob", marker)
        assert store.peek(KEY, "part-0") is None
        assert store.info(KEY).items == 1
        assert 0 <= store.info(KEY).bytes < 10
        entry.drop("part-0", b"rows")
        assert entry.read("part-0") is None
        assert not entry.has("part-0")
        assert entry.put("part-0", [MEGABYTE])
        assert content(entry.read("part-0")) == MEGABYTE


@pytest.mark.parametrize("id", ["", "../../elsewhere", b"\xff" * 32, "A" * 32])
def test_an_entry_whose_id_is_damaged_says_so_and_can_be_removed(url, tmp_path, id):
    store = RedisStore(url, DirectoryStore(tmp_path / "blobs"))
    with opened(store, KEY) as entry:
        entry.put("part-0", [MEGABYTE])
    store._client.call("hset", entry._name("entry"), ":id", id)
    for use in (lambda: store.open(KEY), lambda: store.peek(KEY, "part-0")):
        with pytest.raises(CacheError) as raised:
            use()
        assert said_in_full(raised.value, url, KEY, "its id is damaged", "feedline cache rm")
    assert store.info(KEY).users == []
    assert store.remove(KEY)
    assert store.keys() == []


@pytest.mark.parametrize("damage", [b"soon", b"nan", b"1e300", b"\xff", b"9" * 30, None])
def test_facts_that_are_damaged_or_gone_are_nothing(url, damage):
    store = RedisStore(url)
    with opened(store, KEY) as entry:
        entry.put("plan", [b"a"])
        for fact in (":made", ":used", ":hits"):
            if damage is None:
                store._client.call("hdel", entry._name("entry"), fact)
            else:
                store._client.call("hset", entry._name("entry"), fact, damage)
        assert store.info(KEY)[3:6] == (0.0, 0.0, 0)
        entry.count_hit()


def test_a_name_that_is_no_text_is_told_as_one(url):
    store = RedisStore(url)
    with opened(store, KEY) as entry:
        store._client.call("hset", entry._name("entry"), b"\xff", b"a")
        assert store.names(KEY) == ["\ufffd"]


def test_an_item_that_redis_never_takes_is_refused_before_it_is_sent(url):
    with opened(RedisStore(url), KEY) as entry, pytest.raises(NoRoom) as raised:
        entry.put("part-0", [MEGABYTE] * 513)
    assert said_in_full(raised.value, url, "537,919,488", "blobs=")


# The server goes away, or comes back


def test_a_server_that_is_not_there_is_said_to_be_unavailable(tmp_path):
    with running(tmp_path) as server:
        server.kill()
        store = RedisStore(f"redis://:secret@{server.address}/3")
        for use in (store.open, store.names, store.info, store.remove, lambda key: store.keys()):
            with pytest.raises(Unavailable) as raised:
                use(KEY)
            assert said_in_full(raised.value, f"redis://{server.address}/3", "refused", "on_unavailable")


def test_a_server_that_is_lost_in_the_middle_is_unavailable_and_ending_raises_nothing(tmp_path):
    with running(tmp_path) as server:
        store = RedisStore(server.url)
        with opened(store, KEY) as entry:
            claim = entry.claim("part-0")
            entry.put("plan", [b"a"])
            server.kill()
            uses = (
                lambda: entry.read("plan"),
                lambda: entry.has("plan"),
                lambda: entry.put("part-0", [b"b"], claim),
                lambda: entry.claim("part-1"),
                lambda: entry.drop("plan", b"a"),
                entry.count_hit,
            )
            for use in uses:
                with pytest.raises(Unavailable):
                    use()
            claim.renew()
            entry.renew()
            claim.release()


def test_a_server_that_was_restarted_with_its_data_is_used_further(tmp_path):
    with running(tmp_path, "--appendonly", "yes") as server:
        store = RedisStore(server.url)
        with opened(store, KEY) as entry:
            entry.put("plan", [b"a"])
            claim = entry.claim("part-0")
            server.stop()
            server.start()
            assert content(entry.read("plan")) == b"a"
            assert entry.put("part-0", [b"b"], claim) is True
            claim.release()
            assert store.remove(KEY) is False


def test_after_a_restart_without_its_data_an_open_entry_is_empty_and_is_not_filled_again(tmp_path):
    with running(tmp_path) as server:
        store = RedisStore(server.url)
        with opened(store, KEY) as entry:
            entry.put("plan", [b"a plan"])
            claim = entry.claim("part-0")
            server.stop()
            server.start()
            assert entry.read("plan") is None
            with opened(RedisStore(server.url), KEY) as other:
                assert other.put("plan", [b"another plan"]) is True
                # What this one would put belongs to the first plan.
                assert entry.read("plan") is None
                assert not entry.has("plan")
                for use in (lambda: entry.put("part-0", [b"b"], claim), lambda: entry.claim("part-0")):
                    with pytest.raises(NoRoom) as raised:
                        use()
                    assert said_in_full(raised.value, server.url, KEY, "taken away")
                entry.drop("plan", b"another plan")
                assert content(other.read("plan")) == b"another plan"


def test_a_connection_that_the_server_closed_is_made_again(url):
    store, other = RedisStore(url), RedisStore(url)
    with opened(store, KEY) as entry:
        entry.put("plan", [b"a"])
        for _ in range(3):
            other._client.call("client_kill_filter", None, None, "normal")
            assert content(entry.read("plan")) == b"a"
            assert entry.has("plan")


def test_a_server_that_hangs_is_waited_for_only_so_long(tmp_path):
    slow = "?socket_timeout=0.5"
    with running(tmp_path) as server, opened(RedisStore(server.url + slow), KEY) as entry:
        stop(server.process.pid)
        with pytest.raises(Unavailable) as raised:
            entry.read("plan")
        assert said_in_full(raised.value, server.url, "in time", "socket_timeout")
        server.process.send_signal(signal.SIGCONT)
        assert entry.put("plan", [b"a"])
        assert content(entry.read("plan")) == b"a", "the answer to the command before"


def test_an_interrupt_ends_the_wait_for_a_server_that_hangs(tmp_path):
    code = """
import sys
from feedline.cache.in_redis import RedisStore
entry = RedisStore(sys.argv[1] + "?socket_timeout=100").open("0" * 32)
entry.put("plan", [b"a"])
print(flush=True)
sys.stdin.readline()
try:
    print("reading", flush=True)
    entry.read("plan")
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.readline()
print(entry.has("plan"), bytes(entry.read("plan")), flush=True)
"""
    with running(tmp_path) as server, start_python(code, server.url) as program:
        try:
            program.stdout.readline()
            stop(server.process.pid)
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout.readline() == "reading\n"
            time.sleep(0.5)
            program.send_signal(signal.SIGINT)
            assert program.stdout.readline() == "interrupted\n"
            server.process.send_signal(signal.SIGCONT)
            said, _ = program.communicate("\n", timeout=SLACK)
            assert said == "True b'a'\n"
        finally:
            program.kill()


# Who may, and what fits


def test_a_server_that_wants_a_password_gets_it_from_the_url(tmp_path):
    with running(tmp_path, "--requirepass", "a secret/@:") as server:
        store = RedisStore(f"redis://:a%20secret%2F%40%3A@{server.address}/0")
        assert store.location == server.url
        with opened(store, KEY) as entry:
            entry.put("plan", [b"a"])
        assert store.names(KEY) == ["plan"]
        for wrong in (
            f"redis://:no-secret@{server.address}/0",
            f"redis://me:secret@{server.address}",
            server.url,
        ):
            with pytest.raises(CacheError) as raised:
                RedisStore(wrong).open(KEY)
            assert not isinstance(raised.value, Unavailable | NoRoom)
            assert said_in_full(raised.value, server.address, "password")


def test_redis_is_reached_by_tls(tmp_path):
    options, authority = certificates(tmp_path)
    with running(tmp_path, *options, tls=True) as server:
        url = f"rediss://{server.address}/0"
        store = RedisStore(f"{url}?ssl_ca_certs={authority}")
        with opened(store, KEY) as entry:
            assert entry.put("part-0", [MEGABYTE * 3])
            assert content(entry.read("part-0")) == MEGABYTE * 3
        with pytest.raises(CacheError) as raised:
            RedisStore(url).open(KEY)
        assert not isinstance(raised.value, Unavailable)
        assert said_in_full(raised.value, url, "ssl_ca_certs")
        with pytest.raises(Unavailable):
            RedisStore(server.url).open(KEY)


def test_redis_is_reached_by_a_socket_file(shared_server, url):
    store = open_store(f"redis+unix://{shared_server.directory}/socket?db=2")
    assert store.location == f"redis+unix://{shared_server.directory}/socket"
    with opened(store, KEY) as entry:
        entry.put("plan", [b"a"])
    assert store.keys() == open_store(url.replace("/0", "/2")).keys() == [KEY]
    assert open_store(url).keys() == []


def test_a_full_server_is_read_further_and_takes_nothing(tmp_path):
    with running(tmp_path, "--maxmemory", "6mb", "--maxmemory-policy", "noeviction") as server:
        store = RedisStore(server.url)
        with opened(store, KEY) as entry:
            assert entry.put("plan", [b"a"])
            assert entry.put("part-0", [MEGABYTE])
            with pytest.raises(NoRoom) as raised:
                [entry.put(f"part-{number}", [MEGABYTE]) for number in range(1, 10)]
            assert said_in_full(raised.value, server.url, "maxmemory")
            assert 2 <= len(store.names(KEY)) < 10
            store._client.call(
                "config_set", "maxmemory", "1mb"
            )  # now there is no room for the smallest thing
            with opened(RedisStore(server.url), KEY) as other:
                assert content(other.read("plan")) == b"a"
                assert content(other.read("part-0")) == MEGABYTE
                other.count_hit()
                for use in (lambda: other.put("part-9", [b"b"]), lambda: other.claim("part-9")):
                    with pytest.raises(NoRoom):
                        use()
            with opened(store, OTHER_KEY) as new:
                assert new.read("plan") is None
                assert not new.has("plan")
                with pytest.raises(NoRoom):
                    new.put("plan", [b"a"])
        assert store.remove(KEY) is True
        assert store.keys() == []


def test_redis_evicts_entries_whole(tmp_path):
    with running(tmp_path, "--maxmemory", "12mb", "--maxmemory-policy", "allkeys-lru") as server:
        store = RedisStore(server.url)
        keys = [f"{number:032x}" for number in range(12)]
        names = [f"part-{number}" for number in range(5)]
        for key in keys:
            # NoRoom: it may take this one, too.
            with opened(store, key) as entry, suppress(NoRoom):
                for name in names:
                    entry.put(name, [MEGABYTE[:300_000]])
        found = [store.names(key) for key in keys]
        assert all(there in (names, []) for there in found)
        assert names in found
        assert [] in found
        assert set(store.keys()) == {key for key, there in zip(keys, found, strict=True) if there}


def test_a_replica_is_read_and_takes_nothing(tmp_path):
    for name in ("primary", "replica"):
        (tmp_path / name).mkdir()
    with running(tmp_path / "primary", "--repl-diskless-sync-delay", "0") as primary:
        with opened(RedisStore(primary.url), KEY) as entry:
            entry.put("plan", [b"a"])
        with running(tmp_path / "replica", "--replicaof", f"127.0.0.1 {primary.port}") as replica:
            store = RedisStore(replica.url)
            assert comes_true(lambda: store.names(KEY) == ["plan"], SLACK)
            assert store.info(KEY).items == 1
            with opened(store, KEY) as entry:
                assert content(entry.read("plan")) == b"a"
                with pytest.raises(NoRoom) as raised:
                    entry.claim("part-0")
                assert said_in_full(raised.value, replica.url, "read only")


def test_a_user_who_may_only_read_does(url, shared_server):
    store = RedisStore(url)
    with opened(store, KEY) as entry:
        entry.put("plan", [b"a"])
    store._client.call(
        "execute_command", "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+select"
    )
    with opened(RedisStore(f"redis://reader:secret@{shared_server.address}/0"), KEY) as entry:
        assert content(entry.read("plan")) == b"a"
        assert entry.has("plan")
        with pytest.raises(NoRoom) as raised:
            entry.put("part-0", [b"b"])
        assert said_in_full(raised.value, "rights")


def test_what_others_keep_in_the_same_redis_is_left_alone(url):
    store = RedisStore(url)
    for name in (
        "feedline:{x}:entry",
        f"feedline:{{{KEY}}}:other",
        f"feedline:{{../{KEY[3:]}}}:entry",
        "\xff",
    ):
        store._client.call("set", name, "theirs")
    assert store.keys() == []
    with opened(store, KEY) as entry:
        entry.put("plan", [b"a"])
    assert store.keys() == [KEY]
    assert store.remove(KEY)
    assert store._client.call("dbsize") == 4


# URLs


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis:///0",
        "redis://host:port/0",
        "redis://host/db",
        "redis://host/0/1",
        "redis://:secret/part@host/0",
        "redis://:secret?part@host/0",
        "redis://:secret#part@host/0",
        "redis://ho st/0",
        "redis+unix://host/path",
        "redis+unix://",
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_without_being_shown(url):
    with pytest.raises(UsageError) as raised:
        open_store(url)
    assert said_in_full(raised.value, "redis://[[NAME]:PASSWORD@]HOST[:PORT][/DB]", "%2F")


@pytest.mark.parametrize("option", ["sokcet_timeout=3", "socket_timeout=long"])
def test_an_option_that_redis_does_not_know_is_refused(option):
    with pytest.raises(UsageError, match=r"so\w+_timeout"):
        open_store(f"redis://:secret@host/0?{option}")


def test_without_the_package_the_command_that_installs_it_is_said():
    code = """
import sys
sys.modules["redis"] = None
from feedline.cache.opening import open_store
from feedline import MissingDependency
try:
    open_store("redis://host")
except MissingDependency as error:
    print(error)
"""
    done = run_python(code)
    assert "pip install 'feedline[redis]'" in done.stdout, done.stderr
