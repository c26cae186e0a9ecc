"""Into tables, row by row, by workers that may be on many machines.

Partitions are copied at the same time, each in transactions of its own that prove the lease; what is there already is
left. Then both sides are read again: of every destination the number, the bytes and a sum of the hashes of all rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from jdbcstore.migration.lease import MigrationLease
from jdbcstore.migration.migrated import Migrated, Moved
from jdbcstore.migration.plan import Workers
from jdbcstore.migration.rows import Digest, digests, ranges_of, rows_of
from jdbcstore.migration.table_target import RowTarget
from jdbcstore.store.jdbc.connection import opened
from jdbcstore.store.jdbc.dialect import database_for
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.message_indexes import build_message_indexes, drop_message_indexes

__all__ = ["Copied", "IdRange", "RowCopier", "digests_of_ranges", "merged"]

#: Of ids, both ends included.
IdRange = tuple[int, int]


class Copied(NamedTuple):
    """What was done about a partition.

    Args:
        messages: how many it has.
        skipped: how many of them were there already.
    """

    messages: int
    skipped: int


class RowCopier(ABC):
    """Brings rows into tables that are held.

    Args:
        workers: who does it.
    """

    #: What else is copied, for people.
    rest_title: str
    advice = "stop whoever writes to the source or has written to the target, and run the migration again"

    def __init__(self, workers: Workers) -> None:
        self.workers: Final = workers

    @abstractmethod
    def survey(self, done: Migrated) -> None:
        """As `Copier.survey`."""

    @abstractmethod
    def copy_messages(self, lease: MigrationLease, tasks_max: int | None) -> list[Copied]:
        """Copy what is not there yet, as `Workers.map` does it."""

    @abstractmethod
    def copy_rest(self, lease: MigrationLease) -> dict[str, int]:
        """Copy everything else, with all indexes there. Returns what it was, and how many."""

    @abstractmethod
    def digests(self) -> list[dict[str, Digest]]:
        """What the source comes to now, in parts, as `Workers.map` finds it."""

    def copy(self, target: RowTarget, done: Migrated) -> list[str]:
        lease, run = target.lease, self.workers.run
        done.is_resumed = lease.is_resumed
        if not lease.is_resumed:
            with opened(lease.location) as store:
                drop_message_indexes(store.connection, store.location.options.table_names)
        tasks_max = database_for(lease.location.url.get_backend_name()).writers_max
        copied = run("copying messages", lambda: self.copy_messages(lease, tasks_max))
        run("making indexes", lambda: _build_indexes(lease.location))
        done.others = run(self.rest_title, lambda: self.copy_rest(lease))
        there, here = run("comparing", lambda: (merged(self.digests()), merged(self._found(lease.location))))
        for name, digest in sorted(here.items()):
            done.count(name, Moved(digest.messages, digest.bytes, digest.words))
        done.copied = sum(one.messages - one.skipped for one in copied)
        return [_difference(name, there.get(name), here.get(name)) for name in _unlike(there, here)]

    def _found(self, location: StoreLocation) -> list[dict[str, Digest]]:
        with opened(location) as store:
            ranges = ranges_of(store)
        return self.workers.map(partial(digests_of_ranges, location), ranges)


def digests_of_ranges(location: StoreLocation, ranges: Iterable[IdRange]) -> Iterator[dict[str, Digest]]:
    """What rows of a table come to, by ranges of their ids."""
    with opened(location) as store:
        for first, last in ranges:
            yield digests(rows_of(store, first, last))


def merged(parts: Iterable[dict[str, Digest]]) -> dict[str, Digest]:
    """All parts together."""
    total: dict[str, Digest] = {}
    for part in parts:
        for name, one in part.items():
            total.setdefault(name, Digest()).add(one.messages, one.bytes, one.content)
    return total


def _unlike(there: dict[str, Digest], here: dict[str, Digest]) -> list[str]:
    return sorted(name for name in {*there, *here} if there.get(name) != here.get(name))


def _difference(name: str, there: Digest | None, here: Digest | None) -> str:
    there, here = there or Digest(), here or Digest()
    if there.messages == here.messages:
        return name
    return f"{name}: {there.messages} messages there, {here.messages} here"


def _build_indexes(location: StoreLocation) -> None:
    with opened(location) as store:
        build_message_indexes(store.connection, store.location.options.table_names)
