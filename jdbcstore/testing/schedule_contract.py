"""What every store of scheduled messages must do, as tests.

Use it like `jdbcstore.testing.contract`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import JdbcStoreError, StoreClosed
from jdbcstore.identifiers import MessageId
from jdbcstore.message import BytesMessage
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import (
    Commit,
    FiredJob,
    JobStore,
    MessageStore,
    PersistenceAdapter,
    ScheduledJob,
    SupportsScheduling,
    SupportsTopics,
)
from jdbcstore.store.jobs import HELD_MS
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.contract import OpenAdapter
from jdbcstore.testing.messages import PRODUCER, text_message

__all__ = ["DurableScheduleContract", "ScheduleContract", "scheduled_job"]

_WAIT_S = 30.0
_ROOMY_BYTES = 1 << 30
ANN = SubscriptionKey("ann", "news")


def scheduled_job(number: int, due_ms: int, *, period_ms: int = 0, repeat: int = 0, cron: str = "") -> ScheduledJob:
    """A job that is to send message `number` to queue TEST."""
    message = text_message(number)
    return ScheduledJob(str(message.message_id), message, due_ms, 7, period_ms, repeat, cron)


class ScheduleContract:
    """The suite. The fixture ``open_adapter`` makes a new, not started adapter on the same storage."""

    @pytest.fixture
    def open_adapter(self) -> OpenAdapter:
        raise NotImplementedError("provide a fixture open_adapter")

    @pytest.fixture
    def adapter(self, open_adapter: OpenAdapter) -> Iterator[PersistenceAdapter]:
        """A started adapter on empty storage."""
        with open_adapter() as adapter:
            yield adapter

    @pytest.fixture
    def jobs(self, adapter: PersistenceAdapter) -> JobStore:
        """Its store of jobs."""
        return _job_store(adapter)

    @pytest.fixture
    def queue(self, adapter: PersistenceAdapter) -> MessageStore:
        """The store of queue TEST."""
        return adapter.queue_message_store(Queue("TEST"))

    # -- keeping -------------------------------------------------------------------------------------------------

    def test_a_job_comes_back_as_it_was(self, adapter: PersistenceAdapter, jobs: JobStore) -> None:
        message = BytesMessage(producer_id=PRODUCER, message_id=MessageId(PRODUCER, 3), destination=Topic("Größe's?"))
        message.body = bytes(range(256)) * 3
        message.set_property("colour", "it's \\ ? %s")
        job = ScheduledJob("ID:it's \\ ? %s größer", message, 5_000, 1, 2, -1, "*/5 0-3,7 * * 1")
        keep(adapter, job)
        found = jobs.get_job(job.job_id)
        assert found is not None
        assert marshal(found.message) == marshal(message)
        assert found.message.destination == Topic("Größe's?")
        assert (found.due_ms, found.delay_ms, found.period_ms) == (5_000, 1, 2)
        assert (found.job_id, found.repeat, found.cron) == (job.job_id, -1, job.cron)
        assert jobs.job_count() == 1

    def test_a_job_that_is_not_there(self, jobs: JobStore) -> None:
        assert jobs.get_job("nobody") is None
        assert jobs.next_due_ms() is None
        assert jobs.job_count() == 0
        assert not jobs.due_jobs(HELD_MS, 10, _ROOMY_BYTES).jobs

    def test_a_job_is_no_message_yet(self, adapter: PersistenceAdapter, queue: MessageStore) -> None:
        keep(adapter, scheduled_job(1, 5))
        assert queue.message_count == 0
        assert list(queue.recover()) == []
        assert adapter.destinations() == set()

    def test_a_large_message(self, adapter: PersistenceAdapter, jobs: JobStore) -> None:
        job = scheduled_job(1, 5)
        job.message.content = b"\0\0\x20\0" + bytes(range(256)) * 8192
        keep(adapter, job)
        (found,) = jobs.due_jobs(5, 10, 1).jobs
        assert found.message.content == job.message.content

    def test_jobs_messages_and_removes_are_one_commit(
        self, adapter: PersistenceAdapter, jobs: JobStore, queue: MessageStore
    ) -> None:
        queue.add_message(old := text_message(1)).result(_WAIT_S)
        assert old.message_id is not None
        changes = [scheduled_job(3, 5), scheduled_job(4, 6)]
        adapter.commit_together(
            Commit(
                adds=[(queue, text_message(2))],
                removes=[(queue, old.message_id)],
                producers={PRODUCER: 4},
                jobs=changes,
            )
        ).result(_WAIT_S)
        assert [m.message_id for m in queue.recover()] == [MessageId(PRODUCER, 2)]
        assert names(jobs.due_jobs(9, 10, _ROOMY_BYTES).jobs) == [3, 4]
        assert adapter.last_producer_sequence_id(PRODUCER) == 4

    def test_two_jobs_of_one_name_are_refused_with_all_that_came_along(
        self, adapter: PersistenceAdapter, jobs: JobStore, queue: MessageStore
    ) -> None:
        keep(adapter, scheduled_job(1, 5))
        done = adapter.commit_together(Commit(adds=[(queue, text_message(2))], jobs=[scheduled_job(1, 9)]))
        assert isinstance(done.exception(_WAIT_S), JdbcStoreError)
        assert queue.message_count == 0
        assert jobs.next_due_ms() == 5

    # -- finding -------------------------------------------------------------------------------------------------

    def test_the_due_ones_come_in_order(self, adapter: PersistenceAdapter, jobs: JobStore) -> None:
        keep(adapter, *(scheduled_job(n, due_ms) for n, due_ms in enumerate((50, 10, 30, 40, 20))))
        assert jobs.next_due_ms() == 10
        assert names(jobs.due_jobs(9, 10, _ROOMY_BYTES).jobs) == []
        assert names(jobs.due_jobs(30, 10, _ROOMY_BYTES).jobs) == [1, 4, 2]
        assert names(jobs.due_jobs(99, 2, _ROOMY_BYTES).jobs) == [1, 4]
        assert names(jobs.due_jobs(99, 10, 1).jobs) == [1]

    def test_pages_leave_nothing_out_and_show_nothing_twice(self, adapter: PersistenceAdapter, jobs: JobStore) -> None:
        keep(adapter, *(scheduled_job(n, 10 * (n // 7)) for n in range(40)))
        seen: list[int] = []
        page = jobs.jobs(None, 3, _ROOMY_BYTES)
        seen += names(page.jobs)
        while page.end is not None:
            page = jobs.jobs(page.end, 3, _ROOMY_BYTES)
            seen += names(page.jobs)
        assert sorted(seen) == list(range(40))
        assert [n // 7 for n in seen] == sorted(n // 7 for n in range(40))
        assert sorted(names(jobs.jobs(None, 99, _ROOMY_BYTES, 10, 20).jobs)) == list(range(7, 21))
        assert jobs.jobs(None, 41, _ROOMY_BYTES).end is None  # there is room for more, so nothing is behind
        assert jobs.jobs(None, 41, 1).end is not None

    # -- firing --------------------------------------------------------------------------------------------------

    def test_a_firing_adds_and_ends_the_job(
        self, adapter: PersistenceAdapter, jobs: JobStore, queue: MessageStore
    ) -> None:
        keep(adapter, job := scheduled_job(1, 5))
        fire(adapter, queue, FiredJob(job.job_id, 5))
        assert [m.message_id for m in queue.recover()] == [MessageId(PRODUCER, 1)]
        assert queue.message_count == 1
        assert jobs.job_count() == 0

    def test_a_firing_advances_the_job(self, adapter: PersistenceAdapter, jobs: JobStore, queue: MessageStore) -> None:
        keep(adapter, job := scheduled_job(1, 5, period_ms=10, repeat=3, cron="* * * * *"))
        fire(adapter, queue, FiredJob(job.job_id, 5, 15, 2))
        assert jobs.next_due_ms() == 15
        found = jobs.get_job(job.job_id)
        assert found is not None
        assert (found.due_ms, found.repeat, found.period_ms, found.cron) == (15, 2, 10, "* * * * *")
        assert marshal(found.message) == marshal(job.message)

    def test_of_two_firings_one_counts(self, adapter: PersistenceAdapter, jobs: JobStore, queue: MessageStore) -> None:
        """Handed over together, so that they are likely to be in one batch."""
        keep(adapter, job := scheduled_job(1, 5))
        outcomes = [
            adapter.commit_together(Commit(adds=[(queue, text_message(1))], jobs=[FiredJob(job.job_id, 5)]))
            for _ in range(8)
        ]
        errors = [done.exception(_WAIT_S) for done in outcomes]
        assert errors.count(None) == 1
        assert all(error is None or isinstance(error, JdbcStoreError) for error in errors)
        assert queue.message_count == len(list(queue.recover())) == 1
        assert jobs.job_count() == 0

    def test_a_firing_of_what_was_removed_or_advanced_adds_nothing(
        self, adapter: PersistenceAdapter, jobs: JobStore, queue: MessageStore
    ) -> None:
        keep(adapter, one := scheduled_job(1, 5), other := scheduled_job(2, 5))
        jobs.remove_job(one.job_id)
        fire(adapter, queue, FiredJob(other.job_id, 5, 9))
        for job in (one, other):
            done = adapter.commit_together(Commit(adds=[(queue, text_message(7))], jobs=[FiredJob(job.job_id, 5)]))
            assert isinstance(done.exception(_WAIT_S), JdbcStoreError)
        assert queue.message_count == len(list(queue.recover())) == 1
        assert jobs.next_due_ms() == 9

    def test_a_firing_may_begin_another_job(self, adapter: PersistenceAdapter, jobs: JobStore) -> None:
        keep(adapter, job := scheduled_job(1, 5, cron="* * * * *"))
        adapter.commit_together(Commit(jobs=[FiredJob(job.job_id, 5, 65), scheduled_job(2, 20)])).result(_WAIT_S)
        assert names(jobs.due_jobs(99, 9, _ROOMY_BYTES).jobs) == [2, 1]

    def test_a_firing_reaches_durable_subscriptions(self, adapter: PersistenceAdapter, jobs: JobStore) -> None:
        if not isinstance(adapter, SupportsTopics):
            pytest.skip("this adapter keeps no topics")
        topic = adapter.topic_message_store(Topic("T"))
        keep(adapter, job := scheduled_job(1, 5), other := scheduled_job(2, 5))
        fire(adapter, topic, FiredJob(job.job_id, 5))  # nobody subscribes yet
        topic.add_subscription(SubscriptionInfo(ANN, Topic("T"), Topic("T"), None)).result(_WAIT_S)
        fire(adapter, topic, FiredJob(other.job_id, 5))
        assert topic.subscription_message_count(ANN) == 1
        assert topic.message_count == 1
        assert jobs.job_count() == 0

    def test_a_held_job_is_not_due(self, adapter: PersistenceAdapter, jobs: JobStore) -> None:
        keep(adapter, job := scheduled_job(1, 5))
        adapter.commit_together(Commit(jobs=[FiredJob(job.job_id, 5, HELD_MS)])).result(_WAIT_S)
        assert jobs.next_due_ms() is None
        assert names(jobs.due_jobs(HELD_MS, 9, _ROOMY_BYTES).jobs) == []
        assert names(jobs.jobs(None, 9, _ROOMY_BYTES).jobs) == [1]

    # -- removing ------------------------------------------------------------------------------------------------

    def test_remove_one_some_and_all(self, adapter: PersistenceAdapter, jobs: JobStore) -> None:
        keep(adapter, *(scheduled_job(n, n) for n in range(10)))
        jobs.remove_job(scheduled_job(4, 0).job_id).result(_WAIT_S)
        jobs.remove_job("nobody").result(_WAIT_S)
        jobs.remove_jobs(6, 8).result(_WAIT_S)
        assert names(jobs.jobs(None, 99, _ROOMY_BYTES).jobs) == [0, 1, 2, 3, 5, 9]
        jobs.remove_jobs().result(_WAIT_S)
        assert jobs.job_count() == 0

    def test_delete_all_messages_forgets_jobs(self, adapter: PersistenceAdapter, jobs: JobStore) -> None:
        keep(adapter, scheduled_job(1, 5))
        adapter.delete_all_messages()
        assert jobs.next_due_ms() is None

    def test_a_stopped_store_says_so(self, open_adapter: OpenAdapter) -> None:
        adapter = open_adapter()
        with adapter:
            jobs = _job_store(adapter)
        with pytest.raises(StoreClosed):
            jobs.next_due_ms()
        with pytest.raises(StoreClosed):
            jobs.remove_job("any")


class DurableScheduleContract(ScheduleContract):
    """The suite for stores that outlive their process."""

    def test_jobs_survive_a_restart(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            keep(adapter, scheduled_job(1, 5, period_ms=10, repeat=2), scheduled_job(2, 6))
            queue = adapter.queue_message_store(Queue("TEST"))
            fire(adapter, queue, FiredJob(scheduled_job(1, 5).job_id, 5, 15, 1))
        with open_adapter() as adapter:
            found = _job_store(adapter).jobs(None, 9, _ROOMY_BYTES).jobs
            assert [(job.due_ms, job.repeat) for job in found] == [(6, 0), (15, 1)]
            assert adapter.queue_message_store(Queue("TEST")).message_count == 1


def keep(adapter: PersistenceAdapter, *jobs: ScheduledJob) -> None:
    """Store jobs."""
    adapter.commit_together(Commit(jobs=jobs)).result(_WAIT_S)


def fire(adapter: PersistenceAdapter, store: MessageStore, job: FiredJob) -> None:
    """Fire a job that sends to a store."""
    number = int(job.job_id.rpartition(":")[2])
    adapter.commit_together(Commit(adds=[(store, text_message(number))], jobs=[job])).result(_WAIT_S)


def names(jobs: Sequence[ScheduledJob]) -> list[int]:
    """The numbers of some jobs."""
    return [int(job.job_id.rpartition(":")[2]) for job in jobs]


def _job_store(adapter: PersistenceAdapter) -> JobStore:
    assert isinstance(adapter, SupportsScheduling)
    return adapter.job_store()
