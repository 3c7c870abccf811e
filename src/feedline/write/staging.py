"""The hidden directory in which the processes of one run write, as this process sees it.

`.<prefix>.writing-<id>/` has a directory for each producer (write/parts) and what the examples are like:
`features.json` is that of the first example, and `feature-<hash>.json` tells of one that had no values there.
Whoever is first makes the file, and all others check their examples against it.

Who commits, gives up or takes over renames the directory: then nothing more can be written (core/part_file).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from feedline.column import Bytes
from feedline.records.shard_files import FeatureTexts, feature_texts, features_of
from feedline.write.fitting import Fitting
from feedline.write.parts import PartWriter, refused

_T = TypeVar("_T")
_FEATURES = "features.json"


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
        self._fitting = Fitting()
        self._is_known = False  # every feature, so that nothing is learned any more

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
        if self._is_known or not isinstance(example, Mapping):
            return self._fitting.record(example)
        return self._learning(lambda fitting: fitting.record(example))

    def records(
        self, columns: Mapping[str, Any] | Sequence[bytes] | Bytes
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        if self._is_known or not isinstance(columns, Mapping):
            return self._fitting.records(columns)
        return self._learning(lambda fitting: fitting.records(columns))

    def _learning(self, encode: Callable[[Fitting], _T]) -> _T:
        """Encode by what the other processes know, and let them know what is new."""
        with self._lock:
            fitting = self._fitting
            self._fitting = Fitting()  # for the next example, if this one fails when part of it was learned
            try:
                while True:
                    if fitting.features is None:
                        fitting.features = read_features(self.path)
                    known = None if fitting.features is None else dict(fitting.features)
                    made = encode(fitting)
                    new = _news(known, fitting.features)
                    if not new or _tell(self.path, known is None, new):
                        break
                    fitting = Fitting()  # another process was first: check against that
            except OSError as error:
                raise refused(self.path, error) from error
            self._fitting = fitting
            self._is_known = fitting.features is not None and None not in fitting.features.values()
            return made

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


def read_features(staging: str) -> Any:
    """What all processes of the run know together; None before the first example."""
    known = _read(os.path.join(staging, _FEATURES))
    if known is not None:
        for key in [key for key, feature in known.items() if feature is None]:
            known |= _read(_learned_path(staging, key)) or {}
    return known


def _read(path: str) -> dict[str, Any] | None:
    with suppress(FileNotFoundError), open(path, "rb") as file:
        return features_of(msgspec.json.decode(file.read(), type=FeatureTexts))
    return None


def _news(known: dict[str, Any] | None, features: dict[str, Any] | None) -> dict[str, Any]:
    if features is None or known is None:
        return features or {}
    return {key: feature for key, feature in features.items() if feature is not None and known[key] is None}


def _tell(staging: str, is_first: bool, features: dict[str, Any]) -> bool:
    """False when another process was faster."""
    if is_first:
        return _publish(os.path.join(staging, _FEATURES), features)
    return all([_publish(_learned_path(staging, key), {key: feature}) for key, feature in features.items()])


def _publish(path: str, features: dict[str, Any]) -> bool:
    partial = f"{path}.{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with open(partial, "wb") as file:
            file.write(msgspec.json.encode(feature_texts(features)))
            file.flush()
            os.fsync(file.fileno())  # what is sealed later must be readable with it
        os.link(partial, path)
        return True
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)


def _learned_path(staging: str, key: str) -> str:
    return os.path.join(staging, f"feature-{blake2b(key.encode(), digest_size=16).hexdigest()}.json")
