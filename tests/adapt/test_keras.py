"""to_keras and ResumeCallback: tests/adapt/on_each_backend.py, in an interpreter for each backend."""

import sys

import pytest

import feedline as fl
from tests.adapt.fresh import run

# In parts, each within the time limit of a test.
PARTS = {
    "fit": "not (resumed or again or killed)",
    "resume": "(resumed or again) and not killed",
    "kill": "killed",
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_keras_on(backend, part):
    pytest.importorskip("keras", reason="Keras is not installed")
    pytest.importorskip(backend, reason=f"{backend} is not installed")
    run(
        *("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", PARTS[part]),
        "tests/adapt/on_each_backend.py",
        KERAS_BACKEND=backend,
    )


@pytest.mark.parametrize("name", ["keras", "tensorflow", "torch", "jax"])
def test_a_missing_framework_is_named_with_the_command_that_installs_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)  # Python's own way to say: not to be had
    ask = {"keras": "to_keras", "tensorflow": "to_tf", "torch": "to_torch", "jax": "to_jax"}[name]
    with pytest.raises(fl.MissingDependency) as caught:
        list(getattr(fl.Dataset.range(3), ask)())
    extra = {"tensorflow": "tf"}.get(name, name)
    assert str(caught.value) == (
        f"{ask}(): {name} is not installed.\n  To install it:  pip install 'feedline[{extra}]'"
        + (", and TensorFlow, JAX or torch for it to run on" if name == "keras" else "")
    )
    assert caught.value.name == name


def test_feedline_keras_needs_keras_only_when_it_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(fl.MissingDependency, match=r"ResumeCallback: keras is not installed"):
        _ = fl.keras.ResumeCallback
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = fl.keras.Nothing


@pytest.mark.parametrize("save_freq", [0, "epoch", None])
def test_what_is_no_number_of_batches_is_refused(save_freq, tmp_path):
    pytest.importorskip("keras", reason="Keras is not installed")
    with pytest.raises(fl.UsageError, match="give a number of batches, 1 at least"):
        fl.keras.ResumeCallback(tmp_path, fl.Dataset.range(3), save_freq=save_freq)
