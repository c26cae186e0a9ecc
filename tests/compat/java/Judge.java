import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.transaction.xa.XAException;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQMessageConsumer;
import org.apache.activemq.command.TransactionInfo;

/**
 * What checks of JMS share: connections that end with a check, destinations of its own, and transcripts in which nothing
 * depends on the clock, on the machine or on the broker that is asked.
 */
abstract class Judge {
    /** How long is waited for what has to come: longer than a busy machine stands still. */
    static final long WAIT_MS = 30_000;
    /** How long nothing has to come. */
    static final long SILENCE_MS = 150;
    /** How long the first of those that may come is waited for. */
    private static final long FIRST_MS = 1000;

    private final String url;
    private final Set<String> titles;
    private final List<Connection> connections = new ArrayList<>();
    private String name;

    /** @param arguments the broker's address, and the titles of the checks that are done: all if there are none */
    Judge(String... arguments) {
        url = arguments[0];
        titles = new LinkedHashSet<>(Arrays.asList(arguments).subList(1, arguments.length));
    }

    /** A check: what it answers is compared. */
    interface Check {
        Object run() throws Exception;
    }

    void check(String title, Check check) {
        if (!titles.isEmpty() && !titles.contains(title)) {
            return;
        }
        name = title.replaceAll("[^A-Za-z0-9]+", ".");
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("name", title);
        try {
            line.put("result", check.run());
        } catch (Throwable error) {
            line.put("result", "check ended with " + error);
        }
        for (Connection connection : connections) {
            try {
                connection.close();
            } catch (JMSException ignored) {
                // a check that ends it itself
            }
        }
        connections.clear();
        System.out.println(Json.write(line));
    }

    /**
     * Returns when the broker has done all that this check's connections have told it: an acknowledgement and the end of a consumer or of
     * a session are told without a wait for an answer, and what they have given back is seen by other connections only then.
     */
    private void settle() {
        for (Connection connection : connections) {
            ActiveMQConnection own = (ActiveMQConnection) connection;
            if (own.isStarted() && !own.isClosed() && own.getTransport().isConnected()) {
                outcome(() -> own.syncSendPacket(new TransactionInfo(own.getConnectionInfo().getConnectionId(), null, TransactionInfo.RECOVER)));
            }
        }
    }

    // -- what checks use ------------------------------------------------------------------------------------------

    /** What a listener is told, in a thread of its own. */
    static final class Told {
        private final List<Object> all = new ArrayList<>();

        synchronized void add(Object one) {
            all.add(one);
            notifyAll();
        }

        /** All of it, as soon as there is as much as is expected; what there is if that does not come. */
        synchronized List<Object> all(int expected) throws InterruptedException {
            long end = System.currentTimeMillis() + WAIT_MS;
            for (long left_ms = WAIT_MS; all.size() < expected && left_ms > 0; left_ms = end - System.currentTimeMillis()) {
                wait(left_ms);
            }
            return new ArrayList<>(all);
        }
    }

    ActiveMQConnection connection(String... options) throws JMSException {
        ActiveMQConnection connection = (ActiveMQConnection) factory(options).createConnection();
        connections.add(connection);
        return connection;
    }

    ActiveMQConnectionFactory factory(String... options) {
        String query = options.length == 0 ? "" : (url.contains("?") ? "&" : "?") + String.join("&", options);
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url + query);
        factory.setTrustAllPackages(true);
        return factory;
    }

    /** A connection that ends with the check. */
    void keep(Connection connection) {
        connections.add(connection);
    }

    ActiveMQConnection started(String... options) throws JMSException {
        ActiveMQConnection connection = connection(options);
        connection.start();
        return connection;
    }

    Session session() throws JMSException {
        return started().createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    String own(String suffix) {
        return "J." + name + suffix;
    }

    Queue queue(Session session) throws JMSException {
        return session.createQueue(own(""));
    }

    Topic topic(Session session) throws JMSException {
        return session.createTopic(own(""));
    }

    static void send(Session session, Destination destination, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
    }

    static Message next(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(WAIT_MS);
        if (message == null) {
            throw new IllegalStateException("no message came");
        }
        return message;
    }

    /** The one of several that a message has come to first. */
    static MessageConsumer whoHas(MessageConsumer... consumers) throws InterruptedException {
        for (long end = System.currentTimeMillis() + WAIT_MS; System.currentTimeMillis() < end; Thread.sleep(5)) {
            for (MessageConsumer consumer : consumers) {
                if (((ActiveMQMessageConsumer) consumer).getMessageSize() > 0) {
                    return consumer;
                }
            }
        }
        throw new IllegalStateException("no message came");
    }

    /** As many of several consumers together as are expected, whoever gets them, and what comes beyond that; by the consumer. */
    static List<List<Message>> shared(int count, MessageConsumer... consumers) throws JMSException {
        List<List<Message>> found = new ArrayList<>();
        for (MessageConsumer consumer : consumers) {
            found.add(new ArrayList<>());
        }
        long end = System.currentTimeMillis() + WAIT_MS;
        for (int left = count; left > 0 && System.currentTimeMillis() < end;) {
            for (int place = 0; place < consumers.length; place++) {
                Message message = consumers[place].receive(5);
                if (message != null) {
                    found.get(place).add(message);
                    left--;
                }
            }
        }
        for (int place = 0; place < consumers.length; place++) {
            Message more = consumers[place].receive(SILENCE_MS);
            if (more != null) {
                found.get(place).add(more);
            }
        }
        return found;
    }

    /** A thread has begun to receive, and waits. */
    static void untilReceiving(Thread thread) throws InterruptedException {
        untilIn(thread, "dequeue", true);
    }

    /** The thread in which a listener was called has done what the client does after the call: acknowledged its message, for instance. */
    static void untilListened(Thread thread) throws InterruptedException {
        untilIn(thread, "dispatch", false);
    }

    private static void untilIn(Thread thread, String method, boolean isIn) throws InterruptedException {
        long end = System.currentTimeMillis() + WAIT_MS;
        while (Arrays.stream(thread.getStackTrace()).anyMatch(frame -> frame.getMethodName().equals(method)) != isIn) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException((isIn ? "never in " : "still in ") + method);
            }
            Thread.sleep(5);
        }
    }

    /** How many messages a consumer holds that nobody has received yet, when there are as many as expected or for long no more. */
    static int held(MessageConsumer consumer, int expected) throws InterruptedException {
        long end = System.currentTimeMillis() + WAIT_MS;
        ActiveMQMessageConsumer own = (ActiveMQMessageConsumer) consumer;
        while (own.getMessageSize() < expected && System.currentTimeMillis() < end) {
            Thread.sleep(5);
        }
        Thread.sleep(SILENCE_MS);
        return own.getMessageSize();
    }

    static List<String> texts(MessageConsumer consumer, int count) throws JMSException {
        List<String> texts = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            texts.add(described(next(consumer)));
        }
        Message more = consumer.receive(SILENCE_MS);
        if (more != null) {
            texts.add("more: " + described(more));
        }
        return texts;
    }

    /** The text, with a mark if it was delivered before. */
    static String described(Message message) throws JMSException {
        String text = message instanceof TextMessage ? ((TextMessage) message).getText() : message.getClass().getSimpleName();
        return text + (message.getJMSRedelivered() ? " again " + message.getIntProperty("JMSXDeliveryCount") : "");
    }

    /** What comes, until nothing does while the broker stores and delivers something else: on a busy machine that may take its time. */
    List<Message> all(MessageConsumer consumer) throws JMSException {
        settle();
        List<Message> found = new ArrayList<>();
        for (Message message = one(consumer, FIRST_MS); message != null; message = one(consumer, SILENCE_MS)) {
            found.add(message);
        }
        return found;
    }

    private Message one(MessageConsumer consumer, long wait_ms) throws JMSException {
        Message message = consumer.receive(wait_ms);
        if (message == null) {
            ActiveMQConnection connection = started("jms.watchTopicAdvisories=false");
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(own(".meanwhile"));
            send(session, queue, "meanwhile");
            next(session.createConsumer(queue));
            connection.close();
            message = consumer.receive(SILENCE_MS);
        }
        return message;
    }

    List<String> rest(MessageConsumer consumer) throws JMSException {
        List<String> texts = new ArrayList<>();
        for (Message message : all(consumer)) {
            texts.add(described(message));
        }
        return texts;
    }

    /** What is in the check's queue: everything before a message that is sent just now. */
    List<String> rest(Session session) throws JMSException {
        settle();
        MessageConsumer consumer = session.createConsumer(queue(session));
        send(session, queue(session), "last");
        List<String> texts = new ArrayList<>();
        for (String text = described(next(consumer)); !text.equals("last"); text = described(next(consumer))) {
            texts.add(text);
        }
        consumer.close();
        return texts;
    }

    static Object attempt(Callable<?> action) {
        try {
            return String.valueOf(action.call());
        } catch (Throwable error) {
            return thrown(error);
        }
    }

    interface Action {
        void run() throws Exception;
    }

    static Object outcome(Action action) {
        return attempt(() -> {
            action.run();
            return "done";
        });
    }

    /** What an XAResource answers: its code if it refuses. */
    static Object asked(Callable<?> action) {
        try {
            return String.valueOf(action.call());
        } catch (XAException error) {
            return "XAException " + error.errorCode;
        } catch (Exception error) {
            return thrown(error);
        }
    }

    /** The same of what answers nothing. */
    static Object told(Action action) {
        return asked(() -> {
            action.run();
            return "done";
        });
    }

    /** Numbers as texts, both ends among them. */
    static String[] numbers(int first, int last) {
        String[] found = new String[last - first + 1];
        for (int number = first; number <= last; number++) {
            found[number - first] = String.valueOf(number);
        }
        return found;
    }

    /** The next messages, described. */
    static List<String> some(MessageConsumer consumer, int count) throws JMSException {
        List<String> found = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            found.add(described(next(consumer)));
        }
        return found;
    }

    static String thrown(Throwable error) {
        return "throws " + error.getClass().getName();
    }

    /** A text without the ids of this run. */
    static String anonymous(Object value) {
        return String.valueOf(value).replaceAll("ID:[^\\s,}\\]]+", "ID");
    }

    static Map<String, Object> properties(Message message) throws JMSException {
        Map<String, Object> found = new TreeMap<>();
        for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements();) {
            String property = (String) names.nextElement();
            found.put(property, valued(message.getObjectProperty(property)));
        }
        return found;
    }

    static Object valued(Object value) {
        if (value == null) {
            return null;
        }
        String shown = value instanceof byte[] ? Arrays.toString((byte[]) value) : anonymous(value);
        return value.getClass().getSimpleName() + " " + shown;
    }

    static Object body(Message message) throws JMSException {
        if (message instanceof TextMessage) {
            return ((TextMessage) message).getText();
        }
        if (message instanceof MapMessage) {
            Map<String, Object> found = new TreeMap<>();
            MapMessage map = (MapMessage) message;
            for (Object key : Collections.list(map.getMapNames())) {
                found.put((String) key, valued(map.getObject((String) key)));
            }
            return found;
        }
        if (message instanceof StreamMessage) {
            List<Object> found = new ArrayList<>();
            try {
                while (true) {
                    found.add(valued(((StreamMessage) message).readObject()));
                }
            } catch (javax.jms.MessageEOFException end) {
                return found;
            }
        }
        if (message instanceof BytesMessage) {
            byte[] bytes = new byte[(int) ((BytesMessage) message).getBodyLength()];
            ((BytesMessage) message).readBytes(bytes);
            return Arrays.toString(bytes);
        }
        if (message instanceof javax.jms.ObjectMessage) {
            return valued(((javax.jms.ObjectMessage) message).getObject());
        }
        return "no body";
    }

    static Map<String, Object> headers(Message message) throws JMSException {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("class", message.getClass().getSimpleName());
        found.put("id", String.valueOf(message.getJMSMessageID()).startsWith("ID:"));
        found.put("destination", anonymous(message.getJMSDestination()));
        found.put("mode", message.getJMSDeliveryMode());
        found.put("priority", message.getJMSPriority());
        found.put("has timestamp", message.getJMSTimestamp() > 0);
        found.put("lives ms", message.getJMSExpiration() == 0 ? 0 : message.getJMSExpiration() - message.getJMSTimestamp());
        found.put("correlation", message.getJMSCorrelationID());
        found.put("reply to", anonymous(message.getJMSReplyTo()));
        found.put("type", message.getJMSType());
        found.put("redelivered", message.getJMSRedelivered());
        return found;
    }
}
