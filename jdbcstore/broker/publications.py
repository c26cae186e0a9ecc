"""Messages of commits that the store does not keep: they are published when it has committed, in order, in slices.

There may be ten thousand of them in one commit. Their client is held back until they are out, so what it sends then
does not overtake them; and what other commits publish waits behind them, so those of one client keep their order, too.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from jdbcstore.broker.slices import Slices
from jdbcstore.broker.topic import Publisher
from jdbcstore.message import Message

__all__ = ["FollowedAnswer", "Publications"]

log = logging.getLogger(__name__)

#: Messages that are published in one go.
_AT_ONCE: Final = 100

_Followed: TypeAlias = Callable[[BaseException | None], None]
_Entry: TypeAlias = "tuple[Iterable[Message], Publisher | None, Callable[[], object], _Followed]"


class FollowedAnswer:
    """An answer that waits for messages which nobody else is told of, so that they count as long as they are on their
    way.

    Args:
        answer: called with the outcome of the message itself.
        is_told: whether it also hears of the first of the others that is lost; otherwise that is for the log alone.
            Who has acknowledged something, or sent what is stored by now, must not be told that nothing was done.
    """

    __slots__ = ("_answer", "_error", "_is_told", "_remaining")

    def __init__(self, answer: _Followed, *, is_told: bool = False) -> None:
        self._answer = answer
        self._is_told = is_told
        self._error: BaseException | None = None
        self._remaining = 1

    def following(self, messages: Iterable[Message]) -> Iterator[Message]:
        """The messages; each that is taken calls `followed` once. Call this object when all are taken."""
        for message in messages:
            self._remaining += 1
            yield message

    def __call__(self, error: BaseException | None) -> None:
        self._error = error or self._error
        self._one_less()

    def followed(self, error: BaseException | None) -> None:
        """How one of the others went."""
        if error is not None and self._is_told:
            self._error = self._error or error
        elif error is not None:
            log.error("a non-persistent message was lost error=%r", str(error))
        self._one_less()

    def _one_less(self) -> None:
        self._remaining -= 1
        if not self._remaining:
            self._answer(self._error)


class Publications:
    """What is being published after its commit.

    Args:
        slices: where that is done if it takes long.
        publish: publishes one message of a client, and calls back with the outcome.
    """

    __slots__ = ("_is_working", "_publish", "_slices", "_waiting")

    def __init__(self, slices: Slices, publish: Callable[[Message, Publisher | None, _Followed], None]) -> None:
        self._slices = slices
        self._publish = publish
        self._waiting: deque[_Entry] = deque()
        self._is_working = False

    def publish(
        self,
        messages: Iterable[Message],
        count: int,
        publisher: Publisher | None,
        done: Callable[[], object],
        followed: _Followed,
    ) -> None:
        """Publish messages, after those that are waiting.

        Args:
            messages: which; in order. They are taken when it is their turn.
            count: about how many they are.
            publisher: whose they are, who is held back if it takes long.
            done: called when they are out, or a defect has stopped that; perhaps before this returns.
            followed: called with the outcome of each, when it is where it belongs, in memory or in the spool.
        """
        if not self._is_working and count <= _AT_ONCE:
            for _ in self._publishing(messages, publisher, done, followed):
                pass
            return
        if publisher is not None:
            publisher.hold()
        self._waiting.append((messages, publisher, done, followed))
        if not self._is_working:
            self._is_working = True
            self._slices.run(self._working(), self._worked)

    def _working(self) -> Iterator[None]:
        while self._waiting:
            messages, publisher, done, followed = self._waiting.popleft()
            try:
                yield from self._publishing(messages, publisher, done, followed)
            finally:
                if publisher is not None:
                    publisher.let_go()

    def _publishing(
        self,
        messages: Iterable[Message],
        publisher: Publisher | None,
        done: Callable[[], object],
        followed: _Followed,
    ) -> Iterator[None]:
        remaining = iter(messages)
        try:
            for message in remaining:
                self._publish(message, publisher, followed)
                yield
        finally:
            for _ in remaining:  # only after a defect
                followed(None)
            done()

    def _worked(self) -> None:
        self._is_working = bool(self._waiting)
        if self._is_working:  # a defect has ended the job
            self._slices.run(self._working(), self._worked)
