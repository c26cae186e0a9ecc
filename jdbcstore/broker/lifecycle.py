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
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

__all__ = ["Lifecycle", "State", "Status"]

log = logging.getLogger(__name__)


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
    """The state of one broker. Changes in the event loop only; may be looked at from anywhere."""

    def __init__(self) -> None:
        #: Called in the event loop at every change.
        self.listeners: list[Callable[[Status], object]] = []
        self._status = Status(State.STARTING, datetime.now(UTC), "the process has started", None, None)
        self._changed = asyncio.Event()

    @property
    def status(self) -> Status:
        """Everything at once."""
        return self._status

    @property
    def state(self) -> State:
        """Where the broker is."""
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
