"""What a database says that only a SQL store can meet."""

from __future__ import annotations

from jdbcstore.errors import StoreError, TransientStoreError

__all__ = ["AccessDenied", "ConnectionLost", "Deadlock", "OtherHistory"]


class ConnectionLost(TransientStoreError):
    """The line to the database broke. If a commit was under way nobody knows yet what became of it."""


class OtherHistory(ConnectionLost):
    """A connection leads to other data than those in which we are master: the database has failed over."""


class Deadlock(TransientStoreError):
    """A transaction was rolled back at once for the sake of another one: a deadlock, a serialization failure, a
    certification that failed. Nothing was written, and the same may succeed a moment later."""


class AccessDenied(StoreError):
    """The database does not let us in: a password, a name or a permission is wrong. Waiting does not help."""
