"""Examples for a file that holds others already, of which nothing is told.

Lists in a record do not say all: one value may be a scalar or a list, and bytes a string or an array. There
the new example decides, as long as one feature reads both.
"""

from __future__ import annotations

from feedline.records.common_features import rank_of
from feedline.records.feature_texts import Known
from feedline.records.features import Feature, RawFeature, VarLenFeature
from feedline.records.raw_arrays import shape_key
from feedline.spec import STRING


def continued(held: Known, learned: Known) -> Known:
    """What all examples must be; `held` is what a survey found in the file, `learned` what the new one is.

    >>> from feedline.records.features import FixedLenFeature
    >>> held = {"loss": FixedLenFeature([], "float32")}
    >>> continued(held, {"loss": RawFeature([], "float64")}) == held
    True
    """
    shapes = {shape_key(key) for key, feature in learned.items() if isinstance(feature, RawFeature)}
    return {
        key: _both(seen, learned.get(key), shape_key(key) in held)
        for key, seen in held.items()
        if key not in shapes
    }


def _both(seen: Feature | None, new: Feature | None, has_shape: bool) -> Feature | None:
    if seen is None or new is None:
        return seen
    if seen.dtype == STRING and isinstance(new, RawFeature) and has_shape == (len(new.shape) > 1):
        return RawFeature([None] * len(new.shape), new.dtype)  # those in the file may have other sizes
    return VarLenFeature(seen.dtype) if rank_of(seen) == 0 and rank_of(new) == 1 else seen
