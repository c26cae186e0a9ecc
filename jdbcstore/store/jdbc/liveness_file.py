"""Whether the holder of a lease is known to be dead, so that nobody has to wait for the lease to run out.

A holder keeps, for as long as its process lives, an exclusive lock (flock) on a small file that is named by its id. The
kernel lets go of the lock when the process has ended, and not before. So who finds the file of a holder and gets a
lock on it knows: that process has ended, on this very machine, or has given up; nobody will write in this name again.

Why this cannot take a living one for dead:

* **A process that is stopped, swapped out or hung keeps its locks.** There is no timeout in it. Its lease is waited
  for as ever.
* **The file is there and locked before the row names its holder**, and the lock is let go of only when the holder has
  given up that name for good, all being written and closed: each mastership has another.
* **A child does not keep the lock, and cannot let go of it.** The descriptor closes on exec (O_CLOEXEC), and when a
  child is forked (`jdbcstore.descriptors`); the lock is gone when the process itself has closed it. A child that was
  forked by something else than Python keeps the lock: then the dead one passes for alive, and the lease is waited for.
* **No file means: wait.** The holder runs on another machine, in another container, as another user, it is a Java
  broker, a tidy-up has removed the file, or the machine has started anew: nothing is known of it. The name of the file
  depends on the running kernel, so that a temporary folder that two machines share shows neither the other's files,
  whose locks it may not see.
* **Nobody else can plant a file.** The folder is the user's own and closed to others, or it is not used.

And should all of this be wrong, the old master writes nothing more all the same: the takeover changes the row that
each of its commits proves, and ends its sessions.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import platform
import stat
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Final

from jdbcstore.descriptors import keep_from_children

if sys.platform != "win32":  # there nobody has such a file, and every lease is waited for
    import fcntl

__all__ = ["LivenessFile", "forget", "is_dead"]

log = logging.getLogger(__name__)

#: So old is no file that was made just now and is about to be locked, nor one whose lease is worth waiting for.
_LEFT_S: Final = 24 * 3600
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class LivenessFile:
    """The sign of life of this process under one holder's id: from construction until `stop`, or its death.

    When there can be none (another platform, a folder that is not safe, a file system without locks), that is logged,
    and others wait for the lease.
    """

    def __init__(self, holder: str) -> None:
        self._path: Path | None = None
        self._descriptor = -1
        if sys.platform == "win32":
            return
        keep_from_children(self)
        try:
            path = _file_of(holder, creates=True)
            _tidy_up(path.parent)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            self._path = path
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            log.info("no sign of life, others will wait for the end of the lease error=%r", str(error))
            self.stop()

    def own_descriptors(self) -> tuple[int, ...]:
        """Of the file, for `jdbcstore.descriptors`."""
        return () if self._descriptor < 0 else (self._descriptor,)

    def stop(self, *, as_dead: bool = False) -> None:
        """Not the holder any more.

        Args:
            as_dead: leave what a process leaves that has ended: the row could not be told, and may name us still. Else
                the file goes, and before the lock, so that nobody finds it and takes us for dead.
        """
        path, self._path = self._path, None
        descriptor, self._descriptor = self._descriptor, -1
        if path is not None and not as_dead:
            with contextlib.suppress(OSError):
                path.unlink()
        if descriptor >= 0:
            os.close(descriptor)


def is_dead(holder: str) -> bool:
    """Whether a holder's process is known to have ended. False also when nothing is known."""
    if sys.platform == "win32":
        return False
    try:
        return _is_left_behind(_file_of(holder, creates=False))
    except OSError:
        return False


def forget(holder: str) -> None:
    """Remove what a dead holder left."""
    if is_dead(holder):
        _file_of(holder, creates=False).unlink(missing_ok=True)


def _is_left_behind(file: Path) -> bool:
    """Whether nobody has the lock of a file. Raises `OSError` when there is no such file."""
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # A shared lock: others may be asking just now, and must not look like the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@cache  # once in a process: a look at each file of many takes longer than to become master
def _tidy_up(folder: Path) -> None:
    """Remove what others left that were killed and that nobody asked about since: standbys, say."""
    for file in folder.iterdir():
        with contextlib.suppress(OSError):  # another one is tidying up
            if time.time() - file.lstat().st_mtime > _LEFT_S and _is_left_behind(file):
                file.unlink()


def _file_of(holder: str, *, creates: bool) -> Path:
    """Where the file of a holder is on this machine.

    Raises:
        OSError: there is no folder for it, or one that others may write to.
    """
    folder = Path(tempfile.gettempdir()) / f"jdbcstore-{os.getuid()}"
    if creates:
        folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{folder} is not a folder of our own with mode 0700: remove it")
    return folder / hashlib.sha256(f"{_machine()} {holder}".encode()).hexdigest()[:40]


@cache
def _machine() -> str:
    """The kernel that runs now, unlike any other's; at least the machine's name."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return platform.node()
