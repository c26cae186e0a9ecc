// Writes a KahaDB directory with a real broker, or tells what the real store finds in one.
//   java KahaDb write DIR OPENWIRE_VERSION SEED STEPS stop|kill   random work on queues and durable topics, with restarts
//   java KahaDb read DIR OPENWIRE_VERSION                          prints a line of JSON
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.ActiveMQTopic;
import org.apache.activemq.command.Message;
import org.apache.activemq.command.MessageId;
import org.apache.activemq.command.SubscriptionInfo;
import org.apache.activemq.store.MessageRecoveryListener;
import org.apache.activemq.store.TopicMessageStore;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;

public class KahaDb {
    private static final int RECEIVE_MS = 200;
    private static int openWireVersion = 11;

    private static BrokerService broker(File directory) throws Exception {
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(directory);
        store.setJournalMaxFileLength(32 * 1024);
        store.setCleanupInterval(300);
        store.setCheckpointInterval(300);
        store.setCompactAcksAfterNoGC(1);
        store.setCompactAcksIgnoresStoreGrowth(true);
        PolicyEntry policy = new PolicyEntry();
        policy.setQueue("PRIO.>");
        policy.setPrioritizedMessages(true);
        PolicyMap policies = new PolicyMap();
        policies.setPolicyEntries(List.of(policy));
        BrokerService broker = new BrokerService();
        broker.setBrokerName("kahadb");
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        broker.setAdvisorySupport(false);
        broker.setStoreOpenWireVersion(openWireVersion);
        broker.setDestinationPolicy(policies);
        broker.setPersistenceAdapter(store);
        return broker;
    }

    private static void write(File directory, long seed, int steps, boolean stops) throws Exception {
        Random chance = new Random(seed);
        BrokerService broker = null;
        for (int step = 0; step < steps; step++) {
            if (broker == null) {
                broker = broker(directory);
                broker.start();
                broker.waitUntilStarted();
            }
            work(broker, chance, step);
            if (step % 12 == 11) {
                Thread.sleep(700);
                broker.stop();
                broker.waitUntilStopped();
                broker = null;
            }
        }
        if (broker != null && stops) {
            broker.stop();
            broker.waitUntilStopped();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void work(BrokerService broker, Random chance, int step) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory("vm://kahadb?create=false");
        factory.setUseAsyncSend(chance.nextBoolean());
        Connection connection = factory.createConnection();
        String client = "client-" + chance.nextInt(3);
        connection.setClientID(client);
        connection.start();
        ActiveMQQueue queue = new ActiveMQQueue(chance.nextInt(3) == 0 ? "PRIO.A" : "QUEUE." + chance.nextInt(2));
        ActiveMQTopic topic = new ActiveMQTopic("TOPIC." + chance.nextInt(2));
        String name = "sub-" + chance.nextInt(2) + "-" + topic.getPhysicalName();
        boolean transacted = chance.nextInt(3) == 0;
        Session session = connection.createSession(transacted, transacted ? Session.SESSION_TRANSACTED : Session.AUTO_ACKNOWLEDGE);
        switch (chance.nextInt(8)) {
            case 0: case 1: case 2: send(session, queue, chance); break;
            case 3: receive(session.createConsumer(queue), chance.nextInt(40)); break;
            case 4: send(session, topic, chance); break;
            case 5: case 6:
                String selector = chance.nextInt(3) == 0 ? "n > " + chance.nextInt(10) : null;
                boolean noLocal = chance.nextInt(5) == 0;
                receive(session.createDurableSubscriber(topic, name, selector, noLocal), chance.nextInt(30));
                break;
            default:
                try {
                    session.unsubscribe(name);
                } catch (JMSException unknown) {
                    // there is no such subscription
                }
                if (step % 3 == 0) {
                    broker.getBroker().removeDestination(broker.getAdminConnectionContext(), new ActiveMQQueue("QUEUE.1"), 0);
                }
        }
        if (transacted) {
            if (chance.nextInt(3) == 0) {
                session.rollback();
            } else {
                session.commit();
            }
        }
        connection.close();
    }

    private static void send(Session session, ActiveMQDestination destination, Random chance) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        int count = 5 + chance.nextInt(30);
        for (int i = 0; i < count; i++) {
            javax.jms.TextMessage message = session.createTextMessage("x".repeat(chance.nextInt(600)));
            message.setIntProperty("n", i);
            producer.send(message, DeliveryMode.PERSISTENT, chance.nextInt(10), 0);
        }
    }

    private static void receive(MessageConsumer consumer, int count) throws JMSException {
        for (int i = 0; i < count && consumer.receive(RECEIVE_MS) != null; i++) {
            // acknowledged by the session
        }
    }

    private static void read(File directory) throws Exception {
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        BrokerService broker = new BrokerService();
        broker.setBrokerName("kahadb");
        broker.setUseJmx(false);
        broker.setStoreOpenWireVersion(openWireVersion);
        store.setDirectory(directory);
        store.setBrokerService(broker);
        store.setCleanupInterval(0);
        store.setCheckpointInterval(0);
        store.start();
        Map<String, Object> found = new TreeMap<>();
        Set<ActiveMQDestination> destinations = store.getDestinations();
        for (ActiveMQDestination destination : destinations) {
            if (destination.isTopic()) {
                TopicMessageStore topic = store.createTopicMessageStore((ActiveMQTopic) destination);
                topic.start();
                Map<String, Object> subscriptions = new TreeMap<>();
                for (SubscriptionInfo info : topic.getAllSubscriptions()) {
                    Ids ids = new Ids();
                    topic.recoverSubscription(info.getClientId(), info.getSubscriptionName(), ids);
                    subscriptions.put(info.getClientId() + ":" + info.getSubscriptionName(), ids.found);
                }
                found.put(destination.getQualifiedName(), subscriptions);
            } else {
                org.apache.activemq.store.MessageStore queue = store.createQueueMessageStore((ActiveMQQueue) destination);
                queue.start();
                Ids ids = new Ids();
                queue.recover(ids);
                found.put(destination.getQualifiedName(), ids.found);
            }
        }
        System.out.println(Json.write(found));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static class Ids implements MessageRecoveryListener {
        private final List<Object> found = new ArrayList<>();

        @Override
        public boolean recoverMessage(Message message) {
            found.add(message.getMessageId().toString());
            return true;
        }

        @Override
        public boolean recoverMessageReference(MessageId id) {
            found.add(id.toString());
            return true;
        }

        @Override
        public boolean hasSpace() {
            return true;
        }

        @Override
        public boolean isDuplicate(MessageId id) {
            return false;
        }
    }

    public static void main(String[] args) throws Exception {
        File directory = new File(args[1]);
        openWireVersion = Integer.parseInt(args[2]);
        if (args[0].equals("write")) {
            write(directory, Long.parseLong(args[3]), Integer.parseInt(args[4]), args[5].equals("stop"));
        } else {
            read(directory);
        }
    }
}
