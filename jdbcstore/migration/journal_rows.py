"""From a KahaDB directory into tables: messages by workers, durable subscriptions through the store, which knows how to
keep them.

The place of a message in the journal becomes its ID, so a run that goes on gives the same ids as the one before. What a
journal does not have, and the table does, is made as a broker on JDBC would: EXPIRATION and MSGID_… out of the message,
PRIORITY only where the broker had ``prioritizedMessages``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Final, TypeAlias

from jdbcstore.destination import Topic
from jdbcstore.errors import ConfigurationError, JournalDamaged
from jdbcstore.identifiers import MessageId
from jdbcstore.migration.journals import added_at, is_prioritized, subscription_info
from jdbcstore.migration.lease import MigrationLease
from jdbcstore.migration.migrated import Migrated, Moved
from jdbcstore.migration.plan import MigrationPlan, Workers
from jdbcstore.migration.row_copier import Copied, RowCopier
from jdbcstore.migration.rows import MESSAGE_COLUMNS, Digest, MessageRow, digests
from jdbcstore.migration.table_target import RowTarget, row_target, writing_options
from jdbcstore.openwire import unmarshal_message
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.connection import Opened, opened
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.journal import records
from jdbcstore.store.journal.kahadb.journal import JournalFile, Location
from jdbcstore.store.journal.state import State, StoredMessage

__all__ = ["JournalRows", "journal_plan"]

#: What one transaction brings, or one message that is larger.
_ROWS_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 4 << 20
#: What one task reads at a time, about.
_PART_BYTES: Final = 32 << 20
#: Read at once where messages stand; neighbours need one read then.
_CHUNK_BYTES: Final = 1 << 20

#: Where a message stands, its place among all messages, and the name of its destination.
Placed: TypeAlias = tuple[Location, int, str]
#: What one task reads at a time, in the order of the locations.
JournalPart: TypeAlias = list[Placed]
#: Its rows.
Read: TypeAlias = Callable[[JournalPart], Iterator[MessageRow]]


def journal_plan(
    path: str, journal: records.AnyJournal, state: State, target: StoreLocation, workers: Workers, *, skips_damage: bool
) -> MigrationPlan[RowTarget]:
    """Messages and subscriptions of a KahaDB directory into a SQL store.

    Args:
        path: of the directory.
        journal: its files; may be pickled.
        state: what a broker would know.
        target: where to.
        workers: who does it.
        skips_damage: whether what cannot be read is left out.

    Raises:
        JournalDamaged: there is damage, and it must not be left out.
        ConfigurationError: there are prepared transactions.
    """
    if state.damages and not skips_damage:
        raise JournalDamaged(f"{state.damages[0]}. With --skip-damage what can be read is migrated")
    if state.prepared:
        raise ConfigurationError(
            f"the journal has {len(state.prepared)} prepared transactions, the first one is"
            f" {next(iter(state.prepared))}: jdbcstore migrate brings them along; or let its broker decide about them"
        )
    hold = partial(row_target, target, f"kahadb {path}")
    return MigrationPlan(path, str(target), JournalRows(journal, state, workers), hold)


class JournalRows(RowCopier):
    """Copies live messages, and makes durable subscriptions.

    Args:
        journal: where from; no broker is at work on it.
        state: what a broker would know.
        workers: who does it.
    """

    rest_title = "making subscriptions"

    def __init__(self, journal: records.AnyJournal, state: State, workers: Workers) -> None:
        super().__init__(workers)
        self._state: Final = state
        self._prioritized: Final = frozenset(
            one.qualified_name for one, stored in state.destinations.items() if is_prioritized(stored)
        )
        self._read: Final = partial(_rows, journal, self._prioritized)

    def survey(self, done: Migrated) -> None:
        for destination, stored in self._state.destinations.items():
            if len(stored):
                done.count(destination.qualified_name, Moved(len(stored)))
        done.others["subscriptions"] = sum(len(stored.subscriptions) for stored in self._state.destinations.values())

    def copy_messages(self, lease: MigrationLease, tasks_max: int | None) -> list[Copied]:
        return self.workers.map(partial(_copied, self._read, lease), _parts(self._state), tasks_max)

    def copy_rest(self, lease: MigrationLease) -> dict[str, int]:
        return {"subscriptions": _subscribed(self._state, lease, self._prioritized)}

    def digests(self) -> list[dict[str, Digest]]:
        return self.workers.map(partial(_summed, self._read), _parts(self._state))


# -- messages ----------------------------------------------------------------------------------------------------------


def _parts(state: State) -> list[JournalPart]:
    """All live messages, in the order in which they stand."""
    placed = [
        (message.location, message.order, destination.qualified_name)
        for destination, stored in state.destinations.items()
        for message in stored.all()
    ]
    placed.sort(key=itemgetter(0))
    parts: list[JournalPart] = []
    room = 0
    for one in placed:
        if room <= 0:
            parts.append([])
            room = _PART_BYTES
        parts[-1].append(one)
        room -= one[0].size
    return parts


def _rows(journal: records.AnyJournal, prioritized: frozenset[str], part: JournalPart) -> Iterator[MessageRow]:
    """Rows of ACTIVEMQ_MSGS."""
    with ExitStack() as open_file:
        file: JournalFile | None = None
        for location, order, destination in part:
            if file is None or file.number != location.file:
                open_file.close()
                source = open_file.enter_context(journal.opened(location.file))
                file = JournalFile(source, location.file, chunk_bytes=_CHUNK_BYTES)
            blob = added_at(file, location).message
            if blob is None:
                raise JournalDamaged(f"{location}: a message without its bytes")
            message = unmarshal_message(blob)
            message_id = message.message_id or MessageId.parse("")
            priority = message.priority if destination in prioritized else 0
            producer, sequence = str(message_id.producer_id), message_id.producer_sequence_id
            yield order, destination, producer, sequence, message.expiration, priority, None, blob


def _copied(read: Read, lease: MigrationLease, parts: Iterable[JournalPart]) -> Iterator[Copied]:
    with opened(lease.location) as store:
        for part in parts:
            skipped = sum(_add_missing(store, lease, rows) for rows in _at_once(read(part)))
            yield Copied(len(part), skipped)


def _at_once(rows: Iterator[MessageRow]) -> Iterator[list[MessageRow]]:
    found: list[MessageRow] = []
    size = 0
    for row in rows:
        found.append(row)
        size += len(row[-1] or b"")
        if len(found) >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield found
            found, size = [], 0
    if found:
        yield found


def _add_missing(store: Opened, lease: MigrationLease, rows: list[MessageRow]) -> int:
    """Bring those rows that are not there yet, in a transaction. Returns how many are."""
    messages = store.statements.messages
    ids = ",".join(str(row[0]) for row in rows)
    there = {int(id) for (id,) in store.connection.exec_driver_sql(f"SELECT ID FROM {messages} WHERE ID IN ({ids})")}
    if missing := [row for row in rows if row[0] not in there]:
        with store.transaction(lease.fence):
            store.insert(messages, MESSAGE_COLUMNS, missing)
    return len(there)


def _summed(read: Read, parts: Iterable[JournalPart]) -> Iterator[dict[str, Digest]]:
    return (digests(read(part)) for part in parts)


# -- subscriptions -----------------------------------------------------------------------------------------------------


def _subscribed(state: State, lease: MigrationLease, prioritized: frozenset[str]) -> int:
    """Make the durable subscriptions, and acknowledge what they do not wait for. Returns how many there are."""
    count = 0
    with JdbcPersistenceAdapter(lease.location.url, writing_options(lease.location), lease.fence) as adapter:
        for destination, stored in state.destinations.items():
            if not isinstance(destination, Topic) or not stored.subscriptions:
                continue
            store = adapter.topic_message_store(destination, prioritized=destination.qualified_name in prioritized)
            for subscription in stored.subscriptions.values():
                info = subscription_info(destination, subscription)
                store.add_subscription(info, retroactive=True).result()
                ids = (_id(message) for message in stored.messages() if message.sequence not in subscription.pending)
                while some := list(islice(ids, _ROWS_AT_ONCE)):
                    store.acknowledge(info.key, *some).result()
                count += 1
    return count


def _id(message: StoredMessage) -> MessageId:
    found = MessageId.parse(message.message_id)
    found.broker_sequence_id = message.order
    return found
