"""What each command does to the state, where the vectors do not show it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, XATransactionId
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import SubscriptionInfo
from jdbcstore.store.journal.commands import (
    AddMessage,
    AddScheduledJob,
    Command,
    Commit,
    DestroyScheduler,
    Prepare,
    RemoveDestination,
    RemoveMessage,
    RemoveScheduledJob,
    RemoveScheduledJobs,
    RescheduleJob,
    RewrittenDataFile,
    Rollback,
    Subscription,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.kahadb.journal import Journal, Location
from jdbcstore.store.journal.kahadb.scheduler import replay_scheduler
from jdbcstore.store.journal.replay import Replay, replay
from jdbcstore.store.journal.sequences import SequenceSet
from jdbcstore.store.journal.state import LastAck, State, Tier
from tests.unit.kahadb.journals import batch, write

A, B, T = Queue("A"), Queue("B"), Topic("T")
ONE = LocalTransactionId(1, ConnectionId("ID:c"))
TWO = LocalTransactionId(2, ConnectionId("ID:c"))
THREE = LocalTransactionId(3, ConnectionId("ID:c"))
XA = XATransactionId(7, b"g", b"b")
INFO = marshal(SubscriptionInfo(client_id="c", subscription_name="n", destination=T))


def add(id: str, where: Queue | Topic = A, tx: LocalTransactionId | XATransactionId | None = None) -> AddMessage:
    return AddMessage(tx, where, id, b"content")


def remove(id: str, where: Queue | Topic = A, tx: object = None, key: str | None = None) -> RemoveMessage:
    return RemoveMessage(tx, where, id, b"ack", key)  # type: ignore[arg-type]


def ack(id: str, key: str, tx: object = None) -> RemoveMessage:
    return remove(id, T, tx, key)


def subscribe(key: str, retroactive: bool = False) -> Subscription:
    return Subscription(T, key, retroactive, INFO)


def after(*commands: Command) -> State:
    progress = Replay({1})
    progress.apply((Location(1, 28 + 10 * i, 10), command) for i, command in enumerate(commands))
    return progress.finish()


def ids(state: State, where: Queue | Topic = A) -> list[str]:
    return [message.message_id for message in state.destinations[where].messages()]


# --- queues -----------------------------------------------------------------------------------------------------------


def test_order_and_tiers() -> None:
    priorities = [4, 9, 0, 5, 3, 4]
    state = after(*(add(str(i))._replace(priority=p, priority_supported=True) for i, p in enumerate(priorities)))
    assert ids(state) == ["1", "3", "0", "5", "2", "4"]
    state = after(*(add(str(i))._replace(priority=p) for i, p in enumerate(priorities)))
    assert ids(state) == ["0", "1", "2", "3", "4", "5"]


def test_a_duplicate_is_ignored_and_takes_a_number() -> None:
    state = after(add("1"), add("1"), add("2"))
    assert [(m.message_id, m.sequence, m.location.offset) for m in state.destinations[A].messages()] == [
        ("1", 0, 28),
        ("2", 2, 48),
    ]
    assert state.destinations[A].next_sequence == 3


def test_removing_what_is_not_there() -> None:
    state = after(remove("1"), add("1"), remove("1"), remove("1"), remove("2", B))
    assert ids(state) == ids(state, B) == []


def test_an_update_keeps_the_place_and_may_change_the_tier() -> None:
    state = after(add("1"), add("2"), UpdateMessage(add("1")))
    assert ids(state) == ["1", "2"]
    assert [m.location.offset for m in state.destinations[A].messages()] == [48, 38]
    assert [m.sequence for m in state.destinations[A].messages()] == [0, 1]
    state = after(add("1"), add("2"), UpdateMessage(add("2")._replace(priority=9, priority_supported=True)))
    assert ids(state) == ["2", "1"]


def test_an_update_of_an_unknown_message_adds_it() -> None:
    assert ids(after(add("1"), UpdateMessage(add("2")))) == ["1", "2"]


def test_a_removed_destination_begins_anew() -> None:
    state = after(add("1"), add("2"), RemoveDestination(A), add("3"))
    assert [(m.message_id, m.sequence) for m in state.destinations[A].messages()] == [("3", 0)]
    assert A not in after(add("1"), RemoveDestination(A)).destinations


# --- transactions -----------------------------------------------------------------------------------------------------


def test_the_order_is_that_of_the_commits() -> None:
    state = after(add("1", tx=ONE), add("2", tx=TWO), add("3"), add("4", tx=ONE), Commit(TWO), Commit(ONE), Commit(ONE))
    assert ids(state) == ["3", "2", "1", "4"]
    assert state.unfinished == {}


def test_places_among_all_messages_are_those_of_commits_and_stay() -> None:
    many: list[Command] = [add(str(number), tx=ONE) for number in range(12)]
    commands: list[Command] = [add("a", B), *many, add("b", B, TWO), add("c"), Commit(ONE), add("d", B), Commit(TWO)]
    state = after(*commands)
    found = {m.message_id: m.order - (1 << 32) for stored in state.destinations.values() for m in stored.messages()}
    committed = 28 + 10 * commands.index(Commit(ONE))
    assert found == {
        "a": 28,
        "c": 28 + 10 * 14,
        **{str(number): committed + number for number in range(12)},
        # Its own place is taken, because a record here is shorter than a transaction has messages.
        "d": committed + 12,
        "b": 28 + 10 * 17,
    }
    later = after(*commands, remove("c"), remove("0"), UpdateMessage(add("5")), add("e"))
    for message in later.destinations[A].messages()[:-1]:
        assert message.order - (1 << 32) == found[message.message_id]


def test_a_transaction_that_did_not_end_left_only_its_destination() -> None:
    state = after(add("1"), remove("1", tx=ONE), add("2", B, ONE), add("3", tx=TWO), Rollback(TWO))
    assert ids(state) == ["1"]
    assert ids(state, B) == []
    (unfinished,) = state.unfinished.values()
    assert unfinished.added == [(B, "2", Location(1, 48, 10))]
    assert unfinished.acknowledged == [(A, "1", None)]


def test_prepared() -> None:
    begun: list[Command] = [add("1"), remove("1", tx=XA), add("2", B, XA), Prepare(XA)]
    state = after(*begun)
    assert (ids(state), state.dispatchable(A), ids(state, B)) == (["1"], [], [])
    assert state.prepared[XA].acknowledged == [(A, "1", None)]
    for end, left in ((Commit(XA), ([], ["2"])), (Rollback(XA), (["1"], []))):
        state = after(*begun, end)
        assert (ids(state), ids(state, B)) == left
        assert state.prepared == {}


def test_a_destination_removed_before_the_commit_stays_removed() -> None:
    assert A not in after(add("1", tx=ONE), RemoveDestination(A), Commit(ONE)).destinations


def test_files_that_acknowledgements_refer_to(tmp_path: Path) -> None:
    files: dict[int, list[Command]] = {
        1: [add("1"), add("2")],
        2: [remove("1"), add("3", tx=ONE), remove("2", tx=XA), add("4", tx=TWO)],
        4: [Commit(ONE), Rollback(TWO)],
        5: [Prepare(XA)],
        6: [Rollback(XA), remove("unknown")],
    }
    state = replay(Journal(write(tmp_path, files)))
    assert state.ack_files == {2: {1}, 4: {2}, 5: {2}, 6: {2}}


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_topic_without_subscriptions_keeps_nothing() -> None:
    state = after(add("1", T))
    assert ids(state, T) == []
    assert state.destinations[T].next_sequence == 0


def test_a_message_stays_until_the_last_subscription_acknowledged_it() -> None:
    begun: list[Command] = [subscribe("c:1"), add("1", T), subscribe("c:2"), add("2", T)]
    state = after(*begun, ack("2", "c:1"))
    stored = state.destinations[T]
    assert ids(state, T) == ["1", "2"]
    assert [m.message_id for m in state.pending(T, "c:1")] == ["1"]
    assert [m.message_id for m in state.pending(T, "c:2")] == ["2"]
    assert list(stored.subscriptions["c:1"].pending) == [0, 2]
    assert stored.subscriptions["c:1"].last_ack == LastAck(1, Tier.DEFAULT)
    assert stored.subscriptions["c:2"].last_ack == LastAck(0, Tier.LOW)
    assert ids(after(*begun, ack("2", "c:1"), ack("2", "c:2")), T) == ["1"]
    assert ids(after(*begun, ack("1", "c:1")), T) == ["2"]
    assert ids(after(*begun, ack("1", "c:2"), ack("1", "nobody")), T) == ["1", "2"]
    assert state.pending(T, "nobody") == state.pending(Topic("U"), "c:1") == state.dispatchable(Queue("U")) == []


def test_a_prepared_acknowledgement_hides_a_message_from_its_subscription_alone() -> None:
    state = after(subscribe("c:1"), subscribe("c:2"), add("1", T), ack("1", "c:1", XA), Prepare(XA))
    assert state.pending(T, "c:1") == []
    assert [m.message_id for m in state.pending(T, "c:2")] == ["1"]


def test_a_retroactive_subscription_waits_for_what_others_wait_for() -> None:
    state = after(subscribe("c:1"), add("1", T), add("2", T), ack("1", "c:1"), subscribe("c:2", retroactive=True))
    subscription = state.destinations[T].subscriptions["c:2"]
    assert subscription.pending.ranges() == [(1, 2)]
    assert subscription.last_ack == LastAck(-1, Tier.LOW)
    # Its own set is another one.
    state = after(subscribe("c:1"), add("1", T), subscribe("c:2", retroactive=True), ack("1", "c:1"), add("2", T))
    assert [m.message_id for m in state.pending(T, "c:2")] == ["1", "2"]


def test_a_subscription_that_is_changed_keeps_what_waits_for_it() -> None:
    state = after(subscribe("c:1"), add("1", T), subscribe("c:1"))
    assert [m.message_id for m in state.pending(T, "c:1")] == ["1"]
    assert state.destinations[T].subscriptions["c:1"].last_ack == LastAck(0, Tier.LOW)
    assert state.destinations[T].subscriptions["c:1"].info.client_id == "c"


def test_a_subscription_that_ends() -> None:
    begun: list[Command] = [subscribe("c:1"), add("1", T), subscribe("c:2"), add("2", T)]
    state = after(*begun, Subscription(T, "c:1"))
    assert ids(state, T) == ["2"]
    assert T not in after(*begun, Subscription(T, "c:1"), Subscription(T, "c:2")).destinations
    state = after(*begun, Subscription(T, "c:1"), Subscription(T, "c:2"), subscribe("c:1"))
    assert state.destinations[T].next_sequence == 0


# --- ack compaction ---------------------------------------------------------------------------------------------------

COPIES: list[Command] = [RewrittenDataFile(2, 1), remove("1"), Commit(ONE)]
COMPACTED: dict[int, list[Command]] = {
    1: [add("1"), add("2"), subscribe("c:1")],
    2: [remove("1"), add("3"), add("10", tx=XA)],
}
BEHIND: list[Command] = [
    add("4"),
    add("5"),
    remove("5"),
    remove("2"),
    add("6", tx=ONE),
    Commit(ONE),
    add("7", T),
    ack("7", "c:1"),
    subscribe("c:2"),
    add("8", tx=TWO),
    Commit(XA),
]


def test_what_stands_behind_the_copies_is_found(tmp_path: Path) -> None:
    files: dict[int, list[Command]] = {**COMPACTED, 4: [*COPIES, *BEHIND], 5: [Commit(TWO), add("9")]}
    state = replay(Journal(write(tmp_path, files)))
    assert ids(state) == ["3", "4", "6", "10", "8", "9"]
    (lost,) = state.lost_by_broker
    assert (lost.marker.file, lost.source) == (4, 2)
    assert lost.messages == [(A, "4"), (A, "6"), (A, "10"), (A, "8")]
    assert lost.acknowledged == [(A, "2")]
    assert lost.others == 1
    assert str(lost) == (
        "db-4.log:28: a broker that rebuilds its index leaves the rest of this file out while db-2.log exists: it loses"
        " 4 messages, delivers 1 again and misses 1 other changes"
    )


@pytest.mark.parametrize("marker", [RewrittenDataFile(3, 1), RewrittenDataFile(2, 1, False)])
def test_what_a_broker_reads_is_not_lost(marker: RewrittenDataFile, tmp_path: Path) -> None:
    files: dict[int, list[Command]] = {**COMPACTED, 4: [marker, *BEHIND]}
    state = replay(Journal(write(tmp_path, files)))
    assert ids(state) == ["3", "4", "6", "10"]
    assert state.lost_by_broker == []


def test_copies_alone_are_no_loss(tmp_path: Path) -> None:
    files: dict[int, list[Command]] = {**COMPACTED, 4: [*COPIES, remove("1", tx=TWO)], 5: [add("9")]}
    state = replay(Journal(write(tmp_path, files)))
    assert ids(state) == ["2", "3", "9"]
    assert state.lost_by_broker == []
    assert set(state.unfinished) == {XA}  # the other had ended before it was copied


# A transaction acknowledged in file 2, and was committed in file 3. Then file 2 was copied to file 5 and deleted.
SEPARATED: dict[int, list[Command]] = {
    1: [subscribe("c:1"), *(add(id) for id in "123456"), add("7", T), add("8", T), subscribe("c:2")],
    3: [Commit(ONE), Rollback(TWO), add("9")],
    5: [
        RewrittenDataFile(2, 1),
        remove("1", tx=ONE),
        ack("7", "c:1", ONE),
        ack("8", "nobody", ONE),
        ack("8", "c:2", ONE),
        remove("gone", tx=ONE),
        remove("9", tx=ONE),
        remove("2", tx=THREE),
        remove("5", tx=TWO),
        remove("3", tx=XA),
        Commit(XA),
        Trace("LOADED"),
        remove("4", tx=ONE),
    ],
    6: [remove("5", tx=ONE)],
}


def test_acknowledgements_that_were_separated_from_their_commit_are_found(tmp_path: Path) -> None:
    state = replay(Journal(write(tmp_path, SEPARATED)))
    assert ids(state) == ["2", "4", "5", "6", "9"]
    assert [m.message_id for m in state.pending(T, "c:1")] == ids(state, T) == ["8"]
    assert state.revived_by_broker == [(A, "1"), (T, "7")]
    assert state.perhaps_acknowledged == [(A, "2")]
    (unfinished,) = state.unfinished.values()
    assert [ack.message_id for ack in unfinished.acknowledged] == ["4", "5"]


def test_copies_end_with_their_file(tmp_path: Path) -> None:
    files = {**SEPARATED, 5: SEPARATED[5][:2]}
    state = replay(Journal(write(tmp_path, files)))
    assert ids(state) == ["2", "3", "4", "5", "6", "9"]
    (unfinished,) = state.unfinished.values()
    assert [ack.message_id for ack in unfinished.acknowledged] == ["5"]


def test_they_were_not_separated_while_the_original_is_there(tmp_path: Path) -> None:
    files: dict[int, list[Command]] = {**SEPARATED, 2: [remove("1", tx=ONE), ack("7", "c:1", ONE), remove("2", tx=TWO)]}
    state = replay(Journal(write(tmp_path, files)))
    assert ids(state)[:2] == ["2", "4"]
    assert [m.message_id for m in state.pending(T, "c:1")] == ["8"]
    assert state.revived_by_broker == []


# A transaction sent in file 1, and was committed in file 2. What it sent was acknowledged in file 3, then file 2 was
# copied to file 5 and deleted.
COMMITTED_LATE: dict[int, list[Command]] = {
    1: [subscribe("c:1"), *(add(id, tx=ONE) for id in "123"), add("7", T, tx=ONE), add("8", T, tx=ONE)],
    3: [remove("1"), ack("7", "c:1"), remove("3", tx=TWO), Commit(TWO)],
    5: [RewrittenDataFile(2, 1), Commit(ONE)],
}


def test_what_was_acknowledged_before_the_copy_of_its_commit_is_gone(tmp_path: Path) -> None:
    state = replay(Journal(write(tmp_path, COMMITTED_LATE)))
    assert ids(state) == ["2"]
    assert [m.message_id for m in state.pending(T, "c:1")] == ids(state, T) == ["8"]
    assert state.revived_by_broker == [(A, "1"), (A, "3"), (T, "7")]
    assert state.ack_files[3] >= {1}


def test_what_was_acknowledged_before_its_commit_was_another_message(tmp_path: Path) -> None:
    files: dict[int, list[Command]] = {**COMMITTED_LATE, 5: [Commit(ONE)]}
    assert ids(replay(Journal(write(tmp_path, files)))) == ["1", "2", "3"]


# A transaction sent in file 1, and was committed in file 2. In file 3 more came, then file 2 was copied to file 5 and
# deleted.
COPIED_COMMIT: dict[int, list[Command]] = {
    1: [
        subscribe("c:1"),
        *(add(id, tx=ONE) for id in "12"),
        add("3", B, tx=ONE),
        add("7", T, tx=ONE),
        add("6", tx=TWO),
    ],
    3: [RemoveDestination(B), add("4"), add("4", B), subscribe("c:2"), subscribe("c:3", True), add("8", T)],
    5: [RewrittenDataFile(2, 1), Commit(ONE), Commit(TWO), Trace("LOADED"), add("5")],
}


def test_what_a_copied_commit_sends_has_the_place_of_the_original(tmp_path: Path) -> None:
    state = replay(Journal(write(tmp_path, COPIED_COMMIT)))
    assert ids(state) == ["1", "2", "6", "4", "5"]
    orders = [message.order for message in state.destinations[A].messages()]
    assert [order >> 32 for order in orders] == [2, 2, 2, 3, 5]
    assert orders == sorted(set(orders))


def test_what_a_copied_commit_sends_is_for_the_subscriptions_of_the_original(tmp_path: Path) -> None:
    state = replay(Journal(write(tmp_path, COPIED_COMMIT)))
    pending = {key: [m.message_id for m in state.pending(T, key)] for key in ("c:1", "c:2", "c:3")}
    assert pending == {"c:1": ["7", "8"], "c:2": ["8"], "c:3": ["7", "8"]}


def test_what_a_copied_commit_sent_to_a_destination_that_was_removed_since_is_gone(tmp_path: Path) -> None:
    state = replay(Journal(write(tmp_path, COPIED_COMMIT)))
    assert ids(state, B) == ["4"]
    assert state.revived_by_broker == [(B, "3")]


def test_a_copied_acknowledgement_is_not_of_a_subscription_that_began_later(tmp_path: Path) -> None:
    files: dict[int, list[Command]] = {
        1: [subscribe("c:1"), subscribe("c:2"), add("7", T), add("8", T)],
        3: [Subscription(T, "c:2"), subscribe("c:2", True), Commit(ONE)],
        5: [RewrittenDataFile(2, 1), ack("7", "c:2"), ack("8", "c:2", tx=ONE), ack("8", "c:1")],
    }
    state = replay(Journal(write(tmp_path, files)))
    assert [m.message_id for m in state.pending(T, "c:2")] == ["7", "8"]
    assert [m.message_id for m in state.pending(T, "c:1")] == ["7"]


# --- several stores ---------------------------------------------------------------------------------------------------


def test_the_common_store_decides_about_local_transactions(tmp_path: Path) -> None:
    first, second, third = (XATransactionId(61616, b"ID:c", str(i).encode()) for i in range(3))
    (tmp_path / "store").mkdir()
    (tmp_path / "txStore").mkdir()
    commands = [add(str(i), tx=xid) for i, xid in enumerate((first, second, third, XA))]
    store = write(tmp_path / "store", {1: [*commands, *map(Prepare, (first, second, third, XA))]})
    outcomes = write(tmp_path / "txStore", {1: [Trace(), Prepare(second), Prepare(third), Prepare(XA), Commit(third)]})
    assert set(replay(Journal(store)).prepared) == {first, second, third, XA}
    state = replay(Journal(store), Journal(outcomes))
    assert ids(state) == ["1"]
    assert set(state.prepared) == {XA}
    with (outcomes / "db-1.log").open("r+b") as file:
        file.seek(40)
        file.write(b"?")
    assert set(replay(Journal(store), Journal(outcomes)).prepared) == {first, second, third, XA}


# --- bad records ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (AddMessage(None, None, "1", b""), "a message without destination, id or content"),
        (AddMessage(None, A, None, b""), "a message without destination, id or content"),
        (AddMessage(None, A, "1"), "a message without destination, id or content"),
        (RemoveMessage(None, A), "an acknowledgement without destination or message id"),
        (RemoveMessage(None, None, "1"), "an acknowledgement without destination or message id"),
        (RemoveMessage(ONE, A, "1", b"", "c:1"), "an acknowledgement of a durable subscription to a queue"),
        (UpdateMessage(), "an update without message"),
        (Prepare(), "a prepare without transaction"),
        (Commit(), "the end of a transaction without its id"),
        (Rollback(), "the end of a transaction without its id"),
        (RemoveDestination(), "a removal of no destination"),
        (Subscription(A, "c:1", False, INFO), "a durable subscription without key or to no topic"),
        (Subscription(T, None, False, INFO), "a durable subscription without key or to no topic"),
    ],
)
def test_a_command_that_says_nothing_is_damage(command: Command, what: str, tmp_path: Path) -> None:
    state = replay(Journal(write(tmp_path, {1: [add("1"), command, add("2")]})))
    (damage,) = state.damages
    assert damage.what == what
    assert damage.offset == len(batch(add("1"))) + 28
    assert ids(state) == ["1", "2"]


# --- scheduled messages -----------------------------------------------------------------------------------------------


def test_scheduled_messages(tmp_path: Path) -> None:
    def job(id: str, time: int, repeat: int = 0, cron: str = "", scheduler: str = "JMS") -> AddScheduledJob:
        return AddScheduledJob(scheduler, id, 1, cron, 0, 0, repeat, b"x", time)

    commands: list[Command] = [
        job("late", 900),
        job("early", 100),
        job("early", 100),
        job("again", 100, 2),
        RescheduleJob("JMS", "again", 100, 200, 1),
        RescheduleJob("JMS", "again", 100, 300, 1),
        job("cron", 100, 1, "* * * * *"),
        RescheduleJob("JMS", "cron", 100, 400, 1),
        job("gone", 500),
        RemoveScheduledJob("JMS", "gone", 499),
        job("gone", 501),
        RemoveScheduledJob("JMS", "gone", -1),
        job("range", 600),
        job("range", 601),
        job("range", 602),
        RemoveScheduledJobs("JMS", 600, 601),
        job("other", 1, scheduler="other"),
        DestroyScheduler("other"),
        RescheduleJob("nobody", "x", 1, 2, 3),
        AddScheduledJob("JMS"),
        Trace(),
    ]
    found = replay_scheduler(Journal(write(tmp_path, {1: commands})))
    assert {name: [(j.job_id, j.next_execution_time, j.repeat) for j in jobs] for name, jobs in found.items()} == {
        "JMS": [
            ("early", 100, 0),
            ("again", 200, 1),
            ("cron", 400, 1),
            ("gone", 501, 0),
            ("range", 602, 0),
            ("late", 900, 0),
        ]
    }


# --- the set of pending messages --------------------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(0, 3)), max_size=40)


@given(STEPS, STEPS)
def test_a_set_of_sequences_is_a_set(steps: list[tuple[bool, int, int]], others: list[tuple[bool, int, int]]) -> None:
    made = []
    for todo in (steps, others):
        found, wanted = SequenceSet(), set[int]()
        for is_added, first, more in todo:
            if is_added:
                found.add(first, first + more)
                wanted.update(range(first, first + more + 1))
            else:
                assert found.remove(first) == (first in wanted)
                wanted.discard(first)
            assert list(found) == sorted(wanted)
            assert len(found) == len(wanted)
            assert [number for number in range(40) if number in found] == sorted(wanted)
            ranges = found.ranges()
            assert all(b + 1 < c for (_, b), (c, _) in pairwise(ranges))
        made.append((found, wanted))
    (found, wanted), (other, more_wanted) = made
    found.update(other)
    assert list(found) == sorted(wanted | more_wanted)
