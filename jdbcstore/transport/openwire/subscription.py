"""A JMS consumer: what its ConsumerInfo asks for, and what the session knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jdbcstore.broker.subscription_request import AcknowledgeMode, SubscriptionRequest
from jdbcstore.destination import Destination
from jdbcstore.identifiers import ConsumerId
from jdbcstore.openwire.commands import ConsumerInfo

__all__ = ["Subscription", "prefetch_defaults", "subscription_request"]

#: What clients ask for that were told nothing else.
_BROWSER: Final = (500,)
_QUEUE: Final = (1000,)
_DURABLE: Final = (100, 1000)
_TOPIC: Final = (32_767,)


@dataclass(slots=True, eq=False)
class Subscription:
    """What the session finds at a consumer (`Consumer.tag`).

    Attributes:
        consumer_id: what the client calls it.
        destination: what it has subscribed to.
        prefetch_defaults: what clients ask for that were told nothing else.
    """

    consumer_id: ConsumerId
    destination: Destination
    prefetch_defaults: tuple[int, ...]

    def asked(self, prefetch: int) -> int | None:
        """How many messages a client wants; None for what the policy of the destination says, which goes before the
        defaults, as in ActiveMQ."""
        return None if prefetch in self.prefetch_defaults else max(prefetch, 0)


def prefetch_defaults(info: ConsumerInfo, destination: Destination) -> tuple[int, ...]:
    """What clients ask for, for such a consumer, that were told nothing else."""
    if info.browser:
        return _BROWSER
    if destination.is_queue:
        return _QUEUE
    return _TOPIC if info.subscription_name is None else _DURABLE


def subscription_request(info: ConsumerInfo, subscription: Subscription) -> SubscriptionRequest:
    """What a consumer asks for."""
    destination = subscription.destination
    key = str(subscription.consumer_id)
    return SubscriptionRequest(
        key=key,
        destination=destination,
        mode=AcknowledgeMode.RANGE,
        label=str(destination),
        subscription_id=key,
        tag=subscription,
        selector=info.selector,
        prefetch=subscription.asked(info.prefetch_size),
        is_browser=info.browser,
        subscription_name=info.subscription_name,
        is_exclusive=info.exclusive or None,
        priority=info.priority,
        no_local=info.no_local,
        is_retroactive=info.retroactive,
    )
