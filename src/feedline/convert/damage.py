"""What libraries raise when a file's bytes are damaged, as one error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EINVAL

from feedline.errors import CorruptRecord, FeedlineError


@contextmanager
def located(path: str, format: str) -> Iterator[None]:
    """In the block, nothing is done but to read this file.

    There is no list of what zipfile, numpy and pyarrow raise: UnicodeDecodeError, TokenError, OSError without
    a number, or with that of a seek to nowhere.
    """
    try:
        yield
    except (FeedlineError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, EINVAL):
            raise  # the system's word, not the file's
        reason = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        raise CorruptRecord(
            f"it is no sound {format} file: {reason}",
            path=path,
            remedy="Save it again, or copy it again from where it came.",
        ) from error
