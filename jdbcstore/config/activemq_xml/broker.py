"""``<broker>``: its own attributes, limits, and what happens when its store fails."""

from __future__ import annotations

import socket
from collections.abc import Set
from typing import Final

from jdbcstore.config.activemq_xml.beans import Bean, Setting
from jdbcstore.config.activemq_xml.connectors import EXAMPLE, read_connectors
from jdbcstore.config.activemq_xml.findings import PlacedError
from jdbcstore.config.activemq_xml.interceptors import read_interceptors
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.policies import read_policies
from jdbcstore.config.activemq_xml.security import read_plugins
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings
from jdbcstore.config.activemq_xml.store import read_store
from jdbcstore.config.activemq_xml.tls import read_ssl_context
from jdbcstore.config.activemq_xml.vocabulary import kind_named
from jdbcstore.config.activemq_xml.vocabulary.entry import boolean, integer
from jdbcstore.openwire import STORE_VERSION

__all__ = ["read_broker"]

_HANDLERS: Final = ("defaultIOExceptionHandler", "leaseLockerIOExceptionHandler", "jDBCIOExceptionHandler")
_READ: Final = {
    "plugins": read_plugins,
    "sslContext": read_ssl_context,
    "destinationPolicy": read_policies,
}


def read_broker(settings: Settings, options: Options, bean: Bean, overridden: Set[str]) -> None:
    """Read ``<broker>`` with everything in it.

    Args:
        settings: the configuration.
        options: takes the values.
        bean: the broker.
        overridden: options that somebody gives who goes before the file.

    Raises:
        PlacedError: it is no broker.
    """
    _Broker(settings, options, settings.examine(bean, ("broker",)), overridden).read()


class _Broker:
    def __init__(self, settings: Settings, options: Options, examined: Examined, overridden: Set[str]) -> None:
        self._settings = settings
        self._findings = settings.findings
        self._options = options
        self._examined = examined
        self._open = examined.open
        self._overridden = overridden

    def read(self) -> None:
        self._options.take_all(self._examined.given)
        self._name()
        self._store()
        with self._findings.errors_at(self._examined.bean.place):
            read_interceptors(self._settings, self._options, self._examined)
        for name, read in _READ.items():
            if name in self._open:
                with self._findings.errors_at(self._open[name].place):
                    read(self._settings, self._options, self._open[name])
        for name, read_more in (("systemUsage", self._limits), ("ioExceptionHandler", self._failure)):
            if name in self._open:
                with self._findings.errors_at(self._open[name].place):
                    read_more(self._open[name])
        self._connectors()

    def _name(self) -> None:
        setting = self._open.get("useLocalHostBrokerName")
        if setting is not None:
            with self._findings.errors_at(setting.place):
                if boolean(self._settings.only_text(setting)):
                    given = Given(socket.gethostname(), setting.place, f"<broker> {setting.name}")
                    self._options.take("broker.broker_name", given)

    def _store(self) -> None:
        persistent, adapter = self._open.get("persistent"), self._open.get("persistenceAdapter")
        place = self._examined.bean.place
        is_persistent = True
        if persistent is not None:
            with self._findings.errors_at(persistent.place):
                is_persistent = boolean(self._settings.only_text(persistent))
        if not is_persistent and persistent is not None:
            if adapter is not None:
                self._findings.error(
                    persistent.place,
                    f'persistent="false" and a <persistenceAdapter> in line {adapter.place.line}: remove one of them',
                )
                return
            self._options.url = "memory:"
            self._findings.use("store.url", "memory:", persistent.place, "<broker> persistent")
        elif adapter is not None:
            with self._findings.errors_at(adapter.place):
                read_store(self._settings, self._options, adapter, is_url_given="store.url" in self._overridden)
        elif "persistenceFactory" in self._examined.bean.settings:
            self._factory(self._examined.bean.settings["persistenceFactory"])
        elif "store.url" not in self._overridden:
            self._findings.error(
                place,
                "<broker> has no <persistenceAdapter>, which for ActiveMQ is a KahaDB in"
                " DATADIRECTORY/BROKERNAME/KahaDB: write"
                ' <persistenceAdapter><kahaDB directory="…"/></persistenceAdapter> with that directory,'
                ' or persistent="false"',
            )
        version = self._open.get("storeOpenWireVersion")
        if version is not None:
            with self._findings.errors_at(version.place):
                self._wire_version(version)

    def _wire_version(self, setting: Setting) -> None:
        number = integer(self._settings.only_text(setting))
        if self._options.url.startswith("kahadb:"):
            given = Given(number, setting.place, f"<broker> {setting.name}")
            self._options.take("kahadb.store_open_wire_version", given)
        elif number != STORE_VERSION:
            raise PlacedError(
                setting.place, f"<broker> {setting.name}={number}: a database has messages of version {STORE_VERSION}"
            )

    def _factory(self, setting: Setting) -> None:
        """The reason why a journal is refused stands with the journal."""
        for value in setting.values:
            if isinstance(value, Bean) and (kind := kind_named(value.kind)) is not None and kind.refused:
                self._findings.error(value.place, f"{value.label} is not supported: {kind.refused}")

    def _limits(self, setting: Setting) -> None:
        examined = self._settings.examine(self._settings.only_bean(setting), ("systemUsage",))
        if "memoryUsage" in examined.open:
            usage = self._settings.examine(self._settings.only_bean(examined.open["memoryUsage"]), ("memoryUsage",))
            self._options.take_all(usage.given)

    def _failure(self, setting: Setting) -> None:
        """What ActiveMQ's handler of failures does, in our words."""
        examined = self._settings.examine(self._settings.only_bean(setting), _HANDLERS)
        is_lease = examined.kind.name != "defaultIOExceptionHandler"
        flags: dict[str, bool] = {}
        place = examined.bean.place
        for name in ("ignoreAllErrors", "ignoreSQLExceptions", "stopStartConnectors"):
            if name in examined.open:
                flags[name] = boolean(self._settings.only_text(examined.open[name]))
                place = examined.open[name].place
        is_ignored = flags.get("ignoreSQLExceptions")
        if flags.get("ignoreAllErrors") or is_ignored:
            reaction = "ignore"
        elif flags.get("stopStartConnectors", is_lease):
            reaction = "suspend"
        else:
            reaction = "stop" if is_lease or is_ignored is False else "ignore"
        self._options.take("broker.on_store_failure", Given(reaction, place, examined.bean.label))
        if "resumeCheckSleepPeriod" in examined.open:
            period = examined.open["resumeCheckSleepPeriod"]
            time_ms = integer(self._settings.only_text(period))
            given = Given(time_ms / 1000, period.place, f"{examined.bean.label} {period.name}")
            self._options.take("broker.resume_check_sleep_s", given)

    def _connectors(self) -> None:
        setting = self._open.get("transportConnectors")
        is_found = False
        if setting is not None:
            with self._findings.errors_at(setting.place):
                has_certificate = "sslContext" in self._open or "tls.certificate" in self._overridden
                is_found = read_connectors(self._settings, self._options, setting, has_certificate=has_certificate)
        if is_found or "broker.bind" in self._overridden:
            return
        if setting is None:
            place, what = self._examined.bean.place, f"add <transportConnectors>{EXAMPLE}</transportConnectors>"
        else:
            place, what = setting.place, f"add {EXAMPLE}"
        self._findings.error(place, f"no connector that is served, so nobody could connect: {what}")
