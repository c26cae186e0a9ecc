"""Messages that are to be sent later, over STOMP."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, PersistenceAdapter, open_store, running
from jdbcstore.broker.schedule import job_of
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import TextMessage
from jdbcstore.primitives import Long
from jdbcstore.store.contract import JobStore, SupportsScheduling
from jdbcstore.store.jdbc.job_store import JdbcJobStore
from tests.broker.client import Address, Client, Frame
from tests.broker.conftest import VERSIONS, OpenClient, StartBroker
from tests.broker.test_receipts import commits_fail, commits_held
from tests.waiting import wait_until

#: Longer than any test.
LATER = "3600000"
MANAGEMENT = "/queue/ActiveMQ.Scheduler.Management"


class Wall:
    """The clock of a broker's scheduler, to be moved by hand."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._now_ms = broker.now_ms()
        broker.scheduler.now_ms = lambda: self._now_ms

    def move(self, milliseconds: int) -> None:
        """Let time go by, with the rest of the millisecond that has begun, and the scheduler look at the clock."""
        self._now_ms += milliseconds + 1
        self._broker.loop.call_soon_threadsafe(self._broker.scheduler.look)

    def move_to(self, hour: int, minute: int) -> None:
        """Let time go by until a time of the next day, by the clock of this place."""
        local = time.localtime(self._now_ms / 1000)
        at = time.mktime((local.tm_year, local.tm_mon, local.tm_mday + 1, hour, minute, 0, 0, 0, -1))
        self.move(round(at * 1000) - self._now_ms)

    @property
    def now_ms(self) -> int:
        """What it shows, in epoch milliseconds."""
        return self._now_ms

    @property
    def minute(self) -> int:
        """What it shows."""
        return time.localtime(self._now_ms / 1000).tm_min


@pytest.fixture
def wall(address: Address, brokers: list[Broker]) -> Wall:
    """The clock of the broker at `address`."""
    return Wall(brokers[0])


@pytest.fixture
def jobs(address: Address, brokers: list[Broker]) -> JobStore:
    """What the broker at `address` keeps."""
    return job_store(brokers[0].adapter)


def job_store(adapter: PersistenceAdapter) -> JobStore:
    assert isinstance(adapter, SupportsScheduling)
    return adapter.job_store()


def schedule(client: Client, body: str = "x", destination: str = "/queue/A", **headers: Any) -> None:
    """SEND to be delivered later: ``delay=…``, ``period=…``, ``repeat=…``, ``cron=…``, and other headers."""
    client.done("SEND", scheduled(destination, **headers), body)


def scheduled(destination: str = "/queue/A", **headers: Any) -> dict[str, str]:
    words = ("delay", "period", "repeat", "cron")
    asked = {f"AMQ_SCHEDULED_{name.upper()}": str(headers.pop(name)) for name in words if name in headers}
    return {"destination": destination, "persistent": "true", **asked, **headers}


def bodies(client: Client, count: int) -> list[str]:
    return [client.message().text for _ in range(count)]


# -- when ------------------------------------------------------------------------------------------------------------


def test_a_delay_lasts_from_the_end_of_the_millisecond_that_has_begun() -> None:
    message = TextMessage(message_id=MessageId(ProducerId("ID:a", 1, 1), 1))
    message.properties = {"AMQ_SCHEDULED_DELAY": Long(1000)}
    assert job_of(message, 5, 1_000_000).due_ms == 1006


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("destination", ["/queue/A", "/topic/A"])
@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_delayed_message_comes_when_it_is_due(
    address: Address, open_client: OpenClient, version: str, destination: str, persistent: str
) -> None:
    client = open_client(address, version)
    client.subscribe(destination)
    began = time.monotonic()
    schedule(client, "later", destination, delay=300, persistent=persistent, colour="blue")
    client.publish(destination, "now")
    came = [client.message()]
    if came[0].text != "later":  # on a machine that stands still the other one may be sent later than that
        came.append(client.message())
        assert [message.text for message in came] == ["now", "later"]
    assert time.monotonic() - began >= 0.3
    later = came[-1]
    assert len(came) == 2 or client.message().text == "now"
    assert later.headers["scheduledJobId"] == later.headers["message-id"]
    assert later.headers["colour"] == "blue"
    assert later.headers.get("persistent", "false") == persistent
    assert not [name for name in later.headers if name.startswith("AMQ_SCHEDULED")]
    assert client.is_silent()


def test_the_first_due_is_the_first_sent(client: Client, wall: Wall) -> None:
    client.subscribe("/queue/A")
    for delay in (3000, 1000, 2000):
        schedule(client, str(delay), delay=delay)
    wall.move(1000)
    assert client.message().text == "1000"
    wall.move(5000)
    assert bodies(client, 2) == ["2000", "3000"]
    assert client.is_silent()


def test_repetitions(client: Client, wall: Wall, jobs: JobStore) -> None:
    client.subscribe("/queue/A")
    schedule(client, delay=5000, period=1000, repeat=2)
    seen: list[Frame] = []
    for step in (4999, 1, 1000, 1000):
        wall.move(step)
        if step != 4999:
            seen.append(client.message())
        assert client.is_silent(0.1)
    assert len({frame.headers["message-id"] for frame in seen}) == 3
    assert len({frame.headers["scheduledJobId"] for frame in seen}) == 1
    wait_until(lambda: jobs.job_count() == 0)


def test_a_period_alone_delays_once(client: Client, wall: Wall) -> None:
    client.subscribe("/queue/A")
    schedule(client, period=1000)
    wall.move(999)
    assert client.is_silent(0.1)
    wall.move(1)
    client.message()
    wall.move(10_000)
    assert client.is_silent(0.1)


def test_what_missed_many_times_comes_once_and_goes_on_from_then(client: Client, wall: Wall) -> None:
    client.subscribe("/queue/A")
    schedule(client, delay=1000, period=1000, repeat=5)
    wall.move(1_000_700)
    client.message()
    assert client.is_silent(0.1)
    wall.move(998)
    assert client.is_silent(0.1)
    wall.move(0)
    client.message()


def test_a_late_moment_does_not_move_the_beat(client: Client, wall: Wall) -> None:
    client.subscribe("/queue/A")
    schedule(client, delay=1000, period=1000, repeat=5)
    wall.move(1700)
    client.message()
    wall.move(300)
    client.message()


def test_cron(client: Client, wall: Wall, jobs: JobStore) -> None:
    client.subscribe("/queue/A")
    wall.move_to(11, 58)
    schedule(client, cron="0 12 * * *")
    wall.move(60_000)
    assert client.is_silent(0.1)
    wall.move(60_000)
    first = client.message()
    assert wall.minute == 0
    wall.move(3_600_000)
    assert client.is_silent(0.1)
    wall.move_to(12, 0)
    second = client.message()
    assert first.headers["scheduledJobId"] == second.headers["scheduledJobId"]
    assert first.headers["message-id"] != second.headers["message-id"]
    assert "AMQ_SCHEDULED_CRON" not in first.headers
    assert jobs.job_count() == 1


def test_with_cron_the_delay_and_the_repetitions_follow_each_time(client: Client, wall: Wall, jobs: JobStore) -> None:
    client.subscribe("/queue/A")
    wall.move_to(11, 59)
    schedule(client, cron="0 12 * * *", delay=2000, period=1000, repeat=1)
    for _ in range(2):
        wall.move_to(12, 0)
        assert client.is_silent(0.1)
        wall.move(1998)
        assert client.is_silent(0.1)
        wall.move(0)
        client.message()
        wall.move(1000)
        client.message()
        wall.move(60_000)
        assert client.is_silent(0.1)
    assert jobs.job_count() == 1


def test_many_at_once(client: Client, wall: Wall, jobs: JobStore) -> None:
    """More than the scheduler reads at once."""
    client.subscribe("/queue/A")
    for number in range(500):
        client.send("SEND", scheduled(delay=1000 + number), str(number))
    schedule(client, "500", delay=1500)
    wall.move(5000)
    assert bodies(client, 501) == [str(number) for number in range(501)]
    wait_until(lambda: jobs.job_count() == 0)


# -- what ------------------------------------------------------------------------------------------------------------


def test_a_time_to_live_begins_when_the_message_is_sent(client: Client, wall: Wall) -> None:
    client.subscribe("/queue/A")
    expires = Broker.now_ms() + 60_000
    schedule(client, delay=3_600_000, expires=expires)
    wall.move(3_600_000)
    found = client.message().headers
    assert expires + 3_590_000 < int(found["expires"]) < expires + 3_610_000


@pytest.mark.parametrize("back", [0, 1, 1_700_000_000_000])
def test_a_time_to_live_has_an_end(client: Client, wall: Wall, back: int) -> None:
    client.subscribe("/queue/A")
    most = (1 << 63) - 1
    schedule(client, delay=3_600_000, expires=str(most - back))
    wall.move(3_600_000)
    assert most - back <= int(client.message().headers["expires"]) <= most


def test_every_part_of_a_composite_gets_it(client: Client, wall: Wall, jobs: JobStore) -> None:
    client.subscribe("/queue/A", id="a")
    client.subscribe("/topic/B", id="b")
    schedule(client, destination="/queue/A,/topic/B", delay=1000)
    assert jobs.job_count() == 1
    wall.move(1000)
    assert {client.message().headers["destination"] for _ in range(2)} == {"/queue/A", "/topic/B"}


def test_what_comes_from_a_job_is_not_scheduled_again(client: Client) -> None:
    """As with ActiveMQ."""
    client.subscribe("/queue/A")
    schedule(client, "again", delay=LATER, scheduledJobId="ID:somewhere")
    assert client.message().text == "again"


def test_without_support_the_headers_mean_nothing(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(scheduler_support=False))
    client.subscribe("/queue/A")
    schedule(client, "at once", delay=LATER)
    found = client.message()
    assert (found.text, found.headers["AMQ_SCHEDULED_DELAY"]) == ("at once", LATER)


def test_a_message_to_a_temporary_queue_that_is_gone_is_dropped(
    address: Address, open_client: OpenClient, wall: Wall, jobs: JobStore
) -> None:
    client, other = open_client(address), open_client(address)
    other.subscribe("/queue/A")
    schedule(client, destination="/temp-queue/mine", delay=1000)
    schedule(client, "after", delay=1001)
    client.done("DISCONNECT")
    assert client.is_closed()
    wall.move(2000)
    assert other.message().text == "after"
    wait_until(lambda: jobs.job_count() == 0)


# -- transactions and numbers ----------------------------------------------------------------------------------------


def test_in_a_transaction_it_is_scheduled_at_commit(client: Client, wall: Wall, jobs: JobStore) -> None:
    client.subscribe("/queue/A")
    client.done("BEGIN", {"transaction": "t"})
    schedule(client, "later", delay=1000, transaction="t")
    client.done("SEND", {"destination": "/queue/A", "persistent": "true", "transaction": "t"}, "now")
    assert jobs.job_count() == 0
    client.done("COMMIT", {"transaction": "t"})
    assert client.message().text == "now"
    assert jobs.job_count() == 1
    wall.move(1000)
    assert client.message().text == "later"


def test_an_aborted_transaction_schedules_nothing(client: Client, jobs: JobStore) -> None:
    client.done("BEGIN", {"transaction": "t"})
    schedule(client, delay=1000, transaction="t")
    client.done("ABORT", {"transaction": "t"})
    assert jobs.job_count() == 0


def test_what_is_sent_again_is_scheduled_once(client: Client, jobs: JobStore) -> None:
    for _ in range(2):
        schedule(client, delay=LATER, **{"producer-id": "p", "producer-sequence": "1"})
    assert jobs.job_count() == 1


def test_the_receipt_comes_after_the_commit(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    client = open_client(start_broker(sqlite_store))
    with commits_held():
        client.send("SEND", {**scheduled(delay=LATER), "receipt": "r"}, "x")
        assert client.is_silent()
    assert client.frame().headers["receipt-id"] == "r"
    assert job_store(sqlite_store).job_count() == 1


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"delay": "-1"}, "must not be negative"),
        ({"delay": "soon"}, "whole number"),
        ({"delay": str(1 << 63)}, "whole number"),
        ({"delay": str((1 << 63) - 1)}, "at most"),
        ({"delay": "1", "period": str(1 << 60)}, "at most"),
        ({"delay": "1", "repeat": "3"}, "needs AMQ_SCHEDULED_PERIOD"),
        ({"repeat": "3"}, "needs AMQ_SCHEDULED_PERIOD"),
        ({"repeat": "0"}, "nothing says when"),
        ({"cron": "every day"}, "five fields"),
        ({"cron": "61 * * * *"}, "Invalid minute"),
        ({"cron": "0 0 31 2 *"}, "never comes"),
    ],
)
@pytest.mark.parametrize("transaction", [None, "t"])
def test_what_cannot_be_scheduled_is_an_error(
    client: Client, jobs: JobStore, asked: dict[str, str], words: str, transaction: str | None
) -> None:
    headers = scheduled(**asked)
    if transaction is not None:
        client.done("BEGIN", {"transaction": transaction})
        headers["transaction"] = transaction
    answer = client.request("SEND", headers, "x")
    assert (answer.command, answer.headers["receipt-id"]) == ("ERROR", "asked")
    assert words in answer.headers["message"]
    assert jobs.job_count() == 0
    client.publish("/queue/A", "the connection goes on")
    client.done("DISCONNECT")


def test_there_is_a_limit(start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]) -> None:
    client = open_client(start_broker(scheduled_jobs_max=2))
    wall = Wall(brokers[0])
    client.subscribe("/queue/A")
    for _ in range(2):
        schedule(client, delay=60_000)
    assert "scheduled_jobs_max is 2" in client.request("SEND", scheduled(delay=60_000)).headers["message"]
    wall.move(60_000)
    bodies(client, 2)
    schedule(client, delay=60_000)


def test_what_is_scheduled_at_once_counts(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted, count_jobs = [], JdbcJobStore.job_count

    def counts_slowly(jobs: JdbcJobStore) -> int:
        count = count_jobs(jobs)
        time.sleep(0.2)
        counted.append(count)
        return count

    monkeypatch.setattr(JdbcJobStore, "job_count", counts_slowly)
    client = open_client(start_broker(sqlite_store, scheduled_jobs_max=2))
    for _ in range(2):
        schedule(client, delay=LATER)
    wait_until(lambda: counted)
    assert "scheduled_jobs_max is 2" in client.request("SEND", scheduled(delay=LATER)).headers["message"]
    assert counted == [0]


# -- the management destination --------------------------------------------------------------------------------------


def order(client: Client, action: str, **headers: str) -> Frame:
    return client.request("SEND", {"destination": MANAGEMENT, "AMQ_SCHEDULER_ACTION": action, **headers})


def browse(client: Client, **headers: str) -> dict[str, Frame]:
    """What is scheduled, by body."""
    assert order(client, "BROWSE", **{"reply-to": "/temp-queue/replies", **headers}).command == "RECEIPT"
    client.publish("/temp-queue/replies", "the end")
    found = {}
    while (frame := client.message()).text != "the end":
        found[frame.text] = frame
    return found


def test_browse_and_remove(client: Client, wall: Wall, jobs: JobStore) -> None:
    client.subscribe("/temp-queue/replies")
    for number in range(3):
        schedule(client, str(number), delay=1000 * (number + 1), colour="blue")
    found = browse(client)
    assert sorted(found) == ["0", "1", "2"]
    assert found["1"].headers["AMQ_SCHEDULED_DELAY"] == "2000"
    assert found["1"].headers["colour"] == "blue"
    assert found["1"].headers["type"] == "Advisory"
    assert found["1"].headers["original-destination"] == "/queue/A"
    removed = found["1"].headers["scheduledJobId"]
    assert order(client, "REMOVE", scheduledJobId=removed).command == "RECEIPT"
    assert sorted(browse(client)) == ["0", "2"]
    client.subscribe("/queue/A", id="a")
    wall.move(5000)
    assert bodies(client, 2) == ["0", "2"]


def test_what_is_sent_after_it_was_shown_is_as_it_was(client: Client, wall: Wall, jobs: JobStore) -> None:
    client.subscribe("/temp-queue/replies")
    schedule(client, delay=1000)
    assert list(browse(client)) == ["x"]
    client.subscribe("/queue/A", id="a")
    wall.move(1000)
    assert not {"type", "original-destination"} & client.message().headers.keys()


def test_an_order_in_a_transaction_is_carried_out_at_once(client: Client, jobs: JobStore) -> None:
    schedule(client, delay=LATER)
    client.done("BEGIN", {"transaction": "t"})
    client.done("SEND", {"destination": "/queue/A", "transaction": "t"}, "committed")
    assert order(client, "REMOVEALL", transaction="t").command == "RECEIPT"
    assert jobs.job_count() == 0
    client.done("COMMIT", {"transaction": "t"})
    client.subscribe("/queue/A")
    assert client.message().text == "committed"


def test_a_span_of_time(client: Client, jobs: JobStore) -> None:
    client.subscribe("/temp-queue/replies")
    now_ms = Broker.now_ms()
    for number in range(1, 5):
        schedule(client, str(number), delay=number * 1_000_000)
    span = {"ACTION_START_TIME": str(now_ms + 1_900_000), "ACTION_END_TIME": str(now_ms + 3_100_000)}
    assert sorted(browse(client, **span)) == ["2", "3"]
    assert order(client, "REMOVEALL", **span).command == "RECEIPT"
    assert sorted(browse(client)) == ["1", "4"]
    assert order(client, "REMOVEALL", ACTION_START_TIME=span["ACTION_END_TIME"]).command == "RECEIPT"
    assert sorted(browse(client)) == ["1"]
    assert order(client, "REMOVEALL").command == "RECEIPT"
    assert jobs.job_count() == 0


@pytest.mark.parametrize(
    ("action", "headers", "words"),
    [
        ("REMOVE", {}, "needs scheduledJobId"),
        ("BROWSE", {}, "needs a reply-to"),
        ("FIRE", {}, "BROWSE, REMOVE or REMOVEALL"),
        ("REMOVEALL", {"ACTION_START_TIME": "noon"}, "epoch milliseconds"),
        ("REMOVEALL", {"ACTION_END_TIME": "9" * 20}, "epoch milliseconds"),
        ("REMOVEALL", {"transaction": "none"}, "none"),
        ("REMOVEALL", {"producer-id": "p", "producer-sequence": "1"}, "without a number"),
    ],
)
def test_an_order_that_is_none(
    client: Client, jobs: JobStore, action: str, headers: dict[str, str], words: str
) -> None:
    client.done("BEGIN", {"transaction": "t"})
    schedule(client, delay=LATER)
    answer = order(client, action, **headers)
    assert answer.command == "ERROR"
    assert words in answer.headers["message"]
    assert jobs.job_count() == 1
    client.done("DISCONNECT")


# -- restarts and trouble --------------------------------------------------------------------------------------------


def test_what_became_due_while_the_broker_was_away_is_sent_when_it_is_back(
    open_client: OpenClient, tmp_path: Path, start_broker: StartBroker
) -> None:
    def store() -> PersistenceAdapter:
        return open_store(f"sqlite:///{tmp_path / 'one.db'}")

    with running(Broker(store(), BrokerOptions(bind="127.0.0.1:0"))) as address, Client(address) as client:
        client.connect()
        schedule(client, "later", delay=LATER, persistent="false")
        schedule(client, "much later", delay=2 * int(LATER))
    with closing(sqlite3.connect(tmp_path / "one.db")) as connection, connection:  # an hour goes by
        connection.execute(
            "UPDATE JDBCSTORE_SCHEDULED SET DUE_MS = 1 WHERE DUE_MS < ?", (time.time() * 1000 + 5_400_000,)
        )
    adapter = store()
    client = open_client(start_broker(adapter))
    client.subscribe("/queue/A")
    assert client.message().text == "later"
    assert client.is_silent(0.1)
    wait_until(lambda: job_store(adapter).job_count() == 1)


@pytest.fixture
def damaged(tmp_path: Path) -> Callable[[str], None]:
    """Spoil what `sqlite_store` keeps: ``damaged("SQL")``."""

    def run(statement: str) -> None:
        with closing(sqlite3.connect(tmp_path / "broker.db", timeout=60)) as connection, connection:
            connection.execute(statement)

    return run


@pytest.mark.parametrize("damage", ["MSG = x'00'", "MSG = NULL", "CRON = 'never'"])
def test_a_job_that_cannot_be_fired_is_put_aside(
    start_broker: StartBroker,
    open_client: OpenClient,
    brokers: list[Broker],
    sqlite_store: PersistenceAdapter,
    damaged: Callable[[str], None],
    damage: str,
) -> None:
    client = open_client(start_broker(sqlite_store))
    wall = Wall(brokers[0])
    client.subscribe("/queue/A")
    schedule(client, "bad", delay=1000)
    damaged(f"UPDATE JDBCSTORE_SCHEDULED SET {damage}")
    schedule(client, "good", delay=2000)
    wall.move(2000)
    assert client.message().text == "good"
    assert client.is_silent(0.1)
    wait_until(lambda: brokers[0].scheduler.held == 1)
    wait_until(lambda: job_store(sqlite_store).next_due_ms() is None)
    assert job_store(sqlite_store).job_count() == 1


def test_what_the_store_refuses_for_now_is_tried_again(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], sqlite_store: PersistenceAdapter
) -> None:
    client = open_client(start_broker(sqlite_store, on_store_failure="ignore"))
    wall = Wall(brokers[0])
    client.subscribe("/queue/A")
    schedule(client, "x", delay=1000)
    with commits_fail():
        wall.move(1000)
        assert client.is_silent()
    wall.move(1000)  # the pause
    assert client.message().text == "x"
    assert client.is_silent(0.1)
