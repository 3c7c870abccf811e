"""tf_features: the TensorFlow code that reads files."""

from __future__ import annotations

from feedline.errors import UsageError
from feedline.records.features import (
    Feature,
    FixedLenFeature,
    ListFeature,
    RawFeature,
    SequenceFeatures,
    TensorFeature,
)
from feedline.records.inferring import infer_features
from feedline.records.paths import Files
from feedline.records.raw_arrays import shape_key
from feedline.spec import dtype_name

# What tf.io.decode_raw does not know is decoded as another dtype of that size, whose bits it takes.
_SAME_BITS = {"uint32": "int32", "uint64": "int64"}


def tf_features(files: Files, *, compression: str | None = "auto") -> str:
    """Python code that reads the files with TensorFlow: a dict `features`, and a function `parse(record)`.

    >>> import numpy as np
    >>> with feedline.TFRecordWriter("images.tfrecord") as writer:
    ...     writer.write({"image": np.zeros((32, 32, 3), np.uint8), "label": np.uint8(7)})
    >>> print(tf_features("images.tfrecord"))
    import tensorflow as tf
    <BLANKLINE>
    features = {
        'image': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64),
    }
    <BLANKLINE>
    <BLANKLINE>
    def parse(record):
        example = tf.io.parse_single_example(record, features)
        example['image'] = tf.reshape(tf.io.decode_raw(example['image'], tf.uint8), [32, 32, 3])
        example['label'] = tf.cast(example['label'], tf.uint8)
        return example

    Use it as `tf.data.TFRecordDataset(paths).map(parse)`. TensorFlow cannot decode 8-bit floats: arrays of
    them come as uint8, single ones as float32.
    """
    inferred = infer_features(files, compression=compression)
    if isinstance(inferred, SequenceFeatures):
        raise UsageError(
            "tf_features: the records are SequenceExamples, of which feedline writes none. Read them with "
            "tf.io.parse_single_sequence_example; records.infer_features says what they hold."
        )
    entries: list[str] = []
    steps: list[str] = []
    for key, feature in inferred.items():
        entries += _entries(key, feature)
        steps += _steps(key, feature)
    lines = [
        "import tensorflow as tf",
        "",
        "features = {",
        *(f"    {entry}," for entry in entries),
        "}",
        "",
        "",
        "def parse(record):",
        "    example = tf.io.parse_single_example(record, features)",
        *(f"    {step}" for step in steps),
        "    return example",
    ]
    return "\n".join(lines)


def _entries(key: str, feature: Feature) -> list[str]:
    match feature:
        case RawFeature():
            if None not in feature.shape:
                return [f"{key!r}: tf.io.FixedLenFeature([], tf.string)"]
            entries = [f"{key!r}: tf.io.FixedLenFeature([], tf.string, default_value=b'')"]
            if feature.needs_shape:
                least = [size or 0 for size in feature.shape]
                shape = f"tf.io.FixedLenFeature([{len(least)}], tf.int64, default_value={least})"
                entries.append(f"{shape_key(key)!r}: {shape}")
            return entries
        case TensorFeature():
            return [f"{key!r}: tf.io.FixedLenFeature([], tf.string)"]
        case ListFeature():
            return [f"{key!r}: {_list(feature.list_dtype.name, feature.shape)}"]
        case FixedLenFeature():
            return [f"{key!r}: {_list(dtype_name(feature.dtype), feature.shape)}"]
    return [f"{key!r}: {_list(dtype_name(feature.dtype), (None,))}"]


def _list(dtype: str, shape: tuple[int | None, ...]) -> str:
    if None in shape:
        return f"tf.io.FixedLenSequenceFeature([], tf.{dtype}, allow_missing=True)"
    return f"tf.io.FixedLenFeature({list(shape)}, tf.{dtype})"


def _steps(key: str, feature: Feature) -> list[str]:
    value = f"example[{key!r}]"
    dtype = dtype_name(feature.dtype)
    match feature:
        case ListFeature():
            return [] if _is_small(dtype) else [f"{value} = tf.cast({value}, tf.{dtype})"]
        case TensorFeature():
            return [f"{value} = tf.io.parse_tensor({value}, tf.{dtype})"]
        case RawFeature():
            shape = str([-1 if size is None else size for size in feature.shape])
            if feature.needs_shape:
                shape = f"example.pop({shape_key(key)!r})"
            return [f"{value} = tf.reshape({_decoded(value, dtype)}, {shape})"]
    return []


def _decoded(value: str, dtype: str) -> str:
    if _is_small(dtype):
        return f"tf.io.decode_raw({value}, tf.uint8)"
    bits = _SAME_BITS.get(dtype)
    if bits is None:
        return f"tf.io.decode_raw({value}, tf.{dtype})"
    return f"tf.bitcast(tf.io.decode_raw({value}, tf.{bits}), tf.{dtype})"


def _is_small(dtype: str) -> bool:
    """Whether TensorFlow cannot decode bytes of this dtype."""
    return dtype.startswith("float8")
