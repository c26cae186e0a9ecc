"""A raw STOMP client for tests: a socket and as little else as possible, so that it hides nothing."""

from __future__ import annotations

import select
import socket
import ssl
from collections import deque
from types import TracebackType
from typing import NamedTuple, Self

Address = tuple[str, int]

_ESCAPES = {"1.0": (), "1.1": (("\\\\", "\\"), ("\\n", "\n"), ("\\c", ":"))}
_ESCAPES["1.2"] = (("\\r", "\r"), *_ESCAPES["1.1"])


class Frame(NamedTuple):
    """A frame as the broker sent it, with values unescaped."""

    command: str
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8")


class Client:
    """One connection. Frames are written as given: nothing is escaped, nothing is checked."""

    def __init__(self, address: Address, *, timeout_s: float = 60.0, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(address, timeout=timeout_s)
        if tls is not None:
            try:
                self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
            except BaseException:
                self.socket.close()
                raise
        self.version = "1.0"
        self._data = b""
        self._messages: deque[Frame] = deque()

    def connect(self, version: str = "1.2", **headers: str) -> Frame:
        """CONNECT and return the answer."""
        self.send("CONNECT", {"accept-version": version, "host": "test", **_dashed(headers)})
        self.version = version
        return self.frame()

    def send(self, command: str, headers: dict[str, str] | None = None, body: bytes | str = b"") -> None:
        """Write a frame."""
        lines = [command, *(f"{name}:{value}" for name, value in (headers or {}).items())]
        data = body.encode() if isinstance(body, str) else body
        self.write("\n".join(lines).encode() + b"\n\n" + data + b"\0")

    def write(self, data: bytes) -> None:
        """Write bytes."""
        self.socket.sendall(data)

    def request(self, command: str, headers: dict[str, str] | None = None, body: bytes | str = b"") -> Frame:
        """Write a frame that asks for a receipt, and return the answer. Messages that come before it are kept."""
        self.send(command, {"receipt": "asked", **(headers or {})}, body)
        while (frame := self._read_frame()).command == "MESSAGE":
            self._messages.append(frame)
        return frame

    def done(self, command: str, headers: dict[str, str] | None = None, body: bytes | str = b"") -> None:
        """Write a frame and wait for its RECEIPT."""
        answer = self.request(command, headers, body)
        assert answer.command == "RECEIPT", answer

    def subscribe(self, destination: str, ack: str = "auto", id: str = "1", **headers: str) -> None:
        """SUBSCRIBE and wait for the receipt."""
        self.done("SUBSCRIBE", {"destination": destination, "ack": ack, "id": id, **_dashed(headers)})

    def publish(self, destination: str, body: bytes | str = b"", **headers: str) -> None:
        """SEND a persistent message and wait for its receipt."""
        self.done("SEND", {"destination": destination, "persistent": "true", **_dashed(headers)}, body)

    def ack(self, message: Frame, command: str = "ACK", **headers: str) -> None:
        """ACK (or NACK) a message in the way of the connection's version."""
        self.send(command, {**self.named(message), **_dashed(headers)})

    def named(self, message: Frame) -> dict[str, str]:
        """What an ACK of this message has to say."""
        if self.version == "1.2":
            return {"id": message.headers["ack"]}
        named = {"message-id": message.headers["message-id"].replace(":", "\\c" if self.version == "1.1" else ":")}
        if self.version == "1.1":
            named["subscription"] = message.headers["subscription"]
        return named

    def message(self) -> Frame:
        """The next frame, which has to be a MESSAGE."""
        frame = self.frame()
        assert frame.command == "MESSAGE", frame
        return frame

    def rest_of(self, queue: str) -> list[str]:
        """The bodies of everything in a queue, received and acknowledged: what comes before a message sent just now."""
        last, texts = "nothing is behind this", list[str]()
        self.publish(queue, last)
        self.subscribe(queue)
        while (text := self.message().text) != last:
            texts.append(text)
        return texts

    def error(self) -> Frame:
        """The next frame, which has to be an ERROR."""
        frame = self.frame()
        assert frame.command == "ERROR", frame
        return frame

    def frame(self) -> Frame:
        """The next frame. Heart-beats are skipped."""
        return self._messages.popleft() if self._messages else self._read_frame()

    def _read_frame(self) -> Frame:
        while (frame := self._next()) is None:
            self.take_in()
        return frame

    def _next(self) -> Frame | None:
        self._data = self._data.lstrip(b"\n")
        return self._take()

    def has_frame(self) -> bool:
        """Whether a frame has been read that nobody has looked at."""
        if not self._messages and (frame := self._next()) is not None:
            self._messages.append(frame)
        return bool(self._messages)

    def has_come(self) -> bool:
        """Whether something can be read now."""
        return bool(self._messages or self._data or select.select([self.socket], [], [], 0)[0])

    def take_in(self) -> None:
        """Read what has come, or wait until something comes."""
        self._data += self.read()

    def read(self) -> bytes:
        """Some bytes.

        Raises:
            ConnectionError: the broker closed the connection.
        """
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("closed by the broker")
        return data

    def is_silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing comes for a while."""
        if self._messages or self._data.strip(b"\n"):
            return False
        before = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            self._data += self.socket.recv(1 << 20)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(before)
        return not self._data.strip(b"\n")

    def is_closed(self) -> bool:
        """Whether the broker closes the connection; reads what is left to find out."""
        try:
            while self.socket.recv(1 << 20):
                pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True

    def drop(self) -> None:
        """Be gone without a word."""
        self.socket.close()

    def _take(self) -> Frame | None:
        head, end, rest = self._data.partition(b"\n\n")
        if not end:
            return None
        command, *lines = head.decode("utf-8").split("\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers.setdefault(self._unescaped(name, command), self._unescaped(value, command))
        length = int(headers["content-length"]) if "content-length" in headers else rest.find(b"\0")
        if length < 0 or len(rest) <= length:
            return None
        assert rest[length : length + 1] == b"\0", self._data[:200]
        self._data = rest[length + 1 :]
        return Frame(command, headers, rest[:length])

    def _unescaped(self, text: str, command: str) -> str:
        if command == "CONNECTED" or "\\" not in text or self.version == "1.0":
            return text
        parts, position = [], 0
        known = dict(_ESCAPES[self.version])
        while position < len(text):
            pair = text[position : position + 2]
            if pair in known:
                parts.append(known[pair])
                position += 2
            else:
                parts.append(text[position])
                position += 1
        return "".join(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-").replace("activemq-", "activemq."): value for name, value in headers.items()}
