"""What the documentation shows works as it stands there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import jdbcstore.client

PAGE = Path(__file__).parents[2] / "docs" / "embedding.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_package() -> None:
    failed, tried = doctest.testmod(jdbcstore.client)
    assert (failed, tried) == (0, 5)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_page(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(PAGE), "exec"), {})


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 8
