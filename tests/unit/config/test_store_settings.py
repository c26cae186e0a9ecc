"""``<persistenceAdapter>``: which store, which lock, and their options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jdbcstore.config.activemq_xml.vocabulary.stores import STORE_KINDS
from jdbcstore.config.urls import journal_options
from jdbcstore.destination import Queue, Topic
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.kahadb.options import ACTIVEMQ_OPTIONS, KahaDBOptions
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.mkahadb.options import MKahaDBOptions
from jdbcstore.store.lease import LockerOptions
from tests.unit.config.written import POSTGRESQL, document, errors, options, read, warnings


def jdbc(attributes: str = "", inside: str = "", beans: str = POSTGRESQL) -> str:
    """A file with a JDBC store whose attributes are in line 9, and what is in it in line 10."""
    store = f'<jdbcPersistenceAdapter dataSource="#ds" {attributes}>\n{inside}\n</jdbcPersistenceAdapter>'
    return document(store=f"<persistenceAdapter>\n{store}</persistenceAdapter>", beans=beans)


def test_the_documentations_own_fragment(tmp_path: Path) -> None:
    beans = """<bean id="mysql-ds" class="org.apache.commons.dbcp.BasicDataSource" destroy-method="close">
    <property name="driverClassName" value="com.mysql.jdbc.Driver"/>
    <property name="url" value="jdbc:mysql://localhost/activemq?relaxAutoCommit=true"/>
    <property name="username" value="activemq"/>
    <property name="password" value="activemq"/>
    <property name="maxActive" value="200"/>
    <property name="poolPreparedStatements" value="true"/>
  </bean>"""
    store = """<persistenceAdapter>
      <jdbcPersistenceAdapter dataSource="#mysql-ds" createTablesOnStartup="false"/>
    </persistenceAdapter>"""
    xml = read(tmp_path, document(store=store, beans=beans))
    assert errors(xml) == []
    assert xml.configuration.url == "mysql://activemq:activemq@localhost:3306/activemq"
    assert xml.configuration.store == JdbcOptions(create_tables_on_startup=False, locker="database")
    assert [text.partition(" is not")[0] for text in warnings(xml)] == [
        "activemq.xml:6: bean mysql-ds url: parameter relaxAutoCommit",
        'activemq.xml:10: bean mysql-ds poolPreparedStatements="true"',
    ]


def test_the_documentations_own_lease(tmp_path: Path) -> None:
    """Its renewal is just as long as half of the lease, and the lease of ours refuses that."""
    inside = '<locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>'
    xml = read(tmp_path, jdbc('dataDirectory="${activemq.data}" lockKeepAlivePeriod="5000"', inside))
    assert xml.configuration.store == JdbcOptions(locker="lease", lock=LockerOptions(lease_ms=10_000))
    assert "renewed every 3333 ms instead" in warnings(xml)[1]


@pytest.mark.parametrize(
    ("attributes", "inside", "expected"),
    [
        ('useLock="false"', "", JdbcOptions(locker="none")),
        ('useDatabaseLock="false"', "<locker><lease-database-locker/></locker>", JdbcOptions(locker="none")),
        ("", "<locker><database-locker/></locker>", JdbcOptions(locker="database")),
        ("", "<databaseLocker><lease-database-locker/></databaseLocker>", JdbcOptions(locker="lease")),
        ('locker="lease-database-locker"', "", JdbcOptions(locker="lease")),
        (
            'lockKeepAlivePeriod="2000"',
            '<locker><lease-database-locker lockAcquireSleepInterval="6000" leaseHolderId="me" failIfLocked="true"'
            ' maxAllowableDiffFromDBTime="50"/></locker>',
            JdbcOptions(
                locker="lease",
                lock=LockerOptions(
                    lease_ms=6000,
                    lock_keep_alive_period_ms=2000,
                    lease_holder_id="me",
                    fail_if_locked=True,
                    max_allowable_diff_from_db_time_ms=50,
                ),
            ),
        ),
        (
            'lockAcquireSleepInterval="2000" lockKeepAlivePeriod="500"',
            "<locker><lease-database-locker/></locker>",
            JdbcOptions(locker="lease", lock=LockerOptions(lease_ms=2000, lock_keep_alive_period_ms=500)),
        ),
        (
            'lockAcquireSleepInterval="2000"',
            "",
            JdbcOptions(locker="database", lock=LockerOptions(lock_acquire_sleep_interval_ms=2000)),
        ),
        (
            'lockAcquireSleepInterval="9000"',
            '<locker><database-locker lockAcquireSleepInterval="250"/></locker>',
            JdbcOptions(locker="database", lock=LockerOptions(lock_acquire_sleep_interval_ms=250)),
        ),
        ('queryTimeout="7"', "", JdbcOptions(locker="database", query_timeout_s=7)),
        ('networkTimeout="2500" queryTimeout="7"', "", JdbcOptions(locker="database", query_timeout_s=2.5)),
        ('networkTimeout="-1" queryTimeout="0"', "", JdbcOptions(locker="database")),
        (
            "",
            '<statements><statements tablePrefix="X_"/></statements>',
            JdbcOptions(locker="database", table_prefix="X_"),
        ),
        (
            'cleanupPeriod="-1"',
            '<statements><statements messageTableName="M" durableSubAcksTableName="A" lockTableName="L"/></statements>',
            JdbcOptions(
                locker="database",
                cleanup_period_ms=0,
                message_table_name="M",
                durable_sub_acks_table_name="A",
                lock_table_name="L",
            ),
        ),
        (
            "",
            '<adapter><postgresql-jdbc-adapter><statements><statements tablePrefix="X_"/></statements>'
            "</postgresql-jdbc-adapter></adapter>",
            JdbcOptions(locker="database", table_prefix="X_"),
        ),
        ('adapter="defaultJDBCAdapter"', "", JdbcOptions(locker="database")),
        ('lockDataSource="#ds"', "", JdbcOptions(locker="database")),
        ("", '<locker><lease-database-locker dataSource="#ds"/></locker>', JdbcOptions(locker="lease")),
    ],
)
def test_attributes_become_options(tmp_path: Path, attributes: str, inside: str, expected: JdbcOptions) -> None:
    xml = read(tmp_path, jdbc(attributes, inside))
    assert errors(xml) == []
    assert xml.configuration.store == expected


@pytest.mark.parametrize(
    ("attributes", "inside", "place", "what"),
    [
        (
            "",
            '<statements><statements messageTableName="A B"/></statements>',
            10,
            "the table name 'A B' may have letters",
        ),
        ("", '<statements><statements tablePrefix="BROKER1."/></statements>', 10, "letters, digits and underscores"),
        ("", "<locker><shared-file-locker/></locker>", 10, "a file cannot prove anything"),
        ("", "<locker><transact-database-locker/></locker>", 10, "SQL Server"),
        ("", '<locker><lease-database-locker lockAcquireSleepInterval="500"/></locker>', 10, "at least 1000"),
        (
            "",
            '<locker><lease-database-locker lockAcquireSleepInterval="soon"/></locker>',
            10,
            "'soon' is not a whole number",
        ),
        ("", "<locker><database-locker><statements/></database-locker></locker>", 10, "the store's <statements> count"),
        ("", "<locker><kahaDB/></locker>", 10, "<kahaDB> is not known here; there are database-locker"),
        ("", "<adapter><mysql-jdbc-adapter/></adapter>", 10, "mysql-jdbc-adapter is not for postgresql"),
        ("", "<adapter><oracleJDBCAdapter/></adapter>", 10, "there is no store for this database"),
        ("", '<adapter><mysql-jdbc-adapter engineType="MYISAM"/></adapter>', 10, "the tables need InnoDB"),
        ('wireFormat="#w"', "", 9, "messages are stored as OpenWire"),
        ('useExternalMessageReferences="true"', "", 9, "messages are stored in the table"),
        ('createTablesOnStartup="maybe"', "", 9, "neither true nor false"),
        ('queryTimeout="long"', "", 9, "'long' is not a whole number"),
        ('useLock="true" useDatabaseLock="true"', "", 9, "useDatabaseLock is the old name of useLock"),
        ('lockDataSource="#other"', "", 9, "lockDataSource is another database"),
        ('adapter="#nobody"', "", 9, "there is no bean nobody"),
    ],
)
def test_what_cannot_be_is_an_error(tmp_path: Path, attributes: str, inside: str, place: int, what: str) -> None:
    other = POSTGRESQL.replace('"ds"', '"other"').replace("//db/", "//elsewhere/").replace("\n", " ")
    beans = POSTGRESQL.replace("\n", " ") + "\n" + other + "\n"
    found = errors(read(tmp_path, jdbc(attributes, inside, beans)))
    assert any(error.startswith(f"activemq.xml:{place}: ") and what in error for error in found), found


def test_without_a_lock_there_is_a_warning(tmp_path: Path) -> None:
    assert "nobody looks whether another broker" in warnings(read(tmp_path, jdbc('useLock="false"')))[0]


@pytest.mark.parametrize(("period", "why"), [("0", "never"), ("30000", "not less than half of the lease, 10000 ms")])
def test_a_renewal_that_is_too_seldom_is_not_taken(tmp_path: Path, period: str, why: str) -> None:
    xml = read(tmp_path, jdbc(f'lockKeepAlivePeriod="{period}"'))
    assert xml.configuration.store.lock == LockerOptions()
    assert why in warnings(xml)[0]


def test_a_standby_looks_at_least_once_in_a_lease(tmp_path: Path) -> None:
    xml = read(tmp_path, jdbc('lockAcquireSleepInterval="60000"'))
    assert xml.configuration.store.lock.lock_acquire_sleep_interval_ms == 10_000
    assert "a standby looks every 10000 ms" in warnings(xml)[0]


def test_sql_of_ones_own_is_a_warning_each(tmp_path: Path) -> None:
    inside = '<statements><statements findMessageStatement="SELECT 1"\nbinaryDataType="BYTEA"/></statements>'
    found = warnings(read(tmp_path, jdbc("", inside)))
    assert [text.partition(" is not")[0] for text in found] == [
        'activemq.xml:10: <statements> findMessageStatement="SELECT 1"',
        'activemq.xml:11: <statements> binaryDataType="BYTEA"',
    ]


def test_without_a_data_source_the_file_says_what_to_write(tmp_path: Path) -> None:
    store = "<persistenceAdapter><jdbcPersistenceAdapter/></persistenceAdapter>"
    (error,) = errors(read(tmp_path, document(store=store, beans="")))
    assert "embedded Derby is not there" in error
    assert "BasicDataSource" in error


@pytest.mark.parametrize(
    ("most", "pool_size", "is_told"),
    [("200", 5, False), ("12", 5, False), ("8", 3, False), ("4", 1, False), ("3", 1, True)],
)
def test_a_pool_is_never_larger_than_allowed(tmp_path: Path, most: str, pool_size: int, is_told: bool) -> None:
    beans = POSTGRESQL.replace("</bean>", f'<property name="maxTotal" value="{most}"/></bean>')
    xml = read(tmp_path, jdbc(beans=beans))
    assert xml.configuration.store.pool_size == pool_size
    assert bool(warnings(xml)) is is_told


def test_a_pool_without_limit_is_ours(tmp_path: Path) -> None:
    beans = POSTGRESQL.replace("</bean>", '<property name="maxTotal" value="-1"/></bean>')
    xml = read(tmp_path, jdbc(beans=beans))
    assert not xml.findings.found
    assert "store.pool_size" not in options(xml)


def test_on_sqlite_the_lock_is_a_lease(tmp_path: Path) -> None:
    url = '<property name="url" value="jdbc:sqlite:a.db"/>'
    beans = f'<bean id="ds" class="org.apache.commons.dbcp2.BasicDataSource">{url}</bean>'
    assert read(tmp_path, jdbc(beans=beans)).configuration.store.locker == "lease"
    (error,) = errors(read(tmp_path, jdbc("", "<locker><database-locker/></locker>", beans)))
    assert "<lease-database-locker/>" in error


# -- KahaDB ----------------------------------------------------------------------------------------------------------


def kahadb(attributes: str = "", inside: str = "", broker: str = "") -> str:
    """A file with a KahaDB store whose attributes are in line 7, and what is in it in line 8."""
    store = f"<persistenceAdapter>\n<kahaDB {attributes}>\n{inside}\n</kahaDB></persistenceAdapter>"
    return document(attributes=broker, store=store, beans="")


def test_kahadb_as_everybody_writes_it(tmp_path: Path) -> None:
    xml = read(tmp_path, kahadb('directory="activemq-data" journalMaxFileLength="16mb"'))
    assert xml.configuration.url == "kahadb:activemq-data"
    assert xml.configuration.kahadb == KahaDBOptions(journal_max_file_length_bytes=16 << 20)
    assert not xml.findings.found
    assert options(xml)["kahadb.journal_max_file_length_bytes"] == str(16 << 20)


def test_kahadb_without_a_directory_is_where_activemq_has_it(tmp_path: Path) -> None:
    assert read(tmp_path, kahadb()).configuration.url == "kahadb:KahaDB"


def test_every_option_of_kahadb_is_taken_with_its_default_and_changes_nothing(tmp_path: Path) -> None:
    for name, option in ACTIVEMQ_OPTIONS.items():
        if name != "storeOpenWireVersion":
            xml = read(tmp_path, kahadb(f'{name}="{option.default}"'))
            assert xml.configuration.kahadb == KahaDBOptions(), name
            assert not xml.findings.found, name


@pytest.mark.parametrize(
    ("attributes", "inside", "broker", "expected"),
    [
        ('ignoreMissingJournalfiles="true"', "", "", KahaDBOptions(ignore_missing_journal_files=True)),
        ('enableJournalDiskSyncs="false"', "", "", KahaDBOptions(journal_disk_sync_strategy="NEVER")),
        ('databaseLockedWaitDelay="500"', "", "", KahaDBOptions(lock_acquire_sleep_interval_ms=500)),
        (
            "",
            '<locker><shared-file-locker lockAcquireSleepInterval="5000" failIfLocked="true"/></locker>',
            "",
            KahaDBOptions(lock_acquire_sleep_interval_ms=5000, fail_if_database_is_locked=True),
        ),
        ("", "", 'storeOpenWireVersion="6"', KahaDBOptions(store_open_wire_version=6)),
    ],
)
def test_options_of_kahadb(tmp_path: Path, attributes: str, inside: str, broker: str, expected: KahaDBOptions) -> None:
    xml = read(tmp_path, kahadb(attributes, inside, broker))
    assert xml.configuration.kahadb == expected
    assert not xml.findings.found


@pytest.mark.parametrize(
    ("attributes", "inside", "error"),
    [
        (
            'journalMaxFileLenght="16mb"',
            "",
            "7: <kahaDB> has no journalMaxFileLenght, did you mean journalMaxFileLength?",
        ),
        ('journalMaxFileLength="16 megs"', "", "7: '16 megs' is not a size"),
        ('journalMaxFileLength="4gb"', "", "7: journal_max_file_length_bytes must be 1024 to"),
        ('journalDiskSyncStrategy="SOMETIMES"', "", "7: journal_disk_sync_strategy must be one of ALWAYS, PERIODIC"),
        ('directory=""', "", "7: <kahaDB> directory is empty"),
        ("", "<locker><lease-database-locker/></locker>", "8: <lease-database-locker> is for a database"),
        ("", '<locker><shared-file-locker directory="d"/></locker>', "8: <shared-file-locker> directory"),
        ("", '<locker><shared-file-locker when="d"/></locker>', "8: <shared-file-locker> has no when"),
    ],
)
def test_what_is_wrong_with_a_kahadb_is_told_with_its_line(
    tmp_path: Path, attributes: str, inside: str, error: str
) -> None:
    found = errors(read(tmp_path, kahadb(attributes, inside)))
    assert any(text.startswith(f"activemq.xml:{error}") for text in found), found


def test_what_means_nothing_for_a_kahadb_is_a_warning_that_says_why(tmp_path: Path) -> None:
    found = warnings(read(tmp_path, kahadb('checksumJournalFiles="false" useLock="false"')))
    assert found == [
        'activemq.xml:7: <kahaDB> checksumJournalFiles="false" is not used: every batch has a checksum',
        "activemq.xml:7: <kahaDB> useLock: nobody looks whether another broker uses the same directory",
    ]


def test_several_kahadb_are_their_url(tmp_path: Path) -> None:
    several = """<mKahaDB directory="d"><filteredPersistenceAdapters>
<filteredKahaDB queue="A.&gt;"><persistenceAdapter><kahaDB journalMaxFileLength="16mb"/></persistenceAdapter>
</filteredKahaDB>
<filteredKahaDB topic="T"><persistenceAdapter><kahaDB/></persistenceAdapter></filteredKahaDB>
<filteredKahaDB perDestination="true"><persistenceAdapter>
<kahaDB checkForCorruptJournalFiles="true" journalMaxFileLength="16mb"/></persistenceAdapter>
</filteredKahaDB></filteredPersistenceAdapters></mKahaDB>"""
    xml = read(tmp_path, document(store=f"<persistenceAdapter>{several}</persistenceAdapter>", beans=""))
    assert errors(xml) == []
    directory, options = journal_options(xml.configuration.url)
    assert directory == Path("d")
    assert isinstance(options, MKahaDBOptions)
    assert options.per_destination
    defaults = KahaDBOptions(use_lock=False)
    shorter = replace(defaults, journal_max_file_length_bytes=16 << 20)
    assert options.of_others() == replace(shorter, check_for_corrupt_journal_files=True)
    assert options.of_filters() == {Queue("A.>"): shorter, Topic("T"): defaults}
    assert warnings(xml) == []


# -- other stores ----------------------------------------------------------------------------------------------------


def test_memory_is_a_store(tmp_path: Path) -> None:
    store = "<persistenceAdapter><memoryPersistenceAdapter/></persistenceAdapter>"
    assert read(tmp_path, document(store=store, beans="")).configuration.url == "memory:"


FILE_STORES = {
    "journalPersistenceAdapter": "<journalPersistenceAdapter/>",
}


def amq(attributes: str) -> str:
    return document(store=f"<persistenceAdapter>\n<amqPersistenceAdapter {attributes}/></persistenceAdapter>", beans="")


def test_an_amq_store_is_its_url(tmp_path: Path) -> None:
    everything = (
        'directory="d" useNio="true" syncOnWrite="false" syncOnTransaction="true" maxFileLength="16mb"'
        ' persistentIndex="true" maxCheckpointMessageAddSize="4kb" checkpointInterval="60000" cleanupInterval="1000"'
        ' indexBinSize="1024" indexMaxBinSize="16384" indexLoadFactor="50" indexKeySize="96" indexPageSize="16kb"'
        ' maxReferenceFileLength="2mb" directoryArchive="old" archiveDataLogs="true" disableLocking="true"'
        ' recoverReferenceStore="true" forceRecoverReferenceStore="true"'
    )
    xml = read(tmp_path, amq(everything))
    assert errors(xml) == []
    directory, options = journal_options(xml.configuration.url)
    assert directory == Path("d")
    assert options == AMQOptions(
        journal_max_file_length_bytes=16 << 20,
        checkpoint_interval_ms=60_000,
        cleanup_interval_ms=1000,
        directory_archive="old",
        archive_data_logs=True,
        use_lock=False,
        force_recover_index=True,
    )
    assert any("indexPageSize" in warning for warning in warnings(xml))


def test_an_amq_store_without_a_directory_or_with_what_cannot_be(tmp_path: Path) -> None:
    assert 'write directory="' in errors(read(tmp_path, amq("")))[0]
    assert "did you mean useNio?" in errors(read(tmp_path, amq('directory="d" useNIO="true"')))[0]
    assert errors(read(tmp_path, amq('directory="d" maxFileLength="1"')))
    assert errors(read(tmp_path, amq(""), overridden={"store.url"})) == []


def leveldb(attributes: str, name: str = "levelDB") -> str:
    return document(store=f"<persistenceAdapter>\n<{name} {attributes}/></persistenceAdapter>", beans="")


def test_a_leveldb_store_is_its_url(tmp_path: Path) -> None:
    everything = (
        'directory="d" logDirectory="logs" sync="false" logSize="10mb" verifyChecksums="true" paranoidChecks="true"'
        ' indexFactory="org.iq80.leveldb.impl.Iq80DBFactory" indexMaxOpenFiles="10" indexBlockRestartInterval="8"'
        ' indexWriteBufferSize="1mb" indexBlockSize="8kb" indexCacheSize="1mb" indexCompression="none"'
        ' logCompression="snappy" flushDelay="10" asyncBufferSize="1mb" monitorStats="true" autoCompactionRatio="0"'
        ' failoverProducersAuditDepth="1" maxFailoverProducersToTrack="1" useLock="false"'
    )
    xml = read(tmp_path, leveldb(everything))
    assert errors(xml) == []
    directory, options = journal_options(xml.configuration.url)
    assert directory == Path("d")
    assert options == LevelDBOptions(
        log_directory="logs",
        journal_disk_sync_strategy="NEVER",
        journal_max_file_length_bytes=10 << 20,
        log_compression="SNAPPY",
        use_lock=False,
    )
    for name in ("verifyChecksums", "indexBlockSize", "flushDelay", "autoCompactionRatio"):
        assert any(name in warning for warning in warnings(xml))
    assert read(tmp_path, leveldb("")).configuration.url == "leveldb:LevelDB"
    assert "did you mean logSize?" in errors(read(tmp_path, leveldb('logsize="1mb"')))[0]


@pytest.mark.parametrize("name", FILE_STORES)
def test_a_store_that_is_not_there_is_one_clear_error(tmp_path: Path, name: str) -> None:
    store = f"<persistenceAdapter>\n{FILE_STORES[name]}</persistenceAdapter>"
    xml = read(tmp_path, document(store=store, beans=""))
    assert errors(xml)[0].startswith(f"activemq.xml:7: <{name}> is not supported: ")
    assert warnings(xml) == []
    instead = read(tmp_path, document(store=store, beans=""), overridden={"store.url"})
    assert errors(instead) == []


def test_what_replicated_leveldb_promised_is_asked_of_the_database_that_is_there_instead(tmp_path: Path) -> None:
    """Where a commit was, and how soon a master that is gone was replaced; the rest is the database's."""
    store = '<persistenceAdapter><replicatedLevelDB sync="local_disk, quorum_mem" zkSessionTimeout="3s" replicas="5"/>'
    xml = read(tmp_path, document(store=f"{store}</persistenceAdapter>", beans=""), overridden={"store.url"})
    assert errors(xml) == []
    found = xml.configuration.store
    assert (found.require_replication, found.lock.lease_ms) == ("quorum", 3000)
    refusal = errors(read(tmp_path, document(store=f"{store}</persistenceAdapter>", beans="")))[0]
    assert all(word in refusal for word in ("Patroni", "Galera", "docs/replication.md"))


@pytest.mark.parametrize(
    ("store", "what"),
    [
        (
            "<mKahaDB><filteredPersistenceAdapters><filteredKahaDB que='A'/></filteredPersistenceAdapters></mKahaDB>",
            "has no que",
        ),
    ],
)
def test_what_is_misspelt_in_a_store_that_is_not_there_is_told(tmp_path: Path, store: str, what: str) -> None:
    found = errors(read(tmp_path, document(store=f"<persistenceAdapter>{store}</persistenceAdapter>", beans="")))
    assert any(what in error for error in found), found


@pytest.mark.parametrize(
    "factory", ['<journalPersistenceAdapterFactory journalLogFiles="5"/>', '<journaledJDBC useJournal="false"/>']
)
def test_a_journal_in_front_of_a_database_is_not_there(tmp_path: Path, factory: str) -> None:
    found = errors(read(tmp_path, document(store=f"<persistenceFactory>{factory}</persistenceFactory>", beans="")))
    assert any("stop the old broker cleanly" in error for error in found)


def test_a_store_in_itself_is_an_error(tmp_path: Path) -> None:
    beans = '<amq:filteredKahaDB id="f" persistenceAdapter="#f"/>'
    store = '<persistenceAdapter><mKahaDB filteredPersistenceAdapters="#f"/></persistenceAdapter>'
    (error,) = errors(read(tmp_path, document(store=store, beans=beans)))
    assert "filteredKahaDB" in error


def test_a_persistence_adapter_holds_a_store(tmp_path: Path) -> None:
    for store in ("<persistenceAdapter/>", "<persistenceAdapter><statements/></persistenceAdapter>"):
        assert len(errors(read(tmp_path, document(store=store, beans="")))) == 1


def test_every_store_is_tried_here() -> None:
    tried = {
        *FILE_STORES,
        "amqPersistenceAdapter",
        "levelDB",
        "replicatedLevelDB",
        "mKahaDB",
        "kahaDB",
        "jdbcPersistenceAdapter",
        "memoryPersistenceAdapter",
        "journaledJDBC",
    }
    stores = {kind.name for kind in STORE_KINDS if kind.where == "files"} | {"jdbcPersistenceAdapter"}
    assert stores - tried == {"filteredKahaDB", "journalPersistenceAdapterFactory", "shared-file-locker"}
