"""What was done ahead for a commit of many messages, so that the commit itself is short.

Messages of one commit get their numbers and are submitted in one go: nothing may come in between. What takes longest
does not have to be part of that: to copy them for other destinations, to turn them into bytes, and to tell their
queues, where each takes its place in the tail before it is submitted (`jdbcstore.broker.lane`, rule 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from jdbcstore.broker.lane import Lane
from jdbcstore.broker.route import Route
from jdbcstore.errors import StoreError
from jdbcstore.message import Message
from jdbcstore.store.contract import MessageStore

__all__ = ["PLACED_LEAST", "PREPARED_LEAST", "Prepared"]

#: A commit of fewer messages is short enough.
PREPARED_LEAST: Final = 500
#: A commit of so many takes its places ahead, too. Its messages have to be read again then, as those behind them.
PLACED_LEAST: Final = 2000

_NOT_SUBMITTED: Final = StoreError("the message was not submitted")


class Prepared:
    """Messages of one commit, with what was done for them ahead.

    Whoever has one calls `close` when the commit is submitted, or when there is none.

    Args:
        routes: where its messages go.

    Attributes:
        routes: those: what has changed since they were found, a queue that has come say, is of no concern.
        places: the lanes that keep a place for a message which is not submitted yet, by the message's `id`.
        is_closed: whether nothing is prepared any more.
    """

    __slots__ = ("_becomes", "_made", "is_closed", "places", "routes")

    def __init__(self, routes: Sequence[Route] = ()) -> None:
        self.routes = routes
        self._made: dict[int, tuple[Message, MessageStore, object]] = {}
        self._becomes: dict[int, tuple[Route, list[Message]]] = {}
        self.places: dict[int, Lane] = {}
        self.is_closed = False

    def making(self, route: Route) -> Iterator[Message]:
        """Make what a message becomes, itself and copies for other destinations, one at a time, and keep it."""
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

    def take_place(self, lane: Lane, message: Message) -> None:
        """Let a lane keep a place for a message that is prepared."""
        lane.take_place()
        self.places[id(message)] = lane

    def of(self, store: MessageStore, message: Message) -> object:
        """What was done for a message; None if nothing was, or by another store."""
        of, by, made = self._made.get(id(message), (None, None, None))
        return made if of is message and by is store else None

    def close(self) -> None:
        """Give up the places of messages that were not submitted."""
        self.is_closed = True
        while self.places:
            _, lane = self.places.popitem()
            lane.added(None, _NOT_SUBMITTED)
