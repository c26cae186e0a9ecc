"""``jdbcstore user``: users in files that a broker reads."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

import click
from javaproperties import PropertiesFile

from jdbcstore.broker.security.passcodes import hash_passcode, is_hash
from jdbcstore.broker.security.users import groups_by_user, read_property_file
from jdbcstore.console.output import print_json
from jdbcstore.errors import ConfigurationError

__all__ = ["user"]

_ENCODING: Final = "iso-8859-1"

_users_file = click.option(
    "--users-file",
    envvar="JDBCSTORE_USERS_FILE",
    type=click.Path(path_type=Path),
    default=Path("users.properties"),
    show_default=True,
    help="Logins and passcodes, the broker's users_file.",
)
_groups_file = click.option(
    "--groups-file",
    envvar="JDBCSTORE_GROUPS_FILE",
    type=click.Path(path_type=Path),
    help="Groups and their logins, the broker's groups_file.",
)
_passcode_file = click.option(
    "--passcode-file", type=click.File("r"), help="Where the passcode is, in the first line; - is standard input."
)


@click.group()
def user() -> None:
    """Add, remove and list users of a broker.

    They are in Java property files, as ActiveMQ's users.properties and groups.properties; passcodes are hashed by
    Argon2id. A running broker reads changed files again within some two seconds. A passcode is asked for, or read from
    standard input or a file; it is never an argument, which others could see.

    \b
    Examples:
        jdbcstore user add alice --users-file users.properties --groups-file groups.properties --group admins
        jdbcstore user list --users-file users.properties --groups-file groups.properties
        JDBCSTORE_USERS_FILE=users.properties jdbcstore broker
    """


@user.command()
@click.argument("login")
@click.option("--group", "groups", multiple=True, help="A group of the user; may be repeated.")
@_users_file
@_groups_file
@_passcode_file
def add(
    login: str, groups: tuple[str, ...], users_file: Path, groups_file: Path | None, passcode_file: TextIO | None
) -> None:
    """Add LOGIN, or give it a new passcode. Groups are added to those that it has."""
    _check_name("login", login)
    for group in groups:
        _check_name("group", group)
    if groups and groups_file is None:
        raise ConfigurationError("--group needs --groups-file: where the groups are")
    hashed = hash_passcode(_passcode(login, passcode_file))
    if groups_file is not None and groups:
        with _changing(groups_file) as properties:
            for group in groups:
                logins = _logins(properties, group)
                properties[group] = ",".join(dict.fromkeys((*logins, login)))
    with _changing(users_file) as properties:
        is_new = login not in properties
        properties[login] = hashed
    click.echo(f"{login} is {'added' if is_new else 'changed'} in {users_file}")


@user.command()
@click.argument("login")
@_users_file
@_groups_file
def remove(login: str, users_file: Path, groups_file: Path | None) -> None:
    """Remove LOGIN. Clients that are connected as this user are disconnected."""
    if login not in read_property_file(users_file):
        raise ConfigurationError(f"{users_file} has no user {login}")
    with _changing(users_file) as properties:
        properties.pop(login, None)
    if groups_file is not None and groups_file.exists():
        with _changing(groups_file) as properties:
            for group in list(properties):
                logins = _logins(properties, group)
                if login in logins:
                    properties[group] = ",".join(other for other in logins if other != login)
    click.echo(f"{login} is removed from {users_file}")


@user.command("list")
@_users_file
@_groups_file
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_users(users_file: Path, groups_file: Path | None, as_json: bool) -> None:
    """Show who is there, with groups and how the passcode is kept."""
    known = read_property_file(users_file)
    groups = {} if groups_file is None else groups_by_user(read_property_file(groups_file))
    rows = [(login, sorted(groups.get(login, ())), _kind(stored)) for login, stored in sorted(known.items())]
    if as_json:
        print_json({"users": [{"login": login, "groups": names, "passcode": kind} for login, names, kind in rows]})
        return
    for login, names, kind in rows:
        click.echo(f"{login}\t{','.join(names) or '-'}\t{kind}")


@user.command("hash")
@_passcode_file
def hash_one(passcode_file: TextIO | None) -> None:
    """Print the hash of a passcode, for [broker.users] of a configuration file."""
    click.echo(hash_passcode(_passcode("the user", passcode_file)))


def _kind(stored: str) -> str:
    if is_hash(stored):
        return "hashed"
    return "encrypted" if stored.startswith("ENC(") else "plain"


def _check_name(what: str, name: str) -> None:
    if not name.strip() or name != name.strip() or "," in name or not name.isprintable():
        raise ConfigurationError(f"{name!r} cannot be a {what}: no commas, no blanks around it, nothing invisible")


def _passcode(login: str, file: TextIO | None) -> str:
    if file is not None:
        line = file.readline()
    elif sys.stdin.isatty():
        line = str(click.prompt(f"Passcode of {login}", hide_input=True, confirmation_prompt=True))
    else:
        line = sys.stdin.readline()
    passcode = line.rstrip("\r\n")
    if not passcode:
        raise ConfigurationError("the passcode is empty")
    return passcode


def _logins(properties: PropertiesFile, group: str) -> list[str]:
    return [login.strip() for login in properties.get(group, "").split(",") if login.strip()]


@contextmanager
def _changing(path: Path) -> Iterator[PropertiesFile]:
    """A property file to be changed; comments stay. It is replaced in one step, so nobody reads half of it, and keeps
    its owner and mode; a new one is for its owner alone."""
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two of us would lose what the first one wrote
        properties = PropertiesFile.loads(path.read_text(_ENCODING) if path.exists() else "")
        yield properties
        _replace(path, properties.dumps())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot change {path}: {error}") from error
    finally:
        os.close(folder)


def _replace(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    new = Path(name)
    try:
        with open(descriptor, "w", encoding=_ENCODING) as file:
            if path.exists():
                status = path.stat()
                os.fchmod(descriptor, status.st_mode & 0o777)
                os.fchown(descriptor, status.st_uid, status.st_gid)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
