"""The sockets. Knows no protocol: bytes go to the session, bytes come from it, and time passes.

What lies between a socket and its connection is chosen by the listener's scheme: nothing, TLS
(`jdbcstore.transport.tls_transport`), a WebSocket (`jdbcstore.transport.websocket`) or both, or a look at the first
bytes (`jdbcstore.transport.detection`).

One small object per connection, no task and no thread: thousands of idle clients cost memory only.

The write buffer's limit is zero: asyncio then tells, exactly, when the socket is full (``pause_writing``) and when
everything has left (``resume_writing``). Between the two the session is choked and gets no messages. What is written
in one turn of the loop is one write, because the session collects it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from jdbcstore.addresses import Listener, Protocol, parse_listeners, why_it_cannot_listen
from jdbcstore.broker.acceptor import Acceptor
from jdbcstore.broker.options import open_files_max
from jdbcstore.broker.server import ListenError
from jdbcstore.descriptors import keep_from_children
from jdbcstore.stomp.heartbeat import HeartBeat
from jdbcstore.store.lease import boot_time_ns
from jdbcstore.transport.arrivals import Arrivals
from jdbcstore.transport.detection import Detection, Undecided
from jdbcstore.transport.peer_certificate import PeerCertificate
from jdbcstore.transport.peer_watch import PeerWatch, Stall, probe
from jdbcstore.transport.seats import Seats
from jdbcstore.transport.tcp import LINGER_S, Socket, set_keep_alive
from jdbcstore.transport.tls import ServerTls
from jdbcstore.transport.tls_transport import Handshakes, TlsTransport, peer_name
from jdbcstore.transport.wire import TransportSession, Wire

if TYPE_CHECKING:
    from jdbcstore.broker.broker import Broker

__all__ = ["Connection", "NewSession", "SocketServer"]

log = logging.getLogger(__name__)

#: Makes what a new client of a broker talks to, over its socket.
NewSession: TypeAlias = Callable[["Broker", Wire], TransportSession]

#: Open files that are not clients: the store, log files, the loop itself.
_OTHER_FILES: Final = 200
#: What every connection that speaks TLS begins with.
_TLS_HANDSHAKE: Final = b"\x16\x03"
#: What TCP says of a client's machine that does not answer.
_GONE: Final = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)


class Connection(asyncio.Protocol):
    """One client's socket.

    Args:
        broker: whose client it is.
        server: keeps the list of connections.
        new_session: what it talks to.
    """

    def __init__(self, broker: Broker, server: SocketServer, new_session: NewSession) -> None:
        self._broker = broker
        self._server = server
        self._new_session = new_session
        self._transport: asyncio.Transport
        self._session: TransportSession
        self._receive: Callable[[bytes], object] = self._receive_first
        self._heart_beat: HeartBeat | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._is_over_output = False
        self._is_lost = False
        self.arrivals = server.arrivals
        self.peer = "?"
        self.socket: Socket
        #: What `PeerWatch` remembers.
        self.stall = Stall()

    # -- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self.peer = peer_name(transport)
        self.socket = transport.get_extra_info("socket")
        self._session = self._new_session(self._broker, self)
        if self._server.is_over:
            self._transport.abort()  # accepted in the moment of the end
            return
        if not self._server.admit(self):
            self._session.client.disconnect(
                "The broker has as many clients as it may have, in all (connections_max) or from this address"
                " (connections_per_address_max); try again later",
                reason="too many clients",
            )
            return
        self._broker.clients.add(self._session.client)
        self._timer = self._broker.loop.call_later(self._broker.options.connect_timeout_s, self._connect_timed_out)

    def data_received(self, data: bytes) -> None:
        """Bytes came. Who is not sure to be master any more, a process that was stopped say, does not look at them."""
        if boot_time_ns() >= self._broker.trusted_until_ns:
            self._broker.distrust()
            return
        if self._heart_beat is not None:
            self._heart_beat.data_received(self._broker.loop.time())
        self._receive(data)

    def _receive_first(self, data: bytes) -> None:
        """A client that speaks TLS where nobody does would wait for an answer, and the broker for the end of a line."""
        if data.startswith(_TLS_HANDSHAKE):
            log.warning("the client speaks TLS, and this port does not, closing peer=%s", self.peer)
            self._transport.abort()
            return
        self._receive = self._session.receive
        self._session.receive(data)

    def eof_received(self) -> bool:
        """The client says nothing more, and perhaps still reads."""
        if not self._session.hear_no_more():
            self.close()
        return True  # it is closed here

    def pause_writing(self) -> None:
        """The socket is full."""
        self._session.client.consumers.is_choked = True

    def resume_writing(self) -> None:
        """Everything has left."""
        if self._is_over_output:
            self._is_over_output = False
            self._session.client.let_go()
        self._session.unchoke()

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._session.client.close()
        finally:
            self._server.forget(self)
            self._is_lost = True
            del self._session, self._receive  # they know each other, and would wait for the garbage collector
        level = logging.INFO if isinstance(error, OSError) and error.errno in _GONE else logging.DEBUG
        log.log(level, "connection closed peer=%s error=%r", self.peer, error)

    # -- the session's side ----------------------------------------------------------------------------------------

    @property
    def is_encrypted(self) -> bool:
        """Whether the client came by TLS."""
        return self._transport.get_extra_info("ssl_object") is not None

    @property
    def address(self) -> str:
        """The client's address without its port."""
        return self.peer.rpartition(":")[0]

    @property
    def peer_certificate(self) -> PeerCertificate | None:
        """By which the client has proved who it is; None without TLS, and if none was asked for or given."""
        decoded = self._transport.get_extra_info("peercert")
        return PeerCertificate.of(decoded) if decoded else None

    def write(self, data: bytes) -> None:
        """Send bytes, later if the socket is full. A client that reads none of them is not read either."""
        if self._is_lost:
            return
        self._transport.write(data)
        if self._heart_beat is not None:
            self._heart_beat.data_sent(self._broker.loop.time())
        if self._session.client.consumers.is_choked and not self._is_over_output:
            waiting = self._transport.get_write_buffer_size()
            if waiting > self._broker.options.output_bytes_max:
                self._is_over_output = True
                self._session.client.hold()

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

    def beat(self, send_ms: int, expect_ms: int, initial_delay_ms: int = 0) -> None:
        """The client has said CONNECT: send and expect heart-beats, as `Wire.beat` says."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if send_ms > 0 or expect_ms > 0:
            grace = self._broker.options.heart_beat_grace
            self._heart_beat = HeartBeat(send_ms, expect_ms, self._broker.loop.time(), grace, initial_delay_ms)
            self._watch()

    @property
    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""
        return self._transport.is_closing()

    @property
    def is_heard_regularly(self) -> bool:
        """Whether the client has promised heart-beats."""
        return self._heart_beat is not None and self._heart_beat.expects

    @property
    def owes(self) -> bool:
        """Whether the client has something that others wait for."""
        return self._session.client.owes

    def probe(self, told: Callable[[bool], object]) -> None:
        """Find out whether the client's machine answers."""
        probe(self._broker.loop, self, self._broker.options, told)

    def show_life(self) -> None:
        """Write something that says nothing to the client, unless it reads nothing."""
        self._session.beat()

    def end(self, reason: str) -> None:
        """Close a connection that is of no use any more."""
        log.info("closing a connection peer=%s reason=%r", self.peer, reason)
        self._transport.abort()

    def close(self) -> None:
        """Close when everything is sent, or when the client takes too long to read it."""
        if not self._transport.is_closing():
            self._transport.close()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._broker.loop.call_later(LINGER_S, self._transport.abort)

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


class SocketServer:
    """Listens, and knows who is connected.

    Args:
        broker: whose clients they are.
        sessions: by protocol, what a new client talks to.
        tls: for those who connect with TLS; None if nobody can.
    """

    def __init__(self, broker: Broker, sessions: Mapping[Protocol, NewSession], tls: ServerTls | None = None) -> None:
        self._sessions = sessions
        self._broker = broker
        self._tls = tls
        self._handshakes = None if tls is None else Handshakes(broker.loop, tls)
        self._connections: set[Connection] = set()
        self._listening: list[Acceptor] = []
        self._files_timer: asyncio.TimerHandle | None = None
        self._watch: PeerWatch | None = None
        self._undecided = Undecided()
        self._seats = Seats(broker.options.connections_max, broker.options.connections_per_address_max)
        self.arrivals = Arrivals(broker.loop)
        #: Nobody is accepted any more.
        self.is_over = False
        #: Host and port of each listener, as `BrokerOptions.bind` names them.
        self.addresses: list[tuple[str, int]] = []
        keep_from_children(self)

    def own_descriptors(self) -> Iterator[int]:
        """Of the sockets, for `jdbcstore.descriptors`."""
        for listening in self._listening:
            yield from (listening_socket.fileno() for listening_socket in listening.sockets)
        yield from (connection.socket.fileno() for connection in self._connections)

    async def start(self) -> None:
        """Listen.

        Raises:
            ListenError: the address is taken or not ours.
        """
        options = self._broker.options
        files_max = open_files_max(options.connections_max + _OTHER_FILES)
        if files_max < options.connections_max + _OTHER_FILES:
            self._seats.clients_max = max(files_max - _OTHER_FILES, 1)
            log.warning(
                "this process may open %d files only (ulimit -n): connections_max=%d",
                files_max,
                self._seats.clients_max,
            )
        if self._tls is not None:
            await self._broker.loop.run_in_executor(None, self._tls.reload_if_changed)  # a standby may have waited long
            self._look_at_files_later(self._tls)
        for listener in parse_listeners(options.bind):
            listening = Acceptor(self._broker.loop, self._protocol(listener), options.backlog_max)
            try:
                await listening.start(listener.host, listener.port)
            except OSError as error:
                self.stop_listening()
                raise ListenError(f"cannot listen on {listener}: {why_it_cannot_listen(error)}") from error
            self._listening.append(listening)
            for listening_socket in listening.sockets:
                set_keep_alive(listening_socket, options)  # those of clients have it from there
            bound = listening.sockets[0].getsockname()
            self.addresses.append((bound[0], bound[1]))

        self._watch = PeerWatch(self._broker.loop, options, self._connections)

    def _look_at_files_later(self, tls: ServerTls) -> None:
        loop = self._broker.loop

        def look() -> None:
            loop.run_in_executor(None, tls.reload_if_changed)
            self._look_at_files_later(tls)

        self._files_timer = loop.call_later(tls.options.reload_check_period_s, look)

    def _protocol(self, listener: Listener) -> Callable[[], asyncio.Protocol]:
        """Makes what a new client of this listener meets."""
        new = self._plain_protocol(listener.protocol)
        if not listener.is_tls:
            return new
        handshakes = self._handshakes
        if handshakes is None:
            raise ListenError(f"cannot listen on {listener}: TLS needs a certificate, set tls.certificate")
        return lambda: TlsTransport(new(), handshakes, self._seats)

    def _plain_protocol(self, protocol: Protocol) -> Callable[[], asyncio.Protocol]:
        connections: dict[Protocol, Callable[[], asyncio.Protocol]] = {
            spoken: partial(Connection, self._broker, self, new) for spoken, new in self._sessions.items()
        }
        if protocol is Protocol.AUTO:
            timeout_s = self._broker.options.connect_timeout_s
            return lambda: Detection(self._broker.loop, connections, self._seats, self._undecided, timeout_s)
        if protocol is Protocol.WS:
            # Its library takes a while to import, which a broker without such a listener needs not wait for.
            from jdbcstore.transport.websocket import Origins, WebSocketTransport

            origins = Origins(self._broker.options.websocket_origins)
            return lambda: WebSocketTransport(connections[Protocol.STOMP](), origins)
        return connections[protocol]

    def admit(self, connection: Connection) -> bool:
        """Count a client in; False if there are too many."""
        self._connections.add(connection)
        return self._seats.take(connection.address)

    def forget(self, connection: Connection) -> None:
        """Count a client out."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._seats.leave(connection.address)

    def stop_listening(self) -> None:
        """Accept nobody any more."""
        self.is_over = True
        for listening in self._listening:
            listening.close()
        if self._files_timer is not None:
            self._files_timer.cancel()
        if self._handshakes is not None:
            self._handshakes.abort()
        self._undecided.abort()

    async def close_connections(self, timeout_s: float) -> None:
        """Close all connections; returns when they are, or at the timeout, when `abort_connections` has to."""
        for connection in self._connections:
            connection.close()
        deadline_s = self._broker.loop.time() + timeout_s
        while self._connections and self._broker.loop.time() < deadline_s:
            await asyncio.sleep(0.005)

    async def abort_connections(self) -> None:
        """Cut off those who have not taken what was written to them."""
        if self._watch is not None:
            self._watch.stop()
        for listening in self._listening:
            await listening.all_arrived()
        for connection in list(self._connections):
            connection.abort()
        while self._connections:
            await asyncio.sleep(0)
