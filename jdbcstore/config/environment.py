"""Options from environment variables: ``JDBCSTORE_`` and the option's name in capitals.

=============================  =============================================================================
``JDBCSTORE_URL``              the store
``JDBCSTORE_PREFETCH_QUEUE``   a field of `BrokerOptions`; ``JDBCSTORE_BIND``, ``JDBCSTORE_HEALTH_BIND`` and so on
``JDBCSTORE_USERS``            ``LOGIN:PASSCODE``, several with blanks between them
``JDBCSTORE_GROUPS``           ``GROUP:LOGIN,LOGIN``, several with blanks between them
``JDBCSTORE_STORE_RETRY_S``    a field of `JdbcOptions` or of its `LockerOptions`
``JDBCSTORE_KAHADB_USE_LOCK``  a field of `KahaDBOptions`
``JDBCSTORE_TLS_CERTIFICATE``  a field of `TlsOptions`
``JDBCSTORE_LOG_LEVEL``        a field of `LogOptions`
``JDBCSTORE_CONFIG``           the configuration file
=============================  =============================================================================

They go before the configuration file; the command line goes before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Final

from jdbcstore.broker.options import BrokerOptions
from jdbcstore.config.configuration import Configuration, LogOptions
from jdbcstore.errors import ConfigurationError
from jdbcstore.spelling import did_you_mean
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.transport.tls import TlsOptions

__all__ = ["option_variables", "with_environment"]

_PREFIX: Final = "JDBCSTORE_"
_URL: Final = "JDBCSTORE_URL"
#: Read elsewhere.
_FILE: Final = "JDBCSTORE_CONFIG"
#: Variables of the commands that talk to a running broker; they may stand in the environment of the broker, too.
_OF_COMMANDS: Final = frozenset(f"JDBCSTORE_{name}" for name in ("BROKER", "LOGIN", "PASSCODE", "TOKEN", "TOKEN_FILE"))


def option_variables() -> dict[str, tuple[str, object]]:
    """Every variable that is an option: its name → the option with its table, and its default."""
    tables: list[tuple[str, str, object]] = [
        ("", "broker", BrokerOptions()),
        ("STORE_", "store", JdbcOptions()),
        ("STORE_", "store.lock", LockerOptions()),
        ("KAHADB_", "kahadb", KahaDBOptions()),
        ("TLS_", "tls", TlsOptions()),
        ("LOG_", "log", LogOptions()),
    ]
    variables: dict[str, tuple[str, object]] = {_URL: ("store.url", "")}
    for prefix, table, defaults in tables:
        for option in fields(defaults):  # type: ignore[arg-type]  # each is a dataclass
            if option.name != "lock":
                name = f"{_PREFIX}{prefix}{option.name.upper()}"
                variables[name] = (f"{table}.{option.name}", getattr(defaults, option.name))
    return variables


def with_environment(
    configuration: Configuration, environment: Mapping[str, str]
) -> tuple[Configuration, dict[str, str], list[str]]:
    """Put what the environment says into a configuration.

    Args:
        configuration: of the file.
        environment: the variables of the process.

    Returns:
        The new configuration; which options were set, with their variables; warnings.

    Raises:
        ConfigurationError: a value is not of its option's type, or the option does not take it.
    """
    known = option_variables()
    used: dict[str, str] = {}
    given: dict[str, dict[str, Any]] = {}
    warnings: list[str] = []
    for name, text in environment.items():
        if name in known:
            option, default = known[name]
            table, _, field = option.rpartition(".")
            try:
                given.setdefault(table, {})[field] = _typed(text, default)
            except ConfigurationError as error:
                raise ConfigurationError(f"environment variable {name}: {error}") from error
            used[option] = name
        elif name.startswith(_PREFIX) and name != _FILE and name not in _OF_COMMANDS:
            warnings.append(f"environment variable {name} is no option{did_you_mean(name, known, 0.85)}")
    return _changed(configuration, given, used), used, warnings


def _changed(
    configuration: Configuration, given: Mapping[str, Mapping[str, Any]], used: Mapping[str, str]
) -> Configuration:
    """All of it at once: whether two options go together must not depend on which one comes first."""
    url = given.get("store", {}).get("url", configuration.url)
    store_options = {name: value for name, value in given.get("store", {}).items() if name != "url"}
    with _told(used, "store.lock"):
        lock = replace(configuration.store.lock, **given.get("store.lock", {}))
    with _told(used, "store"):
        store = replace(configuration.store, **{**store_options, "lock": lock})
    with _told(used, "broker"):
        broker = replace(configuration.broker, **given.get("broker", {}))
    with _told(used, "kahadb"):
        kahadb = replace(configuration.kahadb, **given.get("kahadb", {}))
    with _told(used, "tls"):
        tls = replace(configuration.tls, **given.get("tls", {}))
    with _told(used, "log"):
        log = replace(configuration.log, **given.get("log", {}))
    return replace(configuration, url=url, store=store, broker=broker, tls=tls, kahadb=kahadb, log=log)


@contextmanager
def _told(used: Mapping[str, str], table: str) -> Iterator[None]:
    """Says in errors which variables they may come from: those that the text names, or else all of the table."""
    try:
        yield
    except ConfigurationError as error:
        variables = {option.rpartition(".")[2]: name for option, name in used.items() if option.startswith(f"{table}.")}
        named = [name for field, name in variables.items() if re.search(rf"\b{re.escape(field)}\b", str(error))]
        those = ", ".join(sorted(named or variables.values()))
        if not those:
            raise
        plural = "s" if "," in those else ""
        raise ConfigurationError(f"environment variable{plural} {those}: {error}") from error


def _typed(text: str, default: object) -> object:
    if default is None:
        return dict(map(_user, text.split()))
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ConfigurationError(f"{text!r} is neither true nor false")
        return text.lower() == "true"
    try:
        return int(text) if isinstance(default, int) else float(text) if isinstance(default, float) else text
    except ValueError:
        kind = "whole number" if isinstance(default, int) else "number"
        raise ConfigurationError(f"{text!r} is not a {kind}") from None


def _user(text: str) -> tuple[str, str]:
    login, colon, passcode = text.partition(":")
    if not colon or not login:
        raise ConfigurationError("write NAME:VALUE, LOGIN:PASSCODE for example, several with blanks between them")
    return login, passcode
