"""Message groups, and consumers with priorities: who gets what, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore import Broker, PersistenceAdapter, open_store
from jdbcstore.broker.destination_policy import DestinationPolicy, RedeliveryPolicy
from jdbcstore.destination import Queue
from tests.broker.client import Client, Frame
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.groups import ConsumerGroup, send_group
from tests.servers.prepared import PreparedFile


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, prepared_file: PreparedFile) -> PersistenceAdapter:
    """Two kinds of stores."""
    return open_store("memory:" if request.param == "memory" else prepared_file.url(tmp_path / "groups.db"))


def consumers(open_client: OpenClient, address: tuple[str, int], **headers: dict[str, str]) -> ConsumerGroup:
    """Consumers by name, each with a connection and headers of its SUBSCRIBE."""
    return ConsumerGroup({name: open_client(address) for name in headers}, headers)


def test_a_group_stays_with_one_consumer(
    start_broker: StartBroker, open_client: OpenClient, store: PersistenceAdapter
) -> None:
    address = start_broker(store)
    group = consumers(open_client, address, a={}, b={}, c={})
    group.subscribe("/queue/G")
    sender = open_client(address)
    send_group(sender, "/queue/G", "A1 B1 C1 D1 A2 D2 B2 A3 C2")
    assert group.texts(9) == {"a": "A1 D1 A2 D2 A3", "b": "B1 B2", "c": "C1 C2"}


def test_groups_that_wait_are_shared_if_dispatch_waits_for_consumers(
    start_broker: StartBroker, open_client: OpenClient, store: PersistenceAdapter
) -> None:
    policy = DestinationPolicy(
        pattern=Queue("G"), consumers_before_dispatch_starts=3, time_before_dispatch_starts_ms=600_000
    )
    address = start_broker(store, policies=[policy])
    sender, early = open_client(address), open_client(address)
    early.subscribe("/queue/G")
    early.done("UNSUBSCRIBE", {"id": "1"})  # it is not waited for any more
    group = consumers(open_client, address, a={}, b={}, c={})
    for _ in range(2):  # after the last consumer it begins anew
        send_group(sender, "/queue/G", "A1 B1 C1 A2 B2 C2")
        group.subscribe("/queue/G")
        got = group.collect(6)
        assert group.told(got) == {"a": "A1 A2", "b": "B1 B2", "c": "C1 C2"}
        for name, client in group.clients.items():
            group.ack(name, got[name])
            client.done("UNSUBSCRIBE", {"id": "1"})


def test_a_consumer_is_alone_when_the_wait_for_others_is_over(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    policies = [
        DestinationPolicy(pattern=Queue("A"), consumers_before_dispatch_starts=2),  # a second
        DestinationPolicy(pattern=Queue("B"), time_before_dispatch_starts_ms=100),
    ]
    client = open_client(start_broker(policies=policies))
    for queue in ("/queue/A", "/queue/B"):
        client.publish(queue, queue)
        client.subscribe(queue, id=queue)
        assert client.message().text == queue


def test_the_first_message_of_a_group_is_told(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker()
    group = consumers(open_client, address, a={})
    group.subscribe("/queue/G")
    sender = open_client(address)
    send_group(sender, "/queue/G", "A1 A2")
    sender.publish("/queue/G", "alone")
    first, second, alone = group.collect(3)["a"]
    assert [first.headers[name] for name in ("JMSXGroupID", "JMSXGroupSeq")] == ["A", "0"]
    assert [message.headers.get("JMSXGroupFirstForConsumer") for message in (first, second, alone)] == [
        "true",
        None,
        None,
    ]


def test_a_full_consumer_holds_up_its_groups_only(
    start_broker: StartBroker, open_client: OpenClient, store: PersistenceAdapter
) -> None:
    address = start_broker(store)
    group = consumers(open_client, address, a={"activemq.prefetchSize": "2"}, b={"activemq.prefetchSize": "3"})
    group.subscribe("/queue/G")
    sender = open_client(address)
    send_group(sender, "/queue/G", "A1 A2 A3 A4 B1")
    sender.publish("/queue/G", "x")
    sender.publish("/queue/G", "y")
    got = group.collect(5)
    assert group.told(got) == {"a": "A1 A2", "b": "B1 x y"}
    group.ack("a", got["a"])
    assert group.texts(2) == {"a": "A3 A4", "b": ""}


def test_a_group_ends_with_a_sequence_below_0(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker()
    group = consumers(open_client, address, a={"activemq.prefetchSize": "2"}, b={})
    group.subscribe("/queue/G")
    sender = open_client(address)
    send_group(sender, "/queue/G", "A1")
    sender.publish("/queue/G", "A2", JMSXGroupID="A", JMSXGroupSeq="-1")
    send_group(sender, "/queue/G", "A3")
    assert group.texts(3) == {"a": "A1 A2", "b": "A3"}


def test_what_waits_for_a_group_that_ends_goes_to_others(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker()
    group = consumers(open_client, address, a={"activemq.prefetchSize": "1"}, b={"activemq.prefetchSize": "1"})
    group.subscribe("/queue/G")
    sender = open_client(address)
    send_group(sender, "/queue/G", "A1 B1")
    sender.publish("/queue/G", "A2", JMSXGroupID="A", JMSXGroupSeq="-1")
    send_group(sender, "/queue/G", "A3 A4")
    got = group.collect(2)
    assert group.told(got) == {"a": "A1", "b": "B1"}
    group.ack("b", got["b"])  # it could take A3, which waits for its group
    group.ack("a", got["a"])
    assert group.texts(2) == {"a": "A2", "b": "A3"}


def test_a_group_begins_anew_with_sequence_1(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker()
    group = consumers(open_client, address, a={}, b={})
    group.subscribe("/queue/G")
    sender = open_client(address)
    sender.publish("/queue/G", "A1", JMSXGroupID="A", JMSXGroupSeq="1")
    sender.publish("/queue/G", "A2", JMSXGroupID="A", JMSXGroupSeq="2")
    sender.publish("/queue/G", "A1", JMSXGroupID="A", JMSXGroupSeq="1")
    sender.publish("/queue/G", "A2", JMSXGroupID="A", JMSXGroupSeq="2")
    assert group.texts(4) == {"a": "A1 A2", "b": "A1 A2"}


def test_the_groups_of_who_leaves_go_to_others_in_their_order(
    start_broker: StartBroker, open_client: OpenClient, store: PersistenceAdapter
) -> None:
    address = start_broker(store)
    group = consumers(open_client, address, a={"activemq.prefetchSize": "3"}, b={})
    group.subscribe("/queue/G")
    sender = open_client(address)
    send_group(sender, "/queue/G", "A1 B1 A2 A3 A4 A5")
    assert group.texts(4) == {"a": "A1 A2 A3", "b": "B1"}
    group.drop("a")
    got = group.collect(5)
    assert group.told(got) == {"b": "A1 A2 A3 A4 A5"}
    assert [message.headers.get("JMSXGroupFirstForConsumer") for message in got["b"]] == ["true"] + [None] * 4


def test_what_a_transaction_of_who_left_has_goes_first(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker()
    group = consumers(open_client, address, a={"activemq.prefetchSize": "1"}, b={})
    group.subscribe("/queue/G")
    sender = open_client(address)
    send_group(sender, "/queue/G", "A1 A2")
    sender.publish("/queue/G", "x")
    got = group.collect(2)
    assert group.told(got) == {"a": "A1", "b": "x"}
    a = group.clients["a"]
    a.done("BEGIN", {"transaction": "t"})
    a.done("ACK", {**a.named(got["a"][0]), "transaction": "t"})
    assert a.message().text == "A2"
    a.done("UNSUBSCRIBE", {"id": "1"})
    assert group.clients["b"].is_silent()  # nobody knows yet whether A1 comes again
    a.done("ABORT", {"transaction": "t"})
    assert [group.clients["b"].message().text for _ in range(2)] == ["A1", "A2"]


def test_a_delay_before_a_redelivery_holds_up_its_group_only(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    for delay_ms in (3_600_000, 300):
        address = start_broker(redelivery=[RedeliveryPolicy(initial_redelivery_delay_ms=delay_ms)])
        group = consumers(open_client, address, a={"activemq.prefetchSize": "1"}, b={})
        group.subscribe("/queue/G")
        sender = open_client(address)
        send_group(sender, "/queue/G", "A1 B1 A2 B2")
        assert group.texts(3) == {"a": "A1", "b": "B1 B2"}
        group.drop("a")
        if delay_ms > 1000:
            send_group(sender, "/queue/G", "B3")
            assert group.texts(1) == {"b": "B3"}
            assert group.clients["b"].is_silent()
        else:
            assert group.texts(2) == {"b": "A1 A2"}


def test_who_has_seen_a_message_before_does_not_get_it_while_it_waits(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    address = start_broker(redelivery=[RedeliveryPolicy(initial_redelivery_delay_ms=3_600_000)])
    one = {"activemq.prefetchSize": "1"}
    group = consumers(open_client, address, a=one, red={"selector": "colour = 'red'", **one})
    sender = open_client(address)
    group.subscribe("/queue/G", "red")
    sender.publish("/queue/G", "1", colour="red")
    got = group.collect(1)
    group.subscribe("/queue/G", "a")
    sender.publish("/queue/G", "2", colour="red")
    assert group.texts(1) == {"a": "2", "red": ""}
    group.drop("a")
    group.ack("red", got["red"])
    sender.publish("/queue/G", "3", colour="red")
    assert group.texts(1) == {"red": "3"}


def test_groups_with_selectors(start_broker: StartBroker, open_client: OpenClient, store: PersistenceAdapter) -> None:
    address = start_broker(store, window_messages_max=10, page_messages_max=5)
    few = {"activemq.prefetchSize": "4"}
    red, blue = {"selector": "colour = 'red'", **few}, {"selector": "colour = 'blue'", **few}
    group = consumers(open_client, address, red1=red, blue=blue, red2=red, any=few)
    group.subscribe("/queue/G")
    sender = open_client(address)
    for number in range(40):
        for colour in ("red", "blue"):
            headers = {"destination": "/queue/G", "persistent": "true", "colour": colour}
            name = f"{colour}{number % 4}"
            sender.send("SEND", {**headers, "JMSXGroupID": name}, f"{name}.{number}")
    every: dict[str, list[Frame]] = {name: [] for name in group.clients}
    while sum(map(len, every.values())) < 80:
        for name, messages in group.collect(1).items():
            every[name] += messages
            group.ack(name, messages)
    owners = {name: {message.headers["JMSXGroupID"] for message in messages} for name, messages in every.items()}
    groups = [f"{colour}{number}" for colour in ("blue", "red") for number in range(4)]
    assert sorted(of for owned in owners.values() for of in owned) == groups
    assert all(owners.values())
    assert {of[:3] for of in owners["red1"] | owners["red2"]} == {"red"}
    assert {of[:4] for of in owners["blue"]} == {"blue"}
    for messages in every.values():
        assert_in_order(messages)


def test_groups_with_priorities(start_broker: StartBroker, open_client: OpenClient, store: PersistenceAdapter) -> None:
    address = start_broker(
        store, policies=[DestinationPolicy(prioritized_messages=True)], window_messages_max=10, page_messages_max=5
    )
    sender = open_client(address)
    for number in range(60):
        send_group(sender, "/queue/G", f"{'ABC'[number % 3]}{number}", priority=str(number % 3 * 4))
    group = consumers(open_client, address, a={}, b={})
    group.subscribe("/queue/G")
    got = group.collect(60)
    assert_in_order([message for messages in got.values() for message in messages])
    assert {message.text[0] for message in got["a"]}.isdisjoint(message.text[0] for message in got["b"])
    for messages in got.values():
        priorities = [int(message.headers["priority"]) for message in messages]
        assert priorities == sorted(priorities, reverse=True)


def test_a_backlog_longer_than_memory_keeps_its_order(
    start_broker: StartBroker, open_client: OpenClient, store: PersistenceAdapter
) -> None:
    address = start_broker(store, window_messages_max=10, page_messages_max=5)
    sender = open_client(address)
    send_group(sender, "/queue/G", " ".join(f"A{number}" for number in range(8)))
    send_group(sender, "/queue/G", " ".join(f"B{number} A{number}" for number in range(8, 16)))
    group = consumers(open_client, address, a={"activemq.prefetchSize": "1"}, b={})
    group.subscribe("/queue/G")
    every: list[Frame] = []
    while len(every) < 24:
        for name, messages in group.collect(1).items():
            assert all(message.text.startswith(name.upper()) for message in messages)
            every += messages
            group.ack(name, messages)
    assert_in_order(every)


@pytest.mark.parametrize(("kind", "groups_max"), [("simple", 1), ("bucket", 3), ("cached", 3)])
def test_many_groups_keep_their_order_whatever_is_remembered(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], kind: str, groups_max: int
) -> None:
    address = start_broker(policies=[DestinationPolicy(message_group_map=kind, message_groups_max=groups_max)])
    few = {"activemq.prefetchSize": "4"}
    group = consumers(open_client, address, a=few, b=few, c=few)
    group.subscribe("/queue/G")
    sender = open_client(address)
    for number in range(300):
        send_group(sender, "/queue/G", f"G{number * 7 % 30}.{number}", receipt=number == 299)
    held: dict[str, str] = {}
    seen: list[str] = []
    while len(seen) < 300:
        for name, messages in group.collect(1).items():
            for message in messages:
                of = message.text.partition(".")[0]
                assert held.setdefault(of, name) == name, "two consumers have messages of one group"
                seen.append(message.text)
            group.ack(name, messages)
            for message in messages:
                held.pop(message.text.partition(".")[0], None)
    for which in range(30):
        numbers = [int(text.partition(".")[2]) for text in seen if text.startswith(f"G{which}.")]
        assert numbers == sorted(numbers)
    queue = next(iter(brokers[0].queues.values()))
    assert queue.groups is not None
    assert len(queue.groups) <= {"simple": 30, "bucket": 3, "cached": 3 + 12}[kind]


def test_an_exclusive_consumer_gets_all_groups(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker()
    group = consumers(open_client, address, a={}, b={"activemq.exclusive": "true"})
    group.subscribe("/queue/G", "a")
    sender = open_client(address)
    send_group(sender, "/queue/G", "A1")
    got = group.collect(1)
    group.subscribe("/queue/G", "b")
    send_group(sender, "/queue/G", "B1")
    assert group.texts(1) == {"a": "", "b": "B1"}
    send_group(sender, "/queue/G", "A2")
    assert group.clients["b"].is_silent()  # a has A1 still
    group.ack("a", got["a"])
    assert group.texts(1) == {"a": "", "b": "A2"}
    group.drop("b")
    assert group.texts(2) == {"a": "B1 A2"}


def test_consumers_of_a_higher_priority_go_first(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker()
    two = {"activemq.prefetchSize": "2"}
    group = consumers(
        open_client,
        address,
        low={"activemq.priority": "-1"},
        high={"activemq.priority": "5", **two},
        high2={"activemq.priority": "5", **two},
    )
    group.subscribe("/queue/P")
    sender = open_client(address)
    for number in range(7):
        sender.publish("/queue/P", str(number))
    got = group.collect(7)
    assert group.told(got) == {"low": "4 5 6", "high": "0 2", "high2": "1 3"}
    group.ack("high", got["high"][:1])
    sender.publish("/queue/P", "7")
    assert group.texts(1) == {"low": "", "high": "7", "high2": ""}
    group.drop("high")
    group.drop("high2")
    assert sorted(group.texts(4)["low"].split()) == ["1", "2", "3", "7"]


def test_priorities_of_consumers_may_be_turned_off(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(policies=[DestinationPolicy(use_consumer_priority=False)])
    group = consumers(open_client, address, low={}, high={"activemq.priority": "5"})
    group.subscribe("/queue/P")
    sender = open_client(address)
    for number in range(4):
        sender.publish("/queue/P", str(number))
    assert group.texts(4) == {"low": "0 2", "high": "1 3"}


def test_strict_order_fills_one_consumer_before_the_next(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(policies=[DestinationPolicy(strict_order_dispatch=True)])
    group = consumers(open_client, address, a={"activemq.prefetchSize": "2"}, b={})
    group.subscribe("/queue/P")
    sender = open_client(address)
    for number in range(4):
        sender.publish("/queue/P", str(number))
    got = group.collect(4)
    assert group.told(got) == {"a": "0 1", "b": "2 3"}
    group.ack("a", got["a"])
    sender.publish("/queue/P", "4")
    assert group.texts(1) == {"a": "4", "b": ""}


def test_of_exclusive_consumers_the_one_of_the_highest_priority_has_the_queue(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    address = start_broker()
    exclusive = {"activemq.exclusive": "true"}
    group = consumers(open_client, address, a=exclusive, b={**exclusive, "activemq.priority": "1"})
    group.subscribe("/queue/P")
    open_client(address).publish("/queue/P", "x")
    assert group.texts(1) == {"a": "", "b": "x"}


def test_a_prefetch_of_0_is_an_error(client: Client) -> None:
    headers = {"destination": "/queue/P", "id": "1", "activemq.prefetchSize": "0"}
    answer = client.request("SUBSCRIBE", headers)
    assert (answer.command, answer.headers["message"]) == ("ERROR", "Invalid activemq.prefetchSize header:0")
    client.subscribe("/queue/P", activemq_prefetchSize="1")


@pytest.mark.parametrize("priority", ["128", "-129", "x", "1.5", ""])
def test_a_priority_that_is_none_is_an_error(client: Client, priority: str) -> None:
    headers = {"destination": "/queue/P", "id": "1", "activemq.priority": priority}
    assert "activemq.priority" in client.request("SUBSCRIBE", headers).headers["message"]
    client.subscribe("/queue/P", activemq_priority="127")


def assert_in_order(messages: list[Frame]) -> None:
    """Those of each group."""
    last: dict[str, int] = {}
    for message in messages:
        number = int("".join(filter(str.isdigit, message.text.rpartition(".")[2])))
        assert last.get(message.headers["JMSXGroupID"], -1) < number, message.text
        last[message.headers["JMSXGroupID"]] = number
