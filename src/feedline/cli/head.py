"""feedline head: the first records, readable."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from feedline import records
from feedline.cli.decoding import decode
from feedline.cli.terminal import Files, Json, plural, show, show_json
from feedline.cli.values import hexdump, to_json, to_text


def head(
    files: Files,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="How many records of each file.")] = 5,
    as_json: Json = False,
) -> None:
    """Show the first records of each file.

    With --json each line has "path" and "record", and of an Example "features", of a SequenceExample
    "context" and "sequences", of anything else "bytes". Every feature is a list of values. Bytes are a string
    where they are readable UTF-8, else {"base64": "..."}.
    """
    for path in records.resolve(files):
        for number, payload in enumerate(islice(records.read(path), count)):
            if as_json:
                show_json({"path": path, "record": number, **_as_json(payload)})
            else:
                show(f"{path}: record {number:,}, {plural(len(payload), 'byte')}")
                for line in _lines(payload):
                    show(f"  {line}")


def _as_json(payload: bytes) -> dict[str, Any]:
    decoded = decode(payload)
    if decoded is None:
        return {"bytes": to_json(payload)}
    if decoded.sequences is None:
        return {"features": to_json(decoded.context)}
    return {"context": to_json(decoded.context), "sequences": to_json(decoded.sequences)}


def _lines(payload: bytes) -> list[str]:
    decoded = decode(payload)
    if decoded is None:
        return [f"not a tf.train.Example: {hexdump(payload)}"]
    named = {**decoded.context, **(decoded.sequences or {})}
    width = max(map(len, named), default=0)
    return [f"{key:<{width}}  {to_text(values)}" for key, values in named.items()]
