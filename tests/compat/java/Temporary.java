import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Session;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.command.ActiveMQDestination;

/**
 * What a client knows of temporary destinations of others: what the broker's advisories have told it so far. It does not send to one
 * that it has not been told of.
 */
final class Temporary {
    private static final long WAIT_MS = 30_000;

    private Temporary() {}

    /** A session's connection has been told of a destination, or is not told of any. The destination. */
    static <T extends Destination> T known(Session session, T destination) throws JMSException {
        await(session, destination, false);
        return destination;
    }

    /** A session's connection has been told that a destination is gone. The destination. */
    static <T extends Destination> T gone(Session session, T destination) throws JMSException {
        await(session, destination, true);
        return destination;
    }

    private static void await(Session session, Destination destination, boolean isGone) throws JMSException {
        ActiveMQDestination own = (ActiveMQDestination) destination;
        long end = System.currentTimeMillis() + WAIT_MS;
        while (own.isTemporary() && ((ActiveMQSession) session).getConnection().isDeleted(own) != isGone) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("nobody told that " + own + (isGone ? " is gone" : " is there"));
            }
            try {
                Thread.sleep(5);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }
    }
}
