"""The documentation: every command of ours that a page shows is one, with the options that it has there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from jdbcstore.cli import cli

CHECKOUT = Path(__file__).parents[2]
PAGES = [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
#: What ends a command within a line.
ENDS = {"|", ";", "&&", ">", "jdbcstore"}


def shown() -> Iterator[tuple[str, list[str]]]:
    """Each command that a page shows, without ``jdbcstore``, and where."""
    for page in [*PAGES, *sorted((CHECKOUT / "docs").glob("*.md"))]:
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            for text in re.findall(r"jdbcstore ([a-z][a-z-]*(?: [^`\n]*)?)", line):
                try:
                    words = shlex.split(text, comments=True)
                except ValueError:  # prose with an apostrophe
                    words = text.split()
                yield f"{page.name}:{number}", words


def what_is_wrong(words: list[str]) -> str | None:
    """What the program would not understand; prose, which begins with no command, is none."""
    command: click.Command = cli
    context = click.Context(cli)
    left = iter(words)
    word = next(left, None)
    while isinstance(command, click.Group) and word is not None and (found := command.get_command(context, word)):
        command, word = found, next(left, None)
    if command is cli:
        return None
    if isinstance(command, click.Group) and word is not None and re.fullmatch("[a-z-]+", word):
        return f"{command.name} has no command {word}"
    known = {"--help"}.union(
        *(one.opts + one.secondary_opts for one in command.params if isinstance(one, click.Option))
    )
    for one in [word, *left]:
        if one is None or one in ENDS:
            break
        option = one.partition("=")[0].rstrip(".,;:)]")
        if option.startswith("--") and option not in known:
            return f"{command.name} has no option {option}"
    return None


def test_every_command_that_a_page_shows_is_one() -> None:
    commands = list(shown())
    assert len(commands) > 200, "they are found"
    wrong = [f"{place}: {said}: {' '.join(words)}" for place, words in commands if (said := what_is_wrong(words))]
    assert not wrong, "\n".join(wrong)


def test_what_is_no_command_and_no_option_is_found() -> None:
    assert what_is_wrong(["lock", "steal", "URL"]) == "lock has no command steal"
    assert what_is_wrong(["broker", "--port", "1"]) == "broker has no option --port"
    assert what_is_wrong(["and", "the", "rest"]) is None
