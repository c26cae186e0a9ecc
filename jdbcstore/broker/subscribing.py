"""From a SUBSCRIBE frame to a consumer of the right kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jdbcstore.broker.browser import Browser
from jdbcstore.broker.consumer import Consumer
from jdbcstore.broker.topic import TopicConsumer
from jdbcstore.destination import Destination
from jdbcstore.errors import ProtocolError
from jdbcstore.stomp.events import Subscribe

if TYPE_CHECKING:
    from jdbcstore.broker.broker import Broker
    from jdbcstore.broker.session import Session

__all__ = ["consumer_for"]


def consumer_for(broker: Broker, session: Session, event: Subscribe, destination: Destination) -> Consumer:
    """The consumer that a SUBSCRIBE asks for; it takes no part in anything yet.

    Args:
        broker: gives limits.
        session: the client.
        event: what it asks for.
        destination: what its ``destination`` header means.

    Raises:
        ProtocolError: it asks for what there is not, or not yet.
    """
    _refuse_what_is_not_there_yet(event, destination)
    elements = destination.elements()
    kinds = {element.is_queue for element in elements}
    if len(kinds) > 1:
        raise ProtocolError(f"Cannot subscribe to queues and topics at once: {event.destination}")
    for element in elements:
        if element.is_temporary and not broker.knows_temporary(element):
            raise ProtocolError(f"The destination {element} does not exist.")
    is_queue = kinds == {True}
    if event.browser:
        if not is_queue:
            raise ProtocolError("Cannot browse a topic: only queues have something to look at")
        if any(element.is_wildcard for element in elements):
            raise ProtocolError("Cannot browse a wildcard: name the queue")
    prefetch = _prefetch(broker, event, destination, is_queue=is_queue)
    if event.browser:
        return Browser(broker, session, event.id, destination, event.ack, prefetch)
    if is_queue:
        return Consumer(session, event.id, destination, event.ack, prefetch)
    return TopicConsumer(broker, session, event.id, destination, event.ack, prefetch)


def _prefetch(broker: Broker, event: Subscribe, destination: Destination, *, is_queue: bool) -> int:
    policy, prefetch = broker.policy_for(destination), event.prefetch
    if prefetch is None:
        if event.browser:
            prefetch = policy.queue_browser_prefetch
        else:
            prefetch = policy.queue_prefetch if is_queue else policy.topic_prefetch
    return min(max(prefetch, 1), broker.options.prefetch_max)


def _refuse_what_is_not_there_yet(event: Subscribe, destination: Destination) -> None:
    if event.subscription_name is not None:
        if destination.is_queue:
            raise ProtocolError("Invalid Subscription: cannot durably subscribe to a Queue destination!")
        raise ProtocolError("Durable subscriptions are not supported yet: leave activemq.subscriptionName out")
    if event.selector is not None:
        raise ProtocolError("Selectors are not supported yet: leave the selector header out")
    if event.headers.get("activemq.exclusive") == "true":
        raise ProtocolError("Exclusive consumers are not supported yet: leave activemq.exclusive out")
    if event.headers.get("activemq.noLocal") == "true":
        raise ProtocolError("noLocal is not supported yet: leave activemq.noLocal out")
