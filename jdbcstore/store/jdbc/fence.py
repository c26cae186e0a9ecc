"""What every commit of a master proves, so that one that was replaced without noticing writes nothing any more."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from jdbcstore.errors import LeaseLost

__all__ = ["Fence", "lock_session_name", "session_name"]


@dataclass(frozen=True, slots=True)
class Fence:
    """A mastership, as the database knows it.

    Args:
        holder: the id of the broker that has it, a new one for each mastership, so that it says all that has to be
            proved.
        term: its number.
        idle_ms: how long the server bears with a session of ours that is silent inside a transaction.
        lock_session: what the server knows the session by that has the row of ACTIVEMQ_LOCK locked for as long as it
            is master. None when the holder stands in that row, which a takeover by anybody changes, a Java broker too.
        history: of the data (`Dialect.history`); empty if it has no name. Another server's, after a failover or while
            two believe to be primary, is neither read nor written.
    """

    holder: str
    term: int
    idle_ms: int = field(kw_only=True)
    lock_session: int | None = field(default=None, kw_only=True)
    history: str = field(default="", kw_only=True)

    @property
    def by_lease(self) -> bool:
        """Whether the holder stands in ACTIVEMQ_LOCK. If not, a commit asks our table of terms and for the session."""
        return self.lock_session is None

    def lost(self) -> LeaseLost:
        """What to raise when it does not hold."""
        if self.by_lease:
            return LeaseLost(f"another broker is master since term {self.term} of {self.holder}")
        return LeaseLost(f"the session that held the lock for term {self.term} of {self.holder} is gone")


def session_name(holder: str) -> str:
    """What the writing sessions of a holder are called on the server, 42 characters: the next master ends them."""
    return "jdbcstore " + hashlib.sha256(holder.encode()).hexdigest()[:32]


def lock_session_name(holder: str) -> str:
    """What the session is called, where it needs a name, that has the row of ACTIVEMQ_LOCK locked; 47 characters."""
    return f"{session_name(holder)} lock"
