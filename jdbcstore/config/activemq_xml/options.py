"""Collects values for our options and builds the `Configuration`; what an option refuses is told with its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jdbcstore.broker.destination_policy import DestinationPolicy, RedeliveryPolicy
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.security.authorization import AuthorizationMap
from jdbcstore.broker.security.login import LoginStack
from jdbcstore.broker.virtual_destinations import VirtualDestinations
from jdbcstore.config.activemq_xml.findings import Findings, Place
from jdbcstore.config.activemq_xml.settings import Given
from jdbcstore.config.configuration import DEFAULT_URL, Configuration
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.transport.tls import TlsOptions

__all__ = ["Options"]

Table = TypeVar("Table", BrokerOptions, JdbcOptions, KahaDBOptions, LockerOptions, TlsOptions)


@dataclass(slots=True)
class Options:
    """Values for our options, by their names with their tables.

    Args:
        findings: takes what is to be told.
        whole: where a combination of values is wrong rather than one of them.
    """

    findings: Findings
    whole: Place
    url: str = field(default=DEFAULT_URL, init=False)
    login_stack: LoginStack | None = field(default=None, init=False)
    encrypted_login_stack: LoginStack | None = field(default=None, init=False)
    authorization: AuthorizationMap | None = field(default=None, init=False)
    #: Whether somebody gives users who goes before the file.
    is_login_overridden: bool = field(default=False, init=False)
    policies: list[DestinationPolicy] = field(default_factory=list, init=False)
    redelivery_policies: list[RedeliveryPolicy] = field(default_factory=list, init=False)
    virtual_destinations: VirtualDestinations = field(default_factory=VirtualDestinations, init=False)
    #: Where the keys for TLS are, if the file says that.
    tls_place: Place | None = field(default=None, init=False)
    _given: dict[str, Given] = field(default_factory=dict, init=False)

    def take(self, option: str, given: Given, *, shown: str | None = None) -> None:
        """Use a value; a later one goes before.

        Args:
            option: for example ``broker.bind``.
            given: its value.
            shown: the value for people, if it is not for everybody's eyes.
        """
        self._given[option] = given
        self.findings.use(option, given.value if shown is None else shown, given.place, given.source)

    def take_all(self, given: Mapping[str, Given], *tables: str) -> None:
        """Use those of these values that are options of ours, or of some tables only."""
        for option, value in given.items():
            if option.startswith(tuple(f"{table}." for table in tables or ("broker", "tls", "store", "kahadb"))):
                self.take(option, value)

    def value(self, option: str) -> object:
        """The value of an option, None if nobody gave one."""
        return self._given[option].value if option in self._given else None

    def build(self) -> Configuration:
        """Everything together. What is wrong with it is told, and left at its default."""
        lock = self._built("store.lock", LockerOptions())
        store = self._built("store", JdbcOptions(lock=lock))
        return Configuration(
            url=self.url,
            broker=self._built("broker", BrokerOptions()),
            tls=self._built("tls", TlsOptions()),
            store=store,
            kahadb=self._built("kahadb", KahaDBOptions()),
            destination_policies=tuple(self.policies),
            redelivery_policies=tuple(self.redelivery_policies),
            login_stack=self.login_stack,
            encrypted_login_stack=self.encrypted_login_stack,
            authorization=self.authorization,
            virtual_destinations=self.virtual_destinations,
        )

    def _built(self, table: str, defaults: Table) -> Table:
        prefix, good = f"{table}.", {}
        for option, given in self._given.items():
            name = option.removeprefix(prefix)
            if not option.startswith(prefix) or "." in name or name == "url":
                continue
            errors = len(self.findings.errors)
            if table != "store.lock":  # whose values can only be judged together
                with self.findings.errors_at(given.place):
                    _replaced(defaults, {name: given.value})
            if len(self.findings.errors) == errors:
                good[name] = given.value
        with self.findings.errors_at(self._where(table)):
            return _replaced(defaults, good)
        return defaults

    def _where(self, table: str) -> Place:
        """The line to blame for values that do not go together: the first that gave one of them."""
        places = [given.place for option, given in self._given.items() if option.startswith(f"{table}.")]
        return min(places, default=self.whole)


def _replaced(defaults: Table, values: dict[str, Any]) -> Table:
    return replace(defaults, **values)
