"""to_keras: what `model.fit` takes best on the backend that Keras runs on.

On TensorFlow that is a tf.data.Dataset. On JAX and torch it is a data adapter of our own: Keras would copy
the elements of all others, take no end from a PyDataset that does not know its length, and no second epoch
from a generator.

Iterations may end early, where a training was resumed in the middle of an epoch. Keras bears that only where
it was told a number of batches: else it takes the short epoch for the length of all. So what is endless has
very many batches here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from feedline.adapt.frameworks import need
from feedline.adapt.jax import check_numbers
from feedline.adapt.progress import progress_of
from feedline.adapt.tf import Run, from_runs
from feedline.adapt.torch import as_tensors
from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import INFINITE, UNKNOWN

if TYPE_CHECKING:
    from feedline.dataset import Dataset

_ENDLESS = 2**62


def to_keras(dataset: Dataset) -> Any:
    keras = need("keras", "to_keras()", "keras")
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _tf_dataset(dataset)
    if backend == "jax":
        return _adapter_class()(dataset, _as_numbers)
    if backend == "torch":
        torch = need("torch", "to_keras()", "torch")
        return _adapter_class()(dataset, lambda element: as_tensors(torch, element))
    raise UsageError(
        f"to_keras(): Keras runs on {backend}, which feedline does not feed.\n"
        "  Set KERAS_BACKEND to tensorflow, jax or torch; or pass the arrays that iter(dataset) gives."
    )


def _count(dataset: Dataset) -> int | None:
    count = dataset.cardinality()
    return {INFINITE: _ENDLESS, UNKNOWN: None}.get(count, count)


def _tf_dataset(dataset: Dataset) -> Any:
    tf = need("tensorflow", "to_keras()", "tf")
    progress, count = progress_of(dataset), _count(dataset)
    if count is None:
        return from_runs(tf, dataset, lambda: progress.run(dataset))
    # Not assert_cardinality: it would fail where an iteration ends early. `repeat` ends with the first run
    # that is empty, and `take` ends before it asks for a second one where all elements came.
    return from_runs(tf, dataset, _EmptyAfterItsEnd(lambda: progress.run(dataset))).repeat().take(count)


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
def _adapter_class() -> Any:
    base = import_module("keras.src.trainers.data_adapters.data_adapter").DataAdapter
    return type("DatasetAdapter", (_Adapter, base), {})


class _Adapter:
    """A Keras DataAdapter. Keras gives a class_weight to those it makes, but not to one that it is given.

    So it is looked up in the one that reads: an EpochIterator, for which there may be several adapters' worth
    of reading at once, when the same data is also validated on.
    """

    batch_size = has_partial_batch = partial_batch_size = None

    def __init__(self, dataset: Dataset, converted: Callable[[Any], Any]) -> None:
        self._dataset = dataset
        self._converted = converted
        self._progress = progress_of(dataset)
        self._class_weights: WeakKeyDictionary[Any, dict[int, float] | None] = WeakKeyDictionary()

    @property
    def num_batches(self) -> int | None:
        # EpochIterator.__init__ reads it, while it holds the class_weight.
        caller = sys._getframe(1)
        if caller.f_code.co_name == "__init__":
            given = caller.f_locals
            if given.get("y") is not None or given.get("sample_weight") is not None:
                raise UsageError(
                    "fit(ds.to_keras(), ...): y and sample_weight are part of the dataset's elements: "
                    "(inputs, targets) or (inputs, targets, sample_weight)."
                )
            self._class_weights[given["self"]] = given["class_weight"]
        return _count(self._dataset)

    def get_jax_iterator(self) -> Iterator[Any]:
        return self._read(self._class_weights[sys._getframe(1).f_locals["self"]])

    get_torch_dataloader = get_jax_iterator

    def _read(self, class_weight: dict[int, float] | None) -> Iterator[Any]:
        for block in self._progress.run(self._dataset):
            for element in block:
                yield self._converted(element if class_weight is None else _weighted(element, class_weight))

    def on_epoch_begin(self) -> None:
        pass

    on_epoch_end = on_epoch_begin


def _weighted(element: Any, class_weight: dict[int, float]) -> Any:
    if not isinstance(element, tuple) or len(element) != 2:
        raise UsageError(
            "fit(class_weight=...): elements must be (inputs, targets), without sample weights of their own."
        )
    utils: Any = import_module("keras.src.trainers.data_adapters.data_adapter_utils")
    return (*element, utils.class_weight_to_sample_weights(element[1], class_weight))
