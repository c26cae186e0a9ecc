"""Looking into a KahaDB directory, with a broker on it and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from jdbcstore.cli import cli
from jdbcstore.config.inspection import looking_into
from jdbcstore.config.urls import kahadb_options, open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.store.contract import PersistenceAdapter, SupportsTopics, SupportsTransactions
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import PRODUCER, text_message

XID = XATransactionId(7, b"global", b"branch")


def filled(adapter: PersistenceAdapter) -> None:
    """Two messages, one of a topic, one in doubt."""
    queue = adapter.queue_message_store(Queue("A"))
    for number in (1, 2):
        queue.add_message(text_message(number)).result(30)
    assert isinstance(adapter, SupportsTopics)
    topic = adapter.topic_message_store(Topic("T"))
    topic.add_subscription(SubscriptionInfo(SubscriptionKey("ann", "news"), Topic("T"), Topic("T"))).result(30)
    topic.add_message(text_message(3)).result(30)
    assert isinstance(adapter, SupportsTransactions)
    transaction = adapter.transaction_store().begin(XID)
    transaction.add_message(queue, text_message(4))
    transaction.prepare().result(30)


def said(*words: str) -> str:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return done.output


def test_commands_look_into_a_directory_that_is_in_use_and_change_nothing(tmp_path: Path) -> None:
    url = f"kahadb:{tmp_path / 'store'}"
    with open_store(url) as adapter:
        filled(adapter)
        before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "store").iterdir()}
        stats = {row["destination"]: row for row in json.loads(said("stats", url, "--json"))}
        assert (stats["queue://A"]["depth"], stats["topic://T"]["depth"]) == (2, 1)
        assert stats["topic://T"]["subscriptions"][0]["pending"] == 1
        assert "message 2" in said("browse", url, "queue://A")
        assert "1 in queue://TEST" in said("transactions", "list", url)
        with looking_into(url) as view:
            assert view.last_producer_sequence_id(PRODUCER) == 4
            with pytest.raises(StoreError, match="look into"):
                view.queue_message_store(Queue("A")).remove_message(MessageId(PRODUCER, 1))
        assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "store").iterdir()} == before


def test_a_transaction_in_doubt_is_committed_by_command(tmp_path: Path) -> None:
    url = f"kahadb:{tmp_path}"
    with open_store(url) as adapter:
        filled(adapter)
    (line,) = [line for line in said("transactions", "list", url).splitlines() if "queue://TEST" in line]
    said("transactions", "commit", url, line.split()[0], "--yes")
    with open_store(url) as adapter:
        assert adapter.queue_message_store(Queue("A")).message_count == 3


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no directory"), looking_into(f"kahadb:{tmp_path / 'no'}"):
        pass


def test_options_in_the_url() -> None:
    directory, options = kahadb_options("kahadb:/data/kahadb?journalMaxFileLength=16mb&message_bytes_max=1000")
    assert (directory, options.journal_max_file_length_bytes, options.message_bytes_max) == (
        Path("/data/kahadb"),
        16 << 20,
        1000,
    )
    for url, text in (
        ("kahadb:", "names no directory"),
        ("kahadb:d?journalMaxFileLenght=1mb", "journalMaxFileLength"),
        ("kahadb:d?checkpointInterval=1&checkpoint_interval_ms=2", "say it once"),
        ("kahadb:d?message_bytes_max=many", "whole number"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            kahadb_options(url)
