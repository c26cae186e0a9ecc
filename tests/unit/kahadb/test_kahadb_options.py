"""ActiveMQ's options and ours are the same: names, defaults, spellings."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.journal.kahadb.options import ACTIVEMQ_OPTIONS, KahaDBOptions

#: What ActiveMQ does not have, or elsewhere.
OURS = {
    "lease_holder_id",
    "message_bytes_max",
    "producer_memory_s",
    "transaction_bytes_max",
    "transaction_messages_max",
    "virtual_topic_consumers",
}


def test_the_defaults_are_activemqs() -> None:
    for name, option in ACTIVEMQ_OPTIONS.items():
        if option.field:
            assert option.read(option.default) == getattr(KahaDBOptions(), option.field), name
    ours = {field.name for field in fields(KahaDBOptions)} - {option.field for option in ACTIVEMQ_OPTIONS.values()}
    assert ours == OURS


def test_all_are_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "kahadb.md").read_text("utf-8")
    documented = text.partition("### Options")[2].partition("### The lock")[0]
    assert [name for name in ACTIVEMQ_OPTIONS if f"`{name}`" not in documented] == []


def test_all_can_be_given_as_activemq_spells_them() -> None:
    options, notes = KahaDBOptions.from_activemq(
        {
            "journalMaxFileLength": "16mb",
            "journalMaxWriteBatchSize": "64 KB",
            "journalDiskSyncStrategy": "periodic",
            "preallocationStrategy": "os_kernel_copy",
            "ignoreMissingJournalfiles": "true",
            "indexDirectory": "/index",
            "checkpointInterval": "100",
            "cleanupOnStop": "false",
        }
    )
    assert notes == ()
    assert options == KahaDBOptions(
        journal_max_file_length_bytes=16 << 20,
        journal_max_write_batch_size_bytes=64 << 10,
        journal_disk_sync_strategy="PERIODIC",
        preallocation_strategy="OS_KERNEL_COPY",
        ignore_missing_journal_files=True,
        index_directory="/index",
        checkpoint_interval_ms=100,
        cleanup_on_stop=False,
    )


def test_what_means_nothing_is_noted_unless_it_is_the_default() -> None:
    _, notes = KahaDBOptions.from_activemq(
        {"checksumJournalFiles": "false", "indexWriteBatchSize": "10", "enableIndexWriteAsync": "false"}
    )
    assert notes == (
        "checksumJournalFiles=false is not used: every batch has a checksum",
        "indexWriteBatchSize=10 is not used: the index is a SQLite database, not a page file",
    )


@pytest.mark.parametrize(("text", "strategy"), [("true", "ALWAYS"), ("false", "NEVER")])
def test_the_old_name_of_the_sync_strategy(text: str, strategy: str) -> None:
    options, _ = KahaDBOptions.from_activemq({"enableJournalDiskSyncs": text})
    assert options.journal_disk_sync_strategy == strategy


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"journalMaxFileLenght": "1mb"}, "no option 'journalMaxFileLenght'; the nearest is 'journalMaxFileLength'"),
        ({"ignoreMissingJournalFiles": "true"}, "the nearest is 'ignoreMissingJournalfiles'"),
        ({"journalMaxFileLength": "many"}, "journalMaxFileLength: 'many' is not a size"),
        ({"journalMaxFileLength": "2gb"}, "journal_max_file_length_bytes must be 1024 to 2147483647, got 2147483648"),
        ({"archiveDataLogs": "maybe"}, "archiveDataLogs: 'maybe' is neither true nor false"),
        ({"checkpointInterval": "5s"}, "checkpointInterval: '5s' is not a whole number"),
        ({"checkpointInterval": "-1"}, "checkpoint_interval_ms must be 0 to"),
        ({"journalDiskSyncStrategy": "SOMETIMES"}, "must be one of ALWAYS, PERIODIC, NEVER, got 'SOMETIMES'"),
        (
            {"enableJournalDiskSyncs": "false", "journalDiskSyncStrategy": "ALWAYS"},
            "journalDiskSyncStrategy=ALWAYS contradicts enableJournalDiskSyncs=false",
        ),
        ({"indexLFUEvictionFactor": "x"}, "indexLFUEvictionFactor: 'x' is not a number"),
    ],
)
def test_what_is_wrong_is_refused(given: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        KahaDBOptions.from_activemq(given)
    assert error in str(refused.value)
