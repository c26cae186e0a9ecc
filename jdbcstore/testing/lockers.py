"""What every locker must do, as tests.

Use it like this::

    class TestMyLocker(ExclusiveLockerContract):
        @pytest.fixture
        def open_locker(self, tmp_path):
            return lambda options, clock=boot_time_ns: MyLocker(tmp_path / "lock", options, clock)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Protocol

import pytest

from jdbcstore.errors import LeaseLost, LockHeld, TransientStoreError
from jdbcstore.store.contract import Locker, LockStatus
from jdbcstore.store.lease import Clock, LockerOptions, boot_time_ns

__all__ = ["ExclusiveLockerContract", "LeaseLockerContract", "LockerContract", "OpenLocker"]

#: How long something may take before a test calls it lost.
_WAIT_S = 30.0
#: How long a condition is looked at that may have to be asked for several times.
_PATIENCE_S = 90.0
#: Nothing runs out by itself while a test takes its time.
_LONG = LockerOptions(lease_ms=60_000)
#: The shortest there is, for tests that wait for its end.
_SHORT = LockerOptions(lease_ms=1000)


class OpenLocker(Protocol):
    """Makes a new locker for the one store that all lockers of a test share, as another broker would have it."""

    def __call__(self, options: LockerOptions, clock: Clock = boot_time_ns) -> Locker:
        """A locker that has not acquired anything."""


class LockerContract:
    """What also a locker does that asks nobody. The fixture ``open_locker`` makes lockers for one shared store."""

    @pytest.fixture
    def open_locker(self) -> OpenLocker:
        raise NotImplementedError("provide a fixture open_locker")

    @pytest.fixture
    def new(self, open_locker: OpenLocker) -> Iterator[OpenLocker]:
        """As ``open_locker``; at the end everything is released."""
        made: list[Locker] = []

        def new(options: LockerOptions, clock: Clock = boot_time_ns) -> Locker:
            made.append(open_locker(options, clock))
            return made[-1]

        yield new
        for locker in made:
            _release(locker)

    def test_who_is_master_has_a_lease_that_is_trusted(self, new: OpenLocker) -> None:
        one = new(_LONG)
        before, term, lease = one.lease, one.acquire(), one.lease
        assert before is None
        assert term is not None
        assert lease is not None
        assert lease.term == term
        assert lease.is_trusted(boot_time_ns())

    def test_asking_again_keeps_the_term(self, new: OpenLocker) -> None:
        one = new(_LONG)
        term = one.acquire()
        assert term is not None
        assert one.acquire() == term

    def test_a_renewal_keeps_holder_and_term_and_never_shortens_the_trust(self, new: OpenLocker) -> None:
        one = new(_LONG)
        one.acquire()
        before = one.lease
        time.sleep(0.02)
        one.renew()
        after = one.lease
        assert before is not None
        assert after is not None
        assert (after.holder, after.term) == (before.holder, before.term)
        assert after.trusted_until_ns >= before.trusted_until_ns

    def test_who_released_is_not_master(self, new: OpenLocker) -> None:
        one = new(_LONG)
        one.acquire()
        one.release()
        assert one.lease is None
        one.release()
        assert one.acquire() is not None

    def test_releasing_what_one_never_had_is_fine(self, new: OpenLocker) -> None:
        one = new(_LONG)
        one.release()
        assert one.acquire() is not None

    def test_it_has_the_options_that_it_was_given(self, new: OpenLocker) -> None:
        assert new(_SHORT).options == _SHORT


class ExclusiveLockerContract(LockerContract):
    """What a locker does that lets one broker at most be master."""

    #: Whether a standby's `Locker.wait` returns early when the master releases. It need not: then set this to False.
    release_wakes = True

    # -- one at most ---------------------------------------------------------------------------------------------

    def test_a_second_waits_until_the_first_releases(self, new: OpenLocker) -> None:
        one, other = new(_LONG), new(_LONG)
        first = one.acquire()
        assert first is not None
        assert other.acquire() is None
        assert other.lease is None
        assert other.acquire() is None
        one.release()
        second = other.acquire()
        assert second is not None
        assert one.acquire() is None

    def test_terms_grow_with_every_mastership_whoever_has_it(self, new: OpenLocker) -> None:
        one, other = new(_LONG), new(_LONG)
        terms: list[int] = []
        for locker in (one, other, one, one, other):
            term = locker.acquire()
            assert term is not None
            terms.append(term)
            locker.release()
        assert terms == sorted(set(terms))

    def test_every_mastership_has_a_holder_of_its_own(self, new: OpenLocker) -> None:
        holders = set()
        for locker in (new(_LONG), new(_LONG)):
            for _ in range(2):
                locker.acquire()
                assert locker.lease is not None
                holders.add(locker.lease.holder)
                locker.release()
        assert len(holders) == 4

    def test_of_many_that_ask_at_once_one_is_master(self, new: OpenLocker) -> None:
        racers = [new(_LONG) for _ in range(4)]
        start = threading.Barrier(len(racers))

        def race(locker: Locker) -> None:
            start.wait(_WAIT_S)
            locker.acquire()

        threads = [threading.Thread(target=race, args=(racer,)) for racer in racers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_WAIT_S)
        masters = [racer for racer in racers if racer.lease is not None]
        assert len(masters) <= 1
        _until(lambda: any(racer.acquire() is not None for racer in racers))  # all may have been in each other's way
        assert sum(racer.lease is not None for racer in racers) == 1

    def test_a_release_by_who_is_not_master_harms_nobody(self, new: OpenLocker) -> None:
        one, other = new(_LONG), new(_LONG)
        one.acquire()
        other.acquire()
        other.release()
        new(_LONG).release()
        one.renew()
        assert other.acquire() is None

    def test_fail_if_locked(self, new: OpenLocker) -> None:
        one = new(_LONG)
        impatient = new(LockerOptions(lease_ms=60_000, fail_if_locked=True))
        one.acquire()
        assert one.lease is not None
        with pytest.raises(LockHeld, match=one.lease.holder):
            impatient.acquire()
        assert impatient.lease is None
        one.release()
        assert impatient.acquire() is not None

    # -- staying master ------------------------------------------------------------------------------------------

    def test_a_lease_that_is_renewed_never_ends(self, new: OpenLocker) -> None:
        one, other = new(_SHORT), new(_SHORT)
        _until(lambda: _outlives_its_lease(one, other))

    def test_renewing_what_one_never_had_is_a_lost_lease(self, new: OpenLocker) -> None:
        with pytest.raises(LeaseLost):
            new(_LONG).renew()

    # -- looking on ----------------------------------------------------------------------------------------------

    def test_everybody_sees_who_is_master(self, new: OpenLocker) -> None:
        one, other = new(_LONG), new(_LONG)
        term = one.acquire()
        assert term is not None
        assert one.lease is not None
        for locker in (one, other):
            status = locker.status()
            assert (status.holder, status.term) == (one.lease.holder, term)
            assert status.expires_in_ms is None or 0 < status.expires_in_ms <= _LONG.lease_ms
        one.release()
        for locker in (one, other):
            assert locker.status() == LockStatus(None, term, None)

    def test_waiting_ends_in_time_though_nobody_releases(self, new: OpenLocker) -> None:
        one, other = new(_LONG), new(_LONG)
        one.acquire()
        assert other.acquire() is None
        for timeout_s in (0.0, 0.3, 1.2):
            _until(partial(_waits_in_time, other, timeout_s))  # once: this process may stand still meanwhile
        one.renew()

    def test_waiting_does_not_spin(self, new: OpenLocker) -> None:
        one, other = new(_LONG), new(_LONG)
        one.acquire()
        assert other.acquire() is None
        until, rounds = time.monotonic() + 1.0, 0
        while time.monotonic() < until:
            other.wait(0.25)
            rounds += 1
        assert rounds <= 6

    def test_a_release_wakes_who_waits(self, new: OpenLocker) -> None:
        if not self.release_wakes:
            return
        one, other = new(_LONG), new(_LONG)
        for _ in range(3):
            one.acquire()
            assert other.acquire() is None
            waiting = threading.Thread(target=other.wait, args=(2 * _WAIT_S,))
            waiting.start()
            waiting.join(0.3)
            assert waiting.is_alive()
            one.release()
            waiting.join(_WAIT_S)
            assert not waiting.is_alive()
            assert other.acquire() is not None
            other.release()

    def test_who_comes_to_wait_after_the_release_need_not_wait(self, new: OpenLocker) -> None:
        if not self.release_wakes:
            return
        one, other = new(_LONG), new(_LONG)
        one.acquire()
        assert other.acquire() is None
        one.release()
        assert _waited_s(other, 2 * _WAIT_S) < _WAIT_S


class LeaseLockerContract(ExclusiveLockerContract):
    """What a locker does whose mastership runs out unless it is renewed."""

    def test_a_lease_that_is_not_renewed_ends_and_renewing_it_then_is_a_lost_lease(self, new: OpenLocker) -> None:
        one, other = new(_SHORT), new(_LONG)
        first = _acquired(one)
        lease = one.lease
        assert lease is not None
        second: list[int] = []

        def taken_over() -> bool:
            term = other.acquire()
            if term is None:
                return False
            assert not lease.is_trusted(boot_time_ns())  # the trust ends before anybody else may come
            second.append(term)
            return True

        _until(taken_over)
        assert second[0] > first
        _until(partial(_loses, one))
        assert one.lease is None
        other.renew()

    def test_renewing_after_the_end_is_a_lost_lease_although_nobody_came(self, new: OpenLocker) -> None:
        one = new(_SHORT)
        _acquired(one)
        time.sleep(2.5)
        _until(partial(_loses, one))
        assert one.lease is None

    def test_who_has_lost_it_comes_back_as_somebody_else(self, new: OpenLocker) -> None:
        one = new(_SHORT)
        first = _acquired(one)
        lost = one.lease
        time.sleep(2.5)
        _until(partial(_loses, one))
        _acquired(one)
        found = one.lease
        assert lost is not None
        assert found is not None
        assert found.term > first
        assert found.holder != lost.holder

    def test_the_trust_is_counted_from_before_the_request(self, new: OpenLocker) -> None:
        watcher = new(_LONG)
        watcher.acquire()
        watcher.release()
        holders_seen: dict[int, str | None] = {}

        def clock() -> int:
            now_ns = boot_time_ns()
            holders_seen[now_ns] = watcher.status().holder
            return now_ns

        one = new(_LONG, clock)
        one.acquire()
        lease = one.lease
        assert lease is not None
        assert watcher.status().holder == lease.holder
        assert holders_seen[lease.asked_ns] is None
        assert lease.trusted_until_ns == lease.asked_ns + _LONG.trust_ms * 1_000_000


def _acquired(locker: Locker) -> int:
    """The term of a locker that nobody keeps from it. With a short lease a question has little time: it asks again."""
    terms: list[int] = []

    def acquire() -> bool:
        try:
            term = locker.acquire()
        except TransientStoreError:
            return False
        if term is not None:
            terms.append(term)
        return term is not None

    _until(acquire)
    return terms[-1]


def _loses(locker: Locker) -> bool:
    """Whether a locker whose lease has ended is told so; False if it could not ask."""
    try:
        locker.renew()
    except TransientStoreError:
        return False
    except LeaseLost:
        return True
    raise AssertionError("it was renewed although it had ended")


def _outlives_its_lease(one: Locker, other: Locker) -> bool:
    """Whether a lease is renewed for longer than it lasts, and nobody else gets it.

    False if this process has stood still for so long that the lease has ended, as it must, or that a question was too
    late: nothing was seen then.
    """
    try:
        is_seen = _is_renewed_in_time(one, other)
    except TransientStoreError:
        is_seen = False
    if not is_seen:
        _release(one)
        _release(other)
    return is_seen


def _release(locker: Locker) -> None:
    """Give up what a locker has. If it cannot say so in the time that a short lease leaves, that ends by itself."""
    with suppress(TransientStoreError):
        locker.release()


def _is_renewed_in_time(one: Locker, other: Locker) -> bool:
    trust_ns = _SHORT.trust_ms * 1_000_000
    asked_ns = boot_time_ns()
    if one.acquire() is None:
        return False
    until_ns = asked_ns + 2_500_000_000
    while asked_ns < until_ns:
        time.sleep(_SHORT.renew_ms / 1000 / 2)
        renewing_ns = boot_time_ns()
        try:
            one.renew()
        except LeaseLost:
            now_ns = boot_time_ns()
            if now_ns - asked_ns < trust_ns and now_ns - renewing_ns < _SHORT.renew_ms * 1_000_000:
                raise
            return False  # too late, or the question took so long that its session was given up
        asked_ns = renewing_ns
        if other.acquire() is not None:
            assert boot_time_ns() - asked_ns >= trust_ns, "another one is master although the lease was renewed in time"
            return False
    return True


def _waits_in_time(locker: Locker, timeout_s: float) -> bool:
    """Whether a standby waits no longer than it was told, by more than a second."""
    return _waited_s(locker, timeout_s) < timeout_s + 1.0


def _waited_s(locker: Locker, timeout_s: float) -> float:
    """How long a standby has waited, in seconds."""
    began = time.monotonic()
    locker.wait(timeout_s)
    return time.monotonic() - began


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
