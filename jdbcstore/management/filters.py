"""Which messages an operator means: by selector, by number, by where they came from and why they are dead."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from jdbcstore.errors import CodecError
from jdbcstore.message import Message
from jdbcstore.primitives import Value
from jdbcstore.selector import Selector

__all__ = ["EVERYTHING", "NO_CAUSE", "Filter", "cause_of", "number_of", "origin_of"]

#: A dead letter that its consumer refused has no cause.
NO_CAUSE: Final = "refused by a consumer"
_CAUSE: Final = "dlqDeliveryFailureCause"
_CAUSE_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True)
class Filter:
    """All conditions that are given have to hold; without any it is every message.

    Args:
        selector: as consumers have it.
        numbers: the messages with these numbers in the store.
        message_ids: the messages with these ids.
        origin: only from this destination, by its qualified name; see `origin_of`.
        cause: only dead letters with this cause; see `cause_of`.
        limit: no more than so many; 0 for all.

    Raises:
        SelectorError: from `check` and `matches`.
    """

    selector: str = ""
    numbers: frozenset[int] = frozenset()
    message_ids: frozenset[str] = frozenset()
    origin: str = ""
    cause: str = ""
    limit: int = 0

    @cached_property
    def _parsed(self) -> Selector | None:
        return Selector.parse(self.selector) if self.selector else None

    def check(self) -> None:
        """Raise SelectorError if the selector is none."""
        self._parsed  # noqa: B018  # parsing is the check

    @property
    def is_everything(self) -> bool:
        """Whether every message matches."""
        return self == Filter(limit=self.limit)

    def matches(self, message: Message) -> bool:
        """Whether a message is meant."""
        return (
            (not self.numbers or number_of(message) in self.numbers)
            and (not self.message_ids or str(message.message_id) in self.message_ids)
            and (not self.origin or origin_of(message) == self.origin)
            and (not self.cause or cause_of(message) == self.cause)
            and (self._parsed is None or self._parsed.matches(message))
        )

    def __str__(self) -> str:
        parts = [
            self.selector and f"selector {self.selector}",
            self.numbers and f"{len(self.numbers)} numbers",
            self.message_ids and f"{len(self.message_ids)} ids",
            self.origin and f"from {self.origin}",
            self.cause and f"cause {self.cause}",
            self.limit and f"at most {self.limit}",
        ]
        return ", ".join(str(part) for part in parts if part) or "all messages"


#: Every message.
EVERYTHING: Final = Filter()


def number_of(message: Message) -> int:
    """A message's number in the store."""
    return 0 if message.message_id is None else message.message_id.broker_sequence_id


def origin_of(message: Message) -> str:
    """Where a message was before it came to this destination; empty if nowhere else."""
    return "" if message.original_destination is None else message.original_destination.qualified_name


def cause_of(message: Message) -> str:
    """Why a dead letter is dead, without what differs from one message to the next; `NO_CAUSE` if nothing says so."""
    try:
        cause: Value = message.properties.get(_CAUSE)
    except CodecError:
        return "its properties cannot be read"
    if not isinstance(cause, str):
        return NO_CAUSE
    first = cause.strip().partition("\n")[0]
    if "Message Expired" in first:
        return "expired"
    return first[:_CAUSE_CHARACTERS_MAX]
