"""The examples that train a model, on each backend of Keras."""

import re

import pytest

from tests.adapt.fresh import ROOT, run

EXAMPLES = ["prefetch_into_fit.py", "parallel_augmentation.py"]


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_trains_a_model_that_has_learned(name, backend):
    pytest.importorskip("keras", reason="Keras is not installed")
    pytest.importorskip(backend, reason="this backend is not installed")
    printed = run(ROOT / "examples" / name, KERAS_BACKEND=backend)
    assert float(re.search(r"accuracy: (\S+)", printed)[1]) > 0.8


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_is_under_60_lines(name):
    assert len((ROOT / "examples" / name).read_text().splitlines()) < 60
