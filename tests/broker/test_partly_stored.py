"""A Java broker stores a message for several queues in one after the other. If it is killed in between, its client
sends the message again, to a broker of ours: the queues that lack it get it, the others do not have it twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.broker.virtual_destinations import CompositeDestination, ForwardTo, VirtualDestinations
from jdbcstore.config.urls import open_spool
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import TextMessage
from jdbcstore.openwire import commands as c
from jdbcstore.store.contract import Commit
from tests.broker.client import Address
from tests.broker.openwire_client import OpenWireClient

WAIT_S = 30
NAME = "ID:again"
PRODUCER = ProducerId(NAME, 1, 1)


class Case(NamedTuple):
    """Where it is sent, and the queues that get it."""

    target: Destination
    queues: tuple[Queue, Queue]


COMPOSITE = Case(Queue("A,B"), (Queue("A"), Queue("B")))
VIRTUAL = Case(Topic("VirtualTopic.T"), (Queue("Consumer.a.VirtualTopic.T"), Queue("Consumer.b.VirtualTopic.T")))
DECLARED = Case(Queue("DECLARED"), (Queue("A"), Queue("B")))
cases = pytest.mark.parametrize("case", [COMPOSITE, VIRTUAL, DECLARED], ids=["composite", "virtual topic", "declared"])


def message(destination: Destination, number: int) -> TextMessage:
    sent = TextMessage(
        producer_id=PRODUCER, destination=destination, message_id=MessageId(PRODUCER, number), persistent=True
    )
    sent.text = str(number)
    return sent


def stored(url: str, queues: Sequence[Queue], number: int, *, lacking: Sequence[Queue], is_whole: bool = False) -> None:
    """A broker has stored a message for these queues; some do not have it: not yet or, if it is whole, not any more."""
    with open_store(url) as adapter:
        for queue in queues:
            store = adapter.queue_message_store(queue)
            if queue not in lacking:
                store.add_message(message(queue, number)).result(WAIT_S)
        if is_whole:
            adapter.commit_together(Commit(producers={PRODUCER: number})).result(WAIT_S)


def sent_again(address: Address, target: Destination, *numbers: int) -> None:
    with OpenWireClient(address, NAME, is_fault_tolerant=True, is_reconnected=True) as client:
        for number in numbers:
            assert type(client.ask(message(target, number))) is c.Response


def left(address: Address, queues: Sequence[Queue]) -> list[list[str | None]]:
    found: list[list[str | None]] = []
    with OpenWireClient(address) as client:
        for number, queue in enumerate(queues):
            client.send(queue, "last")
            client.subscribe(queue, 100, number=number)
            found.append([])
            while (text := client.text()) != "last":
                found[-1].append(text)
    return found


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A fresh database."""
    return f"sqlite:///{tmp_path}/store.db"


def served(url: str) -> Broker:
    forward_to = tuple(ForwardTo(destination=queue) for queue in DECLARED.queues)
    declared = VirtualDestinations(composites=(CompositeDestination(name=DECLARED.target, forward_to=forward_to),))
    options = BrokerOptions(bind="openwire://127.0.0.1:0")
    return Broker(open_store(url), options, open_spool, virtual_destinations=declared)


@cases
@pytest.mark.parametrize("lacks", [0, 1])
def test_the_rest_of_it_is_stored(url: str, case: Case, lacks: int) -> None:
    stored(url, case.queues, 5, lacking=[case.queues[lacks]])
    with running(served(url)) as address:
        sent_again(address, case.target, 5, 5, 6)
        assert left(address, case.queues) == [["5", "6"]] * 2


@cases
def test_it_was_stored_in_one_that_does_not_have_it_any_more(url: str, case: Case) -> None:
    """It has become a dead letter, or was consumed since the broker has asked how far its producer came."""
    stored(url, [*case.queues, Queue("ActiveMQ.DLQ")], 5, lacking=case.queues)
    with running(served(url)) as address:
        sent_again(address, case.target, 5, 6)
        assert left(address, case.queues) == [["5", "6"]] * 2


@cases
def test_all_of_it_is_there(url: str, case: Case) -> None:
    stored(url, case.queues, 5, lacking=[])
    with running(served(url)) as address:
        sent_again(address, case.target, 5)
        assert left(address, case.queues) == [["5"]] * 2


@cases
def test_what_a_broker_of_ours_has_stored_was_consumed(url: str, case: Case) -> None:
    stored(url, case.queues, 5, lacking=[case.queues[0]], is_whole=True)
    with running(served(url)) as address:
        sent_again(address, case.target, 5)
        assert left(address, case.queues) == [[], ["5"]]


@cases
def test_what_is_before_the_last_one_was_stored_in_all_of_them(url: str, case: Case) -> None:
    stored(url, case.queues, 4, lacking=[case.queues[0]])
    stored(url, case.queues, 5, lacking=[])
    with running(served(url)) as address:
        sent_again(address, case.target, 4, 5)
        assert left(address, case.queues) == [["5"], ["4", "5"]]
