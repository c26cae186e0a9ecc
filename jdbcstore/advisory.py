"""What an advisory tells of, in no protocol's words; `jdbcstore.openwire` writes each as the command of ActiveMQ's.

A `Message` has it as its `data_structure`. `jdbcstore.broker.advisories` says when which is told. Where a client has
said it in such a command, all that the command says is told: the subject has it as its `command`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.identifiers import ConnectionId, ConsumerId, ProducerId

__all__ = [
    "ConnectionSubject",
    "ConsumerSubject",
    "DestinationSubject",
    "ProducerSubject",
    "RemovalSubject",
    "Subject",
    "SubscriptionRemovalSubject",
]


@dataclass(frozen=True, slots=True)
class DestinationSubject:
    """A destination is there, or gone.

    Args:
        destination: which.
        connection_id: whose it is, if it is temporary.
        is_removed: whether it is gone.
    """

    destination: Destination
    connection_id: ConnectionId | None
    is_removed: bool


@dataclass(frozen=True, slots=True)
class ConnectionSubject:
    """A client has connected.

    Args:
        connection_id: its connection.
        client_id: as it calls itself, else the connection's id.
        user: by whose name it is logged in; None if nobody's.
        peer: its address, ``HOST:PORT``.
        command: by which it has connected.
    """

    connection_id: ConnectionId
    client_id: str
    user: str | None
    peer: str
    command: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSubject:
    """A consumer has come.

    Args:
        consumer_id: its id.
        client_id: of its client.
        destination: what it is subscribed to.
        prefetch: how many messages it may have unacknowledged.
        selector: the text of it.
        subscription_name: of its durable subscription; None if it uses none.
        is_browser, is_exclusive, is_no_local, is_retroactive: what kind of a consumer it is.
        priority: of the consumer.
        command: by which it was made.
    """

    consumer_id: ConsumerId
    client_id: str | None
    destination: Destination
    prefetch: int
    selector: str | None
    subscription_name: str | None
    is_browser: bool
    is_exclusive: bool
    is_no_local: bool
    is_retroactive: bool
    priority: int
    command: object = None


@dataclass(frozen=True, slots=True)
class ProducerSubject:
    """A producer has come.

    Args:
        producer_id: its id.
        destination: where it sends.
        command: by which it was made.
    """

    producer_id: ProducerId
    destination: Destination
    command: object = None


@dataclass(frozen=True, slots=True)
class RemovalSubject:
    """A connection, a consumer or a producer is gone.

    Args:
        id: of which.
    """

    id: ConnectionId | ConsumerId | ProducerId


@dataclass(frozen=True, slots=True)
class SubscriptionRemovalSubject:
    """A durable subscription is gone.

    Args:
        client_id, subscription_name: which.
        connection_id: whose client has removed it; None if no client has.
    """

    client_id: str
    subscription_name: str
    connection_id: ConnectionId | None


Subject: TypeAlias = (
    DestinationSubject
    | ConnectionSubject
    | ConsumerSubject
    | ProducerSubject
    | RemovalSubject
    | SubscriptionRemovalSubject
)
