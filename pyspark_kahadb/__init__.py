"""``format("kahadb")``: Spark looks for a ``DefaultSource`` in every installed package ``pyspark_…``."""

from jdbcstore.spark.kahadb.source import KahaDBDataSource

__all__ = ["DefaultSource"]


class DefaultSource(KahaDBDataSource):
    """The format ``kahadb``."""
