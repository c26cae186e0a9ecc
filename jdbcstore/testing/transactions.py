"""What every store with transactions must do, as tests; beside the suites for every store and for topics.

Use it like this::

    class TestMyTransactions(DurableTransactionContract):
        @pytest.fixture
        def open_adapter(self, tmp_path):
            return lambda: MyAdapter(tmp_path / "store")
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import StoreClosed, StoreError, UnknownTransaction
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, MessageId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import (
    Cursor,
    MessageStore,
    Page,
    PersistenceAdapter,
    PreparedTransaction,
    SupportsTopics,
    SupportsTransactions,
    TopicMessageStore,
    Transaction,
    TransactionStore,
)
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.contract import OpenAdapter
from jdbcstore.testing.messages import PRODUCER, text_message

__all__ = ["DurableTransactionContract", "TransactionContract"]

#: How long a write may take before a test calls it lost.
_WAIT_S = 30.0
_ROOMY_BYTES = 1 << 30

QUEUE = Queue("TEST")
OTHER = Queue("OTHER")
#: One that stores remember while it is empty.
KEPT = Queue("Consumer.A.VirtualTopic.X")
TOPIC = Topic("T")
ANN = SubscriptionKey("ann", "news")
BOB = SubscriptionKey("bob", "news")
BRANCH = b"branch"


class TransactionContract:
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
    def queue(self, adapter: PersistenceAdapter) -> MessageStore:
        """The store of queue TEST."""
        return adapter.queue_message_store(QUEUE)

    @pytest.fixture
    def topic(self, adapter: PersistenceAdapter) -> TopicMessageStore:
        """The store of topic T, with subscriptions of ann and bob."""
        return _topic(adapter, ANN, BOB)

    # -- local transactions --------------------------------------------------------------------------------------

    def test_nothing_is_seen_before_the_commit_and_all_of_it_after(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        _add(queue, 1, 2)
        _add(topic, 3, 4)
        transaction = _begin(adapter, _local())
        transaction.add_message(queue, text_message(5))
        transaction.add_message(topic, text_message(6))
        transaction.remove_message(queue, _id(queue, 1))
        transaction.acknowledge(topic, ANN, _id(topic, 3))
        assert (_numbers(queue), _left(topic, ANN), _left(topic, BOB)) == ([1, 2], [3, 4], [3, 4])
        transaction.commit().result(_WAIT_S)
        assert (_numbers(queue), _left(topic, ANN), _left(topic, BOB)) == ([2, 5], [4, 6], [3, 4, 6])
        assert (queue.message_count, topic.subscription_message_count(ANN)) == (2, 2)

    def test_a_rollback_leaves_everything_as_it_was(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        _add(queue, 1)
        _add(topic, 2)
        transaction = _begin(adapter, _local())
        transaction.add_message(queue, text_message(3))
        transaction.remove_message(queue, _id(queue, 1))
        transaction.acknowledge(topic, ANN, _id(topic, 2))
        transaction.rollback().result(_WAIT_S)
        assert (_numbers(queue), _left(topic, ANN)) == ([1], [2])

    def test_the_order_is_that_of_the_commits(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        first, second = _begin(adapter, _local()), _begin(adapter, _local())
        for store in (queue, topic):
            first.add_message(store, text_message(1))
            second.add_message(store, text_message(2))
        second.commit().result(_WAIT_S)
        cursor = _page(queue).cursor
        seen = topic.recover_next_subscription_messages(ANN, Cursor(), 10, _ROOMY_BYTES).cursor
        first.commit().result(_WAIT_S)
        assert [_number(m) for m in queue.recover_next_messages(cursor, 10, _ROOMY_BYTES).messages] == [1]
        found = topic.recover_next_subscription_messages(ANN, seen, 10, _ROOMY_BYTES)
        assert [_number(m) for m in found.messages] == [1]
        assert _numbers(queue) == [2, 1]

    def test_a_message_may_be_acknowledged_in_the_transaction_that_adds_it(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        message = text_message(1)
        transaction = _begin(adapter, _local())
        transaction.add_message(topic, message)
        assert message.message_id is not None
        transaction.acknowledge(topic, ANN, message.message_id)
        transaction.commit().result(_WAIT_S)
        assert (_left(topic, ANN), _left(topic, BOB)) == ([], [1])

    def test_a_transaction_that_is_over_takes_nothing_more(
        self, adapter: PersistenceAdapter, queue: MessageStore
    ) -> None:
        for end in ("commit", "rollback"):
            transaction = _begin(adapter, _local())
            transaction.add_message(queue, text_message(1))
            getattr(transaction, end)().result(_WAIT_S)
            for again in (transaction.commit, transaction.rollback):
                with pytest.raises(StoreError, match="already"):
                    again()
            with pytest.raises(StoreError, match="already"):
                transaction.add_message(queue, text_message(2))
        assert _numbers(queue) == [1]

    def test_a_local_transaction_cannot_be_prepared(self, adapter: PersistenceAdapter) -> None:
        with pytest.raises(StoreError, match="local"):
            _begin(adapter, _local()).prepare()

    def test_one_id_is_one_transaction_at_a_time(self, adapter: PersistenceAdapter) -> None:
        for transaction_id in (_local(), _xid()):
            begun = _begin(adapter, transaction_id)
            with pytest.raises(StoreError, match="already"):
                _begin(adapter, transaction_id)
            begun.rollback().result(_WAIT_S)
            _begin(adapter, transaction_id).rollback().result(_WAIT_S)

    def test_an_xa_transaction_may_be_committed_in_one_phase(
        self, adapter: PersistenceAdapter, queue: MessageStore
    ) -> None:
        transaction = _begin(adapter, _xid())
        transaction.add_message(queue, text_message(1))
        transaction.commit().result(_WAIT_S)
        assert _numbers(queue) == [1]
        assert _prepared(adapter) == {}

    # -- prepared: what is added ---------------------------------------------------------------------------------

    def test_what_is_added_in_doubt_is_not_seen(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        _add(queue, 1)
        _prepare(adapter, _xid(), adds=[(queue, 2), (topic, 3)])
        assert (_numbers(queue), queue.message_count) == ([1], 1)
        assert (_left(topic, ANN), topic.subscription_message_count(ANN)) == ([], 0)
        assert queue.get_message(MessageId(PRODUCER, 2)) is None

    def test_committed_it_is_behind_everything_that_was_committed_before(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        xid = _prepare(adapter, _xid(), adds=[(queue, 1), (topic, 2), (queue, 3), (topic, 4)])
        _add(queue, 5)
        _add(topic, 6)
        cursor = _page(queue).cursor
        seen = topic.recover_next_subscription_messages(ANN, Cursor(), 10, _ROOMY_BYTES).cursor
        topic.acknowledge(ANN, _id(topic, 6)).result(_WAIT_S)
        _store(adapter).commit_prepared(xid).result(_WAIT_S)
        assert (_numbers(queue), _left(topic, BOB), _left(topic, ANN)) == ([5, 1, 3], [6, 2, 4], [2, 4])
        assert [_number(m) for m in queue.recover_next_messages(cursor, 10, _ROOMY_BYTES).messages] == [1, 3]
        found = topic.recover_next_subscription_messages(ANN, seen, 10, _ROOMY_BYTES)
        assert [_number(m) for m in found.messages] == [2, 4]
        assert (queue.message_count, topic.message_count) == (3, 3)
        assert (topic.subscription_message_count(ANN), topic.subscription_message_count(BOB)) == (2, 3)
        assert _add(queue, 7) > max(_sequences(queue)[:-1])

    def test_rolled_back_it_is_gone(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        xid = _prepare(adapter, _xid(), adds=[(queue, 1), (topic, 2)])
        _store(adapter).rollback_prepared(xid).result(_WAIT_S)
        assert (_numbers(queue), _left(topic, ANN)) == ([], [])
        assert (queue.message_count, topic.message_count) == (0, 0)
        assert _prepared(adapter) == {}

    def test_a_subscription_that_began_between_gets_what_is_committed_after_it(
        self, adapter: PersistenceAdapter
    ) -> None:
        topic = _topic(adapter)
        first, second = (_prepare(adapter, _xid(), adds=[(topic, n)]) for n in (1, 2))
        _store(adapter).commit_prepared(first).result(_WAIT_S)
        _subscribe(topic, ANN)
        _store(adapter).commit_prepared(second).result(_WAIT_S)
        assert _left(topic, ANN) == [2]
        topic.acknowledge(ANN, _id(topic, 2)).result(_WAIT_S)
        _clean_up(adapter)
        assert topic.message_count == 0

    def test_what_is_committed_on_a_topic_is_acknowledged_like_all_else(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _add(topic, 1)
        xid = _prepare(adapter, _xid(), adds=[(topic, 2), (topic, 3)])
        _add(topic, 4)
        _store(adapter).commit_prepared(xid).result(_WAIT_S)
        _add(topic, 5)
        for number in (3, 1, 5, 2, 4):
            topic.acknowledge(ANN, _id(topic, number)).result(_WAIT_S)
            topic.acknowledge(BOB, _id(topic, number)).result(_WAIT_S)
        assert (_left(topic, ANN), topic.subscription_message_count(ANN)) == ([], 0)
        _clean_up(adapter)
        assert topic.message_count == 0

    # -- prepared: what is removed -------------------------------------------------------------------------------

    def test_what_is_removed_in_doubt_is_hidden_and_comes_back_to_its_old_place(
        self, adapter: PersistenceAdapter, queue: MessageStore
    ) -> None:
        _add(queue, 1, 2, 3, 4)
        xid = _prepare(adapter, _xid(), removes=[(queue, 2), (queue, 3)])
        assert (_numbers(queue), queue.message_count) == ([1, 4], 2)
        assert queue.get_message(MessageId(PRODUCER, 2)) is None
        _add(queue, 5)
        _store(adapter).rollback_prepared(xid).result(_WAIT_S)
        assert (_numbers(queue), queue.message_count) == ([1, 2, 3, 4, 5], 5)

    def test_committed_it_is_gone(self, adapter: PersistenceAdapter, queue: MessageStore) -> None:
        _add(queue, 1, 2, 3)
        xid = _prepare(adapter, _xid(), removes=[(queue, 2)])
        _store(adapter).commit_prepared(xid).result(_WAIT_S)
        assert (_numbers(queue), queue.message_count) == ([1, 3], 2)

    def test_a_message_to_remove_may_be_known_by_its_producer(
        self, adapter: PersistenceAdapter, queue: MessageStore
    ) -> None:
        _add(queue, 1, 2)
        _add(adapter.queue_message_store(OTHER), 2)
        transaction = _begin(adapter, _xid())
        transaction.remove_message(queue, MessageId(PRODUCER, 2))
        transaction.prepare().result(_WAIT_S)
        assert (_numbers(queue), _numbers(adapter.queue_message_store(OTHER))) == ([1], [2])
        transaction.rollback().result(_WAIT_S)
        assert _numbers(queue) == [1, 2]

    def test_what_one_removes_in_doubt_another_cannot(self, adapter: PersistenceAdapter, queue: MessageStore) -> None:
        _add(queue, 1, 2)
        one = _id(queue, 1)
        first = _prepare(adapter, _xid(), removes=[(queue, 1)])
        second = _begin(adapter, _xid())
        second.remove_message(queue, one)
        second.remove_message(queue, _id(queue, 2))
        with pytest.raises(StoreError, match="in doubt"):
            second.prepare().result(_WAIT_S)
        assert (_numbers(queue), list(_prepared(adapter))) == ([2], [first])
        _store(adapter).rollback_prepared(first).result(_WAIT_S)
        second.prepare().result(_WAIT_S)  # it has lost nothing
        assert _numbers(queue) == []

    def test_removing_what_is_not_there_is_not_an_error(self, adapter: PersistenceAdapter, queue: MessageStore) -> None:
        _add(queue, 1)
        gone = _id(queue, 1)
        queue.remove_message(gone).result(_WAIT_S)
        transaction = _begin(adapter, _xid())
        transaction.remove_message(queue, gone)
        transaction.remove_message(queue, MessageId(PRODUCER, 77))
        transaction.prepare().result(_WAIT_S)
        assert queue.message_count == 0
        transaction.commit().result(_WAIT_S)
        assert queue.message_count == 0

    def test_nobody_else_removes_what_is_in_doubt(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        _add(queue, 1, 2)
        _add(topic, 3)
        one = _id(queue, 1)
        xid = _prepare(adapter, _xid(), adds=[(queue, 4), (topic, 5)], removes=[(queue, 1)])
        queue.remove_message(one).result(_WAIT_S)
        queue.remove_message(MessageId(PRODUCER, 1)).result(_WAIT_S)
        queue.remove_message(MessageId(PRODUCER, 4)).result(_WAIT_S)
        assert (_numbers(queue), queue.message_count) == ([2], 1)
        queue.remove_all_messages().result(_WAIT_S)
        topic.remove_all_messages().result(_WAIT_S)
        assert (queue.message_count, topic.message_count) == (0, 0)
        _clean_up(adapter)
        _store(adapter).rollback_prepared(xid).result(_WAIT_S)
        assert (_numbers(queue), queue.message_count) == ([1], 1)
        xid = _prepare(adapter, _xid(), adds=[(queue, 6), (topic, 7)])
        queue.remove_all_messages().result(_WAIT_S)
        topic.remove_all_messages().result(_WAIT_S)
        _store(adapter).commit_prepared(xid).result(_WAIT_S)
        assert (_numbers(queue), _left(topic, ANN)) == ([6], [7])

    def test_what_is_in_doubt_does_not_expire(self, adapter: PersistenceAdapter, queue: MessageStore) -> None:
        for number in (1, 2):
            queue.add_message(text_message(number, expiration=1000)).result(_WAIT_S)
        one = _id(queue, 1).broker_sequence_id
        transaction = _begin(adapter, _xid())
        transaction.add_message(queue, text_message(3, expiration=1000))
        transaction.remove_message(queue, _id(queue, 2))
        transaction.prepare().result(_WAIT_S)
        assert [found.sequence for found in adapter.expired_messages(2000, 10).messages] == [one]
        transaction.rollback().result(_WAIT_S)
        two = _id(queue, 2).broker_sequence_id
        assert [found.sequence for found in adapter.expired_messages(2000, 10).messages] == [one, two]

    @pytest.mark.parametrize("commits", [True, False])
    def test_what_is_acknowledged_in_doubt_does_not_expire_for_that_subscription(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore, commits: bool
    ) -> None:
        for number in (1, 2):
            topic.add_message(text_message(number, expiration=1000)).result(_WAIT_S)
        one, two = _id(topic, 1).broker_sequence_id, _id(topic, 2).broker_sequence_id
        xid = _prepare(adapter, _xid(), acknowledges=[(topic, ANN, 1)])
        found = {one.sequence: set(one.subscriptions) for one in adapter.expired_messages(2000, 10).messages}
        assert found == {one: {BOB}, two: {ANN, BOB}}
        store = _store(adapter)
        (store.commit_prepared(xid) if commits else store.rollback_prepared(xid)).result(_WAIT_S)
        found = {one.sequence: set(one.subscriptions) for one in adapter.expired_messages(2000, 10).messages}
        assert found == {one: {BOB} if commits else {ANN, BOB}, two: {ANN, BOB}}

    def test_a_destination_that_was_deleted_is_back_when_something_is_committed_to_it(
        self, adapter: PersistenceAdapter, queue: MessageStore
    ) -> None:
        xid = _prepare(adapter, _xid(), adds=[(queue, 1)])
        adapter.remove_destination(QUEUE).result(_WAIT_S)
        assert QUEUE not in adapter.destinations()
        queue = adapter.queue_message_store(QUEUE)
        _store(adapter).commit_prepared(xid).result(_WAIT_S)
        assert QUEUE in adapter.destinations()
        assert _numbers(queue) == [1]

    @pytest.mark.parametrize("name", [QUEUE, KEPT])
    def test_what_is_removed_in_doubt_outlives_its_destination(self, adapter: PersistenceAdapter, name: Queue) -> None:
        queue = adapter.queue_message_store(name)
        _add(queue, 1)
        xid = _prepare(adapter, _xid(), removes=[(queue, 1)])
        adapter.remove_destination(name).result(_WAIT_S)
        queue = adapter.queue_message_store(name)
        _store(adapter).rollback_prepared(xid).result(_WAIT_S)
        assert (_numbers(queue), queue.message_count) == ([1], 1)

    # -- prepared: what is acknowledged --------------------------------------------------------------------------

    @pytest.mark.parametrize("prioritized", [False, True])
    def test_what_is_acknowledged_in_doubt_is_hidden_from_that_subscription_only(
        self, adapter: PersistenceAdapter, prioritized: bool
    ) -> None:
        topic = _topic(adapter, ANN, BOB, prioritized=prioritized)
        _add(topic, *range(10))
        everything = _left(topic, BOB)
        xid = _prepare(adapter, _xid(), acknowledges=[(topic, ANN, n) for n in (0, 1, 5, 6, 9)])
        hidden = [n for n in everything if n not in (0, 1, 5, 6, 9)]
        assert (_left(topic, ANN), topic.subscription_message_count(ANN)) == (hidden, 5)
        assert (_left(topic, BOB), topic.subscription_message_count(BOB)) == (everything, 10)
        assert topic.message_count == 10
        _store(adapter).rollback_prepared(xid).result(_WAIT_S)
        assert (_left(topic, ANN), topic.subscription_message_count(ANN)) == (everything, 10)
        xid = _prepare(adapter, _xid(), acknowledges=[(topic, ANN, n) for n in (0, 1, 5, 6, 9)])
        _store(adapter).commit_prepared(xid).result(_WAIT_S)
        assert (_left(topic, ANN), topic.subscription_message_count(ANN)) == (hidden, 5)
        assert (_left(topic, BOB), topic.subscription_message_count(BOB)) == (everything, 10)

    @pytest.mark.parametrize("first_commits", [False, True])
    @pytest.mark.parametrize("second_commits", [False, True])
    def test_two_transactions_acknowledge_for_one_subscription(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore, first_commits: bool, second_commits: bool
    ) -> None:
        _add(topic, *range(8))
        first = _prepare(adapter, _xid(), acknowledges=[(topic, ANN, 0), (topic, ANN, 3)])
        second = _prepare(adapter, _xid(), acknowledges=[(topic, ANN, 1), (topic, ANN, 4)])
        assert _left(topic, ANN) == [2, 5, 6, 7]
        topic.acknowledge(ANN, _id(topic, 6)).result(_WAIT_S)
        assert (_left(topic, ANN), topic.subscription_message_count(ANN)) == ([2, 5, 7], 3)
        _decide(adapter, second, commits=second_commits)
        expected = {2, 5, 7} | (set() if second_commits else {1, 4})
        assert _left(topic, ANN) == sorted(expected)
        _decide(adapter, first, commits=first_commits)
        expected |= set() if first_commits else {0, 3}
        assert _left(topic, ANN) == sorted(expected)
        assert topic.subscription_message_count(ANN) == len(expected)
        assert _prepared(adapter) == {}

    def test_what_is_acknowledged_in_doubt_is_not_cleaned_up(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _add(topic, 1, 2, 3)
        xid = _prepare(adapter, _xid(), acknowledges=[(topic, ANN, 1), (topic, ANN, 2)])
        for number in (1, 2, 3):
            topic.acknowledge(BOB, _id(topic, number)).result(_WAIT_S)
        topic.acknowledge(ANN, _id(topic, 3)).result(_WAIT_S)
        _clean_up(adapter)
        _store(adapter).rollback_prepared(xid).result(_WAIT_S)
        assert _left(topic, ANN) == [1, 2]
        xid = _prepare(adapter, _xid(), acknowledges=[(topic, ANN, 1), (topic, ANN, 2)])
        _store(adapter).commit_prepared(xid).result(_WAIT_S)
        _clean_up(adapter)
        assert topic.message_count == 0

    def test_a_subscription_may_end_while_it_acknowledges_in_doubt(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _add(topic, 1, 2)
        xid = _prepare(adapter, _xid(), acknowledges=[(topic, ANN, 1)])
        topic.delete_subscription(ANN).result(_WAIT_S)
        _subscribe(topic, ANN, retroactive=True)
        assert _left(topic, ANN) == [1, 2]
        _store(adapter).commit_prepared(xid).result(_WAIT_S)
        assert (_left(topic, ANN), _left(topic, BOB)) == ([1, 2], [1, 2])

    def test_messages_of_a_topic_are_not_removed_in_xa(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _add(topic, 1)
        with pytest.raises(StoreError, match="acknowledge"):
            _begin(adapter, _xid()).remove_message(topic, _id(topic, 1))

    # -- outcomes ------------------------------------------------------------------------------------------------

    def test_everything_in_doubt_is_listed(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        _add(queue, 1, 2)
        _add(topic, 3, 4)
        removed, acknowledged = _id(queue, 2), _id(topic, 4)
        first = _prepare(adapter, _xid(), adds=[(queue, 5), (topic, 6)], removes=[(queue, 2)])
        second = _prepare(adapter, _xid(), acknowledges=[(topic, BOB, 4)])
        found = _prepared(adapter)
        assert set(found) == {first, second}
        assert [_number(message) for message in found[first].added] == [5, 6]
        assert {message.transaction_id for message in found[first].added} == {first}
        ((destination, message_id),) = found[first].removed
        assert (destination, message_id.broker_sequence_id) == (QUEUE, removed.broker_sequence_id)
        ((destination, key, message_id),) = found[second].acknowledged
        assert (destination, key) == (TOPIC, BOB)
        assert message_id.broker_sequence_id == acknowledged.broker_sequence_id
        assert (found[first].acknowledged, found[second].added, found[second].removed) == ([], [], [])

    def test_an_unknown_transaction_has_no_outcome(self, adapter: PersistenceAdapter, queue: MessageStore) -> None:
        store = _store(adapter)
        begun = _xid()
        _begin(adapter, begun)
        for xid in (_xid(), begun):
            with pytest.raises(UnknownTransaction):
                store.commit_prepared(xid)
            with pytest.raises(UnknownTransaction):
                store.rollback_prepared(xid)
        decided = _prepare(adapter, _xid(), adds=[(queue, 1)])
        store.commit_prepared(decided).result(_WAIT_S)
        with pytest.raises(UnknownTransaction):
            store.commit_prepared(decided)
        with pytest.raises(UnknownTransaction):
            store.rollback_prepared(decided)
        assert _numbers(queue) == [1]

    def test_a_prepared_transaction_takes_nothing_more(self, adapter: PersistenceAdapter, queue: MessageStore) -> None:
        transaction = _begin(adapter, xid := _xid())
        transaction.add_message(queue, text_message(1))
        transaction.prepare().result(_WAIT_S)
        with pytest.raises(StoreError, match="already"):
            transaction.prepare()
        with pytest.raises(StoreError, match="already"):
            transaction.add_message(queue, text_message(2))
        with pytest.raises(StoreError, match="already"):
            _begin(adapter, xid)
        transaction.commit().result(_WAIT_S)
        with pytest.raises(UnknownTransaction):
            transaction.commit()
        assert _numbers(queue) == [1]

    def test_branches_of_one_transaction_are_decided_apart(
        self, adapter: PersistenceAdapter, queue: MessageStore
    ) -> None:
        other = adapter.queue_message_store(OTHER)
        _add(queue, 1)
        source = XATransactionId(1, b"move", b"source")
        target = XATransactionId(1, b"move", b"target")
        for commits in (False, True):
            _prepare(adapter, source, removes=[(queue, 1)])
            _prepare(adapter, target, adds=[(other, 1)])
            assert (_numbers(queue), _numbers(other)) == ([], [])
            _decide(adapter, target, commits=commits)
            assert (_numbers(queue), _numbers(other)) == ([], [1] if commits else [])
            _decide(adapter, source, commits=commits)
            assert (_numbers(queue), _numbers(other)) == (([], [1]) if commits else ([1], []))

    def test_an_empty_transaction_may_be_prepared(self, adapter: PersistenceAdapter) -> None:
        for end in ("commit", "rollback"):
            transaction = _begin(adapter, _xid())
            transaction.prepare().result(_WAIT_S)
            getattr(transaction, end)().result(_WAIT_S)

    def test_ids_of_any_bytes(self, adapter: PersistenceAdapter, queue: MessageStore) -> None:
        ids = [
            XATransactionId(-(1 << 31), bytes(range(64)), bytes(range(192, 256))),
            XATransactionId((1 << 31) - 1, b"\xff" * 64, b""),
            XATransactionId(0, b"", b"+"),
            XATransactionId(0, b"+", b""),
        ]
        for number, xid in enumerate(ids):
            _prepare(adapter, xid, adds=[(queue, number)])
        assert {xid: [_number(m) for m in one.added] for xid, one in _prepared(adapter).items()} == {
            xid: [number] for number, xid in enumerate(ids)
        }
        for xid in reversed(ids):
            _store(adapter).commit_prepared(xid).result(_WAIT_S)
        assert _numbers(queue) == [3, 2, 1, 0]

    def test_a_large_transaction_is_one_whole(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        _add(queue, *range(250))
        _add(topic, *range(250))
        ids = [_id_of(m) for m in _page(queue).messages]
        done = [_id_of(m) for m in topic.recover_next_subscription_messages(ANN, Cursor(), 1000, _ROOMY_BYTES).messages]
        transaction = _begin(adapter, _xid())
        for number in range(250):
            transaction.add_message(queue, text_message(1000 + number))
            transaction.remove_message(queue, ids[number])
            transaction.acknowledge(topic, ANN, done[number])
        transaction.prepare().result(_WAIT_S)
        assert (queue.message_count, _numbers(queue), _left(topic, ANN)) == (0, [], [])
        transaction.commit().result(_WAIT_S)
        assert _numbers(queue) == list(range(1000, 1250))
        assert (queue.message_count, topic.subscription_message_count(ANN)) == (250, 0)

    def test_deleting_everything_deletes_what_is_in_doubt(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        _add(queue, 1)
        _add(topic, 2)
        xid = _prepare(adapter, _xid(), adds=[(queue, 3)], removes=[(queue, 1)], acknowledges=[(topic, ANN, 2)])
        adapter.delete_all_messages()
        assert _prepared(adapter) == {}
        with pytest.raises(UnknownTransaction):
            _store(adapter).commit_prepared(xid)

    def test_a_stopped_store_begins_and_decides_nothing(self, open_adapter: OpenAdapter) -> None:
        adapter = open_adapter()
        with adapter:
            store = _store(adapter)
            transaction = store.begin(_xid())
            transaction.add_message(adapter.queue_message_store(QUEUE), text_message(1))
        for action in (transaction.prepare, transaction.commit, store.prepared_transactions):
            with pytest.raises((StoreClosed, StoreError)):
                action()

    def test_many_threads_prepare_and_decide_while_it_is_cleaned_up(
        self, adapter: PersistenceAdapter, queue: MessageStore, topic: TopicMessageStore
    ) -> None:
        over = threading.Event()

        def work(thread: int) -> int:
            expected = 0
            for turn in range(20):
                number = thread * 1000 + turn
                removed = _add(queue, 5000 + number)
                transaction = _begin(adapter, XATransactionId(thread, str(turn).encode(), BRANCH))
                transaction.add_message(topic, text_message(number))
                transaction.add_message(queue, text_message(number))
                transaction.remove_message(queue, MessageId(None, 0, removed))
                transaction.prepare().result(_WAIT_S)
                (transaction.rollback if turn % 4 == 0 else transaction.commit)().result(_WAIT_S)
                expected += turn % 4 != 0
            return expected

        def clean() -> None:
            while not over.is_set():
                _clean_up(adapter)

        with ThreadPoolExecutor(4) as pool:
            cleaning = pool.submit(clean)
            committed = sum(pool.map(work, range(3)))
            over.set()
            cleaning.result(_WAIT_S)
        assert len(_left(topic, ANN)) == len(_left(topic, BOB)) == committed
        assert (len(_numbers(queue)), queue.message_count) == (60, 60)
        assert _prepared(adapter) == {}


class DurableTransactionContract(TransactionContract):
    """The suite for stores that survive their process. ``open_adapter`` opens the same storage each time."""

    def test_what_was_not_prepared_is_forgotten(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            queue = adapter.queue_message_store(QUEUE)
            _add(queue, 1)
            transaction = _begin(adapter, _xid())
            transaction.add_message(queue, text_message(2))
            transaction.remove_message(queue, _id(queue, 1))
        with open_adapter() as adapter:
            assert _numbers(adapter.queue_message_store(QUEUE)) == [1]
            assert _prepared(adapter) == {}

    @pytest.mark.parametrize("abandoned", [False, True])
    @pytest.mark.parametrize("commits", [False, True])
    @pytest.mark.parametrize("prioritized", [False, True])
    def test_what_is_in_doubt_survives(
        self, open_adapter: OpenAdapter, commits: bool, abandoned: bool, prioritized: bool
    ) -> None:
        adapter = open_adapter()
        adapter.start()
        queue, topic = adapter.queue_message_store(QUEUE), _topic(adapter, ANN, BOB, prioritized=prioritized)
        _add(queue, 1, 2, 3, 4)
        _add(topic, *range(10, 16))
        xid = _prepare(
            adapter,
            _xid(),
            adds=[(queue, 5), (topic, 20), (queue, 6)],
            removes=[(queue, 1), (queue, 3)],
            acknowledges=[(topic, ANN, n) for n in (10, 11, 14)],
        )
        before = _prepared(adapter)[xid]
        if abandoned:
            adapter.abandon()
            adapter.start()  # which waits until nobody writes any more; another adapter would find the store locked
        adapter.stop()
        adapter = open_adapter()
        with adapter:
            queue, topic = adapter.queue_message_store(QUEUE), _topic(adapter, prioritized=prioritized)
            found = _prepared(adapter)
            assert set(found) == {xid}
            assert [_number(m) for m in found[xid].added] == [5, 20, 6]
            assert _sequences_of(found[xid]) == _sequences_of(before)
            assert (_numbers(queue), queue.message_count) == ([2, 4], 2)
            assert (sorted(_left(topic, ANN)), topic.subscription_message_count(ANN)) == ([12, 13, 15], 3)
            assert (sorted(_left(topic, BOB)), topic.subscription_message_count(BOB)) == (list(range(10, 16)), 6)
            _add(queue, 7)
            _add(topic, 21)
            _decide(adapter, xid, commits=commits)
            expected = [2, 4, 7, 5, 6] if commits else [1, 2, 3, 4, 7]
            assert (_numbers(queue), queue.message_count) == (expected, 5)
            of_ann = {12, 13, 15, 21, 20} if commits else {*range(10, 16), 21}
            of_bob = {*range(10, 16), 21, 20} if commits else {*range(10, 16), 21}
        with open_adapter() as adapter:
            queue, topic = adapter.queue_message_store(QUEUE), _topic(adapter, prioritized=prioritized)
            assert _prepared(adapter) == {}
            assert (_numbers(queue), queue.message_count) == (expected, 5)
            assert (set(_left(topic, ANN)), topic.subscription_message_count(ANN)) == (of_ann, len(of_ann))
            assert (set(_left(topic, BOB)), topic.subscription_message_count(BOB)) == (of_bob, len(of_bob))
            with pytest.raises(UnknownTransaction):
                _store(adapter).commit_prepared(xid)

    def test_transactions_that_acknowledge_for_one_subscription_survive_together(
        self, open_adapter: OpenAdapter
    ) -> None:
        with open_adapter() as adapter:
            topic = _topic(adapter, ANN)
            _add(topic, *range(9))
            ids = [_prepare(adapter, _xid(), acknowledges=[(topic, ANN, n), (topic, ANN, n + 3)]) for n in range(3)]
        for done, xid in enumerate(ids):
            with open_adapter() as adapter:
                topic = _topic(adapter)
                assert set(_prepared(adapter)) == set(ids[done:])
                assert _left(topic, ANN) == [n for n in range(9) if n >= 6 or (n % 3 == 1 and done == 2)]
                _decide(adapter, xid, commits=done != 1)
        with open_adapter() as adapter:
            assert _left(_topic(adapter), ANN) == [1, 4, 6, 7, 8]

    def test_sequences_go_on_behind_what_is_in_doubt(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            queue = adapter.queue_message_store(QUEUE)
            xid = _prepare(adapter, _xid(), adds=[(queue, 1), (queue, 2)])
            given = adapter.last_message_broker_sequence_id()
        with open_adapter() as adapter:
            queue = adapter.queue_message_store(QUEUE)
            assert _add(queue, 3) > given
            _store(adapter).commit_prepared(xid).result(_WAIT_S)
        with open_adapter() as adapter:
            assert _numbers(adapter.queue_message_store(QUEUE)) == [3, 1, 2]

    def test_heuristic_outcomes_one_after_the_other(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            queue = adapter.queue_message_store(QUEUE)
            ids = [_prepare(adapter, _xid(), adds=[(queue, number)]) for number in range(4)]
        with open_adapter() as adapter:
            queue = adapter.queue_message_store(QUEUE)
            assert (set(_prepared(adapter)), queue.message_count) == (set(ids), 0)
            for number, xid in enumerate(ids):
                _decide(adapter, xid, commits=number % 2 == 0)
            assert (_prepared(adapter), _numbers(queue), queue.message_count) == ({}, [0, 2], 2)

    def test_outcomes_in_another_order_and_over_a_restart(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            queue = adapter.queue_message_store(QUEUE)
            _add(queue, *range(20))
            ids = [_prepare(adapter, _xid(), removes=[(queue, number)]) for number in range(10)]
            for xid in (ids[7], ids[2]):
                _store(adapter).rollback_prepared(xid).result(_WAIT_S)
            assert _numbers(queue) == [2, 7, *range(10, 20)]
        with open_adapter() as adapter:
            queue = adapter.queue_message_store(QUEUE)
            assert (_numbers(queue), queue.message_count) == ([2, 7, *range(10, 20)], 12)
            for xid in reversed([xid for number, xid in enumerate(ids) if number not in (2, 7)]):
                _store(adapter).rollback_prepared(xid).result(_WAIT_S)
            assert (_numbers(queue), queue.message_count) == (list(range(20)), 20)


# -- what the tests are written with ---------------------------------------------------------------------------------

_counter = count(1)


def _local() -> LocalTransactionId:
    return LocalTransactionId(next(_counter), ConnectionId("ID:test"))


def _xid() -> XATransactionId:
    return XATransactionId(55, f"global-{next(_counter)}".encode(), BRANCH)


def _store(adapter: PersistenceAdapter) -> TransactionStore:
    assert isinstance(adapter, SupportsTransactions)
    return adapter.transaction_store()


def _begin(adapter: PersistenceAdapter, transaction_id: LocalTransactionId | XATransactionId) -> Transaction:
    return _store(adapter).begin(transaction_id)


def _prepare(
    adapter: PersistenceAdapter,
    xid: XATransactionId,
    adds: Sequence[tuple[MessageStore, int]] = (),
    removes: Sequence[tuple[MessageStore, int]] = (),
    acknowledges: Sequence[tuple[TopicMessageStore, SubscriptionKey, int]] = (),
) -> XATransactionId:
    """Prepare a transaction of messages that are known by number; its id."""
    transaction = _begin(adapter, xid)
    for store, number in adds:
        transaction.add_message(store, text_message(number, priority=number % 10))
    for store, number in removes:
        transaction.remove_message(store, _id(store, number))
    for topic, key, number in acknowledges:
        transaction.acknowledge(topic, key, _id(topic, number))
    transaction.prepare().result(_WAIT_S)
    return xid


def _decide(adapter: PersistenceAdapter, xid: XATransactionId, *, commits: bool) -> None:
    store = _store(adapter)
    (store.commit_prepared if commits else store.rollback_prepared)(xid).result(_WAIT_S)


def _prepared(adapter: PersistenceAdapter) -> dict[XATransactionId, PreparedTransaction]:
    return {one.transaction_id: one for one in _store(adapter).prepared_transactions()}


def _sequences_of(one: PreparedTransaction) -> tuple[list[int], list[int], list[int]]:
    return (
        [_id_of(message).broker_sequence_id for message in one.added],
        sorted(message_id.broker_sequence_id for _, message_id in one.removed),
        sorted(message_id.broker_sequence_id for _, _, message_id in one.acknowledged),
    )


def _topic(adapter: PersistenceAdapter, *keys: SubscriptionKey, prioritized: bool = False) -> TopicMessageStore:
    assert isinstance(adapter, SupportsTopics)
    topic = adapter.topic_message_store(TOPIC, prioritized=prioritized)
    _subscribe(topic, *keys)
    return topic


def _subscribe(topic: TopicMessageStore, *keys: SubscriptionKey, retroactive: bool = False) -> None:
    for key in keys:
        topic.add_subscription(SubscriptionInfo(key, TOPIC, TOPIC), retroactive=retroactive).result(_WAIT_S)


def _clean_up(adapter: PersistenceAdapter) -> None:
    assert isinstance(adapter, SupportsTopics)
    adapter.clean_up()


def _add(store: MessageStore, *numbers: int) -> int:
    """Add messages; the sequence of the last."""
    pending: list[Completion[int]] = [store.add_message(text_message(n, priority=n % 10)) for n in numbers]
    return [completion.result(_WAIT_S) for completion in pending][-1]


def _page(store: MessageStore) -> Page:
    return store.recover_next_messages(Cursor(), 10_000, _ROOMY_BYTES)


def _numbers(store: MessageStore) -> list[int]:
    return [_number(message) for message in store.recover_next_messages(Cursor(), 10_000, _ROOMY_BYTES).messages]


def _sequences(store: MessageStore) -> list[int]:
    return [_id_of(message).broker_sequence_id for message in store.recover()]


def _left(topic: TopicMessageStore, key: SubscriptionKey) -> list[int]:
    page = topic.recover_next_subscription_messages(key, Cursor(), 10_000, _ROOMY_BYTES)
    return [_number(message) for message in page.messages]


def _id(store: MessageStore, number: int) -> MessageId:
    """The id of a message in a store, with its sequence."""
    found = store.get_message(MessageId(PRODUCER, number))
    assert found is not None, number
    return _id_of(found)


def _id_of(message: Message) -> MessageId:
    assert message.message_id is not None
    return message.message_id


def _number(message: Message) -> int:
    return _id_of(message).producer_sequence_id
