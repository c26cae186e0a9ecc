"""Answers that are not known yet: what a client gets when the store has said how it went."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from jdbcstore.broker.delivery import Delivery
from jdbcstore.broker.memory import NUMBERED_BYTES
from jdbcstore.broker.producers import Number, Numbering

__all__ = ["AcknowledgementAnswer", "Asker", "NumberedAnswer", "SendAnswer"]

#: What an acknowledgement counts among the uncommitted bytes of its connection.
_ACKNOWLEDGEMENT_BYTES: Final = 512


class Asker(Protocol):
    """The client that an answer is for."""

    @property
    def numbering(self) -> Numbering:
        """What is missing of producers that number their messages."""

    def asked(self, size: int) -> None:
        """So many bytes are on their way to the store."""

    def answered(self, size: int, request: object, error: BaseException | None) -> None:
        """The store has answered."""

    def restore(self, deliveries: Iterable[Delivery]) -> None:
        """Their acknowledgement failed: the client has them still."""


class SendAnswer:
    """The answer to a message or a commit.

    Args:
        client: who asked.
        request: what is completed.
        size: bytes that are on their way to the store until then.
        acknowledged: what the commit acknowledges; the client has it still if the commit fails.
    """

    __slots__ = ("_acknowledged", "_client", "_request", "_size")

    def __init__(self, client: Asker, request: object, size: int, acknowledged: list[Delivery] | None = None) -> None:
        self._client = client
        self._request = request
        self._size = size
        self._acknowledged = acknowledged
        client.asked(size)

    def __call__(self, error: BaseException | None) -> None:
        try:
            if error is not None and self._acknowledged:
                self._client.restore(self._acknowledged)
        finally:
            self._client.answered(self._size, self._request, error)


class NumberedAnswer(SendAnswer):
    """The answer to messages, or a transaction of messages, that their producers have numbered.

    Args:
        client, request, size, acknowledged: as `SendAnswer`.
        numbers: which of them have to be sent again if it is an ERROR.
    """

    __slots__ = ("_numbers",)

    def __init__(
        self,
        client: Asker,
        request: object,
        size: int,
        numbers: Sequence[Number],
        acknowledged: list[Delivery] | None = None,
    ) -> None:
        super().__init__(client, request, size + NUMBERED_BYTES, acknowledged)
        self._numbers = numbers

    def __call__(self, error: BaseException | None) -> None:
        if error is not None:
            for number in self._numbers:
                self._client.numbering.refused(number)
        super().__call__(error)


class AcknowledgementAnswer:
    """The answer to acknowledgements or a rejection, known when it is known for all the messages that it covers.

    Args:
        client: who asked.
        request: what is completed.
        count: messages that it covers.
    """

    __slots__ = ("_client", "_error", "_remaining", "_request", "_size")

    def __init__(self, client: Asker, request: object, count: int) -> None:
        self._client = client
        self._request = request
        self._remaining = count
        self._error: BaseException | None = None
        self._size = count * _ACKNOWLEDGEMENT_BYTES
        client.asked(self._size)

    def __call__(self, deliveries: Sequence[Delivery], error: BaseException | None) -> None:
        try:
            if error is not None:
                self._error = error
                self._client.restore(deliveries)
        finally:
            self._remaining -= len(deliveries)
            if not self._remaining:
                self._client.answered(self._size, self._request, self._error)
