"""Options of several KahaDB stores: which there are, and how each is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Final

from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.option_values import as_boolean
from jdbcstore.store.journal.kahadb.options import ACTIVEMQ_OPTIONS, ActiveMQOption, KahaDBOptions
from jdbcstore.store.journal.mkahadb.filters import filters_of

__all__ = ["MKAHADB_OPTIONS", "MKahaDBOptions"]

#: All of a kahaDB, which are those of each store, and which stores there are.
MKAHADB_OPTIONS: Final[Mapping[str, ActiveMQOption]] = {
    **ACTIVEMQ_OPTIONS,
    "filters": ActiveMQOption("", str.strip, "filters"),
    "perDestination": ActiveMQOption("false", as_boolean, "per_destination"),
}
#: What there is one of for all stores.
_OF_ALL: Final = frozenset(
    {
        "use_lock",
        "lock_keep_alive_period_ms",
        "lock_acquire_sleep_interval_ms",
        "fail_if_database_is_locked",
        "store_open_wire_version",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MKahaDBOptions(KahaDBOptions):
    """How several KahaDB stores are kept.

    Args:
        filters: qualified names of destinations with wildcards, separated by commas: ``queue://A.>,topic://>``. Each
            has a store of its own, beside those that are there. What none takes has the store for everything. What
            stands behind a comma without ``queue://`` or ``topic://`` belongs to the filter before. A filter may have
            options of its own, by ActiveMQ's names: ``queue://A.>;journalMaxFileLength=16mb;cleanupInterval=0``.
        per_destination: what no filter takes has a store for each destination.

    Raises:
        ConfigurationError: a filter or an option that nothing can be done with.
    """

    store: ClassVar[str] = "mKahaDB"

    filters: str = ""
    per_destination: bool = False

    def __post_init__(self) -> None:
        KahaDBOptions.__post_init__(self)
        self.of_filters()

    def of_filters(self) -> dict[Destination, KahaDBOptions]:
        """How the store of each filter is kept."""
        return {pattern: self._of(pattern, given) for pattern, given in filters_of(self.filters).items()}

    def of_others(self) -> KahaDBOptions:
        """How all others are kept."""
        return KahaDBOptions(
            **{one.name: getattr(self, one.name) for one in fields(KahaDBOptions)} | {"use_lock": False}
        )

    def _of(self, pattern: Destination, given: Mapping[str, str]) -> KahaDBOptions:
        try:
            for name in given:
                if name in ACTIVEMQ_OPTIONS and ACTIVEMQ_OPTIONS[name].field in _OF_ALL:
                    raise ConfigurationError(f"{name} is one for all stores, give it without a filter")
            found, notes = KahaDBOptions.from_activemq(given, self.of_others())
        except ConfigurationError as error:
            raise ConfigurationError(f"the filter {pattern}: {error}") from None
        if notes:
            raise ConfigurationError(f"the filter {pattern}: {notes[0]}")
        return found

    @classmethod
    def activemq_options(cls) -> Mapping[str, ActiveMQOption]:
        return MKAHADB_OPTIONS
