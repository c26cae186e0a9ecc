"""``<persistenceAdapter>``: which store, and its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlencode

from sqlalchemy import URL

from jdbcstore.config.activemq_xml.beans import Bean, Setting
from jdbcstore.config.activemq_xml.data_source import DataSource, read_data_source
from jdbcstore.config.activemq_xml.findings import PlacedError
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings
from jdbcstore.config.activemq_xml.vocabulary.entry import boolean, integer
from jdbcstore.config.activemq_xml.vocabulary.stores import ADAPTERS, LOCKERS, STORES
from jdbcstore.config.urls import journal_options
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.kahadb.options import ACTIVEMQ_OPTIONS, KahaDBOptions
from jdbcstore.store.lease import LockerOptions

__all__ = ["read_store"]

#: ActiveMQ's name of a locker → ours.
_OUR_LOCKERS: Final = {"database-locker": "database", "lease-database-locker": "lease"}
#: Where ActiveMQ keeps its journal when nobody says.
_KAHADB_DIRECTORY: Final = "KahaDB"
#: URLs of older stores, and where ActiveMQ keeps them when nobody says; it depends on the broker where it is empty.
_OLDER: Final = {"amq": "", "leveldb": "LevelDB"}
#: What a lease of ActiveMQ lasts when nobody says: the default of ``lockAcquireSleepInterval``.
_LEASE_MS: Final = 10_000
#: The writer's and the locker's connections are not of the pool, which may open as many again as it has.
_CONNECTIONS_BESIDE: Final = 2


def read_store(settings: Settings, options: Options, setting: Setting, *, is_url_given: bool = False) -> None:
    """Read ``<persistenceAdapter>`` into the URL and the options of the store.

    Args:
        settings: the configuration.
        options: takes the values.
        setting: the element.
        is_url_given: whether somebody else says where the store is, so that it matters less what the file says.

    Raises:
        PlacedError: it holds no store that is known.
    """
    if len(setting.values) != 1:
        raise PlacedError(setting.place, f"<{setting.name}> holds one store, not {len(setting.values)}")
    bean = settings.only_bean(setting)
    examined = settings.examine(bean, STORES, may_be_refused=is_url_given)
    if examined.kind.name == "jdbcPersistenceAdapter":
        _JdbcStore(settings, options, examined, is_url_given=is_url_given).read()
    elif examined.kind.name == "kahaDB":
        _read_kahadb(settings, options, examined, is_url_given=is_url_given)
    elif examined.kind.name == "amqPersistenceAdapter":
        _read_older(settings, options, examined, "amq", is_url_given=is_url_given)
    elif examined.kind.name == "levelDB":
        _read_older(settings, options, examined, "leveldb", is_url_given=is_url_given)
    elif examined.kind.name == "mKahaDB":
        _read_several(settings, options, examined, is_url_given=is_url_given)
    elif examined.kind.name == "memoryPersistenceAdapter":
        options.url = "memory:"
        settings.findings.use("store.url", options.url, bean.place, bean.label)
    else:
        if examined.kind.name == "replicatedLevelDB":  # the database that is there instead has replicas, too
            options.take_all(examined.given)
        _examine_inside(settings, examined, set())


def _read_kahadb(settings: Settings, options: Options, examined: Examined, *, is_url_given: bool) -> None:
    bean = examined.bean
    options.take_all(examined.given)
    place, directory = bean.place, _KAHADB_DIRECTORY
    if "directory" in examined.open:
        place, directory = examined.open["directory"].place, settings.only_text(examined.open["directory"])
        if not directory:
            raise PlacedError(place, f"{bean.label} directory is empty: name the directory of the journal")
    if not is_url_given:
        options.url = f"kahadb:{directory}"
        settings.findings.use("store.url", options.url, place, f"{bean.label} directory")
    options.take_all(_of_file_locker(settings, examined, "KahaDB"))
    if options.value("kahadb.use_lock") is False:
        settings.findings.warning(
            bean.place, f"{bean.label} useLock: nobody looks whether another broker uses the same directory"
        )


def _read_several(settings: Settings, options: Options, examined: Examined, *, is_url_given: bool) -> None:
    """Several KahaDB: their filters and options go into the URL. Options without a filter are those of the one that
    takes what no filter takes, or of the first."""
    bean, query = examined.bean, _in_url(examined.given)
    of_filters: dict[str, dict[str, str]] = {}
    of_others: dict[str, str] | None = None
    listed = examined.open.get("filteredPersistenceAdapters")
    for value in listed.values if listed is not None else ():
        one = settings.examine(settings.bean(value), ("filteredKahaDB",))
        names = [f"{kind}://{settings.only_text(one.open[kind])}" for kind in ("queue", "topic") if kind in one.open]
        each = one.open.get("perDestination")
        if each is not None and boolean(settings.only_text(each)):
            if names:
                raise PlacedError(each.place, f"{one.bean.label} perDestination is for the one without queue and topic")
            query["per_destination"] = "true"
        inner = one.open.get("persistenceAdapter")
        found = {} if inner is None else _in_url(settings.examine(settings.only_bean(inner), ("kahaDB",)).given)
        of_filters |= dict.fromkeys(names, found)
        if not names:
            of_others = found
    if is_url_given:
        return
    if of_others is None:
        of_others = next(iter(of_filters.values()), {})
    filters = [";".join((name, *_differing(found, of_others))) for name, found in of_filters.items()]
    directory = settings.only_text(examined.open["directory"]) if "directory" in examined.open else "mKahaDB"
    query = {**of_others, **query, **({"filters": ",".join(filters)} if filters else {})}
    options.url = f"mkahadb:{directory}" + (f"?{urlencode(query)}" if query else "")
    with settings.findings.errors_at(bean.place):
        journal_options(options.url)
    settings.findings.use("store.url", options.url, bean.place, bean.label)


def _differing(given: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """What one of several has otherwise than all others, by ActiveMQ's names; what it does not say has its default."""
    names = {option.field: name for name, option in reversed(list(ACTIVEMQ_OPTIONS.items())) if option.field}
    found = []
    for field in dict.fromkeys((*given, *others)):
        default = getattr(KahaDBOptions(), field)
        told = str(default).lower() if isinstance(default, bool) else str(default)
        value = given.get(field, told)
        if value != others.get(field, told):
            found.append(f"{names[field]}={value}")
    return found


def _in_url(given: Mapping[str, Given]) -> dict[str, str]:
    """Options of a KahaDB as parameters of a URL."""
    prefix = "kahadb."
    return {
        name.removeprefix(prefix): str(one.value).lower() if isinstance(one.value, bool) else str(one.value)
        for name, one in given.items()
        if name.startswith(prefix)
    }


def _of_file_locker(settings: Settings, examined: Examined, label: str) -> Mapping[str, Given]:
    """What a directory's locker is told, if there is one."""
    locker = examined.open.get("locker")
    if locker is None:
        return {}
    with settings.findings.errors_at(locker.place):
        inside = settings.examine(settings.only_bean(locker), LOCKERS)
        if inside.kind.name != "shared-file-locker":
            raise PlacedError(
                inside.bean.place, f"{inside.bean.label} is for a database, {label} has <shared-file-locker/>"
            )
        return inside.given
    return {}


def _read_older(settings: Settings, options: Options, examined: Examined, scheme: str, *, is_url_given: bool) -> None:
    """All of it goes into the URL: nobody begins with such a store, so it has no table of its own."""
    bean, given, prefix = examined.bean, dict(examined.given), f"{scheme}."
    inside = _of_file_locker(settings, examined, bean.label)
    given |= {name.replace("kahadb.", prefix): value for name, value in inside.items()}
    if is_url_given:
        return
    directory = _OLDER[scheme]
    if "directory" in examined.open:
        directory = settings.only_text(examined.open["directory"])
    if not directory:
        raise PlacedError(
            bean.place,
            f"{bean.label} names no directory, which for ActiveMQ is activemq-data/BROKERNAME below where it was"
            ' started: write directory="…" with it',
        )
    query = urlencode(
        {
            name.removeprefix(prefix): str(value.value).lower() if isinstance(value.value, bool) else value.value
            for name, value in given.items()
            if name.startswith(prefix)
        }
    )
    options.url = f"{scheme}:{directory}" + (f"?{query}" if query else "")
    with settings.findings.errors_at(bean.place):
        journal_options(options.url)
    settings.findings.use("store.url", options.url, bean.place, bean.label)


def _examine_inside(settings: Settings, examined: Examined, seen: set[Bean]) -> None:
    """A store that is not there yet: at least what is misspelt in it shall be told."""
    seen.add(examined.bean)
    for setting in examined.open.values():
        for value in setting.values:
            with settings.findings.errors_at(setting.place):
                bean = settings.bean(value)
                if bean in seen:
                    raise PlacedError(bean.place, f"{bean.label} refers to itself")
                inside = settings.examine(bean, ("filteredKahaDB", "kahaDB", *LOCKERS))
                _examine_inside(settings, inside, seen)


class _JdbcStore:
    """One ``<jdbcPersistenceAdapter>``."""

    def __init__(self, settings: Settings, options: Options, examined: Examined, *, is_url_given: bool) -> None:
        self._settings = settings
        self._findings = settings.findings
        self._options = options
        self._bean = examined.bean
        self._given = examined.given
        self._open = examined.open
        self._is_url_given = is_url_given
        self._source: DataSource | None = None

    def read(self) -> None:
        """All of it."""
        self._options.take_all(self._given)
        if self._is_url_given:
            self._pass_over("dataSource", "lockDataSource")
        elif "dataSource" in self._open:
            with self._findings.errors_at(self._open["dataSource"].place):
                self._source = self._data_source(self._open["dataSource"])
        else:
            self._findings.error(
                self._bean.place,
                f"{self._bean.label} has no dataSource, and ActiveMQ's embedded Derby is not there: write"
                ' dataSource="#ID" and a bean with this id, for example an org.apache.commons.dbcp2.BasicDataSource'
                " with the url jdbc:postgresql://HOST/DATABASE",
            )
        if self._source is not None:
            self._use(self._source)
        self._each("statements", self._statements)
        self._each("adapter", self._adapter)
        if not self._is_url_given:
            self._each("lockDataSource", self._same_database)
        with self._findings.errors_at(self._bean.place):
            self._lock()

    def _pass_over(self, *names: str) -> None:
        """Somebody else says where the database is: these beans are known, and that is all."""
        for name in names:
            for value in self._open[name].values if name in self._open else ():
                with suppress(PlacedError):
                    self._settings.bean(value)

    def _each(self, name: str, read: Callable[[Setting], None]) -> None:
        if name in self._open:
            with self._findings.errors_at(self._open[name].place):
                read(self._open[name])

    # -- the database --------------------------------------------------------------------------------------------

    def _data_source(self, setting: Setting) -> DataSource | None:
        if len(setting.values) != 1:
            raise PlacedError(setting.place, f"{setting.name} takes one data source, not {len(setting.values)}")
        return read_data_source(self._settings, setting.values[0])

    def _use(self, source: DataSource) -> None:
        self._options.url = source.url.render_as_string(hide_password=False)
        self._findings.use("store.url", source.url.render_as_string(), source.place, source.source)
        self._pool(source)
        answers = [] if source.answer_timeout_s is None else [source.answer_timeout_s]
        for name, unit_s in (("queryTimeout", 1.0), ("networkTimeout", 0.001)):
            if name in self._open:
                setting = self._open[name]
                with self._findings.errors_at(setting.place):
                    time = integer(self._settings.only_text(setting)) * unit_s
                    answers.append(Given(time, setting.place, f"{self._bean.label} {name}"))
        limited = [given for given in answers if isinstance(given.value, int | float) and given.value > 0]
        if limited:
            self._options.take("store.query_timeout_s", min(limited, key=_seconds))

    def _pool(self, source: DataSource) -> None:
        if source.pool_max is None:
            return
        most, ours = source.pool_max.value, JdbcOptions().pool_size
        assert isinstance(most, int)
        pool_size = max(1, min(ours, (most - _CONNECTIONS_BESIDE) // 2))
        needed = 2 * pool_size + _CONNECTIONS_BESIDE
        if needed > most:
            self._findings.warning(
                source.pool_max.place, f"{source.pool_max.source}={most} is too small: {needed} connections are used"
            )
        given = Given(pool_size, source.pool_max.place, f"{source.pool_max.source}={most}")
        self._options.take("store.pool_size", given)

    def _same_database(self, setting: Setting) -> None:
        other = self._data_source(setting)
        if other is None or self._source is None:
            return
        if _identity(other.url) != _identity(self._source.url):
            raise ConfigurationError(
                f"{setting.name} is another database: every commit proves in its own transaction that this broker is"
                " still master, so the lock has to be where the messages are; remove it"
            )

    def _adapter(self, setting: Setting) -> None:
        examined = self._settings.examine(self._settings.only_bean(setting), ADAPTERS)
        if "statements" in examined.open:
            self._statements(examined.open["statements"])
        name = examined.kind.name
        backend = "" if self._source is None else self._source.url.get_backend_name()
        fits = {"postgresql-jdbc-adapter": ("postgresql",), "mysql-jdbc-adapter": ("mysql", "mariadb")}
        if backend and backend not in fits.get(name, (backend,)):
            raise ConfigurationError(f"{name} is not for {backend}, where the data source leads; remove it")

    def _statements(self, setting: Setting) -> None:
        examined = self._settings.examine(self._settings.only_bean(setting), ("statements",))
        self._options.take_all(examined.given)

    # -- the lock ------------------------------------------------------------------------------------------------

    def _lock(self) -> None:
        place, label = self._bean.place, self._bean.label
        use = self._either("useLock", "useDatabaseLock")
        if use is not None:
            with self._findings.errors_at(use.place):
                if not boolean(self._settings.only_text(use)):
                    self._options.take("store.locker", Given("none", use.place, f"{label} {use.name}"))
                    self._findings.warning(
                        use.place, f"{label} {use.name}: nobody looks whether another broker uses the same tables"
                    )
                    return
        setting = self._either("locker", "databaseLocker")
        if setting is None:
            if self._is_sqlite or self._is_url_given:
                return  # on SQLite no row can be locked alone; our own default, the lease, does without
            self._options.take("store.locker", Given("database", place, f"{label} without a locker"))
            self._times(None, label, lease=False)
            return
        with self._findings.errors_at(setting.place):
            examined = self._settings.examine(self._settings.only_bean(setting), LOCKERS)
            name = examined.kind.name
            if name == "shared-file-locker":
                raise PlacedError(
                    examined.bean.place,
                    "a file cannot prove anything to a database: use <lease-database-locker/> or <database-locker/>",
                )
            if name not in _OUR_LOCKERS:
                return
            if name == "database-locker" and self._is_sqlite:
                raise PlacedError(
                    examined.bean.place,
                    f"{examined.bean.label}: a row of SQLite cannot be locked alone, use <lease-database-locker/>",
                )
            self._options.take("store.locker", Given(_OUR_LOCKERS[name], examined.bean.place, examined.bean.label))
            self._options.take_all(examined.given)
            if "dataSource" in examined.open:
                self._same_database(examined.open["dataSource"])
            interval = examined.open.get("lockAcquireSleepInterval")
            self._times(interval, examined.bean.label, lease=name == "lease-database-locker")

    @property
    def _is_sqlite(self) -> bool:
        return self._source is not None and self._source.url.get_backend_name() == "sqlite"

    def _either(self, name: str, old_name: str) -> Setting | None:
        if name in self._open and old_name in self._open:
            self._findings.error(self._open[old_name].place, f"{old_name} is the old name of {name}: give only one")
        return self._open.get(name) or self._open.get(old_name)

    def _times(self, interval: Setting | None, label: str, *, lease: bool) -> None:
        """How long the lease is, and how often somebody asks."""
        lease_ms = _LEASE_MS
        if interval is None and "lockAcquireSleepInterval" in self._open:
            interval, label = self._open["lockAcquireSleepInterval"], self._bean.label
        if interval is not None:
            given = self._milliseconds(interval, label)
            value = given.value
            assert isinstance(value, int)
            if lease:
                lease_ms = value
                self._options.take("store.lock.lease_ms", given)
                usual = LockerOptions().lock_acquire_sleep_interval_ms
                if 0 < lease_ms < usual:
                    self._options.take("store.lock.lock_acquire_sleep_interval_ms", given)
            else:
                if value > lease_ms:
                    self._findings.warning(
                        given.place, f"{given.source}={value} is too seldom, a standby looks every {lease_ms} ms"
                    )
                    given = Given(lease_ms, given.place, given.source)
                self._options.take("store.lock.lock_acquire_sleep_interval_ms", given)
        if "lockKeepAlivePeriod" in self._open:
            self._keep_alive(self._open["lockKeepAlivePeriod"], lease_ms)

    def _keep_alive(self, setting: Setting, lease_ms: int) -> None:
        given = self._milliseconds(setting, self._bean.label)
        assert isinstance(given.value, int)
        if 0 < given.value < lease_ms / 2:
            self._options.take("store.lock.lock_keep_alive_period_ms", given)
            return
        why = "never" if given.value <= 0 else f"not less than half of the lease, {lease_ms} ms"
        self._findings.warning(
            given.place,
            f"{given.source}={given.value} is {why}: the lock is renewed every {lease_ms // 3} ms instead,"
            " or two brokers could be master at once",
        )

    def _milliseconds(self, setting: Setting, label: str) -> Given:
        try:
            value = integer(self._settings.only_text(setting))
        except ConfigurationError as error:
            raise PlacedError(setting.place, f"{setting.name}: {error}") from error
        return Given(value, setting.place, f"{label} {setting.name}")


def _identity(url: URL) -> tuple[object, ...]:
    return url.get_backend_name(), url.host, url.port, url.database, url.query.get("host"), url.query.get("port")


def _seconds(given: Given) -> float:
    assert isinstance(given.value, int | float)
    return given.value
