"""``df.write.format("activemq")`` and streams into a store: each is a bulk load, or one for every batch.

A task writes its partition in one transaction, exactly once (`jdbcstore.store.jdbc.bulk_load`). The load becomes
visible when Spark commits the job, and is removed when it aborts it. The job id of a stream's batch is made of the ids
of query and batch, so a batch that Spark does again after a crash is recognised.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jdbcstore.errors import ConfigurationError, JdbcStoreError
from jdbcstore.spark.cycles import modules_aside
from jdbcstore.spark.encoder import Encoder, check_written
from jdbcstore.spark.one_line import one_line
from jdbcstore.spark.options import WriteOptions
from jdbcstore.store.jdbc.bulk_load import BulkLoad, LoadOptions

__all__ = ["ActiveMQStreamWriter", "ActiveMQWriter"]

#: What Spark tells the tasks of a stream: the query (as long as its checkpoint lives), the batch, and the query's run.
_BATCH: Final = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")

log = logging.getLogger(__name__)


@dataclass
class _Written(WriterCommitMessage):
    """What a task has done. The load stands in it for streams, whose commit is called in another process."""

    part: int
    rows: int
    load: BulkLoad | None = None


def _load_of(options: WriteOptions, job: str) -> BulkLoad:
    how = LoadOptions(protocol=options.protocol, indexes=options.indexes, timeout_s=options.commit_timeout_ms / 1000)
    return BulkLoad(options.location.url, options.location.options, job, how)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise ConfigurationError("messages are written inside of a task only")
    return context


class ActiveMQWriter(DataSourceArrowWriter):
    """Writes a DataFrame once.

    Args:
        options: of the write.
        schema: of the DataFrame.

    Raises:
        ConfigurationError: options or columns are wrong.
        JdbcStoreError: nothing can be loaded into this store, the text says why.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_written(schema, options)
        self._options = options
        self._load = _load_of(options, options.job_id or f"batch-{secrets.token_hex(8)}")
        self._load.begin()

    @one_line()
    @modules_aside()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        part = _context().partitionId()
        if self._load.is_done:
            return _Written(part, 0)
        encoder = Encoder(self._options, self._load.job, part)
        return _Written(part, self._load.write_part(part, encoder.rows(iterator)))

    @one_line()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._load.commit(None if self._load.is_done else _parts(messages))

    @one_line()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._load.abort()


class ActiveMQStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream.

    Every task asks for the load of its batch, which the first one begins; Spark makes a new writer for the end of it.

    Args:
        options: of the write.
        schema: of the stream.

    Raises:
        ConfigurationError: options or columns are wrong.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_written(schema, options)
        self._options = options

    @one_line()
    @modules_aside()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query, batch, run = map(context.getLocalProperty, _BATCH)
        if query is None or batch is None or run is None:
            raise ConfigurationError("Spark does not say which batch of which query this is: use Spark 4.2 or newer")
        job = f"{self._options.job_id or query}-{batch}"
        load = _load_of(self._options, job)
        load.join(run)
        part = context.partitionId()
        rows = 0
        if not load.is_done:
            rows = load.write_part(part, Encoder(self._options, job, part).rows(iterator))
        return _Written(part, rows, load)

    @one_line()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        load = _shared(messages)
        if load is not None:
            load.commit(None if load.is_done else _parts(messages))

    @one_line()
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        load = _shared(messages)
        if load is None:
            log.info("no task of this batch has written: the next attempt at it clears up")
            return
        try:
            load.abort()
        except JdbcStoreError as error:
            log.warning("what this batch has written is removed by the next attempt at it error=%r", str(error))


def _shared(messages: list[WriterCommitMessage | None]) -> BulkLoad | None:
    return next((one.load for one in messages if isinstance(one, _Written) and one.load is not None), None)


def _parts(messages: list[WriterCommitMessage | None]) -> dict[int, int]:
    return {one.part: one.rows for one in messages if isinstance(one, _Written)}
