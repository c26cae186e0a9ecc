import bitronix.tm.BitronixTransactionManager;
import bitronix.tm.TransactionManagerServices;
import bitronix.tm.resource.ehcache.EhCacheXAResourceProducer;
import bitronix.tm.resource.jms.PoolingConnectionFactory;
import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnectionFactory;

/**
 * Bitronix, a transaction manager, with one broker. Prints {name, result}.
 *
 * <pre>
 *   TransactionManager BROKER_URL FOLDER work      transactions of one phase and of two, the last of which ends this machine
 *   TransactionManager BROKER_URL FOLDER recover   what is there when the transaction manager has recovered what was left
 * </pre>
 */
public final class TransactionManager {
    private static final long WAIT_MS = 30_000;
    private static final long SILENCE_MS = 300;
    private static final String QUEUE = "MANAGED";

    private final String url;
    private final BitronixTransactionManager manager;
    private final PoolingConnectionFactory pool;
    private final PoolingConnectionFactory other;
    private final Second second = new Second();

    private TransactionManager(String url, File folder) {
        this.url = url;
        TransactionManagerServices.getConfiguration()
                .setServerId("compared")
                .setLogPart1Filename(new File(folder, "1.tlog").getPath())
                .setLogPart2Filename(new File(folder, "2.tlog").getPath());
        EhCacheXAResourceProducer.registerXAResource("second", second);
        pool = pool("one", url);
        other = pool("other", url);
        manager = TransactionManagerServices.getTransactionManager(); // recovers
    }

    public static void main(String[] arguments) throws Exception {
        TransactionManager program = new TransactionManager(arguments[0], new File(arguments[1]));
        if (arguments[2].equals("work")) {
            program.work();
        } else {
            tell("recovered", program.rest());
        }
        program.manager.shutdown();
        System.exit(0);
    }

    private static PoolingConnectionFactory pool(String name, String url) {
        PoolingConnectionFactory pool = new PoolingConnectionFactory();
        pool.setClassName(ActiveMQXAConnectionFactory.class.getName());
        pool.setUniqueName(name);
        pool.setMaxPoolSize(5);
        pool.getDriverProperties().setProperty("brokerURL", url);
        pool.init();
        return pool;
    }

    private static void tell(String name, Object result) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("name", name);
        line.put("result", result);
        System.out.println(Json.write(line));
    }

    private void work() throws Exception {
        manager.begin();
        send(pool, "one phase");
        manager.commit();
        tell("one phase", rest());

        manager.begin();
        send(pool, "rolled back");
        manager.rollback();
        tell("rolled back", rest());

        manager.begin();
        send(pool, "one");
        send(other, "two");
        manager.commit();
        tell("two connections", new ArrayList<>(new TreeSet<>(rest())));

        List<Object> moved = new ArrayList<>();
        manager.begin();
        send(pool, "in");
        manager.commit();
        for (boolean commits : new boolean[] {false, true}) {
            manager.begin();
            moved.add(move());
            if (commits) {
                manager.commit();
            } else {
                manager.rollback();
            }
        }
        tell("moved", Arrays.asList(moved, rest()));

        manager.begin();
        manager.getTransaction().enlistResource(second);
        send(pool, "two phases");
        manager.commit();
        tell("two phases", rest());

        second.endsMachine = true;
        manager.begin();
        manager.getTransaction().enlistResource(second);
        send(pool, "decided");
        manager.commit();
    }

    private static void send(PoolingConnectionFactory pool, String text) throws JMSException {
        Connection connection = pool.createConnection();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue(QUEUE));
        producer.send(session.createTextMessage(text));
        connection.close();
    }

    /** Receive a message and send it again; whether it had been delivered before. */
    private boolean move() throws JMSException {
        Connection connection = pool.createConnection();
        connection.start();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(QUEUE);
        MessageConsumer consumer = session.createConsumer(queue);
        Message message = consumer.receive(WAIT_MS);
        session.createProducer(queue).send(session.createTextMessage(((TextMessage) message).getText() + " and out"));
        consumer.close();
        connection.close();
        return message.getJMSRedelivered();
    }

    /** What is in the queue: everything before a message that is sent just now. */
    private List<String> rest() throws JMSException {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(QUEUE);
        session.createProducer(queue).send(session.createTextMessage("last"));
        MessageConsumer consumer = session.createConsumer(queue);
        List<String> texts = new ArrayList<>();
        for (Message next = consumer.receive(WAIT_MS); next != null; next = consumer.receive(SILENCE_MS)) {
            texts.add(((TextMessage) next).getText());
        }
        texts.remove("last");
        connection.close();
        return texts;
    }

    /** A second participant, without which there would be one phase. It may end the machine while the manager commits. */
    private static final class Second implements XAResource {
        private boolean endsMachine;

        @Override
        public int prepare(Xid xid) {
            return XA_OK;
        }

        @Override
        public void commit(Xid xid, boolean onePhase) {
            if (endsMachine) {
                Runtime.getRuntime().halt(9);
            }
        }

        @Override
        public Xid[] recover(int flags) {
            return new Xid[0];
        }

        @Override
        public boolean isSameRM(XAResource resource) {
            return resource == this;
        }

        @Override
        public int getTransactionTimeout() {
            return 0;
        }

        @Override
        public boolean setTransactionTimeout(int seconds) {
            return true;
        }

        @Override
        public void start(Xid xid, int flags) {}

        @Override
        public void end(Xid xid, int flags) {}

        @Override
        public void forget(Xid xid) {}

        @Override
        public void rollback(Xid xid) {}
    }
}
