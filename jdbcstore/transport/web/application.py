"""The application: which page is where, who may see it, and what becomes of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from jdbcstore.errors import (
    ConfigurationError,
    JdbcStoreError,
    LockError,
    LoginRefused,
    NotAuthorized,
    ProtocolError,
    SelectorError,
    UnknownDestination,
    UnknownTransaction,
)
from jdbcstore.management.desk import Desk
from jdbcstore.management.management import Management
from jdbcstore.management.values import Arguments, as_json
from jdbcstore.transport.web.api import PREFIX, Api, json_answer, json_object
from jdbcstore.transport.web.guard import Guard
from jdbcstore.transport.web.identity import COOKIE, Forbidden, Identities, TooManyAttempts
from jdbcstore.transport.web.jolokia import Jolokia
from jdbcstore.transport.web.metrics import Metrics
from jdbcstore.transport.web.xml_pages import XmlPages

__all__ = ["application"]

_STATIC: Final = Path(__file__).parent / "static"
_BODY_BYTES_MAX: Final = 16 << 20
#: What anybody may send.
_BODY_BYTES_MAX_OF: Final = {f"{PREFIX}/login": 4 << 10, f"{PREFIX}/logout": 4 << 10}
#: The console's pages are one document; its script shows what the address says.
_PAGES: Final = (
    "/",
    "/destinations",
    "/destination",
    "/message",
    "/dead-letters",
    "/connections",
    "/subscriptions",
    "/store",
    "/scheduled",
    "/transactions",
    "/operations",
    "/log",
    "/send",
)


def application(desk: Desk, token: str, hosts: str) -> Guard:
    """The application of one broker.

    Args:
        desk: what is shown.
        token: by which programs may do everything.
        hosts: names by which it may be asked, as `Guard` has them.
    """
    identities, face, metrics = Identities(desk.broker, token), Management(desk), Metrics(desk)

    async def face_of(request: Request) -> Management:
        rights = await identities.rights_of(request)
        if rights is None:
            raise LoginRefused("log in first: with a token (Authorization: Bearer), a login (Basic), or at the console")
        return face.for_whom(rights)

    async def exposed(request: Request) -> Response:
        await face_of(request)
        content_type, body = await metrics.exposed(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    routes = [
        *(Route(path, _page("console.html"), methods=["GET"]) for path in _PAGES),
        *(Route(f"/static/{path.name}", _page(path.name), methods=["GET"]) for path in _STATIC.iterdir()),
        Route("/metrics", exposed, methods=["GET"]),
        *_session_routes(identities, face),
        *Api(face_of).routes(),
        *Jolokia(face_of).routes(),
        *XmlPages(face_of).routes(),
    ]
    handlers = dict.fromkeys((JdbcStoreError, Forbidden, TooManyAttempts), _failed)
    return Guard(Starlette(routes=routes, exception_handlers=handlers), hosts, _BODY_BYTES_MAX, _BODY_BYTES_MAX_OF)


def _page(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        return FileResponse(_STATIC / name, headers={"cache-control": "no-cache"})

    return page


def _session_routes(identities: Identities, face: Management) -> list[Route]:
    async def session(request: Request) -> Response:
        """Who asks, and where the broker is in its life: what a page needs first."""
        rights = await identities.rights_of(request)
        return json_answer(
            {
                "master": as_json(face.master()),
                "user": None if rights is None else rights.name,
                "may_act": rights is not None and rights.may_act,
                "has_users": face.has_users,
                "csrf": identities.csrf_of(request),
            }
        )

    async def login(request: Request) -> Response:
        arguments = Arguments(await json_object(request))
        shown = [arguments.text(name, "") for name in ("token", "login", "passcode")]
        name = await identities.begin(request, *shown)
        answer = json_answer({"done": True})
        answer.set_cookie(COOKIE, name, httponly=True, samesite="strict", path="/")
        return answer

    async def logout(request: Request) -> Response:
        await identities.rights_of(request)
        identities.end(request)
        answer = json_answer({"done": True})
        answer.delete_cookie(COOKIE, path="/")
        return answer

    async def live(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    return [
        Route(f"{PREFIX}/session", session, methods=["GET"]),
        Route(f"{PREFIX}/login", login, methods=["POST"]),
        Route(f"{PREFIX}/logout", logout, methods=["POST"]),
        Route("/live", live, methods=["GET"]),
    ]


async def _failed(request: Request, error: Exception) -> Response:
    """What went wrong, as JSON."""
    headers = {}
    if isinstance(error, LoginRefused):
        status = 401
        if "authorization" in request.headers or not request.url.path.startswith(PREFIX):
            headers["www-authenticate"] = 'Basic realm="jdbcstore"'
    else:
        status = _status_of(error)
    answer = json_answer({"error": str(error), "kind": type(error).__name__}, status)
    answer.headers.update(headers)
    return answer


def _status_of(error: Exception) -> int:
    if isinstance(error, NotAuthorized | Forbidden):
        return 403
    if isinstance(error, UnknownDestination | UnknownTransaction):
        return 404
    if isinstance(error, TooManyAttempts):
        return 429
    if isinstance(error, LockError):
        return 409
    if isinstance(error, ConfigurationError | SelectorError):
        return 400
    return 409 if isinstance(error, ProtocolError) else 503
