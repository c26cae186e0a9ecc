import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.RedeliveryPolicy;

/**
 * Does several things at a broker in one go; prints one JSON object per message that it is done with, and an empty one after each command.
 *
 * <pre>
 *   InterchangeClient BROKER_URL COMMAND [/ COMMAND]...
 *
 *   send DESTINATION FIRST COUNT TTL_MS       text messages with properties and headers that follow from their numbers
 *   receive QUEUE COUNT                       and acknowledge each
 *   drain QUEUE COUNT                         all there are, which are so many
 *   commit FROM COUNT TO FIRST COUNT          receive and send in one transaction
 *   rollback FROM COUNT TO FIRST COUNT        the same, in vain
 *   poison QUEUE                              receive a message and roll back until it is taken away
 *   subscribe TOPIC CLIENT NAME SELECTOR      create a durable subscription, or find it
 *   news TOPIC CLIENT NAME SELECTOR COUNT     receive so many of a durable subscription and acknowledge each
 *   old TOPIC CLIENT NAME SELECTOR COUNT      all there are, which are so many
 *   ask                                       a request and its reply, by way of temporary queues
 * </pre>
 */
public final class InterchangeClient {
    private static final String[] COLOURS = {"red", "green", "blue"};
    private static final long WAIT_MS = 30_000;
    private static final long IDLE_MS = 1_500;

    private final ActiveMQConnectionFactory factory;

    private InterchangeClient(String url) {
        factory = new ActiveMQConnectionFactory(url);
        factory.setOptimizeAcknowledge(false);
        factory.getPrefetchPolicy().setAll(1);
        RedeliveryPolicy policy = new RedeliveryPolicy();
        policy.setMaximumRedeliveries(RedeliveryPolicy.NO_MAXIMUM_REDELIVERIES);
        policy.setInitialRedeliveryDelay(0);
        policy.setRedeliveryDelay(0);
        factory.setRedeliveryPolicy(policy);
    }

    public static void main(String[] arguments) throws Exception {
        InterchangeClient client = new InterchangeClient(arguments[0]);
        int begin = 1;
        for (int place = 1; place <= arguments.length; place++) {
            if (place == arguments.length || arguments[place].equals("/")) {
                client.run(Arrays.asList(arguments).subList(begin, place));
                System.out.println("{}");
                begin = place + 1;
            }
        }
    }

    private void run(List<String> command) throws Exception {
        boolean isDurable = Arrays.asList("subscribe", "news", "old").contains(command.get(0));
        boolean isTransacted = Arrays.asList("commit", "rollback", "poison").contains(command.get(0));
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        try {
            if (command.get(0).equals("poison")) {
                connection.getRedeliveryPolicy().setMaximumRedeliveries(1);
            }
            if (isDurable) {
                connection.setClientID(command.get(2));
            }
            connection.start();
            int mode = isTransacted ? Session.SESSION_TRANSACTED : ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE;
            run(connection.createSession(isTransacted, mode), command);
        } finally {
            connection.close();
        }
    }

    private void run(Session session, List<String> command) throws Exception {
        switch (command.get(0)) {
            case "send":
                send(session, destination(session, command.get(1)), number(command, 2), number(command, 3), number(command, 4));
                break;
            case "receive":
                receive(session.createConsumer(destination(session, command.get(1))), number(command, 2), false);
                break;
            case "drain":
                receive(session.createConsumer(destination(session, command.get(1))), number(command, 2), true);
                break;
            case "commit":
            case "rollback":
                transact(session, command);
                break;
            case "poison":
                poison(session, session.createQueue(command.get(1)));
                break;
            case "subscribe":
                subscriber(session, command).close();
                break;
            case "news":
                receive(subscriber(session, command), number(command, 5), false);
                break;
            case "old":
                receive(subscriber(session, command), number(command, 5), true);
                break;
            case "ask":
                ask(session);
                break;
            default:
                throw new IllegalArgumentException(command.get(0));
        }
    }

    private static int number(List<String> command, int place) {
        return Integer.parseInt(command.get(place));
    }

    private static Destination destination(Session session, String name) throws JMSException {
        return name.startsWith("topic:") ? session.createTopic(name.substring(6)) : session.createQueue(name);
    }

    private static void send(Session session, Destination target, int first, int count, long ttlMs) throws JMSException {
        MessageProducer producer = session.createProducer(target);
        for (int number = first; number < first + count; number++) {
            TextMessage message = session.createTextMessage("message " + number + " \u00e9\u4e16");
            message.setIntProperty("number", number);
            message.setStringProperty("colour", COLOURS[number % COLOURS.length]);
            message.setJMSCorrelationID("c" + number);
            message.setJMSType("type" + number % 4);
            message.setJMSReplyTo(session.createQueue("REPLIES." + number % 2));
            producer.send(message, DeliveryMode.PERSISTENT, number % 10, ttlMs);
        }
    }

    /** So many, and more if there are and nothing is to be left. */
    private static void receive(MessageConsumer consumer, int count, boolean isAll) throws JMSException {
        for (int received = 0; isAll || received < count; received++) {
            Message message = consumer.receive(received < count ? WAIT_MS : IDLE_MS);
            if (message == null && received >= count) {
                break;
            }
            if (message == null) {
                throw new IllegalStateException(received + " of " + count + " messages came");
            }
            message.acknowledge();
            print(message);
        }
        consumer.close();
    }

    private static void transact(Session session, List<String> command) throws JMSException {
        MessageConsumer consumer = session.createConsumer(session.createQueue(command.get(1)));
        boolean isCommit = command.get(0).equals("commit");
        for (int received = 0; received < number(command, 2); received++) {
            Message message = consumer.receive(WAIT_MS);
            if (message == null) {
                throw new IllegalStateException(received + " messages came");
            }
            if (isCommit) {
                print(message);
            }
        }
        send(session, session.createQueue(command.get(3)), number(command, 4), number(command, 5), 0);
        if (isCommit) {
            session.commit();
        } else {
            session.rollback();
        }
    }

    private static void poison(Session session, Queue queue) throws JMSException {
        MessageConsumer consumer = session.createConsumer(queue);
        String id = null;
        for (int delivered = 0; delivered < 2; delivered++) {
            Message message = consumer.receive(WAIT_MS);
            if (message == null || (id != null && !message.getJMSMessageID().equals(id))) {
                throw new IllegalStateException("not the message that was rolled back");
            }
            id = message.getJMSMessageID();
            session.rollback();
        }
        if (consumer.receive(IDLE_MS) != null) {
            throw new IllegalStateException("it is still there");
        }
    }

    private static MessageConsumer subscriber(Session session, List<String> command) throws JMSException {
        Topic topic = session.createTopic(command.get(1));
        String selector = command.get(4).isEmpty() ? null : command.get(4);
        return session.createDurableSubscriber(topic, command.get(3), selector, false);
    }

    private static void ask(Session session) throws JMSException {
        TemporaryQueue requests = session.createTemporaryQueue();
        TemporaryQueue replies = session.createTemporaryQueue();
        TextMessage request = session.createTextMessage("what?");
        request.setJMSReplyTo(replies);
        session.createProducer(requests).send(request);
        Message asked = session.createConsumer(requests).receive(WAIT_MS);
        asked.acknowledge();
        session.createProducer(asked.getJMSReplyTo()).send(session.createTextMessage("that"));
        Message answer = session.createConsumer(replies).receive(WAIT_MS);
        answer.acknowledge();
        if (!((TextMessage) answer).getText().equals("that")) {
            throw new IllegalStateException("another answer");
        }
    }

    private static void print(Message message) throws JMSException {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("number", message.getObjectProperty("number").toString());
        fields.put("colour", message.getStringProperty("colour"));
        fields.put("body", ((TextMessage) message).getText());
        fields.put("correlation", message.getJMSCorrelationID());
        fields.put("type", message.getJMSType());
        fields.put("reply_to", message.getJMSReplyTo().toString());
        fields.put("priority", message.getJMSPriority());
        fields.put("persistent", message.getJMSDeliveryMode() == DeliveryMode.PERSISTENT);
        System.out.println(Json.write(fields));
    }
}
