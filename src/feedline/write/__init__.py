"""Writers that many threads and processes share."""

from feedline.write.one_file import TFRecordWriter

__all__ = ["TFRecordWriter"]
