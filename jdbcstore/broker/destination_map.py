"""Which queues and topics there are: made at the first use, counted, forgotten when nobody uses them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain
from typing import Final, Protocol

from jdbcstore.broker.advisories import Advisories
from jdbcstore.broker.delivery import Answer
from jdbcstore.broker.durable import Durables
from jdbcstore.broker.memberships import Memberships
from jdbcstore.broker.pauses import PAUSES
from jdbcstore.broker.prepared_jobs import PREPARED_JOBS
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.broker.security.authorization import Authorization
from jdbcstore.broker.topic import Topic
from jdbcstore.broker.virtual_topics import VirtualTopics
from jdbcstore.destination import Destination, has_control_characters
from jdbcstore.destination import Queue as QueueName
from jdbcstore.errors import JdbcStoreError, ProtocolError

__all__ = ["DestinationMap"]

#: How often destinations that nobody uses are looked for when there are too many.
_TIDY_S: Final = 1.0

log = logging.getLogger(__name__)


class MapHost(RegionHost, Protocol):
    """A running broker, as far as others hear of new destinations."""

    @property
    def advisories(self) -> Advisories:
        """Tells clients of them."""

    @property
    def authorization(self) -> Authorization | None:
        """Who may use them; None for everybody."""

    @property
    def durables(self) -> Durables:
        """The durable subscriptions, which new topics get."""

    @property
    def virtual_topics(self) -> VirtualTopics:
        """Knows the queues that virtual topics feed."""


class DestinationMap:
    """The queues and topics of a broker.

    Args:
        host: the broker.
        memberships: of subscriptions that cover destinations which are still to come.
    """

    def __init__(self, host: MapHost, memberships: Memberships) -> None:
        self._host = host
        self._memberships = memberships
        self.queues: dict[Destination, Queue] = {}
        self.topics: dict[Destination, Topic] = {}
        #: Destinations that an operator wants to be there although nobody uses them.
        self.pinned: set[Destination] = set()
        #: Whether there are as many as clients may have.
        self.is_crowded = False
        self._temporary: set[Destination] = set()
        self._tidied_s = 0.0

    def queue(self, destination: Destination) -> Queue:
        """The queue of this name, made at the first use."""
        queue = self.queues.get(destination)
        if queue is None:
            queue = self.add_queue(destination)
            if self._host.virtual_topics.feeds(destination):
                self._host.queue_store(self._host.adapter, destination)  # remembers the queue from now on
            self._memberships.queue_appeared(queue)
        return queue

    def add_queue(self, destination: Destination) -> Queue:
        """A queue of this name that is not there yet.

        Raises:
            ProtocolError: the broker needs it for itself.
        """
        _refuse_own(destination)
        queue = self.queues[destination] = Queue(self._host, destination)
        self._count_destinations()
        self._host.advisories.destination_added(destination)
        if self._host.authorization is not None:
            self._host.authorization.appeared((destination,))
        self._host.virtual_topics.appeared(destination)
        return queue

    def topic(self, destination: Destination) -> Topic:
        """The topic of this name, made at the first use. Where very many wait for it: see `opening`."""
        topic = self.topics.get(destination)
        if topic is None:
            topic = self._add_topic(destination)
        while topic.opening is not None:
            topic.open_further()
        return topic

    def opening(self, destination: Destination) -> Iterator[None]:
        """Make the topic of this name, unless it is there; a job, after which `topic` takes no time."""
        topic = self.topics.get(destination) or self._add_topic(destination)
        while topic.open_further():
            yield

    def has_to_open(self, destination: Destination) -> bool:
        """Whether a topic is not there yet, and what `topic` does then belongs into slices."""
        topic = self.topics.get(destination)
        if topic is not None:
            return topic.opening is not None
        return self._memberships.awaits(destination) or self._host.durables.awaits(destination)

    def _add_topic(self, destination: Destination) -> Topic:
        topic = self.topics[destination] = Topic(self._host, destination)
        self._count_destinations()
        if self._host.authorization is not None:
            self._host.authorization.appeared((destination,))
        durable = () if destination.is_temporary else self._host.durables.appearing(topic)
        topic.opening = chain(durable, self._memberships.topic_appearing(topic))
        self._host.advisories.destination_added(destination)
        return topic

    def check_room_for(self, destination: Destination) -> None:
        """A client wants to use a destination, which is made if it is not there.

        Raises:
            ProtocolError: there are as many as there may be, and all of them are in use.
        """
        if not self.is_crowded or self.is_there(destination) or destination.is_wildcard:
            return
        now_s = self._host.loop.time()
        if now_s - self._tidied_s > _TIDY_S:
            self._tidied_s = now_s
            self._host.slices.run(self.forgetting_idle(-1.0))
        if self.is_crowded:
            most = self._host.options.destinations_max
            raise ProtocolError(
                f"There is no room for {destination}: destinations_max is {most}, and all queues and topics are in use."
                " Unsubscribe from one, or try again later"
            )

    def check_parts(self, destination: Destination) -> None:
        """A client wants to use a composite. To be asked before its parts are looked at, which takes time for each.

        Raises:
            ProtocolError: it has more than there may be.
        """
        count = destination.physical_name.count(",") + 1
        most = self._host.options.composite_parts_max
        if count > most:
            raise ProtocolError(
                f"{count} destinations at once: composite_parts_max is {most}. Use a topic or a wildcard, or name fewer"
                " in each request"
            )

    def check_name(self, destination: Destination) -> None:
        """A client wants to use a destination, which is made if it is not there. Need not be asked for what every store
        can keep (`Destination.is_storable`), unless it is made only when nobody is there to hear of an error.

        Raises:
            ProtocolError, ConfigurationError: it is not there, and there cannot be one of this name.
        """
        _refuse_own(destination)
        if destination.is_storable or destination.is_wildcard or destination.is_temporary or self.is_there(destination):
            return
        if has_control_characters(destination.physical_name):
            raise ProtocolError(f"{destination.qualified_name!r} has control characters: no new queue or topic may")
        if destination.is_queue:
            self._host.queue_store(self._host.adapter, destination)  # says whether the store can keep it

    def _count_destinations(self) -> None:
        self.is_crowded = (
            len(self.queues) + len(self.topics) - len(self._temporary) >= self._host.options.destinations_max
        )

    def is_there(self, destination: Destination) -> bool:
        """Whether there is a queue or topic of this name."""
        return destination in self.queues or destination in self.topics

    def add_temporary(self, destination: Destination, connection_id: str) -> None:
        """A connection has a new temporary destination."""
        self._temporary.add(destination)
        self._host.advisories.temporary_added(destination, connection_id)

    def knows_temporary(self, destination: Destination) -> bool:
        """Whether a temporary destination's connection is still there."""
        return destination in self._temporary

    def has_consumers(self, destination: Destination) -> bool:
        """Whether anybody is subscribed to a destination."""
        if destination.is_queue:
            queue = self.queues.get(destination)
            return queue is not None and queue.has_consumers
        topic = self.topics.get(destination)
        return topic is not None and bool(topic.consumers or topic.subscriptions)

    def count_consumers(self, destination: Destination) -> int:
        """How many consumers what this means has."""
        count = 0
        for element in destination.elements():
            for found in [element] if not element.is_wildcard else self._memberships.covered(element):
                queue = None if found is None else self.queues.get(found)
                topic = None if found is None else self.topics.get(found)
                count += 0 if queue is None else len(queue.consumers)
                count += 0 if topic is None else len(topic.consumers) + len(topic.durable)
        return count

    def remove_destination(self, destination: Destination, answer: Answer) -> None:
        """Remove a queue or topic that nobody is subscribed to, with all that is in it; `answer` hears when it is done.
        What is not there is removed already.

        Raises:
            ProtocolError: somebody is subscribed to it, or gives back what he had; or it is not one destination.
        """
        if destination.is_composite or destination.is_wildcard:
            raise ProtocolError(f"Cannot remove {destination}: name one queue or topic")
        topic = self.topics.get(destination)
        if self.has_consumers(destination) or (topic is not None and topic.durable):
            raise ProtocolError(f"Destination: {destination} still has an active subscription")
        if topic is not None:
            topic.forget_history()
            if not topic.is_used:
                self.remove_topic(destination)
        if not destination.is_queue:
            answer(None)
            return
        queue = self.queues.get(destination)
        if queue is not None and queue.is_getting_back:
            raise ProtocolError(f"Destination: {destination} gets back what a consumer had that has left: try it again")

        def purged(error: BaseException | None) -> None:
            if error is None and queue is not None and queue.idle and self.queues.get(destination) is queue:
                self.remove_queue(destination)
            if error is not None or not self._host.virtual_topics.remove(destination):
                answer(error)
                return
            forgotten = self._host.adapter.remove_destination(QueueName.decoded(destination.physical_name))
            self._host.completions.expect(forgotten, lambda _, failure: answer(failure), None)

        if queue is None:
            purged(None)
        else:
            queue.purge(purged)

    def remove_temporary(self, destination: Destination) -> None:
        """Forget a temporary destination with everything in it."""
        self._temporary.discard(destination)
        self._host.advisories.temporary_removed(destination)
        queue = self.queues.pop(destination, None)
        if queue is not None:
            queue.delete()
        self.topics.pop(destination, None)
        self._count_destinations()

    def remove_queue(self, destination: Destination) -> None:
        """Forget a queue that nobody uses, and that nothing is in."""
        if self.queues.pop(destination, None) is not None:
            self._let_go_of_store(destination)
            self._removed(destination)

    def remove_topic(self, destination: Destination) -> None:
        """Forget a topic that nobody subscribes to."""
        topic = self.topics.pop(destination, None)
        if topic is not None:
            topic.let_go()
            self._removed(destination)

    def _removed(self, destination: Destination) -> None:
        self.pinned.discard(destination)
        self._count_destinations()
        self._host.advisories.destination_removed(destination)

    # -- what nobody uses -------------------------------------------------------------------------------------------

    def forgetting_idle(self, timeout_s: float) -> Iterator[None]:
        """Forget what nobody has used for so long; a job."""
        now_s = self._host.loop.time()
        for name, queue in list(self.queues.items()):
            if not queue.idle:
                queue.last_used_s = now_s
            elif (
                now_s - queue.last_used_s > timeout_s
                and not name.is_temporary
                and not self._host.virtual_topics.feeds(name)
                and name not in self.pinned
                and self.queues.get(name) is queue
            ):
                self.remove_queue(name)  # who wants room has it with the first, not when all have been looked at
            yield
        for name, topic in list(self.topics.items()):
            if topic.is_used:
                topic.last_used_s = now_s
            elif (
                now_s - topic.last_used_s > timeout_s
                and not name.is_temporary
                and name not in self.pinned
                and self.topics.get(name) is topic
            ):
                self.remove_topic(name)
            yield

    def _let_go_of_store(self, name: Destination) -> None:
        queue = QueueName.decoded(name.physical_name)
        try:
            self._host.adapter.remove_queue_message_store(queue)
            self._host.forget_in_spool(queue)
        except JdbcStoreError as error:
            log.warning("store of an idle queue could not be closed queue=%s error=%r", name, str(error))


def _refuse_own(destination: Destination) -> None:
    """Raise ProtocolError if the broker needs a queue for itself."""
    if destination == PAUSES:
        raise ProtocolError(f"{destination} keeps what operators have paused: use another name")
    if destination == PREPARED_JOBS:
        raise ProtocolError(f"{destination} keeps scheduled messages that are in doubt: use another name")
