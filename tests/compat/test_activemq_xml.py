"""One ``activemq.xml``, started by a real ActiveMQ and by ours in turn: each serves what the other has stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.compat.java_broker import JavaBroker
from tests.servers.server import free_port

pytestmark = pytest.mark.timeout(400)

FILE = """<?xml version="1.0" encoding="UTF-8"?>
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">
    <property name="locations">
      <value>file:${activemq.conf}/credentials.properties</value>
    </property>
  </bean>
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="orders" useJmx="false" schedulerSupport="false"
      dataDirectory="${activemq.data}">
    <destinationPolicy><policyMap><policyEntries>
      <policyEntry queue=">" queuePrefetch="10">
        <deadLetterStrategy><sharedDeadLetterStrategy processExpired="true"/></deadLetterStrategy>
      </policyEntry>
    </policyEntries></policyMap></destinationPolicy>
    <persistenceAdapter>
      <jdbcPersistenceAdapter dataSource="#postgres-ds" lockKeepAlivePeriod="2000">
        <statements><statements tablePrefix="XML_" messageTableName="AMQ_MSGS2" durableSubAcksTableName="AMQ_ACKS2"
            lockTableName="AMQ_LOCK2"/></statements>
        <locker><lease-database-locker lockAcquireSleepInterval="6000"/></locker>
      </jdbcPersistenceAdapter>
    </persistenceAdapter>
    <ioExceptionHandler><leaseLockerIOExceptionHandler/></ioExceptionHandler>
    <plugins>
      <simpleAuthenticationPlugin><users>
        <authenticationUser username="joe" password="${joe.password}" groups="users"/>
      </users></simpleAuthenticationPlugin>
    </plugins>
    <systemUsage><systemUsage><memoryUsage><memoryUsage limit="64 mb"/></memoryUsage></systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="stomp"
        uri="stomp://127.0.0.1:${stomp.port}?maximumConnections=100&amp;transport.hbGracePeriodMultiplier=1.5"/>
    </transportConnectors>
  </broker>
  <bean id="postgres-ds" class="org.apache.commons.dbcp.BasicDataSource" destroy-method="close">
    <property name="driverClassName" value="org.postgresql.Driver"/>
    <property name="url" value="jdbc:postgresql://${db.place}"/>
    <property name="username" value="${db.user:nobody}"/>
    <property name="password" value="${db.password}"/>
    <property name="maxActive" value="200"/>
    <property name="poolPreparedStatements" value="true"/>
  </bean>
</beans>
"""


def connected(port: int) -> Client:
    client = Client(("127.0.0.1", port))
    assert client.connect(login="joe", passcode="secret").command == "CONNECTED"
    return client


def test_the_same_file_starts_both(class_path: str, postgresql_url: str, tmp_path: Path) -> None:
    url, port = make_url(postgresql_url), free_port()
    values = {
        "db.place": f"{url.host}:{url.port}/{url.database}",
        "db.user": url.username,
        "db.password": url.password or "",
        "joe.password": "secret",
        "stomp.port": port,
    }
    (tmp_path / "credentials.properties").write_text("".join(f"{name} = {value}\n" for name, value in values.items()))
    (tmp_path / "activemq.xml").write_text(FILE)
    java = JavaBroker(class_path, tmp_path, port)
    ours = BrokerProcess(None, tmp_path, "--config", str(tmp_path / "activemq.xml"))
    with java, connected(port) as client:
        client.publish("/queue/A", "from Java")
    with ours, connected(port) as client:
        client.subscribe("/queue/A")
        assert client.message().body == b"from Java"
        client.publish("/queue/B", "from ours")
    with java, connected(port) as client:
        client.subscribe("/queue/B")
        assert client.message().body == b"from ours"
