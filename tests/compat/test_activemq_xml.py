"""One ``activemq.xml``, started by a real ActiveMQ and by ours in turn: each serves what the other has stored."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.compat.activemq import ACTIVEMQ_LIBRARIES, quick_start
from tests.servers.server import ServerFailed, free_port

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


class JavaBroker:
    """ActiveMQ's own program, started from a folder with ``activemq.xml``. A context manager."""

    def __init__(self, class_path: str, folder: Path, port: int, *options: str) -> None:
        self.port = port
        self._log = folder / "activemq.log"
        libraries = os.pathsep.join([class_path, f"{ACTIVEMQ_LIBRARIES}/optional/*"])
        system = [f"-Dactivemq.{name}={folder}" for name in ("home", "base", "conf", "data")]
        main = "org.apache.activemq.console.command.ShellCommand"
        java = [
            "java",
            *quick_start(class_path),
            *system,
            *options,
            "-cp",
            libraries,
            main,
            "start",
            f"xbean:file:{folder}/activemq.xml",
        ]
        self._command = ["setpriv", "--pdeathsig", "KILL", *java]

    def __enter__(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 90
        while True:
            try:
                with Client(("127.0.0.1", self.port)):
                    return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._process.kill()
                    raise ServerFailed(f"ActiveMQ did not start\n{self._log.read_text()[-4000:]}") from None
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)


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
