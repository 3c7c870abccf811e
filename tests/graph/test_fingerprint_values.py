"""Equal values have equal texts, others have others; and what does not tell what it is is refused."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import math
import operator
import pathlib
import pickle
import random
import re
import socket
import threading
import types
import uuid
import weakref

import ml_dtypes
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import feedline as fl
from feedline import Dataset

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
KEYS = st.booleans() | st.integers() | st.text() | st.binary() | st.tuples(st.integers(), st.text())
DTYPES = hnp.boolean_dtypes() | hnp.integer_dtypes() | hnp.floating_dtypes() | hnp.unicode_string_dtypes()
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=12))
VALUES = st.recursive(
    PLAIN | ARRAYS,
    lambda inside: (
        st.lists(inside, max_size=4)
        | st.tuples(inside, inside)
        | st.dictionaries(KEYS, inside, max_size=4)
        | st.frozensets(KEYS, max_size=5)
        | st.builds(lambda x, y: types.SimpleNamespace(x=x, y=y), inside, inside)
    ),
    max_leaves=8,
)


def found(value):
    return Dataset.range(3).map(lambda x: value).fingerprint()


def exactly(value):
    """Equal only if all types, numbers and orders are."""
    if isinstance(value, np.ndarray):
        return "array", value.dtype.name, value.shape, tuple(map(exactly, value.ravel().tolist()))
    if isinstance(value, list | tuple):
        return type(value), tuple(map(exactly, value))
    if isinstance(value, dict):
        return dict, tuple((exactly(key), exactly(one)) for key, one in value.items())
    if isinstance(value, frozenset):
        return frozenset, frozenset(map(exactly, value))
    if isinstance(value, types.SimpleNamespace):
        return "namespace", exactly(vars(value))
    if isinstance(value, float):
        return float, "nan" if math.isnan(value) else value.hex()
    return type(value), value


@given(VALUES)
def test_a_copy_has_the_same_fingerprint(value):
    one = found(value)
    assert one == found(copy.deepcopy(value)) == found(pickle.loads(pickle.dumps(value)))
    one.check()


@given(VALUES, VALUES)
def test_values_have_the_same_fingerprint_only_if_they_are_the_same(one, other):
    assert (found(one) == found(other)) == (exactly(one) == exactly(other))


@given(st.lists(st.text(), unique=True, min_size=2))
def test_the_order_of_a_set_does_not_count_and_that_of_a_dict_does(names):
    assert found(set(names)) == found(set(reversed(names)))
    assert found(dict.fromkeys(names)) != found(dict.fromkeys(reversed(names)))


class Level(enum.Enum):
    LOW = 1


class Flags(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass
class Config:
    scale: float
    hidden: int = dataclasses.field(default=0, compare=False)


class Record(msgspec.Struct):
    scale: float


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale


class Text(str):
    pass


class Callable:
    def __init__(self, scale):
        self.scale = scale
        self.lock = threading.Lock()

    def __getstate__(self):
        return {"scale": self.scale}

    def __setstate__(self, state):
        self.__init__(**state)


Point = collections.namedtuple("Point", "x")

DIFFERENT = [
    *(0, 0.0, -0.0, False, None, "0", b"0", bytearray(b"0"), (0,), [0], {0}, frozenset({0}), {0: 0}, ((0,),)),
    *(2**70, 10**5000, 10**5000 + 1, 1 + 2j, range(3), range(4), slice(1), slice(2), ...),
    *(np.float32(1), np.float64(1), np.int64(1), np.datetime64("2020-01-01"), np.datetime64("2020-01-02")),
    *(np.dtype("f4"), np.dtype(">f4"), np.dtype([("a", "f4")]), np.dtype(ml_dtypes.bfloat16), np.float32),
    *(np.zeros(2), np.zeros((2, 1)), np.zeros(2, "f4"), np.zeros(2, ml_dtypes.bfloat16), np.zeros(9)),
    *(np.zeros(2, ml_dtypes.float8_e4m3fn), np.zeros(2, ml_dtypes.float8_e5m2), np.array([None, 1], object)),
    *(np.zeros(2, [("a", "i4")]), np.ones(2, [("a", "i4")]), np.zeros(2, [("b", "i4")])),
    *(np.ma.masked_equal([1, 2], 2), np.ma.array([1, 2]), np.zeros(9, "S3"), np.zeros(9, "U3")),
    *(np.array(["a", "b"], np.dtypes.StringDType()), np.array(["a", "c"], np.dtypes.StringDType())),
    *(Level.LOW, Flags.A, Flags.A | Flags.B, Config(1), Config(2), Config(1, hidden=5), Record(1), Record(2)),
    *(Slotted(1), Slotted(2), Text("a"), Text("b"), Callable(1), Callable(2), Point(1), Point(2)),
    *(datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.timedelta(1), datetime.UTC),
    *(decimal.Decimal("1.0"), decimal.Decimal("1.00"), fractions.Fraction(1, 3)),
    *(uuid.UUID(int=1), uuid.UUID(int=2), pathlib.PurePosixPath("a"), pathlib.PurePosixPath("b")),
    *(re.compile("a"), re.compile("a", re.I), re.compile(b"a"), collections.OrderedDict(a=1)),
    *(collections.deque([1]), collections.deque([1], 5), collections.Counter("a")),
    *(collections.defaultdict(int, a=1), collections.defaultdict(list, a=1)),
    *(functools.partial(int, base=2), functools.partial(int, base=3)),
    *(operator.itemgetter(1), operator.itemgetter(2), operator.attrgetter("a")),
    *(np.sqrt, len, str.upper, "a".join, "b".join, int.from_bytes, math.sqrt),
    *(list, list[int], list[str], int | None),
    *(fl.Ragged(np.zeros(3), np.array([0, 1, 3])), fl.Ragged(np.zeros(3), np.array([0, 2, 3]))),
    *(Dataset.range(1), Dataset.range(2), fl.FixedLenFeature([1], "int64"), fl.FixedLenFeature([2], "int64")),
]  # fmt: skip


def test_values_of_all_kinds_differ():
    seen = {}
    for number, value in enumerate(DIFFERENT):
        one = found(value)
        one.check()
        assert one not in seen, (value, DIFFERENT[seen.get(one, 0)])
        seen[one] = number


def test_values_of_all_kinds_stay_the_same_when_they_are_copied():
    for value in DIFFERENT:
        try:
            other = pickle.loads(pickle.dumps(value))
        except (TypeError, AttributeError):
            continue  # it cannot be copied so
        assert found(value) == found(other), value


def generator():
    yield 1


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: open(__file__), "_io.TextIOWrapper"),  # noqa: SIM115
        (threading.Lock, "_thread.lock"),
        (threading.local, "_thread._local"),
        (socket.socket, "socket.socket"),
        (generator, "generator"),
        (lambda: iter([1]), "list_iterator"),
        (itertools.count, "itertools.count"),
        (lambda: np.random.default_rng(1), "numpy.random._generator.Generator"),
        (lambda: np.random.RandomState(1), "numpy.random.mtrand.RandomState"),
        (lambda: random.Random(1), "random.Random"),
        (lambda: memoryview(b"a"), "memoryview"),
        (lambda: weakref.ref(generator), "weakref.ReferenceType"),
        (weakref.WeakKeyDictionary, "weakref.WeakKeyDictionary"),
        (lambda: np.frompyfunc(abs, 1, 1), "is a ufunc"),
    ],
)
def test_what_does_not_tell_what_it_is_is_refused_by_name(make, kind):
    value = make()
    holder = types.SimpleNamespace(inside={"key": value})
    try:
        one = Dataset.range(3).map(lambda x: holder)
        with pytest.raises(fl.UsageError) as caught:
            one.fingerprint().check()
        lines = str(caught.value).split("\n")
        assert lines[1].startswith("  map(lambda): closure holder.inside['key'] of function lambda is a")
        assert kind in lines[1]
        assert lines[-1].endswith('cache(..., version="1")')
        assert one.fingerprint() == one.fingerprint()
    finally:
        getattr(value, "close", lambda: None)()


def test_an_object_whose_own_method_fails_is_refused_too():
    class Bad:
        def __reduce_ex__(self, protocol):
            raise RuntimeError

        def __repr__(self):
            raise RuntimeError

    bad = Bad()
    one = Dataset.range(3).map(lambda x: bad).fingerprint()
    assert one.problems == ("map(lambda): closure bad of function lambda is a "
                            f"{__name__}.{Bad.__qualname__}",)  # fmt: skip


def test_a_value_that_is_too_deep_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    one = Dataset.range(3).map(lambda x: deep).fingerprint()
    assert "closure deep of function lambda is a list that cannot be looked at" in one.problems[0]


def test_a_list_that_holds_itself_is_told():
    def holding(count):
        held = [1] * count
        held.append(held)
        return held

    assert found(holding(1)) == found(holding(1)) != found(holding(2))


def test_a_module_that_is_used_as_a_whole_is_refused():
    module = types.ModuleType("settings")
    module.a = 1
    space = {"Dataset": Dataset, "settings": module}
    exec("ds = Dataset.range(3).map(lambda x: getattr(settings, x))", space)
    assert space["ds"].fingerprint().problems == (
        "map(lambda): global settings of function lambda is the module settings as a whole",
    )


def test_a_large_vocabulary_is_told_at_once():
    words = {f"word {number}": number for number in range(300_000)}
    one = found(words)
    words["word 7"] = 8
    assert one != found(words)


def test_what_frameworks_have_counts_where_it_is_an_array():
    tf = pytest.importorskip("tensorflow")
    assert found(tf.constant([1.0, 2.0])) == found(tf.constant([1.0, 2.0])) != found(tf.constant([1.0, 3.0]))
    with pytest.raises(fl.UsageError, match="closure value of function lambda is a tensorflow"):
        found(tf.function(lambda x: x)).check()
    by_name = Dataset.range(3).map(tf.nn.relu).fingerprint()
    by_name.check()
    assert by_name.parts["library tensorflow"] == tf.__version__
