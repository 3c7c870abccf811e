"""Writers that many threads and processes share."""

from feedline.write.append import AppendWriter
from feedline.write.one_file import TFRecordWriter

__all__ = ["AppendWriter", "TFRecordWriter"]
