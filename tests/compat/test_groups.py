"""Message groups and consumers with priorities: one script, a real ActiveMQ and us, the same results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.client import Address, Client, Frame
from tests.broker.groups import ConsumerGroup, send_group

pytestmark = pytest.mark.timeout(200)

Told = list[dict[str, str]]
FEW = {"activemq.prefetchSize": "2"}


def opened(address: Address) -> Client:
    client = Client(address)
    assert client.connect().command == "CONNECTED"
    return client


def groups_begin_end_and_move(group: ConsumerGroup, sender: Client, queue: str) -> Told:
    group.subscribe(queue)
    told = [group.given(sender, queue, "A1 B1 C1 D1 A2 D2 B2 A3 C2")]
    sender.publish(queue, "A4", JMSXGroupID="A", JMSXGroupSeq="-1")
    told.append(group.texts(1))
    told.append(group.given(sender, queue, "A5"))
    sender.publish(queue, "D3", JMSXGroupID="D", JMSXGroupSeq="1")
    told.append(group.texts(1))
    group.drop("a")
    told.append(group.texts(6))
    told.append(group.given(sender, queue, "A6 B3 C3 D4 E1 F1"))
    return told


def a_full_consumer_keeps_its_groups(group: ConsumerGroup, sender: Client, queue: str) -> Told:
    group.subscribe(queue)
    send_group(sender, queue, "A1 A2 A3 A4 B1 B2 B3 C1")
    sender.publish(queue, "x")
    got = group.collect(6)
    told = [group.told(got)]
    for name in ("b", "a"):
        group.ack(name, got[name][:1])
        told.append(group.texts(1))
    return told


def priorities_go_first(group: ConsumerGroup, sender: Client, queue: str) -> Told:
    group.subscribe(queue)
    got: dict[str, list[Frame]] = {name: [] for name in group.clients}
    for number in range(7):  # as many as they take; each when the one before has come, as `ConsumerGroup.given` says
        sender.publish(queue, str(number))
        for name, messages in group.collect(1).items():
            got[name] += messages
    for number in range(7, 9):
        sender.publish(queue, str(number))
    told = [group.told(got)]
    group.ack("b", got["b"][:1])
    told.append(group.texts(1))
    return told


def priorities_come_before_the_number_of_groups(group: ConsumerGroup, sender: Client, queue: str) -> Told:
    group.subscribe(queue)
    told = [group.given(sender, queue, "A1 B1 C1 D1")]
    send_group(sender, queue, "A2 E1 B2")
    return [*told, group.texts(1)]  # those of A and B wait for b and c


@pytest.mark.parametrize(
    ("script", "headers"),
    [
        (groups_begin_end_and_move, {"a": {}, "b": {}, "c": {}}),
        (a_full_consumer_keeps_its_groups, {"a": FEW, "b": FEW, "c": FEW}),
        (
            priorities_go_first,
            {
                "a": {"activemq.priority": "1", "activemq.prefetchSize": "3"},
                "b": {"activemq.priority": "5", **FEW},
                "c": {"activemq.priority": "5", **FEW},
            },
        ),
        (
            priorities_come_before_the_number_of_groups,
            {"a": {}, "b": {"activemq.priority": "3", **FEW}, "c": {"activemq.priority": "3", **FEW}},
        ),
        (
            priorities_go_first,
            {
                "a": {"activemq.prefetchSize": "3"},
                "b": {"activemq.exclusive": "true", "activemq.prefetchSize": "7"},
                "c": {"activemq.exclusive": "true"},
            },
        ),
    ],
)
def test_both_brokers_give_everybody_the_same(
    theirs: Address,
    ours: Address,
    script: Callable[[ConsumerGroup, Client, str], Told],
    headers: dict[str, dict[str, str]],
    tmp_path: Path,
) -> None:
    results = []
    for address in (theirs, ours):
        clients = {name: opened(address) for name in [*headers, "sender"]}
        sender = clients.pop("sender")
        try:
            group = ConsumerGroup(dict(clients), headers)
            results.append(script(group, sender, f"/queue/G.{script.__name__}.{len(headers['a'])}"))
        finally:
            for client in [*clients.values(), sender]:
                client.drop()
    assert results[0] == results[1]


def test_both_refuse_a_nack_in_a_transaction_and_go_on(theirs: Address, ours: Address) -> None:
    for address in (theirs, ours):
        client = opened(address)
        client.publish("/queue/N", "x")
        client.subscribe("/queue/N", "client-individual")
        message = client.message()
        client.done("BEGIN", {"transaction": "t"})
        assert client.request("NACK", {**client.named(message), "transaction": "t"}).command == "ERROR"
        client.done("COMMIT", {"transaction": "t"})
        client.drop()


def test_with_a_prefetch_of_0_neither_sends_a_message(theirs: Address, ours: Address) -> None:
    """ActiveMQ takes the subscription, which never gets anything; ours says so."""
    for address, answer in ((theirs, "RECEIPT"), (ours, "ERROR")):
        client = opened(address)
        client.publish("/queue/P0", "x")
        headers = {"destination": "/queue/P0", "id": "1", "activemq.prefetchSize": "0"}
        assert client.request("SUBSCRIBE", headers).command == answer
        assert client.is_silent()
        client.drop()
