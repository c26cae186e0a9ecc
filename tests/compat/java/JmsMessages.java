import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.TreeSet;
import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.BlobMessage;
import org.apache.activemq.command.ActiveMQMessage;

/** Messages of every type, where they go, and in what order. */
final class JmsMessages extends JmsChecks {
    JmsMessages(String url) {
        super(url);
        checks.put("types", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("types"));
            MessageProducer p = s.createProducer(qu);
            TextMessage t = s.createTextMessage("h\u00e9llo \ud83d\ude00\u0000");
            t.setBooleanProperty("b", true);
            t.setByteProperty("by", (byte) 3);
            t.setShortProperty("sh", (short) 4);
            t.setLongProperty("l", 5L);
            t.setFloatProperty("f", 1.5f);
            t.setDoubleProperty("d", 2.5);
            t.setStringProperty("s", "x");
            t.setObjectProperty("o", 7);
            t.setJMSType("ty");
            t.setJMSCorrelationID("corr");
            t.setJMSReplyTo(s.createTopic("rt"));
            t.setStringProperty("JMSXGroupID", "g");
            p.send(t);
            p.send(s.createTextMessage(null));
            p.send(s.createMessage());
            BytesMessage b = s.createBytesMessage();
            b.writeInt(5);
            b.writeUTF("abc");
            p.send(b);
            MapMessage m = s.createMapMessage();
            m.setInt("i", 1);
            m.setString("s", "v");
            m.setBytes("b", new byte[]{1, 2});
            p.send(m);
            StreamMessage st = s.createStreamMessage();
            st.writeInt(1);
            st.writeString("z");
            p.send(st);
            p.send(s.createObjectMessage(new ArrayList<>(Arrays.asList("a", "b"))));
            MessageConsumer k = s.createConsumer(qu);
            TextMessage r = (TextMessage) k.receive(WAIT_MS);
            tell(r.getText().replace("\0", "NUL") + " " + r.getJMSType() + " " + r.getJMSCorrelationID() + " " + r.getJMSReplyTo());
            tell(r.getJMSDestination().getClass().getSimpleName() + " " + r.getJMSPriority());
            tell(r.getJMSDeliveryMode() + " " + r.getJMSExpiration());
            TreeSet<String> names = new TreeSet<>();
            Enumeration<?> en = r.getPropertyNames();
            while (en.hasMoreElements()) {
                String n = (String) en.nextElement();
                Object v = r.getObjectProperty(n);
                names.add(n + "=" + (v == null ? null : v.getClass().getSimpleName() + ":" + v));
            }
            tell(names.toString());
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(WAIT_MS)));
            BytesMessage rb = (BytesMessage) k.receive(WAIT_MS);
            tell(rb.getBodyLength() + " " + rb.readInt() + " " + rb.readUTF());
            MapMessage rm = (MapMessage) k.receive(WAIT_MS);
            tell(rm.getInt("i") + " " + rm.getString("s") + " " + rm.getBytes("b").length);
            StreamMessage rs = (StreamMessage) k.receive(WAIT_MS);
            tell(rs.readInt() + " " + rs.readString());
            tell(((ObjectMessage) k.receive(WAIT_MS)).getObject().toString());
            tell(show(k.receive(200)));
        });

        checks.put("big", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("big"));
            BytesMessage m = s.createBytesMessage();
            byte[] b = new byte[3000000];
            Arrays.fill(b, (byte)7);
            m.writeBytes(b);
            s.createProducer(qu).send(m);
            BytesMessage r = (BytesMessage) s.createConsumer(qu).receive(WAIT_MS);
            tell("" + r.getBodyLength());
            ActiveMQConnection z = connect("jms.useCompression=true");
            z.start();
            s = z.createSession(false, 1);
            m = s.createBytesMessage();
            m.writeBytes(b);
            qu = s.createQueue(name("big"));
            s.createProducer(qu).send(m);
            r = (BytesMessage) s.createConsumer(qu).receive(WAIT_MS);
            tell("" + r.getBodyLength());
        });

        checks.put("blob and streams", () -> {
            ActiveMQConnection c = started();
            ActiveMQSession s = (ActiveMQSession) c.createSession(false, 1);
            Queue qu = s.createQueue(name("blob"));
            s.createProducer(qu).send(s.createBlobMessage(new java.net.URL("http://127.0.0.1/x")));
            BlobMessage b = (BlobMessage) s.createConsumer(qu).receive(WAIT_MS);
            tell(b.getURL().toString() + " " + b.getMimeType());
        });

        checks.put("selectors", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("sel"));
            MessageProducer p = s.createProducer(qu);
            for (int i = 0; i < 6; i++) {
                TextMessage m = s.createTextMessage("m" + i);
                m.setIntProperty("i", i);
                p.send(m);
            }
            MessageConsumer k = s.createConsumer(qu, "i >= 4");
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(WAIT_MS)));
            tell(show(k.receive(300)));
            try {
                s.createConsumer(qu, "i >=");
                tell("no error");
            } catch (JMSException e) {
                tell(e.getClass().getName());
            }
            MessageConsumer k2 = s.createConsumer(qu);
            tell(show(k2.receive(WAIT_MS)));
        });

        checks.put("topics", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Topic t = s.createTopic(name("to"));
            MessageConsumer a = s.createConsumer(t);
            MessageConsumer b = s.createConsumer(t, null, true);
            MessageConsumer w = s.createConsumer(s.createTopic(t.getTopicName().substring(0, 2) + ".*"));
            sendN(s, t, 2);
            tell(show(a.receive(WAIT_MS)));
            tell(show(a.receive(WAIT_MS)));
            tell("nolocal " + show(b.receive(300)));
            tell("wild " + show(w.receive(WAIT_MS)));
            ActiveMQConnection c2 = started();
            Session s2 = c2.createSession(false, 1);
            sendN(s2, t, 1);
            tell("nolocal " + show(b.receive(WAIT_MS)));
        });

        checks.put("composite", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            String n = name("cmp");
            MessageConsumer t = s.createConsumer(s.createTopic(n + ".T"));
            sendN(s, s.createQueue(n + ".A," + n + ".B,topic://" + n + ".T"), 2);
            for (String e : List.of(".A", ".B")) {
                MessageConsumer k = s.createConsumer(s.createQueue(n + e));
                Message m = k.receive(WAIT_MS);
                tell(show(m) + " " + whereTo(m).replace(n, "N"));
                tell(show(k.receive(WAIT_MS)));
            }
            tell(show(t.receive(WAIT_MS)));
            sendN(s, s.createQueue(n + ".C," + n + ".D"), 2);
            MessageConsumer k = s.createConsumer(s.createQueue(n + ".C," + n + ".D"));
            int i = 0;
            while (k.receive(i < 4 ? WAIT_MS : 500) != null) i++;
            tell("n=" + i);
            k.close();
            MessageConsumer w = s.createConsumer(s.createQueue(n + ".>"));
            tell(show(w.receive(300)));
            sendN(s, s.createQueue(n + ".E," + n + ".F"), 2);
            i = 0;
            while (w.receive(i < 4 ? WAIT_MS : 500) != null) i++;
            tell("n=" + i);
            MessageConsumer v1 = s.createConsumer(s.createQueue("Consumer.A.VirtualTopic." + n));
            MessageConsumer v2 = s.createConsumer(s.createQueue("Consumer.B.VirtualTopic." + n));
            sendN(s, s.createTopic("VirtualTopic." + n), 1);
            Message m = v1.receive(WAIT_MS);
            tell(show(m) + " " + whereTo(m).replace(n, "N"));
            tell(show(v2.receive(WAIT_MS)));
        });

        checks.put("wildcard consumer", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 2);
            String n = name("wc");
            sendN(s, s.createQueue(n + ".a"), 2);
            MessageConsumer k = s.createConsumer(s.createQueue(n + ".*"));
            tell(show(k.receive(WAIT_MS)));
            sendN(s, s.createQueue(n + ".b"), 1);
            tell(show(k.receive(WAIT_MS)));
            Message m = k.receive(WAIT_MS);
            tell(show(m) + " " + m.getJMSDestination().toString().replace(n, "N"));
            m.acknowledge();
            k.close();
            k = s.createConsumer(s.createQueue(n + ".*"));
            tell(show(k.receive(300)));
        });

        checks.put("groups", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1), s2 = c.createSession(false, 1);
            Queue qu = s.createQueue(name("gr"));
            MessageConsumer a = s.createConsumer(qu), b = s2.createConsumer(qu);
            Session ps = c.createSession(false, 1);
            MessageProducer p = ps.createProducer(qu);
            for (int i = 0; i < 6; i++) {
                Message m = ps.createTextMessage("g" + i);
                m.setStringProperty("JMSXGroupID", i%2 == 0?"A":"B");
                p.send(m);
            }
            List<String> x = new ArrayList<>(), y = new ArrayList<>();
            Message m;
            while ((m = a.receive(x.size() < 3 ? WAIT_MS : 300)) != null) {
                x.add(inGroup(m));
            }
            while ((m = b.receive(y.size() < 3 ? WAIT_MS : 300)) != null) {
                y.add(inGroup(m));
            }
            List<String> z = new ArrayList<>(Arrays.asList(x.toString(), y.toString()));
            Collections.sort(z);
            tell(z.toString());
        });

        checks.put("group close", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1), s2 = c.createSession(false, 1), ps = c.createSession(false, 1);
            Queue qu = s.createQueue(name("gc"));
            MessageConsumer a = s.createConsumer(qu);
            MessageProducer p = ps.createProducer(qu);
            Message m = ps.createTextMessage("1");
            m.setStringProperty("JMSXGroupID", "G");
            m.setIntProperty("JMSXGroupSeq", 1);
            p.send(m);
            tell(show(a.receive(WAIT_MS)));
            MessageConsumer b = s2.createConsumer(qu);
            m = ps.createTextMessage("2");
            m.setStringProperty("JMSXGroupID", "G");
            p.send(m);
            tell(show(a.receive(WAIT_MS)) + "|" + show(b.receive(300)));
            a.close();
            m = ps.createTextMessage("3");
            m.setStringProperty("JMSXGroupID", "G");
            p.send(m);
            tell(show(b.receive(WAIT_MS)));
        });

        checks.put("exclusive priority", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            String n = name("exc");
            MessageConsumer a = s.createConsumer(s.createQueue(n + "?consumer.exclusive=true")), b = s.createConsumer(s.createQueue(n));
            sendN(s, s.createQueue(n), 3);
            tell("b " + show(b.receive(300)));
            for (int i = 0; i < 3; i++) tell("a " + show(a.receive(WAIT_MS)));
            sendN(s, s.createQueue(n), 1);
            a.close();
            tell("b " + show(b.receive(WAIT_MS)));
            n = name("pri");
            a = s.createConsumer(s.createQueue(n + "?consumer.priority=1"));
            b = s.createConsumer(s.createQueue(n + "?consumer.priority=9"));
            Thread.sleep(100);
            sendN(s, s.createQueue(n), 3);
            tell("a " + show(a.receive(300)));
            for (int i = 0; i < 3; i++) tell("b " + show(b.receive(WAIT_MS)));
        });

        checks.put("priority order", () -> {
            ActiveMQConnection c = connect("");
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("po"));
            MessageProducer p = s.createProducer(qu);
            for (int i = 0; i < 6; i++) {
                p.setPriority(i);
                p.send(s.createTextMessage("p" + i));
            }
            MessageConsumer k = s.createConsumer(qu);
            Thread.sleep(300);
            c.start();
            Thread.sleep(300);
            List<String> l = new ArrayList<>();
            for (int i = 0; i < 6; i++) l.add(((TextMessage) k.receive(WAIT_MS)).getText());
            tell(l.toString());
        });

        checks.put("retroactive", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            String n = name("ret");
            sendN(s, s.createTopic(n), 2);
            MessageConsumer k = s.createConsumer(s.createTopic(n + "?consumer.retroactive=true"));
            tell(show(k.receive(500)));
        });

        checks.put("scheduled", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("sch"));
            MessageConsumer k = s.createConsumer(qu);
            Message m = s.createTextMessage("later");
            m.setLongProperty("AMQ_SCHEDULED_DELAY", 1000);
            long t = System.nanoTime();
            s.createProducer(qu).send(m);
            m = k.receive(WAIT_MS);
            long ms = (System.nanoTime()-t)/1000000;
            tell(show(m) + " " + (ms >= 950));
            TreeSet<String> names = new TreeSet<>();
            Enumeration<?> en = m.getPropertyNames();
            while (en.hasMoreElements()) names.add((String)en.nextElement());
            tell(names.toString());
        });

        checks.put("expiry", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("ex"));
            MessageProducer p = s.createProducer(qu);
            p.setTimeToLive(200);
            p.send(s.createTextMessage("short"));
            p.setTimeToLive(0);
            p.send(s.createTextMessage("long"));
            Thread.sleep(500);
            MessageConsumer k = s.createConsumer(qu);
            tell(show(k.receive(WAIT_MS)));
            p.setTimeToLive(300);
            p.send(s.createTextMessage("prefetched"));
            Thread.sleep(600);
            List<String> l = new ArrayList<>();
            for (long end = System.currentTimeMillis() + WAIT_MS; l.size() < 2 && System.currentTimeMillis() < end;) {
                if (k.receive(300) != null) { // the client looks whether what it has is expired when somebody asks for it
                    tell("expired, and came");
                }
                l.clear();
                for (ActiveMQMessage m : deadLetters(s, qu)) {
                    l.add(((TextMessage) m).getText());
                }
            }
            tell(l.toString());
        });

        List<String> formats =
                List.of(
                        "wireFormat.tightEncodingEnabled=false",
                        "wireFormat.cacheEnabled=false",
                        "wireFormat.tightEncodingEnabled=false&wireFormat.cacheEnabled=false",
                        "wireFormat.version=1",
                        "wireFormat.version=6",
                        "wireFormat.version=10",
                        "wireFormat.stackTraceEnabled=false",
                        "wireFormat.cacheSize=120");
        for (String o : formats) {
            checks.put(o, () -> {
                ActiveMQConnection c = connect(o);
                c.start();
                Session s = c.createSession(true, 0);
                Queue qu = s.createQueue(name("wire"));
                sendN(s, qu, 60);
                s.commit();
                MessageConsumer k = s.createConsumer(qu);
                int n = 0;
                Message m, l = null;
                while ((m = k.receive(n < 60 ? WAIT_MS : 200)) != null) {
                    n++;
                    l = m;
                }
                tell("n=" + n + " " + show(l));
                s.commit();
                try {
                    s.createConsumer(qu, "a b c");
                } catch (JMSException e) {
                    tell(e.getClass().getName());
                }
            });
        }
    }

    private static String inGroup(Message m) throws JMSException {
        boolean isFirst = m.getBooleanProperty("JMSXGroupFirstForConsumer");
        return ((TextMessage) m).getText() + " " + m.getIntProperty("JMSXGroupSeq") + " " + isFirst;
    }

    private static String whereTo(Message m) throws JMSException {
        return m.getJMSDestination() + ", sent to " + ((ActiveMQMessage) m).getOriginalDestination();
    }
}
