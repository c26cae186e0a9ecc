"""What a client asks for when it subscribes, in no protocol's words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from jdbcstore.destination import Destination

__all__ = ["AcknowledgeMode", "SubscriptionRequest"]


class AcknowledgeMode(Enum):
    """How messages of a subscription are acknowledged; JMS's modes by what they mean."""

    AUTO = "auto"
    """By the broker, as soon as the transport has handed them over (`Client.flushed`)."""
    CUMULATIVE = "cumulative"
    """By the client; an acknowledgement covers everything sent before on the same subscription, too."""
    INDIVIDUAL = "individual"
    """By the client, each message alone."""
    RANGE = "range"
    """By the client, which names the first and the last of those that it means (`ClientConsumers.covered`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRequest:
    """A subscription as a client asks for it.

    Args:
        key: names the subscription among those of its client, for `Client.unsubscribe`.
        destination: queues, or topics: one, a wildcard or a composite.
        mode: how messages are acknowledged.
        label: what the client calls the destination, for errors.
        subscription_id: what the client calls the subscription, as the transport will find it at the consumer
            (`Consumer.subscription_id`); None if it has no name.
        tag: anything that the transport wants to find at the consumer (`Consumer.tag`), its own subscription say.
        selector: a SQL-92 condition; None for all messages.
        prefetch: how many messages the client may have unacknowledged; None for what its policy says; 0 for
            none but those that it asks for (`ClientConsumers.pull`).
        can_pull: whether its client can ask for messages; if not, a policy that says 0 means 1.
        is_browser: show what is in the queues, take nothing, and end.
        subscription_name: makes a subscription to topics durable, under this name and the client's id.
        is_exclusive: whether it wants its queues for itself; None for what the policy says.
        priority: -128 to 127; while a consumer of a higher priority can take messages it gets none.
        no_local: leave out what the same client has sent.
        is_retroactive: one to a topic begins with what that has kept, a new durable subscription with the oldest stored
            message, too.
        pending_max: how many messages of topics it wants to wait for it at most, where a policy lets it lose some; 0 if
            it has no wish.
        command: in its client's protocol, for those who listen to advisories (`jdbcstore.advisory`).
    """

    key: str
    destination: Destination
    mode: AcknowledgeMode
    label: str
    subscription_id: str | None = None
    tag: object = None
    selector: str | None = None
    prefetch: int | None = None
    can_pull: bool = False
    is_browser: bool = False
    subscription_name: str | None = None
    is_exclusive: bool | None = None
    priority: int = 0
    no_local: bool = False
    is_retroactive: bool = False
    pending_max: int = 0
    command: object = None
