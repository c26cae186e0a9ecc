"""What a SQL database counts by itself, without a message leaving it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, text

from jdbcstore.config.urls import store_location
from jdbcstore.destination import Topic
from jdbcstore.pipeline.report.figures import Row
from jdbcstore.store.contract import Cursor, PersistenceAdapter, SupportsTopics
from jdbcstore.store.jdbc.connection import opened
from jdbcstore.store.jdbc.statements import Statements, text_of

__all__ = ["counted", "counting", "producers", "subscriptions"]

_CLIENTS_SHOWN: Final = 1000
#: Smaller ones are left out, so that a client that makes a producer for each message fills no memory.
_PRODUCERS_MAX: Final = 100_000


@contextmanager
def counting(url: str) -> Iterator[tuple[Connection, Statements]]:
    """A connection to ask.

    Raises:
        ConfigurationError, StoreError: the store cannot be reached.
    """
    with opened(store_location(url, reads_only=True)) as store:
        yield store.connection, store.bytewise_statements


def counted(connection: Connection, statements: Statements) -> list[dict[str, object]]:
    """Every destination: messages, bytes, how many of them are expired, and how many are in doubt."""
    now_ms = int(connection.execute(text(statements.clock)).scalar_one())
    rows = connection.execute(
        text(
            f"SELECT {statements.container}, COUNT(*), SUM(LENGTH(MSG)), MAX(LENGTH(MSG)),"
            " SUM(CASE WHEN EXPIRATION > 0 AND EXPIRATION < :now THEN 1 ELSE 0 END),"
            " SUM(CASE WHEN XID IS NULL THEN 0 ELSE 1 END)"
            f" FROM {statements.messages} GROUP BY {statements.container} ORDER BY {statements.container}"
        ),
        {"now": now_ms},
    )
    return [
        {
            "destination": text_of(name),
            "depth": int(depth),
            "bytes": int(size or 0),
            "bytes_max": int(largest or 0),
            "expired": int(expired),
            "prepared": int(prepared),
        }
        for name, depth, size, largest, expired, prepared in rows
    ]


def producers(connection: Connection, statements: Statements) -> list[Row]:
    """The clients that sent most of what is there, the most bytes first.

    A producer's id tells the client that it belongs to: one run of one program. The database counts producers, of which
    a client has as many as it likes, and here those of a client are put together.
    """
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    rows = connection.execute(
        text(
            f"SELECT {statements.producer}, COUNT(*), SUM(LENGTH(MSG)) FROM {statements.messages}"
            f" GROUP BY {statements.producer} ORDER BY 3 DESC LIMIT {_PRODUCERS_MAX}"
        )
    )
    for producer, messages, size in rows:
        total = found[_client(text_of(producer or ""))]
        total[0] += 1
        total[1] += int(messages)
        total[2] += int(size or 0)
    largest = sorted(found.items(), key=lambda item: (-item[1][2], item[0]))[:_CLIENTS_SHOWN]
    return [
        {"client": client, "producers": count, "messages": messages, "bytes": size}
        for client, (count, messages, size) in largest
    ]


def _client(producer: str) -> str:
    """One run of one program: ``ID:host-46281-1700000000000-3`` of ``ID:host-46281-1700000000000-3:1:1:1``, whose other
    parts are connection, session and producer."""
    parts = producer.rsplit(":", 3)
    return parts[0] if len(parts) == 4 else producer


def subscriptions(adapter: PersistenceAdapter, now_ms: int) -> list[Row]:
    """Every durable subscription: how many messages wait for it, and for how long the first of them has."""
    found: list[Row] = []
    if not isinstance(adapter, SupportsTopics):
        return found
    for topic in adapter.destinations():
        if not isinstance(topic, Topic) or topic.is_wildcard or topic.is_composite:
            continue
        store = adapter.topic_message_store(topic)
        for info in store.all_subscriptions():
            page = store.recover_next_subscription_messages(info.key, Cursor(), 1, 1)
            sent = [message.timestamp or message.broker_in_time for message in page.messages]
            found.append(
                {
                    "topic": topic.qualified_name,
                    "client_id": info.key.client_id,
                    "subscription": info.key.subscription_name,
                    "selector": info.selector,
                    "pending": store.subscription_message_count(info.key),
                    "oldest_s": max(now_ms - sent[0], 0) / 1000 if sent and sent[0] else None,
                }
            )
    return sorted(found, key=lambda row: (-row["pending"], row["topic"], row["client_id"], row["subscription"]))
