"""From the state of a journal to the list of what there is to read: a row for each live message and each damage.

`jdbcstore.store.journal.replay` has the rules, for a journal that is read here as for the records that Spark's
workers read (`live_batches`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from jdbcstore.destination import Destination
from jdbcstore.errors import JournalDamaged
from jdbcstore.spark.columns import CORRUPT
from jdbcstore.spark.cycles import no_cycles
from jdbcstore.spark.kahadb.files import JournalDirectory
from jdbcstore.spark.kahadb.leveldb_log import LevelDBDirectory
from jdbcstore.spark.kahadb.operations import records_of
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.spark.kahadb.records import without_the_torn_end
from jdbcstore.spark.kahadb.stores import Directory
from jdbcstore.spark.one_line import one_line
from jdbcstore.store.journal.kahadb.journal import Damage
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.state import State, StoredDestination, StoredMessage

__all__ = ["LIVE", "LIVE_TYPE", "live_batches", "live_table", "replayed", "state_of", "unlisted"]

#: Of the list. FILE and RECORD are where the message stands; ID is `StoredMessage.order`.
LIVE: Final = pa.schema(
    [
        pa.field("FILE", pa.int32(), False),
        pa.field("RECORD", pa.int64(), False),
        pa.field("BYTES", pa.int64(), False),
        pa.field("ID", pa.int64(), False),
        pa.field("CONTAINER", pa.string()),
        pa.field("MESSAGE_ID", pa.string()),
        pa.field("TIER", pa.int32()),
        pa.field("XID", pa.string()),
        pa.field("SUBSCRIBERS", pa.list_(pa.field("element", pa.string(), False))),
        pa.field("DAMAGE", pa.string()),
    ]
)
#: The same for Spark.
LIVE_TYPE: Final = (
    "FILE int not null, RECORD bigint not null, BYTES bigint not null, ID bigint not null, CONTAINER string,"
    " MESSAGE_ID string, TIER int, XID string, SUBSCRIBERS array<string>, DAMAGE string"
)
_BATCH_ROWS: Final = 20_000


def replayed(directory: Directory, tx_store: str | None) -> State:
    """The state of a directory; its files are read here, one after the other.

    Raises:
        StoreError: a file cannot be read.
    """
    with no_cycles():
        if isinstance(directory, LevelDBDirectory):
            return directory.state()
        progress = Replay(directory.files)
        progress.apply(directory.records())
        if tx_store is not None:
            progress.decide(JournalDirectory(tx_store))
        directory.correct(progress)
        state = progress.finish()
    state.damages = sorted([*directory.damages, *state.damages])
    state.damages_unlisted += directory.damages_unlisted
    state.damages = without_the_torn_end(state.damages, max(directory.files, default=0))
    return state


def state_of(batches: Iterable[pa.RecordBatch], directory: JournalDirectory, tx_store: str | None) -> State:
    """The same from the records that others have read.

    Args:
        batches: rows with `jdbcstore.spark.kahadb.columns.OPERATIONS`, in the order of their locations.
        directory: whose records they are.
        tx_store: of one store of several (mKahaDB) the directory ``txStore``.
    """
    progress = Replay(directory.files)
    damages: list[Damage] = []
    progress.apply(records_of(batches, damages))
    if tx_store is not None:
        progress.decide(JournalDirectory(tx_store))
    directory.correct(progress)
    state = progress.finish()
    state.damages = sorted([*damages, *state.damages])
    return state


def unlisted(state: State) -> str:
    """How many damages are not in `State.damages`, for people."""
    return f"{state.damages_unlisted} damages more than are listed"


def live_table(state: State, options: KahaDBOptions, *, takes_corrupt: bool) -> pa.Table:
    """The list, in the order of locations.

    Args:
        state: what a broker would know.
        options: which destinations; whether messages in doubt are in it.
        takes_corrupt: whether there is a place for damage.

    Raises:
        JournalDamaged: there is damage and no place for it.
    """
    if state.damages and not takes_corrupt:
        raise JournalDamaged(
            f"{state.damages[0]}. To get damage in a column of its own ask for {CORRUPT}, with onCorrupt=column"
        )
    rows = _rows(state, options)
    batches = []
    while some := list(islice(rows, _BATCH_ROWS)):
        columns = zip(LIVE, zip(*some, strict=True), strict=True)
        arrays = [pa.array(values, field.type) for field, values in columns]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=LIVE))
    table = pa.Table.from_batches(batches, LIVE)
    return table.sort_by([("FILE", "ascending"), ("RECORD", "ascending")])


def live_batches(
    batches: Iterable[pa.RecordBatch],
    directory: JournalDirectory,
    options: KahaDBOptions,
    *,
    takes_corrupt: bool,
) -> Iterator[pa.RecordBatch]:
    """`live_table` of `state_of`."""
    with one_line(), no_cycles():
        state = state_of(batches, directory, options.tx_store)
        yield from live_table(state, options, takes_corrupt=takes_corrupt).to_batches(_BATCH_ROWS)


def _rows(state: State, options: KahaDBOptions) -> Iterator[tuple[Any, ...]]:
    chooses = options.chooses()
    in_doubt = _in_doubt(state)
    last = 0
    for destination, stored in state.destinations.items():
        name = destination.qualified_name
        is_chosen = chooses(name)
        for message in stored.all():
            last = max(last, message.order)
            if not is_chosen:
                continue
            xid = in_doubt.get((destination, message.message_id, None)) if in_doubt else None
            if xid is not None and not options.include_prepared:
                continue
            subscribers = None
            if destination.is_topic:
                subscribers = _subscribers(stored, message, {} if options.include_prepared else in_doubt)
            tier = int(message.tier)
            yield *message.location, message.order, name, message.message_id, tier, xid, subscribers, None
    if options.include_prepared:
        # Nobody knows when they will be visible, only that all others are before.
        for xid, destination, message_id, location in sorted(
            (
                (str(transaction.transaction_id), *added)
                for transaction in state.prepared.values()
                for added in transaction.added
            ),
            key=lambda one: one[3],
        ):
            if chooses(destination.qualified_name):
                last = max(last + 1, (location.file << 32) + location.offset)
                yield *location, last, destination.qualified_name, message_id, None, xid, None, None
    for damage in state.damages:
        at = (damage.file << 32) + damage.offset
        yield damage.file, damage.offset, damage.end - damage.offset, at, None, None, None, None, None, str(damage)
    if state.damages_unlisted:
        yield 0, 0, 0, 0, None, None, None, None, None, unlisted(state)


def _in_doubt(state: State) -> dict[tuple[Destination, str, str | None], str]:
    """What prepared transactions acknowledge: destination, message id and subscription; the transaction."""
    return {
        (ack.destination, ack.message_id, ack.subscription_key): str(transaction.transaction_id)
        for transaction in state.prepared.values()
        for ack in transaction.acknowledged
    }


def _subscribers(
    stored: StoredDestination, message: StoredMessage, in_doubt: dict[tuple[Destination, str, str | None], str]
) -> list[str]:
    return [
        key
        for key, subscription in stored.subscriptions.items()
        if message.sequence in subscription.pending and (stored.destination, message.message_id, key) not in in_doubt
    ]
