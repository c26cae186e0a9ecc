"""How the thread that commits is doing: how many commits, how long they take, how much each of them carries.

Kept by that thread alone, and read by others without a lock: a reader may see a commit in one number and not yet in
the next.
"""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

from jdbcstore.store.histogram import Histogram

__all__ = ["CommitNumbers", "CountsCommits"]

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_WRITES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


class CommitNumbers:
    """The numbers of one store since it was opened.

    Attributes:
        seconds: how long each commit took, from its beginning until it was durable.
        writes: how many writes were in it.
        failures: batches that were not committed, or not in one piece.
    """

    __slots__ = ("failures", "seconds", "writes")

    def __init__(self) -> None:
        self.seconds = Histogram(_SECONDS)
        self.writes = Histogram(_WRITES)
        self.failures = 0


@runtime_checkable
class CountsCommits(Protocol):
    """A store with a thread that commits."""

    @property
    def commit_numbers(self) -> CommitNumbers | None:
        """How it is doing; None while the store is closed."""

    @property
    def writes_waiting(self) -> int:
        """Writes that no commit has taken up yet."""
