"""What the parts of the store get of its adapter (`jdbcstore.store.journal.adapter`), which makes them."""

from __future__ import annotations

import threading
from typing import Protocol

from jdbcstore.store.journal.committer import Committer
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.record_reader import RecordReader
from jdbcstore.store.journal.scheduling import Scheduling
from jdbcstore.store.journal.store_format import StoreFormat, StoreOptions

__all__ = ["StoreHost"]


class StoreHost(Protocol):
    """A store that is open."""

    #: The one door to the journal.
    committer: Committer
    #: In which messages are marshalled.
    wire_version: int

    @property
    def format(self) -> StoreFormat:
        """Of the journal."""

    @property
    def options(self) -> StoreOptions:
        """Limits and rules."""

    @property
    def order(self) -> threading.Lock:
        """Held while a number is given out and its message submitted: written is in the order of the numbers."""

    @property
    def reader(self) -> RecordReader:
        """Reads messages."""

    @property
    def scheduler(self) -> Scheduling:
        """The journal of scheduled messages."""

    @property
    def index(self) -> Index | None:
        """The index; None unless started."""

    def reading(self) -> Index:
        """The index, to be read. Raises `StoreClosed` unless started."""

    def opened(self) -> Index:
        """The same, also when a write has failed. Raises `StoreClosed` unless started."""

    def next_sequence(self) -> int:
        """The next number. The caller holds `order`."""
