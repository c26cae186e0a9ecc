"""Routing: where messages go, one or several at once, all or nothing; dead letters among them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from jdbcstore.broker.advisories import Advisories
from jdbcstore.broker.dead_letter import DeadLetters, dead_letter, expiry_cause
from jdbcstore.broker.delivery import Answer, Answers, Consumer, Delivery, DeliveryAnswer, by_lane
from jdbcstore.broker.destination_policy import DestinationPolicy, RedeliveryPolicy
from jdbcstore.broker.durable import SubscriptionStore, settlements
from jdbcstore.broker.host import Host
from jdbcstore.broker.interceptors import Interceptors
from jdbcstore.broker.lane import Lane
from jdbcstore.broker.prepared import Placed, Prepared
from jdbcstore.broker.producers import Number
from jdbcstore.broker.publications import FollowedAnswer, Publications
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.reader import failure_of
from jdbcstore.broker.region_host import NOTHING
from jdbcstore.broker.route import Route
from jdbcstore.broker.schedule import REDELIVERY_DELAY
from jdbcstore.broker.scheduler import Scheduler
from jdbcstore.broker.topic import Publisher, Topic
from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, JdbcStoreError, may_pass
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, MessageStore, PersistenceAdapter, TopicMessageStore
from jdbcstore.subscription import SubscriptionKey

__all__ = ["Destinations", "Router"]

log = logging.getLogger(__name__)

#: Destinations whose dead letters are counted; clients choose their names.
_COUNTED_MAX: Final = 100_000
#: Lost messages that are remembered, as ActiveMQ's audit of dead letters does.
_LOST_MAX: Final = 2048
#: Told when the store has answered a commit.
_Told: TypeAlias = Callable[[BaseException | None], None]
#: Who has taken note of a message that is being stored, and what of.
_Noted: TypeAlias = tuple[Lane | Topic, Any]


class Destinations(Host, Protocol):
    """A broker, as far as it has queues and topics."""

    def queue(self, destination: Destination) -> Queue:
        """The queue of this name, made at the first use."""

    def topic(self, destination: Destination) -> Topic:
        """The topic of this name, made at the first use."""

    def opening(self, destination: Destination) -> Iterator[None]:
        """Make the topic of this name, unless it is there; a job, after which `topic` takes no time."""

    def policy_for(self, destination: Destination) -> DestinationPolicy:
        """The policy of a destination."""

    def redelivery_policy_for(self, destination: Destination) -> RedeliveryPolicy:
        """How often messages of this destination are delivered again, and when."""

    @property
    def advisories(self) -> Advisories:
        """Told of what becomes of messages."""


class Router:
    """Gives messages to their destinations, and to the store those that have to be kept.

    Args:
        host: gives destinations, the store and its completions.
        scheduler: keeps what is to be sent later.
        interceptors: know who gets copies.
        dead_letters: knows where dead letters go.
    """

    def __init__(
        self, host: Destinations, scheduler: Scheduler, interceptors: Interceptors, dead_letters: DeadLetters
    ) -> None:
        self._host = host
        self._scheduler = scheduler
        self._interceptors = interceptors
        self._dead_letters = dead_letters
        #: What is published after its commit.
        self._publications: Publications
        #: Messages of topics that subscribers have lost and that are dead letters already, the last of them.
        self._lost: dict[str, None] = {}
        #: How many messages of each queue or subscription became dead letters, since the broker exists.
        self.dead_lettered: Counter[Destination] = Counter()

    def begin(self) -> None:
        """The broker runs from now on."""
        self._publications = Publications(self._host.slices, self._publish_following)

    def route(self, message: Message) -> Route:
        """Where a message goes that is sent now."""
        if self._scheduler.takes(message):
            return Route(message, is_later=True)
        return self._interceptors.route(message)

    def publish(self, route: Route, publisher: Publisher | None, answer: Answer) -> None:
        """Give a message to its queue or topic, or keep it for later, and answer when it is safe there.

        Copies go where its route says, and it may be that nothing but these is left of it.
        """
        message = route.message
        if route.is_plain:
            self._publish(message, publisher, answer)
        elif route.is_later or message.persistent:
            self.commit([route], [], publisher, answer)
        else:
            whole = FollowedAnswer(answer, is_told=True)
            copies = whole.following(place.copy_of(message) for place in route.places)
            published = partial(self._publish, message, publisher, whole) if route.stays else partial(whole, None)
            self._publications.publish(copies, len(route.places), publisher, published, whole.followed)

    def publish_each(self, routes: Sequence[Route], publisher: Publisher | None, answer: Answer) -> None:
        """The same for what a message that is not persistent becomes; the answer tells of the first that is lost."""
        self.follow(routes, publisher, answer, is_told=True)

    def publish_together(self, messages: Sequence[Message], publisher: Publisher | None, answers: Answers) -> None:
        """The same for persistent messages that are all for one queue, and that the scheduler does not take."""
        destination, now_ms = messages[0].destination, self._host.now_ms()
        if destination is None:
            raise ValueError("a message needs a destination before it can be published")
        if any(0 < message.expiration < now_ms for message in messages):
            for place, message in enumerate(messages):
                self._publish(message, publisher, partial(answers.answered, place))
            return
        try:
            self._host.queue(destination).add_together(messages, answers)
        except JdbcStoreError as error:  # there is no such queue, and nothing was done
            for place in range(len(messages)):
                answers.answered(place, error)

    def _publish(self, message: Message, publisher: Publisher | None, answer: Answer) -> None:
        """Give a message to its queue or topic. What these refuse is answered, never raised: who asks may be gone."""
        destination = message.destination
        if destination is None:
            raise ValueError("a message needs a destination before it can be published")
        try:
            if 0 < message.expiration < self._host.now_ms():
                self._bury_arrivals([message], [], [], None, answer)
            elif destination.is_queue:
                self._host.queue(destination).add(message, answer)
            else:
                self._host.topic(destination).publish(message, publisher, answer)
        except JdbcStoreError as error:
            answer(error)

    def _publish_following(self, message: Message, publisher: Publisher | None, followed: Answer) -> None:
        try:
            self._publish(message, publisher, followed)
        except BaseException:  # a defect; its client is answered all the same
            followed(None)
            raise

    def commit(
        self,
        routes: Sequence[Route],
        acknowledged: Sequence[Delivery],
        publisher: Publisher | None,
        answer: Answer,
        along: Commit = NOTHING,
        prepared: Prepared | None = None,
    ) -> Completion[None] | None:
        """Publish and settle several messages: all or nothing, as far as they are in the store.

        What is not in the store (topics, non-persistent messages) follows when the store has committed. What is to be
        sent later is kept by the scheduler instead, and of what has expired its dead letter.

        Args:
            routes: where the messages go that are published.
            acknowledged: what to settle.
            publisher: whose they are; None if they are the broker's own.
            answer: called with the outcome.
            along: what else belongs into the same commit.
            prepared: what `preparing` did for the messages.

        Returns:
            The store's completion; None if it refused the order, then `answer` was told.
        """
        if prepared is not None and prepared.placed is not None:
            if self._is_as_prepared(prepared.placed, prepared, routes):
                return self._commit_placed(prepared, prepared.placed, acknowledged, publisher, answer, along)
            prepared.displace()
        later = [route.message for route in routes if route.is_later]
        if later:
            try:
                jobs = [self._scheduler.job_of(message) for message in later]
            except JdbcStoreError as error:
                answer(error)
                return None
            along = along._replace(jobs=[*along.jobs, *jobs])
            routes = [route for route in routes if not route.is_later]
        now_ms = self._host.now_ms()
        if any(0 < route.message.expiration < now_ms for route in routes):
            # What is not persistent is published behind the commit, and its copies are made then.
            late = [route for route in routes if route.message.persistent and route.message.expired(now_ms)]
            others = [route for route in routes if not (route.message.persistent and route.message.expired(now_ms))]
            messages = [message for route in late for message in route.messages()]
            return self._bury_arrivals(messages, others, acknowledged, publisher, answer, along, prepared)
        return self._commit(routes, acknowledged, publisher, answer, along, prepared)

    def complete(self, number: Number, routes: Sequence[Route], publisher: Publisher | None, answer: Answer) -> None:
        """Give a message that is stored already to those of its destinations that lack it. A broker of another kind may
        have stored it in one after the other, and have failed in between.

        Args:
            number: its producer's.
            routes: where it goes, one for each of its destinations.
            publisher, answer: as for `commit`.
        """
        adapter, (producer_id, sequence) = self._host.adapter, number

        def found(finding: asyncio.Future[list[Message]]) -> None:
            error = failure_of(finding)
            if error is None and (lacking := finding.result()):
                marks = {producer_id: sequence} if adapter.remembers_producers else {}
                self._commit([Route(one) for one in lacking], [], publisher, answer, Commit(producers=marks))
            else:
                answer(error)

        finding = self._host.read_patiently(_lacking, adapter, number, self.kept(routes))
        finding.add_done_callback(found)

    def preparing(self, prepared: Prepared) -> Iterator[None]:
        """Do ahead what a `commit` of many messages costs, as far as nobody sees it; a job."""
        is_made = True
        for route in prepared.each():
            for destination in () if route.is_later else route.destinations():
                if not destination.is_queue:
                    yield from self._host.opening(destination)
            if route.is_later:
                prepared.displace()
            elif not route.message.persistent:
                prepared.pass_by(route)
            elif is_made:
                for one in prepared.making(route):
                    if prepared.is_closed:
                        return
                    try:
                        self._make_ready(one, prepared)
                    except Exception:  # noqa: BLE001  # it goes wrong again in the commit, which answers
                        prepared.displace()
                        is_made = False
                        break
                    yield
            yield

    def _make_ready(self, message: Message, prepared: Prepared) -> None:
        target = self._keeper(message)
        if isinstance(target, Queue):
            prepared.place(target.contents.persistent_lane(message), message)
        elif target is not None:
            prepared.displace()
            prepared.prepare(_store_of(target), message)
        else:
            prepared.pass_by(Route(message))

    def _is_as_prepared(self, placed: Placed, prepared: Prepared, routes: Sequence[Route]) -> bool:
        """Whether a commit of these messages, which may lack some of those that were prepared, is what was prepared."""
        return (
            len(routes) == len(prepared.routes)
            and not placed.is_closed
            and not 0 < placed.expires_ms < self._host.now_ms()
            and not any(self._keeper(route.message) for route in placed.others)  # durable subscriptions may have come
        )

    def _commit_placed(
        self,
        prepared: Prepared,
        placed: Placed,
        acknowledged: Sequence[Delivery],
        publisher: Publisher | None,
        answer: Answer,
        along: Commit,
    ) -> Completion[None] | None:
        """`_commit` of messages that have their places; nothing is done for each of them."""

        def submitted() -> _Told:
            prepared.placed = None
            return told

        def told(error: BaseException | None) -> None:
            is_advised = placed.is_advised
            placed.added(error)
            if error is None and is_advised:
                self._host.slices.run(self._advising(placed.adds))

        along = along._replace(adds=placed.adds, prepared=placed.made)
        return self._submit(along, placed.others, acknowledged, publisher, answer, submitted)

    def _advising(self, adds: Iterable[tuple[MessageStore, Message]]) -> Iterator[None]:
        """Those who listen to advisories are told what has arrived in queues; a job."""
        for store, message in adds:
            queue = self._host.queue(store.destination)
            if queue.is_advising:
                queue.advise(message)
            yield

    def _commit(
        self,
        routes: Sequence[Route],
        acknowledged: Sequence[Delivery],
        publisher: Publisher | None,
        answer: Answer,
        along: Commit = NOTHING,
        prepared: Prepared | None = None,
    ) -> Completion[None] | None:
        takers: list[Lane | Topic] = []
        adds: list[tuple[MessageStore, Message]] = []
        others: list[Route] = []
        try:
            for route in routes:
                if not route.message.persistent:
                    others.append(route)  # its copies are made behind the commit
                    continue
                for message in route.messages() if prepared is None else prepared.messages(route):
                    target = self._keeper(message)
                    if target is None:
                        others.append(Route(message))
                    else:
                        takers.append(taker := _note_taker(target, message))
                        adds.append((_store_of(taker), message))
        except JdbcStoreError as error:
            answer(error)
            return None

        def submitted() -> _Told:
            written = [_take_note(taker, message, publisher) for taker, (_, message) in zip(takers, adds, strict=True)]

            def told(error: BaseException | None) -> None:
                for noted, (_, message) in zip(written, adds, strict=True):
                    _stored(noted, error, message)

            return told

        made = () if prepared is None else [prepared.of(store, message) for store, message in adds]
        return self._submit(
            along._replace(adds=adds, prepared=made), others, acknowledged, publisher, answer, submitted
        )

    def _submit(
        self,
        commit: Commit,
        others: Sequence[Route],
        acknowledged: Sequence[Delivery],
        publisher: Publisher | None,
        answer: Answer,
        submitted: Callable[[], _Told],
    ) -> Completion[None] | None:
        """Have a commit stored, with acknowledgements, and publish behind it what the store does not keep.

        Args:
            commit: everything else.
            others: what is published.
            acknowledged, publisher, answer: as for `commit`.
            submitted: called when it is submitted, before anything else is; gives what is told when the store has
                answered.
        """
        removes, done_with = settlements(acknowledged)
        commit = commit._replace(
            removes=removes, acknowledged=[*done_with, *commit.acknowledged] if commit.acknowledged else done_with
        )
        is_stored = any(commit)
        try:
            completion = self._host.adapter.commit_together(commit) if is_stored else Completion.resolved(None)
        except JdbcStoreError as error:
            answer(error)
            return None
        held = publisher if is_stored and _may_be_overtaken(others, commit) else None
        if held is not None:
            held.hold()
        told = submitted()

        def take_effect(error: BaseException | None) -> None:
            told(error)
            if error is None:
                self._scheduler.changed(commit.jobs)
                settle(acknowledged)

        def finish(error: BaseException | None) -> None:
            try:
                take_effect(error)
            finally:
                if error is None:
                    self.follow(others, publisher, answer)
                else:
                    answer(error)

        def done(_: object, error: BaseException | None) -> None:
            try:
                finish(error)
            finally:
                if held is not None:
                    held.let_go()

        if is_stored:
            self._host.completions.expect(completion, done, None)
        else:
            done(None, None)
        return completion

    def follow(
        self, routes: Sequence[Route], publisher: Publisher | None, answer: Answer, *, is_told: bool = False
    ) -> None:
        """Publish what the store does not keep, behind the commit that it is part of; `is_told` as `FollowedAnswer`."""
        if not routes:
            answer(None)
            return
        whole = FollowedAnswer(answer, is_told=is_told)
        following = whole.following(message for route in routes for message in route.messages())
        count = sum([1 + len(route.places) for route in routes])
        self._publications.publish(following, count, publisher, partial(whole, None), whole.followed)

    # -- prepared transactions ---------------------------------------------------------------------------------------

    def store_of(self, message: Message) -> MessageStore | None:
        """The store that has to keep a message at its destination; None if it does not have to be kept."""
        target = self._keeper(message)
        return None if target is None else _store_of(_note_taker(target, message))

    def kept(self, routes: Iterable[Route]) -> list[tuple[MessageStore, Message]]:
        """What the broker's store has to keep of messages, with their copies, and where. What is to be sent later it
        keeps as a job, which is not among this."""
        at_once = (route for route in routes if route.message.persistent and not route.is_later)
        found = ((self.store_of(one), one) for route in at_once for one in route.messages())
        return [(store, one) for store, one in found if store is not None]

    def note_published(self, message: Message, publisher: Publisher | None) -> Answer:
        """Take note of a message to a topic that a commit makes visible which is submitted next, at a place that only
        the store knows. Returns what has to be told when the store has answered."""
        if message.destination is None:
            raise ValueError("a message needs a destination")
        topic = self._host.topic(message.destination)
        return partial(topic.admitted, topic.admit_unplaced(message, publisher))

    def note_queued(self, destination: Destination, priority: int, count: int) -> Answer:
        """The same of so many messages to a queue."""
        queue = self._host.queue(destination)
        lane = queue.contents.persistent_lane(Message(destination=destination, priority=priority, persistent=True))
        lane.store  # noqa: B018  # counted before it is more
        lane.take_place(count)

        def noted(error: BaseException | None) -> None:
            lane.places_added(count, error)
            if error is None:
                queue.enqueued += count

        return noted

    def _keeper(self, message: Message) -> Queue | Topic | None:
        """Who has the broker's store keep a message; None if it does not have to be kept."""
        destination = message.destination
        if not message.persistent or destination is None or destination.is_temporary:
            return None
        if destination.is_queue:
            return self._host.queue(destination)
        topic = self._host.topic(destination)
        return topic if topic.keeps(message) else None

    # -- dead letters --------------------------------------------------------------------------------------------

    def _dead_letter_of(
        self, message: Message, source: Destination, cause: str | None, subscription: SubscriptionKey | None = None
    ) -> Message | None:
        """A message as it goes to the dead letters; None if it is to be dropped.

        Args:
            message: expired, refused, or delivered too often.
            source: the queue or topic that it is in.
            cause: why, if it has not expired; None for a refused one.
            subscription: the durable subscription that is done with it, if it is one.
        """
        strategy, now_ms = self._host.policy_for(source).dead_letter_strategy, self._host.now_ms()
        target = self._dead_letters.target(strategy, message, source, now_ms, subscription)
        if target is None:
            return None
        cause = expiry_cause(message) if message.expired(now_ms) else cause
        expiration = now_ms + strategy.expiration_ms if strategy.expiration_ms else 0
        return dead_letter(message, target, cause=cause, expiration=expiration)

    def _kept_as_it_is(self, message: Message, source: Destination, why: BaseException) -> Message:
        """A dead letter in the place of one that the store refuses for good: the message, in the shared queue."""
        log.warning("dead letter refused, it is kept as it is message_id=%s error=%r", message.message_id, str(why))
        shared = self._dead_letters.shared_queue(self._host.policy_for(source).dead_letter_strategy)
        return dead_letter(message, shared, is_told=False)

    def _storable(
        self, message: Message, source: Destination, prepared: Prepared, subscription: SubscriptionKey | None = None
    ) -> Message | None:
        """The dead letter of an expired message, as the store takes it; None if the message is to be dropped.

        What is told of a message makes it larger than it was, and a commit that has it is not refused for that.
        """
        moved = self._dead_letter_of(message, source, None, subscription)
        if moved is None or (refusal := self._refusal(moved, prepared)) is None:
            return moved
        moved = self._kept_as_it_is(message, source, refusal)
        if (refusal := self._refusal(moved, prepared)) is None:
            return moved
        _log_dropped(message, source, refusal)
        return None

    def _refusal(self, message: Message, prepared: Prepared) -> JdbcStoreError | None:
        """Why the store will never take a message; None if it may."""
        try:
            if (target := self._keeper(message)) is not None:
                prepared.prepare(_store_of(_note_taker(target, message)), message)
        except JdbcStoreError as error:
            return None if may_pass(error) else error
        return None

    def is_for_dead_letters(self, destination: Destination) -> bool:
        """Whether dead letters go there."""
        return self._dead_letters.holds(destination)

    def discarded(self, consumer: Consumer, count: int, message: Message, publisher: Publisher | None) -> None:
        """A subscriber of a topic has lost a message, the last of so many. It becomes a dead letter if the topic's
        policy says so, once for all that lose it; who has published it waits for that."""
        source = message.destination
        if source is None:
            raise ValueError("a message that was published has a destination")
        policy = self._host.policy_for(source)
        if policy.advisory_for_discarding_messages:
            self._host.advisories.discarded(consumer, message, source, count)
        cause = f"TopicSubDiscard. ID:{consumer.subscription_id}"
        message_id = str(message.message_id)
        moved = None if message_id in self._lost else self._dead_letter_of(message, source, cause)
        if moved is None:
            return
        if len(self._lost) >= _LOST_MAX:
            del self._lost[next(iter(self._lost))]
        self._lost[message_id] = None
        self._count_dead(source)
        self._advise(message, source, is_dead_letter=True)
        if publisher is not None:
            publisher.hold()

        def kept(error: BaseException | None) -> None:
            if publisher is not None:
                publisher.let_go()
            if error is not None:
                log.warning(
                    "lost message of a topic could not become a dead letter message_id=%s source=%s error=%r",
                    message_id,
                    source,
                    str(error),
                )

        self._commit([self._interceptors.route(moved)], [], None, kept)

    def refused(self, delivery: Delivery, answer: DeliveryAnswer) -> None:
        """A client refuses a message: it is kept for later, in one commit, if the policy of its queue says so, and the
        store can keep it; else it becomes a dead letter, or is dropped. After an error it is where it was."""
        message, lane = delivery.message, delivery.lane
        if message is None or lane is None:
            raise ValueError(f"{delivery!r} holds no message to move")
        source = lane.queue.destination
        policy = self._host.redelivery_policy_for(source)
        most, has_expired = policy.maximum_redeliveries, message.expired(self._host.now_ms())
        if has_expired:
            self._count_expired(source)
        if has_expired or not source.is_queue:
            self.dead_letter(delivery, answer)
        elif policy.schedule_refused and self._scheduler.is_serving and (most < 0 or delivery.redeliveries < most):
            self._keep_for_later(message, delivery, policy, answer)
        elif policy.send_to_dlq_if_max_retries_exceeded:
            self.dead_letter(delivery, answer)
        else:
            log.warning("refused message dropped message_id=%s source=%s", message.message_id, lane.queue)
            lane.queue.removal.acknowledge([delivery], answer)

    def _keep_for_later(
        self, message: Message, delivery: Delivery, policy: RedeliveryPolicy, answer: DeliveryAnswer
    ) -> None:
        again = message.copy()
        again.transaction_id = None
        again.redelivery_counter = delivery.redeliveries + 1
        try:
            waited_ms = message.properties.get(REDELIVERY_DELAY)
            delay_ms = policy.refused_delay_ms(delivery.redeliveries, waited_ms if isinstance(waited_ms, int) else 0)
            job = self._scheduler.job_of_redelivery(again, delay_ms)
        except CodecError:  # properties that nobody can read cannot say when it is due either
            self.dead_letter(delivery, answer)
            return
        except JdbcStoreError as error:
            answer([delivery], error)
            return
        self._commit([], [delivery], None, lambda error: answer([delivery], error), Commit(jobs=[job]))

    def dead_letter(self, delivery: Delivery, answer: DeliveryAnswer) -> None:
        """Move a delivered message to the dead letters, in one commit, or drop it if its policy says so.

        If the store refuses it there for good, it goes to the shared dead-letter queue as it is; if that is refused,
        too, an expired one is dropped. After an error it is where it was.
        """
        message, lane = delivery.message, delivery.lane
        if message is None or lane is None:
            raise ValueError(f"{delivery!r} holds no message to move")
        source = lane.queue.destination
        subscription = lane.store.key if lane.is_durable and isinstance(lane.store, SubscriptionStore) else None
        moved = self._dead_letter_of(message, source, delivery.cause, subscription)
        has_expired = message.expired(self._host.now_ms())
        self._advise(message, source, is_dead_letter=moved is not None)
        if moved is None:
            if not has_expired:
                log.warning("refused message dropped message_id=%s source=%s", message.message_id, lane.queue)
            lane.queue.removal.acknowledge([delivery], answer)
            return

        def moved_or_not(error: BaseException | None) -> None:
            if error is None:
                self._count_dead(source)
            if error is None or may_pass(error):
                answer([delivery], error)
                return
            kept = self._kept_as_it_is(message, source, error)
            self._commit([Route(kept)], [delivery], None, kept_or_not)

        def kept_or_not(error: BaseException | None) -> None:
            if error is None or may_pass(error) or not has_expired:
                answer([delivery], error)
                return
            _log_dropped(message, source, error)
            lane.queue.removal.acknowledge([delivery], answer)

        self._commit([self._interceptors.route(moved)], [delivery], None, moved_or_not)

    def _count_expired(self, source: Destination) -> None:
        if source.is_queue:
            self._host.queue(source).removal.expired += 1
        else:
            self._host.topic(source).expired += 1

    def _count_dead(self, source: Destination) -> None:
        if len(self.dead_lettered) >= _COUNTED_MAX:
            self.dead_lettered.clear()
        self.dead_lettered[source] += 1

    def transfer(
        self, messages: Sequence[Message], taken: Sequence[Delivery], answer: Answer, along: Commit = NOTHING
    ) -> None:
        """Put messages where they say, and let others go, in one commit; nothing is scheduled anew.

        Args:
            messages: each with its destination.
            taken: deliveries that are handed out to nobody (`Queue.claim`).
            answer: called with the outcome. After an error the deliveries are still the caller's.
            along: what else belongs into the same commit.
        """
        self._commit([self._interceptors.route(message) for message in messages], taken, None, answer, along)

    def _advise(self, message: Message, source: Destination, *, is_dead_letter: bool) -> None:
        if message.expired(self._host.now_ms()):
            self._host.advisories.expired(message, source)
        if is_dead_letter:
            self._host.advisories.dead_lettered(message, source)

    def expire_unused(
        self, message: Message, store: TopicMessageStore, subscription: SubscriptionKey, *, is_buried: bool
    ) -> None:
        """Let go of an expired message of a durable subscription that nobody uses. If the store refuses, it is done the
        next time.

        Args:
            message: as the store has it.
            store: of its topic.
            subscription: the one that is done with it.
            is_buried: whether it may become a dead letter.
        """
        if message.message_id is None:
            raise ValueError("a stored message has an id")
        prepared = Prepared()
        moved = self._storable(message, store.destination, prepared, subscription) if is_buried else None
        dead = [] if moved is None else [self._interceptors.route(moved)]
        acknowledged = Commit(acknowledged=[(store, subscription, message.message_id)])
        self._commit(dead, [], None, _log_kept, acknowledged, prepared)

    def _bury_arrivals(
        self,
        late: Sequence[Message],
        others: Sequence[Route],
        acknowledged: Sequence[Delivery],
        publisher: Publisher | None,
        answer: Answer,
        along: Commit = NOTHING,
        prepared: Prepared | None = None,
    ) -> Completion[None] | None:
        """`_commit` with the dead letters of messages that had expired when they arrived, unless policies drop them."""
        prepared = prepared or Prepared()
        buried = [
            (message, source, self._storable(message, source, prepared))
            for message in late
            if (source := message.destination) is not None
        ]
        dead = [self._interceptors.route(moved) for *_, moved in buried if moved is not None]

        def done(error: BaseException | None) -> None:
            try:
                if error is None:
                    for message, source, moved in buried:
                        self._note_expired_arrival(message, source, is_dead_letter=moved is not None)
            finally:
                answer(error)

        return self._commit([*others, *dead], acknowledged, publisher, done, along, prepared)

    def _note_expired_arrival(self, message: Message, source: Destination, *, is_dead_letter: bool) -> None:
        self._count_expired(source)
        if is_dead_letter:
            self._count_dead(source)
        self._advise(message, source, is_dead_letter=is_dead_letter)


def settle(deliveries: Iterable[Delivery]) -> None:
    """A commit has settled these deliveries."""
    for lane, of_lane in by_lane(deliveries):
        if lane is not None:
            removal = lane.queue.removal
            removal.settled(of_lane) if lane.is_durable else removal.discard(*of_lane)


def _note_taker(target: Queue | Topic, message: Message) -> Lane | Topic:
    """Who takes note of a message that is stored."""
    return target.contents.persistent_lane(message) if isinstance(target, Queue) else target


def _lacking(
    adapter: PersistenceAdapter, number: Number, kept: Sequence[tuple[MessageStore, Message]]
) -> list[Message]:
    """What is not stored of a message that is stored somewhere. Blocks."""
    producer_id, sequence = number
    if len(kept) < 2 or sequence <= adapter.last_whole_sequence_id(producer_id):
        return []  # what is not there was consumed
    return [message for store, message in kept if store.get_message(MessageId(producer_id, sequence)) is None]


def _store_of(taker: Lane | Topic) -> MessageStore:
    return taker.open_store() if isinstance(taker, Topic) else taker.store


def _may_be_overtaken(others: Sequence[Route], commit: Commit) -> bool:
    """Whether their client has to wait for the commit that these follow: what it sends next need not wait for one.

    Numbered messages all wait for a commit, in their order, which is promised within a delivery mode (JMS 1.1,
    4.4.10).
    """
    return bool(others) and any(commit._replace(producers={}, follows=()))


def _take_note(taker: Lane | Topic, message: Message, publisher: Publisher | None) -> _Noted:
    """A write has just been submitted; returns what `_stored` has to be told when the store has answered."""
    if isinstance(taker, Topic):
        return taker, taker.admit(message, publisher)
    return taker, taker.admit(message, visible=False)


def _stored(noted: _Noted, error: BaseException | None, message: Message) -> None:
    taker, entry = noted
    if isinstance(taker, Topic):
        taker.admitted(entry, error)
        return
    taker.added(entry, error)
    if error is None:
        taker.queue.enqueued += 1
        taker.queue.enqueued_bytes += message.size
        if taker.queue.is_advising:
            taker.queue.advise(message)


def _log_dropped(message: Message, source: Destination, why: BaseException) -> None:
    log.warning(
        "expired message dropped, the store refuses its dead letter message_id=%s source=%s error=%r",
        message.message_id,
        source,
        str(why),
    )


def _log_kept(error: BaseException | None) -> None:
    if error is not None:
        log.warning("expired messages could not be removed, the next search finds them again error=%r", str(error))
