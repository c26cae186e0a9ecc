"""Another store of ActiveMQ is told from a KahaDB directory, whoever is given it, and nothing is changed in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from jdbcstore import open_store
from jdbcstore.cli import run
from jdbcstore.config.urls import store_url
from jdbcstore.console.stats import collect
from jdbcstore.errors import ConfigurationError
from jdbcstore.spark.kahadb.files import JournalDirectory, stores_within
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from tests.unit.kahadb.journals import unpack, unpack_index

Capture = pytest.CaptureFixture[str]

VECTORS = Path(__file__).parents[2] / "vectors"
AMQ = ("journal/data-1", "journal/data-control", "kr-store/data/index-x", "lock")
LEVELDB = ("0000000000000000.log", "000000000001064e.log", "dirty.index/000003.log", "store-version.txt")
OTHERS = {
    "amq": (AMQ, "looks like an AMQ store"),
    "amq-journal": (("data-1", "data-control"), "looks like an AMQ store"),
    "leveldb": (LEVELDB, "looks like a LevelDB store"),
    "leveldb-with-ours": ((*LEVELDB, "db-1.log"), "move the files db-*.log elsewhere"),
    "temporary": (("db-1.log", "tmpDB.data"), "non-persistent messages"),
    "mkahadb": (("queue#3a#2f#2fA/db-1.log", "txStore/db-1.log"), "holds several stores (mKahaDB)"),
    "above": (("kahadb/db-1.log",), "give one that it holds: kahadb"),
    "above-several": (
        ("k/db-1.log", "l/store-version.txt", "a/journal/data-1", "m/txStore/db-1.log", "empty/x"),
        "give one that it holds: a (amq:), k, l (leveldb:), m (mkahadb:)",
    ),
}


def made(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    return folder


def contents(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize(("names", "said"), OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize(
    "command",
    [
        ["broker", "--url", "kahadb:{}"],
        ["stats", "kahadb:{}"],
        ["browse", "kahadb:{}", "Q"],
        ["transactions", "list", "kahadb:{}"],
        ["schedule", "list", "kahadb:{}"],
        ["migrate", "kahadb:{}", "sqlite:///{}.sqlite"],
        ["migrate", "kahadb:{}", "sqlite:///{}.sqlite", "--dry-run"],
        ["kahadb", "check", "{}"],
        ["kahadb", "diagnose", "{}"],
        ["kahadb", "dump", "{}"],
        ["kahadb", "repair", "{}", "{}.new"],
    ],
    ids=lambda command: " ".join(command[:2]) + ("-dry" if "--dry-run" in command else ""),
)
def test_every_command_says_what_it_is(
    command: list[str], names: tuple[str, ...], said: str, tmp_path: Path, capsys: Capture
) -> None:
    directory = made(tmp_path / "store", names)
    before = contents(directory)
    assert run([part.format(directory) for part in command]) == 2
    assert said in capsys.readouterr().err
    assert contents(directory) == before


@pytest.mark.parametrize(("names", "said"), OTHERS.values(), ids=OTHERS)
def test_neither_library_nor_spark_takes_it(names: tuple[str, ...], said: str, tmp_path: Path) -> None:
    directory = made(tmp_path / "store", names)
    before = contents(directory)
    openings: list[Callable[[], object]] = [
        lambda: open_store(f"kahadb:{directory}"),
        lambda: KahaDBPersistenceAdapter(directory).start(),
    ]
    if "AMQ" not in said:  # which Spark reads
        openings.append(lambda: JournalDirectory(str(directory)))
    for opening in openings:
        with pytest.raises(ConfigurationError) as raised:
            opening()
        assert said in str(raised.value)
    assert contents(directory) == before


def test_an_index_without_its_journal_is_not_begun_anew(tmp_path: Path) -> None:
    unpack("basic", tmp_path)
    unpack_index("basic", tmp_path)
    for path in tmp_path.glob("db-*.log"):
        path.unlink()
    with pytest.raises(ConfigurationError, match=r"no journal .* Restore the journal, or delete db\.data"):
        KahaDBPersistenceAdapter(tmp_path).start()
    assert (tmp_path / "db.data").exists()


def test_a_schedulers_directory_is_no_store(tmp_path: Path) -> None:
    made(tmp_path, ("db-1.log", "scheduleDB.data"))
    with pytest.raises(ConfigurationError, match="a scheduler's messages"):
        KahaDBPersistenceAdapter(tmp_path).start()


@pytest.mark.parametrize("names", [(), ("lost+found/x",), ("readme",), ("scheduler/readme",), ("lock",)])
def test_what_may_become_a_store(names: tuple[str, ...], tmp_path: Path) -> None:
    with KahaDBPersistenceAdapter(made(tmp_path, names)):
        pass


@pytest.mark.parametrize(
    "names",
    [
        (*LEVELDB, "db-1.log"),
        ("00000000000A064E.log", "db-1.log"),
        (*AMQ, "db-1.log"),
        (*AMQ, *LEVELDB),
        ("data-1", "dirty.index/000003.log"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ["journal", "check", "{}"],
        ["journal", "diagnose", "{}"],
        ["journal", "dump", "{}"],
        ["journal", "repair", "{}", "{}.new"],
        ["migrate", "{}", "kahadb:{}.new", "--dry-run"],
    ],
)
def test_of_two_stores_in_one_directory_none_is_taken(
    command: list[str], names: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    folder = made(tmp_path / "store", names)
    before = contents(folder)
    assert run([argument.format(folder) for argument in command]) in (1, 2)
    assert "nobody can tell which store is meant" in capsys.readouterr().err
    assert contents(folder) == before
    assert not (tmp_path / "store.new").exists()


@pytest.mark.parametrize("index", ["db.data", "jdbcstore-index.sqlite"])
def test_spark_does_not_read_a_lost_journal_as_an_empty_one(index: str, tmp_path: Path) -> None:
    made(tmp_path, ("txStore/db-1.log", "queue#3a#2f#2fA/db-1.log", f"queue#3a#2f#2fB/{index}"))
    with pytest.raises(ConfigurationError, match=r"B in .* holds an index, but no journal"):
        stores_within(str(tmp_path))
    with pytest.raises(ConfigurationError, match="holds an index, but no journal"):
        JournalDirectory(str(tmp_path / "queue#3a#2f#2fB"))


@pytest.mark.parametrize(
    ("scheme", "names", "said"),
    [
        ("mkahadb", AMQ, "looks like an AMQ store"),
        ("mkahadb", LEVELDB, "looks like a LevelDB store"),
        ("mkahadb", ("db-1.log", "db.data"), "use kahadb:"),
        ("mkahadb", ("kahadb/db-1.log", "l/store-version.txt"), "give one that it holds: kahadb, l (leveldb:)"),
        ("leveldb", ("kahadb/db-1.log", "a/journal/data-1"), "give one that it holds: a (amq:), kahadb"),
        ("leveldb", ("queue#3a#2f#2fA/db-1.log", "txStore/db-1.log"), "holds several stores (mKahaDB)"),
        ("amq", ("kahadb/db-1.log", "l/store-version.txt"), "give one that it holds: kahadb, l (leveldb:)"),
        ("amq", LEVELDB, "use leveldb:"),
        ("leveldb", AMQ, "looks like an AMQ store"),
    ],
)
def test_no_store_is_begun_among_the_files_of_others(
    scheme: str, names: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    folder = made(tmp_path / "store", names)
    before = contents(folder)
    with pytest.raises(ConfigurationError) as refused:
        open_store(f"{scheme}:{folder}")
    assert said in str(refused.value)
    assert contents(folder) == before


@pytest.mark.parametrize("is_emptied", [False, True])
def test_a_reference_store_without_its_journal_is_not_begun_anew(is_emptied: bool, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(VECTORS / "amq-store" / "clean", tmp_path / "store"))
    for path in (folder / "journal").iterdir():
        path.write_bytes(b"") if is_emptied else path.unlink()
    before = contents(folder)
    for refused in (open_store, collect):
        with pytest.raises(ConfigurationError, match="refers to messages, but no journal"):
            refused(f"amq:{folder}")
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("names", "meant"),
    [
        (["db-1.log"], "kahadb:"),
        (["journal/data-1"], "amq:"),
        (["store-version.txt"], "leveldb:"),
        (["txStore/db-1.log"], "mkahadb:"),
        (["notes.txt"], None),
    ],
)
def test_a_path_is_no_url_and_its_url_is_told(tmp_path: Path, names: list[str], meant: str | None) -> None:
    directory = tmp_path / "store"
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    with pytest.raises(ConfigurationError, match="not a store URL") as refused:
        store_url(str(directory))
    assert (f"did you mean {meant}{directory}?" in str(refused.value)) == (meant is not None)
    with pytest.raises(ConfigurationError, match=f"did you mean sqlite:///{directory / names[0]}"):
        store_url(str(directory / names[0]))
