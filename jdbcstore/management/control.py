"""What one person does with a running broker: its destinations, its clients, its mastership."""

from __future__ import annotations

from functools import partial
from typing import Final

from jdbcstore.broker.pauses import CONSUMERS, PRODUCERS
from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.management.access import Access
from jdbcstore.management.filters import EVERYTHING
from jdbcstore.management.views import (
    OperationView,
)
from jdbcstore.subscription import SubscriptionKey

__all__ = ["SIDES", "Control"]

#: What of a destination can be paused.
SIDES: Final = (CONSUMERS, PRODUCERS, "both")


class Control(Access):
    """Destinations, subscriptions, clients, scheduled messages, transactions in doubt, mastership."""

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
            purge = self._desk.operations.begin(
                "purge", self.rights.name, destination, EVERYTHING, lambda message: None, is_dry_run=False
            )
            purged = await self._desk.operations.wait(purge)
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
            raise ConfigurationError(f"there is no connection {connection_id} (any more): 'connections' lists them")

        async def disconnecting() -> None:
            client.disconnect("An operator has ended this connection", reason=f"operator {self.rights.name}")

        await self._audited("disconnect", f"{connection_id} {client.peer}", disconnecting)

    async def remove_scheduled(self, job_id: str) -> int:
        """Forget a scheduled message. Returns how many there were, one or none: it may have been sent meanwhile."""
        self._require_master()
        self._check_all("remove scheduled messages")
        return await self._audited("remove-scheduled", job_id, partial(self._desk.remove_scheduled, job_id))

    async def remove_all_scheduled(self) -> int:
        """Forget every scheduled message. Returns how many there were."""
        self._require_master()
        self._check_all("remove scheduled messages")
        return await self._audited("remove-scheduled", "all", self._desk.remove_all_scheduled)

    async def decide(self, xid: str, *, commits: bool) -> None:
        """Commit a transaction in doubt, or roll it back, for a transaction manager that never will.

        Args:
            xid: `PreparedView.xid`.
            commits: how.

        Raises:
            ConfigurationError: it is no id of a transaction.
            UnknownTransaction: it is not in doubt.
            StoreError: it is being decided just now, or the store refuses; it is in doubt as before.
        """
        self._require_master()
        self._check_all("decide about transactions in doubt")

        action = "commit-prepared" if commits else "rollback-prepared"
        await self._audited(action, xid, partial(self._desk.decide, xid, commits=commits))

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
