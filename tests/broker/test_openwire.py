"""OpenWire clients, well-behaved and not. What JMS clients see is the business of `tests/compat/test_jms.py`."""

from __future__ import annotations

import logging
import struct
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.destination import Destination, Queue, TempQueue, Topic
from jdbcstore.errors import (
    JdbcStoreError,
    LeaseLost,
    OutcomeUnknown,
    ProtocolError,
    StoreUnavailable,
    TransientStoreError,
    UnknownTransaction,
)
from jdbcstore.identifiers import BrokerId, ConnectionId, LocalTransactionId, MessageId, ProducerId, XATransactionId
from jdbcstore.message import TextMessage
from jdbcstore.openwire import commands as c
from jdbcstore.primitives import Long
from jdbcstore.selector.selector import CONVERT_STRINGS
from jdbcstore.store.contract import SupportsScheduling, SupportsTransactions
from jdbcstore.transport.openwire.transactions import xa_throwable_of
from tests.broker.client import Address
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient
from tests.broker_process import BrokerProcess
from tests.servers.server import free_port
from tests.waiting import wait_until

A = Queue("A")


@pytest.fixture
def address(start_broker: StartBroker) -> Address:
    """A broker for OpenWire clients."""
    return start_broker(bind="openwire://127.0.0.1:0")


def error_of(answer: object) -> tuple[str | None, str]:
    """Class and text of an exception."""
    assert isinstance(answer, c.ExceptionResponse | c.ConnectionError)
    assert answer.exception is not None
    return answer.exception.class_name, answer.exception.message or ""


def test_a_pull_is_answered_with_a_message_or_with_none(address: Address) -> None:
    with OpenWireClient(address) as client:
        client.subscribe(A, prefetch=0)
        pull = c.MessagePull(consumer_id=client.consumer_id(), destination=A, timeout=-1)
        client.ask(pull)
        assert client.text() is None
        client.send(A, "one")
        client.send(A, "two")
        client.ask(pull)
        one = client.dispatch()
        client.acknowledge(one, one)
        client.ask(c.SessionInfo(session_id=client.session_id))
        assert not client.came  # the acknowledgement of a pulled message brings no other one
        client.ask(c.MessagePull(consumer_id=client.consumer_id(), destination=A, timeout=20))
        assert client.text() == "two"
        client.ask(c.MessagePull(consumer_id=client.consumer_id(), destination=A, timeout=20))
        assert client.text() is None
        client.ask(c.MessagePull(consumer_id=client.consumer_id(), destination=A, timeout=0))
        client.send(A, "three")
        assert client.text() == "three"


def test_a_connection_has_no_more_producers_than_it_may(start_broker: StartBroker) -> None:
    with OpenWireClient(start_broker(bind="openwire://127.0.0.1:0", producers_max=3)) as client:

        def made(number: int, destination: Destination | None = A) -> c.Response:
            return client.ask(
                c.ProducerInfo(producer_id=ProducerId(client.name, number, 1), destination=destination, window_size=0)
            )

        assert type(made(2)) is c.Response  # the client has made its first one already
        assert type(made(3, None)) is c.Response
        assert error_of(made(4))[0] == "javax.jms.JMSException"
        assert "producers_max is 3" in error_of(made(4, None))[1]
        assert type(made(5, Topic("ActiveMQ.Advisory.X"))) is c.Response
        client.ask(c.RemoveInfo(object_id=ProducerId(client.name, 3, 1)))
        client.ask(c.RemoveInfo(object_id=ProducerId(client.name, 5, 1)))
        assert type(made(4)) is c.Response


def test_pulls_that_come_together_are_answered_one_by_one(address: Address) -> None:
    with OpenWireClient(address) as client:
        for number in range(5):
            client.send(A, str(number))
        client.subscribe(A, prefetch=0)
        for _ in range(5):
            client.write(c.MessagePull(consumer_id=client.consumer_id(), destination=A, timeout=0))
        assert [client.text() for _ in range(5)] == ["0", "1", "2", "3", "4"]


def test_a_pull_whose_message_is_suppressed_as_a_duplicate_still_waits(address: Address) -> None:
    """After a failover Java's client does so with what its connection has had, and asks for no other one."""
    with OpenWireClient(address) as client:
        client.subscribe(A, prefetch=0)
        for text in ("one", "two", "three", "four"):
            client.send(A, text)

        def refuse(dispatch: c.MessageDispatch, cause: str) -> None:
            assert dispatch.message is not None
            ack = c.MessageAck(
                destination=A,
                consumer_id=client.consumer_id(),
                ack_type=c.ACK_POISON,
                first_message_id=dispatch.message.message_id,
                last_message_id=dispatch.message.message_id,
                message_count=1,
                poison_cause=c.Throwable(class_name="java.lang.Throwable", message=cause),
            )
            client.ask(ack)

        suppressed = f"Suppressing duplicate delivery on connection, consumer {client.consumer_id()}"
        client.ask(c.MessagePull(consumer_id=client.consumer_id(), destination=A, timeout=0))
        refuse(client.dispatch(), suppressed)
        two = client.dispatch()
        client.acknowledge(two, two)
        client.ask(c.MessagePull(consumer_id=client.consumer_id(), destination=A, timeout=0))
        refuse(client.dispatch(), "Exceeded redelivery policy limit")  # its client asks again by itself
        client.ask(c.SessionInfo(session_id=client.session_id))
        assert not client.came
        client.ask(c.MessagePull(consumer_id=client.consumer_id(), destination=A, timeout=100))
        refuse(client.dispatch(), suppressed)
        assert client.text() is None


@pytest.mark.parametrize("kind", [Queue, Topic])
@pytest.mark.parametrize("name", ["A,A", "A,", ",A", "A,,A"])
def test_a_composite_of_one_destination_is_that_destination(
    address: Address, kind: type[Queue] | type[Topic], name: str
) -> None:
    with OpenWireClient(address) as client:
        client.subscribe(kind("A"))
        client.send(kind(name), "x")
        message = client.dispatch().message
        assert message is not None
        assert (message.destination, message.original_destination) == (kind("A"), kind(name))


@pytest.mark.parametrize("kind", [Queue, Topic])
def test_a_composite_of_nothing_is_refused(address: Address, kind: type[Queue] | type[Topic]) -> None:
    with OpenWireClient(address) as client:
        for answer in (client.send(kind(", ,"), "x"), client.subscribe(kind(","), number=2)):
            assert error_of(answer)[1].endswith("nothing stands between its commas")
        client.subscribe(A)
        client.send(A, "the connection goes on")
        assert client.text() == "the connection goes on"


def test_a_changed_prefetch_counts_at_once(address: Address) -> None:
    with OpenWireClient(address) as client:
        client.subscribe(A, prefetch=0)
        for text in "abcd":
            client.send(A, text)
        client.ask(c.ConsumerControl(consumer_id=client.consumer_id(), destination=A, prefetch=3))
        assert [client.text() for _ in range(3)] == ["a", "b", "c"]
        client.ask(c.ConsumerControl(consumer_id=client.consumer_id(), destination=A, prefetch=4))
        assert client.text() == "d"


#: What clients ask for that were told nothing else.
QUEUE_PREFETCH = 1000


def test_a_client_is_told_that_its_policy_has_it_ask_for_each_message(start_broker: StartBroker) -> None:
    policies = [DestinationPolicy(queue_prefetch=0)]
    with OpenWireClient(start_broker(bind="openwire://127.0.0.1:0", policies=policies)) as client:
        client.subscribe(A, prefetch=QUEUE_PREFETCH)
        told = client.came.pop()  # before the answer, behind which it might receive
        assert isinstance(told, c.ConsumerControl)
        assert (told.consumer_id, told.prefetch) == (client.consumer_id(), 0)
        client.send(A, "one")
        assert not client.came
        client.ask(c.MessagePull(consumer_id=client.consumer_id(), destination=A, timeout=0))
        assert client.text() == "one"


def test_a_client_that_cannot_ask_for_messages_gets_one_at_a_time(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    client = open_client(start_broker(policies=[DestinationPolicy(queue_prefetch=0)]))
    client.subscribe("/queue/A", ack="client")
    client.publish("/queue/A", b"one")
    assert client.message().body == b"one"


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_client_that_goes_back_to_the_usual_prefetch_gets_that_of_its_policy(
    start_broker: StartBroker, prefetch: int
) -> None:
    """As one does after each failover."""
    policies = [DestinationPolicy(queue_prefetch=prefetch)]
    with OpenWireClient(start_broker(bind="openwire://127.0.0.1:0", policies=policies)) as client:
        client.subscribe(A, prefetch=0)
        for text in "abcd":
            client.send(A, text)
        assert not client.came
        control = c.ConsumerControl(consumer_id=client.consumer_id(), destination=A, prefetch=QUEUE_PREFETCH)
        client.ask(control)
        client.ask(c.SessionInfo(session_id=client.session_id))
        told = [one.prefetch for one in client.came if isinstance(one, c.ConsumerControl)]
        assert told == ([0] if prefetch == 0 else [])
        assert sum(isinstance(one, c.MessageDispatch) for one in client.came) == prefetch


def test_what_the_application_has_makes_room_for_more_until_it_is_acknowledged(address: Address) -> None:
    with OpenWireClient(address) as client:
        client.subscribe(A, prefetch=1)
        for text in "abc":
            client.send(A, text)
        first = client.dispatch()
        client.acknowledge(first, first, c.ACK_DELIVERED)
        second = client.dispatch()
        client.acknowledge(first, second, c.ACK_STANDARD, count=2)
        third = client.dispatch()
        assert isinstance(third.message, TextMessage)
        assert third.message.text == "c"
        client.acknowledge(third, third)
        client.send(A, "d")
        client.send(A, "e")
        assert client.text() == "d"
        client.ask(c.SessionInfo(session_id=client.session_id))
        assert not client.came  # one at a time, as in the beginning


def test_a_range_that_does_not_begin_with_the_oldest_leaves_what_is_before_it(address: Address) -> None:
    with OpenWireClient(address) as client:
        client.subscribe(A)
        for text in "abcd":
            client.send(A, text)
        sent = [client.dispatch() for _ in range(4)]
        client.acknowledge(sent[1], sent[2], count=2)
        client.ask(c.RemoveInfo(object_id=client.consumer_id()))
        client.subscribe(A, number=2)
        again = [client.dispatch() for _ in range(2)]
        assert [(d.message.text, d.redelivery_counter) for d in again if isinstance(d.message, TextMessage)] == [
            ("a", 1),
            ("d", 1),
        ]


@pytest.mark.parametrize(("last", "counts"), [(-2, [1, 1, 1]), (-1, [0, 0, 0]), (1, [1, 1, 0])])
def test_only_what_the_application_has_seen_counts_as_redelivered(
    address: Address, last: int, counts: list[int]
) -> None:
    """`last` is -2 (unknown), -1 (none), or which of them was the last one that it has seen."""
    with OpenWireClient(address) as client:
        client.subscribe(A)
        for text in "abc":
            client.send(A, text, persistent=text == "b")
        sent = [client.dispatch() for _ in range(3)]
        if last >= 0:
            message = sent[last].message
            assert message is not None
            assert message.message_id is not None
            last = message.message_id.broker_sequence_id
        client.ask(c.RemoveInfo(object_id=client.session_id, last_delivered_sequence_id=last))
        client.ask(c.SessionInfo(session_id=client.session_id))
        client.subscribe(A, number=2)
        again = [client.dispatch() for _ in range(3)]
        assert [dispatch.redelivery_counter for dispatch in again] == counts
        assert [dispatch.message.redelivery_counter for dispatch in again if dispatch.message is not None] == counts


def test_what_a_durable_subscriber_has_seen_counts_also_if_it_has_acknowledged_what_came_behind(
    address: Address,
) -> None:
    name, topic = "ID:gaps", Topic("GAPS")
    with OpenWireClient(address, name) as client:
        client.subscribe(topic, subscription_name="news")
        for text in "abcd":
            client.send(topic, text)
        sent = [client.dispatch() for _ in range(4)]
        third = sent[2].message
        assert third is not None
        assert third.message_id is not None
        client.acknowledge(sent[2], sent[2], c.ACK_INDIVIDUAL)
        last = third.message_id.broker_sequence_id
        client.ask(c.RemoveInfo(object_id=client.consumer_id(), last_delivered_sequence_id=last))
        client.subscribe(topic, number=2, subscription_name="news")
        again = [client.dispatch() for _ in range(3)]
    assert [(one.message.text, one.redelivery_counter) for one in again if isinstance(one.message, TextMessage)] == [
        ("a", 1),
        ("b", 1),
        ("d", 0),
    ]


def test_a_poison_acknowledgement_makes_a_dead_letter_that_tells_why(address: Address) -> None:
    with OpenWireClient(address) as client:
        client.subscribe(A)
        client.send(A, "bad")
        bad = client.dispatch()
        assert bad.message is not None
        client.ask(
            c.MessageAck(
                destination=A,
                consumer_id=client.consumer_id(),
                ack_type=c.ACK_POISON,
                first_message_id=bad.message.message_id,
                last_message_id=bad.message.message_id,
                message_count=1,
                poison_cause=c.Throwable(class_name="java.lang.Exception", message="no"),
            )
        )
        client.subscribe(Queue("ActiveMQ.DLQ"), number=2)
        letter = client.dispatch().message
        assert letter is not None
        assert letter.properties["dlqDeliveryFailureCause"] == "java.lang.Exception: no"


def test_all_that_a_client_refused_with_its_last_word_are_dead_letters(address: Address) -> None:
    count = 1000  # more than what is refused before others have their turn
    with OpenWireClient(address) as client:
        client.subscribe(A, prefetch=count)
        for _ in range(count):
            client.write(client.message(A, "bad"))
        first, *_, last = [client.dispatch().message for _ in range(count)]
        assert first is not None
        assert last is not None
        client.write(
            c.MessageAck(
                destination=A,
                consumer_id=client.consumer_id(),
                ack_type=c.ACK_POISON,
                first_message_id=first.message_id,
                last_message_id=last.message_id,
                message_count=count,
            )
        )
    with OpenWireClient(address) as client:
        client.subscribe(Queue("A,ActiveMQ.DLQ"), prefetch=count)
        letters = [client.dispatch().message for _ in range(count)]
        assert all(letter is not None and letter.destination == Queue("ActiveMQ.DLQ") for letter in letters)


def test_the_same_message_of_two_destinations_is_two_deliveries_also_after_a_rollback(address: Address) -> None:
    """The second one comes under the name of the first, while that is acknowledged in a transaction."""
    every, transaction_id = Queue("A.>"), LocalTransactionId(1, ConnectionId("ID:two"))
    with OpenWireClient(address, "ID:two") as client:
        for destination in (Queue("A.1"), Queue("A.2")):  # a wildcard finds what is there
            client.send(destination, "before")
        client.subscribe(every)
        for _ in range(2):
            before = client.dispatch()
            client.acknowledge(before, before)
        client.ask(c.RemoveInfo(object_id=client.consumer_id()))
        client.subscribe(every, prefetch=1, number=2)
        client.send(Queue("A.1,A.2"), "both")
        step = c.TransactionInfo(connection_id=ConnectionId("ID:two"), transaction_id=transaction_id)
        client.ask(replace(step, type=0))
        first = client.dispatch()
        client.acknowledge(first, first, transaction_id=transaction_id)
        client.dispatch()
        client.ask(replace(step, type=4))
        client.ask(c.RemoveInfo(object_id=client.consumer_id(2)))
        client.subscribe(every, number=3)
        assert [client.text() for _ in range(2)] == ["both", "both"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LeaseLost("x"), -7),
        (OutcomeUnknown("x"), -7),
        (StoreUnavailable("x"), -7),
        (TransientStoreError("x"), -7),
        (UnknownTransaction("x"), -4),
        (ProtocolError("x"), -3),
    ],
)
def test_what_decides_nothing_is_no_rollback_to_a_transaction_manager(error: JdbcStoreError, code: int) -> None:
    message = xa_throwable_of(error).message
    assert message is not None
    assert message.endswith(f" xaErrorCode:{code}")


def test_an_error_about_something_very_long_is_told(address: Address) -> None:
    with OpenWireClient(address) as client:
        asked = c.ConsumerInfo(command_id=77, response_required=True, consumer_id=client.consumer_id(), destination=A)
        client.write(replace(asked, selector=f"{'x' * 60_000} ="))
        kind, text = error_of(client.next())
        assert kind == "javax.jms.InvalidSelectorException"
        assert text
        client.send(A, "goes on")


def test_a_connection_that_comes_back_ends_what_is_left_of_its_last_one(address: Address) -> None:
    with OpenWireClient(address, "ID:same") as left_over:
        left_over.subscribe(A)
        left_over.send(A, "x")
        assert left_over.text() == "x"
        with OpenWireClient(address, "ID:same", is_reconnected=True) as client:
            client.subscribe(A)
            again = client.dispatch()
            assert again.redelivery_counter == 1
            assert left_over.read() is None
            lost = c.MessageAck(destination=A, consumer_id=client.consumer_id(7), ack_type=c.ACK_DELIVERED)
            assert type(client.ask(lost)) is c.Response  # of the former life: nothing to complain of


def scheduled_in(client: OpenWireClient, xid: XATransactionId, text: str, *, persistent: bool) -> None:
    """Prepare a branch that sends a message later."""
    client.ask(c.TransactionInfo(transaction_id=xid, type=0))
    message = client.message(Queue("LATER"), text)
    message.persistent, message.transaction_id = persistent, xid
    message.properties = {"AMQ_SCHEDULED_DELAY": Long(300), "kept": text}
    client.ask(message)
    assert isinstance(client.ask(c.TransactionInfo(transaction_id=xid, type=1)), c.IntegerResponse)


def test_a_connection_that_was_given_up_has_nothing_any_more(address: Address) -> None:
    with OpenWireClient(address, "ID:first") as first, OpenWireClient(address) as other:
        own = ConnectionId(first.name)
        replies = TempQueue(f"{first.name}:1")
        first.ask(c.DestinationInfo(connection_id=own, destination=replies, operation_type=0))
        first.send(A, "1")
        first.send(A, "2")
        transaction = LocalTransactionId(1, own)
        first.ask(c.TransactionInfo(connection_id=own, transaction_id=transaction, type=0))
        first.subscribe(A)
        first.acknowledge(None, first.dispatch(), transaction_id=transaction)
        other.subscribe(Topic("ActiveMQ.Advisory.Connection"), number=2)
        assert not isinstance(first.ask(c.RemoveInfo(object_id=own)), c.ExceptionResponse)

        assert error_of(other.send(replies, "reply"))[0] == "org.apache.activemq.DestinationDoesNotExistException"
        other.subscribe(A)
        came = [other.dispatch().message for _ in range(5)]
        told = [message.data_structure for message in came if not isinstance(message, TextMessage) and message]
        assert [type(one) for one in told] == [c.ConnectionInfo, c.ConnectionInfo, c.RemoveInfo]
        assert [message.text for message in came if isinstance(message, TextMessage)] == ["1", "2"]
        with OpenWireClient(address, is_open=False) as successor:
            info = c.ConnectionInfo(connection_id=ConnectionId("ID:successor"), client_id=first.name)
            assert not isinstance(successor.ask(info), c.ExceptionResponse)
        for command in (
            c.ConsumerInfo(consumer_id=first.consumer_id(2), destination=A),
            c.ProducerInfo(producer_id=ProducerId(first.name, 1, 2), destination=A),
            first.message(A, "3"),
            c.TransactionInfo(connection_id=own, transaction_id=transaction, type=0),
            c.DestinationInfo(connection_id=own, destination=replies, operation_type=0),
            c.RemoveSubscriptionInfo(connection_id=own, client_id=first.name, subscription_name="name"),
        ):
            assert error_of(first.ask(command))[0] == "java.lang.IllegalStateException"


def test_a_branch_without_work_has_no_second_phase(address: Address) -> None:
    xid = XATransactionId(1, b"empty", b"branch")
    with OpenWireClient(address) as client:
        for step in (0, 7):
            client.ask(c.TransactionInfo(transaction_id=xid, type=step))
        prepared = client.ask(c.TransactionInfo(transaction_id=xid, type=1))
        assert isinstance(prepared, c.IntegerResponse)
        assert prepared.result == 3  # XA_RDONLY, as ActiveMQ answers
        recovered = client.ask(c.TransactionInfo(type=5))
        assert isinstance(recovered, c.DataArrayResponse)
        assert not recovered.data
        assert "XAException" in str(error_of(client.ask(c.TransactionInfo(transaction_id=xid, type=3)))[0])


@pytest.mark.parametrize("step", ["prepare", "one phase"])
def test_a_branch_of_which_a_message_was_refused_is_rolled_back(address: Address, step: str) -> None:
    """Where its sender does not wait for answers. A Java broker does without the message."""
    xid = XATransactionId(1, b"refused", step.encode())
    with OpenWireClient(address) as client:
        works_in(client, xid, "A")
        message = client.message(TempQueue("ID:nobody:1"), "nobody gets it")
        message.transaction_id = xid
        client.write(message)
        kind, text = error_of(client.ask(c.TransactionInfo(transaction_id=xid, type=_STEPS[step])))
        assert (kind, text.endswith("temp-queue://ID:nobody:1 does not exist. xaErrorCode:100")) == (
            "javax.transaction.xa.XAException",
            True,
        )
        recovered = client.ask(c.TransactionInfo(type=5))
        assert isinstance(recovered, c.DataArrayResponse)
        assert not recovered.data
    assert rest_of(address, "A", "ALL") == ["for A"]


def works_in(client: OpenWireClient, xid: XATransactionId, name: str) -> c.MessageDispatch:
    """Acknowledge the one message of a queue in a branch, and send one to the queue of all."""
    client.send(Queue(name), f"for {name}")
    client.subscribe(Queue(name))
    delivery = client.dispatch()
    client.ask(c.TransactionInfo(transaction_id=xid, type=0))
    client.acknowledge(delivery, delivery, transaction_id=xid)
    message = client.message(Queue("ALL"), f"by {name}")
    message.persistent, message.transaction_id = True, xid
    client.ask(message)
    client.ask(c.TransactionInfo(transaction_id=xid, type=7))
    return delivery


def rest_of(address: Address, *queues: str) -> list[str | None]:
    """What is in queues, one after the other."""
    found: list[str | None] = []
    with OpenWireClient(address) as client:
        for number, queue in enumerate(queues):
            client.send(Queue(queue), "last")
            client.subscribe(Queue(queue), number=number)
            while (text := client.text()) != "last":
                found.append(text)
    return found


_STEPS = {"prepare": 1, "one phase": 2, "commit": 3, "rollback": 4}


@pytest.mark.parametrize(
    ("steps", "is_committed"),
    [
        (["prepare", "commit"], True),
        (["prepare", "rollback"], False),
        (["one phase"], True),
        (["rollback"], False),
    ],
)
@pytest.mark.parametrize("decides", ["beginner", "joiner", "third"])
def test_who_decides_a_branch_decides_for_all_that_have_joined_it(
    address: Address, steps: list[str], is_committed: bool, decides: str
) -> None:
    xid = XATransactionId(1, b"joined", b"branch")
    with OpenWireClient(address) as beginner, OpenWireClient(address) as joiner, OpenWireClient(address) as third:
        works_in(beginner, xid, "A")
        works_in(joiner, xid, "B")
        decider = {"beginner": beginner, "joiner": joiner, "third": third}[decides]
        for step in steps:
            answer = decider.ask(c.TransactionInfo(transaction_id=xid, type=_STEPS[step]))
            assert type(answer) in (c.Response, c.IntegerResponse), error_of(answer)
        for client in (beginner, joiner):
            assert "has not been started" in error_of(client.ask(c.TransactionInfo(transaction_id=xid, type=2)))[1]
    assert sorted(map(str, rest_of(address, "ALL"))) == (["by A", "by B"] if is_committed else [])
    assert rest_of(address, "A", "B") == ([] if is_committed else ["for A", "for B"])


def test_after_a_rollback_each_has_still_what_it_has_acknowledged_in_a_branch(address: Address) -> None:
    xid = XATransactionId(1, b"joined", b"branch")
    with OpenWireClient(address) as beginner, OpenWireClient(address) as joiner:
        had = [(client, works_in(client, xid, name)) for client, name in ((beginner, "A"), (joiner, "B"))]
        beginner.ask(c.TransactionInfo(transaction_id=xid, type=_STEPS["rollback"]))
        for client, delivery in had:
            client.acknowledge(delivery, delivery)
    assert rest_of(address, "A", "B") == []


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("is_prepared", [True, False])
def test_who_has_joined_a_branch_may_go_before_it_is_decided(
    address: Address, is_prepared: bool, is_committed: bool
) -> None:
    xid = XATransactionId(1, b"joined", b"branch")
    with OpenWireClient(address) as beginner:
        works_in(beginner, xid, "A")
        with OpenWireClient(address) as joiner:
            works_in(joiner, xid, "B")
            joiner.ask(c.RemoveInfo(object_id=ConnectionId(joiner.name)))
        assert rest_of(address, "B") == []
        if is_prepared:
            prepare = c.TransactionInfo(transaction_id=xid, type=_STEPS["prepare"])
            assert isinstance(beginner.ask(prepare), c.IntegerResponse)
        outcome = ("commit" if is_prepared else "one phase") if is_committed else "rollback"
        assert type(beginner.ask(c.TransactionInfo(transaction_id=xid, type=_STEPS[outcome]))) is c.Response
    assert rest_of(address, "ALL", "A", "B") == (["by A", "by B"] if is_committed else ["for A", "for B"])


def test_a_branch_ends_with_who_has_begun_it(address: Address) -> None:
    xid = XATransactionId(1, b"joined", b"branch")
    with OpenWireClient(address) as joiner:
        with OpenWireClient(address) as beginner:
            works_in(beginner, xid, "A")
            works_in(joiner, xid, "B")
            beginner.ask(c.RemoveInfo(object_id=ConnectionId(beginner.name)))
        assert rest_of(address, "A") == ["for A"]
        kind, text = error_of(joiner.ask(c.TransactionInfo(transaction_id=xid, type=1)))
        assert (kind, "is rolled back: who began it is gone" in text) == ("javax.transaction.xa.XAException", True)
    assert rest_of(address, "ALL", "B") == ["for B"]


@pytest.mark.parametrize("is_by_hand", [False, True], ids=["by a client", "by hand"])
@pytest.mark.parametrize("store", ["sqlite:///{}/store.db", "kahadb:{}/kahadb"])
def test_scheduled_messages_of_a_prepared_branch_outlive_their_broker(
    tmp_path: Path, store: str, is_by_hand: bool
) -> None:
    url, port = store.format(tmp_path), free_port()
    one, two, none = (XATransactionId(1, name, b"branch") for name in (b"one", b"two", b"none"))
    address = "127.0.0.1", port
    with BrokerProcess(url, tmp_path, "--bind", f"openwire://127.0.0.1:{port}") as broker:
        with OpenWireClient(address) as client:
            scheduled_in(client, one, "one", persistent=True)
            scheduled_in(client, two, "two", persistent=False)
            scheduled_in(client, none, "none", persistent=True)
            refused = error_of(client.subscribe(Queue("jdbcstore.PreparedJobs")))[1]
            assert "scheduled messages that are in doubt" in refused
        broker.kill()
        if is_by_hand:
            with open_store(url) as adapter:
                assert isinstance(adapter, SupportsTransactions)
                adapter.transaction_store().rollback_prepared(none).result(30)
                for xid in (one, two):
                    adapter.transaction_store().commit_prepared(xid).result(30)
        broker.start()
        with OpenWireClient(address) as client:
            if not is_by_hand:
                recovered = client.ask(c.TransactionInfo(type=5))
                assert isinstance(recovered, c.DataArrayResponse)
                assert sorted(map(str, recovered.data or ())) == sorted(map(str, (one, two, none)))
                for xid, step in ((none, 4), (one, 3), (two, 3)):
                    assert type(client.ask(c.TransactionInfo(transaction_id=xid, type=step))) is c.Response
            client.subscribe(Queue("LATER"))
            came = [client.dispatch().message for _ in range(2)]
            assert sorted((m.properties["kept"], m.persistent) for m in came if m is not None) == [
                ("one", True),
                ("two", False),
            ]
            assert all(m is not None and set(m.properties) == {"kept", "scheduledJobId"} for m in came)
            assert all(m is not None and m.destination == Queue("LATER") for m in came)
            client.send(Queue("LATER"), "last")
            assert client.text() == "last"
    with open_store(url) as adapter:
        assert isinstance(adapter, SupportsScheduling)
        assert adapter.job_store().job_count() == 0
        assert Queue("jdbcstore.PreparedJobs") not in adapter.destinations()


@pytest.mark.has_tables
@pytest.mark.parametrize("database", ["postgresql_url", "mariadb_url", "mysql_url"])
def test_the_next_master_sends_the_scheduled_messages_of_a_prepared_branch(
    request: pytest.FixtureRequest, database: str
) -> None:
    url = request.getfixturevalue(database)
    xid = XATransactionId(1, b"one", b"branch")
    options = BrokerOptions(bind="openwire://127.0.0.1:0")
    with running(Broker(open_store(url), options)) as address, OpenWireClient(address) as client:
        scheduled_in(client, xid, "one", persistent=True)
    with running(Broker(open_store(url), options)) as address, OpenWireClient(address) as client:
        assert type(client.ask(c.TransactionInfo(transaction_id=xid, type=3))) is c.Response
        client.subscribe(Queue("LATER"))
        message = client.dispatch().message
        assert message is not None
        assert set(message.properties) == {"kept", "scheduledJobId"}


def test_an_answer_of_the_broker_goes_only_where_its_asker_may_send(start_broker: StartBroker) -> None:
    address = start_broker(bind="openwire://127.0.0.1:0", statistics_support=True)
    with OpenWireClient(address) as client:
        producer = ProducerId(client.name, 1, 1)
        asked = TextMessage(
            producer_id=producer,
            destination=Queue("ActiveMQ.Statistics.Broker"),
            message_id=MessageId(producer, 1),
            reply_to=TempQueue("ID:nobody:1"),
        )
        assert error_of(client.ask(asked))[0] == "org.apache.activemq.DestinationDoesNotExistException"


@pytest.mark.parametrize("name", ["?", " ", "\n", ".", ",", "B,C", ">"])
def test_a_question_about_no_destination_is_no_defect(
    name: str, start_broker: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    address = start_broker(bind="openwire://127.0.0.1:0", statistics_support=True)
    with OpenWireClient(address) as client:
        client.subscribe(A)
        for about in (f"ActiveMQ.Statistics.Destination{name}", "ActiveMQ.Statistics.Broker"):
            asked = client.message(Queue.decoded(about), "?")
            asked.reply_to = A
            assert type(client.ask(asked)) is c.Response
        while client.dispatch().message is None:
            pass
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_temporary_destinations_are_told_to_others_and_are_their_owners_alone(address: Address) -> None:
    with OpenWireClient(address) as owner, OpenWireClient(address) as other:
        early, late = TempQueue(f"{owner.name}:1"), TempQueue(f"{owner.name}:2")
        owner.ask(c.DestinationInfo(destination=early))
        other.subscribe(Topic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"), number=9)
        owner.ask(c.DestinationInfo(destination=late))
        owner.ask(c.DestinationInfo(destination=early, operation_type=1))
        told = [_told(other) for _ in range(3)]
        assert told == [(early, 0), (late, 0), (early, 1)]
        refused, text = error_of(other.subscribe(late))
        assert refused == "javax.jms.InvalidDestinationException"
        assert "remote temporary" in text
        assert error_of(other.send(early, "x"))[0] == "org.apache.activemq.DestinationDoesNotExistException"
        assert type(other.send(late, "x")) is c.Response
        assert "no temporary destination of connection" in error_of(other.ask(c.DestinationInfo(destination=early)))[1]


def test_a_policy_asks_to_be_told_of_slow_subscribers(start_broker: StartBroker) -> None:
    policy = DestinationPolicy(pattern=Topic("T"), advisory_for_slow_consumers=True)
    address = start_broker(bind="openwire://127.0.0.1:0", policies=[policy], topic_pending_max=3)
    with OpenWireClient(address) as slow, OpenWireClient(address) as listener, OpenWireClient(address) as publisher:
        listener.subscribe(Topic("ActiveMQ.Advisory.SlowConsumer.Topic.T"))
        slow.subscribe(Topic("T"), prefetch=1)
        for _ in range(6):
            publisher.write(publisher.message(Topic("T"), "x"))
        told = listener.dispatch().message
        assert told is not None
        assert isinstance(told.data_structure, c.ConsumerInfo)
        assert told.data_structure.consumer_id == slow.consumer_id()
        assert told.properties["consumerId"] == str(slow.consumer_id())


@pytest.mark.parametrize("name", [None, "news"])
def test_a_subscriber_to_several_topics_is_slow_for_all_of_them(start_broker: StartBroker, name: str | None) -> None:
    policy = DestinationPolicy(pattern=Topic("T.>"), advisory_for_slow_consumers=True)
    address = start_broker(bind="openwire://127.0.0.1:0", policies=[policy])
    with OpenWireClient(address) as listener, OpenWireClient(address) as slow:
        listener.subscribe(Topic("ActiveMQ.Advisory.SlowConsumer.Topic.>"))
        slow.ask(
            c.ConsumerInfo(
                consumer_id=slow.consumer_id(), destination=Topic("T.>"), prefetch_size=2, subscription_name=name
            )
        )
        for topic in ("T.A", "T.B", "T.C", "T.C", "T.C", "T.C"):
            listener.send(Topic(topic), "x")
        told = [listener.dispatch().message for _ in range(3)]
        topics = {str(message.destination).rpartition(".T.")[2] for message in told if message is not None}
        assert topics == {"A", "B", "C"}  # the message that was one too many is of one of them


def test_a_client_is_told_to_ask_for_each_message_if_the_policy_says_so(start_broker: StartBroker) -> None:
    policy = DestinationPolicy(pattern=A, queue_prefetch=0)
    with OpenWireClient(start_broker(bind="openwire://127.0.0.1:0", policies=[policy])) as client:
        client.send(A, "x")
        client.send(A, "y")
        consumer = client.consumer_id()
        client.write(c.ConsumerInfo(consumer_id=consumer, destination=A, prefetch_size=1000))
        for text in ("x", "y"):
            control = client.read()
            assert isinstance(control, c.ConsumerControl)
            assert (control.consumer_id, control.prefetch, control.close) == (consumer, 0, False)
            client.write(c.MessagePull(consumer_id=consumer, destination=A, timeout=-1))
            assert client.text() == text
            client.write(c.ConsumerControl(consumer_id=consumer, prefetch=1000))  # the policy goes before that, too


def test_advisories_about_messages_of_temporary_destinations_say_so(start_broker: StartBroker) -> None:
    policy = DestinationPolicy(advisory_for_delivery=True, advisory_for_consumed=True)
    with OpenWireClient(start_broker(bind="openwire://127.0.0.1:0", policies=[policy])) as client:
        replies = TempQueue(f"{client.name}:1")
        client.ask(c.DestinationInfo(destination=replies))
        for number, kind in enumerate(("MessageDelivered", "MessageConsumed"), start=2):
            client.subscribe(Topic(f"ActiveMQ.Advisory.{kind}.TempQueue.{replies.physical_name}"), number=number)
        client.send(replies, "x")
        told = client.dispatch().message
        assert told is not None
        assert told.properties["orignalDestination"] == str(replies)
        client.subscribe(replies)
        client.acknowledge(None, client.dispatch())
        told = client.dispatch().message
        assert told is not None
        assert told.destination == Topic(f"ActiveMQ.Advisory.MessageConsumed.TempQueue.{replies.physical_name}")


def test_a_queue_is_removed_with_its_messages_unless_somebody_consumes_from_it(address: Address) -> None:
    with OpenWireClient(address) as client:
        client.send(A, "x")
        client.subscribe(A)
        remove = c.DestinationInfo(destination=A, operation_type=1)
        assert "active subscription" in error_of(client.ask(remove))[1]
        client.ask(c.RemoveInfo(object_id=client.consumer_id()))
        assert type(client.ask(remove)) is c.Response
        client.subscribe(A, number=2)
        client.send(A, "y")
        assert [client.text(), client.text()][-1] == "y"


@pytest.mark.parametrize("destination", [A, Topic("T")])
def test_who_listens_hears_that_a_destination_was_removed(address: Address, destination: Queue | Topic) -> None:
    with OpenWireClient(address) as client, OpenWireClient(address) as listener:
        client.subscribe(destination)
        client.ask(c.RemoveInfo(object_id=client.consumer_id()))
        listener.subscribe(Topic("ActiveMQ.Advisory.Queue,ActiveMQ.Advisory.Topic"))
        assert _told(listener) == (destination, 0)
        assert type(client.ask(c.DestinationInfo(destination=destination, operation_type=1))) is c.Response
        assert _told(listener) == (destination, 1)


def _told(listener: OpenWireClient) -> tuple[Destination | None, int]:
    """Of which destination the next advisory tells, and whether that is there or gone."""
    advisory = listener.dispatch().message
    assert advisory is not None
    assert isinstance(advisory.data_structure, c.DestinationInfo)
    return advisory.data_structure.destination, advisory.data_structure.operation_type


@pytest.mark.parametrize("kind", [Queue, Topic])
@pytest.mark.parametrize("name", [">", "B.*", "B,C", "B", "L" * 300, "a\nb"])
def test_what_is_not_there_is_not_made_to_be_removed(
    kind: type[Queue] | type[Topic], name: str, start_broker: StartBroker, brokers: list[Broker], tmp_path: Path
) -> None:
    with OpenWireClient(
        start_broker(open_store(f"sqlite:///{tmp_path / 'b.db'}"), bind="openwire://127.0.0.1:0")
    ) as client:
        answer = client.ask(c.DestinationInfo(destination=kind(name), operation_type=1))
        if {*name} & {*">*,"}:
            assert "name one queue or topic" in error_of(answer)[1]
        else:
            assert type(answer) is c.Response
        assert kind(name) not in [*list(brokers[0].queues), *list(brokers[0].topics)]


@pytest.mark.parametrize("is_queue", [True, False])
def test_the_parts_of_a_composite_are_counted_before_they_are_looked_at(address: Address, *, is_queue: bool) -> None:
    many = (Queue if is_queue else Topic)(",".join(f"q{number}" for number in range(10_000)))
    with OpenWireClient(address) as client:
        for wrong in (
            client.message(many, "x"),
            c.ConsumerInfo(consumer_id=client.consumer_id(), destination=many, prefetch_size=1),
            c.ProducerInfo(producer_id=ProducerId(client.name, 2, 1), destination=many),
        ):
            assert "10000 destinations at once: composite_parts_max is 100" in error_of(client.ask(wrong))[1]


def test_a_request_that_cannot_be_done_costs_nothing_but_itself(address: Address) -> None:
    unknown = MessageId(ProducerId("ID:nobody", 1, 1), 1)
    with OpenWireClient(address) as client:
        client.subscribe(A)
        wrong_ones: list[tuple[c.BaseCommand | TextMessage, str]] = [
            (c.ConsumerInfo(consumer_id=client.consumer_id(2), destination=A, selector="a b"), "InvalidSelector"),
            (c.ConsumerInfo(consumer_id=client.consumer_id(2)), "JMSException"),
            (c.MessageAck(consumer_id=client.consumer_id(), last_message_id=unknown), "JMSException"),
            (c.MessagePull(consumer_id=client.consumer_id(3)), "IllegalArgumentException"),
            (c.RemoveSubscriptionInfo(subscription_name="s", client_id="c"), "InvalidDestination"),
            (c.DestinationInfo(), "JMSException"),
            (TextMessage(), "JMSException"),
            (TextMessage(destination=A, message_id=MessageId(None, 1)), "JMSException"),
            (c.ProducerInfo(), "JMSException"),
        ]
        for wrong, expected in wrong_ones:
            assert expected in (error_of(client.ask(wrong))[0] or "")
        client.send(A, "still here")
        assert client.text() == "still here"


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">iB", 1, 77),  # no such type
        struct.pack(">i", -1),
        struct.pack(">iB", 0x7FFFFFF0, 3),  # above the limit
        struct.pack(">iB", 2, 3) + b"\x07",  # truncated
    ],
)
def test_bytes_that_are_no_command_end_their_connection_and_no_other(address: Address, data: bytes) -> None:
    with OpenWireClient(address) as client, OpenWireClient(address) as other:
        client.write_bytes(data)
        error_of(client.next())
        assert client.read() is None
        other.send(A, "x")


def test_what_a_client_caches_is_counted_and_limited(start_broker: StartBroker, brokers: list[Broker]) -> None:
    address = start_broker(bind="openwire://127.0.0.1:0", connection_bytes_max=300_000)
    with OpenWireClient(address) as other:
        before = brokers[0].memory.kept
        with OpenWireClient(address, cache=1024) as client:
            names = [BrokerId(f"{number}".ljust(190, "x")) for number in range(1000)]
            for name in names[:100]:
                client.write(c.BrokerInfo(broker_id=name))
            client.ask(c.SessionInfo(session_id=client.session_id))
            assert brokers[0].memory.kept - before > 50_000
            answer: object = None
            for name in names[100:]:
                question = c.SessionInfo(command_id=7, response_required=True, session_id=client.session_id)
                client.write_bytes(client.bytes_of(c.BrokerInfo(broker_id=name)) + client.bytes_of(question))
                answer = client.read()
                if isinstance(answer, c.ConnectionError):
                    break
            assert "connection_bytes_max is 300000. Connect with cacheEnabled=false" in error_of(answer)[1]
            assert client.read() is None
        wait_until(lambda: brokers[0].memory.kept == before)
        other.send(A, "x")


@pytest.mark.parametrize(("memory_mib", "others", "slots"), [(256, 0, 1024), (1, 0, 936), (16, 40, 0)])
def test_the_more_connections_there_are_the_less_each_may_cache(
    start_broker: StartBroker, memory_mib: int, others: int, slots: int
) -> None:
    address = start_broker(bind="openwire://127.0.0.1:0", memory_bytes_max=memory_mib << 20)
    with ExitStack() as stack:
        for _ in range(others):
            stack.enter_context(OpenWireClient(address))
        offered = stack.enter_context(OpenWireClient(address)).offered
        assert offered.cache_enabled is (slots > 0)
        assert not slots or offered.cache_size == slots


def test_an_acknowledgement_of_a_type_that_does_not_exist_takes_nothing_away(address: Address) -> None:
    with OpenWireClient(address) as client:
        client.send(A, "m")
        client.subscribe(A)
        delivery = client.dispatch()
        assert type(client.acknowledge(delivery, delivery, c.ACK_UNMATCHED)) is c.Response
        for kind in (-1, 7, 99):
            assert type(client.acknowledge(delivery, delivery, kind)) is c.Response
    with OpenWireClient(address) as client:
        client.subscribe(A)
        assert client.text() == "m"


@pytest.mark.parametrize("is_asked", [True, False])
def test_who_takes_no_frame_that_large_is_closed_and_told_in_the_log(
    address: Address, is_asked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with OpenWireClient(address) as client, OpenWireClient(address, max_frame_size=100) as small:
        small.subscribe(A)
        with caplog.at_level(logging.WARNING):
            if is_asked:
                info = c.ConsumerInfo(consumer_id=small.consumer_id(2), destination=A, selector="no selector at all")
                info.response_required = True
                small.write(info)
            else:
                client.send(A, "x" * 1000, persistent=False)
            assert small.read() is None
        (record,) = [one for one in caplog.records if "cannot be answered" in one.getMessage()]
        assert "the client takes 100" in record.getMessage()
        assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
        assert isinstance(client.send(A, "m"), c.Response)


def test_a_message_that_is_larger_than_a_client_takes_stays_for_others(
    start_broker: StartBroker, brokers: list[Broker]
) -> None:
    address = start_broker(bind="openwire://127.0.0.1:0")
    with OpenWireClient(address) as client:
        client.send(A, "x" * 5000)
        client.send(A, "y")
        for _ in range(8):  # more often than a message is delivered again
            with OpenWireClient(address, max_frame_size=2000) as small:
                small.write(c.ConsumerInfo(consumer_id=small.consumer_id(), destination=A, prefetch_size=10))
                while small.read() is not None:
                    pass
        client.subscribe(A)
        first, second = client.dispatch(), client.dispatch()
        assert [message_text(first), message_text(second)] == ["x" * 5000, "y"]
        assert (first.redelivery_counter, second.redelivery_counter) == (0, 0)
    assert not [name for name in list(brokers[0].queues) if "DLQ" in str(name)]


def message_text(dispatch: c.MessageDispatch) -> str | None:
    assert isinstance(dispatch.message, TextMessage)
    return dispatch.message.text


def test_nothing_can_be_asked_before_the_connection_is_open(address: Address) -> None:
    with OpenWireClient(address, is_open=False) as client:
        client.write(c.SessionInfo(session_id=client.session_id))
        assert "not allowed" in error_of(client.next())[1]
        assert client.read() is None


def test_silence_counts_after_the_agreed_delay(address: Address) -> None:
    """Java clients send their first KeepAliveInfo after it, when a third of the time for silence is over."""
    with OpenWireClient(address, inactivity_ms=300, inactivity_initial_delay_ms=1500) as client:
        started_s = time.monotonic()
        while client.read() is not None:
            pass
        assert time.monotonic() - started_s >= 1.5


def test_what_a_producer_has_left_out_is_not_taken_for_stored(address: Address) -> None:
    """With trackMessages and more to be sent again than its cache holds, Java's client sends the end first."""
    with OpenWireClient(address, is_fault_tolerant=True) as client:

        def send(number: int) -> c.Response:
            producer = ProducerId(client.name, 1, 1)
            message = TextMessage(
                producer_id=producer, destination=A, message_id=MessageId(producer, number), persistent=True
            )
            message.text = str(number)
            return client.ask(message)

        for number in (1, 2, 7):
            send(number)
        _, said = error_of(send(3))
        assert "comes after message 7" in said
        for number in (2, 7, 8):  # as Java's client does
            assert type(send(number)) is c.Response
        for number in range(10, 30, 2):
            send(number)
        assert "comes after message 28" in error_of(send(27))[1]
        client.subscribe(A, prefetch=100)
        found = [client.text() for _ in range(14)]
    assert found == ["1", "2", "7", "8", *(str(number) for number in range(10, 30, 2))]


def test_a_session_goes_on_after_a_transaction_that_its_client_never_ends(address: Address) -> None:
    """A thread of a Java program is interrupted while it ends one, and the client forgets it."""
    with OpenWireClient(address, is_fault_tolerant=True) as client:
        connection = ConnectionId(client.name)
        producer = ProducerId(client.name, 1, 1)

        def do(transaction: int, *numbers: int) -> None:
            transaction_id = LocalTransactionId(transaction, connection)
            client.write(c.TransactionInfo(connection_id=connection, transaction_id=transaction_id, type=0))
            for number in numbers:
                message = TextMessage(
                    producer_id=producer,
                    destination=A,
                    message_id=MessageId(producer, number),
                    persistent=True,
                    transaction_id=transaction_id,
                )
                message.text = str(number)
                assert type(client.ask(message)) is c.Response

        def commit(transaction: int) -> c.Response:
            transaction_id = LocalTransactionId(transaction, connection)
            return client.ask(c.TransactionInfo(connection_id=connection, transaction_id=transaction_id, type=2))

        do(1, 1, 2)
        do(2, 3)
        assert type(commit(2)) is c.Response
        assert "its producer has gone on without it" in error_of(commit(1))[1]
        do(3, 4)
        assert type(commit(3)) is c.Response
        client.subscribe(A)
        assert [client.text(), client.text()] == ["3", "4"]


def test_stomp_and_openwire_clients_reply_to_each_other(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(bind="auto://127.0.0.1:0")
    stomp = open_client(address)
    with OpenWireClient(address) as jms:
        replies = TempQueue(f"{jms.name}:1")
        jms.ask(c.DestinationInfo(destination=replies))
        jms.subscribe(replies)
        stomp.subscribe("/queue/A")
        producer = ProducerId(jms.name, 1, 1)
        ask = TextMessage(destination=A, message_id=MessageId(producer, 1), producer_id=producer, reply_to=replies)
        ask.text = "question"
        jms.ask(ask)
        question = stomp.message()
        assert question.text == "question"
        stomp.publish(question.headers["reply-to"], "answer")
        assert jms.text() == "answer"
        jms.subscribe(Queue("B"), number=2)
        stomp.subscribe("/temp-queue/own", id="own")
        stomp.publish("/queue/B", "and you", **{"reply-to": "/temp-queue/own"})
        asked = jms.dispatch().message
        assert asked is not None
        assert asked.reply_to is not None
        jms.send(asked.reply_to, "me, too")
        assert stomp.message().text == "me, too"


@pytest.mark.parametrize(("prefix", "found"), [(CONVERT_STRINGS, "before"), ("", "behind")])
def test_a_durable_subscription_goes_on_in_the_other_protocol_if_its_selector_is_the_same(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], prefix: str, found: str
) -> None:
    address = start_broker(bind="auto://127.0.0.1:0")
    with open_client(address, client_id="ID:ann") as stomp:
        stomp.subscribe("/topic/T", activemq_subscriptionName="s", selector="x = '1'")
    publisher = open_client(address)
    wait_until(lambda: len(brokers[0].clients) == 1)
    publisher.publish("/topic/T", "before", x="1")
    with OpenWireClient(address, "ID:ann") as jms:
        wanted = c.ConsumerInfo(
            consumer_id=jms.consumer_id(),
            destination=Topic("T"),
            prefetch_size=10,
            subscription_name="s",
            selector=f"{prefix}x = '1'",
        )
        jms.ask(wanted)
        publisher.publish("/topic/T", "behind", x="1")
        assert jms.text() == found
