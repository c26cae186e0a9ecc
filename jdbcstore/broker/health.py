"""A small HTTP endpoint for whoever watches the process: is it alive, and is it ready for clients?

``GET /live`` is answered with 200 as long as the event loop turns, in whatever state: a standby is healthy.
``GET /ready`` with 200 only while the broker is master, else with 503, so that a load balancer sends clients to the
master alone. Both tell the state as JSON. ``GET /metrics`` is for Prometheus, where the extra ``web`` is installed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import h11

from jdbcstore.addresses import parse_address, why_it_cannot_listen
from jdbcstore.broker.acceptor import Acceptor
from jdbcstore.broker.lifecycle import State, Status
from jdbcstore.errors import JdbcStoreError

__all__ = ["Health"]

log = logging.getLogger(__name__)

#: How long a client may take for its question, and to read the answer.
_TIMEOUT_S: Final = 5.0
_REQUEST_BYTES_MAX: Final = 8192
_CONNECTIONS_MAX: Final = 100


class Health:
    """Listens and answers.

    Args:
        bind: ``HOST:PORT``.
        status: asked for each answer.
        metrics: answers ``GET /metrics``, with content type and body for what the request accepts; None for nobody.
    """

    def __init__(
        self,
        bind: str,
        status: Callable[[], Status],
        metrics: Callable[[str], Awaitable[tuple[str, bytes]]] | None = None,
    ) -> None:
        self._bind = bind
        self._metrics = metrics
        self._status = status
        self._acceptor: Acceptor | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.address = ("", 0)

    async def start(self) -> None:
        """Listen.

        Raises:
            JdbcStoreError: the address is taken or not ours.
        """
        host, port = parse_address(self._bind)
        acceptor = Acceptor(asyncio.get_running_loop(), self._protocol, _CONNECTIONS_MAX)
        try:
            await acceptor.start(host, port)
        except OSError as error:
            raise JdbcStoreError(
                f"cannot listen for health checks on {self._bind}: {why_it_cannot_listen(error)}"
            ) from error
        self._acceptor = acceptor
        bound = acceptor.sockets[0].getsockname()
        self.address = (bound[0], bound[1])

    async def stop(self) -> None:
        """Listen no more, and be done with those who have not asked yet."""
        if self._acceptor is not None:
            self._acceptor.close()
            await self._acceptor.all_arrived()
            await asyncio.sleep(0)  # those who serve the last of them begin
        for writer in self._writers:
            writer.transport.abort()
        while self._writers:
            await asyncio.sleep(0)

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._serve)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        writer.transport.set_write_buffer_limits(high=0)  # an answer is sent when all of it has left
        try:
            if len(self._writers) <= _CONNECTIONS_MAX:
                async with asyncio.timeout(_TIMEOUT_S):
                    await self._answer(reader, writer)
        except (OSError, TimeoutError) as error:
            log.debug("health check failed error=%r", error)
            writer.transport.abort()
        finally:
            writer.close()
            self._writers.discard(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, one answer, and good-bye."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_REQUEST_BYTES_MAX)
        request: object = h11.NEED_DATA
        try:
            while request is h11.NEED_DATA:
                connection.receive_data(await reader.read(_REQUEST_BYTES_MAX))
                request = connection.next_event()
        except h11.RemoteProtocolError as error:
            code = error.error_status_hint
            told: dict[str, object] = {"error": str(error)}
        else:
            if not isinstance(request, h11.Request):
                return  # gone without a question
            if self._metrics is not None and request.target == b"/metrics" and request.method == b"GET":
                accept = next((value for name, value in request.headers if name == b"accept"), b"")
                content_type, body = await self._metrics(accept.decode("latin-1"))
                await self._send(connection, writer, 200, content_type, body, body)
                return
            code, told = self._told(request)
        is_head = isinstance(request, h11.Request) and request.method == b"HEAD"
        body = json.dumps(told).encode() + b"\n"
        await self._send(connection, writer, code, "application/json", body, b"" if is_head else body)

    async def _send(
        self,
        connection: h11.Connection,
        writer: asyncio.StreamWriter,
        code: int,
        content_type: str,
        body: bytes,
        sent: bytes,
    ) -> None:
        """An answer with a body, of which perhaps nothing is sent."""
        headers = [("content-type", content_type), ("content-length", str(len(body))), ("connection", "close")]
        parts = [
            connection.send(h11.Response(status_code=code, headers=headers)),
            connection.send(h11.Data(data=sent)),
            connection.send(h11.EndOfMessage()),
        ]
        writer.write(b"".join(part for part in parts if part))
        await writer.drain()

    def _told(self, request: h11.Request) -> tuple[int, dict[str, object]]:
        path = request.target.partition(b"?")[0]
        if path not in (b"/live", b"/ready"):
            return 404, {"error": "only /live and /ready are here; console, API and metrics are at web_bind"}
        if request.method not in (b"GET", b"HEAD"):
            return 405, {"error": "use GET"}
        status = self._status()
        code = 200 if path == b"/live" or status.state is State.MASTER else 503
        return code, {
            "state": status.state,
            "since": status.since.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "reason": status.reason,
            "term": status.term,
            "holder": status.holder,
        }
