import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * A client that stays in the middle of its work until somebody ends it, or its connection: it has received in a transaction and sent in
 * it, and more messages wait in its prefetch. Prints "holding", then "lost" with the exception when the connection is gone.
 *
 * <pre>
 *   JmsHolder BROKER_URL QUEUE COUNT OTHER_QUEUE
 * </pre>
 */
public final class JmsHolder {
    private JmsHolder() {
    }

    public static void main(String[] arguments) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(arguments[0]).createConnection();
        connection.setExceptionListener(error -> {
            System.out.println("lost " + error.getClass().getName());
            System.out.flush();
        });
        connection.start();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue(arguments[1]));
        for (int number = 0; number < Integer.parseInt(arguments[2]); number++) {
            if (consumer.receive(30_000) == null) {
                throw new JMSException("no message came");
            }
        }
        session.createProducer(session.createQueue(arguments[3])).send(session.createTextMessage("never"));
        System.out.println("holding");
        System.out.flush();
        System.in.read();
        try {
            session.commit();
            System.out.println("committed");
        } catch (JMSException error) {
            System.out.println("refused " + error.getClass().getName());
        }
        System.exit(0);
    }
}
