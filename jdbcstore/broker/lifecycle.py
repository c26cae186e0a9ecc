"""The life of a broker as a state machine: where it is, since when, why, and where it may go from there.

::

    starting ──▶ standby ──▶ recovering ──▶ master
        │           ▲  ▲         ▲ │          │
        └───────────│──│─────────┘ ▼          ▼
                    │  └─────── suspended ◀───┘      every state ──▶ stopping

* **starting**: the process is there and asks its store for the first time.
* **standby**: another broker is master; this one looks again and again.
* **recovering**: it has the lock and finds out what is in the store.
* **master**: clients may connect. In no other state does it listen for them.
* **suspended**: it was master and does not know whether it still is, or cannot reach its store; or nobody may become
  master of the store as it is now (`NotReplicated`, `HistoryLost`). No client is served.
* **stopping**: the end.

**What is told is true when it is told.** A master whose lease has run out is one no more, although nothing in it may
have noticed yet: a process that was stopped and goes on, or a machine that slept, has other things to do first. So who
asks a `Lifecycle` where it is gets *suspended* from that moment on, by the clock and not by a timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

__all__ = ["UNTRUSTED", "Lifecycle", "State", "Status"]

log = logging.getLogger(__name__)

#: Why a master is suspended whose lease has run out.
UNTRUSTED: Final = "the lease was not renewed in time"


class State(StrEnum):
    """Where a broker is in its life."""

    STARTING = "starting"
    STANDBY = "standby"
    RECOVERING = "recovering"
    MASTER = "master"
    SUSPENDED = "suspended"
    STOPPING = "stopping"


_NEXT: Final = {
    State.STARTING: {State.STANDBY, State.RECOVERING, State.STOPPING},
    State.STANDBY: {State.RECOVERING, State.SUSPENDED, State.STOPPING},
    State.RECOVERING: {State.MASTER, State.SUSPENDED, State.STOPPING},
    State.MASTER: {State.SUSPENDED, State.STOPPING},
    State.SUSPENDED: {State.RECOVERING, State.STANDBY, State.STOPPING},
    State.STOPPING: set[State](),
}


@dataclass(frozen=True, slots=True)
class Status:
    """What is told about a broker.

    Args:
        state: where it is.
        since: when it came there.
        reason: why, one sentence.
        term: of its mastership, None while it is not master of anything.
        holder: the id under which it holds the lock, None likewise.
    """

    state: State
    since: datetime
    reason: str
    term: int | None
    holder: str | None


class Lifecycle:
    """The state of one broker. Changes in the event loop only; may be looked at from anywhere.

    Args:
        is_trusted: whether a master may go on as such at this moment. Called by whoever looks, in any thread.
    """

    def __init__(self, is_trusted: Callable[[], bool] = lambda: True) -> None:
        self._is_trusted = is_trusted
        #: Called in the event loop at every change.
        self.listeners: list[Callable[[Status], object]] = []
        self._status = Status(State.STARTING, datetime.now(UTC), "the process has started", None, None)
        self._changed = asyncio.Event()

    @property
    def status(self) -> Status:
        """Everything at once, as it is now."""
        entered = self._status
        if entered.state is not State.MASTER or self._is_trusted():
            return entered
        return replace(entered, state=State.SUSPENDED, since=datetime.now(UTC), reason=UNTRUSTED)

    @property
    def state(self) -> State:
        """Where the broker is now."""
        return self.status.state

    @property
    def entered(self) -> State:
        """Where it went last: still *master* when its trust has run out and it has not come to act upon it."""
        return self._status.state

    def change(self, state: State, reason: str, *, term: int | None = None, holder: str | None = None) -> None:
        """Go on to another state; to the same one only for another reason.

        Args:
            state: where to.
            reason: why, one sentence for the log and for who asks.
            term, holder: of the mastership, if it is one.

        Raises:
            RuntimeError: there is no way from here to there.
        """
        before = self._status
        if state is not before.state and state not in _NEXT[before.state]:
            raise RuntimeError(f"a broker that is {before.state} cannot become {state}")
        self._status = Status(state, before.since if state is before.state else datetime.now(UTC), reason, term, holder)
        level = logging.WARNING if state is State.SUSPENDED else logging.INFO
        log.log(level, "state changed from=%s to=%s term=%s reason=%r", before.state, state, term, reason)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for listener in self.listeners:
            listener(self._status)

    async def reached(self, *states: State) -> State:
        """Wait until the broker is in one of these states; returns which."""
        while self.state not in states:
            await self._changed.wait()
        return self.state
