"""tf.data as the oracle: one pipeline, built by feedline and by tf.data, and compared element by element.

A pipeline is a function of the Dataset class, so that both build it from the same words:

    both(lambda D: D.range(5).batch(2))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

from feedline import Dataset, FeedlineError, Ragged
from feedline.spec import ArraySpec, RaggedSpec
from feedline.testing import assert_same

Pipeline = Callable[[Any], Any]
ERROR = "an error"


def tensorflow() -> Any:
    return pytest.importorskip("tensorflow", reason="TensorFlow, the oracle, is not installed")


def both(pipeline: Pipeline, most: int = 200) -> list[Any]:
    """Both give the same elements, errors, cardinality and, as far as tf.data knows it, element_spec."""
    tf = tensorflow()
    return compare(pipeline(Dataset), pipeline(tf.data.Dataset), most)


def both_refuse(pipeline: Pipeline) -> Exception:
    """Both raise when the pipeline is built; the result is feedline's error."""
    tf = tensorflow()
    with pytest.raises((ValueError, TypeError, AttributeError, tf.errors.InvalidArgumentError)):
        pipeline(tf.data.Dataset)
    with pytest.raises((FeedlineError, TypeError)) as caught:
        pipeline(Dataset)
    return caught.value


def compare(ours: Dataset, theirs: Any, most: int = 200) -> list[Any]:
    elements = list(islice(until_error(iter(ours)), most))
    assert_same(elements, islice(until_error(numpy_elements(theirs)), most))
    assert ours.cardinality() == theirs.cardinality().numpy()
    if elements and elements[0] is not ERROR:
        check_spec(ours.element_spec, theirs.element_spec)
    return elements


def until_error(elements: Iterator[Any]) -> Iterator[Any]:
    """The elements, and ERROR where the first error is."""
    tf = tensorflow()
    try:
        for element in elements:  # noqa: UP028  (`yield from` would close the iterator, too)
            yield element
    except (FeedlineError, tf.errors.OpError):
        yield ERROR


def numpy_elements(dataset: Any) -> Iterator[Any]:
    """as_numpy_iterator, but ragged tensors come as Ragged, and not as arrays of arrays."""
    tf = tensorflow()
    if not any(isinstance(spec, tf.RaggedTensorSpec) for spec in tf.nest.flatten(dataset.element_spec)):
        return dataset.as_numpy_iterator()
    return map(_numpy, dataset)


def _numpy(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_numpy, value))
    if isinstance(value, dict):
        return {key: _numpy(item) for key, item in value.items()}
    if hasattr(value, "row_splits"):
        return Ragged(_numpy(value.values), value.row_splits.numpy())
    return None if value is None else value.numpy()


def check_spec(ours: Any, theirs: Any, sizes: bool = True) -> None:
    """Structure and dtypes are those of tf.data, and so are the sizes that it knows, if `sizes`."""
    tf = tensorflow()
    if isinstance(theirs, tuple):
        assert type(ours) is type(theirs)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            check_spec(one, other, sizes)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            check_spec(ours[key], theirs[key], sizes)
    elif isinstance(theirs, tf.NoneTensorSpec):
        assert ours is None
    else:
        ragged = isinstance(theirs, tf.RaggedTensorSpec)
        assert isinstance(ours, RaggedSpec if ragged else ArraySpec), (ours, theirs)
        assert ours.dtype == np.dtype(theirs.dtype.as_numpy_dtype), (ours, theirs)
        if ragged:
            assert ours.ragged_rank == theirs.ragged_rank, (ours, theirs)
        if theirs.shape.rank is not None:
            assert len(ours.shape) == theirs.shape.rank, (ours, theirs)
            for one, other in zip(ours.shape, theirs.shape, strict=True):
                # How many rows a Ragged has is part of it, and not of what a function's results tell.
                vague = one is None and (ragged or not sizes)
                assert other is None or one == other or vague, (ours, theirs)
