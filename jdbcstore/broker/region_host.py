"""What those parts of the broker get of it that look for destinations, or send and settle messages themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final, Protocol

from jdbcstore.broker.delivery import Answer, Answers, Delivery
from jdbcstore.broker.destination_host import DestinationHost
from jdbcstore.broker.prepared import Prepared
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.route import Route
from jdbcstore.broker.topic import Publisher, Topic
from jdbcstore.broker.tracing import Tracing
from jdbcstore.destination import Destination
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, TopicMessageStore
from jdbcstore.subscription import SubscriptionKey

__all__ = ["NOTHING", "RegionHost"]

#: Nothing else belongs into a commit.
NOTHING: Final = Commit()


class RegionHost(DestinationHost, Protocol):
    """A running broker, as the parts see it that work with its destinations; `jdbcstore.broker.broker` says more."""

    @property
    def queues(self) -> Mapping[Destination, Queue]:
        """The queues that are in use."""

    @property
    def topics(self) -> Mapping[Destination, Topic]:
        """The topics that are in use."""

    @property
    def tracing(self) -> Tracing | None:
        """Who follows messages; None for nobody."""

    @property
    def expiry_periods_ms(self) -> set[int]:
        """How often expired messages are looked for, by one policy or another."""

    def queue(self, destination: Destination) -> Queue:
        """The queue of this name, made at the first use."""

    def topic(self, destination: Destination) -> Topic:
        """The topic of this name, made at the first use."""

    def opening(self, destination: Destination) -> Iterator[None]:
        """Make the topic of this name, unless it is there; a job, after which `topic` takes no time."""

    def covered(self, element: Destination) -> Iterator[Destination | None]:
        """The destinations that a name means at the moment, among None for others."""

    def check_room_for(self, destination: Destination) -> None:
        """Raise ProtocolError if a client wants to use one destination too many."""

    def check_parts(self, destination: Destination) -> None:
        """Raise ProtocolError if a client names too many destinations at once."""

    def check_name(self, destination: Destination) -> None:
        """Raise ProtocolError or ConfigurationError if a client wants to use a destination of an impossible name."""

    def add_temporary(self, destination: Destination, connection_id: str) -> None:
        """A connection has a new temporary destination."""

    def knows_temporary(self, destination: Destination) -> bool:
        """Whether a temporary destination's connection is still there."""

    def has_consumers(self, destination: Destination) -> bool:
        """Whether anybody is subscribed to a destination."""

    def remove_destination(self, destination: Destination, answer: Answer) -> None:
        """Remove a queue or topic that nobody is subscribed to, with all that is in it."""

    def remove_temporary(self, destination: Destination) -> None:
        """Forget a temporary destination with everything in it."""

    def next_connection_id(self) -> str:
        """A new id in ActiveMQ's form."""

    def route(self, message: Message) -> Route:
        """Where a message goes that is sent now."""

    def publish(self, route: Route, publisher: Publisher | None, answer: Answer) -> None:
        """Give a message to its queue or topic, or keep it for later, and answer when it is safe there."""

    def publish_each(self, routes: Sequence[Route], publisher: Publisher | None, answer: Answer) -> None:
        """As `Router.publish_each`."""

    def publish_together(self, messages: Sequence[Message], publisher: Publisher | None, answers: Answers) -> None:
        """The same for persistent messages that are all for one queue, and that are not for later."""

    def commit(
        self,
        routes: Sequence[Route],
        acknowledged: Sequence[Delivery],
        publisher: Publisher | None,
        answer: Answer,
        along: Commit = NOTHING,
        prepared: Prepared | None = None,
    ) -> Completion[None] | None:
        """Publish and settle several messages: all or nothing, as far as they are in the store."""

    def expire_unused(
        self, message: Message, store: TopicMessageStore, subscription: SubscriptionKey, *, is_buried: bool
    ) -> None:
        """Let go of an expired message of a durable subscription that nobody uses, and keep its dead letter."""

    def expiring_in_memory(self, periods_ms: Set[int]) -> Iterator[None]:
        """Let expired messages go that are not in the broker's store; a job."""
