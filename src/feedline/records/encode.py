"""Python values -> tf.train.Example: one record from a dict, or many from columns.

An Example holds lists of int64, of float32 and of bytes, and no shapes. So every value becomes a flat list,
in C order, of the kind that its type says:

    int, bool, NumPy integers           int64_list
    float, NumPy floats, bfloat16       float_list; float64 is rounded to float32
    bytes, bytearray, memoryview, str   bytes_list; str as UTF-8

An array of numbers says its kind even when it is empty. An empty list has none: it reads as no values,
whatever kind the reader asks for. None leaves the feature out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from feedline import _native
from feedline.column import Bytes, Ragged
from feedline.errors import SchemaError, UsageError

Values = npt.NDArray[np.int64] | npt.NDArray[np.float32] | list[bytes]

_INT64 = np.iinfo(np.int64)


def encode(example: Mapping[str, Any]) -> bytes:
    """The bytes of a tf.train.Example that holds these features.

    >>> encode({"label": 7})
    b'\\n\\x10\\n\\x0e\\n\\x05label\\x12\\x05\\x1a\\x03\\n\\x01\\x07'

    All values are stored as flat lists, float64 rounded to float32. A reader gives the shape back:
    `FixedLenFeature([2, 2], "float32")`. Writers, given the dict, keep dtypes and shapes.

    >>> encode({"x": [[1.0, 2.0], [3.0, 4.0]]}) == encode({"x": np.arange(1, 5, dtype=np.float64)})
    True
    """
    if not isinstance(example, dict):
        example = _as_dict(example)
    record = _native.encode_example(example, _known)
    if isinstance(record, bytes):
        return record
    raise refused(record)


def encode_batch(columns: Mapping[str, Any]) -> list[bytes]:
    """One record for each row of the columns: `encode`, many times faster.

    A column is an array or a list with an entry for each row, or a Ragged.

    >>> encode_batch({"label": np.array([7, 8])}) == [encode({"label": 7}), encode({"label": 8})]
    True
    """
    records, offsets = encode_columns(columns)
    return _native.byte_strings(records, offsets.view(np.int64))


def encode_columns(columns: Mapping[str, Any]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """The same records back to back, and the rows + 1 offsets between which they lie.

    >>> records, offsets = encode_columns({"label": [7, 8]})
    >>> offsets.tolist()
    [0, 18, 36]
    """
    return encoded(encoder_of(columns))


def encoded(encoder: _native.ExampleEncoder) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    result = encoder.encode()
    if isinstance(result, tuple):
        return result
    raise refused(result)


def encoder_of(columns: Mapping[str, Any]) -> _native.ExampleEncoder:
    """What encodes the rows of the columns; that those of a column are alike was checked."""
    given, rows = checked_columns(columns)
    encoder = _native.ExampleEncoder(rows)
    for key, column in given.items():
        _add(encoder, key, column)
    return encoder


def checked_columns(columns: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Those that are not None, and the number of rows, which all have."""
    given = {key: column for key, column in _as_dict(columns).items() if column is not None}
    lengths = {key: _rows(key, column) for key, column in given.items()}
    if not lengths:
        raise UsageError("encode_batch: there are no columns, so the number of rows is unknown.")
    first, rows = next(iter(lengths.items()))
    for key, length in lengths.items():
        if length != rows:
            raise UsageError(
                f"encode_batch: column {key!r} has {length:,} rows, and {first!r} has {rows:,}. "
                "Every column needs an entry for each row."
            )
    return given, rows


def _add(encoder: _native.ExampleEncoder, key: str, column: Any) -> None:
    entries, offsets = (column._values, column._offsets) if isinstance(column, Ragged) else (column, None)
    values = entries if isinstance(entries, Bytes) else _flat(key, entries)
    per_entry = _per_entry(entries, values)
    # The offsets of a Ragged count entries; the encoder counts values.
    rows = None if offsets is None else np.ascontiguousarray(offsets * per_entry)
    if isinstance(values, np.ndarray):
        encoder.add_numbers(key, values, per_entry, rows)
    elif isinstance(values, Bytes) or values:
        strings = values if isinstance(values, Bytes) else Bytes.of(values)
        encoder.add_strings(key, strings.data, np.ascontiguousarray(strings.offsets), per_entry, rows)
    else:
        encoder.add_nothing(key)


def _per_entry(entries: Any, values: Values | Bytes) -> int:
    return math.prod(values.shape) if isinstance(values, Bytes) else len(values) // max(len(entries), 1)


def _rows(key: Any, column: Any) -> int:
    _check_key(key)
    if isinstance(column, Ragged) and isinstance(column._values, Ragged):
        raise UsageError(
            f"column {key!r}: a Ragged of Ragged has lengths within its rows, which an Example cannot hold. "
            "Join the inner rows of each outer one, and store their lengths as a column of its own."
        )
    if isinstance(column, Ragged | Bytes | list | tuple):
        return len(column)
    if hasattr(column, "__array__") and np.ndim(column) > 0:
        return len(column)
    raise UsageError(
        f"column {key!r} is a {type(column).__name__}; a column is a Ragged, or an array or a list with an "
        "entry for each row. For a single record there is encode()."
    )


def _as_dict(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise UsageError(f"a dict of values by feature name is expected, not {type(given).__name__}.")
    return dict(given)


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise UsageError(f"the feature name {key!r} is a {type(key).__name__}; names are str.")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the feature name {key!r} cannot be encoded as UTF-8.") from None


def _known(key: Any, value: Any) -> Values:
    """A value of a type that the native encoder does not know, as one that it does."""
    _check_key(key)
    return _flat(key, value)


def _flat(key: str, value: Any) -> Values:
    if isinstance(value, list | tuple):
        return _from_leaves(key, _leaves(key, value))
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return _from_array(key, np.asarray(value))
    return _from_leaves(key, [value])


def _leaves(key: str, items: Sequence[Any]) -> list[Any]:
    """The values of nested lists, which must be nested evenly: an Example has no place for lengths."""
    items = [_unpacked(item) for item in items]
    nested = [len(item) for item in items if isinstance(item, list | tuple)]
    if not nested:
        return items
    if len(nested) < len(items) or len(set(nested)) > 1:
        raise UsageError(
            f"feature {key!r}: the lists in it have different lengths, which an Example cannot hold. "
            "Flatten them, and store their lengths as a feature of its own."
        )
    return [leaf for item in items for leaf in _leaves(key, item)]


def _unpacked(item: Any) -> Any:
    return np.asarray(item).tolist() if hasattr(item, "__array__") and np.ndim(item) > 0 else item


def _from_leaves(key: str, leaves: list[Any]) -> Values:
    kinds = {_leaf_kind(key, leaf): leaf for leaf in leaves}
    if len(kinds) > 1:
        seen = " and ".join(f"{kind} ({leaf!r})" for kind, leaf in kinds.items())
        raise UsageError(
            f"feature {key!r}: it mixes {seen}, and a feature is of one kind. Make all values the same type."
        )
    match next(iter(kinds), None):
        case "int64":
            return np.array(_check_ints(key, [int(leaf) for leaf in leaves]), np.int64)
        case "float32":
            return _to_float32(key, np.array(leaves, np.float64))
        case "bytes":
            return [_to_bytes(key, leaf) for leaf in leaves]
    return []


def _from_array(key: str, array: npt.NDArray[Any]) -> Values:
    if array.dtype.kind in "SUTO":
        return _from_leaves(key, array.ravel().tolist())
    return list_values(key, array)


def list_values(key: str, array: npt.NDArray[Any]) -> npt.NDArray[np.int64] | npt.NDArray[np.float32]:
    """The numbers of an array as an Example's lists hold them. UsageError if one does not fit."""
    kind = _dtype_kind(array.dtype)
    if kind == "int64":
        return _to_int64(key, array)
    if kind == "float32":
        return _to_float32(key, array)
    raise unfit(key, f"an array of {array.dtype}")


def _leaf_kind(key: str, leaf: Any) -> str:
    if isinstance(leaf, bytes | bytearray | memoryview | str):
        return "bytes"
    if isinstance(leaf, int | float):
        return "float32" if isinstance(leaf, float) else "int64"
    kind = _dtype_kind(np.asarray(leaf).dtype) if hasattr(leaf, "__array__") else None
    if kind is None:
        raise unfit(key, f"{leaf!r}, a {type(leaf).__name__}")
    return kind


def kind_of(dtype: np.dtype[Any]) -> str | None:
    """As which of an Example's kinds an array is written: int64, float32 or string; None: as none."""
    return "string" if dtype.kind in "SUTO" else _dtype_kind(dtype)


def _dtype_kind(dtype: np.dtype[Any]) -> str | None:
    if dtype.kind in "biu" or dtype.name.startswith(("int", "uint")):  # ml_dtypes' are of kind V
        return "int64"
    return "float32" if dtype.kind == "f" or dtype.name.startswith(("bfloat16", "float")) else None


def _to_int64(key: str, array: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    if array.dtype == np.uint64:
        _check_ints(key, [int(array.max(initial=0))])
    return np.ascontiguousarray(array, np.int64).reshape(-1)


def _check_ints(key: str, numbers: list[int]) -> list[int]:
    for number in numbers:
        if not _INT64.min <= number <= _INT64.max:
            raise UsageError(
                f"feature {key!r}: {number} does not fit int64, the only integer of an Example. Store it as "
                "bytes, or view it as int64 and back: array.view(np.int64)."
            )
    return numbers


def _to_float32(key: str, array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    if array.dtype == np.float32:
        return np.ascontiguousarray(array, np.float32).reshape(-1)
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(array, np.float32).reshape(-1)
    lost = np.isinf(narrow) & np.isfinite(array).reshape(-1)
    if lost.any():
        raise UsageError(
            f"feature {key!r}: {array.reshape(-1)[lost][0]} does not fit float32, the only float of an "
            "Example. Scale it, or store it as bytes: array.tobytes()."
        )
    return narrow


def _to_bytes(key: str, leaf: Any) -> bytes:
    try:
        return leaf.encode() if isinstance(leaf, str) else bytes(leaf)
    except UnicodeEncodeError:
        raise UsageError(f"feature {key!r}: {leaf!r} cannot be encoded as UTF-8. Pass bytes.") from None


def unfit(key: str, what: str) -> UsageError:
    return UsageError(
        f"feature {key!r}: {what}, cannot be in a tf.train.Example, which holds ints, floats and bytes. "
        "Convert it to one of these; for any array there is array.tobytes(), which RawFeature reads."
    )


def refused(fault: _native.Fault) -> SchemaError:
    return SchemaError(
        fault.what,
        feature=fault.feature or None,
        remedy="Check the offsets of the column, or divide what is too large among several records.",
    )
