"""What Spark writes, a real ActiveMQ delivers: with bodies, headers and properties, in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jdbcstore.config.urls import open_engine
from jdbcstore.store.jdbc.schema import upgrade_schema
from tests.compat.activemq import ActiveMQ, JdbcStore
from tests.compat.test_interchange import RED, JavaPeer, sent
from tests.spark.conftest import spark  # noqa: F401  # a fixture

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("database", ["postgresql_url", pytest.param("mariadb_url", marks=pytest.mark.exhaustive)])
def test_a_java_broker_delivers_what_spark_writes(
    request: pytest.FixtureRequest,
    spark: SparkSession,  # noqa: F811  # the fixture
    class_path: str,
    tmp_path: Path,
    database: str,
) -> None:
    url: str = request.getfixturevalue(database)
    engine = open_engine(url)
    upgrade_schema(engine)
    engine.dispose()
    messages = [sent(number) for number in range(40)]
    rows = [
        (
            {name: ("string", one[name]) for name in ("number", "colour")},
            one["body"],
            one["correlation"],
            one["type"],
            one["reply_to"],
            one["priority"],
            one["persistent"],
        )
        for one in messages
    ]
    schema = (
        "properties map<string, struct<type: string, value: string>>, text string, correlationId string, type string,"
        " replyTo string, priority int, persistent boolean"
    )
    frame = spark.createDataFrame(rows, schema).repartition(1)
    with ActiveMQ(class_path, tmp_path, JdbcStore(url)) as activemq:
        # What is loaded behind a durable subscription is its.
        JavaPeer(activemq, RED).does([("subscribe", "PRICES", "ann", "news", "")])
        activemq.stop()
    for destination in ("queue://WORK", "topic://PRICES"):
        writer = frame.write.format("activemq").option("url", url).option("topic", destination).mode("append")
        writer.save()
    with ActiveMQ(class_path, tmp_path, JdbcStore(url)) as activemq:
        drained, news = JavaPeer(activemq, RED).does([("drain", "WORK", 40), ("old", "PRICES", "ann", "news", "", 40)])
        activemq.stop()
    assert sorted(drained, key=lambda one: int(one["number"])) == messages
    assert sorted(news, key=lambda one: int(one["number"])) == messages
