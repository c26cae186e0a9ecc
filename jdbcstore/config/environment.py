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

import difflib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.tls import TlsOptions
from jdbcstore.config.configuration import Configuration, LogOptions
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.kahadb.options import KahaDBOptions
from jdbcstore.store.lease import LockerOptions

__all__ = ["option_variables", "with_environment"]

_PREFIX: Final = "JDBCSTORE_"
_URL: Final = "JDBCSTORE_URL"
#: Read elsewhere.
_FILE: Final = "JDBCSTORE_CONFIG"


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
    warnings: list[str] = []
    for name, text in environment.items():
        if name in known:
            option, default = known[name]
            try:
                configuration = _changed(configuration, option, _typed(text, default))
            except ConfigurationError as error:
                raise ConfigurationError(f"environment variable {name}: {error}") from error
            used[option] = name
        elif name.startswith(_PREFIX) and name != _FILE:
            close = difflib.get_close_matches(name, known, 1, 0.85)
            meant = f", did you mean {close[0]}?" if close else ""
            warnings.append(f"environment variable {name} is no option{meant}")
    return configuration, used, warnings


def _changed(configuration: Configuration, option: str, value: Any) -> Configuration:
    table, _, name = option.rpartition(".")
    if option == "store.url":
        return replace(configuration, url=value)
    if table == "broker":
        return replace(configuration, broker=replace(configuration.broker, **{name: value}))
    if table == "log":
        return replace(configuration, log=replace(configuration.log, **{name: value}))
    if table == "tls":
        return replace(configuration, tls=replace(configuration.tls, **{name: value}))
    if table == "kahadb":
        return replace(configuration, kahadb=replace(configuration.kahadb, **{name: value}))
    store = configuration.store
    if table == "store.lock":
        return replace(configuration, store=replace(store, lock=replace(store.lock, **{name: value})))
    return replace(configuration, store=replace(store, **{name: value}))


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
