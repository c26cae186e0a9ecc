"""What a sender asks of the scheduler, and what comes of it: pure arithmetic on times and messages.

The properties and their meaning are ActiveMQ's (``ScheduledMessage`` in its API): a cron entry decides first; each time
that it comes, the delay passes and the repetitions follow; without one the delay counts from now on.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from jdbcstore.broker.cron import Cron
from jdbcstore.errors import ProtocolError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.primitives import Long
from jdbcstore.store.contract import FiredJob, JobChange, ScheduledJob

__all__ = [
    "JOB_ID",
    "REDELIVERY_DELAY",
    "Firing",
    "asks_for_redelivery",
    "asks_for_schedule",
    "due_message",
    "firing_of",
    "is_redelivery",
    "job_of",
]

#: How long a message waits, in milliseconds.
_DELAY: Final = "AMQ_SCHEDULED_DELAY"
_PERIOD: Final = "AMQ_SCHEDULED_PERIOD"
_REPEAT: Final = "AMQ_SCHEDULED_REPEAT"
_CRON: Final = "AMQ_SCHEDULED_CRON"
_ASKING: Final = frozenset({_DELAY, _PERIOD, _REPEAT, _CRON})
_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1
_MARK: Final = b"AMQ_SCHEDULED_"
#: On delivered messages: which job they come from.
JOB_ID: Final = "scheduledJobId"
#: On messages that are delivered again since a client refused them: how long they have waited. Java's clients know by
#: it that a message may come more often than their own policy says.
REDELIVERY_DELAY: Final = "redeliveryDelay"


class Firing(NamedTuple):
    """What happens when a job is due: what becomes of it, and whether its message is sent now."""

    changes: list[JobChange]
    is_sent: bool


def asks_for_schedule(message: Message) -> bool:
    """Whether a message has a property that asks for it. One that comes from a job does not ask again."""
    stored = message.marshalled_properties
    if stored is None or _MARK not in stored:
        return False
    properties = message.properties
    return not _ASKING.isdisjoint(properties) and JOB_ID not in properties


def asks_for_redelivery(message: Message, delay_ms: int) -> None:
    """Let a refused message ask to be sent again, once, whatever it asked for before.

    Args:
        message: is changed.
        delay_ms: how long it waits.
    """
    kept = {name: value for name, value in message.properties.items() if name not in _ASKING and name != JOB_ID}
    message.properties = kept | {REDELIVERY_DELAY: Long(delay_ms), _DELAY: Long(delay_ms)}


def is_redelivery(job: ScheduledJob) -> bool:
    """Whether a job sends a refused message again. It has a name of its own, as what a cron entry begins has, whose
    message tells the entry."""
    message = job.message
    return job.job_id != str(message.message_id) and _CRON not in message.properties


def job_of(message: Message, now_ms: int, horizon_ms: int) -> ScheduledJob:
    """The job of a message that asks for it.

    Args:
        message: with an id.
        now_ms: epoch milliseconds.
        horizon_ms: how far ahead it may ask.

    Raises:
        ProtocolError: it asks for what cannot be.
    """
    delay_ms, period_ms, repeat = (_number(message, name) for name in (_DELAY, _PERIOD, _REPEAT))
    cron = str(message.properties.get(_CRON) or "").strip()
    if repeat and not period_ms:
        raise ProtocolError(f"{_REPEAT} needs {_PERIOD} beside it: how many milliseconds lie between two messages")
    if not cron and _ASKING.isdisjoint(message.properties.keys() - {_REPEAT}):
        raise ProtocolError(f"{_REPEAT} says how often, but nothing says when: send {_DELAY} or {_PERIOD} with it")
    if repeat > _INT_MAX:
        raise ProtocolError(f"{_REPEAT} may be {_INT_MAX} at most")
    if delay_ms > horizon_ms or period_ms > horizon_ms:
        raise ProtocolError(f"{_DELAY} and {_PERIOD} may be {horizon_ms} at most, which are milliseconds")
    # The millisecond had begun before the message came: counted from its beginning, a delay ends too early.
    due_ms = now_ms + 1 + (delay_ms or period_ms)
    if cron:
        next_ms = Cron(cron).next_ms(now_ms)
        if next_ms is None or next_ms > now_ms + horizon_ms:
            raise ProtocolError(f"{_CRON} '{cron}' does not come within {horizon_ms} milliseconds")
        due_ms = next_ms
    return ScheduledJob(str(message.message_id), message, due_ms, delay_ms, period_ms, repeat, cron)


def _number(message: Message, name: str) -> int:
    value = message.properties.get(name, 0)
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 0:
        raise ProtocolError(f"{name} has to be a whole number that is not negative, got '{value}'")
    return number


def firing_of(job: ScheduledJob, now_ms: int, series_id: str) -> Firing:
    """What happens when a job is due. However many times it missed, it is fired once and goes on from now.

    Args:
        job: due.
        now_ms: epoch milliseconds.
        series_id: the name of the job that may begin with this.

    Raises:
        ProtocolError: its cron entry is none.
    """
    if job.cron:
        fired = FiredJob(job.job_id, job.due_ms, Cron(job.cron).next_ms(max(now_ms, job.due_ms)), job.repeat)
        if not (job.delay_ms or job.repeat):
            return Firing([fired], is_sent=True)
        due_ms = max(now_ms, job.due_ms) + (job.delay_ms or job.period_ms)
        series = ScheduledJob(series_id, job.message, due_ms, 0, job.period_ms, job.repeat)
        return Firing([fired, series], is_sent=False)
    if not job.repeat:
        return Firing([FiredJob(job.job_id, job.due_ms)], is_sent=True)
    next_ms = job.due_ms + job.period_ms
    if next_ms <= now_ms:
        next_ms = now_ms + job.period_ms
    repeat = job.repeat - 1 if job.repeat > 0 else job.repeat
    return Firing([FiredJob(job.job_id, job.due_ms, next_ms, repeat)], is_sent=True)


def due_message(job: ScheduledJob, now_ms: int, message_id: MessageId) -> Message:
    """The message that a job sends when it is due, as ActiveMQ makes it.

    It tells its job, and does not ask any more. Its time to live begins now.

    Args:
        job: due.
        now_ms: epoch milliseconds.
        message_id: for a message that is sent more than once; else it keeps its own.
    """
    message = job.message.copy()
    properties = message.properties
    if _REPEAT in properties or _CRON in properties:
        message.message_id = message_id
    message.properties = {name: value for name, value in properties.items() if name not in _ASKING} | {
        JOB_ID: job.job_id
    }
    message.transaction_id = None
    message.broker_in_time = now_ms
    if message.expiration > 0 and 0 < message.timestamp < now_ms:
        message.expiration = min(message.expiration + now_ms - message.timestamp, _LONG_MAX)
        message.timestamp = now_ms
    return message
