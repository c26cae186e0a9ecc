"""The OpenWire commands that are not messages, as slotted values.

Stores write acknowledgements, subscriptions and journal entries; advisories carry nearly all the others
(`jdbcstore.openwire.advisory_commands`). Attributes are the wire's field names in snake case, in wire order
(`jdbcstore.openwire.fields`), with the values that Java gives to fields that an old layout lacks. Numbers are signed
32-bit unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jdbcstore.destination import Destination
from jdbcstore.identifiers import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    MessageId,
    ProducerId,
    SessionId,
    TransactionId,
)
from jdbcstore.message import Message

__all__ = [
    "ACK_DELIVERED",
    "ACK_EXPIRED",
    "ACK_INDIVIDUAL",
    "ACK_POISON",
    "ACK_REDELIVERED",
    "ACK_STANDARD",
    "ACK_UNMATCHED",
    "BaseCommand",
    "BrokerInfo",
    "BrokerSubscriptionInfo",
    "ConnectionControl",
    "ConnectionError",
    "ConnectionInfo",
    "ConsumerControl",
    "ConsumerInfo",
    "ControlCommand",
    "DataArrayResponse",
    "DataResponse",
    "DestinationInfo",
    "DiscoveryEvent",
    "ExceptionResponse",
    "FlushCommand",
    "IntegerResponse",
    "JournalQueueAck",
    "JournalTopicAck",
    "JournalTrace",
    "JournalTransaction",
    "KeepAliveInfo",
    "LastPartialCommand",
    "MessageAck",
    "MessageDispatch",
    "MessageDispatchNotification",
    "MessagePull",
    "NetworkBridgeFilter",
    "PartialCommand",
    "ProducerAck",
    "ProducerInfo",
    "RemoveInfo",
    "RemoveSubscriptionInfo",
    "ReplayCommand",
    "Response",
    "SessionInfo",
    "ShutdownInfo",
    "StackTraceElement",
    "SubscriptionInfo",
    "Throwable",
    "TransactionInfo",
    "WireFormatInfo",
]

# What `MessageAck.ack_type` says. STANDARD is cumulative, from the first to the last message id.
ACK_DELIVERED: Final = 0
ACK_POISON: Final = 1
ACK_STANDARD: Final = 2
ACK_REDELIVERED: Final = 3
ACK_INDIVIDUAL: Final = 4
ACK_UNMATCHED: Final = 5
ACK_EXPIRED: Final = 6


@dataclass(slots=True, kw_only=True)
class StackTraceElement:
    """One line of a Java stack trace."""

    class_name: str | None = None
    method: str | None = None
    file: str | None = None
    line: int = 0


@dataclass(slots=True, kw_only=True)
class Throwable:
    """A Java exception.

    `stack` is None where the connection or store writes no stack traces; `cause` then is not written either.
    """

    class_name: str | None = None
    message: str | None = None
    stack: Sequence[StackTraceElement] | None = None
    cause: Throwable | None = None


@dataclass(slots=True, kw_only=True)
class BaseCommand:
    """What most commands begin with. Never written by itself."""

    command_id: int = 0
    response_required: bool = False


@dataclass(slots=True, kw_only=True)
class WireFormatInfo:
    """The first frame of a connection: what the peer can do."""

    magic: bytes = b"ActiveMQ"
    version: int = 12
    marshalled_properties: bytes | None = None
    """A primitive map (`jdbcstore.primitives.decode_map`)."""


@dataclass(slots=True, kw_only=True)
class BrokerInfo(BaseCommand):
    """A broker introduces itself."""

    broker_id: BrokerId | None = None
    broker_url: str | None = None
    peer_broker_infos: Sequence[BrokerInfo | None] | None = None
    broker_name: str | None = None
    slave_broker: bool = False
    master_broker: bool = False
    fault_tolerant_configuration: bool = False
    duplex_connection: bool = False
    network_connection: bool = False
    connection_id: int = 0
    """64-bit."""
    broker_upload_url: str | None = None
    network_properties: str | None = None


@dataclass(slots=True, kw_only=True)
class ConnectionInfo(BaseCommand):
    """A client opens a connection."""

    connection_id: ConnectionId | None = None
    client_id: str | None = None
    password: str | None = None
    user_name: str | None = None
    broker_path: Sequence[BrokerId | None] | None = None
    broker_master_connector: bool = False
    manageable: bool = False
    client_master: bool = True
    fault_tolerant: bool = False
    failover_reconnect: bool = False
    client_ip: str | None = None


@dataclass(slots=True, kw_only=True)
class SessionInfo(BaseCommand):
    """A client opens a session."""

    session_id: SessionId | None = None


@dataclass(slots=True, kw_only=True)
class ConsumerInfo(BaseCommand):
    """A client subscribes."""

    consumer_id: ConsumerId | None = None
    browser: bool = False
    destination: Destination | None = None
    prefetch_size: int = 0
    maximum_pending_message_limit: int = 0
    dispatch_async: bool = False
    selector: str | None = None
    client_id: str | None = None
    subscription_name: str | None = None
    no_local: bool = False
    exclusive: bool = False
    retroactive: bool = False
    priority: int = 0
    """8-bit."""
    broker_path: Sequence[BrokerId | None] | None = None
    additional_predicate: object | None = None
    network_subscription: bool = False
    optimized_acknowledge: bool = False
    no_range_acks: bool = False
    network_consumer_path: Sequence[ConsumerId | None] | None = None


@dataclass(slots=True, kw_only=True)
class ProducerInfo(BaseCommand):
    """A client opens a producer."""

    producer_id: ProducerId | None = None
    destination: Destination | None = None
    broker_path: Sequence[BrokerId | None] | None = None
    dispatch_async: bool = False
    window_size: int = 0


@dataclass(slots=True, kw_only=True)
class TransactionInfo(BaseCommand):
    """A step of a transaction.

    `type`: 0 begin, 1 prepare, 2 commit in one phase, 3 commit in two, 4 roll back, 5 recover, 6 forget, 7 end.
    """

    connection_id: ConnectionId | None = None
    transaction_id: TransactionId | None = None
    type: int = 0


@dataclass(slots=True, kw_only=True)
class DestinationInfo(BaseCommand):
    """A destination is added (`operation_type` 0) or removed (1)."""

    connection_id: ConnectionId | None = None
    destination: Destination | None = None
    operation_type: int = 0
    timeout: int = 0
    """64-bit, milliseconds."""
    broker_path: Sequence[BrokerId | None] | None = None


@dataclass(slots=True, kw_only=True)
class RemoveSubscriptionInfo(BaseCommand):
    """A client gives a durable subscription up."""

    connection_id: ConnectionId | None = None
    subscription_name: str | None = None
    client_id: str | None = None


@dataclass(slots=True, kw_only=True)
class KeepAliveInfo(BaseCommand):
    """A sign of life."""


@dataclass(slots=True, kw_only=True)
class ShutdownInfo(BaseCommand):
    """The peer closes the connection."""


@dataclass(slots=True, kw_only=True)
class RemoveInfo(BaseCommand):
    """A connection, session, consumer or producer is closed."""

    object_id: ConnectionId | SessionId | ConsumerId | ProducerId | None = None
    last_delivered_sequence_id: int = -2
    """64-bit; -2 unknown, -1 unset."""


@dataclass(slots=True, kw_only=True)
class ControlCommand(BaseCommand):
    """A command for a broker in words."""

    command: str | None = None


@dataclass(slots=True, kw_only=True)
class FlushCommand(BaseCommand):
    """Write out what is buffered."""


@dataclass(slots=True, kw_only=True)
class ConnectionError(BaseCommand):
    """Something asynchronous failed on a connection."""

    exception: Throwable | None = None
    connection_id: ConnectionId | None = None


@dataclass(slots=True, kw_only=True)
class ConsumerControl(BaseCommand):
    """A broker steers a consumer."""

    destination: Destination | None = None
    close: bool = False
    consumer_id: ConsumerId | None = None
    prefetch: int = 0
    flush: bool = False
    start: bool = False
    stop: bool = False


@dataclass(slots=True, kw_only=True)
class ConnectionControl(BaseCommand):
    """A broker steers a connection."""

    close: bool = False
    exit: bool = False
    fault_tolerant: bool = False
    resume: bool = False
    suspend: bool = False
    connected_brokers: str | None = ""
    reconnect_to: str | None = ""
    rebalance_connection: bool = False
    token: bytes | None = None


@dataclass(slots=True, kw_only=True)
class ProducerAck(BaseCommand):
    """So many bytes of a producer's window are free again."""

    producer_id: ProducerId | None = None
    size: int = 0


@dataclass(slots=True, kw_only=True)
class MessagePull(BaseCommand):
    """A consumer without prefetch asks for a message."""

    consumer_id: ConsumerId | None = None
    destination: Destination | None = None
    timeout: int = 0
    """64-bit, milliseconds."""
    correlation_id: str | None = None
    message_id: MessageId | None = None


@dataclass(slots=True, kw_only=True)
class MessageDispatch(BaseCommand):
    """A broker hands a message to a consumer."""

    consumer_id: ConsumerId | None = None
    destination: Destination | None = None
    message: Message | None = None
    redelivery_counter: int = 0


@dataclass(slots=True, kw_only=True)
class MessageAck(BaseCommand):
    """A consumer acknowledges messages; `ack_type` is one of the ``ACK_`` constants."""

    destination: Destination | None = None
    transaction_id: TransactionId | None = None
    consumer_id: ConsumerId | None = None
    ack_type: int = ACK_DELIVERED
    first_message_id: MessageId | None = None
    last_message_id: MessageId | None = None
    message_count: int = 0
    poison_cause: Throwable | None = None

    @classmethod
    def of(
        cls, message_id: MessageId | None, destination: Destination | None, transaction_id: TransactionId | None
    ) -> MessageAck:
        """One message is acknowledged in a transaction, as stores write it down."""
        return cls(
            destination=destination,
            transaction_id=transaction_id,
            ack_type=ACK_STANDARD,
            first_message_id=message_id,
            last_message_id=message_id,
            message_count=1,
        )


@dataclass(slots=True, kw_only=True)
class MessageDispatchNotification(BaseCommand):
    """A broker tells another one that it dispatched a message."""

    consumer_id: ConsumerId | None = None
    destination: Destination | None = None
    delivery_sequence_id: int = 0
    """64-bit."""
    message_id: MessageId | None = None


@dataclass(slots=True, kw_only=True)
class NetworkBridgeFilter:
    """What a network bridge lets through. `network_ttl` is the only one of the three counts up to wire version 9."""

    network_ttl: int = 0
    network_broker_id: BrokerId | None = None
    message_ttl: int = 0
    consumer_ttl: int = 0


@dataclass(slots=True, kw_only=True)
class SubscriptionInfo:
    """A durable subscription as stores keep it."""

    client_id: str | None = None
    destination: Destination | None = None
    selector: str | None = None
    subscription_name: str | None = None
    subscribed_destination: Destination | None = None
    no_local: bool = False


@dataclass(slots=True, kw_only=True)
class BrokerSubscriptionInfo(BaseCommand):
    """Durable subscriptions that a broker of a network knows."""

    broker_id: BrokerId | None = None
    broker_name: str | None = None
    subscription_infos: Sequence[ConsumerInfo | None] | None = None


@dataclass(slots=True, kw_only=True)
class ReplayCommand(BaseCommand):
    """Commands of an unreliable transport that have to be sent again."""

    first_nak_number: int = 0
    last_nak_number: int = 0


@dataclass(slots=True, kw_only=True)
class PartialCommand:
    """A piece of a command."""

    command_id: int = 0
    data: bytes | None = None


@dataclass(slots=True, kw_only=True)
class LastPartialCommand(PartialCommand):
    """The last piece of a command."""


@dataclass(slots=True, kw_only=True)
class DiscoveryEvent:
    """A broker was found."""

    service_name: str | None = None
    broker_name: str | None = None


@dataclass(slots=True, kw_only=True)
class Response(BaseCommand):
    """The answer to the command whose id is `correlation_id`."""

    correlation_id: int = 0


@dataclass(slots=True, kw_only=True)
class ExceptionResponse(Response):
    """The command failed."""

    exception: Throwable | None = None


@dataclass(slots=True, kw_only=True)
class DataResponse(Response):
    """The answer is a value."""

    data: object | None = None


@dataclass(slots=True, kw_only=True)
class DataArrayResponse(Response):
    """The answer is several values."""

    data: Sequence[object | None] | None = None


@dataclass(slots=True, kw_only=True)
class IntegerResponse(Response):
    """The answer is a number."""

    result: int = 0


@dataclass(slots=True, kw_only=True)
class JournalTopicAck:
    """A journal's record that a durable subscription consumed a message."""

    destination: Destination | None = None
    message_id: MessageId | None = None
    message_sequence_id: int = 0
    """64-bit."""
    subscription_name: str | None = None
    client_id: str | None = None
    transaction_id: TransactionId | None = None


@dataclass(slots=True, kw_only=True)
class JournalQueueAck:
    """A journal's record that a message of a queue was consumed."""

    destination: Destination | None = None
    message_ack: MessageAck | None = None


@dataclass(slots=True, kw_only=True)
class JournalTrace:
    """A note in a journal."""

    message: str | None = None


@dataclass(slots=True, kw_only=True)
class JournalTransaction:
    """A journal's record of a transaction.

    `type`: 1 XA prepare, 2 XA commit, 3 XA rollback, 4 local commit, 5 local rollback.
    """

    transaction_id: TransactionId | None = None
    type: int = 0
    was_prepared: bool = False
