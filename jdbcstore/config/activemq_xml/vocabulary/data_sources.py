"""Java's data sources and pools, and the databases that there is no store for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jdbcstore.config.activemq_xml.vocabulary.entry import (
    Entry,
    Kind,
    ignored,
    ignored_all,
    integer,
    positive,
    refused,
    text,
    used,
)

__all__ = ["DATA_SOURCE_KINDS", "DRIVERS", "OTHER_DATABASES"]

#: Class of a JDBC driver → the JDBC URLs that it takes.
DRIVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "org.postgresql.Driver": ("postgresql",),
    "com.mysql.jdbc.Driver": ("mysql",),
    "com.mysql.cj.jdbc.Driver": ("mysql",),
    "org.gjt.mm.mysql.Driver": ("mysql",),
    "org.mariadb.jdbc.Driver": ("mariadb", "mysql"),
    "org.sqlite.JDBC": ("sqlite",),
}

#: How names of classes and JDBC URLs of other databases begin → the database.
OTHER_DATABASES: Final[Mapping[str, str]] = {
    "oracle.": "Oracle",
    "jdbc:oracle:": "Oracle",
    "org.apache.derby.": "Derby",
    "jdbc:derby:": "Derby",
    "org.h2.": "H2",
    "jdbc:h2:": "H2",
    "org.hsqldb.": "HSQLDB",
    "jdbc:hsqldb:": "HSQLDB",
    "com.microsoft.sqlserver.": "SQL Server",
    "jdbc:sqlserver:": "SQL Server",
    "net.sourceforge.jtds.": "SQL Server",
    "jdbc:jtds:": "SQL Server",
    "com.ibm.db2.": "DB2",
    "jdbc:db2:": "DB2",
    "com.informix.": "Informix",
    "jdbc:informix-sqli:": "Informix",
    "com.sybase.": "Sybase",
    "jdbc:sybase:": "Sybase",
    "com.sap.dbtech.": "MaxDB",
    "jdbc:sapdb:": "MaxDB",
}

_URL: Final = used("`store.url`", option="data_source.url", read=text)
_USER: Final = used("the user in `store.url`", option="data_source.user", read=text)
_PASSWORD: Final = used("the password in `store.url`", option="data_source.password", read=text)
_DRIVER: Final = used(
    "must fit the URL; the driver here is psycopg2 or PyMySQL", option="data_source.driver", read=text
)
_PARAMETERS: Final = used("parameters of the driver, as in the URL", option="data_source.parameters", read=text)
_POOL: Final = "the pool opens connections when it needs them and tests them itself"


def _pool_max(default: str) -> Entry:
    return used(
        "an upper limit of connections: lowers `store.pool_size`, never raises it, since a handful is all that"
        " this store uses",
        default,
        option="data_source.pool_max",
        read=positive,
    )


_STATEMENTS: Final = "prepared statements are the store's own matter"
_SESSION: Final = {
    "connectionInitSqls": refused("the store sets up its sessions itself; give the user these settings on the server"),
    "connectionInitSql": refused("the store sets up its sessions itself; give the user these settings on the server"),
    "defaultReadOnly": refused("a store must write", "false", "false"),
    "readOnly": refused("a store must write", "false", "false"),
    "defaultCatalog": refused("name the database in the URL"),
    "catalog": refused("name the database in the URL"),
    "schema": refused("name the schema on the server: ALTER ROLE … SET search_path = …"),
    "defaultSchema": refused("name the schema on the server: ALTER ROLE … SET search_path = …"),
    **ignored_all(
        "defaultAutoCommit autoCommit defaultTransactionIsolation transactionIsolation autoCommitOnReturn "
        "rollbackOnReturn enableAutoCommitOnReturn defaultQueryTimeout",
        "the store says itself when it commits",
    ),
}
_DBCP: Final = {
    "driverClassName": _DRIVER,
    "url": _URL,
    "username": _USER,
    "password": _PASSWORD,
    "maxActive": _pool_max("8"),
    "maxTotal": _pool_max("8"),
    "connectionProperties": _PARAMETERS,
    **ignored_all("poolPreparedStatements=false maxOpenPreparedStatements clearStatementPoolOnReturn", _STATEMENTS),
    **ignored_all(
        "initialSize maxIdle minIdle maxWait maxWaitMillis maxWaitDuration validationQuery validationQueryTimeout "
        "testOnBorrow testOnReturn testOnCreate testWhileIdle timeBetweenEvictionRunsMillis "
        "durationBetweenEvictionRuns numTestsPerEvictionRun minEvictableIdleTimeMillis minEvictableIdle "
        "softMinEvictableIdleTimeMillis softMinEvictableIdle removeAbandoned removeAbandonedTimeout "
        "removeAbandonedOnBorrow removeAbandonedOnMaintenance logAbandoned abandonedUsageTracking "
        "maxConnLifetimeMillis maxConn logExpiredConnections lifo fastFailValidation evictionPolicyClassName "
        "cacheState disconnectionSqlCodes jmxName registerConnectionMBean",
        _POOL,
    ),
    **ignored_all(
        "accessToUnderlyingConnectionAllowed driverClassLoader driver connectionFactoryClassName logWriter",
        "no Java objects are run",
    ),
    "loginTimeout": ignored("connecting may take a third of store.query_timeout_s"),
    **_SESSION,
}
_TOMCAT: Final = {
    **_DBCP,
    "username": _USER,
    **ignored_all(
        "validationInterval jdbcInterceptors fairQueue jmxEnabled suspectTimeout maxAge logValidationErrors "
        "propagateInterruptState ignoreExceptionOnPreLoad useEquals commitOnReturn initSQL name "
        "abandonWhenPercentageFull useLock validatorClassName",
        _POOL,
    ),
}
_DRUID: Final = {
    **_TOMCAT,
    **ignored_all(
        "filters keepAlive useUnfairLock breakAfterAcquireFailure connectionErrorRetryAttempts "
        "timeBetweenConnectErrorMillis maxPoolPreparedStatementPerConnectionSize",
        _POOL,
    ),
}
_HIKARI: Final = {
    "jdbcUrl": _URL,
    "username": _USER,
    "password": _PASSWORD,
    "driverClassName": _DRIVER,
    "maximumPoolSize": _pool_max("10"),
    "dataSourceClassName": used("as a bean of that class, with dataSourceProperties"),
    "dataSourceProperties": used("properties of dataSourceClassName, or parameters of the driver"),
    "dataSource": used("a bean of another data source"),
    **ignored_all(
        "minimumIdle connectionTimeout idleTimeout maxLifetime keepaliveTime validationTimeout "
        "leakDetectionThreshold connectionTestQuery initializationFailTimeout initializationFailFast "
        "isolateInternalQueries poolName allowPoolSuspension registerMbeans metricRegistry metricsTrackerFactory "
        "healthCheckRegistry healthCheckProperties threadFactory scheduledExecutor exceptionOverrideClassName",
        _POOL,
    ),
    "dataSourceJNDI": refused("there is no JNDI: write the data source as a bean"),
    **_SESSION,
}
_C3P0: Final = {
    "jdbcUrl": _URL,
    "user": _USER,
    "password": _PASSWORD,
    "driverClass": _DRIVER,
    "maxPoolSize": _pool_max("15"),
    **ignored_all("maxStatements maxStatementsPerConnection statementCacheNumDeferredCloseThreads", _STATEMENTS),
    **ignored_all(
        "initialPoolSize minPoolSize acquireIncrement acquireRetryAttempts acquireRetryDelay "
        "breakAfterAcquireFailure checkoutTimeout idleConnectionTestPeriod maxIdleTime "
        "maxIdleTimeExcessConnections maxConnectionAge preferredTestQuery automaticTestTable "
        "testConnectionOnCheckin testConnectionOnCheckout numHelperThreads unreturnedConnectionTimeout "
        "debugUnreturnedConnectionStackTraces propertyCycle dataSourceName autoCommitOnClose "
        "forceIgnoreUnresolvedTransactions maxAdministrativeTaskTime",
        _POOL,
    ),
}
_SPRING: Final = {
    "driverClassName": _DRIVER,
    "url": _URL,
    "username": _USER,
    "password": _PASSWORD,
    "connectionProperties": _PARAMETERS,
    "suppressClose": ignored(_POOL),
    **_SESSION,
}
_PLACE: Final = {
    "serverName": used("the host in `store.url`", "localhost", option="data_source.server", read=text),
    "portNumber": used("the port in `store.url`", "that of the database", option="data_source.port", read=integer),
    "databaseName": used("the database in `store.url`", option="data_source.database", read=text),
    "user": _USER,
    "password": _PASSWORD,
    "url": _URL,
    "logWriter": ignored("no Java objects are run"),
    "loginTimeout": ignored("connecting may take a third of store.query_timeout_s"),
}
_POSTGRESQL: Final = {
    **_PLACE,
    "URL": _URL,
    "uRL": _URL,
    "serverNames": used("hosts, as serverName"),
    "portNumbers": used("their ports, as portNumber"),
    "dataSourceName": ignored("a name for JNDI"),
    "maxConnections": _pool_max("0, none"),
    "initialConnections": ignored(_POOL),
}
_MYSQL: Final = {**_PLACE, "URL": _URL, "uRL": _URL, "port": _PLACE["portNumber"], "userName": _USER}
_MARIADB: Final = {
    **_MYSQL,
    "properties": _PARAMETERS,
    "maxPoolSize": _pool_max("8"),
    **ignored_all("minPoolSize maxIdleTime poolName poolValidMinDelay staticGlobal", _POOL),
}

#: Properties of these that are not in their table are parameters of the driver; see `jdbc_url`.
DRIVERS_OWN: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "org.postgresql.ds.PGPoolingDataSource",
            "org.postgresql.ds.PGSimpleDataSource",
            "org.postgresql.ds.PGConnectionPoolDataSource",
            "org.postgresql.xa.PGXADataSource",
            "org.postgresql.jdbc2.optional.PoolingDataSource",
            "org.postgresql.jdbc2.optional.SimpleDataSource",
            "org.postgresql.jdbc3.Jdbc3PoolingDataSource",
            "org.postgresql.jdbc3.Jdbc3SimpleDataSource",
        ),
        "postgresql",
    ),
    **dict.fromkeys(
        (
            "com.mysql.jdbc.jdbc2.optional.MysqlDataSource",
            "com.mysql.jdbc.jdbc2.optional.MysqlConnectionPoolDataSource",
            "com.mysql.jdbc.jdbc2.optional.MysqlXADataSource",
            "com.mysql.cj.jdbc.MysqlDataSource",
            "com.mysql.cj.jdbc.MysqlConnectionPoolDataSource",
            "com.mysql.cj.jdbc.MysqlXADataSource",
        ),
        "mysql",
    ),
    **dict.fromkeys(
        (
            "org.mariadb.jdbc.MariaDbDataSource",
            "org.mariadb.jdbc.MariaDbPoolDataSource",
            "org.mariadb.jdbc.MySQLDataSource",
        ),
        "mariadb",
    ),
}
_OF_DRIVER: Final = {"postgresql": _POSTGRESQL, "mysql": _MYSQL, "mariadb": _MARIADB}

_ABOUT: Final = {
    "org.apache.commons.dbcp.BasicDataSource": ("Commons DBCP 1.", _DBCP),
    "org.apache.commons.dbcp2.BasicDataSource": ("Commons DBCP 2.", _DBCP),
    "org.apache.tomcat.jdbc.pool.DataSource": ("Tomcat's pool.", _TOMCAT),
    "org.apache.tomcat.dbcp.dbcp2.BasicDataSource": ("Commons DBCP 2 in Tomcat.", _DBCP),
    "com.alibaba.druid.pool.DruidDataSource": ("Druid.", _DRUID),
    "com.zaxxer.hikari.HikariDataSource": (
        "HikariCP; a `HikariConfig` may be the argument of its constructor.",
        _HIKARI,
    ),
    "com.zaxxer.hikari.HikariConfig": ("HikariCP's configuration.", _HIKARI),
    "com.mchange.v2.c3p0.ComboPooledDataSource": ("c3p0.", _C3P0),
    "org.springframework.jdbc.datasource.DriverManagerDataSource": ("Spring's own.", _SPRING),
    "org.springframework.jdbc.datasource.SingleConnectionDataSource": ("Spring's own.", _SPRING),
}

DATA_SOURCE_KINDS: Final = (
    *(Kind(name, about, entries, where="data-sources") for name, (about, entries) in _ABOUT.items()),
    *(
        Kind(
            name,
            "Of the driver; what its URL may have as parameters may stand here as properties, too.",
            _OF_DRIVER[backend],
            where="data-sources",
        )
        for name, backend in DRIVERS_OWN.items()
    ),
)
