"""What happened in a run: what clients tried and heard, what was done to the brokers, what the database wrote down.

A history is all that the checker knows. It is kept in memory and saved as one JSON object a line, so that a run can be
checked again, and read by people.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import NamedTuple

__all__ = ["Event", "History", "Left", "Takeover", "What", "Write"]


class What(StrEnum):
    """What an event is about. The first group is told by clients, the second by the harness, the third by brokers."""

    CONNECT = "connect"  # CONNECT is about to be sent
    CONNECTED = "connected"
    CLOSED = "closed"  # `text` says why; empty: the client had nothing more to do
    SEND = "send"  # tried; `mark` is the transaction, if it is part of one
    RECEIPT = "receipt"  # of a send
    COMMIT = "commit"  # tried; `mark` is the transaction
    COMMITTED = "committed"
    ABORTED = "aborted"
    DELIVERED = "delivered"  # `mark` is the message id, `text` is "again" when the broker says that it is redelivered
    ACK = "ack"  # tried; `mark` as above
    ACKED = "acked"
    REFUSED = "refused"  # the broker said ERROR
    FAULT = "fault"  # begins
    HEALED = "healed"  # the fault is over, service has not resumed yet
    RESUMED = "resumed"  # a send that was tried after the fault is receipted
    LAUNCHED = "launched"  # `mark` is the process id
    GONE = "gone"  # the process has ended; `text` says how
    PAUSED = "paused"
    PROCEEDS = "proceeds"
    STATE = "state"  # `text` is the new state, `mark` the process id


class Event(NamedTuple):
    """Something that happened at a time.

    Args:
        at: seconds of the monotonic clock, the same for every process of this machine.
        what: see `What`.
        broker: which one it is about.
        line: which connection of which client, such as ``p01#3``.
        message: which message, such as ``p01|0000017``.
        queue: where it was sent to or came from.
        mark, text: see `What`.
        term: of the mastership that a broker is in.
        waited_s: for how long the broker's event loop has waited for a processor since its start, as far as known.
    """

    at: float
    what: What
    broker: str = ""
    line: str = ""
    message: str = ""
    queue: str = ""
    mark: str = ""
    text: str = ""
    term: int = 0
    waited_s: float = 0.0


class Write(NamedTuple):
    """What was done to a row of the message table and committed, as the database saw it.

    Args:
        number: grows in the order in which rows were written, which is not always that of commits.
        op: ``+`` the row was added, ``~`` changed, ``-`` removed.
        row: ID of the row.
        term, holder: of the last takeover that was committed when the row was written.
        writer: the broker and process whose session wrote it, such as ``b0/4711``.
        session: what the session is called; where it has no name, its holder's name if the session has his lock.
        message: which message the row holds, empty if it is none of ours.
        queue: its container.
        at: when, on the monotonic clock; accurate to some milliseconds.
        history: the name of the data's history, as `Dialect.history` means it; empty where there is only one.
    """

    number: int
    op: str
    row: int
    term: int
    holder: str
    writer: str
    session: str
    message: str
    queue: str
    at: float
    history: str = ""


class Takeover(NamedTuple):
    """A new term, as the database saw it begin.

    Args:
        term, holder: what began.
        low: number of the last write that the takeover before this one has seen.
        high: number of the last write that was committed when this one took its locks.
        seen: how many of the writes behind `low` were committed then.
        at: when, on the monotonic clock; accurate to some milliseconds.
    """

    term: int
    holder: str
    low: int
    high: int
    seen: int
    at: float


class Left(NamedTuple):
    """A message that was still stored at the end."""

    message: str
    mark: str
    queue: str


@dataclass
class History:
    """One run.

    Args:
        deduplicates: whether the brokers recognise a message that is sent again under the same identity.
        names_sessions: whether writing sessions are named by their holder.
    """

    deduplicates: bool = True
    names_sessions: bool = True
    events: list[Event] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    takeovers: list[Takeover] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    #: How many events of each kind there are, and when the last one was.
    counts: Counter[What] = field(default_factory=Counter)
    last: dict[What, float] = field(default_factory=dict)

    def record(
        self,
        what: What,
        *,
        broker: str = "",
        line: str = "",
        message: str = "",
        queue: str = "",
        mark: str = "",
        text: str = "",
        term: int = 0,
        waited_s: float = 0.0,
    ) -> float:
        """Something happens now. Returns the time. May be called from any thread."""
        at = time.monotonic()
        self.add(Event(at, what, broker, line, message, queue, mark, text, term, waited_s))
        return at

    def add(self, event: Event) -> None:
        """Something happened; `sort` puts it where it belongs."""
        self.events.append(event)
        self.counts[event.what] += 1
        self.last[event.what] = event.at

    def sort(self) -> None:
        """Order the events by time, the writes by number."""
        self.events.sort(key=lambda event: event.at)
        self.writes.sort()
        self.takeovers.sort()

    def save(self, path: Path) -> None:
        """Write everything down."""
        with path.open("w") as file:
            print(json.dumps([self.deduplicates, self.names_sessions]), file=file)
            for row in chain[tuple[object, ...]](self.events, self.writes, self.takeovers, self.left):
                print(json.dumps([type(row).__name__, *row]), file=file)

    @classmethod
    def load(cls, path: Path) -> History:
        """Read what `save` wrote."""
        with path.open() as file:
            history = cls(*json.loads(file.readline()))
            for line in file:
                kind, *values = json.loads(line)
                if kind == "Event":
                    at, what, *rest = values
                    history.add(Event(at, What(what), *rest))
                elif kind == "Write":
                    history.writes.append(Write(*values))
                elif kind == "Takeover":
                    history.takeovers.append(Takeover(*values))
                else:
                    history.left.append(Left(*values))
        return history
