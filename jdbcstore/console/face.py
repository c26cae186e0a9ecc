"""The management face for commands: of a running broker over HTTP, or of a store that no broker is master of.

For a store the command is its broker for a moment, without listening to anybody: it takes the lock, so nobody else is
master meanwhile, and does the same work by the same code.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, Protocol, TextIO
from urllib.parse import urlencode, urlsplit

import click

from jdbcstore import errors
from jdbcstore.broker.broker import Broker
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.runner import BrokerThread
from jdbcstore.config.inspection import existing_store, view_of
from jdbcstore.config.urls import open_spool, open_store
from jdbcstore.console.passcode import PASSCODE_OPTIONS, given_passcode
from jdbcstore.errors import ConfigurationError, JdbcStoreError, LockHeld
from jdbcstore.management.calls import ACTIONS, VIEWS
from jdbcstore.management.desk import Desk
from jdbcstore.management.management import Management
from jdbcstore.management.values import Arguments, as_json
from jdbcstore.store.contract import PersistenceAdapter

__all__ = [
    "CREDENTIALS",
    "TOKEN_OPTIONS",
    "Face",
    "RemoteFace",
    "creating_face_options",
    "credentials",
    "face_options",
    "finish",
    "opened_face",
    "reading_face_options",
    "running_broker_options",
    "with_broker_options",
]

_DEFAULT: Final = "http://127.0.0.1:8161"
_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.2
#: How long to go on asking a store that cannot be reached: somebody is waiting, and sees nothing.
_START_TIMEOUT_S: Final = 3.0


class Face(Protocol):
    """What commands ask."""

    def view(self, name: str, /, **arguments: Any) -> Any:
        """What a view of `jdbcstore.management.calls` returns, as JSON has it."""

    def act(self, name: str, /, **arguments: Any) -> Any:
        """What an action returns. Raises as the face does."""


class RemoteFace:
    """Of a running broker.

    Args:
        url: where its ``web_bind`` is reached.
        headers: who asks.
        tls: whom to trust, and who we are, with https; None for the system's authorities.
    """

    def __init__(self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"--broker has to be http://HOST:PORT, got {url}")
        if tls is not None and parts.scheme != "https":
            raise ConfigurationError(f"{url} is without TLS: give https://HOST:PORT, or leave --tls… out")
        self._url = url
        self._headers = dict(headers)
        self._open: Callable[[], http.client.HTTPConnection] = (
            partial(http.client.HTTPSConnection, parts.hostname, parts.port, timeout=_TIMEOUT_S, context=tls)
            if parts.scheme == "https"
            else partial(http.client.HTTPConnection, parts.hostname, parts.port, timeout=_TIMEOUT_S)
        )
        self._prefix = parts.path.rstrip("/")
        self._connection: http.client.HTTPConnection | None = None

    def view(self, name: str, /, **arguments: Any) -> Any:
        given = {key: _in_query(value) for key, value in arguments.items() if value is not None}
        return self._ask("GET", f"/api/v1/{name}?{urlencode(given)}", None)

    def act(self, name: str, /, **arguments: Any) -> Any:
        return self._ask("POST", f"/api/v1/{name}", json.dumps(arguments))

    def _ask(self, method: str, path: str, body: str | None) -> Any:
        headers = {**self._headers, "Content-Type": "application/json"}
        data = None if body is None else body.encode("utf-8", "surrogatepass")
        try:
            if self._connection is None:
                self._connection = self._open()
            self._connection.request(method, self._prefix + path, data, headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if type(error) is http.client.BadStatusLine:  # none that is derived from it: those are lost connections
                raise JdbcStoreError(
                    f"{self._url} does not speak HTTP: give the web address of the broker (--web-bind), not where its"
                    " clients connect"
                ) from error
            raise JdbcStoreError(
                f"no broker answers at {self._url} ({error}): start one with --web-bind, name another with --broker, or"
                " the store with --store if no broker runs on it"
            ) from error
        if answer.will_close:
            self.close()
        try:
            value = json.loads(text)
        except ValueError:
            raise JdbcStoreError(f"{self._url} answers with {answer.status}, and no JSON: is it a broker?") from None
        if answer.status >= 400:
            raise _error_of(value, answer.status)
        return value

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _in_query(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _error_of(value: Any, status: int) -> JdbcStoreError:
    """The error that the broker has raised."""
    if not isinstance(value, dict):
        return JdbcStoreError(f"the broker answers with {status}")
    kind = getattr(errors, str(value.get("kind")), JdbcStoreError)
    text = str(value.get("error"))
    if status == 401:
        text += ": give --token, --token-file or --login"
    if kind in (errors.SelectorError, errors.CodecError) or not (
        isinstance(kind, type) and issubclass(kind, JdbcStoreError)
    ):
        kind = ConfigurationError if status == 400 else JdbcStoreError
    error: JdbcStoreError = kind(text)
    return error


class _LocalFace:
    """Of a broker of our own."""

    def __init__(self, broker: Broker, face: Management) -> None:
        self._broker = broker
        self._face = face

    def view(self, name: str, /, **arguments: Any) -> Any:
        async def seen() -> Any:
            await self._face.look()
            return as_json(await VIEWS[name](self._face, Arguments(arguments)))

        return self._call(seen)

    def act(self, name: str, /, **arguments: Any) -> Any:
        async def done() -> Any:
            return as_json(await ACTIONS[name](self._face, Arguments(arguments)))

        return self._call(done)

    def _call(self, work: Callable[[], Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work(), self._broker.loop).result()


@contextmanager
def _local(store: PersistenceAdapter) -> Iterator[Face]:
    quiet = DestinationPolicy(expire_messages_period_ms=0)  # nothing is done but what is asked for
    options = BrokerOptions(
        broker_name=f"jdbcstore-command-{os.getpid()}", scheduler_support=False, start_timeout_s=_START_TIMEOUT_S
    )
    broker = Broker(store, options, open_spool, [quiet])
    desk = Desk(broker)
    broker.companions.append(desk)
    broker.intake.is_on = False  # it would know nothing of the delays and policies that the real broker has
    with ExitStack() as stack:
        try:
            stack.enter_context(BrokerThread(broker, 0.0))
        except LockHeld as error:
            who = str(error).partition(": ")[0]  # what comes behind it is for programs
            raise LockHeld(f"{who}: ask it (--broker http://HOST:PORT, its web_bind), or stop it first") from None
        yield _LocalFace(broker, Management(desk))


@contextmanager
def opened_face(broker: str, headers: Mapping[str, str], tls: ssl.SSLContext | None = None) -> Iterator[RemoteFace]:
    """The face of a running broker, whose connection is closed behind it. Arguments as `RemoteFace`."""
    remote = RemoteFace(broker, headers, tls)
    try:
        yield remote
    finally:
        remote.close()


def credentials(
    token: str | None,
    token_file: Path | None,
    login: str | None = None,
    passcode: str | None = None,
    passcode_file: TextIO | None = None,
) -> Mapping[str, str]:
    """The headers that say who asks, by what was given as options."""
    if token_file is not None:
        token = token_file.read_text("utf-8").strip()
    if token is not None:
        return {"Authorization": f"Bearer {token}"}
    if login is not None:
        from base64 import b64encode

        shown = b64encode(f"{login}:{given_passcode(login, passcode, passcode_file)}".encode()).decode()
        return {"Authorization": f"Basic {shown}"}
    return {}


def face_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options by which a command finds its broker or store. The command gets the face of it first."""
    about = "Work on this store instead, while no broker is master of it (else exit code 3)."
    return click.option("--store", metavar="URL", help=about)(_broker_options(command, existing_store))


def creating_face_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a command for which a store is made, if there is none. It gets what opens the face."""
    about = "Work on this store instead, while no broker is master of it (else exit code 3); it is made if need be."
    return click.option("--store", metavar="URL", help=about)(_opening_options(command, open_store))


def reading_face_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a command that only reads: it looks into a store also beside its master, and leaves it as it is."""
    about = "Look into this store instead, also while a broker runs on it."
    return click.option("--store", metavar="URL", help=about)(_broker_options(command, view_of))


def running_broker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a command that means something to a running broker alone: what it does ends with the broker."""

    def refused(context: click.Context, option: click.Parameter, store: str | None) -> None:
        if store is not None:
            raise click.UsageError(
                f"{context.info_name} is about a running broker, and what it does ends with it: give --broker", context
            )

    return click.option("--store", hidden=True, callback=refused)(_broker_options(command, existing_store))


def _broker_options(command: Callable[..., Any], store_of: Callable[[str], PersistenceAdapter]) -> Callable[..., Any]:
    @wraps(command)
    def wrapped(opened: Callable[[], AbstractContextManager[Face]], **given: Any) -> Any:
        with opened() as face:
            return command(face, **given)

    return _opening_options(wrapped, store_of)


def _opening_options(command: Callable[..., Any], store_of: Callable[[str], PersistenceAdapter]) -> Callable[..., Any]:
    @wraps(command)
    def wrapped(broker: str, store: str | None, **given: Any) -> Any:
        who = {name: given.pop(name) for name in CREDENTIALS}

        def opened() -> AbstractContextManager[Face]:
            return opened_face(broker, credentials(**who)) if store is None else _local(store_of(store))

        return command(opened, **given)

    return with_broker_options(wrapped)


#: What options say who asks: the arguments of `credentials`.
CREDENTIALS: Final = ("token", "token_file", "login", "passcode", "passcode_file")
TOKEN_OPTIONS: Final[tuple[Callable[[Callable[..., Any]], Callable[..., Any]], ...]] = (
    click.option("--token", envvar="JDBCSTORE_TOKEN", help="The broker's token; better by file or environment."),
    click.option(
        "--token-file",
        envvar="JDBCSTORE_TOKEN_FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="A file with the broker's token.",
    ),
)


def with_broker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which broker, and who asks."""
    address: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
        "--broker",
        envvar="JDBCSTORE_BROKER",
        metavar="URL",
        default=_DEFAULT,
        show_default=True,
        help="The web address of a running broker.",
    )
    decorated: Callable[..., Any] = command
    for option in reversed((address, *TOKEN_OPTIONS, *PASSCODE_OPTIONS)):
        decorated = option(decorated)
    return decorated


def finish(face: Face, operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Wait for the end of an operation, with progress on a terminal; Ctrl-C cancels it.

    Raises:
        JdbcStoreError: it failed.
    """
    name = operation["operation_id"]
    shows = sys.stderr.isatty()
    try:
        while operation["state"] == "running":
            time.sleep(_POLL_S)
            operation = face.view("operation", operation_id=name)
            if shows:
                click.echo(f"\r{operation['done']} done, {operation['looked']} looked at ", err=True, nl=False)
    except KeyboardInterrupt:
        operation = face.act("cancel", operation_id=name)
        while operation["state"] == "running":
            time.sleep(_POLL_S)
            operation = face.view("operation", operation_id=name)
    if shows:
        click.echo("\r\033[K", err=True, nl=False)
    if operation["state"] == "failed":
        raise JdbcStoreError(f"{operation['action']} failed behind {operation['done']} messages: {operation['error']}")
    return operation
