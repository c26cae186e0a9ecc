"""Producers that number their messages: what is sent again is stored once, whatever happened to the first copy."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from jdbcstore import (
    Broker,
    JdbcOptions,
    ProducerId,
    TransientStoreError,
    faults,
    open_store,
)
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.broker.client import Address, Client, Frame
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_receipts import commits_held
from tests.broker_process import BrokerProcess
from tests.servers.prepared import PreparedFile
from tests.sql.test_writer import execute, refuse_thirteen
from tests.waiting import wait_until

pytestmark = [pytest.mark.has_tables, pytest.mark.variants(2)]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, prepared_file: PreparedFile) -> str:
    """A fresh database with tables, of a file and of a server."""
    if request.param == "sqlite":
        return prepared_file.url(tmp_path / "store.db")
    on_server: str = request.getfixturevalue("postgresql_url")
    return on_server


@pytest.fixture
def durable(start_broker: StartBroker, url: str) -> Address:
    """A broker on that database."""
    return start_broker(open_store(url))


def send(client: Client, number: int, *, producer: str = "P", destination: str = "/queue/A", **headers: str) -> None:
    """SEND a numbered message with a receipt of the same number; do not wait."""
    client.send(
        "SEND",
        {
            "destination": destination,
            "persistent": "true",
            "receipt": str(number),
            "producer-id": producer,
            "producer-sequence": str(number),
            **headers,
        },
        str(number),
    )


def answers(client: Client, count: int) -> list[tuple[str, str]]:
    """The next answers: R or E, and the number."""
    frames = [client.frame() for _ in range(count)]
    assert all(frame.command in ("RECEIPT", "ERROR") for frame in frames), frames
    return sorted((frame.command[0], frame.headers["receipt-id"]) for frame in frames)


def allow_thirteen(url: str) -> None:
    """Undo `refuse_thirteen`."""
    is_file = url.startswith("sqlite")
    execute(url, "DROP TRIGGER thirteen" if is_file else "ALTER TABLE ACTIVEMQ_MSGS DROP CONSTRAINT not_thirteen")


def good(*numbers: int) -> list[tuple[str, str]]:
    return sorted(("R", str(number)) for number in numbers)


def bad(*numbers: int) -> list[tuple[str, str]]:
    return sorted(("E", str(number)) for number in numbers)


def send_all(client: Client, *numbers: int, **headers: str) -> None:
    """SEND numbered messages, one after the other, each with its receipt."""
    for number in numbers:
        send(client, number, **headers)
        assert answers(client, 1) == good(number)


def stored(client: Client, destination: str = "/queue/A") -> list[str]:
    """The bodies of what is in a queue."""
    client.subscribe(destination, id="look", browser="true")
    found: list[str] = []
    while "browser" not in (frame := client.message()).headers:
        found.append(frame.text)
    client.done("UNSUBSCRIBE", {"id": "look"})
    return found


def take(client: Client, count: int, destination: str = "/queue/A") -> list[Frame]:
    """Consume some messages for good."""
    client.subscribe(destination, "client-individual", id="take")
    taken = [client.message() for _ in range(count)]
    for message in taken:
        client.done("ACK", client.named(message))
    client.done("UNSUBSCRIBE", {"id": "take"})
    return taken


# -- sent again ------------------------------------------------------------------------------------------------------


def test_what_is_sent_again_is_stored_once(durable: Address, open_client: OpenClient, brokers: list[Broker]) -> None:
    client = open_client(durable)
    send_all(client, 1, 2, 5)
    send_all(open_client(durable), 1, 2, 5, 6)
    send_all(client, 6)
    assert stored(client) == ["1", "2", "5", "6"]
    assert brokers[0].producers.duplicates == 4


def test_the_number_is_the_message_s_own(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    send_all(client, (1 << 63) - 1, producer="a b:c:")
    (message,) = take(client, 1)
    assert message.headers["message-id"] == "ID:a b:c::0:0:9223372036854775807"
    assert not {"producer-id", "producer-sequence"} & message.headers.keys()


def test_each_producer_counts_for_itself_over_all_queues(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    send_all(client, 3, producer="a")
    send_all(client, 2, producer="A")
    send_all(client, 2, producer="a", destination="/queue/B")  # it is not above 3, whatever the queue
    send_all(client, 4, producer="a", destination="/queue/B")
    client.publish("/queue/A", "others have no number")
    assert stored(client) == ["3", "2", "others have no number"]
    assert stored(client, "/queue/B") == ["4"]


@pytest.mark.parametrize("is_taken", [False, True])
def test_also_after_a_restart_and_after_it_was_consumed(
    start_broker: StartBroker, open_client: OpenClient, url: str, tmp_path: Path, is_taken: bool
) -> None:
    with BrokerProcess(url, tmp_path) as first:
        client = open_client(("127.0.0.1", first.port))
        send_all(client, 1, 2, 3)
        if is_taken:
            take(client, 3)
            send_all(client, 2, 3)
            assert stored(client) == []
    again = open_client(start_broker(open_store(url)))
    send_all(again, 2, 3, 4)
    assert stored(again) == (["4"] if is_taken else ["1", "2", "3", "4"])


#: A broker's first commits are not all of messages.
KILLED_AFTER_THE_COMMIT = """
import os, signal, sys
from sqlalchemy import text
from jdbcstore import faults
from jdbcstore.cli import main
from jdbcstore.config.urls import open_engine
engine = open_engine(sys.argv[sys.argv.index("--url") + 1])
def after_commit():
    with engine.connect() as connection:
        if connection.execute(text("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")).scalar_one() > 1:
            os.kill(os.getpid(), signal.SIGKILL)
with faults.inject("writer.after_commit", after_commit):
    main()
"""


@pytest.mark.parametrize("is_taken", [False, True])
def test_killed_between_commit_and_receipt(open_client: OpenClient, url: str, tmp_path: Path, is_taken: bool) -> None:
    program = [sys.executable, "-c", KILLED_AFTER_THE_COMMIT]
    killed = BrokerProcess(url, tmp_path, program=program)
    killed.start()
    client = open_client(("127.0.0.1", killed.port))
    send_all(client, 1)
    for number in (2, 3, 4):
        send(client, number)
    with pytest.raises(ConnectionError):
        client.frame()
    killed.kill()
    with BrokerProcess(url, tmp_path) as broker:
        again = open_client(("127.0.0.1", broker.port))
        before = stored(again)
        assert before[:2] == ["1", "2"]  # 2 was committed, nobody was told
        if is_taken:
            take(again, len(before))
        send_all(again, 2, 3, 4)
        assert stored(again) == ([] if is_taken else before) + ["2", "3", "4"][len(before) - 1 :]


# -- while the first copy is on its way ------------------------------------------------------------------------------


def test_a_second_copy_is_answered_when_the_first_is_stored(durable: Address, open_client: OpenClient) -> None:
    old, new = open_client(durable), open_client(durable)
    send_all(old, 1)
    with commits_held() as release:
        for number in (2, 3, 4):
            send(old, number)
        for number in (2, 3, 4, 5):
            send(new, number)
        assert old.is_silent()
        assert new.is_silent()
        old.drop()
        release.set()
        assert answers(new, 4) == good(2, 3, 4, 5)
    assert stored(new) == ["1", "2", "3", "4", "5"]


@contextmanager
def commits_fail_late() -> Iterator[threading.Event]:
    """Every batch waits for the event and is refused then."""
    release = threading.Event()

    def fail() -> None:
        release.wait()
        raise TransientStoreError("the database is on holiday")

    with faults.inject("writer.before_commit", fail):
        try:
            yield release
        finally:
            release.set()


def test_a_second_copy_fails_with_the_first_and_all_may_come_again(durable: Address, open_client: OpenClient) -> None:
    old, new = open_client(durable), open_client(durable)
    send_all(old, 1)
    with commits_fail_late() as release:
        for number in (2, 3):
            send(old, number)
        for number in (2, 3, 4):
            send(new, number)
        assert new.is_silent()
        release.set()
        assert answers(old, 2) == bad(2, 3)
        assert answers(new, 3) == bad(2, 3, 4)
    for number in (2, 3, 4, 5):
        send(new, number)
    assert answers(new, 4) == good(2, 3, 4, 5)
    assert stored(new) == ["1", "2", "3", "4", "5"]


def test_a_third_copy_that_meets_the_end_of_the_first_waits_for_it(durable: Address, open_client: OpenClient) -> None:
    """The connection that sends again may come when the failure of the first copy is known and that of others not."""
    clients = [open_client(durable) for _ in range(6)]
    send_all(clients[0], 1)
    with commits_fail_late() as release:
        for number in range(2, 200):
            send(clients[0], number)
        release.set()
        for client in clients[1:]:
            for number in range(2, 50):
                send(client, number)
        for client in clients[1:]:
            assert answers(client, 48) == bad(*range(2, 50))
    assert answers(clients[0], 198) == bad(*range(2, 200))
    for client in clients:
        for number in range(2, 200):
            send(client, number)
    for client in clients:
        assert answers(client, 198) == good(*range(2, 200))
    assert stored(clients[0]) == [str(number) for number in range(1, 200)]


class HesitantStore(MemoryPersistenceAdapter):
    """A store whose commits are answered when the test says so, and how it says."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: queue.SimpleQueue[tuple[Completion[None], Mapping[ProducerId, int]]] = queue.SimpleQueue()

    def commit_together(self, commit: Commit) -> Completion[None]:
        completion: Completion[None] = Completion()
        self.asked.put((completion, commit.producers))
        return completion

    def answer(self, *, well: bool) -> None:
        """Answer the commit that has waited longest."""
        completion, producers = self.asked.get(timeout=60)
        if well:
            super().commit_together(Commit(producers=producers))
            completion.resolve(None)
        else:
            completion.fail(TransientStoreError("the store did not want to"))


def test_between_two_failures_nothing_is_decided(start_broker: StartBroker, open_client: OpenClient) -> None:
    store = HesitantStore()
    address = start_broker(store)
    old, new = open_client(address), open_client(address)
    for number in (2, 3, 4):
        send(old, number, persistent="false")
    wait_until(lambda: store.asked.qsize() == 3)
    store.answer(well=False)
    assert answers(old, 1) == bad(2)
    send(new, 2, persistent="false")
    new.send("SEND", {"destination": "/queue/B", "receipt": "behind it"})
    assert new.is_silent()
    assert store.asked.qsize() == 2
    store.answer(well=False)
    store.answer(well=False)
    assert answers(old, 2) == bad(3, 4)
    store.answer(well=True)
    assert answers(new, 2) == sorted([*good(2), ("R", "behind it")])
    assert stored(new) == ["2"]


def test_two_connections_send_the_same_at_the_same_time(durable: Address, open_client: OpenClient) -> None:
    clients = [open_client(durable) for _ in range(4)]

    def pour(client: Client) -> None:
        for number in range(1, 301):
            send(client, number)

    threads = [threading.Thread(target=pour, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for client in clients:
        assert answers(client, 300) == good(*range(1, 301))
    for thread in threads:
        thread.join()
    assert stored(clients[0]) == [str(number) for number in range(1, 301)]


# -- nothing is stored behind a hole ---------------------------------------------------------------------------------


def test_what_is_behind_a_refused_message_is_refused_until_it_comes_again(
    durable: Address, open_client: OpenClient, url: str
) -> None:
    client, other = open_client(durable), open_client(durable)
    send_all(client, 10)
    refuse_thirteen(url)
    with commits_held() as release:
        for number in range(11, 17):
            send(client, number)
        send(client, 1, producer="Q")
        release.set()
    assert answers(client, 7) == sorted(good(11, 12, 1) + bad(13, 14, 15, 16))
    send(client, 17)  # sent before it had read the errors
    assert answers(client, 1) == bad(17)
    send(client, 14)
    error = client.error()
    assert error.headers["message"] == (
        "Message 14 of producer P is not stored because message 13 failed: send that one again first,"
        " or connect anew to leave it out"
    )
    send_all(client, 2, producer="Q")
    send_all(client, 12)  # stored before
    allow_thirteen(url)
    for number in (13, 14, 15, 18):
        send(client, number)
    assert answers(client, 4) == sorted(good(13, 14, 15) + bad(18))  # 16 and 17 are missing
    for number in (16, 17, 18, 19):
        send(client, number)
    assert answers(client, 4) == good(16, 17, 18, 19)
    assert stored(other) == [str(n) for n in (10, 11, 12, 1, 2, *range(13, 20))]


def test_who_connects_anew_may_leave_out_what_was_refused(durable: Address, open_client: OpenClient, url: str) -> None:
    client = open_client(durable)
    send_all(client, 12)
    refuse_thirteen(url)
    for number in (13, 14):
        send(client, number)
    assert answers(client, 2) == bad(13, 14)
    again = open_client(durable)
    send_all(again, 14, 15)
    assert stored(again) == ["12", "14", "15"]


@pytest.mark.parametrize(
    "headers",
    [
        {"priority": "high"},
        {"destination": "/queue/A.*"},
        {"destination": "/remote-temp-queue/none"},
        {"transaction": "none"},
        {"amq-msg-type": "map"},
    ],
)
def test_a_message_that_is_refused_at_once_counts_as_missing_too(
    durable: Address, open_client: OpenClient, headers: dict[str, str]
) -> None:
    client = open_client(durable)
    send_all(client, 1)
    send(client, 2, **headers)
    send(client, 3)
    assert answers(client, 2) == bad(2, 3)
    send_all(client, 2, 3)
    assert stored(client) == ["1", "2", "3"]


def test_a_producer_whose_client_does_not_listen_is_cut_off(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    send(client, 1, priority="high")
    for number in range(2, 10_002):
        send(client, number)
    errors = [client.error() for _ in range(10_001)]
    assert errors[-1].headers["message"] == "Producer P goes on although 10000 of its messages failed"
    assert client.is_closed()


def test_a_number_below_one_on_its_way_is_an_error(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    send_all(client, 1)
    with commits_held() as release:
        for number in (3, 5, 4, 3):
            send(client, number)
        error = client.error()
        assert error.headers["receipt-id"] == "4"
        assert error.headers["message"] == (
            "Message 4 of producer P comes after message 5: the numbers of a producer grow, and what is sent again is"
            " sent in the same order"
        )
        release.set()
        assert answers(client, 3) == good(3, 3, 5)
    assert stored(client) == ["1", "3", "5"]


# -- transactions ----------------------------------------------------------------------------------------------------


def transact(client: Client, *numbers: int, name: str = "t", wait: bool = True, **headers: str) -> None:
    """Send numbered messages in a transaction and commit it; the receipt is its name."""
    client.send("BEGIN", {"transaction": name})
    for number in numbers:
        send(client, number, transaction=name, **headers)
    client.send("COMMIT", {"transaction": name, "receipt": name})
    if wait:
        assert answers(client, len(numbers) + 1) == sorted([*good(*numbers), ("R", name)])


def test_a_transaction_that_is_sent_again_is_stored_once(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    transact(client, 1, 2, 3)
    transact(open_client(durable), 1, 2, 3)
    transact(client, 4)
    assert stored(client) == ["1", "2", "3", "4"]


def test_a_transaction_that_is_sent_again_while_the_first_is_on_its_way(
    durable: Address, open_client: OpenClient
) -> None:
    old, new = open_client(durable), open_client(durable)
    send_all(old, 1)
    with commits_held() as release:
        transact(old, 2, 3, wait=False)
        transact(new, 2, 3, wait=False)
        assert answers(new, 2) == good(2, 3)  # a SEND in a transaction is answered at once
        assert new.is_silent()
        release.set()
        assert answers(new, 1) == [("R", "t")]
    assert answers(old, 3) == sorted([*good(2, 3), ("R", "t")])
    assert stored(new) == ["1", "2", "3"]


def test_a_transaction_fails_with_its_first_copy_and_its_acknowledgements_too(
    durable: Address, open_client: OpenClient
) -> None:
    old, new = open_client(durable), open_client(durable)
    send_all(old, 1)
    new.publish("/queue/B", "to be taken")
    new.subscribe("/queue/B", "client-individual")
    message = new.message()
    with commits_fail_late() as release:
        transact(old, 2, 3, wait=False)
        assert answers(old, 2) == good(2, 3)
        new.send("BEGIN", {"transaction": "u"})
        new.done("ACK", {**new.named(message), "transaction": "u"})
        for number in (2, 3):
            send(new, number, transaction="u")
        new.send("COMMIT", {"transaction": "u", "receipt": "u"})
        assert answers(new, 2) == good(2, 3)
        assert new.is_silent()
        release.set()
        assert answers(old, 1) == [("E", "t")]
        assert answers(new, 1) == [("E", "u")]
    new.done("ACK", new.named(message))  # the client has it still
    send(new, 4)
    assert answers(new, 1) == bad(4)
    transact(new, 2, 3)
    send_all(new, 4)
    assert stored(new) == ["1", "2", "3", "4"]


def test_of_a_transaction_with_old_and_new_messages_the_new_ones_are_stored(
    durable: Address, open_client: OpenClient
) -> None:
    client = open_client(durable)
    send_all(client, 1, 2)
    client.publish("/queue/B", "to be taken")
    client.subscribe("/queue/B", "client-individual")
    message = client.message()
    client.done("BEGIN", {"transaction": "t"})
    client.done("ACK", {**client.named(message), "transaction": "t"})
    for number in (1, 2, 3):
        send(client, number, transaction="t")
    assert answers(client, 3) == good(1, 2, 3)
    client.done("COMMIT", {"transaction": "t"})
    client.done("UNSUBSCRIBE", {"id": "1"})
    assert stored(client) == ["1", "2", "3"]
    assert stored(client, "/queue/B") == []


def test_a_transaction_with_a_refused_message_is_rolled_back_as_a_whole(
    durable: Address, open_client: OpenClient
) -> None:
    client = open_client(durable)
    client.send("BEGIN", {"transaction": "t"})
    send(client, 1, transaction="t")
    send(client, 2, transaction="t", priority="high")
    send(client, 3, transaction="t")
    client.send("COMMIT", {"transaction": "t", "receipt": "t"})
    send(client, 4)
    assert answers(client, 5) == sorted([*good(1), *bad(2, 3, 4), ("E", "t")])
    assert stored(client) == []
    transact(client, 1, 2, 3)
    send_all(client, 4)
    assert stored(client) == ["1", "2", "3", "4"]


def test_a_transaction_with_a_message_that_has_no_readable_number_is_rolled_back(
    durable: Address, open_client: OpenClient
) -> None:
    client = open_client(durable)
    client.send("BEGIN", {"transaction": "t"})
    client.done("SEND", {"destination": "/queue/A", "persistent": "true", "transaction": "t"}, "plain")
    headers = {"destination": "/queue/A", "persistent": "true", "transaction": "t", "producer-id": "P"}
    error = client.request("SEND", headers)
    assert client.request("COMMIT", {"transaction": "t"}).headers["message"] == (
        f"Transaction t is rolled back: a message in it was refused: {error.headers['message']}"
    )
    assert stored(client) == []


def test_an_aborted_transaction_s_numbers_may_be_left_out(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    client.send("BEGIN", {"transaction": "t"})
    send(client, 1, transaction="t")
    send(client, 2, transaction="t", priority="high")
    assert answers(client, 2) == sorted(good(1) + bad(2))
    client.done("ABORT", {"transaction": "t"})
    send_all(client, 3)
    assert stored(client) == ["3"]


def test_what_waits_in_a_transaction_is_not_overtaken(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    client.done("BEGIN", {"transaction": "t"})
    send_all(client, 2, transaction="t")
    send(client, 3)
    assert client.error().headers["message"] == (
        "Message 3 would be stored before message 2 of the same producer, which waits in transaction t: commit that"
        " first"
    )
    send_all(client, 1)
    send_all(client, 3, producer="Q")
    client.done("COMMIT", {"transaction": "t"})
    send_all(client, 3)
    assert stored(client) == ["1", "3", "2", "3"]


def test_the_numbers_in_a_transaction_grow(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    client.done("BEGIN", {"transaction": "t"})
    send_all(client, 2, transaction="t")
    send(client, 2, transaction="t")
    assert client.error().headers["message"] == (
        "Message 2 comes after message 2 in transaction t: the numbers of a producer grow"
    )


def test_a_lost_transaction_has_stored_nothing(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    client.done("BEGIN", {"transaction": "t"})
    send_all(client, 1, 2, transaction="t")
    client.drop()
    again = open_client(durable)
    transact(again, 1, 2)
    assert stored(again) == ["1", "2"]


# -- what is sent ----------------------------------------------------------------------------------------------------


def test_a_composite_is_stored_once_everywhere(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    for _ in range(2):
        send_all(client, 1, destination="/queue/A,/queue/B")
    assert stored(client) == stored(client, "/queue/B") == ["1"]


def test_a_message_that_is_not_stored_is_published_once(durable: Address, open_client: OpenClient) -> None:
    client, subscriber = open_client(durable), open_client(durable)
    subscriber.subscribe("/topic/T", id="t")
    for _ in range(2):
        send_all(client, 1, destination="/topic/T")
        send_all(client, 2, persistent="false")
    assert subscriber.message().text == "1"
    assert subscriber.is_silent()
    assert stored(client) == ["2"]


def test_an_expired_message_counts(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    for _ in range(2):
        send_all(client, 1, expires="1")
    client.subscribe("/queue/A")
    assert client.is_silent()
    wait_until(lambda: stored(client, "/queue/ActiveMQ.DLQ") == ["1"])


@pytest.mark.parametrize(
    ("headers", "complaint"),
    [
        ({"producer-id": "P"}, "A producer-id needs a producer-sequence beside it: send both or neither"),
        ({"producer-sequence": "1"}, "A producer-sequence needs a producer-id beside it: send both or neither"),
        ({"producer-id": "", "producer-sequence": "1"}, "Invalid producer-id header ''"),
        ({"producer-id": " P", "producer-sequence": "1"}, "Invalid producer-id header ' P'"),
        ({"producer-id": "P ", "producer-sequence": "1"}, "Invalid producer-id header 'P '"),
        ({"producer-id": "é", "producer-sequence": "1"}, "Invalid producer-id header 'é'"),
        ({"producer-id": "x" * 101, "producer-sequence": "1"}, "Invalid producer-id header 'xxx"),
        ({"producer-id": "P", "producer-sequence": "0"}, "Invalid producer-sequence header '0'"),
        ({"producer-id": "P", "producer-sequence": "-1"}, "Invalid producer-sequence header '-1'"),
        ({"producer-id": "P", "producer-sequence": "+1"}, "Invalid producer-sequence header '+1'"),
        ({"producer-id": "P", "producer-sequence": "1.0"}, "Invalid producer-sequence header '1.0'"),
        ({"producer-id": "P", "producer-sequence": "9223372036854775808"}, "Invalid producer-sequence header '9223"),
        ({"producer-id": "P", "producer-sequence": "٣"}, "Invalid producer-sequence header '٣'"),
    ],
)
def test_a_bad_number_is_an_error(client: Client, headers: dict[str, str], complaint: str) -> None:
    answer = client.request("SEND", {"destination": "/queue/A", "persistent": "true", **headers}, "x")
    assert answer.command == "ERROR"
    assert answer.headers["message"].startswith(complaint)
    client.publish("/queue/A", "the connection goes on")


def test_the_longest_name_fits(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    for _ in range(2):
        send_all(client, 1, producer="'" * 100)
    assert stored(client) == ["1"]


def test_without_a_table_it_is_an_error_that_says_what_to_do(
    start_broker: StartBroker, open_client: OpenClient, url: str
) -> None:
    with open_store(url):
        pass
    execute(url, "DROP TABLE JDBCSTORE_PRODUCERS")
    client = open_client(start_broker(open_store(url, JdbcOptions(create_tables_on_startup=False))))
    send(client, 1)
    assert "Run: jdbcstore schema upgrade URL" in client.error().headers["message"]
    client.publish("/queue/A", "others")


def test_a_producer_that_cannot_be_looked_up_is_an_error_and_the_rest_goes_on(
    durable: Address, open_client: OpenClient, url: str
) -> None:
    client = open_client(durable)
    execute(url, "ALTER TABLE JDBCSTORE_PRODUCERS RENAME TO AWAY")
    for number in (1, 2):
        send(client, number)
    assert answers(client, 2) == bad(1, 2)
    execute(url, "ALTER TABLE AWAY RENAME TO JDBCSTORE_PRODUCERS")
    send_all(client, 1, 2)
    assert stored(client) == ["1", "2"]


def test_a_producer_is_told_goodbye_after_its_answers(durable: Address, open_client: OpenClient) -> None:
    client = open_client(durable)
    for number in (1, 2, 3):
        send(client, number)
    client.send("DISCONNECT", {"receipt": "bye"})
    assert [client.frame().headers["receipt-id"] for _ in range(4)] == ["1", "2", "3", "bye"]
    assert stored(open_client(durable)) == ["1", "2", "3"]


def test_a_transaction_of_a_producer_that_was_let_go_of_is_looked_up(
    durable: Address, open_client: OpenClient, brokers: list[Broker]
) -> None:
    client = open_client(durable)
    client.done("BEGIN", {"transaction": "t"})
    send_all(client, 1, 2, transaction="t")
    broker, forgotten = brokers[0], threading.Event()
    broker.loop.call_soon_threadsafe(broker.producers.forget)
    broker.loop.call_soon_threadsafe(forgotten.set)
    assert forgotten.wait(60)
    client.done("COMMIT", {"transaction": "t"})
    assert stored(client) == ["1", "2"]
