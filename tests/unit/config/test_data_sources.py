"""Data source beans, whichever way they are written, become the URL of a store."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.unit.config.written import document, errors, options, read, warnings

DBCP = "org.apache.commons.dbcp2.BasicDataSource"
HIKARI = "com.zaxxer.hikari.HikariDataSource"


def bean(class_name: str, more: str = "", **values: str) -> str:
    given = "".join(f'<property name="{name}" value="{value}"/>' for name, value in values.items())
    return f'<bean id="ds" class="{class_name}">{given}{more}</bean>'


@pytest.mark.parametrize(
    ("beans", "url"),
    [
        (bean(DBCP, url="jdbc:postgresql://db/a", username="joe", password="x"), "postgresql://joe:x@db:5432/a"),
        (bean("org.apache.commons.dbcp.BasicDataSource", url="jdbc:mariadb://db/a"), "mariadb://db:3306/a"),
        (bean(DBCP, url="jdbc:mysql:loadbalance://h1:1,h2/a"), "mysql:///a?host=h1%3A1&host=h2%3A3306"),
        (
            bean("org.apache.tomcat.jdbc.pool.DataSource", url="jdbc:mysql://db/a", username="joe", password=""),
            "mysql://joe:@db:3306/a",
        ),
        (bean("com.alibaba.druid.pool.DruidDataSource", url="jdbc:mysql://db/a"), "mysql://db:3306/a"),
        (bean("com.mchange.v2.c3p0.ComboPooledDataSource", jdbcUrl="jdbc:mysql://db/a", user="joe"), "mysql://joe@db:3306/a"),
        (
            bean("org.springframework.jdbc.datasource.DriverManagerDataSource", url="jdbc:sqlite:a.db"),
            "sqlite:///a.db",
        ),
        (bean(HIKARI, jdbcUrl="jdbc:postgresql://db/a", username="joe"), "postgresql://joe@db:5432/a"),
        (
            bean(
                HIKARI,
                """<property name="dataSourceProperties"><props><prop key="serverName">db</prop>
                <prop key="databaseName">a</prop><prop key="user">joe</prop><prop key="sslMode">require</prop></props>
                </property>""",
                dataSourceClassName="org.postgresql.ds.PGSimpleDataSource",
            ),
            "postgresql://joe@db:5432/a?sslmode=require",
        ),
        (
            bean(
                HIKARI,
                '<property name="dataSourceProperties"><value>useSSL=false\nuser=joe</value></property>',
                jdbcUrl="jdbc:mysql://db/a",
            ),
            "mysql://joe@db:3306/a?ssl_disabled=true",
        ),
        (
            '<bean id="config" class="com.zaxxer.hikari.HikariConfig" p:jdbcUrl="jdbc:mysql://db/a"/>'
            f'<bean id="ds" class="{HIKARI}"><constructor-arg ref="config"/></bean>',
            "mysql://db:3306/a",
        ),
        (
            f'<bean id="ds" class="{HIKARI}"><property name="dataSource">'
            '<bean class="org.mariadb.jdbc.MariaDbDataSource"><property name="url"><value>jdbc:mariadb://db/a</value>'
            "</property></bean></property></bean>",
            "mariadb://db:3306/a",
        ),
        (
            bean("org.postgresql.ds.PGPoolingDataSource", serverName="db", databaseName="a", user="joe", portNumber="0",
                 initialConnections="1", maxConnections="20"),
            "postgresql://joe@db:5432/a",
        ),
        (
            bean("org.postgresql.ds.PGSimpleDataSource", serverName="db", portNumber="1", databaseName="a", ssl="true",
                 socketTimeout="9"),
            "postgresql://db:1/a?sslmode=verify-full",
        ),
        (
            bean("org.postgresql.ds.PGSimpleDataSource",
                 '<property name="serverNames"><list><value>h1</value><value>h2</value></list></property>'
                 '<property name="portNumbers" value="1,2"/>', databaseName="a"),
            "postgresql:///a?host=h1,h2&port=1,2&target_session_attrs=read-write",
        ),
        (bean("org.postgresql.ds.PGSimpleDataSource", url="jdbc:postgresql://db/a", user="joe"), "postgresql://joe@db:5432/a"),
        (
            bean("com.mysql.cj.jdbc.MysqlDataSource", serverName="db", port="1", databaseName="a", user="joe",
                 useSSL="true"),
            "mysql://joe@db:1/a?ssl_check_hostname=false",
        ),
        (
            bean("org.mariadb.jdbc.MariaDbDataSource", serverName="db", databaseName="a", userName="joe",
                 properties="useSSL=false&amp;localSocket=/run/a.sock"),
            "mariadb://joe@db:3306/a?ssl_disabled=true&unix_socket=%2Frun%2Fa.sock",
        ),
        (bean("org.mariadb.jdbc.MariaDbPoolDataSource", url="jdbc:mariadb://db/a?user=joe&amp;password=x"), "mariadb://joe:x@db:3306/a"),
        (bean(DBCP, url="jdbc:postgresql://db/a", connectionProperties="user=joe;sslmode=disable"), "postgresql://joe@db:5432/a?sslmode=disable"),
        (bean(DBCP, url="jdbc:postgresql://db/?user=joe"), "postgresql://joe@db:5432/joe"),
        (f'<bean id="ds" class="{DBCP}" p:url="jdbc:mysql://db/a" p:username="joe"/>', "mysql://joe@db:3306/a"),
        (f'<bean name="x, ds" class="{DBCP}"><property name="url"><value>jdbc:mysql://db/a</value></property></bean>', "mysql://db:3306/a"),
        (f'<alias name="x" alias="ds"/><bean id="x" class="{DBCP}" p:url="jdbc:mysql://db/a"/>', "mysql://db:3306/a"),
    ],
)  # fmt: skip
def test_a_data_source_becomes_a_url(tmp_path: Path, beans: str, url: str) -> None:
    xml = read(tmp_path, document(beans=beans))
    assert errors(xml) == []
    assert make_url(xml.configuration.url) == make_url(url)


def test_a_data_source_may_stand_where_it_is_used(tmp_path: Path) -> None:
    store = f"""<persistenceAdapter><jdbcPersistenceAdapter><dataSource>
<bean xmlns="http://www.springframework.org/schema/beans" class="{DBCP}">
<property name="url" value="jdbc:mysql://db/a"/></bean></dataSource></jdbcPersistenceAdapter></persistenceAdapter>"""
    assert options(read(tmp_path, document(store=store, beans="")))["store.url"] == "mysql://db:3306/a"


def test_a_data_source_may_be_referred_to_by_an_element(tmp_path: Path) -> None:
    store = """<persistenceAdapter><jdbcPersistenceAdapter><dataSource>
<ref xmlns="http://www.springframework.org/schema/beans" bean="ds"/></dataSource>
</jdbcPersistenceAdapter></persistenceAdapter>"""
    assert not read(tmp_path, document(store=store)).findings.found


def url_of(tmp_path: Path, jdbc_url: str) -> str:
    xml = read(tmp_path, document(beans=bean(DBCP, url=jdbc_url.replace("&", "&amp;"))))
    assert errors(xml) == []
    return xml.configuration.url


@pytest.mark.parametrize(
    ("parameters", "query"),
    [
        ("ssl=true", {"sslmode": "verify-full"}),
        ("ssl=false", {"sslmode": "disable"}),
        ("ssl=true&sslmode=require", {"sslmode": "require"}),
        ("sslmode=require&ssl=true", {"sslmode": "require"}),
        ("ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory", {"sslmode": "require"}),
        ("sslmode=verify-ca&sslrootcert=/etc/ca.pem&sslcert=/c.pem&sslkey=/k.pem&sslpassword=x",
         {"sslmode": "verify-ca", "sslrootcert": "/etc/ca.pem", "sslcert": "/c.pem", "sslkey": "/k.pem",
          "sslpassword": "x"}),
        ("targetServerType=primary", {"target_session_attrs": "read-write"}),
        ("targetServerType=master", {"target_session_attrs": "read-write"}),
        ("kerberosServerName=postgres&gssEncMode=disable", {"krbsrvname": "postgres", "gssencmode": "disable"}),
        ("SSLMODE=disable", {"sslmode": "disable"}),
    ],
)  # fmt: skip
def test_parameters_of_postgresql(tmp_path: Path, parameters: str, query: dict[str, str]) -> None:
    assert make_url(url_of(tmp_path, f"jdbc:postgresql://db/a?{parameters}")).query == query


@pytest.mark.parametrize(
    ("parameters", "query"),
    [
        ("useSSL=true", {"ssl_check_hostname": "false"}),
        ("useSsl=false", {"ssl_disabled": "true"}),
        ("sslMode=REQUIRED", {"ssl_check_hostname": "false"}),
        ("sslMode=PREFERRED", {}),
        ("sslMode=trust", {"ssl_check_hostname": "false"}),
        ("sslMode=VERIFY_CA&serverSslCert=/ca.pem", {"ssl_check_hostname": "false", "ssl_ca": "/ca.pem"}),
        ("sslMode=verify-full&serverSslCert=/ca.pem", {"ssl_check_hostname": "true", "ssl_ca": "/ca.pem"}),
        ("requireSSL=true&useSSL=true", {"ssl_check_hostname": "false"}),
    ],
)
def test_parameters_of_mysql_and_mariadb(tmp_path: Path, parameters: str, query: dict[str, str]) -> None:
    for backend in ("mysql", "mariadb"):
        assert make_url(url_of(tmp_path, f"jdbc:{backend}://db/a?{parameters}")).query == query


def test_several_servers_of_postgresql(tmp_path: Path) -> None:
    url = make_url(url_of(tmp_path, "jdbc:postgresql://h1,[::1]:5433/a?targetServerType=any"))
    assert url.query == {"host": "h1,::1", "port": "5432,5433", "target_session_attrs": "any"}


@pytest.mark.parametrize(
    ("url", "seconds"),
    [
        ("jdbc:postgresql://db/a?socketTimeout=9", 9.0),
        ("jdbc:mysql://db/a?socketTimeout=9000", 9.0),
        ("jdbc:mysql://db/a?socketTimeout=0", 30.0),
    ],
)
def test_a_time_limit_of_the_driver_is_one_of_the_store(tmp_path: Path, url: str, seconds: float) -> None:
    xml = read(tmp_path, document(beans=bean(DBCP, url=url)))
    assert xml.configuration.store.query_timeout_s == seconds


@pytest.mark.parametrize(
    ("beans", "what"),
    [
        (bean("org.apache.derby.jdbc.EmbeddedDataSource", databaseName="derbydb"), "for Derby; there are stores for"),
        (bean("oracle.jdbc.pool.OracleDataSource"), "no store for Oracle"),
        (bean("org.h2.jdbcx.JdbcDataSource"), "no store for H2"),
        (bean("com.microsoft.sqlserver.jdbc.SQLServerDataSource"), "no store for SQL Server"),
        (bean(DBCP, url="jdbc:oracle:thin:@db"), "no store for Oracle"),
        (bean("org.springframework.jndi.JndiObjectFactoryBean", jndiName="java:comp/env/ds"), "there is no JNDI"),
        (bean("org.example.MyDataSource"), "is no data source that is known here; there are BasicDataSource"),
        (bean(DBCP), "has no url"),
        (bean(DBCP, url="jdbc:mysql://db/"), "names no database"),
        (bean(DBCP, url="jdbc:mysql://db/a", driverClassName="org.postgresql.Driver"), "does not speak to mysql"),
        (bean(DBCP, url="jdbc:mysql://db/a", maxActiv="7"), "has no maxActiv, did you mean maxActive?"),
        (bean(DBCP, url="jdbc:mysql://db/a", maxActive="many"), "'many' is not a whole number"),
        (bean(DBCP, url="jdbc:mysql://db/a?user=a", username="b"), "another user was given in line"),
        (bean(DBCP, url="jdbc:mysql://db/a", connectionInitSqls="SET x"), "the store sets up its sessions itself"),
        (bean(DBCP, url="jdbc:mysql://db/a", defaultReadOnly="true"), "a store must write"),
        (bean(DBCP, url="jdbc:postgresql://db/a?currentSchema=x"), "ALTER ROLE"),
        (bean(DBCP, url="jdbc:postgresql://db/a?targetServerType=secondary"), "a store must write"),
        (bean(DBCP, url="jdbc:postgresql://db/a?sslmode=maybe"), "sslmode 'maybe' is none of disable"),
        (bean(DBCP, url="jdbc:postgresql://db/a?sslkey=/k.pk8"), "is not a PEM file"),
        (bean(DBCP, url="jdbc:postgresql://db/a?sslfactory=org.example.F"), "is a Java class"),
        (bean(DBCP, url="jdbc:mysql://db/a?sslMode=VERIFY_CA"), "needs serverSslCert=FILE"),
        (bean(DBCP, url="jdbc:mysql://db/a?sslMode=maybe"), "sslMode 'maybe' is none of"),
        (bean(DBCP, url="jdbc:mysql://db/a?trustCertificateKeyStoreUrl=file:k"), "a Java key store cannot be read"),
        (bean(DBCP, url="jdbc:mysql://db/a?sessionVariables=a=b"), "the store sets up its sessions itself"),
        (bean(DBCP, "<constructor-arg value='x'/>", url="jdbc:mysql://db/a"), "arguments of the constructor"),
        (f'<bean id="ds" class="{DBCP}" parent="x"/>', "inheritance of beans is not read"),
        ('<bean id="ds"/>', "<bean> has no class"),
        (f'<bean id="ds" class="{DBCP}"><property name="url"><map/></property></bean>', "not a map"),
        (f'<bean id="ds" class="{DBCP}" p:url="jdbc:mysql://db/a" p:username-ref="x"/>', "not the name of a bean"),
        (f'<bean id="other" class="{DBCP}"/>', "there is no bean ds"),
        (bean(DBCP) + "\n" + bean(DBCP), "two beans are called ds, the other is in activemq.xml:4"),
        ('<alias name="x" alias="ds"/>', "<alias> needs the name of a bean"),
        (f'<bean id="ds" class="{HIKARI}" p:dataSource-ref="ds"/>', "bean ds refers to itself"),
        (f'<bean id="ds" class="{HIKARI}"><constructor-arg ref="ds"/></bean>', "bean ds refers to itself"),
        (bean("org.postgresql.ds.PGSimpleDataSource", serverNames="a,b", portNumbers="1"), "as many portNumbers"),
        (bean("org.postgresql.ds.PGSimpleDataSource", serverNames="a", portNumbers="x", databaseName="a"), "'x' is"),
    ],
)  # fmt: skip
def test_a_data_source_that_is_wrong_is_an_error(tmp_path: Path, beans: str, what: str) -> None:
    found = errors(read(tmp_path, document(beans=beans)))
    assert any(what in error for error in found), found


@pytest.mark.parametrize(
    "parameter",
    ["ApplicationName=x", "connectTimeout=5", "reWriteBatchedInserts=true", "prepareThreshold=5", "useSSL=false"],
)
def test_a_parameter_without_meaning_is_a_warning(tmp_path: Path, parameter: str) -> None:
    xml = read(tmp_path, document(beans="\n" + bean(DBCP, url=f"jdbc:postgresql://db/a?{parameter}")))
    name = parameter.partition("=")[0]
    assert [text.partition(" is ")[0] for text in warnings(xml)] == [f"activemq.xml:5: bean ds url: parameter {name}"]


def test_a_bean_that_nobody_uses_is_a_warning(tmp_path: Path) -> None:
    beans = (
        bean(DBCP, url="jdbc:mysql://db/a") + '\n<bean id="x" class="org.example.X"/>\n<description>us</description>'
    )
    assert warnings(read(tmp_path, document(beans=beans))) == [
        "activemq.xml:5: bean x is not used by anything that is read here"
    ]


def test_no_password_is_shown(tmp_path: Path) -> None:
    beans = bean(DBCP, url="jdbc:mysql://db/a?password=secret&amp;cachePrepStmts=true", username="joe", maxActive="x")
    xml = read(tmp_path, document(beans=beans))
    assert "secret" not in "".join(map(str, [*xml.findings.found, *xml.findings.used]))
