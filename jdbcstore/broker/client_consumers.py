"""What a client receives: `ClientConsumers` is the consuming part of a client (`jdbcstore.broker.client`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from jdbcstore.broker.access import Access
from jdbcstore.broker.answers import AcknowledgementAnswer
from jdbcstore.broker.browser import Browser
from jdbcstore.broker.client_account import ClientAccount
from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.client_requests import ClientRequests
from jdbcstore.broker.consumer_factory import consumer_for, prefetch_for, subscription_bytes
from jdbcstore.broker.delivery import Consumer, Delivery, DeliveryAnswer, by_lane, giving_back
from jdbcstore.broker.durable import DurableConsumer
from jdbcstore.broker.pending_acks import DeliveryNames, PendingAcks
from jdbcstore.broker.pulls import Pulls
from jdbcstore.broker.subscription_request import SubscriptionRequest
from jdbcstore.broker.topic import TopicConsumer
from jdbcstore.broker.transaction import OpenTransactions
from jdbcstore.broker.watchdog import subject
from jdbcstore.destination import Destination
from jdbcstore.errors import JdbcStoreError, NotAuthorized, ProtocolError
from jdbcstore.subscription import SubscriptionKey

__all__ = ["ACKNOWLEDGED_MAX", "ClientConsumers"]

log = logging.getLogger(__name__)

#: How many messages that were acknowledged one after the other become one write.
ACKNOWLEDGED_MAX: Final = 1000


class ClientConsumers:
    """Subscribes, delivers and acknowledges for one client.

    Args:
        broker: where from.
        client: who asks, waits and is answered.
        account: what it makes the broker keep.
        transactions: its open ones.
        names: gives deliveries the names by which the client will acknowledge them.

    Attributes:
        by_key: its consumers, by the keys of their requests.
        acknowledged: what is to be settled.
        is_choked: whether the client does not read what it was sent.
        access: what it may do.
    """

    def __init__(
        self,
        broker: ClientHost,
        client: ClientRequests,
        account: ClientAccount,
        transactions: OpenTransactions,
        names: DeliveryNames | None,
    ) -> None:
        self.by_key: dict[str, Consumer] = {}
        self.acknowledged: list[Delivery] = []
        self.is_choked = False
        self._broker = broker
        self._client = client
        self._account = account
        self._transactions = transactions
        self._deliver = client.callbacks.deliver
        #: Makes the answer to acknowledgements.
        self._answer: Callable[..., DeliveryAnswer] = AcknowledgementAnswer
        #: Their keys by destination, in order: some clients have no other name for them.
        self._by_destination: dict[Destination, dict[str, None]] = {}
        self._pending_acks = PendingAcks(names)
        self._pulls = Pulls(broker.loop)
        #: Sent to consumers that acknowledge by themselves; settled when the bytes have left.
        self._unflushed: list[Delivery] = []

    def part_from_client(self, remains: ClientRequests) -> None:
        """The client is gone for good: nobody but this, which is left of it, is known any more."""
        self._client = remains
        self._deliver = remains.callbacks.deliver

    @property
    def access(self) -> Access:
        """What the client may do."""
        return self._client.access

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""
        return self._client.client_id

    @property
    def connection_id(self) -> str:
        """Names its connection."""
        return self._client.connection_id

    @property
    def owes(self) -> bool:
        """Whether others wait for what it was sent."""
        return any(consumer.unacknowledged for consumer in self.by_key.values())

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def subscribe(self, wanted: SubscriptionRequest, request: object) -> None:
        """Begin a subscription. Nothing is delivered before the request is completed: for a durable one that is when
        the store has it.

        Raises:
            ConfigurationError, SchemaMismatch: the store cannot keep the queue, or the durable subscription.
            NotAuthorized: the client may not receive from there.
            ProtocolError: it asks for what there is not, or for too much.
            SelectorError: its condition is none, or too long.
        """
        if wanted.destination.is_composite:
            self._broker.check_parts(wanted.destination)
        self.access.check_receive(wanted.destination)
        if len(self.by_key) >= self._broker.options.subscriptions_max:
            raise ProtocolError(
                f"Too many subscriptions: subscriptions_max is {self._broker.options.subscriptions_max} for a"
                " connection. Unsubscribe one first"
            )
        key = wanted.key
        if key in self.by_key:
            raise ProtocolError(
                f"There is a subscription with the id {wanted.subscription_id} already; unsubscribe it first"
            )
        consumer = consumer_for(self._broker, self, wanted)
        consumer.kept_bytes = subscription_bytes(wanted)
        self._account.subscribed(consumer.kept_bytes)
        self.by_key[key] = consumer
        self._by_destination.setdefault(wanted.destination, {})[key] = None
        try:
            if isinstance(consumer, DurableConsumer):
                subscribed = partial(self._subscribed_durably, key, consumer, request)
                job = self._broker.durables.subscribing(consumer, subscribed)
                self._client.asked(0)
                self._client.work(self._subscribing_durably(key, consumer, job), request, lambda: None)
                return
            if isinstance(consumer, Browser):
                consumer.begin([self._broker.queue(element) for element in wanted.destination.elements()])
                self._client.complete(request)
                self._advise(consumer)
                return
        except JdbcStoreError:
            self._drop(key, consumer)
            raise
        consumer.withhold()  # the answer goes out first
        self._client.work(self._subscribing(key, consumer), request, partial(self._subscribed, consumer, request))

    def _subscribing(self, key: str, consumer: Consumer) -> Iterator[None]:
        try:
            yield from self._broker.subscribing(consumer)
        except JdbcStoreError:
            yield from self._dropping(key, consumer)
            raise

    def _subscribed(self, consumer: Consumer, request: object) -> None:
        self._client.complete(request)
        consumer.grant()
        self._advise(consumer)
        if isinstance(consumer, TopicConsumer):
            self._broker.advisories.subscribed(consumer)

    def _advise(self, consumer: Consumer) -> None:
        if consumer.is_closed:  # the client has gone meanwhile: its end was told before
            return
        self._broker.advisories.consumer_added(consumer, self._client.connection_id, self._client.client_id)

    def _subscribing_durably(self, key: str, consumer: DurableConsumer, job: Iterator[None]) -> Iterator[None]:
        try:
            yield from job
        except Exception:  # this is the only callback with the outcome
            yield from self._dropping(key, consumer)  # before the client hears of it: it may use the name again then
            self._client.answered(0, None, None)
            raise

    def _subscribed_durably(
        self, key: str, consumer: DurableConsumer, request: object, error: BaseException | None
    ) -> None:
        answered = partial(self._client.answered, 0, request, error)
        if error is None:
            answered()
            self._advise(consumer)
        else:
            self._broker.slices.run(self._dropping(key, consumer), answered)

    def _drop(self, key: str, consumer: Consumer) -> None:
        """A subscription has failed."""
        self._broker.slices.run(self._dropping(key, consumer))

    def _dropping(self, key: str, consumer: Consumer) -> Iterator[None]:
        if self.by_key.get(key) is consumer:
            self._take_subscription(key)
            yield from self._unsubscribing(consumer)

    def _take_subscription(self, key: str | None) -> Consumer | None:
        consumer = None if key is None else self.by_key.pop(key, None)
        if key is not None and consumer is not None:
            keys = self._by_destination[consumer.destination]
            del keys[key]
            if not keys:
                del self._by_destination[consumer.destination]
        return consumer

    def subscription_to(self, destination: Destination) -> str | None:
        """The key of its oldest subscription to this destination; None if there is none."""
        return next(iter(self._by_destination.get(destination, ())), None)

    def unsubscribe(self, key: str | None, request: object, unseen: Iterable[Delivery] = ()) -> None:
        """End a subscription; a durable one waits for its client from now on.

        Args:
            key: which one.
            request: completed when it has left.
            unseen: of what it has not acknowledged that which no application has seen: it comes again as if it had not
                been delivered.

        Raises:
            ProtocolError: there is none of this key.
        """
        for delivery in unseen:
            delivery.is_counted = False
        consumer = self._take_subscription(key)
        if consumer is None:
            raise ProtocolError(
                f"No subscription matched. There is none with the id {key}" if key else "No subscription matched."
            )
        self._client.work(self._unsubscribing(consumer), request, partial(self._client.complete, request))

    def keep_place(self, consumer: Consumer, destination: Destination, size: int) -> None:
        """Count a wildcard subscription's place in one more destination. Raises ProtocolError if it is too much."""
        what = f"A subscription to {consumer.destination}, which covers {destination},"
        self._account.keep(size, what, "Subscribe to fewer destinations")
        consumer.kept_bytes += size

    def give_up_place(self, consumer: Consumer, size: int) -> None:
        """It is there no more."""
        if not consumer.is_closed:
            self._account.give_up(size)
            consumer.kept_bytes -= size

    def _unsubscribing(self, consumer: Consumer) -> Iterator[None]:
        self._account.unsubscribed(consumer.kept_bytes)
        self._pulls.withdraw(consumer)
        self._pending_acks.forget(consumer)
        return self._leaving(consumer)

    def _leaving(self, consumer: Consumer) -> Iterator[None]:
        return self._followed_by_advisory(self._broker.unsubscribing(consumer), consumer)

    def _followed_by_advisory(self, job: Iterator[None], consumer: Consumer) -> Iterator[None]:
        yield from job
        self._broker.advisories.consumer_removed(consumer)

    def remove_durable(self, key: SubscriptionKey, request: object) -> None:
        """Remove a durable subscription that nobody uses, with all that waits for it.

        Raises:
            NotAuthorized: the client may not read what it is to.
        """
        for topic in self._broker.durables.topics_of(key):
            self.access.check_read(topic)
        try:
            answered = partial(self._client.answered, 0, request)
            job = self._broker.durables.unsubscribing(key, answered, self._client.connection_id)
        except JdbcStoreError as error:
            self._client.complete(request, error)
            return
        self._client.asked(0)
        self._client.work(self._removing_durable(job), request, lambda: None)

    def _removing_durable(self, job: Iterator[None]) -> Iterator[None]:
        try:
            yield from job
        except Exception:  # this is the only callback with the outcome
            self._client.answered(0, None, None)
            raise

    def pull(self, consumer: Consumer, timeout_ms: int, told: Callable[[], object]) -> None:
        """Ask for one message for a consumer whose prefetch is 0.

        Args:
            consumer: which one.
            timeout_ms: how long to wait for it; 0 is for ever, less is only for what is there.
            told: called when there is none by then.
        """
        if not consumer.prefetch:
            self._pulls.pull(consumer, timeout_ms, told)

    def pull_again(self, consumer: Consumer) -> None:
        """What came for the latest pull of a consumer is no answer to it: its client still waits for one."""
        self._pulls.pull_again(consumer)

    def prefetch_for(self, wanted: SubscriptionRequest) -> int:
        """How many messages a subscription may hold: what it asks for, or what its policy says."""
        return prefetch_for(self._broker, wanted)

    def change_prefetch(self, consumer: Consumer, prefetch: int) -> None:
        """A consumer may hold so many messages from now on; 0 is none but those that it asks for."""
        self._pulls.withdraw(consumer)
        consumer.change_prefetch(prefetch)

    def awake(self, consumer: Consumer) -> None:
        """A consumer can take more: its queues are asked at the end of this turn of the loop."""
        self._broker.awake(consumer)

    def browsed(self, consumer: Consumer) -> None:
        """A browser has shown everything."""
        if not self._client.is_closed:
            self._client.callbacks.browsed(consumer)

    def browsing_failed(self, consumer: Consumer, error: BaseException) -> None:
        """A browser cannot go on."""
        self._client.complete(None, error)

    def end(self) -> None:
        """Nothing reaches the client any more."""
        self.is_choked = True
        for consumer in list(self.by_key.values()):  # it may publish to itself, and go on now
            consumer.end()

    def disconnect(self, text: str, *, reason: str) -> None:
        """End its connection with an error: a consumer cannot go on."""
        self._client.disconnect(text, reason=reason)

    def renew_access(self) -> None:
        """The users have changed: what the client may not receive any more ends."""
        for key, consumer in list(self.by_key.items()):
            try:
                self.access.check_read(consumer.destination)
            except NotAuthorized as error:
                self._drop(key, consumer)
                self.access.denied(error)
                self._client.complete(None, error)
            else:
                self._broker.reconsider(consumer)

    # -- deliveries ------------------------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        """Send messages to the client. `Consumer.deliver` does this."""
        send, now_ms, took_s = self._deliver, self._broker.now_ms(), list[float]()
        if not consumer.is_auto:
            self._pending_acks.enter(consumer, deliveries)
        for delivery in deliveries:
            try:
                send(consumer, delivery)
            except Exception as error:  # noqa: BLE001  # whatever it is, it costs this message and not its consumer
                self._bury(consumer, delivery, error)
                continue
            if consumer.is_auto:
                self._unflushed.append(delivery)
            if delivery.message is not None and (came_ms := delivery.message.broker_in_time):
                took_s.append((now_ms - came_ms) / 1000)
            if delivery.lane is None:
                delivery.message = None
        self._broker.latencies.queue.add_all(took_s)

    def _bury(self, consumer: Consumer, delivery: Delivery, error: Exception) -> None:
        """A message that cannot be sent must not hold up those behind it: it goes, as if it had never been tried."""
        is_defect = not isinstance(error, JdbcStoreError)
        log.error(
            "message cannot be delivered, it is treated as a refused one destination=%s message_id=%s error=%r",
            consumer.destination,
            delivery.message_id,
            str(error),
            exc_info=error if is_defect else None,
        )
        self._pending_acks.strike(consumer, delivery)
        # Nobody is resumed by this: whoever delivers goes on by himself, and a thousand such messages would nest.
        consumer.credit += 1
        delivery.consumer = None
        if delivery.lane is not None:
            delivery.lane.queue.removal.cannot_deliver(delivery, error, self._client.callbacks.protocol)

    def acknowledge(
        self, consumer: Consumer, delivery: Delivery, request: object, transaction: str | None = None
    ) -> None:
        """The client is done with a delivery; in mode cumulative also with all that were sent to `consumer` before it.

        Outside of a transaction this is collected until `settle`; with a request it is settled at once.

        Raises:
            ProtocolError: there is no such transaction, or it is full.
        """
        if transaction is not None:
            among = self._transactions.named(transaction)
            consumer.withhold()  # nothing is sent for what is taken before the transaction has it, and may say the same
            try:
                among.acknowledge(consumer, self._pending_acks.take(consumer, delivery, among.room))
            finally:
                consumer.grant()
            self._client.complete(request)
            return
        self.acknowledged += self._pending_acks.take(consumer, delivery)
        if request is not None or len(self.acknowledged) >= ACKNOWLEDGED_MAX:
            self.settle(request)

    def covered(self, consumer: Consumer, first: Delivery | None, last: Delivery) -> list[Delivery]:
        """The pending deliveries of a consumer in mode range, from `first` (None: the oldest) up to `last`."""
        return self._pending_acks.covered(consumer, first, last)

    def acknowledge_all(
        self, consumer: Consumer, deliveries: list[Delivery], request: object, transaction: str | None = None
    ) -> None:
        """The client is done with just these deliveries of one consumer; else as `acknowledge`.

        Raises:
            ProtocolError: as `acknowledge`.
        """
        if transaction is not None:
            among = self._transactions.named(transaction)
            among.acknowledge(consumer, deliveries if len(deliveries) <= among.room else [])
            self._pending_acks.take_all(consumer, deliveries)
            self._client.complete(request)
            return
        if request is None and len(self.acknowledged) + len(deliveries) > ACKNOWLEDGED_MAX and self.acknowledged:
            self.settle()
        self._pending_acks.take_all(consumer, deliveries)
        self.acknowledged += deliveries
        if request is not None or len(self.acknowledged) >= ACKNOWLEDGED_MAX:
            self.settle(request)

    def settle(self, request: object = None) -> None:
        """Let go of what was acknowledged since the last time: in one write of each lane, and with one answer."""
        acknowledged, self.acknowledged = self.acknowledged, []
        answer = self._answer(self._client, request, len(acknowledged), self.restore)
        if len(acknowledged) <= ACKNOWLEDGED_MAX:
            _settle(acknowledged, answer)
        else:
            self._client.work(_settling(acknowledged, answer), request, lambda: None)

    def reject(self, consumer: Consumer, delivery: Delivery, request: object, cause: str | None = None) -> None:
        """The client refuses a delivery: it becomes a dead letter, which tells the `cause`.

        Raises:
            ProtocolError: it was only shown, by a browser.
        """
        self.reject_all(consumer, [delivery], request, cause)

    def reject_all(
        self, consumer: Consumer, deliveries: list[Delivery], request: object, cause: str | None = None
    ) -> None:
        """The client refuses these deliveries of one consumer; else as `reject`. The last of them answers the request.

        Raises:
            ProtocolError: as `reject`.
        """
        if consumer.is_browser:
            raise ProtocolError("A browser's message cannot be refused: it was only shown")
        self._pending_acks.settle(consumer, deliveries)
        self._client.work(self._rejecting(deliveries, request, cause), request, lambda: None)

    def _rejecting(self, deliveries: list[Delivery], request: object, cause: str | None) -> Iterator[None]:
        last = deliveries[-1]
        for delivery in deliveries:
            self._refuse(delivery, request if delivery is last else None, cause)
            yield

    def _refuse(self, delivery: Delivery, request: object, cause: str | None) -> None:
        delivery.cause = cause
        answer = self._answer(self._client, request, 1, self.restore)
        lane = delivery.lane
        if lane is None:
            answer([delivery], None)
        else:
            lane.queue.removal.refuse(delivery, answer)

    def restore(self, deliveries: Iterable[Delivery]) -> None:
        """Their acknowledgement failed or was rolled back: the client has them still, or another one that took part."""
        lost: list[Delivery] = []
        for delivery in deliveries:
            consumer = delivery.consumer
            if consumer is None or not consumer.client.has_still(consumer, delivery):
                lost.append(delivery)
        if lost:
            self._broker.slices.run(giving_back(lost))

    def has_still(self, consumer: Consumer, delivery: Delivery) -> bool:
        """As `jdbcstore.broker.delivery.Receiver`."""
        if self._client.is_closed or consumer.is_closed:
            return False
        self._pending_acks.put_back(consumer, delivery)
        return True

    # -- flow control ----------------------------------------------------------------------------------------------

    def unchoke(self) -> None:
        """Everything that was delivered has left, and there is room for more."""
        self.is_choked = False
        self.flushed()
        for consumer in list(self.by_key.values()):
            consumer.resume()

    def flushed(self) -> None:
        """Everything that was delivered has left: what went to subscriptions of mode auto is acknowledged."""
        if not self._unflushed:
            return
        flushed, self._unflushed = self._unflushed, []
        for lane, deliveries in by_lane(flushed):
            if lane is not None:
                lane.queue.removal.consumed(*deliveries)
                continue
            for delivery in deliveries:
                if delivery.consumer is not None:
                    delivery.consumer.release()

    def leaving(self) -> Iterator[None]:
        """End all subscriptions, each with what it has; a job."""
        consumers = list(self.by_key.values())
        self.by_key.clear()
        return chain.from_iterable(map(self._unsubscribing, consumers))

    def closing(self, returned: list[Delivery]) -> Iterator[None]:
        """The client is gone: give back what it had, in one go with `returned`; a job."""
        self._pulls.close()
        self._pending_acks.close()
        returned += [delivery for delivery in self._unflushed if delivery.lane is not None]
        self._unflushed.clear()
        consumers = list(self.by_key.values())
        self.by_key.clear()
        for consumer in consumers:
            if consumer.queues:  # what others have does not go back, a topic's message say
                returned += consumer.unacknowledged.values()
                consumer.unacknowledged = {}
        return giving_back(returned, chain.from_iterable(map(self._leaving, consumers)))


def _settle(deliveries: Iterable[Delivery], answer: DeliveryAnswer) -> None:
    for lane, of_lane in by_lane(deliveries):
        if lane is not None:
            lane.queue.removal.acknowledge(of_lane, answer)
        else:
            answer(of_lane, None)


def _settling(deliveries: list[Delivery], answer: DeliveryAnswer) -> Iterator[None]:
    for first in range(0, len(deliveries), ACKNOWLEDGED_MAX):
        _settle(deliveries[first : first + ACKNOWLEDGED_MAX], answer)
        yield


@subject.register
def _subject(consumers: ClientConsumers) -> str | None:
    return subject(consumers._client)
