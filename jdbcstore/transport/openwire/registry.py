"""What a client has made: its sessions, with their consumers and producers.

What it makes twice is made once. Who names what it never made, or has closed, hears the IllegalStateException of a Java
broker, and so does a consumer or producer of such a session.
"""

from __future__ import annotations

from typing import Final

from jdbcstore.broker.client_account import ClientAccount
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.destination import Destination
from jdbcstore.errors import ProtocolError
from jdbcstore.identifiers import ConsumerId, ProducerId, SessionId
from jdbcstore.transport.openwire.exceptions import JavaError

__all__ = ["Registry"]

#: What an id takes in memory, with its places.
_ID_BYTES: Final = 384

#: The session that each connection has without a SessionInfo: its own consumers, those of advisories, are in it.
_OWN_SESSION: Final = -1


class _Session:
    __slots__ = ("consumers", "producers")

    def __init__(self) -> None:
        self.consumers: set[ConsumerId] = set()
        self.producers: set[ProducerId] = set()


class Registry:
    """What one client has made.

    Args:
        account: what the client makes the broker keep.
        connection_id: the client's.
        options: how many producers there may be, and a name for the texts of errors.

    Attributes:
        producers: of all its sessions.
    """

    __slots__ = ("_account", "_options", "_sessions", "producers")

    def __init__(self, account: ClientAccount, connection_id: str | None, options: BrokerOptions) -> None:
        self._account = account
        self._options = options
        self._sessions = {SessionId(connection_id, _OWN_SESSION): _Session()}
        self.producers: set[ProducerId] = set()

    def add_session(self, session_id: SessionId) -> None:
        """A session begins, unless it is there.

        Raises:
            ProtocolError: it is too much.
        """
        if session_id not in self._sessions:
            self._account.keep(_ID_BYTES, "This session", "Close another one first")
            self._sessions[session_id] = _Session()

    def add_consumer(self, consumer_id: ConsumerId) -> bool:
        """A consumer begins.

        Returns:
            False if it is there: nothing is to be done.

        Raises:
            JavaError: there is no such session.
            ProtocolError: it is too much.
        """
        session = self._session(consumer_id, f"{self._options.broker_name} Cannot add a consumer to a session")
        if consumer_id in session.consumers:
            return False
        self._account.keep(_ID_BYTES, "This consumer", "Close another one first")
        session.consumers.add(consumer_id)
        return True

    def add_producer(self, producer_id: ProducerId, destination: Destination | None) -> bool:
        """A producer begins; one of advisories begins whatever their number. Else as `add_consumer`."""
        session = self._session(producer_id, "Cannot add a producer to a session")
        if producer_id in session.producers:
            return False
        is_counted = destination is None or not destination.is_advisory
        if is_counted and len(self.producers) >= self._options.producers_max:
            raise ProtocolError(
                f"Too many producers: producers_max is {self._options.producers_max} for a connection. Close one first"
            )
        self._account.keep(_ID_BYTES, "This producer", "Close another one first")
        session.producers.add(producer_id)
        self.producers.add(producer_id)
        return True

    def remove_consumer(self, consumer_id: ConsumerId) -> None:
        """A consumer ends. Raises JavaError if there is none."""
        session = self._session(consumer_id, "Cannot remove a consumer from a session")
        if consumer_id not in session.consumers:
            raise _not_there("Cannot remove a consumer", consumer_id)
        session.consumers.remove(consumer_id)
        self._account.give_up(_ID_BYTES)

    def remove_producer(self, producer_id: ProducerId) -> None:
        """A producer ends. Raises JavaError if there is none."""
        session = self._session(producer_id, "Cannot remove a producer from a session")
        if producer_id not in session.producers:
            raise _not_there("Cannot remove a producer", producer_id)
        session.producers.remove(producer_id)
        self.producers.remove(producer_id)
        self._account.give_up(_ID_BYTES)

    def remove_session(self, session_id: SessionId) -> None:
        """A session ends, with its consumers and producers. Raises JavaError if there is none."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            raise _not_there("Cannot remove session", session_id)
        self.producers -= session.producers
        count = len(session.consumers) + len(session.producers) + (session_id.value != _OWN_SESSION)
        self._account.give_up(count * _ID_BYTES)

    def _session(self, member: ConsumerId | ProducerId, what: str) -> _Session:
        """The session of a consumer or producer. Raises JavaError that says what cannot be done if there is none."""
        session_id = SessionId(member.connection_id, member.session_id)
        session = self._sessions.get(session_id)
        if session is None:
            raise _not_there(what, session_id)
        return session


def _not_there(what: str, identity: SessionId | ConsumerId | ProducerId) -> JavaError:
    return JavaError("java.lang.IllegalStateException", f"{what} that had not been registered: {identity}")
