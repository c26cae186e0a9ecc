"""Scheduled messages of distributed transactions, from the first phase until the scheduler has them.

**Where they are.** A store prepares what is added to queues and topics, not jobs. So a message that is to be sent later
is prepared in a queue of its own, `PREPARED_JOBS`, with the rest of its transaction. A rollback removes it there like
any other. A commit makes it visible, and then it becomes a job in the commit that takes it out of the queue. If the
broker ends in between, the next one finds it when it begins. Its delay counts from when it becomes a job.

Clients cannot use that queue: nobody sends to it, and no wildcard means it. A Java broker that takes the store over has
the queue with the messages in it, and sends none of them.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from jdbcstore.broker.region_host import RegionHost
from jdbcstore.broker.scheduler import Scheduler
from jdbcstore.destination import Queue as QueueName
from jdbcstore.destination import parse_destination
from jdbcstore.errors import JdbcStoreError, ProtocolError, may_pass
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.contract import Commit, Cursor, MessageStore, Page, ScheduledJob
from jdbcstore.store.jobs import HELD_MS
from jdbcstore.trouble import Trouble

__all__ = ["PREPARED_JOBS", "PreparedJobs"]

log = logging.getLogger(__name__)

#: What keeps scheduled messages in doubt.
PREPARED_JOBS: Final = QueueName("jdbcstore.PreparedJobs")
#: The property that says where such a message is to be sent.
_DESTINATION: Final = "jdbcstoreDestination"
_PAGE_JOBS: Final = 200
_PAGE_BYTES: Final = 4 << 20
#: A pause after trouble with the store.
_RETRY_S: Final = 1.0


class PreparedJobs:
    """Those of one broker. Everything here is called in its event loop.

    Args:
        broker: gives the store and the loop.
        scheduler: gets them.
    """

    def __init__(self, broker: RegionHost, scheduler: Scheduler) -> None:
        self._broker = broker
        self._scheduler = scheduler
        #: What is asked in one mastership is not answered to the next.
        self._mastership = 0
        self._is_at_work = self._is_asked = self._is_troubled = False
        self._reading_trouble = Trouble()
        self._unanswered = 0
        #: What the store refuses as a job.
        self._refused: set[MessageId] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The broker is master now, and its scheduler has begun: what was committed before becomes jobs."""
        self.end()
        self._refused.clear()
        self.look()

    def end(self) -> None:
        """The broker is not master any more."""
        self._mastership += 1
        self._is_at_work = self._is_asked = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- first phase -------------------------------------------------------------------------------------------------

    @property
    def store(self) -> MessageStore:
        """Where they are prepared."""
        return self._broker.adapter.queue_message_store(PREPARED_JOBS)

    def put_by(self, message: Message) -> Message:
        """A message as it is prepared. Raises ProtocolError if it cannot be kept for later."""
        self._scheduler.job_of(message)
        destination = message.destination
        if destination is None:
            raise ProtocolError("a message needs a destination")
        kept = message.copy()
        kept.destination = PREPARED_JOBS
        kept.set_property(_DESTINATION, destination.prefix + destination.physical_name)
        return kept

    # -- after the second phase ----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Make jobs of what is committed."""
        if not self._scheduler.is_serving:
            return
        if self._is_at_work:
            self._is_asked = True
            return
        self._is_at_work, self._is_asked, self._is_troubled = True, False, False
        asked = self._broker.read(self.store.recover_next_messages, Cursor(), _PAGE_JOBS, _PAGE_BYTES)
        asked.add_done_callback(partial(self._found, self._mastership))

    def _found(self, mastership: int, reading: asyncio.Future[Page]) -> None:
        if mastership != self._mastership or reading.cancelled():
            return
        error = reading.exception()
        if error is not None:
            if self._reading_trouble.goes_on(error):
                log.warning("prepared scheduled messages could not be read, trying again error=%r", str(error))
            self._rest(is_troubled=True)
            return
        if failures := self._reading_trouble.is_over():
            log.warning("prepared scheduled messages are read again failures=%d", failures)
        found = [one for one in reading.result().messages if one.message_id not in self._refused]
        if not found:
            self._rest(is_troubled=False)
            return
        self._unanswered = len(found)
        for message in found:
            self._schedule(message)

    def _schedule(self, message: Message) -> None:
        message_id = message.message_id
        if message_id is None:
            raise ValueError("what is stored has an id")
        mastership = self._mastership
        job = self._job_of(message)

        def kept(_: object, error: BaseException | None) -> None:
            if error is None:
                self._scheduler.changed([job])
            elif may_pass(error):
                self._is_troubled = True
            else:
                self._refused.add(message_id)
                log.error(
                    "prepared scheduled message refused by the store, it stays message_id=%s error=%r",
                    message_id,
                    str(error),
                )
            if mastership == self._mastership:
                self._unanswered -= 1
                if not self._unanswered:
                    self._is_asked = True  # there may be another page
                    self._rest(is_troubled=self._is_troubled)

        try:
            completion = self._broker.adapter.commit_together(Commit(removes=[(self.store, message_id)], jobs=[job]))
        except JdbcStoreError as error:
            self._broker.loop.call_soon(kept, None, error)
        else:
            self._broker.completions.expect(completion, kept, None)

    def _job_of(self, message: Message) -> ScheduledJob:
        """The job of a stored message. Which cannot come true any more is put aside, as by the scheduler."""
        wanted = message.copy()
        properties = dict(message.properties)
        wanted.destination = parse_destination(str(properties.pop(_DESTINATION, PREPARED_JOBS)))
        wanted.properties = properties
        wanted.transaction_id = None
        try:
            return self._scheduler.timed(wanted)
        except ProtocolError as error:  # its time has come and gone
            reason = str(error)
        log.error("scheduled message cannot be sent, it is put aside job_id=%s error=%r", message.message_id, reason)
        return ScheduledJob(str(message.message_id), wanted, HELD_MS, 0, 0, 0)

    def _rest(self, *, is_troubled: bool) -> None:
        self._is_at_work = False
        if is_troubled:
            self._timer = self._broker.loop.call_later(_RETRY_S, self.look)
        elif self._is_asked:
            self.look()
