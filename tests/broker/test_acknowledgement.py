"""Who has a message, and for how long: ack modes, NACK, redelivery."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from jdbcstore import Broker
from jdbcstore.broker.destination_policy import DeadLetterStrategy, DestinationPolicy
from jdbcstore.destination import Queue
from jdbcstore.errors import ProtocolError
from tests.broker.client import Address, Client, Frame
from tests.broker.conftest import VERSIONS, OpenClient, StartBroker


def fill(client: Client, count: int, destination: str = "/queue/A") -> None:
    for number in range(count):
        client.publish(destination, str(number))


def bodies(client: Client, count: int) -> list[int]:
    return [int(client.message().body) for _ in range(count)]


@pytest.mark.parametrize("version", VERSIONS)
def test_auto_takes_the_message(address: Address, open_client: OpenClient, version: str) -> None:
    client = open_client(address, version)
    fill(client, 2)
    client.subscribe("/queue/A", "auto")
    assert bodies(client, 2) == [0, 1]
    client.drop()
    again = open_client(address)
    again.subscribe("/queue/A")
    assert again.is_silent()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_an_unacknowledged_message_comes_again(
    address: Address, open_client: OpenClient, version: str, mode: str
) -> None:
    client = open_client(address, version)
    fill(client, 3)
    client.subscribe("/queue/A", mode)
    messages = [client.message() for _ in range(3)]
    client.ack(messages[1], receipt="acked")
    assert client.frame().command == "RECEIPT"
    client.drop()
    again = open_client(address, version)
    again.subscribe("/queue/A", mode)
    left = [2] if mode == "client" else [0, 2]
    returned = [again.message() for _ in left]
    assert [int(m.body) for m in returned] == left
    assert [m.headers.get("redelivered") for m in returned] == ["true"] * len(left)
    assert again.is_silent()


def test_acks_that_come_together_mean_what_each_of_them_means(address: Address, open_client: OpenClient) -> None:
    """Of several subscriptions, of both modes, with one that is unknown and one that comes twice."""
    client = open_client(address)
    ids: dict[str, list[str]] = {}
    for queue, mode in (("A", "client-individual"), ("B", "client-individual"), ("C", "client")):
        fill(client, 4, f"/queue/{queue}")
        client.subscribe(f"/queue/{queue}", mode, id=queue)
        ids[queue] = [client.message().headers["ack"] for _ in range(4)]
    a, b, c = ids.values()
    acks = [a[0], a[2], "unknown", a[2], b[1], c[1], a[1], b[0]]
    client.write(b"".join(b"ACK\nid:%s\n\n\0" % one.encode() for one in acks))
    assert [client.frame().command for _ in range(2)] == ["ERROR", "ERROR"]
    client.done("DISCONNECT", {})
    for queue, left in (("A", [3]), ("B", [2, 3]), ("C", [2, 3])):
        again = open_client(address)
        again.subscribe(f"/queue/{queue}", "client-individual")
        assert bodies(again, len(left)) == left
        assert again.is_silent()


def test_a_fresh_message_is_not_redelivered(client: Client) -> None:
    client.publish("/queue/A", "x")
    client.subscribe("/queue/A")
    assert "redelivered" not in client.message().headers


def test_returned_messages_come_before_the_others_in_their_old_order(address: Address, open_client: OpenClient) -> None:
    producer = open_client(address)
    first, second = open_client(address), open_client(address)
    first.subscribe("/queue/A", "client", activemq_prefetchSize="3")
    second.subscribe("/queue/A", "client", activemq_prefetchSize="3")
    fill(producer, 8)
    assert sorted(bodies(first, 3) + bodies(second, 3)) == [0, 1, 2, 3, 4, 5]
    second.drop()
    first.drop()
    third = open_client(address)
    third.subscribe("/queue/A")
    assert bodies(third, 8) == list(range(8))


def test_prefetch_limits_what_a_consumer_holds(client: Client) -> None:
    fill(client, 5)
    client.subscribe("/queue/A", "client-individual", activemq_prefetchSize="2")
    held = [client.message(), client.message()]
    assert client.is_silent()
    client.ack(held[0])
    assert client.message().body == b"2"
    assert client.is_silent()


def test_consumers_take_turns(address: Address, open_client: OpenClient) -> None:
    consumers = [open_client(address) for _ in range(4)]
    for consumer in consumers:
        consumer.subscribe("/queue/A", "client")
    fill(open_client(address), 8)
    assert [bodies(consumer, 2) for consumer in consumers] == [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_ack_is_refused_and_the_connection_goes_on(
    address: Address, open_client: OpenClient, version: str
) -> None:
    client = open_client(address, version)
    headers = {"id": "nope"} if version == "1.2" else {"message-id": "nope", "subscription": "1"}
    answer = client.request("ACK", headers)
    name = "null" if version == "1.2" else "nope"
    assert (answer.command, answer.headers["receipt-id"]) == ("ERROR", "asked")
    assert answer.headers["message"].startswith(f"Unexpected ACK received for message-id [{name}]: ")
    client.publish("/queue/A", "x")


def test_a_message_is_acknowledged_once(client: Client) -> None:
    client.publish("/queue/A", "x")
    client.subscribe("/queue/A", "client-individual")
    message = client.message()
    client.done("ACK", client.named(message))
    assert client.request("ACK", client.named(message)).command == "ERROR"


def test_the_subscription_may_be_left_out_in_1_0(address: Address, open_client: OpenClient) -> None:
    client = open_client(address, "1.0")
    client.publish("/queue/A", "x")
    client.done("SUBSCRIBE", {"destination": "/queue/A", "ack": "client"})
    message = client.message()
    assert "subscription" not in message.headers
    client.done("ACK", {"message-id": message.headers["message-id"]})
    client.done("UNSUBSCRIBE", {"destination": "/queue/A"})


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_nack_makes_a_dead_letter(
    start_broker: StartBroker, open_client: OpenClient, version: str, persistent: str, mode: str
) -> None:
    strategy = DeadLetterStrategy(process_non_persistent=persistent == "false")
    client = open_client(start_broker(policies=[DestinationPolicy(dead_letter_strategy=strategy)]), version)
    client.subscribe("/queue/A", mode)
    for number in range(2):
        client.send("SEND", {"destination": "/queue/A", "persistent": persistent, "own": "kept"}, str(number))
    messages = [client.message(), client.message()]
    client.done("NACK", client.named(messages[1]))
    client.subscribe("/queue/ActiveMQ.DLQ", id="dlq")
    dead = client.message()
    assert dead.body == b"1"
    assert dead.headers["message-id"] == messages[1].headers["message-id"]
    assert (dead.headers["original-destination"], dead.headers["originalExpiration"]) == ("/queue/A", "0")
    assert (dead.headers["persistent"], dead.headers["own"]) == ("true", "kept")
    assert dead.headers.get("originalDeliveryMode") == (None if persistent == "true" else "NON_PERSISTENT")
    client.done("ACK", client.named(messages[0]))  # never cumulative: the first one is still ours


def test_nack_is_not_known_to_1_0(address: Address, open_client: OpenClient) -> None:
    client = open_client(address, "1.0")
    answer = client.request("NACK", {"message-id": "x"})
    assert answer.headers["message"] == "NACK received but connection is in v1.0 mode."


def test_a_dead_letter_that_is_refused_again_is_gone(client: Client) -> None:
    client.subscribe("/queue/ActiveMQ.DLQ", "client-individual")
    client.publish("/queue/ActiveMQ.DLQ", "x")
    client.done("NACK", client.named(client.message()))
    assert client.is_silent()


def test_unsubscribe_gives_back(client: Client) -> None:
    fill(client, 2)
    client.subscribe("/queue/A", "client")
    bodies(client, 2)
    client.done("UNSUBSCRIBE", {"id": "1"})
    client.subscribe("/queue/A", "client", id="2")
    assert bodies(client, 2) == [0, 1]


@pytest.mark.parametrize("version", VERSIONS)
def test_after_unsubscribe_nothing_comes(address: Address, open_client: OpenClient, version: str) -> None:
    client = open_client(address, version)
    client.subscribe("/queue/A")
    client.done("UNSUBSCRIBE", {"id": "1"})
    client.publish("/queue/A", "x")
    assert client.is_silent()


def test_an_unknown_unsubscribe_is_refused(client: Client) -> None:
    answer = client.request("UNSUBSCRIBE", {"id": "nope"})
    assert (answer.command, answer.headers["message"]) == (
        "ERROR",
        "No subscription matched. There is none with the id nope",
    )


def test_a_subscription_id_is_taken_once(client: Client) -> None:
    client.subscribe("/queue/A")
    assert client.request("SUBSCRIBE", {"destination": "/queue/B", "id": "1"}).command == "ERROR"
    client.subscribe("/queue/B", id="2")


def test_the_receipt_of_a_subscription_comes_before_its_messages(client: Client) -> None:
    fill(client, 3)
    client.send("SUBSCRIBE", {"destination": "/queue/A", "id": "1", "receipt": "r"})
    assert client.frame().command == "RECEIPT"
    assert bodies(client, 3) == [0, 1, 2]


def test_a_wildcard_subscription_covers_queues_that_come_later(client: Client) -> None:
    client.publish("/queue/orders.de", "early")
    client.subscribe("/queue/orders.*", "client-individual")
    client.publish("/queue/orders.fr", "late")
    client.publish("/queue/orders.fr.paris", "not covered")
    messages: list[Frame] = [client.message(), client.message()]
    assert [(m.headers["destination"], m.text) for m in messages] == [
        ("/queue/orders.de", "early"),
        ("/queue/orders.fr", "late"),
    ]
    for message in messages:
        client.done("ACK", client.named(message))
    assert client.is_silent()


def test_a_composite_subscription_covers_its_elements(client: Client) -> None:
    client.subscribe("/queue/A,/queue/B")
    client.publish("/queue/B", "b")
    assert client.message().text == "b"
    client.publish("/queue/A", "a")
    assert client.message().text == "a"


@pytest.mark.parametrize("mode", ["auto", "client", "client-individual"])
def test_a_queue_is_drained_by_each_mode(start_broker: StartBroker, open_client: OpenClient, mode: str) -> None:
    client = open_client(start_broker())
    fill(client, 300)
    client.subscribe("/queue/A", mode, activemq_prefetchSize="50")
    for number in range(300):
        message = client.message()
        assert int(message.body) == number
        if mode == "client-individual" or (mode == "client" and number % 10 == 9):
            client.ack(message)
    client.done("UNSUBSCRIBE", {"id": "1"})
    client.subscribe("/queue/A", id="2")
    assert client.is_silent()


@pytest.mark.parametrize("version", VERSIONS)
def test_one_message_in_two_queues_is_acknowledged_twice(
    address: Address, open_client: OpenClient, version: str
) -> None:
    client = open_client(address, version)
    client.subscribe("/queue/A,/queue/B", "client-individual")
    client.publish("/queue/A,/queue/B", "x")
    first, second = client.message(), client.message()
    assert first.headers["message-id"] == second.headers["message-id"]
    client.done("ACK", client.named(first))
    client.done("ACK", client.named(second))
    client.drop()
    again = open_client(address)
    again.subscribe("/queue/A,/queue/B")
    assert again.is_silent()


def test_a_queue_that_is_removed_gets_nothing_back_afterwards(
    address: Address, open_client: OpenClient, brokers: list[Broker]
) -> None:
    """What a consumer had that is gone is given back in slices."""
    (broker,) = brokers
    sender, consumer = open_client(address), open_client(address)
    sender.write(b"SEND\ndestination:/queue/A\npersistent:true\n\nx\0" * 5000)
    sender.publish("/queue/A", "last")
    consumer.subscribe("/queue/A", "client-individual", activemq_prefetchSize="10000")
    while consumer.message().text != "last":
        pass
    removed: Future[BaseException | None] = Future()

    def remove() -> None:
        try:
            broker.remove_destination(Queue("A"), removed.set_result)
        except ProtocolError:
            broker.loop.call_soon(remove)

    broker.loop.call_soon_threadsafe(remove)
    consumer.drop()
    assert removed.result(60) is None
    sender.publish("/queue/A", "after")
    sender.subscribe("/queue/A")
    assert sender.message().text == "after"
