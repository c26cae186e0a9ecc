"""What docstrings and comments name in backticks is there: what is renamed is renamed in them, too."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "jdbcstore"
NAMED = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)")


def names_in(nodes: list[ast.AST]) -> Iterator[str]:
    """Everything that a module defines or uses."""
    for node in nodes:
        match node:
            case ast.Name(name) | ast.Attribute(attr=name) | ast.arg(name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name) | ast.keyword(str(name)):
                yield from name.split(".")
            case ast.Constant(str(text)) if text.isidentifier():  # attributes in __slots__, options by name
                yield text


def prose_in(source: str, nodes: list[ast.AST]) -> Iterator[str]:
    """Its docstrings and comments."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for line in source.splitlines():
        yield line.partition("#")[2]


def test_names_in_backticks_are_there() -> None:
    known: set[str] = set(dir(builtins))
    named: set[tuple[str, str]] = set()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        nodes = list(ast.walk(ast.parse(source)))
        place = path.relative_to(PACKAGE.parent).with_suffix("")
        known.update(place.parts, names_in(nodes))
        named.update((str(place), name) for text in prose_in(source, nodes) for name in NAMED.findall(text))
    assert len(named) > 1000
    assert not sorted((place, name) for place, name in named if not known.issuperset(name.split(".")))
