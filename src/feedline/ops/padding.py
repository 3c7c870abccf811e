"""Filling up: rows of a batch to one shape. For padded_batch and bucket_by_sequence_length.

Where only the first dimension changes, the values of a batch lie end to end in one array, and filling up is
one fill and one masked copy, however many elements there are. Strings go the same way, by their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from feedline import _native
from feedline.block import Block
from feedline.column import Array, Bytes, Column, Objects, Offsets, Ragged, empty, row_of, slice_of
from feedline.errors import UsageError, WrongKind
from feedline.graph import Indices, Node
from feedline.ops.batch import regroup
from feedline.spec import (
    STRING,
    ArraySpec,
    ObjectSpec,
    RaggedSpec,
    Shape,
    Spec,
    as_leaf,
    dtype_name,
    leaf_spec,
    wider_dtype,
)
from feedline.structure import Structure, flatten


def check_padding(node: Any) -> None:
    """Make padded_shapes and padding_values of a node plain lists, numbers and bytes, and check them."""
    for name, plain in (("padded_shapes", _plain_shape), ("padding_values", _plain_value)):
        leaves, structure = flatten(getattr(node, name))
        where = f"{node.name}({name})"
        object.__setattr__(node, name, structure.unflatten([plain(leaf, where) for leaf in leaves]))
    Padding.of(node).check(node.input.spec(None))


class _Fill(NamedTuple):
    """How one leaf is filled up."""

    shape: Shape | None  # None in it: to the longest of the batch; None for all of it: so for each dimension
    value: Any  # None: 0 or b""


class Padding(NamedTuple):
    """What a step says of how elements are filled up."""

    step: str
    shapes: Any
    values: Any

    @classmethod
    def of(cls, node: Any) -> Padding:
        return cls(node.name, node.padded_shapes, node.padding_values)

    def fills(self, structure: Structure) -> list[_Fill]:
        """For each leaf of the elements."""
        step, count = self.step, structure.leaf_count
        numbers = structure.unflatten(range(count))
        if structure.has_none:
            raise WrongKind(f"{step}: the elements hold None, {numbers}, and only arrays can be filled up.")
        shapes: list[Any] = [None] * count
        values: list[Any] = [None] * count
        if self.shapes is not None:
            _spread(self.shapes, numbers, f"{step}(padded_shapes)", shapes)
            for number, path in enumerate(structure.paths()):
                shapes[number] = _as_shape(shapes[number], f"{step}(padded_shapes): the shape for {path}")
        if isinstance(self.values, tuple | dict):
            _spread(self.values, numbers, f"{step}(padding_values)", values, optional=True)
        else:
            values = [self.values] * count
        return [_Fill(shape, value) for shape, value in zip(shapes, values, strict=True)]

    def check(self, spec: Any) -> None:
        """Refuse elements, if anything is known of them yet, that cannot be filled up so."""
        if spec is None:
            return
        step, (leaves, structure) = self.step, flatten(spec)
        for leaf, fill, path in zip(leaves, self.fills(structure), structure.paths(), strict=True):
            if isinstance(leaf, ObjectSpec) or (isinstance(leaf, RaggedSpec) and leaf.ragged_rank):
                what = "Ragged" if isinstance(leaf, RaggedSpec) else "no array"
                raise UsageError(f"{step}: {path} is {what}, and only arrays can be filled up.")
            _check_value(fill.value, leaf.dtype, f"{step}(padding_values): the value for {path}")
            if leaf.shape is None and fill.shape is None:
                raise UsageError(
                    f"{step}: the number of dimensions of {path} is not known.\n"
                    "  Say it with padded_shapes; None for a dimension takes the longest of each batch."
                )
            if leaf.shape is not None and fill.shape is not None and not _fits(leaf.shape, fill.shape):
                raise UsageError(f"{step}(padded_shapes): {path} has shape {leaf.shape}{_remedy(fill.shape)}")

    def spec(self, spec: Any, size: int | None) -> Any:
        """Of batches, from that of the elements, if it is known."""
        if spec is None:
            return None
        leaves, structure = flatten(spec)
        made: list[Spec] = []
        for leaf, fill in zip(leaves, self.fills(structure), strict=True):
            if isinstance(leaf, ObjectSpec):
                made.append(leaf)
            else:
                shape = leaf.shape if fill.shape is None else fill.shape
                made.append(ArraySpec(None if shape is None else (size, *shape), leaf.dtype))
        return structure.unflatten(made)


class Padder:
    """Makes batches of rows. `filler` stands for each None in the shapes."""

    def __init__(self, node: Node, padding: Padding, filler: int | None = None) -> None:
        self._node = node
        self._padding = padding
        self._filler = filler
        self._fills: list[_Fill] | None = None

    def many(self, block: Block, size: int) -> Block | None:
        """Each `size` rows as a batch, when all batches are filled up to the same shapes; else None."""
        fills = self._fills_of(block)
        for column, fill in zip(block.columns, fills, strict=True):
            fixed = fill.shape is not None and fill.shape[:1] != (None,)
            if isinstance(column, Objects) or (isinstance(column, Ragged) and not fixed):
                return None
        whole = block.slice(0, block.rows - block.rows % size)
        try:
            padded = [_padded(column, fill) for column, fill in zip(whole.columns, fills, strict=True)]
        except _Misfit:
            return None
        columns = [regroup(column, size) for column in padded]
        return Block._trusted(block.structure, columns, whole.rows // size)

    def one(self, block: Block, numbers: Sequence[int] | Indices) -> Block:
        """All rows as one batch; `numbers` are theirs, for the error."""
        made = []
        for place, (column, fill) in enumerate(zip(block.columns, self._fills_of(block), strict=True)):
            try:
                made.append(regroup(_padded(column, fill), block.rows))
            except _Misfit as misfit:
                path = block.structure.paths()[place]
                found = leaf_spec(row_of(column, misfit.row))
                raise UsageError(
                    f"{self._node}: element {int(numbers[misfit.row]):,} has {found} at {path}{misfit.why}"
                ) from None
        return Block._trusted(block.structure, made, 1)

    def _fills_of(self, block: Block) -> list[_Fill]:
        if self._fills is None:
            fills = self._padding.fills(block.structure)
            for place, (fill, path) in enumerate(zip(fills, block.structure.paths(), strict=True)):
                dtype = getattr(leaf_spec(row_of(block.columns[place], 0)), "dtype", None)
                if dtype is not None:
                    name = f"{self._padding.step}(padding_values): the value for {path}"
                    _check_value(fill.value, dtype, name)
                if fill.shape is not None and self._filler is not None:
                    shape = tuple(self._filler if size is None else size for size in fill.shape)
                    fills[place] = _Fill(shape, fill.value)
            self._fills = fills
        return self._fills


# Arguments


def _plain_shape(leaf: Any, where: str) -> int | list[int | None]:
    """A shape, or a dimension of one, as plain Python; also a tf.TensorShape and an array of numbers."""
    try:
        if hasattr(leaf, "as_list"):
            leaf = leaf.as_list()
        if isinstance(leaf, list):
            return [None if size is None else int(size.__index__()) for size in leaf]
        array = np.asarray(leaf)
        if array.dtype.kind in "iu" and array.ndim < 2:
            plain: int | list[int | None] = array.tolist()
            return plain
    except (TypeError, ValueError, AttributeError):
        pass
    raise UsageError(
        f"{where}: {leaf!r} is no shape.\n"
        "  Give a list of sizes, with None for a dimension that takes the longest of each batch."
    )


def _as_shape(given: Any, name: str) -> Shape:
    sizes = (given,) if isinstance(given, int) else given
    if not isinstance(sizes, list | tuple) or not all(
        size is None or (isinstance(size, int) and size >= -1) for size in sizes
    ):
        raise UsageError(f"{name} is {given!r}; give a list of sizes, each 0 or more, or None (or -1).")
    return tuple(None if size == -1 else size for size in sizes)


def _plain_value(leaf: Any, where: str) -> Any:
    value = as_leaf(leaf, where)
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    if not isinstance(value, np.generic | bytes):
        raise UsageError(f"{where}: {leaf!r} is no scalar, and one is needed for each array.")
    return value


def _spread(tree: Any, numbers: Any, name: str, found: list[Any], optional: bool = False) -> None:
    """What stands in a tree in the place of each leaf number. With `optional`, None may stand for many."""
    if optional and tree is None:
        return
    if not isinstance(numbers, tuple | dict):
        if isinstance(tree, dict) or (optional and isinstance(tree, tuple)):
            raise UsageError(f"{name}: {tree!r} stands where the elements have an array.")
        found[numbers] = tree
        return
    keys = list(numbers) if isinstance(numbers, dict) else list(range(len(numbers)))
    theirs = (
        list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, tuple) else None
    )
    if not isinstance(tree, type(numbers)) or theirs is None or set(theirs) != set(keys):
        named = f", with {', '.join(map(repr, keys))}" if isinstance(numbers, dict) else ""
        raise UsageError(
            f"{name}: {tree!r} does not have the structure of the elements.\n"
            f"  There they have a {type(numbers).__name__} of {len(keys)}{named}."
        )
    for key in keys:
        _spread(tree[key], numbers[key], f"{name}[{key!r}]", found, optional)


def _check_value(value: Any, dtype: np.dtype[Any], name: str) -> None:
    if value is None:
        return
    own = STRING if isinstance(value, bytes) else value.dtype
    if own != dtype:
        raise WrongKind(
            f"{name} is {dtype_name(own)}, and the elements have {dtype_name(dtype)} there.\n"
            f"  {_value_remedy(value, own, dtype)}."
        )


def _value_remedy(value: Any, own: np.dtype[Any], dtype: np.dtype[Any]) -> str:
    if STRING in (own, dtype):
        return f"Give {'bytes' if dtype == STRING else f'a number, as {dtype_name(dtype)}'}"
    with np.errstate(all="ignore"):
        is_held = np.array_equal(value.astype(dtype).astype(own), value, equal_nan=value.dtype.kind in "fc")
    if is_held:
        return f"Give np.asarray({value.item()!r}, {dtype_name(dtype)!r})"
    wider = wider_dtype(own, dtype)
    convert = (
        ""
        if wider is None
        else f", or convert the elements in map(), with np.asarray(x, {dtype_name(wider)!r})"
    )
    return f"Give a value that {dtype_name(dtype)} can hold, which {value.item()!r} is not{convert}"


def _fits(shape: Shape, into: Shape) -> bool:
    return len(shape) == len(into) and all(
        a is None or b is None or a <= b for a, b in zip(shape, into, strict=True)
    )


def _remedy(shape: Shape) -> str:
    return (
        f", which cannot be filled up to {shape}.\n"
        "  In padded_shapes, None for a dimension takes the longest of each batch."
    )


# Filling up


class _Misfit(Exception):
    def __init__(self, row: int, why: str) -> None:
        super().__init__(row, why)
        self.row, self.why = row, why


def _padded(column: Column, fill: _Fill) -> Array | Bytes:
    """The column with all rows filled up to one shape; the column itself where nothing is missing."""
    if isinstance(column, Objects):
        return _padded_objects(column.items, fill)
    values = column._values if isinstance(column, Ragged) else column
    if isinstance(values, Bytes):
        return _padded_strings(column, values, fill)
    if isinstance(values, np.ndarray):
        return _padded_numbers(column, fill)
    raise _Misfit(0, ", and only arrays can be filled up.")


def _padded_numbers(column: Any, fill: _Fill) -> Array:
    if isinstance(column, np.ndarray):
        return _grown(column, _target(column.shape[1:], fill.shape), fill.value)
    offsets = column._offsets
    lengths = offsets[1:] - offsets[:-1]
    values = column._values[offsets[0] : offsets[-1]]
    longest = int(lengths.max())
    if fill.shape and fill.shape[0] is not None and longest > fill.shape[0]:
        raise _Misfit(int(np.argmax(lengths > fill.shape[0])), _remedy(fill.shape))
    width, *inner = _target((longest, *values.shape[1:]), fill.shape)
    values = _grown(values, tuple(inner), fill.value)
    if len(values) == len(column) * width:
        return values.reshape(len(column), width, *inner)
    return _scattered(values, lengths, width, fill.value)


def _target(found: tuple[int, ...], wanted: Shape | None) -> tuple[int, ...]:
    if wanted is None:
        return found
    if not _fits(found, wanted):
        raise _Misfit(0, _remedy(wanted))
    return tuple(a if b is None else b for a, b in zip(found, wanted, strict=True))


def _grown(array: Array, shape: tuple[int, ...], value: Any) -> Array:
    """Rows of one shape, filled up to another."""
    if array.shape[1:] == shape:
        return array
    out = _filled((len(array), *shape), array.dtype, value)
    _bits(out)[(slice(None), *map(slice, array.shape[1:]))] = _bits(array)
    return out


def _scattered(values: Array, lengths: Offsets, width: int, value: Any) -> Array:
    """Values that lie end to end, as rows of one width."""
    inner = values.shape[1:]
    out = _filled((len(lengths), width, *inner), values.dtype, value)
    if out.size:
        # What has dimensions of its own is copied as one item, whatever is in it. So the mask has as many
        # dimensions as what it masks, which is the case where NumPy copies whole runs.
        unit = prod(inner)
        item = np.dtype((np.void, values.dtype.itemsize * unit)) if inner else _bits(values).dtype
        items = np.ascontiguousarray(values).reshape(len(values), unit).view(item).reshape(-1)
        mask = np.arange(width, dtype=np.int32) < lengths.astype(np.int32)[:, None]
        out.reshape(len(lengths), width * unit).view(item)[mask] = items
    return out


def _filled(shape: tuple[int, ...], dtype: np.dtype[Any], value: Any) -> Array:
    out = empty(shape, dtype)
    _bits(out)[...] = 0 if value is None else _bits(np.asarray(value, dtype))
    return out


def _bits(array: Array) -> Array:
    """The array; of ml_dtypes' dtypes, which NumPy copies one item at a time, as integers."""
    return array if array.dtype.isbuiltin != 2 else array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _padded_strings(column: Any, strings: Bytes, fill: _Fill) -> Bytes:
    """As numbers: those of the strings, and the next one for what fills up."""
    offsets = column._offsets if isinstance(column, Ragged) else None
    if offsets is not None:
        begin = int(offsets[0])
        part = slice_of(strings, begin, int(offsets[-1]))
        assert isinstance(part, Bytes)
        strings, offsets = part, offsets - begin
    count = len(strings.offsets) - 1
    numbers: Array = np.arange(count).reshape(strings.rows, *strings.shape)
    rows = numbers if offsets is None else Ragged._trusted(numbers, offsets)
    numbers = _padded_numbers(rows, _Fill(fill.shape, np.int64(count)))
    shape = numbers.shape[1:]
    if numbers.size == count:
        return Bytes(strings.data, strings.offsets, shape, len(numbers))
    whole, filler = strings.normal(), fill.value or b""
    data = np.concatenate([whole.data, np.frombuffer(filler, np.uint8)]) if filler else whole.data
    bounds = np.append(whole.offsets, whole.offsets[-1] + len(filler))
    data, bounds = _native.gather_ranges(data, 1, bounds, numbers.reshape(-1))
    return Bytes(data, bounds, shape, len(numbers))


def _padded_objects(items: list[Any], fill: _Fill) -> Array | Bytes:
    """One by one: more than the first dimension changes."""
    specs = [leaf_spec(item) for item in items]
    first = specs[0]
    for row, spec in enumerate(specs):
        if not isinstance(spec, ArraySpec) or spec.shape is None:
            raise _Misfit(row, ", and only arrays can be filled up.")
        assert isinstance(first, ArraySpec)
        assert first.shape is not None
        if fill.shape is not None and not _fits(spec.shape, fill.shape):
            raise _Misfit(row, _remedy(fill.shape))
        if spec.dtype != first.dtype or len(spec.shape) != len(first.shape):
            raise _Misfit(row, f", and the first of its batch has {first}.")
    shapes = [np.shape(item) for item in items]
    shape = _target(tuple(max(sizes) for sizes in zip(*shapes, strict=True)), fill.shape)
    assert isinstance(first, ArraySpec)  # as the loop found
    strings = first.dtype == STRING
    if strings:
        out: Array = np.full((len(items), *shape), fill.value or b"", STRING)
    else:
        out = _filled((len(items), *shape), first.dtype, fill.value)
    bits: Any = _bits(out)
    for row, (item, own) in enumerate(zip(items, shapes, strict=True)):
        bits[(row, *map(slice, own))] = _bits(np.asarray(item))
    return Bytes.of(out.ravel().tolist(), shape, len(items)) if strings else out
