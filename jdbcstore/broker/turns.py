"""Turns of the event loop: what has happened in one is dispatched and written at its end, in one go."""

from __future__ import annotations

import logging
from collections import deque
from time import perf_counter
from typing import Protocol

from jdbcstore.broker.callbacks import ClientCallbacks
from jdbcstore.broker.host import Dispatching, Host
from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.store.lease import boot_time_ns

__all__ = ["Trusting", "Turns"]

log = logging.getLogger(__name__)


class Trusting(Host, Protocol):
    """A broker that may act as master until a certain time, and whose memory may become short."""

    @property
    def trusted_until_ns(self) -> int:
        """`boot_time_ns` from when on it may not."""

    def distrust(self) -> None:
        """The trust in the lease has run out."""

    def open_spool_ahead(self) -> None:
        """Have the spool opened before it is needed."""


class Turns:
    """Who has something to dispatch, and who has something to write.

    Args:
        host: gives the loop and the memory, and is told when it is not to be trusted any more.
    """

    def __init__(self, host: Trusting) -> None:
        self._host = host
        self._awake: deque[Dispatching] = deque()
        self._talking: deque[ClientCallbacks] = deque()
        self._is_scheduled = False

    def awake(self, what: Dispatching) -> None:
        """This queue has something to dispatch, or this consumer can take more."""
        self._awake.append(what)
        if not self._is_scheduled:
            self._schedule_turn()

    def talking(self, transport: ClientCallbacks) -> None:
        """A transport has something to write."""
        self._talking.append(transport)
        if not self._is_scheduled:
            self._schedule_turn()

    def promise(self) -> None:
        """Who calls this calls `turn` before the loop goes on: nobody has to schedule it."""
        self._is_scheduled = True

    def _schedule_turn(self) -> None:
        self._is_scheduled = True
        self._host.loop.call_soon(self.turn)

    def turn(self) -> None:
        """Dispatch, then write: once per turn of the loop, whatever the number of frames that arrived in it.

        What takes longer than a slice goes on in the next turn.
        """
        self._is_scheduled = False
        memory = self._host.memory
        if memory.has_waiting:
            memory.admit()
        if memory.is_half_full:
            self._host.open_spool_ahead()
        if self._awake and self._host.is_running and boot_time_ns() >= self._host.trusted_until_ns:
            self._host.distrust()
        awake, talking = self._awake, self._talking
        deadline_s = perf_counter() + SLICE_S
        is_in_time = True
        while awake or talking:
            for _ in range(len(awake)):
                what = awake.popleft()
                try:
                    is_in_time = what.dispatch() and is_in_time
                except Exception:
                    log.exception("defect in dispatching %r", what)  # the other queues go on
                if not is_in_time or perf_counter() > deadline_s:
                    is_in_time = False
                    break
            deadline_s = perf_counter() + SLICE_S
            for _ in range(len(talking)):
                _write(talking.popleft())
                if perf_counter() > deadline_s:
                    is_in_time = False
                    break
            if not is_in_time and (awake or talking) and not self._is_scheduled:
                self._schedule_turn()
            if self._is_scheduled:
                return

    def say_everything(self) -> None:
        """Write all there is to say: there may be no other turn."""
        while self._talking:
            _write(self._talking.popleft())


def _write(transport: ClientCallbacks) -> None:
    try:
        transport.write()
    except Exception:
        log.exception("defect in writing to %r", transport)  # the other clients go on
