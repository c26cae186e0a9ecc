"""What a migration did."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Migrated"]


@dataclass
class Migrated:
    """What a migration did, or would.

    Args:
        source, target: without passwords.
        is_resumed: whether an earlier run had begun it.
        messages, bytes: how many there are now, and what they take.
        skipped: how many of them an earlier run had copied.
        destinations: of each its messages, bytes and the sum of their hashes, which are alike in both stores.
        others: rows of the other tables, by their names; what it did about subscriptions of KahaDB.
    """

    source: str
    target: str
    is_resumed: bool = False
    messages: int = 0
    bytes: int = 0
    skipped: int = 0
    destinations: dict[str, dict[str, int | str]] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)

    def count(self, destination: str, messages: int, size: int, content: int | None = None) -> None:
        """Add a destination; arguments as in `destinations`."""
        found: dict[str, int | str] = {"messages": messages, "bytes": size}
        if content is not None:
            found["content"] = f"{content & ((1 << 64) - 1):016x}"
        self.destinations[destination] = found
        self.messages += messages
        self.bytes += size
