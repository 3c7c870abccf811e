"""Writers that many threads and processes share."""

from feedline.write.append import AppendWriter
from feedline.write.one_file import TFRecordWriter
from feedline.write.producers import FileProducer
from feedline.write.sharded import Producer, ShardedWriter

__all__ = ["AppendWriter", "FileProducer", "Producer", "ShardedWriter", "TFRecordWriter"]
