"""Work on many messages: what moves is in one place, whatever happens, and never in two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from jdbcstore import NotAuthorized, PersistenceAdapter, SelectorError, UnknownDestination, open_store
from jdbcstore.broker.security.authorization import AuthorizationEntry, AuthorizationMap
from jdbcstore.broker.security.principal import Principal
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError, ProtocolError, StoreError
from jdbcstore.faults import inject
from jdbcstore.management import operations as operation_module
from jdbcstore.management.filters import EVERYTHING, NO_CAUSE, Filter
from jdbcstore.management.rights import VISITOR, Rights
from jdbcstore.management.views import OperationView
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.management.desk import Managed, managed
from tests.management.web import Site
from tests.servers.prepared import PreparedFile
from tests.servers.server import free_port
from tests.waiting import wait_until


@pytest.fixture(params=["memory", "sqlite", "kahadb"])
def store(request: pytest.FixtureRequest, tmp_path: Path, prepared_file: PreparedFile) -> PersistenceAdapter:
    if request.param == "memory":
        return MemoryPersistenceAdapter()
    return open_store(
        prepared_file.url(tmp_path / "b.db") if request.param == "sqlite" else f"kahadb:{tmp_path / 'data'}"
    )


@pytest.fixture
def broker(store: PersistenceAdapter) -> Iterator[Managed]:
    with managed(store) as broker:
        yield broker


@pytest.fixture
def client(broker: Managed) -> Iterator[Client]:
    with Client(broker.address) as client:
        client.connect()
        yield client


def fill(client: Client, queue: str, count: int, **headers: str) -> None:
    for number in range(count):
        client.send("SEND", {"destination": queue, "persistent": "true", "n": str(number), **headers}, f"m{number}")
    client.done("SEND", {"destination": "/queue/LAST", "persistent": "true"}, "last")


def hold(client: Client, queue: str, prefetch: int) -> None:
    """Subscribe, and hold so many at most."""
    headers = {"destination": queue, "ack": "client-individual", "id": "1", "activemq.prefetchSize": str(prefetch)}
    client.done("SUBSCRIBE", headers)


def names(count: int) -> list[str]:
    return [f"m{number}" for number in range(count)]


def test_all_messages_move_in_their_order(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 450)
    moved = broker.operate("move", "queue://A", "queue://B", EVERYTHING)
    assert (moved.state, moved.done, moved.matched, moved.skipped) == ("done", 450, 450, 0)
    assert broker.bodies("queue://A") == []
    assert broker.bodies("queue://B") == names(450)
    assert broker.view("queue://A").depth == 0
    assert broker.view("queue://B").depth == 450


def test_a_moved_message_says_where_it_was(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 1)
    broker.operate("move", "queue://A", "queue://B", EVERYTHING)
    message = broker.call(broker.face.browse("queue://B")).messages[0].message
    assert message.original_destination == Queue("A")
    assert message.redelivery_counter == 0


def test_a_selector_says_what_moves(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 20)
    moved = broker.operate("move", "queue://A", "queue://B", Filter("n IN ('3', '4', '15')"))
    assert moved.done == 3
    assert broker.bodies("queue://B") == ["m3", "m4", "m15"]
    assert len(broker.bodies("queue://A")) == 17


def test_a_limit_ends_an_operation(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 150)
    assert broker.operate("move", "queue://A", "queue://B", Filter(limit=120)).done == 120
    assert broker.bodies("queue://A") == names(150)[120:]


def test_a_dry_run_counts_and_changes_nothing(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 12)
    counted = broker.operate("purge", "queue://A", is_dry_run=True)
    assert (counted.matched, counted.done, counted.state) == (12, 0, "done")
    assert counted.bytes > 12
    assert broker.bodies("queue://A") == names(12)


def test_a_purge_leaves_what_a_consumer_holds(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 10)
    hold(client, "/queue/A", 4)
    held = [client.message() for _ in range(4)]
    purged = broker.operate("purge", "queue://A")
    assert (purged.done, purged.skipped) == (6, 4)
    assert broker.view("queue://A").depth == 4
    for message in held:
        client.ack(message)
    wait_until(lambda: broker.view("queue://A").depth == 0)


def test_copies_keep_the_originals(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 120)
    assert broker.operate("copy", "queue://A", "queue://B", EVERYTHING).done == 120
    assert broker.bodies("queue://A") == broker.bodies("queue://B") == names(120)


def test_messages_are_deleted_by_number_and_by_id(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 5)
    page = broker.call(broker.face.browse("queue://A")).messages
    broker.operate("delete", "queue://A", Filter(numbers=frozenset({page[1].number})))
    broker.operate("delete", "queue://A", Filter(message_ids=frozenset({str(page[3].message.message_id)})))
    assert broker.bodies("queue://A") == ["m0", "m2", "m4"]


def test_priority_and_expiration_change_and_the_message_goes_last(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 3)
    changed = broker.operate("change", "queue://A", Filter("n = '0'"), priority=9, expiration_ms=0)
    assert changed.done == 1
    page = broker.call(broker.face.browse("queue://A")).messages
    assert [view.message.priority for view in page] == [4, 4, 9]
    assert broker.bodies("queue://A") == ["m1", "m2", "m0"]


def test_dead_letters_go_back_to_where_they_came_from(broker: Managed, client: Client) -> None:
    for queue in ("A", "B"):
        fill(client, f"/queue/{queue}", 2)
        client.subscribe(f"/queue/{queue}", ack="client-individual", id=queue)
        for _ in range(2):
            client.done("NACK", client.named(client.message()))
        client.done("UNSUBSCRIBE", {"id": queue})
    wait_until(lambda: broker.view("queue://ActiveMQ.DLQ").depth == 4)
    counted = broker.operate("retry", "queue://ActiveMQ.DLQ", EVERYTHING, is_dry_run=True)
    assert sorted(counted.groups) == [("queue://A", NO_CAUSE, 2), ("queue://B", NO_CAUSE, 2)]
    assert broker.operate("retry", "queue://ActiveMQ.DLQ", Filter(origin="queue://B")).done == 2
    assert broker.bodies("queue://B") == ["m0", "m1"]
    assert broker.operate("retry", "queue://ActiveMQ.DLQ", EVERYTHING).done == 2
    assert broker.bodies("queue://A") == ["m0", "m1"]
    assert broker.view("queue://A").dead_lettered == 2
    returned = broker.call(broker.face.browse("queue://A")).messages[0].message
    assert returned.original_destination is None
    assert not {"originalExpiration", "dlqDeliveryFailureCause"} & set(returned.properties)


def test_a_message_that_came_from_nowhere_is_not_retried(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 2)
    retried = broker.operate("retry", "queue://A", EVERYTHING)
    assert (retried.done, retried.skipped) == (0, 2)
    assert broker.bodies("queue://A") == names(2)


async def moved_all(broker: Managed) -> OperationView:
    return await broker.face.finished(broker.face.move("queue://A", "queue://B", EVERYTHING))


def test_a_consumer_gets_each_message_once_while_others_move(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 600)
    with Client(broker.address) as other:
        other.connect()
        hold(other, "/queue/A", 7)
        moving = asyncio.run_coroutine_threadsafe(moved_all(broker), broker.broker.loop)
        seen: list[str] = []
        other.socket.settimeout(0.2)
        while not moving.done() or len(seen) + moving.result().done < 600:
            with suppress(TimeoutError):
                message = other.message()
                seen.append(message.text)
                other.ack(message)
        wait_until(lambda: broker.view("queue://A").depth == 0)
    assert sorted(seen + broker.bodies("queue://B")) == sorted(names(600))


def test_messages_that_are_only_in_memory_move_too(broker: Managed, client: Client) -> None:
    for number in range(130):
        client.send("SEND", {"destination": "/queue/A", "persistent": "false"}, f"m{number}")
    client.done("SEND", {"destination": "/queue/LAST"}, "last")
    assert broker.bodies("queue://A") == names(130)
    assert broker.operate("move", "queue://A", "queue://B", EVERYTHING).done == 130
    assert broker.bodies("queue://A") == []
    assert broker.bodies("queue://B") == names(130)


def in_memory(client: Client, count: int) -> None:
    for number in range(count):
        client.send("SEND", {"destination": "/queue/A", "persistent": "false"}, f"m{number}")
    client.done("SEND", {"destination": "/queue/LAST"}, "last")


def test_what_a_consumer_gave_back_in_memory_is_shown_and_purged(broker: Managed, client: Client) -> None:
    in_memory(client, 10)
    with Client(broker.address) as consumer:
        consumer.connect()
        hold(consumer, "/queue/A", 5)
        assert [consumer.message().text for _ in range(5)] == names(5)
        assert broker.bodies("queue://A") == names(10)
    wait_until(lambda: broker.view("queue://A").consumers == 0 and broker.view("queue://A").in_flight == 0)
    assert broker.bodies("queue://A") == names(10)
    assert broker.operate("purge", "queue://A").done == 10
    assert broker.view("queue://A").depth == 0


def test_what_is_claimed_in_memory_goes_back_when_the_operation_fails(
    broker: Managed, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory(client, 10)
    counts = iter(range(5))
    monkeypatch.setattr(operation_module.Operation, "count", lambda *_: next(counts))
    assert broker.operate("move", "queue://A", "queue://B", EVERYTHING).state == "failed"
    assert broker.view("queue://A").in_flight == 0
    client.subscribe("/queue/A")
    assert [client.message().text for _ in range(10)] == names(10)


def test_a_message_that_is_consumed_while_others_move_is_left_out(broker: Managed, client: Client) -> None:
    in_memory(client, 130)
    queue = broker.broker.queues[Queue("A")]

    async def claim_late() -> list[str]:
        claiming = queue.claim_in_memory(lambda _: True)
        claimed = [next(claiming)]
        for delivery in list(queue.contents.transient[0].window)[:100]:  # a consumer has them meanwhile
            assert queue.contents.take_if_there(delivery)
        claimed += list(claiming)
        queue.unclaim([one for one in claimed if one is not None])
        return [(one.message.content or b"")[4:].decode() for one in claimed if one is not None and one.message]

    assert broker.call(claim_late()) == ["m0", *names(130)[101:]]


def test_moved_messages_are_there_after_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with managed(open_store(url)) as broker, Client(broker.address) as client:
        client.connect()
        fill(client, "/queue/A", 110)
        broker.operate("move", "queue://A", "queue://B", EVERYTHING)
    with managed(open_store(url)) as broker:
        assert broker.view("queue://B").depth == 110
        assert broker.bodies("queue://B") == names(110)
        with pytest.raises(UnknownDestination):
            broker.call(broker.face.browse("queue://A"))


def test_an_operation_is_cancelled_behind_its_commit(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 500)

    async def begin_and_cancel() -> str:
        operation = broker.face.move("queue://A", "queue://B", EVERYTHING)
        broker.face.cancel(operation.operation_id)
        return (await broker.face.finished(operation)).state

    assert broker.call(begin_and_cancel()) == "cancelled"
    left, moved = broker.bodies("queue://A"), broker.bodies("queue://B") if _is_there(broker, "B") else []
    assert sorted(left + moved) == sorted(names(500))


def _is_there(broker: Managed, name: str) -> bool:
    return Queue(name) in broker.broker.queues


def test_what_is_wrong_is_said_before_anything_is_done(broker: Managed, client: Client) -> None:
    fill(client, "/queue/ORDERS", 1)
    with pytest.raises(UnknownDestination, match=r"did you mean queue://ORDERS"):
        broker.operate("purge", "queue://ORDER")
    with pytest.raises(SelectorError):
        broker.operate("delete", "queue://ORDERS", Filter("n ="))
    with pytest.raises(ConfigurationError, match="the same"):
        broker.operate("move", "queue://ORDERS", "queue://ORDERS", EVERYTHING)
    with pytest.raises(ConfigurationError, match="one queue"):
        broker.operate("move", "queue://ORDERS", "topic://T", EVERYTHING)


def test_who_has_not_logged_in_only_looks(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 1)
    with pytest.raises(NotAuthorized, match="give --token"):
        broker.operate("purge", "queue://A", rights=VISITOR)
    assert broker.face.audit(1)[0].outcome.startswith("denied")


def test_rights_are_those_of_the_destination(tmp_path: Path) -> None:
    entries = (
        AuthorizationEntry(pattern=Queue("A.>"), admin=frozenset({"a"}), read=frozenset({"a"})),
        AuthorizationEntry(pattern=Queue("B.>"), read=frozenset({"a"})),
    )
    map = AuthorizationMap(entries=entries)
    with managed(MemoryPersistenceAdapter(), authorization=map, users={"alice": "x"}) as broker:
        for name in ("A.1", "B.1", "C.1"):
            broker.call(broker.face.create(f"queue://{name}"))
        alice = Rights(
            "alice",
            may_act=True,
            principal=Principal("alice", frozenset({"a"})),
            authorization=broker.broker.authorization,
        )
        face = broker.face.for_whom(alice)
        broker.call(face.look())
        seen, count = broker.call(face.destinations())
        assert ([view.name for view in seen], count) == (["queue://A.1", "queue://B.1"], 2)
        assert broker.operate("purge", "queue://A.1", rights=alice).state == "done"
        with pytest.raises(NotAuthorized, match=r"administrate queue://B\.1"):
            broker.operate("purge", "queue://B.1", rights=alice)
        with pytest.raises(NotAuthorized):
            broker.call(face.browse("queue://C.1"))
        with pytest.raises(NotAuthorized):
            broker.call(face.connections())


def test_what_is_done_is_audited(broker: Managed, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    fill(client, "/queue/A", 3)
    with caplog.at_level("INFO", logger="jdbcstore.audit"):
        broker.operate("move", "queue://A", "queue://B", EVERYTHING)
    entry = broker.face.audit(1)[0]
    assert (entry.who, entry.action, entry.subject, entry.outcome) == (
        "operator",
        "move",
        "queue://A to queue://B",
        "3 messages",
    )
    assert "audit user='operator' action=move subject='queue://A to queue://B' outcome='3 messages'" in caplog.text


def test_a_paused_queue_delivers_nothing_until_it_is_resumed(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 2)
    broker.call(broker.face.pause("queue://A"))
    assert broker.view("queue://A").is_paused
    client.subscribe("/queue/A")
    fill(client, "/queue/B", 1)  # an answer behind what would have been delivered
    assert not client.has_frame()
    broker.call(broker.face.resume("queue://A"))
    assert [client.message().text for _ in range(2)] == names(2)


def test_a_destination_that_takes_nothing_refuses_and_loses_nothing(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 1)
    broker.call(broker.face.pause("queue://A", "producers"))
    refused = client.request("SEND", {"destination": "/queue/A", "persistent": "true"}, "late")
    assert refused.command == "ERROR"
    assert "paused for senders" in refused.headers["message"]
    assert broker.bodies("queue://A") == ["m0"]
    broker.call(broker.face.resume("queue://A"))
    with Client(broker.address) as other:
        other.connect()
        other.publish("/queue/A", "again")
    assert broker.bodies("queue://A") == ["m0", "again"]


def test_a_drained_broker_lets_consumers_finish(broker: Managed, client: Client) -> None:
    fill(client, "/queue/A", 2)
    broker.call(broker.face.drain())
    client.subscribe("/queue/A", ack="client-individual")
    for _ in range(2):
        client.ack(client.message())
    wait_until(lambda: broker.view("queue://A").depth == 0)
    assert client.request("SEND", {"destination": "/queue/A"}, "late").command == "ERROR"
    broker.call(broker.face.drain(is_on=False))


def test_a_destination_is_created_and_deleted(broker: Managed, client: Client) -> None:
    broker.call(broker.face.create("queue://NEW"))
    assert broker.view("queue://NEW").depth == 0
    fill(client, "/queue/NEW", 120)
    client.subscribe("/queue/NEW", ack="client-individual")
    client.message()
    with pytest.raises(ProtocolError, match="has 1 consumers"):
        broker.call(broker.face.delete_destination("queue://NEW"))
    client.done("UNSUBSCRIBE", {"id": "1"})
    purged = broker.call(broker.face.delete_destination("queue://NEW"))
    assert purged is not None
    assert purged.done == 120
    with pytest.raises(UnknownDestination):
        broker.view("queue://NEW")


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_who_listens_hears_that_a_destination_was_deleted(broker: Managed, client: Client, kind: str) -> None:
    broker.call(broker.face.create(f"{kind}://NEW"))
    client.subscribe(f"/topic/ActiveMQ.Advisory.{kind.capitalize()}")
    assert '"string":"NEW"' in client.message().text
    broker.call(broker.face.delete_destination(f"{kind}://NEW"))
    gone = client.message().text
    assert '"string":"NEW"' in gone
    assert '"operationType":1' in gone


def test_what_a_commit_refuses_goes_back_in_its_old_order(tmp_path: Path) -> None:
    def refuse() -> None:
        raise StoreError("the disk says no")

    with managed(open_store(f"sqlite:///{tmp_path / 'b.db'}")) as broker, Client(broker.address) as client:
        client.connect()
        fill(client, "/queue/A", 30)
        with inject("writer.before_commit", refuse):
            moved = broker.operate("move", "queue://A", "queue://B", EVERYTHING)
        assert (moved.state, moved.done) == ("failed", 0)
        assert "the disk says no" in (moved.error or "")
        assert broker.view("queue://A").in_flight == 0
        client.subscribe("/queue/A", ack="client-individual")
        frames = [client.message() for _ in range(30)]
        assert [frame.text for frame in frames] == names(30)
        assert {frame.headers.get("redelivered", "false") for frame in frames} == {"false"}


@pytest.mark.parametrize("kind", ["sqlite", "kahadb"])
def test_a_broker_that_is_killed_in_a_move_has_each_message_once(tmp_path: Path, kind: str) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}" if kind == "sqlite" else f"kahadb:{tmp_path / 'data'}"
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123456789\n")
    port = free_port()
    web = ("--web-bind", f"127.0.0.1:{port}", "--web-token-file", str(token))
    site = Site(("127.0.0.1", port), token.read_text().strip())
    with BrokerProcess(url, tmp_path, *web) as process:
        with Client(("127.0.0.1", process.port)) as client:
            client.connect()
            fill(client, "/queue/A", 4000)
        begun = site.post("/api/v1/move", {"destination": "queue://A", "target": "queue://B"}).json
        path = f"/api/v1/operation?operation_id={begun['operation_id']}"
        wait_until(lambda: site.get(path).json["done"] >= 300)
        process.kill()
    with managed(open_store(url)) as broker:
        left, moved = broker.bodies("queue://A") if _is_there(broker, "A") else [], broker.bodies("queue://B")
    assert moved == names(4000)[: len(moved)]
    assert left == names(4000)[len(moved) :]
    assert len(moved) >= 300


def test_what_an_operator_removes_of_the_scheduled_messages_makes_room() -> None:
    later = {"destination": "/queue/A", "persistent": "true", "AMQ_SCHEDULED_DELAY": "3600000"}
    with managed(MemoryPersistenceAdapter(), scheduled_jobs_max=2) as broker, Client(broker.address) as client:
        client.connect()
        for removed in (1, 2):
            while client.request("SEND", later).command == "RECEIPT":
                pass
            jobs, _ = broker.call(broker.face.scheduled(None, 10))
            assert len(jobs) == 2
            if removed == 1:
                assert broker.call(broker.face.remove_scheduled(jobs[0].job_id)) == 1
            else:
                assert broker.call(broker.face.remove_all_scheduled()) == 2
            wait_until(lambda: client.request("SEND", later).command == "RECEIPT")
