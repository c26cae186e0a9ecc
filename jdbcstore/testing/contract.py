"""What every persistence adapter must do, as tests.

Use it like this::

    class TestMyStore(DurablePersistenceAdapterContract):
        @pytest.fixture
        def open_adapter(self, tmp_path):
            return lambda: MyAdapter(tmp_path / "store")
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeAlias

import pytest

from jdbcstore.destination import Queue
from jdbcstore.errors import JdbcStoreError, StoreClosed, TransientStoreError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import BytesMessage, Message, TextMessage
from jdbcstore.openwire import marshal
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, Cursor, MessageStore, PersistenceAdapter
from jdbcstore.testing.messages import PRODUCER, text_message

__all__ = ["DurablePersistenceAdapterContract", "OpenAdapter", "PersistenceAdapterContract"]

OpenAdapter: TypeAlias = Callable[[], PersistenceAdapter]

#: How long a write may take before a test calls it lost.
_WAIT_S = 30.0
_ROOMY_BYTES = 1 << 30


class PersistenceAdapterContract:
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
    def store(self, adapter: PersistenceAdapter) -> MessageStore:
        """The store of queue TEST."""
        return adapter.queue_message_store(Queue("TEST"))

    # -- one message ---------------------------------------------------------------------------------------------

    def test_an_added_message_comes_back_byte_for_byte(self, store: MessageStore) -> None:
        message = text_message(1, "größer 😀\x00 end")
        message.set_property("colour", "blue")
        sequence = store.add_message(message).result(_WAIT_S)
        (found,) = _all(store)
        assert marshal(found) == marshal(message)
        assert _sequence(found) == sequence == _sequence(message)

    def test_a_binary_body_comes_back(self, store: MessageStore) -> None:
        message = BytesMessage(producer_id=PRODUCER, message_id=MessageId(PRODUCER, 1), destination=Queue("TEST"))
        message.body = bytes(range(256)) * 300
        store.add_message(message).result(_WAIT_S)
        (found,) = _all(store)
        assert isinstance(found, BytesMessage)
        assert found.body == message.body

    def test_a_message_without_an_id_is_refused(self, store: MessageStore) -> None:
        with pytest.raises((JdbcStoreError, ValueError)):
            store.add_message(TextMessage(destination=Queue("TEST")))
        assert store.message_count == 0

    def test_get_by_sequence_and_by_producer(self, store: MessageStore) -> None:
        _add(store, 1, 2, 3)
        found = store.get_message(MessageId(PRODUCER, 2))
        assert found is not None
        assert _text(found) == "message 2"
        again = store.get_message(MessageId(PRODUCER, 0, _sequence(found)))
        assert again is not None
        assert _text(again) == "message 2"

    def test_get_of_nothing_is_none(self, store: MessageStore) -> None:
        assert store.get_message(MessageId(PRODUCER, 77)) is None
        assert store.get_message(MessageId(PRODUCER, 77, 77)) is None

    def test_get_does_not_see_another_queues_copy(self, adapter: PersistenceAdapter, store: MessageStore) -> None:
        adapter.queue_message_store(Queue("OTHER")).add_message(text_message(5)).result(_WAIT_S)
        assert store.get_message(MessageId(PRODUCER, 5)) is None

    def test_update_replaces_the_bytes_and_keeps_the_place(self, store: MessageStore) -> None:
        _add(store, 1, 2, 3)
        second = _all(store)[1]
        second.redelivery_counter = 4
        store.update_message(second).result(_WAIT_S)
        assert [(_text(m), m.redelivery_counter) for m in _all(store)] == [
            ("message 1", 0),
            ("message 2", 4),
            ("message 3", 0),
        ]

    def test_what_is_added_twice_is_there_twice(self, store: MessageStore) -> None:
        """A store keeps what it is given. To tell duplicates is for who numbers messages: see producers."""
        first, second = (store.add_message(text_message(1)).result(_WAIT_S) for _ in range(2))
        assert [_sequence(message) for message in _all(store)] == [first, second]
        store.remove_message(MessageId(PRODUCER, 1, first)).result(_WAIT_S)
        assert ([_sequence(message) for message in _all(store)], store.message_count) == ([second], 1)

    # -- several in one go -----------------------------------------------------------------------------------------

    def test_messages_that_are_added_in_one_go_come_in_their_order(self, store: MessageStore) -> None:
        first, together, last = text_message(0), [text_message(number) for number in range(1, 9)], text_message(9)
        added = [store.add_message(first), *_add_together(store, together), store.add_message(last)]
        for completion in added:
            completion.result(_WAIT_S)
        given = list(map(_sequence, (first, *together, last)))
        assert given == sorted(set(given))
        found = _all(store)
        assert list(map(_sequence, found)) == given
        assert list(map(marshal, found)) == list(map(marshal, (first, *together, last)))
        assert store.message_count == 10

    def test_nothing_is_added_in_one_go_if_one_is_refused(self, store: MessageStore) -> None:
        try:
            added = store.add_messages([text_message(1), TextMessage(destination=Queue("TEST")), text_message(2)])
        except (JdbcStoreError, ValueError):
            added = None
        assert added is None
        assert store.message_count == 0
        _add(store, 3)
        assert _texts(store) == ["message 3"]

    def test_removes_that_overtake_some_of_what_is_added_in_one_go_leave_the_rest(self, store: MessageStore) -> None:
        for round_ in range(50):
            messages = [text_message(4 * round_ + number) for number in range(4)]
            added = _add_together(store, messages)
            removed = [store.remove_message(_id(messages[1])), store.remove_message(*map(_id, messages[2:]))]
            for completion in (*added, *removed):
                completion.result(_WAIT_S)
        assert _texts(store) == [f"message {4 * round_}" for round_ in range(50)]
        assert store.message_count == 50

    def test_many_producers_that_add_in_one_go_lose_and_reorder_nothing(self, store: MessageStore) -> None:
        def produce(number: int) -> list[int]:
            producer = ProducerId(f"ID:test-{number}", 1, 1)
            messages = [text_message(n, producer_id=producer) for n in range(100)]
            for completion in [one for n in range(0, 100, 10) for one in _add_together(store, messages[n : n + 10])]:
                completion.result(_WAIT_S)
            return list(map(_sequence, messages))

        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(produce, range(8)))
        assert all(sequences == sorted(sequences) for sequences in given)
        assert [_sequence(m) for m in _all(store)] == sorted(sequence for sequences in given for sequence in sequences)
        assert store.message_count == 800

    # -- removing ------------------------------------------------------------------------------------------------

    def test_remove_by_sequence(self, store: MessageStore) -> None:
        _add(store, 1, 2, 3)
        store.remove_message(_id(_all(store)[1])).result(_WAIT_S)
        assert _texts(store) == ["message 1", "message 3"]
        assert store.message_count == 2

    def test_remove_by_producer(self, store: MessageStore) -> None:
        _add(store, 1, 2, 3)
        store.remove_message(MessageId(PRODUCER, 2)).result(_WAIT_S)
        assert _texts(store) == ["message 1", "message 3"]
        assert store.message_count == 2

    def test_removing_what_is_not_there_is_no_error_and_does_not_count(self, store: MessageStore) -> None:
        _add(store, 1)
        store.remove_message(MessageId(PRODUCER, 9)).result(_WAIT_S)
        store.remove_message(MessageId(PRODUCER, 9, 4711)).result(_WAIT_S)
        (message,) = _all(store)
        store.remove_message(_id(message)).result(_WAIT_S)
        store.remove_message(_id(message)).result(_WAIT_S)
        assert store.message_count == 0

    def test_a_remove_that_overtakes_its_add_leaves_nothing(self, store: MessageStore) -> None:
        for round_ in range(50):
            message = text_message(round_)
            added = store.add_message(message)
            removed = store.remove_message(_id(message))
            assert added.result(_WAIT_S) == _sequence(message)
            removed.result(_WAIT_S)
        assert _texts(store) == []
        assert store.message_count == 0

    def test_several_are_removed_at_once(self, store: MessageStore) -> None:
        _add(store, 1, 2, 3, 4, 5)
        second = _id(_all(store)[1])
        several = [second, MessageId(PRODUCER, 4), MessageId(PRODUCER, 9), MessageId(PRODUCER, 9, 4711), second.copy()]
        store.remove_message(*several).result(_WAIT_S)
        assert _texts(store) == ["message 1", "message 3", "message 5"]
        assert store.message_count == 3
        store.remove_message().result(_WAIT_S)
        assert store.message_count == 3

    def test_a_remove_of_several_that_overtakes_some_of_their_adds_leaves_nothing(self, store: MessageStore) -> None:
        for round_ in range(50):
            messages = [text_message(3 * round_ + number) for number in range(3)]
            store.add_message(messages[0]).result(_WAIT_S)
            added = [store.add_message(message) for message in messages[1:]]
            removed = store.remove_message(*map(_id, messages))
            assert [one.result(_WAIT_S) for one in added] == [_sequence(message) for message in messages[1:]]
            removed.result(_WAIT_S)
        assert _texts(store) == []
        assert store.message_count == 0

    def test_remove_all_takes_what_was_added_before_and_nothing_else(
        self, adapter: PersistenceAdapter, store: MessageStore
    ) -> None:
        other = adapter.queue_message_store(Queue("OTHER"))
        _add(other, 1)
        pending = [store.add_message(text_message(n)) for n in range(100)]
        purged = store.remove_all_messages()
        after = store.add_message(text_message(100))
        for completion in [*pending, after]:
            completion.result(_WAIT_S)
        purged.result(_WAIT_S)
        assert _texts(store) == ["message 100"]
        assert (store.message_count, other.message_count) == (1, 1)

    def test_delete_all_messages_empties_every_queue(self, adapter: PersistenceAdapter, store: MessageStore) -> None:
        _add(store, 1, 2)
        adapter.delete_all_messages()
        assert adapter.destinations() == set()
        assert adapter.queue_message_store(Queue("TEST")).message_count == 0

    # -- order and pages -----------------------------------------------------------------------------------------

    def test_pages_follow_one_another_without_gap_or_overlap(self, store: MessageStore) -> None:
        _add(store, *range(25))
        cursor = Cursor()
        seen: list[str] = []
        sizes: list[int] = []
        while (page := store.recover_next_messages(cursor, 10, _ROOMY_BYTES)).messages:
            seen += [_text(message) for message in page.messages]
            sizes.append(len(page.messages))
            cursor = page.cursor
        assert seen == [f"message {n}" for n in range(25)]
        assert sizes == [10, 10, 5]

    def test_an_empty_page_keeps_the_cursor(self, store: MessageStore) -> None:
        _add(store, 1)
        end = store.recover_next_messages(Cursor(), 10, _ROOMY_BYTES).cursor
        assert store.recover_next_messages(end, 10, _ROOMY_BYTES).cursor == end
        _add(store, 2)
        assert [_text(m) for m in store.recover_next_messages(end, 10, _ROOMY_BYTES).messages] == ["message 2"]

    def test_a_page_ends_with_the_message_that_reaches_its_bytes(self, store: MessageStore) -> None:
        for n in range(6):
            store.add_message(text_message(n, "x" * 10_000)).result(_WAIT_S)
        assert len(store.recover_next_messages(Cursor(), 100, 25_000).messages) == 3

    def test_one_message_fits_any_page(self, store: MessageStore) -> None:
        store.add_message(text_message(1, "x" * 500_000)).result(_WAIT_S)
        assert len(store.recover_next_messages(Cursor(), 10, 1).messages) == 1

    def test_a_page_of_long_and_short_messages_keeps_the_order(self, store: MessageStore) -> None:
        lengths = [10, 200_000, 20, 300_000, 30]
        for n, length in enumerate(lengths):
            store.add_message(text_message(n, "x" * length)).result(_WAIT_S)
        page = store.recover_next_messages(Cursor(), 10, _ROOMY_BYTES)
        assert [len(_text(message)) for message in page.messages] == lengths

    def test_a_cursor_after_a_sequence_starts_behind_it(self, store: MessageStore) -> None:
        _add(store, *range(5))
        third = _all(store)[2]
        page = store.recover_next_messages(Cursor.after(_sequence(third)), 10, _ROOMY_BYTES)
        assert [_text(m) for m in page.messages] == ["message 3", "message 4"]

    def test_priority_does_not_count_where_the_queue_is_not_prioritised(self, store: MessageStore) -> None:
        for n, priority in enumerate([0, 9, 4, 7]):
            store.add_message(text_message(n, priority=priority)).result(_WAIT_S)
        assert _texts(store) == ["message 0", "message 1", "message 2", "message 3"]
        assert [message.priority for message in _all(store)] == [0, 9, 4, 7]

    def test_a_prioritised_queue_pages_from_the_highest_down(self, adapter: PersistenceAdapter) -> None:
        store = adapter.queue_message_store(Queue("PRIO"), prioritized=True)
        for n in range(40):
            store.add_message(text_message(n, priority=n % 10)).result(_WAIT_S)
        cursor = Cursor()
        seen: list[tuple[int, int]] = []
        while (page := store.recover_next_messages(cursor, 7, _ROOMY_BYTES)).messages:
            seen += [(m.priority, _sequence(m)) for m in page.messages]
            cursor = page.cursor
        assert seen == sorted(seen, key=lambda found: (-found[0], found[1]))
        assert len(seen) == 40

    def test_a_late_high_priority_is_on_the_next_page(self, adapter: PersistenceAdapter) -> None:
        store = adapter.queue_message_store(Queue("PRIO"), prioritized=True)
        for n in range(10):
            store.add_message(text_message(n, priority=3)).result(_WAIT_S)
        cursor = store.recover_next_messages(Cursor(), 5, _ROOMY_BYTES).cursor
        store.add_message(text_message(10, priority=8)).result(_WAIT_S)
        page = store.recover_next_messages(cursor, 3, _ROOMY_BYTES)
        assert [_text(m) for m in page.messages] == ["message 10", "message 5", "message 6"]

    def test_recover_walks_through_everything(self, store: MessageStore) -> None:
        _add(store, *range(30))
        assert [_text(m) for m in store.recover(page_messages=7)] == [f"message {n}" for n in range(30)]

    def test_sequences_grow_over_all_queues(self, adapter: PersistenceAdapter) -> None:
        stores = [adapter.queue_message_store(Queue(name)) for name in "ABC"]
        given = [stores[n % 3].add_message(text_message(n)).result(_WAIT_S) for n in range(12)]
        assert all(first < second for first, second in pairwise(given))
        assert adapter.last_message_broker_sequence_id() == given[-1]

    def test_many_producers_at_once_lose_and_reorder_nothing(self, store: MessageStore) -> None:
        def produce(number: int) -> list[int]:
            producer = ProducerId(f"ID:test-{number}", 1, 1)
            pending = [store.add_message(text_message(n, producer_id=producer)) for n in range(100)]
            return [completion.result(_WAIT_S) for completion in pending]

        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(produce, range(8)))
        assert all(sequences == sorted(sequences) for sequences in given)
        assert [_sequence(m) for m in _all(store)] == sorted(sequence for sequences in given for sequence in sequences)
        assert store.message_count == 800

    def test_a_reader_never_skips_what_is_being_written(self, store: MessageStore) -> None:
        total = 2_000
        seen: list[int] = []
        done = threading.Event()

        def read() -> None:
            cursor = Cursor()
            while len(seen) < total:
                finished = done.is_set()
                page = store.recover_next_messages(cursor, 64, _ROOMY_BYTES)
                seen.extend(_sequence(message) for message in page.messages)
                cursor = page.cursor
                if finished and not page.messages:
                    return

        reader = threading.Thread(target=read)
        reader.start()
        pending = [store.add_message(text_message(n)) for n in range(total)]
        for completion in pending:
            completion.result(_WAIT_S)
        done.set()
        reader.join(_WAIT_S)
        assert seen == [completion.result() for completion in pending]

    # -- several queues ------------------------------------------------------------------------------------------

    def test_destinations_are_those_with_messages(self, adapter: PersistenceAdapter) -> None:
        for name in ("A", "a", "A.B", "Ü"):
            adapter.queue_message_store(Queue(name)).add_message(text_message(1)).result(_WAIT_S)
        adapter.queue_message_store(Queue("EMPTY"))
        assert adapter.destinations() == {Queue("A"), Queue("a"), Queue("A.B"), Queue("Ü")}

    def test_names_that_differ_in_case_only_are_two_queues(self, adapter: PersistenceAdapter) -> None:
        upper, lower = (adapter.queue_message_store(Queue(name)) for name in ("Case", "case"))
        _add(upper, 1, 2)
        _add(lower, 3)
        assert (_texts(upper), _texts(lower)) == (["message 1", "message 2"], ["message 3"])
        upper.remove_all_messages().result(_WAIT_S)
        assert (upper.message_count, lower.message_count) == (0, 1)
        assert _texts(lower) == ["message 3"]

    def test_a_name_with_quotes_is_a_name(self, adapter: PersistenceAdapter) -> None:
        store = adapter.queue_message_store(Queue('it\'s \\ "odd" %s :x ; --'))
        _add(store, 1, 2)
        store.remove_message(MessageId(PRODUCER, 1)).result(_WAIT_S)
        assert _texts(store) == ["message 2"]
        store.remove_all_messages().result(_WAIT_S)
        assert store.message_count == 0

    def test_the_same_queue_has_the_same_store(self, adapter: PersistenceAdapter) -> None:
        assert adapter.queue_message_store(Queue("A")) is adapter.queue_message_store(Queue("A"))

    def test_a_move_is_one_step(self, adapter: PersistenceAdapter, store: MessageStore) -> None:
        _add(store, 1, 2)
        target = adapter.queue_message_store(Queue("TARGET"))
        message = _all(store)[0]
        moved = message.copy()
        adapter.move_message(_id(message), store, moved, target).result(_WAIT_S)
        assert (_texts(store), _texts(target)) == (["message 2"], ["message 1"])
        assert (store.message_count, target.message_count) == (1, 1)
        assert _sequence(moved) > _sequence(message)

    def test_adds_and_removes_together(self, adapter: PersistenceAdapter, store: MessageStore) -> None:
        _add(store, 1, 2)
        target = adapter.queue_message_store(Queue("TARGET"))
        adds = [(target, text_message(10)), (store, text_message(11)), (target, text_message(12))]
        removes = [(store, MessageId(PRODUCER, 1)), (store, _id(_all(store)[1]))]
        adapter.commit_together(Commit(adds=adds, removes=removes)).result(_WAIT_S)
        assert (_texts(store), _texts(target)) == (["message 11"], ["message 10", "message 12"])
        assert (store.message_count, target.message_count) == (1, 2)

    def test_what_was_prepared_is_stored_like_the_rest(self, adapter: PersistenceAdapter, store: MessageStore) -> None:
        adds = [(store, text_message(number)) for number in (1, 2, 3)]
        prepared = [store.prepare(message) for _, message in adds[:2]] + [None]
        _add(store, 10)  # its number is taken meanwhile
        adapter.commit_together(Commit(adds=adds, prepared=prepared)).result(_WAIT_S)
        assert _texts(store) == ["message 10", "message 1", "message 2", "message 3"]
        found = _all(store)[1:]
        assert [_sequence(message) for message in found] == [_sequence(message) for _, message in adds]
        assert [marshal(message) for message in found] == [marshal(message) for _, message in adds]

    def test_a_store_of_another_adapter_is_refused(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as other:
            foreign = other.queue_message_store(Queue("TEST"))
        with open_adapter() as adapter, pytest.raises((JdbcStoreError, ValueError)):
            adapter.commit_together(Commit(adds=[(foreign, text_message(1))]))

    # -- producers -----------------------------------------------------------------------------------------------

    def test_the_last_sequence_of_a_producer(self, adapter: PersistenceAdapter, store: MessageStore) -> None:
        _add(store, 3, 9, 5)
        assert adapter.last_producer_sequence_id(PRODUCER) == 9
        assert adapter.last_producer_sequence_id(ProducerId("ID:nobody", 1, 1)) == -1

    def test_a_producer_is_remembered_when_its_messages_are_gone(
        self, adapter: PersistenceAdapter, store: MessageStore
    ) -> None:
        message = text_message(7)
        adapter.commit_together(Commit(adds=[(store, message)], producers={PRODUCER: 7})).result(_WAIT_S)
        store.remove_message(_id(message)).result(_WAIT_S)
        assert adapter.last_producer_sequence_id(PRODUCER) == 7

    def test_a_producer_is_remembered_although_its_message_went_before_it_was_written(
        self, adapter: PersistenceAdapter, store: MessageStore
    ) -> None:
        for number in range(1, 30):
            message = text_message(number)
            added = adapter.commit_together(Commit(adds=[(store, message)], producers={PRODUCER: number}))
            store.remove_message(_id(message)).result(_WAIT_S)
            added.result(_WAIT_S)
            assert adapter.last_producer_sequence_id(PRODUCER) == number

    def test_what_is_remembered_of_a_producer_is_whole(self, adapter: PersistenceAdapter, store: MessageStore) -> None:
        for number, (is_remembered, whole) in enumerate([(True, {1}), (False, {1, 2}), (True, {3})], 1):
            marks = {PRODUCER: number} if is_remembered else {}
            adapter.commit_together(Commit(adds=[(store, text_message(number))], producers=marks)).result(_WAIT_S)
            assert adapter.last_whole_sequence_id(PRODUCER) in whole
        assert adapter.last_whole_sequence_id(ProducerId("ID:nobody", 1, 1)) == -1

    def test_producers_are_remembered_without_messages_each_for_itself(self, adapter: PersistenceAdapter) -> None:
        names = ["a", "A", "a ", "ä", "it's \\ %s", "a"]
        for number, name in enumerate(names, 1):
            adapter.commit_together(Commit(producers={ProducerId(name, 0, 0): number})).result(_WAIT_S)
        many = {ProducerId(f"of {number}", 0, 0): number for number in range(1, 400)}
        adapter.commit_together(Commit(producers=many)).result(_WAIT_S)
        assert [adapter.last_producer_sequence_id(ProducerId(name, 0, 0)) for name in names] == [6, 2, 3, 4, 5, 6]
        assert all(adapter.last_producer_sequence_id(producer) == last for producer, last in list(many.items())[::50])

    def test_what_is_remembered_of_a_producer_never_goes_back(
        self, adapter: PersistenceAdapter, store: MessageStore
    ) -> None:
        last = (1 << 63) - 1
        for number in (5, last, 3):
            adapter.commit_together(Commit(producers={PRODUCER: number})).result(_WAIT_S)
        _add(store, 9)
        assert adapter.last_producer_sequence_id(PRODUCER) == last

    def test_what_was_submitted_counts_for_the_last_sequence(self, adapter: PersistenceAdapter) -> None:
        for number in range(1, 50):
            adapter.commit_together(Commit(producers={PRODUCER: number}))
            assert adapter.last_producer_sequence_id(PRODUCER) == number

    def test_what_follows_a_failed_write_fails_too(self, adapter: PersistenceAdapter, store: MessageStore) -> None:
        _add(store, 1)
        failed: Completion[None] = Completion()
        failed.fail(TransientStoreError("the first one"))
        done = adapter.commit_together(Commit(adds=[(store, text_message(2))], producers={PRODUCER: 2}))
        third = adapter.commit_together(
            Commit(
                adds=[(store, text_message(3))],
                removes=[(store, MessageId(PRODUCER, 1))],
                producers={PRODUCER: 3},
                follows=[done, failed],
            )
        )
        fourth = adapter.commit_together(
            Commit(adds=[(store, text_message(4))], producers={PRODUCER: 4}, follows=[third])
        )
        fifth = adapter.commit_together(Commit(adds=[(store, text_message(5))], follows=[done]))
        assert [completion.exception(_WAIT_S) is None for completion in (done, third, fourth, fifth)] == [
            True,
            False,
            False,
            True,
        ]
        assert isinstance(fourth.error, TransientStoreError)
        assert _texts(store) == ["message 1", "message 2", "message 5"]
        assert store.message_count == 3
        assert adapter.last_producer_sequence_id(PRODUCER) == 5  # by the message, not by a mark

    def test_delete_all_messages_forgets_producers(self, adapter: PersistenceAdapter) -> None:
        adapter.commit_together(Commit(producers={PRODUCER: 9})).result(_WAIT_S)
        adapter.delete_all_messages()
        assert adapter.last_producer_sequence_id(PRODUCER) == -1

    # -- life ----------------------------------------------------------------------------------------------------

    # -- expiry --------------------------------------------------------------------------------------------------

    def test_expired_messages_are_found_in_the_order_of_their_expiration(self, adapter: PersistenceAdapter) -> None:
        first, second = (adapter.queue_message_store(Queue(name)) for name in ("A", "B"))
        for number, expiration in enumerate((300, 0, 100, 200, 400, 100, 500), 1):
            store = first if number % 2 else second
            store.add_message(text_message(number, destination=store.destination, expiration=expiration)).result(
                _WAIT_S
            )
        found = adapter.expired_messages(400, 100)
        assert [(one.destination, one.sequence) for one in found.messages] == [
            (Queue("A"), 3),
            (Queue("B"), 6),
            (Queue("B"), 4),
            (Queue("A"), 1),
        ]
        assert found.place is None
        assert adapter.expired_messages(100, 100).messages == []

    def test_pages_of_expired_messages_follow_one_another(
        self, adapter: PersistenceAdapter, store: MessageStore
    ) -> None:
        for number in range(1, 11):
            store.add_message(text_message(number, expiration=100 + number // 4)).result(_WAIT_S)
        found, place = [], (0, 0)
        for _ in range(10):
            page = adapter.expired_messages(1000, 3, place)
            found += [one.sequence for one in page.messages]
            if page.place is None:
                break
            place = page.place
        assert found == list(range(1, 11))

    def test_what_is_removed_does_not_expire(self, adapter: PersistenceAdapter, store: MessageStore) -> None:
        for number in range(1, 4):
            store.add_message(text_message(number, expiration=100)).result(_WAIT_S)
        store.remove_message(MessageId(None, 0, 2)).result(_WAIT_S)
        assert [one.sequence for one in adapter.expired_messages(1000, 10).messages] == [1, 3]
        store.remove_all_messages().result(_WAIT_S)
        assert adapter.expired_messages(1000, 10).messages == []

    def test_an_expired_message_tells_its_level(self, adapter: PersistenceAdapter) -> None:
        store = adapter.queue_message_store(Queue("P"), prioritized=True)
        for number, priority in enumerate((9, 4, 0), 1):
            message = text_message(number, destination=Queue("P"), priority=priority, expiration=100)
            store.add_message(message).result(_WAIT_S)
        assert [one.level for one in adapter.expired_messages(1000, 10).messages] == [9, 4, 0]

    def test_prepared_messages_expire_like_others(self, adapter: PersistenceAdapter) -> None:
        store = adapter.queue_message_store(Queue("P"), prioritized=True)
        adds = [
            (store, text_message(number, destination=Queue("P"), priority=priority, expiration=100 * number))
            for number, priority in enumerate((9, 4, 0), 1)
        ]
        prepared = [store.prepare(message) for _, message in adds]
        adapter.commit_together(Commit(adds=adds, prepared=prepared)).result(_WAIT_S)
        found = adapter.expired_messages(250, 10).messages
        assert [(one.sequence, one.level) for one in found] == [(_sequence(adds[0][1]), 9), (_sequence(adds[1][1]), 4)]

    def test_checkpoint_of_a_healthy_store_says_nothing(self, adapter: PersistenceAdapter) -> None:
        adapter.checkpoint()

    def test_stop_finishes_what_was_submitted(self, open_adapter: OpenAdapter) -> None:
        adapter = open_adapter()
        adapter.start()
        store = adapter.queue_message_store(Queue("TEST"))
        pending = [store.add_message(text_message(n)) for n in range(200)]
        adapter.stop()
        assert all(completion.result(0) for completion in pending)

    def test_a_stopped_store_says_so(self, open_adapter: OpenAdapter) -> None:
        adapter = open_adapter()
        adapter.start()
        store = adapter.queue_message_store(Queue("TEST"))
        adapter.stop()
        adapter.stop()
        with pytest.raises(StoreClosed):
            store.add_message(text_message(1))
        with pytest.raises(StoreClosed):
            store.recover_next_messages(Cursor(), 1, 1)
        with pytest.raises(StoreClosed):
            adapter.checkpoint()


class DurablePersistenceAdapterContract(PersistenceAdapterContract):
    """The suite for a store whose messages survive `stop` and a new adapter on the same storage."""

    def test_everything_is_there_after_a_restart(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            store = adapter.queue_message_store(Queue("TEST"))
            _add(store, *range(20))
            store.remove_message(_id(_all(store)[0])).result(_WAIT_S)
            prioritized = adapter.queue_message_store(Queue("PRIO"), prioritized=True)
            for n in range(3):
                prioritized.add_message(text_message(n, priority=n)).result(_WAIT_S)
            last = adapter.last_message_broker_sequence_id()
        with open_adapter() as adapter:
            store = adapter.queue_message_store(Queue("TEST"))
            assert adapter.destinations() == {Queue("TEST"), Queue("PRIO")}
            assert store.message_count == 19
            assert _texts(store) == [f"message {n}" for n in range(1, 20)]
            prioritized = adapter.queue_message_store(Queue("PRIO"), prioritized=True)
            assert _texts(prioritized) == ["message 2", "message 1", "message 0"]
            assert adapter.last_message_broker_sequence_id() == last
            assert store.add_message(text_message(99)).result(_WAIT_S) == last + 1
            assert adapter.last_producer_sequence_id(PRODUCER) == 99

    def test_producers_are_remembered_after_a_restart(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            store = adapter.queue_message_store(Queue("TEST"))
            message = text_message(7)
            adapter.commit_together(Commit(adds=[(store, message)], producers={PRODUCER: 7}))
            store.remove_message(_id(message))
        with open_adapter() as adapter:
            assert adapter.last_producer_sequence_id(PRODUCER) == 7


def _add(store: MessageStore, *numbers: int) -> None:
    for completion in [store.add_message(text_message(number)) for number in numbers]:
        completion.result(_WAIT_S)


def _add_together(store: MessageStore, messages: Sequence[Message]) -> Sequence[Completion[Any]]:
    """As a broker does: one by one if the store does not take them in one go."""
    completion = store.add_messages(messages)
    return list(map(store.add_message, messages)) if completion is None else [completion]


def _all(store: MessageStore) -> Sequence[Message]:
    return store.recover_next_messages(Cursor(), 10_000, _ROOMY_BYTES).messages


def _texts(store: MessageStore) -> list[str]:
    return [_text(message) for message in _all(store)]


def _text(message: Message) -> str:
    assert isinstance(message, TextMessage)
    return message.text or ""


def _id(message: Message) -> MessageId:
    assert message.message_id is not None
    return message.message_id


def _sequence(message: Message) -> int:
    return _id(message).broker_sequence_id
