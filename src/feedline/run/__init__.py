"""Where the work of streams runs, and how it is measured."""

from feedline.run.history import History
from feedline.run.measure import Measure
from feedline.run.services import LocalServices

__all__ = ["History", "LocalServices", "Measure"]
