"""How log lines are written: an event that repeats does not fill the disk, and what counts is never left out."""

from __future__ import annotations

import io
import logging

import pytest

from jdbcstore.config.configuration import LogOptions
from jdbcstore.config.logs import LimitedHandler
from jdbcstore.errors import ConfigurationError


class Log:
    """A log with a clock of its own."""

    def __init__(self, lines_max: int) -> None:
        self.now_s = 0.0
        self._stream = io.StringIO()
        self.handler = LimitedHandler(self._stream, lines_max, lambda: self.now_s)

    def write(self, text: str, *args: object, logger: str = "jdbcstore.x", error: bool = False) -> None:
        error_info = (ValueError, ValueError("defect"), None) if error else None
        self.handler.handle(logging.LogRecord(logger, logging.WARNING, __file__, 1, text, args, error_info))

    def lines(self) -> list[str]:
        return self._stream.getvalue().splitlines()


def test_an_event_that_repeats_is_counted_and_the_others_are_written() -> None:
    log = Log(2)
    for number in range(5):
        log.write("client is silent peer=%s", number)
    log.write("broker stopped")
    assert log.lines() == ["client is silent peer=0", "client is silent peer=1", "broker stopped"]


def test_how_many_were_left_out_is_told_after_a_minute_and_then_it_is_written_again() -> None:
    log = Log(1)
    for _ in range(4):
        log.write("client is silent peer=%s", "p")
    log.now_s = 60.0
    log.write("client is silent peer=%s", "q")
    assert log.lines()[1:] == ["lines left out event='client is silent peer=%s' lines=3", "client is silent peer=q"]


def test_how_many_were_left_out_is_told_at_the_end() -> None:
    log = Log(1)
    log.write("again")
    log.write("again")
    log.handler.close()
    assert log.lines() == ["again", "lines left out event='again' lines=1"]


@pytest.mark.parametrize("logger", ["jdbcstore.audit", "jdbcstore.broker.lifecycle"])
def test_what_counts_is_never_left_out(logger: str) -> None:
    log = Log(1)
    for number in range(3):
        log.write("%d", number, logger=logger)
    assert log.lines() == ["0", "1", "2"]


def test_defects_are_never_left_out() -> None:
    log = Log(1)
    for _ in range(3):
        log.write("defect", error=True)
    assert log.lines() == ["defect", "ValueError: defect"] * 3


def test_without_a_limit_everything_is_written() -> None:
    log = Log(0)
    for _ in range(100):
        log.write("again")
    assert len(log.lines()) == 100


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"log\.repeats_max"):
        LogOptions(repeats_max=-1)
