"""The connection: what is allowed when, what the broker may say when, what goes out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import jdbcstore.stomp
from jdbcstore.stomp import Connect, Disconnect, Limits, Send, State, StompConnection
from jdbcstore.stomp.frames import COMMANDS
from jdbcstore.stomp.protocol import TABLE

SEND = b"SEND\ndestination:/queue/A\n\nbody\0\n"


def connecting(version: str = "1.2", *headers: str) -> StompConnection:
    connection = StompConnection()
    connection.receive_data("\n".join(["CONNECT", f"accept-version:{version}", *headers, "\n\0"]).encode())
    assert connection.state is State.CONNECTED
    return connection


def connected(version: str = "1.2") -> StompConnection:
    connection = connecting(version)
    connection.send_connected("test", "test", (0, 0))
    connection.data_to_send()
    assert connection.state is State.CONNECTED
    return connection


def disconnecting(receipt: str | None = None) -> StompConnection:
    connection = connected()
    connection.receive_data(f"DISCONNECT\n{'' if receipt is None else f'receipt:{receipt}'}\n\n\0".encode())
    assert connection.state is State.DISCONNECTING
    return connection


def leaving_at_once() -> StompConnection:
    """Said DISCONNECT before it was let in."""
    connection = StompConnection()
    connection.receive_data(b"CONNECT\n\n\0DISCONNECT\n\n\0")
    assert connection.state is State.DISCONNECTING
    return connection


def closed() -> StompConnection:
    connection = connected()
    connection.send_error("enough", fatal=True)
    connection.data_to_send()
    assert connection.state is State.CLOSED
    return connection


# --- the table


def test_every_state_is_in_the_table() -> None:
    assert set(TABLE) == set(State)


@pytest.mark.parametrize("state", [State.EXPECTING_CONNECT, State.CONNECTED])
def test_every_command_is_in_the_table_of_every_state_that_listens(state: State) -> None:
    assert set(TABLE[state]) == COMMANDS


@pytest.mark.parametrize("command", sorted(COMMANDS - {"CONNECT", "STOMP"}))
def test_nothing_but_connect_is_heard_before_connect(command: str) -> None:
    connection = StompConnection()
    assert connection.receive_data(f"{command}\ndestination:/queue/A\nreceipt:1\n\n\0".encode()) == []
    assert connection.data_to_send() == (
        b"ERROR\ncontent-type:text/plain\nreceipt-id:1\nmessage:Not connected.\n\n"
        b"Send a CONNECT or STOMP frame first.\0\n"
    )
    assert connection.state is State.EXPECTING_CONNECT
    assert not connection.close_expected


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_connect_and_stomp_are_the_same(command: str) -> None:
    connection = StompConnection()
    [event] = connection.receive_data(f"{command}\naccept-version:1.1\n\n\0".encode())
    assert isinstance(event, Connect)
    assert connection.state is State.CONNECTED
    assert connection.version == "1.1"


@pytest.mark.parametrize("make", [disconnecting, closed])
@pytest.mark.parametrize("data", [SEND, b"CONNECT\n\n\0", b"\xff" * 5000, b"DISCONNECT\n\n\0"])
def test_the_deaf_states_ignore_everything(make: Callable[[], StompConnection], data: bytes) -> None:
    connection = make()
    state = connection.state
    assert connection.receive_data(data) == []
    assert connection.data_to_send() == b""
    assert connection.state is state


def test_what_follows_disconnect_in_the_same_chunk_is_ignored() -> None:
    events = connected().receive_data(SEND + b"DISCONNECT\n\n\0" + SEND + b"garbage\n\n")
    assert [type(event) for event in events] == [Send, Disconnect]


def test_a_fatal_error_ends_the_connection_after_the_events_before_it() -> None:
    connection = connected()
    events = connection.receive_data(SEND + b"FOO\nreceipt:9\n\n\0" + SEND)
    assert [type(event) for event in events] == [Send]
    assert connection.data_to_send() == (
        b"ERROR\ncontent-type:text/plain\nreceipt-id:9\nmessage:Unknown STOMP action\\c FOO\n\n"
        b"Unknown STOMP action: FOO\0\n"
    )
    assert connection.close_expected


def test_an_error_that_is_not_fatal_costs_only_its_frame() -> None:
    connection = connected()
    assert len(connection.receive_data(SEND + b"SEND\n\n\0" + SEND)) == 2
    assert connection.data_to_send().count(b"ERROR\n") == 1


def test_strangers_have_limits_of_their_own() -> None:
    connection = StompConnection(Limits(unconnected_body_bytes=10, body_bytes=20))
    assert len(connection.receive_data(b"CONNECT\n\n0123456789\0")) == 1
    assert len(connection.receive_data(b"SEND\ndestination:/queue/A\n\n" + b"x" * 20 + b"\0")) == 1


def test_the_error_of_a_frame_beyond_a_limit_has_its_receipt() -> None:
    connection = StompConnection()
    connection.receive_data(b"SEND\ndestination:/queue/A\nreceipt:r\ncontent-length:65537\n\n")
    assert connection.close_expected
    assert b"\nreceipt-id:r\nmessage:The maximum data length was exceeded: unconn" in connection.data_to_send()


def test_the_version_changes_within_a_chunk() -> None:
    _, send = StompConnection().receive_data(
        b"CONNECT\naccept-version:1.2\n\n\0SEND\ndestination:/queue/A\nx: \\r\n\n\0",
    )
    assert isinstance(send, Send)
    assert send.headers["x"] == " \r"


# --- CONNECTED


def test_connected() -> None:
    connection = connecting("1.2")
    connection.send_connected("jdbcstore/1.0", "ID:host-1:2", (500, 1000))
    assert connection.data_to_send() == (
        b"CONNECTED\nserver:jdbcstore/1.0\nheart-beat:500,1000\nsession:ID:host-1:2\nversion:1.2\n\n\0\n"
    )


@pytest.mark.parametrize(
    ("header", "echo"), [(["receipt:r\\c1"], "r:1"), (["request-id:77"], "77"), (["receipt:1", "request-id:2"], "2")]
)
def test_connected_answers_receipt_and_request_id_unescaped(header: list[str], echo: str) -> None:
    connection = connecting("1.2", *header)
    connection.send_connected("test", "s", (0, 0))
    assert f"\nresponse-id:{echo}\nreceipt-id:{echo}\n" in connection.data_to_send().decode()


def test_connected_can_name_another_version() -> None:
    connection = connecting("1.2")
    connection.send_connected("test", "s", (0, 0), version="1.1")
    assert b"\nversion:1.1\n" in connection.data_to_send()


def test_no_error_overtakes_connected() -> None:
    connection = connecting()
    connection.receive_data(b"SEND\nreceipt:1\n\n\0")
    assert connection.data_to_send() == b""
    connection.send_connected("test", "s", (0, 0))
    data = connection.data_to_send()
    assert data.startswith(b"CONNECTED\n")
    assert data.count(b"ERROR\n") == 1


def test_a_whole_session_in_one_chunk() -> None:
    connection = StompConnection()
    events = connection.receive_data(b"CONNECT\n\n\0" + SEND + b"DISCONNECT\nreceipt:bye\n\n\0")
    assert [type(event) for event in events] == [Connect, Send, Disconnect]
    connection.send_connected("test", "s", (0, 0))
    connection.send_receipt("1")
    connection.finish_disconnect()
    assert connection.data_to_send() == (
        b"CONNECTED\nserver:test\nheart-beat:0,0\nsession:s\nversion:1.0\n\n\0\n"
        b"RECEIPT\nreceipt-id:1\n\n\0\nRECEIPT\nreceipt-id:bye\n\n\0\n"
    )


def test_a_client_that_is_not_let_in() -> None:
    connection = connecting("1.2")
    connection.send_error("User name [x] or password is invalid.", fatal=True)
    connection.send_connected("test", "s", (0, 0))
    assert connection.data_to_send() == (
        b"ERROR\ncontent-type:text/plain\nmessage:User name [x] or password is invalid.\n\n"
        b"User name [x] or password is invalid.\0\n"
    )
    assert connection.close_expected


# --- the other verbs


def test_receipt() -> None:
    connection = connected("1.2")
    connection.send_receipt("a:1")
    assert connection.data_to_send() == b"RECEIPT\nreceipt-id:a\\c1\n\n\0\n"


def test_message() -> None:
    connection = connected("1.1")
    assert connection.send_message({"destination": "/queue/A", "message-id": "ID:1"}, b"body")
    assert connection.data_to_send() == b"MESSAGE\ndestination:/queue/A\nmessage-id:ID\\c1\n\nbody\0\n"


def test_message_with_nul_is_counted() -> None:
    connection = connected()
    connection.send_message({"a": "b"}, b"\0")
    assert connection.data_to_send() == b"MESSAGE\na:b\ncontent-length:1\n\n\0\0\n"


def test_error_with_body_and_receipt() -> None:
    connection = connected()
    connection.send_error("short", "A long\0 sentence.", "r")
    assert connection.data_to_send() == (
        "ERROR\ncontent-type:text/plain\nreceipt-id:r\nmessage:short\n\nA long\ufffd sentence.\0\n".encode()
    )
    assert not connection.close_expected


def test_heart_beat() -> None:
    connection = connected()
    connection.send_heart_beat()
    assert connection.data_to_send() == b"\n"


def test_frames_go_out_in_the_order_they_were_said_and_once() -> None:
    connection = connected()
    connection.send_receipt("1")
    connection.send_message({}, b"2")
    connection.send_receipt("3")
    assert connection.data_to_send() == b"RECEIPT\nreceipt-id:1\n\n\0\nMESSAGE\n\n2\0\nRECEIPT\nreceipt-id:3\n\n\0\n"
    assert connection.data_to_send() == b""


@pytest.mark.parametrize(("receipt", "answer"), [(None, b""), ("bye", b"RECEIPT\nreceipt-id:bye\n\n\0\n")])
def test_disconnect(receipt: str | None, answer: bytes) -> None:
    connection = disconnecting(receipt)
    assert not connection.close_expected
    connection.finish_disconnect()
    assert connection.data_to_send() == answer
    assert connection.close_expected


def test_what_was_in_flight_is_answered_before_disconnect() -> None:
    connection = disconnecting("bye")
    connection.send_receipt("earlier")
    connection.finish_disconnect()
    assert connection.data_to_send() == b"RECEIPT\nreceipt-id:earlier\n\n\0\nRECEIPT\nreceipt-id:bye\n\n\0\n"


@pytest.mark.parametrize("make", [disconnecting, closed])
def test_a_message_that_nobody_will_see_is_not_sent(make: Callable[[], StompConnection]) -> None:
    connection = make()
    assert not connection.send_message({}, b"")
    assert connection.data_to_send() == b""


VERBS: dict[str, Callable[[StompConnection], object]] = {
    "send_connected": lambda connection: connection.send_connected("test", "s", (0, 0)),
    "send_receipt": lambda connection: connection.send_receipt("r"),
    "send_message": lambda connection: connection.send_message({}, b""),
    "send_heart_beat": lambda connection: connection.send_heart_beat(),
    "send_error": lambda connection: connection.send_error("e", fatal=True),
    "finish_disconnect": lambda connection: connection.finish_disconnect(),
}


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_closed_connection_says_nothing(verb: str) -> None:
    connection = closed()
    VERBS[verb](connection)
    assert connection.data_to_send() == b""
    assert connection.close_expected


@pytest.mark.parametrize(
    ("make", "verb"),
    [
        (StompConnection, "send_connected"),
        (StompConnection, "send_receipt"),
        (StompConnection, "send_message"),
        (StompConnection, "send_heart_beat"),
        (StompConnection, "finish_disconnect"),
        (connecting, "send_receipt"),
        (connecting, "send_message"),
        (connecting, "send_heart_beat"),
        (connecting, "finish_disconnect"),
        (connected, "send_connected"),
        (connected, "finish_disconnect"),
        (disconnecting, "send_connected"),
        (leaving_at_once, "send_receipt"),
        (leaving_at_once, "finish_disconnect"),
    ],
)
def test_a_broker_that_speaks_out_of_turn_is_told(make: Callable[[], StompConnection], verb: str) -> None:
    connection = make()
    state = connection.state
    with pytest.raises(RuntimeError, match=verb):
        VERBS[verb](connection)
    assert connection.state is state


def test_an_error_can_be_sent_to_somebody_who_never_said_connect() -> None:
    connection = StompConnection()
    connection.send_error("No CONNECT came.", fatal=True)
    assert connection.data_to_send().startswith(b"ERROR\n")
    assert connection.close_expected


def test_public_names() -> None:
    assert len(set(jdbcstore.stomp.__all__)) == len(jdbcstore.stomp.__all__)
    assert [name for name in jdbcstore.stomp.__all__ if not hasattr(jdbcstore.stomp, name)] == []
