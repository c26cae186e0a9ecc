"""SENDs that arrive together for one queue are one write, and each is answered for itself."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from jdbcstore import JdbcOptions, PersistenceAdapter, open_store
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.jdbc.messages import JdbcMessageStore
from jdbcstore.store.refusals import Refusals
from tests.broker.client import Client, Frame
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_receipts import commits_fail, commits_held
from tests.servers.prepared import PreparedFile

QUEUE = "/queue/A"


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages were added in one go, each time."""
    counts: list[int] = []
    add_messages = JdbcMessageStore.add_messages

    def counting(store: JdbcMessageStore, messages: Sequence[Message]) -> Completion[Refusals] | None:
        added = add_messages(store, messages)
        counts.append(len(messages))
        return added

    monkeypatch.setattr(JdbcMessageStore, "add_messages", counting)
    return counts


@pytest.fixture
def client(start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter) -> Client:
    return open_client(start_broker(sqlite_store))


def frame(command: str, headers: dict[str, str], body: str = "") -> bytes:
    lines = "\n".join([command, *(f"{name}:{value}" for name, value in headers.items())])
    return f"{lines}\n\n{body}\0".encode()


def send(text: str, destination: str = QUEUE, **headers: str) -> bytes:
    """A SEND whose receipt and body are the text."""
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    return frame("SEND", {"destination": destination, "persistent": "true", "receipt": text, **said}, text)


def answers(client: Client, count: int) -> list[tuple[str, str]]:
    found: list[Frame] = [client.frame() for _ in range(count)]
    return [(one.command, one.headers["receipt-id"]) for one in found]


def rest_of(client: Client, queue: str = QUEUE) -> list[str]:
    """As `Client.rest_of`, as often as one likes."""
    texts = client.rest_of(queue)
    client.done("UNSUBSCRIBE", {"id": "1"})
    return texts


def read_to_end(client: Client) -> list[str]:
    """The bodies of messages up to number 5."""
    texts = list[str]()
    while "5" not in texts:
        texts.append(client.message().text)
    return texts


def receipts(*names: str) -> list[tuple[str, str]]:
    return [("RECEIPT", name) for name in names]


def test_they_are_one_write_and_keep_their_order(client: Client, together: list[int]) -> None:
    names = [str(number) for number in range(20)]
    client.write(b"".join(map(send, names)))
    assert answers(client, 20) == receipts(*names)
    assert sum(together) == 20
    assert rest_of(client) == names


def test_no_receipt_comes_before_the_commit(client: Client) -> None:
    with commits_held() as release:
        client.write(send("1") + send("2"))
        assert client.is_silent(0.5)
        release.set()
        assert answers(client, 2) == receipts("1", "2")


def test_very_many_are_several_writes(client: Client, together: list[int]) -> None:
    names = [str(number) for number in range(300)]
    client.write(b"".join(map(send, names)))
    assert answers(client, 300) == receipts(*names)
    assert max(together) <= 32
    assert rest_of(client) == names


def test_other_requests_between_them_keep_their_place(client: Client, together: list[int]) -> None:
    """Another queue, a topic, numbered, non-persistent, in a transaction, for later, and a composite."""
    tx = {"transaction": "T"}
    client.write(
        b"".join(
            [
                send("1"),
                send("2"),
                send("3", producer_id="P", producer_sequence="1"),
                send("4", persistent="false"),
                frame("BEGIN", tx),
                send("5", transaction="T"),
                send("6"),
                frame("COMMIT", {**tx, "receipt": "commit"}),
                send("7", f"{QUEUE},/queue/B"),
                send("8"),
                send("9", "/queue/B"),
                send("10", "/queue/B"),
                send("11", "/topic/T"),
                send("12"),
            ]
        )
    )
    names = {*map(str, range(1, 13)), "commit"}
    assert {name for _, name in answers(client, 13)} == names
    assert rest_of(client, "/queue/B") == ["7", "9", "10"]
    persistent = [text for text in rest_of(client) if text != "4"]
    assert persistent == ["1", "2", "3", "6", "5", "7", "8", "12"]
    assert together[:2] == [2, 2]


def test_acknowledgements_between_them_keep_their_place(client: Client) -> None:
    client.publish("/queue/B", "first")
    client.subscribe("/queue/B", "client-individual", "2")
    first = client.message()
    acked = frame("ACK", {**client.named(first), "receipt": "acked"})
    client.write(send("1") + send("2") + acked + send("3") + send("4"))
    assert sorted(answers(client, 5)) == sorted([*receipts("1", "2", "acked", "3", "4")])
    assert rest_of(client) == ["1", "2", "3", "4"]


def test_what_was_sent_before_a_bad_frame_is_stored(client: Client, open_client: OpenClient) -> None:
    address = client.socket.getpeername()
    client.write(send("1") + send("2") + b"NONSENSE\n\n\0")
    assert "NONSENSE" in client.error().headers["message"]
    assert rest_of(open_client(address)) == ["1", "2"]


def test_who_says_goodbye_behind_them_is_answered_after_them(client: Client) -> None:
    client.write(send("1") + send("2") + frame("DISCONNECT", {"receipt": "bye"}))
    assert answers(client, 3) == receipts("1", "2", "bye")


def test_one_that_the_store_refuses_at_once_costs_the_others_nothing(
    start_broker: StartBroker, open_client: OpenClient, tmp_path: Path
) -> None:
    client = open_client(
        start_broker(open_store(f"sqlite:///{tmp_path}/small.db", JdbcOptions(message_bytes_max=10_000)))
    )
    large = frame("SEND", {"destination": QUEUE, "persistent": "true", "receipt": "2"}, "x" * 10_000)
    client.write(send("1") + large + send("3"))
    assert sorted(answers(client, 3)) == [("ERROR", "2"), ("RECEIPT", "1"), ("RECEIPT", "3")]
    assert rest_of(client) == ["1", "3"]


@pytest.mark.parametrize("is_read", [False, True], ids=["nobody reads", "a consumer waits"])
@pytest.mark.parametrize("is_concurrent", [True, False], ids=["delivered at once", "delivered after the commit"])
def test_one_that_the_database_refuses_costs_the_others_nothing(
    is_read: bool,
    is_concurrent: bool,
    start_broker: StartBroker,
    open_client: OpenClient,
    tmp_path: Path,
    prepared_file: PreparedFile,
) -> None:
    path = tmp_path / "broker.db"
    store = open_store(prepared_file.url(path))
    address = start_broker(store, concurrent_store_and_dispatch_queues=is_concurrent)
    client, reader = open_client(address), open_client(address)
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TRIGGER third BEFORE INSERT ON ACTIVEMQ_MSGS WHEN NEW.MSGID_SEQ = 3"
            " BEGIN SELECT RAISE(ABORT, 'not the third'); END"
        )
        database.commit()
    if is_read:
        reader.subscribe(QUEUE, "client-individual")  # what is acknowledged early is not asked of the database
    names = ["1", "2", "3", "4", "5"]
    client.write(b"".join(map(send, names)))
    found = answers(client, 5)
    assert sorted(found) == sorted([*receipts("1", "2", "4", "5"), ("ERROR", "3")])
    seen = read_to_end(reader) if is_read else rest_of(reader)
    if is_read and is_concurrent:
        seen = [text for text in seen if text != "3"]  # perhaps delivered before it was refused
    assert seen == ["1", "2", "4", "5"]


def test_a_failed_store_is_told_for_each(client: Client) -> None:
    with commits_fail():
        client.write(send("1") + send("2") + send("3"))
        assert answers(client, 3) == [("ERROR", "1"), ("ERROR", "2"), ("ERROR", "3")]
    client.write(send("4") + send("5"))
    assert answers(client, 2) == receipts("4", "5")
    assert rest_of(client) == ["4", "5"]


def test_they_may_be_delivered_and_acknowledged_before_their_commit(client: Client, together: list[int]) -> None:
    client.subscribe(QUEUE, "client-individual")
    with commits_held(held := threading.Event()) as release:
        client.write(send("0", "/queue/B"))
        assert held.wait(60)
        client.write(b"".join(send(name) for name in "1234"))
        messages = [client.message() for _ in range(4)]
        for message in messages[1:3]:
            client.ack(message, receipt=f"acked {message.text}")
        release.set()
        found = answers(client, 7)
    assert sorted(name for _, name in found) == ["0", "1", "2", "3", "4", "acked 2", "acked 3"]
    assert {command for command, _ in found} == {"RECEIPT"}
    assert together == [4]
    client.done("UNSUBSCRIBE", {"id": "1"})
    assert rest_of(client) == ["1", "4"]


@pytest.mark.parametrize(
    "policy",
    [
        DestinationPolicy(prioritized_messages=True),
        DestinationPolicy(advisory_for_delivery=True),
        DestinationPolicy(memory_limit_bytes=1),
    ],
    ids=["by priority", "told by advisories", "no room in memory"],
)
def test_whatever_the_policy_of_the_queue(
    policy: DestinationPolicy, start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    client = open_client(start_broker(sqlite_store, policies=[policy]))
    names = [str(number) for number in range(40)]
    client.write(b"".join(map(send, names)))
    assert answers(client, 40) == receipts(*names)
    assert rest_of(client) == names


def test_an_expired_one_among_them_is_delivered_to_nobody(client: Client) -> None:
    client.write(send("1") + send("2", expires="1") + send("3"))
    assert sorted(answers(client, 3)) == receipts("1", "2", "3")
    assert rest_of(client) == ["1", "3"]
    assert rest_of(client, "/queue/ActiveMQ.DLQ") == ["2"]


def test_who_does_not_read_receipts_is_held_back(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    """A client has so many bytes on their way to the store at most, together or not."""
    address = start_broker(sqlite_store, uncommitted_bytes_max=50_000)
    client = open_client(address)
    names = [str(number) for number in range(200)]
    with commits_held() as release:
        client.write(b"".join(map(send, names)))
        assert client.is_silent(0.3)
        release.set()
        assert answers(client, 200) == receipts(*names)
    assert rest_of(client) == names
