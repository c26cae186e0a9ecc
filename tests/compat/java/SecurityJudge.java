import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQQueue;

/**
 * What users may not do, and how they are told. The users are those of test_security.py. Prints {name, result}.
 *
 * <pre>
 *   SecurityJudge BROKER_URL
 * </pre>
 */
public final class SecurityJudge extends Judge {
    private final String url;

    private SecurityJudge(String url) {
        super(url);
        this.url = url;
    }

    public static void main(String[] arguments) {
        SecurityJudge judge = new SecurityJudge(arguments[0]);
        judge.logins();
        judge.denials();
    }

    /** The class and the text of what an action throws. */
    private static Object refusal(Action action) {
        try {
            action.run();
            return "done";
        } catch (Exception error) {
            return thrown(error) + ": " + anonymous(error.getMessage());
        }
    }

    private ActiveMQConnection connecting(String user, String password, String... options) throws JMSException {
        String query = options.length == 0 ? "" : "?" + String.join("&", options);
        return (ActiveMQConnection) new ActiveMQConnectionFactory(user, password, url + query).createConnection();
    }

    /** For what is sent meanwhile. */
    @Override
    ActiveMQConnection connection(String... options) throws JMSException {
        return connecting("admin", "a", options);
    }

    private ActiveMQConnection opened(String user, String... options) throws JMSException {
        ActiveMQConnection connection = connecting(user, user.substring(0, 1), options);
        connection.start();
        return connection;
    }

    private void logins() {
        check("logins", () -> {
            List<Object> found = new ArrayList<>();
            for (String[] login : new String[][] {{"admin", "a"}, {"admin", "wrong"}, {"nobody", "a"}, {"admin", null}, {null, "a"}, {null, null}, {"", ""}}) {
                Connection connection = connecting(login[0], login[1]);
                found.add(Arrays.toString(login) + " " + refusal(connection::start));
                found.add(outcome(connection::close));
            }
            return found;
        });
        check("a login with a client id", () -> {
            Connection connection = connecting("admin", "wrong");
            List<Object> found = new ArrayList<>();
            found.add(outcome(() -> connection.setClientID("wrong login")));
            found.add(outcome(connection::close));
            Connection right = opened("admin");
            found.add(outcome(right::close));
            return found;
        });
    }

    private Map<String, Object> eachOf(Session session, boolean isSending) throws JMSException {
        Map<String, Object> found = new LinkedHashMap<>();
        for (String name : new String[] {"READ.A", "READ.NEW", "WRITE.A", "WRITE.NEW", "WRITE.A.B", "OTHER", "OTHER.NEW", "FREE", "FREE.NEW", "STAR",
            "FREE.X,FREE.Y", "FREE.X,OTHER", "READ.A,READ.A", "READ.A,READ.LATER", "ActiveMQ.DLQ"}) {
            for (Destination destination : new Destination[] {session.createQueue(name), session.createTopic(name)}) {
                String key = (destination instanceof ActiveMQQueue ? "queue " : "topic ") + name;
                Object refusal = refusal(() -> {
                    if (isSending) {
                        session.createProducer(null).send(destination, session.createMessage());
                    } else {
                        session.createConsumer(destination).close();
                    }
                });
                boolean isComposite = name.contains(","); // one names all of it, the other what is denied
                found.put(key, isComposite ? String.valueOf(refusal).replaceAll(":[^:]*(://.*)?$", "") : refusal);
            }
        }
        return found;
    }

    private void denials() {
        check("there are destinations", () -> {
            Connection connection = opened("admin");
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            for (String name : new String[] {"READ.A", "WRITE.A", "OTHER"}) {
                found.add(refusal(() -> send(session, session.createQueue(name), "x")));
                found.add(refusal(() -> send(session, session.createTopic(name), "x")));
            }
            connection.close();
            return found;
        });
        for (String user : new String[] {"bob", "lone", "admin"}) {
            check("sending as " + user, () -> {
                Connection connection = opened(user, "jms.watchTopicAdvisories=" + !user.equals("lone")); // who may not even read those
                Object found = eachOf(connection.createSession(false, Session.AUTO_ACKNOWLEDGE), true);
                connection.close();
                return found;
            });
            check("receiving as " + user, () -> {
                Connection connection = opened(user, "jms.watchTopicAdvisories=" + !user.equals("lone")); // who may not even read those
                Object found = eachOf(connection.createSession(false, Session.AUTO_ACKNOWLEDGE), false);
                connection.close();
                return found;
            });
        }
        check("producers, browsers, durable subscriptions, wildcards", () -> {
            Connection connection = connecting("bob", "b");
            connection.setClientID("bob");
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            found.add(refusal(() -> session.createProducer(session.createQueue("OTHER"))));
            found.add(refusal(() -> session.createProducer(session.createQueue("WRITE.A"))));
            found.add(refusal(() -> Collections.list(session.createBrowser(session.createQueue("OTHER")).getEnumeration())));
            found.add(refusal(() -> Collections.list(session.createBrowser(session.createQueue("READ.A")).getEnumeration())));
            found.add(refusal(() -> session.createDurableSubscriber(session.createTopic("OTHER"), "s")));
            found.add(refusal(() -> session.createDurableSubscriber(session.createTopic("READ.A"), "s").close()));
            found.add(refusal(() -> session.unsubscribe("s")));
            for (String name : new String[] {">", "READ.>", "OTHER.>", "*", "READ.*"}) {
                found.add(name + " " + refusal(() -> session.createConsumer(session.createQueue(name)).close()));
            }
            found.add(refusal(() -> session.createConsumer(session.createTopic("ActiveMQ.Advisory.Consumer.Queue.READ.A")).close()));
            connection.close();
            return found;
        });
        check("temporary destinations", () -> {
            List<Object> found = new ArrayList<>();
            for (String user : new String[] {"bob", "admin"}) {
                Connection connection = opened(user);
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                found.add(refusal(session::createTemporaryTopic));
                found.add(refusal(() -> {
                    TemporaryQueue queue = session.createTemporaryQueue();
                    MessageConsumer consumer = session.createConsumer(queue);
                    send(session, queue, "x");
                    next(consumer);
                    consumer.close();
                    queue.delete();
                }));
                connection.close();
            }
            return found;
        });
        check("destinations are not removed by everybody", () -> {
            ActiveMQConnection connection = opened("bob");
            List<Object> found = new ArrayList<>();
            for (String name : new String[] {"READ.A", "WRITE.A", "FREE.NEW"}) {
                found.add(refusal(() -> connection.destroyDestination(ActiveMQDestination.createDestination(name, (byte) 1))));
            }
            connection.close();
            return found;
        });
        check("a transaction with what is denied", () -> {
            ActiveMQConnection connection = opened("bob");
            Told told = new Told();
            connection.setExceptionListener(error -> told.add(thrown(error)));
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageProducer producer = session.createProducer(null);
            List<Object> found = new ArrayList<>();
            found.add(refusal(() -> producer.send(session.createQueue("FREE.T"), session.createMessage())));
            found.add(outcome(() -> producer.send(session.createQueue("OTHER"), session.createMessage())));
            found.add(outcome(session::commit));
            found.add(refusal(() -> producer.send(session.createQueue("FREE.T"), session.createTextMessage("later"))));
            found.add(refusal(session::commit));
            found.add(told.all(1));
            connection.close();
            Connection other = opened("bob");
            Session reading = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
            found.add(rest(reading.createConsumer(reading.createQueue("FREE.T"))));
            other.close();
            return found;
        });
        check("an asynchronous send that is denied", () -> {
            ActiveMQConnection connection = opened("bob", "jms.useAsyncSend=true");
            Told told = new Told();
            connection.setExceptionListener(error -> told.add(thrown(error) + ": " + error.getMessage()));
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            List<Object> found = new ArrayList<>();
            found.add(refusal(() -> session.createProducer(null).send(session.createQueue("OTHER"), session.createMessage())));
            found.add(told.all(1));
            found.add(refusal(() -> send(session, session.createQueue("FREE"), "the connection goes on")));
            found.add(refusal(() -> session.createConsumer(session.createQueue("READ.A")).close()));
            connection.close();
            return found;
        });
    }
}
