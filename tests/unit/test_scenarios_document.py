"""docs/scenarios.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_document_names_is_there() -> None:
    named = re.findall(r"`([\w/]+)::(\w+)`", (ROOT / "docs" / "scenarios.md").read_text("utf-8"))
    assert len(named) > 100
    missing = []
    for place, name in named:
        file = ROOT / ("jdbcstore" if place.startswith("testing/") else "tests") / f"{place}.py"
        if not file.is_file() or f"def test_{name}(" not in file.read_text("utf-8"):
            missing.append(f"{place}::{name}")
    assert missing == []
