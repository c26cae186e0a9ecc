"""The face of the broker to whoever brings clients: everything that a transport needs, in no protocol's words.

A transport makes one `Client` for each of its clients and gives it a `ClientCallbacks` (`jdbcstore.broker.callbacks`),
by which the broker talks back. Everything happens in the broker's event loop, on both sides.

**A client's life** has the phases of `jdbcstore.broker.phase`::

    client = Client(broker, callbacks)                # while ``broker.is_running``, and in the broker's event loop
    broker.clients.add(client)                        # so that it is told of the end; `close` takes it out again
    client.open(client_id, credentials, told)         # told(None): let in; told(error): tell the client, and end
    …                                                 # requests
    client.leave(request, told)                       # it says goodbye: told() when all is answered, and nothing left
    client.hang_up(told)                              # or it says nothing more: told() likewise, if that takes a while
    client.close()                                    # it is gone, for whatever reason; always, and once is enough

What a client had not acknowledged when it left or was closed goes back to its queues and is delivered again, first and
in its old order, with its count of redeliveries raised; its open transactions are rolled back; its temporary
destinations are removed. What it had sent or acknowledged before stays sent and acknowledged, whether the store has
answered or not. After `close` no callback is called any more but `ClientCallbacks.closed`: requests that were not
completed by then never are, who waits for one has to be told there. The broker calls `close`, too, when it stops; when
it has to end a client it calls ``callbacks.dismiss``, and leaves `end` and `close` to the transport. A transport looks
at ``broker.trusted_until_ns`` before it makes requests, and calls ``broker.distrust()`` when that time has passed: a
process that was stopped, and goes on, may not be master any more.

**Its parts.** ``client.producer`` sends, ``client.consumers`` subscribes, delivers and acknowledges,
``client.transactions`` begins, commits and aborts, ``client.temporaries`` makes temporary destinations. The client
itself logs in, waits and says goodbye.

**Requests.** Those that take a ``request`` are answered once by ``callbacks.completed(request, error)``: when they have
taken effect, which for a persistent message is after the store's commit, or when they have failed. That may be before
the method returns. ``request`` is whatever the transport likes (a receipt, a future); with None only errors are told.
A request that is refused at once *raises* a `JdbcStoreError` instead, and nothing was done; then nothing is completed.
`error_of` tells what to do with any exception.

============================= ==========================================================================================
`producer.send`               a message to queue or topic, also to several (composite), scheduled, or in a transaction
`producer.send_numbered`      the same for a producer that numbers its messages, which are stored once however often
                              they come
`producer.gather`             a message outside of transactions; those that arrive together are stored in one go
`consumers.subscribe`         queues, topics, wildcards, durable subscriptions, browsers: `SubscriptionRequest`
`consumers.unsubscribe`       end a subscription; what it has goes back
`consumers.pull`              a message for a consumer whose prefetch is 0; `pull_again` if what came is none for it
`consumers.prefetch_for`      how many messages a subscription may have, by what it asks for and by its policy
`consumers.change_prefetch`   how many messages a consumer may have from now on
`consumers.remove_durable`    remove a durable subscription for good
`consumers.acknowledge`       a delivery is done with, and those before it in mode cumulative; also in a transaction
`consumers.acknowledge_all`   just these deliveries are, which `consumers.covered` may have found; in mode range
`consumers.reject`            a delivery becomes a dead letter
`transactions.begin`          a transaction of this name; then `commit` or `abort`
`temporaries.get`             a temporary destination, made at the first use and removed with the client
`temporaries.add`             the same with a name of the client's; `temporaries.remove` when it needs it no more
`remove_destination`          a queue or topic that nobody uses, with all that is in it
============================= ==========================================================================================

**Order.** Requests take effect in the order in which they are made, with one thing for the transport to do:
acknowledgements are collected, so that those that arrive together are one write. Call `consumers.settle` before the
first request that is none, and when all that has arrived at once is done; `consumers.acknowledged` tells whether there
is anything to settle, and `settle` is not called when there is not. `acknowledge` settles by itself what is more than
`ACKNOWLEDGED_MAX`, and what has a request: that answers for all that was collected, so who waits for the commit of a
collected one gives a request to `settle`. The same holds for messages if they are given to `producer.gather`:
`producer.gathered` and `producer.settle`. Only what is pending may be acknowledged or rejected, which is what the
transport has to know: ``consumer.unacknowledged.get(delivery.key) is delivery``, or its `DeliveryNames`.

**Flow control.** When the client has to wait (for the store, for slow subscribers, for memory, for a request that takes
long) the broker *holds* it: `is_held` becomes true and ``callbacks.pause()`` is called, perhaps in the middle of a
request. Make no other request then, until ``callbacks.resume()``. Some requests may have to wait before they have
begun: `producer.may_send`, which is asked before a message when memory is short, `producer.send_numbered` and
`transactions.commit` return False then. Make the same request again when the client is resumed, before any other. A
transport that has to wait for reasons of its own uses `hold` and `let_go`, too.

In the other direction: ``callbacks.deliver`` is called as long as the subscription has credit and
`consumers.is_choked` is false. Set it when the client does not read, and call `consumers.unchoke` when it does. Call
`consumers.flushed` when everything that was delivered has left: messages of mode AUTO are acknowledged then, and not
before. `is_choked` is for all subscriptions of the client; ``consumer.withhold()`` and ``consumer.grant()`` for one. A
client that tells how many of its unacknowledged messages are with the application gets as many more:
``consumer.extend``. What the transport keeps for requests that are not complete is told to ``client.account``:
``frame_is`` while one arrives, ``backlog_is`` while they wait for their turn.

**An example** is `jdbcstore.client.port`, the whole of a transport without a protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain

from jdbcstore.broker.callbacks import ClientCallbacks
from jdbcstore.broker.client_account import ClientAccount
from jdbcstore.broker.client_consumers import ClientConsumers
from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.client_producer import ClientProducer
from jdbcstore.broker.client_requests import ClientRequests
from jdbcstore.broker.client_transactions import ClientTransactions
from jdbcstore.broker.delivery import giving_back
from jdbcstore.broker.memory import SUBSCRIPTION_BYTES
from jdbcstore.broker.pending_acks import DeliveryNames
from jdbcstore.broker.phase import Phase
from jdbcstore.broker.security.login import Credentials
from jdbcstore.broker.takeover import contend
from jdbcstore.broker.temporaries import Temporaries
from jdbcstore.broker.traced_client import TracedConsumers, TracedProducer, TracedTransactions
from jdbcstore.broker.transaction import OpenTransactions
from jdbcstore.destination import Destination
from jdbcstore.errors import ClientIdTaken, JdbcStoreError, LoginRefused, ProtocolError
from jdbcstore.identifiers import ProducerId
from jdbcstore.store.lease import boot_time_ns

__all__ = ["Client"]


class Client(ClientRequests):
    """One client of the broker. The module's docstring says how a transport uses it.

    Args:
        broker: whose client it is.
        callbacks: the transport's side.
        names: gives deliveries the names by which the client will acknowledge them; a transport that keeps the
            deliveries themselves needs none.

    Attributes:
        producer, consumers, transactions, temporaries: its parts.
        account: what it makes the broker keep.
    """

    def __init__(self, broker: ClientHost, callbacks: ClientCallbacks, names: DeliveryNames | None = None) -> None:
        super().__init__(broker, callbacks)
        self.account = ClientAccount(self, broker.memory, broker.options, broker.loop)
        open_ones = OpenTransactions(
            self.connection_id, broker.options, self.account, broker.producers, broker.branches
        )
        self.producer: ClientProducer
        self.consumers: ClientConsumers
        self.transactions: ClientTransactions
        tracing = broker.tracing
        if tracing is None:
            self.producer = ClientProducer(broker, self, open_ones)
            self.consumers = ClientConsumers(broker, self, self.account, open_ones, names)
            self.transactions = ClientTransactions(broker, self, open_ones, self.producer, self.consumers)
        else:
            self.producer = TracedProducer(tracing, broker, self, open_ones)
            self.consumers = TracedConsumers(tracing, broker, self, self.account, open_ones, names)
            self.transactions = TracedTransactions(tracing, broker, self, open_ones, self.producer, self.consumers)
        self.temporaries = Temporaries(broker, self.connection_id, self.access, self.account)
        self._open_transactions = open_ones
        #: Producers that have told their destination, and what each counts, bytes.
        self._producers: dict[ProducerId, int] = {}
        #: Who waits for it to be gone, to have its client id.
        self._successors: list[Callable[[bool], object]] = []
        self._has_parted = False
        broker.memory.connections += 1

    @property
    def owes(self) -> bool:
        """Whether it has messages, or a transaction, that others wait for."""
        return bool(self._open_transactions) or self.consumers.owes

    # -- in ----------------------------------------------------------------------------------------------------------

    def open(
        self,
        client_id: str | None,
        credentials: Credentials,
        told: Callable[[JdbcStoreError | None], object],
        connection_id: str | None = None,
        command: object = None,
    ) -> None:
        """Let the client in. It is held until that is decided, perhaps at once.

        Args:
            client_id: what it calls itself; no two clients have the same at a time. None for nothing.
            credentials: by which it proves who it is.
            told: called once, with None if it is let in; else with what to tell it before it is ended. Never if the
                client is gone by then.
            connection_id: what it calls its connection, and what the ids of its messages and the names of its temporary
                destinations begin with. Another client that has the same is what is left of its last connection, and is
                ended before this one is let in. None for an id of the broker's.
            command: in its protocol's words, for those who listen to advisories (`jdbcstore.advisory`).
        """
        told = partial(self._advised, told, command)
        if connection_id is not None:
            if connection_id.startswith(self._broker.id_stem):
                told(ProtocolError(f"Connection id {connection_id} is one of the broker's"))
                return
            told = partial(self._take_connection_id, connection_id, told)
        if self._broker.authentication is None:
            self._leave_last_connection(connection_id, partial(self._take_client_id, client_id, told))
            return
        self.hold()
        self.access.login(
            credentials,
            lambda refusal: self._leave_last_connection(
                None if refusal is not None else connection_id, partial(self._logged_in, client_id, told, refusal)
            ),
        )

    def _advised(
        self, told: Callable[[JdbcStoreError | None], object], command: object, refusal: JdbcStoreError | None
    ) -> None:
        if refusal is None and self.is_open:
            user = self.access.principal
            name = None if user is None else user.name
            self._broker.advisories.connected(self.connection_id, self.client_id, name, self.peer, command)
        told(refusal)

    def _leave_last_connection(self, connection_id: str | None, then: Callable[[], object]) -> None:
        """End what is left of the client's last connection, then go on."""
        last = None if connection_id is None else self._broker.connection_ids.get(connection_id)
        if last is None or last is self:
            then()
            return
        self.hold()

        def gone(_: bool) -> None:
            if not self.is_over:  # somebody who waited, too, may have the id now: that one is the last connection then
                self._leave_last_connection(connection_id, then)
            self.let_go()

        last.when_gone(gone)
        if not last.is_closed:
            last.make_way(None, f"its connection id {connection_id} was taken by {self.peer}")

    def _take_connection_id(
        self,
        connection_id: str,
        told: Callable[[JdbcStoreError | None], object],
        refusal: JdbcStoreError | None,
    ) -> None:
        if refusal is None:
            self.connection_id = self.temporaries.connection_id = connection_id
            self._broker.connection_ids[connection_id] = self
        told(refusal)

    def _logged_in(
        self,
        client_id: str | None,
        told: Callable[[JdbcStoreError | None], object],
        refusal: LoginRefused | None,
    ) -> None:
        if self.is_over:
            return
        if refusal is None:
            self._take_client_id(client_id, told)
        else:
            told(refusal)
        self.let_go()

    def _take_client_id(self, client_id: str | None, told: Callable[[JdbcStoreError | None], object]) -> None:
        if client_id is not None:
            other = self._broker.client_ids.get(client_id)
            if other is not None:
                self.hold()
                decided = partial(self._contended, client_id, told, other.peer)
                if other.is_closed or other.says_no_more:
                    other.when_gone(decided)  # it is on its way out
                    other.make_way(None, f"it says nothing more, and {self.peer} has its client id {client_id!r} now")
                else:
                    contend(self._broker.options, other, self.peer, decided)
                return
        if boot_time_ns() >= self._broker.trusted_until_ns:
            self._broker.distrust()  # it was logged in meanwhile, and this is no master's any more
            return
        if client_id is not None:
            self.client_id = client_id
            self._broker.client_ids[client_id] = self
        self._advance(Phase.OPEN)
        told(None)

    def _contended(
        self,
        client_id: str,
        told: Callable[[JdbcStoreError | None], object],
        holder: str,
        holder_keeps_it: bool,  # `contend` tells it so
    ) -> None:
        """It is decided who has the client id."""
        if self.is_over:
            return
        if holder_keeps_it:
            name = self._broker.options.broker_name
            told(ClientIdTaken(f"Broker: {name} - Client: {client_id} already connected from {holder}"))
        else:
            self._take_client_id(client_id, told)
        self.let_go()

    # -- out ---------------------------------------------------------------------------------------------------------

    def leave(self, request: object, told: Callable[[], object]) -> None:
        """The client says goodbye: nothing more is delivered, what it did not acknowledge is for others, and so are its
        ids and what it has opened.

        Args:
            request: completed only if that fails.
            told: called when everything that it has asked for is answered, and all that it had is gone.
        """
        self._said_goodbye = partial(self._part, told)
        self.work(giving_back(self._open_transactions.end_all(), self.consumers.leaving()), request, self._left)

    def _left(self) -> None:
        self._advance(Phase.LEAVING)
        if not self._answers_due:
            self._said_goodbye()

    def _part(self, told: Callable[[], object]) -> None:
        """The answers are there: what has its name goes, before the client hears that it has left."""
        self._said_goodbye = lambda: None
        self.work(self.temporaries.removing(), None, partial(self._parted, told))

    def _parted(self, told: Callable[[], object]) -> None:
        self._tell_advisories()
        self._broker.free_ids(self)
        told()

    def _tell_advisories(self) -> None:
        """The connection ends, once: who listens to advisories hears it before a successor is there, by the same id."""
        if not self._has_parted:
            self._has_parted = True
            self.remove_producers(lambda _: True)
            self._broker.advisories.disconnected(self.connection_id)

    def hang_up(self, told: Callable[[], object]) -> bool:
        """The client says nothing more, and perhaps still listens: nothing is delivered to it.

        Args:
            told: called when everything that it has asked for is answered, unless it is closed before.

        Returns:
            Whether anything is to be waited for.
        """
        if self.phase is not Phase.LEAVING:
            self.end()
        if self._answers_due and not self.is_closed:
            self._has_heard_all = told
        return self.says_no_more

    @property
    def says_no_more(self) -> bool:
        """Whether it only waits for answers."""
        return self._has_heard_all is not None

    def end(self) -> None:
        """The transport has said its last word: what is delivered would not reach the client any more."""
        self._advance(Phase.ENDING)
        self.consumers.end()

    def close(self) -> None:
        """The client is gone: what was not acknowledged goes back, what it opened is closed."""
        if self.is_closed:
            return
        self._advance(Phase.CLOSED)
        self.consumers.is_choked = True
        self.account.close()
        self.callbacks.closed()
        self.memory.connections -= 1
        self.access.end()
        self._tell_advisories()
        returning = self.consumers.closing(self._open_transactions.end_all())
        closing, slices = chain(returning, self.temporaries.removing()), self._broker.slices
        if slices.begin(closing):
            self._gone()
        else:
            slices.go_on(closing, self._gone)

    # -- producers with a destination ----------------------------------------------------------------------------------

    def add_producer(self, producer_id: ProducerId, destination: Destination, command: object) -> None:
        """The client is going to send to a destination: those who listen to advisories are told.

        Args:
            producer_id: how.
            destination: where.
            command: in its protocol's words (`jdbcstore.advisory`).

        Raises:
            ProtocolError: it has too many.
        """
        if producer_id in self._producers:
            return
        size = SUBSCRIPTION_BYTES + len(destination.physical_name)
        self.account.keep(size, "This producer", "Close another one first")
        self._producers[producer_id] = size
        self._broker.advisories.producer_added(producer_id, destination, command)

    def remove_producers(self, is_gone: Callable[[ProducerId], bool]) -> None:
        """The client has closed some of them."""
        for producer_id in [one for one in self._producers if is_gone(one)]:
            self.account.give_up(self._producers.pop(producer_id))
            self._broker.advisories.producer_removed(producer_id)

    def when_gone(self, told: Callable[[bool], object]) -> None:
        """Call this with False when everything that it had is given back; it is closed already."""
        self._successors.append(told)

    def _gone(self) -> None:
        """Everything is given back: who wants the client id may have it.

        The client and its parts know each other, and the transport. They are parted, so that all of it is freed: what
        has lived for long is looked at by the garbage collector as seldom as possible, and whole connections would pile
        up until then.
        """
        self._broker.forget(self)
        remains = self._remains()
        self.callbacks = remains.callbacks
        for part in (self.account, self.producer, self.consumers, self.transactions):
            part.part_from_client(remains)
        successors, self._successors = self._successors, []
        for told in successors:
            told(False)

    # -- destinations ----------------------------------------------------------------------------------------------

    def introduce(self, producer_id: ProducerId) -> None:
        """The client has a producer that has sent nothing yet, and numbers its messages: nobody has to ask about it."""
        self._broker.producers.introduce(producer_id)

    def use_destination(self, destination: Destination) -> None:
        """The client is going to send to a destination.

        Raises:
            NotAuthorized: it may not.
            NoSuchDestination: it is a temporary one that is not there.
        """
        self.producer.check(destination)

    def remove_destination(self, destination: Destination, request: object) -> None:
        """Remove a queue or topic with all that is in it; it is there again when it is used again.

        Raises:
            NotAuthorized: the client may not.
            ProtocolError: somebody is subscribed to it.
        """
        self.access.check_remove(destination)
        self.asked(0)
        try:
            self._broker.remove_destination(destination, partial(self.answered, 0, request))
        except JdbcStoreError:
            self.answered(0, None, None)
            raise

    # -- the broker ends it ----------------------------------------------------------------------------------------

    def dismiss(self, text: str) -> None:
        """End the connection with an error: the broker cannot serve anybody."""
        self.callbacks.dismiss(text)

    def make_way(self, text: str | None, reason: str) -> None:
        """Be gone at once, so that another connection may have the client id.

        Args:
            text: what the client is told, if it may be listening.
            reason: for the log.
        """
        if text is None:
            self.callbacks.cut(reason)
        else:
            self.disconnect(text, reason=reason)
            self.callbacks.write()
        self.close()

    def renew_access(self) -> None:
        """The users have changed: what the client may not do any more ends."""
        if not self.access.renew():
            self.disconnect("Your user was removed or changed: log in again", reason="its user was removed or changed")
            return
        self.consumers.renew_access()
