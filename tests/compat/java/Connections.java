import java.util.LinkedHashMap;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Connects to one address after the other, sends a message and receives it.
 *
 * <pre>
 *   Connections FIRST_URL URL...      prints {url, body} for each, or {url, error}
 * </pre>
 */
public final class Connections {
    private static final long WAIT_MS = 30_000;

    private Connections() {}

    public static void main(String[] urls) throws Exception {
        for (String url : urls) {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("url", url);
            try {
                fields.put("body", exchanged(url));
            } catch (JMSException error) {
                fields.put("error", String.valueOf(error.getMessage()));
            }
            System.out.println(Json.write(fields));
        }
    }

    private static String exchanged(String url) throws JMSException {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        try {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("CONNECTIONS");
            session.createProducer(queue).send(session.createTextMessage("by " + url));
            MessageConsumer consumer = session.createConsumer(queue);
            TextMessage message = (TextMessage) consumer.receive(WAIT_MS);
            return message == null ? null : message.getText();
        } finally {
            connection.close();
        }
    }
}
