"""Answers that are not known yet: what a client gets when the outcome is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, Protocol

from jdbcstore.broker.delivery import Delivery

__all__ = ["AcknowledgementAnswer", "Asker", "SendAnswer", "SendAnswers"]

#: What an acknowledgement counts among the uncommitted bytes of its connection.
_ACKNOWLEDGEMENT_BYTES: Final = 512


class Asker(Protocol):
    """The client that an answer is for."""

    def asked(self, size: int, count: int = 1) -> None:
        """So many bytes are on their way to the store; so many answers are due."""

    def stored(self, size: int, requests: Sequence[object], seconds: float) -> None:
        """The store has several messages, which took so long."""

    def answered(self, size: int, request: object, error: BaseException | None, seconds: float | None = None) -> None:
        """The store has answered; `seconds` is how long a message or a commit took."""


class SendAnswer:
    """The answer to a message or a commit.

    Args:
        client: who asked.
        request: what is completed.
        size: bytes that are on their way to the store until then.
        undo: called if it fails, before the client is told.
    """

    __slots__ = ("_began_s", "_client", "_request", "_size", "_undo")

    def __init__(self, client: Asker, request: object, size: int, undo: Callable[[], object] | None = None) -> None:
        self._client = client
        self._request = request
        self._size = size
        self._undo = undo
        self._began_s = perf_counter()
        client.asked(size)

    def __call__(self, error: BaseException | None) -> None:
        try:
            if error is not None and self._undo is not None:
                self._undo()
        finally:
            self._client.answered(self._size, self._request, error, perf_counter() - self._began_s)


class SendAnswers:
    """The `Answers` to messages that are stored in one go, each for itself.

    Args:
        client: who asked.
        requests: what is completed, for each message.
        sizes: bytes that each has on its way to the store until then.
    """

    __slots__ = ("_began_s", "_client", "_requests", "_sizes")

    def __init__(self, client: Asker, requests: Sequence[object], sizes: Sequence[int]) -> None:
        self._client = client
        self._requests = requests
        self._sizes = sizes
        self._began_s = perf_counter()
        client.asked(sum(sizes), len(sizes))

    def stored(self) -> None:
        """As `Answers.stored`."""
        self._client.stored(sum(self._sizes), self._requests, perf_counter() - self._began_s)

    def answered(self, place: int, error: BaseException | None) -> None:
        """As `Answers.answered`."""
        self._client.answered(self._sizes[place], self._requests[place], error, perf_counter() - self._began_s)


class AcknowledgementAnswer:
    """The answer to acknowledgements or a rejection, known when it is known for all the messages that it covers.

    Args:
        client: who asked.
        request: what is completed.
        count: messages that it covers.
        restore: called with those that the client has still, because their acknowledgement failed.
    """

    __slots__ = ("_client", "_error", "_remaining", "_request", "_restore", "_size")

    def __init__(
        self, client: Asker, request: object, count: int, restore: Callable[[Sequence[Delivery]], object]
    ) -> None:
        self._client = client
        self._restore = restore
        self._request = request
        self._remaining = count
        self._error: BaseException | None = None
        self._size = count * _ACKNOWLEDGEMENT_BYTES
        client.asked(self._size)

    def __call__(self, deliveries: Sequence[Delivery], error: BaseException | None) -> None:
        try:
            if error is not None:
                self._error = error
                self._restore(deliveries)
        finally:
            self._remaining -= len(deliveries)
            if not self._remaining:
                self._client.answered(self._size, self._request, self._error)
