"""The sockets. Knows no STOMP: bytes go to the session, bytes come from it, and time passes.

One small object per connection, no task and no thread: thousands of idle clients cost memory only.

The write buffer's limit is zero: asyncio then tells, exactly, when the socket is full (``pause_writing``) and when
everything has left (``resume_writing``). Between the two the session is choked and gets no messages. What is written
in one turn of the loop is one write, because the session collects it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final, cast

from jdbcstore.broker.options import open_files_max, parse_bind
from jdbcstore.broker.session import Session
from jdbcstore.errors import JdbcStoreError
from jdbcstore.stomp.heartbeat import HeartBeat
from jdbcstore.store.lease import boot_time_ns

if TYPE_CHECKING:
    from jdbcstore.broker.broker import Broker

__all__ = ["Connection", "ListenError", "Server"]

log = logging.getLogger(__name__)

#: How long a client may take to read the last words of a connection that is being closed.
_LINGER_S: Final = 5.0
#: Open files that are not clients: the store, log files, the loop itself.
_OTHER_FILES: Final = 200


class ListenError(JdbcStoreError):
    """The broker cannot listen where it should."""


class Connection(asyncio.Protocol):
    """One client's socket.

    Args:
        broker: whose client it is.
        server: keeps the list of connections.
    """

    def __init__(self, broker: Broker, server: Server) -> None:
        self._broker = broker
        self._server = server
        self._transport: asyncio.Transport
        self._session: Session
        self._heart_beat: HeartBeat | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._is_over_output = False
        self.peer = "?"

    # -- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        self._session = Session(self._broker, self)
        if not self._server.admit(self):
            self._session.disconnect(
                "The broker has as many clients as it may have; try again later", reason="too many clients"
            )
            return
        self._broker.sessions.add(self._session)
        self._timer = self._broker.loop.call_later(self._broker.options.connect_timeout_s, self._connect_timed_out)

    def data_received(self, data: bytes) -> None:
        """Bytes came. Who is not sure to be master any more, a process that was stopped say, does not look at them."""
        if boot_time_ns() >= self._broker.trusted_until_ns:
            self._broker.distrust()
            return
        if self._heart_beat is not None:
            self._heart_beat.data_received(self._broker.loop.time())
        self._session.receive(data)

    def pause_writing(self) -> None:
        """The socket is full."""
        self._session.choke()

    def resume_writing(self) -> None:
        """Everything has left."""
        if self._is_over_output:
            self._is_over_output = False
            self._session.let_go()
        self._session.unchoke()

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._session.close()
        finally:
            self._server.forget(self)
        log.debug("connection closed peer=%s error=%r", self.peer, error)

    # -- the session's side ----------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes, later if the socket is full. A client that reads none of them is not read either."""
        self._transport.write(data)
        if self._heart_beat is not None:
            self._heart_beat.data_sent(self._broker.loop.time())
        if self._session.is_choked and not self._is_over_output:
            waiting = self._transport.get_write_buffer_size()
            if waiting > self._broker.options.output_bytes_max:
                self._is_over_output = True
                self._session.hold()

    def pause(self) -> None:
        """Do not read for now."""
        if not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again. The time that the broker did not listen is not held against the client."""
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()
            if self._heart_beat is not None:
                self._heart_beat.data_received(self._broker.loop.time())

    def beat(self, send_ms: int, expect_ms: int) -> None:
        """The client has said CONNECT: send and expect heart-beats, every so many milliseconds; 0 is never."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if send_ms > 0 or expect_ms > 0:
            grace = self._broker.options.heart_beat_grace
            self._heart_beat = HeartBeat(send_ms, expect_ms, self._broker.loop.time(), grace)
            self._watch()

    def close(self) -> None:
        """Close when everything is sent, or when the client takes too long to read it."""
        if not self._transport.is_closing():
            self._transport.close()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._broker.loop.call_later(_LINGER_S, self._transport.abort)

    def abort(self) -> None:
        """Close now."""
        self._transport.abort()

    # -- time ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Send a heart-beat if it is time, give up on a silent client, and come back when it may be time again."""
        heart_beat, loop = self._heart_beat, self._broker.loop
        if heart_beat is None or self._transport.is_closing():
            return
        now_s = loop.time()
        if self._is_paused:
            heart_beat.data_received(now_s)  # it may be talking, we are not listening
        if heart_beat.is_peer_dead(now_s):
            log.info("client is silent, closing peer=%s", self.peer)
            self._transport.abort()
            return
        if heart_beat.is_beat_due(now_s):
            heart_beat.data_sent(now_s)
            self._session.beat()
        deadline_s = heart_beat.next_deadline()
        if deadline_s is not None:
            self._timer = loop.call_at(deadline_s, self._watch)

    def _connect_timed_out(self) -> None:
        self._timer = None
        log.info("no CONNECT, closing peer=%s", self.peer)
        self._transport.abort()


class Server:
    """Listens, and knows who is connected.

    Args:
        broker: whose clients they are.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._connections_max = broker.options.connections_max
        self.address = ("", 0)

    async def start(self) -> None:
        """Listen.

        Raises:
            ListenError: the address is taken or not ours.
        """
        options = self._broker.options
        files_max = open_files_max(options.connections_max + _OTHER_FILES)
        if files_max < options.connections_max + _OTHER_FILES:
            self._connections_max = max(files_max - _OTHER_FILES, 1)
            log.warning("this process may open %d files only: connections_max=%d", files_max, self._connections_max)
        host, port = parse_bind(options.bind)
        try:
            self._listener = await self._broker.loop.create_server(
                lambda: Connection(self._broker, self), host or None, port, backlog=options.backlog_max
            )
        except OSError as error:
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise ListenError(f"cannot listen on {options.bind}: {reason}") from error
        bound = self._listener.sockets[0].getsockname()
        self.address = (bound[0], bound[1])

    def admit(self, connection: Connection) -> bool:
        """Count a client in; False if there are too many."""
        is_room = len(self._connections) < self._connections_max
        self._connections.add(connection)
        return is_room

    def forget(self, connection: Connection) -> None:
        """Count a client out."""
        self._connections.discard(connection)

    def stop_listening(self) -> None:
        """Accept nobody any more."""
        if self._listener is not None:
            self._listener.close()

    async def close_connections(self, timeout_s: float) -> None:
        """Close all connections; returns when they are, or when the time is over and `abort_connections` has to."""
        for connection in self._connections:
            connection.close()
        deadline_s = self._broker.loop.time() + timeout_s
        while self._connections and self._broker.loop.time() < deadline_s:
            await asyncio.sleep(0.005)

    async def abort_connections(self) -> None:
        """Cut off those who have not taken what was written to them."""
        for connection in list(self._connections):
            connection.abort()
        while self._connections:
            await asyncio.sleep(0)
