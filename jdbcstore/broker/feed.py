"""What the broker itself publishes for somebody, no faster than subscribers and the store take it.

A client that publishes is not read while a subscriber of a topic does not keep up, or while much of it has no answer of
the store. What the broker has to tell has no such client: it waits by itself.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from jdbcstore.broker.slices import Slices
from jdbcstore.message import Message

__all__ = ["Feed", "Paced"]

log = logging.getLogger(__name__)

#: What may be on its way to the store.
_UNANSWERED_BYTES_MAX: Final = 1 << 20


class Paced(ABC):
    """Something that publishes, step by step, and waits as long as anybody holds it back; a `Publisher`."""

    def __init__(self) -> None:
        self._holds = self._unanswered_bytes = 0
        self._is_full = self._is_waiting = False

    @abstractmethod
    def go_on(self) -> None:
        """Do the next steps, each unless `waits` says no."""

    def waits(self) -> bool:
        """Whether the next step has to wait; `go_on` is called when it has to no more."""
        self._is_waiting = self._holds > 0
        return self._is_waiting

    def hold(self) -> None:
        """Wait. Holds add up."""
        self._holds += 1

    def let_go(self) -> None:
        """Take one hold back."""
        self._holds -= 1
        if self._is_waiting and not self._holds:
            self._is_waiting = False
            self.go_on()

    def sending(self, message: Message) -> Callable[[BaseException | None], None]:
        """A message is going to be published; returns what has to be told of the outcome."""
        size = message.size
        self._unanswered_bytes += size
        if self._unanswered_bytes >= _UNANSWERED_BYTES_MAX and not self._is_full:
            self._is_full = True
            self.hold()
        return partial(self._sent, size)

    def _sent(self, size: int, error: BaseException | None) -> None:
        if error is not None:  # who asked hears nothing of it
            log.warning("what somebody has asked for could not be sent error=%r", str(error))
        self._unanswered_bytes -= size
        if self._is_full and self._unanswered_bytes < _UNANSWERED_BYTES_MAX // 2:
            self._is_full = False
            self.let_go()


class Feed(Paced):
    """A job that publishes.

    Args:
        slices: where it is done.
        done: called when it is done, also after a defect.
    """

    def __init__(self, slices: Slices, done: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._slices = slices
        self._done = done
        self._job: Iterator[None] = iter(())
        self._is_over = False

    def run(self, job: Iterator[None]) -> None:
        """Begin; once.

        Args:
            job: publishes in the name of this feed, and yields behind each message.
        """
        self._job = job
        self._slices.run(self._until_held(), self._paused)

    def go_on(self) -> None:
        """Publish more, in a later turn of the loop."""
        self._slices.go_on(self._until_held(), self._paused)

    def _until_held(self) -> Iterator[None]:
        while not self.waits():
            try:
                next(self._job)
            except StopIteration:
                self._is_over = True
                return
            yield

    def _paused(self) -> None:
        if self._is_over:
            self._done()
        elif not self._is_waiting:  # a defect has ended the job
            self.go_on()
