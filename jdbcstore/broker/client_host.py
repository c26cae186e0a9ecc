"""What clients get of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol

from jdbcstore.broker.advisories import Advisories
from jdbcstore.broker.callbacks import ClientCallbacks
from jdbcstore.broker.delivery import Answer, Consumer
from jdbcstore.broker.durable import Durables
from jdbcstore.broker.gate import Gate
from jdbcstore.broker.in_doubt import InDoubt
from jdbcstore.broker.interceptors import Interceptors
from jdbcstore.broker.latencies import Latencies
from jdbcstore.broker.prepared import Prepared
from jdbcstore.broker.producers import Number, Producers
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.broker.route import Route
from jdbcstore.broker.scheduler import Scheduler
from jdbcstore.broker.security.authentication import Authentication
from jdbcstore.broker.security.authorization import Authorization
from jdbcstore.broker.statistics import Statistics
from jdbcstore.broker.takeover import Contender
from jdbcstore.broker.topic import Publisher
from jdbcstore.broker.transaction import Branches
from jdbcstore.destination import Destination
from jdbcstore.store.contract import PersistenceAdapter

__all__ = ["ClientHost"]


class ClientHost(RegionHost, Protocol):
    """A running broker, as its clients see it; `jdbcstore.broker.broker` says more."""

    #: Clients by the client id that they asked for; no two may have the same.
    client_ids: dict[str, Contender]
    #: Clients by the connection id that they have chosen themselves.
    connection_ids: dict[str, Contender]
    #: What the ids of connections begin with that the broker has chosen.
    id_stem: str

    @property
    def trusted_until_ns(self) -> int:
        """`boot_time_ns` from when on it may not act as master any more."""

    def distrust(self) -> None:
        """The trust in the lease has run out: serve nobody."""

    @property
    def is_crowded(self) -> bool:
        """Whether there are as many queues and topics as clients may have."""

    @property
    def authentication(self) -> Authentication | None:
        """Who may log in; None for everybody."""

    @property
    def authorization(self) -> Authorization | None:
        """Who may do what; None for everything."""

    @property
    def latencies(self) -> Latencies:
        """How long messages take."""

    @property
    def gate(self) -> Gate:
        """Who may not send at the moment."""

    @property
    def durables(self) -> Durables:
        """All durable subscriptions."""

    @property
    def interceptors(self) -> Interceptors:
        """Know who gets copies."""

    @property
    def advisories(self) -> Advisories:
        """Tell clients what happens."""

    @property
    def producers(self) -> Producers:
        """Those that number their messages."""

    @property
    def branches(self) -> Branches:
        """Distributed transactions that are not prepared yet."""

    @property
    def in_doubt(self) -> InDoubt:
        """Distributed transactions that are prepared."""

    @property
    def statistics(self) -> Statistics:
        """Answers questions about the broker."""

    @property
    def scheduler(self) -> Scheduler:
        """What is to be sent later."""

    def spool_opening(self) -> asyncio.Future[PersistenceAdapter] | None:
        """What is done when the spool was opened, or could not be; None if nobody opens it now, and nobody has to."""

    def has_to_open(self, destination: Destination) -> bool:
        """Whether a topic is not there yet, and to make it belongs into slices (`preparing`)."""

    def complete(self, number: Number, routes: Sequence[Route], publisher: Publisher | None, answer: Answer) -> None:
        """Give a message that is stored already to those of its destinations that lack it."""

    def preparing(self, prepared: Prepared) -> Iterator[None]:
        """Do ahead what a `commit` of many messages costs, as far as it changes nothing; a job."""

    def subscribing(self, consumer: Consumer) -> Iterator[None]:
        """Let a consumer take part in what it subscribed to, now and when more of it appears; a job."""

    def unsubscribing(self, consumer: Consumer) -> Iterator[None]:
        """Let a consumer leave, at once; what it has goes back, which is the job."""

    def reconsider(self, consumer: Consumer) -> None:
        """Let a subscriber to a wildcard take part in what its client may read now, and in nothing else."""

    def talking(self, transport: ClientCallbacks) -> None:
        """A transport has something to write."""

    def forget(self, client: Contender) -> None:
        """A client is gone."""

    def free_ids(self, client: Contender) -> None:
        """Others may have a client's ids."""
