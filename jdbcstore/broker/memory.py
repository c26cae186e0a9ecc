"""The account of memory: how much everything that clients make the broker keep may take, and who waits at the limit.

`memory_bytes_max` has three parts, so that what fills one of them does not stand in the way of the others::

    messages     a half       what queues keep ready, deliveries in flight, what waits for slow subscribers of topics
    kept         a quarter    open transactions, subscriptions, unfinished frames
    uncommitted  a quarter    what was sent and is on its way to the store

What happens at the limit of each:

* *Messages*: queues keep next to nothing ready, bodies of unacknowledged messages are forgotten and read again when
  they are needed, a consumer holds no more than its share unacknowledged, publishers wait for slow subscribers.
  Everything moves on, slowly; consumers' acknowledgements are never held back.
* *Kept*: what would keep more is refused, with an ERROR that names the limit. The last quarter of this part is for
  connections that keep no more than their share of it, so one that keeps much does not shut out the others. A large
  frame waits (its socket is not read) until there is room for it; one at a time may always go on, whatever there is,
  and takes no room from anybody.
* *Uncommitted*: whoever sends waits. The store's answers make room, so nobody waits for another client. COMMIT, ABORT
  and ACK are heard by those who do not wait with a SEND before them.

**What is counted.** Sizes are estimates that cost nothing, calibrated with the resident memory of the process
(``python -m benchmarks.abuse``): the bytes of bodies and headers, and for each object what it measured. Beside the
account are what is bounded by numbers (connections, destinations), one frame of the largest size while it is read, and
the store's own buffers for the batch that it writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

__all__ = [
    "DELIVERY_BYTES",
    "DURABLE_PLACE_BYTES",
    "MEMBERSHIP_BYTES",
    "NUMBERED_BYTES",
    "SELECTION_BYTES",
    "SUBSCRIPTION_BYTES",
    "TEMPORARY_BYTES",
    "TRANSACTION_BYTES",
    "WILDCARD_PLACE_BYTES",
    "WRITE_BYTES",
    "LargeFrame",
    "Memory",
    "Parked",
]

#: A delivery beside its message: the object, and its places in window, pending acks and consumer (490 measured).
DELIVERY_BYTES: Final = 512
#: A message on its way to the store beside its own bytes: row, write, completion, answer (700 measured).
WRITE_BYTES: Final = 1024
#: What a message that its producer has numbered takes besides (2 350 measured).
NUMBERED_BYTES: Final = 2048
#: A subscription: the consumer, and its places in session and queue (1 570 measured).
SUBSCRIPTION_BYTES: Final = 1536
#: The place of a subscription in one queue.
MEMBERSHIP_BYTES: Final = 256
#: The place of a subscription in one of the queues or topics that its wildcard covers (110 measured).
WILDCARD_PLACE_BYTES: Final = 128
#: The same of a durable subscription, which has a queue of its own for each topic (7 000 to 11 000 measured).
DURABLE_PLACE_BYTES: Final = 8192
#: What a selector costs besides: the parsed and the compiled condition, and what it is being looked for in
#: (2 650 measured without that).
SELECTION_BYTES: Final = 8192
#: A temporary destination beside its name, with its queue.
TEMPORARY_BYTES: Final = 6144
#: An open transaction without its messages.
TRANSACTION_BYTES: Final = 1024
#: What every connection may keep in any case.
_SHARE_LEAST: Final = 16 << 10
_DELIVERIES_LEAST: Final = 16
#: What clients may keep, have on its way to the store, and hold unacknowledged, in any case.
_PART_LEAST: Final = 1 << 20
#: An unacknowledged message whose body is forgotten.
_MESSAGE_BYTES: Final = 1024
#: What a client that is let go may send before it is asked again.
_BURST_BYTES: Final = 256 << 10


class Parked(Protocol):
    """A consumer that holds its share while memory is short."""

    def resume(self) -> None:
        """Memory is not short any more."""


class LargeFrame(Protocol):
    """A connection with a large frame that is not complete."""

    @property
    def frame_bytes(self) -> int:
        """What is counted for the frame."""

    def try_again(self) -> bool:
        """Go on with the frame if there is room now. Returns whether there was."""

    def end_if_older(self, than_s: float) -> None:
        """End the connection if its frame is being read since then."""


class Memory:
    """An account of bytes.

    Args:
        bytes_max: for everything together; single messages and deliveries in flight may go a little beyond it.
    """

    __slots__ = (
        "_growing",
        "bytes_max",
        "connections",
        "consumers",
        "history",
        "history_max",
        "kept",
        "kept_max",
        "large",
        "messages_max",
        "parked",
        "reading",
        "senders",
        "uncommitted",
        "uncommitted_max",
        "used",
        "waiting",
    )

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.messages_max = bytes_max // 2
        self.history_max = self.messages_max // 4
        # Whatever is chosen for messages, clients can subscribe and send.
        self.kept_max = max(bytes_max // 4, _PART_LEAST)
        self.uncommitted_max = max(bytes_max // 4, _PART_LEAST)
        #: Of messages.
        self.used = 0
        #: Of these what topics keep for subscribers that come later.
        self.history = 0
        #: What the pages that are being read may bring.
        self.reading = 0
        self.kept = 0
        self.uncommitted = 0
        #: How many clients there are, and how many subscriptions they have.
        self.connections = self.consumers = 0
        #: Connections with a large frame that is not complete, and those of them that wait for room, in order.
        self.large: dict[LargeFrame, None] = {}
        self.waiting: dict[LargeFrame, None] = {}
        #: Consumers that hold their share, and get more when memory is not short any more.
        self.parked: dict[Parked, None] = {}
        #: Called in turn when there is room for what is sent.
        self.senders: deque[Callable[[], object]] = deque()
        #: The connection whose frame may grow beyond the limit.
        self._growing: LargeFrame | None = None

    @property
    def total(self) -> int:
        """All that is counted."""
        return self.used + self.kept + self.uncommitted

    # -- messages --------------------------------------------------------------------------------------------------

    def has_room(self, size: int) -> bool:
        """Whether queues may keep so many bytes more."""
        return self.used + self.reading + size <= self.messages_max

    def has_plenty(self, size: int) -> bool:
        """Whether messages take less than a quarter of their part, with so many bytes more."""
        return 4 * (self.used + self.reading + size) <= self.messages_max

    @property
    def is_short(self) -> bool:
        """Whether messages take more than their part."""
        return self.used > self.messages_max

    @property
    def is_half_full(self) -> bool:
        """Whether messages take half of their part, or will."""
        return 2 * (self.used + self.reading) > self.messages_max

    @property
    def deliveries_share(self) -> int:
        """Messages that a consumer may hold when memory is short.

        A quarter of the part is for all of them. Who acknowledges a few together needs those few, or would wait for
        ever: everybody has 16 as long as the part has room for as many deliveries, and one in any case.
        """
        part, consumers = max(self.messages_max, _PART_LEAST), max(self.consumers, 1)
        few = min(part // consumers // DELIVERY_BYTES, _DELIVERIES_LEAST)
        return max(part // 4 // consumers // _MESSAGE_BYTES, few, 1)

    # -- what clients keep -----------------------------------------------------------------------------------------

    @property
    def share(self) -> int:
        """What a connection may keep, however much others do, as long as there is anything."""
        return max(self.kept_max // 4 // max(self.connections, 1), _SHARE_LEAST)

    def may_keep(self, size: int, own: int) -> bool:
        """Whether a connection that keeps `own` bytes may keep `size` more."""
        kept = self.kept_besides + size
        return kept <= self.kept_max * 3 // 4 or (kept <= self.kept_max and own + size <= self.share)

    @property
    def kept_besides(self) -> int:
        """What clients keep besides the one frame that may grow beyond the limit, which shuts nobody out."""
        return self.kept - (0 if self._growing is None else self._growing.frame_bytes)

    def may_grow(self, account: LargeFrame, size: int, own: int) -> bool:
        """Whether the frame of a connection may grow by so many bytes. One of all that ask may in any case."""
        if self.may_keep(size, own):
            return True
        if self._growing is None:
            self._growing = account
        return self._growing is account

    def finished(self, account: LargeFrame) -> None:
        """A connection has no large frame any more."""
        self.large.pop(account, None)
        if self._growing is account:
            self._growing = None

    @property
    def has_waiting(self) -> bool:
        """Whether anybody waits for memory."""
        return bool(self.waiting or self.senders or self.parked)

    # -- those who wait --------------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Let those go on who waited and have room now. Called when memory may have become free."""
        room = self.uncommitted_max - self.uncommitted
        while self.senders and room >= 0:
            self.senders.popleft()()
            room -= _BURST_BYTES
        for account in list(self.waiting):
            if not account.try_again():
                break
        if self.parked and not self.is_short:
            parked, self.parked = self.parked, {}
            for consumer in parked:
                consumer.resume()
