"""Listeners that take STOMP and OpenWire: who is who, and what becomes of those who are neither or say nothing."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from jdbcstore import Broker, BrokerOptions, running
from jdbcstore.openwire.connection_codec import ConnectionCodec
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.openwire.wire_format import WireFormat
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.broker.client import Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.waiting import wait_until

BIND = "auto://127.0.0.1:0"
pytestmark = pytest.mark.usefixtures("any_loop")

INFO = ConnectionCodec(Encoding(12)).marshal(WireFormat().info())


@pytest.mark.parametrize("chunk", [1, 5, 10_000])
def test_a_client_is_known_however_its_first_bytes_arrive(start_broker: StartBroker, chunk: int) -> None:
    address = start_broker(bind=BIND)
    with Client(address) as client:
        data = b"\n\r\nCONNECT\naccept-version:1.2\nhost:h\n\n\0"
        for start in range(0, len(data), chunk):
            client.write(data[start : start + chunk])
        assert client.frame().command == "CONNECTED"
    with Client(address) as client:
        for start in range(0, len(INFO), chunk):
            client.write(INFO[start : start + chunk])
        data = b""
        while b"ActiveMQ" not in data:
            data += client.read()
        assert data[4] == 1, "a WireFormatInfo"


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\0\0", b"AMQP\0\1\0\0", b"\n" * 2000, b"\xff" * 99]
)
def test_who_speaks_something_else_is_closed(start_broker: StartBroker, brokers: list[Broker], data: bytes) -> None:
    with Client(start_broker(bind=BIND)) as client:
        client.write(data)
        assert client.is_closed()
    wait_until(lambda: not brokers[0].clients)


@pytest.mark.parametrize("data", [b"", b"\n", b"CON", INFO[:9]])
def test_who_says_too_little_is_closed_after_a_while(start_broker: StartBroker, data: bytes) -> None:
    with Client(start_broker(bind=BIND, connect_timeout_s=0.3)) as client:
        client.write(data)
        assert client.is_closed()


def test_who_has_said_nothing_yet_has_a_seat(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(bind=BIND, connections_max=2)
    open_client(address)
    with Client(address), Client(address) as one_too_many:
        assert one_too_many.is_closed()

    def is_let_in() -> bool:
        with Client(address) as client:
            try:
                return client.connect().command == "CONNECTED"
            except OSError:
                return False

    wait_until(is_let_in)


def test_a_broker_that_stops_does_not_wait_for_those_who_say_nothing() -> None:
    options = BrokerOptions(bind=BIND, connect_timeout_s=600.0, stop_timeout_s=600.0)
    with ExitStack() as stack:
        with running(Broker(MemoryPersistenceAdapter(), options)) as address:
            silent = stack.enter_context(Client(address))
        assert silent.is_closed()
