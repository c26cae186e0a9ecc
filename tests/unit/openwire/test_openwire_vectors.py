"""Frames that ActiveMQ 5.17.2 wrote: every field is read as Java reads it, and written back to the same bytes.

The vectors name fields as Java's wire format does and give bytes as hexadecimal; `describe` words our values so too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.destination import Destination
from jdbcstore.message import (
    BlobMessage,
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from jdbcstore.openwire import marshal, unmarshal, unmarshal_message
from jdbcstore.openwire.commands import Throwable
from jdbcstore.openwire.fields import COMMANDS
from jdbcstore.primitives import Float, Value, decode_map, encode_map, java_type

VECTORS = Path(__file__).parents[2] / "vectors"


def load(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (VECTORS / name).read_text("utf-8").splitlines()]


MESSAGES = load("openwire-messages.jsonl")
COMMANDS_LOOSE = [v for v in load("openwire-commands.jsonl") if not v["tight"] and not v["cache"]]
TABLES = {command.cls: command for command in COMMANDS}

messages = pytest.mark.parametrize("vector", MESSAGES, ids=lambda vector: vector["name"])
commands = pytest.mark.parametrize("vector", COMMANDS_LOOSE, ids=lambda vector: vector["name"])


# --- our values in the words of the vectors ---------------------------------------------------------------------------

IRREGULAR = {
    "broker_url": "brokerURL",
    "consumer_ttl": "consumerTTL",
    "first_for_consumer": "JMSXGroupFirstForConsumer",
    "group_id": "groupID",
    "message_ttl": "messageTTL",
    "network_ttl": "networkTTL",
    "received_by_df_bridge": "recievedByDFBridge",
    "user_id": "userID",
}
MISSPELT = {
    "SubscriptionInfo": "subcriptionName",
    "RemoveSubscriptionInfo": "subcriptionName",
    "JournalTopicAck": "subscritionName",
}


def wire_name(kind: str, attribute: str) -> str:
    if attribute == "subscription_name" and kind in MISSPELT:
        return MISSPELT[kind]
    if attribute in IRREGULAR:
        return IRREGULAR[attribute]
    first, *rest = attribute.split("_")
    return first + "".join(part.capitalize() for part in rest)


def type_name(cls: type) -> str:
    prefixed = issubclass(cls, Message | Destination)
    return f"ActiveMQ{cls.__name__}" if prefixed else cls.__name__


def describe(value: Any, version: int) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, bytes):
        if len(value) > 4096:
            return {"len": len(value), "sha256": hashlib.sha256(value).hexdigest()}
        return value.hex()
    if isinstance(value, tuple):
        return [describe(element, version) for element in value]
    if isinstance(value, Throwable):
        return describe_throwable(value)
    command = TABLES[type(value)]
    described = {"_type": type_name(command.cls)}
    for field in command.fields_at(version):
        name = wire_name(command.cls.__name__, field.name)
        described[name] = describe(getattr(value, field.name), version)
    return described


def describe_throwable(throwable: Throwable) -> dict[str, Any]:
    described: dict[str, Any] = {"class": throwable.class_name, "message": throwable.message}
    if throwable.stack is not None:
        described["stack"] = [
            {"class": line.class_name, "method": line.method, "file": line.file, "line": line.line}
            for line in throwable.stack
        ]
        described["cause"] = None if throwable.cause is None else describe_throwable(throwable.cause)
    return described


def primitive(value: Value) -> dict[str, Any]:
    kind = java_type(value)
    if value is None:
        return {"t": kind}
    if isinstance(value, Mapping):
        return {"t": kind, "v": entries(value)}
    if isinstance(value, list):
        return {"t": kind, "v": [primitive(element) for element in value]}
    if isinstance(value, Float):
        return {"t": kind, "bits": value.raw.hex()}
    if isinstance(value, float):
        return {"t": kind, "bits": encode_map({"": value})[-8:].hex()}
    if kind == "char":
        return {"t": kind, "v": ord(str(value))}
    if isinstance(value, bytes):
        return {"t": kind, "v": value.hex()}
    return {"t": kind, "v": value}


def entries(properties: Mapping[str, Value]) -> list[Any]:
    return [[key, primitive(value)] for key, value in properties.items()]


def comparable(described: Any) -> Any:
    """A vector's primitives without what Java's getters make of them, and floats by their bits."""
    if isinstance(described, list):
        return [comparable(element) for element in described]
    if isinstance(described, dict) and "t" in described:
        kept = {"t", "bits"} if "bits" in described else {"t", "v"}
        return {key: comparable(value) for key, value in described.items() if key in kept}
    return described


def body_of(message: Message) -> dict[str, Any]:
    match message:
        case TextMessage():
            return {"text": message.text}
        case BytesMessage():
            return {"bytes": describe(message.body, 11), "contentIsNull": message.content is None}
        case MapMessage():
            return {"map": None if message.content is None else entries(message.body)}
        case StreamMessage():
            values = [primitive(value) for value in message.values]
            return {"stream": values, "contentIsNull": message.content is None}
        case ObjectMessage():
            return {"object": None} if message.body is None else {"javaSerialized": describe(message.body, 11)}
        case BlobMessage():
            return {"blob": True}
    return {"none": True}


def body_of_vector(vector: dict[str, Any]) -> dict[str, Any]:
    body = dict(vector["fields"]["body"])
    body.pop("javaToString", None)
    body.pop("javaGetText", None)
    if "textStdUtf8" in body:
        body["text"] = body.pop("textStdUtf8")
    return {key: comparable(value) for key, value in body.items()}


def jms_of(message: Message) -> dict[str, Any]:
    transaction = message.original_transaction_id or message.transaction_id
    path = message.broker_path
    return {
        "JMSMessageID": None if message.message_id is None else str(message.message_id),
        "JMSDestination": None if message.destination is None else str(message.destination),
        "JMSReplyTo": None if message.reply_to is None else str(message.reply_to),
        "JMSDeliveryMode": 2 if message.persistent else 1,
        "JMSPriority": message.priority,
        "JMSTimestamp": message.timestamp,
        "JMSExpiration": message.expiration,
        "JMSCorrelationID": message.correlation_id,
        "JMSType": message.type,
        "JMSRedelivered": message.redelivered,
        "JMSXDeliveryCount": message.redelivery_counter + 1,
        "JMSXGroupID": message.group_id,
        "JMSXGroupSeq": message.group_sequence,
        "JMSXUserID": message.user_id or message.properties.get("JMSXUserID"),
        "JMSXProducerTXID": None if transaction is None else str(transaction),
        "JMSXGroupFirstForConsumer": message.first_for_consumer,
        "JMSActiveMQBrokerInTime": message.broker_in_time,
        "JMSActiveMQBrokerOutTime": message.broker_out_time,
        "JMSActiveMQBrokerPath": "null" if path is None else f"[{', '.join(map(str, path))}]",
    }


# --- messages ---------------------------------------------------------------------------------------------------------


@messages
def test_message_has_the_fields_that_java_sees(vector: dict[str, Any]) -> None:
    message = unmarshal_message(bytes.fromhex(vector["hex"]))
    described = describe(message, vector["version"])
    del described["marshalledProperties"]
    expected = {key: value for key, value in vector["fields"].items() if key not in ("properties", "body", "JMS")}
    assert described == expected


@messages
def test_message_has_the_properties_that_java_sees(vector: dict[str, Any]) -> None:
    message = unmarshal_message(bytes.fromhex(vector["hex"]))
    assert entries(message.properties) == comparable(vector["fields"]["properties"] or [])


@messages
def test_message_has_the_body_that_java_sees(vector: dict[str, Any]) -> None:
    message = unmarshal_message(bytes.fromhex(vector["hex"]))
    expected = body_of_vector(vector)
    if "textLen" in expected:
        assert isinstance(message, TextMessage)
        text = message.text or ""
        assert len(text.encode("utf-16-be", "surrogatepass")) // 2 == expected["textLen"]
        assert hashlib.sha256(text.encode("utf-8")).hexdigest() == expected["textSha256Utf8"]
    else:
        assert body_of(message) == expected


@messages
def test_message_has_the_headers_that_jms_clients_see(vector: dict[str, Any]) -> None:
    message = unmarshal_message(bytes.fromhex(vector["hex"]))
    jms = jms_of(message)
    expected = vector["fields"]["JMS"]
    assert jms == {name: expected[name] for name in jms}
    if "producerKey" in expected:
        identity = message.message_id
        assert identity is not None
        assert f"{identity.producer_id}:{identity.producer_sequence_id}" == expected["producerKey"]
    if "transactionKey" in expected:
        assert str(message.transaction_id) == expected["transactionKey"]
    if "compositeDestinations" in expected:
        assert message.destination is not None
        assert {str(element) for element in message.destination.elements()} == set(expected["compositeDestinations"])


@messages
def test_message_is_written_back_to_the_same_bytes(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    assert marshal(unmarshal(data), vector["version"]) == data


@messages
def test_message_is_written_back_to_the_same_bytes_after_everything_was_looked_at(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    message = unmarshal_message(data)
    body_of(message)
    assert message.properties is not None
    assert marshal(message.copy(), vector["version"]) == data


@messages
def test_properties_assigned_to_themselves_are_the_same_bytes(vector: dict[str, Any]) -> None:
    message = unmarshal_message(bytes.fromhex(vector["hex"]))
    before = message.marshalled_properties
    if before is not None:
        message.properties = message.properties
    assert message.marshalled_properties == before


@pytest.mark.parametrize(
    "vector",
    [v for v in MESSAGES if not v["fields"]["compressed"] and "nonCanonical" not in v],
    ids=lambda vector: vector["name"],
)
def test_body_assigned_to_itself_is_the_same_bytes(vector: dict[str, Any]) -> None:
    message = unmarshal_message(bytes.fromhex(vector["hex"]))
    before = message.content
    match message:
        case TextMessage() if before is not None and before[:4] != b"\xff" * 4:
            if "textStdUtf8" in vector["fields"]["body"]:
                assert message.utf8_body == message.raw_text_bytes()
                return
            message.text = message.text
        case MapMessage() if before != b"\0\0\0\0":
            message.body = message.body
        case StreamMessage():
            message.values = message.values
        case BytesMessage() if before is not None:
            message.body = message.body
        case ObjectMessage():
            message.body = message.body
    assert message.content == before


# --- commands ---------------------------------------------------------------------------------------------------------


@commands
@pytest.mark.parametrize("given", ["version", "recognised"])
def test_command_has_the_fields_that_java_sees(vector: dict[str, Any], given: str) -> None:
    value = unmarshal(bytes.fromhex(vector["hex"]), vector["version"] if given == "version" else None)
    expected = vector["fields"]
    described = describe(value, vector["version"])
    if isinstance(described, dict) and expected is not None and "properties" in expected:
        stored = value.marshalled_properties
        del described["marshalledProperties"]
        described["properties"] = None if stored is None else entries(decode_map(stored))
        expected = {key: value for key, value in expected.items() if key not in ("body", "JMS")}
        expected["properties"] = comparable(expected["properties"])
    assert described == expected


@commands
def test_command_is_written_back_to_the_same_bytes(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    assert marshal(unmarshal(data), vector["version"]) == data


def test_vectors_cover_what_stores_write() -> None:
    seen = {vector["fields"]["_type"] for vector in MESSAGES} | {vector["class"] for vector in COMMANDS_LOOSE}
    assert seen >= {type_name(cls) for cls in TABLES if issubclass(cls, Message)} | {"MessageAck", "SubscriptionInfo"}
