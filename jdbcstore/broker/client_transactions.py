"""The transactions of a client: `ClientTransactions` is that part of a client (`jdbcstore.broker.client`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from jdbcstore.broker.answers import SendAnswer
from jdbcstore.broker.client_consumers import ClientConsumers
from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.client_producer import ClientProducer
from jdbcstore.broker.client_requests import ClientRequests
from jdbcstore.broker.decisions import outcome_in, places_of
from jdbcstore.broker.delivery import Answer
from jdbcstore.broker.memory import NUMBERED_BYTES
from jdbcstore.broker.message_division import MessageDivision, size_of
from jdbcstore.broker.prepared import Prepared
from jdbcstore.broker.reader import failure_of
from jdbcstore.broker.route import Route
from jdbcstore.broker.transaction import OpenTransactions, Transaction
from jdbcstore.errors import JdbcStoreError, OutcomeUnknown, ProtocolError, TransactionRolledBack
from jdbcstore.identifiers import TransactionId, XATransactionId

__all__ = ["ClientTransactions"]


class ClientTransactions:
    """Begins, commits and aborts for one client.

    Args:
        broker: where its messages go.
        client: who asks, waits and is answered.
        open_ones: its open transactions.
        producer: knows the producers that number their messages.
        consumers: have again what was acknowledged in a transaction that is rolled back.
    """

    def __init__(
        self,
        broker: ClientHost,
        client: ClientRequests,
        open_ones: OpenTransactions,
        producer: ClientProducer,
        consumers: ClientConsumers,
    ) -> None:
        self._broker = broker
        self._client = client
        self._open = open_ones
        self._producer = producer
        self._consumers = consumers
        self._division = MessageDivision(broker)
        #: Makes the answer to a commit.
        self._answer: Callable[..., Answer] = SendAnswer

    def part_from_client(self, remains: ClientRequests) -> None:
        """The client is gone for good: nobody but this, which is left of it, is known any more."""
        self._client = remains

    def begin(self, name: str, transaction_id: TransactionId | None = None) -> None:
        """Begin a transaction.

        Args:
            name: what the client calls it.
            transaction_id: what its messages call it; None for an id of the broker's.

        Raises:
            ProtocolError: there is one of this name, or there are too many.
        """
        self._open.begin(name, transaction_id)

    def __contains__(self, name: str) -> bool:
        return self._open.get(name) is not None

    def has_acknowledged(self, name: str, delivery_name: str) -> bool:
        """Whether there is such a transaction, and a delivery of this name is acknowledged in it."""
        transaction = self._open.get(name)
        return transaction is not None and transaction.has_acknowledged(delivery_name)

    def commit(self, name: str, request: object) -> bool:
        """Let everything in a transaction take effect, or nothing. If that fails, it is rolled back.

        Returns:
            False if something has to be found out first: the client is held, make this request again.

        Raises:
            ProtocolError: there is no such transaction.
        """
        transaction = self._open.named(name)
        failure = self._producer.failure_of(transaction.numbers)
        if failure is not None:
            transaction.forget_prepared()
            self._client.complete(request, failure)
            return True
        if not transaction.is_incomplete and self._producer.has_to_learn(transaction.numbers):
            return False
        if self._client.memory.is_short and self._producer.waits_for_spool():
            return False
        # The transaction is open until it is prepared, so it is rolled back with a client that goes meanwhile.
        if self._takes_long(transaction):
            self._prepare(transaction, map(self._broker.route, transaction.sends), request)
            if self._client.is_held:
                return False
        routes, refusal = self._routes_of(transaction)
        if transaction.prepared is None and self._division.needs_preparing(routes):
            self._prepare(transaction, routes, request)
            if self._client.is_held:
                return False
        ready, transaction.prepared = transaction.prepared, None  # it outlives the transaction, which ends first
        try:
            self._commit(transaction, request, routes, refusal, ready)
        finally:
            if ready is not None:
                ready.close()
        return True

    # -- distributed transactions ------------------------------------------------------------------------------------

    def gather(self, transaction_id: XATransactionId) -> None:
        """Before a distributed transaction has its outcome: what other clients have done in it is this one's from now
        on. Raises ProtocolError as `OpenTransactions.gather`."""
        self._open.gather(transaction_id)

    def is_read_only(self, name: str) -> bool:
        """Whether nothing was done in a transaction, so that it need not be prepared: `abort` it. Raises
        ProtocolError if there is none."""
        transaction = self._open.named(name)
        return not (transaction.sends or transaction.acknowledged or transaction.is_incomplete)

    def prepare(self, transaction_id: XATransactionId, request: object) -> bool:
        """First phase of a distributed transaction, which has the name of its id. When the request is completed it is
        in doubt and not this client's any more; if that fails it is rolled back.

        Returns:
            As `commit`.

        Raises:
            ProtocolError: there is no such transaction.
        """
        transaction = self._open.named(transaction_id.name)
        if self._client.memory.is_short and self._producer.waits_for_spool():
            return False
        if self._takes_long(transaction):
            transaction.prepared = found = Prepared(map(self._broker.route, transaction.sends))
            self._client.work(self._division.finding(found), request, lambda: None)
            if self._client.is_held:
                return False
        routes, refusal = self._routes_of(transaction)
        if refusal is not None:
            self.abort(transaction.name)
            self._client.complete(request, refusal)
            return True
        ready, transaction.prepared = transaction.prepared, None
        answer = self._answer(self._client, request, size_of(routes) if ready is None else ready.size)
        acknowledged = transaction.acknowledged
        self._open.end(transaction)
        undo = partial(self._consumers.restore, acknowledged)

        def prepared(error: BaseException | None) -> None:
            try:
                if error is not None and not isinstance(error, OutcomeUnknown):
                    undo()
            finally:
                answer(error)

        self._broker.in_doubt.prepare(transaction_id, routes, acknowledged, undo, prepared)
        return True

    def commit_prepared(self, transaction_id: XATransactionId, request: object) -> None:
        """Second phase, as `jdbcstore.broker.in_doubt.InDoubt.commit`; what that raises is the answer, too."""
        self._decide(request, partial(self._broker.in_doubt.commit, transaction_id, self._client))

    def roll_back_prepared(self, transaction_id: XATransactionId, request: object) -> None:
        """Second phase, as `jdbcstore.broker.in_doubt.InDoubt.roll_back`; what that raises is the answer, too."""
        self._decide(request, partial(self._broker.in_doubt.roll_back, transaction_id))

    def is_in_doubt(self, transaction_id: XATransactionId) -> bool:
        """Whether a transaction is prepared, whoever has prepared it."""
        return transaction_id in self._broker.in_doubt

    def waits_for_outcome(self, transaction_id: XATransactionId) -> bool:
        """Whether a transaction is being prepared or decided just now, for whoever. The client is held until then:
        make the request again. A client that repeats its commands after a failover waits for no answer between them."""
        if not self._broker.in_doubt.waits(transaction_id, self._client.let_go):
            return False
        self._client.hold()
        return True

    def has_to_learn_outcome(self, transaction_id: XATransactionId) -> bool:
        """Whether the store has to be asked first how a transaction was decided. The client is held until it has
        answered: make the request again.

        Raises:
            StoreError: it could not be asked.
        """
        transaction = self._open.get(transaction_id.name)
        if transaction is not None:
            if self._has_to_find(transaction):
                return True
            if transaction.found:
                return False
        places = places_of(transaction_id)
        failure = self._producer.failure_of(places)
        if failure is not None:
            raise failure
        return self._producer.has_to_learn(places)

    def _has_to_find(self, transaction: Transaction) -> bool:
        """Whether it has to be found out first if what a transaction sends is in the store already. Arguments and
        exceptions as `has_to_learn_outcome`."""
        if isinstance(transaction.found, BaseException):
            failure, transaction.found = transaction.found, None
            raise failure
        if transaction.found is not None or not transaction.sends:
            return False

        def found(finding: asyncio.Future[bool]) -> None:
            failure = failure_of(finding)
            transaction.found = finding.result() if failure is None else failure
            self._client.let_go()

        finding = self._broker.in_doubt.find(transaction.sends)
        self._client.hold()
        finding.add_done_callback(found)
        return True

    def outcome_of(self, transaction_id: XATransactionId) -> bool | None:
        """How a transaction was decided, for a client that comes back and repeats what it has heard no answer for.

        Returns:
            Whether it was committed; None if nothing is known of it.
        """
        transaction = self._open.get(transaction_id.name)
        if transaction is not None and transaction.found:
            return True
        return outcome_in(transaction_id, [self._broker.producers.told(place) for place in places_of(transaction_id)])

    def require_prepared(self, transaction_id: XATransactionId) -> None:
        """Raise unless a transaction is prepared for certain: as `InDoubt.require_prepared`."""
        self._broker.in_doubt.require_prepared(transaction_id)

    def in_doubt(self) -> list[XATransactionId]:
        """All prepared transactions of the broker, whoever has prepared them."""
        return list(self._broker.in_doubt)

    def _decide(self, request: object, decide: Callable[[Answer], None]) -> None:
        answer = SendAnswer(self._client, request, 0)
        try:
            decide(answer)
        except JdbcStoreError as error:
            answer(error)

    def _takes_long(self, transaction: Transaction) -> bool:
        """Whether it may take long to find where the messages of a transaction go, and that is not done."""
        is_open = transaction.prepared is None and not transaction.is_incomplete
        return is_open and self._division.takes_long(transaction.sends)

    def _prepare(self, transaction: Transaction, routes: Iterable[Route], request: object) -> None:
        transaction.prepared = prepared = Prepared(routes, len(transaction.sends))
        self._client.work(self._division.preparing(prepared), request, lambda: None)

    def _routes_of(self, transaction: Transaction) -> tuple[Sequence[Route], ProtocolError | None]:
        """Where the messages of a transaction go that is to be committed now, or why it cannot be."""
        prepared = transaction.prepared
        try:
            if transaction.is_incomplete:
                raise ProtocolError(transaction.lacks)
            if prepared is None:
                return self._division.routes_of(transaction.sends), None
            if prepared.refusal is not None:
                raise prepared.refusal
            return prepared.routes, None
        except ProtocolError as error:
            return (), TransactionRolledBack(f"Transaction {transaction.name} is rolled back: {error}")

    def _commit(
        self,
        transaction: Transaction,
        request: object,
        routes: Sequence[Route],
        refusal: ProtocolError | None,
        prepared: Prepared | None,
    ) -> None:
        size = size_of(routes) if prepared is None else prepared.size
        if transaction.numbers or transaction.is_incomplete:
            size += NUMBERED_BYTES
        self._open.end(transaction)
        undo = partial(self._undo, transaction)
        answer = self._answer(self._client, request, size, undo)
        if refusal is not None:
            answer(refusal)
        elif not transaction.numbers:
            self._broker.commit(routes, transaction.acknowledged, self._client, answer, prepared=prepared)
        else:
            error = self._broker.producers.commit(
                routes,
                transaction.acknowledged,
                self._client,
                answer,
                transaction.numbers,
                prepared=prepared,
                is_strict=self._producer.numbering.is_strict,
            )
            if error is not None:
                answer(error)

    def _undo(self, transaction: Transaction) -> None:
        """It is rolled back: what was sent in it has to be sent again, what was acknowledged the client has still."""
        for number in transaction.all_numbers():
            self._producer.numbering.refused(number)
        self._consumers.restore(transaction.acknowledged)

    def abort(self, name: str) -> None:
        """Roll a transaction back: what was acknowledged in it is the client's still.

        Raises:
            ProtocolError: there is no such transaction.
        """
        transaction = self._open.named(name)
        self._consumers.restore(transaction.acknowledged)
        self._open.end(transaction)
        for number in transaction.refused:
            self._producer.numbering.forgiven(number)
