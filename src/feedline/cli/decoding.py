"""One record of unknown content as plain Python values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline import _native
from feedline.records import example
from feedline.records.features import SequenceFeatures, VarLenFeature


@dataclass(frozen=True)
class Decoded:
    """The features of an Example; of a SequenceExample the context, and the steps of each feature list."""

    context: dict[str, list[Any]]
    sequences: dict[str, list[list[Any]]] | None


def decode(payload: bytes) -> Decoded | None:
    """None when the record is neither an Example nor a SequenceExample.

    >>> decode(example.encode({"label": 7, "name": b"cat"}))
    Decoded(context={'label': [7], 'name': [b'cat']}, sequences=None)
    """
    survey = _native.Survey()
    if survey.add(payload) is not None:
        return None
    seen = survey.result()
    context, lists = _features(seen["context"]), _features(seen["feature_lists"])
    columns: dict[str, Any] = {}
    steps: dict[str, Any] = {}
    if context or lists:
        # An Example is a SequenceExample without feature lists.
        columns, steps = example.decode(payload, SequenceFeatures(context, lists))
    # What is there without a kind has no values, and cannot be asked for.
    values = {key: _plain(columns[key]) if key in context else [] for key in sorted(seen["context"])}
    if not seen["sequence"]:
        return Decoded(values, None)
    rows = {key: steps[key] if key in lists else [] for key in sorted(seen["feature_lists"])}
    return Decoded(values, {key: [_plain(row) for row in each] for key, each in rows.items()})


def _features(seen: Mapping[str, Any]) -> dict[str, VarLenFeature]:
    kinds = {
        key: next((kind for kind in facts["kinds"] if kind != "none"), "") for key, facts in seen.items()
    }
    return {key: VarLenFeature(kind) for key, kind in kinds.items() if kind}


def _plain(values: np.ndarray[Any, Any]) -> list[Any]:
    # A float32 has a short form of its own: 0.1, where its double would be 0.10000000149011612.
    return [float(str(value)) for value in values] if values.dtype == np.float32 else values.tolist()
