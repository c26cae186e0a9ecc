"""Options of the format: Spark's spelling, and an answer in one line to everything that is wrong."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from jdbcstore.errors import ConfigurationError
from jdbcstore.spark.columns import schema_of
from jdbcstore.spark.options import EARLIEST, LATEST, ReadOptions, WriteOptions
from jdbcstore.spark.source import ActiveMQDataSource
from jdbcstore.spark.stream_reader import ActiveMQStreamReader

URL = "postgresql://user:secret@db/activemq"


def test_defaults() -> None:
    options = ReadOptions.of({"url": URL})
    assert (options.starting, options.ending, options.subscribe, options.on_corrupt) == (EARLIEST, LATEST, (), "column")
    assert options.columns[:6] == ("key", "value", "topic", "partition", "offset", "timestamp")
    assert options.columns[-1] == "_corrupt"
    assert not {"headers", "message", "xid"} & set(options.columns)


def test_names_in_any_case() -> None:
    options = ReadOptions.of({"URL": URL, "includeheaders": "TRUE", "ONCORRUPT": "fail", "settledelay": "2 seconds"})
    assert options.columns.index("headers") == 6
    assert "_corrupt" not in options.columns
    assert options.settle_delay_ms == 2000


@pytest.mark.parametrize(
    "given",
    [
        {"url": URL},
        {"url": "postgresql://db/activemq", "user": "user", "password": "secret"},
        {"url": "jdbc:postgresql://db/activemq?user=user&password=secret"},
        {"url": "jdbc:postgresql://db:5432/activemq", "user": "user", "password": "secret"},
    ],
)
def test_a_password_shows_nowhere(given: dict[str, str]) -> None:
    options = ReadOptions.of(given)
    assert options.location.url.password == "secret"
    assert pickle.loads(pickle.dumps(options)).location.url == options.location.url
    assert "secret" not in repr(options) + str(options.location) + repr(WriteOptions.of(given))


@pytest.mark.parametrize(
    "given",
    [
        {"url": URL, "readFrom": "standby"},
        {"url": f"{URL}?read_from=standby"},
        {"url": "jdbc:postgresql://a:5432,b:5433/activemq?targetServerType=secondary"},
    ],
)
def test_a_standby_may_be_read_in_a_batch_and_in_nothing_else(given: dict[str, str]) -> None:
    options = ReadOptions.of(given)
    assert options.location.options.read_from == "standby"
    with pytest.raises(ConfigurationError, match="a stream reads from the primary"):
        ActiveMQStreamReader(options, schema_of(options.columns))
    if "readFrom" not in given:
        with pytest.raises(ConfigurationError, match="a DataFrame's writer writes: leave it out"):
            WriteOptions.of(given)


def test_a_jdbc_url_of_several_servers_names_all_of_them() -> None:
    options = ReadOptions.of({"url": "jdbc:postgresql://a:5432,b:5433/activemq?user=user&targetServerType=primary"})
    assert options.location.url.query == {"host": ("a:5432", "b:5433")}
    assert options.location.options.read_from == "primary"


def test_subscriptions() -> None:
    options = ReadOptions.of({"url": URL, "subscribe": "A, topic://B", "tablePrefix": "x_"})
    assert options.subscribe == ("queue://A", "topic://B")
    assert options.location.options.table_prefix == "x_"


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("latest", LATEST),
        ("17", 17),
        ('{"A": 23, "topic://B": -2}', {"queue://A": 23, "topic://B": EARLIEST}),
        ('{"queue://A": {"0": 23}}', {"queue://A": 23}),
    ],
)
def test_offsets(text: str, offsets: object) -> None:
    assert ReadOptions.of({"url": URL, "startingOffsets": text}).starting == offsets


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, "option url is missing"),
        ({"url": "oracle://db/x"}, "no store for oracle"),
        ({"subscibe": "A"}, "unknown option 'subscibe', did you mean subscribe"),
        ({"dbtable": "x"}, "'dbtable' means nothing here: tables are named by tablePrefix"),
        ({"columns": "topic,txt"}, "no column 'txt', did you mean text"),
        ({"columns": "topic,topic"}, "named twice"),
        ({"subscribe": "A", "subscribePattern": "B"}, "either subscribe or subscribePattern"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"startingOffsets": '{"A": "x"}'}, "startingOffsets must be earliest, latest, an id or JSON"),
        ({"startingOffsets": "-3"}, "startingOffsets must be"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number from 1"),
        ({"onCorrupt": "drop"}, "onCorrupt must be column or fail"),
        ({"settleDelay": "soon"}, "settleDelay must be a time"),
        ({"driver": "odbc"}, "driver 'odbc' is none of adbc"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(given: dict[str, str], error: str) -> None:
    complete = given if not given or "url" in given else {"url": URL} | given
    with pytest.raises(ConfigurationError, match=error) as raised:
        ReadOptions.of(complete)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_what_spark_asks_first_imports_little() -> None:
    options = {"url": "postgresql://h/d", "columns": "offset,text"}
    program = f"""
import sys
import pyspark.sql.worker.create_data_source
import pyspark_activemq, pyspark_kahadb  # as Spark does, for all formats that are installed
assert pyspark_kahadb.DefaultSource({{"path": "/nowhere"}}).schema().names
from jdbcstore.spark.source import ActiveMQDataSource
assert ActiveMQDataSource({options!r}).schema().names == ["offset", "text"]
print(sorted({{"numpy", "pyarrow", "sqlalchemy"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("given", [{}, {"url": "sqlite:///x", "minPartitions": "0"}, {"url": "sqlite:///x", "x": "1"}])
def test_what_spark_asks_first_finds_wrong_options(given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        ActiveMQDataSource(given).schema()
