"""Log lines: ``key=value`` for people and grep, or one JSON object each for machines."""

from __future__ import annotations

import json
import logging
import sys
import time

from jdbcstore.config.configuration import LogOptions

__all__ = ["set_up_logs"]


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


def set_up_logs(options: LogOptions) -> None:
    """Send this package's log lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if options.format == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("jdbcstore").setLevel(options.level.upper())
