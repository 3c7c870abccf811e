"""Writers that many threads and processes share."""

from feedline.write.append import AppendWriter
from feedline.write.one_file import TFRecordWriter
from feedline.write.sharded import Producer, ShardedWriter

__all__ = ["AppendWriter", "Producer", "ShardedWriter", "TFRecordWriter"]
