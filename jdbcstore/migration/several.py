"""What is in a directory of several KahaDB stores (mKahaDB): what is in each of them, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import ProducerId, XATransactionId
from jdbcstore.migration.contents import Contents, Damages, PreparedContents, StoredHere
from jdbcstore.migration.journals import JournalContents, contents_of_journals, is_locked, may_open
from jdbcstore.store.contract import ScheduledJob
from jdbcstore.store.journal.kahadb.directory_kind import INDEX_ALONE, has_lost_its_journal
from jdbcstore.store.journal.mkahadb.filters import TX_STORE, stores_of
from jdbcstore.subscription import SubscriptionInfo

__all__ = ["SeveralContents", "contents_of_several"]


@contextmanager
def contents_of_several(
    directory: Path, scheduler: Path | None = None, *, skips_damage: bool = False
) -> Iterator[SeveralContents]:
    """The contents of several KahaDB stores as they are now. Each looks into ``txStore`` by itself.

    Args:
        directory: the one with ``txStore`` in it.
        scheduler: the directory of the scheduler's journal; None if there is none.
        skips_damage: whether what cannot be read is left out and listed.

    Raises:
        ConfigurationError: there is no store in it.
        StoreError: one cannot be read, or is damaged.
    """
    stores = stores_of(directory)
    if not stores:
        raise ConfigurationError(f"{directory} holds no KahaDB stores: give the directory with 'txStore' in it")
    outcomes = len(list((directory / TX_STORE).glob("db-*.log")))
    may_open(sum(len(list(path.glob("db-*.log"))) + outcomes for path in stores), directory)
    with ExitStack() as stack:
        opened: list[JournalContents] = []
        damages = Damages(are_skipped=skips_damage)
        for path in stores:
            if has_lost_its_journal(path):
                damages.meet(str(path), INDEX_ALONE)
                continue
            jobs = None if opened else scheduler  # there is one scheduler for all
            opened.append(stack.enter_context(contents_of_journals(path, jobs, skips_damage=skips_damage)))
        yield SeveralContents(directory, opened, damages)


class SeveralContents(Contents):
    """The contents of several stores. Made by `contents_of_several` only."""

    def __init__(self, directory: Path, stores: Sequence[JournalContents], damages: Damages) -> None:
        self.name = f"mkahadb:{directory}"
        self.is_live = is_locked(directory)
        self.damages = damages
        self.prioritized = frozenset[Destination]().union(*(one.prioritized for one in stores))
        self._stores = stores
        self._refuse_copies()
        for one in stores:
            self.damages.listed += one.damages.listed
            self.damages.unlisted += one.damages.unlisted
            one.damages = self.damages  # what is met from now on

    def _refuse_copies(self) -> None:
        """A destination may be in two stores, because filters were changed; a message may not."""
        places: dict[Destination, JournalContents] = {}
        for one in self._stores:
            for destination in one.destinations():
                other = places.setdefault(destination, one)
                if other is not one and one.message_ids(destination) & other.message_ids(destination):
                    raise ConfigurationError(
                        f"{other.name} and {one.name} have the same messages of {destination}: one of them is a copy,"
                        " move it elsewhere"
                    )

    def destinations(self) -> Mapping[Destination, int]:
        return _sums(one.destinations() for one in self._stores)

    def sizes(self) -> Mapping[Destination, int]:
        return _sums(one.sizes() for one in self._stores)

    def subscriptions(self) -> Sequence[SubscriptionInfo]:
        found = {(info.destination, info.key): info for one in self._stores for info in one.subscriptions()}
        return list(found.values())

    def messages(self) -> Iterator[StoredHere]:
        behind = 0
        for one in self._stores:
            last = 0
            for stored in one.messages():
                last = stored.place
                yield stored._replace(place=behind + last)
            behind += last + 1

    @property
    def in_doubt(self) -> Sequence[XATransactionId]:
        return list(dict.fromkeys(xid for one in self._stores for xid in one.in_doubt))

    def prepared(self) -> Sequence[PreparedContents]:
        found: dict[XATransactionId, PreparedContents] = {}
        for one in self._stores:
            for part in one.prepared():
                whole = found.setdefault(part.transaction_id, PreparedContents(part.transaction_id))
                whole.added += part.added
                whole.removed += part.removed
                whole.acknowledged += part.acknowledged
        return list(found.values())

    def jobs(self) -> Iterator[ScheduledJob]:
        for one in self._stores:
            yield from one.jobs()

    def producers(self) -> Mapping[ProducerId, int]:
        found: dict[ProducerId, int] = {}
        for one in self._stores:
            for producer, last in one.producers().items():
                found[producer] = max(last, found.get(producer, -1))
        return found


def _sums(parts: Iterable[Mapping[Destination, int]]) -> Mapping[Destination, int]:
    found: Counter[Destination] = Counter()
    for part in parts:
        found.update(part)
    return found
