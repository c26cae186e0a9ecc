"""One connection of somebody who asks by HTTP: uvicorn's, with an end for those who ask for nothing, or never finish.

They would take the process's files from clients. What is bounded: connections, the time until a request is complete,
between two of them, and how long an answer waits for who does not read it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

__all__ = ["HttpConnection"]

_CONNECTIONS_MAX: Final = 100
#: How long somebody may take to send a request, head and body, or to read anything of an answer.
_REQUEST_S: Final = 30.0
_LOOK_S: Final = 5.0


class HttpConnection(H11Protocol):
    """A connection; made by uvicorn."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there: one too many is let go at once."""
        super().connection_made(transport)
        self._waited_s = 0.0
        #: What was seen at the last look: which request, and how many bytes the client had not read.
        self._seen: tuple[RequestResponseCycle | None, int] = (None, 0)
        self._look: asyncio.TimerHandle | None = None
        if len(self.connections) > _CONNECTIONS_MAX:
            transport.abort()
        else:
            self._look = self.loop.call_later(_LOOK_S, self._look_after)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _unsupported_upgrade_warning(self) -> None:
        """Who asks for WebSocket is told by `Guard`, and HTTP/2 is only offered: the log needs no advice."""

    def _look_after(self) -> None:
        """End it if for too long no request came, or no more of one, or nothing of its answer was read."""
        cycle, unread = self.cycle, self.transport.get_write_buffer_size()
        is_served = cycle is not None and not cycle.response_complete and not cycle.more_body
        is_waiting = unread >= self._seen[1] > 0 if unread else not is_served
        is_new = cycle is not self._seen[0]  # a client that asks all the time is between two requests at most looks
        self._seen = cycle, unread
        self._waited_s = self._waited_s + _LOOK_S if is_waiting and not is_new else 0.0
        if self._waited_s >= _REQUEST_S:
            self.transport.abort()
        else:
            self._look = self.loop.call_later(_LOOK_S, self._look_after)
