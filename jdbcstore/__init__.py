"""Apache ActiveMQ's JDBC message store in Python, and a STOMP broker on top of it.

A store in three lines::

    with jdbcstore.open_store("sqlite:///data/broker.db") as store:
        for message in store.queue_message_store(jdbcstore.Queue("ORDERS")).recover():
            print(message.message_id, message.properties)

A broker in two::

    broker = jdbcstore.Broker(jdbcstore.open_store("postgresql://user:secret@db/activemq"))
    jdbcstore.serve(broker)

A broker inside of a program, without a socket (`jdbcstore.client`)::

    with jdbcstore.connect("sqlite:///data/orders.db") as connection:
        connection.send("ORDERS", "three apples")

The names below are the public API; they are imported when they are first used, so that ``import jdbcstore`` costs
nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from jdbcstore.version import VERSION

if TYPE_CHECKING:
    from jdbcstore.broker.broker import Broker as EmbeddedBroker
    from jdbcstore.broker.options import BrokerOptions
    from jdbcstore.broker.runner import running, serve
    from jdbcstore.broker.subscription_request import AcknowledgeMode
    from jdbcstore.client.async_connection import (
        AsyncConnection,
        AsyncReceivedMessage,
        AsyncSubscription,
        AsyncTransaction,
    )
    from jdbcstore.client.connection import Connection, ReceivedMessage, Subscription, Transaction
    from jdbcstore.client.connector import connect, connect_async
    from jdbcstore.client.outbox import Enlisted, enlist
    from jdbcstore.client.outgoing_message import SendOptions
    from jdbcstore.client.subscribe_options import SubscribeOptions
    from jdbcstore.config.urls import open_store
    from jdbcstore.destination import Destination, Queue, TempQueue, TempTopic, Topic
    from jdbcstore.errors import (
        ClientIdTaken,
        CodecError,
        ConfigurationError,
        ConnectionClosed,
        DuplicateMessage,
        ForeignDestination,
        HistoryLost,
        IndexDamaged,
        JdbcStoreError,
        JournalDamaged,
        LeaseLost,
        LockError,
        LockHeld,
        LoginRefused,
        MessageTooLarge,
        NoSuchDestination,
        NoSuchSubscription,
        NotAuthorized,
        NotReplicated,
        OutcomeUnknown,
        ProtocolError,
        SchemaMismatch,
        SecurityError,
        SelectorError,
        StoreClosed,
        StoreError,
        StoreFull,
        StoreReadOnly,
        StoreUnavailable,
        TransactionRolledBack,
        TransientStoreError,
        UnknownDestination,
        UnknownTransaction,
    )
    from jdbcstore.identifiers import LocalTransactionId, MessageId, ProducerId, XATransactionId
    from jdbcstore.message import (
        BlobMessage,
        BytesMessage,
        MapMessage,
        Message,
        ObjectMessage,
        StreamMessage,
        TextMessage,
    )
    from jdbcstore.store.completion import Completion
    from jdbcstore.store.contract import (
        Commit,
        Cursor,
        Expired,
        ExpiredPage,
        MessageStore,
        Page,
        PersistenceAdapter,
        PreparedTransaction,
        SupportsLocking,
        SupportsTopics,
        SupportsTransactions,
        TopicMessageStore,
        TransactionStore,
    )
    from jdbcstore.store.intake import SupportsIntake
    from jdbcstore.store.jdbc.options import JdbcOptions
    from jdbcstore.store.jobs import SupportsScheduling
    from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
    from jdbcstore.store.journal.kahadb.options import KahaDBOptions
    from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
    from jdbcstore.transport.network import NetworkBroker as Broker

__all__ = [
    "AcknowledgeMode",
    "AsyncConnection",
    "AsyncReceivedMessage",
    "AsyncSubscription",
    "AsyncTransaction",
    "BlobMessage",
    "Broker",
    "BrokerOptions",
    "BytesMessage",
    "ClientIdTaken",
    "CodecError",
    "Commit",
    "Completion",
    "ConfigurationError",
    "Connection",
    "ConnectionClosed",
    "Cursor",
    "Destination",
    "DuplicateMessage",
    "EmbeddedBroker",
    "Enlisted",
    "Expired",
    "ExpiredPage",
    "ForeignDestination",
    "HistoryLost",
    "IndexDamaged",
    "JdbcOptions",
    "JdbcStoreError",
    "JournalDamaged",
    "KahaDBOptions",
    "KahaDBPersistenceAdapter",
    "LeaseLost",
    "LocalTransactionId",
    "LockError",
    "LockHeld",
    "LoginRefused",
    "MapMessage",
    "Message",
    "MessageId",
    "MessageStore",
    "MessageTooLarge",
    "NoSuchDestination",
    "NoSuchSubscription",
    "NotAuthorized",
    "NotReplicated",
    "ObjectMessage",
    "OutcomeUnknown",
    "Page",
    "PersistenceAdapter",
    "PreparedTransaction",
    "ProducerId",
    "ProtocolError",
    "Queue",
    "ReceivedMessage",
    "SchemaMismatch",
    "SecurityError",
    "SelectorError",
    "SendOptions",
    "StoreClosed",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "StreamMessage",
    "SubscribeOptions",
    "Subscription",
    "SubscriptionInfo",
    "SubscriptionKey",
    "SupportsIntake",
    "SupportsLocking",
    "SupportsScheduling",
    "SupportsTopics",
    "SupportsTransactions",
    "TempQueue",
    "TempTopic",
    "TextMessage",
    "Topic",
    "TopicMessageStore",
    "Transaction",
    "TransactionRolledBack",
    "TransactionStore",
    "TransientStoreError",
    "UnknownDestination",
    "UnknownTransaction",
    "XATransactionId",
    "__version__",
    "connect",
    "connect_async",
    "enlist",
    "open_store",
    "running",
    "serve",
]

__version__ = VERSION

#: Module → what it gives. Errors are the rest.
_HOMES: Final = {
    "jdbcstore.broker.broker": ("EmbeddedBroker",),
    "jdbcstore.broker.runner": ("running", "serve"),
    "jdbcstore.broker.options": ("BrokerOptions",),
    "jdbcstore.broker.subscription_request": ("AcknowledgeMode",),
    "jdbcstore.client.async_connection": (
        "AsyncConnection",
        "AsyncReceivedMessage",
        "AsyncSubscription",
        "AsyncTransaction",
    ),
    "jdbcstore.client.connection": ("Connection", "ReceivedMessage", "Subscription", "Transaction"),
    "jdbcstore.client.connector": ("connect", "connect_async"),
    "jdbcstore.client.outbox": ("Enlisted", "enlist"),
    "jdbcstore.client.outgoing_message": ("SendOptions",),
    "jdbcstore.client.subscribe_options": ("SubscribeOptions",),
    "jdbcstore.config.urls": ("open_store",),
    "jdbcstore.destination": ("Destination", "Queue", "TempQueue", "TempTopic", "Topic"),
    "jdbcstore.identifiers": ("LocalTransactionId", "MessageId", "ProducerId", "XATransactionId"),
    "jdbcstore.message": (
        "BlobMessage",
        "BytesMessage",
        "MapMessage",
        "Message",
        "ObjectMessage",
        "StreamMessage",
        "TextMessage",
    ),
    "jdbcstore.store.completion": ("Completion",),
    "jdbcstore.store.contract": (
        "Commit",
        "Cursor",
        "Expired",
        "ExpiredPage",
        "MessageStore",
        "Page",
        "PersistenceAdapter",
        "PreparedTransaction",
        "SupportsLocking",
        "SupportsTopics",
        "SupportsTransactions",
        "TopicMessageStore",
        "TransactionStore",
    ),
    "jdbcstore.store.intake": ("SupportsIntake",),
    "jdbcstore.store.jobs": ("SupportsScheduling",),
    "jdbcstore.store.jdbc.options": ("JdbcOptions",),
    "jdbcstore.store.journal.kahadb.adapter": ("KahaDBPersistenceAdapter",),
    "jdbcstore.store.journal.kahadb.options": ("KahaDBOptions",),
    "jdbcstore.subscription": ("SubscriptionInfo", "SubscriptionKey"),
    "jdbcstore.transport.network": ("Broker",),
}
#: What is called otherwise at home, where there is a broker without sockets, too.
_NAME_AT_HOME: Final = {"Broker": "NetworkBroker", "EmbeddedBroker": "Broker"}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'jdbcstore' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF.get(name, "jdbcstore.errors")), _NAME_AT_HOME.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
