"""A store that is a journal, in any format that brokers read and write: an index of our own, one thread that commits.

A message on its way in: `messages` makes a record of it and gives it its number, `committer` writes it with others to
the journal (`appender`) and applies it to the index (`applier`, `index`). On its way out: the index says where it
stands, `record_reader` reads it there. At the start `recovery` brings the index up to date.
"""

from __future__ import annotations

import logging
from itertools import zip_longest
from pathlib import Path
from typing import Final

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import StoreError
from jdbcstore.identifiers import MessageId, ProducerId, told_apart
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, Expired, ExpiredPage, TransactionStore
from jdbcstore.store.disk import bytes_in
from jdbcstore.store.journal.committer import Committer
from jdbcstore.store.journal.directory_adapter import DirectoryAdapter
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.job_store import JournalJobStore
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.known import KnownDestination
from jdbcstore.store.journal.messages import JournalMessageStore, PreparedAdd
from jdbcstore.store.journal.record_reader import RecordReader
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.recovery import refuse_lost_journal
from jdbcstore.store.journal.scheduling import Scheduling
from jdbcstore.store.journal.store_format import StoreFormat, StoreOptions
from jdbcstore.store.journal.topics import JournalTopicMessageStore
from jdbcstore.store.journal.transactions import JournalTransactionStore
from jdbcstore.store.journal.work import Acknowledge, Add, Came, DeleteAll, Forget, Keep, Meant, Part, Remove
from jdbcstore.store.journal.writes import Write
from jdbcstore.subscription import SubscriptionKey

__all__ = ["JournalPersistenceAdapter"]

log = logging.getLogger(__name__)


class JournalPersistenceAdapter(DirectoryAdapter[Index, JournalMessageStore, JournalTopicMessageStore]):
    """A directory with a journal. A format derives from it.

    Args:
        directory: of the store.
        journal_directory: where the files of the journal are; made if it is not there.
        archive_directory: where files go that are not needed; None removes them.
        store_format: of the journal.
        options: how it is kept.
        scheduler: the journal of scheduled messages.
    """

    committer: Committer

    def __init__(
        self,
        directory: Path,
        journal_directory: Path,
        archive_directory: Path | None,
        store_format: StoreFormat,
        options: StoreOptions,
        scheduler: Scheduling,
    ) -> None:
        super().__init__(directory, options, JournalMessageStore, JournalTopicMessageStore, store_format.file_pattern)
        self.journal_directory: Final = journal_directory
        self.format: Final = store_format
        self._archive = archive_directory
        self.reader: Final = RecordReader(journal_directory, store_format)
        self._appender: JournalWriter[Location]
        self._transactions: JournalTransactionStore
        self._jobs: Final = JournalJobStore(self)
        self.scheduler = scheduler

    # -- life ----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        let_go = self._locker.hold()
        appender = self._appender = self._new_appender()
        try:
            place = Path(self.options.index_directory or self.directory)
            refuse_lost_journal(self.journal_directory, place, self.format, self.options)
            appender.open()
            self.scheduler.open()
            index = self._open_index(appender)
        except BaseException:
            appender.abandon()
            self.scheduler.abandon()
            let_go()
            raise
        self._contents = index
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

    def _close(self, contents: Index) -> None:
        self.reader.close()
        try:
            self._appender.close()
            self.scheduler.close()
            self._finish(contents)
        finally:
            contents.close()

    def _let_be(self, contents: Index) -> None:
        contents.close()
        self.reader.close()

    @property
    def index(self) -> Index | None:
        """The index, None when stopped."""
        return self._contents

    # -- destinations --------------------------------------------------------------------------------------------

    def destinations(self) -> set[Destination]:
        return {
            known.destination
            for known in self.opened().known
            if known.count > 0 or known.subscriptions or known.is_kept
        }

    def _new_store(self, contents: Index, destination: Destination, *, prioritized: bool) -> JournalMessageStore:
        kind = JournalTopicMessageStore if destination.is_topic else JournalMessageStore
        return kind(self, destination, contents, prioritized=prioritized)

    def _keep(self, store: JournalMessageStore) -> None:
        if not store.known.is_kept:
            store.known.is_kept = True
            self.committer.write(Keep(store.destination))

    def remove_destination(self, destination: Queue | Topic) -> Completion[None]:
        if isinstance(destination, Topic):
            done = self.topic_message_store(destination).remove_everything()
        else:
            self._check_name(destination)
            known = self.opened().known.of(destination)
            done = self.committer.write(Forget(known), is_alone=True)
        self._stores.pop(destination, None)
        return done

    def transaction_store(self) -> TransactionStore:
        """As `SupportsTransactions`."""
        self.opened()
        return self._transactions

    def job_store(self) -> JournalJobStore:
        """As `SupportsScheduling`."""
        self.opened()
        return self._jobs

    def compact_acknowledgements(self) -> int | None:
        """Write the acknowledgements of a journal file again that is kept for them only. Waits until it is done.

        Returns:
            The number of the file, which the next cleanup removes; None if there is none of which that is worth it.

        Raises:
            StoreError: something could not be read or written.
        """
        self.opened()
        return self.committer.compact_acknowledgements()

    def message_counts(self) -> dict[Destination, int]:
        """How many messages each destination has."""
        return {known.destination: known.count for known in self.reading().known}

    def stored_bytes(self) -> dict[Destination, int]:
        """How many bytes of the journal the messages of each destination take. Reads the whole index."""
        index = self.reading()
        return {index.known.by_id(id).destination: size for id, size in index.sizes()}

    # -- writing -------------------------------------------------------------------------------------------------

    def commit_together(self, commit: Commit) -> Completion[None]:
        self.opened()
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
                if came:
                    assert message.message_id is not None
                    producer, number = str(message.message_id.producer_id), message.message_id.producer_sequence_id
                    if came.get(producer, -1) <= number and _is_shown(message.message_id):
                        shown[producer] = added[-1]
            parts: list[Part] = [*added] if changes is None else [changes, *added]
            parts += [Came(producer, last, shown.get(producer)) for producer, last in came.items()]
            parts += [Remove(store.known, *told_apart([message_id])) for store, message_id in sources]
            parts += [  # perhaps messages that have got their numbers just now
                Acknowledge(store.known, self.format.subscription_text(key), [Meant.of(message_id, self.format)])
                for store, key, message_id in done
            ]
            may_cancel: list[int] = []
            if changes is None and not (sources or done) and all(add.known.destination.is_queue for add in added):
                may_cancel = [add.hint.sequence for add in added]
            self.committer.submit(Write(completion, parts=parts, follows=commit.follows, may_cancel=may_cancel))
        return completion

    def delete_all_messages(self) -> None:
        index = self.opened()
        with self.order:
            for known in index.known:
                known.asked.clear()
            done = self.committer.write(DeleteAll(), is_alone=True)
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

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        self.opened()
        self.committer.write().result()  # behind what was submitted before
        return self.reading().last_of_producer(str(producer_id))

    @property
    def location(self) -> str:
        return f"{self.format.scheme}:{self.directory}"

    def size_bytes(self) -> int | None:
        elsewhere = self.options.index_directory
        return bytes_in([self.directory, *([Path(elsewhere)] if elsewhere else [])])


def _waiting(index: Index, known: KnownDestination, level: int, sequence: int) -> list[SubscriptionKey]:
    """The subscriptions that have not acknowledged a message."""
    subscriptions = list(known.subscriptions.values())
    return [one.info.key for one in subscriptions if index.is_pending(one.id, level, sequence)]


def _is_shown(message_id: MessageId) -> bool:
    """Whether the text of an id tells its producer and its number."""
    return message_id.text_view is None
