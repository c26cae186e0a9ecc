"""The stores as sources and sinks of Apache Spark: ``pip install 'jdbcstore[spark]'``.

::

    from jdbcstore.spark import register

    register(spark)
    orders = spark.read.format("activemq").option("url", "postgresql://…").option("subscribe", "queue://ORDERS").load()

Where this package is installed beside Spark, Spark finds the formats by itself; `register` is for packages that were
sent to a cluster in an archive, and it turns on that filters reach the database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> SparkSession:
    """Make the formats ``activemq`` and ``kahadb`` known to a session.

    Filters on columns of the table are then answered by the database, which Spark asks for only if its setting
    ``spark.sql.python.filterPushdown.enabled`` says so.

    Returns:
        The session.
    """
    from jdbcstore.spark.kahadb.source import KahaDBDataSource
    from jdbcstore.spark.source import ActiveMQDataSource

    spark.dataSource.register(ActiveMQDataSource)
    spark.dataSource.register(KahaDBDataSource)
    spark.conf.set(_PUSH_DOWN, "true")
    return spark
