"""Scheduled messages in the directory of a store of another format: ActiveMQ has them beside every store in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.inspection import looking_into
from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.migration import migrate
from jdbcstore.store.contract import Commit, SupportsScheduling
from jdbcstore.store.jobs import ScheduledJob
from jdbcstore.testing.messages import text_message


@pytest.mark.parametrize("scheme", ["leveldb", "mkahadb", "amq"])
def test_they_are_not_passed_over(scheme: str, tmp_path: Path) -> None:
    """They are served, or the directory is refused by name while they are there; a migration takes them along."""
    queue, url = Queue("Q"), f"{scheme}:{tmp_path / 'store'}"
    with open_store(f"kahadb:{tmp_path / 'other'}") as other:
        job = ScheduledJob("job", text_message(1, destination=queue), 1 << 42)
        other.commit_together(Commit(jobs=[job])).result(30)
    with open_store(url) as store:
        store.queue_message_store(queue).add_message(text_message(2, destination=queue)).result(30)
    (tmp_path / "other" / "scheduler").rename(tmp_path / "store" / "scheduler")
    before = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    if scheme != "leveldb":
        with looking_into(url) as view:
            assert isinstance(view, SupportsScheduling)
            assert view.job_store().job_count() == 1
    else:
        with pytest.raises(ConfigurationError, match=rf"scheduled messages \(1\).*jdbcstore migrate {scheme}:"):
            open_store(url).start()
    migrate(url, f"kahadb:{tmp_path / 'target'}")
    with open_store(f"kahadb:{tmp_path / 'target'}") as target:
        assert isinstance(target, SupportsScheduling)
        assert target.job_store().job_count() == 1
        assert target.queue_message_store(queue).message_count == 1
    assert before == {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    if scheme != "leveldb":
        with open_store(url) as store:
            assert isinstance(store, SupportsScheduling)
            assert [one.job_id for one in store.job_store().jobs(None, 9, 1 << 20).jobs] == ["job"]
        return
    (tmp_path / "store" / "scheduler").rename(tmp_path / "elsewhere")
    with open_store(url) as store:
        assert store.queue_message_store(queue).message_count == 1


@pytest.mark.parametrize("scheme", ["kahadb", "mkahadb", "amq", "leveldb"])
def test_those_of_a_broker_that_has_them_beside_its_store_are_told(
    scheme: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler" / "db-1.log").touch()
    told = []
    for _ in range(2):
        with open_store(f"{scheme}:{tmp_path / 'store'}"):
            told.append(sum("beside the store are not sent" in one for one in caplog.messages))
    assert told == [0, 1]
