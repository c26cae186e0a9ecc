"""A blocking STOMP 1.2 connection for programs with threads, over the core of `jdbcstore.stomp`; no thread of its own.

Whoever waits for something reads the socket for all: the first who has to wait becomes the *reader*, and tells the
others when their receipt has come; when the reader has what it wants, one of those who still wait takes over. Messages
are put aside, in `StompLink.messages`, for whoever asks for them.

Heart-beats need somebody who calls `StompLink.tick`, so beats are offered only if that is promised (``send_ms``). Beats
*from* the broker cost nothing: they are looked at when something is waited for.

**Cost.** A request is three calls of the system: send, wait, receive. The socket never blocks, for one with a timeout
is asked by Python whether it is ready before each of the three; and threads that compete for an interpreter lose it at
each call. Nobody is notified while nobody waits for the reader.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from jdbcstore.errors import ConfigurationError, JdbcStoreError, LoginRefused, ProtocolError
from jdbcstore.stomp.frames import Frame, FrameParser, Limits, serialise
from jdbcstore.stomp.heartbeat import HeartBeat

__all__ = ["DEFAULT_PORT", "Address", "LinkLost", "LinkOptions", "RequestRefused", "StompLink", "parse_addresses"]

DEFAULT_PORT: Final = 61613

_FROM_SERVER: Final = {name.encode(): name for name in ("CONNECTED", "MESSAGE", "RECEIPT", "ERROR")}
_CHUNK_BYTES: Final = 1 << 18
#: What a socket that does not block, with TLS or without, says when it would have to.
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

Address = tuple[str, int]


class LinkLost(JdbcStoreError, ConnectionError):
    """The connection is gone, or there is none. What had no receipt may have taken effect."""


class RequestRefused(JdbcStoreError):
    """The broker said ERROR to a request: it has not taken effect. The connection goes on."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """How to connect.

    Args:
        login, passcode: None to send none.
        send_ms: how often we promise to say something; 0 never. Somebody has to call `StompLink.tick`.
        expect_ms: how often the broker has to say something; 0 never.
        connect_timeout_s: for the TCP connection, TLS and CONNECTED together, for each address.
        request_timeout_s: how long an answer may take before the connection is taken for lost.
        tls: connect with TLS, and with this context.
    """

    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    send_ms: int = 0
    expect_ms: int = 10_000
    connect_timeout_s: float = 5.0
    request_timeout_s: float = 60.0
    tls: ssl.SSLContext | None = None


def parse_addresses(text: str, default_port: int = DEFAULT_PORT) -> list[Address]:
    """The brokers of ``host1:61613,host2,[::1]:61614``.

    Raises:
        ConfigurationError: there is none, or one has a port that is none.
    """
    addresses = [_address(part.strip(), default_port) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigurationError(f"{text!r} names no broker: give HOST, HOST:PORT, or several with commas between")
    return addresses


def _address(text: str, default_port: int) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), default_port
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigurationError(f"{text!r} is not the address of a broker: give HOST:PORT, e.g. 127.0.0.1:61613")
    return host.strip("[]"), int(port)


class StompLink:
    """One connection. All methods may be called by any thread.

    Attributes:
        messages: MESSAGE frames that nobody has taken yet, in their order; take them with ``popleft``.
        address: whom we are connected to.

    Raises:
        LinkLost: nobody answers there.
        LoginRefused: the broker does not let us in.
    """

    def __init__(self, address: Address, options: LinkOptions) -> None:
        self.address = address
        self.messages: deque[Frame] = deque()
        self._options = options
        self._parser = FrameParser(Limits(), _FROM_SERVER)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_reading = False
        #: Threads that wait for the reader.
        self._waiting = 0
        self._io = threading.Lock()  # OpenSSL wants one thread at a time
        self._send_timeout_s = options.connect_timeout_s
        self._receipts = 0
        #: Receipts that are waited for, and what has come: None is good.
        self._answers: dict[str, RequestRefused | None] = {}
        self._awaited: set[str] = set()
        self._failure: JdbcStoreError | None = None
        self._connected: Frame | None = None
        self._pid = os.getpid()
        self._socket = self._open_socket()
        self._beats = HeartBeat(0, 0, time.monotonic())
        try:
            self._enter()
        except BaseException:
            self.abort()
            raise

    def _open_socket(self) -> socket.socket:
        options = self._options
        try:
            plain = socket.create_connection(self.address, options.connect_timeout_s)
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                if options.tls is not None:
                    plain = options.tls.wrap_socket(plain, server_hostname=self.address[0])
                plain.setblocking(False)
                return plain
            except BaseException:
                plain.close()
                raise
        except OSError as error:
            raise LinkLost(f"no broker answers at {self._place}: {error}") from error

    @property
    def _place(self) -> str:
        return "{}:{}".format(*self.address)

    def _enter(self) -> None:
        options = self._options
        headers = {"accept-version": "1.2", "host": self.address[0]}
        headers["heart-beat"] = f"{options.send_ms},{options.expect_ms}"
        if options.login is not None:
            headers["login"] = options.login
        if options.passcode is not None:
            headers["passcode"] = options.passcode
        self._write(serialise("CONNECT", headers, version="1.0"))  # CONNECT is never escaped
        if not self.wait(lambda: self._connected is not None, options.connect_timeout_s):
            raise LinkLost(f"{self._place} does not answer CONNECT within {options.connect_timeout_s:g} s")
        assert self._connected is not None
        self._send_timeout_s = options.request_timeout_s
        sends_ms, wants_ms = (int(text) for text in self._connected.headers.get("heart-beat", "0,0").split(","))
        send_ms = max(options.send_ms, wants_ms) if options.send_ms and wants_ms else 0
        expect_ms = max(options.expect_ms, sends_ms) if options.expect_ms and sends_ms else 0
        self._beats = HeartBeat(send_ms, expect_ms, time.monotonic())

    # -- asking --------------------------------------------------------------------------------------------------

    def send(self, *frames: tuple[str, Mapping[str, str], bytes]) -> None:
        """Write frames, at once and without waiting for answers.

        Raises:
            LinkLost: the connection is gone.
        """
        self._write(b"".join([serialise(command, headers, body) for command, headers, body in frames]))

    def request(self, *frames: tuple[str, Mapping[str, str], bytes]) -> None:
        """Write frames, and wait for the receipt of the last one.

        Raises:
            RequestRefused: the broker said ERROR to it.
            LinkLost: the connection is gone; nobody knows whether it took effect.
        """
        self._request(frames, self._options.request_timeout_s)

    def _request(self, frames: tuple[tuple[str, Mapping[str, str], bytes], ...], timeout_s: float) -> None:
        *before, (command, headers, body) = frames
        with self._lock:
            self._receipts += 1
            receipt = str(self._receipts)
            self._awaited.add(receipt)
        try:
            self.send(*before, (command, {**headers, "receipt": receipt}, body))
            if not self.wait(lambda: receipt in self._answers, timeout_s):
                self._fail(LinkLost(f"{self._place} did not answer {command} in {timeout_s:g} s"))
                self._check()
        finally:
            with self._lock:
                self._awaited.discard(receipt)
                answer = self._answers.pop(receipt, None)
        if answer is not None:
            raise answer

    # -- reading -------------------------------------------------------------------------------------------------

    def wait(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """Read until something is the case.

        Args:
            done: asked after each piece that was read.
            timeout_s: how long, in seconds; 0 takes what is here already; None for ever.

        Returns:
            False if it is not the case when the time is over.

        Raises:
            LinkLost: the connection is gone, or the broker was silent for too long.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        is_last = False
        with self._lock:
            while not done():
                self._check()
                remaining_s = None if deadline_s is None else max(deadline_s - time.monotonic(), 0.0)
                if is_last:
                    return False
                if self._is_reading:
                    is_last = not self._wait_for_reader(remaining_s) and remaining_s is not None
                    continue
                is_last = not self._read(remaining_s) and remaining_s == 0
            return True

    def _wait_for_reader(self, timeout_s: float | None) -> bool:
        """Wait until the reader has read something, or is none any more; False if it was and did not in time."""
        self._waiting += 1
        try:
            return self._changed.wait(timeout_s)
        finally:
            self._waiting -= 1

    def _read(self, timeout_s: float | None) -> bool:
        """Be the reader once; whether something came. The lock is let go meanwhile."""
        self._is_reading = True
        self._lock.release()
        data: bytes | None = None
        failure: BaseException | None = None
        try:
            data = self._receive(timeout_s)
        except OSError as error:
            failure = error
        finally:
            self._lock.acquire()
            self._is_reading = False
            if self._waiting:
                self._changed.notify_all()
        if failure is not None or data == b"":
            reason = failure or "the broker has closed it; its log says why"
            self._fail_locked(LinkLost(f"the connection to {self._place} is lost: {reason}"), failure)
        elif data:
            self._take(data)
        return bool(data)

    def _receive(self, timeout_s: float | None) -> bytes | None:
        """What the socket has; None if it has nothing in time. Nothing at all is the end."""
        beat_s = self._beats.next_deadline()
        if beat_s is not None:
            until_beat_s = max(beat_s - time.monotonic(), 0.0)
            timeout_s = until_beat_s if timeout_s is None else min(timeout_s, until_beat_s)
        if not self._has_pending() and not _is_ready(self._socket, timeout_s):
            self.tick()
            return None
        try:
            with self._io:
                data = self._socket.recv(_CHUNK_BYTES)
        except _NOT_NOW:  # of TLS not all that belongs together is here
            return None
        self._beats.data_received(time.monotonic())
        return data

    def _has_pending(self) -> bool:
        """Whether something was read from the socket that nobody was given yet; TLS does that."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _take(self, data: bytes) -> None:
        self._parser.feed(data)
        try:
            while (frame := self._parser.next_frame()) is not None:
                self._heard(frame)
        except ProtocolError as error:
            self._fail_locked(LinkLost(f"what {self._place} says is not STOMP: {error}"), error)

    def _heard(self, frame: Frame) -> None:
        if frame.command == "MESSAGE":
            self.messages.append(frame)
        elif frame.command == "CONNECTED":
            self._connected = frame
            self._parser.speak("1.2")
        else:
            receipt = frame.headers.get("receipt-id")
            if frame.command == "ERROR":
                self._heard_error(frame, receipt)
            elif receipt in self._awaited:
                self._answers[receipt] = None

    def _heard_error(self, frame: Frame, receipt: str | None) -> None:
        text = frame.headers.get("message", "ERROR")
        if receipt in self._awaited:
            assert receipt is not None
            self._answers[receipt] = RequestRefused(text)
        elif self._connected is None:
            self._failure = LoginRefused(f"{self._place} does not let us in: {text}")
        else:  # of something that we did not wait for, an ACK perhaps: what we believe is not so
            self._fail_locked(LinkLost(f"{self._place} says: {text}"), None)

    # -- its life ------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Send a heart-beat if it is time to.

        Raises:
            LinkLost: the broker was silent for too long.
        """
        now = time.monotonic()
        if self._beats.is_beat_due(now):
            self._write(b"\n")
        if self._beats.is_peer_dead(now) and not _is_ready(self._socket, 0.0):
            self._fail(LinkLost(f"{self._place} was silent for too long"))
            self._check()

    @property
    def is_open(self) -> bool:
        """Whether nothing is known to be wrong."""
        return self._failure is None

    def fileno(self) -> int:
        """Of the socket, to be told when it can be read."""
        return self._socket.fileno()

    def close(self, timeout_s: float = 10.0) -> None:
        """Say goodbye, wait until the broker has done all that it was asked for, and close.

        Args:
            timeout_s: how long writing may take, and the answer, in seconds; the connection is closed then, too.
        """
        try:
            if self.is_open:
                self._send_timeout_s = timeout_s
                self._request((("DISCONNECT", {}, b""),), timeout_s)
        except (LinkLost, RequestRefused):
            pass  # it is gone already, which is what was wanted
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the socket of this process without a word; another process may have it, too.

        Threads that wait hear of it. A process that was forked ends nobody's waiting but its own: the connection is
        that of the process that has opened it.
        """
        self._failure = self._failure or LinkLost(f"the connection to {self._place} was closed")
        if self._pid == os.getpid():
            with suppress(OSError):  # it is closed, or was never connected
                # Closing alone does not wake who waits in poll(). Not SSLSocket's own: it lets go of the session while
                # another thread may use it.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._socket.close()

    def _write(self, data: bytes) -> None:
        self._check()
        try:
            with self._io:
                self._send_all(data)
        except OSError as error:
            self._fail(LinkLost(f"the connection to {self._place} is lost: {error}"))
            self._check()
        except BaseException:  # a signal's: perhaps half a frame is sent, and nothing may follow it
            self._fail(LinkLost(f"the connection to {self._place} is given up: sending was interrupted"))
            raise
        self._beats.data_sent(time.monotonic())

    def _send_all(self, data: bytes) -> None:
        deadline_s = time.monotonic() + self._send_timeout_s
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except _NOT_NOW as error:
                remaining_s = max(deadline_s - time.monotonic(), 0.0)
                if not _is_ready(self._socket, remaining_s, to_write=not isinstance(error, ssl.SSLWantReadError)):
                    raise TimeoutError(f"nothing can be sent for {self._send_timeout_s:g} s") from error

    def _check(self) -> None:
        if self._failure is not None:  # a new one each time: several threads may raise it
            raise type(self._failure)(str(self._failure)) from self._failure.__cause__

    def _fail(self, failure: JdbcStoreError) -> None:
        with self._lock:
            self._fail_locked(failure, None)

    def _fail_locked(self, failure: JdbcStoreError, cause: BaseException | None) -> None:
        if self._failure is None:
            failure.__cause__ = cause
            self._failure = failure
        self._changed.notify_all()


def _is_ready(peer: socket.socket, timeout_s: float | None, *, to_write: bool = False) -> bool:
    """Wait until a socket can be read, or written to; False if it cannot in time.

    One that another thread has closed is ready: whoever uses it then hears that.
    """
    try:
        if not hasattr(select, "poll"):  # some green threads take it away
            readers, writers = ([], [peer]) if to_write else ([peer], [])
            return any(select.select(readers, writers, [], timeout_s))
        poll = select.poll()
        poll.register(peer, select.POLLOUT if to_write else select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else -(-timeout_s * 1000 // 1)))
    except ValueError:
        if peer.fileno() >= 0:
            raise
        return True
