"""The JSON API: the management face, call by call. docs/management.md lists it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.errors import ConfigurationError
from jdbcstore.management.calls import ACTIONS, VIEWS, Call
from jdbcstore.management.management import Management
from jdbcstore.management.values import Arguments, as_json

__all__ = ["PREFIX", "Api", "json_answer", "json_in_slices", "json_object"]

PREFIX: Final = "/api/v1"
#: Down to here large answers are encoded piece by piece.
_DEPTH: Final = 4
#: What has no more elements is encoded at once, such as a row of a table.
_SMALL: Final = 50
#: Made once: that costs more than to encode a row.
_dumped: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Api:
    """The routes.

    Args:
        face_of: gives the face for whoever sends a request, or raises.
    """

    def __init__(self, face_of: Callable[[Request], Awaitable[Management]]) -> None:
        self._face_of = face_of

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            *(Route(f"{PREFIX}/{name}", self._reading(call), methods=["GET"]) for name, call in VIEWS.items()),
            *(Route(f"{PREFIX}/{name}", self._acting(call), methods=["POST"]) for name, call in ACTIONS.items()),
        ]

    def _reading(self, call: Call) -> Callable[[Request], Awaitable[Response]]:
        async def read(request: Request) -> Response:
            face = await self._face_of(request)
            value = as_json(await call(face, Arguments(request.query_params)))
            return Response(await json_in_slices(value), media_type="application/json")

        return read

    def _acting(self, call: Call) -> Callable[[Request], Awaitable[Response]]:
        async def act(request: Request) -> Response:
            face = await self._face_of(request)
            return json_answer(as_json(await call(face, Arguments(await json_object(request)))))

        return act


async def json_object(request: Request) -> Mapping[str, Any]:
    """The body of a request. Raises ConfigurationError if it is no JSON object."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise ConfigurationError("send a JSON object, with content-type application/json")
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"the body is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise ConfigurationError("the body has to be a JSON object")
    return given


def json_answer(value: Any, status: int = 200) -> Response:
    """An answer with JSON."""
    body = _dumped(value).encode("utf-8", "backslashreplace")
    return Response(body, status, media_type="application/json")


async def json_in_slices(value: Any) -> bytes:
    """JSON of something large; others work in between."""
    parts: list[str] = []
    deadline_s = perf_counter() + SLICE_S
    for part in _parts(value, _DEPTH):
        parts.append(part)
        if perf_counter() > deadline_s:
            await asyncio.sleep(0)
            deadline_s = perf_counter() + SLICE_S
    return "".join(parts).encode("utf-8", "backslashreplace")


def _parts(value: Any, depth: int) -> Iterator[str]:
    """What is at so many levels, each for itself unless it is small: the encoder does not stop in between, not even in
    a thread."""
    if not depth or not isinstance(value, dict | list) or _elements(value, _SMALL) <= _SMALL:
        yield _dumped(value)
    elif isinstance(value, dict):
        for number, (name, one) in enumerate(value.items()):
            yield ("," if number else "{") + _dumped(str(name)) + ":"
            yield from _parts(one, depth - 1)
        yield "}"
    else:
        for number, one in enumerate(value):
            yield "," if number else "["
            yield from _parts(one, depth - 1)
        yield "]"


def _elements(value: dict[str, Any] | list[Any], most: int) -> int:
    """How many elements there are in it, however deep; a number above `most` if there are more than that."""
    elements = value.values() if isinstance(value, dict) else value
    count = len(elements)
    for one in elements if count <= most else ():
        if isinstance(one, dict | list):
            count += _elements(one, most - count)
            if count > most:
                break
    return count
