"""Mastership for a time: how long it may be trusted, when to renew it, and which settings are safe.

Arithmetic only. The clock is handed in as nanoseconds, so that every rule here is tested without waiting.

Two clocks count one lease. The database's decides when somebody else may take it: `LockerOptions.lease_ms` after it ran
our statement. Ours decides how long we believe in it: less than that, and counted from before the statement was sent.
So our trust ends first, however long the answer took, as long as the two clocks run at about the same speed; the
margin is for the difference, and for the time it takes to stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from jdbcstore.errors import ConfigurationError

__all__ = ["FOREVER_NS", "Clock", "Lease", "LockerOptions", "boot_time_ns"]

#: A clock that only goes forward, in nanoseconds since whenever.
Clock: TypeAlias = Callable[[], int]

#: Later than any clock shows.
FOREVER_NS: Final = (1 << 63) - 1

_NS_PER_MS: Final = 1_000_000
#: Below a second the timeouts of MySQL and MariaDB, which are whole seconds, are longer than the lease.
_LEASE_LEAST_MS: Final = 1000
#: Column BROKER_NAME has 250 characters; the random part and its dash take 13 of them.
_HOLDER_ID_MAX: Final = 200


def boot_time_ns() -> int:
    """A clock that goes on while the machine is suspended, where there is one; else the monotonic clock."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boot_time is None else time.clock_gettime_ns(boot_time)


@dataclass(frozen=True, slots=True)
class LockerOptions:
    """How a broker becomes master and stays it; named as ActiveMQ's where ActiveMQ has them.

    Args:
        lease_ms: for how long the lease is good, at least 1000. A crashed master is replaced after this long. (ActiveMQ
            has no option for it and takes `lockAcquireSleepInterval`.)
        lock_keep_alive_period_ms: how often the master renews, less than half of the lease; 0 is a third of it
            (ActiveMQ: ``lockKeepAlivePeriod``).
        lock_acquire_sleep_interval_ms: how often a standby looks, at most the lease (ActiveMQ:
            ``lockAcquireSleepInterval``).
        max_allowable_diff_from_db_time_ms: warn when our wall clock is off from the database's by more than this; 0 is
            never (ActiveMQ: ``maxAllowableDiffFromDBTime``). Our lease goes by the database's clock anyway; a Java
            broker's on this machine would not.
        lease_holder_id: how the holder's id begins, usually the broker's name (ActiveMQ: ``leaseHolderId``); a part
            that is random for each mastership follows, so that two brokers of one name are two. 200 characters at most.
        fail_if_locked: end with `LockHeld` instead of waiting when somebody else is master (ActiveMQ:
            ``failIfLocked``).
        detect_dead_holder: do not wait for the lease of a holder whose process is known to have ended on this machine.

    Raises:
        ConfigurationError: values with which two brokers could be master, or a master would lose its lease for nothing.
    """

    lease_ms: int = 10_000
    lock_keep_alive_period_ms: int = 0
    lock_acquire_sleep_interval_ms: int = 1000
    max_allowable_diff_from_db_time_ms: int = 0
    lease_holder_id: str = "jdbcstore"
    fail_if_locked: bool = False
    detect_dead_holder: bool = True

    def __post_init__(self) -> None:
        if self.lease_ms < _LEASE_LEAST_MS:
            raise ConfigurationError(
                f"lease_ms must be at least {_LEASE_LEAST_MS}, got {self.lease_ms}: a healthy master would be taken for"
                " dead"
            )
        if not 0 <= self.lock_keep_alive_period_ms < self.lease_ms / 2:
            raise ConfigurationError(
                f"lock_keep_alive_period_ms (lockKeepAlivePeriod) {self.lock_keep_alive_period_ms} must be less than"
                f" half of lease_ms {self.lease_ms}, so that one renewal may fail: leave it out, or give at most"
                f" {(self.lease_ms - 1) // 2}, or make lease_ms longer"
            )
        if not 0 < self.lock_acquire_sleep_interval_ms <= self.lease_ms:
            raise ConfigurationError(
                f"lock_acquire_sleep_interval_ms (lockAcquireSleepInterval) {self.lock_acquire_sleep_interval_ms} must"
                f" be 1 to lease_ms {self.lease_ms}: a standby that looks seldom takes over late. In ActiveMQ it is the"
                " length of the lease too; here that is lease_ms"
            )
        if self.max_allowable_diff_from_db_time_ms < 0:
            raise ConfigurationError(
                "max_allowable_diff_from_db_time_ms (maxAllowableDiffFromDBTime) must be at least 0, 0 being no limit,"
                f" got {self.max_allowable_diff_from_db_time_ms}"
            )
        if not 1 <= len(self.lease_holder_id) <= _HOLDER_ID_MAX or not self.lease_holder_id.isprintable():
            raise ConfigurationError(
                f"lease_holder_id (leaseHolderId) {self.lease_holder_id[:60]!r} must be 1 to {_HOLDER_ID_MAX}"
                " printable characters"
            )

    @property
    def renew_ms(self) -> int:
        """How often the master renews."""
        return self.lock_keep_alive_period_ms or self.lease_ms // 3

    @property
    def margin_ms(self) -> int:
        """How much earlier than the database's our trust ends: a tenth of the lease."""
        return self.lease_ms // 10

    @property
    def trust_ms(self) -> int:
        """How long a lease is trusted after the request for it was sent."""
        return self.lease_ms - self.margin_ms


@dataclass(frozen=True, slots=True)
class Lease:
    """What a master has: who it is, its term, and until when it may act as master without asking.

    Args:
        holder: its id, unlike any other's.
        term: the number of this mastership; grows with every takeover.
        asked_ns: our clock just before the request was sent that the database agreed to.
        trusted_until_ns: our clock when the trust ends.
    """

    holder: str
    term: int
    asked_ns: int
    trusted_until_ns: int

    @classmethod
    def granted(cls, holder: str, term: int, asked_ns: int, options: LockerOptions) -> Lease:
        """The lease that the database gave upon a request sent at `asked_ns`."""
        return cls(holder, term, asked_ns, asked_ns + options.trust_ms * _NS_PER_MS)

    @classmethod
    def unlimited(cls, holder: str, term: int) -> Lease:
        """What a broker has that never asks: it is master for good."""
        return cls(holder, term, 0, FOREVER_NS)

    def renewed(self, asked_ns: int, options: LockerOptions) -> Lease:
        """This lease after the database agreed to a renewal that was sent at `asked_ns`."""
        return Lease.granted(self.holder, self.term, max(asked_ns, self.asked_ns), options)

    def is_trusted(self, now_ns: int) -> bool:
        """Whether the master may go on serving. Once not, it stops before it asks any question."""
        return now_ns < self.trusted_until_ns

    def trusted_for_ms(self, now_ns: int) -> int:
        """How much trust is left, 0 when none is."""
        return max(0, self.trusted_until_ns - now_ns) // _NS_PER_MS

    def renewal_due_ns(self, options: LockerOptions) -> int:
        """Our clock when the next renewal is due; `FOREVER_NS` when nobody has to be asked."""
        if self.trusted_until_ns == FOREVER_NS:
            return FOREVER_NS
        return self.asked_ns + options.renew_ms * _NS_PER_MS
