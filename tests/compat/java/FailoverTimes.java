import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQXAConnection;
import org.apache.activemq.ScheduledMessage;

/** What is due, what expires, whose patience ends and who is interrupted while a connection fails: checks of `FailoverJudge`. */
final class FailoverTimes {
    private FailoverTimes() {}

    static void add(Map<String, FailoverJudge.Body> bodies) {
        scheduling(bodies);
        expiring(bodies);
        waiting(bodies);
        interrupting(bodies);
        failing(bodies);
    }

    private static void sleepUntil(long when_ms) throws InterruptedException {
        for (long left = when_ms - System.currentTimeMillis(); left > 0; left = when_ms - System.currentTimeMillis()) {
            Thread.sleep(left);
        }
    }

    // -- scheduled messages -------------------------------------------------------------------------------------------

    private static Message later(Session session, String text, long delay_ms) throws JMSException {
        Message message = session.createTextMessage(text);
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, delay_ms);
        return message;
    }

    private static Message repeated(Session session, String text, long delay_ms, long period_ms, int repeats) throws JMSException {
        Message message = later(session, text, delay_ms);
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_PERIOD, period_ms);
        message.setIntProperty(ScheduledMessage.AMQ_SCHEDULED_REPEAT, repeats);
        return message;
    }

    private static Message removal(Session session, String job) throws JMSException {
        Message message = session.createMessage();
        message.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION, ScheduledMessage.AMQ_SCHEDULER_ACTION_REMOVE);
        message.setStringProperty(ScheduledMessage.AMQ_SCHEDULED_ID, job);
        return message;
    }

    private static MessageProducer management(Session session) throws JMSException {
        return session.createProducer(session.createTopic(ScheduledMessage.AMQ_SCHEDULER_MANAGEMENT_DESTINATION));
    }

    /** What comes until a time, each by its text; those that have the id of another one are left out. */
    private static List<String> until(MessageConsumer consumer, long end_ms) throws JMSException {
        List<String> texts = new ArrayList<>();
        Set<String> known = new LinkedHashSet<>();
        for (long left = end_ms - System.currentTimeMillis(); left > 0; left = end_ms - System.currentTimeMillis()) {
            Message message = consumer.receive(left);
            if (message != null && known.add(message.getJMSMessageID())) {
                texts.add(((TextMessage) message).getText());
            }
        }
        return texts;
    }

    private static void scheduling(Map<String, FailoverJudge.Body> bodies) {
        for (FailoverJudge.Loss loss : FailoverJudge.Loss.values()) {
            bodies.put("a send for later and again, " + loss + " lost", judge -> {
                Session session = judge.session();
                MessageProducer producer = session.createProducer(judge.queue(session));
                Message message = repeated(session, "1", 1000, 4000, 2);
                List<Object> found = FailoverJudge.list(judge.failing(loss, FailoverJudge.TEXT, () -> producer.send(message)));
                found.add(until(session.createConsumer(judge.queue(session)), System.currentTimeMillis() + 15_000));
                return found;
            });
            bodies.put("a commit of sends for later, " + loss + " lost", judge -> {
                Session session = judge.transacted();
                MessageProducer producer = session.createProducer(judge.queue(session));
                producer.send(later(session, "later", 1000));
                producer.send(session.createTextMessage("at once"));
                List<Object> found = FailoverJudge.list(judge.failing(loss, FailoverJudge.TRANSACTION, session::commit));
                producer.send(later(session, "later, rolled back", 100));
                session.rollback();
                MessageConsumer consumer = session.createConsumer(judge.queue(session));
                List<String> texts = until(consumer, System.currentTimeMillis() + 4000);
                if (loss == FailoverJudge.Loss.REQUEST) { // the client says it again, or gives up: its threads race
                    return texts.equals(found.get(0).equals("done") ? Arrays.asList("at once", "later") : Collections.emptyList());
                }
                found.add(texts);
                return found;
            });
            bodies.put("a send for later is taken back, " + loss + " lost", judge -> {
                Session session = judge.session();
                MessageProducer producer = session.createProducer(judge.queue(session));
                MessageProducer management = management(session);
                List<String> jobs = new ArrayList<>();
                for (String text : FailoverJudge.numbers(3)) {
                    Message message = later(session, text, 9000);
                    producer.send(message);
                    jobs.add(message.getJMSMessageID());
                }
                management.send(removal(session, jobs.get(0)));
                List<Object> found = FailoverJudge.list(
                    judge.failing(loss, org.apache.activemq.command.CommandTypes.ACTIVEMQ_MESSAGE, () -> management.send(removal(session, jobs.get(1)))));
                found.add(until(session.createConsumer(judge.queue(session)), System.currentTimeMillis() + 11_000));
                return found;
            });
        }
        bodies.put("a send for later, which is due while nobody is there", judge -> {
            Session session = judge.session();
            MessageProducer producer = session.createProducer(judge.queue(session));
            long sent_ms = System.currentTimeMillis();
            producer.send(later(session, "1", 500));
            producer.send(later(session, "2", 4000));
            judge.refuse();
            sleepUntil(sent_ms + 1500);
            judge.opens();
            return FailoverJudge.list(until(session.createConsumer(judge.queue(session)), System.currentTimeMillis() + 8000));
        });
    }

    // -- messages that expire -------------------------------------------------------------------------------------------

    private static void sendBrief(Session session, javax.jms.Destination destination, long lives_ms, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        producer.setTimeToLive(lives_ms);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
    }

    @SuppressWarnings("unchecked")
    private static void expiring(Map<String, FailoverJudge.Body> bodies) {
        bodies.put("expired meanwhile, in a queue", judge -> {
            Session session = judge.session();
            long sent_ms = System.currentTimeMillis();
            sendBrief(session, judge.queue(session), 1500, "brief 1", "brief 2");
            FailoverJudge.send(session, judge.queue(session), "long");
            judge.refuse();
            sleepUntil(sent_ms + 2500);
            judge.opens();
            MessageConsumer consumer = session.createConsumer(judge.queue(session));
            List<Object> found = FailoverJudge.list(judge.rest(consumer));
            consumer.close();
            found.addAll(judge.left());
            return found;
        });
        for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE}) {
            bodies.put("expired meanwhile, at a consumer, mode " + mode, judge -> {
                Session session = judge.session(mode);
                Session sender = judge.session();
                MessageConsumer consumer = session.createConsumer(judge.queue(session));
                long sent_ms = System.currentTimeMillis();
                FailoverJudge.send(sender, judge.queue(session), "first");
                sendBrief(sender, judge.queue(session), 1500, "brief 1", "brief 2");
                FailoverJudge.send(sender, judge.queue(session), "long");
                judge.awaitDispatched(4);
                List<Object> found = FailoverJudge.list(FailoverJudge.got(consumer, 1));
                judge.refuse();
                sleepUntil(sent_ms + 2500);
                judge.opens();
                List<Object> all = FailoverJudge.list(judge.rest(consumer));
                consumer.close();
                session.close();
                List<Object> left = judge.left();
                List<String> dead = new ArrayList<>((List<String>) left.get(3));
                dead.remove("first"); // if its acknowledgement was lost, the client refuses it
                all.add(left.get(1));
                all.add("first");
                found.add(FailoverJudge.whole(all));
                found.add(dead);
                return found;
            });
        }
        bodies.put("expired meanwhile, received in a transaction", judge -> {
            Session session = judge.transacted();
            Session sender = judge.session();
            MessageConsumer consumer = session.createConsumer(judge.queue(session));
            long sent_ms = System.currentTimeMillis();
            sendBrief(sender, judge.queue(session), 1500, "brief 1", "brief 2");
            List<Object> found = FailoverJudge.list(FailoverJudge.got(consumer, 2));
            judge.refuse();
            sleepUntil(sent_ms + 2500);
            judge.opens();
            Object committed = FailoverJudge.outcome(session::commit);
            List<String> rest = judge.rest(consumer);
            consumer.close();
            session.close();
            found.add(rest);
            List<?> dead = (List<?>) judge.left().get(3);
            // done, and nothing is a dead letter; or not, and they have expired
            found.add(committed.equals("done") ? dead.isEmpty() || dead.size() == 2 : dead.size() == 2);
            return found;
        });
        bodies.put("expired meanwhile, in a durable subscription", judge -> {
            ActiveMQConnection connection = judge.connection();
            connection.setClientID(judge.own(".client"));
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createDurableSubscriber(judge.topic(session), "s").close();
            long sent_ms = System.currentTimeMillis();
            sendBrief(session, judge.topic(session), 1500, "brief 1", "brief 2");
            FailoverJudge.send(session, judge.topic(session), "long");
            judge.refuse();
            sleepUntil(sent_ms + 2500);
            judge.opens();
            return FailoverJudge.list(judge.rest(session.createDurableSubscriber(judge.topic(session), "s")));
        });
    }

    // -- who does not wait for ever -------------------------------------------------------------------------------------

    private static void waiting(Map<String, FailoverJudge.Body> bodies) {
        bodies.put("a send, answer lost, sendTimeout", judge -> {
            Session session = judge.session(Session.AUTO_ACKNOWLEDGE, "jms.sendTimeout=700");
            MessageProducer producer = session.createProducer(judge.queue(session));
            producer.send(session.createTextMessage("1"));
            FailoverJudge.Loss.ANSWER.ofNext(FailoverJudge.TEXT, judge);
            List<Object> found = FailoverJudge.list(FailoverJudge.outcome(() -> producer.send(session.createTextMessage("2"))));
            judge.fail();
            Session after = judge.session();
            FailoverJudge.send(after, judge.queue(after), "3");
            found.addAll(judge.left());
            return found;
        });
        bodies.put("a send in a transaction while nobody is there, timeout", judge -> {
            Session session = judge.transacted("timeout=700");
            MessageProducer producer = session.createProducer(judge.queue(session));
            producer.send(session.createTextMessage("1"));
            judge.refuse();
            FailoverJudge.outcome(() -> producer.send(session.createTextMessage("2"))); // it is given up, or its client has noticed nothing yet
            judge.opens();
            List<Object> found = FailoverJudge.list(FailoverJudge.outcome(session::rollback));
            producer.send(session.createTextMessage("3"));
            found.add(FailoverJudge.outcome(session::commit));
            found.addAll(judge.left());
            return found;
        });
    }

    // -- interrupted threads --------------------------------------------------------------------------------------------

    private static boolean isWaiting(Thread thread) {
        return Arrays.stream(thread.getStackTrace()).anyMatch(frame -> frame.getClassName().startsWith("org.apache.activemq.transport.failover")
            || frame.getMethodName().equals("dequeue") || frame.getClassName().endsWith("FutureResponse"));
    }

    /** Does something that waits for a broker, is interrupted while it does, and heard when there is one again. */
    private static Object interrupted(FailoverJudge judge, Judge.Action action) throws Exception {
        judge.refuseAll();
        FutureTask<Object> outcome = new FutureTask<>(() -> FailoverJudge.outcome(action));
        Thread thread = new Thread(outcome);
        thread.setDaemon(true);
        thread.start();
        long end = System.currentTimeMillis() + FailoverJudge.WAIT_MS;
        while (!outcome.isDone() && !isWaiting(thread) && System.currentTimeMillis() < end) {
            Thread.sleep(5);
        }
        while (!outcome.isDone() && System.currentTimeMillis() < end) { // the client swallows some
            thread.interrupt();
            Thread.sleep(100);
        }
        Object heard = outcome.get(1, TimeUnit.SECONDS);
        judge.opens();
        return heard;
    }

    /** An end of a transaction that the broker never hears of, and what the session can do after it. */
    private static void undecided(Map<String, FailoverJudge.Body> bodies) {
        for (boolean commits : new boolean[] {true, false}) {
            String end = commits ? "commit" : "rollback";
            bodies.put("interrupted: a " + end + " of sends", judge -> {
                Session session = judge.transacted();
                MessageProducer producer = session.createProducer(judge.queue(session));
                producer.send(session.createTextMessage("1"));
                producer.send(session.createTextMessage("2"));
                List<Object> found = FailoverJudge.list(interrupted(judge, commits ? session::commit : session::rollback));
                found.add(FailoverJudge.outcome(session::rollback));
                for (String text : new String[] {"3", "4"}) {
                    producer.send(session.createTextMessage(text));
                    found.add(FailoverJudge.outcome(session::commit));
                }
                found.addAll(judge.left());
                return found;
            });
            bodies.put("interrupted: a " + end + " of receipts", judge -> {
                Session session = judge.transacted("jms.prefetchPolicy.all=4");
                MessageConsumer consumer = judge.prefetching(session, 4);
                FailoverJudge.got(consumer, 2);
                List<Object> found = FailoverJudge.list(interrupted(judge, commits ? session::commit : session::rollback));
                goOn(judge, session, consumer, found);
                consumer.close();
                found.addAll(judge.left());
                return answers(found);
            });
            bodies.put("interrupted: a " + end + " of receipts of a durable subscription", judge -> {
                ActiveMQConnection connection = judge.connection();
                connection.setClientID(judge.own(".client"));
                connection.start();
                Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
                MessageConsumer consumer = session.createDurableSubscriber(judge.topic(session), "s");
                FailoverJudge.send(judge.session(), judge.topic(session), FailoverJudge.numbers(4));
                FailoverJudge.got(consumer, 2);
                List<Object> found = FailoverJudge.list(interrupted(judge, commits ? session::commit : session::rollback));
                goOn(judge, session, consumer, found);
                consumer.close();
                consumer = session.createDurableSubscriber(judge.topic(session), "s");
                found.add(judge.rest(consumer));
                found.add(FailoverJudge.outcome(session::commit));
                return answers(found);
            });
        }
    }

    /** Gives up the transaction whose end was interrupted, and receives the rest in two more. */
    private static void goOn(FailoverJudge judge, Session session, MessageConsumer consumer, List<Object> found) throws Exception {
        found.add(FailoverJudge.outcome(session::rollback));
        for (int round = 0; round < 2; round++) {
            found.add(judge.rest(consumer));
            found.add(FailoverJudge.outcome(session::commit));
        }
    }

    /** How the interrupted end, the rollback and both commits were answered, and whether all messages were there. */
    private static List<Object> answers(List<Object> found) {
        return Arrays.asList(found.get(0), found.get(1), found.get(3), found.get(5), FailoverJudge.whole(found.subList(1, found.size())));
    }

    /** A branch whose end the broker does not hear of, and what the session can do after it. */
    private static Object branches(FailoverJudge judge, String step, boolean isDecided) throws Exception {
        ActiveMQXAConnection connection = judge.xaConnection();
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        MessageProducer producer = session.createProducer(judge.queue(session));
        FailoverJudge.Branch branch = new FailoverJudge.Branch();
        FailoverJudge.Branch next = new FailoverJudge.Branch();
        resource.start(branch, XAResource.TMNOFLAGS);
        producer.send(session.createTextMessage("1"));
        resource.end(branch, XAResource.TMSUCCESS);
        if (step.endsWith("what is prepared")) {
            resource.prepare(branch);
        }
        List<Object> found = FailoverJudge.list();
        found.add(String.valueOf(interrupted(judge, () -> {
            if (step.startsWith("prepare")) {
                resource.prepare(branch);
            } else if (step.startsWith("commit")) {
                resource.commit(branch, !step.endsWith("what is prepared"));
            } else {
                resource.rollback(branch);
            }
        })));
        if (isDecided) {
            found.add(FailoverJudge.xa(FailoverJudge.done(() -> resource.rollback(branch))));
        }
        resource.start(next, XAResource.TMNOFLAGS);
        producer.send(session.createTextMessage("2"));
        resource.end(next, XAResource.TMSUCCESS);
        found.add(FailoverJudge.xa(FailoverJudge.done(() -> resource.commit(next, true))));
        boolean isInDoubt = FailoverJudge.isInDoubt(resource, branch);
        found.add("in doubt: " + isInDoubt);
        if (isInDoubt) {
            found.add(FailoverJudge.xa(FailoverJudge.done(() -> resource.rollback(branch))));
        }
        connection.close();
        found.addAll(judge.left());
        return found;
    }

    private static void subscribing(Map<String, FailoverJudge.Body> bodies) {
        for (String step : new String[] {"made", "closed", "unsubscribed"}) {
            bodies.put("interrupted: a durable subscription is " + step, judge -> {
                ActiveMQConnection connection = judge.connection();
                connection.setClientID(judge.own(".client"));
                connection.start();
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageConsumer consumer = step.equals("made") ? null : session.createDurableSubscriber(judge.topic(session), "s");
                if (step.equals("unsubscribed")) {
                    consumer.close();
                }
                List<Object> found = FailoverJudge.list(isThrown(interrupted(judge, () -> {
                    if (step.equals("made")) {
                        session.createDurableSubscriber(judge.topic(session), "s");
                    } else if (step.equals("closed")) {
                        consumer.close();
                    } else {
                        session.unsubscribe("s");
                    }
                })));
                found.add(FailoverJudge.outcome(() -> session.createDurableSubscriber(judge.topic(session), "s").close()));
                FailoverJudge.send(judge.session(), judge.topic(session), "1", "2");
                ActiveMQConnection again = judge.connection();
                found.add(isThrown(FailoverJudge.outcome(() -> again.setClientID(judge.own(".client")))));
                connection.close();
                ActiveMQConnection last = judge.connection();
                last.setClientID(judge.own(".client"));
                last.start();
                Session other = last.createSession(false, Session.AUTO_ACKNOWLEDGE);
                found.add(judge.rest(other.createDurableSubscriber(judge.topic(other), "s")));
                return found;
            });
        }
    }

    private static boolean isThrown(Object outcome) {
        return String.valueOf(outcome).startsWith("throws");
    }

    private static void interrupting(Map<String, FailoverJudge.Body> bodies) {
        undecided(bodies);
        subscribing(bodies);
        for (String step : new String[] {"prepare", "commit", "rollback", "commit of what is prepared", "rollback of what is prepared"}) {
            bodies.put("interrupted: XA " + step, judge -> branches(judge, step, true));
            bodies.put("interrupted: XA " + step + ", and never decided", judge -> branches(judge, step, false));
        }
        bodies.put("interrupted: a send", judge -> {
            Session session = judge.session();
            MessageProducer producer = session.createProducer(judge.queue(session));
            producer.send(session.createTextMessage("1"));
            List<Object> found = FailoverJudge.list(isThrown(interrupted(judge, () -> producer.send(session.createTextMessage("2")))));
            boolean isSent = !isThrown(FailoverJudge.outcome(() -> producer.send(session.createTextMessage("3")))); // its session may be closed
            List<String> texts = new ArrayList<>(FailoverJudge.whole(judge.left()));
            texts.remove("2"); // the client may have sent it when it was there again
            found.add(texts.equals(isSent ? Arrays.asList("1", "3") : Arrays.asList("1")));
            return found;
        });
        bodies.put("interrupted: an acknowledgement", judge -> {
            Session session = judge.session(Session.CLIENT_ACKNOWLEDGE, "jms.sendAcksAsync=false");
            MessageConsumer consumer = judge.prefetching(session, 3);
            Message last = FailoverJudge.next(consumer);
            List<Object> found = FailoverJudge.list(interrupted(judge, last::acknowledge));
            List<Object> all = FailoverJudge.list(judge.rest(consumer), "1");
            session.close();
            all.add(judge.left());
            found.add(FailoverJudge.whole(all));
            return found;
        });
        bodies.put("interrupted: a receive", judge -> {
            Session session = judge.session();
            MessageConsumer consumer = session.createConsumer(judge.queue(session));
            List<Object> found = FailoverJudge.list(interrupted(judge, () -> consumer.receive(20_000)));
            FailoverJudge.send(judge.session(), judge.queue(session), "1", "2");
            List<Object> all = FailoverJudge.list(judge.rest(consumer));
            consumer.close();
            all.add(judge.left());
            found.add(FailoverJudge.whole(all));
            return found;
        });
        bodies.put("interrupted: a consumer is made", judge -> {
            Session session = judge.session();
            List<Object> found = FailoverJudge.list(interrupted(judge, () -> session.createConsumer(judge.queue(session))));
            FailoverJudge.send(judge.session(), judge.queue(session), "1", "2");
            found.add(judge.rest(session.createConsumer(judge.queue(session))));
            return found;
        });
    }

    // -- exceptions in a transaction ------------------------------------------------------------------------------------

    private static void failing(Map<String, FailoverJudge.Body> bodies) {
        for (String sends : new String[] {"jms.useAsyncSend=true", "jms.alwaysSyncSend=true"}) {
            for (boolean isFirst : new boolean[] {true, false}) {
                bodies.put("a commit of what was refused " + (isFirst ? "before" : "after") + " the fault, " + sends, judge -> {
                    Session session = judge.transacted(sends, "jms.watchTopicAdvisories=false"); // it does not know what is deleted
                    ActiveMQConnection other = judge.started();
                    TemporaryQueue gone = other.createSession(false, Session.AUTO_ACKNOWLEDGE).createTemporaryQueue();
                    gone.delete();
                    MessageProducer producer = session.createProducer(null);
                    List<Object> found = FailoverJudge.list();
                    producer.send(judge.queue(session), session.createTextMessage("1"));
                    if (!isFirst) {
                        judge.fail();
                    }
                    found.add(FailoverJudge.outcome(() -> producer.send(gone, session.createTextMessage("2"))));
                    producer.send(judge.queue(session), session.createTextMessage("3"));
                    if (isFirst) {
                        judge.fail();
                    }
                    found.add(FailoverJudge.outcome(session::commit));
                    producer.send(judge.queue(session), session.createTextMessage("4"));
                    found.add(FailoverJudge.outcome(session::commit));
                    found.addAll(judge.left());
                    return found;
                });
            }
        }
    }
}
