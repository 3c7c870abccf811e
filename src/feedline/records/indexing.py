"""Where each record of a plain TFRecord file lies, kept in a hidden sidecar beside it (records/beside).

The sidecar, in words of 8 bytes:

    magic FLINDEX2 | file size | mtime in ns | CRC32C of the file's first and last 4 KiB
    | number of records, or 2**64 - 1 without offsets | size of the text in bytes
    | text, padded with zeros | CRC32C of all before it
    | offset of each record, end of the last | CRC32C of all before it

The text is what the file's writer knows about its features; nothing here looks into it. Version 1 ended its
header with the number of records and had no text. Offsets count as long as the file has its size, time and
ends; the text whatever the time, so a copy of both files keeps it.

A sidecar is a cache: if it is damaged, or its file has changed, `index` makes it anew (records/index_files).
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from feedline import _native
from feedline.records.beside import INDEX_SUFFIX, index_path, index_paths
from feedline.records.identity import Identity, crc32c, identity_of

_MAGIC, _MAGIC_1 = b"FLINDEX2", b"FLINDEX1"
_NO_OFFSETS = 2**64 - 1
_MAX_TEXT = 1 << 24  # bytes
FRAMING = 16  # bytes of header and footer around each payload

Offsets = np.ndarray[Any, np.dtype[np.uint64]]


class _Header(NamedTuple):
    identity: Identity
    records: int | None  # None: it has no offsets
    text: bytes
    checked: bytes  # all of the sidecar in front of the offsets


def load_sidecar(path: str) -> tuple[Identity, Offsets] | None:
    """The file's identity, and the offsets of its records with the end of the last; None if the sidecar is
    missing, damaged or stale."""
    with suppress(OSError):
        identity = None
        for sidecar in index_paths(path):
            if (stored := _load(sidecar, path)) is not None:
                identity = identity or identity_of(path)
                if stored[0] == identity:
                    return stored
    return None


def known_end(path: str) -> tuple[int, int]:
    """Where records of a file that may have grown since it was indexed end, and their number: or (0, 0)."""
    with suppress(OSError):
        for sidecar in index_paths(path):
            if (stored := _load(sidecar, path)) is not None:
                identity, offsets = stored
                if _begins_so(path, identity):
                    return identity.size, len(offsets) - 1
    return 0, 0


def stored_features(path: str) -> str | None:
    """The text about features in the sidecar; None if it has none, is damaged, or is of other bytes.

    A file that has only grown keeps it: those who append write what the others write.
    """
    with suppress(OSError, UnicodeDecodeError):
        with open(index_path(path), "rb") as file:
            header = _read_header(file)
        if header is not None and header.text and _begins_so(path, header.identity):
            return header.text.decode()
    return None


def store_features(path: str, text: str, *, durable: bool = True) -> None:
    """Put the text into the file's sidecar, and keep the offsets that are there. OSError if that fails."""
    stored = _load(index_path(path), path)
    if stored is not None and _begins_so(path, stored[0]):
        _publish(path, *stored, text, durable=durable)
    else:
        _publish(path, identity_of(path), None, text, durable=durable)


def _begins_so(path: str, identity: Identity) -> bool:
    """Whether a file is the one that a sidecar tells of, or has grown from it. Any file grows from an empty
    one, so that proves nothing."""
    if os.path.getsize(path) == identity.size:
        return identity.has_bytes_of(identity_of(path))
    is_larger = os.path.getsize(path) > identity.size > 0
    return is_larger and identity.has_bytes_of(identity_of(path, identity.size))


def _load(sidecar: str, path: str) -> tuple[Identity, Offsets] | None:
    """What a sidecar says: the identity of its file, and the offsets; None if it is missing, damaged, or
    tells of more than is in the file."""
    try:
        with open(sidecar, "rb") as file:
            header = _read_header(file)
            if header is None or header.records is None:
                return None
            # Compared before memory is taken: both numbers are the sidecar's word.
            most = min(header.identity.size, os.path.getsize(path)) // FRAMING
            if header.records > most:
                return None
            size = 8 * (header.records + 1)
            stored = np.frombuffer(file.read(size + 9), np.uint8)
    except OSError:
        return None
    if len(stored) != size + 8:
        return None
    words = stored.view(np.uint64)
    checksum = _native.crc32c(stored[:-8], crc32c(header.checked))
    offsets = words[:-1]
    if int(words[-1]) != checksum or offsets[0] != 0 or int(offsets[-1]) != header.identity.size:
        return None
    # uint64 wraps, so compare before taking differences.
    if not (offsets[1:] > offsets[:-1]).all() or (np.diff(offsets) < FRAMING).any():
        return None
    return header.identity, offsets


def _read_header(file: BinaryIO) -> _Header | None:
    """None if it is damaged; of version 1 that comes to light with the offsets."""
    head = file.read(40)
    if len(head) < 40:
        return None
    size, time, ends, count = np.frombuffer(head, np.uint64)[1:].tolist()
    identity = Identity(size, time, ends)
    if head.startswith(_MAGIC_1):
        return _Header(identity, count, b"", head)
    head += file.read(8)
    if not head.startswith(_MAGIC) or len(head) < 48:
        return None
    text_size = int.from_bytes(head[40:], "little")
    if text_size > _MAX_TEXT:
        return None
    head += file.read(_padded(text_size))
    checksum = file.read(8)
    if int.from_bytes(checksum, "little") != crc32c(head) or len(checksum) < 8:
        return None
    records = None if count == _NO_OFFSETS else count
    return _Header(identity, records, head[48 : 48 + text_size], head + checksum)


def _padded(size: int) -> int:
    return size + -size % 8


def save_index(path: str, identity: Identity, offsets: Offsets) -> None:
    """Write the sidecar of a file that was indexed; OSError if that fails."""
    _publish(path, identity, offsets, stored_features(path), durable=False)
    with suppress(OSError):
        os.unlink(path + INDEX_SUFFIX)  # an older version's: it is stale, and visible


def write_index(
    path: str, offsets: Offsets | None, features_text: str | None = None, *, durable: bool = True
) -> None:
    """Write the sidecar of a file that has just been written; OSError if that fails.

    `offsets` says where each record begins and the last one ends; None for a compressed file, of which only
    the text is kept. `features_text` is what `stored_features` gives back. Unless `durable`, a power failure
    may lose the sidecar.
    """
    _publish(path, identity_of(path), offsets, features_text, durable=durable)


def _publish(
    path: str, identity: Identity, offsets: Offsets | None, text: str | None, *, durable: bool
) -> None:
    told = (text or "").encode()
    if len(told) > _MAX_TEXT:
        raise ValueError(f"a text of {len(told):,} bytes about features; an index has room for {_MAX_TEXT:,}")
    count = _NO_OFFSETS if offsets is None else len(offsets) - 1
    body = _MAGIC + np.array([*identity, count, len(told)], np.uint64).tobytes()
    body += told + bytes(_padded(len(told)) - len(told))
    body += _word(crc32c(body))
    if offsets is not None:
        body += offsets.tobytes()
        body += _word(crc32c(body))
    sidecar = index_path(path)
    partial = index_path(f"{path}.{secrets.token_hex(4)}")
    try:
        with open(partial, "xb") as file:
            file.write(body)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(partial, sidecar)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


def _word(number: int) -> bytes:
    return number.to_bytes(8, "little")
