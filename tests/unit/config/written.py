"""Configuration files for tests, written and read."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path

from jdbcstore.config.activemq_xml.reader import ActiveMqXml, read_activemq_xml

__all__ = ["POSTGRESQL", "STOMP", "document", "errors", "options", "read", "warnings"]

POSTGRESQL = """<bean id="ds" class="org.apache.commons.dbcp2.BasicDataSource">
<property name="url" value="jdbc:postgresql://db/activemq"/>
<property name="username" value="joe"/><property name="password" value="secret"/></bean>"""
STORE = '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#ds"/></persistenceAdapter>'
STOMP = '<transportConnectors><transportConnector uri="stomp://0.0.0.0:61613"/></transportConnectors>'


def document(
    inside: str = "", *, attributes: str = "", store: str = STORE, connectors: str = STOMP, beans: str = POSTGRESQL
) -> str:
    """A file with one broker. Without arguments nothing is wrong with it, and nothing to warn of."""
    return f"""<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:p="http://www.springframework.org/schema/p" xmlns:context="http://www.springframework.org/schema/context"
    xmlns:amq="http://activemq.apache.org/schema/core">
{beans}
<broker xmlns="http://activemq.apache.org/schema/core" {attributes}>
{store}
{connectors}
{inside}
</broker>
</beans>"""


def read(
    folder: Path, text: str, environment: Mapping[str, str] | None = None, overridden: Set[str] = frozenset()
) -> ActiveMqXml:
    """Write a file as ``conf/activemq.xml`` into a folder and read it."""
    path = folder / "conf" / "activemq.xml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return read_activemq_xml(path, environment or {}, overridden)


def options(xml: ActiveMqXml) -> dict[str, str]:
    """The options that lines of the file gave, with their values for people."""
    assert not xml.findings.errors, errors(xml)
    return {used.option: used.value for used in xml.findings.used}


def errors(xml: ActiveMqXml) -> list[str]:
    """What keeps the broker from starting."""
    return [str(finding) for finding in xml.findings.errors]


def warnings(xml: ActiveMqXml) -> list[str]:
    """What is not as the file says."""
    return [str(finding) for finding in xml.findings.warnings]
