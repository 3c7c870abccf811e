"""zip."""

import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.testing import check_errors, check_laws
from tests.ops.sources import SOURCES, Point, every_source
from tests.tfdata import both, both_refuse

PIPELINES = {
    # tf.data's own examples
    "two": lambda D: D.zip(D.range(1, 4), D.range(4, 7)),
    "a tuple of two": lambda D: D.zip((D.range(1, 4), D.range(4, 7))),
    "in another order": lambda D: D.zip(D.range(4, 7), D.range(1, 4)),
    "three, and batches": lambda D: D.zip(D.range(1, 4), D.range(4, 7), D.range(7, 13).batch(2)),
    "of different lengths": lambda D: D.zip(D.range(1, 4), D.range(13, 15)),
    # what else there is
    "one": lambda D: D.zip(D.range(3)),
    "a tuple of one": lambda D: D.zip((D.range(3),)),
    "a dict": lambda D: D.zip({"b": D.range(3), "a": (D.range(4), D.range(9))}),
    "a namedtuple": lambda D: D.zip(Point(D.range(3), D.range(4))),
    "pairs of pairs": lambda D: D.zip(D.zip(D.range(3), D.range(3)), D.range(3).map(lambda x: {"x": x})),
    "with nothing": lambda D: D.zip(D.range(3), D.range(0)),
    "with infinity": lambda D: D.zip(D.range(3), D.range(2).repeat()),
    "two infinities": lambda D: D.zip(D.range(3).repeat(), D.range(2).repeat()),
    "with the unknown": lambda D: D.zip(D.range(3), D.range(9).filter(lambda x: x > 6)),
    "infinity and the unknown": lambda D: D.zip(D.range(3).repeat(), D.range(9).filter(lambda x: x > 6)),
}


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES.keys())
def test_zip_gives_what_tf_data_gives(pipeline):
    both(pipeline, most=20)


@every_source
def test_zip_obeys_the_laws(source):
    check_laws(lambda ds: Dataset.zip({"z": ds, "a": (Dataset.range(5), ds)}), source)
    check_laws(lambda ds: Dataset.zip(ds, ds.batch(1)), SOURCES["streamed"])


def test_the_parts_stay_in_step_when_an_element_fails():
    def failing(x):
        return 10 // int(x - 2)

    rows = iter(Dataset.zip(Dataset.range(5), Dataset.range(5).map(failing), Dataset.range(9)))
    assert [next(rows)[0], next(rows)[0]] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(rows)
    assert [(row[0], row[2]) for row in rows] == [(3, 3), (4, 4)]


def test_errors_come_in_their_place():
    check_errors(lambda ds: Dataset.zip(Dataset.range(50), ds, Dataset.range(10)), Dataset.range(12))
    check_errors(lambda ds: Dataset.zip(ds.filter(lambda x: True), ds.skip(2)), Dataset.range(12))


@pytest.mark.parametrize("args", [(), (5,), ("text",), (None,)])
def test_zip_refuses_what_tf_data_refuses(args):
    both_refuse(lambda D: D.zip(*args))


@pytest.mark.parametrize("tree", [lambda one: (one, None), lambda one: {"a": one, "b": (one, None)}])
def test_none_among_datasets_is_refused_as_by_tf_data(tree):
    both_refuse(lambda D: D.zip(tree(D.range(2))))


def test_a_list_of_datasets_is_refused_as_by_tf_data():
    both_refuse(lambda D: D.zip([D.range(2), D.range(3)]))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), "zip(): give one dataset at least."),
        (((),), "zip(): give one dataset at least."),
        ((Dataset.range(2), 5), "zip: give datasets, or a tree of them, not int."),
        (([Dataset.range(2)],), "zip: give datasets, or a tree of them, not list."),
    ],
)
def test_zip_says_what_is_wrong(args, text):
    with pytest.raises(UsageError) as caught:
        Dataset.zip(*args)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "step", [lambda ds: ds, lambda ds: ds.filter(lambda x: True)], ids=["index", "stream"]
)
def test_what_is_ragged_stays_so_beside_what_nobody_knows_before(step):
    ragged = Dataset.from_tensor_slices(Ragged(np.arange(6), [0, 1, 3, 6]))
    (batch,) = Dataset.zip(ragged, step(Dataset.range(3).map(lambda x: x * 2))).batch(3)
    assert batch[0].to_list() == [[0], [1, 2], [3, 4, 5]]
    assert batch[1].tolist() == [0, 2, 4]
    # But arrays whose sizes differ are none.
    with pytest.raises(UsageError, match=r"at element\[1\]"):
        list(Dataset.zip(ragged, step(Dataset.range(3).map(np.ones))).batch(3))
