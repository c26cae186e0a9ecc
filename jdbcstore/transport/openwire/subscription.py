"""A JMS consumer: what its ConsumerInfo asks for, and what the session knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jdbcstore.broker.subscription_request import AcknowledgeMode, SubscriptionRequest
from jdbcstore.destination import Destination
from jdbcstore.identifiers import ConsumerId
from jdbcstore.openwire.commands import ConsumerInfo

__all__ = ["Subscription", "subscription_request"]


@dataclass(slots=True, eq=False)
class Subscription:
    """What the session finds at a consumer (`Consumer.tag`).

    Attributes:
        consumer_id: what the client calls it.
        destination: what it has subscribed to.
        info: all that it has asked for.
    """

    consumer_id: ConsumerId
    destination: Destination
    info: ConsumerInfo


def subscription_request(subscription: Subscription, prefetch: int) -> SubscriptionRequest:
    """What a consumer asks for.

    Args:
        subscription: what is known of it.
        prefetch: how many messages it wants to hold.
    """
    info, destination = subscription.info, subscription.destination
    key = str(subscription.consumer_id)
    return SubscriptionRequest(
        key=key,
        destination=destination,
        mode=AcknowledgeMode.RANGE,
        label=str(destination),
        subscription_id=key,
        tag=subscription,
        selector=info.selector,
        prefetch=_prefetch(info, destination, prefetch),
        can_pull=True,
        is_browser=info.browser,
        subscription_name=info.subscription_name,
        is_exclusive=info.exclusive or None,
        priority=info.priority,
        no_local=info.no_local,
        is_retroactive=info.retroactive,
        pending_max=info.maximum_pending_message_limit,
        command=info,
    )


#: What clients ask for that were told nothing else; a policy of the broker goes before that, as in ActiveMQ.
_BROWSER: Final = (500,)
_QUEUE: Final = (1000,)
_DURABLE: Final = (100, 1000)
_TOPIC: Final = (32_767,)


def _prefetch(info: ConsumerInfo, destination: Destination, prefetch: int) -> int | None:
    """How many messages a consumer may hold; None for what the policy of its destination says."""
    if info.browser:
        defaults: tuple[int, ...] = _BROWSER
    elif destination.is_queue:
        defaults = _QUEUE
    else:
        defaults = _TOPIC if info.subscription_name is None else _DURABLE
    return None if prefetch in defaults else max(prefetch, 0)
