"""Options of several KahaDB stores: which there are, and how each is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from jdbcstore.option_values import as_boolean
from jdbcstore.store.journal.kahadb.options import ACTIVEMQ_OPTIONS, ActiveMQOption, KahaDBOptions

__all__ = ["MKAHADB_OPTIONS", "MKahaDBOptions"]

#: All of a kahaDB, which are those of each store, and which stores there are.
MKAHADB_OPTIONS: Final[Mapping[str, ActiveMQOption]] = {
    **ACTIVEMQ_OPTIONS,
    "filters": ActiveMQOption("", str.strip, "filters"),
    "perDestination": ActiveMQOption("false", as_boolean, "per_destination"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MKahaDBOptions(KahaDBOptions):
    """How several KahaDB stores are kept.

    Args:
        filters: qualified names of destinations with wildcards, separated by commas: ``queue://A.>,topic://>``. Each
            has a store of its own, beside those that are there. What none takes has the store for everything.
        per_destination: what no filter takes has a store for each destination.
    """

    store: ClassVar[str] = "mKahaDB"

    filters: str = ""
    per_destination: bool = False

    @classmethod
    def activemq_options(cls) -> Mapping[str, ActiveMQOption]:
        return MKAHADB_OPTIONS
