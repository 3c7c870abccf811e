"""The methods take what tf.data's take: the same names, in the same order, with the same defaults."""

from __future__ import annotations

import inspect

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow, the oracle, is not installed")

from feedline import Dataset, UsageError  # noqa: E402

# What feedline's contract calls otherwise, or has not.
OTHERS = {
    "from_generator": "its arguments are its own: a signature may be inferred, and workers may run it",
    "list_files": "pattern",
    "cache": "location",
    "with_options": "its options are its own",
}
MISSING = {
    ("map", "synchronous"): "what runs at once is said by executor",
    ("map", "use_unbounded_threadpool"): "the same",
    ("range", "kwargs"): "they are named",
}
DEFAULTS = {
    ("shuffle", "buffer_size"): "without it, all are shuffled",
    ("shard", "num_shards"): "without them, from the environment",
    ("shard", "index"): "the same",
    ("counter", "dtype"): "tf.int64",
}
SHARED = sorted(name for name in dir(Dataset) if not name.startswith("_") and hasattr(tf.data.Dataset, name))
METHODS = [name for name in SHARED if callable(getattr(Dataset, name))]


def parameters(dataset, method):
    return dict(inspect.signature(getattr(dataset, method)).parameters)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in OTHERS])
def test_the_arguments_are_those_of_tf_data(method):
    ours = parameters(Dataset, method)
    theirs = {n: p for n, p in parameters(tf.data.Dataset, method).items() if (method, n) not in MISSING}
    assert [name for name in ours if name in theirs] == list(theirs)
    for name, parameter in theirs.items():
        assert ours[name].kind == parameter.kind, name
        if (method, name) not in DEFAULTS:
            assert ours[name].default == parameter.default, name


NAMED = {
    "range": lambda: Dataset.range(3, name="mine"),
    "from_tensor_slices": lambda: Dataset.from_tensor_slices([1, 2], name="mine"),
    "map": lambda: Dataset.range(3).map(abs, name="mine"),
    "zip": lambda: Dataset.zip(Dataset.range(3), name="mine"),
    "shuffle": lambda: Dataset.range(3).shuffle(2, name="mine"),
    "shuffle of all": lambda: Dataset.range(3).shuffle(name="mine"),
    "cache": lambda: Dataset.range(3).cache(name="mine"),
    "from_generator": lambda: Dataset.from_generator(lambda: iter([1]), name="mine"),
}


@pytest.mark.parametrize("make", NAMED.values(), ids=NAMED.keys())
def test_a_name_is_shown_and_changes_nothing_else(make):
    dataset = make()
    assert dataset.explain().splitlines()[-1].split("  ")[0].endswith(') "mine"')
    assert ' "mine"' in repr(dataset)
    assert dataset.cardinality() in (1, 2, 3, -2)


def test_a_name_does_not_count_for_the_fingerprint_and_for_states():
    plain, named = Dataset.range(5).map(abs), Dataset.range(5, name="a").map(abs, name="b")
    assert plain.fingerprint() == named.fingerprint()
    rows = iter(plain)
    next(rows)
    again = iter(named)
    again.load_state_dict(rows.state_dict())
    assert [int(x) for x in again] == [1, 2, 3, 4]


def test_errors_speak_of_a_step_by_its_name():
    with pytest.raises(ZeroDivisionError) as caught:
        list(Dataset.range(3).map(lambda x: 1 // int(x), name="divide"))
    assert 'in map "divide", added at' in caught.value.__notes__[0]
    with pytest.raises(UsageError, match=r'get_single_element "one", added at .* more than one element'):
        Dataset.range(3).get_single_element(name="one")


def test_a_name_is_a_str():
    with pytest.raises(UsageError, match=r"take\(name=5\): a name is a str, not int"):
        Dataset.range(3).take(2, 5)


def test_datasets_may_be_zipped_by_keyword_as_in_tf_data():
    for D in (Dataset, tf.data.Dataset):
        pairs = D.zip(datasets={"a": D.range(2), "b": D.range(5, 7)}).as_numpy_iterator()
        assert [(int(x["a"]), int(x["b"])) for x in pairs] == [(0, 5), (1, 6)]
        with pytest.raises((UsageError, TypeError)):
            D.zip(D.range(2), datasets=(D.range(2),))
        with pytest.raises((UsageError, TypeError)):
            D.zip()
