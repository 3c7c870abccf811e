"""The steps of a pipeline as named parts, and the fingerprint that follows from them.

A part is a name, such as `map(augment): function augment: global SCALE`, and a text. Names tell of nothing
but the pipeline itself, so they are the same everywhere, and the digest is one of names and texts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from types import FunctionType
from typing import Any

from feedline.graph.fingerprint.objects import content_of
from feedline.graph.fingerprint.origin import (
    is_library_class,
    is_library_code,
    is_ours,
    library_of,
    version_of,
)
from feedline.graph.fingerprint.reached import Named, bound_in, reached_by_class, reached_by_function
from feedline.graph.fingerprint.result import Fingerprint, digest_of
from feedline.graph.fingerprint.texts import Texts, shortened
from feedline.graph.node import Node, Source

_MEANING = 1  # goes up when a step of feedline gives other elements than before, for the same arguments
_MOST_ITEMS = 40  # of a value that is told in several parts
_DEEPEST = 3
_MOST_FILES = 100  # of a step, that are told one by one


def fingerprint(node: Node, version: str | None = None) -> Fingerprint:
    """What is known of the pipeline. A `version` stands for all its functions."""
    walk = _Pipeline(version)
    walk.add(node)
    return walk.result()


def strict_fingerprint(node: Node, version: str | None = None) -> Fingerprint:
    """The same, if it tells the pipeline apart from every other; else UsageError."""
    found = fingerprint(node, version)
    found.check()
    return found


class _Pipeline:
    """The parts of a pipeline, as they are gathered."""

    def __init__(self, version: str | None) -> None:
        self.version = version
        self.parts: dict[str, str] = {"feedline's steps": str(_MEANING)}
        if version is not None:
            self.parts["version"] = repr(version)
        self.libraries: set[str] = set()
        self.problems: list[str] = []
        self.arguments: list[str] = []
        self.missing: list[str] = []
        self.steps: list[Any] = []
        self._labels: dict[Node, str] = {}
        self._numbers: dict[Node, int] = {}
        self._names: dict[str, int] = {}
        self._last: Node | None = None

    def result(self) -> Fingerprint:
        for library in sorted(self.libraries):
            self.parts[f"library {library}" if library != "python" else library] = version_of(library)
        return Fingerprint(self.parts, digest_of(self.steps), self.problems, self.arguments, self.missing)

    def add(self, root: Node, prefix: str = "") -> str:
        """Tell of the node, and of all before it first; gives its label."""
        waiting = [_counted(root)]
        while waiting:  # not by recursion: a pipeline may have any number of steps
            node = waiting[-1]
            inputs = [_counted(one) for one in node.inputs]
            unknown = [one for one in inputs if one not in self._labels]
            if unknown:
                waiting += reversed(unknown)
                continue
            waiting.pop()
            if node not in self._labels:
                self._step(node, inputs, prefix)
        return self._labels[_counted(root)]

    def _step(self, node: Node, inputs: list[Node], prefix: str) -> None:
        label = self._unique(prefix + self._name(node))
        self._labels[node] = label
        kind = type(node).__name__
        if not prefix:
            self._numbers[node] = len(self._numbers)
            self.steps.append([kind, node.name, [self._numbers.get(one) for one in inputs]])
        follows = inputs == [] if self._last is None else inputs == [self._last]
        of = "" if follows else f" of {', '.join(self._labels[one] for one in inputs) or 'nothing'}"
        self.parts[label] = kind + of
        self._last = node
        if users_functions(node):
            # It was an array once. Entries from then hold other elements; those without functions are good.
            self.parts[f"{label}: meaning of a returned list"] = "a tuple"
        step = _Step(self, label)
        if not is_ours(type(node).__module__):
            step.emit("kind", type(node))
        for each in fields(node):
            value = getattr(node, each.name)
            if each.compare and each.name not in node.file_fields and not _is_input(value):
                step.emit(each.name, value)
        step.finish()
        self._files(label, list(node.sources()))

    def _name(self, node: Node) -> str:
        if self.version is not None:
            return node.name
        functions = users_functions(node)
        return f"{node.name}({_name_of(functions[0])})" if functions else node.name

    def _unique(self, name: str) -> str:
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name} #{self._names[name]}"

    def _files(self, label: str, sources: list[Source]) -> None:
        self.missing += [f"{label}: {one.path}: {one.trouble}" for one in sources if one.trouble]
        if len(sources) <= _MOST_FILES:
            for number, one in enumerate(sources):
                again = f" #{number}" if f"{label}: file {one.path}" in self.parts else ""
                self.parts[f"{label}: file {one.path}{again}"] = one.facts
        else:
            told = digest_of([[one.path, one.facts] for one in sources])
            size = sum(one.size for one in sources)
            self.parts[f"{label}: files"] = f"{len(sources):,} files, {size:,} bytes, digest {told}"


class _Step(Texts):
    """The values of one step: what they reach is told after them, each function and class once."""

    def __init__(self, pipeline: _Pipeline, label: str) -> None:
        super().__init__()
        self._pipeline = pipeline
        self._label = label
        self._waiting: deque[Callable[[], None]] = deque()
        self._known: dict[int, tuple[Any, str]] = {}  # functions and classes, by id
        self._names: dict[str, int] = {}
        self._where = ("", "")  # what is being told, and the function or class it is of
        self._functions = 0  # that are being told, one inside of another

    def emit(self, name: str, value: Any, of: str = "", depth: int = 0) -> None:
        """Tell the value as a part; with parts for its items, if it is large."""
        self._where = (name, of)
        self.path.clear()
        try:
            text = self.text(value)
        except Exception as error:  # of a user's own __reduce__, say, or too deep
            self.problem(f"is a {type(value).__qualname__} that cannot be looked at ({type(error).__name__})")
            text = f"a {type(value).__qualname__}"
        whole_name = f"{self._label}: {of}: {name}" if of else f"{self._label}: {name}"
        self._pipeline.parts[whole_name] = shortened(text)
        if id(value) in self.large and depth < _DEEPEST:
            for item, one in self._items(value):
                self.emit(f"{name}{item}", one, of, depth + 1)

    def _items(self, value: Any) -> list[Named]:
        """Those that a large value is told by, so that it can be said which of them changed."""
        items: list[Named] = []
        if type(value) is dict and len(value) <= _MOST_ITEMS:
            items = [(f"[{key!r}]", one) for key, one in value.items() if isinstance(key, str)]
        elif not is_library_class(type(value)):
            content = content_of(value)
            items = [(f".{name}", one) for name, one in content.attributes[:_MOST_ITEMS]] if content else []
        return items

    def finish(self) -> None:
        while self._waiting:
            self._waiting.popleft()()

    def problem(self, what: str) -> None:
        name, of = self._where
        where = f"{self._label}: {name}{''.join(self.path)}{of and f' of {of}'}"
        # A version stands for functions, which are not looked at then. It says nothing of arguments.
        of_which = self._pipeline.problems if self._functions else self._pipeline.arguments
        of_which.append(f"{where} {what}")

    def uses(self, module: str) -> None:
        if self._pipeline.version is None:
            self._pipeline.libraries.add(library_of(module))

    def text(self, value: Any) -> str:
        if not callable(value) or isinstance(value, type) or is_ours(type(value).__module__):
            return super().text(value)
        if self._pipeline.version is not None:
            return "function"
        with self._in_function():
            return super().text(value)

    @contextmanager
    def _in_function(self) -> Iterator[None]:
        self._functions += 1
        try:
            yield
        finally:
            self._functions -= 1

    def pipeline(self, node: Node) -> str:
        return f"dataset {self._pipeline.add(node, f'{self._label} > ')}"

    def function(self, function: FunctionType) -> str:
        code = function.__code__
        if not is_library_code(code, function.__globals__):
            return self._refer("function", function, reached_by_function)
        self.uses(function.__globals__["__name__"])
        if "<" not in code.co_qualname:
            return f"{function.__globals__['__name__']}.{code.co_qualname}"
        if code.co_qualname == "singledispatch.<locals>.wrapper":
            return f"singledispatch {self.text(vars(function)['registry'])}"
        return self._refer("function", function, bound_in)  # which a function of the library's has made

    def user_class(self, kind: type) -> str:
        if self._pipeline.version is not None:
            return kind.__qualname__
        return self._refer("class", kind, reached_by_class)

    def _refer(self, what: str, value: Any, reached: Callable[[Any], Iterable[Named]]) -> str:
        """The label of a function or a class, of which more is told later."""
        if id(value) not in self._known:
            name = f"{what} {_name_of(value)}"
            self._names[name] = self._names.get(name, 0) + 1
            label = name if self._names[name] == 1 else f"{name} #{self._names[name]}"
            self._known[id(value)] = (value, label)
            self._waiting.append(self._in_function()(partial(self._tell, value, label, reached)))
        return self._known[id(value)][1]

    def _tell(self, value: Any, label: str, reached: Callable[[Any], Iterable[Named]]) -> None:
        self.uses("builtins")  # instructions are those of a version of Python
        self._where = (label, "")
        if isinstance(value, type):
            told = f"{self.text(type(value))} of {self.text(value.__bases__)}"
        else:
            told = self.text(value.__code__)
        self._pipeline.parts[f"{self._label}: {label}"] = told
        try:
            found = list(reached(value))
        except Exception as error:  # of a user's module, which is asked for what it has
            self.problem(f"reaches what cannot be looked at ({type(error).__name__})")
            found = []
        for name, one in found:
            # Of a method under its own name, its code is all there is to tell.
            is_method = isinstance(value, type) and isinstance(one, FunctionType)
            if not is_method or self.text(one) != f"function {_name_of(value)}.{name}":
                self.emit(name, one, label)


def _counted(node: Node) -> Node:
    """The node, or the first before it that counts."""
    while node.gives_its_input:
        (node,) = node.inputs
    return node


def users_functions(node: Node) -> list[Any]:
    """The user's, among the arguments."""
    values = (getattr(node, each.name) for each in fields(node) if each.compare)
    return [value for value in values if callable(value) and not is_ours(type(value).__module__)]


def _is_input(value: Any) -> bool:
    return isinstance(value, Node) or (
        isinstance(value, tuple) and value != () and all(isinstance(one, Node) for one in value)
    )


def _name_of(value: Any) -> str:
    """Of a function or a class, without the functions around it.

    >>> _name_of(lambda: 0), _name_of(int.bit_length)
    ('lambda', 'int.bit_length')
    """
    if isinstance(value, partial):
        return f"partial({_name_of(value.func)})"
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return str(name).rpartition("<locals>.")[2].replace("<lambda>", "lambda").replace(": ", ":")
