"""``jdbcstore schedule``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from jdbcstore.cli import cli
from jdbcstore.config.urls import open_store
from jdbcstore.errors import ConfigurationError, LockHeld
from jdbcstore.store.contract import SupportsScheduling
from jdbcstore.store.jobs import HELD_MS
from jdbcstore.testing.schedule_contract import keep, scheduled_job

pytestmark = pytest.mark.has_tables


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["schedule", *arguments])


@pytest.fixture
def filled(database_url: str) -> str:
    """The URL of a store with three jobs."""
    with open_store(database_url) as adapter:
        keep(
            adapter, scheduled_job(1, 7_000), scheduled_job(2, 5_000, period_ms=9, repeat=3), scheduled_job(3, HELD_MS)
        )
    return database_url


def test_list_shows_the_next_first_also_beside_a_broker(filled: str) -> None:
    with open_store(filled):
        result = run("list", filled, "--json")
    assert result.exit_code == 0, result.output
    shown = [json.loads(line) for line in result.stdout.splitlines()]
    assert [job["dueMs"] for job in shown] == [5_000, 7_000, None]
    assert (shown[0]["repeat"], shown[0]["periodMs"], shown[0]["destination"]) == (3, 9, "queue://TEST")
    table = run("list", filled, "--limit", "1").stdout
    assert "every 9 ms, 3 times" in table
    assert table.count("queue://TEST") == 1
    assert "put aside" in run("list", filled).stdout


def test_remove(filled: str) -> None:
    assert run("remove", filled, scheduled_job(1, 0).job_id, "nobody").stdout == "1 removed\n"
    assert run("remove", filled, "--all").stdout == "2 removed\n"
    assert run("list", filled).stdout == "no message is scheduled\n"


def test_remove_beside_a_broker_says_what_to_do_instead(filled: str) -> None:
    with open_store(filled) as adapter:
        result = run("remove", filled, "--all")
        assert isinstance(result.exception, LockHeld)
        assert "Ask it (--broker" in str(result.exception)
        assert isinstance(adapter, SupportsScheduling)
        assert adapter.job_store().job_count() == 3


@pytest.mark.parametrize("arguments", [[], ["one", "--all"]])
def test_remove_has_to_be_told_what(filled: str, arguments: list[str]) -> None:
    assert isinstance(run("remove", filled, *arguments).exception, ConfigurationError)
