"""How fast do 16 TFRecord files, interleaved one record at a time, become shuffled batches of 256?

A rival defines `read(workload, **settings)`: an iterator of batches, each a dict of arrays with 256 rows, for
one pass over the files: interleaved (cycle_length 16, block_length 1, in a fixed order), parsed, shuffled by
a buffer of 8,192 and batched. Bytes features arrive as uint8 arrays.
"""

from benchmarks.read_examples import check, consume, prepare

FUNCTION = "read"
WORKLOADS = ("img", "dense", "tab")
FILES = 16
BASES = ("tf_data", "tf_data_batches_parsed", "tf_data_not_interleaved")
BUFFER = 8192

__all__ = ["BASES", "BUFFER", "FILES", "FUNCTION", "WORKLOADS", "check", "consume", "prepare"]
