import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ScheduledMessage;
import org.apache.activemq.command.ActiveMQMessage;

/**
 * What becomes of messages that are to be sent later, and of orders to the scheduler. Prints {name, result}.
 *
 * <pre>
 *   SchedulerJudge BROKER_URL [TITLE...]
 * </pre>
 */
public final class SchedulerJudge extends Judge {
    private static final String DELAY = ScheduledMessage.AMQ_SCHEDULED_DELAY;
    private static final String PERIOD = ScheduledMessage.AMQ_SCHEDULED_PERIOD;
    private static final String REPEAT = ScheduledMessage.AMQ_SCHEDULED_REPEAT;
    private static final String CRON = ScheduledMessage.AMQ_SCHEDULED_CRON;
    private static final String ACTION = ScheduledMessage.AMQ_SCHEDULER_ACTION;
    private static final String START = ScheduledMessage.AMQ_SCHEDULER_ACTION_START_TIME;
    private static final String END = ScheduledMessage.AMQ_SCHEDULER_ACTION_END_TIME;
    private static final long LATER_MS = 600_000;

    private SchedulerJudge(String... arguments) {
        super(arguments);
    }

    public static void main(String[] arguments) {
        SchedulerJudge judge = new SchedulerJudge(arguments);
        judge.sending();
        judge.managing();
    }

    /** Sends a text with properties: names and values by turns. */
    private static Message sent(Session session, Destination destination, String text, Object... properties) throws JMSException {
        TextMessage message = session.createTextMessage(text);
        for (int place = 0; place < properties.length; place += 2) {
            message.setObjectProperty((String) properties[place], properties[place + 1]);
        }
        MessageProducer producer = session.createProducer(destination);
        producer.send(message);
        producer.close();
        return message;
    }

    private static Map<String, Object> described(Message sent, Message message) throws JMSException {
        Map<String, Object> found = new TreeMap<>(headers(message));
        Map<String, Object> properties = properties(message);
        properties.computeIfPresent("scheduledJobId", (name, value) -> "an id");
        found.put("properties", properties);
        found.put("text", ((TextMessage) message).getText());
        found.put("same id", sent.getJMSMessageID().equals(message.getJMSMessageID()));
        found.put("same timestamp", sent.getJMSTimestamp() == message.getJMSTimestamp());
        found.put("original destination", String.valueOf(((ActiveMQMessage) message).getOriginalDestination()));
        return found;
    }

    private void sending() {
        for (int mode : new int[] {DeliveryMode.NON_PERSISTENT, DeliveryMode.PERSISTENT}) {
            check("delayed, mode " + mode, () -> {
                Session session = session();
                TextMessage message = session.createTextMessage("later");
                message.setLongProperty(DELAY, 300);
                message.setStringProperty("name", "value");
                message.setJMSReplyTo(session.createQueue(own(".reply")));
                message.setJMSType("typed");
                MessageProducer producer = session.createProducer(queue(session));
                producer.setDeliveryMode(mode);
                producer.setPriority(7);
                producer.setTimeToLive(mode == DeliveryMode.PERSISTENT ? 60_000 : 0);
                long begin = System.currentTimeMillis();
                producer.send(message);
                MessageConsumer consumer = session.createConsumer(queue(session));
                Message got = next(consumer);
                Map<String, Object> found = described(message, got);
                found.put("late enough", System.currentTimeMillis() - begin >= 300);
                Object lives = found.get("lives ms");
                found.put("lives ms", lives instanceof Long && (Long) lives > 0);
                return found;
            });
        }
        check("again and again", () -> {
            Session session = session();
            Message message = sent(session, queue(session), "again", DELAY, 100L, PERIOD, 100L, REPEAT, 3);
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            TreeSet<String> ids = new TreeSet<>();
            for (int number = 0; number < 4; number++) {
                Message got = next(consumer);
                ids.add(got.getJMSMessageID());
                found.add(described(message, got));
            }
            found.add(ids.size());
            found.add(consumer.receive(400) == null);
            return found;
        });
        check("a part of the properties, of all kinds", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            Object[][] all = {
                {PERIOD, 100L}, {PERIOD, 100L, REPEAT, 1}, {DELAY, "100"}, {DELAY, 100}, {DELAY, 0L}, {DELAY, -5L},
                {DELAY, 100L, PERIOD, "100", REPEAT, "1"}, {DELAY, 100L, "scheduledJobId", "x"}, {DELAY, (short) 100},
            };
            for (Object[] properties : all) {
                Destination queue = session.createQueue(own("." + found.size()));
                Object told = outcome(() -> sent(session, queue, "x", properties));
                MessageConsumer consumer = session.createConsumer(queue);
                Thread.sleep(500);
                List<Object> got = new ArrayList<>();
                for (Message message : all(consumer)) {
                    got.add(new TreeSet<>(properties(message).keySet()));
                }
                found.add(Arrays.toString(properties) + " " + told + " " + got);
            }
            return found;
        });
        check("in transactions", () -> {
            Session session = started().createSession(true, Session.SESSION_TRANSACTED);
            Session other = session();
            MessageConsumer consumer = other.createConsumer(queue(other));
            sent(session, queue(session), "rolled back", DELAY, 50L);
            session.rollback();
            sent(session, queue(session), "committed", DELAY, 200L);
            sent(session, queue(session), "at once");
            List<Object> found = new ArrayList<>();
            found.add(consumer.receive(400) == null);
            session.commit();
            found.add(((TextMessage) next(consumer)).getText());
            found.add(((TextMessage) next(consumer)).getText());
            found.add(consumer.receive(300) == null);
            return found;
        });
        check("to destinations of all kinds", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            for (Destination destination : new Destination[] {
                topic(session), session.createTemporaryQueue(), session.createTemporaryTopic(),
            }) {
                MessageConsumer consumer = session.createConsumer(destination);
                Message message = sent(session, destination, "x", DELAY, 100L);
                found.add(described(message, next(consumer)));
            }
            MessageConsumer first = session.createConsumer(session.createQueue(own(".a")));
            MessageConsumer second = session.createConsumer(session.createQueue(own(".b")));
            Message message = sent(session, session.createQueue(own(".a") + "," + own(".b")), "x", DELAY, 100L);
            found.add(described(message, next(first)));
            found.add(described(message, next(second)));
            return found;
        });
        check("what was delayed is sent on", () -> {
            Session session = session();
            sent(session, queue(session), "x", DELAY, 100L);
            Message got = next(session.createConsumer(queue(session)));
            session.createProducer(session.createQueue(own(".on"))).send(got);
            List<Object> found = new ArrayList<>();
            Message on = next(session.createConsumer(session.createQueue(own(".on"))));
            found.add(properties(on).keySet());
            TextMessage fresh = session.createTextMessage("y");
            fresh.setLongProperty(DELAY, 100);
            MessageProducer producer = session.createProducer(session.createQueue(own(".fresh")));
            producer.send(fresh);
            producer.send(fresh);
            MessageConsumer consumer = session.createConsumer(session.createQueue(own(".fresh")));
            found.add(((TextMessage) next(consumer)).getText());
            found.add(((TextMessage) next(consumer)).getText());
            return found;
        });
        check("cron that is none", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            for (String cron : new String[] {"", "x", "* * * *", "* * * * * *", "*/0 * * * *", "1-5 * * * *"}) {
                found.add(cron + ": " + outcome(() -> sent(session, queue(session), "x", CRON, cron)));
            }
            found.add(outcome(() -> sent(session, queue(session), "x", DELAY, "soon")));
            order(session, "REMOVEALL", null);
            return found;
        });
    }

    // -- orders -----------------------------------------------------------------------------------------------------------

    private static void order(Session session, String action, Destination replyTo, Object... properties) throws JMSException {
        Message order = session.createMessage();
        if (action != null) {
            order.setStringProperty(ACTION, action);
        }
        for (int place = 0; place < properties.length; place += 2) {
            order.setObjectProperty((String) properties[place], properties[place + 1]);
        }
        order.setJMSReplyTo(replyTo);
        MessageProducer producer = session.createProducer(session.createTopic(ScheduledMessage.AMQ_SCHEDULER_MANAGEMENT_DESTINATION));
        producer.send(order);
        producer.close();
    }

    /** The texts that a browse shows. */
    private List<String> shown(Session session, Object... properties) throws JMSException {
        Destination replies = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(replies);
        order(session, "BROWSE", replies, properties);
        List<String> found = new ArrayList<>();
        for (Message message : all(consumer)) {
            found.add(((TextMessage) message).getText());
        }
        consumer.close();
        return found;
    }

    private void managing() {
        check("browsing", () -> {
            Session session = session();
            order(session, "REMOVEALL", null);
            Message first = sent(session, queue(session), "1", DELAY, LATER_MS, "name", "value");
            sent(session, queue(session), "2", DELAY, 2 * LATER_MS, PERIOD, 1000L, REPEAT, 5);
            sent(session, queue(session), "3", DELAY, LATER_MS / 2);
            sent(session, queue(session), "4", CRON, "0 0 1 1 *");
            Destination replies = session.createTemporaryQueue();
            MessageConsumer consumer = session.createConsumer(replies);
            order(session, "BROWSE", replies);
            List<Object> found = new ArrayList<>();
            for (int number = 0; number < 4; number++) {
                Map<String, Object> one = described(first, next(consumer));
                one.remove("same timestamp");
                found.add(one);
            }
            Collections.sort(found, (one, other) -> String.valueOf(((Map<?, ?>) one).get("text")).compareTo(
                String.valueOf(((Map<?, ?>) other).get("text"))));
            found.add(shown(session));
            order(session, "REMOVEALL", null);
            found.add(shown(session));
            return found;
        });
        check("spans of time", () -> {
            Session session = session();
            order(session, "REMOVEALL", null);
            for (int number = 1; number <= 4; number++) {
                sent(session, queue(session), "m" + number, DELAY, number * LATER_MS);
            }
            long now = System.currentTimeMillis();
            long begin = now + LATER_MS * 3 / 2;
            long end = now + LATER_MS * 7 / 2;
            List<Object> found = new ArrayList<>();
            found.add(shown(session, START, begin, END, end));
            found.add(shown(session, START, Long.toString(begin), END, Long.toString(end)));
            found.add(shown(session, START, end, END, begin));
            order(session, "REMOVEALL", null, START, Long.toString(begin), END, Long.toString(begin + LATER_MS));
            found.add(shown(session));
            order(session, "REMOVEALL", null, START, begin, END, end);
            found.add(shown(session));
            order(session, "REMOVEALL", null, ScheduledMessage.AMQ_SCHEDULED_ID, "ID:nobody");
            found.add(shown(session));
            return found;
        });
        check("one after the other is removed", () -> {
            Session session = session();
            order(session, "REMOVEALL", null);
            for (int number = 1; number <= 3; number++) {
                sent(session, queue(session), "m" + number, DELAY, number * LATER_MS);
            }
            Destination replies = session.createTemporaryTopic();
            MessageConsumer consumer = session.createConsumer(replies);
            order(session, "BROWSE", replies);
            List<Object> found = new ArrayList<>();
            for (int number = 0; number < 3; number++) {
                Message message = next(consumer);
                found.add(((TextMessage) message).getText());
                order(session, "REMOVE", null, ScheduledMessage.AMQ_SCHEDULED_ID,
                    message.getStringProperty(ScheduledMessage.AMQ_SCHEDULED_ID));
                found.add(shown(session));
            }
            return found;
        });
        check("browsing with a selector, into queues and topics", () -> {
            Session session = session();
            order(session, "REMOVEALL", null);
            for (int number = 1; number <= 3; number++) {
                sent(session, queue(session), "m" + number, DELAY, number * LATER_MS);
            }
            List<Object> found = new ArrayList<>();
            for (Destination replies : new Destination[] {
                session.createTemporaryTopic(), session.createTemporaryQueue(), session.createQueue(own(".browse")),
                session.createTopic(own(".browse")),
            }) {
                MessageConsumer consumer = session.createConsumer(replies, DELAY + " = " + 2 * LATER_MS);
                order(session, "BROWSE", replies);
                Message message = next(consumer);
                found.add(((TextMessage) message).getText() + " " + properties(message).keySet() + " " + message.getJMSDeliveryMode());
                found.add(consumer.receive(SILENCE_MS) == null);
            }
            order(session, "REMOVEALL", null);
            return found;
        });
        check("an order in a transaction", () -> {
            Session session = session();
            order(session, "REMOVEALL", null);
            sent(session, queue(session), "kept", DELAY, LATER_MS);
            Session ordering = started().createSession(true, Session.SESSION_TRANSACTED);
            List<Object> found = new ArrayList<>();
            found.add(outcome(() -> order(ordering, "REMOVEALL", null)));
            found.add(outcome(ordering::commit));
            found.add(shown(session));
            order(session, "REMOVEALL", null);
            return found;
        });
    }
}
