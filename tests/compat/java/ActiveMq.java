import java.io.File;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import javax.sql.DataSource;
import org.apache.activemq.broker.BrokerPlugin;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.FixedCountSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.FixedSizedSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.LastImageSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.NoSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.broker.region.policy.SubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.TimedSubscriptionRecoveryPolicy;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.ActiveMQTopic;
import org.apache.activemq.plugin.StatisticsBrokerPlugin;
import org.apache.activemq.store.PersistenceAdapter;
import org.apache.activemq.store.jdbc.JDBCPersistenceAdapter;
import org.apache.activemq.store.jdbc.LeaseDatabaseLocker;
import org.apache.activemq.store.jdbc.adapter.MySqlJDBCAdapter;
import org.apache.activemq.store.kahadb.FilteredKahaDBPersistenceAdapter;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;
import org.apache.activemq.store.kahadb.MultiKahaDBPersistenceAdapter;
import org.apache.activemq.store.memory.MemoryPersistenceAdapter;
import org.apache.commons.dbcp.BasicDataSource;

/**
 * A real ActiveMQ Classic on a store of one's choice, with STOMP and OpenWire on loopback. Ends at SIGTERM, cleanly.
 *
 * <p>Arguments are name=value: store (kahadb, mkahadb, memory, jdbc), name, data (folder), stomp, openwire (ports); for kahadb perhaps
 * journal_max_file_length (bytes), cleanup_interval_ms, compaction (true: of acks, ten times a second); for jdbc also driver, url,
 * user, password, adapter (mysql or auto), lock (default, lease, none), create_tables (true, false), prioritized (true, false),
 * lease_ms, renew_ms. With scheduler (a folder) messages may be scheduled. store_wire_version is the OpenWire version of a new store.
 */
public final class ActiveMq {
    private final Map<String, String> options = new HashMap<>();

    private ActiveMq(String[] arguments) {
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            options.put(pair[0], pair[1]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        new ActiveMq(arguments).run();
    }

    private void run() throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName(option("name"));
        broker.setUseJmx(false);
        broker.setDataDirectory(option("data"));
        if (options.containsKey("store_wire_version")) {
            broker.setStoreOpenWireVersion(Integer.parseInt(option("store_wire_version")));
        }
        broker.setPlugins(new BrokerPlugin[] {new StatisticsBrokerPlugin()});
        broker.setPersistenceAdapter(store());
        broker.setDestinationPolicy(policy());
        if (options.containsKey("scheduler")) {
            broker.setSchedulerSupport(true);
            broker.setSchedulerDirectoryFile(new File(option("scheduler")));
        }
        broker.addConnector("stomp://127.0.0.1:" + option("stomp"));
        broker.addConnector("tcp://127.0.0.1:" + option("openwire"));
        broker.getSystemUsage().getMemoryUsage().setLimit(256L << 20);
        broker.start();
        broker.waitUntilStarted();
        broker.waitUntilStopped();
    }

    private PersistenceAdapter store() throws Exception {
        switch (option("store")) {
            case "memory":
                return new MemoryPersistenceAdapter();
            case "kahadb":
                KahaDBPersistenceAdapter journal = new KahaDBPersistenceAdapter();
                journal.setDirectory(new File(option("data"), "kahadb"));
                journal.getLocker().setLockAcquireSleepInterval(200); // so that a standby is quick
                journal.setLockKeepAlivePeriod(200); // so that it stops when the lock is touched
                if (options.containsKey("journal_max_file_length")) {
                    journal.setJournalMaxFileLength(Integer.parseInt(option("journal_max_file_length")));
                }
                if (options.containsKey("cleanup_interval_ms")) {
                    journal.setCleanupInterval(Integer.parseInt(option("cleanup_interval_ms")));
                }
                if (options.containsKey("checks_files")) {
                    journal.setCheckForCorruptJournalFiles(true);
                }
                if (options.containsKey("compaction")) {
                    journal.setCheckpointInterval(100);
                    journal.setCleanupInterval(100);
                    journal.setCompactAcksAfterNoGC(1);
                    journal.setCompactAcksIgnoresStoreGrowth(true);
                }
                return journal;
            case "mkahadb":
                return severalKahaDB();
            case "jdbc":
                return jdbcStore();
            default:
                throw new IllegalArgumentException("store=" + option("store"));
        }
    }

    /** One store for queues M.> and *.M, one for each other destination. */
    private PersistenceAdapter severalKahaDB() throws Exception {
        FilteredKahaDBPersistenceAdapter some = new FilteredKahaDBPersistenceAdapter();
        some.setQueue("M.>,*.M");
        some.setPersistenceAdapter(new KahaDBPersistenceAdapter());
        FilteredKahaDBPersistenceAdapter others = new FilteredKahaDBPersistenceAdapter();
        others.setPerDestination(true);
        others.setPersistenceAdapter(new KahaDBPersistenceAdapter());
        MultiKahaDBPersistenceAdapter several = new MultiKahaDBPersistenceAdapter();
        several.setDirectory(new File(option("data"), "mkahadb"));
        several.setFilteredPersistenceAdapters(Arrays.asList(some, others));
        return several;
    }

    private PersistenceAdapter jdbcStore() throws Exception {
        JDBCPersistenceAdapter store = new JDBCPersistenceAdapter();
        store.setDataSource(dataSource());
        store.setCreateTablesOnStartup(Boolean.parseBoolean(option("create_tables")));
        if (option("adapter").equals("mysql")) {
            store.setAdapter(new MySqlJDBCAdapter()); // MariaDB's driver is not mapped: MSG would be a 64 KiB BLOB
        }
        switch (option("lock")) {
            case "none":
                store.setUseLock(false);
                break;
            case "lease":
                LeaseDatabaseLocker locker = new LeaseDatabaseLocker();
                locker.setLockAcquireSleepInterval(Long.parseLong(option("lease_ms")));
                store.setLocker(locker);
                store.setLockKeepAlivePeriod(Long.parseLong(option("renew_ms")));
                break;
            case "default":
                break;
            default:
                throw new IllegalArgumentException("lock=" + option("lock"));
        }
        return store;
    }

    private DataSource dataSource() {
        BasicDataSource source = new BasicDataSource();
        source.setDriverClassName(option("driver"));
        source.setUrl(option("url"));
        source.setUsername(option("user"));
        source.setPassword(option("password"));
        source.setMaxActive(50);
        source.setPoolPreparedStatements(true);
        return source;
    }

    private PolicyMap policy() {
        PolicyEntry every = new PolicyEntry();
        every.setQueue(">");
        every.setPrioritizedMessages(Boolean.parseBoolean(option("prioritized")));
        PolicyMap policy = new PolicyMap();
        policy.setDefaultEntry(every);
        FixedCountSubscriptionRecoveryPolicy count = new FixedCountSubscriptionRecoveryPolicy();
        count.setMaximumSize(2);
        FixedSizedSubscriptionRecoveryPolicy size = new FixedSizedSubscriptionRecoveryPolicy();
        size.setMaximumSize(10_000);
        size.setUseSharedBuffer(false);
        PolicyEntry always = recovering("ALWAYS", new LastImageSubscriptionRecoveryPolicy());
        always.setAlwaysRetroactive(true);
        policy.setPolicyEntries(Arrays.asList(
            deadLetters(),
            advising(new ActiveMQQueue("ADVISED.>")),
            advising(new ActiveMQTopic("ADVISED.>")),
            recovering("COUNT", count),
            recovering("SIZE", size),
            recovering("IMAGE", new LastImageSubscriptionRecoveryPolicy()),
            recovering("TIME", new TimedSubscriptionRecoveryPolicy()),
            recovering("NONE", new NoSubscriptionRecoveryPolicy()),
            always,
            asked(),
            starting("COUNT", 2, 0),
            starting("TIME", 0, 800),
            starting("BOTH", 2, 60_000)));
        return policy;
    }

    /** What gives consumers of queues only what they ask for. */
    private static PolicyEntry asked() {
        PolicyEntry entry = new PolicyEntry();
        entry.setQueue("ASKED.>");
        entry.setQueuePrefetch(0);
        return entry;
    }

    /** What lets queues wait for consumers before they deliver anything. */
    private static PolicyEntry starting(String kind, int consumers, int timeMs) {
        PolicyEntry entry = new PolicyEntry();
        entry.setQueue("STARTED." + kind + ".>");
        entry.setConsumersBeforeDispatchStarts(consumers);
        entry.setTimeBeforeDispatchStarts(timeMs);
        return entry;
    }

    /** All of them are shown to who browses them, not only 400. */
    private PolicyEntry deadLetters() {
        PolicyEntry entry = new PolicyEntry();
        entry.setQueue("ActiveMQ.DLQ");
        entry.setPrioritizedMessages(Boolean.parseBoolean(option("prioritized")));
        entry.setMaxBrowsePageSize(Integer.MAX_VALUE);
        return entry;
    }

    /** What lets topics keep messages for subscribers that come later. */
    private static PolicyEntry recovering(String kind, SubscriptionRecoveryPolicy policy) {
        PolicyEntry entry = new PolicyEntry();
        entry.setTopic("RECOVERED." + kind + ".>");
        entry.setSubscriptionRecoveryPolicy(policy);
        return entry;
    }

    /** What asks for all advisories that there are; those of topics have bodies. */
    private static PolicyEntry advising(ActiveMQDestination destination) {
        PolicyEntry entry = new PolicyEntry();
        entry.setDestination(destination);
        entry.setAdvisoryForConsumed(true);
        entry.setAdvisoryForDelivery(true);
        entry.setAdvisoryForDiscardingMessages(true);
        entry.setAdvisoryForFastProducers(true);
        entry.setAdvisoryForSlowConsumers(true);
        entry.setAdvisoryWhenFull(true);
        entry.setSendAdvisoryIfNoConsumers(true);
        entry.setIncludeBodyForAdvisory(destination.isTopic());
        return entry;
    }

    private String option(String name) {
        String value = options.get(name);
        if (value == null) {
            throw new IllegalArgumentException("missing argument " + name + "=…");
        }
        return value;
    }
}
