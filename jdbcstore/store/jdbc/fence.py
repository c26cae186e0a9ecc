"""What every commit of a master proves, so that one that was replaced without noticing writes nothing any more.

**One server.** A commit reads the row that names the master under a share lock, in its own transaction. A takeover has
to write that row. So either it waits until the commit is over, or the commit waits and then reads another name.

**A cluster whose members certify commits** (Galera, Group Replication) has no such lock: a takeover on member B writes
the row while a commit on member A has it locked, and what was only read is in nobody's write set. There each commit
*writes* the row: ``UPDATE … WHERE ID = 1 AND BROKER_NAME = us``, with a bit changed so that there is something to
write, and fails unless that met one row. Let W be the commit of the former master on A, T the takeover on B, which
changes BROKER_NAME in the same row. All members have all write sets in one order.

* W before T: B applies W before it commits T, and so whoever reads on B as the new master sees what W has stored. (T
  itself fails, if it had not seen W: it wrote the same row. It then is tried again behind W.)
* T before W, and A has not applied T when W asks for its place: W has not seen T, which wrote a row that W has written.
  W fails its certification, on every member alike, whatever A has applied since.
* T before W, and A has applied T by then: applying T needs the lock of the row, which W holds from its own UPDATE on.
  Either T came first, and the UPDATE of W found another name; or T ended W by force to get the lock (error 1213).

So no W is committed behind T, on no member, however late a member is, and without any clock. It holds for the takeover
of a Java broker with a lease, too, which writes the same row. What fails with 1213 was rolled back: it is tried again,
and then proves again.

The sessions of one master write the row one after the other. The writer is one session and does not notice, and a
renewal waits for a commit as it does for the share lock. The parts of a bulk load commit one after the other; their
rows are sent and applied side by side all the same, and the members put commits in order anyway. Sessions of one master
on *different* members get in each other's way: the later one fails with 1213 and is tried again. That is why all
connections of a process go to one member while that is there.
"""

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
