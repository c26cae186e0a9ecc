import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQMessage;

/**
 * What a JMS client sees of a broker: many small checks, each with destinations of its own, several at a time. Each tells
 * what it sees, in words that are the same on every broker that does the same.
 *
 * <pre>
 *   JmsChecks BROKER_URL [PATTERN]      the checks whose name matches; "== NAME", then what it tells
 * </pre>
 */
public abstract class JmsChecks {
    private static final int AT_ONCE = 8;
    private static final long CHECK_SECONDS = 150;

    /** How long a message that comes is waited for: on a busy machine it may take its time. */
    static final long WAIT_MS = 30_000;

    /** A check by name. */
    interface Check {
        void run() throws Exception;
    }

    /** The checks of this class, in the order in which they are told. */
    final Map<String, Check> checks = new LinkedHashMap<>();

    private final String url;
    private final List<String> told = Collections.synchronizedList(new ArrayList<>());
    private final List<Connection> opened = Collections.synchronizedList(new ArrayList<>());

    JmsChecks(String url) {
        this.url = url;
    }

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        String pattern = arguments.length > 1 ? arguments[1] : ".*";
        List<Function<String, JmsChecks>> kinds = new ArrayList<>();
        kinds.add(JmsConnecting::new); // one of them waits for long: the others are done meanwhile
        kinds.add(JmsMessages::new);
        kinds.add(JmsAcknowledgements::new);
        kinds.add(JmsTransactions::new);
        kinds.add(JmsSubscriptions::new);
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        Map<String, Future<List<String>>> running = new LinkedHashMap<>();
        for (Function<String, JmsChecks> kind : kinds) {
            for (String name : kind.apply(url).checks.keySet()) {
                if (name.matches(pattern)) {
                    running.put(name, pool.submit(() -> kind.apply(url).watch(name)));
                }
            }
        }
        for (Map.Entry<String, Future<List<String>>> one : running.entrySet()) {
            System.out.println("== " + one.getKey());
            one.getValue().get().forEach(System.out::println);
        }
        System.exit(0); // whatever hangs
    }

    private List<String> watch(String name) throws Exception {
        bounded("", () -> {
            try {
                checks.get(name).run();
            } catch (Exception | AssertionError failure) {
                tell("FAILED " + failure);
            }
        });
        for (Connection connection : new ArrayList<>(opened)) {
            bounded("close ", () -> connection.close());
        }
        return new ArrayList<>(told);
    }

    private void bounded(String what, Check check) throws Exception {
        ExecutorService thread = Executors.newSingleThreadExecutor(
                task -> {
                    Thread daemon = new Thread(task);
                    daemon.setDaemon(true);
                    return daemon;
                });
        try {
            thread.submit(
                            () -> {
                                check.run();
                                return null;
                            })
                    .get(CHECK_SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException hangs) {
            tell(what + "HANGS");
        }
        thread.shutdownNow();
    }

    /** Note what was seen, without what differs from run to run. */
    final void tell(String text) {
        String plain = text.replaceAll("ID:[^ ,'\\]\\)}]+", "<ID>");
        told.add(plain.replaceAll("(tcp:/)?/?127.0.0.1:\\d+", "<ADDRESS>"));
    }

    final void tellError(String what, Exception error) {
        tell(what + ": " + error.getClass().getName());
    }

    /** A connection with options of its URL, not started. */
    final ActiveMQConnection connect(String options) throws JMSException {
        String separator = url.contains("?") ? "&" : "?";
        String own = options.isEmpty() ? url : url + separator + options;
        if (url.startsWith("failover:(") && options.startsWith("wireFormat")) {
            own = url.replace(")", "?" + options + ")");
        }
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(own);
        factory.setTrustAllPackages(true);
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        opened.add(connection);
        return connection;
    }

    final ActiveMQConnection started() throws JMSException {
        ActiveMQConnection connection = connect("");
        connection.start();
        return connection;
    }

    /** A name that nobody has had before. */
    final String name(String stem) {
        return stem + "." + Long.toString(System.nanoTime(), 36);
    }

    /** Send the texts m0, m1, … */
    final void sendN(Session session, Destination destination, int count) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (int number = 0; number < count; number++) {
            producer.send(session.createTextMessage("m" + number));
        }
        producer.close();
    }

    /** What is among the dead letters of a queue. */
    final List<ActiveMQMessage> deadLetters(Session session, Destination queue) throws JMSException {
        List<ActiveMQMessage> found = new ArrayList<>();
        QueueBrowser browser = session.createBrowser(session.createQueue("ActiveMQ.DLQ"));
        for (Enumeration<?> all = browser.getEnumeration(); all.hasMoreElements(); ) {
            ActiveMQMessage letter = (ActiveMQMessage) all.nextElement();
            if (queue.equals(letter.getOriginalDestination())) {
                found.add(letter);
            }
        }
        browser.close();
        return found;
    }

    /** A message in words: its text, and whether and how often it was delivered. */
    final String show(Message message) throws JMSException {
        if (message == null) {
            return "null";
        }
        String body = message instanceof TextMessage ? ((TextMessage) message).getText() : message.getClass().getSimpleName();
        return body + " redelivered=" + message.getJMSRedelivered() + " count=" + message.getIntProperty("JMSXDeliveryCount");
    }
}
