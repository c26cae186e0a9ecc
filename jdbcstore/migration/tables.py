"""What is in a SQL store: its tables read in one snapshot, whether a broker is at work or not.

Messages come in the order of their ids, which is the order over all destinations. What is acknowledged and what is in
doubt is read by the same classes as the store's own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from sqlalchemy import text

from jdbcstore.destination import Destination, Queue, Topic, parse_destination
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.identifiers import ProducerId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.migration.contents import MARKER, Contents, Damages, PreparedContents, StoredHere, name_of, require_id
from jdbcstore.migration.rows import MessageRow, ranges_of, rows_of
from jdbcstore.openwire import unmarshal_message
from jdbcstore.store.contract import ScheduledJob
from jdbcstore.store.jdbc.connection import Opened, opened
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.marks import Range
from jdbcstore.store.jdbc.own_tables import OUTBOX_JOB
from jdbcstore.store.jdbc.prepared import Doubts, messages_of
from jdbcstore.store.jdbc.rows import Container
from jdbcstore.store.jdbc.schema import SchemaReport, inspect_schema, require_usable
from jdbcstore.store.jdbc.snapshot import snapshot
from jdbcstore.store.jdbc.statements import Statements, text_of
from jdbcstore.store.jdbc.subscriptions import Registry, Subscription, TopicState, row_of
from jdbcstore.store.jdbc.xid import read_message_xid
from jdbcstore.subscription import SubscriptionInfo

__all__ = ["TableContents", "contents_of_tables"]

_JOBS_AT_ONCE: Final = 100


@contextmanager
def contents_of_tables(location: StoreLocation, *, skips_damage: bool = False) -> Iterator[TableContents]:
    """The contents of a SQL store as they are now.

    Raises:
        SchemaMismatch: it has no tables, or such that are too old.
        ConfigurationError: a bulk load waits for its broker.
        StoreError: it cannot be read.
    """
    with opened(location) as store:
        report = inspect_schema(store.connection, location.options.table_names)
        require_usable(report)
        is_live = store.connection.execute(text(store.statements.lease_holder)).scalar() is not None
        is_live = is_live or store.dialect.is_row_locked(store.connection)
        with snapshot(store.connection):
            yield TableContents(store, report, is_live=is_live, skips_damage=skips_damage)


class TableContents(Contents):
    """The contents of a SQL store. Made by `contents_of_tables` only."""

    def __init__(self, store: Opened, report: SchemaReport, *, is_live: bool, skips_damage: bool) -> None:
        self.name = str(store.location)
        self.is_live = is_live
        self.damages = Damages(are_skipped=skips_damage)
        self._store = store
        self._report = report
        expression = store.dialect.container_expression(collation_is_binary=report.collation_is_binary)
        names = store.location.options.table_names
        self._statements: Final = Statements(names, expression, epoch_ms=store.dialect.epoch_ms)
        self._containers: dict[str, Container] = {}
        for name, level, count in store.connection.execute(text(self._statements.containers_counted)):
            container = self._container(text_of(name))
            container.count += int(count)
            container.levels.add(None if level is None else int(level))
        self._registry = Registry(self._statements, has_table=report.has_acked, has_level_rows=True)
        self._registry.load(store.connection, self._containers)
        self._doubts = Doubts(self._statements, self._registry, self._container, has_table=report.has_prepared_acks)
        self._doubts.load(store.connection)
        self.prioritized = frozenset(
            destination_of(name) for name, one in self._containers.items() if one.levels - {0, None}
        )
        self._doubted: dict[XATransactionId, PreparedContents] = {}
        self._require_no_load()

    def _require_no_load(self) -> None:
        if self._report.has_loads:
            ready = self._store.connection.execute(text(self._statements.load_ready)).first()
            if ready is not None:
                raise ConfigurationError(
                    f"the bulk load {ready[0]} of the source waits for its broker: start it, so that it takes the load"
                    " in, or see: jdbcstore loads"
                )
            waiting = self._store.connection.execute(text(self._statements.staged_first), {"job": OUTBOX_JOB}).first()
            if waiting is not None:
                raise ConfigurationError(
                    "the outbox of the source has messages that no broker has taken in: stop the applications that"
                    " write to it, start the broker, and migrate when `jdbcstore loads list` shows that none waits"
                )

    def _container(self, name: str) -> Container:
        return self._containers.setdefault(name, Container(name))

    def destinations(self) -> Mapping[Destination, int]:
        known = {name for name, topic in self._registry.topics.items() if topic.by_key} | self._registry.kept_queues
        found = {destination_of(name): one.count for name, one in self._containers.items() if one.count}
        return {**dict.fromkeys(map(destination_of, known), 0), **found}

    def sizes(self) -> Mapping[Destination, int]:
        name, messages = self._statements.container, self._statements.messages
        summed = text(f"SELECT {name}, SUM(LENGTH(MSG)) FROM {messages} GROUP BY {name}")
        rows = self._store.connection.execute(summed)
        return {destination_of(text_of(name)): int(size or 0) for name, size in rows}

    def subscriptions(self) -> Sequence[SubscriptionInfo]:
        return [one.info for topic in self._registry.topics.values() for one in topic.by_key.values()]

    def messages(self) -> Iterator[StoredHere]:
        self._doubted = {xid: PreparedContents(xid) for xid in self._doubts.by_xid}
        removing = {id: xid for xid, one in self._doubts.by_xid.items() for id, _ in one.removed}
        acknowledging = self._acknowledging()
        cached: dict[str, Destination] = {}
        for first, last in ranges_of(self._store):
            for row in rows_of(self._store, first, last):
                id, name, level, xid = row[0], row[1], row[5], row[6]
                if xid and not _is_removed(xid):
                    continue
                topic = self._registry.topics.get(name)
                waiting = [] if topic is None else _waiting(topic, id, level)
                if not waiting and name.startswith(Topic.prefix):
                    continue
                destination = cached.get(name) or cached.setdefault(name, destination_of(name))
                message = self._message(row, destination)
                if message is None:
                    continue
                if id in removing:
                    self._doubted[removing[id]].removed.append((destination, name_of(message)))
                for in_doubt, subscription, ranges in acknowledging.get(name, ()):
                    rows = subscription.rows
                    intervals = ranges.get(row_of(level, rows), ())
                    if subscription in waiting and any(one.first <= id <= one.last for one in intervals):
                        assert isinstance(destination, Topic)
                        done = destination, subscription.info.key, name_of(message)
                        self._doubted[in_doubt].acknowledged.append(done)
                yield StoredHere(id, destination, message, len(row[7] or b""), [one.info.key for one in waiting])

    def _acknowledging(self) -> dict[str, list[tuple[XATransactionId, Subscription, dict[int, list[Range]]]]]:
        """By topic: what is acknowledged in doubt."""
        found = defaultdict(list)
        for xid, prepared in self._doubts.by_xid.items():
            for subscription, ranges in prepared.acknowledged.items():
                found[subscription.topic.container.name].append((xid, subscription, ranges))
        return dict(found)

    def _message(self, row: MessageRow, destination: Destination) -> Message | None:
        try:
            if row[7] is None:
                raise CodecError("column MSG is NULL")
            message = unmarshal_message(row[7])
            require_id(message)
        except (CodecError, ConfigurationError) as error:
            self.damages.meet(f"{destination}, ID {row[0]}", error)
            return None
        return message

    @property
    def in_doubt(self) -> Sequence[XATransactionId]:
        return list(self._doubts.by_xid)

    def prepared(self) -> Sequence[PreparedContents]:
        for xid, prepared in self._doubts.by_xid.items():
            containers = {row.id: row.container.name for row in prepared.added}
            rows = [(row, None) for row in prepared.added]
            added = dict(messages_of(self._store.connection, self._statements, rows))
            for id in sorted(containers.keys() - added.keys()):
                self.damages.meet(f"{containers[id]}, ID {id}, in doubt", "it cannot be read")
            self._doubted[xid].added = [(destination_of(containers[id]), added[id]) for id in sorted(added)]
        return list(self._doubted.values())

    def jobs(self) -> Iterator[ScheduledJob]:
        if not self._report.has_scheduled:
            return
        connection, statements = self._store.connection, self._statements
        place = (0, "")
        while True:
            asked = {"first": place[0], "after": place[1], "last": (1 << 63) - 1, "rows": _JOBS_AT_ONCE}
            found = connection.execute(text(statements.jobs_page), asked).all()
            for due_ms, job_id, _ in found:
                row = connection.execute(text(statements.job_by_id), {"job_id": job_id}).one()
                try:
                    if row[6] is None:
                        raise CodecError("column MSG is NULL")
                    message = unmarshal_message(bytes(row[6]))
                except CodecError as error:
                    self.damages.meet(f"job {job_id}", error)
                    continue
                yield ScheduledJob(job_id, message, int(due_ms), int(row[2]), int(row[3]), int(row[4]), row[5] or "")
            if len(found) < _JOBS_AT_ONCE:
                return
            place = int(found[-1][0]), found[-1][1]

    def producers(self) -> Mapping[ProducerId, int]:
        if not self._report.has_producers:
            return {}
        rows = self._store.connection.execute(text(f"SELECT PRODUCER, LAST_SEQ FROM {self._statements.producers}"))
        found = {ProducerId.parse(text_of(name)): int(last) for name, last in rows}
        return {one: last for one, last in found.items() if not (one.connection_id or "").startswith(MARKER)}


def _waiting(topic: TopicState, id: int, level: int | None) -> list[Subscription]:
    return [one for one in topic.by_key.values() if id not in one.at(level)]


def _is_removed(xid: str) -> bool:
    """Whether a prepared transaction removes a message. What is added in doubt, or being loaded, is not there yet."""
    try:
        return not read_message_xid(xid).is_added
    except CodecError:
        return False


def destination_of(name: str) -> Destination:
    """A value of CONTAINER. A name that no broker would make is kept as it stands."""
    try:
        return parse_destination(name)
    except ConfigurationError:
        return Queue.decoded(name)
