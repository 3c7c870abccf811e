"""explain and stats: the steps of a pipeline, where they were added, and what they did."""

import functools
import json
import os
import time
from dataclasses import asdict

import numpy as np
import pytest

from feedline import Dataset
from feedline.explain import stats
from feedline.graph.memory import Budget
from feedline.run import History, Measure


@pytest.fixture(autouse=True)
def _beside_the_tests(monkeypatch):
    monkeypatch.chdir(os.path.dirname(__file__))


def double(x):
    return x * 2


def line_of(text):
    """Of this file, the number of the line that ends with it."""
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith(text))


def cells(text):
    """The words of each line of a table; columns are two blanks apart at least."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def steps(dataset):
    return [row.step for row in dataset.stats().rows]


# explain


def test_explain_has_a_line_for_each_step_in_the_order_of_the_data():
    dataset = (
        Dataset.range(10)  # here
        .map(double)
        .filter(lambda x: x > 3)
        .batch(4)
    )
    place = "test_explain.py:"
    assert cells(dataset.explain())[0] == ["step", "added at", "cardinality", "indexed"]
    assert cells(dataset.explain())[1:] == [
        ["range(0, 10, 1)", place + str(line_of("# here")), "10", "yes"],
        ["map(double)", place + str(line_of("# here") + 1), "10", "yes"],
        ["filter(lambda)", place + str(line_of("# here") + 2), "unknown", "no"],
        ["batch(4)", place + str(line_of("# here") + 3), "unknown", "no"],
    ]


def test_a_table_is_text_and_shows_as_it_prints():
    table = Dataset.range(3).explain()
    assert isinstance(table, str)
    assert repr(table) == str(table) == f"{table}"
    assert table.count("\n") == 1
    stats = Dataset.range(3).stats()
    assert repr(stats) == str(stats)


def test_columns_are_aligned():
    lines = Dataset.range(10).map(double).shuffle(1000, seed=12345).explain().splitlines()
    assert (
        len({line.index(word) for line, word in zip(lines, ["added at", *["test_explain"] * 3], strict=True)})
        == 1
    )


@pytest.mark.parametrize(
    ("dataset", "last"),
    [
        (Dataset.range(5).repeat(), "repeat()"),
        (Dataset.range(5).repeat(3), "repeat(3)"),
        (Dataset.range(5).take(-1), "take(-1)"),
        (Dataset.range(5).batch(2), "batch(2)"),
        (Dataset.range(5).batch(2, drop_remainder=True), "batch(2, drop_remainder=True)"),
        (Dataset.range(5).shuffle(3), "shuffle(3)"),
        (Dataset.range(5).shuffle(3, seed=1), "shuffle(3, seed=1)"),
        (Dataset.range(5).shuffle(seed=1), "shuffle(seed=1)"),
        (Dataset.range(5).shuffle(), "shuffle()"),
        (
            Dataset.range(5).shuffle(3, reshuffle_each_iteration=False),
            "shuffle(3, reshuffle_each_iteration=False)",
        ),
        (Dataset.range(5).shard(3, 1), "shard(3, index=1)"),
        (Dataset.range(5).enumerate(), "enumerate()"),
        (Dataset.range(5).flat_map(Dataset.range), "flat_map(range)"),
        (Dataset.range(5).map(functools.partial(double)), "map(partial(double))"),
        (Dataset.range(5).map(functools.lru_cache(double)), "map(double)"),
        (Dataset.zip(Dataset.range(5), Dataset.range(6)), "zip(2 datasets)"),
        (
            Dataset.from_tensor_slices({"x": np.zeros((4, 3), np.float32), "y": ["a"] * 4}),
            "from_tensor_slices(float32[3], string)",
        ),
        (
            Dataset.from_tensor_slices({f"key {i}": [1] for i in range(40)}),
            "from_tensor_slices(int32, int32,",
        ),
    ],
)
def test_arguments_are_shown_in_short_and_defaults_not_at_all(dataset, last):
    step = cells(dataset.explain())[-1][0]
    assert step.startswith(last)
    assert len(step) <= 60
    assert step == last or step.endswith("...)")


def test_the_steps_of_datasets_that_come_together_are_indented():
    pair = Dataset.range(2).concatenate(Dataset.range(3)).skip(1)
    lines = Dataset.zip(Dataset.range(1).map(double), pair).batch(2).explain().splitlines()[1:]
    assert [line[: line.index("  ", 6)].rstrip() for line in lines] == [
        "- range(0, 1, 1)",
        "  map(double)",
        "- - range(0, 2, 1)",
        "  - range(0, 3, 1)",
        "  concatenate(2 datasets)",
        "  skip(1)",
        "zip(2 datasets)",
        "batch(2)",
    ]


def test_counts_are_told_as_words_where_they_are_none():
    table = cells(Dataset.range(1_234_567).repeat().map(double).explain())
    assert [line[2] for line in table[1:]] == ["1,234,567", "infinite", "infinite"]
    assert cells(Dataset.range(9).filter(bool).explain())[-1][2] == "unknown"


def test_files_that_are_not_below_here_are_named_in_full(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cells(Dataset.range(3).explain())[1][1].startswith(f"{__file__}:")


def test_explain_computes_nothing():
    Dataset.range(3).map(lambda x: 1 / 0).batch(2).explain()


# stats


def test_stats_count_what_each_step_gave_in_the_last_iteration():
    dataset = Dataset.range(2500).filter(lambda x: x % 2 == 0).batch(50)
    for _ in range(2):
        assert len(list(dataset)) == 25
    source, filtered, batched = dataset.stats().rows
    assert [row.elements for row in dataset.stats().rows] == [2500, 1250, 25]
    assert [source.bytes, filtered.bytes, batched.bytes] == [20_000, 10_000, 10_000]
    assert source.blocks >= 3
    assert filtered.busy > 0
    assert source.site.file == __file__
    assert (source.cardinality, source.indexed, source.measured) == (2500, True, True)
    assert json.loads(json.dumps(asdict(source)))["elements"] == 2500


def test_stats_can_be_asked_while_the_iteration_goes_on():
    dataset = Dataset.range(5000).map(double)
    one = iter(dataset)
    next(one)
    early = dataset.stats().rows[-1].elements
    assert 0 < early < 5000
    assert len(list(one)) == 4999
    assert dataset.stats().rows[-1].elements == 5000


def test_stats_before_an_iteration_say_so():
    dataset = Dataset.range(5)
    list(dataset.map(double))
    assert "not iterated yet" in str(dataset.stats())
    assert dataset.stats().rows[0].elements == 0
    assert not dataset.stats().rows[0].measured
    assert dataset.stats().bottleneck is None
    list(dataset)
    assert "not iterated yet" not in str(dataset.stats())


def test_every_round_of_a_repeat_counts():
    dataset = Dataset.range(10).repeat(3)
    list(dataset)
    assert [row.elements for row in dataset.stats().rows] == [30, 30]


def test_what_is_read_by_index_counts_too():
    dataset = Dataset.range(10).map(double).shuffle(seed=1).batch(5)
    list(dataset)
    assert [row.measured for row in dataset.stats().rows] == [True] * 4
    assert [row.elements for row in dataset.stats().rows] == [10, 10, 10, 2]
    assert all(row.busy > 0 for row in dataset.stats().rows)


def test_the_slowest_step_is_marked():
    def slow(x):
        time.sleep(0.002)
        return x

    dataset = Dataset.range(20).map(slow).map(double).batch(5)
    list(dataset)
    assert dataset.stats().bottleneck.step == "map(slow)"
    assert dataset.stats().bottleneck.busy >= 0.04
    marked = [line for line in str(dataset.stats()).splitlines() if line.endswith("<- bottleneck")]
    assert len(marked) == 1
    assert marked[0].startswith("map(slow)")


def test_the_bottleneck_is_in_the_slowest_part_between_threads():
    dataset = Dataset.range(20).map(double).map(abs).prefetch(2).map(str)
    last = dataset._node
    ahead = last.inputs[0]
    second = ahead.inputs[0]
    first = second.inputs[0]
    measures = {
        first: Measure([first], busy=2.0),
        second: Measure([second], busy=2.5),
        ahead: Measure([ahead], waiting=1.5),
        last: Measure([last], busy=3.0),
    }
    history = History()
    history.begin(last, measures, Budget())
    # 3 s after the prefetch, but 4.5 s before it.
    assert stats(last, Dataset, history).bottleneck.step == "map(abs)"
    measures[ahead] = Measure([ahead])
    assert stats(last, Dataset, history).bottleneck.step == "map(str)"


def test_waiting_for_the_thread_of_a_prefetch_is_no_work():
    def slow(x):
        time.sleep(0.002)
        return x

    dataset = Dataset.range(20).map(slow).prefetch(2)
    list(dataset)
    assert dataset.stats().bottleneck.step == "map(slow)"
    assert dataset.stats().rows[-1].waiting > 0.02
    assert dataset.stats().rows[-1].busy < dataset.stats().rows[-1].waiting


# Datasets that functions made


def test_the_datasets_that_a_function_made_are_one_line_for_each_step():
    files = Dataset.range(1000).interleave(lambda i: Dataset.range(i, i + 2).map(double).skip(1), 16)
    list(files)
    rows = files.stats().rows
    assert [row.step for row in rows[:2]] == [
        "range(0, 1000, 1)",
        "interleave(lambda, cycle_length=16, block_length=1)",
    ]
    made = {row.step: row for row in rows[2:]}
    assert set(made) == {"1,000 x range(...)", "1,000 x map(double)", "1,000 x skip(1)"}
    assert made["1,000 x skip(1)"].elements == 1000
    assert made["1,000 x skip(1)"].cardinality is None
    lines = str(files.stats()).splitlines()
    assert sum(line.startswith("* ") for line in lines) == len(made)
    assert lines[-1].startswith(("*:", "-:"))


def test_a_single_dataset_that_a_function_made_is_not_counted():
    dataset = Dataset.range(1).flat_map(lambda i: Dataset.range(3))
    list(dataset)
    assert steps(dataset) == ["range(0, 1, 1)", "flat_map(lambda)", "range(0, 3, 1)"]


def test_steps_that_share_a_line_keep_their_own_rows():
    dataset = Dataset.range(4)
    for _ in range(3):
        dataset = dataset.map(double)
    list(dataset)
    assert [row.elements for row in dataset.stats().rows] == [4, 4, 4, 4]


def test_a_dataset_zipped_with_itself_is_shown_twice():
    numbers = Dataset.range(4).filter(lambda x: True)
    both = Dataset.zip(numbers, numbers)
    list(both)
    assert [row.step for row in both.stats().rows].count("filter(lambda)") == 2


# stats().total


def test_total_adds_up_all_iterations_and_rows_are_of_the_last():
    dataset = Dataset.range(100).filter(lambda x: x % 2 == 0).batch(10)
    for count in (1, 2, 3):
        assert len(list(dataset)) == 5
        stats = dataset.stats()
        assert stats.iterations == count
        assert [row.elements for row in stats.rows] == [100, 50, 5]
        assert [row.elements for row in stats.total.rows] == [100 * count, 50 * count, 5 * count]
        assert [row.step for row in stats.total.rows] == [row.step for row in stats.rows]
    assert stats.total.rows[0].busy > stats.rows[0].busy > 0


def test_iterators_that_are_open_at_the_same_time_all_count():
    dataset = Dataset.range(10)
    first, second = iter(dataset), iter(dataset)
    assert len(list(second)) == 10
    assert len(list(first)) == 10
    assert dataset.stats().total.rows[0].elements == 20
    del first
    assert len(list(dataset)) == 10
    assert (dataset.stats().iterations, dataset.stats().total.rows[0].elements) == (3, 30)


def test_many_iterations_leave_no_trace_but_their_sum():
    dataset = Dataset.range(3)
    for _ in range(50):
        list(dataset)
    assert len(dataset._history._running) <= 2
    assert dataset.stats().total.rows[0].elements == 150


def test_steps_of_datasets_that_functions_made_are_added_up():
    dataset = Dataset.range(3).flat_map(lambda x: Dataset.range(4).map(double))
    list(dataset), list(dataset)
    inner = [(row.step, row.elements) for row in dataset.stats().total.rows if row.indent.startswith("*")]
    assert inner == [("6 x range(0, 4, 1)", 24), ("6 x map(double)", 24)]


def test_the_table_says_which_iterations_it_is_of():
    dataset = Dataset.range(3)
    list(dataset)
    assert "iterations" not in str(dataset.stats())
    list(dataset)
    assert str(dataset.stats()).endswith(
        "The last of 2 iterations of this Dataset object; stats().total adds all of them up."
    )
    assert str(dataset.stats().total).endswith("All 2 iterations of this Dataset object.")


# len


def test_the_error_of_len_tells_how_many_there_were():
    dataset = Dataset.range(5).filter(lambda x: x > 2)
    with pytest.raises(TypeError, match=r"To count the elements:  sum\(1 for _ in dataset\)"):
        len(dataset)
    rows = iter(dataset)
    next(rows)
    with pytest.raises(TypeError, match="To count the elements"):
        len(dataset)
    list(rows)
    with pytest.raises(TypeError, match="The last complete iteration gave 2 elements") as caught:
        len(dataset)
    assert "steps_per_epoch=2" in str(caught.value)


def test_elements_before_a_state_count_too():
    dataset = Dataset.range(10).filter(lambda x: x % 2 == 0)
    rows = iter(dataset)
    next(rows), next(rows)
    again = iter(dataset)
    again.load_state_dict(rows.state_dict())
    assert len(list(again)) == 3
    with pytest.raises(TypeError, match="gave 5 elements"):
        len(dataset)


def test_an_infinite_dataset_has_no_count():
    with pytest.raises(TypeError) as caught:
        len(Dataset.range(3).repeat())
    assert str(caught.value) == (
        "the length of this dataset is infinite; cardinality() tells without raising."
    )
