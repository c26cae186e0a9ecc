"""Nothing in a configuration is passed over in silence: every attribute is known, and each has its consequence."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from jdbcstore.broker.destination_policy import DeadLetterStrategy, DestinationPolicy, RedeliveryPolicy
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.virtual_destinations import CompositeDestination, MirroredQueue, VirtualTopic
from jdbcstore.config.activemq_xml.beans import Bean, Setting, Text
from jdbcstore.config.activemq_xml.findings import Findings, Place
from jdbcstore.config.activemq_xml.jdbc_url import PARAMETERS
from jdbcstore.config.activemq_xml.placeholders import Placeholders
from jdbcstore.config.activemq_xml.settings import Settings
from jdbcstore.config.activemq_xml.vocabulary import KINDS, kind_named
from jdbcstore.config.activemq_xml.vocabulary.broker import STOMP_URI
from jdbcstore.config.activemq_xml.vocabulary.connectors import AUTO_URI, OPENWIRE_URI, WEBSOCKET_URI
from jdbcstore.config.activemq_xml.vocabulary.entry import Entry, Fate, Kind, boolean, integer, number, size
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.lease import LockerOptions
from tests.unit.config.documentation import DOCUMENT, rendered

#: What ActiveMQ 5.17 and 6.3 have, by element; deprecated names included.
ATTRIBUTES = {
    "jdbcPersistenceAdapter": """
        dataSource lockDataSource adapter statements wireFormat createTablesOnStartup cleanupPeriod useLock
        useDatabaseLock locker databaseLocker lockKeepAlivePeriod lockAcquireSleepInterval stopOnError
        transactionIsolation changeAutoCommitAllowed queryTimeout networkTimeout maxRows enableAudit
        maxAuditDepth maxProducersToAudit auditRecoveryDepth useExternalMessageReferences directory
        dataDirectory brokerName usageManager
    """,
    "statements": """
        messageTableName durableSubAcksTableName lockTableName tablePrefix binaryDataType
        containerNameDataType msgIdDataType sequenceDataType longDataType stringIdDataType
        useExternalMessageReferences useLockCreateWhereClause dropAckPKAlterStatementEnd
        createSchemaStatements createLockSchemaStatements dropSchemaStatements addMessageStatement
        updateMessageStatement removeMessageStatment findMessageSequenceIdStatement findMessageStatement
        findMessageByIdStatement findXidByIdStatement findAllMessagesStatement findAllMessageIdsStatement
        findLastSequenceIdInMsgsStatement findLastSequenceIdInAcksStatement lastProducerSequenceIdStatement
        createDurableSubStatement findDurableSubStatement findAllDurableSubsStatement
        deleteSubscriptionStatement findAllDurableSubMessagesStatement findDurableSubMessagesStatement
        durableSubscriberMessageCountStatement durableSubscriberMessageCountStatementWithPriority
        lastAckedDurableSubscriberMessageStatement findAllDestinationsStatement removeAllMessagesStatement
        removeAllSubscriptionsStatement deleteOldMessagesStatementWithPriority
        destinationMessageCountStatement findNextMessagesStatement findNextMessagesByPriorityStatement
        updateDurableLastAckStatement updateDurableLastAckInTxStatement
        updateDurableLastAckWithPriorityStatement updateDurableLastAckWithPriorityInTxStatement
        clearDurableLastAckInTxStatement updateXidFlagStatement clearXidFlagStatement
        findOpsPendingOutcomeStatement findAcksPendingOutcomeStatement lockCreateStatement
        lockUpdateStatement leaseObtainStatement leaseUpdateStatement leaseOwnerStatement
        currentDateTimeStatement nextDurableSubscriberMessageStatement selectDurablePriorityAckStatement
        insertDurablePriorityAckStatement updateLastPriorityAckRowOfDurableSubStatement
    """,
    "database-locker": """
        lockAcquireSleepInterval failIfLocked name lockable dataSource statements createTablesOnStartup
        queryTimeout exceptionHandler
    """,
    "lease-database-locker": """
        lockAcquireSleepInterval failIfLocked name lockable dataSource statements createTablesOnStartup
        queryTimeout leaseHolderId maxAllowableDiffFromDBTime handleStartException
    """,
    "transact-database-locker": "lockAcquireSleepInterval failIfLocked name dataSource statements exceptionHandler",
    "shared-file-locker": "lockAcquireSleepInterval failIfLocked name directory",
    "postgresql-jdbc-adapter": """
        acksPkName batchStatements batchStatments maxRows statements useExternalMessageReferences
    """,
    "mysql-jdbc-adapter": """
        engineType typeStatement batchStatements batchStatments maxRows statements
        useExternalMessageReferences
    """,
    "defaultIOExceptionHandler": """
        ignoreAllErrors ignoreNoSpaceErrors noSpaceMessage ignoreSQLExceptions sqlExceptionMessage
        stopStartConnectors resumeCheckSleepPeriod systemExitOnShutdown
    """,
    "leaseLockerIOExceptionHandler": """
        ignoreAllErrors ignoreNoSpaceErrors noSpaceMessage ignoreSQLExceptions sqlExceptionMessage
        stopStartConnectors resumeCheckSleepPeriod systemExitOnShutdown
    """,
    "jDBCIOExceptionHandler": "resumeCheckSleepPeriod",
    "broker": """
        adjustUsageLimits adminView advisorySupport allowTempAutoCreationOnSend
        anonymousProducerAdvisorySupport brokerContext brokerId brokerName brokerObjectName
        cacheTempDestinations consumerSystemUsage consumerSystemUsagePortion dataDirectory dataDirectoryFile
        dedicatedTaskRunner deleteAllMessagesOnStartup destinationFactory destinationInterceptors
        destinationPolicy destinations diskUsageCheckRegrowThreshold
        enableMessageExpirationOnActiveDurableSubs enableStatistics ioExceptionHandler jmsBridgeConnectors
        jobSchedulerStore keepDurableSubsActive managementContext maxPurgedDestinationsPerSweep
        maxSchedulerRepeatAllowed mbeanInvocationTimeout messageAuthorizationPolicy monitorConnectionSplits
        networkConnectorStartAsync networkConnectorURIs networkConnectors
        offlineDurableSubscriberTaskSchedule offlineDurableSubscriberTimeout passiveSlave persistenceAdapter
        persistenceFactory persistenceTaskRunnerFactory persistenceThreadPriority persistent plugins
        populateJMSXUserID populateUserNameInMBeans producerSystemUsage producerSystemUsagePortion
        proxyConnectors regionBroker rejectDurableConsumers restartAllowed rollbackOnlyOnAsyncException
        schedulePeriodForDestinationPurge schedulePeriodForDiskUsageCheck schedulerDirectory
        schedulerDirectoryFile schedulerSupport services shutdownHooks shutdownOnMasterFailure
        shutdownOnSlaveFailure splitSystemUsageForProducersConsumers sslContext start startAsync
        storeOpenWireVersion systemExitOnShutdown systemExitOnShutdownExitCode systemUsage taskRunnerFactory
        taskRunnerPriority tempDataStore timeBeforePurgeTempDestinations tmpDataDirectory
        transportConnectorURIs transportConnectors useAuthenticatedPrincipalForJMSXUserID useJmx
        useLocalHostBrokerName useLoggingForShutdownErrors useMirroredQueues useShutdownHook
        useTempMirroredQueues useVirtualDestSubs useVirtualDestSubsOnCreation useVirtualTopics
        vmConnectorURI waitForSlave waitForSlaveTimeout
    """,
    "policyEntry": """
        advisoryForConsumed advisoryForDelivery advisoryForDiscardingMessages advisoryForFastProducers
        advisoryForSlowConsumers advisoryWhenFull allConsumersExclusiveByDefault alwaysRetroactive
        blockedProducerWarningInterval consumersBeforeDispatchStarts cursorMemoryHighWaterMark
        deadLetterStrategy destination dispatchPolicy doOptimzeMessageStorage durableTopicPrefetch
        enableAudit expireMessagesPeriod gcInactiveDestinations gcWithNetworkConsumers
        inactiveTimeoutBeforeGC inactiveTimoutBeforeGC includeBodyForAdvisory lazyDispatch maxAuditDepth
        maxBrowsePageSize maxDestinations maxExpirePageSize maxPageSize maxProducersToAudit
        maxQueueAuditDepth memoryLimit messageEvictionStrategy messageGroupMapFactory
        messageGroupMapFactoryType minimumMessageSize networkBridgeFilterFactory
        optimizeMessageStoreInFlightLimit optimizedDispatch pendingDurableSubscriberPolicy
        pendingMessageLimitStrategy pendingQueuePolicy pendingSubscriberPolicy persistJMSRedelivered
        prioritizedMessages producerFlowControl queue queueBrowserPrefetch queuePrefetch
        reduceMemoryFootprint sendAdvisoryIfNoConsumers sendDuplicateFromStoreToDLQ sendFailIfNoSpace
        sendFailIfNoSpaceAfterTimeout slowConsumerStrategy storeUsageHighWaterMark strictOrderDispatch
        subscriptionRecoveryPolicy tempQueue tempTopic timeBeforeDispatchStarts topic topicPrefetch useCache
        useConsumerPriority usePrefetchExtension useTopicSubscriptionInflightStats
    """,
    "transportConnector": """
        allowLinkStealing auditNetworkProducers brokerInfo brokerService disableAsyncDispatch discoveryAgent
        discoveryUri displayStackTrace enableStatusMonitor maximumConsumersAllowedPerConnection
        maximumProducersAllowedPerConnection messageAuthorizationPolicy name publishedAddressPolicy
        rebalanceClusterClients server taskRunnerFactory updateClusterClients updateClusterClientsOnRemove
        updateClusterFilter uri warnOnRemoteClose
    """,
    "sharedDeadLetterStrategy": """
        deadLetterQueue enableAudit expiration maxAuditDepth maxProducersToAudit processExpired
        processNonPersistent
    """,
    "individualDeadLetterStrategy": """
        destinationPerDurableSubscriber enableAudit expiration maxAuditDepth maxProducersToAudit
        processExpired processNonPersistent queuePrefix queueSuffix topicPrefix topicSuffix
        useQueueForQueueMessages useQueueForTopicMessages
    """,
    "simpleAuthenticationPlugin": """
        anonymousAccessAllowed anonymousGroup anonymousUser userGroups userPasswords users
    """,
    "systemUsage": """
        checkLimitsLogLevel jobSchedulerUsage memoryUsage name sendFailIfNoSpace
        sendFailIfNoSpaceAfterTimeout storeUsage tempUsage
    """,
    "memoryUsage": "limit name percentOfJvmHeap percentUsageMinDelta pollingTime usage usagePortion",
    "kahaDB": """
        directory indexDirectory journalMaxFileLength journalMaxWriteBatchSize journalDiskSyncStrategy
        journalDiskSyncInterval enableJournalDiskSyncs preallocationScope preallocationStrategy
        checksumJournalFiles checkForCorruptJournalFiles ignoreMissingJournalfiles archiveDataLogs
        directoryArchive archiveCorruptedIndex forceRecoverIndex checkpointInterval cleanupInterval
        cleanupOnStop enableAckCompaction compactAcksAfterNoGC compactAcksIgnoresStoreGrowth indexCacheSize
        indexWriteBatchSize enableIndexWriteAsync enableIndexDiskSyncs enableIndexRecoveryFile
        enableIndexPageCaching useIndexLFRUEviction indexLFUEvictionFactor concurrentStoreAndDispatchQueues
        concurrentStoreAndDispatchTopics maxAsyncJobs maxFailoverProducersToTrack
        failoverProducersAuditDepth enableSubscriptionStatistics purgeRecoveredXATransactionStrategy useLock
        locker lockKeepAlivePeriod databaseLockedWaitDelay stopOnError
    """,
    "amqPersistenceAdapter": """
        directory useNio syncOnWrite syncOnTransaction maxFileLength persistentIndex
        maxCheckpointMessageAddSize checkpointInterval cleanupInterval indexBinSize indexMaxBinSize
        indexLoadFactor indexKeySize indexPageSize maxReferenceFileLength directoryArchive archiveDataLogs
        disableLocking recoverReferenceStore forceRecoverReferenceStore
    """,
    "levelDB": """
        directory logDirectory sync logSize verifyChecksums paranoidChecks indexFactory indexMaxOpenFiles
        indexBlockRestartInterval indexWriteBufferSize indexBlockSize indexCacheSize indexCompression
        logCompression flushDelay asyncBufferSize monitorStats autoCompactionRatio
        failoverProducersAuditDepth maxFailoverProducersToTrack
    """,
    "replicatedLevelDB": """
        replicas bind hostname connectUrl zkAddress zkPath zkPassword zkSessionTimeout weight sync
        securityToken container
    """,
    "mKahaDB": "directory journalMaxFileLength journalWriteBatchSize journalCleanupInterval checkForCorruption",
    "filteredKahaDB": "queue topic persistenceAdapter perDestination usage",
    "constantPendingMessageLimitStrategy": "limit",
    "prefetchRatePendingMessageLimitStrategy": "multiplier",
    "oldestMessageEvictionStrategy": "evictExpiredMessagesHighWatermark",
    "oldestMessageWithLowestPriorityEvictionStrategy": "evictExpiredMessagesHighWatermark",
    "uniquePropertyMessageEvictionStrategy": "evictExpiredMessagesHighWatermark propertyName",
    "virtualDestinationInterceptor": "virtualDestinations",
    "virtualTopic": """
        concurrentSend dropOnResourceLimit local name postfix prefix selectorAware setOriginalDestination transactedSend
    """,
    "compositeQueue": "concurrentSend copyMessage forwardOnly forwardTo name sendWhenNotMatched",
    "compositeTopic": "concurrentSend copyMessage forwardOnly forwardTo name sendWhenNotMatched",
    "filteredDestination": "destination filter queue selector topic",
    "mirroredQueue": "brokerService copyMessage postfix prefix",
}
TABLES = {
    "broker": BrokerOptions,
    "store": JdbcOptions,
    "store.lock": LockerOptions,
    "amq": AMQOptions,
    "kahadb": KahaDBOptions,
    "leveldb": LevelDBOptions,
    "policy": DestinationPolicy,
    "dead_letter": DeadLetterStrategy,
    "redelivery": RedeliveryPolicy,
    "virtual_topic": VirtualTopic,
    "composite": CompositeDestination,
    "mirrored_queue": MirroredQueue,
}
#: Without them a page has as many messages as the broker's options say, and a browser shows everything.
OTHER_DEFAULTS = {"max_page_size", "max_browse_page_size", "slow_consumer_timeout_ms"}
URIS = [STOMP_URI, OPENWIRE_URI, AUTO_URI, WEBSOCKET_URI]
TABLES_OF_ENTRIES = [*(kind.entries for kind in KINDS.values()), *URIS, *PARAMETERS.values()]
ALL_ENTRIES = [entry for table in TABLES_OF_ENTRIES for entry in table.values()]


@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_every_attribute_of_activemq_is_known(kind: str) -> None:
    assert set(ATTRIBUTES[kind].split()) - set(KINDS[kind].entries) == set()


def test_every_option_that_is_named_is_there() -> None:
    for entry in ALL_ENTRIES:
        table, _, name = entry.option.rpartition(".")
        if table in TABLES and name != "url":
            assert name in {field.name for field in fields(TABLES[table])}, entry
        else:
            assert table in ("", "data_source", "query", "file_store") or entry.option == "store.url", entry


def test_defaults_that_are_said_to_be_ours_are_ours() -> None:
    """Policies and dead letters have ActiveMQ's defaults, and the table says them again."""
    for entry in ALL_ENTRIES:
        table, _, name = entry.option.rpartition(".")
        if table in ("policy", "dead_letter") and entry.read is not None and name not in OTHER_DEFAULTS:
            default = entry.default.partition(",")[0].replace("empty", "")
            assert entry.read(default) == getattr(TABLES[table](), name), entry


def test_an_entry_says_what_becomes_of_it() -> None:
    for entry in ALL_ENTRIES:
        assert (entry.option != "") == (entry.read is not None), entry
        assert entry.fate is not Fate.KEPT or entry.read is not None, entry
        assert all(value == value.lower() for value in entry.same), entry


def value_for(entry: Entry) -> str:
    """A value that asks for something."""
    for value in ("true", "false", "12", "1.5", "x.pem", "primary", "require", "REQUIRED", "local_disk"):
        if not entry.asks_for_nothing(value):
            try:
                if entry.read is not None:
                    entry.read(value)
            except ConfigurationError:
                continue
            return value
    raise AssertionError(entry)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_no_attribute_is_passed_over_in_silence(kind: Kind) -> None:
    place = Place("activemq.xml", 7)
    for name, entry in kind.entries.items():
        value = Text(value_for(entry), place)
        bean = Bean(kind.name, "it", Place("activemq.xml", 1), place, settings={name: Setting(name, place, (value,))})
        findings = Findings()
        examined = Settings(findings, Placeholders({}, {}), {}).examine(bean)
        told = [finding for finding in findings.found if finding.place == place]
        if entry.fate is Fate.USED:
            assert name in examined.open or entry.option in examined.given
            assert not told
        elif kind.refused:
            assert findings.errors
        else:
            assert [finding.is_error for finding in told] == [entry.fate is Fate.REFUSED]
            assert str(told[0]).startswith(f"activemq.xml:7: it {name}=")
            assert entry.says in told[0].text


def test_classes_are_known_by_their_elements() -> None:
    assert kind_named("org.apache.activemq.store.jdbc.JDBCPersistenceAdapter") is KINDS["jdbcPersistenceAdapter"]
    assert kind_named("org.example.JDBCPersistenceAdapter") is None


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("0", 0),
        ("1048576", 1 << 20),
        ("64kb", 1 << 16),
        ("16 mb", 1 << 24),
        ("62K", 62 << 10),
        ("1g", 1 << 30),
        (" 5 B ", 5),
    ],
)
def test_sizes_are_read_as_activemq_does(text: str, bytes_: int) -> None:
    assert size(text) == bytes_


@pytest.mark.parametrize("text", ["", "mb", "-1", "1.5mb", "16 tb", "1 m b"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        size(text)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("YES", True), ("on", True), ("0", False), (" false ", False)]
)
def test_booleans_are_read_as_spring_does(text: str, value: bool) -> None:
    assert boolean(text) is value


def test_what_is_no_value_of_its_kind_is_refused() -> None:
    for read in (boolean, integer, number):
        with pytest.raises(ConfigurationError, match="'maybe'"):
            read("maybe")


def test_the_documentation_has_these_tables() -> None:
    text = Path(DOCUMENT).read_text("utf-8")
    assert text == rendered(text), "run: python -m tests.unit.config.documentation"
