"""Journals made by hand, byte by byte, and those of the vectors."""

from __future__ import annotations

import json
import struct
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jdbcstore.destination import Destination, Queue, TempQueue, TempTopic, Topic
from jdbcstore.identifiers import LocalTransactionId, MessageId, TransactionId, XATransactionId
from jdbcstore.message import TextMessage
from jdbcstore.openwire import marshal
from jdbcstore.store.journal.commands import COMMANDS, AddMessage, Command, RemoveMessage
from jdbcstore.store.journal.kahadb.blank_index import blank_index

VECTORS = Path(__file__).parents[2] / "vectors" / "kahadb"
END = b"-qMa4"
CONTROL_BYTES = 28


def unpack(name: str, folder: Path) -> dict[str, Any]:
    """Unpack a directory of the vectors; what ActiveMQ found in it."""
    with _opened(VECTORS / f"{name}.tar.xz") as archive:
        archive.extractall(folder)
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text("utf-8"))
    return expected


def unpack_index(name: str, folder: Path) -> None:
    """Unpack the index of such a directory, too; brokers were stopped in order where there is one."""
    with _opened(VECTORS.with_name("kahadb-indexes.tar.xz")) as archive:
        members = [member for member in archive.getmembers() if member.name.startswith(f"{name}/")]
        assert members
        for member in members:
            member.name = member.name.partition("/")[2]
            archive.extract(member, folder)


def index_page(
    last_update: tuple[int, int], first_in_progress: tuple[int, int] | None = None, *, closed: bool = True
) -> bytes:
    """An index that knows no destination.

    Args:
        last_update: file and offset of the last record that is in it.
        first_in_progress: of the first record of the transactions that were open.
        closed: whether its broker was stopped in order.
    """
    blank = blank_index(11)
    header = blank[:4096] if closed else blank[:4096].replace(b"cleanShutdown=true", b"cleanShutdown=no  ")
    in_progress = b"\0" if first_in_progress is None else struct.pack(">?ii", True, *first_in_progress)
    metadata = struct.pack(">iq?ii", 1, 1, True, *last_update) + in_progress + struct.pack(">?i?i", False, 7, False, 11)
    page = struct.pack(">bqqi", 2, 1, 21 + len(metadata), 0) + metadata
    return header + page.ljust(4096, b"\0") + blank[8192:]


def _opened(path: Path) -> tarfile.TarFile:
    archive = tarfile.open(path)  # noqa: SIM115  # the caller's
    # Python 3.11.2, which is Debian's, has no filters yet, and 3.12 warns of who names none.
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    return archive


# --- commands ---------------------------------------------------------------------------------------------------------


def add(
    number: int,
    where: Destination = Queue("A"),  # noqa: B008  # it is frozen
    *,
    transaction: TransactionId | None = None,
    text: str = "",
    **more: Any,
) -> AddMessage:
    """A message that unmarshals."""
    message_id = f"ID:host-1-1-1:1:1:1:{number}"
    message = TextMessage(message_id=MessageId.parse(message_id), destination=where)
    message.text = text or f"text {number}"
    return AddMessage(transaction, where, message_id, marshal(message), **more)


def remove(
    number: int,
    where: Destination = Queue("A"),  # noqa: B008  # it is frozen
    key: str | None = None,
    *,
    transaction: TransactionId | None = None,
    ack: bytes | None = None,
) -> RemoveMessage:
    """The removal of that message; with a key, by that subscription."""
    return RemoveMessage(transaction, where, f"ID:host-1-1-1:1:1:1:{number}", ack, key)


# --- protobuf ---------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """A number as protobuf writes it; ten bytes if it is negative."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: object) -> bytes:
    """One field; nothing for None."""
    match value:
        case None:
            return b""
        case bool() | int():
            return varint(number << 3) + varint(int(value))
        case str():
            data = value.encode()
        case bytes():
            data = value
        case Destination():
            kind = (Queue, Topic, TempQueue, TempTopic).index(type(value))
            data = field(1, kind) + field(2, value.physical_name)
        case LocalTransactionId():
            connection = None if value.connection_id is None else value.connection_id.value
            data = field(1, field(1, connection) + field(1, value.value))
        case XATransactionId():
            parts = (value.format_id, value.branch_qualifier, value.global_transaction_id)
            data = field(2, b"".join(field(i, part) for i, part in enumerate(parts, 1)))
        case AddMessage():
            data = fields(value)
        case _:
            raise AssertionError(value)
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(command: Command) -> bytes:
    """A command without its number and length."""
    return b"".join(field(number, value) for number, value in enumerate(command, 1))


# --- files ------------------------------------------------------------------------------------------------------------


def record(command: Command | bytes, kind: int = 1) -> bytes:
    """A record with a command, or with any bytes."""
    if isinstance(command, bytes):
        payload = command
    else:
        body = fields(command)
        payload = bytes([COMMANDS.index(type(command))]) + varint(len(body)) + body
    return struct.pack(">ib", 5 + len(payload), kind) + payload


def batch(*commands: Command | bytes, checksum: int | None = None) -> bytes:
    """A batch of records."""
    records = b"".join(record(command) for command in commands)
    return control(records, checksum) + records


def control(records: bytes, checksum: int | None = None) -> bytes:
    """The control record before these records."""
    checksum = zlib.adler32(records) if checksum is None else checksum
    return struct.pack(">ib11siq", CONTROL_BYTES, 2, b"WRITE BATCH", len(records), checksum)


def write(folder: Path, files: Mapping[int, Sequence[Command]], *, end: bytes = END) -> Path:
    """A directory of journal files, each command a batch of its own."""
    for number, commands in files.items():
        data = b"".join(batch(command) for command in commands)
        (folder / f"db-{number}.log").write_bytes(data + end)
    return folder
