"""Tensors that TensorFlow serialized into a TFRecord file, read without it (recipe 004.3)."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf  # only to write the file

import feedline as fl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
directory = tempfile.TemporaryDirectory()
path = str(Path(directory.name, "sounds.tfrecord"))
with tf.io.TFRecordWriter(path) as file:
    for label in rng.integers(0, 2, 400):
        sound = rng.normal(label, 1, (rng.integers(10, 21), 8)).astype("float32")  # 10 to 20 steps
        tensor = tf.io.serialize_tensor(sound).numpy()
        file.write(fl.example.encode({"sound": tensor, "label": label}))

features = {"sound": fl.TensorFeature([None, 8], "float32"), "label": fl.FixedLenFeature([], "int64")}
train = (
    fl.Dataset.from_tfrecords(path, features)
    .map(lambda record: (record["sound"], record["label"]))
    .shuffle(400, seed=1)
    .padded_batch(40, ((20, 8), ()))
    .prefetch(fl.AUTOTUNE)
)

model = keras.Sequential(
    [keras.Input((20, 8)), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(2, "softmax")]
)
model.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train.to_keras(), epochs=5, verbose=0)

print(f"training accuracy: {history.history['accuracy'][-1]:.2f}")
