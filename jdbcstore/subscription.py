"""Durable subscriptions: who they belong to and what they ask for."""

from __future__ import annotations

from dataclasses import dataclass

from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError

__all__ = ["SubscriptionInfo", "SubscriptionKey"]


@dataclass(frozen=True, slots=True)
class SubscriptionKey:
    """Identity of a durable subscription: JMS client id and subscription name."""

    client_id: str
    subscription_name: str

    def __str__(self) -> str:
        return f"{self.subscription_name!r} of client {self.client_id!r}"


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """A durable subscription.

    Args:
        key: whose it is.
        destination: the concrete topic that a store keeps it for.
        subscribed_destination: the destination as subscribed, perhaps a wildcard.
        selector: SQL-92 condition, None for all messages.
        no_local: leave out what the same connection sent.
    """

    key: SubscriptionKey
    destination: Destination
    subscribed_destination: Destination
    selector: str | None = None
    no_local: bool = False

    def goes_on_with(self, other: SubscriptionInfo) -> bool:
        """Whether the subscription goes on with this, or begins anew. `no_local` is the connection's affair."""
        is_same_topic = self.subscribed_destination == other.subscribed_destination
        return is_same_topic and (self.selector or None) == (other.selector or None)

    def require_topic(self, topic: Destination) -> None:
        """Raise `ConfigurationError` unless this is a subscription to a topic."""
        if self.destination != topic:
            raise ConfigurationError(f"a subscription to {self.destination} cannot be kept by the store of {topic}")
