"""Snapshots of the index, from which ActiveMQ starts: it replays the log behind the newest one only.

A snapshot is a LevelDB database that is nothing but a log (``CURRENT``, a manifest, ``000003.log``), which every
LevelDB opens. It is written beside its place and moved there when it is on the disk; then older ones go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from jdbcstore.errors import CodecError
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import MessageAck
from jdbcstore.store.disk import DiskFile, force_directory, make_directory, move, remove_tree
from jdbcstore.store.journal.leveldb.index_files import VersionEdit, batch, written_log
from jdbcstore.store.journal.leveldb.index_reader import snapshots
from jdbcstore.store.journal.leveldb.java_counters import collection_meta, log_positions, log_references
from jdbcstore.store.journal.leveldb.live import Live, LiveDestination, LiveMessage, LiveTransaction, TransactedAck
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.records import (
    ACK_POSITION,
    QUEUE,
    SEQUENCE,
    SUBSCRIPTION,
    TOPIC,
    TRANSACTION,
    CollectionRecord,
    EntryRecord,
    SubscriptionRecord,
    XaAck,
)
from jdbcstore.store.journal.leveldb.recovery import OURS
from jdbcstore.store.journal.leveldb.state import Collection
from jdbcstore.store.journal.leveldb.varints import tagged_varint

__all__ = ["index_entries", "snapshot_path", "write_snapshot"]

_TEMPORARY: Final = "temp.index"
_MANIFEST: Final = "MANIFEST-000002"
_LOG: Final = "000003.log"
_BATCH_ENTRIES: Final = 1000


def snapshot_path(directory: Path, position: int) -> Path:
    """Where the snapshot is that is valid up to this position."""
    return directory / f"{position:016x}.index"


def write_snapshot(directory: Path, position: int, entries: Iterable[tuple[bytes, bytes]]) -> None:
    """Write a snapshot that is valid up to this position of the log, which is on the disk that far.

    Raises:
        OSError: it cannot be written, or there is one for this position; the one before is still there.
    """
    temporary = directory / _TEMPORARY
    remove_tree(temporary)  # of a start that was killed
    make_directory(temporary)
    count = 0

    def batches() -> Iterator[bytes]:
        nonlocal count
        left = iter(entries)
        while some := list(islice(left, _BATCH_ENTRIES)):
            yield batch(count + 1, some)
            count += len(some)

    _write(temporary / _LOG, written_log(batches()))
    version = VersionEdit(log_number=3, next_file=4, last_sequence=count)
    _write(temporary / _MANIFEST, written_log([version.written()]))
    _write(temporary / "CURRENT", f"{_MANIFEST}\n".encode())
    force_directory(temporary)
    move(temporary, snapshot_path(directory, position))
    for other, path in snapshots(directory).items():
        if other != position:
            remove_tree(path)


def _write(path: Path, data: bytes) -> None:
    file = DiskFile(path, create=True)
    try:
        file.write(data, 0)
        file.sync()
    finally:
        file.close()


def index_entries(
    live: Live,
    reader: MessageReader,
    logs: Sequence[int],
    wire_version: int,
    before: dict[bytes, bytes],
    ours: bytes,
) -> Iterator[tuple[bytes, bytes]]:
    """What the index holds: collections, entries, counters.

    Args:
        live: what is there; nobody changes it meanwhile.
        reader: reads messages, for what transactions in doubt remove.
        logs: positions of the files of the log.
        wire_version: of marshalled acknowledgements.
        before: counters of the snapshot before, whose producers are kept.
        ours: what says that this store has written it.
    """
    meta: list[tuple[int, int, int | None]] = []
    yield b":dirty", b"true"
    for where in list(live.destinations.values()):
        if where.key:
            # ActiveMQ numbers the next message from it, and a subscription receives what is behind its position.
            last = max([where.last, *(one.position for one in where.subscriptions.values())])
            meta.append((where.key, len(where.messages), last or None))
            yield from _destination(where)
    for where, subscription in live.subscriptions():
        info = subscription.info
        record = SubscriptionRecord(
            where.key,
            info.key.client_id,
            info.key.subscription_name,
            info.selector,
            where.destination.qualified_name,
            info.subscribed_destination.qualified_name,
        )
        meta.append((subscription.key, 0, None))
        yield _collection(subscription.key, SUBSCRIPTION, record.written())
        # Zero is told, too: ActiveMQ's own file has it.
        yield _key(subscription.key, ACK_POSITION), tagged_varint(3, subscription.position)
    for transaction in live.transactions.values():
        numbers = [one.number for one in transaction.adds] + [one.number for one in transaction.acks]
        meta.append((transaction.key, len(transaction.adds), max(numbers, default=None)))
        yield from _transaction(transaction, live, reader, wire_version)
    for one in live.unknown:
        meta.append((one.key, len(one.entries), one.last or None))
        yield from _unknown(one)
    references = {base: live.references.get(base, 0) for base in logs}
    yield b":log-refs", log_references(references, before.get(b":log-refs", b""))
    yield b":collection-meta", collection_meta(meta, before.get(b":collection-meta", b""))
    yield b":logs", log_positions(logs)
    if b":producer_ids" in before:
        yield b":producer_ids", before[b":producer_ids"]
    yield OURS, ours
    yield b":dirty", b"false"


def _key(collection: int, entry: bytes) -> bytes:
    return b"e" + SEQUENCE.pack(collection) + entry


def _collection(key: int, kind: int, meta: bytes) -> tuple[bytes, bytes]:
    return b"c" + SEQUENCE.pack(key), CollectionRecord(key, kind, meta).written()


def _place(message: LiveMessage) -> bytes:
    return EntryRecord(0, b"", message.location, message.length).written(indexed=True)


def _destination(where: LiveDestination) -> Iterator[tuple[bytes, bytes]]:
    kind = TOPIC if where.destination.is_topic else QUEUE
    yield _collection(where.key, kind, where.destination.qualified_name.encode("utf-8", "surrogateescape"))
    for sequence, message in list(where.messages.items()):
        yield _key(where.key, SEQUENCE.pack(sequence)), _place(message)


def _unknown(one: Collection) -> Iterator[tuple[bytes, bytes]]:
    """A collection as it was found."""
    if one.meta:  # else no record names it
        yield _collection(one.key, one.type, one.meta)
    if one.type == SUBSCRIPTION:
        yield _key(one.key, ACK_POSITION), tagged_varint(3, one.position)
    for sequence, place in one.entries.items():
        yield _key(one.key, SEQUENCE.pack(sequence)), EntryRecord(0, b"", *place).written(indexed=True)
    for number, ack in one.acks.items():
        record = EntryRecord(one.key, SEQUENCE.pack(number), meta=ack.written())
        yield _key(one.key, record.key), record.written()


def _transaction(
    transaction: LiveTransaction, live: Live, reader: MessageReader, wire_version: int
) -> Iterator[tuple[bytes, bytes]]:
    yield _collection(transaction.key, TRANSACTION, marshal(transaction.xid, wire_version))
    for add in transaction.adds:
        yield _key(transaction.key, SEQUENCE.pack(add.number)), _place(add.message)
    for ack in transaction.acks:
        where = live.of(ack.destination)
        message = where.messages.get(ack.sequence)
        if message is None:
            continue
        try:
            meta = _xa_ack(transaction, ack, where, message, reader, wire_version)
        except CodecError:  # the message cannot be read: nobody gets it, whatever becomes of the transaction
            continue
        record = EntryRecord(transaction.key, SEQUENCE.pack(ack.number), meta=meta.written())
        yield _key(transaction.key, record.key), record.written()  # whole, as ActiveMQ writes it


def _xa_ack(
    transaction: LiveTransaction,
    ack: TransactedAck,
    where: LiveDestination,
    message: LiveMessage,
    reader: MessageReader,
    wire_version: int,
) -> XaAck:
    message_id = reader.message(message.location, message.length, message.sequence).message_id
    command = MessageAck.of(message_id, ack.destination, transaction.xid)
    subscription = -1 if ack.subscription is None else ack.subscription.key
    data = marshal(command, wire_version)
    return XaAck(message.location, message.length, where.key, message.sequence, subscription, data)
