"""What was done ahead for a commit of many messages, so that the commit itself is short.

Messages of one commit get their numbers and are submitted in one go: nothing may come in between. What takes longest
does not have to be part of that: to copy them for other destinations, to turn them into bytes, to count them, and to
tell their queues, where each takes its place in the tail before it is submitted (`jdbcstore.broker.lane`, rule 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from jdbcstore.broker.lane import Lane
from jdbcstore.broker.route import Route
from jdbcstore.errors import ProtocolError, StoreError
from jdbcstore.message import Message
from jdbcstore.store.contract import MessageStore

__all__ = ["PREPARED_LEAST", "Placed", "Prepared"]

#: A commit of fewer messages is short enough.
PREPARED_LEAST: Final = 500
#: A commit of so many takes its places ahead, too. Its messages have to be read again then, as those behind them.
_PLACED_LEAST: Final = 2000

_NOT_SUBMITTED: Final = StoreError("the message was not submitted")


class Placed:
    """The messages of one commit, each with its place in the tail of a lane, as the store wants them.

    Attributes:
        adds: the messages that have a place, with their stores, in order.
        made: what their stores have prepared for them.
        others: where those go that the store does not keep, in order.
        expires_ms: when the first of them expires, in epoch milliseconds; 0 if none does.
    """

    __slots__ = ("_lanes", "adds", "expires_ms", "made", "others")

    def __init__(self) -> None:
        self.adds: list[tuple[MessageStore, Message]] = []
        self.made: list[object] = []
        self.others: list[Route] = []
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

    def pass_by(self, route: Route) -> None:
        """A message that the store does not keep comes next."""
        self.others.append(route)
        self._expires(route.message)

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

    Args:
        routes: where its messages go; they may be found one by one.
        count: how many messages that are.

    Attributes:
        routes: those of which that is known, which are all in the end: what has changed since they were found, a queue
            that has come say, is of no concern.
        size: what these messages take on their way to the store, with their copies, in bytes.
        copies, copied_bytes: how many persistent copies they have, and what all copies take.
        placed: the messages with their places, all of them; None if they have none.
        refusal: why they cannot be stored at once; None if they can.
        is_closed: whether nothing is prepared any more.
    """

    __slots__ = (
        "_becomes",
        "_coming",
        "_made",
        "copied_bytes",
        "copies",
        "is_closed",
        "placed",
        "refusal",
        "routes",
        "size",
    )

    def __init__(self, routes: Iterable[Route] = (), count: int = 0) -> None:
        self._coming = iter(routes)
        self.routes: list[Route] = []
        self._made: dict[int, tuple[Message, MessageStore, object]] = {}
        self._becomes: dict[int, tuple[Route, list[Message]]] = {}
        self.size = self.copies = self.copied_bytes = 0
        self.placed = Placed() if count >= _PLACED_LEAST else None
        self.refusal: ProtocolError | None = None
        self.is_closed = False

    def each(self) -> Iterator[Route]:
        """Where each message goes, one after the other."""
        for route in self._coming:
            self.routes.append(route)
            self.size += route.size
            if route.places:
                self.copied_bytes += route.copied_bytes
                self.copies += len(route.places) if route.message.persistent else 0
            yield route

    def making(self, route: Route) -> Iterator[Message]:
        """Make what a message becomes, itself and copies for other destinations, one at a time, and keep it."""
        if not route.places:
            yield from route.messages()
            return
        made: list[Message] = []
        for one in route.messages():
            made.append(one)
            yield one
        self._becomes[id(route)] = route, made

    def messages(self, route: Route) -> Iterable[Message]:
        """As `Route.messages`, which are not made again if they are kept for this route."""
        of, made = self._becomes.get(id(route), (None, ()))
        return made if of is route else route.messages()

    def prepare(self, store: MessageStore, message: Message) -> None:
        """Let a store do what it can. Raises as `MessageStore.prepare`."""
        self._made[id(message)] = message, store, store.prepare(message)

    def place(self, lane: Lane, message: Message) -> None:
        """The same for a message in a lane; it has a place there, too, if all before it have one."""
        if self.placed is None:
            self.prepare(lane.store, message)
        else:
            self.placed.add(lane, message, lane.store.prepare(message))

    def pass_by(self, route: Route) -> None:
        """A message that the store does not keep comes next."""
        if self.placed is not None:
            self.placed.pass_by(route)

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
