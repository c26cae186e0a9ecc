"""The JSON API: who may ask, what is answered, and what a browser is told."""

from __future__ import annotations

import base64
import http.client
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, PersistenceAdapter, open_store, running
from jdbcstore.broker.security.authorization import AuthorizationEntry, AuthorizationMap
from jdbcstore.config.urls import open_spool
from jdbcstore.destination import Queue, TempQueue
from jdbcstore.errors import ConfigurationError
from jdbcstore.management import observation
from jdbcstore.openwire import commands as c
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.transport.web import connection as connection_module
from tests.broker.client import Client
from tests.broker.openwire_client import OpenWireClient
from tests.management.desk import beside
from tests.management.web import Site
from tests.waiting import wait_until


class Served:
    """A broker with its web address."""

    def __init__(self, broker: Broker, address: tuple[str, int]) -> None:
        assert broker.web is not None
        self.broker = broker
        self.address = address
        self.visitor = Site(broker.web.address)
        self.operator = Site(broker.web.address, broker.web.token)


@contextmanager
def served(
    store: PersistenceAdapter | None = None, authorization: AuthorizationMap | None = None, **options: Any
) -> Iterator[Served]:
    given = {"bind": "127.0.0.1:0", "web_bind": "127.0.0.1:0", **options}
    adapter = store or MemoryPersistenceAdapter()
    broker = Broker(adapter, BrokerOptions(**given), open_spool, authorization=authorization)
    with running(broker) as address:
        yield Served(broker, address)


@pytest.fixture
def broker() -> Iterator[Served]:
    with served() as broker:
        yield broker


def send(broker: Served, queue: str, count: int) -> None:
    with Client(broker.address) as client:
        client.connect()
        for number in range(count):
            client.publish(f"/queue/{queue}", f"m{number}", n=str(number))


def test_everybody_may_look_where_nobody_has_to_log_in(broker: Served) -> None:
    session = broker.visitor.get("/api/v1/session").json
    assert (session["user"], session["may_act"], session["master"]["state"]) == ("visitor", False, "master")
    assert broker.visitor.get("/api/v1/broker").json["state"] == "master"


def test_who_shows_no_token_changes_nothing(broker: Served) -> None:
    send(broker, "A", 1)
    refused = broker.visitor.post("/api/v1/purge", {"destination": "queue://A"})
    assert (refused.status, refused.json["kind"]) == (403, "NotAuthorized")
    assert len(broker.visitor.get("/api/v1/messages?destination=queue://A").json["messages"]) == 1


def test_the_history_is_told_from_a_time_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "_SAMPLE_S", 0.02)
    with served() as broker:

        def history(query: str = "") -> list[int]:
            return [sample["at_ms"] for sample in broker.visitor.get(f"/api/v1/history{query}").json]

        wait_until(lambda: len(history()) > 2)
        first, second, *_ = history()
        assert history(f"?after_ms={first}")[0] == second
        assert history(f"?after_ms={second + 1_000_000}") == []


def test_messages_are_sent_browsed_moved_and_purged(broker: Served) -> None:
    given = {"destination": "queue://A", "body": "hello", "properties": {"n": 7}, "priority": 9}
    sent = broker.operator.post("/api/v1/send", given)
    assert sent.status == 200, sent
    (message,) = broker.operator.get("/api/v1/messages?destination=queue://A&selector=n=7").json["messages"]
    assert (message["body"], message["priority"], message["messageId"]) == ("hello", 9, sent.json["message_id"])
    found = broker.operator.get(f"/api/v1/message?destination=queue://A&message_id={message['messageId']}").json
    assert found["message"]["properties"] == {"n": "7"}
    move = {"destination": "queue://A", "target": "queue://B", "wait": True}
    assert broker.operator.post("/api/v1/move", {**move, "dry_run": True}).json["matched"] == 1
    assert broker.operator.post("/api/v1/move", move).json["done"] == 1
    assert broker.operator.post("/api/v1/purge", {"destination": "queue://B", "wait": True}).json["done"] == 1
    audit = broker.operator.get("/api/v1/audit").json
    assert [(entry["who"], entry["action"]) for entry in audit[:2]] == [("token", "purge"), ("token", "move")]


@pytest.mark.parametrize("is_persistent", [True, False])
def test_an_operator_sends_to_each_destination_of_a_composite_and_to_nothing_impossible(
    tmp_path: Path, *, is_persistent: bool
) -> None:
    with served(open_store(f"sqlite:///{tmp_path / 'b.db'}")) as broker:

        def sent(destination: str) -> int:
            given = {"destination": destination, "body": "x", "persistent": is_persistent}
            return broker.operator.post("/api/v1/send", given).status

        assert sent("queue://A,topic://T,queue://B") == 200
        assert {str(one) for one in list(broker.broker.queues)} == {"queue://A", "queue://B"}
        for wrong in ("queue://>", "topic://T.*", "temp-queue://ID:x:1", "a\nb", "\ud800", f"C,{'L' * 243}", ","):
            assert sent(wrong) in (400, 409), wrong
        assert {str(one) for one in list(broker.broker.queues)} == {"queue://A", "queue://B"}
        assert {str(one) for one in list(broker.broker.topics)} == {"topic://T"}
        for name in ("A", "B"):
            page = broker.operator.get(f"/api/v1/messages?destination=queue://{name}").json
            assert [message["body"] for message in page["messages"]] == ["x"]


def test_a_dead_letter_of_a_temporary_queue_goes_nowhere(tmp_path: Path) -> None:
    with served(open_store(f"sqlite:///{tmp_path / 'b.db'}"), bind="auto://127.0.0.1:0") as broker:
        with OpenWireClient(broker.address) as client:
            message = client.message(Queue("ActiveMQ.DLQ"), "x")  # as a Java broker has stored it
            message.persistent, message.original_destination = True, TempQueue("ID:java-1:1")
            assert type(client.ask(message)) is c.Response
        told = broker.operator.post("/api/v1/retry", {"destination": "queue://ActiveMQ.DLQ", "wait": True}).json
        assert (told["done"], told["skipped"]) == (0, 1)
        assert [str(one) for one in list(broker.broker.queues)] == ["queue://ActiveMQ.DLQ"]


def test_an_operation_is_asked_about_and_listed(broker: Served) -> None:
    send(broker, "A", 5)
    begun = broker.operator.post("/api/v1/purge", {"destination": "queue://A"}).json
    path = f"/api/v1/operation?operation_id={begun['operation_id']}"
    wait_until(lambda: broker.operator.get(path).json["state"] == "done")
    assert broker.operator.get("/api/v1/operations").json[0]["done"] == 5


@pytest.mark.parametrize(
    ("action", "given", "status", "text"),
    [
        ("purge", {"destination": "queue://ORDER"}, 404, "did you mean queue://ORDERS"),
        ("purge", {}, 400, "destination is needed"),
        ("delete", {"destination": "queue://ORDERS"}, 400, "purge removes all"),
        ("delete", {"destination": "queue://ORDERS", "selector": "n ="}, 400, "selector"),
        ("move", {"destination": "queue://ORDERS", "target": 5}, 400, "target has to be a text"),
        ("change", {"destination": "queue://ORDERS", "priority": "high"}, 400, "whole number"),
        ("disconnect", {"connection_id": "ID:none"}, 400, "no connection"),
        ("hand-over", {}, 409, "one broker only"),
    ],
)
def test_what_is_wrong_is_said(broker: Served, action: str, given: dict[str, Any], status: int, text: str) -> None:
    send(broker, "ORDERS", 1)
    answer = broker.operator.post(f"/api/v1/{action}", given)
    assert answer.status == status, answer
    assert text in answer.json["error"]


def test_a_body_that_is_no_json_object_is_refused(broker: Served) -> None:
    assert broker.operator.post("/api/v1/purge", [1]).status == 400
    assert broker.operator.request("POST", "/api/v1/purge", b"{", Content_Type="application/json").status == 400
    form = broker.operator.request("POST", "/api/v1/purge", b"a=b", Content_Type="application/x-www-form-urlencoded")
    assert form.status == 400


def test_a_request_that_is_too_large_is_refused(broker: Served) -> None:
    answer = broker.operator.request("POST", "/api/v1/send", b"", Content_Length=str(1 << 30))
    assert answer.status == 413


def test_before_a_login_a_body_is_small(broker: Served) -> None:
    assert broker.visitor.post("/api/v1/login", {"token": "x" * 5000}).status == 413


@pytest.mark.parametrize(("path", "size"), [("/api/v1/login", 5000), ("/api/v1/purge", 17 << 20)])
def test_a_body_of_no_announced_length_is_bounded(
    broker: Served, path: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    connection = http.client.HTTPConnection(*broker.operator.address, timeout=60)
    with closing(connection):
        headers = {**broker.operator.headers, "Content-Type": "application/json"}
        parts = [b"x" * min(size, 1 << 16)] * max(1, size >> 16)
        with suppress(ConnectionError):  # it may be closed before all is sent
            connection.request("POST", path, iter(parts), headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("path", ["/api/v1/purge", "/api/jolokia/"])
def test_who_goes_in_the_middle_of_a_request_is_no_defect(
    path: str, broker: Served, caplog: pytest.LogCaptureFixture
) -> None:
    token = broker.operator.headers["Authorization"]
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n"
    with socket.create_connection(broker.operator.address, timeout=60) as client:
        client.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1000) == b""
    assert broker.operator.get("/api/v1/session").status == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_wrong_token_is_refused_and_soon_not_even_looked_at(broker: Served) -> None:
    stranger = Site(broker.visitor.address, "wrong")
    assert [stranger.get("/api/v1/broker").status for _ in range(12)] == [401] * 10 + [429] * 2


def test_a_page_of_another_site_reaches_nothing(broker: Served) -> None:
    assert broker.visitor.get("/api/v1/broker", Host="evil.example:80").status == 421
    assert broker.visitor.get("/api/v1/broker", Host="localhost:1234").status == 200
    assert broker.visitor.get("/api/v1/broker", Host="[::1]:1234").status == 200


def test_a_browser_that_another_site_sends_reaches_nothing(broker: Served) -> None:
    path = "/api/jolokia/exec/org.apache.activemq:type=Broker,brokerName=localhost/addQueue/X"
    for site in ("cross-site", "same-site"):
        assert broker.operator.get(path, Sec_Fetch_Site=site).status == 403
    create = {"destination": "queue://X"}
    assert broker.operator.post("/api/v1/create", create, Origin="http://localhost:1").status == 403
    host, port = broker.operator.address
    own = broker.operator.post("/api/v1/create", create, Origin=f"http://{host}:{port}")
    assert own.status == 200


@pytest.mark.parametrize(("upgrade", "status"), [("websocket", 400), ("h2c", 200)])
def test_who_comes_for_another_protocol_is_told_by_the_answer(
    upgrade: str, status: int, broker: Served, caplog: pytest.LogCaptureFixture
) -> None:
    answer = broker.visitor.get("/", Upgrade=upgrade, Connection="Upgrade")
    assert answer.status == status
    assert (b"--bind ws://HOST:PORT" in answer.body) == (status == 400)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_what_browsers_are_told(broker: Served) -> None:
    headers = broker.visitor.get("/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert "server" not in headers
    assert broker.visitor.get("/api/v1/broker").headers["cache-control"] == "no-store"


def test_a_session_needs_its_token_to_change_anything(broker: Served) -> None:
    send(broker, "A", 1)
    begun = broker.visitor.post("/api/v1/login", {"token": broker.broker.web.token if broker.broker.web else ""})
    cookie = begun.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    browser = Site(broker.visitor.address)
    browser.headers["Cookie"] = cookie.partition(";")[0]
    session = browser.get("/api/v1/session").json
    assert session["may_act"]
    purge = {"destination": "queue://A", "wait": True}
    assert browser.post("/api/v1/purge", purge).status == 403
    assert browser.post("/api/v1/purge", purge, X_CSRF_Token="wrong").status == 403
    assert browser.post("/api/v1/purge", purge, X_CSRF_Token=session["csrf"]).json["done"] == 1
    assert browser.post("/api/v1/logout", {}, X_CSRF_Token=session["csrf"]).status == 200
    assert not browser.get("/api/v1/session").json["may_act"]


def test_users_of_the_broker_log_in_with_their_rights() -> None:
    entries = (AuthorizationEntry(pattern=Queue("A.>"), read=frozenset({"team"}), admin=frozenset({"team"})),)
    options: dict[str, Any] = {"users": {"alice": "secret"}, "groups": {"team": "alice"}, "login_delay_max_s": 0}
    with served(authorization=AuthorizationMap(entries=entries), **options) as broker:
        assert broker.visitor.get("/api/v1/broker").status == 401
        assert broker.broker.web is not None
        assert broker.broker.web.token is None
        shown = base64.b64encode(b"alice:secret").decode()
        alice = Site(broker.visitor.address)
        alice.headers["Authorization"] = f"Basic {shown}"
        assert alice.post("/api/v1/create", {"destination": "queue://A.1"}).status == 200
        assert alice.post("/api/v1/create", {"destination": "queue://B.1"}).status == 403
        assert alice.get("/api/v1/connections").status == 403
        wrong = Site(broker.visitor.address)
        wrong.headers["Authorization"] = "Basic " + base64.b64encode(b"alice:guess").decode()
        assert wrong.get("/api/v1/broker").status == 401
        assert broker.visitor.post("/api/v1/login", {"login": "alice", "passcode": "secret"}).status == 200
        assert broker.visitor.post("/api/v1/login", {"login": "alice", "passcode": "guess"}).status == 401


def test_a_standby_says_who_is_master(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with served(open_store(url), broker_name="first"):
        standby = Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0", web_bind="127.0.0.1:0"), open_spool)
        with beside(standby):
            assert standby.web is not None
            site = Site(standby.web.address, standby.web.token)
            wait_until(lambda: site.get("/api/v1/session").json["master"]["state"] == "standby")
            assert "is master" in site.get("/api/v1/session").json["master"]["reason"]
            refused = site.post("/api/v1/purge", {"destination": "queue://A"})
            assert refused.status == 409
            assert "ask the master" in refused.json["error"]
            assert b'jdbcstore_state{state="standby"} 1.0' in site.get("/metrics").body


def test_an_address_that_strangers_reach_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="web_token_file"):
        Broker(MemoryPersistenceAdapter(), BrokerOptions(web_bind="0.0.0.0:0"))
    token = tmp_path / "token"
    token.write_text("short\n")
    with pytest.raises(ConfigurationError, match="at least 16 characters"):
        Broker(MemoryPersistenceAdapter(), BrokerOptions(web_bind="0.0.0.0:0", web_token_file=str(token)))
    token.write_text("0123456789abcdef0123\n")
    with served(web_token_file=str(token)) as broker:
        assert Site(broker.visitor.address, "0123456789abcdef0123").post("/api/v1/drain", {"on": False}).status == 200


def test_more_connections_than_there_may_be_are_let_go(broker: Served) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(broker.operator.address, timeout=60)) for _ in range(150)]
        let_go = [one for one in idle[100:] if one.recv(1) == b""]
        assert len(let_go) == 50
    wait_until(lambda: _is_answered(broker))


def _is_answered(broker: Served) -> bool:
    try:
        return broker.operator.get("/api/v1/broker").status == 200
    except OSError:
        return False


def test_a_connection_that_is_used_all_the_time_is_kept(broker: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_LOOK_S", 0.05)
    monkeypatch.setattr(connection_module, "_REQUEST_S", 3.0)
    connection = http.client.HTTPConnection(*broker.operator.address, timeout=60)
    with closing(connection):
        connection.connect()
        own = connection.sock.getsockname()
        ends_s = time.monotonic() + 5
        while time.monotonic() < ends_s:
            connection.request("GET", "/live")
            assert connection.getresponse().read() == b"ok\n"
            time.sleep(0.1)
        assert connection.sock.getsockname() == own  # http.client would connect again


def test_who_does_not_read_an_answer_is_let_go(broker: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_LOOK_S", 0.05)
    monkeypatch.setattr(connection_module, "_REQUEST_S", 0.2)
    with socket.create_connection(broker.operator.address) as peer:
        peer.settimeout(60)
        peer.sendall(b"GET /static/console.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)  # megabytes of answers

        def is_gone() -> bool:
            try:
                peer.send(b" ", socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except OSError:
                return True
            return False

        wait_until(is_gone)


def test_without_the_extra_the_broker_says_what_to_install() -> None:
    program = """
import sys
sys.modules["uvicorn"] = sys.modules["prometheus_client"] = None
from jdbcstore import Broker, BrokerOptions
from jdbcstore.store.memory import MemoryPersistenceAdapter
Broker(MemoryPersistenceAdapter(), BrokerOptions(health_bind="127.0.0.1:0"))
Broker(MemoryPersistenceAdapter(), BrokerOptions(web_bind="127.0.0.1:0"))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert 'pip install "jdbcstore[web]"' in ran.stderr


def test_messages_are_exported_and_come_back_byte_for_byte(broker: Served) -> None:
    send(broker, "A", 7)
    lines: list[Any] = []
    page: dict[str, Any] = {"after": ""}
    while page["after"] is not None:
        page = broker.operator.get(f"/api/v1/export?destination=queue://A&count=3&after={page['after']}").json
        lines += page["lines"]
    assert [line["body"] for line in lines] == [f"m{number}" for number in range(7)]
    broker.operator.post("/api/v1/purge", {"destination": "queue://A", "wait": True})
    assert broker.operator.post("/api/v1/import", {"lines": lines}).json == {"stored": 7}
    again = broker.operator.get("/api/v1/export?destination=queue://A").json["lines"]
    assert again == lines


def test_the_journal_of_kahadb_is_diagnosed_beside_the_broker(tmp_path: Path) -> None:
    with served(open_store(f"kahadb:{tmp_path / 'kahadb'}")) as broker:
        send(broker, "ORDERS", 20)
        found = broker.visitor.get("/api/v1/diagnosis").json
        (holder,) = found["holders"]
        assert (holder["holder"], holder["messages"], found["files"]) == ("queue://ORDERS", 20, 1)
        assert 0 < found["live_bytes"] < found["bytes"]
        assert found["svg"].startswith("<svg")
        assert "ORDERS" in found["svg"]
        send(broker, "ORDERS", 1)
        assert broker.visitor.get("/api/v1/diagnosis").json == found  # who asks often costs no more


def test_other_stores_have_no_diagnosis(broker: Served) -> None:
    refused = broker.visitor.get("/api/v1/diagnosis")
    assert refused.status == 400
    assert "KahaDB" in refused.json["error"]


def test_a_diagnosis_that_is_not_possible_is_told(tmp_path: Path) -> None:
    with served(open_store(f"kahadb:{tmp_path / 'kahadb'}")) as broker:
        (tmp_path / "kahadb").rename(tmp_path / "moved")
        try:
            refused = broker.visitor.get("/api/v1/diagnosis")
        finally:
            (tmp_path / "moved").rename(tmp_path / "kahadb")
        assert refused.status == 503
        assert "the diagnosis was not possible" in refused.json["error"]
