import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.TransactionRolledBackException;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Producers and consumers that go on whatever becomes of their brokers.
 *
 * <pre>
 *   JmsFailover BROKER_URL QUEUE COUNT
 * </pre>
 *
 * Two producers send COUNT messages each, one of them in transactions of ten; it prints "sent N" after every hundred. Then
 * three consumers, one of them in transactions of ten, receive until the queue is empty; it prints "received N"
 * after every hundred. In between: "stored N of M", and "in doubt" for each transaction that was repeated. At the end: "missing N", "unknown N",
 * "left N".
 */
public final class JmsFailover {
    private static final long IDLE_MS = 500;
    /** How long a message that is there is waited for, and how many times nothing has to come until that is taken for an end. */
    private static final long WAIT_MS = 30_000;
    private static final int IDLE_MOST = 60;

    private final ActiveMQConnectionFactory factory;
    private final String queue;
    private final int count;
    private final Set<String> sent = ConcurrentHashMap.newKeySet();
    private final Map<String, Integer> received = new ConcurrentHashMap<>();
    private final Set<String> perhaps = ConcurrentHashMap.newKeySet();
    private final AtomicInteger sends = new AtomicInteger();
    private final AtomicInteger receipts = new AtomicInteger();

    private volatile boolean isEmpty;

    private JmsFailover(String url, String queue, int count) {
        factory = new ActiveMQConnectionFactory(url);
        this.queue = queue;
        this.count = count;
    }

    public static void main(String[] arguments) throws Exception {
        new JmsFailover(arguments[0], arguments[1], Integer.parseInt(arguments[2])).run();
        System.exit(0);
    }

    private void run() throws Exception {
        ExecutorService pool = Executors.newCachedThreadPool();
        List<Future<?>> all = new ArrayList<>();
        all.add(pool.submit(() -> produce("single", false)));
        all.add(pool.submit(() -> produce("together", true)));
        for (Future<?> one : all) {
            one.get();
        }
        int waiting = browse();
        System.out.println("stored " + waiting + " of " + sent.size());
        all.clear();
        all.add(pool.submit(() -> consume(Session.AUTO_ACKNOWLEDGE)));
        all.add(pool.submit(() -> consume(Session.CLIENT_ACKNOWLEDGE)));
        all.add(pool.submit(() -> consume(Session.SESSION_TRANSACTED)));
        int left = browse();
        for (int idle = 0; left > 0 && idle < IDLE_MOST; ) {
            int before = receipts.get();
            Thread.sleep(IDLE_MS);
            idle = receipts.get() == before ? idle + 1 : 0;
            left = browse();
        }
        isEmpty = true;
        for (Future<?> one : all) {
            one.get();
        }
        if (left > 0) { // a client may sit on what it takes for a duplicate, until it closes
            receiveRest(left);
            left = browse();
        }
        long unknown = received.keySet().stream().filter(text -> !sent.contains(text)).count();
        long missing =
                sent.stream().filter(text -> !received.containsKey(text) && !perhaps.contains(text)).count();
        System.out.println("missing " + missing);
        System.out.println("unknown " + unknown);
        System.out.println("left " + left);
    }

    private Connection connect() throws JMSException {
        Connection connection = factory.createConnection();
        connection.start();
        return connection;
    }

    private void receiveRest(int left) throws JMSException {
        Connection connection = connect();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        TextMessage message;
        for (int got = 0; (message = (TextMessage) consumer.receive(got < left ? WAIT_MS : IDLE_MS)) != null; got++) {
            received.merge(message.getText(), 1, Integer::sum);
        }
        connection.close();
    }

    private int browse() throws JMSException {
        Connection connection = connect();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        java.util.Enumeration<?> all = session.createBrowser(session.createQueue(queue)).getEnumeration();
        int found = 0;
        for (; all.hasMoreElements(); all.nextElement()) {
            found++;
        }
        connection.close();
        return found;
    }

    private Void produce(String name, boolean isTransacted) throws Exception {
        Connection connection = connect();
        Session session = connection.createSession(isTransacted, isTransacted ? 0 : Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        List<String> batch = new ArrayList<>();
        int size = isTransacted ? 10 : 1;
        for (int number = 0; number < count; number += size) {
            batch.clear();
            for (int next = number; next < number + size; next++) {
                batch.add(name + next);
            }
            while (!sent(session, producer, batch, isTransacted)) {
                System.out.println("in doubt"); // and perhaps stored
                session.rollback();
            }
            sent.addAll(batch);
            tell("sent", sends.addAndGet(size), size);
        }
        connection.close();
        return null;
    }

    private boolean sent(Session session, MessageProducer producer, List<String> batch, boolean isTransacted)
            throws JMSException {
        try {
            for (String text : batch) {
                producer.send(session.createTextMessage(text));
            }
            if (isTransacted) {
                session.commit();
            }
            return true;
        } catch (TransactionRolledBackException again) {
            return false;
        }
    }

    private Void consume(int mode) throws Exception {
        Connection connection = connect();
        boolean isTransacted = mode == Session.SESSION_TRANSACTED;
        Session session = connection.createSession(isTransacted, mode);
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        List<String> batch = new ArrayList<>();
        TextMessage latest = null;
        while (!isEmpty) {
            TextMessage message = (TextMessage) consumer.receive(IDLE_MS);
            if (message != null) {
                latest = message;
                batch.add(message.getText());
                Thread.sleep(1);
            }
            if (batch.size() >= 10 || (message == null && !batch.isEmpty())) {
                settle(session, latest, mode, batch);
            }
        }
        if (!batch.isEmpty()) {
            settle(session, latest, mode, batch);
        }
        connection.close();
        return null;
    }

    private void settle(Session session, TextMessage latest, int mode, List<String> batch) throws JMSException {
        try {
            if (mode == Session.SESSION_TRANSACTED) {
                session.commit();
            } else if (mode == Session.CLIENT_ACKNOWLEDGE) {
                latest.acknowledge();
            }
            batch.forEach(text -> received.merge(text, 1, Integer::sum));
            tell("received", receipts.addAndGet(batch.size()), batch.size());
        } catch (TransactionRolledBackException again) {
            System.out.println("rolled back"); // and perhaps acknowledged
            perhaps.addAll(batch);
        }
        batch.clear();
    }

    private static void tell(String what, int total, int more) {
        if (total / 100 != (total - more) / 100) {
            System.out.println(what + " " + total / 100 * 100);
        }
    }
}
