"""What a format is to a whole store: besides the framing of its files, what its records say and what it has none for.

The parts of the store speak the commands of `jdbcstore.store.journal.commands` and never look at a byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from jdbcstore.destination import Destination
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.journal.commands import AddMessage, Command, UpdateMessage
from jdbcstore.store.journal.journal_format import JournalFormat, WriterOptions
from jdbcstore.store.journal.records import DirectoryJournal, Location
from jdbcstore.store.lease import LockerOptions
from jdbcstore.subscription import SubscriptionKey

__all__ = ["StoreFormat", "StoreOptions"]


class StoreFormat(JournalFormat[Location], Protocol):
    """A format that a store can be kept in."""

    @property
    def name(self) -> str:
        """As people call it."""

    @property
    def scheme(self) -> str:
        """As URLs call it."""

    @property
    def removes_destinations(self) -> bool:
        """Whether one record makes the brokers of this format forget a destination with all that is in it. Otherwise
        its messages are removed one by one."""

    def encode(self, command: Command) -> bytes:
        """The payload of a record (or of several, the command's own first), as `JournalFormat.batch` takes it.

        Raises:
            CodecError: it has something that the format cannot write.
        """

    def encode_again(self, update: UpdateMessage) -> bytes:
        """The payload for a message that brokers of the format do not know of, because an older one had its id, which
        is gone now."""

    def together(self, commands: Sequence[Command], payloads: Sequence[bytes]) -> list[bytes]:
        """Payloads of commands of one write, so that brokers of the format take them as a whole or not at all, too.

        A format whose brokers know batches changes nothing.
        """

    def marshal(self, message: Message, destination: Destination, wire_version: int) -> bytes:
        """The bytes of a message that is to be stored at a destination, for `AddMessage.message`.

        Raises:
            CodecError: it cannot be written.
        """

    def message(self, add: AddMessage) -> Message:
        """The message of a record. Raises `CodecError`."""

    def command_at(self, data: bytes, o: int, location: Location) -> Command:
        """The command of a record that was read.

        Args:
            data: with the record in it.
            o: where the record begins in it.
            location: of the record.

        Raises:
            JournalDamaged: there is no such record at this place.
        """

    def journal(self, directory: Path) -> DirectoryJournal:
        """The journal of a directory, to read. Raises `StoreError`."""

    def message_id(self, message_id: MessageId) -> str:
        """The id of a message as commands have it. Of foreign ids it tells as much as the format keeps."""

    def subscription_text(self, key: SubscriptionKey) -> str:
        """The key of a durable subscription in one text, as commands have it."""


class StoreOptions(WriterOptions, Protocol):
    """What a user may say about a store, by ActiveMQ's names (`jdbcstore.store.journal.kahadb.options`)."""

    @property
    def index_directory(self) -> str: ...
    @property
    def journal_max_write_batch_size_bytes(self) -> int: ...
    @property
    def archive_data_logs(self) -> bool: ...
    @property
    def directory_archive(self) -> str: ...
    @property
    def archive_corrupted_index(self) -> bool: ...
    @property
    def force_recover_index(self) -> bool: ...
    @property
    def checkpoint_interval_ms(self) -> int: ...
    @property
    def cleanup_interval_ms(self) -> int: ...
    @property
    def cleanup_on_stop(self) -> bool: ...
    @property
    def enable_ack_compaction(self) -> bool: ...
    @property
    def compact_acks_after_no_gc(self) -> int: ...
    @property
    def compact_acks_ignores_store_growth(self) -> bool: ...
    @property
    def index_cache_size_pages(self) -> int: ...
    @property
    def concurrent_store_and_dispatch_queues(self) -> bool: ...
    @property
    def purge_recovered_xa_transaction_strategy(self) -> str: ...
    @property
    def use_lock(self) -> bool: ...
    @property
    def store_open_wire_version(self) -> int: ...
    @property
    def message_bytes_max(self) -> int: ...
    @property
    def transaction_messages_max(self) -> int: ...
    @property
    def transaction_bytes_max(self) -> int: ...
    @property
    def producer_memory_s(self) -> float: ...
    @property
    def lock(self) -> LockerOptions:
        """Of the directory's locker."""

    def is_kept(self, queue: Destination) -> bool:
        """Whether a queue is to be known although it is empty."""
