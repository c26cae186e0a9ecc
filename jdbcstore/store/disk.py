"""Every change that our stores make to files and directories: written, forced, renamed, removed here and nowhere else.

One place, so that a test can record it, leave out a force, and look at everything that a power failure could leave.
(SQLite writes its own files; of them only the making and the removing is here.)

**What survives a power failure** is what was forced. A write needs `DiskFile.sync`; a name that was made, changed or
removed needs the directory that it stands in to be forced, and so does the name of a new directory.

**Who may read it.** Messages are nobody else's business: new files are 0600, new directories 0700. A directory that is
there already keeps its ways: `mode_like` gives a new file the mode of its neighbours, since a Java broker of another
user may have to read it. What root makes belongs to the owner of the directory in which it is made, for the same
reason.

The functions raise `OSError` as the system does.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = [
    "Disk",
    "DiskFile",
    "bytes_in",
    "force_directory",
    "force_file",
    "force_tree",
    "make_directory",
    "make_file",
    "mode_like",
    "move",
    "remove",
    "remove_tree",
    "rewrite",
]

_FILE_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700
#: How many zeros are written at once.
_CHUNK_BYTES: Final = 1 << 20


class DiskFile:
    """An open file.

    Args:
        path: where it is.
        create: make it; an error if it is there.
        mode: of a new one.
    """

    def __init__(self, path: Path, *, create: bool, mode: int = _FILE_MODE) -> None:
        self.path: Final = path
        if create:
            self._descriptor = _created(path, os.O_EXCL, mode)
        else:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def size(self) -> int:
        """Its length in bytes."""
        return os.fstat(self._descriptor).st_size

    def read(self, size: int, offset: int) -> bytes:
        """Up to so many bytes from this offset on."""
        return os.pread(self._descriptor, size, offset)

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
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
        """Return when everything that was written survives a power failure.

        When this fails, what was not forced before may be on the disk or not, and the system has forgotten that it is
        not: forcing again answers that all is well. It has to be written again first.
        """
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
        directory: it exists when the first file is opened.
    """

    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory
        #: Of new files.
        self.mode = _FILE_MODE

    def open(self, name: str, *, create: bool = False) -> DiskFile:
        """Open a file for writing."""
        return DiskFile(self.directory / name, create=create, mode=self.mode)

    def remove(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self.directory / name)

    def sync(self) -> None:
        """Return when the names of files survive a power failure: of new ones that they are there."""
        force_directory(self.directory)


def _created(path: Path, flags: int, mode: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, mode)
    try:
        _hand_over(descriptor, path.parent)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _hand_over(made: int | Path, parent: Path) -> None:
    """What root makes belongs to whom the directory belongs."""
    if os.geteuid() == 0:
        owner = os.stat(parent)
        if owner.st_uid:
            os.chown(made, owner.st_uid, owner.st_gid)


def make_file(path: Path, mode: int = _FILE_MODE) -> int:
    """Open a file to read and write, and make it if it is not there.

    Returns:
        Its descriptor, which the caller closes.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return _created(path, 0, mode)


def make_directory(path: Path) -> None:
    """Make a directory and those above it, unless they are there; who is told so finds it after a power failure."""
    missing = []
    above = path
    while not above.exists():
        missing.append(above)
        above = above.parent
    if not missing and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    for one in reversed(missing):
        try:
            os.mkdir(one, _DIRECTORY_MODE)
        except FileExistsError:  # somebody else has just made it
            if not one.is_dir():
                raise
        else:
            _hand_over(one, one.parent)
        force_directory(one.parent)


def force_directory(path: Path) -> None:
    """Return when the names in a directory are on the disk as they are now."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def force_tree(path: Path, mode: int = _DIRECTORY_MODE) -> None:
    """Return when a directory that somebody else wrote, all that is in it, and its name are on the disk.

    Args:
        path: the directory.
        mode: it and those in it get this one, files the same without the right to execute.
    """
    for folder, _, names in os.walk(path):
        for name in names:
            _force_file(Path(folder) / name, mode)
        os.chmod(folder, mode)
        force_directory(Path(folder))
    os.chmod(path.parent, mode)
    force_directory(path.parent)


def force_file(path: Path, mode: int = _DIRECTORY_MODE) -> None:
    """The same of a file and its directory."""
    _force_file(path, mode)
    os.chmod(path.parent, mode)
    force_directory(path.parent)


def _force_file(path: Path, mode: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, mode & 0o666)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rewrite(descriptor: int, data: bytes) -> None:
    """Give an open file this content, and force it: others see it, also over a network."""
    os.pwrite(descriptor, data, 0)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def move(path: Path, target: Path) -> None:
    """Give a file or a directory another name, and force that to the disk: at no time is it without a name."""
    os.rename(path, target)
    force_directory(target.parent)
    if path.parent != target.parent:
        force_directory(path.parent)


def remove(path: Path) -> bool:
    """Remove a file; whether it was there. Its directory is to be forced by the caller, if somebody relies on it."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def remove_tree(path: Path) -> None:
    """Remove a directory and all that is in it, if it is there. Nothing is forced."""
    try:
        entries = list(os.scandir(path))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            remove_tree(Path(entry.path))
        else:
            os.unlink(entry.path)
    os.rmdir(path)


def bytes_in(directories: Iterable[Path]) -> int:
    """What the files in these directories and below them are long, each once; those that go meanwhile do not count."""
    found: dict[Path, int] = {}
    for directory in directories:
        for folder, _, names in os.walk(directory):
            for name in names:
                with suppress(OSError):
                    path = Path(folder, name)
                    found[path] = path.stat().st_size
    return sum(found.values())


def mode_like(directory: Path, pattern: str) -> int:
    """The mode of new files in a directory: that of the newest one there is.

    Args:
        directory: need not be there.
        pattern: which files, with wildcards.

    Returns:
        0600 if there is none.
    """
    found = [path.stat() for path in directory.glob(pattern)]
    newest = max(found, key=lambda one: one.st_mtime_ns, default=None)
    return _FILE_MODE if newest is None else stat.S_IMODE(newest.st_mode) & 0o666 | _FILE_MODE
