import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.ActiveMQXAConnection;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.CommandTypes;

/**
 * What a client with the failover transport hears when its connection fails in the middle of something. Prints {name, result}.
 *
 * <pre>
 *   FailoverJudge CONTROL_PORT HOST:PORT[,HOST:PORT] FAULT[,FAULT] [PATTERN]
 * </pre>
 *
 * A fault is "cut", a check's connection is; "unnoticed", it is, and the broker does not notice; or "killed", the broker is, once for
 * all checks: this writes "kill" and "start" to the control port, and waits for an answer to each. Only checks whose titles match the
 * pattern are done, otherwise all.
 */
public final class FailoverJudge extends Judge {
    enum Fault {
        CUT, UNNOTICED, KILLED;

        @Override
        public String toString() {
            return name().toLowerCase();
        }
    }

    /** What is lost at the fault. */
    enum Loss {
        REQUEST, ANSWER;

        void ofNext(int type, FailoverJudge judge) {
            for (Way way : judge.ways) {
                if (this == REQUEST) {
                    way.loseRequest(type);
                } else {
                    way.loseAnswer(type);
                }
            }
        }

        @Override
        public String toString() {
            return name().toLowerCase();
        }
    }

    interface Body {
        Object run(FailoverJudge judge) throws Exception;
    }

    private static final int AT_ONCE = 16;
    static final long AGAIN_MS = 2000;
    static final int TEXT = CommandTypes.ACTIVEMQ_TEXT_MESSAGE;
    static final int TRANSACTION = CommandTypes.TRANSACTION_INFO;
    private static final int ACK = CommandTypes.MESSAGE_ACK;
    /** What is asked when the broker is killed, too: it takes longer, as all come back at once. */
    private static final String WHEN_KILLED = "a (send|commit|rollback|durable).*|un.*|expired.*|.*XA.*";
    private static final String QUICK = "initialReconnectDelay=10&maxReconnectDelay=50&useExponentialBackOff=false&randomize=false";

    private final Fault fault;
    private final String serving;
    private final List<Way> ways;
    private final List<ActiveMQConnection> opened = new java.util.concurrent.CopyOnWriteArrayList<>();
    private final CountDownLatch arrived;
    private final CountDownLatch up;
    private boolean isAtFault;

    private FailoverJudge(Fault fault, String serving, List<Way> ways, CountDownLatch arrived, CountDownLatch up) {
        super("failover:(" + ways.stream().map(Way::url).collect(Collectors.joining(",")) + ")?" + QUICK);
        this.fault = fault;
        this.serving = serving;
        this.ways = ways;
        this.arrived = arrived;
        this.up = up;
    }

    // -- the run --------------------------------------------------------------------------------------------------

    public static void main(String[] arguments) throws Exception {
        Map<String, Body> bodies = new LinkedHashMap<>();
        sends(bodies);
        transactions(bodies);
        acknowledgements(bodies);
        consumers(bodies);
        topics(bodies);
        others(bodies);
        distributed(bodies);
        FailoverUsage.add(bodies);
        FailoverTimes.add(bodies);
        FailoverPlaces.add(bodies);
        if (arguments.length > 3) {
            bodies.keySet().removeIf(title -> !title.matches(arguments[3]));
        }
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        List<String> brokers = Arrays.asList(arguments[1].split(","));
        List<String> faults = Arrays.asList(arguments[2].split(","));
        for (Fault fault : new Fault[] {Fault.CUT, Fault.UNNOTICED}) {
            if (faults.contains(fault.toString())) {
                for (Map.Entry<String, Body> body : bodies.entrySet()) {
                    start(pool, fault, body, brokers, new CountDownLatch(1), null);
                }
            }
        }
        end(pool);
        if (faults.contains(Fault.KILLED.toString())) {
            killed(bodies, brokers, Integer.parseInt(arguments[0]));
        }
    }

    private static void killed(Map<String, Body> bodies, List<String> brokers, int controlPort) throws Exception {
        CountDownLatch up = new CountDownLatch(1);
        ExecutorService pool = Executors.newCachedThreadPool();
        bodies.keySet().removeIf(title -> !title.matches(WHEN_KILLED));
        CountDownLatch arrived = new CountDownLatch(bodies.size());
        for (Map.Entry<String, Body> body : bodies.entrySet()) {
            start(pool, Fault.KILLED, body, brokers, arrived, up);
        }
        try (Socket control = new Socket("127.0.0.1", controlPort)) {
            PrintStream out = new PrintStream(control.getOutputStream(), true);
            BufferedReader in = new BufferedReader(new InputStreamReader(control.getInputStream()));
            if (!arrived.await(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException(arrived.getCount() + " checks did not come to the fault");
            }
            for (String request : new String[] {"kill", "start"}) {
                out.println(request);
                if (in.readLine() == null) {
                    throw new IllegalStateException("nobody did it: " + request);
                }
                if (request.equals("kill")) {
                    ALL_WAYS.forEach(way -> way.cut(true));
                }
            }
        }
        up.countDown();
        end(pool);
    }

    private static final List<Way> ALL_WAYS = Collections.synchronizedList(new ArrayList<>());

    private static void end(ExecutorService pool) throws InterruptedException {
        pool.shutdown();
        for (int before = OPEN.size(); !pool.awaitTermination(120, TimeUnit.SECONDS); before = OPEN.size()) {
            if (OPEN.size() == before) { // a busy machine takes longer, but does not stand still
                for (String title : OPEN) {
                    Map<String, Object> line = new LinkedHashMap<>();
                    line.put("name", title);
                    line.put("result", "check ended with nothing: it hangs");
                    System.out.println(Json.write(line));
                }
                pool.shutdownNow();
                OPEN.clear(); // those that have not begun never will
                return;
            }
        }
    }

    /** Checks that have not ended, also those that have not begun. */
    private static final java.util.Set<String> OPEN = java.util.concurrent.ConcurrentHashMap.newKeySet();

    private static void start(
            ExecutorService pool, Fault fault, Map.Entry<String, Body> body, List<String> brokers, CountDownLatch arrived, CountDownLatch up) {
        OPEN.add(title(fault, body));
        pool.execute(() -> judge(fault, body, brokers, arrived, up));
    }

    private static String title(Fault fault, Map.Entry<String, Body> body) {
        return fault + ": " + body.getKey();
    }

    private static void judge(
            Fault fault, Map.Entry<String, Body> body, List<String> brokers, CountDownLatch arrived, CountDownLatch up) {
        List<Way> ways = new ArrayList<>();
        try {
            for (String broker : brokers) {
                ways.add(new Way(broker));
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        ALL_WAYS.addAll(ways);
        FailoverJudge judge = new FailoverJudge(fault, brokers.get(0), ways, arrived, up);
        String title = title(fault, body);
        judge.check(title, () -> {
            try {
                Object result = body.getValue().run(judge);
                return fault == Fault.CUT ? result : unmarked(result);
            } finally {
                judge.arrive();
            }
        });
        OPEN.remove(title);
    }

    private void arrive() {
        if (!isAtFault) {
            isAtFault = true;
            arrived.countDown();
        }
    }

    /** Another way to the broker that serves first, which the check opens and closes itself. */
    Way another() throws IOException {
        return new Way(serving);
    }

    /** The connections that there are fail, and are there again when this returns. */
    void fail() throws Exception {
        arrive();
        if (fault == Fault.KILLED) {
            up.await();
        } else {
            ways.forEach(way -> way.cut(fault == Fault.CUT));
        }
        awaitAgain();
        for (ActiveMQConnection connection : opened) { // what it has said again was heard when this is answered
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createConsumer(session.createTopic(own(".heard"))).close();
            session.close();
        }
    }

    /**
     * Waits until there are as many connections as before. That a client says so, by transportInterupted and transportResumed, is not
     * to be relied on: one that reconnects while another of its threads still deals with the failure leaves the first of them out.
     */
    private void awaitAgain() throws InterruptedException {
        opened.removeIf(ActiveMQConnection::isClosed);
        for (long end = System.currentTimeMillis() + 60_000; ways.stream().mapToInt(Way::count).sum() < opened.size(); Thread.sleep(5)) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("a client did not come back");
            }
        }
    }

    /** The connections that there are fail, and nobody gets through until `opens`. */
    void refuse() throws Exception {
        arrive();
        if (fault == Fault.KILLED) {
            up.await();
        }
        for (Way way : ways) {
            way.refuse();
        }
    }

    /** Likewise, and all clients have noticed. */
    void refuseAll() throws Exception {
        refuse();
        for (ActiveMQConnection connection : opened) {
            for (long end = System.currentTimeMillis() + WAIT_MS; !connection.isClosed() && connection.getTransport().isConnected(); Thread.sleep(5)) {
                if (System.currentTimeMillis() > end) {
                    throw new IllegalStateException("a client does not notice that nobody is there");
                }
            }
        }
    }

    void opens() throws Exception {
        for (Way way : ways) {
            way.opens();
        }
    }

    /** Does something whose request or answer is lost by the fault; what became of it. */
    Object failing(Loss loss, int type, Action action) throws Exception {
        loss.ofNext(type, this);
        FutureTask<Object> outcome = later(() -> outcome(action));
        awaitLost();
        fail();
        return outcome.get(60, TimeUnit.SECONDS);
    }

    /** As `failing`, by the client's words: XA has codes. Something is done before the fault. */
    private Object failingXa(Loss loss, int type, Callable<?> action, Action meanwhile) throws Exception {
        loss.ofNext(type, this);
        FutureTask<Object> outcome = later(() -> xa(action));
        awaitLost();
        meanwhile.run();
        fail();
        return outcome.get(60, TimeUnit.SECONDS);
    }

    private void awaitLost() throws InterruptedException {
        ways.get(0).awaitLost(); // the first broker is the one that serves
    }

    private void awaitPassed(int type) throws InterruptedException {
        ways.get(0).awaitPassed(type);
    }

    void awaitDispatched(int count) throws InterruptedException {
        ways.get(0).awaitDispatched(count);
    }

    static <T> FutureTask<T> later(Callable<T> action) {
        FutureTask<T> task = new FutureTask<>(action);
        new Thread(task).start();
        return task;
    }

    @Override
    ActiveMQConnection connection(String... options) throws JMSException {
        ActiveMQConnection connection = super.connection(options);
        opened.add(connection);
        return connection;
    }

    Session transacted(String... options) throws JMSException {
        return started(options).createSession(true, Session.SESSION_TRANSACTED);
    }

    Session session(int mode, String... options) throws JMSException {
        return started(options).createSession(false, mode);
    }

    /** A consumer of the check's queue that has been sent this many messages; another connection has sent them. */
    MessageConsumer prefetching(Session session, int count) throws Exception {
        send(session(), queue(session), numbers(count));
        MessageConsumer consumer = session.createConsumer(queue(session));
        awaitDispatched(count);
        return consumer;
    }

    /** What else a consumer gets, what becomes of its transaction, and what is left. */
    List<Object> committed(Session session, MessageConsumer consumer) throws JMSException {
        List<Object> found = list(rest(consumer), outcome(session::commit));
        consumer.close();
        found.addAll(left());
        return found;
    }

    /** What is left in the check's queue, and what of it is a dead letter. */
    List<Object> left() throws JMSException {
        Session session = session();
        List<Object> found = new ArrayList<>(Arrays.asList("left", rest(session)));
        List<String> dead = new ArrayList<>();
        for (Object one : Collections.list((Enumeration<?>) session.createBrowser(session.createQueue("ActiveMQ.DLQ")).getEnumeration())) {
            if (((ActiveMQMessage) one).getOriginalDestination().equals(queue(session))) {
                dead.add(((TextMessage) one).getText());
            }
        }
        found.addAll(Arrays.asList("dead", dead));
        return found;
    }

    /**
     * Which messages were received, left or dead, each once. Where the client's threads race after a fault, what a transaction's end
     * tells and how often a message comes is chance, also with a real broker; that none is lost is not.
     */
    static List<String> whole(List<?> found) {
        java.util.TreeSet<String> all = new java.util.TreeSet<>();
        for (Object one : found) {
            if (one instanceof List) {
                all.addAll(whole((List<?>) one));
            } else if (!NO_TEXTS.matcher((String) one).matches()) {
                all.add(unmarked((String) one));
            }
        }
        return new ArrayList<>(all);
    }

    /** As `whole`, after a commit: if the client was told that it is done, these are not wanted any more. */
    static List<String> wholeOf(List<?> found, String... committed) {
        List<Object> all = list(found);
        if (found.contains("done") && !found.toString().contains(ROLLED_BACK)) {
            all.addAll(Arrays.asList(committed));
        }
        return whole(all);
    }

    private static final String ROLLED_BACK = javax.jms.TransactionRolledBackException.class.getName();
    private static final java.util.regex.Pattern NO_TEXTS = java.util.regex.Pattern.compile("done|left|dead|throws .*");

    /** Whether a message was delivered before is what the last broker knew, or what is in its store. */
    private static Object unmarked(Object result) {
        if (result instanceof List) {
            return ((List<?>) result).stream().map(FailoverJudge::unmarked).collect(Collectors.toList());
        }
        return result instanceof String ? unmarked((String) result) : result;
    }

    private static String unmarked(String text) {
        return text.replaceAll(" again \\d+", "");
    }

    static List<String> got(MessageConsumer consumer, int count) throws JMSException {
        List<String> texts = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            texts.add(described(next(consumer)));
        }
        return texts;
    }

    static List<Object> list(Object... all) {
        return new ArrayList<>(Arrays.asList(all));
    }

    /** As everywhere, but it takes a while until a client is served again. */
    @Override
    List<String> rest(MessageConsumer consumer) throws JMSException {
        List<String> texts = new ArrayList<>();
        for (Message message = consumer.receive(AGAIN_MS); message != null; message = consumer.receive(SILENCE_MS)) {
            texts.add(described(message));
        }
        return texts;
    }

    static String[] numbers(int count) {
        String[] texts = new String[count];
        Arrays.setAll(texts, number -> String.valueOf(number + 1));
        return texts;
    }

    // -- sends ----------------------------------------------------------------------------------------------------

    private static void sends(Map<String, Body> bodies) {
        for (Loss loss : Loss.values()) {
            bodies.put("a send, " + loss + " lost", judge -> {
                Session session = judge.session();
                MessageProducer producer = session.createProducer(judge.queue(session));
                producer.send(session.createTextMessage("1"));
                List<Object> found = list(judge.failing(loss, TEXT, () -> producer.send(session.createTextMessage("2"))));
                producer.send(session.createTextMessage("3"));
                found.addAll(judge.left());
                return found;
            });
            bodies.put("a send to a topic with a durable subscription, " + loss + " lost", judge -> {
                Session session = judge.durable();
                MessageConsumer consumer = session.createDurableSubscriber(judge.topic(session), "s");
                consumer.close();
                Session other = judge.session();
                MessageProducer producer = other.createProducer(judge.topic(other));
                List<Object> found = list(judge.failing(loss, TEXT, () -> producer.send(other.createTextMessage("1"))));
                producer.send(other.createTextMessage("2"));
                found.add(texts(session.createDurableSubscriber(judge.topic(session), "s"), 2));
                return found;
            });
            bodies.put("a send of several producers, " + loss + " lost", judge -> {
                Session session = judge.session();
                List<MessageProducer> producers = new ArrayList<>();
                for (String text : numbers(3)) {
                    producers.add(session.createProducer(judge.queue(session)));
                    producers.get(producers.size() - 1).send(session.createTextMessage(text));
                }
                List<Object> found = list(judge.failing(loss, TEXT, () -> producers.get(1).send(session.createTextMessage("4"))));
                for (MessageProducer producer : producers) {
                    producer.send(session.createTextMessage("5"));
                }
                found.addAll(judge.left());
                return found;
            });
            bodies.put("a send without destination, " + loss + " lost", judge -> {
                Session session = judge.session();
                MessageProducer producer = session.createProducer(null);
                Queue queue = judge.queue(session);
                List<Object> found = list(judge.failing(loss, TEXT, () -> producer.send(queue, session.createTextMessage("1"))));
                producer.send(queue, session.createTextMessage("2"));
                found.addAll(judge.left());
                return found;
            });
            bodies.put("a send to two queues, " + loss + " lost", judge -> {
                Session session = judge.session();
                String name = judge.own("");
                MessageProducer producer = session.createProducer(session.createQueue(name + "," + name + ".other"));
                List<Object> found = list(judge.failing(loss, TEXT, () -> producer.send(session.createTextMessage("1"))));
                found.addAll(judge.left());
                found.add(judge.rest(session.createConsumer(session.createQueue(name + ".other"))));
                return found;
            });
        }
        bodies.put("a send that is not persistent, request lost", judge -> {
            Session session = judge.started("jms.alwaysSyncSend=true").createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(judge.queue(session));
            producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            List<Object> found = list(judge.failing(Loss.REQUEST, TEXT, () -> producer.send(session.createTextMessage("1"))));
            producer.send(session.createTextMessage("2"));
            List<String> texts = judge.rest(session);
            if (judge.fault == Fault.KILLED) {
                texts.remove("1"); // it may have been in the memory of the broker that is gone
            }
            found.add(texts);
            return found;
        });
        for (String tracks : new String[] {"false", "true"}) {
            bodies.put("asynchronous sends that get lost, trackMessages=" + tracks, judge -> {
                Session session = judge.session(Session.AUTO_ACKNOWLEDGE, "jms.useAsyncSend=true", "trackMessages=" + tracks);
                MessageProducer producer = session.createProducer(judge.queue(session));
                Loss.REQUEST.ofNext(TEXT, judge);
                producer.send(session.createTextMessage("1"));
                producer.send(session.createTextMessage("2"));
                judge.awaitLost();
                judge.fail();
                producer.send(session.createTextMessage("3"));
                List<Object> found = list(judge.rest(session));
                found.addAll(judge.left());
                return found;
            });
        }
        bodies.put("a producer with a window", judge -> {
            Session session = judge.session(Session.AUTO_ACKNOWLEDGE, "jms.useAsyncSend=true", "jms.producerWindowSize=3000");
            MessageProducer producer = session.createProducer(judge.queue(session));
            send(session, judge.queue(session), "1");
            producer.send(session.createTextMessage("2"));
            judge.fail();
            for (String text : numbers(10)) {
                producer.send(session.createTextMessage(text));
            }
            return whole(judge.left());
        });
        bodies.put("maxReconnectAttempts", judge -> {
            ActiveMQConnection connection = judge.started("maxReconnectAttempts=2", "startupMaxReconnectAttempts=2");
            LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();
            connection.setExceptionListener(error -> heard.add(error.getClass().getName()));
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(judge.queue(session));
            producer.send(session.createTextMessage("1"));
            judge.refuse();
            List<Object> found = list(heard.poll(20, TimeUnit.SECONDS));
            found.add(String.valueOf(outcome(() -> producer.send(session.createTextMessage("2")))).startsWith("throws"));
            judge.opens();
            found.addAll(judge.left());
            return found;
        });
    }

    // -- transactions ---------------------------------------------------------------------------------------------

    private static void transactions(Map<String, Body> bodies) {
        for (Loss loss : Loss.values()) {
            bodies.put("a commit of sends, " + loss + " lost", judge -> {
                Session session = judge.transacted();
                send(session, judge.queue(session), numbers(3));
                List<Object> found = list(judge.failing(loss, TRANSACTION, session::commit));
                send(session, judge.queue(session), "next");
                found.add(outcome(session::commit));
                List<Object> left = judge.left();
                if (loss == Loss.REQUEST) { // the client says it again, or gives up: its threads race
                    boolean isCommitted = found.get(0).equals("done");
                    return list(left.equals(list("left", isCommitted ? Arrays.asList("1", "2", "3", "next") : Arrays.asList("next"), "dead", list())));
                }
                found.addAll(left);
                return found;
            });
            bodies.put("a rollback of sends, " + loss + " lost", judge -> {
                Session session = judge.transacted();
                send(session, judge.queue(session), numbers(3));
                List<Object> found = list(judge.failing(loss, TRANSACTION, session::rollback));
                send(session, judge.queue(session), "next");
                found.add(outcome(session::commit));
                found.addAll(judge.left());
                return found;
            });
            bodies.put("a commit of receipts, " + loss + " lost", judge -> {
                Session session = judge.transacted();
                MessageConsumer consumer = judge.prefetching(session, 4);
                got(consumer, 2);
                List<Object> found = list(judge.failing(loss, TRANSACTION, session::commit));
                found.addAll(judge.committed(session, consumer));
                return wholeOf(found, "1", "2");
            });
            bodies.put("a rollback of receipts, " + loss + " lost", judge -> {
                Session session = judge.transacted();
                MessageConsumer consumer = judge.prefetching(session, 4);
                got(consumer, 2);
                List<Object> found = list(judge.failing(loss, TRANSACTION, session::rollback));
                found.addAll(judge.committed(session, consumer));
                return whole(found);
            });
            bodies.put("a commit of receipts and sends, prefetch 1, " + loss + " lost", judge -> {
                Session session = judge.transacted("jms.prefetchPolicy.all=1");
                send(judge.session(), judge.queue(session), numbers(3));
                MessageConsumer consumer = session.createConsumer(judge.queue(session));
                got(consumer, 2);
                send(session, session.createQueue(judge.own(".out")), "out");
                List<Object> found = list(judge.failing(loss, TRANSACTION, session::commit));
                found.addAll(judge.committed(session, consumer));
                found.add(judge.rest(session.createConsumer(session.createQueue(judge.own(".out")))));
                return wholeOf(found, "1", "2");
            });
        }
        bodies.put("a commit after sends and the fault", judge -> {
            Session session = judge.transacted();
            MessageProducer producer = session.createProducer(judge.queue(session));
            producer.send(session.createTextMessage("1"));
            judge.fail();
            producer.send(session.createTextMessage("2"));
            List<Object> found = list(outcome(session::commit));
            found.addAll(judge.left());
            return found;
        });
        for (String tracks : new String[] {"true", "false"}) {
            bodies.put("a commit after its producer was closed, trackTransactionProducers=" + tracks, judge -> {
                Session session = judge.transacted("trackTransactionProducers=" + tracks);
                MessageConsumer consumer = session.createConsumer(judge.queue(session));
                send(session, judge.queue(session), "1");
                send(session, judge.queue(session), "2", "3");
                judge.fail();
                List<Object> found = list(outcome(session::commit));
                found.add(judge.rest(consumer));
                found.add(outcome(session::commit));
                return found;
            });
        }
        bodies.put("a commit after receipts and the fault", judge -> {
            Session session = judge.transacted();
            MessageConsumer consumer = judge.prefetching(session, 4);
            got(consumer, 2);
            judge.fail();
            List<Object> found = list(got(consumer, 2));
            found.add(outcome(session::commit));
            found.addAll(judge.committed(session, consumer));
            return wholeOf(found, "1", "2");
        });
        bodies.put("a rollback after receipts and the fault", judge -> {
            Session session = judge.transacted();
            MessageConsumer consumer = judge.prefetching(session, 4);
            got(consumer, 2);
            judge.fail();
            List<Object> found = list(outcome(session::rollback));
            found.add(got(consumer, 4));
            found.add(outcome(session::commit));
            consumer.close();
            found.addAll(judge.left());
            return whole(found);
        });
        bodies.put("redeliveries before and after the fault", judge -> {
            Session session = judge.transacted("jms.redeliveryPolicy.initialRedeliveryDelay=0", "jms.redeliveryPolicy.maximumRedeliveries=3");
            send(judge.session(), judge.queue(session), "1");
            MessageConsumer consumer = session.createConsumer(judge.queue(session));
            List<Object> found = list();
            for (int round = 0; round < 2; round++) {
                found.add(described(next(consumer)));
                session.rollback();
            }
            found.add(described(next(consumer)));
            judge.fail();
            found.add(outcome(session::rollback));
            found.add(described(next(consumer)));
            session.rollback();
            found.add(judge.rest(consumer));
            session.rollback();
            consumer.close();
            session.close();
            found.addAll(judge.left());
            return whole(found);
        });
    }

    // -- acknowledgements -----------------------------------------------------------------------------------------

    private static void acknowledgements(Map<String, Body> bodies) {
        for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE,
                ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE}) {
            bodies.put("unacknowledged messages, mode " + mode, judge -> {
                Session session = judge.session(mode);
                MessageConsumer consumer = judge.prefetching(session, 4);
                Message second = null;
                List<Object> found = list();
                for (int number = 0; number < 2; number++) {
                    second = next(consumer);
                    found.add(described(second));
                }
                judge.fail();
                found.clear();
                found.add(outcome(second::acknowledge));
                Message latest = null;
                for (Message one = consumer.receive(AGAIN_MS); one != null; one = consumer.receive(SILENCE_MS)) {
                    latest = one;
                    found.add(described(one));
                }
                if (latest != null) {
                    found.add(outcome(latest::acknowledge));
                }
                consumer.close();
                found.addAll(judge.left());
                List<String> whole = whole(found);
                if (mode != Session.CLIENT_ACKNOWLEDGE) {
                    whole.removeAll(Arrays.asList("1", "2")); // the broker may have heard of it or not
                }
                return whole;
            });
        }
        bodies.put("an automatic acknowledgement that gets lost", judge -> {
            Session session = judge.session();
            MessageConsumer consumer = judge.prefetching(session, 3);
            Loss.REQUEST.ofNext(ACK, judge);
            described(next(consumer));
            judge.awaitLost();
            judge.fail();
            List<Object> found = list(judge.rest(consumer));
            consumer.close();
            found.addAll(judge.left());
            return whole(found);
        });
        bodies.put("an acknowledgement of a client that gets lost", judge -> {
            Session session = judge.session(Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = judge.prefetching(session, 3);
            next(consumer);
            Message second = next(consumer);
            Loss.REQUEST.ofNext(ACK, judge);
            second.acknowledge();
            judge.awaitLost();
            judge.fail();
            List<Object> found = list();
            for (Message one = consumer.receive(AGAIN_MS); one != null; one = consumer.receive(SILENCE_MS)) {
                found.add(described(one));
                one.acknowledge();
            }
            consumer.close();
            found.addAll(judge.left());
            return whole(found);
        });
        bodies.put("optimised acknowledgements", judge -> {
            Session session = judge.session(Session.AUTO_ACKNOWLEDGE, "jms.optimizeAcknowledge=true",
                "jms.optimizeAcknowledgeTimeOut=0", "jms.prefetchPolicy.all=20");
            MessageConsumer consumer = judge.prefetching(session, 5);
            got(consumer, 3);
            judge.fail();
            List<Object> found = list(judge.rest(consumer));
            consumer.close();
            found.addAll(judge.left());
            return whole(found);
        });
    }

    // -- consumers ------------------------------------------------------------------------------------------------

    private static void consumers(Map<String, Body> bodies) {
        bodies.put("prefetched messages come again in order", judge -> {
            Session session = judge.session();
            MessageConsumer consumer = judge.prefetching(session, 8);
            judge.fail();
            List<Object> found = list(texts(consumer, 8));
            consumer.close();
            found.addAll(judge.left());
            return found;
        });
        bodies.put("prefetched messages of two consumers", judge -> {
            Session session = judge.session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=4");
            MessageConsumer one = session.createConsumer(judge.queue(session));
            MessageConsumer two = session.createConsumer(judge.queue(session));
            send(judge.session(), judge.queue(session), numbers(8));
            judge.awaitDispatched(8);
            judge.fail();
            return whole(list(judge.rest(one), judge.rest(two)));
        });
        bodies.put("the first of prefetched messages were received", judge -> {
            Session session = judge.transacted();
            MessageConsumer consumer = judge.prefetching(session, 6);
            got(consumer, 2);
            session.commit();
            judge.fail();
            List<Object> found = list(judge.rest(consumer));
            session.commit();
            consumer.close();
            found.addAll(judge.left());
            return whole(found);
        });
        bodies.put("a listener", judge -> {
            Session session = judge.session();
            MessageConsumer consumer = session.createConsumer(judge.queue(session));
            LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();
            consumer.setMessageListener(message -> heard.add(String.valueOf(attempt(() -> described(message)))));
            Session sender = judge.session();
            send(sender, judge.queue(session), "1", "2");
            List<Object> found = list(heard.poll(20, TimeUnit.SECONDS), heard.poll(20, TimeUnit.SECONDS));
            judge.fail();
            send(sender, judge.queue(session), "3", "4");
            found.addAll(list(heard.poll(20, TimeUnit.SECONDS), heard.poll(20, TimeUnit.SECONDS)));
            return found;
        });
        bodies.put("prefetch 0, a receive without end", judge -> {
            Session session = judge.session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=0");
            Session sender = judge.session();
            MessageConsumer consumer = session.createConsumer(judge.queue(session));
            FutureTask<String> text = later(() -> described(consumer.receive()));
            judge.awaitPassed(CommandTypes.MESSAGE_PULL);
            judge.fail();
            send(sender, judge.queue(session), "1", "2", "3");
            List<Object> found = list(text.get(20, TimeUnit.SECONDS));
            found.add(described(next(consumer)));
            found.add(described(next(consumer)));
            found.add(String.valueOf(consumer.receiveNoWait()));
            consumer.close();
            found.addAll(judge.left());
            return found;
        });
        for (Loss loss : Loss.values()) {
            bodies.put("a consumer is made, " + loss + " lost", judge -> {
                Session session = judge.session();
                List<MessageConsumer> made = new ArrayList<>();
                List<Object> found = list(judge.failing(loss, CommandTypes.CONSUMER_INFO, () -> made.add(session.createConsumer(judge.queue(session)))));
                send(session, judge.queue(session), "1", "2");
                found.add(texts(made.get(0), 2));
                made.get(0).close();
                send(session, judge.queue(session), "3");
                found.addAll(judge.left());
                return found;
            });
        }
        bodies.put("prefetch 0, a receive without waiting, request lost", judge -> {
            Session session = judge.session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=0");
            send(judge.session(), judge.queue(session), "1");
            MessageConsumer consumer = session.createConsumer(judge.queue(session));
            Loss.REQUEST.ofNext(CommandTypes.MESSAGE_PULL, judge);
            FutureTask<Object> text = later(() -> attempt(() -> described(consumer.receiveNoWait())));
            judge.awaitLost();
            judge.fail();
            return list(text.get(20, TimeUnit.SECONDS), String.valueOf(consumer.receiveNoWait()));
        });
        bodies.put("a session is made, request lost", judge -> {
            ActiveMQConnection connection = judge.started();
            connection.createSession(false, Session.AUTO_ACKNOWLEDGE).createProducer(null).close();
            Loss.REQUEST.ofNext(CommandTypes.SESSION_INFO, judge);
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            judge.awaitLost();
            judge.fail();
            send(session, judge.queue(session), "1");
            return judge.left();
        });
        bodies.put("a consumer is closed, request lost", judge -> {
            Session session = judge.session();
            MessageConsumer consumer = session.createConsumer(judge.queue(session));
            List<Object> found = list(judge.failing(Loss.REQUEST, CommandTypes.REMOVE_INFO, consumer::close));
            send(session, judge.queue(session), "1");
            found.addAll(judge.left());
            return found;
        });
        bodies.put("a selector stays", judge -> {
            Session session = judge.session();
            MessageConsumer consumer = session.createConsumer(judge.queue(session), "JMSPriority > 4");
            Session sender = judge.session();
            MessageProducer producer = sender.createProducer(judge.queue(session));
            judge.fail();
            for (int priority : new int[] {9, 1, 5, 2}) {
                producer.send(sender.createTextMessage("p" + priority), DeliveryMode.PERSISTENT, priority, 0);
            }
            List<Object> found = list(texts(consumer, 2));
            consumer.close();
            found.addAll(judge.left());
            return found;
        });
        bodies.put("an exclusive consumer", judge -> {
            Session session = judge.session();
            Queue exclusive = session.createQueue(judge.own("") + "?consumer.exclusive=true");
            MessageConsumer one = session.createConsumer(exclusive);
            MessageConsumer two = session.createConsumer(exclusive);
            Session sender = judge.session();
            send(sender, judge.queue(session), "1", "2");
            List<Object> found = list(got(one, 2));
            judge.fail();
            send(sender, judge.queue(session), "3", "4");
            List<String> first = judge.rest(one);
            List<String> second = judge.rest(two);
            found.add(first.isEmpty() || second.isEmpty());
            first.addAll(second);
            found.add(first);
            return found;
        });
        bodies.put("a message group", judge -> {
            Session session = judge.session();
            MessageConsumer one = session.createConsumer(judge.queue(session));
            MessageConsumer two = session.createConsumer(judge.queue(session));
            Session sender = judge.session();
            MessageProducer producer = sender.createProducer(judge.queue(session));
            List<Object> found = list();
            for (int round = 0; round < 2; round++) {
                for (String text : numbers(4)) {
                    Message message = sender.createTextMessage(text);
                    message.setStringProperty("JMSXGroupID", "g");
                    producer.send(message);
                }
                List<String> first = judge.rest(one);
                List<String> second = judge.rest(two);
                found.add(first.isEmpty() || second.isEmpty());
                first.addAll(second);
                found.add(first);
                if (round == 0) {
                    judge.fail();
                }
            }
            return found;
        });
        bodies.put("a connection that is stopped", judge -> {
            ActiveMQConnection connection = judge.started();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(judge.queue(session));
            connection.stop();
            judge.fail();
            send(judge.session(), judge.queue(session), "1");
            List<Object> found = list(String.valueOf(consumer.receive(SILENCE_MS)));
            connection.start();
            found.add(texts(consumer, 1));
            return found;
        });
        bodies.put("a browser", judge -> {
            Session session = judge.session();
            send(session, judge.queue(session), numbers(3));
            Enumeration<?> all = session.createBrowser(judge.queue(session)).getEnumeration();
            List<Object> found = list(described((Message) all.nextElement()));
            judge.fail();
            List<Object> again = list();
            for (Object one : Collections.list((Enumeration<?>) session.createBrowser(judge.queue(session)).getEnumeration())) {
                again.add(described((Message) one));
            }
            found.add(again);
            found.addAll(judge.left());
            return found;
        });
    }

    // -- topics ---------------------------------------------------------------------------------------------------

    ActiveMQConnection identified() throws JMSException {
        ActiveMQConnection connection = connection();
        connection.setClientID(own(".client"));
        connection.start();
        return connection;
    }

    Session durable() throws JMSException {
        return identified().createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    private static void topics(Map<String, Body> bodies) {
        bodies.put("a subscriber of a topic", judge -> {
            Session session = judge.session();
            MessageConsumer consumer = session.createConsumer(judge.topic(session));
            Session sender = judge.session();
            send(sender, judge.topic(session), "1");
            List<Object> found = list(described(next(consumer)));
            judge.fail();
            send(sender, judge.topic(session), "2", "3");
            found.add(texts(consumer, 2));
            return found;
        });
        bodies.put("noLocal stays", judge -> {
            Session session = judge.session();
            MessageConsumer consumer = session.createConsumer(judge.topic(session), null, true);
            judge.fail();
            send(session, judge.topic(session), "own");
            send(judge.session(), judge.topic(session), "other");
            return texts(consumer, 1);
        });
        bodies.put("a durable subscription in use", judge -> {
            Session session = judge.durable();
            MessageConsumer consumer = session.createDurableSubscriber(judge.topic(session), "s");
            Session sender = judge.session();
            send(sender, judge.topic(session), numbers(4));
            judge.awaitDispatched(4);
            List<Object> found = list(got(consumer, 2));
            judge.fail();
            send(sender, judge.topic(session), "5");
            found.add(got(consumer, 3));
            found.add(judge.rest(consumer));
            consumer.close();
            found.add(judge.rest(session.createDurableSubscriber(judge.topic(session), "s")));
            return found;
        });
        bodies.put("a durable subscription in a transaction", judge -> {
            Session session = judge.identified().createSession(true, Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createDurableSubscriber(judge.topic(session), "s");
            send(judge.session(), judge.topic(session), numbers(4));
            judge.awaitDispatched(4);
            got(consumer, 2);
            judge.fail();
            List<Object> found = list(got(consumer, 2));
            found.add(outcome(session::commit));
            found.add(judge.rest(consumer));
            found.add(outcome(session::commit));
            consumer.close();
            found.add(judge.rest(session.createDurableSubscriber(judge.topic(session), "s")));
            return wholeOf(found, "1", "2");
        });
        for (Loss loss : Loss.values()) {
            bodies.put("a durable subscription is committed, " + loss + " lost", judge -> {
                Session session = judge.identified().createSession(true, Session.SESSION_TRANSACTED);
                MessageConsumer consumer = session.createDurableSubscriber(judge.topic(session), "s");
                send(judge.session(), judge.topic(session), numbers(4));
                judge.awaitDispatched(4);
                got(consumer, 2);
                List<Object> found = list(judge.failing(loss, TRANSACTION, session::commit));
                found.add(judge.rest(consumer));
                found.add(outcome(session::commit));
                consumer.close();
                found.add(judge.rest(session.createDurableSubscriber(judge.topic(session), "s")));
                return wholeOf(found, "1", "2");
            });
            bodies.put("a durable subscription is made, " + loss + " lost", judge -> {
                Session session = judge.durable();
                List<MessageConsumer> made = new ArrayList<>();
                List<Object> found = list(judge.failing(loss, CommandTypes.CONSUMER_INFO,
                    () -> made.add(session.createDurableSubscriber(judge.topic(session), "s"))));
                send(session, judge.topic(session), "1");
                found.add(texts(made.get(0), 1));
                made.get(0).close();
                send(session, judge.topic(session), "2");
                found.add(texts(session.createDurableSubscriber(judge.topic(session), "s"), 1));
                return found;
            });
            bodies.put("a durable subscription is unsubscribed, " + loss + " lost", judge -> {
                Session session = judge.durable();
                session.createDurableSubscriber(judge.topic(session), "s").close();
                List<Object> found = list(judge.failing(loss, CommandTypes.REMOVE_SUBSCRIPTION_INFO, () -> session.unsubscribe("s")));
                send(session, judge.topic(session), "1");
                found.add(judge.rest(session.createDurableSubscriber(judge.topic(session), "s")));
                return found;
            });
        }
        bodies.put("a client's identifier stays its own", judge -> {
            ActiveMQConnection connection = judge.identified();
            judge.fail();
            List<Object> found = list(outcome(() -> {
                ActiveMQConnection other = judge.connection();
                other.setClientID(judge.own(".client"));
                other.start();
            }));
            connection.close();
            found.add(outcome(judge::durable));
            return found;
        });
    }

    // -- temporary destinations, and what is left ------------------------------------------------------------------

    private static void others(Map<String, Body> bodies) {
        bodies.put("a request is answered after the fault", judge -> {
            Session asking = judge.session();
            Session answering = judge.session();
            TemporaryQueue replies = asking.createTemporaryQueue();
            MessageConsumer heard = asking.createConsumer(replies);
            MessageConsumer asked = answering.createConsumer(judge.queue(answering));
            Message question = asking.createTextMessage("question");
            question.setJMSReplyTo(replies);
            asking.createProducer(judge.queue(asking)).send(question);
            Message got = next(asked);
            judge.fail();
            List<Object> found = list(outcome(() -> answering.createProducer(Temporary.known(answering, got.getJMSReplyTo())).send(answering.createTextMessage("answer"))));
            found.add(texts(heard, 1));
            heard.close();
            found.add(outcome(replies::delete));
            found.add(outcome(() -> answering.createProducer(null).send(Temporary.gone(answering, got.getJMSReplyTo()), answering.createTextMessage("late"))));
            return found;
        });
        bodies.put("a temporary queue is made, request lost", judge -> {
            Session session = judge.session();
            List<TemporaryQueue> made = new ArrayList<>();
            List<Object> found = list(judge.failing(Loss.REQUEST, CommandTypes.DESTINATION_INFO, () -> made.add(session.createTemporaryQueue())));
            MessageConsumer consumer = session.createConsumer(made.get(0));
            send(session, made.get(0), "1");
            found.add(texts(consumer, 1));
            return found;
        });
    }

    // -- distributed transactions ---------------------------------------------------------------------------------

    private static final AtomicInteger BRANCHES = new AtomicInteger();

    static final class Branch implements Xid {
        private final byte[] global = ("failover" + BRANCHES.incrementAndGet()).getBytes();

        @Override
        public int getFormatId() {
            return 77;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return global;
        }

        @Override
        public byte[] getBranchQualifier() {
            return new byte[] {1};
        }
    }

    static Object xa(Callable<?> action) {
        try {
            return String.valueOf(action.call());
        } catch (XAException error) {
            return "XAException " + error.errorCode;
        } catch (Throwable error) {
            return thrown(error);
        }
    }

    static Callable<Object> done(Action action) {
        return () -> {
            action.run();
            return "done";
        };
    }

    ActiveMQXAConnection xaConnection() throws Exception {
        ActiveMQXAConnectionFactory factory = new ActiveMQXAConnectionFactory(
            "failover:(" + ways.stream().map(Way::url).collect(Collectors.joining(",")) + ")?" + QUICK);
        ActiveMQXAConnection connection = (ActiveMQXAConnection) factory.createXAConnection();
        opened.add(connection);
        connection.start();
        return connection;
    }

    static boolean isInDoubt(XAResource resource, Branch branch) throws XAException {
        for (Xid found : resource.recover(XAResource.TMSTARTRSCAN)) {
            if (Arrays.equals(found.getGlobalTransactionId(), branch.global)) {
                return true;
            }
        }
        return false;
    }

    /** A transaction with a send and a receipt, and what is done with it, step by step; the step with the fault is given. */
    private List<Object> distributed(String failingStep, Loss loss, String... steps) throws Exception {
        return distributed(failingStep, loss, () -> { }, steps);
    }

    /** Likewise, and something is done after that step, before the fault. */
    private List<Object> distributed(String failingStep, Loss loss, Action meanwhile, String... steps) throws Exception {
        send(session(), session().createQueue(own(".in")), "in");
        ActiveMQXAConnection connection = xaConnection();
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        Branch branch = new Branch();
        MessageConsumer consumer = session.createConsumer(session.createQueue(own(".in")));
        List<Object> found = list();
        for (String step : steps) {
            Callable<?> action;
            switch (step) {
                case "start":
                    action = done(() -> resource.start(branch, XAResource.TMNOFLAGS));
                    break;
                case "work":
                    action = () -> {
                        send(session, queue(session), "1", "2");
                        return described(next(consumer));
                    };
                    break;
                case "end":
                    action = done(() -> resource.end(branch, XAResource.TMSUCCESS));
                    break;
                case "prepare":
                    action = () -> resource.prepare(branch);
                    break;
                case "commit":
                    action = done(() -> resource.commit(branch, false));
                    break;
                case "once":
                    action = done(() -> resource.commit(branch, true));
                    break;
                case "rollback":
                    action = done(() -> resource.rollback(branch));
                    break;
                case "fault":
                    action = () -> {
                        fail();
                        return "fault";
                    };
                    break;
                default:
                    action = () -> isInDoubt(resource, branch);
            }
            found.add(step + ": " + (step.equals(failingStep) ? failingXa(loss, TRANSACTION, action, meanwhile) : xa(action)));
        }
        boolean isInDoubt = isInDoubt(resource, branch);
        found.add("in doubt: " + isInDoubt);
        if (isInDoubt) {
            found.add(xa(done(() -> resource.rollback(branch))));
        }
        connection.close();
        found.addAll(left());
        found.add(rest(session().createConsumer(session().createQueue(own(".in")))));
        return found;
    }

    /** Another client, whose way loses nothing, consumes what is in the check's queue. */
    private void consumeElsewhere() throws Exception {
        try (Way way = another()) {
            ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(way.url()).createConnection();
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            texts(session.createConsumer(queue(session)), 2);
            connection.close();
        }
    }

    /**
     * Whether a branch sent everything or nothing, and nothing is lost: its client does not repeat its receipts, so what it received may
     * come again although the branch is committed.
     */
    private static Object isSound(List<Object> found) {
        List<Object> end = found.subList(found.indexOf("left"), found.size() - 1);
        boolean isReceived = ((List<?>) found.get(found.size() - 1)).isEmpty();
        List<Object> committed = list("left", Arrays.asList("1", "2"), "dead", list());
        List<Object> rolledBack = list("left", list(), "dead", list());
        return end.equals(committed) || (end.equals(rolledBack) && !isReceived) ? "sound" : found;
    }

    private static void distributed(Map<String, Body> bodies) {
        String[] twoPhases = {"start", "work", "end", "prepare", "recover", "commit"};
        String[] onePhase = {"start", "work", "end", "once"};
        for (Loss loss : Loss.values()) {
            for (String step : new String[] {"commit", "recover"}) {
                bodies.put("XA " + step + ", " + loss + " lost", judge -> judge.distributed(step, loss, twoPhases));
            }
            for (String step : new String[] {"end", "prepare"}) {
                bodies.put("XA " + step + ", " + loss + " lost", judge -> isSound(judge.distributed(step, loss, twoPhases)));
            }
            bodies.put("XA commit in one phase, " + loss + " lost", judge -> isSound(judge.distributed("once", loss, onePhase)));
            bodies.put("XA commit in one phase, " + loss + " lost, and again",
                judge -> isSound(judge.distributed("once", loss, "start", "work", "end", "once", "commit")));
            bodies.put("XA rollback, " + loss + " lost",
                judge -> judge.distributed("rollback", loss, "start", "work", "end", "rollback"));
            bodies.put("XA rollback of what is prepared, " + loss + " lost",
                judge -> judge.distributed("rollback", loss, "start", "work", "end", "prepare", "rollback"));
            bodies.put("XA prepare, " + loss + " lost, and rolled back",
                judge -> isSound(judge.distributed("prepare", loss, "start", "work", "end", "prepare", "rollback")));
        }
        bodies.put("XA commit, answer lost, and its messages are consumed",
            judge -> judge.distributed("commit", Loss.ANSWER, judge::consumeElsewhere, twoPhases));
        String[] steps = {"start", "work", "end", "prepare", "commit"};
        for (int place = 1; place < steps.length; place++) {
            List<String> all = new ArrayList<>(Arrays.asList(steps));
            all.add(place, "fault");
            String last = steps[place - 1];
            if (last.equals("work") || last.equals("end")) {
                bodies.put("XA, the fault is after " + last, judge -> isSound(judge.distributed(null, null, all.toArray(new String[0]))));
            } else {
                bodies.put("XA, the fault is after " + last, judge -> judge.distributed(null, null, all.toArray(new String[0])));
            }
        }
    }
}
