"""From a SUBSCRIBE frame to a consumer of the right kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jdbcstore.broker.browser import Browser
from jdbcstore.broker.consumer import Consumer
from jdbcstore.broker.durable import DurableConsumer
from jdbcstore.broker.interest import EVERYTHING, Interest, stomp_selector
from jdbcstore.broker.topic import TopicConsumer
from jdbcstore.destination import Destination
from jdbcstore.errors import ProtocolError
from jdbcstore.stomp.events import Subscribe
from jdbcstore.subscription import SubscriptionKey

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
    _refuse_what_is_not_there_yet(event)
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
    if event.subscription_name is not None:
        return _durable_consumer(broker, session, event, destination, prefetch)
    interest = _interest(session, event, is_topic=not is_queue)
    if event.browser:
        return Browser(broker, session, event.id, destination, event.ack, prefetch, interest)
    if is_queue:
        return Consumer(session, event.id, destination, event.ack, prefetch, interest)
    return TopicConsumer(broker, session, event.id, destination, event.ack, prefetch, interest)


def _durable_consumer(
    broker: Broker, session: Session, event: Subscribe, destination: Destination, prefetch: int
) -> DurableConsumer:
    if destination.is_queue:
        raise ProtocolError("Invalid Subscription: cannot durably subscribe to a Queue destination!")
    if destination.is_composite or destination.is_temporary:
        raise ProtocolError(
            f"Cannot durably subscribe to {event.destination}: name one topic, or a wildcard that covers several"
        )
    if session.client_id is None or not event.subscription_name:
        raise ProtocolError(
            "A durable subscription belongs to a client-id and has a name: give a client-id header in CONNECT, and a"
            " name in activemq.subscriptionName"
        )
    return DurableConsumer(
        broker.durables,
        session,
        event.id,
        destination,
        event.ack,
        prefetch,
        _interest(session, event, is_topic=True),
        SubscriptionKey(session.client_id, event.subscription_name),
        retroactive=_is_true(event, "activemq.retroactive"),
    )


def _interest(session: Session, event: Subscribe, *, is_topic: bool) -> Interest:
    selector = stomp_selector(event.selector, is_durable=event.subscription_name is not None)
    is_deaf_to_itself = is_topic and _is_true(event, "activemq.noLocal")
    if selector is None and not is_deaf_to_itself:
        return EVERYTHING
    return Interest(selector, session.connection_id if is_deaf_to_itself else None)


def _is_true(event: Subscribe, header: str) -> bool:
    return event.headers.get(header, "").strip().lower() == "true"


def _prefetch(broker: Broker, event: Subscribe, destination: Destination, *, is_queue: bool) -> int:
    policy, prefetch = broker.policy_for(destination), event.prefetch
    if prefetch is None:
        if event.browser:
            prefetch = policy.queue_browser_prefetch
        elif event.subscription_name is not None:
            prefetch = policy.durable_topic_prefetch
        else:
            prefetch = policy.queue_prefetch if is_queue else policy.topic_prefetch
    return min(max(prefetch, 1), broker.options.prefetch_max)


def _refuse_what_is_not_there_yet(event: Subscribe) -> None:
    if event.selector is not None and "/topic/" not in event.destination:
        raise ProtocolError("Selectors are not supported yet on queues: leave the selector header out")
    if event.headers.get("activemq.exclusive") == "true":
        raise ProtocolError("Exclusive consumers are not supported yet: leave activemq.exclusive out")
