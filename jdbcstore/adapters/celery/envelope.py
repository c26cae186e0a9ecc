"""kombu's messages as STOMP frames, and back.

The body of a frame is JSON: kombu's ``body``, ``headers``, ``properties`` and the two kinds of content. So operators
can read what waits, and Java clients, too. What the broker acts on stands in the frame's headers besides: priority,
expiry, delay, whether it is persistent. A frame that is none of ours (from a Java client, say) is a message, too: its
body as it came, its headers as kombu's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from json import JSONDecoder
from math import ceil
from typing import Any, Final

from amqp.basic_message import Message as BasicMessage
from kombu.utils import json

from jdbcstore.stomp.frames import Frame

__all__ = ["frame_headers", "marshal", "priority_of", "resent_headers", "unmarshal"]

Payload = dict[str, Any]

#: Says that the body is an envelope.
MARK: Final = "kombu-envelope"
_MARK_VALUE: Final = "1"
_REDELIVERED: Final = "kombu-redelivered"

#: What the broker adds to a message; not sent again with it.
_BROKERS_OWN: Final = {
    *("ack", "content-length", "destination", "message-id", "redelivered", "subscription", "timestamp"),
    *("receipt", "transformation", "JMSXDeliveryCount", "scheduledJobId", "original-destination"),
}

#: What AMQP knows of a message, and what kombu adds.
_PROPERTIES: Final = {name for name, _ in BasicMessage.PROPERTIES} | {"body_encoding", "delivery_info"}
#: What `kombu.utils.json.dumps` and ``loads`` do, which make an encoder and a decoder for each text.
_encode: Final[Callable[[object], str]] = json.JSONEncoder().encode
_decode: Final[Callable[[str], Any]] = JSONDecoder(object_hook=json.object_hook).decode

_PRIORITY_MAX: Final = 9
_TRANSIENT: Final = 1
#: Longer delays are the worker's business; the broker does not take them (`BrokerOptions.schedule_horizon_days`).
_DELAY_DAYS_MAX: Final = 3650
_DELAY_MS_LEAST: Final = 100


def marshal(message: Payload) -> bytes:
    """The body of the frame, without properties that AMQP does not have: RabbitMQ drops them, whatever they are."""
    properties = {name: value for name, value in message["properties"].items() if name in _PROPERTIES}
    return _encode({**message, "properties": properties}).encode()


def frame_headers(message: Payload, ttl_ms: int | None = None, schedule_from_s: float = 0.0) -> dict[str, str]:
    """The headers of the frame but for its destination.

    Args:
        message: as kombu prepared it.
        ttl_ms: how long its queue keeps messages; None for ever.
        schedule_from_s: a task that is for later than this, in seconds, waits in the broker.
    """
    properties, headers = message["properties"], message.get("headers") or {}
    persistent = properties.get("delivery_mode") != _TRANSIENT
    frame = {MARK: _MARK_VALUE, "persistent": "true" if persistent else "false"}
    frame["priority"] = str(priority_of(message))
    ttls_ms = [int(float(ttl)) for ttl in (properties.get("expiration"), ttl_ms) if ttl is not None]
    delay_ms = _delay_ms(headers.get("eta"))
    if delay_ms >= max(schedule_from_s * 1000, _DELAY_MS_LEAST):
        frame["AMQ_SCHEDULED_DELAY"] = str(delay_ms)
    if ttls_ms:
        frame["expires"] = str(int(time.time() * 1000) + max(min(ttls_ms), 1))
    if properties.get("correlation_id"):
        frame["correlation-id"] = str(properties["correlation_id"])
    if isinstance(headers.get("task"), str):
        frame["type"] = headers["task"]
    return frame


def priority_of(message: Mapping[str, Any]) -> int:
    """0 to 9; what is none is 0."""
    try:
        return min(max(int(message["properties"]["priority"]), 0), _PRIORITY_MAX)
    except (KeyError, TypeError, ValueError):
        return 0


def _delay_ms(eta: object) -> int:
    """How long a task with this ``eta`` is not wanted by any worker; 0 if it is, or nobody can tell."""
    if not isinstance(eta, str):
        return 0
    try:
        due = datetime.fromisoformat(eta)
    except ValueError:
        return 0
    if due.tzinfo is None:
        return 0  # a local time, and nobody knows where
    delay_ms = ceil((due - datetime.now(UTC)).total_seconds() * 1000)  # no task begins before its time
    return delay_ms if delay_ms <= _DELAY_DAYS_MAX * 86_400_000 else 0


def unmarshal(frame: Frame, tag: int, queue: str) -> Payload:
    """A message as kombu wants it.

    Args:
        frame: a MESSAGE.
        tag: the channel's name of this delivery.
        queue: it came from.
    """
    headers = frame.headers
    payload = _envelope(frame) or _foreign(frame, queue)
    properties = payload["properties"]
    properties["delivery_tag"] = tag
    if headers.get("redelivered") == "true" or _REDELIVERED in headers:
        properties["delivery_info"] = {**properties["delivery_info"], "redelivered": True}
    return payload


def _envelope(frame: Frame) -> Payload | None:
    if frame.headers.get(MARK) != _MARK_VALUE:
        return None
    try:
        payload = _decode(frame.body.decode())
        known = isinstance(payload["properties"]["delivery_info"], dict) and "body" in payload
    except (KeyError, TypeError, ValueError):
        return None  # somebody wrote over it: it is told as it stands
    return payload if known else None


def _foreign(frame: Frame, queue: str) -> Payload:
    headers = {name: value for name, value in frame.headers.items() if name not in _BROKERS_OWN}
    properties: Payload = {
        "delivery_info": {"exchange": "", "routing_key": queue, "priority": int(headers.get("priority", "4"))},
        "priority": int(headers.get("priority", "4")),
        "body_encoding": None,
    }
    for theirs, ours in (("correlation-id", "correlation_id"), ("reply-to", "reply_to")):
        if theirs in headers:
            properties[ours] = headers[theirs]
    try:
        body: str | bytes = frame.body.decode()
    except UnicodeDecodeError:
        body = frame.body
    is_text = isinstance(body, str)
    return {
        "body": body,
        "content-type": headers.get("content-type", "text/plain" if is_text else "application/octet-stream"),
        "content-encoding": "utf-8" if is_text else "binary",
        "headers": headers,
        "properties": properties,
    }


def resent_headers(frame: Frame) -> dict[str, str]:
    """The headers of a message that goes to its queue again."""
    headers = {name: value for name, value in frame.headers.items() if name not in _BROKERS_OWN}
    headers[_REDELIVERED] = "true"
    return headers
