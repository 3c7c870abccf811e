from __future__ import annotations

import gc
import os
import pickle
import shutil
import sys
import threading
import time
import warnings
import weakref
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from feedline import Cache, Dataset
from feedline.cache import bucket, copies
from feedline.cache.in_directory import DirectoryStore
from feedline.cache.in_objects import ObjectEntry, ObjectStore
from feedline.cache.store import NoRoom, Unavailable, opened
from feedline.errors import CacheError, MissingDependency, UsageError
from tests.cache.conformance import KEY, OTHER_KEY, StoreSuite, content
from tests.processes import comes_true, interrupt_soon, run_python

obstore = pytest.importorskip("obstore")

from obstore.store import from_url  # noqa: E402

from tests.cache.s3_server import BUCKET, s3_server  # noqa: E402


def store_at(location):
    """A location of these tests: a URL, and the directory of this host for it."""
    url, local = location.split(" ")
    return ObjectStore(url, DirectoryStore(local))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3(server, monkeypatch):
    """Its environment."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return server


class ObjectStoreSuite(StoreSuite):
    @staticmethod
    def make_store(location):
        return store_at(location)

    def test_a_forked_child_uses_the_store_as_a_run_of_its_own(self, one, start):
        """It cannot, because obstore's threads do not survive a fork: it is told so at once."""
        run = start()
        run.do(f"entry = store.open({KEY!r}); entry.put('plan', [b'the plan'])")
        run.do(f"def use(): return [store.open({KEY!r}).put('part-0', [b'the plan'])]")
        run.do("import traceback; into, out = os.pipe()")
        tried = "exec('try: use()\\nexcept Exception: os.write(out, traceback.format_exc().encode())')"
        run.do(f"os.fork() or ({tried}, os._exit(0)); os.wait()")
        told = eval(run.do("print(os.read(into, 100_000), end='')")).decode()
        assert "feedline.cache.store.Unavailable" in told
        assert 'get_context("spawn")' in told
        assert one.read("part-0") is None
        assert run.do("print(entry.put('part-1', [b'mine']), end='')") == "True"


class TestS3(ObjectStoreSuite):
    @pytest.fixture
    def location(self, s3, tmp_path):
        return f"s3://{BUCKET}/{os.urandom(4).hex()} {tmp_path / 'local'}"


class TestFiles(ObjectStoreSuite):
    @pytest.fixture
    def location(self, tmp_path):
        return f"file://{tmp_path / 'cache'} {tmp_path / 'local'}"


# What only object stores have to survive


@pytest.fixture
def url(s3):
    return f"s3://{BUCKET}/{os.urandom(4).hex()}"


@pytest.fixture
def open_entry(tmp_path):
    """Opens an entry with a directory of this host, `local` in tmp_path if no other is said."""
    with ExitStack() as open_ones:

        def open_entry(url, local="local"):
            return open_ones.enter_context(opened(ObjectStore(url, DirectoryStore(tmp_path / local)), KEY))

        yield open_entry


@contextmanager
def dying_server(folder, monkeypatch):
    with s3_server(folder) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def test_a_server_that_is_gone_is_unavailable_and_back_again_after_its_restart(
    tmp_path, monkeypatch, open_entry
):
    monkeypatch.setattr(bucket, "RETRIES", 1)
    (tmp_path / "s3").mkdir()
    with dying_server(tmp_path / "s3", monkeypatch) as server:
        entry = open_entry(f"s3://{BUCKET}/cache")
        claim = entry.claim("part-1")
        entry.put("part-0", [b"rows"])
        server.kill()
        store = ObjectStore(f"s3://{BUCKET}/cache", DirectoryStore(tmp_path / "other"))
        for use in (
            lambda: store.open(KEY),
            lambda: entry.put("part-1", [b"more"], claim),
            lambda: entry.claim("part-2"),
            lambda: entry.read("part-2"),
            lambda: entry.has("part-2"),
            store.keys,
            lambda: store.remove(KEY),
        ):
            with pytest.raises(Unavailable) as raised:
                use()
            told = str(pickle.loads(pickle.dumps(raised.value)))
            assert told.startswith(f"s3://{BUCKET}/cache: ")
            assert 'on_unavailable="compute"' in told
            assert "secret" not in told
        claim.renew()
        assert content(entry.read("part-0")) == b"rows", "what was put is on this host too"

        server.start()
        assert entry.put("part-1", [b"more"], claim) is True
        claim.release()
        assert store.names(KEY) == ["part-0", "part-1"]
        assert comes_true(lambda: store.info(KEY).users), "the store hears again that it is in use"
        assert store.remove(KEY) is False


def test_a_server_that_hangs_is_unavailable_after_a_while(s3, url, monkeypatch, open_entry):
    monkeypatch.setattr(bucket, "SMALL_SECONDS", 5.0)
    entry = open_entry(url)
    with s3.stopped(), pytest.raises(Unavailable):
        entry.claim("part-0")
    # Another one: the server may have the first request yet, and do it now.
    assert entry.claim("part-1") is not None


def test_a_wait_for_the_server_ends_with_an_interrupt(s3, url, open_entry):
    entry = open_entry(url)
    with s3.stopped(), pytest.raises(KeyboardInterrupt), interrupt_soon():
        entry.read("part-0")
    assert entry.put("part-0", [b"rows"])


@pytest.mark.parametrize(("who", "secret"), [("writer", "another"), ("nobody", "any")])
def test_wrong_credentials_are_told_as_such(s3, url, tmp_path, monkeypatch, who, secret):
    for name, value in s3.environment(who, secret).items():
        monkeypatch.setenv(name, value)
    store = ObjectStore(url, DirectoryStore(tmp_path))
    for use in (lambda: store.open(KEY), store.keys, lambda: store.peek(KEY, "plan")):
        with pytest.raises(CacheError, match="Look at the credentials") as raised:
            use()
        assert not isinstance(raised.value, (Unavailable, NoRoom))
        assert secret not in str(raised.value)


def test_missing_credentials_are_told_as_such(url, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(CacheError, match=r"no credentials were found.*\n.*AWS_ACCESS_KEY_ID"):
        ObjectStore(url, DirectoryStore(tmp_path)).open(KEY)


def test_a_missing_bucket_is_told_as_such(s3, tmp_path):
    store = ObjectStore("s3://no-such-bucket/cache", DirectoryStore(tmp_path))
    for use in (lambda: store.open(KEY), store.keys):
        with pytest.raises(CacheError, match="s3://no-such-bucket/cache: there is no such bucket"):
            use()


def test_one_that_may_only_read_reads(s3, url, monkeypatch, open_entry):
    open_entry(url).put("part-0", [b"rows"])
    for name, value in s3.environment("reader").items():
        monkeypatch.setenv(name, value)
    entry = open_entry(url, "other")
    assert content(entry.read("part-0")) == b"rows"
    assert entry.read("part-1") is None
    for use in (lambda: entry.put("part-1", [b"mine"]), lambda: entry.claim("part-1")):
        with pytest.raises(NoRoom, match="may not"):
            use()
    entry.count_hit()
    entry.drop("part-0", entry.read("part-0"))
    assert content(entry.read("part-0")) == b"rows"


def test_one_that_may_only_read_finds_an_entry_that_is_not_there_empty(s3, url, monkeypatch, open_entry):
    for name, value in s3.environment("reader").items():
        monkeypatch.setenv(name, value)
    entry = open_entry(url)
    assert entry.read("plan") is None
    assert not entry.has("plan")


class Overwriting(BaseHTTPRequestHandler):
    """As servers do that know nothing of conditions."""

    objects: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self):
        self.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"", str(len(self.objects)))

    def do_GET(self):
        self._answer(self.objects[self.path], "1")

    do_HEAD = do_GET

    def do_POST(self):  # delete
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"<DeleteResult><Deleted><Key>one</Key></Deleted></DeleteResult>", "1")

    def _answer(self, data, e_tag):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", e_tag)
        self.send_header("Last-Modified", self.date_time_string())
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@contextmanager
def serving(handler, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
            yield
        finally:
            server.shutdown()


def test_a_store_that_passes_over_conditions_is_refused(monkeypatch, s3, tmp_path):
    with serving(Overwriting, monkeypatch):
        with pytest.raises(CacheError, match="does not keep to conditions") as raised:
            ObjectStore("s3://bucket/cache", DirectoryStore(tmp_path)).open(KEY)
        assert not isinstance(raised.value, Unavailable)


class SlowWithItems(Overwriting):
    objects: ClassVar[dict[str, bytes]] = {
        f"/bucket/cache/entries/{KEY}": b"0" * 16,
        f"/bucket/cache/lives/{KEY}/{'0' * 16}/items/part-0": b"rows",
    }

    def do_GET(self):
        if "/items/" in self.path:
            time.sleep(6)
        super().do_GET()


def test_an_item_may_take_its_time_when_it_is_only_looked_at(monkeypatch, s3, tmp_path):
    monkeypatch.setattr(bucket, "SMALL_SECONDS", 5.0)
    with serving(SlowWithItems, monkeypatch):
        store = ObjectStore("s3://bucket/cache", DirectoryStore(tmp_path))
        assert store.peek(KEY, "part-0") == b"rows"


@pytest.mark.parametrize("bad", ["memory:///", "foo://a/b", "s3://", "https://a/b", "s3://a/b?sig=secret"])
def test_a_url_that_is_no_object_store_is_refused(bad):
    with pytest.raises(UsageError) as raised:
        ObjectStore(bad)
    assert "sig" not in str(raised.value)


def test_without_obstore_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingDependency, match=r"pip install 'feedline\[s3\]'"):
        ObjectStore("s3://bucket/cache")


def test_a_bucket_needs_no_prefix(s3, tmp_path):
    store = ObjectStore(f"s3://{BUCKET}", DirectoryStore(tmp_path))
    with opened(store, OTHER_KEY) as entry:
        assert entry.put("plan", [b"the plan"])
    assert store.keys() == [OTHER_KEY]
    assert store.remove(OTHER_KEY)
    assert store.keys() == []


# The copies on this host


def test_a_second_store_reads_what_is_on_this_host_without_the_server(tmp_path, monkeypatch, open_entry):
    (tmp_path / "s3").mkdir()
    with dying_server(tmp_path / "s3", monkeypatch) as server:
        open_entry(f"s3://{BUCKET}/cache", "maker").put("part-0", [b"rows"])
        one, two = (open_entry(f"s3://{BUCKET}/cache", "reader") for _ in range(2))
        assert content(one.read("part-0")) == b"rows"
        server.kill()
        assert content(two.read("part-0")) == b"rows"
        assert two.has("part-0")


def test_what_is_read_is_mapped_from_a_file_of_this_host(url, tmp_path, open_entry):
    open_entry(url, "maker").put("part-0", [b"rows"])
    data = open_entry(url, "reader").read("part-0")
    (copy,) = (tmp_path / "reader").glob("*/items/part-0")
    assert str(copy) in Path("/proc/self/maps").read_text()
    assert content(data) == b"rows"


def test_a_damaged_copy_is_dropped_alone_and_loaded_again(url, tmp_path, open_entry):
    open_entry(url, "maker").put("part-0", [b"rows"])
    entry = open_entry(url, "reader")
    entry.read("part-0")
    (copy,) = (tmp_path / "reader").glob("*/items/part-0")
    copy.write_bytes(b"r0ws")
    damaged = entry.read("part-0")
    assert content(damaged) == b"r0ws"
    entry.drop("part-0", damaged)
    assert content(entry.read("part-0")) == b"rows"
    assert content(open_entry(url, "another").read("part-0")) == b"rows"


def test_an_item_that_is_damaged_in_the_store_is_dropped_there(url, open_entry):
    entry = open_entry(url, "maker")
    entry.put("part-0", [b"damaged"])
    reader = open_entry(url, "reader")
    reader.drop("part-0", reader.read("part-0"))
    assert reader.read("part-0") is None
    assert open_entry(url, "another").read("part-0") is None


def test_a_copy_is_not_taken_for_an_item_of_the_entry_that_was_made_later(url, tmp_path):
    first = ObjectStore(url, DirectoryStore(tmp_path / "one"))
    second = ObjectStore(url, DirectoryStore(tmp_path / "two"))
    with opened(first, KEY) as entry:
        entry.put("plan", [b"the first plan"])
    assert second.remove(KEY)
    with opened(second, KEY) as entry:
        entry.put("plan", [b"the second plan"])
    with opened(first, KEY) as entry:
        assert content(entry.read("plan")) == b"the second plan"


def test_without_room_on_this_host_items_are_read_from_the_store_with_one_warning(url, tmp_path, open_entry):
    maker = open_entry(url, "maker")
    maker.put("part-0", [b"rows"])
    maker.put("part-1", [b"more"])
    (tmp_path / "file").touch()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        entry = open_entry(url, "file/below")
        for _ in range(2):
            assert content(entry.read("part-0")) == b"rows"
            assert content(entry.read("part-1")) == b"more"
        assert entry.put("part-2", [b"most"])
    assert len(told) == 1
    assert "is kept in memory only" in str(told[0].message)
    assert f"Make room for copies in {tmp_path}/file/below" in str(told[0].message)
    assert "XDG_CACHE_HOME" in str(told[0].message)


def copied(folder):
    """What there are copies of, in any entry."""
    return {path.read_bytes() for path in folder.glob("*/items/p*")}


def forget(url, key):
    """As one does on another host that removes the entry."""
    obstore.delete(from_url(url, client_options={"allow_http": True}), [f"entries/{key}"])


def test_copies_of_an_entry_that_was_removed_elsewhere_go_when_it_is_opened_again(url, tmp_path):
    store = ObjectStore(url, DirectoryStore(tmp_path))
    for key in (KEY, OTHER_KEY):
        with opened(store, key) as entry:
            entry.put("plan", [f"the plan of {key}".encode()])
    forget(url, KEY)
    with opened(store, KEY) as entry:
        assert entry.read("plan") is None
        assert copied(tmp_path) == {f"the plan of {OTHER_KEY}".encode()}


def test_copies_that_a_run_has_open_stay_until_it_has_closed_them(url, tmp_path):
    store = ObjectStore(url, DirectoryStore(tmp_path))
    with opened(store, KEY) as entry:
        entry.put("plan", [b"the first"])
        forget(url, KEY)
        with opened(store, KEY) as other:
            assert other.put("plan", [b"the second"])
            assert content(entry.read("plan")) == b"the first"
        assert copied(tmp_path) == {b"the first", b"the second"}
    with opened(store, KEY):
        assert copied(tmp_path) == {b"the second"}


def test_copies_that_were_not_used_for_the_longest_time_make_room(url, tmp_path, monkeypatch):
    monkeypatch.setattr(copies, "_room", lambda store: 1000)
    store = ObjectStore(url, DirectoryStore(tmp_path))
    keys = [f"{number:032x}" for number in range(3)]
    for key in keys:
        with opened(store, key) as entry:
            entry.put("part-0", [key.encode() * 13])
            assert content(entry.read("part-0")) == key.encode() * 13
    assert copied(tmp_path) == {key.encode() * 13 for key in keys[1:]}
    with opened(store, keys[0]) as entry:
        assert content(entry.read("part-0")) == keys[0].encode() * 13, "it is still in the store"
    assert copied(tmp_path) == {keys[0].encode() * 13, keys[2].encode() * 13}


def test_where_copies_in_use_take_all_the_room_items_are_loaded_each_time_with_one_warning(
    url, tmp_path, monkeypatch, open_entry
):
    monkeypatch.setattr(copies, "_room", lambda store: 1000)
    entry = open_entry(url)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in range(4):
            assert entry.put(f"part-{number}", [b"%d" % number * 400])
        for number in range(4):
            assert content(entry.read(f"part-{number}")) == b"%d" % number * 400
    assert len(told) == 1
    assert "half of what the disk has left" in str(told[0].message)
    assert copied(tmp_path / "local") == {b"0" * 400, b"1" * 400}


def test_copies_take_half_of_the_disk_with_what_they_have_at_most(url, tmp_path, monkeypatch, open_entry):
    open_entry(url).put("part-0", [bytes(500_000)])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    assert copies._room(DirectoryStore(tmp_path / "local")) == 750_000


def test_removing_an_entry_removes_its_copies_on_this_host(url, tmp_path):
    store = ObjectStore(url, DirectoryStore(tmp_path / "local"))
    with opened(store, KEY) as entry:
        entry.put("plan", [b"the plan"])
    assert DirectoryStore(tmp_path / "local").keys() != []
    assert store.remove(KEY)
    assert DirectoryStore(tmp_path / "local").keys() == []


# Removing


def objects_below(url):
    return [
        facts["path"] for facts in obstore.list(from_url(url, client_options={"allow_http": True})).collect()
    ]


def test_nothing_is_left_of_a_removed_entry(url, tmp_path):
    store = ObjectStore(url, DirectoryStore(tmp_path))
    with opened(store, KEY) as entry:
        entry.put("plan", [b"the plan"])
        entry.count_hit()
        entry.claim("part-0")
    assert objects_below(url) != []
    assert store.remove(KEY)
    assert objects_below(url) == []


def test_what_a_killed_remover_left_goes_with_the_next_removal(url, tmp_path):
    store = ObjectStore(url, DirectoryStore(tmp_path))
    for key in (KEY, OTHER_KEY):
        with opened(store, key) as entry:
            entry.put("plan", [b"the plan"])
    obstore.delete(from_url(url, client_options={"allow_http": True}), [f"entries/{KEY}"])
    assert store.keys() == [OTHER_KEY]
    assert store.info(KEY) is None
    assert store.remove(OTHER_KEY)
    assert objects_below(url) == []


def test_an_entry_whose_name_is_damaged_says_so(url, tmp_path):
    client = from_url(url, client_options={"allow_http": True})
    obstore.put(client, f"entries/{KEY}", b"../../elsewhere")
    store = ObjectStore(url, DirectoryStore(tmp_path))
    for use in (store.open, store.info, store.names, store.remove):
        with pytest.raises(CacheError, match=f"{url}/entries/{KEY}: the object is not what"):
            use(KEY)


RUN = """
import sys
from feedline import Dataset

def square(x):
    print("computed", file=sys.stderr)
    return x * x

print([int(x) for x in Dataset.range(200).map(square).cache(sys.argv[1])])
"""


@pytest.mark.parametrize("may", ["writer", "reader"])
def test_an_entry_is_not_in_use_any_more_once_its_dataset_is_gone(s3, url, tmp_path, monkeypatch, may):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shown = Cache(url)
    made = list(Dataset.range(100).cache(url))
    for name, value in s3.environment(may).items():
        monkeypatch.setenv(name, value)
    gc.collect()
    gc.disable()
    try:
        dataset = Dataset.range(100).cache(url)
        assert list(dataset) == made
        entries = [one for one in gc.get_objects() if isinstance(one, ObjectEntry)]
        assert len(entries) == 1
        assert len(shown.entries()[0].users) == (may == "writer")
        gone = weakref.ref(entries.pop())
        del dataset
        assert gone() is None
        assert shown.entries()[0].users == ()
    finally:
        gc.enable()


def test_runs_share_what_one_of_them_computed(url, tmp_path):
    runs = [
        run_python(RUN, url, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / host)})
        for host in ("one", "one", "two")
    ]
    for run in runs:
        assert run.returncode == 0, run.stderr
        assert run.stdout == f"{[x * x for x in range(200)]}\n"
    assert [run.stderr.count("computed") for run in runs] == [200, 0, 0]
