"""Workers where people work: scripts and packages, a REPL, pytest in several processes, beside TensorFlow."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import textwrap
import time

import pytest

from tests.processes import run_python


def run_script(path, *arguments, **how):
    return subprocess.run(
        [sys.executable, *arguments, str(path)], capture_output=True, text=True, **({"timeout": 200} | how)
    )


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


# Nothing in it waits for `if __name__ == "__main__"`.
KINDS = """
import functools
import numpy as np
import feedline as fl

SCALE = 2

def double(x):
    return SCALE * x

def plus(n):
    table = np.arange(100) + n
    def add(x):
        return table[x]
    return add

class Scaler:
    def __init__(self, by):
        self.by = by
    def __call__(self, x):
        return double(x) * self.by
    def method(self, x):
        return self.by + x

def squared(function):
    @functools.wraps(function)
    def call(x):
        return function(x) ** 2
    return call

@squared
def wrapped(x):
    return x

def parts(first, shard):
    yield from range(first + shard.index, first + 6, shard.count)

kinds = {
    "function": double,
    "lambda": lambda x: x + SCALE,
    "closure": plus(10),
    "object": Scaler(5),
    "method": Scaler(7).method,
    "partial": functools.partial(pow, 2),
    "wrapped": wrapped,
    "numpy": np.negative,
}
for name, function in kinds.items():
    here, there = (list(map(int, fl.Dataset.range(6).map(function, calls))) for calls in (None, 2))
    print(name, here == there, there[-1])
print("generator", *map(int, fl.Dataset.from_generator(parts, (10,), workers=2)))
print("captured", *map(int, fl.Dataset.from_generator(lambda shard: [len(kinds), shard.index], workers=2)))
"""
ALL_KINDS = """\
function True 10
lambda True 7
closure True 15
object True 50
method True 12
partial True 32
wrapped True 25
numpy True -5
generator 10 11 12 13 14 15
captured 8 8 0 1
"""


def test_a_script_without_a_main_guard_may_use_all_kinds_of_functions(tmp_path):
    done = run_script(written(tmp_path / "train.py", KINDS), cwd="/")
    assert (done.stdout, done.stderr) == (ALL_KINDS, "")


def test_a_program_that_is_a_package(tmp_path):
    written(tmp_path / "project/__init__.py", "")
    written(tmp_path / "project/scaling.py", "BY = 3\ndef scaled(x):\n    return x * BY\n")
    written(
        tmp_path / "project/train.py",
        """
        import feedline as fl
        from .scaling import scaled
        from . import scaling

        def both(x):
            return scaled(x) + scaling.BY

        print([int(x) for x in fl.Dataset.range(4).map(scaled, 2)])
        print([int(x) for x in fl.Dataset.range(4).map(both, 2)])
        """,
    )
    done = subprocess.run(
        [sys.executable, "-m", "project.train"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[0, 3, 6, 9]\n[3, 6, 9, 12]\n", "")


def test_a_module_that_is_found_because_the_script_says_where(tmp_path):
    written(tmp_path / "lib/augment.py", "def double(x):\n    return 2 * x\n")
    script = written(
        tmp_path / "train.py",
        """
        import sys
        from pathlib import Path
        sys.path.append(str(Path(__file__).parent / "lib"))
        import augment
        import feedline as fl
        print([int(x) for x in fl.Dataset.range(4).map(augment.double, 2)])
        """,
    )
    done = run_script(script, cwd="/")
    assert (done.stdout, done.stderr) == ("[0, 2, 4, 6]\n", "")


TYPED = [
    "import feedline as fl",
    "by = 3",
    "def scaled(x):",
    "    return x * by",
    "",
    "list(map(int, fl.Dataset.range(5).map(scaled, 2)))",
    "by = 4",
    "list(map(int, fl.Dataset.range(5).map(lambda x: by + scaled(x), 2)))",
    "def parts(shard):",
    "    yield from range(shard.index, 5, shard.count)",
    "",
    "list(map(int, fl.Dataset.from_generator(parts, workers=2)))",
]


def test_lines_typed_at_a_prompt():
    here, there = pty.openpty()
    prompts = os.environ | {"TERM": "dumb", "PYTHON_BASIC_REPL": "1"}
    with subprocess.Popen(
        [sys.executable, "-i", "-q"], stdin=there, stdout=there, stderr=there, env=prompts
    ) as repl:
        os.close(there)
        shown = read_until(here, ">>> ")
        try:
            for line in TYPED:
                os.write(here, line.encode() + b"\n")
                shown += read_until(here, ">>> ", "... ")
            os.write(here, b"exit()\n")
            assert repl.wait(200) == 0
        finally:
            repl.kill()
            os.close(here)
    answers = [line for line in shown.splitlines() if line.startswith("[")]
    assert answers == ["[0, 3, 6, 9, 12]", "[4, 8, 12, 16, 20]", "[0, 1, 2, 3, 4]"], shown


def read_until(terminal, *prompts):
    text, until = "", time.monotonic() + 200
    while not text.endswith(prompts):
        if not select.select([terminal], [], [], max(0, until - time.monotonic()))[0]:
            raise TimeoutError(text)
        text += os.read(terminal, 4096).decode()
    return text


TESTS = """
import os
import pytest
import feedline as fl

@pytest.mark.parametrize("by", range(4))
def test_map(by):
    found = [(int(x), int(pid)) for x, pid in fl.Dataset.range(20).map(lambda x: (x * by, os.getpid()), 2)]
    assert [x for x, _ in found] == [by * x for x in range(20)]
    assert os.getpid() not in {pid for _, pid in found}

def numbers(shard):
    yield from range(shard.index, 10, shard.count)

def test_generator():
    assert [int(x) for x in fl.Dataset.from_generator(numbers, workers=2)] == list(range(10))
"""


def test_under_pytest_in_several_processes(tmp_path):
    pytest.importorskip("xdist")
    written(tmp_path / "test_mine.py", TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


AFTER_TENSORFLOW = """
import tensorflow as tf
numbers = tf.data.Dataset.range(100).map(lambda x: x + 1, num_parallel_calls=2)
total = numbers.reduce(tf.constant(0, tf.int64), tf.add)
product = tf.linalg.matmul(tf.ones((500, 500)), tf.ones((500, 500)))
import feedline as fl
print(int(total), float(product[0, 0]), sum(int(x) for x in fl.Dataset.range(100).map(lambda x: x + 1, 2)))
print(float(tf.reduce_sum(tf.ones(10))))  # it still runs
"""


def test_beside_a_tensorflow_that_has_run():
    pytest.importorskip("tensorflow")
    done = run_python(AFTER_TENSORFLOW, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"})
    assert done.stdout == "5050 500.0 5050\n10.0\n", done.stderr
