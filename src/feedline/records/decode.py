"""Examples -> columns: `features` compiled for the native core, and its arrays made columns of a Block."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from feedline import _native
from feedline.block import Block, Bytes, Column, Objects, Ragged
from feedline.errors import SchemaError
from feedline.records.faults import placed
from feedline.records.features import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    ListFeature,
    RaggedFeature,
    RawFeature,
    SequenceFeatures,
    TensorFeature,
    VarLenFeature,
    normalize,
)
from feedline.records.raw_arrays import from_bytes, narrowed, shape_key
from feedline.records.reading import raise_fault
from feedline.spec import STRING, ArraySpec, RaggedSpec, Spec
from feedline.structure import flatten

Features = Mapping[str, Any] | SequenceFeatures


class Plan:
    """`features` ready for use: the native schema, and how its columns become those of a Block.

    Elements are dicts by the features' names; of SequenceFeatures, a tuple of two: context and sequences.
    """

    def __init__(self, features: Features) -> None:
        self.features = normalize(features)
        self.schema = _native.Schema()
        self._makers: dict[int, _Maker | None] = {}
        self._specs: dict[int, Spec] = {}
        self._native_columns = 0
        self.checks_values = False
        """Whether a block can be refused after the native core decoded it."""
        tree: Any
        if isinstance(self.features, SequenceFeatures):
            tree = self._add_all(self.features.context), self._add_all(self.features.sequence, in_list=True)
        else:
            tree = self._add_all(self.features)
        # A structure orders its leaves in its own way; the native columns come in that of `features`.
        order, self.structure = flatten(tree)
        self._columns = [(number, self._makers[number]) for number in order]
        self.spec = self.structure.unflatten([self._specs[number] for number in order])
        self.decoder = _native.Decoder(self.schema)

    def _add_all(self, features: dict[str, Feature], *, in_list: bool = False) -> dict[str, int]:
        return {name: self._add(name, feature, in_list) for name, feature in features.items()}

    def _add(self, name: str, feature: Feature, in_list: bool) -> int:
        """Add a column; the result is its number."""
        number = self._native_columns
        if isinstance(feature, ListFeature):
            dtype, shape = feature.list_dtype, feature.shape
            inner = VarLenFeature(dtype) if None in shape else FixedLenFeature(shape, dtype)
            self._add_native(name, inner, in_list)
        elif isinstance(feature, RawFeature) and None in feature.shape:
            self._add_native(name, FixedLenFeature([], STRING, default_value=b""), in_list)
            if feature.needs_shape:
                least = [size or 0 for size in feature.shape]
                shapes = FixedLenFeature([len(least)], np.int64, default_value=least)
                self._add_native(shape_key(name), shapes, in_list)
        else:
            self._add_native(name, feature, in_list)
        self._makers[number] = _maker(name, feature)
        self.checks_values |= isinstance(feature, ListFeature) or (
            isinstance(feature, RawFeature) and None in feature.shape
        )
        self._specs[number] = _spec(feature, in_list)
        return number

    def _add_native(self, name: str, feature: Feature, in_list: bool) -> None:
        default = feature.default_array() if isinstance(feature, FixedLenFeature) else None
        strings = feature.dtype == STRING
        kind = "bytes" if isinstance(feature, RawFeature | TensorFeature) or strings else feature.dtype.name
        layout = _LAYOUTS[type(feature)]
        self.schema.add(
            name=name,
            key=getattr(feature, "value_key", None) or name,
            layout=layout,
            kind=kind,
            dtype=feature.dtype,
            shape=[-1 if size is None else size for size in getattr(feature, "shape", ())],
            required=layout not in ("varlen", "steps") or not getattr(feature, "allow_missing", True),
            default_numbers=None if default is None or strings else default.tobytes(),
            default_strings=None if default is None or not strings else default.ravel().tolist(),
            in_list=in_list,
        )
        self._native_columns += 1

    def columns(self, rows: int, arrays: list[Any]) -> tuple[Column, ...]:
        """Of what the native core decoded."""
        return tuple(
            arrays[number] if make is None else make(rows, arrays[number:]) for number, make in self._columns
        )

    def block(self, rows: int, arrays: list[Any]) -> Block:
        return Block._trusted(self.structure, self.columns(rows, arrays), rows)


_LAYOUTS = {
    FixedLenFeature: "fixed",
    VarLenFeature: "varlen",
    RaggedFeature: "varlen",
    FixedLenSequenceFeature: "steps",
    RawFeature: "raw",
    TensorFeature: "tensor",
}


_Maker = Callable[[int, list[Any]], Column]


def _maker(name: str, feature: Feature) -> _Maker | None:
    """What makes a column of the number of rows and the native core's arrays, of the feature and those after.

    None when there is one array, which is the column.
    """
    shape = getattr(feature, "shape", ())
    strings = feature.dtype == STRING
    if isinstance(feature, TensorFeature) and None in shape:
        return lambda _, arrays: _tensors(arrays[0], shape, strings)
    if isinstance(feature, RawFeature) and None in shape:
        return lambda rows, arrays: _raw(name, feature, rows, arrays)
    if isinstance(feature, ListFeature):
        return lambda _, arrays: _list(name, feature, arrays[0])
    if isinstance(feature, FixedLenFeature | RawFeature | TensorFeature):
        if not strings:
            return None
        return lambda rows, arrays: Bytes(arrays[0][0], arrays[0][1], shape, rows)
    return lambda _, arrays: _ragged(arrays[0], shape, strings)


def _spec(feature: Feature, in_list: bool) -> Spec:
    """Of a row. Values of changing number are ragged, so that a batch of them is a Ragged."""
    shape = getattr(feature, "shape", ())
    if in_list and not isinstance(feature, FixedLenSequenceFeature):
        return RaggedSpec((None, None), feature.dtype, 1)
    if isinstance(feature, RawFeature | ListFeature):
        is_ragged = shape == (None,) if isinstance(feature, ListFeature) else feature.is_ragged
        return RaggedSpec(shape, feature.dtype, 0) if is_ragged else ArraySpec(shape, feature.dtype)
    if isinstance(feature, FixedLenFeature | TensorFeature):
        return ArraySpec(shape, feature.dtype)
    return RaggedSpec((None, *shape), feature.dtype, 0)


def _ragged(arrays: Any, inner: tuple[int, ...], strings: bool) -> Column:
    data, string_offsets, steps, rows, _ = arrays
    values: Column = Bytes(data, string_offsets, inner) if strings else data
    if steps is not None:
        values = Ragged._trusted(values, steps)
    return Ragged._trusted(values, rows)


def _raw(name: str, feature: RawFeature, rows: int, arrays: list[Any]) -> Column:
    data, offsets, *_ = arrays[0]
    return from_bytes(
        name, feature, Bytes(data, offsets, (), rows), arrays[1] if feature.needs_shape else None
    )


def _list(name: str, feature: ListFeature, arrays: Any) -> Column:
    if None not in feature.shape:
        return narrowed(name, arrays, feature.dtype)
    data, _, _, offsets, _ = arrays
    return Ragged._trusted(narrowed(name, data, feature.dtype), offsets)


def _tensors(arrays: Any, shape: tuple[int | None, ...], strings: bool) -> Column:
    data, string_offsets, _, rows, dims = arrays
    shapes = np.empty((0, len(shape)), np.int64) if dims is None else dims.reshape(-1, len(shape))
    inner = tuple(size for size in shape[1:] if size is not None)
    if len(inner) == len(shape) - 1 and 0 not in inner:
        # Only the first dimension changes.
        values: Column = Bytes(data, string_offsets, inner) if strings else data.reshape(-1, *inner)
        return Ragged._trusted(values, rows // math.prod(inner))
    flat: Any = data
    if strings:
        flat = np.array([*_native.byte_strings(data, string_offsets), None], dtype=object)[:-1]
    return Objects([flat[rows[i] : rows[i + 1]].reshape(shapes[i]) for i in range(len(shapes))])


def decode(records: bytes | Sequence[bytes], features: Features) -> Any:
    """Serialized Examples -> a dict of arrays, as tf.io.parse_example gives them.

    One record gives its values; a list of them gives a batch, in which VarLenFeature and RaggedFeature are
    `Ragged`, and FixedLenSequenceFeature is filled up to the longest row with its default. SequenceFeatures
    give two dicts, context and sequences, the latter all `Ragged`.

    >>> from feedline.records.encode import encode
    >>> record = encode({"x": [1.5, 2.5], "tags": [b"a", b"b"]})
    >>> features = {"x": FixedLenFeature([2], "float32"), "tags": VarLenFeature("string")}
    >>> decode(record, features)
    {'x': array([1.5, 2.5], dtype=float32), 'tags': array([b'a', b'b'], dtype=object)}
    >>> decode([record, record], features)["tags"].to_list()
    [[b'a', b'b'], [b'a', b'b']]
    """
    plan = plan_of(features)
    given = [records] if isinstance(records, bytes) else list(records)
    rows, arrays, _, fault = plan.decoder.decode(given)
    raise_fault(fault)
    try:
        block = plan.block(rows, arrays)
    except SchemaError:
        _raise_first_misfit(plan, given)
        raise
    if isinstance(records, bytes):
        return block.row(0)
    return _padded(block.as_batch(), plan.features)


def _raise_first_misfit(plan: Plan, records: list[bytes]) -> None:
    for number, record in enumerate(records):
        rows, arrays, _, _ = plan.decoder.decode([record])
        try:
            plan.block(rows, arrays)
        except SchemaError as error:
            raise placed(error, record=number) from None


def _padded(batch: Any, features: dict[str, Feature] | SequenceFeatures) -> Any:
    if isinstance(features, SequenceFeatures):
        context, sequences = batch
        return _padded(context, features.context), sequences
    for name, feature in features.items():
        if isinstance(feature, FixedLenSequenceFeature):
            batch[name] = batch[name].to_dense(feature.default_value)
    return batch


def plan_of(features: Features) -> Plan:
    global _last
    known = normalize(features)
    if isinstance(known, SequenceFeatures):
        return _cached_plan(tuple(known.context.items()), tuple(known.sequence.items()))
    # The hash of many features takes longer than to read a small file.
    last, plan = _last
    if last is not known:
        plan = _cached_plan(tuple(known.items()), None)
        _last = known, plan
    assert plan is not None
    return plan


_last: tuple[dict[str, Feature] | None, Plan | None] = (None, None)


@lru_cache(maxsize=64)
def _cached_plan(features: tuple[Any, ...], sequence: tuple[Any, ...] | None) -> Plan:
    # Keyed by tuples, because equal dicts may differ in the order of their keys.
    return Plan(dict(features) if sequence is None else SequenceFeatures(dict(features), dict(sequence)))
