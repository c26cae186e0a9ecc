"""What every store with topics must do, as tests; beside the suite for every store.

Use it like this::

    class TestMyTopics(DurableTopicContract):
        @pytest.fixture
        def open_adapter(self, tmp_path):
            return lambda: MyAdapter(tmp_path / "store")
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import ConfigurationError, JdbcStoreError, StoreClosed, StoreError, TransientStoreError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message, TextMessage
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, Cursor, PersistenceAdapter, SupportsTopics, TopicMessageStore
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.contract import OpenAdapter
from jdbcstore.testing.messages import PRODUCER, text_message

__all__ = ["DurableTopicContract", "TopicContract"]

#: How long a write may take before a test calls it lost.
_WAIT_S = 30.0
_ROOMY_BYTES = 1 << 30

TOPIC = Topic("T")
ANN = SubscriptionKey("ann", "news")
BOB = SubscriptionKey("bob", "news")


class TopicContract:
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
    def topic(self, adapter: PersistenceAdapter) -> TopicMessageStore:
        """The store of topic T."""
        return _topic(adapter)

    @pytest.fixture
    def prioritized(self, adapter: PersistenceAdapter) -> TopicMessageStore:
        """The store of topic P, which is ordered by priority."""
        return _topic(adapter, Topic("P"), prioritized=True)

    # -- what is stored ------------------------------------------------------------------------------------------

    def test_without_a_subscription_nothing_is_stored(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        first, second = (topic.add_message(text_message(n)).result(_WAIT_S) for n in (1, 2))
        assert 0 < first < second == adapter.last_message_broker_sequence_id()
        assert topic.message_count == 0
        assert _texts(topic) == []
        assert adapter.destinations() == set()

    def test_a_subscription_gets_what_comes_after_it(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1, 2)
        _subscribe(topic, BOB)
        _add(topic, 3)
        assert _unacknowledged(topic, ANN) == [1, 2, 3]
        assert _unacknowledged(topic, BOB) == [3]

    def test_it_begins_where_it_was_asked_for_not_where_it_was_answered(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        writes: list[Completion[int] | Completion[None]] = [topic.add_message(text_message(n)) for n in range(50)]
        writes.append(topic.add_subscription(_info(topic, BOB)))
        writes += [topic.add_message(text_message(n)) for n in range(50, 60)]
        for write in writes:
            write.result(_WAIT_S)
        assert _unacknowledged(topic, BOB) == list(range(50, 60))
        assert _unacknowledged(topic, ANN) == list(range(60))

    def test_an_expired_message_tells_who_has_not_acknowledged_it(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _subscribe(topic, ANN, BOB)
        for number in (1, 2, 3):
            topic.add_message(text_message(number, destination=TOPIC, expiration=100)).result(_WAIT_S)
        topic.acknowledge(ANN, MessageId(None, 0, 1), MessageId(None, 0, 2)).result(_WAIT_S)
        topic.acknowledge(BOB, MessageId(None, 0, 2)).result(_WAIT_S)
        found = adapter.expired_messages(1000, 10).messages
        assert [(one.destination, one.sequence, set(one.subscriptions)) for one in found] == [
            (TOPIC, 1, {BOB}),
            (TOPIC, 3, {ANN, BOB}),
        ]

    def test_a_message_that_follows_the_first_subscription_is_kept_for_it(self, topic: TopicMessageStore) -> None:
        subscribed = topic.add_subscription(_info(topic, ANN))
        added = topic.add_message(text_message(1))
        subscribed.result(_WAIT_S)
        added.result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == [1]

    def test_a_message_is_stored_once_and_comes_back_byte_for_byte(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN, BOB)
        message = text_message(1, "größer 😀", destination=TOPIC)
        sequence = topic.add_message(message).result(_WAIT_S)
        assert topic.message_count == 1
        for key in (ANN, BOB):
            (found,) = _page(topic, key)
            assert isinstance(found, TextMessage)
            assert (found.text, found.destination) == ("größer 😀", TOPIC)
            assert _id(found).broker_sequence_id == sequence

    def test_a_topic_and_a_queue_of_one_name_are_two(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _subscribe(topic, ANN)
        queue = adapter.queue_message_store(Queue("T"))
        queue.add_message(text_message(1)).result(_WAIT_S)
        _add(topic, 2)
        assert _unacknowledged(topic, ANN) == [2]
        assert (queue.message_count, topic.message_count) == (1, 1)

    def test_the_same_topic_has_the_same_store(self, adapter: PersistenceAdapter) -> None:
        assert _topic(adapter) is _topic(adapter)

    def test_sequences_grow_over_queues_and_topics(self, adapter: PersistenceAdapter, topic: TopicMessageStore) -> None:
        queue = adapter.queue_message_store(Queue("Q"))
        given = [(queue, topic)[n % 2].add_message(text_message(n)).result(_WAIT_S) for n in range(4)]
        _subscribe(topic, ANN)
        given += [(queue, topic)[n % 2].add_message(text_message(n)).result(_WAIT_S) for n in range(4)]
        assert all(first < second for first, second in pairwise(given))

    # -- acknowledging -------------------------------------------------------------------------------------------

    def test_what_is_acknowledged_does_not_come_again(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN, BOB)
        _add(topic, 1, 2, 3)
        first = _page(topic, ANN)[0]
        topic.acknowledge(ANN, _id(first)).result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == [2, 3]
        assert _unacknowledged(topic, BOB) == [1, 2, 3]

    def test_a_message_may_be_known_by_its_producer(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1, 2, 3)
        topic.acknowledge(ANN, MessageId(PRODUCER, 2)).result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == [1, 3]

    def test_the_last_of_three_acknowledged_leaves_the_others(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1, 2, 3)
        _acknowledge(topic, ANN, 3)
        assert _unacknowledged(topic, ANN) == [1, 2]
        _acknowledge(topic, ANN, 1)
        assert _unacknowledged(topic, ANN) == [2]
        _acknowledge(topic, ANN, 2)
        assert _unacknowledged(topic, ANN) == []

    @pytest.mark.parametrize("seed", range(3))
    def test_acknowledgements_come_in_any_order(self, topic: TopicMessageStore, seed: int) -> None:
        _subscribe(topic, ANN, BOB)
        _add(topic, *range(60))
        order = random.Random(seed)
        left = list(range(60))
        while left:
            chosen = order.sample(left, min(len(left), order.randint(1, 12)))
            _acknowledge(topic, ANN, *chosen)
            left = [number for number in left if number not in chosen]
            assert _unacknowledged(topic, ANN) == left
            assert topic.subscription_message_count(ANN) == len(left)
        assert _unacknowledged(topic, BOB) == list(range(60))

    def test_many_are_acknowledged_at_once(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, *range(300))
        page = _page(topic, ANN)
        topic.acknowledge(ANN, *(_id(message) for message in page[:250])).result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == list(range(250, 300))
        topic.acknowledge(ANN).result(_WAIT_S)
        assert topic.subscription_message_count(ANN) == 50

    def test_acknowledging_twice_counts_once(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1, 2, 3)
        assert topic.subscription_message_count(ANN) == 3
        for _ in range(3):
            _acknowledge(topic, ANN, 2, 2)
        assert topic.subscription_message_count(ANN) == 2

    def test_acknowledging_what_is_not_there_is_no_error_and_changes_nothing(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        other = _topic(adapter, Topic("OTHER"))
        _subscribe(topic, ANN)
        _subscribe(other, ANN)
        _add(other, 9)
        _add(topic, 1)
        queue = adapter.queue_message_store(Queue("T"))
        in_queue = queue.add_message(text_message(5)).result(_WAIT_S)
        _add(topic, 2)
        (elsewhere,) = _page(other, ANN)
        for message_id in (
            MessageId(PRODUCER, 77),
            MessageId(PRODUCER, 1, 1 << 40),
            MessageId(PRODUCER, 0, in_queue),
            _id(elsewhere),
        ):
            topic.acknowledge(ANN, message_id).result(_WAIT_S)
            topic.acknowledge(SubscriptionKey("nobody", "news"), message_id).result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == [1, 2]
        assert _unacknowledged(other, ANN) == [9]
        _add(topic, 3)
        assert _unacknowledged(topic, ANN) == [1, 2, 3]

    def test_an_acknowledgement_may_overtake_the_answer_to_the_send(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN, BOB)
        for number in range(40):
            message = text_message(number)
            added = topic.add_message(message)
            done = topic.acknowledge(ANN, _id(message) if number % 2 else MessageId(PRODUCER, number))
            added.result(_WAIT_S)
            done.result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == []
        assert _unacknowledged(topic, BOB) == list(range(40))
        assert topic.subscription_message_count(ANN) == 0

    def test_a_later_message_that_expires_first_does_not_take_others_with_it(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        for number in range(20):
            topic.add_message(text_message(number, expiration=number % 2 * 1_700_000_000_000)).result(_WAIT_S)
        expired = [_id(message) for message in _page(topic, ANN) if message.expiration]
        topic.acknowledge(ANN, *expired).result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == list(range(0, 20, 2))

    def test_two_topics_mixed_are_acknowledged_each_for_itself(self, adapter: PersistenceAdapter) -> None:
        topics = [_topic(adapter, Topic(name)) for name in "ABC"]
        for topic in topics:
            _subscribe(topic, ANN)
        for number in range(30):
            topics[number % 3].add_message(text_message(number)).result(_WAIT_S)
        _acknowledge(topics[0], ANN, *range(0, 30, 6))
        _acknowledge(topics[1], ANN, *range(1, 30, 3))
        assert _unacknowledged(topics[0], ANN) == list(range(3, 30, 6))
        assert _unacknowledged(topics[1], ANN) == []
        assert _unacknowledged(topics[2], ANN) == list(range(2, 30, 3))

    # -- subscriptions -------------------------------------------------------------------------------------------

    def test_a_subscription_is_found(self, topic: TopicMessageStore) -> None:
        info = _info(topic, ANN, "colour = 'red'")
        topic.add_subscription(info).result(_WAIT_S)
        _subscribe(topic, BOB)
        assert topic.lookup_subscription(ANN) == info
        assert topic.lookup_subscription(SubscriptionKey("ann", "other")) is None
        assert topic.lookup_subscription(SubscriptionKey("other", "news")) is None
        assert {found.key for found in topic.all_subscriptions()} == {ANN, BOB}

    def test_the_same_subscription_again_goes_on(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1, 2)
        _acknowledge(topic, ANN, 2)
        for retroactive in (False, True):
            topic.add_subscription(_info(topic, ANN), retroactive=retroactive).result(_WAIT_S)
            assert _unacknowledged(topic, ANN) == [1]

    @pytest.mark.parametrize("was_no_local", [False, True])
    def test_a_subscription_that_leaves_out_its_own_messages_or_not_goes_on(
        self, topic: TopicMessageStore, was_no_local: bool
    ) -> None:
        info = replace(_info(topic, ANN), no_local=was_no_local)
        topic.add_subscription(info).result(_WAIT_S)
        _add(topic, 1)
        topic.add_subscription(replace(info, no_local=not was_no_local)).result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == [1]

    def test_another_selector_begins_anew(self, topic: TopicMessageStore) -> None:
        topic.add_subscription(_info(topic, ANN, "colour = 'red'")).result(_WAIT_S)
        _add(topic, 1, 2)
        topic.add_subscription(_info(topic, ANN, "colour = 'green'")).result(_WAIT_S)
        _add(topic, 3)
        assert _unacknowledged(topic, ANN) == [3]
        assert topic.subscription_message_count(ANN) == 1
        found = topic.lookup_subscription(ANN)
        assert found is not None
        assert found.selector == "colour = 'green'"

    def test_a_subscription_by_way_of_another_destination_begins_anew(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1)
        topic.add_subscription(SubscriptionInfo(ANN, TOPIC, Topic(">"))).result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == []
        found = topic.lookup_subscription(ANN)
        assert found is not None
        assert found.subscribed_destination == Topic(">")

    def test_a_deleted_subscription_is_gone_and_a_new_one_gets_only_what_is_new(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1, 2, 3)
        _acknowledge(topic, ANN, 2)
        topic.delete_subscription(ANN).result(_WAIT_S)
        assert topic.lookup_subscription(ANN) is None
        with pytest.raises(StoreError, match="news"):
            _page(topic, ANN)
        with pytest.raises(StoreError, match="news"):
            topic.subscription_message_count(ANN)
        topic.delete_subscription(ANN).result(_WAIT_S)
        topic.acknowledge(ANN, MessageId(PRODUCER, 1)).result(_WAIT_S)
        _subscribe(topic, ANN)
        _add(topic, 4)
        assert _unacknowledged(topic, ANN) == [4]
        _clean_up(adapter)
        assert topic.message_count == 1

    def test_a_retroactive_subscription_gets_what_is_stored(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _subscribe(topic, BOB)
        _add(topic, *range(10))
        _acknowledge(topic, BOB, 0, 1, 2, 5)
        _clean_up(adapter)
        there = _numbers(topic)
        assert there[-7:] == [3, 4, 5, 6, 7, 8, 9] or there[-6:] == [3, 4, 6, 7, 8, 9]
        topic.add_subscription(_info(topic, ANN), retroactive=True).result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == there
        assert topic.subscription_message_count(ANN) == len(there)
        _acknowledge(topic, ANN, 9, *there[:2])
        assert _unacknowledged(topic, ANN) == there[2:-1]
        _add(topic, 10)
        _acknowledge(topic, ANN, *there[2:-1])
        assert _unacknowledged(topic, ANN) == [10]
        assert topic.subscription_message_count(ANN) == 1

    def test_names_and_selectors_are_texts(self, topic: TopicMessageStore) -> None:
        infos = [
            _info(topic, SubscriptionKey("it's", 'odd "name" \\'), "a LIKE 'it''s %' ESCAPE '\\'"),
            _info(topic, SubscriptionKey("It's", 'odd "name" \\')),
            _info(topic, SubscriptionKey("ä; -- ?", "%s :x"), "x = '?' AND\ny > 2"),
        ]
        for info in infos:
            topic.add_subscription(info).result(_WAIT_S)
        _add(topic, 1, 2, 3)
        for info in infos:
            assert topic.lookup_subscription(info.key) == info
            _acknowledge(topic, info.key, 3)
            assert _unacknowledged(topic, info.key) == [1, 2]

    def test_a_subscription_to_another_topic_is_refused(self, topic: TopicMessageStore) -> None:
        with pytest.raises(ConfigurationError, match="OTHER"):
            topic.add_subscription(SubscriptionInfo(ANN, Topic("OTHER"), Topic("OTHER")))

    def test_a_wildcard_subscription_is_one_for_each_topic(self, adapter: PersistenceAdapter) -> None:
        wildcard = Topic("W.>")
        topics = [_topic(adapter, Topic(name)) for name in ("W.a", "W.b")]
        for topic in topics:
            topic.add_subscription(SubscriptionInfo(ANN, topic.destination, wildcard)).result(_WAIT_S)
            _add(topic, 1, 2)
        _acknowledge(topics[0], ANN, 2)
        assert [_unacknowledged(topic, ANN) for topic in topics] == [[1], [1, 2]]
        assert adapter.destinations() == {Topic("W.a"), Topic("W.b")}

    def test_subscriptions_come_and_go_and_the_others_go_on(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        keys = [SubscriptionKey(f"client{n}", "all") for n in range(30)]
        _subscribe(topic, *keys)
        _add(topic, 0)
        for key in keys[4:]:
            topic.delete_subscription(key).result(_WAIT_S)
        for number in range(1, 6):
            for key in keys[:3]:
                _acknowledge(topic, key, number - 1)
            _add(topic, number)
            assert [_unacknowledged(topic, key) for key in keys[:3]] == [[number]] * 3
        assert _unacknowledged(topic, keys[3]) == list(range(6))
        topic.delete_subscription(keys[3]).result(_WAIT_S)
        _clean_up(adapter)
        assert topic.message_count == 1

    # -- pages ---------------------------------------------------------------------------------------------------

    def test_pages_follow_one_another_without_gap_or_overlap(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, *range(25))
        _acknowledge(topic, ANN, 3, 4, 5, 11, 24)
        cursor, seen, sizes = Cursor(), list[int](), list[int]()
        while (page := topic.recover_next_subscription_messages(ANN, cursor, 6, _ROOMY_BYTES)).messages:
            seen += [_number(message) for message in page.messages]
            sizes.append(len(page.messages))
            cursor = page.cursor
        assert seen == [n for n in range(25) if n not in (3, 4, 5, 11, 24)]
        assert sizes == [6, 6, 6, 2]

    def test_an_empty_page_keeps_the_cursor(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1)
        end = topic.recover_next_subscription_messages(ANN, Cursor(), 10, _ROOMY_BYTES).cursor
        assert topic.recover_next_subscription_messages(ANN, end, 10, _ROOMY_BYTES).cursor == end
        _add(topic, 2)
        page = topic.recover_next_subscription_messages(ANN, end, 10, _ROOMY_BYTES)
        assert [_number(message) for message in page.messages] == [2]

    def test_a_page_has_its_limits(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        for n in range(6):
            topic.add_message(text_message(n, "x" * 10_000)).result(_WAIT_S)
        topic.add_message(text_message(6, "x" * 300_000)).result(_WAIT_S)
        assert len(_page(topic, ANN, messages_max=2)) == 2
        assert len(_page(topic, ANN, messages_max=100, bytes_max=25_000)) == 3
        _acknowledge(topic, ANN, *range(6))
        assert [_number(message) for message in _page(topic, ANN, messages_max=10, bytes_max=1)] == [6]

    def test_a_long_run_of_acknowledged_messages_is_skipped(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, *range(500))
        _acknowledge(topic, ANN, *range(1, 499))
        assert _unacknowledged(topic, ANN, 10) == [0, 499]

    def test_prioritised_pages_go_from_the_highest_down(self, prioritized: TopicMessageStore) -> None:
        _subscribe(prioritized, ANN, BOB)
        for n in range(40):
            prioritized.add_message(text_message(n, priority=n % 10)).result(_WAIT_S)
        expected = sorted(range(40), key=lambda n: (-(n % 10), n))
        assert _unacknowledged(prioritized, ANN, 7) == expected
        _acknowledge(prioritized, ANN, *expected[::3])
        assert _unacknowledged(prioritized, ANN, 7) == [n for n in expected if n not in expected[::3]]
        assert _unacknowledged(prioritized, BOB, 7) == expected

    def test_a_late_high_priority_is_on_the_next_page(self, prioritized: TopicMessageStore) -> None:
        _subscribe(prioritized, ANN)
        for n in range(10):
            prioritized.add_message(text_message(n, priority=3)).result(_WAIT_S)
        cursor = prioritized.recover_next_subscription_messages(ANN, Cursor(), 5, _ROOMY_BYTES).cursor
        prioritized.add_message(text_message(10, priority=8)).result(_WAIT_S)
        page = prioritized.recover_next_subscription_messages(ANN, cursor, 3, _ROOMY_BYTES)
        assert [_number(message) for message in page.messages] == [10, 5, 6]

    def test_alternating_batches_of_priorities_do_not_stick(self, prioritized: TopicMessageStore) -> None:
        _subscribe(prioritized, ANN)
        cursor, number = Cursor(), 0
        for priorities in ([3], [7], [3, 4], [7]):
            sent = []
            for priority in priorities:
                for _ in range(10):
                    prioritized.add_message(text_message(number, priority=priority)).result(_WAIT_S)
                    sent.append((-priority, number))
                    number += 1
            page = prioritized.recover_next_subscription_messages(ANN, cursor, 50, _ROOMY_BYTES)
            assert [_number(message) for message in page.messages] == [n for _, n in sorted(sent)]
            cursor = page.cursor
            prioritized.acknowledge(ANN, *map(_id, page.messages)).result(_WAIT_S)

    def test_priority_does_not_count_where_the_topic_is_not_prioritised(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        for n, priority in enumerate([0, 9, 4, 7]):
            topic.add_message(text_message(n, priority=priority)).result(_WAIT_S)
        assert [message.priority for message in _page(topic, ANN)] == [0, 9, 4, 7]

    @pytest.mark.parametrize("levels", [10, 4, 2])
    def test_a_subscriber_that_reconnects_gets_each_once_and_in_order(
        self, prioritized: TopicMessageStore, levels: int
    ) -> None:
        _subscribe(prioritized, ANN)
        total = 400
        _add_all(prioritized, [text_message(n, priority=n % levels) for n in range(total)])
        seen: list[Message] = []
        while page := _page(prioritized, ANN, messages_max=30):
            taken = page[:23]  # it goes away with some that it has not acknowledged
            prioritized.acknowledge(ANN, *map(_id, taken)).result(_WAIT_S)
            seen += taken
        assert sorted(map(_number, seen)) == list(range(total))
        order = [(-message.priority, _number(message)) for message in seen]
        assert order == sorted(order)

    def test_a_gap_between_priorities_is_no_gap(self, prioritized: TopicMessageStore) -> None:
        _subscribe(prioritized, ANN)
        _add_all(prioritized, [text_message(n, priority=0 if n < 100 else 9) for n in range(200)])
        expected = [*range(100, 200), *range(100)]
        assert _unacknowledged(prioritized, ANN, 30) == expected
        _acknowledge(prioritized, ANN, *range(100, 200))
        assert _unacknowledged(prioritized, ANN, 30) == list(range(100))

    # -- selectors, by a caller that acknowledges what does not match --------------------------------------------

    @pytest.mark.parametrize("restful", [True, False])
    def test_a_sparse_selector_pages_past_what_it_does_not_match(self, topic: TopicMessageStore, restful: bool) -> None:
        _subscribe(topic, ANN)
        _add_all(topic, [_coloured(n, "blue") for n in range(1000)])
        assert _selected(topic, ANN, "red") == []
        assert topic.subscription_message_count(ANN) == 0
        _add_all(topic, [_coloured(1000, "red"), *(_coloured(n, "blue") for n in range(1001, 1100))])
        (found,) = _selected(topic, ANN, "red")
        if restful:
            topic.acknowledge(ANN, _id(found)).result(_WAIT_S)
        _add_all(topic, [_coloured(1100, "blue"), _coloured(1101, "red")])
        expected = [1101] if restful else [1000, 1101]
        assert [_number(message) for message in _selected(topic, ANN, "red")] == expected
        assert topic.subscription_message_count(ANN) == len(expected)

    def test_offline_subscriptions_with_selectors_see_what_they_ask_for(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        colours = {ANN: "red", BOB: "green", SubscriptionKey("eve", "news"): "none"}
        _subscribe(topic, *colours)
        _add_all(topic, [_coloured(n, ("red", "green", "blue")[n % 3]) for n in range(60)])
        for key, colour in colours.items():
            found = _selected(topic, key, colour)
            assert [_number(m) for m in found] == [n for n in range(60) if ("red", "green", "blue")[n % 3] == colour]
            topic.acknowledge(key, *map(_id, found)).result(_WAIT_S)
            assert _page(topic, key) == []
        _clean_up(adapter)
        assert topic.message_count == 0

    # -- counting ------------------------------------------------------------------------------------------------

    def test_the_count_is_kept(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        assert topic.subscription_message_count(ANN) == 0
        _add(topic, *range(10))
        _acknowledge(topic, ANN, 0, 5, 9)
        _subscribe(topic, BOB)
        _add(topic, 10)
        assert topic.subscription_message_count(ANN) == 8
        assert topic.subscription_message_count(BOB) == 1
        assert topic.message_count >= 8

    def test_the_count_is_right_while_others_write(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, BOB)
        _add_all(topic, [text_message(n) for n in range(300)])
        topic.add_subscription(_info(topic, ANN), retroactive=True).result(_WAIT_S)
        stop = threading.Event()
        added: list[int] = []

        def write() -> None:
            number = 300
            while not stop.is_set() or number < 310:
                topic.add_message(text_message(number)).result(_WAIT_S)
                _acknowledge(topic, ANN, number - 300)
                added.append(number)
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        topic.subscription_message_count(ANN)
        stop.set()
        writer.join()
        assert topic.subscription_message_count(ANN) == 300
        assert len(_unacknowledged(topic, ANN)) == 300

    # -- removing ------------------------------------------------------------------------------------------------

    def test_what_everybody_has_acknowledged_is_cleaned_up(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _subscribe(topic, ANN, BOB)
        _add(topic, *range(20))
        _acknowledge(topic, ANN, *range(20))
        _clean_up(adapter)
        assert topic.message_count == 20
        _acknowledge(topic, BOB, *range(15))
        _clean_up(adapter)
        assert _numbers(topic) == [15, 16, 17, 18, 19]
        assert topic.message_count == 5
        _acknowledge(topic, BOB, *range(15, 20))
        _clean_up(adapter)
        assert topic.message_count == 0
        assert _texts(topic) == []
        _add(topic, 20)
        assert _unacknowledged(topic, ANN) == _unacknowledged(topic, BOB) == [20]

    def test_cleanup_of_priorities_takes_each_by_itself_and_all_at_once(
        self, adapter: PersistenceAdapter, prioritized: TopicMessageStore
    ) -> None:
        _subscribe(prioritized, ANN)
        for priority in (2, 5):
            prioritized.add_message(text_message(priority, priority=priority)).result(_WAIT_S)
        _acknowledge(prioritized, ANN, 5)
        _clean_up(adapter)
        assert _numbers(prioritized) == [2]
        _acknowledge(prioritized, ANN, 2)
        _clean_up(adapter)
        assert _numbers(prioritized) == []

    def test_cleanup_leaves_what_an_expired_one_in_the_middle_does_not_cover(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1, 2, 3)
        _acknowledge(topic, ANN, 2)  # it has expired
        _clean_up(adapter)
        assert _unacknowledged(topic, ANN) == [1, 3]
        _acknowledge(topic, ANN, 1)
        _clean_up(adapter)
        assert _numbers(topic) == [3]
        _acknowledge(topic, ANN, 3)
        _clean_up(adapter)
        assert _numbers(topic) == []

    def test_removed_messages_are_gone_for_everybody(
        self, adapter: PersistenceAdapter, prioritized: TopicMessageStore
    ) -> None:
        _subscribe(prioritized, ANN, BOB)
        _add(prioritized, *range(10))
        messages = _page(prioritized, ANN)
        assert prioritized.subscription_message_count(ANN) == 10
        _acknowledge(prioritized, BOB, 0, 3)
        for index in (5, 9, 0):
            prioritized.remove_message(_id(messages[index])).result(_WAIT_S)
        _clean_up(adapter)
        prioritized.remove_message(_id(messages[9])).result(_WAIT_S)
        prioritized.remove_message(MessageId(PRODUCER, 9)).result(_WAIT_S)
        prioritized.remove_message(MessageId(PRODUCER, 77)).result(_WAIT_S)
        assert _unacknowledged(prioritized, ANN) == [1, 2, 3, 4, 6, 7, 8]
        assert _unacknowledged(prioritized, BOB) == [1, 2, 4, 6, 7, 8]
        assert prioritized.subscription_message_count(ANN) == 7
        assert prioritized.message_count == 7
        _add(prioritized, 10)
        for key in (ANN, BOB):
            _acknowledge(prioritized, key, 1, 2, 3, 4, 6, 7, 8, 10)
        _clean_up(adapter)
        assert prioritized.message_count == 0

    def test_a_purge_takes_messages_and_leaves_subscriptions(self, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN, BOB)
        _add(topic, *range(10))
        _acknowledge(topic, ANN, 1, 8)
        pending = [topic.add_message(text_message(n)) for n in range(10, 20)]
        purged = topic.remove_all_messages()
        pending.append(topic.add_message(text_message(20)))
        for write in pending:
            write.result(_WAIT_S)
        purged.result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == _unacknowledged(topic, BOB) == [20]
        assert topic.subscription_message_count(ANN) == topic.subscription_message_count(BOB) == 1
        _acknowledge(topic, ANN, 20)
        _add(topic, 21)
        assert _unacknowledged(topic, ANN) == [21]

    def test_a_removed_destination_is_unknown(self, adapter: PersistenceAdapter, topic: TopicMessageStore) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1, 2)
        other = _topic(adapter, Topic("OTHER"))
        _subscribe(other, ANN)
        assert adapter.destinations() == {TOPIC, Topic("OTHER")}
        adapter.remove_destination(TOPIC).result(_WAIT_S)
        assert adapter.destinations() == {Topic("OTHER")}
        topic = _topic(adapter)
        assert (topic.message_count, topic.all_subscriptions()) == (0, [])
        _subscribe(topic, ANN)
        _add(topic, 3)
        assert _unacknowledged(topic, ANN) == [3]

    def test_delete_all_messages_deletes_subscriptions(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1, 2, 3)
        _acknowledge(topic, ANN, 2)
        adapter.delete_all_messages()
        assert adapter.destinations() == set()
        topic = _topic(adapter)
        assert (topic.message_count, topic.all_subscriptions()) == (0, [])
        topic.add_subscription(_info(topic, ANN), retroactive=True).result(_WAIT_S)
        _add(topic, 4, 5)
        assert _unacknowledged(topic, ANN) == [4, 5]

    # -- destinations --------------------------------------------------------------------------------------------

    def test_destinations_are_those_with_messages_or_subscriptions(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _topic(adapter, Topic("EMPTY"))
        _subscribe(topic, ANN)
        assert adapter.destinations() == {TOPIC}
        _add(topic, 1)
        topic.delete_subscription(ANN).result(_WAIT_S)
        _clean_up(adapter)
        assert adapter.destinations() == set()

    def test_the_queue_of_a_virtual_topics_consumer_is_known_though_it_is_empty(
        self, adapter: PersistenceAdapter
    ) -> None:
        queue = Queue("Consumer.A.VirtualTopic.FOO")
        adapter.queue_message_store(queue)
        adapter.queue_message_store(Queue("Consumer.A.Other.FOO"))
        adapter.queue_message_store(Queue("Q")).add_message(text_message(1)).result(_WAIT_S)
        assert adapter.destinations() == {queue, Queue("Q")}
        adapter.remove_queue_message_store(queue)
        assert adapter.destinations() == {queue, Queue("Q")}
        adapter.remove_destination(queue).result(_WAIT_S)
        assert adapter.destinations() == {Queue("Q")}

    # -- several things at once ----------------------------------------------------------------------------------

    def test_acknowledging_and_moving_elsewhere_is_one_step(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _subscribe(topic, ANN, BOB)
        _add(topic, 1, 2)
        dead = adapter.queue_message_store(Queue("DEAD"))
        first = _page(topic, ANN)[0]
        adapter.commit_together(Commit(adds=[(dead, first.copy())], acknowledged=[(topic, ANN, _id(first))])).result(
            _WAIT_S
        )
        assert dead.message_count == 1
        assert _unacknowledged(topic, ANN) == [2]
        assert _unacknowledged(topic, BOB) == [1, 2]

    def test_a_transaction_adds_and_acknowledges_in_several_topics(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        other, nobody = _topic(adapter, Topic("OTHER")), _topic(adapter, Topic("NOBODY"))
        _subscribe(topic, ANN, BOB)
        _subscribe(other, ANN)
        _add(topic, 1, 2)
        messages = [text_message(10), text_message(11), text_message(12)]
        adapter.commit_together(
            Commit(
                adds=[(topic, messages[0]), (nobody, messages[1]), (other, messages[2])],
                removes=[(topic, MessageId(PRODUCER, 2))],
                acknowledged=[(topic, ANN, MessageId(PRODUCER, 1)), (topic, ANN, _id(messages[0]))],
            )
        ).result(_WAIT_S)
        assert _unacknowledged(topic, ANN) == []
        assert _unacknowledged(topic, BOB) == [1, 10]
        assert _unacknowledged(other, ANN) == [12]
        assert (topic.message_count >= 2, nobody.message_count, other.message_count) == (True, 0, 1)

    def test_what_follows_a_failed_write_acknowledges_nothing(
        self, adapter: PersistenceAdapter, topic: TopicMessageStore
    ) -> None:
        _subscribe(topic, ANN)
        _add(topic, 1)
        failed: Completion[None] = Completion()
        failed.fail(TransientStoreError("the first one"))
        done = adapter.commit_together(Commit(follows=[failed], acknowledged=[(topic, ANN, MessageId(PRODUCER, 1))]))
        assert isinstance(done.exception(_WAIT_S), JdbcStoreError)
        assert _unacknowledged(topic, ANN) == [1]

    def test_many_at_once_lose_and_double_nothing(self, adapter: PersistenceAdapter, topic: TopicMessageStore) -> None:
        keys = [SubscriptionKey(f"client{n}", "all") for n in range(4)]
        _subscribe(topic, *keys)
        total = 4 * 100

        def publish(number: int) -> None:
            producer = ProducerId(f"ID:test-{number}", 1, 1)
            _add_all(topic, [text_message(n, producer_id=producer) for n in range(100)])

        def consume(key: SubscriptionKey) -> list[int]:
            order = random.Random(key.client_id)
            seen: list[int] = []
            held: list[MessageId] = []
            cursor = Cursor()
            while len(seen) < total:
                page = topic.recover_next_subscription_messages(key, cursor, 17, _ROOMY_BYTES)
                cursor = page.cursor
                seen += [_id(message).broker_sequence_id for message in page.messages]
                held += map(_id, page.messages)
                order.shuffle(held)
                half = len(held) // 2 if len(seen) < total else len(held)
                chosen, held = held[:half], held[half:]
                topic.acknowledge(key, *chosen).result(_WAIT_S)
            return seen

        with ThreadPoolExecutor(8) as pool:
            consuming = [pool.submit(consume, key) for key in keys]
            list(pool.map(publish, range(4)))
            seen = [future.result(_WAIT_S) for future in consuming]
        assert all(one == sorted(set(one)) and len(one) == total for one in seen)
        for key in keys:
            assert _page(topic, key) == []
            assert topic.subscription_message_count(key) == 0
        _clean_up(adapter)
        assert topic.message_count == 0

    # -- life ----------------------------------------------------------------------------------------------------

    def test_stop_finishes_what_was_submitted(self, open_adapter: OpenAdapter) -> None:
        adapter = open_adapter()
        adapter.start()
        topic = _topic(adapter)
        writes: list[Completion[int] | Completion[None]] = [topic.add_subscription(_info(topic, ANN))]
        for number in range(100):
            message = text_message(number)
            writes += [topic.add_message(message), topic.acknowledge(ANN, _id(message))]
        adapter.stop()
        for write in writes:
            write.result(0)

    def test_a_stopped_store_says_so(self, open_adapter: OpenAdapter) -> None:
        adapter = open_adapter()
        adapter.start()
        topic = _topic(adapter)
        _subscribe(topic, ANN)
        nobody = _topic(adapter, Topic("NOBODY"))
        adapter.stop()
        calls: list[Callable[[], object]] = [
            lambda: topic.add_message(text_message(1)),
            lambda: nobody.add_message(text_message(1)),
            lambda: topic.acknowledge(ANN, MessageId(PRODUCER, 1)),
            lambda: topic.add_subscription(_info(topic, BOB)),
            lambda: topic.delete_subscription(ANN),
            lambda: topic.recover_next_subscription_messages(ANN, Cursor(), 1, 1),
        ]
        for call in calls:
            with pytest.raises(StoreClosed):
                call()


class DurableTopicContract(TopicContract):
    """The suite for a store that survives `stop` and a new adapter on the same storage."""

    def test_subscriptions_are_there_after_a_restart(self, open_adapter: OpenAdapter) -> None:
        infos = [
            SubscriptionInfo(ANN, TOPIC, Topic("*"), "a = 'it''s'"),
            SubscriptionInfo(BOB, TOPIC, TOPIC),
        ]
        with open_adapter() as adapter:
            topic = _topic(adapter)
            for info in infos:
                topic.add_subscription(info).result(_WAIT_S)
        with open_adapter() as adapter:
            assert adapter.destinations() == {TOPIC}
            topic = _topic(adapter)
            assert sorted(topic.all_subscriptions(), key=str) == sorted(infos, key=str)
            _add(topic, 1)
            assert _unacknowledged(topic, ANN) == _unacknowledged(topic, BOB) == [1]

    @pytest.mark.parametrize("ordered", [True, False])
    @pytest.mark.parametrize("seed", range(2))
    def test_nothing_is_lost_or_delivered_again_after_restarts(
        self, open_adapter: OpenAdapter, ordered: bool, seed: int
    ) -> None:
        order = random.Random(seed)
        left = {ANN: set[int](), BOB: set[int]()}
        number = 0
        with open_adapter() as adapter:
            _subscribe(_topic(adapter, prioritized=ordered), ANN, BOB)
        for _ in range(4):
            with open_adapter() as adapter:
                topic = _topic(adapter, prioritized=ordered)
                queue = adapter.queue_message_store(Queue("BETWEEN"))
                for key in left:
                    assert set(_unacknowledged(topic, key, 7)) == left[key]
                    assert topic.subscription_message_count(key) == len(left[key])
                for _ in range(12):
                    message = text_message(number, priority=order.randint(0, 9))
                    (topic if order.random() < 0.8 else queue).add_message(message).result(_WAIT_S)
                    if number in set(_unacknowledged(topic, ANN)):
                        for numbers in left.values():
                            numbers.add(number)
                    number += 1
                for key, numbers in left.items():
                    chosen = order.sample(sorted(numbers), len(numbers) // 2)
                    _acknowledge(topic, key, *chosen)
                    numbers.difference_update(chosen)
                if order.random() < 0.5:
                    _clean_up(adapter)
        with open_adapter() as adapter:
            topic = _topic(adapter, prioritized=ordered)
            for key, numbers in left.items():
                assert set(_unacknowledged(topic, key)) == numbers
                _acknowledge(topic, key, *numbers)
            _clean_up(adapter)
            assert topic.message_count == 0

    def test_individual_acknowledgement_and_a_restart(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            topic = _topic(adapter)
            _subscribe(topic, ANN)
            _add(topic, 1, 2, 3)
            _acknowledge(topic, ANN, 3)
        with open_adapter() as adapter:
            assert _unacknowledged(_topic(adapter), ANN) == [1, 2]

    def test_a_message_sent_before_and_one_after_a_restart(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            topic = _topic(adapter)
            _subscribe(topic, ANN)
            _add(topic, 1)
        with open_adapter() as adapter:
            topic = _topic(adapter)
            _subscribe(topic, ANN)
            _add(topic, 2)
            assert _unacknowledged(topic, ANN) == [1, 2]

    def test_a_new_retroactive_subscription_after_a_restart(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            topic = _topic(adapter)
            _subscribe(topic, ANN)
            _add(topic, 1)
        with open_adapter() as adapter:
            topic = _topic(adapter)
            topic.add_subscription(_info(topic, BOB), retroactive=True).result(_WAIT_S)
            assert _unacknowledged(topic, BOB) == [1]

    def test_offline_subscriptions_get_all_that_an_online_one_consumed(self, open_adapter: OpenAdapter) -> None:
        eve = SubscriptionKey("eve", "news")
        with open_adapter() as adapter:
            topic = _topic(adapter)
            _subscribe(topic, ANN, BOB, eve)
            _add(topic, *range(10))
            _acknowledge(topic, eve, *range(10))
            _clean_up(adapter)
        with open_adapter() as adapter:
            topic = _topic(adapter)
            assert _unacknowledged(topic, ANN) == _unacknowledged(topic, BOB) == list(range(10))
            assert _unacknowledged(topic, eve) == []

    def test_subscriptions_of_different_age_after_a_restart(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            topic = _topic(adapter)
            _subscribe(topic, ANN)
            _add(topic, *range(10))
            _subscribe(topic, BOB)
            _add(topic, *range(10, 20))
        with open_adapter() as adapter:
            topic = _topic(adapter)
            assert _unacknowledged(topic, ANN) == list(range(20))
            assert _unacknowledged(topic, BOB) == list(range(10, 20))

    def test_a_deleted_subscription_is_gone_after_a_restart(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            topic = _topic(adapter)
            _subscribe(topic, ANN, BOB)
            _add(topic, 1, 2)
            _acknowledge(topic, ANN, 2)
            topic.delete_subscription(ANN).result(_WAIT_S)
        with open_adapter() as adapter:
            topic = _topic(adapter)
            assert topic.lookup_subscription(ANN) is None
            topic.add_subscription(_info(topic, ANN), retroactive=True).result(_WAIT_S)
            assert _unacknowledged(topic, ANN) == [1, 2]

    def test_sequences_go_on_behind_what_was_acknowledged(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            topic = _topic(adapter)
            _subscribe(topic, ANN)
            _add(topic, 1, 2, 3)
            _acknowledge(topic, ANN, 1, 2, 3)
            _clean_up(adapter)
            last = adapter.last_message_broker_sequence_id()
        with open_adapter() as adapter:
            topic = _topic(adapter)
            assert adapter.last_message_broker_sequence_id() == last
            _add(topic, 4)
            assert _unacknowledged(topic, ANN) == [4]

    def test_removed_messages_stay_removed_and_do_not_stand_in_the_way(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            topic = _topic(adapter)
            _subscribe(topic, ANN)
            _add(topic, *range(10))
            _acknowledge(topic, ANN, 4, 5, 8)
            topic.remove_message(MessageId(PRODUCER, 8)).result(_WAIT_S)
            topic.remove_message(MessageId(PRODUCER, 3)).result(_WAIT_S)
        with open_adapter() as adapter:
            topic = _topic(adapter)
            assert _unacknowledged(topic, ANN) == [0, 1, 2, 6, 7, 9]
            _acknowledge(topic, ANN, 0, 1, 2, 6, 7, 9)
            _clean_up(adapter)
            assert topic.message_count == 0

    def test_the_queue_of_a_virtual_topics_consumer_is_known_after_a_restart(self, open_adapter: OpenAdapter) -> None:
        queue = Queue("Consumer.MyApp.VirtualTopic.FOO")
        with open_adapter() as adapter:
            adapter.queue_message_store(queue)
        for count in range(3):
            with open_adapter() as adapter:
                assert adapter.destinations() == {queue}
                store = adapter.queue_message_store(queue)
                assert store.message_count == count
                store.add_message(text_message(count)).result(_WAIT_S)
        with open_adapter() as adapter:
            adapter.remove_destination(queue).result(_WAIT_S)
        with open_adapter() as adapter:
            assert adapter.destinations() == set()


# -- what the tests are written with ---------------------------------------------------------------------------------


def _topic(adapter: PersistenceAdapter, topic: Topic = TOPIC, *, prioritized: bool = False) -> TopicMessageStore:
    assert isinstance(adapter, SupportsTopics)
    return adapter.topic_message_store(topic, prioritized=prioritized)


def _clean_up(adapter: PersistenceAdapter) -> None:
    assert isinstance(adapter, SupportsTopics)
    adapter.clean_up()


def _info(topic: TopicMessageStore, key: SubscriptionKey, selector: str | None = None) -> SubscriptionInfo:
    destination: Destination = topic.destination
    return SubscriptionInfo(key, destination, destination, selector)


def _subscribe(topic: TopicMessageStore, *keys: SubscriptionKey) -> None:
    for key in keys:
        topic.add_subscription(_info(topic, key)).result(_WAIT_S)


def _add(topic: TopicMessageStore, *numbers: int) -> None:
    _add_all(topic, [text_message(number) for number in numbers])


def _add_all(topic: TopicMessageStore, messages: Iterable[Message]) -> None:
    for completion in [topic.add_message(message) for message in messages]:
        completion.result(_WAIT_S)


def _acknowledge(topic: TopicMessageStore, key: SubscriptionKey, *numbers: int) -> None:
    """Acknowledge messages one by one, as consumers do."""
    for completion in [topic.acknowledge(key, MessageId(PRODUCER, number)) for number in numbers]:
        completion.result(_WAIT_S)


def _page(
    topic: TopicMessageStore, key: SubscriptionKey, messages_max: int = 10_000, bytes_max: int = _ROOMY_BYTES
) -> list[Message]:
    return list(topic.recover_next_subscription_messages(key, Cursor(), messages_max, bytes_max).messages)


def _unacknowledged(topic: TopicMessageStore, key: SubscriptionKey, page_messages: int = 10_000) -> list[int]:
    """The numbers of all messages of a subscription, page by page."""
    numbers: list[int] = []
    cursor = Cursor()
    while (page := topic.recover_next_subscription_messages(key, cursor, page_messages, _ROOMY_BYTES)).messages:
        numbers += map(_number, page.messages)
        cursor = page.cursor
    return numbers


def _coloured(number: int, colour: str) -> Message:
    message = text_message(number)
    message.set_property("colour", colour)
    return message


def _selected(topic: TopicMessageStore, key: SubscriptionKey, colour: str) -> list[Message]:
    """What a consumer with a selector gets. It acknowledges what it is not for."""
    found: list[Message] = []
    cursor = Cursor()
    while (page := topic.recover_next_subscription_messages(key, cursor, 100, _ROOMY_BYTES)).messages:
        others = [message for message in page.messages if message.properties.get("colour") != colour]
        found += [message for message in page.messages if message not in others]
        topic.acknowledge(key, *map(_id, others)).result(_WAIT_S)
        cursor = page.cursor
    return found


def _numbers(topic: TopicMessageStore) -> list[int]:
    return [_number(message) for message in topic.recover()]


def _texts(topic: TopicMessageStore) -> list[str]:
    return [message.text or "" for message in topic.recover() if isinstance(message, TextMessage)]


def _number(message: Message) -> int:
    return _id(message).producer_sequence_id


def _id(message: Message) -> MessageId:
    assert message.message_id is not None
    return message.message_id
