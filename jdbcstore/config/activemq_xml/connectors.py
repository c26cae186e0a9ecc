"""``<transportConnectors>``: where STOMP clients connect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from jdbcstore.addresses import parse_address
from jdbcstore.config.activemq_xml.beans import Setting
from jdbcstore.config.activemq_xml.findings import PlacedError
from jdbcstore.config.activemq_xml.jdbc_url import parse_parameters
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings
from jdbcstore.config.activemq_xml.tls import take_tls_parameter
from jdbcstore.config.activemq_xml.vocabulary.broker import STOMP_URI, TLS_URI
from jdbcstore.config.activemq_xml.vocabulary.entry import Fate
from jdbcstore.errors import ConfigurationError
from jdbcstore.spelling import did_you_mean

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

    @property
    def is_tls(self) -> bool:
        """Whether clients have to speak TLS."""
        return self.scheme in _ENCRYPTED

    def __str__(self) -> str:
        return f"stomp+ssl://{self.bind}" if self.is_tls else self.bind


def read_connectors(settings: Settings, options: Options, setting: Setting, *, has_certificate: bool) -> bool:
    """Read the connectors; the broker listens at all of those for STOMP. Returns whether there is one.

    Args:
        settings: the configuration.
        options: takes the values; the first connector that gives one is heard.
        setting: the connectors.
        has_certificate: whether there is one for those with TLS.

    Raises:
        PlacedError: something in it is no connector.
    """
    found: list[_Connector] = []
    for value in setting.values:
        with settings.findings.errors_at(value.place):
            connector = _connector(settings, settings.examine(settings.bean(value), ("transportConnector",)))
            if not _is_served(settings, connector, has_certificate):
                continue
            found.append(connector)
            for option, given in connector.examined.given.items():
                _take(settings, options, option, given)
            _parameters(settings, options, connector)
    if found:
        given = found[0].given
        options.take("broker.bind", Given(", ".join(map(str, found)), given.place, given.source))
    return bool(found)


def _take(settings: Settings, options: Options, option: str, given: Given) -> None:
    """What one connector says holds for all."""
    former = options.value(option)
    if former is None:
        options.take(option, given)
    elif former != given.value:
        settings.findings.warning(
            given.place, f"{given.source} is not used: all connectors have one {option}, which is {former}"
        )


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


def _is_served(settings: Settings, connector: _Connector, has_certificate: bool) -> bool:
    place, scheme = connector.given.place, connector.scheme
    protocols = dict(connector.query).get("auto.protocols")
    if connector.is_tls and not has_certificate:
        settings.findings.warning(
            place,
            f"{scheme}://{connector.bind} is not served: there is no certificate, write"
            ' <sslContext><sslContext keyStore="FILE" keyStorePassword="PASSWORD"/></sslContext>',
        )
        return False
    if scheme in _SERVED or connector.is_tls:
        if protocols is None or "stomp" in (name.strip() for name in protocols.split(",")):
            if scheme.startswith("auto"):
                settings.findings.warning(place, f"{scheme}://{connector.bind}: STOMP clients are served, no others")
            return True
        scheme = f"{scheme} with {protocols}"
    settings.findings.warning(place, f"{scheme}://{connector.bind} is not served: STOMP is the only protocol")
    return False


def _parameters(settings: Settings, options: Options, connector: _Connector) -> None:
    if connector.bind.endswith(":0"):
        raise ConfigurationError(f"{connector.given.value!r} has no port, e.g. stomp://0.0.0.0:61613")
    parse_address(connector.bind)
    place = connector.given.place
    known = {**STOMP_URI, **TLS_URI} if connector.is_tls else STOMP_URI
    for name, value in connector.query:
        entry = known.get(name)
        what = f"parameter {name} of {connector.scheme}://{connector.bind}"
        if entry is None:
            settings.findings.error(place, f"{what} is not known{did_you_mean(name, known)}")
            continue
        with settings.findings.errors_at(place):
            if connector.is_tls and name in TLS_URI and entry.fate is Fate.USED:
                take_tls_parameter(settings, options, name.removeprefix("transport."), Given(value, place, what))
                continue
            given = settings.parameter(entry, value, place, what)
            if given is not None:
                _take(settings, options, entry.option, given)
