"""A repaired directory holds what was live, in its order, and nothing else."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.cli import run
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import ConfigurationError, LockHeld, StoreError
from jdbcstore.identifiers import TransactionId, XATransactionId
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import MessageAck, SubscriptionInfo
from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.commands import (
    AddMessage,
    Command,
    Commit,
    Prepare,
    Subscription,
    UpdateMessage,
)
from jdbcstore.store.journal.kahadb.appender import Appender
from jdbcstore.store.journal.kahadb.diagnosis import Diagnosis
from jdbcstore.store.journal.kahadb.inspection import check
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.repair import repair
from jdbcstore.store.journal.kahadb.survey import survey
from jdbcstore.store.journal.replay import replay
from jdbcstore.store.journal.state import State
from tests.unit.kahadb.journals import add, remove, unpack, unpack_index, write

A, B, T, U = Queue("A"), Queue("B"), Topic("T"), Topic("U")
XID = XATransactionId(1, b"x", b"1")
ACK = marshal(MessageAck())


def subscribe(where: Topic, name: str) -> Subscription:
    return Subscription(where, f"c:{name}", False, marshal(SubscriptionInfo(client_id="c", subscription_name=name)))


def told(directory: Path) -> dict[str, Any]:
    """All that is live, with contents."""
    journal = Journal(directory)
    state: State = replay(journal)
    assert state.damages == []

    def read(message_id: str, location: Any) -> tuple[str, str, bytes | None]:
        command = journal.read(location)
        add = command.message if isinstance(command, UpdateMessage) else command
        assert isinstance(add, AddMessage)
        return message_id, str(add.priority_supported and add.priority), add.message

    def stored(where: Destination, message_id: str) -> bool:
        return where in state.destinations and state.destinations[where].get(message_id) is not None

    return {
        "messages": {
            str(where): [(message.tier, *read(message.message_id, message.location)) for message in stored.messages()]
            for where, stored in state.destinations.items()
            if len(stored)
        },
        "waiting": {
            (str(where), key): [message.message_id for message in stored.pending(subscription)]
            for where, stored in state.destinations.items()
            for key, subscription in stored.subscriptions.items()
        },
        "infos": {
            key: subscription.info_bytes
            for stored in state.destinations.values()
            for key, subscription in stored.subscriptions.items()
        },
        "prepared": {
            key: (
                [(where, one, journal.message(at).properties) for where, one, at in found.added],
                [one for one in found.acknowledged if stored(one.destination, one.message_id)],
            )
            for key, found in state.prepared.items()
            if found.added or any(stored(one.destination, one.message_id) for one in found.acknowledged)
        },
        "dispatchable": {
            str(where): [message.message_id for message in state.dispatchable(where)]
            for where, stored in state.destinations.items()
            if where.is_queue and len(stored)
        },
    }


NAMES = ["basic", "compaction", "expired", "large", "periodic", "pinned", "pinnedgap", "priorities", "transactions"]


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_directory_loses_nothing(name: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    unpack(name, old)
    unpack_index(name, old)
    before = {path.name: path.read_bytes() for path in old.iterdir() if path.is_file()}
    report = repair(old, new)
    assert report.lost == []
    assert told(new) == told(old)
    assert told(new)["messages"]
    assert {path.name: path.read_bytes() for path in old.iterdir() if path.is_file()} == before


def test_damage_is_left_out_and_told(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    unpack("corrupt", old)
    report = repair(old, new)
    assert report.lost == [
        "db-1.log:91328: no batch begins here (1036 bytes)",
        "db-2.log:51850: a batch with a wrong checksum (1037 bytes)",
    ]
    state = replay(Journal(old))
    assert report.messages == {str(where): len(stored) for where, stored in state.destinations.items()}
    assert [m.message_id for m in replay(Journal(new)).dispatchable(Queue("Q.KILL"))] == [
        m.message_id for m in state.dispatchable(Queue("Q.KILL"))
    ]


@pytest.mark.parametrize("seed", range(60))
def test_whatever_a_journal_tells_is_told_by_the_repaired_one(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    commands: list[Command] = []
    open_transactions: list[TransactionId] = []
    number = 0
    for _ in range(chance.randint(1, 120)):
        topic, name = chance.choice((T, U)), chance.choice("abc")
        what = chance.random()
        transaction = chance.choice(open_transactions) if open_transactions and chance.random() < 0.3 else None
        if what < 0.12:
            commands.append(subscribe(topic, name)._replace(retroactive=chance.random() < 0.3))
        elif what < 0.15:
            commands.append(Subscription(topic, f"c:{name}"))
        elif what < 0.55:
            number += 1
            where = chance.choice((A, B, T, U))
            priority = chance.randint(0, 9)
            supported = where in (B, U)
            commands.append(
                add(number, where, transaction=transaction, priority=priority, priority_supported=supported)
            )
        elif what < 0.72:
            commands.append(remove(chance.randint(0, number), chance.choice((A, B)), transaction=transaction, ack=ACK))
        elif what < 0.88:
            taken = chance.randint(0, number)
            commands.append(remove(taken, topic, f"c:{name}", transaction=transaction, ack=ACK))
        elif what < 0.92 and number:
            commands.append(UpdateMessage(add(chance.randint(1, number), A, text="another")))
        elif open_transactions and chance.random() < 0.7:
            ended = open_transactions.pop()
            commands.append(chance.choice((Prepare, Commit))(ended))
        else:
            open_transactions.append(XATransactionId(1, bytes([len(commands)]), b""))
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    half = len(commands) // 2
    write(old, {1: commands[:half], 3: commands[half:]} if half else {1: commands})
    report = repair(old, new, options=KahaDBOptions(journal_max_file_length_bytes=4096, preallocation_scope="NONE"))
    assert report.lost == []
    assert told(new) == told(old)


def test_a_retroactive_subscription_does_not_wait_again_for_what_it_had(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    late = subscribe(T, "late")._replace(retroactive=True)
    write(old, {1: [subscribe(T, "first"), add(1, T), late, remove(1, T, "c:late"), add(2, T)]})
    repair(old, new)
    ids = [f"ID:host-1-1-1:1:1:1:{number}" for number in (1, 2)]
    assert told(new)["waiting"] == {("topic://T", "c:first"): ids, ("topic://T", "c:late"): ids[1:]}


def test_messages_of_all_destinations_are_written_in_the_order_of_their_commits(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    commands: list[Command] = [add(1, transaction=XID), add(2, B), add(3), add(4, B), Commit(XID), add(5)]
    write(old, {1: commands})
    repair(old, new)
    written = [command.message_id for _, command in Journal(new).records() if isinstance(command, AddMessage)]
    assert written == [f"ID:host-1-1-1:1:1:1:{number}" for number in (2, 3, 4, 1, 5)]


def test_what_only_brokers_of_ours_know_is_kept(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    said = [remarks.known("0:A"), remarks.known("0:B"), remarks.producer("ID:p:1:1", 5), remarks.released("0:A")]
    write(old, {1: [*said, remarks.producer("ID:p:1:1", 4), add(1)]})
    repair(old, new)
    with survey(new) as found:
        assert list(found.remarked.known) == ["0:B"]
        assert found.remarked.producers == {"ID:p:1:1": 5}


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_damaged_the_rest_is_saved(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    name = chance.choice(["transactions", "priorities", "expired", "compaction", "pinnedgap"])
    old, new = tmp_path / "old", tmp_path / "new"
    unpack(name, old)
    unpack_index(name, old)
    for _ in range(chance.randint(1, 6)):
        path = chance.choice(sorted(old.glob("db*")))
        data = bytearray(path.read_bytes())
        at, length = chance.randrange(len(data)), chance.choice([1, 4, 50])
        data[at : at + length] = b"" if chance.random() < 0.1 else chance.randbytes(length)
        path.write_bytes(data)
    check(old)
    with survey(old) as found:
        Diagnosis.of(found.pins())
        state = found.state
    repair(old, new)
    assert check(new).findings == []
    saved = told(new)
    assert saved["dispatchable"] == {
        str(where): [message.message_id for message in state.dispatchable(where)]
        for where, stored in state.destinations.items()
        if where.is_queue and len(stored)
    }


def test_messages_that_cannot_be_read_are_lost_and_told(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    wrong = add(4)._replace(message_id="ID:host-1-1-1:1:1:1:5")
    twice = add(1)._replace(message_id="ID:host-1-1-1:1:1:1:6")
    write(old, {1: [add(1), add(2)._replace(message=b"nonsense"), add(3), wrong, twice]})
    report = repair(old, new)
    assert len(report.lost) == 2
    assert report.lost[0].startswith("db-1.log:")
    assert "of which there is another one" in report.lost[1]
    # What has another id than its record says would be delivered for ever.
    assert [one[1] for one in told(new)["messages"]["queue://A"]] == [
        "ID:host-1-1-1:1:1:1:1",
        "ID:host-1-1-1:1:1:1:3",
        "ID:host-1-1-1:1:1:1:4",
    ]
    assert any("written under its own id" in note for note in report.notes)


def test_old_wire_versions_become_todays(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    sound = add(1)
    message = sound.unmarshal()
    write(old, {1: [sound._replace(message=marshal(message, 6))]})
    assert any("1 messages are written in OpenWire 11" in note for note in repair(old, new).notes)
    ((_, command),) = [(at, c) for at, c in Journal(new).records() if isinstance(c, AddMessage)]
    assert command.message == sound.message


def test_prepared_transactions_without_their_bytes_are_lost(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    write(old, {1: [add(1), remove(1, transaction=XID), Prepare(XID)]})
    report = repair(old, new)
    assert report.prepared == 0
    assert any(line.startswith(f"prepared transaction {XID}: ") for line in report.lost)
    assert told(new)["dispatchable"] == {"queue://A": ["ID:host-1-1-1:1:1:1:1"]}


def test_an_index_tells_what_is_lost(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    unpack("basic", old)
    unpack_index("basic", old)
    lost = replay(Journal(old)).destinations[Queue("Q.TEXT")].messages()[3]
    path = old / "db-1.log"
    data = bytearray(path.read_bytes())
    data[lost.location.offset + 70] ^= 1
    path.write_bytes(data)
    report = repair(old, new)
    assert any(lost.message_id in line for line in report.lost)


def test_a_directory_in_the_way(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    write(old, {1: [add(1)]})
    for target, said in (
        (old, "give a new directory elsewhere"),
        (old / "new", "give a new directory elsewhere"),
        (tmp_path, "is not empty"),
        (old / "db-1.log", "elsewhere"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            repair(old, target)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="is no directory"):
        repair(old, tmp_path / "file")
    with pytest.raises(ConfigurationError, match="does not exist"):
        repair(tmp_path / "nowhere", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "new").mkdir()
    repair(old, tmp_path / "new")


def test_a_scheduler_is_refused(tmp_path: Path) -> None:
    unpack("scheduled", tmp_path / "old")
    with pytest.raises(ConfigurationError, match="store of a scheduler"):
        repair(tmp_path / "old" / "scheduler", tmp_path / "new")
    assert not (tmp_path / "new").exists()


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_running_broker_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "old"
    old.mkdir()
    write(old, {1: [add(1)]})
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(old / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        with pytest.raises(LockHeld, match=f"process {process.pid} holds the lock"):
            repair(old, tmp_path / "new")
        assert run(["kahadb", "repair", str(old), str(tmp_path / "new")]) == 3
        process.stdin.close()
    assert not (tmp_path / "new").exists()
    assert run(["kahadb", "repair", str(old), str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert "1 message, 0 durable subscriptions, 0 prepared transactions; read again and compared" in out
    assert out.endswith("nothing is lost\n")


class ForgetfulAppender(Appender):
    """Loses one record of each batch, or changes it."""

    changes = False

    def append(self, payloads: Any) -> Any:
        kept = [bytes(payload) for payload in payloads]
        if self.changes:
            kept[-1] = kept[-1].replace(b"text 3", b"text 4")
        else:
            del kept[1]
        return super().append(kept)


@pytest.mark.parametrize(("changes", "said"), [(False, "the messages that"), (True, "the contents that")])
def test_what_was_written_is_compared(
    changes: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    write(old, {1: [add(1), add(2), add(3)]})
    monkeypatch.setattr("jdbcstore.store.journal.kahadb.repair.Appender", ForgetfulAppender)
    monkeypatch.setattr(ForgetfulAppender, "changes", changes)
    with pytest.raises(StoreError, match=f"does not hold {said} it should, do not use it"):
        repair(old, tmp_path / "new")
