"""Scheduled messages in the directory of a store that keeps none: ActiveMQ has them beside every store in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.migration import migrate
from jdbcstore.store.contract import Commit, SupportsScheduling
from jdbcstore.store.jobs import ScheduledJob
from jdbcstore.testing.messages import text_message


@pytest.mark.parametrize("scheme", ["leveldb", "mkahadb"])
def test_they_are_not_passed_over(scheme: str, tmp_path: Path) -> None:
    """A broker refuses the directory by name while they are there; a migration takes them along."""
    queue, url = Queue("Q"), f"{scheme}:{tmp_path / 'store'}"
    with open_store(f"kahadb:{tmp_path / 'other'}") as other:
        job = ScheduledJob("job", text_message(1, destination=queue), 1 << 42)
        other.commit_together(Commit(jobs=[job])).result(30)
    with open_store(url) as store:
        store.queue_message_store(queue).add_message(text_message(2, destination=queue)).result(30)
    (tmp_path / "other" / "scheduler").rename(tmp_path / "store" / "scheduler")
    with pytest.raises(ConfigurationError, match=rf"scheduled messages \(1\).*jdbcstore migrate {scheme}:"):
        open_store(url).start()
    migrate(url, f"kahadb:{tmp_path / 'target'}")
    with open_store(f"kahadb:{tmp_path / 'target'}") as target:
        assert isinstance(target, SupportsScheduling)
        assert target.job_store().job_count() == 1
        assert target.queue_message_store(queue).message_count == 1
    (tmp_path / "store" / "scheduler").rename(tmp_path / "elsewhere")
    with open_store(url) as store:
        assert store.queue_message_store(queue).message_count == 1
