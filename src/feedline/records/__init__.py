"""TFRecord bytes <-> records; Example <-> columns; verify, repair."""

from feedline.records.check import Finding, Repair, Verification, repair, verify
from feedline.records.decode import read_blocks
from feedline.records.paths import resolve
from feedline.records.reading import read

__all__ = ["Finding", "Repair", "Verification", "read", "read_blocks", "repair", "resolve", "verify"]
