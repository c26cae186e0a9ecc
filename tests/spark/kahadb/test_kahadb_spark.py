"""The format in Spark: on every directory of the vectors the same as the reader of this project, and as ActiveMQ."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from jdbcstore.spark.kahadb import live_messages
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.replay import replay


def sha256(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def test_records_are_those_of_the_reader(spark: SparkSession, vectors: dict[Path, Any]) -> None:
    """One job over all directories, once in parts; Spark finds the format by itself, too."""
    wanted = sorted(
        (*location, type(command).__name__) for folder in vectors for location, command in [*Journal(folder).records()]
    )
    frame = spark.read.format("kahadb").option("view", "records").option("splitBytes", 500_000)
    records = frame.load([str(folder) for folder in vectors])
    found = records.filter("_corrupt is null").select("file", "offset", "size", "command").collect()
    assert sorted(map(tuple, found)) == wanted


#: Enough to tell two messages apart.
COLUMNS = (
    "topic,partition,offset,messageId,xid,rowPriority,priority,timestamp,expiration,redeliveryCounter,kind,message,"
    "subscribers,_corrupt"
)


def as_told(frame: DataFrame, folders: list[Path]) -> dict[tuple[Path, str], list[dict[str, Any]]]:
    """By directory and destination, in the order of their places."""
    found: dict[tuple[Path, str], list[dict[str, Any]]] = {}
    for row in sorted(frame.collect(), key=lambda row: (row.partition, row.offset)):
        found.setdefault((folders[row.partition], row.topic), []).append(row.asDict(recursive=True))
    return found


def test_live_messages_are_those_that_activemq_finds(
    spark: SparkSession, vectors: dict[Path, Any], tmp_path: Path
) -> None:
    folders = list(vectors)
    # Some by URI, and one in parts; a damage is a row without topic.
    paths = [str(folder) if index % 2 else folder.as_uri() for index, folder in enumerate(folders)]
    frame = spark.read.format("kahadb").option("columns", COLUMNS).load(paths).filter("_corrupt is null")
    replayed = as_told(frame, folders)
    # The way by Spark's workers takes three stages for each directory; that rows replay to the same state is tested
    # without Spark on all of them.
    some = [folder for folder in folders if folder.name in ("compaction", "corrupt", "large", "transactions")]
    # The last one is empty.
    frame = live_messages(spark, *map(str, some), str(tmp_path), columns=COLUMNS, splitBytes=700_000).filter(
        "_corrupt is null"
    )
    wanted_rows = {
        place: [row | {"partition": some.index(place[0])} for row in found]
        for place, found in replayed.items()
        if place[0] in some
    }
    assert as_told(frame, some) == wanted_rows

    for folder, wanted in vectors.items():
        state = replay(Journal(folder))
        for destination, stored in state.destinations.items():
            name = destination.qualified_name
            found = replayed.pop((folder, name), [])
            told = wanted["destinations"][name]
            by_id = {message["id"]: message for message in told["messages"]}
            hidden = set() if destination.is_topic else set(by_id) - set(told["dispatchable_ids"])
            found.sort(key=lambda row: -row["rowPriority"])  # stable
            in_order = [message["id"] for message in told["messages"] if message["id"] not in hidden]
            assert [row["messageId"] for row in found] == in_order
            assert len(stored) == len(in_order) + len(hidden)
            assert set(by_id) == {row["messageId"] for row in found} | hidden
            for row in found:
                message = by_id[row["messageId"]]
                assert sha256(row["message"]) == message["marshalled_sha256"]
                assert f"ActiveMQ{row['kind'].title()}Message".replace("MessageMessage", "Message") == message["class"]
                assert (row["priority"], row["redeliveryCounter"]) == (message["priority"], message["redelivered"])
                assert round(row["timestamp"].timestamp() * 1000) == message["timestamp"]
                expiration = row["expiration"]
                assert (0 if expiration is None else round(expiration.timestamp() * 1000)) == message["expiration"]
                if destination.is_topic:
                    waiting = {k for k, one in told["subscriptions"].items() if row["messageId"] in one["recover_ids"]}
                    assert set(row["subscribers"]) == waiting
                else:
                    assert row["subscribers"] is None
    assert replayed == {}


def test_an_error_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="unknown option 'selecter', did you mean selector") as raised:
        spark.read.format("kahadb").option("selecter", "x = 1").load(str(tmp_path))
    assert "Traceback" not in str(raised.value)
