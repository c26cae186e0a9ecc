"""The table: every element and attribute of ActiveMQ's configuration that is known here, and what becomes of it.

An attribute that is in no table is an error, so that a misspelt option is never lost in silence. `docs/activemq-xml.md`
is written from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jdbcstore.config.activemq_xml.vocabulary.broker import BROKER_KINDS
from jdbcstore.config.activemq_xml.vocabulary.data_sources import DATA_SOURCE_KINDS
from jdbcstore.config.activemq_xml.vocabulary.entry import Kind
from jdbcstore.config.activemq_xml.vocabulary.interceptors import INTERCEPTOR_KINDS
from jdbcstore.config.activemq_xml.vocabulary.policies import POLICY_KINDS
from jdbcstore.config.activemq_xml.vocabulary.security import PLUGIN_KINDS
from jdbcstore.config.activemq_xml.vocabulary.stores import STORE_KINDS

__all__ = ["KINDS", "kind_named"]

#: By the name of the element, or of the class of a data source.
KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kinds in (BROKER_KINDS, STORE_KINDS, POLICY_KINDS, INTERCEPTOR_KINDS, PLUGIN_KINDS, DATA_SOURCE_KINDS)
    for kind in kinds
}
_CLASSES: Final = {name: kind for kind in KINDS.values() for name in kind.classes}


def kind_named(name: str) -> Kind | None:
    """The kind of an element or of a Java class; None if neither is known."""
    return KINDS.get(name) or _CLASSES.get(name)
