import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQMessageConsumer;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.ActiveMQXAConnection;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQTextMessage;
import org.apache.activemq.command.Command;
import org.apache.activemq.command.ConnectionId;
import org.apache.activemq.command.ConnectionInfo;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.DestinationInfo;
import org.apache.activemq.command.LocalTransactionId;
import org.apache.activemq.command.MessageAck;
import org.apache.activemq.command.MessageDispatch;
import org.apache.activemq.command.MessageId;
import org.apache.activemq.command.ProducerInfo;
import org.apache.activemq.command.RemoveInfo;
import org.apache.activemq.command.Response;
import org.apache.activemq.command.SessionInfo;
import org.apache.activemq.command.ShutdownInfo;
import org.apache.activemq.command.TransactionInfo;
import org.apache.activemq.transport.DefaultTransportListener;
import org.apache.activemq.transport.Transport;
import org.apache.activemq.transport.TransportFactory;
import org.apache.activemq.util.ByteSequence;

/**
 * The same for each kind of destination, of delivery and of session: transactions, acknowledgements, branches, commands; and what clients
 * do in several threads. Prints {name, result}.
 *
 * <pre>
 *   MatrixJudge BROKER_URL [TITLE...]
 * </pre>
 */
public final class MatrixJudge extends Judge {
    private static final String AT_ONCE = "jms.redeliveryPolicy.initialRedeliveryDelay=0";
    private static final String[] KINDS = {"queue", "topic", "temporary queue", "temporary topic"};
    private static final int[] DELIVERY_MODES = {DeliveryMode.NON_PERSISTENT, DeliveryMode.PERSISTENT};
    private static final int[] ACKNOWLEDGEMENTS = {
        MessageAck.DELIVERED_ACK_TYPE, MessageAck.STANDARD_ACK_TYPE, MessageAck.INDIVIDUAL_ACK_TYPE,
    };
    private static final int INDIVIDUAL = ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE;

    private final String url;
    private final AtomicInteger numbers = new AtomicInteger();

    private MatrixJudge(String... arguments) {
        super(arguments);
        url = arguments[0];
    }

    public static void main(String[] arguments) {
        MatrixJudge judge = new MatrixJudge(arguments);
        judge.kinds();
        judge.commands();
        judge.branches();
        judge.reading();
        judge.threads();
        judge.expiring();
        judge.sharing();
        judge.formats();
        judge.virtual();
    }

    /** Whether a destination is not there: the client knows it from an advisory, or is told by the broker. */
    private static Object refused(Action sending) {
        Object told = outcome(sending);
        return Set.of("throws javax.jms.InvalidDestinationException", "throws org.apache.activemq.DestinationDoesNotExistException")
            .contains(told) ? "refused" : told;
    }

    private static Session opened(ActiveMQConnection connection, int mode) throws JMSException {
        return connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
    }

    private Session opened(int mode, String... options) throws JMSException {
        return opened(started(options), mode);
    }

    private Destination destination(Session session, String kind, String suffix) throws JMSException {
        switch (kind) {
            case "queue":
                return session.createQueue(own(suffix));
            case "topic":
                return session.createTopic(own(suffix));
            case "temporary queue":
                return session.createTemporaryQueue();
            default:
                return session.createTemporaryTopic();
        }
    }

    private static void sendIn(int deliveryMode, Session session, Destination destination, long timeToLiveMs, String... texts)
            throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        producer.setDeliveryMode(deliveryMode);
        producer.setTimeToLive(timeToLiveMs);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
    }

    private static String text(Message message) throws JMSException {
        return ((TextMessage) message).getText();
    }

    /** So many dead letters of this check, whatever others there are: their texts, in the order of the alphabet. */
    private List<String> dead(Session session, int count) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Message letter : letters(session, count)) {
            found.add(text(letter));
        }
        Collections.sort(found);
        return found;
    }

    private List<Message> letters(Session session, int count) throws JMSException {
        MessageConsumer consumer = session.createConsumer(session.createQueue("ActiveMQ.DLQ"));
        List<Message> found = new ArrayList<>();
        while (found.size() < count) {
            Message letter = next(consumer);
            if (String.valueOf(((ActiveMQMessage) letter).getOriginalDestination()).contains(own(""))) {
                found.add(letter);
            }
        }
        consumer.close();
        return found;
    }

    // -- kinds of destinations, modes of delivery and of acknowledgement ------------------------------------------------

    private void kinds() {
        for (String kind : KINDS) {
            check("four with prefetch 1, " + kind, () -> {
                List<Object> found = new ArrayList<>();
                for (int deliveryMode : DELIVERY_MODES) {
                    for (int mode : new int[] {1, 2, 3, INDIVIDUAL}) {
                        Session session = opened(mode, "jms.prefetchPolicy.all=1");
                        Destination destination = destination(session, kind, "." + deliveryMode + "." + mode);
                        MessageConsumer consumer = session.createConsumer(destination);
                        sendIn(deliveryMode, session, destination, 0, numbers(1, 4));
                        Message last = null;
                        List<String> got = new ArrayList<>();
                        for (int number = 0; number < 4; number++) {
                            last = next(consumer);
                            got.add(described(last) + " " + last.getJMSDeliveryMode());
                            if (mode == INDIVIDUAL) {
                                last.acknowledge();
                            }
                        }
                        found.add(got);
                        found.add(consumer.receiveNoWait() == null);
                        last.acknowledge();
                        sendIn(deliveryMode, session, destination, 0, "5", "6");
                        found.add(held(consumer, 1));
                        found.add(described(next(consumer)));
                    }
                }
                return found;
            });
            check("a transaction that is rolled back once, " + kind, () -> {
                List<Object> found = new ArrayList<>();
                for (int deliveryMode : DELIVERY_MODES) {
                    Session session = opened(Session.SESSION_TRANSACTED, AT_ONCE);
                    Destination destination = destination(session, kind, "." + deliveryMode);
                    MessageConsumer consumer = session.createConsumer(destination);
                    sendIn(deliveryMode, session, destination, 0, "test");
                    found.add(consumer.receive(SILENCE_MS) == null);
                    session.commit();
                    found.add(described(next(consumer)));
                    found.add(consumer.receiveNoWait() == null);
                    session.rollback();
                    found.add(described(next(consumer)));
                    session.commit();
                    found.add(consumer.receiveNoWait() == null);
                    sendIn(deliveryMode, session, destination, 0, "never");
                    session.rollback();
                    sendIn(deliveryMode, session, destination, 0, "last");
                    session.commit();
                    found.add(described(next(consumer)));
                }
                return found;
            });
            check("given back in three ways, " + kind, () -> {
                List<Object> found = new ArrayList<>();
                for (int deliveryMode : DELIVERY_MODES) {
                    for (String way : new String[] {"recover", "rollback", "close"}) {
                        ActiveMQConnection connection = started(AT_ONCE);
                        Session session = opened(connection, way.equals("recover") ? 2 : Session.SESSION_TRANSACTED);
                        Session owner = opened(connection, 1);
                        Destination destination = destination(owner, kind, "." + deliveryMode + "." + way);
                        MessageConsumer consumer = session.createConsumer(destination);
                        sendIn(deliveryMode, owner, destination, 0, numbers(1, 3));
                        List<String> got = some(consumer, 2);
                        switch (way) {
                            case "recover":
                                session.recover();
                                break;
                            case "rollback":
                                session.rollback();
                                break;
                            default:
                                session.close();
                                session = opened(connection, Session.SESSION_TRANSACTED);
                                consumer = session.createConsumer(destination);
                                sendIn(deliveryMode, owner, destination, 0, "more");
                                got.addAll(some(consumer, kind.endsWith("topic") ? 1 : 4));
                                found.add(got);
                                continue;
                        }
                        got.addAll(some(consumer, 3));
                        found.add(got);
                    }
                }
                return found;
            });
        }
        check("two of four are acknowledged, prefetch 1, then another connection", () -> {
            List<Object> found = new ArrayList<>();
            for (int deliveryMode : DELIVERY_MODES) {
                for (int mode : new int[] {1, 2, 3, INDIVIDUAL}) {
                    ActiveMQConnection connection = started("jms.prefetchPolicy.all=1");
                    Session session = opened(connection, mode);
                    Queue queue = session.createQueue(own("." + deliveryMode + "." + mode));
                    MessageConsumer consumer = session.createConsumer(queue);
                    sendIn(deliveryMode, session, queue, 0, numbers(1, 4));
                    for (int number = 0; number < 2; number++) {
                        Message message = next(consumer);
                        if (number == 1 || mode == INDIVIDUAL) {
                            message.acknowledge();
                        }
                    }
                    connection.close();
                    found.add(some(opened(mode, "jms.prefetchPolicy.all=2").createConsumer(queue), 2));
                }
            }
            return found;
        });
        check("a listener closes its connection", () -> {
            List<Object> found = new ArrayList<>();
            for (int deliveryMode : DELIVERY_MODES) {
                for (boolean isAcknowledged : new boolean[] {true, false}) {
                    for (int mode : new int[] {1, 2, 3}) {
                        ActiveMQConnection connection = started("jms.prefetchPolicy.all=1");
                        Session session = opened(connection, mode);
                        Session sender = session();
                        Queue queue = session.createQueue(own("." + deliveryMode + "." + mode + "." + isAcknowledged));
                        CountDownLatch sent = new CountDownLatch(1);
                        Told told = new Told();
                        AtomicInteger count = new AtomicInteger();
                        session.createConsumer(queue).setMessageListener(message -> {
                            told.add(attempt(() -> described(message)));
                            if (count.incrementAndGet() == 2) {
                                outcome(sent::await);
                                if (isAcknowledged) {
                                    told.add(outcome(message::acknowledge));
                                }
                                told.add(outcome(connection::close));
                            } else {
                                told.add(outcome(message::acknowledge));
                            }
                        });
                        sendIn(deliveryMode, sender, queue, 0, numbers(1, 4));
                        sent.countDown();
                        found.add(told.all(isAcknowledged ? 5 : 4));
                        MessageConsumer consumer = sender.createConsumer(queue);
                        sendIn(deliveryMode, sender, queue, 0, "last");
                        List<String> left = new ArrayList<>();
                        for (String one = described(next(consumer)); !one.equals("last"); one = described(next(consumer))) {
                            left.add(one);
                        }
                        found.add(left);
                    }
                }
            }
            return found;
        });
        check("a consumer is closed in a transaction that has begun", () -> {
            Session session = opened(Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createConsumer(queue(session));
            send(session, queue(session), "1");
            session.commit();
            send(session, queue(session), "2");
            held(consumer, 1);
            consumer.close();
            consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>(some(consumer, 1));
            session.commit();
            found.addAll(some(consumer, 1));
            session.rollback();
            session.close();
            found.add(rest(session()));
            return found;
        });
        check("exclusive, in one group, ten by ten", () -> {
            Session session = opened(2, "jms.prefetchPolicy.all=10");
            Queue queue = session.createQueue(own("?consumer.exclusive=true"));
            MessageProducer producer = session.createProducer(queue);
            for (int number = 0; number < 30; number++) {
                TextMessage message = session.createTextMessage("m" + number);
                message.setStringProperty("JMSXGroupID", "FOO");
                producer.send(message);
            }
            List<Object> found = new ArrayList<>();
            for (int batch = 0; batch < 3; batch++) {
                MessageConsumer consumer = session.createConsumer(queue);
                for (int number = 0; number < 10; number++) {
                    Message message = next(consumer);
                    found.add(described(message));
                    message.acknowledge();
                }
                consumer.close();
            }
            return found;
        });
    }

    // -- commands without a client --------------------------------------------------------------------------------------

    /** Says commands over a transport, and keeps what comes. */
    private final class Line {
        private final BlockingQueue<Object> came = new LinkedBlockingQueue<>();
        private final Transport transport;
        private final ConnectionInfo connection = new ConnectionInfo();
        private final SessionInfo session;
        private final ProducerInfo producer;
        private int number;

        Line() throws Exception {
            transport = TransportFactory.connect(new URI(url));
            transport.setTransportListener(new DefaultTransportListener() {
                @Override
                public void onCommand(Object command) {
                    came.add(command);
                }

                @Override
                public void onException(IOException error) {
                    came.add(error);
                }
            });
            transport.start();
            connection.setConnectionId(new ConnectionId("connection:" + System.nanoTime()));
            connection.setClientId(connection.getConnectionId().getValue());
            session = new SessionInfo(connection, 1);
            producer = new ProducerInfo(session, 2);
            say(connection);
            say(session);
            say(producer);
        }

        void say(Command command) throws IOException {
            command.setResponseRequired(false);
            transport.oneway(command);
        }

        String ask(Command command) throws IOException {
            Response response = (Response) transport.request(command);
            return response.getClass().getSimpleName();
        }

        ConsumerInfo consumer(ActiveMQDestination destination, int id, int prefetch) {
            ConsumerInfo info = new ConsumerInfo(session, id);
            info.setDestination(destination);
            info.setPrefetchSize(prefetch);
            info.setDispatchAsync(false);
            return info;
        }

        ActiveMQTextMessage message(ActiveMQDestination destination, int deliveryMode) throws JMSException {
            ActiveMQTextMessage message = new ActiveMQTextMessage();
            message.setMessageId(new MessageId(producer, ++number));
            message.setProducerId(producer.getProducerId());
            message.setDestination(destination);
            message.setPersistent(deliveryMode == DeliveryMode.PERSISTENT);
            message.setText(String.valueOf(number));
            return message;
        }

        MessageDispatch dispatched() throws InterruptedException {
            for (long end = System.currentTimeMillis() + WAIT_MS; System.currentTimeMillis() < end;) {
                Object one = came.poll(WAIT_MS, TimeUnit.MILLISECONDS);
                if (one instanceof MessageDispatch) {
                    return (MessageDispatch) one;
                }
            }
            throw new IllegalStateException("no message came");
        }

        /** How many messages there are that nobody has asked for, when the broker has done what it was told. */
        int waiting() throws Exception {
            ask(new SessionInfo(connection, 1));
            Thread.sleep(SILENCE_MS);
            int count = 0;
            for (Object one : came) {
                count += one instanceof MessageDispatch && ((MessageDispatch) one).getMessage() != null ? 1 : 0;
            }
            return count;
        }

        MessageAck ack(ConsumerInfo consumer, MessageDispatch dispatch, int kind) {
            MessageAck ack = new MessageAck();
            ack.setAckType((byte) kind);
            ack.setConsumerId(consumer.getConsumerId());
            ack.setDestination(dispatch.getMessage().getDestination());
            ack.setLastMessageId(dispatch.getMessage().getMessageId());
            ack.setMessageCount(1);
            return ack;
        }

        /** What a browser counts, in a session of its own that ends with it. */
        int browsed(ActiveMQDestination destination, int kind) throws Exception {
            SessionInfo other = new SessionInfo(connection, 100 + ++number);
            say(other);
            ConsumerInfo browser = new ConsumerInfo(other, 1);
            browser.setDestination(destination);
            browser.setPrefetchSize(1);
            browser.setBrowser(true);
            say(browser);
            int count = 0;
            for (MessageDispatch one = dispatched(); one.getMessage() != null; one = dispatched()) {
                if (one.getConsumerId().equals(browser.getConsumerId())) {
                    count++;
                    say(ack(browser, one, kind));
                }
            }
            say(other.createRemoveCommand());
            return count;
        }

        void end() throws Exception {
            transport.oneway(new ShutdownInfo());
            transport.stop();
        }
    }

    private ActiveMQDestination raw(Line line, String kind, String suffix) throws IOException {
        byte type = (byte) (kind.endsWith("queue") ? 1 : 2);
        if (!kind.startsWith("temporary")) {
            return ActiveMQDestination.createDestination(own(suffix), type);
        }
        DestinationInfo info = new DestinationInfo();
        info.setConnectionId(line.connection.getConnectionId());
        info.setOperationType(DestinationInfo.ADD_OPERATION_TYPE);
        type = (byte) (type | ActiveMQDestination.TEMP_MASK);
        String name = line.connection.getConnectionId() + ":" + numbers.incrementAndGet();
        info.setDestination(ActiveMQDestination.createDestination(name, type));
        line.say(info);
        return info.getDestination();
    }

    private void commands() {
        for (String kind : KINDS) {
            check("commands without a client, " + kind, () -> {
                List<Object> found = new ArrayList<>();
                for (int deliveryMode : DELIVERY_MODES) {
                    for (int acked : ACKNOWLEDGEMENTS) {
                        Line line = new Line();
                        ActiveMQDestination destination = raw(line, kind, "." + deliveryMode + "." + acked);
                        ConsumerInfo consumer = line.consumer(destination, 1, 1);
                        line.ask(consumer);
                        for (int number = 0; number < 4; number++) {
                            line.ask(line.message(destination, deliveryMode));
                        }
                        for (int number = 0; number < 3; number++) {
                            found.add(line.waiting());
                            MessageDispatch dispatch = line.dispatched();
                            found.add(text((Message) dispatch.getMessage()) + " " + dispatch.getRedeliveryCounter());
                            found.add(line.ask(line.ack(consumer, dispatch, acked)));
                        }
                        if (kind.endsWith("queue")) {
                            line.dispatched();
                            found.add(line.browsed(destination, acked));
                            found.add(line.browsed(destination, MessageAck.DELIVERED_ACK_TYPE));
                        }
                        RemoveInfo removed = consumer.createRemoveCommand();
                        removed.setLastDeliveredSequenceId(-1);
                        found.add(line.ask(removed));
                        found.add(line.ask(line.connection.createRemoveCommand()));
                        line.end();
                    }
                }
                return found;
            });
            check("a transaction for each message, without a client, " + kind, () -> {
                List<Object> found = new ArrayList<>();
                for (int deliveryMode : DELIVERY_MODES) {
                    Line line = new Line();
                    ActiveMQDestination destination = raw(line, kind, "." + deliveryMode);
                    ConsumerInfo consumer = line.consumer(destination, 1, 1);
                    line.say(consumer);
                    LocalTransactionId id = new LocalTransactionId(line.connection.getConnectionId(), 1);
                    line.say(new TransactionInfo(line.connection.getConnectionId(), id, TransactionInfo.BEGIN));
                    for (int number = 0; number < 4; number++) {
                        ActiveMQTextMessage message = line.message(destination, deliveryMode);
                        message.setTransactionId(id);
                        line.ask(message);
                    }
                    found.add(line.waiting());
                    line.say(new TransactionInfo(line.connection.getConnectionId(), id, TransactionInfo.COMMIT_ONE_PHASE));
                    for (int number = 2; number < 6; number++) {
                        id = new LocalTransactionId(line.connection.getConnectionId(), number);
                        line.say(new TransactionInfo(line.connection.getConnectionId(), id, TransactionInfo.BEGIN));
                        MessageDispatch dispatch = line.dispatched();
                        found.add(text((Message) dispatch.getMessage()) + " " + dispatch.getRedeliveryCounter());
                        MessageAck ack = line.ack(consumer, dispatch, MessageAck.STANDARD_ACK_TYPE);
                        ack.setTransactionId(id);
                        line.say(ack);
                        line.say(new TransactionInfo(line.connection.getConnectionId(), id, TransactionInfo.COMMIT_ONE_PHASE));
                    }
                    found.add(line.waiting());
                    line.end();
                }
                return found;
            });
            check("the end of a consumer, a session and a connection, without a client, " + kind, () -> {
                List<Object> found = new ArrayList<>();
                for (String end : new String[] {"consumer", "session", "connection"}) {
                    Line line = new Line();
                    Line other = new Line();
                    ActiveMQDestination destination = raw(other, kind, "." + end);
                    if (kind.startsWith("temporary")) {
                        destination = raw(line, kind, "");
                    }
                    ConsumerInfo consumer = line.consumer(destination, 1, 100);
                    consumer.setNoLocal(true);
                    found.add(line.ask(consumer));
                    for (int number = 0; number < 4; number++) {
                        other.say(other.message(destination, DeliveryMode.NON_PERSISTENT));
                    }
                    for (int number = 0; number < 4; number++) {
                        line.say(line.ack(consumer, line.dispatched(), MessageAck.STANDARD_ACK_TYPE));
                    }
                    switch (end) {
                        case "consumer":
                            found.add(line.ask(consumer.createRemoveCommand()));
                            break;
                        case "session":
                            found.add(line.ask(line.session.createRemoveCommand()));
                            break;
                        default:
                            found.add(line.ask(line.connection.createRemoveCommand()));
                    }
                    if (!kind.startsWith("temporary")) {
                        found.add(other.ask(other.message(destination, DeliveryMode.NON_PERSISTENT)));
                    }
                    Thread.sleep(SILENCE_MS);
                    found.add(line.came.stream().anyMatch(one -> one instanceof MessageDispatch));
                    line.end();
                    other.end();
                }
                return found;
            });
        }
        check("a composite, without a client", () -> {
            List<Object> found = new ArrayList<>();
            for (byte type : new byte[] {1, 2}) {
                Line line = new Line();
                ActiveMQDestination both = ActiveMQDestination.createDestination(own(".A") + "," + own(".B"), type);
                ConsumerInfo first = line.consumer(ActiveMQDestination.createDestination(own(".A"), type), 1, 100);
                ConsumerInfo second = line.consumer(ActiveMQDestination.createDestination(own(".B"), type), 2, 100);
                line.ask(first);
                line.ask(second);
                found.add(line.ask(line.message(both, DeliveryMode.PERSISTENT)));
                List<String> got = new ArrayList<>();
                for (int number = 0; number < 2; number++) {
                    MessageDispatch dispatch = line.dispatched();
                    got.add(dispatch.getDestination() + " " + dispatch.getMessage().getDestination() + " "
                        + dispatch.getMessage().getOriginalDestination());
                    boolean isFirst = dispatch.getConsumerId().equals(first.getConsumerId());
                    found.add(line.ask(line.ack(isFirst ? first : second, dispatch, MessageAck.STANDARD_ACK_TYPE)));
                }
                Collections.sort(got);
                found.add(got);
                line.end();
            }
            return found;
        });
    }

    // -- branches ---------------------------------------------------------------------------------------------------------

    private Xid branch() {
        return new XaBranch("M" + System.nanoTime() + "." + numbers.incrementAndGet());
    }

    private ActiveMQXAConnection distributed(int acknowledgement, String id, String... options) throws JMSException {
        String query = options.length == 0 ? "" : "?" + String.join("&", options);
        ActiveMQXAConnectionFactory factory = new ActiveMQXAConnectionFactory(url + query);
        if (acknowledgement >= 0) {
            factory.setXaAckMode(acknowledgement);
        }
        ActiveMQXAConnection connection = (ActiveMQXAConnection) factory.createXAConnection();
        keep(connection);
        if (id != null) {
            connection.setClientID(own(id));
        }
        connection.start();
        return connection;
    }

    private void branches() {
        for (String closed : new String[] {"nothing", "consumer", "session"}) {
            for (boolean isTwoPhased : new boolean[] {false, true}) {
                check("closed within a branch: " + closed + (isTwoPhased ? ", two phases" : ""), () -> {
                    ActiveMQXAConnection connection = distributed(-1, null);
                    List<Object> found = new ArrayList<>();
                    for (String outcome : new String[] {"send", "roll back", "receive", "receive nothing"}) {
                        XASession session = connection.createXASession();
                        XAResource resource = session.getXAResource();
                        Xid branch = branch();
                        found.add(told(() -> resource.start(branch, XAResource.TMNOFLAGS)));
                        MessageConsumer consumer = null;
                        if (outcome.equals("send")) {
                            send(session, queue(session), "1", "2");
                        } else {
                            consumer = session.createConsumer(queue(session));
                            if (outcome.equals("receive nothing")) {
                                found.add(consumer.receive(SILENCE_MS) == null);
                            } else {
                                found.add(some(consumer, 2));
                            }
                        }
                        if (closed.equals("consumer") && consumer != null) {
                            consumer.close();
                        } else if (closed.equals("session")) {
                            found.add(told(session::close));
                        }
                        found.add(told(() -> resource.end(branch, XAResource.TMSUCCESS)));
                        if (isTwoPhased) {
                            found.add(asked(() -> resource.prepare(branch)));
                        }
                        found.add(told(() -> {
                            if (outcome.equals("roll back")) {
                                resource.rollback(branch);
                            } else {
                                resource.commit(branch, !isTwoPhased);
                            }
                        }));
                        session.close();
                    }
                    found.add(rest(session()));
                    return found;
                });
            }
        }
        for (int mode : new int[] {1, 2, 3, INDIVIDUAL}) {
            check("an XA session without a branch, acknowledgement " + mode, () -> {
                ActiveMQXAConnection connection = distributed(mode, null);
                Session session = connection.createXASession();
                Session sender = session();
                send(sender, queue(sender), numbers(1, 4));
                MessageConsumer consumer = session.createConsumer(queue(session));
                List<Object> found = new ArrayList<>(some(consumer, 2));
                Message third = next(consumer);
                found.add(described(third));
                found.add(outcome(third::acknowledge));
                found.add(outcome(session::recover));
                found.add(attempt(session::getTransacted));
                found.add(attempt(session::getAcknowledgeMode));
                found.add(outcome(session::close));
                connection.close();
                found.add(rest(sender));
                return found;
            });
        }
        check("a connection closes within a branch", () -> {
            List<Object> found = new ArrayList<>();
            for (String state : new String[] {"started", "ended", "prepared"}) {
                ActiveMQXAConnection connection = distributed(-1, null);
                XASession session = connection.createXASession();
                XAResource resource = session.getXAResource();
                Xid branch = branch();
                Queue queue = session.createQueue(own("." + state));
                Session sender = session();
                send(sender, queue, "received");
                resource.start(branch, XAResource.TMNOFLAGS);
                found.add(some(session.createConsumer(queue), 1));
                send(session, queue, "sent");
                if (!state.equals("started")) {
                    resource.end(branch, XAResource.TMSUCCESS);
                }
                if (state.equals("prepared")) {
                    found.add(asked(() -> resource.prepare(branch)));
                }
                found.add(told(connection::close));
                XAResource later = distributed(-1, null).createXASession().getXAResource();
                found.add(asked(() -> Arrays.asList(later.recover(XAResource.TMSTARTRSCAN)).stream()
                    .anyMatch(one -> Arrays.equals(one.getGlobalTransactionId(), branch.getGlobalTransactionId()))));
                found.add(told(() -> later.commit(branch, false)));
                MessageConsumer consumer = sender.createConsumer(queue);
                send(sender, queue, "last");
                List<String> left = new ArrayList<>();
                for (String one = described(next(consumer)); !one.equals("last"); one = described(next(consumer))) {
                    left.add(one);
                }
                found.add(left);
            }
            return found;
        });
        for (String prefetch : new String[] {"1", "100"}) {
            check("a durable subscription in branches, prefetch " + prefetch, () -> {
                ActiveMQXAConnection connection = distributed(-1, ".client", "jms.prefetchPolicy.all=" + prefetch, AT_ONCE);
                XASession session = connection.createXASession();
                XAResource resource = session.getXAResource();
                Session sender = session();
                MessageConsumer consumer = session.createDurableSubscriber(topic(session), "news");
                send(sender, topic(sender), numbers(1, 6));
                List<Object> found = new ArrayList<>();
                for (String outcome : new String[] {"roll back", "prepare, roll back", "one phase", "two phases"}) {
                    Xid branch = branch();
                    resource.start(branch, XAResource.TMNOFLAGS);
                    found.add(some(consumer, 2));
                    resource.end(branch, XAResource.TMSUCCESS);
                    if (outcome.contains("prepare") || outcome.contains("two")) {
                        found.add(asked(() -> resource.prepare(branch)));
                    }
                    found.add(told(() -> {
                        if (outcome.contains("back")) {
                            resource.rollback(branch);
                        } else {
                            resource.commit(branch, outcome.contains("one"));
                        }
                    }));
                }
                connection.close();
                connection = distributed(1, ".client");
                Session again = connection.createSession(false, 1);
                consumer = again.createDurableSubscriber(topic(again), "news");
                found.add(some(consumer, 2));
                consumer.close();
                again.unsubscribe("news");
                return found;
            });
        }
        check("two sessions of one branch", () -> {
            ActiveMQXAConnection connection = distributed(-1, null);
            XASession one = connection.createXASession();
            XASession two = connection.createXASession();
            Xid branch = branch();
            Session sender = session();
            send(sender, queue(sender), "received");
            List<Object> found = new ArrayList<>();
            found.add(told(() -> one.getXAResource().start(branch, XAResource.TMNOFLAGS)));
            found.add(told(() -> two.getXAResource().start(branch, XAResource.TMJOIN)));
            send(one, one.createQueue(own(".out")), "by one");
            found.add(some(two.createConsumer(queue(two)), 1));
            send(two, two.createQueue(own(".out")), "by two");
            found.add(told(() -> one.getXAResource().end(branch, XAResource.TMSUCCESS)));
            found.add(told(() -> two.getXAResource().end(branch, XAResource.TMSUCCESS)));
            found.add(asked(() -> one.getXAResource().prepare(branch)));
            found.add(told(() -> one.getXAResource().commit(branch, false)));
            one.close();
            two.close();
            found.add(some(sender.createConsumer(sender.createQueue(own(".out"))), 2));
            found.add(rest(sender));
            return found;
        });
        check("a branch, and a transaction of another connection meanwhile", () -> {
            ActiveMQXAConnection connection = distributed(-1, null);
            XASession session = connection.createXASession();
            XAResource resource = session.getXAResource();
            Session local = opened(Session.SESSION_TRANSACTED);
            send(local, queue(local), "1");
            local.commit();
            Xid branch = branch();
            resource.start(branch, XAResource.TMNOFLAGS);
            List<Object> found = new ArrayList<>(some(session.createConsumer(queue(session)), 1));
            resource.end(branch, XAResource.TMSUCCESS);
            send(local, local.createQueue(own(".other")), "2");
            local.rollback();
            local.close();
            found.add(told(() -> resource.commit(branch, true)));
            session.close();
            found.add(rest(session()));
            return found;
        });
    }

    // -- what cannot be read ------------------------------------------------------------------------------------------------------

    private void reading() {
        check("properties that nobody can read", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(queue(session));
            for (int number = 0; number < 6; number++) {
                ActiveMQTextMessage message = (ActiveMQTextMessage) session.createTextMessage("m" + number);
                message.setStringProperty("wanted", "a");
                if (number % 3 == 1) {
                    message.beforeMarshall(null);
                    ByteSequence marshalled = message.getMarshalledProperties();
                    marshalled.data[marshalled.offset + 1] = 16; // as many properties as there cannot be
                }
                producer.send(message);
            }
            List<Object> found = new ArrayList<>();
            Enumeration<?> shown = session.createBrowser(queue(session)).getEnumeration();
            while (shown.hasMoreElements()) {
                found.add(text((Message) shown.nextElement()));
            }
            MessageConsumer consumer = session.createConsumer(queue(session));
            for (int number = 0; number < 6; number++) {
                found.add(text(next(consumer)));
            }
            return found;
        });
    }

    // -- threads ------------------------------------------------------------------------------------------------------------

    private void threads() {
        check("two pull, a third acknowledges one by one", () -> {
            ActiveMQConnection connection = started("jms.prefetchPolicy.all=0");
            Session session = opened(connection, INDIVIDUAL);
            MessageConsumer first = session.createConsumer(queue(session));
            MessageConsumer second = session.createConsumer(queue(session));
            int count = 300;
            BlockingQueue<Message> got = new LinkedBlockingQueue<>();
            AtomicInteger done = new AtomicInteger();
            List<Object> failures = Collections.synchronizedList(new ArrayList<>());
            List<Thread> threads = new ArrayList<>();
            for (MessageConsumer consumer : new MessageConsumer[] {first, second}) {
                threads.add(new Thread(() -> {
                    try {
                        for (long end = System.currentTimeMillis() + WAIT_MS; done.get() < count && System.currentTimeMillis() < end;) {
                            Message message = consumer == first ? consumer.receiveNoWait() : consumer.receive(50);
                            if (message != null) {
                                got.add(message);
                            }
                        }
                    } catch (JMSException error) {
                        failures.add(thrown(error));
                    }
                }));
            }
            Set<String> texts = new TreeSet<>();
            threads.add(new Thread(() -> {
                try {
                    for (long end = System.currentTimeMillis() + WAIT_MS; done.get() < count && System.currentTimeMillis() < end;) {
                        Message message = got.poll(100, TimeUnit.MILLISECONDS);
                        if (message != null) {
                            texts.add(described(message));
                            message.acknowledge();
                            done.incrementAndGet();
                        }
                    }
                } catch (Exception error) {
                    failures.add(thrown(error));
                }
            }));
            for (Thread thread : threads) {
                thread.start();
            }
            Session sender = session();
            send(sender, queue(sender), numbers(1, count));
            for (Thread thread : threads) {
                thread.join(WAIT_MS);
            }
            connection.close();
            return Arrays.asList(done.get(), texts.size(), failures, rest(sender));
        });
        for (int mode : new int[] {2, INDIVIDUAL}) {
            check("two sessions acknowledge in another order, mode " + mode, () -> {
                ActiveMQConnection connection = started();
                Told failures = new Told();
                connection.setExceptionListener(error -> failures.add(thrown(error)));
                CountDownLatch second = new CountDownLatch(1);
                Told told = new Told();
                List<Session> sessions = new ArrayList<>();
                for (int number = 0; number < 2; number++) {
                    Session session = opened(connection, mode);
                    sessions.add(session);
                    MessageConsumer consumer = session.createConsumer(session.createQueue(own("?consumer.prefetchSize=1")));
                    consumer.setMessageListener(message -> {
                        if (String.valueOf(attempt(() -> text(message))).equals("1")) {
                            outcome(() -> second.await(WAIT_MS, TimeUnit.MILLISECONDS));
                        }
                        told.add(outcome(message::acknowledge));
                        second.countDown();
                    });
                }
                Session sender = session();
                send(sender, queue(sender), "1", "2");
                List<Object> found = new ArrayList<>(told.all(2));
                for (Session session : sessions) {
                    session.close();
                }
                found.add(rest(sender));
                found.add(failures.all(0));
                return found;
            });
        }
        check("sessions that are served slowly, and what expires meanwhile", () -> {
            ActiveMQConnection connection = started();
            Told failures = new Told();
            connection.setExceptionListener(error -> failures.add(thrown(error)));
            BlockingQueue<Session> idle = new LinkedBlockingQueue<>();
            for (int number = 0; number < 5; number++) {
                Session session = opened(connection, 1);
                session.setMessageListener(message -> outcome(() -> Thread.sleep(100)));
                idle.add(session);
            }
            javax.jms.ServerSessionPool pool = () -> {
                try {
                    Session session = idle.take();
                    return served(session, () -> {
                        session.run();
                        idle.add(session);
                    });
                } catch (InterruptedException error) {
                    throw new JMSException("interrupted");
                }
            };
            Session sender = session();
            javax.jms.ConnectionConsumer consumer = connection.createConnectionConsumer(queue(sender), null, pool, 1000);
            MessageProducer producer = sender.createProducer(queue(sender));
            producer.setTimeToLive(30);
            for (int number = 0; number < 60; number++) {
                producer.send(sender.createTextMessage("m" + number));
                Thread.sleep(10);
            }
            Thread.sleep(500);
            consumer.close();
            connection.close();
            return Arrays.asList(failures.all(0), rest(sender));
        });
        check("a durable subscriber comes back again and again while it is published", () -> {
            ActiveMQConnection first = named();
            opened(first, 1).createDurableSubscriber(topic(session()), "news").close();
            first.close();
            int count = 40;
            Thread publisher = new Thread(() -> outcome(() -> {
                Session session = session();
                MessageProducer producer = session.createProducer(topic(session));
                for (int number = 1; number <= count; number++) {
                    producer.send(session.createTextMessage(String.valueOf(number)));
                    Thread.sleep(2);
                }
            }));
            publisher.start();
            List<Object> found = new ArrayList<>();
            while (found.size() < count) {
                ActiveMQConnection connection = named();
                Session session = opened(connection, 1);
                MessageConsumer consumer = session.createDurableSubscriber(topic(session), "news");
                found.addAll(some(consumer, 2));
                connection.stop();
                consumer.close();
                session.close();
                connection.close();
            }
            publisher.join(WAIT_MS);
            return found;
        });
        check("workers with prefetch 1 send work to each other", () -> {
            ActiveMQConnection connection = started("jms.prefetchPolicy.queuePrefetch=1");
            Told done = new Told();
            AtomicInteger counter = new AtomicInteger();
            for (int number = 0; number < 2; number++) {
                Session session = opened(connection, 1);
                MessageProducer work = session.createProducer(queue(session));
                MessageProducer finished = session.createProducer(session.createQueue(own(".done")));
                session.createConsumer(queue(session)).setMessageListener(message -> outcome(() -> {
                    if (counter.incrementAndGet() % 10 != 0) {
                        work.send(session.createTextMessage("more"));
                    }
                    finished.send(session.createTextMessage("done"));
                }));
            }
            Session master = opened(connection, 1);
            master.createConsumer(master.createQueue(own(".done"))).setMessageListener(message -> done.add("done"));
            List<Object> found = new ArrayList<>();
            for (int batch = 1; batch <= 3; batch++) {
                send(master, queue(master), "begin");
                found.add(done.all(10 * batch).size());
            }
            return found;
        });
        check("all are rolled back without blocking, until they are dead letters", () -> {
            int count = 40;
            Session session = opened(Session.SESSION_TRANSACTED, "jms.nonBlockingRedelivery=true",
                "jms.redeliveryPolicy.maximumRedeliveries=2", "jms.redeliveryPolicy.initialRedeliveryDelay=20",
                "jms.redeliveryPolicy.redeliveryDelay=20");
            Session sender = session();
            send(sender, queue(sender), numbers(1, count));
            session.createConsumer(queue(session)).setMessageListener(message -> outcome(session::rollback));
            Set<String> letters = new TreeSet<>(dead(sender, count));
            session.close();
            return Arrays.asList(letters.size(), rest(sender));
        });
        check("somebody sends to a temporary queue while its owner goes", () -> {
            List<Object> found = new ArrayList<>();
            for (String way : new String[] {"connection", "queue"}) {
                ActiveMQConnection owner = started();
                javax.jms.TemporaryQueue queue = opened(owner, 1).createTemporaryQueue();
                Session session = opened(1, "jms.alwaysSyncSend=true");
                MessageProducer producer = session.createProducer(queue);
                producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
                AtomicInteger sent = new AtomicInteger();
                Told told = new Told();
                Thread sending = new Thread(() -> told.add(refused(() -> {
                    for (long end = System.currentTimeMillis() + WAIT_MS; System.currentTimeMillis() < end; sent.incrementAndGet()) {
                        producer.send(session.createTextMessage("x"));
                    }
                })));
                sending.start();
                for (long end = System.currentTimeMillis() + WAIT_MS; sent.get() < 20 && System.currentTimeMillis() < end;) {
                    Thread.sleep(5);
                }
                if (way.equals("connection")) {
                    owner.close();
                } else {
                    queue.delete();
                }
                found.add(told.all(1));
                found.add(refused(() -> producer.send(session.createTextMessage("y"))));
                sending.join(WAIT_MS);
            }
            return found;
        });
        check("many temporary queues while somebody does not hear of them", () -> {
            ActiveMQConnection deaf = started();
            CountDownLatch done = new CountDownLatch(1);
            deaf.getTransport().setTransportListener(new DefaultTransportListener() {
                @Override
                public void onCommand(Object command) {
                    outcome(() -> done.await(2 * WAIT_MS, TimeUnit.MILLISECONDS));
                }
            });
            Session session = opened(1, "jms.watchTopicAdvisories=false");
            int count = 0;
            for (long end = System.currentTimeMillis() + WAIT_MS; count < 2500 && System.currentTimeMillis() < end; count++) {
                javax.jms.TemporaryQueue queue = session.createTemporaryQueue();
                session.createConsumer(queue).close();
                queue.delete();
            }
            done.countDown();
            deaf.getTransport().stop();
            return count;
        });
    }

    private static javax.jms.ServerSession served(Session session, Runnable run) {
        return new javax.jms.ServerSession() {
            @Override
            public Session getSession() {
                return session;
            }

            @Override
            public void start() {
                new Thread(run).start();
            }
        };
    }

    /** A connection with the check's client id, as soon as the broker has heard that the last one with it is gone. */
    private ActiveMQConnection named() throws Exception {
        for (long end = System.currentTimeMillis() + WAIT_MS;; Thread.sleep(20)) {
            ActiveMQConnection connection = connection("jms.watchTopicAdvisories=false");
            try {
                connection.setClientID(own(".client"));
                connection.start();
                return connection;
            } catch (javax.jms.InvalidClientIDException refused) {
                connection.close();
                if (System.currentTimeMillis() > end) {
                    throw refused;
                }
            }
        }
    }

    // -- what expires -------------------------------------------------------------------------------------------------------

    private void expiring() {
        for (String kind : new String[] {"queue", "topic"}) {
            check("what has expired is acknowledged at once, " + kind, () -> {
                Session session = opened(1, "jms.prefetchPolicy.all=4", "jms.sendAcksAsync=false");
                Destination destination = destination(session, kind, "");
                MessageConsumer consumer = session.createConsumer(destination);
                Session sender = session();
                sendIn(DeliveryMode.PERSISTENT, sender, destination, 400, numbers(1, 4));
                held(consumer, 4);
                Thread.sleep(400);
                send(sender, destination, numbers(11, 14));
                List<Object> found = new ArrayList<>();
                for (int number = 0; number < 4; number++) {
                    found.add(described(next(consumer)));
                    found.add(outcome(((ActiveMQMessageConsumer) consumer)::acknowledge));
                }
                found.add(consumer.receiveNoWait() == null);
                session.close();
                if (kind.equals("queue")) {
                    found.add(rest(sender));
                }
                return found;
            });
        }
        for (boolean isHeard : new boolean[] {true, false}) {
            check("much has expired for who optimises, " + (isHeard ? "and listens" : "and receives"), () -> {
                List<Object> found = new ArrayList<>();
                for (int[] counts : new int[][] {{0, 45, 60}, {56, 44, 4}}) {
                    ActiveMQConnection connection = connection("jms.optimizeAcknowledge=true", "jms.prefetchPolicy.all=100");
                    Session session = opened(connection, 1);
                    Queue queue = session.createQueue(own("." + counts[2]));
                    MessageConsumer consumer = session.createConsumer(queue);
                    Session sender = session();
                    sendIn(1, sender, queue, 0, numbers(1, counts[0]));
                    sendIn(1, sender, queue, 100, numbers(101, 100 + counts[1]));
                    sendIn(1, sender, queue, 60_000, numbers(201, 200 + counts[2]));
                    Thread.sleep(200);
                    if (isHeard) {
                        Told told = new Told();
                        consumer.setMessageListener(message -> told.add(attempt(() -> described(message))));
                        connection.start();
                        found.add(told.all(counts[0] + counts[2]));
                    } else {
                        connection.start();
                        found.add(some(consumer, counts[0] + counts[2]));
                    }
                    connection.close();
                }
                return found;
            });
        }
    }

    // -- who gets what -------------------------------------------------------------------------------------------------------

    private void sharing() {
        check("a topic's slow consumer that has asked for a limit", () -> {
            List<Object> found = new ArrayList<>();
            for (String limit : new String[] {"0", "1", "3", "100"}) {
                Session session = opened(2, "jms.prefetchPolicy.all=2");
                String options = "?consumer.maximumPendingMessageLimit=" + limit;
                Topic topic = session.createTopic(own("." + limit));
                MessageConsumer consumer = session.createConsumer(session.createTopic(own("." + limit) + options));
                Session sender = session();
                send(sender, topic, numbers(1, 20));
                found.add(held(consumer, 2));
                Message last = next(consumer);
                List<String> got = new ArrayList<>(Arrays.asList(described(last)));
                last.acknowledge();
                for (Message message : all(consumer)) {
                    got.add(described(message));
                    message.acknowledge();
                }
                found.add(got);
            }
            return found;
        });
        check("an exclusive consumer of a wildcard", () -> {
            Session session = session();
            MessageConsumer first = session.createConsumer(session.createQueue(own(".>?consumer.exclusive=true")));
            MessageConsumer second = session().createConsumer(session.createQueue(own(".>")));
            MessageConsumer third = session().createConsumer(session.createQueue(own(".a")));
            send(session, session.createQueue(own(".a")), "a1", "a2", "a3");
            send(session, session.createQueue(own(".b")), "b1", "b2", "b3");
            List<Object> found = new ArrayList<>();
            for (List<Message> some : shared(6, first, second, third)) {
                List<String> texts = new ArrayList<>();
                for (Message message : some) {
                    texts.add(text(message));
                }
                Collections.sort(texts);
                found.add(texts);
            }
            return found;
        });
        check("a consumer of high priority that is full", () -> {
            Session session = session();
            Session high = opened(2, "jms.prefetchPolicy.all=2");
            Session low = opened(2, "jms.prefetchPolicy.all=3");
            MessageConsumer second = low.createConsumer(low.createQueue(own("?consumer.priority=1")));
            MessageConsumer first = high.createConsumer(high.createQueue(own("?consumer.priority=9")));
            send(session, queue(session), numbers(1, 9));
            List<Object> found = new ArrayList<>(Arrays.asList(held(first, 2), held(second, 3)));
            Message message = next(first);
            found.add(described(message));
            message.acknowledge();
            found.add(held(first, 2));
            high.close();
            found.add(some(second, 3));
            return found;
        });
        check("a client that is idle for longer than it may be silent", () -> {
            ActiveMQConnection connection = started("wireFormat.maxInactivityDuration=600",
                "wireFormat.maxInactivityDurationInitalDelay=600");
            Told failures = new Told();
            connection.setExceptionListener(error -> failures.add(thrown(error)));
            Session session = opened(connection, 1);
            MessageConsumer consumer = session.createConsumer(queue(session));
            Thread.sleep(2500);
            send(session, queue(session), "still there");
            return Arrays.asList(some(consumer, 1), failures.all(0));
        });
        for (int mode : new int[] {1, 2, 3, INDIVIDUAL, Session.SESSION_TRANSACTED}) {
            check("a topic is pulled while it is published, mode " + mode, () -> {
                ActiveMQConnection connection = started();
                Session session = opened(connection, mode);
                Session sender = opened(connection, 1);
                MessageConsumer consumer = session.createConsumer(session.createTopic(own("?consumer.prefetchSize=0")));
                int count = 400;
                Thread publisher = new Thread(() -> outcome(() -> send(sender, topic(sender), numbers(1, count))));
                publisher.start();
                boolean isOrdered = true;
                for (int number = 1; number <= count; number++) {
                    Message message = next(consumer);
                    isOrdered &= described(message).equals(String.valueOf(number));
                    message.acknowledge();
                    if (mode == Session.SESSION_TRANSACTED && number % 50 == 0) {
                        session.commit();
                    }
                }
                publisher.join(WAIT_MS);
                return Arrays.asList(isOrdered, consumer.receiveNoWait() == null);
            });
        }
    }

    // -- formats ------------------------------------------------------------------------------------------------------------

    private void formats() {
        check("wire formats of all kinds", () -> {
            List<String> formats = new ArrayList<>(Arrays.asList("cacheEnabled=false", "tightEncodingEnabled=false", "cacheSize=500",
                "stackTraceEnabled=false", "tcpNoDelayEnabled=false", "maxInactivityDuration=0"));
            for (int version : new int[] {1, 2, 3, 5, 6, 9, 10, 11, 12}) {
                formats.add("version=" + version);
            }
            List<Object> found = new ArrayList<>();
            for (String format : formats) {
                found.add(format + ": " + attempt(() -> formatted(format)));
            }
            return found;
        });
        check("frames that are larger than was agreed", () -> {
            char[] letters = new char[20_000];
            Arrays.fill(letters, 'x');
            String large = new String(letters);
            List<Object> found = new ArrayList<>();
            ActiveMQConnection connection = started("wireFormat.maxFrameSize=4096");
            CountDownLatch failed = new CountDownLatch(1);
            connection.setExceptionListener(error -> failed.countDown());
            Session session = opened(connection, 1);
            send(session, queue(session), "small");
            found.add(outcome(() -> send(session, queue(session), large)));
            found.add(failed.await(2, TimeUnit.SECONDS));
            outcome(connection::close);
            Session sender = session();
            found.add(rest(sender).toString().length());
            send(sender, queue(sender), "before", large, "behind");
            connection = started("wireFormat.maxFrameSize=4096");
            CountDownLatch broken = new CountDownLatch(1);
            connection.setExceptionListener(error -> broken.countDown());
            opened(connection, 2).createConsumer(queue(sender));
            found.add(broken.await(WAIT_MS, TimeUnit.MILLISECONDS));
            outcome(connection::close);
            MessageConsumer consumer = sender.createConsumer(queue(sender));
            for (int number = 0; number < 3; number++) {
                found.add(text(next(consumer)).length());
            }
            return found;
        });
    }

    private Object formatted(String format) throws Exception {
        ActiveMQConnection connection = started("wireFormat." + format, AT_ONCE);
        Session session = opened(connection, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(own("." + format.replace('=', '.')));
        MapMessage message = session.createMapMessage();
        message.setString("text", "\u00e4\u20ac");
        message.setLong("number", 1L << 40);
        message.setStringProperty("name", "value");
        message.setJMSReplyTo(session.createTemporaryQueue());
        message.setJMSCorrelationID("correlated");
        MessageProducer producer = session.createProducer(queue);
        for (int number = 0; number < 30; number++) {
            message.setIntProperty("number", number);
            producer.send(message);
        }
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        List<Object> found = new ArrayList<>();
        next(consumer);
        session.rollback();
        Message last = null;
        for (int number = 0; number < 30; number++) {
            last = next(consumer);
        }
        session.commit();
        found.add(body(last) + " " + properties(last) + " " + headers(last).get("reply to") + " " + last.getJMSCorrelationID());
        found.add(outcome(() -> session.createConsumer(queue, "a b c")));
        Session other = opened(connection, 1);
        TextMessage compared = other.createTextMessage("x");
        compared.setJMSType("typed");
        other.createProducer(queue).send(compared);
        found.add(((TextMessage) other.createBrowser(queue, "JMSType = 'typed'").getEnumeration().nextElement()).getText());
        connection.close();
        return found;
    }

    // -- virtual topics -------------------------------------------------------------------------------------------------------

    private void virtual() {
        check("a composite of virtual topics", () -> {
            Session session = session();
            List<MessageConsumer> consumers = new ArrayList<>();
            for (String name : new String[] {"Consumer.C.VirtualTopic." + own(".1"), "Consumer.D.VirtualTopic." + own(".1"),
                "Consumer.A.VirtualTopic." + own(".2")}) {
                consumers.add(session.createConsumer(session.createQueue(name)));
            }
            Topic both = session.createTopic("VirtualTopic." + own(".1") + ",VirtualTopic." + own(".2"));
            send(session, both, "hello");
            List<Object> found = new ArrayList<>();
            for (MessageConsumer consumer : consumers) {
                Message message = next(consumer);
                Destination original = ((ActiveMQMessage) message).getOriginalDestination();
                found.add(described(message) + " " + message.getJMSDestination() + " " + original);
            }
            return found;
        });
        check("a durable subscription of a virtual topic comes to an end", () -> {
            ActiveMQConnection connection = named();
            Session session = opened(connection, 1);
            String name = "VirtualTopic." + own("");
            MessageConsumer first = session.createConsumer(session.createQueue("Consumer.A." + name));
            MessageConsumer second = session.createConsumer(session.createQueue("Consumer.A." + name));
            Topic topic = session.createTopic(name);
            session.createDurableSubscriber(topic, "sub").close();
            send(session, topic, numbers(1, 10));
            List<Object> found = new ArrayList<>();
            int count = 0;
            for (List<Message> some : shared(10, first, second)) {
                count += some.size();
            }
            found.add(count);
            found.add(outcome(() -> session.unsubscribe("sub")));
            found.add(outcome(() -> session.unsubscribe("sub")));
            return found;
        });
    }
}
