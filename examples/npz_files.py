"""Many npz files, several of them loaded at once in other processes (recipe 001.3)."""

import tempfile
from pathlib import Path

import keras
import numpy as np

import feedline as fl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
directory = tempfile.TemporaryDirectory()
for number in range(8):
    labels = rng.integers(0, 2, 100)
    images = rng.normal(size=(100, 16, 16, 1)).astype("float32")
    images[labels == 1, 4:12, 4:12] += 2  # a bright square in the middle
    np.savez_compressed(Path(directory.name, f"part-{number}.npz"), images=images, labels=labels)


def load(path):
    """Called with the path itself, as bytes: np.load works, and so does all else that reads files."""
    with np.load(path.decode()) as part:
        return fl.Dataset.from_tensor_slices((part["images"], part["labels"]))


train = (
    fl.Dataset.list_files(f"{directory.name}/*.npz", seed=1)  # in another order in each epoch
    .interleave(load, cycle_length=fl.AUTOTUNE, num_parallel_calls=fl.AUTOTUNE)
    .shuffle(400, seed=1)
    .batch(32)
    .prefetch(fl.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((16, 16, 1)),
        keras.layers.Conv2D(4, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(2, "softmax"),
    ]
)
model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train.to_keras(), epochs=3, verbose=0)

print(train.stats())
print(f"training accuracy: {history.history['accuracy'][-1]:.2f}")
