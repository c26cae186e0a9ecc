"""Store URLs: ``sqlite:///data/broker.db``, ``postgresql://…``, ``mysql://…``, ``mariadb://…``, ``memory:``."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.contract import PersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.store.memory import MemoryPersistenceAdapter

__all__ = ["open_engine", "open_store", "store_url"]

_DRIVERS: Final = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg2",
    "postgres": "postgresql+psycopg2",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
_EXAMPLES: Final = "use sqlite:///FILE, postgresql://USER:PASSWORD@HOST/DATABASE, mysql://…, mariadb://… or memory:"


def store_url(text: str) -> URL:
    """Read the URL of a SQL store and choose the driver.

    Raises:
        ConfigurationError: it is not one; the text says what would be.
    """
    try:
        url = make_url(text)
    except ArgumentError:
        raise ConfigurationError(f"not a store URL: {_masked(text)!r}; {_EXAMPLES}") from None
    driver = _DRIVERS.get(url.drivername.partition("+")[0])
    if driver is None:
        raise ConfigurationError(f"no store for {url.drivername}; {_EXAMPLES}")
    if driver == "sqlite" and (not url.database or ":memory:" in url.database or "mode=memory" in text):
        raise ConfigurationError("a store on SQLite needs a file: sqlite:///FILE; for one without a file use memory:")
    if driver != "sqlite" and not url.database:
        raise ConfigurationError(f"the URL {url.render_as_string()} names no database; {_EXAMPLES}")
    return url.set(drivername=driver)


def open_engine(text: str) -> Engine:
    """An engine for tools that look into a store's tables without being its broker.

    Raises:
        ConfigurationError: the URL is none of a SQL store, or its driver is not installed.
    """
    from jdbcstore.store.jdbc.adapter import engine_for

    url, options = _options_of(store_url(text), JdbcOptions())
    _require_driver(url)
    return engine_for(url, options)


def open_store(text: str, options: JdbcOptions | None = None, *, locker: str | None = None) -> PersistenceAdapter:
    """The store that a URL names, not started yet.

    Args:
        text: a store URL. The folder of a SQLite file is made when it is missing. ``?table_prefix=…`` and the other
            fields of `JdbcOptions` and of its `LockerOptions` may be given as parameters of the URL.
        options: options of a SQL store; parameters of the URL go before.
        locker: `JdbcOptions.locker`, whatever the URL and the options say: ``none`` to look into a store beside its
            broker.

    Raises:
        ConfigurationError: the URL is wrong or its driver is not installed.
    """
    if text in ("memory:", "memory://"):
        return MemoryPersistenceAdapter()
    from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter

    url, options = _options_of(store_url(text), options or JdbcOptions())
    if locker is not None:
        options = replace(options, locker=locker)
    _require_driver(url)
    if url.get_backend_name() == "sqlite" and url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    return JdbcPersistenceAdapter(url, options)


def _options_of(url: URL, options: JdbcOptions) -> tuple[URL, JdbcOptions]:
    """Take the parameters of the URL that are options of the store; the rest is the driver's."""
    of_store, of_lock = _given(url, options), _given(url, options.lock)
    if of_lock:
        of_store["lock"] = replace(options.lock, **of_lock)  # type: ignore[arg-type]  # each is of its field's type
    if of_store:
        options = replace(options, **of_store)  # type: ignore[arg-type]  # likewise
    return url.difference_update_query([*of_store, *of_lock]), options


def _given(url: URL, options: JdbcOptions | LockerOptions) -> dict[str, object]:
    """The parameters of the URL that are fields of these options, each of its field's type."""
    current = {field.name: getattr(options, field.name) for field in fields(options)}
    return {
        name: _typed(name, str(url.query[name]), value)
        for name, value in current.items()
        if name in url.query and isinstance(value, int | float | str)
    }


def _typed(name: str, text: str, current: object) -> object:
    try:
        if isinstance(current, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(current, int):
            return int(text)
        return float(text) if isinstance(current, float) else text
    except (ValueError, KeyError):
        raise ConfigurationError(f"option {name} in the URL: {text!r} is not a {type(current).__name__}") from None


def _require_driver(url: URL) -> None:
    try:
        url.get_dialect().import_dbapi()
    except ImportError as error:
        extra = url.get_backend_name()
        raise ConfigurationError(
            f"the driver is not installed ({error.name}): pip install 'jdbcstore[{extra}]'"
        ) from error


def _masked(text: str) -> str:
    """A text that may hold a password, without it."""
    _, at, tail = text.rpartition("@")
    return f"…@{tail}" if at else text
