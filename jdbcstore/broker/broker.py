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
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from jdbcstore.addresses import client_url, parse_listeners
from jdbcstore.broker.advisories import Advisories
from jdbcstore.broker.blocking_calls import BlockingCalls
from jdbcstore.broker.completion_bridge import CompletionBridge
from jdbcstore.broker.dead_letter import DeadLetters
from jdbcstore.broker.destination_map import DestinationMap
from jdbcstore.broker.destination_policy import DestinationPolicy, PolicyMap, RedeliveryPolicy, default_policy
from jdbcstore.broker.durable import Durables
from jdbcstore.broker.event_log import EventLog, LoggedAdvisories
from jdbcstore.broker.expiry import ExpirySweep
from jdbcstore.broker.gate import Gate
from jdbcstore.broker.health import Health
from jdbcstore.broker.in_doubt import InDoubt
from jdbcstore.broker.intake import Intake
from jdbcstore.broker.interceptors import Interceptors
from jdbcstore.broker.interest import Interest
from jdbcstore.broker.latencies import Latencies
from jdbcstore.broker.lifecycle import UNTRUSTED, Lifecycle, State
from jdbcstore.broker.master_service import MasterService
from jdbcstore.broker.mastership import Mastership
from jdbcstore.broker.memberships import Memberships
from jdbcstore.broker.memory import Memory
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.pauses import Pauses
from jdbcstore.broker.prepared_jobs import PreparedJobs
from jdbcstore.broker.producers import Producers
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
from jdbcstore.broker.tracing import Tracing
from jdbcstore.broker.transaction import Branches
from jdbcstore.broker.turns import Turns
from jdbcstore.broker.virtual_destinations import VirtualDestinations
from jdbcstore.broker.virtual_topics import VirtualTopics
from jdbcstore.broker.watchdog import Watchdog
from jdbcstore.destination import Destination
from jdbcstore.destination import Queue as QueueName
from jdbcstore.destination import Topic as TopicName
from jdbcstore.errors import (
    ConfigurationError,
    LockError,
    OutcomeUnknown,
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
from jdbcstore.store.lease import boot_time_ns
from jdbcstore.store.memory import MemoryPersistenceAdapter

if TYPE_CHECKING:
    from jdbcstore.broker.client import Client

__all__ = ["Broker", "Companion"]

log = logging.getLogger(__name__)

T = TypeVar("T")


def _now_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


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
        virtual_destinations: what goes to other destinations, too, or instead, besides ActiveMQ's default virtual
            topics. A store has to remember the queues of other virtual topics (`JdbcOptions.virtual_topic_consumers`).

    Raises:
        ConfigurationError: there is authorisation without users, or what is refused is to be scheduled without a
            scheduler.
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
        virtual_destinations: VirtualDestinations | None = None,
    ) -> None:
        self.adapter = adapter
        self.options = options or BrokerOptions()
        self.authentication = authentication or authentication_of(self.options)
        if authorization is not None and self.authentication is None:
            raise ConfigurationError("authorisation needs users: set users or users_file")
        policies = tuple(policies)
        self._policies = PolicyMap(policies, default_policy(self.options))
        self.is_told_of_slow_consumers = any(one.advisory_for_slow_consumers for one in self._policies.all())
        self._redelivery_policies = PolicyMap(redelivery_policies, RedeliveryPolicy())
        if not self.options.scheduler_support and any(one.schedule_refused for one in self._redelivery_policies.all()):
            raise ConfigurationError("refused messages are scheduled: schedule_refused needs scheduler_support")
        dead_letters = DeadLetters(
            QueueName(self.options.dead_letter_queue), [policy.dead_letter_strategy for policy in policies]
        )
        self.memory = Memory(self.options.memory_bytes_max)
        self.producers = Producers(self)
        self.branches = Branches()
        self.redeliveries = Redeliveries(self)
        self.scheduler = Scheduler(self)
        self.intake = Intake(self)
        self.expiry = ExpirySweep(self)
        self.durables = Durables(self)
        events = self.options.logged_events
        self.advisories = LoggedAdvisories(self, events) if events else Advisories(self)
        self.statistics = Statistics(self)
        self.count_producers = self.advisories.count_producers
        declared = virtual_destinations or VirtualDestinations()
        self.virtual_topics = VirtualTopics(declared.all_virtual_topics(has_default=self.options.use_virtual_topics))
        self.interceptors = Interceptors(declared, self.virtual_topics, self._interests)
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
        #: Destinations that an operator has paused.
        self.pauses = Pauses(self)
        self.is_running = False
        self.loop: asyncio.AbstractEventLoop
        self.completions: CompletionBridge
        #: What takes long, for one client or for all.
        self.slices: Slices
        #: Tells the log when something takes long all the same.
        self.watchdog: Watchdog
        self._spool = Spool(spool)
        #: `boot_time_ns` from when on it may not act as master any more; the lock keeper's thread moves it on.
        self.trusted_until_ns = 0
        #: Where it is in its life.
        self.lifecycle = Lifecycle(lambda: boot_time_ns() < self.trusted_until_ns)
        self._mastership: Mastership | None = None
        self._run: asyncio.Task[None] | None = None
        self._health: Health | None = None
        self._service: MasterService | None = None
        self._reader: Reader
        self._memberships = Memberships(self)
        self.subscribing, self.unsubscribing = self._memberships.subscribing, self._memberships.unsubscribing
        self.reconsider, self.covered = self._memberships.reconsider, self._memberships.covered
        self.subscribers_of_wildcards = self._memberships.subscribers_of_wildcards
        self._destinations = there = DestinationMap(self, self._memberships)
        self.authorization = None if authorization is None else Authorization(authorization, self._exists)
        self.queues, self.topics, self.pinned = there.queues, there.topics, there.pinned
        self.queue, self.add_queue, self.remove_queue = there.queue, there.add_queue, there.remove_queue
        self.topic, self.opening, self.has_to_open = there.topic, there.opening, there.has_to_open
        self.remove_topic, self.remove_destination = there.remove_topic, there.remove_destination
        self.add_temporary, self.knows_temporary = there.add_temporary, there.knows_temporary
        self.remove_temporary = there.remove_temporary
        self.check_room_for, self.check_name = there.check_room_for, there.check_name
        self.check_parts = there.check_parts
        self.has_consumers, self.count_consumers = there.has_consumers, there.count_consumers
        self._is_sweeping = False
        self._router = router = Router(self, self.scheduler, self.interceptors, dead_letters)
        self.prepared_jobs = PreparedJobs(self, self.scheduler)
        self.in_doubt = InDoubt(self, router, self.prepared_jobs)
        self.route, self.publish, self.publish_together = router.route, router.publish, router.publish_together
        self.publish_each = router.publish_each
        self.commit, self.complete, self.preparing = router.commit, router.complete, router.preparing
        self.expire_unused = router.expire_unused
        self.transfer, self.dead_lettered = router.transfer, router.dead_lettered
        self.dead_letter, self.is_for_dead_letters = router.dead_letter, router.is_for_dead_letters
        self.refused, self.discarded = router.refused, router.discarded
        turns = Turns(self)
        self.awake, self.talking = turns.awake, turns.talking
        self._promise_turn, self.turn, self.say_everything = turns.promise, turns.turn, turns.say_everything
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
        self.completions = CompletionBridge(self.loop, self._promise_turn, self.turn, self.store_failed)
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
            if self.authentication is not None:
                self.authentication.start(self._users_changed)
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
            self._reader.start()
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
            self._mastership.end(UNTRUSTED)

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
        self.free_ids(client)

    def free_ids(self, client: Contender) -> None:
        """Others may have a client's ids."""
        if client.client_id is not None and self.client_ids.get(client.client_id) is client:
            del self.client_ids[client.client_id]
        if self.connection_ids.get(client.connection_id) is client:
            del self.connection_ids[client.connection_id]

    #: Epoch milliseconds.
    now_ms = staticmethod(_now_ms)

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

    def _exists(self, destination: Destination) -> bool:
        """Whether there is a destination, so that nobody creates it who uses it."""
        return self._destinations.is_there(destination) or self.interceptors.is_declared(destination)

    def _interests(self, destination: Destination) -> Iterable[Interest]:
        """What the consumers want that a queue has."""
        queue = self.queues.get(destination)
        return () if queue is None else [consumer.interest for consumer in queue.consumers]

    @property
    def is_crowded(self) -> bool:
        """Whether there are as many queues and topics as clients may have."""
        return self._destinations.is_crowded

    def _users_changed(self) -> None:
        for client in list(self.clients):
            client.renew_access()

    @property
    def origin_url(self) -> str:
        """Where clients find it, as a URL for Java clients if there is a listener for those; empty for nowhere."""
        service = self._service
        if service is None or service.server is None:
            return ""
        ports = [port for _, port in service.server.addresses]
        return client_url(parse_listeners(self.options.bind), ports, socket.gethostname())

    # -- housekeeping -----------------------------------------------------------------------------------------

    def expiring_in_memory(self, periods_ms: Set[int]) -> Iterator[None]:
        """Let expired messages go that are not in the broker's store, of queues with one of these periods; a job."""
        for queue in list(self.queues.values()):
            if queue.policy.expire_messages_period_ms in periods_ms:
                yield from queue.expiring_in_memory(self.now_ms())
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
        yield from self._destinations.forgetting_idle(self.options.idle_queue_timeout_s)
