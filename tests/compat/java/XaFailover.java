import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.TextMessage;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnectionFactory;

/**
 * A transaction manager and its work, whose broker is killed now and then: each branch sends two messages and is prepared and
 * committed, every fifth one is rolled back. What is refused is settled by what recover answers.
 *
 * <pre>
 *   XaFailover BROKER_URL QUEUE COUNT
 * </pre>
 *
 * Says each branch that it begins, and at the end how many messages are missing, unexpected and there twice.
 */
public final class XaFailover {
    private static final long WAIT_MS = 30_000;
    /** How long no more than there are must come. */
    private static final long SILENCE_MS = 1500;

    private final XASession session;
    private final XAResource resource;
    private final Queue queue;
    private final Map<String, Boolean> committed = new TreeMap<>();

    private XaFailover(XASession session, String queue) throws JMSException {
        this.session = session;
        this.resource = session.getXAResource();
        this.queue = session.createQueue(queue);
    }

    public static void main(String[] arguments) throws Exception {
        XAConnection connection = new ActiveMQXAConnectionFactory(arguments[0]).createXAConnection();
        connection.start();
        XaFailover work = new XaFailover(connection.createXASession(), arguments[1]);
        for (int number = 0; number < Integer.parseInt(arguments[2]); number++) {
            System.out.println("branch " + number);
            work.branch(String.format("b%04d", number), number % 5 != 0);
        }
        System.out.println("in doubt " + work.resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN).length);
        connection.close();
        work.judge(arguments[0]);
        System.exit(0);
    }

    private void branch(String name, boolean commits) throws Exception {
        XaBranch xid = new XaBranch(name);
        try {
            resource.start(xid, XAResource.TMNOFLAGS);
            for (String part : new String[] {".1", ".2"}) {
                session.createProducer(queue).send(session.createTextMessage(name + part));
            }
            resource.end(xid, XAResource.TMSUCCESS);
            if (resource.prepare(xid) != XAResource.XA_OK) {
                throw new IllegalStateException("nothing was prepared");
            }
        } catch (XAException | JMSException error) {
            told("first", error);
            boolean there = isInDoubt(xid);
            System.out.println(there ? "first phase refused, but prepared" : "first phase refused, nothing there");
            committed.put(name, false);
            if (there) {
                decide(xid, false);
            } else {
                forget(xid);
            }
            return;
        }
        committed.put(name, commits);
        decide(xid, commits);
    }

    /** What was not prepared is over, whatever the resource says of it. */
    private void forget(XaBranch xid) {
        try {
            resource.rollback(xid);
        } catch (XAException error) {
            told("forget", error);
        }
    }

    private void decide(XaBranch xid, boolean commits) throws XAException {
        for (int attempt = 0; ; attempt++) {
            try {
                if (commits) {
                    resource.commit(xid, false);
                } else {
                    resource.rollback(xid);
                }
                return;
            } catch (XAException error) {
                told("second", error);
                if (!isInDoubt(xid)) {
                    return; // done, only the answer was lost
                }
                if (attempt == 20) {
                    throw error;
                }
            }
        }
    }

    private boolean isInDoubt(XaBranch xid) throws XAException {
        for (Xid found : resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
            if (Arrays.equals(found.getGlobalTransactionId(), xid.getGlobalTransactionId())) {
                return true;
            }
        }
        return false;
    }

    private static void told(String phase, Exception error) {
        String code = error instanceof XAException ? " " + ((XAException) error).errorCode : "";
        System.out.println(phase + ": " + error.getClass().getName() + code);
    }

    private void judge(String url) throws JMSException {
        javax.jms.Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        connection.start();
        javax.jms.Session reading = connection.createSession(false, javax.jms.Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = reading.createConsumer(queue);
        List<String> missing = new ArrayList<>();
        committed.forEach((name, isCommitted) -> {
            if (isCommitted) {
                missing.addAll(Arrays.asList(name + ".1", name + ".2"));
            }
        });
        List<String> seen = new ArrayList<>();
        List<String> unexpected = new ArrayList<>();
        List<String> twice = new ArrayList<>();
        for (Message message; (message = consumer.receive(missing.isEmpty() ? SILENCE_MS : WAIT_MS)) != null; ) {
            String text = ((TextMessage) message).getText();
            if (seen.contains(text)) {
                twice.add(text);
            } else if (!missing.remove(text)) {
                unexpected.add(text);
            }
            seen.add(text);
        }
        System.out.println("missing " + missing);
        System.out.println("unexpected " + unexpected);
        System.out.println("twice " + twice);
        connection.close();
    }
}
