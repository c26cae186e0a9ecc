"""ActiveMQ's archives, byte by byte: both forms, and what is damaged."""

from __future__ import annotations

import io
import tarfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.management.activemq_archive import ArchiveWriter, archived_messages
from jdbcstore.message import Message, TextMessage
from jdbcstore.openwire.codec import marshal


def message(number: int, text: str = "hello") -> Message:
    producer = ProducerId("ID:a-1-1:1", 1, 1)
    made = TextMessage(message_id=MessageId(producer, number), producer_id=producer, destination=Queue("A"))
    made.text = text
    return made


def read(data: bytes) -> list[str]:
    return [str(found.message.message_id) for found in archived_messages(io.BytesIO(data))]


def tar(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_an_archive_that_was_stopped_goes_on() -> None:
    whole = ArchiveWriter(Queue("A"))
    at_once = whole.piece([message(1), message(2), message(3)])
    first = ArchiveWriter(Queue("A"))
    begun = first.piece([message(1)])
    rest = ArchiveWriter(Queue("A"), first.records, first.messages).piece([message(2), message(3)])
    assert begun + rest == at_once
    assert len(read(at_once + whole.end())) == 3


def test_records_of_newer_releases_have_no_length() -> None:
    value = b"\0" + (11).to_bytes(4, "big") + marshal(message(7), 11) + b"left of a buffer"
    record = b"\x08\x01\x12\x08openwire\x18\x64\x22" + bytes([len(value) & 0x7F | 0x80, len(value) >> 7]) + value
    name = b'{"@class":"queue_destination","name":"NEW"}'
    queue = b"\x08\x01\x12\x03ptp\x1a" + bytes([len(name)]) + name
    entry = b"\x08\x01\x10\x01\x18\x01\x20\xe0\x07"  # nine bytes, which may be taken for a length of eight
    data = tar(("0.ver", b"1"), ("1.que", queue), ("2.msg", record), ("3.qen", entry))
    (found,) = archived_messages(io.BytesIO(data))
    assert (str(found.message.destination), found.subscription) == ("queue://NEW", None)
    assert str(found.message.message_id) == "ID:a-1-1:1:1:1:7"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "no archive of ActiveMQ"),
        (b"no archive" * 100, "no archive of ActiveMQ"),
        (tar(("a.txt", b"1")), "version is missing"),
        (tar(("0.ver", b"2")), "version b'2'"),
        (tar(("0.ver", b"1"), ("1.que", b"\x08")), "record 1.que"),
        (tar(("0.ver", b"1"), ("1.qen", b"\x08\x01\x10\x01\x18\x01")), "is not in front of it"),
    ],
)
def test_what_is_no_archive_is_told(data: bytes, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        read(data)


_WRITER = ArchiveWriter(Queue("A"))
_WHOLE = _WRITER.piece([message(number, "x" * number) for number in range(1, 6)]) + _WRITER.end()


@given(st.integers(0, len(_WHOLE) - 1), st.integers(1, 255))
def test_damage_is_an_error_or_nothing_but_never_a_defect(place: int, change: int) -> None:
    damaged = bytearray(_WHOLE)
    damaged[place] ^= change
    with suppress(ConfigurationError):
        read(bytes(damaged))


@given(st.integers(0, len(_WHOLE) - 1025))
def test_an_archive_that_ends_early_has_no_messages_that_were_not_there(length: int) -> None:
    try:
        found = read(_WHOLE[:length])
    except ConfigurationError:
        return
    assert found == read(_WHOLE)[: len(found)]
