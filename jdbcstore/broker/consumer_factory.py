"""From what a client asks for to a consumer of the right kind."""

from __future__ import annotations

from typing import Protocol

from jdbcstore.broker.browser import Browser
from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.delivery import Consumer, Receiver
from jdbcstore.broker.durable import DurableConsumer
from jdbcstore.broker.interest import EVERYTHING, Interest
from jdbcstore.broker.memory import MEMBERSHIP_BYTES, SELECTION_BYTES, SUBSCRIPTION_BYTES
from jdbcstore.broker.subscription_request import SubscriptionRequest
from jdbcstore.broker.topic import TopicConsumer
from jdbcstore.errors import ForeignDestination, NoSuchDestination, ProtocolError
from jdbcstore.selector import DURABLE_LENGTH_MAX, LENGTH_MAX, Selector
from jdbcstore.subscription import SubscriptionKey

__all__ = ["Subscriber", "consumer_for", "subscription_bytes"]


class Subscriber(Receiver, Protocol):
    """A client that subscribes."""

    @property
    def client_id(self) -> str | None:
        """What it calls itself; None if it has no name."""

    @property
    def connection_id(self) -> str:
        """Names its connection."""


def subscription_bytes(wanted: SubscriptionRequest) -> int:
    """What a subscription takes in memory, as far as it is known before anything is delivered."""
    size = SUBSCRIPTION_BYTES + len(wanted.label) + len(wanted.subscription_id or "")
    if wanted.destination.is_composite:
        size += MEMBERSHIP_BYTES * len(wanted.destination.elements())
    return size if wanted.selector is None else size + SELECTION_BYTES


def consumer_for(broker: ClientHost, client: Subscriber, wanted: SubscriptionRequest) -> Consumer:
    """The consumer that a client asks for; it takes no part in anything yet.

    Args:
        broker: gives limits.
        client: who asks.
        wanted: what for.

    Raises:
        ConfigurationError: the store cannot keep a queue of this name.
        ProtocolError: it asks for what there is not, or not yet.
        SelectorError: its condition is none, or too long.
    """
    is_queue = _check_destination(broker, client, wanted)
    consumer = _consumer_for(broker, client, wanted, prefetch_for(broker, wanted), is_queue=is_queue)
    consumer.is_extended = broker.policy_for(wanted.destination).use_prefetch_extension
    consumer.tag, consumer.command = wanted.tag, wanted.command
    return consumer


def _check_destination(broker: ClientHost, client: Subscriber, wanted: SubscriptionRequest) -> bool:
    """Whether it is about queues. Raises ProtocolError or ConfigurationError if a consumer cannot have that."""
    elements = wanted.destination.elements()
    if not elements:
        raise ProtocolError(f"Cannot subscribe to '{wanted.label}': nothing stands between its commas")
    kinds = {element.is_queue for element in elements}
    if len(kinds) > 1:
        raise ProtocolError(f"Cannot subscribe to queues and topics at once: {wanted.label}")
    for element in elements:
        broker.check_room_for(element)
        if not element.is_storable:
            broker.check_name(element)
        if element.is_temporary and not broker.knows_temporary(element):
            raise NoSuchDestination(str(element))
        if element.is_temporary and not element.physical_name.startswith(f"{client.connection_id}:"):
            raise ForeignDestination(str(element))  # its name is no secret
    is_queue = kinds == {True}
    if wanted.is_browser:
        if not is_queue:
            raise ProtocolError("Cannot browse a topic: only queues have something to look at")
        if any(element.is_wildcard for element in elements):
            raise ProtocolError("Cannot browse a wildcard: name the queue")
    return is_queue


def _consumer_for(
    broker: ClientHost, client: Subscriber, wanted: SubscriptionRequest, prefetch: int, *, is_queue: bool
) -> Consumer:
    if wanted.subscription_name is not None:
        return _durable_consumer(broker, client, wanted, prefetch)
    common = (client, wanted.subscription_id, wanted.destination, wanted.mode, prefetch, _interest(client, wanted))
    if wanted.is_browser:
        return Browser(broker, *common)
    if not is_queue:
        asked = wanted.pending_max
        return TopicConsumer(broker, *common, is_retroactive=wanted.is_retroactive, pending_max=asked)
    is_exclusive = wanted.is_exclusive
    if is_exclusive is None:
        is_exclusive = broker.policy_for(wanted.destination).all_consumers_exclusive_by_default
    return Consumer(*common, is_exclusive=is_exclusive, priority=wanted.priority)


def _durable_consumer(
    broker: ClientHost, client: Subscriber, wanted: SubscriptionRequest, prefetch: int
) -> DurableConsumer:
    destination = wanted.destination
    if destination.is_queue:
        raise ProtocolError("Invalid Subscription: cannot durably subscribe to a Queue destination!")
    if broker.options.reject_durable_consumers:
        raise ProtocolError("Durable Consumers are not allowed: reject_durable_consumers is on")
    if destination.is_composite or destination.is_temporary:
        raise ProtocolError(
            f"Cannot durably subscribe to {wanted.label}: name one topic, or a wildcard that covers several"
        )
    if client.client_id is None or not wanted.subscription_name:
        raise ProtocolError(
            "A durable subscription belongs to a client id and has a name: connect with a client id, and give a name"
        )
    return DurableConsumer(
        broker.durables,
        client,
        wanted.subscription_id,
        destination,
        wanted.mode,
        prefetch,
        _interest(client, wanted),
        SubscriptionKey(client.client_id, wanted.subscription_name),
        is_retroactive=wanted.is_retroactive or broker.policy_for(destination).always_retroactive,
    )


def _interest(client: Subscriber, wanted: SubscriptionRequest) -> Interest:
    selector = None
    if wanted.selector is not None:
        length_max = LENGTH_MAX if wanted.subscription_name is None else DURABLE_LENGTH_MAX
        selector = Selector.parse(wanted.selector, length_max=length_max)
    if wanted.no_local:
        return Interest(selector, (client.connection_id,))
    return EVERYTHING if selector is None else Interest(selector)


def prefetch_for(broker: ClientHost, wanted: SubscriptionRequest) -> int:
    """How many messages a subscription may hold: what it asks for, or what its policy says."""
    prefetch = wanted.prefetch
    if prefetch is None:
        policy = broker.policy_for(wanted.destination)
        if wanted.is_browser:
            prefetch = policy.queue_browser_prefetch
        elif wanted.subscription_name is not None:
            prefetch = policy.durable_topic_prefetch
        else:
            is_queue = any(element.is_queue for element in wanted.destination.elements())
            prefetch = policy.queue_prefetch if is_queue else policy.topic_prefetch
        if not wanted.can_pull:
            prefetch = max(prefetch, 1)
    return min(max(prefetch, 0), broker.options.prefetch_max)
