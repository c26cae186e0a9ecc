"""The format of an AMQ store, as the engine asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from jdbcstore.destination import Destination
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.journal.amq import encoding
from jdbcstore.store.journal.amq.decoding import message_of, subscription_text
from jdbcstore.store.journal.amq.encoding import Payload
from jdbcstore.store.journal.amq.journal import (
    BATCH_HEAD_SIZE,
    FILE_BYTES_MAX,
    FILE_NUMBER_MAX,
    FILE_PATTERN,
    AMQLocation,
    Journal,
    JournalFile,
    batch_head,
    command_at,
    file_name,
    file_number,
)
from jdbcstore.store.journal.commands import AddMessage, Command, Trace, UpdateMessage
from jdbcstore.store.journal.journal_format import BatchPlace, FramedBatch, Tail
from jdbcstore.store.journal.records import Location
from jdbcstore.subscription import SubscriptionKey

__all__ = ["AMQ", "AMQFormat"]

_FILE_HEAD: Final = encoding.encode(Trace("jdbcstore file"))


class AMQFormat:
    """The AMQ store's `jdbcstore.store.journal.store_format.StoreFormat`."""

    name: Final = "an AMQ store"
    scheme: Final = "amq"
    removes_destinations: Final = False
    file_pattern: Final = FILE_PATTERN
    number_max: Final = FILE_NUMBER_MAX
    file_bytes_max: Final = FILE_BYTES_MAX
    end_mark: Final = b""
    #: A broker that replays stops where zeros begin, and does not start with an empty file.
    ends_with_data: Final = True
    uses_blank_files: Final = False
    file_head: Final = bytes(_FILE_HEAD)

    def file_name(self, number: int) -> str:
        """``data-<n>``."""
        return file_name(number)

    def file_number(self, name: str) -> int | None:
        """Of ``data-<n>``."""
        return file_number(name)

    def next_number(self, highest: int, number: int, end: int) -> int:
        """Files are counted."""
        return highest + 1

    def batch_size(self, payloads: Sequence[bytes]) -> int:
        """With the record in front."""
        return BATCH_HEAD_SIZE + sum(map(len, payloads))

    def batch(self, payloads: Sequence[bytes], size: int, number: int, offset: int) -> FramedBatch[Location]:
        """The record in front, and payloads as `jdbcstore.store.journal.amq.encoding` makes them."""
        offset += BATCH_HEAD_SIZE
        locations: list[Location] = []
        for payload in payloads:
            assert isinstance(payload, Payload)
            place, length = payload.main
            locations.append(AMQLocation(number, offset + place, length))
            offset += len(payload)
        content = b"".join(payloads)
        head = batch_head(content)
        return FramedBatch(bytearray(head + content), locations, int(head[-11:-3], 16))

    def tail(self, source: BinaryIO, number: int) -> Tail:
        """Read the batches of a file, but for their records."""
        last: BatchPlace | None = None
        file = JournalFile(source, number)
        for batch in file.batches():
            last = batch.place(number)
        return Tail(file.append_offset, last, tuple(file.damages), not file.has_zeros_behind(), False)

    def end_from(self, source: BinaryIO, number: int, start: int) -> int:
        """Read the batches from one on."""
        file = JournalFile(source, number, start=start)
        for _ in file.batches():
            pass
        return file.append_offset

    def encode(self, command: Command) -> Payload:
        """As `jdbcstore.store.journal.amq.encoding.encode`."""
        return encoding.encode(command)

    def encode_again(self, update: UpdateMessage) -> Payload:
        """As `jdbcstore.store.journal.amq.encoding.encode_again`."""
        return encoding.encode_again(update)

    def together(self, commands: Sequence[Command], payloads: Sequence[bytes]) -> list[bytes]:
        """As `jdbcstore.store.journal.amq.encoding.together`."""
        return encoding.together(commands, payloads)

    def marshal(self, message: Message, destination: Destination, wire_version: int) -> bytes:
        """As `jdbcstore.store.journal.amq.encoding.marshal_message`."""
        return encoding.marshal_message(message, destination)

    def message(self, add: AddMessage) -> Message:
        """As `jdbcstore.store.journal.amq.decoding.message_of`."""
        return message_of(add)

    def command_at(self, data: bytes, o: int, location: Location) -> Command:
        """As `jdbcstore.store.journal.amq.journal.command_at`."""
        return command_at(data, o, location)

    def journal(self, directory: Path) -> Journal:
        """Of ``data-<n>``."""
        return Journal(directory)

    def message_id(self, message_id: MessageId) -> str:
        """Producer and number: OpenWire of that time has no room for the text of a foreign one."""
        return f"{message_id.producer_id}:{message_id.producer_sequence_id}"

    def subscription_text(self, key: SubscriptionKey) -> str:
        """Told apart whatever is in it."""
        return subscription_text(key)


AMQ: Final = AMQFormat()
