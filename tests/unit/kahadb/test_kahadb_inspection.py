"""What is wrong with a directory is found, and nothing else is."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import XATransactionId
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import SubscriptionInfo
from jdbcstore.store.journal.commands import (
    Command,
    Commit,
    Prepare,
    RewrittenDataFile,
    Subscription,
)
from jdbcstore.store.journal.kahadb.inspection import CheckReport, check
from jdbcstore.store.journal.kahadb.pagefile import PageFile
from jdbcstore.store.journal.kahadb.survey import NOBODY, lock_holder
from tests.unit.kahadb.journals import END, add, batch, remove, unpack, unpack_index, write

A, T = Queue("A"), Topic("T")
XID = XATransactionId(1, b"x", b"1")


def found(report: CheckReport) -> list[tuple[str, str]]:
    return [(finding.kind, finding.place) for finding in report.findings]


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("basic", 35),
        ("compaction", 35),
        ("expired", 19),
        ("large", 20),
        ("periodic", 30),
        ("pinned", 4),
        ("pinnedgap", 2),
        ("priorities", 21),
        ("scheduled", 2),
        ("transactions", 30),
    ],
)
def test_nothing_is_wrong_with_what_a_broker_left(name: str, messages: int, tmp_path: Path) -> None:
    unpack(name, tmp_path)
    unpack_index(name, tmp_path)
    report = check(tmp_path)
    assert found(report) == []
    assert report.messages == messages
    # Nor if the broker was killed: then the index is what it was.
    data = (tmp_path / "db.data").read_bytes().replace(b"cleanShutdown=true", b"cleanShutdown=no  ")
    (tmp_path / "db.data").write_bytes(data)
    (tmp_path / "db.redo").unlink(missing_ok=True)
    report = check(tmp_path)
    assert found(report) == []
    assert any("the index was not closed" in note for note in report.notes)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("corrupt", [("batch", "db-1.log:91328"), ("batch", "db-2.log:51850")]),
        ("torn", [("torn-end", "db-3.log:34506")]),
        ("tornzero", [("torn-end", "db-3.log:33228")]),
    ],
)
def test_damage_is_found(name: str, wanted: list[tuple[str, str]], tmp_path: Path) -> None:
    unpack(name, tmp_path)
    report = check(tmp_path)
    assert found(report) == wanted
    assert json.loads(json.dumps(report.as_json()))["findings"][0]["kind"] == wanted[0][0]


def test_a_torn_end_before_files_made_ahead_is_one(tmp_path: Path) -> None:
    unpack("torn", tmp_path)
    (tmp_path / "db-4.log").write_bytes(END + bytes(100))
    assert [kind for kind, _ in found(check(tmp_path))] == ["torn-end"]


def test_a_scheduler_is_told(tmp_path: Path) -> None:
    unpack("scheduled", tmp_path)
    report = check(tmp_path / "scheduler")
    assert found(report) == []
    assert any("store of a scheduler" in note for note in report.notes)


def test_one_wrong_byte_anywhere_is_found(tmp_path: Path) -> None:
    unpack("transactions", tmp_path)
    path = tmp_path / "db-1.log"
    data = path.read_bytes()
    used = check(tmp_path).survey.ends[1]
    for place in range(0, used, 97):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        assert found(check(tmp_path, messages=False)), place


def test_the_index_is_compared_with_the_journal(tmp_path: Path) -> None:
    unpack("basic", tmp_path)
    unpack_index("basic", tmp_path)
    path = tmp_path / "db-1.log"
    data = path.read_bytes()
    (text,) = [one for one in check(tmp_path).survey.state.destinations.values() if one.destination == Queue("Q.TEXT")]
    messages = text.messages()
    lost, kept = messages[0], messages[1]
    # Its batch is damaged: the index alone has it.
    at = lost.location.offset + 60
    path.write_bytes(data[:at] + b"?" + data[at + 1 :])
    report = check(tmp_path)
    assert ("index-only", str(lost.location)) in found(report)
    path.write_bytes(data)
    # The id in the index is another, so the journal has one more, and the index a message that nobody knows.
    index = tmp_path / "db.data"
    data = index.read_bytes()
    old = kept.message_id.encode()
    index.write_bytes(data.replace(old, old[:-1] + b"Z"))
    kinds = found(check(tmp_path))
    assert ("journal-only", str(kept.location)) in kinds
    assert ("index-only", str(kept.location)) in kinds
    # It stands elsewhere.
    place = old + kept.location.file.to_bytes(4, "big") + kept.location.offset.to_bytes(4, "big")
    assert place in data
    index.write_bytes(data.replace(place, place[:-1] + bytes([place[-1] ^ 1])))
    assert [kind for kind, _ in found(check(tmp_path))] == ["wrong-location"]


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    unpack("pinned", tmp_path)
    unpack_index("pinned", tmp_path)
    (tmp_path / "db-1.log").unlink()
    report = check(tmp_path)
    assert ("missing-file", "db-1.log") in found(report)
    assert any("1 messages of queue://Q.PIN stand in it" in finding.what for finding in report.findings)
    # One that holds acknowledgements alone is missed, too: a broker refuses to start without it.
    unpack("pinned", tmp_path)
    (tmp_path / "db-5.log").unlink()
    assert ("missing-file", "db-5.log") in found(check(tmp_path))


def test_an_index_that_is_ahead_of_the_journal(tmp_path: Path) -> None:
    unpack("basic", tmp_path)
    unpack_index("basic", tmp_path)
    with PageFile(tmp_path) as index:
        last = index.last_update
    assert last is not None
    path = tmp_path / "db-1.log"
    path.write_bytes(path.read_bytes()[: last.offset - 28] + END)
    assert "index-ahead" in [kind for kind, _ in found(check(tmp_path))]


def test_pending_sets_are_compared(tmp_path: Path) -> None:
    unpack("priorities", tmp_path)
    unpack_index("priorities", tmp_path)
    index = tmp_path / "db.data"
    data = index.read_bytes()
    one = b"\x01" + (3).to_bytes(8, "big") + (5).to_bytes(8, "big")
    assert data.count(one) == 1
    index.write_bytes(data.replace(one, b"\x01" + (4).to_bytes(8, "big") + (5).to_bytes(8, "big")))
    assert [kind for kind, _ in found(check(tmp_path))] == ["subscription"]


def test_a_damaged_index_is_a_finding(tmp_path: Path) -> None:
    unpack("basic", tmp_path)
    (tmp_path / "db.data").write_bytes(b"nonsense")
    assert found(check(tmp_path)) == [("index", "db.data")]


def test_what_a_rebuild_loses(tmp_path: Path) -> None:
    files: dict[int, list[Command]] = {
        1: [add(1), add(2), remove(2)],
        2: [RewrittenDataFile(1), remove(2), add(3)],
    }
    write(tmp_path, files)
    report = check(tmp_path)
    assert [kind for kind, _ in found(report)] == ["skipped-file"]
    assert "loses 1 of queue://A" in report.findings[0].meaning


def test_messages_are_unmarshalled(tmp_path: Path) -> None:
    write(tmp_path, {1: [add(1), add(2)._replace(message=b"nonsense"), add(4)._replace(message=add(3).message)]})
    report = check(tmp_path)
    assert [kind for kind, _ in found(report)] == ["message", "message"]
    assert "cannot be read" in report.findings[0].what
    assert "its id is ID:host-1-1-1:1:1:1:3" in report.findings[1].what
    assert found(check(tmp_path, messages=False)) == []


def test_prepared_transactions_and_subscriptions(tmp_path: Path) -> None:
    info = marshal(SubscriptionInfo(client_id="c", subscription_name="d", destination=T), version=11)
    write(
        tmp_path,
        {
            1: [
                Subscription(T, "c:d", False, info),
                Subscription(T, "c:e", False, info),
                Subscription(T, "c:f", False, b"nonsense"),
                add(1),
                add(2, transaction=XID),
                add(3, transaction=XID)._replace(message=b"nonsense"),
                remove(1, transaction=XID),
                remove(9, transaction=XID, ack=b"ack"),
                Prepare(XID),
                Commit(XATransactionId(2, b"unknown", b"")),
            ]
        },
    )
    report = check(tmp_path)
    assert [finding.kind for finding in report.findings] == [
        "message",
        "prepared",
        "prepared",
        "subscription",
        "subscription",
    ]


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_running_broker_is_noticed_and_what_it_writes_is_no_damage(tmp_path: Path) -> None:
    unpack("torn", tmp_path)
    unpack_index("basic", tmp_path)
    assert lock_holder(tmp_path) == NOBODY
    (tmp_path / "lock").write_bytes(b"")
    assert lock_holder(tmp_path) == NOBODY
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        assert lock_holder(tmp_path) == process.pid
        report = check(tmp_path)
        assert found(report) == []
        assert any(f"process {process.pid} holds the lock" in note for note in report.notes)
        assert any("the broker is writing here" in note for note in report.notes)
        # The lock is where it was.
        with (tmp_path / "lock").open("w") as file, pytest.raises(BlockingIOError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        process.stdin.close()
    assert lock_holder(tmp_path) == NOBODY
    assert "torn-end" in [kind for kind, _ in found(check(tmp_path))]


def test_an_unused_file_and_gaps_are_no_fault(tmp_path: Path) -> None:
    write(tmp_path, {2: [add(1)], 5: [add(2)]})
    (tmp_path / "db-6.log").write_bytes(END + bytes(1000))
    (tmp_path / "db-7.log").write_bytes(b"")
    (tmp_path / "tx-1-2.tmp").write_bytes(b"")
    report = check(tmp_path)
    assert found(report) == []
    notes = "\n".join(report.notes)
    assert "files 3 to 4 are not there" in notes
    assert "db-6.log, db-7.log: no record in it" in notes
    assert "tx-1-2.tmp: left over" in notes


def test_many_findings_are_counted(tmp_path: Path) -> None:
    bad = [batch(add(number)._replace(message=b"nonsense")) for number in range(1100)]
    (tmp_path / "db-1.log").write_bytes(b"".join(bad) + END)
    report = check(tmp_path)
    assert len(report.findings) == 1000
    assert report.unlisted == {"message": 100}
