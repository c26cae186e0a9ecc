"""Acknowledgements of OpenWire clients: MessageAck to the broker's face.

========== =================================================================================================
type       what is done with the messages from the first to the last one that it names
========== =================================================================================================
delivered  the application has them: the consumer may be sent as many more; counted from the oldest pending
poison     each is a dead letter, which tells the client's cause
standard   they are acknowledged
redelivered nothing: the client has given them to its application again
individual the last one is acknowledged
unmatched  nothing: the client did not want them
expired    each is a dead letter, as expired messages are
========== =================================================================================================

Source: ActiveMQ's MessageAck and PrefetchSubscription. What a standard acknowledgement names and is not pending any
more is ignored, as there: the client may have closed the consumer in between.

A client that has lost its broker may say again what it had acknowledged in an open transaction, and others may have
these messages now. The transaction is committed without them, as by a Java broker, and they come again. Rolled back
it would be without end: the client gives its application the same messages again, and acknowledges them with those it
does not have.
"""

from __future__ import annotations

import logging
from typing import Final

from jdbcstore.broker.client_consumers import ClientConsumers
from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.errors import ProtocolError
from jdbcstore.openwire import commands as c
from jdbcstore.transport.openwire.delivery_names import OpenWireNames
from jdbcstore.transport.openwire.exceptions import cause_text

__all__ = ["acknowledge", "number_of", "unseen"]

log = logging.getLogger(__name__)

_IGNORED_IF_UNKNOWN: Final = (c.ACK_STANDARD, c.ACK_INDIVIDUAL, c.ACK_UNMATCHED)

#: Above all numbers that stores give.
_UNSTORED: Final = 1 << 62

#: `RemoveInfo.last_delivered_sequence_id` of a client that does not tell.
_UNKNOWN: Final = -2


def acknowledge(
    consumers: ClientConsumers, names: OpenWireNames, ack: c.MessageAck, request: object, *, is_reconnected: bool
) -> bool:
    """Do what an acknowledgement asks for.

    Args:
        consumers: the client's.
        names: of its deliveries.
        ack: what it says.
        request: completed when the acknowledgement has taken effect.
        is_reconnected: whether it may be about messages of the connection's former life, which others have now.

    Returns:
        Whether `request` is going to be completed; if not, everything is done.

    Raises:
        ProtocolError: the client has no such consumer or no such message, or there is no such transaction or type.
    """
    if not c.ACK_DELIVERED <= ack.ack_type <= c.ACK_EXPIRED:
        raise ProtocolError(f"Invalid acknowledgment: there is no type {ack.ack_type}")
    consumer = consumers.by_key.get(str(ack.consumer_id))
    if consumer is None:
        if is_reconnected:
            return False
        raise ProtocolError(f"The subscription does not exist: {ack.consumer_id}")
    deliveries = _covered(consumers, names, consumer, ack, is_reconnected=is_reconnected)
    if not deliveries:
        if is_reconnected or ack.ack_type in _IGNORED_IF_UNKNOWN:
            log.debug("acknowledgement matches nothing ack=%r", ack)
            return False
        raise ProtocolError(f"Could not correlate acknowledgment with dispatched message: {ack.last_message_id}")
    if ack.ack_type == c.ACK_DELIVERED:
        if consumer.prefetch:
            consumer.extend(len(deliveries))
        return False
    if ack.ack_type in (c.ACK_REDELIVERED, c.ACK_UNMATCHED):
        return False
    if ack.ack_type in (c.ACK_POISON, c.ACK_EXPIRED):
        _reject(consumers, consumer, deliveries, ack, request)
    else:
        transaction = None if ack.transaction_id is None else ack.transaction_id.name
        consumers.acknowledge_all(consumer, deliveries, request, transaction)
    return True


def _reject(
    consumers: ClientConsumers, consumer: Consumer, deliveries: list[Delivery], ack: c.MessageAck, request: object
) -> None:
    if ack.transaction_id is not None:
        raise ProtocolError(f"Poison ack cannot be transacted: {ack.last_message_id}")
    if consumer.is_browser:  # it was only shown
        consumers.acknowledge_all(consumer, deliveries, request)
        return
    cause = cause_text(ack.poison_cause)
    last = deliveries[-1]
    for delivery in deliveries:
        consumers.reject(consumer, delivery, request if delivery is last else None, cause)


def _covered(
    consumers: ClientConsumers, names: OpenWireNames, consumer: Consumer, ack: c.MessageAck, *, is_reconnected: bool
) -> list[Delivery]:
    """The pending deliveries that an acknowledgement is about."""
    first_id, last_id = ack.first_message_id, ack.last_message_id
    last = None if last_id is None else names.find(consumer, last_id, ack.destination)
    if last is None:
        return []
    if ack.ack_type == c.ACK_DELIVERED:
        return consumers.covered(consumer, None, last)
    if ack.ack_type == c.ACK_INDIVIDUAL or (ack.message_count == 1 and first_id == last_id):
        return [last]
    if first_id is None:
        return consumers.covered(consumer, None, last)
    first = names.find(consumer, first_id, ack.destination)
    if first is not None:
        return consumers.covered(consumer, first, last)
    if not is_reconnected:
        return []
    # It began in the former life, and others have the messages of that. The application has all up to the last.
    return consumers.covered(consumer, None, last)[-ack.message_count :]


def number_of(delivery: Delivery) -> int:
    """The number by which clients say how far they have come: the store's, or one of ours if it gave none."""
    return delivery.message_id.broker_sequence_id or _UNSTORED + delivery.sent


def unseen(consumer: Consumer, last: int) -> list[Delivery]:
    """What was sent to a consumer and never seen by its application.

    Args:
        consumer: the consumer, which is going to be closed.
        last: the number of the last message that the application got; -1 for none, -2 if nobody knows.

    Returns:
        Those behind that one, in the order in which they were sent; none if nobody knows.
    """
    if last == _UNKNOWN:
        return []
    pending = sorted(consumer.unacknowledged.values(), key=lambda delivery: delivery.sent)
    if last >= 0:
        for place, delivery in enumerate(pending):
            if number_of(delivery) == last:
                return pending[place + 1 :]
    return pending
