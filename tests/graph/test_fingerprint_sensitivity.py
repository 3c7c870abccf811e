"""Each change that may reach the elements changes the fingerprint, and a line says which it was."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import operator
import os
import re
import sys
import textwrap
from os import environ

import numpy as np
import pytest

import feedline as fl
from feedline import Dataset
from tests.processes import run_python

PROGRAM = """
import contextlib
import functools
import numpy as np
import feedline as fl
import {conf} as conf
from {conf} import deepest

SCALE = 2.0
TABLE = {{"a": 1, "b": 2}}
LONG = {{"first": list(range(100)), "second": "x" * 200}}
WEIGHTS = np.arange(100.0)
OTHER = 1

def helper(x):
    return second(x) + 1

def second(x):
    return deepest(x)

class Base:
    attribute = 5

    def method(self, x):
        return x * 2

class Scaler(Base):
    def __init__(self):
        self.held = 3

    @property
    def doubled(self):
        return self.held * 2

    @functools.cached_property
    def once(self):
        return 7

    def __call__(self, x):
        return self.method(x)

@contextlib.contextmanager
def around():
    yield 8

def maker(factor):
    def made(x):
        return x * factor
    return made

@functools.singledispatch
def dispatched(x):
    return x

@dispatched.register
def _(x: int):
    return x + 9

def nested(x):
    def inner(y):
        return y * SCALE
    return inner(x)

def augment(x, amount=10, *, only=11):
    from {conf} import imported
    for name in TABLE:
        x = x + len(name)
    with around() as value:
        try:
            return helper(x) + conf.USED + conf.FULL + WEIGHTS.sum() + imported(x) + 12
        except ValueError:
            return value

vectorized = np.vectorize(lambda x: x + 13)

def all_of_it(x):
    return dispatched(x) + vectorized(x) + LONG["first"][0]

ds = (fl.Dataset.range(10).map(augment).map(nested).map(Scaler()).map(maker(14)).map(all_of_it)
      .filter(functools.partial(lambda k, x: x > k, 15)).batch(2))
"""

CONF = """
UNUSED = 1
USED = 20
FULL = 21

def deepest(x):
    return x * DEEP

DEEP = 22

def imported(x):
    return x + 23
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    count = 0

    def made(program=PROGRAM, conf=CONF):
        """The parts of the pipeline in this program, always under the same names."""
        nonlocal count
        count += 1
        (tmp_path / "fingerprint_conf.py").write_text(conf)
        (tmp_path / "fingerprint_main.py").write_text(program.format(conf="fingerprint_conf"))
        importlib.invalidate_caches()
        for name in ("fingerprint_main", "fingerprint_conf"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        found = importlib.import_module("fingerprint_main").ds.fingerprint()
        found.check()
        return found

    yield made
    for name in ("fingerprint_main", "fingerprint_conf"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("SCALE = 2.0", "SCALE = 3.0", "map(nested): global SCALE was 2.0, is 3.0"),
        ("+ 12", "+ 13", "map(augment): the code of augment changed"),
        ("amount=10", "amount=11", "map(augment): default amount was 10, is 11"),
        ("only=11", "only=12", "map(augment): default only was 11, is 12"),
        (
            '"a": 1, "b": 2',
            '"b": 2, "a": 1',
            "map(augment): global TABLE was {'a': 1, 'b': 2}, is {'b': 2, 'a': 1}",
        ),
        ("+ 1\n", "+ 2\n", "map(augment): the code of helper changed"),
        (
            "second(x):\n    return deepest(x)",
            "second(x):\n    return -deepest(x)",
            "map(augment): the code of second changed",
        ),
        ("attribute = 5", "attribute = 6", "map(Scaler): attribute of Base was 5, is 6"),
        ("return x * 2", "return x * 3", "map(Scaler): the code of Base.method changed"),
        ("return self.held * 2", "return self.held * 3", "map(Scaler): the code of Scaler.doubled changed"),
        ("return 7", "return 8", "map(Scaler): the code of Scaler.once changed"),
        (
            "self.held = 3",
            "self.held = 4",
            "map(Scaler): function was class Scaler(held=3), is class Scaler(held=4)",
        ),
        ("yield 8", "yield 9", "map(augment): the code of around #2 changed"),
        ("x + 9", "x + 10", "map(all_of_it): the code of _ changed"),
        ("x + 13", "x + 14", "map(all_of_it): the code of lambda changed"),
        ("maker(14)", "maker(15)", "map(made): closure factor was 14, is 15"),
        (
            "x > k, 15",
            "x > k, 16",
            "filter(partial(lambda)): predicate was partial(function lambda, 15, ), is partial(",
        ),
        ("y * SCALE", "y / SCALE", "map(nested): the code of nested changed"),
        ("ValueError", "KeyError", "map(augment): the code of augment changed"),
        ("batch(2)", "batch(3)", "batch: batch_size was 2, is 3"),
        ('"x" * 200', '"x" * 201', "map(all_of_it): global LONG['second'] was"),
    ],
)
def test_a_change_of_the_program_is_told(load, before, after, line):
    assert PROGRAM.count(before) == 1
    old, new = load(), load(PROGRAM.replace(before, after))
    assert old != new
    assert any(each.startswith(line) for each in new.changes(old.parts)), new.changes(old.parts)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("USED = 20", "USED = 21", "map(augment): global conf.USED was 20, is 21"),
        ("DEEP = 22", "DEEP = 23", "map(augment): global DEEP of deepest was 22, is 23"),
        ("x + 23", "x + 24", "map(augment): the code of imported changed"),
    ],
)
def test_a_change_of_a_module_is_told_where_it_is_used(load, before, after, line):
    old, new = (
        load(),
        load(conf=CONF.replace(f"\n{before}", f"\n{after}").replace(f"return {before}", f"return {after}")),
    )
    assert old != new
    assert new.changes(old.parts) == [line]


@pytest.mark.parametrize(
    ("use", "path"),
    [
        ("import some_package.inner; return some_package.inner.VALUE", "some_package.inner.VALUE"),
        ("import some_package.inner as i; return i.VALUE", "some_package.inner.VALUE"),
        ("from some_package import inner; return inner.VALUE", "some_package.inner.VALUE"),
        ("from some_package.inner import VALUE; return VALUE", "some_package.inner.VALUE"),
    ],
)
def test_what_a_function_imports_while_it_runs_counts(tmp_path, monkeypatch, use, path):
    """And is the same before and after it was called."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "__init__.py").write_text("OTHER = 1\n")
    found = []
    for value in (1, 2):
        (tmp_path / "some_package" / "inner.py").write_text(f"VALUE = {value}\n")
        importlib.invalidate_caches()
        for name in ("some_package", "some_package.inner"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        space = {}
        exec(f"def function(x): {use}", space)
        ds = Dataset.range(3).map(space["function"])
        found.append(ds.fingerprint())
        found[-1].check()
        assert next(iter(ds)) == value
        assert ds.fingerprint() == found[-1]
    assert found[1].changes(found[0].parts) == [f"map(function): import {path} was 1, is 2"]


def test_a_library_is_not_imported_to_tell_its_version():
    """It would take seconds, in each process that only asks for a fingerprint."""
    code = """
        import sys, feedline as fl
        def lazy(x):
            import cloudpickle.cloudpickle
            return cloudpickle.dumps(x)
        parts = fl.Dataset.range(3).map(lazy).fingerprint().parts
        print(parts["library cloudpickle"], "cloudpickle" in sys.modules)
    """
    done = run_python(textwrap.dedent(code))
    assert done.stdout.split() == [importlib.metadata.version("cloudpickle"), "False"], done.stderr


def test_an_array_counts_by_its_numbers(load):
    old, new = load(), load(PROGRAM.replace("np.arange(100.0)", "np.arange(100.0) + (np.arange(100) == 50)"))
    (line,) = new.changes(old.parts)
    assert line.startswith("map(augment): global WEIGHTS was ndarray float64[100] ")


@pytest.mark.parametrize(
    ("program", "conf"),
    [
        (PROGRAM.replace("OTHER = 1", "OTHER = 2"), CONF),
        (PROGRAM, CONF.replace("UNUSED = 1", "UNUSED = 2")),
        (PROGRAM.replace("OTHER = 1", "sum = shape = 5"), CONF + "\nsum = shape = 6\n"),
        (
            PROGRAM.replace(
                ".batch(2)", ".prefetch(3).with_options(workers=1, deterministic=False).batch(2)"
            ),
            CONF,
        ),
        (
            PROGRAM.replace("map(nested)", "map(nested, num_parallel_calls=3, executor='thread')"),
            CONF,
        ),
    ],
)
def test_what_does_not_reach_the_elements_does_not_count(load, program, conf):
    old = load()
    new = load(program, conf)
    assert new.changes(old.parts) == []
    assert old == new


def test_a_statement_that_leaves_a_try_counts():
    """The instructions may be the same, and only the table of handlers another one."""

    def inside(x, f=abs, g=abs):
        try:
            f(x)
            g(x)
        except ValueError:
            pass

    def outside(x, f=abs, g=abs):
        try:
            f(x)
        except ValueError:
            pass
        else:
            g(x)

    outside.__name__, outside.__qualname__ = inside.__name__, inside.__qualname__
    assert Dataset.range(3).map(inside).fingerprint() != Dataset.range(3).map(outside).fingerprint()


def test_another_version_of_a_library_counts(monkeypatch):
    def root(x):
        return np.sqrt(x)

    old = Dataset.range(3).map(root).fingerprint()
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99.0" if name == "numpy" else real(name))
    new = Dataset.range(3).map(root).fingerprint()
    assert new.changes(old.parts) == [f"library numpy was {np.__version__}, is 99.0"]


def test_a_library_whose_distribution_has_another_name_has_its_version():
    import google_crc32c

    found = Dataset.range(3).map(lambda x: google_crc32c.value(x)).fingerprint()
    assert found.parts["library google_crc32c"] == importlib.metadata.version("google-crc32c")


def test_the_order_of_steps_and_how_they_come_together_count():
    one, other = Dataset.range(3), Dataset.range(4)
    found = [
        one.skip(1).take(1),
        one.take(1).skip(1),
        Dataset.zip(one, other),
        Dataset.zip(other, one),
        one.concatenate(other),
        Dataset.zip(one.concatenate(other), one),
        Dataset.zip(one, other.concatenate(one)),
        Dataset.zip((one, other)).map(lambda a, b: a),
    ]
    assert len({each.fingerprint() for each in found}) == len(found)


def test_a_dataset_that_a_function_uses_counts_with_its_steps():
    def using(dataset):
        return Dataset.range(3).flat_map(lambda i: dataset.skip(i))

    one, other = using(Dataset.range(5).batch(2)), using(Dataset.range(6).batch(2))
    old, new = one.fingerprint(), other.fingerprint()
    assert new.changes(old.parts) == ["flat_map(lambda) > range: stop was 5, is 6"]


def test_a_function_that_uses_the_dataset_it_is_in_is_no_endless_matter():
    space = {"Dataset": Dataset}
    exec("ds = Dataset.range(3).flat_map(lambda i: ds.take(0)).batch(2)", space)
    assert space["ds"].fingerprint() == space["ds"].fingerprint()


def test_a_global_that_holds_the_function_itself_is_no_endless_matter():
    table = {}

    def one(x):
        return table["two"](x)

    def two(x):
        return table["one"](x)

    table |= {"one": one, "two": two, "table": table}
    found = Dataset.range(3).map(one).fingerprint()
    found.check()
    table["three"] = 3
    assert found != Dataset.range(3).map(one).fingerprint()


def test_objects_that_know_each_other_are_told_in_reasonable_time():
    class Knows:
        pass

    all_ = [Knows() for _ in range(60)]
    for one in all_:
        one.others = all_
        one.number = 1
    ds = Dataset.range(3).map(lambda x: all_[0].number)
    old = ds.fingerprint()
    old.check()
    all_[59].number = 2
    assert ds.fingerprint() != old


def test_a_metaclass_and_annotations_count():
    found = set()
    for kind, meta, hint in [
        (1, "Meta", "int"),
        (2, "Meta", "int"),
        (1, "type", "int"),
        (1, "Meta", "float"),
    ]:
        space = {"Dataset": Dataset, "KIND": kind}
        exec(
            "class Meta(type):\n    def __call__(cls): return KIND\n"
            f"class Made(metaclass={meta}):\n    x: {hint} = 1\n"
            "ds = Dataset.range(3).map(lambda x: Made())",
            space,
        )
        found.add(space["ds"].fingerprint())
    assert len(found) == 4


def test_the_environment_does_not_count_however_it_is_asked_for(monkeypatch):
    ds = Dataset.range(3).map(lambda x: environ["HOME"] + os.environ["HOME"])
    old = ds.fingerprint()
    monkeypatch.setenv("SOMETHING", "new")
    assert ds.fingerprint() == old


def test_a_seed_counts_and_a_drawn_one_does_not():
    def shuffled(seed=None):
        return Dataset.range(9).shuffle(3, seed=seed).fingerprint()

    assert shuffled() == shuffled()
    assert len({shuffled(), shuffled(1), shuffled(2)}) == 3


def test_a_function_that_is_not_there_yet_counts_once_it_is():
    space = {"Dataset": Dataset}
    exec("ds = Dataset.range(3).map(lambda x: later(x))", space)
    old = space["ds"].fingerprint()
    exec("def later(x): return x", space)
    assert space["ds"].fingerprint().changes(old.parts) == [
        "map(lambda): global later was not there, is function later",
        "map(lambda): function later is new",
    ]


SETTINGS = "import numpy as np\nimport os\nSCALE = {value}\n\ndef scale(x):\n    return x * SCALE\n"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Makes a function by these lines, that give `f`, while SCALE of settings_of_users is `value`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def made(lines, value):
        (tmp_path / "settings_of_users.py").write_text(SETTINGS.format(value=value))
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, "settings_of_users", raising=False)
        space = {"np": np, "functools": functools, "scale_of": operator.attrgetter("SCALE")}
        exec(lines, space)
        return Dataset.range(3).map(space["f"]).fingerprint()

    yield made
    sys.modules.pop("settings_of_users", None)


@pytest.mark.parametrize(
    "lines",
    [
        "import settings_of_users as cfg\ndef f(x): return np.multiply(x, scale_of(cfg))",
        "import settings_of_users as cfg\ndef f(x): return np.multiply(x, getattr(cfg, 'SCALE'))",
        "import settings_of_users as cfg\ndef f(x): return x.scale(cfg)",
        "import settings_of_users as cfg\ndef f(x): return cfg.np.multiply(x, vars(cfg)['SCALE'])",
        "import settings_of_users as cfg\ndef f(x):\n  held = cfg\n  return x * held.SCALE",
        "import settings_of_users as cfg\ndef f(x, cfg=cfg): return np.multiply(x, scale_of(cfg))",
        "import settings_of_users as cfg\nf = functools.partial(lambda cfg, x: x * cfg.SCALE, cfg)",
        "import settings_of_users as cfg\ndef f(x): return x * f.held.SCALE\nf.held = cfg",
        "def f(x):\n  import settings_of_users as cfg\n  return np.multiply(x, scale_of(cfg))",
        "def f(x):\n  import settings_of_users\n  return np.multiply(x, scale_of(settings_of_users))",
        "def f(x):\n  global cfg\n  import settings_of_users as cfg\n  return x * cfg.SCALE",
        "def make():\n  import settings_of_users as cfg\n  return lambda x: x * scale_of(cfg)\nf = make()",
    ],
)
def test_a_module_that_is_passed_on_is_refused_whatever_names_it_has(settings, lines):
    with pytest.raises(fl.UsageError, match="is the module settings_of_users as a whole"):
        settings(lines, 2).check()


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ("import settings_of_users as cfg\ndef f(x): return x * cfg.SCALE", "global cfg.SCALE"),
        ("import settings_of_users as cfg\ndef f(x, cfg=cfg): return x * cfg.SCALE", "default cfg.SCALE"),
        (
            "import settings_of_users as cfg\ndef f(x): return (lambda y: y * cfg.SCALE)(x)",
            "global cfg.SCALE",
        ),
        (
            "def make():\n  import settings_of_users as cfg\n  return lambda x: x * cfg.SCALE\nf = make()",
            "closure cfg.SCALE",
        ),
        (
            "def f(x):\n  import settings_of_users as cfg\n  return (lambda y: y * cfg.SCALE)(x)",
            "import settings_of_users.SCALE",
        ),
        (
            "def f(x):\n  import settings_of_users\n  def g(y):\n    return y * settings_of_users.SCALE\n"
            "  return g(x)",
            "import settings_of_users.SCALE",
        ),
        (
            "def f(x):\n  from settings_of_users import os, SCALE as s\n  return x * s",
            "import settings_of_users.SCALE",
        ),
    ],
)
def test_of_a_module_in_a_variable_counts_what_is_asked_of_it(settings, lines, name):
    one, other = settings(lines, 2), settings(lines, 3)
    one.check()
    function = re.search("function (f|lambda): code", one.explain())[1]
    assert other.changes(one.parts) == [f"map({function}): {name} was 2, is 3"]
