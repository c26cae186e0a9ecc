"""What it means that the system does not read or write a file, as errors of a store that name the file."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from jdbcstore.errors import StoreError, StoreFull, StoreReadOnly, StoreUnavailable

__all__ = ["reading", "refused", "writing"]


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Let an OSError be a StoreError that names what cannot be read."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot read {what}: {error.strerror or error}") from error


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Let an OSError be a StoreError that names what cannot be written, as `refused` says."""
    try:
        yield
    except OSError as error:
        raise refused(what, error) from error


def refused(what: str, error: OSError) -> StoreError:
    """What it means that the system did not write something: full, read-only, or away."""
    text = f"cannot write {what}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreFull(text)
    return StoreReadOnly(text) if error.errno == errno.EROFS else StoreUnavailable(text)
