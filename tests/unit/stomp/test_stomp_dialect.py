"""Dialects: how each version reads and writes header lines."""

from __future__ import annotations

import pytest

from jdbcstore.stomp import VERSIONS, serialise
from jdbcstore.stomp.dialect import UNCONNECTED, Dialect, dialect_of
from jdbcstore.stomp.frames import FrameParser


def header(version: str, line: bytes) -> dict[str, str]:
    """The headers of a frame with this one line."""
    parser = FrameParser()
    parser.speak(version)
    parser.feed(b"SEND\n" + line + b"\n\n\0")
    frame = parser.next_frame()
    assert frame is not None
    return frame.headers


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("line", "value"),
    [
        (rb"x:a\cb", "a:b"),
        (rb"x:a\nb", "a\nb"),
        (rb"x:a\\b", "a\\b"),
        (rb"x:a\\cb", "a\\cb"),
        (rb"x:\\\n\c", "\\\n:"),
        (rb"x:C:\temp", r"C:\temp"),
        (b"x:end\\", "end\\"),
        (rb"x:\\\q", r"\\q"),
        ("x:é\U0001f600".encode(), "é\U0001f600"),
        (b"x:\xff", "\ufffd"),
        (b"x:", ""),
    ],
)
def test_values_are_unescaped_in_every_version(version: str, line: bytes, value: str) -> None:
    assert header(version, line) == {"x": value}


@pytest.mark.parametrize(("version", "value"), [("1.0", "a\\rb"), ("1.1", "a\\rb"), ("1.2", "a\rb")])
def test_only_1_2_knows_the_escape_of_cr(version: str, value: str) -> None:
    assert header(version, rb"x:a\rb") == {"x": value}
    assert header(version, rb"x:a\rb\\") == {"x": value + "\\"}


@pytest.mark.parametrize(("version", "value"), [("1.0", "v"), ("1.1", " v \t"), ("1.2", " v \t")])
def test_only_1_0_trims_values(version: str, value: str) -> None:
    assert header(version, b"x: v \t") == {"x": value}


def test_1_0_trims_what_java_trims() -> None:
    assert header("1.0", "x:\x01 v\u00a0 ".encode()) == {"x": "v\u00a0"}


@pytest.mark.parametrize("version", VERSIONS)
def test_names_are_taken_literally(version: str) -> None:
    assert header(version, rb" a\cb :x") == {r" a\cb ": "x"}


@pytest.mark.parametrize(("version", "value"), [("1.0", "v"), ("1.1", "v\r"), ("1.2", "v")])
def test_only_1_1_keeps_the_cr_of_a_header_line(version: str, value: str) -> None:
    assert header(version, b"x:v\r") == {"x": value}


@pytest.mark.parametrize(
    ("version", "line"),
    [("1.0", b"x:a:\\b c\rd"), ("1.1", b"x:a\\c\\\\b\\nc\rd"), ("1.2", b"x:a\\c\\\\b\\nc\\rd")],
)
def test_values_are_escaped_as_the_version_wants(version: str, line: bytes) -> None:
    written = serialise("MESSAGE", {"x": "a:\\b\nc\rd"}, version=version)
    assert written == b"MESSAGE\n" + line + b"\n\n\0\n"


@pytest.mark.parametrize(("version", "line"), [("1.0", b"x:a:b"), ("1.1", b"x:a\\cb"), ("1.2", b"x:a\\cb")])
def test_colons_alone(version: str, line: bytes) -> None:
    assert serialise("MESSAGE", {"x": "a:b"}, version=version) == b"MESSAGE\n" + line + b"\n\n\0\n"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("evil", ["\n\nbody\0\nERROR\n\n\0", "a:b\nc", "\0"])
def test_no_header_can_break_the_frame(version: str, evil: str) -> None:
    written = serialise("MESSAGE", {"x": evil, evil: "x"}, b"", version)
    head, _, rest = written.partition(b"\n\n")
    assert rest == b"\0\n"
    assert head.count(b"\n") == 2
    assert b"\0" not in head


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert serialise("MESSAGE", {"x": "\ud800"}) == b"MESSAGE\nx:?\n\n\0\n"


def test_what_is_remembered_is_bounded() -> None:
    dialect = Dialect("1.2", lines_max=10)
    lines = dialect.decode_line.__self__  # type: ignore[attr-defined]  # the dictionary behind the bound method
    for number in range(100):
        assert dialect.decode_line(b"x:%d" % number) == ("x", str(number))
        assert len(lines) <= 10
    long = b"x:" + b"v" * 1000
    assert dialect.decode_line(long) == ("x", "v" * 1000)
    assert long not in lines


def test_a_remembered_line_is_decoded_once() -> None:
    dialect = dialect_of("1.2")
    assert dialect.decode_line(b"x:remembered") is dialect.decode_line(b"x:remembered")


def test_passwords_are_not_remembered() -> None:
    UNCONNECTED.decode_line(b"passcode:secret")
    lines = UNCONNECTED.decode_line.__self__  # type: ignore[attr-defined]  # the dictionary behind the bound method
    assert not lines


@pytest.mark.parametrize("version", VERSIONS)
def test_a_colon_in_a_name_is_escaped(version: str) -> None:
    assert serialise("MESSAGE", {"a:b": "x"}, version=version) == b"MESSAGE\na\\cb:x\n\n\0\n"
