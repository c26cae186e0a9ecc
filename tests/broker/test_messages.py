"""SEND to MESSAGE: what arrives is what was sent, in every version."""

from __future__ import annotations

import time

import pytest

from tests.broker.client import Address, Client
from tests.broker.conftest import VERSIONS, OpenClient


def test_a_text_arrives_without_content_length(any_client: Client) -> None:
    any_client.subscribe("/queue/A")
    any_client.publish("/queue/A", "hello")
    message = any_client.message()
    assert (message.body, "content-length" in message.headers) == (b"hello", False)


@pytest.mark.parametrize("body", ["", "héllo wörld", "\U0001f600 and \U00010348", "日本語", "line\nbreak\r\n"])
def test_texts_of_all_kinds_arrive_unchanged(any_client: Client, body: str) -> None:
    any_client.subscribe("/queue/A")
    any_client.publish("/queue/A", body)
    assert any_client.message().text == body


@pytest.mark.parametrize("body", [b"", b"\0", b"a\0b\0", bytes(range(256)), b"\xff\xfe" * 1000])
def test_bytes_arrive_unchanged_with_their_length(any_client: Client, body: bytes) -> None:
    any_client.subscribe("/queue/A")
    any_client.publish("/queue/A", body, content_length=str(len(body)))
    message = any_client.message()
    assert (message.body, message.headers["content-length"]) == (body, str(len(body)))


def test_a_text_with_a_nul_is_told_apart_by_its_length(client: Client) -> None:
    client.subscribe("/queue/A")
    client.publish("/queue/A", b"a\0b", content_length="3", amq_msg_type="text")
    assert client.message().body == b"a\0b"


def test_the_message_type_can_be_chosen(client: Client) -> None:
    client.subscribe("/queue/A")
    client.publish("/queue/A", "x", amq_msg_type="BYTES")
    message = client.message()
    assert (message.headers["content-length"], message.headers["amq-msg-type"]) == ("1", "BYTES")
    answer = client.request("SEND", {"destination": "/queue/A", "amq-msg-type": "map"}, "x")
    assert (answer.command, answer.headers["message"].partition(":")[0]) == ("ERROR", "Unsupported message type 'map'")
    assert answer.headers["receipt-id"] == "asked"


def test_standard_headers_go_through(client: Client) -> None:
    client.subscribe("/queue/A")
    expires = str(int(time.time() * 1000) + 60_000)
    client.publish(
        "/queue/A",
        "x",
        correlation_id="c1",
        expires=expires,
        priority="7",
        type="invoice",
        timestamp="1700000000000",
        reply_to="/queue/ANSWERS",
        own="property",
        content_type="text/plain",
    )
    headers = client.message().headers
    assert headers.pop("message-id").endswith(":-1:1:1")
    assert headers == {
        "content-type": "text/plain",
        "correlation-id": "c1",
        "destination": "/queue/A",
        "expires": expires,
        "own": "property",
        "persistent": "true",
        "priority": "7",
        "reply-to": "/queue/ANSWERS",
        "subscription": "1",
        "timestamp": "1700000000000",
        "type": "invoice",
    }


def test_what_the_broker_decides_cannot_be_sent(client: Client) -> None:
    client.subscribe("/queue/A")
    client.publish("/queue/A", "x", message_id="mine", redelivered="true", subscription="other", JMSXUserID="root")
    headers = client.message().headers
    assert headers["message-id"] != "mine"
    assert (headers["subscription"], "redelivered" in headers, "JMSXUserID" in headers) == ("1", False, False)


def test_defaults_are_those_of_activemq(client: Client) -> None:
    client.subscribe("/queue/A")
    before = int(time.time() * 1000)
    client.done("SEND", {"destination": "/queue/A"}, "x")
    headers = client.message().headers
    assert (headers["priority"], headers["expires"], "persistent" in headers) == ("4", "0", False)
    assert before <= int(headers["timestamp"]) <= before + 60_000


@pytest.mark.parametrize("header", [{"priority": "high"}, {"expires": "soon"}, {"timestamp": "1.5"}, {"priority": ""}])
def test_a_number_that_is_none_is_refused_and_the_connection_goes_on(client: Client, header: dict[str, str]) -> None:
    answer = client.request("SEND", {"destination": "/queue/A", **header}, "x")
    assert (answer.command, answer.headers["receipt-id"]) == ("ERROR", "asked")
    client.publish("/queue/A", "x", priority="99")


@pytest.mark.parametrize("sender", VERSIONS)
@pytest.mark.parametrize("receiver", VERSIONS)
def test_headers_are_escaped_as_each_version_wants(
    address: Address, open_client: OpenClient, sender: str, receiver: str
) -> None:
    value = "colon:backslash\\"
    written = value.replace("\\", "\\\\").replace(":", "\\c")
    source, target = open_client(address, sender), open_client(address, receiver)
    target.subscribe("/queue/A")
    source.publish("/queue/A", "x", own=written)
    assert target.message().headers["own"] == value


def test_line_ends_in_headers_survive_1_2(client: Client) -> None:
    client.subscribe("/queue/A")
    client.publish("/queue/A", "x", own="a\\nb\\rc")
    assert client.message().headers["own"] == "a\nb\rc"


def test_the_first_of_two_equal_headers_counts(client: Client) -> None:
    client.subscribe("/queue/A")
    client.write(b"SEND\ndestination:/queue/A\ndup:first\ndup:second\n\nx\0")
    assert client.message().headers["dup"] == "first"


def test_non_ascii_headers_arrive(any_client: Client) -> None:
    any_client.subscribe("/queue/Ä")
    any_client.publish("/queue/Ä", "x", ключ="значение \U0001f600")
    headers = any_client.message().headers
    assert (headers["destination"], headers["ключ"]) == ("/queue/Ä", "значение \U0001f600")


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("/queue/A", "/queue/A"),
        ("foo", "/queue/foo"),
        ("/foo/bar", "/queue//foo/bar"),
        ("/queue/A?consumer.prefetchSize=1", "/queue/A"),
        (" /queue/A ", "/queue/A"),
        ("/topic/T", "/topic/T"),
    ],
)
def test_destinations_are_read_as_activemq_reads_them(client: Client, sent: str, shown: str) -> None:
    client.subscribe(sent)
    client.done("SEND", {"destination": sent}, "x")
    assert client.message().headers["destination"] == shown


@pytest.mark.parametrize(
    "destination", ["/queue/", "/topic/ ", ",", "/queue/A.>", "/topic/*", "/queue/" + "x" * 300, "?a=b"]
)
def test_a_destination_that_cannot_be_sent_to_is_refused(client: Client, destination: str) -> None:
    answer = client.request("SEND", {"destination": destination}, "x")
    assert (answer.command, answer.headers["receipt-id"]) == ("ERROR", "asked")
    client.publish("/queue/A", "the connection goes on")


def test_a_composite_reaches_every_element(client: Client) -> None:
    for number, destination in enumerate(["/queue/A", "/queue/B", "/topic/C"]):
        client.subscribe(destination, id=str(number))
    client.publish("/queue/A,/queue/B,/topic/C", "x")
    messages = [client.message() for _ in range(3)]
    assert sorted(m.headers["destination"] for m in messages) == ["/queue/A", "/queue/B", "/topic/C"]
    assert {m.headers["original-destination"] for m in messages} == {"/queue/A,/queue/B,/topic/C"}


@pytest.mark.parametrize("single", ["/queue/A", "/topic/A"])
@pytest.mark.parametrize("composite", ["{0},{0}", "{0},", ",{0}", "{0} ,, {0}"])
def test_a_composite_of_one_destination_is_that_destination(client: Client, single: str, composite: str) -> None:
    client.subscribe(single)
    client.publish(composite.format(single), "x")
    message = client.message()
    assert (message.body, message.headers["destination"]) == (b"x", single)


def test_order_is_kept(client: Client) -> None:
    client.subscribe("/queue/A")
    for number in range(500):
        client.send("SEND", {"destination": "/queue/A", "persistent": "true"}, str(number))
    assert [int(client.message().body) for _ in range(500)] == list(range(500))


def test_order_is_kept_between_persistent_and_other_messages(client: Client) -> None:
    for number in range(100):
        client.send("SEND", {"destination": "/queue/A", "persistent": str(number % 3 == 0).lower()}, str(number))
    client.subscribe("/queue/A")
    assert [int(client.message().body) for _ in range(100)] == list(range(100))


def test_a_large_message_arrives(any_client: Client) -> None:
    body = bytes(range(256)) * (5 << 12)
    any_client.subscribe("/queue/A")
    any_client.publish("/queue/A", body, content_length=str(len(body)))
    assert any_client.message().body == body


def test_expired_messages_are_not_delivered(client: Client) -> None:
    past = str(int(time.time() * 1000) - 1000)
    client.publish("/queue/A", "persistent", expires=past)
    client.done("SEND", {"destination": "/queue/A", "expires": past}, "dropped")
    client.publish("/queue/A", "alive")
    client.subscribe("/queue/A")
    assert client.message().text == "alive"
    client.subscribe("/queue/ActiveMQ.DLQ", id="2")
    dead = client.message()
    assert (dead.text, dead.headers["original-destination"], dead.headers["originalExpiration"]) == (
        "persistent",
        "/queue/A",
        past,
    )
    assert client.is_silent()


def test_a_message_that_expires_in_the_queue_goes_to_the_dead_letters(client: Client) -> None:
    soon = int(time.time() * 1000) + 300
    client.publish("/queue/A", "late", expires=str(soon))
    client.done("SEND", {"destination": "/queue/A", "expires": str(soon)}, "late too")
    client.subscribe("/queue/ActiveMQ.DLQ", id="2")
    time.sleep(max(0.0, soon / 1000 + 0.05 - time.time()))
    client.subscribe("/queue/A")
    assert client.message().text == "late"
    assert client.is_silent()


def test_a_map_goes_in_and_out_as_json(client: Client) -> None:
    body = '{"map":{"entry":[{"string":"i","int":3},{"string":["k","v"]}]}}'
    client.subscribe("/queue/A", transformation="jms-map-json")
    client.publish("/queue/A", body, transformation="jms-map-json")
    message = client.message()
    assert (message.text, message.headers["transformation"]) == (body, "jms-map-json")


def test_a_map_has_no_body_for_who_does_not_ask_for_one(client: Client) -> None:
    client.subscribe("/queue/A")
    client.publish("/queue/A", '{"map":{"entry":{"string":"i","int":3}}}', transformation="jms-map-json")
    assert client.message().body == b""


def test_what_is_no_map_stays_a_text(client: Client) -> None:
    client.subscribe("/queue/A")
    client.publish("/queue/A", "not json", transformation="jms-map-json")
    message = client.message()
    assert message.text == "not json"
    assert message.headers["transformation-error"] == "the body is no map in the form jms-map-json"
