"""Distributed (XA) transactions that are prepared: their outcome is somebody else's decision, perhaps after a restart.

A transaction is its client's until it is prepared (`jdbcstore.broker.client_transactions`). Then it belongs to nobody:
its client may go, the broker may stop, and any client may commit it or roll it back. The store has what has to survive,
invisible (`jdbcstore.store.contract.TransactionStore`); here is what the running broker knows besides:

* where the messages that it adds will appear, so that their lanes count them when it is committed. They get their
  numbers then, so they join the tail as any other write does (rule 6 of `jdbcstore.broker.lane`).
* the deliveries that it settles. They stay in flight. After a commit they are settled, after a rollback they are their
  consumer's again, or anybody's if that is gone.
* what does not have to survive: messages that are not persistent. A restart forgets these, but for those that are to be
  sent later (`jdbcstore.broker.prepared_jobs`).

Of a transaction that was prepared before the store was opened only the store's part is there. What it removes or
acknowledges is in no lane; if it is rolled back the messages are in their old places, which a lane may have passed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from jdbcstore.broker.decisions import is_committed_by, marks_of
from jdbcstore.broker.delivery import Answer, Delivery, giving_back
from jdbcstore.broker.durable import settlements
from jdbcstore.broker.lane import Lane
from jdbcstore.broker.prepared import PREPARED_LEAST
from jdbcstore.broker.prepared_jobs import PREPARED_JOBS, PreparedJobs
from jdbcstore.broker.reader import failure_of
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.broker.route import Route
from jdbcstore.broker.router import Router, settle
from jdbcstore.broker.spans import acknowledgements, ending
from jdbcstore.broker.topic import Publisher
from jdbcstore.broker.tracing import Batch, Step
from jdbcstore.destination import Destination
from jdbcstore.errors import (
    CodecError,
    JdbcStoreError,
    OutcomeUnknown,
    StoreError,
    TransactionRolledBack,
    TransientStoreError,
    UnknownTransaction,
)
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import (
    Commit,
    MessageStore,
    PreparedTransaction,
    SupportsTransactions,
    TopicMessageStore,
    Transaction,
    TransactionStore,
)
from jdbcstore.subscription import SubscriptionKey

__all__ = ["InDoubt"]

log = logging.getLogger(__name__)

_Calling: TypeAlias = Awaitable[list[PreparedTransaction]]
_Prepared: TypeAlias = Callable[[None, BaseException | None], None]

#: Acknowledgements that are prepared in one go.
_SETTLED_AT_ONCE: Final = 100
#: Messages that are read in one go when a rollback has put them back.
_BROUGHT_BACK_AT_ONCE: Final = 100


@dataclass(slots=True)
class _Doubt:
    """A prepared transaction."""

    #: How many messages appear in queues, by destination and priority.
    queued: Counter[tuple[Destination, int]] = field(default_factory=Counter)
    has_topics: bool = False
    #: Whether some are to be sent later.
    has_jobs: bool = False
    #: Deliveries of this process that it settles, and what gives them back.
    settled: Sequence[Delivery] = ()
    undo: Callable[[], object] = lambda: None
    #: Where that goes which the store does not have.
    unstored: list[Route] = field(default_factory=list)
    #: What is counted for that.
    kept_bytes: int = 0
    is_stored: bool = True
    #: What it removes and acknowledges, if it was prepared before the store was opened.
    removed: Sequence[tuple[Destination, MessageId]] = ()
    acknowledged: Sequence[tuple[Destination, SubscriptionKey, MessageId]] = ()
    #: In the store, while it is being prepared.
    begun: Transaction | None = None
    is_at_work: bool = False
    #: Whether the answer to its first phase was lost. The store knows, and is asked when it is opened again.
    is_uncertain: bool = False
    #: What it sends, for whoever follows messages; None if nobody does, or it sends nothing.
    traced: Batch | None = None
    #: Who waits until it is prepared or decided.
    waiting: list[Callable[[], object]] = field(default_factory=list)

    def rest(self) -> None:
        """What was under way has ended."""
        self.is_at_work = False
        waiting, self.waiting = self.waiting, []
        for tell in waiting:
            tell()


class InDoubt:
    """The prepared transactions of a broker. Everything here is called in its event loop.

    Args:
        broker: whose.
        router: knows where messages go.
        jobs: keeps what is to be sent later.
    """

    def __init__(self, broker: RegionHost, router: Router, jobs: PreparedJobs) -> None:
        self._broker = broker
        self._router = router
        self._jobs = jobs
        self._by_id: dict[XATransactionId, _Doubt] = {}

    def __contains__(self, transaction_id: object) -> bool:
        return transaction_id in self._by_id

    def __iter__(self) -> Iterator[XATransactionId]:
        """Their ids, for a transaction manager that recovers."""
        return iter(list(self._by_id))

    def __len__(self) -> int:
        return len(self._by_id)

    def beside_the_store(self) -> list[PreparedTransaction]:
        """Those that hold nothing that the store keeps: they send messages that are not persistent, or settle such.
        They end with the broker; until then somebody has to decide about them."""
        return [
            PreparedTransaction(
                id,
                [route.message for route in doubt.unstored],
                [(one.lane.queue.destination, one.message_id) for one in doubt.settled if one.lane is not None],
                [],
            )
            for id, doubt in self._by_id.items()
            if not doubt.is_stored
        ]

    async def load(self, call: Callable[[Callable[[], list[PreparedTransaction]]], _Calling]) -> None:
        """The store was opened: what is in doubt is what it says.

        Args:
            call: calls what blocks.

        Raises:
            StoreError: it cannot be read.
        """
        found: list[PreparedTransaction] = []
        if isinstance(self._broker.adapter, SupportsTransactions):
            store = self._broker.adapter.transaction_store()
            found = await call(store.prepared_transactions)
        former, self._by_id = self._by_id, {}
        for one in found:
            doubt = self._by_id[one.transaction_id] = _doubt_of(one)
            doubt.traced = self._batch(one.transaction_id, one.added)
            if (before := former.pop(one.transaction_id, None)) is not None:
                doubt.unstored, doubt.kept_bytes = before.unstored, before.kept_bytes
            log.info("transaction in doubt, its transaction manager has to decide xid=%s", one.transaction_id)
        for doubt in former.values():
            self._keep_no_more(doubt)

    def forget(self) -> None:
        """Somebody else was master in between."""
        former, self._by_id = self._by_id, {}
        for doubt in former.values():
            self._keep_no_more(doubt)

    def _keep(self, transaction_id: XATransactionId, doubt: _Doubt) -> None:
        """Count what stays in memory until somebody decides. Raises TransactionRolledBack if that is too much."""
        memory, size = self._broker.memory, sum([route.size for route in doubt.unstored])
        if size and not memory.may_keep(size, memory.kept_max):  # what is left for those who keep little is not for it
            raise TransactionRolledBack(
                f"Transaction {transaction_id} is rolled back: all clients together keep {memory.kept} bytes, its"
                f" messages that are not persistent take {size}, and memory_bytes_max is {memory.bytes_max}. Decide"
                " about others first"
            )
        doubt.kept_bytes = size
        memory.kept += size

    def _keep_no_more(self, doubt: _Doubt) -> None:
        self._broker.memory.kept -= doubt.kept_bytes
        doubt.kept_bytes = 0

    # -- first phase -------------------------------------------------------------------------------------------------

    def prepare(
        self,
        transaction_id: XATransactionId,
        routes: Sequence[Route],
        settled: Sequence[Delivery],
        undo: Callable[[], object],
        answer: Answer,
    ) -> None:
        """Make a transaction safe, whatever its outcome will be.

        Args:
            transaction_id: whose.
            routes: where its messages go.
            settled: what it settles.
            undo: gives back what it settles, after a rollback.
            answer: told when it is prepared; after an error it is not, and nothing was undone.
        """
        if transaction_id in self._by_id:
            answer(StoreError(f"transaction {transaction_id} is prepared already: commit it or roll it back"))
            return
        traced = self._batch(transaction_id, [route.message for route in routes])
        doubt = self._by_id[transaction_id] = _Doubt(settled=settled, undo=undo, traced=traced, is_at_work=True)

        def prepared(_: None, error: BaseException | None) -> None:
            doubt.is_uncertain = isinstance(error, OutcomeUnknown)
            begun, doubt.begun = doubt.begun, None
            if error is not None and not doubt.is_uncertain:
                self._keep_no_more(doubt)
                if self._by_id.get(transaction_id) is doubt:
                    del self._by_id[transaction_id]
                if begun is not None:
                    begun.rollback()  # the store would keep what is in it, and refuse to begin it again
            try:
                answer(error)
            finally:
                doubt.rest()

        self._broker.slices.run(self._preparing(transaction_id, doubt, routes, prepared))

    def _preparing(
        self, transaction_id: XATransactionId, doubt: _Doubt, routes: Iterable[Route], prepared: _Prepared
    ) -> Iterator[None]:
        """Have a transaction prepared; a job: there may be very much in it."""
        stored: list[tuple[MessageStore, Message]] = []
        removes: list[tuple[MessageStore, MessageId]] = []
        acknowledges: list[tuple[TopicMessageStore, SubscriptionKey, MessageId]] = []
        try:
            for route in routes:
                self._divide(doubt, stored, route)
                yield
            self._keep(transaction_id, doubt)
            for first in range(0, len(doubt.settled), _SETTLED_AT_ONCE):
                removed, acknowledged = settlements(doubt.settled[first : first + _SETTLED_AT_ONCE])
                removes += removed
                acknowledges += acknowledged
                yield
            if not (stored or removes or acknowledges):
                doubt.is_stored = False
                prepared(None, None)
                return
            transaction = self._store().begin(transaction_id)
            doubt.begun = transaction
            for store, message in stored:
                transaction.add_message(store, message)
                yield
            for store, message_id in removes:
                transaction.remove_message(store, message_id)
                yield
            for topic, key, message_id in acknowledges:
                transaction.acknowledge(topic, key, message_id)
                yield
        except JdbcStoreError as error:
            prepared(None, error)
        except Exception as error:
            prepared(None, error)  # a defect; its client is answered all the same
            raise
        else:
            self._submit(transaction, len(stored), prepared)

    def find(self, sends: Sequence[Message]) -> asyncio.Future[bool]:
        """Find out whether a transaction that sends these is committed, as far as they tell.

        They are looked for where they would go now. Where they do go is found with `prepare`, when that is known.
        """
        kept = self._router.kept([self._router.route(message) for message in sends])
        sent = [(store, message.message_id) for store, message in kept if message.message_id is not None]
        return self._broker.read_patiently(is_committed_by, self._broker.adapter, sent)

    def _submit(self, transaction: Transaction, count: int, prepared: _Prepared) -> None:
        """Have a transaction prepared; one of many messages, which are made into bytes then, in a thread: nobody sees
        them before the second phase, so that their order does not matter."""
        if count < PREPARED_LEAST:
            try:
                completion = transaction.prepare()
            except JdbcStoreError as error:
                prepared(None, error)
            else:
                self._broker.completions.expect(completion, prepared, None)
            return

        def submitted(future: asyncio.Future[Completion[None]]) -> None:
            error = failure_of(future)
            if error is None:
                self._broker.completions.expect(future.result(), prepared, None)
            else:
                prepared(None, error)

        self._broker.read(transaction.prepare).add_done_callback(submitted)

    def _divide(self, doubt: _Doubt, stored: list[tuple[MessageStore, Message]], route: Route) -> None:
        """What the store has to keep of a message, and where; and what follows the commit."""
        if route.is_later:
            stored.append((self._jobs.store, self._jobs.put_by(route.message)))
            doubt.has_jobs = True
            return
        if not route.message.persistent:
            doubt.unstored.append(route)
            return
        for message in route.messages():
            store = self._router.store_of(message)
            if store is None:
                doubt.unstored.append(Route(message))
                continue
            stored.append((store, message))
            if message.destination is not None and message.destination.is_queue:
                doubt.queued[message.destination, message.priority] += 1
            else:
                doubt.has_topics = True

    # -- second phase ------------------------------------------------------------------------------------------------

    def commit(self, transaction_id: XATransactionId, publisher: Publisher | None, answer: Answer) -> None:
        """Let everything in a prepared transaction take effect.

        Args:
            transaction_id: which.
            publisher: who is held back if a subscriber cannot keep up.
            answer: told when it is done; after an error it is in doubt as before, unless it is an `UnknownTransaction`.

        Raises:
            UnknownTransaction: there is none.
            TransientStoreError: somebody else decides about it just now.
        """
        doubt = self._take(transaction_id)
        answer = self._traced("commit", doubt, answer)
        if not doubt.has_topics:
            self._commit(transaction_id, doubt, (), publisher, answer)
            return

        def found(future: asyncio.Future[list[Message]]) -> None:
            error = failure_of(future)
            if error is not None:
                doubt.rest()
                answer(error)
            else:
                self._commit(transaction_id, doubt, future.result(), publisher, answer)

        self._broker.read_patiently(self._published, transaction_id).add_done_callback(found)

    def _published(self, transaction_id: XATransactionId) -> list[Message]:
        """The messages to topics of a prepared transaction; blocks."""
        for one in self._store().prepared_transactions():
            if one.transaction_id == transaction_id:
                return [m for m in one.added if m.destination is not None and not m.destination.is_queue]
        return []

    def _commit(
        self,
        transaction_id: XATransactionId,
        doubt: _Doubt,
        published: Sequence[Message],
        publisher: Publisher | None,
        answer: Answer,
    ) -> None:
        notes: list[Callable[[BaseException | None], None]] = []

        def done(_: None, error: BaseException | None) -> None:
            try:
                for note in notes:
                    note(error)
                if error is None:
                    settle(doubt.settled)
            finally:
                self._decided(transaction_id, doubt, error)
                if error is None and doubt.has_jobs:
                    self._jobs.look()
                if error is None:
                    self._router.follow(doubt.unstored, publisher, answer)
                else:
                    answer(error)

        if not doubt.is_stored:
            done(None, None)
            return
        try:  # notes come first: what fails here must not have been submitted
            notes.extend(
                self._router.note_queued(destination, priority, count)
                for (destination, priority), count in doubt.queued.items()
            )
            notes.extend(self._router.note_published(message, publisher) for message in published)
            self._mark(transaction_id, is_commit=True)
            completion = self._store().commit_prepared(transaction_id)
        except JdbcStoreError as error:
            done(None, error)
            return
        self._broker.completions.expect(completion, done, None)

    def roll_back(self, transaction_id: XATransactionId, answer: Answer) -> None:
        """As if a prepared transaction had never been. Arguments and exceptions as `commit`."""
        doubt = self._take(transaction_id)
        answer = self._traced("rollback", doubt, answer)

        def done(_: None, error: BaseException | None) -> None:
            self._decided(transaction_id, doubt, error)
            try:
                if error is None:
                    doubt.undo()
                    self._reappear(doubt)
            finally:
                answer(error)

        if not doubt.is_stored:
            done(None, None)
            return
        try:
            self._mark(transaction_id, is_commit=False)
            completion = self._store().rollback_prepared(transaction_id)
        except JdbcStoreError as error:
            done(None, error)
            return
        self._broker.completions.expect(completion, done, None)

    def _mark(self, transaction_id: XATransactionId, *, is_commit: bool) -> None:
        """Remember how it is decided, as `jdbcstore.broker.decisions` says. Nobody waits for it: the outcome is written
        behind it."""
        adapter = self._broker.adapter
        if not adapter.remembers_producers:
            return

        def noted(_: None, error: BaseException | None) -> None:
            if error is not None:
                log.warning(
                    "could not remember how a transaction is decided xid=%s error=%r", transaction_id, str(error)
                )

        marks = marks_of(transaction_id, self._broker.now_ms(), is_commit=is_commit)
        self._broker.completions.expect(adapter.commit_together(Commit(producers=marks)), noted, None)

    def _batch(self, transaction_id: XATransactionId, sends: Sequence[Message]) -> Batch | None:
        tracing = self._broker.tracing
        return None if tracing is None or not sends else tracing.batch(sends, transaction_id)

    def _traced(self, step: Step, doubt: _Doubt, answer: Answer) -> Answer:
        """Tell whoever follows messages how a transaction is decided. Acknowledgements of before the store was opened
        are not known well enough for that."""
        tracing = self._broker.tracing
        if tracing is None:
            return answer
        settled = doubt.settled if step == "commit" else ()
        spans = [*acknowledgements(tracing, settled, is_refused=False).values()]
        if doubt.traced is not None:
            spans.append(doubt.traced.begin(step))
        return ending(answer, spans)

    def _take(self, transaction_id: XATransactionId) -> _Doubt:
        doubt = self._by_id.get(transaction_id)
        if doubt is None:
            raise UnknownTransaction(f"Transaction {transaction_id} is not prepared")
        self._require_idle(transaction_id, doubt)
        doubt.is_at_work = True
        return doubt

    def require_prepared(self, transaction_id: XATransactionId) -> None:
        """Return if a transaction is prepared for certain.

        Raises:
            UnknownTransaction: there is none.
            TransientStoreError: its first phase is under way, or nobody knows how that ended.
        """
        doubt = self._by_id.get(transaction_id)
        if doubt is None:
            raise UnknownTransaction(f"Transaction {transaction_id} is not prepared")
        self._require_idle(transaction_id, doubt)
        if doubt.is_uncertain:
            raise TransientStoreError(f"Nobody knows yet whether transaction {transaction_id} is prepared: ask again")

    def waits(self, transaction_id: XATransactionId, tell: Callable[[], object]) -> bool:
        """Whether a transaction is being prepared or decided.

        Args:
            transaction_id: which; need not be there.
            tell: called when that has ended, if so.
        """
        doubt = self._by_id.get(transaction_id)
        if doubt is None or not doubt.is_at_work:
            return False
        doubt.waiting.append(tell)
        return True

    @staticmethod
    def _require_idle(transaction_id: XATransactionId, doubt: _Doubt) -> None:
        if doubt.is_at_work:
            raise TransientStoreError(f"Transaction {transaction_id} is being prepared or decided: wait for the answer")

    def _decided(self, transaction_id: XATransactionId, doubt: _Doubt, error: BaseException | None) -> None:
        if error is None or isinstance(error, UnknownTransaction):
            self._keep_no_more(doubt)
            if self._by_id.get(transaction_id) is doubt:
                del self._by_id[transaction_id]
        doubt.rest()

    def _store(self) -> TransactionStore:
        adapter = self._broker.adapter
        if not isinstance(adapter, SupportsTransactions):
            raise StoreError("This store keeps no distributed (XA) transactions: commit in one phase")
        return adapter.transaction_store()

    # -- what was taken before the store was opened ------------------------------------------------------------------

    def _reappear(self, doubt: _Doubt) -> None:
        """A rollback has put messages back into their places in the store. A queue that is not in use has no lane that
        has passed them."""
        removed: dict[Destination, list[MessageId]] = {}
        for destination, message_id in doubt.removed:
            removed.setdefault(destination, []).append(message_id)
        for destination, message_ids in removed.items():
            queue = self._broker.queues.get(destination)
            lanes = () if queue is None else queue.contents.persistent
            positions = {lane: lane.position for lane in lanes if lane.is_open}
            furthest = max(positions.values(), default=0)
            for lane in positions:
                lane.reappeared([one.broker_sequence_id for one in message_ids])
            passed = [one for one in message_ids if one.broker_sequence_id <= furthest]
            if passed:
                self._bring_back(destination, passed, positions)
        for destination, key, _ in doubt.acknowledged:
            topic = self._broker.topics.get(destination)
            subscription = None if topic is None else topic.subscriptions.get(key)
            if subscription is not None:
                subscription.begin_again(
                    f"A rollback has given messages back to the subscription {key.subscription_name}: subscribe again"
                )

    def _bring_back(
        self, destination: Destination, message_ids: Sequence[MessageId], positions: Mapping[Lane, int]
    ) -> None:
        """Messages are again where their lanes do not look any more; some at a time, since they may be very many.

        Args:
            destination: the queue.
            message_ids: which.
            positions: how far its lanes had come when the messages were in their places again.
        """
        some, rest = message_ids[:_BROUGHT_BACK_AT_ONCE], message_ids[_BROUGHT_BACK_AT_ONCE:]

        def found(reading: asyncio.Future[list[Message]]) -> None:
            error = failure_of(reading)
            if error is not None:
                log.error("messages not read after a rollback destination=%s error=%r", destination, str(error))
                return
            messages = reading.result()
            if len(messages) < len(some):
                count = len(some) - len(messages)
                log.error("messages not found after a rollback destination=%s count=%d", destination, count)
            returned = [one for message in messages if (one := self._returned(destination, message, positions))]
            self._broker.slices.run(giving_back(returned), brought_back)

        def brought_back() -> None:
            if rest:
                self._bring_back(destination, rest, positions)

        lane = next(iter(positions))  # all of them have the same store
        if not lane.is_closed:  # else it was closed, and who opens it finds them
            self._broker.read_patiently(_messages_of, lane.store, some).add_done_callback(found)

    def _returned(self, destination: Destination, message: Message, positions: Mapping[Lane, int]) -> Delivery | None:
        """A message as if a consumer gave it back; None if its lane comes to it, or is closed."""
        contents = self._broker.queue(destination).contents
        lane = contents.persistent_lane(message)
        if message.message_id is None or lane.is_closed:
            return None
        if message.message_id.broker_sequence_id > positions.get(lane, 0):
            return None
        delivery = Delivery(message, lane, lane.queue.next_order(), stored=True, durable=True)
        self._broker.memory.used += delivery.size
        delivery.hand_out()
        if not self._broker.memory.has_room(0):
            contents.unload(delivery)
        return delivery


def _messages_of(store: MessageStore, message_ids: Sequence[MessageId]) -> list[Message]:
    """Those of these messages that a store has, and that can be read; blocks."""
    found: list[Message] = []
    for message_id in message_ids:
        try:
            message = store.get_message(message_id)
        except CodecError as error:  # it stays where it is, as when a page meets it
            log.warning("message cannot be read after a rollback message_id=%s error=%r", message_id, str(error))
        else:
            found += [] if message is None else [message]
    return found


def _doubt_of(found: PreparedTransaction) -> _Doubt:
    added = [message for message in found.added if message.destination != PREPARED_JOBS]
    queued = Counter((one.destination, one.priority) for one in added if one.destination and one.destination.is_queue)
    has_topics, has_jobs = queued.total() < len(added), len(added) < len(found.added)
    return _Doubt(queued, has_topics, has_jobs, removed=found.removed, acknowledged=found.acknowledged)
