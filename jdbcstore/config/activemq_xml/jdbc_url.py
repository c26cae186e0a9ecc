"""JDBC URLs → where the database is and what of the driver's parameters has a meaning for ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from jdbcstore.config.activemq_xml.vocabulary.data_sources import OTHER_DATABASES
from jdbcstore.config.activemq_xml.vocabulary.entry import Entry, ignored, ignored_all, integer, refused, text, used
from jdbcstore.errors import ConfigurationError

__all__ = [
    "DEFAULT_PORTS",
    "PARAMETERS",
    "JdbcUrl",
    "other_database",
    "parameter",
    "parse_jdbc_url",
    "parse_parameters",
]

DEFAULT_PORTS: Final = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
_EXAMPLES: Final = (
    "use jdbc:postgresql://HOST/DATABASE, jdbc:mysql://HOST/DATABASE, jdbc:mariadb://HOST/DATABASE or jdbc:sqlite:FILE"
)
#: How the drivers of MySQL and MariaDB choose among several servers. Here they are tried in the order of the URL, and
#: one that takes no writes is left behind, so that all come to the same.
_VARIANTS: Final = ("failover:", "sequential:", "loadbalance:", "replication:", "aurora:", "load-balance-read:")
#: ``address=(host=db)(port=3306)(type=primary)`` and ``(host=db,port=3306)``, and a comma that is in neither.
_KEYS: Final = re.compile(r"(?:address=)?\(.*\)", re.IGNORECASE)
_KEY: Final = re.compile(r"([A-Za-z]+)=([^(),=]*)")
_AUTHORITY_SPLIT: Final = re.compile(r",(?![^()]*\))")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:@/?,()=\s]*)(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class JdbcUrl:
    """A JDBC URL in its parts.

    Args:
        backend: ``postgresql``, ``mysql``, ``mariadb`` or ``sqlite``.
        hosts: name and port, several for a database that fails over; none for a file.
        database: its name, or the path of the file; empty without.
        parameters: of the driver, as given, in their order.
    """

    backend: str
    hosts: tuple[tuple[str, int], ...]
    database: str
    parameters: tuple[tuple[str, str], ...]


def parse_jdbc_url(url: str) -> JdbcUrl:
    """Take a JDBC URL apart.

    Raises:
        ConfigurationError: there is no store for it, or no translation; the text says what would be right.
    """
    database = other_database(url)
    if database is not None:
        raise ConfigurationError(f"there is no store for {database}: {_EXAMPLES}")
    scheme, _, rest = url.removeprefix("jdbc:").partition(":")
    if not url.startswith("jdbc:") or scheme not in (*DEFAULT_PORTS, "sqlite"):
        raise ConfigurationError(f"{_masked(url)!r} is not a JDBC URL that there is a store for: {_EXAMPLES}")
    rest, _, query = rest.partition("?")
    parameters = parse_parameters(query, "&")
    if scheme == "sqlite":
        if not rest or rest == ":memory:":
            raise ConfigurationError(
                'a store on SQLite needs a file, jdbc:sqlite:FILE; for one without a file write persistent="false"'
            )
        return JdbcUrl(scheme, (), rest, parameters)
    if not rest.startswith("/"):  # jdbc:postgresql:DATABASE, jdbc:mysql:loadbalance://…
        variant, slashes, rest = rest.partition("//")
        if not slashes and scheme == "postgresql":
            return JdbcUrl(scheme, (("localhost", 5432),), unquote(variant), parameters)
        if not slashes or variant not in _VARIANTS:
            raise ConfigurationError(
                f"jdbc:{scheme}:{variant} is not one of {', '.join(f'jdbc:{scheme}:{known}//' for known in _VARIANTS)}:"
                f" write jdbc:{scheme}://HOST,HOST/DATABASE, or one HOST"
            )
        rest = "//" + rest
    authority, _, path = rest.removeprefix("//").partition("/")
    user, at, authority = authority.rpartition("@")
    if at:
        name, colon, password = user.partition(":")
        parameters = (("user", unquote(name)), *([("password", unquote(password))] if colon else []), *parameters)
    hosts = tuple(_host(host, DEFAULT_PORTS[scheme], url) for host in _AUTHORITY_SPLIT.split(authority))
    return JdbcUrl(scheme, hosts, unquote(path), parameters)


def _host(given: str, port: int, url: str) -> tuple[str, int]:
    """``HOST``, ``HOST:PORT``, or as the drivers of MySQL and MariaDB write it with keys."""
    keys = _KEYS.fullmatch(given)
    if keys is not None:
        named = {name.lower(): value for name, value in _KEY.findall(given)}
        given = f"{named.get('host', '')}:{named.get('port', port)}"
    found = _HOST.fullmatch(given)
    if found is None or (found[2] and not 0 < int(found[2]) < 65536):
        raise ConfigurationError(f"{given!r} in {_masked(url)!r} is not HOST or HOST:PORT")
    return found[1].strip("[]") or "localhost", int(found[2] or port)


def parse_parameters(given: str, separator: str) -> tuple[tuple[str, str], ...]:
    """``a=b&c=d``, or with another separator, as pairs; percent signs as in URLs."""
    pairs = (part.partition("=") for part in given.split(separator) if part.strip())
    return tuple((unquote(name).strip(), unquote(value).strip()) for name, _, value in pairs)


def other_database(name: str) -> str | None:
    """The database of a Java class or JDBC URL for which there is no store; None if it is not known as such."""
    for prefix, database in OTHER_DATABASES.items():
        if name.startswith(prefix):
            return database
    return None


def _masked(url: str) -> str:
    """The URL without what may hold a password."""
    head, _, _ = url.partition("?")
    start, at, end = head.rpartition("@")
    return f"{start.partition('//')[0]}//…@{end}" if at else head


# -- parameters ------------------------------------------------------------------------------------------------------

_CONNECT: Final = "connecting may take a third of store.query_timeout_s"
_OWN: Final = "the store sets up its sessions itself"
_DRIVER: Final = "it is about the inside of the Java driver"
_KEYSTORE: Final = "a Java key store cannot be read: export it to a PEM file"


def _query(name: str, says: str = "") -> Entry:
    return used(says or f"`{name}` in `store.url`", option=f"query.{name}", read=text)


def _timeout(unit_s: float) -> Entry:
    unit = "s" if unit_s == 1 else "ms"
    return used(
        f"`store.query_timeout_s`, in {unit}: the smallest of queryTimeout, networkTimeout and socketTimeout counts",
        "0, none",
        option="answer_timeout_s",
        read=lambda value: integer(value) * unit_s,
    )


def _pem(value: str) -> str:
    if value.lower().endswith((".pk8", ".p12", ".pfx", ".der", ".jks")):
        raise ConfigurationError(
            f"{value!r} is not a PEM file: convert it, for example by openssl pkey or openssl pkcs12"
        )
    return value


def _postgresql_ssl_mode(value: str) -> str:
    modes = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
    if value.lower() not in modes:
        raise ConfigurationError(f"sslmode {value!r} is none of {', '.join(modes)}")
    return value.lower()


def _postgresql_ssl(value: str) -> str:
    return "disable" if value.strip().lower() in ("false", "disable") else "verify-full"


def _ssl_factory(value: str) -> str:
    if value.rpartition(".")[2] == "NonValidatingFactory":
        return "require"
    raise ConfigurationError(f"the socket factory {value!r} is a Java class: use sslmode and sslrootcert")


def _target(value: str) -> str:
    if value.lower() in ("primary", "master"):
        return "read-write"
    if value.lower() == "any":
        return "any"
    raise ConfigurationError(f"a store must write, and targetServerType {value!r} looks for who may not: use primary")


_POSTGRESQL: Final[Mapping[str, Entry]] = {
    "user": used("the user", option="data_source.user", read=text),
    "password": used("the password", option="data_source.password", read=text),
    "ssl": used(
        "`sslmode=verify-full` in `store.url`, as the driver understands it",
        "false",
        option="query.sslmode",
        read=_postgresql_ssl,
    ),
    "sslmode": used("`sslmode` in `store.url`", "prefer", option="query.sslmode", read=_postgresql_ssl_mode),
    "sslrootcert": _query("sslrootcert"),
    "sslcert": used("`sslcert` in `store.url`", option="query.sslcert", read=_pem),
    "sslkey": used("`sslkey` in `store.url`; a PEM file", option="query.sslkey", read=_pem),
    "sslpassword": _query("sslpassword"),
    "sslfactory": used(
        "`NonValidatingFactory`: `sslmode=require` in `store.url`", option="query.sslmode", read=_ssl_factory
    ),
    "sslhostnameverifier": refused("a Java class cannot be asked: use sslmode=verify-full"),
    "targetServerType": used(
        "`primary`: `target_session_attrs=read-write` in `store.url`",
        "any",
        option="query.target_session_attrs",
        read=_target,
    ),
    "gssEncMode": _query("gssencmode"),
    "kerberosServerName": _query("krbsrvname"),
    "socketTimeout": _timeout(1),
    "connectTimeout": ignored(_CONNECT, "10"),
    "loginTimeout": ignored(_CONNECT, "0"),
    "currentSchema": refused("name the schema on the server: ALTER ROLE … SET search_path = …"),
    "options": refused("the store sets up its sessions itself; give the user these settings on the server"),
    "readOnly": refused("a store must write", "false", "false"),
    "replication": refused("a store needs ordinary sessions", "false", "false"),
    "ApplicationName": ignored("sessions are called jdbcstore, followed by the broker's id in the lock"),
    "tcpKeepAlive": ignored("dead connections are always found", "false", "true"),
    "loadBalanceHosts": ignored("the first server that takes writes is used", "false", "false"),
    "hostRecheckSeconds": ignored("each new connection looks anew", "10"),
    **ignored_all(
        "autosave cleanupSavepoints stringtype assumeMinServerVersion protocolVersion allowEncodingChanges "
        "groupStartupParameters readOnlyMode quoteReturningIdentifiers",
        _OWN,
    ),
    **ignored_all(
        "prepareThreshold preparedStatementCacheQueries preparedStatementCacheSizeMiB preferQueryMode "
        "defaultRowFetchSize reWriteBatchedInserts binaryTransfer binaryTransferEnable binaryTransferDisable "
        "disableColumnSanitiser databaseMetadataCacheFields databaseMetadataCacheFieldsMiB logUnclosedConnections "
        "loggerLevel loggerFile logServerErrorDetail maxResultBuffer adaptiveFetch adaptiveFetchMinimum "
        "adaptiveFetchMaximum escapeSyntaxCallMode unknownLength sendBufferSize receiveBufferSize tcpNoDelay "
        "cancelSignalTimeout sslResponseTimeout gssResponseTimeout socketFactory socketFactoryArg "
        "localSocketAddress sslfactoryarg sslpasswordcallback authenticationPluginClassName jaasApplicationName "
        "jaasLogin gsslib sspiServiceClass useSpnego xmlFactoryFactory hideUnprivilegedObjects charSet compatible",
        _DRIVER,
    ),
}


def _mysql_ssl_mode(value: str) -> Mapping[str, str]:
    """``sslMode`` of both drivers, as parameters of PyMySQL."""
    known: Mapping[str, Mapping[str, str]] = {
        "DISABLED": {"ssl_disabled": "true"},
        "DISABLE": {"ssl_disabled": "true"},
        "PREFERRED": {},
        "REQUIRED": {"ssl_check_hostname": "false"},
        "TRUST": {"ssl_check_hostname": "false"},
        "VERIFY_CA": {"ssl_check_hostname": "false", "needs": "ssl_ca"},
        "VERIFY_IDENTITY": {"ssl_check_hostname": "true", "needs": "ssl_ca"},
        "VERIFY_FULL": {"ssl_check_hostname": "true", "needs": "ssl_ca"},
    }
    try:
        return known[value.upper().replace("-", "_")]
    except KeyError:
        raise ConfigurationError(
            f"sslMode {value!r} is none of DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY"
        ) from None


def _use_ssl(value: str) -> Mapping[str, str]:
    return _mysql_ssl_mode("REQUIRED" if value.strip().lower() == "true" else "DISABLED")


def _require_ssl(value: str) -> Mapping[str, str]:
    return _mysql_ssl_mode("REQUIRED") if value.strip().lower() == "true" else {}


def _ssl(says: str, read: object, default: str = "") -> Entry:
    return used(says, default, option="query.*", read=read)  # type: ignore[arg-type]  # a Reader


_MYSQL: Final[Mapping[str, Entry]] = {
    "user": used("the user", option="data_source.user", read=text),
    "password": used("the password", option="data_source.password", read=text),
    "sslMode": _ssl(
        "TLS in `store.url`; VERIFY_CA and VERIFY_IDENTITY need `serverSslCert`, a PEM file",
        _mysql_ssl_mode,
        "PREFERRED",
    ),
    "useSSL": _ssl("as sslMode REQUIRED or DISABLED", _use_ssl),
    "requireSSL": _ssl("as sslMode REQUIRED", _require_ssl, "false"),
    "serverSslCert": used("`ssl_ca` in `store.url`; a PEM file", option="query.ssl_ca", read=_pem),
    "verifyServerCertificate": refused("write sslMode=VERIFY_CA&serverSslCert=PEM-FILE", "true", "false"),
    "trustServerCertificate": ignored("certificates are looked at with sslMode=VERIFY_CA or VERIFY_IDENTITY", "false"),
    "disableSslHostnameVerification": ignored("write sslMode=VERIFY_CA or VERIFY_IDENTITY", "false"),
    "localSocket": _query("unix_socket"),
    "socketTimeout": _timeout(0.001),
    "connectTimeout": ignored(_CONNECT),
    "sessionVariables": refused("the store sets up its sessions itself; give the server these settings"),
    "readOnly": refused("a store must write", "false", "false"),
    "useUnicode": ignored("text is always UTF-8", "true", "true"),
    "characterEncoding": ignored("text is always UTF-8", "", "utf8 utf-8 utf8mb4"),
    "connectionCollation": ignored("text is always UTF-8"),
    "createDatabaseIfNotExist": ignored("the database must be there", "false", "false"),
    "relaxAutoCommit": ignored("the store says itself when it commits", "false"),
    **ignored_all(
        "loadBalanceStrategy ha.loadBalanceStrategy loadBalanceBlocklistTimeout loadBalanceBlacklistTimeout "
        "loadBalancePingTimeout loadBalanceAutoCommitStatementThreshold loadBalanceAutoCommitStatementRegex "
        "loadBalanceValidateConnectionOnSwapServer loadBalanceExceptionChecker loadBalanceSQLStateFailover "
        "loadBalanceSQLExceptionSubclassFailover loadBalanceHostRemovalGracePeriod loadBalanceConnectionGroup "
        "failoverLoopRetries validConnectionTimeout secondsBeforeRetrySource queriesBeforeRetrySource "
        "allowSourceDownConnections allowMasterDownConnections allowReplicaDownConnections allowSlaveDownConnections "
        "readFromSourceWhenNoReplicas readFromMasterWhenNoSlaves replicationConnectionGroup galeraAllowedState",
        "servers are tried in the order of the URL, and left when they take no writes",
    ),
    **{
        name: refused(_KEYSTORE)
        for name in (
            [
                "trustCertificateKeyStoreUrl",
                "clientCertificateKeyStoreUrl",
                "trustStore",
                "keyStore",
                "keystore",
                "truststore",
            ]
        )
    },
    **ignored_all(
        "trustCertificateKeyStorePassword trustCertificateKeyStoreType clientCertificateKeyStorePassword "
        "clientCertificateKeyStoreType trustStorePassword keyStorePassword enabledTLSProtocols "
        "enabledSslProtocolSuites enabledSSLCipherSuites enabledSslCipherSuites tlsVersions tlsCiphersuites",
        _KEYSTORE,
    ),
    **ignored_all(
        "autoReconnect autoReconnectForPools failOverReadOnly maxReconnects initialTimeout retriesAllDown "
        "secondsBeforeRetryMaster queriesBeforeRetryMaster jdbcCompliantTruncation noAccessToProcedureBodies "
        "zeroDateTimeBehavior useLegacyDatetimeCode useJDBCCompliantTimezoneShift useTimezone serverTimezone "
        "connectionTimeZone forceConnectionTimeZoneToSession timezone useAffectedRows allowMultiQueries "
        "elideSetAutoCommits useLocalSessionState autocommit transactionReplay sessionTrack",
        _OWN,
    ),
    **ignored_all(
        "allowPublicKeyRetrieval serverRSAPublicKeyFile serverRsaPublicKeyFile useServerPrepStmts cachePrepStmts "
        "prepStmtCacheSize prepStmtCacheSqlLimit rewriteBatchedStatements useBulkStmts useBatchMultiSend "
        "useBatchMultiSendNumber useCursorFetch defaultFetchSize cacheServerConfiguration cacheResultSetMetadata "
        "cacheCallableStmts maintainTimeStats tcpKeepAlive tcpNoDelay tcpRcvBuf tcpSndBuf tcpTrafficClass "
        "useCompression logger profileSQL useUsageAdvisor dumpQueriesOnException logSlowQueries "
        "slowQueryThresholdMillis permitMysqlScheme maxAllowedPacket nullCatalogMeansCurrent "
        "nullDatabaseMeansCurrent tinyInt1isBit yearIsDateType useSqlComments autoDeserialize blobSendChunkSize "
        "emulateLocators pinGlobalTxToPhysicalConnection allowLoadLocalInfile allowLocalInfile "
        "allowUrlInLocalInfile defaultAuthenticationPlugin authenticationPlugins connectionAttributes pool "
        "poolName maxPoolSize minPoolSize maxIdleTime assureReadOnly dumpMetadataOnColumnNotFound "
        "useReadAheadInput usePipelineAuth disableMariaDbDriver",
        _DRIVER,
    ),
}

PARAMETERS: Final[Mapping[str, Mapping[str, Entry]]] = {
    "postgresql": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlite": {},
}


def parameter(backend: str, name: str) -> tuple[str, Entry] | None:
    """What a parameter of a driver becomes, with its name as the table writes it; None if it is in no table."""
    table = PARAMETERS[backend]
    if name in table:
        return name, table[name]
    folded = {known.lower(): known for known in table}
    known = folded.get(name.lower())
    return None if known is None else (known, table[known])
