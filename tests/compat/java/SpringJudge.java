import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageListener;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.connection.JmsTransactionManager;
import org.springframework.jms.connection.SingleConnectionFactory;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.listener.AbstractMessageListenerContainer;
import org.springframework.jms.listener.DefaultMessageListenerContainer;
import org.springframework.jms.listener.SessionAwareMessageListener;
import org.springframework.jms.listener.SimpleMessageListenerContainer;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Spring's JMS with one broker: templates, cached connections, listener containers, transactions. Prints {name, result}.
 *
 * <pre>
 *   SpringJudge BROKER_URL [TITLE...]
 * </pre>
 */
public final class SpringJudge extends Judge {
    private SpringJudge(String... arguments) {
        super(arguments);
    }

    public static void main(String[] arguments) {
        SpringJudge judge = new SpringJudge(arguments);
        judge.templates();
        judge.containers();
        judge.transactions();
        judge.durable();
    }

    /** What Spring does with a connection factory that keeps sessions, producers and consumers. */
    private interface Use {
        Object of(CachingConnectionFactory factory, JmsTemplate template) throws Exception;
    }

    private void cached(String title, Use use) {
        check(title, () -> {
            CachingConnectionFactory factory =
                    new CachingConnectionFactory(factory("jms.redeliveryPolicy.initialRedeliveryDelay=10", "jms.redeliveryPolicy.redeliveryDelay=10"));
            factory.setSessionCacheSize(5);
            try {
                JmsTemplate template = new JmsTemplate(factory);
                template.setDefaultDestinationName(own(""));
                template.setReceiveTimeout(WAIT_MS);
                return use.of(factory, template);
            } finally {
                factory.destroy();
            }
        });
    }

    private void templates() {
        cached("templates convert what they send and receive", (factory, template) -> {
            List<Object> found = new ArrayList<>();
            template.convertAndSend("text");
            found.add(template.receiveAndConvert());
            Map<String, Object> map = new TreeMap<>();
            map.put("number", 1);
            template.convertAndSend(map, message -> {
                message.setStringProperty("property", "value");
                message.setJMSCorrelationID("correlated");
                return message;
            });
            Message message = template.receive();
            found.add(Arrays.asList(message.getClass().getSimpleName(), message.getStringProperty("property"), message.getJMSCorrelationID()));
            template.convertAndSend(new ArrayList<>(Arrays.asList("list", 2)));
            found.add(String.valueOf(template.receiveAndConvert()));
            template.convertAndSend(new byte[] {1, 2, 3});
            found.add(Arrays.toString((byte[]) template.receiveAndConvert()));
            return found;
        });
        cached("templates send with a priority and a time to live, and select", (factory, template) -> {
            template.setExplicitQosEnabled(true);
            template.setPriority(9);
            template.setTimeToLive(60_000);
            template.convertAndSend("urgent");
            Message message = template.receiveSelected("JMSPriority = 9");
            return Arrays.asList(((TextMessage) message).getText(), message.getJMSExpiration() > message.getJMSTimestamp());
        });
        cached("templates browse", (factory, template) -> {
            for (String text : new String[] {"one", "two", "three"}) {
                template.convertAndSend(text);
            }
            return template.browse((session, browser) -> Collections.list(browser.getEnumeration()).size());
        });
    }

    private void containers() {
        cached("a listener answers what templates ask", (factory, template) -> {
            SessionAwareMessageListener<TextMessage> answering = (message, session) -> {
                MessageProducer producer = session.createProducer(message.getJMSReplyTo());
                producer.send(session.createTextMessage(message.getText() + " answered"));
                producer.close();
            };
            AbstractMessageListenerContainer container = started(new DefaultMessageListenerContainer(), factory, "", answering);
            List<String> answers = new ArrayList<>();
            for (int number = 0; number < 5; number++) {
                String text = String.valueOf(number);
                answers.add(((TextMessage) template.sendAndReceive(session -> session.createTextMessage(text))).getText());
            }
            container.shutdown();
            return answers;
        });
        cached("listeners that fail get it again, and at last it is a dead letter", (factory, template) -> {
            DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
            container.setSessionTransacted(true);
            container.setConcurrentConsumers(2);
            container.setMaxConcurrentConsumers(4);
            container.setErrorHandler(error -> {});
            Told told = new Told();
            MessageListener failing = message -> {
                if (text(message).equals("7")) {
                    throw new IllegalStateException("never");
                }
                told.add(text(message));
            };
            started(container, factory, "", failing);
            for (int number = 0; number < 20; number++) {
                template.convertAndSend((Object) String.valueOf(number), message -> {
                    message.setStringProperty("check", own(""));
                    return message;
                });
            }
            List<Object> heard = told.all(19);
            Message dead = template.receiveSelected("ActiveMQ.DLQ", "check = '" + own("") + "'");
            container.shutdown();
            return Arrays.asList(heard.size(), new TreeSet<>(heard).size(), text(dead));
        });
        cached("a simple container with options in the name of its queue", (factory, template) -> {
            SimpleMessageListenerContainer container = new SimpleMessageListenerContainer();
            container.setSessionAcknowledgeMode(Session.CLIENT_ACKNOWLEDGE);
            container.setConcurrentConsumers(3);
            Told told = new Told();
            MessageListener listener = message -> told.add(text(message));
            started(container, factory, "?consumer.prefetchSize=1&consumer.exclusive=true", listener);
            List<String> sent = new ArrayList<>();
            for (int number = 0; number < 20; number++) {
                sent.add(String.valueOf(number));
                template.convertAndSend(own(""), String.valueOf(number));
            }
            List<Object> heard = told.all(20);
            container.shutdown();
            return heard.equals(sent);
        });
    }

    private void transactions() {
        cached("a transaction manager commits and rolls back", (factory, template) -> {
            TransactionTemplate transaction = new TransactionTemplate(new JmsTransactionManager(factory));
            outcome(() -> transaction.execute(status -> {
                template.convertAndSend("rolled back");
                throw new IllegalStateException("on purpose");
            }));
            transaction.execute(status -> {
                template.convertAndSend("committed");
                return null;
            });
            String received = transaction.execute(status -> {
                String text = (String) template.receiveAndConvert();
                status.setRollbackOnly();
                return text;
            });
            Message again = transaction.execute(status -> template.receive());
            return Arrays.asList(received, described(again));
        });
    }

    private void durable() {
        cached("a durable listener comes again", (factory, template) -> {
            template.setPubSubDomain(true);
            Told told = new Told();
            for (int visit = 0; visit < 2; visit++) {
                SingleConnectionFactory own = new SingleConnectionFactory(factory());
                own.setClientId(own(".client"));
                DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
                container.setPubSubDomain(true);
                container.setSubscriptionDurable(true);
                container.setDurableSubscriptionName("durable");
                container.setSessionTransacted(true);
                MessageListener listener = message -> told.add(text(message));
                started(container, own, "", listener);
                untilRegistered(container);
                if (visit == 1) {
                    told.all(2);
                }
                container.shutdown();
                if (visit == 1) {
                    Connection connection = own.createConnection();
                    connection.createSession(false, Session.AUTO_ACKNOWLEDGE).unsubscribe("durable");
                }
                own.destroy();
                if (visit == 0) {
                    template.convertAndSend("one");
                    template.convertAndSend("two");
                }
            }
            return told.all(2);
        });
    }

    private <C extends AbstractMessageListenerContainer> C started(C container, javax.jms.ConnectionFactory factory, String options, Object listener) {
        if (container instanceof DefaultMessageListenerContainer) {
            ((DefaultMessageListenerContainer) container).setReceiveTimeout(100); // that is how long it takes to end
        }
        container.setConnectionFactory(factory);
        container.setDestinationName(own(options));
        container.setMessageListener(listener);
        container.afterPropertiesSet();
        container.start();
        return container;
    }

    private static void untilRegistered(DefaultMessageListenerContainer container) throws InterruptedException {
        for (long end = System.currentTimeMillis() + WAIT_MS; !container.isRegisteredWithDestination(); Thread.sleep(5)) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("the listener never began");
            }
        }
    }

    private static String text(Message message) {
        try {
            return ((TextMessage) message).getText();
        } catch (JMSException error) {
            throw new IllegalStateException(error);
        }
    }
}
