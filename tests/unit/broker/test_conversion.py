"""SEND → message → MESSAGE, without a socket."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from jdbcstore import (
    BytesMessage,
    Destination,
    MapMessage,
    Message,
    MessageId,
    ProducerId,
    ProtocolError,
    Queue,
    TempQueue,
    TempTopic,
    TextMessage,
    Topic,
)
from jdbcstore.primitives import Char, Float, Long, Value
from jdbcstore.transport.stomp.conversion import message_of, stomp_body, stomp_headers
from jdbcstore.transport.stomp.destination import destination_header, parse_stomp_destination

NOW_MS = 1_700_000_000_123


def own_temporary(name: str) -> Destination:
    kind = TempQueue if name.startswith("/temp-queue/") else TempTopic
    return kind("ID:me:1")


def message(headers: Mapping[str, str] | None = None, body: bytes = b"x") -> Message:
    message_id = MessageId(ProducerId("ID:c", 1, -1), 7)
    return message_of(
        {"destination": "/queue/A", **(headers or {})}, body, Queue("A"), message_id, NOW_MS, own_temporary
    )


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("/queue/A", Queue("A")),
        ("/topic/A.B", Topic("A.B")),
        ("/temp-queue/x", TempQueue("ID:me:1")),
        ("/temp-topic/x", TempTopic("ID:me:1")),
        ("/remote-temp-queue/ID:o:1", TempQueue("ID:o:1")),
        ("/remote-temp-topic/ID:o:1", TempTopic("ID:o:1")),
        ("queue://Q1", Queue("queue://Q1")),
        ("/dsub/x", Queue("/dsub/x")),
        ("  /queue/A  ", Queue("A")),
        ("/queue/A?x=y", Queue("A")),
        ("/queue/A,/queue/B", Queue("A,queue://B")),
        ("/topic/A, /queue/B", Topic("A,queue://B")),
        ("foo,/queue/bar", Queue("foo,queue://bar")),
    ],
)
def test_destinations_are_read(text: str, destination: Destination) -> None:
    assert parse_stomp_destination(text, own_temporary) == destination


@pytest.mark.parametrize("text", ["", " ", "/queue/", "/topic/ ", ",", " , ", "/queue/?x", "/queue/" + "x" * 250])
def test_destinations_without_a_usable_name_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_stomp_destination(text, own_temporary)
    assert not caught.value.fatal


@pytest.mark.parametrize(
    ("destination", "header"),
    [
        (Queue("A"), "/queue/A"),
        (Topic("A"), "/topic/A"),
        (TempQueue("ID:o:1"), "/remote-temp-queue/ID:o:1"),
        (TempTopic("ID:o:1"), "/remote-temp-topic/ID:o:1"),
        (TempQueue("ID:me:1"), "/temp-queue/mine"),
        (Queue("A,queue://B"), "/queue/A,/queue/B"),
        (Queue("A,topic://B"), "/queue/A,/topic/B"),
    ],
)
def test_destinations_are_written(destination: Destination, header: str) -> None:
    assert destination_header(destination, {TempQueue("ID:me:1"): "/temp-queue/mine"}) == header


def test_a_body_is_text_unless_it_was_counted() -> None:
    text, counted = message(), message({"content-length": "1"})
    assert isinstance(text, TextMessage)
    assert text.content == b"\0\0\0\1x"
    assert isinstance(counted, BytesMessage)
    assert (counted.content, counted.marshalled_properties) == (b"x", None)


def test_an_empty_text_is_not_null() -> None:
    empty = message(body=b"")
    assert isinstance(empty, TextMessage)
    assert empty.text == ""


def test_what_java_cannot_read_as_utf8_is_stored_as_java_writes_it() -> None:
    stored = message(body="é \U0001f600".encode())
    assert isinstance(stored, TextMessage)
    assert stored.content == b"\0\0\0\x09\xc3\xa9 \xed\xa0\xbd\xed\xb8\x80"
    assert stomp_body(stored) == ("é \U0001f600".encode(), False)


def test_what_is_no_utf8_comes_back_as_it_was() -> None:
    assert stomp_body(message(body=b"\xff\xfe")) == (b"\xff\xfe", False)


def test_fields_are_filled_from_headers() -> None:
    sent = message(
        {
            "persistent": "true",
            "priority": "9",
            "expires": "12",
            "timestamp": "34",
            "correlation-id": "c",
            "type": "t",
            "reply-to": "/temp-queue/r",
        }
    )
    assert (sent.persistent, sent.priority, sent.expiration, sent.timestamp) == (True, 9, 12, 34)
    assert (sent.correlation_id, sent.type, sent.reply_to) == ("c", "t", TempQueue("ID:me:1"))
    assert (sent.broker_in_time, str(sent.message_id)) == (NOW_MS, "ID:c:-1:1:7")
    assert sent.marshalled_properties is None


@pytest.mark.parametrize(("sent", "kept"), [("-5", 0), ("99", 9), ("+3", 3), ("4", 4)])
def test_priorities_are_clamped(sent: str, kept: int) -> None:
    assert message({"priority": sent}).priority == kept


@pytest.mark.parametrize("flag", ["True", "false", "1", ""])
def test_only_true_is_persistent(flag: str) -> None:
    assert not message({"persistent": flag}).persistent


@pytest.mark.parametrize("name", ["priority", "expires", "timestamp"])
@pytest.mark.parametrize("value", ["", "x", "1.5", "0x1", "99999999999999999999", "١"])
def test_numbers_have_to_be_numbers(name: str, value: str) -> None:
    with pytest.raises(ProtocolError, match=f"Invalid {name} header"):
        message({name: value})


def test_other_headers_are_string_properties() -> None:
    assert message({"content-type": "text/plain", "n": "5"}).properties == {"content-type": "text/plain", "n": "5"}


def test_a_reply_to_that_is_no_destination_stays_a_property() -> None:
    sent = message({"reply-to": "somewhere", "n": "5"})
    assert (sent.reply_to, dict(sent.properties)) == (None, {"n": "5", "reply-to": "somewhere"})


def test_names_of_jms_fields_set_the_fields() -> None:
    sent = message(
        {
            "JMSXGroupID": "g",
            "JMSXGroupSeq": "-1",
            "JMSType": "t",
            "JMSCorrelationID": "c",
            "JMSPriority": "1",
            "JMSDeliveryMode": "PERSISTENT",
            "JMSXDeliveryCount": "3",
            "JMSReplyTo": "topic://R",
            "kept": "1",
        }
    )
    assert (sent.group_id, sent.group_sequence, sent.type, sent.correlation_id) == ("g", -1, "t", "c")
    assert (sent.priority, sent.persistent, sent.redelivery_counter, sent.reply_to) == (1, True, 2, Topic("R"))
    assert dict(sent.properties) == {"kept": "1"}


def test_schedules_are_numbers() -> None:
    sent = message({"AMQ_SCHEDULED_DELAY": "5", "AMQ_SCHEDULED_REPEAT": "2"})
    assert dict(sent.properties) == {"AMQ_SCHEDULED_DELAY": Long(5), "AMQ_SCHEDULED_REPEAT": 2}
    assert isinstance(sent.properties["AMQ_SCHEDULED_DELAY"], Long)
    with pytest.raises(ProtocolError):
        message({"AMQ_SCHEDULED_DELAY": "-5"})


def test_equal_properties_share_their_bytes() -> None:
    first, second = message({"a": "1"}), message({"a": "1"})
    assert first.marshalled_properties is second.marshalled_properties
    assert message({"a": "2"}).properties == {"a": "2"}


def test_a_header_that_cannot_be_stored_is_refused() -> None:
    with pytest.raises(ProtocolError, match="cannot be stored"):
        message({"x" * 70_000: "1"})


def test_headers_of_a_full_message() -> None:
    sent = message({"correlation-id": "c", "type": "t", "reply-to": "/queue/R", "own": "1", "persistent": "true"})
    sent.user_id = "u"
    sent.original_destination = Topic("O")
    assert stomp_headers(sent, "ID:1", {}, redeliveries=2) == {
        "destination": "/queue/A",
        "message-id": "ID:1",
        "expires": "0",
        "priority": "4",
        "timestamp": str(NOW_MS),
        "persistent": "true",
        "redelivered": "true",
        "JMSXDeliveryCount": "3",
        "correlation-id": "c",
        "reply-to": "/queue/R",
        "type": "t",
        "JMSXUserID": "u",
        "original-destination": "/topic/O",
        "own": "1",
    }


def test_properties_override_headers() -> None:
    sent = message()
    sent.properties = {"priority": "mine"}
    assert stomp_headers(sent, "ID:1", {}, redeliveries=0)["priority"] == "mine"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), (5, "5"), (Long(1 << 40), "1099511627776"), (2.5, "2.5"), (Char("c"), "c")],
)
def test_properties_are_told_as_java_prints_them(value: Value, text: str) -> None:
    sent = message()
    sent.properties = {"p": value}
    assert stomp_headers(sent, "ID:1", {}, redeliveries=0)["p"] == text


def test_a_map_without_transformation_has_no_body() -> None:
    sent = MapMessage(message_id=MessageId(ProducerId("c", 1, 1), 1))
    sent.body = {"a": Float(1.5)}
    assert stomp_body(sent) == (b"", False)
