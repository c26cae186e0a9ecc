"""The field tables agree with the classes they describe."""

from __future__ import annotations

import dataclasses

import pytest

from jdbcstore.destination import Destination
from jdbcstore.message import Message
from jdbcstore.openwire import commands
from jdbcstore.openwire.fields import COMMANDS, VERSION_MAX, Command, Kind

each_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.cls.__name__)

#: Attributes that are room for other forms of a value, not fields.
ROOM = {"encoded", "_properties", "_text"}


def test_ids_and_classes_are_unique() -> None:
    assert len({command.type_id for command in COMMANDS}) == len(COMMANDS)
    assert len({command.cls for command in COMMANDS}) == len(COMMANDS)


@each_command
def test_table_has_every_attribute_of_the_class(command: Command) -> None:
    names = [field.name for field in command.fields]
    if issubclass(command.cls, Destination):
        assert names == ["physical_name"]
    else:
        assert dataclasses.is_dataclass(command.cls)
        assert sorted(names) == sorted({field.name for field in dataclasses.fields(command.cls)} - ROOM)


@each_command
def test_fields_exist_in_versions_that_know_the_type(command: Command) -> None:
    for field in command.fields:
        assert 1 <= field.since <= field.until <= VERSION_MAX
        assert field.until >= command.since


@each_command
def test_objects_are_of_known_types(command: Command) -> None:
    known = {each.cls for each in COMMANDS}
    for field in command.fields:
        assert set(field.of) <= known
        assert not field.of or field.kind in (Kind.OBJECT, Kind.ARRAY)


#: Everything that is not in every version: the first wire version that has it.
SINCE = {
    "Message": {"droppable": 2, "cluster": 3, "broker_in_time": 3, "broker_out_time": 3, "first_for_consumer": 10},
    "MessageId": {"text_view": 10},
    "BrokerInfo": {
        "duplex_connection": 2,
        "network_connection": 2,
        "connection_id": 2,
        "broker_upload_url": 3,
        "network_properties": 3,
    },
    "ConnectionInfo": {"client_master": 2, "fault_tolerant": 6, "failover_reconnect": 6, "client_ip": 8},
    "ConsumerInfo": {"client_id": 10, "network_consumer_path": 4},
    "ProducerInfo": {"dispatch_async": 2, "window_size": 3},
    "RemoveInfo": {"last_delivered_sequence_id": 5},
    "ConsumerControl": {"destination": 6, "flush": 2, "start": 2, "stop": 2},
    "ConnectionControl": {"connected_brokers": 6, "reconnect_to": 6, "rebalance_connection": 6, "token": 8},
    "MessagePull": {"correlation_id": 3, "message_id": 3},
    "MessageAck": {"poison_cause": 7},
    "NetworkBridgeFilter": {"message_ttl": 10, "consumer_ttl": 10},
    "SubscriptionInfo": {"subscribed_destination": 3, "no_local": 11},
}
TYPES_SINCE = {"BlobMessage": 3, "ProducerAck": 3, "MessagePull": 2, "BrokerSubscriptionInfo": 12}


@each_command
def test_fields_appear_with_their_version(command: Command) -> None:
    name = "Message" if issubclass(command.cls, Message) else command.cls.__name__
    assert {field.name: field.since for field in command.fields if field.since > 1} == SINCE.get(name, {})
    assert command.since == TYPES_SINCE.get(command.cls.__name__, 1)


def test_one_field_ever_disappeared() -> None:
    gone = [(field.name, field.until) for command in COMMANDS for field in command.fields if field.until < VERSION_MAX]
    assert gone == [("network_ttl", 9)]


def test_every_command_class_has_a_table() -> None:
    values = {getattr(commands, name) for name in commands.__all__ if not name.startswith("ACK_")}
    parts = {commands.BaseCommand, commands.Throwable, commands.StackTraceElement}
    assert values - parts <= {command.cls for command in COMMANDS}
