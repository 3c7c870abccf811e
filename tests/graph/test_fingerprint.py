"""A fingerprint is a str that knows its parts."""

from __future__ import annotations

import functools
import json
import pickle
import re
import threading

import numpy as np
import pytest

import feedline as fl
from feedline import Dataset
from feedline.graph import position_key, strict_fingerprint

LOCK = threading.Lock()
SCALE = 2


def locked(x):
    with LOCK:
        return x


def scaled(x):
    return x * SCALE


def scaled_otherwise(x):
    return x / SCALE


def test_it_is_a_str_of_32_digits_and_goes_through_json_and_pickle():
    found = Dataset.range(5).map(scaled).fingerprint()
    assert re.fullmatch("[0-9a-f]{32}", found)
    assert json.loads(json.dumps([found])) == [found]
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.parts, again.steps) == (found, found.parts, found.steps)
    assert json.loads(json.dumps(found.parts)) == found.parts


def test_it_follows_from_its_parts():
    found = Dataset.range(5).map(scaled).fingerprint()
    assert fl.graph.Fingerprint(json.loads(json.dumps(found.parts)), found.steps) == found


def test_explain_has_a_block_for_each_step():
    shown = Dataset.range(5).map(scaled).batch(2).prefetch(2).fingerprint().explain()
    assert re.sub("code [0-9a-f]{20}", "code ...", shown).split("\n") == [
        "range: Range",
        "  start: 0",
        "  stop: 5",
        "  step: 1",
        "  output_type: 'int64'",
        "map(scaled): Map",
        "  meaning of a returned list: a tuple",
        "  function: function scaled",
        "  function scaled: code ...",
        "    global SCALE: 2",
        "batch: Batch",
        "  batch_size: 2",
        "  drop_remainder: False",
        "feedline's steps: 1",
        *[line for line in shown.split("\n") if line.startswith("python: ")],
    ]
    assert repr(shown) == str(shown)


def test_changes_are_told_once_and_none_of_what_came_with_them():
    old = Dataset.range(5).map(scaled).fingerprint()
    assert old.changes(old.parts) == []
    assert Dataset.range(6).fingerprint().changes(old.parts)[:2] == [
        "range: stop was 5, is 6",
        "map(scaled): the step is gone",
    ]
    assert Dataset.range(5).map(scaled).batch(2).fingerprint().changes(old.parts) == [
        "batch: the step is new"
    ]


def test_pipelines_of_the_same_steps_are_known_by_them():
    one = Dataset.range(5).map(scaled).batch(2).fingerprint()
    other = Dataset.range(6).map(scaled_otherwise).prefetch(1).batch(3).fingerprint()
    assert one != other
    assert (
        one.steps == other.steps == strict_fingerprint(Dataset.range(1).map(locked).batch(1)._node, "1").steps
    )
    assert one.steps != Dataset.range(5).batch(2).map(scaled).fingerprint().steps


def test_what_is_not_told_is_refused_with_a_remedy():
    ds = Dataset.range(5).map(locked)
    with pytest.raises(fl.UsageError) as caught:
        strict_fingerprint(ds._node)
    assert str(caught.value) == (
        "cache: it cannot be told whether the functions are the same from run to run:\n"
        "  map(locked): global LOCK of function locked is a _thread.lock.\n"
        '  Say it yourself, and give another version when they change:  cache(..., version="1")'
    )
    assert ds.fingerprint() == ds.fingerprint()
    assert "not told: map(locked): global LOCK" in ds.fingerprint().explain()


def test_a_version_stands_for_all_functions():
    def found(function, version, stop=5):
        return strict_fingerprint(Dataset.range(stop).map(function).batch(2)._node, version)

    assert found(scaled, "1") == found(locked, "1") == found(np.abs, "1") == found(lambda x: x, "1")
    different = {found(scaled, "1"), found(scaled, "2"), found(scaled, None), found(scaled, "1", stop=6)}
    assert len(different) == 4
    assert "python" not in found(scaled, "1").parts
    assert found(scaled, "2").changes(found(locked, "1").parts) == ["version was '1', is '2'"]


class Held:
    """No function, but it may be an argument of one."""

    def __init__(self, held):
        self.held = held


def test_with_a_version_nothing_in_functions_is_refused():
    def generate(function):
        held = LOCK, np.random.default_rng(1)
        yield lambda: held

    for function in (locked, functools.partial(locked, LOCK), Held(LOCK).__init__):
        ds = Dataset.from_generator(generate, args=(function, Held(1)))
        assert strict_fingerprint(ds._node, "1") == strict_fingerprint(ds._node, "1")


@pytest.mark.parametrize("version", [None, "1"])
@pytest.mark.parametrize("make", [lambda one: one, Held, lambda one: [{"key": one}]])
def test_an_argument_that_does_not_tell_what_it_is_is_refused_with_a_version_too(version, make):
    def generate(held):
        yield 1

    ds = Dataset.from_generator(generate, args=(make(np.random.default_rng(1)),))
    with pytest.raises(fl.UsageError) as caught:
        strict_fingerprint(ds._node, version)
    begin, where, remedy = str(caught.value).split("\n")
    assert begin == "cache: it cannot be told whether the arguments are the same from run to run:"
    assert where.startswith("  from_generator")
    assert where.endswith("is a numpy.random._generator.Generator.")
    assert remedy == (
        "  A version= says it of functions only. Give what it is made of, such as a seed or a path, and "
        "make it inside of the function."
    )
    assert "not told: from_generator(" in ds.fingerprint().explain()
    again = pickle.loads(pickle.dumps(ds.fingerprint()))
    assert again.arguments == ds.fingerprint().arguments != ()


def test_with_a_version_arguments_that_tell_what_they_are_count():
    def generate(held):
        yield 1

    found = {
        strict_fingerprint(Dataset.from_generator(generate, args=(Held(seed),))._node, "1") for seed in (1, 2)
    }
    assert len(found) == 2


def test_how_it_is_run_does_not_count():
    plain = Dataset.range(5).map(scaled).ignore_errors().batch(2)
    run = Dataset.range(5).with_options(workers=2, deterministic=False).prefetch(2)
    run = run.map(scaled, num_parallel_calls=2, executor="thread").ignore_errors(log_warning=True)
    run = run.batch(2).prefetch(fl.AUTOTUNE)
    assert plain.fingerprint() == run.fingerprint()


def test_a_cache_counts_because_it_changes_later_iterations_and_states(tmp_path):
    shuffled = Dataset.range(6).shuffle(6, seed=1)
    assert list(shuffled.repeat(2)) != list(shuffled.cache().repeat(2))
    streamed = Dataset.range(6).map(scaled)
    for one, other, after in (
        (shuffled, shuffled.cache(), lambda ds: ds.repeat(2)),
        (streamed, streamed.cache(), lambda ds: ds.filter(lambda x: x > 2)),
        (streamed, streamed.cache(tmp_path), lambda ds: ds.filter(lambda x: x > 2)),
        (streamed.cache(), streamed.cache(tmp_path), lambda ds: ds.filter(lambda x: x > 2)),
    ):
        assert after(one).fingerprint() != after(other).fingerprint()


def test_where_a_cache_is_kept_does_not_count(tmp_path):
    one = Dataset.range(6).cache(tmp_path / "one")
    other = Dataset.range(6).cache(tmp_path / "other", cache_limit="1 GB", on_unavailable="compute")
    assert one.batch(2).fingerprint() == other.batch(2).fingerprint()


def test_random_numbers_are_the_same_with_and_without_steps_that_do_not_count():
    def noise(x):
        return fl.rng().random()

    plain = Dataset.range(5).map(noise)
    run = Dataset.range(5).prefetch(1).with_options(workers=0).map(noise)
    assert plain.fingerprint() == run.fingerprint()
    assert list(plain) == list(run) == list(Dataset.range(5).cache().map(noise))


def test_a_position_is_good_although_what_functions_hold_has_changed():
    seen = []

    def count(x):
        seen.append(int(x))
        return x

    ds = Dataset.range(1000).map(count)
    rows = iter(ds)
    next(rows)
    state = rows.state_dict()
    assert len(seen) > 0
    later = Dataset.range(1000).map(count)
    assert later.fingerprint() != Dataset.range(1000).map(lambda x: x).fingerprint()
    resumed = iter(later)
    resumed.load_state_dict(state)
    assert next(resumed) == 1


def test_a_position_is_not_good_for_other_code_or_other_arguments():
    keys = {
        position_key(each._node)
        for each in [
            Dataset.range(5).map(scaled),
            Dataset.range(5).map(scaled_otherwise),
            Dataset.range(6).map(scaled),
            Dataset.range(5).map(scaled).prefetch(1),
            Dataset.from_tensor_slices(np.arange(100.0)),
            Dataset.from_tensor_slices(np.arange(100.0) + 1),
        ]
    }
    assert len(keys) == 6


def test_a_pipeline_of_many_steps_has_a_fingerprint():
    ds = Dataset.range(5)
    for _ in range(500):
        ds = ds.map(scaled)
    twice = Dataset.range(5)
    for _ in range(40):
        twice = Dataset.zip(twice, twice).map(lambda x, y: x)
    assert ds.fingerprint() != ds.map(scaled).fingerprint()
    assert twice.fingerprint() == twice.fingerprint()
    assert position_key(twice._node) == position_key(twice._node)


def test_a_method_of_a_dataset_counts_by_its_name():
    told = Dataset.range(3).flat_map(Dataset.range).fingerprint().explain()
    assert "  function: feedline.dataset.Dataset.range\n" in told


def test_that_a_returned_list_is_a_tuple_counts():
    # Entries from before that hold other elements, and must not be read.
    def told(found):
        return [text for name, text in found.parts.items() if name.endswith(": meaning of a returned list")]

    for pipeline in (
        Dataset.range(5).map(list),
        Dataset.range(5).flat_map(lambda i: Dataset.range(i).map(lambda x: [x, x])),
        Dataset.from_generator(lambda shard: [shard.index], workers=2),
        Dataset.zip(Dataset.range(3), Dataset.range(3).filter(bool)),
    ):
        assert told(pipeline.fingerprint()) == ["a tuple"]
        assert told(strict_fingerprint(pipeline._node, "by hand")) == ["a tuple"]
    assert told(Dataset.range(5).batch(2).shuffle(3, seed=1).fingerprint()) == []


def test_the_change_is_told_in_words():
    found = Dataset.range(5).map(scaled).fingerprint()
    before = {name: text for name, text in found.parts.items() if "returned list" not in name}
    assert found.changes(before) == ["map(scaled): meaning of a returned list is new: a tuple"]
