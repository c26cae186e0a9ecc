"""The scheduler: sends messages when they are due.

A message that asks for it goes to the store's jobs instead of to its destination (`Broker.commit`). A timer waits for
the first one that is due; then a page of due jobs is read, each is fired in a commit of its own, and when all are
answered the next page is read, until nothing is due. So memory holds a page at most, and the commits of a page share
a disk flush.

Who publishes to a topic waits while a subscriber does not keep up (`jdbcstore.broker.topic`). The scheduler does not:
what is due for queues is fired, and only what goes to topics waits.

Only a master fires: it begins when clients are let in and ends when they are dropped. That a firing happens once does
not depend on it: the store commits the message together with what becomes of the job, and refuses a job that is not due
as it was read (`JobStore`). So after any failure the jobs are just read again.

Jobs are looked at and removed by messages to ``ActiveMQ.Scheduler.Management``, as with ActiveMQ.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from jdbcstore.broker.delivery import Answer
from jdbcstore.broker.feed import Paced
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.broker.route import Route
from jdbcstore.broker.schedule import (
    JOB_ID,
    asks_for_redelivery,
    asks_for_schedule,
    due_message,
    firing_of,
    is_redelivery,
    job_of,
)
from jdbcstore.destination import Destination
from jdbcstore.errors import JdbcStoreError, ProtocolError, SchemaMismatch, StoreClosed, may_pass
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, FiredJob, JobChange, JobPage, JobStore, ScheduledJob, SupportsScheduling
from jdbcstore.store.jobs import HELD_MS, JobPlace
from jdbcstore.trouble import Trouble

__all__ = ["Scheduler"]

log = logging.getLogger(__name__)

_PAGE_JOBS: Final = 200
_PAGE_BYTES: Final = 4 << 20
#: A pause after trouble with the store.
_RETRY_MS: Final = 1000
#: Look at the wall clock that often: somebody may have set it.
_WAIT_MOST_S: Final = 10.0
_DAY_MS: Final = 86_400_000

_MANAGEMENT: Final = "activemq.scheduler.management"
_ACTION: Final = "AMQ_SCHEDULER_ACTION"
_START: Final = ("ACTION_START_TIME", "AMQ_SCHEDULER_ACTION_START_TIME")
_END: Final = ("ACTION_END_TIME", "AMQ_SCHEDULER_ACTION_END_TIME")


class Scheduler:
    """Scheduled messages of one broker; a `Publisher`. Everything here is called in its event loop.

    Args:
        broker: gives the store, the loop, and publishes.
    """

    def __init__(self, broker: RegionHost) -> None:
        #: The wall clock, epoch milliseconds.
        self.now_ms: Callable[[], int] = broker.now_ms
        #: Messages sent because they were due, and jobs that could not be fired.
        self.fired = self.held = 0
        #: Whether a message is to be kept for later instead of being published.
        self.takes: Callable[[Message], bool] = (
            asks_for_schedule if broker.options.scheduler_support else lambda message: False
        )
        self._broker = broker
        self._kept: JobStore | None = None
        self._store: JobStore | None = None
        self._why_not = ""
        self._timer: asyncio.TimerHandle | None = None
        #: What is asked in one mastership is not answered to the next.
        self._mastership = 0
        self._is_at_work = False
        #: When to look again at the latest.
        self._due_ms = HELD_MS
        self._unanswered = 0
        #: How many subscribers hold it back, and the last of the jobs that wait for that.
        self._holds = 0
        self._passed: JobPlace | None = None
        self._is_troubled = False
        self._reading_trouble = Trouble()
        self._count = 0
        self._producer = ProducerId("", 0, 0)
        self._sent = 0

    # -- life ----------------------------------------------------------------------------------------------------

    async def load(self, call: Callable[[Callable[[], int]], Awaitable[int]]) -> None:
        """Find the jobs of a store that was just opened, and count them while nobody changes them.

        Args:
            call: calls a function that blocks in a thread.

        Raises:
            StoreError, LeaseLost: they could not be counted.
        """
        adapter = self._broker.adapter
        self._kept, self._count = None, 0
        self._why_not = (
            f"the store {adapter.location} keeps none; a KahaDB directory or a database does ('jdbcstore migrate')"
        )
        if not self._broker.options.scheduler_support or not isinstance(adapter, SupportsScheduling):
            return
        try:
            store = adapter.job_store()
        except SchemaMismatch as error:
            self._why_not = str(error)
            log.warning("messages cannot be scheduled error=%r", str(error))
            return
        self._count = await call(store.job_count)
        self._kept = store

    def begin(self) -> None:
        """The broker is master now, of the store that was loaded."""
        self.end()
        self._store = self._kept
        self._producer, self._sent = ProducerId(self._broker.next_connection_id(), 1, 1), 0
        self.look()

    def end(self) -> None:
        """The broker is not master any more."""
        self._mastership += 1
        self._store = None
        self._is_at_work = False
        self._passed = None
        self._due_ms = HELD_MS
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_serving(self) -> bool:
        """Whether messages can be kept for later, now."""
        return self._store is not None

    # -- scheduling ----------------------------------------------------------------------------------------------

    def job_of(self, message: Message) -> ScheduledJob:
        """The job of a message that `takes` says yes to. Raises ProtocolError if it cannot be kept."""
        options = self._broker.options
        if self._store is None:
            raise ProtocolError(f"Cannot schedule a message: {self._why_not}")
        if self._count >= options.scheduled_jobs_max:
            raise ProtocolError(
                f"Cannot schedule a message: {self._count} wait already, and scheduled_jobs_max is"
                f" {options.scheduled_jobs_max}. Try again later"
            )
        return self.timed(message)

    def job_of_redelivery(self, message: Message, delay_ms: int) -> ScheduledJob:
        """The job that sends a message again. Its name is its own: other queues may have the message, too.

        Args:
            message: becomes one that asks for it.
            delay_ms: how long it waits.

        Raises:
            ProtocolError: it cannot be kept.
        """
        asks_for_redelivery(message, delay_ms)
        return replace(self.job_of(message), job_id=str(self._next_message_id()))

    def timed(self, message: Message) -> ScheduledJob:
        """The job of a message, however many wait. Raises ProtocolError if it has no time to be sent at."""
        return job_of(message, self.now_ms(), self._broker.options.schedule_horizon_days * _DAY_MS)

    def changed(self, jobs: Sequence[JobChange]) -> None:
        """Jobs were committed."""
        for job in jobs:
            if isinstance(job, ScheduledJob):
                self._count += 1
                if job.due_ms < self._due_ms:
                    self._wait_until(job.due_ms)
            elif job.next_due_ms is None:
                self._count -= 1

    def removed(self) -> None:
        """Jobs were removed that nobody counted: count what is left, and look when the first of it is due.

        What is committed meanwhile is counted as well, some of it twice: until the next count it may be a few more.
        """
        if self._store is not None:
            counting = self._broker.read(self._store.job_count)
            counting.add_done_callback(partial(self._counted, self._mastership, self._count))
            self.look()

    def _counted(self, mastership: int, before: int, counting: asyncio.Future[int]) -> None:
        if mastership != self._mastership or counting.cancelled():
            return
        if (error := counting.exception()) is None:
            self._count += counting.result() - before
        else:
            log.warning("scheduled messages could not be counted after a removal error=%r", str(error))

    # -- the timer -----------------------------------------------------------------------------------------------

    def _wait_until(self, due_ms: int) -> None:
        self._due_ms = due_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_at_work and due_ms != HELD_MS:
            wait_s = min(max(due_ms - self.now_ms(), 0) / 1000, _WAIT_MOST_S)
            self._timer = self._broker.loop.call_later(wait_s, self._time_is_up)

    def _time_is_up(self) -> None:
        if self.now_ms() < self._due_ms:
            self._wait_until(self._due_ms)
        else:
            self.look()

    def hold(self) -> None:
        """A subscriber of a topic does not keep up. Holds add up."""
        self._holds += 1

    def let_go(self) -> None:
        """Take one hold back."""
        self._holds -= 1
        if not self._holds:
            self._passed = None
            self.look()

    # -- firing --------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Fire what is due."""
        store = self._store
        if store is None or self._is_at_work:
            return
        self._is_at_work = True
        self._wait_until(HELD_MS)  # what is scheduled from now on says when it is due; the rest is being read
        reading = self._broker.read(_read, store, self.now_ms(), self._passed)
        reading.add_done_callback(partial(self._found, self._mastership))

    def _found(self, mastership: int, reading: asyncio.Future[tuple[JobPage, int | None]]) -> None:
        if mastership != self._mastership or reading.cancelled():
            return
        error = reading.exception()
        if error is not None:
            if self._reading_trouble.goes_on(error):
                log.warning(
                    "scheduled messages could not be read, trying again every %g s error=%r",
                    _RETRY_MS / 1000,
                    str(error),
                )
            self._rest(self.now_ms() + _RETRY_MS)
            return
        if failures := self._reading_trouble.is_over():
            log.warning("scheduled messages are read again failures=%d", failures)
        page, next_ms = reading.result()
        self._unanswered = len(page.jobs) + len(page.unreadable)
        if not self._unanswered:
            if self._passed is not None:  # what is due first is known, and waits
                next_ms = self.now_ms() + _RETRY_MS
            self._rest(HELD_MS if next_ms is None else next_ms)
            return
        self._is_troubled = False
        for place, damage in page.unreadable:
            self._hold(place, 0, damage)
        is_held = self._holds > 0
        for job in page.jobs:
            self._fire(job, is_held=is_held)

    def _rest(self, due_ms: int) -> None:
        self._is_at_work = False
        self._wait_until(min(due_ms, self._due_ms))

    def _fire(self, job: ScheduledJob, *, is_held: bool) -> None:
        """Send what is due. While subscribers hold the scheduler back, what is published waits, itself or a copy."""
        now_ms = self.now_ms()
        try:
            message_id = self._next_message_id()
            firing = firing_of(job, now_ms, str(message_id))
            singles = self._singles(due_message(job, now_ms, message_id)) if firing.is_sent else []
            # The copies of a refused message went where they should when it was sent.
            found = Route if is_redelivery(job) else self._broker.route
            routes = [found(single) for single in singles]
        except Exception as error:  # whatever is wrong with this one, the others go on
            if not isinstance(error, JdbcStoreError):
                log.exception("defect in firing a scheduled message job_id=%s", job.job_id)
            self._hold(job.place, job.repeat, error)
            return
        if is_held and any(not destination.is_queue for route in routes for destination in route.destinations()):
            self._passed = job.place
            self._done()
            return
        answer = partial(self._answered, self._mastership, job, len(routes))
        self._broker.commit(routes, [], self, answer, Commit(jobs=firing.changes))

    def _next_message_id(self) -> MessageId:
        self._sent += 1
        return MessageId(self._producer, self._sent)

    def _singles(self, message: Message) -> list[Message]:
        """The message for each of its destinations that is there."""
        if message.destination is None:
            raise ProtocolError("the message has no destination")
        return [single for single in message.divided() if self._is_there(single.destination)]

    def _is_there(self, destination: Destination | None) -> bool:
        if destination is None or not destination.is_temporary or self._broker.knows_temporary(destination):
            return True
        log.warning("scheduled message dropped, its temporary destination is gone destination=%s", destination)
        return False

    def _answered(self, mastership: int, job: ScheduledJob, count: int, error: BaseException | None) -> None:
        if mastership != self._mastership:
            return
        if error is None:
            self.fired += count
            self._done()
        elif may_pass(error):
            log.warning("scheduled message not sent yet job_id=%s error=%r", job.job_id, str(error))
            self._is_troubled = True
            self._done()
        else:
            self._hold(job.place, job.repeat, error)

    def _hold(self, place: JobPlace, repeat: int, reason: BaseException) -> None:
        """Put a job aside that can never be fired, so that it does not stand in the way of others."""
        due_ms, job_id = place
        mastership = self._mastership

        def held(_: object, error: BaseException | None) -> None:
            if error is None:
                self.held += 1
                log.error("scheduled message cannot be sent, it is put aside job_id=%s error=%r", job_id, str(reason))
            else:  # as a rule it was removed in between
                log.info("scheduled message not put aside job_id=%s error=%r", job_id, str(error))
            if mastership == self._mastership:
                self._is_troubled = self._is_troubled or error is not None
                self._done()

        try:
            change = FiredJob(job_id, due_ms, HELD_MS, repeat)
            completion: Completion[None] = self._broker.adapter.commit_together(Commit(jobs=[change]))
        except JdbcStoreError as error:
            held(None, error)
        else:
            self._broker.completions.expect(completion, held, None)

    def _done(self) -> None:
        """One job of the page is done."""
        self._unanswered -= 1
        if not self._unanswered:
            self._rest(self.now_ms() + (_RETRY_MS if self._is_troubled else 0))

    # -- management ----------------------------------------------------------------------------------------------

    def is_management(self, destination: Destination) -> bool:
        """Whether messages to a destination are orders for the scheduler."""
        return destination.physical_name.lower() == _MANAGEMENT and self._broker.options.scheduler_support

    def manage(self, message: Message, answer: Answer) -> None:
        """Carry out an order, and answer when it is done, or that it is none."""
        try:
            self._carry_out(message, answer)
        except JdbcStoreError as error:
            answer(error)

    def _carry_out(self, message: Message, answer: Answer) -> None:
        store = self._store
        if store is None:
            raise ProtocolError(f"There are no scheduled messages: {self._why_not}")
        properties = message.properties
        first_ms, last_ms = _time(properties, _START, 0), _time(properties, _END, HELD_MS)
        match properties.get(_ACTION):
            case "BROWSE":
                if message.reply_to is None:
                    raise ProtocolError("BROWSE needs a reply-to: the destination to send the scheduled messages to")
                browse = _Browse(self, store, (first_ms, last_ms), message.reply_to, answer)
                browse.go_on()
            case "REMOVE":
                job_id = properties.get(JOB_ID)
                if not job_id:
                    raise ProtocolError(f"REMOVE needs {JOB_ID}: which of the scheduled messages to remove")
                self._removed(store, store.remove_job(str(job_id)), answer)
            case "REMOVEALL":
                self._removed(store, store.remove_jobs(first_ms, last_ms), answer)
            case action:
                raise ProtocolError(f"{_ACTION} has to be BROWSE, REMOVE or REMOVEALL, got '{action}'")

    def _removed(self, store: JobStore, completion: Completion[None], answer: Answer) -> None:
        def done(_: object, error: BaseException | None) -> None:
            try:
                if self._store is store:
                    self.removed()
            finally:
                answer(error)

        self._broker.completions.expect(completion, done, None)

    def browses(self, store: JobStore, asked: tuple[Any, ...]) -> asyncio.Future[JobPage] | None:
        """A page of jobs, as `JobStore.jobs` is asked for it; None if the store is not this broker's any more."""
        return self._broker.read_patiently(store.jobs, *asked) if self._store is store else None

    def show(self, job: ScheduledJob, reply_to: Destination, browse: Paced) -> None:
        """Send a copy of a job to who browses."""
        shown = job.message.copy()
        shown.destination, shown.message_id, shown.persistent = reply_to, self._next_message_id(), False
        shown.transaction_id, shown.expiration = None, 0
        shown.type, shown.original_destination = "Advisory", job.message.destination
        shown.set_property(JOB_ID, job.job_id)
        for single in shown.divided():
            place = single.destination
            if place is not None and (not place.is_temporary or self._broker.knows_temporary(place)):
                self._broker.publish(self._broker.route(single), browse, browse.sending(single))


class _Browse(Paced):
    """Sends a copy of each job, a page at a time, and waits while it is held back.

    While it waits it keeps nothing of what it has read.

    Args:
        scheduler: reads, and sends.
        store: of the jobs.
        span: when they are due, from one time to another, epoch milliseconds.
        reply_to: where the copies go.
        answer: called when it is done.
    """

    def __init__(
        self, scheduler: Scheduler, store: JobStore, span: tuple[int, int], reply_to: Destination, answer: Answer
    ) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._store = store
        self._span = span
        self._reply_to = reply_to
        self._answer = answer
        self._after: JobPlace | None = None

    def go_on(self) -> None:
        """Read the next page."""
        reading = self._scheduler.browses(self._store, (self._after, _PAGE_JOBS, _PAGE_BYTES, *self._span))
        if reading is None:
            self._answer(StoreClosed("the store was closed before this was done"))
        else:
            reading.add_done_callback(self._found)

    def _found(self, reading: asyncio.Future[JobPage]) -> None:
        if reading.cancelled():
            return
        error = reading.exception()
        if error is not None:
            self._answer(error)
            return
        page = reading.result()
        for job in page.jobs:
            if self.waits():
                return
            self._scheduler.show(job, self._reply_to, self)
            self._after = job.place
        if page.end is None:
            self._answer(None)
        else:
            self._after = page.end
            self.go_on()


def _read(store: JobStore, now_ms: int, passed: JobPlace | None) -> tuple[JobPage, int | None]:
    if passed is None:
        page = store.due_jobs(now_ms, _PAGE_JOBS, _PAGE_BYTES)
    else:
        page = store.jobs(passed, _PAGE_JOBS, _PAGE_BYTES, last_ms=now_ms)
    return page, None if page.jobs or page.unreadable else store.next_due_ms()


def _time(properties: Any, names: Sequence[str], default: int) -> int:
    value = next((properties[name] for name in names if name in properties), default)
    try:
        time_ms = int(str(value))
        if not -HELD_MS <= time_ms <= HELD_MS:
            raise ValueError("it does not fit 64 bits")
    except ValueError:
        raise ProtocolError(f"{names[0]} has to be a time in epoch milliseconds, got '{value}'") from None
    return time_ms
