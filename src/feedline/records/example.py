"""tf.train.Examples in memory: `encode`, `encode_batch` and `decode`. Public as `feedline.example`."""

from feedline.records.decode import decode
from feedline.records.encode import encode, encode_batch

__all__ = ["decode", "encode", "encode_batch"]
