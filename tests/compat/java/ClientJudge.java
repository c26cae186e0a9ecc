import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQMessageProducer;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.ActiveMQXAConnection;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.RedeliveryPolicy;
import org.apache.activemq.ScheduledMessage;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQQueue;

/**
 * What ActiveMQ's client asks of a broker beyond JMS, and JMS where it is least used. Prints {name, result}.
 *
 * <pre>
 *   ClientJudge BROKER_URL [TITLE...]
 * </pre>
 */
public final class ClientJudge extends Judge {
    private final String url;

    private ClientJudge(String... arguments) {
        super(arguments);
        url = arguments[0];
    }

    public static void main(String[] arguments) {
        ClientJudge judge = new ClientJudge(arguments);
        judge.pulling();
        judge.prefetching();
        judge.exclusive();
        judge.redelivery();
        judge.acknowledging();
        judge.browsing();
        judge.temporaries();
        judge.durables();
        judge.recovering();
        judge.sending();
        judge.destinations();
        judge.ending();
        judge.distributed();
        judge.crowds();
    }

    /** What is received without a wait for more than one answer of the broker. */
    private static List<String> now(MessageConsumer consumer) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Message message = consumer.receiveNoWait(); message != null; message = consumer.receiveNoWait()) {
            found.add(described(message));
        }
        return found;
    }

    /** Whether a destination is among those that the client knows of, as soon as that is as expected. */
    private static boolean isThere(Set<?> known, Destination destination, boolean isExpected) throws InterruptedException {
        for (long end = System.currentTimeMillis() + WAIT_MS; known.contains(destination) != isExpected; Thread.sleep(5)) {
            if (System.currentTimeMillis() > end) {
                return !isExpected;
            }
        }
        return isExpected;
    }

    private static String[] numbered(String prefix, int count) {
        String[] found = new String[count];
        for (int number = 0; number < count; number++) {
            found[number] = prefix + number;
        }
        return found;
    }

    private Queue options(Session session, String options) throws JMSException {
        return session.createQueue(own("") + "?" + options);
    }

    private Session session(int mode, String... options) throws JMSException {
        return started(options).createSession(mode == Session.SESSION_TRANSACTED, mode);
    }

    // -- consumers that ask for each message -----------------------------------------------------------------------

    private void pulling() {
        check("two that pull share a queue", () -> {
            Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=0");
            MessageConsumer one = session.createConsumer(queue(session));
            MessageConsumer other = session.createConsumer(queue(session));
            send(session, queue(session), "1", "2", "3", "4");
            return Arrays.asList(described(next(one)), described(next(other)), described(next(one)), now(other), now(one));
        });
        check("what is pulled and rolled back comes again", () -> {
            ActiveMQConnection connection = started("jms.prefetchPolicy.all=0");
            connection.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            send(session, queue(session), "1", "2");
            session.commit();
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            found.add(described(next(consumer)));
            session.rollback();
            found.add(described(next(consumer)));
            found.add(described(next(consumer)));
            session.commit();
            found.add(consumer.receiveNoWait() == null);
            return found;
        });
        check("who pulls with a listener", () -> {
            Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=0");
            MessageConsumer consumer = session.createConsumer(queue(session));
            return outcome(() -> consumer.setMessageListener(message -> { }));
        });
        check("pulling with selectors, from composites and from topics", () -> {
            Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=0");
            List<Object> found = new ArrayList<>();
            MessageConsumer selecting = session.createConsumer(queue(session), "JMSType = 'b'");
            for (String type : new String[] {"a", "b", "a", "b"}) {
                TextMessage message = session.createTextMessage(type);
                message.setJMSType(type);
                session.createProducer(queue(session)).send(message);
            }
            found.add(Arrays.asList(described(next(selecting)), described(next(selecting)), selecting.receive(SILENCE_MS) == null));
            MessageConsumer topic = session.createConsumer(topic(session));
            send(session, topic(session), "t1", "t2");
            found.add(Arrays.asList(described(next(topic)), described(next(topic)), topic.receive(SILENCE_MS) == null));
            return found;
        });
        check("a pull that waits is closed", () -> {
            Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=0");
            return closedWhileReceiving(session, queue(session));
        });
        check("messages expire before they are pulled", () -> {
            Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=0");
            MessageConsumer consumer = session.createConsumer(queue(session));
            MessageProducer producer = session.createProducer(queue(session));
            producer.setTimeToLive(40);
            producer.send(session.createTextMessage("gone"));
            Thread.sleep(150);
            return Arrays.asList(consumer.receiveNoWait() == null, consumer.receive(SILENCE_MS) == null);
        });
    }

    private Object closedWhileReceiving(Session session, Destination destination) throws Exception {
        MessageConsumer consumer = session.createConsumer(destination);
        AtomicReference<Object> got = new AtomicReference<>("still waiting");
        Thread waiting = new Thread(() -> got.set(attempt(() -> consumer.receive(WAIT_MS))));
        waiting.start();
        untilReceiving(waiting);
        consumer.close();
        waiting.join(WAIT_MS / 2);
        return got.get();
    }

    // -- prefetch ---------------------------------------------------------------------------------------------------

    private void prefetching() {
        check("prefetch 1 leaves the rest to others", () -> {
            Session slow = session(Session.CLIENT_ACKNOWLEDGE, "jms.prefetchPolicy.all=1");
            MessageConsumer first = slow.createConsumer(queue(slow));
            Session session = session();
            send(session, queue(session), "1", "2", "3", "4");
            List<Object> found = new ArrayList<>();
            found.add(described(next(first)));
            MessageConsumer second = session.createConsumer(queue(session));
            found.add(described(next(second)));
            slow.close();
            return found.size();
        });
        check("a transaction holds more than the prefetch", () -> {
            Session session = session(Session.SESSION_TRANSACTED, "jms.prefetchPolicy.all=5",
                "jms.redeliveryPolicy.initialRedeliveryDelay=0");
            send(session, queue(session), numbered("m", 60));
            session.commit();
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<String> found = texts(consumer, 60);
            session.rollback();
            int again = texts(consumer, 60).size();
            session.commit();
            session.close();
            return Arrays.asList(found.equals(Arrays.asList(numbered("m", 60))), again, rest(session()));
        });
        check("a prefetch that a destination's name says", () -> {
            Session holding = session(Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer held = holding.createConsumer(options(holding, "consumer.prefetchSize=2"));
            Session session = session();
            send(session, queue(session), "1", "2", "3", "4");
            described(next(held));
            String got = described(next(session.createConsumer(queue(session))));
            return got.equals("1") ? got : "behind it";
        });
        check("closing while receiving", () -> closedWhileReceiving(session(), queue(session())));
        check("a listener is set when messages are there, and taken away", () -> {
            Session session = session();
            send(session, queue(session), "1", "2");
            MessageConsumer consumer = session.createConsumer(queue(session));
            CountDownLatch heard = new CountDownLatch(2);
            List<String> texts = Collections.synchronizedList(new ArrayList<>());
            consumer.setMessageListener(message -> {
                texts.add(String.valueOf(attempt(() -> described(message))));
                heard.countDown();
            });
            boolean both = heard.await(WAIT_MS, TimeUnit.MILLISECONDS);
            consumer.setMessageListener(null);
            Session other = session();
            send(other, queue(other), "3");
            return Arrays.asList(both, texts, described(next(consumer)));
        });
        check("optimised acknowledgements are all there at the end", () -> {
            Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.optimizeAcknowledge=true", "jms.prefetchPolicy.all=20");
            MessageConsumer consumer = session.createConsumer(queue(session));
            Session sender = session();
            send(sender, queue(sender), numbered("m", 55));
            List<String> got = texts(consumer, 55);
            session.close();
            return Arrays.asList(got.size(), rest(session()));
        });
    }

    // -- exclusive consumers and groups -------------------------------------------------------------------------------

    private void exclusive() {
        check("an exclusive consumer that comes later", () -> {
            Session session = session();
            MessageConsumer plain = session.createConsumer(queue(session));
            Session other = session();
            MessageConsumer alone = other.createConsumer(options(other, "consumer.exclusive=true"));
            send(session, queue(session), "1", "2", "3");
            List<Object> found = new ArrayList<>();
            found.add(texts(alone, 3));
            found.add(now(plain));
            alone.close();
            send(session, queue(session), "4");
            found.add(texts(plain, 1));
            return found;
        });
        check("exclusive consumers by priority", () -> {
            Session session = session();
            MessageConsumer low = session.createConsumer(options(session, "consumer.exclusive=true&consumer.priority=1"));
            MessageConsumer high = session.createConsumer(options(session, "consumer.exclusive=true&consumer.priority=9"));
            MessageConsumer middle = session.createConsumer(options(session, "consumer.exclusive=true&consumer.priority=5"));
            send(session, queue(session), "1", "2");
            List<Object> found = new ArrayList<>(texts(high, 2));
            high.close();
            send(session, queue(session), "3");
            found.addAll(texts(middle, 1));
            found.add(now(low));
            return found;
        });
        check("a group goes on with another consumer", () -> {
            Session one = session(Session.CLIENT_ACKNOWLEDGE);
            Session two = session();
            MessageConsumer first = one.createConsumer(queue(one));
            MessageConsumer second = two.createConsumer(queue(two));
            MessageProducer producer = two.createProducer(queue(two));
            for (int number = 1; number <= 4; number++) {
                TextMessage message = two.createTextMessage("m" + number);
                message.setStringProperty("JMSXGroupID", "g");
                message.setIntProperty("JMSXGroupSeq", number);
                producer.send(message);
            }
            boolean isFirst = whoHas(first, second) == first;
            Message got = isFirst ? next(first) : null;
            List<Object> found = new ArrayList<>();
            if (isFirst) {
                found.add(described(got) + " " + properties(got));
                one.close();
                for (int number = 0; number < 4; number++) {
                    Message again = next(second);
                    found.add(((TextMessage) again).getText() + " " + properties(again));
                }
            } else {
                found.add("the second one");
            }
            return found;
        });
        check("a selector and a group", () -> {
            Session session = session();
            MessageConsumer red = session.createConsumer(queue(session), "colour = 'red'");
            MessageConsumer blue = session.createConsumer(queue(session), "colour = 'blue'");
            MessageProducer producer = session.createProducer(queue(session));
            for (String colour : new String[] {"red", "blue", "red"}) {
                TextMessage message = session.createTextMessage(colour);
                message.setStringProperty("colour", colour);
                producer.send(message);
            }
            return Arrays.asList(texts(red, 2), texts(blue, 1));
        });
    }

    // -- redelivery --------------------------------------------------------------------------------------------------

    private MessageConsumer dead(Session session, String text) throws JMSException {
        return session.createConsumer(session.createQueue("ActiveMQ.DLQ"), "mark = '" + text + "'");
    }

    private void sendMarked(Session session) throws JMSException {
        TextMessage message = session.createTextMessage("poison");
        message.setStringProperty("mark", own(""));
        session.createProducer(queue(session)).send(message);
    }

    private void redelivery() {
        check("no redelivery at all", () -> {
            ActiveMQConnection connection = started("jms.redeliveryPolicy.maximumRedeliveries=0");
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            sendMarked(session);
            session.commit();
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            found.add(described(next(consumer)));
            session.rollback();
            found.add(consumer.receive(SILENCE_MS) == null);
            Session other = session();
            Message got = next(dead(other, own("")));
            found.add(described(got));
            found.add(got.getStringProperty("dlqDeliveryFailureCause").replaceAll("ID:\\S*", "ID"));
            return found;
        });
        check("redelivery without end", () -> {
            ActiveMQConnection connection = started("jms.redeliveryPolicy.maximumRedeliveries=-1",
                "jms.redeliveryPolicy.initialRedeliveryDelay=0", "jms.redeliveryPolicy.redeliveryDelay=0");
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            send(session, queue(session), "x");
            session.commit();
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            for (int time = 0; time < 12; time++) {
                found.add(described(next(consumer)));
                session.rollback();
            }
            next(consumer);
            session.commit();
            return found;
        });
        check("each connection counts, the last one finds too many", () -> {
            List<Object> found = new ArrayList<>();
            Session sender = session();
            sendMarked(sender);
            for (int time = 0; time < 3; time++) {
                ActiveMQConnection connection = started("jms.redeliveryPolicy.maximumRedeliveries=1",
                    "jms.redeliveryPolicy.initialRedeliveryDelay=0");
                Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
                MessageConsumer consumer = session.createConsumer(queue(session));
                if (time < 2) {
                    found.add(described(next(consumer)));
                } else {
                    MessageConsumer dead = dead(sender, own(""));
                    Thread giving = new Thread(() -> found.add(attempt(() -> consumer.receive(WAIT_MS)))); // the client gives it up, nobody gets it
                    giving.start();
                    Message got = next(dead);
                    untilReceiving(giving);
                    consumer.close();
                    giving.join(WAIT_MS);
                    found.add(((TextMessage) got).getText());
                    found.add(properties(got).keySet());
                }
                connection.close();
            }
            return found;
        });
        check("redelivery that does not block", () -> {
            ActiveMQConnection connection = started("jms.nonBlockingRedelivery=true",
                "jms.redeliveryPolicy.initialRedeliveryDelay=50", "jms.redeliveryPolicy.redeliveryDelay=50");
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            send(session, queue(session), "1", "2");
            session.commit();
            List<String> heard = Collections.synchronizedList(new ArrayList<>());
            session.createConsumer(queue(session)).setMessageListener(message -> {
                try {
                    heard.add(((TextMessage) message).getText());
                    if (!message.getJMSRedelivered()) {
                        session.rollback();
                    } else {
                        session.commit();
                    }
                } catch (JMSException error) {
                    heard.add(thrown(error));
                }
            });
            for (int waited = 0; heard.size() < 4 && waited < WAIT_MS; waited += 20) {
                Thread.sleep(20);
            }
            Thread.sleep(SILENCE_MS);
            Collections.sort(heard);
            return heard;
        });
        check("individual acknowledgements out of order", () -> {
            Session session = session(ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
            send(session, queue(session), "1", "2", "3", "4", "5");
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Message> got = new ArrayList<>();
            for (int number = 0; number < 5; number++) {
                got.add(next(consumer));
            }
            got.get(3).acknowledge();
            got.get(1).acknowledge();
            consumer.close();
            session.close();
            return rest(session());
        });
        check("recover in the middle of several consumers", () -> {
            Session session = session(Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer one = session.createConsumer(session.createQueue(own(".a")));
            MessageConsumer two = session.createConsumer(session.createQueue(own(".b")));
            send(session, session.createQueue(own(".a")), "a1", "a2");
            send(session, session.createQueue(own(".b")), "b1", "b2");
            List<Object> found = new ArrayList<>();
            found.add(described(next(one)));
            found.add(described(next(two)));
            session.recover();
            found.add(texts(one, 2));
            found.add(texts(two, 2));
            return found;
        });
        check("an acknowledgement after its consumer is closed", () -> {
            Session session = session(Session.CLIENT_ACKNOWLEDGE);
            send(session, queue(session), "1", "2");
            MessageConsumer consumer = session.createConsumer(queue(session));
            Message got = next(consumer);
            consumer.close();
            List<Object> found = new ArrayList<>();
            found.add(outcome(got::acknowledge));
            session.close();
            found.add(rest(session()));
            return found;
        });
        check("a session that is closed by its listener", () -> {
            Session session = session();
            CompletableFuture<Thread> listener = new CompletableFuture<>();
            List<Object> found = Collections.synchronizedList(new ArrayList<>());
            session.createConsumer(queue(session)).setMessageListener(message -> {
                found.add(attempt(() -> described(message)));
                found.add(outcome(session::close));
                listener.complete(Thread.currentThread());
            });
            Session sender = session();
            send(sender, queue(sender), "1", "2");
            untilListened(listener.get(WAIT_MS, TimeUnit.MILLISECONDS));
            found.add(rest(session()));
            return found;
        });
    }

    // -- acknowledging -------------------------------------------------------------------------------------------------

    private void acknowledging() {
        check("messages that expire at the client", () -> {
            Session session = session();
            MessageConsumer consumer = session.createConsumer(queue(session));
            MessageProducer producer = session.createProducer(queue(session));
            for (int number = 0; number < 3; number++) {
                TextMessage message = session.createTextMessage("e" + number);
                message.setStringProperty("mark", own(""));
                producer.send(message, DeliveryMode.PERSISTENT, 4, 5000);
            }
            held(consumer, 3); // the broker has given them away before they expire
            Thread.sleep(5100);
            send(session, queue(session), "there");
            List<Object> found = new ArrayList<>(texts(consumer, 1));
            MessageConsumer dead = dead(session, own(""));
            for (int number = 0; number < 3; number++) {
                Message got = next(dead);
                found.add(((TextMessage) got).getText() + " " + got.getJMSExpiration() + " " + properties(got).keySet());
            }
            return found;
        });
        check("client acknowledgement of a topic", () -> {
            Session session = session(Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(topic(session));
            send(session, topic(session), "1", "2");
            next(consumer);
            session.recover();
            List<Object> found = new ArrayList<>(texts(consumer, 2));
            next0(consumer);
            return found;
        });
        check("a transaction with queues and topics", () -> {
            Session session = session(Session.SESSION_TRANSACTED);
            Session other = session();
            MessageConsumer topic = other.createConsumer(topic(other));
            MessageConsumer queue = other.createConsumer(queue(other));
            send(session, queue(session), "q");
            send(session, topic(session), "t");
            List<Object> found = new ArrayList<>();
            found.add(Arrays.asList(topic.receive(SILENCE_MS) == null, queue.receive(SILENCE_MS) == null));
            session.commit();
            found.add(Arrays.asList(texts(topic, 1), texts(queue, 1)));
            send(session, topic(session), "never");
            session.rollback();
            found.add(topic.receive(SILENCE_MS) == null);
            return found;
        });
        check("a connection that closes in a transaction", () -> {
            ActiveMQConnection connection = started();
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            Session other = session();
            send(other, queue(other), "kept");
            next(session.createConsumer(queue(session)));
            send(session, queue(session), "never");
            connection.close();
            return rest(other);
        });
        check("a commit of nothing, and again", () -> {
            Session session = session(Session.SESSION_TRANSACTED);
            return Arrays.asList(outcome(session::commit), outcome(session::commit), outcome(session::rollback));
        });
    }

    private static void next0(MessageConsumer consumer) throws JMSException {
        consumer.receiveNoWait();
    }

    // -- browsers --------------------------------------------------------------------------------------------------

    private static List<String> shown(QueueBrowser browser) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Object message : Collections.list((Enumeration<?>) browser.getEnumeration())) {
            found.add(described((Message) message));
        }
        return found;
    }

    private void browsing() {
        check("browsing beside consumers", () -> {
            Session session = session(Session.CLIENT_ACKNOWLEDGE, "jms.prefetchPolicy.queuePrefetch=1");
            send(session, queue(session), "1", "2", "3");
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            found.add(described(next(consumer)));
            found.add(shown(session().createBrowser(queue(session))));
            QueueBrowser browser = session().createBrowser(queue(session));
            browser.getEnumeration();
            browser.close();
            consumer.close();
            session.close();
            found.add(rest(session()));
            return found;
        });
        check("browsing is no delivery", () -> {
            Session session = session();
            send(session, queue(session), "1", "2");
            shown(session.createBrowser(queue(session)));
            shown(session.createBrowser(queue(session), "JMSPriority = 4"));
            return texts(session.createConsumer(queue(session)), 2);
        });
        check("browsing in a transaction", () -> {
            Session session = session(Session.SESSION_TRANSACTED);
            send(session, queue(session), "1");
            List<Object> found = new ArrayList<>();
            found.add(shown(session.createBrowser(queue(session))));
            session.commit();
            found.add(shown(session.createBrowser(queue(session))));
            session.rollback();
            found.add(rest(session()));
            return found;
        });
        check("a browser's small prefetch", () -> {
            Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.queueBrowserPrefetch=3");
            send(session, queue(session), numbered("m", 20));
            return shown(session.createBrowser(queue(session)));
        });
        check("browsing what expires", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(queue(session));
            producer.send(session.createTextMessage("gone"), DeliveryMode.PERSISTENT, 4, 50);
            send(session, queue(session), "there");
            Thread.sleep(200);
            return shown(session.createBrowser(queue(session)));
        });
        check("browsing a composite, a wildcard and a temporary queue", () -> {
            Session session = session();
            TemporaryQueue temporary = session.createTemporaryQueue();
            send(session, temporary, "t");
            List<Object> found = new ArrayList<>();
            found.add(shown(session.createBrowser(temporary)));
            return found;
        });
    }

    // -- temporary destinations --------------------------------------------------------------------------------------

    private void temporaries() {
        check("temporary queues keep their messages while nobody listens", () -> {
            Session session = session();
            TemporaryQueue queue = session.createTemporaryQueue();
            send(session, queue, "1", "2");
            MessageConsumer consumer = session.createConsumer(queue);
            List<Object> found = new ArrayList<>(texts(consumer, 2));
            consumer.close();
            send(session, queue, "3");
            found.addAll(texts(session.createConsumer(queue), 1));
            return found;
        });
        check("temporary destinations that are in use are not deleted", () -> {
            Session session = session();
            TemporaryTopic topic = session.createTemporaryTopic();
            MessageConsumer consumer = session.createConsumer(topic);
            List<Object> found = new ArrayList<>();
            found.add(outcome(topic::delete));
            send(session, topic, "1");
            found.add(texts(consumer, 1));
            consumer.close();
            found.add(outcome(topic::delete));
            found.add(outcome(topic::delete));
            found.add(outcome(() -> session.createConsumer(topic)));
            return found;
        });
        check("temporary destinations of another connection", () -> {
            Session session = session();
            TemporaryQueue queue = session.createTemporaryQueue();
            Session other = session();
            List<Object> found = new ArrayList<>();
            found.add(outcome(() -> other.createConsumer(queue)));
            found.add(outcome(() -> other.createBrowser(queue).getEnumeration()));
            found.add(outcome(queue::delete));
            return found;
        });
        check("temporary destinations and durable subscriptions", () -> {
            ActiveMQConnection connection = connection();
            connection.setClientID(own(""));
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            TemporaryTopic topic = session.createTemporaryTopic();
            return outcome(() -> session.createDurableSubscriber(topic, "news"));
        });
        check("a reply to a temporary queue that is gone", () -> {
            ActiveMQConnection asking = started();
            Session session = asking.createSession(false, Session.AUTO_ACKNOWLEDGE);
            TextMessage question = session.createTextMessage("question");
            question.setJMSReplyTo(session.createTemporaryQueue());
            session.createProducer(queue(session)).send(question);
            asking.close();
            Session answering = session();
            Message got = next(answering.createConsumer(queue(answering)));
            return outcome(() -> send(answering, got.getJMSReplyTo(), "answer"));
        });
        check("transactions to temporary queues", () -> {
            Session session = session(Session.SESSION_TRANSACTED);
            TemporaryQueue queue = session.createTemporaryQueue();
            MessageConsumer consumer = session.createConsumer(queue);
            send(session, queue, "1");
            session.rollback();
            send(session, queue, "2");
            session.commit();
            List<String> found = texts(consumer, 1);
            session.commit();
            return found;
        });
    }

    // -- durable subscriptions -----------------------------------------------------------------------------------------

    private Session durable(String suffix, int mode) throws JMSException {
        ActiveMQConnection connection = connection();
        connection.setClientID(own(suffix));
        connection.start();
        return connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
    }

    private void durables() {
        check("another topic makes a new durable subscription", () -> {
            Session session = durable("", Session.AUTO_ACKNOWLEDGE);
            Topic one = session.createTopic(own(".one"));
            Topic two = session.createTopic(own(".two"));
            session.createDurableSubscriber(one, "news").close();
            send(session, one, "1");
            MessageConsumer changed = session.createDurableSubscriber(two, "news");
            send(session, one, "2");
            send(session, two, "3");
            List<Object> found = new ArrayList<>(texts(changed, 1));
            changed.close();
            MessageConsumer back = session.createDurableSubscriber(one, "news");
            send(session, one, "4");
            found.addAll(texts(back, 1));
            back.close();
            session.unsubscribe("news");
            return found;
        });
        check("noLocal of a durable subscription is changed", () -> {
            Session session = durable("", Session.AUTO_ACKNOWLEDGE);
            session.createDurableSubscriber(topic(session), "news", null, false).close();
            Session other = session();
            send(other, topic(other), "before");
            MessageConsumer changed = session.createDurableSubscriber(topic(session), "news", null, true);
            send(session, topic(session), "own");
            send(other, topic(other), "after");
            List<Object> found = new ArrayList<>(texts(changed, 1));
            changed.close();
            send(other, topic(other), "meanwhile");
            MessageConsumer same = session.createDurableSubscriber(topic(session), "news", null, true);
            found.addAll(texts(same, 1));
            same.close();
            send(other, topic(other), "again");
            MessageConsumer back = session.createDurableSubscriber(topic(session), "news", null, false);
            send(session, topic(session), "own again");
            found.addAll(texts(back, 1));
            back.close();
            session.unsubscribe("news");
            return found;
        });
        check("two subscriptions of one client, two clients of one name", () -> {
            Session one = durable(".1", Session.AUTO_ACKNOWLEDGE);
            Session two = durable(".2", Session.AUTO_ACKNOWLEDGE);
            MessageConsumer a = one.createDurableSubscriber(topic(one), "a");
            MessageConsumer b = one.createDurableSubscriber(topic(one), "b", "JMSType = 'b'", false);
            MessageConsumer c = two.createDurableSubscriber(topic(two), "a");
            TextMessage message = one.createTextMessage("typed");
            message.setJMSType("b");
            send(one, topic(one), "plain");
            one.createProducer(topic(one)).send(message);
            List<Object> found = new ArrayList<>(Arrays.asList(texts(a, 2), texts(b, 1), texts(c, 2)));
            a.close();
            b.close();
            c.close();
            one.unsubscribe("a");
            one.unsubscribe("b");
            found.add(outcome(() -> one.unsubscribe("a")));
            two.unsubscribe("a");
            return found;
        });
        check("durable subscriptions and delivery modes", () -> {
            Session session = durable("", Session.AUTO_ACKNOWLEDGE);
            session.createDurableSubscriber(topic(session), "news").close();
            MessageProducer producer = session.createProducer(topic(session));
            producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            producer.send(session.createTextMessage("not persistent"));
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            producer.send(session.createTextMessage("persistent"));
            producer.send(session.createTextMessage("expires"), DeliveryMode.PERSISTENT, 4, 50);
            Thread.sleep(200);
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "news");
            List<String> found = texts(consumer, 2);
            Collections.sort(found);
            consumer.close();
            session.unsubscribe("news");
            return found;
        });
        check("a durable subscriber that acknowledges some", () -> {
            Session session = durable("", Session.CLIENT_ACKNOWLEDGE);
            session.createDurableSubscriber(topic(session), "news").close();
            Session other = session();
            send(other, topic(other), "1", "2", "3", "4");
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "news");
            next(consumer);
            next(consumer).acknowledge();
            next(consumer);
            consumer.close();
            List<Object> found = new ArrayList<>();
            MessageConsumer again = session.createDurableSubscriber(topic(session), "news");
            found.add(((TextMessage) next(again)).getText());
            found.add(((TextMessage) next(again)).getText());
            found.add(again.receive(SILENCE_MS) == null);
            again.close();
            session.unsubscribe("news");
            return found;
        });
        check("durable subscriptions to wildcards and composites", () -> {
            Session session = durable("", Session.AUTO_ACKNOWLEDGE);
            MessageConsumer wild = session.createDurableSubscriber(session.createTopic(own(".>")), "wild");
            send(session, session.createTopic(own(".a")), "a");
            List<Object> found = new ArrayList<>(texts(wild, 1));
            wild.close();
            session.unsubscribe("wild");
            return found;
        });
        check("a durable subscription without a name, or with an empty client id", () -> {
            List<Object> found = new ArrayList<>();
            Session session = durable("", Session.AUTO_ACKNOWLEDGE);
            found.add(outcome(() -> session.createDurableSubscriber(topic(session), null)));
            found.add(outcome(() -> session.createDurableSubscriber(topic(session), "x", "= 5", false)));
            found.add(outcome(() -> session.createDurableSubscriber(null, "x")));
            found.add(outcome(() -> session.createDurableSubscriber((Topic) null, "x", null, false)));
            return found;
        });
    }

    // -- what topics have kept -----------------------------------------------------------------------------------------

    private void recovering() {
        for (String kind : new String[] {"COUNT", "SIZE", "IMAGE", "TIME", "NONE", "ALWAYS"}) {
            check("subscribers that come later, " + kind, () -> {
                Session session = session();
                String name = "RECOVERED." + kind + "." + own("");
                sendNumbered(session, session.createTopic(name), 1, 4);
                List<MessageConsumer> consumers = new ArrayList<>();
                consumers.add(session.createConsumer(session.createTopic(name)));
                consumers.add(session.createConsumer(session.createTopic(name + "?consumer.retroactive=true")));
                consumers.add(session.createConsumer(session.createTopic(name + "?consumer.retroactive=true&consumer.prefetchSize=1")));
                consumers.add(session.createConsumer(session.createTopic("RECOVERED." + kind + ".>?consumer.retroactive=true")));
                consumers.add(session.createConsumer(session.createTopic(name + "?consumer.retroactive=true"), "number <> 4"));
                consumers.add(session.createConsumer(session.createTopic(name + "?consumer.retroactive=true"), null, true));
                consumers.add(session().createConsumer(session.createTopic(name + "?consumer.retroactive=true")));
                sendNumbered(session, session.createTopic(name), 5, 5);
                List<Object> found = new ArrayList<>();
                for (MessageConsumer consumer : consumers) {
                    StringBuilder numbers = new StringBuilder();
                    for (Message message : all(consumer)) {
                        numbers.append(message.getIntProperty("number")).append(message.getJMSRedelivered() ? "again" : "");
                    }
                    found.add(numbers.toString());
                }
                return found;
            });
        }
    }

    private static void sendNumbered(Session session, Topic topic, int first, int last) throws JMSException {
        MessageProducer producer = session.createProducer(topic);
        for (int number = first; number <= last; number++) {
            TextMessage message = session.createTextMessage(new String(new char[3000]).replace('\0', 'x'));
            message.setIntProperty("number", number);
            producer.send(message, number % 2 == 0 ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT, 4, 0);
        }
    }

    // -- sending ---------------------------------------------------------------------------------------------------

    private void sending() {
        check("sends with a callback", () -> {
            ActiveMQSession session = (ActiveMQSession) session();
            ActiveMQMessageProducer producer = (ActiveMQMessageProducer) session.createProducer(queue(session));
            CountDownLatch told = new CountDownLatch(50);
            List<Object> errors = Collections.synchronizedList(new ArrayList<>());
            for (int number = 0; number < 50; number++) {
                producer.send(session.createTextMessage("m" + number), new org.apache.activemq.AsyncCallback() {
                    @Override
                    public void onSuccess() {
                        told.countDown();
                    }

                    @Override
                    public void onException(JMSException error) {
                        errors.add(thrown(error));
                        told.countDown();
                    }
                });
            }
            return Arrays.asList(told.await(WAIT_MS, TimeUnit.MILLISECONDS), errors, texts(session.createConsumer(queue(session)), 50).size());
        });
        check("one message to many destinations", () -> {
            Session session = session();
            TextMessage message = session.createTextMessage("x");
            MessageProducer producer = session.createProducer(null);
            List<Object> found = new ArrayList<>();
            for (String suffix : new String[] {".1", ".2", ".3"}) {
                producer.send(session.createQueue(own(suffix)), message);
                message.clearBody();
                message.setText("x" + suffix);
            }
            for (String suffix : new String[] {".1", ".2", ".3"}) {
                found.addAll(texts(session.createConsumer(session.createQueue(own(suffix))), 1));
            }
            found.add(outcome(() -> session.createProducer(queue(session)).send(session.createQueue(own(".4")), message)));
            return found;
        });
        check("long texts and properties", () -> {
            Session session = session();
            String longText = new String(new char[100_000]).replace('\0', 'x');
            TextMessage message = session.createTextMessage(longText);
            message.setStringProperty("long", longText);
            message.setJMSType("t");
            message.setJMSCorrelationID(longText.substring(0, 30_000));
            session.createProducer(queue(session)).send(message);
            TextMessage got = (TextMessage) next(session.createConsumer(queue(session)));
            return Arrays.asList(got.getText().equals(longText), got.getStringProperty("long").equals(longText),
                got.getJMSCorrelationID().length());
        });
        check("a message that was received is sent on", () -> {
            Session session = session();
            TextMessage message = session.createTextMessage("x");
            message.setStringProperty("p", "v");
            session.createProducer(session.createQueue(own(".1"))).send(message, DeliveryMode.NON_PERSISTENT, 7, 0);
            Message got = next(session.createConsumer(session.createQueue(own(".1"))));
            session.createProducer(session.createQueue(own(".2"))).send(got);
            Message again = next(session.createConsumer(session.createQueue(own(".2"))));
            return Arrays.asList(headers(again), properties(again), got.getJMSMessageID().equals(again.getJMSMessageID()));
        });
        check("what JMSX properties say", () -> {
            Session session = session();
            TextMessage message = session.createTextMessage("x");
            message.setStringProperty("JMSXGroupID", "g");
            message.setIntProperty("JMSXGroupSeq", 3);
            message.setStringProperty("JMSXUserID", "me");
            session.createProducer(queue(session)).send(message);
            Message got = next(session.createConsumer(queue(session)));
            return Arrays.asList(properties(got), got.getIntProperty("JMSXDeliveryCount"), attempt(() -> got.getStringProperty("JMSXUserID")),
                attempt(() -> got.getStringProperty("JMSXProducerTXID")), got.propertyExists("JMSXRcvTimestamp"));
        });
        check("in a transaction, what JMSX properties say", () -> {
            Session session = session(Session.SESSION_TRANSACTED);
            send(session, queue(session), "x");
            session.commit();
            Message got = next(session().createConsumer(queue(session)));
            return Arrays.asList(properties(got).keySet(), got.getStringProperty("JMSXProducerTXID") != null);
        });
        check("times of a message", () -> {
            Session session = session();
            send(session, queue(session), "x");
            ActiveMQMessage got = (ActiveMQMessage) next(session.createConsumer(queue(session)));
            return Arrays.asList(got.getBrokerInTime() >= got.getTimestamp() - 1000, got.getBrokerOutTime() >= got.getBrokerInTime(),
                got.getJMSMessageID().startsWith("ID:"), got.getMessageId().getBrokerSequenceId() > 0,
                String.valueOf(got.getOriginalDestination()), got.getRedeliveryCounter(), got.isCompressed(), got.getGroupSequence());
        });
        check("windows of producers", () -> {
            Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.producerWindowSize=5000", "jms.useAsyncSend=true");
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(new byte[2000]);
            MessageProducer producer = session.createProducer(queue(session));
            for (int number = 0; number < 40; number++) {
                producer.send(message);
            }
            MessageConsumer consumer = session.createConsumer(queue(session));
            int count = 0;
            while (count < 40 && consumer.receive(WAIT_MS) != null) {
                count++;
            }
            return count;
        });
        check("priorities at the client", () -> {
            Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.messagePrioritySupported=true");
            MessageProducer producer = session.createProducer(queue(session));
            for (int priority : new int[] {1, 9, 4, 9, 0}) {
                producer.setPriority(priority);
                producer.send(session.createTextMessage("p" + priority));
            }
            return texts(session.createConsumer(queue(session)), 5).size();
        });
    }

    // -- destinations ------------------------------------------------------------------------------------------------

    private void destinations() {
        check("composites of many kinds", () -> {
            Session session = session();
            MessageConsumer topic = session.createConsumer(session.createTopic(own(".t")));
            send(session, session.createTopic(own(".t") + ",queue://" + own(".q")), "both");
            List<Object> found = new ArrayList<>();
            found.add(texts(topic, 1));
            found.add(texts(session.createConsumer(session.createQueue(own(".q"))), 1));
            MessageConsumer two = session.createConsumer(session.createQueue(own(".c") + "," + own(".d")));
            send(session, session.createQueue(own(".c")), "c");
            send(session, session.createQueue(own(".d")), "d");
            List<String> got = texts(two, 2);
            Collections.sort(got);
            found.add(got);
            return found;
        });
        check("where a composite message says it comes from", () -> {
            Session session = session();
            send(session, session.createQueue(own(".a") + "," + own(".b")), "x");
            ActiveMQMessage got = (ActiveMQMessage) next(session.createConsumer(session.createQueue(own(".b"))));
            return Arrays.asList(got.getJMSDestination().toString(), String.valueOf(got.getOriginalDestination()));
        });
        check("virtual topics with selectors and several consumers", () -> {
            Session session = session();
            MessageConsumer a1 = session.createConsumer(session.createQueue("Consumer.A.VirtualTopic." + own("")));
            MessageConsumer b = session.createConsumer(session.createQueue("Consumer.B.VirtualTopic." + own("")), "JMSType = 't'");
            MessageConsumer plain = session.createConsumer(session.createTopic("VirtualTopic." + own("")));
            TextMessage message = session.createTextMessage("typed");
            message.setJMSType("t");
            MessageProducer producer = session.createProducer(session.createTopic("VirtualTopic." + own("")));
            producer.send(message);
            producer.send(session.createTextMessage("plain"));
            ActiveMQMessage got = (ActiveMQMessage) next(a1);
            return Arrays.asList(got.getJMSDestination().toString(), String.valueOf(got.getOriginalDestination()), texts(a1, 1),
                texts(b, 1), texts(plain, 2));
        });
        check("names with prefixes, blanks and letters of any kind", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            for (String name : new String[] {own(" a b"), own(".ümlaut"), own("..x"), own("."), own(":x"), own("/x"), own("$x"), own("#x")}) {
                found.add(attempt(() -> {
                    send(session, session.createQueue(name), name);
                    return texts(session.createConsumer(session.createQueue(name)), 1);
                }));
            }
            found.add(String.valueOf(session.createQueue("topic://" + own(""))));
            found.add(String.valueOf(session.createTopic("queue://" + own(""))));
            return found;
        });
        check("destinations are removed", () -> {
            ActiveMQConnection connection = started();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            ActiveMQDestination queue = (ActiveMQDestination) queue(session);
            ActiveMQDestination topic = (ActiveMQDestination) topic(session);
            send(session, (Queue) queue, "1");
            List<Object> found = new ArrayList<>();
            MessageConsumer consumer = session.createConsumer((Queue) queue);
            MessageConsumer listener = session.createConsumer((Topic) topic);
            found.add(outcome(() -> connection.destroyDestination(queue)));
            found.add(outcome(() -> connection.destroyDestination(topic)));
            found.add(texts(consumer, 1));
            consumer.close();
            listener.close();
            send(session, (Queue) queue, "2");
            found.add(outcome(() -> connection.destroyDestination(queue)));
            found.add(outcome(() -> connection.destroyDestination(topic)));
            found.add(outcome(() -> connection.destroyDestination(new ActiveMQQueue(own(".never")))));
            found.add(rest(session));
            return found;
        });
        check("which destinations there are", () -> {
            ActiveMQConnection connection = started();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(session, queue(session), "x");
            for (int waited = 0; waited < WAIT_MS; waited += 20) {
                if (connection.getDestinationSource().getQueues().contains(queue(session))) {
                    return true;
                }
                Thread.sleep(20);
            }
            return false;
        });
        check("whose destinations are removed hears of it", () -> {
            ActiveMQConnection connection = started();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Set<?> queues = connection.getDestinationSource().getQueues();
            Set<?> topics = connection.getDestinationSource().getTopics();
            List<Object> found = new ArrayList<>();
            for (Destination destination : new Destination[] {queue(session), topic(session)}) {
                Set<?> there = destination instanceof Queue ? queues : topics;
                MessageConsumer consumer = session.createConsumer(destination);
                send(session, destination, "x");
                next(consumer);
                found.add(isThere(there, destination, true));
                found.add(outcome(() -> connection.destroyDestination((ActiveMQDestination) destination)));
                found.add(isThere(there, destination, true));
                consumer.close();
                found.add(outcome(() -> connection.destroyDestination((ActiveMQDestination) destination)));
                found.add(isThere(there, destination, false));
                MessageConsumer again = session.createConsumer(destination);
                found.add(isThere(there, destination, true));
                send(session, destination, "y");
                found.add(texts(again, 1));
            }
            return found;
        });
        check("noLocal on queues and topics", () -> {
            Session session = session();
            MessageConsumer topic = session.createConsumer(topic(session), null, true);
            send(session, topic(session), "own");
            Session other = session();
            send(other, topic(other), "other");
            return texts(topic, 1);
        });
        check("scheduled messages that are wrong", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            TextMessage message = session.createTextMessage("x");
            message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, 0);
            session.createProducer(queue(session)).send(message);
            found.add(texts(session.createConsumer(queue(session)), 1));
            return found;
        });
    }

    // -- connections that end ------------------------------------------------------------------------------------------

    private void ending() {
        check("cleanup, then another client id", () -> {
            ActiveMQConnection connection = connection();
            connection.setClientID(own(".1"));
            connection.start();
            connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            connection.doCleanup(true);
            connection.setClientID(own(".2"));
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(session, queue(session), "x");
            return Arrays.asList(connection.getClientID(), texts(session.createConsumer(queue(session)), 1));
        });
        check("the same client id again and again", () -> {
            for (int time = 0; time < 30; time++) {
                ActiveMQConnection connection = connection();
                connection.setClientID(own(""));
                connection.start();
                connection.close();
            }
            return "done";
        });
        check("who has the client id hears nothing of those that want it", () -> {
            ActiveMQConnection first = connection();
            first.setClientID(own(""));
            first.start();
            List<Object> found = new ArrayList<>();
            for (int time = 0; time < 3; time++) {
                ActiveMQConnection other = connection();
                found.add(outcome(() -> {
                    other.setClientID(own(""));
                    other.start();
                }));
                found.add(outcome(other::close));
            }
            Session session = first.createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(session, queue(session), "x");
            found.add(texts(session.createConsumer(queue(session)), 1));
            return found;
        });
        check("consumers of sessions that close", () -> {
            ActiveMQConnection connection = started();
            List<Object> found = new ArrayList<>();
            Session sender = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(sender, queue(sender), "1", "2", "3");
            for (int number = 0; number < 3; number++) {
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                found.add(described(next(session.createConsumer(queue(session)))));
                session.close();
            }
            return found;
        });
        check("errors without anybody who waits", () -> {
            ActiveMQConnection connection = started("jms.useAsyncSend=true");
            List<Object> found = Collections.synchronizedList(new ArrayList<>());
            connection.setExceptionListener(error -> found.add(thrown(error)));
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            TemporaryQueue queue = session.createTemporaryQueue();
            Message message = session.createMessage();
            MessageProducer producer = session.createProducer(queue);
            producer.send(message);
            found.add("sent");
            found.add(texts(session.createConsumer(queue), 1));
            return found;
        });
    }

    // -- distributed transactions --------------------------------------------------------------------------------------

    private static Xid xid(String name) {
        return new Xid() {
            @Override
            public int getFormatId() {
                return 77;
            }

            @Override
            public byte[] getGlobalTransactionId() {
                return name.getBytes();
            }

            @Override
            public byte[] getBranchQualifier() {
                return new byte[] {1};
            }
        };
    }

    private ActiveMQXAConnection distributedConnection() throws JMSException {
        ActiveMQXAConnection connection = (ActiveMQXAConnection) new ActiveMQXAConnectionFactory(url).createXAConnection();
        connection.start();
        return connection;
    }

    private void distributed() {
        check("branches, whatever their state", () -> {
            ActiveMQXAConnection connection = distributedConnection();
            XASession session = connection.createXASession();
            XAResource resource = session.getXAResource();
            List<Object> found = new ArrayList<>();
            Xid one = xid(own(".1"));
            found.add(told(() -> resource.commit(one, false)));
            found.add(told(() -> resource.commit(one, true)));
            found.add(told(() -> resource.rollback(one)));
            found.add(told(() -> resource.forget(one)));
            found.add(told(() -> resource.start(one, XAResource.TMNOFLAGS)));
            found.add(told(() -> resource.start(xid(own(".2")), XAResource.TMNOFLAGS)));
            found.add(told(() -> resource.end(xid(own(".3")), XAResource.TMSUCCESS)));
            send(session, queue(session), "1");
            found.add(told(() -> resource.end(one, XAResource.TMSUCCESS)));
            found.add(asked(() -> resource.prepare(one)));
            found.add(asked(() -> resource.prepare(one)));
            found.add(told(() -> resource.commit(one, false)));
            found.add(told(() -> resource.commit(one, false)));
            found.add(told(() -> resource.rollback(one)));
            connection.close();
            found.add(rest(session()));
            return found;
        });
        check("a branch that does nothing, and one phase", () -> {
            ActiveMQXAConnection connection = distributedConnection();
            XASession session = connection.createXASession();
            XAResource resource = session.getXAResource();
            List<Object> found = new ArrayList<>();
            Xid one = xid(own(".1"));
            resource.start(one, XAResource.TMNOFLAGS);
            resource.end(one, XAResource.TMSUCCESS);
            found.add(asked(() -> resource.prepare(one)));
            found.add(told(() -> resource.commit(one, false)));
            Xid two = xid(own(".2"));
            resource.start(two, XAResource.TMNOFLAGS);
            send(session, queue(session), "one phase");
            resource.end(two, XAResource.TMSUSPEND);
            resource.start(two, XAResource.TMRESUME);
            send(session, queue(session), "resumed");
            resource.end(two, XAResource.TMSUCCESS);
            found.add(told(() -> resource.commit(two, true)));
            Xid three = xid(own(".3"));
            resource.start(three, XAResource.TMNOFLAGS);
            send(session, queue(session), "failed");
            resource.end(three, XAResource.TMFAIL);
            found.add(told(() -> resource.rollback(three)));
            Xid four = xid(own(".4"));
            resource.start(four, XAResource.TMNOFLAGS);
            Message got = next(session.createConsumer(queue(session)));
            resource.end(four, XAResource.TMSUCCESS);
            found.add(described(got));
            found.add(asked(() -> resource.prepare(four)));
            found.add(told(() -> resource.rollback(four)));
            connection.close();
            found.add(rest(session()));
            found.add(resource.isSameRM(session.getXAResource()));
            return found;
        });
        check("what is prepared is recovered by another", () -> {
            ActiveMQXAConnection connection = distributedConnection();
            XASession session = connection.createXASession();
            Xid one = xid(own(".1"));
            session.getXAResource().start(one, XAResource.TMNOFLAGS);
            send(session, queue(session), "prepared");
            session.getXAResource().end(one, XAResource.TMSUCCESS);
            List<Object> found = new ArrayList<>();
            found.add(asked(() -> session.getXAResource().prepare(one)));
            connection.close();
            ActiveMQXAConnection other = distributedConnection();
            XAResource resource = other.createXASession().getXAResource();
            int count = 0;
            for (Xid each : resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
                count += new String(each.getGlobalTransactionId()).equals(own(".1")) ? 1 : 0;
            }
            found.add(count);
            Session watching = session();
            MessageConsumer consumer = watching.createConsumer(queue(watching));
            found.add(consumer.receive(SILENCE_MS) == null);
            found.add(told(() -> resource.commit(one, false)));
            found.add(texts(consumer, 1));
            other.close();
            return found;
        });
        check("an XA session without a transaction", () -> {
            ActiveMQXAConnection connection = distributedConnection();
            XASession session = connection.createXASession();
            List<Object> found = new ArrayList<>();
            found.add(outcome(() -> send(session, queue(session), "auto")));
            found.add(outcome(session::commit));
            found.add(outcome(session::rollback));
            connection.close();
            found.add(rest(session()));
            return found;
        });
        for (boolean isTwoPhased : new boolean[] {false, true}) {
            for (boolean isTopic : new boolean[] {false, true}) {
                String what = (isTwoPhased ? "two phases" : "one phase") + (isTopic ? ", topic" : ", queue");
                check("served sessions, " + what, () -> served(isTwoPhased, isTopic)); // part of the ids, 64 bytes at most
            }
        }
    }

    /** As by an application server: each message is a branch, one is rolled back until it is a dead letter. */
    private Object served(boolean isTwoPhased, boolean isTopic) throws JMSException {
        ActiveMQXAConnection connection = (ActiveMQXAConnection) new ActiveMQXAConnectionFactory(url).createXAConnection();
        connection.setClientID(own(".id"));
        connection.getRedeliveryPolicy().setMaximumRedeliveries(2);
        connection.getRedeliveryPolicy().setInitialRedeliveryDelay(10);
        connection.getRedeliveryPolicy().setRedeliveryDelay(10);
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        BlockingQueue<XASession> idle = new LinkedBlockingQueue<>();
        for (int number = 0; number < 3; number++) {
            idle.add(serving(connection, number, isTwoPhased, heard));
        }
        javax.jms.ServerSessionPool pool = () -> {
            XASession session = idle.poll();
            if (session == null) {
                throw new JMSException("no session is idle");
            }
            return new javax.jms.ServerSession() {
                @Override
                public Session getSession() {
                    return session;
                }

                @Override
                public void start() {
                    new Thread(() -> {
                        session.run();
                        idle.add(session);
                    }).start();
                }
            };
        };
        Session session = session();
        javax.jms.ConnectionConsumer consumer = isTopic
            ? connection.createDurableConnectionConsumer(topic(session), "served", null, pool, 1)
            : connection.createConnectionConsumer(queue(session), null, pool, 1);
        connection.start();
        MessageConsumer done = session.createConsumer(session.createQueue(own(".done")));
        MessageProducer producer = session.createProducer(isTopic ? topic(session) : queue(session));
        List<Object> found = new ArrayList<>();
        for (String text : new String[] {"1", "poison", "2", "3"}) {
            TextMessage message = session.createTextMessage(text);
            message.setStringProperty("mark", own(""));
            producer.send(message);
            Message last = next(text.equals("poison") ? dead(session, own("")) : done);
            found.add(body(last) + " " + properties(last).keySet());
        }
        consumer.close();
        connection.close();
        found.add(heard);
        found.add(isTopic ? "" : rest(session()));
        return found;
    }

    private XASession serving(ActiveMQXAConnection connection, int number, boolean isTwoPhased, List<String> heard)
            throws JMSException {
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        MessageProducer producer = session.createProducer(session.createQueue(own(".done")));
        AtomicInteger branches = new AtomicInteger();
        ((ActiveMQSession) session).setDeliveryListener(new ActiveMQSession.DeliveryListener() {
            private Xid branch;

            @Override
            public void beforeDelivery(ActiveMQSession of, Message message) {
                branch = xid(own("." + number + "." + branches.incrementAndGet()));
                heard.addAll(failures(told(() -> resource.start(branch, XAResource.TMNOFLAGS))));
            }

            @Override
            public void afterDelivery(ActiveMQSession of, Message message) {
                heard.addAll(failures(told(() -> resource.end(branch, XAResource.TMSUCCESS))));
                if (heard.get(heard.size() - 1).startsWith("poison")) {
                    heard.addAll(failures(told(() -> resource.rollback(branch))));
                    return;
                }
                if (isTwoPhased) {
                    heard.add("prepared " + asked(() -> resource.prepare(branch)));
                }
                heard.addAll(failures(told(() -> resource.commit(branch, !isTwoPhased))));
            }
        });
        session.setMessageListener(message -> {
            try {
                producer.send(session.createTextMessage("done with " + body(message)));
                heard.add(body(message) + " " + message.getJMSRedelivered() + message.getIntProperty("JMSXDeliveryCount"));
            } catch (JMSException error) {
                heard.add(thrown(error));
            }
        });
        return session;
    }

    private static List<String> failures(Object told) {
        return told.equals("done") ? Collections.emptyList() : Arrays.asList(String.valueOf(told));
    }

    // -- many at once, and the rest ------------------------------------------------------------------------------------

    private void crowds() {
        check("listeners of several sessions share a queue", () -> {
            ActiveMQConnection connection = started("jms.prefetchPolicy.all=5");
            List<String> heard = Collections.synchronizedList(new ArrayList<>());
            CountDownLatch all = new CountDownLatch(300);
            for (int number = 0; number < 4; number++) {
                Session session = connection.createSession(false, number % 2 == 0 ? Session.AUTO_ACKNOWLEDGE : Session.DUPS_OK_ACKNOWLEDGE);
                session.createConsumer(queue(session)).setMessageListener(message -> {
                    heard.add(String.valueOf(attempt(() -> described(message))));
                    all.countDown();
                });
            }
            Session sender = session();
            send(sender, queue(sender), numbered("m", 300));
            boolean done = all.await(WAIT_MS, TimeUnit.MILLISECONDS);
            connection.close();
            List<String> expected = new ArrayList<>(Arrays.asList(numbered("m", 300)));
            Collections.sort(expected);
            Collections.sort(heard);
            return Arrays.asList(done, heard.equals(expected), rest(session()));
        });
        check("a small prefetch of a topic, and much", () -> {
            Session session = session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=10");
            MessageConsumer consumer = session.createConsumer(topic(session));
            Session sender = session();
            send(sender, topic(sender), numbered("m", 300));
            return texts(consumer, 300).equals(Arrays.asList(numbered("m", 300)));
        });
        check("topics and rollbacks", () -> {
            ActiveMQConnection connection = started("jms.redeliveryPolicy.initialRedeliveryDelay=0");
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createConsumer(topic(session));
            Session sender = session();
            send(sender, topic(sender), "1", "2");
            List<Object> found = new ArrayList<>(texts(consumer, 2));
            session.rollback();
            found.addAll(texts(consumer, 2));
            session.commit();
            return found;
        });
        check("a topic's message that is given up", () -> {
            ActiveMQConnection connection = started("jms.redeliveryPolicy.maximumRedeliveries=0");
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createConsumer(topic(session));
            Session sender = session();
            TextMessage message = sender.createTextMessage("poison");
            message.setStringProperty("mark", own(""));
            sender.createProducer(topic(sender)).send(message);
            List<Object> found = new ArrayList<>();
            found.add(described(next(consumer)));
            session.rollback();
            Message got = dead(sender, own("")).receive(2000);
            found.add(got == null ? "no dead letter" : described(got) + got.getJMSDeliveryMode());
            return found;
        });
        check("values that producers must not have", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(queue(session));
            Message message = session.createMessage();
            return Arrays.asList(outcome(() -> producer.send(message, DeliveryMode.PERSISTENT, 11, 0)),
                outcome(() -> producer.send(message, 7, 4, 0)), outcome(() -> producer.setTimeToLive(-5)),
                outcome(() -> producer.send(null)), outcome(() -> producer.send(message, DeliveryMode.PERSISTENT, -1, 0)));
        });
        check("client ids that are none", () -> {
            List<Object> found = new ArrayList<>();
            for (String id : new String[] {"", " ", "a,b", "ü", new String(new char[300]).replace('\0', 'x')}) {
                ActiveMQConnection connection = connection();
                found.add(outcome(() -> {
                    connection.setClientID(id);
                    connection.start();
                    connection.createSession(false, Session.AUTO_ACKNOWLEDGE).createTemporaryQueue();
                }));
                outcome(connection::close);
            }
            return found;
        });
        check("a durable connection consumer", () -> {
            ActiveMQConnection connection = connection();
            connection.setClientID(own(""));
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            CountDownLatch heard = new CountDownLatch(2);
            session.setMessageListener(message -> heard.countDown());
            javax.jms.ConnectionConsumer consumer = connection.createDurableConnectionConsumer(topic(session), "news", null,
                () -> new javax.jms.ServerSession() {
                    @Override
                    public Session getSession() {
                        return session;
                    }

                    @Override
                    public void start() {
                        session.run();
                    }
                }, 1);
            Session sender = session();
            send(sender, topic(sender), "1", "2");
            boolean both = heard.await(WAIT_MS, TimeUnit.MILLISECONDS);
            consumer.close();
            return Arrays.asList(both, outcome(() -> session.unsubscribe("news")));
        });
        check("a consumer of several topics with a selector that nothing matches", () -> {
            Session session = session();
            MessageConsumer consumer = session.createConsumer(session.createTopic(own(".a") + "," + own(".b")), "JMSType = 'none'");
            send(session, session.createTopic(own(".a")), "a");
            send(session, session.createTopic(own(".b")), "b");
            return consumer.receive(SILENCE_MS) == null;
        });
    }
}
