"""What changed since the same steps were cached before: one line, because computing again takes time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from feedline.cache import plan as documents
from feedline.cache.plan import PLAN, Plan
from feedline.cache.store import Store
from feedline.errors import CacheError, CorruptRecord
from feedline.graph import Fingerprint

_SECONDS = 1.0  # that are spent on looking: each entry may be a question to a server


def changes_since(store: Store, found: Fingerprint) -> str | None:
    """How the pipeline differs from the newest entry for the same steps; None when there is none."""
    same = [plan for plan in _plans(store) if plan.steps == found.steps and plan.key != str(found)]
    if not same:
        return None
    changes = found.changes(max(same, key=lambda plan: plan.made).pipeline)
    if not changes:
        return None
    more = f", and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"{store.location}: these steps were cached before, and are computed anew. {changes[0]}{more}."


def _plans(store: Store) -> Iterator[Plan]:
    until = time.monotonic() + _SECONDS
    for key in _keys(store):
        plan = _plan_of(store, key)
        if plan is not None:
            yield plan
        if time.monotonic() > until:
            return


def _keys(store: Store) -> list[str]:
    try:
        return store.keys()
    except CacheError:  # nobody asked: a run that can do without the cache can do without this line
        return []


def _plan_of(store: Store, key: str) -> Plan | None:
    try:
        data = store.peek(key, PLAN)
        return None if data is None else documents.decode(data, Plan)
    except (CacheError, CorruptRecord):
        return None
