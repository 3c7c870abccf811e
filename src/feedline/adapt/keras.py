"""to_keras: what `model.fit` takes best on the backend that Keras runs on.

On TensorFlow that is a tf.data.Dataset if the length is known. Otherwise, and on JAX and torch, it is a data
adapter of our own. Keras would copy the elements of all others, take no end from a PyDataset that does not
know its length, and no second epoch from a generator. And only an adapter is told when an epoch ends, which
it needs to keep Keras from warning that data of unknown length "ran out".

Iterations may end early, where a training was resumed in the middle of an epoch. Keras bears that only where
it was told a number of batches: else it takes the short epoch for the length of all. So what is endless has
very many batches here.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, finalize

from feedline.adapt.frameworks import need
from feedline.adapt.jax import check_numbers
from feedline.adapt.progress import progress_of
from feedline.adapt.tf import Run, from_runs
from feedline.adapt.torch import as_tensors
from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import INFINITE, UNKNOWN
from feedline.tracebacks import hide_frames

if TYPE_CHECKING:
    from feedline.dataset import Dataset

_ENDLESS = 2**62


def to_keras(dataset: Dataset) -> Any:
    keras = need("keras", "to_keras()", "keras")
    backend = keras.backend.backend()
    if backend == "tensorflow":
        tf = need("tensorflow", "to_keras()", "tf")
        count = _count(dataset)
        return _adapter(_TFAdapter)(dataset, tf) if count is None else _tf_dataset(dataset, tf, count)
    if backend == "jax":
        return _adapter(_ElementsAdapter)(dataset, _as_numbers)
    if backend == "torch":
        torch = need("torch", "to_keras()", "torch")
        return _adapter(_ElementsAdapter)(dataset, lambda element: as_tensors(torch, element))
    raise UsageError(
        f"to_keras(): Keras runs on {backend}, which feedline does not feed.\n"
        "  Set KERAS_BACKEND to tensorflow, jax or torch; or pass the arrays that iter(dataset) gives."
    )


def _count(dataset: Dataset) -> int | None:
    count = dataset.cardinality()
    return {INFINITE: _ENDLESS, UNKNOWN: None}.get(count, count)


def _tf_dataset(dataset: Dataset, tf: Any, count: int) -> Any:
    progress = progress_of(dataset)
    run = _EmptyAfterItsEnd(lambda: progress.run(dataset))
    # Not assert_cardinality: it would fail where an iteration ends early. `repeat` ends with the first run
    # that is empty, and `take` ends before it asks for a second one where all elements came.
    return from_runs(tf, dataset, dataset.element_spec, run).repeat().take(count)


class _EmptyAfterItsEnd:
    """Begins runs; where one came to its own end, the next is empty."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ended = False

    def __call__(self) -> Generator[Block]:
        if self._ended:
            self._ended = False
            return
        yield from self._run()
        self._ended = True


def _as_numbers(element: Any) -> Any:
    check_numbers(element, "to_keras()")
    return element


@cache
def _adapter(own: type[_Adapter]) -> Any:
    base = import_module("keras.src.trainers.data_adapters.data_adapter").DataAdapter
    return type("DatasetAdapter", (own, base), {})


class _Given(NamedTuple):
    """What a user gave to `fit` beside the data."""

    class_weight: dict[int, float] | None
    steps: int | None


class _Adapter:
    """A Keras DataAdapter. Keras gives a class_weight to those it makes, but not to one that it is given.

    So it is looked up in the one that reads: an EpochIterator, for which there may be several adapters' worth
    of reading at once, when the same data is also validated on.
    """

    batch_size = has_partial_batch = partial_batch_size = None

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._progress = progress_of(dataset)
        self._given: WeakKeyDictionary[Any, _Given] = WeakKeyDictionary()
        self._silence = _Silence()
        finalize(self, self._silence.end_for_good)

    @property
    def num_batches(self) -> int | None:
        # EpochIterator.__init__ reads it, while it holds what was given.
        caller = sys._getframe(1)
        if caller.f_code.co_name == "__init__":
            given = caller.f_locals
            if given.get("y") is not None or given.get("sample_weight") is not None:
                raise UsageError(
                    "fit(ds.to_keras(), ...): y and sample_weight are part of the dataset's elements: "
                    "(inputs, targets) or (inputs, targets, sample_weight)."
                )
            self._given[given["self"]] = _Given(given["class_weight"], given["steps_per_epoch"])
        return _count(self._dataset)

    def _run(self, given: _Given) -> Run:
        """Begins iterations, without a reference to the adapter: TensorFlow keeps it as long as the model."""
        dataset, progress, silence = self._dataset, self._progress, self._silence

        def run() -> Generator[Block]:
            yield from progress.run(dataset)
            if given.steps is None and _count(dataset) is None:
                silence.begin()

        return run

    def on_epoch_begin(self) -> None:
        self._silence.end()

    on_epoch_end = on_epoch_begin


class _TFAdapter(_Adapter):
    def __init__(self, dataset: Dataset, tf: Any) -> None:
        super().__init__(dataset)
        self._tf = tf
        self._element_spec = dataset.element_spec

    def get_tf_dataset(self) -> Any:
        given = self._given[sys._getframe(1).f_locals["self"]]
        made = from_runs(self._tf, self._dataset, self._element_spec, self._run(given))
        keras: Any = import_module("keras.src.trainers.data_adapters.tf_dataset_adapter")
        distribution: Any = import_module("keras").distribution.distribution()
        return keras.TFDatasetAdapter(made, given.class_weight, distribution).get_tf_dataset()


class _ElementsAdapter(_Adapter):
    def __init__(self, dataset: Dataset, converted: Callable[[Any], Any]) -> None:
        super().__init__(dataset)
        self._converted = converted

    def get_jax_iterator(self) -> Iterator[Any]:
        return self._read(self._given[sys._getframe(1).f_locals["self"]])

    get_torch_dataloader = get_jax_iterator

    def _read(self, given: _Given) -> Iterator[Any]:
        weight = given.class_weight
        try:
            for block in self._run(given)():
                for element in block:
                    yield self._converted(element if weight is None else _weighted(element, weight))
        except hide_frames():
            raise


class _Silence:
    """Keeps Keras from warning that the data ran out, where it merely ended.

    Keras warns whenever data of unknown length ends, and calls `on_epoch_end` right after that.
    """

    def __init__(self) -> None:
        self._filter: Any = None
        self._is_wanted = True

    def begin(self) -> None:
        if not self._is_wanted:
            return
        # The whole first sentence: a filter of the user's own, which would be taken away, is hardly the same.
        warnings.filterwarnings("ignore", "Your input ran out of data; interrupting training", UserWarning)
        self._filter = warnings.filters[0]

    def end(self) -> None:
        filters: Any = warnings.filters
        with suppress(ValueError):  # there is none, or `catch_warnings` has taken it away
            filters.remove(self._filter)
        self._filter = None

    def end_for_good(self) -> None:
        self._is_wanted = False
        self.end()


def _weighted(element: Any, class_weight: dict[int, float]) -> Any:
    if not isinstance(element, tuple) or len(element) != 2:
        raise UsageError(
            "fit(class_weight=...): elements must be (inputs, targets), without sample weights of their own."
        )
    utils: Any = import_module("keras.src.trainers.data_adapters.data_adapter_utils")
    return (*element, utils.class_weight_to_sample_weights(element[1], class_weight))
