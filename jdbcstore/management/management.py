"""The management face: everything that an operator sees of a running broker, and everything that he may do to it.

One object for one person: `Management` asks the person's `Rights` for each call, and writes what was done, or refused,
to the audit log. It knows no protocol; `jdbcstore.transport.web` brings it to browsers and programs. All of it is
called in the broker's event loop.

**Views** are frozen values (`jdbcstore.management.views`). Lists of destinations are those of the last look at all of
them, at most a few seconds old, so they cost the same however many messages there are.

**Actions on messages** work on all that match, not on a page: each is an operation (`jdbcstore.management.operations`)
in small commits, with progress, that may be cancelled. With ``is_dry_run`` it counts and does nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.pauses import CONSUMERS, PRODUCERS
from jdbcstore.destination import Destination, Queue, parse_destination
from jdbcstore.errors import CodecError, ConfigurationError, JdbcStoreError, NotAuthorized, ProtocolError
from jdbcstore.management.desk import Desk
from jdbcstore.management.filters import EVERYTHING, Filter
from jdbcstore.management.observation import Totals
from jdbcstore.management.operations import Operation, Placing
from jdbcstore.management.rights import OPERATOR, Rights
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
    MessagePage,
    OperationView,
    PreparedView,
    ProducerView,
    Sample,
    ScheduledView,
    StoreView,
    SubscriptionView,
    TermView,
)
from jdbcstore.message import Message
from jdbcstore.primitives import Value
from jdbcstore.subscription import SubscriptionKey
from jdbcstore.version import VERSION

__all__ = ["SIDES", "Management"]

T = TypeVar("T")

#: What of a destination can be paused.
SIDES: Final = (CONSUMERS, PRODUCERS, "both")
_SORTABLE: Final = tuple(name for name in DestinationView.__dataclass_fields__)
#: What names an import.
_RUN: Final = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)
#: Messages in one commit of `Management.restore`.
_RESTORED_MAX: Final = 1000
#: What a dead letter was told, and what does not hold any more when it is back.
_TOLD: Final = ("dlqDeliveryFailureCause", "originalExpiration", "originalDeliveryMode")


class Management:
    """The face for one person.

    Args:
        desk: of the broker.
        rights: whose it is.
    """

    def __init__(self, desk: Desk, rights: Rights = OPERATOR) -> None:
        self.rights = rights
        self._desk = desk
        self._broker: Broker = desk.broker

    def for_whom(self, rights: Rights) -> Management:
        """The face for somebody else."""
        return Management(self._desk, rights)

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

    def history(self) -> Sequence[Sample]:
        """The last hour, a sample each five seconds, oldest first."""
        self.rights.check_see_everything("the history")
        return self._desk.observation.samples

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

        return await self._broker.loop.run_in_executor(None, select)  # very many take longer than a slice

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

    # -- messages ------------------------------------------------------------------------------------------------

    async def browse(
        self,
        destination: str,
        chosen: Filter = EVERYTHING,
        after: str | None = None,
        count: int = 100,
    ) -> MessagePage:
        """Messages of a destination in their order, page by page.

        Args:
            destination: a queue, or a topic with durable subscriptions.
            chosen: which ones.
            after: `MessagePage.after` of the page before; None for the first page.
            count: the most messages of this page.

        Raises:
            UnknownDestination: there is none.
            SelectorError, ConfigurationError: what was asked for is wrong.
        """
        return await self._desk.pages.page(self._visible(destination), chosen, after, count)

    async def message(self, destination: str, *, number: int = 0, message_id: str = "") -> Message | None:
        """One message, by its number in the store or its id; None if it is not there. It is not to be changed."""
        return await self._desk.pages.message(self._visible(destination), number, message_id)

    async def send(self, message: Message) -> str:
        """Give the broker a message, and wait until it is stored. Returns its id."""
        destination = message.destination
        if destination is None:
            raise ValueError("a message needs a destination")

        async def sending() -> str:
            message.timestamp = message.timestamp or self._broker.now_ms()
            return str(await self._desk.publish(message))

        self._require_master()
        for element in destination.elements():
            self._check(element, "send")
        return await self._audited("send", str(destination), sending)

    async def restore(self, messages: Sequence[Message], run: str = "", portion: int = 0) -> int:
        """Store messages as they are, with their ids, in one commit; returns how many: none if they are stored already.

        Args:
            messages: each with its destination and id, as `jdbcstore.management.archive` gives them; at most 1000.
            run: names an import, whose portions are stored once each, however often they come; empty for none.
            portion: its number in the import, from 1 on; a portion that is not above all that are stored is one of
                them.

        Raises:
            ConfigurationError: they are too many, or one has no place.
        """
        self._require_master()
        if run and (_RUN.fullmatch(run) is None or portion < 1):
            raise ConfigurationError(f"run has to be up to 64 letters and digits, got {run[:70]!r}, portion at least 1")
        if len(messages) > _RESTORED_MAX:
            raise ConfigurationError(f"restore at most {_RESTORED_MAX} messages at a time, got {len(messages)}")
        names = {str(message.destination) for message in messages}
        for message in messages:
            if message.destination is None or not message.destination.is_storable or message.destination.is_temporary:
                raise ConfigurationError(f"{message.destination} is no place for a message that is restored")
            self._check(message.destination, "restore")

        async def restoring() -> int:
            is_new = await self._desk.restore(messages, (run, portion) if run else None)
            return len(messages) if is_new else 0

        return await self._audited("restore", f"{len(messages)} messages to {', '.join(sorted(names)[:5])}", restoring)

    def move(self, source: str, target: str, chosen: Filter, *, is_dry_run: bool = False) -> Operation:
        """Move messages to another queue: each is in one of them, whatever crashes, and never in both."""
        return self._to(source, target, chosen, "move", is_dry_run)

    def copy(self, source: str, target: str, chosen: Filter, *, is_dry_run: bool = False) -> Operation:
        """Copy messages to another queue; they keep their ids."""
        return self._to(source, target, chosen, "copy", is_dry_run)

    def delete(self, source: str, chosen: Filter, *, is_dry_run: bool = False) -> Operation:
        """Remove messages for good."""
        queue = self._queue(source, "delete")
        return self._begin("delete", queue, chosen, lambda message: None, is_dry_run=is_dry_run)

    def purge(self, source: str, *, is_dry_run: bool = False) -> Operation:
        """Remove all messages that no consumer has, for good."""
        queue = self._queue(source, "purge")
        return self._begin("purge", queue, EVERYTHING, lambda message: None, is_dry_run=is_dry_run)

    def retry(self, source: str, chosen: Filter, *, is_dry_run: bool = False) -> Operation:
        """Put dead letters back to where they came from; those that came from nowhere else stay, as skipped.

        Where they go the person needs rights, too. A dead letter of a topic's subscription is published again, to all
        who subscribe.
        """
        queue = self._queue(source, "retry")

        def back(message: Message) -> Message:
            origin = message.original_destination
            if origin is None or origin == queue or not origin.is_storable or not self.rights.may_admin(origin):
                raise LookupError
            return _returned(message, origin)

        return self._begin("retry", queue, chosen, back, is_dry_run=is_dry_run)

    def change(
        self,
        source: str,
        chosen: Filter,
        *,
        priority: int | None = None,
        expiration_ms: int | None = None,
        is_dry_run: bool = False,
    ) -> Operation:
        """Change messages: they are written anew, in one commit with the removal of the old ones, and go last.

        Args:
            source: the queue.
            chosen: which ones.
            priority: 0 to 9.
            expiration_ms: epoch milliseconds; 0 is never.

        Raises:
            ConfigurationError: there is nothing to change, or a number is wrong.
        """
        queue = self._queue(source, "change")
        if priority is None and expiration_ms is None:
            raise ConfigurationError("there is nothing to change: give a priority or an expiration")
        if priority is not None and not 0 <= priority <= 9:
            raise ConfigurationError(f"priority has to be 0 to 9, got {priority}")
        if expiration_ms is not None and expiration_ms < 0:
            raise ConfigurationError(f"expiration has to be epoch milliseconds, or 0 for never, got {expiration_ms}")

        def changed(message: Message) -> Message:
            copy = message.copy()
            copy.priority = message.priority if priority is None else priority
            copy.expiration = message.expiration if expiration_ms is None else expiration_ms
            return copy

        return self._begin("change", queue, chosen, changed, is_dry_run=is_dry_run)

    def _to(self, source: str, target: str, chosen: Filter, action: str, is_dry_run: bool) -> Operation:
        queue, place = self._queue(source, action), parse_destination(target)
        self._check(place, action)
        if not isinstance(place, Queue) or not place.is_storable:
            raise ConfigurationError(f"{action} needs one queue as its target, got {place}")
        if place == queue:
            raise ConfigurationError(f"source and target are the same: {queue}")

        def placed(message: Message) -> Message:
            return _placed(message, place)

        return self._begin(
            action, queue, chosen, placed, target=str(place), takes=action == "move", is_dry_run=is_dry_run
        )

    def _begin(
        self,
        action: str,
        queue: Destination,
        chosen: Filter,
        placing: Placing,
        *,
        target: str | None = None,
        takes: bool = True,
        is_dry_run: bool,
    ) -> Operation:
        return self._desk.operations.begin(
            action,
            self.rights.name,
            queue,
            chosen,
            placing,
            target=target,
            takes=takes,
            is_dry_run=is_dry_run,
        )

    def operations(self) -> Sequence[OperationView]:
        """Operations that run, and the last ones that are over, newest first."""
        return [
            operation.view() for operation in self._desk.operations.all() if self.rights.may_see(operation.destination)
        ]

    def operation(self, operation_id: str) -> OperationView:
        """One operation. Raises ConfigurationError if it is not known."""
        operation = self._desk.operations.find(operation_id)
        self.rights.check_see(operation.destination)
        return operation.view()

    async def finished(self, operation: Operation) -> OperationView:
        """Wait for the end of an operation."""
        return await self._desk.operations.wait(operation)

    def cancel(self, operation_id: str) -> OperationView:
        """Let an operation end behind the commit that it is at; what it has done stays done."""
        operation = self._desk.operations.find(operation_id)
        self._check(operation.destination, "cancel")
        operation.is_cancelled = True
        return operation.view()

    # -- destinations, clients, mastership -------------------------------------------------------------------------

    async def pause(self, name: str, side: str = "consumers") -> None:
        """Deliver nothing of a queue, or take nothing for it, or both, until `resume`: restarts and failovers keep it.

        Who sends to a destination that takes nothing hears an error: nothing that was taken is lost.
        """
        await self._switch("pause", name, side, is_on=True)

    async def resume(self, name: str, side: str = "both") -> None:
        """Take a pause back."""
        await self._switch("resume", name, side, is_on=False)

    async def _switch(self, action: str, name: str, side: str, *, is_on: bool) -> None:
        destination = self._known(name, action)
        if side not in SIDES:
            raise ConfigurationError(f"side has to be one of {', '.join(SIDES)}, got {side!r}")
        if is_on and side != "producers" and not destination.is_queue:
            raise ConfigurationError("a topic can be paused for producers only: it keeps nothing for those who wait")

        sides = {CONSUMERS, PRODUCERS} if side == "both" else {side}

        async def switching() -> None:
            await self._broker.pauses.change(destination, sides, is_on=is_on)

        await self._audited(action, f"{destination} {side}", switching)

    async def create(self, name: str) -> None:
        """Make a queue or topic that stays although nobody uses it, until the broker stops."""
        destination = parse_destination(name)
        self._require_master()
        self._check(destination, "create")

        async def creating() -> None:
            self._desk.create(destination)

        await self._audited("create", str(destination), creating)

    async def delete_destination(self, name: str) -> OperationView | None:
        """Forget a queue with its messages, or a topic without subscriptions, for good. Nobody may be using it.

        Returns:
            What became of its messages; None if there were none. If not all of them are gone, it stays.

        Raises:
            ProtocolError: somebody uses it.
        """
        destination = self._known(name, "delete")
        self._desk.check_unused(destination)
        purged = None
        if destination.is_queue and self._broker.queue(destination).depth:
            purged = await self.finished(self.purge(name))
            if purged.state != "done":
                return purged

        async def deleting() -> None:
            await self._desk.forget(destination)

        await self._audited("delete-destination", str(destination), deleting)
        return purged

    async def remove_subscription(self, client_id: str, name: str) -> None:
        """Remove a durable subscription that nobody uses, with what waits for it."""
        key = SubscriptionKey(client_id, name)
        self._require_master()
        for destination in self._broker.durables.topics_of(key):
            self._check(destination, "remove-subscription")

        async def removing() -> None:
            await self._desk.remove_subscription(key)

        await self._audited("remove-subscription", f"{client_id} {name}", removing)

    async def disconnect(self, connection_id: str) -> None:
        """End a client's connection; what it holds goes back. Raises ConfigurationError if there is none."""
        self._check_all("disconnect a client")
        client = next((one for one in self._broker.clients if one.connection_id == connection_id), None)
        if client is None:
            raise ConfigurationError(f"there is no connection {connection_id}")

        async def disconnecting() -> None:
            client.disconnect("An operator has ended this connection", reason=f"operator {self.rights.name}")

        await self._audited("disconnect", f"{connection_id} {client.peer}", disconnecting)

    async def remove_scheduled(self, job_id: str) -> None:
        """Forget a scheduled message."""
        self._require_master()
        self._check_all("remove scheduled messages")

        async def removing() -> None:
            await self._desk.remove_scheduled(job_id)

        await self._audited("remove-scheduled", job_id, removing)

    async def drain(self, *, is_on: bool = True) -> None:
        """Take no messages from clients any more, so that consumers finish what there is; or end that."""
        self._require_master()
        self._check_all("drain the broker")

        async def draining() -> None:
            self._broker.gate.drain(is_on=is_on)

        await self._audited("drain" if is_on else "end-drain", self._broker.options.broker_name, draining)

    async def hand_over(self) -> None:
        """Let a standby be master: clients are let go, everything that was taken is stored, the lock is released.

        Without a standby this broker is master again after some seconds.

        Raises:
            LockError: it is not master, or its store can have no standby.
        """
        self._check_all("hand mastership over")

        async def handing_over() -> None:
            self._desk.hand_over()

        await self._audited("hand-over", self._broker.options.broker_name, handing_over)

    # -- tools -----------------------------------------------------------------------------------------------------

    def _visible(self, name: str) -> Destination:
        destination = parse_destination(name)
        self.rights.check_see(destination)
        self._require_master()
        self._desk.check_known(destination)
        return destination

    def _queue(self, name: str, action: str) -> Destination:
        queue = self._known(name, action)
        if not queue.is_queue:
            raise ConfigurationError(f"{action} works on queues, and {queue} is none")
        return queue

    def _known(self, name: str, action: str) -> Destination:
        destination = parse_destination(name)
        self._require_master()
        self._check(destination, action)
        self._desk.check_known(destination)
        return destination

    def _require_master(self) -> None:
        if not self._broker.is_running:
            status = self._broker.lifecycle.status
            raise ProtocolError(f"this broker is {status.state}: {status.reason}; ask the master")

    def _check(self, destination: Destination, action: str) -> None:
        try:
            self.rights.check_admin(destination)
        except NotAuthorized as error:
            self._write(action, str(destination), f"denied: {error}")
            raise

    def _check_all(self, what: str) -> None:
        try:
            self.rights.check_admin_everything(what)
        except NotAuthorized as error:
            self._write(what, "broker", f"denied: {error}")
            raise

    async def _audited(self, action: str, subject: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do something, and write down what became of it."""
        try:
            result = await work()
        except JdbcStoreError as error:
            self._write(action, subject, f"failed: {error}")
            raise
        self._write(action, subject, "done")
        return result

    def _write(self, action: str, subject: str, outcome: str) -> None:
        self._desk.audit.write(self._broker.now_ms(), self.rights.name, action, subject, outcome)


def _placed(message: Message, place: Destination) -> Message:
    """A message as it is put into another queue, it says where it was, and counts no deliveries."""
    placed = message.copy()
    placed.original_destination = message.destination
    placed.destination = place
    if message.transaction_id is not None:
        placed.original_transaction_id, placed.transaction_id = message.transaction_id, None
    placed.redelivery_counter = 0
    return placed


def _returned(message: Message, origin: Destination) -> Message:
    """A dead letter as it goes back to where it came from: what it was told as a dead letter is taken off, and it does
    not expire."""
    returned = _placed(message, origin)
    returned.original_destination = None
    returned.expiration = 0
    try:
        properties: Mapping[str, Value] = returned.properties
        if any(name in properties for name in _TOLD):
            returned.properties = {name: value for name, value in properties.items() if name not in _TOLD}
    except CodecError:
        pass  # properties that nobody can read are kept as they are
    return returned
