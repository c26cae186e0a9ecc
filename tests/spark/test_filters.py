"""Spark's filters → SQL, against what Spark itself would say of the rows."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
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
from sqlalchemy import make_url

from jdbcstore.spark.filters import Term, pushed
from jdbcstore.spark.scan import Scan
from jdbcstore.spark.scan.statement import conditions

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NUMBERS: Final = st.sampled_from([-(1 << 63), -2, -1, 0, 1, 2, 4, 9, 1 << 40, (1 << 63) - 1])
TEXTS: Final = st.sampled_from(["", "a", "A", "a ", "ab", "a%", "a_", "'", "\\", "Ä", "ß😀", "ß😀x", "a:1", ":2"])
TIMES: Final = st.one_of(st.none(), st.sampled_from([-1, 0, 1, 2, 1_700_000_000_000, 253_402_300_799_999]))
ROWS: Final = st.lists(
    st.tuples(TEXTS, st.none() | TEXTS, st.none() | NUMBERS, TIMES, st.none() | st.integers(-1, 10)),
    max_size=8,
)
MOMENTS: Final = st.sampled_from(
    [-1000, 0, 1, 999, 1000, 1001, 2000, 1_700_000_000_000_000, 1_700_000_000_000_001]
).map(lambda us: EPOCH + timedelta(microseconds=us))
IDS: Final = st.sampled_from(
    ["a:1", "a:2", "A:1", "a:1:1", "a:01", "a:+1", "a:-1", "a", ":2", "::2", "a:9999999999999999999"]
)
VALUES: Final = {
    "topic": TEXTS, "producerId": TEXTS, "offset": NUMBERS, "priority": st.integers(-1, 10),
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
        "priority": priority,
        "expiration": EPOCH + timedelta(milliseconds=due) if due is not None and due > 0 else None,
        "messageId": None if producer is None or sequence is None else f"{producer}:{sequence}",
    }


def holds(one: Filter, row: dict[str, Any]) -> bool:
    """What Spark says; NULL is not true."""
    if isinstance(one, Not):
        found = row[one.child.attribute[0]]  # type: ignore[attr-defined]  # only of EqualTo here
        return found is not None and not holds(one.child, row)
    found, value = row[one.attribute[0]], getattr(one, "value", None)  # type: ignore[attr-defined]  # all have one
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
    answers = {
        EqualTo: lambda: found == value,
        EqualNullSafe: lambda: found == value,
        GreaterThan: lambda: found > value,
        GreaterThanOrEqual: lambda: found >= value,
        LessThan: lambda: found < value,
        LessThanOrEqual: lambda: found <= value,
        StringStartsWith: lambda: found.startswith(value),
        StringContains: lambda: value in found,
    }
    return bool(answers[type(one)]())


@given(ROWS, st.lists(filters(), min_size=1, max_size=3))
def test_terms_and_what_is_given_back_say_what_the_filters_say(rows: list[Any], given_: list[Filter]) -> None:
    terms, again = pushed(given_)
    scan = Scan(make_url("sqlite:///x.db"), ("ID",), terms=tuple(terms))
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE ACTIVEMQ_MSGS (ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, PRIORITY)")
    numbered = [(number, *row) for number, row in enumerate(rows)]
    database.executemany("INSERT INTO ACTIVEMQ_MSGS VALUES (?,?,?,?,?,?)", numbered)
    found = {id for (id,) in database.execute(f"SELECT ID FROM ACTIVEMQ_MSGS{scan.where}")}
    database.close()
    by_terms = {row[0] for row in numbered if all(holds(one, shown(row)) for one in given_ if one not in again)}
    expected = {row[0] for row in numbered if all(holds(one, shown(row)) for one in given_)}
    assert expected <= found <= by_terms


@pytest.mark.parametrize(
    ("one", "term"),
    [
        (EqualTo(("topic",), "queue://A"), Term("CONTAINER", "=", "queue://A")),
        (In(("topic",), ["a", None, "b"]), Term("CONTAINER", "in", ("a", "b"))),  # type: ignore[arg-type]  # a list comes
        (StringStartsWith(("topic",), "queue://"), Term("CONTAINER", "starts with", "queue://")),
        (GreaterThan(("offset",), 5), Term("ID", ">", 5)),
        (EqualTo(("priority",), 4), Term("PRIORITY", "=", 4)),
        (IsNull(("priority",)), Term("PRIORITY", "is null")),
        (LessThan(("expiration",), EPOCH + timedelta(milliseconds=7)), Term("EXPIRATION", "<", 7)),
        (IsNull(("expiration",)), Term("EXPIRATION", "is null")),
    ],
)
def test_the_database_applies_them_alone(one: Filter, term: Term) -> None:
    assert pushed([one]) == ([term], [])


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
