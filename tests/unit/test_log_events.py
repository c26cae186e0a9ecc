"""``docs/log-events.md``: every event that the program logs, with its levels, and none that it does not."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "log-events.md"
#: Written by the handler itself.
OWN = {"lines left out": {"WARNING"}}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


@cache
def calls() -> Sequence[tuple[str, str, str]]:
    """Where each line is logged, by which method, and its text."""
    return list(_calls())


def _calls() -> Iterator[tuple[str, str, str]]:
    for file in sorted((CHECKOUT / "jdbcstore").rglob("*.py")):
        source = file.read_text("utf-8")
        if "getLogger(" not in source and "audit" not in source:  # what has no logger needs no parsing
            continue
        tree = ast.parse(source)
        loggers = set(loggers_of(tree)) | {"audit"}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            method, logger = node.func.attr, node.func.value
            if method in LEVELS and isinstance(logger, ast.Name) and logger.id in loggers:
                text = node.args[method == "log"]
                assert isinstance(text, ast.Constant), f"{file}:{node.lineno}: the text of an event is constant"
                yield f"{file.relative_to(CHECKOUT)}:{node.lineno}", method, str(text.value)


def loggers_of(tree: ast.Module) -> Iterator[str]:
    """The names of a module's loggers: what `getLogger` is assigned to."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and "getLogger(" in ast.unparse(node):
            yield ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def event(text: str) -> str:
    """The name of an event: what stands before the first ``key=``, with ``…`` for what changes in it."""
    before = re.split(r"\s*[\w.]+=%", text, maxsplit=1)[0]
    return re.sub(r"%[-.\d]*[a-z](?: s\b)?(?:%s)?", "…", before).rstrip(":")


def levels_of(method: str) -> set[str]:
    named = {"exception": "ERROR", "critical": "ERROR"}
    return set() if method == "log" else {named.get(method, method.upper())}  # `log` chooses while it runs


def page() -> dict[str, set[str]]:
    """Every event of the page, and the levels that it has there."""
    rows = re.findall(r"^\| `([^`]+)` \| ([A-Z, ]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    events = {name: set(levels.split(", ")) for name, levels in rows}
    assert len(events) == len(rows), "an event is on the page twice"
    return events


def test_the_page_has_every_event_with_its_level() -> None:
    listed, missing = page(), list[str]()
    for place, method, text in calls():
        name, levels = event(text), levels_of(method)
        if name not in listed or not levels <= listed[name]:
            missing.append(f"{place}: | `{name}` | {', '.join(levels) or '?'} | … |")
    assert not missing, f"{PAGE.name} lacks these events, or their levels:\n" + "\n".join(missing)


def test_the_page_has_no_event_that_nobody_logs() -> None:
    logged: dict[str, set[str]] = defaultdict(set, OWN)
    chosen: set[str] = set()
    for _, method, text in calls():
        logged[event(text)] |= levels_of(method)
        if method == "log":
            chosen.add(event(text))
    too_many = [
        f"{name}: {', '.join(sorted(levels - logged[name]))}"
        for name, levels in page().items()
        if name not in logged or (name not in chosen and levels - logged[name])
    ]
    assert not too_many, f"{PAGE.name} has events that are not logged so:\n" + "\n".join(too_many)
