"""What the cleanup of acknowledged topic messages costs, and what senders notice of it.

``python -m benchmarks.cleanup [rows [database…]]`` fills each database (all four unless told) with that many rows
(600 000 unless told), five of six in one queue and the others on a topic with fifty durable subscriptions. It measures

* how long it takes to remove a hundred messages that everybody has acknowledged;
* the time to the answer of a sender that sends one message after the other, at rest, and while half of the topic's
  messages, all acknowledged, are removed behind it.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import text

from benchmarks.contestants import DATABASES, database
from jdbcstore.config.urls import open_engine, open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import MessageStore
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.testing import text_message
from tests.sql.loading import load

BODY: Final = "x" * 1024
TOPIC: Final = Topic("BENCH")
SUBSCRIPTIONS: Final = 50
#: Removed to see how long it takes.
FEW: Final = 100
AT_REST_S: Final = 5.0
WAIT_S: Final = 60.0


def fill(url: str, rows: int) -> None:
    """The rows of the measurement of ActiveMQ: a long queue, and a topic behind it with many subscriptions."""
    engine = open_engine(url)
    upgrade_schema(engine)
    of_queue, blob = rows * 5 // 6, marshal(text_message(1, BODY, destination=TOPIC))
    with engine.connect() as connection:
        tables = Tables.on(connection, "")
        load(connection, tables, of_queue, CONTAINER="queue://BACKLOG", MSG=blob)
        load(connection, tables, rows - of_queue, of_queue + 1, CONTAINER=TOPIC.qualified_name, MSG=blob)
        for number in range(SUBSCRIPTIONS):
            row = {"CONTAINER": TOPIC.qualified_name, "SUB_DEST": TOPIC.qualified_name, "CLIENT_ID": f"client{number}"}
            connection.execute(tables.acks.insert().values(**row, SUB_NAME="bench", LAST_ACKED_ID=0, PRIORITY=0))
        if connection.dialect.name == "postgresql":
            connection.execute(text("VACUUM ANALYZE activemq_msgs"))
    engine.dispose()


def acknowledge(adapter: JdbcPersistenceAdapter, first: int, count: int) -> None:
    """Every subscription has acknowledged these."""
    topic = adapter.topic_message_store(TOPIC)
    ids = [MessageId(None, 0, id) for id in range(first, first + count)]
    for done in [topic.acknowledge(info.key, *ids) for info in topic.all_subscriptions()]:
        done.result(WAIT_S)


class Sender(threading.Thread):
    """Sends one message after the other until it is stopped; `times_s` has how long each answer took, in seconds."""

    def __init__(self, store: MessageStore) -> None:
        super().__init__(name="sender")
        self.times_s: list[float] = []
        self.stopping = threading.Event()
        self._store = store

    def run(self) -> None:
        """Send."""
        producer, number = ProducerId(f"ID:bench-{time.monotonic_ns()}", 1, 1), 0
        while not self.stopping.is_set():
            number += 1
            began = time.perf_counter()
            self._store.add_message(text_message(number, BODY, producer_id=producer)).result(WAIT_S)
            self.times_s.append(time.perf_counter() - began)


def sending(store: MessageStore, work: Callable[[], object]) -> list[float]:
    """How long answers took while something was done, in seconds."""
    sender = Sender(store)
    sender.start()
    try:
        work()
    finally:
        sender.stopping.set()
        sender.join()
    return sender.times_s


def described(times_s: list[float]) -> str:
    """Median, p99 and the longest of some times."""
    ordered = sorted(times_s)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    median = statistics.median(ordered)
    return f"p50 {1e3 * median:6.2f}  p99 {1e3 * p99:7.2f}  max {1e3 * ordered[-1]:7.2f} ms  n={len(ordered)}"


def measure(kind: str, rows: int) -> None:
    """Print the figures of one database."""
    with tempfile.TemporaryDirectory() as folder, database(kind, Path(folder)) as found:
        fill(found.url, rows)
        adapter = open_store(found.url, JdbcOptions(cleanup_period_ms=0))
        assert isinstance(adapter, JdbcPersistenceAdapter)
        with adapter:
            first, many = rows * 5 // 6 + 1, rows // 12  # many: removed behind a sender
            acknowledge(adapter, first, FEW)
            began = time.perf_counter()
            removed = adapter.clean_up()
            took_s = time.perf_counter() - began
            if removed != FEW:
                raise RuntimeError(f"{removed} messages were removed instead of {FEW}")
            print(f"{kind:<11} {FEW} of {rows} rows removed in {1e3 * took_s:.1f} ms", flush=True)
            sends = adapter.queue_message_store(Queue("SENDS"))
            at_rest = sending(sends, lambda: time.sleep(AT_REST_S))
            acknowledge(adapter, first + FEW, many)
            began = time.perf_counter()
            meanwhile = sending(sends, adapter.clean_up)
            took_s = time.perf_counter() - began
            print(f"{kind:<11} sender at rest          {described(at_rest)}", flush=True)
            print(f"{kind:<11} sender during cleanup   {described(meanwhile)}", flush=True)
            print(f"{kind:<11} {many} rows removed behind it in {took_s:.2f} s", flush=True)


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000
    for each in sys.argv[2:] or DATABASES:
        measure(each, total)
