"""A queue that a channel consumes from: its subscriptions, what has come and was not handed over, what is not settled.

A message that was delivered stays in the broker's store until its ACK; here is nothing that a crash could lose.

**Prefetch.** The broker is told at SUBSCRIBE how many messages may be here, and cannot be told later. When kombu wants
more, as Celery does for tasks that wait for their time, a further subscription to the same queue has the difference;
when it wants fewer, what is too much waits here. No more than the prefetch is handed over at a time in either case.

**Cancelling.** UNSUBSCRIBE gives back everything that is not acknowledged, in its old place, so it waits until what was
handed over is settled. What was not handed over goes back then; a consumer that comes sooner takes it over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import monotonic
from typing import Final

from jdbcstore.adapters.celery.envelope import resent_headers
from jdbcstore.adapters.celery.switchboard import Switchboard
from jdbcstore.stomp.frames import Frame

__all__ = ["Consumption", "Delivery", "ack", "again", "nack"]

#: The prefetch of who asks for none: further ones come when all of these are unsettled.
_UNLIMITED: Final = 1000
#: A client that has so much room wants no more subscriptions for it.
_GRANTED_MAX: Final = 100_000
#: What waited in a queue begins to come within this time after the subscription, on a busy machine too.
_FRESH_S: Final = 1.0


class Delivery:
    """A message that came, and is not settled.

    Args:
        queue: kombu's name of the queue.
        frame: the MESSAGE.
        consumption: by which it came; None if it came by a topic, and the broker has forgotten it.
    """

    __slots__ = ("consumption", "expires_ms", "frame", "priority", "queue")

    def __init__(self, queue: str, frame: Frame, consumption: Consumption | None) -> None:
        self.queue = queue
        self.frame = frame
        self.consumption = consumption
        self.priority = int(frame.headers.get("priority", "4"))
        #: By the wall clock; 0 is never.
        self.expires_ms = int(frame.headers.get("expires", "0"))


class Consumption:
    """One queue of one channel.

    Args:
        switchboard: of the connection.
        queue: kombu's name of it.
        destination: the broker's.
    """

    def __init__(self, switchboard: Switchboard, queue: str, destination: str) -> None:
        self.queue = queue
        self.destination = destination
        self._switchboard = switchboard
        #: Not handed over yet, in their order.
        self.ready: deque[Delivery] = deque()
        #: What is handed over and not settled, by the channel's numbers; other threads may settle it.
        self.unsettled: set[int] = set()
        self._ids: list[str] = []
        self._granted = 0
        #: Until when what waited in the queue may be on its way, by `monotonic`; 0 when something was handed over.
        self._fresh_until_s = 0.0

    # -- subscriptions -------------------------------------------------------------------------------------------

    @property
    def is_subscribed(self) -> bool:
        """Whether the broker sends us messages of the queue."""
        return bool(self._ids)

    def grant(self, prefetch: int) -> None:
        """Let so many messages be here unacknowledged; 0 is no limit."""
        if not prefetch:
            prefetch = _UNLIMITED
            if self._granted and len(self.unsettled) >= self._granted:
                prefetch = self._granted * 2
        missing = min(prefetch, _GRANTED_MAX) - self._granted
        if missing > 0:
            missing = max(missing, self._granted // 4)  # so that there are few subscriptions
            headers = {"ack": "client-individual", "activemq.prefetchSize": str(missing)}
            if not self._ids:
                self._fresh_until_s = monotonic() + _FRESH_S
            self._ids.append(self._switchboard.subscribe(self.destination, self._came, headers))
            self._granted += missing

    @property
    def is_fresh(self) -> bool:
        """Whether the first of the messages that waited is here, none was handed over, and more may be on their way."""
        return bool(self.ready) and monotonic() < self._fresh_until_s

    def handed_over(self, tag: int) -> None:
        """One of its messages was handed over, with this number of the channel."""
        self._fresh_until_s = 0.0
        self.unsettled.add(tag)

    def _came(self, frame: Frame) -> None:
        self.ready.append(Delivery(self.queue, frame, self))

    def cancel(self) -> None:
        """Nobody consumes any more: give back what was not handed over, now or when the rest is settled."""
        if not self.unsettled:
            self.end()

    def end(self) -> None:
        """Give back everything that is not acknowledged."""
        ids = self._forget_subscriptions()
        if ids:
            self._switchboard.unsubscribe(*ids)

    def _forget_subscriptions(self) -> list[str]:
        ids, self._ids, self._granted = self._ids, [], 0
        self.ready.clear()
        return ids

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(self, tag: int, frames: list[tuple[str, Mapping[str, str], bytes]], *, is_last: bool) -> None:
        """Say these frames, which settle a message. Nobody consumes any more if it `is_last`."""
        self.unsettled.discard(tag)
        if is_last and not self.unsettled:
            ids = self._forget_subscriptions()
            # With the ACK, so that no other message comes in between, only to go back.
            self._switchboard.link.send(*frames, *self._switchboard.unsubscribe_frames(ids))
        elif frames:
            self._switchboard.link.send(*frames)


def ack(delivery: Delivery) -> tuple[str, Mapping[str, str], bytes]:
    """It was consumed."""
    return "ACK", {"id": delivery.frame.headers["ack"]}, b""


def nack(delivery: Delivery) -> tuple[str, Mapping[str, str], bytes]:
    """It could not be consumed: a dead letter."""
    return "NACK", {"id": delivery.frame.headers["ack"]}, b""


def again(delivery: Delivery) -> tuple[str, Mapping[str, str], bytes]:
    """It goes to the end of its queue."""
    frame = delivery.frame
    return "SEND", {**resent_headers(frame), "destination": frame.headers["destination"]}, frame.body
