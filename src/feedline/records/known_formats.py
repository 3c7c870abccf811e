"""What a file is that was read as TFRecords and is not, or a record that is no Example: by its first bytes.

Nothing here is sure: it names what the bytes look like, for an error message that would otherwise advise to
repair a file that is sound.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import zlib
from dataclasses import dataclass

from feedline import frame

_HEAD = 4096  # bytes that are looked at
_FEWEST = 12  # bytes of a file: fewer may be a torn header that looks like text by chance
_TABLE_FOOTER = bytes.fromhex("57fb808b247547db")  # of LevelDB's table files, at their end

_CONVERT = "To make TFRecords of it:  feedline convert --format {format} {{path}} DIRECTORY"
_OWN_LIBRARY = "To read it:  use its own library inside of Dataset.from_generator(...)"
_IMAGES = (
    "To make TFRecords of a folder of images:  feedline convert --format images FOLDER DIRECTORY\n"
    "To read images as they are:               Dataset.list_files(...).map(decode)"
)
_LEAVE_OUT = 'To leave such files out:  name those with records, as "DIRECTORY/*.tfrecord" does'


@dataclass(frozen=True)
class Known:
    """A kind of content: its name with an article, and what to do with a file of it.

    In the advice, {path} stands for the file as a shell takes it, and {literal} as Python does.
    """

    name: str
    advice: str = _OWN_LIBRARY

    def advice_for(self, path: str) -> str:
        return self.advice.format(path=shlex.quote(path), literal=repr(path))


_NPZ = Known(
    "a NumPy archive (.npz)",
    _CONVERT.format(format="npz")
    + "\nTo read it as it is:      Dataset.from_tensor_slices(dict(np.load({literal})))",
)
_JSON = Known("JSON text")
_JSON_LINES = Known("JSON lines", _CONVERT.format(format="jsonl"))
_CSV = Known("comma-separated text (CSV)", _CONVERT.format(format="csv"))
_TEXT = Known("text", _LEAVE_OUT)
_CHECKPOINT = Known("a TensorFlow checkpoint", "To read it:  tf.train.load_checkpoint")
_CACHE = Known(
    "an item of a feedline cache", "To read it:  the same pipeline, with .cache(...) of its location"
)

_TAR = Known("a tar archive", "To unpack it:  tar xf {path}")

_BY_START: dict[bytes, Known] = {  # by a pattern that the first bytes match
    rb"\x93NUMPY": Known(
        "a NumPy array (.npy)",
        'To read it:  Dataset.from_tensor_slices(np.load({literal}, mmap_mode="r"))',
    ),
    rb"PAR1": Known("a Parquet file", _CONVERT.format(format="parquet")),
    rb"\x89PNG\r\n\x1a\n": Known("a PNG image", _IMAGES),
    rb"\xff\xd8\xff": Known("a JPEG image", _IMAGES),
    rb"GIF8[79]a": Known("a GIF image", _IMAGES),
    rb"RIFF....WEBP": Known("a WebP image", _IMAGES),
    rb"RIFF....WAVE": Known("a WAV file"),
    rb"....ftyp": Known("an MP4 file"),
    rb"\x89HDF\r\n\x1a\n": Known("an HDF5 file"),
    rb"ARROW1\0\0": Known("an Arrow file"),
    rb"\xff\xff\xff\xff....[\x08-\x20]\0\0\0": Known("an Arrow stream"),
    rb"FEA1": Known("a Feather file"),
    rb"ORC": Known("an ORC file"),
    rb"Obj\x01": Known("an Avro file"),
    rb"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f": Known("a Riegeli file"),
    rb"SQLite format 3\0": Known("an SQLite database"),
    rb"%PDF-": Known("a PDF document"),
    rb"\x80[\x02-\x05][\x95\]})(cKX]": Known("a Python pickle"),
    rb".{257}ustar": _TAR,
    rb"BZh[1-9]": Known("a file compressed by bzip2", "To decompress it:  bunzip2 {path}"),
    rb"\xfd7zXZ\0": Known("a file compressed by xz", "To decompress it:  unxz {path}"),
    rb"\x28\xb5\x2f\xfd": Known("a file compressed by Zstandard", "To decompress it:  zstd -d {path}"),
    rb"\x04\x22\x4d\x18": Known("a file compressed by LZ4", "To decompress it:  lz4 -d {path}"),
    rb"version https://git-lfs": Known(
        "a Git LFS pointer in the place of the file", "To get the file:  git lfs pull"
    ),
    rb"model_checkpoint_path": _CHECKPOINT,
    re.escape(frame.MAGIC): _CACHE,
    rb"FLINDEX": Known("the index of a TFRecord file", "To read the records:  name the file that it is of"),
}

_BY_FIRST_MEMBER = {  # of a zip archive
    r".*\.npy": _NPZ,
    r"(metadata|config)\.json|model\.weights\.h5": Known(
        "a Keras model (.keras)", "To load it:  keras.saving.load_model({literal})"
    ),
    r"[^/]+/(data\.pkl|\.format_version|byteorder)": Known(
        "a PyTorch checkpoint", "To load it:  torch.load({literal})"
    ),
    r".*": Known("a zip archive", "To unpack it:  unzip {path}"),
}


def file_format(path: str) -> Known | None:
    """What the file is, if it is known; None for what may be TFRecords."""
    if not os.path.isfile(path):  # a pipe would wait for its writer
        return None
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            file.seek(max(0, os.fstat(file.fileno()).st_size - len(_TABLE_FOOTER)))
            is_table = file.read() == _TABLE_FOOTER
    except OSError:
        return None
    if len(head) < _FEWEST:
        return None
    index = re.sub(r"\.data-\d{5}-of-\d{5}$", ".index", path)
    if is_table or (index != path and os.path.exists(index)):
        return _CHECKPOINT
    inflated = _inflated(head)
    if inflated is None:
        return content(head)
    known = content(inflated)
    if known is None:
        return None
    is_gzip = head.startswith(b"\x1f\x8b")
    inflate = "gunzip -k {path}" if is_gzip else "zlib.decompress, in Python"
    advice = known.advice if known is _TAR else f"To decompress it:  {inflate}"
    return Known(f"{known.name}, compressed by {'gzip' if is_gzip else 'zlib'}", advice)


def _inflated(head: bytes) -> bytes | None:
    """The start of what gzip or zlib compressed; None when neither did."""
    if not head.startswith((b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")):
        return None
    try:
        return zlib.decompressobj(wbits=47).decompress(head, _HEAD)  # 47: with a header of either
    except zlib.error:
        return None


def content(head: bytes) -> Known | None:
    """What begins with these bytes, if it is known.

    >>> content(b"\\x89PNG\\r\\n\\x1a\\n").name, content(b"a,b\\n1,2\\n").name, content(b"\\x08\\0\\0\\0")
    ('a PNG image', 'comma-separated text (CSV)', None)
    """
    if head.startswith(b"PK\x03\x04"):
        return _archive(head)
    for pattern, known in _BY_START.items():
        if re.match(pattern, head, re.DOTALL):
            return known
    return _text(head)


def record_content(payload: bytes) -> Known | None:
    """What a record is that begins with these bytes and is no Example, if it is known."""
    return content(payload) or _message(payload)


def _archive(head: bytes) -> Known:
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")].decode("utf-8", "replace")
    return next(
        known for pattern, known in _BY_FIRST_MEMBER.items() if re.fullmatch(pattern, name, re.DOTALL)
    )


def _text(head: bytes) -> Known | None:
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # else the last character is cut off
            return None
        text = head[: error.start].decode("utf-8-sig")
    if not text.strip() or not all(sign.isprintable() or sign in "\t\r\n\f" for sign in text):
        return None
    lines = text.splitlines()
    if re.match(r"\s*<(!doctype|html)", text, re.IGNORECASE):
        return Known("an HTML page", "A server may have sent it instead of the file: download it again.")
    if re.match(r"[0-9a-f]{32}\n\{", text):
        return _CACHE
    if text.lstrip()[0] in "{[":
        return _JSON_LINES if len(lines) > 1 and _is_json(lines[0]) else _JSON
    commas = [line.count(",") for line in lines[:2]]
    return _CSV if len(commas) == 2 and commas[0] == commas[1] > 0 else _TEXT


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _message(head: bytes) -> Known | None:
    """TensorFlow's other messages, told by the fields that they begin with.

    Not for files: the length of a damaged first record may have the same bytes.
    """
    if re.match(rb"\x08[\x01-\x1e]\x12", head):
        return Known("a serialized TensorProto", "To decode it:  tf.io.parse_tensor, in map()")
    if re.match(rb"\x12[\x80-\xff]*[\x00-\x7f]\n", head) or _after_context(head).startswith(b"\x12"):
        return Known(
            "a tf.train.SequenceExample", "To read it:  features=feedline.SequenceFeatures(context, sequence)"
        )
    return None


def _after_context(message: bytes) -> bytes:
    """What comes after the first field of a message, if that is field 1 and a message."""
    found = re.match(rb"\n([\x80-\xff]{0,4}[\x00-\x7f])", message)
    if found is None:
        return b""
    size = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(found[1]))
    return message[found.end() + size :]
