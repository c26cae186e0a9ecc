"""The LevelDB store: a log that ActiveMQ reads, too, what is in it in memory, one thread that commits.

A message on its way in: `messages` makes a record of it and gives it its number, `committer` writes it with others as
one unit of work (`work`) and lets it be seen (`live`). On its way out: memory says where it stands, `message_reader`
reads it there. At the start `recovery` reads the directory and `loading` makes it usable.
"""

from __future__ import annotations

import logging
import time
from itertools import zip_longest
from pathlib import Path
from typing import Final

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import SchemaMismatch, StoreError
from jdbcstore.identifiers import ProducerId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, Expired, ExpiredPage, TransactionStore
from jdbcstore.store.disk import bytes_in, make_directory
from jdbcstore.store.journal.directory_adapter import DirectoryAdapter
from jdbcstore.store.journal.file_errors import writing
from jdbcstore.store.journal.file_replacement import replaced_file
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.kahadb.scheduler import refuse_scheduled, warn_of_scheduled_beside
from jdbcstore.store.journal.leveldb.committer import Committer
from jdbcstore.store.journal.leveldb.directory_kind import refuse_what_is_no_leveldb_store
from jdbcstore.store.journal.leveldb.index_reader import snapshots
from jdbcstore.store.journal.leveldb.live import Live, LiveDestination, LiveMessage
from jdbcstore.store.journal.leveldb.loading import Loaded, load
from jdbcstore.store.journal.leveldb.log import FILE_PATTERN, LevelDBFormat
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.messages import LevelDBMessageStore, PreparedAdd
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.leveldb.recovery import VERSION_FILE, Recovered, recover
from jdbcstore.store.journal.leveldb.topics import LevelDBTopicMessageStore
from jdbcstore.store.journal.leveldb.transactions import LevelDBTransactionStore
from jdbcstore.store.journal.leveldb.work import (
    Acknowledge,
    Add,
    Came,
    DeleteAll,
    Forget,
    Keep,
    Part,
    Remove,
    Restore,
)
from jdbcstore.store.journal.writes import Write
from jdbcstore.subscription import SubscriptionKey

__all__ = ["LevelDBPersistenceAdapter"]

log = logging.getLogger(__name__)

_VERSION: Final = b"activemq_leveldb_store:1"


class LevelDBPersistenceAdapter(DirectoryAdapter[Live, LevelDBMessageStore, LevelDBTopicMessageStore]):
    """A LevelDB directory.

    Args:
        directory: of the store; made if it is not there.
        options: how it is kept.
    """

    committer: Committer
    options: LevelDBOptions

    def __init__(self, directory: Path | str, options: LevelDBOptions | None = None) -> None:
        directory, options = Path(directory), options or LevelDBOptions()
        super().__init__(directory, options, LevelDBMessageStore, LevelDBTopicMessageStore, FILE_PATTERN)
        self.log_directory: Final = Path(options.log_directory or directory)
        self.reader: MessageReader
        #: Whether messages are written as Snappy blocks: as the newest one there.
        self.is_compressed = False
        self._writer: JournalWriter[int]
        self._transactions: LevelDBTransactionStore

    # -- life ----------------------------------------------------------------------------------------------------

    def _refuse_another_store(self) -> None:
        refuse_what_is_no_leveldb_store(self.directory)
        refuse_scheduled(self.directory, "leveldb")
        warn_of_scheduled_beside(self.directory)

    def _open(self) -> None:
        let_go = self._locker.hold()
        log_format = LevelDBFormat()
        writer = self._writer = JournalWriter(self.log_directory, log_format, self.options)
        try:
            found = self._recover()
            # Also of a snapshot that is not believed: ActiveMQ, or the next start, may look behind it only.
            log_format.least = max(snapshots(self.directory), default=0)
            # First: what a kill has left behind the last whole unit must never be read as part of a later one.
            writer.open()
            self.reader = MessageReader(self.log_directory, {*found.files, writer.end[0]})
            loaded = load(found, self.reader, self.options)
        except BaseException:
            writer.abandon()
            let_go()
            raise
        self._contents = live = loaded.live
        self._look(loaded)
        self._transactions = LevelDBTransactionStore(self, self)
        self.committer = Committer(
            self.directory,
            live,
            writer,
            self.reader,
            self.options,
            self.wire_version,
            self._locker.prove,
            let_go,
            found,
        )
        self.committer.start()
        try:
            self._restore(loaded.displaced)
            self._decide_what_is_in_doubt()
        except BaseException:
            self.stop()
            raise

    def _recover(self) -> Recovered:
        with writing(str(self.directory)):
            make_directory(self.directory)
            make_directory(self.log_directory)
        path = self.directory / VERSION_FILE
        if not path.exists():
            self._write_version(path)
        found = recover(self.directory, self.log_directory)
        if path.read_bytes().strip() != _VERSION.strip():  # damaged, or not finished: ActiveMQ would refuse it
            self._write_version(path)
        for remark in found.state.remarks:
            log.warning("%s: %s", self.directory, remark)
        return found

    @staticmethod
    def _write_version(path: Path) -> None:
        with writing(str(path)), replaced_file(path, FILE_PATTERN) as file:
            file.write(_VERSION, 0)

    def _look(self, loaded: Loaded) -> None:
        self.wire_version = loaded.wire_version or self.options.store_open_wire_version
        told = self.options.log_compression
        self.is_compressed = told == "SNAPPY" or (told == "AS_FOUND" and loaded.is_compressed)

    def _restore(self, displaced: list[tuple[LiveDestination, LiveMessage]]) -> None:
        """Messages that ActiveMQ had lost get new numbers."""
        if not displaced:
            return
        with self.order:
            for _, message in displaced:
                message.sequence = self.next_sequence()
            done = self.committer.write(Restore(displaced), is_alone=True)
        done.result()
        log.warning("%s: messages that ActiveMQ had lost are there again count=%d", self.directory, len(displaced))

    def _decide_what_is_in_doubt(self) -> None:
        """As ``purgeRecoveredXATransactionStrategy`` says."""
        strategy = self.options.purge_recovered_xa_transaction_strategy
        for xid in list(self.reading().transactions) if strategy != "NEVER" else ():
            log.warning("decided about a transaction in doubt transaction=%s outcome=%s", xid, strategy)
            decide = (
                self._transactions.commit_prepared if strategy == "COMMIT" else self._transactions.rollback_prepared
            )
            decide(xid).result()

    def _close(self, contents: Live) -> None:
        self.reader.close()
        self._writer.close()

    def _let_be(self, contents: Live) -> None:
        self.reader.close()

    # -- destinations --------------------------------------------------------------------------------------------

    def destinations(self) -> set[Destination]:
        return {
            one.destination
            for one in list(self.opened().destinations.values())
            if one.count > 0 or one.subscriptions or one.is_kept
        }

    def _new_store(self, contents: Live, destination: Destination, *, prioritized: bool) -> LevelDBMessageStore:
        kind = LevelDBTopicMessageStore if destination.is_topic else LevelDBMessageStore
        return kind(self, destination, prioritized=prioritized)

    def _keep(self, store: LevelDBMessageStore) -> None:
        if not store.where.is_kept:
            store.where.is_kept = True
            self.committer.write(Keep(store.where))

    def _encode(self, name: str) -> bytes:
        return name.encode("utf-8", "surrogateescape")  # what a broker of another time has written is served

    def remove_destination(self, destination: Queue | Topic) -> Completion[None]:
        if isinstance(destination, Topic):
            done = self.topic_message_store(destination).remove_everything()
        else:
            self._check_name(destination)
            done = self.committer.write(Forget(self.opened().of(destination)), is_alone=True)
        self._stores.pop(destination, None)
        return done

    def transaction_store(self) -> TransactionStore:
        """As `SupportsTransactions`."""
        self.opened()
        return self._transactions

    def message_counts(self) -> dict[Destination, int]:
        """How many messages each destination has."""
        return {one.destination: one.count for one in list(self.reading().destinations.values())}

    def stored_bytes(self) -> dict[Destination, int]:
        """How many bytes of the log the messages of each destination take."""
        live = self.reading()
        with live.lock:
            return {
                one.destination: sum(message.length for message in one.messages.values())
                for one in live.destinations.values()
                if one.messages
            }

    # -- writing -------------------------------------------------------------------------------------------------

    def commit_together(self, commit: Commit) -> Completion[None]:
        self.opened()
        if commit.jobs:
            raise SchemaMismatch(
                "a LevelDB directory keeps no scheduled messages: ActiveMQ keeps them in a store of their own; migrate"
                " to a KahaDB directory or a database to schedule messages (jdbcstore migrate)"
            )
        if commit.taken is not None:
            raise StoreError("a LevelDB directory is not loaded in bulk: send the messages to its broker")
        targets = [(self.own(store), message) for store, message in commit.adds]
        records = [
            (store, message, made if isinstance(made, PreparedAdd) else store.prepare(message))
            for (store, message), made in zip_longest(targets, commit.prepared)
        ]
        removes = [(self.own(store).where, message_id) for store, message_id in commit.removes]
        done = [(self.own_topic(store).where, key, message_id) for store, key, message_id in commit.acknowledged]
        now_ms = time.time_ns() // 1_000_000
        came = [Came(str(producer), last, now_ms) for producer, last in commit.producers.items()]
        completion: Completion[None] = Completion()
        with self.order:
            added: list[Add] = []
            for store, message, record in records:
                if store.is_needed:
                    added.append(store.add_of(message, record))
                else:
                    store.number(message)
            parts: list[Part] = [*added, *came]
            parts += [Remove(where, [message_id]) for where, message_id in removes]
            # Perhaps messages that have got their numbers just now.
            parts += [Acknowledge(where, key, [message_id]) for where, key, message_id in done]
            may_cancel: list[int] = []
            if not (removes or done) and all(add.where.destination.is_queue for add in added):
                may_cancel = [add.message.sequence for add in added]
            self.committer.submit(Write(completion, parts=parts, follows=commit.follows, may_cancel=may_cancel))
        return completion

    def delete_all_messages(self) -> None:
        live = self.opened()
        with self.order:
            for where in list(live.destinations.values()):
                where.asked.clear()
            done = self.committer.write(DeleteAll(), is_alone=True)
        done.result()

    # -- reading -------------------------------------------------------------------------------------------------

    def expired_messages(self, now_ms: int, messages_max: int, after: tuple[int, int] = (0, 0)) -> ExpiredPage:
        live = self.reading()
        found: list[Expired] = []
        with live.lock:
            rows = live.expired(now_ms, messages_max, after)
            for _, sequence, where in rows:
                message = where.messages[sequence]
                if sequence in where.hidden:
                    continue
                keys = _waiting(where, sequence)
                if keys or not where.destination.is_topic:
                    found.append(Expired(where.destination, sequence, message.level, keys))
        is_end = len(rows) < messages_max
        return ExpiredPage(found, None if is_end else (rows[-1][0], rows[-1][1]))

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        self.committer.write().result()  # behind what was submitted before
        live, name = self.reading(), str(producer_id)
        with live.lock:
            return max(live.seen.get(name, -1), live.producers.get(name, (-1, 0))[0])

    @property
    def location(self) -> str:
        return f"leveldb:{self.directory}"

    def size_bytes(self) -> int | None:
        return bytes_in({self.directory, self.log_directory})


def _waiting(where: LiveDestination, sequence: int) -> list[SubscriptionKey]:
    """The subscriptions that have not acknowledged a message."""
    return [key for key, one in where.subscriptions.items() if sequence in one.pending.all]
