"""The tutorials: every command and every program of them does what the page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from jdbcstore.config.urls import open_engine
from tests.broker_process import BrokerProcess, run_command
from tests.migrations.activemq import load_dump

DOCS = Path(__file__).parents[2] / "docs"
#: Where the pages' broker listens.
ADDRESS = "127.0.0.1:61613"
DATABASE = "postgresql://activemq:secret@localhost/activemq"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


def commands(page: str) -> Iterator[tuple[list[str], list[str]]]:
    """Each command of a page, and the lines that it shows."""
    for block in blocks(page, "console"):
        for part in block.split("$ ")[1:]:
            command, *lines = part.splitlines()
            yield shlex.split(command), lines


def follow(page: str, folder: Path, url: str) -> int:
    """Do what a page says. Returns the number of commands.

    Args:
        page: its name.
        folder: where to be.
        url: of the store, instead of the page's.
    """
    broker: BrokerProcess | None = None
    count = 0
    try:
        for command, lines in commands(page):
            assert command.pop(0) == "jdbcstore"
            count += 1
            if command[0] == "broker":
                assert command[1] == "--url"
                broker = BrokerProcess(url, folder)
                broker.start()
                output = broker.log()
                lines = [line.replace(ADDRESS, f"127.0.0.1:{broker.port}") for line in lines]
            else:
                here = {DATABASE: url, ADDRESS: f"127.0.0.1:{broker.port}" if broker else "not started"}
                arguments = [here.get(word, word) for word in command]
                code, output = run_command(arguments, folder)
                # As the page says: an upgrade is due.
                assert code == (command[:2] == ["schema", "status"]), output
            spaced = " ".join(output.split())
            for line in lines:
                assert " ".join(line.split()) in spaced, command
    finally:
        if broker is not None:
            broker.stop()
    return count


def test_the_first_queue(tmp_path: Path) -> None:
    printed = []
    for program in blocks("tutorial-first-queue.md", "python"):
        finished = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=100
        )
        assert finished.returncode == 0, finished.stderr
        printed.append(finished.stdout)
    assert printed == ["committed: a power failure loses neither\n", "7 three apples\n8 two pears\n"]
    assert follow("tutorial-first-queue.md", tmp_path, "sqlite:///orders.db") == 5


def test_taking_over(postgresql_url: str, tmp_path: Path) -> None:
    engine = open_engine(postgresql_url)
    load_dump(engine, "postgresql")
    engine.dispose()
    assert follow("tutorial-takeover.md", tmp_path, postgresql_url) == 11
