"""Data source beans → the URL of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import URL

from jdbcstore.config.activemq_xml.beans import Bean, Setting, Value, properties_of
from jdbcstore.config.activemq_xml.findings import Place, PlacedError
from jdbcstore.config.activemq_xml.jdbc_url import (
    DEFAULT_PORTS,
    JdbcUrl,
    other_database,
    parameter,
    parse_jdbc_url,
    parse_parameters,
)
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings
from jdbcstore.config.activemq_xml.vocabulary import KINDS, kind_named
from jdbcstore.config.activemq_xml.vocabulary.data_sources import DRIVERS, DRIVERS_OWN
from jdbcstore.config.activemq_xml.vocabulary.entry import integer
from jdbcstore.errors import ConfigurationError

__all__ = ["DataSource", "read_data_source"]

_STORES: Final = "there are stores for PostgreSQL, MySQL, MariaDB and SQLite"
_JNDI: Final = ("org.springframework.jndi.JndiObjectFactoryBean", "org.springframework.jndi.JndiTemplate")


@dataclass(frozen=True, slots=True)
class DataSource:
    """A database and how it is to be asked.

    Args:
        url: of a store.
        pool_max: the most connections; None for no limit.
        answer_timeout_s: how long an answer may take; None if nobody said.
        place: the line that said where the database is.
        source: the property that said it.
    """

    url: URL
    pool_max: Given | None
    answer_timeout_s: Given | None
    place: Place
    source: str


def read_data_source(settings: Settings, value: Value) -> DataSource | None:
    """The database that a data source connects to; None if errors were told.

    Raises:
        PlacedError: it is no data source, or one of a database without a store.
    """
    bean = settings.bean(value)
    _check_class(bean)
    return _Translation(settings).of(bean)


def _check_class(bean: Bean) -> None:
    database = other_database(bean.kind)
    if database is not None:
        raise PlacedError(
            bean.place,
            f"{bean.label}: there is no store for {database}; {_STORES}",
        )
    if bean.kind in _JNDI:
        raise PlacedError(bean.place, f"{bean.label}: there is no JNDI; write the data source as a bean of its class")
    kind = kind_named(bean.kind)
    if kind is None or not kind.is_data_source:
        known = ", ".join(name.rpartition(".")[2] for name in KINDS if KINDS[name].is_data_source)
        raise PlacedError(
            bean.place, f"{bean.label}: {bean.kind} is no data source that is known here; there are {known}"
        )


@dataclass(slots=True)
class _Parts:
    """What the settings of a data source say, before they become a URL."""

    jdbc: JdbcUrl | None = None
    hosts: list[tuple[str, int]] = field(default_factory=list)
    query: dict[str, Given] = field(default_factory=dict)
    wanted: dict[str, Given] = field(default_factory=dict)
    options: dict[str, Given] = field(default_factory=dict)
    #: Parameters of a driver that is not known before the URL is.
    properties: dict[str, Setting] = field(default_factory=dict)


class _Translation:
    """Of one data source."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._findings = settings.findings
        self._errors_before = len(settings.findings.errors)
        self._parts = _Parts()
        self._examined: set[Bean] = set()

    def of(self, bean: Bean) -> DataSource | None:
        backend = self._examine(bean)
        parts = self._parts
        url = parts.options.get("data_source.url")
        if url is not None:
            with self._findings.errors_at(url.place):
                parts.jdbc = parse_jdbc_url(str(url.value))
                backend = parts.jdbc.backend
                self._parameters(backend, parts.jdbc.parameters, url)
        if backend is None or len(self._findings.errors) > self._errors_before:
            if backend is None and url is None:
                self._findings.error(bean.place, f"{bean.label} has no url")
            return None
        self._check_driver(backend)
        self._properties(bean, backend, self._parts.properties)
        extra = parts.options.get("data_source.parameters")
        if extra is not None:
            separator = "&" if bean.kind.startswith("org.mariadb.") else ";"
            self._parameters(backend, parse_parameters(str(extra.value), separator), extra)
        with self._findings.errors_at(bean.place):
            return self._data_source(bean, backend, url)
        return None

    # -- settings ------------------------------------------------------------------------------------------------

    def _examine(self, bean: Bean) -> str | None:
        """Take all settings; returns the backend if the class says which."""
        _check_class(bean)
        if bean in self._examined:
            raise PlacedError(bean.place, f"{bean.label} refers to itself")
        self._examined.add(bean)
        backend = DRIVERS_OWN.get(bean.kind)
        examined = self._settings.examine(bean, may_have_more=backend is not None)
        for argument in bean.arguments:
            if bean.kind.endswith(".HikariDataSource"):
                self._examine(self._settings.bean(argument))
            else:
                self._findings.error(argument.place, f"{bean.label}: arguments of the constructor are not read")
        for option, given in examined.given.items():
            self._take(option, given)
        if backend is not None:
            self._hosts(examined)
            self._properties(bean, backend, examined.unknown)
        return backend or self._nested(examined)

    def _take(self, option: str, given: Given) -> None:
        known = self._parts.options.get(option)
        if known is not None and known.value != given.value:
            what = option.rpartition(".")[2]
            self._findings.error(given.place, f"{given.source}: another {what} was given in line {known.place.line}")
        self._parts.options[option] = given

    def _nested(self, examined: Examined) -> str | None:
        """HikariCP's ways to name another data source."""
        given = examined.open
        if "dataSource" in given:
            return self._examine(self._settings.only_bean(given["dataSource"]))
        properties = self._table(given.get("dataSourceProperties"))
        if "dataSourceClassName" not in given:
            self._parts.properties |= properties
            return None
        name = self._settings.only_text(given["dataSourceClassName"])
        inner = Bean(
            name,
            f"dataSourceClassName {name.rpartition('.')[2]}",
            given["dataSourceClassName"].place,
            examined.bean.end,
            settings=properties,
        )
        return self._examine(inner)

    @staticmethod
    def _table(setting: Setting | None) -> dict[str, Setting]:
        properties = {} if setting is None else properties_of(setting)
        return {name: Setting(name, value.place, (value,)) for name, value in properties.items()}

    def _hosts(self, examined: Examined) -> None:
        names = [self._settings.text(value) for value in _values(examined, "serverNames")]
        ports = [self._settings.text(value) for value in _values(examined, "portNumbers")]
        names = [name.strip() for text in names for name in text.split(",") if name.strip()]
        numbers = [port.strip() for text in ports for port in text.split(",") if port.strip()]
        if numbers and len(numbers) != len(names):
            self._findings.error(examined.bean.place, f"{examined.bean.label} needs as many portNumbers as serverNames")
            return
        for index, name in enumerate(names):
            self._parts.hosts.append((name, integer(numbers[index]) if numbers else DEFAULT_PORTS["postgresql"]))

    def _properties(self, bean: Bean, backend: str, properties: Mapping[str, Setting]) -> None:
        for name, setting in properties.items():
            with self._findings.errors_at(setting.place):
                given = Given("", setting.place, f"{bean.label} {name}")
                self._parameters(backend, ((name, self._settings.only_text(setting)),), given)

    def _parameters(self, backend: str, parameters: Iterable[tuple[str, str]], given: Given) -> None:
        for name, value in parameters:
            found = parameter(backend, name)
            what = f"{given.source}: parameter {name}" if given.value else given.source
            if found is None:
                self._findings.warning(given.place, f"{what} is none of the {backend} driver's, it is not used")
                continue
            entry = found[1]
            with self._findings.errors_at(given.place):
                taken = self._settings.parameter(entry, value, given.place, what)
                if taken is not None:
                    self._accept(entry.option, taken)

    def _accept(self, option: str, given: Given) -> None:
        if option.startswith("data_source."):
            self._take(option, given)
        elif option == "query.*":
            assert isinstance(given.value, Mapping)
            for name, value in given.value.items():
                target = self._parts.wanted if name == "needs" else self._parts.query
                target[value if name == "needs" else name] = Given(value, given.place, given.source)
        elif option.startswith("query."):
            name = option.removeprefix("query.")
            if name == "sslmode" and name in self._parts.query and given.source.endswith(" ssl"):
                return  # ssl=true beside sslmode says nothing more
            self._parts.query[name] = given
        else:
            self._parts.options[option] = given

    # -- the URL -------------------------------------------------------------------------------------------------

    def _check_driver(self, backend: str) -> None:
        driver = self._parts.options.get("data_source.driver")
        if driver is None:
            return
        name = str(driver.value).strip()
        if name in DRIVERS and backend not in DRIVERS[name]:
            self._findings.error(driver.place, f"{driver.source}: {name} does not speak to {backend}")
        elif name not in DRIVERS:
            self._findings.warning(driver.place, f"{driver.source}: {name} is not known; the URL says which database")

    def _data_source(self, bean: Bean, backend: str, url: Given | None) -> DataSource:
        parts, options = self._parts, self._parts.options
        for name, wanted in parts.wanted.items():
            if name not in parts.query:
                raise ConfigurationError(
                    f"{wanted.source} needs serverSslCert=FILE, a PEM file with the certificate to trust"
                )
        user, password = (_text(options.get(f"data_source.{name}")) for name in ("user", "password"))
        query: dict[str, str | Sequence[str]] = {name: str(given.value) for name, given in parts.query.items()}
        hosts, database = self._where(backend)
        if backend == "sqlite":
            target = URL.create("sqlite", database=database)
        else:
            database = database or (user or "" if backend == "postgresql" else "")
            if not database:
                raise ConfigurationError(
                    f"{bean.label} names no database, e.g. jdbc:{backend}://{hosts[0][0]}/activemq"
                )
            host, port = hosts[0] if len(hosts) == 1 else (None, None)
            if len(hosts) > 1 and backend != "postgresql":
                query["host"] = [f"[{name}]:{number}" if ":" in name else f"{name}:{number}" for name, number in hosts]
            elif len(hosts) > 1:
                query["host"] = ",".join(name for name, _ in hosts)
                query["port"] = ",".join(str(number) for _, number in hosts)
                query.setdefault("target_session_attrs", "read-write")
            target = URL.create(backend, user, password, host, port, database, query)
        place, source = (url.place, url.source) if url else (bean.place, bean.label)
        pool_max = options.get("data_source.pool_max")
        return DataSource(
            target,
            pool_max if pool_max is not None and pool_max.value is not None else None,
            options.get("answer_timeout_s"),
            place,
            source,
        )

    def _where(self, backend: str) -> tuple[list[tuple[str, int]], str]:
        """Hosts and database: of the URL, or of the properties."""
        jdbc, options = self._parts.jdbc, self._parts.options
        if jdbc is not None:
            return list(jdbc.hosts), jdbc.database
        server = _text(options.get("data_source.server")) or "localhost"
        port = options.get("data_source.port")
        number = (
            port.value if port is not None and isinstance(port.value, int) and port.value else DEFAULT_PORTS[backend]
        )
        hosts = self._parts.hosts or [(name.strip(), number) for name in server.split(",")]
        return hosts, _text(options.get("data_source.database")) or ""


def _values(examined: Examined, name: str) -> tuple[Value, ...]:
    return examined.open[name].values if name in examined.open else ()


def _text(given: Given | None) -> str | None:
    return None if given is None else str(given.value)
