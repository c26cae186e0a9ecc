"""From a SUBSCRIBE frame to what the broker is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from jdbcstore.broker.subscription_request import AcknowledgeMode, SubscriptionRequest
from jdbcstore.destination import Destination
from jdbcstore.errors import ProtocolError
from jdbcstore.selector import CONVERT_STRINGS
from jdbcstore.stomp.events import AckMode, Subscribe

__all__ = ["subscription_request"]

_MODES: Final[Mapping[AckMode, AcknowledgeMode]] = {
    AckMode.AUTO: AcknowledgeMode.AUTO,
    AckMode.CLIENT: AcknowledgeMode.CUMULATIVE,
    AckMode.CLIENT_INDIVIDUAL: AcknowledgeMode.INDIVIDUAL,
}


def subscription_request(
    event: Subscribe, key: str, destination: Destination, client_id: str | None
) -> SubscriptionRequest:
    """What a SUBSCRIBE asks for. Its consumer's tag is the value of its ``transformation`` header.

    Args:
        event: the frame.
        key: names the subscription among those of its client.
        destination: what its ``destination`` header means.
        client_id: the client's.

    Raises:
        ProtocolError: a header cannot be understood, or one is missing.
    """
    name = event.subscription_name
    is_durable = name is not None and not (destination.is_queue or destination.is_composite or destination.is_temporary)
    if is_durable and not (client_id is not None and name):
        raise ProtocolError(
            "A durable subscription belongs to a client-id and has a name: give a client-id header in CONNECT, and a"
            " name in activemq.subscriptionName"
        )
    is_competing = destination.is_queue and not event.browser and name is None
    return SubscriptionRequest(
        key=key,
        destination=destination,
        mode=_MODES[event.ack],
        label=event.destination,
        subscription_id=event.id,
        tag=event.headers.get("transformation"),
        # Properties are strings to STOMP clients, and converted where numbers are compared.
        selector=None if event.selector is None else CONVERT_STRINGS + event.selector,
        prefetch=event.prefetch,
        is_browser=event.browser,
        subscription_name=name,
        is_exclusive=_is_true(event, "activemq.exclusive") if "activemq.exclusive" in event.headers else None,
        priority=_priority(event) if is_competing else 0,
        no_local=_is_true(event, "activemq.noLocal"),
        is_retroactive=_is_true(event, "activemq.retroactive"),
        pending_max=_pending_max(event),
    )


def _is_true(event: Subscribe, header: str) -> bool:
    return event.headers.get(header, "").strip().lower() == "true"


def _pending_max(event: Subscribe) -> int:
    text = event.headers.get("activemq.maximumPendingMessageLimit", "0").strip()
    if not _PENDING_MAX.fullmatch(text):
        raise ProtocolError(f"activemq.maximumPendingMessageLimit has to be a whole number, got '{text}'")
    return max(int(text), 0)


_PENDING_MAX: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_PRIORITY: Final = re.compile(r"\s*([+-]?[0-9]{1,3})\s*", re.ASCII)


def _priority(event: Subscribe) -> int:
    text = event.headers.get("activemq.priority", "0")
    found = _PRIORITY.fullmatch(text)
    if found is None or not -128 <= int(found[1]) <= 127:
        raise ProtocolError(f"Invalid activemq.priority header '{text[:40]}': a number from -128 to 127 is needed")
    return int(found[1])
