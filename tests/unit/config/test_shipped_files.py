"""What ActiveMQ ships is read: used, warned of, or refused with its line; and nothing else happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jdbcstore.config.activemq_xml.reader import read_activemq_xml
from jdbcstore.destination import Queue, Topic
from tests.unit.config.written import errors, warnings

EXAMPLES = Path("/usr/share/doc/activemq/examples/conf")
INSTANCE = Path("/etc/activemq/instances-available/main/activemq.xml")
FILES = [
    "activemq-demo.xml",
    "activemq-dynamic-network-broker1.xml",
    "activemq-dynamic-network-broker2.xml",
    "activemq-jdbc-performance.xml",
    "activemq-jdbc.xml",
    "activemq-mqtt.xml",
    "activemq-scalability.xml",
    "activemq-security.xml",
    "activemq-specjms.xml",
    "activemq-static-network-broker1.xml",
    "activemq-static-network-broker2.xml",
    "activemq-stomp.xml",
    "activemq-throughput.xml",
    "activemq.xml",
]


def shipped(name: str) -> Path:
    path = EXAMPLES / name
    assert path.exists(), "ActiveMQ's examples are not installed: run `make test-servers`"
    return path


def lines_with(path: Path, what: str) -> list[int]:
    """The lines with a tag, comments apart."""
    text = re.sub(r"<!--.*?-->", lambda comment: "\n" * comment[0].count("\n"), path.read_text(), flags=re.DOTALL)
    return [number for number, line in enumerate(text.split("\n"), 1) if f"<{what}" in line]


def places(found: list[str], what: str) -> list[int]:
    return [int(text.split(":")[1]) for text in found if f"<{what}" in text]


@pytest.mark.parametrize("name", FILES)
def test_every_shipped_file_is_read(name: str) -> None:
    path = shipped(name)
    xml = read_activemq_xml(path, {})
    found = errors(xml) + warnings(xml)
    # No attribute of theirs is unknown, and each line is one of the file.
    assert not [text for text in found if " has no " in text and "dataSource" not in text]
    assert all(1 <= int(text.split(":")[1]) <= path.read_text().count("\n") + 1 for text in found)
    # The examples for databases have Derby.
    has_store = xml.configuration.url.startswith(("kahadb:/", "memory:"))
    assert has_store is not any("Derby" in text or "journal in front" in text for text in errors(xml))
    assert xml.configuration.url.startswith("kahadb:/") is bool(lines_with(path, "kahaDB"))
    for what in ("networkConnectors", "shutdownHooks"):
        assert places(warnings(xml), what) == lines_with(path, what)[:1]
    journal = "journalPersistenceAdapterFactory"
    assert places(errors(xml), journal) == lines_with(path, journal)
    has_one = re.search(r'uri="(stomp|tcp|nio|ws):', path.read_text()) is not None
    assert any("no connector that is served" in text for text in errors(xml)) is not has_one


def test_every_shipped_file_is_tried() -> None:
    assert {path.name for path in EXAMPLES.glob("activemq*.xml")} == set(FILES)


def test_files_that_are_no_configuration_of_a_broker_are_refused() -> None:
    for name in ("jetty.xml", "camel.xml", "jolokia-access.xml", "web.xml"):
        assert errors(read_activemq_xml(shipped(name), {}))


def test_the_example_for_stomp_lacks_nothing() -> None:
    xml = read_activemq_xml(shipped("activemq-stomp.xml"), {})
    assert errors(xml) == []
    assert Path(xml.configuration.url.removeprefix("kahadb:")).name == "kahadb"
    used = read_activemq_xml(shipped("activemq-stomp.xml"), {}, {"store.url"})
    assert errors(used) == []
    assert used.configuration.broker.bind == "0.0.0.0:61612, 0.0.0.0:61613"
    assert [policy.pattern for policy in used.configuration.destination_policies] == [Topic(">"), Queue(">")]
    assert not any(policy.producer_flow_control for policy in used.configuration.destination_policies)


def test_a_directory_for_an_index_is_no_store() -> None:
    xml = read_activemq_xml(shipped("activemq-static-network-broker1.xml"), {})
    policy = xml.configuration.destination_policies[0]
    assert policy.memory_limit_bytes == 20 << 20
    assert policy.dead_letter_strategy.kind == "individual"
    assert policy.dead_letter_strategy.queue_prefix == "DLQ."


def test_the_encrypted_passwords_of_the_example_for_security_are_errors() -> None:
    path = shipped("activemq-security.xml")
    encrypted = [text for text in errors(read_activemq_xml(path, {})) if "Jasypt" in text]
    users = [number for number, line in enumerate(path.read_text().splitlines(), 1) if "_password}" in line]
    assert len(encrypted) == 3
    assert users == []


def test_the_instance_of_the_distribution_lacks_nothing() -> None:
    assert INSTANCE.exists(), "ActiveMQ is not installed: run `make test-servers`"
    xml = read_activemq_xml(INSTANCE, {})
    assert errors(xml) == []
    assert xml.configuration.broker.bind == "openwire://127.0.0.1:61616"


OTHERWISE_REFUSED = {
    "activemq-demo.xml": ["cannot read"],  # the key store that it names
    "activemq-security.xml": ["Jasypt", "Jasypt", "Jasypt"],
    "activemq-specjms.xml": ["deleteAllMessagesOnStartup"],
    "activemq.xml": ["stop the old broker cleanly", "<persistenceFactory>"],
}


@pytest.mark.parametrize("path", [*(EXAMPLES / name for name in FILES), INSTANCE], ids=lambda path: path.name)
def test_with_a_url_and_an_address_nearly_every_shipped_file_starts_a_broker(path: Path) -> None:
    xml = read_activemq_xml(path, {}, {"store.url", "broker.bind"})
    refused = OTHERWISE_REFUSED.get(path.name, []) if path != INSTANCE else []
    assert len(errors(xml)) == len(refused)
    assert all(any(what in error for error in errors(xml)) for what in refused)
    assert xml.configuration.store.locker == "lease"
