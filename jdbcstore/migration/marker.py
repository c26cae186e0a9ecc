"""How far a copy has come.

It is kept in the target itself, as the number of a producer that nobody else is: it is committed together with the
messages. So whatever is interrupted, and in whatever kind of store, each message is there exactly once, and the next
run knows where to go on.
"""

from __future__ import annotations

import hashlib
from typing import Final

from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import ProducerId
from jdbcstore.migration.contents import MARKER
from jdbcstore.store.contract import Commit, PersistenceAdapter

__all__ = ["Marker"]

_GENERATIONS: Final = 1000


class Marker:
    """How far the copy of one store has come in another.

    Each time a migration begins in an empty target it has a new marker: a number of a producer never goes back.

    Args:
        adapter: the target.
        source: what tells this migration from others.
        has_begun: whether something is in the target.

    Raises:
        ConfigurationError: what is in the target is not what a migration from this source has left unfinished.
    """

    def __init__(self, adapter: PersistenceAdapter, source: str, *, has_begun: bool) -> None:
        self._adapter = adapter
        name = MARKER + hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        producers = [ProducerId(name, 0, generation) for generation in range(_GENERATIONS)]
        places: list[int] = []
        for one in producers:
            places.append(adapter.last_producer_sequence_id(one))
            if places[-1] < 0:
                break
        else:
            raise ConfigurationError(f"the target was migrated to {_GENERATIONS} times: take a new one")
        last = len(places) - 2
        self.producer: Final = producers[last if has_begun and last >= 0 else last + 1]
        self._over: Final = ProducerId(name, 1, self.producer.session_id)
        #: The place of the last message that was copied; -1 if nothing was begun.
        self.place: Final = places[last] if has_begun and last >= 0 else -1
        if has_begun and (last < 0 or adapter.last_producer_sequence_id(self._over) > 0):
            raise ConfigurationError(
                "the target is not empty"
                + (": this migration is complete" if last >= 0 else "")
                + ". Migrate into an empty store"
            )

    def begin(self) -> None:
        """From now on the copy is under way."""
        if self.place < 0:
            self._adapter.commit_together(Commit(producers={self.producer: 0})).result()

    def end(self) -> None:
        """It is complete: what is found in the target from now on belongs to its broker."""
        self._adapter.commit_together(Commit(producers={self._over: 1})).result()
