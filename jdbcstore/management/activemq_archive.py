"""The archives that ``activemq export`` (5.6 to 5.18) and ``activemq backup`` (since 5.19 and 6.2) write.

A tar file, in ActiveMQ compressed by gzip. Its members are numbered records; the name's ending says of which kind:

=========  =============================================================================================================
``N.ver``  the version of the form, ``1``
``N.que``  a queue, or a durable subscription: its key, its kind (``ptp`` or ``ds``), and JSON with its name
``N.msg``  a message: its key, and OpenWire
``N.qen``  which message is in which queue, and at which place
``N.map``  anything else, by names
=========  =============================================================================================================

All but the first are protocol buffers (ActiveMQ's ``data.proto``). ``export`` writes each behind its length, and a
message behind a flag for tight encoding and its version as a variable-length number; ``backup`` writes no length, and
the version as four bytes. Both are read, the first is written.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

from jdbcstore.destination import Destination, Queue
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.message import Message
from jdbcstore.openwire.codec import marshal, unmarshal_message
from jdbcstore.store.journal.leveldb.varints import varint

__all__ = ["ArchiveWriter", "ArchivedMessage", "archived_messages"]

#: Messages larger than any broker takes are damage.
_RECORD_BYTES_MAX: Final = 1 << 30
#: What `activemq export` writes.
_OPENWIRE_VERSION: Final = 8
_BLOCK: Final = tarfile.BLOCKSIZE
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

#: A record: its fields by number; those that are not known are left out by nobody.
Record = dict[int, int | bytes]


@dataclass(frozen=True, slots=True)
class ArchivedMessage:
    """A message of an archive.

    Args:
        message: the message; its destination is the queue that it was in.
        subscription: the client and name of the durable subscription that it was kept for; None for a queue's.
    """

    message: Message
    subscription: str | None


class ArchiveWriter:
    """Makes the bytes of an archive of one queue, a piece at a time, so that who writes may stop and go on.

    Args:
        queue: whose messages follow.
        records: how many records were written before; 0 at the beginning.
        messages: how many messages.
    """

    def __init__(self, queue: Destination, records: int = 0, messages: int = 0) -> None:
        self.records = records
        self.messages = messages
        self._queue = queue

    def piece(self, messages: list[Message]) -> bytes:
        """The next messages. Raises CodecError if one cannot be written."""
        written: list[bytes] = []
        if not self.records:
            name = json.dumps({"@class": "queue_destination", "name": self._queue.physical_name})
            queue: Record = {1: 1, 2: b"ptp", 3: name.encode()}
            written += self._member("ver", b"1"), self._member("que", _framed(queue))
        for message in messages:
            self.messages += 1
            size = message.size
            value = b"\0" + varint(_OPENWIRE_VERSION) + marshal(message, _OPENWIRE_VERSION)
            entry: Record = {1: 1, 2: self.messages, 3: self.messages, 4: size}
            if message.redelivery_counter:
                entry[6] = message.redelivery_counter
            if message.expiration:
                entry[7] = message.expiration << 1  # signed numbers are written so
            written.append(self._member("msg", _framed({1: self.messages, 2: b"openwire", 3: size, 4: value})))
            written.append(self._member("qen", _framed(entry)))
        return b"".join(written)

    @staticmethod
    def end() -> bytes:
        """What stands behind the last message."""
        return bytes(2 * _BLOCK)

    def _member(self, kind: str, data: bytes) -> bytes:
        info = tarfile.TarInfo(f"{self.records}.{kind}")
        info.size = len(data)
        self.records += 1
        return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % _BLOCK)


def archived_messages(source: IO[bytes]) -> Iterator[ArchivedMessage]:
    """The messages of an archive, in its order, one after the other.

    A message stands before the record that says where it was, so only one is kept at a time.

    Args:
        source: read from its beginning; what was compressed has to be decompressed.

    Raises:
        ConfigurationError: it is no such archive, or damaged; the text names the record.
        OSError, EOFError: as the source.
    """
    places: dict[int, tuple[Destination | None, str | None]] = {}
    waiting: dict[int, Message] = {}
    is_begun = False
    try:
        with tarfile.open(fileobj=source, mode="r|") as archive:
            for member in archive:
                kind = member.name.rpartition(".")[2]
                try:
                    data = _content(archive, member)
                    if kind == "ver":
                        is_begun = True
                        if data != b"1":
                            raise CodecError(f"version {data[:20]!r} of the form is not known, only 1 is")
                    elif kind == "que":
                        key, place = _place(_record(data))
                        places[key] = place
                    elif kind == "msg":
                        key, message = _message(_record(data))
                        waiting = {key: message}
                    elif kind == "qen":
                        yield _placed(_record(data), places, waiting)
                except CodecError as error:
                    raise ConfigurationError(f"record {member.name}: {error}") from error
    except tarfile.TarError as error:
        raise ConfigurationError(f"it is no archive of ActiveMQ, or damaged: {error}") from error
    if not is_begun:
        raise ConfigurationError("it is no archive of ActiveMQ: the record of its version is missing")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > _RECORD_BYTES_MAX:
        raise CodecError(f"a record of {member.size} bytes")
    file = archive.extractfile(member)
    data = b"" if file is None else file.read()
    if len(data) != member.size:
        raise CodecError(f"{member.size} bytes are announced, {len(data)} follow")
    return data


def _place(record: Record) -> tuple[int, tuple[Destination | None, str | None]]:
    """The key of a queue record, with the queue, or with None and the durable subscription."""
    kind = _bytes(record, 2)
    try:
        binding: dict[str, Any] = json.loads(_bytes(record, 3))
        name = str(binding["name"])
    except (ValueError, KeyError, TypeError) as error:
        raise CodecError(f"the name of a queue cannot be read: {error!r}") from error
    return _number(record, 1), (Queue(name), None) if kind == b"ptp" else (None, name)


def _message(record: Record) -> tuple[int, Message]:
    codec, value = _bytes(record, 2), _bytes(record, 4)
    if codec != b"openwire" or len(value) < 9:
        raise CodecError(f"a message in {codec[:20].decode('ascii', 'replace')!r}, only openwire is known")
    if value[0]:
        raise CodecError("a message in tight encoding; ActiveMQ's own tools write the loose one")
    if value[1:4] == b"\0\0\0":
        version, start = value[4], 5
    else:
        version, start = _read_varint(value, 1)
    end = start + 4 + int.from_bytes(value[start : start + 4], "big")  # what is behind it is left of a buffer
    return _number(record, 1), unmarshal_message(value[start:end], version)


def _placed(
    record: Record, places: dict[int, tuple[Destination | None, str | None]], waiting: dict[int, Message]
) -> ArchivedMessage:
    queue_key, message_key = _number(record, 1), _number(record, 3)
    if queue_key not in places or message_key not in waiting:
        raise CodecError(f"message {message_key} or queue {queue_key} is not in front of it")
    queue, subscription = places[queue_key]
    message = waiting.pop(message_key)
    if queue is not None:
        message.destination = queue
    return ArchivedMessage(message, subscription)


# -- protocol buffers --------------------------------------------------------------------------------------------------


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = 0
    for count, byte in enumerate(data[place : place + 10]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number, place + count + 1
    raise CodecError("a number does not end")


def _framed(record: Record) -> bytes:
    body = bytearray()
    for field, value in record.items():
        if isinstance(value, int):
            body += varint(field << 3 | _VARINT) + varint(value & (1 << 64) - 1)
        else:
            body += varint(field << 3 | _BYTES) + varint(len(value)) + value
    return varint(len(body)) + bytes(body)


def _record(data: bytes) -> Record:
    """A record, behind its length or without one. Raises CodecError."""
    try:
        length, place = _read_varint(data, 0)
        if place + length == len(data):
            return _fields(data[place:])
    except CodecError:
        pass  # it has no length
    return _fields(data)


def _fields(data: bytes) -> Record:
    record: Record = {}
    place = 0
    while place < len(data):
        tag, place = _read_varint(data, place)
        field, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            record[field], place = _read_varint(data, place)
        elif kind in (_BYTES, _FIXED64, _FIXED32):
            length, place = _read_varint(data, place) if kind == _BYTES else (8 if kind == _FIXED64 else 4, place)
            if place + length > len(data):
                raise CodecError(f"field {field} of {length} bytes, {len(data) - place} follow")
            record[field] = data[place : place + length]
            place += length
        if not field or kind not in (_VARINT, _BYTES, _FIXED64, _FIXED32):
            raise CodecError(f"field {field} of kind {kind} is none")
    if 1 not in record:
        raise CodecError("a record without a key")
    return record


def _number(record: Record, field: int) -> int:
    value = record.get(field)
    if not isinstance(value, int):
        raise CodecError(f"field {field} is missing, or no number")
    return value


def _bytes(record: Record, field: int) -> bytes:
    value = record.get(field, b"")
    if not isinstance(value, bytes):
        raise CodecError(f"field {field} is no text")
    return value
