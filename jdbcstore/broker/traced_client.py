"""The parts of a client whose messages are traced: each tells a `Tracing` what the part that it stands for does.

A span of a send begins when the message has arrived, and ends when its sender is answered; within it, that of the
commit begins when the store is asked. Messages that a client acknowledges have a span each until the store has removed
them; in mode auto nobody acknowledges, and the delivery is the last that is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from jdbcstore.broker.answers import AcknowledgementAnswer, Asker, SendAnswer
from jdbcstore.broker.client_account import ClientAccount
from jdbcstore.broker.client_consumers import ClientConsumers
from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.client_producer import ClientProducer
from jdbcstore.broker.client_requests import ClientRequests
from jdbcstore.broker.client_transactions import ClientTransactions
from jdbcstore.broker.delivery import Answer, Consumer, Delivery, DeliveryAnswer
from jdbcstore.broker.pending_acks import DeliveryNames
from jdbcstore.broker.prepared import Prepared
from jdbcstore.broker.producers import Number
from jdbcstore.broker.route import Route
from jdbcstore.broker.spans import acknowledgements, ending
from jdbcstore.broker.tracing import Span, Tracing
from jdbcstore.broker.transaction import OpenTransactions, Transaction
from jdbcstore.errors import ProtocolError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.message import Message

__all__ = ["TracedConsumers", "TracedProducer", "TracedTransactions"]

_T = TypeVar("_T")


class TracedProducer(ClientProducer):
    """Sends for one client, and tells of it.

    Args:
        tracing: whom.
        broker, client, transactions: as `ClientProducer`.
    """

    def __init__(
        self, tracing: Tracing, broker: ClientHost, client: ClientRequests, transactions: OpenTransactions
    ) -> None:
        super().__init__(broker, client, transactions)
        self._tracing = tracing
        #: The message that is being sent, with its span, until somebody else sees to the latter's end.
        self._sending: tuple[Message, Span] | None = None
        self._answer = self._traced_answer

    def send(self, message: Message, request: object, transaction: str | None = None) -> None:
        """As `ClientProducer.send`."""
        self._sending = message, self._tracing.send(message)
        self._ending(lambda: super(TracedProducer, self).send(message, request, transaction))

    def send_numbered(
        self,
        number: Number,
        make: Callable[[], Message],
        request: object,
        transaction: str | None = None,
        *,
        is_gathered: bool = False,
    ) -> bool:
        """As `ClientProducer.send_numbered`; each message has its own spans."""

        def traced() -> Message:
            message = make()
            self._sending = message, self._tracing.send(message)
            return message

        return self._ending(lambda: super(TracedProducer, self).send_numbered(number, traced, request, transaction))

    def gather(self, message: Message, request: object) -> None:
        """As `ClientProducer.send`: each message has its own spans."""
        self.send(message, request)

    def _ending(self, sending: Callable[[], _T]) -> _T:
        """Send; a span that no answer ends ends with that."""
        try:
            result = sending()
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)
        return result

    def _end(self, error: BaseException | None) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending[1].end(error)

    def _traced_answer(
        self, client: Asker, request: object, size: int, undo: Callable[[], object] | None = None
    ) -> Answer:
        answer = SendAnswer(client, request, size, undo)
        if self._sending is None:
            return answer
        (message, span), self._sending = self._sending, None
        return ending(answer, [self._tracing.batch([message], None).begin("commit"), span])


class TracedConsumers(ClientConsumers):
    """Subscribes, delivers and acknowledges for one client, and tells of it.

    Args:
        tracing: whom.
        broker, client, account, transactions, names: as `ClientConsumers`.
    """

    def __init__(
        self,
        tracing: Tracing,
        broker: ClientHost,
        client: ClientRequests,
        account: ClientAccount,
        transactions: OpenTransactions,
        names: DeliveryNames | None,
    ) -> None:
        super().__init__(broker, client, account, transactions, names)
        self._tracing = tracing
        self._spans: dict[Delivery, Span] = {}
        self._answer = self._traced_answer

    def deliver(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        """As `ClientConsumers.deliver`, one by one: each has a span."""
        for delivery in deliveries:
            message = delivery.message
            if message is None or consumer.is_browser:
                super().deliver(consumer, (delivery,))
                continue
            span = self._tracing.deliver(message, consumer.destination, delivery.redeliveries)
            try:
                super().deliver(consumer, (delivery,))
            finally:
                span.end()

    def settle(self, request: object = None) -> None:
        """As `ClientConsumers.settle`."""
        self._spans = acknowledgements(self._tracing, self.acknowledged, is_refused=False)
        super().settle(request)

    def _refuse(self, delivery: Delivery, request: object, cause: str | None) -> None:
        self._spans = acknowledgements(self._tracing, [delivery], is_refused=True)
        super()._refuse(delivery, request, cause)

    def _traced_answer(
        self, client: Asker, request: object, count: int, restore: Callable[[Sequence[Delivery]], object]
    ) -> DeliveryAnswer:
        answer = AcknowledgementAnswer(client, request, count, restore)
        spans, self._spans = self._spans, {}

        def answered(deliveries: Sequence[Delivery], error: BaseException | None) -> None:
            for delivery in deliveries:
                if (span := spans.pop(delivery, None)) is not None:
                    span.end(error)
            answer(deliveries, error)

        return answered


class TracedTransactions(ClientTransactions):
    """Begins, commits and aborts for one client, and tells of it.

    Args:
        tracing: whom.
        broker, client, open_ones, producer, consumers: as `ClientTransactions`.
    """

    def __init__(
        self,
        tracing: Tracing,
        broker: ClientHost,
        client: ClientRequests,
        open_ones: OpenTransactions,
        producer: ClientProducer,
        consumers: ClientConsumers,
    ) -> None:
        super().__init__(broker, client, open_ones, producer, consumers)
        self._tracing = tracing
        self._spans: list[Span] = []
        self._answer = self._traced_answer

    def prepare(self, transaction_id: XATransactionId, request: object) -> bool:
        """As `ClientTransactions.prepare`; whoever decides may be another client: `InDoubt` tells of that."""
        transaction = self._open.named(transaction_id.name)
        if transaction.sends:
            self._spans = [self._tracing.batch(transaction.sends, transaction_id).begin("prepare")]
        try:
            return super().prepare(transaction_id, request)
        finally:
            self._abandon()

    def _commit(
        self,
        transaction: Transaction,
        request: object,
        routes: Sequence[Route],
        refusal: ProtocolError | None,
        prepared: Prepared | None,
    ) -> None:
        self._spans = [*acknowledgements(self._tracing, transaction.acknowledged, is_refused=False).values()]
        if transaction.sends:
            batch = self._tracing.batch(transaction.sends, transaction.transaction_id)
            self._spans.append(batch.begin("commit"))
        super()._commit(transaction, request, routes, refusal, prepared)

    def _abandon(self) -> None:
        """What nobody was asked about is not told: it is tried again, or was refused."""
        self._spans = []

    def _traced_answer(
        self, client: Asker, request: object, size: int, undo: Callable[[], object] | None = None
    ) -> Answer:
        spans, self._spans = self._spans, []
        return ending(SendAnswer(client, request, size, undo), spans)
