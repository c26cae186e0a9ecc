"""``<broker>``: its attributes, connectors, limits, plugins, policies and handlers become our options."""

from __future__ import annotations

import socket
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.broker.destination_policy import DeadLetterStrategy, DestinationPolicy, RedeliveryPolicy
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.security.authorization import Action
from jdbcstore.broker.security.login import Credentials
from jdbcstore.config.activemq_xml.reader import ActiveMqXml
from jdbcstore.config.configuration import Configuration
from jdbcstore.destination import Queue, TempQueue, Topic
from jdbcstore.errors import LoginRefused
from jdbcstore.transport.tls import TlsOptions
from tests.certificates import Authority
from tests.unit.config.written import STOMP, document, errors, options, read, warnings


def connector(uri: str, attributes: str = "") -> str:
    return f'<transportConnectors>\n<transportConnector uri="{uri}" {attributes}/>\n</transportConnectors>'


def test_a_file_without_anything_special_needs_no_word(tmp_path: Path) -> None:
    xml = read(tmp_path, document())
    assert options(xml) == {
        "store.url": "postgresql://joe:***@db:5432/activemq",
        "store.locker": "database",
        "broker.bind": "0.0.0.0:61613",
    }
    assert warnings(xml) == []
    assert xml.configuration.url == "postgresql://joe:secret@db:5432/activemq"
    assert xml.configuration.broker == BrokerOptions(bind="0.0.0.0:61613")


@pytest.mark.parametrize(
    ("attributes", "option", "value"),
    [
        ('brokerName="b1"', "broker.broker_name", "b1"),
        ('useLocalHostBrokerName="true"', "broker.broker_name", socket.gethostname()),
        ('brokerName="b1" useLocalHostBrokerName="false"', "broker.broker_name", "b1"),
    ],
)
def test_a_broker_has_a_name(tmp_path: Path, attributes: str, option: str, value: str) -> None:
    assert options(read(tmp_path, document(attributes=attributes)))[option] == value


@pytest.mark.parametrize("value", ["true", "false"])
def test_whether_messages_are_scheduled(tmp_path: Path, value: str) -> None:
    xml = read(tmp_path, document(attributes=f'schedulerSupport="{value}"'))
    assert xml.configuration.broker.scheduler_support is (value == "true")
    assert warnings(xml) == []


def test_what_is_not_persistent_is_in_memory(tmp_path: Path) -> None:
    xml = read(tmp_path, document(attributes='persistent="false"', store="", beans=""))
    assert xml.configuration.url == "memory:"
    assert not xml.findings.found


def test_a_broker_cannot_be_persistent_and_not(tmp_path: Path) -> None:
    assert errors(read(tmp_path, document(attributes='persistent="false"'))) == [
        'activemq.xml:7: persistent="false" and a <persistenceAdapter> in line 8: remove one of them'
    ]


def test_a_store_has_to_be_named(tmp_path: Path) -> None:
    (error,) = errors(read(tmp_path, document(store="")))
    assert error.startswith("activemq.xml:7: <broker> has no <persistenceAdapter>, which for ActiveMQ is a KahaDB")


@pytest.mark.parametrize(
    ("attribute", "line"),
    [
        ('useJmx="true"', '<broker> useJmx="true" is not used: there is no JMX'),
        ('dataDirectory="${activemq.data}"', '<broker> dataDirectory="${activemq.data}" is not used'),
    ],
)
def test_what_has_no_meaning_here_is_a_warning(tmp_path: Path, attribute: str, line: str) -> None:
    (warning,) = warnings(read(tmp_path, document(attributes=f"\n  {attribute}")))
    assert warning.startswith(f"activemq.xml:8: {line}")


@pytest.mark.parametrize(
    "attribute",
    [
        'deleteAllMessagesOnStartup="true"',
        'start="false"',
    ],
)
def test_what_would_be_something_else_is_an_error(tmp_path: Path, attribute: str) -> None:
    (error,) = errors(read(tmp_path, document(attributes=attribute)))
    assert error.startswith(f"activemq.xml:7: <broker> {attribute} is not supported: ")


def test_a_database_has_one_wire_version(tmp_path: Path) -> None:
    (error,) = errors(read(tmp_path, document(attributes='storeOpenWireVersion="6"')))
    assert error == "activemq.xml:7: <broker> storeOpenWireVersion=6: a database has messages of version 11"


@pytest.mark.parametrize(
    "attribute",
    [
        'useJmx="false"',
        'deleteAllMessagesOnStartup="false"',
        'start="true"',
        'storeOpenWireVersion="11"',
        'persistent="true"',
    ],
)
def test_what_is_so_anyway_needs_no_word(tmp_path: Path, attribute: str) -> None:
    assert not read(tmp_path, document(attributes=attribute)).findings.found


def test_elements_without_meaning_are_one_warning_each(tmp_path: Path) -> None:
    inside = """<networkConnectors>
  <networkConnector uri="static:(tcp://other:61616)" duplex="true"/>
</networkConnectors>
<managementContext><managementContext createConnector="false"/></managementContext>"""
    found = warnings(read(tmp_path, document(inside)))
    assert [text.partition(";")[0] for text in found] == [
        "activemq.xml:10: <networkConnectors> is not supported: no network of brokers",
        "activemq.xml:13: <managementContext> is not supported: there is no JMX",
    ]


def test_a_misspelt_attribute_is_an_error_that_knows_better(tmp_path: Path) -> None:
    xml = read(tmp_path, document("<transportConnector/>", attributes='brokrName="x"'))
    assert errors(xml) == [
        "activemq.xml:7: <broker> has no brokrName, did you mean brokerName?",
        "activemq.xml:10: <broker> has no transportConnector, did you mean transportConnectors?",
    ]


def test_the_same_twice_is_an_error(tmp_path: Path) -> None:
    assert errors(read(tmp_path, document(STOMP))) == [
        "activemq.xml:10: <broker> has transportConnectors twice, the first time in line 9"
    ]


@pytest.mark.parametrize(
    ("brokers", "what"), [("", "there is no <broker"), ("<amq:broker/><amq:broker/>", "2 brokers")]
)
def test_a_file_has_one_broker(tmp_path: Path, brokers: str, what: str) -> None:
    text = f'<beans xmlns="http://www.springframework.org/schema/beans" xmlns:amq="http://activemq.apache.org/schema/core">{brokers}</beans>'
    (error,) = errors(read(tmp_path, text))
    assert error.startswith(f"activemq.xml:1: {what}")


def test_a_broker_without_its_namespace_is_told_what_to_write(tmp_path: Path) -> None:
    text = document().replace('xmlns="http://activemq.apache.org/schema/core" ', "")
    assert any(
        '<broker xmlns="http://activemq.apache.org/schema/core"' in error for error in errors(read(tmp_path, text))
    )


def test_a_broker_may_be_the_whole_file_and_have_the_namespace_of_old(tmp_path: Path) -> None:
    xml = read(tmp_path, f'<broker xmlns="http://activemq.org/config/1.0" persistent="false">{STOMP}</broker>')
    assert options(xml)["broker.bind"] == "0.0.0.0:61613"


def test_a_broker_may_be_a_bean_of_its_class(tmp_path: Path) -> None:
    text = """<beans xmlns="http://www.springframework.org/schema/beans">
<bean class="org.apache.activemq.broker.BrokerService"><property name="persistent" value="false"/>
<property name="transportConnectors"><list>
<bean class="org.apache.activemq.broker.TransportConnector"><property name="uri"><value>stomp://h:1</value></property></bean>
</list></property></bean></beans>"""
    assert options(read(tmp_path, text)) == {"store.url": "memory:", "broker.bind": "h:1"}


# -- connectors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "bind"),
    [
        ("stomp://0.0.0.0:61613", "0.0.0.0:61613"),
        ("stomp+nio://localhost:61613?", "localhost:61613"),
        ("stomp://[::1]:61613", "[::1]:61613"),
        ("stomp://:61613/", ":61613"),
        ("tcp://0.0.0.0:61616", "openwire://0.0.0.0:61616"),
        ("auto://0.0.0.0:61616", "auto://0.0.0.0:61616"),
        ("auto+nio://0.0.0.0:5671?auto.protocols=mqtt,stomp", "0.0.0.0:5671"),
    ],
)
def test_the_broker_listens_where_the_connector_says(tmp_path: Path, uri: str, bind: str) -> None:
    assert read(tmp_path, document(connectors=connector(uri))).configuration.broker.bind == bind


def test_parameters_of_a_connector_become_options(tmp_path: Path) -> None:
    uri = (
        "stomp://0.0.0.0:61613?maximumConnections=1000&amp;wireFormat.maxFrameSize=10mb&amp;"
        "transport.hbGracePeriodMultiplier=1.5&amp;wireFormat.connectionAttemptTimeout=5000&amp;backlog=7&amp;transport.trace=false&amp;transport.defaultHeartBeat=0,5000"
    )
    attributes = 'maximumConsumersAllowedPerConnection="9" maximumProducersAllowedPerConnection="8"'
    xml = read(tmp_path, document(connectors=connector(uri, attributes)))
    assert xml.configuration.broker == BrokerOptions(
        bind="0.0.0.0:61613",
        default_heart_beat="0,5000",
        connections_max=1000,
        body_bytes_max=10 << 20,
        heart_beat_grace=1.5,
        connect_timeout_s=5.0,
        backlog_max=7,
        subscriptions_max=9,
        producers_max=8,
    )
    assert warnings(xml) == []


def test_the_distributions_own_connectors(tmp_path: Path) -> None:
    end = "?maximumConnections=1000&amp;wireFormat.maxFrameSize=104857600"
    uris = {"tcp": 61616, "amqp": 5672, "stomp": 61613, "mqtt": 1883, "ws": 61614}
    lines = "\n".join(
        f'<transportConnector name="{scheme}" uri="{scheme}://0.0.0.0:{port}{end}"/>' for scheme, port in uris.items()
    )
    xml = read(tmp_path, document(connectors=f"<transportConnectors>\n{lines}\n</transportConnectors>"))
    bind = "openwire://0.0.0.0:61616, 0.0.0.0:61613, ws://0.0.0.0:61614"
    assert xml.configuration.broker == BrokerOptions(
        bind=bind, connections_max=1000, openwire_frame_bytes_max=104857600, body_bytes_max=104857600
    )
    assert warnings(xml) == [
        "activemq.xml:11: amqp://0.0.0.0:5672 is not served: STOMP and OpenWire are the only protocols",
        "activemq.xml:13: mqtt://0.0.0.0:1883 is not served: STOMP and OpenWire are the only protocols",
    ]


@pytest.mark.parametrize(
    ("uri", "expected", "warned"),
    [
        (
            "nio://h:1?wireFormat.maxFrameSize=5mb&wireFormat.maxInactivityDuration=0"
            "&wireFormat.maxInactivityDurationInitalDelay=7&wireFormat.cacheEnabled=true&maximumConnections=9",
            BrokerOptions(
                bind="openwire://h:1",
                openwire_frame_bytes_max=5 << 20,
                openwire_inactivity_ms=0,
                openwire_inactivity_initial_delay_ms=7,
                connections_max=9,
            ),
            [],
        ),
        (
            "tcp://h:1?wireFormat.tightEncodingEnabled=false",
            BrokerOptions(bind="openwire://h:1"),
            ["parameter wireFormat.tightEncodingEnabled of tcp://h:1 is not used: each client chooses it"],
        ),
        (
            "auto+nio://h:1?wireFormat.maxFrameSize=5mb&wireFormat.stomp.maxDataLength=5mb&protocolDetectionTimeOut=9000",
            BrokerOptions(
                bind="auto://h:1", openwire_frame_bytes_max=5 << 20, body_bytes_max=5 << 20, connect_timeout_s=9.0
            ),
            ["auto+nio://h:1: STOMP and OpenWire clients are served, no others"],
        ),
        (
            "auto://h:1?auto.protocols=default,stomp",
            BrokerOptions(bind="auto://h:1"),
            ["auto://h:1: STOMP and OpenWire clients are served, no others"],
        ),
        (
            "auto://h:1?auto.protocols=default,mqtt&wireFormat.default.maxInactivityDuration=5",
            BrokerOptions(bind="openwire://h:1", openwire_inactivity_ms=5),
            ["auto://h:1: OpenWire clients are served, no others"],
        ),
        (
            "ws://h:1?websocket.maxTextMessageSize=1000&wireFormat.maxFrameSize=5mb",
            BrokerOptions(bind="ws://h:1", body_bytes_max=5 << 20),
            ["parameter websocket.maxTextMessageSize of ws://h:1 is not used: broker.body_bytes_max bounds"],
        ),
    ],
)
def test_connectors_of_all_kinds(tmp_path: Path, uri: str, expected: BrokerOptions, warned: list[str]) -> None:
    xml = read(tmp_path, document(connectors=connector(uri.replace("&", "&amp;"))))
    assert errors(xml) == []
    assert xml.configuration.broker == expected
    found = [text.removeprefix("activemq.xml:10: ") for text in warnings(xml)]
    assert [text[: len(start)] for text, start in zip(found, warned, strict=True)] == warned


@pytest.mark.parametrize(
    ("scheme", "bind"),
    [
        ("ssl", "openwire+ssl"),
        ("nio+ssl", "openwire+ssl"),
        ("auto+ssl", "auto+ssl"),
        ("auto+nio+ssl", "auto+ssl"),
        ("wss", "wss"),
    ],
)
def test_connectors_with_tls_of_all_kinds(tmp_path: Path, scheme: str, bind: str) -> None:
    text = document(connectors=connector(f"{scheme}://h:1"))
    assert read(tmp_path, text, overridden={"tls.certificate"}).configuration.broker.bind == f"{bind}://h:1"
    assert any("there is no certificate" in warning for warning in warnings(read(tmp_path, text)))


@pytest.mark.parametrize(
    "uri",
    [
        "mqtt://0.0.0.0:1883",
        "ssl://0.0.0.0:61617",
        "stomp+ssl://0.0.0.0:61614",
        "stomp+nio+ssl://h:1",
        "auto://h:1?auto.protocols=mqtt",
    ],
)
def test_without_a_connector_that_is_served_the_file_says_what_to_add(tmp_path: Path, uri: str) -> None:
    text = document(connectors=connector(uri))
    xml = read(tmp_path, text)
    assert errors(xml) == [
        "activemq.xml:9: no connector that is served, so nobody could connect: add"
        ' <transportConnector name="stomp" uri="stomp://0.0.0.0:61613"/>'
    ]
    assert warnings(xml)[0].startswith(f"activemq.xml:10: {uri.partition('?')[0].partition('://')[0]}")
    assert errors(read(tmp_path, text, overridden={"broker.bind"})) == []


def test_without_connectors_the_file_says_what_to_add(tmp_path: Path) -> None:
    (error,) = errors(read(tmp_path, document(connectors="")))
    assert "add <transportConnectors><transportConnector" in error


def test_all_connectors_for_stomp_are_served_and_have_one_set_of_options(tmp_path: Path) -> None:
    lines = """<transportConnector uri="stomp://h:1?transport.keepAlive=false"/>
<transportConnector uri="stomp+nio://h:2?transport.keepAlive=true&amp;transport.soWriteTimeout=5000"
  allowLinkStealing="true"/>"""
    xml = read(tmp_path, document(connectors=f"<transportConnectors>{lines}</transportConnectors>"))
    assert warnings(xml) == [
        "activemq.xml:10: parameter transport.keepAlive of stomp+nio://h:2 is not used: all connectors have one"
        " broker.keep_alive, which is False"
    ]
    assert xml.configuration.broker == BrokerOptions(
        bind="h:1, h:2", keep_alive=False, write_timeout_s=5.0, allow_link_stealing=True
    )


# -- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with broker.p12, broker.pem (certificate and key), broker.jks and test-authority.pem."""
    folder = tmp_path_factory.mktemp("keys")
    authority = Authority(folder)
    identity = authority.identity("broker")
    identity.pkcs12("changeit", [authority.certificate])
    identity.certificate.write_bytes(identity.certificate.read_bytes() + identity.key.read_bytes())
    (folder / "broker.jks").write_bytes(b"\xfe\xed\xfe\xed")
    return folder


TLS_CONNECTORS = """<transportConnectors><transportConnector uri="stomp://127.0.0.1:1"/>
<transportConnector uri="stomp+nio+ssl://0.0.0.0:2?needClientAuth=true&amp;transport.enabledProtocols=TLSv1.3,TLSv1.2,TLSv1.1&amp;transport.enabledCipherSuites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"/>
</transportConnectors>"""


def ssl_context(attributes: str) -> str:
    return f"<sslContext><sslContext {attributes}/></sslContext>"


def test_tls_has_its_keys_from_the_ssl_context(tmp_path: Path, keys: Path) -> None:
    context = ssl_context(
        f'keyStore="file:{keys}/broker.p12" keyStorePassword="changeit" keyStoreType="PKCS12"'
        f' trustStore="{keys}/test-authority.pem" trustStoreType="PEM"'
    )
    xml = read(tmp_path, document(context, connectors=TLS_CONNECTORS))
    assert errors(xml) == []
    (warning,) = warnings(xml)
    assert "TLSv1.1 is not safe and not served" in warning
    assert xml.configuration.broker.bind == "127.0.0.1:1, stomp+ssl://0.0.0.0:2"
    assert xml.configuration.tls == TlsOptions(
        certificate=f"{keys}/broker.p12",
        key_password="changeit",
        ca=f"{keys}/test-authority.pem",
        client_certificate="required",
        ciphers="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    )
    assert "changeit" not in str(xml.findings.used)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ('keyStore="{keys}/broker.jks"', "keytool -importkeystore -srckeystore {keys}/broker.jks"),
        ('keyStore="{keys}/nowhere.p12"', "cannot read {keys}/nowhere.p12: No such file or directory"),
        ('keyStore="{keys}/broker.p12" keyStorePassword="wrong"', "its password is wrong"),
        ('keyStore="{keys}/broker.pem"', "needs tls.ca"),
        ('keyStore="{keys}/broker.pem" trustStore="{keys}/test-authority.pem" crlPath="x"', "revoked"),
    ],
)
def test_keys_that_cannot_be_used_are_errors_with_their_line(
    tmp_path: Path, keys: Path, attributes: str, said: str
) -> None:
    context = ssl_context(attributes.format(keys=keys))
    connectors = TLS_CONNECTORS if "tls.ca" in said else connector("stomp+ssl://h:1")
    found = errors(read(tmp_path, document(context, connectors=connectors)))
    assert len(found) == 1
    assert found[0].startswith("activemq.xml:")
    assert said.format(keys=keys) in found[0]


def test_tls_without_keys_is_not_served(tmp_path: Path) -> None:
    xml = read(tmp_path, document(connectors=TLS_CONNECTORS))
    assert xml.configuration.broker.bind == "127.0.0.1:1"
    assert any("0.0.0.0:2 is not served: there is no certificate, write <sslContext>" in text for text in warnings(xml))
    xml = read(tmp_path, document(connectors=TLS_CONNECTORS), overridden={"tls.certificate"})
    assert xml.configuration.broker.bind == "127.0.0.1:1, stomp+ssl://0.0.0.0:2"


@pytest.mark.parametrize("versions", ["TLSv1.1,TLSv1", "TLSv9", "x"])
def test_versions_that_are_not_safe_are_not_all(tmp_path: Path, keys: Path, versions: str) -> None:
    connectors = connector(f"stomp+ssl://h:1?transport.enabledProtocols={versions}")
    (error,) = errors(read(tmp_path, document(ssl_context(f'keyStore="{keys}/broker.pem"'), connectors=connectors)))
    assert "TLSv1.2, TLSv1.3" in error


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        (
            "stomp://h:1?maximumConnection=3",
            "maximumConnection of stomp://h:1 is not known, did you mean maximumConnections?",
        ),
        ("stomp://h:1?maximumConnections=many", "'many' is not a whole number"),
        ("stomp://h:1?maximumConnections=0", "connections_max must be a whole number of at least 1"),
        ("stomp://h:1?needClientAuth=true", "no client certificate is asked for"),
        (
            "tcp://h:1?transport.defaultHeartBeat=1,1",
            "transport.defaultHeartBeat of tcp://h:1 is not known",
        ),
        ("tcp://h:1?wireFormat.sizePrefixDisabled=true", "frames without a size cannot be bounded"),
        ("tcp://h:1?wireFormat.maxInactivityDuration=soon", "'soon' is not a whole number"),
        ("stomp://h:99999", "'h:99999' is not an address"),
        ("stomp://h", "has no port"),
        ("stomp:h:1", "is not PROTOCOL://HOST:PORT"),
    ],
)
def test_a_connector_that_is_wrong_is_an_error(tmp_path: Path, uri: str, what: str) -> None:
    found = errors(read(tmp_path, document(connectors=connector(uri)), overridden={"broker.bind"}))
    assert len(found) == 1
    assert found[0].startswith("activemq.xml:10: ")
    assert what in found[0]


# -- limits ----------------------------------------------------------------------------------------------------------


def test_limits_of_memory_are_used_and_those_of_disks_told(tmp_path: Path) -> None:
    inside = """<systemUsage>
<systemUsage>
<memoryUsage><memoryUsage limit="64 mb"/></memoryUsage>
<storeUsage><storeUsage limit="100 gb"/></storeUsage>
<tempUsage><tempUsage limit="50 gb"/></tempUsage>
</systemUsage></systemUsage>"""
    xml = read(tmp_path, document(inside))
    assert xml.configuration.broker.memory_bytes_max == 64 << 20
    assert [text.partition(":")[2].partition(" is")[0] for text in warnings(xml)] == [
        "13: <storeUsage>",
        "14: <tempUsage>",
    ]


def test_a_share_of_a_java_heap_is_a_warning(tmp_path: Path) -> None:
    usage = '<memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>'
    inside = f"<systemUsage><systemUsage>{usage}</systemUsage></systemUsage>"
    (warning,) = warnings(read(tmp_path, document(inside)))
    assert "there is no Java heap" in warning


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "reaction"),
    [
        ("<defaultIOExceptionHandler/>", "ignore"),
        ('<defaultIOExceptionHandler ignoreAllErrors="true"/>', "ignore"),
        ('<defaultIOExceptionHandler ignoreSQLExceptions="false"/>', "stop"),
        ('<defaultIOExceptionHandler ignoreSQLExceptions="false" stopStartConnectors="true"/>', "suspend"),
        ('<defaultIOExceptionHandler stopStartConnectors="true"/>', "suspend"),
        ('<defaultIOExceptionHandler ignoreSQLExceptions="true" stopStartConnectors="true"/>', "ignore"),
        ("<leaseLockerIOExceptionHandler/>", "suspend"),
        ('<leaseLockerIOExceptionHandler stopStartConnectors="false"/>', "stop"),
        ('<leaseLockerIOExceptionHandler ignoreSQLExceptions="true"/>', "ignore"),
        ("<jDBCIOExceptionHandler/>", "suspend"),
        (
            '<bean xmlns="http://www.springframework.org/schema/beans"'
            ' class="org.apache.activemq.util.LeaseLockerIOExceptionHandler"/>',
            "suspend",
        ),
    ],
)
def test_a_handler_of_failures_becomes_what_the_broker_does(tmp_path: Path, handler: str, reaction: str) -> None:
    xml = read(tmp_path, document(f"<ioExceptionHandler>{handler}</ioExceptionHandler>"))
    assert options(xml)["broker.on_store_failure"] == reaction


def test_a_handler_says_how_often_to_look(tmp_path: Path) -> None:
    handler = '<leaseLockerIOExceptionHandler resumeCheckSleepPeriod="2500"/>'
    xml = read(tmp_path, document(f"<ioExceptionHandler>{handler}</ioExceptionHandler>"))
    assert xml.configuration.broker.resume_check_sleep_s == 2.5


# -- plugins ---------------------------------------------------------------------------------------------------------


def plugins(inside: str) -> str:
    return document(f"<plugins>\n{inside}\n</plugins>")


def test_users_are_let_in(tmp_path: Path) -> None:
    inside = """<simpleAuthenticationPlugin anonymousAccessAllowed="true"><users>
<authenticationUser username="system" password="${pw:manager}" groups="users,admins"/>
<authenticationUser username="guest" password="#1"/>
</users></simpleAuthenticationPlugin>"""
    xml = read(tmp_path, plugins(inside))
    assert groups_of(xml, "system", "manager") == {"users", "admins", "*"}
    assert groups_of(xml, "guest", "#1") == set()
    assert groups_of(xml, None, None) == {"anonymous", "*"}
    for login, passcode in [("system", "no"), ("nobody", None), (None, "x")]:
        with pytest.raises(LoginRefused):
            groups_of(xml, login, passcode)
    assert options(xml)["broker.users"] == "system, guest"
    assert warnings(xml) == []


def test_without_users_nobody_is_let_in(tmp_path: Path) -> None:
    xml = read(tmp_path, plugins("<simpleAuthenticationPlugin/>"))
    with pytest.raises(LoginRefused):
        groups_of(xml, None, None)


def groups_of(
    xml: ActiveMqXml, login: str | None, passcode: str | None, subject: str | None = None, *, is_encrypted: bool = False
) -> Set[str]:
    configuration = xml.configuration
    stack = configuration.encrypted_login_stack if is_encrypted else configuration.login_stack
    assert stack is not None
    return stack.login(Credentials(login, passcode, subject, is_encrypted)).principal.groups


LOGIN_CONFIG = """
/* users of
   the broker */
activemq {
    org.apache.activemq.jaas.GuestLoginModule sufficient
        debug=true credentialsInvalidate=true
        org.apache.activemq.jaas.guest.user="visitor"
        org.apache.activemq.jaas.guest.group="visitors";
    org.apache.activemq.jaas.PropertiesLoginModule requisite // comment
        org.apache.activemq.jaas.properties.user="users.properties"
        org.apache.activemq.jaas.properties.group="${activemq.conf}/groups.properties"
        reload=true;
};
certificates {
    org.apache.activemq.jaas.TextFileCertificateLoginModule required
        org.apache.activemq.jaas.textfiledn.user="dns.properties"
        org.apache.activemq.jaas.textfiledn.group="groups.properties";
};
ldap { org.apache.activemq.jaas.LDAPLoginModule required; };
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A folder with the files of JAAS in ``conf``."""
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "login.config").write_text(LOGIN_CONFIG)
    (folder / "users.properties").write_text("system=manager\nann=hers\n")
    (folder / "groups.properties").write_text("admins=system\nusers=system,ann,joe\n")
    (folder / "dns.properties").write_text("joe=CN=joe, O=Orders\n")
    return tmp_path


def test_the_modules_of_jaas_decide(conf: Path) -> None:
    xml = read(conf, plugins('<jaasAuthenticationPlugin configuration="activemq"/>'))
    assert errors(xml) == []
    assert groups_of(xml, "system", "manager") == {"admins", "users", "*"}
    assert groups_of(xml, "whoever", None) == {"visitors", "*"}
    with pytest.raises(LoginRefused):
        groups_of(xml, "system", "no")


def test_certificates_decide(conf: Path) -> None:
    xml = read(conf, plugins('<jaasCertificateAuthenticationPlugin configuration="certificates"/>'))
    assert groups_of(xml, None, None, "CN=joe, O=Orders") == {"users", "*"}
    with pytest.raises(LoginRefused):
        groups_of(xml, "system", "manager")


def test_clients_with_tls_may_have_modules_of_their_own(conf: Path) -> None:
    inside = '<jaasDualAuthenticationPlugin configuration="activemq" sslConfiguration="certificates"/>'
    xml = read(conf, plugins(inside))
    assert groups_of(xml, "ann", "hers") == {"users", "*"}
    assert groups_of(xml, None, None, "CN=joe, O=Orders", is_encrypted=True) == {"users", "*"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("activemq {", "the class of a module is expected, not the end"),
        ("activemq { org.x.Y required; };", "the module org.x.Y is not supported; there are PropertiesLoginModule"),
        ("activemq { a b; };", "login.config:1: 'b' is not required"),
        ("\nactivemq { a required b; };", "login.config:2: = is expected, not ;"),
        ('activemq { a required b="${nowhere}"; };', "nobody knows the system property ${nowhere}"),
        ("other-name { };", "login.config has no activemq; there are other-name"),
        ("activemq { org.apache.activemq.jaas.PropertiesLoginModule required; };", "needs org.apache.activemq.jaas"),
        ("activemq { org.apache.activemq.jaas.GuestLoginModule required x=y; };", "has no option x"),
        ('activemq { "', "cannot be read"),
        (
            "activemq { org.apache.activemq.jaas.PropertiesLoginModule required"
            ' org.apache.activemq.jaas.properties.user="nowhere"; };',
            "nowhere: No such file",
        ),
    ],
)
def test_what_is_wrong_in_login_config_is_told(conf: Path, text: str, told: str) -> None:
    (conf / "conf" / "login.config").write_text(text)
    (error,) = errors(read(conf, plugins('<jaasAuthenticationPlugin configuration="activemq"/>')))
    assert told in error


ENTRIES = """<simpleAuthenticationPlugin/><authorizationPlugin><map><authorizationMap>
<authorizationEntries>
<authorizationEntry queue=">" read="admins" write="admins,users" admin="admins"/>
<authorizationEntry topic="ActiveMQ.Advisory.>" read="*" write="*" admin="*"/>
<authorizationEntry tempQueue="true" read="users"/>
</authorizationEntries>
<defaultEntry><authorizationEntry queue="ignored" read="auditors"/></defaultEntry>
<tempDestinationAuthorizationEntry><tempDestinationAuthorizationEntry read="users" write="users" admin="users"/>
</tempDestinationAuthorizationEntry>
</authorizationMap></map></authorizationPlugin>"""


def test_authorisation_is_read(tmp_path: Path) -> None:
    xml = read(tmp_path, plugins(ENTRIES))
    assert errors(xml) == []
    assert [text.partition(" means")[0] for text in warnings(xml)] == [
        "activemq.xml:15: <authorizationEntry> tempQueue"
    ]
    found = xml.configuration.authorization
    assert found is not None
    assert found.groups(Action.WRITE, Queue("A")) == frozenset({"admins", "users"})
    assert found.groups(Action.READ, Queue("A")) == frozenset({"admins", "auditors"})
    assert found.groups(Action.ADMIN, Topic("ActiveMQ.Advisory.X")) == frozenset({"*"})
    assert found.groups(Action.ADMIN, Topic("X")) == frozenset()
    assert found.groups(Action.WRITE, TempQueue("X")) == frozenset({"users"})


@pytest.mark.parametrize(
    "plugin",
    [
        '<jaasAuthenticationPlugin configuration="activemq"/>',
        "<jaasCertificateAuthenticationPlugin/>",
        "<authorizationPlugin/>",
        "<simpleAuthenticationPlugin/><authorizationPlugin><map><cachedLDAPAuthorizationMap/></map></authorizationPlugin>",
        "<simpleAuthenticationPlugin/><authorizationPlugin><map><authorizationMap groupClass='org.x.Y'/></map>"
        "</authorizationPlugin>",
        "<simpleAuthenticationPlugin/><simpleAuthenticationPlugin/>",
        '<bean xmlns="http://www.springframework.org/schema/beans" class="org.example.Guard"/>',
        "<simpleAuthenticationPlugin><userPasswords/></simpleAuthenticationPlugin>",
        "<queue physicalName='A'/>",
    ],
)
def test_what_keeps_strangers_out_is_not_left_out(tmp_path: Path, plugin: str) -> None:
    (error,) = errors(read(tmp_path, plugins(plugin)))
    assert error.startswith("activemq.xml:11: ")


def test_authorisation_needs_users(tmp_path: Path) -> None:
    (error,) = errors(
        read(tmp_path, plugins("<authorizationPlugin><map><authorizationMap/></map></authorizationPlugin>"))
    )
    assert "needs users" in error


def test_other_plugins_are_warnings(tmp_path: Path) -> None:
    xml = read(tmp_path, plugins("<traceBrokerPathPlugin/>\n<forcePersistencyModeBrokerPlugin/>"))
    assert [text.partition(" is")[0] for text in warnings(xml)] == [
        "activemq.xml:11: <traceBrokerPathPlugin>",
        "activemq.xml:12: <forcePersistencyModeBrokerPlugin>",
    ]


def test_plugins_that_change_messages_are_options(tmp_path: Path) -> None:
    stamping = "<timeStampingBrokerPlugin zeroExpirationOverride='5000' ttlCeiling='60000' futureOnly='true'/>"
    forcing = "<bean class='org.apache.activemq.plugin.ForcePersistencyModeBrokerPlugin' xmlns=''>"
    forcing += "<property name='persistenceFlag' value='true'/></bean>"
    xml = read(tmp_path, plugins(stamping + forcing))
    assert warnings(xml) == []
    options = xml.configuration.broker
    assert options.time_stamping
    assert options.time_stamping_future_only
    assert options.force_persistent
    assert (options.zero_expiration_override_ms, options.ttl_ceiling_ms) == (5000, 60_000)


def test_names_with_other_separators_are_an_error(tmp_path: Path) -> None:
    (error,) = errors(read(tmp_path, plugins("<destinationPathSeparatorPlugin pathSeparator='/'/>")))
    assert "A/B is not A.B here" in error


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ("", "connections"),
        ("logConnectionEvents='false' logProducerEvents='true' logSessionEvents='true'", "producers"),
        ("logConsumerEvents='true' logTransactionEvents='true'", "connections consumers transactions"),
        ("logAll='true'", "connections consumers producers transactions internal"),
    ],
)
def test_what_clients_do_is_logged_if_the_file_says_so(tmp_path: Path, attributes: str, words: str) -> None:
    xml = read(tmp_path, plugins(f"<loggingBrokerPlugin {attributes}/>"))
    assert warnings(xml) == []
    assert xml.configuration.broker.log_events == words


def test_questions_about_the_broker_are_answered_if_the_file_says_so(tmp_path: Path) -> None:
    xml = read(tmp_path, plugins("<statisticsBrokerPlugin/>"))
    assert warnings(xml) == []
    assert xml.configuration.broker.statistics_support


# -- policies --------------------------------------------------------------------------------------------------------


def policies(inside: str) -> str:
    return document(
        f"<destinationPolicy><policyMap><policyEntries>\n{inside}\n</policyEntries></policyMap></destinationPolicy>"
    )


def test_policies_are_read(tmp_path: Path) -> None:
    inside = """<policyEntry queue="ORDERS.>" prioritizedMessages="true" maxPageSize="50" memoryLimit="5mb">
<deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ." processExpired="false"
processNonPersistent="true"/></deadLetterStrategy></policyEntry>
<policyEntry topic="PRICES.*" durableTopicPrefetch="7"/>"""
    xml = read(tmp_path, policies(inside))
    assert xml.configuration.destination_policies == (
        DestinationPolicy(
            pattern=Queue("ORDERS.>"),
            prioritized_messages=True,
            max_page_size=50,
            memory_limit_bytes=5 << 20,
            dead_letter_strategy=DeadLetterStrategy(
                kind="individual", queue_prefix="DLQ.", process_expired=False, process_non_persistent=True
            ),
        ),
        DestinationPolicy(pattern=Topic("PRICES.*"), durable_topic_prefetch=7),
    )
    assert not warnings(xml)


@pytest.mark.parametrize(
    ("inside", "fields"),
    [
        ('<policyEntry queue="A"/>', {}),
        (
            '<policyEntry queue="A"><messageGroupMapFactory><messageGroupHashBucketFactory bucketCount="7"/>'
            "</messageGroupMapFactory></policyEntry>",
            {"message_group_map": "bucket", "message_groups_max": 7},
        ),
        (
            '<policyEntry queue="A"><messageGroupMapFactory><simpleMessageGroupMapFactory/>'
            "</messageGroupMapFactory></policyEntry>",
            {"message_group_map": "simple"},
        ),
        (
            '<policyEntry queue="A"><messageGroupMapFactory><cachedMessageGroupMapFactory cacheSize="9"/>'
            "</messageGroupMapFactory></policyEntry>",
            {"message_groups_max": 9},
        ),
        (
            '<policyEntry queue="A" messageGroupMapFactoryType="bucket?bucketCount=12"/>',
            {"message_group_map": "bucket", "message_groups_max": 12},
        ),
        ('<policyEntry queue="A" messageGroupMapFactoryType="simple"/>', {"message_group_map": "simple"}),
        (
            '<policyEntry queue="A" useConsumerPriority="false" strictOrderDispatch="true" maxBrowsePageSize="5"/>',
            {"use_consumer_priority": False, "strict_order_dispatch": True, "max_browse_page_size": 5},
        ),
    ],
)
def test_groups_and_consumers_of_a_policy_are_read(tmp_path: Path, inside: str, fields: dict[str, Any]) -> None:
    xml = read(tmp_path, policies(inside))
    assert xml.configuration.destination_policies == (DestinationPolicy(pattern=Queue("A"), **fields),)
    assert not warnings(xml)


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        ("noSubscriptionRecoveryPolicy", {}),
        ("lastImageSubscriptionRecoveryPolicy", {"subscription_recovery": "last_image"}),
        ("fixedCountSubscriptionRecoveryPolicy", {"subscription_recovery": "fixed_count"}),
        (
            'fixedCountSubscriptionRecoveryPolicy maximumSize="7"',
            {"subscription_recovery": "fixed_count", "recovery_messages_max": 7},
        ),
        (
            'fixedSizedSubscriptionRecoveryPolicy maximumSize="7000" useSharedBuffer="false"',
            {"subscription_recovery": "fixed_size", "recovery_bytes_max": 7000},
        ),
        (
            'timedSubscriptionRecoveryPolicy recoverDuration="5000"',
            {"subscription_recovery": "timed", "recovery_ms": 5000},
        ),
    ],
)
def test_what_a_topic_keeps_is_read(tmp_path: Path, policy: str, fields: dict[str, Any]) -> None:
    written = f"<subscriptionRecoveryPolicy><{policy}/></subscriptionRecoveryPolicy>"
    xml = read(tmp_path, policies(f'<policyEntry topic="A">{written}</policyEntry>'))
    assert xml.configuration.destination_policies == (DestinationPolicy(pattern=Topic("A"), **fields),)
    assert not warnings(xml)


@pytest.mark.parametrize("kind", ["queryBased", "retainedMessage"])
def test_a_topic_that_keeps_what_messages_or_queries_say_keeps_nothing(tmp_path: Path, kind: str) -> None:
    written = f"<subscriptionRecoveryPolicy><{kind}SubscriptionRecoveryPolicy/></subscriptionRecoveryPolicy>"
    (warning,) = warnings(read(tmp_path, policies(f'<policyEntry topic="A">{written}</policyEntry>')))
    assert f"<{kind}SubscriptionRecoveryPolicy> is ignored" in warning


def test_a_slow_subscriber_is_disconnected_after_the_time_of_its_strategy(tmp_path: Path) -> None:
    strategy = '<abortSlowConsumerStrategy maxSlowDuration="5000"/>'
    entry = f'<policyEntry topic="A"><slowConsumerStrategy>{strategy}</slowConsumerStrategy></policyEntry>'
    xml = read(tmp_path, policies(entry))
    expected = DestinationPolicy(pattern=Topic("A"), slow_consumer_timeout_ms=5000)
    assert xml.configuration.destination_policies == (expected,)
    assert not warnings(xml)


@pytest.mark.parametrize(
    ("limit", "eviction", "fields"),
    [
        (
            'constantPendingMessageLimitStrategy limit="50"',
            "oldestMessageEvictionStrategy",
            {"pending_messages_max": 50},
        ),
        ('constantPendingMessageLimitStrategy limit="-1"', "", None),
        ("constantPendingMessageLimitStrategy", "", None),
        (
            'prefetchRatePendingMessageLimitStrategy multiplier="2.5"',
            "oldestMessageWithLowestPriorityEvictionStrategy",
            {
                "pending_limit": "prefetch_rate",
                "pending_prefetch_rate": 2.5,
                "message_eviction": "oldest_lowest_priority",
            },
        ),
        (
            'constantPendingMessageLimitStrategy limit="5"',
            'uniquePropertyMessageEvictionStrategy propertyName="share"',
            {"pending_messages_max": 5, "message_eviction": "unique_property", "eviction_property": "share"},
        ),
        (
            'constantPendingMessageLimitStrategy limit="5"',
            "uniquePropertyMessageEvictionStrategy",
            {"pending_messages_max": 5},
        ),
    ],
)
def test_what_a_slow_subscriber_may_lose_is_read(
    tmp_path: Path, limit: str, eviction: str, fields: dict[str, Any] | None
) -> None:
    inside = f"<pendingMessageLimitStrategy><{limit}/></pendingMessageLimitStrategy>"
    if eviction:
        inside += f"<messageEvictionStrategy><{eviction}/></messageEvictionStrategy>"
    xml = read(tmp_path, policies(f'<policyEntry topic="A">{inside}</policyEntry>'))
    wanted = {} if fields is None else {"pending_limit": "constant", **fields}
    assert xml.configuration.destination_policies == (DestinationPolicy(pattern=Topic("A"), **wanted),)
    assert not warnings(xml)


def test_who_acknowledges_late_stays_and_the_file_is_told_so(tmp_path: Path) -> None:
    strategy = '<abortSlowAckConsumerStrategy maxTimeSinceLastAck="5000"/>'
    entry = f'<policyEntry topic="A"><slowConsumerStrategy>{strategy}</slowConsumerStrategy></policyEntry>'
    xml = read(tmp_path, policies(entry))
    (warning,) = warnings(xml)
    assert "abortSlowAckConsumerStrategy" in warning
    assert "acknowledging late" in warning


@pytest.mark.parametrize(
    ("attribute", "complaint"), [("lru", "is one of simple, bucket, cached"), ("cached?cacheSize=x", "whole number")]
)
def test_a_map_of_groups_that_is_none_is_an_error(tmp_path: Path, attribute: str, complaint: str) -> None:
    (error,) = errors(read(tmp_path, policies(f'<policyEntry queue="A" messageGroupMapFactoryType="{attribute}"/>')))
    assert error.startswith("activemq.xml:11: ")
    assert complaint in error


def test_a_shared_queue_of_dead_letters_has_a_name(tmp_path: Path) -> None:
    inside = """<policyEntry queue="A"><deadLetterStrategy>
<sharedDeadLetterStrategy><deadLetterQueue><queue physicalName="DEAD"/></deadLetterQueue></sharedDeadLetterStrategy>
</deadLetterStrategy></policyEntry>
<policyEntry topic=">"><deadLetterStrategy>
<sharedDeadLetterStrategy deadLetterQueue="queue://OTHER"/></deadLetterStrategy></policyEntry>"""
    xml = read(tmp_path, policies(inside))
    found = [policy.dead_letter_strategy.dead_letter_queue for policy in xml.configuration.destination_policies]
    assert found == ["DEAD", "OTHER"]
    assert warnings(xml) == []


def test_a_prefetch_of_0_is_read(tmp_path: Path) -> None:
    xml = read(tmp_path, policies('<policyEntry queue=">" queuePrefetch="0"/>'))
    assert xml.configuration.destination_policies[0].queue_prefetch == 0
    assert warnings(xml) == []


def test_redelivery_policies_are_read(tmp_path: Path) -> None:
    entries = """<redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>
<redeliveryPolicy queue="A.>" maximumRedeliveries="3" redeliveryDelay="50" backOffMultiplier="2"
 useExponentialBackOff="true" maximumRedeliveryDelay="9000"/></redeliveryPolicyEntries>
<defaultEntry><redeliveryPolicy backOffMultiplier="2"/></defaultEntry></redeliveryPolicyMap></redeliveryPolicyMap>"""
    xml = read(tmp_path, plugins(f"<redeliveryPlugin>{entries}</redeliveryPlugin>"))
    assert xml.configuration.redelivery_policies == (
        RedeliveryPolicy(
            pattern=Queue("A.>"),
            maximum_redeliveries=3,
            initial_redelivery_delay_ms=1000,
            redelivery_delay_ms=50,
            back_off_multiplier=2.0,
            maximum_redelivery_delay_ms=9000,
            schedule_refused=True,
        ),
        RedeliveryPolicy(
            maximum_redeliveries=6,
            initial_redelivery_delay_ms=1000,
            redelivery_delay_ms=1000,
            schedule_refused=True,
        ),
    )
    assert warnings(xml) == []


def test_what_is_not_delivered_again_may_vanish(tmp_path: Path) -> None:
    entries = """<redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>
<redeliveryPolicy queue="A" useCollisionAvoidance="true"/></redeliveryPolicyEntries></redeliveryPolicyMap>
</redeliveryPolicyMap>"""
    flags = 'sendToDlqIfMaxRetriesExceeded="false" fallbackToDeadLetter="false"'
    policies = read(tmp_path, plugins(f"<redeliveryPlugin {flags}>{entries}</redeliveryPlugin>")).configuration
    named, others = policies.redelivery_policies
    assert (named.collision_avoidance_percent, named.send_to_dlq_if_max_retries_exceeded) == (15, False)
    assert others == RedeliveryPolicy(send_to_dlq_if_max_retries_exceeded=False)


def test_redelivery_needs_the_scheduler(tmp_path: Path) -> None:
    xml = read(tmp_path, document("<plugins><redeliveryPlugin/></plugins>", attributes='schedulerSupport="false"'))
    assert "leave schedulerSupport out, or make it true" in errors(xml)[0]


def test_the_default_entry_has_no_pattern(tmp_path: Path) -> None:
    entry = '<defaultEntry><policyEntry queuePrefetch="5"/></defaultEntry>'
    xml = read(tmp_path, document(f"<destinationPolicy><policyMap>{entry}</policyMap></destinationPolicy>"))
    assert xml.configuration.destination_policies == (DestinationPolicy(queue_prefetch=5),)


@pytest.mark.parametrize("attributes", ["", 'queue="A" topic="B"', 'queue=""'])
def test_a_policy_needs_one_pattern(tmp_path: Path, attributes: str) -> None:
    assert len(errors(read(tmp_path, policies(f"<policyEntry {attributes}/>")))) == 1


def test_with_errors_the_configuration_means_nothing_but_is_there(tmp_path: Path) -> None:
    assert read(tmp_path, "<beans>").configuration == Configuration()
