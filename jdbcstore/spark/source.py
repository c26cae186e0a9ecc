"""``format("activemq")``: what Spark asks for readers and writers."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from jdbcstore.errors import ConfigurationError
from jdbcstore.spark.columns import schema_of
from jdbcstore.spark.one_line import one_line
from jdbcstore.spark.options import ReadOptions, WriteOptions, columns_asked_for

__all__ = ["ActiveMQDataSource"]


class ActiveMQDataSource(DataSource):
    """A SQL store as a source and a sink of Spark, for batches and streams.

    ::

        spark.read.format("activemq").option("url", "postgresql://…").option("subscribe", "queue://ORDERS").load()

    Spark makes one in a process of its own on the driver's host whenever it needs one; nothing is opened before a
    method is called.
    """

    @classmethod
    def name(cls) -> str:
        return "activemq"

    @one_line()
    def schema(self) -> StructType:
        return schema_of(columns_asked_for(self.options))

    @one_line()
    def reader(self, schema: StructType) -> DataSourceReader:
        from jdbcstore.spark.batch_reader import ActiveMQReader

        return ActiveMQReader(ReadOptions.of(self.options), schema)

    @one_line()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        from jdbcstore.spark.stream_reader import ActiveMQStreamReader

        return ActiveMQStreamReader(ReadOptions.of(self.options), schema)

    @one_line()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from jdbcstore.spark.writers import ActiveMQWriter

        _refuse_overwrite(overwrite)
        return ActiveMQWriter(WriteOptions.of(self.options), schema)

    @one_line()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from jdbcstore.spark.writers import ActiveMQStreamWriter

        _refuse_overwrite(overwrite)
        return ActiveMQStreamWriter(WriteOptions.of(self.options), schema)


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise ConfigurationError(
            'messages are only ever added: write with .mode("append"), for streams .outputMode("append"); to empty a'
            " destination purge it at the broker"
        )
