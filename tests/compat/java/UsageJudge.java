import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQMessageConsumer;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.RedeliveryPolicy;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.ActiveMQTopic;
import org.apache.activemq.command.ConsumerControl;

/**
 * How programs use ActiveMQ's client: settings that are changed while it runs, ends in the middle of something, sessions
 * that redeliver. Prints {name, result}.
 *
 * <pre>
 *   UsageJudge BROKER_URL [TITLE...]
 * </pre>
 */
public final class UsageJudge extends Judge {
    private static final int[] MODES = {
        Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE,
        ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE, Session.SESSION_TRANSACTED,
    };
    private static final String AT_ONCE = "jms.redeliveryPolicy.initialRedeliveryDelay=0";

    private UsageJudge(String... arguments) {
        super(arguments);
    }

    public static void main(String[] arguments) {
        UsageJudge judge = new UsageJudge(arguments);
        judge.controlling();
        judge.selecting();
        judge.redelivering();
        judge.consuming();
        judge.stopping();
        judge.subscribing();
        judge.browsing();
        judge.carrying();
        judge.expiring();
    }

    private static Session opened(ActiveMQConnection connection, int mode) throws JMSException {
        return connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
    }

    private Session opened(int mode, String... options) throws JMSException {
        return opened(started(options), mode);
    }

    private static String described(List<Message> messages) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Message message : messages) {
            found.add(described(message));
        }
        return found.toString();
    }

    private static List<String> arrived(MessageConsumer consumer, int count, long wait_ms) throws JMSException {
        List<String> found = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Message message = consumer.receive(wait_ms);
            found.add(message == null ? "nothing" : described(message));
        }
        return found;
    }

    private static String[] numbers(int count) {
        String[] found = new String[count];
        for (int number = 0; number < count; number++) {
            found[number] = String.valueOf(number + 1);
        }
        return found;
    }

    // -- what is said about consumers while they run ---------------------------------------------------------------------

    private static void control(ActiveMQConnection connection, MessageConsumer consumer, Destination destination, int prefetch)
        throws JMSException {
        ConsumerControl control = new ConsumerControl();
        control.setConsumerId(((ActiveMQMessageConsumer) consumer).getConsumerId());
        control.setDestination((ActiveMQDestination) destination);
        control.setPrefetch(prefetch);
        connection.syncSendPacket(control);
    }

    private void controlling() {
        check("a larger prefetch, a smaller one", () -> {
            ActiveMQConnection connection = started("jms.prefetchPolicy.all=2");
            Session session = opened(connection, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(queue(session));
            send(session, queue(session), numbers(12));
            List<Object> found = new ArrayList<>();
            found.add(held(consumer, 2));
            control(connection, consumer, queue(session), 5);
            found.add(held(consumer, 5));
            control(connection, consumer, queue(session), 1);
            found.add(held(consumer, 5));
            for (int number = 0; number < 5; number++) {
                next(consumer).acknowledge();
            }
            found.add(held(consumer, 1));
            return found;
        });
        check("prefetch 0 for a while", () -> {
            ActiveMQConnection connection = started("jms.prefetchPolicy.all=1");
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            control(connection, consumer, queue(session), 0);
            send(session, queue(session), "1", "2");
            found.add(held(consumer, 0));
            control(connection, consumer, queue(session), 2);
            found.add(held(consumer, 2));
            return found;
        });
        check("control of a consumer that is none", () -> {
            ActiveMQConnection connection = started();
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(queue(session));
            consumer.close();
            return outcome(() -> control(connection, consumer, queue(session), 5));
        });
        check("a topic's prefetch is changed", () -> {
            ActiveMQConnection connection = started("jms.prefetchPolicy.all=2");
            Session session = opened(connection, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(topic(session));
            send(session, topic(session), numbers(8));
            List<Object> found = new ArrayList<>();
            found.add(held(consumer, 2));
            control(connection, consumer, topic(session), 6);
            found.add(held(consumer, 6));
            return found;
        });
    }

    // -- selectors on everything that a header says --------------------------------------------------------------------------

    private void selecting() {
        check("selectors on every header", () -> {
            Session session = session();
            TextMessage message = session.createTextMessage("x");
            message.setJMSType("type");
            message.setJMSCorrelationID("correlation");
            message.setJMSReplyTo(session.createQueue("REPLY.HERE"));
            message.setStringProperty("JMSXGroupID", "group");
            message.setIntProperty("JMSXGroupSeq", 3);
            message.setIntProperty("number", 4);
            message.setObjectProperty("JMS_own", "five");
            Map<String, Object> found = new java.util.LinkedHashMap<>();
            for (String selector : new String[] {
                "JMSType = 'type'", "JMSCorrelationID = 'correlation'", "JMSReplyTo = 'queue://REPLY.HERE'", "JMSReplyTo = 'REPLY.HERE'",
                "JMSReplyTo IS NOT NULL", "JMSXGroupID = 'group'", "JMSXGroupSeq = 3", "JMSXGroupSeq > 2", "JMSXDeliveryCount = 1",
                "JMSXDeliveryCount = 0", "JMSPriority = 4", "JMSPriority >= 7", "JMSDeliveryMode = 'PERSISTENT'", "JMSDeliveryMode = 2",
                "JMSDeliveryMode = 'NON_PERSISTENT'", "JMSRedelivered = FALSE", "JMSRedelivered = TRUE", "NOT JMSRedelivered", "JMSExpiration = 0",
                "JMSTimestamp > 0", "JMSTimestamp > 1000.5", "JMSMessageID LIKE 'ID:%'", "JMSMessageID IS NULL",
                "JMSDestination LIKE 'queue://J.%'", "JMSDestination IS NOT NULL", "JMSXUserID IS NULL", "JMSXProducerTXID IS NULL",
                "JMS_own = 'five'", "JMSActiveMQBrokerInTime > 0", "JMSActiveMQBrokerOutTime IS NULL", "JMSActiveMQBrokerPath IS NULL",
                "JMSXGroupFirstForConsumer = FALSE", "JMSXGroupFirstForConsumer = TRUE", "jmstype = 'type'", "number = 4 OR JMSXDeliveryCount > 9",
            }) {
                String name = own("." + found.size());
                MessageConsumer consumer = session.createConsumer(session.createQueue(name), selector);
                MessageConsumer all = session.createConsumer(session.createQueue(name + "?consumer.priority=-9")); // it gets what is left
                session.createProducer(session.createQueue(name)).send(message);
                found.put(selector, whoHas(consumer, all) == consumer);
                all.close();
                consumer.close();
            }
            return found;
        });
        check("selectors on what was redelivered", () -> {
            Session session = opened(Session.SESSION_TRANSACTED, AT_ONCE);
            send(session, queue(session), "1");
            session.commit();
            MessageConsumer consumer = session.createConsumer(queue(session));
            next(consumer);
            session.close();
            Session other = session();
            List<Object> found = new ArrayList<>();
            found.add(arrived(other.createConsumer(queue(other), "JMSRedelivered = FALSE"), 1, SILENCE_MS));
            MessageConsumer again = other.createConsumer(queue(other), "JMSXDeliveryCount = 2");
            found.add(arrived(again, 1, WAIT_MS));
            return found;
        });
        check("selectors that are none", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            for (String selector : new String[] {"", " ", "a =", "a = b = c", "= 3", "a IN ()", "a LIKE 'x' ESCAPE 'yy'", "a BETWEEN 1", "a IS", "'x",
                "a = 1 AND", "(a = 1", "a = 1)", "1 = 1", "TRUE", "a", "a + 1", "a LIKE 5", "a IN (1, 2)", "a = -", "NOT", "5", "'text'"}) {
                found.add(selector + ": " + outcome(() -> session.createConsumer(queue(session), selector).close()));
            }
            return found;
        });
    }

    // -- rollback, recover, close in every mode ---------------------------------------------------------------------------------

    private void redelivering() {
        for (int mode : MODES) {
            check("recover or rollback after some, mode " + mode, () -> {
                Session session = opened(mode, AT_ONCE);
                Session sender = session();
                send(sender, queue(sender), numbers(5));
                MessageConsumer consumer = session.createConsumer(queue(session));
                List<Object> found = new ArrayList<>();
                found.add(described(next(consumer)));
                Message second = next(consumer);
                found.add(described(second));
                if (mode == Session.CLIENT_ACKNOWLEDGE || mode == ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE) {
                    second.acknowledge();
                } else if (mode == Session.SESSION_TRANSACTED) {
                    session.commit();
                }
                found.add(described(next(consumer)));
                found.add(described(next(consumer)));
                found.add(outcome(() -> {
                    if (mode == Session.SESSION_TRANSACTED) {
                        session.rollback();
                    } else {
                        session.recover();
                    }
                }));
                List<Message> left = all(consumer);
                found.add(described(left));
                if (!left.isEmpty()) {
                    found.add(outcome(() -> left.get(left.size() - 1).acknowledge()));
                }
                if (mode == Session.SESSION_TRANSACTED) {
                    session.commit();
                }
                consumer.close();
                session.close();
                found.add(rest(sender));
                return found;
            });
            check("a consumer is closed, then its session, mode " + mode, () -> {
                Session session = opened(mode, AT_ONCE);
                Session sender = session();
                send(sender, queue(sender), numbers(3));
                MessageConsumer consumer = session.createConsumer(queue(session));
                List<Object> found = new ArrayList<>();
                found.add(arrived(consumer, 2, WAIT_MS));
                consumer.close();
                MessageConsumer other = sender.createConsumer(queue(sender));
                found.add(arrived(other, 1, mode == Session.SESSION_TRANSACTED ? 1000 : WAIT_MS)); // then the session still has it
                found.add(outcome(session::close));
                found.add(rest(other));
                return found;
            });
            check("a listener that closes its consumer, mode " + mode, () -> {
                Session session = opened(mode, AT_ONCE, "jms.prefetchPolicy.all=1");
                Session sender = session();
                send(sender, queue(sender), numbers(2));
                MessageConsumer consumer = session.createConsumer(queue(session));
                Told listeners = new Told();
                AtomicReference<Object> outcome = new AtomicReference<>();
                consumer.setMessageListener(message -> {
                    outcome.set(outcome(consumer::close));
                    listeners.add(Thread.currentThread());
                });
                for (Object listener : listeners.all(mode == Session.SESSION_TRANSACTED ? 2 : 1)) { // it closes when the transaction ends
                    untilListened((Thread) listener);
                }
                session.close();
                return Arrays.asList(outcome.get(), rest(sender));
            });
        }
        check("prefetch 0 that the policy says", () -> {
            Session session = session();
            Queue queue = session.createQueue("ASKED." + own(""));
            send(session, queue, "1", "2", "3");
            MessageConsumer one = session.createConsumer(queue);
            MessageConsumer other = session.createConsumer(queue);
            List<Object> found = new ArrayList<>();
            for (MessageConsumer consumer : Arrays.asList(other, one, one)) {
                Message message = null;
                for (long end = System.currentTimeMillis() + WAIT_MS; message == null && System.currentTimeMillis() < end;) {
                    message = consumer.receive(100); // which asks as soon as the client is told that it has to
                }
                found.add(message == null ? "nothing" : described(message));
            }
            found.add(other.receiveNoWait() == null);
            return found;
        });
        check("dispatch starts when there are enough consumers", () -> {
            Session session = session();
            Queue queue = session.createQueue("STARTED.BOTH." + own(""));
            List<Object> found = new ArrayList<>();
            for (int round = 0; round < 2; round++) { // after the last consumer it begins anew
                send(session, queue, "1", "2", "3", "4");
                MessageConsumer one = session.createConsumer(queue);
                found.add(one.receive(SILENCE_MS) == null);
                MessageConsumer other = session.createConsumer(queue);
                found.add(texts(one, 2));
                found.add(texts(other, 2));
                one.close();
                send(session, queue, "5");
                found.add(texts(other, 1));
                other.close();
            }
            return found;
        });
        for (String kind : new String[] {"COUNT", "TIME"}) {
            check("dispatch starts after a time, " + kind, () -> {
                Session session = session();
                Queue queue = session.createQueue("STARTED." + kind + "." + own(""));
                send(session, queue, "1", "2");
                MessageConsumer alone = session.createConsumer(queue);
                return Arrays.asList(alone.receive(SILENCE_MS) == null, texts(alone, 2));
            });
        }
        check("policies of single destinations", () -> {
            ActiveMQConnection connection = started();
            RedeliveryPolicy never = new RedeliveryPolicy();
            never.setMaximumRedeliveries(0);
            RedeliveryPolicy twice = new RedeliveryPolicy();
            twice.setMaximumRedeliveries(2);
            twice.setInitialRedeliveryDelay(0);
            twice.setRedeliveryDelay(0);
            connection.getRedeliveryPolicyMap().put(new ActiveMQQueue(own(".never")), never);
            connection.getRedeliveryPolicyMap().put(new ActiveMQQueue(own(".twice")), twice);
            Session session = opened(connection, Session.SESSION_TRANSACTED);
            List<Object> found = new ArrayList<>();
            for (String name : new String[] {own(".never"), own(".twice")}) {
                TextMessage message = session.createTextMessage(name);
                message.setStringProperty("mark", name);
                session.createProducer(session.createQueue(name)).send(message);
                session.commit();
                MessageConsumer consumer = session.createConsumer(session.createQueue(name));
                for (Message got = next(consumer); got != null; got = consumer.receive(1000)) {
                    found.add(described(got));
                    session.rollback();
                }
                session.commit();
                consumer.close();
                Session dead = session();
                Message letter = next(dead.createConsumer(dead.createQueue("ActiveMQ.DLQ"), "mark = '" + name + "'"));
                found.add(properties(letter).keySet());
                found.add(String.valueOf(letter.getStringProperty("dlqDeliveryFailureCause")).replaceAll("ID:[^ ]*", "ID")
                    .replaceAll("\\[[0-9]+\\]", "[]"));
            }
            return found;
        });
        check("a delay that grows", () -> {
            ActiveMQConnection connection = started("jms.redeliveryPolicy.initialRedeliveryDelay=0", "jms.redeliveryPolicy.redeliveryDelay=100",
                "jms.redeliveryPolicy.useExponentialBackOff=true", "jms.redeliveryPolicy.backOffMultiplier=3");
            Session session = opened(connection, Session.SESSION_TRANSACTED);
            send(session, queue(session), "1", "2");
            session.commit();
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            long start = System.nanoTime();
            for (long least_ms : new long[] {0, 0, 100, 300}) {
                found.add(described(next(consumer)));
                found.add(System.nanoTime() - start >= (least_ms - 20) * 1_000_000);
                if (least_ms < 300) {
                    start = System.nanoTime();
                    session.rollback();
                }
            }
            found.add(described(next(consumer)));
            session.commit();
            return found;
        });
        check("a listener that throws until it is a dead letter", () -> {
            ActiveMQConnection connection = started(AT_ONCE, "jms.redeliveryPolicy.redeliveryDelay=0", "jms.redeliveryPolicy.maximumRedeliveries=2");
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            TextMessage message = session.createTextMessage("poison");
            message.setStringProperty("mark", own(""));
            session.createProducer(queue(session)).send(message);
            List<String> heard = Collections.synchronizedList(new ArrayList<>());
            session.createConsumer(queue(session)).setMessageListener(got -> {
                heard.add(String.valueOf(attempt(() -> described(got))));
                throw new IllegalStateException("no");
            });
            Session dead = session();
            Message letter = next(dead.createConsumer(dead.createQueue("ActiveMQ.DLQ"), "mark = '" + own("") + "'"));
            return Arrays.asList(heard, String.valueOf(letter.getStringProperty("dlqDeliveryFailureCause")).replaceAll("ID:[^ ]*", "ID")
                .replaceAll("\\[[0-9]+\\]", "[]"), anonymous(((ActiveMQMessage) letter).getOriginalDestination()), letter.getJMSRedelivered());
        });
        check("many rollbacks of many", () -> {
            Session session = opened(Session.SESSION_TRANSACTED, AT_ONCE, "jms.redeliveryPolicy.maximumRedeliveries=-1", "jms.redeliveryPolicy.redeliveryDelay=0");
            send(session, queue(session), numbers(10));
            session.commit();
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            for (int round = 0; round < 8; round++) {
                for (int number = 0; number <= round; number++) {
                    next(consumer);
                }
                session.rollback();
            }
            found.add(arrived(consumer, 10, WAIT_MS));
            session.commit();
            return found;
        });
        check("shared queue, one rolls back and closes, time after time", () -> {
            ActiveMQConnection connection = started(AT_ONCE);
            Session sender = session();
            send(sender, queue(sender), numbers(20));
            List<String> done = new ArrayList<>();
            for (int round = 0; round < 40 && done.size() < 20; round++) {
                Session session = opened(connection, Session.SESSION_TRANSACTED);
                MessageConsumer consumer = session.createConsumer(queue(session));
                Message got = next(consumer);
                if (round % 2 == 0) {
                    session.rollback();
                } else {
                    done.add(((TextMessage) got).getText());
                    session.commit();
                }
                session.close();
            }
            return done;
        });
    }

    // -- consumers ------------------------------------------------------------------------------------------------------------

    private void consuming() {
        check("prefetch 1 and several without acknowledgement", () -> {
            Session session = opened(Session.CLIENT_ACKNOWLEDGE, "jms.prefetchPolicy.all=1");
            send(session, queue(session), numbers(4));
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            List<Message> got = new ArrayList<>();
            for (int number = 0; number < 4; number++) {
                got.add(next(consumer));
            }
            found.add(described(got));
            got.get(got.size() - 1).acknowledge();
            found.add(arrived(consumer, 1, SILENCE_MS));
            session.close();
            found.add(rest(session()));
            return found;
        });
        check("prefetch 1 in a transaction of ten", () -> {
            Session session = opened(Session.SESSION_TRANSACTED, "jms.prefetchPolicy.all=1");
            send(session, queue(session), numbers(10));
            session.commit();
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            found.add(arrived(consumer, 10, WAIT_MS));
            session.commit();
            session.close();
            found.add(rest(session()));
            return found;
        });
        check("prefetch 0 in a transaction, two by two", () -> {
            Session session = opened(Session.SESSION_TRANSACTED, "jms.prefetchPolicy.all=0", AT_ONCE);
            send(session, queue(session), numbers(4));
            session.commit();
            List<Object> found = new ArrayList<>();
            MessageConsumer consumer = session.createConsumer(queue(session));
            found.add(arrived(consumer, 2, WAIT_MS));
            session.commit();
            found.add(arrived(consumer, 2, WAIT_MS));
            session.rollback();
            consumer.close();
            MessageConsumer other = session.createConsumer(queue(session));
            found.add(arrived(other, 2, WAIT_MS));
            found.add(arrived(other, 1, 500));
            session.commit();
            return found;
        });
        check("prefetch 0 and waits that end", () -> {
            Session session = opened(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=0");
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            long start = System.nanoTime();
            found.add(consumer.receive(200) == null);
            long waited_ms = (System.nanoTime() - start) / 1_000_000;
            found.add(waited_ms >= 190 && waited_ms < WAIT_MS);
            found.add(consumer.receiveNoWait() == null);
            Thread sending = new Thread(() -> outcome(() -> {
                Thread.sleep(100);
                Session other = session();
                send(other, queue(other), "late");
            }));
            sending.start();
            found.add(described(consumer.receive(WAIT_MS)));
            sending.join();
            found.add(consumer.receive(1) == null);
            return found;
        });
        check("prefetch 0 of a durable subscription", () -> {
            ActiveMQConnection connection = connection("jms.prefetchPolicy.all=0");
            connection.setClientID(own(""));
            connection.start();
            Session session = opened(connection, Session.CLIENT_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "pull");
            send(session, topic(session), numbers(3));
            for (int number = 0; number < 3; number++) {
                Message message = consumer.receive(WAIT_MS);
                found.add(described(message));
                message.acknowledge();
            }
            found.add(consumer.receive(SILENCE_MS) == null);
            found.add(consumer.receiveNoWait() == null);
            consumer.close();
            found.add(outcome(() -> session.unsubscribe("pull")));
            return found;
        });
        check("a consumer that is stopped", () -> {
            Session session = session();
            ActiveMQMessageConsumer consumer = (ActiveMQMessageConsumer) session.createConsumer(queue(session));
            AtomicInteger heard = new AtomicInteger();
            CountDownLatch first = new CountDownLatch(1);
            CountDownLatch all = new CountDownLatch(3);
            consumer.setMessageListener(message -> {
                heard.incrementAndGet();
                first.countDown();
                all.countDown();
            });
            send(session, queue(session), "1");
            first.await(WAIT_MS, TimeUnit.MILLISECONDS);
            consumer.stop();
            send(session, queue(session), "2", "3");
            Thread.sleep(SILENCE_MS);
            int before = heard.get();
            consumer.start();
            return Arrays.asList(before, all.await(WAIT_MS, TimeUnit.MILLISECONDS));
        });
        check("consumers made by a listener", () -> {
            ActiveMQConnection connection = started();
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            Topic second = session.createTopic(own(".second"));
            CountDownLatch done = new CountDownLatch(1);
            AtomicReference<Object> told = new AtomicReference<>();
            session.createConsumer(topic(session)).setMessageListener(message -> told.set(outcome(() -> {
                MessageConsumer inner = session.createConsumer(second);
                session.createProducer(second).send(message);
                inner.setMessageListener(again -> done.countDown());
            })));
            Session sender = session();
            send(sender, topic(sender), "x");
            return Arrays.asList(done.await(WAIT_MS, TimeUnit.MILLISECONDS), told.get());
        });
        check("an exclusive consumer hands over what it did not acknowledge", () -> {
            Session first = opened(Session.CLIENT_ACKNOWLEDGE);
            Session second = opened(Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer one = first.createConsumer(first.createQueue(own("") + "?consumer.exclusive=true"));
            MessageConsumer two = second.createConsumer(second.createQueue(own("") + "?consumer.exclusive=true"));
            Session sender = session();
            send(sender, queue(sender), numbers(4));
            List<Object> found = new ArrayList<>();
            Message got = next(one);
            found.add(described(got));
            got.acknowledge();
            found.add(described(next(one)));
            found.add(two.receive(SILENCE_MS) == null);
            first.close();
            found.add(arrived(two, 3, WAIT_MS));
            return found;
        });
        check("an exclusive consumer whose connection is gone", () -> {
            ActiveMQConnection connection = started();
            Session first = opened(connection, Session.SESSION_TRANSACTED);
            Session second = session();
            MessageConsumer one = first.createConsumer(first.createQueue(own("") + "?consumer.exclusive=true&consumer.priority=5"));
            MessageConsumer two = second.createConsumer(second.createQueue(own("") + "?consumer.exclusive=true"));
            send(second, queue(second), numbers(3));
            List<Object> found = new ArrayList<>();
            found.add(arrived(one, 2, WAIT_MS));
            connection.close();
            found.add(arrived(two, 3, WAIT_MS));
            return found;
        });
        check("composites of one destination", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            for (String name : new String[] {own("") + "," + own(""), own("") + ",", "," + own(""), own("") + ",," + own("") + "?a=b"}) {
                for (Destination composite : new Destination[] {session.createQueue(name), session.createTopic(name)}) {
                    for (Destination single : new Destination[] {queue(session), topic(session)}) {
                        MessageConsumer consumer = session.createConsumer(single);
                        MessageConsumer same = session.createConsumer(composite);
                        send(session, composite, "x");
                        boolean isForBoth = composite instanceof Topic && single instanceof Topic;
                        List<String> got = new ArrayList<>();
                        for (List<Message> some : shared(isForBoth ? 2 : 1, consumer, same)) {
                            got.add(described(some));
                        }
                        Collections.sort(got); // which of the two consumers of a queue gets it is nobody's promise
                        found.add(got);
                        consumer.close();
                        same.close();
                    }
                }
            }
            return found;
        });
        check("not dispatched asynchronously", () -> {
            Session session = opened(Session.AUTO_ACKNOWLEDGE, "jms.dispatchAsync=false", "jms.alwaysSessionAsync=false");
            send(session, queue(session), numbers(3));
            List<Object> found = new ArrayList<>(arrived(session.createConsumer(queue(session)), 3, WAIT_MS));
            MessageConsumer topic = session.createConsumer(session.createTopic(own("") + "?consumer.dispatchAsync=false"));
            send(session, topic(session), "t");
            found.addAll(arrived(topic, 1, WAIT_MS));
            return found;
        });
        check("optimised acknowledgement, and what is closed early", () -> {
            Session session = opened(Session.AUTO_ACKNOWLEDGE, "jms.optimizeAcknowledge=true", "jms.optimizeAcknowledgeTimeOut=0",
                "jms.prefetchPolicy.all=100");
            Session sender = session();
            send(sender, queue(sender), numbers(20));
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>(arrived(consumer, 7, WAIT_MS));
            consumer.close();
            found.add(rest(sender));
            return found;
        });
        check("optimised acknowledgement by time", () -> {
            Session session = opened(Session.AUTO_ACKNOWLEDGE, "jms.optimizeAcknowledge=true", "jms.optimizeAcknowledgeTimeOut=100",
                "jms.prefetchPolicy.all=100");
            Session sender = session();
            send(sender, queue(sender), numbers(5));
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>(arrived(consumer, 3, WAIT_MS));
            Thread.sleep(300);
            found.addAll(arrived(consumer, 2, WAIT_MS));
            session.close();
            found.add(rest(sender));
            return found;
        });
        check("a queue's messages move between two listeners of one session", () -> {
            Session session = session();
            List<String> heard = Collections.synchronizedList(new ArrayList<>());
            CountDownLatch all = new CountDownLatch(10);
            for (int number = 0; number < 2; number++) {
                session.createConsumer(queue(session)).setMessageListener(message -> {
                    heard.add(String.valueOf(attempt(() -> described(message))));
                    all.countDown();
                });
            }
            Session sender = session();
            send(sender, queue(sender), numbers(10));
            boolean done = all.await(WAIT_MS, TimeUnit.MILLISECONDS);
            List<String> sorted = new ArrayList<>(heard);
            Collections.sort(sorted);
            return Arrays.asList(done, sorted);
        });
        check("groups go to as many as there are", () -> {
            Session one = session();
            Session two = session();
            MessageConsumer first = one.createConsumer(queue(one));
            MessageConsumer second = two.createConsumer(queue(two));
            MessageProducer producer = one.createProducer(queue(one));
            for (int number = 0; number < 12; number++) {
                TextMessage message = one.createTextMessage("g" + number % 4);
                message.setStringProperty("JMSXGroupID", "g" + number % 4);
                producer.send(message);
            }
            List<String> to_first = arrived(first, 6, WAIT_MS);
            List<String> to_second = arrived(second, 6, WAIT_MS);
            Collections.sort(to_first);
            Collections.sort(to_second);
            return Arrays.asList(to_first, to_second);
        });
    }

    // -- start, stop and close ---------------------------------------------------------------------------------------------------

    private void stopping() {
        check("a connection is stopped while somebody receives", () -> {
            ActiveMQConnection connection = started();
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(queue(session));
            connection.stop();
            Session sender = session();
            send(sender, queue(sender), "1", "2");
            List<Object> found = new ArrayList<>();
            found.add(consumer.receive(SILENCE_MS) == null);
            found.add(consumer.receiveNoWait() == null);
            connection.start();
            found.add(described(next(consumer)));
            connection.stop();
            connection.stop();
            found.add(consumer.receive(SILENCE_MS) == null);
            found.add(outcome(() -> send(session, session.createQueue(own(".other")), "sent while stopped")));
            connection.start();
            connection.start();
            found.add(described(next(consumer)));
            return found;
        });
        check("connections that are closed by another thread", () -> {
            List<Object> found = new ArrayList<>();
            for (String prefetch : new String[] {"0", "1", "1000"}) {
                ActiveMQConnection connection = started("jms.prefetchPolicy.all=" + prefetch);
                Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
                MessageConsumer consumer = session.createConsumer(queue(session));
                AtomicReference<Object> got = new AtomicReference<>("waits");
                Thread waiting = new Thread(() -> got.set(attempt(() -> consumer.receive())));
                waiting.start();
                untilReceiving(waiting);
                found.add(outcome(connection::close));
                waiting.join(WAIT_MS);
                found.add(got.get());
                found.add(attempt(consumer::receiveNoWait));
                found.add(outcome(session::close));
                found.add(outcome(consumer::close));
                found.add(outcome(connection::close));
            }
            return found;
        });
        check("a session is closed while another thread sends", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(queue(session));
            AtomicInteger sent = new AtomicInteger();
            AtomicReference<Object> end = new AtomicReference<>();
            Thread sending = new Thread(() -> end.set(outcome(() -> {
                while (true) {
                    producer.send(session.createTextMessage("x"));
                    sent.incrementAndGet();
                }
            })));
            sending.start();
            while (sent.get() < 20) {
                Thread.sleep(1);
            }
            session.close();
            sending.join(WAIT_MS);
            int there = rest(session()).size();
            return Arrays.asList(end.get(), there >= sent.get() && there <= sent.get() + 1);
        });
        check("many temporary queues", () -> {
            Session session = session();
            int got = 0;
            for (int number = 0; number < 50; number++) {
                TemporaryQueue queue = session.createTemporaryQueue();
                MessageConsumer consumer = session.createConsumer(queue);
                send(session, queue, "x");
                got += consumer.receive(WAIT_MS) == null ? 0 : 1;
                consumer.close();
                queue.delete();
            }
            return got;
        });
        check("a temporary queue that is made before the start", () -> {
            ActiveMQConnection connection = connection();
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            TemporaryQueue queue = session.createTemporaryQueue();
            MessageConsumer consumer = session.createConsumer(queue);
            send(session, queue, "early");
            connection.start();
            return arrived(consumer, 1, WAIT_MS);
        });
        check("a temporary queue is deleted while others send to it", () -> {
            Session owner = session();
            TemporaryQueue queue = owner.createTemporaryQueue();
            MessageConsumer consumer = owner.createConsumer(queue);
            Session sender = session();
            MessageProducer producer = sender.createProducer(Temporary.known(sender, queue));
            producer.send(sender.createTextMessage("1"));
            List<Object> found = new ArrayList<>();
            found.add(described(next(consumer)));
            found.add(outcome(queue::delete));
            consumer.close();
            found.add(outcome(queue::delete));
            Temporary.gone(sender, queue);
            found.add(outcome(() -> producer.send(sender.createTextMessage("2"))));
            found.add(outcome(() -> owner.createConsumer(queue)));
            return found;
        });
    }

    // -- durable subscriptions -------------------------------------------------------------------------------------------------------

    private ActiveMQConnection identified(String suffix, String... options) throws JMSException {
        ActiveMQConnection connection = connection(options);
        connection.setClientID(own(suffix));
        connection.start();
        return connection;
    }

    private void subscribing() {
        check("a durable subscription with another selector", () -> {
            ActiveMQConnection connection = identified("");
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            session.createDurableSubscriber(topic(session), "s", "colour = 'red'", false).close();
            for (String colour : new String[] {"red", "blue"}) {
                TextMessage message = session.createTextMessage(colour);
                message.setStringProperty("colour", colour);
                session.createProducer(topic(session)).send(message);
            }
            MessageConsumer other = session.createDurableSubscriber(topic(session), "s", "colour = 'blue'", false);
            found.add(arrived(other, 1, SILENCE_MS));
            for (String colour : new String[] {"red", "blue"}) {
                TextMessage message = session.createTextMessage(colour + " later");
                message.setStringProperty("colour", colour);
                session.createProducer(topic(session)).send(message);
            }
            found.add(arrived(other, 1, WAIT_MS));
            found.add(arrived(other, 1, SILENCE_MS));
            other.close();
            session.unsubscribe("s");
            return found;
        });
        check("unsubscribe while it is in use, by others too", () -> {
            ActiveMQConnection connection = identified("");
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "s");
            Session other = opened(connection, Session.AUTO_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            found.add(outcome(() -> other.unsubscribe("s")));
            found.add(outcome(() -> other.createDurableSubscriber(topic(other), "s")));
            found.add(outcome(() -> other.unsubscribe("unknown")));
            send(session, topic(session), "still there");
            found.add(arrived(consumer, 1, WAIT_MS));
            consumer.close();
            found.add(outcome(() -> other.unsubscribe("s")));
            return found;
        });
        check("many messages wait for a durable subscription", () -> {
            ActiveMQConnection connection = identified("", "jms.prefetchPolicy.durableTopicPrefetch=10");
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            session.createDurableSubscriber(topic(session), "s").close();
            send(session, topic(session), numbers(150));
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "s");
            List<Object> found = new ArrayList<>();
            found.add(arrived(consumer, 50, WAIT_MS).size());
            consumer.close();
            consumer = session.createDurableSubscriber(topic(session), "s");
            found.add(texts(consumer, 100).size());
            consumer.close();
            session.unsubscribe("s");
            return found;
        });
        check("what a durable subscriber had, but did not acknowledge", () -> {
            ActiveMQConnection connection = identified("", AT_ONCE);
            Session session = opened(connection, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "s");
            send(session, topic(session), numbers(4));
            List<Object> found = new ArrayList<>();
            found.add(described(next(consumer)));
            Message second = next(consumer);
            second.acknowledge();
            found.add(described(next(consumer)));
            connection.close();
            ActiveMQConnection again = identified("");
            Session other = opened(again, Session.SESSION_TRANSACTED);
            MessageConsumer reader = other.createDurableSubscriber(topic(other), "s");
            found.add(arrived(reader, 2, WAIT_MS));
            found.add(arrived(reader, 1, SILENCE_MS));
            other.rollback();
            reader.close();
            reader = other.createDurableSubscriber(topic(other), "s");
            for (Message got : shared(2, reader).get(0)) {
                found.add(((TextMessage) got).getText() + got.getJMSRedelivered());
            }
            other.commit();
            reader.close();
            other.unsubscribe("s");
            return found;
        });
        check("a durable subscriber that rolls back and closes", () -> {
            ActiveMQConnection connection = identified("", AT_ONCE, "jms.redeliveryPolicy.redeliveryDelay=0");
            Session session = opened(connection, Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "s");
            Session sender = session();
            send(sender, topic(sender), numbers(3));
            List<Object> found = new ArrayList<>();
            for (int round = 0; round < 3; round++) {
                for (int time = 0; time <= round % 2; time++) {
                    found.add(arrived(consumer, 2, WAIT_MS));
                    session.rollback();
                }
                consumer.close();
                consumer = session.createDurableSubscriber(topic(session), "s");
            }
            found.add(arrived(consumer, 1, WAIT_MS));
            session.commit();
            connection.close();
            session = opened(identified("", AT_ONCE), Session.SESSION_TRANSACTED);
            consumer = session.createDurableSubscriber(topic(session), "s");
            found.add(arrived(consumer, 2, WAIT_MS));
            session.commit();
            consumer.close();
            session.unsubscribe("s");
            return found;
        });
        check("retroactive durable subscription", () -> {
            ActiveMQConnection connection = identified("");
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            send(session, topic(session), "before");
            Topic topic = session.createTopic(own("") + "?consumer.retroactive=true");
            MessageConsumer consumer = session.createDurableSubscriber(topic, "s");
            send(session, topic(session), "after");
            List<Object> found = new ArrayList<>(arrived(consumer, 1, WAIT_MS));
            found.addAll(arrived(consumer, 1, 500));
            consumer.close();
            session.unsubscribe("s");
            return found;
        });
    }

    // -- browsers -----------------------------------------------------------------------------------------------------------------------

    private static int count(QueueBrowser browser) throws JMSException {
        return Collections.list(browser.getEnumeration()).size();
    }

    private void browsing() {
        check("browsing while somebody sends", () -> {
            Session session = session();
            send(session, queue(session), numbers(50));
            AtomicReference<Object> ended = new AtomicReference<>();
            Thread sending = new Thread(() -> ended.set(outcome(() -> {
                Session other = session();
                for (int number = 0; number < 100; number++) {
                    send(other, queue(other), "more");
                }
            })));
            sending.start();
            boolean enough = true;
            for (int round = 0; round < 5; round++) {
                enough &= count(session.createBrowser(queue(session))) >= 50;
            }
            sending.join();
            return Arrays.asList(enough, ended.get(), count(session.createBrowser(queue(session))));
        });
        check("browsing with a selector, what others hold, and nothing", () -> {
            Session session = session();
            Session holding = opened(Session.CLIENT_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            found.add(count(session.createBrowser(queue(session))));
            MessageProducer producer = session.createProducer(queue(session));
            for (int number = 0; number < 10; number++) {
                Message message = session.createMessage();
                message.setIntProperty("number", number);
                producer.send(message);
            }
            found.add(count(session.createBrowser(queue(session), "number < 3")));
            MessageConsumer holder = holding.createConsumer(queue(holding));
            next(holder);
            found.add(count(session.createBrowser(queue(session))));
            found.add(outcome(() -> session.createBrowser(queue(session), "number <")));
            QueueBrowser browser = session.createBrowser(queue(session));
            found.add(browser.getMessageSelector() + " " + anonymous(browser.getQueue()));
            found.add(count(browser) + " " + count(browser));
            browser.close();
            found.add(attempt(() -> browser.getEnumeration()));
            return found;
        });
        check("browsing before the connection starts", () -> {
            Session session = session();
            send(session, queue(session), numbers(3));
            Session other = opened(connection(), Session.AUTO_ACKNOWLEDGE);
            return outcome(() -> count(other.createBrowser(queue(other))));
        });
    }

    // -- what messages carry --------------------------------------------------------------------------------------------------------------

    private void carrying() {
        check("maps and lists in properties and bodies", () -> {
            List<Object> found = new ArrayList<>();
            for (String nested : new String[] {"true", "false"}) {
                Session session = opened(Session.AUTO_ACKNOWLEDGE, "jms.nestedMapAndListEnabled=" + nested);
                Map<String, Object> map = new HashMap<>();
                map.put("inner", new ArrayList<>(Arrays.asList("a", 1, 2.5, true)));
                map.put("deep", new HashMap<>(Collections.singletonMap("key", "value")));
                MapMessage message = session.createMapMessage();
                found.add(outcome(() -> message.setObject("map", map)));
                found.add(outcome(() -> message.setObjectProperty("list", Arrays.asList(1, "b"))));
                session.createProducer(queue(session)).send(message);
                MessageConsumer consumer = session.createConsumer(queue(session));
                MapMessage got = (MapMessage) next(consumer);
                found.add(String.valueOf(got.getObject("map")));
                found.add(String.valueOf(got.getObjectProperty("list")));
                consumer.close();
            }
            return found;
        });
        check("ten megabytes", () -> {
            List<Object> found = new ArrayList<>();
            byte[] bytes = new byte[10 << 20];
            new java.util.Random(5).nextBytes(bytes);
            for (String option : new String[] {"jms.useCompression=false", "jms.useCompression=true"}) {
                Session session = opened(Session.AUTO_ACKNOWLEDGE, option);
                BytesMessage message = session.createBytesMessage();
                message.writeBytes(bytes);
                MessageProducer producer = session.createProducer(queue(session));
                producer.send(message);
                MessageConsumer consumer = session.createConsumer(queue(session));
                BytesMessage got = (BytesMessage) next(consumer);
                byte[] read = new byte[bytes.length];
                found.add(got.readBytes(read));
                found.add(Arrays.equals(bytes, read));
                consumer.close();
            }
            return found;
        });
        check("the same object is sent again and again", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(queue(session));
            MessageConsumer consumer = session.createConsumer(queue(session));
            ArrayList<String> list = new ArrayList<>();
            ObjectMessage message = session.createObjectMessage();
            List<Object> found = new ArrayList<>();
            for (int number = 0; number < 3; number++) {
                list.add("n" + number);
                message.setObject(list);
                message.setIntProperty("number", number);
                producer.send(message);
            }
            for (int number = 0; number < 3; number++) {
                ObjectMessage got = (ObjectMessage) next(consumer);
                found.add(got.getObject() + " " + got.getIntProperty("number"));
            }
            return found;
        });
        check("a producer's mode is changed", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(queue(session));
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            for (int mode : new int[] {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT, DeliveryMode.PERSISTENT}) {
                producer.setDeliveryMode(mode);
                Message message = session.createMessage();
                message.setJMSDeliveryMode(3 - mode);
                producer.send(message);
                found.add(next(consumer).getJMSDeliveryMode());
            }
            return found;
        });
        check("a session for each message, as templates do", () -> {
            ActiveMQConnection connection = started();
            for (int number = 0; number < 40; number++) {
                Session session = opened(connection, number % 2 == 0 ? Session.SESSION_TRANSACTED : Session.AUTO_ACKNOWLEDGE);
                send(session, queue(session), String.valueOf(number));
                if (number % 2 == 0) {
                    session.commit();
                }
                session.close();
            }
            List<Object> found = new ArrayList<>();
            for (int number = 0; number < 40; number++) {
                Session session = opened(connection, Session.SESSION_TRANSACTED);
                MessageConsumer consumer = session.createConsumer(queue(session));
                found.add(((TextMessage) next(consumer)).getText());
                session.commit();
                consumer.close();
                session.close();
            }
            return found;
        });
        check("a reply to whom asks, over topics", () -> {
            Session asking = session();
            Session answering = session();
            MessageConsumer questions = answering.createConsumer(topic(answering));
            questions.setMessageListener(question -> outcome(() -> {
                MessageProducer producer = answering.createProducer(null);
                TextMessage answer = answering.createTextMessage("to " + ((TextMessage) question).getText());
                answer.setJMSCorrelationID(question.getJMSMessageID());
                producer.send(Temporary.known(answering, question.getJMSReplyTo()), answer);
            }));
            List<Object> found = new ArrayList<>();
            for (Destination reply : new Destination[] {asking.createTemporaryTopic(), asking.createTemporaryQueue(), queue(asking)}) {
                MessageConsumer answers = asking.createConsumer(reply);
                TextMessage question = asking.createTextMessage("x");
                question.setJMSReplyTo(reply);
                asking.createProducer(topic(asking)).send(question);
                Message answer = next(answers);
                found.add(described(answer) + answer.getJMSCorrelationID().equals(question.getJMSMessageID()));
            }
            return found;
        });
        check("names of destinations, from and to text", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            for (String name : new String[] {"queue://" + own(""), "topic://" + own(""), own("")}) {
                found.add(anonymous(session.createQueue(name)));
                found.add(anonymous(session.createTopic(name)));
            }
            found.add(ActiveMQDestination.createDestination("topic://x", (byte) 1) instanceof ActiveMQTopic);
            return found;
        });
    }

    // -- expiry ------------------------------------------------------------------------------------------------------------------------------

    private void expiring() {
        check("what expires is a dead letter if it is persistent", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            for (int mode : new int[] {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT}) {
                MessageProducer producer = session.createProducer(queue(session));
                producer.setDeliveryMode(mode);
                producer.setTimeToLive(30);
                TextMessage message = session.createTextMessage("mode " + mode);
                message.setStringProperty("mark", own(""));
                producer.send(message);
                Thread.sleep(60);
                MessageConsumer consumer = session.createConsumer(queue(session));
                found.add(consumer.receive(SILENCE_MS) == null);
                Message letter = session.createConsumer(session.createQueue("ActiveMQ.DLQ"), "mark = '" + own("") + "'")
                    .receive(mode == DeliveryMode.PERSISTENT ? WAIT_MS : 500);
                if (letter == null) {
                    found.add("no letter");
                } else {
                    found.add(properties(letter).keySet());
                    found.add(described(letter) + " " + letter.getJMSDeliveryMode() + " " + letter.getJMSExpiration());
                }
                consumer.close(); // only now: as long as somebody wants it, the broker looks whether it has expired
            }
            return found;
        });
        check("a dead letter that is sent again, and is one again", () -> {
            Session session = opened(Session.SESSION_TRANSACTED, "jms.redeliveryPolicy.maximumRedeliveries=0");
            Session other = session();
            MessageConsumer consumer = session.createConsumer(queue(session));
            MessageConsumer letters = other.createConsumer(other.createQueue("ActiveMQ.DLQ"), "mark = '" + own("") + "'");
            MessageProducer producer = other.createProducer(queue(other));
            Message message = other.createTextMessage("sent again");
            message.setStringProperty("mark", own(""));
            List<Object> found = new ArrayList<>();
            for (long lives_ms : new long[] {100_000, 200_000, 0}) {
                producer.send(message, DeliveryMode.PERSISTENT, 4, lives_ms);
                long expiration = next(consumer).getJMSExpiration();
                session.rollback();
                long before = message.propertyExists("originalExpiration") ? message.getLongProperty("originalExpiration") : expiration;
                message = next(letters);
                found.add(properties(message).keySet());
                found.add(message.getLongProperty("originalExpiration") == before);
            }
            return found;
        });
        check("what expires in a durable subscription and in a topic", () -> {
            ActiveMQConnection connection = identified("");
            Session session = opened(connection, Session.AUTO_ACKNOWLEDGE);
            session.createDurableSubscriber(topic(session), "s").close();
            MessageProducer producer = session.createProducer(topic(session));
            producer.setTimeToLive(30);
            producer.send(session.createTextMessage("short"));
            producer.setTimeToLive(0);
            producer.send(session.createTextMessage("long"));
            Thread.sleep(60);
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "s");
            List<Object> found = new ArrayList<>(arrived(consumer, 1, WAIT_MS));
            consumer.close();
            session.unsubscribe("s");
            return found;
        });
        check("a time that is long over, and one that is far", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(queue(session));
            producer.send(session.createTextMessage("far"), DeliveryMode.PERSISTENT, 4, Long.MAX_VALUE / 4);
            Message got = next(session.createConsumer(queue(session)));
            return described(got) + (got.getJMSExpiration() - got.getJMSTimestamp());
        });
    }
}
