"""ActiveMQ's archives: what its own exporter writes we store, and what we write its own classes read."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import open_store
from jdbcstore.cli import run
from jdbcstore.destination import Queue
from jdbcstore.management.activemq_archive import archived_messages
from jdbcstore.message import Message
from tests.broker.client import Client
from tests.compat.activemq import ActiveMQ, quick_start
from tests.management.test_web import served

pytestmark = pytest.mark.timeout(300)


def java(class_path: str, *arguments: str) -> list[dict[str, Any]]:
    """Run Archive.java; what it prints."""
    done = subprocess.run(
        ["java", *quick_start(class_path), "-cp", class_path, "Archive", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def kahadb(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a stopped ActiveMQ with messages of all types, and a durable subscription."""
    folder = tmp_path_factory.mktemp("activemq")
    with ActiveMQ(class_path, folder, "kahadb") as activemq:
        activemq.send_all_types("TYPES")
        activemq.send_numbers("queue://ORDERS", 0, 3)
        activemq.subscribe_durably("PRICES", "ann", "news")
        activemq.publish("PRICES", 0, 2)
        activemq.stop()
    return folder


@pytest.fixture(scope="module")
def archive(class_path: str, kahadb: Path) -> Path:
    """What ActiveMQ's exporter makes of it."""
    file = kahadb / "exported.tar.gz"
    java(class_path, "export", str(kahadb / "kahadb"), str(file))
    return file


def stored(url: str, queue: str) -> list[Message]:
    with open_store(url) as store:
        return list(store.queue_message_store(Queue(queue)).recover())


def content(message: Message) -> tuple[object, ...]:
    return (
        type(message),
        str(message.message_id),
        message.content,
        message.marshalled_properties,
        message.correlation_id,
        message.priority,
        message.expiration,
        str(message.reply_to),
    )


def test_what_activemq_exports_is_stored_as_it_was(kahadb: Path, archive: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with served(open_store(url)):
        pass  # makes the tables
    assert run(["import", str(archive), "--store", url]) == 0
    for queue in ("TYPES", "ORDERS"):
        ours, theirs = stored(url, queue), stored(f"kahadb:{kahadb / 'kahadb'}", queue)
        assert theirs
        assert list(map(content, ours)) == list(map(content, theirs))


def test_messages_of_durable_subscriptions_are_told_and_stored_on_demand(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with served(open_store(url)):
        pass  # makes the tables
    run(["import", str(archive), "--dry-run", "--store", url])
    assert "2 messages" in capsys.readouterr().out.splitlines()[-1]
    run(["import", str(archive), "--to", "queue://ALL", "--store", url])
    assert len(stored(url, "ALL")) == len(list(_read(archive)))


def _read(archive: Path) -> Iterator[object]:
    with gzip.open(archive) as source:
        yield from archived_messages(source)  # type: ignore[arg-type]


def test_activemq_reads_what_we_export(class_path: str, tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path / 'b.db'}", tmp_path / "orders.tar.gz"
    with served(open_store(url)) as broker, Client(broker.address) as client:
        client.connect()
        for number in range(1203):
            client.send("SEND", {"destination": "/queue/ORDERS", "persistent": "true"}, f"m{number} \u00e9")
        client.publish("/queue/ORDERS", "late", expires="4102444800000")
    assert run(["export", "queue://ORDERS", str(file), "--store", url]) == 0
    lines = java(class_path, "read", str(file))
    assert [line["place"] for line in lines] == list(range(1, 1205))
    assert [line["text"] for line in lines] == [*(f"m{number} \u00e9" for number in range(1203)), "late"]
    assert {line["queue"] for line in lines} == {'ptp {"@class": "queue_destination", "name": "ORDERS"}'}
    assert lines[-1]["expiration"] == 4102444800000
    assert [line["id"] for line in lines] == [str(message.message_id) for message in stored(url, "ORDERS")]


def test_an_archive_comes_back_as_it_was(kahadb: Path, archive: Path, tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path / 'b.db'}", tmp_path / "types.tgz"
    with served(open_store(url)):
        pass  # makes the tables
    run(["import", str(archive), "--store", url])
    assert run(["export", "queue://TYPES", str(file), "--store", url]) == 0
    assert run(["import", str(file), "--to", "queue://AGAIN", "--store", url]) == 0
    assert list(map(content, stored(url, "AGAIN"))) == list(map(content, stored(url, "TYPES")))
