"""What consumers gave back to a queue: it is delivered again before everything else, in its old order.

A consumer that goes may leave a hundred thousand messages, many consumers a few each, and each of them may be taken
from the middle (by a selector, by the search for expired messages). So it is a heap with an index: giving back and
taking the first cost the logarithm of what is there, taking any other nothing but a note. What was taken from the
middle stands in the heap until it comes up, or until the heap is half made of such, and is rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from jdbcstore.broker.delivery import Delivery, DeliverySource, by_place

__all__ = ["Returned"]


class Returned:
    """Deliveries of one queue that wait for another consumer."""

    __slots__ = ("_heap", "_stored", "members")

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int], Delivery]] = []
        #: Those that are there, in the order in which they came; for others to look at, which costs no call.
        self.members: dict[Delivery, None] = {}
        #: Those of them that survive the process, by their sequence.
        self._stored: dict[int, Delivery] = {}

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Delivery]:
        """All of them, in any order."""
        return iter(self.members)

    def __contains__(self, delivery: object) -> bool:
        return delivery in self.members

    def add(self, deliveries: Iterable[Delivery]) -> None:
        """These were given back."""
        members, heap = self.members, self._heap
        added = [(by_place(delivery), delivery) for delivery in deliveries if delivery not in members]
        for _, delivery in added:
            members[delivery] = None
            if delivery.lane is not None and delivery.lane.is_durable:
                self._stored[delivery.message_id.broker_sequence_id] = delivery
        if len(added) > len(heap) // 8:  # then it is cheaper
            heap += added
            heapify(heap)
        else:
            for entry in added:
                heappush(heap, entry)

    def first(self) -> Delivery | None:
        """The one that goes first; it stays."""
        heap, members = self._heap, self.members
        while heap:
            delivery = heap[0][1]
            if delivery in members:
                return delivery
            heappop(heap)
        return None

    def discard(self, delivery: Delivery) -> bool:
        """Take one out. Returns whether it was there."""
        if delivery not in self.members:
            return False
        del self.members[delivery]
        sequence = delivery.message_id.broker_sequence_id
        if self._stored.get(sequence) is delivery:
            del self._stored[sequence]
        if self._heap[0][1] is delivery:
            heappop(self._heap)
        elif len(self._heap) > 2 * len(self.members) + 64:
            self._heap = [entry for entry in self._heap if entry[1] in self.members]
            heapify(self._heap)
        return True

    def stored(self, lane: DeliverySource, sequence: int) -> Delivery | None:
        """The one of a durable lane with this sequence; it stays."""
        delivery = self._stored.get(sequence)
        return delivery if delivery is not None and delivery.lane is lane else None

    def take_all(self) -> list[Delivery]:
        """Take all of them out, in any order."""
        members = list(self.members)
        self.members.clear()
        self._stored.clear()
        self._heap.clear()
        return members
