"""Whether it pays for several runs to read the same input, by what the parts of an entry took."""

from __future__ import annotations

from feedline.cache.part import Provenance

WORTH = 8  # times as long as reading must all take, so that it pays for several runs to read the same


class Costs:
    """What the parts took that a run has seen, and whether it should read their input, too."""

    def __init__(self) -> None:
        self._seen = 0
        self._reading = self._all = 0.0  # seconds

    def add(self, provenance: Provenance) -> None:
        if self._seen == 1:
            self._reading = self._all = 0.0  # the first part includes the start of workers and the like
        self._seen += 1
        self._reading += provenance.reading
        self._all += provenance.all

    @property
    def are_worth_it(self) -> bool:
        return bool(self._seen) and self._reading * WORTH <= self._all

    def __str__(self) -> str:
        if not self._seen:
            return ""
        told = f"Reading took {self._reading / max(self._all, 1e-9):.1%} of the time"
        return f"{told}." if self.are_worth_it else f"{told}, so one run computes and the others read along."
