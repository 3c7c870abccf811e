"""What changed since the same steps were cached before: one line, because computing again takes time."""

from __future__ import annotations

from feedline.cache import plan as documents
from feedline.cache.plan import PLAN, Plan
from feedline.cache.store import Store
from feedline.errors import CacheError, CorruptRecord
from feedline.graph import Fingerprint

_MOST_LOOKED_AT = 32  # entries: each may be a question to a server


def changes_since(store: Store, found: Fingerprint) -> str | None:
    """How the pipeline differs from the newest entry for the same steps; None when there is none."""
    plans = [plan for key in _keys(store)[:_MOST_LOOKED_AT] if (plan := _plan_of(store, key)) is not None]
    same = [plan for plan in plans if plan.steps == found.steps and plan.key != found]
    if not same:
        return None
    changes = found.changes(max(same, key=lambda plan: plan.made).pipeline)
    if not changes:
        return None
    more = f", and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"{store.location}: these steps were cached before, and are computed anew. {changes[0]}{more}."


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
