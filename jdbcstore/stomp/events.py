"""What a client asked for: one class per STOMP command.

`jdbcstore.stomp.protocol.StompConnection` makes these from frames and has validated them: what a field's type
promises is there. Every event keeps the frame's complete headers (decoded, first occurrence of each name, in the order
they were sent), so that what the broker needs rarely is read from ``headers`` and what it needs always is a field.

``receipt`` is the value of the ``receipt`` header: answer it with ``send_receipt(receipt)`` once the request has taken
effect, or with ``send_error(…, receipt_id=receipt)``. ``transaction`` names a transaction of this connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

__all__ = [
    "Abort",
    "Ack",
    "AckMode",
    "Acks",
    "Begin",
    "Commit",
    "Connect",
    "Disconnect",
    "Event",
    "Nack",
    "Send",
    "Subscribe",
    "Unsubscribe",
]


class AckMode(Enum):
    """How a subscription acknowledges; the values are STOMP's words."""

    AUTO = "auto"
    """The broker acknowledges when it dispatches."""
    CLIENT = "client"
    """An ACK covers everything dispatched on the subscription up to and including its message."""
    CLIENT_INDIVIDUAL = "client-individual"
    """An ACK covers its message alone."""


@dataclass(slots=True)
class Connect:
    """CONNECT or STOMP: somebody wants in.

    Answer with ``send_connected`` or with ``send_error(…, fatal=True)``, and handle the events that follow only after
    that: a client need not wait for CONNECTED before it sends more.
    """

    headers: dict[str, str] = field(repr=False)
    """Contains the passcode, hence not in the repr."""
    version: str
    """The negotiated version: ``1.0``, ``1.1`` or ``1.2``."""
    login: str | None
    passcode: str | None = field(repr=False)
    client_id: str | None
    host: str | None
    heart_beat: tuple[int, int]
    """``(cx, cy)`` in ms as the client sent it: it can send every cx, it wants data every cy; 0 is never.

    Negative numbers are possible and mean never.
    """
    receipt: str | None
    """Answered within CONNECTED, never by a RECEIPT."""


@dataclass(slots=True)
class Send:
    """SEND: a message for a destination."""

    headers: dict[str, str]
    destination: str
    """As the client wrote it (``/queue/A``), never empty."""
    body: bytes
    receipt: str | None
    transaction: str | None


@dataclass(slots=True)
class Subscribe:
    """SUBSCRIBE: messages of a destination, please."""

    headers: dict[str, str]
    destination: str
    """As the client wrote it, never empty."""
    id: str | None
    """None only in 1.0."""
    ack: AckMode
    selector: str | None
    """A SQL-92 condition; None when the header is missing or blank."""
    prefetch: int | None
    """``activemq.prefetchSize``: how many unacknowledged messages at once; None is the broker's default."""
    browser: bool
    """Look, do not take: ``browser:true``, from 1.1 on."""
    subscription_name: str | None
    """``activemq.subscriptionName``: makes a topic subscription durable."""
    receipt: str | None


@dataclass(slots=True)
class Unsubscribe:
    """UNSUBSCRIBE: by id, or in 1.0 by destination. At least one of the two is there, from 1.1 on the id."""

    headers: dict[str, str]
    id: str | None
    destination: str | None
    subscription_name: str | None
    """``activemq.subscriptionName``: remove this durable subscription."""
    receipt: str | None


@dataclass(slots=True)
class Ack:
    """ACK: messages were consumed.

    ======= ===========================================================
    version which message
    ======= ===========================================================
    1.0     ``message_id``, perhaps ``subscription``
    1.1     ``message_id`` and ``subscription``
    1.2     ``id``: the ``ack`` header of the MESSAGE
    ======= ===========================================================
    """

    headers: dict[str, str]
    id: str | None
    """None before 1.2."""
    message_id: str | None
    """None possible in 1.2 only."""
    subscription: str | None
    receipt: str | None
    transaction: str | None


@dataclass(slots=True)
class Acks:
    """ACKs of 1.2 that came together and say nothing but their ids; each means what an `Ack` of its id means."""

    ids: list[str]
    receipt: None = None
    """None of them asks for one."""


@dataclass(slots=True)
class Nack:
    """NACK: a message could not be consumed. Never in 1.0; the fields are those of `Ack`."""

    headers: dict[str, str]
    id: str | None
    message_id: str | None
    subscription: str | None
    receipt: str | None
    transaction: str | None


@dataclass(slots=True)
class Begin:
    """BEGIN: start a transaction of this name."""

    headers: dict[str, str]
    transaction: str
    receipt: str | None


@dataclass(slots=True)
class Commit:
    """COMMIT: make the transaction take effect."""

    headers: dict[str, str]
    transaction: str
    receipt: str | None


@dataclass(slots=True)
class Abort:
    """ABORT: forget the transaction."""

    headers: dict[str, str]
    transaction: str
    receipt: str | None


@dataclass(slots=True)
class Disconnect:
    """DISCONNECT: the last event of a connection.

    Finish what is in flight, then call ``finish_disconnect()``: it answers the receipt and lets the connection close.
    """

    headers: dict[str, str]
    receipt: str | None


Event: TypeAlias = (
    Connect | Send | Subscribe | Unsubscribe | Ack | Acks | Nack | Begin | Commit | Abort | Disconnect
)  # one alias to type a dispatcher with
