"""Files and directories of our stores: who may read them, and that one module makes them."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import jdbcstore
from jdbcstore import open_store
from jdbcstore.destination import Queue
from jdbcstore.store import disk
from jdbcstore.store.contract import Commit, SupportsScheduling
from jdbcstore.store.jobs import ScheduledJob
from jdbcstore.testing.messages import text_message

PACKAGE: Final = Path(jdbcstore.__file__).parent
#: What changes files, of `os`, of `shutil`, of `tempfile`, and of paths.
CHANGES: Final = {
    "os": {
        "fdatasync", "fsync", "ftruncate", "link", "makedirs", "mkdir", "posix_fallocate", "pwrite", "remove",
        "removedirs", "rename", "renames", "replace", "rmdir", "symlink", "truncate", "unlink", "write",
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree"},
    "tempfile": {"NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile", "mkdtemp", "mkstemp"},
    "": {"mkdir", "rename", "rmdir", "touch", "unlink", "write_bytes", "write_text"},
}  # fmt: skip
#: Who does so all the same, and why it is nothing that has to survive a power failure.
OTHERS: Final = {
    "transport/key_files.py": "keys of TLS in another form, for as long as they are loaded",
    "config/urls.py": "the spool's folder, for what need not survive",
    "config/spool.py": "the same",
    "console/archives.py": "an export that the user asked for, and how far it is",
    "console/kahadb.py": "a picture that the user asked for",
    "console/migrate.py": "a report that the user asked for",
    "console/user.py": "the file of users",
    "management/diagnosis.py": "a picture for the console",
    "pipeline/folders.py": "files of Hadoop, where it is forced",
    "pipeline/report/figures.py": "figures that the user asked for",
    "pipeline/report/reporter.py": "the same",
    "pipeline/session.py": "the log of Spark",
    "store/jdbc/liveness_file.py": "whether a process lives; it does not survive a power failure",
    "store/journal/directory_view.py": "a copy of an index to look into",
}


#: What a text has somewhere that calls any of these: to parse all of them takes its time.
PERHAPS: Final = re.compile(rf"\b(os|shutil|tempfile)\.|\.({'|'.join(CHANGES[''])})\(|open\(")


def changes(path: Path) -> Iterator[str]:
    """Calls that change files."""
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if PERHAPS.search(text) else ():
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute):
            of = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            if node.func.attr in CHANGES.get(of, CHANGES[""]):
                yield ast.unparse(node)
        if ast.unparse(node.func).rpartition(".")[2] == "open" and any(map(_writes, _constants(node))):
            yield ast.unparse(node)


def _constants(call: ast.Call) -> list[object]:
    given = [*call.args, *(word.value for word in call.keywords)]
    return [one.value for one in given if isinstance(one, ast.Constant)]


def _writes(mode: object) -> bool:
    return isinstance(mode, str) and set(mode) <= set("rwaxbt+U") and not set(mode).isdisjoint("wax+")


def test_files_are_changed_by_one_module() -> None:
    found = {
        str(path.relative_to(PACKAGE)): list(changes(path))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "disk.py" or path.parent.name != "store"
    }
    assert {path for path, calls in found.items() if calls} == OTHERS.keys(), found


@pytest.mark.parametrize(
    ("text", "is_change"),
    [
        ("os.unlink(path)", True),
        ("path.write_text('x')", True),
        ("path.open('r+b')", True),
        ("open(path, mode='a')", True),
        ("path.open('rb')", False),
        ("remove(path)", False),
        ("text.replace('a', 'b')", False),
    ],
)
def test_what_counts_as_a_change(text: str, is_change: bool, tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(text)
    assert any(changes(source)) == is_change


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in folder.rglob("*")}


def test_nobody_else_reads_a_kahadb_directory(tmp_path: Path) -> None:
    with open_store(f"kahadb:{tmp_path / 'above' / 'kahadb'}?archiveDataLogs=true&journalMaxFileLength=1024") as store:
        assert isinstance(store, SupportsScheduling)
        queue = store.queue_message_store(Queue("A"))
        for number in range(4):
            message = text_message(number, "x" * 600)
            queue.add_message(message).result(30)
            assert message.message_id is not None
            queue.remove_message(message.message_id).result(30)
        job = ScheduledJob("1", text_message(9), 1, 1, 10, 0, "")
        store.commit_together(Commit(jobs=[job])).result(30)
        store.remove_unneeded_files()  # type: ignore[attr-defined]
        found = modes(tmp_path)
    assert {
        "above/kahadb/scheduler/db-1.log",
        "above/kahadb/data-archive/db-1.log",
        "above/kahadb/lock",
    } <= found.keys()
    assert {
        name: mode for name, mode in found.items() if mode != (0o700 if (tmp_path / name).is_dir() else 0o600)
    } == {}


def test_a_directory_that_others_read_goes_on_being_read_by_them(tmp_path: Path) -> None:
    """As one of a Java broker of another user."""
    place = tmp_path / "kahadb"
    place.mkdir(0o755)
    (place / "db-1.log").touch()
    (place / "db-1.log").chmod(0o640)
    with open_store(f"kahadb:{place}") as store:
        store.queue_message_store(Queue("A")).add_message(text_message(1)).result(30)
        assert {mode for name, mode in modes(place).items()} == {0o640}
    assert place.stat().st_mode & 0o777 == 0o755


def test_what_root_makes_belongs_to_the_owner_of_the_directory(tmp_path: Path) -> None:
    place = tmp_path / "kahadb"
    place.mkdir()
    if os.geteuid() == 0:  # nobody else gives files away
        os.chown(place, 12345, 12345)
    with open_store(f"kahadb:{place}") as store:
        store.queue_message_store(Queue("A")).add_message(text_message(1)).result(30)
        owners = {path.name: path.stat().st_uid for path in place.iterdir() if "sqlite-" not in path.name}
    assert set(owners.values()) == {place.stat().st_uid}, owners


def test_a_directory_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        disk.make_directory(tmp_path / "file" / "below")
    with pytest.raises(NotADirectoryError):
        disk.make_directory(tmp_path / "file")
