"""``replay``: what comes back is what was there, in order, once, and as fast as was asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.message import Message
from jdbcstore.pipeline.archive import archive
from jdbcstore.pipeline.replay import Replay, replay
from tests.spark.pipeline.filling import DLQ, ODD, ORDERS, PRICES, fill, message
from tests.spark.pipeline.test_archive import stored
from tests.unit.kahadb.journals import unpack


def empty(url: str) -> str:
    with open_store(url):
        return url


def queued(url: str, queue: Queue) -> list[Message]:
    with open_store(url) as adapter:
        return list(adapter.queue_message_store(queue).recover())


def test_an_archive_comes_back(spark: SparkSession, tmp_path: Path, postgresql_url: str) -> None:
    source, folder = f"sqlite:///{tmp_path / 'source.db'}", str(tmp_path / "archive")
    fill(source)
    archive(spark, source, folder)
    empty(postgresql_url)
    whole = Replay(job_id="again")
    assert replay(spark, folder, postgresql_url, whole, is_dry=True).destinations == {
        str(DLQ): 4, str(ODD): 3, str(ORDERS): 20, str(PRICES): 5
    }  # fmt: skip
    assert stored(postgresql_url) == set()
    done = replay(spark, folder, postgresql_url, whole)
    assert (done.messages, done.skipped) == (32, 0)
    # Byte for byte, and under this name not a second time.
    assert {row[1:] for row in stored(postgresql_url)} == {row[1:] for row in stored(source)}
    done = replay(spark, folder, postgresql_url, whole)
    assert (done.messages, done.skipped, len(stored(postgresql_url))) == (32, 32, 32)
    # In the order in which they were sent, which is not that of the source.
    assert [m.properties["number"] for m in queued(postgresql_url, ORDERS)] == list(range(19, -1, -1))

    now = datetime.now(UTC)
    some = Replay(
        since=now - timedelta(days=2.1), until=now - timedelta(days=1.1), selector="colour = 'red'", destination="BACK",
        keeps_ids=False, forgets_expiration=True,
    )  # fmt: skip
    assert replay(spark, folder, postgresql_url, some).messages == 2
    back = queued(postgresql_url, Queue("BACK"))
    assert [m.properties["number"] for m in back] == [7, 5]
    before = {str(m.message_id) for m in queued(postgresql_url, ORDERS)}
    assert all(
        str(m.message_id) not in before and m.message_id.producer_id == m.producer_id for m in back if m.message_id
    )
    assert all((m.destination, m.original_destination) == (Queue("BACK"), ORDERS) for m in back)


def test_so_many_a_second(spark: SparkSession, tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path / 'source.db'}", f"sqlite:///{tmp_path / 'target.db'}"
    with open_store(source) as adapter:
        store = adapter.queue_message_store(ORDERS)
        for number in range(25):
            store.add_message(message(ORDERS, str(number), age_ms=10_000 - number)).result()
    archive(spark, source, str(tmp_path / "archive"))
    empty(target)
    # Not before the last one is due. How long after depends on how busy the machine is.
    assert replay(spark, str(tmp_path / "archive"), target, Replay(rate=8, job_id="slow")).seconds > 25 / 8 * 0.95
    assert [m.text for m in queued(target, ORDERS)] == [str(number) for number in range(25)]  # type: ignore[attr-defined]
    again = replay(spark, str(tmp_path / "archive"), target, Replay(rate=8, job_id="slow"))
    assert (again.messages, again.skipped) == (25, 25)


def test_a_journal_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    (store,) = [one for one in unpack("pinned", tmp_path)["stores"] if one["kind"] != "scheduler"]
    directory = str(tmp_path / store["path"])
    target = empty(f"sqlite:///{tmp_path / 'target.db'}")
    counts = {name: len(found["messages"]) for name, found in store["replay"]["destinations"].items()}
    live = replay(spark, directory, target, Replay(live=True), is_dry=True).destinations
    assert live == {name: count for name, count in counts.items() if count}
    ever = replay(spark, directory, target, is_dry=True).destinations
    assert ever["queue://Q.BUSY"] > 0  # all of it is consumed, and part of it is in files that are still there
    assert all(ever[name] >= count for name, count in live.items())
    assert replay(spark, directory, target, Replay(selector="JMSPriority = 4")).messages == sum(ever.values())
    with open_store(target) as adapter:
        sent = [m.timestamp for m in adapter.queue_message_store(Queue("Q.BUSY")).recover()]
    assert (len(sent), sent) == (ever["queue://Q.BUSY"], sorted(sent))


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"rate": 0}, "rate must be above 0"),
        ({"destination": "A,B"}, "not one destination"),
        ({"destination": "A.>"}, "not one destination"),
    ],
)
def test_what_cannot_be_asked_for(how: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        Replay(**how)  # type: ignore[arg-type]
