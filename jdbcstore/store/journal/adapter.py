"""A store that is a journal, in any format that brokers read and write: an index of our own, one thread that commits.

A message on its way in: `messages` makes a record of it and gives it its number, `committer` writes it with others to
the journal (`appender`) and applies it to the index (`applier`, `index`). On its way out: the index says where it
stands, `record_reader` reads it there. At the start `recovery` brings the index up to date.
"""

from __future__ import annotations

import logging
import threading
from itertools import zip_longest
from pathlib import Path
from typing import Final

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import ConfigurationError, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.identifiers import MessageId, ProducerId, told_apart
from jdbcstore.store.commit_numbers import CommitNumbers
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import (
    Commit,
    Expired,
    ExpiredPage,
    Locker,
    MessageStore,
    PersistenceAdapter,
    TopicMessageStore,
    TransactionStore,
)
from jdbcstore.store.disk import bytes_in
from jdbcstore.store.journal.committer import Committer
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.job_store import JournalJobStore
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.known import KnownDestination
from jdbcstore.store.journal.messages import JournalMessageStore, PreparedAdd
from jdbcstore.store.journal.record_reader import RecordReader
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.scheduling import Scheduling
from jdbcstore.store.journal.shared_file_lock import SharedFileLocker
from jdbcstore.store.journal.store_format import StoreFormat, StoreOptions
from jdbcstore.store.journal.topics import JournalTopicMessageStore
from jdbcstore.store.journal.transactions import JournalTransactionStore
from jdbcstore.store.journal.work import (
    Acknowledge,
    Add,
    Came,
    DeleteAll,
    Forget,
    Keep,
    Meant,
    Part,
    Remove,
    Write,
)
from jdbcstore.store.unlocked import NoLocker
from jdbcstore.subscription import SubscriptionKey

__all__ = ["JournalPersistenceAdapter"]

log = logging.getLogger(__name__)

#: How long to wait for a disk that did not answer when the store was abandoned.
_SETTLE_S: Final = 30.0


class JournalPersistenceAdapter(PersistenceAdapter):
    """A directory with a journal. A format derives from it.

    Args:
        directory: of the store.
        journal_directory: where the files of the journal are; made if it is not there.
        archive_directory: where files go that are not needed; None removes them.
        store_format: of the journal.
        options: how it is kept.
        scheduler: the journal of scheduled messages.
    """

    def __init__(
        self,
        directory: Path,
        journal_directory: Path,
        archive_directory: Path | None,
        store_format: StoreFormat,
        options: StoreOptions,
        scheduler: Scheduling,
    ) -> None:
        self.directory: Final = directory
        self.journal_directory: Final = journal_directory
        self.format: Final = store_format
        self.options = options
        self._archive = archive_directory
        #: Held while a number is given out and its message submitted: messages are committed in the order of their
        #: numbers.
        self.order: Final = threading.Lock()
        self.reader: Final = RecordReader(journal_directory, store_format)
        self.committer: Committer
        #: In which OpenWire version messages are written: that of the directory, which may not be the configured one.
        self.wire_version = self.options.store_open_wire_version
        self._appender: JournalWriter[Location]
        self._index: Index | None = None
        self._stores: dict[Destination, JournalMessageStore] = {}
        self._transactions: JournalTransactionStore
        self._jobs: Final = JournalJobStore(self)
        self.scheduler = scheduler
        self._locker: Final = self._new_locker()
        self._acquired_itself = False

    def _new_locker(self) -> SharedFileLocker | NoLocker:
        """The adapter's locker; somebody who has several stores may have one for all."""
        options = self.options
        if not options.use_lock:
            return NoLocker(options.lock)
        return SharedFileLocker(self.directory, options.lock, file_pattern=self.format.file_pattern)

    # -- mastership ----------------------------------------------------------------------------------------------

    def locker(self) -> Locker:
        """The adapter's locker, the same from construction on: the shared file lock, which Java brokers take, too.

        Who wants to wait for mastership acquires it first, then calls `start`; the way back is `stop`, then
        `Locker.release`. `start` acquires and in the end releases by itself what nobody has acquired before.
        """
        return self._locker

    def _become_master(self) -> None:
        locker = self._locker
        if isinstance(locker, SharedFileLocker) and locker.lease is None:
            if locker.acquire() is None:
                raise locker.held_by_another()
            self._acquired_itself = True

    def _resign(self) -> None:
        if self._acquired_itself:
            self._acquired_itself = False
            self._locker.release()

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """As the contract says. Raises `ConfigurationError` when the directory is another store's."""
        if self._index is not None:
            raise StoreError("the store is started already")
        self._wait_for_abandoned()
        self._refuse_another_store()
        self._become_master()
        try:
            self._open()
        except BaseException:
            self._resign()
            raise

    def _wait_for_abandoned(self) -> None:
        """What `abandon` did not wait for may not come in between."""
        committer: Committer | None = getattr(self, "committer", None)
        if committer is not None and not committer.has_ended(_SETTLE_S):
            raise StoreUnavailable("the store was closed without waiting, and its last write is still under way")

    def _open(self) -> None:
        let_go = self._locker.hold()
        appender = self._appender = self._new_appender()
        try:
            appender.open()
            self.scheduler.open()
            index = self._open_index(appender)
        except BaseException:
            appender.abandon()
            self.scheduler.abandon()
            let_go()
            raise
        self._index = index
        self._transactions = JournalTransactionStore(self, self)
        self.committer = Committer(
            index,
            appender,
            self.options,
            self.reader.read,
            self.scheduler,
            self._locker.prove,
            let_go,
            self._forget,
            round(self.options.producer_memory_s * 1000),
            self.format,
            self._archive,
        )
        self.committer.start()
        try:
            self._decide_what_is_in_doubt()
        except BaseException:
            self.stop()
            raise

    def _refuse_another_store(self) -> None:
        """Raise `ConfigurationError` when the directory is another store's."""
        raise NotImplementedError

    def _new_appender(self) -> JournalWriter[Location]:
        """What writes the journal, not open."""
        return JournalWriter(self.journal_directory, self.format, self.options)

    def _open_index(self, appender: JournalWriter[Location]) -> Index:
        """The index, up to date with the journal; the format's `jdbcstore.store.journal.recovery.Predecessor`."""
        raise NotImplementedError

    def _finish(self, index: Index) -> None:
        """Everything is written and the store stops."""

    def _forget(self, number: int) -> None:
        """A file of the journal goes."""
        self.reader.forget(number)

    def _decide_what_is_in_doubt(self) -> None:
        """As ``purgeRecoveredXATransactionStrategy`` says."""
        strategy, index = self.options.purge_recovered_xa_transaction_strategy, self.reading()
        for xid in index.prepared() if strategy != "NEVER" else ():
            log.warning("decided about a transaction in doubt transaction=%s outcome=%s", xid, strategy)
            decide = (
                self._transactions.commit_prepared if strategy == "COMMIT" else self._transactions.rollback_prepared
            )
            decide(xid).result()

    def stop(self) -> None:
        index, self._index = self._index, None
        if index is None:
            return
        self.committer.stop()
        self._stores.clear()
        self.reader.close()
        try:
            self._appender.close()
            self.scheduler.close()
            self._finish(index)
        finally:
            index.close()
            self._resign()

    def abandon(self) -> None:
        """As the contract says. The journal is closed by the thread that writes it, when the disk answers."""
        index, self._index = self._index, None
        if index is None:
            return
        self.committer.abandon()
        index.close()
        self._stores.clear()
        self.reader.close()
        self._resign()

    def reading(self) -> Index:
        """The index, to read.

        Raises:
            StoreClosed: stopped.
            StoreUnavailable: a write failed in a way that leaves open what is stored.
        """
        index = self._opened()
        self.committer.require_sound()
        return index

    @property
    def index(self) -> Index | None:
        """The index, None when stopped."""
        return self._index

    def require_open(self) -> None:
        """Raise `StoreClosed` unless started."""
        self._opened()

    def _opened(self) -> Index:
        index = self._index
        if index is None:
            raise StoreClosed("the store is stopped; start it first")
        return index

    # -- destinations --------------------------------------------------------------------------------------------

    def destinations(self) -> set[Destination]:
        return {
            known.destination
            for known in self._opened().known
            if known.count > 0 or known.subscriptions or known.is_kept
        }

    def queue_message_store(self, queue: Queue, *, prioritized: bool = False) -> JournalMessageStore:
        index = self._opened()
        store = self._stores.get(queue)
        if store is None:
            _check_name(queue)
            with self.order:
                store = JournalMessageStore(self, queue, index, prioritized=prioritized)
                store = self._stores.setdefault(queue, store)
            known = store.known
            if not known.is_kept and self.options.is_kept(queue):
                known.is_kept = True
                self._submit(Keep(queue))
        return store

    def remove_queue_message_store(self, queue: Queue) -> None:
        self._stores.pop(queue, None)

    def topic_message_store(self, topic: Topic, *, prioritized: bool = False) -> JournalTopicMessageStore:
        """As `SupportsTopics`."""
        index = self._opened()
        store = self._stores.get(topic)
        if store is None:
            _check_name(topic)
            with self.order:
                store = JournalTopicMessageStore(self, topic, index, prioritized=prioritized)
                store = self._stores.setdefault(topic, store)
        assert isinstance(store, JournalTopicMessageStore)
        return store

    def remove_topic_message_store(self, topic: Topic) -> None:
        """As `SupportsTopics`."""
        self._stores.pop(topic, None)

    def remove_destination(self, destination: Queue | Topic) -> Completion[None]:
        if isinstance(destination, Topic):
            done = self.topic_message_store(destination).remove_everything()
        else:
            _check_name(destination)
            known = self._opened().known.of(destination)
            done = self._submit(Forget(known), is_alone=True)
        self._stores.pop(destination, None)
        return done

    def transaction_store(self) -> TransactionStore:
        """As `SupportsTransactions`."""
        self._opened()
        return self._transactions

    def job_store(self) -> JournalJobStore:
        """As `SupportsScheduling`."""
        self._opened()
        return self._jobs

    def clean_up(self) -> int:
        """As `SupportsTopics`; there is never anything left."""
        self._opened()
        return 0

    def remove_unneeded_files(self) -> list[int]:
        """Look at once for journal files that are not needed. Waits until it is done.

        Returns:
            The numbers of those that are gone.

        Raises:
            StoreError: something could not be written.
        """
        self._opened()
        gone: list[int] = []
        completion: Completion[None] = Completion()
        task = Write(completion, is_alone=True, task=lambda: gone.extend(self.committer.remove_unneeded_files()))
        self.committer.submit(task)
        completion.result()
        return gone

    def compact_acknowledgements(self) -> int | None:
        """Write the acknowledgements of a journal file again that is kept for them only. Waits until it is done.

        Returns:
            The number of the file, which the next cleanup removes; None if there is none of which that is worth it.

        Raises:
            StoreError: something could not be read or written.
        """
        self._opened()
        return self.committer.compact_acknowledgements()

    def message_counts(self) -> dict[Destination, int]:
        """How many messages each destination has."""
        return {known.destination: known.count for known in self.reading().known}

    def stored_bytes(self) -> dict[Destination, int]:
        """How many bytes of the journal the messages of each destination take. Reads the whole index."""
        index = self.reading()
        return {index.known.by_id(id).destination: size for id, size in index.sizes()}

    # -- writing -------------------------------------------------------------------------------------------------

    def next_sequence(self) -> int:
        """The next number. The caller holds `order`."""
        index = self._opened()
        index.given += 1
        return index.given

    def _submit(self, *parts: Part, is_alone: bool = False) -> Completion[None]:
        completion: Completion[None] = Completion()
        self.committer.submit(Write(completion, parts=parts, is_alone=is_alone))
        return completion

    def commit_together(self, commit: Commit) -> Completion[None]:
        self._opened()
        changes = self.job_store().changes(commit.jobs) if commit.jobs else None
        if commit.taken is not None:
            raise StoreError(
                f"a directory of {self.format.name} is not loaded in bulk: send the messages to its broker"
            )
        targets = [(self.own(store), message) for store, message in commit.adds]
        records = [
            (store, message, made if isinstance(made, PreparedAdd) else store.prepare(message))
            for (store, message), made in zip_longest(targets, commit.prepared)
        ]
        sources = [(self.own(store), message_id) for store, message_id in commit.removes]
        done = [(self.own_topic(store), key, message_id) for store, key, message_id in commit.acknowledged]
        came = {str(producer): last for producer, last in commit.producers.items()}
        completion: Completion[None] = Completion()
        with self.order:
            added: list[Add] = []
            shown: dict[str, Add] = {}
            for store, message, record in records:
                if not store.is_needed:
                    store.number(message)
                    continue
                added.append(store.add_of(message, record))
                assert message.message_id is not None
                producer = str(message.message_id.producer_id)
                if came.get(producer, -1) <= message.message_id.producer_sequence_id and _is_shown(message.message_id):
                    shown[producer] = added[-1]
            parts: list[Part] = [*added] if changes is None else [changes, *added]
            parts += [Came(producer, last, shown.get(producer)) for producer, last in came.items()]
            parts += [Remove(store.known, *told_apart([message_id])) for store, message_id in sources]
            parts += [  # perhaps messages that have got their numbers just now
                Acknowledge(store.known, self.format.subscription_text(key), [Meant.of(message_id, self.format)])
                for store, key, message_id in done
            ]
            may_cancel = 0
            if len(added) == 1 and changes is None and not sources and not done and added[0].known.destination.is_queue:
                may_cancel = added[0].hint.sequence
            self.committer.submit(Write(completion, parts=parts, follows=commit.follows, may_cancel=may_cancel))
        return completion

    def own(self, store: MessageStore) -> JournalMessageStore:
        """A store that was made here and is open. Raises `StoreError` when it is another."""
        if not isinstance(store, JournalMessageStore) or self._stores.get(store.destination) is not store:
            raise StoreError(f"{store!r} is not an open store of this adapter")
        return store

    def own_topic(self, store: TopicMessageStore) -> JournalTopicMessageStore:
        """The same, of a topic."""
        own = self.own(store)
        if not isinstance(own, JournalTopicMessageStore):
            raise StoreError(f"{own.destination} is no topic: it has no durable subscriptions")
        return own

    def delete_all_messages(self) -> None:
        index = self._opened()
        with self.order:
            for known in index.known:
                known.asked.clear()
            done = self._submit(DeleteAll(), is_alone=True)
        done.result()

    # -- reading -------------------------------------------------------------------------------------------------

    def expired_messages(self, now_ms: int, messages_max: int, after: tuple[int, int] = (0, 0)) -> ExpiredPage:
        rows = self.expired_rows(now_ms, messages_max, after)
        found = [one for row in rows if (one := self.expired_row(row)) is not None]
        is_end = len(rows) < messages_max
        return ExpiredPage(found, None if is_end else (rows[-1][3], rows[-1][0]))

    def expired_rows(self, now_ms: int, messages_max: int, after: tuple[int, int]) -> list[tuple[int, int, int, int]]:
        """For `expired_messages`: sequence, number of the destination, level, and when it expired."""
        return self.reading().expired(now_ms, messages_max, after)

    def expired_row(self, row: tuple[int, int, int, int]) -> Expired | None:
        """What one of them says; None if everybody has acknowledged it."""
        index = self.reading()
        sequence, id, level, _ = row
        known = index.known.by_id(id)
        keys = _waiting(index, known, level, sequence)
        return Expired(known.destination, sequence, level, keys) if keys or not known.destination.is_topic else None

    def last_message_broker_sequence_id(self) -> int:
        return self._opened().given

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        self._opened()
        self._submit().result()  # behind what was submitted before
        return self.reading().last_of_producer(str(producer_id))

    @property
    def location(self) -> str:
        return f"{self.format.scheme}:{self.directory}"

    def size_bytes(self) -> int | None:
        elsewhere = self.options.index_directory
        return bytes_in([self.directory, *([Path(elsewhere)] if elsewhere else [])])

    @property
    def commit_numbers(self) -> CommitNumbers | None:
        return None if self._index is None else self.committer.commits.numbers

    @property
    def writes_waiting(self) -> int:
        return 0 if self._index is None else self.committer.commits.waiting

    def checkpoint(self) -> None:
        self._opened()
        self.committer.require_sound()


def _waiting(index: Index, known: KnownDestination, level: int, sequence: int) -> list[SubscriptionKey]:
    """The subscriptions that have not acknowledged a message."""
    subscriptions = list(known.subscriptions.values())
    return [one.info.key for one in subscriptions if index.is_pending(one.id, level, sequence)]


def _is_shown(message_id: MessageId) -> bool:
    """Whether the text of an id tells its producer and its number."""
    return message_id.text_view is None


def _check_name(destination: Destination) -> None:
    name = destination.qualified_name
    if destination.is_composite or destination.is_wildcard:
        raise ConfigurationError(f"{name} names several destinations; a store keeps one")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"{name!r} has characters that the journal does not take") from None
