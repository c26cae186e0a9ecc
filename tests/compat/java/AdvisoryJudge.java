import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ConnectionInfo;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.DataStructure;
import org.apache.activemq.command.DestinationInfo;
import org.apache.activemq.command.ProducerInfo;
import org.apache.activemq.command.RemoveInfo;
import org.apache.activemq.command.RemoveSubscriptionInfo;

/**
 * Advisories and answers of the statistics plug-in of one broker. Prints {name, result}.
 *
 * <pre>
 *   AdvisoryJudge BROKER_URL [TITLE...]
 * </pre>
 */
public final class AdvisoryJudge extends Judge {
    private AdvisoryJudge(String... arguments) {
        super(arguments);
    }

    public static void main(String[] arguments) {
        AdvisoryJudge judge = new AdvisoryJudge(arguments);
        judge.advisories();
        judge.policies();
        judge.slowSubscribers();
        judge.slowForSeveral();
        judge.statistics();
    }

    private static MessageConsumer listening(Session session, String topic) throws JMSException {
        return session.createConsumer(session.createTopic("ActiveMQ.Advisory." + topic));
    }

    private static String told(Message message) throws JMSException {
        DataStructure subject = ((ActiveMQMessage) message).getDataStructure();
        StringBuilder found = new StringBuilder(subject == null ? "nothing" : subject.getClass().getSimpleName());
        if (subject instanceof ConsumerInfo) {
            ConsumerInfo info = (ConsumerInfo) subject;
            found.append(' ').append(info.getDestination()).append(' ').append(info.getPrefetchSize());
            found.append(' ').append(info.getSelector()).append(' ').append(info.isExclusive()).append(info.getPriority());
            found.append(' ').append(info.getSubscriptionName()).append(' ').append(info.isNoLocal()).append(info.isRetroactive());
        } else if (subject instanceof RemoveSubscriptionInfo) {
            RemoveSubscriptionInfo info = (RemoveSubscriptionInfo) subject;
            found.append(' ').append(info.getClientId()).append(' ').append(info.getSubscriptionName());
        } else if (subject instanceof ProducerInfo) {
            found.append(' ').append(((ProducerInfo) subject).getDestination());
        } else if (subject instanceof DestinationInfo) {
            DestinationInfo info = (DestinationInfo) subject;
            found.append(' ').append(anonymous(info.getDestination())).append(' ').append(info.getOperationType());
        } else if (subject instanceof ConnectionInfo) {
            ConnectionInfo info = (ConnectionInfo) subject;
            found.append(' ').append(info.getClientId()).append(' ').append(info.getPassword());
        } else if (subject instanceof RemoveInfo) {
            found.append(' ').append(((RemoveInfo) subject).getObjectId().getClass().getSimpleName());
        } else if (subject instanceof Message) {
            found.append(' ').append(body((Message) subject));
        }
        Map<String, Object> properties = properties(message);
        for (String name : new String[] {"originBrokerId", "originBrokerName", "originBrokerURL", "orignalMessageId", "consumerId"}) {
            properties.computeIfPresent(name, (key, value) -> "there");
        }
        return message.getJMSType() + " " + found + " " + properties;
    }

    private static List<String> told(MessageConsumer consumer, int count) throws JMSException {
        List<String> found = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            found.add(told(next(consumer)));
        }
        Message more = consumer.receive(SILENCE_MS);
        if (more != null) {
            found.add("more: " + told(more));
        }
        return found;
    }

    /** Those of many that are about one thing. */
    private static List<String> toldOf(MessageConsumer consumer, String what, int count) throws JMSException {
        List<String> found = new ArrayList<>();
        while (found.size() < count) {
            String one = told(next(consumer));
            if (one.contains(what)) {
                found.add(one);
            }
        }
        return found;
    }

    private void advisories() {
        check("consumers of a queue", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            MessageConsumer listening = listening(session, "Consumer.Queue." + own(""));
            Session other = session();
            MessageConsumer one = other.createConsumer(other.createQueue(own("?consumer.priority=3")), "a = 1");
            found.add(told(listening, 1));
            MessageConsumer two = other.createConsumer(queue(other));
            found.add(told(listening, 1));
            found.add(told(listening(session, "Consumer.Queue." + own("")), 2));
            one.close();
            found.add(told(listening, 1));
            two.close();
            found.add(told(listening, 1));
            return found;
        });
        check("several kinds at once", () -> {
            Session session = session();
            session.createConsumer(session.createQueue(own(".there")));
            List<Object> found = new ArrayList<>();
            for (String kind : new String[] {">", "*", "MasterBroker"}) {
                MessageConsumer listening = listening(session, kind);
                Message first = next(listening);
                found.add(Arrays.asList(String.valueOf(first.getJMSDestination()), told(first), first.getJMSPriority(), first.getJMSTimestamp()));
                session.createConsumer(session.createQueue(own(".new" + found.size())));
                String one = "";
                while (kind.length() == 1 && !one.contains(".new")) {
                    one = told(next(listening));
                    found.addAll(one.contains(".there") ? Arrays.asList(one) : Arrays.asList());
                }
                listening.close();
            }
            MessageConsumer listening = listening(session, "Queue");
            Message first = next(listening);
            found.add(Arrays.asList(first.getJMSPriority(), first.getJMSTimestamp()));
            return found;
        });
        check("browsers of a queue", () -> {
            Session session = session();
            MessageConsumer listening = listening(session, "Consumer.Queue." + own(""));
            Session other = session();
            other.createConsumer(queue(other));
            List<Object> found = new ArrayList<>(told(listening, 1));
            javax.jms.QueueBrowser browser = other.createBrowser(queue(other));
            browser.getEnumeration();
            found.addAll(told(listening, 1));
            browser.close();
            found.addAll(told(listening, 1));
            return found;
        });
        check("consumers of topics", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            MessageConsumer listening = listening(session, "Consumer.Topic." + own(""));
            ActiveMQConnection connection = connection();
            connection.setClientID(own(""));
            connection.start();
            Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer one = other.createConsumer(topic(other));
            found.add(told(listening, 1));
            MessageConsumer durable = other.createDurableSubscriber(topic(other), "news", "a = 1", true);
            found.add(told(listening, 1));
            durable.close();
            found.add(told(listening, 1));
            other.createDurableSubscriber(topic(other), "news", "a = 2", true).close();
            found.add(told(listening, 2));
            other.unsubscribe("news");
            found.add(told(listening, 1));
            MessageConsumer retroactive = other.createConsumer(other.createTopic(own("?consumer.retroactive=true")));
            found.add(told(listening, 1));
            retroactive.close();
            found.add(told(listening, 1));
            connection.close();
            found.add(told(listening, 1));
            return found;
        });
        check("producers", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            MessageConsumer listening = listening(session, "Producer.Queue." + own(""));
            ActiveMQConnection connection = started();
            Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer one = other.createProducer(queue(other));
            found.add(told(listening, 1));
            other.createProducer(queue(other));
            found.add(told(listening, 1));
            found.add(told(listening(session, "Producer.>"), 2).subList(0, 1).toString().contains("ProducerInfo"));
            one.close();
            found.add(told(listening, 1));
            other.close();
            found.add(told(listening, 1));
            Session third = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            third.createProducer(queue(third));
            found.add(told(listening, 1));
            connection.close();
            found.add(told(listening, 1));
            return found;
        });
        check("connections", () -> {
            Session session = session();
            MessageConsumer listening = listening(session, "Connection");
            ActiveMQConnection connection = connection();
            connection.setClientID(own(""));
            connection.start();
            List<String> found = toldOf(listening, own(""), 1);
            MessageConsumer late = listening(session, "Connection");
            found.addAll(toldOf(late, own(""), 1));
            connection.close();
            found.addAll(toldOf(listening, "RemoveInfo", 1));
            return found;
        });
        check("destinations", () -> {
            Session session = session();
            MessageConsumer queues = listening(session, "Queue");
            MessageConsumer topics = listening(session, "Topic");
            Session other = session();
            send(other, queue(other), "x");
            other.createConsumer(topic(other));
            return Arrays.asList(toldOf(queues, own(""), 1), toldOf(topics, own(""), 1),
                toldOf(listening(session, "Queue"), own(""), 1));
        });
        check("temporary destinations", () -> {
            Session session = session();
            MessageConsumer queues = listening(session, "TempQueue");
            Session other = session();
            javax.jms.TemporaryQueue queue = other.createTemporaryQueue();
            List<String> found = told(queues, 1);
            queue.delete();
            found.addAll(told(queues, 1));
            return found;
        });
        check("expired messages and dead letters", () -> {
            Session session = session();
            MessageConsumer expired = listening(session, "Expired.Queue." + own(""));
            MessageConsumer dead = listening(session, "MessageDLQd.Queue." + own(""));
            MessageProducer producer = session.createProducer(queue(session));
            producer.setTimeToLive(50);
            producer.send(session.createTextMessage("gone"));
            Thread.sleep(200);
            MessageConsumer consumer = session.createConsumer(queue(session));
            consumer.receive(SILENCE_MS);
            return Arrays.asList(told(expired, 1), told(dead, 1));
        });
    }

    // -- statistics -----------------------------------------------------------------------------------------------

    private static Map<String, Object> types(MapMessage answer) throws JMSException {
        Map<String, Object> found = new TreeMap<>();
        for (Object key : Collections.list(answer.getMapNames())) {
            Object value = answer.getObject((String) key);
            found.put((String) key, value == null ? "null" : value.getClass().getSimpleName());
            if (key.equals("averageMessageSize") || key.equals("firstMessageTimestamp")) {
                found.put(key + " is known", ((Number) value).longValue() > 0);
            }
        }
        return found;
    }

    private static Map<String, Object> counts(MapMessage answer) throws JMSException {
        Map<String, Object> found = new TreeMap<>();
        for (String key : new String[] {"destinationName", "size", "enqueueCount", "dequeueCount", "expiredCount",
                "inflightCount", "consumerCount", "producerCount"}) {
            found.put(key, String.valueOf(answer.getObject(key)));
        }
        return found;
    }

    // -- what a policy asks for -------------------------------------------------------------------------------------

    private static final String[] ASKED = {"MessageDelivered", "MessageConsumed", "NoConsumer", "SlowConsumer", "MessageDiscarded"};

    /** Listeners to what a policy asks for about one destination. */
    private static List<MessageConsumer> asked(Session session, String name) throws JMSException {
        List<MessageConsumer> found = new ArrayList<>();
        for (String kind : ASKED) {
            found.add(listening(session, kind + "." + name));
        }
        return found;
    }

    private Map<String, Object> told(List<MessageConsumer> listeners) throws JMSException {
        Map<String, Object> found = new TreeMap<>();
        for (int number = 0; number < ASKED.length; number++) {
            List<String> told = new ArrayList<>();
            MessageConsumer listener = listeners.get(number);
            for (Message message : all(listener)) {
                told.add(message.getJMSDestination() + " " + (message instanceof TextMessage ? body(message) : told(message)));
            }
            found.put(ASKED[number], told);
        }
        return found;
    }

    private void policies() {
        check("advisories of a queue that a policy asks for", () -> {
            List<MessageConsumer> listeners = asked(session(), "Queue.ADVISED.Q");
            Session session = session();
            Queue queue = session.createQueue("ADVISED.Q");
            MessageProducer producer = session.createProducer(queue);
            producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            producer.send(session.createTextMessage("not persistent"));
            send(session, queue, "persistent");
            MessageConsumer consumer = session.createConsumer(queue);
            texts(consumer, 2);
            consumer.close();
            Session transacted = started().createSession(true, Session.SESSION_TRANSACTED);
            send(transacted, queue, "in a transaction");
            transacted.commit();
            MessageConsumer other = transacted.createConsumer(queue);
            next(other);
            transacted.rollback();
            next(other);
            transacted.commit();
            return told(listeners);
        });
        check("advisories of a topic that a policy asks for", () -> {
            List<MessageConsumer> listeners = asked(session(), "Topic.ADVISED.T");
            ActiveMQConnection connection = connection();
            connection.setClientID(own(""));
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = session.createTopic("ADVISED.T");
            MessageProducer producer = session.createProducer(topic);
            producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            producer.send(session.createTextMessage("to nobody"));
            MessageConsumer consumer = session.createConsumer(topic);
            send(session, topic, "to somebody");
            texts(consumer, 1);
            consumer.close();
            MessageConsumer durable = session.createDurableSubscriber(topic, "news");
            send(session, topic, "to a durable subscription");
            texts(durable, 1);
            durable.close();
            session.unsubscribe("news");
            return told(listeners);
        });
        check("slow consumers that a policy asks for", () -> {
            List<MessageConsumer> listeners = asked(session(), "Queue.ADVISED.S");
            Session session = started("jms.prefetchPolicy.all=2").createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue queue = session.createQueue("ADVISED.S");
            MessageConsumer consumer = session.createConsumer(queue);
            send(session(), queue, "1", "2", "3", "4", "5", "6");
            Object found = told(listeners).get("SlowConsumer");
            for (int number = 0; number < 6; number++) {
                next(consumer).acknowledge();
            }
            return found;
        });
    }

    private void slowSubscribers() {
        for (String kind : new String[] {"", "durable "}) {
            for (int prefetch : new int[] {1, 4}) {
                check("a " + kind + "subscriber of a topic that does not keep up, prefetch " + prefetch, () -> {
                    ActiveMQConnection connection = connection("jms.prefetchPolicy.all=" + prefetch);
                    connection.setClientID(own(""));
                    connection.start();
                    Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
                    String name = "ADVISED." + own("");
                    MessageConsumer listening = listening(session(), "SlowConsumer.Topic." + name);
                    Topic topic = session.createTopic(kind.isEmpty() ? "ADVISED.>" : name);
                    MessageConsumer consumer = kind.isEmpty() ? session.createConsumer(topic) : session.createDurableSubscriber(topic, "slow");
                    List<Object> found = new ArrayList<>();
                    for (int count : new int[] {prefetch, 1, 2 * prefetch - 1, 1, 3}) {
                        send(session(), session.createTopic(name), new String[count]);
                        found.add(all(listening).size());
                    }
                    for (Message message = consumer.receive(WAIT_MS); message != null; message = consumer.receive(SILENCE_MS)) {
                        message.acknowledge();
                    }
                    found.add(all(listening).isEmpty());
                    send(session(), session.createTopic(name), new String[3 * prefetch]);
                    found.add(all(listening).size());
                    consumer.close();
                    if (!kind.isEmpty()) {
                        session.unsubscribe("slow");
                    }
                    return found;
                });
            }
        }
    }

    private void slowForSeveral() {
        for (String kind : new String[] {"", "durable "}) {
            check("a " + kind + "subscriber of several topics that does not keep up", () -> {
                ActiveMQConnection connection = connection("jms.prefetchPolicy.all=4");
                connection.setClientID(own(""));
                connection.start();
                Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
                String name = "ADVISED." + own("");
                MessageConsumer listening = listening(session(), "SlowConsumer.Topic." + name + ".>");
                Topic topics = session.createTopic(name + ".>");
                MessageConsumer consumer = kind.isEmpty() ? session.createConsumer(topics) : session.createDurableSubscriber(topics, "slow");
                for (int number = 0; number < 20; number++) {
                    send(session(), session.createTopic(name + "." + number % 3), "x");
                }
                Set<String> told = new TreeSet<>();
                for (Message message : all(listening)) {
                    told.add(String.valueOf(message.getJMSDestination()));
                }
                consumer.close();
                if (!kind.isEmpty()) {
                    session.unsubscribe("slow");
                }
                return told;
            });
        }
    }

    private void statistics() {
        check("statistics", () -> {
            Session session = started("jms.prefetchPolicy.all=1").createSession(false, Session.CLIENT_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            Queue replies = session.createTemporaryQueue();
            MessageConsumer consumer = session.createConsumer(replies);
            send(session, session.createQueue(own(".a")), "1", "2", "3", "4");
            send(session, session.createQueue(own(".b")), "1");
            MessageConsumer taking = session.createConsumer(session.createQueue(own(".a")));
            next(taking).acknowledge();
            next(taking);
            session.createProducer(session.createQueue(own(".a")));
            whoHas(taking); // the third, which takes the place of the first
            String[] names = {"Broker", "Destination." + own(".a"), "Destination." + own(".*"), "Destination." + own(".unknown"),
                "Destination." + own(".b") + "ActiveMQ.Statistics.Destination.List.End.With.Null",
                "Destination." + own(".b") + "?Destination.List.End.With.Null",
                "Destination." + own(".a") + "?Destination.Include.First.Message.Timestamp",
                "Destination." + own(".a") + ".unknown?Destination.Include.First.Message.Timestamp,Destination.List.End.With.Null"};
            int[] expected = {1, 1, 2, 0, 2, 2, 1, 1};
            for (int asked = 0; asked < names.length; asked++) {
                String name = names[asked];
                Message question = session.createMessage();
                question.setJMSReplyTo(replies);
                question.setJMSCorrelationID(name);
                String[] parts = name.split("\\?");
                for (String wish : parts.length > 1 ? parts[1].split(",") : new String[0]) {
                    question.setBooleanProperty("ActiveMQ.Statistics." + wish, false);
                }
                MessageProducer producer = session.createProducer(session.createQueue("ActiveMQ.Statistics." + parts[0]));
                producer.send(question);
                producer.close();
                List<Object> answers = new ArrayList<>();
                for (Message answer; (answer = consumer.receive(answers.size() < expected[asked] ? WAIT_MS : SILENCE_MS)) != null;) {
                    MapMessage map = (MapMessage) answer;
                    answer.acknowledge();
                    answers.add(answer.getJMSType() + " " + answer.getJMSCorrelationID().equals(name) + " "
                        + (name.equals("Broker") ? types(map) : map.itemExists("size") ? counts(map) + " " + types(map) : "the end"));
                }
                answers.sort((a, b) -> a.toString().compareTo(b.toString()));
                found.add(answers);
            }
            return found;
        });
        check("a question without reply-to is a message", () -> {
            Session session = session();
            Queue queue = session.createQueue("ActiveMQ.Statistics.Broker");
            send(session, queue, "kept");
            return texts(session.createConsumer(queue), 1);
        });
    }
}
