"""Maps as XML and JSON, and back."""

from __future__ import annotations

import pytest

from jdbcstore import BytesMessage, MapMessage, MessageId, ProducerId, TextMessage
from jdbcstore.primitives import Byte, Char, Float, Long, Short, Value
from jdbcstore.transport.stomp.transformation import transformed_body, untransformed

EVERYTHING: dict[str, Value] = {
    "string": "v <&> ü",
    "empty": "",
    "int": 3,
    "long": Long(1 << 40),
    "short": Short(-2),
    "byte": Byte(-1),
    "double": 2.5,
    "float": Float(0.1),
    "yes": True,
    "no": False,
    "char": Char("c"),
    "bytes": b"\x00\x01",
    "nothing": None,
    "map": {"inner": "x", "deep": {"n": 1}},
    "list": [1, "two", 3.0],
}


def map_message(body: dict[str, Value]) -> MapMessage:
    message = MapMessage(message_id=MessageId(ProducerId("c", 1, 1), 1))
    message.body = body
    return message


def read(form: str, body: bytes) -> MapMessage | TextMessage:
    text = TextMessage(message_id=MessageId(ProducerId("c", 1, 1), 1))
    properties = {"transformation": form}
    message = untransformed(text, properties, body)
    assert ("transformation-error" in properties) == (message is text)
    assert isinstance(message, MapMessage | TextMessage)
    return message


@pytest.mark.parametrize("form", ["jms-map-xml", "jms-map-json", "jms-object-xml", "jms-object-json"])
def test_a_map_survives_the_round_trip(form: str) -> None:
    body, used = transformed_body(map_message(EVERYTHING), form)
    assert used == form
    assert body is not None
    back = read(form, body)
    assert isinstance(back, MapMessage)
    assert back.body == EVERYTHING
    assert [type(value) for value in back.body.values()] == [type(value) for value in EVERYTHING.values()]


@pytest.mark.parametrize(("asked", "used"), [("jms-json", "jms-map-json"), ("jms-xml", "jms-map-xml")])
def test_a_general_form_is_named_after_what_it_became(asked: str, used: str) -> None:
    assert transformed_body(map_message({"a": 1}), asked)[1] == used


def test_json_is_activemqs() -> None:
    body, _ = transformed_body(map_message({"i": 3, "k": "v"}), "jms-map-json")
    assert body == b'{"map":{"entry":[{"string":"i","int":3},{"string":["k","v"]}]}}'


def test_xml_is_activemqs() -> None:
    body, _ = transformed_body(map_message({"i": 3}), "jms-map-xml")
    assert body == b"<map>\n  <entry>\n    <string>i</string>\n    <int>3</int>\n  </entry>\n</map>"


def test_xml_says_what_a_parser_would_not_take_or_change() -> None:
    body, _ = transformed_body(map_message({"k": "a\r\n\tb\x01", "nothing": None}), "jms-map-xml")
    assert body is not None
    assert b"<string>a&#xd;\n\tb&#x1;</string>" in body
    assert b"<null/>" in body
    assert isinstance(read("jms-map-xml", body.replace(b"&#x1;", b"")), MapMessage)


@pytest.mark.parametrize("form", ["jms-xml", "jms-json", "jms-byte", "jms-advisory-xml", "jms-advisory-json"])
def test_a_form_of_subscriptions_is_an_error_in_a_send(form: str) -> None:
    assert isinstance(read(form, b'{"map":""}'), TextMessage)


@pytest.mark.parametrize("form", ["jms-map-xml", "jms-map-json"])
def test_an_empty_map_is_one(form: str) -> None:
    body, _ = transformed_body(map_message({}), form)
    assert body is not None
    back = read(form, body)
    assert isinstance(back, MapMessage)
    assert back.body == {}


@pytest.mark.parametrize("form", ["jms-byte", "bogus", ""])
def test_other_forms_leave_the_body(form: str) -> None:
    assert transformed_body(map_message({"a": 1}), form) == (None, form)


def test_other_kinds_have_no_form() -> None:
    message = BytesMessage(message_id=MessageId(ProducerId("c", 1, 1), 1), content=b"x")
    assert transformed_body(message, "jms-map-json") == (None, "jms-map-json")


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("jms-map-json", b"not json"),
        ("jms-map-json", b'{"map":{"entry":{"string":"a","bogus":1}}}'),
        ("jms-map-json", b'{"map":{"entry":{"string":"a","byte":1000}}}'),
        ("jms-map-json", b'{"other":1}'),
        ("jms-map-json", b"[" * 100_000),
        ("jms-map-json", b"\xff\xfe\xfd"),
        ("jms-map-xml", b"<map>"),
        ("jms-map-xml", b"<other/>"),
        ("jms-map-xml", b"<map><entry><string>a</string></entry></map>"),
        ("jms-map-xml", b'<!DOCTYPE x [<!ENTITY a "b">]><map/>'),
        ("jms-map-xml", b"<map><entry><string>a</string><int>x</int></entry></map>"),
    ],
)
def test_what_is_no_map_stays_a_text(form: str, body: bytes) -> None:
    assert isinstance(read(form, body), TextMessage)
