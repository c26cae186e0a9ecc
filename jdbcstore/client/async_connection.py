"""The in-process client for programs on asyncio. `jdbcstore.client` has examples."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from types import TracebackType
from typing import Self, Unpack

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.subscription_request import AcknowledgeMode
from jdbcstore.client.mailbox import Mailbox
from jdbcstore.client.outgoing_message import Body, SendOptions, outgoing
from jdbcstore.client.port import Port
from jdbcstore.client.received import Arrival, Received, answer_to
from jdbcstore.client.replies import Replies
from jdbcstore.client.subscribe_options import SubscribeOptions, subscription_request
from jdbcstore.destination import Destination
from jdbcstore.errors import ConnectionClosed

__all__ = ["AsyncConnection", "AsyncReceivedMessage", "AsyncSubscription", "AsyncTransaction"]


class AsyncReceivedMessage(Received):
    """A message that was received, and has to be acknowledged unless its subscription's mode is auto.

    Args:
        arrival: what was delivered.
        port: to acknowledge it by.
    """

    __slots__ = ("_port",)

    def __init__(self, arrival: Arrival, port: Port) -> None:
        super().__init__(arrival)
        self._port = port

    async def acknowledge(self) -> None:
        """Be done with it; in mode cumulative also with those before it. Returns when that is committed.

        Raises:
            ProtocolError: it waits for no acknowledgement (any more).
            StoreError: it could not be stored. The message is still here, and may be acknowledged again.
            ConnectionClosed: the connection has ended; if the acknowledgement did not get through, the message is
                delivered again.
        """
        await self._port.acknowledge(self._arrival)

    async def reject(self) -> None:
        """Refuse it: it becomes a dead letter, or is delivered again, as the destination's policies say."""
        await self._port.reject(self._arrival)


class AsyncSubscription:
    """A subscription: what has arrived waits here, to be received or iterated.

    Several tasks may receive from it; each message goes to one of them. ``async with`` closes it at the end.
    """

    def __init__(self, port: Port, mailbox: Mailbox, *, is_auto: bool) -> None:
        self.mailbox = mailbox
        self.is_auto = is_auto
        self._port = port

    async def receive(self, timeout_s: float | None = None) -> AsyncReceivedMessage:
        """The next message; waits for one. Cancelling this loses nothing.

        Args:
            timeout_s: how long to wait, in seconds; None for ever.

        Raises:
            TimeoutError: none came.
            ConnectionClosed: the subscription is closed, or the connection has ended.
            JdbcStoreError: the broker has ended the subscription, or could not store an acknowledgement of mode auto
                (raised once, the subscription goes on).
        """
        arrival = await self.mailbox.take(timeout_s)
        if arrival is None:
            raise ConnectionClosed("the subscription has come to its end")
        return self._hand_over(arrival)

    def _hand_over(self, arrival: Arrival) -> AsyncReceivedMessage:
        if self.is_auto:
            self._port.acknowledge_taken(arrival)
        return AsyncReceivedMessage(arrival, self._port)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncReceivedMessage:
        """The next message; the iteration ends when the subscription is closed. Raises as `receive`."""
        arrival = await self.mailbox.take()
        if arrival is None:
            raise StopAsyncIteration
        return self._hand_over(arrival)

    async def close(self) -> None:
        """End the subscription; what was not acknowledged goes back, first and in its old order.

        A durable one goes on collecting: `AsyncConnection.remove_durable` removes it.
        """
        if not (self.mailbox.is_ended or self._port.is_over):
            await self._port.unsubscribe(self.mailbox)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncTransaction:
    """What is sent and acknowledged in it takes effect together at the end of the ``async with``, or not at all.

    An exception rolls it back: nothing was sent, and what was acknowledged is still here, to be acknowledged again.
    """

    def __init__(self, port: Port, name: str) -> None:
        self._port = port
        self._name = name

    async def send(self, destination: Destination | str, body: Body = None, **options: Unpack[SendOptions]) -> str:
        """Send a message with the commit. Returns its id. Arguments as `AsyncConnection.send`.

        Raises:
            ProtocolError: the transaction is full (`BrokerOptions.transaction_messages_max`).
        """
        return await self._port.send(outgoing(destination, body, options), self._name)

    async def reply(self, request: Received, body: Body = None, **options: Unpack[SendOptions]) -> str:
        """Answer a request with the commit; as `AsyncConnection.reply`."""
        return await self._port.send(answer_to(request, body, options), self._name)

    async def acknowledge(self, message: Received) -> None:
        """Be done with a message with the commit. Raises as `AsyncReceivedMessage.acknowledge`."""
        await self._port.acknowledge(message._arrival, self._name)

    async def __aenter__(self) -> Self:
        await self._port.begin(self._name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit: returns when it is stored. Raises what kept it from that; then it is rolled back."""
        if error is None:
            await self._port.commit(self._name)
        elif not self._port.is_over:  # else the end of the connection has rolled it back
            await self._port.abort(self._name)


class AsyncConnection:
    """A connection to a broker in this process. Made by `jdbcstore.connect_async`; ``async with`` closes it.

    Requests take effect in the order in which they are made. While the broker has to hold the connection back (the
    store, memory, slow subscribers of a topic) they wait; nothing is refused for that.

    Args:
        port: open.
        retire: stops what was started for the connection.

    Attributes:
        broker: may have other connections: ``jdbcstore.connect_async(connection.broker)``.
    """

    def __init__(self, broker: Broker, port: Port, retire: Callable[[], Awaitable[None]] | None = None) -> None:
        self.broker = broker
        self.port = port
        self._retire = retire
        self._replies = Replies(port)
        self._names = count(1)
        self._unanswered: set[asyncio.Future[str]] = set()
        self._error: BaseException | None = None

    @property
    def client_id(self) -> str | None:
        """What it calls itself."""
        return self.port.client.client_id

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or has ended: it does not come back."""
        return self.port.is_over

    # -- sending ---------------------------------------------------------------------------------------------------

    async def send(self, destination: Destination | str, body: Body = None, **options: Unpack[SendOptions]) -> str:
        """Send a message. Returns its id when the message is safe: a persistent one is committed then.

        Args:
            destination: ``ORDERS`` or ``queue://ORDERS``, ``topic://PRICES``, several with commas between, or a
                `Destination`.
            body: a text, bytes, a map, a sequence of values, or nothing.
            options: `SendOptions`: properties, persistent, priority, ttl_ms, delay_ms, reply_to, ….

        Raises:
            ConfigurationError, CodecError, TypeError, ValueError: an argument is not what it can be.
            ProtocolError, NotAuthorized: the message may not be sent there.
            StoreError: it could not be stored; of `OutcomeUnknown` nobody knows.
            ConnectionClosed: the connection has ended; `ConnectionClosed.is_unknown` tells whether the message may be
                stored.
        """
        return await self.port.send(outgoing(destination, body, options))

    def send_nowait(
        self, destination: Destination | str, body: Body = None, **options: Unpack[SendOptions]
    ) -> asyncio.Future[str]:
        """Send a message without waiting for the commit; as `send`, what goes wrong is told by the future.

        Nothing holds back who calls this: ``await flush()`` now and then.
        """
        future = self.port.send(outgoing(destination, body, options))
        self.watch(future)
        return future

    def watch(self, future: asyncio.Future[str]) -> None:
        """Have `flush` wait for an answer, and raise its error."""
        if future.done():
            self._answered(future)
        else:
            self._unanswered.add(future)
            future.add_done_callback(self._answered)

    def _answered(self, future: asyncio.Future[str]) -> None:
        self._unanswered.discard(future)
        if not future.cancelled():
            error = future.exception()
            self._error = self._error or error

    async def flush(self) -> None:
        """Wait until all is answered that `send_nowait` has sent. Raises the first error since the last flush."""
        while self._unanswered:
            await asyncio.wait(self._unanswered)
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def request(
        self, destination: Destination | str, body: Body = None, *, timeout_s: float, **options: Unpack[SendOptions]
    ) -> AsyncReceivedMessage:
        """Send a message and wait for the answer, which comes to a temporary queue of this connection.

        Args:
            destination, body, options: as `send`; `reply_to` is set.
            timeout_s: how long the answer may take, in seconds. One that comes later is dropped.

        Raises:
            TimeoutError: no answer came.
            JdbcStoreError: as `send`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                arrival = await self._answer(destination, body, options)
        except TimeoutError:
            raise TimeoutError(f"no answer came from {destination} within {timeout_s:g} s") from None
        return AsyncReceivedMessage(arrival, self.port)

    async def _answer(self, destination: Destination | str, body: Body, options: SendOptions) -> Arrival:
        reply_to = await self._replies.destination()
        correlation_id = options.get("correlation_id") or f"{self.port.client.connection_id}:{next(self._names)}"
        answer = self._replies.expect(correlation_id)
        try:
            options["reply_to"], options["correlation_id"] = reply_to, correlation_id
            await self.port.send(outgoing(destination, body, options))
            return await answer
        finally:
            answer.cancel()

    async def reply(self, request: Received, body: Body = None, **options: Unpack[SendOptions]) -> str:
        """Answer a request: to its `reply_to`, with its correlation id or else its message id. Otherwise as `send`.

        Raises:
            ValueError: it wants no answer.
            ProtocolError: whoever asked is gone.
        """
        return await self.port.send(answer_to(request, body, options))

    def transaction(self) -> AsyncTransaction:
        """A transaction, for ``async with``."""
        return AsyncTransaction(self.port, f"transaction-{next(self._names)}")

    async def temporary_queue(self) -> Destination:
        """A new queue that lives as long as the connection. Everybody may send to it, only this one may receive."""
        return await self.port.temporary(is_queue=True)

    async def temporary_topic(self) -> Destination:
        """A new topic that lives as long as the connection; likewise."""
        return await self.port.temporary(is_queue=False)

    # -- receiving -------------------------------------------------------------------------------------------------

    async def subscribe(self, destination: Destination | str, **options: Unpack[SubscribeOptions]) -> AsyncSubscription:
        """Subscribe to queues, or to topics.

        Args:
            destination: ``ORDERS``, ``topic://PRICES``, several with commas between, or with wildcards: ``*`` is one
                element of a name, ``>`` is all the rest (``topic://PRICES.>``).
            options: `SubscribeOptions`: mode, selector, prefetch, durable, ….

        Raises:
            ConfigurationError, ValueError: an argument is not what it can be.
            SelectorError: the selector is none.
            ProtocolError, NotAuthorized: the broker refuses it.
            StoreError: a durable subscription could not be stored.
            ConnectionClosed: the connection has ended.
        """
        mailbox = Mailbox(self.port.next_key(), str(destination))
        await self.port.subscribe(subscription_request(destination, mailbox, options), mailbox)
        is_auto = AcknowledgeMode(options.get("mode", AcknowledgeMode.INDIVIDUAL)) is AcknowledgeMode.AUTO
        return AsyncSubscription(self.port, mailbox, is_auto=is_auto)

    async def browse(self, destination: Destination | str, *, selector: str | None = None) -> AsyncSubscription:
        """What is in a queue now, to be iterated; nothing is taken out of it, and there is nothing to acknowledge.

        Args:
            destination: a queue, or several with commas between.
            selector: a SQL-92 condition; None for all messages.

        Raises:
            ProtocolError: a topic or a wildcard; otherwise as `subscribe`.
        """
        mailbox = Mailbox(self.port.next_key(), str(destination))
        wanted = subscription_request(destination, mailbox, {"selector": selector}, is_browser=True)
        await self.port.subscribe(wanted, mailbox)
        return AsyncSubscription(self.port, mailbox, is_auto=True)

    async def remove_durable(self, name: str) -> None:
        """Remove a durable subscription of this connection's client id for good, with all that waits for it.

        Raises:
            ProtocolError: somebody uses it, there is none of this name, or the connection has no client id.
        """
        await self.port.remove_durable(name)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the connection: what was sent is answered first, what was not acknowledged goes back to its queues.

        A broker that `connect_async` has started is stopped, and its other connections end.

        Raises:
            JdbcStoreError: what `flush` would raise, or what ended that broker by itself. The connection is closed.
        """
        try:
            await self.port.close()
        finally:
            retire, self._retire = self._retire, None
            if retire is not None:
                await retire()
        await self.flush()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except Exception as trouble:
            if error is None:
                raise
            error.add_note(f"closing the connection failed, too: {trouble!r}")
