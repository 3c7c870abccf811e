"""TFRecord bytes <-> records; Example <-> columns; count, index, verify, repair, merge and reshard."""

from feedline.records.blocks import read_blocks
from feedline.records.check import Finding, Repair, Verification, repair, verify
from feedline.records.counting import count
from feedline.records.index_files import RecordIndex, index
from feedline.records.inferring import infer_features
from feedline.records.merging import Merge, merge
from feedline.records.paths import resolve
from feedline.records.reading import read
from feedline.records.resharding import Reshard, reshard
from feedline.records.surveying import survey
from feedline.records.tf_code import tf_features

__all__ = [
    "Finding",
    "Merge",
    "RecordIndex",
    "Repair",
    "Reshard",
    "Verification",
    "count",
    "index",
    "infer_features",
    "merge",
    "read",
    "read_blocks",
    "repair",
    "reshard",
    "resolve",
    "survey",
    "tf_features",
    "verify",
]
