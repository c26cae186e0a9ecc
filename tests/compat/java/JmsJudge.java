import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.QueueConnection;
import javax.jms.QueueRequestor;
import javax.jms.QueueSession;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TemporaryQueue;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.TopicConnection;
import javax.jms.TopicRequestor;
import javax.jms.TopicSession;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.RedeliveryPolicy;

/**
 * Checks of JMS 1.1 against one broker, in one virtual machine: what a suite of JMS would ask. Prints {name, result}.
 *
 * <pre>
 *   JmsJudge BROKER_URL [TITLE...]
 * </pre>
 */
public final class JmsJudge extends Judge {
    private JmsJudge(String... arguments) {
        super(arguments);
    }

    public static void main(String[] arguments) {
        JmsJudge judge = new JmsJudge(arguments);
        judge.messages();
        judge.selectors();
        judge.sessions();
        judge.topics();
        judge.browsers();
        judge.temporaries();
        judge.connections();
        judge.destinations();
    }

    // -- messages -------------------------------------------------------------------------------------------------

    private Message passed(Session session, Message message) throws JMSException {
        Queue queue = queue(session);
        session.createProducer(queue).send(message);
        MessageConsumer consumer = session.createConsumer(queue);
        try {
            return next(consumer);
        } finally {
            consumer.close();
        }
    }

    private void messages() {
        check("property conversions", () -> {
            Session session = session();
            Message message = session.createMessage();
            message.setBooleanProperty("boolean", true);
            message.setByteProperty("byte", (byte) -1);
            message.setShortProperty("short", (short) 300);
            message.setIntProperty("int", 70000);
            message.setLongProperty("long", 1L << 40);
            message.setFloatProperty("float", 1.5f);
            message.setDoubleProperty("double", 1e300);
            message.setStringProperty("text", "x");
            message.setStringProperty("number", "12");
            message.setStringProperty("decimal", "1.25");
            message.setStringProperty("truth", "true");
            message.setObjectProperty("object", Integer.valueOf(5));
            message.setStringProperty("empty", "");
            message.setStringProperty("nothing", null);
            Message got = passed(session, message);
            Map<String, Object> found = new LinkedHashMap<>();
            List<String> names = new ArrayList<>(Collections.list((java.util.Enumeration<String>) got.getPropertyNames()));
            Collections.sort(names);
            names.add("missing");
            for (String name : names) {
                found.put(name, Arrays.asList(
                    attempt(() -> got.getBooleanProperty(name)), attempt(() -> got.getByteProperty(name)),
                    attempt(() -> got.getShortProperty(name)), attempt(() -> got.getIntProperty(name)),
                    attempt(() -> got.getLongProperty(name)), attempt(() -> got.getFloatProperty(name)),
                    attempt(() -> got.getDoubleProperty(name)), attempt(() -> got.getStringProperty(name)),
                    attempt(() -> valued(got.getObjectProperty(name))), got.propertyExists(name)));
            }
            return found;
        });
        check("received messages are read-only until cleared", () -> {
            Session session = session();
            TextMessage message = session.createTextMessage("x");
            message.setStringProperty("a", "b");
            TextMessage got = (TextMessage) passed(session, message);
            List<Object> found = new ArrayList<>();
            found.add(outcome(() -> got.setText("y")));
            found.add(outcome(() -> got.setStringProperty("a", "c")));
            got.clearProperties();
            found.add(outcome(() -> got.setStringProperty("a", "c")));
            got.clearBody();
            found.add(outcome(() -> got.setText("y")));
            found.add(got.getText() + got.getStringProperty("a"));
            return found;
        });
        check("names of properties", () -> {
            Session session = session();
            Message message = session.createMessage();
            List<Object> found = new ArrayList<>();
            for (String name : new String[] {"", "a.b", "1a", "JMSXGroupID", "JMSType", "NULL", "a b", "$a", "_a", "JMS_vendor"}) {
                found.add(name + " " + outcome(() -> message.setStringProperty(name, "v")));
            }
            found.add(outcome(() -> message.setObjectProperty("list", Collections.emptyList())));
            found.add(outcome(() -> message.setObjectProperty("thing", new Object())));
            found.add(properties(passed(session, message)));
            return found;
        });
        check("headers", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            MessageProducer producer = session.createProducer(queue(session));
            MessageConsumer consumer = session.createConsumer(queue(session));
            TextMessage message = session.createTextMessage("x");
            message.setJMSCorrelationID("c");
            message.setJMSReplyTo(session.createTopic("replies"));
            message.setJMSType("t");
            message.setJMSPriority(1);
            message.setJMSExpiration(5);
            message.setJMSDeliveryMode(DeliveryMode.NON_PERSISTENT);
            producer.send(message);
            found.add(headers(next(consumer)));
            producer.send(message, DeliveryMode.NON_PERSISTENT, 9, 60_000);
            found.add(headers(message));
            found.add(headers(next(consumer)));
            producer.setDisableMessageID(true);
            producer.setDisableMessageTimestamp(true);
            producer.setPriority(0);
            producer.setTimeToLive(100_000);
            message.setJMSCorrelationIDAsBytes(new byte[] {'a', 'b'});
            message.setJMSReplyTo(session.createTemporaryQueue());
            producer.send(message);
            Message got = next(consumer);
            found.add(headers(got));
            found.add(Arrays.toString(got.getJMSCorrelationIDAsBytes()));
            found.add(outcome(() -> producer.setPriority(10)));
            found.add(outcome(() -> producer.setDeliveryMode(3)));
            return found;
        });
        for (boolean compressed : new boolean[] {false, true}) {
            check("bodies, compressed " + compressed, () -> {
                Session session = started("jms.useCompression=" + compressed).createSession(false, Session.AUTO_ACKNOWLEDGE);
                List<Object> found = new ArrayList<>();
                String big = new String(new char[50_000]).replace('\0', 'ü');
                for (String text : new String[] {null, "", "plain", "grüße \0 \ud83d\ude00", big}) {
                    TextMessage got = (TextMessage) passed(session, session.createTextMessage(text));
                    found.add(text == null ? got.getText() : text.equals(got.getText()));
                }
                BytesMessage bytes = session.createBytesMessage();
                bytes.writeBoolean(true);
                bytes.writeUTF("ü");
                bytes.writeDouble(1.5);
                bytes.writeBytes(new byte[300]);
                BytesMessage gotBytes = (BytesMessage) passed(session, bytes);
                found.add(gotBytes.getBodyLength() + " " + gotBytes.readBoolean() + gotBytes.readUTF() + gotBytes.readDouble());
                found.add(gotBytes.readBytes(new byte[1000]) + " " + attempt(gotBytes::readByte));
                MapMessage map = session.createMapMessage();
                map.setBoolean("boolean", true);
                map.setByte("byte", (byte) 1);
                map.setChar("char", 'ü');
                map.setLong("long", -1);
                map.setFloat("float", 0.5f);
                map.setBytes("bytes", new byte[] {1, 2});
                map.setString("null", null);
                map.setObject("map", Collections.singletonMap("a", Arrays.asList(1, "b")));
                found.add(body(passed(session, map)));
                StreamMessage stream = session.createStreamMessage();
                stream.writeInt(1);
                stream.writeString("two");
                stream.writeString(null);
                stream.writeBytes(new byte[] {3});
                stream.writeChar('4');
                found.add(body(passed(session, stream)));
                found.add(body(passed(session, session.createObjectMessage(new ArrayList<>(Arrays.asList("a", 1))))));
                found.add(body(passed(session, session.createMessage())));
                return found;
            });
        }
        check("a message is the sender's again after a send", () -> {
            Session session = session();
            Queue queue = queue(session);
            TextMessage message = session.createTextMessage("1");
            MessageProducer producer = session.createProducer(queue);
            producer.send(message);
            String first = message.getJMSMessageID();
            message.setText("2");
            producer.send(message);
            return Arrays.asList(first.equals(message.getJMSMessageID()), texts(session.createConsumer(queue), 2));
        });
    }

    // -- selectors ------------------------------------------------------------------------------------------------

    private static final String[] SELECTORS = {
        "number > 2", "number >= 2 AND number < 4", "number BETWEEN 1 AND 2", "number NOT BETWEEN 1 AND 2",
        "colour = 'red'", "colour <> 'red'", "colour IN ('red', 'blue')", "colour NOT IN ('red')", "colour IS NULL",
        "colour IS NOT NULL", "colour LIKE 'r%'", "colour LIKE '_ed'", "colour NOT LIKE 'r%'", "odd", "NOT odd", "odd = TRUE",
        "number + 1 = 3", "number * 2 = 4", "-number = -2", "number / 2 = 1", "price = 0.5", "price > 1E-1", "missing = 1",
        "missing IS NULL OR number = 1", "NOT (missing = 1)", "JMSPriority > 3", "JMSType = 't1'", "JMSDeliveryMode = 'PERSISTENT'",
        "JMSCorrelationID = 'c2'", "colour = 'it''s'", "TRUE", "FALSE", "1 = 1", "number = '2'", "colour LIKE 'r!%' ESCAPE '!'",
        "JMSMessageID IS NOT NULL", "number = 2 or colour = 'blue' and odd", "number IN (1, 2)", "JMSXGroupID = 'g'", "   ", "",
        "number = ", "= 2", "colour LIKE 5", "colour BETWEEN 'a' AND 'b'", "number > > 2", "'unclosed", "number IN ()", "colour ==",
        "XPATH '//a'", "number == 2", "number != 2", "(number = 2", "number = 0x2", "number = 2L", "price = 5e-1", "number IS 5",
    };

    private void selectors() {
        check("selectors", () -> {
            Session session = session();
            Map<String, Object> found = new LinkedHashMap<>();
            int count = 0;
            for (String selector : SELECTORS) {
                Queue queue = session.createQueue(own("." + count++));
                MessageProducer producer = session.createProducer(queue);
                for (int number = 1; number <= 4; number++) {
                    TextMessage message = session.createTextMessage(String.valueOf(number));
                    message.setIntProperty("number", number);
                    message.setBooleanProperty("odd", number % 2 == 1);
                    message.setFloatProperty("price", number / 4f);
                    message.setJMSType("t" + number);
                    message.setJMSCorrelationID("c" + number);
                    if (number < 4) {
                        message.setStringProperty("colour", new String[] {"red", "blue", "it's"}[number - 1]);
                    }
                    producer.send(message, number == 1 ? DeliveryMode.NON_PERSISTENT : DeliveryMode.PERSISTENT, number + 1, 0);
                }
                found.put(selector, attempt(() -> {
                    List<String> got = new ArrayList<>();
                    for (Object shown : Collections.list(session.createBrowser(queue, selector).getEnumeration())) {
                        got.add(((TextMessage) shown).getText());
                    }
                    Collections.sort(got);
                    return got;
                }));
            }
            return found;
        });
        check("a selector passes over what others take", () -> {
            Session session = session();
            Queue queue = queue(session);
            for (int number = 0; number < 6; number++) {
                TextMessage message = session.createTextMessage("m" + number);
                message.setIntProperty("n", number);
                session.createProducer(queue).send(message);
            }
            return Arrays.asList(texts(session.createConsumer(queue, "n > 3"), 2), texts(session.createConsumer(queue), 4));
        });
    }

    // -- sessions -------------------------------------------------------------------------------------------------

    private void sessions() {
        check("auto acknowledgement and recover", () -> {
            Session session = session();
            send(session, queue(session), "1", "2");
            MessageConsumer consumer = session.createConsumer(queue(session));
            next(consumer);
            session.recover();
            return texts(consumer, 1);
        });
        check("client acknowledgement covers the session", () -> {
            Session session = started().createSession(false, Session.CLIENT_ACKNOWLEDGE);
            send(session, queue(session), "1", "2", "3", "4");
            MessageConsumer consumer = session.createConsumer(queue(session));
            next(consumer);
            next(consumer).acknowledge();
            next(consumer);
            session.recover();
            List<Object> found = new ArrayList<>(texts(consumer, 2));
            consumer.close();
            session.close();
            found.add(rest(session()));
            return found;
        });
        check("individual acknowledgement", () -> {
            Session session = started().createSession(false, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
            send(session, queue(session), "1", "2", "3");
            MessageConsumer consumer = session.createConsumer(queue(session));
            next(consumer);
            next(consumer).acknowledge();
            next(consumer);
            session.close();
            Session other = session();
            return rest(other);
        });
        check("dups ok", () -> {
            Session session = started().createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
            send(session, queue(session), "1", "2", "3");
            List<Object> found = new ArrayList<>(texts(session.createConsumer(queue(session)), 3));
            session.close();
            Session other = session();
            found.add(rest(other));
            return found;
        });
        check("transactions", () -> {
            Session session = started().createSession(true, Session.SESSION_TRANSACTED);
            Session other = session();
            MessageConsumer watching = other.createConsumer(queue(other));
            List<Object> found = new ArrayList<>();
            send(session, queue(session), "1");
            found.add(watching.receive(SILENCE_MS) == null);
            session.rollback();
            found.add(watching.receive(SILENCE_MS) == null);
            send(session, queue(session), "2", "3");
            session.commit();
            found.add(texts(watching, 2));
            watching.close();
            send(other, queue(other), "4", "5");
            MessageConsumer consumer = session.createConsumer(queue(session));
            found.add(texts(consumer, 2));
            session.rollback();
            found.add(texts(consumer, 2));
            session.commit();
            found.add(rest(consumer));
            send(other, queue(other), "6");
            next(consumer);
            session.close();
            found.add(rest(other));
            return found;
        });
        check("what is delivered too often is a dead letter", () -> {
            ActiveMQConnection connection = started();
            RedeliveryPolicy policy = connection.getRedeliveryPolicy();
            policy.setMaximumRedeliveries(1);
            policy.setInitialRedeliveryDelay(0);
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            TextMessage message = session.createTextMessage("poison");
            message.setStringProperty("mark", own(""));
            session.createProducer(queue(session)).send(message);
            session.commit();
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            for (int time = 0; time < 2; time++) {
                found.add(described(next(consumer)));
                session.rollback();
            }
            found.add(consumer.receive(SILENCE_MS) == null);
            Session other = session();
            Message got = next(other.createConsumer(other.createQueue("ActiveMQ.DLQ"), "mark = '" + own("") + "'"));
            found.add(described(got));
            found.add(properties(got).keySet());
            found.add(headers(got));
            return found;
        });
        check("expired messages", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(queue(session));
            producer.setTimeToLive(50);
            producer.send(session.createTextMessage("gone"));
            Thread.sleep(200);
            send(session, queue(session), "there");
            return texts(session.createConsumer(queue(session)), 1);
        });
        check("a consumer that closes gives back what it did not acknowledge", () -> {
            Session session = started().createSession(false, Session.CLIENT_ACKNOWLEDGE);
            send(session, queue(session), "1", "2", "3");
            MessageConsumer consumer = session.createConsumer(queue(session));
            next(consumer);
            consumer.close();
            return texts(session.createConsumer(queue(session)), 3);
        });
        check("a connection that breaks off", () -> {
            ActiveMQConnection connection = started();
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            send(session, queue(session), "1", "2");
            next(session.createConsumer(queue(session)));
            connection.getTransport().stop();
            Session other = session();
            MessageConsumer consumer = other.createConsumer(queue(other));
            List<Object> found = new ArrayList<>();
            for (int number = 0; number < 2; number++) {
                Message message = next(consumer);
                found.add(((TextMessage) message).getText());
            }
            return found;
        });
        check("what a session must not do", () -> {
            Session session = session();
            Session transacted = started().createSession(true, Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            found.add(outcome(session::commit));
            found.add(outcome(session::rollback));
            found.add(outcome(transacted::recover));
            found.add(transacted.getAcknowledgeMode() + " " + transacted.getTransacted());
            session.close();
            session.close();
            found.add(outcome(() -> consumer.receive(1)));
            found.add(outcome(() -> session.createTextMessage("x")));
            found.add(outcome(() -> session.createProducer(null)));
            return found;
        });
        check("listeners hear in order", () -> {
            Session session = session();
            List<String> heard = Collections.synchronizedList(new ArrayList<>());
            session.createConsumer(queue(session)).setMessageListener(message -> {
                try {
                    heard.add(((TextMessage) message).getText());
                } catch (JMSException error) {
                    heard.add(thrown(error));
                }
            });
            Session sender = session();
            String[] texts = new String[200];
            for (int number = 0; number < texts.length; number++) {
                texts[number] = "m" + number;
            }
            send(sender, queue(sender), texts);
            for (int waited = 0; heard.size() < texts.length && waited < WAIT_MS; waited += 20) {
                Thread.sleep(20);
            }
            return heard.equals(Arrays.asList(texts));
        });
        check("a listener that throws has its message again", () -> {
            ActiveMQConnection connection = started();
            connection.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
            connection.getRedeliveryPolicy().setRedeliveryDelay(0);
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            List<String> heard = Collections.synchronizedList(new ArrayList<>());
            session.createConsumer(queue(session)).setMessageListener(message -> {
                try {
                    heard.add(described(message));
                } catch (JMSException error) {
                    heard.add(thrown(error));
                }
                if (heard.size() < 3) {
                    throw new IllegalArgumentException("not yet");
                }
            });
            Session sender = session();
            send(sender, queue(sender), "x");
            for (int waited = 0; heard.size() < 3 && waited < WAIT_MS; waited += 20) {
                Thread.sleep(20);
            }
            return heard;
        });
        for (String prefetch : new String[] {"0", "1", "1000"}) {
            check("prefetch " + prefetch, () -> {
                Session session = started("jms.prefetchPolicy.all=" + prefetch).createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageConsumer consumer = session.createConsumer(queue(session));
                List<Object> found = new ArrayList<>();
                found.add(consumer.receiveNoWait() == null);
                send(session, queue(session), "1", "2", "3");
                found.add(texts(consumer, 3));
                return found;
            });
        }
        for (String option : new String[] {"jms.useAsyncSend=true", "jms.optimizeAcknowledge=true", "jms.dispatchAsync=false",
                "jms.alwaysSyncSend=true", "jms.producerWindowSize=2000", "wireFormat.cacheEnabled=false",
                "wireFormat.tightEncodingEnabled=false", "jms.copyMessageOnSend=false", "jms.watchTopicAdvisories=false"}) {
            check("with " + option, () -> {
                Session session = started(option).createSession(false, Session.AUTO_ACKNOWLEDGE);
                String[] texts = new String[50];
                for (int number = 0; number < texts.length; number++) {
                    texts[number] = "m" + number;
                }
                send(session, queue(session), texts);
                MessageConsumer consumer = session.createConsumer(queue(session));
                List<String> got = texts(consumer, texts.length);
                consumer.close();
                return Arrays.asList(got.equals(Arrays.asList(texts)), rest(session));
            });
        }
    }

    // -- topics ---------------------------------------------------------------------------------------------------

    private void topics() {
        check("topics", () -> {
            Session session = session();
            send(session, topic(session), "before");
            MessageConsumer one = session.createConsumer(topic(session));
            MessageConsumer two = session.createConsumer(topic(session), "JMSPriority > 4");
            MessageConsumer local = session.createConsumer(topic(session), null, true);
            send(session, topic(session), "after");
            Session other = session();
            send(other, topic(other), "by another");
            return Arrays.asList(texts(one, 2), texts(two, 0), texts(local, 1));
        });
        check("durable subscriptions", () -> {
            List<Object> found = new ArrayList<>();
            ActiveMQConnection connection = connection();
            connection.setClientID(own(""));
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "news");
            send(session, topic(session), "1");
            found.add(texts(consumer, 1));
            found.add(outcome(() -> session.createDurableSubscriber(topic(session), "news")));
            found.add(outcome(() -> session.unsubscribe("news")));
            consumer.close();
            send(session, topic(session), "2", "3");
            MessageConsumer again = session.createDurableSubscriber(topic(session), "news");
            found.add(texts(again, 2));
            again.close();
            send(session, topic(session), "4");
            MessageConsumer selecting = session.createDurableSubscriber(topic(session), "news", "JMSPriority = 4", false);
            send(session, topic(session), "5");
            found.add(texts(selecting, 1));
            selecting.close();
            session.unsubscribe("news");
            send(session, topic(session), "6");
            MessageConsumer fresh = session.createDurableSubscriber(topic(session), "news");
            found.add(rest(fresh));
            fresh.close();
            session.unsubscribe("news");
            found.add(outcome(() -> session.unsubscribe("news")));
            found.add(outcome(() -> session.unsubscribe("unknown")));
            return found;
        });
        check("durable subscriptions have priorities, selectors and transactions", () -> {
            ActiveMQConnection connection = connection();
            connection.setClientID(own(""));
            connection.start();
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "news");
            send(session, topic(session), "1", "2");
            session.commit();
            List<Object> found = new ArrayList<>(texts(consumer, 2));
            session.rollback();
            found.addAll(texts(consumer, 2));
            session.commit();
            consumer.close();
            session.unsubscribe("news");
            return found;
        });
        check("durable subscriptions need a client id", () -> {
            Session session = session();
            return outcome(() -> session.createDurableSubscriber(topic(session), "news"));
        });
        check("durable subscription without own messages", () -> {
            ActiveMQConnection connection = connection();
            connection.setClientID(own(""));
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableSubscriber(topic(session), "news", null, true);
            send(session, topic(session), "own");
            Session other = session();
            send(other, topic(other), "other");
            List<String> found = texts(consumer, 1);
            consumer.close();
            session.unsubscribe("news");
            return found;
        });
        check("retroactive and wildcard subscribers", () -> {
            Session session = session();
            MessageConsumer all = session.createConsumer(session.createTopic(own(".>")));
            MessageConsumer one = session.createConsumer(session.createTopic(own(".*.b")));
            send(session, session.createTopic(own(".a.b")), "a.b");
            send(session, session.createTopic(own(".a.c")), "a.c");
            return Arrays.asList(texts(all, 2), texts(one, 1));
        });
    }

    // -- browsers -------------------------------------------------------------------------------------------------

    private static List<String> shown(QueueBrowser browser) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Object message : Collections.list(browser.getEnumeration())) {
            found.add(described((Message) message));
        }
        return found;
    }

    private void browsers() {
        check("browsers", () -> {
            Session session = session();
            Queue queue = queue(session);
            List<Object> found = new ArrayList<>();
            found.add(shown(session.createBrowser(queue)));
            send(session, queue, "1", "2", "3");
            QueueBrowser browser = session.createBrowser(queue);
            found.add(shown(browser));
            found.add(shown(browser));
            browser.close();
            found.add(shown(session.createBrowser(queue, "JMSPriority > 4")));
            MessageConsumer consumer = session.createConsumer(queue);
            found.add(texts(consumer, 3));
            found.add(shown(session.createBrowser(queue)));
            found.add(outcome(() -> session.createBrowser(queue, "= 1")));
            found.add(outcome(() -> session.createBrowser(null)));
            return found;
        });
        check("a browser of much", () -> {
            Session session = session();
            String[] texts = new String[1500];
            for (int number = 0; number < texts.length; number++) {
                texts[number] = "m" + number;
            }
            Session sender = started().createSession(true, Session.SESSION_TRANSACTED);
            send(sender, queue(sender), texts);
            sender.commit();
            List<String> found = shown(session.createBrowser(queue(session)));
            return found.size() > 300 && found.equals(Arrays.asList(texts).subList(0, found.size()));
        });
    }

    // -- temporary destinations -------------------------------------------------------------------------------------

    private void temporaries() {
        check("temporary destinations", () -> {
            ActiveMQConnection connection = started();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Session other = session();
            List<Object> found = new ArrayList<>();
            TemporaryQueue queue = session.createTemporaryQueue();
            TemporaryTopic topic = session.createTemporaryTopic();
            MessageConsumer consumer = session.createConsumer(queue);
            MessageConsumer listener = session.createConsumer(topic);
            send(other, Temporary.known(other, queue), "to the queue");
            send(other, Temporary.known(other, topic), "to the topic");
            found.add(texts(consumer, 1));
            found.add(texts(listener, 1));
            found.add(outcome(() -> other.createConsumer(queue)));
            found.add(outcome(queue::delete));
            consumer.close();
            found.add(outcome(queue::delete));
            found.add(outcome(() -> send(session, queue, "lost")));
            listener.close();
            topic.delete();
            found.add(outcome(() -> send(session, topic, "lost")));
            return found;
        });
        check("a temporary destination goes with its connection", () -> {
            ActiveMQConnection connection = started();
            TemporaryQueue queue = connection.createSession(false, Session.AUTO_ACKNOWLEDGE).createTemporaryQueue();
            Session other = session();
            send(other, Temporary.known(other, queue), "there");
            connection.close();
            return outcome(() -> send(other, Temporary.gone(other, queue), "lost"));
        });
        check("requestors", () -> {
            QueueConnection queues = started();
            QueueSession asking = queues.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = queue(asking);
            answering(queue);
            TopicConnection topics = started();
            TopicSession publishing = topics.createTopicSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = topic(publishing);
            answering(topic);
            List<Object> found = new ArrayList<>();
            QueueRequestor requestor = new QueueRequestor(asking, queue);
            for (int number = 0; number < 3; number++) {
                found.add(((TextMessage) requestor.request(asking.createTextMessage("q" + number))).getText());
            }
            found.add(((TextMessage) new TopicRequestor(publishing, topic).request(publishing.createTextMessage("t"))).getText());
            return found;
        });
    }

    private void answering(javax.jms.Destination destination) throws JMSException {
        Session session = session();
        session.createConsumer(destination).setMessageListener(request -> {
            try {
                send(session, Temporary.known(session, request.getJMSReplyTo()), "answer to " + ((TextMessage) request).getText());
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
    }

    // -- connections ------------------------------------------------------------------------------------------------

    private void connections() {
        check("client ids", () -> {
            List<Object> found = new ArrayList<>();
            ActiveMQConnection first = connection();
            first.setClientID(own(""));
            first.start();
            found.add(outcome(() -> {
                ActiveMQConnection second = connection();
                second.setClientID(own(""));
                second.start();
            }));
            found.add(outcome(() -> first.setClientID("other")));
            first.close();
            found.add(outcome(() -> {
                ActiveMQConnection third = connection();
                third.setClientID(own(""));
                third.start();
            }));
            ActiveMQConnection late = connection();
            late.createSession(false, Session.AUTO_ACKNOWLEDGE);
            found.add(outcome(() -> late.setClientID("late")));
            return found;
        });
        check("a connection that is not started delivers nothing", () -> {
            Connection connection = connection();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(session, queue(session), "1", "2");
            MessageConsumer consumer = session.createConsumer(queue(session));
            List<Object> found = new ArrayList<>();
            found.add(consumer.receive(SILENCE_MS) == null);
            connection.start();
            found.add(described(next(consumer)));
            connection.stop();
            found.add(consumer.receive(SILENCE_MS) == null);
            connection.start();
            found.add(described(next(consumer)));
            return found;
        });
        check("a connection that is closed", () -> {
            Connection connection = started();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(queue(session));
            Message message = session.createMessage();
            connection.close();
            connection.close();
            List<Object> found = new ArrayList<>();
            found.add(outcome(connection::start));
            found.add(outcome(() -> connection.createSession(false, Session.AUTO_ACKNOWLEDGE)));
            found.add(outcome(() -> producer.send(message)));
            found.add(outcome(() -> connection.setClientID("x")));
            return found;
        });
        check("a connection for each message", () -> {
            for (int number = 0; number < 20; number++) {
                ActiveMQConnection connection = started();
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                send(session, queue(session), "m" + number);
                connection.close();
            }
            Session session = session();
            return rest(session);
        });
        check("metadata", () -> {
            ActiveMQConnection connection = started();
            List<Object> found = new ArrayList<>();
            found.add(connection.getMetaData().getJMSVersion());
            found.add(Collections.list(connection.getMetaData().getJMSXPropertyNames()));
            found.add(connection.getBrokerName() != null); // which waits for the broker's information
            found.add(connection.getBrokerInfo().isFaultTolerantConfiguration());
            found.add(connection.getBrokerInfo().getBrokerURL().isEmpty());
            return found;
        });
    }

    // -- destinations -----------------------------------------------------------------------------------------------

    private void destinations() {
        check("composite destinations", () -> {
            Session session = session();
            send(session, session.createQueue(own(".a") + "," + own(".b") + ",topic://" + own(".t")), "to all");
            return Arrays.asList(texts(session.createConsumer(session.createQueue(own(".a"))), 1),
                texts(session.createConsumer(session.createQueue(own(".b"))), 1));
        });
        check("wildcards of queues", () -> {
            Session session = session();
            send(session, session.createQueue(own(".a")), "a");
            send(session, session.createQueue(own(".b")), "b");
            List<String> found = texts(session.createConsumer(session.createQueue(own(".*"))), 2);
            Collections.sort(found);
            return found;
        });
        check("virtual topics", () -> {
            Session session = session();
            Queue queue = session.createQueue("Consumer.A.VirtualTopic." + own(""));
            MessageConsumer consumer = session.createConsumer(queue);
            send(session, session.createTopic("VirtualTopic." + own("")), "copied");
            return texts(consumer, 1);
        });
        check("exclusive consumers", () -> {
            Session session = session();
            MessageConsumer first = session.createConsumer(session.createQueue(own("") + "?consumer.exclusive=true"));
            Session other = session();
            MessageConsumer second = other.createConsumer(session.createQueue(own("") + "?consumer.exclusive=true"));
            send(session, queue(session), "1", "2", "3");
            List<Object> found = new ArrayList<>(texts(first, 3));
            first.close();
            send(session, queue(session), "4");
            found.addAll(texts(second, 1));
            return found;
        });
        check("consumers by priority", () -> {
            Session session = session();
            MessageConsumer low = session.createConsumer(queue(session));
            Session other = session();
            MessageConsumer high = other.createConsumer(session.createQueue(own("") + "?consumer.priority=5"));
            send(session, queue(session), "1", "2", "3");
            return Arrays.asList(texts(high, 3), texts(low, 0));
        });
        check("message groups", () -> {
            Session session = session();
            Session second = session();
            MessageConsumer one = session.createConsumer(queue(session));
            MessageConsumer two = second.createConsumer(queue(second));
            MessageProducer producer = session.createProducer(queue(session));
            for (int number = 0; number < 6; number++) {
                TextMessage message = session.createTextMessage("m" + number);
                message.setStringProperty("JMSXGroupID", "g" + number % 2);
                producer.send(message);
            }
            List<Object> found = new ArrayList<>();
            for (List<Message> all : shared(6, one, two)) {
                List<Object> got = new ArrayList<>();
                for (Message m : all) {
                    got.add(((TextMessage) m).getText() + " " + properties(m));
                }
                found.add(got);
            }
            found.sort((a, b) -> a.toString().compareTo(b.toString()));
            return found;
        });
        check("names that are none", () -> {
            Session session = session();
            List<Object> found = new ArrayList<>();
            found.add(outcome(() -> session.createProducer(session.createQueue(""))));
            found.add(outcome(() -> session.createConsumer(session.createQueue(""))));
            found.add(outcome(() -> session.createConsumer(null)));
            found.add(outcome(() -> session.createProducer(null).send(session.createMessage())));
            found.add(outcome(() -> send(session, session.createQueue(own(".>")), "to a wildcard")));
            return found;
        });
        check("large messages", () -> {
            Session session = session();
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(new byte[3_000_000]);
            session.createProducer(queue(session)).send(message);
            return ((BytesMessage) next(session.createConsumer(queue(session)))).getBodyLength();
        });
    }
}
