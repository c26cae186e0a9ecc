"""What the records of a KahaDB journal say: one named tuple for each command.

These are protobuf messages in ActiveMQ's dialect of it. A field's number is its place here, from 1, and its annotation
says how it is encoded (`jdbcstore.store.journal.kahadb.decoding`). Nothing is required: brokers write commands without
fields that their own definition calls required, and read them. What is absent has the default shown.

Source of the table: the commands' definition in ActiveMQ 5.17, the same in 5.14 to 6.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias, get_args

from jdbcstore.destination import Destination
from jdbcstore.identifiers import TransactionId
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal_message

__all__ = [
    "COMMANDS",
    "AckMessageFileMap",
    "AddMessage",
    "AddScheduledJob",
    "Command",
    "Commit",
    "DestroyScheduler",
    "Prepare",
    "ProducerAudit",
    "RemoveDestination",
    "RemoveMessage",
    "RemoveScheduledJob",
    "RemoveScheduledJobs",
    "RescheduleJob",
    "RewrittenDataFile",
    "Rollback",
    "Subscription",
    "Trace",
    "UpdateMessage",
]


class Trace(NamedTuple):
    """A remark, and what a broker writes to force others to the disk."""

    message: str | None = None


class AddMessage(NamedTuple):
    """A message was sent."""

    transaction: TransactionId | None = None
    destination: Destination | None = None
    """Where it is stored; the message itself may name another one."""
    message_id: str | None = None
    message: bytes | None = None
    """OpenWire, loose, with its length. The wire version stands nowhere in the journal."""
    priority: int = 4
    priority_supported: bool = False
    """Whether the priority counts."""

    def unmarshal(self) -> Message:
        """The message.

        Raises:
            CodecError: the bytes are none, in any wire version.
        """
        return unmarshal_message(self.message or b"")


class RemoveMessage(NamedTuple):
    """A message was acknowledged, by a queue's consumer or by one durable subscription."""

    transaction: TransactionId | None = None
    destination: Destination | None = None
    message_id: str | None = None
    ack: bytes | None = None
    """The acknowledgement in OpenWire, or nothing."""
    subscription_key: str | None = None
    """``<client id>:<subscription name>``, nothing escaped; None on a queue."""


class Prepare(NamedTuple):
    """The first phase of an XA transaction ended."""

    transaction: TransactionId | None = None


class Commit(NamedTuple):
    """A transaction was committed: what it did happens here, in its order."""

    transaction: TransactionId | None = None


class Rollback(NamedTuple):
    """A transaction never was."""

    transaction: TransactionId | None = None


class RemoveDestination(NamedTuple):
    """A destination went with all its messages and subscriptions."""

    destination: Destination | None = None


class Subscription(NamedTuple):
    """A durable subscription began, or ended if `info` is None."""

    destination: Destination | None = None
    subscription_key: str | None = None
    retroactive: bool = False
    info: bytes | None = None
    """SubscriptionInfo in OpenWire."""


class ProducerAudit(NamedTuple):
    """What the broker remembers of producers, to recognise messages that are sent twice."""

    audit: bytes | None = None
    """A serialised Java object."""


class AckMessageFileMap(NamedTuple):
    """Which file acknowledges messages of which files."""

    ack_message_file_map: bytes | None = None
    """A serialised Java object."""


class UpdateMessage(NamedTuple):
    """A stored message was written anew, in the place that it has."""

    message: AddMessage | None = None


class AddScheduledJob(NamedTuple):
    """A message is to be sent later. Times are epoch milliseconds, delay and period milliseconds."""

    scheduler: str | None = None
    job_id: str | None = None
    start_time: int = 0
    cron_entry: str | None = None
    delay: int = 0
    period: int = 0
    repeat: int = 0
    payload: bytes | None = None
    """The message in OpenWire."""
    next_execution_time: int = 0


class RescheduleJob(NamedTuple):
    """A message was sent and will be sent again."""

    scheduler: str | None = None
    job_id: str | None = None
    execution_time: int = 0
    next_execution_time: int = 0
    rescheduled_count: int = 0


class RemoveScheduledJob(NamedTuple):
    """A message will not be sent (any more)."""

    scheduler: str | None = None
    job_id: str | None = None
    next_execution_time: int = 0
    """-1: whenever it is due."""


class RemoveScheduledJobs(NamedTuple):
    """What is due in this time will not be sent; both ends are included."""

    scheduler: str | None = None
    start_time: int = 0
    end_time: int = 0


class DestroyScheduler(NamedTuple):
    """Nothing of this scheduler will be sent."""

    scheduler: str | None = None


class RewrittenDataFile(NamedTuple):
    """The rest of this file begins with copies of another file's acknowledgements."""

    source: int = 0
    """Number of the other file."""
    rewrite_type: int = 0
    skip_if_source_exists: bool = True
    """Brokers leave the whole rest of this file out if so, also what is no copy.
    `jdbcstore.store.journal.replay` does not."""


Command: TypeAlias = (
    Trace
    | AddMessage
    | RemoveMessage
    | Prepare
    | Commit
    | Rollback
    | RemoveDestination
    | Subscription
    | ProducerAudit
    | AckMessageFileMap
    | UpdateMessage
    | AddScheduledJob
    | RescheduleJob
    | RemoveScheduledJob
    | RemoveScheduledJobs
    | DestroyScheduler
    | RewrittenDataFile
)

#: The place of a command is its number in a record.
COMMANDS: Final[tuple[type[Command], ...]] = get_args(Command)
