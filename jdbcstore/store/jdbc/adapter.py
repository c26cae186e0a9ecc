"""The SQL store: one engine, one writer, and what has to be known before the first message.

At start it reads what a broker has to know, from indexes only: which containers there are, how many messages each has
and at which priorities, and the highest number given out. From then on these are kept in memory: this adapter is the
only one that writes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, TextClause, text

from jdbcstore.destination import Destination, Queue, Topic, parse_destination
from jdbcstore.errors import (
    ConfigurationError,
    SchemaMismatch,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.identifiers import ProducerId
from jdbcstore.store.commit_numbers import CommitNumbers
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import (
    PRIORITY_LEVELS,
    Commit,
    Expired,
    ExpiredPage,
    Locker,
    MessageStore,
    PersistenceAdapter,
    TopicMessageStore,
    TransactionStore,
)
from jdbcstore.store.jdbc.cleanup import Cleanup
from jdbcstore.store.jdbc.column_text import require_column_text
from jdbcstore.store.jdbc.dialect import Dialect, dialect_at, dialect_for, raw_connection
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.history import bind
from jdbcstore.store.jdbc.intake import JdbcIntakeStore
from jdbcstore.store.jdbc.job_store import JdbcJobStore
from jdbcstore.store.jdbc.line_watch import Lines, line_of, pooled_engine
from jdbcstore.store.jdbc.mapped_errors import mapped
from jdbcstore.store.jdbc.mastership import Mastership
from jdbcstore.store.jdbc.messages import JdbcMessageStore, PreparedRow, producer_text
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.outbox import Outbox
from jdbcstore.store.jdbc.plan import Planner
from jdbcstore.store.jdbc.prepared import Doubts
from jdbcstore.store.jdbc.producers import Producers
from jdbcstore.store.jdbc.rows import Container, MessageRow, ProducerRow, Purge
from jdbcstore.store.jdbc.statements import Statements, text_of
from jdbcstore.store.jdbc.subscriptions import Registry
from jdbcstore.store.jdbc.topic_work import Keep, Release
from jdbcstore.store.jdbc.topics import JdbcTopicMessageStore
from jdbcstore.store.jdbc.transactions import JdbcTransactionStore
from jdbcstore.store.jdbc.usable_schema import has_unfinished_loads, recover_loads, usable_schema
from jdbcstore.store.jdbc.vacuum import Vacuum
from jdbcstore.store.jdbc.writer import Writer
from jdbcstore.store.jdbc.writes import Write
from jdbcstore.subscription import SubscriptionInfo

__all__ = ["JdbcPersistenceAdapter"]

log = logging.getLogger(__name__)

#: The primary key of ACTIVEMQ_ACKS that ActiveMQ since 5.15.15 makes on PostgreSQL, by a mistake.
_KEY_WITHOUT_LEVEL: Final = {"CONTAINER", "CLIENT_ID", "SUB_NAME"}


class JdbcPersistenceAdapter(PersistenceAdapter):
    """ActiveMQ's tables in a SQL database.

    Args:
        url: SQLAlchemy's, one of SQLite (a file), PostgreSQL, MySQL, MariaDB.
        options: limits and names.
        fence: a mastership that the caller has, and keeps until the adapter is stopped; the locker of the options is
            ``none`` then.
        must_exist: refuse at the start a database without a store's tables: it may be somebody else's.
    """

    def __init__(
        self, url: URL, options: JdbcOptions | None = None, fence: Fence | None = None, *, must_exist: bool = False
    ) -> None:
        self.url: Final = url
        self.options: Final = options or JdbcOptions()
        if self.options.locker != "none" or fence is not None:
            self.options.require_primary("a broker or a script that is master")
        #: Held while a number is given out and its row submitted: rows are committed in the order of their numbers.
        self.order: Final = threading.Lock()
        self._engine: Engine | None = None
        self._lines: Lines | None = None
        self._sequence = 0
        self._containers: dict[str, Container] = {}
        self._stores: dict[Destination, JdbcMessageStore] = {}
        virtual = filter(None, (name.strip() for name in self.options.virtual_topic_consumers.split(",")))
        self._virtual_topic_consumers: Final = [Queue(name) for name in virtual]
        #: The durable subscriptions.
        self.registry: Registry
        #: The transactions in doubt.
        self.doubts: Doubts
        self._transactions: JdbcTransactionStore
        self._cleanup: Cleanup
        self.statements: Statements
        self.dialect: Dialect
        self.writer: Writer
        #: The statement that reads a page of one level.
        self.page_statement: Callable[[int | None], TextClause]
        self._vacuum: Vacuum
        self._producers: Producers
        self._jobs: JdbcJobStore
        self._intake: JdbcIntakeStore | None = None
        self._fence: Fence | None = None
        self._must_exist = must_exist
        self._mastership = Mastership(url, self.options, fence, must_exist=must_exist)

    # -- mastership ----------------------------------------------------------------------------------------------

    def locker(self) -> Locker:
        """The adapter's locker, the same from construction on; kind and times are options.

        Who wants to wait for mastership acquires it first, then calls `start`: what is read at the start must be what
        the last master left. The way back is `stop`, then `Locker.release`. Both may be repeated, for one mastership
        after another. `start` acquires, keeps and in the end releases by itself what nobody has acquired before.
        """
        return self._mastership.locker

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._engine is not None:
            raise StoreError("the store is started already")
        self._wait_for_abandoned()
        self._mastership.begin()
        engine, lines = pooled_engine(self.url, self.options)
        self._lines = lines
        try:
            self._fence = self._mastership.proof()
            if self._fence is not None and self._fence.history:
                bind(engine, dialect_at(self.url, self.options), self._fence.history)
            self._open(engine)
            lines.require_uncut()
        except BaseException:
            self._leave(engine, lines)
            self._mastership.end()
            raise
        self._engine = engine

    def _wait_for_abandoned(self) -> None:
        """What `abandon` did not wait for may not come in between."""
        self._mastership.wait_until_abandoned()
        writer: Writer | None = getattr(self, "writer", None)
        if writer is not None and not writer.has_settled(self.options.query_timeout_s):
            raise StoreUnavailable("the store was closed without waiting, and its last commit is still under way")

    def _open(self, engine: Engine) -> None:
        dialect = dialect_for(self.url.get_backend_name())
        names = self.options.table_names
        report = usable_schema(engine, self.options, must_exist=self._must_exist)
        if report.has_loads and self.options.locker != "none" and has_unfinished_loads(engine, self.options):
            recover_loads(self.url, self.options, self._fence)
            report = usable_schema(engine, self.options)  # indexes may have been made
        with mapped(dialect_at(self.url, self.options)):
            if not report.has_paging_index:
                log.warning("schema is not adopted: pages get slower as queues grow; run: jdbcstore schema upgrade URL")
            container = dialect.container_expression(collation_is_binary=report.collation_is_binary)
            self.statements = Statements(names, container, epoch_ms=dialect.epoch_ms)
            fitting = replace(
                self.options, message_bytes_max=min(self.options.message_bytes_max, report.message_bytes_max)
            )
            self.dialect = dialect(
                fitting, self.statements, has_page_index=report.has_paging_index, file=dialect.file_of(self.url)
            )
            self._vacuum = Vacuum(engine, self.dialect, self.options, self._message_count)
            self.registry = Registry(
                self.statements, has_table=report.has_acked, has_level_rows=set(report.acks_key) != _KEY_WITHOUT_LEVEL
            )
            self._cleanup = Cleanup(self, self.options.cleanup_period_ms / 1000)
            self.registry.look = self._cleanup.look
            self.doubts = Doubts(self.statements, self.registry, self._container, has_table=report.has_prepared_acks)
            self._transactions = JdbcTransactionStore(self, self)
            planner = Planner(self.registry, self.dialect, self.doubts)
            self.writer = Writer(engine, self.dialect, self.options, self._vacuum.removed, self._fence, planner)
            self._producers = Producers(self, has_table=report.has_producers)
            self._jobs = JdbcJobStore(self, has_table=report.has_scheduled)
            self._intake = JdbcIntakeStore(self) if report.has_loads else None
            self.page_statement = lru_cache(maxsize=None)(lambda level: text(self.dialect.page(level)))
            self.writer.start()  # before anything is read: it makes sure that no former session of ours writes any more
            with engine.connect() as connection:
                self._take_stock(connection, has_loads=report.has_loads)
        if self.dialect.needs_vacuum and self.options.vacuum_rows:
            self._vacuum.start()
        self._cleanup.start()

    def _take_stock(self, connection: Connection, *, has_loads: bool) -> None:
        """Read what has to be known, without touching a message."""
        statements = self.statements
        highest = [statements.sequence_last_of_messages, statements.sequence_last_of_acks]
        if has_loads:
            highest.append(statements.sequence_last_of_loads)
        if self.registry.has_table:
            highest.append(statements.sequence_last_of_acked)
        numbers = [connection.execute(text(statement)).scalar() for statement in highest]
        self._sequence = max(0, *(int(number or 0) for number in numbers))
        self._containers = {}
        for name, level, count in connection.execute(text(statements.containers_counted)):
            name = text_of(name)
            container = self._container(name)
            container.count += int(count)
            container.levels.add(None if level is None else int(level))
        for name, count in connection.execute(text(statements.containers_in_doubt)):
            self._container(text_of(name)).count -= int(count)
        self.registry.last_committed = self._sequence
        self.registry.load(connection, self._containers)
        for name, container in self._containers.items():
            if name.startswith(Topic.prefix):
                self.registry.state(container)  # also without subscriptions: a Java broker leaves their messages
        self.doubts.load(connection)

    def stop(self) -> None:
        engine, self._engine = self._engine, None
        lines = self._lines
        if engine is None or lines is None:
            return
        self._cleanup.stop()
        self.writer.stop()
        self._vacuum.stop()
        self._leave(engine, lines)
        self._mastership.end()

    def abandon(self) -> None:
        """As the contract says; also while another thread is in `start` or `stop`."""
        engine, self._engine = self._engine, None
        if self._lines is not None:
            self._leave(engine, self._lines)
        self._mastership.abandon()

    def _leave(self, engine: Engine | None, lines: Lines) -> None:
        """Let everything go that is still there."""
        writer: Writer | None = getattr(self, "writer", None)
        if writer is not None:
            writer.abandon()
            self._cleanup.abandon()
            self._vacuum.abandon()
        lines.cut()
        self._stores.clear()
        if engine is not None:
            engine.dispose()

    # -- destinations --------------------------------------------------------------------------------------------

    def destinations(self) -> set[Destination]:
        self._opened()
        known = {name for name, container in list(self._containers.items()) if container.count > 0}
        known.update(name for name, topic in list(self.registry.topics.items()) if topic.by_key)
        return {_destination(name) for name in known | self.registry.kept_queues | self.registry.others}

    def queue_message_store(self, queue: Queue, *, prioritized: bool = False) -> JdbcMessageStore:
        self._opened()
        store = self._stores.get(queue)
        if store is None:
            _check_name(queue)
            with self.order:
                container = self._container(queue.qualified_name)
                store = JdbcMessageStore(self, queue, container, prioritized=prioritized)
                store = self._stores.setdefault(queue, store)
            is_known = container.name in self.registry.kept_queues
            if not is_known and any(pattern.matches(queue) for pattern in self._virtual_topic_consumers):
                self.writer.submit(Write(Completion(), topics=(Keep(container.name),)))
        return store

    def remove_queue_message_store(self, queue: Queue) -> None:
        self._stores.pop(queue, None)

    def topic_message_store(self, topic: Topic, *, prioritized: bool = False) -> JdbcTopicMessageStore:
        """As `SupportsTopics`."""
        self._opened()
        store = known = self._stores.get(topic)
        if store is None:
            _check_name(topic)
            with self.order:
                state = self.registry.state(self._container(topic.qualified_name))
                store = JdbcTopicMessageStore(self, topic, state, prioritized=prioritized)
                store = self._stores.setdefault(topic, store)
            if prioritized and not self.registry.has_level_rows:
                log.warning(
                    "the key of %s has no room for a mark for each priority; this broker does with one, but a Java"
                    " broker will not see all messages. Run: jdbcstore schema upgrade URL",
                    self.statements.acks,
                )
        assert isinstance(store, JdbcTopicMessageStore)
        if store is not known:
            store.complete_subscriptions()
        return store

    def check_subscription(self, info: SubscriptionInfo) -> None:
        self.require_acked()
        for what, words in (
            ("client id", info.key.client_id),
            ("subscription name", info.key.subscription_name),
            ("subscribed destination", info.subscribed_destination.qualified_name),
            ("selector", info.selector or ""),
        ):
            require_column_text(f"the {what} of a durable subscription", words, ConfigurationError)

    def remove_topic_message_store(self, topic: Topic) -> None:
        """As `SupportsTopics`."""
        self._stores.pop(topic, None)

    def remove_destination(self, destination: Queue | Topic) -> Completion[None]:
        if isinstance(destination, Topic):
            done = self.topic_message_store(destination).remove_everything()
        else:
            _check_name(destination)
            done = Completion()
            with self.order:
                container = self._container(destination.qualified_name)
                purge, counts = Purge(container.name, self._sequence), ((container, 0),)
                topics = (Release(container.name),)
                self.writer.submit(Write(done, purges=(purge,), counts=counts, topics=topics))
        self._stores.pop(destination, None)
        return done

    def transaction_store(self) -> TransactionStore:
        """As `SupportsTransactions`."""
        self._opened()
        return self._transactions

    def clean_up(self) -> int:
        """As `SupportsTopics`."""
        self._opened()
        return self._cleanup.run()

    def job_store(self) -> JdbcJobStore:
        """As `SupportsScheduling`."""
        self._opened()
        self._jobs.require_table()
        return self._jobs

    def enlist(self, connection: Any) -> Outbox:
        """Add messages in the transaction of an application; the store need not be started, nor be master.

        Args:
            connection: to the database of this store; see `Outbox`, also for what it raises.
        """
        return Outbox(connection, self.options)

    def intake_store(self) -> JdbcIntakeStore | None:
        """As `SupportsIntake`."""
        self._opened()
        return self._intake

    def require_acked(self) -> None:
        """Raise `SchemaMismatch` unless our table of acknowledgements is there."""
        if not self.registry.has_table:
            raise SchemaMismatch(
                f"the store has no table {self.statements.acked}, so no durable subscription can be used. Run:"
                " jdbcstore schema upgrade URL, then start the broker again"
            )

    def destination_of(self, container: Container) -> Destination:
        """Whose messages a container has."""
        return _destination(container.name)

    def _container(self, name: str) -> Container:
        container = self._containers.get(name)
        if container is None:
            container = self._containers[name] = Container(name)
        return container

    # -- writing -------------------------------------------------------------------------------------------------

    def next_sequence(self) -> int:
        """The next number. The caller holds `order`."""
        self._sequence += 1
        return self._sequence

    def commit_together(self, commit: Commit) -> Completion[None]:
        self._opened()
        marks = [ProducerRow(producer_text(producer), last) for producer, last in commit.producers.items()]
        if marks:
            self._producers.require_table()
        changes, traces = self._jobs.changes_of(commit.jobs)
        if commit.taken is not None:
            if self._intake is None:
                raise SchemaMismatch(
                    f"the store has no table {self.statements.loads}. Run: jdbcstore schema upgrade URL"
                )
            more, tracks = self._intake.changes_of(commit.taken)
            changes, traces = [*changes, *more], [*traces, *tracks]
        completion: Completion[None] = Completion()
        targets = [(self.own(store), message) for store, message in commit.adds]
        sources = [(self.own(store), message_id) for store, message_id in commit.removes]
        topics = [work for store, message_id in sources for work in store.removal_of(message_id)]
        done = [(self.own_topic(store), key, message_id) for store, key, message_id in commit.acknowledged]
        sources = [(store, message_id) for store, message_id in sources if not isinstance(store, JdbcTopicMessageStore)]
        known = [message_id.broker_sequence_id for _, message_id in sources if message_id.broker_sequence_id > 0]
        keys = [store.key_of(message_id) for store, message_id in sources if message_id.broker_sequence_id <= 0]
        counts = [(store.container, -1) for store, _ in sources]
        with self.order:
            rows: list[MessageRow] = []
            for (store, message), made in zip_longest(targets, commit.prepared):
                if not store.is_needed:
                    store.number(message)
                    continue
                row = store.row_of(message, made if isinstance(made, PreparedRow) else None)
                rows.append(row)
                counts.append(store.added)
                topics += store.work_of(row)
            for topic_store, key, message_id in done:  # perhaps messages that have got their numbers just now
                topics += topic_store.acknowledgement(key, (message_id,))
            self.writer.submit(
                Write(
                    completion,
                    adds=rows,
                    removes=known,
                    keys=keys,
                    counts=counts,
                    producers=marks,
                    follows=commit.follows,
                    topics=topics,
                    changes=changes,
                    traces=traces,
                )
            )
        return completion

    def own(self, store: MessageStore) -> JdbcMessageStore:
        """A store that was made here and is open. Raises `StoreError` when it is another."""
        if not isinstance(store, JdbcMessageStore) or self._stores.get(store.destination) is not store:
            raise StoreError(f"{store!r} is not an open store of this adapter")
        return store

    def own_topic(self, store: TopicMessageStore) -> JdbcTopicMessageStore:
        """The same, of a topic."""
        own = self.own(store)
        if not isinstance(own, JdbcTopicMessageStore):
            raise StoreError(f"{own.destination} is no topic: it has no durable subscriptions")
        return own

    def delete_all_messages(self) -> None:
        engine = self._opened()
        with self.order, mapped(self.dialect), engine.connect() as connection:
            last: Completion[None] = Completion()
            self.writer.submit(Write(last))  # behind everything submitted so far
            last.result()
            self._delete_all(connection)
            self.registry.last_committed = self._sequence
            self.registry.clear()
            self.doubts.clear()
            for container in self._containers.values():
                container.count = 0

    def _delete_all(self, connection: Connection) -> None:
        statements = [self.statements.messages_delete_all, self.statements.acks_delete_all]
        if self._producers.has_table:
            statements.append(self.statements.producers_delete_all)
        if self.registry.has_table:
            statements.append(self.statements.acked_delete_all)
        if self._jobs.has_table:
            statements.append(self.statements.jobs_delete_all)
        if self.doubts.has_table:
            statements.append(self.statements.prepared_acks_delete_all)
        try:
            with line_of(connection):
                self.dialect.transact(raw_connection(connection), statements, self._fence)
        except Exception as error:
            connection.invalidate()  # and with it the transaction
            if self._fence is not None and self.dialect.is_fence(error):
                raise self._fence.lost() from error
            raise self.dialect.map_error(error) from error

    # -- reading -------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read with; drivers' errors leave it as ours."""
        engine = self._opened()
        with mapped(self.dialect), engine.connect() as connection:
            yield connection

    def expired_messages(self, now_ms: int, messages_max: int, after: tuple[int, int] = (0, 0)) -> ExpiredPage:
        since, id = after
        with self.reading() as connection:
            asked = {"since": since, "id": id, "now": now_ms, "rows": messages_max}
            rows = connection.execute(text(self.statements.expired_page), asked).all()
        found: list[Expired] = []
        for id, container, _, level in rows:
            name = text_of(container)
            topic = self.registry.topics.get(name)
            subscriptions = [] if topic is None else list(topic.by_key.items())
            keys = tuple(key for key, one in subscriptions if int(id) not in one.seen(level))
            if keys or not name.startswith(Topic.prefix):  # else it is the cleanup's
                place = min(max(level or 0, 0), PRIORITY_LEVELS - 1)
                found.append(Expired(_destination(name), int(id), place, keys))
        is_end = len(rows) < messages_max
        return ExpiredPage(found, None if is_end else (int(rows[-1][2]), int(rows[-1][0])))

    def last_message_broker_sequence_id(self) -> int:
        return self._sequence

    @property
    def remembers_producers(self) -> bool:
        return self._producers.has_table

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        self._opened()
        return self._producers.last_sequence(str(producer_id))

    def last_whole_sequence_id(self, producer_id: ProducerId) -> int:
        self._opened()
        return self._producers.remembered(str(producer_id))

    def checkpoint(self) -> None:
        with self.reading() as connection:
            connection.execute(text("SELECT 1"))

    @property
    def location(self) -> str:
        return self.url.render_as_string(hide_password=True)

    def size_bytes(self) -> int | None:
        with self.reading() as connection:
            query = self.dialect.size_query()
            size = connection.execute(text(query)).scalar() if query else None
        return None if size is None else int(size)

    @property
    def commit_numbers(self) -> CommitNumbers | None:
        return None if self._engine is None else self.writer.commits.numbers

    @property
    def writes_waiting(self) -> int:
        return 0 if self._engine is None else self.writer.commits.waiting

    def _message_count(self) -> int:
        return sum(container.count for container in list(self._containers.values()))

    def require_open(self) -> None:
        """Raise `StoreClosed` unless started."""
        self._opened()

    def _opened(self) -> Engine:
        if self._engine is None:
            raise StoreClosed("the store is stopped; start it first")
        return self._engine


def _destination(name: str) -> Destination:
    """A value of CONTAINER. A name that no broker would make is kept as it stands."""
    try:
        return parse_destination(name)
    except ConfigurationError:
        return Queue.decoded(name)


def _check_name(destination: Destination) -> None:
    if destination.is_composite or destination.is_wildcard:
        raise ConfigurationError(f"{destination} names several destinations; a store keeps one")
    require_column_text("the name", destination.qualified_name, ConfigurationError)
