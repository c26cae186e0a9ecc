"""Options of ``format("activemq")``, spelled as Spark's users know them from Kafka and JDBC.

An unknown name is an error: a misspelt option that is silently ignored is worse than none. Names are compared without
regard to case, as everywhere in Spark. What holds a password (the URL, ``password``) stands in no error and no
``repr``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.selector import Selector
from jdbcstore.spark.columns import columns_of, default_names
from jdbcstore.spelling import did_you_mean

if TYPE_CHECKING:
    from jdbcstore.store.jdbc.location import StoreLocation

__all__ = [
    "BATCH_BYTES",
    "EARLIEST",
    "LATEST",
    "Given",
    "Offsets",
    "OnCorrupt",
    "ReadOptions",
    "WriteOptions",
    "columns_asked_for",
    "store_location",
]

#: Kafka's numbers for the two ends.
LATEST: Final = -1
EARLIEST: Final = -2

#: Where to begin or to end: for all destinations (`EARLIEST`, `LATEST` or an id), or for some of them by CONTAINER.
Offsets: TypeAlias = int | Mapping[str, int]

#: What becomes of a message that cannot be decoded.
OnCorrupt: TypeAlias = Literal["column", "fail"]

_STORE: Final = ("url", "user", "password", "tablePrefix", "driver")
_READ: Final = (
    *_STORE,
    "readFrom",
    "subscribe",
    "subscribePattern",
    "columns",
    "selector",
    "startingOffsets",
    "endingOffsets",
    "minPartitions",
    "numPartitions",
    "batchBytes",
    "includeHeaders",
    "includePrepared",
    "onCorrupt",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "settleDelay",
    "mode",
)
_WRITE: Final = (
    *_STORE,
    "topic",
    "commitProtocol",
    "jobId",
    "indexes",
    "messageIds",
    "trustMessages",
    "commitTimeout",
    "checkpointLocation",  # Spark's own, of a stream
)
#: JDBC options that would mean something else here.
_NOT_HERE: Final = {
    "dbtable": "tables are named by tablePrefix, or by messageTableName in the URL",
    "query": "use subscribe, selector and filters on the DataFrame",
    "partitioncolumn": "partitions are ranges of ids of about equal size; numPartitions says how many",
    "lowerbound": "use startingOffsets",
    "upperbound": "use endingOffsets",
    "fetchsize": "batches are cut by bytes, batchBytes says how many",
    "kafka.bootstrap.servers": "this is a store, not a server: give url",
}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|seconds?|minutes?|hours?)?\s*")
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}

BATCH_BYTES: Final = 4 << 20
_BATCH_BYTES_MAX: Final = 512 << 20
_PARTITIONS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read.

    Args:
        location: the store.
        subscribe: values of CONTAINER; empty for all.
        subscribe_pattern: a regular expression that the whole of CONTAINER has to match; None for all.
        columns: names, in the order of the schema.
        selector: messages that do not match it are left out.
        starting, ending: ids, the first that is read and the first that is not any more.
        partitions_min: at least so many tasks, if there are as many rows; None for as many as there are cores.
        partitions: exactly so many.
        batch_bytes: how large Arrow batches get.
        include_prepared: whether messages of prepared XA transactions are read too.
        on_corrupt: see `jdbcstore.spark.decoder`.
        fail_on_data_loss: whether a stream stops when rows that belong to a batch that is done again are gone.
        offsets_max: of a stream: the most rows in one batch; None for all that there are.
        settle_delay_ms: of a stream: how long after a number was given out its row may still appear.
        consume: of a stream: whether messages are removed once the epoch that read them is committed.
    """

    location: StoreLocation
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str | None = None
    columns: tuple[str, ...] = ()
    selector: Selector | None = None
    starting: Offsets = EARLIEST
    ending: Offsets = LATEST
    partitions_min: int | None = None
    partitions: int | None = None
    batch_bytes: int = BATCH_BYTES
    include_prepared: bool = False
    on_corrupt: OnCorrupt = "column"
    fail_on_data_loss: bool = False
    offsets_max: int | None = None
    settle_delay_ms: int = 60_000
    consume: bool = False

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ReadOptions:
        """Read options as Spark gives them.

        Raises:
            ConfigurationError: one is unknown or wrong; the text says which and what would be right.
            SelectorError: the selector cannot be read.
        """
        options = Given(given, _READ)
        location = store_location(options)
        if (read_from := options.text("readFrom")) is not None:
            location = replace(location, options=replace(location.options, read_from=read_from))
        return cls(location=location, **_read_options(options))


def columns_asked_for(given: Mapping[str, str]) -> Sequence[str]:
    """The columns that `ReadOptions` would have.

    All options are read but those that say where the store is. Spark asks for the columns in a process of its own, in
    which SQLAlchemy, which reads URLs, would take longer than all else together.

    Raises:
        ConfigurationError, SelectorError: as `ReadOptions.of`.
    """
    options = Given(given, _READ)
    _url_of(options)
    columns: Sequence[str] = _read_options(options)["columns"]
    return columns


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write.

    Args:
        location: the store.
        topic: where messages go in rows that do not say it; None if all have to.
        protocol: ``auto``, ``direct`` or ``staged``; see `jdbcstore.store.jdbc.bulk_load`.
        job_id: the name of this load: one that was committed under this name is not done again. None for a new one.
        indexes: ``auto``, ``keep`` or ``rebuild`` them around a load.
        keeps_message_ids: whether a given message id is kept; else every message gets a new one.
        trusts_messages: whether the bytes in column ``message`` are stored without looking whether they are messages.
        commit_timeout_ms: how long to wait for a broker that has to take in what was staged.
    """

    location: StoreLocation
    topic: str | None = None
    protocol: Literal["auto", "direct", "staged"] = "auto"
    job_id: str | None = None
    indexes: Literal["auto", "keep", "rebuild"] = "auto"
    keeps_message_ids: bool = True
    trusts_messages: bool = False
    commit_timeout_ms: int = 600_000

    @classmethod
    def of(cls, given: Mapping[str, str]) -> WriteOptions:
        """Read options as Spark gives them.

        Raises:
            ConfigurationError: one is unknown or wrong; the text says which and what would be right.
        """
        options = Given(given, _WRITE)
        topic = options.text("topic")
        location = store_location(options)
        location.options.require_primary("a DataFrame's writer")
        return cls(
            location=location,
            topic=None if topic is None else parse_destination(topic).qualified_name,
            protocol=cast(
                Literal["auto", "direct", "staged"],
                options.choice("commitProtocol", ("auto", "direct", "staged"), "auto"),
            ),
            job_id=options.text("jobId"),
            indexes=cast(
                Literal["auto", "keep", "rebuild"], options.choice("indexes", ("auto", "keep", "rebuild"), "auto")
            ),
            keeps_message_ids=options.choice("messageIds", ("keep", "new"), "keep") == "keep",
            trusts_messages=options.flag("trustMessages"),
            commit_timeout_ms=options.duration_ms("commitTimeout", 600_000),
        )


def _read_options(options: Given) -> dict[str, Any]:
    """The fields of `ReadOptions` but the location."""
    chosen = options.chosen()
    columns = options.names("columns") or default_names(
        include_headers=options.flag("includeHeaders"), corrupt=chosen["on_corrupt"] == "column"
    )
    columns_of(columns)
    return chosen | {
        "columns": tuple(columns),
        "starting": options.offsets("startingOffsets", EARLIEST),
        "ending": options.offsets("endingOffsets", LATEST),
        "partitions_min": options.number("minPartitions", None, 1, _PARTITIONS_MAX),
        "partitions": options.number("numPartitions", None, 1, _PARTITIONS_MAX),
        "fail_on_data_loss": options.flag("failOnDataLoss"),
        "offsets_max": options.number("maxOffsetsPerTrigger", None, 1, 1 << 62),
        "settle_delay_ms": options.duration_ms("settleDelay", 60_000),
        "consume": options.choice("mode", ("browse", "consume"), "browse") == "consume",
    }


def store_location(given: Mapping[str, str]) -> StoreLocation:
    """The store that the options ``url``, ``user``, ``password``, ``tablePrefix`` and ``driver`` name.

    Args:
        given: Spark's options. ``url`` is a URL of ours or of JDBC.

    Raises:
        ConfigurationError: one is missing or wrong.
    """
    from jdbcstore.config.urls import store_options
    from jdbcstore.store.jdbc.location import StoreLocation

    options = given if isinstance(given, Given) else Given(given, _STORE)
    text = _url_of(options)
    url, store = store_options(_of_jdbc(text) if text.startswith("jdbc:") else text)
    if (user := options.text("user")) is not None:
        url = url.set(username=user)
    if (password := options.text("password")) is not None:
        url = url.set(password=password)
    if (prefix := options.text("tablePrefix")) is not None:
        store = replace(store, table_prefix=prefix)
    driver = options.text("driver")
    if driver is not None:
        from jdbcstore.store.jdbc.dialect import databases

        known = sorted({name for database in databases() for name in database.scanner().readers})
        if driver not in known:
            raise ConfigurationError(f"driver {driver!r} is none of {', '.join(known)}")
    return StoreLocation(url, store, driver)


def _url_of(options: Given) -> str:
    """The URL as it was given."""
    text = options.text("url")
    if text is None:
        from jdbcstore.store.jdbc.dialect import databases

        raise ConfigurationError(
            'the option url is missing: .option("url", "postgresql://USER:PASSWORD@HOST/DATABASE"), or'
            f" {', '.join(database.example for database in databases())}, jdbc:postgresql://HOST/DATABASE"
        )
    return text


def _of_jdbc(text: str) -> str:
    """A URL of JDBC as one of ours."""
    from sqlalchemy import URL

    from jdbcstore.config.activemq_xml.jdbc_url import parse_jdbc_url
    from jdbcstore.store.jdbc.dialect import database_for

    found = parse_jdbc_url(text)
    if database_for(found.backend).is_file:
        return f"{found.backend}:///{found.database}"
    parameters = dict(found.parameters)
    target = parameters.pop("targetServerType", None)
    if target not in (None, "primary", "master", "secondary", "slave"):
        raise ConfigurationError(f"targetServerType {target!r} is none of primary, secondary")
    unknown = set(parameters) - {"user", "password"}
    if unknown:
        raise ConfigurationError(f"JDBC parameters {', '.join(sorted(unknown))} are unknown: leave them out of the url")
    query: dict[str, str | list[str]] = {}
    if target in ("secondary", "slave"):
        query["read_from"] = "standby"
    host: str | None
    port: int | None
    host, port = found.hosts[0]
    if len(found.hosts) > 1:
        query["host"], host, port = [f"{host}:{port}" for host, port in found.hosts], None, None
    url = URL.create(
        found.backend, parameters.get("user"), parameters.get("password"), host, port, found.database or None, query
    )
    return url.render_as_string(hide_password=False)


class Given(Mapping[str, str]):
    """Options with names that are known, whatever their case."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        by_lower = {name.lower(): name for name in known}
        for name in self._given:
            if name in by_lower:
                continue
            if name in _NOT_HERE:
                raise ConfigurationError(f"option {name!r} means nothing here: {_NOT_HERE[name]}")
            hint = did_you_mean(name, known, 0.6) or f"; there are {', '.join(known)}"
            raise ConfigurationError(f"unknown option {name!r}{hint}")

    def __getitem__(self, name: str) -> str:
        return self._given[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def text(self, name: str) -> str | None:
        return self.get(name) or None

    def names(self, name: str) -> list[str]:
        return [one.strip() for one in (self.get(name) or "").split(",") if one.strip()]

    def flag(self, name: str) -> bool:
        return self.choice(name, ("true", "false"), "false") == "true"

    def choice(self, name: str, known: tuple[str, ...], default: str) -> str:
        value = (self.text(name) or default).lower()
        if value not in known:
            raise ConfigurationError(f"option {name} must be {' or '.join(known)}, got {self[name]!r}")
        return value

    def number(self, name: str, default: int | None, least: int, most: int) -> int | None:
        text = self.text(name)
        if text is None:
            return default
        if not re.fullmatch(r"\d{1,19}", text) or not least <= int(text) <= most:
            raise ConfigurationError(f"option {name} must be a whole number from {least} to {most}, got {text!r}")
        return int(text)

    def duration_ms(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        found = _DURATION.fullmatch(text)
        if found is None:
            raise ConfigurationError(f"option {name} must be a time such as 500ms, 30s or 5 minutes, got {text!r}")
        unit = found[2] or "ms"
        return round(float(found[1]) * _UNITS["ms" if unit == "ms" else unit[0]])

    def offsets(self, name: str, default: int) -> Offsets:
        """``earliest``, ``latest``, an id, ``{"queue://A": 23}``, or Kafka's ``{"queue://A": {"0": 23}}``."""
        text = self.text(name)
        if text is None:
            return default
        ends = {"earliest": EARLIEST, "latest": LATEST}
        if text.lower() in ends:
            return ends[text.lower()]
        try:
            found = json.loads(text)
            if isinstance(found, dict):
                return {parse_destination(container).qualified_name: _offset(at) for container, at in found.items()}
            return _offset(found)
        except ValueError:
            raise ConfigurationError(
                f'option {name} must be earliest, latest, an id or JSON such as {{"queue://A": 23}}, got {text[:80]!r}'
            ) from None

    def chosen(self) -> dict[str, Any]:
        """Which messages are read, and how: what the options of all sources have."""
        if self.text("subscribe") and self.text("subscribePattern"):
            raise ConfigurationError("give either subscribe or subscribePattern")
        pattern, selector = self.text("subscribePattern"), self.text("selector")
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigurationError(f"subscribePattern is no regular expression: {error}") from None
        return {
            "subscribe": tuple(parse_destination(name).qualified_name for name in self.names("subscribe")),
            "subscribe_pattern": pattern,
            "selector": None if selector is None else Selector.parse(selector),
            "include_prepared": self.flag("includePrepared"),
            "on_corrupt": self.choice("onCorrupt", ("column", "fail"), "column"),
            "batch_bytes": self.number("batchBytes", BATCH_BYTES, 1 << 16, _BATCH_BYTES_MAX),
        }


def _offset(found: object) -> int:
    if isinstance(found, dict) and list(found) == ["0"]:
        found = found["0"]
    if not isinstance(found, int) or isinstance(found, bool) or found < EARLIEST:
        raise ValueError(found)
    return found
