"""Mastership: what drives a broker through its life (`jdbcstore.broker.lifecycle`), from standby to master and back.

Three rules, in the order of their importance:

1. **Who is not sure to be master serves nobody.** A lease is trusted for less time than the database gives it. When the
   trust runs out, when the lease is lost or the store is gone, clients are dropped at once, in the event loop, before
   anybody is asked anything. `Connection` looks at the trust before it reads, so a process that was stopped and goes on
   does not even read what arrived meanwhile.
2. **A thread of its own renews** (`LockKeeper`), so neither clients nor a slow store keep it waiting.
3. **Nothing here makes the data safe.** That is the store's fence, which every commit proves. If all of this went
   wrong, clients would see two brokers, and one of them would fail to store anything.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final, Protocol

from jdbcstore.broker.blocking_calls import BlockingCalls, GivenUp
from jdbcstore.broker.lifecycle import UNTRUSTED, Lifecycle, State
from jdbcstore.broker.master_service import MasterService
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.server import ListenError
from jdbcstore.errors import (
    HistoryLost,
    JdbcStoreError,
    LeaseLost,
    LockError,
    NotReplicated,
    StoreError,
    TransientStoreError,
)
from jdbcstore.store.contract import Locker
from jdbcstore.store.keeper import LockKeeper
from jdbcstore.store.lease import FOREVER_NS, Lease, boot_time_ns

__all__ = ["Candidate", "Mastership"]

log = logging.getLogger(__name__)

_PAUSE_FIRST_S: Final = 0.1
#: How often the log is told of a store that cannot be asked, at first and after a while.
_OUTAGE_TOLD_EACH_S: Final = 5.0
_OUTAGE_TOLD_EACH_MOST_S: Final = 60.0
#: Who has served for so long may resume at once after a failure; who fails right away, not so soon.
_STEADY_S: Final = 5.0
#: Of the time for a clean end, what is kept for releasing the lock when a store does not answer.
_RELEASE_PART: Final = 0.2


class Candidate(Protocol):
    """A broker that wants to be master."""

    loop: asyncio.AbstractEventLoop
    #: `boot_time_ns` from when on it may not act as master any more.
    trusted_until_ns: int

    @property
    def lifecycle(self) -> Lifecycle:
        """Where it is in its life."""

    @property
    def options(self) -> BrokerOptions:
        """What was chosen."""


class Mastership:
    """The driver.

    Args:
        broker: whose life it is: `Broker.lifecycle`, ``options``, ``trusted_until_ns``.
        service: what is opened and closed.
        locker: says who is master; None for a store that only one process can have.
        calls: asks the locker.
    """

    def __init__(self, broker: Candidate, service: MasterService, locker: Locker | None, calls: BlockingCalls) -> None:
        self._broker = broker
        self._service = service
        self._locker = locker
        self._lifecycle = broker.lifecycle
        self._options = broker.options
        self._loop = broker.loop
        self._calls = calls
        self._call = calls.call
        self._stopping = asyncio.Event()
        self._deadline_s = 0.0
        self._ended: asyncio.Future[BaseException | None] | None = None
        self._trust_timer: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._pause_s = 0.0
        self._last_term = 0
        #: What the locker said when it lost the lock.
        self._loss: LeaseLost | None = None
        #: Whether it has stood by or served: what hinders it from now on may be another broker's, and pass.
        self._is_settled = False
        #: When it began to live.
        self._began_s = 0.0
        #: Whether it gives mastership away, and for how long it does not want it back.
        self._is_resigning = False
        self._rest_s = 0.0

    # -- from outside --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Live until `stop`.

        Raises:
            StoreError, ConfigurationError: the store cannot be opened, or failed and ``on_store_failure`` is ``stop``.
            ListenError: the address cannot be listened on.
            LockError: another broker is master and that is to be the end.
        """
        self._began_s = self._loop.time()
        try:
            while await self._stand_by():
                await self._reign()
        except GivenUp as error:
            log.warning("%s, stopping without it: what is in doubt is looked up at the next start", error)
        except Exception as error:
            self._change(State.STOPPING, f"it failed: {error}")
            raise
        finally:
            if self._lifecycle.state is not State.STOPPING:
                self._change(State.STOPPING, "it was told to stop")
            await self._release()
            await self._service.farewell(self._deadline_s)
            if self._patience is not None:
                self._patience.cancel()
            self._calls.end()

    def stop(self) -> None:
        """Come to an end, within ``stop_timeout_s``; `run` returns then."""
        if self._stopping.is_set():
            return
        self._deadline_s = self._loop.time() + self._options.stop_timeout_s
        self._patience = self._loop.call_at(self._deadline_s, self._calls.give_up)
        self._stopping.set()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def resign(self, rest_s: float) -> None:
        """Come to a clean end as master, and let a standby be it; go on as a standby.

        Args:
            rest_s: how long to leave the lock to others before asking for it again.

        Raises:
            LockError: this broker is not master, or its store can have no standby.
        """
        if self._ended is None or self._ended.done() or self._lifecycle.state is not State.MASTER:
            raise LockError(f"only a master can hand over, this broker is {self._lifecycle.state}")
        if self._locker is None or self._broker.trusted_until_ns == FOREVER_NS:
            raise LockError("this store has one broker only: there is no standby to hand over to")
        self._deadline_s = self._loop.time() + self._options.stop_timeout_s
        self._is_resigning, self._rest_s = True, rest_s
        self._ended.set_result(None)

    def end(self, reason: str, error: BaseException | None = None) -> None:
        """Stop serving now: the store failed, or the trust is over. Does nothing unless we serve, or are about to."""
        if self._ended is None or self._ended.done():
            return
        self._service.close_doors()
        self._change(State.SUSPENDED, reason)  # before clients are dismissed, which takes its time when they are many
        self._service.cease(reason)
        self._ended.set_result(error)

    # -- standby ---------------------------------------------------------------------------------------------------

    async def _stand_by(self) -> bool:
        """Ask until we are master; False when it is time to stop."""
        locker = self._locker
        telling_s, told_each_s = 0.0, _OUTAGE_TOLD_EACH_S
        if self._rest_s > 0:
            await self._rest()
        while not self._stopping.is_set():
            if locker is None:
                return True
            try:
                if await self._call(locker.acquire) is not None:
                    return True
                holder = (await self._call(locker.status)).holder
            except StoreError as error:
                if self._is_late or not self._may_pass(error):
                    raise
                self._suspend_if_unfit(error)
                now_s = self._loop.time()
                if now_s >= telling_s:
                    telling_s, told_each_s = now_s + told_each_s, min(2 * told_each_s, _OUTAGE_TOLD_EACH_MOST_S)
                    log.warning("waiting for the store: cannot ask who is master, trying again error=%r", str(error))
                await self._pause()
                continue
            telling_s, told_each_s, self._pause_s = 0.0, _OUTAGE_TOLD_EACH_S, 0.0
            reason = f"{holder or 'another broker'} is master"
            if (self._lifecycle.state, self._lifecycle.status.reason) != (State.STANDBY, reason):
                self._change(State.STANDBY, reason)
            self._is_settled = True
            poll_s = locker.options.lock_acquire_sleep_interval_ms / 1000
            await self._call(locker.wait, poll_s * random.uniform(0.9, 1.0))
        return False

    def _suspend_if_unfit(self, error: StoreError) -> None:
        """Nobody may be master of such a store: that is not standing by."""
        is_known = (self._lifecycle.state, self._lifecycle.status.reason) == (State.SUSPENDED, str(error))
        if (
            isinstance(error, NotReplicated | HistoryLost)
            and self._lifecycle.state is not State.STARTING
            and not is_known
        ):
            self._change(State.SUSPENDED, str(error))

    async def _rest(self) -> None:
        """Let others ask for the lock first."""
        rest_s, self._rest_s = self._rest_s, 0.0
        try:
            async with asyncio.timeout(rest_s):
                await self._stopping.wait()
        except TimeoutError:
            pass

    # -- master ----------------------------------------------------------------------------------------------------

    async def _reign(self) -> None:
        """Be master until we are not any more, or until it is time to stop."""
        lease = None if self._locker is None else self._locker.lease
        if self._locker is None or lease is None or lease.trusted_until_ns == FOREVER_NS:
            self._broker.trusted_until_ns = FOREVER_NS
            await self._serve_terms(None)
            return
        if lease.term != self._last_term + 1:
            await self._service.forget()
        self._last_term, self._loss = lease.term, None
        keeper = LockKeeper(self._locker, self._renewed, self._lost)
        self._broker.trusted_until_ns = lease.trusted_until_ns
        keeper.start()
        try:
            await self._serve_terms(self._locker)
        finally:
            await self._call(keeper.stop)
            await self._release()

    async def _release(self) -> None:
        if self._locker is not None:
            try:
                await self._call(self._locker.release)
            except JdbcStoreError as error:  # the lease runs out by itself
                log.warning(
                    "the lock could not be released, a standby waits for the end of the lease error=%r", str(error)
                )

    async def _serve_terms(self, locker: Locker | None) -> None:
        """Open, serve, suspend; and again as long as the lock is ours."""
        is_ours = True
        while is_ours and not self._stopping.is_set():
            ended = self._ended = self._loop.create_future()
            self._change(State.RECOVERING, "it has the lock" if locker else "the store is its own")
            self._watch_trust()
            try:
                await self._serve(ended)
            finally:
                self._ended = None
                if self._trust_timer is not None:
                    self._trust_timer.cancel()
            if self._is_resigning and not self._stopping.is_set():
                self._is_resigning = False
                self._change(State.STANDBY, "mastership was handed over")
                return
            is_ours = await self._is_still_ours(locker)
        if not is_ours:
            loss = self._loss or LeaseLost("the lock is lost")
            if self._options.on_lease_lost == "stop":
                raise loss
            self._change(State.STANDBY, str(loss))

    async def _serve(self, ended: asyncio.Future[BaseException | None]) -> None:
        """From recovery to the end of serving."""
        try:
            await self._service.open_store()
        except (TransientStoreError, LockError) as error:
            if self._lifecycle.state is State.RECOVERING:
                self._change(State.SUSPENDED, f"the store cannot be opened: {error}")
            await self._service.abandon()
            if self._is_late and isinstance(error, TransientStoreError):
                raise
            return
        try:
            await self._listen(ended)
            self._look_at_trust()
            if not ended.done():
                self._change(State.MASTER, "clients may connect")
                self._is_settled = True
            began_s = self._loop.time()
            failure = await ended
        except BaseException:
            await self._service.abandon()
            raise
        if self._is_resigning and not self._stopping.is_set():
            self._change(State.SUSPENDED, "mastership is handed over")
            await self._service.retire(self._deadline_s - _RELEASE_PART * self._options.stop_timeout_s)
            await self._service.reopen()
            await self._service.farewell(self._loop.time())
            return
        if self._lifecycle.entered is not State.SUSPENDED:
            self._change(State.STOPPING, "it was told to stop")
            await self._service.retire(self._deadline_s - _RELEASE_PART * self._options.stop_timeout_s)
            return
        await self._service.abandon()
        if self._loop.time() - began_s > _STEADY_S:
            self._pause_s = 0.0
        if failure is not None and not isinstance(failure, LockError) and self._options.on_store_failure == "stop":
            raise failure

    async def _listen(self, ended: asyncio.Future[BaseException | None]) -> None:
        """Let clients in. An address that the master before us has not left yet, one that was stopped say, is waited
        for; one that is taken when the process starts is an error at once."""
        deadline_s = self._loop.time() + self._options.start_timeout_s
        while not ended.done():
            try:
                await self._service.listen()
            except ListenError as error:
                if not self._is_settled or self._loop.time() > deadline_s:
                    raise
                if self._lifecycle.status.reason != str(error):
                    self._change(State.RECOVERING, str(error))
                await self._pause()
            else:
                break

    # -- trust -----------------------------------------------------------------------------------------------------

    async def _is_still_ours(self, locker: Locker | None) -> bool:
        """After a failure: ask until it is certain whether the lock is ours. What we believed is worth nothing now."""
        while not self._stopping.is_set():
            await self._pause()
            if locker is None:
                return True
            try:
                await self._call(locker.renew)
            except LeaseLost as error:
                self._loss = self._loss or error
                return False
            except StoreError as error:
                if not self._may_pass(error):
                    raise
                continue  # the keeper tells the log
            lease = locker.lease
            if lease is not None and lease.is_trusted(boot_time_ns()):
                self._broker.trusted_until_ns = lease.trusted_until_ns
                return True
        return True

    def _watch_trust(self) -> None:
        """End when the trust runs out; look again when it would."""
        left_ns = self._look_at_trust()
        if left_ns > 0 and self._broker.trusted_until_ns != FOREVER_NS:
            self._trust_timer = self._loop.call_later(left_ns / 1e9, self._watch_trust)

    def _look_at_trust(self) -> int:
        """End if the trust has run out; returns how many nanoseconds are left of it."""
        left_ns = self._broker.trusted_until_ns - boot_time_ns()
        if left_ns <= 0:
            self.end(UNTRUSTED)
        return left_ns

    def _renewed(self, lease: Lease) -> None:
        """The keeper's thread: the lease is good for longer."""
        self._broker.trusted_until_ns = lease.trusted_until_ns

    def _lost(self, error: LeaseLost) -> None:
        """The keeper's thread: somebody else is, or may be, master."""
        self._broker.trusted_until_ns = 0
        self._loop.call_soon_threadsafe(self._end_lost, error)

    def _end_lost(self, error: LeaseLost) -> None:
        self._loss = self._loss or error
        self.end(str(error), error)

    # -- tools -----------------------------------------------------------------------------------------------------

    @property
    def _is_late(self) -> bool:
        """Whether it has tried to start for ``start_timeout_s``, and has neither stood by nor served."""
        return not self._is_settled and self._loop.time() - self._began_s > self._options.start_timeout_s

    def _may_pass(self, error: StoreError) -> bool:
        """Whether to ask for the lock again: one that was there before may be there again, and its rights with it."""
        return self._is_settled or isinstance(error, TransientStoreError)

    def _change(self, state: State, reason: str) -> None:
        lease = None if self._locker is None else self._locker.lease
        is_ours = state is not State.STANDBY and lease is not None and lease.term > 0
        self._lifecycle.change(
            state,
            reason,
            term=lease.term if lease and is_ours else None,
            holder=lease.holder if lease and is_ours else None,
        )

    async def _pause(self) -> None:
        """Wait before the next attempt, each time longer, and not in step with other brokers."""
        self._pause_s = min(max(2 * self._pause_s, _PAUSE_FIRST_S), self._options.resume_check_sleep_s)
        try:
            async with asyncio.timeout(self._pause_s * random.uniform(0.5, 1.0)):
                await self._stopping.wait()
        except TimeoutError:
            pass
