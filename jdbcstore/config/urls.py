"""Store URLs: ``sqlite:///data/broker.db``, ``postgresql://…``, ``mysql://…``, ``kahadb:data/kahadb``, ``memory:``."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote

from jdbcstore.config.other_stores import is_other_store, open_other_store, other_stores
from jdbcstore.errors import ConfigurationError
from jdbcstore.spelling import did_you_mean
from jdbcstore.store.contract import PersistenceAdapter
from jdbcstore.store.disk import make_directory
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.kahadb.directory_kind import scheme_of
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.mkahadb.options import MKahaDBOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.store.memory import MemoryPersistenceAdapter

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from jdbcstore.store.jdbc.location import StoreLocation

__all__ = [
    "is_journal_url",
    "journal_options",
    "kahadb_options",
    "open_engine",
    "open_spool",
    "open_store",
    "shown_url",
    "store_file",
    "store_location",
    "store_options",
    "store_url",
]

log = logging.getLogger(__name__)

#: Parameters by ActiveMQ's names, which mean ours in the same unit.
_ACTIVEMQ_NAMES: Final = {
    "cleanupPeriod": "cleanup_period_ms",
    "createTablesOnStartup": "create_tables_on_startup",
    "durableSubAcksTableName": "durable_sub_acks_table_name",
    "failIfLocked": "fail_if_locked",
    "leaseHolderId": "lease_holder_id",
    "lockAcquireSleepInterval": "lock_acquire_sleep_interval_ms",
    "lockKeepAlivePeriod": "lock_keep_alive_period_ms",
    "lockTableName": "lock_table_name",
    "maxAllowableDiffFromDBTime": "max_allowable_diff_from_db_time_ms",
    "messageTableName": "message_table_name",
    "queryTimeout": "query_timeout_s",
    "readFrom": "read_from",
    "requireReplication": "require_replication",
    "tablePrefix": "table_prefix",
}
#: Drivers have parameters of their own; what is as like as this to an option of ours is none of them.
_LIKENESS: Final = 0.85
_KAHADB: Final = "kahadb:"
#: Scheme and user; hosts; database; parameters.
_SEVERAL_HOSTS: Final = re.compile(r"([\w+]+://(?:[^/?]*@)?)([^/?@,]+(?:,[^/?@,]+)+)(?:/([^?]*))?(?:\?(.*))?")
#: URLs of journals, and the options of each.
_JOURNALS: Final[dict[str, type[KahaDBOptions]]] = {
    _KAHADB: KahaDBOptions,
    "amq:": AMQOptions,
    "leveldb:": LevelDBOptions,
    "mkahadb:": MKahaDBOptions,
}
_PASSWORD_CHARS_MAX: Final = 4096


def store_url(text: str) -> URL:
    """Read the URL of a SQL store and choose the driver.

    Raises:
        ConfigurationError: it is not one; the text says what would be.
    """
    from sqlalchemy import make_url  # takes longer than the start of a broker on KahaDB, which needs none of it
    from sqlalchemy.exc import ArgumentError

    from jdbcstore.store.jdbc.dialect import database_for_url

    if text.startswith(("memory:", *_JOURNALS)):
        raise ConfigurationError(f"{text!r} is no database, and this is for SQL stores only. {_databases()}")
    if _is_other(text):
        raise ConfigurationError(
            f"{_masked(text)!r} is a store of another package, and only a broker opens it: jdbcstore broker --url URL."
            " This is for the stores of jdbcstore itself; ask the broker of that one"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):  # what Python makes of other bytes
        raise ConfigurationError(f"the URL {_masked(text)!a} is no UTF-8: give the file another name")
    try:
        url = make_url(_with_hosts_apart(text))
    except (ArgumentError, ValueError):
        _refuse_bare_at(text, text.partition("?")[0])
        raise ConfigurationError(f"not a store URL: {_masked(text)!r}{_meant(text)} {_examples()}") from None
    database = database_for_url(url.drivername.partition("+")[0])
    if database is None:
        raise ConfigurationError(f"no store for {url.drivername}{_scheme_meant(url.drivername)} {_examples()}")
    _refuse_bare_at(text, f"@{url.host or ''}")
    if database.is_file and (not url.database or ":memory:" in url.database or "mode=memory" in text):
        raise ConfigurationError(
            f"a store of {database.name} needs a file: {database.example}; for one without a file use memory:"
        )
    if not url.database:
        raise ConfigurationError(f"the URL {url.render_as_string()} names no database. {_examples()}")
    return url.set(drivername=database.driver)


def _refuse_bare_at(text: str, authority: str) -> None:
    """An @ in a password ends it, and what follows would be taken for the host, looked up, and shown in errors.

    Raises:
        ConfigurationError: there is more than one @ in the authority.
    """
    if authority.count("@") > 1:
        raise ConfigurationError(
            f"the URL has more than one @: {_masked(text)!r}. In a user name or password write %40 for @, %3A for :,"
            " %2F for / and %25 for %, or leave the password out and name a password_file"
        )


def _meant(text: str) -> str:
    """The question whether another URL was meant, with a full stop where there is none: for a path that holds a store,
    Java's spelling, a misspelt scheme, and a file without slashes."""
    if os.path.isfile(text):
        return f", did you mean sqlite:///{text}?"
    scheme = scheme_of(Path(text)) if os.path.isdir(text) else None
    if scheme is not None:
        return f", did you mean {scheme}{text}?"
    plain = text.removeprefix("jdbc:")
    scheme, _, file = plain.partition(":")
    if scheme in _file_schemes():
        return f", did you mean {scheme}:///{file}?"
    if plain != text and "://" in plain:
        return f", did you mean {_masked(plain)}?"
    return _scheme_meant(scheme)


def _scheme_meant(scheme: str) -> str:
    """The question whether another scheme was meant; a full stop without one."""
    return did_you_mean(scheme, _schemes()) or "."


def _file_schemes() -> list[str]:
    from jdbcstore.store.jdbc.dialect import databases

    return [database.example.partition(":")[0] for database in databases() if database.is_file]


def _schemes() -> list[str]:
    from jdbcstore.store.jdbc.dialect import databases

    names = [database.example.partition(":")[0] for database in databases()]
    return [*names, *other_stores(), *(scheme.removesuffix(":") for scheme in _JOURNALS), "memory"]


def _with_hosts_apart(text: str) -> str:
    """``//USER:PASSWORD@ONE:3306,TWO:3306/DATABASE`` as SQLAlchemy writes it, ``//USER:PASSWORD@/DATABASE?host=…``."""
    found = _SEVERAL_HOSTS.fullmatch(text)
    if found is None:
        return text
    head, hosts, database, query = found.groups()
    parameters = "&".join([*(f"host={quote(host)}" for host in hosts.split(",")), *([query] if query else [])])
    return f"{head}/{database or ''}?{parameters}"


def _databases() -> str:
    from jdbcstore.store.jdbc.dialect import databases

    return f"Use {', '.join(database.example for database in databases())}"


def _examples() -> str:
    others = "".join(f", {scheme}:…" for scheme in other_stores())
    journals = ", ".join(f"{scheme}DIRECTORY" for scheme in _JOURNALS)
    return f"{_databases()}{others}, {journals} or memory:"


def store_file(url: URL) -> Path | None:
    """The file that the URL of a SQL store names; None if there is a server."""
    from jdbcstore.store.jdbc.dialect import database_for

    return database_for(url.get_backend_name()).file(url)


def shown_url(text: str) -> str:
    """A store URL for people: without its password.

    Raises:
        ConfigurationError: it is not one.
    """
    if text.startswith("memory:") or is_journal_url(text):
        return text
    if _is_other(text):
        return _masked(text)
    url = store_url(text)
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def open_engine(text: str) -> Engine:
    """An engine for tools that look into a store's tables without being its broker.

    Raises:
        ConfigurationError: the URL is none of a SQL store, or its driver is not installed.
    """
    from jdbcstore.store.jdbc.line_watch import engine_for

    url, options = store_options(text)
    return engine_for(url, options)


def store_location(text: str, *, reads_only: bool = False) -> StoreLocation:
    """Where the SQL store of a URL is, for tools that look into its tables.

    Args:
        text: its URL.
        reads_only: whether nothing is written, not even what a killed broker has left to be done.

    Raises:
        ConfigurationError: as `store_options`.
        StoreUnavailable: it cannot be read without being written.
    """
    from jdbcstore.store.jdbc.dialect import url_for_reading
    from jdbcstore.store.jdbc.location import StoreLocation

    url, options = store_options(text)
    return StoreLocation(url_for_reading(url) if reads_only else url, options)


def open_store(
    text: str,
    options: JdbcOptions | KahaDBOptions | None = None,
    *,
    locker: str | None = None,
    must_exist: bool = False,
    reads_only: bool = False,
) -> PersistenceAdapter:
    """The store that a URL names, not started yet.

    Args:
        text: a store URL. The folder of a SQLite file is made when it is missing. ``?table_prefix=…`` and the other
            fields of `JdbcOptions` and of its `LockerOptions` may be given as parameters of the URL, also by ActiveMQ's
            names for them: ``?lockKeepAlivePeriod=3000``. Of a KahaDB directory (``kahadb:DIRECTORY``) those of
            `KahaDBOptions`, by both names: ``?journalMaxFileLength=16mb``.
        options: of a SQL store or of a KahaDB directory, whichever the URL names; parameters of the URL go before.
        locker: `JdbcOptions.locker`, whatever the URL and the options say: ``none`` to look into a store beside its
            broker.
        must_exist: of a SQL store: refuse at the start a database without a store's tables, it may be somebody else's.
        reads_only: of a SQL store: as `store_location`.

    Raises:
        ConfigurationError: the URL is wrong or its driver is not installed, or a directory is another store's.
    """
    if text in ("memory:", "memory://"):
        return MemoryPersistenceAdapter()
    if is_journal_url(text):
        return _open_journal(text, options if isinstance(options, KahaDBOptions) else None, locker)
    if _is_other(text):
        return open_other_store(text)
    from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
    from jdbcstore.store.jdbc.dialect import url_for_reading

    url, jdbc = store_options(text, options if isinstance(options, JdbcOptions) else None)
    if locker is not None:
        jdbc = replace(jdbc, locker=locker)
    if (file := store_file(url)) is not None:
        make_directory(file.parent)
    return JdbcPersistenceAdapter(url_for_reading(url) if reads_only else url, jdbc, must_exist=must_exist)


def _open_journal(text: str, options: KahaDBOptions | None, locker: str | None) -> PersistenceAdapter:
    directory, found = journal_options(text, options)
    if locker == "none":
        found = replace(found, use_lock=False)
    # What it is not is refused before its lock is made.
    if isinstance(found, AMQOptions):
        from jdbcstore.store.journal.amq.adapter import AMQPersistenceAdapter, refuse_what_is_no_amq_store

        refuse_what_is_no_amq_store(directory)
        return AMQPersistenceAdapter(directory, found)
    if isinstance(found, MKahaDBOptions):
        from jdbcstore.store.journal.mkahadb.adapter import MKahaDBPersistenceAdapter
        from jdbcstore.store.journal.mkahadb.directory_kind import refuse_what_is_no_mkahadb_store

        refuse_what_is_no_mkahadb_store(directory)
        return MKahaDBPersistenceAdapter(directory, found)
    if isinstance(found, LevelDBOptions):
        from jdbcstore.store.journal.leveldb.adapter import LevelDBPersistenceAdapter
        from jdbcstore.store.journal.leveldb.directory_kind import refuse_what_is_no_leveldb_store

        refuse_what_is_no_leveldb_store(directory)
        return LevelDBPersistenceAdapter(directory, found)
    from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
    from jdbcstore.store.journal.kahadb.directory_kind import refuse_another_store

    refuse_another_store(directory, ignores_missing=found.ignore_missing_journal_files)
    return KahaDBPersistenceAdapter(directory, found)


def open_spool() -> PersistenceAdapter:
    """A store for what need not survive: a SQLite file of its own, deleted when it stops. Not started yet."""
    from jdbcstore.config.spool import Spool  # a broker on KahaDB needs no SQL until then

    return Spool(Path(tempfile.mkdtemp(prefix="jdbcstore-spool-")))


def is_journal_url(text: str) -> bool:
    """Whether a URL names a directory with a journal, of whatever format."""
    return text.startswith(tuple(_JOURNALS))


def kahadb_options(text: str, options: KahaDBOptions | None = None) -> tuple[Path, KahaDBOptions]:
    """`journal_options` of a KahaDB directory."""
    return journal_options(text, options)


def journal_options(text: str, options: KahaDBOptions | None = None) -> tuple[Path, KahaDBOptions]:
    """Read the URL of a directory with a journal, for example ``kahadb:DIRECTORY?journalMaxFileLength=16mb``.

    What is accepted and means nothing here is logged.

    Args:
        text: the URL.
        options: what the parameters of the URL go before; those of another format do not count.

    Returns:
        The directory, and the options by ActiveMQ's names or by those of the fields: `KahaDBOptions` or a subclass.

    Raises:
        ConfigurationError: no directory, or an option that is unknown, given twice, or cannot be.
    """
    scheme = next(one for one in _JOURNALS if text.startswith(one))
    kind = _JOURNALS[scheme]
    path, _, query = text.removeprefix(scheme).partition("?")
    path = path.removeprefix("//")
    if not path:
        raise ConfigurationError(f"the URL {text!r} names no directory: use {scheme}DIRECTORY")
    given: dict[str, list[tuple[str, str]]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        known = kind.activemq_options().get(name)
        given.setdefault(known.field if known is not None and known.field else name, []).append((name, value))
    of_activemq: dict[str, str] = {}
    ours: dict[str, list[tuple[str, str]]] = {}
    for field, pairs in given.items():
        if len(pairs) > 1:
            raise ConfigurationError(f"the URL gives {' and '.join(spelled for spelled, _ in pairs)}: say it once")
        if pairs[0][0] == field and field in kind.__dataclass_fields__:
            ours[field] = pairs
        else:
            of_activemq.update(pairs)
    found, notes = kind.from_activemq(of_activemq, options if type(options) is kind else None)
    for note in notes:
        log.warning("%s", note)
    return Path(path), replace(found, **_fields_of(found, ours))  # type: ignore[arg-type]  # each is of its field's type


def store_options(text: str, options: JdbcOptions | None = None) -> tuple[URL, JdbcOptions]:
    """Read the URL of a SQL store with the options in it.

    Args:
        text: as for `open_store`.
        options: what the parameters of the URL go before.

    Returns:
        The URL without the parameters that are options of the store; what is left is the driver's. And the options.

    Raises:
        ConfigurationError: the URL or an option in it is wrong, the driver is not installed, or the password_file
            cannot be read.
    """
    url, options = store_url(text), options or JdbcOptions()
    given = _given(url)
    of_store, of_lock = _fields_of(options, given), _fields_of(options.lock, given)
    if of_lock:
        of_store["lock"] = replace(options.lock, **of_lock)  # type: ignore[arg-type]  # each is of its field's type
    if of_store:
        options = replace(options, **of_store)  # type: ignore[arg-type]  # likewise
    known = {*of_store, *of_lock}
    url = url.difference_update_query([name for name in url.query if _ACTIVEMQ_NAMES.get(name, name) in known])
    _refuse_misspelt(url.query)
    _require_driver(url)
    return _with_password(url, options), options


def _refuse_misspelt(left: Iterable[str]) -> None:
    """What is left for the driver must not be like an option of ours: drivers tell nothing of it, or not before they
    connect."""
    names = {*_ACTIVEMQ_NAMES, *JdbcOptions.__dataclass_fields__, *LockerOptions.__dataclass_fields__} - {"lock"}
    without_units = {name.removesuffix("_ms").removesuffix("_s"): name for name in names}
    for name in left:
        meant = without_units.get(name)
        hint = f", did you mean {meant}?" if meant else did_you_mean(name, names, _LIKENESS)
        if hint:
            raise ConfigurationError(f"the URL has the parameter {name}, which is no option{hint}")


def _with_password(url: URL, options: JdbcOptions) -> URL:
    """The URL with the password of `JdbcOptions.password_file`."""
    if not options.password_file:
        return url
    if url.password is not None:
        raise ConfigurationError("the URL has a password and there is a password_file: leave one of them out")
    path = Path(options.password_file)
    try:
        with path.open(encoding="utf-8") as file:
            password = file.readline(_PASSWORD_CHARS_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"cannot read the password in {path}: {reason}") from error
    if not password:
        raise ConfigurationError(f"there is no password in the first line of {path}")
    return url.set(password=password)


def _given(url: URL) -> dict[str, list[tuple[str, str]]]:
    """The parameters of a URL by our names: how each is spelled there, and its value."""
    given: dict[str, list[tuple[str, str]]] = {}
    for spelled, values in url.query.items():
        pairs = [(spelled, value) for value in ((values,) if isinstance(values, str) else values)]
        given.setdefault(_ACTIVEMQ_NAMES.get(spelled, spelled), []).extend(pairs)
    return given


def _fields_of(
    options: JdbcOptions | LockerOptions | KahaDBOptions, given: dict[str, list[tuple[str, str]]]
) -> dict[str, object]:
    """The parameters that are fields of these options, each of its field's type."""
    found: dict[str, object] = {}
    for field in fields(options):
        current = getattr(options, field.name)
        pairs = given.get(field.name, [])
        if pairs and isinstance(current, int | float | str):
            if len(pairs) > 1:
                raise ConfigurationError(f"the URL gives {' and '.join(spelled for spelled, _ in pairs)}: say it once")
            found[field.name] = _typed(*pairs[0], current)
    return found


def _typed(name: str, text: str, current: object) -> object:
    try:
        if isinstance(current, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(current, int):
            return int(text)
        return float(text) if isinstance(current, float) else text
    except (ValueError, KeyError):
        kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(current)]
        raise ConfigurationError(f"option {name} in the URL must be {kind}, got {text!r}") from None


def _require_driver(url: URL) -> None:
    try:
        url.get_dialect().import_dbapi()
    except ImportError as error:
        extra = url.get_backend_name()
        raise ConfigurationError(
            f"the driver is not installed ({error.name}): pip install 'jdbcstore[{extra}]'"
        ) from error


def _is_other(text: str) -> bool:
    """Whether a URL names a store of another package. A scheme of ours goes before theirs, and costs no search."""
    from jdbcstore.store.jdbc.dialect import database_for_url

    return database_for_url(text.partition(":")[0].partition("+")[0]) is None and is_other_store(text)


def _masked(text: str) -> str:
    """A text that may hold a password, as a URL or as a parameter, without it."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    head, at, tail = rest.rpartition("@")
    if "?" in head:  # a password with a question mark, or a parameter with an @
        return f"{scheme}{separator}…"
    place, asked, _ = tail.partition("?")
    return f"{scheme}{separator}{'…' if at else ''}{at}{place}{'?…' if asked else ''}"
