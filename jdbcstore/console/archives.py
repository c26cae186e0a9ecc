"""``jdbcstore export`` and ``jdbcstore import``: messages of a destination as a file, and back.

A file is JSON Lines (`jdbcstore.management.archive`), or with a name that ends in ``.tar``, ``.tar.gz`` or ``.tgz`` an
archive as ActiveMQ's own ``export`` writes it (`jdbcstore.management.activemq_archive`); what ends in ``gz`` is
compressed. Both commands go page by page and remember beside the file, in ``FILE.progress``, how far they are, so that
the same command goes on where it was stopped. A page is a compressed member of its own.

An import is a producer that numbers its portions, so that each is stored once, however often it is sent. Its name is
made of what is in the file, so the store knows again a file that it has, whether or not the first import was finished.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, cast

import click

from jdbcstore.console.face import Face, creating_face_options, reading_face_options
from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.management.activemq_archive import ArchiveWriter, archived_messages
from jdbcstore.management.archive import archived, restored
from jdbcstore.store.disk import make_file

__all__ = ["export", "import_"]

_PAGE: Final = 500
_IMPORT_BYTES: Final = 4 << 20
#: Forms that messages might be wanted in, by how names end; a file of JSON Lines must not be called so.
_OTHER_FORMS: Final = (".xml", ".csv", ".zip", ".bz2", ".xz", ".zst", ".7z", ".tbz2", ".parquet", ".avro", ".sql")
_EXPORT_BEGINS: Final[dict[str, Any]] = {"after": "", "count": 0, "left_out": 0, "records": 0}


@click.command()
@reading_face_options
@click.argument("destination")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--selector", "-s", default="", help="Only what this selector matches.")
@click.pass_context
def export(context: click.Context, face: Face, destination: str, file: Path, selector: str) -> None:
    """Write the messages of DESTINATION to FILE. FILE must not be there yet; nothing is changed.

    FILE is JSON Lines; with a name that ends in .tar, .tar.gz or .tgz it is an archive as `activemq export` writes it,
    of a queue. A name that ends in gz is compressed. Stopped, it goes on with the same command. Messages that cannot
    be read are named, left out, and make it end with code 1.

    \b
    Examples:
        jdbcstore export queue://ORDERS orders.jsonl.gz
        jdbcstore export queue://ORDERS orders.tar.gz
        jdbcstore export queue://ORDERS orders.jsonl --store kahadb:data
    """
    _check_name(file)
    progress = _Progress(file)
    state = progress.read()
    if state is None and file.exists():
        raise ConfigurationError(f"{file} is there already: remove it, or give another name")
    place = parse_destination(destination)
    asked = {"destination": str(place), "selector": selector, "where": _where(context)}
    if state is not None and any(state.get(name, value) != value for name, value in asked.items()):
        raise ConfigurationError(
            f"another export to {file} is not finished, of {state.get('destination')}: finish it with the same command,"
            f" or remove {file.name} and {file.name}.progress"
        )
    if _is_archive(file) and not place.is_queue:
        raise ConfigurationError(f"an archive of ActiveMQ keeps what is in queues, {place} is a topic: use JSON Lines")
    after, count, left_out, records = ((state or {}).get(name, first) for name, first in _EXPORT_BEGINS.items())
    writer = ArchiveWriter(place, records, count) if _is_archive(file) else None
    ask = partial(face.view, "export", destination=destination, selector=selector, count=_PAGE)
    page = ask(after=after) if after is not None else None  # refused for a destination that is not there: then no file
    if state is None:
        _begin(file, progress, {**asked, **_EXPORT_BEGINS, "bytes": 0})
    with _writing(file) as out:
        out.truncate(int((state or {}).get("bytes", 0)))
        out.seek(0, 2)
        while page is not None:
            lines, after = page["lines"], page["after"]
            data = b"".join(map(_shown, lines)) if writer is None else writer.piece(list(map(restored, lines)))
            if writer is not None and after is None:
                data += writer.end()
            out.write(_packed(file, data))
            count += len(lines)
            for number, error in page["unreadable"]:
                click.echo(f"message {number} of {destination} cannot be read and is left out: {error}", err=True)
                left_out += 1
            out.flush()
            os.fsync(out.fileno())  # before anything says that it is there
            if after is not None:
                records = 0 if writer is None else writer.records
                told = {"after": after, "count": count, "left_out": left_out, "records": records}
                progress.write({**asked, **told, "bytes": out.tell()})
            page = ask(after=after) if after is not None else None
    progress.forget()
    click.echo(f"export: {count} messages of {destination} to {file}")
    if left_out:
        raise click.ClickException(f"{left_out} messages of {destination} could not be read and are not in {file}")


def _begin(file: Path, progress: _Progress, state: dict[str, Any]) -> None:
    """Make the file of an export. Stopped in its first portion, it goes on too."""
    os.close(make_file(file))  # for nobody else's eyes
    try:
        progress.write(state)
    except OSError:
        file.unlink()
        raise


@contextmanager
def _writing(file: Path) -> Iterator[BinaryIO]:
    """The open file of an export. What goes wrong with it says the file's name and what to do."""
    try:
        with file.open("r+b") as out:
            yield out
    except OSError as error:
        if error.filename is None and error.strerror is not None:
            error.filename = str(file)
            error.strerror += ". The same command goes on when that is mended"
        raise


def _where(context: click.Context) -> str:
    """What stands for the store or broker of a command, whose URL may have a password in it."""
    where = str(context.params.get("store") or context.params["broker"])
    return hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()


def _check_name(file: Path) -> None:
    """Refuse a name that promises a form in which nothing is written here. Raises ConfigurationError."""
    if not file.parent.is_dir():
        raise ConfigurationError(f"there is no directory {file.parent} for {file.name}: make it, or give another name")
    form = Path(file.name.removesuffix(".gz")).suffix.lower()
    if form in _OTHER_FORMS:
        raise ConfigurationError(
            f"{file}: export does not write {form[1:].upper()}. Give a name that ends in .jsonl (JSON Lines) or .tar"
            " (an archive of ActiveMQ), with .gz behind it to compress it"
        )


def _is_archive(file: Path) -> bool:
    return file.name.endswith((".tar", ".tar.gz", ".tgz"))


def _is_compressed(file: Path) -> bool:
    return file.name.endswith((".gz", ".tgz"))


def _shown(line: Any) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _packed(file: Path, data: bytes) -> bytes:
    return gzip.compress(data, mtime=0) if _is_compressed(file) and data else data


@click.command("import")
@creating_face_options
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--to", "target", default="", metavar="DESTINATION", help="Where to, instead of where they were.")
@click.option("--again", is_flag=True, help="Store them also if this file was imported before.")
@click.option("--dry-run", is_flag=True, help="Read the file, count, and store nothing.")
@click.pass_context
def import_(
    context: click.Context,
    opened: Callable[[], AbstractContextManager[Face]],
    file: Path,
    target: str,
    again: bool,
    dry_run: bool,
) -> None:
    """Store the messages of FILE with the ids that they had: JSON Lines as `export` writes them, or an archive of
    `activemq export` or `activemq backup`.

    Stopped, it goes on with the same command: each portion is stored in one commit, and once, however often it is
    sent. A file that was imported into the store before is refused with code 1, unless --again is given. A store that
    --store names and that is not there is made, as a broker makes it. Of an archive the messages in queues are stored;
    those of durable subscriptions are counted, and stored only with --to.

    \b
    Examples:
        jdbcstore import orders.jsonl.gz
        jdbcstore import activemq.tar.gz --store postgresql://…
        jdbcstore import orders.jsonl --to queue://RESTORED --store sqlite:///data/jdbcstore.db
    """
    source = _Source(file, with_subscriptions=bool(target))
    if dry_run:
        count = sum(map(len, _portions(source, 0)))
    else:
        with opened() as face:
            count = _store(face, file, source, target, _where(context), is_again=again)
    click.echo(f"import: {count} messages of {file}" + (" can be read; nothing was done" if dry_run else " are stored"))
    if source.left_out:
        told = "they were kept for durable subscriptions; --to QUEUE stores them in a queue"
        click.echo(f"import: {source.left_out} messages of {file} are left out: {told}")


def _store(face: Face, file: Path, source: _Source, target: str, where: str, *, is_again: bool) -> int:
    """Store what was not stored before the command was stopped. Returns how many messages that were.

    Raises:
        ClickException: the store has had all of them.
        ConfigurationError: the file cannot be read, or what was begun is another import.
    """
    progress = _Progress(file)
    state = progress.read() or {}
    if state.get("target", target) != target:
        raise ConfigurationError(
            f"an import of {file} with --to {state['target'] or 'nothing'} is not finished: finish it with the same"
            f" command, or remove {file.name}.progress"
        )
    # Elsewhere it begins anew: the same store by another address knows what it has.
    goes_on = bool(state) and state.get("where", where) == where
    done, number = (int(state.get("done", 0)), int(state.get("portion", 0))) if goes_on else (0, 0)
    run = str(state.get("run") or (secrets.token_hex(16) if is_again else _name_of_import(file, target)))
    count = stored = 0

    def remember() -> None:
        told = {"done": done, "run": run, "portion": number, "target": target, "where": where}
        progress.write({**told, "seen": source.seen})

    for portion in _portions(source, done, str(state.get("seen", ""))):
        if not number:
            remember()  # before any of it is stored
        count += len(portion)
        done += len(portion)
        number += 1
        stored += int(face.act("import", lines=portion, target=target, run=run, portion=number)["stored"])
        remember()
    progress.forget()
    if count and not stored and not goes_on:
        raise click.ClickException(
            f"{file} was imported into this store before: all of its {count} messages were stored then, and none was"
            " stored now. If they are wanted once more, because they were consumed since, say, give --again"
        )
    return count


def _name_of_import(file: Path, target: str) -> str:
    """The same for the same messages in the same portions; a new one for what can be read once only, as a pipe.

    Raises:
        ConfigurationError: they cannot be read.
    """
    if not file.is_file():
        return secrets.token_hex(16)
    try:
        with file.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from error
    digest.update(f"\n{target}\n{_PAGE} {_IMPORT_BYTES}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


class _Source:
    """The file of an import.

    Args:
        file: where it is.
        with_subscriptions: whether messages that an archive keeps for durable subscriptions are wanted.

    Attributes:
        left_out: how many of those were not.
        count: how many messages were read.
    """

    def __init__(self, file: Path, *, with_subscriptions: bool) -> None:
        self.left_out = 0
        self.count = 0
        self._file = file
        self._with_subscriptions = with_subscriptions
        self._digest = hashlib.sha256()

    @property
    def seen(self) -> str:
        """What stands for the messages that were read, in their order."""
        return self._digest.hexdigest()

    def replaced(self, done: int) -> ConfigurationError:
        """What is wrong when the first messages, so many, are not those that were stored."""
        return ConfigurationError(
            f"an import of {self._file} was stopped when {done} messages were stored, and the file does not begin with"
            f" these any more: put it back, or remove {self._file.name}.progress to import what is there now"
        )

    def lines(self) -> Iterator[tuple[Any, int]]:
        """Its messages as `archived` gives them, and how large each is. Raises ConfigurationError."""
        read = self._of_archive if _is_archive(self._file) else self._of_lines
        try:
            with gzip.open(self._file) if _is_compressed(self._file) else self._file.open("rb") as source:
                for line, length in read(cast("IO[bytes]", source)):
                    self._digest.update(_shown(line))
                    self.count += 1
                    yield line, length
        except (EOFError, OSError, zlib.error) as error:
            raise ConfigurationError(f"{self._file} cannot be read: {error}") from error

    def _of_lines(self, source: IO[bytes]) -> Iterator[tuple[Any, int]]:
        for number, text in enumerate(source, 1):
            if text.strip():
                try:
                    line = json.loads(text)
                    restored(line)
                except (json.JSONDecodeError, UnicodeDecodeError) as error:
                    raise ConfigurationError(
                        f"{self._file}, line {number} is no JSON ({error}): a file has messages as 'export' writes"
                        " them, one on each line, or is an archive of ActiveMQ"
                    ) from error
                except (ValueError, RecursionError, ConfigurationError) as error:
                    raise ConfigurationError(f"{self._file}, line {number}: {error}") from error
                yield line, len(text)

    def _of_archive(self, source: IO[bytes]) -> Iterator[tuple[Any, int]]:
        try:
            for found in archived_messages(source):
                if found.subscription is not None and not self._with_subscriptions:
                    self.left_out += 1
                else:
                    yield archived(found.message), found.message.size
        except ConfigurationError as error:
            raise ConfigurationError(f"{self._file}: {error}") from error


def _portions(source: _Source, skipped: int, seen: str = "") -> Iterator[list[Any]]:
    """What is stored in one commit each, behind the first so many messages.

    Args:
        source: the file.
        skipped: how many messages are stored already.
        seen: what `_Source.seen` was behind these; empty if nobody knows.

    Raises:
        ConfigurationError: the file cannot be read, or begins with other messages than these.
    """
    portion: list[Any] = []
    size = 0
    for line, length in source.lines():
        if source.count <= skipped:
            if source.count == skipped and seen not in ("", source.seen):
                raise source.replaced(skipped)
            continue
        portion.append(line)
        size += length
        if len(portion) >= _PAGE or size >= _IMPORT_BYTES:
            yield portion
            portion, size = [], 0
    if source.count < skipped:
        raise source.replaced(skipped)
    if portion:
        yield portion


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
