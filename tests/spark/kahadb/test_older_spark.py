"""``format("kahadb")`` and reports on LevelDB stores and on several KahaDB stores in one directory."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import ConfigurationError, JournalDamaged
from jdbcstore.openwire import unmarshal_message
from jdbcstore.pipeline.archive import archive
from jdbcstore.pipeline.archive.selection import Selection
from jdbcstore.pipeline.replay.sources import messages_of
from jdbcstore.pipeline.report import report
from jdbcstore.spark.kahadb import live_messages
from jdbcstore.spark.kahadb.columns import schema_of
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.spark.kahadb.records import RecordsReader
from jdbcstore.store.contract import Commit
from jdbcstore.store.journal.leveldb.inspection import units_of
from jdbcstore.store.journal.leveldb.records import KIND_NAMES
from jdbcstore.store.journal.leveldb.recovery import recover
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from tests.spark.kahadb.test_amq_spark import queues

LEVELDB = Path(__file__).parents[2] / "vectors" / "leveldb" / "clean"
COLUMNS = "topic,partition,offset,messageId,text,subscribers,_corrupt"


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two queues and a topic, each in a store of its own; one commit was over two of them."""
    directory = tmp_path_factory.mktemp("several")
    with open_store(f"mkahadb:{directory}?perDestination=true") as adapter:
        topic = adapter.topic_message_store(Topic("T"))  # type: ignore[attr-defined]
        topic.add_subscription(SubscriptionInfo(SubscriptionKey("c", "d"), Topic("T"), Topic("T"))).result(30)
        stores = [*(adapter.queue_message_store(Queue(name)) for name in "AB"), topic]
        for number in range(9):
            store = stores[number % 3]
            store.add_message(text_message(number, f"text {number}", destination=store.destination)).result(30)
        adds = [(store, text_message(20, f"both, {store.destination}")) for store in stores[:2]]
        adapter.commit_together(Commit(adds=adds)).result(30)
    return directory


def test_messages_of_a_leveldb_store(spark: SparkSession) -> None:
    """What ActiveMQ 5.16.8 finds in it; what a prepared transaction sends and takes is left out, or told."""
    wanted: Any = json.loads((LEVELDB / "expected.json").read_text())["as_left"]
    read = spark.read.format("kahadb").option("columns", COLUMNS)
    rows = read.load(str(LEVELDB)).collect()
    assert not [row for row in rows if row._corrupt is not None]
    assert queues(rows) == wanted["queues"]
    received: dict[str, list[str]] = {"c1:d1": [], "c1:d2": []}
    for row in sorted(rows, key=lambda row: row.offset):
        for key in row.subscribers or ():
            received[key].append(row.messageId)
    assert {key.partition(":")[2]: ids for key, ids in received.items()} == wanted["durable_receive"]
    assert all(row.text for row in rows if row.topic == "queue://Q.ONE")
    doubtful = read.option("columns", "messageId,xid").option("includePrepared", "true").load(str(LEVELDB))
    assert doubtful.where("xid IS NOT NULL").count() == 3
    assert live_messages(spark, str(LEVELDB), columns="messageId").count() == len(rows)


def test_other_views_of_a_leveldb_store(spark: SparkSession, tmp_path: Path) -> None:
    read = spark.read.format("kahadb")
    subscriptions = read.option("view", "subscriptions").load(str(LEVELDB)).collect()
    assert {row.subscriptionName: (row.pending, row.selector) for row in subscriptions} == {
        "d1": (2, None),
        "d2": (3, "n > 2"),
    }
    files = read.option("view", "files").load(str(LEVELDB)).orderBy("file").collect()
    assert [(row.liveMessages, row.removable) for row in files] == [(21, False), (0, True), (0, True), (2, False)]
    assert files[0].records["Data"] > 50
    figures = report(spark, f"leveldb:{LEVELDB}", tmp_path / "out")
    assert {row["destination"]: row["depth"] for row in figures.rows("destinations")} == {
        "queue://Q.BIG": 2,
        "queue://Q.ONE": 18,
        "queue://Q.TWO": 2,
        "topic://T.ONE": 3,
    }
    with pytest.raises(ConfigurationError, match="--live"):
        messages_of(spark, str(LEVELDB), None, live=False)
    assert messages_of(spark, str(LEVELDB), None, live=True).count() == 22


def records_in(directory: Path, **options: str) -> list[dict[str, Any]]:
    """Rows of ``view=records``, read as Spark's workers do, without a Spark."""
    told = KahaDBOptions.of({"path": str(directory), "view": "records", "payload": "true", **options})
    reader = RecordsReader(told, schema_of(told))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_records_of_a_leveldb_store(tmp_path: Path) -> None:
    """As a dump shows them, and damage; a message stands where its record says."""
    rows = records_in(LEVELDB)
    records = [record for _, unit in units_of(recover(LEVELDB)) for record in unit.records]
    assert Counter(row["command"] for row in rows) == Counter(KIND_NAMES[record.kind] for record in records)
    files = {number: path.read_bytes() for number, path in enumerate(sorted(LEVELDB.glob("*.log")), 1)}
    for row in rows:
        bytes_there = files[row["file"]][row["offset"] : row["offset"] + row["size"]]
        assert bytes_there[:1] == b"*"
        if row["command"] == "Data":
            assert bytes_there.endswith(row["message"])
            assert row["messageId"] == str(unmarshal_message(row["message"]).message_id)
    added = Counter(row["destination"] for row in rows if row["command"] == "AddEntry" and row["xa"] is None)
    assert added["queue://Q.BIG"] > 0
    assert None not in added
    assert {row["subscriptionKey"] for row in rows} >= {"c1:d1", "c1:d2"}
    (ack,) = [row for row in rows if row["acknowledgement"] is not None and row["xa"]["formatId"] == 2]
    assert ack["destination"] == "queue://Q.TWO"
    copy = Path(shutil.copytree(LEVELDB, tmp_path / "copy"))
    for path in copy.glob("*.index"):
        shutil.rmtree(path)
    first = next(row for row in rows if row["command"] == "Data")
    data = bytearray(files[first["file"]])
    data[first["offset"] + 60] ^= 0xFF
    (copy / min(path.name for path in LEVELDB.glob("*.log"))).write_bytes(data)
    damaged = records_in(copy)
    (wrong,) = [row for row in damaged if row["_corrupt"] is not None]
    assert [wrong[name] for name in ("file", "offset", "size")] == [first[name] for name in ("file", "offset", "size")]
    assert len(damaged) == len(rows)
    with pytest.raises(JournalDamaged, match="onCorrupt=column"):
        records_in(copy, onCorrupt="fail")


def test_a_damaged_leveldb_store_with_its_log_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    """A message that cannot be read any more is a row that says so."""
    shutil.copytree(LEVELDB, tmp_path / "store")
    (tmp_path / "log").mkdir()
    for path in (tmp_path / "store").glob("*.log"):
        path.rename(tmp_path / "log" / path.name)
    read = spark.read.format("kahadb").option("columns", COLUMNS).option("logDirectory", str(tmp_path / "log"))
    store = str(tmp_path / "store")
    before = read.load(store).collect()
    assert len(before) == 22
    (first, *_) = sorted((row for row in before if row.topic == "queue://Q.BIG"), key=lambda row: row.offset)
    last = max((tmp_path / "log").glob("*.log"))
    data = bytearray(last.read_bytes())
    data[first.offset - int(last.stem, 16) + 200] ^= 0xFF
    last.write_bytes(data)
    after = read.load(store).collect()
    assert [row._corrupt.error for row in after if row._corrupt is not None]
    assert {row.messageId for row in before} - {row.messageId for row in after} == {first.messageId}


def test_several_kahadb(spark: SparkSession, several: Path, tmp_path: Path) -> None:
    """All of them as one, by the name of the directory."""
    rows = spark.read.format("kahadb").option("columns", COLUMNS).load(str(several)).collect()
    assert not [row for row in rows if row._corrupt is not None]
    texts: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row.topic, row.offset)):
        texts.setdefault(row.topic, []).append(row.text)
    assert texts == {
        "queue://A": ["text 0", "text 3", "text 6", "both, queue://A"],
        "queue://B": ["text 1", "text 4", "text 7", "both, queue://B"],
        "topic://T": ["text 2", "text 5", "text 8"],
    }
    assert len({row.partition for row in rows}) == 3
    assert live_messages(spark, str(several), columns="messageId").count() == len(rows)
    records = spark.read.format("kahadb").option("view", "records").load(str(several))
    assert records.where("command = 'AddMessage'").count() == len(rows)
    figures = report(spark, str(several), tmp_path / "out")
    assert {row["destination"]: row["depth"] for row in figures.rows("destinations")} == {
        name: len(found) for name, found in texts.items()
    }


@pytest.mark.parametrize("store", [pytest.param("several", marks=pytest.mark.exhaustive), "leveldb"])
def test_a_directory_is_archived(spark: SparkSession, several: Path, tmp_path: Path, store: str) -> None:
    """Each message once; of the destinations that are asked for."""
    directory, name, count = (several, "A", 4) if store == "several" else (LEVELDB, "Q.ONE", 16)
    selection, output = Selection(destinations=[name]), str(tmp_path / "archive")
    assert archive(spark, str(directory), output, selection).destinations == {f"queue://{name}": count}
    assert archive(spark, str(directory), output, selection, is_dry=True).messages == 0
    with pytest.raises(ConfigurationError, match="purge"):
        archive(spark, str(directory), output, removes=True)
