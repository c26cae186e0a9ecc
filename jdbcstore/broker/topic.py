"""A topic: every subscriber gets what is published while it is subscribed, and durable ones also what was before.

Durable subscriptions are the business of `jdbcstore.broker.durable`. For all others a topic is in memory.

A subscriber that does not keep up collects what it was not sent yet, up to a limit. At the limit the publishers are
held back (their sockets are not read), for a while. If it has not caught up by then it is disconnected: one lame
client must not stop all others. Where a policy says so (`DestinationPolicy.pending_limit`) it loses messages instead.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import Final

from jdbcstore.broker.delivery import Answer, Consumer, Delivery, Receiver
from jdbcstore.broker.destination_host import DestinationHost, Publisher
from jdbcstore.broker.eviction import EvictionQueue
from jdbcstore.broker.interest import EVERYTHING, Interest
from jdbcstore.broker.lane import Lane
from jdbcstore.broker.memory import DELIVERY_BYTES, WRITE_BYTES
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.broker.subscription_request import AcknowledgeMode
from jdbcstore.broker.topic_history import history_for
from jdbcstore.broker.watchdog import subject
from jdbcstore.destination import Destination
from jdbcstore.destination import Topic as TopicName
from jdbcstore.errors import JdbcStoreError, StoreError
from jdbcstore.message import Message
from jdbcstore.store.contract import SupportsTopics, TopicMessageStore
from jdbcstore.subscription import SubscriptionKey

__all__ = ["Publisher", "Topic", "TopicConsumer", "TopicSubscription"]

#: What may wait for a subscriber while there is little memory.
_PENDING_BYTES_SHORT: Final = 64 << 10
#: Subscribers that get a message in one go. More of them get it a slice at a time.
_SUBSCRIBERS_AT_ONCE: Final = 500


class TopicSubscription(Queue, ABC):
    """A durable subscription that is in use, as its topic sees it (`jdbcstore.broker.durable`)."""

    #: Whether its client does not use it any more.
    has_ended = False

    @abstractmethod
    def begin(self, consumer: Consumer) -> None:
        """The store has the subscription: read its messages."""

    @abstractmethod
    def admit(self, message: Message) -> tuple[Lane, Delivery | None] | None:
        """Take note of a message whose write has just been submitted to the topic's store."""

    @abstractmethod
    def take_place(self, message: Message) -> Lane:
        """A message joins the tail of the lane that is returned, at a place that only the store knows."""

    @abstractmethod
    def begin_again(self, text: str) -> None:
        """The store has messages at places that were passed: end it, and tell its client why."""

    @abstractmethod
    def offer(self, message: Message, publisher: Publisher | None) -> None:
        """Take a message that is not stored.

        Args:
            message: which; shared with others.
            publisher: who waits if too much of it has to be spooled; None for nobody.
        """


class TopicConsumer(Consumer):
    """A subscription to topics, with what it could not be sent yet.

    Args:
        broker: gives limits and the loop.
        client, subscription_id, destination, mode, prefetch, interest: as `Consumer`.
        is_retroactive: whether it gets what its topics have kept (`jdbcstore.broker.topic_history`).
        pending_max: how many messages it wants to wait for it at most; 0 if it has no wish.

    Attributes:
        discarded: how many messages it has lost, because it did not keep up.
    """

    __slots__ = (
        "_broker",
        "_evictable",
        "_given",
        "_has_ended",
        "_held",
        "_is_discarding",
        "_pending",
        "_pending_bytes",
        "_pending_bytes_max",
        "_pending_max",
        "_slow_s",
        "_timer",
        "discarded",
        "is_retroactive",
        "topics",
    )

    def __init__(
        self,
        broker: DestinationHost,
        client: Receiver,
        subscription_id: str | None,
        destination: Destination,
        mode: AcknowledgeMode,
        prefetch: int,
        interest: Interest = EVERYTHING,
        *,
        is_retroactive: bool = False,
        pending_max: int = 0,
    ) -> None:
        super().__init__(client, subscription_id, destination, mode, prefetch, interest)
        self.is_retroactive = is_retroactive
        self.discarded = 0
        self.topics: dict[Topic, None] = {}
        self._broker = broker
        #: Delivered and not acknowledged.
        self._given = 0
        policy = broker.policy_for(destination)
        self._pending_max = policy.pending_max(prefetch, pending_max)
        #: What is pending if it may lose some of it.
        self._evictable: EvictionQueue | None = None
        if self._pending_max > 0:
            self._evictable = EvictionQueue(policy.message_eviction, policy.eviction_property)
        self._pending: EvictionQueue | deque[Delivery] = deque() if self._evictable is None else self._evictable
        self._pending_bytes = 0
        self._is_discarding = False
        self._slow_s = policy.slow_consumer_timeout_ms / 1000 or broker.options.slow_consumer_timeout_s
        limit_bytes = policy.memory_limit_bytes or broker.options.topic_pending_bytes_max
        self._pending_bytes_max = min(limit_bytes, broker.options.topic_pending_bytes_max)
        self._held: set[Publisher] = set()
        self._has_ended = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pending(self) -> int:
        """How many messages wait for the client to take more."""
        return len(self._pending)

    def publish(self, message: Message, publisher: Publisher | None) -> None:
        """Send a message now, or keep it until the client can take it; hold the publisher back if that is too much.

        Args:
            message: for its topic.
            publisher: who waits then. None if nobody can: more than twice as much ends the connection.
        """
        if not self._take(message, publisher):
            return
        if self._is_over(1):
            self._hold_back(publisher)

    def recover(self, messages: Iterable[Message]) -> None:
        """Take what a topic has kept, which the topic bounds."""
        for message in messages:
            self._take(message, None)

    def _take(self, message: Message, publisher: Publisher | None) -> bool:
        """Send a message, keep it, or lose it. Returns whether more is kept now."""
        if not self.interest.wants(message):
            return False
        delivery = Delivery(message)
        if not self._pending and self.can_take:
            self.is_slow = False
            self._give(delivery)
            return False
        if self._has_ended or self._is_discarding:  # what is told of what it loses would make it lose more
            return False
        if not self.is_slow and len(self._pending) > self.prefetch > 1:
            self.is_slow = True
            self._tell_slow()
        if not self._pending_max and len(self._pending) >= self.credit:
            self.discarded += 1
            return False
        self._pending.append(delivery)
        self._pending_bytes += delivery.size
        self._broker.memory.used += delivery.size
        if self._evictable is not None and self._excess > 0:
            self._evict(self._evictable, publisher)
        return True

    def _hold_back(self, publisher: Publisher | None) -> None:
        """More waits for the client than may, for a while."""
        if publisher is not None and publisher not in self._held:
            self._held.add(publisher)
            publisher.hold()
        if self._timer is None:
            self._timer = self._broker.loop.call_later(self._slow_s, self._too_slow)
            self._tell_slow()
        elif publisher is None and self._is_over(2):
            self._broker.loop.call_soon(self._disconnect, len(self._pending))
            self.end()

    @property
    def _excess(self) -> int:
        """How many are pending that it may lose. What its prefetch has room for is as good as sent."""
        return len(self._pending) - max(self.credit, 0) - self._pending_max

    def _evict(self, pending: EvictionQueue, publisher: Publisher | None) -> None:
        """More is pending than may be: let expired messages go, then those that the policy chooses."""
        for delivery in pending.expired(self._broker.now_ms()):
            self._forget(delivery)
        lost: list[Message] = []
        while self._excess > 0:
            for delivery in pending.evicted(max(self.credit, 0)):
                self._forget(delivery)
                if delivery.message is not None:
                    lost.append(delivery.message)
        self.discarded += len(lost)
        self._is_discarding = True
        try:
            for message in lost:
                self._broker.discarded(self, self.discarded, message, publisher)
        finally:
            self._is_discarding = False

    def _tell_slow(self) -> None:
        self._broker.advisories.slow_consumer(self, [topic.destination for topic in self.topics])

    def release(self, count: int = 1) -> None:
        """So many messages are acknowledged: send as many more."""
        self.credit += count
        if self.extension:
            self._shorten(count)
        taken = min(count, self._given)
        self._given -= taken
        self._broker.memory.used -= taken * DELIVERY_BYTES
        self.resume()

    @property
    def is_settled(self) -> bool:
        return not self._pending

    def _give(self, delivery: Delivery) -> None:
        self._given += 1
        self._broker.memory.used += DELIVERY_BYTES
        self.deliver(delivery)

    def resume(self) -> None:
        """Send what is pending as far as the client takes it, and let publishers go on when half of it is gone."""
        if self._pending:
            self._send_pending()
        if self._timer is not None and not self._is_over(0.5):
            self._let_go()

    def _send_pending(self) -> None:
        now_ms, deadline_s = self._broker.now_ms(), perf_counter() + SLICE_S
        while self._pending and self.can_take:
            delivery = self._pop()
            if delivery.message is not None and not 0 < delivery.message.expiration < now_ms:
                self._give(delivery)
            if perf_counter() > deadline_s:
                self._broker.loop.call_soon(self.resume)
                return

    def closing(self) -> Iterator[None]:
        """Leave all topics and forget what is pending."""
        self.is_closed = True
        self.credit = 0
        self.unacknowledged.clear()
        self.restored.clear()
        self._broker.memory.used -= self._given * DELIVERY_BYTES
        self._given = 0
        self.end()
        return self._leaving()

    def end(self) -> None:
        """Nobody waits for a client that reads its last words, or does not even do that."""
        self._has_ended = True
        self._pending.clear()
        self._broker.memory.used -= self._pending_bytes
        self._pending_bytes = 0
        self._let_go()

    def _leaving(self) -> Iterator[None]:
        topics, self.topics = self.topics, {}
        for topic in topics:
            topic.consumers.pop(self, None)
            yield

    def _pop(self) -> Delivery:
        delivery = self._pending.popleft()
        self._forget(delivery)
        return delivery

    def _forget(self, delivery: Delivery) -> None:
        """It is not counted as pending any more."""
        self._pending_bytes -= delivery.size
        self._broker.memory.used -= delivery.size

    def _is_over(self, times: float) -> bool:
        """Whether so many times as much waits for the client as may."""
        options = self._broker.options
        if self._broker.memory.is_short and self._pending_bytes > times * _PENDING_BYTES_SHORT:
            return True
        return (
            len(self._pending) > times * options.topic_pending_max
            or self._pending_bytes > times * self._pending_bytes_max
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
        self._disconnect(len(self._pending))

    def _disconnect(self, pending: int) -> None:
        if self.is_closed:  # since this was decided
            return
        self.client.disconnect(
            f"Subscription to {self.destination} is too slow: {pending} messages are waiting for it",
            reason="slow consumer",
        )


class _Publication:
    """A message on its way to those who are there: it waits for its commit, and for those before it."""

    __slots__ = ("admitted", "is_done", "is_failed", "is_holding", "is_stored", "message", "publisher")

    def __init__(self, message: Message, publisher: Publisher | None, *, is_stored: bool = True) -> None:
        self.message = message
        self.publisher = publisher
        #: Whether the store has it for durable subscriptions, or nobody has one.
        self.is_stored = is_stored
        #: The durable subscriptions that have taken note of it.
        self.admitted: list[tuple[Lane, Delivery | None]] = []
        self.is_done = self.is_failed = False
        #: Whether its publisher is held back until it is out.
        self.is_holding = False

    def hold_publisher(self) -> None:
        """It waits for the slices of another one: its publisher sends no more meanwhile, so that few wait."""
        if self.publisher is not None and not self.is_holding:
            self.is_holding = True
            self.publisher.hold()

    def let_publisher_go(self) -> None:
        """It is out."""
        if self.publisher is not None and self.is_holding:
            self.is_holding = False
            self.publisher.let_go()


class Topic:
    """One topic of the running broker: who gets its messages.

    A persistent message is stored, once, if the topic has durable subscriptions; one that is not persistent only if
    some of them are not in use, since those that are get it from memory. Of what is stored, those that are in use take
    note, and the other subscribers get it when it is stored, each in the order of publication. If they are very
    many they get it in slices; what is published meanwhile waits, and so do those who publish it.

    Args:
        broker: gives the store, completions and the clock.
        destination: its name.

    Attributes:
        published: messages given to subscribers, since this object exists.
        expired: messages that had expired before that.
        opening: what remains of letting those take part who wait for such a topic; nothing is published before it is
            None. One step after another, never two at a time: `open_further`.
    """

    __slots__ = (
        "_broker",
        "_held",
        "_history",
        "_is_advising",
        "_is_retroactive",
        "_is_sending",
        "_publications",
        "_store",
        "_storing_bytes",
        "consumers",
        "destination",
        "durable",
        "expired",
        "last_used_s",
        "opening",
        "published",
        "published_bytes",
        "subscriptions",
    )

    def __init__(self, broker: DestinationHost, destination: Destination) -> None:
        self.destination = destination
        #: In order of subscription; a dictionary for its order.
        self.consumers: dict[TopicConsumer, None] = {}
        #: All durable subscriptions, and those of them that are in use.
        self.durable: set[SubscriptionKey] = set()
        self.subscriptions: dict[SubscriptionKey, TopicSubscription] = {}
        self.published = self.published_bytes = self.expired = 0
        self.opening: Iterator[None] | None = None
        self.last_used_s = broker.loop.time()
        self._broker = broker
        policy = broker.policy_for(destination)
        self._is_advising = policy.advises_arrivals
        self._is_retroactive = policy.always_retroactive
        self._history = history_for(broker, policy)
        self._store: TopicMessageStore | None = None
        self._publications: deque[_Publication] = deque()
        #: What is on its way to the store or the spool and no client has an answer for, and who waits for that.
        self._storing_bytes = 0
        self._held: set[Publisher] = set()
        #: Whether one of them is on its way, and has come to only some of the subscribers.
        self._is_sending = False

    @property
    def is_used(self) -> bool:
        """Whether the object has to stay."""
        return bool(
            self.consumers
            or self.durable
            or self.subscriptions
            or self._publications
            or self._is_sending
            or self.opening is not None
            or self._history
        )

    def join(self, consumer: TopicConsumer) -> None:
        """A consumer takes part from now on, and gets what was kept if it wants that."""
        self.consumers[consumer] = None
        if self._history is not None and (consumer.is_retroactive or self._is_retroactive):
            consumer.recover(self._history.recovered())

    def kept_unstored(self) -> Sequence[Message]:
        """What was kept for subscribers that come later, and is in no store."""
        return () if self._history is None else self._history.recovered(unstored=True)

    def open_further(self) -> bool:
        """Do one step of `opening`. Returns whether another one may follow."""
        if self.opening is not None and next(self.opening, False) is False:  # a step gives None
            self.opening = None
        return self.opening is not None

    def open_store(self) -> TopicMessageStore:
        """The topic's messages, and its durable subscriptions.

        Raises:
            StoreClosed: the adapter is stopped.
            StoreError: it keeps no durable subscriptions.
        """
        if self._store is None:
            self._store = self._broker.topic_store(self.destination)
        if self._store is None:
            raise StoreError(
                f"This store keeps no durable subscriptions: subscribe to {self.destination} without a name"
            )
        return self._store

    def let_go(self) -> None:
        """The object goes: nobody needs the store's object any more, nor what was kept."""
        self.forget_history()
        adapter = self._broker.adapter
        if self._store is not None and isinstance(adapter, SupportsTopics):
            adapter.remove_topic_message_store(TopicName.decoded(self.destination.physical_name))

    def forget_history(self) -> None:
        """What was kept for subscribers that come later is kept no more."""
        if self._history is not None:
            self._history.forget()

    def forget_store(self) -> None:
        """The store was closed: what is known of its durable subscriptions does not count any more."""
        self._store = None
        self.durable.clear()

    def keeps(self, message: Message) -> bool:
        """Whether the message has to be stored: one that is not persistent for durable subscriptions that nobody uses
        just now."""
        if message.persistent or not self.durable:
            return message.persistent and bool(self.durable)
        in_use = sum([not subscription.has_ended for subscription in self.subscriptions.values()])
        return len(self.durable) > in_use

    def publish(self, message: Message, publisher: Publisher | None, answer: Answer) -> None:
        """Give every subscriber its copy, and answer when it is safe.

        Args:
            message: what to publish; shared between the subscribers.
            publisher: who is held back if a subscriber cannot keep up.
            answer: told when it is stored, or at once if it need not be.
        """
        if self.keeps(message):
            if publisher is None and not message.persistent:  # an advisory
                if self.has_much_to_store:
                    answer(StoreError("too much is on its way to the store, and nobody can wait"))
                    return
                size = message.size + WRITE_BYTES
                self.storing(size, None)
                answer = partial(self._answered, size, answer)
            try:
                completion = self.open_store().add_message(message)
            except JdbcStoreError as error:
                answer(error)
                return
            self._broker.completions.expect(completion, self._stored, (self.admit(message, publisher), answer))
            return
        subscribers = len(self.consumers) + len(self.subscriptions)
        if self._publications or self._is_sending or subscribers > _SUBSCRIBERS_AT_ONCE:
            publication = _Publication(message, publisher, is_stored=False)
            publication.is_done = True
            self._publications.append(publication)
            self._advance(publication)
        else:
            self._send(message, publisher, is_stored=False)
        answer(None)

    def _answered(self, size: int, answer: Answer, error: BaseException | None) -> None:
        self.done_storing(size)
        answer(error)

    def _stored(self, subject: tuple[_Publication, Answer], error: BaseException | None) -> None:
        publication, answer = subject
        try:
            self.admitted(publication, error)
        finally:
            answer(error)

    def admit(self, message: Message, publisher: Publisher | None) -> _Publication:
        """Take note of a message whose write has just been submitted. `admitted` wants to hear of it again."""
        publication = _Publication(message, publisher)
        for subscription in self.subscriptions.values():
            entry = subscription.admit(message)
            if entry is not None:
                publication.admitted.append(entry)
        self._publications.append(publication)
        return publication

    def admit_unplaced(self, message: Message, publisher: Publisher | None) -> _Publication:
        """The same of a message whose place in the store only the store knows."""
        publication = _Publication(message, publisher)
        if self.keeps(message):
            publication.admitted += [(one.take_place(message), None) for one in self.subscriptions.values()]
        self._publications.append(publication)
        return publication

    def admitted(self, publication: _Publication, error: BaseException | None) -> None:
        """The store has answered: whoever is there gets it, if nothing before it is waiting."""
        for lane, entry in publication.admitted:
            lane.added(entry, error)
        publication.is_done, publication.is_failed = True, error is not None
        self._advance(publication)

    def _advance(self, publication: _Publication) -> None:
        """This one waits for nothing but those before it: send what can be sent, in the order of publication."""
        if self._is_sending:
            publication.hold_publisher()
            return
        publications = self._publications
        while publications and publications[0].is_done:
            if len(self.consumers) + len(self.subscriptions) > _SUBSCRIBERS_AT_ONCE:
                self._is_sending = True
                self._broker.slices.run(self._sending(), self._sent)
                return
            first = publications.popleft()
            first.let_publisher_go()
            if not first.is_failed:
                self._send(first.message, first.publisher, is_stored=first.is_stored)

    def _sending(self) -> Iterator[None]:
        """Send what waits for nothing any more; a job. A message is for those who are there at its beginning."""
        publications = self._publications
        while publications and publications[0].is_done:
            publication = publications.popleft()
            if publication.is_failed:
                publication.let_publisher_go()
                continue
            publication.hold_publisher()
            try:
                yield from self._sending_one(publication)
            finally:
                publication.let_publisher_go()

    def _sending_one(self, publication: _Publication) -> Iterator[None]:
        message, publisher = publication.message, publication.publisher
        if not self._has_expired(message):
            self._count(message, is_stored=publication.is_stored)
            for consumer in list(self.consumers):
                if consumer in self.consumers:
                    consumer.publish(message, publisher)
                yield
        if not publication.is_stored:
            for subscription in list(self.subscriptions.values()):
                if not subscription.has_ended:
                    subscription.offer(message, publisher)
                yield

    @property
    def has_much_to_store(self) -> bool:
        """Whether who publishes has to wait for the store or the spool."""
        return self._storing_bytes > self._broker.options.uncommitted_bytes_max

    def storing(self, size: int, publisher: Publisher | None) -> None:
        """A message that is not persistent is being stored, or spooled for one of the durable subscriptions: who
        publishes waits while that is too much.

        Args:
            size: bytes of it.
            publisher: who has published it; None if nobody can wait.
        """
        self._storing_bytes += size
        self._broker.memory.uncommitted += size
        if publisher is not None and self.has_much_to_store and publisher not in self._held:
            self._held.add(publisher)
            publisher.hold()

    def done_storing(self, size: int) -> None:
        """So many bytes are stored, spooled, or lost."""
        self._storing_bytes -= size
        self._broker.memory.uncommitted -= size
        if self._held and self._storing_bytes <= self._broker.options.uncommitted_bytes_max // 2:
            held, self._held = self._held, set()
            for publisher in held:
                publisher.let_go()

    def _has_expired(self, message: Message) -> bool:
        """Whether it has expired since it came, in the store or behind others. Durable subscriptions bury it."""
        has_expired = 0 < message.expiration < self._broker.now_ms()
        self.expired += has_expired
        return has_expired

    def _count(self, message: Message, *, is_stored: bool) -> None:
        self.published += 1
        self.published_bytes += message.size
        if self._history is not None:
            self._history.add(message, is_stored=is_stored)
        if self._is_advising:
            is_attended = bool(self.consumers or self.durable)
            self._broker.advisories.arrived(message, self.destination, is_attended=is_attended)

    def _sent(self) -> None:
        self._is_sending = False
        if self._publications and self._publications[0].is_done:  # only after a defect
            self._advance(self._publications[0])

    def _send(self, message: Message, publisher: Publisher | None, *, is_stored: bool) -> None:
        if not self._has_expired(message):
            self._count(message, is_stored=is_stored)
            for consumer in self.consumers:
                consumer.publish(message, publisher)
        if not is_stored:
            for subscription in self.subscriptions.values():
                subscription.offer(message, publisher)


@subject.register
def _subject(topic: Topic) -> str:
    return str(topic.destination)
