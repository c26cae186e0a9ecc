"""The broker's face, used by the smallest transport that there can be: no socket, no protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.client import Client
from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.phase import NEXT, Phase
from jdbcstore.broker.security.login import Credentials
from jdbcstore.broker.subscription_request import AcknowledgeMode, SubscriptionRequest
from jdbcstore.destination import Queue
from jdbcstore.errors import JdbcStoreError, ProtocolError
from jdbcstore.message import TextMessage
from jdbcstore.store.memory import MemoryPersistenceAdapter

A = Queue("A")
NOBODY = Credentials(None, None, None, False)


@dataclass
class Transport:
    """Takes notes; requests are futures."""

    broker: Broker
    peer: str = "embedded"
    protocol: str = "nothing"
    delivered: list[tuple[Consumer, Delivery, str]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    errors: list[BaseException | None] = field(default_factory=list)
    broken: Exception | None = None

    def __post_init__(self) -> None:
        self.client = Client(self.broker, self)
        self.broker.clients.add(self.client)

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        if self.broken is not None:
            raise self.broken
        assert isinstance(delivery.message, TextMessage)
        self.delivered.append((consumer, delivery, delivery.message.utf8_body.decode()))
        self.client.talk()

    def completed(self, request: object, error: BaseException | None, *, is_fatal: bool = False) -> None:
        if request is None:
            self.errors.append(error)
            return
        assert isinstance(request, asyncio.Future)
        if error is None:
            request.set_result(None)
        else:
            request.set_exception(error)

    def browsed(self, consumer: Consumer) -> None:
        self.calls.append("browsed")

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def write(self) -> None:
        self.client.consumers.flushed()

    def dismiss(self, text: str) -> None:
        self.calls.append(f"dismiss {text}")
        self.client.end()

    def cut(self, reason: str) -> None:
        self.calls.append(f"cut {reason}")

    def probe(self, told: Callable[[bool], object]) -> None:
        told(True)

    def closed(self) -> None:
        self.calls.append("closed")

    # -- the other direction -----------------------------------------------------------------------------------------

    def open(self, client_id: str | None = None) -> JdbcStoreError | None:
        told: list[JdbcStoreError | None] = []
        self.client.open(client_id, NOBODY, told.append)
        return told[0]

    def message(self, text: str) -> TextMessage:
        message_id = self.client.producer.next_message_id()
        made = TextMessage(producer_id=message_id.producer_id, destination=A, message_id=message_id, persistent=True)
        made.utf8_body = text.encode()
        return made

    async def send(self, text: str, transaction: str | None = None) -> None:
        await self.request(lambda request: self.client.producer.send(self.message(text), request, transaction))

    async def subscribe(self, mode: AcknowledgeMode, **wanted: object) -> None:
        asked = SubscriptionRequest(key="1", destination=A, mode=mode, label="A", **wanted)  # type: ignore[arg-type]
        await self.request(lambda request: self.client.consumers.subscribe(asked, request))

    async def request(self, ask: Callable[[asyncio.Future[None]], object]) -> None:
        request: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ask(request)
        await asyncio.wait_for(request, 60)

    async def texts(self, count: int) -> list[str]:
        async with asyncio.timeout(60):
            while len(self.delivered) < count:
                await asyncio.sleep(0)
        return [text for _, _, text in self.delivered]


def run(scenario: Callable[[Broker, Transport], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        broker = Broker(MemoryPersistenceAdapter(), BrokerOptions())
        await broker.start()
        try:
            transport = Transport(broker)
            assert transport.open() is None
            await scenario(broker, transport)
        finally:
            await broker.stop()

    asyncio.run(all_of_it())


def test_messages_go_and_come_back() -> None:
    async def scenario(broker: Broker, transport: Transport) -> None:
        for text in ("a", "b", "c"):
            await transport.send(text)
        await transport.subscribe(AcknowledgeMode.CUMULATIVE)
        assert await transport.texts(3) == ["a", "b", "c"]
        consumer, second, _ = transport.delivered[1]
        await transport.request(lambda request: transport.client.consumers.acknowledge(consumer, second, request))
        transport.client.close()
        again = Transport(broker)
        assert again.open() is None
        await again.subscribe(AcknowledgeMode.AUTO)
        assert await again.texts(1) == ["c"]
        assert again.delivered[0][1].redeliveries == 1

    run(scenario)


def test_what_goes_automatically_is_gone_when_it_is_flushed() -> None:
    async def scenario(broker: Broker, transport: Transport) -> None:
        await transport.send("a")
        await transport.subscribe(AcknowledgeMode.AUTO)
        await transport.texts(1)
        async with asyncio.timeout(60):
            while broker.queue(A).depth:
                await asyncio.sleep(0)

    run(scenario)


def test_transactions() -> None:
    async def scenario(broker: Broker, transport: Transport) -> None:
        client = transport.client
        for name in ("kept", "lost"):
            client.transactions.begin(name)
            await transport.send(name, name)
        client.transactions.abort("lost")
        assert broker.queue(A).depth == 0
        await transport.request(lambda request: client.transactions.commit("kept", request))
        await transport.subscribe(AcknowledgeMode.INDIVIDUAL)
        assert await transport.texts(1) == ["kept"]
        with pytest.raises(ProtocolError, match="Invalid transaction id: lost"):
            client.transactions.commit("lost", None)

    run(scenario)


def test_a_message_that_a_transport_cannot_send_is_a_dead_letter_that_names_its_protocol() -> None:
    async def scenario(broker: Broker, transport: Transport) -> None:
        transport.broken = ProtocolError("no")
        await transport.send("a")
        await transport.subscribe(AcknowledgeMode.AUTO)
        other = Transport(broker)
        assert other.open() is None
        asked = SubscriptionRequest(
            key="d", destination=Queue("ActiveMQ.DLQ"), mode=AcknowledgeMode.INDIVIDUAL, label="DLQ"
        )
        await other.request(lambda request: other.client.consumers.subscribe(asked, request))
        assert await other.texts(1) == ["a"]
        message = other.delivered[0][1].message
        assert message is not None
        assert "Cannot be delivered to a nothing client" in str(message.properties)

    run(scenario)


def test_a_browser_ends_by_itself() -> None:
    async def scenario(broker: Broker, transport: Transport) -> None:
        await transport.send("a")
        await transport.subscribe(AcknowledgeMode.AUTO, is_browser=True)
        assert await transport.texts(1) == ["a"]
        async with asyncio.timeout(60):
            while "browsed" not in transport.calls:
                await asyncio.sleep(0)
        assert broker.queue(A).depth == 1

    run(scenario)


def test_a_closed_client_hears_nothing_more() -> None:
    async def scenario(broker: Broker, transport: Transport) -> None:
        request: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        transport.client.producer.send(transport.message("a"), request)
        transport.client.close()
        transport.client.close()
        calls = list(transport.calls)
        async with asyncio.timeout(60):
            while broker.completions.expected or broker.clients:
                await asyncio.sleep(0)
        assert (request.done(), transport.calls, calls.count("closed")) == (False, calls, 1)
        assert (broker.clients, broker.memory.uncommitted) == (set(), 0)

    run(scenario)


def test_two_clients_with_one_id() -> None:
    async def scenario(broker: Broker, transport: Transport) -> None:
        first, second = Transport(broker), Transport(broker)
        assert first.open("ann") is None
        refusal = second.open("ann")
        assert "Client: ann already connected from embedded" in str(refusal)
        told: list[bool] = []
        first.client.leave(None, lambda: told.append(True))
        first.client.close()
        third = Transport(broker)
        assert (told, third.open("ann")) == ([True], None)

    run(scenario)


def test_a_client_that_is_held_makes_no_requests() -> None:
    async def scenario(broker: Broker, transport: Transport) -> None:
        client = transport.client
        client.hold()
        client.hold()
        client.let_go()
        assert (client.is_held, transport.calls) == (True, ["pause"])
        client.let_go()
        assert (client.is_held, transport.calls) == (False, ["pause", "resume"])

    run(scenario)


def test_phases_lead_on_and_never_back() -> None:
    order = list(Phase)
    assert all(order.index(later) > order.index(phase) for phase, those in NEXT.items() for later in those)
    assert [phase for phase in Phase if not NEXT[phase]] == [Phase.CLOSED]
