"""Durable subscriptions: what is published for them waits in the store until they have acknowledged it.

While nobody uses a subscription it is nothing but its rows in the store; the broker knows only that it is there
(`Durables`). While a client uses it, each of its topics has a `DurableSubscription`: a queue of its own, with one
consumer, over what the store has kept of this topic for this subscription (`SubscriptionStore`). So window, pages,
redelivery, expiry and dead letters are those of `jdbcstore.broker.queue` and `jdbcstore.broker.lane`, with these
differences:

* A message is written once for its topic. Each subscription in use *admits* the same write (`Lane.admit`), and removes
  the message by acknowledging it.
* How long the tail is, is not known when the subscription is taken up, and nobody counts it: the lane begins with a
  number beyond all others, and the first empty page sets it right.
* What the subscription does not want never enters the window. Of a page it is acknowledged in one write, so the next
  page goes on behind it and nothing is read twice, also after a restart; what never came from a page is collected
  first.

**Beginning.** A client that comes back may have acknowledgements on their way that its last connection has sent. The
store answers in the order in which it was asked: `TopicMessageStore.add_subscription` succeeds after all of them,
creates what is not there, and only then the first page is read. The lane takes note of what is published from the
moment before that call, so nothing falls between the two. The RECEIPT comes then, too.

**End.** The window is forgotten, the rest is in the store. How often a message was delivered is remembered for those
that the client gave back; they are the first again, since pages come in order. What no store has stays in memory for
the next client, as far as there is room for it (`jdbcstore.broker.topic_history`); what was in the spool is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NoReturn

from jdbcstore.broker.completion_bridge import CompletionBridge
from jdbcstore.broker.delivery import Answer, Consumer, Delivery, Receiver
from jdbcstore.broker.delivery_counts import DeliveryCounts
from jdbcstore.broker.interest import Interest
from jdbcstore.broker.lane import Lane
from jdbcstore.broker.memory import DURABLE_PLACE_BYTES, WRITE_BYTES
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.broker.subscription_request import AcknowledgeMode
from jdbcstore.broker.topic import Publisher, Topic, TopicSubscription
from jdbcstore.broker.topic_history import TopicHistory
from jdbcstore.broker.wildcards import Wildcards
from jdbcstore.destination import Destination
from jdbcstore.destination import Queue as QueueName
from jdbcstore.errors import JdbcStoreError, NoSuchSubscription, ProtocolError, StoreError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.selector import CONVERT_STRINGS
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor, MessageStore, Page, SupportsTopics, TopicMessageStore
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = [
    "DurableConsumer",
    "DurableSubscription",
    "Durables",
    "KnownSubscription",
    "SubscriptionStore",
    "settlements",
]

log = logging.getLogger(__name__)

#: More than any subscription has: how many there are is not counted.
_UNCOUNTED: Final = 1 << 62
#: How long unwanted messages are collected before they are acknowledged.
_COLLECT_S: Final = 1.0
#: A client that comes back so often without taking what waits gets what it sent itself before that.
_OWN_CONNECTIONS_MAX: Final = 8


class SubscriptionStore(MessageStore):
    """The messages of a topic that one subscription has not acknowledged, as a store of its own.

    Args:
        topic: where they are.
        key: whose.
    """

    def __init__(self, topic: TopicMessageStore, key: SubscriptionKey) -> None:
        self.destination = topic.destination
        self.prioritized = topic.prioritized
        self.topic = topic
        self.key = key

    def add_message(self, message: Message) -> NoReturn:
        """A message belongs to all subscriptions."""
        raise TypeError("messages are added to the topic")

    def get_message(self, message_id: MessageId) -> Message | None:
        return self.topic.get_message(message_id)

    def remove_message(self, *message_ids: MessageId) -> Completion[None]:
        return self.topic.acknowledge(self.key, *message_ids)

    def update_message(self, message: Message) -> NoReturn:
        """A message belongs to all subscriptions."""
        raise TypeError("the messages of a topic are not changed by one subscription")

    def remove_all_messages(self) -> NoReturn:
        """A message belongs to all subscriptions."""
        raise TypeError("the messages of a topic are not removed by one subscription")

    def recover_next_messages(self, cursor: Cursor, messages_max: int, bytes_max: int) -> Page:
        return self.topic.recover_next_subscription_messages(self.key, cursor, messages_max, bytes_max)

    @property
    def message_count(self) -> int:
        return _UNCOUNTED


def settlements(
    deliveries: Iterable[Delivery],
) -> tuple[list[tuple[MessageStore, MessageId]], list[tuple[TopicMessageStore, SubscriptionKey, MessageId]]]:
    """What the store is to remove and to acknowledge, so that these deliveries are settled."""
    removes: list[tuple[MessageStore, MessageId]] = []
    acknowledged: list[tuple[TopicMessageStore, SubscriptionKey, MessageId]] = []
    for delivery in deliveries:
        if delivery.lane is None or not delivery.lane.is_durable or delivery.failed:
            continue
        store = delivery.lane.store
        if isinstance(store, SubscriptionStore):
            acknowledged.append((store.topic, store.key, delivery.message_id))
        else:
            removes.append((store, delivery.message_id))
    return removes, acknowledged


class DurableConsumer(Consumer):
    """A client that uses a durable subscription. Its `queues` are `DurableSubscription`, one for each topic.

    Args:
        durables: where it has to be told that it goes.
        client, subscription_id, destination, mode, prefetch, interest: as `Consumer`.
        key: which durable subscription it uses.
        is_retroactive: whether a new subscription begins with the oldest stored message, and what its topics have kept
            besides.
    """

    __slots__ = ("_durables", "is_retroactive", "key")

    def __init__(
        self,
        durables: Durables,
        client: Receiver,
        subscription_id: str | None,
        destination: Destination,
        mode: AcknowledgeMode,
        prefetch: int,
        interest: Interest,
        key: SubscriptionKey,
        *,
        is_retroactive: bool,
    ) -> None:
        super().__init__(client, subscription_id, destination, mode, prefetch, interest)
        self.key = key
        self.is_retroactive = is_retroactive
        self._durables = durables

    @property
    def durable_name(self) -> str:
        """What its client calls the durable subscription."""
        return self.key.subscription_name

    def closing(self) -> Iterator[None]:
        """Leave the subscription to the store; what was not acknowledged is delivered again to the next client."""
        closing = super().closing()

        def closed() -> Iterator[None]:
            yield from closing
            self._durables.left(self)

        return closed()


class DurableSubscription(TopicSubscription):
    """What one durable subscription gets of one topic, while a client uses it.

    Args:
        broker: gives options, stores, completions and memory.
        topic: the topic; its store is open.
        consumer: who uses it.
        delivered: how often messages were delivered before, by sequence; kept up to date.
        left: what no store has and its last client left unacknowledged; filled again when this one goes.
        spool: names the store of what does not have to survive and does not fit into memory.
    """

    is_shared = True

    def __init__(
        self,
        broker: RegionHost,
        topic: Topic,
        consumer: DurableConsumer,
        delivered: dict[int, int],
        left: TopicHistory,
        spool: QueueName,
    ) -> None:
        self._topic = topic
        self._key = consumer.key
        self._interest = consumer.interest
        self._spool = spool
        self._unwanted: list[MessageId] = []
        self._timer: asyncio.TimerHandle | None = None
        self._counts = DeliveryCounts(delivered, left)
        super().__init__(broker, topic.destination, self._counts)
        if self.policy.advisory_for_slow_consumers:
            self.wake = self._wake_or_tell
        topic.subscriptions[consumer.key] = self
        #: What it has to take before what comes from now on (`taking_over`), and who waits for that.
        self._history: deque[tuple[Message, Publisher | None]] = deque((message, None) for message in left.messages())
        left.forget()

    def taking_over(self, kept: Iterable[Message] = ()) -> Iterator[None]:
        """Take what the last client has left, what the topic has kept, and what has come meanwhile; a job, since it may
        be all that a history holds.

        Args:
            kept: what the topic has kept for it.
        """
        history = self._history
        history.extend((message, None) for message in kept)
        while history:
            self.take(*history.popleft())
            yield

    def begin(self, consumer: Consumer) -> None:
        """The store has the subscription: read its messages."""
        if not self.has_ended:
            self.add_consumer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            super().remove_consumer(consumer)
        if not self.has_ended:
            self._leave()
        self.has_ended = True
        self._acknowledge_unwanted()
        if self._topic.subscriptions.get(self._key) is self:
            del self._topic.subscriptions[self._key]
        self.close()
        self.part()

    def proceed(self) -> None:
        super().proceed()
        if self.has_ended:  # and has what it had given out back
            self.part()

    def resume(self, consumer: Consumer) -> None:
        consumer.is_slow = False
        super().resume(consumer)

    def dispatch(self) -> bool:
        is_all = super().dispatch()
        if self.policy.advisory_for_slow_consumers:
            self._tell_slow()
        return is_all

    def _wake_or_tell(self) -> None:
        self._consumers.wake()
        self._tell_slow()

    def _tell_slow(self) -> None:
        """Tell, once until it can take more, that something waits that its client does not take."""
        for consumer in self.consumers:
            if not consumer.is_slow and consumer.prefetch > 0 >= consumer.credit and self.contents.first() is not None:
                consumer.is_slow = True
                self._broker.advisories.slow_consumer(consumer, [queue.destination for queue in consumer.queues])

    def _leave(self) -> None:
        """What no store has waits for the next client."""
        for lane in self.contents.transient:
            for delivery in (*self.contents.given_back(lane), *lane.window):
                self._counts.leave(delivery)
        for message, _ in self._history:
            if self._interest.wants(message):
                self._counts.leave(Delivery(message, order=self.next_order()))
        self._history.clear()

    def open_store(self) -> MessageStore:
        return SubscriptionStore(self._topic.open_store(), self._key)

    def open_spool(self) -> MessageStore:
        return self._broker.spool.queue_message_store(self._spool, prioritized=self.policy.prioritized_messages)

    # -- in ------------------------------------------------------------------------------------------------------

    def admit(self, message: Message) -> tuple[Lane, Delivery | None] | None:
        """Take note of a message whose write has just been submitted to the topic's store.

        Returns:
            The lane, and what its `Lane.added` has to be told when the store has answered; None if nothing has.
        """
        lane = self.contents.persistent_lane(message)
        if message.message_id is not None and not self._interest.wants(message) and lane.pass_over(message):
            self._collect(message.message_id)
            return None
        return lane, lane.admit(message, visible=False)

    def take_place(self, message: Message) -> Lane:
        lane = self.contents.persistent_lane(message)
        lane.take_place()
        return lane

    def begin_again(self, text: str) -> None:
        for consumer in list(self.consumers):
            consumer.client.disconnect(text, reason="a rollback has given messages back to its durable subscription")

    def offer(self, message: Message, publisher: Publisher | None) -> None:
        if not (publisher is None and self._topic.has_much_to_store):
            if self._history:
                self._history.append((message, publisher))
            else:
                self.take(message, publisher)
        elif self._interest.wants(message):
            _log_loss(StoreError("too much is on its way to the store, and nobody can wait"))

    def take(self, message: Message, publisher: Publisher | None) -> None:
        """As `offer`, of what the broker has in memory anyway: it is not lost because the store does not keep up."""
        if not self._interest.wants(message):
            return
        lane = self.contents.transient_lane(message)
        try:
            completion, delivery = lane.add(message.copy(), visible=True)
        except JdbcStoreError as error:
            _log_loss(error)
            return
        if completion is not None:
            size = message.size + WRITE_BYTES
            self._topic.storing(size, publisher)
            self._broker.completions.expect(completion, self._added, (lane, delivery, partial(self._spooled, size)))

    def _spooled(self, size: int, error: BaseException | None) -> None:
        self._topic.done_storing(size)
        _log_loss(error)

    def wanted(self, messages: Sequence[Message]) -> Sequence[Message]:
        if self._interest.is_everything:
            return messages
        wanted = []
        for message in messages:
            if self._interest.wants(message):
                wanted.append(message)
            elif message.message_id is not None:
                self._unwanted.append(message.message_id)
        self._acknowledge_unwanted()
        return wanted

    # -- what it does not want -------------------------------------------------------------------------------------

    def _collect(self, message_id: MessageId) -> None:
        self._unwanted.append(message_id.copy())
        if len(self._unwanted) >= self._broker.options.page_messages_max:
            self._acknowledge_unwanted()
        elif self._timer is None:
            self._timer = self._broker.loop.call_later(_COLLECT_S, self._acknowledge_unwanted)

    def _acknowledge_unwanted(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        unwanted, self._unwanted = self._unwanted, []
        if not unwanted:
            return
        try:
            completion = self._topic.open_store().acknowledge(self._key, *unwanted)
        except JdbcStoreError as error:
            self._left_out(None, error)
        else:
            self._broker.completions.expect(completion, self._left_out, None)

    def _left_out(self, _: object, error: BaseException | None) -> None:
        if error is not None:  # they are read again, and left out again
            log.info("unwanted messages are not acknowledged destination=%s error=%r", self.destination, str(error))

    def close(self) -> None:
        spooled = next((lane.store for lane in self.contents.transient if lane.is_open), None)
        super().close()
        if spooled is not None:
            purged = spooled.remove_all_messages()
            self._broker.completions.expect(purged, self._emptied, None)

    def _emptied(self, _: object, error: BaseException | None) -> None:
        self._broker.forget_in_spool(self._spool)


class KnownSubscription:
    """A durable subscription that is there, used or not."""

    __slots__ = (
        "consumer",
        "delivered",
        "is_leaving",
        "key",
        "left",
        "no_local",
        "offline_since_s",
        "own_connections",
        "selector",
        "subscribed",
        "topics",
    )

    def __init__(self, info: SubscriptionInfo, now_s: float) -> None:
        self.key = info.key
        self.subscribed = info.subscribed_destination
        self.selector = info.selector or None
        #: Whether it leaves out what its own connection sends. None if nobody has said so since the store was opened:
        #: tables do not keep it, nor did ActiveMQ's journals always.
        self.no_local: bool | None = True if info.no_local else None
        #: The connections that have used it without their own messages, the last one first: what one of them sends
        #: while nobody uses it is its own, too.
        self.own_connections: tuple[str, ...] = ()
        #: The topics whose stores have it.
        self.topics: dict[Destination, None] = {}
        self.consumer: DurableConsumer | None = None
        #: Whether it is being removed, topic by topic: nobody takes it up before that is done.
        self.is_leaving = False
        self.offline_since_s = now_s
        #: By topic and sequence: how often a message was delivered that was given back.
        self.delivered: dict[Destination, dict[int, int]] = {}
        #: By topic: what no store has, and nobody has acknowledged.
        self.left: dict[Destination, TopicHistory] = {}

    @property
    def is_in_use(self) -> bool:
        """Whether somebody uses it, or it is being removed."""
        return self.consumer is not None or self.is_leaving

    def forget_left(self) -> None:
        """What no store has is for nobody any more."""
        for left in self.left.values():
            left.forget()

    def is_like(self, info: SubscriptionInfo) -> bool:
        """Whether a client that asks for this goes on with what there is."""
        return (self.subscribed, self.selector) == (info.subscribed_destination, info.selector or None)


class Durables:
    """All durable subscriptions of the broker.

    Args:
        broker: gives the store, the topics and the loop.
    """

    def __init__(self, broker: RegionHost) -> None:
        self._broker = broker
        self._known: dict[SubscriptionKey, KnownSubscription] = {}
        #: Those of them that cover several topics.
        self._wildcards: Wildcards[KnownSubscription] = Wildcards()
        self._timer: asyncio.TimerHandle | None = None
        self._spools = 0

    # -- the store is opened -------------------------------------------------------------------------------------

    def loading(self, topics: Iterable[Destination]) -> Iterator[None]:
        """Find the subscriptions that the store has, just opened, to these topics; a job."""
        before, self._known = self._known, {}
        self._wildcards = Wildcards()
        for topic in self._broker.topics.values():
            topic.forget_store()
        adapter = self._broker.adapter
        if not isinstance(adapter, SupportsTopics):
            return
        now_s = self._broker.loop.time()
        for name in topics:
            topic = self._broker.topic(name)
            for info in topic.open_store().all_subscriptions():
                known = self._known.get(info.key)
                if known is None:
                    known = KnownSubscription(info, now_s)
                    self._remember(known)
                    if info.key in before:
                        known.delivered = before[info.key].delivered
                        known.left = before[info.key].left
                        known.offline_since_s = before[info.key].offline_since_s
                        known.own_connections = before[info.key].own_connections
                        if before[info.key].no_local is not None:
                            known.no_local = before[info.key].no_local
                known.topics[name] = None
                topic.durable.add(info.key)
                yield
            yield

    def forget(self) -> None:
        """Somebody else was master in between."""
        for known in self._known.values():
            known.forget_left()
        self._known.clear()
        self._wildcards = Wildcards()

    def _remember(self, known: KnownSubscription) -> None:
        if (before := self._known.get(known.key)) is not None:
            self._wildcards.discard(before.subscribed, before)
        self._known[known.key] = known
        if known.subscribed.is_wildcard:
            self._wildcards.add(known.subscribed, known)

    # -- SUBSCRIBE, UNSUBSCRIBE --------------------------------------------------------------------------------------

    def subscribing(self, consumer: DurableConsumer, answer: Answer) -> Iterator[None]:
        """Let a client use a subscription, which is created if it is not there or was another one until now.

        Args:
            consumer: who, and what it asks for.
            answer: told when the store has it, in all its topics; not if the job cannot be done.

        Returns:
            A job. It raises JdbcStoreError if the store does not take it, or the client leaves meanwhile. What it has
            done until then stays: a client that asks again goes on from there.

        Raises:
            ConfigurationError, SchemaMismatch: the store cannot keep it.
            ProtocolError: somebody uses it already.
        """
        key, destination = consumer.key, consumer.destination
        known = self._known.get(key)
        if known is not None and known.is_in_use:
            raise ProtocolError(
                f"Durable consumer is in use for client: {key.client_id} and subscriptionName: {key.subscription_name}"
            )
        selector = None if consumer.interest.selector is None else consumer.interest.selector.text
        if known is not None and known.selector is not None and selector == CONVERT_STRINGS + known.selector:
            selector = known.selector  # a JMS client's: to begin anew would lose what waits for it
        no_local = bool(consumer.interest.unwanted_connections)
        asked = SubscriptionInfo(key, destination, destination, selector, no_local)
        self._broker.adapter.check_subscription(asked)
        is_another = known is not None and known.no_local is not None and known.no_local != no_local
        begins = known is None or is_another or not known.is_like(asked)
        if known is None or begins:
            before, known = known, KnownSubscription(asked, self._broker.loop.time())
            if before is not None:
                before.forget_left()
                known.topics.update(before.topics)
        known.no_local = no_local
        if no_local:
            consumer.interest = consumer.interest.without(known.own_connections)
            known.own_connections = consumer.interest.unwanted_connections[:_OWN_CONNECTIONS_MAX]
        self._remember(known)
        known.consumer = consumer
        return self._subscribing(known, asked, consumer, answer, begins=begins, is_another=is_another)

    def _subscribing(
        self,
        known: KnownSubscription,
        asked: SubscriptionInfo,
        consumer: DurableConsumer,
        answer: Answer,
        *,
        begins: bool,
        is_another: bool,
    ) -> Iterator[None]:
        taken_up: list[DurableSubscription] = []
        answers = _Together(partial(self._subscribed, consumer, taken_up, answer))
        destination = asked.subscribed_destination
        try:
            for name in self._broker.covered(destination):
                if name is not None:
                    yield from self._broker.opening(name)
                    _check_open(consumer)
                    if is_another and name in known.topics:  # to the store it would be the same one
                        self._delete(known, name, answers)
                    topic = self._broker.topic(name)
                    is_new = begins or topic.destination not in known.topics
                    kept = topic.kept_unstored() if is_new and consumer.is_retroactive else ()
                    subscription = self._cover(known, topic, asked, answers, consumer)
                    if subscription is not None:
                        taken_up.append(subscription)
                        yield from subscription.taking_over(kept)
                        _check_open(consumer)
                yield
                _check_open(consumer)
            for name in list(known.topics):
                if name != destination and not destination.matches(name):  # it was another one before
                    self._delete(known, name, answers)
                yield
                _check_open(consumer)
        except Exception:
            if not known.topics and known.consumer is consumer:
                self._forget(known)
            raise
        answers.complete()

    def _forget(self, known: KnownSubscription) -> None:
        del self._known[known.key]
        known.forget_left()
        self._wildcards.discard(known.subscribed, known)

    def _cover(
        self,
        known: KnownSubscription,
        topic: Topic,
        asked: SubscriptionInfo,
        answers: _Together,
        consumer: DurableConsumer,
    ) -> DurableSubscription | None:
        """Let a subscription have one topic more, and its client take it up if it may; what the client has then."""
        if known.key in topic.subscriptions:  # the topic has appeared meanwhile
            return None
        # From here on it takes note of what is published; the store is asked after that.
        subscription = None
        if consumer.client.access.may_receive(topic.destination):
            self._keep_place(consumer, topic)
            subscription = self._take_up(known, topic, consumer)
        self._add(topic, asked, answers, retroactive=consumer.is_retroactive)
        known.topics[topic.destination] = None
        topic.durable.add(known.key)
        return subscription

    def _take_up(self, known: KnownSubscription, topic: Topic, consumer: DurableConsumer) -> DurableSubscription:
        self._spools += 1
        delivered = known.delivered.setdefault(topic.destination, {})
        spool = QueueName(f"durable.{self._spools}")
        left = known.left.setdefault(topic.destination, TopicHistory(self._broker))
        subscription = DurableSubscription(self._broker, topic, consumer, delivered, left, spool)
        consumer.queues[subscription] = None
        return subscription

    @staticmethod
    def _keep_place(consumer: DurableConsumer, topic: Topic) -> None:
        """Raise ProtocolError if a wildcard covers more topics than its client's connection may keep."""
        if consumer.destination.is_wildcard:
            consumer.client.keep_place(consumer, topic.destination, DURABLE_PLACE_BYTES)

    def _add(self, topic: Topic, asked: SubscriptionInfo, answers: _Together, *, retroactive: bool) -> None:
        info = replace(asked, destination=topic.destination)
        completion = topic.open_store().add_subscription(info, retroactive=retroactive)
        answers.expect(self._broker.completions, completion)

    def _delete(self, known: KnownSubscription, name: Destination, answers: _Together) -> None:
        """Remove a subscription from one of its topics."""
        topic = self._broker.topic(name)
        completion = topic.open_store().delete_subscription(known.key)
        topic.durable.discard(known.key)
        del known.topics[name]
        answers.expect(self._broker.completions, completion)

    def _subscribed(
        self,
        consumer: DurableConsumer,
        taken_up: Iterable[DurableSubscription],
        answer: Answer,
        error: BaseException | None,
    ) -> None:
        answer(error)
        if error is None:
            self._broker.slices.run(_beginning(taken_up, consumer))

    def queues(self) -> Iterator[Queue]:
        """The queues of all that are in use."""
        for known in self._known.values():
            if known.consumer is not None:
                yield from (queue for queue in known.consumer.queues if isinstance(queue, DurableSubscription))

    def all(self) -> Sequence[KnownSubscription]:
        """All that are there, used or not."""
        return list(self._known.values())

    def left(self, consumer: DurableConsumer) -> None:
        """A client does not use its subscription any more."""
        known = self._known.get(consumer.key)
        if known is not None and known.consumer is consumer:
            known.consumer = None
            known.offline_since_s = self._broker.loop.time()

    def topics_of(self, key: SubscriptionKey) -> tuple[Destination, ...]:
        """What a subscription is to, a topic or a wildcard; nothing if there is none."""
        known = self._known.get(key)
        return () if known is None else (known.subscribed,)

    def unsubscribing(self, key: SubscriptionKey, answer: Answer, connection_id: str | None = None) -> Iterator[None]:
        """Remove a subscription that nobody uses, with all that waits for it.

        Args:
            key: which one.
            answer: told when the store has forgotten it; not if the job cannot be done.
            connection_id: whose client wants that, for advisories; None if none does.

        Returns:
            A job. It raises JdbcStoreError if the store does not take the order.

        Raises:
            ProtocolError: there is none, or somebody uses it.
        """
        known = self._known.get(key)
        if known is None:
            raise NoSuchSubscription(
                f"No durable subscription exists for clientID: {key.client_id} and subscriptionName:"
                f" {key.subscription_name}"
            )
        if known.is_in_use:
            raise ProtocolError(
                f"Durable consumer is in use for client: {key.client_id} and subscriptionName: {key.subscription_name}."
                " End the subscription that uses it first"
            )
        return self._removing(known, answer, connection_id)

    def _removing(self, known: KnownSubscription, answer: Answer, connection_id: str | None) -> Iterator[None]:
        known.is_leaving = True
        self._wildcards.discard(known.subscribed, known)
        return self._removed(known, _Together(partial(self._told_removed, known, answer, connection_id)))

    def _told_removed(
        self, known: KnownSubscription, answer: Answer, connection_id: str | None, error: BaseException | None
    ) -> None:
        if error is None:
            self._broker.advisories.subscription_removed(known.key, known.subscribed, connection_id)
        answer(error)

    def _removed(self, known: KnownSubscription, answers: _Together) -> Iterator[None]:
        try:
            for name in list(known.topics):
                self._delete(known, name, answers)
                yield
        except Exception:
            self._remember(known)  # what is left of it
            raise
        else:
            self._forget(known)
        finally:
            known.is_leaving = False
        answers.complete()

    # -- topics that appear ------------------------------------------------------------------------------------------

    def awaits(self, destination: Destination) -> bool:
        """Whether very many subscriptions wait for a topic of this name."""
        return self._wildcards.are_many(destination)

    def appearing(self, topic: Topic) -> Iterator[None]:
        """There is a new topic: wildcards may cover it. Nothing is published to it before this job is done."""
        for known in self._wildcards.covering(topic.destination):
            if self._known.get(known.key) is known and not known.is_leaving:
                self._appeared(topic, known)
            yield

    def _appeared(self, topic: Topic, known: KnownSubscription) -> None:
        name, consumer = topic.destination, known.consumer
        if name in known.topics:
            return
        answers = _Together(partial(self._joined, known, topic))
        asked = SubscriptionInfo(known.key, name, known.subscribed, known.selector, bool(known.no_local))
        if consumer is not None and not consumer.is_closed and consumer.client.access.may_receive(name):
            try:
                self._keep_place(consumer, topic)
            except ProtocolError as error:  # what comes waits for its next client
                consumer.client.disconnect(str(error), reason="its durable subscription covers too many topics")
            else:
                for _ in self._take_up(known, topic, consumer).taking_over():
                    pass  # there is nothing but what was left when it was there before
        try:
            self._add(topic, asked, answers, retroactive=False)
        except JdbcStoreError as error:
            log.warning("durable subscription does not cover a new topic topic=%s error=%r", name, str(error))
            return
        known.topics[name] = None
        topic.durable.add(known.key)
        answers.complete()

    def _joined(self, known: KnownSubscription, topic: Topic, error: BaseException | None) -> None:
        if error is not None:
            log.warning(
                "durable subscription does not cover a new topic topic=%s error=%r", topic.destination, str(error)
            )
        subscription = topic.subscriptions.get(known.key)
        if error is None and subscription is not None and known.consumer is not None:
            subscription.begin(known.consumer)

    # -- those that nobody uses --------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Remove from time to time what was not used for too long, if the options say so."""
        options = self._broker.options
        if options.offline_durable_subscriber_timeout_s > 0:
            period_s = options.offline_durable_subscriber_task_schedule_s
            self._timer = self._broker.loop.call_later(period_s, self._expire)

    def stop_watching(self) -> None:
        """The broker serves nobody now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self.watch()
        limit_s = self._broker.loop.time() - self._broker.options.offline_durable_subscriber_timeout_s
        self._broker.slices.run(self._expiring(limit_s))

    def _expiring(self, limit_s: float) -> Iterator[None]:
        for key, known in list(self._known.items()):
            if not known.is_in_use and known.offline_since_s <= limit_s and self._known.get(key) is known:
                log.info("durable subscription was offline for too long, it is removed key=%s", key)
                try:
                    yield from self._removing(known, _log_failure, None)
                except JdbcStoreError as error:
                    _log_failure(error)
            yield


def _check_open(consumer: DurableConsumer) -> None:
    if consumer.is_closed:
        raise ProtocolError(f"The subscription to {consumer.destination} was ended before it had begun")


def _beginning(subscriptions: Iterable[DurableSubscription], consumer: DurableConsumer) -> Iterator[None]:
    """The store has a subscription: read its messages, topic by topic; a job."""
    for subscription in subscriptions:
        if consumer.is_closed:
            return
        subscription.begin(consumer)
        yield


class _Together:
    """Answers once when several writes are answered, with the first error."""

    __slots__ = ("_answer", "_error", "_remaining")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._remaining = 1  # `complete`
        self._error: BaseException | None = None

    def expect(self, completions: CompletionBridge, completion: Completion[None]) -> None:
        """One of them."""
        self._remaining += 1
        completions.expect(completion, self._answered, None)

    def complete(self) -> None:
        """There are no more."""
        self._answered(None, None)

    def _answered(self, _: object, error: BaseException | None) -> None:
        self._error = self._error or error
        self._remaining -= 1
        if not self._remaining:
            self._answer(self._error)


def _log_failure(error: BaseException | None) -> None:
    if error is not None:
        log.warning("durable subscription could not be removed error=%r", str(error))


def _log_loss(error: BaseException | None) -> None:
    if error is not None:
        log.error("a non-persistent message for a durable subscription was lost error=%r", str(error))
