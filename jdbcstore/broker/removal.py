"""Messages that leave a queue: acknowledged, refused, expired, or dead letters. Each leaves it once, after the commit.

What cannot leave it because the store does not answer is tried again until it can, or is left to who reads the store
next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from jdbcstore.broker.delivery import Delivery, DeliveryAnswer
from jdbcstore.broker.delivery_counts import DeliveryCounts
from jdbcstore.broker.destination_host import DestinationHost
from jdbcstore.broker.lane import Lane
from jdbcstore.broker.queue_consumers import QueueConsumers
from jdbcstore.broker.queue_contents import QueueContents
from jdbcstore.destination import Destination
from jdbcstore.errors import JdbcStoreError, StoreClosed, may_pass
from jdbcstore.message import Message

__all__ = ["Removal"]

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
_Move: TypeAlias = Callable[[Delivery, DeliveryAnswer], None]


class Removal:
    """Removes messages of one queue.

    Args:
        broker: gives completions, dead letters and the loop.
        destination: the queue.
        contents: what is in it.
        consumers: who takes part.
        counts: how often messages were delivered before, where that is not the store's business.

    Attributes:
        dequeued, expired: messages acknowledged or dropped, and those of them that had expired.
    """

    def __init__(
        self,
        broker: DestinationHost,
        destination: Destination,
        contents: QueueContents,
        consumers: QueueConsumers,
        counts: DeliveryCounts | None,
    ) -> None:
        self.dequeued = self.expired = 0
        self._broker = broker
        self._destination = destination
        self._contents = contents
        self._consumers = consumers
        self._counts = counts
        #: Whether it has to be told of each message that a consumer is done with it.
        self._is_advising = broker.policy_for(destination).advisory_for_consumed

    # -- acknowledged ------------------------------------------------------------------------------------------------

    def acknowledge(self, deliveries: Sequence[Delivery], answer: DeliveryAnswer) -> None:
        """Consumers are done with messages of one lane. After an error a delivery is still its consumer's."""
        lane = deliveries[0].lane
        try:
            completion = None if lane is None else lane.remove(deliveries)
        except JdbcStoreError as error:
            answer(deliveries, error)
            return
        if completion is None or (completion.done and completion.error is None):
            self._removed((deliveries, answer), None)
            return
        self._broker.completions.expect(completion, self._removed, (deliveries, answer))
        if not self._is_advising:
            self._contents.unload(*deliveries)  # should the store refuse, they can be read again

    def _removed(self, subject: tuple[Sequence[Delivery], DeliveryAnswer], error: BaseException | None) -> None:
        deliveries, answer = subject
        if error is not None:  # what the store never had is gone all the same
            kept = [delivery for delivery in deliveries if not delivery.failed]
            if kept:
                answer(kept, error)
            deliveries = [delivery for delivery in deliveries if delivery.failed]
        if deliveries:
            try:
                self.settled(deliveries)
            finally:
                answer(deliveries, None)

    def settled(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries of one lane have left the store, or go with the commit that just succeeded."""
        if self._counts is not None:
            self._counts.forget(deliveries)
        lane = deliveries[0].lane
        if lane is not None:
            lane.removed(deliveries)
        if self._is_advising:
            for delivery in deliveries:
                if delivery.message is not None and delivery.consumer is not None:
                    self._broker.advisories.consumed(delivery.message, self._destination)
        self._contents.forget(*deliveries)
        self.dequeued += len(deliveries)
        self._consumers.done(deliveries)

    def consumed(self, *deliveries: Delivery) -> None:
        """Consumers in mode auto have messages of one lane. They get room for others when these are removed."""
        self.acknowledge(deliveries, self._consumed)

    def _consumed(self, deliveries: Sequence[Delivery], error: BaseException | None) -> None:
        if error is not None:
            self._try_again(self.consumed, deliveries, error)
            return
        for delivery in deliveries:
            if delivery.consumer is not None:
                delivery.consumer.release()

    def discard(self, *deliveries: Delivery) -> None:
        """Remove messages of one lane that nobody waits for, however long it takes the store to do it."""
        self.acknowledge(deliveries, self._discarded)

    def _discarded(self, deliveries: Sequence[Delivery], error: BaseException | None) -> None:
        if error is not None:
            self._try_again(self.discard, deliveries, error)

    def _try_again(
        self, action: Callable[[Delivery], None], deliveries: Sequence[Delivery], error: BaseException
    ) -> None:
        """Nobody else will do it. But while the broker does not serve, it is left to who reads the store next."""
        for delivery in deliveries:
            if not self._broker.is_running or delivery.is_late:
                self._contents.forget(delivery)
            else:
                log.warning(
                    "message could not be removed, trying again destination=%s message_id=%s error=%r",
                    self._destination,
                    delivery.message_id,
                    str(error),
                )
                self._broker.loop.call_later(_RETRY_S, self._again, action, delivery)

    def _again(self, action: Callable[[Delivery], None], delivery: Delivery) -> None:
        if delivery.is_late:
            self._contents.forget(delivery)
        else:
            action(delivery)

    # -- expired -----------------------------------------------------------------------------------------------------

    def expire(self, delivery: Delivery) -> None:
        """Let an expired message go that was taken out of the queue, to the dead letters or nowhere."""
        self.expired += 1
        delivery.hand_out()
        self.bury(delivery)

    def expire_stored(self, message: Message, lane: Lane, *, is_buried: bool) -> bool:
        """Let an expired message go that the store has.

        Args:
            message: as the store has it.
            lane: its lane.
            is_buried: whether it may become a dead letter; otherwise it is only removed.

        Returns:
            False if a consumer has it, or it is gone already.
        """
        delivery = lane.claim(message) or self._contents.take_returned(lane, message)
        if delivery is None:
            return False
        if is_buried:
            self.expire(delivery)
        else:
            delivery.hand_out()
            self.discard(delivery)
        return True

    # -- dead letters ------------------------------------------------------------------------------------------------

    def refuse(self, delivery: Delivery, answer: DeliveryAnswer) -> None:
        """The consumer refuses the message (NACK): it becomes a dead letter, or comes again if a policy says so.

        After an error nothing has changed.
        """
        self._load(delivery, answer, self._broker.refused)

    def _load(self, delivery: Delivery, answer: DeliveryAnswer, move: _Move) -> None:
        """Move a message, which has to be in memory for that."""
        lane = delivery.lane
        if delivery.message is not None or lane is None:
            self._move(delivery, answer, move)
            return

        def loaded(future: asyncio.Future[Message | None]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            if error is not None:
                answer([delivery], error)
                return
            if delivery.is_late:
                answer([delivery], StoreClosed("the store was closed before this was done"))
                return
            message = future.result()
            if message is None:  # somebody removed it from the store meanwhile: nothing is left to be kept
                self.settled([delivery])
                answer([delivery], None)
            else:
                self._contents.keep(delivery, message)
                self._move(delivery, answer, move)

        self._broker.read_patiently(lane.store.get_message, delivery.message_id).add_done_callback(loaded)

    def _move(self, delivery: Delivery, answer: DeliveryAnswer, move: _Move) -> None:
        """Move a message to the dead letters. Whatever is wrong with it, this raises nothing, and answers."""
        try:
            move(delivery, answer)
        except Exception as error:
            log.exception("defect in making a dead letter message_id=%s", delivery.message_id)
            answer([delivery], error)

    def cannot_deliver(self, delivery: Delivery, error: BaseException, protocol: str) -> None:
        """A transport cannot send a message: it becomes a dead letter. One that is there already stays, unseen."""
        if self._broker.is_for_dead_letters(self._destination):
            self._leave(delivery, error)
        else:
            delivery.cause = f"Cannot be delivered to a {protocol} client: {type(error).__name__}: {error}"
            self.bury(delivery)

    def _leave(self, delivery: Delivery, error: BaseException) -> None:
        """Let a message stay in the store as if it were not there, until the store is read anew."""
        log.error(
            "message can be neither delivered nor moved, it stays where it is destination=%s message_id=%s error=%r",
            self._destination,
            delivery.message_id,
            str(error),
        )
        delivery.take_back()
        self._contents.forget(delivery)
        self._consumers.done([delivery])

    def bury(self, delivery: Delivery) -> None:
        """Move a message that cannot be delivered to the dead letters, however long it takes the store to do it.

        If that can never be, it is left alone until the store is read anew.
        """
        self._load(delivery, self._buried, self._broker.dead_letter)

    def _buried(self, deliveries: Sequence[Delivery], error: BaseException | None) -> None:
        if error is None:
            return
        if may_pass(error):
            self._try_again(self.bury, deliveries, error)
            return
        for delivery in deliveries:
            self._leave(delivery, error)
