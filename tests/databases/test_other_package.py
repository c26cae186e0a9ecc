"""A database that another package brings: found by its entry point, and as good as one of ours."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from jdbcstore.config.urls import open_engine, open_store, store_options, store_url
from jdbcstore.console.schema import schema as schema_command
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.migration import migrate
from jdbcstore.openwire import marshal
from jdbcstore.spark.scan import Scan
from jdbcstore.store.contract import Locker
from jdbcstore.store.jdbc.bulk_load import BulkLoad
from jdbcstore.store.jdbc.dialect import database_for, databases
from jdbcstore.store.jdbc.lockers import LeaseDatabaseLocker
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import SchemaKind, schema_sql, upgrade_schema
from jdbcstore.store.lease import Clock, LockerOptions, boot_time_ns
from jdbcstore.testing import (
    DurablePersistenceAdapterContract,
    DurableScheduleContract,
    DurableTopicContract,
    DurableTransactionContract,
    LeaseLockerContract,
    OpenAdapter,
    OpenLocker,
    text_message,
)

FOLDER = str(Path(__file__).parent)
TEST = Queue("TEST")


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    """The package is on the path, with its entry points, as if it were installed."""
    sys.path.insert(0, FOLDER)
    yield
    sys.path.remove(FOLDER)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"secondlite:///{tmp_path / 'second.db'}"


@pytest.mark.one_in(6)  # its statements are SQLite's, which has all of the suite
class TestStore(DurablePersistenceAdapterContract):
    """Under the contract suite."""

    @pytest.fixture
    def open_adapter(self, url: str) -> OpenAdapter:
        return lambda: open_store(url)


@pytest.mark.one_in(6)
class TestTopics(DurableTopicContract):
    """Likewise."""

    @pytest.fixture
    def open_adapter(self, url: str) -> OpenAdapter:
        return lambda: open_store(url)


@pytest.mark.one_in(6)
class TestSchedule(DurableScheduleContract):
    """Likewise."""

    @pytest.fixture
    def open_adapter(self, url: str) -> OpenAdapter:
        return lambda: open_store(url)


@pytest.mark.one_in(6)
class TestTransactions(DurableTransactionContract):
    """Likewise."""

    @pytest.fixture
    def open_adapter(self, url: str) -> OpenAdapter:
        return lambda: open_store(url)


class TestLocker(LeaseLockerContract):
    """Likewise."""

    @pytest.fixture
    def open_locker(self, url: str) -> OpenLocker:
        engine = open_engine(url)
        upgrade_schema(engine)
        engine.dispose()

        def new(options: LockerOptions, clock: Clock = boot_time_ns) -> Locker:
            return LeaseDatabaseLocker(store_url(url), JdbcOptions(lock=options), clock=clock)

        return new


def fill(url: str, count: int) -> None:
    with open_store(url) as adapter:
        store = adapter.queue_message_store(TEST)
        for number in range(count):
            store.add_message(text_message(number)).result(60)


def test_it_is_one_of_the_databases() -> None:
    assert "secondlite" in [database.name for database in databases()]
    assert database_for("secondlite").example == "secondlite:///FILE"
    with pytest.raises(ConfigurationError, match="secondlite:///FILE"):
        store_url("oracle://db/x")


def test_an_unknown_one_is_told_with_those_that_there_are() -> None:
    with pytest.raises(
        ConfigurationError, match=r"no dialect for 'oracle': there are .*postgresql.*secondlite"
    ) as told:
        database_for("oracle")
    assert "docs/adding-a-database.md" in str(told.value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("nowhere:DATABASE", "'halflite' of the package halflite cannot be loaded (No module named 'nowhere')"),
        ("secondlite:NOTHING", "has no attribute 'NOTHING'"),
        ("secondlite:DATABASE", "what is registered as the database 'halflite' is none"),
    ],
)
def test_a_package_that_registers_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, told: str) -> None:
    about = tmp_path / "halflite-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: halflite\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[jdbcstore.databases]\nhalflite = {value}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        store_url("halflite:///one.db")
    assert store_url("sqlite:///one.db").get_backend_name() == "sqlite", "the others are as good as before"


def test_its_schema(url: str) -> None:
    assert "CREATE TABLE ACTIVEMQ_MSGS" in schema_sql("secondlite").replace('"', "")
    engine = open_engine(url)
    report = upgrade_schema(engine)
    engine.dispose()
    assert (report.kind, report.dialect, report.findings()) == (SchemaKind.OURS, "secondlite", [])
    status = CliRunner().invoke(schema_command, ["status", url])
    assert (status.exit_code, "ready" in status.output) == (0, True), status.output


def test_bulk_loads(url: str) -> None:
    fill(url, 0)
    parsed, options = store_options(url)
    load = BulkLoad(parsed, options, "job")
    load.begin()
    rows = [(str(one.producer_id), n, "queue://TEST", 0, 0, marshal(one)) for n in range(3) if (one := text_message(n))]
    assert load.write_part(0, rows) == 3
    assert load.commit({0: 3}) == 3
    with open_store(url) as adapter:
        assert adapter.queue_message_store(TEST).message_count == 3


def test_spark_reads_it(url: str) -> None:
    fill(url, 5)
    batches = list(Scan(store_url(url), ("ID", "CONTAINER", "MSG", "SIZE"), batch_bytes=1).batches())
    assert [batch["ID"].to_pylist() for batch in batches] == [[1], [2], [3], [4], [5]]
    assert all(len(row["MSG"]) == row["SIZE"] for batch in batches for row in batch.to_pylist())
    with pytest.raises(ConfigurationError, match="driver 'adbc' does not read secondlite: use sqlalchemy"):
        list(Scan(store_url(url), ("ID",), driver="adbc").batches())


def test_migrating_to_it(url: str, tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path / 'source.db'}"
    fill(source, 4)
    assert migrate(source, url).messages == 4
    with open_store(url) as adapter:
        assert adapter.queue_message_store(TEST).message_count == 4
