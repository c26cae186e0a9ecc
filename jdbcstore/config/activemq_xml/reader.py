"""``activemq.xml`` → `Configuration`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from jdbcstore.config.activemq_xml.beans import ACTIVEMQ, Bean
from jdbcstore.config.activemq_xml.broker import read_broker
from jdbcstore.config.activemq_xml.definitions import Definitions
from jdbcstore.config.activemq_xml.findings import Findings, Place, PlacedError
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.placeholders import Placeholders, system_properties
from jdbcstore.config.activemq_xml.settings import Settings
from jdbcstore.config.activemq_xml.tls import check_tls
from jdbcstore.config.configuration import Configuration

__all__ = ["ActiveMqXml", "read_activemq_xml"]


@dataclass(frozen=True, slots=True)
class ActiveMqXml:
    """What a file says.

    Args:
        configuration: what would be used; of no meaning when there are errors.
        findings: errors, warnings, and which line gave which option.
    """

    configuration: Configuration
    findings: Findings


def read_activemq_xml(path: Path, environment: Mapping[str, str], overridden: Set[str] = frozenset()) -> ActiveMqXml:
    """Read ``activemq.xml``, property files and imported files included. Nothing else is opened, nothing is fetched.

    Args:
        path: of the file; places of other files begin there.
        environment: variables of the process.
        overridden: options that somebody gives who goes before the file. With ``broker.bind`` the file needs no
            connector for STOMP, with ``store.url`` no store that there is.
    """
    findings = Findings()
    whole = Place(path.name, 0)
    with findings.errors_at(whole):
        return _read(path, environment, findings, overridden)
    return ActiveMqXml(Configuration(), findings)


def _read(path: Path, environment: Mapping[str, str], findings: Findings, overridden: Set[str]) -> ActiveMqXml:
    placeholders = Placeholders(system_properties(path, environment), environment)
    definitions = Definitions(Path(placeholders.system["activemq.conf"]), placeholders, findings)
    try:
        root = definitions.read(path)
    except OSError as error:
        raise PlacedError(Place(path.name, 0), f"cannot read {path}: {error.strerror}") from error
    definitions.link_aliases()
    options = Options(findings, root.place)
    options.is_login_overridden = bool(overridden & {"broker.users", "broker.users_file"})
    settings = Settings(findings, placeholders, definitions.named)
    if len(definitions.brokers) != 1:
        if not definitions.brokers and findings.errors:
            return ActiveMqXml(Configuration(), findings)
        raise PlacedError(root.place, _not_one(definitions.brokers))
    read_broker(settings, options, definitions.brokers[0], overridden)
    for bean in definitions.others:
        if bean not in settings.reached:
            findings.warning(bean.place, f"{bean.label} is not used by anything that is read here")
    configuration = options.build()
    if not any(option.startswith("tls.") for option in overridden):
        check_tls(settings, options, configuration)
    return ActiveMqXml(configuration, findings)


def _not_one(brokers: list[Bean]) -> str:
    if not brokers:
        return f'there is no <broker xmlns="{ACTIVEMQ[0]}">'
    return (
        f"{len(brokers)} brokers are in this file, and a process runs one: {', '.join(str(b.place) for b in brokers)}"
    )
