"""The intake: what was loaded in bulk into the store's waiting room, or waits in the outbox, goes to its destinations.

It is sent as a producer's messages would be: virtual topics, policies, durable subscriptions and the scheduler see no
difference. The store takes a page out of the waiting room in the commit that adds its messages (`TakenIn`), so that it
happens once does not depend on who does it, and after any failure the page is just read again.

One page is under way at a time, and the next one is read meanwhile. So what producers send in between waits for a page
at most, and shares its commit. The outbox is read from its beginning for each page, since applications commit in any
order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from jdbcstore.broker.completion_bridge import resolve
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.errors import CodecError, JdbcStoreError, ProtocolError, StoreClosed, TransientStoreError, may_pass
from jdbcstore.message import Message
from jdbcstore.store.contract import Commit, SupportsIntake, TakenIn, WaitingLoad
from jdbcstore.store.intake import START, IntakePage, IntakeStore, OutboxBell, Staged
from jdbcstore.trouble import Trouble

__all__ = ["Intake"]

log = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 1.0
#: What is taken in, as the log calls it.
_LOADS: Final = "a bulk load"
_OUTBOX: Final = "the outbox"
_PAGE_MESSAGES: Final = 500
_PAGE_BYTES: Final = 1 << 20


class OutboxEar:
    """Waits in the event loop until the outbox has to be looked at.

    The descriptor stays readable until somebody reads what was told, so it is watched until it rings once, and again
    from `hear` on: before each look, so that what is committed during the look rings anew.

    Args:
        loop: the broker's.
        bell: closed with this.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, bell: OutboxBell) -> None:
        self._loop, self._bell = loop, bell
        self._rung = asyncio.Event()
        self._watch()

    def _watch(self) -> None:
        if self._bell.descriptor is not None:
            self._loop.add_reader(self._bell.descriptor, self._ring)

    def _ring(self) -> None:
        self._ignore()
        self._rung.set()

    def _ignore(self) -> None:
        if self._bell.descriptor is not None:
            self._loop.remove_reader(self._bell.descriptor)

    def hear(self) -> None:
        """The outbox is going to be looked at. Raises `StoreError` when nobody tells any more."""
        if self._rung.is_set():
            self._bell.clear()  # reads what is there, without waiting
            self._rung.clear()
            self._watch()

    async def wait(self) -> None:
        """Return when there may be something."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._bell.poll_ms / 1000):
                await self._rung.wait()

    def close(self) -> None:
        """Hear nothing any more."""
        self._ignore()
        self._bell.close()


class Intake:
    """Takes in bulk loads while the broker is master. Everything here is called in its event loop.

    Args:
        broker: whose.
    """

    def __init__(self, broker: RegionHost) -> None:
        self._broker = broker
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._troubles = {_LOADS: Trouble(), _OUTBOX: Trouble()}
        #: Messages that were taken in, and those that could not be, since the broker exists.
        self.taken = self.refused = 0
        #: Whether anything is taken in: not by a program that only looks at a store.
        self.is_on = True

    def begin(self) -> None:
        """Clients are let in."""
        self.end()
        if not self.is_on:
            return
        adapter = self._broker.adapter
        store = adapter.intake_store() if isinstance(adapter, SupportsIntake) else None
        if store is not None:
            create = self._broker.loop.create_task
            self._tasks = (
                create(self._again(_LOADS, partial(self._take_in_loads, store))),
                create(self._again(_OUTBOX, partial(self._empty_outbox, store))),
            )

    def end(self) -> None:
        """Clients are dropped. What has been submitted is answered to nobody; the next master looks."""
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            task.cancel()

    async def _again(self, what: str, taking_in: Callable[[], Awaitable[None]]) -> None:
        """Take in what there is, until the store is closed. What fails is told, and tried again."""
        while True:
            try:
                await taking_in()
                self._goes_well(what)
            except StoreClosed:
                return
            except JdbcStoreError as error:
                if self._troubles[what].goes_on(error):
                    log.warning("%s could not be taken in, trying again error=%r", what, str(error))
            except Exception:
                log.exception("defect in taking in %s", what)
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _goes_well(self, what: str) -> None:
        failures = self._troubles[what].is_over()
        if failures:
            log.warning("%s is taken in again failures=%d", what, failures)

    async def _take_in_loads(self, store: IntakeStore) -> None:
        while load := await self._broker.read(store.waiting_load):
            await self._take_in(store, load)

    async def _bell_of(self, store: IntakeStore) -> OutboxBell:
        """One that is closed by whoever gets it, or here if nobody waits for it any more."""
        making: asyncio.Future[OutboxBell] = self._broker.read(store.outbox_bell)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_close_unused)
            raise

    async def _empty_outbox(self, store: IntakeStore) -> None:
        outbox = await self._broker.read(store.outbox)
        ear = OutboxEar(self._broker.loop, await self._bell_of(store))
        try:
            while True:
                ear.hear()
                page = await self._broker.read(store.staged, outbox.job, START, _PAGE_MESSAGES, _PAGE_BYTES)
                self._goes_well(_OUTBOX)
                if page:
                    outbox = await self._commit(outbox, page)
                else:
                    await ear.wait()
        finally:
            ear.close()

    async def _take_in(self, store: IntakeStore, load: WaitingLoad) -> None:
        log.info("taking in a bulk load job=%s messages=%d taken=%d", load.job, load.messages, load.taken)
        page: IntakePage = await self._broker.read(store.staged, load.job, START, _PAGE_MESSAGES, _PAGE_BYTES)
        while True:
            if not page:  # fewer than the load says: somebody has removed them
                raise TransientStoreError(f"load {load.job} has nothing waiting, but is not complete")
            behind = page[-1].place
            following = self._broker.read(store.staged, load.job, behind, _PAGE_MESSAGES, _PAGE_BYTES)
            try:
                load = await self._commit(load, page)
            finally:
                page = await following
            if load.taken + load.refused >= load.messages:
                log.info("bulk load taken in job=%s messages=%d refused=%d", load.job, load.taken, load.refused)
                return

    async def _commit(self, load: WaitingLoad, page: Sequence[Staged]) -> WaitingLoad:
        """Take a page in; if something in it is at fault, each message by itself. Returns the load as it is then."""
        try:
            return await self._send(load, page)
        except Exception as error:
            if may_pass(error):
                raise  # they are taken in later
            if not isinstance(error, JdbcStoreError):
                log.exception("defect in taking in a page of a bulk load job=%s", load.job)
            if len(page) > 1:
                for staged in page:
                    load = await self._commit(load, [staged])
                return load
            staged = page[0]
            reason = str(error)
            log.warning(
                "a message is refused, and stays in the waiting room job=%s place=%s message=%s error=%r",
                load.job,
                staged.place,
                "unreadable" if isinstance(staged.message, CodecError) else staged.message.message_id,
                reason,
            )
            return await self._submit([], TakenIn(load, (), (staged.place,)))

    async def _send(self, load: WaitingLoad, page: Sequence[Staged]) -> WaitingLoad:
        sends: list[Message] = []
        for staged in page:
            if isinstance(staged.message, CodecError):
                raise staged.message
            sends += _singles(staged.message)
        return await self._submit(sends, TakenIn(load, [staged.place for staged in page]))

    async def _submit(self, sends: Sequence[Message], taken: TakenIn) -> WaitingLoad:
        answered: asyncio.Future[None] = self._broker.loop.create_future()
        routes = [self._broker.route(message) for message in sends]
        self._broker.commit(routes, [], None, partial(resolve, answered), Commit(taken=taken))
        await answered
        self.taken += len(taken.places)
        self.refused += len(taken.refused)
        return taken.after


def _close_unused(made: asyncio.Future[OutboxBell]) -> None:
    if not made.cancelled() and made.exception() is None:
        made.result().close()


def _singles(message: Message) -> list[Message]:
    """The message for each of its destinations. It is kept, whatever its delivery mode: the load was promised."""
    if message.destination is None or message.message_id is None:
        raise ProtocolError("the message has no destination or no id")
    message.persistent = True
    return message.divided()
