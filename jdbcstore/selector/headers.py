"""What the names that begin with JMS mean in a selector: fields of the message, typed as in Java."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jdbcstore.destination import Destination
from jdbcstore.message import Message
from jdbcstore.primitives import Long, Value

__all__ = ["HEADERS"]


def _name(destination: Destination | None) -> str | None:
    return None if destination is None else destination.qualified_name


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _broker_path(message: Message) -> str:
    path = message.broker_path
    return "null" if path is None else f"[{', '.join('null' if broker is None else str(broker) for broker in path)}]"


def _user_id(message: Message) -> Value:
    return message.properties.get("JMSXUserID") if message.user_id is None else message.user_id


#: Other names that begin with JMS are properties like any.
HEADERS: Final[dict[str, Callable[[Message], Value]]] = {
    "JMSActiveMQBrokerInTime": lambda message: Long(message.broker_in_time),
    "JMSActiveMQBrokerOutTime": lambda message: Long(message.broker_out_time),
    "JMSActiveMQBrokerPath": _broker_path,
    "JMSCorrelationID": lambda message: message.correlation_id,
    "JMSDeliveryMode": lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
    "JMSDestination": lambda message: _name(message.original_destination or message.destination),
    "JMSExpiration": lambda message: Long(message.expiration),
    "JMSMessageID": lambda message: _text(message.message_id),
    "JMSPriority": lambda message: message.priority,
    "JMSRedelivered": lambda message: message.redelivered,
    "JMSReplyTo": lambda message: _name(message.reply_to),
    "JMSTimestamp": lambda message: Long(message.timestamp),
    "JMSType": lambda message: message.type,
    "JMSXDeliveryCount": lambda message: message.redelivery_counter + 1,
    "JMSXGroupFirstForConsumer": lambda message: message.first_for_consumer,
    "JMSXGroupID": lambda message: message.group_id,
    "JMSXGroupSeq": lambda message: message.group_sequence,
    "JMSXProducerTXID": lambda message: _text(message.original_transaction_id or message.transaction_id),
    "JMSXUserID": _user_id,
}
