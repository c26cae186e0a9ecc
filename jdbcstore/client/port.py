"""One client of the broker's face (`jdbcstore.broker.client`): its requests are futures, its deliveries mailboxes.

This is all that a transport is: `jdbcstore.client.async_connection` and `jdbcstore.client.connection` are comfort on
top of it. Everything happens in the broker's event loop.

**Requests** are made in the order in which they are asked for (`jdbcstore.client.requests`).

**The end.** Whatever ends the connection, every future is answered: with what the store has said, or with
`ConnectionClosed`, which tells whether the request may have taken effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Any

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.client import Client
from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.security.login import Credentials
from jdbcstore.broker.subscription_request import SubscriptionRequest
from jdbcstore.client.mailbox import Mailbox
from jdbcstore.client.outgoing_message import Outgoing
from jdbcstore.client.received import Arrival
from jdbcstore.client.requests import Requests, Run
from jdbcstore.destination import Destination
from jdbcstore.errors import ConnectionClosed, ProtocolError
from jdbcstore.store.lease import boot_time_ns
from jdbcstore.subscription import SubscriptionKey

__all__ = ["Port"]

log = logging.getLogger(__name__)

_numbers = count(1)


class Port:
    """A client in the process of its broker.

    Args:
        broker: master, and running in this event loop.

    Attributes:
        client: what it is to the broker.
        peer: what it is called in logs.
    """

    protocol = "in-process"

    def __init__(self, broker: Broker) -> None:
        self.peer = f"in-process:{next(_numbers)}"
        self._broker = broker
        self.client = Client(broker, self)
        broker.clients.add(self.client)
        self._requests = Requests(self.client, broker.loop)
        self._mailboxes: dict[str, Mailbox] = {}
        self._keys = count(1)
        #: Why it has ended; None as long as nobody but the application has ended it.
        self._reason: str | None = None
        self._is_leaving = False

    # -- its life --------------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._is_leaving or self.client.is_over

    async def open(self, client_id: str | None, login: str | None, passcode: str | None) -> None:
        """Be let in. Raises LoginRefused, ProtocolError if the client id is taken; the port is closed then."""
        decided: asyncio.Future[None] = self._broker.loop.create_future()
        self._requests.begun(decided)
        try:
            self._look_at_trust()
            if self.is_over:
                raise self._ended(is_unknown=False)
            self.client.open(
                client_id, Credentials(login, passcode), lambda error: self._requests.answer(decided, error)
            )
            await decided
        except BaseException:
            decided.cancel()
            self.client.close()
            raise

    async def close(self) -> None:
        """Say goodbye: everything that was asked for is answered before, what is not acknowledged goes back."""
        if not self.is_over:
            left = self.ask(lambda future: self.client.leave(future, lambda: self._requests.answer(future)))
            self._is_leaving = True
            for mailbox in self._take_mailboxes():
                mailbox.end()
            try:
                await left
            except ConnectionClosed:
                log.debug("the broker has ended a connection that was closing peer=%s", self.peer)
            finally:
                self.client.end()
                self.client.close()

    def _look_at_trust(self) -> None:
        """Who is not sure to be master any more, a process that was stopped and goes on say, is asked for nothing."""
        if boot_time_ns() >= self._broker.trusted_until_ns:
            self._broker.distrust()

    def _ended(self, *, is_unknown: bool) -> ConnectionClosed:
        why = self._reason or ("it was closed" if self._is_leaving else "the broker has stopped")
        then = "it may have taken effect or not" if is_unknown else "nothing was done"
        return ConnectionClosed(f"The connection has ended ({why}): {then}", is_unknown=is_unknown)

    def _take_mailboxes(self) -> list[Mailbox]:
        mailboxes = list(self._mailboxes.values())
        self._mailboxes.clear()
        return mailboxes

    # -- requests --------------------------------------------------------------------------------------------------

    def ask(self, run: Run, size: int = 0, *, is_acknowledgement: bool = False) -> asyncio.Future[Any]:
        """Make a request, in its turn: as `Requests.ask`; when the connection has ended, it is refused."""
        self._look_at_trust()
        if self.is_over:
            refused = self._broker.loop.create_future()
            refused.set_exception(self._ended(is_unknown=False))
            return refused
        return self._requests.ask(run, size, is_acknowledgement=is_acknowledgement)

    # -- what the broker says --------------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """A message for a subscription."""
        if delivery.message is None:
            raise ValueError(f"{delivery!r} holds no message")
        message = delivery.message.copy()
        message.redelivery_counter = delivery.redeliveries
        mailbox = consumer.tag
        if isinstance(mailbox, Mailbox):
            mailbox.put(Arrival(consumer, delivery, message))

    def completed(self, request: object, error: BaseException | None, *, is_fatal: bool = False) -> None:
        """A request is a future, or a list of them."""
        if isinstance(request, asyncio.Future):
            self._requests.answer(request, error)
        elif isinstance(request, list):
            for future in request:
                self._requests.answer(future, error)
        elif error is not None:
            self._subscriptions_failed(error)
        if is_fatal:
            self.dismiss(str(error))

    def _subscriptions_failed(self, error: BaseException) -> None:
        """The broker has ended subscriptions, it does not say which."""
        consumers = self.client.consumers.by_key
        for key, mailbox in list(self._mailboxes.items()):
            consumer = consumers.get(key)
            if consumer is None or consumer.is_closed:
                del self._mailboxes[key]
                mailbox.end(error)

    def browsed(self, consumer: Consumer) -> None:
        """A browser has shown everything: it is of no use any more."""
        mailbox = consumer.tag
        if isinstance(mailbox, Mailbox):
            mailbox.finish()
            self.unsubscribe(mailbox).add_done_callback(_retrieved)

    def pause(self) -> None:
        """Nothing: `Client.is_held` is looked at."""

    def resume(self) -> None:
        """Go on in another turn of the loop."""
        self._requests.resume()

    def write(self) -> None:
        """There is nothing to be written."""

    def dismiss(self, text: str) -> None:
        """The broker ends the connection."""
        if self._reason is None:
            self._reason = text
        self.client.end()
        self._broker.loop.call_soon(self.client.close)

    def cut(self, reason: str) -> None:
        """Likewise; `Client.close` follows."""
        self._reason = self._reason or reason

    def probe(self, told: Callable[[bool], object]) -> None:
        """The client lives as long as its broker."""
        told(not self.client.is_over)

    def closed(self) -> None:
        """The client is gone: answer all who wait."""
        self._requests.end(self._ended(is_unknown=False), self._ended(is_unknown=True))
        for mailbox in self._take_mailboxes():
            mailbox.end(self._ended(is_unknown=False))

    # -- sending ---------------------------------------------------------------------------------------------------

    def send(self, outgoing: Outgoing, transaction: str | None = None) -> asyncio.Future[str]:
        """Send a message. The future gives its id: when it is stored, or kept in the transaction."""
        return self.ask(lambda future: self._send(outgoing, future, transaction), outgoing.message.size)

    def _send(self, outgoing: Outgoing, future: asyncio.Future[Any], transaction: str | None) -> bool:
        client, memory, broker = self.client, self.client.memory, self._broker
        if outgoing.is_delayed and not broker.options.scheduler_support:
            raise ProtocolError("delay_ms needs a broker that keeps messages for later: set its scheduler_support")
        if (memory.uncommitted > memory.uncommitted_max or memory.is_short) and not client.producer.may_send(
            is_persistent=outgoing.message.persistent,
            is_temporary=outgoing.message.destination is not None and outgoing.message.destination.is_temporary,
            is_in_transaction=transaction is not None,
        ):
            return False
        if (number := outgoing.number) is not None:
            message_id = outgoing.id_of(number)
            self._requests.begun(future, str(message_id))
            return client.producer.send_numbered(
                number, lambda: outgoing.stamped(message_id, broker.now_ms()), future, transaction
            )
        message = outgoing.stamped(client.producer.next_message_id(), broker.now_ms())
        self._requests.begun(future, str(message.message_id))
        client.producer.send(message, future, transaction)
        return True

    def temporary(self, *, is_queue: bool) -> asyncio.Future[Destination]:
        """A new temporary destination, which lives as long as the connection."""
        name = f"temporary-{next(self._keys)}"

        def run(future: asyncio.Future[Any]) -> None:
            self._requests.begun(future, self.client.temporaries.get(name, is_queue=is_queue))
            self._requests.answer(future)

        return self.ask(run)

    # -- receiving -------------------------------------------------------------------------------------------------

    def next_key(self) -> str:
        """Names a subscription."""
        return f"subscription-{next(self._keys)}"

    async def subscribe(self, wanted: SubscriptionRequest, mailbox: Mailbox) -> None:
        """Begin a subscription, whose `SubscriptionRequest.tag` is the mailbox and whose key is the mailbox's.

        Who cancels this has none.
        """

        def run(future: asyncio.Future[Any]) -> None:
            self._mailboxes[mailbox.key] = mailbox
            self.client.consumers.subscribe(wanted, future)

        try:
            await self.ask(run)
        except asyncio.CancelledError:
            self.unsubscribe(mailbox).add_done_callback(_retrieved)
            raise
        except BaseException:
            self._mailboxes.pop(mailbox.key, None)
            raise

    def unsubscribe(self, mailbox: Mailbox) -> asyncio.Future[None]:
        """End a subscription; what was not acknowledged goes back."""
        self._mailboxes.pop(mailbox.key, None)
        mailbox.end()

        def run(future: asyncio.Future[Any]) -> None:
            if mailbox.key in self.client.consumers.by_key:
                self.client.consumers.unsubscribe(mailbox.key, future)
            else:
                self._requests.answer(future)

        return self.ask(run)

    def remove_durable(self, subscription_name: str) -> asyncio.Future[None]:
        """Remove a durable subscription for good."""

        def run(future: asyncio.Future[Any]) -> None:
            if self.client.client_id is None:
                raise ProtocolError("A durable subscription belongs to a client id: connect with one")
            self.client.consumers.remove_durable(SubscriptionKey(self.client.client_id, subscription_name), future)

        return self.ask(run)

    # -- acknowledging ---------------------------------------------------------------------------------------------

    def acknowledge(self, arrival: Arrival, transaction: str | None = None) -> asyncio.Future[None]:
        """Be done with a message; in mode cumulative also with those before it."""
        return self.ask(
            lambda future: self._acknowledge(arrival, future, transaction), is_acknowledgement=transaction is None
        )

    def _acknowledge(self, arrival: Arrival, future: asyncio.Future[Any], transaction: str | None) -> None:
        consumer, delivery = arrival.consumer, arrival.delivery
        _check_pending(arrival)
        if transaction is not None:
            self.client.consumers.acknowledge(consumer, delivery, future, transaction)
            return
        self._requests.acknowledge(consumer, delivery, future)

    def acknowledge_taken(self, arrival: Arrival) -> None:
        """Acknowledge what a subscription of mode auto has handed over; who receives next hears if that fails."""
        mailbox = arrival.consumer.tag
        if isinstance(mailbox, Mailbox) and mailbox.is_ended:
            return  # a browser that has shown everything

        def told(future: asyncio.Future[None]) -> None:
            error = None if future.cancelled() else future.exception()
            if error is not None and isinstance(mailbox, Mailbox) and not mailbox.is_ended:
                mailbox.trouble(error)

        self.acknowledge(arrival).add_done_callback(told)

    def reject(self, arrival: Arrival) -> asyncio.Future[None]:
        """Refuse a message: it becomes a dead letter."""

        def run(future: asyncio.Future[Any]) -> None:
            _check_pending(arrival)
            self.client.consumers.reject(arrival.consumer, arrival.delivery, future)

        return self.ask(run)

    # -- transactions ----------------------------------------------------------------------------------------------

    def begin(self, name: str) -> asyncio.Future[None]:
        """Begin a transaction."""
        return self._at_once(lambda: self.client.transactions.begin(name))

    def commit(self, name: str) -> asyncio.Future[None]:
        """Let a transaction take effect; if that fails it is rolled back."""
        return self.ask(lambda future: self.client.transactions.commit(name, future))

    def abort(self, name: str) -> asyncio.Future[None]:
        """Roll a transaction back."""
        return self._at_once(lambda: self.client.transactions.abort(name))

    def _at_once(self, act: Callable[[], None]) -> asyncio.Future[None]:
        def run(future: asyncio.Future[Any]) -> None:
            act()
            self._requests.answer(future)

        return self.ask(run)


def _retrieved(future: asyncio.Future[Any]) -> None:
    """What becomes of it is nobody's concern."""
    if not future.cancelled():
        future.exception()


def _check_pending(arrival: Arrival) -> None:
    delivery = arrival.delivery
    if arrival.consumer.unacknowledged.get(delivery.key) is not delivery:
        raise ProtocolError(
            f"Message {delivery.message_id} waits for no acknowledgement: it was acknowledged or rejected before, or"
            " its subscription has ended, and it is delivered again"
        )
