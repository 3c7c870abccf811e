"""The steps and sources of a pipeline, one per file."""

from feedline.ops.batch import Batch
from feedline.ops.bucket_by_sequence_length import BucketBySequenceLength
from feedline.ops.cache import Cache
from feedline.ops.choose_from_datasets import ChooseFromDatasets
from feedline.ops.concatenate import Concatenate
from feedline.ops.counter import Counter
from feedline.ops.distribute import Distribute
from feedline.ops.distribute_split import DistributeSplit
from feedline.ops.enumerate import Enumerate
from feedline.ops.filter import Filter
from feedline.ops.from_generator import FromGenerator, Shards
from feedline.ops.global_shuffle import GlobalShuffle
from feedline.ops.group_by_window import GroupByWindow
from feedline.ops.ignore_errors import IgnoreErrors
from feedline.ops.index_hint import index_hint, is_indexed
from feedline.ops.interleave import Interleave
from feedline.ops.list_files import Files, ListFiles
from feedline.ops.map import Map
from feedline.ops.options import Options
from feedline.ops.padded_batch import PaddedBatch
from feedline.ops.prefetch import Prefetch
from feedline.ops.random import Random
from feedline.ops.range import Range
from feedline.ops.rebatch import Rebatch
from feedline.ops.repeat import Repeat
from feedline.ops.sample_from_datasets import sampled
from feedline.ops.scan import Scan
from feedline.ops.select import Select
from feedline.ops.shard import Shard, shard
from feedline.ops.shared_cache import SharedCache
from feedline.ops.shuffle import Shuffle
from feedline.ops.skip import Skip
from feedline.ops.take import Take
from feedline.ops.take_while import TakeWhile
from feedline.ops.tensor_slices import TensorSlices
from feedline.ops.tfrecords import TFRecords
from feedline.ops.unbatch import Unbatch
from feedline.ops.unique import Unique
from feedline.ops.window import Window
from feedline.ops.zip import Zip

__all__ = [
    "Batch",
    "BucketBySequenceLength",
    "Cache",
    "ChooseFromDatasets",
    "Concatenate",
    "Counter",
    "Distribute",
    "DistributeSplit",
    "Enumerate",
    "Files",
    "Filter",
    "FromGenerator",
    "GlobalShuffle",
    "GroupByWindow",
    "IgnoreErrors",
    "Interleave",
    "ListFiles",
    "Map",
    "Options",
    "PaddedBatch",
    "Prefetch",
    "Random",
    "Range",
    "Rebatch",
    "Repeat",
    "Scan",
    "Select",
    "Shard",
    "Shards",
    "SharedCache",
    "Shuffle",
    "Skip",
    "TFRecords",
    "Take",
    "TakeWhile",
    "TensorSlices",
    "Unbatch",
    "Unique",
    "Window",
    "Zip",
    "index_hint",
    "is_indexed",
    "sampled",
    "shard",
]
