"""A plain NumPy function on all cores, before the batches are made (recipe 001.2)."""

import keras
import numpy as np

import feedline as fl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
labels = rng.integers(0, 2, 400)
images = rng.normal(size=(400, 16, 16, 1)).astype("float32")
images[labels == 1, 4:12, 4:12] += 2  # a bright square in the middle


def augment(image, label):
    """No tracing: this is called with arrays, in several processes; fl.rng() draws the same in each."""
    if fl.rng().random() < 0.5:
        image = image[:, ::-1]
    down, right = fl.rng().integers(0, 5, 2)
    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)))
    return padded[down : down + 16, right : right + 16], label


train = (
    fl.Dataset.from_tensor_slices((images, labels))
    .shuffle(seed=1)
    .map(augment, num_parallel_calls=fl.AUTOTUNE)
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
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train.to_keras(), epochs=8, verbose=0)

print(f"training accuracy: {history.history['accuracy'][-1]:.2f}")
