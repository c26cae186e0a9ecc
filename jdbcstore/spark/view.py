"""The message table at one moment, as a stream asks about it: in SQL, within one snapshot.

What a question costs depends on the rows it is about, not on those around them: each interval of ids is a walk along
the primary key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from jdbcstore.spark.filters import Term
from jdbcstore.spark.intervals import Interval
from jdbcstore.spark.scan import Scan
from jdbcstore.store.jdbc.dialect import database_for

__all__ = ["TableView"]

_TRACE_DIGITS: Final = 12


@dataclass(frozen=True)
class TableView:
    """A `jdbcstore.spark.offsets.View` of a table.

    Args:
        connection: inside `snapshot`.
        scan: of the table; its terms say which rows are wanted.
        floors: for some values of CONTAINER the first id that is wanted.
        loads: the table of loads that write into this one, None if there is none.
    """

    connection: Connection
    scan: Scan
    floors: Sequence[tuple[str, int]] = ()
    loads: str | None = None

    def top(self) -> int:
        unfinished = self.first_of_load()
        below = "" if unfinished is None else f" WHERE ID < {unfinished}"
        return self._value(f"SELECT MAX(ID) FROM {self.scan.table}{below}") or 0

    def first_of_load(self) -> int | None:
        """The first id of a load that is not finished; it brings rows in any order and may remove them again."""
        if self.loads is None:
            return None
        query = f"SELECT MIN(FIRST_ID) FROM {self.loads} WHERE MODE = 'direct' AND STATE IN ('loading', 'aborting')"
        return self._value(query)

    def trace(self, id: int) -> str | None:
        rows = self._rows(f"SELECT MSGID_PROD, MSGID_SEQ FROM {self.scan.table} WHERE ID = {id}")
        if not rows:
            return None
        return hashlib.sha256(f"{rows[0][0]}:{rows[0][1]}".encode()).hexdigest()[:_TRACE_DIGITS]

    def runs(self, intervals: Sequence[Interval], most: int) -> list[Interval]:
        # The last interval may be all that is new; those before it are gaps, with hardly a row in them.
        found = self._runs(self._ids(intervals[:-1]), most) if len(intervals) > 1 else []
        if intervals and len(found) < most:
            found += self._runs(self._ids(intervals[-1:]), most - len(found))
        return found

    def _runs(self, ids: str, most: int) -> list[Interval]:
        query = (
            "SELECT BEFORE_IT, ID FROM (SELECT ID, LAG(ID) OVER (ORDER BY ID) AS BEFORE_IT"
            f" FROM ({ids}) i) w WHERE BEFORE_IT IS NULL OR ID > BEFORE_IT + 1 ORDER BY ID LIMIT {most + 1}"
        )
        starts = self._rows(query)
        ends = [int(before) for before, _ in starts[1:]]
        if len(starts) <= most:
            ends += [last for last in [self._value(f"SELECT MAX(ID) FROM ({ids}) i")] if last is not None]
        return [(int(first), last) for (_, first), last in zip(starts, ends, strict=False)]

    def runs_back(self, last: int, most: int) -> list[Interval]:
        query = (
            f"SELECT ID, BEHIND_IT FROM (SELECT ID, LAG(ID) OVER (ORDER BY ID DESC) AS BEHIND_IT FROM {self.scan.table}"
            f" WHERE ID <= {last}) w WHERE BEHIND_IT IS NULL OR BEHIND_IT > ID + 1 ORDER BY ID DESC LIMIT {most + 1}"
        )
        ends = self._rows(query)
        firsts = [int(behind) for _, behind in ends[1:]]
        if 0 < len(ends) <= most:
            firsts.append(self._value(f"SELECT MIN(ID) FROM {self.scan.table}") or 0)
        return [(first, int(end)) for first, (end, _) in zip(firsts, ends, strict=False)][::-1]

    def doubtful(self, intervals: Sequence[Interval], most: int) -> list[int]:
        if not intervals:
            return []
        doubt = self._scan_of(Term("XID", "is not null"), first=intervals[0][0], last=intervals[-1][1])
        ids = sorted(int(id) for (id,) in self._rows(f"SELECT ID FROM {self.scan.table}{doubt.where}"))
        return [id for id in ids if any(first <= id <= last for first, last in intervals)][:most]

    def last_of(self, intervals: Sequence[Interval], rows: int) -> int | None:
        if not intervals:
            return None
        counts = self._counts(intervals[:-1])
        for place, interval in enumerate(intervals):
            if place == len(counts) or rows <= counts[place]:
                return self._value(f"{self._wanted(interval)} ORDER BY ID LIMIT 1 OFFSET {rows - 1}")
            rows -= counts[place]
        return None

    def count(self, intervals: Sequence[Interval]) -> int:
        return sum(self._counts(intervals))

    def ids(self, intervals: Sequence[Interval], most: int) -> list[int]:
        """Ids of these that have rows that are wanted, ascending, the first `most`."""
        if not intervals:
            return []
        wanted = " UNION ALL ".join(map(self._wanted, intervals))
        return [int(id) for (id,) in self._rows(f"SELECT ID FROM ({wanted}) w ORDER BY ID LIMIT {most}")]

    def containers(self, interval: Interval, most: int) -> list[tuple[int, str]]:
        """Ids of an interval whose rows are wanted, ascending, the first `most`, each with its CONTAINER."""
        query = self._wanted(interval).replace("SELECT ID", "SELECT ID, CONTAINER", 1)
        return [(int(id), str(name)) for id, name in self._rows(f"{query} ORDER BY ID LIMIT {most}")]

    # -- words ---------------------------------------------------------------------------------------------------

    def _counts(self, intervals: Sequence[Interval]) -> list[int]:
        if not intervals:
            return []
        counted = " UNION ALL ".join(
            f"SELECT {place} AS PLACE, COUNT(*) AS N FROM ({self._wanted(interval)}) w{place}"
            for place, interval in enumerate(intervals)
        )
        return [int(count) for _, count in sorted(self._rows(counted))]

    def _ids(self, intervals: Sequence[Interval]) -> str:
        return " UNION ALL ".join(
            f"SELECT ID FROM {self.scan.table} WHERE ID >= {first} AND ID <= {last}" for first, last in intervals
        )

    def _wanted(self, interval: Interval) -> str:
        """Ids of an interval whose rows are wanted."""
        scan = self._scan_of(Term("XID", "is null"), first=interval[0], last=interval[1])
        floors = "".join(f" AND NOT ({self._is_of(name)} AND ID < {id})" for name, id in self.floors)
        return f"SELECT ID FROM {self.scan.table}{scan.where}{floors}"

    def _is_of(self, container: str) -> str:
        only = Scan(
            self.scan.url,
            ("ID",),
            terms=(Term("CONTAINER", "=", container),),
            is_bytewise=self.scan.is_bytewise,
        )
        return only.where.removeprefix(" WHERE ")

    def _scan_of(self, term: Term, *, first: int, last: int) -> Scan:
        """What is asked for of some ids, with one condition more. Rows in doubt count whether wanted or not."""
        terms = (term,) if term.operator == "is not null" else (*self.scan.terms, term)
        return Scan(
            self.scan.url,
            ("ID",),
            options=self.scan.options,
            terms=terms,
            first=first,
            last=last,
            is_bytewise=self.scan.is_bytewise,
        )

    def _rows(self, query: str) -> list[Any]:
        scanner = database_for(self.connection.dialect.name).scanner()
        return list(self.connection.exec_driver_sql(scanner.escaped(query)).all())

    def _value(self, query: str) -> int | None:
        rows = self._rows(query)
        return int(rows[0][0]) if rows and rows[0][0] is not None else None
