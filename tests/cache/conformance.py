"""What every store keeps. A new kind of store passes it by a subclass of StoreSuite in its own test file:

    class TestDirectoryStore(StoreSuite):
        @pytest.fixture
        def location(self, tmp_path):
            return str(tmp_path / "cache")

        @staticmethod
        def make_store(location):
            return DirectoryStore(location)

`location` is a fresh place, as a string. Two stores over one location stand for two runs; `make_store` is
also called in other processes, which import the test file. A store whose claims end at once with a killed
process says `frees_at_once = True`.

`BEAT` and `SILENCE` are shorter here than they are: a store looks them up in feedline.cache.store each time.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from feedline.cache import store as law
from feedline.cache.heartbeat import beat, rest
from feedline.cache.store import NoRoom, Unavailable, opened
from feedline.errors import UsageError
from tests.processes import comes_true, start_python

KEY, OTHER_KEY = "0123456789abcdef" * 2, "f" * 32
BEAT, SILENCE = 0.25, 2.5
SLACK = 200.0  # a machine that does much else
LARGE = 40_000_000

# A run of its own. It does what it is told on its stdin, line by line, and answers each line with one.
RUN = """
import os, sys, time
from importlib import import_module
from feedline.cache import store as law
from feedline.cache.heartbeat import beat, rest

law.BEAT, law.SILENCE = float(sys.argv[1]), float(sys.argv[2])
store = getattr(import_module(sys.argv[3]), sys.argv[4]).make_store(sys.argv[5])

def claim_and_beat(entry, name):
    claim = entry.claim(name)
    if claim is not None:
        beat(claim)
    return claim

for line in sys.stdin:
    exec(line)
    print(flush=True)
"""


class Run:
    """Another process with a store over the same location."""

    def __init__(self, process):
        self.process = process

    def do(self, statement):
        """What it printed meanwhile."""
        self.begin(statement)
        return self.end()

    def begin(self, statement):
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()

    def end(self):
        answer = self.process.stdout.readline()
        assert answer, self.process.stderr.read()
        return answer.strip()

    def kill(self):
        self.process.kill()
        self.process.wait(SLACK)


@contextmanager
def at_once(*functions):
    """Each in a thread; what they raise is raised at the end."""
    raised = []

    def run(function):
        try:
            function()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()
    for error in raised:
        raise error


@contextmanager
def until_done(function):
    """Again and again, in a thread, while the block runs; once at least."""
    done = threading.Event()

    def run():
        function()
        while not done.is_set():
            function()

    with at_once(run):
        try:
            yield
        finally:
            done.set()


def content(data):
    return None if data is None else bytes(data)


class StoreSuite:
    frees_at_once = False

    @staticmethod
    def make_store(location):
        raise NotImplementedError

    @pytest.fixture
    def location(self):
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _short_times(self, monkeypatch):
        monkeypatch.setattr(law, "BEAT", BEAT)
        monkeypatch.setattr(law, "SILENCE", SILENCE)

    @pytest.fixture
    def store(self, location):
        return self.make_store(location)

    @pytest.fixture
    def other(self, location):
        return self.make_store(location)

    @pytest.fixture
    def one(self, store):
        with opened(store, KEY) as entry:
            yield entry

    @pytest.fixture
    def two(self, other):
        with opened(other, KEY) as entry:
            yield entry

    @pytest.fixture
    def start(self, location):
        """Starts a Run."""
        with ExitStack() as running:

            def start():
                root = str(Path(__file__).parents[2])
                process = running.enter_context(
                    start_python(
                        f"import sys; sys.path.insert(0, {root!r})\n" + RUN,
                        *(str(BEAT), str(SILENCE), type(self).__module__, type(self).__name__, location),
                    )
                )
                running.callback(process.kill)
                return Run(process)

            yield start

    # Items

    def test_an_item_is_there_as_it_was_put(self, one, two):
        assert not two.has("plan")
        assert two.read("plan") is None
        assert one.put("plan", [b"the plan"]) is True
        assert two.has("plan")
        assert content(one.read("plan")) == content(two.read("plan")) == b"the plan"

    def test_buffers_are_put_end_to_end(self, one, two):
        words = memoryview(bytearray(range(8))).cast("I")
        assert one.put("part-0", [b"ab", bytearray(b"cd"), memoryview(b"_ef_")[1:3], b"", words])
        assert content(two.read("part-0")) == b"abcdef" + bytes(range(8))

    @pytest.mark.parametrize("data", [[], [b""], [b"", b""]])
    def test_an_item_may_be_empty(self, one, two, data):
        assert one.put("part-0", data) is True
        assert two.has("part-0")
        assert content(two.read("part-0")) == b""
        assert two.put("part-0", [b"more"]) is False

    def test_an_item_may_be_large(self, one, two):
        data = random.Random(1).randbytes(LARGE)
        assert one.put("part-0", [data[:100], data[100:]])
        assert content(two.read("part-0")) == data

    def test_the_first_put_wins(self, one, two):
        assert one.put("part-0", [b"first"]) is True
        assert two.put("part-0", [b"second"]) is False
        assert one.put("part-0", [b"third"]) is False
        assert content(one.read("part-0")) == content(two.read("part-0")) == b"first"

    def test_one_of_many_threads_puts_an_item(self, one, two):
        together = threading.Barrier(8)
        won = []

        def put(who, entry):
            for number in range(20):
                together.wait(SLACK)
                if entry.put(f"part-{number}", [b"%d " % who * 1000]):
                    won.append((number, who))

        with at_once(*(lambda who=who: put(who, (one, two)[who % 2]) for who in range(8))):
            pass
        assert sorted(number for number, _ in won) == list(range(20))
        for number, who in won:
            assert content(one.read(f"part-{number}")) == b"%d " % who * 1000

    def test_one_of_many_processes_puts_an_item(self, one, start):
        runs = [start() for _ in range(3)]
        for run in runs:
            run.do(f"entry = store.open({KEY!r})")
        for who, run in enumerate(runs):
            run.begin(
                f"print([n for n in range(40) if entry.put(f'part-{{n}}', [b'{who} ' * 1000])], end='')"
            )
        won = [(number, who) for who, run in enumerate(runs) for number in eval(run.end())]
        assert sorted(number for number, _ in won) == list(range(40))
        for number, who in won:
            assert content(one.read(f"part-{number}")) == b"%d " % who * 1000

    def test_a_reader_sees_a_whole_item_or_none(self, one, two, start):
        data = random.Random(2).randbytes(LARGE // 4)
        seen = set()

        def look():
            found = content(two.read("part-0"))
            assert found is None or found == data
            seen.add(found is None)
            assert found is not None or not two.has("part-0") or content(two.read("part-0")) == data

        with until_done(look):
            assert one.put("part-0", [data[i : i + 1_000_000] for i in range(0, len(data), 1_000_000)])
        look()
        assert False in seen

    def test_a_run_that_is_killed_while_it_puts_leaves_nothing_that_can_be_seen(self, one, store, start):
        for delay in (0.001, 0.01, 0.03):
            run = start()
            run.do(f"entry = store.open({KEY!r}); data = os.urandom({LARGE // 2})")
            run.begin("entry.put('part-0', [data] * 2)")
            time.sleep(delay)
            run.kill()
            found = one.read("part-0")
            if found is None:
                assert store.names(KEY) == []
            else:
                assert len(found) == LARGE
                assert bytes(found[: LARGE // 2]) == bytes(found[LARGE // 2 :])
                one.drop("part-0", found)
        assert one.put("part-0", [b"after all"])
        assert content(one.read("part-0")) == b"after all"

    def test_what_was_read_stays_as_it_is(self, store, other):
        with opened(store, KEY) as one:
            one.put("part-0", [b"some bytes"])
            data = one.read("part-0")
        assert other.remove(KEY)
        with opened(other, KEY) as two:
            assert two.put("part-0", [b"some other"])
        assert content(data) == b"some bytes"

    def test_threads_may_share_an_entry(self, one):
        def work(who):
            for number in range(20):
                name = f"part-{who}-{number}"
                claim = one.claim(name)
                assert claim is not None
                assert one.put(name, [name.encode() * 50], claim)
                claim.release()
                assert content(one.read(name)) == name.encode() * 50

        with at_once(*(lambda who=who: work(who) for who in range(4))):
            pass

    def test_an_item_that_was_read_can_be_dropped_and_put_again(self, one, two):
        one.put("part-0", [b"damaged"])
        two.drop("part-0", two.read("part-0"))
        assert not one.has("part-0")
        assert one.read("part-0") is None
        assert one.put("part-0", [b"sound"]) is True
        assert content(two.read("part-0")) == b"sound"

    @pytest.mark.parametrize("sound", [b"sound", b"dAmaged"])
    def test_an_item_that_was_replaced_meanwhile_is_not_dropped(self, one, two, sound):
        one.put("part-0", [b"damaged"])
        damaged = one.read("part-0")
        two.drop("part-0", two.read("part-0"))
        two.put("part-0", [sound])
        one.drop("part-0", damaged)
        assert content(one.read("part-0")) == content(two.read("part-0")) == sound

    def test_dropping_what_is_not_there_is_harmless(self, one):
        one.drop("part-0", b"gone")
        assert one.put("part-0", [b"here"])

    # Claims

    def test_a_claim_is_one_holders_in_all_runs(self, one, two):
        claim = one.claim("part-0")
        assert claim is not None
        assert one.claim("part-0") is None
        assert two.claim("part-0") is None
        claim.release()
        second = two.claim("part-0")
        assert second is not None
        assert one.claim("part-0") is None
        second.release()

    def test_one_of_many_threads_gets_a_claim(self, one, two):
        together = threading.Barrier(8)
        got = []

        def claim(entry):
            for number in range(20):
                together.wait(SLACK)
                if (claim := entry.claim(f"part-{number}")) is not None:
                    got.append((number, claim))

        with at_once(*(lambda who=who: claim((one, two)[who % 2]) for who in range(8))):
            pass
        assert sorted(number for number, _ in got) == list(range(20))
        for _, one_claim in got:
            one_claim.release()

    def test_claims_on_other_items_and_of_other_entries_are_others(self, one, store):
        claims = [one.claim("part-0"), one.claim("part-1")]
        with opened(store, OTHER_KEY) as another:
            claims.append(another.claim("part-0"))
            assert None not in claims
            for claim in claims:
                claim.release()

    def test_a_claim_does_not_ask_whether_the_item_is_there(self, one):
        one.put("part-0", [b"here"])
        claim = one.claim("part-0")
        assert claim is not None
        assert one.put("part-0", [b"again"], claim) is False
        claim.release()

    def test_the_second_release_is_harmless(self, one, two):
        first = one.claim("part-0")
        first.release()
        first.release()
        second = two.claim("part-0")
        first.release()
        assert one.claim("part-0") is None
        second.release()

    def test_a_holder_puts_with_its_claim(self, one, two):
        claim = one.claim("part-0")
        assert one.put("part-0", [b"mine"], claim) is True
        claim.release()
        assert content(two.read("part-0")) == b"mine"

    def test_nothing_is_put_with_a_claim_that_another_has_now(self, one, two):
        first = one.claim("part-0")
        first.release()
        second = two.claim("part-0")
        first.renew()
        assert one.put("part-0", [b"late"], first) is False
        assert one.read("part-0") is None
        assert two.put("part-0", [b"mine"], second) is True
        second.release()
        assert content(one.read("part-0")) == b"mine"

    def test_a_claim_that_is_renewed_lasts(self, one, two):
        claim = one.claim("part-0")
        beat(claim)
        until = time.monotonic() + 1.6 * SILENCE
        while time.monotonic() < until:
            assert two.claim("part-0") is None
            time.sleep(0.1)
        assert one.put("part-0", [b"mine"], claim) is True
        rest(claim)
        claim.release()
        second = two.claim("part-0")
        assert second is not None
        second.release()

    def test_renewing_a_claim_that_was_lost_does_not_help_the_one_who_has_it_now(self, one, two):
        first = one.claim("part-0")
        first.release()
        second = two.claim("part-0")
        beat(first)
        third = self.claim_within(one, "part-0", SILENCE + SLACK)
        rest(first)
        assert two.put("part-0", [b"late"], second) is False
        third.release()

    def test_a_claim_is_free_after_its_run_was_killed(self, one, start):
        run = start()
        run.do(f"entry = store.open({KEY!r}); claim = claim_and_beat(entry, 'part-0')")
        assert one.claim("part-0") is None
        run.kill()
        if self.frees_at_once:
            claim = one.claim("part-0")
            assert claim is not None
        else:
            claim = self.claim_within(one, "part-0", SILENCE + SLACK)
        assert one.put("part-0", [b"mine"], claim)
        claim.release()

    def test_a_run_that_was_stopped_for_long_has_lost_its_claim(self, one, start):
        run = start()
        run.do(f"entry = store.open({KEY!r}); claim = claim_and_beat(entry, 'part-0')")
        run.process.send_signal(signal.SIGSTOP)
        claim = self.claim_within(one, "part-0", SILENCE + SLACK)
        beat(claim)
        run.process.send_signal(signal.SIGCONT)
        assert run.do("print(entry.put('part-0', [b'late'], claim), end='')") == "False"
        assert one.read("part-0") is None
        run.do("rest(claim); claim.release(); entry.close()")
        assert one.claim("part-0") is None, "the late one released what is not its own"
        assert one.put("part-0", [b"mine"], claim) is True
        rest(claim)
        claim.release()

    def claim_within(self, entry, name, seconds):
        claims = []
        assert comes_true(lambda: claims.append(entry.claim(name)) or claims[-1] is not None, seconds)
        return claims[-1]

    def test_a_forked_child_does_not_hold_the_claims_of_its_parent(self, one, start):
        run = start()
        run.do(f"entry = store.open({KEY!r}); claim = claim_and_beat(entry, 'part-0'); into, out = os.pipe()")
        child = int(run.do("print(os.fork() or os.read(into, 1), end='')"))
        try:
            run.kill()
            claim = self.claim_within(one, "part-0", SILENCE + SLACK)
            claim.release()
        finally:
            os.kill(child, signal.SIGKILL)

    def test_a_forked_child_can_neither_use_nor_release_what_its_parent_holds(self, one, store, start):
        run = start()
        run.do(f"entry = store.open({KEY!r}); claim = claim_and_beat(entry, 'part-0')")
        put = "entry.put('part-0', [b'of the child'], claim)"
        assert run.do(f"os.fork() or os._exit({put}); print(os.wait()[1], end='')") == "0"
        run.do("os.fork() or (claim.release(), entry.close(), os._exit(0)); os.wait()")
        assert one.claim("part-0") is None
        one.close()
        assert store.remove(KEY) is False
        assert run.do("print(entry.put('part-0', [b'mine'], claim), end='')") == "True"

    def test_a_forked_child_uses_the_store_as_a_run_of_its_own(self, one, start):
        run = start()
        run.do(f"entry = store.open({KEY!r}); entry.put('plan', [b'the plan'])")
        copy = f"store.open({KEY!r}).put('part-0', [store.peek({KEY!r}, 'plan')])"
        run.do(f"os.fork() or ({copy}, os._exit(0)); os.wait()")
        assert content(one.read("part-0")) == b"the plan"
        assert run.do("print(entry.put('part-1', [b'mine']), end='')") == "True"

    # Entries

    def test_entries_are_kept_apart_and_listed(self, store, other):
        assert store.keys() == []
        with opened(store, KEY) as one, opened(store, OTHER_KEY) as two:
            one.put("plan", [b"this"])
            two.put("plan", [b"that"])
            two.put("part-0", [b"rows"])
        assert sorted(other.keys()) == [KEY, OTHER_KEY]
        assert other.names(KEY) == ["plan"]
        assert sorted(other.names(OTHER_KEY)) == ["part-0", "plan"]
        assert (other.peek(KEY, "plan"), other.peek(OTHER_KEY, "plan")) == (b"this", b"that")
        assert other.peek(KEY, "part-0") is None

    def test_of_an_entry_that_is_not_there_nothing_is_known(self, store):
        assert store.names(KEY) == []
        assert store.peek(KEY, "plan") is None
        assert store.info(KEY) is None
        assert store.remove(KEY) is True
        assert store.keys() == []

    def test_info_counts_items_and_their_bytes(self, store, other):
        with opened(store, KEY) as one:
            one.put("plan", [b"a" * 100])
            one.put("part-0", [b"b" * 1_000_000])
            one.put("part-1", [])
            claim = one.claim("part-2")
            assert other.info(KEY)[:3] == (KEY, 1_000_100, 3)
            claim.release()
            one.drop("plan", one.read("plan"))
        assert other.info(KEY)[:3] == (KEY, 1_000_000, 2)

    def test_info_tells_when_it_was_made_and_used_and_how_often(self, store, other):
        began = time.time()
        with opened(store, KEY) as one:
            one.put("plan", [b"a"])
        first = other.info(KEY)
        assert began - 2 < first.made <= first.used + 1 < time.time() + 3
        assert first.hits == 0
        time.sleep(1.2)
        with opened(other, KEY) as two:
            two.count_hit()
            two.count_hit()
        second = store.info(KEY)
        assert second.made == first.made
        assert second.used > first.used
        assert second.hits == 2

    def test_info_tells_who_uses_it(self, store, other, start):
        run = start()
        run.do(f"entry = store.open({KEY!r}); entry.put('plan', [b'a'])")
        with opened(other, KEY):
            users = store.info(KEY).users
            assert len(users) == 2
            assert any(str(run.process.pid) in user for user in users)
        assert len(store.info(KEY).users) == 1
        run.do("entry.close()")
        assert list(store.info(KEY).users) == []

    def test_an_entry_that_is_open_is_not_removed(self, store, other):
        with opened(store, KEY) as one, opened(store, KEY):
            one.put("plan", [b"a"])
            assert other.remove(KEY) is False
            assert store.remove(KEY) is False
            one.close()
            assert store.remove(KEY) is False, "it was opened twice"
            assert other.names(KEY) == ["plan"]
        assert other.remove(KEY) is True
        assert (store.keys(), store.names(KEY), store.info(KEY)) == ([], [], None)

    def test_an_entry_stays_open_for_long(self, store, one):
        one.put("plan", [b"a"])
        until = time.monotonic() + 1.6 * SILENCE
        while time.monotonic() < until:
            assert store.remove(KEY) is False
            time.sleep(0.1)

    def test_an_entry_is_removed_after_its_user_was_killed(self, store, start):
        run = start()
        run.do(f"entry = store.open({KEY!r}); entry.put('plan', [b'a'])")
        assert store.remove(KEY) is False
        run.kill()
        assert comes_true(lambda: store.remove(KEY), SILENCE + SLACK)
        assert store.names(KEY) == []

    def test_an_entry_that_was_removed_is_empty_when_it_is_opened(self, store, other):
        with opened(store, KEY) as one:
            one.put("plan", [b"a"])
            one.put("part-0", [b"b"])
            one.count_hit()
        assert other.remove(KEY)
        with opened(store, KEY) as one:
            assert one.read("plan") is None
            assert not one.has("part-0")
            assert one.put("part-0", [b"new"]) is True
        assert other.names(KEY) == ["part-0"]
        assert other.info(KEY).hits == 0

    def test_an_entry_is_removed_as_a_whole_for_those_who_look(self, store, other):
        names = [f"part-{number}" for number in range(50)]

        def look():
            assert len(other.names(KEY)) in (0, len(names))
            info = other.info(KEY)
            assert info is None or info.items in (0, len(names))

        for _ in range(5):
            with opened(store, KEY) as one:
                for name in names:
                    one.put(name, [b"rows"])
            with until_done(look):
                assert store.remove(KEY)
            assert other.names(KEY) == []

    def test_an_entry_is_not_removed_while_it_is_being_opened(self, store, other):
        with until_done(lambda: other.remove(KEY)):
            for _ in range(40):
                with opened(store, KEY) as one:
                    one.put("plan", [b"a"])
                    assert content(one.read("plan")) == b"a"
                    time.sleep(0.002)
                    assert content(one.read("plan")) == b"a"

    def test_an_entry_can_be_closed_twice(self, store):
        with opened(store, KEY) as one:
            one.close()
        assert store.remove(KEY)

    # What is refused

    BAD_KEYS = ("", "0" * 31, "0" * 33, "g" * 32, "A" * 32, "../" + "0" * 29, "*" * 32, "0" * 32 + "\n")

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_what_is_no_key_is_refused(self, store, key):
        for use in (store.open, store.info, store.names, store.remove, lambda key: store.peek(key, "plan")):
            with pytest.raises(UsageError) as raised:
                use(key)
            assert repr(key) in str(raised.value)
            assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)

    BAD_NAMES = (
        "",
        ".",
        "..",
        "../plan",
        "a/b",
        "/etc/passwd",
        "A",
        "a b",
        "a\n",
        "a\0",
        "a:b",
        "*",
        "a" * 65,
    )

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_what_is_no_name_is_refused(self, store, one, name):
        uses = (
            one.read,
            one.has,
            one.claim,
            lambda name: one.put(name, [b"bad"]),
            lambda name: one.drop(name, b"bad"),
            lambda name: store.peek(KEY, name),
        )
        for use in uses:
            with pytest.raises(UsageError) as raised:
                use(name)
            assert repr(name) in str(raised.value)
        assert store.names(KEY) == []

    @pytest.mark.parametrize("kind", [NoRoom, Unavailable])
    def test_its_errors_can_be_pickled(self, kind):
        error = pickle.loads(pickle.dumps(kind("here: it is full.")))
        assert type(error) is kind
        assert str(error) == "here: it is full."
