"""From a KahaDB directory: messages by Spark, durable subscriptions through the store, which knows how to keep them.

The place of a message in the journal becomes its ID, so a run that goes on gives the same ids as the one before. What a
journal does not have, and the table does, is made as a broker on JDBC would: EXPIRATION and MSGID_… out of the message,
PRIORITY only where the broker had ``prioritizedMessages``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from jdbcstore.destination import Topic
from jdbcstore.errors import ConfigurationError, JournalDamaged, StoreError
from jdbcstore.identifiers import MessageId
from jdbcstore.migration.holding import Held, hold, opened, release
from jdbcstore.migration.journals import subscription_info
from jdbcstore.migration.rows import MESSAGE_COLUMNS, Digest, MessageRow, digests, ranges_of, rows_of
from jdbcstore.openwire import unmarshal_message
from jdbcstore.pipeline.migrate.made import Migrated
from jdbcstore.pipeline.progress import Watch
from jdbcstore.spark.kahadb.files import JournalDirectory
from jdbcstore.spark.kahadb.live import replayed
from jdbcstore.spark.one_line import one_line
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.dialect import database_for
from jdbcstore.store.jdbc.message_indexes import build_message_indexes, drop_message_indexes
from jdbcstore.store.kahadb.state import State, StoredDestination, StoredMessage, Tier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jdbcstore.store.jdbc.location import StoreLocation

__all__ = ["migrate_journal"]

_ROWS_AT_ONCE: Final = 500
_SUMS: Final = "destination string, messages long, bytes long, content decimal(20,0)"


def migrate_journal(
    spark: SparkSession, source: str, to: StoreLocation, watch: Watch, *, is_dry: bool, skips_damage: bool
) -> Migrated:
    """As `jdbcstore.pipeline.migrate.migrate`, whose arguments these are."""
    path = source.removeprefix("kahadb:")
    state = watch.run("reading the journal", lambda: replayed(JournalDirectory(path), None))
    if state.damages and not skips_damage:
        raise JournalDamaged(f"{state.damages[0]}. With --skip-damage what can be read is migrated")
    if state.prepared:
        raise ConfigurationError(
            f"the journal has {len(state.prepared)} prepared transactions, the first one is"
            f" {next(iter(state.prepared))}: jdbcstore migrate brings them along; or let its broker decide about them"
        )
    done = Migrated(source, str(to))
    there = {destination: stored for destination, stored in state.destinations.items() if len(stored)}
    if is_dry:
        for destination, stored in there.items():
            done.count(destination.qualified_name, len(stored), 0)
        done.others["subscriptions"] = sum(len(stored.subscriptions) for stored in state.destinations.values())
        return done
    held = hold(f"kahadb {path}", to)
    done.is_resumed = held.is_resumed
    if not held.is_resumed:
        with opened(to) as store:
            drop_message_indexes(store.connection, store.location.options.table_names)
    prioritized = frozenset(destination.qualified_name for destination, stored in there.items() if _has_tiers(stored))
    reader = spark.read.format("kahadb").option("columns", "topic,offset,message,_corrupt")
    frame = reader.load(path).where("topic IS NOT NULL").select("topic", "offset", "message")
    if writers_max := database_for(to.url.get_backend_name()).writers_max:
        frame = frame.coalesce(writers_max)
    copy = frame.mapInArrow(partial(_copied, held, prioritized), "messages long, skipped long")
    rows = watch.run("copying messages", copy.collect)
    done.skipped = sum(row["skipped"] for row in rows)
    watch.run("making indexes", lambda: _indexed(held))
    done.others["subscriptions"] = watch.run("making subscriptions", lambda: _subscribed(state, held, prioritized))
    expected = watch.run("comparing", lambda: _summed(frame, prioritized))
    found = watch.run("comparing", lambda: _stored(held))
    if expected != found or sum(one.messages for one in found.values()) != sum(map(len, there.values())):
        different = [name for name in {*expected, *found} if expected.get(name) != found.get(name)]
        raise StoreError(
            f"the store is not like the journal (in {', '.join(sorted(different)[:5]) or 'all'}): has a broker worked"
            " on it meanwhile? The target stays closed to brokers; run the migration again"
        )
    for name, digest in sorted(found.items()):
        done.count(name, digest.messages, digest.bytes, digest.content)
    release(held)
    return done


def _has_tiers(stored: StoredDestination) -> bool:
    return any(message.tier is not Tier.DEFAULT for message in stored.all())


# -- messages ----------------------------------------------------------------------------------------------------------


def _copied(held: Held, prioritized: frozenset[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch in transactions of its own; what is there already is left."""
    with one_line(), opened(held.location) as store:
        messages = store.statements.messages
        for batch in batches:
            total = skipped = 0
            rows = _rows(batch, prioritized)
            while some := list(islice(rows, _ROWS_AT_ONCE)):
                ids = ",".join(str(row[0]) for row in some)
                found = store.connection.exec_driver_sql(f"SELECT ID FROM {messages} WHERE ID IN ({ids})")
                there = {int(id) for (id,) in found}
                missing = [row for row in some if row[0] not in there]
                if missing:
                    with store.transaction(held.fence):
                        store.insert(messages, MESSAGE_COLUMNS, missing)
                total += len(some)
                skipped += len(there)
            yield pa.RecordBatch.from_pydict({"messages": pa.array([total]), "skipped": pa.array([skipped])})


def _rows(batch: pa.RecordBatch, prioritized: frozenset[str]) -> Iterator[MessageRow]:
    """Rows of ACTIVEMQ_MSGS."""
    columns = (batch.column(name).to_pylist() for name in ("topic", "offset", "message"))
    for topic, id, blob in zip(*columns, strict=True):
        message = unmarshal_message(blob)
        message_id = message.message_id or MessageId.parse("")
        priority = message.priority if topic in prioritized else 0
        producer, sequence = str(message_id.producer_id), message_id.producer_sequence_id
        yield id, topic, producer, sequence, message.expiration, priority, None, blob


def _summed(frame: DataFrame, prioritized: frozenset[str]) -> dict[str, Digest]:
    """What the table should come to."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with one_line():
            for batch in batches:
                found = digests(_rows(batch, prioritized))
                columns = {
                    "destination": pa.array(list(found), pa.string()),
                    "messages": pa.array([one.messages for one in found.values()], pa.int64()),
                    "bytes": pa.array([one.bytes for one in found.values()], pa.int64()),
                    "content": pa.array([one.content for one in found.values()], pa.decimal128(20, 0)),
                }
                yield pa.RecordBatch.from_pydict(columns)

    total: dict[str, Digest] = {}
    for row in frame.mapInArrow(run, _SUMS).toLocalIterator():
        total.setdefault(row["destination"], Digest()).add(row["messages"], row["bytes"], int(row["content"]))
    return total


def _stored(held: Held) -> dict[str, Digest]:
    """What it comes to."""
    total: dict[str, Digest] = {}
    with opened(held.location) as store:
        for first, last in ranges_of(store):
            for name, digest in digests(rows_of(store, first, last)).items():
                total.setdefault(name, Digest()).add(digest.messages, digest.bytes, digest.content)
    return total


def _indexed(held: Held) -> None:
    with opened(held.location) as store:
        build_message_indexes(store.connection, store.location.options.table_names)


# -- subscriptions -----------------------------------------------------------------------------------------------------


def _subscribed(state: State, held: Held, prioritized: frozenset[str]) -> int:
    """Make the durable subscriptions, and acknowledge what they do not wait for. Returns how many there are."""
    options = replace(
        held.location.options, locker="none", create_tables_on_startup=False, cleanup_period_ms=0, vacuum_rows=0,
        virtual_topic_consumers="",
    )  # fmt: skip
    count = 0
    with JdbcPersistenceAdapter(held.location.url, options) as adapter:
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
