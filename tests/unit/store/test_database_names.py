"""Nobody but a database's own folder knows its name: everybody else asks for what it can do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from jdbcstore.store.jdbc.dialect import databases

ROOT = Path(__file__).parents[3]
FOLDERS = ROOT / "jdbcstore" / "store" / "jdbc" / "dialect"
NAMES = re.compile(r"postgres|psycopg|mysql|mariadb|sqlite", re.IGNORECASE)
#: Of a URL, or of a driver in one: an example in a message, or a default.
URLS = re.compile(r"\b(jdbc:)?(postgresql|mysql|mariadb|sqlite)://")

_JDBC = "ActiveMQ's files name the drivers of JDBC, whose options are translated here"
_INDEX = "the index of a journal is a file of one certain format, whatever the store is"

#: Files that may name a database, with the reason.
EXCEPTIONS = {
    "jdbcstore/config/activemq_xml/data_source.py": _JDBC,
    "jdbcstore/config/activemq_xml/jdbc_url.py": _JDBC,
    "jdbcstore/config/activemq_xml/store.py": _JDBC,
    "jdbcstore/config/activemq_xml/vocabulary/data_sources.py": _JDBC,
    "jdbcstore/config/activemq_xml/vocabulary/stores.py": _JDBC,
    "jdbcstore/config/spool.py": "the spool is a file of one certain format, too",
    "jdbcstore/store/journal/applier.py": _INDEX,
    "jdbcstore/store/journal/committer.py": _INDEX,
    "jdbcstore/store/journal/index.py": _INDEX,
    "jdbcstore/store/journal/amq/options.py": _INDEX,
    "jdbcstore/store/journal/kahadb/options.py": _INDEX,
    "jdbcstore/store/journal/recovery.py": _INDEX,
}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def docstrings(tree: ast.Module) -> set[ast.expr]:
    """Of modules, classes and functions, and the sentences below attributes."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Everything in the code that may be a name, with its line; comments and docstrings are not."""
    told = docstrings(tree)
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Constant(value=str(value)) if node not in told:
                yield line, URLS.sub("", value)
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield line, name
            case ast.keyword(arg=str(name)):
                yield line, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield line, name
            case ast.ImportFrom(module=str(module)):
                yield line, module


@cache
def named_outside() -> dict[str, list[str]]:
    """Where databases are named, by file."""
    own = [FOLDERS / database.name for database in databases()]
    found: dict[str, list[str]] = {}
    for path in sorted([*(ROOT / "jdbcstore").rglob("*.py"), *(ROOT / "migrations").rglob("*.py")]):
        if not any(path.is_relative_to(folder) for folder in own) and NAMES.search(path.read_text()):
            name = path.relative_to(ROOT).as_posix()
            lines = [f"{name}:{line}: {word.strip()}" for line, word in words(parsed(path)) if NAMES.search(word)]
            if lines:
                found[name] = lines
    return found


def test_nobody_else_names_a_database() -> None:
    found = [line for name, lines in named_outside().items() if name not in EXCEPTIONS for line in lines]
    assert not found, "ask for an ability, in jdbcstore/store/jdbc/dialect/base:\n" + "\n".join(found)


def test_no_exception_has_become_idle() -> None:
    assert EXCEPTIONS.keys() - named_outside().keys() == set()


@pytest.mark.parametrize(
    "text",
    [
        'if connection.dialect.name == "sqlite":\n    pass',
        "from jdbcstore.store.jdbc.dialect.mysql import MySQL",
        "is_mariadb = True",
        "Index(name, postgresql_where=condition)",
        "def _of_postgresql() -> None: ...",
        'raise ValueError(f"not on MySQL: {url}")',
        "raw.sqlite_errorname",
    ],
)
def test_what_it_finds(text: str) -> None:
    assert [word for _, word in words(ast.parse(text)) if NAMES.search(word)]


@pytest.mark.parametrize(
    "text", ['"""On MySQL that takes longer."""', "# as MariaDB does", 'raise ValueError("use mysql://HOST/DATABASE")']
)
def test_what_it_lets_pass(text: str) -> None:
    assert not [word for _, word in words(ast.parse(text)) if NAMES.search(word)]


def test_the_folders_have_the_same_files() -> None:
    """A question has an address: whoever looks for the errors of a database finds them where the others have theirs."""
    files = {database.name: {path.stem for path in (FOLDERS / database.name).glob("*.py")} for database in databases()}
    del files["mariadb"]  # it has what it does not share with MySQL
    common = {"__init__", "bulk", "errors", "scan", "schema", "session", "write"}
    assert {name: common - found for name, found in files.items()} == {name: set() for name in files}
