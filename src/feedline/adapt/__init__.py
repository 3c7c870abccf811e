"""To the frameworks: one file each. A framework is imported when its adapter is asked for, and not before.

tf, keras, torch, jax    what `Dataset.to_tf()` and its like give
asked_by_keras           the advice to use `to_keras()`, for a Dataset that is passed to Keras itself
resume, progress         `feedline.keras.ResumeCallback`, and what it knows of the data
environment              which shard is this process's
"""
