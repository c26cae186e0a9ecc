"""STOMP over WebSocket, byte by byte: a client of WebSockets that does what no library of browsers does."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from tests.broker.client import Address
from tests.broker.conftest import StartBroker, authority, server, stack  # noqa: F401
from tests.broker.test_tls import tls_options, trusting
from tests.certificates import Authority, Identity
from tests.waiting import wait_until

BIND = "ws://127.0.0.1:0"
CONNECT = "CONNECT\naccept-version:1.2\nhost:test\n\n\0"


class Browser:
    """One WebSocket."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(address, timeout=60)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
        self._websocket = WSConnection(ConnectionType.CLIENT)
        self._events: Iterator[Event] = iter(())

    def shake_hands(self, *subprotocols: str, origin: str | None = None) -> Event:
        headers = [] if origin is None else [(b"origin", origin.encode())]
        self.say(Request(host="test", target="/", subprotocols=list(subprotocols), extra_headers=headers))
        return self.event()

    def connect(self) -> None:
        assert isinstance(self.shake_hands("v12.stomp"), AcceptConnection)
        self.say(TextMessage(CONNECT))
        assert self.text().startswith("CONNECTED\n")

    def say(self, *events: Event) -> None:
        for event in events:
            self.socket.sendall(self._websocket.send(event))

    def event(self) -> Event:
        while True:
            for event in self._events:
                return event
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed by the broker")
            self._websocket.receive_data(data)
            self._events = self._websocket.events()

    def text(self) -> str:
        """The next message, which has to be text."""
        parts: list[str] = []
        while True:
            event = self.event()
            assert isinstance(event, TextMessage), event
            parts.append(event.data)
            if event.message_finished:
                return "".join(parts)

    def close_code(self) -> int:
        while not isinstance(event := self.event(), CloseConnection):
            pass
        return event.code


OpenBrowser = Callable[..., Browser]


@pytest.fixture
def browse(stack: ExitStack) -> OpenBrowser:  # noqa: F811
    """Connect a socket, closed at the end."""

    def browse(address: Address, tls: ssl.SSLContext | None = None) -> Browser:
        browser = Browser(address, tls)
        stack.callback(browser.socket.close)
        return browser

    return browse


@pytest.fixture
def browser(start_broker: StartBroker, browse: OpenBrowser) -> Browser:
    """A client that is connected."""
    browser = browse(start_broker(bind=BIND))
    browser.connect()
    return browser


def frame(command: str, body: str = "", **headers: str) -> str:
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
    return f"{command}\n{lines}\n{body}\0"


@pytest.mark.parametrize(
    ("offered", "spoken"),
    [
        ((), None),
        (("v10.stomp",), "v10.stomp"),
        (("v10.stomp", "v11.stomp", "v12.stomp"), "v12.stomp"),
        (("mqtt", "v11.stomp"), "v11.stomp"),
    ],
)
def test_the_best_sub_protocol_is_spoken(
    start_broker: StartBroker, browse: OpenBrowser, offered: tuple[str, ...], spoken: str | None
) -> None:
    answer = browse(start_broker(bind=BIND)).shake_hands(*offered)
    assert isinstance(answer, AcceptConnection)
    assert answer.subprotocol == spoken


def refusal(browser: Browser, *subprotocols: str, origin: str | None = None) -> tuple[int, str]:
    answer = browser.shake_hands(*subprotocols, origin=origin)
    assert isinstance(answer, RejectConnection)
    data = browser.event()
    assert isinstance(data, RejectData)
    return answer.status_code, bytes(data.data).decode()


def test_other_sub_protocols_are_refused(start_broker: StartBroker, browse: OpenBrowser) -> None:
    status, text = refusal(browse(start_broker(bind=BIND)), "mqtt")
    assert status == 400
    assert "v12.stomp, v11.stomp, v10.stomp" in text


def test_origins_may_be_limited(start_broker: StartBroker, browse: OpenBrowser) -> None:
    address = start_broker(bind=BIND, websocket_origins="https://shop.example, https://other.example")
    assert refusal(browse(address), origin="https://evil.example")[0] == 403
    assert isinstance(browse(address).shake_hands(origin="https://SHOP.example"), AcceptConnection)
    assert isinstance(browse(address).shake_hands(), AcceptConnection)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: test\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: test\r\ncontent-length: 0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n",
        b"CONNECT\naccept-version:1.2\n\n\0",
        b"GET / HTTP/1.1\r\nHost: " + b"x" * 100_000,
        b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n"
        b"Sec-WebSocket-Version: 13\r\n\r\n",
    ],
)
def test_what_is_no_websocket_is_refused(start_broker: StartBroker, browse: OpenBrowser, request_: bytes) -> None:
    address = start_broker(bind=BIND)
    browser = browse(address)
    answer = b""
    try:
        browser.socket.sendall(request_)
        while data := browser.socket.recv(1 << 16):
            answer += data
    except ConnectionResetError:
        pass
    assert answer.startswith(b"HTTP/1.1 4") or not answer, answer
    browse(address).connect()


def test_several_frames_in_a_message_and_a_frame_in_several_messages(browser: Browser) -> None:
    browser.say(
        TextMessage(frame("SUBSCRIBE", destination="/queue/A", id="1") + frame("SEND", "1", destination="/queue/A"))
    )
    assert browser.text().endswith("\n\n1\0\n")
    whole = frame("SEND", "twö", destination="/queue/A")
    for character in whole:
        browser.say(TextMessage(character))
    assert browser.text().endswith("\n\ntwö\0\n")
    browser.say(BytesMessage(whole.encode()[:-3]), BytesMessage(whole.encode()[-3:]))
    answer = browser.event()
    assert isinstance(answer, BytesMessage), "it speaks in binary messages now"


def test_each_frame_is_a_message(browser: Browser) -> None:
    frames = [frame("SEND", str(number), destination="/queue/A", receipt=f"r{number}") for number in range(5)]
    browser.say(TextMessage("".join(frames)))
    assert [browser.text() for _ in frames] == [f"RECEIPT\nreceipt-id:r{number}\n\n\0\n" for number in range(5)]


def test_fragments_with_a_ping_between_them(browser: Browser) -> None:
    whole = frame("SEND", "in fragments", destination="/queue/A", receipt="done")
    browser.say(
        TextMessage(whole[:10], message_finished=False),
        Ping(b"are you there"),
        TextMessage(whole[10:20], message_finished=False),
        TextMessage(whole[20:]),
    )
    answer = browser.event()
    assert isinstance(answer, Pong)
    assert bytes(answer.payload) == b"are you there"
    assert browser.text() == "RECEIPT\nreceipt-id:done\n\n\0\n"


def test_goodbyes_are_answered(browser: Browser) -> None:
    browser.say(CloseConnection(code=1001, reason="gone to lunch"))
    assert browser.close_code() == 1001
    with pytest.raises(ConnectionError):
        browser.event()


def test_disconnect_is_followed_by_a_normal_goodbye(browser: Browser) -> None:
    browser.say(TextMessage(frame("DISCONNECT", receipt="bye")))
    assert browser.text() == "RECEIPT\nreceipt-id:bye\n\n\0\n"
    assert browser.close_code() == 1000


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x05hello", 1002),  # not masked
        (b"\x83\x80\0\0\0\0", 1002),  # no such opcode
        (b"\x81\x82\0\0\0\0\xff\xff", 1007),  # not UTF-8
        (b"\xc1\x80\0\0\0\0", 1002),  # a reserved bit: compression was not agreed on
    ],
)
def test_who_breaks_the_protocol_is_told_how(browser: Browser, data: bytes, code: int) -> None:
    browser.socket.sendall(data)
    assert browser.close_code() == code


def test_an_error_of_stomp_ends_the_websocket(browser: Browser) -> None:
    browser.say(TextMessage("NONSENSE\n\n\0"))
    assert browser.text().startswith("ERROR\n")
    assert browser.close_code() == 1000


def test_limits_are_those_of_stomp_and_hold_before_a_message_is_complete(
    start_broker: StartBroker, browse: OpenBrowser
) -> None:
    browser = browse(start_broker(bind=BIND, body_bytes_max=1000))
    browser.connect()
    announced = 1 << 40
    browser.socket.sendall(b"\x82\xff" + announced.to_bytes(8, "big") + b"\0\0\0\0")
    browser.socket.sendall(b"SEND\ndestination:/queue/A\ncontent-length:2000\n\n")
    event = browser.event()
    assert isinstance(event, BytesMessage)
    assert bytes(event.data).startswith(b"ERROR\n")


def test_pings_of_one_who_does_not_read_are_not_kept(browser: Browser) -> None:
    pings = 200_000  # more than fits between the two sockets
    browser.socket.sendall(b"".join(b"\x89\xfd\0\0\0\0%0125d" % number for number in range(pings)))
    browser.say(TextMessage(frame("SEND", "x", destination="/queue/A", receipt="still here")))
    pongs = []
    while not isinstance(event := browser.event(), TextMessage):
        assert isinstance(event, Pong)
        pongs.append(int(event.payload))
    assert "still here" in event.data
    assert len(pongs) < pings
    assert pongs == sorted(pongs)


def test_with_tls(
    start_broker: StartBroker,
    browse: OpenBrowser,
    authority: Authority,  # noqa: F811
    server: Identity,  # noqa: F811
) -> None:
    address = start_broker(bind="wss://127.0.0.1:0", tls=tls_options(server))
    browser = browse(address, trusting(authority))
    browser.connect()
    body = "x" * 3_000_000
    browser.say(TextMessage(frame("SUBSCRIBE", destination="/queue/A", id="1")))
    browser.say(TextMessage(frame("SEND", body, destination="/queue/A")))
    assert body in browser.text()


def test_who_says_nothing_is_cut_off(start_broker: StartBroker, browse: OpenBrowser) -> None:
    address = start_broker(bind=BIND, connect_timeout_s=4.0)
    silent, only_handshake = browse(address), browse(address)
    assert isinstance(only_handshake.shake_hands(), AcceptConnection)
    for browser in (silent, only_handshake):
        wait_until(lambda browser=browser: browser.socket.recv(100) == b"")  # type: ignore[misc]
