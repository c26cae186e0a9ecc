"""What only this store needs to know, as Trace records: their text begins with ``jdbcstore``, and brokers ignore them.

=========================  ============================================================================
``sequences 5+3 9``        the messages that this batch makes visible or prepares get 5, 6, 7 and 9; without it they go
                           on behind the last one
``message 7``              the next record is about the message of this sequence, one of several with its id
``producer 5 ID:a:1:1``    how far a producer came that numbers its messages itself, if no message shows it
``still 5 ID:a:1:1``       the same, written again because the record that showed it goes
``producers forgotten``    what was known of producers does not count any more
``known 0:A``              the destination is to be known although it is empty
``released 0:A``           not any more
``copied 3``               in the scheduler's journal: the next three records are copies of jobs
``acknowledges 1 2``       the next acknowledgements are copies, and of messages in these files
``compacted 3``            all acknowledgements of this file that are needed were copied
``unknown all``            nor is any other, but those that are named after it
=========================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from jdbcstore.store.journal.commands import Trace

__all__ = [
    "PREFIX",
    "Remarked",
    "acknowledges",
    "compacted",
    "copied",
    "forgotten",
    "known",
    "message",
    "of_trace",
    "producer",
    "released",
    "sequences",
    "sequences_of",
    "still",
    "unknown",
]

PREFIX: Final = "jdbcstore "


def sequences(numbers: Iterable[int]) -> Trace:
    """The sequences of a batch, in the order of its records."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][0] + runs[-1][1] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return _trace("sequences", " ".join(str(first) if many == 1 else f"{first}+{many}" for first, many in runs))


def sequences_of(text: str) -> list[int]:
    """The other way round. Raises ValueError when the text is something else."""
    found: list[int] = []
    for run in text.split():
        first, _, many = run.partition("+")
        found += range(int(first), int(first) + int(many or 1))
    return found


def message(sequence: int) -> Trace:
    """Which message is meant."""
    return _trace("message", str(sequence))


def producer(name: str, last: int) -> Trace:
    """How far a producer came."""
    return _trace("producer", f"{last} {name}")


def still(name: str, last: int) -> Trace:
    """How far a producer came, although it was not heard of again."""
    return _trace("still", f"{last} {name}")


def forgotten() -> Trace:
    """No producer is known."""
    return _trace("producers", "forgotten")


def known(name: str) -> Trace:
    """A destination is to be known."""
    return _trace("known", name)


def released(name: str) -> Trace:
    """Not any more."""
    return _trace("released", name)


def copied(jobs: int) -> Trace:
    """Copies of so many jobs follow."""
    return _trace("copied", str(jobs))


def unknown() -> Trace:
    """No destination is to be known although it is empty."""
    return _trace("unknown", "all")


def acknowledges(files: Iterable[int]) -> Trace:
    """Copies of acknowledgements follow."""
    return _trace("acknowledges", " ".join(map(str, sorted(files))))


def compacted(file: int) -> Trace:
    """A file is not needed for its acknowledgements."""
    return _trace("compacted", str(file))


def of_trace(trace: Trace) -> tuple[str, str] | None:
    """What it says and about what; None when it is a broker's."""
    if trace.message is None or not trace.message.startswith(PREFIX):
        return None
    what, _, about = trace.message[len(PREFIX) :].partition(" ")
    return what, about


@dataclass(slots=True)
class Remarked:
    """What the remarks of a journal come to, for who reads it without the index.

    Args:
        known: destinations that are to be known although they are empty, by their names in the journal.
        producers: how far they came.
    """

    known: dict[str, None] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)

    def take(self, trace: Trace) -> None:
        """Take note of the next trace record, whoever wrote it."""
        match of_trace(trace):
            case "known", name:
                self.known[name] = None
            case "released", name:
                self.known.pop(name, None)
            case "unknown", _:
                self.known.clear()
            case "producer" | "still", about:
                last, _, producer = about.partition(" ")
                if last.isdecimal():
                    self.producers[producer] = max(int(last), self.producers.get(producer, -1))
            case "producers", _:
                self.producers.clear()


def _trace(what: str, about: str) -> Trace:
    return Trace(f"{PREFIX}{what} {about}")
