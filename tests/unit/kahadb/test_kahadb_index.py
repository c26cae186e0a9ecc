"""What pages, commits and the start cost does not depend on how much waits: nothing walks through a table."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.store.journal import index as index_module
from jdbcstore.store.journal.index import (
    ACKNOWLEDGE,
    EXPIRED,
    JOBS,
    PAGE,
    REMOVE,
    ROW,
    ROWS,
    ROWS_BY_ID,
    SUBSCRIPTION_PAGE,
    Index,
)
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (PAGE, (1, 4, 0, 100)),
        (SUBSCRIPTION_PAGE, (1, 4, 0, 100)),
        (ROW, (1,)),
        (ROWS, ("[1, 2]",)),
        (ROWS_BY_ID, (1, "", 1)),
        (EXPIRED, (0, 0, 1, 100)),
        (JOBS, (0, "", 1, 100)),
        (REMOVE, (1,)),
        (ACKNOWLEDGE, (1, 4, 1)),
    ],
)
def test_statements_follow_an_index(tmp_path: Path, statement: str, values: tuple[object, ...]) -> None:
    index = Index(tmp_path / "index", 100)
    plan = [row[3] for row in index.connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    index.close()
    assert plan
    for step in plan:
        assert not step.startswith("SCAN") or step.startswith("SCAN json_each"), step
        assert "TEMP B-TREE" not in step


def test_the_start_and_the_work_look_through_no_table_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    class Traced(sqlite3.Connection):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[arg-type]
            self.set_trace_callback(said.append)

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *arguments, **options: connect(*arguments, factory=Traced, **options)
    )
    adapter = KahaDBPersistenceAdapter(tmp_path)
    key = SubscriptionKey("ann", "news")
    with adapter:
        topic = adapter.topic_message_store(Topic("T"))
        topic.add_subscription(SubscriptionInfo(key, Topic("T"), Topic("T"))).result(30)
        for number in range(20):
            adapter.queue_message_store(Queue("A")).add_message(text_message(number, expiration=number)).result(30)
            topic.add_message(text_message(number)).result(30)
    said.clear()
    with adapter:
        queue, topic = adapter.queue_message_store(Queue("A")), adapter.topic_message_store(Topic("T"))
        assert (queue.message_count, topic.subscription_message_count(key)) == (20, 20)
        starting = list(said)
        for message in queue.recover():
            assert message.message_id is not None
            queue.remove_message(message.message_id).result(30)
        for message in topic.recover():
            assert message.message_id is not None
            topic.acknowledge(key, message.message_id).result(30)
        adapter.expired_messages(10, 5)
        adapter.checkpoint()
    assert not [statement for statement in starting if " messages" in statement or " pending" in statement]
    index = Index(tmp_path / index_module.FILE_NAME, 100)
    walked = {
        (statement, row[3])
        for statement in {statement for statement in said if statement.startswith(("SELECT", "UPDATE", "DELETE"))}
        for row in index.connection.execute(f"EXPLAIN QUERY PLAN {statement}")
        if row[3] in ("SCAN messages", "SCAN pending", "SCAN m", "SCAN p", "SCAN other", "SCAN jobs", "SCAN producers")
    }
    index.close()
    assert not walked
