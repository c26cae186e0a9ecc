"""The journal of an AMQ store with what only its reference store tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.journal.amq.control_file import read_control_file
from jdbcstore.store.journal.amq.decoding import subscription_text
from jdbcstore.store.journal.amq.journal import FILE_BYTES_MAX, AMQDamage, AMQLocation, Journal, file_name
from jdbcstore.store.journal.amq.reference_store import read_reference_store
from jdbcstore.store.journal.commands import Command, Rollback, Subscription
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.records import CHUNK_BYTES, Damage, Record
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.state import State, StoredTransaction
from jdbcstore.subscription import SubscriptionKey

__all__ = ["JOURNAL", "StoreJournal", "told_by_the_reference_store"]

#: Of the journal, in the directory of the store.
JOURNAL: Final = "journal"
#: The reference store as a file of the journal: before all others.
_REFERENCE_STORE_FILE: Final = 0


class StoreJournal(Journal):
    """The journal of a store, behind the durable subscriptions of its reference store: brokers replay it that way.

    Args:
        directory: of the whole store.
    """

    def __init__(self, directory: Path | str) -> None:
        super().__init__(Path(directory) / JOURNAL)
        self.reference_store = read_reference_store(Path(directory))

    def records(self, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Record]:
        yield from self.subscriptions()
        yield from super().records(chunk_bytes=chunk_bytes)
        self.damages += self.lost()

    def lost(self) -> list[Damage]:
        """What was there, as the reference store and the control file tell: files that are gone, and the end of the
        journal.

        Raises:
            StoreError: a file cannot be read.
        """
        lost: list[Damage] = [
            AMQDamage(number, 0, 0, "the file is gone, and the reference store refers to messages in it")
            for number in sorted(self.reference_store.files - set(self.files))
            if self.reference_store.is_clean
        ]
        control = read_control_file(self.directory)
        if control is None or control.last is None:
            return lost
        number, offset, size, _ = control.last
        path = self.files.get(number)
        with reading(file_name(number)):
            there = 0 if path is None else path.stat().st_size
        if there < offset + size:
            lost.append(
                AMQDamage(number, there, offset + size, "the journal ends before its last record, see data-control")
            )
        return lost

    def subscriptions(self) -> Iterator[Record]:
        """The durable subscriptions of the reference store, as records in front of the first."""
        for place, (info, data) in enumerate(self.reference_store.subscriptions):
            if info.destination is not None:
                text = subscription_text(SubscriptionKey(info.client_id or "", info.subscription_name or ""))
                yield AMQLocation(_REFERENCE_STORE_FILE, place, 0), Subscription(info.destination, text, False, data)

    def correct(self, progress: Replay) -> list[Command]:
        """Apply, behind the last record, what a clean reference store knows better than the journal; what that was."""
        end = AMQLocation(max(self.files, default=0), FILE_BYTES_MAX, 0)
        corrections = self.corrections(progress.finish())
        progress.apply([(end, command) for command in corrections])
        return corrections

    def unreferred(self, state: State) -> set[int]:
        """Files with live messages that a clean reference store does not know: it was emptied."""
        if not self.reference_store.is_clean:
            return set()
        live = {message.location.file for stored in state.destinations.values() for message in stored.all()}
        return live - self.reference_store.files

    def corrections(self, state: State) -> list[Command]:
        """What a clean reference store knows better than a replay: subscriptions that ended, and transactions in doubt
        that were rolled back."""
        store = self.reference_store
        if not store.is_clean or store.damage is not None or self.unreferred(state):
            return []
        # Where its broker ended: what came behind is younger than the reference store.
        control = read_control_file(self.directory)
        last = (FILE_BYTES_MAX, 0) if control is None or control.last is None else control.last[:2]
        there = {(info.client_id, info.subscription_name, info.destination) for info, _ in store.subscriptions}
        gone: list[Command] = [
            Subscription(destination, text)
            for destination, stored in state.destinations.items()
            for text, one in stored.subscriptions.items()
            if (one.info.client_id, one.info.subscription_name, destination) not in there and one.location[:2] <= last
        ]
        if store.prepared is not None:
            gone += [
                Rollback(xid)
                for xid, one in state.prepared.items()
                if isinstance(xid, XATransactionId) and xid not in store.prepared and _begun(one) <= last
            ]
        return gone


def _begun(transaction: StoredTransaction) -> tuple[int, int]:
    """Where the first record of a transaction stands."""
    places = [location[:2] for _, _, location in transaction.added]
    return min([*places, *(location[:2] for location in transaction.acknowledged_at)], default=(0, 0))


def told_by_the_reference_store(state: State) -> list[Command]:
    """The durable subscriptions of a state that stand in no journal file any more, as they began."""
    return [
        Subscription(destination, text, False, one.info_bytes)
        for destination, stored in state.destinations.items()
        for text, one in stored.subscriptions.items()
        if one.location.file == _REFERENCE_STORE_FILE
    ]
