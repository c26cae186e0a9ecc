"""``jdbcstore stats``: how much waits where, and for how long."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

import click
from sqlalchemy import text

from jdbcstore.config.inspection import check_url, looking_into
from jdbcstore.config.urls import store_location
from jdbcstore.console.output import print_json, print_table
from jdbcstore.destination import Queue, Topic, parse_destination
from jdbcstore.errors import CodecError
from jdbcstore.store.contract import Cursor, PersistenceAdapter, SupportsTopics
from jdbcstore.store.jdbc.connection import opened
from jdbcstore.store.jdbc.statements import text_of
from jdbcstore.store.journal.adapter import JournalPersistenceAdapter
from jdbcstore.store.journal.leveldb.adapter import LevelDBPersistenceAdapter
from jdbcstore.store.journal.mkahadb.adapter import MKahaDBPersistenceAdapter

__all__ = ["stats"]

#: Directories with journals, which count without reading.
_Directory: TypeAlias = JournalPersistenceAdapter | LevelDBPersistenceAdapter | MKahaDBPersistenceAdapter


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """A durable subscription. Whether somebody uses it just now only the broker knows.

    Args:
        client_id, name: whose it is.
        subscribed: the destination as subscribed, perhaps a wildcard.
        selector: as it stands in the store; None for all messages.
        pending: messages of the topic that it has not acknowledged, whatever its selector.
    """

    client_id: str
    name: str
    subscribed: str
    selector: str | None
    pending: int


@dataclass(frozen=True, slots=True)
class DestinationStats:
    """What one destination holds.

    Args:
        destination: its qualified name.
        depth: messages.
        bytes: what they take in column MSG.
        oldest_age_s: for how many seconds the first one has been waiting; None if that cannot be told.
        subscriptions: the durable subscriptions of a topic.
    """

    destination: str
    depth: int
    bytes: int
    oldest_age_s: float | None
    subscriptions: list[SubscriptionStats] = field(default_factory=list)


@click.command()
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def stats(url: str, as_json: bool) -> None:
    """Show depth, size and age of every destination in the store at URL, and durable subscriptions. Nothing is changed.

    \b
    Examples:
        jdbcstore stats sqlite:///data/jdbcstore.db
        jdbcstore stats mariadb://user:secret@db/activemq --json
    """
    found = collect(url)
    if as_json:
        print_json([asdict(row) for row in found])
        return
    rows = [(row.destination, row.depth, row.bytes, _age(row.oldest_age_s)) for row in found]
    print_table(("DESTINATION", "DEPTH", "BYTES", "OLDEST"), rows, empty="the store is empty")
    subscriptions = [
        (row.destination, one.client_id, one.name, one.pending, one.subscribed, one.selector)
        for row in found
        for one in row.subscriptions
    ]
    if subscriptions:
        titles = ("TOPIC", "CLIENT ID", "SUBSCRIPTION", "PENDING", "SUBSCRIBED TO", "SELECTOR")
        print_table(titles, subscriptions, empty="")


def collect(url: str) -> list[DestinationStats]:
    """Count a store's messages by destination, in the order of names. Reads every row's length, so it takes its time.

    Raises:
        ConfigurationError, StoreError: the store cannot be opened.
    """
    check_url(url)
    with looking_into(url) as adapter:
        counted = _counted_in_directory(adapter) if isinstance(adapter, _Directory) else _counted_rows(url)
        now_ms = time.time() * 1000
        subscriptions = _subscriptions(adapter)
        found = [
            DestinationStats(name, depth, size, _oldest_age_s(adapter, name, now_ms), subscriptions.pop(name, []))
            for name, depth, size in counted
        ]
        found += [DestinationStats(name, 0, 0, None, waiting) for name, waiting in subscriptions.items()]
        return sorted(found, key=lambda row: row.destination)


def _counted_in_directory(adapter: _Directory) -> list[tuple[str, int, int]]:
    """Name, messages and bytes of each destination."""
    sizes = adapter.stored_bytes()
    return [(str(one), count, sizes.get(one, 0)) for one, count in adapter.message_counts().items() if count]


def _counted_rows(url: str) -> list[tuple[str, int, int]]:
    """The same of a SQL store."""
    with opened(store_location(url, reads_only=True)) as store:
        statements = store.bytewise_statements
        rows = store.connection.execute(
            text(
                f"SELECT {statements.container}, COUNT(*), SUM(LENGTH(MSG)) FROM {statements.messages}"
                f" WHERE XID IS NULL GROUP BY {statements.container}"
            )
        ).all()
        return [(text_of(name), int(depth), int(size or 0)) for name, depth, size in rows]


def _subscriptions(adapter: PersistenceAdapter) -> dict[str, list[SubscriptionStats]]:
    """The durable subscriptions of each topic that has some."""
    found: dict[str, list[SubscriptionStats]] = {}
    if isinstance(adapter, SupportsTopics):
        for topic in adapter.destinations():
            if isinstance(topic, Topic) and not topic.is_wildcard and not topic.is_composite:
                store = adapter.topic_message_store(topic)
                waiting = [
                    SubscriptionStats(
                        info.key.client_id,
                        info.key.subscription_name,
                        info.subscribed_destination.qualified_name,
                        info.selector,
                        store.subscription_message_count(info.key),
                    )
                    for info in store.all_subscriptions()
                ]
                if waiting:
                    found[topic.qualified_name] = sorted(waiting, key=lambda one: (one.client_id, one.name))
    return found


def _oldest_age_s(adapter: PersistenceAdapter, name: str, now_ms: float) -> float | None:
    queue = parse_destination(name)
    if not isinstance(queue, Queue) or queue.is_wildcard or queue.is_composite:
        return None
    try:
        page = adapter.queue_message_store(queue).recover_next_messages(Cursor(), 1, 1)
    except CodecError:
        return None
    if not page.messages:
        return None
    first = page.messages[0]
    sent_ms = first.broker_in_time or first.timestamp
    return round(max(now_ms - sent_ms, 0) / 1000, 3) if sent_ms else None


def _age(age_s: float | None) -> str | None:
    if age_s is None:
        return None
    minutes, seconds = divmod(int(age_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    shown = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(shown[:2]) or "0 s"
