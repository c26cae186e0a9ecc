"""Journal files that nobody needs go; whatever went, a rebuild from the others finds what was there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import ProducerId
from jdbcstore.store.kahadb import Journal
from jdbcstore.store.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.kahadb.cleanup import candidates, unneeded
from jdbcstore.store.kahadb.index import FILE_NAME
from jdbcstore.store.kahadb.options import KahaDBOptions
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from tests.unit.kahadb.journals import unpack
from tests.unit.kahadb.test_kahadb_recovery import KEYS, TOPIC, Doings, contents

#: Tiny files, and nothing happens by itself.
TINY = KahaDBOptions(
    journal_max_file_length_bytes=1024,
    preallocation_scope="NONE",
    checkpoint_interval_ms=0,
    cleanup_interval_ms=0,
    cleanup_on_stop=False,
)
A = Queue("A")


def files(directory: Path) -> list[int]:
    return sorted(Journal(directory).files)


def everything(adapter: KahaDBPersistenceAdapter) -> dict[str, Any]:
    """What users of a store see."""
    prepared = adapter.transaction_store().prepared_transactions()
    return {
        "contents": contents(adapter, prioritized=True),
        "destinations": adapter.destinations(),
        "prepared": {
            one.transaction_id: (
                [str(message.message_id) for message in one.added],
                [destination for destination, _ in one.removed],
            )
            for one in prepared
        },
    }


def rebuilt(adapter: KahaDBPersistenceAdapter) -> None:
    adapter.stop()
    (adapter.directory / FILE_NAME).unlink()
    adapter.start()
    adapter.queue_message_store(A)  # before anybody asks for it by priority


# --- which files --------------------------------------------------------------------------------------------------


def test_what_makes_a_file_stay() -> None:
    all_files = range(1, 11)
    assert candidates(all_files, 10, {2}, [(4, 6)]) == {1, 3, 7, 8, 9}
    assert unneeded({1, 3, 7, 8, 9}, all_files, {3: {2}, 7: {3}, 8: {1}, 9: {99}}) == {1, 8, 9}
    # Also if a file needs a later one, and that one only stays for another.
    assert unneeded({1, 2}, all_files, {1: {2}, 2: {3}}) == set()


@pytest.mark.parametrize(
    ("name", "kept"), [("pinned", list(range(1, 11))), ("pinnedgap", [1, 4, 5, 6, 13])]
)
def test_files_that_brokers_keep(name: str, kept: list[int], tmp_path: Path) -> None:
    unpack(name, tmp_path)
    before = files(tmp_path)
    with KahaDBPersistenceAdapter(tmp_path, TINY) as adapter:
        adapter.queue_message_store(A).add_message(text_message(1)).result()
        gone = adapter.remove_unneeded_files()
        print(before, gone)
        assert [number for number in before if number not in gone] == kept


# --- whatever went, nothing is missed -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_is_enough_for_a_rebuild(tmp_path: Path, seed: int) -> None:
    doings = Doings(seed, twins=False)
    adapter = KahaDBPersistenceAdapter(tmp_path, TINY)
    adapter.start()
    gone: list[int] = []
    for _ in range(12):
        for _ in range(doings.random.randint(1, 25)):
            doings.do(adapter)
        if doings.random.random() < 0.3:
            topic = adapter.topic_message_store(TOPIC, prioritized=True)
            topic.acknowledge(KEYS[0], *[m.message_id for m in topic.recover() if m.message_id is not None]).result()
        before = everything(adapter)
        gone += adapter.remove_unneeded_files()
        assert everything(adapter) == before
        assert not set(gone) & set(files(tmp_path))
        rebuilt(adapter)
        assert everything(adapter) == before
    adapter.stop()
    assert gone
