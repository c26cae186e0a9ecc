"""Transactions: all or nothing, in the order of requests."""

from __future__ import annotations

import pytest

import jdbcstore
from jdbcstore import BrokerOptions, Connection, ProtocolError
from jdbcstore.client.outgoing_message import Body


def bodies(connection: Connection, destination: str) -> list[Body]:
    return [message.body for message in connection.browse(destination)]


def test_a_commit_sends_and_acknowledges_together(connection: Connection) -> None:
    connection.send("ORDERS", "order")
    with connection.subscribe("ORDERS") as orders:
        with connection.transaction() as transaction:
            transaction.acknowledge(orders.receive(timeout_s=30))
            transaction.send("INVOICES", "1")
            transaction.send("INVOICES", "2")
            assert bodies(connection, "INVOICES") == []
        assert bodies(connection, "INVOICES") == ["1", "2"]
    assert bodies(connection, "ORDERS") == []


def test_an_exception_rolls_back_and_what_was_acknowledged_is_still_here(connection: Connection) -> None:
    connection.send("ORDERS", "order")
    with connection.subscribe("ORDERS") as orders:
        message = orders.receive(timeout_s=30)
        transaction = connection.transaction().__enter__()
        transaction.acknowledge(message)
        transaction.send("INVOICES", "1")
        transaction.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        assert bodies(connection, "INVOICES") == []
        with connection.transaction() as transaction:
            transaction.acknowledge(message)
    assert bodies(connection, "ORDERS") == []


def test_what_is_open_at_the_end_is_rolled_back(url: str) -> None:
    with jdbcstore.connect(url) as connection:
        with jdbcstore.connect(connection.broker) as other:
            other.send("ORDERS", "order")
            transaction = other.transaction().__enter__()
            transaction.acknowledge(other.subscribe("ORDERS").receive(timeout_s=30))
            transaction.send("INVOICES", "1")
        assert bodies(connection, "ORDERS") == ["order"]
        assert bodies(connection, "INVOICES") == []


def test_a_refused_message_leaves_the_transaction_to_go_on_or_to_end() -> None:
    with jdbcstore.connect("memory:", options=BrokerOptions(transaction_messages_max=2)) as connection:
        with connection.transaction() as transaction:
            transaction.send("A", "1")
            transaction.send("A", "2")
            with pytest.raises(ProtocolError, match="transaction_messages_max is 2"):
                transaction.send("A", "3")
        assert bodies(connection, "A") == ["1", "2"]


def test_several_at_once(connection: Connection) -> None:
    with connection.transaction() as first, connection.transaction() as second:
        first.send("A", "1")
        second.send("A", "2")
    assert bodies(connection, "A") == ["2", "1"]  # in the order of their commits


def test_an_answer_in_a_transaction(connection: Connection, other: Connection) -> None:
    replies = other.temporary_queue()
    other.send("QUESTIONS", "6 x 7", reply_to=replies, correlation_id="q")
    question = connection.subscribe("QUESTIONS").receive(timeout_s=30)
    with connection.transaction() as transaction:
        transaction.acknowledge(question)
        transaction.reply(question, "42")
    answer = other.subscribe(replies).receive(timeout_s=30)
    assert (answer.body, answer.correlation_id) == ("42", "q")
