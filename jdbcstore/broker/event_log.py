"""What clients do, line by line, in a log of its own (`jdbcstore.events`): ActiveMQ's ``loggingBrokerPlugin``.

It is for looking closely at a broker with few clients; each line costs as much as a message. `BrokerOptions.log_events`
says which events, by these words:

================ ======================================================================================================
``connections``  clients that come and go
``consumers``    subscriptions that begin and end, messages that are acknowledged or refused
``producers``    producers that say where they send, and each message that is sent
``transactions`` transactions that are committed, prepared, or rolled back when they were prepared
``internal``     each delivery
================ ======================================================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jdbcstore.broker.advisories import Advisories, AdvisoryHost
from jdbcstore.broker.delivery import Consumer
from jdbcstore.broker.tracing import Batch, Span, Step
from jdbcstore.destination import Destination
from jdbcstore.identifiers import ProducerId, TransactionId
from jdbcstore.message import Message
from jdbcstore.subscription import SubscriptionKey

__all__ = ["EventLog", "LoggedAdvisories"]

log = logging.getLogger("jdbcstore.events")

_DONE: Final[Mapping[Step, str]] = {"prepare": "prepared", "commit": "committed", "rollback": "rolled back"}


class EventLog:
    """Logs what becomes of messages: `jdbcstore.broker.tracing.Tracing`.

    Args:
        events: the words of the events that are wanted.
    """

    def __init__(self, events: frozenset[str]) -> None:
        self._events = events

    def send(self, message: Message) -> Span:
        """A message has arrived."""
        if "producers" not in self._events:
            return _SILENCE
        destination, message_id, size = message.destination, message.message_id, message.size

        def ended(error: BaseException | None) -> None:
            if error is None:
                log.info("message sent destination=%s message_id=%s bytes=%d", destination, message_id, size)
            else:
                log.info("message not sent destination=%s message_id=%s error=%r", destination, message_id, str(error))

        return _Until(ended)

    def batch(self, messages: Sequence[Message], transaction_id: TransactionId | None) -> Batch:
        """Messages are handed to the store."""
        is_told = "transactions" in self._events and transaction_id is not None
        return _Batch(transaction_id, len(messages)) if is_told else _SILENCE

    def deliver(self, message: Message, destination: Destination, redeliveries: int) -> Span:
        """A message goes to a consumer."""
        if "internal" in self._events:
            log.info(
                "message delivered destination=%s message_id=%s subscription=%s redeliveries=%d",
                message.destination,
                message.message_id,
                destination,
                redeliveries,
            )
        return _SILENCE

    def acknowledge(self, message: Message, *, is_refused: bool) -> Span:
        """A consumer is done with a message, or refuses it."""
        if "consumers" not in self._events:
            return _SILENCE
        destination, message_id = message.destination, message.message_id

        def ended(error: BaseException | None) -> None:
            if error is not None:
                log.info("message kept destination=%s message_id=%s error=%r", destination, message_id, str(error))
            elif is_refused:
                log.info("message refused destination=%s message_id=%s", destination, message_id)
            else:
                log.info("message acknowledged destination=%s message_id=%s", destination, message_id)

        return _Until(ended)


class LoggedAdvisories(Advisories):
    """Publishes advisories of one broker, and logs who comes and goes.

    Args:
        host: as `Advisories`.
        events: the words of the events that are wanted.
    """

    def __init__(self, host: AdvisoryHost, events: frozenset[str]) -> None:
        super().__init__(host)
        self._events = events

    def connected(
        self, connection_id: str, client_id: str | None, user: str | None, peer: str, command: object = None
    ) -> None:
        """As `Advisories.connected`."""
        if "connections" in self._events:
            log.info("connection added id=%s client_id=%s user=%s peer=%s", connection_id, client_id, user, peer)
        super().connected(connection_id, client_id, user, peer, command)

    def disconnected(self, connection_id: str) -> None:
        """As `Advisories.disconnected`."""
        if "connections" in self._events:
            log.info("connection removed id=%s", connection_id)
        super().disconnected(connection_id)

    def consumer_added(self, consumer: Consumer, connection_id: str, client_id: str | None) -> None:
        """As `Advisories.consumer_added`."""
        if "consumers" in self._events:
            log.info(
                "consumer added connection=%s client_id=%s destination=%s subscription=%s selector=%r",
                connection_id,
                client_id,
                consumer.destination,
                consumer.subscription_id,
                None if consumer.interest.selector is None else consumer.interest.selector.text,
            )
        super().consumer_added(consumer, connection_id, client_id)

    def consumer_removed(self, consumer: Consumer) -> None:
        """As `Advisories.consumer_removed`."""
        if "consumers" in self._events:
            log.info("consumer removed destination=%s subscription=%s", consumer.destination, consumer.subscription_id)
        super().consumer_removed(consumer)

    def subscription_removed(self, key: SubscriptionKey, destination: Destination, connection_id: str | None) -> None:
        """As `Advisories.subscription_removed`."""
        if "consumers" in self._events:
            log.info(
                "durable subscription removed destination=%s key=%s connection=%s", destination, key, connection_id
            )
        super().subscription_removed(key, destination, connection_id)

    def producer_added(self, producer_id: ProducerId, destination: Destination, command: object = None) -> None:
        """As `Advisories.producer_added`."""
        if "producers" in self._events:
            log.info("producer added id=%s destination=%s", producer_id, destination)
        super().producer_added(producer_id, destination, command)

    def producer_removed(self, producer_id: ProducerId) -> None:
        """As `Advisories.producer_removed`."""
        if "producers" in self._events:
            log.info("producer removed id=%s", producer_id)
        super().producer_removed(producer_id)


class _Batch:
    """The messages of a transaction."""

    __slots__ = ("_count", "_transaction_id")

    def __init__(self, transaction_id: TransactionId | None, count: int) -> None:
        self._transaction_id = transaction_id
        self._count = count

    def begin(self, step: Step) -> Span:
        transaction_id, count = self._transaction_id, self._count

        def ended(error: BaseException | None) -> None:
            if error is None:
                log.info("transaction %s transaction_id=%s messages=%d", _DONE[step], transaction_id, count)
            else:
                log.info("transaction not %s transaction_id=%s error=%r", _DONE[step], transaction_id, str(error))

        return _Until(ended)


class _Until:
    """Calls something at its end."""

    __slots__ = ("_ended",)

    def __init__(self, ended: Callable[[BaseException | None], None]) -> None:
        self._ended = ended

    def end(self, error: BaseException | None = None) -> None:
        self._ended(error)


class _Silence:
    """The batch and the span of what is not logged."""

    def begin(self, step: Step) -> Span:
        """There is nothing to be said."""
        return self

    def end(self, error: BaseException | None = None) -> None:
        """There is nothing to be said."""


_SILENCE: Final = _Silence()
