"""A broker process that starts from ``activemq.xml``, on a real database, with the users and tables it names."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, inspect, make_url, text
from sqlalchemy.exc import OperationalError

from jdbcstore.config.activemq_xml.reader import read_activemq_xml
from jdbcstore.config.urls import open_engine
from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.servers.server import free_port

FILE = """<beans xmlns="http://www.springframework.org/schema/beans">
  <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">
    <property name="location" value="file:${activemq.conf}/credentials.properties"/>
  </bean>
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="from-xml" useJmx="true"
      dataDirectory="${activemq.data}">
    <persistenceAdapter>
      <jdbcPersistenceAdapter dataSource="#the-ds">
        <statements><statements tablePrefix="XML_"/></statements>
        <locker><lease-database-locker lockAcquireSleepInterval="20000"/></locker>
      </jdbcPersistenceAdapter>
    </persistenceAdapter>
    <plugins>
      <simpleAuthenticationPlugin><users>
        <authenticationUser username="joe" password="${joe.password}" groups="users"/>
      </users></simpleAuthenticationPlugin>
    </plugins>
    <transportConnectors>
      <transportConnector name="openwire" uri="mqtt://0.0.0.0:1883"/>
      <transportConnector name="stomp" uri="stomp+nio://127.0.0.1:${stomp.port}?maximumConnections=10"/>
    </transportConnectors>
  </broker>
  <bean id="the-ds" class="org.apache.commons.dbcp2.BasicDataSource" destroy-method="close">
    <property name="url" value="%s"/>
    <property name="username" value="${db.user}"/>
    <property name="password" value="${db.password}"/>
    <property name="maxTotal" value="20"/>
    <property name="poolPreparedStatements" value="true"/>
  </bean>
</beans>
"""


def started_from_xml(folder: Path, url: URL, jdbc_url: str) -> BrokerProcess:
    """A broker whose configuration is written into a folder, not started yet."""
    port = free_port()
    values = {
        "db.user": url.username or "",
        "db.password": url.password or "",
        "joe.password": "secret",
        "stomp.port": port,
    }
    (folder / "credentials.properties").write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    (folder / "activemq.xml").write_text(FILE % jdbc_url.replace("&", "&amp;"))
    process = BrokerProcess(None, folder, "--config", str(folder / "activemq.xml"))
    process.port = port
    return process


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_a_broker_runs_from_activemq_xml(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> None:
    url = make_url(request.getfixturevalue(f"{database}_url"))
    process = started_from_xml(tmp_path, url, f"jdbc:{database}://{url.host}:{url.port}/{url.database}")
    with process, Client(("127.0.0.1", process.port)) as client:
        assert client.connect(login="joe", passcode="secret").command == "CONNECTED"
        client.publish("/queue/A", "hello")
        assert process.stop() == 0
    with process, Client(("127.0.0.1", process.port)) as client, Client(("127.0.0.1", process.port)) as stranger:
        assert stranger.connect(login="joe", passcode="wrong").command == "ERROR"
        assert client.connect(login="joe", passcode="secret").command == "CONNECTED"
        client.subscribe("/queue/A")
        assert client.message().body == b"hello"
    log = process.log()
    assert "level=WARNING logger=jdbcstore.console.broker activemq.xml:19: mqtt://0.0.0.0:1883 is not served" in log
    assert "name=from-xml" in log
    engine = create_engine(url)
    assert "xml_activemq_msgs" in {name.lower() for name in inspect(engine).get_table_names()}
    engine.dispose()


def test_a_file_with_errors_starts_nothing(tmp_path: Path) -> None:
    process = started_from_xml(tmp_path, make_url("postgresql://joe@db/a"), "jdbc:derby:activemq")
    process.launch()
    assert process.wait() == 2
    assert "activemq.xml:24: there is no store for Derby" in process.log()


# -- what a JDBC URL becomes, on the server itself -------------------------------------------------------------------


def answer(folder: Path, url: URL, jdbc_url: str, question: str) -> str:
    """What a database answers when it is asked through a data source."""
    started_from_xml(folder, url, jdbc_url)
    engine = open_engine(read_activemq_xml(folder / "activemq.xml", {}).configuration.url)
    try:
        with engine.connect() as connection:
            return str(connection.execute(text(question)).one()[-1])
    finally:
        engine.dispose()


def test_a_list_of_servers_finds_the_one_that_is_there(postgresql_url: str, tmp_path: Path) -> None:
    url = make_url(postgresql_url)
    jdbc_url = (
        f"jdbc:postgresql://127.0.0.1:{free_port()},{url.host}:{url.port}/{url.database}?targetServerType=primary"
    )
    assert answer(tmp_path, url, jdbc_url, "SELECT current_database()") == url.database


def test_postgresql_is_asked_for_tls(postgresql_url: str, tmp_path: Path) -> None:
    """The server of the tests has none."""
    url = make_url(postgresql_url)
    place = f"jdbc:postgresql://{url.host}:{url.port}/{url.database}"
    with pytest.raises(OperationalError, match="does not support SSL"):
        answer(tmp_path, url, f"{place}?ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory", "SELECT 1")
    assert answer(tmp_path, url, f"{place}?sslmode=disable", "SELECT 1") == "1"


def test_mysql_is_asked_for_tls(mysql_url: str, tmp_path: Path) -> None:
    """The server of the tests has none."""
    url = make_url(mysql_url)
    place = f"jdbc:mysql://{url.host}:{url.port}/{url.database}"
    for parameters in ("sslMode=REQUIRED", "useSSL=true"):
        with pytest.raises(OperationalError, match="SSL is required"):
            answer(tmp_path, url, f"{place}?{parameters}", "SELECT 1")
    assert answer(tmp_path, url, f"{place}?useSSL=false", "SELECT 1") == "1"
