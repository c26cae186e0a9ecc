"""Frames: cutting a stream into them, in any chunking, within limits."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterable
from typing import Final

import pytest

from jdbcstore.errors import ProtocolError
from jdbcstore.stomp import Frame, FrameParser, Limits, serialise


def parse(*chunks: bytes, version: str | None = "1.2", limits: Limits | None = None) -> list[Frame]:
    """All frames in the chunks; a version of None is a peer that has not said CONNECT."""
    parser = FrameParser() if limits is None else FrameParser(limits)
    if version is not None:
        parser.speak(version)
    return parse_with(parser, chunks)


def parse_with(parser: FrameParser, chunks: Iterable[bytes]) -> list[Frame]:
    frames = []
    for chunk in chunks:
        parser.feed(chunk)
        while (frame := parser.next_frame()) is not None:
            frames.append(frame)
    return frames


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def test_a_frame_is_command_headers_body() -> None:
    assert parse(b"SEND\ndestination:/queue/A\nx:y\n\nhello\0\n") == [
        Frame("SEND", {"destination": "/queue/A", "x": "y"}, b"hello")
    ]


def test_a_frame_needs_no_headers_and_no_body() -> None:
    assert parse(b"BEGIN\n\n\0") == [Frame("BEGIN", {}, b"")]


def test_two_frames_in_one_chunk() -> None:
    assert [frame.body for frame in parse(b"SEND\n\na\0SEND\n\nb\0")] == [b"a", b"b"]


@pytest.mark.parametrize("beats", [b"\n", b"\r\n", b"\n\n\n", b"\r\n\r\n", b" \n\t\n"])
def test_blank_lines_between_frames_are_heart_beats(beats: bytes) -> None:
    assert len(parse(beats + b"SEND\n\n\0" + beats + b"SEND\n\n\0" + beats)) == 2


@pytest.mark.parametrize("frame", [b"SEND\n\n\0", b"ACK\nid:1\n\n\0", b"BEGIN\ntransaction:1\na:b\n\n\0"])
@pytest.mark.parametrize("nuls", [b"\0", b"\0\0\n", b"\n\0\n\0", b" \0\r\n"])
def test_a_nul_between_frames_means_nothing(frame: bytes, nuls: bytes) -> None:
    data = nuls + frame + nuls + frame + nuls
    assert len(parse(data)) == len(parse(*bytewise(data))) == 2


def test_a_nul_between_acknowledgements_means_nothing() -> None:
    parser = FrameParser()
    parser.speak("1.2")
    parser.feed(2 * b"ACK\nid:1\n\n\0\0\n")
    assert parser.next_acks() == ["1"]
    frame = parser.next_frame()
    assert frame is not None
    assert frame.headers == {"id": "1"}
    assert parser.next_frame() is None


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("length", [b"", b"content-length:11"])
def test_any_chunking_gives_the_same_frames(line_end: bytes, length: bytes) -> None:
    lines = [b"SEND", b"destination:/queue/A", *([length] if length else []), b"", b"hello"]
    body_rest = b"\0w\norl" if length else b" w\norl"
    data = line_end.join(lines) + body_rest + b"\0" + line_end + b"ACK\nid:1\n\n\0\n"
    whole = parse(data)
    assert [frame.command for frame in whole] == ["SEND", "ACK"]
    assert parse(*bytewise(data)) == whole
    for cut in range(len(data)):
        assert parse(data[:cut], data[cut:]) == whole, f"cut after {cut} bytes"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", None])
@pytest.mark.parametrize(
    "data",
    [
        b"ACK\nid:ID\\cbroker-1\\c7\n\n\0",
        b"\n\r\n \tACK\nid: 7 \n\n\0\nACK\nid:8\n\n\0",
        b"ACK\nid:7\r\n\n\0",
        b"ACK\nid:a\\\\b\\nc\\rd\n\n\0",
        b"ACK \nid:7\n\n\0",
        b"SEND\ncontent-length:0\n\n\0",
        b"SEND\ncontent-length:2\n\n\0",
        b"SEND\ncontent-length:x\n\n\0",
        b"ACK\nno colon\n\n\0",
        b"ACK\n:no name\n\n\0",
        b"NONE\nid:7\n\n\0",
        b"ACK\nid:\0\n\n\0",
        b"ACK\nid:" + 20 * b"7" + b"\n\n\0",
        b"ACK\nid:\xff\n\n\0",
    ],
)
def test_a_frame_of_one_header_means_the_same_whole_or_in_pieces(data: bytes, version: str | None) -> None:
    def outcome(chunks: list[bytes]) -> object:
        try:
            return parse(*chunks, version=version, limits=Limits(header_line_bytes=22))
        except ProtocolError as error:
            return str(error)

    assert outcome([data]) == outcome(bytewise(data))


def test_where_no_headers_are_allowed_one_is_too_many() -> None:
    with pytest.raises(ProtocolError, match="headers_max"):
        parse(b"ACK\nid:7\n\n\0", limits=Limits(headers_max=0))


def test_the_first_of_equal_headers_counts() -> None:
    assert parse(b"SEND\nx:first\ny:1\nx:second\n\n\0")[0].headers == {"x": "first", "y": "1"}


def test_headers_keep_their_order() -> None:
    assert list(parse(b"SEND\nc:1\na:2\nb:3\na:4\n\n\0")[0].headers) == ["c", "a", "b"]


def test_a_value_may_hold_colons() -> None:
    assert parse(b"SEND\nx:a:b\n\n\0")[0].headers == {"x": "a:b"}


def test_the_command_line_may_have_blanks_around_it() -> None:
    assert parse(b"  SEND \r\n\n\0")[0].command == "SEND"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_crlf_ends_the_header_block_in_every_version(version: str) -> None:
    assert parse(b"SEND\r\n\r\nbody\0", version=version) == [Frame("SEND", {}, b"body")]


# --- bodies


def test_content_length_counts_over_nul() -> None:
    frames = parse(b"SEND\ncontent-length:3\n\na\0b\0\nSEND\n\n\0")
    assert [frame.body for frame in frames] == [b"a\0b", b""]


@pytest.mark.parametrize("command", [b"ACK", b"SUBSCRIBE", b"CONNECT"])
@pytest.mark.parametrize("length", [b"0", b"8511", b"x", b"-1"])
@pytest.mark.parametrize("more", [b"", b"id:1\n"])
def test_content_length_means_nothing_in_a_frame_without_body(command: bytes, length: bytes, more: bytes) -> None:
    data = command + b"\ncontent-length:" + length + b"\n" + more + b"\n\0\nSEND\n\nb\0"
    for chunks in ([data], bytewise(data)):
        assert [(frame.command.encode(), frame.body) for frame in parse(*chunks)] == [(command, b""), (b"SEND", b"b")]


def test_a_body_without_content_length_ends_at_nul() -> None:
    assert parse(b"SEND\n\nab\0")[0].body == b"ab"


@pytest.mark.parametrize("length", [b" 3 ", b"+3", b"003"])
def test_content_length_may_be_written_as_java_reads_numbers(length: bytes) -> None:
    assert parse(b"SEND\ncontent-length:" + length + b"\n\na\0b\0")[0].body == b"a\0b"


def test_no_nul_after_the_counted_body() -> None:
    with pytest.raises(ProtocolError, match="content-length bytes were read and there was no trailing null byte") as e:
        parse(b"SEND\ncontent-length:2\n\nabc\0")
    assert e.value.fatal


@pytest.mark.parametrize("length", ["-1", "x", "", "1.0", "1_0", "++1", "\u0663", "9" * 5000])
def test_a_content_length_that_is_no_number(length: str) -> None:
    with pytest.raises(ProtocolError, match="content-length is not a valid integer") as e:
        parse(f"SEND\ncontent-length:{length}\n\n\0".encode())
    assert e.value.fatal


# --- what is not STOMP


@pytest.mark.parametrize("command", ["FOO", "send", "SENDx", "MESSAGE", "CONNECTED", "GET / HTTP/1.1"])
def test_unknown_commands(command: str) -> None:
    with pytest.raises(ProtocolError, match=f"Unknown STOMP action: {command}") as e:
        parse(f"{command}\n\n\0".encode())
    assert e.value.fatal


def test_an_unknown_command_is_refused_without_waiting_for_its_nul() -> None:
    with pytest.raises(ProtocolError, match="Unknown STOMP action: GET"):
        parse(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")


def test_a_header_line_without_colon() -> None:
    with pytest.raises(ProtocolError, match=r"\[nonsense\]: it has no colon") as e:
        parse(b"SEND\nnonsense\n\n\0")
    assert e.value.fatal


def test_a_header_line_without_name() -> None:
    with pytest.raises(ProtocolError, match=r"\[:x\]: it has no name") as e:
        parse(b"SEND\n:x\n\n\0")
    assert e.value.fatal


@pytest.mark.parametrize("chunks", [[b"SEND\ndestination:/queue/A\n\0\nSEND\n\n\0"], bytewise(b"SEND\nx:y\n\0")])
def test_a_nul_among_the_headers(chunks: list[bytes]) -> None:
    with pytest.raises(ProtocolError, match="write a blank line") as e:
        parse(*chunks)
    assert e.value.fatal


def test_headers_are_known_to_the_error_of_their_frame_only() -> None:
    parser = FrameParser()
    parser.feed(b"SEND\nreceipt:1\n\n\0FOO\nreceipt:2\n\n\0")
    assert parser.next_frame() is not None
    with pytest.raises(ProtocolError):
        parser.next_frame()
    assert parser.headers == {"receipt": "2"}
    parser = FrameParser()
    parser.feed(b"SEND\nreceipt:1\n\n\0FOO\n:\n\n\0")
    assert parser.next_frame() is not None
    with pytest.raises(ProtocolError):
        parser.next_frame()
    assert parser.headers == {}


# --- limits


SMALL = Limits(
    command_line_bytes=20,
    header_line_bytes=30,
    headers_max=3,
    header_block_bytes=70,
    body_bytes=10,
    unconnected_body_bytes=5,
)


@pytest.mark.parametrize(
    "data",
    [
        b" " * 13 + b"CONNECT" + b" " * 13 + b"\n\n\0",
        b"SEND\nx:" + b"v" * 28 + b"\n\n\0",
        b"SEND\na:1\nb:2\nc:3\n\n\0",
        b"SEND\na:" + b"1" * 28 + b"\nb:" + b"2" * 28 + b"\nc:1\n\n\0",
        b"SEND\n\n" + b"b" * 10 + b"\0",
        b"SEND\ncontent-length:10\n\n" + b"b" * 10 + b"\0",
    ],
)
@pytest.mark.parametrize("split", [False, True])
def test_frames_at_a_limit_are_read(data: bytes, split: bool) -> None:
    assert len(parse(*(bytewise(data) if split else [data]), limits=SMALL)) == 1


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (b"SEND" + b" " * 17 + b"\n\n\0", "command_line_bytes is 20"),
        (b"X" * 21, "command_line_bytes is 20"),
        (b"SEND\nx:" + b"v" * 29 + b"\n\n\0", "header_line_bytes is 30"),
        (b"SEND\nx:" + b"v" * 29, "header_line_bytes is 30"),
        (b"SEND\na:1\nb:2\nc:3\nd:4\n\n\0", "headers_max is 3"),
        (b"SEND\na:" + b"1" * 28 + b"\nb:" + b"2" * 28 + b"\nc:12\n\n\0", "header_block_bytes is 70"),
        (b"SEND\n\n" + b"b" * 11 + b"\0", "body_bytes is 10"),
        (b"SEND\n\n" + b"b" * 11, "body_bytes is 10"),
        (b"SEND\ncontent-length:11\n\n", "body_bytes is 10"),
    ],
)
@pytest.mark.parametrize("split", [False, True])
def test_a_frame_beyond_a_limit_is_refused_and_the_limit_named(data: bytes, limit: str, split: bool) -> None:
    with pytest.raises(ProtocolError, match=f"{limit}$") as e:
        parse(*(bytewise(data) if split else [data]), limits=SMALL)
    assert e.value.fatal


@pytest.mark.parametrize("data", [b"SEND\n\n123456", b"SEND\ncontent-length:6\n\n", b"CONNECT\n\n123456"])
def test_strangers_get_smaller_bodies(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"unconnected_body_bytes is 5$"):
        parse(data, version=None, limits=SMALL)


def test_limits_are_those_of_activemq() -> None:
    limits = Limits()
    assert limits.command_line_bytes == 1024
    assert limits.header_line_bytes == 10 * 1024
    assert limits.headers_max == 1000
    assert limits.body_bytes == 100 * 1024 * 1024


# --- cost


def seconds(data: bytes, chunk_bytes: int) -> float:
    """Processor time of reading the data in such chunks."""
    chunks = [data[i : i + chunk_bytes] for i in range(0, len(data), chunk_bytes)]
    start = time.thread_time()
    assert len(parse(*chunks)) == 1
    return time.thread_time() - start


def assert_linear(small: bytes, large: bytes, chunk_bytes: int) -> None:
    """Four times the bytes take about four times the time, the shortest of up to ten; quadratic would be sixteen."""
    times: list[tuple[float, float]] = []
    for _ in range(10):
        times.append((seconds(small, chunk_bytes), seconds(large, chunk_bytes)))
        of_small, of_large = map(min, zip(*times, strict=True))
        if of_large < of_small * 10:
            return
    pytest.fail(f"{times} s")


@pytest.mark.parametrize("head", [b"SEND\n\n", b"SEND\ncontent-length:%d\n\n"])
def test_a_large_body_costs_linear_time(head: bytes) -> None:
    def frame(body_bytes: int) -> bytes:
        return (head % body_bytes if b"%" in head else head) + b"b" * body_bytes + b"\0"

    assert_linear(frame(2 << 20), frame(8 << 20), 512)


def test_a_large_head_costs_linear_time() -> None:
    def frame(headers: int) -> bytes:
        return b"SEND\n" + b"".join(b"h%d:%s\n" % (i, b"v" * 100) for i in range(headers)) + b"\n\0"

    assert_linear(frame(100), frame(400), 2)


def test_tiny_chunks_of_an_unfinished_frame_take_no_more_memory_than_its_bytes() -> None:
    parser = FrameParser()
    parser.speak("1.2")
    tracemalloc.start()
    try:
        parse_with(parser, [b"SEND\n\n"])
        for _ in range(20_000):
            parser.feed(b"xy")
            assert parser.next_frame() is None
        current, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert current < 200_000


def test_an_idle_parser_keeps_no_chunk() -> None:
    parser = FrameParser()
    parser.speak("1.2")
    tracemalloc.start()
    try:
        assert len(parse_with(parser, [b"SEND\n\n" + b"b" * 1_000_000 + b"\0\n"])) == 1
        current, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert current < 100_000


# --- writing


def test_a_frame_is_written_with_nul_and_line_feed() -> None:
    assert serialise("MESSAGE", {"a": "1", "b": "2"}, b"body") == b"MESSAGE\na:1\nb:2\n\nbody\0\n"


def test_a_frame_without_headers() -> None:
    assert serialise("RECEIPT", {}) == b"RECEIPT\n\n\0\n"


def test_a_body_with_nul_gets_a_content_length() -> None:
    assert serialise("MESSAGE", {"a": "1"}, b"a\0b") == b"MESSAGE\na:1\ncontent-length:3\n\na\0b\0\n"


def test_a_wrong_content_length_is_corrected() -> None:
    assert serialise("MESSAGE", {"content-length": "99"}, b"ab") == b"MESSAGE\ncontent-length:2\n\nab\0\n"


def test_the_callers_headers_stay_as_they_are() -> None:
    headers = {"content-length": "99"}
    serialise("MESSAGE", headers, b"ab")
    assert headers == {"content-length": "99"}


#: What is usual is read in one step; these are what is not quite.
UNUSUAL: Final = (
    b"SEND\na:b\na:c\n\nbody\0",
    b"SEND\r\na:b\r\n\r\nbody\0",
    b"SEND\na:b\r\n\nbody\0",
    b"\n\n SEND\na:b\n\nbody\0",
    b"SEND \na:b\n\nbody\0",
    b"SEND\n\nbody\0",
    b"SEND\ncontent-length:4\n\nbo\0y\0",
    b"SEND\ncontent-length: 4\n\nbody\0",
    b"SEND\ncontent-length:04\n\nbody\0",
    b"SEND\ncontent-length:0000000000000004\n\nbody\0",
    b"SEND\ncontent-length:-4\n\nbody\0",
    b"SEND\ncontent-length:\xc2\xb2\n\nbody\0",
    b"SEND\ncontent-length:3\n\nbody\0",
    b"SEND\ncontent-length:21\n\n" + b"x" * 21 + b"\0",
    b"SEND\na:b\n\n" + b"x" * 21 + b"\0",
    b"SEND\na\n\nbody\0",
    b"SEND\n:a\n\nbody\0",
    b"SEND\na:b\0\nc:d\n\nbody\0",
    b"SEND\n" + b"".join(b"%d:x\n" % number for number in range(6)) + b"\nbody\0",
    b"SEND\na:" + b"x" * 60 + b"\n\nbody\0",
    b"SENT\na:b\n\nbody\0",
)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("unusual", UNUSUAL)
def test_a_frame_in_one_piece_means_what_it_means_byte_by_byte(unusual: bytes, version: str) -> None:
    usual = b"SEND\na:b\nreceipt:1\n\nbody\0"
    data = usual + b"\n" + unusual + usual

    def heard(chunks: Iterable[bytes]) -> list[Frame | str]:
        parser = FrameParser(Limits(headers_max=5, header_line_bytes=50, body_bytes=20))
        parser.speak(version)
        told: list[Frame | str] = []
        try:
            for chunk in chunks:
                parser.feed(chunk)
                while (frame := parser.next_frame()) is not None:
                    told.append(frame)
        except ProtocolError as error:
            told.append(str(error))
        return told

    byte_by_byte = heard(data[place : place + 1] for place in range(len(data)))
    assert len(byte_by_byte) >= 2
    assert heard([data]) == byte_by_byte
