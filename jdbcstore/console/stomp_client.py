"""A small blocking STOMP client for trying a broker by hand."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from jdbcstore.errors import JdbcStoreError
from jdbcstore.stomp.frames import Frame, FrameParser, Limits, serialise

__all__ = ["ClientError", "StompClient"]

_FROM_SERVER: Final = {name.encode(): name for name in ("CONNECTED", "MESSAGE", "RECEIPT", "ERROR")}

#: Behind the length of a frame: the type WIREFORMAT_INFO, and its magic.
_OPENWIRE_GREETING: Final = b"\x01ActiveMQ"
_HTTP_ANSWER: Final = b"HTTP/1."


class ClientError(JdbcStoreError):
    """The broker said ERROR, or nothing."""


class StompClient:
    """A connection that speaks STOMP 1.2. Also a context manager.

    Args:
        host, port: of the broker.
        login, passcode: None to send none.
        timeout_s: how long to wait for an answer; None waits for ever.
        tls: connect with TLS, and with this context; None does without.

    Raises:
        ClientError: nobody answers there, it is not the broker that its certificate should name, or it does not let us
            in.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        login: str | None = None,
        passcode: str | None = None,
        timeout_s: float | None = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._parser = FrameParser(Limits(), _FROM_SERVER)
        self._receipts = 0
        #: Messages that came while a receipt was waited for.
        self._messages: deque[Frame] = deque()
        self._address = f"{host}:{port}"
        self._socket = _connected(host, port, timeout_s, tls)
        try:
            headers = {"accept-version": "1.2", "host": host}
            if login is not None:
                headers["login"] = login
            if passcode is not None:
                headers["passcode"] = passcode
            # CONNECT is never escaped, as in STOMP 1.0.
            self._socket.sendall(serialise("CONNECT", headers, version="1.0"))
            self.expect("CONNECTED")
            self._parser.speak("1.2")
        except BaseException:
            self._socket.close()
            raise

    def set_timeout(self, timeout_s: float | None) -> None:
        """How long `receive` waits; None waits for ever."""
        self._socket.settimeout(timeout_s)

    def request(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a frame and wait for its receipt. Messages that come before it are there for `receive`.

        Raises:
            ClientError: the broker refused it.
        """
        receipt = self._next_receipt()
        self.send(command, {**headers, "receipt": receipt}, body)
        self._wait_for(receipt)

    def disconnect(self, last_ack_id: str | None = None) -> None:
        """Say goodbye and wait until the broker has done all that it was asked for.

        Args:
            last_ack_id: a message to acknowledge with it, so that none is delivered in its place.

        Raises:
            ClientError: the broker refused something.
        """
        frames = [("DISCONNECT", {})] if last_ack_id is None else [("ACK", {"id": last_ack_id}), ("DISCONNECT", {})]
        asked = [(command, {**headers, "receipt": self._next_receipt()}) for command, headers in frames]
        self._socket.sendall(b"".join(serialise(command, headers) for command, headers in asked))
        for _, headers in asked:
            self._wait_for(headers["receipt"])

    def _next_receipt(self) -> str:
        self._receipts += 1
        return str(self._receipts)

    def _wait_for(self, receipt: str) -> None:
        while (frame := self._read()).command == "MESSAGE":
            self._messages.append(frame)
        _check(frame, "RECEIPT")
        if frame.headers.get("receipt-id") != receipt:
            raise ClientError(f"the broker sent receipt {frame.headers.get('receipt-id')} instead of {receipt}")

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a frame."""
        self._socket.sendall(serialise(command, headers, body))

    def expect(self, command: str) -> Frame:
        """The next frame, which has to be of this kind.

        Raises:
            ClientError: it is another one, or none comes in time.
        """
        return _check(self.receive(), command)

    def receive(self) -> Frame:
        """The next frame.

        Raises:
            ClientError: none comes in time, or the broker closes the connection.
        """
        return self._messages.popleft() if self._messages else self._read()

    def _read(self) -> Frame:
        while (frame := self._parser.next_frame()) is None:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                raise ClientError(f"nothing came from {self._address} for {self._socket.gettimeout():g} s") from None
            if not data:
                raise ClientError(f"the broker closed the connection to {self._address}: its log says why")
            self._refuse_other_protocols(data)
            self._parser.feed(data)
        return frame

    def _refuse_other_protocols(self, data: bytes) -> None:
        """A listener for OpenWire alone says first who it is, a web address answers in HTTP; taken for STOMP that makes
        no sense."""
        if data[4:13] == _OPENWIRE_GREETING:
            raise ClientError(
                f"{self._address} speaks OpenWire, not STOMP: take the broker's port for STOMP (61613 as a rule), or"
                " let it listen for both: --bind auto://HOST:PORT"
            )
        if data.startswith(_HTTP_ANSWER):
            raise ClientError(
                f"{self._address} speaks HTTP, not STOMP: take the broker's port for STOMP (61613 as a rule), not that"
                " of its console, metrics or health checks"
            )

    def close(self) -> None:
        """Say goodbye and close."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check(frame: Frame, command: str) -> Frame:
    if frame.command != command:
        raise ClientError(f"the broker says: {frame.headers.get('message', frame.command)}")
    return frame


def _connected(host: str, port: int, timeout_s: float | None, tls: ssl.SSLContext | None) -> socket.socket:
    try:
        plain = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        raise ClientError(f"no broker answers at {host}:{port} ({error.strerror or error})") from error
    if tls is None:
        return plain
    try:
        return tls.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise ClientError(
            f"{host}:{port} may be somebody else: {error.verify_message}; --tls-ca FILE names whom to trust"
        ) from error
    except OSError as error:
        plain.close()
        raise ClientError(f"no TLS at {host}:{port} ({getattr(error, 'reason', None) or error})") from error
