"""A program that ends in the middle of a training ends, though TensorFlow's threads ask for more."""

from __future__ import annotations

import pytest

from tests.processes import run_python

PROGRAM = """
import os, signal, sys, time
import keras
import numpy as np
import feedline as fl

def slow(x):
    time.sleep(0.005)  # so that there is always a thread that waits for an element
    return np.ones(1) * x, np.ones(1)

class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 20:
            ends[sys.argv[1]]()

ends = {
    "sys.exit": lambda: sys.exit(3),
    "an error": lambda: 1 / 0,
    "Ctrl-C": lambda: os.kill(os.getpid(), signal.SIGINT),
}
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(fl.Dataset.range(100_000).map(slow).batch(2).to_keras(), verbose=0, callbacks=[Ends()])
"""


@pytest.mark.parametrize(("how", "code"), [("sys.exit", 3), ("an error", 1), ("Ctrl-C", -2)])
def test_a_training_that_is_ended_by(how, code):
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    pytest.importorskip("keras", reason="Keras is not installed")
    ended = run_python(PROGRAM, how, timeout=200)
    assert ended.returncode == code, ended.stderr
