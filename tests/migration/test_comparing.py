"""What differs is found, whatever it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import pytest

from jdbcstore.destination import Destination
from jdbcstore.errors import StoreError
from jdbcstore.identifiers import ProducerId
from jdbcstore.migration import migrate_contents
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.stores import StoreContents
from jdbcstore.migration.target import StoreTarget
from jdbcstore.store.contract import Commit, Cursor, ScheduledJob
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.testing import text_message
from tests.migration import rich


def changed_body(target: MemoryPersistenceAdapter) -> None:
    store = target.queue_message_store(rich.PLAIN)
    message = next(iter(store.recover()))
    message.content = b"\0\0\0\1x"
    store.update_message(message).result()


def moved_to_the_end(target: MemoryPersistenceAdapter) -> None:
    store = target.queue_message_store(rich.PLAIN)
    message = next(iter(store.recover()))
    assert message.message_id is not None
    store.remove_message(message.message_id).result()
    store.add_message(message).result()


def order_of_destinations(target: MemoryPersistenceAdapter) -> None:
    """Each destination as it was: the last of one behind the last of another."""
    store = target.queue_message_store(rich.PLAIN)
    *_, last = store.recover()
    assert last.message_id is not None
    store.remove_message(last.message_id).result()
    store.add_message(last).result()


def acknowledged(target: MemoryPersistenceAdapter) -> None:
    store = target.topic_message_store(rich.NEWS)
    page = store.recover_next_subscription_messages(rich.ALL, Cursor(), 1, 1)
    assert page.messages[0].message_id is not None
    store.acknowledge(rich.ALL, page.messages[0].message_id).result()


def other_job(target: MemoryPersistenceAdapter) -> None:
    job = target.job_store().get_job("job-1")
    assert job is not None
    target.job_store().remove_job("job-1").result()
    later = ScheduledJob(job.job_id, job.message, job.due_ms + 1)
    target.commit_together(Commit(jobs=[later])).result()


def one_more(target: MemoryPersistenceAdapter) -> None:
    message = text_message(9, destination=rich.ODD, producer_id=ProducerId("ID:somebody", 1, 1))
    target.queue_message_store(rich.ODD).add_message(message).result()


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (changed_body, "queue://ORDERS"),
        (moved_to_the_end, "queue://ORDERS"),
        (order_of_destinations, "the order of messages of different destinations"),
        (acknowledged, "subscription topic://NEWS client/all: 27 messages there, 26 here"),
        (other_job, "job job-1"),
        (one_more, "30 messages there, 31 here"),
    ],
)
def test_what_differs(tamper: Callable[[MemoryPersistenceAdapter], None], words: str) -> None:
    class Tampered(StoreTarget):
        @contextmanager
        def contents(self, prioritized: Collection[Destination]) -> Iterator[Contents]:
            assert isinstance(self.adapter, MemoryPersistenceAdapter)
            tamper(self.adapter)
            yield StoreContents(self.adapter, self.name, prioritized)

    with MemoryPersistenceAdapter() as first, MemoryPersistenceAdapter() as second:
        rich.fill(first)
        for xid in (rich.XID, rich.EMPTY_XID):
            first.transaction_store().rollback_prepared(xid).result()
        with pytest.raises(StoreError, match=f"not alike: .*{words}"):
            migrate_contents(StoreContents(first, "first"), Tampered(second, "second"))
