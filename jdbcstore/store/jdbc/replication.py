"""What a server says of its replicas, in words that are the same for every database.

A commit that is answered is on the server that answered. What else it is on, and so what is left of it when that
server is gone, is a matter of its settings: the dialect reads them (`Dialect.replication`), the option
`JdbcOptions.require_replication` says how little is too little, and `jdbcstore lock status` shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from jdbcstore.errors import NotReplicated

__all__ = ["Level", "Replication"]


class Level(IntEnum):
    """Where a commit is when it is answered; each level has what those before it have."""

    #: On this server, or not even on its disk.
    NONE = 0
    #: On one more server at least.
    ANY = 1
    #: On more than half of the servers, counting this one: any two such halves have one in common, so whichever half a
    #: failover chooses from, one of them has it.
    QUORUM = 2

    @classmethod
    def named(cls, name: str) -> Level:
        """The level of `require_replication`: ``none``, ``any`` or ``quorum``."""
        return cls[name.upper()]

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Replication:
    """What a server says.

    Args:
        level: what its settings promise now, about this session's commits.
        told: its replicas and how it waits for them, a few words.
        weaknesses: what makes an answered commit less than it seems, one sentence each; empty if nothing does.
        takes_writes: whether it is a primary: False for a standby.
    """

    level: Level
    told: str
    weaknesses: tuple[str, ...] = ()
    takes_writes: bool = True

    def require(self, required: Level) -> None:
        """Raise `NotReplicated` if this is less than what is required."""
        if self.level < required:
            why = "; ".join(self.weaknesses) or "nobody waits for a replica"
            raise NotReplicated(
                f"require_replication = {required}, and the database gives {self.level}: {self.told}; {why}. Change its"
                " settings, or require_replication if less is enough"
            )
