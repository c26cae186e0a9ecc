"""What was done ahead for a commit of many messages, so that the commit itself is short.

Messages of one commit get their numbers and are submitted in one go: nothing may come in between. What takes longest
does not have to be part of that: to copy them for other destinations, to turn them into bytes, to count them, and to
tell their queues, where each takes its place in the tail before it is submitted (`jdbcstore.broker.lane`, rule 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from jdbcstore.broker.lane import Lane
from jdbcstore.broker.memory import WRITE_BYTES
from jdbcstore.errors import StoreError
from jdbcstore.message import Message
from jdbcstore.store.contract import MessageStore

__all__ = ["PLACED_LEAST", "PREPARED_LEAST", "Placed", "Prepared"]

#: A commit of fewer messages is short enough.
PREPARED_LEAST: Final = 500
#: A commit of so many takes its places ahead, too. Its messages have to be read again then, as those behind them.
PLACED_LEAST: Final = 2000

_NOT_SUBMITTED: Final = StoreError("the message was not submitted")


class Placed:
    """The messages of one commit, each with its place in the tail of a lane, as the store wants them.

    Attributes:
        adds: the messages that have a place, with their stores, in order.
        made: what their stores have prepared for them.
        others: those that the store does not keep, in order.
        expires_ms: when the first of them expires, in epoch milliseconds; 0 if none does.
    """

    __slots__ = ("_lanes", "adds", "expires_ms", "made", "others")

    def __init__(self) -> None:
        self.adds: list[tuple[MessageStore, Message]] = []
        self.made: list[object] = []
        self.others: list[Message] = []
        self.expires_ms = 0
        #: How many messages have a place in each lane, and their bytes.
        self._lanes: dict[Lane, list[int]] = {}

    def add(self, lane: Lane, message: Message, made: object) -> None:
        """Let a lane keep a place for a message that its store has prepared."""
        lane.take_place()
        kept = self._lanes.setdefault(lane, [0, 0])
        kept[0] += 1
        kept[1] += message.size
        self.adds.append((lane.store, message))
        self.made.append(made)
        self._expires(message)

    def pass_by(self, message: Message) -> None:
        """A message that the store does not keep comes next."""
        self.others.append(message)
        self._expires(message)

    def _expires(self, message: Message) -> None:
        if message.expiration > 0 and not 0 < self.expires_ms <= message.expiration:
            self.expires_ms = message.expiration

    @property
    def is_closed(self) -> bool:
        """Whether a lane is not in use any more, so that its places are nothing."""
        return any(lane.is_closed for lane in self._lanes)

    @property
    def is_advised(self) -> bool:
        """Whether somebody listens to advisories of what arrives in one of the lanes."""
        return any(lane.queue.is_advising for lane in self._lanes)

    def added(self, error: BaseException | None) -> None:
        """The store has answered; the messages are in it, or in no place any more."""
        lanes, self._lanes = self._lanes, {}
        for lane, (count, size) in lanes.items():
            lane.places_added(count, error)
            if error is None:
                lane.queue.enqueued += count
                lane.queue.enqueued_bytes += size


class Prepared:
    """Messages of one commit, with what was done for them ahead.

    Whoever has one calls `close` when the commit is submitted, or when there is none.

    Attributes:
        placed: the messages with their places, all of them; None if they have none.
        count: how many were prepared, without copies.
        size: what they take on their way to the store, with their copies, in bytes.
        copies, copied_bytes: of the persistent copies how many there are, and what all copies take.
        is_complete: whether that is all of them, so that this counts.
        is_closed: whether nothing is prepared any more.
    """

    __slots__ = (
        "_made",
        "_sent",
        "copied_bytes",
        "copies",
        "count",
        "is_closed",
        "is_complete",
        "placed",
        "size",
    )

    def __init__(self) -> None:
        self._made: dict[int, tuple[Message, MessageStore, object]] = {}
        self._sent: dict[int, tuple[Message, list[Message]]] = {}
        self.placed: Placed | None = None
        self.count = self.size = self.copies = self.copied_bytes = 0
        self.is_complete = self.is_closed = False

    def sending(self, message: Message, becomes: Iterable[Message]) -> Iterator[Message]:
        """Keep what a message becomes, itself and copies for other destinations, one at a time."""
        kept: list[Message] = []
        self.leave(message)
        for one in becomes:
            kept.append(one)
            if one is not message:
                self._count_copy(one)
            yield one
        if kept != [message]:
            self._sent[id(message)] = message, kept

    def leave(self, message: Message) -> None:
        """A message that needs nothing to be done ahead is part of the commit."""
        self.count += 1
        self.size += message.size + WRITE_BYTES

    def _count_copy(self, copy: Message) -> None:
        size = copy.size + WRITE_BYTES
        self.size += size
        self.copied_bytes += size
        self.copies += copy.persistent

    def sent(self, message: Message) -> list[Message] | None:
        """What a message becomes; None if that is not known, or nothing but itself. A queue that has come since gets no
        copy of the others."""
        of, kept = self._sent.get(id(message), (None, None))
        return kept if of is message else None

    def prepare(self, store: MessageStore, message: Message) -> None:
        """Let a store do what it can. Raises as `MessageStore.prepare`."""
        self._made[id(message)] = message, store, store.prepare(message)

    def place(self, lane: Lane, message: Message) -> None:
        """The same for a message in a lane; it has a place there, too, if all before it have one."""
        if self.placed is None:
            self.prepare(lane.store, message)
        else:
            self.placed.add(lane, message, lane.store.prepare(message))

    def of(self, store: MessageStore, message: Message) -> object:
        """What was done for a message; None if nothing was, or by another store."""
        of, by, made = self._made.get(id(message), (None, None, None))
        return made if of is message and by is store else None

    def displace(self) -> None:
        """Give up the places of the messages; what their stores have made of them is kept."""
        placed, self.placed = self.placed, None
        if placed is not None:
            for (store, message), made in zip(placed.adds, placed.made, strict=True):
                self._made[id(message)] = message, store, made
            placed.added(_NOT_SUBMITTED)

    def close(self) -> None:
        """Give up the places of messages that were not submitted."""
        self.is_closed = True
        placed, self.placed = self.placed, None
        if placed is not None:
            placed.added(_NOT_SUBMITTED)
