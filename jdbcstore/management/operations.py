"""Work on very many messages: in small commits, with progress, and an end that one may ask for.

An operation goes through a queue's stores page by page, from the first message to the last that was there when it
began. Of each page it *claims* what matches (`Queue.claim`): those messages are in flight, with nobody, so no consumer
gets them. Then one commit adds what is to be somewhere else and removes what is to be gone (`Broker.transfer`): a
message is in one place or in the other, whatever crashes, and never in both. If the commit fails what was claimed goes
back, first and in its old order, and the operation ends with the error; what it had done before stays done.

What a consumer holds is left alone, and counted as skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.delivery import Delivery
from jdbcstore.broker.lane import Lane
from jdbcstore.broker.queue import Queue
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError, JdbcStoreError, StoreClosed
from jdbcstore.management.filters import Filter, cause_of, number_of, origin_of
from jdbcstore.management.log_tail import Audit
from jdbcstore.management.views import OperationView
from jdbcstore.message import Message
from jdbcstore.store.contract import Cursor, MessageStore, Page

__all__ = ["Operation", "Operations", "Placing", "stores_of"]

log = logging.getLogger(__name__)

#: Messages that one commit takes, and what is read for it: bounded, so that nobody waits long for either.
_COMMIT_MESSAGES: Final = 100
_PAGE_MESSAGES: Final = 400
_PAGE_BYTES: Final = 4 << 20
_RUNNING_MAX: Final = 8
_REMEMBERED_MAX: Final = 200
#: Origins and causes that a dry run tells apart; what is left has one group.
_GROUPS_MAX: Final = 200
_OTHERS: Final = ("", "others")

#: Says what is to be added for a message that is claimed: None for nothing, or the message stays (`LookupError`).
Placing = Callable[[Message], Message | None]


@dataclass(eq=False)
class Operation:
    """One piece of work.

    Args:
        action: what it is called.
        who: who has asked for it.
        destination, target: from where, and to where.
        filter: which messages.
        placing: what is added for each.
        takes: whether the messages leave their place; else they are copied.
        is_dry_run: whether it only counts.
    """

    operation_id: str
    action: str
    who: str
    destination: Destination
    target: str | None
    filter: Filter
    placing: Placing
    takes: bool
    is_dry_run: bool
    began_ms: int
    state: str = "running"
    looked: int = 0
    matched: int = 0
    bytes: int = 0
    done: int = 0
    skipped: int = 0
    error: str | None = None
    ended_ms: int | None = None
    is_cancelled: bool = False
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    task: asyncio.Task[None] | None = None

    def view(self) -> OperationView:
        """What is told of it."""
        return OperationView(
            self.operation_id,
            self.action,
            self.who,
            self.destination.qualified_name,
            self.target,
            str(self.filter),
            self.is_dry_run,
            self.state,
            self.looked,
            self.matched,
            self.bytes,
            self.done,
            self.skipped,
            self.error,
            self.began_ms,
            self.ended_ms,
            [(origin, cause, count) for (origin, cause), count in self.groups.most_common()],
        )

    @property
    def is_full(self) -> bool:
        """Whether it has worked on as many messages as it may."""
        return 0 < self.filter.limit <= self.matched

    def count(self, message: Message) -> None:
        """A message matches."""
        self.matched += 1
        self.bytes += message.size
        if self.is_dry_run:
            group = origin_of(message), cause_of(message)
            self.groups[group if group in self.groups or len(self.groups) < _GROUPS_MAX else _OTHERS] += 1


class Operations:
    """The operations of one broker, running and over.

    Args:
        broker: whose.
        audit: is told of each.
    """

    def __init__(self, broker: Broker, audit: Audit) -> None:
        self._broker = broker
        self._audit = audit
        self._number = 0
        self._known: dict[str, Operation] = {}
        self._order: deque[str] = deque()

    # -- from outside ----------------------------------------------------------------------------------------------

    def begin(
        self,
        action: str,
        who: str,
        queue: Destination,
        chosen: Filter,
        placing: Placing,
        *,
        target: str | None = None,
        takes: bool = True,
        is_dry_run: bool = False,
    ) -> Operation:
        """Begin an operation; `wait` waits for its end.

        Raises:
            ConfigurationError: so many are running already.
            SelectorError: the filter has a selector that is none.
        """
        chosen.check()
        if sum(one.state == "running" for one in self._known.values()) >= _RUNNING_MAX:
            raise ConfigurationError(f"{_RUNNING_MAX} operations are running: wait for one, or cancel it")
        self._number += 1
        operation = Operation(
            str(self._number), action, who, queue, target, chosen, placing, takes, is_dry_run, self._broker.now_ms()
        )
        self._known[operation.operation_id] = operation
        self._order.append(operation.operation_id)
        while len(self._order) > _REMEMBERED_MAX and self._known[self._order[0]].state != "running":
            del self._known[self._order.popleft()]
        operation.task = asyncio.ensure_future(self._run(operation))
        return operation

    async def wait(self, operation: Operation) -> OperationView:
        """The operation when it is over."""
        if operation.task is not None:
            await asyncio.wait((operation.task,))
        return operation.view()

    def find(self, operation_id: str) -> Operation:
        """One of them. Raises ConfigurationError if it is not known."""
        operation = self._known.get(operation_id)
        if operation is None:
            raise ConfigurationError(f"there is no operation {operation_id} (any more): 'operations' lists them")
        return operation

    def all(self) -> Sequence[Operation]:
        """Those that are remembered, newest first."""
        return list(self._known.values())[::-1]

    def stop(self) -> None:
        """Let all of them end behind the commit that they are at."""
        for operation in self._known.values():
            operation.is_cancelled = True

    # -- the work ----------------------------------------------------------------------------------------------------

    async def _run(self, operation: Operation) -> None:
        try:
            await self._work(operation)
            operation.state = "cancelled" if operation.is_cancelled and not operation.is_full else "done"
        except asyncio.CancelledError:
            operation.state = "cancelled"
            raise
        except JdbcStoreError as error:
            operation.state, operation.error = "failed", str(error)
        except Exception as error:
            log.exception("defect in an operation action=%s destination=%s", operation.action, operation.destination)
            operation.state, operation.error = "failed", f"internal error: {type(error).__name__}"
        finally:
            operation.ended_ms = self._broker.now_ms()
            if not operation.is_dry_run:
                self._tell(operation)

    def _tell(self, operation: Operation) -> None:
        done = f"{operation.done} messages"
        if operation.state != "done":
            done += f", {operation.state}" + (f": {operation.error}" if operation.error else "")
        subject = operation.destination.qualified_name + (f" to {operation.target}" if operation.target else "")
        subject += "" if operation.filter.is_everything else f" ({operation.filter})"
        self._audit.write(self._broker.now_ms(), operation.who, operation.action, subject, done)

    async def _work(self, operation: Operation) -> None:
        broker = self._broker
        queue = broker.queue(operation.destination)
        queue.contents.load()
        for store, is_durable, last in stores_of(queue):
            cursor = Cursor()
            while not (operation.is_cancelled or operation.is_full):
                self._check(queue)
                with queue.being_read():
                    page, found = await broker.read(_read, store, cursor, operation.filter, last)
                    operation.looked += len(page.messages)
                    for start in range(0, len(found), _COMMIT_MESSAGES):
                        await self._batch(operation, queue, found[start : start + _COMMIT_MESSAGES], is_durable)
                if page.cursor == cursor or (not store.prioritized and page.cursor.positions[0] >= last):
                    break
                cursor = page.cursor
        await self._work_in_memory(operation, queue)

    def _check(self, queue: Queue) -> None:
        if not self._broker.is_running or self._broker.queues.get(queue.destination) is not queue:
            raise StoreClosed("the broker is not master any more, or the queue is gone: what was done stays done")

    async def _batch(self, operation: Operation, queue: Queue, messages: Sequence[Message], is_durable: bool) -> None:
        """Work on some messages that were just read."""
        if operation.is_cancelled or operation.is_full:
            return
        self._check(queue)
        claimed: list[Delivery] = []
        added: list[Message] = []
        try:
            await self._broker.slices.complete(self._claiming(operation, queue, messages, is_durable, claimed, added))
        except BaseException:
            queue.unclaim(claimed)
            raise
        await self._commit(operation, queue, added, claimed)

    def _claiming(
        self,
        operation: Operation,
        queue: Queue,
        messages: Sequence[Message],
        is_durable: bool,
        claimed: list[Delivery],
        added: list[Message],
    ) -> Iterator[None]:
        for message in messages:
            if operation.is_full:
                return
            if not operation.is_dry_run:
                try:
                    placed = operation.placing(message)
                except LookupError:
                    operation.skipped += 1
                    continue
                if operation.takes:
                    delivery = queue.claim(message, is_durable=is_durable)
                    if delivery is None:
                        operation.skipped += 1
                        continue
                    claimed.append(delivery)
                if placed is not None:
                    added.append(placed)
            operation.count(message)
            yield

    async def _work_in_memory(self, operation: Operation, queue: Queue) -> None:
        """Work on non-persistent messages that no store has."""
        if operation.is_cancelled or operation.is_full:
            return
        if operation.is_dry_run or not operation.takes:
            messages = [message for message, _ in queue.contents.memory_only()]
            operation.looked += len(messages)
            chosen = [message for message in messages if operation.filter.matches(message)]
            for start in range(0, len(chosen), _COMMIT_MESSAGES):
                await self._batch(operation, queue, chosen[start : start + _COMMIT_MESSAGES], False)
            return
        claiming = queue.claim_in_memory(operation.filter.matches)
        is_more = True
        while is_more and not (operation.is_cancelled or operation.is_full):
            self._check(queue)
            claimed: list[Delivery] = []
            added: list[Message] = []
            stays: list[Delivery] = []
            try:
                is_more = await self._claim_in_memory(operation, claiming, queue, claimed, added, stays)
            except BaseException:
                queue.unclaim([*claimed, *stays])
                raise
            queue.unclaim(stays)
            await self._commit(operation, queue, added, claimed)

    async def _claim_in_memory(
        self,
        operation: Operation,
        claiming: Iterator[Delivery | None],
        queue: Queue,
        claimed: list[Delivery],
        added: list[Message],
        stays: list[Delivery],
    ) -> bool:
        """Claim for one commit. Returns whether there may be more."""
        for number, delivery in enumerate(claiming, 1):
            operation.looked += 1
            if delivery is not None and delivery.message is not None:
                try:
                    self._place(operation, delivery, delivery.message, claimed, added, stays)
                except BaseException:
                    stays.append(delivery)
                    raise
            if len(claimed) >= _COMMIT_MESSAGES or operation.is_full:
                return True
            if number % _COMMIT_MESSAGES == 0:  # nobody else's turn is put off for long
                await asyncio.sleep(0)
                self._check(queue)
        return False

    def _place(
        self,
        operation: Operation,
        delivery: Delivery,
        message: Message,
        claimed: list[Delivery],
        added: list[Message],
        stays: list[Delivery],
    ) -> None:
        try:
            placed = operation.placing(message)
        except LookupError:
            operation.skipped += 1
            stays.append(delivery)
            return
        operation.count(message)
        claimed.append(delivery)
        if placed is not None:
            added.append(placed)

    async def _commit(
        self, operation: Operation, queue: Queue, added: Sequence[Message], claimed: Sequence[Delivery]
    ) -> None:
        """One commit. What was claimed goes back if it fails."""
        if not added and not claimed:
            return
        answered: asyncio.Future[BaseException | None] = self._broker.loop.create_future()

        def answer(error: BaseException | None) -> None:
            if error is not None:
                queue.unclaim(claimed)
            if not answered.done():
                answered.set_result(error)

        self._broker.transfer(added, claimed, answer)
        error = await answered
        if error is not None:
            raise error
        operation.done += max(len(claimed), len(added))


def stores_of(queue: Queue) -> list[tuple[MessageStore, bool, int]]:
    """The stores that a queue's messages are in, whether what is in there survives, and the last number that counts."""
    found: list[tuple[MessageStore, bool, int]] = []
    lanes: Sequence[Lane] = queue.lanes()
    for lane in lanes:
        is_used = lane.is_durable or lane.is_open
        if is_used and all(store is not lane.store for store, _, _ in found):  # lanes of several priorities share one
            found.append((lane.store, lane.is_durable, lane.last_sequence))
    return found


def _read(store: MessageStore, cursor: Cursor, chosen: Filter, last: int) -> tuple[Page, list[Message]]:
    """The next page, and what of it is meant; in a thread."""
    page = store.recover_next_messages(cursor, _PAGE_MESSAGES, _PAGE_BYTES)
    return page, [message for message in page.messages if number_of(message) <= last and chosen.matches(message)]
