"""Jolokia's protocol, as far as tools use it with ActiveMQ: ``read``, ``list``, ``exec``, ``search`` and ``version``.

By GET everything is in the path, where ``!/`` stands for a slash and ``!!`` for an exclamation mark; by POST it is a
JSON object, or an array of them, which is answered by an array. An error is an object with ``status`` and ``error``,
and always HTTP's 200, since one of many may fail. Processing parameters are in the query or in a request's ``config``:
``canonicalNaming``, ``ignoreErrors`` and, for ``list``, ``maxDepth`` are heeded. Source: Jolokia's reference, the
requests of the tools, and what Jolokia 1.7.1 answers beside an ActiveMQ (``tests/vectors/jolokia.json``).
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

from jdbcstore.errors import ConfigurationError, JdbcStoreError, NotAuthorized, SelectorError
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
    (SelectorError, 500, "javax.jms.InvalidSelectorException"),
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
        face = await self._face_of(request)
        raw = request.scope.get("raw_path", b"").decode("ascii", "replace").partition("?")[0]
        asked = _of_path([unquote(part) for part in _split(raw.removeprefix(_PREFIX).strip("/"))])
        if str(asked["type"]).lower() == "exec" and not may_change_by_get(request):
            raise Forbidden(f"a browser calls operations by POST, or shows the session's token in {CSRF_HEADER}")
        return _json(await json_in_slices(await _answered(face, asked, request.query_params)))

    async def _post(self, request: Request) -> Response:
        face = await self._face_of(request)
        try:
            given = json.loads(await request.body())
        except (ValueError, RecursionError) as error:
            return json_answer(
                {"status": 400, "error": f"the body is no JSON: {error}", "error_type": "java.io.IOException"}
            )
        if isinstance(given, list):
            answers = await _answers(face, given[:_BULK_MAX], request.query_params)
            return _json(b"[" + b",".join(answers) + b"]")
        return _json(await json_in_slices(await _answered(face, given, request.query_params)))


async def _answers(face: Management, requests: Sequence[object], query: Mapping[str, str]) -> list[bytes]:
    """The answers to many requests; when they are too long together the rest is refused."""
    answers: list[bytes] = []
    size = 0
    for request in requests:
        is_much = size >= _ANSWERS_BYTES_MAX
        answer = {"request": request, **_TOO_MUCH} if is_much else await _answered(face, request, query)
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


def _joined(parts: Sequence[str]) -> str:
    """What `_split` takes apart."""
    return "/".join(part.replace("!", "!!").replace("/", "!/") for part in parts)


def _of_path(parts: Sequence[str]) -> Mapping[str, Any]:
    """The request that a path is."""
    kind, rest = (parts[0] or "version"), list(parts[1:])
    request: dict[str, Any] = {"type": kind}
    if kind in ("read", "exec", "search") and rest:
        request["mbean"] = rest.pop(0)
    if kind == "read" and rest:
        attributes = rest.pop(0)
        request["attribute"] = attributes.split(",") if "," in attributes else attributes
    elif kind == "exec" and rest:
        request["operation"] = rest.pop(0)
        request["arguments"] = rest
    if kind in ("read", "list") and rest:
        request["path"] = _joined(rest)
    return request


async def _answered(face: Management, request: object, query: Mapping[str, str]) -> Mapping[str, Any]:
    """The answer to one request.

    Args:
        face: of the broker, for whoever asks.
        request: as it came.
        query: processing parameters of all requests; a request's own go before.
    """
    answer: dict[str, Any] = {}
    try:
        asked = _Asked(request, query)
        answer["request"] = asked.echo
        answer.update(value=await asked.value(face), status=200)
    except JdbcStoreError as error:
        status, kind = next((status, name) for known, status, name in _EXCEPTIONS if isinstance(error, known))
        answer.update(status=status, error=f"{kind} : {error}", error_type=kind)
    answer["timestamp"] = int(time.time())
    return answer


class _Asked:
    """A request, understood.

    Args:
        request: as it came.
        query: processing parameters beside it.

    Raises:
        ConfigurationError: it is none.
    """

    def __init__(self, request: object, query: Mapping[str, str]) -> None:
        if not isinstance(request, Mapping):
            raise ConfigurationError(f"Invalid JSON Request {str(request)[:200]}")
        if not request.get("type"):
            raise ConfigurationError("No type given")
        self.kind = str(request["type"]).lower()
        if self.kind not in ("read", "list", "exec", "search", "version"):
            raise ConfigurationError(f"No type with name {self.kind[:50]!r} exists")
        own = request.get("config")
        config = {**query, **own} if isinstance(own, Mapping) else query
        self._is_canonical = _is_on(config, "canonicalNaming", default=True)
        self._ignores_errors = _is_on(config, "ignoreErrors", default=False)
        depth = str(config.get("maxDepth", ""))
        self._depth_max = int(depth) if depth.isascii() and depth.isdecimal() and len(depth) < 5 else 0
        self.echo: dict[str, Any] = {"type": self.kind}
        if self.kind in ("read", "exec", "search"):
            self._name = ObjectName.parse(str(request.get("mbean", "")))
            self.echo["mbean"] = str(self._name.canonical)
        wanted = request.get("attribute") or None
        if wanted is not None and not isinstance(wanted, str | list):
            raise ConfigurationError("attribute has to be a name or a list of names")
        self._wanted = [str(one) for one in wanted] if isinstance(wanted, list) else wanted
        if self.kind == "read" and self._wanted is not None:
            is_one = not isinstance(self._wanted, str) and len(self._wanted) == 1
            self.echo["attribute"] = self._wanted[0] if is_one else self._wanted
        self._path = _split(str(request.get("path") or ""))
        if self._path != [""] and self.kind in ("read", "list"):
            self.echo["path"] = _joined(self._path)
        self._operation = str(request.get("operation", ""))
        self._arguments = request.get("arguments") or []
        if self.kind == "exec":
            if not isinstance(self._arguments, list):
                raise ConfigurationError("arguments has to be a list")
            self.echo["operation"] = self._operation
            self.echo |= {"arguments": self._arguments} if self._arguments else {}

    async def value(self, face: Management) -> Any:
        """What is answered.

        Raises:
            JdbcStoreError: as `Beans`.
        """
        beans = Beans(face, is_canonical=self._is_canonical)
        if self.kind == "version":
            return {"agent": VERSION, "protocol": _PROTOCOL, "info": {"product": "jdbcstore", "vendor": "jdbcstore"}}
        if self.kind == "list":
            return self._listed(await beans.listed())
        if self.kind == "read":
            value = await beans.read(self._name, self._wanted, ignores_errors=self._ignores_errors)
            return _at(value, self._path)
        if self.kind == "search":
            return [beans.text(found) for found in await beans.search(self._name)]
        return await beans.execute(self._name, self._operation, self._arguments)

    def _listed(self, value: Any) -> Any:
        """What `list` tells, from the path on; of a domain that is not there it tells nothing."""
        path = list(self._path)
        if len(path) > 1:
            name = ObjectName.parse(":".join(path[:2]))
            path[1] = str(name.canonical if self._is_canonical else name).partition(":")[2]
        try:
            found = _at(value, path)
        except MemberNotFound as error:
            if len(path) == 1:
                return {}
            raise ConfigurationError(str(error)) from error
        return _cut(found, self._depth_max) if self._depth_max else found


def _is_on(config: Mapping[str, Any], name: str, *, default: bool) -> bool:
    return str(config.get(name, default)).lower() == "true"


def _at(value: Any, path: Sequence[str]) -> Any:
    """What is at a path in a value."""
    for part in path if path != [""] else ():
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and len(part) < 10 and int(part) < len(value):
            value = value[int(part)]
        else:
            raise MemberNotFound(f"there is nothing at {_joined(path)[:200]!r}")
    return value


def _cut(value: Any, depth: int) -> Any:
    """A value as deep as is wanted; below it is Jolokia's 1."""
    if not isinstance(value, Mapping):
        return value
    return {key: _cut(inner, depth - 1) for key, inner in value.items()} if depth else "1"
