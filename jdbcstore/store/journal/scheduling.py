"""The journal of scheduled messages, as the store of the messages sees it.

ActiveMQ keeps scheduled messages in a KahaDB journal, whatever the store of its messages is
(`jdbcstore.store.journal.kahadb.scheduler_journal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from jdbcstore.store.journal.commands import Command
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.journal_format import BatchPlace
from jdbcstore.store.journal.record_reader import RecordReader
from jdbcstore.store.journal.records import Location, Record

__all__ = ["Scheduling"]


class Scheduling(Protocol):
    """A journal that gets the scheduler's commands behind that of the messages."""

    @property
    def reader(self) -> RecordReader:
        """Reads jobs."""

    @property
    def last_batch(self) -> BatchPlace | None:
        """Its last batch."""

    def open(self) -> None:
        """Find its end, if it is there."""

    def append(self, commands: Sequence[Command]) -> Sequence[Location]:
        """Write a batch; where each command stands."""

    def force(self) -> None:
        """Return when everything is safe."""

    def records(self) -> Iterator[Record]:
        """All that is in it."""

    def behind(self, position: BatchPlace) -> Iterator[Record]:
        """What stands behind a batch of it. Raises `jdbcstore.store.journal.applier.ForeignRecord` if it is not
        there."""

    def jobs(self) -> Iterator[tuple[Command, Location, int]]:
        """The jobs that there are, each as the command that adds it, where it stands, how often it was rescheduled."""

    def clean(self, index: Index, checkpoint: Callable[[], object]) -> None:
        """Remove the oldest files if most of what the journal holds is over."""

    def close(self) -> None:
        """Force it to the disk and let go of it."""

    def abandon(self) -> None:
        """Let go of it."""
