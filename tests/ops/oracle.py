"""tf.data beside feedline: the same events, elements and errors, in the same order."""

from __future__ import annotations

from itertools import islice

import pytest

from feedline.testing import assert_same

FAILING = (0, 3, 4, 9)
"""The elements that fail in the source of `feedline.testing.check_errors`."""


class _TensorFlow:
    """TensorFlow, imported when a test first asks it something; without it, that test is skipped."""

    def __getattr__(self, name):
        if name.startswith("_"):  # pytest looks for marks of its own
            raise AttributeError(name)
        return getattr(pytest.importorskip("tensorflow", reason="TensorFlow is not installed"), name)


tf = _TensorFlow()


def fail_at(bad):
    """A function for tf.data that fails for these numbers."""

    def check(x):
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(x != list(bad)), [x])]):
            return tf.identity(x)

    return check


def failing_range(count: int):
    """What check_errors makes of Dataset.range(count), in tf.data."""
    return tf.data.Dataset.range(count).map(fail_at(FAILING))


def events(elements, most: int = 60) -> list:
    """What a tf.data iterator gives: ("element", value) and ("failed",)."""
    found: list = []
    while len(found) < most:
        try:
            found.append(("element", next(elements)))
        except StopIteration:
            break
        except tf.errors.OpError:
            found.append(("failed",))
    return found


def assert_same_events(ours: list, dataset) -> None:
    """`ours` is from check_errors; the dataset is tf.data's."""
    theirs = events(dataset.as_numpy_iterator())
    plain = [event if event[0] == "element" else event[:1] for event in ours]
    assert [event[0] for event in plain] == [event[0] for event in theirs]
    assert_same([e[1] for e in plain if e[0] == "element"], [e[1] for e in theirs if e[0] == "element"])


def assert_same_elements(ours, theirs, most: int = 60) -> None:
    assert_same(islice(ours, most), islice(theirs.as_numpy_iterator(), most))
    assert ours.cardinality() == int(theirs.cardinality())
