"""Runs share the work on an input that is read in order: each reads it, and computes its own parts."""

from __future__ import annotations

import os
import threading
import warnings
from itertools import islice

import numpy as np
import pytest
from typer.testing import CliRunner

import feedline as fl
from feedline import Cache, CacheError, Dataset, TFRecordWriter
from feedline.cache import costs, dividing, filling, part
from feedline.cache.costs import Costs
from feedline.cache.part import Made, Provenance
from feedline.cache.plan import Plan, digest
from feedline.cache.shared import SharedEntry
from feedline.cli import app
from feedline.ops import shared_cache
from feedline.testing import Failed, assert_same, check_errors, check_laws
from tests.ops.counted import Counted

ROWS = 600
FEATURES = {"n": fl.FixedLenFeature([], "int64")}


@pytest.fixture(autouse=True)
def _many_parts(monkeypatch):
    """Whatever the machine is busy with: parts of few rows, whose input is always worth reading."""
    monkeypatch.setattr(filling, "PART_BYTES", 256)
    monkeypatch.setattr(filling, "PART_SECONDS", 1000.0)
    monkeypatch.setattr(costs, "WORTH", 0)


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "npz").mkdir()
    for number in range(6):
        np.savez(tmp_path / f"npz/{number}.npz", n=np.arange(number * 100, (number + 1) * 100))
    with TFRecordWriter(tmp_path / "numbers.tfrecord") as writer:
        writer.write_batch({"n": np.arange(ROWS)})

    def load(path):
        with np.load(path) as file:
            return Dataset.from_tensor_slices(file["n"])

    numbers = Dataset.range(ROWS)
    return {
        "interleaved npz files": Dataset.list_files(f"{tmp_path}/npz/*.npz", shuffle=True).interleave(
            load, 3
        ),
        "TFRecord files without an index": Dataset.from_tfrecords(
            tmp_path / "numbers.tfrecord", FEATURES
        ).map(lambda x: x["n"]),
        "shuffled and filtered": numbers.shuffle(50).filter(lambda x: x >= 0),
        "made by a function": Dataset.range(6).flat_map(lambda x: Dataset.range(100 * x, 100 * x + 100)),
        "generated": Dataset.from_generator(lambda: iter(np.arange(ROWS))),
        "read in workers": Dataset.range(6).interleave(
            lambda x: Dataset.range(100 * x, 100 * x + 100), num_parallel_calls=2
        ),
        "zipped": Dataset.zip(numbers.filter(lambda x: True), numbers).map(lambda a, b: b),
    }


SOURCES = [
    "interleaved npz files",
    "TFRecord files without an index",
    "shuffled and filtered",
    "made by a function",
    "generated",
    "read in workers",
    "zipped",
]


def ints(dataset):
    return [int(x) for x in dataset]


def run_in_threads(make, count):
    """What `count` runs get that begin at once, each in a thread."""
    results = [None] * count

    def run(number):
        results[number] = ints(make())

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("source", SOURCES)
def test_runs_share_the_work_and_compute_each_element_once(source, sources, tmp_path):
    calls, met = {}, threading.Barrier(2)
    meets = threading.Event()

    def slow(x):
        """From the second part on, waits until two runs compute at the same time."""
        calls.setdefault(int(x), []).append(threading.get_ident())
        if len(calls) > 300 and not meets.is_set():
            met.wait(60)
            meets.set()
        return 2 * x

    def make():
        return sources[source].map(slow).cache(tmp_path / "cache", version="1")

    first, *others = run_in_threads(make, 2)
    assert others == [first]
    assert sorted(first) == list(range(0, 2 * ROWS, 2))
    assert sorted(calls) == list(range(ROWS))
    assert all(len(runs) == 1 for runs in calls.values())
    assert len({run for [run] in calls.values()}) == 2
    [entry] = Cache(tmp_path / "cache").entries()
    assert (entry.elements, entry.complete) == (ROWS, True)
    assert Cache(tmp_path / "cache").verify() == []
    assert ints(make()) == first
    assert sum(map(len, calls.values())) == ROWS


PIPELINES = {
    "map": lambda ds: ds.map(lambda x: x + 1),
    "batch": lambda ds: ds.map(lambda x: x + 1).batch(7),
    "dropped remainder": lambda ds: ds.map(lambda x: x + 1).batch(7, drop_remainder=True),
    "whole batches": lambda ds: ds.map(lambda x: x + 1).batch(10),
    "map of batches": lambda ds: ds.batch(4).map(lambda x: x.sum()).batch(3).prefetch(2),
    "padded": lambda ds: ds.map(lambda x: np.arange(x % 3)).padded_batch(4),
    "ragged": lambda ds: ds.map(lambda x: np.arange(x % 3)),
    "workers": lambda ds: ds.map(lambda x: x + 1, num_parallel_calls=2).with_options(workers=2),
    "random": lambda ds: ds.map(lambda x: x + fl.rng().normal()).prefetch(fl.AUTOTUNE),
    "two functions": lambda ds: ds.map(lambda x: x + 1).map(lambda x: (x, 2 * x)),
}


@pytest.mark.parametrize("steps", PIPELINES)
def test_what_is_cached_is_what_an_uncached_run_gets(steps, tmp_path):
    source = Dataset.range(60).filter(lambda x: x % 7 != 3)
    pipeline = PIPELINES[steps](source)
    plain = list(pipeline)
    assert dividing.steps_to_divide(pipeline._node)
    assert_same(pipeline.cache(tmp_path / "a"), plain)
    assert_same(pipeline.cache(tmp_path / "a"), plain)
    assert Cache(tmp_path / "a").verify() == []
    check_laws(lambda ds: PIPELINES[steps](ds).cache(tmp_path / "b"), source)
    # Taken over where another run stopped.
    list(islice(pipeline.cache(tmp_path / "c"), 5))
    assert_same(pipeline.cache(tmp_path / "c"), plain)


def test_an_end_between_two_parts_and_no_rows_at_all(tmp_path):
    for rows in (0, 1, 32, 64):
        kept = Dataset.range(rows).filter(lambda x: True).map(lambda x: x)
        for _ in range(2):
            assert ints(kept.cache(tmp_path / str(rows))) == list(range(rows))
        [entry] = Cache(tmp_path / str(rows)).entries()
        assert (entry.elements, entry.complete) == (rows, True)
        assert Cache(tmp_path / str(rows)).verify() == []


def test_errors_of_the_input_and_of_the_function_come_in_their_places(tmp_path):
    def fail(x):
        if x % 20 == 19:
            raise Failed(f"function, {x}")
        return x

    def refuse(x):
        if x % 25 == 24:
            raise Failed(f"predicate, {x}")
        return True

    source = Dataset.range(45)
    plain = check_errors(lambda ds: ds.filter(refuse).map(fail), source)
    assert check_errors(lambda ds: ds.filter(refuse).map(fail).cache(tmp_path), source) == plain


def test_an_input_that_does_not_repeat_itself_is_made_by_one_run_with_a_warning(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    computed, noticed = [], threading.Event()
    go_in_order = SharedEntry.go_in_order

    def notice(self, reason):
        go_in_order(self, reason)
        noticed.set()

    monkeypatch.setattr(SharedEntry, "go_in_order", notice)

    def numbers():
        for _ in range(ROWS):
            yield int(rng.integers(1 << 40))

    def slow(x):
        """From the second part on, waits until the other run has noticed."""
        computed.append(int(x))
        if len(computed) > 32:
            assert noticed.wait(60)
        return x

    def make():
        return Dataset.from_generator(numbers).map(slow).cache(tmp_path, version="1")

    with pytest.warns(RuntimeWarning, match="each run reads other elements"):
        first, *others = run_in_threads(make, 2)
    assert others == [first]
    assert len(first) == len(set(first)) == ROWS
    assert computed == first
    assert Cache(tmp_path).verify() == []
    assert ints(make()) == first
    [entry] = Cache(tmp_path).entries()
    assert "each run reads other elements" in Cache(tmp_path).filling(entry.key)


@pytest.mark.parametrize("is_divided", [True, False])
def test_a_generator_that_does_not_repeat_itself_does_not_go_on_from_another_iteration(is_divided, tmp_path):
    rng = np.random.default_rng(1)

    def numbers():
        yield from rng.permutation(ROWS)

    rows = Dataset.from_generator(numbers).map(lambda x: x)
    rows = rows if is_divided else rows.filter(lambda x: True)
    begun = ints(islice(rows.cache(tmp_path, version="1"), 40))
    assert len(set(begun)) == 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CacheError, match=r"the generator does not repeat the first \d+ elements"):
            ints(rows.cache(tmp_path, version="1"))


def test_where_reading_is_the_expensive_part_one_run_reads_all(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "WORTH", float("inf"))
    yielded = []

    def numbers():
        for x in range(ROWS):
            yielded.append(x)
            yield x

    def make():
        return Dataset.from_generator(numbers).map(lambda x: x).cache(tmp_path, version="1")

    assert run_in_threads(make, 3) == [list(range(ROWS))] * 3
    assert len(yielded) <= 2 * ROWS  # a run that takes the lead has to get there first


def test_it_pays_when_all_takes_eight_times_as_long_as_reading(monkeypatch):
    monkeypatch.setattr(costs, "WORTH", 8)
    seen = Costs()
    assert not seen.are_worth_it
    seen.add(Provenance(b"", b"", reading=0.9, all=1.0))  # with the start of workers
    assert not seen.are_worth_it
    seen.add(Provenance(b"", b"", reading=0.1, all=1.0))
    assert seen.are_worth_it
    assert str(seen) == "Reading took 10.0% of the time."
    seen.add(Provenance(b"", b"", reading=0.3, all=1.0))
    assert not seen.are_worth_it
    assert str(seen) == "Reading took 20.0% of the time, so one run computes and the others read along."


def test_an_entry_that_was_begun_in_order_is_gone_on_with(tmp_path, monkeypatch):
    function = Counted()
    rows = Dataset.range(100).filter(lambda x: True).map(lambda x: function(x))
    with monkeypatch.context() as patched:
        patched.setattr(shared_cache, "steps_to_divide", lambda input: [])
        assert ints(islice(rows.cache(tmp_path, version="1"), 30)) == list(range(30))
    assert ints(rows.cache(tmp_path, version="1")) == list(range(100))
    assert function.calls <= 100 + filling.EVEN
    assert Cache(tmp_path).verify() == []


def test_parts_that_mix_two_inputs_are_found_by_verify(tmp_path):
    rows = Dataset.range(ROWS).filter(lambda x: True).map(lambda x: x)
    assert ints(rows.cache(tmp_path / "a", version="1")) == list(range(ROWS))
    [item] = (tmp_path / "a").glob("*/items/part-00000003")
    [plan] = (tmp_path / "a").glob("*/items/plan")
    plan_id = digest(plan.read_bytes())
    found = part.decode(item.read_bytes(), plan_id, 3)
    other = Provenance(b"of other rows", found.provenance.after, 0.0, 0.0)
    made = Made(3, found.first, [found.block], found.is_last, found.after, other)
    item.unlink()
    item.write_bytes(b"".join(map(bytes, part.encode(made, plan_id))))
    findings = [finding.what for finding in Cache(tmp_path / "a").verify()]
    assert any("other input rows" in what for what in findings)
    with pytest.warns(RuntimeWarning, match="each run reads other elements"):
        assert ints(rows.cache(tmp_path / "a", version="1")) == list(range(ROWS))


@pytest.mark.parametrize("part_rows", [1, 3, 256])
def test_parts_grow_with_their_number_and_cover_every_row_once(part_rows):
    plan = Plan(key="0" * 32, length=None, part_rows=part_rows, seeds=())
    end = 0
    for number in range(5000):
        begin, after = plan.span(number)
        assert begin == end
        assert after - begin == part_rows * (1 + number // 1024)
        assert plan.part_at(begin) == plan.part_at(after - 1) == number
        end = after


def test_explain_and_cache_show_say_how_runs_share_the_work(tmp_path):
    numbers = Dataset.range(100)
    kept = numbers.filter(lambda x: True)
    shared = kept.map(lambda x: x).cache(tmp_path / "a")
    assert "cache: Runs can share the work of map, added at" in shared.explain()
    list(shared)
    assert "% of the time" in shared.explain()
    [entry] = Cache(tmp_path / "a").entries()
    shown = CliRunner().invoke(app, ["cache", "show", str(tmp_path / "a"), entry.key]).stdout
    assert "sharing    Runs can share the work of map, added at" in shown
    assert "% of the time" in shown
    assert "Runs can share the work by element number" in numbers.map(lambda x: x).cache("a").explain()
    late = numbers.map(lambda x: x).filter(lambda x: True).cache("a").explain()
    assert "One run computes, and the others read along: filter, added at" in late
    assert "To share the work, put it after the cache." in late
    assert "no function comes after filter, added at" in kept.batch(2).cache("a").explain()


def test_workers_go_on_with_files_that_were_indexed_meanwhile(tmp_path):
    path = str(tmp_path / "numbers.tfrecord")
    with TFRecordWriter(path) as writer:
        writer.write_batch({"n": np.arange(ROWS)})

    def numbers():
        rows = Dataset.from_tfrecords(path, FEATURES)
        return rows.map(lambda row: row["n"], num_parallel_calls=2).cache(tmp_path / "cache", version="1")

    assert ints(islice(numbers(), 40)) == list(range(40))
    fl.records.index(path)
    assert len(Dataset.from_tfrecords(path)) == ROWS
    assert ints(numbers()) == list(range(ROWS))


def test_options_hold_for_the_steps_that_every_run_reads(tmp_path):
    read = Dataset.range(100).map(lambda x: np.int64(os.getpid())).filter(lambda pid: True)
    cached = read.map(lambda pid: pid).with_options(workers=1).cache(tmp_path, version="1")
    assert os.getpid() not in set(ints(cached))


def test_a_function_is_sent_to_workers_once_for_all_parts(tmp_path):
    pickled = []

    class Double:
        def __call__(self, x):
            return 2 * x

        def __getstate__(self):
            pickled.append(1)
            return {}

    kept = Dataset.range(ROWS).filter(lambda x: True)
    cached = kept.map(Double(), num_parallel_calls=2).cache(tmp_path, version="1")
    assert ints(cached) == list(range(0, 2 * ROWS, 2))
    [entry] = Cache(tmp_path).entries()
    assert entry.parts > 10
    assert len(pickled) <= 2


@pytest.mark.parametrize("is_in_function", [False, True], ids=["predicate", "function"])
def test_an_error_at_every_element_is_raised_at_once(is_in_function, tmp_path):
    calls = Counted()

    def fail(x):
        calls(x)
        raise Failed(str(x))

    numbers = Dataset.counter()
    failing = numbers.filter(lambda x: True).map(fail) if is_in_function else numbers.filter(fail).map(abs)
    rows = iter(failing.cache(tmp_path, version="1"))
    for number in range(5):
        with pytest.raises(Failed, match=f"^{number}"):
            next(rows)
    assert calls.calls < 100


def test_errors_leave_batches_as_they_are_without_a_cache(tmp_path):
    def fail(x):
        if x == 37:
            raise Failed("function, 37")
        return x

    def run(dataset):
        rows, found = iter(dataset), []
        while True:
            try:
                found.append(next(rows).tolist())
            except Failed as error:
                found.append(str(error).splitlines()[0])
            except StopIteration:
                return found

    for calls in (None, 2):
        batches = Dataset.range(200).filter(lambda x: True).map(fail, num_parallel_calls=calls).batch(3)
        assert run(batches.cache(tmp_path / str(calls), version="1")) == run(batches)


def test_parts_that_turn_out_too_large_are_cut_and_the_rest_is_made_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(dividing, "_LARGEST", 4096)
    kept = Dataset.range(300).filter(lambda x: True)
    pipeline = kept.map(lambda x: np.full(1 if x < 100 else 128, x)).padded_batch(2)
    plain = list(pipeline)
    for _ in range(2):
        assert_same(pipeline.cache(tmp_path, version="1"), plain)
    assert Cache(tmp_path).verify() == []
    sizes = [path.stat().st_size for path in tmp_path.glob("*/items/part-*")]
    assert max(sizes) < 8 * 4096
    [entry] = Cache(tmp_path).entries()
    assert entry.complete
    assert "elements differ too much in size" in Cache(tmp_path).filling(entry.key)


def test_the_first_part_may_be_cut_short(tmp_path, monkeypatch):
    monkeypatch.setattr(filling, "PART_BYTES", 1 << 20)
    monkeypatch.setattr(dividing, "_LARGEST", 4096)
    grown = Dataset.range(2000).filter(lambda x: True).map(lambda x: np.full(1 if x < 520 else 256, x))
    for batched in (grown, grown.padded_batch(3)):
        plain = list(batched)
        location = tmp_path / str(len(plain))
        for _ in range(2):
            assert_same(batched.cache(location, version="1"), plain)
        [entry] = Cache(location).entries()
        assert entry.complete
        assert Cache(location).verify() == []


def test_elements_that_cannot_be_compared_are_made_by_one_run_without_a_warning(tmp_path):
    def make():
        windows = Dataset.range(100).filter(lambda x: True).window(5)
        return windows.map(lambda window: sum(map(int, window))).cache(tmp_path, version="1")

    expected = [sum(range(n, n + 5)) for n in range(0, 100, 5)]
    assert run_in_threads(make, 3) == [expected] * 3
    [entry] = Cache(tmp_path).entries()
    assert "objects, which runs cannot compare" in Cache(tmp_path).filling(entry.key)
