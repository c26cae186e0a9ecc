"""Who is master of a directory: a lock of the system on its file ``lock``, the one that Java brokers take.

Java locks the first bytes of the file, all of them when it begins, at least one. So does this module, with a lock that
goes from the first byte to the end of all files; a Java broker and ours exclude each other. The system releases the
lock when the process ends, so no lease runs out and nobody waits for a crashed master.

**Traps of these locks.** A POSIX lock belongs to the process: a second adapter in it would get it too, and closing the
file anywhere in it, even after a mere look, gives the lock up. So the lock is one of the open file (``F_OFD_SETLK`` of
Linux), which excludes POSIX locks and is excluded by them, and has neither trap. Where there is none, on BSD and macOS,
it is taken with ``flock``, which there knows of POSIX locks as well.

The lock says nothing when the file is replaced: then another broker locks the new one. So each commit proves that the
file of that name is still the locked one and that nobody has written to it (`SharedFileLocker.prove`). Java's
``lockKeepAlivePeriod`` does the same now and then.

In the file stand eight bytes, the time, as Java writes them (it never reads them), and behind them our term and holder.
A standby writes nothing: a Java master takes a change of the file for a lost lock.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from jdbcstore.errors import LeaseLost, LockHeld, StoreUnavailable
from jdbcstore.store.contract import Locker, LockStatus
from jdbcstore.store.disk import make_directory, make_file, mode_like, rewrite
from jdbcstore.store.lease import FOREVER_NS, Clock, Lease, LockerOptions, boot_time_ns

__all__ = ["LOCK_FILE", "SharedFileLocker"]

log = logging.getLogger(__name__)

#: ActiveMQ's name for it.
LOCK_FILE: Final = "lock"
_TIME: Final = struct.Struct(">q")
_CONTENT_MAX: Final = 1024
#: How often a standby that waits looks whether the lock is free.
_LOOK_S: Final = 0.1
#: struct flock of Linux: type, whence, start, length, process.
_FLOCK: Final = struct.Struct("@hhqqi")
_OFD_SET: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)
_OFD_GET: Final[int | None] = getattr(fcntl, "F_OFD_GETLK", None)


class _Content(NamedTuple):
    """What stands in the file."""

    term: int = 0
    holder: str | None = None
    """None if our last master released it, or a Java broker was master since."""

    @classmethod
    def read(cls, data: bytes) -> _Content:
        """Anything else is a Java broker's."""
        parts = data[_TIME.size :].decode("utf-8", "replace").split("\n")[0].split(" ", 3)
        if len(parts) != 4 or parts[0] != "jdbcstore" or not (parts[1] + parts[2]).isdecimal():
            return cls()
        is_ours = data[: _TIME.size] == _TIME.pack(int(parts[2]))
        return cls(int(parts[1]), parts[3] if is_ours and parts[3] else None)

    def written(self) -> bytes:
        """The bytes of the file."""
        now_ms = time.time_ns() // 1_000_000
        return _TIME.pack(now_ms) + f"jdbcstore {self.term} {now_ms} {self.holder or ''}\n".encode()


class SharedFileLocker(Locker):
    """Lets one broker at most write to a directory, Java brokers counted.

    Args:
        directory: of the store; made if it is not there.
        options: a standby looks every `LockerOptions.lock_acquire_sleep_interval_ms`. With a
            `LockerOptions.lock_keep_alive_period_ms` the master looks as often whether the lock is still its own; with
            0 only its commits do. There is no lease that runs out.
        clock: see `Clock`.
        file_pattern: names of the store's files, with wildcards: a new file of the lock gets the mode of the newest.
    """

    def __init__(
        self,
        directory: Path | str,
        options: LockerOptions | None = None,
        clock: Clock = boot_time_ns,
        *,
        file_pattern: str = LOCK_FILE,
    ) -> None:
        self.options = options or LockerOptions()
        self.path: Final = Path(directory) / LOCK_FILE
        self._name: Final = os.fspath(self.path)
        self._clock = clock
        self._file_pattern = file_pattern
        self._busy = threading.RLock()
        self._descriptor: int | None = None
        self._content = b""
        self._lease: Lease | None = None

    @property
    def lease(self) -> Lease | None:
        return self._lease

    def acquire(self) -> int | None:
        with self._busy:
            if self._lease is not None:
                self.renew()
                return self._lease.term
            with self._asking():
                term = self._take()
            if term is None and self.options.fail_if_locked:
                raise self.held_by_another()
            return term

    def _take(self) -> int | None:
        make_directory(self.path.parent)
        descriptor = make_file(self.path, mode_like(self.path.parent, self._file_pattern))
        try:
            if not _locked(descriptor) or not self._is_file_of(descriptor):  # it may have been replaced just now
                os.close(descriptor)
                return None
            term = _Content.read(os.pread(descriptor, _CONTENT_MAX, 0)).term + 1
            holder = f"{self.options.lease_holder_id}-{secrets.token_hex(6)}"
            self._write(descriptor, _Content(term, holder))
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        has_to_ask = self.options.lock_keep_alive_period_ms > 0
        self._lease = Lease(holder, term, self._clock(), FOREVER_NS - 1 if has_to_ask else FOREVER_NS)
        log.info("became master holder=%s term=%d lock=%s", holder, term, self.path)
        return term

    def held_by_another(self) -> LockHeld:
        """What to tell who cannot wait: who is master, and what to do."""
        return LockHeld(
            f"{self.path} is locked by {self.status().holder or 'somebody who released it just now'}: stop that broker,"
            " or let this one wait (failIfDatabaseIsLocked=false)"
        )

    def renew(self) -> None:
        with self._busy:
            self.prove()
            assert self._lease is not None
            self._lease = replace(self._lease, asked_ns=self._clock())

    def prove(self) -> None:
        """Make sure that we are still master; every commit asks. Takes a few microseconds.

        Raises:
            LeaseLost: we are not: the file was removed, replaced or written by somebody else. `lease` is None from now
                on.
            StoreUnavailable: the file cannot be looked at.
        """
        with self._busy:
            if self._descriptor is None:
                raise LeaseLost(f"{self.path} is not locked by us")
            try:  # twice in every commit: without `_asking`, which costs more than the system calls
                is_there = self._is_file_of(self._descriptor)
                is_unchanged = os.pread(self._descriptor, _CONTENT_MAX, 0) == self._content
            except OSError as error:
                raise self._not_asked(error) from error
            if not is_there or not is_unchanged:
                self._let_go()
                raise LeaseLost(
                    f"{self.path} was {'written by somebody else' if is_there else 'removed or replaced'}: another"
                    " broker may be master"
                )

    def hold(self) -> Callable[[], object]:
        """Keep others out for as long as we may still be writing, also beyond `release`.

        Returns:
            What to call in the end, once.

        Raises:
            LeaseLost: we are not master.
        """
        with self._busy:
            if self._descriptor is None:
                raise LeaseLost(f"{self.path} is not locked by us")
            copy = os.dup(self._descriptor)  # the lock is that of the open file, which goes with the last descriptor
        return lambda: os.close(copy)

    def release(self) -> None:
        with self._busy:
            lease, descriptor = self._lease, self._descriptor
            if lease is None or descriptor is None:
                return
            try:
                if self._is_file_of(descriptor):
                    self._write(descriptor, _Content(lease.term, None))
            except OSError as error:  # who waits cares for the lock alone
                log.warning("cannot note the release in %s error=%r", self.path, str(error))
            self._let_go()

    def _let_go(self) -> None:
        descriptor, self._descriptor, self._lease = self._descriptor, None, None
        if descriptor is not None:
            os.close(descriptor)

    def wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                if self._look()[0] is None:
                    return
            except OSError as error:
                log.debug("cannot look at %s error=%r", self.path, str(error))
            time.sleep(min(_LOOK_S, left_s))

    def status(self) -> LockStatus:
        with self._asking():
            process, content = self._look()
        if process is None:
            return LockStatus(None, content.term, None)
        name = f"process {process}" if process > 0 else "a broker that does not tell its name"
        return LockStatus(content.holder or name, content.term, None)

    # -- the file ------------------------------------------------------------------------------------------------

    def _look(self) -> tuple[int | None, _Content]:
        """Which process has the lock (None if nobody has, 0 if it is not known), and what stands in the file."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None, _Content()
        try:
            return _holder(descriptor), _Content.read(os.pread(descriptor, _CONTENT_MAX, 0))
        finally:
            os.close(descriptor)

    def _is_file_of(self, descriptor: int) -> bool:
        """Whether the open file is still the one of this name."""
        try:
            there = os.stat(self._name)
        except FileNotFoundError:
            return False
        held = os.fstat(descriptor)
        return there.st_ino == held.st_ino and there.st_dev == held.st_dev

    def _write(self, descriptor: int, content: _Content) -> None:
        data = content.written()
        rewrite(descriptor, data)
        self._content = data

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._not_asked(error) from error

    def _not_asked(self, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(f"cannot lock {self.path}: {error.strerror or error}")


def _locked(descriptor: int) -> bool:
    """Try to lock; whether it is ours."""
    try:
        if _OFD_SET is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            fcntl.fcntl(descriptor, _OFD_SET, _whole_file(fcntl.F_WRLCK))
    except (BlockingIOError, PermissionError):  # POSIX allows both
        return False
    return True


def _holder(descriptor: int) -> int | None:
    """Which process has the lock, 0 if that is not known; None if it is free."""
    if _OFD_GET is None:
        if not _locked(descriptor):
            return 0
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return None
    kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, _OFD_GET, _whole_file(fcntl.F_WRLCK)))
    return None if kind == fcntl.F_UNLCK else max(process, 0)


def _whole_file(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)
