"""The broker: all queues, topics and sessions over one store, on one event loop.

`Broker` is the shell's side (start, stop, where it listens) and the sessions' side (which queue, which topic, where
do dead letters go). It knows no SQL and no STOMP.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from jdbcstore.broker.addresses import parse_listeners
from jdbcstore.broker.blocking import BlockingCalls
from jdbcstore.broker.dead_letter import DeadLetters, dead_letter, expiry_cause
from jdbcstore.broker.delivery import Delivery
from jdbcstore.broker.destination_policy import DestinationPolicy, PolicyMap, RedeliveryPolicy, default_policy
from jdbcstore.broker.durable import DurableConsumer, Durables, SubscriptionStore, settlements
from jdbcstore.broker.expiry import ExpirySweep
from jdbcstore.broker.health import Health
from jdbcstore.broker.inbox import Inbox
from jdbcstore.broker.intake import Intake
from jdbcstore.broker.lane import Lane
from jdbcstore.broker.life import Life, State
from jdbcstore.broker.mastership import Mastership
from jdbcstore.broker.memory import Memory
from jdbcstore.broker.options import BrokerOptions, parse_heart_beat
from jdbcstore.broker.prepared import Prepared
from jdbcstore.broker.producers import Producers
from jdbcstore.broker.publications import Publications
from jdbcstore.broker.queue import Answer, DeliveryAnswer, Queue
from jdbcstore.broker.reader import Reader
from jdbcstore.broker.realm import Realm
from jdbcstore.broker.redeliveries import Redeliveries
from jdbcstore.broker.scheduler import Scheduler
from jdbcstore.broker.security.authentication import Authentication
from jdbcstore.broker.security.authorization import Authorization, AuthorizationMap
from jdbcstore.broker.security.given import authentication_of, warn_of_strangers
from jdbcstore.broker.slices import SLICE_S, Slices
from jdbcstore.broker.spool import Spool
from jdbcstore.broker.tls import ServerTls, TlsOptions
from jdbcstore.broker.topic import Topic, TopicConsumer
from jdbcstore.broker.virtual_topics import VirtualTopics
from jdbcstore.broker.watchdog import Watchdog
from jdbcstore.broker.wildcards import Wildcards
from jdbcstore.destination import Destination
from jdbcstore.destination import Queue as QueueName
from jdbcstore.destination import Topic as TopicName
from jdbcstore.errors import (
    ConfigurationError,
    JdbcStoreError,
    LockError,
    OutcomeUnknown,
    ProtocolError,
    StoreReadOnly,
    StoreUnavailable,
    may_pass,
)
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import (
    JobChange,
    MessageStore,
    PersistenceAdapter,
    SupportsLocking,
    SupportsTopics,
    TakenIn,
    TopicMessageStore,
)
from jdbcstore.store.lease import boot_time_ns
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.subscription import SubscriptionKey

if TYPE_CHECKING:
    from jdbcstore.broker.consumer import Consumer
    from jdbcstore.broker.session import Session

__all__ = ["Broker"]

#: How often destinations that nobody uses are looked for when there are too many.
_TIDY_S: Final = 1.0

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Who has taken note of a message that is being stored, and what of.
_Noted: TypeAlias = tuple[Lane | Topic, Any]


class Broker:
    """A message broker over a store. Use `serve` to run one; inside an event loop: ``await start()``, ``await stop()``.

    Args:
        adapter: the store; started by `start` and stopped by `stop`.
        options: limits, address, users.
        spool: makes the store for non-persistent messages that do not fit into memory. It is started at the first
            need and stopped with the broker; what is in it is of no use afterwards. Without one they stay in memory,
            as many as there are.
        policies: policies for destinations; a destination without one has what `options` say.
        redelivery_policies: how often messages of a destination are delivered again, for ever without one.
        tls: for the listeners of `BrokerOptions.bind` that are ``stomp+ssl://``.
        authentication: who may log in; None if the options say that.
        authorization: who may do what; None lets everybody who has logged in do everything.

    Raises:
        ConfigurationError: a listener needs TLS, and a certificate or key cannot be used; or there is authorisation
            without users.
    """

    def __init__(
        self,
        adapter: PersistenceAdapter,
        options: BrokerOptions | None = None,
        spool: Callable[[], PersistenceAdapter] = MemoryPersistenceAdapter,
        policies: Iterable[DestinationPolicy] = (),
        redelivery_policies: Iterable[RedeliveryPolicy] = (),
        tls: TlsOptions | None = None,
        authentication: Authentication | None = None,
        authorization: AuthorizationMap | None = None,
    ) -> None:
        self.adapter = adapter
        self.options = options or BrokerOptions()
        needs_tls = any(listener.is_tls for listener in parse_listeners(self.options.bind))
        #: The certificate and what belongs to it; None if no listener needs one.
        self.tls = ServerTls(tls or TlsOptions()) if needs_tls else None
        self.authentication = authentication or authentication_of(self.options)
        if authorization is not None and self.authentication is None:
            raise ConfigurationError("authorisation needs users: without them nobody could do anything")
        self.authorization = None if authorization is None else Authorization(authorization, self._is_there)
        policies = tuple(policies)
        self._policies = PolicyMap(policies, default_policy(self.options))
        self._redelivery_policies = PolicyMap(redelivery_policies, RedeliveryPolicy())
        self._dead_letters = DeadLetters(
            QueueName(self.options.dead_letter_queue), [policy.dead_letter_strategy for policy in policies]
        )
        self.memory = Memory(self.options.memory_bytes_max)
        self.producers = Producers(self)
        self.redeliveries = Redeliveries(self)
        self.scheduler = Scheduler(self)
        self.intake = Intake(self)
        self.expiry = ExpirySweep(self)
        self.durables = Durables(self)
        self.virtual_topics = VirtualTopics(is_on=self.options.use_virtual_topics)
        self.queues: dict[Destination, Queue] = {}
        self.topics: dict[Destination, Topic] = {}
        self.sessions: set[Session] = set()
        #: What a client is taken to have said that says nothing about heart-beats.
        self.default_heart_beat = parse_heart_beat(self.options.default_heart_beat)
        #: Sessions by the client id that they asked for; no two may have the same.
        self.client_ids: dict[str, Session] = {}
        self.is_running = False
        #: Whether there are as many queues and topics as clients may have.
        self.is_crowded = False
        self._tidied_s = 0.0
        self.loop: asyncio.AbstractEventLoop
        self.inbox: Inbox
        #: What takes long, for one client or for all.
        self.slices: Slices
        #: What is published after its commit.
        self._publications: Publications
        #: Tells the log when something takes long all the same.
        self.watchdog: Watchdog
        self._spool = Spool(spool)
        #: Where it is in its life.
        self.life = Life()
        #: `boot_time_ns` from when on it may not act as master any more; the lock keeper's thread moves it on.
        self.trusted_until_ns = 0
        self._mastership: Mastership | None = None
        self._run: asyncio.Task[None] | None = None
        self._health: Health | None = None
        self._realm: Realm | None = None
        self._reader: Reader
        #: Subscriptions that cover several destinations, and have to hear of new ones.
        self._wildcards: Wildcards[Consumer] = Wildcards()
        self._awake: deque[Queue | Consumer] = deque()
        self._talking: deque[Session] = deque()
        self._turn_scheduled = self._is_sweeping = False
        self._temporary: set[Destination] = set()
        self._connections = self._ack_id_stems = 0
        #: What the ids of connections begin with.
        self.id_stem = ""

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin, and return as soon as it is decided: clients may connect, or another broker is master.

        A standby goes on by itself; `life` tells where it is, ``await life.reached(State.MASTER)`` waits.

        Raises:
            StoreError, ConfigurationError: the store cannot be opened.
            ListenError: an address cannot be listened on. The store is closed again.
            LockHeld: another broker is master and the store's ``fail_if_locked`` is set.
        """
        warn_of_strangers(self.options.bind, self.authentication)
        self.loop = asyncio.get_running_loop()
        self.inbox = Inbox(self.loop, self.turn, self.store_failed)
        self._reader = Reader(self.loop, lambda: self.is_running)
        self.slices = Slices(self.loop)
        self._publications = Publications(self.slices, partial(self._publish, answer=_log_failure))
        calls = BlockingCalls()
        locker = self.adapter.locker() if isinstance(self.adapter, SupportsLocking) else None
        self._realm = Realm(self, calls)
        self._mastership = Mastership(self, self._realm, locker, calls)
        if self.options.health_bind:
            self._health = Health(self.options.health_bind, lambda: self.life.status)
            await self._health.start()
        if self.authentication is not None:
            self.authentication.start(self._users_changed)
        self.watchdog = Watchdog(self.loop, self.options.slow_callback_ms)
        self.watchdog.start()
        self._run = asyncio.create_task(self._live(self._mastership))
        decided = asyncio.create_task(self.life.reached(State.MASTER, State.STANDBY))
        await asyncio.wait((self._run, decided), return_when=asyncio.FIRST_COMPLETED)
        decided.cancel()
        if self._run.done():
            await self._run

    async def _live(self, mastership: Mastership) -> None:
        try:
            await mastership.run()
        finally:
            if self.authentication is not None:
                self.authentication.stop()
            if self._health is not None:
                await self._health.stop()
            self.watchdog.stop()
            self._reader.shutdown()
            self.drop_spool()
            log.info("broker stopped name=%s", self.options.broker_name)

    async def ended(self) -> None:
        """Wait until it has ended, by `stop` or by itself. Raises what ended it by itself, as `start`."""
        if self._run is not None:
            await asyncio.shield(self._run)

    async def stop(self) -> None:
        """Come to a clean end: everything that was taken is answered and stored, and the next master may begin."""
        if self._mastership is not None:
            self._mastership.stop()
        if self._run is not None:
            await asyncio.wait((self._run,))

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens first: host and port. Raises as `addresses`."""
        return self.addresses[0]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens: host and port, in the order of `BrokerOptions.bind`.

        Raises:
            RuntimeError: it does not listen, because it is not master.
        """
        if self._realm is None or self._realm.server is None:
            raise RuntimeError(f"the broker does not listen: it is {self.life.state}")
        return self._realm.server.addresses

    def reload(self) -> None:
        """Read files again that clients are checked by, for those who connect from now on; SIGHUP does this."""
        if self.tls is not None:
            asyncio.get_running_loop().run_in_executor(None, self.tls.reload)

    @property
    def health_address(self) -> tuple[str, int]:
        """Where the health endpoint listens: host and port. Raises RuntimeError when there is none."""
        if self._health is None:
            raise RuntimeError("the broker has no health endpoint: set health_bind")
        return self._health.address

    def store_failed(self, error: BaseException) -> None:
        """A write failed. Without a store to rely on nobody is served, unless the options say so."""
        gone = isinstance(error, StoreUnavailable | StoreReadOnly | OutcomeUnknown)
        if self._mastership is not None and (
            isinstance(error, LockError) or (gone and self.options.on_store_failure != "ignore")
        ):
            self._mastership.end(f"the store failed: {error}", error)

    def distrust(self) -> None:
        """The trust in the lease has run out."""
        if self._mastership is not None:
            self._mastership.end("the lease was not renewed in time")

    def next_connection_id(self) -> str:
        """A new id in ActiveMQ's form."""
        self._connections += 1
        return f"{self.id_stem}-1:{self._connections}"

    def next_ack_id_stem(self) -> str:
        """What the ids that a new connection's ACK frames will use begin with; nothing in it needs to be escaped."""
        self._ack_id_stems += 1
        return f"{self.id_stem.replace(':', '-')}-{self._ack_id_stems + 1}-"

    def forget(self, session: Session) -> None:
        """A client is gone."""
        self.sessions.discard(session)
        if session.client_id is not None and self.client_ids.get(session.client_id) is session:
            del self.client_ids[session.client_id]

    @staticmethod
    def now_ms() -> int:
        """Epoch milliseconds."""
        return now_ms()

    @property
    def spool(self) -> PersistenceAdapter:
        """The store for what does not have to survive; opened at the first use. Raises `StoreError` if it cannot be."""
        return self._spool.store

    @property
    def is_spool_opening(self) -> bool:
        """Whether the spool is being opened, in a thread, which takes some tenths of a second. Who asks first begins
        it; who does not want to wait asks before the spool is needed."""
        return self.spool_opening() is not None

    def spool_opening(self) -> asyncio.Future[PersistenceAdapter] | None:
        """What is done when the spool was opened, or could not be; None if nobody opens it now, and nobody has to."""
        return self._spool.opening(self.read) if self.is_running else None

    def drop_spool(self) -> None:
        """What is in the spool is of no use any more."""
        self._spool.drop()

    def forget_in_spool(self, queue: QueueName) -> None:
        """There is nothing of a queue in the spool any more."""
        self._spool.forget(queue)

    def read(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Call a function that blocks in a thread."""
        return self._reader.read(function, *args)

    def read_patiently(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """The same for a client that waits: what passes is waited through."""
        return self._reader.read_patiently(function, *args)

    # -- turns of the loop ---------------------------------------------------------------------------------------

    def awake(self, what: Queue | Consumer) -> None:
        """This queue has something to dispatch, or this consumer can take more."""
        self._awake.append(what)
        if not self._turn_scheduled:
            self._schedule_turn()

    def talking(self, session: Session) -> None:
        """This session has something to write."""
        self._talking.append(session)
        if not self._turn_scheduled:
            self._schedule_turn()

    def _schedule_turn(self) -> None:
        self._turn_scheduled = True
        self.loop.call_soon(self.turn)

    def turn(self) -> None:
        """Dispatch, then write: once per turn of the loop, whatever the number of frames that arrived in it.

        What takes longer than a slice goes on in the next turn.
        """
        self._turn_scheduled = False
        if self.memory.has_waiting:
            self.memory.admit()
        if self._awake and self.is_running and boot_time_ns() >= self.trusted_until_ns:
            self.distrust()
        awake, talking = self._awake, self._talking
        deadline_s = perf_counter() + SLICE_S
        is_in_time = True
        while awake or talking:
            for _ in range(len(awake)):
                what = awake.popleft()
                try:
                    is_in_time = what.dispatch() and is_in_time
                except Exception:
                    log.exception("defect in dispatching %r", what)  # the other queues go on
                if not is_in_time or perf_counter() > deadline_s:
                    is_in_time = False
                    break
            deadline_s += SLICE_S
            for _ in range(len(talking)):
                _write(talking.popleft())
                if perf_counter() > deadline_s:
                    is_in_time = False
                    break
            if not is_in_time and (awake or talking) and not self._turn_scheduled:
                self._schedule_turn()
            if self._turn_scheduled:
                return

    def say_everything(self) -> None:
        """Write all there is to say: there may be no other turn."""
        while self._talking:
            _write(self._talking.popleft())

    # -- destinations --------------------------------------------------------------------------------------------

    def queue_store(self, adapter: PersistenceAdapter, destination: Destination) -> MessageStore:
        """The store of a queue in an adapter, in the order that its policy asks for."""
        prioritized = self.policy_for(destination).prioritized_messages
        return adapter.queue_message_store(QueueName.decoded(destination.physical_name), prioritized=prioritized)

    def topic_store(self, destination: Destination) -> TopicMessageStore | None:
        """The store of a topic in the order that its policy asks for; None if the broker's store keeps no topics."""
        if not isinstance(self.adapter, SupportsTopics):
            return None
        prioritized = self.policy_for(destination).prioritized_messages
        return self.adapter.topic_message_store(TopicName.decoded(destination.physical_name), prioritized=prioritized)

    def policy_for(self, destination: Destination) -> DestinationPolicy:
        """The policy of a destination; of a wildcard that of a pattern that covers all of it."""
        return self._policies.find(destination)

    @property
    def expiry_periods_ms(self) -> set[int]:
        """How often expired messages are looked for, by one policy or another."""
        return {policy.expire_messages_period_ms for policy in self._policies.all()}

    def redelivery_policy_for(self, destination: Destination) -> RedeliveryPolicy:
        """How often messages of this destination are delivered again, and when."""
        return self._redelivery_policies.find(destination)

    def queue(self, destination: Destination) -> Queue:
        """The queue of this name, made at the first use."""
        queue = self.queues.get(destination)
        if queue is None:
            queue = self.add_queue(destination)
            if self.virtual_topics.feeds(destination):
                self.queue_store(self.adapter, destination)  # remembers the queue from now on
            joining = self._wildcards.covering(destination)
            if joining:
                if not destination.is_temporary:
                    queue.load()  # what is wrong with its store is told to who needs it, before anybody takes part
                self.slices.run(self._joining(queue, joining))
        return queue

    def _joining(self, queue: Queue, consumers: Iterable[Consumer]) -> Iterator[None]:
        """Let subscribers to wildcards take part in a new queue; a job."""
        for consumer in consumers:
            if self.queues.get(queue.destination) is not queue:
                return
            if not consumer.is_closed:
                self._join_queue(consumer, queue)
            yield

    def add_queue(self, destination: Destination) -> Queue:
        """A queue of this name that is not there yet."""
        queue = self.queues[destination] = Queue(self, destination)
        self._count_destinations()
        if self.authorization is not None:
            self.authorization.appeared((destination,))
        self.virtual_topics.appeared(destination)
        return queue

    def topic(self, destination: Destination) -> Topic:
        """The topic of this name, made at the first use."""
        topic = self.topics.get(destination)
        if topic is None:
            topic = self.topics[destination] = Topic(self, destination)
            self._count_destinations()
            if self.authorization is not None:
                self.authorization.appeared((destination,))
            if not destination.is_temporary:
                self.durables.appeared(topic)
            for consumer in self._wildcards.covering(destination):
                if isinstance(consumer, TopicConsumer):
                    _join_topic(consumer, topic)
        return topic

    def check_room_for(self, destination: Destination) -> None:
        """A client wants to use a destination, which is made if it is not there.

        Raises:
            ProtocolError: there are as many as there may be, and all of them are in use.
        """
        if not self.is_crowded or self._is_there(destination) or destination.is_wildcard:
            return
        now_s = self.loop.time()
        if now_s - self._tidied_s > _TIDY_S:
            self._tidied_s = now_s
            self.slices.run(self._forgetting_idle(-1.0))
        if self.is_crowded:
            raise ProtocolError(
                f"There is no room for {destination}: destinations_max is {self.options.destinations_max}, and all"
                " queues and topics are in use"
            )

    def _count_destinations(self) -> None:
        self.is_crowded = len(self.queues) + len(self.topics) - len(self._temporary) >= self.options.destinations_max

    def _is_there(self, destination: Destination) -> bool:
        return destination in self.queues or destination in self.topics

    def _users_changed(self) -> None:
        for session in list(self.sessions):
            session.renew_access()

    def subscribing(self, consumer: Consumer) -> Iterator[None]:
        """Let a consumer take part in what it subscribed to, now and when more of it appears; a job."""
        for element in consumer.destination.elements():
            if element.is_wildcard:
                self._wildcards.add(element, consumer)
                known: Iterable[Destination] = self.queues if element.is_queue else self.topics
                for name in list(known):
                    if _covers(element, name):
                        self._join(consumer, name)
                    yield
                    if consumer.is_closed:
                        return
            else:
                self._join(consumer, element)
                yield

    def _join(self, consumer: Consumer, name: Destination) -> None:
        if isinstance(consumer, TopicConsumer):
            _join_topic(consumer, self.topic(name))
        else:
            self._join_queue(consumer, self.queue(name))

    def unsubscribing(self, consumer: Consumer) -> Iterator[None]:
        """Let a consumer leave, at once; what it has goes back, which is the job."""
        for element in consumer.destination.elements():
            if element.is_wildcard:
                self._wildcards.discard(element, consumer)
        return consumer.closing()

    def reconsider(self, consumer: Consumer) -> None:
        """Let a subscriber to a wildcard take part in what its client may read now, and in nothing else."""
        may_receive = consumer.session.access.may_receive
        for queue in [queue for queue in consumer.queues if not may_receive(queue.destination)]:
            del consumer.queues[queue]
            if queue in consumer.parked:
                consumer.parked.remove(queue)
            queue.remove_consumer(consumer)
        if isinstance(consumer, TopicConsumer):
            for topic in [topic for topic in consumer.topics if not may_receive(topic.destination)]:
                del consumer.topics[topic]
                topic.consumers.pop(consumer, None)
        if isinstance(consumer, DurableConsumer):  # takes up topics when it subscribes
            return
        if any(element.is_wildcard for element in consumer.destination.elements()):
            self.slices.run(self.subscribing(consumer))

    def covered(self, element: Destination) -> list[Destination]:
        """The destinations that a name means at the moment: itself, or those that a wildcard matches."""
        if not element.is_wildcard:
            return [element]
        known: Iterable[Destination] = self.queues if element.is_queue else self.topics
        return [name for name in known if _covers(element, name)]

    @staticmethod
    def _join_queue(consumer: Consumer, queue: Queue) -> None:
        if (
            queue.destination.is_queue
            and queue not in consumer.queues
            and not isinstance(consumer, TopicConsumer)
            and consumer.session.access.may_receive(queue.destination)
        ):
            consumer.queues[queue] = None
            queue.add_consumer(consumer)

    def add_temporary(self, destination: Destination) -> None:
        """A connection has a new temporary destination."""
        self._temporary.add(destination)

    def knows_temporary(self, destination: Destination) -> bool:
        """Whether a temporary destination's connection is still there."""
        return destination in self._temporary

    def remove_temporary(self, destination: Destination) -> None:
        """Forget a temporary destination with everything in it."""
        self._temporary.discard(destination)
        queue = self.queues.pop(destination, None)
        if queue is not None:
            queue.delete()
        self.topics.pop(destination, None)
        self._count_destinations()

    # -- several at once -----------------------------------------------------------------------------------------

    def publish(self, message: Message, publisher: Session | None, answer: Answer) -> None:
        """Give a message to its queue or topic, or keep it for later, and answer when it is safe there.

        Its copies go to the queues of a virtual topic.
        """
        if self.scheduler.takes(message):
            self.commit([message], [], publisher, answer)
            return
        messages = self.virtual_topics.with_copies(message)
        if len(messages) > 1 and message.persistent:
            self._commit(messages, [], publisher, answer)
            return
        if len(messages) > 1:
            self._publications.publish(messages[1:], publisher, partial(self._publish, message, publisher, answer))
        else:
            self._publish(message, publisher, answer)

    def _publish(self, message: Message, publisher: Session | None, answer: Answer) -> None:
        """Give a message to its queue or topic. What these refuse is answered, never raised: who asks may be gone."""
        destination = message.destination
        if destination is None:
            raise ValueError("a message needs a destination before it can be published")
        try:
            if destination.is_queue:
                self.queue(destination).add(message, answer)
            else:
                self.topic(destination).publish(message, publisher, answer)
        except JdbcStoreError as error:
            answer(error)

    def commit(
        self,
        sends: Sequence[Message],
        acknowledged: Sequence[Delivery],
        publisher: Session | None,
        answer: Answer,
        producers: Mapping[ProducerId, int] | None = None,
        follows: Sequence[Completion[Any]] = (),
        jobs: Sequence[JobChange] = (),
        taken: TakenIn | None = None,
        prepared: Prepared | None = None,
    ) -> Completion[None] | None:
        """Publish and settle several messages: all or nothing, as far as they are in the store.

        What is not in the store (topics, non-persistent messages) follows when the store has committed. What is to be
        sent later is kept by the scheduler instead.

        Args:
            sends, acknowledged: what to publish and to settle.
            publisher: whose they are; None if they are the broker's own.
            answer: told how it went.
            producers, follows, jobs, taken: as `PersistenceAdapter.commit_together`.
            prepared: what `preparing` did for the messages.

        Returns:
            The store's completion; None if it refused the order, then `answer` was told.
        """
        if any(map(self.scheduler.takes, sends)):
            try:
                jobs = [*jobs, *(self.scheduler.job_of(message) for message in sends if self.scheduler.takes(message))]
            except JdbcStoreError as error:
                answer(error)
                return None
            sends = [message for message in sends if not self.scheduler.takes(message)]
        messages = [message for single in sends for message in self.virtual_topics.with_copies(single)]
        return self._commit(
            messages, acknowledged, publisher, answer, producers, follows, jobs, taken=taken, prepared=prepared
        )

    def preparing(self, sends: Sequence[Message], prepared: Prepared) -> Iterator[None]:
        """Do ahead what a `commit` of many messages costs, as far as it changes nothing; a job."""
        for message in sends:
            try:
                if not self.scheduler.takes(message) and (target := self._keeper(message)) is not None:
                    prepared.prepare(_store_of(_note_taker(target, message)), message)
            except Exception:  # noqa: BLE001  # it goes wrong again in the commit, which answers
                return
            yield

    def _commit(
        self,
        sends: Sequence[Message],
        acknowledged: Sequence[Delivery],
        publisher: Session | None,
        answer: Answer,
        producers: Mapping[ProducerId, int] | None = None,
        follows: Sequence[Completion[Any]] = (),
        jobs: Sequence[JobChange] = (),
        finished: Sequence[tuple[TopicMessageStore, SubscriptionKey, MessageId]] = (),
        taken: TakenIn | None = None,
        prepared: Prepared | None = None,
    ) -> Completion[None] | None:
        removes, done_with = settlements(acknowledged)
        kept: list[tuple[Lane | Topic, Message]] = []
        others: list[Message] = []
        try:
            for message in sends:
                target = self._keeper(message)
                if target is None:
                    others.append(message)
                else:
                    kept.append((_note_taker(target, message), message))
            adds = [(_store_of(taker), message) for taker, message in kept]
            done_with = [*done_with, *finished]
            made = [] if prepared is None else [prepared.of(store, message) for store, message in adds]
            completion = self.adapter.commit_together(adds, removes, producers, follows, done_with, jobs, taken, made)
        except JdbcStoreError as error:
            answer(error)
            return None
        written = [_take_note(taker, message, publisher) for taker, message in kept]

        def take_effect(error: BaseException | None) -> None:
            for noted in written:
                _stored(noted, error)
            if error is None:
                self.scheduler.changed(jobs)
                for delivery in acknowledged:
                    if delivery.lane is not None:
                        queue = delivery.lane.queue
                        queue.settled([delivery]) if delivery.lane.is_durable else queue.discard(delivery)

        def done(_: object, error: BaseException | None) -> None:
            try:
                take_effect(error)
            finally:
                if others and error is None:
                    self._publications.publish(others, publisher, partial(answer, None))
                else:
                    answer(error)

        self.inbox.expect(completion, done, None)
        return completion

    def _keeper(self, message: Message) -> Queue | Topic | None:
        """Who has the broker's store keep a message; None if it does not have to be kept."""
        destination = message.destination
        if not message.persistent or destination is None or destination.is_temporary:
            return None
        if destination.is_queue:
            return self.queue(destination)
        topic = self.topic(destination)
        return topic if topic.keeps(message) else None

    # -- dead letters --------------------------------------------------------------------------------------------

    def dead_letter_of(
        self, message: Message, source: Destination, cause: str | None, subscription: SubscriptionKey | None = None
    ) -> Message | None:
        """A message as it goes to the dead letters; None if it is to be dropped.

        Args:
            message: expired, refused, or delivered too often.
            source: the queue or topic that it is in.
            cause: why, if it has not expired; None for a refused one.
            subscription: the durable subscription that is done with it, if it is one.
        """
        strategy, now_ms = self.policy_for(source).dead_letter_strategy, self.now_ms()
        target = self._dead_letters.target(strategy, message, source, now_ms, subscription)
        if target is None:
            return None
        cause = expiry_cause(message) if message.expired(now_ms) else cause
        expiration = now_ms + strategy.expiration_ms if strategy.expiration_ms else 0
        return dead_letter(message, target, cause=cause, expiration=expiration)

    def is_for_dead_letters(self, destination: Destination) -> bool:
        """Whether dead letters go there."""
        return self._dead_letters.holds(destination)

    def dead_letter(self, delivery: Delivery, answer: DeliveryAnswer) -> None:
        """Move a delivered message to the dead letters, in one commit, or drop it if its policy says so.

        If the store refuses it there for good, it goes to the shared dead-letter queue as it is. After an error it is
        where it was.
        """
        message, lane = delivery.message, delivery.lane
        if message is None or lane is None:
            raise ValueError(f"{delivery!r} holds no message to move")
        source = lane.queue.destination
        subscription = lane.store.key if lane.is_durable and isinstance(lane.store, SubscriptionStore) else None
        moved = self.dead_letter_of(message, source, delivery.cause, subscription)
        if moved is None:
            if not message.expired(self.now_ms()):
                log.warning("refused message dropped message_id=%s source=%s", message.message_id, lane.queue)
            lane.queue.acknowledge([delivery], answer)
            return

        def moved_or_not(error: BaseException | None) -> None:
            if error is None or may_pass(error):
                answer([delivery], error)
                return
            log.warning(
                "dead letter refused, it is kept as it is message_id=%s error=%r", message.message_id, str(error)
            )
            shared = self._dead_letters.shared_queue(self.policy_for(source).dead_letter_strategy)
            as_it_is = dead_letter(message, shared, is_told=False)
            self._commit([as_it_is], [delivery], None, lambda error: answer([delivery], error))

        self._commit([moved], [delivery], None, moved_or_not)

    def move(
        self, dead: Sequence[Message], acknowledged: Sequence[tuple[TopicMessageStore, SubscriptionKey, MessageId]]
    ) -> None:
        """Let go of what durable subscriptions have that nobody uses, and keep the dead letters, in one commit. If the
        store refuses, it is done the next time."""
        self._commit(dead, [], None, _log_kept, finished=acknowledged)

    def expiring_in_memory(self, periods_ms: Set[int]) -> Iterator[None]:
        """Let expired messages go that are not in the broker's store, of queues with one of these periods; a job."""
        for queue in list(self.queues.values()):
            if queue.policy.expire_messages_period_ms in periods_ms:
                queue.expire_in_memory(self.now_ms())
            yield

    def dead_letter_arrival(self, message: Message, answer: Answer) -> None:
        """Keep a message as a dead letter that had expired when it arrived, or drop it if its policy says so."""
        source = message.destination
        moved = None if source is None else self.dead_letter_of(message, source, None)
        if moved is None:
            answer(None)
        else:
            self.publish(moved, None, answer)

    # -- housekeeping --------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Drop what nobody uses; called now and then."""
        if not self._is_sweeping:
            self._is_sweeping = True
            self.slices.run(self._sweep(), self._swept)

    def _swept(self) -> None:
        self._is_sweeping = False

    def _sweep(self) -> Iterator[None]:
        self._spool.tend(lambda: chain(self.queues.values(), self.durables.queues()))
        yield from self.producers.sweeping()
        yield from self._forgetting_idle(self.options.idle_queue_timeout_s)

    def _forgetting_idle(self, timeout_s: float) -> Iterator[None]:
        now_s = self.loop.time()
        for name, queue in list(self.queues.items()):
            if not queue.idle:
                queue.last_used_s = now_s
            elif (
                now_s - queue.last_used_s > timeout_s
                and not name.is_temporary
                and not self.virtual_topics.feeds(name)
                and self.queues.get(name) is queue
            ):
                del self.queues[name]
                self._let_go_of_store(name)
                self._count_destinations()  # who wants room has it with the first, not when all have been looked at
            yield
        for name, topic in list(self.topics.items()):
            if topic.is_used:
                topic.last_used_s = now_s
            elif now_s - topic.last_used_s > timeout_s and not name.is_temporary and self.topics.get(name) is topic:
                del self.topics[name]
                topic.let_go()
                self._count_destinations()
            yield

    def _let_go_of_store(self, name: Destination) -> None:
        queue = QueueName.decoded(name.physical_name)
        try:
            self.adapter.remove_queue_message_store(queue)
            self._spool.forget(queue)
        except JdbcStoreError as error:
            log.warning("store of an idle queue could not be closed queue=%s error=%r", name, str(error))


def _note_taker(target: Queue | Topic, message: Message) -> Lane | Topic:
    """Who takes note of a message that is stored."""
    return target.persistent(message) if isinstance(target, Queue) else target


def _store_of(taker: Lane | Topic) -> MessageStore:
    return taker.open_store() if isinstance(taker, Topic) else taker.store


def _take_note(taker: Lane | Topic, message: Message, publisher: Session | None) -> _Noted:
    """A write has just been submitted; returns what `_stored` has to be told when the store has answered."""
    if isinstance(taker, Topic):
        return taker, taker.admit(message, publisher)
    return taker, taker.admit(message, visible=False)


def _stored(noted: _Noted, error: BaseException | None) -> None:
    taker, entry = noted
    if isinstance(taker, Topic):
        taker.admitted(entry, error)
    else:
        taker.added(entry, error)
        taker.queue.enqueued += error is None


def _log_kept(error: BaseException | None) -> None:
    if error is not None:
        log.warning("expired messages could not be removed error=%r", str(error))


def _log_failure(error: BaseException | None) -> None:
    if error is not None:
        log.error("a non-persistent message of a committed transaction was lost error=%r", str(error))


def _write(session: Session) -> None:
    try:
        session.write()
    except Exception:
        log.exception("defect in writing to %r", session)  # the other clients go on


def _covers(wildcard: Destination, name: Destination) -> bool:
    return wildcard.matches(name) and not name.is_wildcard and not name.is_composite


def _join_topic(consumer: TopicConsumer, topic: Topic) -> None:
    if topic not in consumer.topics and consumer.session.access.may_receive(topic.destination):
        consumer.topics[topic] = None
        topic.consumers[consumer] = None


def now_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000
