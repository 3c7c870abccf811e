"""The failing cases that `make explore` found. Every `make test` replays them.

kept_cases.txt holds one case per line: the choices that hypothesis made, in base64, and the id of the test.
A case is replayed whatever the seed and whatever changes in feedline, but it loses its meaning when the
strategies of its test change. So also write an @example or a test of its own for the bug it shows.
"""

from __future__ import annotations

import base64
import fcntl
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from hypothesis.database import ExampleDatabase

KEPT_CASES = Path(os.environ.get("FEEDLINE_KEPT_CASES") or Path(__file__).with_name("kept_cases.txt"))
_LESSER_CORPORA = (b".secondary", b".pareto")  # cases that hypothesis has shrunk further, and targets


class KeptCases(ExampleDatabase):
    """Hypothesis's database in a file to commit, by test id instead of a digest of the test's source."""

    def __init__(self, path: Path = KEPT_CASES, *, is_exploring: bool = False) -> None:
        super().__init__()
        self._path = path
        self._is_exploring = is_exploring
        self._committed = self.lines()

    def lines(self) -> set[str]:
        """Every case as it stands in the file."""
        return set(self._path.read_text().splitlines()) if self._path.exists() else set()

    def fetch(self, key: bytes) -> Iterable[bytes]:
        if key.endswith(_LESSER_CORPORA):
            return
        for line in sorted(self.lines()):
            choices, _, test = line.partition(" ")
            if test == _current_test():
                yield base64.b64decode(choices)

    def save(self, key: bytes, value: bytes) -> None:
        if not key.endswith(_LESSER_CORPORA):
            self._update(lambda lines: lines | {_line(value)})

    def delete(self, key: bytes, value: bytes) -> None:
        # Hypothesis deletes a case that passes. A committed one stays, to show that it still does.
        if not key.endswith(_LESSER_CORPORA):
            self._update(lambda lines: lines - ({_line(value)} - self._committed))

    def _update(self, change: Callable[[set[str]], set[str]]) -> None:
        if not self._is_exploring:
            return
        with open(self._path, "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # xdist runs several of us
            file.seek(0)
            lines = change(set(file.read().splitlines()))
            file.truncate(0)
            file.write("".join(f"{line}\n" for line in sorted(lines)))


def _line(choices: bytes) -> str:
    return f"{base64.b64encode(choices).decode()} {_current_test()}"


def _current_test() -> str:
    return os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]  # without the phase: "(call)"
