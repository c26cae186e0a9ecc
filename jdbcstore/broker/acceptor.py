"""A listener that loses nobody in the moment when it is closed.

asyncio's own server does: between the accepted socket and ``connection_made`` are two turns of its loop, and if it is
closed in between, the socket stays open with nobody to serve it (CPython 3.11) or comes to a server that is over.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

from jdbcstore.trouble import Trouble

__all__ = ["Acceptor"]

log = logging.getLogger(__name__)

#: What is wrong with the process or the system rather than with a client, and may pass.
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RETRY_S: Final = 1.0
#: How many are let in per turn of the loop, so that those who are in are served between; the system keeps the others.
_ACCEPTED_AT_ONCE: Final = 25


class Acceptor:
    """Listens on one address and makes a protocol for everybody who connects.

    Args:
        loop: the event loop that it is used in.
        protocol: makes one; called when a client is there.
        backlog_max: how many connections the system holds until they are accepted.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.BaseProtocol], backlog_max: int
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._backlog_max = backlog_max
        self._arriving: set[asyncio.Task[object]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._trouble = Trouble()
        #: One for each address that the host's name stands for.
        self.sockets: list[socket.socket] = []

    async def start(self, host: str, port: int) -> None:
        """Listen.

        Args:
            host: name or address; every address of the machine if it is empty.
            port: 0 lets the system choose.

        Raises:
            OSError: the address is taken or not ours.
        """
        found = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
                listening = socket.create_server(address, family=family, backlog=self._backlog_max)
                self.sockets.append(listening)
                listening.setblocking(False)
        except OSError:
            self.close()
            raise
        self._listen()

    def close(self) -> None:
        """Accept nobody any more, from this moment on."""
        if self._retry is not None:
            self._retry.cancel()
        for listening in self.sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self.sockets.clear()

    async def all_arrived(self) -> None:
        """Wait until there is a protocol for everybody who was accepted."""
        while self._arriving:
            await asyncio.wait(self._arriving)

    def _listen(self) -> None:
        self._retry = None
        for listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except BlockingIOError:  # nobody waits any more
                if failures := self._trouble.is_over():
                    log.warning("clients are accepted again failures=%d", failures)
                return
            except (InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED or self._retry is not None:
                    raise
                reason = os.strerror(error.errno)
                if self._trouble.goes_on(reason):
                    log.warning(
                        "cannot accept clients, trying again every %g s: raise the limit of open files error=%r",
                        _RETRY_S,
                        reason,
                    )
                for each in self.sockets:
                    self._loop.remove_reader(each)
                self._retry = self._loop.call_later(_RETRY_S, self._listen)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._arrive(accepted))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    async def _arrive(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError as error:
            log.debug("a client left while it was accepted error=%r", error)
            accepted.close()
