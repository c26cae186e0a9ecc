"""The in-process client for programs with threads. `jdbcstore.client` has examples.

Each method of a `Connection` crosses into the broker's event loop and waits there for what its counterpart of
`jdbcstore.client.async_connection` does. So all of them may be called from any thread but the loop's own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack

from jdbcstore.broker.broker import Broker
from jdbcstore.client.async_connection import AsyncConnection, AsyncTransaction
from jdbcstore.client.mailbox import Mailbox
from jdbcstore.client.outgoing_message import Body, Outgoing, SendOptions, outgoing
from jdbcstore.client.port import Port
from jdbcstore.client.received import Arrival, Received, answer_to
from jdbcstore.client.subscribe_options import SubscribeOptions
from jdbcstore.client.thread_bridge import ThreadBridge, ended
from jdbcstore.destination import Destination
from jdbcstore.errors import ConnectionClosed

__all__ = ["Connection", "ReceivedMessage", "Subscription", "Transaction"]

#: How many messages of `send_nowait` may be unanswered; the next one waits.
_UNANSWERED_MAX: Final = 1000

T = TypeVar("T")


class ReceivedMessage(Received):
    """A message that was received, and has to be acknowledged unless its subscription's mode is auto."""

    __slots__ = ("_connection",)

    def __init__(self, arrival: Arrival, connection: Connection) -> None:
        super().__init__(arrival)
        self._connection = connection

    def acknowledge(self) -> None:
        """Be done with it; in mode cumulative also with those before it. Returns when that is committed.

        Raises:
            ProtocolError: it waits for no acknowledgement (any more).
            StoreError: it could not be stored. The message is still here, and may be acknowledged again.
            ConnectionClosed: the connection has ended; if the acknowledgement did not get through, the message is
                delivered again.
        """
        self._connection._acknowledge(self._arrival)

    def reject(self) -> None:
        """Refuse it: it becomes a dead letter, or is delivered again, as the destination's policies say."""
        self._connection._reject(self._arrival)


class Subscription:
    """A subscription: what has arrived waits here, to be received or iterated.

    Several threads may receive from it; each message goes to one of them. ``with`` closes it at the end.
    """

    def __init__(self, connection: Connection, mailbox: Mailbox, *, is_auto: bool) -> None:
        self._connection = connection
        self._mailbox = mailbox
        self._is_auto = is_auto

    def receive(self, timeout_s: float | None = None) -> ReceivedMessage:
        """The next message; waits for one.

        Args:
            timeout_s: how long to wait, in seconds; None for ever.

        Raises:
            TimeoutError: none came.
            ConnectionClosed: the subscription is closed, or the connection has ended.
            JdbcStoreError: the broker has ended the subscription, or could not store an acknowledgement of mode auto
                (raised once, the subscription goes on).
        """
        message = self._next(timeout_s)
        if message is None:
            raise ConnectionClosed("the subscription has come to its end")
        return message

    def _next(self, timeout_s: float | None = None) -> ReceivedMessage | None:
        return self._connection._take(self._mailbox, timeout_s, is_auto=self._is_auto)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage:
        """The next message; the iteration ends when the subscription is closed. Raises as `receive`."""
        message = self._next()
        if message is None:
            raise StopIteration
        return message

    def close(self) -> None:
        """End the subscription; what was not acknowledged goes back, first and in its old order.

        A durable one goes on collecting: `Connection.remove_durable` removes it.
        """
        self._connection._unsubscribe(self._mailbox)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transaction:
    """What is sent and acknowledged in it takes effect together at the end of the ``with``, or not at all.

    An exception rolls it back: nothing was sent, and what was acknowledged is still here, to be acknowledged again.
    """

    def __init__(self, bridge: ThreadBridge, transaction: AsyncTransaction) -> None:
        self._bridge = bridge
        self._transaction = transaction

    def send(self, destination: Destination | str, body: Body = None, **options: Unpack[SendOptions]) -> str:
        """Send a message with the commit. Returns its id. Arguments as `Connection.send`.

        Raises:
            ProtocolError: the transaction is full (`BrokerOptions.transaction_messages_max`).
        """
        return self._bridge.call(self._transaction.send(destination, body, **options))

    def reply(self, request: Received, body: Body = None, **options: Unpack[SendOptions]) -> str:
        """Answer a request with the commit; as `Connection.reply`."""
        return self._bridge.call(self._transaction.reply(request, body, **options))

    def acknowledge(self, message: Received) -> None:
        """Be done with a message with the commit. Raises as `ReceivedMessage.acknowledge`."""
        self._bridge.call(self._transaction.acknowledge(message))

    def __enter__(self) -> Self:
        self._bridge.call(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit: returns when it is stored. Raises what kept it from that; then it is rolled back."""
        if error is None or not self._bridge.is_gone:
            self._bridge.call(self._transaction.__aexit__(kind, error, traceback))


class Connection:
    """A connection to a broker in this process. Made by `jdbcstore.connect`; ``with`` closes it.

    May be used by several threads at once. Requests of one thread take effect in the order in which they are made.
    While the broker has to hold the connection back (the store, memory, slow subscribers of a topic) they wait; nothing
    is refused for that.

    Attributes:
        broker: may have other connections: ``jdbcstore.connect(connection.broker)``.
    """

    def __init__(self, bridge: ThreadBridge, connection: AsyncConnection, stop: Callable[[], None] | None) -> None:
        self.broker = connection.broker
        self._bridge = bridge
        self._connection = connection
        self._port = connection.port
        self._stop = stop
        self._room = threading.BoundedSemaphore(_UNANSWERED_MAX)
        #: What `send_nowait` has returned and is not answered.
        self._untold: set[Future[str]] = set()

    @classmethod
    def open(
        cls,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        opening: Callable[[], Coroutine[Any, Any, Port]],
        stop: Callable[[], None] | None = None,
    ) -> Self:
        """`jdbcstore.connect` uses this.

        Args:
            broker: runs in `loop`.
            loop: in another thread.
            opening: opens the port.
            stop: stops what was started for the connection.
        """
        bridge = ThreadBridge(loop)

        async def made() -> AsyncConnection:
            return AsyncConnection(broker, await opening())

        return cls(bridge, bridge.call(made()), stop)

    @property
    def client_id(self) -> str | None:
        """What it calls itself."""
        return self._connection.client_id

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or has ended: it does not come back."""
        return self._connection.is_closed

    # -- sending ---------------------------------------------------------------------------------------------------

    def send(self, destination: Destination | str, body: Body = None, **options: Unpack[SendOptions]) -> str:
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
        return self._call(self._sent(outgoing(destination, body, options)))

    async def _sent(self, message: Outgoing) -> str:
        return await self._port.send(message)

    def send_nowait(
        self, destination: Destination | str, body: Body = None, **options: Unpack[SendOptions]
    ) -> Future[str]:
        """Send a message without waiting for the commit; as `send`, what goes wrong is told by the future and `flush`.

        It waits all the same while a thousand messages are unanswered.
        """
        message = outgoing(destination, body, options)
        self._bridge.acquire(self._room)
        told: Future[str] = Future()
        told.set_running_or_notify_cancel()  # it cannot be cancelled
        self._untold.add(told)
        try:
            self._bridge.soon(self._send_soon, message, told)
        except ConnectionClosed:
            self._untold.discard(told)
            self._room.release()
            raise
        return told

    def _send_soon(self, message: Outgoing, told: Future[str]) -> None:
        def answered(future: asyncio.Future[str]) -> None:
            self._untold.discard(told)
            self._room.release()
            error = future.exception()
            if error is None:
                told.set_result(future.result())
            else:
                told.set_exception(error)

        future = self._port.send(message)
        self._connection.watch(future)
        if future.done():  # the loop may have no other turn
            answered(future)
        else:
            future.add_done_callback(answered)

    def flush(self) -> None:
        """Wait until all is answered that `send_nowait` has sent. Raises the first error since the last flush."""
        self._call(self._connection.flush())

    def request(
        self, destination: Destination | str, body: Body = None, *, timeout_s: float, **options: Unpack[SendOptions]
    ) -> ReceivedMessage:
        """Send a message and wait for the answer, which comes to a temporary queue of this connection.

        Args:
            destination, body, options: as `send`; `reply_to` is set.
            timeout_s: how long the answer may take, in seconds. One that comes later is dropped.

        Raises:
            TimeoutError: no answer came.
            JdbcStoreError: as `send`.
        """
        answer = self._call(self._connection.request(destination, body, timeout_s=timeout_s, **options))
        return ReceivedMessage(answer._arrival, self)

    def reply(self, request: Received, body: Body = None, **options: Unpack[SendOptions]) -> str:
        """Answer a request: to its `reply_to`, with its correlation id or else its message id. Otherwise as `send`.

        Raises:
            ValueError: it wants no answer.
            ProtocolError: whoever asked is gone.
        """
        return self._call(self._sent(answer_to(request, body, options)))

    def transaction(self) -> Transaction:
        """A transaction, for ``with``. Threads may have one each."""
        return Transaction(self._bridge, self._connection.transaction())

    def temporary_queue(self) -> Destination:
        """A new queue that lives as long as the connection. Everybody may send to it, only this one may receive."""
        return self._call(self._connection.temporary_queue())

    def temporary_topic(self) -> Destination:
        """A new topic that lives as long as the connection; likewise."""
        return self._call(self._connection.temporary_topic())

    # -- receiving -------------------------------------------------------------------------------------------------

    def subscribe(self, destination: Destination | str, **options: Unpack[SubscribeOptions]) -> Subscription:
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
        made = self._call(self._connection.subscribe(destination, **options))
        return Subscription(self, made.mailbox, is_auto=made.is_auto)

    def browse(self, destination: Destination | str, *, selector: str | None = None) -> Subscription:
        """What is in a queue now, to be iterated; nothing is taken out of it, and there is nothing to acknowledge.

        Args:
            destination: a queue, or several with commas between.
            selector: a SQL-92 condition; None for all messages.

        Raises:
            ProtocolError: a topic or a wildcard; otherwise as `subscribe`.
        """
        made = self._call(self._connection.browse(destination, selector=selector))
        return Subscription(self, made.mailbox, is_auto=made.is_auto)

    def remove_durable(self, name: str) -> None:
        """Remove a durable subscription of this connection's client id for good, with all that waits for it.

        Raises:
            ProtocolError: somebody uses it, there is none of this name, or the connection has no client id.
        """
        self._call(self._connection.remove_durable(name))

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection: what was sent is answered first, what was not acknowledged goes back to its queues.

        A broker that `connect` has started is stopped, and its other connections end.

        Raises:
            JdbcStoreError: what `flush` would raise, or what ended that broker by itself. The connection is closed.
        """
        stop, self._stop = self._stop, None
        try:
            if not self._bridge.is_gone:
                self._call(self._connection.close())
        finally:
            if stop is not None:
                stop()
            if self._bridge.is_gone:
                self._tell_untold()

    def _tell_untold(self) -> None:
        """What other threads have sent while the loop came to its end: nobody else answers."""
        while True:
            try:
                told = self._untold.pop()
            except KeyError:  # also if who has sent it has just taken it back
                return
            told.set_exception(ended(is_unknown=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as trouble:
            if error is None:
                raise
            error.add_note(f"closing the connection failed, too: {trouble!r}")

    # -- for what belongs to it --------------------------------------------------------------------------------------

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._bridge.call(coroutine)

    def _take(self, mailbox: Mailbox, timeout_s: float | None, *, is_auto: bool) -> ReceivedMessage | None:
        arrival = self._bridge.call(
            mailbox.take(timeout_s), lambda untaken: None if untaken is None else mailbox.put_back(untaken)
        )
        if arrival is None:
            return None
        if is_auto:  # from here on the program has it
            self._bridge.soon(self._port.acknowledge_taken, arrival)
        return ReceivedMessage(arrival, self)

    def _unsubscribe(self, mailbox: Mailbox) -> None:
        async def unsubscribed() -> None:
            if not mailbox.is_ended:
                await self._port.unsubscribe(mailbox)

        if not self.is_closed:
            self._call(unsubscribed())

    def _acknowledge(self, arrival: Arrival) -> None:
        async def acknowledged() -> None:
            await self._port.acknowledge(arrival)

        self._call(acknowledged())

    def _reject(self, arrival: Arrival) -> None:
        async def rejected() -> None:
            await self._port.reject(arrival)

        self._call(rejected())
