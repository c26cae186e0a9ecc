"""Errors as Java clients know them: the class by which `ExceptionResponse` and `ConnectionError` name an exception."""

from __future__ import annotations

from typing import Final

from jdbcstore.errors import (
    ClientIdTaken,
    ForeignDestination,
    JdbcStoreError,
    LockError,
    NoSuchDestination,
    NoSuchSubscription,
    OutcomeUnknown,
    ProtocolError,
    SecurityError,
    SelectorError,
    StoreClosed,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TransactionRolledBack,
)
from jdbcstore.openwire.commands import Throwable

__all__ = ["JavaError", "cause_text", "is_end_of_service", "throwable_of"]

#: The first one that fits. A client turns what is no JMSException into one.
_CLASSES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (SecurityError, "java.lang.SecurityException"),
    (SelectorError, "javax.jms.InvalidSelectorException"),
    (ClientIdTaken, "javax.jms.InvalidClientIDException"),
    (NoSuchSubscription, "javax.jms.InvalidDestinationException"),
    (ForeignDestination, "javax.jms.InvalidDestinationException"),
    (NoSuchDestination, "org.apache.activemq.DestinationDoesNotExistException"),
    (TransactionRolledBack, "javax.jms.TransactionRolledBackException"),
    (StoreFull, "javax.jms.ResourceAllocationException"),
)
_OTHERS: Final = "javax.jms.JMSException"

#: A text of OpenWire has at most 65 535 bytes, and one that is longer than a screen helps nobody.
_TEXT_CHARACTERS_MAX: Final = 10_000

#: The broker does not serve anybody after these.
_END: Final = (LockError, OutcomeUnknown, StoreClosed, StoreReadOnly, StoreUnavailable)


class JavaError(ProtocolError):
    """What a Java broker tells by an exception of this class.

    Args:
        class_name: the class's.
        message: one sentence for the client.
    """

    def __init__(self, class_name: str, message: str) -> None:
        super().__init__(message)
        self.class_name = class_name


def is_end_of_service(error: BaseException) -> bool:
    """Whether the broker ends its service with this error, so that its clients have to look for another one."""
    return isinstance(error, _END)


def throwable_of(error: BaseException) -> Throwable:
    """An error as the exception that a Java broker would have thrown."""
    if isinstance(error, JavaError):
        name = error.class_name
    else:
        name = next((name for kind, name in _CLASSES if isinstance(error, kind)), _OTHERS)
    text = str(error) if isinstance(error, JdbcStoreError) else f"{type(error).__name__}: {error}"
    if isinstance(error, NoSuchDestination):
        text = error.destination  # what its class takes for its message
    return Throwable(class_name=name, message=text[:_TEXT_CHARACTERS_MAX], stack=())


def cause_text(cause: Throwable | None) -> str | None:
    """Why a client has given a message up, as Java prints the exception that it tells; None if it tells none."""
    if cause is None:
        return None
    name = cause.class_name or "java.lang.Throwable"
    return name if cause.message is None else f"{name}: {cause.message}"
