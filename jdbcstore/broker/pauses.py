"""Destinations that an operator has paused: they stay paused when the broker is started again, or another is master.

**Where it is kept.** A pause is a message in a queue of its own, `PAUSES`, one for each destination; its text says what
is paused. So every store can keep it, a change is one commit of the master like any other, and a migration takes it
along. Clients cannot use that queue: nobody sends to it, and no wildcard means it. A Java broker that takes the store
over has the queue with the messages in it, and pauses nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, NamedTuple, Protocol

from jdbcstore.broker.completion_bridge import resolve
from jdbcstore.broker.gate import Gate
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.destination import Destination, parse_destination
from jdbcstore.destination import Queue as QueueName
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message, TextMessage
from jdbcstore.store.contract import Commit, MessageStore

__all__ = ["CONSUMERS", "PAUSES", "PRODUCERS", "Pauses"]

log = logging.getLogger(__name__)

#: What keeps pauses.
PAUSES: Final = QueueName("jdbcstore.Pauses")
#: What of a destination can be paused: it delivers nothing, or takes nothing.
CONSUMERS: Final = "consumers"
PRODUCERS: Final = "producers"


class PausingHost(RegionHost, Protocol):
    """A broker that can let destinations pause."""

    @property
    def gate(self) -> Gate:
        """Who may not send at the moment."""

    @property
    def queues(self) -> dict[Destination, Queue]:
        """The queues that are in use."""


class _Pause(NamedTuple):
    """What is paused of a destination, and the messages that say so; several only if an outcome was unknown."""

    sides: frozenset[str]
    message_ids: tuple[MessageId, ...]


class Pauses:
    """The pauses of one broker.

    Args:
        broker: whose.
    """

    def __init__(self, broker: PausingHost) -> None:
        self._broker = broker
        self._kept: dict[Destination, _Pause] = {}
        self._changing = asyncio.Lock()
        self._producer: ProducerId | None = None
        self._sent = 0

    def __contains__(self, destination: Destination) -> bool:
        """Whether something of a destination is paused."""
        return destination in self._kept

    async def load(
        self,
        destinations: Collection[Destination],
        call: Callable[[Callable[[], list[Message]]], Awaitable[list[Message]]],
    ) -> None:
        """The broker is going to be master: pause what the store says, and nothing else.

        Args:
            destinations: those that the store has.
            call: calls what blocks. Raises what the store raises.
        """
        before = self._kept
        self._kept = {}
        if PAUSES in destinations:
            for message in await call(lambda: list(self._store().recover())):
                self._read(message)
        for destination in {*before, *self._kept}:
            self._apply(destination)
        if self._kept:
            log.info("destinations are paused destinations=%r", ", ".join(sorted(map(str, self._kept))))

    def _read(self, message: Message) -> None:
        try:
            words, _, name = ((message.text if isinstance(message, TextMessage) else "") or "").partition(" ")
            sides = frozenset(words.split(","))
            if message.message_id is None or not sides <= {CONSUMERS, PRODUCERS}:
                raise CodecError(f"{words[:100]!r} is nothing that can be paused")
            destination = parse_destination(name)
        except (CodecError, ConfigurationError) as error:
            log.warning("a stored pause cannot be read message_id=%s error=%r", message.message_id, str(error))
            return
        earlier = self._kept.get(destination)
        ids = () if earlier is None else earlier.message_ids
        self._kept[destination] = _Pause(sides, (*ids, message.message_id))

    async def change(self, destination: Destination, sides: Iterable[str], *, is_on: bool) -> None:
        """Pause sides of a destination, or take that back, when the store has it. Raises what the store raises."""
        async with self._changing:
            kept = self._kept.get(destination)
            before = frozenset[str]() if kept is None else kept.sides
            wanted = before.union(sides) if is_on else before.difference(sides)
            if wanted != before:
                await self._keep(destination, kept, wanted)
            self._apply(destination)

    async def _keep(self, destination: Destination, kept: _Pause | None, sides: frozenset[str]) -> None:
        """Let the store know, in one commit."""
        broker, store = self._broker, self._store()
        message = self._message(f"{','.join(sorted(sides))} {destination.qualified_name}") if sides else None
        commit = Commit(
            adds=[] if message is None else [(store, message)],
            removes=[] if kept is None else [(store, message_id) for message_id in kept.message_ids],
        )
        answered: asyncio.Future[None] = broker.loop.create_future()
        broker.completions.expect(broker.adapter.commit_together(commit), resolve, answered)
        await answered
        if message is None or message.message_id is None:
            del self._kept[destination]
        else:
            self._kept[destination] = _Pause(sides, (message.message_id,))

    def _message(self, text: str) -> TextMessage:
        if self._producer is None:
            self._producer = ProducerId(self._broker.next_connection_id(), 1, 1)
        self._sent += 1
        message = TextMessage(
            destination=PAUSES,
            message_id=MessageId(self._producer, self._sent),
            producer_id=self._producer,
            timestamp=self._broker.now_ms(),
        )
        message.text = text
        return message

    def _store(self) -> MessageStore:
        return self._broker.adapter.queue_message_store(PAUSES)

    def _apply(self, destination: Destination) -> None:
        """Let a destination do what is kept of it, and nothing else."""
        kept = self._kept.get(destination)
        sides = frozenset[str]() if kept is None else kept.sides
        gate, queue = self._broker.gate, self._broker.queues.get(destination)
        if PRODUCERS in sides:
            gate.close(destination)
        else:
            gate.open(destination)
        if CONSUMERS in sides and queue is None:
            queue = self._broker.queue(destination)
        if queue is not None:
            queue.halt(is_on=CONSUMERS in sides)
