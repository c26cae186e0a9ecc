"""Journal files that are written: all that an `Appender` does to the disk, in one place, so that a test can watch it.

The methods raise `OSError` as the system does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["Disk", "DiskFile"]

_NEW_FILE_MODE: Final = 0o644
#: How many zeros are written at once.
_CHUNK_BYTES: Final = 1 << 20


class DiskFile:
    """An open file.

    Args:
        path: where it is.
        create: make it; an error if it is there.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path: Final = path
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        self._descriptor = os.open(path, flags, _NEW_FILE_MODE)

    def size(self) -> int:
        """Its length in bytes."""
        return os.fstat(self._descriptor).st_size

    def write(self, data: bytes | bytearray, offset: int) -> None:
        """Write all of it at this offset. Where this fails some of it may be written."""
        written = os.pwrite(self._descriptor, data, offset)
        while written < len(data):  # the disk became full, which the next write tells
            written += os.pwrite(self._descriptor, memoryview(data)[written:], offset + written)

    def truncate(self, size: int) -> None:
        """Make it so long; what is added reads as zeros and takes no room."""
        os.ftruncate(self._descriptor, size)

    def reserve(self, size: int) -> None:
        """Make it at least so long, with room on the disk for all of it; what is added reads as zeros."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._descriptor, 0, size)
        else:
            self.write_zeros(size)

    def write_zeros(self, size: int, chunk_bytes: int = _CHUNK_BYTES) -> None:
        """Write zeros from its beginning on, some at a time."""
        zeros = bytes(chunk_bytes)
        for offset in range(0, size, chunk_bytes):
            self.write(zeros[: size - offset], offset)

    def sync(self) -> None:
        """Return when everything that was written survives a power failure."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(self._descriptor)
        else:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go of it. Nothing is forced to the disk."""
        os.close(self._descriptor)


class Disk:
    """A directory in which files are written.

    Args:
        directory: it exists.
    """

    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory

    def open(self, name: str, *, create: bool = False) -> DiskFile:
        """Open a file for writing."""
        return DiskFile(self.directory / name, create=create)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.directory / name).unlink()

    def sync(self) -> None:
        """Return when the names of new files survive a power failure."""
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
