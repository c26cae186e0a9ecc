"""Jolokia's protocol, as far as tools use it with ActiveMQ: ``read``, ``list``, ``exec``, ``search`` and ``version``.

By GET everything is in the path, where ``!/`` stands for a slash and ``!!`` for an exclamation mark; by POST it is a
JSON object, or an array of them, which is answered by an array. An error is an object with ``status`` and ``error``,
and always HTTP's 200, since one of many may fail. Source: Jolokia's reference, and the requests of the tools.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jdbcstore.errors import JdbcStoreError, NotAuthorized
from jdbcstore.management.management import Management
from jdbcstore.management.mbeans import BeanNotFound, Beans, MemberNotFound, ObjectName
from jdbcstore.transport.web.api import json_answer, json_in_slices
from jdbcstore.transport.web.identity import CSRF_HEADER, Forbidden, may_change_by_get
from jdbcstore.version import VERSION

__all__ = ["Jolokia"]

_PREFIX: Final = "/api/jolokia"
_PROTOCOL: Final = "7.2"
_BULK_MAX: Final = 1000
#: The answers to many requests in one.
_ANSWERS_BYTES_MAX: Final = 8 << 20
_TOO_MUCH: Final = {"status": 413, "error": "the answers before are too long: ask for this again"}
_EXCEPTIONS: Final = (
    (BeanNotFound, 404, "javax.management.InstanceNotFoundException"),
    (MemberNotFound, 404, "javax.management.AttributeNotFoundException"),
    (NotAuthorized, 403, "java.lang.SecurityException"),
    (JdbcStoreError, 400, "java.lang.IllegalArgumentException"),
)


class Jolokia:
    """The routes.

    Args:
        face_of: gives the face for whoever sends a request, or raises.
    """

    def __init__(self, face_of: Callable[[Request], Awaitable[Management]]) -> None:
        self._face_of = face_of

    def routes(self) -> Sequence[Route]:
        """All of them."""
        paths = (_PREFIX, f"{_PREFIX}/", f"{_PREFIX}/{{rest:path}}")
        return [
            *(Route(path, self._get, methods=["GET"]) for path in paths),
            *(Route(path, self._post, methods=["POST"]) for path in paths),
        ]

    async def _get(self, request: Request) -> Response:
        beans = Beans(await self._face_of(request))
        raw = request.scope.get("raw_path", b"").decode("ascii", "replace").partition("?")[0]
        asked = _of_path([unquote(part) for part in _split(raw.removeprefix(_PREFIX).strip("/"))])
        if str(asked["type"]).lower() == "exec" and not may_change_by_get(request):
            raise Forbidden(f"a browser calls operations by POST, or shows the session's token in {CSRF_HEADER}")
        return _json(await json_in_slices(await _answered(beans, asked)))

    async def _post(self, request: Request) -> Response:
        beans = Beans(await self._face_of(request))
        try:
            given = json.loads(await request.body())
        except (ValueError, RecursionError) as error:
            return json_answer(
                {"status": 400, "error": f"the body is no JSON: {error}", "error_type": "java.io.IOException"}
            )
        if isinstance(given, list):
            return _json(b"[" + b",".join(await _answers(beans, given[:_BULK_MAX])) + b"]")
        return _json(await json_in_slices(await _answered(beans, given)))


async def _answers(beans: Beans, requests: Sequence[object]) -> list[bytes]:
    """The answers to many requests; when they are too long together the rest is refused."""
    answers: list[bytes] = []
    size = 0
    for request in requests:
        answer = await _answered(beans, request) if size < _ANSWERS_BYTES_MAX else {"request": request, **_TOO_MUCH}
        answers.append(await json_in_slices(answer))
        size += len(answers[-1])
    return answers


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _split(path: str) -> list[str]:
    """The parts of a path; ``!`` takes the meaning from what is behind it."""
    parts = [""]
    characters = iter(path)
    for character in characters:
        if character == "!":
            parts[-1] += next(characters, "")
        elif character == "/":
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _of_path(parts: Sequence[str]) -> Mapping[str, Any]:
    """The request that a path is."""
    kind, rest = (parts[0] or "version"), list(parts[1:])
    request: dict[str, Any] = {"type": kind}
    if kind in ("read", "exec", "search") and rest:
        request["mbean"] = rest.pop(0)
    if kind == "read" and rest:
        request["attribute"] = rest[0].split(",") if "," in rest[0] else rest[0]
    elif kind == "exec" and rest:
        request["operation"] = rest.pop(0)
        request["arguments"] = rest
    elif kind == "list" and rest:
        request["path"] = "/".join(rest)
    return request


async def _answered(beans: Beans, request: object) -> Mapping[str, Any]:
    """The answer to one request."""
    answer: dict[str, Any] = {"request": request}
    try:
        if not isinstance(request, Mapping):
            raise MemberNotFound("a request has to be an object")
        answer.update(value=await _value(beans, request), status=200)
    except JdbcStoreError as error:
        status, kind = next((status, name) for known, status, name in _EXCEPTIONS if isinstance(error, known))
        answer.update(status=status, error=f"{kind} : {error}", error_type=kind)
    answer["timestamp"] = int(time.time())
    return answer


async def _value(beans: Beans, request: Mapping[str, Any]) -> Any:
    kind = str(request.get("type", "")).lower()
    if kind == "version":
        return {"agent": VERSION, "protocol": _PROTOCOL, "info": {"product": "jdbcstore", "vendor": "jdbcstore"}}
    if kind == "list":
        return _at(await beans.listed(), str(request.get("path") or ""))
    name = ObjectName.parse(str(request.get("mbean", "")))
    if kind == "read":
        wanted = request.get("attribute") or []
        names = [wanted] if isinstance(wanted, str) else [str(one) for one in wanted]
        value = await beans.read(name, names)
        if isinstance(wanted, list) and len(names) == 1 and not name.is_pattern:
            value = {names[0]: value}
        return _at(value, str(request.get("path") or ""))
    if kind == "search":
        return [str(found) for found in await beans.search(name)]
    if kind == "exec":
        arguments = request.get("arguments") or []
        if not isinstance(arguments, list):
            raise MemberNotFound("arguments has to be a list")
        return await beans.execute(name, str(request.get("operation", "")), arguments)
    raise MemberNotFound(f"there are read, list, exec, search and version here, no {kind[:50]!r}")


def _at(value: Any, path: str) -> Any:
    """What is at a path in a value."""
    for part in _split(path) if path else ():
        if not isinstance(value, Mapping) or part not in value:
            raise MemberNotFound(f"there is nothing at {path[:200]!r}")
        value = value[part]
    return value
