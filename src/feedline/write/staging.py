"""The hidden directory in which the processes of one run write, as this process sees it.

`.<prefix>.writing-<id>/` has a directory for each producer (write/parts) and what the examples are like:
`features.json` is that of the first example; whoever is first makes the file, and all others check their
examples against it. A `feature-<hash>.json` says more of one feature: that its length changes, say.

Who commits, gives up or takes over renames the directory: then nothing more can be written (core/part_file).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from feedline.column import Bytes
from feedline.records.common_features import common_feature
from feedline.records.feature_texts import Known, from_json, to_json
from feedline.records.features import Feature
from feedline.write.fitting import Fitting
from feedline.write.parts import PartWriter, refused

_LEARNED = "feature-"


class Staging:
    def __init__(self, path: str, part_bytes: int | None, *, is_opener: bool) -> None:
        self.path = path
        self.part_bytes = part_bytes
        self.is_opener = is_opener
        self.own = PartWriter(path, None, is_opener, part_bytes)
        # A named one goes with the last who uses it: there may be one for each of very many inputs.
        self._named: WeakValueDictionary[str, PartWriter] = WeakValueDictionary()
        self._begin()

    def _begin(self) -> None:
        self._lock = Lock()
        self._fitting = Fitting(share=self._share)

    @property
    def id(self) -> str:
        return self.path.rpartition("-")[2]

    def producer(self, name: str) -> PartWriter:
        with self._lock:
            known = self._named.get(name)
            if known is None or known.is_ended:
                known = self._named[name] = PartWriter(self.path, name, self.is_opener, self.part_bytes)
            return known

    def close(self) -> None:
        """Seal what the producers of this process have."""
        with self._lock:
            producers = [self.own, *self._named.values()]
        for producer in producers:
            producer.close()
            producer.unwatch()
        _joined.pop(self.path, None)

    def drop(self) -> None:
        """The same for parts that are about to be removed."""
        with self._lock:
            producers = [self.own, *self._named.values()]
        for producer in producers:
            producer.drop()
            producer.unwatch()
        _joined.pop(self.path, None)

    def record(self, example: Any) -> bytes:
        return self._fitting.record(example)

    def records(
        self, columns: Mapping[str, Any] | Sequence[bytes] | Bytes
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        return self._fitting.records(columns)

    def _share(self, known: Known | None, learned: Known) -> Known | None:
        """Let the other processes know what is new; what they know, if that is not `known`."""
        try:
            others = read_features(self.path)
            if others is None:
                return None if _publish(_first_path(self.path), learned) else read_features(self.path)
            if others != known:
                return others
            for key, feature in learned.items():
                if feature != known[key]:
                    _publish(_learned_path(self.path, key, feature), {key: feature})
        except OSError as error:
            raise refused(self.path, error) from error
        return None

    def leave_to_parent(self) -> None:
        """In a forked child, which has its own parts from now on."""
        self.is_opener = False
        self._begin()
        for producer in (self.own, *self._named.values()):
            producer.leave_to_parent()

    def __reduce__(self) -> Any:
        return join, (self.path, self.part_bytes)


def join(path: str, part_bytes: int | None, *, is_opener: bool = False) -> Staging:
    """The one of this process. It stays: the next task that writes goes on in the same parts."""
    known = _joined.get(path)
    if known is None:
        for gone in [other for other in tuple(_joined) if not os.path.isdir(other)]:
            _joined.pop(gone, None)
        # Of two threads that come at once, both get the same.
        known = _joined.setdefault(path, Staging(path, part_bytes, is_opener=is_opener))
    return known


_joined: dict[str, Staging] = {}


def _leave_to_parent() -> None:
    for staging in tuple(_joined.values()):
        staging.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


def read_features(staging: str) -> Known | None:
    """What all processes of the run know together; None before the first example."""
    known = _read(_first_path(staging))
    if known is not None:
        for name in os.listdir(staging):
            if name.startswith(_LEARNED) and name.endswith(".json"):
                for key, feature in (_read(os.path.join(staging, name)) or {}).items():
                    known[key] = common_feature(known[key], feature)
    return known


def _read(path: str) -> Known | None:
    with suppress(FileNotFoundError), open(path, "rb") as file:
        return from_json(file.read())
    return None


def _publish(path: str, features: Known) -> bool:
    """False when it is there already."""
    text = to_json(features)
    assert text is not None  # only those that are given may be of other kinds
    partial = f"{path}.{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with open(partial, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())  # what is sealed later must be readable with it
        os.link(partial, path)
        return True
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)


def _first_path(staging: str) -> str:
    return os.path.join(staging, "features.json")


def _learned_path(staging: str, key: str, feature: Feature | None) -> str:
    """One for each thing that may be learned: processes that learn the same write the same file."""
    about = blake2b(repr((key, feature)).encode(), digest_size=16).hexdigest()
    return os.path.join(staging, f"{_LEARNED}{about}.json")
