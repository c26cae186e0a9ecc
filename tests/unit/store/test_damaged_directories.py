"""Directories of KahaDB, AMQ stores and LevelDB, damaged at random: what can be had is had, and nothing else.

Each is damaged once in a usual run, ``JDBCSTORE_TEST_EXAMPLES`` times if that is set; ``JDBCSTORE_TEST_MUTANTS=1000``
damages each so many times.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePath
from typing import NamedTuple

import click
import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.console.journal import journal
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import JdbcStoreError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.journals import contents_of_amq_store, contents_of_journals
from jdbcstore.migration.leveldb import contents_of_leveldb_store
from jdbcstore.store.contract import Cursor, SupportsTopics, SupportsTransactions
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from tests.examples import examples
from tests.journal_lives import lives_of_amq, lives_of_kahadb, lives_of_leveldb
from tests.mutations import Lives, Mutant, Seen, adapter_seen, compare, contents_seen, mutated
from tests.unit.kahadb.journals import unpack, unpack_index

MUTANTS = int(os.environ.get("JDBCSTORE_TEST_MUTANTS", examples(1)))
VECTORS = Path(__file__).parents[2] / "vectors"
WITH_INDEX = ("basic", "transactions", "compaction")

#: The first message.
_FIRST = Cursor(), 1, 1 << 20

pytestmark = pytest.mark.timeout(60 + 10 * MUTANTS)


class Kind(NamedTuple):
    """A format."""

    name: str
    lives: Callable[[Path], Lives]
    contents: Callable[[Path], AbstractContextManager[Contents]]
    wanted: Callable[[PurePath], bool]
    small_files: str
    """Of a URL."""
    lenient: str
    """Of a URL: starts although something is missing."""


KINDS = {
    one.name: one
    for one in (
        Kind(
            "kahadb",
            lives_of_kahadb,
            lambda directory: contents_of_journals(directory, skips_damage=True),
            lambda path: len(path.parts) == 1 and bool(re.fullmatch(r"db-\d+\.log|db\.(data|redo)", path.name)),
            "?journalMaxFileLength=32kb",
            "?ignoreMissingJournalfiles=true",
        ),
        Kind(
            "amq",
            lives_of_amq,
            lambda directory: contents_of_amq_store(directory, skips_damage=True),
            lambda path: path.parts[0] in ("journal", "kr-store"),
            "?maxFileLength=32kb",
            "",
        ),
        Kind(
            "leveldb",
            lives_of_leveldb,
            lambda directory: contents_of_leveldb_store(directory, skips_damage=True),
            lambda path: path.name not in ("expected.json", "lock"),
            "?logSize=32768",
            "",
        ),
    )
}


def written(kind: Kind, folder: Path) -> Path:
    """A directory that this store wrote, as a kill leaves it."""
    directory = folder / "ours"
    with open_store(f"{kind.name}:{directory}{kind.small_files}") as adapter:
        assert isinstance(adapter, SupportsTopics)
        assert isinstance(adapter, SupportsTransactions)
        one, two, topic = Queue("Q.ONE"), Queue("Q.TWO"), Topic("T")
        key = SubscriptionKey("c", "d")
        first, second = adapter.queue_message_store(one), adapter.queue_message_store(two)
        prices = adapter.topic_message_store(topic)
        prices.add_subscription(SubscriptionInfo(key, topic, topic)).result(30)
        for number in range(120):
            store, where = ((first, one), (second, two), (prices, topic))[number % 3]
            message = text_message(number, "x" * (number * 17 % 900), destination=where)
            store.add_message(message).result(30)
            if number % 2:
                continue
            if store is prices:
                found = prices.recover_next_subscription_messages(key, *_FIRST).messages[0].message_id
                assert found is not None
                prices.acknowledge(key, found).result(30)
            else:
                found = store.recover_next_messages(*_FIRST).messages[0].message_id
                assert found is not None
                store.remove_message(found).result(30)
        for number in (1, 2):
            transaction = adapter.transaction_store().begin(XATransactionId(1, b"g%d" % number, b"b"))
            transaction.add_message(second, text_message(1000 + number, "in doubt", destination=two))
            last = list(first.recover())[-number].message_id
            assert last is not None
            transaction.remove_message(first, last)
            transaction.prepare().result(30)
        adapter.transaction_store().commit_prepared(XATransactionId(1, b"g1", b"b")).result(30)
        ignored = shutil.ignore_patterns("lock", "jdbcstore-index*")
        return Path(shutil.copytree(directory, folder / "killed", ignore=ignored))


def source(kind: Kind, name: str, folder: Path) -> Path:
    if name == "ours":
        return written(kind, folder)
    if kind.name != "kahadb":
        vector = VECTORS / ("amq-store" if kind.name == "amq" else kind.name) / name
        return Path(shutil.copytree(vector, folder / name))
    directory = folder / name
    directory.mkdir()
    unpack(name, directory)
    if name in WITH_INDEX:
        unpack_index(name, directory)
    return directory


def served(url: str) -> Seen:
    with open_store(url) as adapter:
        return adapter_seen(adapter)


def run(*arguments: object) -> int:
    """``jdbcstore journal``: its exit code; an error that it tells is 2."""
    try:
        code = journal.main([str(one) for one in arguments], prog_name="jdbcstore journal", standalone_mode=False)
    except (JdbcStoreError, click.ClickException):
        return 2
    return int(code or 0)


class Sound(NamedTuple):
    """A sound directory, and what is found in it."""

    kind: Kind
    directory: Path
    lives: Lives
    read: Seen
    served: Seen


@pytest.fixture(
    scope="module",
    params=[
        *(("kahadb", name) for name in ("basic", "transactions", "compaction", "torn", "priorities", "ours")),
        *((kind, name) for kind in ("amq", "leveldb") for name in ("clean", "ours")),
    ],
    ids="-".join,
)
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sound:
    name, directory_name = request.param
    kind, folder = KINDS[name], tmp_path_factory.mktemp("sound")
    directory = source(kind, directory_name, folder)
    read = contents_seen(kind.contents(directory))
    assert not read.damages
    copy = shutil.copytree(directory, folder / "copy")
    return Sound(kind, directory, kind.lives(directory), read, served(f"{kind.name}:{copy}"))


def mutants(sound: Sound, tmp_path: Path) -> Iterator[Mutant]:
    first = 0 if MUTANTS < 100 else random.randrange(1 << 30)
    for seed in range(first, first + MUTANTS):
        target = tmp_path / str(seed)
        chance = random.Random(f"{sound.directory.name} {seed}")
        yield mutated(sound.directory, target, chance, sound.kind.wanted)
        shutil.rmtree(target)


def test_what_is_read_and_repaired(sound: Sound, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = sound.kind
    for mutant in mutants(sound, tmp_path):
        for command in ("check", "diagnose", "dump"):
            assert run(command, mutant.directory) in (0, 1, 2), mutant
        try:
            found = contents_seen(kind.contents(mutant.directory))
        except JdbcStoreError:  # there is no store any more
            assert run("repair", mutant.directory, tmp_path / "new") == 2, mutant
            continue
        assert compare(sound.read, sound.lives, mutant, found) == [], mutant
        new = tmp_path / "new"
        assert run("repair", mutant.directory, new) in (0, 1), mutant
        capsys.readouterr()
        assert run("check", new) == 0, (mutant, capsys.readouterr().out)
        repaired = contents_seen(kind.contents(new))
        assert compare(sound.read, sound.lives, mutant, repaired) == [], mutant
        shutil.rmtree(new)
        capsys.readouterr()


def test_what_is_served(sound: Sound, tmp_path: Path) -> None:
    """A start on what was damaged; the second start, and one without our index, find the same."""
    kind = sound.kind
    for mutant in mutants(sound, tmp_path):
        url = f"{kind.name}:{mutant.directory}"
        try:
            found = served(url)
        except JdbcStoreError:
            try:
                found = served(f"{url}{kind.lenient}")
            except JdbcStoreError:  # the same
                assert run("repair", mutant.directory, tmp_path / "new") == 2, mutant
                continue
        assert compare(sound.served, sound.lives, mutant, found) == [], mutant
        assert served(f"{url}{kind.lenient}").waiting == found.waiting, mutant
        for path in mutant.directory.glob("jdbcstore-index*"):
            path.unlink()
        assert served(f"{url}{kind.lenient}").waiting == found.waiting, mutant
