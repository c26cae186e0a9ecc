"""Requests and their answers."""

from __future__ import annotations

import threading

import pytest

from jdbcstore import Connection, ProtocolError
from tests.waiting import wait_until


def test_many_requests_at_once_get_each_its_answer(connection: Connection, other: Connection) -> None:
    questions = connection.subscribe("QUESTIONS", mode="auto")

    def serve() -> None:
        for question in questions:
            connection.reply(question, f"answer to {question.body}")

    server = threading.Thread(target=serve)
    server.start()
    answers: dict[int, object] = {}

    def ask(number: int) -> None:
        answers[number] = other.request("QUESTIONS", str(number), timeout_s=30).body

    askers = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(30)
    questions.close()
    server.join(30)
    assert answers == {number: f"answer to {number}" for number in range(8)}
    assert len(other._port.client.consumers.by_key) == 1


def test_an_answer_that_does_not_come_and_one_that_comes_late(connection: Connection, other: Connection) -> None:
    questions = connection.subscribe("QUESTIONS", mode="auto")

    def ask() -> None:
        server = threading.Thread(target=lambda: connection.reply(questions.receive(timeout_s=30), "in time"))
        server.start()
        assert other.request("QUESTIONS", "2", timeout_s=30).body == "in time"
        server.join(30)

    ask()  # there is a queue for answers: no time passes between the next question and its way to the broker
    with pytest.raises(TimeoutError, match=r"^no answer came from QUESTIONS within 0\.05 s$"):
        other.request("QUESTIONS", "1", timeout_s=0.05)
    late = questions.receive(timeout_s=30)
    assert late.body == "1"
    connection.reply(late, "too late")
    (consumer,) = other._port.client.consumers.by_key.values()
    wait_until(lambda: not consumer.unacknowledged)  # dropped
    ask()


def test_what_wants_no_answer_and_who_is_gone(connection: Connection, other: Connection) -> None:
    questions = connection.subscribe("QUESTIONS", mode="auto")
    other.send("QUESTIONS", "1")
    with pytest.raises(ValueError, match="wants no answer"):
        connection.reply(questions.receive(timeout_s=30), "x")
    other.send("QUESTIONS", "2", reply_to=other.temporary_queue())
    question = questions.receive(timeout_s=30)
    other.close()
    with pytest.raises(ProtocolError, match="does not exist"):
        connection.reply(question, "x")


def test_a_temporary_queue_is_received_from_by_its_own_connection_alone(
    connection: Connection, other: Connection
) -> None:
    queue, topic = connection.temporary_queue(), connection.temporary_topic()
    other.send(queue, "1")
    assert connection.subscribe(queue).receive(timeout_s=30).body == "1"
    assert queue != connection.temporary_queue()
    for destination in (queue, topic):
        with pytest.raises(ProtocolError, match="remote temporary destination"):
            other.subscribe(destination)
