"""What a migration did, whatever it copied with."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Migrated", "Moved"]


@dataclass
class Moved:
    """What was done about one destination.

    Args:
        messages, bytes: how many, and what they take as they are compared; in a dry run what is stored, None if only
            reading everything would tell.
        content: a hash of them and their order, the same in both stores; empty in a dry run.
        seconds: from its first message to its last; destinations that are mixed take turns. 0 if they are copied at
            the same time.
    """

    messages: int = 0
    bytes: int | None = 0
    content: str = ""
    seconds: float = 0.0


@dataclass
class Migrated:
    """What a migration did, or would do.

    Args:
        source, target: without passwords.
        is_dry: whether nothing was done.
        is_live: whether a broker was at work on the source: what it did since is not in the target.
        is_resumed: whether an earlier run had begun it.
        messages, bytes: of all destinations.
        copied: how many messages were copied by this run.
        destinations: by name.
        subscriptions: by topic, client and name: how many messages each waits for.
        transactions: prepared ones by name: added + removed + acknowledged, and a hash of them.
        jobs: how many scheduled messages.
        producers: how many producers' numbers.
        damages: what could not be read and was left out.
        damages_unlisted: how many more there are.
        seconds: all of it.
        others: where tables are copied row by row, and none of the four before is known: how many rows of each other
            table; out of a journal how many subscriptions.
    """

    source: str
    target: str
    is_dry: bool = False
    is_live: bool = False
    is_resumed: bool = False
    messages: int = 0
    bytes: int = 0
    copied: int = 0
    destinations: dict[str, Moved] = field(default_factory=dict)
    subscriptions: dict[str, int] = field(default_factory=dict)
    transactions: dict[str, str] = field(default_factory=dict)
    jobs: int = 0
    producers: int = 0
    damages: list[str] = field(default_factory=list)
    damages_unlisted: int = 0
    seconds: float = 0.0
    others: dict[str, int] = field(default_factory=dict)

    def count(self, destination: str, moved: Moved) -> None:
        """Add a destination."""
        self.destinations[destination] = moved
        self.messages += moved.messages
        self.bytes += moved.bytes or 0
