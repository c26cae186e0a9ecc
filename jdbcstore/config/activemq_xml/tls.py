"""``<sslContext>`` and what connectors with TLS say besides: certificates, keys, and who has to have one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from jdbcstore.addresses import parse_listeners
from jdbcstore.config.activemq_xml.beans import Setting
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.placeholders import locate
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings
from jdbcstore.config.activemq_xml.vocabulary.entry import boolean
from jdbcstore.config.configuration import Configuration
from jdbcstore.errors import ConfigurationError
from jdbcstore.transport.tls import ServerTls

__all__ = ["check_tls", "read_ssl_context", "take_tls_parameter"]

_SERVED: Final = ("TLSv1.2", "TLSv1.3")


def read_ssl_context(settings: Settings, options: Options, setting: Setting) -> None:
    """Read the key store and the trust store. Raises PlacedError."""
    examined = settings.examine(settings.only_bean(setting), ("sslContext",))
    options.tls_place = examined.bean.place
    for name, option in (("keyStore", "tls.certificate"), ("trustStore", "tls.ca")):
        if (given := _given(settings, examined, name)) is not None:
            path = locate(str(given.value), Path(settings.placeholders.system["activemq.conf"]))
            options.take(option, Given(str(path), given.place, given.source))
    key_password = _given(settings, examined, "keyStorePassword") or _given(settings, examined, "keyStoreKeyPassword")
    ca_password = _given(settings, examined, "trustStorePassword")
    for option, password in (("tls.key_password", key_password), ("tls.ca_password", ca_password)):
        if password is not None:
            options.take(option, password, shown="***")


def _given(settings: Settings, examined: Examined, name: str) -> Given | None:
    setting = examined.open.get(name)
    if setting is None:
        return None
    return Given(settings.only_text(setting), setting.place, f"{examined.bean.label} {name}")


def take_tls_parameter(settings: Settings, options: Options, name: str, given: Given) -> None:
    """A parameter of a connector with TLS.

    Args:
        settings: told of what is not so here.
        options: takes it.
        name: the parameter's, without ``transport.``.
        given: its value.

    Raises:
        ConfigurationError: it has no such value.
    """
    text = str(given.value)
    if name in ("needClientAuth", "wantClientAuth"):
        demand = "required" if name == "needClientAuth" else "wanted"
        if boolean(text) and options.value("tls.client_certificate") != "required":
            options.take("tls.client_certificate", Given(demand, given.place, given.source))
    elif name == "enabledProtocols":
        _versions(settings, options, [part.strip() for part in text.split(",") if part.strip()], given)
    else:
        options.take("tls.ciphers", given)


def _versions(settings: Settings, options: Options, names: list[str], given: Given) -> None:
    served = sorted(name for name in names if name in _SERVED)
    others = [name for name in names if name not in served]
    if any(re.fullmatch(r"(SSL|TLS)v\d(\.\d)?|SSLv2Hello", name) is None for name in others):
        raise ConfigurationError(f"{given.source}: there are {', '.join(_SERVED)}, got {given.value!r}")
    if not served:
        raise ConfigurationError(f"{given.source}: {given.value} is not safe; there are {', '.join(_SERVED)}")
    if others:
        settings.findings.warning(given.place, f"{', '.join(others)} is not safe and not served: {given.source}")
    for option, version in (("tls.version_min", served[0]), ("tls.version_max", served[-1])):
        options.take(option, Given(version, given.place, given.source))


def check_tls(settings: Settings, options: Options, configuration: Configuration) -> None:
    """Look whether a broker could serve TLS with this; what is wrong is told with its line."""
    if any(listener.is_tls for listener in parse_listeners(configuration.broker.bind)):
        with settings.findings.errors_at(options.tls_place or options.whole):
            ServerTls(configuration.tls)
