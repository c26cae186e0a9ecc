"""What a store keeps of bulk loads that its broker is to take in: a waiting room beside the destinations.

A load that was written while a broker was master lies complete in the store, and nobody sees it. The broker takes it in
page by page, as if a producer had sent it, and each page leaves the waiting room in the commit that brings its messages
to their destinations (`PersistenceAdapter.commit_together`). So each message is taken in once, whatever crashes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

from jdbcstore.errors import CodecError
from jdbcstore.message import Message

__all__ = [
    "START",
    "IntakePage",
    "IntakeStore",
    "OutboxBell",
    "Staged",
    "StagedPlace",
    "SupportsIntake",
    "TakenIn",
    "WaitingLoad",
]

#: Part of the load and number within it; the order in which messages are taken in.
StagedPlace: TypeAlias = tuple[int, int]

#: Before every place.
START: StagedPlace = (-1, -1)


@dataclass(frozen=True, slots=True)
class WaitingLoad:
    """A load that is complete and waits for the broker.

    Args:
        job: its name.
        messages: how many it has.
        taken, refused: how many of them are taken in, and how many could not be.
        is_outbox: whether it is the outbox of applications, which is never complete; `messages` means nothing then.
    """

    job: str
    messages: int
    taken: int
    refused: int
    is_outbox: bool = False


@dataclass(frozen=True, slots=True)
class Staged:
    """A message of the waiting room, and its place; an error if it cannot be read."""

    place: StagedPlace
    message: Message | CodecError


#: Some of a load in its order; empty behind the last.
IntakePage: TypeAlias = Sequence[Staged]


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What a commit takes out of the waiting room.

    Args:
        load: as it is before the commit. If it is not like that any more, the whole commit fails.
        places: the messages that the commit adds, in their order.
        refused: those that can never be added; they stay, and are not offered again.
    """

    load: WaitingLoad
    places: Sequence[StagedPlace]
    refused: Sequence[StagedPlace] = ()

    @property
    def after(self) -> WaitingLoad:
        """The load as it is after the commit."""
        load = self.load
        return replace(load, taken=load.taken + len(self.places), refused=load.refused + len(self.refused))

    @property
    def is_end(self) -> bool:
        """Whether nothing of the load waits any more after the commit."""
        after = self.after
        return not after.is_outbox and after.taken + after.refused >= after.messages


class OutboxBell(ABC):
    """How a broker hears that an application has committed messages for the outbox.

    Attributes:
        descriptor: a file descriptor that is readable then; None if nobody tells.
        poll_ms: how often to look in any case, milliseconds.
    """

    descriptor: int | None
    poll_ms: int

    @abstractmethod
    def clear(self) -> None:
        """Read what has made the descriptor readable. Raises `StoreError` when nobody will tell any more."""

    @abstractmethod
    def close(self) -> None:
        """Hear nothing any more. Does not wait."""


class IntakeStore(ABC):
    """The waiting room of one adapter."""

    @abstractmethod
    def waiting_load(self) -> WaitingLoad | None:
        """The load that has waited longest. Asked every second, so it costs next to nothing."""

    @abstractmethod
    def outbox(self) -> WaitingLoad:
        """The outbox, and how many messages were ever taken out of it. What waits there is `staged` of its job, from
        `START` each time: applications commit in any order."""

    @abstractmethod
    def outbox_bell(self) -> OutboxBell:
        """A new one."""

    @abstractmethod
    def staged(self, job: str, after: StagedPlace, messages_max: int, bytes_max: int) -> IntakePage:
        """Messages of a load.

        Args:
            job: which.
            after: the place behind which to begin.
            messages_max: the most messages to return, at least 1.
            bytes_max: stop after the message that reaches this many stored bytes; one always fits.
        """


@runtime_checkable
class SupportsIntake(Protocol):
    """An adapter that others load in bulk."""

    def intake_store(self) -> IntakeStore | None:
        """Its waiting room; None if it has none, since its tables are older."""
