"""One person at the desk: what it may see and do is asked for each call, and what it did, or was refused, is written
down."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.lifecycle import State
from jdbcstore.destination import Destination, parse_destination
from jdbcstore.errors import ConfigurationError, JdbcStoreError, NotAuthorized, ProtocolError
from jdbcstore.management.desk import Desk
from jdbcstore.management.rights import OPERATOR, Rights

__all__ = ["Access"]

T = TypeVar("T")


class Access:
    """What the parts of the face (`jdbcstore.management.management`) ask before they do something.

    Args:
        desk: of the broker.
        rights: whose the face is.
    """

    def __init__(self, desk: Desk, rights: Rights = OPERATOR) -> None:
        self.rights = rights
        self._desk = desk
        self._broker: Broker = desk.broker

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
        status = self._broker.lifecycle.status
        if not self._broker.is_running or status.state is not State.MASTER:
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
