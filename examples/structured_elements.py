"""Nested elements whose shapes change, from several processes, into padded batches (recipe 004.3)."""

import keras
import numpy as np
from keras import layers

import feedline as fl

keras.utils.set_random_seed(0)


def captioned(shard):
    """Images of any size with captions of any length; labels tell dark ones, and those with a 9.

    There is nothing to serialize: any tree of arrays arrives as it was yielded.
    """
    for number in range(shard.index, 480, shard.count):
        rng = np.random.default_rng(number)
        dark, nine = rng.integers(0, 2, 2)
        height, width, words = rng.integers(8, 17, 3)
        image = rng.uniform(0, 0.5 if dark else 1, (height, width, 1)).astype("float32")
        tokens = rng.permutation([9 if nine else 1, *rng.integers(1, 9, words - 1)])
        yield {"image": image, "caption": {"tokens": tokens, "length": words}}, dark + 2 * nine


# Zeros fill up. None for a dimension is the longest of the batch; but JAX compiles a model for each shape.
shapes = {"image": (16, 16, 1), "caption": {"tokens": (16,), "length": ()}}, ()
train = fl.Dataset.from_generator(captioned, workers=2).padded_batch(32, shapes).prefetch(fl.AUTOTUNE)
print(train.element_spec)

image = keras.Input((16, 16, 1), name="image")
tokens, length = keras.Input((16,), name="tokens"), keras.Input((), name="length")
seen = layers.GlobalMaxPooling2D()(image)
read = layers.GlobalMaxPooling1D()(layers.Embedding(10, 4)(tokens))
both = layers.Concatenate()([seen, read, layers.Reshape((1,))(length / 16)])
answer = layers.Dense(4, "softmax")(layers.Dense(16, "relu")(both))
model = keras.Model({"image": image, "caption": {"tokens": tokens, "length": length}}, answer)
model.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train.to_keras(), epochs=4, verbose=0)

print(f"training accuracy: {history.history['accuracy'][-1]:.2f}")
