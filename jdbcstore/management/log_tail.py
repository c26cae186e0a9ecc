"""The last lines of the log and of what operators have done, kept in memory."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from jdbcstore.management.views import AuditEntry, LogLine

__all__ = ["Audit", "LogTail"]

_LINES_MAX: Final = 1000
_CHARACTERS_MAX: Final = 2000
_PACKAGE: Final = "jdbcstore"

audit = logging.getLogger("jdbcstore.audit")


class LogTail(logging.Handler):
    """Keeps the last lines of the package's log that are not below INFO."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[LogLine] = deque(maxlen=_LINES_MAX)

    def start(self) -> None:
        """Listen."""
        logging.getLogger(_PACKAGE).addHandler(self)

    def stop(self) -> None:
        """Listen no more."""
        logging.getLogger(_PACKAGE).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line; called in any thread."""
        text = record.getMessage()[:_CHARACTERS_MAX]
        self._lines.append(LogLine(int(record.created * 1000), record.levelname.lower(), record.name, text))

    def lines(self, count: int) -> Sequence[LogLine]:
        """The last lines, oldest first."""
        return list(self._lines)[-count:]


class Audit:
    """What operators have done: a line in the log ``jdbcstore.audit`` each, and the last of them in memory."""

    def __init__(self) -> None:
        self._entries: deque[AuditEntry] = deque(maxlen=_LINES_MAX)

    def write(self, at_ms: int, who: str, action: str, subject: str, outcome: str) -> None:
        """Somebody has done something.

        Args:
            at_ms: epoch milliseconds.
            who, action, subject: who has done what, and to what.
            outcome: ``done``, how many messages it was, or why not.
        """
        audit.info("audit user=%r action=%s subject=%r outcome=%r", who, action, subject, outcome)
        self._entries.append(AuditEntry(at_ms, who, action, subject, outcome))

    def entries(self, count: int) -> Sequence[AuditEntry]:
        """The last ones, newest first."""
        return list(self._entries)[-count:][::-1]
