"""feedline convert: npz, csv, parquet, jsonl files or folders of images into TFRecords."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from rich.table import Table

from feedline.cli.terminal import Json, plural, progress, say, show, show_json, size, table_console
from feedline.convert import INFER_FROM, Conversion, files_of, sources_of
from feedline.convert import convert as convert_sources
from feedline.convert.from_images import IMAGES
from feedline.records.feature_texts import Known, features_of
from feedline.records.features import FixedLenFeature, ListFeature, RawFeature, VarLenFeature
from feedline.records.shard_files import read_manifest


def _compression(name: str | None) -> str | None:
    if name is not None and name.upper() not in ("GZIP", "ZLIB"):
        raise typer.BadParameter(f"{name} is unknown; use GZIP or ZLIB, or leave it out.")
    return name


def convert(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...", help="Files of one format, or a folder of images.", show_default=False
        ),
    ],
    directory: Annotated[str, typer.Argument(metavar="DIRECTORY", help="Where the TFRecord files go.")],
    shards: Annotated[int | None, typer.Option(min=1, help="How many files there will be.")] = None,
    prefix: Annotated[str, typer.Option(help="How their names begin.")] = "data",
    compression: Annotated[
        str | None,
        typer.Option(help="GZIP or ZLIB.", show_default="none", callback=_compression),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="csv, images, jsonl, npz or parquet.", show_default="by the name")
    ] = None,
    infer_from: Annotated[
        int, typer.Option(min=1, help="From how many rows of csv or jsonl to tell what a column holds.")
    ] = INFER_FROM,
    as_json: Json = False,
) -> None:
    """Convert npz, csv, parquet or jsonl files, or a folder of images, into TFRecord files.

    Each row becomes a tf.train.Example; its features are inferred, and shown. Arrays of npz files keep their
    dtype and shape, as from_tfrecords(features="auto") reads them; all other numbers are stored as int64 or
    float32. In a folder of images each
    folder is a class: the records have "image", "label" and "class", and come in a mixed order. If anything
    cannot be converted, the message names the place, and nothing is written. The files take the place of a
    set that feedline wrote there before with this prefix.
    """
    found, paths = sources_of(sources, format)
    files = [file for path in paths for file in files_of(path)]
    with progress("converting", files) as report_for:
        done = convert_sources(
            found,
            paths,
            directory,
            infer_from=infer_from,
            progress=report_for(*files),
            shards=shards,
            prefix=prefix,
            compression=compression,
        )
    manifest = read_manifest(directory, prefix)
    assert manifest is not None  # it was written just now
    facts = _facts(done, features_of(manifest.features or {}))
    written = [os.path.join(directory, shard.name) for shard in manifest.shards]
    if as_json:
        show_json({"directory": directory, "files": written, "records": done.records, "features": facts})
    else:
        stored = f"{plural(len(written), 'file')}, {size(sum(shard.bytes for shard in manifest.shards))}"
        show(f"{directory}: {plural(done.records, 'record')} in {stored}")
        table = Table("feature", "records", "read it as")
        for key, fact in facts.items():
            table.add_row(key, f"{fact['records']:,}", fact["read_as"])
        table_console().print(table)
    if done.passed_over:
        say(f"{plural(done.passed_over, 'file')} passed over: no {', '.join(IMAGES)}.")


def _facts(done: Conversion, told: Known) -> dict[str, dict[str, Any]]:
    facts = {}
    for key, seen in done.features.items():
        feature = told.get(key)
        if not isinstance(feature, RawFeature | ListFeature):
            feature = seen.feature()
        kind = seen.kind if isinstance(feature, FixedLenFeature | VarLenFeature) else feature.dtype.name
        facts[key] = {
            "kind": kind,
            "shape": list(getattr(feature, "shape", [None])),
            "records": seen.records,
            "read_as": repr(feature),
        }
    return facts
