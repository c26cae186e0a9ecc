import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.TopicSubscriber;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;

/**
 * A JMS client for tests of durable subscriptions; prints one JSON object per message received.
 *
 * <pre>
 *   DurableClient BROKER_URL publish TOPIC FIRST COUNT          text messages; number and colour are properties, priority number % 10
 *   DurableClient BROKER_URL subscribe TOPIC CLIENT NAME SELECTOR           create the subscription, or find it
 *   DurableClient BROKER_URL consume TOPIC CLIENT NAME SELECTOR COUNT MS    receive and acknowledge so many, one after the other; all if 0
 *   DurableClient BROKER_URL unsubscribe TOPIC CLIENT NAME
 * </pre>
 *
 * A selector of "-" is none. Consuming ends when no message came for so many milliseconds.
 */
public final class DurableClient {
    /** How long a message that comes is waited for: on a busy machine it may take its time. */
    private static final long WAIT_MS = 30_000;
    private static final String[] COLOURS = {"red", "green", "blue"};

    private DurableClient() {}

    public static void main(String[] arguments) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(arguments[0]);
        // Acknowledge each message by itself, and do not take more than is asked for.
        factory.setOptimizeAcknowledge(false);
        factory.getPrefetchPolicy().setAll(1);
        Connection connection = factory.createConnection();
        try {
            if (!arguments[1].equals("publish")) {
                connection.setClientID(arguments[3]);
            }
            connection.start();
            run(connection, arguments);
        } finally {
            connection.close();
        }
    }

    private static void run(Connection connection, String[] arguments) throws JMSException {
        Session session = connection.createSession(false, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
        boolean isAll = arguments[1].equals("consume") && arguments[6].equals("0");
        // The broker is asked for each message then, so that the time runs there, and not before it has heard of it.
        Topic topic = session.createTopic(isAll ? arguments[2] + "?consumer.prefetchSize=0" : arguments[2]);
        switch (arguments[1]) {
            case "publish":
                publish(session, topic, Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
                break;
            case "subscribe":
                subscriber(session, topic, arguments).close();
                break;
            case "consume":
                consume(subscriber(session, topic, arguments), Integer.parseInt(arguments[6]), Long.parseLong(arguments[7]));
                break;
            case "unsubscribe":
                session.unsubscribe(arguments[4]);
                break;
            default:
                throw new IllegalArgumentException(arguments[1]);
        }
    }

    private static void publish(Session session, Topic topic, int first, int count) throws JMSException {
        MessageProducer producer = session.createProducer(topic);
        for (int number = first; number < first + count; number++) {
            TextMessage message = session.createTextMessage("message " + number);
            message.setIntProperty("number", number);
            message.setStringProperty("colour", COLOURS[number % COLOURS.length]);
            producer.send(message, DeliveryMode.PERSISTENT, number % 10, 0);
        }
    }

    private static TopicSubscriber subscriber(Session session, Topic topic, String[] arguments) throws JMSException {
        String selector = arguments[5].equals("-") ? null : arguments[5];
        return session.createDurableSubscriber(topic, arguments[4], selector, false);
    }

    private static void consume(MessageConsumer consumer, int count, long idleMs) throws JMSException {
        List<Message> received = new ArrayList<>();
        while (count == 0 || received.size() < count) {
            Message message = consumer.receive(count == 0 ? idleMs : WAIT_MS);
            if (message == null) {
                break;
            }
            message.acknowledge();
            received.add(message);
            print(message);
        }
        consumer.close();
    }

    private static void print(Message message) throws JMSException {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("number", message.getIntProperty("number"));
        fields.put("colour", message.getStringProperty("colour"));
        fields.put("priority", message.getJMSPriority());
        fields.put("id", message.getJMSMessageID());
        System.out.println(Json.write(fields));
    }
}
