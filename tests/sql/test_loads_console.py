"""``jdbcstore loads``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jdbcstore.cli import cli
from jdbcstore.config.urls import open_engine
from jdbcstore.errors import ConfigurationError, LeaseLost
from jdbcstore.store.jdbc.schema import upgrade_schema
from tests.sql.test_loads import begun, rows, stored


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["loads", *arguments])


def test_loads_are_shown_and_removed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    engine = open_engine(url)
    upgrade_schema(engine)
    engine.dispose()
    assert run("list", url).stdout == "nothing was loaded in bulk\n"
    done, dead = begun(url, "done"), begun(url, "dead")
    done.write_part(0, rows(0, 3))
    done.commit()
    dead.write_part(0, rows(3, 4))
    shown = [json.loads(line) for line in run("list", url, "--json").stdout.splitlines()]
    assert [(one["job"], one["state"], one["messages"]) for one in shown] == [
        ("done", "committed", 3),
        ("dead", "loading", 0),
    ]
    assert run("abort", url, "dead").stdout == "load dead is removed\n"
    with pytest.raises(LeaseLost):
        dead.write_part(1, rows(3, 4))
    assert stored(url) == [0, 1, 2]
    for job in ("dead", "done", "nobody"):
        assert isinstance(run("abort", url, job).exception, ConfigurationError)
    assert "aborted" in run("list", url).stdout
