"""The keeper renews in time, bears with outages, and says once that the mastership is over."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jdbcstore.errors import LeaseLost, SchemaMismatch, TransientStoreError
from jdbcstore.store import keeper as keeping
from jdbcstore.store.contract import Locker, LockStatus
from jdbcstore.store.keeper import LockKeeper
from jdbcstore.store.lease import Lease, LockerOptions, boot_time_ns
from jdbcstore.store.unlocked import NoLocker
from tests.waiting import wait_until

WAIT_S = 60.0
#: Renewed every 100 ms, trusted for 900.
OPTIONS = LockerOptions(lease_ms=1000, lock_keep_alive_period_ms=100)


class FakeLocker(Locker):
    """A lease without a store; what `renew` meets is `failure`, and when it was called is kept."""

    def __init__(self) -> None:
        self.options = OPTIONS
        self._lease: Lease | None = Lease.granted("us", 1, boot_time_ns(), OPTIONS)
        self.failure: Exception | None = None
        self.asked: list[float] = []
        self.threads: set[threading.Thread] = set()

    @property
    def lease(self) -> Lease | None:
        return self._lease

    def acquire(self) -> int | None:
        return 1

    def renew(self) -> None:
        self.asked.append(time.monotonic())
        self.threads.add(threading.current_thread())
        if isinstance(self.failure, LeaseLost):
            self._lease = None
        if self.failure is not None:
            raise self.failure
        assert self._lease is not None
        self._lease = self._lease.renewed(boot_time_ns(), self.options)

    def release(self) -> None:
        self._lease = None

    def status(self) -> LockStatus:
        return LockStatus("us", 1, 0)


class Heard:
    """What a keeper called."""

    def __init__(self) -> None:
        self.renewed: list[Lease] = []
        self.lost: list[LeaseLost] = []
        self.threads: set[threading.Thread] = set()

    def on_renewed(self, lease: Lease) -> None:
        self.threads.add(threading.current_thread())
        self.renewed.append(lease)

    def on_lost(self, error: LeaseLost) -> None:
        self.threads.add(threading.current_thread())
        self.lost.append(error)


@contextmanager
def kept(locker: Locker) -> Iterator[Heard]:
    heard = Heard()
    keeper = LockKeeper(locker, heard.on_renewed, heard.on_lost)
    keeper.start()
    try:
        yield heard
    finally:
        keeper.stop()


def keepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jdbcstore-lock-keeper"]


def test_a_lease_is_renewed_when_it_is_due_and_not_before() -> None:
    began = time.monotonic()  # before the lease begins
    locker = FakeLocker()
    with kept(locker) as heard:
        wait_until(lambda: len(heard.renewed) >= 5)
    times = [began, *locker.asked]
    assert all(later - earlier >= 0.08 for earlier, later in zip(times, locker.asked, strict=False))
    assert locker.asked[4] - began < WAIT_S
    assert heard.renewed[0].trusted_until_ns < heard.renewed[4].trusted_until_ns
    assert heard.lost == []
    assert heard.threads == locker.threads != {threading.current_thread()}


def test_a_daemon_of_its_own_name_renews() -> None:
    with kept(FakeLocker()):
        (thread,) = keepers()
        assert thread.daemon
    assert keepers() == []


def test_while_the_store_cannot_be_asked_it_tries_again_slower_and_slower_also_when_the_trust_is_gone() -> None:
    locker = FakeLocker()
    locker.failure = TransientStoreError("no answer")
    first = locker.lease
    assert first is not None
    with kept(locker) as heard:
        wait_until(lambda: len(locker.asked) >= 7)
        assert not first.is_trusted(boot_time_ns())
        locker.failure = None
        wait_until(lambda: len(heard.renewed) >= 3)
    pauses = [later - earlier for earlier, later in zip(locker.asked, locker.asked[1:], strict=False)]
    for n, most_s in enumerate((0.05, 0.1, 0.2, 0.4, 0.8, 1.0)):
        assert most_s / 2 <= pauses[n] < most_s + WAIT_S  # a busy machine
    assert heard.lost == []


def test_pauses_between_attempts_are_not_all_alike() -> None:
    """Jitter: a pause is shorter than the full one by up to a half."""
    pauses: list[float] = []

    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            pauses.append(timeout)
            return super().wait(0.001)

    locker = FakeLocker()
    locker.failure = TransientStoreError("no answer")
    locker._lease = None  # due at once
    keeper = LockKeeper(locker)
    keeper._stopping = Impatient()
    keeper.start()
    wait_until(lambda: len(locker.asked) >= 20)
    keeper.stop()
    for n, pause_s in enumerate(pauses):
        most_s = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)[min(n, 5)]
        assert most_s / 2 <= pause_s <= most_s
    assert len({*pauses[5:19]}) > 10


def test_an_outage_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    locker = FakeLocker()
    with caplog.at_level(logging.INFO, "jdbcstore.store.keeper"), kept(locker) as heard:
        for _ in range(2):
            locker.failure = SchemaMismatch("somebody is renaming tables")
            before = len(locker.asked)
            wait_until(lambda before=before: len(locker.asked) >= before + 3)  # type: ignore[misc]  # likewise
            locker.failure = None
            before = len(heard.renewed)
            wait_until(lambda before=before: len(heard.renewed) > before)  # type: ignore[misc]  # likewise
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 4
    for down, up in (told[:2], told[2:]):
        assert re.fullmatch(r"cannot renew .*renaming tables'", down)
        assert re.fullmatch(r"the lease is renewed again failures=([3-9]|\d\d+)", up)


def test_a_lost_lease_is_told_once_and_ends_it() -> None:
    locker = FakeLocker()
    locker.failure = LeaseLost("another is master")
    with kept(locker) as heard:
        wait_until(lambda: bool(heard.lost))
        wait_until(lambda: keepers() == [])
        time.sleep(0.3)
        assert heard.lost == [locker.failure]
    assert len(locker.asked) == 1
    assert heard.renewed == []


def test_a_failure_that_nobody_can_explain_is_a_lost_lease(caplog: pytest.LogCaptureFixture) -> None:
    locker = FakeLocker()
    locker.failure = ZeroDivisionError("a mistake of ours")
    with kept(locker) as heard:
        wait_until(lambda: bool(heard.lost))
    assert "a mistake of ours" in str(heard.lost[0])
    assert heard.lost[0].__cause__ is locker.failure
    assert "Traceback" in caplog.text


def test_stop_waits_for_a_renewal_under_way_and_nothing_is_called_afterwards() -> None:
    entered, go = threading.Event(), threading.Event()

    class Slow(FakeLocker):
        def renew(self) -> None:
            entered.set()
            go.wait(WAIT_S)
            super().renew()

    heard = Heard()
    keeper = LockKeeper(Slow(), heard.on_renewed, heard.on_lost)
    keeper.start()
    assert entered.wait(WAIT_S)
    stopping = threading.Thread(target=keeper.stop)
    stopping.start()
    stopping.join(0.2)
    assert stopping.is_alive()
    go.set()
    stopping.join(WAIT_S)
    assert keepers() == []
    called = len(heard.renewed)
    time.sleep(0.3)
    assert len(heard.renewed) == called <= 1
    keeper.stop()


def test_stop_interrupts_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_RETRY_FIRST_S", 60.0)
    monkeypatch.setattr(keeping, "_RETRY_MOST_S", 60.0)
    locker = FakeLocker()
    locker.failure = TransientStoreError("no answer")
    with kept(locker):
        wait_until(lambda: locker.asked)  # from here on it waits for half a minute and more
        began = time.monotonic()
    assert time.monotonic() - began < WAIT_S
    assert len(locker.asked) == 1


def test_a_callback_may_stop_its_keeper() -> None:
    locker = FakeLocker()
    keeper = LockKeeper(locker, lambda lease: keeper.stop())
    keeper.start()
    wait_until(lambda: keepers() == [])
    assert len(locker.asked) == 1


def test_a_keeper_that_was_never_started_stops() -> None:
    LockKeeper(FakeLocker()).stop()


def test_who_asks_nobody_is_never_asked_to() -> None:
    locker = NoLocker()
    locker.acquire()
    with kept(locker) as heard:
        time.sleep(0.2)
    assert heard.renewed == []
    assert heard.lost == []
