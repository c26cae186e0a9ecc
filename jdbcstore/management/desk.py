"""What all operators of one broker share: who looks at it, what is under way, what was done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import Final

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.completion_bridge import resolve
from jdbcstore.broker.message_division import MessageDivision
from jdbcstore.broker.pauses import CONSUMERS, PRODUCERS
from jdbcstore.broker.region_host import NOTHING
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError, ProtocolError, UnknownDestination, UnknownTransaction
from jdbcstore.identifiers import MessageId, ProducerId, xid_of_text, xid_text
from jdbcstore.management.diagnosis import Diagnoses
from jdbcstore.management.inspection import Inspection
from jdbcstore.management.log_tail import Audit, LogTail
from jdbcstore.management.observation import Observation
from jdbcstore.management.operations import Operations
from jdbcstore.management.pages import Pages
from jdbcstore.message import Message
from jdbcstore.spelling import did_you_mean
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit
from jdbcstore.store.jobs import JobStore, SupportsScheduling
from jdbcstore.subscription import SubscriptionKey

__all__ = ["Desk"]

#: How long a broker that hands over does not want to be master again.
_REST_S: Final = 10.0


class Desk:
    """Started and stopped with its broker (`Broker.companions`). Asks nobody for rights: `Management` does.

    Args:
        broker: whose.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.log = LogTail()
        self.audit = Audit()
        self.observation = Observation(broker)
        self.operations = Operations(broker, self.audit)
        self.pages = Pages(broker)
        self.inspection = Inspection(broker)
        self.diagnoses = Diagnoses(broker)
        self._division = MessageDivision(broker)
        self._numbers = count(1)
        self._producer: ProducerId | None = None
        self._restoring = asyncio.Lock()

    async def start(self) -> None:
        """Begin."""
        self.log.start()
        self.observation.start()

    async def stop(self) -> None:
        """Come to an end; operations end behind the commit that they are at."""
        self.operations.stop()
        self.observation.stop()
        self.log.stop()

    # -- destinations --------------------------------------------------------------------------------------------

    def check_known(self, destination: Destination) -> None:
        """Raise UnknownDestination if there is no such queue or topic."""
        broker = self.broker
        if destination in broker.queues or destination in broker.topics or destination in broker.pauses:
            return
        names = [str(name) for name in (*broker.queues, *broker.topics)]
        hint = did_you_mean(str(destination), names[:50_000]) if len(names) < 50_000 else ""
        raise UnknownDestination(f"there is no destination {destination}{hint}")

    def create(self, destination: Destination) -> None:
        """Make a queue or topic, which stays until it is deleted, or the broker stops with nothing in it.

        Raises:
            ConfigurationError: the name cannot be one destination's.
            ProtocolError: there are as many destinations as there may be.
        """
        if destination.is_temporary or not destination.is_storable:
            raise ConfigurationError(f"{destination} cannot be created: it has to be the name of one queue or topic")
        self.broker.check_room_for(destination)
        self.broker.pinned.add(destination)
        if destination.is_queue:
            self.broker.queue(destination)
        else:
            self.broker.topic(destination)
        self.observation.outdate()

    def check_unused(self, destination: Destination) -> None:
        """Raise ProtocolError if somebody uses a destination, so that it cannot be deleted."""
        broker = self.broker
        queue, topic = broker.queues.get(destination), broker.topics.get(destination)
        if queue is not None and (queue.consumers or queue.in_flight):
            raise ProtocolError(f"{destination} has {len(queue.consumers)} consumers: disconnect them first")
        if topic is not None and (topic.consumers or topic.subscriptions):
            raise ProtocolError(f"{destination} has subscribers: disconnect them first")
        if topic is not None and topic.durable:
            raise ProtocolError(f"{destination} has {len(topic.durable)} durable subscriptions: remove them first")

    async def forget(self, destination: Destination) -> None:
        """Forget an empty destination that nobody uses, also in the store."""
        broker = self.broker
        self.check_unused(destination)
        queue = broker.queues.get(destination)
        if queue is not None and queue.depth:
            raise ProtocolError(f"{destination} has {queue.depth} messages: purge it first")
        broker.pinned.discard(destination)
        await broker.pauses.change(destination, (CONSUMERS, PRODUCERS), is_on=False)
        if queue is not None:
            broker.remove_queue(destination)
        else:
            broker.remove_topic(destination)
        self.observation.outdate()
        await self._completed(broker.adapter.remove_destination(destination))  # type: ignore[arg-type]  # no temporary

    # -- messages ------------------------------------------------------------------------------------------------

    async def publish(self, message: Message, destination: Destination) -> MessageId:
        """Give the broker a message, and wait until it is safe.

        Args:
            message: complete but for its id.
            destination: where to; each one of a composite gets it, or none.

        Returns:
            Its id.

        Raises:
            ProtocolError, ConfigurationError: what clients cannot send to.
            StoreError: the store refuses it.
        """
        broker = self.broker
        message_id = self._next_id()
        message.message_id, message.producer_id = message_id, message_id.producer_id
        routes = self._division.routes(message, destination)
        answered = broker.loop.create_future()
        if len(routes) == 1:
            broker.publish(routes[0], None, partial(resolve, answered))
        else:
            broker.commit(routes, [], None, partial(resolve, answered))
        await answered
        return message_id

    def _next_id(self) -> MessageId:
        if self._producer is None:
            self._producer = ProducerId(self.broker.next_connection_id(), 1, 1)
        return MessageId(self._producer, next(self._numbers))

    async def restore(self, messages: Sequence[Message], portion: tuple[str, int] | None = None) -> bool:
        """Store messages in one commit; those without an id get one. Raises what the store raises.

        Args:
            messages: which ones.
            portion: the name of an import and the number of a portion of it. The store keeps the highest number in the
                same commit, so nothing is stored twice that is sent again because its answer was lost.

        Returns:
            False if the portion was stored before.
        """
        adapter = self.broker.adapter
        along = NOTHING
        async with self._restoring:  # what comes twice at a time, too, is looked up behind the first one's commit
            if portion is not None and adapter.remembers_producers:
                run, number = portion
                producer_id = ProducerId(f"ID:jdbcstore-import-{run}", 0, 0)
                if number <= await self.broker.read(adapter.last_producer_sequence_id, producer_id):
                    return False
                along = Commit(producers={producer_id: number})
            answered = self.broker.loop.create_future()
            for message in messages:
                if message.message_id is None:
                    message.message_id = self._next_id()
            self.broker.transfer(messages, [], partial(resolve, answered), along)
            await answered
        return True

    async def remove_subscription(self, key: SubscriptionKey) -> None:
        """Remove a durable subscription that nobody uses. Raises ProtocolError, StoreError."""
        answered = self.broker.loop.create_future()

        def removing() -> Iterator[None]:
            yield from self.broker.durables.unsubscribing(key, partial(resolve, answered))

        await self.broker.slices.complete(removing())
        await answered

    async def remove_scheduled(self, job_id: str) -> int:
        """Forget a scheduled message. Returns how many there were, one or none."""
        jobs = self._jobs()
        if jobs is None or not await self.broker.read(jobs.has_job, job_id):
            return 0
        await self._completed(jobs.remove_job(job_id))
        self.broker.scheduler.removed()
        return 1

    async def remove_all_scheduled(self) -> int:
        """Forget every scheduled message. Returns how many there were."""
        jobs = self._jobs()
        if jobs is None:
            return 0
        count = await self.broker.read(jobs.job_count)
        await self._completed(jobs.remove_jobs())
        self.broker.scheduler.removed()
        return count

    def _jobs(self) -> JobStore | None:
        adapter = self.broker.adapter
        return adapter.job_store() if isinstance(adapter, SupportsScheduling) else None

    # -- transactions in doubt -----------------------------------------------------------------------------------

    async def decide(self, xid: str, *, commits: bool) -> None:
        """Commit a transaction in doubt, or roll it back.

        Args:
            xid: as `jdbcstore.identifiers.xid_text` writes it.
            commits: how.

        Raises:
            ConfigurationError: it is no such text.
            UnknownTransaction: it is not in doubt.
            TransientStoreError: it is being prepared or decided just now.
            StoreError: the store refuses; it is in doubt as before.
        """
        wanted = xid_text(xid_of_text(xid))
        in_doubt = self.broker.in_doubt
        found = next((one for one in in_doubt if xid_text(one) == wanted), None)
        if found is None:
            raise UnknownTransaction(f"{wanted} is not in doubt (any more): 'prepared' lists what is")
        in_doubt.require_prepared(found)
        answered = self.broker.loop.create_future()
        if commits:
            in_doubt.commit(found, None, partial(resolve, answered))
        else:
            in_doubt.roll_back(found, partial(resolve, answered))
        await answered

    async def _completed(self, completion: Completion[None]) -> None:
        answered = self.broker.loop.create_future()
        self.broker.completions.expect(completion, resolve, answered)
        await answered

    # -- the broker ------------------------------------------------------------------------------------------------

    def hand_over(self) -> None:
        """Let a standby be master. Raises LockError if there cannot be one."""
        self.broker.resign(_REST_S)
