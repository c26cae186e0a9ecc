"""Where directories of stores may be: paths and URIs, archives and logs beside them, read without a Spark session."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyarrow import fs

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.spark.kahadb import files
from jdbcstore.spark.kahadb.files import beside
from jdbcstore.testing.messages import text_message
from tests.spark.kahadb.views import rows

VECTORS = Path(__file__).parents[2] / "vectors"


def depths(path: object, **options: object) -> Counter[str]:
    return Counter(row["topic"] for row in rows(path, columns="topic", **options))


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Queues A and B, each in a store of its own; that of A has archived its first file."""
    directory = tmp_path / "several"
    with open_store(f"mkahadb:{directory}?perDestination=true") as adapter:
        for name in "AB":
            store = adapter.queue_message_store(Queue(name))
            store.add_message(text_message(1, destination=store.destination)).result(30)
    return directory


def test_several_kahadb_by_a_uri(several: Path) -> None:
    """The names of the stores have a #, which begins a fragment in other URIs."""
    assert depths(f"file://{several}") == {"queue://A": 1, "queue://B": 1}
    assert depths(f"file://{several}/queue#3a#2f#2fA") == {"queue://A": 1}


def test_archives_of_several_kahadb(several: Path, tmp_path: Path) -> None:
    """Not each of them has one yet."""
    store = several / "queue#3a#2f#2fA"
    (store / "data-archive").mkdir()
    (store / "db-1.log").rename(store / "data-archive" / "db-1.log")
    with open_store(f"kahadb:{tmp_path / 'later'}") as adapter:
        adapter.queue_message_store(Queue("A")).add_message(text_message(2, destination=Queue("A"))).result(30)
    (tmp_path / "later" / "db-1.log").rename(store / "db-2.log")
    assert depths(several, directoryArchive="data-archive") == {"queue://A": 2, "queue://B": 1}
    old = tmp_path / "old"
    old.mkdir()
    (store / "data-archive").rename(old / store.name)
    for place in (old, f"file://{old}"):
        assert depths(several, directoryArchive=place) == {"queue://A": 2, "queue://B": 1}
    with pytest.raises(ConfigurationError, match="none of the 2 stores has an archive"):
        rows(several, directoryArchive="data-archive")


def test_a_log_of_leveldb_elsewhere(tmp_path: Path) -> None:
    sample = Path(shutil.copytree(VECTORS / "leveldb" / "clean", tmp_path / "leveldb"))
    wanted = depths(sample)
    logs = tmp_path / "logs"
    logs.mkdir()
    for path in sample.glob("*.log"):
        path.rename(logs / path.name)
    for place in (logs, f"file://{logs}", "../logs"):
        assert depths(f"file://{sample}", logDirectory=place) == wanted
    assert rows(sample, view="records", logDirectory="../logs")
    with pytest.raises(ConfigurationError, match="logDirectory"):
        rows(sample)
    with pytest.raises(ConfigurationError, match="has to be a local path"):
        rows(sample, logDirectory="mock://logs")


@pytest.mark.parametrize(
    ("uri", "path", "wanted"),
    [
        ("s3://bucket/a?region=r&scheme=http", "journal", "s3://bucket/a/journal?region=r&scheme=http"),
        ("s3://bucket/a/?region=r", "../old", "s3://bucket/old?region=r"),
        ("s3a://bucket", "journal", "s3a://bucket/journal"),
        ("hdfs://host:9/a", "queue#3aA B", "hdfs://host:9/a/queue%233aA%20B"),
        ("file:///a#b", "c", "file:///a%23b/c"),
        ("hdfs://host/a", "s3://bucket/b", "s3://bucket/b"),
        ("/a/", "b", "/a/b"),
    ],
)
def test_what_is_beside_a_uri_has_its_parameters(uri: str, path: str, wanted: str) -> None:
    assert beside(uri, path) == wanted


def test_what_is_not_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """An AMQ store is read wherever it is; a LevelDB store has to be copied, which is said without the URI."""
    elsewhere = fs.SubTreeFileSystem(str(VECTORS), fs.LocalFileSystem())
    monkeypatch.setattr(files, "_resolved", lambda uri: (elsewhere, urlsplit(uri).path.strip("/")))
    uri = "s3://key:secret@amq/amq-store/clean?region=r"
    assert sum(depths(uri).values()) == sum(depths(uri.replace("clean", "clean/journal")).values()) > 0
    with pytest.raises(ConfigurationError, match="copied to a local path") as refused:
        rows(uri.replace("amq-store", "leveldb"))
    assert "secret" not in str(refused.value)
