"""What becomes of messages that are added in one go, each for itself (`MessageStore.add_messages`)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from jdbcstore.errors import JdbcStoreError
from jdbcstore.store.completion import Completion

__all__ = ["NOTHING_REFUSED", "Division", "Refusals"]

#: Why some of the messages are not stored, by their sequences.
Refusals: TypeAlias = Mapping[int, JdbcStoreError]
NOTHING_REFUSED: Final[Refusals] = MappingProxyType({})


class Division:
    """The outcome of a write whose messages are tried one by one, because it failed as a whole.

    Args:
        completion: of the write. Resolved with the refusals when the last message is answered; it fails if none was
            stored.
        count: how many messages there are.
    """

    def __init__(self, completion: Completion[Refusals], count: int) -> None:
        self._completion = completion
        self._count = self._remaining = count
        self._refusals: dict[int, JdbcStoreError] = {}
        # Who abandons a store tells of some in another thread than the one that tells of the others.
        self._counting = threading.Lock()

    def part(self, sequence: int) -> Completion[int]:
        """The completion for the message with this sequence."""
        completion: Completion[int] = Completion()
        completion.add_done_callback(partial(self._ended, sequence))
        return completion

    def _ended(self, sequence: int, part: Completion[int]) -> None:
        error = part.error
        with self._counting:
            self._remaining -= 1
            if isinstance(error, JdbcStoreError):
                self._refusals[sequence] = error
            is_over = not self._remaining
        if not is_over:
            return
        if len(self._refusals) < self._count:
            self._completion.resolve(self._refusals)
        else:
            self._completion.fail(next(iter(self._refusals.values())))
