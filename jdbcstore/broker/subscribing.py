"""From a SUBSCRIBE frame to a consumer of the right kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from jdbcstore.broker.browser import Browser
from jdbcstore.broker.consumer import Consumer
from jdbcstore.broker.durable import DurableConsumer
from jdbcstore.broker.interest import EVERYTHING, Interest, stomp_selector
from jdbcstore.broker.memory import MEMBERSHIP_BYTES, SELECTION_BYTES, SUBSCRIPTION_BYTES
from jdbcstore.broker.topic import TopicConsumer
from jdbcstore.destination import Destination
from jdbcstore.errors import ProtocolError
from jdbcstore.stomp.events import Subscribe
from jdbcstore.subscription import SubscriptionKey

if TYPE_CHECKING:
    from jdbcstore.broker.broker import Broker
    from jdbcstore.transport.stomp.session import Session

__all__ = ["consumer_for", "subscription_bytes"]


def subscription_bytes(event: Subscribe, destination: Destination) -> int:
    """What a subscription takes in memory, as far as it is known before anything is delivered."""
    size = SUBSCRIPTION_BYTES + len(event.destination) + len(event.id or "")
    if destination.is_composite:
        size += MEMBERSHIP_BYTES * len(destination.elements())
    return size if event.selector is None else size + SELECTION_BYTES


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
    elements = destination.elements()
    parts_max = broker.options.composite_parts_max
    if len(elements) > parts_max:
        raise ProtocolError(
            f"A subscription to {len(elements)} destinations: composite_parts_max is {parts_max}. Subscribe to a"
            " wildcard, or several times"
        )
    kinds = {element.is_queue for element in elements}
    if len(kinds) > 1:
        raise ProtocolError(f"Cannot subscribe to queues and topics at once: {event.destination}")
    for element in elements:
        broker.check_room_for(element)
        if element.is_temporary and not broker.knows_temporary(element):
            raise ProtocolError(f"The destination {element} does not exist.")
        if element.is_temporary and not element.physical_name.startswith(f"{session.connection_id}:"):
            raise ProtocolError(f"Cannot subscribe to remote temporary destination: {element}")  # its name is no secret
    is_queue = kinds == {True}
    if event.browser:
        if not is_queue:
            raise ProtocolError("Cannot browse a topic: only queues have something to look at")
        if any(element.is_wildcard for element in elements):
            raise ProtocolError("Cannot browse a wildcard: name the queue")
    prefetch = _prefetch(broker, event, destination, is_queue=is_queue)
    if event.subscription_name is not None:
        return _durable_consumer(broker, session, event, destination, prefetch)
    interest = _interest(session, event)
    if event.browser:
        return Browser(broker, session, event.id, destination, event.ack, prefetch, interest)
    if is_queue:
        is_exclusive = _is_true(event, "activemq.exclusive")
        if "activemq.exclusive" not in event.headers:
            is_exclusive = broker.policy_for(destination).all_consumers_exclusive_by_default
        return Consumer(
            session,
            event.id,
            destination,
            event.ack,
            prefetch,
            interest,
            is_exclusive=is_exclusive,
            priority=_priority(event),
        )
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
        _interest(session, event),
        SubscriptionKey(session.client_id, event.subscription_name),
        retroactive=_is_true(event, "activemq.retroactive") or broker.policy_for(destination).always_retroactive,
    )


def _interest(session: Session, event: Subscribe) -> Interest:
    selector = stomp_selector(event.selector, is_durable=event.subscription_name is not None)
    if _is_true(event, "activemq.noLocal"):
        return Interest(selector, session.connection_id)
    return EVERYTHING if selector is None else Interest(selector)


def _is_true(event: Subscribe, header: str) -> bool:
    return event.headers.get(header, "").strip().lower() == "true"


_PRIORITY: Final = re.compile(r"\s*([+-]?[0-9]{1,3})\s*", re.ASCII)


def _priority(event: Subscribe) -> int:
    text = event.headers.get("activemq.priority", "0")
    found = _PRIORITY.fullmatch(text)
    if found is None or not -128 <= int(found[1]) <= 127:
        raise ProtocolError(f"Invalid activemq.priority header '{text[:40]}': a number from -128 to 127 is needed")
    return int(found[1])


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
