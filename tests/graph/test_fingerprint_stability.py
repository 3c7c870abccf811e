"""The same pipeline has the same fingerprint wherever it is written down, and in whichever process it is."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import nbformat
import pytest
from nbclient import NotebookClient

HELPERS = '''
import numpy as np

FACTOR = 3
UNUSED = 1


def helper(x):
    """The helper."""
    return deeper(x) * FACTOR


def deeper(x):
    return np.sqrt(x)
'''

PIPELINE = '''
import collections
import dataclasses
import enum
import functools
import logging
import re
import typing
from collections import Counter

import numpy as np

import feedline as fl
import helpers
from helpers import helper as renamed

log = logging.getLogger(__name__)
NAMES = {"a", "b", "c", "d"}
TABLE = {"one": 1, "two": [1, 2, {"x": NAMES}]}
WEIGHTS = np.arange(1000.0)
PATTERN = re.compile("a+", re.I)
Point = collections.namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1
    BLUE = {"x": 2}

    def darker(self):
        return self.value


@dataclasses.dataclass
class Options:
    scale: float = 2.0
    names: list = dataclasses.field(default_factory=lambda: ["x"])


class Base:
    """A base."""

    kept = [1, 2]

    def __init__(self, k):
        self.k = k

    @property
    def doubled(self):
        return self.k * 2

    @staticmethod
    def static(x):
        return x

class Scaler(Base):
    def __call__(self, x):
        return x * self.doubled + super().static(x)


class Slotted:
    __slots__ = ("b", "a")

    def __init__(self):
        self.a, self.b = 1, NAMES

    def go(self, x):
        return x in {"p", "q", "r"} or x


class Pair(typing.NamedTuple):
    x: int
    y: int = 2


@functools.lru_cache(maxsize=None)
def cached(x):
    return x + 1


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@decorated
def even(x):
    return x if x == 0 else odd(x - 1)


def odd(x):
    return x if x == 0 else even(x - 1)


HANDLERS = {odd, cached, Scaler, lambda x: x + 1, lambda x: x + 2, lambda x: x + 3, lambda x: x + 4}


def augment(x, k=Pair(1), *, option=Color.RED):
    """What it does."""
    import json
    import helpers as again

    log.info("called %s", __name__)

    class Inner:
        """Inside."""

        def go(self):
            return again.FACTOR

    def nested(y):
        return [renamed(z) + WEIGHTS[0] for z in y]

    try:
        return nested(x) + helpers.helper(x) + TABLE["one"] + cached(x) + even(x) + json.dumps(Counter(x))
    except (ValueError, KeyError):
        return len(HANDLERS), Point(1, 2), Options(), PATTERN.sub("", x), Color.BLUE, Inner().go()


ds = (
    fl.Dataset.range(10)
    .map(augment)
    .map(Scaler(4))
    .map(functools.partial(augment, option=Color.BLUE))
    .map(Slotted().go)
    .map(np.abs)
    .filter(lambda x: x in {1, 2, 3})
    .batch(2)
)
'''
SHOW = "\nimport json\nprint(json.dumps([ds.fingerprint(), ds.fingerprint().parts]))\n"

PARTS = [*PIPELINE.split("\n\n\n"), SHOW]  # as they are typed in, one after another
TYPE_IN = f"""
import code
shell = code.InteractiveConsole()
for part in {PARTS!r}:
    shell.runsource(part, "<stdin>", "exec")
"""


def place(directory, pipeline=PIPELINE, helpers=HELPERS):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "helpers.py").write_text(helpers)
    (directory / "pipeline.py").write_text(pipeline)
    (directory / "script.py").write_text(pipeline + SHOW)
    return directory


def run(directory, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(directory)} | environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """What the script prints, and where it is."""
    directory = place(tmp_path_factory.mktemp("here") / "project")
    return directory, run(directory, "script.py")


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_the_hash_seed_does_not_count(script, seed):
    directory, printed = script
    assert run(directory, "script.py", PYTHONHASHSEED=seed) == printed


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["-c", PIPELINE + SHOW], id="python -c"),
        pytest.param(["-c", "from pipeline import ds" + SHOW], id="imported"),
        pytest.param(["-m", "script"], id="python -m"),
        pytest.param(["-c", TYPE_IN], id="REPL"),
        pytest.param(["-c", f"exec({PIPELINE + SHOW!r})"], id="exec"),
        pytest.param(
            ["-c", f"import pipeline, importlib; importlib.reload(pipeline); ds = pipeline.ds{SHOW}"]
        ),
    ],
)
def test_where_functions_are_defined_does_not_count(script, arguments):
    directory, printed = script
    assert run(directory, *arguments) == printed


def test_inside_of_a_function_of_pytest_it_is_the_same(script, monkeypatch):
    directory, printed = script
    monkeypatch.syspath_prepend(directory)
    monkeypatch.delitem(sys.modules, "helpers", raising=False)
    space = {"__name__": __name__}
    exec(compile(PIPELINE, __file__, "exec", dont_inherit=True), space)
    assert str(space["ds"].fingerprint()) in printed
    monkeypatch.delitem(sys.modules, "helpers")


def test_the_directory_does_not_count(script, tmp_path):
    _, printed = script
    assert run(place(tmp_path / "another" / "checkout"), "script.py") == printed


def test_in_a_notebook_it_is_the_same(script):
    directory, printed = script
    cells = [f"import sys\nsys.path.insert(0, {str(directory)!r})", *PARTS]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
    shown = "".join(part["text"] for part in notebook.cells[-1].outputs)
    assert shown == printed


def test_comments_blank_lines_and_docstrings_do_not_count(script, tmp_path):
    _, printed = script
    other = PIPELINE.replace('    """What it does."""\n', "\n    # Another remark\n\n")
    other = other.replace('        """Inside."""\n\n', "").replace('    """A base."""\n', "")
    other = other.replace("    return x in", '    """New."""\n        return x in')
    other = "# at the top\n\n\n\n" + other.replace("def odd(x):\n", "def odd(\n    x,\n):\n    # odd\n")
    assert other.count('"""') == 2
    helpers = HELPERS.replace('    """The helper."""\n', "")
    assert run(place(tmp_path / "project", other, helpers), "script.py") == printed


@pytest.mark.parametrize("how", ["by value", "by reference"])
def test_after_unpickling_in_another_process_it_is_the_same(script, how, tmp_path):
    directory, printed = script
    begin = PIPELINE if how == "by value" else "from pipeline import ds"
    file = str(tmp_path / "pickled")
    save = f"from feedline.run.pickling import dumps\nopen({file!r}, 'wb').write(dumps(ds))"
    run(directory, "-c", f"{begin}\n{save}")
    load = f"import pickle\nds = pickle.load(open({file!r}, 'rb'))"
    assert run(directory, "-c", load + SHOW) == printed


def test_in_a_worker_it_is_the_same(script):
    """There, __main__ is a module of feedline."""
    directory, printed = script
    ask = textwrap.dedent("""
        shown = fl.Dataset.range(1).map(lambda _: str(ds.fingerprint()), num_parallel_calls=2)
        print(next(iter(shown)).decode())
    """)
    assert run(directory, "-c", PIPELINE + ask).strip() in printed


def test_to_ask_twice_gives_the_same(script):
    directory, printed = script
    assert run(directory, "-c", PIPELINE + "\nds.fingerprint()" + SHOW) == printed


def test_to_have_called_the_functions_does_not_count(script):
    directory, printed = script
    call = """
        list(fl.Dataset.range(3).map(Scaler(4)))
        cached(1), Options(), even(2)
        import copy
        copy.copy(Slotted())
    """
    assert run(directory, "-c", PIPELINE + textwrap.dedent(call) + SHOW) == printed


def test_nothing_of_it_is_refused(script):
    directory, _ = script
    run(directory, "-c", PIPELINE + "\nds.fingerprint().check()")
