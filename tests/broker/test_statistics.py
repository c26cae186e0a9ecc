"""Answers about the broker, beside those that a real ActiveMQ gives too (`tests/compat/java/AdvisoryJudge.java`)."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.destination import Queue, Topic
from jdbcstore.message import MapMessage
from jdbcstore.openwire import commands as c
from jdbcstore.primitives import Value
from tests.broker.openwire_client import OpenWireClient

ANSWERS = Topic("ANSWERS")
LIST_END = "Destination.List.End.With.Null"
FIRST_TIME = "Destination.Include.First.Message.Timestamp"


def start(folder: Path) -> Broker:
    options = BrokerOptions(bind="openwire://127.0.0.1:0", statistics_support=True)
    return Broker(open_store(f"sqlite:///{folder / 'b.db'}"), options)


def ask(client: OpenWireClient, about: str, *wishes: str) -> None:
    question = client.message(Queue(f"ActiveMQ.Statistics.{about}"), "?")
    question.reply_to = ANSWERS
    question.properties = {f"ActiveMQ.Statistics.{wish}": False for wish in wishes}
    assert type(client.ask(question)) is c.Response


def answer(client: OpenWireClient) -> dict[str, Value]:
    message = client.dispatch().message
    assert isinstance(message, MapMessage)
    return dict(message.body)


def test_what_is_counted_of_the_whole_broker_begins_anew_when_somebody_asks_for_that(tmp_path: Path) -> None:
    def told(*wishes: str) -> list[Value]:
        ask(client, "Broker", *wishes)
        counted = answer(client)
        return [counted[name] for name in ("size", "enqueueCount", "averageMessageSize")]

    with running(start(tmp_path)) as address, OpenWireClient(address) as client:
        client.subscribe(ANSWERS)
        for _ in range(3):
            client.send(Queue("A"), "x" * 1000)
        size, enqueued, average = told()
        assert (size, enqueued) == (3, 3)
        assert isinstance(average, int)
        assert 1000 < average < 3000
        assert told("Broker.Reset") == [3, 0, 0]
        client.send(Queue("A"), "x")
        assert told()[:2] == [4, 2]  # and the answer before this one


def test_the_time_of_a_queues_first_message_is_read_from_the_store(tmp_path: Path) -> None:
    times_ms = [time.time_ns() // 1_000_000]
    for _ in range(2):
        with running(start(tmp_path)) as address, OpenWireClient(address) as client:
            client.subscribe(ANSWERS)
            ask(client, "Destination.>", LIST_END, FIRST_TIME)
            told = [answer(client) for _ in range(len(times_ms))]
            assert [one.get("destinationName") for one in told] == ["queue://A"] * (len(times_ms) - 1) + [None]
            for one in told[:-1]:
                first_ms = one["firstMessageTimestamp"]
                assert isinstance(first_ms, int)
                assert times_ms[0] <= first_ms <= times_ms[1]
            client.send(Queue("A"), "x")
            times_ms.append(time.time_ns() // 1_000_000)


def test_a_store_that_cannot_be_read_is_told_and_the_rest_is_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start(tmp_path)
    with running(broker) as address, OpenWireClient(address) as client:
        client.send(Queue("A"), "x")
        client.subscribe(Queue("A"))
        client.dispatch()  # so that the store has to be asked
        client.subscribe(ANSWERS, number=2)
        with closing(sqlite3.connect(tmp_path / "b.db")) as other:
            other.execute("DROP TABLE ACTIVEMQ_MSGS")
        ask(client, "Destination.A", LIST_END, FIRST_TIME)
        told = answer(client)
        assert (told["size"], told.get("firstMessageTimestamp")) == (1, None)
        assert answer(client) == {}
    assert "the first message of a queue could not be read queue=queue://A error=" in caplog.text


def test_a_question_about_too_many_destinations_at_once_is_refused(tmp_path: Path) -> None:
    with running(start(tmp_path)) as address, OpenWireClient(address) as client:
        parts = BrokerOptions().composite_parts_max + 1
        question = client.message(Queue("ActiveMQ.Statistics.Destination." + ",".join(map(str, range(parts)))), "?")
        question.reply_to = ANSWERS
        answer = client.ask(question)
        assert isinstance(answer, c.ExceptionResponse)
        assert answer.exception is not None
        assert "composite_parts_max" in str(answer.exception.message)
