"""The examples that train a model, on each backend of Keras."""

import re
from importlib.util import find_spec

import pytest

from tests.adapt.fresh import ROOT, run

ALL = sorted((ROOT / "examples").glob("*.py"))
EXAMPLES = [path for path in ALL if "keras" in path.read_text()]

# What an example prints besides.
SHOWN = {
    "npz_files": "interleave(load, ",
    "parallel_generator": "100.7 MB",  # of an epoch, from the workers
    "structured_elements": "{'tokens': ArraySpec((None, 16), int64), 'length': ArraySpec((None,), int64)}",
}

# One after another in one process, each as the main program: the frameworks take longer to import than the
# examples to run.
RUN_ALL = """
import runpy, sys
for path in sys.argv[1:]:
    print("#", path)
    runpy.run_path(path, run_name="__main__")
"""


def accuracies(printed):
    return [float(number) for number in re.findall(r"accuracy: (\S+)", printed)]


@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_every_example_trains_a_model_that_has_learned(backend):
    check_installed(backend)
    printed = run("-c", RUN_ALL, *EXAMPLES, KERAS_BACKEND=backend)
    assert len(accuracies(printed)) == len(EXAMPLES)
    assert min(accuracies(printed)) > 0.8, printed
    parts = printed.split("# ")[1:]
    for path, part in zip(EXAMPLES, parts, strict=True):
        assert SHOWN.get(path.stem, "") in part


def test_an_example_is_a_script_that_runs_by_itself():
    check_installed("jax")  # the quickest to import
    (accuracy,) = accuracies(run(ROOT / "examples/parallel_generator.py", KERAS_BACKEND="jax"))
    assert accuracy > 0.8


def check_installed(backend):
    for name in ("keras", backend, "tensorflow"):  # serialized_tensors.py writes its file with TensorFlow
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_the_example_is_under_60_lines(path):
    assert len(path.read_text().splitlines()) < 60
