"""What a master has and others have not: an open store, and clients. Opened and closed again and again."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from jdbcstore.broker.blocking_calls import BlockingCalls
from jdbcstore.broker.client import Client
from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.expiry import ExpirySweep
from jdbcstore.broker.intake import Intake
from jdbcstore.broker.pauses import PAUSES, Pauses
from jdbcstore.broker.prepared_jobs import PREPARED_JOBS, PreparedJobs
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.server import Server
from jdbcstore.broker.topic import Topic
from jdbcstore.broker.virtual_topics import VirtualTopics
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError

__all__ = ["MasterHost", "MasterService"]

log = logging.getLogger(__name__)

#: How long dismissed clients have to read why.
_DISMISS_S: Final = 1.0
#: How long a clean end waits for clients to be gone; who reads what he is sent is gone in less.
_QUICK_S: Final = 0.2
_SWEEP_S: Final = 10.0


class MasterHost(ClientHost, Protocol):
    """A broker whose store and clients come and go."""

    is_running: bool
    id_stem: str
    clients: set[Client]
    queues: dict[Destination, Queue]
    topics: dict[Destination, Topic]
    intake: Intake
    expiry: ExpirySweep
    virtual_topics: VirtualTopics
    pauses: Pauses
    prepared_jobs: PreparedJobs

    def new_server(self) -> Server:
        """What brings clients while it is master, not started yet."""

    def add_queue(self, destination: Destination) -> Queue:
        """A queue of this name that is not there yet."""

    def drop_spool(self) -> None:
        """What is in the spool is of no use any more."""

    def sweep(self) -> None:
        """Drop what nobody uses."""

    def turn(self) -> None:
        """Dispatch, then write."""

    def say_everything(self) -> None:
        """Write all there is to say: there may be no other turn."""


class MasterService:
    """The store and the clients of one broker.

    Args:
        broker: whose.
        calls: opens and closes the store; the broker's readers may all be waiting for it.
    """

    def __init__(self, broker: MasterHost, calls: BlockingCalls) -> None:
        self._broker = broker
        self._call = calls.call
        self._server: Server | None = None
        self._leaving: Server | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None

    @property
    def server(self) -> Server | None:
        """Listens; None while no clients are served."""
        return self._server

    # -- the beginning -------------------------------------------------------------------------------------------

    async def open_store(self) -> None:
        """Open the store, bring back its queues. Raises as `PersistenceAdapter.start`."""
        broker = self._broker
        broker.producers.forget()
        await self._call(broker.adapter.start)
        destinations = await self._call(broker.adapter.destinations)
        await broker.slices.complete(self._loading(destinations))
        await broker.pauses.load(destinations, self._call)
        await broker.in_doubt.load(self._call)
        await broker.scheduler.load(self._call)

    def _loading(self, destinations: Iterable[Destination]) -> Iterator[None]:
        broker = self._broker
        topics = []
        for destination in destinations:
            if destination in (PAUSES, PREPARED_JOBS):
                continue
            if destination.is_queue:
                self._load_queue(destination)
            elif not destination.is_temporary:
                topics.append(destination)
            yield
        yield from broker.durables.loading(topics)

    def _load_queue(self, destination: Destination) -> None:
        queue = self._broker.queues.get(destination) or self._broker.add_queue(destination)
        try:
            queue.contents.load()
        except ConfigurationError as error:  # a name that another broker gave it
            log.warning("a stored queue cannot be served destination=%r error=%r", destination, str(error))

    async def listen(self) -> None:
        """Let clients in. Raises ListenError."""
        broker = self._broker
        server = broker.new_server()
        await server.start()
        self._server = server
        host, port = server.addresses[0] if server.addresses else ("-", secrets.randbelow(1 << 31))
        broker.id_stem = f"ID:{socket.gethostname()}-{port}-{broker.now_ms()}"
        broker.is_running = True
        broker.scheduler.begin()
        broker.prepared_jobs.begin()
        broker.intake.begin()
        broker.expiry.begin()
        self._sweep_timer = broker.loop.call_later(_SWEEP_S, self._sweep)
        broker.durables.watch()
        name, queues = broker.options.broker_name, len(broker.queues)
        log.info("broker started name=%s host=%s port=%d queues=%d", name, host, port, queues)

    def _sweep(self) -> None:
        self._sweep_timer = self._broker.loop.call_later(_SWEEP_S, self._sweep)
        self._broker.sweep()

    # -- the end in need -----------------------------------------------------------------------------------------

    def close_doors(self) -> None:
        """Let nobody in any more, from this moment on."""
        self._broker.is_running = False
        if self._server is not None:
            self._server.stop_listening()

    def cease(self, reason: str) -> None:
        """Serve nobody any more; the doors are closed."""
        broker = self._broker
        broker.prepared_jobs.end()
        broker.scheduler.end()
        broker.intake.end()
        broker.expiry.end()
        for client in list(broker.clients):
            client.dismiss(f"This broker serves nobody now: {reason}. Connect to the other one, or again later")
        broker.turn()
        broker.say_everything()

    async def abandon(self) -> None:
        """Close the store without waiting for it; what it has not answered yet has failed."""
        self._broker.is_running = False
        server = self._take_server()
        if server is not None:
            await server.close_connections(_DISMISS_S)
            await server.abort_connections()
        await self._call(self._broker.adapter.abandon)
        await self._all_answered(self._broker.loop.time() + self._broker.options.stop_timeout_s)
        await self._broker.slices.drained()
        await self.reopen()

    async def reopen(self) -> None:
        """The store is closed: let queues forget what was in it."""
        await self._broker.slices.complete(self._reopening())

    def _reopening(self) -> Iterator[None]:
        for queue in list(self._broker.queues.values()):
            queue.reopen()
            yield

    async def forget(self) -> None:
        """Somebody else was master in between: forget also what was in memory only. No client is there."""
        broker = self._broker
        await broker.slices.complete(self._closing_queues())
        broker.queues.clear()
        for topic in broker.topics.values():
            topic.forget_history()
        broker.topics.clear()
        broker.durables.forget()
        broker.in_doubt.forget()
        broker.virtual_topics.forget()
        if broker.authorization is not None:
            broker.authorization.forget()
        broker.drop_spool()

    def _closing_queues(self) -> Iterator[None]:
        messages = 0
        for queue in list(self._broker.queues.values()):
            messages += queue.depth
            queue.close()
            yield
        if messages:
            log.warning("another broker was master, non-persistent messages are dropped messages=%d", messages)

    # -- the clean end -------------------------------------------------------------------------------------------

    async def retire(self, deadline_s: float) -> None:
        """Accept nobody any more, let the store answer what it was given, say goodbye, close the store.

        Clients that do not read are not waited for: `farewell` does that, when the next master may begin already.

        Args:
            deadline_s: when to give up, by the loop's clock.
        """
        broker = self._broker
        server = self._leaving = self._take_server()
        if server is not None:
            for client in broker.clients:
                client.hold()
            await self._all_answered(deadline_s)
            await broker.slices.drained()  # the last of them may answer somebody
            broker.is_running = False
            broker.turn()
            broker.say_everything()
            await server.close_connections(_QUICK_S)
            for client in list(broker.clients):
                client.close()  # what a slow one has not read goes back while the store is there to know of it
            await self._broker.slices.drained()
            await self._all_answered(deadline_s)
        stopped = asyncio.ensure_future(self._call(broker.adapter.stop))
        await asyncio.wait((stopped,), timeout=max(0.0, deadline_s - broker.loop.time()))
        if not stopped.done():
            log.warning("the store does not answer within stop_timeout_s, it is closed without waiting")
            await self._call(broker.adapter.abandon)
        await stopped

    async def farewell(self, deadline_s: float) -> None:
        """Give slow clients the time until then to read what they were told last."""
        server, self._leaving = self._leaving, None
        if server is not None:
            await server.close_connections(deadline_s - self._broker.loop.time())
            await server.abort_connections()

    # -- tools ---------------------------------------------------------------------------------------------------

    def _take_server(self) -> Server | None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._broker.durables.stop_watching()
        self._broker.prepared_jobs.end()
        self._broker.scheduler.end()
        self._broker.intake.end()
        self._broker.expiry.end()
        server, self._server = self._server, None
        if server is not None:
            server.stop_listening()
        return server

    async def _all_answered(self, deadline_s: float) -> None:
        """Wait until the store has answered everything, but not for ever."""
        while self._broker.completions.expected and self._broker.loop.time() < deadline_s:
            await asyncio.sleep(0.01)
