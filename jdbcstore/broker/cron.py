"""Cron entries: when a scheduled message is to be sent again and again.

Five fields, minute, hour, day of the month, month, day of the week (0 to 7, where 0 and 7 are Sunday), of numbers,
ranges (``1-5``), lists (``1,3``) and steps (``*/5``, ``0-30/10``), as ActiveMQ takes them. If both fields of days are
restricted, that is, neither begins with a star, a day that satisfies one of them will do; so says crontab(5), and so
does ActiveMQ mean it.

Times are local. Where clocks are changed an entry whose hour does not begin with a star happens once a day: an hour
that is left out counts as the one after it, and of an hour that comes twice the first counts. With a star it follows
the hours as they pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from jdbcstore.errors import ProtocolError

__all__ = ["Cron"]

_FIELDS: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
)
_TERM: Final = re.compile(r"(?:\*|([0-9]{1,2})(?:-([0-9]{1,2}))?)(/[0-9]{1,2})?", re.ASCII)
_CHARACTERS_MAX: Final = 250
#: There may be so many years between two leap days, around one of most full centuries.
_YEARS_MAX: Final = 8
_DAY: Final = timedelta(days=1)


class Cron:
    """One entry.

    Args:
        text: five fields.
        zone: whose local time; None is the one that this process has.

    Raises:
        ProtocolError: it is no entry, or one of a day that never comes.
    """

    def __init__(self, text: str, zone: tzinfo | None = None) -> None:
        fields = text.split()
        if len(fields) != len(_FIELDS) or len(text) > _CHARACTERS_MAX:
            raise ProtocolError(
                f"Invalid cron entry '{text[:_CHARACTERS_MAX]}': five fields are needed, minute hour day-of-month month"
                " day-of-week"
            )
        minutes, hours, days, months, week_days = (
            _numbers(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True)
        )
        self._minutes, self._hours = sorted(minutes), sorted(hours)
        self._days, self._months, self._week_days = days, months, {day % 7 for day in week_days}
        self._is_either = not (fields[2].startswith("*") or fields[4].startswith("*"))
        self._follows_hours = fields[1].startswith("*")
        self._zone = zone
        if not self._is_either and not any(day <= _length(month) for day in days for month in months):
            raise ProtocolError(f"Invalid cron entry '{text}': that day never comes")

    def next_ms(self, after_ms: int) -> int | None:
        """The first time after one, both epoch milliseconds; None if there is none within some years."""
        day = datetime.fromtimestamp(after_ms / 1000, self._zone).date() - _DAY  # whose left-out hours may be later
        for _ in range(_YEARS_MAX * 366 + 2):
            if self._has(day):
                for hour in self._hours:
                    later = [time_ms for time_ms in self._times_ms(day, hour) if time_ms > after_ms]
                    if later:
                        return min(later)
            day += _DAY
        return None

    def _has(self, day: date) -> bool:
        if day.month not in self._months:
            return False
        of_month, of_week = day.day in self._days, day.isoweekday() % 7 in self._week_days
        return of_month or of_week if self._is_either else of_month and of_week

    def _times_ms(self, day: date, hour: int) -> Iterator[int]:
        """The times of one hour by the clock, epoch milliseconds."""
        for minute in self._minutes:
            time = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self._zone)
            first_s, second_s = time.timestamp(), time.replace(fold=1).timestamp()
            # In an hour that is left out `fold` means the clock after the change, which is behind the other.
            if not self._follows_hours or first_s <= second_s:
                yield round(first_s * 1000)
            if self._follows_hours and first_s < second_s:
                yield round(second_s * 1000)


def _numbers(field: str, name: str, least: int, most: int) -> set[int]:
    numbers: set[int] = set()
    for term in field.split(","):
        found = _TERM.fullmatch(term)
        first, last, step = found.groups() if found else (None, None, "/0")
        low = least if first is None else int(first)
        high = most if first is None else low if last is None else int(last)
        width = int(step[1:]) if step else 1
        # A step needs something to step through.
        if found is None or not least <= low <= high <= most or not width or (step and first and not last):
            raise ProtocolError(
                f"Invalid {name} '{field[:_CHARACTERS_MAX]}' in a cron entry: numbers from {least} to {most}, ranges,"
                " lists and steps are possible"
            )
        numbers.update(range(low, high + 1, width))
    return numbers


def _length(month: int) -> int:
    """Days of a month, in its longest year."""
    return 29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31
