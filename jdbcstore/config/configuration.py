"""The configuration of a broker process, and how to read one from a TOML file.

::

    [broker]                        # fields of BrokerOptions
    bind = "0.0.0.0:61613"
    prefetch_queue = 100

    [broker.users]                  # login = "passcode", plain or hashed; without users everybody may log in
    admin = "$argon2id$…"

    [broker.groups]                 # group = "logins, with commas between"
    admins = "admin"

    [authorization."queue://ORDERS.>"]  # groups; without such tables who has logged in may do everything
    read = "buyers, admins"
    write = "sellers"
    admin = "admins"

    [authorization.default]         # for every destination, beside its own; there is also [authorization.temporary]
    admin = "admins"

    [tls]                           # fields of TlsOptions, for bind = "stomp+ssl://0.0.0.0:61614"
    certificate = "/etc/jdbcstore/broker.pem"

    [store]
    url = "postgresql://user:password@host/database"
    batch_rows_max = 500            # and the other fields of JdbcOptions
    lease_ms = 10000                # and of LockerOptions

    [kahadb]                        # for store.url = "kahadb:DIRECTORY"
    journal_max_file_length_bytes = 33554432    # and the other fields of KahaDBOptions

    [io_exception_handler]          # ActiveMQ's, see `jdbcstore.config.io_exception_handler`
    type = "leaseLockerIOExceptionHandler"

    [policies."queue://ORDERS.>"]   # fields of DestinationPolicy; [policies.default] is for all without a policy
    prioritized_messages = true

    [policies."queue://ORDERS.>".dead_letter]   # and of DeadLetterStrategy
    kind = "individual"

    [policies."queue://ORDERS.>".redelivery]    # and of RedeliveryPolicy
    maximum_redeliveries = 6

    [virtual_topics."ORDERS.>"]     # also [composites] and [mirrored_queue]: `jdbcstore.config.virtual_destinations`
    prefix = "Consumer.*."

    [log]
    level = "info"                  # debug, info, warning, error
    format = "text"                 # or json
    repeats_max = 60                # lines of one event a minute

An unknown name is an error: a misspelt option that is silently ignored is worse than none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from jdbcstore.broker.destination_policy import (
    DeadLetterStrategy,
    DestinationPolicy,
    RedeliveryPolicy,
    default_policy,
)
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.security.authorization import AuthorizationMap
from jdbcstore.broker.security.login import LoginStack
from jdbcstore.broker.virtual_destinations import VirtualDestinations
from jdbcstore.config.authorization import read_authorization
from jdbcstore.config.io_exception_handler import io_exception_handler
from jdbcstore.config.virtual_destinations import VIRTUAL_TABLES, read_virtual_destinations
from jdbcstore.destination import Queue, Topic, parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.spelling import did_you_mean
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.transport.tls import TlsOptions

__all__ = ["DEFAULT_URL", "Configuration", "LogOptions", "read_configuration"]

#: A SQLite file below the working directory.
DEFAULT_URL: Final = "sqlite:///data/jdbcstore.db"
LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

_TABLES: Final = (
    "broker",
    "tls",
    "store",
    "kahadb",
    "io_exception_handler",
    "policies",
    "authorization",
    "log",
    *VIRTUAL_TABLES,
)

PolicyTable = TypeVar("PolicyTable", DestinationPolicy, DeadLetterStrategy, RedeliveryPolicy)
Options = TypeVar("Options", BrokerOptions, KahaDBOptions, TlsOptions, "LogOptions")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What is logged, and how.

    Args:
        level: the least important kind of line that is written.
        format: ``text`` writes ``key=value`` lines for people, ``json`` one object per line for machines.
        repeats_max: lines of one event that are written in a minute; 0 for all.
    """

    level: str = "info"
    format: str = "text"
    repeats_max: int = 60

    def __post_init__(self) -> None:
        for name, value, known in (("level", self.level, LEVELS), ("format", self.format, FORMATS)):
            if value not in known:
                raise ConfigurationError(f"log.{name} must be one of {', '.join(known)}, got {value!r}")
        if self.repeats_max < 0:
            raise ConfigurationError(f"log.repeats_max must be 0 or more, got {self.repeats_max}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Everything that `jdbcstore.config.build.build_broker` needs.

    Args:
        url: of the store, as `jdbcstore.config.urls.open_store` reads it.
        broker: options of the broker.
        store: options of a SQL store.
        kahadb: options of a KahaDB store; the URL says which of the two is used.
        tls: certificates and keys, for those listeners of ``broker.bind`` that need them.
        log: options of the log.
        notes: what the log is to say about options that were accepted and mean nothing.
        destination_policies: policies for destinations.
        redelivery_policies: how often messages are delivered again.
        login_stack: login modules; the users of `broker` go before them.
        encrypted_login_stack: those for clients that come by TLS, if they are others.
        authorization: who may do what; None lets everybody who has logged in do everything.
        virtual_destinations: what goes to other destinations, too, or instead.
    """

    url: str = DEFAULT_URL
    broker: BrokerOptions = field(default_factory=BrokerOptions)
    store: JdbcOptions = field(default_factory=JdbcOptions)
    kahadb: KahaDBOptions = field(default_factory=KahaDBOptions)
    tls: TlsOptions = field(default_factory=TlsOptions)
    log: LogOptions = field(default_factory=LogOptions)
    notes: tuple[str, ...] = ()
    destination_policies: tuple[DestinationPolicy, ...] = ()
    redelivery_policies: tuple[RedeliveryPolicy, ...] = ()
    login_stack: LoginStack | None = None
    encrypted_login_stack: LoginStack | None = None
    authorization: AuthorizationMap | None = None
    virtual_destinations: VirtualDestinations = field(default_factory=VirtualDestinations)


def read_configuration(path: Path) -> Configuration:
    """Read a TOML file.

    Raises:
        ConfigurationError: it cannot be read, or something in it is wrong; the text says what.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
    try:
        return _configuration(document)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _configuration(document: Mapping[str, Any]) -> Configuration:
    _check_names("table", document, _TABLES)
    for name, table in document.items():
        if not isinstance(table, dict):
            raise ConfigurationError(f"[{name}] must be a table")
    store = dict(document.get("store", {}))
    url = store.pop("url", DEFAULT_URL)
    if not isinstance(url, str):
        raise ConfigurationError("store.url must be a string")
    given = document.get("broker", {})
    broker = _options(BrokerOptions(), "broker", given)
    notes: tuple[str, ...] = ()
    if (handler := document.get("io_exception_handler")) is not None:
        own = broker
        broker, notes = io_exception_handler(own, handler)
        for name in given:
            if getattr(own, name) != getattr(broker, name):
                raise ConfigurationError(
                    f"broker.{name} = {given[name]!r} contradicts [io_exception_handler], which makes it"
                    f" {getattr(broker, name)!r}: leave one of them out"
                )
    policies, redeliveries = _policies(broker, document.get("policies", {}))
    return Configuration(
        url=url,
        broker=broker,
        destination_policies=policies,
        redelivery_policies=redeliveries,
        store=_store_options(store),
        kahadb=_options(KahaDBOptions(), "kahadb", document.get("kahadb", {})),
        tls=_options(TlsOptions(), "tls", document.get("tls", {})),
        log=_options(LogOptions(), "log", document.get("log", {})),
        notes=notes,
        authorization=read_authorization(document["authorization"]) if "authorization" in document else None,
        virtual_destinations=read_virtual_destinations(document),
    )


def _policies(
    broker: BrokerOptions, tables: Mapping[str, Any]
) -> tuple[tuple[DestinationPolicy, ...], tuple[RedeliveryPolicy, ...]]:
    """What a policy leaves out is as in a destination without one."""
    policies: list[DestinationPolicy] = []
    redeliveries: list[RedeliveryPolicy] = []
    for name, table in tables.items():
        where = f'policies."{name}"'
        if not isinstance(table, dict):
            raise ConfigurationError(f"[{where}] must be a table")
        if name != "default" and not name.startswith((Queue.prefix, Topic.prefix)):
            raise ConfigurationError(f'[{where}]: write "queue://…", "topic://…" or "default"')
        pattern = None if name == "default" else parse_destination(name)
        given = {option: value for option, value in table.items() if option not in ("dead_letter", "redelivery")}
        defaults = default_policy(broker)
        strategy = _fields(where + ".dead_letter", DeadLetterStrategy(), table.get("dead_letter", {}))
        policy = _fields(where, defaults, given, hidden=("pattern", "dead_letter_strategy"))
        policies.append(replace(policy, pattern=pattern, dead_letter_strategy=strategy))
        if "redelivery" in table:
            redelivery = _fields(where + ".redelivery", RedeliveryPolicy(), table["redelivery"], hidden=("pattern",))
            redeliveries.append(replace(redelivery, pattern=pattern))
    return tuple(policies), tuple(redeliveries)


def _fields(where: str, defaults: PolicyTable, given: object, hidden: tuple[str, ...] = ()) -> PolicyTable:
    if not isinstance(given, dict):
        raise ConfigurationError(f"[{where}] must be a table")
    known = {option.name: getattr(defaults, option.name) for option in fields(defaults) if option.name not in hidden}
    _check_options(where, known, given)
    return replace(defaults, **given)


def _options(defaults: Options, table: str, given: Mapping[str, Any]) -> Options:
    _check_options(table, {option.name: getattr(defaults, option.name) for option in fields(defaults)}, given)
    return replace(defaults, **given)


def _check_options(table: str, defaults: Mapping[str, object], given: Mapping[str, Any]) -> None:
    _check_names(f"option in [{table}]", given, defaults)
    for name, value in given.items():
        _check_type(f"{table}.{name}", defaults[name], value)


def _store_options(given: Mapping[str, Any]) -> JdbcOptions:
    """Options of the store and, from the same table, of its locker."""
    of_store = {option.name: getattr(JdbcOptions(), option.name) for option in fields(JdbcOptions)}
    del of_store["lock"]
    of_lock = {option.name: getattr(LockerOptions(), option.name) for option in fields(LockerOptions)}
    _check_options("store", of_store | of_lock, given)
    lock = LockerOptions(**{name: value for name, value in given.items() if name in of_lock})
    return JdbcOptions(**{name: value for name, value in given.items() if name in of_store}, lock=lock)


def _check_names(what: str, given: Mapping[str, Any], known: Any) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        hint = did_you_mean(unknown[0], known) or f"; there are {', '.join(known)}"
        raise ConfigurationError(f"unknown {what}: {unknown[0]}{hint}")


def _check_type(name: str, default: object, value: object) -> None:
    if default is None:  # users, groups
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            what = 'login = "passcode"' if name == "broker.users" else 'group = "logins, with commas between"'
            raise ConfigurationError(f"[{name}] must be a table of {what}")
        return
    kind = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, kind) or (isinstance(value, bool) and not isinstance(default, bool)):
        raise ConfigurationError(f"{name} must be {_KINDS[type(default)]}, got {value!r}")


_KINDS: Final[Mapping[type, str]] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
