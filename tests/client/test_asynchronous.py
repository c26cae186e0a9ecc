"""The face for asyncio: pipelining, cancelling, iterating, several tasks; the rest is what threads get."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import jdbcstore
from jdbcstore import AsyncConnection, BrokerOptions, ConnectionClosed, LockHeld, ProtocolError, Queue
from jdbcstore.client.outgoing_message import Body

Scenario = Callable[[AsyncConnection], Awaitable[None]]


def play(url: str, scenario: Scenario, **options: int) -> None:
    async def main() -> None:
        async with jdbcstore.connect_async(url, options=BrokerOptions(**options)) as connection:  # type: ignore[arg-type]
            await asyncio.wait_for(scenario(connection), 60)
        assert connection.is_closed

    asyncio.run(main())


async def bodies(connection: AsyncConnection, destination: str) -> list[Body]:
    return [message.body async for message in await connection.browse(destination)]


def test_what_is_gathered_is_stored_in_order(url: str) -> None:
    async def scenario(connection: AsyncConnection) -> None:
        ids = await asyncio.gather(*(connection.send("A", str(number)) for number in range(500)))
        assert len(set(ids)) == 500
        assert await bodies(connection, "A") == [str(number) for number in range(500)]
        orders = await connection.subscribe("A")
        messages = [await orders.receive(30) for _ in range(500)]
        await asyncio.gather(*(message.acknowledge() for message in messages))
        assert await bodies(connection, "A") == []

    play(url, scenario)


def test_acknowledgements_of_one_turn_are_one_write(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(connection: AsyncConnection) -> None:
        for number in range(20):
            connection.send_nowait("A", str(number))
        await connection.flush()
        consumers = connection.port.client.consumers
        settled: list[int] = []
        settle = consumers.settle

        def counted(request: object = None) -> None:
            settled.append(len(consumers.acknowledged))
            settle(request)

        monkeypatch.setattr(consumers, "settle", counted)
        async with await connection.subscribe("A") as orders:
            messages = [await orders.receive(30) for _ in range(20)]
            await asyncio.gather(*(message.acknowledge() for message in messages))
            assert settled == [20]

    play(url, scenario)


def test_who_is_held_back_goes_on_in_order(url: str) -> None:
    async def scenario(connection: AsyncConnection) -> None:
        client = connection.port.client
        client.hold()
        sends = [asyncio.ensure_future(connection.send("A", str(number))) for number in range(5)]
        subscribing = asyncio.ensure_future(connection.subscribe("A", mode="auto"))
        await asyncio.sleep(0)
        assert not any(send.done() for send in sends)
        assert client.memory.kept > 5 * 640  # what waits is counted
        sends[3].cancel()  # it was not begun
        await asyncio.sleep(0)
        client.let_go()
        orders = await subscribing
        assert [(await orders.receive(30)).body for _ in range(4)] == ["0", "1", "2", "4"]

    play(url, scenario)


def test_large_messages_beyond_the_limit_of_what_is_uncommitted_wait_and_arrive(sqlite_url: str) -> None:
    async def scenario(connection: AsyncConnection) -> None:
        large = "x" * 100_000
        await asyncio.gather(*(connection.send("A", large, properties={"n": number}) for number in range(100)))
        assert [message.properties["n"] async for message in await connection.browse("A")] == list(range(100))

    play(sqlite_url, scenario, uncommitted_bytes_max=300_000)


def test_cancelling_a_receiver_loses_nothing(url: str) -> None:
    async def scenario(connection: AsyncConnection) -> None:
        orders = await connection.subscribe("A", mode="auto")
        waiting = [asyncio.ensure_future(orders.receive()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await connection.send("A", "1")
        await connection.send("A", "2")
        assert [(await asyncio.wait_for(receiver, 30)).body for receiver in waiting[1:]] == ["1", "2"]

    play(url, scenario)


def test_a_woken_receiver_that_is_cancelled_wakes_another(url: str) -> None:
    async def scenario(connection: AsyncConnection) -> None:
        orders = await connection.subscribe("A", mode="auto")
        first, second = asyncio.ensure_future(orders.receive()), asyncio.ensure_future(orders.receive())
        await asyncio.sleep(0)
        mailbox = orders.mailbox
        woken = mailbox._waiters[0]
        sending = asyncio.ensure_future(connection.send("A", "1"))
        while not woken.done():
            await asyncio.sleep(0)
        first.cancel()
        assert (await asyncio.wait_for(second, 30)).body == "1"
        await sending

    play(url, scenario)


def test_iterating_ends_with_the_subscription(url: str) -> None:
    async def scenario(connection: AsyncConnection) -> None:
        got = []
        await connection.send("A,B", "x")
        orders = await connection.subscribe("A,B")
        async for message in orders:
            got.append(message.destination)
            await message.acknowledge()
            if len(got) == 2:
                await orders.close()
        assert got == [Queue("A"), Queue("B")]
        with pytest.raises(ConnectionClosed):
            await orders.receive()

    play(url, scenario)


def test_transactions_and_requests(url: str) -> None:
    async def scenario(connection: AsyncConnection) -> None:
        async def serve() -> None:
            async for question in await connection.subscribe("QUESTIONS"):
                async with connection.transaction() as transaction:
                    await transaction.acknowledge(question)
                    await transaction.reply(question, f"{question.body}!")

        server = asyncio.ensure_future(serve())
        answers = await asyncio.gather(
            *(connection.request("QUESTIONS", str(number), timeout_s=30) for number in range(10))
        )
        assert [answer.body for answer in answers] == [f"{number}!" for number in range(10)]
        with pytest.raises(TimeoutError):
            await connection.request("NOBODY", "x", timeout_s=0.05)
        server.cancel()
        transaction = await connection.transaction().__aenter__()
        await transaction.send("A", "x")
        await transaction.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
        assert await bodies(connection, "A") == []

    play(url, scenario)


def test_a_request_that_waits_for_its_answer_is_told_of_the_end() -> None:
    async def scenario(connection: AsyncConnection) -> None:
        async with jdbcstore.connect_async(connection.broker) as other:
            asking = asyncio.ensure_future(other.request("QUESTIONS", "x", timeout_s=60))
            questions = await connection.subscribe("QUESTIONS")
            await questions.receive(30)
            other.port.client.disconnect("go away", reason="a test")
            with pytest.raises(ConnectionClosed, match="go away"):
                await asking
            assert other.is_closed

    play("memory:", scenario)


def test_await_and_close_without_a_block() -> None:
    async def main() -> None:
        connection = await jdbcstore.connect_async("memory:", client_id="shop")
        assert connection.client_id == "shop"
        assert not (await connection.temporary_queue()).is_topic
        await connection.close()
        await connection.close()
        with pytest.raises(ConnectionClosed):
            await connection.send("A", "x")

    asyncio.run(main())


def test_a_broker_of_another_loop_and_a_standby_are_told(sqlite_url: str) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            await jdbcstore.connect_async(connection.broker)
        with pytest.raises(LockHeld):
            await jdbcstore.connect_async(sqlite_url)
        with pytest.raises(LockHeld):
            await jdbcstore.connect_async(sqlite_url, master_timeout_s=0.1)

    with jdbcstore.connect(sqlite_url) as connection:
        asyncio.run(main())


def test_what_fails_without_waiting_is_told_by_flush_or_the_end() -> None:
    async def scenario(connection: AsyncConnection) -> None:
        connection.send_nowait("A.>", "x")
        with pytest.raises(ProtocolError, match="wildcard"):
            await connection.flush()
        await connection.flush()

    play("memory:", scenario)


def test_a_close_answers_what_was_sent_before(sqlite_url: str) -> None:
    async def main() -> None:
        connection = await jdbcstore.connect_async(sqlite_url)
        sent = [connection.send_nowait("A", str(number)) for number in range(200)]
        await connection.close()
        assert all(future.done() and future.exception() is None for future in sent)
        async with jdbcstore.connect_async(sqlite_url) as again:
            assert await bodies(again, "A") == [str(number) for number in range(200)]

    asyncio.run(main())


def test_who_cancels_subscribing_has_no_subscription(url: str) -> None:
    async def scenario(connection: AsyncConnection) -> None:
        client = connection.port.client
        subscribing = asyncio.ensure_future(connection.subscribe("topic://PRICES", durable="audit"))
        while not client.consumers.by_key:
            await asyncio.sleep(0)
        subscribing.cancel()  # the store has not answered, in the case of SQLite
        with pytest.raises(asyncio.CancelledError):
            await subscribing
        async with await connection.subscribe("topic://PRICES", durable="audit") as audit:
            await connection.send("topic://PRICES", "1")
            assert (await audit.receive(30)).body == "1"
        client.hold()
        subscribing = asyncio.ensure_future(connection.subscribe("A"))
        await asyncio.sleep(0)
        subscribing.cancel()
        client.let_go()
        with pytest.raises(asyncio.CancelledError):
            await subscribing
        await connection.send("A", "2")
        assert not client.consumers.by_key

    async def main() -> None:
        async with jdbcstore.connect_async(url, client_id="shop") as connection:
            await asyncio.wait_for(scenario(connection), 60)

    asyncio.run(main())
