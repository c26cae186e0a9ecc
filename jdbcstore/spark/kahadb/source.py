"""``format("kahadb")``: what Spark asks for readers."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from jdbcstore.spark.kahadb.columns import schema_of
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.spark.one_line import one_line

__all__ = ["KahaDBDataSource"]


class KahaDBDataSource(DataSource):
    """KahaDB directories as a source of Spark.

    ::

        spark.read.format("kahadb").load("/var/lib/activemq/kahadb")
    """

    @classmethod
    def name(cls) -> str:
        return "kahadb"

    @one_line()
    def schema(self) -> StructType:
        return schema_of(KahaDBOptions.of(self.options))

    @one_line()
    def reader(self, schema: StructType) -> DataSourceReader:
        from jdbcstore.spark.kahadb.messages import MessagesReader
        from jdbcstore.spark.kahadb.overview import OverviewReader
        from jdbcstore.spark.kahadb.records import RecordsReader

        options = KahaDBOptions.of(self.options)
        if options.view == "messages":
            return MessagesReader(options, schema)
        if options.view == "records":
            return RecordsReader(options, schema)
        return OverviewReader(options, schema)
