"""The subscriptions of one connection: who gets the messages of which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Final

from jdbcstore.adapters.stomp_link import LinkLost, StompLink
from jdbcstore.stomp.frames import Frame

__all__ = ["Switchboard"]

_BROWSE_TIMEOUT_S: Final = 60.0
#: How long a queue that should have a message may say nothing before it is taken for empty.
_QUIET_S: Final = 0.5


class Switchboard:
    """Gives each MESSAGE to whom its subscription belongs.

    Args:
        link: the connection.
    """

    def __init__(self, link: StompLink) -> None:
        self.link = link
        self._ids = count(1)
        self._takers: dict[str, Callable[[Frame], object]] = {}

    def subscribe(self, destination: str, taker: Callable[[Frame], object], headers: Mapping[str, str]) -> str:
        """Subscribe; the broker has done it when this returns. Returns the subscription's id.

        Raises:
            RequestRefused: the broker does not want it.
            LinkLost: the connection is gone.
        """
        id = str(next(self._ids))
        self._takers[id] = taker
        try:
            self.link.request(("SUBSCRIBE", {"id": id, "destination": destination, **headers}, b""))
        except BaseException:
            del self._takers[id]
            raise
        return id

    def unsubscribe_frames(self, ids: list[str]) -> list[tuple[str, Mapping[str, str], bytes]]:
        """What ends these subscriptions; what comes of them from now on goes back to the broker by that."""
        for id in ids:
            self._takers.pop(id, None)
        return [("UNSUBSCRIBE", {"id": id}, b"") for id in ids]

    def unsubscribe(self, *ids: str) -> None:
        """End subscriptions; the broker has done it when this returns: what was not settled is in its queue again."""
        if ids:
            self.link.request(*self.unsubscribe_frames(list(ids)))

    def route(self) -> bool:
        """Give away what has come; whether there was something."""
        messages = self.link.messages
        found = bool(messages)
        while messages:
            frame = messages.popleft()
            taker = self._takers.get(frame.headers.get("subscription", ""))
            if taker is not None:
                taker(frame)
        return found

    def wait(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """Read and give away until something is the case; False if it is not in time."""
        return self.link.wait(lambda: (self.route() and done()) or done(), timeout_s)

    def browse(self, destination: str) -> list[Frame]:
        """What a queue has.

        Raises:
            LinkLost: the broker does not answer in time.
        """
        found: list[Frame] = []
        id = self.subscribe(destination, found.append, {"browser": "true", "ack": "auto"})
        try:
            if not self.wait(lambda: bool(found) and found[-1].headers.get("browser") == "end", _BROWSE_TIMEOUT_S):
                raise LinkLost(f"{destination} was not shown in {_BROWSE_TIMEOUT_S:g} s")
        finally:
            self.unsubscribe(id)
        return found[:-1]

    def drop(self, destination: str, most: int, selector: str | None = None) -> int:
        """Take messages of a queue, and throw them away. Returns how many.

        Args:
            destination: the queue.
            most: no more than so many.
            selector: only those.
        """
        if not most:
            return 0
        found: list[Frame] = []
        headers = {"ack": "client-individual", "activemq.prefetchSize": str(min(most, 1000))}
        if selector is not None:
            headers["selector"] = selector
        id = self.subscribe(destination, found.append, headers)
        dropped = 0
        while dropped < most and self.wait(lambda: bool(found), _QUIET_S):
            frames, found[:] = found[: most - dropped], []
            self.link.request(*[("ACK", {"id": frame.headers["ack"]}, b"") for frame in frames])
            dropped += len(frames)
        self.unsubscribe(id)
        return dropped

    @contextmanager
    def transaction(self, name: str) -> Iterator[list[tuple[str, Mapping[str, str], bytes]]]:
        """Frames that are added to the list are sent at the end, and take effect together or not at all."""
        frames: list[tuple[str, Mapping[str, str], bytes]] = []
        yield frames
        header = {"transaction": name}
        inner = [(command, {**headers, **header}, body) for command, headers, body in frames]
        self.link.request(("BEGIN", header, b""), *inner, ("COMMIT", header, b""))
