"""Records of a LevelDB log and of its index: their bytes.

A record is ``'*'``, kind (int8), CRC-32 of the data (the plain one of zlib), length, data. Source of the format:
ActiveMQ's ``RecordLog`` and its ``records.proto``, as observed.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple
from zlib import crc32

from jdbcstore.errors import CodecError
from jdbcstore.openwire import unmarshal
from jdbcstore.openwire.commands import MessageAck
from jdbcstore.store.journal.leveldb import snappy
from jdbcstore.store.journal.leveldb.varints import (
    Malformed,
    fields,
    read_varint,
    signed,
    tagged_bytes,
    tagged_varint,
    varint,
)

__all__ = [
    "ACK_POSITION",
    "ADD_COLLECTION",
    "ADD_ENTRY",
    "DATA",
    "HEADER",
    "HEADER_BYTES",
    "KIND_NAMES",
    "QUEUE",
    "REMOVE_COLLECTION",
    "REMOVE_ENTRY",
    "SEQUENCE",
    "SUBSCRIPTION",
    "TOPIC",
    "TRACE",
    "TRANSACTION",
    "UNIT_END",
    "UPDATE_ENTRY",
    "CollectionRecord",
    "EntryRecord",
    "SubscriptionRecord",
    "XaAck",
    "collection_key",
    "framed",
    "message_bytes",
    "plain_entry",
    "removed_collection",
]

#: Kinds of records.
ADD_COLLECTION: Final = 1
REMOVE_COLLECTION: Final = 2
ADD_ENTRY: Final = 3
REMOVE_ENTRY: Final = 4
DATA: Final = 5
TRACE: Final = 6
UPDATE_ENTRY: Final = 7
UNIT_END: Final = -1
#: What people call them.
KIND_NAMES: Final = {
    ADD_COLLECTION: "AddCollection",
    REMOVE_COLLECTION: "RemoveCollection",
    ADD_ENTRY: "AddEntry",
    REMOVE_ENTRY: "RemoveEntry",
    DATA: "Data",
    TRACE: "Trace",
    UPDATE_ENTRY: "UpdateEntry",
}

#: Types of collections.
QUEUE: Final = 1
TOPIC: Final = 2
TRANSACTION: Final = 3
SUBSCRIPTION: Final = 4

#: The entry of a subscription that says up to where it has acknowledged.
ACK_POSITION: Final = b"p"

HEADER: Final = struct.Struct(">cbIi")
HEADER_BYTES: Final = HEADER.size
SEQUENCE: Final = struct.Struct(">q")
_XA_ACK: Final = struct.Struct(">qiqqq")
_SIZE: Final = struct.Struct(">i")
#: Type bytes of messages in OpenWire.
_MESSAGE_TYPES: Final = range(23, 30)


def framed(kind: int, data: bytes) -> bytes:
    """A record."""
    return HEADER.pack(b"*", kind, crc32(data), len(data)) + data


class CollectionRecord(NamedTuple):
    """A collection: a queue, a topic, a subscription, or a prepared transaction."""

    key: int
    type: int
    meta: bytes

    @classmethod
    def read(cls, data: bytes) -> CollectionRecord:
        """Raises `Malformed`."""
        key = kind = None
        meta = b""
        for number, value in fields(data):
            if number == 1 and isinstance(value, int):
                key = signed(value)
            elif number == 2 and isinstance(value, int):
                kind = value
            elif number == 3 and isinstance(value, bytes):
                meta = value
        if key is None or kind is None:
            raise Malformed("a collection without key or type")
        return cls(key, kind, meta)

    def written(self) -> bytes:
        """Its bytes."""
        return tagged_varint(1, self.key) + tagged_varint(2, self.type) + tagged_bytes(3, self.meta)


class SubscriptionRecord(NamedTuple):
    """A durable subscription: the meta of its collection. Names of destinations are qualified ones."""

    topic_key: int
    client_id: str
    subscription_name: str
    selector: str | None = None
    destination_name: str | None = None
    subscribed_destination_name: str | None = None

    @classmethod
    def read(cls, data: bytes) -> SubscriptionRecord:
        """Raises `Malformed`."""
        topic_key, texts = 0, dict[int, str]()
        try:
            for number, value in fields(data):
                if number == 1 and isinstance(value, int):
                    topic_key = signed(value)
                elif isinstance(value, bytes):
                    texts[number] = value.decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"a subscription with a text that is not UTF-8: {error}") from None
        return cls(topic_key, texts.get(2, ""), texts.get(3, ""), texts.get(4), texts.get(5), texts.get(6))

    def written(self) -> bytes:
        """Its bytes."""
        texts = [tagged_bytes(n, text.encode()) for n, text in enumerate(self[1:], 2) if text is not None]
        return tagged_varint(1, self.topic_key) + b"".join(texts)


class EntryRecord(NamedTuple):
    """An entry of a collection.

    Args:
        collection: the collection's key; 0 in the index, where the key of the entry tells it.
        key: of a queue, a topic or a transaction the sequence in eight bytes; ``p`` of a subscription.
        location: where the message stands; of ``p`` the last acknowledged sequence.
        length: of the message.
        meta: what a prepared transaction acknowledges, or how often a message was delivered.
    """

    collection: int
    key: bytes
    location: int | None = None
    length: int | None = None
    meta: bytes | None = None

    @classmethod
    def read(cls, data: bytes) -> EntryRecord:
        """Raises `Malformed`."""
        collection, key = 0, b""
        location_, length_, meta = None, None, None
        for number, value in fields(data):
            match number, value:
                case 1, int():
                    collection = signed(value)
                case 2, bytes():
                    key = value
                case 3, int():
                    location_ = signed(value)
                case 4, int():
                    length_ = value
                case 6, bytes():
                    meta = value
        return cls(collection, key, location_, length_, meta)

    def written(self, *, indexed: bool = False) -> bytes:
        """Its bytes in the log, or in the index."""
        out = b"" if indexed else tagged_varint(1, self.collection) + tagged_bytes(2, self.key)
        if self.location is not None:
            out += tagged_varint(3, self.location)
        if self.length is not None:
            out += tagged_varint(4, self.length)
        return out if self.meta is None else out + tagged_bytes(6, self.meta)


def plain_entry(data: bytes) -> tuple[int, int, int, int] | None:
    """An entry of a queue or a topic as it is nearly always written: collection, sequence, location and length, 0 if
    that is not told. None if it is any other; `EntryRecord.read` reads them all."""
    if data[:1] != b"\x08" or data[2:4] != b"\x12\x08" or data[12:13] != b"\x18" or data[1] > 0x7F:
        return None
    o, end, value, shift = 13, len(data), 0, 0
    found = [0, 0]
    for place in (0, 1):
        if place:
            if o == end:
                break
            if data[o] != 0x20:
                return None
            o, value, shift = o + 1, 0, 0
        while o < end and data[o] > 0x7F:
            value |= (data[o] & 0x7F) << shift
            shift += 7
            o += 1
        if o == end or shift > 56:
            return None
        found[place] = value | data[o] << shift
        o += 1
    return (data[1], int.from_bytes(data[4:12], "big"), found[0], found[1]) if o == end else None


class XaAck(NamedTuple):
    """What a prepared transaction removes or acknowledges.

    Args:
        location, length: of the message.
        collection: the key of its queue or topic.
        sequence: its own there; of a topic all before it are acknowledged, too.
        subscription: the key of the subscription's collection; -1 for a queue.
        ack: a marshalled MessageAck.
    """

    location: int
    length: int
    collection: int
    sequence: int
    subscription: int
    ack: bytes

    @classmethod
    def read(cls, data: bytes) -> XaAck:
        """Raises `Malformed`."""
        if len(data) < _XA_ACK.size:
            raise Malformed("an acknowledgement of a transaction is too short")
        location, length, collection, sequence, subscription = _XA_ACK.unpack_from(data)
        return cls(location, length, collection, sequence, subscription, data[_XA_ACK.size :])

    def written(self) -> bytes:
        """Its bytes."""
        return _XA_ACK.pack(*self[:5]) + self.ack

    def unmarshal(self) -> MessageAck:
        """The acknowledgement as it was sent. Raises `CodecError`."""
        ack = unmarshal(self.ack)
        if not isinstance(ack, MessageAck):
            raise CodecError("it is no acknowledgement")
        return ack


def removed_collection(data: bytes) -> int:
    """The key of a collection that is removed: a bare varint, though ActiveMQ's own replay expects a message.

    That replay ends at this record. Raises `Malformed`.
    """
    key, end = read_varint(data, 0)
    if end != len(data):
        key = next((value for number, value in fields(data) if number == 1 and isinstance(value, int)), 0)
    return signed(key)


def collection_key(key: int) -> bytes:
    """The data of a record that removes a collection."""
    return varint(key)


def message_bytes(data: bytes) -> tuple[bytes, bool]:
    """The marshalled message of a data record, and whether it is compressed there. Nothing in the log says so.

    Raises:
        CodecError: it is neither a message nor a Snappy block of one.
    """
    if _is_message(data):
        return data, False
    try:
        plain = snappy.decompress(data)
    except Malformed as error:
        raise CodecError(f"no message, and no Snappy block ({error})") from None
    if not _is_message(plain):
        raise CodecError("a Snappy block that holds no message")
    return plain, True


def _is_message(data: bytes) -> bool:
    return len(data) > 4 and _SIZE.unpack_from(data)[0] == len(data) - 4 and data[4] in _MESSAGE_TYPES
