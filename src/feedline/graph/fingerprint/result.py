"""Fingerprint: 32 digits that know what they were made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from feedline.errors import UsageError
from feedline.graph.shown import Shown

_MOST_SHOWN = 5
_OF_ALL = ("library ", "python", "version", "feedline's steps")  # parts that are of no step
_OF_STEPS = ("function ", "class ")


def digest_of(value: Any) -> str:
    text = json.dumps(value, sort_keys=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Fingerprint(str):
    """A str of 32 hexadecimal digits, with the parts that it follows from.

    `parts` has a name and a text for each, all JSON. `steps` is the same for pipelines of the same steps,
    whatever their arguments, functions and files are. What does not tell what it is is in `problems` if it is
    in a function, else in `arguments`.
    """

    parts: dict[str, str]
    steps: str
    problems: tuple[str, ...]
    arguments: tuple[str, ...]
    missing: tuple[str, ...]

    def __new__(
        cls,
        parts: Mapping[str, str],
        steps: str,
        problems: Sequence[str] = (),
        arguments: Sequence[str] = (),
        missing: Sequence[str] = (),
    ) -> Fingerprint:
        made = super().__new__(cls, digest_of(list(parts.items())))
        made.parts, made.steps = dict(parts), steps
        made.problems, made.arguments, made.missing = tuple(problems), tuple(arguments), tuple(missing)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Fingerprint, (self.parts, self.steps, self.problems, self.arguments, self.missing)

    def check(self) -> None:
        """UsageError if something that counts does not tell what it is, or is not there."""
        if self.missing:
            more = f"\n  and {len(self.missing) - 1:,} more" if len(self.missing) > 1 else ""
            raise UsageError(
                f"cache: {self.missing[0]}{more}\n  Its elements can be kept once its files are there."
            )
        if self.arguments:
            raise UsageError(
                "cache: it cannot be told whether the arguments are the same from run to run:"
                f"{_shown(self.arguments)}.\n"
                "  A version= says it of functions only. Give what it is made of, such as a seed or a path, "
                "and make it inside of the function."
            )
        if self.problems:
            raise UsageError(
                "cache: it cannot be told whether the functions are the same from run to run:"
                f"{_shown(self.problems)}.\n"
                '  Say it yourself, and give another version when they change:  cache(..., version="1")'
            )

    @property
    def outline(self) -> str:
        """The steps in a line.

        >>> from feedline import Dataset
        >>> Dataset.range(5).map(abs).batch(2).fingerprint().outline
        'range -> map(abs) -> batch'
        """
        names = (name for name in self.parts if len(_levels(name)) == 1 and not name.startswith(_OF_ALL))
        return " -> ".join(names)

    def explain(self) -> str:
        """The parts: a block for each step, with its arguments, its files and what its functions reach.

        >>> from feedline import Dataset
        >>> Dataset.range(5).batch(2).fingerprint().explain()
        range: Range
          start: 0
          stop: 5
          step: 1
          output_type: 'int64'
        batch: Batch
          batch_size: 2
          drop_remainder: False
        feedline's steps: 1
        """
        of_all: list[str] = []
        of_steps: list[str] = []
        for name, text in self.parts.items():
            levels = _levels(name)
            line = f"{'  ' * (len(levels) - 1)}{levels[-1]}: {text}"
            (of_all if name.startswith(_OF_ALL) and len(levels) == 1 else of_steps).append(line)
        unknown = [f"not told: {one}" for one in (*self.problems, *self.arguments, *self.missing)]
        return Shown("\n".join([*of_steps, *of_all, *unknown]))

    def changes(self, old: Mapping[str, str]) -> list[str]:
        """What is different from a pipeline with these parts, a line for each."""
        names = {**self.parts, **old}
        differing = [name for name in names if self.parts.get(name) != old.get(name)]
        lines = []
        for name in differing:
            levels = _levels(name)
            above = [": ".join(levels[:count]) for count in range(1, len(levels))]
            if any((one in self.parts) != (one in old) for one in above):
                continue  # it came or went with what it is of
            if any(one.startswith((f"{name}[", f"{name}.")) for one in differing):
                continue  # which of its items it is follows
            lines.append(_line(levels, old.get(name), self.parts.get(name)))
        return lines


def _shown(problems: Sequence[str]) -> str:
    shown = [f"\n  {one}" for one in problems[:_MOST_SHOWN]]
    if len(problems) > _MOST_SHOWN:
        shown.append(f"\n  and {len(problems) - _MOST_SHOWN:,} more")
    return "".join(shown)


def _levels(name: str) -> list[str]:
    """The step, the function or class in it, and what it is of them.

    >>> _levels("map(f): function f: global X"), _levels("map(f): file a: b")
    (['map(f)', 'function f', 'global X'], ['map(f)', 'file a: b'])
    """
    step, _, rest = name.partition(": ")
    if not rest:
        return [step]
    if not rest.startswith(_OF_STEPS):
        return [step, rest]
    of, _, item = rest.partition(": ")
    return [step, of, item] if item else [step, of]


def _line(levels: list[str], was: str | None, now: str | None) -> str:
    step = levels[0]
    if len(levels) == 1:
        if step.startswith(_OF_ALL):
            return f"{step} was {was or 'not used'}, is {now or 'not used'}"
        if was is None or now is None:
            return f"{step}: the step is {'new' if was is None else 'gone'}"
        return f"{step}: it was {was}, and is {now}"
    if len(levels) == 2 and levels[1].startswith("file") and was is not None and now is not None:
        return f"{step}: {levels[1].rpartition('/')[2].removeprefix('file ')}: {_facts(was, now)}"
    what = levels[-1]
    if len(levels) == 2 and what.startswith(_OF_STEPS):
        if was is None or now is None:
            return f"{step}: {what} is {'new' if was is None else 'gone'}"
        return f"{step}: the {'code' if what.startswith('function') else 'bases'} of {_short(what)} changed"
    of = levels[1] if len(levels) == 3 else ""
    if of and f"({_short(of)})" not in step:
        what = f"{what} of {_short(of)}"
    if was is None or now is None:
        return f"{step}: {what} is {f'new: {now}' if was is None else f'gone: {was}'}"
    return f"{step}: {what} was {was}, is {now}"


def _short(of: str) -> str:
    return of.partition(" ")[2]


def _facts(was: str, now: str) -> str:
    """The facts of a file that changed.

    >>> _facts("size 1, mtime 5", "size 2, mtime 6")
    'size 1 -> 2'
    """
    for old, new in zip(was.split(", "), now.split(", "), strict=False):
        if old != new:
            name, _, value = old.partition(" ")
            return f"{name} {value} -> {new.removeprefix(f'{name} ')}"
    return f"{was} -> {now}"
