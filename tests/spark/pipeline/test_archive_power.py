"""The power fails while messages are archived, or removed because they were: what counts as archived is there."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from jdbcstore.config.urls import open_store
from jdbcstore.pipeline.archive import archive
from jdbcstore.pipeline.folders import Folder
from tests.power.recording import Recorder
from tests.power.states import states
from tests.power.trace import Trace
from tests.spark.pipeline.filling import ORDERS, message


def first_loss(trace: Trace, final: dict[str, bytes]) -> str | None:
    """What is wrong with the first state that is."""
    for state in states(trace, sector=512):
        published = sorted(path for path in state.files if "/manifest/" in path and path.endswith(".json"))
        if state.notes and not published:
            return f"after {state.moment} operations: it was said to be archived, and there is no manifest"
        for path in published:
            if state.files[path] != final[path]:
                return f"after {state.moment} operations: {path} is not whole"
            for file in json.loads(final[path])["files"]:
                if state.files.get(f"archive/{file}") != final[f"archive/{file}"]:
                    return f"after {state.moment} operations: {file} counts as archived, and is not there as a whole"
            # Hadoop refuses a file that is not what its checksums say.
            torn = [
                name for name, data in state.files.items() if name.endswith(".crc") and data != final.get(name, data)
            ]
            if torn:
                return f"after {state.moment} operations: {torn} are not whole"
    return None


def test_what_counts_as_archived_is_there(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with open_store(url) as adapter:
        for number in range(3):
            adapter.queue_message_store(ORDERS).add_message(message(ORDERS, f"order {number}")).result()
    root = tmp_path / "root"
    root.mkdir()
    recorder = Recorder(root, finds=True)
    with recorder.recording() as trace:
        assert archive(spark, url, str(root / "archive")).messages == 3
        recorder.note("done")
    assert (root / "archive").stat().st_mode & 0o777 == 0o700
    final = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert first_loss(trace, final) is None
    needed = {site for site in trace.sites if first_loss(trace.without(site), final) is not None}
    ways = ("force", "_force_local", "make")
    assert {site.split()[0] for site in needed} == {f"folders.{Folder.__name__}.{way}" for way in ways}
