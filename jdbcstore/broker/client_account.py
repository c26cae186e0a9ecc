"""What one connection makes the broker keep, and what happens at a limit; `jdbcstore.broker.memory` has the theory."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from jdbcstore.broker.memory import Memory
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.errors import ProtocolError

__all__ = ["ClientAccount", "Holder"]

#: A frame that is not larger is read without asking: it is there with its next chunk.
_SMALL_FRAME_BYTES: Final = 64 << 10


class Holder(Protocol):
    """A client, as its account sees it."""

    def hold(self) -> None:
        """Do not read from it for now."""

    def let_go(self) -> None:
        """Take one hold back."""

    def disconnect(self, text: str, *, reason: str) -> None:
        """End its connection with an error."""


class ClientAccount:
    """The account of one connection.

    Args:
        client: whose; it is held back, and let go.
        memory: everybody's account.
        options: the limits.
        loop: the event loop.
    """

    __slots__ = (
        "_client",
        "_frame",
        "_is_closed",
        "_loop",
        "_memory",
        "_options",
        "_since_s",
        "_timer",
        "_wanted",
        "consumers",
        "kept",
    )

    def __init__(self, client: Holder, memory: Memory, options: BrokerOptions, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._memory = memory
        self._options = options
        self._loop = loop
        #: Bytes for all that it has open, from transactions to cached values.
        self.kept = 0
        #: How many subscriptions are among that.
        self.consumers = 0
        #: Bytes that are counted for its unfinished frame, or for what waits for its turn.
        self._frame = 0
        #: Bytes that this frame will need while it waits for them, else 0.
        self._wanted = 0
        #: Since when a large frame is being read, by the loop's clock; 0 while none is.
        self._since_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def part_from_client(self, remains: Holder) -> None:
        """The client is gone for good: nobody but this, which is left of it, is known any more."""
        self._client = remains

    # -- what is open ----------------------------------------------------------------------------------------------

    def keep(self, size: int, what: str, remedy: str) -> None:
        """Count what is going to stay until the client says otherwise.

        Args:
            size: bytes.
            what: for the error, ``Transaction t1``.
            remedy: for the error, what to do about it.

        Raises:
            ProtocolError: it is too much for the connection, or for all of them together.
        """
        options, memory = self._options, self._memory
        if self.kept + size > options.connection_bytes_max:
            raise ProtocolError(
                f"{what} is refused: this connection keeps {self.kept} bytes for all that it has open, and"
                f" connection_bytes_max is {options.connection_bytes_max}. {remedy}"
            )
        if not memory.may_keep(size, self.kept + self._frame):
            raise ProtocolError(
                f"{what} is refused: all clients together keep {memory.kept} bytes for all that they have open and"
                f" for unfinished frames, and memory_bytes_max is {memory.bytes_max}. {remedy}, or try again later"
            )
        self.count(size)

    def count(self, size: int) -> None:
        """Count what cannot be refused."""
        if not self._is_closed:
            self.kept += size
            self._memory.kept += size

    def give_up(self, size: int) -> None:
        """So many bytes are kept no more."""
        if not self._is_closed:
            self.kept -= size
            self._memory.kept -= size

    def subscribed(self, size: int) -> None:
        """Count a subscription.

        Raises:
            ProtocolError: as `keep`.
        """
        self.keep(size, "This subscription", "Unsubscribe another one first")
        self.consumers += 1
        self._memory.consumers += 1

    def unsubscribed(self, size: int) -> None:
        """A subscription is there no more."""
        self.give_up(size)
        if not self._is_closed:
            self.consumers -= 1
            self._memory.consumers -= 1

    # -- unfinished frames -----------------------------------------------------------------------------------------

    def frame_is(self, arrived: int, announced: int) -> None:
        """A frame is not complete. A large one that there is no room for has to wait.

        Args:
            arrived: bytes of it that are here.
            announced: bytes that are known to come.
        """
        size, memory = arrived + announced, self._memory
        if size <= _SMALL_FRAME_BYTES:
            if self._since_s:
                self._finished()
            self._count(size)
            return
        if not self._since_s:
            self._since_s = self._loop.time()
            memory.large[self] = None
        if self._wanted or (size > self._frame and not memory.may_grow(self, size - self._frame, self._own)):
            self._count(arrived)
            self._wait(size)
        else:
            self._count(size)

    def left_unfinished(self, size: int) -> None:
        """What the client has sent is being heard: no more than so many bytes of it are unfinished now."""
        if size < self._frame:
            self._count(size)

    def backlog_is(self, size: int) -> None:
        """So many bytes that the client has sent are here and wait for its turn. It is not read meanwhile."""
        self._count(size)

    @property
    def frame_bytes(self) -> int:
        """What is counted for its unfinished frame, or for what waits for its turn."""
        return self._frame

    @property
    def _own(self) -> int:
        return self.kept + self._frame

    def _count(self, size: int) -> None:
        self._memory.kept += size - self._frame
        self._frame = size

    def _wait(self, size: int) -> None:
        memory = self._memory
        if not self._wanted:
            memory.waiting[self] = None
            self._client.hold()
            self._timer = self._loop.call_later(self._options.memory_timeout_s, self._waited_long)
        self._wanted = size
        if memory.kept_besides > 2 * memory.kept_max:
            self._client.disconnect(
                f"There is no memory for a frame of {size} bytes: memory_bytes_max is {memory.bytes_max}. Try again"
                " later",
                reason="no memory for a large frame",
            )

    def try_again(self) -> bool:
        """Go on with the frame if there is room now. Returns whether there was."""
        wanted = self._wanted
        if not self._memory.may_grow(self, wanted - self._frame, self._own):
            return False
        self._stop_waiting()
        self._since_s = self._loop.time()  # it has not been read meanwhile
        self._count(wanted)
        self._client.let_go()
        return True

    def _stop_waiting(self) -> None:
        self._wanted = 0
        self._memory.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _waited_long(self) -> None:
        """Frames that others wait for must come to an end."""
        timeout_s = self._options.memory_timeout_s
        self._timer = self._loop.call_later(timeout_s, self._waited_long)
        for account in list(self._memory.large):
            account.end_if_older(self._loop.time() - timeout_s)

    def end_if_older(self, than_s: float) -> None:
        """End the connection if its frame is being read since then, by the loop's clock."""
        if self._since_s <= than_s and not self._wanted:
            self._client.disconnect(
                f"A frame of {self._frame} bytes was not complete after {self._options.memory_timeout_s:g} s while"
                f" others waited for memory: memory_bytes_max is {self._memory.bytes_max}",
                reason="a large frame that does not end",
            )

    def _finished(self) -> None:
        self._since_s = 0.0
        self._memory.finished(self)

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The connection is gone. What is still being undone for it counts no more."""
        self._stop_waiting()
        self._finished()
        self._count(0)
        self.give_up(self.kept)
        self._memory.consumers -= self.consumers
        self._is_closed = True
        if self._memory.waiting:
            self._loop.call_soon(self._memory.admit)
