"""The data of the benchmarks: workloads made once from a fixed seed and kept on disk.

    img     {"image": 3,072 raw bytes, "label": int64}            what a picture pipeline reads
    dense   {"x": 784 floats, "label": int64}                     long packed lists
    tab     26 ints + 13 floats + label, one value each           many small features, sizes that vary
    vectors {"x": 64 floats}                                      small rows, used as an array in memory

The protobuf bytes are laid out by NumPy, a file at a time, because building 800,000 tf.train.Example
in Python would take minutes. They are right because every rival, TensorFlow's parser among them, must
deliver content whose digest is the one taken here from the source arrays (see digest.py).

Each file holds a whole number of batches, so a reader may batch each file on its own and still
deliver nothing but full batches.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from benchmarks.digest import digest

BATCH = 256
FILES = 16
SEED = 2024

Columns = dict[str, NDArray]


@dataclass(frozen=True)
class Feature:
    """`kind` is the list it is stored in: bytes, float or int64. Bytes are delivered as uint8 arrays."""

    kind: str
    shape: tuple[int, ...] = ()


LABEL = {"label": Feature("int64")}
FEATURES: dict[str, dict[str, Feature]] = {
    "img": {"image": Feature("bytes", (3072,)), **LABEL},
    "dense": {"x": Feature("float", (784,)), **LABEL},
    "tab": {
        **{f"i{i}": Feature("int64") for i in range(26)},
        **{f"f{i}": Feature("float") for i in range(13)},
        **LABEL,
    },
    "vectors": {"x": Feature("float", (64,))},
}
BATCHES_PER_FILE = {"img": 49, "dense": 49, "tab": 98, "vectors": 391}
FILES_OF = {"vectors": 1}


@dataclass(frozen=True)
class Workload:
    """Files on disk, and what a reader of them must deliver."""

    name: str
    files: tuple[str, ...]
    records: int
    bytes: int
    digest: int

    @property
    def features(self) -> dict[str, Feature]:
        return FEATURES[self.name]


def load(name: str, files: int = FILES) -> Workload:
    """The first `files` files of a workload, made now if this is the first time they are asked for."""
    folder = data_directory() / f"{name}-{SEED}"
    index = folder / "index.json"
    if not index.exists():
        _generate(name, folder, index)
    entries = json.loads(index.read_text())[:files]
    return Workload(
        name=name,
        files=tuple(str(folder / entry["file"]) for entry in entries),
        records=sum(entry["records"] for entry in entries),
        bytes=sum(entry["bytes"] for entry in entries),
        digest=sum(entry["digest"] for entry in entries) % 2**64,
    )


def data_directory() -> Path:
    """Where data is kept: $FEEDLINE_BENCH_DATA, or .cache/benchmarks in the repository."""
    default = Path(__file__).resolve().parent.parent / ".cache" / "benchmarks"
    return Path(os.environ.get("FEEDLINE_BENCH_DATA", default))


def columns(name: str, file: int) -> Columns:
    """The content of one file, as arrays: the same on every machine."""
    rng = np.random.default_rng([SEED, sorted(FEATURES).index(name), file])
    rows = BATCHES_PER_FILE[name] * BATCH
    out: Columns = {}
    for key, feature in FEATURES[name].items():
        shape = (rows, *feature.shape)
        if key == "label":
            out[key] = rng.integers(0, 10, shape)
        elif feature.kind == "bytes":
            out[key] = rng.integers(0, 256, shape, dtype=np.uint8)
        elif feature.kind == "float":
            out[key] = rng.standard_normal(shape, dtype=np.float32)
        else:
            # Log-uniform, as counts and category numbers are: varints of one to five bytes.
            out[key] = np.exp(rng.uniform(0, np.log(2**31), shape)).astype(np.int64)
    return out


def _generate(name: str, folder: Path, index: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    files = FILES_OF.get(name, FILES)
    for number in range(files):
        content = columns(name, number)
        path = folder / f"{name}-{number:05}-of-{files:05}.tfrecord"
        with path.open("wb") as file:
            for record in examples(content, FEATURES[name]):
                file.write(framed(record))
        entries.append(
            {
                "file": path.name,
                "records": BATCHES_PER_FILE[name] * BATCH,
                "bytes": path.stat().st_size,
                "digest": digest(content),
            }
        )
    # Renamed into place last, so a run that was stopped half-way leaves no index that looks whole.
    draft = index.with_suffix(".draft")
    draft.write_text(json.dumps(entries, indent=1))
    draft.rename(index)


def framed(record: bytes) -> bytes:
    """A TFRecord frame: length, its checksum, the record, its checksum."""
    head = struct.pack("<Q", len(record))
    return b"".join((head, _masked_crc(head), record, _masked_crc(record)))


def _masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


# --- tf.train.Example, laid out for all rows at once -----------------------------------------------
#
# A message is a list of pieces. A piece is bytes that every row shares, or a pair (bytes, kept) of two
# [rows, width] arrays: the bytes of each row, and which of them that row has (varints vary in length).

Piece = bytes | tuple[NDArray, NDArray]


def examples(content: Columns, features: dict[str, Feature]) -> Iterator[bytes]:
    """Each row as a serialized tf.train.Example, features in the order given."""
    rows = len(next(iter(content.values())))
    entries: list[Piece] = []
    for key, feature in features.items():
        name = key.encode()
        entry = [_tag(1), bytes([len(name)]), name, *_nested(2, _feature(content[key], feature.kind), rows)]
        entries += _nested(1, entry, rows)
    pieces = _nested(1, entries, rows)
    laid, kept = zip(*(_spread(piece, rows) for piece in pieces), strict=True)
    stream = np.concatenate(laid, axis=1)[keep := np.concatenate(kept, axis=1)].tobytes()
    ends = np.cumsum(keep.sum(axis=1)).tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield stream[start:end]


def _feature(column: NDArray, kind: str) -> list[Piece]:
    rows = len(column)
    if kind == "bytes":
        return _nested(1, _nested(1, [_all(column)], rows), rows)
    if kind == "float":
        return _nested(2, _nested(1, [_all(column.reshape(rows, -1).view(np.uint8))], rows), rows)
    return _nested(3, _nested(1, [_varints(column)], rows), rows)


def _nested(field: int, inside: list[Piece], rows: int) -> list[Piece]:
    """`inside` as a length-delimited field: its tag, each row's length, and itself."""
    lengths = np.zeros(rows, np.int64)
    for piece in inside:
        lengths += len(piece) if isinstance(piece, bytes) else piece[1].sum(axis=1)
    return [_tag(field), _varints(lengths), *inside]


def _tag(field: int) -> bytes:
    return bytes([field << 3 | 2])


def _varints(values: NDArray) -> Piece:
    shifts = np.arange(0, max(int(values.max()).bit_length(), 1), 7)
    groups = values[:, None] >> shifts
    more = groups >= 128
    return (groups & 127 | more << 7).astype(np.uint8), (groups > 0) | (shifts == 0)


def _all(data: NDArray) -> Piece:
    return data, np.ones(data.shape, bool)


def _spread(piece: Piece, rows: int) -> tuple[NDArray, NDArray]:
    if isinstance(piece, bytes):
        piece = _all(np.broadcast_to(np.frombuffer(piece, np.uint8), (rows, len(piece))))
    return piece
