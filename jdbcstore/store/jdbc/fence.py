"""What every commit of a master proves, so that one that was replaced without noticing writes nothing any more."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

__all__ = ["Fence", "session_name"]


@dataclass(frozen=True, slots=True)
class Fence:
    """A mastership, as the database knows it.

    Args:
        holder: the id of the broker that has it, a new one for each mastership, so that it says all that has to be
            proved.
        term: its number.
        by_lease: whether the holder stands in ACTIVEMQ_LOCK, which a takeover by anybody changes, a Java broker too.
            If not, somebody has that row locked for as long as it is master, so only our own table can be asked.
        idle_ms: how long the server bears with a session of ours that is silent inside a transaction.
    """

    holder: str
    term: int
    by_lease: bool
    idle_ms: int


def session_name(holder: str) -> str:
    """What the writing sessions of a holder are called on the server, 42 characters: the next master ends them."""
    return "jdbcstore " + hashlib.sha256(holder.encode()).hexdigest()[:32]
