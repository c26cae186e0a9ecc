import java.util.Enumeration;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.ConnectionConsumer;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.ServerSession;
import javax.jms.ServerSessionPool;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.TopicSubscriber;
import org.apache.activemq.ActiveMQConnection;

/** Durable subscriptions, browsers and listeners. */
final class JmsSubscriptions extends JmsChecks {
    JmsSubscriptions(String url) {
        super(url);
        checks.put("durable", () -> {
            String id = name("cid");
            ActiveMQConnection c = connect("");
            c.setClientID(id);
            c.start();
            Session s = c.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Topic t = s.createTopic(name("dt"));
            TopicSubscriber d = s.createDurableSubscriber(t, "sub");
            try {
                s.createDurableSubscriber(t, "sub");
                tell("no error");
            } catch (JMSException e) {
                tellError("twice", e);
            }
            sendN(s, t, 3);
            Message m = d.receive(WAIT_MS);
            tell(show(m));
            m.acknowledge();
            tell(show(d.receive(WAIT_MS)));
            try {
                s.unsubscribe("sub");
                tell("no error");
            } catch (JMSException e) {
                tellError("unsubscribe in use", e);
            }
            d.close();
            s.close();
            c.close();
            ActiveMQConnection o = started();
            sendN(o.createSession(false, 1), t, 1);
            c = connect("");
            c.setClientID(id);
            c.start();
            s = c.createSession(false, 1);
            d = s.createDurableSubscriber(t, "sub");
            for (int i = 0; i < 4; i++) tell(show(d.receive(i < 3 ? WAIT_MS : 300)));
            d.close();
            s.unsubscribe("sub");
            try {
                s.unsubscribe("sub");
                tell("no error");
            } catch (JMSException e) {
                tellError("unsubscribe twice", e);
            }
            sendN(s, t, 1);
            d = s.createDurableSubscriber(t, "sub");
            tell(show(d.receive(300)));
            d.close();
            d = s.createDurableSubscriber(t, "sub", "x = 1", false);
            sendN(s, t, 1);
            MessageProducer p = s.createProducer(t);
            Message xm = s.createTextMessage("x");
            xm.setIntProperty("x", 1);
            p.send(xm);
            tell(show(d.receive(WAIT_MS)));
            d.close();
            s.unsubscribe("sub");
            d = s.createDurableSubscriber(t, "nl", null, true);
            sendN(s, t, 1);
            tell(show(d.receive(300)));
            sendN(o.createSession(false, 1), t, 1);
            tell(show(d.receive(WAIT_MS)));
            d.close();
            s.unsubscribe("nl");
            try {
                ActiveMQConnection c3 = connect("");
                c3.start();
                c3.createSession(false, 1).createDurableSubscriber(t, "sub");
                tell("no error");
            } catch (JMSException e) {
                tellError("no id", e);
            }
        });

        checks.put("durable tx", () -> {
            ActiveMQConnection c = connect("");
            c.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            c.setClientID(name("cid"));
            c.start();
            Session s = c.createSession(true, 0);
            Topic t = s.createTopic(name("dtx"));
            TopicSubscriber d = s.createDurableSubscriber(t,"a"), e = s.createDurableSubscriber(t,"b");
            sendN(s, t, 3);
            s.commit();
            for (int i = 0; i < 3; i++) tell(show(d.receive(WAIT_MS)));
            s.rollback();
            for (int i = 0; i < 3; i++) tell(show(d.receive(WAIT_MS)));
            tell(show(e.receive(WAIT_MS)));
            s.commit();
            e.close();
            e = s.createDurableSubscriber(t,"b");
            tell(show(e.receive(WAIT_MS)));
            tell(show(e.receive(WAIT_MS)));
            tell(show(e.receive(300)));
            s.commit();
            d.close();
            d = s.createDurableSubscriber(t,"a", "x='1'", false);
            tell(show(d.receive(300)));
            d.close();
            Topic t2 = s.createTopic(name("dtx2"));
            sendN(s, t, 1);
            s.commit();
            d = s.createDurableSubscriber(t2,"a");
            tell(show(d.receive(300)));
            sendN(s, t2, 1);
            s.commit();
            tell(show(d.receive(WAIT_MS)));
            s.commit();
            d.close();
            e.close();
            s.unsubscribe("a");
            s.unsubscribe("b");
        });

        checks.put("durable wildcard", () -> {
            ActiveMQConnection c = connect("");
            c.setClientID(name("cid"));
            c.start();
            Session s = c.createSession(false, 1);
            String n = name("dw");
            TopicSubscriber d = s.createDurableSubscriber(s.createTopic(n + ".>"), "w");
            sendN(s, s.createTopic(n + ".a"), 1);
            sendN(s, s.createTopic(n + ".b.c"), 1);
            Set<String> got = new TreeSet<>();  // JMS promises the order of one destination, not of two
            for (int i = 0; i < 2; i++) {
                Message m = d.receive(WAIT_MS);
                got.add(show(m) + " " + m.getJMSDestination().toString().replace(n, "N"));
            }
            tell(got.toString());
            d.close();
            sendN(s, s.createTopic(n + ".a"), 1);
            sendN(s, s.createTopic(n + ".new"), 1);
            d = s.createDurableSubscriber(s.createTopic(n + ".>"), "w");
            tell(show(d.receive(WAIT_MS)));
            tell(show(d.receive(WAIT_MS)));
            d.close();
            s.unsubscribe("w");
        });

        checks.put("durable prefetch", () -> {
            ActiveMQConnection c = connect("jms.prefetchPolicy.durableTopicPrefetch=2");
            c.setClientID(name("cid"));
            c.start();
            Session s = c.createSession(false, 1);
            Topic t = s.createTopic(name("dp"));
            TopicSubscriber d = s.createDurableSubscriber(t,"p");
            sendN(s, t, 50);
            int n = 0;
            while (d.receive(n < 50 ? WAIT_MS : 300) != null) n++;
            tell("n=" + n);
            d.close();
            sendN(s, t, 50);
            d = s.createDurableSubscriber(t,"p");
            n = 0;
            while (d.receive(n < 50 ? WAIT_MS : 300) != null) n++;
            tell("n=" + n);
            d.close();
            s.unsubscribe("p");
            c = connect("jms.prefetchPolicy.all=0");
            c.setClientID(name("cid"));
            c.start();
            s = c.createSession(false, 1);
            d = s.createDurableSubscriber(t,"z");
            tell(show(d.receiveNoWait()));
            sendN(s, t, 2);
            tell(show(d.receive(WAIT_MS)));
            tell(show(d.receiveNoWait()));
            tell(show(d.receiveNoWait()));
            d.close();
            s.unsubscribe("z");
        });

        checks.put("browser", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("br"));
            sendN(s, qu, 150);
            QueueBrowser b = s.createBrowser(qu);
            int n = 0;
            Enumeration<?> e = b.getEnumeration();
            while (e.hasMoreElements()) {
                e.nextElement();
                n++;
            }
            tell("n=" + n);
            e = b.getEnumeration();
            n = 0;
            while (e.hasMoreElements()) {
                e.nextElement();
                n++;
            }
            tell("again n=" + n);
            b.close();
            b = s.createBrowser(qu, "JMSMessageID = 'x'");
            tell("" + b.getEnumeration().hasMoreElements());
            b.close();
            Session tx = c.createSession(true, 0);
            b = tx.createBrowser(qu);
            e = b.getEnumeration();
            tell(show((Message) e.nextElement()));
            b.close();
            tx.commit();
            b = s.createBrowser(s.createQueue(name("empty")));
            tell("" + b.getEnumeration().hasMoreElements());
            MessageConsumer k = s.createConsumer(qu);
            tell(show(k.receive(WAIT_MS)));
        });

        checks.put("browse while consuming", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 2);
            Queue qu = s.createQueue(name("bwc"));
            sendN(s, qu, 5);
            MessageConsumer k = s.createConsumer(qu);
            k.receive(WAIT_MS);
            k.receive(WAIT_MS);
            Session b = c.createSession(false, 1);
            QueueBrowser br = b.createBrowser(qu);
            int n = 0;
            Enumeration<?> e = br.getEnumeration();
            while (e.hasMoreElements()) {
                e.nextElement();
                n++;
            }
            tell("n=" + n);
            br.close();
            MessageProducer p = s.createProducer(qu);
            p.setDeliveryMode(1);
            p.send(s.createTextMessage("np"));
            br = b.createBrowser(qu);
            n = 0;
            e = br.getEnumeration();
            while (e.hasMoreElements()) {
                e.nextElement();
                n++;
            }
            tell("n=" + n);
            br = b.createBrowser(qu,"JMSDeliveryMode = 'NON_PERSISTENT'");
            n = 0;
            e = br.getEnumeration();
            while (e.hasMoreElements()) {
                e.nextElement();
                n++;
            }
            tell("n=" + n);
        });

        checks.put("listeners", () -> {
            ActiveMQConnection c = started();
            Queue qu = null;
            AtomicInteger n = new AtomicInteger();
            ConcurrentHashMap<String, Integer> seen = new ConcurrentHashMap<>();
            CountDownLatch l = new CountDownLatch(600);
            String nm = name("li");
            for (int i = 0; i < 4; i++) {
                Session s = c.createSession(false, i%2 == 0?1:Session.DUPS_OK_ACKNOWLEDGE);
                s.createConsumer(s.createQueue(nm)).setMessageListener(m -> {
                    try {
                        seen.merge(((TextMessage) m).getText(), 1, Integer::sum);
                    } catch (Exception e) {
                    }
                    l.countDown();
                });
            }
            Session s = c.createSession(false, 1);
            sendN(s, s.createQueue(nm), 600);
            tell(l.await(WAIT_MS, TimeUnit.MILLISECONDS) + " " + seen.size() + " " + seen.values().stream().mapToInt(x -> x).max().getAsInt());
        });

        checks.put("connection consumer", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("cc"));
            CountDownLatch l = new CountDownLatch(3);
            Session ws = c.createSession(false, 1);
            ws.setMessageListener(m -> l.countDown());
            ConnectionConsumer cc = c.createConnectionConsumer(qu, null, new ServerSessionPool() {
                public ServerSession getServerSession() {
                    return new ServerSession() {
                        public Session getSession() {
                            return ws;
                        }
                        public void start() {
                            ws.run();
                        }
                    };
                }
            }, 10);
            sendN(s, qu, 3);
            tell("" + l.await(WAIT_MS, TimeUnit.MILLISECONDS));
            cc.close();
        });

        checks.put("stop start", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("ss"));
            MessageConsumer k = s.createConsumer(qu);
            c.stop();
            sendN(s, qu, 1);
            tell(show(k.receive(300)));
            c.start();
            tell(show(k.receive(WAIT_MS)));
        });

        checks.put("timeouts", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            MessageConsumer k = s.createConsumer(s.createQueue(name("to")));
            tell(show(k.receiveNoWait()));
            long t = System.nanoTime();
            tell(show(k.receive(500)));
            long ms = (System.nanoTime()-t)/1000000;
            tell("" + (ms > 450 && ms < WAIT_MS));
            Thread receiving = Thread.currentThread();
            Thread th = new Thread(() -> {
                try {
                    Judge.untilReceiving(receiving);
                    k.close();
                } catch (Exception e) {
                }
            });
            th.start();
            tell(show(k.receive()));
        });
    }
}
