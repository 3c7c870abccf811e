"""Dataset: the fluent face of a pipeline. One short method per op; the doing is in `ops`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from feedline import ops
from feedline.adapt.asked_by_keras import NoArray
from feedline.errors import UsageError
from feedline.explain import Stats, explain, outline, stats
from feedline.graph import INFINITE, Context, Fingerprint, Node, Site, fingerprint, random_nodes, tree
from feedline.graph.arguments import AUTOTUNE, check_calls, check_executor, check_workers
from feedline.iterator import DatasetIterator
from feedline.records.features import normalize
from feedline.records.inferring import infer_features
from feedline.records.paths import compression_name, resolve
from feedline.records.reading import OnCorrupt, skips
from feedline.run import History, LocalServices
from feedline.run.cores import usable_cores
from feedline.structure import flatten
from feedline.tracebacks import short_tracebacks
from feedline.write.saving import save


@short_tracebacks
class Dataset:
    """Elements, one after another: trees of tuples and dicts whose leaves are arrays, scalars or bytes.

    A dataset is a description. Iterating it does the work, each time from the beginning. A step may be given
    a `name`, by which explain(), stats() and errors speak of it.

    >>> [int(x) for x in Dataset.range(10).filter(lambda x: x % 2 == 1).map(lambda x: x * x)]
    [1, 9, 25, 49, 81]
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._history = History()

    def __reduce__(self) -> Any:
        return Dataset, (self._node,)

    def __repr__(self) -> str:
        """
        >>> Dataset.range(10).map(lambda x: x + 1).batch(4)
        <feedline.Dataset: range(0, 10, 1) -> map(lambda) -> batch(4)>
        """
        return f"<feedline.Dataset: {outline(self._node, Dataset)}>"

    # Sources

    @staticmethod
    def range(*args: int, output_type: Any = "int64", name: str | None = None) -> Dataset:
        """Numbers as Python's `range` gives them, as int64 or another dtype.

        >>> [int(x) for x in Dataset.range(5, 0, -2)]
        [5, 3, 1]
        >>> list(Dataset.range(2, output_type="float32"))
        [np.float32(0.0), np.float32(1.0)]
        """
        return Dataset(ops.Range.of(args, output_type, site=_site("range", name)))

    @staticmethod
    def choose_from_datasets(
        datasets: Iterable[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """The next element of dataset 0, 1, ..., as the numbers (int64) in `choice_dataset` say.

        It ends with the choices; or when a dataset that has ended is chosen, unless `stop_on_empty_dataset`
        is False: such choices are then passed over.

        >>> parts = [Dataset.range(3), Dataset.range(10, 13)]
        >>> [int(x) for x in Dataset.choose_from_datasets(parts, Dataset.range(2).repeat(2))]
        [0, 10, 1, 11]
        """
        site = _site("choose_from_datasets")
        parts = _nodes(datasets, site)
        choices = _nodes([choice_dataset], site)[0]
        return Dataset(ops.ChooseFromDatasets(parts, choices, stop_on_empty_dataset, site=site))

    @staticmethod
    def counter(start: float = 0, step: float = 1, dtype: Any = "int64", name: str | None = None) -> Dataset:
        """Numbers from `start` on in steps, without an end, as int64 or another dtype.

        >>> [int(x) for x in Dataset.counter(2, 5).take(3)]
        [2, 7, 12]
        """
        return Dataset(ops.Counter(start, step, dtype, site=_site("counter", name)))

    @staticmethod
    def from_generator(
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        output_signature: Any = None,
        workers: int = 0,
        deterministic: bool = True,
        name: str | None = None,
    ) -> Dataset:
        """The elements that `fn(*args)` yields: trees of arrays, whose shapes may change.

        `fn` is called for each iteration. With an `output_signature`, a tree of specs (tf.TensorSpec, say),
        elements are converted to its dtypes and must have its shapes. Without, all must have the structure
        and the dtypes of the first. The generator is run ahead of what was taken, by up to a block.

        With `workers`, that many processes each run `fn(*args, shard=feedline.Shard(index, count))`, to yield
        that part only; if all seem to yield the same, a warning says so. Their elements come by turns: also
        where `deterministic` is False and any order would do, because the exact position of an iteration
        rests on it.

        >>> def words(count):
        ...     for number in range(count):
        ...         yield {"number": number, "word": "na" * number}
        >>> list(Dataset.from_generator(words, args=(2,)))
        [{'number': np.int32(0), 'word': b''}, {'number': np.int32(1), 'word': b'na'}]
        """
        site = _site("from_generator", name)
        generator = ops.FromGenerator.of(fn, args, output_signature, site=site)
        check_workers("from_generator", workers)
        if not workers:
            return Dataset(generator)
        generator.check_takes_shard()
        count = usable_cores() if workers == AUTOTUNE else int(workers)
        shards = ops.Shards(generator, count, Dataset)
        return Dataset(ops.Interleave(ops.Range(0, count, 1), shards, count, 1, count, site=site))

    @staticmethod
    def list_files(
        pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: str | None = None
    ) -> Dataset:
        """The paths, as bytes, that match a glob pattern or a list of them, found when this is called.

        They come in a random order, another one in each iteration, unless `shuffle` is False: then sorted.
        Patterns leave out the indexes and manifests that feedline wrote beside your data.
        """
        site = _site("list_files", name)
        files = ops.ListFiles.of(pattern, site=site)
        if shuffle is None or shuffle:
            return Dataset(ops.Shuffle(files, files.length(), True, seed=seed, site=site))
        return Dataset(files)

    @staticmethod
    def random(
        seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
    ) -> Dataset:
        """Random numbers from 0 to 2**32 - 1 without an end, as int64.

        The same in each iteration, unless `rerandomize_each_iteration`; with a `seed`, also in each run.

        >>> list(Dataset.random(seed=4).take(10)) == list(Dataset.random(seed=4).take(10))
        True
        """
        again = False if rerandomize_each_iteration is None else rerandomize_each_iteration
        return Dataset(ops.Random(again, seed=seed, site=_site("random", name)))

    @staticmethod
    def sample_from_datasets(
        datasets: Iterable[Dataset],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """The next element of a dataset that is drawn for each, by `weights`, or all alike.

        `weights` is a number for each dataset, or a Dataset of arrays of them. A dataset that has ended is
        passed over, or ends everything with `stop_on_empty_dataset`. The draws are the same in each
        iteration, unless `rerandomize_each_iteration`; with a `seed`, also in each run.

        >>> parts = [Dataset.range(3), Dataset.range(10, 13)]
        >>> sorted(int(x) for x in Dataset.sample_from_datasets(parts, weights=[0.9, 0.1]))
        [0, 1, 2, 10, 11, 12]
        """
        site = _site("sample_from_datasets")
        parts = _nodes(datasets, site)
        by = weights._node if isinstance(weights, Dataset) else weights
        again = False if rerandomize_each_iteration is None else rerandomize_each_iteration
        return Dataset(ops.sampled(parts, by, seed, stop_on_empty_dataset, again, site=site))

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """One element: the tree as it is.

        >>> list(Dataset.from_tensors(([1, 2], "x")))
        [(array([1, 2], dtype=int32), b'x')]
        """
        return Dataset(ops.TensorSlices.of_whole(tensors, site=_site("from_tensors", name)))

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """The rows of arrays that have the same first dimension. The arrays are not copied.

        >>> list(Dataset.from_tensor_slices({"x": [1, 2], "y": ["a", "b"]}))
        [{'x': np.int32(1), 'y': b'a'}, {'x': np.int32(2), 'y': b'b'}]
        """
        return Dataset(ops.TensorSlices.of_slices(tensors, site=_site("from_tensor_slices", name)))

    @staticmethod
    def from_tfrecords(
        files: Any,
        features: Any = None,
        *,
        compression: str | None = "auto",
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        num_parallel_reads: int | None = None,
    ) -> Dataset:
        """The records of TFRecord files: decoded by `features` into dicts, or as bytes without.

        `files` is a path, a glob, a directory, a list of them, or a Dataset of paths. They are read one after
        another, by several threads; with `num_parallel_reads`, so many by turns, a record of each, as tf.data
        has it.

        With `features="auto"`, arrays that feedline wrote have the dtypes and shapes they had. Other files
        are read once beforehand to infer their features, as `records.infer_features` does.

        With `on_corrupt="skip"` damaged records are dropped, and one warning at the end counts them.
        """
        site = _site("from_tfrecords")
        resolved = [] if isinstance(files, Dataset) else resolve(files)
        known = _features_of(features, resolved, compression)
        options = (known, compression_name(compression), verify, skips(on_corrupt))
        check_calls("from_tfrecords", num_parallel_reads, "num_parallel_reads")
        together = usable_cores() if num_parallel_reads == AUTOTUNE else num_parallel_reads
        if isinstance(files, Dataset):
            paths = files._node
        else:
            if together in (None, 1):
                return Dataset(ops.TFRecords(tuple(resolved), *options, site=site))
            paths = ops.Files(tuple(map(os.fsencode, resolved)), site=site)
        return Dataset(ops.Interleave(paths, _ReadOne(options, site), together or 1, 1, site=site))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Elements of several datasets side by side, until the first of them ends.

        The datasets may also be given as one tree of tuples and dicts, the only argument or `datasets`; the
        elements then have its structure.

        >>> list(Dataset.zip(Dataset.range(2), Dataset.range(5, 9)))
        [(np.int64(0), np.int64(5)), (np.int64(1), np.int64(6))]
        """
        if args and datasets is not None:
            raise UsageError("zip: give the datasets one by one, or as datasets=..., not both.")
        if datasets is None:
            datasets = args[0] if len(args) == 1 else args
        parts, structure = flatten(datasets)
        if parts and structure.has_none:
            raise UsageError("zip: give datasets, or a tree of them, without None.")
        for one in parts:
            if not isinstance(one, Dataset):
                raise UsageError(f"zip: give datasets, or a tree of them, not {type(one).__name__}.")
        return Dataset(ops.Zip(tuple(one._node for one in parts), structure, site=_site("zip", name)))

    # Steps

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """`transformation_func(self)`: for steps of your own in a chain.

        >>> [int(x) for x in Dataset.range(9).apply(lambda ds: ds.skip(2).take(3))]
        [2, 3, 4]
        """
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise UsageError(f"apply: the function must return a Dataset, not {type(made).__name__}.")
        return made

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Stack each `batch_size` consecutive elements along a new first axis.

        The last batch is shorter when elements run out, unless `drop_remainder`.

        >>> [b.tolist() for b in Dataset.range(5).batch(2)]
        [[0, 1], [2, 3], [4]]
        """
        check_calls("batch", num_parallel_calls)
        return Dataset(ops.Batch(self._node, batch_size, drop_remainder, site=_site("batch", name)))

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Batches of elements of like length, filled up as `padded_batch` does.

        An element goes into the first bucket whose boundary is above its length, or else into the last one,
        and a bucket that holds its `bucket_batch_sizes` is a batch. With `pad_to_bucket_boundary`, dimensions
        of no fixed size are filled up to the boundary less 1. Which those are is told by the first elements,
        where only a function's results can tell; `padded_shapes` says it for certain.

        >>> lengths = Dataset.from_tensor_slices([1, 4, 2, 5]).map(lambda n: np.full(n, n))
        >>> [b.tolist() for b in lengths.bucket_by_sequence_length(len, [3], [2, 2])]
        [[[1, 0], [2, 2]], [[4, 4, 4, 4, 0], [5, 5, 5, 5, 5]]]
        """
        made = ops.BucketBySequenceLength(
            self._node,
            element_length_func,
            bucket_boundaries,
            bucket_batch_sizes,
            padded_shapes,
            padding_values,
            pad_to_bucket_boundary,
            no_padding,
            drop_remainder,
            site=_site("bucket_by_sequence_length", name),
        )
        return Dataset(made)

    def cache(
        self,
        location: str | os.PathLike[str] = "",
        *,
        version: str | None = None,
        cache_limit: int | str | None = None,
        blobs: str | os.PathLike[str] | None = None,
        on_unavailable: str = "raise",
        name: str | None = None,
    ) -> Dataset:
        """Keep the elements, in memory or at a location that runs share, so that each is computed once.

        They are the same in each iteration: shuffle after, not before. Their arrays are read-only.

        Without a location, they are computed by the first iteration that comes to the end. The memory is this
        process's, and free again when the dataset is.

        >>> squares = Dataset.range(5).map(lambda x: x * x).cache()
        >>> [int(x) for x in squares], [int(x) for x in squares]
        ([0, 1, 4, 9, 16], [0, 1, 4, 9, 16])

        A location is a directory, `redis://host:port/db`, or the URL of an object store, `s3://bucket/prefix`
        say. Any number of runs may use it at the same time: they divide the work of the functions before it,
        if what is in front of those is cheap and repeatable (`explain()` says so), and read what the others
        have computed while it grows. A run that stops or is killed leaves what it has done to the others.
        Pipelines are told apart by their `fingerprint()`: one that was changed never reads what it was
        before.

        >>> import tempfile
        >>> location = tempfile.mkdtemp()
        >>> [int(x) for x in Dataset.range(5).map(lambda x: x * x).cache(location)]
        [0, 1, 4, 9, 16]

        `version`: what the functions are, where that cannot be found out from them; give another one when
        they change. `cache_limit`: bytes, or "100GB", that all entries of the location may have; those used
        least recently make room. `blobs`: a directory or an object store for what is too large for Redis.
        `on_unavailable="compute"`: go on without the cache when its server does not answer.
        """
        if not isinstance(location, str | bytes | os.PathLike):
            raise UsageError(
                f"cache({location!r}): give a directory or a URL; nothing for a cache in memory."
            )
        if location == "":
            if (version, cache_limit, blobs, on_unavailable) != (None, None, None, "raise"):
                raise UsageError(
                    "cache: its options are those of a shared cache; say where:  cache(location)"
                )
            return Dataset(ops.Cache(self._node, site=_site("cache", name)))
        node = ops.SharedCache(
            self._node,
            os.fsdecode(location),
            version,
            cache_limit,
            None if blobs is None else os.fsdecode(blobs),
            on_unavailable,
            site=_site("cache", name),
        )
        return Dataset(node)

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """The elements of this dataset, then those of the other, which must have the same structure.

        >>> [int(x) for x in Dataset.range(2).concatenate(Dataset.range(3))]
        [0, 1, 0, 1, 2]
        """
        if not isinstance(dataset, Dataset):
            raise UsageError(f"concatenate: give a Dataset, not {type(dataset).__name__}.")
        return Dataset(ops.Concatenate.of(self._node, dataset._node, _site("concatenate", name)))

    def distribute(
        self,
        address: str,
        mode: str = "whole",
        ack: str = "next",
        job: str | None = None,
        fallback: str | None = None,
    ) -> Dataset:
        """Run the steps before this one in a reader service, which several processes on this host share.

        `address` is "unix:PATH", the socket of `feedline serve --socket PATH`, or "unix:auto", which starts a
        service when there is none. Arrays are read-only, and lie in memory that the service shares. Functions
        travel by cloudpickle and run in the service, with its rights and in its environment.

        `mode="whole"`: every process gets the whole dataset; those with the same pipeline share the work
        while they are close together. `state_dict()` is the same with the service and without it. When
        the service is not there, ServiceError is raised; with `fallback="local"`, this process goes on by
        itself at the same element, with a warning.

        `mode="split"`: each element of an epoch goes to one of the processes that have the same `job`,
        and what a process that died had not consumed goes to another. With `ack="next"` a block counts as
        consumed when the next one is asked for; with `ack="state"`, when `state_dict()` is taken, so that
        a training that restarts from a checkpoint gets again what it had seen since then. A process comes
        back under the name in FEEDLINE_CLIENT, or its rank. Without a `job`, processes with the same
        pipeline have one in common.
        """
        site = _site("distribute")
        if mode == "split":
            from feedline.adapt.environment import part_of_this_process

            if fallback is not None:
                raise UsageError(
                    f'distribute(mode="split", fallback={fallback!r}): a process alone cannot know which '
                    'elements others have got.\n  Leave fallback out, or use mode="whole".'
                )
            part = part_of_this_process()
            rank = None if part is None else part[1]
            return Dataset(ops.DistributeSplit(self._node, address, ack, job, rank, site=site))
        if mode != "whole":
            raise UsageError(f"distribute(mode={mode!r}): give 'whole' or 'split'.")
        if (ack, job) != ("next", None):
            raise UsageError('distribute(ack=, job=): these are for mode="split" only.')
        return Dataset(ops.Distribute(self._node, address, fallback, site=site))

    def enumerate(self, start: int = 0, name: str | None = None) -> Dataset:
        """Pairs of a number, counted from `start`, and the element.

        >>> list(Dataset.from_tensor_slices(["a", "b"]).enumerate(5))
        [(np.int64(5), b'a'), (np.int64(6), b'b')]
        """
        return Dataset(ops.Enumerate(self._node, start, site=_site("enumerate", name)))

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Only the elements for which `predicate` returns True.

        >>> [int(x) for x in Dataset.range(5).filter(lambda x: x > 2)]
        [3, 4]
        """
        return Dataset(ops.Filter(self._node, predicate, site=_site("filter", name)))

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements of the dataset that `map_func` returns for each element, one dataset after another.

        >>> [int(x) for x in Dataset.range(4).flat_map(Dataset.range)]
        [0, 0, 1, 0, 1, 2]
        """
        return Dataset(ops.Interleave(self._node, map_func, 1, 1, site=_site("flat_map", name)))

    def get_single_element(self, name: str | None = None) -> Any:
        """The only element. UsageError when there is none, or another.

        >>> Dataset.range(3).batch(5).get_single_element()
        array([0, 1, 2])
        """
        site = _site("get_single_element", name)
        with iter(self.take(2)) as elements:
            found = list(elements)
        if len(found) != 1:
            what = "more than one element" if found else "no element"
            raise UsageError(f"{site}: the dataset has {what}; it must have exactly one.")
        return found[0]

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        window_size: int | None = None,
        window_size_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Gather elements that have the same key, an integer, and reduce each full group of them.

        `reduce_func(key, dataset)` returns the dataset whose elements are given. A group is full at
        `window_size` elements, or `window_size_func(key)`; what is left in the end comes in order of keys.

        >>> by_parity = Dataset.range(7).group_by_window(lambda x: x % 2, lambda key, ds: ds.batch(3), 3)
        >>> [batch.tolist() for batch in by_parity]
        [[0, 2, 4], [1, 3, 5], [6]]
        """
        site = _site("group_by_window", name)
        sizes = window_size, window_size_func
        return Dataset(ops.GroupByWindow(self._node, key_func, reduce_func, *sizes, Dataset, site=site))

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Drop the elements that fail in a step before, and go on; with a warning for each if `log_warning`.

        What is wrong with the program is raised: results of another dtype than the first, say, or a name that
        is not there. If no element is left, a warning tells why the first was dropped.

        >>> [int(x) for x in Dataset.range(-1, 3).map(lambda x: 6 // int(x)).ignore_errors()]
        [-6, 6, 3]
        """
        return Dataset(ops.IgnoreErrors(self._node, log_warning, site=_site("ignore_errors", name)))

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """The elements of the datasets that `map_func` returns, by turns: `block_length` of each.

        `cycle_length` of them are open at a time. If it is None or AUTOTUNE, it is `num_parallel_calls`; if
        that is AUTOTUNE, a third of the cores, rounded up; if that is None, the number of cores. The order
        of the elements depends on it: give `cycle_length` to have the same order on every machine.

        With `num_parallel_calls`, that many worker processes make and run the datasets, if the first shows
        that this pays.

        >>> [int(x) for x in Dataset.range(2).interleave(lambda i: Dataset.range(i * 10, i * 10 + 3), 2)]
        [0, 10, 1, 11, 2, 12]
        """
        check_calls("interleave", num_parallel_calls)
        site = _site("interleave", name)
        if cycle_length is None or cycle_length == AUTOTUNE:
            cycle_length = _cycle_length(num_parallel_calls)
        length = 1 if block_length is None else block_length
        made = ops.Interleave(self._node, map_func, cycle_length, length, num_parallel_calls, site=site)
        if num_parallel_calls is not None and num_parallel_calls > made.cycle_length:
            raise UsageError(
                f"interleave(cycle_length={cycle_length}, num_parallel_calls={num_parallel_calls}): no more "
                "than cycle_length datasets are at work at a time."
            )
        return Dataset(made)

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        executor: str | None = None,
        name: str | None = None,
    ) -> Dataset:
        """`map_func` of each element: a plain function on NumPy. A tuple is passed as its arguments.

        A list that it returns is a tuple, as in tf.data; for an array, return `np.array(...)`. Lists inside
        of a tuple or a dict become arrays.

        With `num_parallel_calls` it runs in so many worker processes, or, if it lets other threads run while
        it is at work, in threads by `executor="thread"`. AUTOTUNE takes as many as there are cores,
        if there is enough to do for that to pay.

        >>> [int(x) for x in Dataset.range(3).map(lambda x: x + 10)]
        [10, 11, 12]
        """
        check_calls("map", num_parallel_calls)
        check_executor("map", executor)
        return Dataset(ops.Map(self._node, map_func, num_parallel_calls, executor, site=_site("map", name)))

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Stack each `batch_size` consecutive elements, filled up to one shape.

        That is the shape in `padded_shapes`, a tree as the elements are; None for a dimension, and for all,
        is the longest of the batch. `padding_values` fill up: 0 or b"" when not given, and else of the
        elements' own dtype.

        >>> lengths = Dataset.range(1, 4).map(lambda n: np.full(n, n))
        >>> [b.tolist() for b in lengths.padded_batch(2)]
        [[[1, 0], [2, 2]], [[3, 3, 3]]]
        >>> [b.tolist() for b in lengths.padded_batch(2, [4], np.int64(-1), drop_remainder=True)]
        [[[1, -1, -1, -1], [2, 2, -1, -1]]]
        """
        arguments = batch_size, padded_shapes, padding_values, drop_remainder
        return Dataset(ops.PaddedBatch(self._node, *arguments, site=_site("padded_batch", name)))

    def prefetch(self, buffer_size: int | None, name: str | None = None) -> Dataset:
        """Let the steps before run ahead in a thread of their own, by about `buffer_size` elements.

        >>> [int(x) for x in Dataset.range(3).prefetch(2)]
        [0, 1, 2]
        """
        size = AUTOTUNE if buffer_size is None else buffer_size
        return Dataset(ops.Prefetch(self._node, size, site=_site("prefetch", name)))

    def rebatch(
        self, batch_size: int | Sequence[int], drop_remainder: bool = False, name: str | None = None
    ) -> Dataset:
        """The rows of the batches, in batches of another size; of a list of sizes, each has its turn.

        A size of 0 gives an empty batch, as in tf.data. If all sizes are 0, these never end.

        >>> batches = Dataset.range(7).batch(4)
        >>> [b.tolist() for b in batches.rebatch(3)], [b.tolist() for b in batches.rebatch([2, 1])]
        ([[0, 1, 2], [3, 4, 5], [6]], [[0, 1], [2], [3, 4], [5], [6]])
        """
        return Dataset(ops.Rebatch.of(self._node, batch_size, drop_remainder, _site("rebatch", name)))

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None) -> Any:
        """The last state, after `reduce_func(state, element)`, the next state, of every element.

        The state keeps the structure and the dtypes of `initial_state`, in which a Python number is an int32
        or a float32.

        >>> Dataset.range(5).reduce(np.int64(0), lambda total, x: total + x)
        np.int64(10)
        """
        node = ops.Scan(self._node, initial_state, reduce_func, site=_site("reduce", name))
        with iter(self) as elements:
            return node.reduced(elements)

    def repeat(self, count: int | None = None, name: str | None = None) -> Dataset:
        """The elements `count` times over; for ever when it is None or negative.

        >>> [int(x) for x in Dataset.range(2).repeat(2)]
        [0, 1, 0, 1]
        """
        return Dataset(ops.Repeat(self._node, -1 if count is None else count, site=_site("repeat", name)))

    def scan(self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """A map with a memory: `scan_func(state, element)` gives the next state, and an element.

        The state keeps the structure and the dtypes of `initial_state`, in which a Python number is an int32
        or a float32. It is read-only, and part of the iterator's state: keep it small.

        >>> [int(x) for x in Dataset.range(5).scan(np.int64(0), lambda total, x: (total + x, total + x))]
        [0, 1, 3, 6, 10]
        """
        return Dataset(ops.Scan(self._node, initial_state, scan_func, site=_site("scan", name)))

    def shard(
        self, num_shards: int | None = None, index: int | None = None, name: str | None = None
    ) -> Dataset:
        """Every `num_shards`th element, from the one at `index` on; or every `num_shards`th file.

        Directly after from_tfrecords with 8 or more files per shard, each shard gets whole files, so no
        process reads records only to drop them. Either way each element is in exactly one shard, but shards
        of files differ in length as the files do. For equal lengths, index the files and shuffle first:
        `shuffle().shard(...)`.

        Without arguments, the shard of this process: TF_CONFIG tells it, or RANK and WORLD_SIZE, or
        jax.distributed where it is initialised.

        >>> [int(x) for x in Dataset.range(7).shard(3, 1)]
        [1, 4]
        """
        if num_shards is None and index is None:
            from feedline.adapt.environment import part_or_error

            num_shards, index = part_or_error()
        elif num_shards is None or index is None:
            raise UsageError("shard: give num_shards and index, or neither.")
        return Dataset(ops.shard(self._node, num_shards, index, _site("shard", name)))

    def shuffle(
        self,
        buffer_size: int | None = None,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> Dataset:
        """The elements in random order, drawn from a buffer of `buffer_size` that the next ones refill.

        Without a `buffer_size`, all of them are shuffled, in O(1) memory: only where every step before is
        indexed. Each iteration has another order, unless `reshuffle_each_iteration` is False; with a `seed`
        they are the same in each run.

        >>> numbers = Dataset.range(1_000_000).shuffle(seed=7)
        >>> [int(x) for x in numbers.take(3)], int(numbers[999_999])
        ([781326, 976039, 499345], 681767)
        """
        site = _site("shuffle", name)
        anew = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        if buffer_size is None:
            if self._node.length() is None:
                raise UsageError(
                    f"shuffle(): {self._unindexed()}, gives its elements only one after another, so they "
                    "cannot all be shuffled.\n  To shuffle them as they come, give a buffer_size:  "
                    f"shuffle(10_000){self._hint(ops.is_indexed)}"
                )
            return Dataset(ops.GlobalShuffle(self._node, anew, seed=seed, site=site))
        return Dataset(ops.Shuffle(self._node, buffer_size, anew, seed=seed, site=site))

    def skip(self, count: int, name: str | None = None) -> Dataset:
        """All but the first `count` elements; nothing when it is negative.

        >>> [int(x) for x in Dataset.range(5).skip(3)]
        [3, 4]
        """
        return Dataset(ops.Skip(self._node, count, site=_site("skip", name)))

    def take(self, count: int, name: str | None = None) -> Dataset:
        """The first `count` elements; all of them when it is negative. The rest is never read.

        >>> [int(x) for x in Dataset.range(5).take(2)]
        [0, 1]
        """
        return Dataset(ops.Take(self._node, count, site=_site("take", name)))

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements before the first for which `predicate` returns False.

        >>> [int(x) for x in Dataset.range(9).take_while(lambda x: x < 3)]
        [0, 1, 2]
        """
        return Dataset(ops.TakeWhile(self._node, predicate, site=_site("take_while", name)))

    def unbatch(self, name: str | None = None) -> Dataset:
        """The rows of each element, one after another: all arrays of an element must have as many.

        >>> [int(x) for x in Dataset.range(3).batch(2).unbatch()]
        [0, 1, 2]
        """
        return Dataset(ops.Unbatch(self._node, site=_site("unbatch", name)))

    def unique(self, name: str | None = None) -> Dataset:
        """Each element once, where it first comes. Only for int32, int64 and strings, or arrays of them.

        >>> [int(x) for x in Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1]).unique()]
        [1, 37, 2]
        """
        return Dataset(ops.Unique(self._node, site=_site("unique", name)))

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Small datasets of `size` elements each, which begin `shift` elements apart; None for `size`.

        The elements of one are `stride` apart. The last ones are shorter, unless `drop_remainder`. Where
        elements are tuples or dicts, a window is a tuple or a dict of datasets.

        >>> [[int(x) for x in window] for window in Dataset.range(5).window(3, shift=2)]
        [[0, 1, 2], [2, 3, 4], [4]]
        """
        arguments = size, size if shift is None else shift, stride, drop_remainder
        return Dataset(ops.Window(self._node, *arguments, Dataset, site=_site("window", name)))

    def with_options(
        self,
        *,
        max_open_files: int | None = None,
        memory_limit: int | str | None = None,
        deterministic: bool | None = None,
        workers: int | None = None,
    ) -> Dataset:
        """How the steps before are to be run; what they give stays the same.

        With `workers`, the functions of map, filter, flat_map and interleave run in so many processes, where
        they were not given fewer; with 0, all run in this one. All pipelines of this process together have
        two workers per core, or as many as the largest asks for; a pipeline that finds none left gets one.
        Workers end about three seconds after their last use. What is None is left as it is.

        `memory_limit`, in bytes or as "4GB", bounds what all steps before hold at the same time: blocks on
        their way from step to step, shuffle buffers, rows gathered for a batch or a window, read-ahead,
        prefetch, what workers are at, and `cache()` in memory. Near the limit, steps work less far ahead and
        on smaller blocks. What cannot be done within it is an error that names the step: an element, a batch
        or a shuffle buffer that is too large. What you keep yourself, and what functions allocate, does not
        count. `stats()` tells what is in use, and the most that was.

        `max_open_files` is the number of data files that all iterators of this dataset, and the workers that
        read for them, may have open together. Files beyond it are closed and opened again, so any
        `cycle_length` works. Without it, a process has at most 256 data files open, or half of `ulimit -n`.

        >>> [int(x) for x in Dataset.range(3).with_options(memory_limit="4GB", workers=2)]
        [0, 1, 2]
        """
        site = _site("with_options")
        made = ops.Options(self._node, max_open_files, memory_limit, deterministic, workers, site=site)
        return Dataset(made)

    # To the frameworks

    __array__ = NoArray()

    def to_jax(self, sharding: Any = None) -> Any:
        """An iterable of the elements as JAX arrays, put on the device two elements ahead.

        With a `sharding`, or a tree of them, they are spread over devices. As everywhere in JAX, 64-bit
        numbers become 32-bit ones unless jax_enable_x64 is set.
        """
        from feedline.adapt.jax import DeviceElements

        return DeviceElements(self, sharding)

    def to_keras(self) -> Any:
        """What `model.fit` takes best, on the backend that Keras runs on: elements are batches.

        Each is (inputs, targets), with sample weights as a third if there are any. End with prefetch(...), so
        that the next ones are made while the model trains. What it gives is for `fit`, `evaluate` and
        `predict`; use to_tf() for a tf.data.Dataset to add steps to.
        """
        from feedline.adapt.keras import to_keras

        return to_keras(self)

    def save_tfrecords(
        self,
        directory: str | os.PathLike[str],
        shards: int | None = None,
        workers: int | None = None,
        deterministic: bool = True,
    ) -> None:
        """Write the elements, dicts of features or bytes, to a set of TFRecord files, as ShardedWriter does.

        With `workers`, the functions of all steps run in so many processes. The files are the same, byte for
        byte, whatever their number; deterministic=False would allow another order.

        Arrays and scalars come back from from_tfrecords(features="auto") with their dtype and shape; decision
        14 (in docs/decisions) says how each is stored.

        Indexes and the manifest are dot files. tf.data's `*` matches those: there, read "numbers/*.tfrecord".

        >>> Dataset.range(5).map(lambda n: {"n": n}).save_tfrecords("numbers", shards=2)
        >>> feedline.records.count("numbers")
        5
        """
        if self.cardinality() == INFINITE:
            raise UsageError("save_tfrecords: this dataset is infinite. Say how much, with take(count).")
        with iter(self if workers is None else self.with_options(workers=workers)) as rows:
            save(iter(rows.take_block, None), directory, shards)

    def to_tf(self) -> Any:
        """A tf.data.Dataset of the same elements, with their spec and, if it is known, their number.

        A Ragged becomes a RaggedTensor. Where only a function's results tell the spec, the first elements are
        computed for it.
        """
        from feedline.adapt.tf import to_tf

        return to_tf(self)

    def to_torch(self) -> Any:
        """A torch IterableDataset of the same elements, with `state_dict()` and `load_state_dict(state)`.

        Under a DataLoader with several workers, each gives its share. The elements may be batches already:
        then give the DataLoader batch_size=None.
        """
        from feedline.adapt.torch import to_torch

        return to_torch(self)

    # Looking at it

    def __iter__(self) -> DatasetIterator:
        services = LocalServices(self._node)
        epoch = max((_epochs.get(node, 0) for node in self._with_epochs()), default=0)
        self._begun(epoch)
        context = Context(services, (epoch,))
        rows = DatasetIterator(self._node, context, self._begun, self._history.end)
        self._history.begin(rows, services.measures, context.budget)
        return rows

    def _begun(self, epoch: int) -> None:
        """The next iteration is a later one, also of other datasets that have the same random steps."""
        for node in self._with_epochs():
            _epochs[node] = max(_epochs.get(node, 0), epoch + 1)

    def _with_epochs(self) -> list[Node]:
        """The random steps; and the last one, if functions before it may draw random numbers."""
        random: list[Node] = [*random_nodes(self._node)]
        return [*random, self._node] if any(node.may_draw for node in tree(self._node)) else random

    def as_numpy_iterator(self) -> DatasetIterator:
        """The same as `iter(dataset)`: elements are NumPy already."""
        return iter(self)

    def cardinality(self) -> int:
        """The number of elements, INFINITE_CARDINALITY or UNKNOWN_CARDINALITY; nothing is read for it.

        >>> Dataset.range(7).batch(2).cardinality(), Dataset.range(7).repeat().cardinality()
        (4, -1)
        """
        return self._node.cardinality()

    def __len__(self) -> int:
        length = self._node.length()
        cardinality = self._node.cardinality() if length is None else length
        if cardinality < 0:
            what = "is infinite" if cardinality == INFINITE else "is not known before it is iterated"
            hint = self._hint(lambda node: node.cardinality() >= 0)
            count = "" if cardinality == INFINITE else self._counted()
            raise TypeError(
                f"the length of this dataset {what}; cardinality() tells without raising.{hint}{count}"
            )
        return cardinality

    def _counted(self) -> str:
        """How many elements the last whole iteration gave, for the error of len()."""
        seen = self._history.elements
        if seen is None:
            return "\n  To count the elements:  sum(1 for _ in dataset)"
        return (
            f"\n  The last complete iteration gave {seen:,} elements; the next may give another number.\n"
            f"  Where a training loop needs one:  steps_per_epoch={seen}"
        )

    def __bool__(self) -> bool:
        return True  # as tf.data: whether a dataset has elements is not asked by `if`

    def __getitem__(self, index: int | slice) -> Any:
        """An element, or a dataset of some of them. Only where every step is indexed.

        >>> squares = Dataset.range(10).map(lambda x: x * x)
        >>> squares[3], squares[-1], [int(x) for x in squares[2:5]]
        (np.int64(9), np.int64(81), [4, 9, 16])
        """
        length = self._node.length()
        if length is None:
            hint = self._hint(ops.is_indexed)
            raise TypeError(f"{self._unindexed()}: this dataset cannot be indexed, only iterated.{hint}")
        if isinstance(index, slice):
            begin, end, step = index.indices(length)
            chosen = range(begin, end, step)
            return Dataset(ops.Select(self._node, chosen.start, step, len(chosen), site=_site("[...]")))
        if not isinstance(index, int | np.integer):
            raise TypeError(f"[{index!r}]: a dataset is indexed by a whole number, or by a slice of them.")
        at = index + length if index < 0 else index
        if not 0 <= at < length:
            raise IndexError(f"element {index} of a dataset of {length:,}")
        return Context(LocalServices()).gather(self._node, np.array([at])).row(0)

    def _unindexed(self) -> Node:
        """The first step that has no index."""
        node = self._node
        while below := [one for one in node.inputs if one.length() is None]:
            node = below[0]
        return node

    def _hint(self, is_answered: Callable[[Node], bool]) -> str:
        """Another line for an error, where files only lack an index."""
        hint = ops.index_hint(self._node, is_answered)
        return f"\n  {hint}" if hint else ""

    @property
    def element_spec(self) -> Any:
        """The structure, dtypes and shapes of an element; None for a dimension that changes.

        Where only a function's results can tell, the first elements are computed and looked at.

        >>> Dataset.range(5).map(lambda x: {"x": np.zeros(3)}).batch(2).element_spec
        {'x': ArraySpec((None, 3), float64)}
        """
        return self._node.spec(Context(LocalServices()).peek)

    def explain(self) -> str:
        """A table of the steps: where each was added, how many elements it gives, and whether it is indexed.

        >>> Dataset.range(10).filter(lambda x: x > 3).batch(2).explain()
        step             added at         cardinality  indexed
        range(0, 10, 1)  <doctest ...>:1           10  yes
        filter(lambda)   <doctest ...>:1      unknown  no
        batch(2)         <doctest ...>:1      unknown  no
        """
        return explain(self._node, Dataset)

    def stats(self) -> Stats:
        """What each step did in the last iteration of this object, also while it goes on; and the bottleneck.

        It prints as a table; `rows` holds the numbers. `memory` tells the bytes that all steps hold now, and
        the most that they held.

        >>> numbers = Dataset.range(10).batch(4)
        >>> batches = list(numbers)
        >>> [(row.step, row.elements, row.bytes) for row in numbers.stats().rows]
        [('range(0, 10, 1)', 10, 80), ('batch(4)', 3, 80)]

        `total` is the same for all iterations together, of which there were `iterations` in this process.

        >>> batches = list(numbers)
        >>> numbers.stats().iterations, [row.elements for row in numbers.stats().total.rows]
        (2, [20, 6])
        """
        return stats(self._node, Dataset, self._history)

    def fingerprint(self) -> Fingerprint:
        """A str that is the same for the same steps, arguments, functions and files, in any process.

        Functions count with what they reach: closures, defaults, globals, other functions of yours; what is
        in libraries counts by name and version. Its `explain()` prints the parts.

        >>> scale = 2
        >>> one = Dataset.range(3).map(lambda x: x * scale).fingerprint()
        >>> scale = 3
        >>> other = Dataset.range(3).map(lambda x: x * scale).prefetch(2).fingerprint()
        >>> other.changes(one.parts)
        ['map(lambda): global scale was 2, is 3']
        """
        return fingerprint(self._node)


def _features_of(features: Any, paths: list[str], compression: str | None) -> Any:
    """`features` of from_tfrecords, as a Node has them."""
    if features is None:
        return None
    if not isinstance(features, str):
        return normalize(features)
    if features != "auto":
        raise UsageError(
            f'from_tfrecords(features={features!r}): give a dict of features, "auto", or None for bytes.'
        )
    if not paths:
        raise UsageError(
            'from_tfrecords(features="auto"): a Dataset of paths names its files only when it runs. Give the '
            "paths, a glob or a directory, or features=feedline.records.infer_features(files)."
        )
    return infer_features(paths, compression=compression)


@dataclass(frozen=True)
class _ReadOne:
    """The function of a path that gives the dataset of its records."""

    options: tuple[Any, ...]
    site: Site = field(compare=False)

    def __call__(self, path: Any) -> Dataset:
        return Dataset(ops.TFRecords((os.fsdecode(path),), *self.options, site=self.site))


# How often a random step was begun. Not how often a dataset was: each `shuffled.take(5)` is a new one.
_epochs: WeakKeyDictionary[Node, int] = WeakKeyDictionary()


def _nodes(datasets: Any, site: Site) -> tuple[Node, ...]:
    found: list[Node] = []
    for one in datasets:
        if not isinstance(one, Dataset):
            raise UsageError(f"{site.step}: give datasets, not {type(one).__name__}.")
        found.append(one._node)
    return tuple(found)


def _cycle_length(calls: int | None) -> int:
    """Of interleave, where the user leaves it open: as tf.data chooses it."""
    if calls is None:
        return usable_cores()
    return -(-usable_cores() // 3) if calls == AUTOTUNE else calls


def _site(step: str, name: str | None = None) -> Site:
    """Where the user called the method that calls this, and what the step is called there."""
    if not isinstance(name, str | None):
        raise UsageError(f"{step}(name={name!r}): a name is a str, not {type(name).__name__}.")
    frame = sys._getframe(3)  # past the method and what `short_tracebacks` put around it
    return Site(step, frame.f_code.co_filename, frame.f_lineno, name)
