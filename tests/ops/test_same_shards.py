"""Workers of from_generator that all yield the same elements are noticed, and others are not accused."""

import warnings

import numpy as np
import pytest

from feedline import Dataset, Ragged


def images(number):
    return np.full((50, 50), number, np.float32), f"label {number}"


def all_of_them(shard):
    return map(images, range(20))


def a_part(shard):
    return map(images, range(shard.index, 20, shard.count))


def warned(dataset):
    """The warnings of an iteration."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(dataset)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("workers", [2, 3])
def test_a_generator_that_ignores_its_shard_is_told_of_once(workers, deterministic):
    dataset = Dataset.from_generator(all_of_them, workers=workers, deterministic=deterministic)
    with pytest.warns(RuntimeWarning, match=f"all {workers} workers seem to yield the same") as caught:
        assert len(list(dataset)) == 20 * workers
    (warning,) = caught
    assert warning.filename == __file__
    assert "the first 8 of each are equal" in str(warning.message)
    assert "items[shard.index :: shard.count]" in str(warning.message)
    assert warned(dataset) == []


def test_it_is_noticed_without_workers_too():
    dataset = Dataset.from_generator(all_of_them, workers=2).with_options(workers=0)
    assert len(warned(dataset)) == 1


def test_it_is_noticed_behind_other_steps():
    dataset = Dataset.from_generator(all_of_them, workers=2).shuffle(10).batch(4).prefetch(2)
    assert len(warned(dataset)) == 1


def test_a_generator_that_keeps_to_its_shard_is_not_accused():
    assert warned(Dataset.from_generator(a_part, workers=2)) == []


@pytest.mark.parametrize(
    "yielded",
    [
        pytest.param(lambda shard: [7] * 20, id="constant elements"),
        pytest.param(lambda shard: [0, 1] * 10, id="two values"),
        pytest.param(lambda shard: [0, 1], id="two elements"),
        pytest.param(lambda shard: range(5 + shard.index), id="of different lengths"),
        pytest.param(lambda shard: [*range(7), 100 + shard.index], id="the same at the beginning"),
        pytest.param(lambda shard: [np.full(9000, i + shard.index) for i in range(9)], id="large arrays"),
        pytest.param(lambda shard: [], id="nothing"),
    ],
)
def test_elements_that_may_be_meant_are_not_accused(yielded):
    assert warned(Dataset.from_generator(yielded, workers=2)) == []


@pytest.mark.parametrize(
    "element",
    [
        pytest.param(int, id="numbers"),
        pytest.param(str, id="strings"),
        pytest.param(lambda i: np.array(["a", str(i)]), id="arrays of strings"),
        pytest.param(lambda i: {"x": np.arange(i)}, id="changing shapes"),
        pytest.param(lambda i: Ragged(np.arange(i), [0, i]), id="ragged"),
        pytest.param(lambda i: np.full((300, 300), i), id="large arrays"),
    ],
)
@pytest.mark.parametrize("count", [3, 8, 30])
def test_the_same_elements_of_any_kind_are_noticed(element, count):
    dataset = Dataset.from_generator(lambda shard: map(element, range(count)), workers=2)
    assert len(warned(dataset.with_options(workers=0))) == 1


def test_a_generator_that_fails_is_not_judged():
    def failing(shard):
        yield 0
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        warned(Dataset.from_generator(failing, workers=2).with_options(workers=0))
