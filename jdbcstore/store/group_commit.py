"""Group commit: the one thread that commits, the same in every store that has one.

Every write is a `Unit` put into a queue and answered through its `Completion`. The thread takes whatever has arrived
while the last commit was under way and has it committed as one batch. There is no timer: a lone producer never waits
for company, sixteen share one disk flush. How a batch becomes durable is the store's affair (`CommitTarget.attempt`);
what becomes of those who wait for it is decided here.

Who learns what, and when:

* **Stored.** Completions are resolved after the batch is durable, in the order of submission, never before.
* **A bad write fails alone.** The store says which one it is (`GroupCommit.refuse`), or the batch is halved until the
  culprit stands alone; its neighbours are committed, in their order. Nothing is visible of a batch that failed. A unit
  of messages that need not be stored together (`Unit.divided`) is halved likewise.
* **What follows a write that failed fails, too.** Batches, and their halves, are tried in their order, so its outcome
  is known by then.
* **A full disk fails what needs room.** Removes that were in the same batch are committed: they make some.
* **There are three outcomes, not two.** From `GroupCommit.sending` until its attempt has ended a batch may be stored,
  whatever the store says. Only the store can find out; what it cannot find out is `OutcomeUnknown`.
* **Who is not master writes nothing.** After `LeaseLost` everything fails with it: a term that is over never comes
  back. So it is after a failure that leaves open what is stored (`GroupCommit.break_off`), until the next start.
* **A unit that has to be alone has a batch to itself**: it looks at what is stored before it changes it.
* **An add and its remove that both wait cancel out** (``concurrentStoreAndDispatchQueues``): the consumer is done with
  the message, so nobody will ever ask for it. Both are answered, with the batch the add would have been in. If the
  process dies before, the sender has heard nothing and sends again.
* **Nobody waits for ever.** `GroupCommit.abandon` tells everybody what is known, whatever the thread is stuck in.
"""

from __future__ import annotations

import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from time import perf_counter
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from jdbcstore.errors import (
    JdbcStoreError,
    LeaseLost,
    OutcomeUnknown,
    SchemaMismatch,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TransientStoreError,
)
from jdbcstore.store.commit_numbers import CommitNumbers
from jdbcstore.store.completion import Completion
from jdbcstore.store.refusals import Division, Refusals
from jdbcstore.store.write_queue import WriteQueue

__all__ = ["Abandoned", "BatchLimits", "CommitTarget", "GroupCommit", "IndependentAdds", "Unit"]

log = logging.getLogger(__name__)

_ABANDONED: Final = "the store was closed without waiting for this to be written"


class Abandoned(BaseException):
    """Everybody has been told by `GroupCommit.abandon`: the thread has nothing to do any more, and ends.

    No `Exception`: it passes whoever has to deal with failures, on its way out of the thread.
    """


class Unit(ABC):
    """One unit of work: all of it becomes durable, or none. The constructor of a subclass sets what is declared here.

    Attributes:
        completion: resolved with the outcome.
        result: what it is resolved with.
        follows: submitted before; this is done only if they succeed.
    """

    __slots__ = ("completion", "follows", "result")

    completion: Completion[Any]
    result: Any
    follows: Sequence[Completion[Any]]

    @property
    @abstractmethod
    def may_cancel(self) -> Sequence[int]:
        """The numbers of those messages that this adds and that their removes may cancel."""

    @property
    @abstractmethod
    def is_alone(self) -> bool:
        """Whether it has to have a batch to itself."""

    @property
    @abstractmethod
    def takes_room(self) -> bool:
        """Whether this leaves more in the store than there was."""

    @property
    @abstractmethod
    def weight(self) -> int:
        """How much of `BatchLimits.weight_max` it takes."""

    @property
    @abstractmethod
    def size(self) -> int:
        """About how many bytes it takes to the store."""

    @abstractmethod
    def cancel(self, numbers: Collection[int]) -> None:
        """Do not add these messages any more: their remove came while this was waiting."""

    @property
    def count(self) -> int:
        """How many writes of callers it stands for."""
        return 1

    def divided(self) -> Sequence[Unit]:
        """Its parts, as units that answer in its place, if each may be stored without the others; else none."""
        return ()

    def fail(self, error: JdbcStoreError) -> None:
        """Tell that it is not, or that nobody knows."""
        self.completion.fail(error)

    def let_down(self) -> TransientStoreError | None:
        """Why this cannot be done, if something that it follows has failed."""
        for earlier in self.follows:
            if earlier.error is not None:
                return TransientStoreError(f"not stored, because what it follows was not: {earlier.error}")
        return None


class IndependentAdds(Unit):
    """A unit that adds messages of one queue, each for itself. Its completion is resolved with the refusals."""

    __slots__ = ()

    completion: Completion[Refusals]

    @property
    def count(self) -> int:
        return len(self.may_cancel)

    def divided(self) -> Sequence[Unit]:
        division = Division(self.completion, self.count)
        return [self.part(place, division.part(number)) for place, number in enumerate(self.may_cancel)]

    @abstractmethod
    def part(self, place: int, completion: Completion[int]) -> Unit:
        """The unit that adds one of the messages, and is resolved with its number.

        Args:
            place: which one of those that are left.
            completion: told the outcome.
        """


U = TypeVar("U", bound=Unit)


class BatchLimits(NamedTuple):
    """How much one batch may be; one unit always fits.

    Args:
        weight_max: of the weights of its units.
        bytes_max: of their sizes.
        is_strict: whether the last unit may not go beyond `bytes_max`; it has a batch to itself then.
    """

    weight_max: int
    bytes_max: int
    is_strict: bool


class CommitTarget(ABC, Generic[U]):
    """Where batches go: a database, a journal. All this is called in the thread of its `GroupCommit`."""

    @abstractmethod
    def attempt(self, batch: Sequence[U]) -> Callable[[], object] | None:
        """Make a batch durable, all of it or nothing.

        `GroupCommit.sending` is called when it is about to become durable, `GroupCommit.refuse` before that for what
        the others can do without.

        Args:
            batch: in the order of submission. What is refused disappears from it.

        Returns:
            What is to be done before the senders are told, now that nothing can fail any more: keep counts. None if
            there is nothing. It is not called when the store was abandoned meanwhile.

        Raises:
            LeaseLost: we are not master any more; nothing is written from now on.
            OutcomeUnknown: perhaps it is durable.
            StoreFull: there is no room; what makes some is tried again without the rest.
            StoreError: it is not durable. If trying its halves may help (`fails_alone`) that is done.
            Abandoned: as `GroupCommit.sending`.
        """

    def fails_alone(self, error: StoreError) -> bool:
        """Whether an attempt may have failed because of one bad unit among good ones."""
        return not isinstance(error, TransientStoreError | OutcomeUnknown | StoreClosed | SchemaMismatch)

    def idle_s(self) -> float | None:
        """How long to wait for work before `look_after` is to be called, in seconds; None for ever."""
        return None

    def look_after(self) -> None:
        """Do what has its time, whatever arrives: called after each batch, and when nothing has come for `idle_s`."""

    def finish(self) -> None:
        """Everything that was submitted is done, and nothing more comes. Not called after `GroupCommit.abandon`."""

    def leave(self) -> None:
        """The thread ends, one way or the other."""


class GroupCommit(Generic[U]):
    """The queue, the thread, and the completions of writes.

    Args:
        target: where batches go.
        limits: of one batch.
        name: of the thread.
        cancels: whether an add and its remove that both wait cancel out.
    """

    def __init__(self, target: CommitTarget[U], limits: BatchLimits, name: str, *, cancels: bool) -> None:
        self._target = target
        self._limits = limits
        self._waiting: WriteQueue[U] = WriteQueue(cancels=cancels)
        #: How the thread is doing.
        self.numbers: Final = CommitNumbers()
        #: Why nothing is written any more; None while all is well.
        self.broken: JdbcStoreError | None = None
        # The batches of the thread. Whoever takes a unit out tells its sender: the thread, or `abandon`. The lock
        # makes looking and taking one step.
        self._telling = threading.Lock()
        self._in_hand: list[list[U]] = []
        #: Whether the current batch may be stored already. `sending` sets it; a target that finds out that it is not,
        #: says so here.
        self.is_sent = False
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # -- the callers' side ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, unit: U) -> None:
        """Hand a unit to the thread. The caller submits adds in the order of their numbers.

        Raises:
            StoreClosed: the store is stopping.
        """
        self._waiting.submit(unit)

    def submit_remove(self, numbers: Sequence[int], remove: Callable[[Sequence[int]], U]) -> None:
        """Hand over the remove of messages, as `WriteQueue.submit_remove`: those whose adds still wait are never
        written."""
        self._waiting.submit_remove(numbers, remove)

    def stop(self) -> None:
        """Commit what was submitted, then end the thread."""
        self._waiting.close()
        if self._thread.is_alive():
            self._thread.join()
        self._waiting.refuse(StoreClosed("the store was stopped before this was written"))

    def abandon(self) -> None:
        """Tell everybody what is known now, and end without waiting: the thread does nothing more that is seen.

        It sends no batch any more, and ends as soon as it is not stuck any longer.
        """
        with self._telling:
            self._abandoned.set()
            batches, self._in_hand = self._in_hand, []
            is_sent = self.is_sent
        self._waiting.close()
        for batch in batches:
            error: StoreError = StoreUnavailable(_ABANDONED)
            if is_sent:  # only the first can have been
                error, is_sent = OutcomeUnknown(f"{_ABANDONED}; it had been sent"), False
            for unit in batch:
                unit.fail(error)
        self._waiting.refuse(StoreUnavailable(_ABANDONED))

    def has_settled(self, timeout_s: float) -> bool:
        """Wait until nothing is committed any more after `abandon`; False when it still is after `timeout_s`."""
        if self.is_sent:
            self._thread.join(timeout_s)
        return not (self.is_sent and self._thread.is_alive())

    def has_ended(self, timeout_s: float) -> bool:
        """Wait until the thread is over; False when it still is not after `timeout_s`."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # -- the target's side, in the thread ------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Units that no batch has taken up yet, about."""
        return self._waiting.count

    @property
    def is_closing(self) -> bool:
        """Whether nothing is accepted any more: not the time to wait for better times."""
        return self._waiting.is_closed

    @property
    def is_abandoned(self) -> bool:
        """Whether everybody has been told already."""
        return self._abandoned.is_set()

    def pause(self, seconds: float) -> None:
        """Wait. Raises `Abandoned` as soon as everybody has been told."""
        if self._abandoned.wait(seconds):
            raise Abandoned

    def sending(self) -> None:
        """From here on the current batch may be stored.

        Raises:
            Abandoned: its senders were told that it is not. It must not be sent.
        """
        with self._telling:
            if self._abandoned.is_set():
                raise Abandoned
            self.is_sent = True

    def refuse(self, unit: U, error: JdbcStoreError) -> None:
        """Fail one unit of the batch that is being attempted and was not sent; it disappears from the batch.

        Raises:
            Abandoned: its sender has been told already.
        """
        with self._telling:
            if self._abandoned.is_set():
                raise Abandoned
            self._in_hand[0].remove(unit)
        unit.fail(error)

    def break_off(self, error: JdbcStoreError) -> None:
        """Write nothing from now on, because of this."""
        if self.broken is None:
            log.error("nothing is written any more until the store is started again error=%r", str(error))
        self.broken = error

    def refusal(self) -> JdbcStoreError:
        """What is told who wants to write although it is `broken`."""
        kind = LeaseLost if isinstance(self.broken, LeaseLost) else StoreUnavailable
        refusal = kind(str(self.broken))
        refusal.__cause__ = self.broken
        return refusal

    def commit_now(self, *batches: list[U]) -> None:
        """Commit batches, one after the other, whatever it takes, and resolve every completion in them.

        In the thread, or before it is started: ahead of all that waits.
        """
        groups = list(batches)
        with self._telling:
            abandoned = self._abandoned.is_set()
            if not abandoned:
                self._in_hand = groups
        if abandoned:
            for unit in (unit for batch in groups for unit in batch):
                unit.fail(StoreUnavailable(_ABANDONED))
            raise Abandoned
        while groups:
            self._commit_first(groups)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        target = self._target
        try:
            while True:
                try:
                    first = self._waiting.take(target.idle_s())
                except queue.Empty:
                    target.look_after()
                    continue
                if first is None:
                    break
                self.commit_now(*self._take(first))
                target.look_after()
            if not self._abandoned.is_set():
                target.finish()
        except Abandoned:
            pass
        finally:
            target.leave()

    def _take(self, first: U) -> list[list[U]]:
        """One batch: `first` and whatever else has arrived, within the limits. Behind it what needs one to itself."""
        units: list[U] = []
        batches = [units]
        weight, (weight_max, room, is_strict) = 0, self._limits
        unit: U | None = first
        while unit is not None:
            size = unit.size
            if unit.is_alone or (is_strict and units and size > room):
                batches.append([unit])
                break
            weight += unit.weight
            room -= size
            units.append(unit)
            if weight >= weight_max or room <= 0:
                break
            unit = self._waiting.take_more()
        return batches if units else batches[1:]

    def _commit_first(self, batches: list[list[U]]) -> None:
        """Commit the first of some batches, or put its parts in its place if they are to be tried apart."""
        batch = batches[0]
        began_s = perf_counter()
        try:
            # One after the other: what follows one that is let down here is let down, too.
            for unit in [unit for unit in batch if unit.follows]:
                if (let_down := unit.let_down()) is not None:
                    self.refuse(unit, let_down)
            if self.broken is not None:
                raise self.refusal()
            settle = self._target.attempt(batch) if batch else None
        except LeaseLost as error:
            if self.broken is None:
                log.warning("not master any more, nothing is written from now on error=%r", str(error))
                self.broken = error
            self._fail(batches, batch, error)
        except StoreError as error:
            self._divide(batches, batch, error)
        except Exception as error:  # whatever it is, nobody may wait for ever
            log.exception("defect in writing, nothing is written any more until the store is started again")
            self.break_off(StoreError(f"writing failed: {error!r}"))
            self._fail(batches, batch, OutcomeUnknown(f"writing failed: {error!r}"))
        else:
            self._take_out(batches)
            self.numbers.seconds.add(perf_counter() - began_s)
            self.numbers.writes.add(sum([unit.count for unit in batch]))
            self._tell(batch, settle)

    def _divide(self, batches: list[list[U]], batch: list[U], error: StoreError) -> None:
        """A batch has failed: try parts of it if that may help, else fail it."""
        if self._target.fails_alone(error):
            parts = batch if len(batch) > 1 else cast("list[U]", batch[0].divided())
            if parts:
                middle = len(parts) // 2
                self._take_out(batches, *filter(None, (parts[:middle], parts[middle:])))
                self.numbers.failures += 1
                return
        # What makes room is done also when there is none.
        removing = [unit for unit in batch if not unit.takes_room] if isinstance(error, StoreFull) else []
        failed = [unit for unit in batch if unit.takes_room] if removing else batch
        if not failed:
            failed, removing = batch, []
        log.warning("write failed writes=%d error=%r", len(failed), str(error))
        self._fail(batches, failed, error, *([removing] if removing else ()))

    def _fail(self, batches: list[list[U]], failed: Sequence[U], error: JdbcStoreError, *instead: list[U]) -> None:
        self._take_out(batches, *instead)
        self.numbers.failures += 1
        for unit in failed:
            unit.fail(error)

    def _tell(self, batch: list[U], settle: Callable[[], object] | None) -> None:
        """A batch is durable, and none of the thread's any more."""
        if settle is not None:
            try:
                settle()
            except Exception as error:  # it is stored, but who reads might be told otherwise
                log.exception(
                    "defect in keeping what a commit changed, nothing is written any more until a restart of the store"
                )
                self.break_off(StoreError(f"written, but what it changes could not be kept: {error!r}"))
        for unit in batch:
            unit.completion.resolve(unit.result)

    def _take_out(self, batches: list[list[U]], *instead: list[U]) -> None:
        """Put other batches in the place of the first. What is not in them any more is the caller's to tell."""
        with self._telling:
            if self._abandoned.is_set():
                raise Abandoned
            self.is_sent = False
            batches[:1] = instead
