import java.util.concurrent.atomic.AtomicReference;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueRequestor;
import javax.jms.QueueSession;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.TopicRequestor;
import javax.jms.TopicSession;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.command.ActiveMQDestination;

/** Connections, client ids and temporary destinations. */
final class JmsConnecting extends JmsChecks {
    JmsConnecting(String url) {
        super(url);
        checks.put("client id", () -> {
            String id = name("cid");
            ActiveMQConnection c = connect("");
            c.setClientID(id);
            c.start();
            ActiveMQConnection c2 = connect("");
            try {
                c2.setClientID(id);
                tell("no error");
            } catch (JMSException e) {
                tell(e.getClass().getName() + " " + e.getMessage().replace(id, "CID"));
            }
            c.close();
            c2 = connect("");
            c2.setClientID(id);
            c2.start();
            tell("ok");
            try {
                c2.setClientID("again");
            } catch (JMSException e) {
                tellError("again", e);
            }
        });

        checks.put("temp", () -> {
            ActiveMQConnection a = started(), b = started();
            Session sa = a.createSession(false, 1), sb = b.createSession(false, 1);
            Queue qu = sa.createQueue(name("rq"));
            TemporaryQueue tq = sa.createTemporaryQueue();
            MessageConsumer reply = sa.createConsumer(tq);
            MessageConsumer server = sb.createConsumer(qu);
            TextMessage r = sa.createTextMessage("ask");
            r.setJMSReplyTo(tq);
            sa.createProducer(qu).send(r);
            Message got = server.receive(WAIT_MS);
            sb.createProducer(Temporary.known(sb, got.getJMSReplyTo())).send(sb.createTextMessage("answer"));
            tell(show(reply.receive(WAIT_MS)));
            try {
                sb.createConsumer(got.getJMSReplyTo());
                tell("no error");
            } catch (JMSException e) {
                tellError("foreign", e);
            }
            try {
                tq.delete();
                tell("no error");
            } catch (JMSException e) {
                tellError("in use", e);
            }
            reply.close();
            tq.delete();
            try {
                sb.createProducer(Temporary.gone(sb, got.getJMSReplyTo())).send(sb.createTextMessage("late"));
                tell("no error");
            } catch (JMSException e) {
                tellError("deleted", e);
            }
            try {
                sa.createConsumer(tq);
                tell("no error");
            } catch (JMSException e) {
                tellError("deleted consumer", e);
            }
            TemporaryTopic tt = sa.createTemporaryTopic();
            MessageConsumer k = sa.createConsumer(tt);
            sb.createProducer(Temporary.known(sb, tt)).send(sb.createTextMessage("tt"));
            tell(show(k.receive(WAIT_MS)));
            ActiveMQConnection late = started();
            Session sl = late.createSession(false, 1);
            sl.createProducer(Temporary.known(sl, tt)).send(sl.createTextMessage("late conn"));
            tell(show(k.receive(WAIT_MS)));
            a.close();
            try {
                sl.createProducer(Temporary.gone(sl, tt)).send(sl.createTextMessage("x"));
                tell("no error");
            } catch (JMSException e) {
                tellError("owner gone", e);
            }
        });

        checks.put("requestor", () -> {
            ActiveMQConnection a = started(), b = started();
            QueueSession qs = a.createQueueSession(false, 1);
            Queue qu = qs.createQueue(name("rr"));
            Session sb = b.createSession(false, 1);
            MessageProducer any = sb.createProducer(null);
            sb.createConsumer(qu).setMessageListener(m -> {
                try {
                    any.send(Temporary.known(sb, m.getJMSReplyTo()), sb.createTextMessage("re:" + ((TextMessage) m).getText()));
                } catch (Exception e) {
                    tellError("reply", e);
                }
            });
            QueueRequestor r = new QueueRequestor(qs, qu);
            for (int i = 0; i < 3; i++) tell(show(r.request(qs.createTextMessage("q" + i))));
            TopicSession ts = b.createTopicSession(false, 1);
            Topic t = ts.createTopic(name("tr"));
            Session s2 = a.createSession(false, 1);
            MessageProducer any2 = s2.createProducer(null);
            s2.createConsumer(t).setMessageListener(m -> {
                try {
                    any2.send(Temporary.known(s2, m.getJMSReplyTo()), s2.createTextMessage("tre"));
                } catch (Exception e) {
                    tellError("reply", e);
                }
            });
            TopicRequestor tr = new TopicRequestor(ts, t);
            tell(show(tr.request(ts.createTextMessage("tq"))));
        });

        checks.put("async error", () -> {
            ActiveMQConnection c = connect("jms.useAsyncSend=true");
            AtomicReference<Exception> e = new AtomicReference<>();
            c.setExceptionListener(e::set);
            c.start();
            Session s = c.createSession(false, 1);
            ActiveMQConnection o = started();
            TemporaryQueue tq = o.createSession(false, 1).createTemporaryQueue();
            MessageProducer p = s.createProducer(Temporary.known(s, tq));
            p.send(s.createTextMessage("ok"));
            MessageConsumer k = s.createConsumer(s.createQueue(name("ae")));
            tell(show(k.receive(300)));
        });

        checks.put("keepalive", () -> {
            ActiveMQConnection c = connect("wireFormat.maxInactivityDuration=6000&wireFormat.maxInactivityDurationInitalDelay=200");
            AtomicReference<Object> e = new AtomicReference<>();
            c.setExceptionListener(e::set);
            c.start();
            Session s = c.createSession(false, 1);
            Thread.sleep(13_000); // a busy machine stands still for less than the duration, and it is over twice
            Queue qu = s.createQueue(name("ka"));
            sendN(s, qu, 1);
            tell(show(s.createConsumer(qu).receive(WAIT_MS)) + " " + e.get());
        });

        checks.put("connection id and meta", () -> {
            ActiveMQConnection c = connect("");
            tell(c.getMetaData().getJMSProviderName() + " " + c.getClientID());
            c.start();
            tell(String.valueOf(c.getBrokerName()));
            tell("" + c.getBrokerInfo().isFaultTolerantConfiguration());
            c.close();
            c.close();
            try {
                c.start();
            } catch (JMSException e) {
                tell(e.getClass().getName());
            }
        });

        checks.put("destroy destination", () -> {
            ActiveMQConnection c = started();
            Session s = c.createSession(false, 1);
            Queue qu = s.createQueue(name("des"));
            sendN(s, qu, 2);
            MessageConsumer k = s.createConsumer(qu);
            try {
                c.destroyDestination((ActiveMQDestination) qu);
                tell("no error");
            } catch (JMSException e) {
                tellError("in use", e);
            }
            k.close();
            c.destroyDestination((ActiveMQDestination) qu);
            k = s.createConsumer(qu);
            tell(show(k.receive(300)));
        });
    }
}
