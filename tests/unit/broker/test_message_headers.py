"""Headers of MESSAGE frames: what is encoded once says the same as if it were encoded each time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jdbcstore.destination import Destination, Queue, TempQueue
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.primitives import Value
from jdbcstore.stomp.dialect import dialect_of
from jdbcstore.transport.stomp.conversion import message_of, stomp_headers
from jdbcstore.transport.stomp.message_headers import MessageHeaders

MINE = TempQueue("ID:1:1")
OWN_NAMES: dict[Destination, str] = {MINE: "/temp-queue/mine"}
SUBSCRIPTION = "sub:1"


def message(headers: dict[str, str], destination: Destination | None = None) -> Message:
    message_id = MessageId(ProducerId("ID:c", 1, 1), 7)
    return message_of(headers, b"body", destination or Queue("A"), message_id, 1_792_000_000_000, lambda name: MINE)


def with_properties(**properties: Value) -> Message:
    made = message({})
    made.properties = {name.replace("_", "-"): value for name, value in properties.items()}
    return made


def id_of(of: Message) -> MessageId:
    assert of.message_id is not None
    return of.message_id


def told(message_headers: MessageHeaders, of: Message, *, redeliveries: int = 0) -> dict[str, str]:
    """What a client of 1.2 reads."""
    headers, shared = message_headers.of(of, id_of(of), SUBSCRIPTION, redeliveries=redeliveries)
    lines = dialect_of("1.2").encode_lines(headers) + shared
    assert lines.endswith(b"\n")
    read: dict[str, str] = {}
    for line in lines[:-1].split(b"\n"):
        name, value = dialect_of("1.2").decode_once(line)
        assert name not in read, f"{name} is told twice"
        read[name] = value
    return read


MESSAGES: dict[str, Callable[[], Message]] = {
    "plain": lambda: message({}),
    "persistent": lambda: message({"persistent": "true", "priority": "7"}),
    "everything": lambda: message(
        {"correlation-id": "c:1", "type": "t\n", "reply-to": "/queue/R", "expires": "9", "own\\": "a\\b:c"}
    ),
    "my temporary queue": lambda: message({}, MINE),
    "a reply to my temporary queue": lambda: message({"reply-to": "/temp-queue/mine"}),
    "properties that stand in the place of shared headers": lambda: with_properties(priority="p", destination="d"),
    "properties that stand in the place of own headers": lambda: with_properties(timestamp="mine", message_id="m"),
    "a property that is a number": lambda: with_properties(n=5),
    "large properties": lambda: with_properties(large="x" * 5000),
    "no destination": lambda: _without_destination(),
    "an id of another broker": lambda: _with_id(MessageId(ProducerId(None, 0, 0), 0, 0, "some:id\\n")),
    "no producer": lambda: _with_id(MessageId(None, 3)),
    "a producer with signs": lambda: _with_id(MessageId(ProducerId("ID:\\c:\n", 1, 1), -3)),
    "an original destination": lambda: _sent_to_another(),
}


def _with_id(message_id: MessageId) -> Message:
    made = message({})
    made.message_id = message_id
    return made


def _sent_to_another() -> Message:
    made = message({})
    made.original_destination, made.user_id = Queue("B"), "me"
    return made


def _without_destination() -> Message:
    made = message({})
    made.destination = None
    return made


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("redeliveries", [0, 2])
def test_a_heading_says_everything_once(kind: str, redeliveries: int) -> None:
    message_headers = MessageHeaders(dialect_of("1.2").encode_lines, OWN_NAMES)
    for _ in range(2):  # what is remembered as well
        of = MESSAGES[kind]()
        expected = stomp_headers(of, str(of.message_id), OWN_NAMES, redeliveries=redeliveries)
        assert told(message_headers, of, redeliveries=redeliveries) == {**expected, "subscription": SUBSCRIPTION}


def test_messages_of_many_kinds_in_turn() -> None:
    message_headers = MessageHeaders(dialect_of("1.2").encode_lines, OWN_NAMES)
    for number in [*range(200), *range(200)]:
        assert told(message_headers, message({"number": str(number), "priority": str(number % 10)}))["number"] == str(
            number
        )


def test_a_temporary_queue_is_called_by_the_name_that_it_has_now() -> None:
    names: dict[Destination, str] = {}
    message_headers = MessageHeaders(dialect_of("1.2").encode_lines, names)
    before = told(message_headers, message({}, MINE))["destination"]
    names[MINE] = "/temp-queue/new"
    assert before != told(message_headers, message({}, MINE))["destination"] == "/temp-queue/new"


@pytest.mark.parametrize("name", ["ack", "content-length", "subscription"])
def test_a_property_does_not_stand_in_the_place_of_what_the_session_adds(name: str) -> None:
    message_headers = MessageHeaders(dialect_of("1.2").encode_lines, OWN_NAMES)
    of = with_properties(**{name: "forged"})
    headers, shared = message_headers.of(of, id_of(of), SUBSCRIPTION, redeliveries=0)
    assert not shared
    assert headers["subscription"] == SUBSCRIPTION
    assert headers[name] in ("forged", SUBSCRIPTION)  # the session says the others again, in the same place


def test_properties_that_cannot_be_read() -> None:
    of = message({})
    of.marshalled_properties = b"\xff"
    message_headers = MessageHeaders(dialect_of("1.2").encode_lines, OWN_NAMES)
    for _ in range(2):
        with pytest.raises(CodecError):
            message_headers.of(of, id_of(of), None, redeliveries=0)
