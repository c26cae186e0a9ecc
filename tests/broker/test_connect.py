"""CONNECT: versions, logins, client ids, what comes too early or too late."""

from __future__ import annotations

import pytest

from jdbcstore import BrokerOptions
from jdbcstore.errors import ConfigurationError
from jdbcstore.version import VERSION
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [("1.0", "1.0"), ("1.1", "1.1"), ("1.2", "1.2"), ("1.0,1.1", "1.1"), ("1.3,1.2", "1.2")],
)
def test_the_highest_common_version_is_agreed_on(address: Address, offered: str, agreed: str) -> None:
    with Client(address) as client:
        assert client.connect(offered).headers["version"] == agreed


def test_no_accept_version_is_1_0(address: Address) -> None:
    with Client(address) as client:
        client.send("CONNECT")
        answer = client.frame()
    assert (answer.headers["version"], answer.headers["heart-beat"]) == ("1.0", "0,0")
    assert answer.headers["session"].startswith("ID:")


def test_an_unknown_version_ends_the_connection(address: Address) -> None:
    with Client(address) as client:
        error = client.connect("2.0")
        assert error.command == "ERROR"
        assert error.headers["message"] == "Invalid Protocol version[2.0], supported versions are: [1.2, 1.1, 1.0]"
        assert client.is_closed()


def test_stomp_is_connect(address: Address) -> None:
    with Client(address) as client:
        client.send("STOMP", {"accept-version": "1.2", "host": "x"})
        assert client.frame().command == "CONNECTED"


def test_the_broker_says_what_it_is(address: Address, start_broker: StartBroker) -> None:
    with Client(address) as client:
        assert client.connect().headers["server"] == f"jdbcstore/{VERSION} (ActiveMQ)"  # stomp-php looks for ActiveMQ
    with Client(start_broker(server_header="ours/1")) as client:
        assert client.connect().headers["server"] == "ours/1"


@pytest.mark.parametrize("name", ["", " ", "a\nb", "ü"])
def test_what_the_broker_says_of_itself_is_one_line(name: str) -> None:
    with pytest.raises(ConfigurationError, match="server_header must be printable ASCII"):
        BrokerOptions(server_header=name)


def test_session_is_the_client_id(address: Address, open_client: OpenClient) -> None:
    with Client(address) as client:
        assert client.connect(client_id="billing").headers["session"] == "billing"


def test_a_client_id_is_taken_once(address: Address, open_client: OpenClient) -> None:
    first = open_client(address, client_id="billing")
    with Client(address) as second:
        error = second.connect(client_id="billing")
        assert error.command == "ERROR"
        assert "Client: billing already connected from" in error.headers["message"]
        assert second.is_closed()
    first.done("DISCONNECT")
    assert first.is_closed()
    open_client(address, client_id="billing")


def test_a_receipt_of_connect_is_in_connected(address: Address) -> None:
    with Client(address) as client:
        answer = client.connect(receipt="r1")
        assert (answer.headers["receipt-id"], answer.headers["response-id"]) == ("r1", "r1")
        client.done("BEGIN", {"transaction": "t"})


def test_without_users_everybody_may_log_in(address: Address, open_client: OpenClient) -> None:
    open_client(address, login="anybody", passcode="anything")


def test_what_stands_behind_a_refused_login_is_not_done(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(users={"admin": "secret"})
    with Client(address) as client:
        client.write(
            b"CONNECT\naccept-version:1.2\nhost:x\nlogin:eve\n\n\0"
            b"SEND\ndestination:/queue/A\n\nforged\0SUBSCRIBE\ndestination:/queue/A\nid:1\n\n\0"
        )
        assert client.error().headers["message"].startswith("User name [eve]")
        assert client.is_closed()
    admin = open_client(address, login="admin", passcode="secret")
    admin.subscribe("/queue/A")
    assert admin.is_silent()


@pytest.mark.parametrize("login", [{}, {"login": "admin"}, {"login": "admin", "passcode": "no"}, {"login": "eve"}])
def test_a_refused_login_is_told_and_closed(start_broker: StartBroker, login: dict[str, str]) -> None:
    address = start_broker(users={"admin": "secret"})
    with Client(address) as client:
        error = client.connect(**login)
        assert error.command == "ERROR"
        text = f"User name [{login.get('login', 'null')}] or password is invalid."
        assert (error.headers["message"], error.text) == (text, text)
        assert client.is_closed()


def test_a_right_login_is_let_in(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(users={"admin": "secret:with:colons"})
    with Client(address) as client:
        assert client.connect("1.0", login="admin", passcode="secret:with:colons").command == "CONNECTED"


def test_anonymous_clients_can_be_let_in_beside_users(start_broker: StartBroker) -> None:
    address = start_broker(users={"admin": "secret"}, anonymous_access_allowed=True)
    for login, answer in [({}, "CONNECTED"), ({"login": "admin", "passcode": "no"}, "ERROR"), ({"login": ""}, "ERROR")]:
        with Client(address) as client:
            assert client.connect(**login).command == answer


def test_what_comes_before_connect_is_refused(address: Address) -> None:
    with Client(address) as client:
        client.send("SEND", {"destination": "/queue/A"}, "x")
        assert client.error().headers["message"] == "Not connected."
        assert client.connect().command == "CONNECTED"


def test_a_second_connect_is_refused_and_the_connection_goes_on(client: Client) -> None:
    assert client.connect().headers["message"] == "Already connected."
    client.publish("/queue/A", "still here")


def test_frames_may_follow_connect_at_once(address: Address) -> None:
    with Client(address) as client:
        client.write(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0SEND\ndestination:/queue/A\nreceipt:1\n\nx\0")
        assert [client.frame().command, client.frame().command] == ["CONNECTED", "RECEIPT"]


def test_a_client_that_never_connects_is_closed(start_broker: StartBroker) -> None:
    address = start_broker(connect_timeout_s=0.2)
    with Client(address) as client:
        assert client.is_closed()


def test_one_client_too_many_is_told_so(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(connections_max=2)
    first = open_client(address)
    open_client(address)
    with Client(address) as third:
        assert "as many clients as it may have" in third.error().headers["message"]
        assert third.is_closed()
    first.publish("/queue/A", "the others go on")


def test_disconnect_is_answered_and_closed(any_client: Client) -> None:
    any_client.send("DISCONNECT", {"receipt": "bye"})
    assert any_client.frame().headers["receipt-id"] == "bye"
    assert any_client.is_closed()


def test_disconnect_waits_for_what_was_sent_before(client: Client) -> None:
    client.send("SEND", {"destination": "/queue/A", "persistent": "true", "receipt": "sent"}, "x")
    client.send("DISCONNECT", {"receipt": "bye"})
    assert [client.frame().headers["receipt-id"], client.frame().headers["receipt-id"]] == ["sent", "bye"]
