"""The element ``<broker>`` and what stands in it besides stores, policies and plugins."""

from __future__ import annotations

from typing import Final

from jdbcstore.config.activemq_xml.vocabulary.entry import (
    Kind,
    boolean,
    ignored,
    ignored_all,
    integer,
    number,
    refused,
    seconds,
    size,
    text,
    used,
)

__all__ = ["BROKER_KINDS", "STOMP_URI", "TLS_URI"]

_JMX: Final = "there is no JMX; web_bind serves the MBeans that tools read at /api/jolokia, metrics and a console"
_SCHEDULED: Final = "scheduled messages are in the store: of a KahaDB in the folder scheduler in its directory"
_DISK: Final = "the store may take the whole disk; when that is full, senders get an ERROR"
_THREADS: Final = "threads are not chosen here"
_ONE_STORE: Final = "the other broker is found through the lock of the store, not through a connection"

_BROKER: Final = {
    "brokerName": used(
        "`broker.broker_name`; also how the holder's id in the lock begins",
        "localhost",
        option="broker.broker_name",
        read=text,
    ),
    "useLocalHostBrokerName": used("`broker.broker_name` is the name of the host", "false"),
    "persistent": used("false: `store.url` is `memory:`", "true"),
    "persistenceAdapter": used("the store, see below"),
    "transportConnectors": used("where clients connect, see below"),
    "destinationPolicy": used("see below"),
    "systemUsage": used("see below"),
    "plugins": used("see below"),
    "ioExceptionHandler": used(
        "`broker.on_store_failure`, see below. **Differs**: without it `suspend`; ActiveMQ ignores the"
        " errors of a database that is away",
        "defaultIOExceptionHandler",
    ),
    "storeOpenWireVersion": used(
        "`kahadb.store_open_wire_version`; a database has 11 only, as ActiveMQ writes it since 5.12", "11"
    ),
    "deleteAllMessagesOnStartup": refused(
        "no start deletes messages; to begin with empty tables, drop them yourself", "false", "false"
    ),
    "start": refused("the broker starts when its process does; remove the attribute", "true", "true"),
    "persistenceFactory": refused(
        "only <persistenceAdapter> is read; write <persistenceAdapter><jdbcPersistenceAdapter"
        ' dataSource="#ID"/></persistenceAdapter>'
    ),
    "destinationInterceptors": used("see below. useVirtualTopics and useMirroredQueues say nothing beside it"),
    "messageAuthorizationPolicy": refused("no policy is asked before a message is delivered: everybody could read it"),
    "useMirroredQueues": used("`[mirrored_queue]`, see below", "false"),
    "transportConnectorURIs": refused('write <transportConnectors><transportConnector uri="stomp://…"/>'),
    "dataDirectory": ignored(
        "<persistenceAdapter> says where the store is; scheduled messages of a KahaDB, which ActiveMQ has in"
        " DATADIRECTORY/BROKERNAME/scheduler, are in the folder scheduler in its directory",
        "activemq-data",
    ),
    "dataDirectoryFile": ignored("as dataDirectory"),
    "tmpDataDirectory": ignored("what overflows memory is in the system's folder for temporary files"),
    "tempDataStore": ignored("what overflows memory is in the system's folder for temporary files"),
    "brokerId": ignored("each start has an id of its own"),
    "useJmx": ignored(_JMX, "true", "false"),
    "managementContext": ignored(_JMX),
    "adminView": ignored(_JMX),
    "brokerObjectName": ignored(_JMX),
    "mbeanInvocationTimeout": ignored(_JMX, "0"),
    "populateUserNameInMBeans": ignored(_JMX, "false", "false"),
    "networkConnectors": ignored("no network of brokers"),
    "networkConnectorURIs": ignored("no network of brokers"),
    "networkConnectorStartAsync": ignored("no network of brokers", "false", "false"),
    "proxyConnectors": ignored("no proxy to other brokers"),
    "jmsBridgeConnectors": ignored("no bridge to other JMS brokers"),
    "services": ignored("no Java objects are run"),
    "shutdownHooks": ignored("no Java objects are run"),
    "brokerContext": ignored("no Java objects are run"),
    "regionBroker": ignored("no Java objects are run"),
    "destinationFactory": ignored("no Java objects are run"),
    "sslContext": used("`[tls]`, for connectors with TLS, see below"),
    "advisorySupport": ignored("advisories are made if somebody is subscribed to them", "true", "true"),
    "anonymousProducerAdvisorySupport": ignored("only producers with a destination are told", "false", "false"),
    "schedulerSupport": used(
        "`broker.scheduler_support`. **Differs**: without it `true`, since scheduled messages are in the store",
        "false",
        option="broker.scheduler_support",
        read=boolean,
    ),
    "schedulerDirectory": ignored(_SCHEDULED),
    "schedulerDirectoryFile": ignored(_SCHEDULED),
    "jobSchedulerStore": ignored(_SCHEDULED),
    "maxSchedulerRepeatAllowed": ignored("repetitions are not limited; broker.scheduled_jobs_max limits jobs", "1000"),
    "destinations": ignored("a destination is there as soon as somebody uses it"),
    "keepDurableSubsActive": ignored(
        "what waits for a durable subscription that nobody uses is in the store, also what is not persistent",
        "true",
        "false",
    ),
    "offlineDurableSubscriberTimeout": used(
        "`broker.offline_durable_subscriber_timeout_s`, in ms",
        "-1",
        option="broker.offline_durable_subscriber_timeout_s",
        read=seconds,
    ),
    "offlineDurableSubscriberTaskSchedule": used(
        "`broker.offline_durable_subscriber_task_schedule_s`, in ms",
        "300000",
        option="broker.offline_durable_subscriber_task_schedule_s",
        read=seconds,
    ),
    "enableMessageExpirationOnActiveDurableSubs": ignored(
        "an expired message leaves a durable subscription when its turn comes", "false", "false"
    ),
    "rejectDurableConsumers": used(
        "`broker.reject_durable_consumers`", "false", option="broker.reject_durable_consumers", read=boolean
    ),
    "useVirtualTopics": used("`broker.use_virtual_topics`", "true", option="broker.use_virtual_topics", read=boolean),
    "useVirtualDestSubs": ignored("it is for networks of brokers", "false", "false"),
    "useVirtualDestSubsOnCreation": ignored("it is for networks of brokers", "false", "false"),
    "useTempMirroredQueues": used("`use_temp_mirrored_queues`: whether temporary queues are mirrored, too", "true"),
    "populateJMSXUserID": used(
        "`broker.populate_jmsx_user_id`", "false", option="broker.populate_jmsx_user_id", read=boolean
    ),
    "useAuthenticatedPrincipalForJMSXUserID": ignored(
        "JMSXUserID is always the user that has logged in", "false", "true"
    ),
    "enableStatistics": ignored("counting costs nothing here and is not turned off", "true", "true"),
    "schedulePeriodForDestinationPurge": ignored(
        "empty queues leave memory after broker.idle_queue_timeout_s; nothing else of them is kept", "0"
    ),
    "maxPurgedDestinationsPerSweep": ignored("as schedulePeriodForDestinationPurge", "0"),
    "allowTempAutoCreationOnSend": ignored("temporary destinations belong to who made them", "false", "false"),
    "cacheTempDestinations": ignored("temporary destinations go with their connection", "false", "false"),
    "timeBeforePurgeTempDestinations": ignored("temporary destinations go with their connection", "5000"),
    "monitorConnectionSplits": ignored("clients are no brokers here", "false", "false"),
    "rollbackOnlyOnAsyncException": ignored("a failed send fails its transaction", "true", "true"),
    "adjustUsageLimits": ignored("limits stay as they are configured", "true"),
    "splitSystemUsageForProducersConsumers": ignored("there is one limit of memory", "false", "false"),
    "producerSystemUsage": ignored("there is one limit of memory"),
    "consumerSystemUsage": ignored("there is one limit of memory"),
    "producerSystemUsagePortion": ignored("there is one limit of memory", "60"),
    "consumerSystemUsagePortion": ignored("there is one limit of memory", "40"),
    "schedulePeriodForDiskUsageCheck": ignored(_DISK, "0"),
    "diskUsageCheckRegrowThreshold": ignored(_DISK, "-1"),
    "passiveSlave": ignored(_ONE_STORE, "false", "false"),
    "waitForSlave": ignored(_ONE_STORE, "false", "false"),
    "waitForSlaveTimeout": ignored(_ONE_STORE, "600000"),
    "shutdownOnMasterFailure": ignored(_ONE_STORE, "false", "false"),
    "shutdownOnSlaveFailure": ignored(_ONE_STORE, "false", "false"),
    "restartAllowed": ignored(
        "the process stands by instead of starting anew; broker.on_lease_lost says so", "true", "true"
    ),
    "startAsync": ignored("the process always starts without blocking", "false", "false"),
    "systemExitOnShutdown": ignored("the process always ends with its broker", "false"),
    "systemExitOnShutdownExitCode": ignored("exit codes are 0 to 3, see docs/failover.md", "0"),
    "useShutdownHook": ignored("SIGTERM and SIGINT always end the broker cleanly", "true", "true"),
    "useLoggingForShutdownErrors": ignored("errors are always logged", "false", "true"),
    "vmConnectorURI": ignored("clients inside the process use the Python API"),
    **ignored_all(
        "dedicatedTaskRunner=false persistenceTaskRunnerFactory persistenceThreadPriority=10 "
        "taskRunnerFactory taskRunnerPriority=5",
        _THREADS,
    ),
}

_CONNECTOR: Final = {
    "uri": used("`broker.bind` and what its parameters become, see below"),
    "name": used("a name for people"),
    "discoveryUri": ignored("nobody is told of this broker by discovery"),
    "discoveryAgent": ignored("nobody is told of this broker by discovery"),
    "maximumConsumersAllowedPerConnection": used(
        "`broker.subscriptions_max`", "unlimited", option="broker.subscriptions_max", read=integer
    ),
    "maximumProducersAllowedPerConnection": used(
        "`broker.producers_max`, those of OpenWire clients", "unlimited", option="broker.producers_max", read=integer
    ),
    "auditNetworkProducers": ignored("no network of brokers", "false", "false"),
    "allowLinkStealing": used(
        "`broker.allow_link_stealing`. One that does not answer loses its client id in any case",
        "false",
        option="broker.allow_link_stealing",
        read=boolean,
    ),
    "disableAsyncDispatch": ignored("messages are written when the client reads", "false", "false"),
    "displayStackTrace": ignored("clients get the reason, not a stack trace", "false", "false"),
    "enableStatusMonitor": ignored("heart-beats find dead clients", "false", "false"),
    "warnOnRemoteClose": ignored("a connection that ends is logged in any case", "false"),
    **ignored_all(
        "rebalanceClusterClients=false updateClusterClients=false updateClusterClientsOnRemove=false "
        "updateClusterFilter publishedAddressPolicy",
        "clients are not told of other brokers",
    ),
    **ignored_all(
        "brokerInfo brokerService messageAuthorizationPolicy server taskRunnerFactory", "no Java objects are run"
    ),
}

_USAGE: Final = {
    "name": ignored("a name for JMX"),
    **ignored_all(
        "executor limiter parent usage usagePortion=1 percentUsageMinDelta=1 pollingTime=1000 store total",
        "memory is counted as it is used",
    ),
}

_HANDLER: Final = {
    "ignoreAllErrors": used('true: `broker.on_store_failure = "ignore"`', "false"),
    "ignoreSQLExceptions": used("false: see stopStartConnectors", "true (false for the lease handler)"),
    "stopStartConnectors": used(
        'true: `broker.on_store_failure = "suspend"`; false with ignoreSQLExceptions=false: `"stop"`',
        "false (true for the lease handler)",
    ),
    "resumeCheckSleepPeriod": used("`broker.resume_check_sleep_s`, in ms", "5000"),
    "sqlExceptionMessage": ignored("errors are told apart by their codes, not by their texts", "empty"),
    "ignoreNoSpaceErrors": ignored("a full disk is an error of the send alone", "true", "true"),
    "noSpaceMessage": ignored("errors are told apart by their codes, not by their texts", "space"),
    "systemExitOnShutdown": ignored("the process always ends with its broker", "false"),
    "brokerService": ignored("no Java objects are run"),
}

#: Parameters of a connector's URI. Those of clients that ActiveMQ sets on each connection begin with ``transport.``.
STOMP_URI: Final = {
    "maximumConnections": used("`broker.connections_max`", "unlimited", option="broker.connections_max", read=integer),
    "wireFormat.maxFrameSize": used("`broker.body_bytes_max`", "unlimited", option="broker.body_bytes_max", read=size),
    "wireFormat.maxDataLength": used("`broker.body_bytes_max`", "100 MiB", option="broker.body_bytes_max", read=size),
    "wireFormat.connectionAttemptTimeout": used(
        "`broker.connect_timeout_s`, in ms. **Differs**: without it 10 s",
        "30000",
        option="broker.connect_timeout_s",
        read=lambda ms: integer(ms) / 1000,
    ),
    "transport.connectAttemptTimeout": used(
        "`broker.connect_timeout_s`, in ms. **Differs**: without it 10 s",
        "30000",
        option="broker.connect_timeout_s",
        read=lambda ms: integer(ms) / 1000,
    ),
    "transport.hbGracePeriodMultiplier": used(
        "`broker.heart_beat_grace`", "1.0", option="broker.heart_beat_grace", read=number
    ),
    "backlog": used("`broker.backlog_max`", "5000", option="broker.backlog_max", read=integer),
    "transport.defaultHeartBeat": used(
        "`broker.default_heart_beat`", "0,0", option="broker.default_heart_beat", read=text
    ),
    "transport.maxFrameSize": used("`broker.body_bytes_max`", option="broker.body_bytes_max", read=size),
    "transport.maxDataLength": used("`broker.body_bytes_max`", option="broker.body_bytes_max", read=size),
    **{
        prefix + name: entry
        for prefix in ("", "transport.")
        for name, entry in {
            "needClientAuth": refused(
                "no TLS, so no client certificate is asked for: everybody could connect", "false", "false"
            ),
            "wantClientAuth": ignored("no TLS", "false", "false"),
            "enabledProtocols": ignored("no TLS"),
            "enabledCipherSuites": ignored("no TLS"),
        }.items()
    },
    "trace": ignored("--log-level debug logs connections, nothing logs frames", "false", "false"),
    "transport.trace": ignored("--log-level debug logs connections, nothing logs frames", "false", "false"),
    "transport.useInactivityMonitor": ignored("heart-beats find dead clients", "true"),
    "transport.tcpNoDelay": ignored("nothing is ever delayed", "true", "true"),
    "tcpNoDelay": ignored("nothing is ever delayed", "true", "true"),
    "transport.closeAsync": ignored("closing a connection never holds up another", "true"),
    "closeAsync": ignored("closing a connection never holds up another", "true"),
    **{
        prefix + name: ignored("sockets are left as the system makes them")
        for prefix in ("", "transport.")
        for name in (
            "soLinger",
            "socketBufferSize",
            "ioBufferSize",
            "trafficClass",
            "typeOfService",
            "diffServ",
            "connectionTimeout",
        )
    },
    **{
        prefix + "soTimeout": ignored("ActiveMQ goes on after it, too; broker.peer_timeout_s finds who is gone")
        for prefix in ("", "transport.")
    },
    **{
        prefix + "keepAlive": used(
            "`broker.keep_alive`. **Differs**: without it `true`", "false", option="broker.keep_alive", read=boolean
        )
        for prefix in ("", "transport.")
    },
    **{
        prefix + "soWriteTimeout": used(
            "`broker.write_timeout_s`, in ms", "0", option="broker.write_timeout_s", read=seconds
        )
        for prefix in ("", "transport.")
    },
    **{
        prefix + "allowLinkStealing": used(
            "`broker.allow_link_stealing`", "false", option="broker.allow_link_stealing", read=boolean
        )
        for prefix in ("", "transport.")
    },
    "maximumConnectionsPerHost": ignored(
        "ActiveMQ has no such limit and says nothing; here it is `broker.connections_per_address_max`"
    ),
    **ignored_all(
        "daemon stackSize useQueueForAccept acceptBufferSize dynamicManagement startLogging jmxPort logWriterName "
        "maxConnectionThreadPoolSize protocolDetectionTimeOut wireFormat.version wireFormat.stompVersion",
        "of no meaning here",
    ),
}

#: Those of a connector with TLS besides, with or without ``transport.`` before them.
TLS_URI: Final = {
    prefix + name: entry
    for prefix in ("", "transport.")
    for name, entry in {
        "needClientAuth": used('true: `tls.client_certificate = "required"`', "false"),
        "wantClientAuth": used('true: `tls.client_certificate = "wanted"`', "false"),
        "enabledProtocols": used("`tls.version_min` and `tls.version_max`; TLS 1.1 and older are not served"),
        "enabledCipherSuites": used("`tls.ciphers`, in Java's words or OpenSSL's; those of TLS 1.3 are not chosen"),
        "verifyHostName": ignored("clients look at the broker's name, the broker at none", "false", "false"),
    }.items()
}

_JAVA_TLS: Final = "OpenSSL does it"
_NO_OBJECTS: Final = "no Java objects are run: name the files, keyStore and trustStore"

BROKER_KINDS: Final = (
    Kind(
        "broker",
        "One broker. A file has exactly one.",
        _BROKER,
        ("org.apache.activemq.broker.BrokerService", "org.apache.activemq.xbean.XBeanBrokerService"),
        where="broker",
    ),
    Kind(
        "transportConnector",
        "Clients connect to every connector for STOMP (`stomp`, `stomp+nio`), OpenWire (`tcp`, `nio`), either of them"
        " (`auto`, `auto+nio`), or STOMP over WebSocket (`ws`); with TLS `stomp+ssl`, `stomp+nio+ssl`, `ssl`,"
        " `nio+ssl`, `auto+ssl`, `auto+nio+ssl`, `wss`. What one of them says of itself holds for all; the first"
        " one that says it is heard. Connectors for other protocols are warned of; without one that is"
        " served the file is refused, unless `--bind` is given.",
        _CONNECTOR,
        ("org.apache.activemq.broker.TransportConnector",),
        where="connectors",
    ),
    Kind(
        "sslContext",
        "Keys and certificates of connectors with TLS. Files may be PEM; key stores are read if they are PKCS#12, which"
        " `keytool` makes since Java 9. One in Java's older format is an error that says how to convert it.",
        {
            "keyStore": used("`tls.certificate`: the certificate with its chain and its key"),
            "keyStorePassword": used("`tls.key_password`"),
            "keyStoreKeyPassword": used("`tls.key_password`, without keyStorePassword"),
            "trustStore": used("`tls.ca`: who signs the certificates of clients"),
            "trustStorePassword": used("`tls.ca_password`"),
            "keyStoreType": ignored("the file says what it is", "jks", "jks pkcs12 pem"),
            "trustStoreType": ignored("the file says what it is", "jks", "jks pkcs12 pem"),
            "protocol": ignored("transport.enabledProtocols of a connector chooses", "TLS", "tls"),
            **ignored_all(
                "provider secureRandom secureRandomAlgorithm keyStoreAlgorithm trustStoreAlgorithm", _JAVA_TLS
            ),
            "crlPath": refused("lists of revoked certificates are not read: who was revoked would be let in"),
            "keyManagers": refused(_NO_OBJECTS),
            "trustManagers": refused(_NO_OBJECTS),
            "sSLContext": refused(_NO_OBJECTS),
        },
        ("org.apache.activemq.spring.SpringSslContext", "org.apache.activemq.broker.SslContext"),
        where="connectors",
    ),
    Kind(
        "systemUsage",
        "Limits.",
        {
            "memoryUsage": used("see below"),
            "storeUsage": ignored(_DISK),
            "tempUsage": ignored("what overflows memory may fill the system's folder for temporary files"),
            "jobSchedulerUsage": ignored(_SCHEDULED),
            "sendFailIfNoSpace": ignored("senders are held back, by not reading from them", "false", "false"),
            "sendFailIfNoSpaceAfterTimeout": ignored("senders are held back, by not reading from them", "0", "0"),
            "sendFailIfNoSpaceExplicitySet": ignored(
                "senders are held back, by not reading from them", "false", "false"
            ),
            "checkLimitsLogLevel": ignored("limits are not compared with a Java heap", "warn"),
            "name": ignored("a name for JMX"),
            "parent": ignored("there is one limit of memory"),
            "executor": ignored("memory is counted as it is used"),
        },
        ("org.apache.activemq.usage.SystemUsage",),
        where="limits",
    ),
    Kind(
        "memoryUsage",
        "What all queues together keep in memory.",
        {
            "limit": used("`broker.memory_bytes_max`", "70 % of the heap", option="broker.memory_bytes_max", read=size),
            "percentOfJvmHeap": ignored('there is no Java heap: give limit="256 mb", which is the default', "0"),
            **_USAGE,
        },
        ("org.apache.activemq.usage.MemoryUsage",),
        where="limits",
    ),
    *(
        Kind(name, "What ActiveMQ does when its store fails.", _HANDLER, (class_name,), where="failure")
        for name, class_name in (
            ("defaultIOExceptionHandler", "org.apache.activemq.util.DefaultIOExceptionHandler"),
            ("leaseLockerIOExceptionHandler", "org.apache.activemq.util.LeaseLockerIOExceptionHandler"),
            ("jDBCIOExceptionHandler", "org.apache.activemq.store.jdbc.JDBCIOExceptionHandler"),
        )
    ),
)
