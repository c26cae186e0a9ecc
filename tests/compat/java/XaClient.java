import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.command.ActiveMQDestination;

/**
 * A JMS client that takes part in distributed transactions.
 *
 * <pre>
 *   XaClient BROKER_URL CLIENT prepare FORMAT:GLOBAL:BRANCH WORK...   do it in a transaction and prepare that
 *   XaClient BROKER_URL CLIENT once FORMAT:GLOBAL:BRANCH WORK...      do it and commit in one phase
 *   XaClient BROKER_URL CLIENT recover                                print the transactions in doubt
 *   XaClient BROKER_URL CLIENT commit FORMAT:GLOBAL:BRANCH            second phase
 *   XaClient BROKER_URL CLIENT rollback FORMAT:GLOBAL:BRANCH          second phase
 *
 *   WORK is  send DESTINATION FIRST COUNT      text messages with the property number, priority number % 10
 *            large DESTINATION NUMBER LENGTH   one such message whose text is so long
 *            receive QUEUE COUNT               prints the numbers received
 *            consume TOPIC NAME COUNT          from a durable subscription; prints the numbers
 * </pre>
 *
 * GLOBAL and BRANCH are hexadecimal digits. A CLIENT of "-" is none.
 */
public final class XaClient {
    private static final long WAIT_MS = 30_000;

    private XaClient() {}

    public static void main(String[] arguments) throws Exception {
        ActiveMQXAConnectionFactory factory = new ActiveMQXAConnectionFactory(arguments[0]);
        factory.getPrefetchPolicy().setAll(1);
        XAConnection connection = factory.createXAConnection();
        try {
            if (!arguments[1].equals("-")) {
                connection.setClientID(arguments[1]);
            }
            connection.start();
            XASession session = connection.createXASession();
            run(session, arguments[2], Arrays.copyOfRange(arguments, 3, arguments.length));
        } finally {
            connection.close();
        }
    }

    private static void run(XASession session, String command, String[] arguments) throws Exception {
        XAResource resource = session.getXAResource();
        switch (command) {
            case "prepare":
                work(session, resource, new Id(arguments[0]), arguments);
                if (resource.prepare(new Id(arguments[0])) != XAResource.XA_OK) {
                    throw new IllegalStateException("there was nothing to prepare");
                }
                break;
            case "once":
                work(session, resource, new Id(arguments[0]), arguments);
                resource.commit(new Id(arguments[0]), true);
                break;
            case "recover":
                for (Xid found : resource.recover(XAResource.TMSTARTRSCAN)) {
                    print("xid", new Id(found).text());
                }
                break;
            case "commit":
                resource.commit(recovered(resource, arguments[0]), false);
                break;
            case "rollback":
                resource.rollback(recovered(resource, arguments[0]));
                break;
            default:
                throw new IllegalArgumentException(command);
        }
    }

    private static Xid recovered(XAResource resource, String text) throws XAException {
        for (Xid found : resource.recover(XAResource.TMSTARTRSCAN)) {
            if (new Id(found).text().equals(text)) {
                return found;
            }
        }
        throw new IllegalStateException("not in doubt: " + text);
    }

    private static void work(XASession session, XAResource resource, Xid xid, String[] arguments) throws Exception {
        resource.start(xid, XAResource.TMNOFLAGS);
        int next = 1;
        while (next < arguments.length) {
            switch (arguments[next]) {
                case "send":
                    int first = number(arguments, next + 2);
                    send(session, destination(arguments[next + 1]), first, number(arguments, next + 3), "message ");
                    next += 4;
                    break;
                case "large":
                    String text = "x".repeat(number(arguments, next + 3));
                    send(session, destination(arguments[next + 1]), number(arguments, next + 2), 1, text);
                    next += 4;
                    break;
                case "receive":
                    receive(session.createConsumer(destination(arguments[next + 1])), number(arguments, next + 2));
                    next += 3;
                    break;
                case "consume":
                    Topic topic = (Topic) destination(arguments[next + 1]);
                    receive(session.createDurableSubscriber(topic, arguments[next + 2]), number(arguments, next + 3));
                    next += 4;
                    break;
                default:
                    throw new IllegalArgumentException(arguments[next]);
            }
        }
        resource.end(xid, XAResource.TMSUCCESS);
    }

    private static Destination destination(String name) {
        return ActiveMQDestination.createDestination(name, ActiveMQDestination.QUEUE_TYPE);
    }

    private static int number(String[] arguments, int place) {
        return Integer.parseInt(arguments[place]);
    }

    private static void send(XASession session, Destination destination, int first, int count, String text)
            throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (int number = first; number < first + count; number++) {
            TextMessage message = session.createTextMessage(text + number);
            message.setIntProperty("number", number);
            producer.send(message, DeliveryMode.PERSISTENT, number % 10, 0);
        }
    }

    private static void receive(MessageConsumer consumer, int count) throws JMSException {
        for (int received = 0; received < count; received++) {
            Message message = consumer.receive(WAIT_MS);
            if (message == null) {
                throw new IllegalStateException("only " + received + " messages came");
            }
            print("number", message.getIntProperty("number"));
        }
    }

    private static void print(String name, Object value) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put(name, value);
        System.out.println(Json.write(fields));
    }

    /** A transaction id as FORMAT:GLOBAL:BRANCH. */
    private static final class Id implements Xid {
        private final int format;
        private final byte[] global;
        private final byte[] branch;

        Id(String text) {
            String[] parts = text.split(":", -1);
            format = Integer.parseInt(parts[0]);
            global = bytes(parts[1]);
            branch = bytes(parts[2]);
        }

        Id(Xid other) {
            format = other.getFormatId();
            global = other.getGlobalTransactionId();
            branch = other.getBranchQualifier();
        }

        String text() {
            return format + ":" + digits(global) + ":" + digits(branch);
        }

        @Override
        public int getFormatId() {
            return format;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return global;
        }

        @Override
        public byte[] getBranchQualifier() {
            return branch;
        }

        private static byte[] bytes(String digits) {
            byte[] bytes = new byte[digits.length() / 2];
            for (int place = 0; place < bytes.length; place++) {
                bytes[place] = (byte) Integer.parseInt(digits.substring(2 * place, 2 * place + 2), 16);
            }
            return bytes;
        }

        private static String digits(byte[] bytes) {
            StringBuilder out = new StringBuilder();
            for (byte one : bytes) {
                out.append(String.format("%02x", one & 0xff));
            }
            return out.toString();
        }
    }
}
