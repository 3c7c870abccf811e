"""A generator in each of several processes, every one with its part of the work (recipes 004.1 and 004.2)."""

import keras
import numpy as np

import feedline as fl

keras.utils.set_random_seed(0)
BATCHES, SIZE = 16, (32, 128, 128, 3)  # 6.3 MB each


def stripes(shard):
    """Batches of striped images, and whether the stripes are upright.

    `shard` says which part is this process's; its process id could not. What is yielded is put into shared
    memory, once, and read where it lies: large batches cost little, and there is nothing to set up.
    """
    for number in range(shard.index, BATCHES, shard.count):
        rng = np.random.default_rng(number)
        upright = rng.integers(0, 2, SIZE[0])
        phases = rng.uniform(0, 6, SIZE[0])[:, None] + np.arange(SIZE[1])
        waves = np.sin(phases).astype("float32")[:, :, None, None]
        images = np.where(upright[:, None, None, None], waves.swapaxes(1, 2), waves)
        yield images + rng.normal(size=SIZE).astype("float32"), upright


train = fl.Dataset.from_generator(stripes, workers=2).prefetch(fl.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input(SIZE[1:]),
        keras.layers.Conv2D(4, 5, strides=4, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(2, "softmax"),
    ]
)
model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train.to_keras(), epochs=3, verbose=0)

print(train.stats())
print(f"training accuracy: {history.history['accuracy'][-1]:.2f}")
