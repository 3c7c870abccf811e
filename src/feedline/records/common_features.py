"""The features that read what two others read: of two examples, or of two files."""

from __future__ import annotations

from feedline.errors import SchemaError
from feedline.records.feature_texts import Known
from feedline.records.features import Feature, FixedLenFeature, ListFeature, RawFeature, VarLenFeature


def common_feature(one: Feature | None, other: Feature | None) -> Feature | None:
    """What reads both; None stands for records without values. SchemaError if there is none.

    >>> common_feature(FixedLenFeature([3], "int64"), FixedLenFeature([4], "int64"))
    VarLenFeature('int64')
    >>> common_feature(RawFeature([32, 32, 3], "uint8"), RawFeature([40, 32, 3], "uint8"))
    RawFeature((None, 32, 3), 'uint8')
    >>> common_feature(None, ListFeature([], "uint8"))
    ListFeature((None,), 'uint8')
    """
    if one == other:
        return one
    if one is None or other is None:
        known = one or other
        assert known is not None
        return optional(known)
    if one.dtype == other.dtype and rank_of(one) == rank_of(other):
        match one, other:
            case (VarLenFeature() | FixedLenFeature(), VarLenFeature() | FixedLenFeature()) if (
                rank_of(one) == 1
            ):
                return VarLenFeature(one.dtype)
            case (ListFeature(), ListFeature()):
                return ListFeature([None], one.dtype)
            case (RawFeature(), RawFeature()):
                dims = zip(one.shape, other.shape, strict=True)
                return RawFeature([a if a == b else None for a, b in dims], one.dtype)
    raise SchemaError(f"{one!r} and {other!r} have nothing in common")


def optional(feature: Feature) -> Feature:
    """What also reads records without it, as an empty array; the feature itself if nothing does.

    >>> optional(FixedLenFeature([], "int64"))
    VarLenFeature('int64')
    """
    match feature:
        case FixedLenFeature(default_value=None) if rank_of(feature) < 2:
            return VarLenFeature(feature.dtype)
        case ListFeature():
            return ListFeature([None], feature.dtype)
        case RawFeature():
            return RawFeature([None, *feature.shape[1:]], feature.dtype)
    return feature


def rank_of(feature: Feature) -> int:
    return 1 if isinstance(feature, VarLenFeature) else len(getattr(feature, "shape", ()))


def common_features(one: Known, other: Known) -> Known:
    """Those of all records. SchemaError, which names the feature, if there are none."""
    for key in one.keys() ^ other.keys():
        raise SchemaError("only one of them has it", feature=key)
    common = {}
    for key, feature in one.items():
        try:
            common[key] = common_feature(feature, other[key])
        except SchemaError as error:
            raise SchemaError(error.what, feature=key) from None
    return common
