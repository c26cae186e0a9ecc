"""The records of a journal as lines, for formats whose records are `jdbcstore.store.journal.commands`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import click

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.identifiers import TransactionId, XATransactionId, xid_text
from jdbcstore.management.described import described
from jdbcstore.store.journal import records
from jdbcstore.store.journal.commands import (
    COMMANDS,
    AddMessage,
    Command,
    RewrittenDataFile,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.records import Location

__all__ = ["dump_lines", "kinds_of", "transaction_text"]

_BODY_CHARACTERS_MAX: Final = 1000


def dump_lines(
    journal: records.AnyJournal,
    files: tuple[int, ...],
    kinds: set[type[Command]],
    wanted: Destination | None,
    bodies: bool,
    as_json: bool,
) -> Iterator[str]:
    """The lines of a dump."""
    for number in journal.files:
        if files and number not in files:
            continue
        with journal.opened(number) as source:
            file = journal.file(source, number)
            for location, command in chain.from_iterable(map(file.records_of, file.batches())):
                if type(command) not in kinds or (wanted is not None and _destination(command) != wanted):
                    continue
                if as_json:
                    yield json.dumps(_record_json(location, command, bodies), ensure_ascii=False)
                else:
                    yield _record_line(location, command, bodies)
            for damage in file.damages:
                yield json.dumps({"damage": damage._asdict()}) if as_json else f"{damage} (damage)"
            if file.damages_unlisted:
                click.echo(f"file {number}: {file.damages_unlisted} more damages are not listed", err=True)


def kinds_of(names: tuple[str, ...]) -> set[type[Command]]:
    """Commands by their names; all of them if none is named. Raises `ConfigurationError`."""
    known = {cls.__name__.lower(): cls for cls in COMMANDS}
    for name in names:
        if name.lower() not in known:
            raise ConfigurationError(f"there is no command {name}; there are {', '.join(c.__name__ for c in COMMANDS)}")
    return {known[name.lower()] for name in names} if names else set(COMMANDS)


def transaction_text(transaction_id: TransactionId) -> str:
    """A transaction as the tools name it: as `jdbcstore transactions` takes it, if it is an XA transaction."""
    return xid_text(transaction_id) if isinstance(transaction_id, XATransactionId) else str(transaction_id)


def _destination(command: Command) -> Destination | None:
    if isinstance(command, UpdateMessage):
        return None if command.message is None else command.message.destination
    found: Destination | None = getattr(command, "destination", None)
    return found


def _record_json(location: Location, command: Command, bodies: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    add = command.message if isinstance(command, UpdateMessage) else command
    for name, value in (add or command)._asdict().items():
        if value is None:
            continue
        if isinstance(value, Destination):
            fields[name] = str(value)
        elif isinstance(value, TransactionId):
            fields[name] = transaction_text(value)
        elif isinstance(value, bytes):
            fields[f"{name}_bytes"] = len(value)
        else:
            fields[name] = value
    found: dict[str, Any] = {**location._asdict(), "command": type(command).__name__, "fields": fields}
    if isinstance(add, AddMessage):
        try:
            message = described(add.unmarshal())
        except CodecError as error:
            found["unreadable"] = str(error)
        else:
            if not bodies:
                del message["body"]
            elif isinstance(message["body"], str) and len(message["body"]) > _BODY_CHARACTERS_MAX:
                message["body"] = message["body"][:_BODY_CHARACTERS_MAX]
                message["bodyCut"] = True
            found["message"] = message
    return found


def _record_line(location: Location, command: Command, bodies: bool) -> str:
    found = _record_json(location, command, bodies)
    told = [f"{location} {found['command']} {location.size} bytes"]
    told += [f"{name}={value}" for name, value in found["fields"].items()]
    if "unreadable" in found:
        told.append(f"unreadable: {found['unreadable']}")
    message = found.get("message")
    if message is not None:
        told.append(f"{message['kind']} of {message['bytes']} bytes, sent {message['sent']}")
        if bodies:
            told.append(f"body={message['body']!r}")
    if isinstance(command, RewrittenDataFile):
        told.append(f"(copies of acknowledgements of db-{command.source}.log follow)")
    elif isinstance(command, Trace) and not command.message:
        told.append("(a remark without text: it forces what stands before it to the disk)")
    return " ".join(told)
