"""What a broker tells whoever traces messages: `Tracing` is what that one implements, and `Span` a part of a trace.

Nothing is told, and nothing costs anything, while nobody traces: `jdbcstore.broker.traced_client` stands in the place
of a client's parts only if somebody does. Everything is called in the event loop, and returns soon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.identifiers import TransactionId
from jdbcstore.message import Message

__all__ = ["Batch", "Span", "Step", "Tracing", "Tracings"]

#: What the store is asked to do with messages. A prepared transaction is committed or rolled back afterwards, perhaps
#: much later.
Step: TypeAlias = Literal["prepare", "commit", "rollback"]


class Span(Protocol):
    """Something that has begun."""

    def end(self, error: BaseException | None = None) -> None:
        """It is over; with an error it has failed."""


class Batch(Protocol):
    """Messages that are handed to the store together. It may be kept for long, as it holds none of them."""

    def begin(self, step: Step) -> Span:
        """The store is asked to do this; over when it has."""


class Tracing(Protocol):
    """Who follows messages."""

    def send(self, message: Message) -> Span:
        """A message has arrived. It may be given a property that says which trace it belongs to, unless it has one."""

    def batch(self, messages: Sequence[Message], transaction_id: TransactionId | None) -> Batch:
        """Messages are handed to the store, together: those of a transaction, or one alone."""

    def deliver(self, message: Message, destination: Destination, redeliveries: int) -> Span:
        """A message goes to a consumer.

        Args:
            message: which one.
            destination: the subscription's.
            redeliveries: how often it was delivered before.
        """

    def acknowledge(self, message: Message, *, is_refused: bool) -> Span:
        """A consumer is done with a message, or refuses it; over when the store has removed it."""


class Tracings:
    """Several who follow messages: what one is told, all are told, in their order.

    Args:
        tracings: those.
    """

    def __init__(self, *tracings: Tracing) -> None:
        self._tracings = tracings

    def send(self, message: Message) -> Span:
        """As `Tracing.send`."""
        return _Spans([one.send(message) for one in self._tracings])

    def batch(self, messages: Sequence[Message], transaction_id: TransactionId | None) -> Batch:
        """As `Tracing.batch`."""
        return _Batches([one.batch(messages, transaction_id) for one in self._tracings])

    def deliver(self, message: Message, destination: Destination, redeliveries: int) -> Span:
        """As `Tracing.deliver`."""
        return _Spans([one.deliver(message, destination, redeliveries) for one in self._tracings])

    def acknowledge(self, message: Message, *, is_refused: bool) -> Span:
        """As `Tracing.acknowledge`."""
        return _Spans([one.acknowledge(message, is_refused=is_refused) for one in self._tracings])


class _Batches:
    """Batches that are one."""

    __slots__ = ("_batches",)

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches

    def begin(self, step: Step) -> Span:
        return _Spans([batch.begin(step) for batch in self._batches])


class _Spans:
    """Spans that are over together."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans

    def end(self, error: BaseException | None = None) -> None:
        for span in self._spans:
            span.end(error)
