"""A real ActiveMQ goes on with the KahaDB directory that a migration has made."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.migration import migrate
from jdbcstore.store.contract import Commit, ScheduledJob
from jdbcstore.testing import text_message
from tests.compat.activemq import ActiveMQ

pytestmark = pytest.mark.timeout(300)

COMMITTED, BACK = "55:0a01ff:62", "-7:0a03:"
COUNT = 12


def numbers(activemq: ActiveMQ, queue: str) -> list[int]:
    return [message["properties"]["number"][1] for message in activemq.consume(queue)]


def by_priority(found: list[int]) -> list[int]:
    """What a client makes of messages whose priority is number % 10."""
    return sorted(found, key=lambda number: -(number % 10))


@pytest.mark.parametrize("prioritized", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_from_kahadb_through_a_database_to_kahadb(
    postgresql_url: str, class_path: str, tmp_path: Path, prioritized: bool
) -> None:
    folders = [tmp_path / "first", tmp_path / "last"]
    for folder in folders:
        folder.mkdir()
    with ActiveMQ(class_path, folders[0], "kahadb", prioritized=prioritized) as activemq:
        for client in ("ann", "bob"):
            activemq.subscribe_durably("PRICES", client, "news", "number < 10" if client == "bob" else "-")
        activemq.publish("PRICES", 0, COUNT)
        activemq.send_numbers("queue://Q", 0, COUNT)
        sends = ("send", "queue://Q", "100", "3", "send", "topic://PRICES", "200", "2")
        taken = activemq.prepare(COMMITTED, *sends, "receive", "queue://Q", "2")
        activemq.prepare(BACK, "send", "queue://Q", "300", "1")
        acknowledged = activemq.prepare("1:00:00", "consume", "topic://PRICES", "news", "3", client_id="ann")
        consumed = activemq.consume_durably("PRICES", "bob", "news", 4, selector="number < 10")
        activemq.stop()
    migrate(f"kahadb:{folders[0] / 'kahadb'}", postgresql_url, prioritized=[Queue("Q")] if prioritized else ())
    with open_store(postgresql_url) as adapter:
        job = text_message(1, destination=Queue("LATER"))
        job.set_property("number", 7)
        adapter.commit_together(Commit(jobs=[ScheduledJob("ID:job:1:1:1:1", job, 1_700_000_000_000)])).result()
    done = migrate(postgresql_url, f"kahadb:{folders[1] / 'kahadb'}")
    assert (len(done.transactions), done.jobs, len(done.subscriptions)) == (3, 1, 2)
    scheduler = folders[1] / "kahadb" / "scheduler"
    with ActiveMQ(class_path, folders[1], "kahadb", prioritized=prioritized, scheduler=scheduler) as activemq:
        assert activemq.in_doubt() == {COMMITTED, BACK, "1:00:00"}
        waiting = [number for number in range(COUNT) if number not in taken]
        assert numbers(activemq, "Q") == (by_priority(waiting) if prioritized else waiting)
        activemq.decide(COMMITTED, commits=True)
        activemq.decide(BACK, commits=False)
        activemq.decide("1:00:00", commits=True)
        assert sorted(numbers(activemq, "Q")) == [100, 101, 102]
        rest = [number for number in range(COUNT) if number not in acknowledged]
        assert sorted(activemq.consume_durably("PRICES", "ann", "news")) == [*rest, 200, 201]
        bobs = [number for number in range(10) if number not in consumed]
        assert sorted(activemq.consume_durably("PRICES", "bob", "news", selector="number < 10")) == bobs
        assert numbers(activemq, "LATER") == [7]
        activemq.send_numbers("queue://Q", 500, 3)
        activemq.stop()
    back = f"sqlite:///{tmp_path / 'back.db'}"
    assert migrate(f"kahadb:{folders[1] / 'kahadb'}", back).destinations["queue://Q"].messages == 3
