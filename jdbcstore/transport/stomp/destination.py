"""The names that STOMP clients give to destinations, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from jdbcstore.destination import QUALIFIED_NAME_MAX, Destination, Queue, TempQueue, TempTopic, Topic, parse_destination
from jdbcstore.errors import ConfigurationError, ProtocolError

__all__ = [
    "OwnTemporary",
    "destination_header",
    "is_destination",
    "is_temporary_queue",
    "parse_reply_to",
    "parse_stomp_destination",
]

_QUEUE, _TOPIC = "/queue/", "/topic/"
_TEMP_QUEUE, _TEMP_TOPIC = "/temp-queue/", "/temp-topic/"
_REMOTE_TEMP_QUEUE, _REMOTE_TEMP_TOPIC = "/remote-temp-queue/", "/remote-temp-topic/"

#: Gives the temporary destination that a connection calls by a name of its own, e.g. ``/temp-queue/replies``.
OwnTemporary: TypeAlias = Callable[[str], Destination]


@lru_cache(maxsize=8192)
def _shared_destination(text: str) -> Destination | None:
    """The destination of a STOMP name that means the same for every connection, None if it does not."""
    text = text.strip()
    if "," in text or text.startswith((_TEMP_QUEUE, _TEMP_TOPIC)):
        return None
    return _kind(text)


def _kind(text: str) -> Destination:
    try:
        for prefix, kind in _PREFIXES.items():
            if text.startswith(prefix):
                return _checked(kind(text[len(prefix) :]))
        # Anything else is the name of a queue, taken literally.
        return _checked(Queue(text))
    except ConfigurationError as error:
        raise ProtocolError(f"Invalid destination '{text}': {error}") from None


_PREFIXES: Final[dict[str, type[Destination]]] = {
    _QUEUE: Queue,
    _TOPIC: Topic,
    _REMOTE_TEMP_QUEUE: TempQueue,
    _REMOTE_TEMP_TOPIC: TempTopic,
}


def _checked(destination: Destination) -> Destination:
    if len(destination.qualified_name) > QUALIFIED_NAME_MAX:
        raise ProtocolError(f"Invalid destination: its name is longer than {QUALIFIED_NAME_MAX} characters")
    return destination


def parse_stomp_destination(text: str, own_temporary: OwnTemporary) -> Destination:
    """The destination of a ``destination`` header.

    Args:
        text: e.g. ``/queue/A``, ``/topic/B.>``, ``/temp-queue/replies``, or several with commas between.
        own_temporary: gives the connection's temporary destinations, making them at the first use.

    Raises:
        ProtocolError: it is empty, or a name is.
    """
    shared = _shared_destination(text if len(text) <= _HEADER_CHARS_MAX else text.strip())
    if shared is not None:
        return shared
    text = text.strip()
    if "," not in text:
        return own_temporary(text)
    parts = [part.strip() for part in text.split(",")]
    elements = [parse_stomp_destination(part, own_temporary) for part in parts if part]
    if not elements:
        raise ProtocolError(f"Invalid destination '{text}': nothing stands between its commas")
    # Stored as ActiveMQ does: the first one gives the kind, the others are written with their prefixes.
    first, others = elements[0], elements[1:]
    composite = type(first)(",".join([first.physical_name, *(other.qualified_name for other in others)]))
    try:
        composite.elements()  # read back, the name of the first may turn out to be a prefix and nothing else
    except ConfigurationError as error:
        raise ProtocolError(f"Invalid destination '{text}': {error}") from None
    return composite


def parse_reply_to(text: str) -> Destination:
    """The destination of a ``JMSReplyTo`` header, which is written as Java clients do: ``queue://A``.

    Raises:
        ProtocolError: it is none; it would be found out only when the message is delivered.
    """
    try:
        destination = parse_destination(text)
        elements = destination.elements()
    except ConfigurationError as error:
        raise ProtocolError(f"Invalid JMSReplyTo header '{text[:120]}': {error}") from None
    if not elements:
        raise ProtocolError(f"Invalid JMSReplyTo header '{text[:120]}': nothing stands between its commas")
    for element in elements:
        _checked(element)
    return destination


def destination_header(destination: Destination, own_names: Mapping[Destination, str]) -> str:
    """What a client reads as the name of a destination; its own temporary ones by the names that it gave them.

    A composite that is none, as another broker may have stored it in a ``reply-to``, is told as it stands.
    """
    if destination.is_temporary:
        own = own_names.get(destination)
        if own is not None:
            return own
    header = _headers.get(destination)
    if header is None:
        try:
            elements = destination.elements()
        except ConfigurationError:
            elements = (destination,)
        header = ",".join(_OUTGOING[type(element)] + element.physical_name for element in elements)
        if len(header) <= _HEADER_CHARS_MAX:  # clients choose them, and remembering must not cost memory
            if len(_headers) >= _HEADERS_MAX:
                _headers.clear()
            _headers[destination] = header
    return header


_HEADERS_MAX: Final = 8192
_HEADER_CHARS_MAX: Final = 512
_headers: dict[Destination, str] = {}
_OUTGOING: Final[dict[type[Destination], str]] = {kind: prefix for prefix, kind in _PREFIXES.items()}


def is_destination(text: str) -> bool:
    """Whether the text has the form of a destination, as a ``reply-to`` must to become one."""
    return text.startswith((*_PREFIXES, _TEMP_QUEUE, _TEMP_TOPIC))


def is_temporary_queue(name: str) -> bool:
    """Whether a connection's own temporary destination is a queue; if not, it is a topic."""
    return name.startswith(_TEMP_QUEUE)
