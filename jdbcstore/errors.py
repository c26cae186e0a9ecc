"""Every error that jdbcstore raises on purpose.

::

    JdbcStoreError
    ├── ConfigurationError        an option, URL or file is wrong; the text says which and what would be right
    ├── StoreError                the store could not do what was asked
    │   ├── MessageTooLarge       the message does not fit the store or its limits; never retried
    │   ├── DuplicateMessage      the row's id is taken: another broker writes the same tables
    │   ├── TransientStoreError   connection lost, deadlock, timeout: nothing was written, trying again may help
    │   │   ├── StoreFull         the database has no room left
    │   │   ├── StoreReadOnly     the server accepts no writes (a failover target, a mounted-read-only disk)
    │   │   ├── NotReplicated     the database has fewer replicas than ``require_replication`` wants
    │   │   ├── HistoryLost       the database is an older copy of itself
    │   │   └── StoreUnavailable  the database cannot be reached, and was waited for as long as the options say
    │   ├── UnknownTransaction    no transaction of this id is prepared
    │   ├── OutcomeUnknown        the line broke during COMMIT and the store could not be asked since
    │   ├── JournalDamaged        a record of a KahaDB journal is not what it should be
    │   ├── IndexDamaged          the index of a KahaDB directory is not what it should be
    │   ├── SchemaMismatch        tables are missing, old or of another shape; ``jdbcstore schema`` tells more
    │   └── StoreClosed           the adapter is stopped
    ├── LockError                 mastership
    │   ├── LockHeld              another broker is master
    │   └── LeaseLost             we are not master any more; nothing was written
    ├── SecurityError             who somebody is or may do
    │   ├── LoginRefused          login or passcode is wrong; the text does not say which
    │   └── NotAuthorized         the user may not do this; the text says who, what and with which destination
    ├── SelectorError             a selector cannot be read; the text says where and what would be right
    ├── UnknownDestination        there is no queue or topic of this name; the text says which ones are like it
    ├── ConnectionClosed          a connection to a broker in this process is closed, or there is none
    ├── ProtocolError             the peer's bytes break its protocol, or it asks for what cannot be done
    │   ├── ClientIdTaken         another client has the client id
    │   ├── ForeignDestination    a temporary destination is another connection's
    │   ├── NoSuchDestination     a temporary destination is not there any more
    │   ├── NoSuchSubscription    there is no durable subscription of this name
    │   └── TransactionRolledBack the transaction cannot be committed, and is rolled back
    └── CodecError                bytes that are not OpenWire, or a value that cannot be written as OpenWire

Drivers' errors never leave the store: they are mapped once, at its edge, and stay reachable as ``__cause__``.
"""

from __future__ import annotations

__all__ = [
    "ClientIdTaken",
    "CodecError",
    "ConfigurationError",
    "ConnectionClosed",
    "DuplicateMessage",
    "ForeignDestination",
    "HistoryLost",
    "IndexDamaged",
    "JdbcStoreError",
    "JournalDamaged",
    "LeaseLost",
    "LockError",
    "LockHeld",
    "LoginRefused",
    "MessageTooLarge",
    "NoSuchDestination",
    "NoSuchSubscription",
    "NotAuthorized",
    "NotReplicated",
    "OutcomeUnknown",
    "ProtocolError",
    "SchemaMismatch",
    "SecurityError",
    "SelectorError",
    "StoreClosed",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "TransactionRolledBack",
    "TransientStoreError",
    "UnknownDestination",
    "UnknownTransaction",
]


class JdbcStoreError(Exception):
    """Root of all errors of this package."""


class ConfigurationError(JdbcStoreError):
    """An option, a URL or a configuration file is wrong; the text says which and what would be right."""


class StoreError(JdbcStoreError):
    """The store could not do what was asked."""


class MessageTooLarge(StoreError):
    """The message does not fit the store or one of its limits. Never retried."""


class DuplicateMessage(StoreError):
    """The row's id is taken although this store gave it out: another broker writes the same tables."""


class TransientStoreError(StoreError):
    """Connection lost, deadlock, timeout. Nothing was written; trying again may help."""


class StoreFull(TransientStoreError):
    """The database has no room left. Nothing was written."""


class StoreReadOnly(TransientStoreError):
    """The server accepts no writes at the moment. Nothing was written."""


class StoreUnavailable(TransientStoreError):
    """The database cannot be reached and was waited for long enough. Nothing was written."""


class NotReplicated(TransientStoreError):
    """The database promises less of its replicas than ``require_replication`` wants; nobody becomes master there."""


class HistoryLost(TransientStoreError):
    """The database lacks what this process has seen in it: it was replaced by an older copy.

    What was acknowledged since that copy was made may be gone. With ``require_replication`` nobody goes on who has seen
    it; starting the broker again is to say that one knows.
    """


class UnknownTransaction(StoreError):
    """No transaction of this id is prepared: it never was, or it was committed or rolled back."""


class OutcomeUnknown(StoreError):
    """The line broke during COMMIT and the database could not be asked since: written or not, nobody knows yet."""


class JournalDamaged(StoreError):
    """A record of a KahaDB journal is not what it should be; the text says which, where and how."""


class IndexDamaged(StoreError):
    """The index of a KahaDB directory is not what it should be. The journal does not need it."""


class SchemaMismatch(StoreError):
    """Tables are missing, old or of another shape than any that this package knows."""


class StoreClosed(StoreError):
    """The adapter is stopped or was never started."""


class LockError(JdbcStoreError):
    """Something about mastership."""


class LockHeld(LockError):
    """Another broker is master of this store."""


class LeaseLost(LockError):
    """This broker is not master any more; the write that met this was rolled back."""


class SecurityError(JdbcStoreError):
    """Something about who somebody is and what he may do."""


class LoginRefused(SecurityError):
    """A login or its passcode is wrong. The text names the login and does not say which of the two it is."""


class NotAuthorized(SecurityError):
    """The user may not do this; the text says who, what and with which destination, in ActiveMQ's words."""


class SelectorError(JdbcStoreError):
    """A selector cannot be read, or is larger than allowed.

    Args:
        expected: what would have been right.
        found: what stands there instead.
        position: where; in characters from 1, not counting a prefix such as ``convert_string_expressions:``.
    """

    def __init__(self, expected: str, found: str, position: int) -> None:
        super().__init__(f"Selector: expected {expected}, found {found} at character {position}")
        self.expected = expected
        self.found = found
        self.position = position

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.expected, self.found, self.position)


class UnknownDestination(JdbcStoreError):
    """There is no queue or topic of this name; the text says which ones are like it."""


class ConnectionClosed(JdbcStoreError):
    """A connection to a broker in this process has ended, or cannot be made; the text says why.

    Args:
        message: why.
        is_unknown: whether what was asked for may have taken effect: it was under way when the connection ended.
    """

    def __init__(self, message: str, *, is_unknown: bool = False) -> None:
        super().__init__(message)
        self.is_unknown = is_unknown


class ProtocolError(JdbcStoreError):
    """The peer's bytes break the protocol.

    Args:
        message: one sentence for the peer.
        fatal: whether the connection cannot go on after it.
    """

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


class ClientIdTaken(ProtocolError):
    """Another client has the client id; the text says which and where it is."""


class ForeignDestination(ProtocolError):
    """A temporary destination cannot be consumed from: it is another connection's.

    Args:
        destination: its qualified name.
    """

    def __init__(self, destination: str) -> None:
        super().__init__(
            f"Cannot subscribe to remote temporary destination: {destination}. Consuming from one that was created by"
            " another connection is not permitted"
        )
        self.destination = destination

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.destination,)


class NoSuchDestination(ProtocolError):
    """A temporary destination is not there any more, or never was.

    Args:
        destination: its qualified name.
    """

    def __init__(self, destination: str) -> None:
        super().__init__(f"The destination {destination} does not exist.")
        self.destination = destination

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.destination,)


class NoSuchSubscription(ProtocolError):
    """There is no durable subscription of this name."""


class TransactionRolledBack(ProtocolError):
    """The transaction cannot be committed, and is rolled back; the text says why."""


class CodecError(JdbcStoreError):
    """Bytes that are not OpenWire, or a value that cannot be written as OpenWire.

    Args:
        message: what is wrong.
        offset: position in the frame, in bytes from its first byte (the size prefix), if known.
        field: dotted path of the field that was read or written, if known.
    """

    def __init__(self, message: str, *, offset: int | None = None, field: str | None = None) -> None:
        where = "".join(
            [f" at byte {offset}" if offset is not None else "", f" in field {field}" if field is not None else ""]
        )
        super().__init__(message + where)
        self.offset = offset
        self.field = field


def may_pass(error: BaseException) -> bool:
    """Whether an error says nothing about what was to be written: the same may succeed a moment later."""
    return isinstance(error, TransientStoreError | OutcomeUnknown | StoreClosed | LockError | DuplicateMessage)
