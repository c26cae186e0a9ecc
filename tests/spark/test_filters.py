"""Spark's filters → SQL, against what Spark itself would say of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)
from sqlalchemy import Connection, make_url

from jdbcstore.spark.filters import Term, pushed
from jdbcstore.spark.scan import Scan
from jdbcstore.spark.scan.statement import conditions
from jdbcstore.store.jdbc.tables import Tables
from tests.spark.test_scan import put, table

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TEXT_VALUES: Final = ("", "a", "A", "a ", "ab", "a%", "a_", "'", "\\", "Ä", "ß😀", "ß😀x", "a:1", ":2")
TEXTS: Final = st.sampled_from(TEXT_VALUES)
NUMBERS: Final = st.integers(-2, 130)
#: Every producer with every number, and all else in cycles of lengths that have no common divisor.
ROWS: Final = tuple(
    (
        TEXT_VALUES[number % len(TEXT_VALUES)],
        (None, *TEXT_VALUES)[number % 15],
        (None, -1, 0, 1, 2, 9, (1 << 63) - 1)[number // 15],
        (None, -1, 0, 1, 2, 1_700_000_000_000, 253_402_300_799_999, 3, 7, 5, 4)[number % 11],
        (None, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)[number % 13],
    )
    for number in range(105)
)
MOMENT_VALUES: Final = tuple(
    EPOCH + timedelta(microseconds=us)
    for us in (-1000, 0, 1, 999, 1000, 1001, 2000, 2001, 1_700_000_000_000_000, 1_700_000_000_000_001)
)
ID_VALUES: Final = ("a:1", "a:2", "A:1", "a:1:1", "a:01", "a:+1", "a:-1", "a", ":2", "::2", "a:9999999999999999999")
MOMENTS: Final = st.sampled_from(MOMENT_VALUES)
IDS: Final = st.sampled_from(ID_VALUES)
VALUES: Final = {
    "topic": TEXTS, "producerId": TEXTS, "offset": NUMBERS, "rowPriority": st.integers(-1, 10),
    "priority": st.integers(-1, 10),
    "expiration": MOMENTS, "messageId": IDS,
}  # fmt: skip
COMPARISONS: Final = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    """Any that Spark pushes, and some that it might."""
    name = draw(st.sampled_from(list(VALUES)))
    path, value = (name,), draw(VALUES[name])
    kinds: list[Filter] = [kind(path, value) for kind in COMPARISONS]
    kinds += [IsNull(path), IsNotNull(path), EqualNullSafe(path, None), Not(EqualTo(path, value))]
    kinds.append(In(path, draw(st.lists(st.none() | VALUES[name], max_size=4))))  # type: ignore[arg-type]  # a list comes
    if isinstance(value, str):
        kinds += [StringStartsWith(path, value), StringContains(path, value)]
    return draw(st.sampled_from(kinds))


def shown(row: tuple[Any, ...]) -> dict[str, Any]:
    """A row as the columns of the schema."""
    id, topic, producer, sequence, due, priority = row
    return {
        "topic": topic,
        "producerId": producer,
        "offset": id,
        "rowPriority": priority,
        "priority": priority or 4,
        "expiration": EPOCH + timedelta(milliseconds=due) if due is not None and due > 0 else None,
        "messageId": None if producer is None or sequence is None else f"{producer}:{sequence}",
    }


def holds(one: Filter, row: dict[str, Any]) -> bool:
    """What Spark says; NULL is not true."""
    if isinstance(one, Not):
        found = row[one.child.attribute[0]]  # type: ignore[attr-defined]  # only of EqualTo here
        return found is not None and not holds(one.child, row)
    value: Any = getattr(one, "value", None)
    found = row[one.attribute[0]]  # type: ignore[attr-defined]  # all have one
    if isinstance(one, IsNull) or (isinstance(one, EqualNullSafe) and value is None):
        return found is None
    if found is None:
        return False
    if isinstance(one, IsNotNull):
        return True
    if isinstance(one, In):
        return found in [each for each in value if each is not None]
    if isinstance(found, str) and isinstance(value, str):
        found, value = found.encode(), value.encode()
    answers: dict[type[Filter], Callable[[], bool]] = {
        EqualTo: lambda: found == value,
        EqualNullSafe: lambda: found == value,
        GreaterThan: lambda: found > value,
        GreaterThanOrEqual: lambda: found >= value,
        LessThan: lambda: found < value,
        LessThanOrEqual: lambda: found <= value,
        StringStartsWith: lambda: found.startswith(value),
        StringContains: lambda: value in found,
    }
    return answers[type(one)]()


def check(connection: Connection, given_: list[Filter]) -> None:
    """What the database and Spark find together is what the filters say, and no row is missing before Spark looks."""
    terms, again = pushed(given_)
    where = Scan(connection.engine.url, ("ID",), terms=tuple(terms)).where
    statement = f"SELECT ID FROM ACTIVEMQ_MSGS{where}"
    if connection.dialect.name != "sqlite":
        statement = statement.replace("%", "%%")  # psycopg2 and PyMySQL take it for a parameter
    found = {id for (id,) in connection.exec_driver_sql(statement)}
    alone = {row[0] for row in NUMBERED if all(holds(one, shown(row)) for one in given_ if one not in again)}
    expected = {row[0] for row in NUMBERED if all(holds(one, shown(row)) for one in given_)}
    assert expected <= found <= alone, (given_, terms)


NUMBERED: Final = [(number, *row) for number, row in enumerate(ROWS)]


def fill(connection: Connection, tables: Tables) -> None:
    put(
        connection,
        tables,
        [(id, c, producer, seq, due, b"", level, None) for id, c, producer, seq, due, level in NUMBERED],
    )


def test_every_filter_on_every_database(database_url: str) -> None:
    values: dict[str, Sequence[Any]] = {
        "topic": TEXT_VALUES,
        "producerId": TEXT_VALUES[:5],
        "offset": (0, 1, 104, 105),
        "rowPriority": (-1, 0, 4, 11),
        "priority": (-1, 0, 4, 11),
        "expiration": MOMENT_VALUES,
        "messageId": ID_VALUES,
    }
    with table(database_url) as (connection, tables):
        fill(connection, tables)
        for name, some in values.items():
            path = (name,)
            for value in some:
                for kind in COMPARISONS:
                    check(connection, [kind(path, value)])
                check(connection, [In(path, [None, value, some[0]])])  # type: ignore[arg-type]  # a list comes
                if isinstance(value, str):
                    check(connection, [StringStartsWith(path, value)])
            for one in (IsNull(path), IsNotNull(path), EqualNullSafe(path, None)):
                check(connection, [one])


def test_filters_hold_together(tmp_path: Path) -> None:
    with table(f"sqlite:///{tmp_path / 'store.db'}") as (connection, tables):
        fill(connection, tables)

        @given(st.lists(filters(), min_size=1, max_size=3))
        def together(given_: list[Filter]) -> None:
            check(connection, given_)

        together()


@pytest.mark.parametrize(
    ("one", "term"),
    [
        (EqualTo(("topic",), "queue://A"), Term("CONTAINER", "=", "queue://A")),
        (In(("topic",), ["a", None, "b"]), Term("CONTAINER", "in", ("a", "b"))),  # type: ignore[arg-type]  # a list comes
        (StringStartsWith(("topic",), "queue://"), Term("CONTAINER", "starts with", "queue://")),
        (GreaterThan(("offset",), 5), Term("ID", ">", 5)),
        (EqualTo(("rowPriority",), 4), Term("PRIORITY", "=", 4)),
        (IsNull(("rowPriority",)), Term("PRIORITY", "is null")),
        (LessThan(("expiration",), EPOCH + timedelta(milliseconds=7)), Term("EXPIRATION", "<", 7)),
        (IsNull(("expiration",)), Term("EXPIRATION", "is null")),
    ],
)
def test_the_database_applies_them_alone(one: Filter, term: Term) -> None:
    assert pushed([one]) == ([term], [])


def test_a_priority_may_not_stand_in_the_row() -> None:
    given = GreaterThan(("priority",), 4)
    assert pushed([given]) == ([Term("PRIORITY", ">", 4, or_unset=True)], [given])


def test_an_id_is_looked_up_by_its_parts() -> None:
    found = pushed([EqualTo(("messageId",), "ID:host-1-1:1:1:1:42")])
    assert found == ([Term("MSGID_PROD", "=", "ID:host-1-1:1:1:1"), Term("MSGID_SEQ", "=", 42)], [])


def test_others_are_given_back() -> None:
    for one in (
        EqualTo(("text",), "x"),
        EqualTo(("properties", "a"), "x"),
        GreaterThan(("topic",), "a"),
        EqualTo(("topic",), "a\0"),
        EqualTo(("topic",), "\ud800"),
        EqualTo(("offset",), 1 << 63),
        EqualTo(("offset",), True),
        EqualTo(("expiration",), datetime(2020, 1, 1)),
    ):
        assert pushed([one]) == ([], [one])


@pytest.mark.parametrize(
    "wrong",
    [("ID", "=", "1"), ("CONTAINER", "<", "a"), ("ID", "starts with", 1), ("ID", "in", 1), ("ID", "is null", 1),
     ("MSG", "=", "a"), ("ID", "=", None), ("ID", "in", ("a",))],
)  # fmt: skip
def test_a_term_that_says_nothing_is_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        Term(*wrong)


def test_what_cannot_be_stored_is_not_found() -> None:
    scan = Scan(make_url("sqlite:///x.db"), ("ID",), terms=(Term("CONTAINER", "=", "a\0"), Term("ID", "in", ())))
    assert scan.where == " WHERE 1 = 0 AND 1 = 0"
    assert conditions(scan._wording, (), None, None) == ""
