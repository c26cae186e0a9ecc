"""How far a stream has come, such that no message is passed over although ids become visible out of order.

A broker gives a message its number when it arrives and commits it later, so a row may appear below rows that were read
long ago; a Java broker with several connections does this all the time, and a stream that remembered only the highest
id lost a tenth of the messages in a trial. So an offset has, beside the id up to which everything was read, the gaps
below it: ids without a row, whose rows may still come. Rows above a gap are read at once; only the gap waits.

**Batches.** An offset stands for the set of all ids up to ``id`` that are in no gap. A batch is what its end has and
its start has not, so the same two offsets mean the same batch whenever they are asked about.

**A gap is closed** when it is settled: some id above it was seen `settleDelay` ago. Then its numbers were given out
before that, and whoever has not committed them since never will: a transaction was rolled back, or the message was
acknowledged. Time is what one process has measured with a clock that only goes forward. Neither the computer's clock
nor the database's is asked, so no jump of theirs loses a message; what a former process has waited for does not count,
so after a restart gaps wait anew. A row of a prepared XA transaction keeps its gap until the transaction is decided.

**Ids that begin again.** A broker that starts on an empty store numbers from 1. What is above the highest id in the
table at any moment is new whenever it appears, whatever was read there before. So when the highest id falls below the
offset, what is above it counts as unread: the offset then names another *numbering* and the *base* it began at.

Nothing here asks a database or looks at a clock: see `View`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.spark.intervals import Interval, clipped, joined, without

__all__ = ["GAPS_MAX", "LAST_ID", "Offset", "Progress", "View", "batch_of", "unread_before"]

#: The largest id.
LAST_ID: Final = (1 << 63) - 1
#: The most gaps in an offset. Where there are more, an offset does not get ahead until some of them are closed.
GAPS_MAX: Final = 256
#: When so many ids were passed over that have nothing for this stream, an empty batch remembers it.
IDLE_IDS: Final = 1 << 16
#: So many intervals are asked for: more than there may be gaps.
_SOME: Final = GAPS_MAX + 2
_VERSION: Final = 1
#: How many times of a settle delay are remembered.
_MOMENTS: Final = 64


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in a stream.

    Args:
        id: everything up to here was read but for the gaps.
        gaps: a set of ids below, not read.
        numbering: how often ids have begun again.
        base: where the last of these beginnings was.
        floors: for some values of CONTAINER the first id that is wanted of it.
        rows: how many rows the batch had that ends here, when it was planned.
        top: the highest id in the table at that time, and a trace of its message.
        is_first: whether this is where a stream begins.
        since: where the batch began that ends here; only if that could not be known otherwise.
        subscription: what was read, in words; only of a stream that removes what it has read.
    """

    id: int = 0
    gaps: tuple[Interval, ...] = ()
    numbering: int = 0
    base: int = 0
    floors: tuple[tuple[str, int], ...] = ()
    rows: int = 0
    top: tuple[int, str] | None = None
    is_first: bool = False
    since: Offset | None = None
    subscription: str | None = None

    @property
    def unread(self) -> list[Interval]:
        """The ids that it does not stand for."""
        return joined((*self.gaps, (self.id + 1, LAST_ID)))

    def covers_as(self, other: Offset) -> bool:
        """Whether it stands for the same ids."""
        return (self.unread, self.numbering) == (other.unread, other.numbering)

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it. What is as usual is left out."""
        found: dict[str, Any] = {"version": _VERSION, "id": self.id, "gaps": [list(gap) for gap in self.gaps]}
        if self.numbering:
            found |= {"numbering": self.numbering, "base": self.base}
        if self.floors:
            found["floors"] = dict(self.floors)
        if self.rows:
            found["rows"] = self.rows
        if self.top is not None:
            found["top"] = list(self.top)
        if self.is_first:
            found["first"] = True
        if self.since is not None:
            found["since"] = self.since.to_json()
        if self.subscription is not None:
            found["subscription"] = self.subscription
        return found

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Offset:
        """Read what `to_json` gave.

        Raises:
            ConfigurationError: it is of another version, or nothing that `to_json` gives.
        """
        if found.get("version") != _VERSION:
            raise ConfigurationError(
                f"the checkpoint has an offset of version {found.get('version')!r}, this release reads {_VERSION}: use"
                " the release that wrote it, or a new checkpointLocation"
            )
        try:
            top, since = found.get("top"), found.get("since")
            return cls(
                int(found["id"]),
                tuple((int(first), int(last)) for first, last in found["gaps"]),
                int(found.get("numbering", 0)),
                int(found.get("base", 0)),
                tuple((str(name), int(id)) for name, id in found.get("floors", {}).items()),
                int(found.get("rows", 0)),
                None if top is None else (int(top[0]), str(top[1])),
                bool(found.get("first", False)),
                None if since is None else cls.of(since),
                found.get("subscription"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(f"the checkpoint has an offset that cannot be read: {error!r}") from error


def _begun_again(offset: Offset, base: int) -> Offset:
    """The same place when ids above `base` are new."""
    if base >= offset.id:
        gaps, id = offset.gaps, offset.id
    else:
        gaps, id = tuple(clipped(offset.gaps, 1, base)), base
    return replace(offset, id=id, gaps=gaps, numbering=offset.numbering + 1, base=base)


def unread_before(start: Offset, end: Offset) -> Offset:
    """Where the batch of these two begins: `start`, unless the end knows better."""
    begun = start if end.since is None else end.since
    if begun.numbering == end.numbering:
        return begun
    if begun.numbering + 1 != end.numbering:
        raise StoreError(
            f"offsets of numberings {begun.numbering} and {end.numbering} are no batch: use a new checkpoint"
        )
    return _begun_again(begun, end.base)


def batch_of(start: Offset, end: Offset) -> list[Interval]:
    """The ids of a batch."""
    return without(unread_before(start, end).unread, end.unread)


class View(Protocol):
    """The message table at one moment."""

    def top(self) -> int:
        """The highest id in it, 0 if there is none; without rows that do not count yet, and all above them."""

    def trace(self, id: int) -> str | None:
        """A short text that tells the message with this id from others that had or will have the id; None: no row."""

    def runs(self, intervals: Sequence[Interval], most: int) -> list[Interval]:
        """Ids of these that have rows, the first `most` intervals of them."""

    def runs_back(self, last: int, most: int) -> list[Interval]:
        """Ids up to `last` that have rows, the last `most` intervals of them, ascending."""

    def doubtful(self, intervals: Sequence[Interval], most: int) -> list[int]:
        """Ids of rows of prepared XA transactions, the first `most`."""

    def last_of(self, intervals: Sequence[Interval], rows: int) -> int | None:
        """The id of the `rows`-th row that is wanted, not counting those in doubt; None if there are fewer."""

    def count(self, intervals: Sequence[Interval]) -> int:
        """How many rows are wanted, not counting those in doubt."""


class Progress:
    """Finds out how far a stream can go.

    Args:
        settle_delay_ms: how long after an id was given out its row may still appear; 0 if rows appear in the order of
            their ids.
        subscription: of a stream that removes what it has read: what it reads, in words. Its offsets say where their
            batches began.
        clock_ms: goes forward only.
    """

    def __init__(self, settle_delay_ms: int, clock_ms: Callable[[], int], *, subscription: str | None = None) -> None:
        self._settle_delay_ms = settle_delay_ms
        self._clock_ms = clock_ms
        self._subscription = subscription
        #: Where the stream is; the lowest that the highest id was since it has been there; and what the highest id was
        #: at some moments, or the lowest that it was since if that is lower.
        self._start: Offset | None = None
        self._low = LAST_ID
        self._tops: deque[tuple[int, int]] = deque()
        #: Whether the last answer would have been more if an offset had room for more gaps.
        self.is_full = False

    # -- where to begin ------------------------------------------------------------------------------------------

    def latest(self, view: View) -> Offset:
        """Behind everything that is visible. What was numbered before and becomes visible later is still to be read."""
        top = view.top()
        runs = view.runs_back(top, GAPS_MAX)
        first = 1 if len(runs) < GAPS_MAX else runs[0][0]
        holes = without([(first, top)] if top else [], runs)
        doubtful = [(id, id) for id in view.doubtful([(1, top)] if top else [], GAPS_MAX)]
        excess = max(0, len(holes) + len(doubtful) - GAPS_MAX)
        gaps = joined([*holes[excess:], *doubtful])  # the lowest hole is the most likely to be an old one
        return replace(_trimmed(top, gaps), is_first=True)

    def resume(self, start: Offset, view: View) -> str | None:
        """Take up a stream where another process has left it.

        Returns:
            None; or, when ids have begun again meanwhile or may have, what there is to be said.
        """
        self._enter(start)
        if start.top is None:
            return None
        id, trace = start.top
        found = view.trace(id)
        if found == trace:
            return None
        if found is not None:
            self._low = 0
            return (
                f"the broker has begun to number messages again since this stream was stopped: id {id} is another"
                " message now. Everything in the table is read as new, messages that are older may come twice"
            )
        if (top := view.top()) < start.id:
            return (
                f"the last message that this stream saw, id {id}, is gone and the highest id is {top} now. If the"
                f" broker has begun to number messages again while the stream was stopped, those up to {top} are not"
                " read"
            )
        return None

    def begin_again(self, start: Offset) -> None:
        """Everything that is in the table is to be read."""
        self._enter(start)
        self._low = 0

    # -- going on ------------------------------------------------------------------------------------------------

    def next(
        self, start: Offset, view: View, taken_ms: int, rows_max: int | None = None, id_max: int = LAST_ID
    ) -> Offset:
        """The end of the batch that begins at `start`; `start` itself if there is nothing to read.

        Args:
            start: where the last batch ended.
            view: the table now.
            taken_ms: the time before the view was taken: a process may be stopped in between.
            rows_max: the most rows.
            id_max: go no further than this.
        """
        self._enter(start)
        top = view.top()
        self._remember(top)
        settled = self._settled(taken_ms - self._settle_delay_ms) if self._settle_delay_ms else top
        begun = _begun_again(start, self._low) if self._low < start.id else start
        limit = min(top, id_max)
        if rows_max is not None:
            limit = view.last_of(clipped(begun.unread, 1, limit), rows_max) or limit
        end = self._reached(begun, view, limit, settled)
        rows = view.count(without(begun.unread, end.unread))
        if rows == 0 and end.id - begun.id < IDLE_IDS:
            return start
        trace = view.trace(top)
        return replace(
            end,
            rows=rows,
            top=None if trace is None else (top, trace),
            since=None if self._subscription is None and not start.is_first else replace(start, since=None),
            subscription=self._subscription,
        )

    def _enter(self, start: Offset) -> None:
        if start != self._start:
            self._start, self._low = start, LAST_ID

    def _remember(self, top: int) -> None:
        """The highest id is this."""
        seen_ms = self._clock_ms()
        self._low = min(self._low, top)
        if self._tops and top < self._tops[-1][1]:
            self._tops = deque((at_ms, min(known, top)) for at_ms, known in self._tops)
        if not self._tops or seen_ms - self._tops[-1][0] >= self._settle_delay_ms / _MOMENTS:
            self._tops.append((seen_ms, top))

    def _settled(self, due_ms: int) -> int:
        """Up to here no row is to come that is not visible."""
        tops = self._tops
        while len(tops) > 1 and tops[1][0] <= due_ms:
            tops.popleft()
        return tops[0][1] if tops[0][0] <= due_ms else 0

    def _reached(self, begun: Offset, view: View, asked: int, settled: int) -> Offset:
        """The furthest place up to an id that has not too many gaps."""
        limit = asked
        region = clipped(begun.unread, 1, limit)
        runs = view.runs(clipped(region, settled + 1, LAST_ID), _SOME)
        if len(runs) == _SOME:  # what is behind them is not known
            limit = runs[-1][0] - 1
        doubtful = view.doubtful(clipped(region, 1, limit), _SOME)
        if len(doubtful) == _SOME:
            limit = doubtful[-1] - 1
        region = clipped(region, 1, limit)
        holes = without(clipped(region, settled + 1, LAST_ID), runs)
        gaps = joined([*holes, *((id, id) for id in doubtful if id <= limit)])
        while True:
            end = _trimmed(max(begun.id, limit), joined([*gaps, *clipped(begun.gaps, limit + 1, LAST_ID)]))
            if len(end.gaps) <= GAPS_MAX:
                self.is_full = limit < asked
                return replace(begun, id=end.id, gaps=end.gaps, is_first=False)
            limit = gaps.pop()[0] - 1


def _trimmed(id: int, gaps: Sequence[Interval]) -> Offset:
    """The one offset for a set of ids: no gap reaches up to its id."""
    gaps = list(gaps)
    while gaps and gaps[-1][1] >= id:
        id = gaps.pop()[0] - 1
    return Offset(id, tuple(gaps))
