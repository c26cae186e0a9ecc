"""What every journal does with a batch, in the thread that commits: made up, proved, appended, forced to the disk.

What a journal adds to the rules of group commit:

* **Stored** is what the disk has (as ``journalDiskSyncStrategy`` says), when pages have it.
* **A bad write** is found out while the batch is made up, so nothing is tried twice because of it.
* **A full disk**: the batch is undone.
* **Not forced to the disk: nobody knows.** The senders of the batch are told `OutcomeUnknown`, and nothing is written
  or read any more until the store is started again: then the journal tells what the disk has.
* **Who is not master writes nothing.** Every batch proves the mastership, before it is written and before it is
  answered.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from jdbcstore.errors import (
    LeaseLost,
    MessageTooLarge,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
    TransientStoreError,
)
from jdbcstore.store.completion import Completion
from jdbcstore.store.group_commit import BatchLimits, CommitTarget, GroupCommit
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.store_format import StoreOptions
from jdbcstore.store.journal.writes import Sized, Write

__all__ = ["BatchCommitter"]

#: Parts in one batch; more would keep the first senders waiting.
_PARTS_MAX: Final = 4000

P = TypeVar("P", bound=Sized)
L = TypeVar("L")


class BatchCommitter(CommitTarget[Write[P]], Generic[P, L]):
    """Writes batches to a journal, in the thread of its `GroupCommit`. A kind of journal derives from it.

    Args:
        writer: of the journal, open.
        options: lengths of batches.
        prove: raises `LeaseLost` if we are not master; called before each batch is written and before it is answered.
        let_go: called when nothing is written any more.
    """

    def __init__(
        self,
        writer: JournalWriter[L],
        options: StoreOptions,
        prove: Callable[[], object],
        let_go: Callable[[], object],
    ) -> None:
        self._writer = writer
        self._prove = prove
        self._let_go = let_go
        limits = BatchLimits(_PARTS_MAX, options.journal_max_write_batch_size_bytes, is_strict=True)
        cancels = options.concurrent_store_and_dispatch_queues
        self.commits: Final[GroupCommit[Write[P]]] = GroupCommit(self, limits, "jdbcstore-committer", cancels=cancels)
        #: As `GroupCommit` says.
        self.submit: Final = self.commits.submit
        self.submit_remove: Final = self.commits.submit_remove
        self.has_ended: Final = self.commits.has_ended

    def start(self) -> None:
        """Start the thread."""
        self.commits.start()

    def stop(self) -> None:
        """Commit what was submitted, write the index, then end the thread."""
        self.commits.stop()

    def abandon(self) -> None:
        """As `GroupCommit.abandon`."""
        self.commits.abandon()

    def require_sound(self) -> None:
        """Raise why the store cannot be used any more, if so."""
        broken = self.commits.broken
        if broken is not None and not isinstance(broken, LeaseLost):
            raise StoreUnavailable(str(broken)) from broken

    def write(self, *parts: P, is_alone: bool = False, undo: Callable[[], object] | None = None) -> Completion[None]:
        """Submit a write of these parts; without any it is done when everything before it is.

        Args:
            parts: what is to be done, in this order.
            is_alone: whether it needs a batch to itself.
            undo: called when it was not done.
        """
        completion: Completion[None] = Completion()
        self.submit(Write(completion, parts=parts, is_alone=is_alone, undo=undo))
        return completion

    def run(self, task: Callable[[], object]) -> None:
        """Do something in the thread, behind everything submitted before, and wait for it. Raises what it raises."""
        completion: Completion[None] = Completion()
        self.submit(Write(completion, is_alone=True, task=task))
        completion.result()

    @abstractmethod
    def remove_unneeded_files(self) -> list[int]:
        """Remove files of the journal that are not needed, and tell which. In the thread."""

    # -- in the thread -------------------------------------------------------------------------------------------

    def leave(self) -> None:
        if self.commits.is_abandoned:
            self._writer.abandon()
        self._let_go()

    def _make_up(self, batch: Sequence[Write[P]], take: Callable[[Write[P]], object]) -> None:
        """Have the writes of a batch say which records they take. Who raises `StoreError` is refused: it is alone, or
        its first part says so, so that no record of it was taken."""
        for write in list(batch):
            let_down = write.let_down() if write.follows else None  # by one that was refused just now
            if let_down is not None:
                self.commits.refuse(write, let_down)
                continue
            try:
                take(write)
            except StoreError as error:
                self.commits.refuse(write, error)

    def _prove_or_break(self) -> None:
        try:
            self._prove()
        except LeaseLost as error:
            self.commits.break_off(error)
            raise

    def _write(self, records: Sequence[bytes]) -> Sequence[L]:
        """Append records and force them to the disk; where they stand."""
        try:
            places = self._writer.append(records)
        except (TransientStoreError, MessageTooLarge):
            raise  # it is undone
        except StoreError as error:
            self.commits.break_off(error)
            raise OutcomeUnknown(str(error)) from error
        try:
            self._writer.sync()
            self._prove()
        except (StoreError, LeaseLost) as error:
            self.commits.break_off(error)
            raise OutcomeUnknown(f"written, but not surely: {error}") from error
        return places
