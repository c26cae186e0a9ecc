"""The documentation site: what its build has to refuse."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize(("link", "code"), [("index.md", 0), ("nowhere.md", 1), ("index.md#nowhere", 1)])
def test_a_dead_link_fails_the_build(tmp_path: Path, link: str, code: int) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Here\n\n[there]({link})\n")
    lines = [f"INHERIT: {CHECKOUT / 'mkdocs.yml'}", "docs_dir: docs", "site_dir: site", "nav: [index.md]"]
    (tmp_path / "mkdocs.yml").write_text("\n".join([*lines, "plugins: [search]", "hooks: []", ""]))
    recipe = ["make", "--always-make", "--dry-run", "--no-print-directory", "docs"]
    printed = subprocess.run(recipe, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout
    command = shlex.split(printed.splitlines()[-1])
    assert "mkdocs" in command[1]
    built = subprocess.run(
        ["env", *command, "-f", str(tmp_path / "mkdocs.yml")], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert built.returncode == code, built.stderr
