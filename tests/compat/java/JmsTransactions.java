import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;

/** Local transactions, and how many messages a consumer has at a time. */
final class JmsTransactions extends JmsChecks {
    JmsTransactions(String url) {
        super(url);
        checks.put("transacted", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(true, 0);
            Queue qu = s.createQueue(name("tx"));
            Queue q2 = s.createQueue(name("tx2"));
            sendN(s, qu, 5);
            s.rollback();
            sendN(s, qu, 3);
            s.commit();
            MessageConsumer k = s.createConsumer(qu);
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(WAIT_MS)));
            sendN(s, q2, 1);
            s.rollback();
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(WAIT_MS)));
            s.commit();
            tell(show(k.receive(300)));
            MessageConsumer k2 = s.createConsumer(q2);
            tell(show(k2.receive(300)));
            s.rollback();
            k.close();
            s.close();
            s = c.createSession(true, 0);
            sendN(s, q2, 2);
            s.close();
            s = c.createSession(false, 1);
            tell(show(s.createConsumer(q2).receive(300)));
        });

        checks.put("tx consumer close", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(true, 0);
            Queue qu = s.createQueue(name("tcc"));
            sendN(s, qu, 4);
            s.commit();
            MessageConsumer k = s.createConsumer(qu);
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(WAIT_MS)));
            k.close();
            s.rollback();
            k = s.createConsumer(qu);
            for (int i = 0; i < 5; i++) tell(show(k.receive(i < 4 ? WAIT_MS : 300)));
            k.close();
            s.commit();
            k = s.createConsumer(qu);
            tell(show(k.receive(300)));
            sendN(s, qu, 3);
            s.commit();
            tell(show(k.receive(WAIT_MS)));
            s.close();
            s = c.createSession(true, 0);
            k = s.createConsumer(qu);
            for (int i = 0; i < 3; i++) tell(show(k.receive(WAIT_MS)));
            c.close();
            c = started();
            s = c.createSession(false, 1);
            k = s.createConsumer(qu);
            for (int i = 0; i < 4; i++) tell(show(k.receive(i < 3 ? WAIT_MS : 300)));
        });

        checks.put("two consumers rollback", () -> {
            ActiveMQConnection c = connect("jms.prefetchPolicy.all=1");
            c.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            c.start();
            Session s = c.createSession(true, 0);
            Queue qu = s.createQueue(name("tcr"));
            sendN(s, qu, 4);
            s.commit();
            MessageConsumer a = s.createConsumer(qu), b = s.createConsumer(qu);
            TreeSet<String> t = new TreeSet<>();
            t.add(show(a.receive(WAIT_MS)).replaceAll("m[0-9]", "m?"));
            t.add(show(b.receive(WAIT_MS)).replaceAll("m[0-9]", "m?"));
            tell(t.toString());
            s.rollback();
            t.clear();
            t.add(show(a.receive(WAIT_MS)).replaceAll("m[0-9]", "m?"));
            t.add(show(b.receive(WAIT_MS)).replaceAll("m[0-9]", "m?"));
            tell(t.toString());
            s.commit();
            t.clear();
            t.add(show(a.receive(WAIT_MS)).replaceAll("m[0-9]", "m?"));
            t.add(show(b.receive(WAIT_MS)).replaceAll("m[0-9]", "m?"));
            tell(t.toString());
            s.commit();
            tell(show(a.receive(300)));
        });

        checks.put("topic tx", () -> {
            ActiveMQConnection c = connect("");
            c.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            c.start();
            Session s = c.createSession(true, 0);
            Topic t = s.createTopic(name("ttx"));
            MessageConsumer k = s.createConsumer(t);
            sendN(s, t, 2);
            tell(show(k.receive(300)));
            s.commit();
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(WAIT_MS)));
            s.rollback();
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(WAIT_MS)));
            s.commit();
            tell(show(k.receive(300)));
            Session ca = c.createSession(false, 2);
            MessageConsumer k2 = ca.createConsumer(t);
            sendN(ca, t, 3);
            tell(show(k2.receive(WAIT_MS)));
            ca.recover();
            tell(show(k2.receive(WAIT_MS)));
            Message m = k2.receive(WAIT_MS);
            tell(show(m));
            m.acknowledge();
            tell(show(k2.receive(WAIT_MS)));
        });

        checks.put("concurrent sessions", () -> {
            ActiveMQConnection c = started();
            String n = name("cs");
            ExecutorService x = Executors.newFixedThreadPool(8);
            List<Future<Integer>> f = new ArrayList<>();
            for (int i = 0; i < 4; i++) f.add(x.submit(() -> {
                Session s = c.createSession(true, 0);
                for (int j = 0; j < 50; j++) {
                    sendN(s, s.createQueue(n), 10);
                    s.commit();
                }
                s.close();
                return 0;
            }));
            AtomicInteger got = new AtomicInteger();
            for (int i = 0; i < 4; i++) f.add(x.submit(() -> {
                Session s = c.createSession(true, 0);
                MessageConsumer k = s.createConsumer(s.createQueue(n));
                int m = 0;
                while (got.get() < 2000) {
                    if (k.receive(200) == null) continue;
                    m++;
                    got.incrementAndGet();
                    if (m%7 == 0) s.commit();
                }
                s.commit();
                s.close();
                return m;
            }));
            for (Future<Integer> y:f) y.get(100, TimeUnit.SECONDS);
            tell("n=" + got.get());
        });

        checks.put("optimize dispatch order", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(true, 0);
            Queue qu = s.createQueue(name("ord"));
            sendN(s, qu, 150);
            s.commit();
            MessageConsumer k = s.createConsumer(qu);
            boolean ok = true;
            for (int r = 0; r < 2; r++) {
                for (int i = 0; i < 150; i++) {
                    TextMessage m = (TextMessage) k.receive(WAIT_MS);
                    if (!m.getText().equals("m" + i)) ok = false;
                }
                if (r == 0) s.rollback();
            }
            s.commit();
            tell("ordered " + ok);
        });

        checks.put("prefetch1", () -> {
            ActiveMQConnection c = connect("jms.prefetchPolicy.all=1");
            c.start();
            Session s = c.createSession(true, 0);
            Queue qu = s.createQueue(name("p1"));
            sendN(s, qu, 20);
            s.commit();
            MessageConsumer k = s.createConsumer(qu);
            int n = 0;
            while (k.receive(n < 20 ? WAIT_MS : 300) != null) n++;
            tell("n=" + n);
            s.rollback();
            n = 0;
            while (k.receive(n < 20 ? WAIT_MS : 300) != null) n++;
            tell("n=" + n);
            s.commit();
            Session s2 = c.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            sendN(s2, qu, 5);
            MessageConsumer k2 = s2.createConsumer(qu);
            k.close();
            n = 0;
            Message last = null, m;
            while ((m = k2.receive(n < 5 ? WAIT_MS : 300)) != null) {
                n++;
                last = m;
            }
            tell("n=" + n);
            last.acknowledge();
        });

        checks.put("prefetch0", () -> {
            ActiveMQConnection c = connect("jms.prefetchPolicy.all=0");
            c.start();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("p0"));
            MessageConsumer k = s.createConsumer(qu);
            long t = System.nanoTime();
            tell(show(k.receiveNoWait()));
            tell(show(k.receive(300)));
            long ms = (System.nanoTime()-t)/1000000;
            tell(ms >= 250 && ms < WAIT_MS ? "in time" : "time " + ms);
            sendN(s, qu, 3);
            tell(show(k.receiveNoWait()));
            tell(show(k.receive(WAIT_MS)));
            MessageConsumer k2 = s.createConsumer(qu);
            tell(show(k2.receive(WAIT_MS)));
            tell(show(k.receiveNoWait()));
            Thread th = new Thread(() -> {
                try {
                    Thread.sleep(300);
                    sendN(c.createSession(false, 1), qu, 1);
                } catch (Exception e) {
                }
            });
            th.start();
            tell(show(k.receive()));
            Session tx = c.createSession(true, 0);
            sendN(tx, qu, 2);
            tx.commit();
            MessageConsumer kt = tx.createConsumer(qu);
            tell(show(kt.receive(WAIT_MS)));
            tx.rollback();
            tell(show(kt.receive(WAIT_MS)));
            tell(show(kt.receive(WAIT_MS)));
            tell(show(kt.receiveNoWait()));
            tx.commit();
        });

        checks.put("topic small prefetch", () -> {
            ActiveMQConnection c = connect("jms.prefetchPolicy.topicPrefetch=10");
            c.start();
            Session s = c.createSession(false, 1);
            Topic t = s.createTopic(name("tsp"));
            MessageConsumer k = s.createConsumer(t);
            Session p = c.createSession(false, 1);
            sendN(p, t, 500);
            int n = 0;
            while (k.receive(n < 500 ? WAIT_MS : 300) != null) n++;
            tell("n=" + n);
            c = connect("jms.prefetchPolicy.topicPrefetch=1");
            c.start();
            s = c.createSession(false, 2);
            k = s.createConsumer(t);
            sendN(p, t, 20);
            n = 0;
            Message l = null, m;
            while ((m = k.receive(n < 20 ? WAIT_MS : 300)) != null) {
                n++;
                l = m;
            }
            tell("n=" + n);
            l.acknowledge();
            c = connect("jms.prefetchPolicy.all=0");
            c.start();
            s = c.createSession(false, 1);
            k = s.createConsumer(t);
            tell(show(k.receiveNoWait()));
            sendN(p, t, 2);
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receiveNoWait()));
            tell(show(k.receiveNoWait()));
        });

        checks.put("async window", () -> {
            ActiveMQConnection c = connect("jms.useAsyncSend=true&jms.producerWindowSize=20000");
            c.start();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("win"));
            sendN(s, qu, 200);
            MessageConsumer k = s.createConsumer(qu);
            int n = 0;
            while (k.receive(n < 200 ? WAIT_MS : 300) != null) n++;
            tell("n=" + n);
        });
    }
}
