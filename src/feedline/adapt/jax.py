"""to_jax: elements as arrays on JAX's devices, put there ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from feedline.adapt.frameworks import need
from feedline.column import Ragged
from feedline.errors import UsageError
from feedline.spec import ARRAYS, STRING
from feedline.structure import flatten
from feedline.tracebacks import hide_frames

if TYPE_CHECKING:
    from feedline.dataset import Dataset

_AHEAD = 2  # elements on the device besides the one that is used: transfers are begun, not awaited


class DeviceElements:
    """What `Dataset.to_jax()` gives: each iteration of it is one of the dataset."""

    def __init__(self, dataset: Dataset, sharding: Any) -> None:
        self._jax = need("jax", "to_jax()", "jax")
        self._dataset = dataset
        self._sharding = sharding

    def __iter__(self) -> Iterator[Any]:
        waiting: deque[Any] = deque()
        try:
            with iter(self._dataset) as elements:
                for number, element in enumerate(elements):
                    waiting.append(self._put(element, number))
                    if len(waiting) > _AHEAD:
                        yield waiting.popleft()
        except hide_frames():
            raise
        while waiting:
            yield waiting.popleft()

    def __len__(self) -> int:
        return len(self._dataset)

    def _put(self, element: Any, number: int) -> Any:
        check_numbers(element, "to_jax()")
        if self._sharding is None:
            return self._jax.device_put(element)
        try:
            return self._jax.device_put(element, self._sharding)
        except ValueError as error:
            raise UsageError(
                f"to_jax(sharding=...): element {number:,} does not fit it: {error}\n"
                "  A last batch that is shorter is left out by batch(..., drop_remainder=True)."
            ) from error


def check_numbers(element: Any, what: str) -> None:
    """UsageError for what is no array of numbers: JAX has nothing else."""
    leaves, structure = flatten(element)
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, Ragged):
            raise UsageError(
                f"{what}: {structure.paths()[number]} is Ragged, and JAX has no such arrays.\n"
                "  Fill its rows up, with padded_batch(...) instead of batch(...), or with map(...) and "
                "Ragged.to_dense()."
            )
        if not isinstance(leaf, ARRAYS) or leaf.dtype == STRING:
            kind = "strings" if isinstance(leaf, (bytes, *ARRAYS)) else type(leaf).__name__
            raise UsageError(
                f"{what}: {structure.paths()[number]} is {kind}, and JAX has arrays of numbers only.\n"
                "  Leave it out, or make numbers of it, with map(...)."
            )
