"""What the parts of an mKahaDB store ask of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from jdbcstore.destination import Destination
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import MessageStore
from jdbcstore.store.journal.commands import Command
from jdbcstore.store.journal.mkahadb.child import Child
from jdbcstore.store.transactions import TransactionLimits

__all__ = ["StoreHost"]

T = TypeVar("T")


class StoreHost(Protocol):
    """The adapter."""

    @property
    def options(self) -> TransactionLimits:
        """Of one transaction."""

    def children(self) -> list[Child]:
        """The stores that are open. Raises `StoreClosed`."""

    def any_child(self) -> Child:
        """One for what belongs to no destination."""

    def child_of(self, destination: Destination) -> Child:
        """The store of a destination, which is made if it is not there."""

    def child_of_store(self, store: MessageStore) -> Child:
        """The one that a store of messages is of. Raises `StoreError` when it is none of this adapter."""

    def scheduling_child(self) -> Child:
        """The one in whose index the scheduled messages are; it is made if it is not there."""

    def scheduling_child_if_there(self) -> Child | None:
        """The same, None if it is not there."""

    def run(self, task: Callable[[], T], done: Completion[T], at_the_end: Callable[[], object] = lambda: None) -> None:
        """Do something in the thread for what is over several stores, and tell the outcome."""

    def new_xid(self) -> XATransactionId:
        """The next id of a transaction over several stores."""

    def decided(self, xid: XATransactionId, scheduled: Sequence[Command]) -> None:
        """The outcome is a commit, which does this to scheduled messages. Raises `OutcomeUnknown`."""

    def done(self, xid: XATransactionId) -> None:
        """It is done everywhere; if that cannot be written the next start finds nothing to do."""
