"""tf.data: its cache in files and its cache in memory."""

from benchmarks.cache_epoch.tf_data import ROWS as ALL
from benchmarks.cache_epoch.tf_data import epoch

ROWS = {row: ALL[row] for row in ("tf_file", "tf_memory")}

__all__ = ["ROWS", "epoch"]
