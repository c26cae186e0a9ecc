"""Answers that are not known yet: what a client gets when the store has said how it went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from jdbcstore.broker.delivery import Delivery

if TYPE_CHECKING:
    from jdbcstore.broker.producers import Number
    from jdbcstore.transport.stomp.session import Session

__all__ = ["AcknowledgementAnswer", "NumberedAnswer", "SendAnswer"]

#: What an acknowledgement counts among the uncommitted bytes of its connection.
_ACKNOWLEDGEMENT_BYTES: Final = 512


class SendAnswer:
    """The answer to a SEND or a COMMIT.

    Args:
        session: who asked.
        receipt: the receipt that was asked for, if any.
        size: bytes that are on their way to the store until then.
        acknowledged: what the COMMIT acknowledges; the client has it still if the commit fails.
    """

    __slots__ = ("_acknowledged", "_receipt", "_session", "_size")

    def __init__(
        self, session: Session, receipt: str | None, size: int, acknowledged: list[Delivery] | None = None
    ) -> None:
        self._session = session
        self._receipt = receipt
        self._size = size
        self._acknowledged = acknowledged
        session.asked(size)

    def __call__(self, error: BaseException | None) -> None:
        try:
            if error is not None and self._acknowledged:
                self._session.restore(self._acknowledged)
        finally:
            self._session.answered(self._size, self._receipt, error)


class NumberedAnswer(SendAnswer):
    """The answer to a SEND or a COMMIT of messages that their producers have numbered.

    Args:
        session, receipt, size, acknowledged: as `SendAnswer`.
        numbers: which of them have to be sent again if it is an ERROR.
    """

    __slots__ = ("_numbers",)

    def __init__(
        self,
        session: Session,
        receipt: str | None,
        size: int,
        numbers: Sequence[Number],
        acknowledged: list[Delivery] | None = None,
    ) -> None:
        super().__init__(session, receipt, size, acknowledged)
        self._numbers = numbers

    def __call__(self, error: BaseException | None) -> None:
        if error is not None:
            for number in self._numbers:
                self._session.numbering.refused(number)
        super().__call__(error)


class AcknowledgementAnswer:
    """The answer to an ACK or NACK, known when it is known for all the messages that it covers.

    Args:
        session: who asked.
        receipt: the receipt that was asked for, if any.
        count: messages that it covers.
    """

    __slots__ = ("_error", "_receipt", "_remaining", "_session", "_size")

    def __init__(self, session: Session, receipt: str | None, count: int) -> None:
        self._session = session
        self._receipt = receipt
        self._remaining = count
        self._error: BaseException | None = None
        self._size = count * _ACKNOWLEDGEMENT_BYTES
        session.asked(self._size)

    def __call__(self, deliveries: Sequence[Delivery], error: BaseException | None) -> None:
        try:
            if error is not None:
                self._error = error
                self._session.restore(deliveries)
        finally:
            self._remaining -= len(deliveries)
            if not self._remaining:
                self._session.answered(self._size, self._receipt, self._error)
