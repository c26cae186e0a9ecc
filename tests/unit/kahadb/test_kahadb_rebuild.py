"""After a start of ours a broker's rebuild comes to what there is, whatever compactions and cleanups left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jdbcstore.config.inspection import looking_into
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import JournalDamaged, StoreError, StoreFull
from jdbcstore.identifiers import XATransactionId
from jdbcstore.migration.journals import contents_of_journals
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import SubscriptionInfo
from jdbcstore.store.contract import SupportsTransactions
from jdbcstore.store.journal.commands import (
    AddMessage,
    Command,
    Commit,
    Prepare,
    RemoveDestination,
    RewrittenDataFile,
    Subscription,
    Trace,
)
from jdbcstore.store.journal.kahadb import rebuild, recovery
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.blank_index import blank_index, is_blank_index, leave_blank_index, wire_version_of
from jdbcstore.store.journal.kahadb.inspection import check
from jdbcstore.store.journal.kahadb.journal import Journal, JournalFile
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.pagefile import PageFile
from jdbcstore.store.journal.kahadb.rebuild import rebuilt
from jdbcstore.store.journal.kahadb.repair import repair
from jdbcstore.store.journal.replay import replay
from jdbcstore.store.journal.state import State
from jdbcstore.testing.messages import text_message
from tests.unit.kahadb.journals import add, index_page, remove, unpack, unpack_index, write

A, T = Queue("A"), Topic("T")
XID = XATransactionId(5, b"b", b"g")
INFO = marshal(SubscriptionInfo(client_id="c", destination=T, subscription_name="s", subscribed_destination=T))


def outline(state: State) -> dict[str, list[str]]:
    """What is there, by destination and by subscription."""
    found: dict[str, list[str]] = {}
    for where, stored in state.destinations.items():
        if len(stored):
            found[str(where)] = [message.message_id for message in stored.messages()]
        for key, subscription in stored.subscriptions.items():
            found[key] = [message.message_id for message in stored.pending(subscription)]
    for xid, transaction in state.prepared.items():
        found[str(xid)] = [message_id for _, message_id, _ in transaction.added]
        found[str(xid)] += [ack.message_id for ack in transaction.acknowledged]
    return found


def started_and_stopped(directory: Path) -> None:
    with KahaDBPersistenceAdapter(directory, KahaDBOptions(cleanup_on_stop=False)):
        pass


SHAPES: dict[str, dict[int, list[Command]]] = {
    "messages behind copies": {
        1: [add(1), add(2), remove(2)],
        2: [RewrittenDataFile(1, 1), remove(2), Trace("LOADED"), add(3), add(4), remove(3)],
    },
    "acknowledged behind copies": {
        1: [add(1), add(2), remove(2)],
        2: [RewrittenDataFile(1, 1), remove(2), Trace("LOADED"), remove(1), add(5)],
    },
    "a subscription and its messages behind copies": {
        1: [add(1), add(2), remove(2)],
        2: [
            RewrittenDataFile(1, 1),
            remove(2),
            Subscription(T, "c:s", False, INFO),
            add(6, T),
            add(7, T),
            remove(6, T, "c:s"),
        ],
    },
    "prepared behind copies": {
        1: [add(1), add(2), remove(2)],
        2: [
            RewrittenDataFile(1, 1),
            remove(2),
            Trace("LOADED"),
            add(3, transaction=XID),
            remove(1, transaction=XID)._replace(ack=b"an ack"),
            Prepare(XID),
        ],
    },
    "a commit in front of the copies of what it acknowledges": {
        1: [add(1), add(2)],
        3: [Commit(XID), add(3)],
        4: [RewrittenDataFile(2, 1), remove(1, transaction=XID)],
    },
    "an acknowledgement in front of the copy of its commit": {
        1: [add(1, transaction=XID), add(2, transaction=XID)],
        3: [remove(1), add(3)],
        4: [RewrittenDataFile(2, 1), Commit(XID)],
    },
    "a copied commit behind what came later": {
        1: [add(1, transaction=XID), add(2, transaction=XID)],
        3: [add(3)],
        4: [RewrittenDataFile(2, 1), Commit(XID), Trace("LOADED"), add(4)],
    },
    "a copied commit behind a subscription": {
        1: [Subscription(T, "c:r", False, INFO), add(1, T, transaction=XID)],
        3: [Subscription(T, "c:s", False, INFO), add(2, T)],
        4: [RewrittenDataFile(2, 1), Commit(XID)],
    },
    "a copied commit behind the removal of its queue": {
        1: [add(1, transaction=XID)],
        3: [RemoveDestination(A), add(2)],
        4: [RewrittenDataFile(2, 1), Commit(XID)],
    },
    "a copied acknowledgement behind a subscription": {
        1: [Subscription(T, "c:r", False, INFO), Subscription(T, "c:s", False, INFO), add(1, T)],
        3: [Subscription(T, "c:s"), Subscription(T, "c:s", True, INFO)],
        4: [RewrittenDataFile(2, 1), remove(1, T, "c:s")],
    },
    "the acknowledgement of an earlier message of the same id": {
        1: [add(9)],
        3: [add(1), add(2)],
        4: [RewrittenDataFile(2, 1), remove(1)],
    },
    "two compactions": {
        1: [add(1), add(2), remove(2)],
        2: [RewrittenDataFile(1, 1), remove(2), Trace("LOADED"), add(3), remove(3), add(4)],
        3: [RewrittenDataFile(2, 1), remove(3), Trace("LOADED"), add(5)],
    },
}


@pytest.mark.parametrize("files", SHAPES.values(), ids=SHAPES)
def test_a_rebuild_comes_to_what_there_is(files: dict[int, list[Command]], tmp_path: Path) -> None:
    write(tmp_path, files)
    there = outline(replay(Journal(tmp_path)))
    assert outline(rebuilt(Journal(tmp_path))) != there
    for _ in range(2):
        started_and_stopped(tmp_path)
        now = replay(Journal(tmp_path))
        assert outline(rebuilt(Journal(tmp_path))) == outline(now)
        assert {name: sorted(ids) for name, ids in outline(now).items()} == {
            name: sorted(ids) for name, ids in there.items()
        }
        assert not now.lost_by_broker
        (tmp_path / "jdbcstore-index.sqlite").unlink()


@pytest.mark.parametrize("files", SHAPES.values(), ids=SHAPES)
def test_a_second_look_finds_nothing_to_do(files: dict[int, list[Command]], tmp_path: Path) -> None:
    write(tmp_path, files)
    started_and_stopped(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("db-*.log")}
    (tmp_path / "jdbcstore-index.sqlite").unlink()
    started_and_stopped(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("db-*.log")} == before


def test_the_file_that_was_copied_is_made_anew(tmp_path: Path) -> None:
    write(tmp_path, SHAPES["a copied commit behind what came later"])
    there = outline(replay(Journal(tmp_path)))
    assert there == {str(A): [add(number).message_id for number in (1, 2, 3, 4)]}
    assert outline(rebuilt(Journal(tmp_path))) == {str(A): [add(number).message_id for number in (3, 1, 2, 4)]}
    started_and_stopped(tmp_path)
    assert outline(rebuilt(Journal(tmp_path))) == outline(replay(Journal(tmp_path))) == there
    with Journal(tmp_path).opened(2) as source:
        assert [command for _, command in JournalFile(source, 2).records()] == [Commit(XID)]


def test_nothing_moves_where_a_marker_is_told_to_go_on(tmp_path: Path) -> None:
    write(tmp_path, SHAPES["messages behind copies"])
    before = [location for location, _ in Journal(tmp_path).records()]
    size = (tmp_path / "db-2.log").stat().st_size
    started_and_stopped(tmp_path)
    records = [(location, command) for location, command in Journal(tmp_path).records() if location.file < 3]
    assert [location for location, _ in records] == before
    (marker,) = [command for _, command in records if isinstance(command, RewrittenDataFile)]
    assert marker.source == 1
    assert not marker.skip_if_source_exists
    assert (tmp_path / "db-2.log").stat().st_size == size


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, SHAPES["messages behind copies"])
    before = (tmp_path / "db-2.log").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jdbcstore.store.disk.DiskFile.sync", full)
    with pytest.raises(StoreFull):
        started_and_stopped(tmp_path)
    assert (tmp_path / "db-2.log").read_bytes() == before
    assert not list(tmp_path.glob("*.jdbcstore"))


# --- what only the index knows ----------------------------------------------------------------------------------------


def test_what_the_index_of_a_stopped_broker_has_let_go_stays_so(tmp_path: Path) -> None:
    unpack("compaction", tmp_path)
    unpack_index("compaction", tmp_path)
    there = outline(replay(Journal(tmp_path)))
    # They were consumed, or their queue or subscription was removed: the records of that are gone.
    gone = Subscription(T, "c:s", False, INFO)
    write(tmp_path, {0: [add(77, Queue("Q.BUSY")), add(78), gone, add(79, T)]})
    assert outline(replay(Journal(tmp_path))) != there
    started_and_stopped(tmp_path)
    assert outline(replay(Journal(tmp_path))) == outline(rebuilt(Journal(tmp_path))) == there


def test_a_kill_before_the_index_goes_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    store.mkdir()
    unpack("compaction", store)
    unpack_index("compaction", store)
    there = outline(replay(Journal(store)))
    write(store, {0: [add(77, Queue("Q.BUSY"))]})

    def kill(where: Path, wire_version: int | None) -> None:
        shutil.copytree(store, tmp_path / "killed", dirs_exist_ok=True)
        leave_blank_index(where, wire_version)

    monkeypatch.setattr(recovery, "leave_blank_index", kill)
    started_and_stopped(store)
    killed = tmp_path / "killed"
    assert (killed / "db.data").read_bytes() != blank_index(11)
    assert outline(replay(Journal(killed))) == outline(rebuilt(Journal(killed))) == there
    started_and_stopped(killed)
    assert outline(replay(Journal(killed))) == outline(rebuilt(Journal(killed))) == there


# --- branches ---------------------------------------------------------------------------------------------------------

OTHER = XATransactionId(5, b"b", b"other")
#: A branch in doubt, by the journal; the record that ended it stood in file 2, which an ack compaction has copied.
BRANCH: dict[int, list[Command]] = {
    1: [add(1, transaction=XID), add(2, transaction=XID), Prepare(XID)],
    3: [add(3, transaction=OTHER), Prepare(OTHER)],
    4: [RewrittenDataFile(2, 1), Trace("LOADED")],
}


def in_doubt(directory: Path) -> set[object]:
    """The branches that are in doubt, for us and for a broker."""
    prepared = set(replay(Journal(directory)).prepared)
    assert set(rebuilt(Journal(directory)).prepared) == prepared
    return set(prepared)


@pytest.mark.parametrize("closed", [True, False])
def test_a_branch_that_was_rolled_back_stays_so(closed: bool, tmp_path: Path) -> None:
    write(tmp_path, BRANCH)
    assert in_doubt(tmp_path) == {XID, OTHER}
    (tmp_path / "db.data").write_bytes(index_page((3, 28), (3, 28), closed=closed))
    started_and_stopped(tmp_path)
    assert in_doubt(tmp_path) == {OTHER}
    (tmp_path / "jdbcstore-index.sqlite").unlink()
    started_and_stopped(tmp_path)
    assert in_doubt(tmp_path) == {OTHER}


@pytest.mark.parametrize(
    ("last", "first"),
    [((4, 28), (1, 28)), ((4, 28), (1, 60)), ((1, 28), None)],
    ids=["it is in progress", "a part of it is in progress", "the index is older"],
)
def test_a_branch_stays_in_doubt(last: tuple[int, int], first: tuple[int, int] | None, tmp_path: Path) -> None:
    write(tmp_path, BRANCH)
    (tmp_path / "db.data").write_bytes(index_page(last, first, closed=False))
    started_and_stopped(tmp_path)
    assert in_doubt(tmp_path) == {XID, OTHER}


def test_a_branch_that_its_broker_may_have_left_out_stays_in_doubt(tmp_path: Path) -> None:
    write(tmp_path, {**SHAPES["prepared behind copies"], 3: [Trace("LOADED")]})
    (tmp_path / "db.data").write_bytes(index_page((3, 28), closed=False))
    started_and_stopped(tmp_path)
    assert in_doubt(tmp_path) == {XID}


def test_a_branch_whose_messages_the_index_of_a_killed_broker_knows_stays_in_doubt(tmp_path: Path) -> None:
    unpack("compaction", tmp_path)
    unpack_index("compaction", tmp_path)
    kept = replay(Journal(tmp_path)).destinations[Queue("Q.KEEP")].messages()[0].message_id
    known = add(1, Queue("Q.KEEP"), transaction=XID)._replace(message_id=kept)
    write(tmp_path, {0: [known, Prepare(XID), add(2, transaction=OTHER), Prepare(OTHER)]})
    index = tmp_path / "db.data"
    index.write_bytes(index.read_bytes().replace(b"cleanShutdown=true", b"cleanShutdown=no  "))
    started_and_stopped(tmp_path)
    assert in_doubt(tmp_path) == {XID}


@pytest.mark.parametrize("closed", [True, False])
def test_a_branch_whose_prepare_is_gone_is_in_doubt_if_its_broker_was_stopped(closed: bool, tmp_path: Path) -> None:
    write(tmp_path, {1: [add(1, transaction=XID)], 3: [add(3, transaction=OTHER)], 4: BRANCH[4]})
    (tmp_path / "db.data").write_bytes(index_page((4, 28), (1, 28), closed=closed))
    for _ in range(2):
        started_and_stopped(tmp_path)
        assert in_doubt(tmp_path) == ({XID} if closed else set())
        (tmp_path / "jdbcstore-index.sqlite").unlink()


#: What the journal lacks: the rollback of a branch and the prepare of another one.
LOST: dict[str, tuple[dict[int, list[Command]], tuple[int, int], set[XATransactionId]]] = {
    "rollback": (BRANCH, (3, 28), {OTHER}),
    "prepare": ({1: [add(1, transaction=XID)], 3: [add(3, transaction=OTHER)], 4: BRANCH[4]}, (1, 28), {XID}),
}


@pytest.mark.parametrize("lost", LOST)
def test_who_only_looks_knows_the_branches_that_a_start_knows(lost: str, tmp_path: Path) -> None:
    files, first, branches = LOST[lost]
    store = tmp_path / "store"
    store.mkdir()
    write(store, files)
    (store / "db.data").write_bytes(index_page((4, 28), first))
    report = check(store)
    assert set(report.survey.state.prepared) == branches
    (finding,) = report.findings
    assert finding.kind == "prepared"
    assert f"{'rolled back' if lost == 'rollback' else 'prepared'} the transaction {XID}" in finding.what
    with looking_into(f"kahadb:{store}") as view:
        assert isinstance(view, SupportsTransactions)
        assert {one.transaction_id for one in view.transaction_store().prepared_transactions()} == branches
    with contents_of_journals(store) as contents:
        assert set(contents.in_doubt) == branches
    repair(store, tmp_path / "repaired")
    assert in_doubt(tmp_path / "repaired") == branches
    started_and_stopped(store)
    assert in_doubt(store) == branches


def test_a_damaged_index_tells_nothing_about_branches(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, BRANCH)
    (tmp_path / "db.data").write_bytes(b"an index")
    with contents_of_journals(tmp_path) as contents:
        assert set(contents.in_doubt) == {XID, OTHER}
    assert "which branches (XA) are in doubt is told by the journal alone" in caplog.text


def test_an_index_that_is_not_of_this_journal_is_not_believed(tmp_path: Path) -> None:
    unpack_index("compaction", tmp_path)
    write(tmp_path, {1: [add(1), add(2)]})
    started_and_stopped(tmp_path)
    assert len(replay(Journal(tmp_path)).destinations[A]) == 2


def test_the_end_is_refused_while_the_index_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, SHAPES["the acknowledgement of an earlier message of the same id"])
    (tmp_path / "db.data").write_bytes(b"an index")
    monkeypatch.setattr(rebuild, "_append", lambda appender, groups: None)
    with pytest.raises(StoreError, match="kahadb repair"):
        started_and_stopped(tmp_path)
    assert (tmp_path / "db.data").read_bytes() == b"an index"


# --- the wire version -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [6, 11, 12])
def test_a_blank_index_tells_the_version_and_nothing_else(version: int, tmp_path: Path) -> None:
    leave_blank_index(tmp_path, version)
    with PageFile(tmp_path) as index:
        assert index.openwire_version == version
        assert index.last_update is index.first_in_progress is index.ack_map is None
        assert index.closed_cleanly
        assert list(index.destinations()) == []
    assert is_blank_index(tmp_path)
    assert wire_version_of(tmp_path) == version
    data = bytearray(blank_index(version))
    data[5] ^= 1
    (tmp_path / "db.data").write_bytes(data)
    assert not is_blank_index(tmp_path)


def test_a_journal_of_an_old_version_without_index_is_recognised(tmp_path: Path) -> None:
    message = text_message(1, destination=A)
    write(tmp_path, {1: [AddMessage(None, A, str(message.message_id), marshal(message, 6), 4, False)]})
    for _ in range(2):
        with KahaDBPersistenceAdapter(tmp_path) as adapter:
            assert adapter.wire_version == 6
        assert wire_version_of(tmp_path) == 6


def test_a_new_directory_tells_the_version_that_is_configured(tmp_path: Path) -> None:
    with KahaDBPersistenceAdapter(tmp_path, KahaDBOptions(store_open_wire_version=6)):
        pass
    assert is_blank_index(tmp_path)
    with KahaDBPersistenceAdapter(tmp_path) as adapter:
        assert adapter.wire_version == 6


def test_a_message_that_only_the_index_knows_is_given_up_when_asked(tmp_path: Path) -> None:
    """Its journal file is gone, and the index was closed in order."""
    unpack("compaction", tmp_path)
    unpack_index("compaction", tmp_path)
    (tmp_path / "db-8.log").unlink()
    with pytest.raises(JournalDamaged, match=r"db-8\.log.*ignoreMissingJournalfiles=true starts"):
        started_and_stopped(tmp_path)
    assert (tmp_path / "db.data").exists()
    with KahaDBPersistenceAdapter(tmp_path, KahaDBOptions(ignore_missing_journal_files=True)) as adapter:
        assert adapter.queue_message_store(Queue("Q.KEEP")).message_count == 10
