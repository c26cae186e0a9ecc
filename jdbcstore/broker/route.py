"""Where one message goes: found once, and handed on to whoever checks, counts, copies or stores it.

What it depends on changes: queues of virtual topics come and go, and so do the consumers whose selectors count. Who
asked again on the way of a message might hear something else, and would store what was not checked. When it is found:

* **With the message**, if that is sent outside of transactions (`jdbcstore.broker.message_division`).
* **With the COMMIT** of a transaction, since that sends its messages: a queue that has come since their SEND gets them,
  as a subscriber of their topic does. Found with SEND it would have to be kept, and counted, for as long as the
  transaction is open. Of many messages it is found in slices, with what else is made ready for each.
* **With the first phase** of a distributed transaction, which promises that the second one succeeds: what the store is
  to keep is fixed then. What is not persistent goes to the same places when it is committed.
* **When it is due**, if it is for later: until then its route says nothing but that. What is delivered again after a
  delay waits like this, too; what goes back into its queue at once is not sent again.
* **When it moves**: a dead letter, or what an operator moves, is sent anew to its destination. It is never for later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from jdbcstore.broker.memory import WRITE_BYTES
from jdbcstore.destination import Destination
from jdbcstore.message import Message

__all__ = ["Place", "Route"]


class Place(NamedTuple):
    """Where a copy goes.

    Args:
        destination: its destination.
        original: what it tells as its original destination.
    """

    destination: Destination
    original: Destination | None

    def copy_of(self, message: Message) -> Message:
        """The copy of a message for this place."""
        copy = message.copy()
        copy.destination, copy.original_destination = self
        return copy


class Route(NamedTuple):
    """Where a message goes. Without more than the message: to its destination, now, and nowhere else.

    Args:
        message: the message.
        places: for which there are copies.
        stays: whether the message itself goes to its own destination.
        is_later: whether the scheduler keeps it instead, and nothing else is found.
    """

    message: Message
    places: Sequence[Place] = ()
    stays: bool = True
    is_later: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the message goes to its destination, now, and nowhere else."""
        return self.stays and not self.places and not self.is_later

    @property
    def size(self) -> int:
        """Bytes that the message and its copies take on their way to the store."""
        return (len(self.places) + 1) * (self.message.size + WRITE_BYTES)

    @property
    def copied_bytes(self) -> int:
        """What the copies take of that."""
        return len(self.places) * (self.message.size + WRITE_BYTES)

    def destinations(self) -> list[Destination]:
        """Where copies go, and the message itself if that stays."""
        there = [place.destination for place in self.places]
        if self.stays and self.message.destination is not None:
            there.append(self.message.destination)
        return there

    def messages(self) -> Iterable[Message]:
        """The copies, made one by one, and the message itself if that stays."""
        return self._made() if self.places else (self.message,) if self.stays else ()

    def _made(self) -> Iterator[Message]:
        for place in self.places:
            yield place.copy_of(self.message)
        if self.stays:
            yield self.message
