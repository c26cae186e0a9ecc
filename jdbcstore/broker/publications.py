"""Messages of commits that the store does not keep: they are published when it has committed, in order, in slices.

There may be ten thousand of them in one commit. Their client is held back until they are out, so what it sends then
does not overtake them; and what other commits publish waits behind them, so those of one client keep their order, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from jdbcstore.broker.slices import Slices
from jdbcstore.broker.topic import Publisher
from jdbcstore.message import Message

__all__ = ["Publications"]

#: Messages that are published in one go.
_AT_ONCE: Final = 100

_Entry: TypeAlias = "tuple[Sequence[Message], Publisher | None, Callable[[], object]]"


class Publications:
    """What is being published after its commit.

    Args:
        slices: where that is done if it takes long.
        publish: publishes one message of a client.
    """

    __slots__ = ("_is_working", "_publish", "_slices", "_waiting")

    def __init__(self, slices: Slices, publish: Callable[[Message, Publisher | None], None]) -> None:
        self._slices = slices
        self._publish = publish
        self._waiting: deque[_Entry] = deque()
        self._is_working = False

    def publish(self, messages: Sequence[Message], publisher: Publisher | None, done: Callable[[], object]) -> None:
        """Publish messages, after those that are waiting.

        Args:
            messages: which; in order.
            publisher: whose they are, who is held back if it takes long.
            done: called when they are out, or a defect has stopped that; perhaps before this returns.
        """
        if not self._is_working and len(messages) <= _AT_ONCE:
            try:
                for message in messages:
                    self._publish(message, publisher)
            finally:
                done()
            return
        if publisher is not None:
            publisher.hold()
        self._waiting.append((messages, publisher, done))
        if not self._is_working:
            self._is_working = True
            self._slices.run(self._working(), self._worked)

    def _working(self) -> Iterator[None]:
        while self._waiting:
            messages, publisher, done = self._waiting.popleft()
            try:
                for message in messages:
                    self._publish(message, publisher)
                    yield
            finally:
                if publisher is not None:
                    publisher.let_go()
                done()

    def _worked(self) -> None:
        self._is_working = bool(self._waiting)
        if self._is_working:  # a defect has ended the job
            self._slices.run(self._working(), self._worked)
