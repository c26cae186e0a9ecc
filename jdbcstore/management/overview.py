"""What one person sees of a broker: frozen values (`jdbcstore.management.views`).

Lists of destinations are those of the last look at all of them, at most a few seconds old, so they cost the same
however many messages there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jdbcstore.destination import Destination, parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.management.access import Access
from jdbcstore.management.observation import Totals
from jdbcstore.management.views import (
    AuditEntry,
    BrokerView,
    ConnectionView,
    DestinationView,
    DiagnosisView,
    LoadView,
    LogLine,
    MasterView,
    MemoryView,
    PreparedView,
    ProducerView,
    Sample,
    ScheduledView,
    StoreView,
    SubscriptionView,
    TermView,
)
from jdbcstore.version import VERSION

__all__ = ["Overview"]

_SORTABLE: Final = tuple(name for name in DestinationView.__dataclass_fields__)


class Overview(Access):
    """The broker, its destinations, its clients; nothing is changed."""

    # -- the broker ------------------------------------------------------------------------------------------------

    def master(self) -> MasterView:
        """Where the broker is in its life; everybody may know."""
        status = self._broker.lifecycle.status
        since = status.since.isoformat(timespec="milliseconds")
        return MasterView(
            self._broker.options.broker_name, status.state, since, status.reason, status.term, status.holder
        )

    @property
    def has_users(self) -> bool:
        """Whether clients have to log in."""
        return self._broker.authentication is not None

    def broker(self) -> BrokerView:
        """The broker as a whole, as far as the person may see destinations."""
        broker, observation, master = self._broker, self._desk.observation, self.master()
        may_see_all = self.rights.may_see_everything
        totals = observation.totals if may_see_all else Totals.of(self._seen())
        addresses = broker.addresses if broker.is_running else []
        return BrokerView(
            **{name: getattr(master, name) for name in MasterView.__dataclass_fields__},
            version=VERSION,
            addresses=tuple(f"{host}:{port}" for host, port in addresses),
            started_ms=observation.started_ms,
            queues=totals.queues,
            topics=totals.topics,
            producers=broker.advisories.producers,
            connections=len(broker.clients),
            subscriptions=broker.memory.consumers,
            depth=totals.depth,
            in_flight=totals.in_flight,
            dead_letters=totals.dead_letters,
            oldest_ms=totals.oldest_ms,
            rate_in=totals.rate_in,
            rate_out=totals.rate_out,
            loop_lag_ms=observation.loop_lag_ms,
            is_draining=broker.gate.is_draining,
            looked_ms=observation.looked_ms,
        )

    def history(self, after_ms: int | None = None) -> Sequence[Sample]:
        """The last hour, a sample each five seconds, oldest first.

        Args:
            after_ms: only what is newer, epoch milliseconds; None for all.
        """
        self.rights.check_see_everything("the history")
        samples = self._desk.observation.samples
        return samples if after_ms is None else [sample for sample in samples if sample.at_ms > after_ms]

    def terms(self) -> Sequence[TermView]:
        """The states that this broker was in, newest first."""
        return self._desk.observation.terms

    async def store(self) -> StoreView:
        """The store, its commits, its lease."""
        self.rights.check_see_everything("the store")
        return await self._desk.inspection.store()

    async def diagnosis(self) -> DiagnosisView:
        """Why the files of a KahaDB journal are still there; takes seconds, and is a minute old at most.

        Raises:
            ConfigurationError: the store is none in KahaDB.
            StoreError: it was not possible.
        """
        self.rights.check_see_everything("the diagnosis of the store")
        return await self._desk.diagnoses.latest()

    def memory(self) -> MemoryView:
        """The account of memory."""
        self.rights.check_see_everything("the account of memory")
        return self._desk.inspection.memory()

    def log(self, count: int) -> Sequence[LogLine]:
        """The last lines of the log, oldest first."""
        self.rights.check_see_everything("the log")
        return self._desk.log.lines(count)

    def audit(self, count: int) -> Sequence[AuditEntry]:
        """What operators have done lately, newest first."""
        self.rights.check_see_everything("the audit log")
        return self._desk.audit.entries(count)

    # -- destinations --------------------------------------------------------------------------------------------

    def _seen(self) -> list[DestinationView]:
        views = self._desk.observation.destinations
        if self.rights.may_see_everything:
            return list(views.values())
        return [view for name, view in views.items() if self.rights.may_see(name)]

    async def destinations(
        self,
        *,
        kind: str = "",
        text: str = "",
        sort: str = "name",
        is_descending: bool = False,
        offset: int = 0,
        count: int = 100,
        with_temporary: bool = False,
    ) -> tuple[Sequence[DestinationView], int]:
        """Some destinations, as the last look has found them, and how many there are in all.

        Args:
            kind: ``queue`` or ``topic``; empty for both.
            text: only those with this in their name, in any case.
            sort, is_descending: by which field of `DestinationView`.
            offset, count: which of them.
            with_temporary: whether temporary ones are wanted, too.

        Raises:
            ConfigurationError: there is no such field.
        """
        if sort not in _SORTABLE:
            raise ConfigurationError(f"sort has to be one of {', '.join(_SORTABLE)}, got {sort!r}")

        observation, rights = self._desk.observation, self.rights
        may_see_all, folded = rights.may_see_everything, text.lower()

        def select() -> tuple[Sequence[DestinationView], int]:
            chosen = [
                view
                for name, view in observation.ordered(sort, is_descending=is_descending)
                if (not kind or view.kind == kind)
                and (with_temporary or not view.is_temporary)
                and folded in view.name.lower()
                and (may_see_all or rights.may_see(name))
            ]
            return chosen[offset : offset + count], len(chosen)

        return await observation.calculated(select, len(observation.destinations))

    async def look(self) -> None:
        """Look at all destinations now: views are as of now then."""
        await self._desk.observation.look()

    async def freshen(self) -> None:
        """Look at all destinations, unless that was done just now, or would cost the broker too much."""
        await self._desk.observation.freshen()

    @property
    def looked_ms(self) -> int:
        """When all destinations were looked at the last time, epoch milliseconds."""
        return self._desk.observation.looked_ms

    def destination(self, name: str) -> DestinationView:
        """One destination. Raises UnknownDestination."""
        destination = self._visible(name)
        view = self._desk.observation.view_of(destination)
        return view or DestinationView(str(destination), "queue" if destination.is_queue else "topic")

    async def connections(self) -> Sequence[ConnectionView]:
        """All clients."""
        self.rights.check_see_everything("clients")
        return await self._desk.inspection.connections()

    async def producers(self) -> Sequence[ProducerView]:
        """Clients that have sent something."""
        return [
            ProducerView(view.connection_id, view.client_id, view.peer, view.user, view.sent)
            for view in await self.connections()
            if view.sent
        ]

    async def subscriptions(self, destination: str = "") -> Sequence[SubscriptionView]:
        """Subscriptions that the person may see, durable ones that nobody uses among them.

        Args:
            destination: only those that get what is sent there; empty for all.
        """
        name = parse_destination(destination) if destination else None
        return [
            view
            for view in await self._desk.inspection.subscriptions()
            if self._may_see_subscription(parse_destination(view.destination), name)
        ]

    def _may_see_subscription(self, subscribed: Destination, name: Destination | None) -> bool:
        elements = subscribed.elements()
        is_wanted = name is None or any(element.matches(name) for element in elements)
        return is_wanted and (self.rights.may_see_everything or all(map(self.rights.may_see, elements)))

    async def slow_consumers(self) -> Sequence[SubscriptionView]:
        """Those that hold all that they may, or do not read what they are sent."""
        return [view for view in await self.subscriptions() if view.is_slow]

    async def scheduled(self, after: tuple[int, str] | None, count: int) -> tuple[Sequence[ScheduledView], object]:
        """Scheduled messages in the order of their times, and the place to go on from; None at the end."""
        self.rights.check_see_everything("scheduled messages")
        return await self._desk.inspection.scheduled(after, count)

    async def prepared(self) -> Sequence[PreparedView]:
        """Transactions in doubt."""
        self.rights.check_see_everything("transactions in doubt")
        return await self._desk.inspection.prepared()

    async def loads(self) -> Sequence[LoadView]:
        """Bulk loads that are being taken in."""
        self.rights.check_see_everything("bulk loads")
        return await self._desk.inspection.loads()
