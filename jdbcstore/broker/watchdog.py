"""The watchdog: tells the log when something holds the event loop, so that nobody is served, and what it was.

A thread of its own asks the loop for a sign of life, many times a second, and measures how long it takes and how much
processor time the loop's thread needs meanwhile. When it takes too long, the thread looks at what the loop's thread is
doing at that moment: the calls that it is in, and the client, command and destination that they are about. So it costs
those nothing who are served: nothing is noted down in advance.

A machine that is too busy looks the same, except that next to no processor time was used. So does a call that waits.
Both figures are told; what needed next to none is told once a minute at most, since a busy machine stays so for long.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Iterator
from functools import singledispatch
from types import FrameType
from typing import Final

__all__ = ["Watchdog", "described", "subject"]

log = logging.getLogger(__name__)

#: Signs of life within the time that is too long.
_SIGNS: Final = 4
_CALLS_MAX: Final = 8
_JOIN_S: Final = 1.0
#: The part of the time for which a loop that works has the processor, at least, and how often it is told otherwise.
_AT_WORK: Final = 0.1
_STARVED_PAUSE_S: Final = 60.0


class Watchdog:
    """Watches an event loop. Construct, `start` and `stop` it in the loop's thread.

    Args:
        loop: whom.
        limit_ms: what takes longer is told.
    """

    def __init__(self, loop: AbstractEventLoop, limit_ms: int) -> None:
        self._loop = loop
        self._limit_s = limit_ms / 1000
        self._watched = threading.get_ident()
        self._clock = _processor_clock(self._watched)
        self._sign = threading.Event()
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jdbcstore-watchdog", daemon=True)
        #: The longest that the loop took for a sign of life, and the most processor time of its thread meanwhile.
        self.longest_s = self.longest_processor_s = 0.0
        #: How often it took too long.
        self.count = 0
        #: Those of them without a processor that were not told yet, and when they are, by the monotonic clock.
        self._untold = 0
        self._quiet_until_s = 0.0

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._has_ended.set()
        self._sign.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._has_ended.wait(self._limit_s / _SIGNS):
            self._sign.clear()
            try:
                self._look()
            except (RuntimeError, OSError):  # the loop is closed, or its thread has ended and has no clock any more
                return

    def _look(self) -> None:
        began_s, processor_s = time.monotonic(), self._processor_s()
        self._loop.call_soon_threadsafe(self._sign.set)
        doing = "" if self._sign.wait(self._limit_s) else self._doing()
        self._sign.wait()
        held_s, processor_s = time.monotonic() - began_s, self._processor_s() - processor_s
        self.longest_s = max(self.longest_s, held_s)
        self.longest_processor_s = max(self.longest_processor_s, processor_s)
        if doing and not self._has_ended.is_set():
            self.count += 1
            self._tell(held_s, processor_s, doing)

    def _doing(self) -> str:
        try:
            return described(sys._current_frames().get(self._watched))
        except Exception as error:  # noqa: BLE001  # what it looks at changes meanwhile; it goes on
            return f"[unknown: {error!r} while reading the stack]"

    def _tell(self, held_s: float, processor_s: float, doing: str) -> None:
        held_ms, processor_ms = held_s * 1000, processor_s * 1000
        if self._clock is None or processor_s > held_s * _AT_WORK:
            log.warning("event loop held held_ms=%.0f processor_ms=%.0f doing=%s", held_ms, processor_ms, doing)
            return
        self._untold += 1
        if time.monotonic() < self._quiet_until_s:
            return
        log.warning(
            "event loop held without a processor: the machine gave it none, or a call waits held_ms=%.0f"
            " processor_ms=%.0f times=%d doing=%s",
            held_ms,
            processor_ms,
            self._untold,
            doing,
        )
        self._untold, self._quiet_until_s = 0, time.monotonic() + _STARVED_PAUSE_S

    def _processor_s(self) -> float:
        return 0.0 if self._clock is None else time.clock_gettime(self._clock)


def _processor_clock(thread: int) -> int | None:
    """The clock of a thread's processor time; None where there is none."""
    if sys.platform in ("win32", "darwin"):
        return None
    return time.pthread_getcpuclockid(thread)


def described(frame: FrameType | None) -> str:
    """What a thread is doing: what it is about, and the calls that it is in, innermost first."""
    about: dict[str, None] = {}
    calls: list[str] = []
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("jdbcstore."):
            calls.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
            about.update(dict.fromkeys(_about(list(frame.f_locals.values()))))
        frame = frame.f_back
    return f"[{', '.join(about) or 'unknown'}] in {' < '.join(calls[:_CALLS_MAX]) or 'no code of ours'}"


def _about(values: list[object]) -> Iterator[str]:
    for value in values:
        try:
            text = subject(value)
        except AttributeError:  # its constructor has not come that far
            text = f"a new {type(value).__name__}"
        if text is not None:
            yield text


@singledispatch
def subject(value: object) -> str | None:
    """What the log calls a thing that work is about: a client, its command, a queue. Those who have such things
    register theirs; all others are nothing."""
    return None
