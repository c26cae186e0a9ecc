import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.InvalidClientIDException;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.advisory.ConsumerEventSource;
import org.apache.activemq.advisory.ProducerEventSource;
import org.apache.activemq.command.ActiveMQMessage;

/**
 * What test suites of ActiveMQ's client ask for: who of several consumers gets what, what many rollbacks leave in order, what
 * expires where. Prints {name, result}.
 *
 * <pre>
 *   SuiteJudge BROKER_URL [TITLE...]
 * </pre>
 */
public final class SuiteJudge extends Judge {
    private static final String AT_ONCE = "jms.redeliveryPolicy.initialRedeliveryDelay=0";

    private SuiteJudge(String... arguments) {
        super(arguments);
    }

    public static void main(String[] arguments) {
        SuiteJudge judge = new SuiteJudge(arguments);
        judge.sharing();
        judge.browsing();
        judge.groups();
        judge.ordering();
        judge.redelivering();
        judge.expiring();
        judge.topics();
        judge.durables();
        judge.listening();
        judge.temporaries();
    }

    private static Session opened(ActiveMQConnection connection, int mode) throws JMSException {
        return connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
    }

    private Session opened(int mode, String... options) throws JMSException {
        return opened(started(options), mode);
    }

    private static void sendGrouped(Session session, Destination destination, String... groups) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (int number = 0; number < groups.length; number++) {
            String[] parts = groups[number].split("/");
            TextMessage message = session.createTextMessage(groups[number] + " " + number);
            message.setStringProperty("JMSXGroupID", parts[0]);
            if (parts.length > 1) {
                message.setIntProperty("JMSXGroupSeq", Integer.parseInt(parts[1]));
            }
            producer.send(message);
        }
        producer.close();
    }

    private static String grouped(Message message) throws JMSException {
        return described(message) + (message.getBooleanProperty("JMSXGroupFirstForConsumer") ? " first" : "");
    }

    private static List<String> grouped(List<Message> messages) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Message message : messages) {
            found.add(grouped(message));
        }
        return found;
    }

    // -- who of several consumers gets what -----------------------------------------------------------------------------

    private void sharing() {
        check("two consumers that are there share by turns", () -> {
            List<Object> found = new ArrayList<>();
            for (String prefetch : new String[] {"1000", "10", "1"}) {
                Session one = opened(Session.CLIENT_ACKNOWLEDGE, "jms.prefetchPolicy.all=" + prefetch);
                Session two = opened(Session.CLIENT_ACKNOWLEDGE, "jms.prefetchPolicy.all=" + prefetch);
                Queue queue = one.createQueue(own("." + prefetch));
                MessageConsumer first = one.createConsumer(queue);
                MessageConsumer second = two.createConsumer(queue);
                send(one, queue, numbers(1, 24));
                int expected = Math.min(12, Integer.parseInt(prefetch));
                found.add(Arrays.asList(held(first, expected), held(second, expected)));
                found.add(some(first, expected));
                found.add(some(second, expected));
            }
            return found;
        });
        check("who comes first gets what waits", () -> {
            Session sender = session();
            send(sender, queue(sender), numbers(1, 12));
            MessageConsumer first = opened(Session.CLIENT_ACKNOWLEDGE, "jms.prefetchPolicy.all=8").createConsumer(queue(sender));
            int had = held(first, 8);
            MessageConsumer second = opened(Session.CLIENT_ACKNOWLEDGE, "jms.prefetchPolicy.all=8").createConsumer(queue(sender));
            return Arrays.asList(had, held(second, 4), some(first, 8), some(second, 4));
        });
        check("three share, one of them goes", () -> {
            List<Session> sessions = new ArrayList<>();
            List<MessageConsumer> consumers = new ArrayList<>();
            for (int number = 0; number < 3; number++) {
                sessions.add(opened(Session.CLIENT_ACKNOWLEDGE));
                consumers.add(sessions.get(number).createConsumer(queue(sessions.get(number))));
            }
            Session sender = session();
            send(sender, queue(sender), numbers(1, 9));
            List<Object> found = new ArrayList<>();
            for (MessageConsumer consumer : consumers) {
                found.add(held(consumer, 3));
            }
            found.add(some(consumers.get(1), 1));
            sessions.get(1).close();
            List<String> left = new ArrayList<>();
            for (List<Message> some : shared(9, consumers.get(0), consumers.get(2))) {
                for (Message message : some) {
                    left.add(described(message));
                }
            }
            Collections.sort(left);
            found.add(left);
            return found;
        });
        check("consumers of one session share", () -> {
            Session session = opened(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=2");
            MessageConsumer first = session.createConsumer(queue(session));
            MessageConsumer second = session.createConsumer(queue(session));
            MessageConsumer third = session.createConsumer(queue(session));
            send(session, queue(session), numbers(1, 7));
            List<Object> found = new ArrayList<>();
            found.add(Arrays.asList(held(first, 2), held(second, 2), held(third, 2)));
            found.add(some(first, 3));
            found.add(some(second, 2));
            found.add(some(third, 2));
            return found;
        });
        check("prefetch 0, one after the other", () -> {
            List<Object> found = new ArrayList<>();
            for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.SESSION_TRANSACTED}) {
                Session session = opened(mode);
                Queue queue = session.createQueue(own("." + mode));
                Session sender = session();
                send(sender, queue, numbers(1, 8));
                Queue asked = session.createQueue(own("." + mode + "?consumer.prefetchSize=0"));
                MessageConsumer first = session.createConsumer(asked);
                MessageConsumer second = session.createConsumer(asked);
                List<String> got = new ArrayList<>(some(first, 3));
                got.addAll(some(second, 2));
                send(sender, queue, "9");
                got.addAll(some(first, 1));
                got.addAll(some(second, 1));
                if (session.getTransacted()) {
                    session.commit();
                }
                got.addAll(some(second, 1));
                got.addAll(some(first, 1));
                if (session.getTransacted()) {
                    session.commit();
                }
                got.add(String.valueOf(first.receiveNoWait()));
                found.add(got);
            }
            return found;
        });
        check("consumers of all modes take turns", () -> {
            Session sender = session();
            send(sender, queue(sender), numbers(1, 10));
            List<Object> found = new ArrayList<>();
            for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE}) {
                ActiveMQConnection connection = started("jms.prefetchPolicy.all=1");
                Session session = opened(connection, mode);
                MessageConsumer consumer = session.createConsumer(queue(session));
                List<String> got = new ArrayList<>();
                for (int number = 0; number < 2; number++) {
                    Message message = next(consumer);
                    got.add(described(message));
                    if (number == 1) {
                        message.acknowledge();
                    }
                }
                found.add(got);
                connection.close();
            }
            found.add(rest(sender));
            return found;
        });
    }

    private void browsing() {
        check("a browser behind a consumer, looked through again and left", () -> {
            Session session = session();
            MessageConsumer consumer = session.createConsumer(queue(session));
            send(session, queue(session), "1", "2", "3");
            List<Object> found = new ArrayList<>(some(consumer, 1));
            consumer.close();
            QueueBrowser browser = session.createBrowser(queue(session));
            found.add(shown(browser));
            send(session, queue(session), "4");
            found.add(shown(browser));
            Enumeration<?> half = browser.getEnumeration();
            half.nextElement();
            browser.close();
            found.add(outcome(half::hasMoreElements));
            found.add(outcome(browser::getEnumeration));
            found.add(rest(session));
            return found;
        });
        check("a browser beside a consumer that takes everything", () -> {
            Session session = opened(Session.CLIENT_ACKNOWLEDGE, "jms.prefetchPolicy.all=10");
            MessageConsumer consumer = session.createConsumer(queue(session));
            Session other = session();
            send(other, queue(other), numbers(1, 30));
            held(consumer, 10);
            QueueBrowser browser = other.createBrowser(other.createQueue(own("?consumer.prefetchSize=1")));
            Enumeration<?> view = browser.getEnumeration();
            List<Object> found = new ArrayList<>();
            found.add(some(consumer, 30).size());
            int count = 0;
            for (; view.hasMoreElements(); count++) {
                view.nextElement();
            }
            found.add(count);
            return found;
        });
        check("priorities without a policy", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(queue(session));
            for (int priority : new int[] {1, 9, 4, 7, 0, 9}) {
                producer.send(session.createTextMessage("p" + priority), DeliveryMode.PERSISTENT, priority, 0);
            }
            return Arrays.asList(shown(session.createBrowser(queue(session))), some(session.createConsumer(queue(session)), 6));
        });
    }

    private static List<String> shown(QueueBrowser browser) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Enumeration<?> messages = browser.getEnumeration(); messages.hasMoreElements();) {
            found.add(described((Message) messages.nextElement()));
        }
        return found;
    }

    // -- message groups -----------------------------------------------------------------------------------------------------

    private void groups() {
        check("consumers that come later get new groups", () -> {
            Session sender = session();
            MessageConsumer first = session().createConsumer(queue(sender));
            MessageConsumer second = session().createConsumer(queue(sender));
            sendGrouped(sender, queue(sender), "A", "B", "A", "B");
            held(first, 2);
            MessageConsumer third = session().createConsumer(queue(sender));
            sendGrouped(sender, queue(sender), "C", "C", "A", "B", "C");
            List<Object> found = new ArrayList<>();
            for (List<Message> some : shared(9, first, second, third)) {
                found.add(grouped(some));
            }
            return found;
        });
        check("a late consumer of many groups", () -> {
            Session sender = session();
            MessageConsumer first = session().createConsumer(queue(sender));
            sendGrouped(sender, queue(sender), "A", "B", "A", "B");
            held(first, 4);
            MessageConsumer second = session().createConsumer(queue(sender));
            sendGrouped(sender, queue(sender), "C", "A", "D", "C", "E", "D");
            List<Object> found = new ArrayList<>();
            for (List<Message> some : shared(10, first, second)) {
                found.add(grouped(some));
            }
            return found;
        });
        check("groups are closed and begin again", () -> {
            Session sender = session();
            MessageConsumer first = session().createConsumer(queue(sender));
            MessageConsumer second = session().createConsumer(queue(sender));
            sendGrouped(sender, queue(sender), "A/1", "A/2", "A/-1", "A/1", "A/2", "B/1", "B/-1", "B/-1", "B/1", "A/0", "A/1");
            List<Object> found = new ArrayList<>();
            for (List<Message> some : shared(11, first, second)) {
                found.add(grouped(some));
            }
            return found;
        });
        check("groups that waited, prefetch 1, in transactions", () -> {
            Session sender = session();
            List<String> all = new ArrayList<>();
            for (int group = 0; group < 6; group++) {
                for (int number = 1; number <= 6; number++) {
                    all.add("g" + group + "/" + (number % 3 == 0 ? -1 : number));
                }
            }
            sendGrouped(sender, queue(sender), all.toArray(new String[0]));
            Session one = opened(Session.SESSION_TRANSACTED, "jms.prefetchPolicy.all=1");
            Session two = opened(Session.SESSION_TRANSACTED, "jms.prefetchPolicy.all=1");
            MessageConsumer first = one.createConsumer(queue(one));
            MessageConsumer second = two.createConsumer(queue(two));
            Set<String> got = new TreeSet<>();
            int began = 0;
            for (long end = System.currentTimeMillis() + WAIT_MS; got.size() < all.size() && System.currentTimeMillis() < end;) {
                for (MessageConsumer consumer : new MessageConsumer[] {first, second}) {
                    Message message = consumer.receive(20);
                    if (message != null) {
                        began += message.getBooleanProperty("JMSXGroupFirstForConsumer") ? 1 : 0;
                        got.add(((TextMessage) message).getText());
                        (consumer == first ? one : two).commit();
                    }
                }
            }
            return Arrays.asList(got.size(), began);
        });
        check("a group's consumer rolls back and goes", () -> {
            Session one = opened(Session.SESSION_TRANSACTED, AT_ONCE);
            Session two = opened(Session.AUTO_ACKNOWLEDGE);
            MessageConsumer first = one.createConsumer(queue(one));
            sendGrouped(two, queue(two), "A", "A", "B");
            List<Object> found = new ArrayList<>();
            found.add(Arrays.asList(grouped(next(first)), grouped(next(first))));
            MessageConsumer second = two.createConsumer(queue(two));
            one.rollback();
            found.add(Arrays.asList(grouped(next(first)), grouped(next(first)), grouped(next(first))));
            found.add(second.receive(SILENCE_MS) == null);
            one.rollback();
            one.close();
            found.add(Arrays.asList(grouped(next(second)), grouped(next(second)), grouped(next(second))));
            sendGrouped(two, queue(two), "A", "B", "C");
            found.add(Arrays.asList(grouped(next(second)), grouped(next(second)), grouped(next(second))));
            return found;
        });
        check("many groups, and consumers that come and go", () -> {
            Session sender = opened(Session.SESSION_TRANSACTED);
            MessageProducer producer = sender.createProducer(queue(sender));
            int count = 600;
            for (int number = 0; number < count; number++) {
                TextMessage message = sender.createTextMessage("m" + number);
                message.setStringProperty("JMSXGroupID", "g" + number);
                producer.send(message);
            }
            sender.commit();
            ActiveMQConnection connection = started("jms.prefetchPolicy.all=30");
            AtomicInteger consumed = new AtomicInteger();
            int[] shares = new int[4];
            List<Thread> threads = new ArrayList<>();
            for (int number = 0; number < shares.length; number++) {
                Session session = opened(connection, Session.CLIENT_ACKNOWLEDGE);
                int place = number;
                Thread thread = new Thread(() -> outcome(() -> {
                    MessageConsumer consumer = session.createConsumer(queue(session));
                    for (long end = System.currentTimeMillis() + WAIT_MS; consumed.get() < count && System.currentTimeMillis() < end;) {
                        Message message = consumer.receive(200);
                        if (message != null) {
                            message.acknowledge();
                            consumed.incrementAndGet();
                            shares[place]++;
                        }
                        if (message == null || shares[place] % (5 + place) == 0) {
                            consumer.close();
                            consumer = session.createConsumer(queue(session));
                        }
                    }
                }));
                threads.add(thread);
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join(WAIT_MS);
            }
            return consumed.get();
        });
        check("groups and priorities of consumers", () -> {
            Session sender = session();
            MessageConsumer low = sender.createConsumer(sender.createQueue(own("?consumer.priority=1")));
            MessageConsumer high = session().createConsumer(sender.createQueue(own("?consumer.priority=5")));
            sendGrouped(sender, queue(sender), "A", "B", "A", "C", "D", "B");
            List<Object> found = new ArrayList<>();
            for (List<Message> some : shared(6, low, high)) {
                found.add(grouped(some));
            }
            return found;
        });
    }

    // -- the order behind rollbacks -----------------------------------------------------------------------------------------

    private void ordering() {
        check("a listener that rolls back the third", () -> {
            Session session = opened(Session.SESSION_TRANSACTED, AT_ONCE);
            Told told = new Told();
            AtomicInteger count = new AtomicInteger();
            session.createConsumer(queue(session)).setMessageListener(message -> {
                told.add(attempt(() -> described(message)));
                told.add(outcome(count.incrementAndGet() == 3 ? session::rollback : session::commit));
            });
            Session sender = session();
            send(sender, queue(sender), numbers(1, 5));
            return told.all(12);
        });
        check("a listener that rolls back every tenth, without blocking", () -> {
            Session session = opened(Session.SESSION_TRANSACTED, AT_ONCE, "jms.nonBlockingRedelivery=true");
            Told told = new Told();
            AtomicInteger count = new AtomicInteger();
            Session sender = session();
            send(sender, queue(sender), numbers(1, 40));
            session.createConsumer(queue(session)).setMessageListener(message -> outcome(() -> {
                if (count.incrementAndGet() % 10 == 0) {
                    session.rollback();
                } else {
                    told.add(((TextMessage) message).getText());
                    session.commit();
                }
            }));
            List<Object> all = told.all(40);
            session.close();
            List<Object> left = new ArrayList<>(rest(session()));
            return Arrays.asList(all.size(), new HashSet<>(all).size(), left);
        });
        check("all of a hundred are rolled back until they are dead letters", () -> {
            Session session = opened(Session.SESSION_TRANSACTED, AT_ONCE, "jms.redeliveryPolicy.maximumRedeliveries=2",
                "jms.redeliveryPolicy.redeliveryDelay=0");
            Session sender = session();
            int count = 100;
            send(sender, queue(sender), numbers(1, count));
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            for (int round = 0; round < 3; round++) {
                List<String> got = some(consumer, count);
                found.add(got.get(0) + ", " + got.get(count - 1));
                session.rollback();
            }
            found.add(consumer.receive(SILENCE_MS) == null);
            session.commit();
            List<String> letters = new ArrayList<>();
            for (Message letter : letters(sender, count)) {
                letters.add(((TextMessage) letter).getText());
            }
            found.add(letters.equals(Arrays.asList(numbers(1, count))));
            return found;
        });
    }

    // -- redelivery ---------------------------------------------------------------------------------------------------------

    private void redelivering() {
        for (String kind : new String[] {"closed", "broken"}) {
            for (boolean isChecked : new boolean[] {true, false}) {
                check("connection after connection is " + kind + (isChecked ? "" : ", unchecked"), () -> {
                    Session sender = session();
                    send(sender, queue(sender), "1st");
                    List<Object> found = new ArrayList<>();
                    for (int round = 0; round <= 3; round++) {
                        ActiveMQConnection connection = started(AT_ONCE, "jms.redeliveryPolicy.maximumRedeliveries=2",
                            "jms.redeliveryPolicy.preDispatchCheck=" + isChecked);
                        Session session = opened(connection, Session.SESSION_TRANSACTED);
                        MessageConsumer consumer = session.createConsumer(queue(session));
                        Message message = null;
                        if (round == 3 && isChecked) { // the client refuses it while it is asked for a message
                            MessageConsumer dead = sender.createConsumer(sender.createQueue("ActiveMQ.DLQ"));
                            Message letter = null;
                            for (long end = System.currentTimeMillis() + WAIT_MS; message == null && letter == null
                                && System.currentTimeMillis() < end; letter = ours(dead.receive(20))) {
                                message = consumer.receive(20);
                            }
                            found.add(letter == null ? null : anonymous(letter.getStringProperty("dlqDeliveryFailureCause")));
                        } else {
                            message = consumer.receive(round == 3 && kind.equals("closed") ? SILENCE_MS : WAIT_MS);
                        }
                        found.add(message == null ? "nothing" : described(message) + " " + ((ActiveMQMessage) message).getRedeliveryCounter());
                        if (kind.equals("broken")) {
                            connection.getTransport().stop();
                        }
                        outcome(connection::close);
                    }
                    return found;
                });
            }
        }
        for (int mode : new int[] {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT}) {
            check("what was prefetched only, mode " + mode, () -> {
                List<Object> found = new ArrayList<>();
                for (String kind : new String[] {"consumer", "session", "connection", "socket"}) {
                    ActiveMQConnection connection = started();
                    Session session = opened(connection, Session.SESSION_TRANSACTED);
                    Queue queue = session.createQueue(own("." + kind));
                    MessageConsumer consumer = session.createConsumer(queue);
                    Session sender = session();
                    MessageProducer producer = sender.createProducer(queue);
                    producer.setDeliveryMode(mode);
                    producer.send(sender.createTextMessage("1"));
                    producer.send(sender.createTextMessage("2"));
                    held(consumer, 2);
                    switch (kind) {
                        case "consumer":
                            consumer.close();
                            break;
                        case "session":
                            session.close();
                            break;
                        case "connection":
                            connection.close();
                            break;
                        default:
                            connection.getTransport().stop();
                    }
                    found.add(kind + " " + some(sender.createConsumer(queue), 2));
                }
                return found;
            });
        }
        for (int mode : new int[] {Session.CLIENT_ACKNOWLEDGE, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE}) {
            check("a listener that recovers, mode " + mode, () -> {
                Session session = opened(mode, AT_ONCE);
                Session sender = session();
                Told told = new Told();
                AtomicInteger count = new AtomicInteger();
                session.createConsumer(queue(session)).setMessageListener(message -> {
                    told.add(attempt(() -> described(message)));
                    boolean isRecovered = count.incrementAndGet() % 2 == 0 && count.get() < 5;
                    told.add(outcome(isRecovered ? session::recover : message::acknowledge));
                });
                send(sender, queue(sender), numbers(1, 4));
                List<Object> found = told.all(12);
                session.close();
                found.add(rest(sender));
                return found;
            });
        }
        check("a transaction of a wildcard's consumer", () -> {
            Session session = opened(Session.SESSION_TRANSACTED, AT_ONCE, "jms.redeliveryPolicy.maximumRedeliveries=1",
                "jms.redeliveryPolicy.redeliveryDelay=0");
            Session sender = session();
            send(sender, sender.createQueue(own(".a")), "a1", "a2");
            send(sender, sender.createQueue(own(".b")), "b1", "b2");
            MessageConsumer consumer = session.createConsumer(session.createQueue(own(".*")));
            List<Object> found = new ArrayList<>();
            for (int round = 0; round < 2; round++) {
                List<String> got = some(consumer, 4);
                Collections.sort(got);
                found.add(got);
                session.rollback();
            }
            found.add(consumer.receive(SILENCE_MS) == null);
            session.commit();
            found.add(dead(sender, 4));
            return found;
        });
        check("what is received is sent on, and rolled back", () -> {
            Session session = opened(Session.SESSION_TRANSACTED, AT_ONCE);
            Session sender = session();
            send(sender, queue(sender), "1", "2");
            MessageConsumer consumer = session.createConsumer(queue(session));
            Queue out = session.createQueue(own(".out"));
            List<Object> found = new ArrayList<>();
            for (int round = 0; round < 3; round++) {
                Message message = next(consumer);
                found.add(described(message));
                session.createProducer(out).send(message);
                if (round == 1) {
                    session.commit();
                } else {
                    session.rollback();
                }
            }
            session.close();
            found.add(rest(sender));
            Message sent = next(sender.createConsumer(out));
            found.add(described(sent) + " " + properties(sent) + " " + ((ActiveMQMessage) sent).getRedeliveryCounter());
            return found;
        });
        check("who optimises, and what is left behind", () -> {
            List<Object> found = new ArrayList<>();
            for (String end : new String[] {"session", "connection"}) {
                Session sender = session();
                Queue queue = sender.createQueue(own("." + end));
                ActiveMQConnection connection =
                    started("jms.optimizeAcknowledge=true", "jms.optimizeAcknowledgeTimeOut=0", "jms.prefetchPolicy.all=20");
                Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
                MessageConsumer consumer = session.createConsumer(queue);
                send(sender, queue, numbers(1, 25));
                some(consumer, 16);
                if (end.equals("session")) {
                    session.close();
                }
                connection.close();
                send(sender, queue, "last");
                MessageConsumer next = sender.createConsumer(queue);
                List<String> left = new ArrayList<>();
                for (String text = described(next(next)); !text.equals("last"); text = described(next(next))) {
                    left.add(text);
                }
                found.add(left);
            }
            return found;
        });
        check("a listener that throws, and why its messages are dead", () -> {
            List<Object> found = new ArrayList<>();
            for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE}) {
                Session session = opened(mode, AT_ONCE, "jms.redeliveryPolicy.maximumRedeliveries=1", "jms.redeliveryPolicy.redeliveryDelay=0");
                Queue queue = session.createQueue(own("." + mode));
                Session sender = session();
                send(sender, queue, "bad", "good");
                Told told = new Told();
                session.createConsumer(queue).setMessageListener(message -> {
                    told.add(attempt(() -> described(message)));
                    if (String.valueOf(attempt(() -> ((TextMessage) message).getText())).equals("bad")) {
                        throw new IllegalStateException("not this one");
                    }
                });
                found.add(told.all(3));
                Message letter = letter(sender);
                found.add(described(letter) + ": " + anonymous(letter.getStringProperty("dlqDeliveryFailureCause")));
            }
            return found;
        });
    }

    // -- what expires ---------------------------------------------------------------------------------------------------------

    private static void sendFor(Session session, Destination destination, long time_to_live_ms, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        producer.setTimeToLive(time_to_live_ms);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
    }

    /** So many dead letters of this check, whatever others there are. */
    private List<Message> letters(Session session, int count) throws JMSException {
        MessageConsumer consumer = session.createConsumer(session.createQueue("ActiveMQ.DLQ"));
        List<Message> found = new ArrayList<>();
        while (found.size() < count) {
            Message letter = ours(next(consumer));
            if (letter != null) {
                found.add(letter);
            }
        }
        consumer.close();
        return found;
    }

    /** A dead letter if it is one of this check. */
    private Message ours(Message letter) {
        boolean isOurs = letter != null && String.valueOf(((ActiveMQMessage) letter).getOriginalDestination()).contains(own(""));
        return isOurs ? letter : null;
    }

    private Message letter(Session session) throws JMSException {
        return letters(session, 1).get(0);
    }

    private List<String> dead(Session session, int count) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Message letter : letters(session, count)) {
            found.add(((TextMessage) letter).getText());
        }
        Collections.sort(found);
        return found;
    }

    private void expiring() {
        for (int mode : new int[] {Session.CLIENT_ACKNOWLEDGE, Session.SESSION_TRANSACTED, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE}) {
            check("what expires at the consumer, between others, mode " + mode, () -> {
                Session sender = session();
                Session session = opened(mode, "jms.prefetchPolicy.all=400");
                MessageConsumer consumer = session.createConsumer(queue(session));
                for (int number = 1; number <= 5; number++) {
                    sendFor(sender, queue(sender), 500, "short " + number);
                    sendFor(sender, queue(sender), 0, "long " + number);
                }
                held(consumer, 10);
                Thread.sleep(600);
                List<Object> found = new ArrayList<>();
                for (int number = 1; number <= 5; number++) {
                    Message message = next(consumer);
                    found.add(described(message));
                    if (mode == Session.SESSION_TRANSACTED) {
                        if (number == 5) {
                            session.commit();
                        }
                    } else if (number == 5 || mode != Session.CLIENT_ACKNOWLEDGE) {
                        message.acknowledge();
                    }
                }
                found.add(consumer.receiveNoWait() == null);
                session.close();
                found.add(dead(sender, 5));
                found.add(rest(sender));
                return found;
            });
        }
        check("what has expired for who does not look", () -> {
            Session sender = session();
            Session session = opened(Session.CLIENT_ACKNOWLEDGE, "jms.consumerExpiryCheckEnabled=false");
            MessageConsumer consumer = session.createConsumer(queue(session));
            sendFor(sender, queue(sender), 1000, numbers(1, 3));
            held(consumer, 3);
            Thread.sleep(1000);
            List<Object> found = new ArrayList<>(some(consumer, 2));
            Message last = next(consumer);
            found.add(described(last));
            last.acknowledge();
            session.close();
            found.add(rest(sender));
            return found;
        });
        check("a batch expires before and between", () -> {
            Session sender = session();
            Session session = opened(Session.CLIENT_ACKNOWLEDGE, "jms.prefetchPolicy.all=10");
            sendFor(sender, queue(sender), 0, "first");
            sendFor(sender, queue(sender), 600, numbers(1, 20));
            sendFor(sender, queue(sender), 0, "last");
            MessageConsumer consumer = session.createConsumer(queue(session));
            held(consumer, 10);
            Thread.sleep(700);
            List<Object> found = new ArrayList<>();
            for (int number = 0; number < 2; number++) {
                Message message = next(consumer);
                found.add(described(message));
                message.acknowledge();
            }
            found.add(dead(sender, 20).size());
            sendFor(sender, queue(sender), 0, "more");
            found.add(described(next(consumer)));
            return found;
        });
        check("a listener that comes when much has expired", () -> {
            Session sender = session();
            Session session = opened(Session.CLIENT_ACKNOWLEDGE, "jms.prefetchPolicy.all=400");
            MessageConsumer consumer = session.createConsumer(queue(session));
            sendFor(sender, queue(sender), 500, numbers(1, 50));
            sendFor(sender, queue(sender), 0, "last");
            held(consumer, 51);
            Thread.sleep(600);
            Told told = new Told();
            consumer.setMessageListener(message -> {
                told.add(attempt(() -> described(message)));
                outcome(message::acknowledge);
            });
            List<Object> found = new ArrayList<>(told.all(1));
            send(sender, queue(sender), numbers(1, 3));
            found.add(told.all(4));
            found.add(dead(sender, 50).size());
            return found;
        });
        check("expired messages in front of a browser, a puller and a selector", () -> {
            Session sender = session();
            sendFor(sender, queue(sender), 200, numbers(1, 20));
            sendFor(sender, queue(sender), 0, "a", "b");
            Thread.sleep(300);
            List<Object> found = new ArrayList<>();
            QueueBrowser browser = sender.createBrowser(queue(sender));
            List<String> seen = new ArrayList<>();
            for (Enumeration<?> messages = browser.getEnumeration(); messages.hasMoreElements();) {
                seen.add(described((Message) messages.nextElement()));
            }
            browser.close();
            found.add(seen);
            MessageConsumer puller = sender.createConsumer(sender.createQueue(own("?consumer.prefetchSize=0")));
            found.add(described(next(puller)));
            puller.close();
            found.add(described(next(sender.createConsumer(queue(sender), "JMSPriority = 4"))));
            found.add(dead(sender, 20).size());
            return found;
        });
    }

    // -- topics -----------------------------------------------------------------------------------------------------------

    private void topics() {
        for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE,
            ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE, Session.SESSION_TRANSACTED}) {
            check("a topic is pulled, mode " + mode, () -> {
                ActiveMQConnection connection = started();
                Session session = opened(connection, mode);
                Session sender = opened(connection, Session.AUTO_ACKNOWLEDGE);
                Topic asked = session.createTopic(own("?consumer.retroactive=true&consumer.prefetchSize=0"));
                MessageConsumer consumer = session.createConsumer(asked);
                send(sender, topic(sender), numbers(1, 12));
                List<Object> found = new ArrayList<>();
                for (int number = 0; number < 4; number++) {
                    found.add(described(next(consumer)));
                    Message message = consumer.receiveNoWait();
                    found.add(message == null ? "nothing" : described(message));
                    Message last = consumer.receive();
                    found.add(described(last));
                    if (mode == Session.SESSION_TRANSACTED && number % 2 == 0) {
                        session.commit();
                    } else {
                        last.acknowledge();
                    }
                }
                found.add(consumer.receiveNoWait() == null);
                return found;
            });
        }
        check("a pulled durable subscription of which much expires", () -> {
            ActiveMQConnection connection = connection();
            connection.setClientID(own(".client"));
            connection.start();
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            Topic asked = session.createTopic(own("?consumer.prefetchSize=0"));
            for (int number = 0; number < 20; number++) {
                session.createDurableSubscriber(asked, "sub" + number).close();
            }
            sendFor(session, topic(session), 300, numbers(1, 50));
            MessageConsumer consumer = session.createDurableSubscriber(asked, "sub3");
            List<Object> found = new ArrayList<>();
            Thread.sleep(400);
            long begin = System.currentTimeMillis();
            found.add(consumer.receive(300) == null);
            found.add(System.currentTimeMillis() - begin < 5000);
            sendFor(session, topic(session), 0, "lasts");
            found.add(described(next(consumer)));
            for (int number = 0; number < 20; number++) {
                if (number != 3) {
                    session.unsubscribe("sub" + number);
                }
            }
            return found;
        });
        check("offline durable subscribers with selectors", () -> {
            String selector = "$a='A1' AND (($b=true AND $c=true) OR ($d='D1' OR $d='D2'))";
            List<Object> found = new ArrayList<>();
            for (int round = 0; round < 2; round++) {
                for (String client : new String[] {".one", ".two"}) {
                    ActiveMQConnection connection = connection();
                    connection.setClientID(own(client));
                    connection.start();
                    Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
                    MessageConsumer consumer = session.createDurableSubscriber(topic(session), "sub", selector, true);
                    if (round == 1) {
                        found.add(rest(consumer));
                        consumer.close();
                        session.unsubscribe("sub");
                    }
                    connection.close();
                }
                if (round == 0) {
                    Session sender = session();
                    MessageProducer producer = sender.createProducer(null);
                    for (int number = 0; number < 12; number++) {
                        TextMessage message = sender.createTextMessage("m" + number);
                        message.setStringProperty("$a", number < 10 ? "A1" : "A2");
                        message.setStringProperty("$d", "D" + number % 4);
                        if (number % 5 == 0) {
                            message.setBooleanProperty("$b", true);
                            message.setBooleanProperty("$c", number % 2 == 0);
                        }
                        producer.send(topic(sender), message);
                    }
                }
            }
            return found;
        });
        check("subscribe, close, publish, consume, ten times", () -> {
            List<Object> found = new ArrayList<>();
            for (int round = 0; round < 10; round++) {
                ActiveMQConnection connection = connection();
                connection.setClientID(own(".client"));
                connection.start();
                Session session = opened(connection, Session.SESSION_TRANSACTED);
                session.createDurableSubscriber(topic(session), "sub").close();
                send(session, topic(session), "round " + round);
                session.commit();
                session.close();
                session = opened(connection, Session.SESSION_TRANSACTED);
                found.add(described(next(session.createDurableSubscriber(topic(session), "sub"))));
                session.commit();
                connection.close();
            }
            return found;
        });
        check("both with prefetch 1: a durable subscriber and one that is not", () -> {
            ActiveMQConnection connection = connection("jms.prefetchPolicy.all=1");
            connection.setClientID(own(".client"));
            connection.start();
            Session session = opened(connection, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer durable = session.createDurableSubscriber(topic(session), "sub");
            MessageConsumer plain = session.createConsumer(topic(session));
            Session sender = session();
            send(sender, topic(sender), numbers(1, 4));
            List<Object> found = new ArrayList<>();
            Message last = null;
            for (int number = 0; number < 4; number++) {
                found.add(described(next(plain)));
                last = next(durable);
                found.add(described(last));
            }
            found.add(plain.receiveNoWait() == null);
            last.acknowledge();
            send(sender, topic(sender), "5");
            found.add(described(next(plain)));
            found.add(described(next(durable)));
            return found;
        });
    }

    // -- durable subscriptions that are taken up again ----------------------------------------------------------------------

    /** A connection with a client id, as soon as the broker has heard that the last one with it is gone. */
    private ActiveMQConnection named(String suffix, String... options) throws Exception {
        for (long end = System.currentTimeMillis() + WAIT_MS;; Thread.sleep(20)) {
            ActiveMQConnection connection = connection(options);
            try {
                connection.setClientID(own(suffix));
                connection.start();
                return connection;
            } catch (InvalidClientIDException refused) {
                connection.close();
                if (System.currentTimeMillis() > end) {
                    throw refused;
                }
            }
        }
    }

    private void durables() {
        for (int mode : new int[] {Session.CLIENT_ACKNOWLEDGE, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE, Session.SESSION_TRANSACTED}) {
            check("seen, or prefetched only, mode " + mode, () -> {
                List<Object> found = new ArrayList<>();
                for (String end : new String[] {"connection", "socket"}) {
                    ActiveMQConnection connection = named("." + end, AT_ONCE);
                    Session session = opened(connection, mode);
                    MessageConsumer consumer = session.createDurableSubscriber(topic(session), "news");
                    Session sender = session();
                    send(sender, topic(sender), numbers(1, 4));
                    held(consumer, 4);
                    some(consumer, 2);
                    if (end.equals("socket")) {
                        connection.getTransport().stop();
                    }
                    outcome(connection::close);
                    Session again = opened(named("." + end), Session.AUTO_ACKNOWLEDGE);
                    consumer = again.createDurableSubscriber(topic(again), "news");
                    found.add(some(consumer, 4));
                    consumer.close();
                    again.unsubscribe("news");
                }
                return found;
            });
        }
        check("individual acknowledgements with gaps, of a queue and a durable subscription", () -> {
            List<Object> found = new ArrayList<>();
            for (boolean isDurable : new boolean[] {false, true}) {
                ActiveMQConnection connection = named(".client");
                Session session = opened(connection, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
                MessageConsumer consumer = gapped(session, isDurable);
                send(session, isDurable ? topic(session) : queue(session), numbers(1, 10));
                for (int number = 1; number <= 10; number++) {
                    Message message = next(consumer);
                    if (number % 2 == 0) {
                        message.acknowledge();
                    }
                }
                connection.close();
                connection = named(".client");
                session = opened(connection, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
                consumer = gapped(session, isDurable);
                for (int number = 0; number < 5; number++) {
                    Message message = next(consumer);
                    found.add(described(message));
                    message.acknowledge();
                }
                connection.close();
            }
            return found;
        });
        check("a durable subscription beside a queue, of which later messages were seen", () -> {
            ActiveMQConnection connection = named(".client");
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer durable = session.createDurableSubscriber(topic(session), "news");
            MessageConsumer queued = session.createConsumer(queue(session));
            send(session, topic(session), numbers(1, 3));
            send(session, queue(session), "queued");
            held(durable, 3);
            next(queued);
            connection.close();
            session = opened(named(".client"), Session.AUTO_ACKNOWLEDGE);
            return some(session.createDurableSubscriber(topic(session), "news"), 3);
        });
        check("what the client sends itself while it does not listen", () -> {
            List<Object> found = new ArrayList<>();
            for (int round = 0; round < 3; round++) {
                ActiveMQConnection connection = named(".client");
                Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
                MessageConsumer consumer = session.createDurableSubscriber(topic(session), "news", null, true);
                if (round > 0) {
                    found.add(some(consumer, 1));
                }
                send(session, topic(session), "own while it listens");
                consumer.close();
                send(session, topic(session), "own " + round);
                connection.close();
                Session other = session();
                send(other, topic(other), "other's " + round);
            }
            return found;
        });
        check("two durable subscriptions of one session, acknowledged at once", () -> {
            Session session = opened(named(".client"), Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer one = session.createDurableSubscriber(topic(session), "one");
            MessageConsumer two = session.createDurableSubscriber(topic(session), "two");
            send(session, topic(session), numbers(1, 3));
            some(one, 2);
            next(two).acknowledge();
            one.close();
            two.close();
            one = session.createDurableSubscriber(topic(session), "one");
            two = session.createDurableSubscriber(topic(session), "two");
            return Arrays.asList(some(one, 1), some(two, 2));
        });
        check("a session recovers again and again", () -> {
            Session session = opened(named(".client", AT_ONCE), Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer plain = session.createConsumer(topic(session));
            MessageConsumer durable = session.createDurableSubscriber(topic(session), "news");
            send(session, topic(session), numbers(1, 4));
            List<Object> found = new ArrayList<>(Arrays.asList(some(plain, 2), some(durable, 3)));
            session.recover();
            found.addAll(Arrays.asList(some(plain, 3), some(durable, 3)));
            session.recover();
            found.addAll(Arrays.asList(some(plain, 4), some(durable, 4)));
            return found;
        });
    }

    private MessageConsumer gapped(Session session, boolean isDurable) throws JMSException {
        return isDurable ? session.createDurableSubscriber(topic(session), "gaps") : session.createConsumer(queue(session));
    }

    // -- who hears of consumers and producers ---------------------------------------------------------------------------------

    private void listening() {
        check("events of consumers", () -> {
            ActiveMQConnection connection = started();
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            for (Destination destination : new Destination[] {queue(session), topic(session)}) {
                Told told = new Told();
                MessageConsumer before = session.createConsumer(destination);
                ConsumerEventSource source = new ConsumerEventSource(connection, destination);
                source.setConsumerListener(event -> told.add(event.isStarted() + " " + event.getConsumerCount()));
                source.start();
                told.all(1);
                MessageConsumer after = session.createConsumer(destination);
                told.all(2);
                after.close();
                told.all(3);
                before.close();
                told.all(4);
                source.stop();
                session.createConsumer(destination).close();
                source.start();
                MessageConsumer again = session.createConsumer(destination);
                found.add(told.all(5));
                again.close();
                source.stop();
            }
            return found;
        });
        check("events of producers", () -> {
            ActiveMQConnection connection = started();
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            for (Destination destination : new Destination[] {queue(session), topic(session)}) {
                Told told = new Told();
                MessageProducer before = session.createProducer(destination);
                ProducerEventSource source = new ProducerEventSource(connection, destination);
                source.setProducerListener(event -> told.add(event.isStarted() + " " + event.getProducerCount()));
                source.start();
                told.all(1);
                MessageProducer after = session.createProducer(destination);
                told.all(2);
                after.close();
                told.all(3);
                before.close();
                found.add(told.all(4));
                source.stop();
            }
            return found;
        });
        check("events of consumers of a temporary destination, a wildcard and a composite", () -> {
            ActiveMQConnection connection = started();
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            for (Destination destination : new Destination[] {
                session.createTemporaryQueue(), session.createTemporaryTopic(), session.createQueue(own(".*")),
            }) {
                Told told = new Told();
                ConsumerEventSource source = new ConsumerEventSource(connection, destination);
                source.setConsumerListener(event -> told.add(event.isStarted() + " " + event.getConsumerCount()));
                source.start();
                MessageConsumer consumer = session.createConsumer(destination);
                told.all(1);
                consumer.close();
                found.add(told.all(2));
                source.stop();
            }
            return found;
        });
    }

    // -- temporary destinations ---------------------------------------------------------------------------------------------

    private void temporaries() {
        check("a temporary queue under load", () -> {
            Session session = session();
            Queue queue = session.createTemporaryQueue();
            MessageProducer producer = session.createProducer(queue);
            producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            for (int number = 0; number < 500; number++) {
                TextMessage message = session.createTextMessage(String.valueOf(number));
                producer.send(message);
            }
            MessageConsumer consumer = session.createConsumer(queue);
            return some(consumer, 500).equals(Arrays.asList(numbers(0, 499)));
        });
    }
}
