"""What users of stomp.py do, as a program: ``python stomp_py_scenarios.py HOST PORT VERSION SCENARIO``.

It is run with the stomp.py of the test environment and with an older one. Scenarios are those of stomp.py's own test
suite, told anew: every protocol version, waits for receipts, acknowledgements, transactions, heart-beats, threads,
context managers.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable
from importlib import metadata
from typing import Any

import stomp
from stomp.listener import TestListener

from tests.waiting import wait_until

CONNECTIONS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}


class World:
    def __init__(self, host: str, port: int, version: str) -> None:
        self.host, self.port, self.version = host, port, version
        self.destination = f"/queue/stomp.py-{uuid.uuid4()}"

    def connection(self, **options: Any) -> Any:
        if self.version == "1.0":
            options.pop("heartbeats", None)
        return CONNECTIONS[self.version]([(self.host, self.port)], **options)

    def connected(self, login: str = "admin", passcode: str = "password", **options: Any) -> tuple[Any, Any]:
        connection = self.connection(**options)
        listener = TestListener("123", print_to_log=True)
        connection.set_listener("test", listener)
        connection.connect(login, passcode, wait=True)
        return connection, listener

    def subscribe(self, connection: Any, destination: str | None = None, **options: Any) -> None:
        if self.version != "1.0":
            options.setdefault("id", "1")
        connection.subscribe(destination or self.destination, **options)

    def acknowledge(self, connection: Any, message: Any, **options: Any) -> None:
        self.answer(connection.ack, message, **options)

    def answer(self, verb: Callable[..., None], message: Any, **options: Any) -> None:
        headers = message[0]
        if self.version == "1.0":
            verb(headers["message-id"], **options)
        elif self.version == "1.1":
            verb(headers["message-id"], headers["subscription"], **options)
        else:
            verb(headers["ack"], **options)


def message_of(listener: Any) -> Any:
    listener.wait_for_message()
    return listener.get_latest_message()


def send_and_receive(world: World) -> None:
    connection, listener = world.connected()
    world.subscribe(connection, ack="auto")
    connection.send(body="this is a test", destination=world.destination, receipt="123")
    listener.wait_on_receipt()
    assert message_of(listener)[1] == "this is a test"
    connection.disconnect(receipt=None)
    assert (listener.connections, listener.messages, listener.errors) == (1, 1, 0)


def refused_login(world: World) -> None:
    connection = world.connection()
    try:
        connection.connect("invalid", "invalid", wait=True)
    except stomp.exception.ConnectFailedException:
        return
    raise AssertionError("a wrong password was accepted")


def unicode_and_bytes(world: World) -> None:
    for text in ("x", "测试 \u6d4b", "\xe9\xe8 \U0001f600", "line\nand\ttab"):
        connection, listener = world.connected()
        world.subscribe(connection)
        connection.send(body=text, destination=world.destination)
        assert message_of(listener)[1] == text
        connection.disconnect()
    data = bytes(range(256)) * 10
    connection, listener = world.connected(auto_decode=False)
    world.subscribe(connection)
    connection.send(body=data, destination=world.destination, content_type="application/octet-stream")
    headers, body = message_of(listener)[:2]
    assert (body, headers["content-type"]) == (data, "application/octet-stream")
    connection.disconnect()


def text_without_length(world: World) -> None:
    connection, listener = world.connected(auto_content_length=False)
    world.subscribe(connection)
    connection.send(body="text", destination=world.destination)
    headers, body = message_of(listener)[:2]
    assert (body, "content-length" in headers) == ("text", False)
    connection.disconnect()


def escaped_headers(world: World) -> None:
    connection, listener = world.connected()
    world.subscribe(connection)
    value = "plain" if world.version == "1.0" else "a:b\\c\nd"
    connection.send(body="x", destination=world.destination, headers={"special": value, "special-2": "test_special"})
    headers = message_of(listener)[0]
    assert (headers["special"], headers["special-2"]) == (value, "test_special")
    connection.disconnect()


def client_ack(world: World) -> None:
    connection, listener = world.connected()
    world.subscribe(connection, ack="client")
    connection.send(body="x", destination=world.destination)
    world.acknowledge(connection, message_of(listener))
    connection.disconnect()
    connection, listener = world.connected()
    world.subscribe(connection, ack="client")
    time.sleep(0.3)
    assert listener.messages == 0
    connection.disconnect()


def individual_ack_and_redelivery(world: World) -> None:
    connection, listener = world.connected()
    world.subscribe(connection, ack="client-individual")
    for text in ("a", "b"):
        connection.send(body=text, destination=world.destination)
        listener.wait_for_message()
    first = listener.message_list[0]
    world.acknowledge(connection, first)
    connection.disconnect()
    connection, listener = world.connected()
    world.subscribe(connection, ack="client-individual")
    headers, body = message_of(listener)[:2]
    assert (body, headers["redelivered"]) == ("b", "true")
    connection.disconnect()


def nack(world: World) -> None:
    if world.version == "1.0":
        return
    connection, listener = world.connected()
    world.subscribe(connection, ack="client-individual")
    connection.send(body="bad", destination=world.destination, headers={"persistent": "true"})
    world.answer(connection.nack, message_of(listener))
    world.subscribe(connection, "/queue/ActiveMQ.DLQ", id="dlq")
    assert message_of(listener)[1] == "bad"
    connection.disconnect()


def transactions(world: World) -> None:
    connection, listener = world.connected()
    world.subscribe(connection)
    connection.begin("t1")
    connection.send(body="one", destination=world.destination, transaction="t1")
    connection.send(body="two", destination=world.destination, transaction="t1")
    time.sleep(0.3)
    assert listener.messages == 0
    connection.commit("t1")
    wait_until(lambda: listener.messages >= 2)
    transaction = connection.begin()
    connection.send(body="never", destination=world.destination, transaction=transaction)
    connection.abort(transaction)
    time.sleep(0.3)
    assert (listener.messages, listener.errors) == (2, 0)
    connection.disconnect()


def acknowledge_in_transaction(world: World) -> None:
    connection, listener = world.connected()
    world.subscribe(connection, ack="client")
    connection.send(body="x", destination=world.destination)
    message = message_of(listener)
    transaction = connection.begin()
    world.acknowledge(connection, message, transaction=transaction)
    connection.commit(transaction)
    time.sleep(0.2)
    assert listener.errors == 0
    connection.disconnect()


def heart_beats(world: World) -> None:
    if world.version == "1.0":
        return
    # It bears a silence of 25 s: a machine that stands still for a moment is no subject of this.
    connection, listener = world.connected(heartbeats=(10_000, 250), heart_beat_receive_scale=100)
    wait_until(lambda: listener.heartbeat_count > 4)
    assert connection.is_connected()
    assert listener.heartbeat_timeouts == 0
    connection.disconnect()


def topics(world: World) -> None:
    destination = world.destination.replace("/queue/", "/topic/")
    connection, listener = world.connected()
    world.subscribe(connection, destination)
    connection.send(body="news", destination=destination, receipt="123")
    listener.wait_on_receipt()
    assert message_of(listener)[1] == "news"
    connection.unsubscribe(**({"destination": destination} if world.version == "1.0" else {"id": "1"}))
    connection.send(body="missed", destination=destination)
    time.sleep(0.3)
    assert listener.messages == 1
    connection.disconnect()


def receipts(world: World) -> None:
    connection, listener = world.connected()
    world.subscribe(connection)
    connection.disconnect(receipt="bye")
    listener.wait_on_disconnected()
    assert (listener.disconnects, connection.is_connected()) == (1, False)


def many_threads(world: World) -> None:
    connection, listener = world.connected()
    world.subscribe(connection, ack="auto")

    def work() -> None:
        for _ in range(20):
            connection.send(body="x" * 100, destination=world.destination)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: listener.messages >= 100, lambda: f"{listener.messages} are 100")
    assert (listener.messages, listener.errors) == (100, 0)
    connection.disconnect()


def errors_leave_the_connection_usable(world: World) -> None:
    connection, listener = world.connected()
    connection.send(body="x", destination=world.destination, transaction="unknown")
    wait_until(lambda: listener.errors)
    world.subscribe(connection)
    connection.send(body="fine", destination=world.destination)
    assert message_of(listener)[1] == "fine"
    connection.disconnect()


def reconnecting(world: World) -> None:
    connection, listener = world.connected()
    connection.disconnect(receipt="bye")
    listener.wait_on_disconnected()
    connection.connect("admin", "password", wait=True)
    world.subscribe(connection)
    connection.send(body="again", destination=world.destination)
    assert message_of(listener)[1] == "again"
    connection.disconnect()


def composite_and_temporary(world: World) -> None:
    connection, listener = world.connected()
    world.subscribe(connection, "/temp-queue/replies")
    connection.send(body="x", destination="/temp-queue/replies")
    assert message_of(listener)[1] == "x"
    connection.disconnect()


SCENARIOS: dict[str, Callable[[World], None]] = {
    scenario.__name__: scenario
    for scenario in (
        send_and_receive,
        refused_login,
        unicode_and_bytes,
        text_without_length,
        escaped_headers,
        client_ack,
        individual_ack_and_redelivery,
        nack,
        transactions,
        acknowledge_in_transaction,
        heart_beats,
        topics,
        receipts,
        many_threads,
        errors_leave_the_connection_usable,
        reconnecting,
        composite_and_temporary,
    )
}


def main(host: str, port: str, version: str, scenario: str) -> None:
    SCENARIOS[scenario](World(host, int(port), version))
    print(f"stomp.py {metadata.version('stomp.py')}: {scenario} passed")


if __name__ == "__main__":
    main(*sys.argv[1:])
