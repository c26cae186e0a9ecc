"""What waits for the thread that commits: where group commit begins, in every store that has such a thread.

A write is either taken by the thread, or refused when the store stops. If the add of a message still waits when its
remove comes, neither is done. Each is answered once, and in the order of their submission.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Generic, Protocol, TypeVar

from jdbcstore.errors import StoreClosed, StoreError

__all__ = ["Submitted", "WriteQueue"]


class Submitted(Protocol):
    """What a write has to know and to do."""

    @property
    def may_cancel(self) -> Sequence[int]:
        """The numbers of those messages that this adds and that their removes may cancel."""

    def cancel(self, numbers: Collection[int]) -> None:
        """Do not add these."""

    def fail(self, error: StoreError) -> None:
        """Tell that it is not done."""


W = TypeVar("W", bound=Submitted)


class WriteQueue(Generic[W]):
    """Writes in the order of their submission.

    Args:
        cancels: whether an add and its remove that both wait cancel out (``concurrentStoreAndDispatchQueues``).
    """

    def __init__(self, *, cancels: bool) -> None:
        #: Whether nothing is accepted any more.
        self.is_closed = False
        self._refusal: StoreError | None = None
        self._queue: queue.SimpleQueue[W | None] = queue.SimpleQueue()
        self._cancels = cancels
        # Adds that the thread has not taken yet, by number. Whoever takes one out decides what becomes of it: the
        # thread commits it, `submit_remove` cancels it. The lock makes taking it out and saying so one step.
        self._cancelling = threading.Lock()
        self._adds: dict[int, W] = {}

    # -- producers and consumers ---------------------------------------------------------------------------------

    def submit(self, write: W) -> None:
        """Put a write at the end.

        Raises:
            StoreClosed: the store is stopping.
        """
        if self.is_closed:
            self._require_open()
        if self._cancels:
            for number in write.may_cancel:
                self._adds[number] = write
        self._queue.put(write)
        if self._refusal is not None:
            self._refuse_late()

    def submit_remove(self, numbers: Sequence[int], remove: Callable[[Sequence[int]], W]) -> None:
        """The same for the remove of some messages. Of those whose adds still wait neither is done.

        Args:
            numbers: the messages.
            remove: makes the write that removes those that are left, perhaps none.
        """
        if not self._cancels:
            self.submit(remove(numbers))
            return
        with self._cancelling:
            # Nothing may be cancelled when the store is stopped: its remove would not be done, and its add neither.
            self._require_open()
            adds = self._adds
            waiting = {number: adds[number] for number in numbers if number in adds} if adds else {}
            left = [number for number in numbers if number not in waiting] if waiting else numbers
            self._queue.put(remove(left))  # though it be empty: it is answered behind the adds
            for number in waiting:
                del adds[number]
            for add in set(waiting.values()):  # they stay in the queue, and are answered in their places
                add.cancel(waiting.keys())
        self._refuse_late()

    def _require_open(self) -> None:
        if self.is_closed:
            raise StoreClosed("the store is stopped: nothing can be written any more")

    def _refuse_late(self) -> None:
        if self._refusal is not None:  # since just now; what was put last was not seen by `refuse`
            self._refuse_all(self._refusal)

    # -- the thread ----------------------------------------------------------------------------------------------

    def take(self, timeout_s: float | None = None) -> W | None:
        """Wait for the next write; None at the end.

        Raises:
            queue.Empty: nothing came.
        """
        return self._taken(self._queue.get(timeout=timeout_s))

    def take_more(self) -> W | None:
        """The next write if one waits already. At the end there is none, and `take` tells."""
        try:
            write = self._queue.get_nowait()
        except queue.Empty:
            return None
        if write is None:
            self._queue.put(None)
        return self._taken(write)

    def _taken(self, write: W | None) -> W | None:
        if write is not None and (numbers := write.may_cancel):
            with self._cancelling:
                for number in numbers:
                    self._adds.pop(number, None)
        return write

    # -- the end -------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many wait, about."""
        return self._queue.qsize()

    def close(self) -> None:
        """Accept nothing any more; the thread takes what is there, and then the end."""
        with self._cancelling:
            self.is_closed = True
            self._queue.put(None)

    def refuse(self, error: StoreError) -> None:
        """Fail what nobody will take any more; of two errors the first counts."""
        self.is_closed = True
        self._refusal = self._refusal or error
        self._refuse_all(self._refusal)

    def _refuse_all(self, error: StoreError) -> None:
        with self._cancelling:
            self._adds.clear()
        with contextlib.suppress(queue.Empty):
            while True:
                late = self._queue.get_nowait()
                if late is not None:
                    late.fail(error)
        self._queue.put(None)  # the thread's, it may have been among them
