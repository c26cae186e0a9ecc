import java.util.LinkedHashMap;
import java.util.Map;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * A JMS client whose own policy allows no redelivery, and that rolls back what it gets; prints one JSON object per message.
 *
 * <pre>
 *   RefusingClient BROKER_URL QUEUE COUNT     send a message, and receive it so many times; the last time it is committed
 * </pre>
 */
public final class RefusingClient {
    private static final long WAIT_MS = 30_000;

    private RefusingClient() {}

    public static void main(String[] arguments) throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(arguments[0]).createConnection();
        try {
            connection.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            connection.getRedeliveryPolicy().setMaximumRedeliveries(0);
            connection.start();
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            Queue queue = session.createQueue(arguments[1]);
            MessageConsumer consumer = session.createConsumer(queue);
            session.createProducer(queue).send(session.createTextMessage("refused"));
            session.commit();
            String first = null;
            for (int left = Integer.parseInt(arguments[2]); left > 0; left--) {
                Message message = consumer.receive(WAIT_MS);
                if (message == null) {
                    throw new IllegalStateException("no message came");
                }
                first = first == null ? message.getJMSMessageID() : first;
                System.out.println(Json.write(told(message, first)));
                if (left > 1) {
                    session.rollback();
                } else {
                    session.commit();
                }
            }
        } finally {
            connection.close();
        }
    }

    private static Map<String, Object> told(Message message, String first) throws JMSException {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("same", message.getJMSMessageID().equals(first));
        told.put("redelivered", message.getJMSRedelivered());
        told.put("count", message.getIntProperty("JMSXDeliveryCount"));
        told.put("delay", message.propertyExists("redeliveryDelay") ? message.getLongProperty("redeliveryDelay") : 0L);
        return told;
    }
}
