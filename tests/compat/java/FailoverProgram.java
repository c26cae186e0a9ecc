import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.TransactionRolledBackException;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQMessageProducer;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.AsyncCallback;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQQueue;

/**
 * Random programs with the failover transport, many at once, whose brokers fail while they run. Each judges for itself what it was
 * promised: nothing that was stored is lost, nothing is stored twice, transactions are whole, nothing hangs. Prints
 * {seed, role, options, counts, wrong} of each.
 *
 * <pre>
 *   FailoverProgram HOST:PORT[,HOST:PORT] KIND[,KIND] SEED COUNT [ROLE]
 * </pre>
 *
 * A KIND is "ours" or "java", of each broker; the first one serves first. Left out if one is a Java broker is what that does not survive:
 *
 * <ul>
 *   <li>messages that are sent for later: it keeps them in its own directory, where no other one finds them;
 *   <li>`priorityBackup`: a client leaves the broker that serves for a Java broker that stands by, which accepts connections and is silent;
 *   <li>`trackTransactionProducers=false`: what a producer that is closed has sent is missing in its transaction;
 *   <li>prefetch 0: a consumer that drops what comes again waits for ever;
 *   <li>`trackMessages` with a small cache, of which a client sends the end before the rest: it answers the rest, and does not store it;
 *   <li>durable subscriptions in transactions, whose commits it refuses for ever after a failover, and with acknowledgements out of order,
 *       by which it acknowledges what is before them, too;
 *   <li>branches that send to topics: it removes what is prepared when it takes over;
 *   <li>transactions that receive, with a delay of redeliveries: the client may acknowledge what it has given again after one, and the
 *       failover that came meanwhile, and it refuses that, and the commit, for ever.
 * </ul>
 *
 * Prints "ready" when all are at work, and "steps" each time they have done twenty together. It hears of each fault: "fault" before it,
 * "over KIND" when a broker of this kind serves again, which it repeats; and "finish" after the last one.
 */
public final class FailoverProgram {
    static final long PATIENCE_MS = 90_000;
    static final long IDLE_MS = 200;
    static final long BUSY_MS = 10_000;
    private static final int STEPS_UNTIL_READY = 8;
    private static final int STEPS_TOLD = 20;
    private static final AtomicBoolean HAS_DUMPED = new AtomicBoolean();
    private static final AtomicInteger ALL_STEPS = new AtomicInteger();
    private static final List<String> ROLES =
        Arrays.asList("queue", "queue", "queue", "topic", "later", "later", "request", "browse", "transfer", "churn", "copies", "scheduled", "brief",
            "impatient");

    private final List<String> brokers;
    final boolean isMixed;
    private final int seed;
    final Random chance;
    private final String role;
    final Faults faults;
    final Ledger ledger;
    private final String options;
    private final String nested;
    private final boolean isNested;
    private final CountDownLatch ready;
    private final AtomicInteger steps = new AtomicInteger();
    final String name;
    volatile boolean isFinishing;
    private volatile boolean isDrained;
    volatile String doing = "";
    private final List<Thread> threads = Collections.synchronizedList(new ArrayList<>());

    private FailoverProgram(List<String> brokers, boolean isMixed, int seed, String role, Faults faults, CountDownLatch ready) {
        this.brokers = brokers;
        this.isMixed = isMixed;
        this.seed = seed;
        this.chance = new Random(seed * 7919L + 17);
        String chosen = role == null ? one(ROLES) : role;
        this.role = isMixed && chosen.equals("scheduled") ? "queue" : chosen;
        this.faults = faults;
        this.ledger = new Ledger(faults);
        this.ready = ready;
        this.name = "F." + seed;
        this.nested = chosenNested();
        this.isNested = maybe(0.2);
        this.options = chosenOptions();
    }

    // -- the run --------------------------------------------------------------------------------------------------

    public static void main(String[] arguments) throws Exception {
        List<String> brokers = Arrays.asList(arguments[0].split(","));
        List<String> kinds = Arrays.asList(arguments[1].split(","));
        boolean isMixed = kinds.contains("java");
        int first = Integer.parseInt(arguments[2]);
        int count = Integer.parseInt(arguments[3]);
        Faults faults = new Faults(kinds.get(0).equals("java"));
        CountDownLatch ready = new CountDownLatch(count);
        List<FailoverProgram> programs = new ArrayList<>();
        List<Thread> running = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            String role = arguments.length > 4 ? arguments[4] : null;
            FailoverProgram program = new FailoverProgram(brokers, isMixed, first + number, role, faults, ready);
            programs.add(program);
            running.add(program.thread("main", program::run));
        }
        if (!ready.await(60, TimeUnit.SECONDS)) {
            programs.stream().filter(program -> program.steps.get() < STEPS_UNTIL_READY)
                .forEach(program -> program.ledger.wrong("did not come to work: " + program.doing));
        }
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null && !line.equals("finish"); line = in.readLine()) {
            if (line.equals("fault")) {
                faults.begin();
            } else {
                faults.end(line.equals("over java"));
                System.out.println(line);
            }
        }
        programs.forEach(program -> program.isFinishing = true);
        long end = System.currentTimeMillis() + 2 * PATIENCE_MS;
        for (int number = 0; number < count; number++) {
            running.get(number).join(Math.max(1, end - System.currentTimeMillis()));
            programs.get(number).tell(running.get(number).isAlive());
        }
        FailoverProgram last = new FailoverProgram(brokers, isMixed, first + count, "none", faults, ready);
        int inDoubt = last.new Branches(last.url(), null).inDoubt();
        if (inDoubt > 0) {
            last.ledger.wrong(inDoubt + " branches are in doubt at the end");
            last.tell(false);
        }
        System.exit(0);
    }

    private void tell(boolean isHanging) {
        Map<String, Object> line = new LinkedHashMap<>();
        List<String> wrong = ledger.wrong();
        if (isHanging) {
            wrong.add("hangs: " + doing);
            for (Thread thread : threads) {
                if (thread.isAlive()) {
                    wrong.add(thread.getName() + " " + thread.getState() + ": "
                        + Arrays.stream(thread.getStackTrace()).limit(14).map(String::valueOf).collect(Collectors.joining(" < ")));
                }
            }
            if (HAS_DUMPED.compareAndSet(false, true)) { // who holds what they wait for may be any thread of the client
                for (ThreadInfo one : ManagementFactory.getThreadMXBean().dumpAllThreads(true, true)) {
                    System.err.println(one);
                }
            }
        }
        line.put("seed", seed);
        line.put("role", role);
        line.put("options", (isNested ? "nested " : "") + nested + " " + options);
        line.put("counts", ledger.counts().toString());
        line.put("faults", faults.toString());
        line.put("wrong", wrong);
        System.out.println(Json.write(line));
    }

    interface Work {
        void run() throws Exception;
    }

    Thread thread(String part, Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable error) {
                StringBuilder told = new StringBuilder(part + " ended with " + error);
                for (StackTraceElement frame : error.getStackTrace()) {
                    if (told.length() < 900) {
                        told.append(" < ").append(frame);
                    }
                }
                ledger.wrong(told.toString());
            }
        }, name + " " + part);
        threads.add(thread);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void run() throws Exception {
        try {
            switch (role) {
                case "queue":
                    work(false, false);
                    break;
                case "topic":
                    work(true, false);
                    break;
                case "later":
                    work(false, true);
                    break;
                case "request":
                    request();
                    break;
                case "browse":
                    browse();
                    break;
                case "transfer":
                    transfer();
                    break;
                case "churn":
                    churn();
                    break;
                case "copies":
                    copies();
                    break;
                case "scheduled":
                    new FailoverRoles(this).scheduled();
                    break;
                case "brief":
                    new FailoverRoles(this).brief();
                    break;
                case "impatient":
                    new FailoverRoles(this).impatient();
                    break;
                default:
                    throw new IllegalArgumentException(role);
            }
        } finally {
            while (ready.getCount() > 0 && steps.get() < STEPS_UNTIL_READY) {
                stepped();
            }
        }
    }

    void stepped() {
        if (ALL_STEPS.incrementAndGet() % STEPS_TOLD == 0 && ready.getCount() == 0) {
            System.out.println("steps");
        }
        if (steps.incrementAndGet() == STEPS_UNTIL_READY) {
            ready.countDown();
        }
    }

    private static <T> T one(Random chance, List<T> of) {
        return of.get(chance.nextInt(of.size()));
    }

    private <T> T one(List<T> of) {
        return one(chance, of);
    }

    @SafeVarargs
    private final <T> T one(T... of) {
        return of[chance.nextInt(of.length)];
    }

    boolean maybe(double probability) {
        return chance.nextDouble() < probability;
    }

    // -- options of a client ----------------------------------------------------------------------------------------

    private String chosenNested() {
        List<String> found = new ArrayList<>();
        found.add("wireFormat.maxInactivityDuration=4000");
        found.add("wireFormat.maxInactivityDurationInitalDelay=4000");
        if (maybe(0.2)) {
            found.add("wireFormat.tightEncodingEnabled=false");
        }
        if (maybe(0.2)) {
            found.add("wireFormat.cacheEnabled=false");
        }
        if (maybe(0.1)) {
            found.add("keepAlive=true");
        }
        if (maybe(0.1)) {
            found.add("wireFormat.stackTraceEnabled=false");
        }
        return String.join("&", found);
    }

    /**
     * Left out is what the client itself does not survive, with any broker: `sendAcksAsync=false` (the thread that reads from the broker
     * waits for an answer when a message comes twice), windows of producers in transactions (nobody answers what was rolled back),
     * prefetch 0 with `trackMessages` or a small cache (what is asked for is pushed out of it), `alwaysSessionAsync=false` with
     * listeners (one that commits when a message comes again keeps the thread that reads the answer waiting), and
     * `transactedIndividualAck` and `nonBlockingRedelivery` (what comes again is acknowledged in a transaction that did not receive it).
     */
    private String chosenOptions() {
        List<String> found = new ArrayList<>(Arrays.asList("initialReconnectDelay=10", "maxReconnectDelay=" + one(50, 200), "warnAfterReconnectAttempts=1000"));
        switch (chance.nextInt(6)) {
            case 0:
                found.addAll(Arrays.asList("randomize=false", "priorityBackup=" + !isMixed));
                break;
            case 1:
                found.add("backup=true");
                break;
            case 2:
                found.add("randomize=false");
                break;
            default:
        }
        optional(found, 0.3, "trackMessages=true");
        optional(found, 0.15, "useExponentialBackOff=false");
        optional(found, 0.15, "updateURIsSupported=false");
        optional(found, 0.1, "maxReconnectAttempts=100000");
        boolean hasSmallCache = maybe(0.1);
        optional(found, hasSmallCache && !(isMixed && found.contains("trackMessages=true")) ? 1 : 0, "maxCacheSize=2000");
        optional(found, isMixed ? 0 : 0.15, "trackTransactionProducers=false");
        optional(found, 0.5, "jms.prefetchPolicy.all=" + (isMixed || found.contains("trackMessages=true") || hasSmallCache ? one(1, 2, 5, 20) : one(0, 1, 2, 5, 20)));
        optional(found, 0.2, "jms.optimizeAcknowledge=true");
        optional(found, 0.15, "jms.alwaysSyncSend=true");
        optional(found, 0.15, "jms.dispatchAsync=false");
        optional(found, role.matches("queue|topic|copies") ? 0 : 0.15, "jms.alwaysSessionAsync=false");
        optional(found, 0.1, "jms.watchTopicAdvisories=" + (role.equals("request") || role.equals("churn")));
        optional(found, 0.2, "jms.consumerFailoverRedeliveryWaitPeriod=" + one(0, 1000));
        optional(found, 0.15, "jms.useCompression=true");
        boolean isAtOnce = isMixed && role.equals("transfer");
        found.add("jms.redeliveryPolicy.initialRedeliveryDelay=" + (isAtOnce ? 0 : one(0, 0, 50)));
        found.add("jms.redeliveryPolicy.redeliveryDelay=" + (isAtOnce ? 0 : one(0, 20)));
        found.add("jms.redeliveryPolicy.maximumRedeliveries=" + one(-1, -1, 20));
        return String.join("&", found);
    }

    private void optional(List<String> options, double probability, String option) {
        if (maybe(probability)) {
            options.add(option);
        }
    }

    private String url(String... more) {
        String places = brokers.stream().map(broker -> "tcp://" + broker + (isNested ? "" : "?" + nested)).collect(Collectors.joining(","));
        String query = more.length == 0 ? options : options + "&" + String.join("&", more);
        if (isNested) {
            query += "&nested." + nested.replace("&", "&nested.");
        }
        return "failover:(" + places + ")?" + query;
    }

    /**
     * For a session in which it does not ask for each message, whatever the options say: a listener may not, and in a transaction the
     * client drops what comes again although it was asked for, asks for no other, and waits for ever.
     */
    ActiveMQConnection prefetching(String client) throws JMSException {
        return options.contains("jms.prefetchPolicy.all=0") ? connection(client, "jms.prefetchPolicy.all=1") : connection(client);
    }

    ActiveMQConnection connection(String client, String... more) throws JMSException {
        ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(url(more)).createConnection();
        if (client != null) {
            connection.setClientID(client);
        }
        connection.start();
        return connection;
    }

    // -- who sends ------------------------------------------------------------------------------------------------------

    private enum Sending {
        PLAIN, ANONYMOUS, CALLBACK, ASYNCHRONOUS, TRANSACTED, MIXED, XA, SCHEDULED, GROUPED
    }

    /** Sends messages until the program finishes, each by a text of its own: "part.number". */
    private void send(Random own, Sending sending, String part, Destination destination) throws Exception {
        if (sending == Sending.XA) {
            new Branches(url(), destination).work(own, part);
            return;
        }
        boolean isTransacted = sending == Sending.TRANSACTED || sending == Sending.MIXED;
        ActiveMQConnection connection = connection(null);
        Session session = connection.createSession(isTransacted, isTransacted ? 0 : Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(sending == Sending.ANONYMOUS ? null : destination);
        int number = 0;
        while (!isFinishing) {
            doing = part + " sends " + number;
            if (isTransacted) {
                int size = 1 + own.nextInt(6);
                List<String> batch = new ArrayList<>();
                for (int more = 0; more < size; more++) {
                    batch.add(part + "." + number++);
                }
                transact(own, session, producer, batch);
            } else {
                number = sendOne(own, sending, session, producer, destination, part, number);
            }
            if (own.nextInt(40) == 0) {
                producer.close();
                if (own.nextInt(4) == 0) {
                    session.close();
                    session = connection.createSession(isTransacted, isTransacted ? 0 : Session.AUTO_ACKNOWLEDGE);
                }
                producer = session.createProducer(sending == Sending.ANONYMOUS ? null : destination);
            }
            stepped();
            Thread.sleep(own.nextInt(own.nextInt(10) == 0 ? 60 : 12));
        }
        connection.close();
    }

    private int sendOne(Random own, Sending sending, Session session, MessageProducer producer, Destination destination, String part, int first)
        throws Exception {
        int number = first;
        long since = System.currentTimeMillis();
        List<String> unheard = sending == Sending.ASYNCHRONOUS ? sendUnheard(own, session, producer, part, first) : Collections.emptyList();
        number += unheard.size();
        TextMessage message = session.createTextMessage(part + "." + number++);
        message.setStringProperty("colour", own.nextBoolean() ? "red" : "blue");
        if (sending == Sending.GROUPED) {
            message.setStringProperty("JMSXGroupID", "g" + own.nextInt(3));
        }
        if (sending == Sending.SCHEDULED && own.nextBoolean()) {
            message.setLongProperty("AMQ_SCHEDULED_DELAY", own.nextInt(1500));
        }
        if (sending == Sending.CALLBACK) {
            List<CountDownLatch> heard = new ArrayList<>();
            List<JMSException> failed = Collections.synchronizedList(new ArrayList<>());
            int count = 1 + own.nextInt(5);
            for (int more = 0; more < count; more++) {
                TextMessage next = more == 0 ? message : session.createTextMessage(part + "." + number++);
                next.setStringProperty("colour", "red");
                String text = next.getText();
                ledger.note(text, "is sent");
                CountDownLatch latch = new CountDownLatch(1);
                heard.add(latch);
                ((ActiveMQMessageProducer) producer).send(next, new AsyncCallback() {
                    @Override
                    public void onSuccess() {
                        ledger.stored(Arrays.asList(text));
                        latch.countDown();
                    }

                    @Override
                    public void onException(JMSException error) {
                        failed.add(error);
                        ledger.perhaps(Arrays.asList(text));
                        latch.countDown();
                    }
                });
            }
            for (CountDownLatch latch : heard) {
                if (!latch.await(PATIENCE_MS, TimeUnit.MILLISECONDS)) {
                    ledger.wrong("nobody called back");
                }
            }
            // More than the cache of tracked messages holds is not sent again in its order, which is told.
            if (!failed.isEmpty() && !(options.contains("trackMessages=true") && options.contains("maxCacheSize"))) {
                ledger.wrong("an asynchronous send failed: " + failed);
            }
            return number;
        }
        ledger.note(message.getText(), "is sent");
        if (sending == Sending.ANONYMOUS) {
            producer.send(destination, message);
        } else {
            producer.send(message);
        }
        ledger.stored(Arrays.asList(message.getText()));
        boolean isKnown = (options.contains("trackMessages=true") && !options.contains("maxCacheSize")) || !faults.since(since);
        for (String text : unheard) { // what comes behind them has its answer
            if (isKnown) {
                ledger.stored(Arrays.asList(text));
            } else {
                ledger.perhaps(Arrays.asList(text));
            }
        }
        return number;
    }

    /** Sends some messages without an answer, which a client with `trackMessages` sends again after a failover. Their texts. */
    private List<String> sendUnheard(Random own, Session session, MessageProducer producer, String part, int first) throws JMSException {
        ActiveMQConnection connection = ((ActiveMQSession) session).getConnection();
        List<String> texts = new ArrayList<>();
        connection.setUseAsyncSend(true);
        for (int more = own.nextInt(6); more > 0; more--) {
            TextMessage next = session.createTextMessage(part + "." + (first + texts.size()));
            next.setStringProperty("colour", "red");
            texts.add(next.getText());
            ledger.note(next.getText(), "is sent, and nobody waits");
            producer.send(next);
        }
        connection.setUseAsyncSend(false);
        return texts;
    }

    private void transact(Random own, Session session, MessageProducer producer, List<String> batch) throws JMSException {
        boolean commits = own.nextInt(5) > 0;
        try {
            for (String text : batch) {
                TextMessage message = session.createTextMessage(text);
                message.setStringProperty("colour", own.nextBoolean() ? "red" : "blue");
                ledger.note(text, "is sent");
                producer.send(message);
            }
            if (commits) {
                session.commit();
                ledger.stored(batch);
            } else {
                ledger.never(batch);
                session.rollback();
            }
        } catch (TransactionRolledBackException | javax.jms.IllegalStateException told) { // by the client, which says so to who sends
            if (commits) {
                ledger.perhaps(batch);
            }
            ledger.count("rolled back");
            session.rollback();
        }
    }

    /** Branches of XA, as a transaction manager has them. */
    private final class Branches {
        private final javax.jms.XASession session;
        private final XAResource resource;
        private final Destination destination;
        private final javax.jms.XAConnection connection;

        Branches(String url, Destination destination) throws JMSException {
            connection = new org.apache.activemq.ActiveMQXAConnectionFactory(url).createXAConnection();
            connection.start();
            session = connection.createXASession();
            resource = session.getXAResource();
            this.destination = destination;
        }

        void work(Random own, String part) throws Exception {
            int number = 0;
            while (!isFinishing) {
                List<String> batch = new ArrayList<>();
                for (int more = own.nextInt(4); more >= 0; more--) {
                    batch.add(part + "." + number++);
                }
                doing = part + " branch " + number;
                branch(own, part, batch, number);
                stepped();
                Thread.sleep(own.nextInt(20));
            }
            connection.close();
        }

        int inDoubt() throws Exception {
            int found = resource.recover(XAResource.TMSTARTRSCAN).length;
            connection.close();
            return found;
        }

        private void branch(Random own, String part, List<String> batch, int number) throws Exception {
            XaBranch xid = new XaBranch(name + "/" + part + "/" + number);
            boolean isOnePhase = own.nextInt(3) == 0;
            boolean commits = own.nextInt(5) > 0;
            long since = System.currentTimeMillis();
            try {
                resource.start(xid, XAResource.TMNOFLAGS);
                MessageProducer producer = session.createProducer(destination);
                for (String text : batch) {
                    TextMessage message = session.createTextMessage(text);
                    message.setStringProperty("colour", "red");
                    ledger.note(text, "is sent");
                    producer.send(message);
                }
                producer.close();
                resource.end(xid, XAResource.TMSUCCESS);
                if (!isOnePhase && resource.prepare(xid) != XAResource.XA_OK) {
                    ledger.wrong("a branch with work was not prepared");
                }
            } catch (XAException | JMSException error) {
                ledger.count("branch failed");
                ledger.never(batch);
                undo(xid);
                return;
            }
            if (isOnePhase) {
                try {
                    if (commits) {
                        resource.commit(xid, true);
                        ledger.stored(batch);
                    } else {
                        ledger.never(batch);
                        resource.rollback(xid);
                    }
                } catch (XAException error) {
                    ledger.count("one phase failed " + error.errorCode);
                    if (commits) {
                        ledger.perhaps(batch);
                    }
                }
                return;
            }
            for (int attempt = 0; ; attempt++) {
                try {
                    if (commits) {
                        resource.commit(xid, false);
                    } else {
                        resource.rollback(xid);
                    }
                    break;
                } catch (XAException error) {
                    ledger.count("decision failed " + error.errorCode);
                    if (!isInDoubt(xid)) {
                        break;
                    }
                    if (attempt > 20) {
                        ledger.wrong("a branch cannot be decided: " + error.errorCode);
                        break;
                    }
                }
            }
            if (commits) {
                ledger.committed(since);
                ledger.stored(batch);
            } else {
                ledger.never(batch);
            }
        }

        private void undo(XaBranch xid) {
            try {
                resource.rollback(xid);
            } catch (XAException error) {
                ledger.count("undo " + error.errorCode);
            }
        }

        private boolean isInDoubt(XaBranch xid) throws XAException {
            return Arrays.asList(resource.recover(XAResource.TMSTARTRSCAN)).stream()
                .anyMatch(found -> Arrays.equals(found.getGlobalTransactionId(), xid.getGlobalTransactionId()));
        }
    }

    // -- who receives ------------------------------------------------------------------------------------------------------

    /** A consumer that works until everything was received; it is closed and made anew now and then. */
    private final class Receiving {
        final Random own;
        final Ledger book;
        final Destination destination;
        final String subscription;
        final String selector;
        final boolean isOrdered;
        final String part;
        final int mode;
        final boolean listens;
        /** The latest message of a batch, and the texts of all. */
        private Message last;
        private final List<String> batch = new ArrayList<>();

        Receiving(Random own, Ledger book, Destination destination, String part, String subscription, String selector, boolean isOrdered) {
            this.own = own;
            this.book = book;
            this.destination = destination;
            this.part = part;
            this.subscription = subscription;
            this.selector = selector;
            int chosen = one(own, Arrays.asList(Session.AUTO_ACKNOWLEDGE, Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE,
                Session.DUPS_OK_ACKNOWLEDGE, Session.SESSION_TRANSACTED, Session.SESSION_TRANSACTED, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE));
            boolean isDelayed = !options.contains("initialRedeliveryDelay=0") || !options.contains("redeliveryPolicy.redeliveryDelay=0");
            boolean isLeftOut = isMixed && (chosen == Session.SESSION_TRANSACTED ? isDelayed || subscription != null
                : chosen == ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE && subscription != null);
            this.mode = isLeftOut ? Session.CLIENT_ACKNOWLEDGE : chosen;
            this.listens = mode != ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE && own.nextInt(4) == 0;
            // What comes when the delay of a redelivery ends, the client gives a listener before what it has kept meanwhile.
            this.isOrdered = isOrdered && !(isDelayed && listens && mode == Session.SESSION_TRANSACTED);
        }

        void work() throws Exception {
            book.count("mode " + mode + (listens ? " listening" : ""));
            ActiveMQConnection connection = open();
            while (!isDrained) {
                Session session = connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
                MessageConsumer consumer = subscription == null
                    ? session.createConsumer(destination, selector)
                    : session.createDurableSubscriber((Topic) destination, subscription, selector, false);
                if (listens) {
                    listen(session, consumer);
                } else {
                    receive(session, consumer);
                }
                consumer.close();
                session.close();
                batch.clear(); // what a listener has not acknowledged comes again
                if (own.nextInt(6) == 0) {
                    connection.close();
                    connection = open();
                }
            }
            connection.close();
        }

        private ActiveMQConnection open() throws JMSException {
            String client = subscription == null ? null : name + "." + part;
            return listens || mode == Session.SESSION_TRANSACTED ? prefetching(client) : connection(client);
        }

        private int lifetime() {
            return own.nextInt(3) == 0 ? 20 + own.nextInt(100) : 1_000_000;
        }

        private void listen(Session session, MessageConsumer consumer) throws Exception {
            AtomicInteger heard = new AtomicInteger();
            int most = lifetime();
            consumer.setMessageListener(message -> {
                try {
                    take(session, message);
                    if (mode == Session.SESSION_TRANSACTED || batch.size() >= 5) {
                        settle(session);
                    }
                } catch (JMSException error) {
                    ledger.wrong("a listener failed with " + error);
                }
                heard.incrementAndGet();
            });
            while (!isDrained && heard.get() < most) {
                Thread.sleep(50);
            }
            consumer.setMessageListener(null);
        }

        private void receive(Session session, MessageConsumer consumer) throws Exception {
            int size = 1 + own.nextInt(8);
            int most = lifetime();
            for (int got = 0; got < most && !isDrained; got++) {
                Message message = own.nextInt(5) == 0 ? consumer.receiveNoWait() : consumer.receive(IDLE_MS);
                if (message != null) {
                    take(session, message);
                } else if (own.nextInt(3) == 0) {
                    Thread.sleep(10);
                }
                if (batch.size() >= size || (message == null && !batch.isEmpty())) {
                    settle(session);
                }
                if (own.nextInt(4) == 0) {
                    Thread.sleep(own.nextInt(8));
                }
            }
            if (!batch.isEmpty()) {
                if (own.nextBoolean()) {
                    settle(session);
                } else { // they come again
                    batch.clear();
                }
            }
        }

        private void take(Session session, Message message) throws JMSException {
            String text = ((TextMessage) message).getText();
            book.received(text, message, part, isOrdered);
            if (message.getJMSRedelivered() && message.getIntProperty("JMSXDeliveryCount") < 2) {
                book.wrong("redelivered, but delivered for the first time: " + text);
            }
            batch.add(text);
            last = message;
            if (mode == ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE) {
                batch.clear();
                if (own.nextInt(10) > 0) {
                    message.acknowledge();
                    book.settled(Arrays.asList(text), part);
                } else {
                    session.recover();
                }
            } else if (mode == Session.AUTO_ACKNOWLEDGE) {
                batch.clear();
                if (!listens) { // otherwise it is acknowledged when the listener has returned
                    book.settled(Arrays.asList(text), part);
                }
            }
        }

        private void settle(Session session) throws JMSException {
            List<String> texts = new ArrayList<>(batch);
            batch.clear();
            switch (mode) {
                case Session.SESSION_TRANSACTED:
                    try {
                        if (own.nextInt(6) == 0) {
                            session.rollback();
                        } else {
                            session.commit();
                            book.settled(texts, part);
                        }
                    } catch (JMSException told) {
                        book.count("receipts rolled back");
                        if (!(told instanceof TransactionRolledBackException) && !faults.since(System.currentTimeMillis())) {
                            book.wrong("a commit failed, and there was no fault, with " + told);
                        }
                        session.rollback();
                    }
                    break;
                case Session.CLIENT_ACKNOWLEDGE:
                    // With a listener the client gives again what is acknowledged behind it, whatever the broker.
                    if (own.nextInt(8) == 0 && !listens) {
                        session.recover();
                    } else {
                        last.acknowledge();
                        book.settled(texts, part);
                    }
                    break;
                default:
            }
        }
    }

    /** Producers and consumers of one destination; consumers that come later find what is stored, all of it once. */
    private void work(boolean isTopic, boolean comesLater) throws Exception {
        Connection setup = connection(null);
        Session session = setup.createSession(false, Session.AUTO_ACKNOWLEDGE);
        boolean isExclusive = !isTopic && maybe(0.15);
        String query = isExclusive ? "?consumer.exclusive=true" : "";
        List<Ledger> books = new ArrayList<>();
        int producers = 1 + chance.nextInt(2);
        int consumers = 1 + chance.nextInt(3);
        boolean hasSelectors = maybe(0.2) && !isTopic && consumers > 1;
        List<Receiving> receiving = new ArrayList<>();
        Destination destination = isTopic ? session.createTopic(name) : session.createQueue(name + query);
        for (int number = 0; number < consumers; number++) {
            String subscription = isTopic ? "s" + number : null;
            Ledger book = isTopic ? new Ledger(faults) : ledger;
            books.add(book);
            String selector = hasSelectors ? "colour = '" + (number % 2 == 0 ? "red" : "blue") + "'" : null;
            boolean isOrdered = consumers == 1 || isTopic || (hasSelectors && consumers == 2);
            receiving.add(new Receiving(new Random(chance.nextLong()), book, destination, "c" + number, subscription, selector, isOrdered));
        }
        List<Thread> sending = new ArrayList<>();
        List<Thread> taking = new ArrayList<>();
        if (isTopic) { // there have to be subscriptions before anything is sent
            for (int number = 0; number < consumers; number++) {
                ActiveMQConnection one = connection(name + ".c" + number);
                one.createSession(false, Session.AUTO_ACKNOWLEDGE).createDurableSubscriber((Topic) destination, "s" + number, null, false);
                one.close();
            }
        }
        List<Sending> kinds = new ArrayList<>(Arrays.asList(Sending.values()));
        if (isMixed || consumers == 1 || isTopic || hasSelectors) { // what comes later has no order
            kinds.remove(Sending.SCHEDULED);
        }
        if (isMixed && isTopic) {
            kinds.remove(Sending.XA);
        }
        for (int number = 0; number < producers; number++) {
            Sending kind = one(kinds);
            Random own = new Random(chance.nextLong());
            String part = kind.toString().toLowerCase() + number;
            ledger.count(kind.toString());
            Destination to = isTopic ? session.createTopic(name) : session.createQueue(name);
            sending.add(thread(part, () -> send(own, kind, part, to)));
        }
        if (!comesLater) {
            for (Receiving one : receiving) {
                taking.add(thread(one.part, one::work));
            }
        }
        for (Thread one : sending) {
            one.join();
        }
        doing = "receives the rest";
        if (!comesLater) {
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while (missing(books, isTopic) > 0 && System.currentTimeMillis() < end && ledgerProgress(books) > System.currentTimeMillis() - 15_000) {
                Thread.sleep(50);
            }
            isDrained = true;
            for (Thread one : taking) {
                one.join();
            }
        }
        setup.close();
        if (isTopic) {
            for (int number = 0; number < consumers; number++) {
                Ledger book = books.get(number);
                ledger.copyTo(book);
                ActiveMQConnection one = connection(name + ".c" + number, "jms.prefetchPolicy.all=100");
                Session last = one.createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageConsumer consumer = last.createDurableSubscriber((Topic) destination, "s" + number, null, false);
                drain(book, consumer, 1500, false);
                consumer.close();
                last.unsubscribe("s" + number);
                one.close();
                book.conclude(dead(), producers > 1);
                book.wrong().forEach(wrong -> ledger.wrong(wrong));
                book.counts().forEach((what, count) -> ledger.count(what, count));
            }
        } else {
            ActiveMQConnection one = connection(null, "jms.prefetchPolicy.all=100");
            Session last = one.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = last.createConsumer(last.createQueue(name));
            drain(ledger, consumer, 2000, comesLater);
            one.close();
            List<String> dead = dead();
            ledger.conclude(dead);
            if (comesLater) {
                ledger.requireOnce(dead);
            }
        }
    }

    private long missing(List<Ledger> books, boolean isTopic) {
        if (!isTopic) {
            return ledger.missing();
        }
        long missing = 0;
        for (Ledger book : books) {
            ledger.copyTo(book);
            missing += book.missing();
        }
        return missing;
    }

    private static long ledgerProgress(List<Ledger> books) {
        return books.stream().mapToLong(Ledger::progress_ms).max().orElse(0);
    }

    void drain(Ledger book, MessageConsumer consumer, long silence_ms, boolean isOrdered) throws JMSException {
        for (;;) {
            Message message = consumer.receive(silence_ms);
            if (message == null && book.missing() > 0) { // it may be busy
                message = consumer.receive(BUSY_MS);
            }
            if (message == null) {
                return;
            }
            book.count("drained");
            book.received(((TextMessage) message).getText(), message, "the last one", isOrdered && !isUnordered());
        }
    }

    private boolean isUnordered() {
        return ledger.counts().containsKey("SCHEDULED");
    }

    List<String> dead() throws JMSException {
        return dead(name);
    }

    /** Of a queue, and of those whose names begin with its name and a dot. */
    private List<String> dead(String queue) throws JMSException {
        List<ActiveMQMessage> shown = deadLetters(queue);
        for (List<ActiveMQMessage> again = deadLetters(queue); again.size() != shown.size(); again = deadLetters(queue)) {
            shown = again; // a browser whose connection fails, as on a busy machine, may show only a part
        }
        List<String> found = new ArrayList<>();
        for (ActiveMQMessage message : shown) {
            String text = ((TextMessage) message).getText();
            found.add(text);
            ledger.count("dead: " + cause(message));
            ledger.note(text, "is a dead letter " + message.getJMSMessageID() + ": " + cause(message));
        }
        return found;
    }

    private List<ActiveMQMessage> deadLetters(String queue) throws JMSException {
        ActiveMQConnection connection = connection(null, "jms.prefetchPolicy.all=1000");
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        List<ActiveMQMessage> found = new ArrayList<>();
        for (Object message : Collections.list((Enumeration<?>) session.createBrowser(session.createQueue("ActiveMQ.DLQ")).getEnumeration())) {
            String from = ((ActiveMQMessage) message).getOriginalDestination().getPhysicalName();
            if (from.equals(queue) || from.startsWith(queue + ".")) {
                found.add((ActiveMQMessage) message);
            }
        }
        connection.close();
        return found;
    }

    private static String cause(Message message) throws JMSException {
        String cause = String.valueOf(message.getStringProperty("dlqDeliveryFailureCause")).replaceAll("ID:[^ ]*", "ID").replaceAll("[0-9]+", "N");
        return cause.substring(0, Math.min(90, cause.length()));
    }

    // -- request and reply -----------------------------------------------------------------------------------------------

    private void request() throws Exception {
        Random asking = new Random(chance.nextLong());
        boolean isTransacted = maybe(0.3);
        Thread replier = thread("replier", () -> {
            ActiveMQConnection connection = isTransacted ? prefetching(null) : connection(null);
            Session session = connection.createSession(isTransacted, isTransacted ? 0 : Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(name));
            MessageProducer producer = session.createProducer(null);
            while (!isDrained) {
                Message message = consumer.receive(IDLE_MS);
                if (message != null) {
                    try {
                        producer.send(message.getJMSReplyTo(), session.createTextMessage("re " + ((TextMessage) message).getText()));
                        if (isTransacted) {
                            session.commit();
                        }
                    } catch (javax.jms.InvalidDestinationException | org.apache.activemq.DestinationDoesNotExistException gone) {
                        ledger.count("asker is not there"); // it has deleted it, or has not come back yet
                        if (isTransacted) {
                            session.rollback();
                        }
                    } catch (JMSException told) {
                        if (!isTransacted) {
                            throw told;
                        }
                        ledger.count("reply rolled back"); // who asks says whether it may be
                        session.rollback();
                    }
                }
            }
            connection.close();
        });
        ActiveMQConnection connection = connection(null);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        TemporaryQueue replies = session.createTemporaryQueue();
        MessageConsumer heard = session.createConsumer(replies);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        for (int number = 0; !isFinishing; number++) {
            long since = System.currentTimeMillis();
            String text = "q." + number;
            TextMessage question = session.createTextMessage(text);
            question.setJMSReplyTo(replies);
            doing = "asks " + number;
            producer.send(question);
            Message reply = heard.receive(10_000);
            while (reply != null && !((TextMessage) reply).getText().equals("re " + text)) {
                ledger.count("reply again");
                reply = heard.receive(10_000);
            }
            ledger.count(reply == null ? "no reply" : "reply");
            if (reply == null && !faults.since(since)) {
                ledger.wrong("no reply within 10 s, and there was no fault, to " + text);
            }
            if (asking.nextInt(25) == 0) {
                heard.close();
                delete(replies);
                replies = session.createTemporaryQueue();
                heard = session.createConsumer(replies);
            }
            stepped();
            Thread.sleep(asking.nextInt(10));
        }
        isDrained = true;
        replier.join();
        connection.close();
    }

    // -- browsers --------------------------------------------------------------------------------------------------------

    private void browse() throws Exception {
        ActiveMQConnection connection = connection(null);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        for (int number = 0; !isFinishing; number++) {
            for (int more = chance.nextInt(3); more >= 0 && ledger.size() < 300; more--) {
                String text = "b." + ledger.size();
                producer.send(session.createTextMessage(text));
                ledger.stored(Arrays.asList(text));
            }
            doing = "browses " + number;
            long since = System.currentTimeMillis();
            List<String> found = new ArrayList<>();
            for (Enumeration<?> all = session.createBrowser(session.createQueue(name)).getEnumeration(); all.hasMoreElements();) {
                Object message = all.nextElement();
                if (message != null) {
                    found.add(((TextMessage) message).getText());
                }
            }
            if (found.size() != ledger.size() || !new ArrayList<>(new java.util.LinkedHashSet<>(found)).equals(found)) {
                ledger.count("browsed otherwise");
                if (!faults.since(since)) {
                    ledger.wrong("of " + ledger.size() + " a browser was shown " + found.size());
                }
            }
            stepped();
            Thread.sleep(chance.nextInt(20));
        }
        connection.close();
        ActiveMQConnection one = connection(null, "jms.prefetchPolicy.all=100");
        Session last = one.createSession(false, Session.AUTO_ACKNOWLEDGE);
        drain(ledger, last.createConsumer(last.createQueue(name)), 2000, true);
        one.close();
        List<String> dead = dead();
        ledger.conclude(dead);
        ledger.requireOnce(dead);
    }

    // -- from one queue to another in one transaction -----------------------------------------------------------------

    private void transfer() throws Exception {
        Random own = new Random(chance.nextLong());
        Thread sending = thread("sends", () -> {
            ActiveMQConnection connection = connection(null);
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(own, Sending.PLAIN, "in", session.createQueue(name + ".in"));
            connection.close();
        });
        ActiveMQConnection connection = prefetching(null);
        Session session = connection.createSession(true, 0);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name + ".in"));
        MessageProducer producer = session.createProducer(session.createQueue(name));
        Map<String, Integer> moved = new java.util.TreeMap<>();
        long quiet_ms = System.currentTimeMillis();
        while (!isFinishing || sending.isAlive() || System.currentTimeMillis() - quiet_ms < 3000) {
            doing = "transfers";
            List<String> batch = new ArrayList<>();
            long since = System.currentTimeMillis();
            try {
                for (int more = chance.nextInt(4); more >= 0; more--) {
                    Message message = consumer.receive(IDLE_MS);
                    if (message == null) {
                        break;
                    }
                    String text = ((TextMessage) message).getText();
                    batch.add(text);
                    ledger.note(text, "is taken, for the " + message.getIntProperty("JMSXDeliveryCount") + ". time as it says");
                    producer.send(session.createTextMessage(((TextMessage) message).getText()));
                }
                if (maybe(0.15)) {
                    session.rollback();
                    batch.forEach(text -> ledger.note(text, "is given back"));
                } else {
                    session.commit();
                    for (String text : batch) {
                        ledger.note(text, "is moved");
                        if (moved.merge(text, 1, Integer::sum) > 1) {
                            ledger.count("moved again");
                            if (!faults.since(since)) {
                                ledger.wrong("moved again without a fault: " + text);
                            }
                        }
                    }
                }
            } catch (JMSException told) { // by the client, which says so to who sends, or by a Java broker that has marked it
                ledger.count("rolled back");
                if (!faults.since(since)) {
                    ledger.wrong("a transfer failed, and there was no fault, with " + told);
                }
                batch.forEach(text -> ledger.note(text, "is perhaps moved: " + told));
                session.rollback();
            }
            if (!batch.isEmpty()) {
                quiet_ms = System.currentTimeMillis();
            }
            stepped();
        }
        connection.close();
        ActiveMQConnection one = connection(null, "jms.prefetchPolicy.all=100");
        Session last = one.createSession(false, Session.AUTO_ACKNOWLEDGE);
        drain(ledger, last.createConsumer(last.createQueue(name)), 2000, false);
        int before = ledger.counts().getOrDefault("drained", 0);
        drain(ledger, last.createConsumer(last.createQueue(name + ".in")), 2000, false);
        int left = ledger.counts().getOrDefault("drained", 0) - before;
        if (left > 0) {
            ledger.count("left", left);
        }
        one.close();
        ledger.conclude(dead());
    }

    /** A client does not ask again to delete a queue, and waits for the lost answer for ever. */
    private void delete(TemporaryQueue queue) throws InterruptedException {
        long since = System.currentTimeMillis();
        Thread deleting = thread("deletes", () -> {
            try {
                queue.delete();
            } catch (JMSException closed) {
                ledger.count("not deleted");
            }
        });
        deleting.join(10_000);
        if (deleting.isAlive() && !faults.since(since)) {
            ledger.wrong("nobody says that a queue is deleted, and there was no fault");
        }
    }

    // -- several queues get each message ---------------------------------------------------------------------------------

    /** One consumer of one of the queues is at work meanwhile; the other one has each message once in the end, in its order. */
    private void copies() throws Exception {
        boolean isVirtual = maybe(0.5);
        ActiveMQConnection setup = connection(null);
        Session session = setup.createSession(false, Session.AUTO_ACKNOWLEDGE);
        List<String> queues = new ArrayList<>();
        for (String one : new String[] {"a", "b"}) {
            String queue = isVirtual ? "Consumer." + one + ".VirtualTopic." + name : name + "." + one;
            session.createConsumer(session.createQueue(queue)).close();
            queues.add(queue);
        }
        Sending kind = one(Sending.PLAIN, Sending.ANONYMOUS, Sending.CALLBACK, Sending.TRANSACTED, Sending.MIXED, Sending.XA);
        Destination all = isVirtual ? session.createTopic("VirtualTopic." + name) : session.createQueue(String.join(",", queues));
        setup.close();
        ledger.count(kind.toString());
        Random own = new Random(chance.nextLong());
        Thread sending = thread("sends", () -> send(own, kind, "copied", all));
        Ledger used = new Ledger(faults);
        Receiving receiving = new Receiving(new Random(chance.nextLong()), used, new ActiveMQQueue(queues.get(0)), "c", null, null, true);
        Thread taking = thread("c", receiving::work);
        sending.join();
        isDrained = true;
        taking.join();
        ActiveMQConnection connection = connection(null, "jms.prefetchPolicy.all=100");
        Session last = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Ledger kept = new Ledger(faults);
        for (Ledger book : Arrays.asList(used, kept)) {
            String queue = queues.get(book == used ? 0 : 1);
            doing = "receives the rest of " + queue;
            ledger.copyTo(book);
            drain(book, last.createConsumer(last.createQueue(queue)), 2000, book == kept);
            List<String> dead = dead(queue);
            book.conclude(dead);
            if (book == kept) {
                book.requireOnce(dead);
            }
        }
        connection.close();
        for (Ledger book : Arrays.asList(used, kept)) {
            book.wrong().forEach(wrong -> ledger.wrong((book == used ? "used, " : "kept, ") + wrong));
            book.counts().forEach((what, count) -> ledger.count(what, count));
        }
    }

    // -- everything is opened and closed --------------------------------------------------------------------------------

    private void churn() throws Exception {
        for (int number = 0; !isFinishing; number++) {
            doing = "opens and closes " + number;
            ActiveMQConnection connection = prefetching(maybe(0.5) ? name + ".client" : null);
            for (int sessions = chance.nextInt(3); sessions >= 0; sessions--) {
                boolean isTransacted = maybe(0.4);
                Session session = connection.createSession(isTransacted, isTransacted ? 0 : Session.AUTO_ACKNOWLEDGE);
                TemporaryQueue temporary = session.createTemporaryQueue();
                MessageConsumer consumer = session.createConsumer(temporary);
                MessageProducer producer = session.createProducer(temporary);
                long since = System.currentTimeMillis();
                producer.send(session.createTextMessage("t"));
                try {
                    if (isTransacted) {
                        session.commit();
                    }
                    if (consumer.receive(5000) == null && !faults.since(since)) {
                        ledger.wrong("no message in a temporary queue, and there was no fault");
                    }
                    if (isTransacted) {
                        session.commit();
                    }
                } catch (TransactionRolledBackException told) {
                    ledger.count("rolled back");
                    session.rollback();
                }
                if (maybe(0.7)) {
                    consumer.close();
                    if (maybe(0.5)) {
                        delete(temporary);
                    }
                }
                if (connection.getClientID() != null && connection.getClientID().startsWith("F.") && maybe(0.5)) {
                    Topic topic = session.createTopic(name);
                    session.createDurableSubscriber(topic, "churn").close();
                    since = System.currentTimeMillis();
                    try {
                        session.unsubscribe("churn");
                    } catch (javax.jms.InvalidDestinationException done) { // before the fault, and its client has asked again
                        ledger.count("unsubscribed");
                        if (!faults.since(since)) {
                            ledger.wrong("a subscription is not there, and there was no fault");
                        }
                    }
                }
                if (maybe(0.6)) {
                    session.close();
                }
            }
            connection.close();
            stepped();
        }
    }
}
