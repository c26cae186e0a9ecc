"""``archive``: each message once, whatever happens in between, and removed only when it is safe."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from sqlalchemy import text

from jdbcstore.config.urls import open_engine, open_store
from jdbcstore.errors import ConfigurationError, LockHeld, StoreError
from jdbcstore.pipeline.archive import archive, read_archive
from jdbcstore.pipeline.archive.layout import folder_name
from jdbcstore.pipeline.archive.manifest import FORMAT, Manifest
from jdbcstore.pipeline.archive.selection import Selection
from jdbcstore.pipeline.folders import Folder
from tests.spark.pipeline.filling import DLQ, ODD, ORDERS, PRICES, fill, message

Stored = set[tuple[int, str, bytes]]


def stored(url: str) -> Stored:
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT ID, CONTAINER, MSG FROM ACTIVEMQ_MSGS")).all()
    finally:
        engine.dispose()
    return {(int(id), name, bytes(blob)) for id, name, blob in rows}


def archived(spark: SparkSession, folder: Path) -> Stored:
    rows = read_archive(spark, str(folder)).select("offset", "topic", "message").collect()
    found = {(row.offset, row.topic, bytes(row.message)) for row in rows}
    assert len(found) == len(rows)
    return found


def test_each_message_is_archived_once(spark: SparkSession, postgresql_url: str, tmp_path: Path) -> None:
    fill(postgresql_url)
    folder = tmp_path / "an archive"
    assert archive(spark, postgresql_url, str(folder), is_dry=True).destinations == {
        str(DLQ): 4, str(ODD): 3, str(ORDERS): 20, str(PRICES): 5
    }  # fmt: skip
    assert not folder.exists()
    first = archive(spark, postgresql_url, str(folder))
    assert (first.messages, archived(spark, folder)) == (32, stored(postgresql_url))
    # One file for each destination and day.
    files = list(folder.glob("runs/*/*/*/*.parquet"))
    assert len(files) == len({file.parent for file in files}) == first.files
    names = {file.parent.parent.name for file in files}
    assert {"destination=queue.ORDERS", "destination=topic.PRICES"} < names
    assert all(name.isascii() and not set(name) & set(" <>&*?#%\\\"'") for name in names)
    assert b"jdbcstore.archive.format" in str(pq.read_metadata(files[0]).metadata).encode()

    with open_store(postgresql_url) as adapter:
        adapter.queue_message_store(ORDERS).add_message(message(ORDERS, "late")).result()
    second = archive(spark, postgresql_url, str(folder))
    assert (second.destinations, second.files) == ({str(ORDERS): 1}, 1)
    assert archived(spark, folder) == stored(postgresql_url)
    third = archive(spark, postgresql_url, str(folder))
    assert (third.run, third.messages) == (None, 0)
    assert {run.name for run in (folder / "runs").iterdir()} == {first.run, second.run}


def test_kinds_of_messages_and_their_removal(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fill(url)

    def count(selection: Selection) -> dict[str, int]:
        return archive(spark, url, str(tmp_path / "none"), selection, is_dry=True).destinations

    assert count(Selection("expired")) == {str(ORDERS): 3}
    assert count(Selection("dead")) == {str(DLQ): 4}
    assert count(Selection("acknowledged")) == {}  # the first has one that is not, and marks do not pass it
    assert count(Selection(selector="colour = 'red' AND number > 10")) == {str(ORDERS): 5}
    assert count(Selection(destinations=["topic://>", "O*"])) == {str(PRICES): 5}
    assert count(Selection("dead", dead_letter_queues=["ORD*.>", "ORDERS"])) == {str(ORDERS): 20}

    folder, before = tmp_path / "archive", stored(url)
    chosen = Selection(selector="number > 14 OR JMSDestination = 'topic://PRICES'")
    with open_store(url), pytest.raises(LockHeld, match="only while no broker runs"):
        archive(spark, url, str(folder), chosen, removes=True)
    assert stored(url) == before
    assert not folder.exists()
    done = archive(spark, url, str(folder), chosen, removes=True)
    assert (done.messages, done.removed, done.kept_of_topics) == (10, 5, 5)
    gone = before - stored(url)
    assert {name for _, name, _ in gone} == {str(ORDERS)}
    assert gone < archived(spark, folder)


def test_what_is_not_in_the_manifest_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "archive"
    fill(url)
    with pytest.raises(ConfigurationError, match="is no archive"):
        read_archive(spark, str(folder))
    # What a crash leaves: files of half a run, one of them not even begun.
    left = folder / "runs" / "20200101T000000-dead"
    left.mkdir(parents=True)
    (left / "part-0.parquet").touch()
    assert archive(spark, url, str(folder)).cleared_up == []  # perhaps somebody is just writing it
    assert len(archived(spark, folder)) == 32
    os.utime(left / "part-0.parquet", (0, 0))
    assert archive(spark, url, str(folder)).cleared_up == ["20200101T000000-dead"]
    assert not left.exists()

    one, other = (Manifest(Folder(spark, str(folder))) for _ in range(2))
    one.publish(one.runs[0])
    with pytest.raises(StoreError, match="another run has archived"):
        other.publish(one.runs[0])

    newest = folder / "manifest" / "00000002.json"
    newest.write_text(json.dumps(json.loads(newest.read_text()) | {"format": FORMAT + 1}))
    (newest.parent / ".00000002.json.crc").unlink()
    with pytest.raises(ConfigurationError, match="has format 2, this version of jdbcstore reads up to 1"):
        read_archive(spark, str(folder))
    newest.write_text("{")
    with pytest.raises(ConfigurationError, match="is no manifest"):
        read_archive(spark, str(folder))


def test_no_two_destinations_share_a_folder(spark: SparkSession) -> None:
    names = ["queue://A", "topic://A", "queue://a", "queue://~A", "queue://%7EA", "queue://A B", "queue://A+B", "A"]
    names += ["queue://" + "ü" * 240, "queue://" + "ü" * 241, "queue://..", "queue://A/B", "queue://A*"]
    rows = spark.createDataFrame([(name,) for name in names], "topic string").select(folder_name("topic")).collect()
    folders = [row[0] for row in rows]
    assert len({folder.casefold() for folder in folders}) == len(names) - 1  # A and a, where cases are not told apart
    assert all(len(folder) < 240 and "/" not in folder for folder in folders)
