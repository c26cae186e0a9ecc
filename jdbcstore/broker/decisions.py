"""How distributed transactions were decided, for clients that repeat themselves after a failover.

A client that loses its broker while it commits a prepared branch repeats all of it: begin, messages, first and second
phase. Done again it would be stored twice. So the outcome is remembered, by the store, since the next broker may be the
one that is asked.

A store remembers how far producers came (`jdbcstore.store.contract.Commit`), and these outcomes are kept as that: two
numbers, of two of a fixed count of names that stand for producers. Which two says the transaction's id. In each is the
time of the decision, which keeps a later one higher, and a part of what the id comes to, by which it is recognised. The
count of names bounds what is kept; an outcome is forgotten when one of another transaction takes its place, after a
minute or more with hundreds of decisions a second.

The numbers are written before the outcome. So of a transaction that has them and is in doubt the outcome is not stored,
and it is decided again; one that is not in doubt had this outcome.

A Java broker on the same store remembers no outcomes, and neither does a store without our tables. There the messages
tell (`is_committed_by`): those of a branch appear together, so if one of them is there the branch was committed.
Nothing is concluded from messages that are not there: they may have been consumed, or the branch was never prepared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from jdbcstore.identifiers import MessageId, ProducerId, XATransactionId
from jdbcstore.store.contract import MessageStore, PersistenceAdapter

__all__ = ["is_committed_by", "marks_of", "outcome_in", "places_of"]

_PLACES: Final = 1 << 14
#: The first millisecond of 2020: from there on 41 bits last until 2089.
_EPOCH_MS: Final = 1_577_836_800_000
_PART_BITS: Final = 22
_PART: Final = (1 << _PART_BITS) - 1


def _digest(transaction_id: XATransactionId) -> int:
    # Its text may be that of another one, too.
    parts = (transaction_id.global_transaction_id, transaction_id.branch_qualifier)
    text = f"{transaction_id.format_id} {' '.join((part or b'').hex() for part in parts)}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


def places_of(transaction_id: XATransactionId) -> tuple[ProducerId, ProducerId]:
    """The two names under which the outcome of a transaction is remembered."""
    place = _digest(transaction_id) % _PLACES
    return ProducerId(f"decided:{place}", 0, 0), ProducerId(f"decided:{place}", 1, 0)


def _parts(transaction_id: XATransactionId, *, is_commit: bool) -> tuple[int, int]:
    bits = _digest(transaction_id) // _PLACES
    return (bits & (_PART - 1)) | is_commit, (bits >> _PART_BITS) & _PART


def marks_of(transaction_id: XATransactionId, now_ms: int, *, is_commit: bool) -> dict[ProducerId, int]:
    """What is to be remembered of a decision.

    Args:
        transaction_id: what is decided.
        now_ms: epoch milliseconds.
        is_commit: how.
    """
    time = max(0, now_ms - _EPOCH_MS) << _PART_BITS
    parts = _parts(transaction_id, is_commit=is_commit)
    return {place: time | part for place, part in zip(places_of(transaction_id), parts, strict=True)}


def outcome_in(transaction_id: XATransactionId, numbers: Sequence[int]) -> bool | None:
    """Whether a transaction was committed; None if nothing is remembered of it.

    Args:
        transaction_id: which.
        numbers: what is remembered under `places_of`, -1 for nothing.
    """
    first, second = numbers
    if min(numbers) < 0 or first >> _PART_BITS != second >> _PART_BITS:
        return None
    for is_commit in (True, False):
        if (first & _PART, second & _PART) == _parts(transaction_id, is_commit=is_commit):
            return is_commit
    return None


def is_committed_by(adapter: PersistenceAdapter, sent: Sequence[tuple[MessageStore, MessageId]]) -> bool:
    """Whether one of the messages of a transaction that its client repeats is stored: it was committed then. Blocks.

    Args:
        adapter: the broker's store.
        sent: where each of them has its place, and its id.

    Raises:
        StoreError: they cannot be read.
    """
    came: dict[ProducerId, int] = {}
    for store, message_id in reversed(sent):  # the last ones are there longest
        producer_id, number = message_id.producer_id, message_id.producer_sequence_id
        if producer_id is None:
            continue
        if producer_id not in came:
            came[producer_id] = adapter.last_producer_sequence_id(producer_id)
        # How far the producer came proves nothing: it may have gone on in another branch, before this was prepared.
        if number <= came[producer_id] and store.get_message(MessageId(producer_id, number)) is not None:
            return True
    return False
