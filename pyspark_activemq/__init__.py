"""``format("activemq")``: Spark looks for a ``DefaultSource`` in every installed package ``pyspark_…``."""

from jdbcstore.spark.source import ActiveMQDataSource

__all__ = ["DefaultSource"]


class DefaultSource(ActiveMQDataSource):
    """The format ``activemq``."""
