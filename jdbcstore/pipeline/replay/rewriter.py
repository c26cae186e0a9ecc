"""Messages that go elsewhere, or under new ids: bytes in, bytes out. What is not to be changed is not decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from jdbcstore.destination import Destination, parse_destination
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.openwire import marshal, unmarshal_message
from jdbcstore.pipeline.replay.sources import COLUMNS
from jdbcstore.spark.one_line import one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Rewriting"]

_SCHEMA: Final = "topic string, offset long, timestamp timestamp, message binary"
#: Column MSGID_PROD has room for 250 characters, and numbers follow.
_CONNECTION_MAX: Final = 120


@dataclass(frozen=True)
class Rewriting:
    """What to change.

    Args:
        destination: where all go; None for where they were sent to.
        job: None to keep ids, else what new ones are made of: those of the same job are the same again.
        forgets_expiration: whether messages that had a time to live get none.
    """

    destination: str | None = None
    job: str | None = None
    forgets_expiration: bool = False

    def of(self, messages: DataFrame) -> DataFrame:
        """The messages, changed."""
        if self == Rewriting():
            return messages
        return messages.mapInArrow(partial(_rewritten, self), _SCHEMA)


def _rewritten(how: Rewriting, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    target = None if how.destination is None else parse_destination(how.destination)
    with one_line():
        for batch in batches:
            batch = batch.select(list(COLUMNS))
            blobs = [_changed(how, target, blob) for blob in batch.column("message").to_pylist()]
            topics = batch.column("topic")
            if target is not None:
                topics = pa.array([target.qualified_name] * len(batch), pa.string())
            columns = [topics, batch.column("offset"), batch.column("timestamp"), pa.array(blobs, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, list(COLUMNS))


def _changed(how: Rewriting, target: Destination | None, blob: bytes) -> bytes:
    message = unmarshal_message(blob)
    if target is not None and target != message.destination:
        # As a broker does with dead letters and virtual topics: the first destination stays known.
        message.original_destination = message.original_destination or message.destination
        message.destination = target
    if how.job is not None and message.message_id is not None:
        message.message_id = _renewed(message.message_id, how.job)
        message.producer_id = message.message_id.producer_id
    if how.forgets_expiration:
        message.expiration = 0
    return marshal(message)


def _renewed(old: MessageId, job: str) -> MessageId:
    """Of another producer, so that nobody takes the message for the one that was; and as unlike others as it was."""
    before = old.producer_id or ProducerId("", 0, 0)
    connection = (before.connection_id or old.text_view or "").removeprefix("ID:")
    if len(connection) > _CONNECTION_MAX:
        connection = hashlib.sha256(connection.encode()).hexdigest()
    digest = hashlib.sha256(job.encode()).hexdigest()[:12]
    producer = ProducerId(f"ID:replay-{digest}-{connection}", before.value, before.session_id)
    return MessageId(producer, old.producer_sequence_id)
