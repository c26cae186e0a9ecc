import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Which of several brokers a client prefers, and what becomes of what it is in the middle of when it goes from one to the other: checks of
 * `FailoverJudge`. Both are the same broker, by two ways.
 */
final class FailoverPlaces {
    private static final String QUICK = "initialReconnectDelay=10&maxReconnectDelay=50&useExponentialBackOff=false";

    private final FailoverJudge judge;
    private final Way first;
    private final Way second;

    private FailoverPlaces(FailoverJudge judge) throws Exception {
        this.judge = judge;
        this.first = judge.another();
        this.second = judge.another();
    }

    static void add(Map<String, FailoverJudge.Body> bodies) {
        for (String options : new String[] {
            "randomize=false", "randomize=false&priorityBackup=true", "priorityBackup=true&priorityURIs=FIRST", "randomize=false&backup=true",
            "randomize=false&backup=true&backupPoolSize=2&priorityBackup=true",
        }) {
            boolean isBack = options.contains("priorityBackup");
            bodies.put("preferred place, " + options + ": who sends and who receives", judge -> new FailoverPlaces(judge).using(options, isBack));
            bodies.put("preferred place, " + options + ": who is in transactions", judge -> new FailoverPlaces(judge).transacting(options, isBack));
        }
    }

    private ActiveMQConnection connection(String options) throws Exception {
        String url = "failover:(" + first.url() + "," + second.url() + ")?" + QUICK + "&" + options.replace("FIRST", first.url());
        ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection();
        judge.keep(connection);
        connection.start();
        await(connection, first);
        return connection;
    }

    private static void await(ActiveMQConnection connection, Way way) throws InterruptedException {
        String place = way.url().substring("tcp://".length());
        for (long end = System.currentTimeMillis() + 30_000; !isAt(connection, place); Thread.sleep(5)) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("the client is not where it should be");
            }
        }
    }

    private static boolean isAt(ActiveMQConnection connection, String place) {
        return connection.getTransport().isConnected() && connection.getTransport().getRemoteAddress().contains(place);
    }

    /** The first one is gone; then it is there again, and clients go back to it or do not. */
    private void fails(ActiveMQConnection connection) throws Exception {
        first.refuse();
        await(connection, second);
    }

    private Object returns(ActiveMQConnection connection, boolean isBack) throws Exception {
        first.opens();
        if (isBack) {
            await(connection, first);
            return "back";
        }
        for (long end = System.currentTimeMillis() + 1000; System.currentTimeMillis() < end; Thread.sleep(5)) {
            if (isAt(connection, first.url().substring("tcp://".length()))) {
                return "back";
            }
        }
        return "stays";
    }

    private Object using(String options, boolean isBack) throws Exception {
        ActiveMQConnection connection = connection(options);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(judge.queue(session));
        MessageConsumer consumer = session.createConsumer(judge.queue(session));
        List<String> texts = new ArrayList<>();
        send(session, producer, "1", "2", "3");
        receive(consumer, 1, texts);
        fails(connection);
        send(session, producer, "4", "5");
        receive(consumer, 1, texts);
        List<Object> found = FailoverJudge.list(returns(connection, isBack));
        send(session, producer, "6");
        List<Object> all = FailoverJudge.list(texts, judge.rest(consumer));
        consumer.close();
        all.addAll(judge.left());
        found.add(FailoverJudge.whole(all));
        return found;
    }

    private Object transacting(String options, boolean isBack) throws Exception {
        ActiveMQConnection connection = connection(options);
        FailoverJudge.send(judge.session(), judge.queue(judge.session()), "1", "2", "3");
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue(judge.own(".out")));
        MessageConsumer consumer = session.createConsumer(judge.queue(session));
        List<Object> found = FailoverJudge.list();
        send(session, producer, "a");
        fails(connection);
        send(session, producer, "b");
        found.add(FailoverJudge.outcome(session::commit));
        send(session, producer, "c");
        found.add(returns(connection, isBack));
        send(session, producer, "d");
        found.add(FailoverJudge.outcome(session::commit));
        List<String> texts = new ArrayList<>();
        receive(consumer, 3, texts);
        List<Object> all = FailoverJudge.list(texts, FailoverJudge.outcome(session::commit)); // the client may take them for duplicates
        consumer.close();
        all.addAll(judge.left());
        found.add(FailoverJudge.whole(all));
        found.add(judge.rest(judge.session().createConsumer(session.createQueue(judge.own(".out")))));
        return found;
    }

    private static void send(Session session, MessageProducer producer, String... texts) throws Exception {
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
    }

    private static void receive(MessageConsumer consumer, int count, List<String> texts) throws Exception {
        for (int number = 0; number < count; number++) {
            texts.add(((TextMessage) FailoverJudge.next(consumer)).getText());
        }
    }
}
