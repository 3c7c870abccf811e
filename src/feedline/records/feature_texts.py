"""Features as JSON: what a writer says of its examples, in the manifest of a set or the sidecar of a file.

It comes from a stranger: a feature that no record could hold is refused before memory is taken for it.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np

from feedline.errors import UsageError
from feedline.records.features import (
    Feature,
    FixedLenFeature,
    ListFeature,
    RawFeature,
    TensorFeature,
    VarLenFeature,
)
from feedline.spec import dtype_name

Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Known: TypeAlias = dict[str, Feature | None]
"""The features of some examples by key; None for one that never had values."""

_MOST_BYTES = 2**31 - 1  # of a record: no protobuf parser takes more
_LEAST_BYTES = {"int64": 1, "float32": 4, "string": 2}  # of a value in a list
_MOST_DIMS = 32  # NumPy has 64, and the axes of batches come on top


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is read from a file, exactly as it was declared."""


class FeatureText(Entry, frozen=True, omit_defaults=True):
    kind: Literal["FixedLenFeature", "VarLenFeature", "RawFeature", "ListFeature", "TensorFeature"]
    dtype: str
    shape: tuple[Size | None, ...] | None = None


FeatureTexts: TypeAlias = dict[str, FeatureText | None]


def feature_texts(features: Known) -> FeatureTexts | None:
    """None if they cannot be told: a default value, steps, or values under another key.

    >>> feature_texts({"x": FixedLenFeature([2], "float32")})
    {'x': FeatureText(kind='FixedLenFeature', dtype='float32', shape=(2,))}
    """
    texts: FeatureTexts = {}
    for key, feature in features.items():
        text = None if feature is None else _text(feature)
        if feature is not None and text is None:
            return None
        texts[key] = text
    return texts


def _text(feature: Feature) -> FeatureText | None:
    dtype = dtype_name(feature.dtype)
    match feature:
        case FixedLenFeature(default_value=None):
            return FeatureText("FixedLenFeature", dtype, feature.shape)
        case VarLenFeature():
            return FeatureText("VarLenFeature", dtype)
        case RawFeature():
            return FeatureText("RawFeature", dtype, feature.shape)
        case ListFeature():
            return FeatureText("ListFeature", dtype, feature.shape)
        case TensorFeature():
            return FeatureText("TensorFeature", dtype, feature.shape)
    return None


def features_of(texts: FeatureTexts) -> Known:
    """UsageError if one is impossible.

    >>> features_of({"x": FeatureText("VarLenFeature", "string"), "y": None})
    {'x': VarLenFeature('string'), 'y': None}
    """
    return {key: None if text is None else _feature(key, text) for key, text in texts.items()}


def _feature(key: str, text: FeatureText) -> Feature:
    shape = text.shape or ()
    try:
        match text.kind:
            case "FixedLenFeature":
                made: Feature = FixedLenFeature(shape, text.dtype)
            case "VarLenFeature":
                made = VarLenFeature(text.dtype)
            case "RawFeature":
                made = RawFeature(shape, text.dtype)
            case "ListFeature":
                made = ListFeature(shape, text.dtype)
            case "TensorFeature":
                made = TensorFeature(shape, text.dtype)
    except UsageError as error:
        raise UsageError(f"feature {key!r}: {error}") from None
    # Dimensions of 0 apart: NumPy, too, multiplies the others.
    size = math.prod(size for size in shape if size) * np.dtype(made.dtype).itemsize
    if size > _MOST_BYTES or len(shape) > _MOST_DIMS:
        raise UsageError(f"feature {key!r}: shape {shape} of {text.dtype} is larger than any record.")
    return made


def least_bytes(feature: Feature | None) -> int:
    """What a record needs at least to hold it; 0 for what may be empty, or small in another way.

    >>> least_bytes(FixedLenFeature([10], "int64")), least_bytes(RawFeature([10], "int64"))
    (10, 80)
    """
    if not isinstance(feature, FixedLenFeature | ListFeature | RawFeature) or None in feature.shape:
        return 0
    count = math.prod(size for size in feature.shape if size is not None)
    if isinstance(feature, RawFeature):
        return count * feature.dtype.itemsize
    dtype = feature.list_dtype if isinstance(feature, ListFeature) else feature.dtype
    return count * _LEAST_BYTES[dtype_name(np.dtype(dtype))]


def to_json(features: Known) -> str | None:
    """None if they cannot be told."""
    texts = feature_texts(features)
    return None if texts is None else msgspec.json.encode(texts).decode()


def from_json(text: str | bytes) -> Known:
    """ValueError if it is not what `to_json` gives."""
    return features_of(msgspec.json.decode(text, type=FeatureTexts))
