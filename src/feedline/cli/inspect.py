"""feedline inspect: what is in files of unknown content."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from itertools import islice
from typing import Any

import typer
from rich.table import Table

from feedline import records
from feedline.cli.decoding import decode
from feedline.cli.terminal import (
    FINDINGS,
    Files,
    Json,
    plural,
    progress,
    say,
    show,
    show_json,
    size,
    table_console,
)
from feedline.cli.values import hexdump, to_text

SAMPLED = 100  # records that are searched for a sample of each feature


def inspect(files: Files, as_json: Json = False) -> None:
    """Show what the records of the files hold: features, kinds, shapes, counts, and a sample of each.

    The files are taken together, as parts of one dataset. Every record is read and checked: exit 1 if any is
    damaged.
    """
    paths = records.resolve(files)
    with progress("reading", paths) as report_for:
        survey = records.survey(paths, progress=report_for(*paths))
    with warnings.catch_warnings(action="ignore"):  # the damage is told of below
        first = list(islice(records.read(paths, on_corrupt="skip"), SAMPLED))
    facts = {
        "files": paths,
        "file_bytes": sum(map(os.path.getsize, paths)),
        "compression": survey["compression"],
        "records": survey["records"],
        "not_examples": survey["malformed"],
        "damaged": survey["damaged"],
        "record_bytes": dict(zip(("min", "mean", "max"), survey["sizes"], strict=True)),
    }
    context, sequences = _samples(first)
    features = _describe(survey["context"], context)
    lists = _describe(survey["feature_lists"], sequences)
    if as_json:
        show_json({**facts, "features": features, "sequences": lists})
    else:
        _show(facts, features, lists, first)
    if survey["damaged"]:
        say(f"{plural(survey['damaged'], 'damaged place')} passed over. To list them:  feedline verify FILES")
        raise typer.Exit(FINDINGS)


def _show(facts: dict[str, Any], features: dict[str, Any], lists: dict[str, Any], first: list[bytes]) -> None:
    _show_facts(facts)
    if features:
        _show_features("context feature" if lists else "feature", features)
    if lists:
        _show_features("feature list", lists)
    strange = next((payload for payload in first if decode(payload) is None), None)
    if strange is not None:
        show(f"the first of them: {hexdump(strange, 32)}")


def _samples(payloads: list[bytes]) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """For each feature the first values that are found."""
    context: dict[str, list[Any]] = {}
    sequences: dict[str, list[Any]] = {}
    for payload in payloads:
        if decoded := decode(payload):
            context = {**decoded.context, **context}
            sequences = {**(decoded.sequences or {}), **sequences}
    return context, sequences


def _describe(survey: Mapping[str, Any], samples: Mapping[str, list[Any]]) -> dict[str, dict[str, Any]]:
    features = {}
    for key, seen in sorted(survey.items()):
        low, high = seen["values"] or (None, None)
        features[key] = seen | {
            "shape": [] if low == high == 1 else [low if low == high else None],
            "sample": to_text(samples[key]) if key in samples else None,
        }
    return features


def _show_facts(facts: dict[str, Any]) -> None:
    paths, count, strange = facts["files"], facts["records"], facts["not_examples"]
    name = paths[0] if len(paths) == 1 else plural(len(paths), "file")
    stored = f"{size(facts['file_bytes'])}, compression: {facts['compression']}"
    show(f"{name}: {plural(count, 'record')}, {stored}")
    if count:
        sizes = facts["record_bytes"]
        show(f"record sizes: {sizes['min']:,} to {sizes['max']:,} bytes, {sizes['mean']:,.0f} on average")
    if strange:
        which = "The records are" if strange == count else f"{strange:,} of the records are"
        show(f"{which} not tf.train.Example.")


def _show_features(title: str, features: dict[str, dict[str, Any]]) -> None:
    """`values` and `bytes` are how many there are in a feature and in a string; in a list, of each step."""
    extents = [
        part for part in ("steps", "values", "bytes") if any(each.get(part) for each in features.values())
    ]
    table = Table(title, "kind", "shape", "records", *extents, "sample")
    for key, feature in features.items():
        table.add_row(
            key,
            ", ".join(feature["kinds"]),
            str(tuple(feature["shape"])),
            f"{feature['records']:,}",
            *(_extent(feature[part]) for part in extents),
            feature["sample"] or "",
        )
    table_console().print(table)


def _extent(ends: tuple[int, int] | None) -> str:
    if ends is None:
        return ""
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
