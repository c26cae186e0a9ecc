"""``<transportConnectors>``: where STOMP clients connect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from jdbcstore.broker.addresses import parse_bind
from jdbcstore.config.activemq_xml.beans import Setting
from jdbcstore.config.activemq_xml.findings import PlacedError
from jdbcstore.config.activemq_xml.jdbc_url import parse_parameters
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings, did_you_mean
from jdbcstore.config.activemq_xml.vocabulary.broker import STOMP_URI
from jdbcstore.errors import ConfigurationError

__all__ = ["EXAMPLE", "read_connectors"]

EXAMPLE: Final = '<transportConnector name="stomp" uri="stomp://0.0.0.0:61613"/>'

_URI: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9.+-]*)://(?P<host>\[[^\]]*\]|[^:/?]*)(?::(?P<port>[0-9]{1,5}))?/?(?:\?(?P<query>.*))?"
)
_SERVED: Final = ("stomp", "stomp+nio", "auto", "auto+nio")
_ENCRYPTED: Final = ("stomp+ssl", "stomp+nio+ssl", "auto+ssl", "auto+nio+ssl")


@dataclass(frozen=True, slots=True)
class _Connector:
    examined: Examined
    given: Given
    scheme: str
    bind: str
    query: tuple[tuple[str, str], ...]


def read_connectors(settings: Settings, options: Options, setting: Setting) -> bool:
    """Read the connectors; the first one for STOMP is where the broker listens. Returns whether there is one.

    Raises:
        PlacedError: something in it is no connector.
    """
    found = None
    for value in setting.values:
        with settings.findings.errors_at(value.place):
            connector = _connector(settings, settings.examine(settings.bean(value), ("transportConnector",)))
            if not _is_served(settings, connector):
                continue
            if found is not None:
                settings.findings.warning(
                    connector.given.place,
                    f"nobody can connect to {connector.bind}: the broker listens in one place, which is {found.bind} of"
                    f" line {found.given.place.line}",
                )
                continue
            found = connector
            options.take("broker.bind", Given(connector.bind, connector.given.place, connector.given.source))
            options.take_all(connector.examined.given)
            _parameters(settings, options, connector)
    return found is not None


def _connector(settings: Settings, examined: Examined) -> _Connector:
    if "uri" not in examined.open:
        raise PlacedError(examined.bean.place, f"{examined.bean.label} has no uri, e.g. {EXAMPLE}")
    setting = examined.open["uri"]
    uri = settings.only_text(setting).strip()
    parts = _URI.fullmatch(uri)
    if parts is None:
        raise PlacedError(setting.place, f"{uri!r} is not PROTOCOL://HOST:PORT, e.g. stomp://0.0.0.0:61613")
    bind = f"{parts['host']}:{parts['port'] or 0}"
    return _Connector(
        examined,
        Given(uri, setting.place, f"{examined.bean.label} uri"),
        parts["scheme"],
        bind,
        parse_parameters(parts["query"] or "", "&"),
    )


def _is_served(settings: Settings, connector: _Connector) -> bool:
    place, scheme = connector.given.place, connector.scheme
    protocols = dict(connector.query).get("auto.protocols")
    if scheme in _SERVED:
        if protocols is None or "stomp" in (name.strip() for name in protocols.split(",")):
            if scheme.startswith("auto"):
                settings.findings.warning(place, f"{scheme}://{connector.bind}: STOMP clients are served, no others")
            return True
        scheme = f"{scheme} with {protocols}"
    if scheme in _ENCRYPTED:
        settings.findings.warning(
            place,
            f"{scheme}://{connector.bind} is not served: no TLS; let a proxy in front do it, and give it a"
            " stomp connector",
        )
        return False
    settings.findings.warning(place, f"{scheme}://{connector.bind} is not served: STOMP is the only protocol")
    return False


def _parameters(settings: Settings, options: Options, connector: _Connector) -> None:
    if connector.bind.endswith(":0"):
        raise ConfigurationError(f"{connector.given.value!r} has no port, e.g. stomp://0.0.0.0:61613")
    parse_bind(connector.bind)
    place = connector.given.place
    for name, value in connector.query:
        entry = STOMP_URI.get(name)
        what = f"parameter {name} of {connector.scheme}://{connector.bind}"
        if entry is None:
            settings.findings.error(place, f"{what} is not known{did_you_mean(name, STOMP_URI)}")
            continue
        with settings.findings.errors_at(place):
            given = settings.parameter(entry, value, place, what)
            if given is not None:
                options.take(entry.option, given)
