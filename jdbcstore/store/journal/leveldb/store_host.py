"""What the parts of the store get of its adapter (`jdbcstore.store.journal.leveldb.adapter`), which makes them."""

from __future__ import annotations

import threading
from typing import Protocol

from jdbcstore.store.journal.leveldb.committer import Committer
from jdbcstore.store.journal.leveldb.live import Live
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.options import LevelDBOptions

__all__ = ["StoreHost"]


class StoreHost(Protocol):
    """A store that is open."""

    #: The one door to the log.
    committer: Committer
    #: In which messages are marshalled.
    wire_version: int
    #: Whether they are written as Snappy blocks.
    is_compressed: bool
    #: Reads messages.
    reader: MessageReader

    @property
    def options(self) -> LevelDBOptions:
        """Limits and rules."""

    @property
    def order(self) -> threading.Lock:
        """Held while a number is given out and its message submitted: written is in the order of the numbers."""

    def reading(self) -> Live:
        """What is there, to be read. Raises `StoreClosed` unless started."""

    def opened(self) -> Live:
        """The same, also when a write has failed. Raises `StoreClosed` unless started."""

    def next_sequence(self) -> int:
        """The next number. The caller holds `order`."""
