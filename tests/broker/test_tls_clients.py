"""Clients by TLS: jdbcstore send and receive, stomp.py, stompman."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import stompman

from jdbcstore import BrokerOptions, ConfigurationError
from jdbcstore.addresses import parse_listeners
from jdbcstore.cli import run
from jdbcstore.config.configuration import read_configuration
from jdbcstore.transport.tls import TlsOptions
from tests.broker.client import Address
from tests.broker.conftest import StartBroker
from tests.broker.test_stompman import PATIENT
from tests.broker_process import BrokerProcess
from tests.certificates import Authority, Identity

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def address(start_broker: StartBroker, authority: Authority, server: Identity) -> Address:
    tls = TlsOptions(
        certificate=str(server.certificate),
        key=str(server.key),
        client_certificate="wanted",
        ca=str(authority.certificate),
    )
    return start_broker(bind="stomp+ssl://127.0.0.1:0", tls=tls)


def test_send_and_receive(address: Address, authority: Authority, capsys: Capture) -> None:
    place, ca = f"{address[0]}:{address[1]}", ["--tls-ca", str(authority.certificate)]
    assert run(["send", place, "/queue/A", "hello", *ca]) == 0
    assert run(["send", f"stomp+ssl://{place}", "/queue/A", "hello again", *ca]) == 0
    assert run(["receive", place, "/queue/A", "--count", "2", *ca]) == 0
    assert capsys.readouterr().out == "hello\nhello again\n"


def test_a_client_certificate_may_be_shown(address: Address, authority: Authority) -> None:
    till = authority.identity("till")
    ours = ["--tls-certificate", str(till.certificate), "--tls-key", str(till.key)]
    place = f"{address[0]}:{address[1]}"
    assert run(["send", place, "/queue/A", "x", "--tls-ca", str(authority.certificate), *ours]) == 0


def test_a_broker_that_nobody_vouches_for_gets_nothing(address: Address, tmp_path: Path, capsys: Capture) -> None:
    stranger = Authority(tmp_path, "stranger")
    for trusted in (["--tls"], ["--tls-ca", str(stranger.certificate)]):
        assert run(["send", f"{address[0]}:{address[1]}", "/queue/A", "secret", *trusted]) == 1
        assert "may be somebody else" in capsys.readouterr().err


def test_the_wrong_kind_of_port_is_told(
    address: Address, start_broker: StartBroker, authority: Authority, capsys: Capture
) -> None:
    assert run(["send", f"{address[0]}:{address[1]}", "/queue/A", "x"]) == 1
    assert "the broker closed the connection" in capsys.readouterr().err
    plain = start_broker()
    assert run(["send", f"{plain[0]}:{plain[1]}", "/queue/A", "x", "--tls-ca", str(authority.certificate)]) == 1
    assert f"no TLS at {plain[0]}:{plain[1]}" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["tcp://127.0.0.1:1", "stomp+ssl://127.0.0.1"])
def test_an_address_that_is_none_is_told(place: str, capsys: Capture) -> None:
    assert run(["send", place, "/queue/A", "x"]) == 2
    assert "HOST:PORT" in capsys.readouterr().err


def test_stompman(address: Address, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    got: list[bytes] = []

    async def scenario() -> None:
        server = stompman.ConnectionParameters(host=address[0], port=address[1], login="", passcode="")
        async with stompman.Client([server], ssl=context, **PATIENT) as client:
            arrived = asyncio.Event()

            async def handle(frame: stompman.AckableMessageFrame) -> None:
                got.append(frame.body)
                await frame.ack()
                arrived.set()

            subscription = await client.subscribe_with_manual_ack("/queue/A", handle)
            await client.send(b"by TLS", "/queue/A")
            await asyncio.wait_for(arrived.wait(), 60)
            await subscription.unsubscribe()

    asyncio.run(scenario())
    assert got == [b"by TLS"]


STOMP_PY = """
import sys, threading, stomp
host, port, ca = sys.argv[1:]
class Listener(stomp.ConnectionListener):
    arrived = threading.Event()
    def on_message(self, frame):
        print(frame.body)
        self.arrived.set()
connection = stomp.Connection12([(host, int(port))])
connection.set_ssl(for_hosts=[(host, int(port))], ca_certs=ca)
connection.set_listener("", Listener())
connection.connect("", "", wait=True)
connection.subscribe("/queue/A", id="1")
connection.send("/queue/A", "by TLS")
assert Listener.arrived.wait(60)
connection.disconnect()
"""


def test_stomp_py(address: Address, authority: Authority) -> None:
    arguments = [address[0], str(address[1]), str(authority.certificate)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STOMP_PY, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "by TLS\n"), done.stderr


def test_the_broker_says_how_to_reach_it(
    tmp_path: Path, authority: Authority, server: Identity, capsys: Capture
) -> None:
    environment = {"JDBCSTORE_TLS_CERTIFICATE": str(server.certificate), "JDBCSTORE_TLS_KEY": str(server.key)}
    with BrokerProcess("memory:", tmp_path, environment=environment, is_tls=True) as broker:
        (line,) = [line for line in broker.log().splitlines() if "first message:" in line]
        assert f"127.0.0.1:{broker.port} (TLS)" in broker.log()
        assert "--tls-ca CA-FILE" in line
        assert run(["send", f"127.0.0.1:{broker.port}", "/queue/A", "x", "--tls-ca", str(authority.certificate)]) == 0


def test_tls_may_be_chosen_in_a_file(tmp_path: Path, server: Identity) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(f"""
[broker]
bind = "127.0.0.1:1, stomp+ssl://[::1]:2"
[tls]
certificate = "{server.certificate}"
key = "{server.key}"
client_certificate = "wanted"
ca = "ca.pem"
""")
    configuration = read_configuration(file)
    assert configuration.tls == TlsOptions(
        certificate=str(server.certificate), key=str(server.key), client_certificate="wanted", ca="ca.pem"
    )
    assert list(map(str, parse_listeners(configuration.broker.bind))) == ["stomp://127.0.0.1:1", "stomp+ssl://[::1]:2"]


@pytest.mark.parametrize("bind", ["h:1,h:1", "https://h:1", "stomp+ssl://", "stomp+ssl://h:", "h", "://h:1", ","])
def test_a_place_that_is_none_is_refused(bind: str) -> None:
    with pytest.raises(ConfigurationError):
        BrokerOptions(bind=bind)
