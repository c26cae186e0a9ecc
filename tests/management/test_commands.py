"""The commands of an operator: against a running broker, and against a store that nobody is master of."""

from __future__ import annotations

import gzip
import json
import logging
import os
import re
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine

from jdbcstore import Broker, BrokerOptions, enlist, open_store
from jdbcstore.broker.route import Route
from jdbcstore.cli import run
from jdbcstore.config.urls import open_engine, open_spool
from jdbcstore.console import archives, face
from jdbcstore.console.face import _local, _LocalFace
from jdbcstore.destination import Queue
from jdbcstore.errors import JdbcStoreError
from jdbcstore.identifiers import MessageId, XATransactionId, xid_text
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import SupportsTransactions
from jdbcstore.store.jdbc import schema, usable_schema
from jdbcstore.store.jdbc.schema import SchemaReport, inspect_schema
from jdbcstore.testing.messages import text_message
from tests.broker.client import Client
from tests.broker_process import PROGRAM
from tests.certificates import Authority, Identity
from tests.management.desk import beside
from tests.management.test_operations import fill
from tests.management.test_web import Served, served
from tests.management.web import Site
from tests.migrations.activemq import start_java_broker
from tests.servers.prepared import PreparedFile
from tests.servers.server import free_port
from tests.sql.test_outbox import driver_url, waiting
from tests.waiting import Standstill, wait_until


@pytest.fixture(name="url")
def _url(tmp_path: Path, prepared_file: PreparedFile) -> str:
    return prepared_file.url(tmp_path / "b.db")


@pytest.fixture
def broker(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with served(open_store(url), broker_name="b1") as broker:
        host, port = broker.operator.address
        monkeypatch.setenv("JDBCSTORE_BROKER", f"http://{host}:{port}")
        assert broker.broker.web is not None
        monkeypatch.setenv("JDBCSTORE_TOKEN", broker.broker.web.token or "")
        with Client(broker.address) as client:
            client.connect(client_id="c1")
            fill(client, "/queue/ORDERS", 5)
            broker.operator.get("/api/v1/broker")
            wait_until(lambda: broker.operator.get("/api/v1/destinations?text=ORDERS").json["total"] == 1)
            yield broker


def command(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run a command; returns what it prints, errors behind everything else."""
    ended = run(list(arguments))
    out, err = capsys.readouterr()
    assert ended == code, out + err
    return out + err


def test_queues_and_clients_are_listed(broker: Served, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in command(capsys, "queues", "--json").splitlines()]
    assert {row["name"]: row["depth"] for row in rows} == {"queue://LAST": 1, "queue://ORDERS": 5}
    assert "queue://ORDERS" in command(capsys, "queues", "--sort", "depth", "--filter", "orders")
    assert "c1" in command(capsys, "connections")
    assert "there are no topics" in command(capsys, "topics")
    assert "there are no subscriptions" in command(capsys, "subscriptions")
    assert "master" in command(capsys, "watch", "--count", "1")
    assert "b1 master" in command(capsys, "top", "--count", "1")


def test_messages_are_moved_counted_and_purged(broker: Served, capsys: pytest.CaptureFixture[str]) -> None:
    counted = command(capsys, "move", "queue://ORDERS", "queue://X", "--selector", "n = '3'", "--dry-run")
    assert "1 messages match" in counted
    assert "move: 1 messages done" in command(capsys, "move", "queue://ORDERS", "queue://X", "-s", "n = '3'")
    assert json.loads(command(capsys, "copy", "queue://X", "queue://Y", "--json"))["done"] == 1
    assert "give --yes" in command(capsys, "purge", "queue://ORDERS", code=2)
    assert "purge: 4 messages done" in command(capsys, "purge", "queue://ORDERS", "--yes")
    assert "is gone" in command(capsys, "delete", "queue://X", "--yes")
    assert "no destination queue://X" in command(capsys, "delete", "queue://X", "--yes", code=1)


def test_a_misspelt_queue_is_an_error_with_the_nearest_name(broker: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean queue://ORDERS?" in command(capsys, "purge", "queue://ORDER", "--yes", code=1)


def test_a_destination_is_paused_and_resumed(broker: Served, capsys: pytest.CaptureFixture[str]) -> None:
    command(capsys, "pause", "queue://ORDERS", "--side", "both")
    (row,) = [json.loads(line) for line in _look(broker, capsys)]
    assert (row["is_paused"], row["is_closed"]) == (True, True)
    command(capsys, "resume", "queue://ORDERS")
    command(capsys, "drain")
    command(capsys, "drain", "--end")
    assert "handed" not in command(capsys, "create", "queue://NEW")


def _look(broker: Served, capsys: pytest.CaptureFixture[str]) -> list[str]:
    def is_paused() -> bool:
        rows = broker.operator.get("/api/v1/destinations?text=ORDERS").json["destinations"]
        return bool(rows and rows[0]["is_paused"])

    wait_until(is_paused)
    return command(capsys, "queues", "--filter", "ORDERS", "--json").splitlines()


@contextmanager
def behind_tls(address: tuple[str, int], server: Identity) -> Iterator[str]:
    """What stands before a broker's web address where operators come by TLS."""

    class Front(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with closing(HTTPConnection(*address, timeout=60)) as connection:
                connection.request("POST", self.path, body, dict(self.headers))
                answer = connection.getresponse()
                text = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Front) as front:
        front.socket = context.wrap_socket(front.socket, server_side=True)
        thread = threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://127.0.0.1:{front.server_address[1]}"
        finally:
            front.shutdown()
            thread.join()


def test_whom_to_trust_is_told_for_a_web_address_too(
    broker: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path)
    ca = "--tls-ca", str(authority.certificate)
    plain = os.environ["JDBCSTORE_BROKER"]
    with behind_tls(broker.operator.address, authority.identity("server")) as web:
        assert "sent 2" in command(capsys, "send", web, "queue://BY-TLS", "hello", "--count", "2", *ca)
        assert "CERTIFICATE_VERIFY_FAILED" in command(capsys, "send", web, "queue://BY-TLS", "hello", "--tls", code=1)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))  # for what has no such options
        assert "sent 1" in command(capsys, "send", web, "queue://BY-TLS", "hello")
    assert "give https://" in command(capsys, "send", plain, "queue://BY-TLS", "hello", *ca, code=2)
    assert "--tls-certificate" in command(capsys, "send", web, "queue://A", "hello", "--tls-key", "key.pem", code=2)
    assert len(command(capsys, "browse", "BY-TLS", "--json").splitlines()) == 3


def test_the_commands_of_activemq(broker: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert "BrokerName = b1" in command(capsys, "activemq", "bstat")
    line = next(
        line for line in command(capsys, "activemq", "dstat", "queues").splitlines() if line.startswith("ORDERS")
    )
    assert line.split() == ["ORDERS", "5", "0", "0", "5", "0", "0", "0"]
    assert command(capsys, "activemq", "browse", "ORDERS").count("JMSMessageID") == 5
    assert "QueueSize = 5" in command(capsys, "activemq", "query", "-QQueue=ORD*", "--view", "QueueSize")
    queried = command(capsys, "activemq", "query", "--objname", "Type=Queue,Destination=*", "-xQQueue=ORD*")
    assert "ORDERS" not in queried
    assert "DLQ = false" in command(capsys, "activemq", "query", "-QQueue=ORDERS")
    assert "only Queue and Topic" in command(capsys, "activemq", "query", "-QConnection=*", code=2)
    assert "did you mean queue://ORDERS?" in command(capsys, "activemq", "purge", "ORDRES", code=1)
    assert "Purged 1 messages" in command(capsys, "activemq", "purge", "ORDERS", "--msgsel", "n = '1'")
    assert "Purged 4 messages" in command(capsys, "activemq", "purge", "ORD*")


def test_activemq_browse_shows_what_activemq_shows(broker: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """The fields are what ActiveMQ 5.17's own ``browse --amqurl`` prints of such a message."""
    body = "long " * 100
    with Client(broker.address) as client:
        client.connect()
        facts = {
            "type": "urn://order",
            "reply-to": "/topic/ANSWERS",
            "correlation-id": "c-1",
            "color": "red",
            "persistent": "true",
        }
        client.done("SEND", {"destination": "/queue/ONE", "expires": str(2**42), **facts}, body)
    wait_until(lambda: broker.operator.get("/api/v1/destinations?text=ONE").json["total"] == 1)
    told = dict(
        line.split(" = ", 1) for line in command(capsys, "activemq", "browse", "queue:ONE").splitlines() if line
    )
    assert told.pop("JMS_HEADER_FIELD:JMSMessageID").startswith("ID:")
    assert told.pop("JMS_HEADER_FIELD:JMSTimestamp").isdecimal()
    assert told == {
        "JMS_CUSTOM_FIELD:color": "red",
        "JMS_BODY_FIELD:JMSText": body,
        "JMS_HEADER_FIELD:JMSRedelivered": "false",
        "JMS_HEADER_FIELD:JMSType": "urn://order",
        "JMS_HEADER_FIELD:JMSReplyTo": "ANSWERS",
        "JMS_HEADER_FIELD:JMSDestination": "ONE",
        "JMS_HEADER_FIELD:JMSPriority": "4",
        "JMS_HEADER_FIELD:JMSExpiration": str(2**42),
        "JMS_HEADER_FIELD:JMSDeliveryMode": "persistent",
        "JMS_HEADER_FIELD:JMSCorrelationID": "c-1",
    }
    shown = command(capsys, "activemq", "browse", "-Vheader,body", "--view", "color,JMSType", "ON*")
    assert shown.split() == ["JMS_HEADER_FIELD:JMSType", "=", "urn://order"]
    assert "there are header, custom, body" in command(capsys, "activemq", "browse", "-Vall", "ONE", code=2)


def test_a_broker_tells_of_itself(broker: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert "c1" in command(capsys, "producers")
    assert json.loads(command(capsys, "producers", "--json").splitlines()[-1])["sent"] == 6
    told = json.loads(command(capsys, "store", "--json"))
    assert told["store"]["kind"] == "sqlite"
    shown = command(capsys, "store")
    assert told["store"]["location"] in shown
    assert "master" in shown
    assert "of KahaDB's files only" in command(capsys, "store", "--files", code=2)
    assert "no load is taken in" in command(capsys, "loads", "list")
    assert command(capsys, "loads", "list", "--json") == ""
    wait_until(lambda: bool(broker.operator.get("/api/v1/history").json))
    assert "depth" in json.loads(command(capsys, "watch", "--past", "--json").splitlines()[-1])
    assert "IN FLIGHT" in command(capsys, "watch", "--past")


def test_messages_are_sent_and_changed_by_an_operator(broker: Served, capsys: pytest.CaptureFixture[str]) -> None:
    web = os.environ["JDBCSTORE_BROKER"]
    facts = "priority:7", "type:urn://order", "reply-to:/queue/ANSWERS", "colour:red", "JMSXGroupID:g"
    command(capsys, "send", web, "/queue/NEW", "hello", "world", *(word for fact in facts for word in ("-H", fact)))
    (sent,) = [json.loads(line) for line in command(capsys, "browse", "NEW", "--json").splitlines()]
    assert [sent[name] for name in ("body", "priority", "type", "replyTo", "group", "properties")] == [
        "hello world",
        7,
        "urn://order",
        "queue://ANSWERS",
        "g",
        {"colour": "red"},
    ]
    assert "give --priority" in command(capsys, "change", "NEW", code=2)
    assert "give --yes" in command(capsys, "change", "NEW", "--priority", "1", code=2)
    assert "1 messages match" in command(capsys, "change", "NEW", "--priority", "1", "--dry-run")
    changed = command(capsys, "change", "NEW", "--priority", "1", "--expires-after-s", "3600", "--yes")
    assert "change: 1 messages done" in changed
    (sent,) = [json.loads(line) for line in command(capsys, "browse", "NEW", "--json").splitlines()]
    assert (sent["priority"], sent["expires"] is None) == (1, False)
    rows = [json.loads(line) for line in command(capsys, "operations", "--json").splitlines()]
    assert [(row["action"], row["is_dry_run"], row["done"]) for row in rows[:1]] == [("change", False, 1)]
    assert "queue://NEW" in command(capsys, "operations")
    assert "1 messages done" in command(capsys, "cancel", rows[0]["operation_id"])  # it is over already
    assert "no operation" in command(capsys, "cancel", "77", code=2)
    assert "queue://NEW" in command(capsys, "log", "--audit")
    assert json.loads(command(capsys, "log", "--audit", "--json").splitlines()[-1])["action"] == "change"
    logging.getLogger("jdbcstore.tests").warning("something is told")
    assert "something is told" in command(capsys, "log")


def test_a_queue_of_a_running_broker_is_browsed(
    broker: Served, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    web, store = os.environ["JDBCSTORE_BROKER"], ["--store", url]
    long = "long " * 100
    with Client(broker.address) as client:
        client.connect()
        client.publish("/queue/ORDERS", long, n="9", persistent="true")
        client.publish("/queue/ORDERS", "in memory only", n="9", persistent="false")
    here: list[str] = []
    for place in ([], ["--broker", web], store):
        shown = [json.loads(line) for line in command(capsys, "browse", "ORDERS", "--json", *place).splitlines()]
        here.append(json.dumps([row for row in shown if row["persistent"]]))
        assert len(shown) == (6 if place == store else 7)
        assert long in [row["body"] for row in shown]
    assert len(set(here)) == 1  # whoever is asked
    assert command(capsys, "browse", web, "ORDERS") == command(capsys, "browse", "ORDERS")
    for place in ([], store):
        chosen = ["browse", "queue://ORDERS", "--selector", "n = '3'", *place]
        assert command(capsys, *chosen).count("ID:") == 1
        told = command(capsys, "browse", "queue://ORDERS", "--selector", "n <> '9'", "--limit", "2", *place)
        assert "2 messages are shown, there are more: --limit" in told
        assert "no message in queue://ORDERS matches" in command(capsys, "browse", "ORDERS", "-s", "n = '7'", *place)
        assert "did you mean queue://ORDERS?" in command(capsys, "browse", "ORDRES", *place, code=1)
    assert "more" not in command(capsys, "browse", "queue://ORDERS", "--limit", "7")
    assert "two places" in command(capsys, "browse", url, "ORDERS", "--broker", web, code=2)
    assert "give QUEUE, or URL QUEUE" in command(capsys, "browse", code=2)


def scheduled(broker: Served, *delays_ms: int) -> None:
    with Client(broker.address) as client:
        client.connect()
        for delay_ms in delays_ms:
            headers = {"destination": "/queue/LATER", "persistent": "true", "AMQ_SCHEDULED_DELAY": str(delay_ms)}
            client.done("SEND", headers, "later")


def test_scheduled_messages_of_a_running_broker_are_listed_and_removed(
    broker: Served, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scheduled(broker, 3_600_000, 60_000_000, 7_200_000)
    told = command(capsys, "schedule", "list", "--json")
    assert told == command(capsys, "schedule", "list", url, "--json")
    jobs = [json.loads(line) for line in told.splitlines()]
    assert [job["delayMs"] for job in jobs] == [3_600_000, 7_200_000, 60_000_000]
    assert command(capsys, "schedule", "list", "--limit", "1").count("queue://LATER") == 1
    assert command(capsys, "schedule", "remove", jobs[0]["jobId"]) == "1 removed\n"
    assert "1 of 2 scheduled messages are not there" in command(
        capsys, "schedule", "remove", jobs[0]["jobId"], jobs[1]["jobId"], code=1
    )
    assert "--all" in command(capsys, "schedule", "remove", code=2)
    assert "ask it" in command(capsys, "schedule", "remove", url, "--all", code=3).lower()
    assert command(capsys, "schedule", "remove", "--all") == "1 removed\n"
    assert command(capsys, "schedule", "list") == "no message is scheduled\n"


ONE, TWO = (XATransactionId(55, name, b"BR") for name in (b"ONE", b"TWO"))


@pytest.fixture
def in_doubt(url: str) -> None:
    """A store in which two transactions are in doubt, each with a message to be added to A and one of them less."""
    with open_store(url) as store:
        assert isinstance(store, SupportsTransactions)
        queue = store.queue_message_store(Queue("A"))
        for number, xid in enumerate((ONE, TWO), 1):
            queue.add_message(text_message(number, destination=Queue("A"))).result(30)
            transaction = store.transaction_store().begin(xid)
            transaction.add_message(queue, text_message(10 + number, destination=Queue("A")))
            transaction.remove_message(queue, MessageId(None, 0, 2 * number - 1))
            transaction.prepare().result(30)


@pytest.mark.usefixtures("in_doubt")
def test_transactions_in_doubt_are_decided_by_a_running_broker(
    broker: Served, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = command(capsys, "transactions", "list", "--json")
    assert told == command(capsys, "transactions", "list", url, "--json")
    in_a = {"queue://A": 1}
    assert json.loads(told)[0] == {"xid": xid_text(ONE), "adds": in_a, "removes": in_a, "acknowledges": {}}
    assert "give --yes" in command(capsys, "transactions", "commit", xid_text(ONE), code=2)
    with Client(broker.address) as client:
        client.connect()
        client.subscribe("/queue/A", ack="client-individual")
        told = command(capsys, "transactions", "commit", xid_text(ONE), "--yes")
        assert told.splitlines()[0] == f"{xid_text(ONE)} is committed"
        assert client.message().body == b"message 11"  # what it adds
        command(capsys, "transactions", "rollback", xid_text(TWO), "--yes")
        assert client.message().body == b"message 2"  # what it would have removed
    assert command(capsys, "transactions", "list") == "nothing is in doubt\n"
    assert "is not in doubt" in command(capsys, "transactions", "rollback", xid_text(TWO), "--yes", code=1)
    assert "no transaction id" in command(capsys, "transactions", "commit", "ONE", "--yes", code=2)
    assert [entry["action"] for entry in broker.operator.get("/api/v1/audit").json[:2]] == [
        "rollback-prepared",
        "commit-prepared",
    ]
    for answer, status in (
        (broker.operator.post("/api/v1/commit-prepared", {"xid": xid_text(ONE)}), 404),
        (broker.operator.post("/api/v1/commit-prepared", {"xid": "1:2"}), 400),
        (broker.visitor.post("/api/v1/commit-prepared", {"xid": xid_text(ONE)}), 403),
    ):
        assert answer.status == status, answer


def test_a_transaction_in_doubt_that_the_store_knows_nothing_of_is_listed_and_decided(
    broker: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: SimpleQueue[BaseException | None] = SimpleQueue()
    message = replace(text_message(1, destination=Queue("A")), persistent=False)
    prepare = broker.broker.in_doubt.prepare
    broker.broker.loop.call_soon_threadsafe(prepare, ONE, [Route(message)], [], lambda: None, answers.put)
    assert answers.get(timeout=60) is None
    (told,) = json.loads(command(capsys, "transactions", "list", "--json"))
    assert told == {"xid": xid_text(ONE), "adds": {"queue://A": 1}, "removes": {}, "acknowledges": {}}
    with Client(broker.address) as client:
        client.connect()
        client.subscribe("/queue/A")
        assert "is committed" in command(capsys, "transactions", "commit", xid_text(ONE), "--yes")
        assert client.message().body == b"message 1"
    assert command(capsys, "transactions", "list") == "nothing is in doubt\n"


@pytest.mark.parametrize(
    "words", ["create A", "disconnect A", "drain", "hand-over", "connections", "store", "cancel 1"]
)
def test_what_ends_with_a_broker_is_not_done_to_a_store(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = command(capsys, *words.split(), "--store", f"sqlite:///{tmp_path / 'b.db'}", code=2)
    assert f"{words.split()[0]} is about a running broker" in told
    assert not list(tmp_path.iterdir())
    assert "--store" not in command(capsys, words.split()[0], "--help")


def test_a_pause_of_a_store_is_there_when_its_broker_comes(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(url) as store:
        store.queue_message_store(Queue("A")).add_message(text_message(1, destination=Queue("A"))).result(30)
    command(capsys, "pause", "A", "--store", url)
    (row,) = [json.loads(line) for line in command(capsys, "queues", "--json", "--store", url).splitlines()]
    assert row["is_paused"]


def test_an_address_that_speaks_no_http_is_told(broker: Served, capsys: pytest.CaptureFixture[str]) -> None:
    host, port = broker.address
    assert "does not speak HTTP" in command(capsys, "queues", "--broker", f"http://{host}:{port}", code=1)


def test_a_file_that_is_none_of_messages_is_told(
    broker: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broker.log"
    file.write_text("2026-11-26 level=INFO\n")
    assert "line 1 is no JSON" in command(capsys, "import", str(file), code=2)


def test_a_broker_that_is_not_there_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDBCSTORE_BROKER", "http://127.0.0.1:1")
    told = command(capsys, "queues", code=1)
    assert "no broker answers at http://127.0.0.1:1" in told
    assert "--store" in told


def test_where_there_are_no_dead_letters_nothing_is_wrong(broker: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "retry") == "there are no dead letters\n"
    assert "there is no destination" in command(capsys, "retry", "queue://DLQ.X", code=1)


def test_a_standby_says_whom_to_ask(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with served(open_store(url), broker_name="first"):
        standby = Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0", web_bind="127.0.0.1:0"), open_spool)
        with beside(standby):
            assert standby.web is not None
            host, port = standby.web.address
            site = Site(standby.web.address, standby.web.token)
            wait_until(lambda: site.get("/api/v1/session").json["master"]["state"] == "standby")
            for name in ("queues", "topics"):
                assert "stands by" in command(capsys, name, "--broker", f"http://{host}:{port}", code=3)


def test_without_the_token_nothing_is_changed(
    broker: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JDBCSTORE_TOKEN")
    assert "give --token" in command(capsys, "purge", "queue://ORDERS", "--yes", code=1)


@pytest.mark.parametrize("words", ["queues", "purge A --yes"])
def test_a_store_that_cannot_be_reached_is_told_at_once(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(face, "_START_TIMEOUT_S", 0.001)
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/x"
    assert "Connection refused" in command(capsys, *words.split(), "--store", url, code=1)


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
@pytest.mark.parametrize("words", ["queues", "purge A --yes", "import"])
def test_a_database_that_accepts_and_stays_silent_is_told_soon(
    words: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"message": {"destination": "queue://A"}, "body": "text"}\n')
    with socket.create_server(("127.0.0.1", 0)) as silent, Standstill() as standstill:  # the kernel accepts
        url = f"{kind}://nobody:x@127.0.0.1:{silent.getsockname()[1]}/x?query_timeout_s=3"
        arguments = [*words.split(), *([str(file)] if words == "import" else [])]
        began_s = time.monotonic()
        told = command(capsys, *arguments, "--store", url, code=1)
        ended_s = time.monotonic()
    took_s = ended_s - began_s - standstill.between(began_s, ended_s)
    assert "timeout expired" in told if kind == "postgresql" else "does not answer" in told
    assert "jdbcstore:" in told.splitlines()[-1]
    assert took_s < 6, told


def test_who_changes_a_store_looks_at_its_schema_once(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(url):
        pass  # makes the tables
    looks: list[object] = []

    def counted(*arguments: Any) -> SchemaReport:
        looks.append(arguments)
        return inspect_schema(*arguments)

    monkeypatch.setattr(schema, "inspect_schema", counted)
    monkeypatch.setattr(usable_schema, "inspect_schema", counted)
    command(capsys, "retry", "--store", url)
    assert len(looks) == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("move queue://A queue://B", 0, "move: 2 messages done"),
        ("transactions commit 1:aa:bb --yes", 1, "is not in doubt"),
        ("schedule remove --all", 0, "0 removed"),
    ],
)
def test_who_changes_a_store_of_a_java_broker_adds_our_tables_beside_its_own(
    words: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'java.db'}"
    engine = open_engine(url)
    start_java_broker(engine)
    with engine.begin() as connection:
        for number in (1, 2):
            data = marshal(text_message(number, destination=Queue("A")))
            row = (number, "queue://A", "ID:j-1-2:1:1:1", number, 0, data)
            connection.exec_driver_sql(
                "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG, PRIORITY)"
                " VALUES (?, ?, ?, ?, ?, ?, 4)",
                row,
            )
    before = tables_of(engine)
    assert {name.upper() for name in before} == {"ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "ACTIVEMQ_LOCK"}
    assert "queue://A" in command(capsys, "queues", "--store", url)
    assert tables_of(engine) == before
    assert said in command(capsys, *words.split(), "--store", url, code=code)
    after = tables_of(engine)
    assert {name: after[name] for name in before} == before
    assert "JDBCSTORE_TERM" in {name.upper() for name in after}
    engine.dispose()


def tables_of(engine: Engine) -> dict[str, str]:
    """The statement of each table of a SQLite database."""
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        return {str(name): str(statement) for name, statement in found}


@pytest.mark.parametrize("other", ["B", "A --selector a=1", "A --store"])
def test_an_export_that_was_stopped_is_not_gone_on_with_by_another(
    other: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in (url, f"{url}-other"):
        with open_store(one) as store:
            for number, queue in ((1, Queue("A")), (2, Queue("A")), (3, Queue("B"))):
                store.queue_message_store(queue).add_message(text_message(number, destination=queue)).result(30)
    monkeypatch.setattr(archives, "_PAGE", 1)
    write = archives._Progress.write

    def stopped(progress: archives._Progress, state: dict[str, Any]) -> None:
        write(progress, state)
        raise JdbcStoreError("stopped")

    file = tmp_path / "a.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(archives._Progress, "write", stopped)
        command(capsys, "export", "A", str(file), "--store", url, code=1)
    destination, *options = other.split()
    store_of = f"{url}-other" if options == ["--store"] else url
    filtered = [] if options == ["--store"] else options
    told = command(capsys, "export", destination, str(file), "--store", store_of, *filtered, code=2)
    assert "another export to" in told
    command(capsys, "export", "A", str(file), "--store", url)
    assert len(file.read_text().splitlines()) == 2


def test_who_works_on_a_store_makes_no_tables_in_a_database_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE foo (a)")
    for words in ("purge A --yes", "move A B", "retry", "transactions rollback 1:aa:bb", "schedule remove --all"):
        told = command(capsys, *words.split(), "--store", f"sqlite:///{file}", code=1)
        assert "there are no tables yet. Run: jdbcstore schema upgrade" in told
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("foo",)]
    for words in ("queues", "purge A --yes", "export A x.jsonl"):
        told = command(capsys, *words.split(), "--store", f"sqlite:///{tmp_path}", code=2)
        assert f"{tmp_path} is a directory" in told


def test_the_store_is_worked_on_while_nobody_is_master(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with served(open_store(url)) as broker, Client(broker.address) as client:
        client.connect()
        fill(client, "/queue/A", 130)
        told = command(capsys, "purge", "queue://A", "--yes", "--store", url, code=3)
        assert "is master: ask it (--broker http://HOST:PORT" in told
    assert "move: 130 messages done" in command(capsys, "move", "queue://A", "queue://B", "--store", url)
    (row,) = [
        json.loads(line) for line in command(capsys, "queues", "--filter", "B", "--json", "--store", url).splitlines()
    ]
    assert (row["name"], row["depth"]) == ("queue://B", 130)


def test_who_looks_at_a_store_leaves_the_outbox_to_the_broker(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with served(open_store(url)):
        pass  # makes the tables
    engine = create_engine(driver_url(url))
    with engine.begin() as own:
        enlist(own).send("A", "m0")
    engine.dispose()
    with _local(open_store(url)) as face:
        assert isinstance(face, _LocalFace)
        assert face.view("broker")["state"] == "master"
        assert not face._broker.intake._tasks
    assert "there are no queues" in command(capsys, "queues", "--store", url)
    assert waiting(url) == 1
    with served(open_store(url)) as broker:
        wait_until(lambda: _depth(broker, "A") == 1)


@pytest.mark.parametrize(
    "name",
    ["a.jsonl", *(pytest.param(f"a.{kind}", marks=pytest.mark.exhaustive) for kind in ("jsonl.gz", "tar")), "a.tar.gz"],
)
def test_messages_are_exported_and_imported(
    url: str, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(open_store(url)) as broker, Client(broker.address) as client:
        client.connect()
        fill(client, "/queue/A", 1203)
    file = tmp_path / name
    assert "did you mean queue://A?" in command(capsys, "export", "queue://AA", str(file), "--store", url, code=1)
    assert not file.exists()  # the right command finds the name free
    assert "1203 messages" in command(capsys, "export", "queue://A", str(file), "--store", url)
    assert "is there already" in command(capsys, "export", "queue://A", str(file), "--store", url, code=2)
    assert "can be read" in command(capsys, "import", str(file), "--dry-run", "--store", url)
    command(capsys, "import", str(file), "--to", "queue://B", "--store", url)
    assert not list(tmp_path.glob("*.progress"))
    again = tmp_path / f"again-{name}"
    command(capsys, "export", "queue://B", str(again), "--store", url)
    with served(open_store(url)) as broker:
        for queue in ("A", "B"):
            wait_until(lambda queue=queue: _depth(broker, queue) == 1203)  # type: ignore[misc]


def _depth(broker: Served, queue: str) -> int:
    rows = broker.operator.get(f"/api/v1/destinations?text=://{queue}").json["destinations"]
    return int(rows[0]["depth"]) if rows else 0


@pytest.mark.parametrize("room_kib", [100, 200], ids=["first portion", "second portion"])
def test_an_export_goes_on_when_there_is_room_again(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], room_kib: int
) -> None:
    with served(open_store(url)) as broker, Client(broker.address) as client:
        client.connect()
        fill(client, "/queue/A", 703)
    with closing(sqlite3.connect(tmp_path / "b.db")) as database:  # else the command may do this, and has no room
        assert database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    file = tmp_path / "a.jsonl"
    words = ["export", "queue://A", str(file), "--store", url]
    limited = ["bash", "-c", f'ulimit -f {room_kib}; exec "$@"', "bash", *PROGRAM, *words]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"jdbcstore: {file}: File too large. The same command goes on when that is mended\n",
    )
    assert "703 messages" in command(capsys, *words)
    assert len({json.loads(line)["body"] for line in file.read_text().splitlines()}) == 703


def test_an_import_goes_on_where_it_was_stopped(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(open_store(url)):
        pass  # makes the tables
    line = {"message": {"destination": "queue://A"}, "body": "text"}
    good = [json.dumps({**line, "body": f"m{number}"}) for number in range(700)]
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join([*good, "{broken"]) + "\n")
    told = command(capsys, "import", str(file), "--store", url, code=2)
    assert "line 701" in told
    file.write_text("\n".join(good) + "\n")
    command(capsys, "import", str(file), "--store", url)
    (row,) = [json.loads(shown) for shown in command(capsys, "queues", "--json", "--store", url).splitlines()]
    assert row["depth"] == 700


@pytest.mark.parametrize("count", [3, 600])
def test_an_import_that_was_stopped_is_not_gone_on_with_from_another_file(
    count: int, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines(text: str, count: int) -> str:
        message = {"destination": "queue://A"}
        return "".join(f"{json.dumps({'message': message, 'body': f'{text}{n}'})}\n" for n in range(count))

    file = tmp_path / "a.jsonl"
    file.write_text(lines("m", 600) + "{broken\n")
    command(capsys, "import", str(file), "--store", url, code=2)
    file.write_text(lines("other", count))
    told = command(capsys, "import", str(file), "--store", url, code=2)
    assert "was stopped when 500 messages were stored, and the file does not begin with these any more" in told
    file.write_text(lines("m", 600))
    assert "100 messages" in command(capsys, "import", str(file), "--store", url)
    file.write_text(lines("other", count))
    assert f"{count} messages" in command(capsys, "import", str(file), "--store", url)
    (row,) = [json.loads(shown) for shown in command(capsys, "queues", "--json", "--store", url).splitlines()]
    assert row["depth"] == 600 + count


def test_an_import_whose_answer_was_lost_is_stored_once(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(open_store(url)):
        pass  # makes the tables
    file = tmp_path / "a.jsonl"
    lines = [json.dumps({"message": {"destination": "queue://A"}, "body": f"m{number}"}) for number in range(700)]
    file.write_text("\n".join(lines) + "\n")
    act = _LocalFace.act
    lost = 0

    def loses_answers(face: _LocalFace, name: str, /, **arguments: Any) -> Any:
        nonlocal lost
        answer = act(face, name, **arguments)
        if name == "import" and lost < 2:
            lost += 1
            raise JdbcStoreError("the line broke")
        return answer

    monkeypatch.setattr(_LocalFace, "act", loses_answers)
    for _ in range(2):  # once in the first portion, once in the second
        assert "the line broke" in command(capsys, "import", str(file), "--store", url, code=1)
        with served(open_store(url)) as broker, Client(broker.address) as client:  # some are consumed meanwhile
            client.connect()
            client.subscribe("/queue/A", ack="client-individual", **{"activemq.prefetchSize": "1"})
            client.done("ACK", client.named(client.message()))
    command(capsys, "import", str(file), "--store", url)
    (row,) = [json.loads(shown) for shown in command(capsys, "queues", "--json", "--store", url).splitlines()]
    assert row["depth"] == 698
    assert not list(tmp_path.glob("*.progress"))


def test_a_file_that_was_imported_before_is_stored_again_only_if_it_is_wanted(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    lines = [json.dumps({"message": {"destination": "queue://A"}, "body": f"m{number}"}) for number in range(700)]
    file.write_text("\n".join(lines) + "\n")

    def depth(of: str) -> int:
        rows = [json.loads(shown) for shown in command(capsys, "queues", "--json", "--store", of).splitlines()]
        return sum(row["depth"] for row in rows)

    command(capsys, "import", str(file), "--store", url)
    command(capsys, "purge", "A", "--yes", "--store", url)
    file.touch()
    told = command(capsys, "import", str(file), "--store", url, code=1)
    assert "was imported into this store before: all of its 700 messages" in told
    assert "--again" in told
    assert depth(url) == 0
    assert not list(tmp_path.glob("*.progress"))
    command(capsys, "import", str(file), "--again", "--store", url)
    assert depth(url) == 700
    # What was begun in one store says nothing of another, and one with another target is another import.
    other, progress = f"{url}-other", file.with_name("a.jsonl.progress")
    command(capsys, "import", str(file), "--store", other)
    assert depth(other) == 700
    progress.write_text(json.dumps({"done": 500, "run": "r", "portion": 1, "target": "", "where": "elsewhere"}))
    third = f"{url}-third"
    command(capsys, "import", str(file), "--store", third)
    assert depth(third) == 700
    progress.write_text(json.dumps({"done": 500, "run": "r", "portion": 1, "target": "B", "where": "elsewhere"}))
    assert "with --to B is not finished" in command(capsys, "import", str(file), "--store", third, code=2)


def test_what_comes_through_a_pipe_is_imported(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = '{"message": {"destination": "queue://A"}, "body": "text"}\n'
    for number in (1, 2):
        writer = threading.Thread(target=pipe.write_text, args=(line,), daemon=True)
        writer.start()
        assert "1 messages" in command(capsys, "import", str(pipe), "--store", url)
        writer.join()
        (row,) = [json.loads(shown) for shown in command(capsys, "queues", "--json", "--store", url).splitlines()]
        assert row["depth"] == number


@pytest.mark.parametrize("kind", ["sqlite:///", "kahadb:", "mkahadb:", "leveldb:"])
def test_an_import_makes_a_store_and_who_reads_leaves_it_as_it_is(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, place = f"{kind}{tmp_path / 'new' / 'store'}", tmp_path / "new"
    file = tmp_path / "a.jsonl"
    file.write_text('{"message": {"destination": "queue://A"}, "body": "text"}\n')
    for words in (["queues"], ["import", str(file), "--dry-run"], ["move", "A", "B"], ["export", "A", f"{file}.gz"]):
        told = command(capsys, *words, "--store", url, code=0 if words[0] == "import" else 2)
        assert words[0] == "import" or f"no directory {place}" in told
        assert list(tmp_path.iterdir()) == [file]
    command(capsys, "import", str(file), "--store", url)
    before = contents(place)
    assert before
    for view in ("queues", "topics", "subscriptions", "watch --count 1", f"export A {file}.gz", "browse A"):
        command(capsys, *view.split(), "--store", url)
    assert contents(place) == before
    with open_store(url):  # also beside its master
        assert "queue://A" in command(capsys, "queues", "--store", url)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["a.xml", "a.XML.gz", "a.csv", "missing/a.jsonl"])
def test_an_export_into_what_it_does_not_write_is_refused(
    name: str, broker: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = command(capsys, "export", "ORDERS", str(tmp_path / name), code=2)
    assert ("no directory" if "/" in name else ".jsonl (JSON Lines)") in told
    assert not list(tmp_path.glob("a.*"))


def test_a_file_that_is_damaged_is_told(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(open_store(url)):
        pass  # makes the tables
    for name in ("a.jsonl.gz", "a.tar.gz"):
        file = tmp_path / name
        for data in (b"no gzip", gzip.compress(b"x" * 10_000)[:-9], b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff"):
            file.write_bytes(data)
            assert str(file) in command(capsys, "import", str(file), "--store", url, code=2)


def test_an_export_names_what_cannot_be_read(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(open_store(url)) as broker, Client(broker.address) as client:
        client.connect()
        fill(client, "/queue/A", 5)
    engine = create_engine(driver_url(url))
    with engine.begin() as own:
        own.exec_driver_sql(
            "UPDATE ACTIVEMQ_MSGS SET MSG = x'00' WHERE ID = (SELECT MIN(ID) FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://A')"
        )
    engine.dispose()
    file = tmp_path / "a.jsonl"
    told = command(capsys, "export", "queue://A", str(file), "--store", url, code=1)
    assert "cannot be read and is left out" in told
    assert "1 messages of queue://A could not be read" in told
    assert len(file.read_text().splitlines()) == 4


def test_a_shell_completes_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert "_JDBCSTORE_COMPLETE" in command(capsys, "completion", "bash")
    completed = subprocess.run(
        [sys.executable, "-m", "jdbcstore"],
        env={"_JDBCSTORE_COMPLETE": "bash_complete", "COMP_WORDS": "jdbcstore pu", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert re.search(r"\bpurge\b", completed.stdout), completed
