"""What a user sees on stderr: their own frames, the step and the element, and no frame of feedline's."""

import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import traceback
import weakref
from pathlib import Path

import pytest

import feedline as fl
from feedline import testing, tracebacks
from tests.processes import is_there, workers_of

PACKAGE = Path(fl.__file__).parent

PROGRAM = """
import signal, sys, time
signal.alarm(120)  # whatever happens, it ends
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if the tests run in the background
import numpy as np
import feedline as fl

numbers = fl.Dataset.range(100)

def fails(*element):
    raise KeyError("no such key")

def fails_at_2():
    yield from (0, 1)
    raise KeyError("no such key")

def grows(x):
    return np.zeros(int(x))

def sleeps(x):
    print("at work", flush=True)
    time.sleep(60)
    return x

def main():
    {statement}

main()
"""


def start(statement, directory, **environment):
    program = directory / "program.py"
    program.write_text(PROGRAM.replace("{statement}", statement))
    return subprocess.Popen(
        [sys.executable, str(program), str(directory)],
        env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "FEEDLINE_DEBUG": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def stderr_of(statement, directory, **environment):
    _, printed = start(statement, directory, **environment).communicate(timeout=120)
    return printed


def frames(printed):
    """The file and the function of each frame that was printed."""
    return [
        (Path(file), name) for file, name in re.findall(r'^ *File "(.+)", line \d+, in (.+)$', printed, re.M)
    ]


def functions(printed):
    return [name for _, name in frames(printed)]


def of_feedline(printed):
    return [(file, name) for file, name in frames(printed) if file.is_relative_to(PACKAGE)]


ITERATED = {
    "map": ("list(numbers.map(fails))", "map"),
    "map and batch": ("list(numbers.map(fails).batch(4))", "map"),
    "for": ("for _ in numbers.map(fails): pass", "map"),
    "next": ("next(iter(numbers.map(fails)))", "map"),
    "workers": ("list(numbers.map(fails, num_parallel_calls=2).batch(4))", "map"),
    "threads": ("list(numbers.map(fails, num_parallel_calls=2, executor='thread').batch(4))", "map"),
    "prefetch": ("list(numbers.map(fails).prefetch(2))", "map"),
    "filter": ("list(numbers.filter(fails))", "filter"),
    "interleave": ("list(numbers.interleave(fails))", "interleave"),
    "scan": ("list(numbers.scan(np.int64(0), fails))", "scan"),
    "group_by_window": ("list(numbers.group_by_window(fails, lambda key, rows: rows, 2))", "group_by_window"),
    "cache": ("list(numbers.map(fails).cache())", "map"),
    "shared cache": ("list(numbers.map(fails).cache(sys.argv[1] + '/cache'))", "map"),
    "take": ("list(numbers.map(fails).take(1))", "map"),
    "index": ("numbers.map(fails)[0]", "map"),
    "reduce": ("numbers.reduce(np.int64(0), fails)", "reduce"),
    "get_single_element": ("numbers.map(fails).get_single_element()", "map"),
    "element_spec": ("numbers.map(fails).element_spec", "map"),
    "save_tfrecords": ("numbers.map(fails).save_tfrecords(sys.argv[1] + '/set')", "map"),
}


@pytest.mark.parametrize("case", ITERATED)
def test_an_error_of_a_function_shows_the_call_the_function_the_step_and_the_element(case, tmp_path):
    statement, step = ITERATED[case]
    printed = stderr_of(statement, tmp_path)
    assert functions(printed) == ["<module>", "main", "fails"], printed
    assert {file for file, _ in frames(printed)} == {tmp_path / "program.py"}
    assert len(printed.splitlines()) <= 12, printed
    assert "KeyError: 'no such key'\n" in printed
    assert f"in {step}, added at {tmp_path / 'program.py'}:" in printed
    assert "at element 0 of" in printed


def test_an_error_of_a_generator_shows_the_generator(tmp_path):
    printed = stderr_of("list(fl.Dataset.from_generator(fails_at_2))", tmp_path)
    assert functions(printed) == ["<module>", "main", "fails_at_2"], printed
    assert "at element 2 of the generator" in printed


@pytest.mark.parametrize("adapter", ["to_jax", "to_torch"])
def test_an_error_shows_no_frame_of_an_adapter(adapter, tmp_path):
    pytest.importorskip(adapter.removeprefix("to_"))
    printed = stderr_of(f"list(numbers.map(fails).{adapter}())", tmp_path)
    assert functions(printed) == ["<module>", "main", "fails"], printed


def test_an_error_shows_no_frame_of_the_adapter_to_tensorflow(tmp_path):
    pytest.importorskip("tensorflow")
    printed = stderr_of(
        "list(fl.Dataset.from_generator(fails_at_2, output_signature=numbers.element_spec).to_tf())",
        tmp_path,
    )
    assert not of_feedline(printed), printed
    assert "fails_at_2" in functions(printed)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_an_error_in_the_middle_of_fit_shows_no_frame_of_feedline(backend, tmp_path):
    pytest.importorskip("keras")
    pytest.importorskip(backend)
    train = """
    import keras
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    def pairs():
        yield np.zeros((4, 1), np.float32), np.zeros((4, 1), np.float32)
        yield from fails_at_2()
    model.fit(fl.Dataset.from_generator(pairs).to_keras(), verbose=0)
    """
    printed = stderr_of(train, tmp_path, KERAS_BACKEND=backend)
    assert not of_feedline(printed), printed
    assert "added at" in printed


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("numbers.batch(-1)", "batch_size=-1"),
        ("numbers.map(fails, num_parallel_calls='many')", "num_parallel_calls='many'"),
        ("fl.Dataset.from_tfrecords(sys.argv[1] + '/*.tfrecord')", "no file matches"),
        ("list(numbers.map(grows).batch(4))", "must have equal shapes"),
        ("list(numbers.map(lambda x: (sys._getframe(), x)[1] if x else None))", "return"),
        ("iter(numbers).load_state_dict({})", "not what state_dict()"),
    ],
    ids=["construction", "parallel calls", "files", "shapes", "none", "state"],
)
def test_a_usage_error_shows_only_the_call(statement, message, tmp_path):
    printed = stderr_of(statement, tmp_path)
    assert functions(printed) == ["<module>", "main"], printed
    assert "UsageError" in printed or "WrongKind" in printed
    assert message in printed


@pytest.mark.parametrize("statement", ["len(numbers.filter(fails))", "numbers[100]"])
def test_a_builtin_error_that_feedline_raises_shows_the_line_that_raised_it(statement, tmp_path):
    printed = stderr_of(statement, tmp_path)
    assert len(frames(printed)) == 3
    assert len(of_feedline(printed)) == 1, printed


def test_a_cause_that_the_message_repeats_is_not_printed_but_stays_at_hand(tmp_path):
    printed = stderr_of(
        "lock = __import__('threading').Lock(); list(numbers.map(lambda x: (lock, x)[1], 2))", tmp_path
    )
    assert "cannot be sent to a worker: TypeError: cannot pickle" in printed
    assert printed.count("Traceback") == 1, printed
    files = fl.Dataset.range(3).map(lambda x: {"x": x})
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(fl.WriteError) as caught:
        files.save_tfrecords(tmp_path / "taken" / "set")
    assert caught.value.__cause__ is None
    assert isinstance(caught.value.__context__, OSError)


def test_a_cause_in_the_users_function_is_printed(tmp_path):
    stops = "def stops(x): next(iter([]))\n    list(numbers.filter(stops))"
    printed = stderr_of(stops, tmp_path)
    assert functions(printed) == ["stops", "<module>", "main"], printed


@pytest.mark.parametrize("case", ["map", "workers"])
def test_debugging_shows_every_frame(case, tmp_path):
    statement, _ = ITERATED[case]
    in_workers = case == "workers"
    for printed in (
        stderr_of(statement, tmp_path, FEEDLINE_DEBUG="1"),
        stderr_of(f"fl.debug(); {statement}", tmp_path),
    ):
        assert len(of_feedline(printed)) > 5, printed
        told = printed.partition("in a worker:")[2 if in_workers else 0]
        assert of_feedline(told), printed
    hidden = stderr_of(f"fl.debug(False); {statement}", tmp_path, FEEDLINE_DEBUG="1")
    assert not of_feedline(hidden), hidden


# Ctrl-C goes to every process of the terminal's foreground group.
@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("list(numbers.map(sleeps))", ["<module>", "main", "sleeps"]),
        ("numbers.map(sleeps)[0]", ["<module>", "main", "sleeps"]),
        ("list(numbers.map(sleeps, num_parallel_calls=2))", ["<module>", "main"]),
        ("next(iter(numbers.map(sleeps, num_parallel_calls=2).batch(4)))", ["<module>", "main"]),
    ],
    ids=["here", "index", "workers", "workers and batch"],
)
def test_ctrl_c_shows_the_users_lines_and_workers_print_nothing(statement, shown, tmp_path):
    process = start(statement, tmp_path)
    assert process.stdout.readline() == "at work\n"
    workers = workers_of(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, printed = process.communicate(timeout=120)
    assert functions(printed) == shown, printed
    assert {file for file, _ in frames(printed)} == {tmp_path / "program.py"}
    assert printed.startswith("Traceback")
    assert printed.endswith("KeyboardInterrupt\n")
    assert len(printed.splitlines()) == 2 + 2 * len(shown) + printed.count("^\n"), printed
    until = time.monotonic() + 60
    while any(map(is_there, workers)):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_function_of_feedline_testing_counts_as_the_users():
    def names(error):
        return [entry.name for entry in traceback.extract_tb(error.__traceback__)]

    with pytest.raises(Exception) as caught:  # noqa: PT011
        testing.check_laws(lambda ds: ds.map(lambda x: {}[int(x)]), fl.Dataset.range(5))
    assert "check_laws" in names(caught.value)
    assert not tracebacks.is_ours(sys._getframe())


def test_a_kept_error_keeps_no_frame_of_feedline():
    class Kept:
        pass

    kept = Kept()
    alive = weakref.ref(kept)

    def fails(x, kept=kept):
        raise KeyError(int(x))

    dataset = fl.Dataset.range(5).map(fails)
    del kept, fails
    with pytest.raises(KeyError) as caught:
        list(dataset)
    error = caught.value
    trace = error.__traceback__
    while trace is not None:
        assert not tracebacks.is_ours(trace.tb_frame)
        trace = trace.tb_next
    del caught, dataset
    error.__traceback__ = None
    gc.collect()
    assert alive() is None


def test_methods_keep_their_names_and_documentation_and_can_be_pickled():
    assert fl.Dataset.map.__qualname__ == "Dataset.map"
    assert "NumPy" in fl.Dataset.map.__doc__
    assert fl.Dataset.element_spec.__doc__.startswith("The structure")
    assert pickle.loads(pickle.dumps(fl.Dataset.range)) is fl.Dataset.range
