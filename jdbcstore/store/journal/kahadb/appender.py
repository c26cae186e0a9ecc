"""Writing to a KahaDB journal: the engine's writer, with batches as brokers write them.

A batch is a control record with an Adler-32 checksum, the records, and the end record behind them, which the next batch
overwrites.

No file is continued behind copies of an ack compaction of ActiveMQ: a broker that has to rebuild its index leaves out
what stands behind them as long as the copied file exists.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from jdbcstore.destination import Destination
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.openwire import marshal
from jdbcstore.store.disk import Disk
from jdbcstore.store.journal.commands import COMMANDS, AddMessage, Command, RewrittenDataFile, UpdateMessage
from jdbcstore.store.journal.journal_format import BatchPlace, FramedBatch, Tail
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.kahadb.encoding import encode
from jdbcstore.store.journal.kahadb.journal import (
    CONTROL,
    CONTROL_HEAD,
    END_RECORD,
    FILE_NUMBER_MAX,
    FILE_PATTERN,
    USER_RECORD,
    Journal,
    JournalFile,
    KahaDBLocation,
    Location,
    command_at,
    file_name,
    file_number,
)
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.known import subscription_text
from jdbcstore.store.lease import Clock, boot_time_ns
from jdbcstore.subscription import SubscriptionKey

__all__ = ["KAHADB", "Appender", "KahaDBFormat"]

_HEADER: Final = struct.Struct(">ib")
_ROOM_FOR_CONTROL: Final = bytes(CONTROL.size)
#: Offsets are ints of Java.
_FILE_BYTES_MAX: Final = (1 << 31) - 1
_MARKER: Final = COMMANDS.index(RewrittenDataFile)


class KahaDBFormat:
    """KahaDB's `jdbcstore.store.journal.store_format.StoreFormat`."""

    name: Final = "KahaDB"
    scheme: Final = "kahadb"
    removes_destinations: Final = True
    file_pattern: Final = FILE_PATTERN
    number_max: Final = FILE_NUMBER_MAX
    file_bytes_max: Final = _FILE_BYTES_MAX
    end_mark: Final = END_RECORD
    ends_with_data: Final = False
    uses_blank_files: Final = True
    file_head: Final = b""

    def file_name(self, number: int) -> str:
        """``db-<n>.log``."""
        return file_name(number)

    def file_number(self, name: str) -> int | None:
        """Of ``db-<n>.log``."""
        return file_number(name)

    def next_number(self, highest: int, number: int, end: int) -> int:
        """Files are counted."""
        return highest + 1

    def batch_size(self, payloads: Sequence[bytes]) -> int:
        """With a control record, and a header for each record."""
        return CONTROL.size + _HEADER.size * len(payloads) + sum(map(len, payloads))

    def batch(self, payloads: Sequence[bytes], size: int, number: int, offset: int) -> FramedBatch[Location]:
        """A control record, records, and the end record; payloads as `jdbcstore.store.journal.kahadb.encoding.encode`
        makes them."""
        offset += CONTROL.size
        parts: list[bytes] = [_ROOM_FOR_CONTROL]
        locations: list[Location] = []
        for payload in payloads:
            length = len(payload) + _HEADER.size
            parts += (_HEADER.pack(length, USER_RECORD), payload)
            locations.append(KahaDBLocation(number, offset, length))
            offset += length
        parts.append(END_RECORD)
        data = bytearray().join(parts)
        checksum = zlib.adler32(memoryview(data)[CONTROL.size : size])
        CONTROL.pack_into(data, 0, CONTROL_HEAD, size - CONTROL.size, checksum)
        return FramedBatch(data, locations, checksum)

    def tail(self, source: BinaryIO, number: int) -> Tail:
        """Read the batches of a file, but for their records."""
        last: BatchPlace | None = None
        has_marker = False
        file = JournalFile(source, number)
        for batch in file.batches():
            last = batch.place(number)
            has_marker = has_marker or batch.data[batch.start + _HEADER.size] == _MARKER
        return Tail(file.append_offset, last, tuple(file.damages), file.is_blank_behind(), has_marker)

    def end_from(self, source: BinaryIO, number: int, start: int) -> int:
        """Read the batches from one on."""
        file = JournalFile(source, number, start=start)
        for _ in file.batches():
            pass
        return file.append_offset

    def encode(self, command: Command) -> bytes:
        """As `jdbcstore.store.journal.kahadb.encoding.encode`."""
        return encode(command)

    def encode_again(self, update: UpdateMessage) -> bytes:
        """An update like any other: brokers add what they do not know."""
        return encode(update)

    def together(self, commands: Sequence[Command], payloads: Sequence[bytes]) -> list[bytes]:
        """Nothing to do: a batch is there as a whole or not at all."""
        return list(payloads)

    def marshal(self, message: Message, destination: Destination, wire_version: int) -> bytes:
        """As it is."""
        return marshal(message, wire_version)

    def message(self, add: AddMessage) -> Message:
        """As it is."""
        return add.unmarshal()

    def command_at(self, data: bytes, o: int, location: Location) -> Command:
        """As `jdbcstore.store.journal.kahadb.journal.command_at`."""
        return command_at(data, o, location)

    def journal(self, directory: Path) -> Journal:
        """Of ``db-<n>.log``."""
        return Journal(directory)

    def message_id(self, message_id: MessageId) -> str:
        """Its text."""
        return str(message_id)

    def subscription_text(self, key: SubscriptionKey) -> str:
        """As brokers write it."""
        return subscription_text(key)


KAHADB: Final = KahaDBFormat()


class Appender(JournalWriter[Location]):
    """Writes batches to the journal of a KahaDB directory. Not for several threads at once.

    Args:
        directory: where the ``db-<n>.log`` are; made if it is not there. Nobody else writes to it (the lock).
        options: lengths of files, how they are allocated, when they are forced to the disk.
        disk: what writes; a test watches it.
        clock: for ``PERIODIC``.
    """

    def __init__(
        self,
        directory: Path | str,
        options: KahaDBOptions | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock = boot_time_ns,
    ) -> None:
        super().__init__(directory, KAHADB, options or KahaDBOptions(), disk=disk, clock=clock)
