import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageEOFException;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQMessage;

/**
 * A JMS client for tests; prints one JSON object per message.
 *
 * <pre>
 *   JmsClient BROKER_URL send QUEUE          one message of every type, printed as sent
 *   JmsClient BROKER_URL consume QUEUE N     receive and acknowledge until none came for N milliseconds
 *   JmsClient BROKER_URL browse QUEUE        look without taking
 * </pre>
 *
 * A value is printed as [type, value] with the simple name of its Java class, bytes as hexadecimal digits, floating-point numbers as
 * Java prints them.
 */
public final class JmsClient {
    private static final long ONE_HOUR_MS = 3_600_000;

    private JmsClient() {}

    public static void main(String[] arguments) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(arguments[0]);
        factory.setTrustAllPackages(true);
        Connection connection = factory.createConnection();
        try {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(arguments[2]);
            switch (arguments[1]) {
                case "send":
                    send(session, queue);
                    break;
                case "consume":
                    consume(session, queue, Long.parseLong(arguments[3]));
                    break;
                case "browse":
                    browse(session, queue);
                    break;
                default:
                    throw new IllegalArgumentException(arguments[1]);
            }
        } finally {
            connection.close();
        }
    }

    private static void send(Session session, Queue queue) throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        int number = 0;
        for (Message message : Samples.all(session)) {
            long timeToLiveMs = number % 2 == 0 ? ONE_HOUR_MS : 0;
            producer.send(message, DeliveryMode.PERSISTENT, number % 10, timeToLiveMs);
            if (message instanceof BytesMessage) {
                ((BytesMessage) message).reset();
            } else if (message instanceof StreamMessage) {
                ((StreamMessage) message).reset();
            }
            print(message);
            number++;
        }
    }

    private static void consume(Session session, Queue queue, long idleMs) throws JMSException {
        // The broker is asked for each message, so that the time runs there, and not before it has heard of it.
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue.getQueueName() + "?consumer.prefetchSize=0"));
        for (Message message = consumer.receive(idleMs); message != null; message = consumer.receive(idleMs)) {
            print(message);
        }
    }

    private static void browse(Session session, Queue queue) throws JMSException {
        QueueBrowser browser = session.createBrowser(queue);
        for (Enumeration<?> messages = browser.getEnumeration(); messages.hasMoreElements(); ) {
            print((Message) messages.nextElement());
        }
    }

    private static void print(Message message) throws JMSException {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("headers", headers((ActiveMQMessage) message));
        fields.put("properties", properties(message));
        putBody(fields, message);
        System.out.println(Json.write(fields));
    }

    private static Map<String, Object> headers(ActiveMQMessage message) throws JMSException {
        Map<String, Object> headers = new LinkedHashMap<>();
        headers.put("JMSMessageID", message.getJMSMessageID());
        headers.put("JMSTimestamp", message.getJMSTimestamp());
        headers.put("JMSCorrelationID", message.getJMSCorrelationID());
        headers.put("JMSReplyTo", text(message.getJMSReplyTo()));
        headers.put("JMSDestination", text(message.getJMSDestination()));
        headers.put("JMSDeliveryMode", message.getJMSDeliveryMode());
        headers.put("JMSRedelivered", message.getJMSRedelivered());
        headers.put("JMSType", message.getJMSType());
        headers.put("JMSExpiration", message.getJMSExpiration());
        headers.put("JMSPriority", message.getJMSPriority());
        headers.put("JMSXGroupID", message.getGroupID());
        headers.put("JMSXGroupSeq", message.getGroupSequence());
        headers.put("JMSXUserID", message.getUserID());
        headers.put("redeliveryCounter", message.getRedeliveryCounter());
        headers.put("originalDestination", text(message.getOriginalDestination()));
        headers.put("compressed", message.isCompressed());
        return headers;
    }

    private static Map<String, Object> properties(Message message) throws JMSException {
        Map<String, Object> properties = new TreeMap<>();
        for (Object name : Collections.list(message.getPropertyNames())) {
            properties.put((String) name, typed(message.getObjectProperty((String) name)));
        }
        return properties;
    }

    private static void putBody(Map<String, Object> fields, Message message) throws JMSException {
        if (message instanceof TextMessage) {
            fields.put("type", "text");
            fields.put("body", ((TextMessage) message).getText());
        } else if (message instanceof BytesMessage) {
            BytesMessage bytes = (BytesMessage) message;
            byte[] content = new byte[Math.toIntExact(bytes.getBodyLength())];
            bytes.readBytes(content);
            fields.put("type", "bytes");
            fields.put("body", hex(content));
        } else if (message instanceof MapMessage) {
            MapMessage map = (MapMessage) message;
            Map<String, Object> body = new TreeMap<>();
            for (Object name : Collections.list(map.getMapNames())) {
                body.put((String) name, typed(map.getObject((String) name)));
            }
            fields.put("type", "map");
            fields.put("body", body);
        } else if (message instanceof StreamMessage) {
            fields.put("type", "stream");
            fields.put("body", items((StreamMessage) message));
        } else if (message instanceof ObjectMessage) {
            fields.put("type", "object");
            fields.put("body", typed(((ObjectMessage) message).getObject()));
        } else {
            fields.put("type", "message");
        }
    }

    private static List<Object> items(StreamMessage message) throws JMSException {
        List<Object> items = new ArrayList<>();
        while (true) {
            try {
                items.add(typed(message.readObject()));
            } catch (MessageEOFException end) {
                return items;
            }
        }
    }

    private static List<Object> typed(Object value) {
        List<Object> pair = new ArrayList<>();
        if (value == null) {
            pair.add("null");
            pair.add(null);
        } else if (value instanceof Map) {
            Map<String, Object> map = new TreeMap<>();
            ((Map<?, ?>) value).forEach((name, item) -> map.put(name.toString(), typed(item)));
            pair.add("Map");
            pair.add(map);
        } else if (value instanceof List) {
            List<Object> list = new ArrayList<>();
            ((List<?>) value).forEach(item -> list.add(typed(item)));
            pair.add("List");
            pair.add(list);
        } else if (value instanceof byte[]) {
            pair.add("bytes");
            pair.add(hex((byte[]) value));
        } else if (value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            pair.add(value.getClass().getSimpleName());
            pair.add(value);
        } else if (value instanceof Byte || value instanceof Short) {
            pair.add(value.getClass().getSimpleName());
            pair.add(((Number) value).intValue());
        } else {
            pair.add(value.getClass().getSimpleName());
            pair.add(value.toString());
        }
        return pair;
    }

    private static String text(Object value) {
        return value == null ? null : value.toString();
    }

    private static String hex(byte[] bytes) {
        StringBuilder digits = new StringBuilder(2 * bytes.length);
        for (byte b : bytes) {
            digits.append(String.format("%02x", b));
        }
        return digits.toString();
    }
}
