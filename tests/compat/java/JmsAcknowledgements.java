import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.RedeliveryPolicy;
import org.apache.activemq.command.ActiveMQMessage;

/** Every mode of acknowledgement, redelivery, and what becomes a dead letter. */
final class JmsAcknowledgements extends JmsChecks {
    JmsAcknowledgements(String url) {
        super(url);
        checks.put("client ack", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue qu = s.createQueue(name("ca"));
            sendN(s, qu, 6);
            MessageConsumer k = s.createConsumer(qu);
            Message m0 = k.receive(WAIT_MS), m1 = k.receive(WAIT_MS), m2 = k.receive(WAIT_MS);
            tell(show(m0) + "|" + show(m1) + "|" + show(m2));
            m1.acknowledge();
            Message m3 = k.receive(WAIT_MS);
            tell(show(m3));
            s.recover();
            m3 = k.receive(WAIT_MS);
            tell("recovered " + show(m3));
            Message m4 = k.receive(WAIT_MS);
            tell(show(m4));
            m4.acknowledge();
            k.close();
            k = s.createConsumer(qu);
            tell(show(k.receive(WAIT_MS)));
            s.close();
            s = c.createSession(false, 1);
            k = s.createConsumer(qu);
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(300)));
        });

        checks.put("close redelivers", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue qu = s.createQueue(name("cr"));
            sendN(s, qu, 4);
            MessageConsumer k = s.createConsumer(qu);
            k.receive(WAIT_MS);
            k.receive(WAIT_MS);
            k.close();
            s.close();
            ActiveMQConnection c2 = started();
            s = c2.createSession(false, 1);
            k = s.createConsumer(qu);
            for (int i = 0; i < 5; i++) tell(show(k.receive(i < 4 ? WAIT_MS : 300)));
        });

        checks.put("connection close redelivers", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue qu = s.createQueue(name("ccr"));
            sendN(s, qu, 4);
            MessageConsumer k = s.createConsumer(qu);
            k.receive(WAIT_MS);
            k.receive(WAIT_MS);
            c.close();
            ActiveMQConnection c2 = started();
            s = c2.createSession(false, 1);
            k = s.createConsumer(qu);
            for (int i = 0; i < 5; i++) tell(show(k.receive(i < 4 ? WAIT_MS : 300)));
        });

        checks.put("nonpersistent close redelivers", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue qu = s.createQueue(name("npcr"));
            MessageProducer p = s.createProducer(qu);
            p.setDeliveryMode(1);
            for (int i = 0; i < 4; i++) p.send(s.createTextMessage("np" + i));
            MessageConsumer k = s.createConsumer(qu);
            k.receive(WAIT_MS);
            k.receive(WAIT_MS);
            k.close();
            s.close();
            s = c.createSession(false, 1);
            k = s.createConsumer(qu);
            for (int i = 0; i < 5; i++) tell(show(k.receive(i < 4 ? WAIT_MS : 300)));
        });

        checks.put("rollback to dlq", () -> {
            ActiveMQConnection c = started();
            RedeliveryPolicy rp = c.getRedeliveryPolicy();
            rp.setMaximumRedeliveries(2);
            rp.setInitialRedeliveryDelay(10);
            rp.setRedeliveryDelay(10);
            Session s = c.createSession(true, 0);
            Queue qu = s.createQueue(name("dlq"));
            sendN(s, qu, 2);
            s.commit();
            MessageConsumer k = s.createConsumer(qu);
            for (int i = 0; i < 3; i++) {
                tell(show(k.receive(WAIT_MS)));
                s.rollback();
            }
            tell(show(k.receive(WAIT_MS)));
            s.commit();
            tell(show(k.receive(300)));
            k.close();
            Session s2 = c.createSession(false, 1);
            ActiveMQMessage m = deadLetters(s2, qu).get(0);
            tell(show(m));
            tell(cause(m));
            tell(String.valueOf(m.getObjectProperty("originalExpiration")));
        });

        checks.put("default policy dlq", () -> {
            ActiveMQConnection c = connect("");
            c.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            c.getRedeliveryPolicy().setRedeliveryDelay(0);
            c.start();
            Session s = c.createSession(true, 0);
            Queue qu = s.createQueue(name("dpd"));
            sendN(s, qu, 3);
            s.commit();
            MessageConsumer k = s.createConsumer(qu);
            List<String> l = new ArrayList<>();
            for (int i = 0; i < 9; i++) {
                Message m = k.receive(WAIT_MS);
                l.add(show(m));
                if (m == null) break;
                s.rollback();
            }
            tell(l.toString());
            Session d = c.createSession(false, 1);
            List<ActiveMQMessage> letters = deadLetters(d, qu);
            tell(letters.size() + " " + cause(letters.get(0)));
        });

        checks.put("nonpersistent dlq", () -> {
            ActiveMQConnection c = connect("");
            c.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            c.getRedeliveryPolicy().setMaximumRedeliveries(1);
            c.start();
            Session s = c.createSession(true, 0);
            Queue qu = s.createQueue(name("npd"));
            MessageProducer p = s.createProducer(qu);
            p.setDeliveryMode(1);
            p.send(s.createTextMessage("np"));
            p.send(s.createTextMessage("np2"));
            s.commit();
            MessageConsumer k = s.createConsumer(qu);
            tell(show(k.receive(WAIT_MS)));
            s.rollback();
            tell(show(k.receive(WAIT_MS)));
            s.rollback();
            tell(show(k.receive(WAIT_MS)));
            s.commit();
            tell(show(k.receive(300)));
        });

        checks.put("listener recover", () -> {
            ActiveMQConnection c = connect("");
            c.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            c.getRedeliveryPolicy().setMaximumRedeliveries(3);
            c.start();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("lr"));
            CountDownLatch done = new CountDownLatch(3);
            List<String> got = Collections.synchronizedList(new ArrayList<>());
            s.createConsumer(qu).setMessageListener(m -> {
                try {
                    got.add(show(m));
                } catch (Exception e) {
                }
                done.countDown();
                if (done.getCount() > 1) throw new RuntimeException("no");
            });
            Session s2 = c.createSession(false, 1);
            sendN(s2, qu, 2);
            done.await(WAIT_MS, TimeUnit.MILLISECONDS);
            Thread.sleep(300);
            tell(got.toString());
        });

        checks.put("listener recover2", () -> {
            ActiveMQConnection c = connect("");
            c.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            c.start();
            Session s = c.createSession(false, 2);
            Queue qu = s.createQueue(name("lr2"));
            List<String> got = Collections.synchronizedList(new ArrayList<>());
            CountDownLatch l = new CountDownLatch(6);
            CountDownLatch acknowledged = new CountDownLatch(1);
            s.createConsumer(qu).setMessageListener(m -> {
                try {
                    got.add(show(m));
                    l.countDown();
                    if (got.size() == 3) s.recover();
                    else if (l.getCount() == 0) {
                        m.acknowledge();
                        acknowledged.countDown();
                    }
                } catch (Exception e) {
                    tellError("x", e);
                }
            });
            sendN(c.createSession(false, 1), qu, 3);
            acknowledged.await(WAIT_MS, TimeUnit.MILLISECONDS);
            Thread.sleep(200);
            tell(got.toString());
            c.close();
            c = started();
            tell(show(c.createSession(false, 1).createConsumer(qu).receive(300)));
        });

        checks.put("individual", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
            Queue qu = s.createQueue(name("ind"));
            sendN(s, qu, 4);
            MessageConsumer k = s.createConsumer(qu);
            List<Message> l = new ArrayList<>();
            for (int i = 0; i < 4; i++) l.add(k.receive(WAIT_MS));
            l.get(1).acknowledge();
            l.get(3).acknowledge();
            s.close();
            s = c.createSession(false, 1);
            k = s.createConsumer(qu);
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(300)));
        });

        checks.put("dups ok", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
            Queue qu = s.createQueue(name("dups"));
            sendN(s, qu, 1500);
            MessageConsumer k = s.createConsumer(qu);
            int n = 0;
            while (k.receive(n < 1500 ? WAIT_MS : 300) != null) n++;
            tell("n=" + n);
            k.close();
            k = s.createConsumer(qu);
            tell(show(k.receive(300)));
        });

        checks.put("optimize ack", () -> {
            ActiveMQConnection c = connect("jms.optimizeAcknowledge=true");
            c.start();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("opt"));
            sendN(s, qu, 150);
            MessageConsumer k = s.createConsumer(qu);
            int n = 0;
            while (k.receive(n < 150 ? WAIT_MS : 300) != null) n++;
            tell("n=" + n);
            k.close();
            k = s.createConsumer(qu);
            tell(show(k.receive(300)));
        });

        checks.put("redelivery count across", () -> {
            ActiveMQConnection c = connect("");
            c.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            c.getRedeliveryPolicy().setMaximumRedeliveries(-1);
            c.start();
            Session s = c.createSession(true, 0);
            Queue qu = s.createQueue(name("rca"));
            sendN(s, qu, 1);
            s.commit();
            for (int i = 0; i < 3; i++) {
                MessageConsumer k = s.createConsumer(qu);
                tell(show(k.receive(WAIT_MS)));
                s.rollback();
                tell(show(k.receive(WAIT_MS)));
                s.rollback();
                k.close();
            }
            c.close();
            c = started();
            s = c.createSession(false, 1);
            tell(show(s.createConsumer(qu).receive(WAIT_MS)));
        });

        checks.put("close in doubt", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("cid"));
            sendN(s, qu, 100);
            AtomicInteger n = new AtomicInteger();
            MessageConsumer k = s.createConsumer(qu);
            k.setMessageListener(m -> n.incrementAndGet());
            while (n.get()<20) Thread.sleep(1);
            c.close();
            int first = n.get();
            c = started();
            s = c.createSession(false, 1);
            k = s.createConsumer(qu);
            int more = 0, red = 0;
            Message m;
            while ((m = k.receive(first + more < 100 ? WAIT_MS : 500)) != null) {
                more++;
                if (m.getJMSRedelivered()) red++;
            }
            tell("sum " + (first + more >= 100 && first + more <= 101) + " red<=1 " + (red <= 1));
        });
    }

    /** Why it is a dead letter, up to the policy, which is told with its address. */
    private static String cause(ActiveMQMessage letter) throws JMSException {
        return letter.getStringProperty("dlqDeliveryFailureCause").replaceAll("RedeliveryPolicy.*", "...");
    }
}
