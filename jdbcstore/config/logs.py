"""Log lines: ``key=value`` for people and grep, or one JSON object each for machines.

An event that repeats fills a disk and hides the others, so of one event a number of lines a minute is written, and then
how many were left out. Lines that each count are never left out.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

from jdbcstore.config.configuration import LogOptions

__all__ = ["set_up_logs"]

_PERIOD_S: Final = 60.0
#: Loggers whose every line counts.
_UNLIMITED: Final = frozenset({"jdbcstore.audit", "jdbcstore.broker.lifecycle", "jdbcstore.events"})


class _Text(logging.Formatter):
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s level=%(levelname)s logger=%(name)s %(message)s")
        self.converter = time.gmtime


class _Json(_Text):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


@dataclass(slots=True)
class _Period:
    """The lines of one event since its first one.

    Args:
        end_s: when the period is over.
        written: lines that were written.
        left_out: lines that were not.
    """

    end_s: float
    written: int = 0
    left_out: int = 0


class LimitedHandler(logging.StreamHandler[TextIO]):
    """Writes so many lines of one event a minute, and then how many it left out.

    What was left out is told with the first line, of whatever event, after the minute; and at the end. Defects (with a
    traceback), state changes, the audit log and what `log_events` asks for are always written.

    Args:
        stream: where lines go.
        lines_max: of one event in a minute; 0 for all.
        clock: seconds that only grow.
    """

    def __init__(self, stream: TextIO, lines_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._lines_max = lines_max
        self._clock = clock
        self._periods: dict[tuple[str, str], _Period] = {}
        self._next_end_s = float("inf")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it. The handler's lock is held."""
        now_s = self._clock()
        if now_s >= self._next_end_s:
            self._tell(now_s)
        if self._admits(record, now_s):
            super().emit(record)

    def close(self) -> None:
        """Tell what was left out, and write no more."""
        self.acquire()
        try:
            self._tell(float("inf"))
        finally:
            self.release()
        super().close()

    def _admits(self, record: logging.LogRecord, now_s: float) -> bool:
        if not self._lines_max or record.exc_info or record.name in _UNLIMITED:
            return True
        period = self._periods.setdefault((record.name, str(record.msg)), _Period(now_s + _PERIOD_S))
        self._next_end_s = min(self._next_end_s, period.end_s)
        if period.written >= self._lines_max:
            period.left_out += 1
            return False
        period.written += 1
        return True

    def _tell(self, now_s: float) -> None:
        """End the periods that are over."""
        over = [key for key, period in self._periods.items() if period.end_s <= now_s]
        for logger, event in over:
            period = self._periods.pop((logger, event))
            if period.left_out:
                args = (event, period.left_out)
                text = "lines left out event=%r lines=%d"
                super().emit(logging.LogRecord(logger, logging.WARNING, __file__, 0, text, args, None))
        self._next_end_s = min((period.end_s for period in self._periods.values()), default=float("inf"))


def set_up_logs(options: LogOptions) -> None:
    """Send this package's log lines to standard error."""
    handler = LimitedHandler(sys.stderr, options.repeats_max)
    handler.setFormatter(_Json() if options.format == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("jdbcstore").setLevel(options.level.upper())
