"""Settings for the whole suite."""

import os

import hypothesis

# TensorFlow tells of its CPU features on every import; only its errors are of interest here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# No deadline: a shared machine stalls now and then. On CI the same examples each time, so that a red run is
# about the change; at a desk new ones, so that they go on finding things.
hypothesis.settings.register_profile("desk", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")
