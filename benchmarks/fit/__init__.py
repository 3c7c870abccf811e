"""How long does a step of `model.fit` take on a tiny Keras model, fed from arrays in memory?

A rival defines `data(subject, **settings)`: what `fit` takes, in batches of BATCH, of `subject.x` and
`subject.y`, shuffled among all rows if `subject.shuffled`. It makes it once for all passes, as users do for
all epochs, and sets KERAS_BACKEND.

The model is one layer, and its step about the cheapest there is, so what feeds it shows. Records are rows: a
step is BATCH of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.workloads import Workload

FUNCTION = "data"
WORKLOADS = ("in_order", "shuffled")
FILES = 1
BASES = ("tf_data",)
BATCH, STEPS, FEATURES = 32, 1000, 64
RATES = {"in_order": (1e-7, 0.1), "shuffled": (1e-7,)}  # at which the answer is checked


@dataclass(frozen=True, eq=False)
class Subject:
    x: Any
    y: Any
    shuffled: bool


def load(name: str, files: int) -> Workload:
    rows = BATCH * STEPS
    return Workload(name, (), rows, rows * 4 * (FEATURES + 1), 0)


@cache
def arrays() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    rows = BATCH * STEPS
    return rng.normal(size=(rows, FEATURES)).astype("float32"), rng.integers(0, 10, rows, np.int32)


def prepare(workload: Workload) -> Subject:
    return Subject(*arrays(), workload.name == "shuffled")


@cache
def model() -> Any:
    import keras  # not before the rival has chosen the backend

    made = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(10)])
    made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


def learned(rate: float, *data: Any, **options: Any) -> Any:
    """The weights after one epoch, which began at 0."""
    model().set_weights([np.zeros(weights.shape, "float32") for weights in model().get_weights()])
    model().optimizer.learning_rate = rate
    model().fit(*data, verbose=0, **options)
    return np.concatenate([weights.ravel() for weights in model().get_weights()])


def check(answer: Any, workload: Workload) -> None:
    """What the model learns must be what it learns from the arrays themselves.

    At a rate so low that no step matters to the next, it is the same in any order, and a single row that is
    missing, or that comes twice, or with the label of another, changes it by half a percent. At a high one it
    is another for every order.
    """
    for rate in RATES[workload.name]:
        wanted = learned(rate, *arrays(), batch_size=BATCH, shuffle=False)
        worst = np.abs(learned(rate, answer) - wanted).max() / np.abs(wanted).max()
        if worst > 5e-4:
            raise AssertionError(f"weights are {worst:.1e} away from what the arrays teach, at rate {rate}")


def consume(answer: Any, workload: Workload) -> None:
    model().fit(answer, verbose=0)
