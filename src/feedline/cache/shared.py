"""An entry as one process sees it: its plan, and its parts, each checked when it is first read.

What is damaged is dropped, and computed again by whoever needs it. A store that fails is given up: the run
goes on without it, with one warning.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import NamedTuple
from weakref import finalize

from feedline.cache import part as parts
from feedline.cache import plan as documents
from feedline.cache.costs import Costs
from feedline.cache.heartbeat import beat, rest
from feedline.cache.part import Made, OfAnotherPlan, Part
from feedline.cache.plan import (
    IN_ORDER,
    MANIFEST,
    NOT_REPEATABLE,
    PLAN,
    Manifest,
    Plan,
    in_order_because,
    name_of,
)
from feedline.cache.store import Claim, Entry, NoRoom, Store, Unavailable
from feedline.errors import CacheError, CorruptRecord

# Parts that are kept at hand, so that they are not checked again: files that are mapped cost an address only,
# but there may be so many of them (the kernel's limit is 65,530 for all); others cost memory.
_MOST_MAPPED = 8192
_MOST_BYTES = 64 << 20


class _Held(NamedTuple):
    part: Part
    bytes: int  # of memory


def _has(part: Part, first: int | None, rows: int | None, before: bytes | None) -> bool:
    follows = before is None or (part.provenance is not None and part.provenance.before == before)
    return follows and (first is None or part.first == first) and (rows is None or part.block.rows == rows)


class SharedEntry:
    """May be used by several threads."""

    def __init__(
        self,
        store: Store,
        key: str,
        *,
        goes_on: bool = False,
        make_room: Callable[[int], None] | None = None,
    ) -> None:
        """With `goes_on`, a store that does not answer is given up like one that is full.

        `make_room` is called with the size of what is about to be put, and may raise NoRoom.
        """
        self.key = key
        self.location = store.location
        self._store = store
        self._goes_on = goes_on
        self._make_room = make_room
        self._held: OrderedDict[int, _Held] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        self._checked: set[int] = set()  # parts that were read before, or that this process made
        self._told = False  # that the store was given up
        self._warned: set[str] = set()
        self._is_anew = False  # the plan was damaged, so parts of another one are no surprise
        self.is_in_order = False  # as far as is known: see find_in_order
        self._reason = ""
        self.costs = Costs()
        self._entry: Entry | None = None
        self.plan: Plan | None = None
        self.manifest: Manifest | None = None
        with self.surviving():
            self._entry = store.open(key)
            finalize(self, self._entry.close)  # also when it is only dropped
            self.find_plan()
            if self.plan is not None and self._find_manifest():
                self._entry.count_hit()

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.location}: entry {self.key}"

    @property
    def is_lost(self) -> bool:
        """Was the store given up?"""
        return self._entry is None

    @property
    def _open(self) -> Entry:
        if self._entry is None:
            raise NoRoom(f"{self.location}: the cache was given up.")
        return self._entry

    @contextmanager
    def surviving(self) -> Iterator[None]:
        """If the store fails meanwhile, it is given up."""
        try:
            yield
        except NoRoom as error:
            self._give_up(error)
        except Unavailable as error:
            if not self._goes_on:
                raise
            self._give_up(error)

    def _give_up(self, error: CacheError) -> None:
        entry, self._entry = self._entry, None
        if entry is not None:
            entry.close()
        if not self._told:
            self._told = True
            text = str(error).rstrip(".")
            warnings.warn(f"{text}.\n  The run goes on without this cache.", RuntimeWarning, stacklevel=2)

    def _warn(self, text: str) -> None:
        """Once: where nothing can be dropped, it is found again and again."""
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(f"{self.place}: {text}", RuntimeWarning, stacklevel=3)

    def has_other_users(self) -> bool:
        """Is it open elsewhere, too?"""
        info = self._store.info(self.key)
        return info is not None and len(info.users) > 1

    # The documents

    def find_plan(self) -> Plan | None:
        """The one that holds, if there is one by now."""
        if self.plan is None:
            data = self._open.read(PLAN)
            if data is not None:
                try:
                    plan = documents.decode(data, Plan)
                    if plan.key != self.key or (plan.length is not None and plan.part_rows is None):
                        raise CorruptRecord(
                            "the plan is that of another cache entry", remedy="It is made again."
                        )
                except CorruptRecord as error:
                    self._is_anew = True
                    self._warn(f"{error}")
                    self._open.drop(PLAN, data)
                else:
                    self._id = documents.digest(bytes(data))  # first: other threads look at the plan
                    self.plan = plan
        return self.plan

    def propose(self, plan: Plan) -> Plan:
        """Make it the plan, unless there is one; the one that holds."""
        self._open.put(PLAN, [documents.encode(plan)])
        found = self.find_plan()
        if found is None:
            raise NoRoom(f"{self.place}: its plan was put, and is not there")
        return found

    def _find_manifest(self) -> bool:
        """Of a damaged one, or one of another plan, nothing is left."""
        data = self._open.read(MANIFEST)
        if data is None:
            return False
        try:
            manifest = documents.decode(data, Manifest)
        except CorruptRecord as error:
            self._warn(f"{error}")
        else:
            if self.plan is not None and manifest.plan == self._id.hex() and self.plan.allows(manifest.rows):
                self.manifest = manifest
                return True
        self._open.drop(MANIFEST, data)
        return False

    def finish(self, rows: tuple[int, ...]) -> None:
        """All parts are there, with so many rows."""
        if self.manifest is None and not self._find_manifest():
            manifest = Manifest(self._id.hex(), rows)
            self._open.put(MANIFEST, [documents.encode(manifest)])
            self.manifest = manifest

    # Whether runs may share the work on an input that is read in order

    def find_in_order(self) -> bool:
        """Must one run make part after part?"""
        if not self.is_in_order:
            reason = self._open.read(IN_ORDER)
            if reason is not None:
                self._tell_in_order(bytes(reason).decode(errors="replace"))
        return self.is_in_order

    def go_in_order(self, reason: str) -> None:
        if not self.is_in_order:
            self._open.put(IN_ORDER, [reason.encode()])
            self._tell_in_order(reason)

    @property
    def filling(self) -> str:
        """What was seen of how runs share the work, in a sentence."""
        return in_order_because(self._reason) if self.is_in_order else str(self.costs)

    def _tell_in_order(self, reason: str) -> None:
        self.is_in_order = True
        self._reason = reason
        if reason != NOT_REPEATABLE:
            return
        self._warn(
            f"{in_order_because(reason)}\n  To share the work, make these steps repeatable: sort listings, "
            "keep deterministic=True, and seed the random numbers of generators and functions."
        )

    # The parts

    def part(
        self,
        number: int,
        first: int | None = None,
        rows: int | None = None,
        before: bytes | None = None,
    ) -> Part | None:
        """None when it is not there, or was damaged. `first` and `rows`: which elements it must have;
        `before`: the digest of the input rows that it must go on from."""
        with self._lock:
            held = self._held.get(number)
            if held is not None and _has(held.part, first, rows, before):
                self._held.move_to_end(number)
                return held.part
        data = self._open.read(name_of(number))
        if data is None:
            return None
        try:
            found = parts.decode(data, self._id, number, is_checked=number in self._checked)
        except OfAnotherPlan:
            self._check_plan()
            if not self._is_anew:
                self._warn("there are parts that follow another plan. They are computed again.")
        except CorruptRecord as error:
            self._warn(f"part {number}: {error.what}. It is computed again.")
        else:
            if _has(found, first, rows, before):
                self._keep(found, len(data) if isinstance(data, bytes) else 0)
                return found
            self._check_before(number, first, before)
        self._open.drop(name_of(number), data)
        with self._lock:
            self._forget(number)
        return None

    def _check_plan(self) -> None:
        """Another may have replaced the plan because it was damaged. Then the parts are not what we mean."""
        data = self._open.read(PLAN)
        if data is None or documents.digest(bytes(data)) != self._id:
            raise NoRoom(f"{self.place}: it was removed and begun anew meanwhile")

    def _check_before(self, number: int, first: int | None, digest: bytes | None) -> None:
        """A part that does not begin where the one before ends is made again: several were damaged, and those
        that were made again are of other sizes. Unless it is our part before that another replaced."""
        data = self._open.read(name_of(number - 1)) if number and first is not None else None
        if data is not None:
            with suppress(CorruptRecord):
                before = parts.decode(data, self._id, number - 1)
                after = before.provenance.after if before.provenance else None
                if digest not in (None, after) or before.first + before.block.rows != first:
                    raise NoRoom(f"{self.place}: its parts were made anew meanwhile")

    def _forget(self, number: int) -> None:
        dropped = self._held.pop(number, None)
        self._bytes -= 0 if dropped is None else dropped.bytes
        self._checked.discard(number)

    def _keep(self, part: Part, size: int) -> None:
        with self._lock:
            self._forget(part.number)
            self._checked.add(part.number)
            self._held[part.number] = _Held(part, size)
            self._bytes += size
            while len(self._held) > 1 and (len(self._held) > _MOST_MAPPED or self._bytes > _MOST_BYTES):
                _, dropped = self._held.popitem(last=False)
                self._bytes -= dropped.bytes

    def has(self, number: int) -> bool:
        with self._lock:
            if number in self._held:
                return True
        return self._open.has(name_of(number))

    def claim(self, name: str) -> Claim | None:
        claim = self._open.claim(name)
        if claim is not None:
            try:
                beat(claim)
            except BaseException:  # Ctrl-C while its thread starts, say
                self.release(claim)
                raise
        return claim

    def release(self, claim: Claim) -> None:
        rest(claim)
        claim.release()

    def publish(self, made: Made, claim: Claim) -> Part | None:
        """The part, also when it cannot be kept; None when another one was first."""
        data = parts.encode(made, self._id)
        with self.surviving():
            if self._make_room is not None:
                self._make_room(sum(map(len, data)))
            if not self._open.put(name_of(made.number), data, claim):
                return None
            if self._open.is_mapped:
                self._checked.add(made.number)
                return self.part(made.number)
        return parts.decode(b"".join(data), self._id, made.number, is_checked=True)
