"""feedline: cache(directory)."""

from benchmarks.cache_epoch.feedline import ROWS, epoch

__all__ = ["ROWS", "epoch"]
