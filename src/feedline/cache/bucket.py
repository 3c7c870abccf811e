"""Objects by path in a bucket, through obstore, with errors that say what to do.

A conditional put that failed may have been this process's own, repeated by the client after an answer that
got lost. So where it matters, objects have content that nobody else writes, and what is there is compared.

obstore's calls do not see signals, and never return in a child that was forked after the first one.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from feedline.cache.store import NoRoom, Unavailable
from feedline.errors import CacheError, MissingDependency, UsageError

T = TypeVar("T")
Version = dict[str, str]  # what a store tells versions of an object by
Facts = Mapping[str, Any]  # of an object: path, size, last_modified

# By the first letters of a scheme: how the client's settings are called in the environment.
_SETTINGS = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE", "ab": "AZURE", "ad": "AZURE", "fi": ""}
# These are lost when timeouts are set by a program, so they are handed on.
_HANDED_ON = (
    "allow_http",
    "allow_invalid_certificates",
    "proxy_url",
    "proxy_excludes",
    "proxy_ca_certificate",
)

# What is small must be answered before others take its sender for dead; a part may take its time.
SMALL_SECONDS = 8.0
LARGE_SECONDS = 60.0
# A request that failed is sent again for so long, and so often.
RETRYING_SECONDS = 30.0
RETRIES = 3

_started = False  # obstore's threads
_lost = False


def _forked() -> None:
    global _lost
    _lost = _lost or _started


os.register_at_fork(after_in_child=_forked)


class Denied(CacheError):
    """This process may not do that there."""


class Found(NamedTuple):
    data: Any
    version: Version


class Bucket:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        prefix = _SETTINGS.get(parts.scheme[:2])
        if prefix is None or parts.query:
            raise UsageError(
                f"cache({url.partition('?')[0]!r}): an object store is given as s3://bucket/prefix, "
                "gs://bucket/prefix, az://account/container/prefix or file:///directory; endpoints and "
                "credentials come from the environment."
            )
        self.url = url.rstrip("/")
        self._obstore = _obstore(self.url)
        self._small = self._connect(prefix, SMALL_SECONDS, retrying=SMALL_SECONDS)
        self._large = self._connect(prefix, LARGE_SECONDS, retrying=RETRYING_SECONDS)

    def _connect(self, prefix: str, timeout: float, retrying: float) -> Any:
        from_url = self._obstore.store.from_url
        try:
            if not prefix:
                return from_url(self.url, mkdir=True, automatic_cleanup=True)
            options: dict[str, Any] = {
                "timeout": timedelta(seconds=timeout),
                "connect_timeout": timedelta(seconds=SMALL_SECONDS / 2),
            }
            for name in _HANDED_ON:
                if (value := os.environ.get(f"{prefix}_{name.upper()}")) is not None:
                    options[name] = value
            return from_url(
                self.url,
                client_options=options,
                retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=retrying)},
            )
        except (OSError, ValueError, self._obstore.exceptions.BaseError) as error:
            raise UsageError(f"cache({self.url!r}) cannot be opened: {_brief(error)}.") from error

    # Verbs

    def get(self, path: str) -> Found | None:
        return self._read(self._small, path)

    def get_large(self, path: str) -> Found | None:
        return self._read(self._large, path)

    def _read(self, store: Any, path: str) -> Found | None:
        def read() -> Found:
            answer = self._obstore.get(store, path)
            return Found(answer.bytes(), _version(answer.meta))

        try:
            return self._do(read)
        except FileNotFoundError:
            return None

    def head(self, path: str) -> Facts | None:
        def head() -> Facts:
            facts: Facts = self._obstore.head(self._small, path)
            return facts

        try:
            return self._do(head)
        except FileNotFoundError:
            return None

    def create(self, path: str, data: bytes) -> Version | None:
        """None when there is one. The data is like no other's."""
        try:
            return self._put(self._small, path, data, "create")
        except self._conflicts:
            return self._own(path, data)

    def replace(self, path: str, data: bytes, version: Version) -> Version | None:
        """None when it is no longer that version. The data is like no other's."""
        try:
            return self._put(self._small, path, data, version)
        except self._conflicts:
            return self._own(path, data)
        except FileNotFoundError:
            return None
        except NotImplementedError:
            # Files: of two who replace the same version in the same moment, both may believe that they did.
            found = self.head(path)
            return self.overwrite(path, data) if found is not None and _version(found) == version else None

    def _own(self, path: str, data: bytes) -> Version | None:
        found = self.get(path)
        return found.version if found is not None and bytes(found.data) == data else None

    def overwrite(self, path: str, data: bytes) -> Version:
        return self._put(self._small, path, data, "overwrite")

    def create_large(self, path: str, data: bytes) -> bool:
        """False when there is one."""
        try:
            self._put(self._large, path, data, "create")
        except self._conflicts:
            return False
        return True

    def _put(self, store: Any, path: str, data: bytes, mode: str | Version) -> Version:
        def put() -> Version:
            return _version(self._obstore.put(store, path, data, mode=mode, use_multipart=False))

        try:
            return self._do(put)
        except FileNotFoundError as error:
            if mode == "create" or mode == "overwrite":
                raise self._no_bucket() from error
            raise

    def delete(self, paths: Sequence[str]) -> None:
        """Those that are there."""

        def delete() -> None:
            try:
                self._obstore.delete(self._large, paths)
            except FileNotFoundError:  # files, gs:// and az:// tell of the first that is not there, and stop
                for path in paths:
                    with suppress(FileNotFoundError):
                        self._obstore.delete(self._large, path)

        if paths:
            self._do(delete)

    def all_below(self, prefix: str) -> Sequence[Facts]:
        found: Sequence[Facts] = self._do(lambda: self._obstore.list(self._large, prefix).collect())
        return found

    def folders(self, prefix: str) -> list[str]:
        """The names of those right below it, of which some may be empty."""
        found = self._do(lambda: self._obstore.list_with_delimiter(self._large, prefix))
        return [path.rpartition("/")[2] for path in found["common_prefixes"]]

    # Errors

    @property
    def _conflicts(self) -> tuple[type[Exception], ...]:
        return self._obstore.exceptions.AlreadyExistsError, self._obstore.exceptions.PreconditionError

    def check_fork(self) -> None:
        if _lost:
            raise Unavailable(
                f"{self.url}: this process was forked from one that uses object stores, and cannot use any.\n"
                "  Fork before the cache is opened, or start processes in another way "
                '(multiprocessing.get_context("spawn")).\n'
                '  To go on without the cache:  cache(..., on_unavailable="compute")'
            )

    def _do(self, call: Callable[[], T]) -> T:
        global _started
        self.check_fork()
        _started = True
        try:
            return _interruptible(call)
        except (FileNotFoundError, NotImplementedError):
            raise
        except (OSError, self._obstore.exceptions.BaseError) as error:
            if isinstance(error, self._conflicts):
                raise
            raise self._told(error) from error

    def _told(self, error: Exception) -> CacheError:
        exceptions = self._obstore.exceptions
        brief = _brief(error)
        status = re.search(r"status code: (\d+)", brief)
        code = int(status[1]) if status is not None else 0
        if "169.254.169.254" in brief or "metadata.google.internal" in brief:
            return Denied(
                f"{self.url}: no credentials were found.\n"
                "  Set them in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY)."
            )
        denied = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
        if (
            isinstance(error, denied)
            or code in (401, 403)
            or re.search(r"AccessDenied|os error (1|13|30)\)", brief)
        ):
            return Denied(
                f"{self.url}: this process may not do that there: {brief}.\n"
                "  Look at the credentials in the environment and at what they permit: a cache gets, puts, "
                "deletes and lists objects."
            )
        if code == 404:
            return self._no_bucket()
        if code == 507 or re.search(r"os error (28|122)\)|QuotaExceeded|StorageFull", brief):
            return NoRoom(f"{self.url}: nothing more can be kept here: {brief}.")
        return Unavailable(
            f"{self.url}: the object store does not answer as it should: {brief}.\n"
            "  Look at the network and at the endpoint in the environment (AWS_ENDPOINT_URL, and without TLS "
            "AWS_ALLOW_HTTP=true).\n"
            '  To go on without the cache:  cache(..., on_unavailable="compute")'
        )

    def _no_bucket(self) -> CacheError:
        return CacheError(f"{self.url}: there is no such bucket. Make it first, or use another.")


def _obstore(url: str) -> Any:
    try:
        return import_module("obstore")
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise  # it is installed, and lacks something itself
        raise MissingDependency(
            f"{url}: object stores are reached by obstore, which is not installed.\n"
            "  To install it:  pip install 'feedline[s3]'",
            name="obstore",
        ) from None


def _version(facts: Facts) -> Version:
    return {name: facts[name] for name in ("e_tag", "version") if facts[name] is not None}


def _brief(error: Exception) -> str:
    """Its first lines, without what a URL may have as a signature; obstore adds a dump of its structures."""
    text = str(error).partition("\n\nDebug source")[0]
    return re.sub(r"(https?://[^\s?]*)\?\S*", r"\1", " ".join(text.split()))[:500].rstrip(". ")


def _interruptible(call: Callable[[], T]) -> T:
    """In the main thread, where signals arrive, only wait for it. After Ctrl-C it goes on unseen."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    result: Future[T] = Future()

    def run(result: Future[T]) -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)
        finally:
            del result  # an error has this frame, and with it would have itself

    try:
        threading.Thread(target=run, args=(result,), name="feedline-request", daemon=True).start()
    except RuntimeError:  # the interpreter is ending
        return call()
    try:
        return result.result()
    finally:
        del result  # likewise, and all that the callers have would stay until the next garbage collection
