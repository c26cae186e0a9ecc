"""Acknowledgements of OpenWire clients: MessageAck to the broker's face.

========== =================================================================================================
type       what is done with the messages from the first to the last one that it names
========== =================================================================================================
delivered  the application has so many as it says: the consumer may be sent as many more, never more than it holds
poison     each is a dead letter, which tells the client's cause. If it was asked for and suppressed as a duplicate, the
           consumer still waits for one
standard   they are acknowledged
redelivered nothing: the client has given them to its application again
individual the last one is acknowledged
unmatched  nothing: the client did not want them
expired    each is a dead letter, as expired messages are
========== =================================================================================================

Source: ActiveMQ's MessageAck and PrefetchSubscription, observed. Without a first message they begin with the oldest
pending one. A standard acknowledgement that names something that is not pending, or another number of messages than
there are between the two, is refused, and nothing is done: the client and the broker do not mean the same messages.
What comes for a consumer that is closed is ignored, and so is what a subscriber to topics names and does not have.

A client that has lost its broker may say again what it had acknowledged in an open transaction, and others may have
these messages now. The transaction is committed without them, as by a Java broker, and they come again. Rolled back
it would be without end: the client gives its application the same messages again, and acknowledges them with those it
does not have.
"""

from __future__ import annotations

import logging
from typing import Final

from jdbcstore.broker.client import Client
from jdbcstore.broker.client_consumers import ClientConsumers
from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.durable import DurableConsumer
from jdbcstore.broker.topic import TopicConsumer
from jdbcstore.errors import ProtocolError
from jdbcstore.openwire import commands as c
from jdbcstore.transport.openwire.delivery_names import OpenWireNames
from jdbcstore.transport.openwire.exceptions import cause_text
from jdbcstore.transport.openwire.transactions import not_started

__all__ = ["acknowledge", "number_of", "unseen"]

log = logging.getLogger(__name__)

#: How Java's client begins the cause if a message comes that its connection has had. It does not tell who waits for it.
_SUPPRESSED: Final = "Suppressing duplicate delivery"

#: Types that ask for nothing but their last message.
_OF_ONE: Final = (c.ACK_DELIVERED, c.ACK_INDIVIDUAL)

#: Above all numbers that stores give.
_UNSTORED: Final = 1 << 62

#: `RemoveInfo.last_delivered_sequence_id` of a client that does not tell.
_UNKNOWN: Final = -2


def acknowledge(
    client: Client, names: OpenWireNames, ack: c.MessageAck, request: object, *, is_reconnected: bool
) -> bool:
    """Do what an acknowledgement asks for.

    Args:
        client: whose it is.
        names: of its deliveries.
        ack: what it says.
        request: completed when the acknowledgement has taken effect.
        is_reconnected: whether it may be about messages of the connection's former life, which others have now.

    Returns:
        Whether `request` is going to be completed; if not, everything is done.

    Raises:
        JdbcStoreError: the client has no such messages, or there is no such transaction.
    """
    consumers = client.consumers
    consumer = consumers.by_key.get(str(ack.consumer_id))
    if consumer is None:
        log.debug("acknowledgement matches nothing ack=%r", ack)
        return False
    transaction = None if ack.transaction_id is None else ack.transaction_id.name
    if transaction is not None and transaction not in client.transactions:
        raise not_started(ack.transaction_id)
    if transaction is not None and ack.ack_type == c.ACK_POISON and not isinstance(consumer, TopicConsumer):
        raise ProtocolError(f"Poison ack cannot be transacted: {_told(ack)}")
    deliveries = _covered(consumers, names, consumer, ack, is_lenient=is_reconnected)
    if not deliveries:
        log.debug("acknowledgement matches nothing ack=%r", ack)
        return False
    if ack.ack_type == c.ACK_DELIVERED:
        if consumer.prefetch:
            count = consumer.extension + max(ack.message_count, 0)
            consumer.extend(min(count, len(consumer.unacknowledged)))
        return False
    if ack.ack_type == c.ACK_REDELIVERED:
        return False
    if ack.ack_type in (c.ACK_POISON, c.ACK_EXPIRED):
        _reject(consumers, consumer, deliveries, ack, request)
    else:
        consumers.acknowledge_all(consumer, deliveries, request, transaction)
    return True


def _reject(
    consumers: ClientConsumers, consumer: Consumer, deliveries: list[Delivery], ack: c.MessageAck, request: object
) -> None:
    if consumer.is_browser:  # it was only shown
        consumers.acknowledge_all(consumer, deliveries, request)
        return
    cause = cause_text(ack.poison_cause)
    consumers.reject_all(consumer, deliveries, request, cause)
    if not consumer.prefetch and cause is not None and _SUPPRESSED in cause:
        consumers.pull_again(consumer)


def _covered(
    consumers: ClientConsumers, names: OpenWireNames, consumer: Consumer, ack: c.MessageAck, *, is_lenient: bool
) -> list[Delivery]:
    """The pending deliveries that an acknowledgement is about, the last alone of one that only counts; none if there is
    nothing to be done."""
    is_lenient = is_lenient or isinstance(consumer, TopicConsumer)
    kind, first_id, last_id = ack.ack_type, ack.first_message_id, ack.last_message_id
    if not c.ACK_DELIVERED <= kind <= c.ACK_EXPIRED or kind == c.ACK_UNMATCHED:
        if isinstance(consumer, TopicConsumer):
            raise ProtocolError(f"Invalid acknowledgment: {_told(ack)}")
        return []
    last = None if last_id is None else names.find(consumer, last_id, ack.destination)
    if last is not None and (kind in _OF_ONE or (ack.message_count == 1 and first_id == last_id)):
        return [last]
    if kind == c.ACK_INDIVIDUAL:
        return []
    first = None
    if first_id is not None and kind != c.ACK_DELIVERED:
        first = names.find(consumer, first_id, ack.destination)
        if first is None:
            if not is_lenient:
                raise _uncorrelated(ack, f"Could not find Message-ID {first_id} in dispatched-list (start of ack)")
            if last is None:
                return []
            # It began in the former life, and others have the messages of that. The application has all up to the last.
            return consumers.covered(consumer, None, last)[-ack.message_count :]
    if last is None:
        if not is_lenient:
            raise _uncorrelated(ack, f"Could not find Message-ID {last_id} in dispatched-list (end of ack)")
        return []
    found = consumers.covered(consumer, first, last)
    if is_lenient:
        return found
    if not found:  # the last one was sent before the first
        raise _uncorrelated(ack, f"Could not find Message-ID {first_id} in dispatched-list (start of ack)")
    if kind == c.ACK_STANDARD and len(found) != ack.message_count and ack.transaction_id is None:
        raise _uncorrelated(
            ack,
            f"Expected message count ({ack.message_count}) differs from count in dispatched-list ({len(found)})",
        )
    return found


def _uncorrelated(ack: c.MessageAck, why: str) -> ProtocolError:
    """The client means other messages than it was sent."""
    if ack.ack_type == c.ACK_STANDARD:
        return ProtocolError(f"Unmatched acknowledge: {_told(ack)}; {why}")
    kind = "expiration acknowledgment" if ack.ack_type == c.ACK_EXPIRED else "acknowledgment"
    return ProtocolError(f"Could not correlate {kind} with dispatched message: {_told(ack)}")


def _told(ack: c.MessageAck) -> str:
    """An acknowledgement as brokers name it in their errors."""
    said = {
        "commandId": ack.command_id,
        "responseRequired": str(ack.response_required).lower(),
        "ackType": ack.ack_type,
        "consumerId": ack.consumer_id,
        "firstMessageId": ack.first_message_id,
        "lastMessageId": ack.last_message_id,
        "destination": ack.destination,
        "transactionId": ack.transaction_id,
        "messageCount": ack.message_count,
        "poisonCause": cause_text(ack.poison_cause),
    }
    return f"MessageAck {{{', '.join(f'{name} = {_java(value)}' for name, value in said.items())}}}"


def _java(value: object) -> str:
    return "null" if value is None else str(value)


def number_of(delivery: Delivery) -> int:
    """The number by which clients say how far they have come: the store's, or one of ours if it gave none."""
    return delivery.message_id.broker_sequence_id or _UNSTORED + delivery.sent


def unseen(consumer: Consumer, last: int) -> list[Delivery]:
    """What was sent to a consumer and never seen by its application.

    Args:
        consumer: the consumer, which is going to be closed.
        last: the number of the last message that the application got; -1 for none, -2 if nobody knows.

    Returns:
        Those behind that one, in the order in which they were sent; none if nobody knows. If it is not pending any
        more, that is all of a queue's messages, but of a durable subscription's only those with a higher number: so a
        Java broker does it.
    """
    if last == _UNKNOWN:
        return []
    pending = sorted(consumer.unacknowledged.values(), key=lambda delivery: delivery.sent)
    if last >= 0:
        for place, delivery in enumerate(pending):
            if number_of(delivery) == last:
                return pending[place + 1 :]
        if isinstance(consumer, DurableConsumer):
            return [delivery for delivery in pending if number_of(delivery) > last > 0]
    return pending
