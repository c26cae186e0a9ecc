import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;

/**
 * The load of a JMS program, on any broker of OpenWire.
 *
 * <p>Arguments: URL, then scenarios, each SCENARIO:CLIENTS:MESSAGES (of each client). Prints for each a line with the rate and
 * percentiles of the time of a send, a commit, a receive or a request. "idle" waits for a line on standard input.
 */
public final class JmsLoad {
    private static final int BODY_BYTES = 1024;
    private static final int BATCH = 100;
    private static final long TIMEOUT_MS = 60_000;

    private final String url;

    private JmsLoad(String url) {
        this.url = url;
    }

    public static void main(String[] arguments) throws Exception {
        JmsLoad load = new JmsLoad(arguments[0]);
        for (String argument : Arrays.asList(arguments).subList(1, arguments.length)) {
            String[] parts = argument.split(":");
            load.run(parts[0], Integer.parseInt(parts[1]), Integer.parseInt(parts[2]));
        }
        System.exit(0);
    }

    private void run(String name, int clients, int messages) throws Exception {
        if (name.equals("idle")) {
            idle(clients);
            return;
        }
        if (name.startsWith("receive")) {
            fill(clients * messages);
        }
        List<Callable<long[]>> work = new ArrayList<>();
        for (int client = 0; client < clients; client++) {
            work.add(() -> client(name, messages));
        }
        ExecutorService pool = Executors.newFixedThreadPool(clients);
        long began = System.nanoTime();
        List<long[]> took = new ArrayList<>();
        for (Future<long[]> future : pool.invokeAll(work)) {
            took.add(future.get());
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        pool.shutdown();
        long[] all = took.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        System.out.printf("%s clients=%d rate=%.0f/s p50=%.3fms p99=%.3fms max=%.3fms%n", name, clients,
            clients * messages / seconds, at(all, 0.50), at(all, 0.99), at(all, 1.0));
    }

    private static double at(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, share * sorted.length)] / 1e6;
    }

    private Connection connect() throws Exception {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        connection.start();
        return connection;
    }

    private long[] client(String name, int messages) throws Exception {
        if (name.equals("connect-send-close")) {
            return connectSendClose(messages);
        }
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        factory.setUseAsyncSend(name.equals("send-async"));
        Connection connection = factory.createConnection();
        try {
            connection.start();
            switch (name) {
                case "send":
                case "send-async":
                    return send(connection, messages);
                case "send-transacted":
                    return sendTransacted(connection, messages);
                case "receive-auto":
                    return receive(connection, Session.AUTO_ACKNOWLEDGE, messages);
                case "receive-client":
                    return receive(connection, Session.CLIENT_ACKNOWLEDGE, messages);
                case "receive-dups-ok":
                    return receive(connection, Session.DUPS_OK_ACKNOWLEDGE, messages);
                case "receive-individual":
                    return receive(connection, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE, messages);
                case "receive-transacted":
                    return receive(connection, Session.SESSION_TRANSACTED, messages);
                case "request-reply":
                    return request(connection, messages);
                default:
                    throw new IllegalArgumentException(name);
            }
        } finally {
            connection.close();
        }
    }

    private static BytesMessage message(Session session) throws Exception {
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(new byte[BODY_BYTES]);
        return message;
    }

    private static long[] send(Connection connection, int messages) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("LOAD.SEND"));
        long[] took = new long[messages];
        for (int number = 0; number < messages; number++) {
            long began = System.nanoTime();
            producer.send(message(session));
            took[number] = System.nanoTime() - began;
        }
        return took;
    }

    private static long[] sendTransacted(Connection connection, int messages) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue("LOAD.SEND"));
        long[] took = new long[messages / BATCH];
        for (int batch = 0; batch < took.length; batch++) {
            long began = System.nanoTime();
            for (int number = 0; number < BATCH; number++) {
                producer.send(message(session));
            }
            session.commit();
            took[batch] = System.nanoTime() - began;
        }
        return took;
    }

    private void fill(int messages) throws Exception {
        Connection connection = connect();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue("LOAD.RECEIVE"));
        for (int number = 1; number <= messages; number++) {
            producer.send(message(session));
            if (number % 500 == 0 || number == messages) {
                session.commit();
            }
        }
        connection.close();
    }

    private static long[] receive(Connection connection, int mode, int messages) throws Exception {
        boolean isTransacted = mode == Session.SESSION_TRANSACTED;
        Session session = connection.createSession(isTransacted, mode);
        // What one client prefetches is not there for the others: 16 of them share the queue.
        MessageConsumer consumer = session.createConsumer(session.createQueue("LOAD.RECEIVE?consumer.prefetchSize=100"));
        long[] took = new long[messages];
        for (int number = 0; number < messages; number++) {
            long began = System.nanoTime();
            Message message = consumer.receive(TIMEOUT_MS);
            if (message == null) {
                throw new IllegalStateException("no message after " + TIMEOUT_MS + " ms, had " + number);
            }
            boolean isBatch = (number + 1) % BATCH == 0 || number + 1 == messages;
            if (isTransacted && isBatch) {
                session.commit();
            } else if (mode == ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE || mode == Session.CLIENT_ACKNOWLEDGE && isBatch) {
                message.acknowledge();
            }
            took[number] = System.nanoTime() - began;
        }
        return took;
    }

    private long[] request(Connection connection, int messages) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue requests = session.createQueue("LOAD.REQUESTS");
        Connection other = connect();
        Session serving = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer replies = serving.createProducer(null);
        replies.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        serving.createConsumer(requests).setMessageListener(request -> {
            try {
                replies.send(request.getJMSReplyTo(), message(serving));
            } catch (Exception error) {
                error.printStackTrace();
            }
        });
        Destination temporary = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(temporary);
        MessageProducer producer = session.createProducer(requests);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        long[] took = new long[messages];
        for (int number = 0; number < messages; number++) {
            long began = System.nanoTime();
            Message request = message(session);
            request.setJMSReplyTo(temporary);
            producer.send(request);
            if (consumer.receive(TIMEOUT_MS) == null) {
                throw new IllegalStateException("no reply after " + TIMEOUT_MS + " ms");
            }
            took[number] = System.nanoTime() - began;
        }
        other.close();
        return took;
    }

    /** As Spring's JmsTemplate without a pool: all of it for each message. */
    private long[] connectSendClose(int messages) throws Exception {
        long[] took = new long[messages];
        for (int number = 0; number < messages; number++) {
            long began = System.nanoTime();
            Connection connection = new ActiveMQConnectionFactory(url).createConnection();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createProducer(session.createQueue("LOAD.SEND")).send(message(session));
            connection.close();
            took[number] = System.nanoTime() - began;
        }
        return took;
    }

    private void idle(int clients) throws Exception {
        List<Connection> all = new ArrayList<>();
        for (int number = 0; number < clients; number++) {
            Connection connection = connect();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createConsumer(session.createQueue("LOAD.IDLE." + number));
            all.add(connection);
        }
        System.out.printf("idle clients=%d%n", clients);
        System.in.read();
        for (Connection connection : all) {
            connection.close();
        }
    }
}
