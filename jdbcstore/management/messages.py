"""What one person does with messages.

Actions work on all that match, not on a page: each is an operation (`jdbcstore.management.operations`) in small
commits, with progress, that may be cancelled. With ``is_dry_run`` it counts and does nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from jdbcstore.destination import Destination, Queue, parse_destination
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.management.access import Access
from jdbcstore.management.filters import EVERYTHING, Filter
from jdbcstore.management.operations import Operation, Placing
from jdbcstore.management.views import (
    MessagePage,
    OperationView,
)
from jdbcstore.message import Message
from jdbcstore.primitives import Value

__all__ = ["Messages"]

#: What names an import.
_RUN: Final = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)
#: Messages in one commit of `Messages.restore`.
_RESTORED_MAX: Final = 1000
#: What a dead letter was told, and what does not hold any more when it is back.
_TOLD: Final = ("dlqDeliveryFailureCause", "originalExpiration", "originalDeliveryMode")


class Messages(Access):
    """Messages: read, sent, moved, removed, changed; and the operations that do so."""

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
            return str(await self._desk.publish(message, destination))

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
            if origin is None or origin == queue or origin.is_temporary or not origin.is_storable:
                raise LookupError
            if not self.rights.may_admin(origin):
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
