"""The field tables: for every OpenWire type its id, its fields in wire order, and since which wire version each exists.

This is the only place that knows a layout. `jdbcstore.openwire.readers` and `jdbcstore.openwire.writers` compile the
tables to straight-line functions. Traps that look like mistakes and are not: ProducerId is connection, value, session
but ConsumerId is connection, session, value; MessageId begins with the text view; ConsumerControl begins with the
destination from version 6 on; ConsumerInfo's client id of version 10 sits in the middle.

Source: the wire format of ActiveMQ 5.16 to 6.3, whose marshalling is the same in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from jdbcstore.destination import Queue, TempQueue, TempTopic, Topic
from jdbcstore.identifiers import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    XATransactionId,
)
from jdbcstore.message import (
    BlobMessage,
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from jdbcstore.openwire import commands as c

__all__ = ["COMMANDS", "VERSION_MAX", "Command", "Field", "Kind", "Usually"]

VERSION_MAX: Final = 12


class Kind(Enum):
    """How a field is written; the value is its `struct` format if its width is fixed."""

    FLAG = "B"
    I8 = "b"
    I32 = "i"
    I64 = "q"
    CONST8 = "8s"
    TEXT = "text"
    BYTES = "bytes"
    OBJECT = "object"
    ARRAY = "array"
    THROWABLE = "throwable"

    @property
    def is_fixed(self) -> bool:
        """Whether it takes the same number of bytes whatever its value."""
        return self in _WIDTHS

    @property
    def width(self) -> int:
        """Bytes of a fixed kind."""
        return _WIDTHS[self]


class Usually(Enum):
    """A hint for the compilers of tight encoding: what a number of 64 bits hardly ever differs from."""

    ZERO = "zero"
    #: Milliseconds since 1970.
    TIME = "a time"
    #: Zero from clients, a time from brokers.
    STAMP = "a stamp"


_WIDTHS: Final = {Kind.FLAG: 1, Kind.I8: 1, Kind.I32: 4, Kind.I64: 8, Kind.CONST8: 8}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a command.

    Args:
        name: the attribute.
        kind: how it is written.
        of: the classes that an object or an array's element may have; empty for any.
        since: first wire version that has it.
        until: last one.
        mostly_null: a hint for the compilers: hardly any message has it, so it is tested together with its neighbours.
        cached: whether connections with the object cache write it as a reference to a slot (stores never do).
        usually: a hint likewise, for numbers of 64 bits.
    """

    name: str
    kind: Kind
    of: tuple[type, ...] = ()
    since: int = 1
    until: int = VERSION_MAX
    mostly_null: bool = False
    cached: bool = False
    usually: Usually | None = None

    def is_regular(self, *, is_cached: bool) -> bool:
        """Whether nearly all values take the same bytes and, but for a flag's own, the same flags in tight encoding.

        Args:
            is_cached: whether the connection has the object cache.
        """
        if self.mostly_null:
            return not (is_cached and self.cached)
        return self.usually is not None or self.kind in (Kind.FLAG, Kind.I8, Kind.I32)


@dataclass(frozen=True, slots=True)
class Command:
    """One OpenWire type.

    Args:
        type_id: the byte in front of it.
        cls: the class of its values.
        fields: in wire order.
        since: first wire version that knows the id.
    """

    type_id: int
    cls: type
    fields: tuple[Field, ...]
    since: int = 1

    def fields_at(self, version: int) -> tuple[Field, ...]:
        """The fields that wire version `version` has."""
        return tuple(field for field in self.fields if field.since <= version <= field.until)


def flag(name: str, since: int = 1) -> Field:
    return Field(name, Kind.FLAG, since=since)


def i8(name: str) -> Field:
    return Field(name, Kind.I8)


def i32(name: str, since: int = 1, until: int = VERSION_MAX) -> Field:
    return Field(name, Kind.I32, since=since, until=until)


def i64(name: str, since: int = 1, usually: Usually | None = None) -> Field:
    return Field(name, Kind.I64, since=since, usually=usually)


def text(name: str, since: int = 1, mostly_null: bool = False) -> Field:
    return Field(name, Kind.TEXT, since=since, mostly_null=mostly_null)


def blob(name: str, since: int = 1) -> Field:
    return Field(name, Kind.BYTES, since=since)


def obj(name: str, of: tuple[type, ...] | type = (), since: int = 1, mostly_null: bool = False) -> Field:
    return Field(name, Kind.OBJECT, (of,) if isinstance(of, type) else of, since, mostly_null=mostly_null)


def cached(name: str, of: tuple[type, ...] | type, mostly_null: bool = False) -> Field:
    classes = (of,) if isinstance(of, type) else of
    return Field(name, Kind.OBJECT, classes, mostly_null=mostly_null, cached=True)


def array(name: str, of: tuple[type, ...] | type = (), since: int = 1, mostly_null: bool = False) -> Field:
    return Field(name, Kind.ARRAY, (of,) if isinstance(of, type) else of, since, mostly_null=mostly_null)


def throwable(name: str, since: int = 1) -> Field:
    return Field(name, Kind.THROWABLE, since=since)


DESTINATION: Final = (Queue, Topic, TempQueue, TempTopic)
TRANSACTION: Final = (LocalTransactionId, XATransactionId)
MESSAGES: Final = (Message, BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage, BlobMessage)

BASE_COMMAND: Final = (i32("command_id"), flag("response_required"))

MESSAGE: Final = (
    *BASE_COMMAND,
    cached("producer_id", ProducerId),
    cached("destination", DESTINATION),
    cached("transaction_id", TRANSACTION, mostly_null=True),
    cached("original_destination", DESTINATION, mostly_null=True),
    obj("message_id", MessageId),
    cached("original_transaction_id", TRANSACTION, mostly_null=True),
    text("group_id", mostly_null=True),
    i32("group_sequence"),
    text("correlation_id", mostly_null=True),
    flag("persistent"),
    i64("expiration", usually=Usually.ZERO),
    i8("priority"),
    obj("reply_to", DESTINATION, mostly_null=True),
    i64("timestamp", usually=Usually.TIME),
    text("type", mostly_null=True),
    blob("content"),
    blob("marshalled_properties"),
    obj("data_structure", mostly_null=True),
    cached("target_consumer_id", ConsumerId, mostly_null=True),
    flag("compressed"),
    i32("redelivery_counter"),
    array("broker_path", BrokerId, mostly_null=True),
    i64("arrival", usually=Usually.ZERO),
    text("user_id", mostly_null=True),
    flag("received_by_df_bridge"),
    flag("droppable", since=2),
    array("cluster", BrokerId, since=3, mostly_null=True),
    i64("broker_in_time", since=3, usually=Usually.STAMP),
    i64("broker_out_time", since=3, usually=Usually.STAMP),
    flag("first_for_consumer", since=10),
)

RESPONSE: Final = (*BASE_COMMAND, i32("correlation_id"))

PHYSICAL_NAME: Final = (text("physical_name"),)

COMMANDS: Final[tuple[Command, ...]] = (
    # Messages
    Command(23, Message, MESSAGE),
    Command(24, BytesMessage, MESSAGE),
    Command(25, MapMessage, MESSAGE),
    Command(26, ObjectMessage, MESSAGE),
    Command(27, StreamMessage, MESSAGE),
    Command(28, TextMessage, MESSAGE),
    Command(
        29, BlobMessage, (*MESSAGE, text("remote_blob_url"), text("mime_type"), flag("deleted_by_broker")), since=3
    ),
    # Destinations
    Command(100, Queue, PHYSICAL_NAME),
    Command(101, Topic, PHYSICAL_NAME),
    Command(102, TempQueue, PHYSICAL_NAME),
    Command(103, TempTopic, PHYSICAL_NAME),
    # Identifiers
    Command(
        110,
        MessageId,
        (
            text("text_view", since=10),
            cached("producer_id", ProducerId),
            i64("producer_sequence_id"),
            i64("broker_sequence_id"),
        ),
    ),
    Command(111, LocalTransactionId, (i64("value"), cached("connection_id", ConnectionId))),
    Command(112, XATransactionId, (i32("format_id"), blob("global_transaction_id"), blob("branch_qualifier"))),
    Command(120, ConnectionId, (text("value"),)),
    Command(121, SessionId, (text("connection_id"), i64("value"))),
    Command(122, ConsumerId, (text("connection_id"), i64("session_id"), i64("value"))),
    Command(123, ProducerId, (text("connection_id"), i64("value"), i64("session_id"))),
    Command(124, BrokerId, (text("value"),)),
    # Connections and control
    Command(1, c.WireFormatInfo, (Field("magic", Kind.CONST8), i32("version"), blob("marshalled_properties"))),
    Command(
        2,
        c.BrokerInfo,
        (
            *BASE_COMMAND,
            cached("broker_id", BrokerId),
            text("broker_url"),
            array("peer_broker_infos", c.BrokerInfo),
            text("broker_name"),
            flag("slave_broker"),
            flag("master_broker"),
            flag("fault_tolerant_configuration"),
            flag("duplex_connection", since=2),
            flag("network_connection", since=2),
            i64("connection_id", since=2),
            text("broker_upload_url", since=3),
            text("network_properties", since=3),
        ),
    ),
    Command(
        3,
        c.ConnectionInfo,
        (
            *BASE_COMMAND,
            cached("connection_id", ConnectionId),
            text("client_id"),
            text("password"),
            text("user_name"),
            array("broker_path", BrokerId),
            flag("broker_master_connector"),
            flag("manageable"),
            flag("client_master", since=2),
            flag("fault_tolerant", since=6),
            flag("failover_reconnect", since=6),
            text("client_ip", since=8),
        ),
    ),
    Command(4, c.SessionInfo, (*BASE_COMMAND, cached("session_id", SessionId))),
    Command(
        5,
        c.ConsumerInfo,
        (
            *BASE_COMMAND,
            cached("consumer_id", ConsumerId),
            flag("browser"),
            cached("destination", DESTINATION),
            i32("prefetch_size"),
            i32("maximum_pending_message_limit"),
            flag("dispatch_async"),
            text("selector"),
            text("client_id", since=10),
            text("subscription_name"),
            flag("no_local"),
            flag("exclusive"),
            flag("retroactive"),
            i8("priority"),
            array("broker_path", BrokerId),
            obj("additional_predicate"),
            flag("network_subscription"),
            flag("optimized_acknowledge"),
            flag("no_range_acks"),
            array("network_consumer_path", ConsumerId, since=4),
        ),
    ),
    Command(
        6,
        c.ProducerInfo,
        (
            *BASE_COMMAND,
            cached("producer_id", ProducerId),
            cached("destination", DESTINATION),
            array("broker_path", BrokerId),
            flag("dispatch_async", since=2),
            i32("window_size", since=3),
        ),
    ),
    Command(
        7,
        c.TransactionInfo,
        (*BASE_COMMAND, cached("connection_id", ConnectionId), cached("transaction_id", TRANSACTION), i8("type")),
    ),
    Command(
        8,
        c.DestinationInfo,
        (
            *BASE_COMMAND,
            cached("connection_id", ConnectionId),
            cached("destination", DESTINATION),
            i8("operation_type"),
            i64("timeout"),
            array("broker_path", BrokerId),
        ),
    ),
    Command(
        9,
        c.RemoveSubscriptionInfo,
        (*BASE_COMMAND, cached("connection_id", ConnectionId), text("subscription_name"), text("client_id")),
    ),
    Command(10, c.KeepAliveInfo, BASE_COMMAND),
    Command(11, c.ShutdownInfo, BASE_COMMAND),
    Command(
        12,
        c.RemoveInfo,
        (
            *BASE_COMMAND,
            cached("object_id", (ConnectionId, SessionId, ConsumerId, ProducerId)),
            i64("last_delivered_sequence_id", since=5),
        ),
    ),
    Command(14, c.ControlCommand, (*BASE_COMMAND, text("command"))),
    Command(15, c.FlushCommand, BASE_COMMAND),
    Command(16, c.ConnectionError, (*BASE_COMMAND, throwable("exception"), obj("connection_id", ConnectionId))),
    Command(
        17,
        c.ConsumerControl,
        (
            *BASE_COMMAND,
            obj("destination", DESTINATION, since=6),
            flag("close"),
            obj("consumer_id", ConsumerId),
            i32("prefetch"),
            flag("flush", since=2),
            flag("start", since=2),
            flag("stop", since=2),
        ),
    ),
    Command(
        18,
        c.ConnectionControl,
        (
            *BASE_COMMAND,
            flag("close"),
            flag("exit"),
            flag("fault_tolerant"),
            flag("resume"),
            flag("suspend"),
            text("connected_brokers", since=6),
            text("reconnect_to", since=6),
            flag("rebalance_connection", since=6),
            blob("token", since=8),
        ),
    ),
    Command(19, c.ProducerAck, (*BASE_COMMAND, obj("producer_id", ProducerId), i32("size")), since=3),
    Command(
        20,
        c.MessagePull,
        (
            *BASE_COMMAND,
            cached("consumer_id", ConsumerId),
            cached("destination", DESTINATION),
            i64("timeout"),
            text("correlation_id", since=3),
            obj("message_id", MessageId, since=3),
        ),
        since=2,
    ),
    Command(
        21,
        c.MessageDispatch,
        (
            *BASE_COMMAND,
            cached("consumer_id", ConsumerId),
            cached("destination", DESTINATION),
            obj("message", MESSAGES),
            i32("redelivery_counter"),
        ),
    ),
    Command(
        22,
        c.MessageAck,
        (
            *BASE_COMMAND,
            cached("destination", DESTINATION),
            cached("transaction_id", TRANSACTION),
            cached("consumer_id", ConsumerId),
            i8("ack_type"),
            obj("first_message_id", MessageId),
            obj("last_message_id", MessageId),
            i32("message_count"),
            throwable("poison_cause", since=7),
        ),
    ),
    Command(
        90,
        c.MessageDispatchNotification,
        (
            *BASE_COMMAND,
            cached("consumer_id", ConsumerId),
            cached("destination", DESTINATION),
            i64("delivery_sequence_id"),
            obj("message_id", MessageId),
        ),
    ),
    Command(
        91,
        c.NetworkBridgeFilter,
        (
            i32("network_ttl", until=9),
            cached("network_broker_id", BrokerId),
            i32("message_ttl", since=10),
            i32("consumer_ttl", since=10),
        ),
    ),
    Command(
        92,
        c.BrokerSubscriptionInfo,
        (
            *BASE_COMMAND,
            obj("broker_id", BrokerId),
            text("broker_name"),
            array("subscription_infos", c.ConsumerInfo),
        ),
        since=12,
    ),
    Command(65, c.ReplayCommand, (*BASE_COMMAND, i32("first_nak_number"), i32("last_nak_number"))),
    Command(60, c.PartialCommand, (i32("command_id"), blob("data"))),
    Command(61, c.LastPartialCommand, (i32("command_id"), blob("data"))),
    Command(40, c.DiscoveryEvent, (text("service_name"), text("broker_name"))),
    # Responses
    Command(30, c.Response, RESPONSE),
    Command(31, c.ExceptionResponse, (*RESPONSE, throwable("exception"))),
    Command(32, c.DataResponse, (*RESPONSE, obj("data"))),
    Command(33, c.DataArrayResponse, (*RESPONSE, array("data"))),
    Command(34, c.IntegerResponse, (*RESPONSE, i32("result"))),
    # Written by stores only
    Command(
        55,
        c.SubscriptionInfo,
        (
            text("client_id"),
            cached("destination", DESTINATION),
            text("selector"),
            text("subscription_name"),
            obj("subscribed_destination", DESTINATION, since=3),
            flag("no_local", since=11),
        ),
    ),
    Command(
        50,
        c.JournalTopicAck,
        (
            obj("destination", DESTINATION),
            obj("message_id", MessageId),
            i64("message_sequence_id"),
            text("subscription_name"),
            text("client_id"),
            obj("transaction_id", TRANSACTION),
        ),
    ),
    Command(52, c.JournalQueueAck, (obj("destination", DESTINATION), obj("message_ack", c.MessageAck))),
    Command(53, c.JournalTrace, (text("message"),)),
    Command(54, c.JournalTransaction, (obj("transaction_id", TRANSACTION), i8("type"), flag("was_prepared"))),
)
