"""The temporary destinations of one connection, by the names that its client gave them."""

from __future__ import annotations

from collections.abc import Iterator

from jdbcstore.broker.access import Access
from jdbcstore.broker.client_account import ClientAccount
from jdbcstore.broker.memory import TEMPORARY_BYTES
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.destination import Destination, TempQueue, TempTopic
from jdbcstore.errors import NoSuchDestination, ProtocolError

__all__ = ["Temporaries"]


class Temporaries:
    """Makes temporary destinations at their first use and removes them with the connection.

    Args:
        broker: has to know them.
        connection_id: what their physical names begin with.
        access: may the client have any?
        account: what the connection keeps, which they are part of.
    """

    __slots__ = ("_access", "_account", "_broker", "_by_name", "_count", "connection_id", "names")

    def __init__(self, broker: RegionHost, connection_id: str, access: Access, account: ClientAccount) -> None:
        self._account = account
        self._access = access
        self._broker = broker
        #: What their physical names begin with.
        self.connection_id = connection_id
        self._count = 0
        self._by_name: dict[str, Destination] = {}
        #: What the client calls them.
        self.names: dict[Destination, str] = {}

    def get(self, name: str, *, is_queue: bool) -> Destination:
        """The queue or topic that the client calls `name`; the same name always means the same.

        Raises:
            ProtocolError: it would be one too many.
            NotAuthorized: the client may have none.
        """
        destination = self._by_name.get(name)
        if destination is None:
            self._count += 1
            kind = TempQueue if is_queue else TempTopic
            destination = kind(f"{self.connection_id}:{self._count}")
            self._add(name, destination)
        return destination

    def add(self, destination: Destination) -> None:
        """A temporary destination that the client has named itself, after its connection; nothing if it has it already.

        Raises:
            ProtocolError: its name is not the connection's, or it would be one too many.
            NotAuthorized: the client may have none.
        """
        name = destination.physical_name
        if not (destination.is_temporary and name.startswith(f"{self.connection_id}:")):
            raise ProtocolError(f"{destination} is no temporary destination of connection {self.connection_id}")
        if destination not in self.names:
            self._add(destination.qualified_name, destination)

    def _add(self, name: str, destination: Destination) -> None:
        most = self._broker.options.temporary_destinations_max
        if len(self.names) >= most:
            raise ProtocolError(
                f"Too many temporary destinations: temporary_destinations_max is {most} for a connection."
                " Use one of them for several requests"
            )
        self._access.check_create(destination)
        self._account.keep(_kept_bytes(name), "This temporary destination", "Use fewer of them")
        self._by_name[name] = destination
        self.names[destination] = name
        self._broker.add_temporary(destination, self.connection_id)

    def remove(self, destination: Destination) -> None:
        """The client does not need one of them any more: it is forgotten with all that is in it.

        Raises:
            ProtocolError: the client has none of this name, or somebody is subscribed to it.
        """
        if destination not in self.names:
            raise NoSuchDestination(str(destination))
        if self._broker.has_consumers(destination):
            raise ProtocolError(f"Destination still has an active subscription: {destination}")
        self._remove(destination)

    def _remove(self, destination: Destination) -> None:
        name = self.names.pop(destination)
        del self._by_name[name]
        self._account.give_up(_kept_bytes(name))
        self._broker.remove_temporary(destination)

    def removing(self) -> Iterator[None]:
        """The connection is gone; a job."""
        while self.names:
            self._remove(next(iter(self.names)))
            yield


def _kept_bytes(name: str) -> int:
    return TEMPORARY_BYTES + 2 * len(name)
