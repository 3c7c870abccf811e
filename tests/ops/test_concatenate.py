"""concatenate."""

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.testing import check_errors, check_laws, in_blocks
from tests.ops.sources import every_source
from tests.tfdata import both, both_refuse

PIPELINES = {
    # tf.data's own example
    "two": lambda D: D.range(1, 4).concatenate(D.range(4, 8)),
    "nothing first": lambda D: D.range(0).concatenate(D.range(3)),
    "nothing last": lambda D: D.range(3).concatenate(D.range(0)),
    "nothing at all": lambda D: D.range(0).concatenate(D.range(0)),
    "infinity first": lambda D: D.range(2).repeat().concatenate(D.range(3)),
    "infinity last": lambda D: D.range(2).concatenate(D.range(3).repeat()),
    "three": lambda D: D.range(2).concatenate(D.range(0)).concatenate(D.range(5, 8)),
    "one within another": lambda D: D.range(2).concatenate(D.range(3).concatenate(D.range(4))),
    "the unknown first": lambda D: D.range(9).filter(lambda x: x > 6).concatenate(D.range(2)),
    "the unknown and infinity": lambda D: D.range(9).filter(lambda x: x > 6).concatenate(D.range(2).repeat()),
    "itself": lambda D: (lambda ds: ds.concatenate(ds).concatenate(ds))(D.range(2)),
    "pairs": lambda D: D.from_tensor_slices(([1], ["a"])).concatenate(D.from_tensor_slices(([2], ["b"]))),
    "a dict": lambda D: D.from_tensors({"a": 1, "b": 2}).concatenate(D.from_tensors({"b": 3, "a": 4})),
    "other shapes": lambda D: D.from_tensors([1, 2]).concatenate(D.from_tensors([1, 2, 3])),
    "other ranks": lambda D: D.from_tensors([1, 2]).concatenate(D.from_tensors([[1], [2]])),
    "batches": lambda D: D.range(5).batch(2).concatenate(D.range(3).batch(3)),
}


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES.keys())
def test_concatenate_gives_what_tf_data_gives(pipeline):
    both(pipeline, most=20)


@every_source
def test_concatenate_obeys_the_laws(source):
    check_laws(lambda ds: ds.concatenate(ds.take(2)), source)


def test_blocks_of_other_kinds_obey_the_laws():
    check_laws(
        lambda ds: ds.concatenate(Dataset.from_tensors(np.ones((3, 3)))), Dataset.from_tensors(np.ones(4))
    )
    words = Dataset.from_tensor_slices([["a", "b"]])
    check_laws(lambda ds: ds.concatenate(words), Dataset.from_tensor_slices(["a", "b"]))


def test_errors_come_in_their_place():
    check_errors(lambda ds: ds.concatenate(ds), Dataset.range(12))


MIXTURES = {
    "dtypes": lambda D: D.range(2).concatenate(D.from_tensor_slices([1.5])),
    "strings": lambda D: D.range(2).concatenate(D.from_tensor_slices(["a"])),
    "structures": lambda D: D.range(2).concatenate(D.zip(D.range(2), D.range(2))),
    "keys": lambda D: D.from_tensors({"a": 1}).concatenate(D.from_tensors({"b": 1})),
    "counts": lambda D: D.from_tensors((1, 2)).concatenate(D.from_tensors((1, 2, 3))),
    "no dataset": lambda D: D.range(2).concatenate(5),
}


@pytest.mark.parametrize("pipeline", MIXTURES.values(), ids=MIXTURES.keys())
def test_concatenate_refuses_what_tf_data_refuses(pipeline):
    both_refuse(pipeline)


def test_concatenate_says_what_is_wrong():
    with pytest.raises(UsageError) as caught:
        Dataset.range(2).concatenate(Dataset.from_tensors({"a": 1.5}))
    assert str(caught.value).endswith(
        ": dataset 1 has elements {'a': ArraySpec((), float32)}, and those before it ArraySpec((), int64).\n"
        "  All must have the same structure and dtypes: change some of them, with map."
    )
    with pytest.raises(UsageError) as caught:
        Dataset.range(2).concatenate(5)
    assert str(caught.value) == "concatenate: give a Dataset, not int."


def test_what_only_the_elements_tell_is_refused_when_they_come():
    for function, text in [
        (
            lambda x: x * 1.5,
            r"concatenate, added at .*: element is float64 here, and was int64 in the elements before",
        ),
        (lambda x: (x, x), r"elements have the structure Structure\(\(\*, \*\)\) here, and those before"),
    ]:
        rows = iter(Dataset.range(2).concatenate(Dataset.range(2).map(function)))
        assert [next(rows), next(rows)] == [0, 1]
        with pytest.raises(UsageError, match=text):
            next(rows)
        assert list(rows) == []


@pytest.mark.parametrize("block_rows", [1, 2, 7, 1000])
def test_a_second_dataset_that_does_not_fit_is_one_error_whatever_the_size_of_blocks(block_rows):
    first, second = (Dataset.range(5).filter(lambda x: True) for _ in range(2))
    with in_blocks(first.concatenate(second.map(str)), block_rows) as rows:
        assert [int(next(rows)) for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(UsageError, match="string here"):
            next(rows)
        state = rows.state_dict()
        assert list(rows) == []
        rows.load_state_dict(state)
        assert list(rows) == []


def test_a_part_without_elements_or_whose_first_one_fails_does_not_hide_the_spec():
    def odd(x):
        if x % 2 == 0:
            raise KeyError(x)
        return x

    parts = [Dataset.range(3), Dataset.range(0).map(lambda x: x), Dataset.range(4).map(odd)]
    assert parts[0].concatenate(parts[1]).concatenate(parts[2]).element_spec == parts[0].element_spec
    assert Dataset.choose_from_datasets(parts, Dataset.range(1)).element_spec == parts[0].element_spec
    with pytest.raises(UsageError, match="no element"):
        _ = parts[1].concatenate(parts[1]).element_spec


def test_as_many_as_a_loop_adds():
    dataset = Dataset.range(0)
    for number in range(1200):
        dataset = dataset.concatenate(Dataset.range(number, number + 1))
    assert [int(x) for x in dataset] == list(range(1200))
    assert (len(dataset), int(dataset[700])) == (1200, 700)


def test_three_obey_the_laws():
    check_laws(lambda ds: ds.concatenate(ds.take(2)).concatenate(ds.skip(3)), Dataset.range(7))
    check_errors(lambda ds: ds.concatenate(ds).concatenate(ds), Dataset.range(7))
