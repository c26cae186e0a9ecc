"""The listener under the broker's ports: exhaustion passes, an address that is taken leaves nothing open."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
from contextlib import ExitStack

import pytest

from jdbcstore import Broker, BrokerOptions, running
from jdbcstore.addresses import SCHEMES
from jdbcstore.broker.acceptor import Acceptor
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.transport.tls import TlsOptions
from jdbcstore.trouble import Trouble
from tests.broker.client import Client
from tests.certificates import Identity


class Greeter(asyncio.Protocol):
    """Says one word and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


def test_without_a_free_file_clients_wait_until_there_is_one_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdbcstore.broker.acceptor._RETRY_S", 0.01)
    refusals = 0
    goes_on = Trouble.goes_on

    def refused(trouble: Trouble, reason: object) -> bool:
        nonlocal refusals
        refusals += 1
        return goes_on(trouble, reason)

    monkeypatch.setattr(Trouble, "goes_on", refused)

    async def live() -> bytes:
        loop = asyncio.get_running_loop()
        acceptor = Acceptor(loop, Greeter, 8)
        await acceptor.start("127.0.0.1", 0)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.create_connection(acceptor.sockets[0].getsockname(), 60) as client:
            os.close(lowest := os.dup(0))
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
            try:
                while refusals < 3:
                    await asyncio.sleep(0.01)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            word = await loop.run_in_executor(None, client.recv, 5)
        acceptor.close()
        await acceptor.all_arrived()
        return word

    assert asyncio.run(live()) == b"hello"
    assert [record.msg.partition(",")[0].partition(" failures")[0] for record in caplog.records] == [
        "cannot accept clients",
        "clients are accepted again",
    ]


def test_one_of_two_addresses_that_is_taken_frees_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def live() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.2", 0)) as taken:
            port = taken.getsockname()[1]

            async def both(*_: object, **__: object) -> object:
                return [(socket.AF_INET, 0, 0, "", (host, port)) for host in ("127.0.0.3", "127.0.0.2")]

            monkeypatch.setattr(loop, "getaddrinfo", both)
            with pytest.raises(OSError, match="already in use"):
                await Acceptor(loop, Greeter, 8).start("name", port)
            socket.create_server(("127.0.0.3", port)).close()  # an address that no other test uses

    asyncio.run(live())


@pytest.mark.usefixtures("any_loop")
@pytest.mark.parametrize("scheme", {spoken: scheme for scheme, spoken in SCHEMES.items()}.values())  # one name for each
def test_who_is_accepted_in_the_moment_of_the_end_is_closed(
    monkeypatch: pytest.MonkeyPatch, server: Identity, scheme: str
) -> None:
    accepted = threading.Event()
    arrive = Acceptor._arrive

    async def arrive_late(self: Acceptor, client: socket.socket) -> None:
        accepted.set()
        while self.sockets:  # until it is closed
            await asyncio.sleep(0.01)
        await arrive(self, client)

    monkeypatch.setattr(Acceptor, "_arrive", arrive_late)
    options = BrokerOptions(bind=f"{scheme}://127.0.0.1:0", connect_timeout_s=600.0, stop_timeout_s=600.0)
    tls = TlsOptions(certificate=str(server.certificate), key=str(server.key))
    with ExitStack() as stack:
        with running(Broker(MemoryPersistenceAdapter(), options, tls=tls)) as address:
            client = stack.enter_context(Client(address))
            assert accepted.wait(60)
        assert client.is_closed()
