"""What holds for all input: round trips in every version and chunking, and no surprise from any bytes."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jdbcstore.stomp import (
    VERSIONS,
    Ack,
    Acks,
    Connect,
    Disconnect,
    Event,
    Frame,
    FrameParser,
    Limits,
    StompConnection,
    serialise,
)
from jdbcstore.stomp.frames import COMMANDS
from tests.examples import examples

QUICK = settings(max_examples=examples(40), database=None, suppress_health_check=[HealthCheck.too_slow])

# What a header can carry in every version: 1.0 trims, has no CR at the end and reads escapes although it writes none.
PLAIN: Final = st.characters(exclude_characters="\0\r\n\\:", exclude_categories=["Cs"])
names = st.text(PLAIN, min_size=1, max_size=12).filter(lambda name: name != "content-length")
plain_values = st.text(PLAIN, max_size=20).map(lambda value: value.strip("".join(map(chr, range(33)))))
any_values = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
bodies = st.binary(max_size=60)
cuts = st.lists(st.integers(0, 400), max_size=8)


def chunked(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def parse(chunks: list[bytes], version: str) -> list[Frame]:
    parser = FrameParser(commands={b"MESSAGE": "MESSAGE", b"SEND": "SEND"})
    parser.speak(version)
    frames = []
    for chunk in chunks:
        parser.feed(chunk)
        while (frame := parser.next_frame()) is not None:
            frames.append(frame)
    return frames


@QUICK
@given(st.dictionaries(names, plain_values, max_size=6), bodies, st.sampled_from(VERSIONS), cuts)
def test_frames_survive_every_version_and_chunking(
    headers: dict[str, str], body: bytes, version: str, places: list[int]
) -> None:
    written = serialise("MESSAGE", headers, body, version) * 3
    [frame, *others] = parse(chunked(written, places), version)
    frame.headers.pop("content-length", None)
    assert (frame.headers, frame.body) == (headers, body)
    assert len(others) == 2


@QUICK
@given(st.dictionaries(names, any_values, max_size=6), bodies, cuts)
def test_1_2_carries_every_value(headers: dict[str, str], body: bytes, places: list[int]) -> None:
    [frame] = parse(chunked(serialise("MESSAGE", headers, body, "1.2"), places), "1.2")
    frame.headers.pop("content-length", None)
    assert (frame.headers, frame.body) == (headers, body)


@QUICK
@given(st.dictionaries(names, any_values.map(lambda value: value.replace("\r", "")), max_size=6))
def test_1_1_carries_every_value_without_cr(headers: dict[str, str]) -> None:
    [frame] = parse([serialise("MESSAGE", headers, b"", "1.1")], "1.1")
    assert frame.headers == headers


@QUICK
@given(st.dictionaries(st.text(max_size=8), st.text(max_size=12), max_size=6), bodies, st.sampled_from(VERSIONS))
def test_whatever_is_written_is_one_frame(headers: dict[str, str], body: bytes, version: str) -> None:
    headers.pop("", None)
    [frame] = parse([serialise("MESSAGE", headers, body, version)], version)
    assert frame.body == body
    assert len(frame.headers) <= len(headers) + 1


SMALL = Limits(
    command_line_bytes=64,
    header_line_bytes=128,
    headers_max=8,
    header_block_bytes=256,
    body_bytes=512,
    unconnected_body_bytes=128,
)

pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([command.encode() for command in sorted(COMMANDS)] + [b"MESSAGE", b"FOO"]),
    st.sampled_from(
        [
            *(b"\n", b"\r\n", b"\0", b"\n\n", b"\n\n\0", b":", b"\\", b"\xff"),
            *(b"destination:/queue/A\n", b"content-length:3\n", b"receipt:1\n", b"id:1\n", b"heart-beat:1,1\n"),
            *(b"accept-version:1.1\n", b"accept-version:1.2\n", b"transaction:t\n", b"message-id:1\n"),
            *(b"x:" + b"v" * 130, b"b" * 600),
        ]
    ),
)


def listen(connection: StompConnection, chunks: list[bytes]) -> None:
    """Feed a connection as a broker would; anything but events, ERROR frames and states fails."""
    for chunk in chunks:
        for event in connection.receive_data(chunk):
            if isinstance(event, Connect):
                connection.send_connected("test", "test", (0, 0))
            elif isinstance(event, Disconnect):
                connection.finish_disconnect()
            elif event.receipt is not None:
                connection.send_receipt(event.receipt)
        output = connection.data_to_send()
        assert len(output) <= 400 + 200 * len(chunk)
        assert not output or output.endswith(b"\0\n")
        if connection.close_expected:
            assert connection.receive_data(b"SEND\n\n\0") == []
            return


@QUICK
@given(st.lists(st.lists(pieces, max_size=8).map(b"".join), max_size=8), st.booleans())
def test_any_bytes_give_events_or_errors(chunks: list[bytes], is_connected: bool) -> None:
    connection = StompConnection(SMALL)
    listen(connection, [b"CONNECT\naccept-version:1.2\n\n\0", *chunks] if is_connected else chunks)


SESSION: Final = (
    b"CONNECT\naccept-version:1.0,1.1,1.2\nheart-beat:0,0\nreceipt:0\n\n\0\n"
    b"SUBSCRIBE\nid:s\ndestination:/queue/A\nack:client\nactivemq.prefetchSize:10\n\n\0\n"
    b"SEND\ndestination:/queue/A\ncontent-length:4\nreceipt:1\n\na\0bc\0\n"
    b"BEGIN\ntransaction:t\n\n\0ACK\nid:1\ntransaction:t\n\n\0COMMIT\ntransaction:t\n\n\0"
    b"UNSUBSCRIBE\nid:s\n\n\0DISCONNECT\nreceipt:bye\n\n\0"
)


@QUICK
@given(
    st.lists(st.tuples(st.integers(0, len(SESSION) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, len(SESSION)),
    cuts,
)
def test_mutated_sessions_give_events_or_errors(mutations: list[tuple[int, int]], keep: int, places: list[int]) -> None:
    data = bytearray(SESSION)
    for place, byte in mutations:
        data[place] = byte
    listen(StompConnection(SMALL), chunked(bytes(data[:keep]) + bytes(data), places))


@QUICK
@given(cuts)
def test_a_session_means_the_same_in_any_chunking(places: list[int]) -> None:
    def events(chunks: list[bytes]) -> list[object]:
        connection = StompConnection()
        return [event for chunk in chunks for event in connection.receive_data(chunk)]

    whole = events([SESSION])
    assert len(whole) == 8
    assert events(chunked(SESSION, places)) == whole


#: Frames of which some may be cut out together, and others not.
ACKS: Final = (
    b"ACK\nid:a\n\n\0",
    b"ACK\nid:ID-b-7\n\n\0\n",
    b"ACK\nid:c:d\xc3\xa9\xff\n\n\0\n\n",
    b"ACK\nid:e\\cf\n\n\0",
    b"ACK\nid:g\r\n\n\0",
    b"ACK\nid:h\nreceipt:r\n\n\0",
    b"ACK\nid:i\ntransaction:t\n\n\0",
    b"ACK\nid:\n\n\0",
    b"ACK\nmessage-id:j\n\n\0",
    b"ACK\nid:k\n\nbody\0",
    b"ACK\nid:" + b"l" * 50 + b"\n\n\0",
    b"NACK\nid:m\n\n\0",
    b"SEND\ndestination:/queue/ACK\n\nACK\nid:n\n\n\0",
)
#: What ends the connection; and what does not.
LAST: Final = (b"ACK\nid:" + b"o" * 100 + b"\n\n\0", b"ACKS\nid:p\n\n\0", b"ACK\nid:q\0", b"ACK\nid:r\n\n\0")


@pytest.mark.parametrize("last", LAST, ids=["too long", "unknown", "without a blank line", "right"])
@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_acks_that_follow_one_another_say_what_each_of_them_says(version: str, last: bytes) -> None:
    def singly(event: Event) -> list[Event]:
        return [Ack({"id": id}, id, None, None, None, None) for id in event.ids] if isinstance(event, Acks) else [event]

    def heard(*chunks: bytes) -> tuple[list[Event], bytes]:
        connection = StompConnection(Limits(header_line_bytes=99))
        connection.receive_data(f"CONNECT\naccept-version:{version}\nhost:h\n\n\0".encode())
        connection.send_connected("server", "session", (0, 0))
        events = [event for chunk in chunks for event in connection.receive_data(chunk)]
        return [one for event in events for one in singly(event)], connection.data_to_send()

    data = b"".join([*ACKS, last, *ACKS])
    one_at_a_time = heard(*(data[place : place + 1] for place in range(len(data))))
    for place in range(len(data)):
        assert heard(data[:place], data[place:]) == one_at_a_time
