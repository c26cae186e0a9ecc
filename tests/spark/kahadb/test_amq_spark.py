"""``format("kahadb")`` on an AMQ store: what ActiveMQ 5.3.2 finds in it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jdbcstore.spark.kahadb import live_messages
from jdbcstore.store.journal.amq.journal import Journal

VECTOR = Path(__file__).parents[2] / "vectors" / "amq-store" / "clean"


@pytest.fixture(scope="module")
def wanted() -> Any:
    return json.loads((VECTOR / "expected.json").read_text())["as_left"]


def queues(rows: list[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: row.offset):
        if row.topic.startswith("queue:"):
            found.setdefault(row.topic, []).append(row.messageId)
    return found


@pytest.mark.parametrize("folder", ["", "journal"])
def test_live_messages(spark: SparkSession, wanted: Any, folder: str) -> None:
    columns = "topic,offset,messageId,kind,text,subscribers,_corrupt"
    rows = spark.read.format("kahadb").option("columns", columns).load(str(VECTOR / folder)).collect()
    assert not [row for row in rows if row._corrupt is not None]
    assert queues(rows) == wanted["queues"]
    assert {key for row in rows for key in row.subscribers or ()} == {"c1:d1", "c1:d2"}
    assert all(row.text for row in rows if row.topic == "queue://Q.ONE")
    assert queues(live_messages(spark, str(VECTOR), columns="topic,offset,messageId").collect()) == wanted["queues"]


def test_the_other_views(spark: SparkSession) -> None:
    read = spark.read.format("kahadb")
    subscriptions = read.option("view", "subscriptions").load(str(VECTOR)).collect()
    assert {row.subscriptionName: row.pending for row in subscriptions} == {"d1": 2, "d2": 6}
    files = {row.file: row for row in read.option("view", "files").load(str(VECTOR)).collect()}
    assert {number: row.liveMessages for number, row in files.items()} == {1: 24, 2: 0, 3: 0, 4: 2}
    records = read.option("view", "records").load(str(VECTOR)).groupBy("command").count().collect()
    counts = {row["command"]: row["count"] for row in records}
    assert counts == Counter(type(command).__name__ for _, command in Journal(VECTOR / "journal").records())
