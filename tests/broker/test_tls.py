"""TLS: who is served, who is turned away and told why, and what a connection costs before it is one."""

from __future__ import annotations

import logging
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from jdbcstore import Broker, ConfigurationError, PersistenceAdapter
from jdbcstore.transport.stomp.session import StompSession
from jdbcstore.transport.tls import TlsOptions, openssl_cipher
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker_process import BrokerProcess
from tests.certificates import Authority, Identity
from tests.waiting import wait_until

BIND = "stomp+ssl://127.0.0.1:0"


def tls_options(server: Identity, **options: object) -> TlsOptions:
    return TlsOptions(certificate=str(server.certificate), key=str(server.key), **options)  # type: ignore[arg-type]


def trusting(authority: Authority, identity: Identity | None = None) -> ssl.SSLContext:
    """A client's context."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


def connected(address: Address, context: ssl.SSLContext, **headers: str) -> Client:
    client = Client(address, tls=context)
    assert client.connect("1.2", **headers).command == "CONNECTED"
    return client


@pytest.mark.usefixtures("any_loop")
def test_messages_of_all_sizes_go_both_ways(
    start_broker: StartBroker, authority: Authority, server: Identity, sqlite_store: PersistenceAdapter
) -> None:
    address = start_broker(sqlite_store, bind=BIND, tls=tls_options(server))
    bodies = ["", "x", "y" * 16_384, "z" * 16_385, "w" * 3_000_000]
    with connected(address, trusting(authority)) as client:
        client.subscribe("/queue/A", "client-individual")
        for body in bodies:
            client.publish("/queue/A", body)
        for body in bodies:
            message = client.message()
            assert message.text == body
            client.ack(message)
        client.done("DISCONNECT")
        assert client.is_closed()


@pytest.mark.usefixtures("any_loop")
def test_one_who_does_not_read_is_choked_and_what_it_has_not_read_comes_again(
    start_broker: StartBroker, brokers: list[Broker], authority: Authority, server: Identity
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server))
    context = trusting(authority)
    lazy = connected(address, context)
    lazy.subscribe("/queue/A", "auto")
    with connected(address, context) as sender:
        for _ in range(60):
            sender.publish("/queue/A", "x" * 300_000)
        queue = next(iter(brokers[0].queues.values()))
        wait_until(lambda: any(client.consumers.is_choked for client in brokers[0].clients))
        assert queue.depth > 5, "what was not sent must not count as delivered"
        lazy.drop()
        sender.subscribe("/queue/A", "client", id="2")
        got = [sender.message() for _ in range(queue.depth)]
        assert all(len(message.body) == 300_000 for message in got)


def test_both_kinds_of_listener_may_be_there(
    start_broker: StartBroker, brokers: list[Broker], authority: Authority, server: Identity, open_client: OpenClient
) -> None:
    start_broker(bind=f"127.0.0.1:0, {BIND}", tls=tls_options(server))
    plain, encrypted = brokers[0].addresses
    receiver = open_client(plain)
    receiver.subscribe("/queue/A")
    with connected(encrypted, trusting(authority)) as sender:
        sender.publish("/queue/A", "from the other side")
    assert receiver.message().text == "from the other side"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the transport warns of, once there is something; the watchdog may warn of a machine that stands still."""

    def found() -> list[str]:
        records = [record for record in caplog.records if record.levelno >= logging.WARNING]
        return [record.getMessage() for record in records if record.name != "jdbcstore.broker.watchdog"]

    wait_until(found)
    return found()


@pytest.mark.usefixtures("any_loop")
def test_plain_text_to_the_port_of_tls_is_closed_and_told(
    start_broker: StartBroker, server: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server))
    with Client(address) as client:
        client.send("CONNECT", {"accept-version": "1.2", "host": "x"})
        assert client.is_closed()
    (line,) = warnings(caplog)
    assert line.startswith("TLS handshake failed peer=127.0.0.1:")
    assert "the client does not speak TLS" in line


@pytest.mark.usefixtures("any_loop")
def test_tls_to_the_plain_port_is_closed_and_told(
    start_broker: StartBroker, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    address = start_broker()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Client(address, tls=trusting(authority))
    (line,) = warnings(caplog)
    assert line.startswith("the client speaks TLS, and this port does not, closing peer=127.0.0.1:")


# -- certificates ----------------------------------------------------------------------------------------------------


def refused(address: Address, context: ssl.SSLContext) -> bool:
    """Whether a client is turned away. TLS 1.3 tells a client so when it first reads."""
    try:
        with Client(address, tls=context) as client:
            client.connect()
    except (ssl.SSLError, ConnectionError):
        return True
    return False


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_certificate_is_turned_away_where_one_is_required(
    start_broker: StartBroker,
    authority: Authority,
    server: Identity,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    version: ssl.TLSVersion,
) -> None:
    options = tls_options(server, client_certificate="required", ca=str(authority.certificate))
    address = start_broker(bind=BIND, tls=options)
    stranger = Authority(tmp_path, "stranger")
    for context in (
        trusting(authority),
        trusting(authority, stranger.identity("eve")),
        trusting(authority, authority.identity("yesterday", days=-1)),
    ):
        context.minimum_version = context.maximum_version = version
        assert refused(address, context)
    context = trusting(authority, authority.identity("till"))
    context.minimum_version = context.maximum_version = version
    with connected(address, context) as client:
        client.publish("/queue/A", "let in")
    wait_until(lambda: caplog.text.count("reason=") >= 3)
    reasons = [record.getMessage().partition("reason=")[2] for record in caplog.records if "TLS" in record.getMessage()]
    assert [reason[1:30] for reason in reasons] == [
        "the client has no certificate",
        "the client's certificate is r",
        "the client's certificate is r",
    ]
    assert "expired" in reasons[2]


@pytest.mark.parametrize(("demand", "has_one"), [("none", False), ("wanted", False), ("wanted", True)])
def test_who_a_client_is_can_be_asked(
    start_broker: StartBroker, brokers: list[Broker], authority: Authority, server: Identity, demand: str, has_one: bool
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server, client_certificate=demand, ca=str(authority.certificate)))
    subject = [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Shop, Inc."),
        x509.NameAttribute(NameOID.COMMON_NAME, "till 4"),
    ]
    identity = authority.identity("till", subject) if has_one else None
    with connected(address, trusting(authority, identity)):
        (client,) = brokers[0].clients
        found = cast(StompSession, client.callbacks)._wire.peer_certificate
    if not has_one:
        assert found is None
    else:
        assert found is not None
        assert (found.subject, found.issuer) == ('CN=till 4, O="Shop, Inc.", C=DE', "CN=test authority")


def test_an_older_version_is_turned_away(
    start_broker: StartBroker, authority: Authority, server: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server, version_min="TLSv1.3"))
    old = trusting(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert refused(address, old)
    wait_until(lambda: "too old" in caplog.text)
    connected(address, trusting(authority)).drop()


def test_ciphers_have_names_of_java_too(start_broker: StartBroker, authority: Authority, server: Identity) -> None:
    address = start_broker(
        bind=BIND,
        tls=tls_options(server, version_max="TLSv1.2", ciphers="TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    )
    with connected(address, trusting(authority)) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        assert (client.socket.cipher() or ("",))[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ],
)
def test_ciphers_of_java_are_openssl_s(java: str, openssl: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(openssl_cipher(java))
    assert openssl in {cipher["name"] for cipher in context.get_ciphers()}


def test_with_ciphers_of_tls_1_3_alone_nothing_older_is_served(
    start_broker: StartBroker, authority: Authority, server: Identity
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server, ciphers="TLS_AES_128_GCM_SHA256"))
    old = trusting(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert refused(address, old)
    connected(address, trusting(authority)).drop()


def test_a_key_store_does_as_well(start_broker: StartBroker, authority: Authority, server: Identity) -> None:
    store = server.pkcs12("changeit", [authority.certificate])
    tls = TlsOptions(
        certificate=str(store),
        key_password="changeit",
        client_certificate="required",
        ca=str(store),
        ca_password="changeit",
    )
    address = start_broker(bind=BIND, tls=tls)
    connected(address, trusting(authority, authority.identity("till"))).drop()


def test_a_key_may_have_a_password(start_broker: StartBroker, authority: Authority, server: Identity) -> None:
    key = server.encrypted_key("open sesame")
    address = start_broker(
        bind=BIND, tls=TlsOptions(certificate=str(server.certificate), key=str(key), key_password="open sesame")
    )
    connected(address, trusting(authority)).drop()


def test_what_cannot_be_used_is_told_before_anybody_is_served(
    authority: Authority, server: Identity, tmp_path: Path, start_broker: StartBroker
) -> None:
    old = tmp_path / "broker.jks"
    old.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    other = authority.identity("other")
    store = server.pkcs12("changeit")
    for options, said in [
        ({}, "set tls.certificate"),
        ({"certificate": "/nowhere.pem"}, "cannot read /nowhere.pem: No such file"),
        ({"certificate": str(server.certificate)}, "with its key unless"),
        ({"certificate": str(server.certificate), "key": "/nowhere.key"}, "cannot read /nowhere.key: No such file"),
        ({"certificate": str(server.certificate), "key": str(other.key)}, "the key is not the certificate's"),
        ({"certificate": str(server.certificate), "key": str(server.encrypted_key("x"))}, "password"),
        ({"certificate": str(old)}, f"keytool -importkeystore -srckeystore {old} -destkeystore {tmp_path}/broker.p12"),
        ({"certificate": str(text)}, "neither PEM nor PKCS#12"),
        ({"certificate": str(store), "key_password": "wrong"}, "its password is wrong"),
    ]:
        with pytest.raises(ConfigurationError) as error:
            start_broker(bind=BIND, tls=TlsOptions(**options))  # type: ignore[arg-type]
        assert said in str(error.value)
    for more, said in [
        ({"client_certificate": "required"}, "needs tls.ca"),
        ({"client_certificate": "wanted", "ca": str(server.key)}, "there is no certificate in"),
        ({"ciphers": "ECDHE-RSA-AES128-GCM-SHA256:NONSENSE"}, "tls.ciphers: OpenSSL has no NONSENSE"),
        ({"version_min": "TLSv1.3", "version_max": "TLSv1.2"}, "above"),
    ]:
        with pytest.raises(ConfigurationError) as error:
            start_broker(bind=BIND, tls=tls_options(server, **more))
        assert said in str(error.value)


@pytest.mark.parametrize(
    "option",
    [
        {"client_certificate": "perhaps"},
        {"version_min": "TLSv1"},
        {"handshake_timeout_s": 0},
        {"handshakes_max": 0},
        {"reload_check_period_s": -1.0},
    ],
)
def test_an_impossible_option_is_refused(option: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=f"tls.{next(iter(option))}"):
        TlsOptions(**option)  # type: ignore[arg-type]


def serial_number(address: Address, authority: Authority) -> object:
    with Client(address, tls=trusting(authority)) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        return (client.socket.getpeercert() or {})["serialNumber"]


def test_a_new_certificate_is_served_without_a_restart(
    start_broker: StartBroker, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    signed = authority.identity("renewed")
    address = start_broker(bind=BIND, tls=tls_options(signed, reload_check_period_s=0.05))
    with connected(address, trusting(authority)) as old:
        before = serial_number(address, authority)
        signed.key.write_text("half written")
        wait_until(lambda: "the former TLS certificate stays in use" in caplog.text)
        assert serial_number(address, authority) == before
        authority.identity("renewed")
        wait_until(lambda: serial_number(address, authority) != before)
        old.publish("/queue/A", "who was there stays")


@pytest.mark.parametrize("behind", [b"", b"SEND\ndestination:/queue/A\nreceipt:1\n\n\0" * 3], ids=["connect", "more"])
def test_bytes_that_are_no_record_behind_good_ones_end_the_connection_and_nothing_else(
    start_broker: StartBroker,
    authority: Authority,
    server: Identity,
    stack: ExitStack,
    caplog: pytest.LogCaptureFixture,
    behind: bytes,
) -> None:
    caplog.set_level(logging.INFO)
    identity = authority.identity("till")
    options = tls_options(server, ca=str(authority.certificate), client_certificate="required")
    address = start_broker(bind=BIND, tls=options)
    for _ in range(5):  # what was read at once
        line = stack.enter_context(socket.create_connection(address, 60))
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting(authority, identity).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                line.sendall(outgoing.read())
                incoming.write(line.recv(1 << 16))
        tls.write(b"CONNECT\naccept-version:1.2\nhost:test\n\n\0" + behind)
        line.sendall(outgoing.read() + b"this is no record of TLS")
        while line.recv(1 << 16):
            pass
    connected(address, trusting(authority, identity)).drop()
    wait_until(lambda: caplog.text.count("TLS failed, closing") == 5)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


# -- what it costs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def silent(stack: ExitStack) -> Callable[[Address], socket.socket]:
    """Opens a connection that says nothing."""
    return lambda address: stack.enter_context(socket.create_connection(address, 60))


def test_a_handshake_has_its_time(
    start_broker: StartBroker, server: Identity, caplog: pytest.LogCaptureFixture, silent: Callable[..., socket.socket]
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server, handshake_timeout_s=0.3))
    assert silent(address).recv(1) == b""
    wait_until(lambda: "TLS handshake failed" in caplog.text and "no end after" in caplog.text)


def test_more_handshakes_than_there_may_be_wait_and_slow_ones_make_room(
    start_broker: StartBroker,
    brokers: list[Broker],
    authority: Authority,
    server: Identity,
    silent: Callable[..., socket.socket],
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server, handshakes_max=2, handshake_timeout_s=600.0))
    started_s = time.monotonic()
    slow = [silent(address) for _ in range(2)]
    connected(address, trusting(authority)).drop()
    assert time.monotonic() - started_s > 1.5
    assert slow[0].recv(1) == b""
    slow[1].settimeout(0.1)
    with pytest.raises(TimeoutError):
        slow[1].recv(1)


def test_one_address_with_many_handshakes_keeps_no_other_out(
    start_broker: StartBroker, authority: Authority, server: Identity, stack: ExitStack
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server, handshakes_max=2))
    for _ in range(100):  # two seconds each: for all of them the other one would wait in vain
        greedy = stack.enter_context(socket.create_connection(address, 60, ("127.0.0.2", 0)))
        greedy.sendall(b"\x16\x03\x01")
    connected(address, trusting(authority)).drop()


@pytest.mark.usefixtures("any_loop")
def test_who_leaves_while_it_waits_leaves_nothing_behind(
    start_broker: StartBroker,
    authority: Authority,
    server: Identity,
    silent: Callable[..., socket.socket],
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server, handshakes_max=1))
    for _ in range(20):
        waiting = [silent(address) for _ in range(4)]
        for connection in waiting[1:]:
            connection.sendall(b"\x16\x03\x01")  # more will not come
        for connection in waiting:
            connection.close()
    connected(address, trusting(authority)).drop()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_who_has_not_agreed_on_keys_counts_as_a_client(
    start_broker: StartBroker, server: Identity, silent: Callable[..., socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server), connections_max=2)
    held = [silent(address) for _ in range(2)]
    third = silent(address)
    assert third.recv(1) == b""
    wait_until(lambda: "connections_max or connections_per_address_max is reached" in caplog.text)
    del held


def test_one_address_that_agrees_on_no_keys_has_no_more_seats_than_one_that_does(
    start_broker: StartBroker, authority: Authority, server: Identity, stack: ExitStack
) -> None:
    options = tls_options(server, handshake_timeout_s=600.0)
    address = start_broker(bind=BIND, tls=options, connections_max=4, connections_per_address_max=3)
    greedy = [stack.enter_context(socket.create_connection(address, 20, ("127.0.0.2", 0))) for _ in range(4)]
    assert greedy[3].recv(1) == b""
    stack.enter_context(connected(address, trusting(authority)))
    for one in greedy:
        one.close()
    for _ in range(2):  # in their seats
        stack.enter_context(connected(address, trusting(authority)))


def test_a_stop_does_not_wait_for_handshakes(
    start_broker: StartBroker, server: Identity, silent: Callable[..., socket.socket], stack: ExitStack
) -> None:
    address = start_broker(bind=BIND, tls=tls_options(server, handshake_timeout_s=600.0), stop_timeout_s=600.0)
    waiting = silent(address)
    stack.pop_all().close()  # the test may take two minutes
    del waiting


def test_sighup_reads_certificates_again(tmp_path: Path, authority: Authority) -> None:
    signed = authority.identity("by-signal")
    arguments = ["--tls-certificate", str(signed.certificate), "--tls-key", str(signed.key)]
    with BrokerProcess("memory:", tmp_path, *arguments, is_tls=True) as broker:
        address = ("127.0.0.1", broker.port)
        before = serial_number(address, authority)
        authority.identity("by-signal")
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: serial_number(address, authority) != before)
