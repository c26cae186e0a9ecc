"""What the contract suite of lockers does not ask: other processes, and what may happen to the file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jdbcstore.errors import LeaseLost, LockHeld, StoreUnavailable
from jdbcstore.store.contract import LockStatus
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.shared_file_lock import LOCK_FILE, SharedFileLocker
from jdbcstore.store.lease import FOREVER_NS, LockerOptions

#: Locks the first byte as Java does, says so, and waits for its end.
AS_JAVA = """
import fcntl, os, struct, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, max(1, os.fstat(lock).st_size), 0)
os.pwrite(lock, struct.pack(">q", 1700000000000), 0)
print("locked", flush=True)
sys.stdin.read()
"""


def process(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_a_process_that_locks_as_java_does_keeps_us_out_until_it_is_killed(tmp_path: Path) -> None:
    other = process(AS_JAVA, str(tmp_path / LOCK_FILE))
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == "locked\n"
    locker = SharedFileLocker(tmp_path)
    before = (tmp_path / LOCK_FILE).stat().st_mtime_ns
    assert locker.acquire() is None
    locker.wait(0.05)
    assert locker.status() == LockStatus(f"process {other.pid}", 0, None)
    # A Java master takes a change for the loss of its lock.
    assert (tmp_path / LOCK_FILE).stat().st_mtime_ns == before
    with pytest.raises(LockHeld, match=f"process {other.pid}: stop that broker"):
        SharedFileLocker(tmp_path, LockerOptions(fail_if_locked=True)).acquire()
    other.kill()
    other.wait()
    other.stdin.close()
    other.stdout.close()
    assert locker.acquire() == 1
    locker.release()


def test_we_keep_others_out_although_the_process_opens_and_closes_the_file(tmp_path: Path) -> None:
    """With a POSIX lock the closing would give it up."""
    locker = SharedFileLocker(tmp_path)
    assert locker.acquire() == 1
    (tmp_path / LOCK_FILE).read_bytes()
    assert SharedFileLocker(tmp_path).acquire() is None
    with process(AS_JAVA, str(tmp_path / LOCK_FILE)) as other:
        assert other.wait() == 1
    locker.release()
    with process(AS_JAVA, str(tmp_path / LOCK_FILE)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"


def test_who_was_killed_is_nobody(tmp_path: Path) -> None:
    code = (
        "import sys; from jdbcstore.store.journal.shared_file_lock import SharedFileLocker;"
        " locker = SharedFileLocker(sys.argv[1]); print(locker.acquire(), flush=True); sys.stdin.read()"
    )
    with process(code, str(tmp_path)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "1\n"
        locker = SharedFileLocker(tmp_path)
        status = locker.status()
        assert (status.term, str(status.holder)[:10]) == (1, "jdbcstore-")
        other.kill()
        other.wait()
    assert locker.status() == LockStatus(None, 1, None)
    assert locker.acquire() == 2
    locker.release()


def test_a_java_broker_in_between_is_not_taken_for_us(tmp_path: Path) -> None:
    locker = SharedFileLocker(tmp_path)
    locker.acquire()
    locker.release()
    with process(AS_JAVA, str(tmp_path / LOCK_FILE)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        assert locker.status() == LockStatus(f"process {other.pid}", 1, None)
    assert locker.acquire() == 2
    locker.release()


def _written(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(8))


def _replaced(path: Path) -> None:
    path.with_name("new").write_bytes(path.read_bytes())
    path.with_name("new").rename(path)


@pytest.mark.parametrize(
    ("change", "why"),
    [(Path.unlink, "removed or replaced"), (_replaced, "removed or replaced"), (_written, "written by somebody else")],
)
def test_what_happens_to_the_file_ends_the_mastership(change: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    locker = SharedFileLocker(tmp_path)
    locker.acquire()
    locker.prove()
    change(locker.path)
    with pytest.raises(LeaseLost, match=why):
        locker.prove()
    assert locker.lease is None
    with pytest.raises(LeaseLost, match="not locked by us"):
        locker.prove()
    assert locker.acquire() is not None
    locker.prove()
    locker.release()


def test_touching_the_file_changes_nothing(tmp_path: Path) -> None:
    locker = SharedFileLocker(tmp_path)
    locker.acquire()
    os.utime(locker.path)
    locker.prove()
    locker.release()


def test_a_release_leaves_the_file_of_somebody_else_alone(tmp_path: Path) -> None:
    first, second = SharedFileLocker(tmp_path), SharedFileLocker(tmp_path)
    first.acquire()
    first.path.unlink()
    assert second.acquire() is not None
    first.release()
    second.prove()
    second.release()


def test_it_is_renewed_only_if_asked_for(tmp_path: Path) -> None:
    """As in ActiveMQ: without lockKeepAlivePeriod nobody looks, but for the commits."""
    for alive_ms, is_asked in ((0, False), (200, True)):
        locker = SharedFileLocker(tmp_path, KahaDBOptions(lock_keep_alive_period_ms=alive_ms).lock)
        locker.acquire()
        lease = locker.lease
        assert lease is not None
        due_ns = lease.renewal_due_ns(locker.options)
        assert due_ns == (lease.asked_ns + 200_000_000 if is_asked else FOREVER_NS)
        assert lease.is_trusted(due_ns - 1)
        locker.release()


def test_the_options_of_the_locker_are_those_of_the_store() -> None:
    assert KahaDBOptions().lock == LockerOptions(lock_acquire_sleep_interval_ms=10_000)
    lock = KahaDBOptions(
        lock_keep_alive_period_ms=60_000, lock_acquire_sleep_interval_ms=30_000, fail_if_database_is_locked=True
    ).lock
    assert (lock.lock_keep_alive_period_ms, lock.lock_acquire_sleep_interval_ms) == (60_000, 30_000)
    assert lock.fail_if_locked


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"cannot lock .*: Not a directory"):
        SharedFileLocker(tmp_path / "file" / "store").acquire()


def test_the_file_is_for_those_whom_the_journal_is_for(tmp_path: Path) -> None:
    (tmp_path / "db-1.log").touch(0o640)
    (tmp_path / "db-1.log").chmod(0o640)
    locker = KahaDBPersistenceAdapter(tmp_path).locker()
    assert locker.acquire() == 1
    assert (tmp_path / LOCK_FILE).stat().st_mode & 0o777 == 0o640
    locker.release()
