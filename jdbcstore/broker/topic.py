"""A topic: every subscriber gets what is published while it is subscribed. In memory, for subscribers that are there.

A subscriber that does not keep up collects what it was not sent yet, up to a limit. At the limit the publishers are
held back (their sockets are not read), for a while. If it has not caught up by then it is disconnected: one lame
client must not stop all others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from jdbcstore.broker.consumer import Consumer
from jdbcstore.broker.delivery import Delivery
from jdbcstore.destination import Destination
from jdbcstore.message import Message
from jdbcstore.stomp.events import AckMode

if TYPE_CHECKING:
    from jdbcstore.broker.broker import Broker
    from jdbcstore.broker.session import Session

__all__ = ["Topic", "TopicConsumer"]


class TopicConsumer(Consumer):
    """A subscription to topics, with what it could not be sent yet.

    Args:
        broker: gives limits and the loop.
        session, subscription_id, destination, ack_mode, prefetch: as `Consumer`.
    """

    __slots__ = ("_broker", "_held", "_pending", "_pending_bytes", "_timer", "topics")

    def __init__(
        self,
        broker: Broker,
        session: Session,
        subscription_id: str | None,
        destination: Destination,
        ack_mode: AckMode,
        prefetch: int,
    ) -> None:
        super().__init__(session, subscription_id, destination, ack_mode, prefetch)
        self.topics: list[Topic] = []
        self._broker = broker
        self._pending: deque[Delivery] = deque()
        self._pending_bytes = 0
        self._held: set[Session] = set()
        self._timer: asyncio.TimerHandle | None = None

    def publish(self, message: Message, publisher: Session | None) -> None:
        """Send a message now, or keep it until the client can take it; hold the publisher back if that is too much."""
        delivery = Delivery(message)
        if not self._pending and self.can_take:
            self.deliver(delivery)
            return
        self._pending.append(delivery)
        self._pending_bytes += delivery.size
        self._broker.memory.used += delivery.size
        if self._is_over(1) and publisher is not None and publisher not in self._held:
            self._held.add(publisher)
            publisher.hold()
            if self._timer is None:
                self._timer = self._broker.loop.call_later(self._broker.options.slow_consumer_timeout_s, self._too_slow)

    def release(self, count: int = 1) -> None:
        """So many messages are acknowledged: send as many more."""
        self.credit += count
        self.resume()

    def resume(self) -> None:
        """Send what is pending as far as the client takes it, and let publishers go on when half of it is gone."""
        now_ms = self._broker.now_ms() if self._pending else 0
        while self._pending and self.can_take:
            delivery = self._pop()
            if delivery.message is not None and not 0 < delivery.message.expiration < now_ms:
                self.deliver(delivery)
        if self._held and not self._is_over(2):
            self._let_go()

    def close(self) -> None:
        """Leave all topics and forget what is pending."""
        for topic in self.topics:
            topic.consumers.pop(self, None)
        self.topics.clear()
        self.unacknowledged.clear()
        while self._pending:
            self._pop()
        self._let_go()

    def _pop(self) -> Delivery:
        delivery = self._pending.popleft()
        self._pending_bytes -= delivery.size
        self._broker.memory.used -= delivery.size
        return delivery

    def _is_over(self, part: int) -> bool:
        options = self._broker.options
        return (
            len(self._pending) > options.topic_pending_max // part
            or self._pending_bytes > options.topic_pending_bytes_max // part
        )

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, set()
        for publisher in held:
            publisher.let_go()

    def _too_slow(self) -> None:
        self._timer = None
        pending = len(self._pending)
        self.session.disconnect(
            f"Subscription to {self.destination} is too slow: {pending} messages are waiting for it",
            reason="slow consumer",
        )


class Topic:
    """One topic of the running broker: who gets its messages."""

    __slots__ = ("consumers", "destination", "last_used_s", "published")

    def __init__(self, destination: Destination, now_s: float) -> None:
        self.destination = destination
        #: In order of subscription; a dictionary for its order.
        self.consumers: dict[TopicConsumer, None] = {}
        self.published = 0
        self.last_used_s = now_s

    def publish(self, message: Message, publisher: Session | None) -> None:
        """Give every subscriber its copy.

        Args:
            message: what to publish; shared between the subscribers.
            publisher: who is held back if a subscriber cannot keep up.
        """
        self.published += 1
        for consumer in self.consumers:
            consumer.publish(message, publisher)
