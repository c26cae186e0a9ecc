"""Consumers without prefetch: each message is asked for, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from jdbcstore.broker.delivery import Consumer

__all__ = ["Pulls"]

#: How often it is looked whether a queue that is being read has something, at first and at most; and for how long.
_LOOK_FIRST_S: Final = 0.002
_LOOK_MOST_S: Final = 0.05
_LOOK_IN_ALL_S: Final = 10.0


class Pulls:
    """The pulls of one client that wait for a message.

    A pull is credit for one message (`Consumer.extension`), which its acknowledgement does not give back.

    Args:
        loop: the event loop.
    """

    __slots__ = ("_asked", "_loop", "_timers")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[Consumer, asyncio.TimerHandle] = {}
        #: The latest pull of each, answered with a message or not yet: since when, its timeout, and who is told.
        self._asked: dict[Consumer, tuple[float, int, Callable[[], object]]] = {}

    def pull(self, consumer: Consumer, timeout_ms: int, told: Callable[[], object]) -> None:
        """Ask for one message. One that was asked for before, and was not there, is not asked for any more.

        Args:
            consumer: who asks; its prefetch is 0.
            timeout_ms: how long to wait for it; 0 is for ever, less is only for what is there.
            told: called when there is none by then.
        """
        if consumer.is_awake:  # the one that it asked for in this turn of the loop goes first
            consumer.dispatch()
        self.withdraw(consumer)
        self._asked[consumer] = (self._loop.time(), timeout_ms, told)
        consumer.extension += 1
        consumer.credit += 1
        consumer.resume()
        if timeout_ms > 0:
            self._timers[consumer] = self._loop.call_later(timeout_ms / 1000, self._over, consumer, told)
        elif timeout_ms < 0:
            until_s = self._loop.time() + _LOOK_IN_ALL_S
            self._timers[consumer] = self._loop.call_later(
                _LOOK_FIRST_S, self._look, consumer, told, _LOOK_FIRST_S, until_s
            )

    def pull_again(self, consumer: Consumer) -> None:
        """Its latest pull was answered with what it does not take for an answer, and it waits as if none had come."""
        if consumer in self._asked and consumer.credit <= 0:
            since_s, timeout_ms, told = self._asked[consumer]
            if timeout_ms > 0:
                timeout_ms = max(1, timeout_ms - int((self._loop.time() - since_s) * 1000))
            self.pull(consumer, timeout_ms, told)

    def withdraw(self, consumer: Consumer) -> None:
        """What a consumer has asked for, and has not come, is not asked for any more."""
        self._asked.pop(consumer, None)
        timer = self._timers.pop(consumer, None)
        if timer is not None:
            timer.cancel()
        if not consumer.prefetch and consumer.credit > 0:
            consumer.extension -= consumer.credit
            consumer.credit = 0

    def close(self) -> None:
        """The client is gone."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._asked.clear()

    def _look(self, consumer: Consumer, told: Callable[[], object], pause_s: float, until_s: float) -> None:
        if consumer.credit > 0 and not consumer.is_settled and self._loop.time() < until_s:
            pause_s = min(2 * pause_s, _LOOK_MOST_S)
            self._timers[consumer] = self._loop.call_later(pause_s, self._look, consumer, told, pause_s, until_s)
        else:
            self._over(consumer, told)

    def _over(self, consumer: Consumer, told: Callable[[], object]) -> None:
        if consumer.credit > 0 and not consumer.is_closed:
            self.withdraw(consumer)
            told()
        else:
            self._timers.pop(consumer, None)
