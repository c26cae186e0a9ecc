"""``<transportConnectors>``: where clients connect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from jdbcstore.addresses import SCHEMES, Listener, Protocol, parse_address
from jdbcstore.config.activemq_xml.beans import Setting
from jdbcstore.config.activemq_xml.findings import PlacedError
from jdbcstore.config.activemq_xml.jdbc_url import parse_parameters
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings
from jdbcstore.config.activemq_xml.tls import take_tls_parameter
from jdbcstore.config.activemq_xml.vocabulary.broker import TLS_URI
from jdbcstore.config.activemq_xml.vocabulary.connectors import entries_of
from jdbcstore.config.activemq_xml.vocabulary.entry import Fate
from jdbcstore.errors import ConfigurationError
from jdbcstore.spelling import did_you_mean

__all__ = ["EXAMPLE", "read_connectors"]

EXAMPLE: Final = '<transportConnector name="stomp" uri="stomp://0.0.0.0:61613"/>'

_URI: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9.+-]*)://(?P<host>\[[^\]]*\]|[^:/?]*)(?::(?P<port>[0-9]{1,5}))?/?(?:\?(?P<query>.*))?"
)
#: ``auto.protocols``, in ActiveMQ's words.
_AUTO: Final = {"default": Protocol.OPENWIRE, "openwire": Protocol.OPENWIRE, "stomp": Protocol.STOMP}


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
        return SCHEMES.get(self.scheme, (None, False))[1]

    @property
    def protocol(self) -> Protocol | None:
        """What clients speak; None if it is not served. Of an auto connector ``auto.protocols`` chooses."""
        protocol = SCHEMES.get(self.scheme, (None, False))[0]
        names = dict(self.query).get("auto.protocols")
        if protocol is not Protocol.AUTO or names is None:
            return protocol
        chosen = {_AUTO[name.strip()] for name in names.split(",") if name.strip() in _AUTO}
        return protocol if len(chosen) > 1 else next(iter(chosen), None)

    def __str__(self) -> str:
        assert self.protocol is not None
        if self.protocol is Protocol.STOMP and not self.is_tls:
            return self.bind
        return str(Listener(*parse_address(self.bind), self.is_tls, self.protocol))


def read_connectors(settings: Settings, options: Options, setting: Setting, *, has_certificate: bool) -> bool:
    """Read the connectors; the broker listens at all that it can serve. Returns whether there is one.

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
    place, name = connector.given.place, f"{connector.scheme}://{connector.bind}"
    if connector.protocol is None:
        settings.findings.warning(place, f"{name} is not served: STOMP and OpenWire are the only protocols")
        return False
    if connector.is_tls and not has_certificate:
        settings.findings.warning(
            place,
            f"{name} is not served: there is no certificate, write"
            ' <sslContext><sslContext keyStore="FILE" keyStorePassword="PASSWORD"/></sslContext>',
        )
        return False
    if connector.scheme.startswith("auto"):
        served = {Protocol.AUTO: "STOMP and OpenWire", Protocol.STOMP: "STOMP", Protocol.OPENWIRE: "OpenWire"}
        settings.findings.warning(place, f"{name}: {served[connector.protocol]} clients are served, no others")
    return True


def _parameters(settings: Settings, options: Options, connector: _Connector) -> None:
    if connector.bind.endswith(":0"):
        raise ConfigurationError(f"{connector.given.value!r} has no port, e.g. stomp://0.0.0.0:61613")
    parse_address(connector.bind)
    place = connector.given.place
    known = entries_of(SCHEMES[connector.scheme][0], is_tls=connector.is_tls)
    for name, value in connector.query:
        what = f"parameter {name} of {connector.scheme}://{connector.bind}"
        if name not in known:
            settings.findings.error(place, f"{what} is not known{did_you_mean(name, known)}")
            continue
        for entry in known[name]:
            with settings.findings.errors_at(place):
                if connector.is_tls and name in TLS_URI and entry.fate is Fate.USED:
                    take_tls_parameter(settings, options, name.removeprefix("transport."), Given(value, place, what))
                    continue
                given = settings.parameter(entry, value, place, what)
                if given is not None:
                    _take(settings, options, entry.option, given)
