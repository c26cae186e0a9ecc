"""The broker: all queues, topics and clients over one store, on one event loop.

`Broker` is the shell's side (start, stop, where it listens) and the clients' side (which queue, which topic, where
do dead letters go). It knows no SQL and no protocol: whoever brings clients uses `jdbcstore.broker.client`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Set
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from jdbcstore.addresses import client_url, parse_listeners
from jdbcstore.broker.advisories import Advisories
from jdbcstore.broker.blocking_calls import BlockingCalls
from jdbcstore.broker.completion_bridge import CompletionBridge
from jdbcstore.broker.dead_letter import DeadLetters
from jdbcstore.broker.delivery import Answer
from jdbcstore.broker.destination_policy import DestinationPolicy, PolicyMap, RedeliveryPolicy, default_policy
from jdbcstore.broker.durable import Durables
from jdbcstore.broker.event_log import EventLog, LoggedAdvisories
from jdbcstore.broker.expiry import ExpirySweep
from jdbcstore.broker.gate import Gate
from jdbcstore.broker.health import Health
from jdbcstore.broker.in_doubt import InDoubt
from jdbcstore.broker.intake import Intake
from jdbcstore.broker.latencies import Latencies
from jdbcstore.broker.lifecycle import Lifecycle, State
from jdbcstore.broker.master_service import MasterService
from jdbcstore.broker.mastership import Mastership
from jdbcstore.broker.memberships import Memberships
from jdbcstore.broker.memory import Memory
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.pauses import PAUSES, Pauses
from jdbcstore.broker.producers import Producers
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.reader import Reader
from jdbcstore.broker.redeliveries import Redeliveries
from jdbcstore.broker.router import Router
from jdbcstore.broker.scheduler import Scheduler
from jdbcstore.broker.security.authentication import Authentication
from jdbcstore.broker.security.authorization import Authorization, AuthorizationMap
from jdbcstore.broker.security.given import authentication_of
from jdbcstore.broker.server import NoServer, Server
from jdbcstore.broker.slices import Slices
from jdbcstore.broker.spool import Spool
from jdbcstore.broker.statistics import Statistics
from jdbcstore.broker.takeover import Contender
from jdbcstore.broker.topic import Topic
from jdbcstore.broker.tracing import Tracing
from jdbcstore.broker.turns import Turns
from jdbcstore.broker.virtual_topics import VirtualTopics
from jdbcstore.broker.watchdog import Watchdog
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
)
from jdbcstore.store.contract import (
    MessageStore,
    PersistenceAdapter,
    SupportsLocking,
    SupportsTopics,
    TopicMessageStore,
)
from jdbcstore.store.memory import MemoryPersistenceAdapter

if TYPE_CHECKING:
    from jdbcstore.broker.client import Client

__all__ = ["Broker", "Companion"]

#: How often destinations that nobody uses are looked for when there are too many.
_TIDY_S: Final = 1.0

log = logging.getLogger(__name__)

T = TypeVar("T")


class Companion(Protocol):
    """Something that runs beside a broker, in its event loop."""

    async def start(self) -> None:
        """Begin. Raises JdbcStoreError if it cannot; the broker does not start then."""

    async def stop(self) -> None:
        """Come to an end."""


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
        authentication: who may log in; None if the options say that.
        authorization: who may do what; None lets everybody who has logged in do everything.

    Raises:
        ConfigurationError: there is authorisation without users.
    """

    def __init__(
        self,
        adapter: PersistenceAdapter,
        options: BrokerOptions | None = None,
        spool: Callable[[], PersistenceAdapter] = MemoryPersistenceAdapter,
        policies: Iterable[DestinationPolicy] = (),
        redelivery_policies: Iterable[RedeliveryPolicy] = (),
        authentication: Authentication | None = None,
        authorization: AuthorizationMap | None = None,
    ) -> None:
        self.adapter = adapter
        self.options = options or BrokerOptions()
        self.authentication = authentication or authentication_of(self.options)
        if authorization is not None and self.authentication is None:
            raise ConfigurationError("authorisation needs users: set users or users_file")
        self.authorization = None if authorization is None else Authorization(authorization, self._is_there)
        policies = tuple(policies)
        self._policies = PolicyMap(policies, default_policy(self.options))
        self._redelivery_policies = PolicyMap(redelivery_policies, RedeliveryPolicy())
        dead_letters = DeadLetters(
            QueueName(self.options.dead_letter_queue), [policy.dead_letter_strategy for policy in policies]
        )
        self.memory = Memory(self.options.memory_bytes_max)
        self.producers = Producers(self)
        self.redeliveries = Redeliveries(self)
        self.scheduler = Scheduler(self)
        self.intake = Intake(self)
        self.expiry = ExpirySweep(self)
        self.durables = Durables(self)
        events = self.options.logged_events
        self.advisories = LoggedAdvisories(self, events) if events else Advisories(self)
        self.statistics = Statistics(self)
        self.count_producers = self.advisories.count_producers
        self.virtual_topics = VirtualTopics(is_on=self.options.use_virtual_topics)
        self.queues: dict[Destination, Queue] = {}
        self.topics: dict[Destination, Topic] = {}
        self.clients: set[Client] = set()
        #: Clients by the client id that they asked for; no two may have the same.
        self.client_ids: dict[str, Contender] = {}
        #: Clients by the connection id that they have chosen themselves.
        self.connection_ids: dict[str, Contender] = {}
        #: What runs beside it, in whatever state it is: started before it asks for mastership, stopped behind it.
        self.companions: list[Companion] = []
        self.latencies = Latencies()
        #: Who follows messages of the clients that come from now on; None for nobody.
        self.tracing: Tracing | None = EventLog(events) if events else None
        #: Answers a scrape of the health address: content type and body for what is accepted. None for nobody.
        self.metrics: Callable[[str], Awaitable[tuple[str, bytes]]] | None = None
        #: Who may not send at the moment.
        self.gate = Gate()
        #: Destinations that an operator wants to be there although nobody uses them.
        self.pinned: set[Destination] = set()
        #: Destinations that an operator has paused.
        self.pauses = Pauses(self)
        self.is_running = False
        #: Whether there are as many queues and topics as clients may have.
        self.is_crowded = False
        self._tidied_s = 0.0
        self.loop: asyncio.AbstractEventLoop
        self.completions: CompletionBridge
        #: What takes long, for one client or for all.
        self.slices: Slices
        #: Tells the log when something takes long all the same.
        self.watchdog: Watchdog
        self._spool = Spool(spool)
        #: Where it is in its life.
        self.lifecycle = Lifecycle()
        #: `boot_time_ns` from when on it may not act as master any more; the lock keeper's thread moves it on.
        self.trusted_until_ns = 0
        self._mastership: Mastership | None = None
        self._run: asyncio.Task[None] | None = None
        self._health: Health | None = None
        self._service: MasterService | None = None
        self._reader: Reader
        self._memberships = Memberships(self)
        self.subscribing, self.unsubscribing = self._memberships.subscribing, self._memberships.unsubscribing
        self.reconsider, self.covered = self._memberships.reconsider, self._memberships.covered
        self._is_sweeping = False
        self._router = router = Router(self, self.scheduler, self.virtual_topics, dead_letters)
        self.in_doubt = InDoubt(self, router)
        self.publish, self.commit, self.preparing, self.move = (
            router.publish,
            router.commit,
            router.preparing,
            router.move,
        )
        self.transfer, self.dead_lettered = router.transfer, router.dead_lettered
        self.dead_letter_of, self.is_for_dead_letters = router.dead_letter_of, router.is_for_dead_letters
        self.dead_letter, self.dead_letter_arrival = router.dead_letter, router.dead_letter_arrival
        turns = Turns(self)
        self.awake, self.talking = turns.awake, turns.talking
        self.turn, self.say_everything = turns.turn, turns.say_everything
        self._temporary: set[Destination] = set()
        self._connections = self._delivery_stems = 0
        #: What the ids of connections begin with.
        self.id_stem = ""

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin, and return as soon as it is decided: clients may connect, or another broker is master.

        A standby goes on by itself; `lifecycle` tells where it is, ``await lifecycle.reached(State.MASTER)`` waits.

        Raises:
            StoreError, ConfigurationError: the store cannot be opened.
            ListenError: an address cannot be listened on. The store is closed again.
            LockHeld: another broker is master and the store's ``fail_if_locked`` is set.
        """
        self.loop = asyncio.get_running_loop()
        self.completions = CompletionBridge(self.loop, self.turn, self.store_failed)
        self._reader = Reader(self.loop, lambda: self.is_running)
        self.slices = Slices(self.loop)
        self._router.begin()
        calls = BlockingCalls()
        locker = self.adapter.locker() if isinstance(self.adapter, SupportsLocking) else None
        self._service = MasterService(self, calls)
        self._mastership = Mastership(self, self._service, locker, calls)
        if self.options.health_bind:
            self._health = Health(self.options.health_bind, lambda: self.lifecycle.status, self.metrics)
            await self._health.start()
        if self.authentication is not None:
            self.authentication.start(self._users_changed)
        self.watchdog = Watchdog(self.loop, self.options.slow_callback_ms)
        self.watchdog.start()
        await self._start_companions()
        self._run = asyncio.create_task(self._live(self._mastership))
        decided = asyncio.create_task(self.lifecycle.reached(State.MASTER, State.STANDBY))
        await asyncio.wait((self._run, decided), return_when=asyncio.FIRST_COMPLETED)
        decided.cancel()
        if self._run.done():
            await self._run

    async def _start_companions(self) -> None:
        started = 0
        try:
            for started, companion in enumerate(self.companions):  # noqa: B007  # is read when one fails
                await companion.start()
        except BaseException:
            for companion in self.companions[:started]:
                await companion.stop()
            if self._health is not None:
                await self._health.stop()
            if self.authentication is not None:
                self.authentication.stop()
            self.watchdog.stop()
            raise

    async def _live(self, mastership: Mastership) -> None:
        try:
            await mastership.run()
        finally:
            for companion in self.companions:
                await companion.stop()
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

    def resign(self, rest_s: float) -> None:
        """Give mastership to a standby; raises LockError if it cannot. See `Mastership.resign`."""
        if self._mastership is None:
            raise LockError("the broker does not run")
        self._mastership.resign(rest_s)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens first: host and port; ``("", 0)`` if nobody reaches it but from its own process.

        Raises:
            RuntimeError: as `addresses`.
        """
        return next(iter(self.addresses), ("", 0))

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens: host and port, in the order of `BrokerOptions.bind`.

        Raises:
            RuntimeError: it does not listen, because it is not master.
        """
        if self._service is None or self._service.server is None:
            raise RuntimeError(f"the broker does not listen: it is {self.lifecycle.state}")
        return self._service.server.addresses

    def reload(self) -> None:
        """Read files again that clients are checked by, for those who connect from now on; SIGHUP does this."""

    def new_server(self) -> Server:
        """What brings clients while it is master, not started yet. This broker has none but those of its process."""
        return NoServer()

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

    def next_delivery_stem(self) -> str:
        """What the names of a client's deliveries may begin with, to be unique for ever; there is no colon in it."""
        self._delivery_stems += 1
        return f"{self.id_stem.replace(':', '-')}-{self._delivery_stems + 1}-"

    def forget(self, client: Contender) -> None:
        """A client is gone."""
        self.clients.discard(client)
        if client.client_id is not None and self.client_ids.get(client.client_id) is client:
            del self.client_ids[client.client_id]
        if self.connection_ids.get(client.connection_id) is client:
            del self.connection_ids[client.connection_id]

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

    def open_spool_ahead(self) -> None:
        """Have the spool opened before it is needed."""
        if self.is_running:
            self._spool.open_ahead(self.read)

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
            self._memberships.queue_appeared(queue)
        return queue

    def add_queue(self, destination: Destination) -> Queue:
        """A queue of this name that is not there yet.

        Raises:
            ProtocolError: the broker needs it for itself.
        """
        if destination == PAUSES:
            raise ProtocolError(f"{destination} keeps what operators have paused: use another name")
        queue = self.queues[destination] = Queue(self, destination)
        self._count_destinations()
        self.advisories.destination_added(destination)
        if self.authorization is not None:
            self.authorization.appeared((destination,))
        self.virtual_topics.appeared(destination)
        return queue

    def topic(self, destination: Destination) -> Topic:
        """The topic of this name, made at the first use. Where very many wait for it: see `opening`."""
        topic = self.topics.get(destination)
        if topic is None:
            topic = self._add_topic(destination)
        while topic.opening is not None:
            topic.open_further()
        return topic

    def opening(self, destination: Destination) -> Iterator[None]:
        """Make the topic of this name, unless it is there; a job, after which `topic` takes no time."""
        topic = self.topics.get(destination) or self._add_topic(destination)
        while topic.open_further():
            yield

    def has_to_open(self, destination: Destination) -> bool:
        """Whether a topic is not there yet, and what `topic` does then belongs into slices."""
        topic = self.topics.get(destination)
        if topic is not None:
            return topic.opening is not None
        return self._memberships.awaits(destination) or self.durables.awaits(destination)

    def _add_topic(self, destination: Destination) -> Topic:
        topic = self.topics[destination] = Topic(self, destination)
        self._count_destinations()
        if self.authorization is not None:
            self.authorization.appeared((destination,))
        durable = () if destination.is_temporary else self.durables.appearing(topic)
        topic.opening = chain(durable, self._memberships.topic_appearing(topic))
        self.advisories.destination_added(destination)
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
                " queues and topics are in use. Unsubscribe from one, or try again later"
            )

    def _count_destinations(self) -> None:
        self.is_crowded = len(self.queues) + len(self.topics) - len(self._temporary) >= self.options.destinations_max

    def _is_there(self, destination: Destination) -> bool:
        return destination in self.queues or destination in self.topics

    def _users_changed(self) -> None:
        for client in list(self.clients):
            client.renew_access()

    def add_temporary(self, destination: Destination, connection_id: str) -> None:
        """A connection has a new temporary destination."""
        self._temporary.add(destination)
        self.advisories.temporary_added(destination, connection_id)

    def knows_temporary(self, destination: Destination) -> bool:
        """Whether a temporary destination's connection is still there."""
        return destination in self._temporary

    def has_consumers(self, destination: Destination) -> bool:
        """Whether anybody is subscribed to a destination."""
        if destination.is_queue:
            queue = self.queues.get(destination)
            return queue is not None and queue.has_consumers
        topic = self.topics.get(destination)
        return topic is not None and bool(topic.consumers or topic.subscriptions)

    def count_consumers(self, destination: Destination) -> int:
        """How many consumers what this means has."""
        count = 0
        for element in destination.elements():
            for found in [element] if not element.is_wildcard else self.covered(element):
                queue = None if found is None else self.queues.get(found)
                topic = None if found is None else self.topics.get(found)
                count += 0 if queue is None else len(queue.consumers)
                count += 0 if topic is None else len(topic.consumers) + len(topic.durable)
        return count

    @property
    def origin_url(self) -> str:
        """Where clients find it, in the words of OpenWire's clients if there are any for those; empty for nowhere."""
        service = self._service
        if service is None or service.server is None:
            return ""
        ports = [port for _, port in service.server.addresses]
        return client_url(parse_listeners(self.options.bind), ports, socket.gethostname())

    def remove_destination(self, destination: Destination, answer: Answer) -> None:
        """Remove a queue or topic that nobody is subscribed to, with all that is in it; `answer` hears when it is done.

        Raises:
            ProtocolError: somebody is subscribed to it.
        """
        topic = self.topics.get(destination)
        if self.has_consumers(destination) or (topic is not None and topic.durable):
            raise ProtocolError(f"Destination: {destination} still has an active subscription")
        if not destination.is_queue:
            answer(None)
            return
        queue = self.queue(destination)

        def purged(error: BaseException | None) -> None:
            if error is None and queue.idle and self.queues.get(destination) is queue:
                del self.queues[destination]
                self._count_destinations()
                self.advisories.destination_removed(destination)
            if error is not None or not self.virtual_topics.remove(destination):
                answer(error)
                return
            forgotten = self.adapter.remove_destination(QueueName.decoded(destination.physical_name))
            self.completions.expect(forgotten, lambda _, failure: answer(failure), None)

        queue.purge(purged)

    def remove_temporary(self, destination: Destination) -> None:
        """Forget a temporary destination with everything in it."""
        self._temporary.discard(destination)
        self.advisories.temporary_removed(destination)
        queue = self.queues.pop(destination, None)
        if queue is not None:
            queue.delete()
        self.topics.pop(destination, None)
        self._count_destinations()

    def remove_queue(self, destination: Destination) -> None:
        """Forget a queue that nobody uses, and that nothing is in."""
        if self.queues.pop(destination, None) is not None:
            self._let_go_of_store(destination)
        self._count_destinations()

    def remove_topic(self, destination: Destination) -> None:
        """Forget a topic that nobody subscribes to."""
        topic = self.topics.pop(destination, None)
        if topic is not None:
            topic.let_go()
        self._count_destinations()

    # -- housekeeping -----------------------------------------------------------------------------------------

    def expiring_in_memory(self, periods_ms: Set[int]) -> Iterator[None]:
        """Let expired messages go that are not in the broker's store, of queues with one of these periods; a job."""
        for queue in list(self.queues.values()):
            if queue.policy.expire_messages_period_ms in periods_ms:
                queue.expire_in_memory(self.now_ms())
            yield

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
                and name not in self.pinned
                and self.queues.get(name) is queue
            ):
                del self.queues[name]
                self._let_go_of_store(name)
                self.advisories.destination_removed(name)
                self._count_destinations()  # who wants room has it with the first, not when all have been looked at
            yield
        for name, topic in list(self.topics.items()):
            if topic.is_used:
                topic.last_used_s = now_s
            elif (
                now_s - topic.last_used_s > timeout_s
                and not name.is_temporary
                and name not in self.pinned
                and self.topics.get(name) is topic
            ):
                del self.topics[name]
                topic.let_go()
                self.advisories.destination_removed(name)
                self._count_destinations()
            yield

    def _let_go_of_store(self, name: Destination) -> None:
        queue = QueueName.decoded(name.physical_name)
        try:
            self.adapter.remove_queue_message_store(queue)
            self._spool.forget(queue)
        except JdbcStoreError as error:
            log.warning("store of an idle queue could not be closed queue=%s error=%r", name, str(error))


def now_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000
