"""The elements in ``<persistenceAdapter>``: the JDBC store with its parts, KahaDB, and other stores in files."""

from __future__ import annotations

import re
from typing import Final

from jdbcstore.config.activemq_xml.vocabulary.entry import (
    Entry,
    Kind,
    boolean,
    ignored,
    ignored_all,
    integer,
    refused,
    text,
    used,
)
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.journal.amq.options import AMQ_OPTIONS
from jdbcstore.store.journal.kahadb.options import ACTIVEMQ_OPTIONS, ActiveMQOption
from jdbcstore.store.journal.leveldb.options import LEVELDB_OPTIONS

__all__ = ["ADAPTERS", "LOCKERS", "STORES", "STORE_KINDS"]

_CACHE: Final = "what producers sent again is recognised by store.producer_memory_s"
_DERBY: Final = "nothing is kept in files; ActiveMQ uses it for its embedded Derby"
_NO_JAVA: Final = "no Java objects are run"
_LOCK_DATABASE: Final = "used if it is the same database: a lock elsewhere could not be proved by the commits"

_JDBC: Final = {
    "dataSource": used("`store.url`, see below", "an embedded Derby, which is not there"),
    "lockDataSource": used(_LOCK_DATABASE, "dataSource"),
    "adapter": used("the database decides; an adapter for another one is refused", "by the driver"),
    "statements": used("`store.table_prefix`, see below"),
    "createTablesOnStartup": used(
        "`store.create_tables_on_startup`. **Differs**: tables that are there are never altered",
        "true",
        option="store.create_tables_on_startup",
        read=boolean,
    ),
    "useLock": used('false: `store.locker = "none"`', "true"),
    "useDatabaseLock": used("old name of useLock", "true"),
    "locker": used(
        "`store.locker`, see below. Without it `database`, as in ActiveMQ, so that Java brokers with the same"
        " file take turns with ours",
        "database-locker",
    ),
    "databaseLocker": used("old name of locker"),
    "lockKeepAlivePeriod": used(
        "`store.lock.lock_keep_alive_period_ms`. **Differs**: a third of the lease, also when the"
        " value is not less than half of it: with ActiveMQ's defaults, renewal every 30 s and a"
        " lease of 10 s, two brokers are master at once",
        "30000",
    ),
    "lockAcquireSleepInterval": used("as that of the locker", "10000"),
    "queryTimeout": used(
        "`store.query_timeout_s`; the smallest of queryTimeout, networkTimeout and the driver's"
        " socketTimeout counts. **Differs**: 30 s without any",
        "-1, none",
    ),
    "networkTimeout": used("as queryTimeout, in ms", "-1, none"),
    "cleanupPeriod": used(
        "`store.cleanup_period_ms`, 0 or less is never; what everybody has acknowledged is removed soon anyway",
        "300000",
        option="store.cleanup_period_ms",
        read=lambda value: max(0, integer(value)),
    ),
    "stopOnError": ignored("what happens without a database is for the ioExceptionHandler to say", "false", "false"),
    "transactionIsolation": ignored(
        "each statement reads what is committed. **Differs**: ActiveMQ reads what is not", "0, READ UNCOMMITTED"
    ),
    "changeAutoCommitAllowed": ignored("the connections belong to nobody else", "true", "true"),
    "maxRows": ignored("pages are bounded by broker.page_messages_max and page_bytes_max", "32767"),
    "enableAudit": ignored(_CACHE, "false", "false"),
    "maxAuditDepth": ignored(_CACHE, "1000"),
    "maxProducersToAudit": ignored(_CACHE, "1024"),
    "auditRecoveryDepth": ignored(_CACHE, "1024"),
    "wireFormat": refused("messages are stored as OpenWire"),
    "useExternalMessageReferences": refused(
        "messages are stored in the table; ActiveMQ does nothing else either", "false", "false"
    ),
    "dataDirectory": ignored(_DERBY, "activemq-data"),
    "dataDirectoryFile": ignored(_DERBY),
    "directory": ignored(_DERBY),
    "brokerName": ignored("the broker's own brokerName counts, as in ActiveMQ"),
    "usageManager": ignored("see systemUsage of the broker"),
    "brokerService": ignored(_NO_JAVA),
    "scheduledThreadPoolExecutor": ignored(_NO_JAVA),
}


def _table_name(option: str, default: str) -> Entry:
    return used(f"`store.{option}`, letters, digits and underscores", default, option=f"store.{option}", read=text)


_TYPE: Final = (
    "the types of new tables are those of docs/schema.md; tables that are there are used with the types they have"
)
_SQL: Final = "this store has SQL of its own"
_SQL_NAMES: Final = (
    "createSchemaStatements createLockSchemaStatements dropSchemaStatements addMessageStatement "
    "updateMessageStatement removeMessageStatment removeMessageStatement findMessageSequenceIdStatement "
    "findMessageStatement findMessageByIdStatement findXidByIdStatement findAllMessagesStatement "
    "findAllMessageIdsStatement findLastSequenceIdInMsgsStatement findLastSequenceIdInAcksStatement "
    "lastProducerSequenceIdStatement createDurableSubStatement findDurableSubStatement "
    "findAllDurableSubsStatement deleteSubscriptionStatement findAllDurableSubMessagesStatement "
    "findDurableSubMessagesStatement findDurableSubMessagesByPriorityStatement "
    "durableSubscriberMessageCountStatement durableSubscriberMessageCountStatementWithPriority "
    "lastAckedDurableSubscriberMessageStatement findAllDestinationsStatement removeAllMessagesStatement "
    "removeAllSubscriptionsStatement deleteOldMessagesStatementWithPriority destinationMessageCountStatement "
    "findNextMessagesStatement findNextMessagesByPriorityStatement updateDurableLastAckStatement "
    "updateDurableLastAckInTxStatement updateDurableLastAckWithPriorityStatement "
    "updateDurableLastAckWithPriorityInTxStatement clearDurableLastAckInTxStatement updateXidFlagStatement "
    "clearXidFlagStatement findOpsPendingOutcomeStatement findAcksPendingOutcomeStatement lockCreateStatement "
    "lockUpdateStatement leaseObtainStatement leaseUpdateStatement leaseOwnerStatement currentDateTimeStatement "
    "nextDurableSubscriberMessageStatement selectDurablePriorityAckStatement insertDurablePriorityAckStatement "
    "updateLastPriorityAckRowOfDurableSubStatement"
)
_STATEMENTS: Final = {
    "tablePrefix": used(
        "`store.table_prefix`, letters, digits and underscores", "empty", option="store.table_prefix", read=text
    ),
    "messageTableName": _table_name("message_table_name", "ACTIVEMQ_MSGS"),
    "durableSubAcksTableName": _table_name("durable_sub_acks_table_name", "ACTIVEMQ_ACKS"),
    "lockTableName": _table_name("lock_table_name", "ACTIVEMQ_LOCK"),
    "useExternalMessageReferences": refused(
        "messages are stored in the table; ActiveMQ does nothing else either", "false", "false"
    ),
    "useLockCreateWhereClause": ignored("the table has one row", "false"),
    **ignored_all(
        "binaryDataType=BLOB containerNameDataType=VARCHAR(250) msgIdDataType=VARCHAR(250) "
        "sequenceDataType=BIGINT longDataType=BIGINT stringIdDataType=VARCHAR(250)",
        _TYPE,
    ),
    "dropAckPKAlterStatementEnd": ignored("no key is dropped at a start", "DROP PRIMARY KEY"),
    **ignored_all(_SQL_NAMES, _SQL),
}

_LOCKER: Final = {
    "failIfLocked": used(
        "`store.lock.fail_if_locked`. **Differs**: ActiveMQ's database lockers do not look at it",
        "false",
        option="store.lock.fail_if_locked",
        read=boolean,
    ),
    "dataSource": used(_LOCK_DATABASE, "that of the store"),
    "queryTimeout": ignored("a question about the lock may take a third of the lease", "-1"),
    "createTablesOnStartup": ignored("createTablesOnStartup of the store counts", "false"),
    "statements": refused("the store's <statements> count; name the tables there"),
    "name": ignored("the log tells the kind of the locker"),
    "lockable": ignored(_NO_JAVA),
}
_POLL: Final = "`store.lock.lock_acquire_sleep_interval_ms`. **Differs**: 1000 without it, so that a standby is quick"
_LEASE: Final = (
    "`store.lock.lease_ms`: with this locker ActiveMQ's lease is as long. How often a standby looks is"
    " `store.lock.lock_acquire_sleep_interval_ms`, 1000"
)

_WHICH_ADAPTER: Final = {
    **ignored_all(
        "batchStatements=true batchStatments=true maxRows=32767 acksPkName typeStatement=ENGINE",
        "statements and tables are this store's own",
    ),
    "statements": used("as that of the store"),
    "engineType": refused("the tables need InnoDB, which is transactional", "INNODB", "innodb"),
    "useExternalMessageReferences": refused("messages are stored in the table", "false", "false"),
}
_ADAPTERS: Final = {
    "postgresql-jdbc-adapter": "PostgresqlJDBCAdapter",
    "mysql-jdbc-adapter": "MySqlJDBCAdapter",
    "defaultJDBCAdapter": "DefaultJDBCAdapter",
    "bytesJDBCAdapter": "BytesJDBCAdapter",
    "blobJDBCAdapter": "BlobJDBCAdapter",
}
_OTHER_ADAPTERS: Final = {
    "axionJDBCAdapter": "AxionJDBCAdapter",
    "db2JDBCAdapter": "DB2JDBCAdapter",
    "h2-jdbc-adapter": "H2JDBCAdapter",
    "hsqldb-jdbc-adapter": "HsqldbJDBCAdapter",
    "imageBasedJDBCAdaptor": "ImageBasedJDBCAdaptor",
    "informixJDBCAdapter": "InformixJDBCAdapter",
    "maxdb-jdbc-adapter": "MaxDBJDBCAdapter",
    "oracleBlobJDBCAdapter": "OracleBlobJDBCAdapter",
    "oracleJDBCAdapter": "OracleJDBCAdapter",
    "sqlServerJDBCAdapter": "SqlServerJDBCAdapter",
    "streamJDBCAdapter": "StreamJDBCAdapter",
    "sybase-jdbc-adapter": "SybaseJDBCAdapter",
    "transact-jdbc-adapter": "TransactJDBCAdapter",
}
_STORES: Final = "there are PostgreSQL, MySQL, MariaDB and SQLite"


_REPLICATE_THE_DATABASE: Final = (
    'replicas are the database\'s matter here: use <jdbcPersistenceAdapter dataSource="#ID"/> on PostgreSQL with'
    " Patroni, on MariaDB Galera or on MySQL Group Replication (docs/replication.md), with a broker on each machine;"
    " sync and zkSessionTimeout count if store.url names such a database; a node's messages are brought there by"
    " 'jdbcstore migrate leveldb:DIRECTORY URL'"
)


def _kahadb(name: str, option: ActiveMQOption) -> Entry:
    if not option.field:
        return ignored(option.about, option.default, option.default.lower())
    says = f"`kahadb.{option.field}`" + (f", {option.about}" if option.about else "")
    return used(says, option.default, option=f"kahadb.{option.field}", read=option.read)


_KAHADB: Final = {
    "directory": used("`store.url` is `kahadb:` and this", "KahaDB"),
    **{name: _kahadb(name, option) for name, option in ACTIVEMQ_OPTIONS.items() if name != "storeOpenWireVersion"},
    "locker": used("a shared-file-locker", "shared-file-locker"),
    "stopOnError": ignored("what happens when the disk refuses is for the ioExceptionHandler to say", "false", "false"),
    "brokerName": ignored("the broker's own brokerName counts"),
    "usageManager": ignored("see systemUsage of the broker"),
    "brokerService": ignored(_NO_JAVA),
    "scheduledThreadPoolExecutor": ignored(_NO_JAVA),
    "transactionIdTransformer": ignored(_NO_JAVA),
}


def _directory(table: str) -> dict[str, Entry]:
    """What every store in a directory has: its lock, and what is no affair of a store here."""
    return {
        "useLock": used("`use_lock` of the URL", "true", option=f"{table}.use_lock", read=boolean),
        "lockKeepAlivePeriod": used(
            "`lock_keep_alive_period_ms` of the URL", "0", option=f"{table}.lock_keep_alive_period_ms", read=integer
        ),
        "lockAcquireSleepInterval": used(
            "`lock_acquire_sleep_interval_ms` of the URL",
            "10000",
            option=f"{table}.lock_acquire_sleep_interval_ms",
            read=integer,
        ),
        "stopOnError": ignored(
            "what happens when the disk refuses is for the ioExceptionHandler to say", "false", "false"
        ),
        "locker": used("a shared-file-locker", "shared-file-locker"),
        "brokerName": ignored("the broker's own brokerName counts"),
        "usageManager": ignored("see systemUsage of the broker"),
        "brokerService": ignored(_NO_JAVA),
        "scheduledThreadPoolExecutor": ignored(_NO_JAVA),
    }


def _amq(name: str, option: ActiveMQOption) -> Entry:
    if not option.field:
        return ignored(option.about, option.default, option.default.lower())
    return used(f"`{option.field}` of the URL", option.default, option=f"amq.{option.field}", read=option.read)


_AMQ: Final = {
    "directory": used("`store.url` is `amq:` and this; it has to be given", "activemq-data/BROKERNAME"),
    **{name: _amq(name, option) for name, option in AMQ_OPTIONS.items()},
    **_directory("amq"),
}


def _leveldb(name: str, option: ActiveMQOption) -> Entry:
    if not option.field:
        return ignored(option.about, option.default, option.default.lower())
    return used(f"`{option.field}` of the URL", option.default, option=f"leveldb.{option.field}", read=option.read)


_LEVELDB: Final = {
    "directory": used("`store.url` is `leveldb:` and this", "LevelDB"),
    **{name: _leveldb(name, option) for name, option in LEVELDB_OPTIONS.items() if name != "failIfLocked"},
    "stopOnError": ignored("what happens when the disk refuses is for the ioExceptionHandler to say", "false", "false"),
    "locker": used("a shared-file-locker", "shared-file-locker"),
    "brokerName": ignored("the broker's own brokerName counts"),
    "usageManager": ignored("see systemUsage of the broker"),
    "brokerService": ignored(_NO_JAVA),
    "scheduledThreadPoolExecutor": ignored(_NO_JAVA),
}
#: Where a commit of replicated LevelDB was when it was answered, and what asks a database for as much.
_SYNC: Final = {
    "quorum_mem": "quorum",
    "quorum_disk": "quorum",
    "remote_mem": "any",
    "remote_disk": "any",
    "local_mem": "none",
    "local_disk": "none",
}


def _replication(value: str) -> str:
    """``sync``, several words separated by commas; the strictest counts."""
    levels = []
    for word in value.split(","):
        if (level := _SYNC.get(word.strip().lower())) is None:
            raise ConfigurationError(f"sync {word.strip()!r} is none of {', '.join(_SYNC)}")
        levels.append(level)
    return max(levels, key=("none", "any", "quorum").index)


def _session_ms(value: str) -> int:
    """``2s``, ``500ms``, or a number of milliseconds."""
    found = re.fullmatch(r"\s*(\d+)\s*(ms|s|m)?\s*", value)
    if found is None:
        raise ConfigurationError(f"{value!r} is no time such as 2s")
    return int(found[1]) * {"s": 1000, "m": 60_000}.get(found[2], 1)


_OF_THE_DATABASE: Final = "the database's cluster has its own"
_ZOOKEEPER: Final = "the lease in the database decides who is master, no ZooKeeper is asked"
_REPLICATED: Final = {
    **_LEVELDB,
    **{
        name: ignored(_OF_THE_DATABASE, option.default, option.default.lower())
        for name, option in LEVELDB_OPTIONS.items()
        if name != "failIfLocked"
    },
    "directory": ignored("'jdbcstore migrate leveldb:DIRECTORY URL' brings its messages into the database", "LevelDB"),
    "sync": used(
        "`store.require_replication`: quorum_… is `quorum`, remote_… is `any`, local_… is `none`",
        "quorum_mem",
        option="store.require_replication",
        read=_replication,
    ),
    "zkSessionTimeout": used(
        "`store.lock.lease_ms`: how soon a master that is gone is replaced",
        "2s",
        option="store.lock.lease_ms",
        read=_session_ms,
    ),
    "zkSessionTmeout": used(
        "zkSessionTimeout, by its name before 5.11", "2s", option="store.lock.lease_ms", read=_session_ms
    ),
    "replicas": ignored("it is how many servers the database's cluster has", "3"),
    "bind": ignored(_OF_THE_DATABASE, "tcp://0.0.0.0:61619"),
    "hostname": ignored(_OF_THE_DATABASE, "the host's"),
    "securityToken": ignored(_OF_THE_DATABASE, "empty"),
    "weight": ignored("whoever asks first becomes master", "1"),
    "connectUrl": ignored("clients find the master by a failover: URL, or by a load balancer", "none"),
    "container": ignored(_NO_JAVA, "none"),
    **ignored_all("zkAddress zkPath zkPassword", _ZOOKEEPER),
}
_TX_STORE: Final = "the journal of transactions over several stores is small, and kept as the stores are"
_MKAHADB: Final = {
    "directory": used("`store.url` is `mkahadb:` and this", "mKahaDB"),
    "filteredPersistenceAdapters": used("a list of filteredKahaDB"),
    "journalMaxFileLength": ignored(_TX_STORE, "32mb", "32mb 33554432"),
    "journalWriteBatchSize": ignored(_TX_STORE, "4mb", "4mb 4194304"),
    "journalCleanupInterval": ignored(_TX_STORE, "30000", "30000"),
    "checkForCorruption": ignored("it is always checked", "true", "true"),
    **_directory("kahadb"),
    "transactionStore": ignored(_NO_JAVA),
}
_FILTERED: Final = {
    "queue": used("`filters` of the URL"),
    "topic": used("`filters` of the URL"),
    "perDestination": used("`per_destination` of the URL, of the one without queue and topic", "false"),
    "persistenceAdapter": used("a kahaDB; what it has otherwise than the others stands in `filters`"),
    "tempQueue": ignored("temporary destinations are not stored"),
    "tempTopic": ignored("temporary destinations are not stored"),
    "destination": ignored("write queue or topic"),
    "usage": ignored("see systemUsage of the broker"),
}
_JOURNAL: Final = (
    "the journal in front of a database is not there, and ActiveMQ has removed it, too: stop the old broker cleanly, so"
    ' that its journal is empty, and write <persistenceAdapter><jdbcPersistenceAdapter dataSource="#ID"/>'
    "</persistenceAdapter>"
)

_PACKAGE: Final = "org.apache.activemq.store."

STORE_KINDS: Final = (
    Kind(
        "jdbcPersistenceAdapter",
        "The store in a database.",
        _JDBC,
        (_PACKAGE + "jdbc.JDBCPersistenceAdapter",),
        where="jdbc",
    ),
    Kind("statements", "Names, types and texts of SQL.", _STATEMENTS, (_PACKAGE + "jdbc.Statements",), where="jdbc"),
    Kind(
        "database-locker",
        '`store.locker = "database"`.',
        {
            "lockAcquireSleepInterval": used(_POLL, "10000"),
            "exceptionHandler": ignored(_NO_JAVA),
            **_LOCKER,
        },
        (_PACKAGE + "jdbc.DefaultDatabaseLocker",),
        where="jdbc",
    ),
    Kind(
        "lease-database-locker",
        '`store.locker = "lease"`.',
        {
            "lockAcquireSleepInterval": used(_LEASE, "10000"),
            "leaseHolderId": used(
                "`store.lock.lease_holder_id`; a random part follows it",
                "brokerName",
                option="store.lock.lease_holder_id",
                read=text,
            ),
            "maxAllowableDiffFromDBTime": used(
                "`store.lock.max_allowable_diff_from_db_time_ms`. **Differs**: only warns, the"
                " lease goes by the database's clock",
                "0",
                option="store.lock.max_allowable_diff_from_db_time_ms",
                read=integer,
            ),
            "handleStartException": ignored("a start waits for the database for broker.start_timeout_s", "false"),
            **_LOCKER,
        },
        (_PACKAGE + "jdbc.LeaseDatabaseLocker",),
        where="jdbc",
    ),
    Kind(
        "transact-database-locker",
        "The locker for SQL Server and Sybase.",
        {
            "lockAcquireSleepInterval": used(_POLL, "10000"),
            "exceptionHandler": ignored(_NO_JAVA),
            **_LOCKER,
        },
        (_PACKAGE + "jdbc.adapter.TransactDatabaseLocker",),
        refused=f"it is for SQL Server, for which there is no store; {_STORES}",
        where="jdbc",
    ),
    Kind(
        "shared-file-locker",
        "The locker of stores in files.",
        {
            "lockAcquireSleepInterval": used(
                "`kahadb.lock_acquire_sleep_interval_ms`",
                "10000",
                option="kahadb.lock_acquire_sleep_interval_ms",
                read=integer,
            ),
            "failIfLocked": used(
                "`kahadb.fail_if_database_is_locked`",
                "false",
                option="kahadb.fail_if_database_is_locked",
                read=boolean,
            ),
            "directory": refused("the lock is where the journal is, so that nobody writes the journal without it"),
            "name": ignored("the log tells the kind of the locker"),
            "lockable": ignored(_NO_JAVA),
        },
        (_PACKAGE + "SharedFileLocker",),
        where="files",
    ),
    *(
        Kind(
            name,
            "How ActiveMQ speaks to a database.",
            _WHICH_ADAPTER,
            (f"{_PACKAGE}jdbc.adapter.{class_name}",),
            where="jdbc",
        )
        for name, class_name in _ADAPTERS.items()
    ),
    *(
        Kind(
            name,
            "How ActiveMQ speaks to a database.",
            _WHICH_ADAPTER,
            (f"{_PACKAGE}jdbc.adapter.{class_name}",),
            refused=f"there is no store for this database; {_STORES}",
            where="jdbc",
        )
        for name, class_name in _OTHER_ADAPTERS.items()
    ),
    Kind(
        "memoryPersistenceAdapter",
        "`store.url` is `memory:`.",
        {
            "createTransactionStore": ignored("of no meaning here", "false"),
            "useExternalMessageReferences": ignored("of no meaning here", "false"),
            "directory": ignored("nothing is kept in files"),
            "brokerName": ignored("the broker's own brokerName counts"),
            "usageManager": ignored("see systemUsage of the broker"),
        },
        (_PACKAGE + "memory.MemoryPersistenceAdapter",),
        where="files",
    ),
    Kind(
        "kahaDB",
        "ActiveMQ's default store, on its own files.",
        _KAHADB,
        (_PACKAGE + "kahadb.KahaDBPersistenceAdapter", _PACKAGE + "kahadb.KahaDBStore"),
        where="files",
    ),
    Kind(
        "mKahaDB",
        "Several KahaDB in one directory.",
        _MKAHADB,
        (_PACKAGE + "kahadb.MultiKahaDBPersistenceAdapter",),
        where="files",
    ),
    Kind(
        "filteredKahaDB",
        "One of them.",
        _FILTERED,
        (_PACKAGE + "kahadb.FilteredKahaDBPersistenceAdapter",),
        where="files",
    ),
    Kind(
        "amqPersistenceAdapter",
        "The store of ActiveMQ 5.0 to 5.8, the default up to 5.3, on its own files ([older stores](older-stores.md)).",
        _AMQ,
        (_PACKAGE + "amq.AMQPersistenceAdapter",),
        where="files",
    ),
    Kind(
        "levelDB",
        "The LevelDB store of ActiveMQ 5.7 to 5.16, on its own files ([older stores](older-stores.md)).",
        _LEVELDB,
        (
            "org.apache.activemq.leveldb.LevelDBPersistenceAdapter",
            "org.apache.activemq.store.leveldb.LevelDBPersistenceAdapter",
            "org.apache.activemq.leveldb.LevelDBStore",
        ),
        where="files",
    ),
    Kind(
        "replicatedLevelDB",
        "The replicated LevelDB store of ActiveMQ 5.9 to 5.16.",
        _REPLICATED,
        ("org.apache.activemq.leveldb.replicated.ElectingLevelDBStore",),
        _REPLICATE_THE_DATABASE,
        "files",
    ),
    Kind(
        "journalPersistenceAdapter",
        "A journal in front of a database.",
        classes=(_PACKAGE + "journal.JournalPersistenceAdapter",),
        refused=_JOURNAL,
        where="files",
    ),
    Kind(
        "journalPersistenceAdapterFactory",
        "A journal in front of a database.",
        classes=(_PACKAGE + "journal.JournalPersistenceAdapterFactory",),
        refused=_JOURNAL,
        where="files",
    ),
    Kind(
        "journaledJDBC",
        "A journal in front of a database.",
        classes=(_PACKAGE + "PersistenceAdapterFactoryBean",),
        refused=_JOURNAL,
        where="files",
    ),
)

LOCKERS: Final = tuple(kind.name for kind in STORE_KINDS if kind.name.endswith("-locker"))
ADAPTERS: Final = (*_ADAPTERS, *_OTHER_ADAPTERS)
STORES: Final = tuple(
    kind.name for kind in STORE_KINDS if kind.name not in ("statements", "filteredKahaDB", *LOCKERS, *ADAPTERS)
)
