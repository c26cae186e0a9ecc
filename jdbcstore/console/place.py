"""Where a command looks that may ask a running broker, or look into a store, whoever is its master."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from jdbcstore.console.face import CREDENTIALS, RemoteFace, credentials, opened_face, with_broker_options

__all__ = ["Place", "is_web_address", "place_options"]


class Place:
    """A running broker, unless a store is named.

    Args:
        broker: the web address of a broker.
        is_broker_named: whether somebody has given that address as an option.
        who: who asks there, the arguments of `credentials`.
        store: the URL of a store; None if none was given as an option.

    Attributes:
        store: the URL of the store to look into; None to ask the broker.
    """

    def __init__(self, broker: str, who: Mapping[str, Any], store: str | None, *, is_broker_named: bool) -> None:
        if store is not None and is_broker_named:
            raise click.UsageError("two places are given: --broker and --store")
        self.store = store
        self._broker = broker
        self._who = who
        self._is_given = store is not None or is_broker_named

    def named(self, url: str) -> None:
        """Take an argument of the command, the URL of a store or the web address of a broker.

        Raises:
            click.UsageError: another place is given, too.
        """
        if self._is_given:
            raise click.UsageError(f"two places are given: {url} and --{'store' if self.store else 'broker'}")
        if is_web_address(url):
            self._broker = url
        else:
            self.store = url

    def split(self, words: Sequence[str], name: str) -> str:
        """The one argument that may stand behind a URL, which is taken.

        Args:
            words: all arguments.
            name: what the argument is, for people.

        Raises:
            click.UsageError: there are more or fewer, or another place is given, too.
        """
        if len(words) not in (1, 2):
            raise click.UsageError(f"give {name}, or URL {name}; got {len(words)} arguments")
        if len(words) == 2:
            self.named(words[0])
        return words[-1]

    def face(self) -> AbstractContextManager[RemoteFace]:
        """The face of the broker."""
        return opened_face(self._broker, credentials(**self._who))


def is_web_address(text: str) -> bool:
    """Whether an argument is the web address of a broker."""
    return text.startswith(("http://", "https://"))


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that asks a running broker or looks into a store. It gets a `Place` first."""

    @wraps(command)
    def wrapped(broker: str, store: str | None, **given: Any) -> Any:
        who = {name: given.pop(name) for name in CREDENTIALS}
        source = click.get_current_context().get_parameter_source("broker")
        place = Place(broker, who, store, is_broker_named=source is ParameterSource.COMMANDLINE)
        return command(place, **given)

    return click.option("--store", metavar="URL", help="Look into this store; the same as the argument URL.")(
        with_broker_options(wrapped)
    )
