"""The web server of a broker: in the broker's event loop, in whatever state the broker is.

uvicorn speaks HTTP and starlette finds the page: both are small, have limits, and are kept by many. What is ours is
`jdbcstore.transport.web.application`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvicorn

from jdbcstore.addresses import parse_address, why_it_cannot_listen
from jdbcstore.errors import ConfigurationError, JdbcStoreError
from jdbcstore.management.desk import Desk
from jdbcstore.transport.web.application import application
from jdbcstore.transport.web.connection import HttpConnection

__all__ = ["WebServer"]

log = logging.getLogger(__name__)

_HEADER_BYTES_MAX: Final = 32 << 10
_KEEP_ALIVE_S: Final = 15
_STOP_S: Final = 1
_TOKEN_CHARACTERS_MIN: Final = 16


class _Server(uvicorn.Server):
    """Signals are the broker's affair."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class WebServer:
    """Started and stopped with its broker (`Broker.companions`), behind its desk.

    Args:
        desk: whose it is.
        bind: ``HOST:PORT``.
        token_file: a file with the token of programs; empty if there is none.
        hosts: names by which it may be asked, as `Guard` has them.

    Attributes:
        address: where it listens, once it is started.
        token: by which programs may do everything; None if only a file knows it, or there are users.

    Raises:
        ConfigurationError: the token's file cannot be used, or strangers could reach it although nobody is asked who
            he is.
    """

    def __init__(self, desk: Desk, bind: str, token_file: str = "", hosts: str = "") -> None:
        self._bind = bind
        self._host, self._port = parse_address(bind)
        has_users = desk.broker.authentication is not None
        self.token: str | None = None
        if token_file:
            token = _token_in(Path(token_file))
        else:
            token = secrets.token_urlsafe(24)
            self.token = None if has_users else token
            if not has_users and not _is_loopback(self._host):
                raise ConfigurationError(
                    f"web_bind {bind} is open to other machines, and nobody is asked who he is: set web_token_file, or"
                    " users, or listen on 127.0.0.1"
                )
        self.address = ("", 0)
        self._application = application(desk, token, hosts)
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address for a browser."""
        host, port = self.address
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    async def start(self) -> None:
        """Listen. Raises JdbcStoreError if the address is taken or not ours."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                self._host or None, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, _, _, _, place = found[0]
            listening = socket.create_server(place, family=family)
        except OSError as error:
            raise JdbcStoreError(
                f"cannot listen for operators on {self._bind}: {why_it_cannot_listen(error)}"
            ) from error
        name = listening.getsockname()
        self.address = (name[0], name[1])
        config = uvicorn.Config(
            self._application,
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_HEADER_BYTES_MAX,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_STOP_S,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]))
        log.info("operators are served host=%s port=%d", *self.address)

    async def stop(self) -> None:
        """Listen no more, and let go of those who are connected."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task


def _token_in(path: Path) -> str:
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"web_token_file {path} cannot be read: {error}") from error
    if len(token) < _TOKEN_CHARACTERS_MIN or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"web_token_file {path} needs one line of at least {_TOKEN_CHARACTERS_MIN} characters without blanks"
        )
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
