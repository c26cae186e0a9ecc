"""What each command needs, and the event it becomes.

One reader per command: it takes the headers and the body of a frame and the version of the connection, and returns an
event or raises `Refusal`, which holds ActiveMQ's very words, because clients look for them. Whether the command is
allowed at all is decided by `jdbcstore.stomp.protocol`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from jdbcstore.errors import ProtocolError
from jdbcstore.stomp.dialect import VERSIONS
from jdbcstore.stomp.events import (
    Abort,
    Ack,
    AckMode,
    Begin,
    Commit,
    Connect,
    Disconnect,
    Event,
    Nack,
    Send,
    Subscribe,
    Unsubscribe,
)

__all__ = [
    "Reader",
    "Refusal",
    "read_abort",
    "read_ack",
    "read_begin",
    "read_commit",
    "read_connect",
    "read_disconnect",
    "read_nack",
    "read_send",
    "read_subscribe",
    "read_unsubscribe",
    "refuse_connected",
    "refuse_unconnected",
]

#: (headers, body, version) → event.
Reader: TypeAlias = Callable[[dict[str, str], bytes, str], Event]

_ACK_MODES: Final = {mode.value: mode for mode in AckMode}

_INT_MAX: Final = 2**31 - 1  # what a Java broker can hold


class Refusal(ProtocolError):
    """A request that is not taken.

    Args:
        message: what ActiveMQ says, for the ``message`` header.
        advice: what to do instead, for the body.
        fatal: whether the connection ends.
    """

    def __init__(self, message: str, advice: str, *, fatal: bool = False) -> None:
        super().__init__(message, fatal=fatal)
        self.advice = advice


# --- coming and going -------------------------------------------------------------------------------------------------


def read_connect(headers: dict[str, str], body: bytes, version: str) -> Connect:
    """CONNECT and STOMP; `version` is not looked at, the event has the negotiated one."""
    return Connect(
        headers=headers,
        version=_negotiate_version(headers.get("accept-version")),
        login=headers.get("login"),
        passcode=headers.get("passcode"),
        client_id=headers.get("client-id"),
        host=headers.get("host"),
        heart_beat=_parse_heart_beat(headers.get("heart-beat")),
        receipt=headers.get("receipt"),
    )


def read_disconnect(headers: dict[str, str], body: bytes, version: str) -> Disconnect:
    """DISCONNECT."""
    return Disconnect(headers, headers.get("receipt"))


def refuse_unconnected(headers: dict[str, str], body: bytes, version: str) -> Event:
    """Anything before CONNECT."""
    raise Refusal("Not connected.", "Send a CONNECT or STOMP frame first.")


def refuse_connected(headers: dict[str, str], body: bytes, version: str) -> Event:
    """A second CONNECT."""
    raise Refusal("Already connected.", "One CONNECT is enough; this one was ignored.")


def _negotiate_version(accepted: str | None) -> str:
    """The best version both sides know. ActiveMQ does not trim the entries of the list; that helps nobody."""
    if accepted is None:
        return "1.0"
    offered = {version.strip() for version in accepted.split(",")}
    for version in VERSIONS:
        if version in offered:
            return version
    raise Refusal(
        f"Invalid Protocol version[{accepted}], supported versions are: [{', '.join(VERSIONS)}]",
        "Offer at least one of these in accept-version.",
        fatal=True,
    )


def _parse_heart_beat(text: str | None) -> tuple[int, int]:
    """Both intervals in ms; negative ones are let through, as ActiveMQ does."""
    if text is None:
        return 0, 0
    match [_parse_int(part) for part in text.split(",")]:
        case [int(can_send_ms), int(wants_ms)]:
            return can_send_ms, wants_ms
    raise Refusal(
        f"Invalid heart-beat header:{text}", "Write two whole numbers of milliseconds: heart-beat:cx,cy.", fatal=True
    )


# --- messages ---------------------------------------------------------------------------------------------------------


def read_send(headers: dict[str, str], body: bytes, version: str) -> Send:
    """SEND needs a destination.

    Without one it ends the connection if it is in a transaction and asks for no receipt: what the rest of it comes to
    may not be committed.
    """
    destination = headers.get("destination")
    if not destination or destination.isspace():
        refusal = _empty_destination()
        if destination is None:
            refusal = Refusal("SEND received without a Destination specified!", refusal.advice)
        refusal.fatal = "transaction" in headers and "receipt" not in headers
        raise refusal
    return Send(headers, destination, body, headers.get("receipt"), headers.get("transaction"))


def read_subscribe(headers: dict[str, str], body: bytes, version: str) -> Subscribe:
    """SUBSCRIBE needs a destination, and an id from 1.1 on."""
    subscription_id = headers.get("id")
    if subscription_id is None and version != "1.0":
        raise Refusal("SUBSCRIBE received without a subscription id!", "Give the subscription an id header.")
    destination = headers.get("destination", "")
    if not destination or destination.isspace():
        raise _empty_destination()
    is_browser = headers.get("browser", "").strip().lower() == "true"
    if is_browser and version == "1.0":
        raise Refusal(
            "Queue Browser feature only valid for Stomp v1.1+ clients!",
            "Connect with accept-version:1.1 or 1.2: this subscription would have taken what it was to look at.",
        )
    return Subscribe(
        headers=headers,
        destination=destination,
        id=subscription_id,
        ack=_ACK_MODES.get(headers.get("ack", ""), AckMode.AUTO),
        selector=headers.get("selector", "").strip() or None,
        prefetch=_parse_prefetch(headers.get("activemq.prefetchSize")),
        browser=is_browser,
        subscription_name=headers.get("activemq.subscriptionName"),
        receipt=headers.get("receipt"),
    )


def read_unsubscribe(headers: dict[str, str], body: bytes, version: str) -> Unsubscribe:
    """UNSUBSCRIBE needs the subscription's id; in 1.0 its destination will do."""
    subscription_id, destination = headers.get("id"), headers.get("destination")
    if subscription_id is None and version != "1.0":
        raise Refusal("UNSUBSCRIBE received without a subscription id!", "Name the subscription in an id header.")
    if subscription_id is None and not destination:
        raise Refusal(
            "Must specify the subscriptionId or the destination you are unsubscribing from",
            "Name the subscription in an id header, or its destination in a destination header.",
        )
    subscription_name = headers.get("activemq.subscriptionName")
    return Unsubscribe(headers, subscription_id, destination, subscription_name, headers.get("receipt"))


def _empty_destination() -> Refusal:
    return Refusal("Invalid empty or 'null' Destination header", "Say where in a destination header: /queue/NAME.")


def _parse_prefetch(text: str | None) -> int | None:
    if text is None:
        return None
    prefetch = _parse_int(text)
    if prefetch is None or prefetch < 1:
        raise Refusal(
            f"Invalid activemq.prefetchSize header:{text}",
            "Write a whole number of messages, 1 or more: with 0 none would come, a STOMP client cannot ask for one.",
        )
    return prefetch


# --- acknowledgements -------------------------------------------------------------------------------------------------


def read_ack(headers: dict[str, str], body: bytes, version: str) -> Ack:
    """ACK needs to name a message in the way of its version."""
    _require_message("ACK", headers, version)
    return Ack(
        headers,
        headers.get("id"),
        headers.get("message-id"),
        headers.get("subscription"),
        headers.get("receipt"),
        headers.get("transaction"),
    )


def read_nack(headers: dict[str, str], body: bytes, version: str) -> Nack:
    """NACK is like ACK, and unknown to 1.0."""
    if version == "1.0":
        raise Refusal(
            "NACK received but connection is in v1.0 mode.", "Connect with accept-version:1.1 or 1.2 to use NACK."
        )
    _require_message("NACK", headers, version)
    return Nack(
        headers,
        headers.get("id"),
        headers.get("message-id"),
        headers.get("subscription"),
        headers.get("receipt"),
        headers.get("transaction"),
    )


def _require_message(command: str, headers: Mapping[str, str], version: str) -> None:
    if version == "1.2":
        if "id" not in headers:
            raise Refusal(
                f"{command} received without a ack id for acknowledge!",
                "Copy the ack header of the MESSAGE into the id header.",
            )
        return
    if "message-id" not in headers:
        raise Refusal(
            f"{command} received without a message-id to acknowledge!", "Copy the message-id header of the MESSAGE."
        )
    if version == "1.1" and "subscription" not in headers:
        raise Refusal(
            f"{command} received without a subscription id for acknowledge!",
            "Copy the subscription header of the MESSAGE.",
        )


# --- transactions -----------------------------------------------------------------------------------------------------


def read_begin(headers: dict[str, str], body: bytes, version: str) -> Begin:
    """BEGIN needs the transaction's name."""
    return Begin(headers, _transaction(headers, "beginning"), headers.get("receipt"))


def read_commit(headers: dict[str, str], body: bytes, version: str) -> Commit:
    """COMMIT needs the transaction's name."""
    return Commit(headers, _transaction(headers, "committing"), headers.get("receipt"))


def read_abort(headers: dict[str, str], body: bytes, version: str) -> Abort:
    """ABORT needs the transaction's name; without it ActiveMQ speaks of committing here, too."""
    return Abort(headers, _transaction(headers, "committing"), headers.get("receipt"))


def _transaction(headers: Mapping[str, str], doing: str) -> str:
    transaction = headers.get("transaction")
    if transaction is None:
        raise Refusal(f"Must specify the transaction you are {doing}", "Name it in a transaction header.")
    return transaction


def _parse_int(text: str) -> int | None:
    """A Java int, blanks around it allowed; None when it is none."""
    text = text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        return None
    number = int(text)
    return number if -_INT_MAX <= number <= _INT_MAX else None
