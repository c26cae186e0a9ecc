"""What every request has to pass, and every answer carries: names of hosts, limits, and what browsers are told.

A browser on an operator's machine may be made to ask a broker there by a page of another site, also under a name that
this site owns (DNS rebinding). So a request has to name the broker by an address or one of its names, and what pages
may load and do is said in each answer.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard"]

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_NO_WEBSOCKET: Final = (
    "operators are served here; clients that speak STOMP over WebSocket have an address of their own"
    " (--bind ws://HOST:PORT)\n"
)
_HEADERS: Final = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
)


class Guard:
    """The outermost part of the application.

    Args:
        application: what is asked when all is well.
        hosts: the names by which the broker may be asked, besides addresses; ``*`` for any.
        body_bytes_max: the largest body of a request.
        body_bytes_max_of: the same for single paths, before anybody has logged in.
    """

    def __init__(
        self, application: ASGIApp, hosts: str, body_bytes_max: int, body_bytes_max_of: Mapping[str, int]
    ) -> None:
        self._application = application
        given = {name.strip().lower() for name in hosts.split(",") if name.strip()}
        self._is_any = "*" in given
        own = socket.gethostname().lower()
        self._hosts = {"localhost", own, own.partition(".")[0], *given}
        self._body_bytes_max = body_bytes_max
        self._body_bytes_max_of = body_bytes_max_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        if not self._knows(headers.get("host", "")):
            await PlainTextResponse("unknown host: add it to web_hosts\n", 421)(scope, receive, send)
            return
        if not _is_own(headers, scope["path"]):
            await PlainTextResponse("another site may not ask this\n", 403)(scope, receive, send)
            return
        if headers.get("upgrade", "").lower() == "websocket":
            await PlainTextResponse(_NO_WEBSOCKET, 400)(scope, receive, send)
            return
        body_bytes_max = self._body_bytes_max_of.get(scope["path"], self._body_bytes_max)
        announced = headers.get("content-length", "0")
        if not announced.isdigit() or len(announced) > 15 or int(announced) > body_bytes_max:
            await PlainTextResponse("the request is too large\n", 413)(scope, receive, send)
            return
        with suppress(ClientDisconnect):  # in the middle of its request: there is nobody to be told, and nothing wrong
            await self._application(scope, _limited(receive, body_bytes_max), _with_headers(send))

    def _knows(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
        name = name.strip("[]").lower()
        if self._is_any or name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _limited(receive: Receive, body_bytes_max: int) -> Receive:
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > body_bytes_max:
            raise HTTPException(413, "the request is too large")
        return message

    return limited


def _is_own(headers: Headers, path: str) -> bool:
    """Whether no page of another site has a browser send this: another port of the same machine is another site, too.
    Programs say nothing about that. To open a page by a link is fine."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        return False
    return not path.startswith("/api/") or headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS:
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending
