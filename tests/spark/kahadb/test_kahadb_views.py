"""What the views show, without Spark: records and damage, live messages, subscriptions, and what keeps files."""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jdbcstore.destination import Queue, TempTopic, Topic
from jdbcstore.errors import ConfigurationError, JournalDamaged, SelectorError, StoreError
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, XATransactionId
from jdbcstore.message import TextMessage
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import SubscriptionInfo
from jdbcstore.spark.columns import arrow_schema
from jdbcstore.spark.kahadb import live
from jdbcstore.spark.kahadb.columns import OPERATIONS, schema_of
from jdbcstore.spark.kahadb.files import JournalDirectory
from jdbcstore.spark.kahadb.messages import MessagesReader
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.spark.kahadb.records import parts_of, read_part, tasks_of
from jdbcstore.store.journal.commands import (
    AddMessage,
    Command,
    Commit,
    Prepare,
    ProducerAudit,
    RemoveDestination,
    RemoveMessage,
    RewrittenDataFile,
    Rollback,
    Subscription,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.kahadb.journal import Journal, JournalFile
from jdbcstore.store.journal.replay import replay
from jdbcstore.store.journal.state import State
from tests.spark.kahadb.views import rows, table
from tests.unit.kahadb.journals import END, batch, index_page, write

A, T = Queue("A"), Topic("T")
ONE, TWO = (LocalTransactionId(number, ConnectionId("ID:c:1")) for number in (1, 2))
#: Their texts are the same.
XA = [XATransactionId(7, global_id, b"") for global_id in (b"\x01\x11", b"\x11\x01", b"\x81")]
INFO = marshal(SubscriptionInfo(client_id="c", subscription_name="n", selector="x = 1", destination=T))


def add(id: str, where: Any = A, tx: Any = None, **fields: Any) -> AddMessage:
    text = TextMessage(**fields)
    text.text = f"text of {id}"
    return AddMessage(tx, where, id, marshal(text))


def without_payload(folder: Path, split_bytes: int) -> State:
    """The state as Spark's workers find it: by way of rows."""
    options = KahaDBOptions.of({"path": str(folder), "view": "records", "columns": ",".join(OPERATIONS)})
    schema = schema_of(options)
    directory = JournalDirectory(str(folder))
    batches = [one for part in parts_of(directory, split_bytes) for one in read_part(part, options, schema)]
    table = pa.Table.from_batches(batches, arrow_schema(schema))
    ordered = table.sort_by([("file", "ascending"), ("offset", "ascending")])
    return live.state_of(ordered.to_batches(1000), directory, None)


def told(state: State) -> tuple[object, ...]:
    """All of a state that can be compared."""
    return (
        {
            destination: (
                stored.messages(),
                stored.next_sequence,
                {
                    key: (sub.location, sub.retroactive, sub.info_bytes, sub.last_ack, sub.pending.ranges())
                    for key, sub in stored.subscriptions.items()
                },
            )
            for destination, stored in state.destinations.items()
        },
        state.prepared,
        state.unfinished,
        state.ack_files,
        state.lost_by_broker,
        state.revived_by_broker,
        state.perhaps_acknowledged,
    )


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split_bytes", [30_000, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_rows_without_messages_replay_to_the_same_state(vectors: dict[Path, Any], split_bytes: int) -> None:
    for folder in vectors:
        wanted = replay(Journal(folder))
        found = without_payload(folder, split_bytes)
        assert told(found) == told(wanted)
        torn = [damage for damage in wanted.damages if damage.at_the_end]
        assert found.damages == [damage for damage in wanted.damages if damage not in torn]


def test_an_index_beside_the_journal_tells_of_branches_that_an_ack_compaction_has_dropped_the_end_of(
    tmp_path: Path,
) -> None:
    copies: list[Command] = [RewrittenDataFile(2, 1), Trace("LOADED")]
    write(tmp_path, {1: [add("1", tx=XA[0]), Prepare(XA[0])], 3: [add("2", tx=XA[1])], 4: copies})
    directory = JournalDirectory(str(tmp_path))
    assert set(live.replayed(directory, None).prepared) == {XA[0]}
    (tmp_path / "db.data").write_bytes(index_page((4, 28), (3, 28)))
    assert set(live.replayed(directory, None).prepared) == {XA[1]}
    assert set(without_payload(tmp_path, 1).prepared) == {XA[1]}
    assert [row["transactions"] for row in rows(tmp_path, view="files")] == [[], [str(XA[1])], []]


def test_every_command_comes_back(tmp_path: Path) -> None:
    commands: list[Command] = [
        Subscription(T, "c:n", True, INFO),
        add("1"),
        add("2", tx=ONE),
        add("3", T, XA[0])._replace(priority=9, priority_supported=True),
        add("4", TempTopic("a,b"), XA[1]),
        add("5", Queue("a,b"), XA[2]),
        RemoveMessage(TWO, A, "1", b"ack"),
        RemoveMessage(None, T, "7", b"ack", "c:n"),
        Prepare(XA[0]),
        Prepare(XA[1]),
        Rollback(XA[2]),
        Commit(ONE),
        UpdateMessage(add("2")),
        UpdateMessage(),
        AddMessage(None, A, None, b""),
        AddMessage(None, A, "8"),
        RemoveMessage(),
        Commit(),
        RemoveDestination(Queue("B")),
        RemoveDestination(),
        Subscription(T, None),
    ]
    copies: list[Command] = [
        RewrittenDataFile(1),
        RemoveMessage(ONE, A, "2", b"ack"),
        Trace(),
        add("9"),
        RewrittenDataFile(1, 1, False),
    ]
    write(tmp_path, {1: commands, 2: copies})
    state = replay(Journal(tmp_path))
    found = without_payload(tmp_path, 100)
    assert told(found) == told(state)
    assert (found.damages, len(found.damages)) == (state.damages, 7)
    assert len(state.prepared) == 2
    assert len(state.lost_by_broker) == 1


def test_a_record_and_its_payload(tmp_path: Path) -> None:
    message = add("ID:c:1:1:1", tx=XA[2])
    write(tmp_path, {3: [message, RemoveMessage(None, T, "ID:2", b"ack", "c:n")]})
    first, second = rows(tmp_path, view="records", payload="true")
    assert first == {
        "file": 3,
        "offset": 28,
        "size": first["size"],
        "command": "AddMessage",
        "destination": "queue://A",
        "messageId": "ID:c:1:1:1",
        "subscriptionKey": None,
        "transactionId": str(XA[2]),
        "xa": {"formatId": 7, "globalId": b"\x81", "branch": b""},
        "priority": 4,
        "prioritySupported": False,
        "messageBytes": len(message.message or b""),
        "retroactive": None,
        "subscriptionInfo": None,
        "sourceFile": None,
        "skipIfSourceExists": None,
        "message": message.message,
        "acknowledgement": None,
        "_corrupt": None,
    }
    assert (second["destination"], second["subscriptionKey"], second["acknowledgement"]) == ("topic://T", "c:n", b"ack")
    assert rows(tmp_path, view="records", columns="command,file") == [
        {"command": "AddMessage", "file": 3},
        {"command": "RemoveMessage", "file": 3},
    ]


def test_damage_is_a_row_or_an_error_and_never_nothing(vectors: dict[Path, Any]) -> None:
    for folder in vectors:
        damages = [d for d in replay(Journal(folder)).damages if not d.at_the_end]
        found = [row for row in rows(folder, view="records", splitBytes=10_000) if row["_corrupt"]]
        assert [(row["file"], row["offset"], row["offset"] + row["size"]) for row in found] == [d[:3] for d in damages]
        if not damages:
            rows(folder, view="records", onCorrupt="fail")
            rows(folder, onCorrupt="fail")
            continue
        for options in (
            {"view": "records", "onCorrupt": "fail"},
            {"view": "records", "columns": "file"},
            {"onCorrupt": "fail"},
            {"columns": "topic"},
            {"view": "files", "onCorrupt": "fail"},
            {"view": "subscriptions", "onCorrupt": "fail"},
        ):
            with pytest.raises(JournalDamaged, match=r"db-1.log:91328-92364: no batch begins here"):
                rows(folder, **options)
        corrupt = [row for row in rows(folder) if row["_corrupt"] is not None]
        assert [row["_corrupt"] for row in corrupt] == [{"error": str(d), "message": None} for d in damages]
        assert [row["_corrupt"] for row in rows(folder, view="subscriptions")][1:] == [str(d) for d in damages]
        assert [d for row in rows(folder, view="files") for d in row["damages"]] == [str(d) for d in damages]


def test_a_torn_end_is_damage_but_in_the_last_file(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"db-{number}.log").write_bytes(batch(Trace("one")) + batch(Trace("two"))[:-1])
    for view in ("records", "messages", "subscriptions"):
        assert [row.get("file", 1) for row in rows(tmp_path, view=view) if row["_corrupt"]] == [1]


def test_damages_that_are_not_listed_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.store.journal.kahadb.journal.DAMAGES_MAX", 2)
    data = (batch(Trace("one")) + batch(Trace("two"), checksum=1)) * 5 + batch(Trace("last")) + END
    (tmp_path / "db-1.log").write_bytes(data)
    found = [row["_corrupt"]["error"] for row in rows(tmp_path, view="records") if row["_corrupt"]]
    assert found == ["a batch with a wrong checksum"] * 2 + ["3 more damages behind this one"]
    assert rows(tmp_path)[0]["_corrupt"]["error"] == "3 damages more than are listed"
    assert rows(tmp_path, view="subscriptions")[-1]["_corrupt"] == "3 damages more than are listed"
    (file,) = rows(tmp_path, view="files")
    assert file["damages"][-1] == "3 damages more than are listed"


def test_a_large_file_is_read_in_parts(tmp_path: Path) -> None:
    write(tmp_path, {1: [Trace("x" * 100)] * 100, 2: [Trace()]})
    parts = parts_of(JournalDirectory(str(tmp_path)), 2000)
    assert [part.file.number for part in parts] == [1] * 7 + [2]
    assert [len(task.parts) for task in tasks_of(parts, 2000)] == [1] * 6 + [2]
    assert [len(task.parts) for task in tasks_of(parts, 1 << 20)] == [8]
    whole = table(tmp_path, view="records")
    assert table(tmp_path, view="records", splitBytes=2000).equals(whole)
    assert whole.num_rows == 101


# --- messages ---------------------------------------------------------------------------------------------------------


def test_prepared_transactions_hide_what_they_acknowledge(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            1: [
                Subscription(T, "c:n", False, INFO),
                Subscription(T, "c:m", False, INFO),
                *(add(str(number), tx=ONE) for number in range(3)),
                add("t", T),
                RemoveMessage(XA[2], A, "1", b"ack"),
                RemoveMessage(XA[2], T, "t", b"ack", "c:n"),
                add("sent", tx=XA[2]),
                Prepare(XA[2]),
                add("unfinished", tx=TWO),
                Commit(ONE),
            ]
        },
    )
    names = "messageId,xid,subscribers,offset"
    found = rows(tmp_path, columns=names)
    by_order = sorted(found, key=lambda row: row["offset"])
    assert [(row["messageId"], row["xid"], row["subscribers"]) for row in by_order] == [
        ("t", None, ["c:m"]),
        ("0", None, None),
        ("2", None, None),
    ]
    found = sorted(rows(tmp_path, columns=names, includePrepared="true"), key=lambda row: row["offset"])
    xid = str(XA[2])
    assert [(row["messageId"], row["xid"], row["subscribers"]) for row in found] == [
        ("t", None, ["c:n", "c:m"]),
        ("0", None, None),
        ("1", xid, None),
        ("2", None, None),
        ("sent", xid, None),
    ]
    assert len({row["offset"] for row in found}) == 5


def test_what_is_chosen(tmp_path: Path) -> None:
    commands = [add("1", type="x"), add("2", Queue("B")), add("3", Queue("BC"), type="x")]
    write(tmp_path, {1: [*commands, AddMessage(None, A, "bad", b"?")]})

    def ids(**options: str) -> list[str]:
        return [row["messageId"] for row in rows(tmp_path, **options)]

    assert ids(subscribe="A,queue://BC") == ["1", "3", "bad"]
    assert ids(subscribePattern="queue://B") == ["2"]
    assert ids(selector="JMSType = 'x'", columns="messageId,_corrupt") == ["1", "3", "bad"]
    (corrupt,) = [row for row in rows(tmp_path) if row["_corrupt"]]
    assert corrupt["_corrupt"]["message"] == b"?"
    assert (corrupt["messageId"], corrupt["topic"], corrupt["priority"]) == ("bad", "queue://A", None)
    # What the list tells needs no message.
    assert ids(columns="messageId,topic,offset,subscribers") == ["1", "2", "3", "bad"]


@pytest.mark.parametrize("id", ["ID:c:1:1:5", "foreign", "a:b", "a:01", "a:-1", "a:", "", f"a:{1 << 63}", "a:٣"])
def test_a_message_id_is_as_it_stands(id: str, tmp_path: Path) -> None:
    write(tmp_path, {1: [add(id)]})
    assert [row["messageId"] for row in rows(tmp_path)] == [id]


def test_several_directories_are_several_stores(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        write(tmp_path / name, {1: [add(name)]})
    found = rows("", paths=f'["{tmp_path}/a", "file://{tmp_path}/b"]')
    assert [(row["partition"], row["messageId"], row["offset"]) for row in found] == [
        (0, "a", (1 << 32) + 28),
        (1, "b", (1 << 32) + 28),
    ]


def test_the_common_store_of_several_decides(tmp_path: Path) -> None:
    sent, lost = (XATransactionId(61616, b"ID:c", branch) for branch in (b"1", b"2"))
    for name in ("store", "txStore"):
        (tmp_path / name).mkdir()
    write(tmp_path / "store", {1: [add("1", tx=sent), add("2", tx=lost), Prepare(sent), Prepare(lost)]})
    write(tmp_path / "txStore", {1: [Prepare(sent)]})
    assert rows(tmp_path / "store") == []
    assert [row["messageId"] for row in rows(tmp_path / "store", txStore=tmp_path / "txStore")] == ["1"]


def test_a_broker_that_goes_on_while_we_read(tmp_path: Path) -> None:
    write(tmp_path, {1: [add("1"), add("2")], 2: [add("3")]})
    options = KahaDBOptions.of({"path": str(tmp_path), "splitBytes": "200"})
    reader = MessagesReader(options, schema_of(options))
    one, two = reader.partitions()
    write(tmp_path, {1: [Trace("x" * 2000)]})
    with pytest.raises(JournalDamaged, match=r"db-1.log:28: a record that does not fit"):
        list(reader.read(one))
    (tmp_path / "db-2.log").unlink()
    with pytest.raises(StoreError, match=r"cannot read .*db-2.log"):
        list(reader.read(two))


# --- subscriptions and files ------------------------------------------------------------------------------------------


def test_a_broker_has_kept_what_is_not_removable(vectors: dict[Path, Any], tmp_path: Path) -> None:
    """All brokers of the vectors have cleaned up when they stopped, but for those that were killed."""
    archived = set()
    for folder in vectors:
        found = rows(folder, view="files")
        assert [row["file"] for row in found if row["removable"]] == []
        assert sum(row["bytes"] for row in found) == sum(path.stat().st_size for path in folder.glob("db-*.log"))
        assert sum(row["usedBytes"] for row in found) == sum(at.size for at, _ in Journal(folder).records())
        if (folder / "data-archive").exists():
            kept = {int(path.stem[3:]) for path in folder.glob("db-*.log") if path.stat().st_size}
            found = rows(folder, view="files", directoryArchive="data-archive")
            archived = {row["file"] for row in found} - kept
            assert {row["file"] for row in found if row["removable"]} == archived
    assert archived


def test_what_keeps_a_file(tmp_path: Path) -> None:
    old = add("old", timestamp=1_700_000_000_123)
    write(
        tmp_path,
        {
            1: [old, add("older order", timestamp=1), add("gone")],
            2: [RemoveMessage(None, A, "gone", b"ack"), add("x")],
            3: [RemoveMessage(None, A, "x", b"ack"), add("y", tx=ONE)],
            4: [Subscription(T, "c:n", False, INFO)],
            5: [Commit(ONE), RemoveMessage(None, A, "y", b"ack"), add("z")],
            6: [RemoveMessage(None, A, "z", b"ack"), add("open", tx=XA[2])],
            7: [Trace()],
            8: [Prepare(XA[2])],
            9: [Trace(), Trace()],
            10: [Trace()],
        },
    )
    found = {row["file"]: row for row in rows(tmp_path, view="files")}
    (pin,) = found[1]["destinations"]
    assert (pin["topic"], pin["messages"], pin["firstMessageId"]) == ("queue://A", 2, "old")
    assert pin["firstTimestamp"].timestamp() == 1_700_000_000.123
    assert found[1]["liveBytes"] == pin["bytes"] == sum(at.size for at, _ in list(Journal(tmp_path).records())[:2])
    assert {number: row["acknowledges"] for number, row in found.items() if row["acknowledges"]} == {
        2: [1],
        3: [2],
        5: [3],
        6: [5],
        8: [6],
    }
    assert found[4]["subscriptions"] == ["c:n"]
    assert found[6]["transactions"] == [str(XA[2])]
    assert found[9]["records"] == [("Trace", 2)]
    assert [number for number, row in found.items() if row["removable"]] == [7, 9]


def removable(folder: Path, files: dict[int, list[Command]]) -> list[int]:
    folder.mkdir()
    write(folder, files)
    return [row["file"] for row in rows(folder, view="files") if row["removable"]]


def test_what_keeps_the_first_file_and_what_is_written_anew(tmp_path: Path) -> None:
    rest: dict[int, list[Command]] = {2: [Trace()], 3: [Trace()]}
    subscription = Subscription(T, "c:n", False, INFO)
    assert removable(tmp_path / "idle", {1: [subscription], **rest}) == [1, 2]
    assert removable(tmp_path / "waiting", {1: [subscription], 2: [Trace()], 3: [add("t", T)]}) == [2]
    assert removable(tmp_path / "second", {1: [Trace()], 2: [subscription], 3: [Trace()]}) == [1]
    assert removable(tmp_path / "audit", {1: [ProducerAudit(b"")], **rest}) == [1, 2]
    assert removable(tmp_path / "audits", {1: [ProducerAudit(b"")], 2: [ProducerAudit(b"")], 3: [Trace()]}) == [1]


def test_an_open_transaction_keeps_all_from_its_first_to_its_last_operation(tmp_path: Path) -> None:
    def files(end: Command) -> dict[int, list[Command]]:
        return {1: [Trace()], 2: [add("1", tx=ONE)], 3: [Trace()], 4: [add("2", tx=ONE)], 5: [end], 6: [Trace()]}

    assert removable(tmp_path / "open", files(Trace())) == [1, 5]
    assert removable(tmp_path / "ended", files(Rollback(ONE))) == [1, 2, 3, 4, 5]


def test_subscriptions(vectors: dict[Path, Any]) -> None:
    seen = 0
    for folder, wanted in vectors.items():
        found = {
            (row["topic"], row["subscriptionKey"]): row
            for row in rows(folder, view="subscriptions")
            if row["_corrupt"] is None
        }
        for name, destination in wanted["destinations"].items():
            for key, subscription in destination.get("subscriptions", {}).items():
                row = found.pop((name, key))
                ids = subscription["recover_ids"]
                assert row["clientId"] == subscription["client_id"]
                assert row["subscriptionName"] == subscription["name"]
                assert row["selector"] == subscription["selector"]
                assert row["lastAck"] == subscription["last_ack"][0]
                assert (row["pending"], row["firstPending"]) == (len(ids), ids[0] if ids else None)
                assert [row["file"], row["offset"]] == subscription["location"]
                seen += 1
        assert found == {}
    assert seen > 5


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"path": ""}, "no directory is given"),
        ({"veiw": "records"}, "unknown option 'veiw', did you mean view"),
        ({"view": "live"}, "option view must be messages or records"),
        ({"view": "records", "selector": "x = 1"}, "option selector means nothing to view=records, only to messages"),
        ({"view": "files", "columns": "file"}, "option columns means nothing to view=files"),
        ({"columns": "topic,pirority"}, "no column 'pirority', did you mean priority"),
        ({"view": "records", "columns": "file,file"}, "named twice"),
        ({"splitBytes": "0"}, "splitBytes must be a whole number from 1"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"path": "ftp://host/x"}, "no file system is known for ftp:"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(options: dict[str, str], error: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=error) as raised:
        rows(**({"path": str(tmp_path)} | options))
    assert "\n" not in str(raised.value)


def test_a_wrong_selector(tmp_path: Path) -> None:
    with pytest.raises(SelectorError):
        rows(tmp_path, selector="x =")


def test_directories_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot read .*nowhere"):
        rows(tmp_path / "nowhere")
    assert rows(tmp_path) == []
    write(tmp_path, {1: [add("1")]})
    shutil.copy(tmp_path / "db-1.log", tmp_path / "db-01.log")
    with pytest.raises(StoreError, match="have the same number"):
        rows(tmp_path, view="records")


def test_single_records_of_one_file() -> None:
    commands: list[Command] = [add("1"), Trace("x" * 3000), add("2")]
    data = b"".join(map(batch, commands)) + END
    located = list(JournalFile(BytesIO(data), 1).records())
    file = JournalFile(BytesIO(data), 1, chunk_bytes=100)
    for location, command in [*located, *reversed(located)]:
        assert file.read(location) == command
