"""What the records of a sound directory say of each of its messages, for `tests.mutations`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from jdbcstore.identifiers import TransactionId
from jdbcstore.store.journal.amq.decoding import subscription_key
from jdbcstore.store.journal.amq.journal import BATCH_HEAD_SIZE, JournalFile
from jdbcstore.store.journal.amq.journal import file_name as amq_file
from jdbcstore.store.journal.amq.store_journal import JOURNAL, StoreJournal
from jdbcstore.store.journal.commands import (
    AddMessage,
    Command,
    Commit,
    Prepare,
    RemoveDestination,
    RemoveMessage,
    Rollback,
    Subscription,
    UpdateMessage,
)
from jdbcstore.store.journal.kahadb.journal import Journal, file_name
from jdbcstore.store.journal.leveldb.log import LogScan, content, log_files
from jdbcstore.store.journal.leveldb.log import file_name as log_name
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.records import (
    ACK_POSITION,
    ADD_COLLECTION,
    ADD_ENTRY,
    HEADER_BYTES,
    QUEUE,
    REMOVE_COLLECTION,
    REMOVE_ENTRY,
    SEQUENCE,
    SUBSCRIPTION,
    TOPIC,
    UPDATE_ENTRY,
    CollectionRecord,
    EntryRecord,
    SubscriptionRecord,
    removed_collection,
)
from jdbcstore.store.journal.records import AnyJournalFile, Batch, DirectoryJournal
from tests.mutations import OF, Extent, Lives
from tests.unit.kahadb.journals import CONTROL_BYTES

__all__ = ["lives_of_amq", "lives_of_kahadb", "lives_of_leveldb"]


def lives_of_kahadb(directory: Path) -> Lives:
    """Of a KahaDB directory."""
    return _Reading(Journal(directory), file_name, lambda text: text).lives


def lives_of_amq(directory: Path) -> Lives:
    """Of an AMQ store."""

    def shown(text: str) -> str:
        key = subscription_key(text)
        return f"{key.client_id}:{key.subscription_name}"

    return _Reading(StoreJournal(directory), lambda number: f"{JOURNAL}/{amq_file(number)}", shown).lives


class _Reading:
    def __init__(self, journal: DirectoryJournal, name: Callable[[int], str], shown: Callable[[str], str]) -> None:
        self.lives = Lives()
        self._shown = shown
        self._members: dict[TransactionId, list[tuple[Extent, AddMessage | RemoveMessage]]] = {}
        for number, file, batch in journal.batches():
            end = batch.offset + _head_bytes(file, batch) + batch.end - batch.start
            for _, command in file.records_of(batch):
                self._take(Extent(name(number), batch.offset, end), command)

    def _take(self, extent: Extent, command: Command) -> None:
        if isinstance(command, UpdateMessage) and command.message is not None:
            command = command.message
        match command:
            case AddMessage() | RemoveMessage():
                if command.transaction is None:
                    self._happens([extent], command)
                else:
                    self._members.setdefault(command.transaction, []).append((extent, command))
            case Commit() | Rollback() | Prepare() if command.transaction is not None:
                for where, one in self._members.get(command.transaction, ()):
                    self._happens([where, extent], one)
                if not isinstance(command, Prepare):
                    self._members.pop(command.transaction, None)
            case RemoveDestination() | Subscription():
                self.lives.uncertain.setdefault(str(command.destination), []).append(extent)

    def _happens(self, extents: list[Extent], command: AddMessage | RemoveMessage) -> None:
        where, one = str(command.destination), str(command.message_id)
        if isinstance(command, AddMessage):
            self.lives.born.setdefault((where, one), []).extend(extents)
            return
        if command.subscription_key is not None:
            where += f"{OF}{self._shown(command.subscription_key)}"
        self.lives.ended.setdefault((where, one), []).extend(extents)


def _head_bytes(file: AnyJournalFile, batch: Batch) -> int:
    if not isinstance(file, JournalFile):
        return CONTROL_BYTES
    return 0 if type(batch) is Batch else BATCH_HEAD_SIZE


def lives_of_leveldb(directory: Path) -> Lives:
    """Of a LevelDB directory with a whole log. A unit of work counts as a whole."""
    lives = Lives()
    files = log_files(directory)
    reader = MessageReader(directory, files)
    collections: dict[int, CollectionRecord] = {}
    names: dict[int, str] = {}
    ids: dict[tuple[int, int], str] = {}
    for base, path in files.items():
        with path.open("rb") as source:
            data = content(source)
        for unit in LogScan(data, base).units():
            extent = Extent(path.name, unit.start - base, unit.end - base)
            for kind, _, about in unit.records:
                if kind == ADD_COLLECTION and about is not None:
                    record = CollectionRecord.read(about)
                    collections[record.key] = record
                    name = record.meta.decode("utf-8", "replace")
                    if record.type == SUBSCRIPTION:
                        told = SubscriptionRecord.read(record.meta)
                        topic = names[told.topic_key]
                        name = f"{topic}{OF}{told.client_id}:{told.subscription_name}"
                        lives.uncertain.setdefault(topic, []).append(extent)
                    names[record.key] = name
                    lives.uncertain.setdefault(name, []).append(extent)
                elif kind == REMOVE_COLLECTION and about is not None:
                    name = names[removed_collection(about)]
                    for key in {name, name.partition(OF)[0]}:
                        lives.uncertain.setdefault(key, []).append(extent)
                elif kind in (ADD_ENTRY, REMOVE_ENTRY, UPDATE_ENTRY) and about is not None:
                    entry = EntryRecord.read(about)
                    _entry(lives, collections[entry.collection], names, entry, kind, extent, ids, reader, files)
    reader.close()
    return lives


def _entry(
    lives: Lives,
    of: CollectionRecord,
    names: dict[int, str],
    entry: EntryRecord,
    kind: int,
    extent: Extent,
    ids: dict[tuple[int, int], str],
    reader: MessageReader,
    files: Mapping[int, Path],
) -> None:
    name = names[of.key]
    if entry.key == ACK_POSITION:
        topic = SubscriptionRecord.read(of.meta).topic_key
        for (key, sequence), one in ids.items():
            if key == topic and sequence <= (entry.location or 0):
                lives.ended.setdefault((name, one), []).append(extent)
        lives.uncertain.setdefault(name, []).append(extent)
        return
    if of.type not in (QUEUE, TOPIC) or entry.location is None:
        # A transaction: what it is about is uncertain as a whole.
        for one in names.values():
            lives.uncertain.setdefault(one, []).append(extent)
        return
    sequence = SEQUENCE.unpack(entry.key)[0]
    if kind == REMOVE_ENTRY:
        lives.ended.setdefault((name, ids[of.key, sequence]), []).append(extent)
        return
    message = reader.message(entry.location, entry.length or 0, sequence)
    one = ids[of.key, sequence] = str(message.message_id)
    base = reader.base(entry.location)
    offset = entry.location - base
    body = Extent(log_name(base), offset, offset + (entry.length or 0) + HEADER_BYTES)
    lives.born.setdefault((name, one), []).extend([extent, body])
