"""Users: hashed passcodes, files that change, failed logins."""

from __future__ import annotations

import logging
import os
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, ConfigurationError
from jdbcstore.broker.security.authorization import AuthorizationEntry, AuthorizationMap
from jdbcstore.broker.security.passcodes import is_right
from jdbcstore.destination import Queue, parse_destination
from jdbcstore.identifiers import ConnectionId
from jdbcstore.openwire import commands as c
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.transport.tls import TlsOptions
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient
from tests.certificates import Authority, Identity
from tests.waiting import wait_until

#: What `hash_passcode` has made of "secret" once: it takes long, and each worker would make it.
HASHED = "$argon2id$v=19$m=19456,t=2,p=1$kxrRM8hYbGLakyP/4xbTHA$RS2i72kH8zlYxmjYV7c/bVb9jA9PZL4qeO19Elt71a0"


def log_in(address: Address, login: str, passcode: str) -> str:
    with Client(address) as client:
        return client.connect(login=login, passcode=passcode).command


def write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    os.replace(new, path)


def wait_for(text: str, caplog: pytest.LogCaptureFixture) -> None:
    wait_until(lambda: text in caplog.text, lambda: f"{text!r} is in: {caplog.text}")


def test_a_hashed_passcode_lets_in(start_broker: StartBroker) -> None:
    address = start_broker(users={"joe": HASHED})
    assert log_in(address, "joe", "secret") == "CONNECTED"
    for login, passcode in [("joe", "no"), ("joe", HASHED), ("ann", "secret"), ("joe", "")]:
        assert log_in(address, login, passcode) == "ERROR"


def test_what_comes_behind_connect_waits_for_the_login(start_broker: StartBroker) -> None:
    address = start_broker(users={"joe": HASHED})
    with Client(address) as client:
        client.write(
            b"CONNECT\naccept-version:1.2\nhost:x\nlogin:joe\npasscode:secret\n\n\0"
            b"SEND\ndestination:/queue/A\nreceipt:1\n\nx\0SUBSCRIBE\ndestination:/queue/A\nid:1\nack:auto\n\n\0"
        )
        assert [client.frame().command for _ in range(3)] == ["CONNECTED", "RECEIPT", "MESSAGE"]


def test_many_logins_of_one_user_cost_few_hashes(start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def counted(stored: str, passcode: str) -> bool:
        checked.append(stored)
        return is_right(stored, passcode)

    monkeypatch.setattr("jdbcstore.broker.security.login.is_right", counted)
    address = start_broker(users={"joe": HASHED})
    clients = [Client(address) for _ in range(20)]
    for client in clients:  # all at once
        client.send("CONNECT", {"accept-version": "1.2", "login": "joe", "passcode": "secret"})
    assert {client.frame().command for client in clients} == {"CONNECTED"}
    for client in clients:
        client.drop()
    for _ in range(50):
        assert log_in(address, "joe", "secret") == "CONNECTED"
    assert len(checked) == 1


def test_a_wrong_passcode_is_not_remembered_as_right(start_broker: StartBroker) -> None:
    address = start_broker(users={"joe": HASHED})
    answers = [log_in(address, "joe", passcode) for passcode in ("secret", "no", "secret", "secre", "secret!")]
    assert answers == ["CONNECTED", "ERROR", "CONNECTED", "ERROR", "ERROR"]


def test_failed_logins_slow_down_who_guesses_and_nobody_else(start_broker: StartBroker) -> None:
    for delay_max_s in (600.0, 0.4):
        address = start_broker(
            users={"joe": HASHED, "ann": "hers"}, login_delay_max_s=delay_max_s, connect_timeout_s=600.0
        )
        started_s = time.monotonic()
        guesses = [Client(address) for _ in range(12)]
        for number, guess in enumerate(guesses):
            guess.send("CONNECT", {"accept-version": "1.2", "login": "joe", "passcode": f"guess {number}"})
        assert log_in(address, "ann", "hers") == "CONNECTED"
        if delay_max_s > 1:
            assert not all(guess.has_come() for guess in guesses), "who guesses waits for minutes"
        else:
            assert {guess.frame().command for guess in guesses} == {"ERROR"}
            assert time.monotonic() - started_s > 0.1 + 0.2 + 0.4 * 9
        for guess in guesses:
            guess.drop()


def test_a_failed_login_is_told_without_the_secret(start_broker: StartBroker, caplog: pytest.LogCaptureFixture) -> None:
    address = start_broker(users={"joe": "topsecret"})
    assert log_in(address, "joe", "guessed") == "ERROR"
    assert log_in(address, "x" * 5000, "guessed") == "ERROR"
    told = [record.getMessage() for record in caplog.records if "login refused" in record.getMessage()]
    assert told[0] == "login refused peer=127.0.0.1 login='joe' reason='the passcode is wrong' failures=1"
    assert all(len(one) < 1000 for one in told)  # the other one as well, if a second has gone by
    assert "guessed" not in caplog.text
    assert "topsecret" not in caplog.text


def test_a_client_that_goes_while_it_waits_leaves_nothing(start_broker: StartBroker, brokers: list[Broker]) -> None:
    address = start_broker(users={"joe": HASHED}, connect_timeout_s=0.5)
    (broker,) = brokers
    assert broker.authentication is not None
    for _ in range(10):
        broker.authentication._slowness.failed("127.0.0.1", "joe", broker.loop.time())
    with Client(address) as client:
        client.send("CONNECT", {"accept-version": "1.2", "login": "joe", "passcode": "no"})
        assert client.is_closed()
    authentication = broker.authentication
    wait_until(lambda: not authentication._turns and not authentication._logins)


def test_files_of_users_are_read_again(
    start_broker: StartBroker, open_client: OpenClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    users, groups = tmp_path / "users.properties", tmp_path / "groups.properties"
    write(users, f"joe={HASHED}\nann=hers\n")
    write(groups, "readers=joe,ann\n")
    pattern = parse_destination("queue://>")
    readers, everybody = frozenset({"readers"}), frozenset("*")
    address = start_broker(
        users_file=str(users),
        groups_file=str(groups),
        authorization=AuthorizationMap(
            entries=(AuthorizationEntry(pattern=pattern, read=readers, write=everybody, admin=everybody),)
        ),
    )
    joe = open_client(address, login="joe", passcode="secret")
    ann = open_client(address, login="ann", passcode="hers")
    for client in (joe, ann):
        client.subscribe("/queue/A")
    write(users, f"joe={HASHED}\nbob=his\n")
    wait_for("users read again", caplog)
    assert "log in again" in ann.error().headers["message"]
    assert ann.is_closed()
    assert log_in(address, "ann", "hers") == "ERROR"
    assert log_in(address, "bob", "his") == "CONNECTED"
    caplog.clear()
    write(groups, "readers=bob\n")
    assert joe.error().headers["message"] == "User joe is not authorized to read from: queue://A"
    joe.publish("/queue/A", "for bob")
    bob = open_client(address, login="bob", passcode="his")
    bob.subscribe("/queue/A")
    assert bob.message().text == "for bob"
    assert joe.is_silent()


def test_two_lists_of_users_are_refused(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("joe=x")
    options = BrokerOptions(users={"ann": "y"}, users_file=str(tmp_path / "users"))
    with pytest.raises(ConfigurationError, match="two lists of users"):
        Broker(MemoryPersistenceAdapter(), options)


def test_authorisation_without_users_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs users"):
        Broker(MemoryPersistenceAdapter(), authorization=AuthorizationMap())


EVERYTHING = "may read and write everything"
IN_CLEAR = "in clear on stomp://0.0.0.0:0:"


@pytest.mark.parametrize(
    ("bind", "users", "told"),
    [
        ("0.0.0.0:0", None, EVERYTHING),
        ("stomp+ssl://0.0.0.0:0", None, EVERYTHING),
        ("0.0.0.0:0", {"joe": "x"}, IN_CLEAR),
        ("stomp+ssl://0.0.0.0:0,0.0.0.0:0", {"joe": "x"}, IN_CLEAR),
        ("stomp+ssl://0.0.0.0:0", {"joe": "x"}, ""),
        ("stomp+ssl://0.0.0.0:0,127.0.0.1:0", {"joe": "x"}, ""),
        ("127.0.0.1:0", {"joe": "x"}, ""),
        ("127.0.0.1:0", None, ""),
    ],
)
def test_a_broker_that_is_open_to_the_network_says_so(
    start_broker: StartBroker,
    caplog: pytest.LogCaptureFixture,
    server: Identity,
    bind: str,
    users: dict[str, str] | None,
    told: str,
) -> None:
    tls = TlsOptions(certificate=str(server.certificate), key=str(server.key)) if "ssl" in bind else None
    start_broker(bind=bind, users=users, tls=tls)
    assert [text for text in (EVERYTHING, IN_CLEAR) if text in caplog.text] == [told] * bool(told)


def test_a_certificate_says_who_a_client_is(start_broker: StartBroker, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, joe, eve = (authority.identity(name) for name in ("broker", "joe", "eve"))
    users = tmp_path / "certificates.properties"
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(joe.certificate, joe.key)
    strange = ssl.create_default_context(cafile=str(authority.certificate))
    strange.load_cert_chain(eve.certificate, eve.key)
    with Client(start_broker_of_subjects(start_broker, authority, server, users), tls=context) as client:
        assert client.connect().command == "CONNECTED"
        assert client.request("SEND", {"destination": "/queue/A"}).headers["message"].startswith("User joe is not")
    with Client(start_broker_of_subjects(start_broker, authority, server, users), tls=strange) as client:
        assert client.connect(login="joe", passcode="x").headers["message"].startswith("User name [joe]")


def start_broker_of_subjects(start_broker: StartBroker, authority: Authority, server: Identity, users: Path) -> Address:
    write(users, "joe=/CN=joe(,.*)?/\n")
    return start_broker(
        bind="stomp+ssl://127.0.0.1:0",
        certificate_users_file=str(users),
        authorization=AuthorizationMap(),
        tls=TlsOptions(
            certificate=str(server.certificate),
            key=str(server.key),
            ca=str(authority.certificate),
            client_certificate="required",
        ),
    )


@pytest.mark.parametrize("has_users", [True, False])
def test_a_message_says_who_has_sent_it_and_not_who_its_client_says(
    start_broker: StartBroker, open_client: OpenClient, has_users: bool
) -> None:
    # No users at all, not even an empty set of them: the broker asks nobody who they are.
    options: dict[str, Any] = {"users": {"joe": "secret"}} if has_users else {}
    address = start_broker(populate_jmsx_user_id=True, bind="auto://127.0.0.1:0", **options)
    client = open_client(address, login="joe", passcode="secret")
    client.subscribe("/queue/A")
    client.publish("/queue/A", JMSXUserID="ann")
    client.publish("/queue/A", JMSXUserID="ann", producer_id="till", producer_sequence="1")
    client.done("BEGIN", {"transaction": "t"})
    client.done("SEND", {"destination": "/queue/A", "transaction": "t", "JMSXUserID": "ann"})
    client.done("COMMIT", {"transaction": "t"})
    with OpenWireClient(address, is_open=False) as other:
        other.ask(
            c.ConnectionInfo(
                connection_id=ConnectionId(other.name), client_id="other", user_name="joe", password="secret"
            )
        )
        other.begin()
        message = other.message(Queue("A"), "x")
        message.user_id = "ann"
        assert type(other.ask(message)) is c.Response
    said = [client.message().headers.get("JMSXUserID") for _ in range(4)]
    assert said == ["joe" if has_users else None] * 4
