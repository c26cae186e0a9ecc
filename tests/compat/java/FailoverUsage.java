import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.jms.BytesMessage;
import javax.jms.ConnectionConsumer;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.ServerSession;
import javax.jms.Session;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQMessageProducer;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.AsyncCallback;
import org.apache.activemq.command.CommandTypes;

/** More of what a program is in the middle of when its connection fails: checks of `FailoverJudge`. */
final class FailoverUsage {
    private FailoverUsage() {}

    static void add(Map<String, FailoverJudge.Body> bodies) {
        sending(bodies);
        receiving(bodies);
        transacting(bodies);
        watching(bodies);
        ending(bodies);
    }

    private static String text(BytesMessage message) throws JMSException {
        return "bytes " + message.getBodyLength();
    }

    private static Object polled(LinkedBlockingQueue<String> heard) throws InterruptedException {
        return String.valueOf(heard.poll(20, TimeUnit.SECONDS));
    }

    // -- who sends ------------------------------------------------------------------------------------------------

    private static void sending(Map<String, FailoverJudge.Body> bodies) {
        for (FailoverJudge.Loss loss : FailoverJudge.Loss.values()) {
            bodies.put("a send that is for later, " + loss + " lost", judge -> {
                Session session = judge.session();
                MessageProducer producer = session.createProducer(judge.queue(session));
                Message message = session.createTextMessage("1");
                message.setLongProperty("AMQ_SCHEDULED_DELAY", 3000);
                List<Object> found = FailoverJudge.list(judge.failing(loss, FailoverJudge.TEXT, () -> producer.send(message)));
                MessageConsumer consumer = session.createConsumer(judge.queue(session));
                found.add(FailoverJudge.described(FailoverJudge.next(consumer)));
                found.add(judge.rest(consumer));
                return found;
            });
            bodies.put("a send with a callback, " + loss + " lost", judge -> {
                Session session = judge.session();
                ActiveMQMessageProducer producer = (ActiveMQMessageProducer) session.createProducer(judge.queue(session));
                LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();
                AsyncCallback callback = new AsyncCallback() {
                    @Override
                    public void onSuccess() {
                        heard.add("stored");
                    }

                    @Override
                    public void onException(JMSException error) {
                        heard.add(FailoverJudge.thrown(error));
                    }
                };
                producer.send(session.createTextMessage("1"), callback);
                List<Object> found = FailoverJudge.list(polled(heard));
                found.add(judge.failing(loss, FailoverJudge.TEXT, () -> {
                    producer.send(session.createTextMessage("2"), callback);
                    producer.send(session.createTextMessage("3"), callback);
                }));
                found.add(polled(heard));
                found.add(polled(heard));
                found.addAll(judge.left());
                return found;
            });
            bodies.put("sends of several threads on one connection, " + loss + " lost", judge -> {
                ActiveMQConnection connection = judge.started();
                List<MessageProducer> producers = new ArrayList<>();
                List<Session> sessions = new ArrayList<>();
                for (String ignored : FailoverJudge.numbers(5)) {
                    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                    sessions.add(session);
                    producers.add(session.createProducer(judge.queue(session)));
                }
                List<FutureTask<Object>> outcomes = new CopyOnWriteArrayList<>();
                judge.failing(loss, FailoverJudge.TEXT, () -> {
                    for (int number = 0; number < producers.size(); number++) {
                        int place = number;
                        outcomes.add(FailoverJudge.later(
                            () -> FailoverJudge.outcome(() -> producers.get(place).send(sessions.get(place).createTextMessage("t" + place)))));
                    }
                });
                List<Object> found = FailoverJudge.list();
                for (FutureTask<Object> one : outcomes) {
                    found.add(one.get(60, TimeUnit.SECONDS));
                }
                List<String> left = judge.rest(sessions.get(0));
                Collections.sort(left);
                found.add(left);
                return found;
            });
            bodies.put("a large send, " + loss + " lost", judge -> {
                Session session = judge.session();
                MessageProducer producer = session.createProducer(judge.queue(session));
                BytesMessage message = session.createBytesMessage();
                message.writeBytes(new byte[3_000_000]);
                List<Object> found = FailoverJudge.list(judge.failing(loss, CommandTypes.ACTIVEMQ_BYTES_MESSAGE, () -> producer.send(message)));
                MessageConsumer consumer = session.createConsumer(judge.queue(session));
                found.add(text((BytesMessage) FailoverJudge.next(consumer)));
                found.add(judge.rest(consumer));
                return found;
            });
            bodies.put("a virtual topic, " + loss + " lost", judge -> {
                Session session = judge.session();
                Topic topic = session.createTopic("VirtualTopic." + judge.own(""));
                List<MessageConsumer> consumers = new ArrayList<>();
                for (String who : new String[] {"A", "B"}) {
                    consumers.add(session.createConsumer(session.createQueue("Consumer." + who + "." + topic.getTopicName())));
                }
                MessageProducer producer = session.createProducer(topic);
                List<Object> found = FailoverJudge.list(judge.failing(loss, FailoverJudge.TEXT, () -> producer.send(session.createTextMessage("1"))));
                producer.send(session.createTextMessage("2"));
                for (MessageConsumer consumer : consumers) {
                    found.add(new TreeSet<>(FailoverJudge.whole(FailoverJudge.list(judge.rest(consumer)))).toString());
                }
                return found;
            });
        }
        bodies.put("a send while nobody is there, timeout", judge -> {
            Session session = judge.session(Session.AUTO_ACKNOWLEDGE, "timeout=1000");
            MessageProducer producer = session.createProducer(judge.queue(session));
            producer.send(session.createTextMessage("1"));
            judge.refuseAll();
            List<Object> found = FailoverJudge.list(FailoverJudge.outcome(() -> producer.send(session.createTextMessage("2"))));
            judge.opens();
            found.add(FailoverJudge.outcome(() -> producer.send(session.createTextMessage("3"))));
            List<String> texts = judge.rest(session);
            texts.remove("2"); // the client may have sent it when it was there again
            found.add(texts);
            return found;
        });
        bodies.put("groups that are closed go to whoever is there", judge -> {
            Session session = judge.session();
            MessageConsumer one = session.createConsumer(judge.queue(session));
            MessageConsumer two = session.createConsumer(judge.queue(session));
            MessageProducer producer = session.createProducer(judge.queue(session));
            List<Object> found = FailoverJudge.list();
            for (int round = 0; round < 2; round++) {
                for (String text : FailoverJudge.numbers(3)) {
                    Message message = session.createTextMessage(text);
                    message.setStringProperty("JMSXGroupID", "g");
                    message.setIntProperty("JMSXGroupSeq", text.equals("3") ? -1 : Integer.parseInt(text));
                    producer.send(message);
                }
                List<String> all = judge.rest(one);
                all.addAll(judge.rest(two));
                found.add(all);
                if (round == 0) {
                    judge.fail();
                }
            }
            return found;
        });
    }

    // -- who receives -----------------------------------------------------------------------------------------------

    private static void receiving(Map<String, FailoverJudge.Body> bodies) {
        bodies.put("a connection consumer", judge -> {
            ActiveMQConnection connection = judge.started();
            LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.setMessageListener(message -> heard.add(String.valueOf(FailoverJudge.attempt(() -> FailoverJudge.described(message)))));
            ServerSession server = new ServerSession() {
                @Override
                public Session getSession() {
                    return session;
                }

                @Override
                public void start() {
                    new Thread(session).start();
                }
            };
            Session sender = judge.session();
            ConnectionConsumer consumer = connection.createConnectionConsumer(judge.queue(sender), null, () -> server, 1);
            FailoverJudge.send(sender, judge.queue(sender), "1");
            List<Object> found = FailoverJudge.list(polled(heard));
            judge.fail();
            FailoverJudge.send(sender, judge.queue(sender), "2");
            found.add(unmarked(polled(heard)));
            consumer.close();
            FailoverJudge.send(sender, judge.queue(sender), "3");
            found.add(FailoverJudge.whole(judge.left()).contains("3"));
            return found;
        });
        bodies.put("a consumer of several queues, and one of a wildcard", judge -> {
            Session session = judge.session();
            String name = judge.own("");
            MessageConsumer several = session.createConsumer(session.createQueue(name + ".A," + name + ".B"));
            MessageConsumer wild = session.createConsumer(session.createQueue(name + ".W.*"));
            judge.fail();
            Session sender = judge.session();
            FailoverJudge.send(sender, sender.createQueue(name + ".A"), "1");
            FailoverJudge.send(sender, sender.createQueue(name + ".B"), "2");
            FailoverJudge.send(sender, sender.createQueue(name + ".W.new"), "3");
            return FailoverJudge.list(new TreeSet<>(FailoverJudge.texts(several, 2)), FailoverJudge.texts(wild, 1));
        });
        bodies.put("the consumer of a higher priority", judge -> {
            Session session = judge.session();
            MessageConsumer low = session.createConsumer(session.createQueue(judge.own("") + "?consumer.priority=1"));
            MessageConsumer high = session.createConsumer(session.createQueue(judge.own("") + "?consumer.priority=9"));
            judge.fail();
            FailoverJudge.send(judge.session(), judge.queue(session), FailoverJudge.numbers(3));
            return FailoverJudge.list(FailoverJudge.texts(high, 3), judge.rest(low));
        });
        bodies.put("a browser in the middle", judge -> {
            Session session = judge.session(Session.AUTO_ACKNOWLEDGE, "jms.prefetchPolicy.all=2");
            FailoverJudge.send(session, judge.queue(session), FailoverJudge.numbers(8));
            Enumeration<?> all = session.createBrowser(judge.queue(session)).getEnumeration();
            List<Object> found = FailoverJudge.list();
            List<Object> seen = FailoverJudge.list(((TextMessage) all.nextElement()).getText());
            judge.fail();
            FutureTask<Object> rest = FailoverJudge.later(() -> FailoverJudge.attempt(() -> {
                while (all.hasMoreElements()) {
                    Object message = all.nextElement();
                    if (message != null) {
                        seen.add(((TextMessage) message).getText());
                    }
                }
                return "ended";
            }));
            found.add(rest.get(60, TimeUnit.SECONDS));
            found.add(FailoverJudge.whole(seen));
            return found;
        });
        for (int mode : new int[] {Session.CLIENT_ACKNOWLEDGE, Session.AUTO_ACKNOWLEDGE, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE}) {
            bodies.put("recovered after the fault, mode " + mode, judge -> {
                Session session = judge.session(mode, "jms.redeliveryPolicy.initialRedeliveryDelay=0");
                MessageConsumer consumer = judge.prefetching(session, 4);
                FailoverJudge.got(consumer, 2);
                judge.fail();
                List<Object> found = FailoverJudge.list(FailoverJudge.outcome(session::recover));
                Message latest = null;
                for (Message one = consumer.receive(FailoverJudge.AGAIN_MS); one != null; one = consumer.receive(FailoverJudge.SILENCE_MS)) {
                    latest = one;
                    found.add(FailoverJudge.described(one));
                    if (mode == ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE) {
                        one.acknowledge();
                    }
                }
                if (latest != null) {
                    found.add(FailoverJudge.outcome(latest::acknowledge));
                }
                consumer.close();
                found.addAll(judge.left());
                List<String> whole = FailoverJudge.whole(found);
                if (mode == Session.AUTO_ACKNOWLEDGE) {
                    whole.removeAll(Arrays.asList("1", "2")); // the broker may have heard of it or not
                }
                return whole;
            });
        }
        bodies.put("one in the middle was acknowledged alone", judge -> {
            Session session = judge.session(ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE, "jms.sendAcksAsync=false");
            MessageConsumer consumer = judge.prefetching(session, 4);
            FailoverJudge.next(consumer);
            FailoverJudge.next(consumer).acknowledge();
            judge.fail();
            List<Object> found = FailoverJudge.list();
            for (Message one = consumer.receive(FailoverJudge.AGAIN_MS); one != null; one = consumer.receive(FailoverJudge.SILENCE_MS)) {
                found.add(FailoverJudge.described(one));
                one.acknowledge();
            }
            consumer.close();
            found.addAll(judge.left());
            return FailoverJudge.whole(found);
        });
        bodies.put("a durable subscription with optimised acknowledgements", judge -> {
            ActiveMQConnection connection = judge.connection("jms.optimizeAcknowledge=true", "jms.prefetchPolicy.all=20");
            connection.setClientID(judge.own(".client"));
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableSubscriber(judge.topic(session), "s");
            FailoverJudge.send(judge.session(), judge.topic(session), FailoverJudge.numbers(5));
            judge.awaitDispatched(5);
            FailoverJudge.got(consumer, 2);
            judge.fail();
            List<Object> found = FailoverJudge.list(judge.rest(consumer));
            consumer.close();
            found.add(judge.rest(session.createDurableSubscriber(judge.topic(session), "s")));
            List<String> whole = FailoverJudge.whole(found);
            whole.removeAll(Arrays.asList("1", "2"));
            return whole;
        });
        bodies.put("a durable subscription with a selector", judge -> {
            Session session = judge.durable();
            MessageConsumer consumer = session.createDurableSubscriber(judge.topic(session), "s", "JMSPriority > 4", false);
            judge.fail();
            Session sender = judge.session();
            MessageProducer producer = sender.createProducer(judge.topic(sender));
            for (int priority : new int[] {9, 1, 5, 2}) {
                producer.send(sender.createTextMessage("p" + priority), javax.jms.DeliveryMode.PERSISTENT, priority, 0);
            }
            return FailoverJudge.texts(consumer, 2);
        });
        bodies.put("a message that expires meanwhile", judge -> {
            Session session = judge.session();
            MessageProducer producer = session.createProducer(judge.queue(session));
            producer.setTimeToLive(300);
            producer.send(session.createTextMessage("brief"));
            producer.setTimeToLive(0);
            producer.send(session.createTextMessage("long"));
            judge.fail();
            long end = System.currentTimeMillis() + 400;
            while (System.currentTimeMillis() < end) {
                Thread.sleep(10);
            }
            return FailoverJudge.list(judge.rest(session.createConsumer(judge.queue(session))));
        });
    }

    private static Object unmarked(Object text) {
        return String.valueOf(text).replaceAll(" again \\d+", "");
    }

    // -- transactions -------------------------------------------------------------------------------------------------

    private static void transacting(Map<String, FailoverJudge.Body> bodies) {
        for (FailoverJudge.Loss loss : FailoverJudge.Loss.values()) {
            bodies.put("a commit of receipts of two consumers, " + loss + " lost", judge -> {
                Session session = judge.transacted("jms.prefetchPolicy.all=3");
                Queue other = session.createQueue(judge.own(".other"));
                FailoverJudge.send(judge.session(), judge.queue(session), FailoverJudge.numbers(3));
                FailoverJudge.send(judge.session(), other, "a", "b");
                MessageConsumer one = session.createConsumer(judge.queue(session));
                MessageConsumer two = session.createConsumer(other);
                FailoverJudge.got(one, 2);
                FailoverJudge.got(two, 1);
                List<Object> found = FailoverJudge.list(judge.failing(loss, FailoverJudge.TRANSACTION, session::commit));
                found.add(judge.rest(two));
                found.addAll(judge.committed(session, one));
                two.close();
                found.add(judge.rest(judge.session().createConsumer(other)));
                return FailoverJudge.wholeOf(found, "1", "2", "a");
            });
        }
        bodies.put("a consumer is closed before the commit", judge -> {
            Session session = judge.transacted();
            MessageConsumer consumer = judge.prefetching(session, 3);
            FailoverJudge.got(consumer, 2);
            consumer.close();
            judge.fail();
            List<Object> found = FailoverJudge.list(FailoverJudge.outcome(session::commit));
            MessageConsumer again = session.createConsumer(judge.queue(session));
            found.addAll(judge.committed(session, again));
            return FailoverJudge.wholeOf(found, "1", "2");
        });
        bodies.put("a transaction with large messages, then the fault", judge -> {
            Session session = judge.transacted();
            MessageProducer producer = session.createProducer(judge.queue(session));
            for (int number = 0; number < 4; number++) {
                BytesMessage message = session.createBytesMessage();
                message.writeBytes(new byte[500_000]);
                producer.send(message);
            }
            judge.fail();
            producer.send(session.createTextMessage("last"));
            List<Object> found = FailoverJudge.list(FailoverJudge.outcome(session::commit));
            found.add(judge.rest(session.createConsumer(judge.queue(session))));
            return found;
        });
        bodies.put("an empty transaction after the fault, and one without", judge -> {
            Session session = judge.transacted();
            judge.fail();
            List<Object> found = FailoverJudge.list(FailoverJudge.outcome(session::commit), FailoverJudge.outcome(session::rollback));
            FailoverJudge.send(session, judge.queue(session), "1");
            found.add(FailoverJudge.outcome(session::commit));
            found.addAll(judge.left());
            return found;
        });
        bodies.put("a transaction of two faults", judge -> {
            Session session = judge.transacted();
            MessageProducer producer = session.createProducer(judge.queue(session));
            producer.send(session.createTextMessage("1"));
            judge.fail();
            producer.send(session.createTextMessage("2"));
            judge.fail();
            producer.send(session.createTextMessage("3"));
            List<Object> found = FailoverJudge.list(FailoverJudge.outcome(session::commit));
            found.addAll(judge.left());
            return found;
        });
    }

    // -- advisories and temporary destinations -----------------------------------------------------------------------------

    private static void watching(Map<String, FailoverJudge.Body> bodies) {
        bodies.put("advisories of consumers", judge -> {
            Session session = judge.session();
            MessageConsumer told = session.createConsumer(session.createTopic("ActiveMQ.Advisory.Consumer.Queue." + judge.own("")));
            Session other = judge.session();
            MessageConsumer consumer = other.createConsumer(judge.queue(other));
            List<Object> found = FailoverJudge.list(FailoverJudge.next(told).getIntProperty("consumerCount"));
            judge.fail();
            while (told.receive(FailoverJudge.AGAIN_MS) != null) {
                // of those that come back
            }
            consumer.close();
            found.add(FailoverJudge.next(told).getIntProperty("consumerCount"));
            return found;
        });
        bodies.put("a temporary topic", judge -> {
            Session session = judge.session();
            TemporaryTopic topic = session.createTemporaryTopic();
            MessageConsumer consumer = session.createConsumer(topic);
            judge.fail();
            Session other = judge.session();
            List<Object> found = FailoverJudge.list(FailoverJudge.outcome(() -> FailoverJudge.send(other, Temporary.known(other, topic), "1")));
            found.add(FailoverJudge.texts(consumer, 1));
            consumer.close();
            found.add(FailoverJudge.outcome(topic::delete));
            return found;
        });
        bodies.put("a temporary queue that was deleted stays so", judge -> {
            Session session = judge.session();
            javax.jms.TemporaryQueue queue = session.createTemporaryQueue();
            MessageConsumer consumer = session.createConsumer(queue);
            consumer.close();
            queue.delete();
            judge.fail();
            return FailoverJudge.list(FailoverJudge.outcome(() -> session.createConsumer(queue)));
        });
    }

    // -- the end -----------------------------------------------------------------------------------------------------------

    private static void ending(Map<String, FailoverJudge.Body> bodies) {
        bodies.put("a connection is closed while nobody is there", judge -> {
            ActiveMQConnection connection = judge.started("timeout=1000", "jms.closeTimeout=1000");
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = judge.prefetching(session, 3);
            FailoverJudge.got(consumer, 2);
            judge.refuse();
            FutureTask<Object> closed = FailoverJudge.later(() -> {
                FailoverJudge.outcome(connection::close);
                return connection.isClosed();
            });
            List<Object> found = FailoverJudge.list(closed.get(60, TimeUnit.SECONDS));
            judge.opens();
            found.add(FailoverJudge.whole(judge.left()));
            return found;
        });
    }
}
