"""The listener under the broker's ports: exhaustion passes, an address that is taken leaves nothing open."""

from __future__ import annotations

import asyncio
import os
import resource
import socket

import pytest

from jdbcstore.broker.acceptor import Acceptor


class Greeter(asyncio.Protocol):
    """Says one word and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


def test_without_a_free_file_clients_wait_until_there_is_one(caplog: pytest.LogCaptureFixture) -> None:
    async def live() -> bytes:
        loop = asyncio.get_running_loop()
        acceptor = Acceptor(loop, Greeter, 8)
        await acceptor.start("127.0.0.1", 0)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.create_connection(acceptor.sockets[0].getsockname(), 5) as client:
            os.close(lowest := os.dup(0))
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
            try:
                while not caplog.records:
                    await asyncio.sleep(0.01)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            word = await loop.run_in_executor(None, client.recv, 5)
        acceptor.close()
        await acceptor.all_arrived()
        return word

    assert asyncio.run(live()) == b"hello"
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_one_of_two_addresses_that_is_taken_frees_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def live() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.2", 0)) as taken:
            port = taken.getsockname()[1]

            async def both(*_: object, **__: object) -> object:
                return [(socket.AF_INET, 0, 0, "", (host, port)) for host in ("127.0.0.1", "127.0.0.2")]

            monkeypatch.setattr(loop, "getaddrinfo", both)
            with pytest.raises(OSError, match="already in use"):
                await Acceptor(loop, Greeter, 8).start("name", port)
            socket.create_server(("127.0.0.1", port)).close()

    asyncio.run(live())
