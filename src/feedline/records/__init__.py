"""TFRecord bytes <-> records; Example <-> columns; count, index, verify and repair."""

from feedline.records.blocks import read_blocks
from feedline.records.check import Finding, Repair, Verification, repair, verify
from feedline.records.counting import count
from feedline.records.indexing import RecordIndex, index
from feedline.records.paths import resolve
from feedline.records.reading import read
from feedline.records.surveying import infer_features, survey

__all__ = [
    "Finding",
    "RecordIndex",
    "Repair",
    "Verification",
    "count",
    "index",
    "infer_features",
    "read",
    "read_blocks",
    "repair",
    "resolve",
    "survey",
    "verify",
]
