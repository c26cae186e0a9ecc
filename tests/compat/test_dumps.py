"""Databases that a real ActiveMQ 5.17.2 filled: browsed, served and acknowledged, adopted or as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import text

from jdbcstore.cli import run
from jdbcstore.config.urls import open_engine, open_store
from jdbcstore.destination import Queue
from jdbcstore.openwire import marshal, unmarshal
from jdbcstore.store.jdbc.schema import upgrade_schema
from tests.broker_process import BrokerProcess
from tests.compat.stomp_client import client
from tests.migrations.activemq import load_dump

pytestmark = [pytest.mark.timeout(240), pytest.mark.one_in(3)]

DUMPS = {
    "postgresql_url": "postgresql",
    "postgresql18_url": "postgresql",
    "mariadb_url": "mariadb",
    "mysql_url": "mariadb",
}


@pytest.fixture(params=list(DUMPS))
def url(request: pytest.FixtureRequest) -> str:
    """A database with the dump of its kind, as ActiveMQ left it."""
    found: str = request.getfixturevalue(request.param)
    engine = open_engine(found)
    load_dump(engine, DUMPS[request.param])
    engine.dispose()
    return found


@pytest.fixture(params=["as-it-is", "adopted"])
def opened_url(request: pytest.FixtureRequest, url: str) -> str:
    """The same, before and after adoption."""
    if request.param == "adopted":
        engine = open_engine(url)
        upgrade_schema(engine)
        engine.dispose()
    return url


def rows(url: str) -> dict[str, list[tuple[int, bytes, str | None]]]:
    """Every row by container: id, bytes, XID."""
    engine = open_engine(url)
    found: dict[str, list[tuple[int, bytes, str | None]]] = {}
    with engine.connect() as connection:
        for container, id, blob, xid in connection.execute(
            text("SELECT CONTAINER, ID, MSG, XID FROM ACTIVEMQ_MSGS ORDER BY ID")
        ):
            found.setdefault(container, []).append((id, bytes(blob), xid))
    engine.dispose()
    return found


def test_every_row_decodes_and_encodes_to_the_same_bytes(url: str) -> None:
    blobs = [blob for found in rows(url).values() for _, blob, _ in found]
    assert len(blobs) > 50
    assert all(marshal(unmarshal(blob)) == blob for blob in blobs)


def test_the_command_line_browses_every_queue_completely(opened_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for container, found in rows(opened_url).items():
        if not container.startswith("queue://"):
            continue
        assert run(["browse", opened_url, container, "--limit", "100000", "--json"]) == 0
        ids = [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]
        assert ids == [id for id, _, xid in found if xid is None], container


def test_every_queue_message_is_served_in_order_and_acknowledged(opened_url: str, tmp_path: Path) -> None:
    before = rows(opened_url)
    with BrokerProcess(opened_url, tmp_path) as broker:
        for container, found in before.items():
            if not container.startswith("queue://"):
                continue
            expected = [str(unmarshal(blob).message_id) for _, blob, xid in found if xid is None]
            with client(broker.port) as (connection, collector):
                connection.subscribe(f"/queue/{container.removeprefix('queue://')}", id="1", ack="client-individual")
                collector.wait_for(len(expected))
                assert [headers["message-id"] for headers, _ in collector.messages] == expected, container
                for headers, _ in collector.messages:
                    connection.ack(headers["ack"])
        assert broker.stop() == 0
    after = rows(opened_url)
    in_doubt = {c: [row for row in found if row[2] is not None] for c, found in before.items() if c.startswith("queue")}
    assert {c: found for c, found in after.items() if c.startswith("queue")} == {c: f for c, f in in_doubt.items() if f}
    assert {c: found for c, found in after.items() if c.startswith("topic")} == {
        c: found for c, found in before.items() if c.startswith("topic")
    }


def test_the_counts_are_those_of_the_rows(opened_url: str) -> None:
    with open_store(opened_url) as adapter:
        for container, found in rows(opened_url).items():
            if container.startswith("queue://"):
                store = adapter.queue_message_store(Queue(container.removeprefix("queue://")))
                assert store.message_count == sum(xid is None for _, _, xid in found), container
