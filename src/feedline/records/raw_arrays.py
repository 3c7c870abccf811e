"""Arrays <-> what an Example holds of them: their bytes, or numbers of a wider dtype.

The bytes are little-endian and in C order, as tf.io.decode_raw reads them. An array of two dimensions or more
has its shape beside it, as the int64 feature `<key>/shape`, so each record may have another one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from feedline.column import Array, Bytes, Column, Objects, Offsets, Ragged
from feedline.errors import SchemaError
from feedline.records.features import RawFeature

_REMEDY = "The features do not match this file."

_MOST_VALUES = 2**31 - 1  # of a record: no protobuf parser takes more bytes


def shape_key(key: str) -> str:
    """Where the shape of an array is stored.

    >>> shape_key("image")
    'image/shape'
    """
    return f"{key}/shape"


def to_bytes(array: Any, dtype: np.dtype[Any]) -> bytes:
    """
    >>> to_bytes(np.array([[1, 2], [3, 4]], ">i2").T, np.dtype("<i2"))
    b'\\x01\\x00\\x03\\x00\\x02\\x00\\x04\\x00'
    """
    return np.asarray(array, dtype).tobytes()


def to_rows(array: npt.NDArray[Any], rows: int, dtype: np.dtype[Any]) -> Bytes:
    """An array of `rows` entries as the bytes of each. It is not copied if it lies in memory as it should."""
    data = np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8)
    return Bytes(data, np.arange(rows + 1, dtype=np.int64) * (len(data) // max(rows, 1)), (), rows)


def from_bytes(name: str, feature: RawFeature, strings: Bytes, shapes: Array | None) -> Column:
    """The arrays of a feature whose shape changes; `shapes` has one for each row, if the feature needs them.

    Both come from a file, so nothing is taken that the number of bytes does not bear out.
    """
    whole = strings.normal()
    dims = [size for size in feature.shape[1:] if size is not None] if feature.is_ragged else []
    unit = feature.dtype.itemsize * math.prod(dims)
    sizes = np.diff(whole.offsets)
    if (sizes % unit).any():
        odd = int(sizes[sizes % unit != 0][0])
        raise SchemaError(
            f"holds {odd:,} bytes, and {unit:,} are needed for each "
            + ("step of its shape" if dims else "number"),
            feature=name,
            remedy=_REMEDY,
        )
    values = whole.data.view(feature.dtype)
    if shapes is None:
        return Ragged._trusted(values.reshape(-1, *dims), whole.offsets // unit)
    return Objects(_shaped(name, feature, values, whole.offsets // unit, shapes.tolist()))


def _shaped(
    name: str, feature: RawFeature, values: Array, offsets: Offsets, shapes: list[list[int]]
) -> list[Array]:
    rows = []
    for row, shape in enumerate(shapes):
        found = values[offsets[row] : offsets[row + 1]]
        fits = all(
            size >= 0 and told in (None, size) for size, told in zip(shape, feature.shape, strict=True)
        )
        if not fits or math.prod(shape) != len(found) or _is_too_large(shape):
            raise SchemaError(
                f"holds {len(found):,} numbers of {feature.dtype.name}, and {shape_key(name)!r} says "
                f"{shape}, where {feature.shape} is expected",
                feature=name,
                remedy=_REMEDY,
            )
        rows.append(found.reshape(shape))
    return rows


def _is_too_large(shape: list[int]) -> bool:
    """Whether NumPy refuses it. Dimensions of 0 apart: NumPy, too, multiplies the others."""
    return math.prod(size for size in shape if size) > _MOST_VALUES


def narrowed(name: str, values: Array, dtype: np.dtype[Any], remedy: str = _REMEDY) -> Array:
    """The values as `dtype`; SchemaError if it does not hold them all."""
    with np.errstate(all="ignore"):
        narrow = values.astype(dtype)
        lost = narrow.astype(values.dtype) != values
    if values.dtype.kind == "f":
        lost &= ~np.isnan(values)
    if lost.any():
        raise SchemaError(
            f"holds {values[lost].flat[0]}, which does not fit {dtype.name}", feature=name, remedy=remedy
        )
    return narrow
