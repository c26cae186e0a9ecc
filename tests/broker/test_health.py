"""The health endpoint: what it says in which state, and to whom it does not listen long."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest

from jdbcstore import JdbcStoreError
from jdbcstore.broker import health
from jdbcstore.broker.health import Health
from jdbcstore.broker.lifecycle import State, Status
from jdbcstore.console.stomp_client import ClientError, StompClient

SINCE = datetime(2026, 11, 21, 12, 30, 0, 123456, UTC)
MASTER = Status(State.MASTER, SINCE, "clients may connect", 7, "node-1-abc")


@asynccontextmanager
async def endpoint(status: Status = MASTER) -> AsyncIterator[Health]:
    asked = Health("127.0.0.1:0", lambda: status)
    await asked.start()
    try:
        yield asked
    finally:
        await asked.stop()


async def say(asked: Health, *pieces: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send a request in pieces; returns code, headers and body of the answer, all up to the end of the connection."""
    reader, writer = await asyncio.open_connection(*asked.address)
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0.01)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split(" ")[1]), headers, body


async def get(asked: Health, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    return await say(asked, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def with_endpoint(test: Callable[[Health], Awaitable[None]], status: Status = MASTER) -> None:
    """Run a test that is a coroutine with an endpoint."""

    async def run() -> None:
        async with endpoint(status) as asked:
            await test(asked)

    asyncio.run(run())


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_alive_and_only_the_master_is_ready(state: State) -> None:
    status = Status(state, SINCE, 'for a "reason"', 7 if state is State.MASTER else None, None)
    told = {
        "state": str(state),
        "since": "2026-11-21T12:30:00.123Z",
        "reason": 'for a "reason"',
        "term": 7 if state is State.MASTER else None,
        "holder": None,
    }

    async def ask(asked: Health) -> None:
        for path, expected in (("/live", 200), ("/ready", 200 if state is State.MASTER else 503)):
            code, headers, body = await get(asked, path)
            assert (code, json.loads(body)) == (expected, told)
            assert headers["content-type"] == "application/json"
            assert headers["content-length"] == str(len(body))
            assert headers["connection"] == "close"

    with_endpoint(ask, status)


def test_a_query_is_not_looked_at() -> None:
    async def ask(asked: Health) -> None:
        assert (await get(asked, "/ready?verbose=1"))[0] == 200

    with_endpoint(ask)


def test_head_is_get_without_a_body() -> None:
    async def ask(asked: Health) -> None:
        _, headers, body = await get(asked, "/ready")
        assert await get(asked, "/ready", "HEAD") == (200, headers, b"")
        assert int(headers["content-length"]) == len(body) > 0

    with_endpoint(ask)


def test_a_client_of_stomp_that_comes_here_is_told_so() -> None:
    async def ask(asked: Health) -> None:
        with pytest.raises(ClientError, match="speaks HTTP, not STOMP"):
            await asyncio.to_thread(StompClient, *asked.address, timeout_s=30)

    with_endpoint(ask)


@pytest.mark.parametrize("path", ["/", "/metrics", "/live/", "/readyz", "/LIVE"])
def test_another_path_is_404_and_told_which_there_are(path: str) -> None:
    async def ask(asked: Health) -> None:
        code, _, body = await get(asked, path)
        told = "only /live and /ready are here; console, API and metrics are at web_bind"
        assert (code, json.loads(body)) == (404, {"error": told})

    with_endpoint(ask)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_another_method_is_405(method: str) -> None:
    async def ask(asked: Health) -> None:
        assert (await get(asked, "/live", method))[0] == 405

    with_endpoint(ask)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (b"CONNECT\naccept-version:1.2\n\n\0", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /live HTTP/1.1\r\n\r\n", 400),  # no host
        (b"GET /live HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 20_000, 431),
    ],
    ids=["stomp", "tls", "no host", "large"],
)
def test_what_is_no_request_gets_an_answer_and_the_next_one_too(request_: bytes, expected: int) -> None:
    async def ask(asked: Health) -> None:
        code, _, body = await say(asked, request_)
        assert code == expected
        assert json.loads(body)["error"]
        assert (await get(asked, "/live"))[0] == 200

    with_endpoint(ask)


def test_a_request_may_come_in_pieces_and_in_http_1_0() -> None:
    async def ask(asked: Health) -> None:
        assert (await say(asked, b"GET /li", b"ve HTTP/1.1\r\nHo", b"st: x\r\n", b"\r\n"))[0] == 200
        assert (await say(asked, b"GET /live HTTP/1.0\r\n\r\n"))[0] == 200

    with_endpoint(ask)


def test_one_connection_gets_one_answer() -> None:
    async def ask(asked: Health) -> None:
        one = b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"
        _, headers, body = await say(asked, one * 3)
        assert len(body) == int(headers["content-length"])

    with_endpoint(ask)


def test_who_hangs_up_or_half_closes_without_a_question_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    async def ask(asked: Health) -> None:
        for _ in range(3):
            _, writer = await asyncio.open_connection(*asked.address)
            writer.transport.abort()
            reader, writer = await asyncio.open_connection(*asked.address)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
        assert (await get(asked, "/live"))[0] == 200

    with_endpoint(ask)
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_a_slow_client_is_given_up_and_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(asked: Health) -> None:
        for timeout_s in (600.0, 0.5):
            monkeypatch.setattr(health, "_TIMEOUT_S", timeout_s)
            began_s = asyncio.get_running_loop().time()
            reader, writer = await asyncio.open_connection(*asked.address)
            writer.write(b"GET /live HTTP/1.1\r\n")
            assert (await get(asked, "/live"))[0] == 200
            if timeout_s < 1:
                assert await asyncio.wait_for(reader.read(), 60) == b""
                assert asyncio.get_running_loop().time() - began_s > 0.49
            else:
                assert not reader.at_eof()
            writer.close()

    with_endpoint(ask)


def test_who_does_not_read_the_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_TIMEOUT_S", 0.5)
    more_than_sockets_take = b"x" * 8_000_000

    async def metrics(accept: str) -> tuple[str, bytes]:
        return "text/plain", more_than_sockets_take

    async def ask() -> int:
        asked = Health("127.0.0.1:0", lambda: MASTER, metrics)
        await asked.start()
        with socket.create_connection(asked.address, 60) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            while not asked._writers:
                await asyncio.sleep(0.01)
            while asked._writers:
                await asyncio.sleep(0.01)
            answer = await asyncio.to_thread(rest_of, client)
        await asked.stop()
        return answer

    assert asyncio.run(ask()) < len(more_than_sockets_take)


def rest_of(client: socket.socket) -> int:
    """How much comes until the connection is closed or reset."""
    count = 0
    with suppress(ConnectionResetError):
        while data := client.recv(1 << 20):
            count += len(data)
    return count


def test_only_so_many_are_listened_to_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_CONNECTIONS_MAX", 3)

    async def ask(asked: Health) -> None:
        idle = [await asyncio.open_connection(*asked.address) for _ in range(3)]
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection(*asked.address)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        idle[0][1].close()
        await asyncio.sleep(0.05)
        assert (await get(asked, "/live"))[0] == 200
        for _, left in idle:
            left.close()
            await left.wait_closed()

    with_endpoint(ask)


def test_an_address_that_is_taken_is_said() -> None:
    async def start() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            bind = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(
                JdbcStoreError, match=f"cannot listen for health checks on {bind}: address already in use"
            ):
                await Health(bind, lambda: MASTER).start()

    asyncio.run(start())


@pytest.mark.parametrize("turns", range(6))
def test_who_is_accepted_in_the_moment_of_the_stop_is_dropped(turns: int) -> None:
    async def start_and_stop() -> None:
        async with endpoint() as asked:
            client = socket.create_connection(asked.address, 60)
            for _ in range(turns):
                await asyncio.sleep(0)
        with client, suppress(ConnectionResetError):
            assert client.recv(1) == b""

    asyncio.run(start_and_stop())


def test_stopped_it_does_not_listen_and_drops_who_has_not_asked_yet(caplog: pytest.LogCaptureFixture) -> None:
    async def start_and_stop() -> None:
        async with endpoint() as asked:
            reader, writer = await asyncio.open_connection(*asked.address)
            await asyncio.sleep(0.05)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*asked.address)

    asyncio.run(start_and_stop())
    assert not caplog.records
