"""The XML pages of ActiveMQ's console: queues, topics and subscribers, as Telegraf and others read them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element, tostring

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jdbcstore.management.management import Management
from jdbcstore.management.views import DestinationView, SubscriptionView

__all__ = ["XmlPages"]

_DESTINATIONS_MAX: Final = 100_000
_AT_ONCE: Final = 50
#: XML 1.0 has no room for these.
_FORBIDDEN: Final = dict.fromkeys([*range(0x20), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)], "�")


class XmlPages:
    """The routes.

    Args:
        face_of: gives the face for whoever sends a request, or raises.
    """

    def __init__(self, face_of: Callable[[Request], Awaitable[Management]]) -> None:
        self._face_of = face_of

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            Route("/admin/xml/queues.jsp", self._queues, methods=["GET"]),
            Route("/admin/xml/topics.jsp", self._topics, methods=["GET"]),
            Route("/admin/xml/subscribers.jsp", self._subscribers, methods=["GET"]),
        ]

    async def _queues(self, request: Request) -> Response:
        face = await self._face_of(request)
        rows, _ = await face.destinations(kind="queue", count=_DESTINATIONS_MAX)
        return await _document("queues", (_destination("queue", view) for view in rows))

    async def _topics(self, request: Request) -> Response:
        face = await self._face_of(request)
        rows, _ = await face.destinations(kind="topic", count=_DESTINATIONS_MAX)
        return await _document("topics", (_destination("topic", view) for view in rows))

    async def _subscribers(self, request: Request) -> Response:
        face = await self._face_of(request)
        durable = [view for view in await face.subscriptions() if view.kind == "durable"]
        return await _document("subscribers", map(_subscriber, durable))


async def _document(name: str, elements: Iterable[Element]) -> Response:
    """A page; others work while it is built."""
    parts = [f"<?xml version='1.0' encoding='utf-8'?>\n<{name}>"]
    for number, element in enumerate(elements, 1):
        parts.append(tostring(element, "unicode"))
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
    parts.append(f"</{name}>")
    return Response("".join(parts).encode(), media_type="text/xml")


def _element(name: str, attributes: Mapping[str, object]) -> Element:
    return Element(name, {key: str(value).translate(_FORBIDDEN) for key, value in attributes.items()})


def _destination(kind: str, view: DestinationView) -> Element:
    element = _element(kind, {"name": view.name.partition("://")[2]})
    stats = {
        "size": view.depth,
        "consumerCount": view.consumers,
        "enqueueCount": view.enqueued,
        "dequeueCount": view.dequeued,
    }
    element.append(_element("stats", stats))
    return element


def _subscriber(view: SubscriptionView) -> Element:
    element = _element(
        "subscriber",
        {
            "clientId": view.client_id or "",
            "subscriptionName": view.name or "",
            "connectionId": view.connection_id or "NOTSET",
            "destinationName": view.destination.partition("://")[2],
            "selector": view.selector or "",
            "active": "yes" if view.connection_id else "no",
        },
    )
    stats = {
        "pendingQueueSize": view.lag or 0,
        "dispatchedQueueSize": view.unacknowledged,
        "dispatchedCounter": 0,
        "enqueueCounter": 0,
        "dequeueCounter": 0,
    }
    element.append(_element("stats", stats))
    return element
