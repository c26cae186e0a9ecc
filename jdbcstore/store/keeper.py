"""Staying master: a thread that renews the lease in time, whatever the rest of the broker is busy with."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Final

from jdbcstore.errors import LeaseLost, StoreError
from jdbcstore.store.contract import Locker
from jdbcstore.store.lease import Clock, Lease, boot_time_ns

__all__ = ["LockKeeper"]

log = logging.getLogger(__name__)

_RETRY_FIRST_S: Final = 0.05
_RETRY_MOST_S: Final = 1.0
#: The clock may count time in which the machine was suspended; a wait does not, so no wait is long.
_WAIT_MOST_S: Final = 0.5
_NS_PER_S: Final = 1_000_000_000


class LockKeeper:
    """Renews a locker's lease from a thread of its own until it is stopped or the lease is lost.

    While the store cannot be asked it goes on trying, also after the trust in the lease has run out: nobody else may
    have come, and then the mastership goes on. What a master does that is not sure any more is not the keeper's matter.

    Args:
        locker: whose lease; acquired already.
        renewed: called with the lease after each renewal.
        lost: called with the reason when the mastership is over, at most once; nothing is called after it. Also when
            renewing fails in a way that no store's failure explains.
        clock: see `Clock`; the one that the locker goes by.

    Both functions are called in the keeper's thread and keep it from renewing until they return.
    """

    def __init__(
        self,
        locker: Locker,
        renewed: Callable[[Lease], object] = lambda lease: None,
        lost: Callable[[LeaseLost], object] = lambda error: None,
        clock: Clock = boot_time_ns,
    ) -> None:
        self._locker = locker
        self._renewed = renewed
        self._lost = lost
        self._clock = clock
        self._stopping = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="jdbcstore-lock-keeper", daemon=True)

    def start(self) -> None:
        """Begin to renew. A keeper is started once; the next mastership has another."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; returns when a renewal that is under way has ended. The lease stays: release it afterwards."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._wait_until_due():
                self._renew()
        except LeaseLost as error:
            self._lost(error)
        except Exception as error:
            log.exception("defect in renewing the lease, it is given up")
            reason = LeaseLost(f"renewing failed: {error!r}")
            reason.__cause__ = error
            self._lost(reason)

    def _wait_until_due(self) -> bool:
        """Wait for the next attempt; whether there is to be one."""
        if self._failures:
            pause_s = min(_RETRY_FIRST_S * 2 ** min(self._failures - 1, 10), _RETRY_MOST_S)
            # Jitter: brokers that wait for one database must not retry in step.
            return not self._stopping.wait(pause_s * random.uniform(0.5, 1.0))
        while not self._stopping.is_set():
            lease = self._locker.lease
            left_ns = 0 if lease is None else lease.renewal_due_ns(self._locker.options) - self._clock()
            if left_ns <= 0:
                return True
            self._stopping.wait(min(left_ns / _NS_PER_S, _WAIT_MOST_S))
        return False

    def _renew(self) -> None:
        try:
            self._locker.renew()
        except StoreError as error:
            self._failures += 1
            if self._failures == 1:
                log.warning("cannot renew the lease, trying again error=%r", str(error))
            return
        if self._failures:
            log.warning("the lease is renewed again failures=%d", self._failures)
            self._failures = 0
        lease = self._locker.lease
        if lease is not None:  # somebody may have released it just now
            self._renewed(lease)
