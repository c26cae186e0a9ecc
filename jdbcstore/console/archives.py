"""``jdbcstore export`` and ``jdbcstore import``: messages of a destination as a file, and back.

A file is JSON Lines (`jdbcstore.management.archive`); with a name that ends in ``.gz`` it is compressed. Both commands
go page by page and remember beside the file, in ``FILE.progress``, how far they are, so that the same command goes on
where it was stopped. A page is a compressed member of its own.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from jdbcstore.console.face import Face, face_options
from jdbcstore.errors import ConfigurationError, JdbcStoreError
from jdbcstore.management.archive import restored
from jdbcstore.store.disk import make_file

__all__ = ["export", "import_"]

_PAGE: Final = 500
_IMPORT_BYTES: Final = 4 << 20
_EXPORT_BEGINS: Final[dict[str, Any]] = {"after": "", "count": 0, "left_out": 0}


@click.command()
@face_options
@click.argument("destination")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--selector", "-s", default="", help="Only what this selector matches.")
def export(face: Face, destination: str, file: Path, selector: str) -> None:
    """Write the messages of DESTINATION to FILE as JSON Lines. FILE must not be there yet; nothing is changed.

    Stopped, it goes on with the same command. A name that ends in .gz is compressed. Messages that cannot be read are
    named, left out, and make it end with code 1.

    \b
    Examples:
        jdbcstore export queue://ORDERS orders.jsonl.gz
        jdbcstore export queue://ORDERS orders.jsonl --store kahadb:data
    """
    progress = _Progress(file)
    state = progress.read()
    if state is None and file.exists():
        raise ConfigurationError(f"{file} is there already: remove it, or give another name")
    after, count, left_out = ((state or {}).get(name, first) for name, first in _EXPORT_BEGINS.items())
    if state is None:
        os.close(make_file(file))  # for nobody else's eyes
    with file.open("r+b") as out:
        out.truncate(int((state or {}).get("bytes", 0)))
        out.seek(0, 2)
        while after is not None:
            page = face.view("export", destination=destination, selector=selector, after=after, count=_PAGE)
            out.write(_packed(file, b"".join(map(_shown, page["lines"]))))
            after, count = page["after"], count + len(page["lines"])
            for number, error in page["unreadable"]:
                click.echo(f"message {number} of {destination} cannot be read and is left out: {error}", err=True)
                left_out += 1
            out.flush()
            os.fsync(out.fileno())  # before anything says that it is there
            if after is not None:
                progress.write({"after": after, "count": count, "left_out": left_out, "bytes": out.tell()})
    progress.forget()
    click.echo(f"export: {count} messages of {destination} to {file}")
    if left_out:
        raise click.ClickException(f"{left_out} messages of {destination} could not be read and are not in {file}")


def _shown(line: Any) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _packed(file: Path, data: bytes) -> bytes:
    return gzip.compress(data, mtime=0) if file.name.endswith(".gz") and data else data


@click.command("import")
@face_options
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--to", "target", default="", metavar="DESTINATION", help="Where to, instead of where they were.")
@click.option("--dry-run", is_flag=True, help="Read the file, count, and store nothing.")
def import_(face: Face, file: Path, target: str, dry_run: bool) -> None:
    """Store the messages of FILE, JSON Lines as `export` writes them, with the ids that they had.

    Stopped, it goes on with the same command: each portion is stored in one commit, and is counted after it. Should the
    line break in between, it is looked whether the last portion is there.

    \b
    Examples:
        jdbcstore import orders.jsonl.gz
        jdbcstore import orders.jsonl --to queue://RESTORED --store sqlite:///data/jdbcstore.db
    """
    progress = _Progress(file)
    state = {} if dry_run else progress.read() or {}
    done, count = int(state.get("done", 0)), 0
    is_doubtful = bool(state.get("is_under_way"))
    for portion in _portions(file, done):
        count += len(portion)
        if dry_run:
            continue
        if not (is_doubtful and _is_there(face, portion, target)):
            progress.write({"done": done, "is_under_way": True})
            face.act("import", lines=portion, target=target)
        is_doubtful = False
        done += len(portion)
        progress.write({"done": done})
    if not dry_run:
        progress.forget()
    click.echo(f"import: {count} messages of {file}" + (" can be read; nothing was done" if dry_run else " are stored"))


def _is_there(face: Face, portion: Sequence[Any], target: str) -> bool:
    """Whether all of a portion is stored. If some of it is consumed already it is stored again: twice is not lost."""
    return all(_is_stored(face, line, target) for line in portion)


def _is_stored(face: Face, line: Any, target: str) -> bool:
    place, name = target or line["message"]["destination"], line["message"].get("message_id")
    if not name:
        return False
    try:
        return face.view("message", destination=place, message_id=name)["message"] is not None
    except JdbcStoreError:
        return False  # not even the destination is there


def _portions(file: Path, skipped: int) -> Iterator[list[Any]]:
    """What is stored in one commit each, behind the first so many messages."""
    portion: list[Any] = []
    size = 0
    for number, (line, length) in enumerate(_lines(file)):
        if number < skipped:
            continue
        portion.append(line)
        size += length
        if len(portion) >= _PAGE or size >= _IMPORT_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _lines(file: Path) -> Iterator[tuple[Any, int]]:
    """The messages of a file as `archived` gives them, and how much each is. Raises ConfigurationError."""
    with gzip.open(file) if file.name.endswith(".gz") else file.open("rb") as source:
        for number, text in enumerate(source, 1):
            if text.strip():
                try:
                    line = json.loads(text)
                    restored(line)
                except (ValueError, RecursionError, ConfigurationError) as error:
                    raise ConfigurationError(f"{file}, line {number}: {error}") from error
                yield line, len(text)


class _Progress:
    """How far a command is with a file, beside that file."""

    def __init__(self, file: Path) -> None:
        self._path = file.with_name(file.name + ".progress")

    def read(self) -> dict[str, Any] | None:
        """What was written last; None if nothing was."""
        try:
            state = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ConfigurationError(f"{self._path} cannot be read: {error}; remove it to begin anew") from error
        if not isinstance(state, dict):
            raise ConfigurationError(f"{self._path} cannot be read; remove it to begin anew")
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Remember how far it is, in one step."""
        beside = self._path.with_name(self._path.name + ".new")
        beside.write_text(json.dumps(state), "utf-8")
        beside.replace(self._path)

    def forget(self) -> None:
        """It is done."""
        self._path.unlink(missing_ok=True)
