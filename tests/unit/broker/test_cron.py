"""Cron entries, against going through the calendar minute by minute, and where clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jdbcstore.broker.cron import Cron
from jdbcstore.errors import ProtocolError
from tests.examples import examples

BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@st.composite
def terms(draw: st.DrawFn, least: int, most: int) -> tuple[str, set[int]]:
    """A term and the numbers that it stands for."""
    step = draw(st.none() | st.integers(1, most))
    suffix = "" if step is None else f"/{step}"
    if draw(st.booleans()):
        return f"*{suffix}", set(range(least, most + 1, step or 1))
    low = draw(st.integers(least, most))
    high = draw(st.integers(low, most))
    if step is None and draw(st.booleans()):
        return str(low), {low}
    return f"{low}-{high}{suffix}", set(range(low, high + 1, step or 1))


@st.composite
def fields(draw: st.DrawFn, least: int, most: int) -> tuple[str, set[int]]:
    """A field and the numbers that it stands for."""
    if draw(st.booleans()):
        return "*", set(range(least, most + 1))
    chosen = draw(st.lists(terms(least, most), min_size=1, max_size=3))
    return ",".join(text for text, _ in chosen), set().union(*(numbers for _, numbers in chosen))


@st.composite
def entries(draw: st.DrawFn) -> list[tuple[str, set[int]]]:
    return [draw(fields(least, most)) for least, most in LIMITS]


def matches(entry: list[tuple[str, set[int]]], time: datetime) -> bool:
    (_, minutes), (_, hours), (days_text, days), (_, months), (week_text, week_days) = entry
    if time.minute not in minutes or time.hour not in hours or time.month not in months:
        return False
    sunday_is_seven = time.isoweekday() == 7 and 0 in week_days
    of_week = time.isoweekday() in week_days or sunday_is_seven
    if days_text[0] != "*" and week_text[0] != "*":
        return time.day in days or of_week
    return time.day in days and of_week


@settings(max_examples=examples(40))
@given(entries(), st.datetimes(datetime(2023, 12, 25), datetime(2024, 3, 5)))
def test_the_next_time_is_the_first_minute_that_matches(entry: list[tuple[str, set[int]]], start: datetime) -> None:
    days = 12
    after_ms = round(start.replace(tzinfo=UTC).timestamp() * 1000)
    minute = start.replace(second=0, microsecond=0, tzinfo=UTC) + timedelta(minutes=1)
    minutes = (minute + timedelta(minutes=n) for n in range(days * 24 * 60))
    expected = next((time for time in minutes if matches(entry, time)), None)
    try:
        found = Cron(" ".join(text for text, _ in entry), UTC).next_ms(after_ms)
    except ProtocolError:
        assert expected is None
        return
    if expected is None:
        assert found is None or found > after_ms + (days * 86_400 - 120) * 1000
    else:
        assert found == expected.timestamp() * 1000


def times(entry: str, after: str, zone: ZoneInfo, count: int) -> list[str]:
    """The next times of an entry as the clock on the wall shows them, with the distance from UTC."""

    def walk() -> list[str]:
        cron, at_ms = Cron(entry, zone), datetime.fromisoformat(after).replace(tzinfo=zone).timestamp() * 1000
        found: list[str] = []
        while len(found) < count:
            next_ms = cron.next_ms(round(at_ms))
            assert next_ms is not None
            assert next_ms > at_ms
            at_ms = next_ms
            found.append(datetime.fromtimestamp(at_ms / 1000, zone).strftime("%d. %H:%M%z"))
        return found

    return list(islice(walk(), count))


@pytest.mark.parametrize(
    ("entry", "after", "expected"),
    [
        # 29 March 2026: 02:00 to 03:00 is left out. A fixed hour happens all the same, once.
        ("30 2 * * *", "2026-03-28 12:00", ["29. 03:30+0200", "30. 02:30+0200", "31. 02:30+0200"]),
        ("30 3 * * *", "2026-03-28 12:00", ["29. 03:30+0200", "30. 03:30+0200"]),
        ("30 2,3 * * *", "2026-03-28 12:00", ["29. 03:30+0200", "30. 02:30+0200", "30. 03:30+0200"]),
        ("30 * * * *", "2026-03-29 00:45", ["29. 01:30+0100", "29. 03:30+0200", "29. 04:30+0200"]),
        # 25 October 2026: 02:00 to 03:00 comes twice.
        ("30 2 * * *", "2026-10-24 12:00", ["25. 02:30+0200", "26. 02:30+0100"]),
        ("30 * * * *", "2026-10-25 00:45", ["25. 01:30+0200", "25. 02:30+0200", "25. 02:30+0100", "25. 03:30+0100"]),
    ],
)
def test_where_clocks_are_changed(entry: str, after: str, expected: list[str]) -> None:
    assert times(entry, after, BERLIN, len(expected)) == expected


def test_where_clocks_are_changed_by_half_an_hour() -> None:
    # 5 April 2026: 01:30 to 02:00 comes twice. 4 October: 02:00 to 02:30 is left out.
    twice = ["05. 01:30+1100", "05. 01:45+1100", "05. 01:30+1030", "05. 01:45+1030", "05. 02:00+1030"]
    assert times("*/15 * * * *", "2026-04-05 01:16", LORD_HOWE, 5) == twice
    assert times("10,35 2 * * *", "2026-10-04 00:00", LORD_HOWE, 2) == ["04. 02:35+1100", "04. 02:40+1100"]


def test_leap_days_come_also_around_a_century() -> None:
    cron = Cron("0 0 29 2 *", UTC)
    last = datetime(2096, 2, 29, tzinfo=UTC).timestamp() * 1000
    assert cron.next_ms(round(last)) == datetime(2104, 2, 29, tzinfo=UTC).timestamp() * 1000


@pytest.mark.parametrize("sunday", ["0", "7"])
def test_sunday_has_two_numbers(sunday: str) -> None:
    thursday = datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000
    next_ms = Cron(f"0 12 * * {sunday}", UTC).next_ms(round(thursday))
    assert next_ms == datetime(2026, 1, 4, 12, tzinfo=UTC).timestamp() * 1000


@pytest.mark.parametrize(
    "entry",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *",
     "5/15 * * * *", "*/0 * * * *", "a * * * *", "* * * jan *", "1,,2 * * * *", "-1 * * * *", "٣ * * * *",
     "0 0 31 2 *", "0 0 30,31 2 *", "0 0 31 4,6,9,11 *", "1 " * 200],
)  # fmt: skip
def test_what_is_no_entry_is_refused(entry: str) -> None:
    with pytest.raises(ProtocolError, match="cron entry"):
        Cron(entry)
