"""Talking to a Redis server: every wait ends, and errors say what to do.

A command that finds the connection broken is sent once more, for the server may have been restarted: so a
script may run twice, and must not mind.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import SplitResult, urlsplit

from feedline.cache.store import NoRoom, Unavailable
from feedline.errors import CacheError, MissingDependency, UsageError

# For each wait, unless the URL says otherwise.
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0

# What a server says that takes nothing now. redis-py knows some of it; in a script it is said differently.
_TAKES_NOTHING = re.compile(r"\b(OOM|READONLY|MISCONF|NOREPLICAS|NOPERM)\b|user executing the script can't")


class RedisClient:
    def __init__(self, url: str) -> None:
        """Does not connect yet."""
        self._redis = _redis()
        self.location = _shown(_checked(url))
        try:
            self._client = self._redis.Redis.from_url(
                url.removeprefix("redis+"),
                socket_connect_timeout=CONNECT_SECONDS,
                socket_timeout=ANSWER_SECONDS,
                retry=self._redis.retry.Retry(
                    self._redis.backoff.NoBackoff(), 1, (self._redis.exceptions.ConnectionError,)
                ),
                protocol=2,  # which old servers speak too
            )
            pool = self._client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # refuses what it does not know
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.location}: an option in the URL cannot be meant: {error}.") from None
        self._scripts: dict[str, Any] = {}

    def call(self, command: str, *arguments: Any) -> Any:
        """A method of redis-py's client."""
        with self._errors():
            return getattr(self._client, command)(*arguments)

    def run(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        with self._errors():
            if script not in self._scripts:
                self._scripts[script] = self._client.register_script(script)
            return self._scripts[script](keys=keys, args=arguments)

    def call_all(self, *commands: Sequence[Any]) -> list[Any]:
        """Several, as they are sent, in one go; others may come between."""
        with self._errors(), self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            answers: list[Any] = pipeline.execute()
            return answers

    def scan(self, pattern: str) -> set[bytes]:
        with self._errors():
            return set(self._client.scan_iter(match=pattern, count=1000))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        redis = self._redis.exceptions
        try:
            yield
        except (redis.AuthenticationError, redis.AuthorizationError) as error:
            raise CacheError(
                f"{self.location}: Redis refuses the name or the password: {str(error).rstrip('.')}.\n"
                "  They stand in the URL:  redis://[NAME]:PASSWORD@HOST:PORT/DB"
            ) from error
        except redis.TimeoutError as error:
            raise self._unavailable(
                f"Redis does not answer in time: {error}",
                "Is the server overloaded, or far away? To wait longer:  redis://...?socket_timeout=60",
            ) from error
        except redis.ConnectionError as error:
            self._check_certificate(error)
            raise self._unavailable(
                f"Redis cannot be reached: {error}",
                "Is redis-server running there?  redis-cli -h HOST -p PORT ping",
            ) from error
        except redis.RedisError as error:
            text = str(error).rstrip(".")
            known = (redis.OutOfMemoryError, redis.ReadOnlyError, redis.NoPermissionError)
            if isinstance(error, known) or _TAKES_NOTHING.search(text):
                raise NoRoom(
                    f"{self.location}: Redis takes nothing more from this process: {text}.\n"
                    "  Look at maxmemory, the rights of the user and the role of the server:  redis-cli INFO"
                ) from error
            raise CacheError(f"{self.location}: Redis refuses a command: {text}.") from error
        except BaseException:
            # An interrupt, say. The answer may come yet, and must not be taken for that to the next one.
            self._client.connection_pool.disconnect(inuse_connections=False)
            raise

    def _unavailable(self, what: str, remedy: str) -> Unavailable:
        return Unavailable(
            f"{self.location}: {what.rstrip('.')}.\n"
            f"  {remedy}\n"
            '  To go on without the cache when it is away:  cache(..., on_unavailable="compute")'
        )

    def _check_certificate(self, error: BaseException | None) -> None:
        while error is not None:
            if isinstance(error, ssl.SSLCertVerificationError):
                raise CacheError(
                    f"{self.location}: the server's certificate is not trusted: {error.verify_message}.\n"
                    "  Where a private authority signed it:  rediss://...?ssl_ca_certs=/path/to/ca.pem"
                ) from error
            error = error.__context__


def _redis() -> Any:
    try:
        return import_module("redis")
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise  # it is installed, and lacks something itself
        raise MissingDependency(
            "a cache at redis:// needs the redis package, which is not installed.\n"
            "  To install it:  pip install 'feedline[redis]'",
            name="redis",
        ) from None


def _checked(url: str) -> SplitResult:
    """Its parts. redis-py takes a database that is no number for 0."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme == "redis+unix":
        sound = not host and len(parts.path) > 1
    else:
        sound = re.fullmatch(r"([\w.-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?", host) is not None
        sound = sound and re.fullmatch(r"/?|/\d+", parts.path) is not None
    if not sound:
        # It is not shown: where it is wrong, a password may be anywhere in it.
        raise UsageError(
            "cache(...): this is not the URL of a cache in Redis.\n"
            "  It is  redis://[[NAME]:PASSWORD@]HOST[:PORT][/DB],  with TLS rediss://,  or on this host\n"
            "  redis+unix:///path/to/socket[?db=DB]\n"
            "  In a password, write characters like @ : / ? # as %40 %3A %2F %3F %23."
        )
    return parts


def _shown(parts: SplitResult) -> str:
    """Without the password, and without the options, which may hold one."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
