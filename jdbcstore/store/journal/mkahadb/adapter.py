"""Several KahaDB stores as one: each destination is in one of them, and they share lock and numbers.

What concerns one store is that store's business. A commit over several is done as ActiveMQ does it: prepared in each,
the outcome written to ``txStore``, committed in each. From its first to its last step no message of these stores gets a
number, so that pages do not pass what becomes visible later; everything else goes on.
"""

from __future__ import annotations

import heapq
import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import JdbcStoreError, OutcomeUnknown, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.identifiers import ProducerId, XATransactionId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import (
    Commit,
    ExpiredPage,
    Locker,
    MessageStore,
    PersistenceAdapter,
    TransactionStore,
)
from jdbcstore.store.disk import bytes_in, make_directory
from jdbcstore.store.jobs import JobStore
from jdbcstore.store.journal.commands import Command
from jdbcstore.store.journal.job_changes import DecidedJobs
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.scheduler import DIRECTORY as SCHEDULER
from jdbcstore.store.journal.kahadb.scheduler import warn_of_scheduled_beside
from jdbcstore.store.journal.messages import JournalMessageStore
from jdbcstore.store.journal.mkahadb.child import Child
from jdbcstore.store.journal.mkahadb.commits import CommitOverSeveral
from jdbcstore.store.journal.mkahadb.directory_kind import refuse_what_is_no_mkahadb_store
from jdbcstore.store.journal.mkahadb.filters import (
    EVERYTHING,
    TX_STORE,
    chosen,
    directory_name,
    filter_of,
    is_store,
    stores_of,
)
from jdbcstore.store.journal.mkahadb.job_store import SharedJobStore
from jdbcstore.store.journal.mkahadb.options import MKahaDBOptions
from jdbcstore.store.journal.mkahadb.outcomes import LOCAL_XA_FORMAT, Outcomes
from jdbcstore.store.journal.mkahadb.steps import force_periodic, written
from jdbcstore.store.journal.mkahadb.transaction_store import SharedTransactionStore
from jdbcstore.store.journal.shared_file_lock import SharedFileLocker
from jdbcstore.store.journal.topics import JournalTopicMessageStore
from jdbcstore.store.unlocked import NoLocker

__all__ = ["MKahaDBPersistenceAdapter"]

log = logging.getLogger(__name__)

T = TypeVar("T")


class MKahaDBPersistenceAdapter(PersistenceAdapter):
    """A directory of KahaDB stores.

    Args:
        directory: the one with ``txStore`` in it; made if it is not there.
        options: of each store, and which there are.
    """

    def __init__(self, directory: Path | str, options: MKahaDBOptions | None = None) -> None:
        self.directory: Final = Path(directory)
        self.options: Final = options or MKahaDBOptions()
        self.shared_locker: Final = (
            SharedFileLocker(directory, self.options.lock) if self.options.use_lock else NoLocker(self.options.lock)
        )
        self._filters: Final = self.options.of_filters()
        self._children: dict[str, Child] = {}
        #: The stores of one destination that are closed, because nothing is in them.
        self._unused: set[str] = set()
        self._abandoned: list[Child] = []
        self._where: dict[Destination, Child] = {}
        self._numbering = threading.Lock()
        self._opening = threading.RLock()
        self._given = 0
        self._outcomes = Outcomes(self.directory / TX_STORE)
        self._worker: ThreadPoolExecutor | None = None
        self._transactions = SharedTransactionStore(self, self)
        self._jobs = SharedJobStore(self)
        self._global_id = b""
        self._count = 0
        self._acquired_itself = False
        self._is_broken = False

    def locker(self) -> Locker:
        """The lock of the directory, which Java brokers take, too; as that of a KahaDB store."""
        return self.shared_locker

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._worker is not None:
            raise StoreError("the store is started already")
        for child in self._abandoned:  # each holds the lock until it has written
            child.wait_for_abandoned()
        self._abandoned = []
        refuse_what_is_no_mkahadb_store(self.directory)
        warn_of_scheduled_beside(self.directory)
        make_directory(self.directory)
        locker = self.shared_locker
        if isinstance(locker, SharedFileLocker) and locker.lease is None:
            if locker.acquire() is None:
                raise locker.held_by_another()
            self._acquired_itself = True
        try:
            self._open()
        except BaseException:
            self._close_children(abandon=True)
            self._resign()
            raise

    def _open(self) -> None:
        self._is_broken, self._given = False, 0
        self._global_id = b"jdbcstore:" + secrets.token_hex(8).encode()
        for path in stores_of(self.directory):
            child = self._child(path.name)
            if self._is_of_one_destination(path.name) and not child.has_anything():
                self._unused.add(path.name)  # each takes a thread and open files; who needs it opens it again
                del self._children[path.name]
                child.stop()
        if not self.options.per_destination or (self.directory / SCHEDULER).is_dir():
            self._child(self._name_for_everything())
        self._outcomes.read()
        is_done = self._decide()
        self._outcomes.open(self.options.of_others(), is_done=is_done)
        self._worker = ThreadPoolExecutor(1, "jdbcstore-mkahadb")

    def _is_of_one_destination(self, name: str) -> bool:
        pattern = filter_of(name)
        return not (pattern is None or pattern in self._filters or pattern.is_composite or pattern.is_wildcard)

    def _name_for_everything(self) -> str:
        return next((one for one in EVERYTHING if is_store(self.directory / one)), EVERYTHING[0])

    def _new_child(self, name: str) -> Child:
        keeps_jobs = name == self._name_for_everything()
        return Child(self, self.directory / name, self._options_of(name), keeps_jobs=keeps_jobs)

    def _options_of(self, name: str) -> KahaDBOptions:
        """How the store in a directory is kept: as its filter says, its own places within those of all."""
        found = self.options.of_others()
        for pattern, options in self._filters.items():
            if name == directory_name(pattern.qualified_name) or filter_of(name) == pattern:
                found = options
        index, archive = found.index_directory, found.directory_archive
        return replace(
            found,
            index_directory=index and str(Path(index, name)),
            directory_archive=archive and str(Path(archive, name)),
        )

    def _child(self, name: str) -> Child:
        """The store of a directory, opened."""
        with self._opening:
            child = self._children.get(name)
            if child is None:
                child = self._new_child(name)
                child.start()
                self._children[name] = child
                self._unused.discard(name)
                self.next_number(child.last_message_broker_sequence_id(), step=0)
                for destination in child.destinations():
                    other = self._where.setdefault(destination, child)
                    if other is not child:  # filters were changed, or one is a copy
                        if name == self._name_for(destination):
                            other = self._where[destination] = child
                        log.warning("%s is in two stores: %s counts", destination, other.directory.name)
            return child

    def _decide(self) -> bool:
        """What was prepared for a commit over several stores gets its outcome. Whether nothing is left open."""
        for child in self._children.values():
            for xid in list(child.reading().prepared()):
                if xid.format_id != LOCAL_XA_FORMAT:
                    continue
                if self._outcomes.is_damaged:
                    log.error("%s is damaged: transaction %s in %s is left in doubt", TX_STORE, xid, child.directory)
                    continue
                is_commit = xid in self._outcomes.decided
                log.info("decided transaction=%s store=%s commits=%s", xid, child.directory.name, is_commit)
                store = child.transaction_store()
                (store.commit_prepared(xid) if is_commit else store.rollback_prepared(xid)).result()
        for xid, scheduled in self._outcomes.decided.items():
            if scheduled:
                log.info("decided transaction=%s store=%s commits=True", xid, SCHEDULER)
                child = self._child(self._name_for_everything())
                written(child, [DecidedJobs(scheduled)])
                force_periodic([child])
        return not self._outcomes.is_damaged

    def stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.shutdown(wait=True)
        try:
            self._close_children(abandon=False)
        finally:
            self._outcomes.close()
            self._resign()

    def abandon(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        self._close_children(abandon=True)
        worker.shutdown(wait=False, cancel_futures=True)
        self._resign()

    def _close_children(self, *, abandon: bool) -> None:
        children, self._children, self._where = list(self._children.values()), {}, {}
        self._unused.clear()
        if abandon:
            self._abandoned += children
        with ExitStack() as stack:
            for child in children:
                stack.callback(child.abandon if abandon else child.stop)

    def _resign(self) -> None:
        if self._acquired_itself:
            self._acquired_itself = False
            self.shared_locker.release()

    def _opened(self) -> list[Child]:
        if self._worker is None:
            raise StoreClosed("the store is stopped; start it first")
        return list(self._children.values())

    # -- numbers -------------------------------------------------------------------------------------------------

    def next_number(self, least: int, step: int = 1) -> int:
        """A number behind all that were given out in any store, and behind this one."""
        with self._numbering:
            self._given = max(self._given, least) + step
            return self._given

    def last_message_broker_sequence_id(self) -> int:
        self._opened()
        return self._given

    # -- destinations --------------------------------------------------------------------------------------------

    def child_of(self, destination: Destination) -> Child:
        """The store of a destination, which is made if it is not there."""
        self._opened()
        found = self._where.get(destination)
        if found is None:
            with self._opening:
                found = self._where[destination] = self._child(self._name_for(destination))
        return found

    def _name_for(self, destination: Destination) -> str:
        there = {filter_of(name): name for name in (*self._unused, *self._children)}
        wanted = [*self._filters, *(one for one in there if one is not None)]
        pattern = chosen(destination, wanted)
        if pattern is not None:
            return there.get(pattern) or directory_name(pattern.qualified_name)
        if self.options.per_destination:
            return directory_name(destination.qualified_name)
        return self._name_for_everything()

    def destinations(self) -> set[Destination]:
        return set[Destination]().union(*(child.destinations() for child in self._opened()))

    def queue_message_store(self, queue: Queue, *, prioritized: bool = False) -> JournalMessageStore:
        return self.child_of(queue).queue_message_store(queue, prioritized=prioritized)

    def remove_queue_message_store(self, queue: Queue) -> None:
        self.child_of(queue).remove_queue_message_store(queue)

    def topic_message_store(self, topic: Topic, *, prioritized: bool = False) -> JournalTopicMessageStore:
        """As `SupportsTopics`."""
        return self.child_of(topic).topic_message_store(topic, prioritized=prioritized)

    def remove_topic_message_store(self, topic: Topic) -> None:
        """As `SupportsTopics`."""
        self.child_of(topic).remove_topic_message_store(topic)

    def remove_destination(self, destination: Queue | Topic) -> Completion[None]:
        return self.child_of(destination).remove_destination(destination)

    def clean_up(self) -> int:
        """As `SupportsTopics`."""
        return sum(child.clean_up() for child in self._opened())

    def transaction_store(self) -> TransactionStore:
        """As `SupportsTransactions`."""
        self._opened()
        return self._transactions

    def delete_all_messages(self) -> None:
        for child in self._opened():
            child.delete_all_messages()

    @property
    def location(self) -> str:
        return f"mkahadb:{self.directory}"

    def size_bytes(self) -> int | None:
        return bytes_in([self.directory])

    def checkpoint(self) -> None:
        for child in self._opened():
            child.checkpoint()
        if self._is_broken:
            raise StoreUnavailable("a commit over several stores was broken off: start the store again")

    def expired_messages(self, now_ms: int, messages_max: int, after: tuple[int, int] = (0, 0)) -> ExpiredPage:
        pages = [(child, child.expired_rows(now_ms, messages_max, after)) for child in self._opened()]
        rows = [[((row[3], row[0]), child, row) for row in found] for child, found in pages]
        merged = list(heapq.merge(*rows, key=lambda one: one[0]))[:messages_max]
        found = [one for _, child, row in merged if (one := child.expired_row(row)) is not None]
        return ExpiredPage(found, None if len(merged) < messages_max else merged[-1][0])

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        return max((child.last_producer_sequence_id(producer_id) for child in self._opened()), default=-1)

    def message_counts(self) -> dict[Destination, int]:
        """How many messages each destination has."""
        return self._counting(lambda child: child.message_counts())

    def stored_bytes(self) -> dict[Destination, int]:
        """How many bytes the messages of each destination take."""
        return self._counting(lambda child: child.stored_bytes())

    def _counting(self, numbers: Callable[[Child], Mapping[Destination, int]]) -> dict[Destination, int]:
        """What each store says of the destinations that it has; one that is in two of them is in the first."""
        return {
            destination: number
            for child in self._opened()
            for destination, number in numbers(child).items()
            if self._where.get(destination, child) is child
        }

    # -- commits -------------------------------------------------------------------------------------------------

    def commit_together(self, commit: Commit) -> Completion[None]:
        self._opened()
        if commit.taken is not None:
            raise StoreError("a KahaDB directory is not loaded in bulk: send the messages to its broker")
        children: dict[Child, None] = {}
        for store in [one for one, _ in commit.adds] + [one for one, _ in commit.removes]:
            children[self.child_of_store(store)] = None
        for topic, _, _ in commit.acknowledged:
            children[self.child_of_store(topic)] = None
        if commit.jobs:
            children[self.scheduling_child()] = None
        if len(children) > 1:
            return CommitOverSeveral(self, commit, list(children)).submit()
        child = next(iter(children), None) or self.any_child()
        return child.commit_together(commit)

    def children(self) -> list[Child]:
        """The stores that are open. Raises `StoreClosed`."""
        return self._opened()

    def any_child(self) -> Child:
        """One for what belongs to no destination."""
        children = self._opened()
        return children[0] if children else self._child(EVERYTHING[0])

    def scheduling_child(self) -> Child:
        """The one in whose index the scheduled messages are; it is made if it is not there."""
        self._opened()
        return self._child(self._name_for_everything())

    def scheduling_child_if_there(self) -> Child | None:
        """The same, None if it is not there."""
        self._opened()
        return self._children.get(self._name_for_everything())

    def job_store(self) -> JobStore:
        """As `SupportsScheduling`."""
        self._opened()
        return self._jobs

    def child_of_store(self, store: MessageStore) -> Child:
        """The one that a store of messages is of. Raises `StoreError` when it is none of this adapter."""
        child = self._where.get(store.destination)
        if child is None:
            raise StoreError(f"{store!r} is not an open store of this adapter")
        child.own(store)
        return child

    def run(self, task: Callable[[], T], done: Completion[T], at_the_end: Callable[[], object] = lambda: None) -> None:
        """Do something in the thread for what is over several stores, and tell the outcome."""
        worker = self._worker
        if worker is None:
            at_the_end()
            raise StoreClosed("the store is stopped: nothing can be written any more")

        def work() -> None:
            try:
                result = task()
            except JdbcStoreError as error:
                done.fail(error)
            except Exception as error:
                log.exception("defect in a commit over several stores")
                done.fail(OutcomeUnknown(f"a commit over several stores failed: {error!r}"))
            else:
                done.resolve(result)
            finally:
                at_the_end()

        worker.submit(work)

    def new_xid(self) -> XATransactionId:
        """The next id of a transaction over several stores."""
        with self._numbering:
            self._count += 1
            return XATransactionId(LOCAL_XA_FORMAT, self._global_id, str(self._count).encode())

    def decided(self, xid: XATransactionId, scheduled: Sequence[Command]) -> None:
        """The outcome is a commit, which does this to scheduled messages. Raises `OutcomeUnknown`."""
        try:
            self._outcomes.decide(xid, scheduled)
        except StoreError as error:
            self._is_broken = True
            raise OutcomeUnknown(f"{TX_STORE}: {error}") from error

    def done(self, xid: XATransactionId) -> None:
        """It is done everywhere; if that cannot be written the next start finds nothing to do."""
        with suppress(StoreError):
            self._outcomes.done(xid)
