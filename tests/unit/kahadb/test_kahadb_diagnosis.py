"""What keeps a journal file: the rules one by one, and what real brokers kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import JournalDamaged
from jdbcstore.identifiers import TransactionId, XATransactionId
from jdbcstore.store.journal.commands import AckMessageFileMap, AddMessage, Prepare, RemoveMessage
from jdbcstore.store.journal.kahadb.ackmap import read_ack_map
from jdbcstore.store.journal.kahadb.diagnosis import Diagnosis, Held, Pins, Span, SubscriptionPin, removable
from jdbcstore.store.journal.kahadb.journal import Location
from jdbcstore.store.journal.kahadb.survey import survey
from jdbcstore.store.journal.state import StoredMessage, Tier
from tests.unit.kahadb.journals import unpack, unpack_index, write

A, B, T = Queue("A"), Queue("B"), Topic("T")
X, Y = XATransactionId(1, b"x", b"1"), XATransactionId(1, b"y", b"2")


def held(file: int) -> Held:
    return Held(1, 100, StoredMessage("1", 1, Location(file, 28, 100), Tier.DEFAULT, file << 32))


def live(**files: int) -> dict[int, dict[Destination, Held]]:
    found: dict[int, dict[Destination, Held]] = {}
    for name, file in files.items():
        found.setdefault(file, {})[Queue(name)] = held(file)
    return found


def pins(count: int = 5, **more: object) -> Pins:
    return Pins(dict.fromkeys(range(1, count + 1), 1000), count, **more)  # type: ignore[arg-type]


def span(transaction: TransactionId, first: int, last: int) -> Span:
    return Span(transaction, Location(first, 28, 9), Location(last, 28, 9), True)


@pytest.mark.parametrize(
    ("pinned", "gone"),
    [
        (pins(), {1, 2, 3, 4}),
        (Pins(dict.fromkeys((1, 2, 3), 10), 2), {1}),
        # The index names a file that is not there any more: the last one stays nevertheless.
        (Pins(dict.fromkeys((1, 2, 3), 10), 9), {1, 2}),
        (pins(live=live(A=2)), {1, 3, 4}),
        (pins(audit=2, ack_map=4), {1, 3}),
        (pins(audit=1), {2, 3, 4}),
        # One span over all transactions, with what is in between.
        (pins(7, transactions=[span(X, 2, 2), span(Y, 5, 5)]), {1, 6}),
        # An idle subscription is written anew if its file is the first one that could go; others keep theirs.
        (pins(subscriptions=[SubscriptionPin(1, T, "a:b", True)]), {1, 2, 3, 4}),
        (pins(subscriptions=[SubscriptionPin(2, T, "a:b", True)]), {1, 3, 4}),
        (pins(subscriptions=[SubscriptionPin(1, T, "a:b", False)]), {2, 3, 4}),
        (pins(subscriptions=[SubscriptionPin(1, T, "a:b", True), SubscriptionPin(1, T, "c:d", False)]), {2, 3, 4}),
        # Acknowledgements keep a chain of files; those for files that are gone, or that go, keep nothing.
        (pins(live=live(A=1), acks={2: {1}, 3: {2, 3}, 4: {3}}), set()),
        (pins(live=live(A=3), acks={2: {1}, 4: {3}}), {1, 2}),
        (pins(acks={2: {1}, 3: {2, 77}}), {1, 2, 3, 4}),
        # Files are asked once, in ascending order: 1 is asked before 2 is known to stay.
        (pins(live=live(A=3), acks={1: {2}, 2: {3}}), {1, 4}),
    ],
)
def test_the_rules(pinned: Pins, gone: set[int]) -> None:
    assert removable(pinned) == gone
    diagnosis = Diagnosis.of(pinned)
    assert {number for number, file in diagnosis.files.items() if file.removable} == gone
    for file in diagnosis.files.values():
        assert file.removable or file.for_itself or file.chain


def freed(pinned: Pins) -> Mapping[str, list[int]]:
    return {str(holder): one.files for holder, one in Diagnosis.of(pinned).holders.items()}


def test_what_the_end_of_a_holder_frees() -> None:
    chain = pins(live=live(A=1, B=3), acks={2: {1}, 3: {2}, 4: {3}})
    assert freed(chain) == {"queue://A": [1, 2], "queue://B": []}
    # Both hold the same file: only together.
    both = pins(live=live(A=1) | live(B=1, A=1), acks={2: {1}})
    assert freed(both) == {"queue://A": [], "queue://B": []}
    assert Diagnosis.of(both).everything.files == [1, 2]
    assert Diagnosis.of(both).everything.bytes == 2000
    spans = pins(transactions=[span(X, 1, 1), span(Y, 4, 4)])
    assert freed(spans) == {str(X): [1, 2, 3], str(Y): [2, 3, 4]}
    # The record of an idle subscription moves when its topic is consumed, and then its file goes.
    topic = pins(
        live={1: {T: held(1)}, 2: {T: held(2)}},
        subscriptions=[SubscriptionPin(1, T, "a:b", False), SubscriptionPin(2, T, "c:d", False)],
    )
    assert freed(topic) == {"topic://T": [1, 2]}


def test_files_that_go_with_later_cleanups() -> None:
    idle = [SubscriptionPin(1, T, "a:b", True), SubscriptionPin(3, T, "c:d", True)]
    for pinned, now, later in ((pins(audit=1), [2, 3, 4], [1]), (pins(subscriptions=idle), [1, 2, 4], [3])):
        diagnosis = Diagnosis.of(pinned)
        assert [number for number, file in diagnosis.files.items() if file.removable] == now
        assert diagnosis.later == later
        assert diagnosis.everything.files == []


def test_a_chain_leads_to_its_root() -> None:
    diagnosis = Diagnosis.of(pins(6, live=live(A=1, B=4), acks={2: {1}, 3: {2}, 5: {3, 4}}))
    assert diagnosis.files[3].chain == [2, 1]
    assert diagnosis.roots(3) == [A]
    assert diagnosis.files[5].chain == [4]
    assert diagnosis.roots(5) == [B, A]
    assert diagnosis.files[1].chain == ()


@pytest.mark.parametrize(
    "name",
    ["basic", "compaction", "expired", "large", "periodic", "pinned", "pinnedgap", "priorities", "transactions"],
)
def test_a_real_broker_kept_these_files_when_it_was_stopped(name: str, tmp_path: Path) -> None:
    unpack(name, tmp_path)
    unpack_index(name, tmp_path)
    with survey(tmp_path) as found:
        assert found.acks()[1] is None
        assert removable(found.pins()) == set()


def test_one_message_keeps_a_journal(tmp_path: Path) -> None:
    unpack("pinned", tmp_path)
    diagnosis = Diagnosis.of(survey(tmp_path).pins())
    assert diagnosis.files[9].chain == [8, 7, 6, 5, 4, 3, 2, 1]
    assert diagnosis.roots(9) == [Queue("Q.PIN")]
    assert {str(holder): one.files for holder, one in diagnosis.holders.items()} == {
        "queue://Q.PIN": [1, 2, 3, 4, 5, 6, 7, 8, 9],
        "queue://Q.TAIL": [],
    }
    assert diagnosis.holders[Queue("Q.PIN")].bytes == sum(found.bytes for found in list(diagnosis.files.values())[:9])


def test_without_an_index_files_with_copies_seem_to_be_the_last_ones(tmp_path: Path) -> None:
    unpack("compaction", tmp_path)
    assert survey(tmp_path).pins().last_update == 19
    unpack_index("compaction", tmp_path)
    with survey(tmp_path) as found:
        # Here the broker writes on in the fifteenth file.
        assert found.pins().last_update == 15


def test_acknowledgements_that_only_the_index_knows_count_also_after_a_crash(tmp_path: Path) -> None:
    unpack("compaction", tmp_path)
    unpack_index("compaction", tmp_path)
    data = (tmp_path / "db.data").read_bytes().replace(b"cleanShutdown=true", b"cleanShutdown=no  ")
    (tmp_path / "db.data").write_bytes(data)
    (tmp_path / "db.redo").unlink(missing_ok=True)
    with survey(tmp_path) as found:
        acks, _ = found.acks()
        # The file of a compaction's copies, and the one that was copied.
        assert acks[16] == {1, 11}
        assert acks[11] == found.state.ack_files[11] == {1, 11}


def test_a_prepared_transaction_holds_all_files_from_its_first_operation_to_its_last(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            1: [AddMessage(None, A, "1", b"m")],
            2: [AddMessage(X, B, "2", b"m")],
            3: [AddMessage(None, A, "3", b"m"), RemoveMessage(None, A, "3")],
            4: [RemoveMessage(X, A, "1", b"ack"), Prepare(X)],
            5: [AddMessage(Y, B, "3", b"m"), RemoveMessage(None, A, "1")],
            6: [AddMessage(None, B, "4", b"m")],
        },
    )
    found = survey(tmp_path).pins()
    assert [(one.transaction_id, one.first.file, one.last.file) for one in found.transactions] == [(X, 2, 4)]
    # What is neither ended nor prepared is rolled back at the next start, so 5 is kept for its acknowledgement alone:
    # of a message in 1, which goes.
    assert removable(found) == {1, 5}


def test_maps_of_acknowledgements_are_read(tmp_path: Path) -> None:
    unpack("compaction", tmp_path)
    maps = [c.ack_message_file_map for _, c in survey(tmp_path).journal.records() if isinstance(c, AckMessageFileMap)]
    data = maps[-1]
    assert data is not None
    assert read_ack_map(data) == {16: {1, 11}, 17: {1, 2, 4}, 18: {6, 8}, 19: {2, 4, 6, 8, 10, 11}}
    for end in range(len(data)):
        with pytest.raises(JournalDamaged):
            read_ack_map(data[:end])
    for place in range(len(data)):
        damaged = data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
        try:
            read_ack_map(damaged)
        except JournalDamaged:
            continue
