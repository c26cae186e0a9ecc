"""One connection of somebody who asks by HTTP: uvicorn's, with an end for those who ask for nothing, or never finish.

They would take the process's files from clients. What is bounded: connections, the time until a request is complete,
and between two of them.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HttpConnection"]

_CONNECTIONS_MAX: Final = 100
#: How long somebody may take to send a request, head and body.
_REQUEST_S: Final = 30.0
_LOOK_S: Final = 5.0


class HttpConnection(H11Protocol):
    """A connection; made by uvicorn."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there: one too many is let go at once."""
        super().connection_made(transport)
        self._waited_s = 0.0
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

    def _look_after(self) -> None:
        """End it if it has waited for a request, or for the rest of one, for too long."""
        is_served = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        self._waited_s = 0.0 if is_served else self._waited_s + _LOOK_S
        if self._waited_s >= _REQUEST_S:
            self.transport.abort()
        else:
            self._look = self.loop.call_later(_LOOK_S, self._look_after)
