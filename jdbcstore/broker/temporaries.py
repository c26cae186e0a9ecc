"""The temporary destinations of one connection, by the names that its client gave them."""

from __future__ import annotations

from collections.abc import Iterator

from jdbcstore.broker.access import Access
from jdbcstore.broker.client_account import ClientAccount
from jdbcstore.broker.memory import TEMPORARY_BYTES
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.destination import Destination, TempQueue, TempTopic
from jdbcstore.errors import ProtocolError

__all__ = ["Temporaries"]


class Temporaries:
    """Makes temporary destinations at their first use and removes them with the connection.

    Args:
        broker: has to know them.
        connection_id: what their physical names begin with.
        access: may the client have any?
        account: what the connection keeps, which they are part of.
    """

    __slots__ = ("_access", "_account", "_broker", "_by_name", "_connection_id", "names")

    def __init__(self, broker: RegionHost, connection_id: str, access: Access, account: ClientAccount) -> None:
        self._account = account
        self._access = access
        self._broker = broker
        self._connection_id = connection_id
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
            count = len(self._by_name)
            if count >= self._broker.options.temporary_destinations_max:
                most = self._broker.options.temporary_destinations_max
                raise ProtocolError(
                    f"Too many temporary destinations: temporary_destinations_max is {most} for a connection."
                    " Use one of them for several requests"
                )
            kind = TempQueue if is_queue else TempTopic
            destination = kind(f"{self._connection_id}:{count + 1}")
            self._access.check_create(destination)
            self._account.keep(TEMPORARY_BYTES + 2 * len(name), "This temporary destination", "Use fewer of them")
            self._by_name[name] = destination
            self.names[destination] = name
            self._broker.add_temporary(destination)
        return destination

    def removing(self) -> Iterator[None]:
        """The connection is gone; a job."""
        for destination in self.names:
            self._broker.remove_temporary(destination)
            yield
