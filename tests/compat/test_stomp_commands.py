"""Frames that are written oddly, out of order, or about what there is not: a real ActiveMQ and ours answer the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.broker.client import Address, Client, Frame
from tests.broker.conftest import VERSIONS

pytestmark = pytest.mark.timeout(200)

Told = list[str]
Script = Callable[[Client, str], Told]


def told(frame: Frame) -> str:
    """What a frame says, without what is of its run."""
    if frame.command == "MESSAGE":
        return f"MESSAGE {frame.text}"
    return f"{frame.command} {frame.headers.get('receipt-id')} {frame.headers.get('message', '')}".rstrip()


def asked(client: Client, command: str, headers: dict[str, str] | None = None, body: str = "") -> str:
    """What a frame is answered; messages that come before the answer are kept."""
    return told(client.request(command, headers, body))


def filled(client: Client, queue: str, count: int, mode: str) -> list[Frame]:
    """Messages that are delivered and not acknowledged."""
    client.subscribe(queue, mode)
    for number in range(count):
        client.publish(queue, str(number))
    return [client.message() for _ in range(count)]


def an_acknowledgement_has_the_headers_of_its_message(client: Client, queue: str) -> Told:
    client.subscribe(queue, "client")
    said = [asked(client, "SEND", {"destination": queue, "persistent": "true", "content-length": "5"}, "hello")]
    message = client.message()
    copied = {name: value for name, value in message.headers.items() if name not in ("message-id", "subscription")}
    said.append(asked(client, "ACK", {**copied, **client.named(message)}))
    return [*said, asked(client, "BEGIN", {"transaction": "t", "content-length": "8511"})]


def nuls_stand_between_frames(client: Client, queue: str) -> Told:
    send = f"SEND\ndestination:{queue}\npersistent:true\nreceipt:%d\n\nx\0"
    client.write(("\0\n\0" + send % 1 + "\0\0\n" + send % 2 + "\n\0" + send % 3 + "\0").encode())
    return [told(client.frame()) for _ in range(3)]


def lengths_are_written_as_java_reads_numbers(client: Client, queue: str) -> Told:
    headers = {"destination": queue, "persistent": "true"}
    lengths = ("5", " 5", "5 ", "+5", "005")
    return [asked(client, "SEND", {**headers, "content-length": length}, "hello") for length in lengths]


def transactions_are_not_there(client: Client, queue: str) -> Told:
    orders: list[tuple[str, dict[str, str]]] = [
        ("BEGIN", {}),
        ("COMMIT", {}),
        ("ABORT", {}),
        ("COMMIT", {"transaction": "t"}),
        ("ABORT", {"transaction": "t"}),
        ("SEND", {"transaction": "t", "destination": queue}),
        ("BEGIN", {"transaction": "t"}),
        ("BEGIN", {"transaction": "t"}),
        ("COMMIT", {"transaction": "t"}),
        ("COMMIT", {"transaction": "t"}),
    ]
    return [asked(client, command, headers) for command, headers in orders]


def messages_and_subscriptions_are_not_there(client: Client, queue: str) -> Told:
    orders: list[tuple[str, dict[str, str]]] = [
        ("ACK", {}),
        ("ACK", {"message-id": "none"}),
        ("ACK", {"message-id": "none", "subscription": "none", "id": "none"}),
        ("NACK", {"message-id": "none", "subscription": "none", "id": "none"}),
        ("UNSUBSCRIBE", {}),
        ("UNSUBSCRIBE", {"destination": queue}),
        ("UNSUBSCRIBE", {"id": "none", "destination": queue}),
        ("SUBSCRIBE", {"id": "1"}),
        ("SUBSCRIBE", {"id": "1", "destination": ""}),
        ("SEND", {}),
        ("CONNECT", {}),
    ]
    return [asked(client, command, headers) for command, headers in orders]


def what_was_rolled_back_is_acknowledged(client: Client, queue: str) -> Told:
    return _retired(client, queue, "client", "ACK")


def what_was_rolled_back_is_acknowledged_one_by_one(client: Client, queue: str) -> Told:
    return _retired(client, queue, "client-individual", "ACK")


def what_was_rolled_back_is_refused(client: Client, queue: str) -> Told:
    return _retired(client, queue, "client", "ACK" if client.version == "1.0" else "NACK")


def _retired(client: Client, queue: str, mode: str, command: str) -> Told:
    messages = filled(client, queue, 4, mode)
    orders = [("BEGIN", {"transaction": "t"})]
    orders += [
        ("ACK", {**client.named(message), "transaction": "t"})
        for message in (messages[-1:] if mode == "client" else messages)
    ]
    orders.append(("ABORT", {"transaction": "t"}))
    orders += [(command, client.named(message)) for message in messages]
    return [asked(client, *order) for order in orders]


def some_are_refused(client: Client, queue: str) -> Told:
    messages = filled(client, queue, 6, "client")
    commands = ["ACK", "ACK" if client.version == "1.0" else "NACK"] * 3
    return [asked(client, command, client.named(message)) for command, message in zip(commands, messages, strict=True)]


def a_durable_subscription_is_of_a_queue(client: Client, queue: str) -> Told:
    return [asked(client, "SUBSCRIBE", {"destination": queue, "id": "1", "activemq.subscriptionName": "s"})]


def the_last_parts_of_a_destination_have_no_prefix(client: Client, queue: str) -> Told:
    other = queue.removeprefix("/queue/") + ".2"
    client.subscribe(queue, id="1")
    client.subscribe(f"/queue/{other}", id="2")
    said = [asked(client, "SEND", {"destination": f"{queue},{other}"}, "x")]
    return said + sorted(client.message().headers["destination"].removeprefix(queue) for _ in range(2))


SCRIPTS: Final[list[Script]] = [
    an_acknowledgement_has_the_headers_of_its_message,
    nuls_stand_between_frames,
    lengths_are_written_as_java_reads_numbers,
    transactions_are_not_there,
    messages_and_subscriptions_are_not_there,
    what_was_rolled_back_is_acknowledged,
    what_was_rolled_back_is_acknowledged_one_by_one,
    what_was_rolled_back_is_refused,
    some_are_refused,
    a_durable_subscription_is_of_a_queue,
    the_last_parts_of_a_destination_have_no_prefix,
]


@pytest.mark.parametrize("version", VERSIONS)
def test_whatever_is_said_is_answered_as_by_a_real_one(theirs: Address, ours: Address, version: str) -> None:
    answers = {}
    for whose, address in (("theirs", theirs), ("ours", ours)):
        for script in SCRIPTS:
            queue = f"/queue/{script.__name__}.{version}"
            with Client(address) as client:
                assert client.connect(version).command == "CONNECTED"
                said = script(client, queue)
            with Client(address) as client:
                client.connect()
                answers[whose, script.__name__] = said, client.rest_of(queue)
    for script in SCRIPTS:
        (said, left), (real_said, real_left) = (answers[whose, script.__name__] for whose in ("ours", "theirs"))
        assert left == real_left, script.__name__
        # Errors of ours may go on and say what to do.
        assert [one[: len(real)] for one, real in zip(said, real_said, strict=True)] == real_said, script.__name__
