"""A TCP proxy that breaks on request: the outages that a server's own tools cannot make.

An event loop in a thread of its own carries the bytes. Every method may be called from any thread and returns when its effect is there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Self

from sqlalchemy import make_url

CHUNK_BYTES = 65_536


class Proxy:
    """Listens on a loopback port and forwards to a server.

    Args:
        port: the server's port on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self.target_port = port
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._listener: asyncio.Server | None = None
        self._pumps: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._open = asyncio.Event()
        self._open.set()
        self._delay_s = 0.0
        self._trap: Trap | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def url(self, server_url: str) -> str:
        """A server's SQLAlchemy URL, led through this proxy."""
        return make_url(server_url).set(host="127.0.0.1", port=self.port).render_as_string(hide_password=False)

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._pumps) // 2

    def cut(self) -> None:
        """Reset every connection and refuse new ones until `resume`."""
        self._call(self._cut())

    def drop_connections(self) -> None:
        """Reset every connection; new ones are welcome."""
        self._call(self._drop())

    def pause(self) -> None:
        """Let no byte through in either direction until `resume`; connections stay open and new ones are accepted."""
        self._call(self._set_open(False))

    def slow(self, delay_ms: float) -> None:
        """Hold every chunk of bytes back for this long, in each direction; 0 ends it."""
        self._call(self._set_delay(delay_ms / 1000))

    def resume(self) -> None:
        """End `cut`, `pause` and `slow`."""
        self._call(self._resume())

    def cut_at(self, pattern: bytes, *, deliver: bool) -> threading.Event:
        """Break the connection in which a client next sends these bytes, once.

        Args:
            pattern: bytes within one write of the client, such as b"COMMIT".
            deliver: True: the server gets the bytes, the client never gets the answer; False: the server does not get them.

        Returns:
            An event that is set when it has happened.
        """
        trap = Trap(pattern, deliver)
        self._call(self._set_trap(trap))
        return trap.sprung

    def _call(self, action: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(action, self._loop).result(timeout=30)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _accept(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            to_client.transport.abort()
            return
        both = (to_client, to_server)
        self._pump(from_client, to_server, both, self._spring)
        self._pump(from_server, to_client, both, None)

    def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        both: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
        inspect: Callable[[bytes], bool | None] | None,
    ) -> None:
        task = self._loop.create_task(self._forward(source, sink, both, inspect))
        self._pumps[sink] = task
        task.add_done_callback(lambda _: self._pumps.pop(sink, None))

    async def _forward(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        both: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
        inspect: Callable[[bytes], bool | None] | None,
    ) -> None:
        try:
            while chunk := await source.read(CHUNK_BYTES):
                await self._open.wait()
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                deliver = inspect(chunk) if inspect else None
                if deliver is not False:
                    sink.write(chunk)
                    await sink.drain()
                if deliver is not None:
                    await self._break(both, deliver)
                    return
            sink.write_eof()
        except OSError:
            for writer in both:
                writer.transport.abort()

    def _spring(self, chunk: bytes) -> bool | None:
        """Whether to deliver a chunk that the trap waits for; None for every other chunk."""
        trap = self._trap
        if trap is None or trap.pattern not in chunk:
            return None
        self._trap = None
        trap.sprung.set()
        return trap.deliver

    async def _break(self, both: tuple[asyncio.StreamWriter, asyncio.StreamWriter], deliver: bool) -> None:
        """Reset the client at once; let a server that is to act on what it got read it before its line ends too."""
        to_client, to_server = both
        to_client.transport.abort()
        if deliver:
            to_server.write_eof()
        else:
            to_server.transport.abort()

    async def _drop(self) -> None:
        tasks = dict(self._pumps)
        for writer, task in tasks.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _cut(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self._drop()

    async def _resume(self) -> None:
        self._open.set()
        self._delay_s = 0.0
        if self._listener is None:
            await self._listen()

    async def _set_open(self, is_open: bool) -> None:
        if is_open:
            self._open.set()
        else:
            self._open.clear()

    async def _set_delay(self, delay_s: float) -> None:
        self._delay_s = delay_s

    async def _set_trap(self, trap: Trap) -> None:
        self._trap = trap


class Trap:
    """Bytes to wait for, and whether the server shall get them."""

    def __init__(self, pattern: bytes, deliver: bool) -> None:
        self.pattern = pattern
        self.deliver = deliver
        self.sprung = threading.Event()
