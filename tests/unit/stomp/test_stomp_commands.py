"""Commands: what each needs, ActiveMQ's words when it is missing, and the event it becomes."""

from __future__ import annotations

import pytest

from jdbcstore.stomp import (
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
    StompConnection,
    Subscribe,
    Unsubscribe,
)


def connected(version: str) -> StompConnection:
    connection = StompConnection()
    connection.receive_data(f"CONNECT\naccept-version:{version}\n\n\0".encode())
    connection.send_connected("test", "test", (0, 0))
    connection.data_to_send()
    return connection


def event(frame: str, version: str = "1.2") -> Event:
    """The one event that the frame becomes."""
    connection = connected(version)
    [made] = connection.receive_data(frame.encode() + b"\0")
    assert connection.data_to_send() == b""
    return made


def connect_event(*headers: str) -> Connect:
    [made] = StompConnection().receive_data("\n".join(["CONNECT", *headers, "\n\0"]).encode())
    assert isinstance(made, Connect)
    return made


# --- CONNECT


@pytest.mark.parametrize(
    ("accepted", "version"),
    [
        (None, "1.0"),
        ("1.0", "1.0"),
        ("1.1", "1.1"),
        ("1.2", "1.2"),
        ("1.0,1.1", "1.1"),
        ("1.1,1.2", "1.2"),
        ("1.2,1.0", "1.2"),
        ("1.3,1.2", "1.2"),
        ("1.0, 1.2", "1.2"),
    ],
)
def test_the_best_common_version_is_chosen(accepted: str | None, version: str) -> None:
    assert connect_event(*([] if accepted is None else [f"accept-version:{accepted}"])).version == version


def test_connect_has_what_the_broker_needs() -> None:
    made = connect_event(
        "accept-version:1.2", "login:u", "passcode:p", "client-id:c", "host:h", "heart-beat:1000,500", "receipt:r"
    )
    assert (made.login, made.passcode, made.client_id, made.host) == ("u", "p", "c", "h")
    assert (made.heart_beat, made.receipt) == ((1000, 500), "r")
    assert made.headers["host"] == "h"


def test_connect_without_headers() -> None:
    made = connect_event()
    assert (made.login, made.passcode, made.client_id, made.host) == (None, None, None, None)
    assert (made.heart_beat, made.receipt) == ((0, 0), None)


def test_a_passcode_is_not_shown() -> None:
    assert "secret" not in repr(connect_event("passcode:secret"))


def test_negative_heart_beats_are_accepted() -> None:
    assert connect_event("heart-beat:-1,-1").heart_beat == (-1, -1)


def test_blanks_in_heart_beats_are_accepted() -> None:
    assert connect_event("heart-beat: 10 , 20 ").heart_beat == (10, 20)


# --- events


def test_send() -> None:
    made = event("SEND\ndestination:/queue/A\nreceipt:r\ntransaction:t\nx:y\n\nbody")
    assert isinstance(made, Send)
    assert (made.destination, made.body, made.receipt, made.transaction) == ("/queue/A", b"body", "r", "t")
    assert made.headers == {"destination": "/queue/A", "receipt": "r", "transaction": "t", "x": "y"}


def test_send_without_extras() -> None:
    made = event("SEND\ndestination:/queue/A\n\n")
    assert isinstance(made, Send)
    assert (made.body, made.receipt, made.transaction) == (b"", None, None)


def test_subscribe() -> None:
    made = event(
        "SUBSCRIBE\ndestination:/topic/A\nid:s\nack:client\nselector:a = 1\nactivemq.prefetchSize:5\nbrowser:true\n"
        "activemq.subscriptionName:n\nreceipt:r\n\n"
    )
    assert isinstance(made, Subscribe)
    assert (made.destination, made.id, made.ack, made.selector) == ("/topic/A", "s", AckMode.CLIENT, "a = 1")
    assert (made.prefetch, made.browser, made.subscription_name, made.receipt) == (5, True, "n", "r")


def test_subscribe_without_extras() -> None:
    made = event("SUBSCRIBE\ndestination:/queue/A\n\n", "1.0")
    assert isinstance(made, Subscribe)
    assert (made.id, made.ack, made.selector, made.prefetch) == (None, AckMode.AUTO, None, None)
    assert (made.browser, made.subscription_name, made.receipt) == (False, None, None)


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("auto", AckMode.AUTO),
        ("client", AckMode.CLIENT),
        ("client-individual", AckMode.CLIENT_INDIVIDUAL),
        ("unheard-of", AckMode.AUTO),
    ],
)
def test_ack_modes(word: str, mode: AckMode) -> None:
    made = event(f"SUBSCRIBE\ndestination:/queue/A\nid:s\nack:{word}\n\n")
    assert isinstance(made, Subscribe)
    assert made.ack is mode


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_browsers_exist_from_1_1_on(version: str) -> None:
    made = event("SUBSCRIBE\ndestination:/queue/A\nid:s\nbrowser:true\n\n", version)
    assert isinstance(made, Subscribe)
    assert made.browser


@pytest.mark.parametrize("selector", ["", "  "])
def test_a_blank_selector_is_none(selector: str) -> None:
    made = event(f"SUBSCRIBE\ndestination:/queue/A\nid:s\nselector:{selector}\n\n")
    assert isinstance(made, Subscribe)
    assert made.selector is None


def test_unsubscribe_by_id() -> None:
    made = event("UNSUBSCRIBE\nid:s\nreceipt:r\nactivemq.subscriptionName:n\n\n")
    assert isinstance(made, Unsubscribe)
    assert (made.id, made.destination, made.subscription_name, made.receipt) == ("s", None, "n", "r")


def test_unsubscribe_by_destination() -> None:
    made = event("UNSUBSCRIBE\ndestination:/queue/A\n\n", "1.0")
    assert isinstance(made, Unsubscribe)
    assert (made.id, made.destination, made.subscription_name, made.receipt) == (None, "/queue/A", None, None)


@pytest.mark.parametrize(("command", "kind"), [("ACK", Ack), ("NACK", Nack)])
def test_acknowledgements(command: str, kind: type[Ack | Nack]) -> None:
    made = event(f"{command}\nid:a\ntransaction:t\nreceipt:r\n\n", "1.2")
    assert isinstance(made, kind)
    assert isinstance(made, Ack | Nack)
    assert (made.id, made.message_id, made.subscription) == ("a", None, None)
    assert (made.transaction, made.receipt) == ("t", "r")
    made = event(f"{command}\nmessage-id:m\nsubscription:s\n\n", "1.1")
    assert isinstance(made, Ack | Nack)
    assert (made.id, made.message_id, made.subscription) == (None, "m", "s")
    assert (made.transaction, made.receipt) == (None, None)


def test_ack_of_1_0_needs_no_subscription() -> None:
    made = event("ACK\nmessage-id:m\n\n", "1.0")
    assert isinstance(made, Ack)
    assert (made.message_id, made.subscription) == ("m", None)


@pytest.mark.parametrize(("command", "kind"), [("BEGIN", Begin), ("COMMIT", Commit), ("ABORT", Abort)])
def test_transactions(command: str, kind: type[Begin | Commit | Abort]) -> None:
    made = event(f"{command}\ntransaction:t\nreceipt:r\n\n")
    assert isinstance(made, kind)
    assert made == kind({"transaction": "t", "receipt": "r"}, "t", "r")


def test_disconnect() -> None:
    assert event("DISCONNECT\nreceipt:r\n\n") == Disconnect({"receipt": "r"}, "r")


# --- refusals that leave the connection open


@pytest.mark.parametrize(
    ("version", "frame", "message"),
    [
        ("1.2", "SEND\n", "SEND received without a Destination specified!"),
        ("1.2", "SEND\ndestination:\n", "Invalid empty or 'null' Destination header"),
        ("1.2", "SEND\ndestination:  \n", "Invalid empty or 'null' Destination header"),
        ("1.1", "SUBSCRIBE\ndestination:/queue/A\n", "SUBSCRIBE received without a subscription id!"),
        ("1.2", "SUBSCRIBE\ndestination:/queue/A\n", "SUBSCRIBE received without a subscription id!"),
        ("1.2", "SUBSCRIBE\nid:s\n", "Invalid empty or 'null' Destination header"),
        ("1.0", "SUBSCRIBE\ndestination:\n", "Invalid empty or 'null' Destination header"),
        (
            "1.0",
            "SUBSCRIBE\ndestination:/queue/A\nactivemq.prefetchSize:many\n",
            "Invalid activemq.prefetchSize header:many",
        ),
        (
            "1.0",
            "SUBSCRIBE\ndestination:/queue/A\nactivemq.prefetchSize:-1\n",
            "Invalid activemq.prefetchSize header:-1",
        ),
        (
            "1.0",
            "SUBSCRIBE\ndestination:/queue/A\nbrowser:true\n",
            "Queue Browser feature only valid for Stomp v1.1+ clients!",
        ),
        ("1.1", "UNSUBSCRIBE\ndestination:/queue/A\n", "UNSUBSCRIBE received without a subscription id!"),
        (
            "1.0",
            "UNSUBSCRIBE\n",
            "Must specify the subscriptionId or the destination you are unsubscribing from",
        ),
        ("1.2", "ACK\nmessage-id:m\n", "ACK received without a ack id for acknowledge!"),
        ("1.2", "NACK\nmessage-id:m\n", "NACK received without a ack id for acknowledge!"),
        ("1.1", "ACK\nmessage-id:m\n", "ACK received without a subscription id for acknowledge!"),
        ("1.1", "NACK\nmessage-id:m\n", "NACK received without a subscription id for acknowledge!"),
        ("1.1", "ACK\nsubscription:s\n", "ACK received without a message-id to acknowledge!"),
        ("1.0", "ACK\n", "ACK received without a message-id to acknowledge!"),
        ("1.0", "NACK\nmessage-id:m\n", "NACK received but connection is in v1.0 mode."),
        ("1.2", "BEGIN\n", "Must specify the transaction you are beginning"),
        ("1.2", "COMMIT\n", "Must specify the transaction you are committing"),
        ("1.2", "ABORT\n", "Must specify the transaction you are committing"),
        ("1.2", "CONNECT\n", "Already connected."),
        ("1.2", "STOMP\n", "Already connected."),
    ],
)
def test_refusals(version: str, frame: str, message: str) -> None:
    connection = connected(version)
    assert connection.receive_data(f"{frame}receipt:9\n\n\0".encode()) == []
    head, _, body = connection.data_to_send().decode().partition("\n\n")
    escaped = message if version == "1.0" else message.replace(":", "\\c")
    assert head == f"ERROR\ncontent-type:text/plain\nreceipt-id:9\nmessage:{escaped}"
    assert body.endswith(".\0\n")
    assert not connection.close_expected
    assert len(connection.receive_data(b"SEND\ndestination:/queue/A\n\n\0")) == 1


# --- refusals that end it


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            "accept-version:2.0",
            "Invalid Protocol version[2.0], supported versions are: [1.2, 1.1, 1.0]",
        ),
        ("accept-version:", "Invalid Protocol version[], supported versions are: [1.2, 1.1, 1.0]"),
        ("heart-beat:abc", "Invalid heart-beat header:abc"),
        ("heart-beat:1", "Invalid heart-beat header:1"),
        ("heart-beat:1,2,3", "Invalid heart-beat header:1,2,3"),
        ("heart-beat:1,", "Invalid heart-beat header:1,"),
        ("heart-beat:1.5,1", "Invalid heart-beat header:1.5,1"),
        ("heart-beat:9999999999,1", "Invalid heart-beat header:9999999999,1"),
        ("heart-beat:" + "9" * 5000 + ",1", "Invalid heart-beat header:" + "9" * 5000 + ",1"),
    ],
)
def test_connects_that_fail(headers: str, message: str) -> None:
    connection = StompConnection()
    assert connection.receive_data(f"CONNECT\n{headers}\n\n\0SEND\ndestination:/queue/A\n\n\0".encode()) == []
    assert connection.data_to_send().decode().startswith(f"ERROR\ncontent-type:text/plain\nmessage:{message}\n\n")
    assert connection.close_expected
