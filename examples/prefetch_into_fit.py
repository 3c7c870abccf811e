"""Arrays in memory into model.fit, the next batches made ready while the model trains (recipe 001.1)."""

import keras
import numpy as np

import feedline as fl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
data = rng.normal(size=(1000, 20)).astype("float32")
labels = (data.sum(axis=1) > 0).astype("int32")

dataset = fl.Dataset.from_tensor_slices((data, labels))
train = dataset.take(800).shuffle(seed=1).batch(32).prefetch(fl.AUTOTUNE)
validation = dataset.skip(800).batch(32)

model = keras.Sequential(
    [keras.Input((20,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(2, "softmax")]
)
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train.to_keras(), validation_data=validation.to_keras(), epochs=5, verbose=0)

print(f"validation accuracy: {history.history['val_accuracy'][-1]:.2f}")
