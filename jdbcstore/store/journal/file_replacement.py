"""A file in the place of another: after a crash there is the one or the other, whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jdbcstore.store.disk import DiskFile, mode_like, move, remove

__all__ = ["replaced_file"]

_SUFFIX: Final = ".jdbcstore"


@contextmanager
def replaced_file(path: Path, pattern: str) -> Iterator[DiskFile]:
    """A new file to be written, which gets the name of another one, or of none, when it is on the disk.

    Args:
        path: of the other one.
        pattern: files whose mode it gets, that of the newest.

    Raises:
        OSError: the disk refuses; the old one is what it was.
    """
    new = path.with_name(path.name + _SUFFIX)
    remove(new)  # of a start that was killed
    file = DiskFile(new, create=True, mode=mode_like(path.parent, pattern))
    try:
        try:
            yield file
            file.sync()
        finally:
            file.close()
    except BaseException:
        remove(new)
        raise
    move(new, path)
