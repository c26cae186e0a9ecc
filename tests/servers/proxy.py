"""A TCP proxy that breaks on request: the outages that a server's own tools cannot make.

An event loop in a thread of its own carries the bytes. Every method may be called from any thread and returns when its
effect is there.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from sqlalchemy import make_url

from jdbcstore.broker.acceptor import Acceptor
from tests.servers.server import free_port

CHUNK_BYTES = 65_536
#: What a server is sent to add messages, fewer than PostgreSQL has by COPY.
ADDS: Final = re.compile(rb"INSERT INTO ACTIVEMQ_MSGS|EXECUTE jdbcstore_add\b")
#: What a server is given at least to act on what it got while its answer is lost, and at most if it answers nothing.
ACTS_WITHIN_S = 0.2
ANSWERS_WITHIN_S = 1.0


class Proxy:
    """Listens on a loopback port and forwards to a server. Use it as a context manager.

    Args:
        target_port: the server's port.
        target: its address.
    """

    def __init__(self, target_port: int, target: str = "127.0.0.1") -> None:
        self.target = target
        self.target_port = target_port
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._listener: Acceptor | None = None
        self._lines: set[asyncio.Task[None]] = set()
        #: Servers whose answers are lost, and whether there was one.
        self._unheard: dict[asyncio.StreamWriter, asyncio.Event] = {}
        #: For what clients send, and for what the server answers.
        self._requests, self._answers = asyncio.Event(), asyncio.Event()
        self._requests.set()
        self._answers.set()
        self._released = asyncio.Event()
        self._delay_s = 0.0
        self._trap: Trap | None = None
        self._fuse: Fuse | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._resume())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def url(self, server_url: str) -> str:
        """A server's SQLAlchemy URL, led through this proxy."""
        return make_url(server_url).set(host="127.0.0.1", port=self.port).render_as_string(hide_password=False)

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._lines)

    def cut(self) -> None:
        """Reset every connection and refuse new ones until `resume`."""
        self._run(self._cut())

    def refuse(self) -> None:
        """Refuse new connections until `resume`; those that are there stay."""
        self._run(self._refuse())

    def drop_connections(self) -> None:
        """Reset every connection; new ones are welcome."""
        self._run(self._drop())

    def pause(self) -> None:
        """Let no byte through, either way, until `resume`; connections stay open and new ones are accepted."""
        self._run(self._pause())

    def pause_one_way(self, *, answers: bool) -> None:
        """Let no byte through of what clients send, or of what the server answers, until `resume`."""
        self._run(self._pause_one_way(answers))

    def slow(self, delay_ms: float) -> None:
        """Hold every chunk of bytes back for this long, either way; 0 ends it."""
        self._run(self._slow(delay_ms / 1000))

    def resume(self) -> None:
        """End `cut`, `refuse`, `pause`, `hold_at` and `slow`."""
        self._run(self._resume())

    def cut_at(self, pattern: bytes | re.Pattern[bytes], *, deliver: bool, everywhere: bool = False) -> threading.Event:
        """Reset the connection in which a client next sends these bytes, once.

        Args:
            pattern: what is within one write of the client, such as b"COMMIT".
            deliver: True: the server gets the bytes and acts, but its answer is lost; False: the bytes are lost.
            everywhere: `cut` all other connections before, so that the client cannot come back until `resume`.

        Returns:
            An event that is set when it has happened.
        """
        return self._lay(Trap(_expression(pattern), deliver, everywhere))

    def hold_at(self, pattern: bytes | re.Pattern[bytes]) -> threading.Event:
        """When a client next sends these bytes, let them and what follows on that connection through after `resume`.

        Args:
            pattern: what is within one write of the client.

        Returns:
            An event that is set when it has happened.
        """
        return self._lay(Trap(_expression(pattern)))

    def _lay(self, trap: Trap) -> threading.Event:
        self._run(self._set(trap))
        return trap.sprung

    def cut_after(self, bytes_left: int, *, answers: bool) -> threading.Event:
        """Reset the connection that carries the byte after so many, counted over all connections, once.

        Args:
            bytes_left: what is still delivered, at least 0.
            answers: count what the server sends; else what clients send.

        Returns:
            An event that is set when it has happened.
        """
        fuse = Fuse(bytes_left, answers)
        self._run(self._set_fuse(fuse))
        return fuse.burnt

    def _run(self, action: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(action, self._loop).result(timeout=60)

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._accept)

    def _accept(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        line = self._loop.create_task(self._carry(from_client, to_client))
        self._lines.add(line)
        line.add_done_callback(self._lines.discard)
        line.add_done_callback(lambda _: to_client.transport.abort())  # also if it is cancelled before it has begun

    async def _carry(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """One client's connection, until either side or an outage ends it."""
        writers = [to_client]
        try:
            from_server, to_server = await asyncio.open_connection(self.target, self.target_port)
            writers.append(to_server)
            await asyncio.gather(
                self._forward_requests(from_client, to_server, to_client, asyncio.current_task()),
                self._forward_answers(from_server, to_client, to_server),
            )
        except OSError:
            pass  # either side hung up on the other, who is told so below
        finally:
            for writer in writers:
                self._unheard.pop(writer, None)
                writer.transport.abort()

    async def _forward_requests(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
        line: asyncio.Task[None] | None,
    ) -> None:
        while chunk := await self._read(source, self._requests):
            trap = self._trap
            if trap is not None and trap.pattern.search(chunk):
                self._trap = None
                if trap.deliver is None:
                    self._released.clear()
                    trap.sprung.set()
                    await self._released.wait()
                    sink.write(chunk)
                    continue
                if trap.deliver:
                    answered = self._unheard[sink] = asyncio.Event()
                    sink.write(chunk)
                    # A client that was cut at once might have the server end its session before it has acted.
                    await asyncio.sleep(ACTS_WITHIN_S)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(ANSWERS_WITHIN_S):
                            await answered.wait()
                if trap.everywhere:
                    await self._refuse()
                    await self._drop(spared=line)
                if trap.deliver:
                    client.transport.abort()
                else:
                    client.transport.abort()
                    sink.transport.abort()
                trap.sprung.set()
                break
            if self._burn(chunk, sink, client, answers=False):
                break
            sink.write(chunk)
            await sink.drain()
        sink.write_eof()

    async def _forward_answers(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        while chunk := await self._read(source, self._answers):
            if self._burn(chunk, sink, sink, answers=True):
                break
            # After a delivered trap the answer is read nonetheless, so that the server can finish.
            if (answered := self._unheard.get(server)) is not None:
                answered.set()
            elif not sink.transport.is_closing():
                sink.write(chunk)
                await sink.drain()
        sink.write_eof()

    def _burn(self, chunk: bytes, sink: asyncio.StreamWriter, client: asyncio.StreamWriter, *, answers: bool) -> bool:
        """Let a chunk burn down the fuse, if there is one for its direction; whether this was the end of the line."""
        fuse = self._fuse
        if fuse is None or fuse.answers is not answers:
            return False
        if len(chunk) <= fuse.bytes_left:
            fuse.bytes_left -= len(chunk)
            return False
        self._fuse = None
        sink.write(chunk[: fuse.bytes_left])
        client.transport.abort()
        fuse.burnt.set()
        return True

    async def _read(self, source: asyncio.StreamReader, is_open: asyncio.Event) -> bytes:
        chunk = await source.read(CHUNK_BYTES)
        await is_open.wait()
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        return chunk

    async def _drop(self, spared: asyncio.Task[None] | None = None) -> None:
        lines = [line for line in self._lines if line is not spared]
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)

    async def _cut(self) -> None:
        await self._refuse()
        await self._drop()

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            await self._listener.all_arrived()
            self._listener = None

    async def _pause(self) -> None:
        self._requests.clear()
        self._answers.clear()

    async def _pause_one_way(self, answers: bool) -> None:
        (self._answers if answers else self._requests).clear()

    async def _slow(self, delay_s: float) -> None:
        self._delay_s = delay_s

    async def _resume(self) -> None:
        self._requests.set()
        self._answers.set()
        self._released.set()
        self._delay_s = 0.0
        if self._listener is None:
            self._listener = Acceptor(self._loop, self._protocol, 100)
            await self._listener.start("127.0.0.1", self.port)

    async def _set(self, trap: Trap) -> None:
        self._trap = trap

    async def _set_fuse(self, fuse: Fuse) -> None:
        self._fuse = fuse


def _expression(pattern: bytes | re.Pattern[bytes]) -> re.Pattern[bytes]:
    return re.compile(re.escape(pattern)) if isinstance(pattern, bytes) else pattern


@dataclass
class Trap:
    """What to wait for, and whether the server shall get it before the line is cut; None: it is not cut.

    Args:
        everywhere: all others are cut before.
    """

    pattern: re.Pattern[bytes]
    deliver: bool | None = None
    everywhere: bool = False
    sprung: threading.Event = field(default_factory=threading.Event)


@dataclass
class Fuse:
    """How many bytes are still delivered, and of which direction."""

    bytes_left: int
    answers: bool
    burnt: threading.Event = field(default_factory=threading.Event)
