import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ScheduledMessage;

/** More of what programs of `FailoverProgram` do: what is due later, what expires, and threads that are interrupted. */
final class FailoverRoles {
    /** How much earlier than its time a message may be there: clocks are read in whole milliseconds. */
    private static final long EARLY_MS = 20;
    /** How long a message may wait at a client after it has looked whether it has expired. */
    private static final long LATE_MS = 1000;

    private static final String CRON = "every minute";

    private final FailoverProgram program;
    private final Ledger ledger;
    private final Faults faults;
    private final Random chance;

    FailoverRoles(FailoverProgram program) {
        this.program = program;
        this.ledger = program.ledger;
        this.faults = program.faults;
        this.chance = program.chance;
    }

    // -- scheduled messages -------------------------------------------------------------------------------------------

    /** A message that is to be sent later, perhaps several times. */
    private static final class Job {
        final int times;
        final long delay_ms;
        final long period_ms;
        final long asked_ms = System.currentTimeMillis();
        volatile long known_ms;
        final Set<String> ids = ConcurrentHashMap.newKeySet();

        Job(Random own) {
            boolean isRepeated = own.nextInt(3) == 0;
            this.times = isRepeated ? 2 + own.nextInt(3) : 1;
            this.delay_ms = own.nextInt(4000);
            this.period_ms = isRepeated ? 1000 + own.nextInt(1000) : 0;
        }

        /** When the last one is due, at the latest. */
        long end_ms() {
            return known_ms + delay_ms + (times - 1) * period_ms;
        }
    }

    /** Messages that are due before, during and after faults; some are taken back, some are sent in transactions. */
    void scheduled() throws Exception {
        boolean isTransacted = program.maybe(0.3);
        ActiveMQConnection connection = program.connection(null);
        Session session = connection.createSession(isTransacted, isTransacted ? 0 : Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(program.name));
        Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer management = other.createProducer(other.createTopic(ScheduledMessage.AMQ_SCHEDULER_MANAGEMENT_DESTINATION));
        Map<String, Job> jobs = new ConcurrentHashMap<>();
        Set<String> everyMinute = ConcurrentHashMap.newKeySet();
        boolean[] isOver = {false};
        Thread taking = program.thread("takes", () -> take(jobs, everyMinute, isOver));
        long asked_ms = System.currentTimeMillis();
        String cron = sendEveryMinute(other);
        long known_ms = System.currentTimeMillis();
        int number = 0;
        while (!program.isFinishing) {
            program.doing = "schedules " + number;
            List<String> batch = new ArrayList<>();
            for (int more = isTransacted ? chance.nextInt(4) : 0; more >= 0; more--) {
                String text = "s." + number++;
                Job job = new Job(chance);
                jobs.put(text, job);
                batch.add(text);
                ledger.note(text, "is to be sent " + job.times + " times from in " + job.delay_ms + " ms on, every " + job.period_ms + " ms");
                producer.send(message(session, text, job.delay_ms, job.period_ms, job.times));
            }
            boolean isRolledBack = isTransacted && chance.nextInt(5) == 0;
            if (isRolledBack) {
                ledger.never(batch);
                session.rollback();
            } else {
                commit(session, isTransacted, batch);
            }
            batch.forEach(text -> jobs.get(text).known_ms = System.currentTimeMillis());
            if (chance.nextInt(4) == 0) {
                takeBack(other, management, number++);
            }
            program.stepped();
            Thread.sleep(chance.nextInt(60));
        }
        program.doing = "waits for what is due";
        long end = System.currentTimeMillis() + FailoverProgram.PATIENCE_MS;
        while (ledger.missing() > 0 && System.currentTimeMillis() < end) {
            Thread.sleep(50);
        }
        long last_ms = jobs.values().stream().mapToLong(Job::end_ms).max().orElse(0) + 3000; // and none that was taken back
        for (long left = last_ms - System.currentTimeMillis(); left > 0; left = last_ms - System.currentTimeMillis()) {
            Thread.sleep(left);
        }
        long least = minutes(known_ms, System.currentTimeMillis() - FailoverProgram.BUSY_MS);
        management.send(removal(other, cron));
        long most = minutes(asked_ms, System.currentTimeMillis());
        Thread.sleep(FailoverProgram.IDLE_MS);
        synchronized (isOver) {
            isOver[0] = true;
        }
        taking.join();
        connection.close();
        List<String> dead = program.dead();
        ledger.conclude(dead);
        int found = everyMinute.size() + Collections.frequency(dead, CRON);
        if (found < least || everyMinute.size() > most) {
            ledger.wrong(found + " came in " + least + " to " + most + " minutes", CRON);
        }
        jobs.forEach((text, job) -> {
            int there = job.ids.size() + Collections.frequency(dead, text);
            if (there > 0 && there < job.times) {
                ledger.count("missed");
                if (!faults.between(job.asked_ms, job.end_ms())) {
                    ledger.wrong("of " + job.times + " times only " + there + ", and there was no fault", text);
                }
            }
            if (job.ids.size() > job.times) {
                ledger.wrong("instead of " + job.times + " times " + job.ids.size(), text);
            }
        });
    }

    /** A message that is sent whenever a minute begins. The id of its job. */
    private String sendEveryMinute(Session session) throws JMSException {
        TextMessage message = session.createTextMessage(CRON);
        message.setStringProperty(ScheduledMessage.AMQ_SCHEDULED_CRON, "* * * * *");
        MessageProducer producer = session.createProducer(session.createQueue(program.name));
        producer.send(message);
        producer.close();
        ledger.perhaps(Arrays.asList(CRON)); // it may be over before a minute begins
        return message.getJMSMessageID();
    }

    /** How many minutes begin between two times. */
    private static long minutes(long from_ms, long to_ms) {
        return Math.max(0, to_ms / 60_000 - from_ms / 60_000);
    }

    private void commit(Session session, boolean isTransacted, List<String> batch) throws JMSException {
        try {
            if (isTransacted) {
                session.commit();
            }
            ledger.stored(batch);
        } catch (javax.jms.TransactionRolledBackException | javax.jms.IllegalStateException told) {
            ledger.perhaps(batch);
            ledger.count("rolled back");
            session.rollback();
        }
    }

    private static TextMessage message(Session session, String text, long delay_ms, long period_ms, int times) throws JMSException {
        TextMessage message = session.createTextMessage(text);
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, delay_ms);
        if (times > 1) {
            message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_PERIOD, period_ms);
            message.setIntProperty(ScheduledMessage.AMQ_SCHEDULED_REPEAT, times - 1);
        }
        return message;
    }

    /** A message that is scheduled, and taken back before its time. */
    private void takeBack(Session session, MessageProducer management, int number) throws JMSException {
        String text = "back." + number;
        TextMessage message = message(session, text, 8000, 0, 1);
        long since = System.currentTimeMillis();
        MessageProducer producer = session.createProducer(session.createQueue(program.name));
        producer.send(message);
        producer.close();
        management.send(removal(session, message.getJMSMessageID()));
        if (System.currentTimeMillis() < since + 7000) {
            ledger.never(Arrays.asList(text));
        } else {
            ledger.perhaps(Arrays.asList(text));
        }
    }

    private static Message removal(Session session, String job) throws JMSException {
        Message removal = session.createMessage();
        removal.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION, ScheduledMessage.AMQ_SCHEDULER_ACTION_REMOVE);
        removal.setStringProperty(ScheduledMessage.AMQ_SCHEDULED_ID, job);
        return removal;
    }

    private void take(Map<String, Job> jobs, Set<String> everyMinute, boolean[] isOver) throws Exception {
        ActiveMQConnection connection = program.connection(null);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(program.name));
        while (true) {
            Message message = consumer.receive(FailoverProgram.IDLE_MS);
            if (message == null) {
                synchronized (isOver) {
                    if (isOver[0]) {
                        break;
                    }
                }
                continue;
            }
            String text = ((TextMessage) message).getText();
            ledger.received(text, message, "it", false);
            if (text.equals(CRON)) {
                everyMinute.add(message.getJMSMessageID());
            }
            Job job = jobs.get(text);
            if (job != null && job.ids.add(message.getJMSMessageID())) {
                long due_ms = job.asked_ms + job.delay_ms + (job.ids.size() - 1) * job.period_ms;
                if (System.currentTimeMillis() < due_ms - EARLY_MS) {
                    ledger.wrong("it comes " + (due_ms - System.currentTimeMillis()) + " ms before its time", text);
                }
            }
        }
        connection.close();
    }

    // -- messages that expire -------------------------------------------------------------------------------------------

    /**
     * Of messages that live briefly each is received in time, or a dead letter. A Java broker that fails has perhaps stored a dead letter
     * and not yet removed its message, which the next broker makes a dead letter again (test_killed_in_between.py).
     */
    void brief() throws Exception {
        boolean isTopic = !program.isMixed && program.maybe(0.4); // with a durable subscription
        ActiveMQConnection connection = program.connection(null);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(isTopic ? session.createTopic(program.name) : session.createQueue(program.name));
        if (isTopic) {
            ActiveMQConnection first = program.connection(program.name + ".e");
            consumer(first.createSession(false, Session.AUTO_ACKNOWLEDGE), true);
            first.close();
        }
        int mode = chance.nextInt(3) == 0 ? Session.SESSION_TRANSACTED : chance.nextBoolean() ? Session.CLIENT_ACKNOWLEDGE : Session.AUTO_ACKNOWLEDGE;
        Random own = new Random(chance.nextLong());
        boolean[] isOver = {false};
        Map<String, Long> expirations = new HashMap<>();
        Thread taking = program.thread("takes", () -> takeInTime(own, mode, isTopic, isOver));
        for (int number = 0; !program.isFinishing; number++) {
            program.doing = "sends " + number;
            String text = "e." + number;
            producer.setTimeToLive(chance.nextInt(4) == 0 ? 0 : 100 + chance.nextInt(2500));
            ledger.note(text, "is sent, for " + producer.getTimeToLive() + " ms");
            TextMessage message = session.createTextMessage(text);
            producer.send(message);
            expirations.put(text, producer.getTimeToLive() == 0 ? Long.MAX_VALUE : message.getJMSExpiration());
            ledger.stored(Arrays.asList(text));
            program.stepped();
            Thread.sleep(chance.nextInt(12));
        }
        program.doing = "waits until what is left has expired";
        Thread.sleep(3000);
        synchronized (isOver) {
            isOver[0] = true;
        }
        taking.join();
        connection.close();
        ActiveMQConnection last = program.connection(isTopic ? program.name + ".e" : null, "jms.prefetchPolicy.all=100");
        MessageConsumer consumer = consumer(last.createSession(false, Session.AUTO_ACKNOWLEDGE), isTopic);
        for (Message message = consumer.receive(2000); message != null; message = consumer.receive(2000)) {
            judgeTime(message, "the last one");
        }
        last.close();
        List<String> dead = program.dead();
        ledger.conclude(dead);
        Map<String, Integer> times = new HashMap<>();
        dead.forEach(text -> times.merge(text, 1, Integer::sum));
        times.forEach((text, count) -> {
            if (count > 1 + program.faults.endsOfJava(expirations.get(text))) {
                ledger.wrong("it is a dead letter " + count + " times", text);
            }
        });
    }

    private MessageConsumer consumer(Session session, boolean isTopic) throws JMSException {
        return isTopic
            ? session.createDurableSubscriber(session.createTopic(program.name), "s")
            : session.createConsumer(session.createQueue(program.name));
    }

    private void judgeTime(Message message, String by) throws JMSException {
        String text = ((TextMessage) message).getText();
        ledger.received(text, message, by, false);
        long late_ms = System.currentTimeMillis() - message.getJMSExpiration();
        // In a transaction, a client that has looked waits for a broker before it gives the message.
        if (message.getJMSExpiration() != 0 && late_ms > LATE_MS && !faults.since(message.getJMSExpiration())) {
            ledger.wrong("it comes " + late_ms + " ms after it has expired", text);
        }
    }

    private void takeInTime(Random own, int mode, boolean isTopic, boolean[] isOver) throws Exception {
        ActiveMQConnection connection = program.prefetching(isTopic ? program.name + ".e" : null);
        Session session = connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
        MessageConsumer consumer = consumer(session, isTopic);
        ledger.count("mode " + mode + (isTopic ? " of a topic" : ""));
        List<String> batch = new ArrayList<>();
        while (true) {
            Message message = consumer.receive(FailoverProgram.IDLE_MS);
            if (message != null) {
                judgeTime(message, "it");
                batch.add(((TextMessage) message).getText());
            }
            if (message == null || batch.size() > own.nextInt(6)) {
                try {
                    if (mode == Session.SESSION_TRANSACTED) {
                        session.commit();
                    } else if (mode == Session.CLIENT_ACKNOWLEDGE && message != null) {
                        message.acknowledge();
                    }
                    if (message != null || mode == Session.SESSION_TRANSACTED) {
                        ledger.settled(batch, "it");
                    }
                } catch (JMSException told) {
                    ledger.count("receipts rolled back");
                    session.rollback();
                }
                batch.clear();
            }
            if (message == null) {
                synchronized (isOver) {
                    if (isOver[0]) {
                        break;
                    }
                }
            }
            Thread.sleep(own.nextInt(own.nextInt(20) == 0 ? 400 : 15));
        }
        connection.close();
    }

    // -- threads that are interrupted -------------------------------------------------------------------------------------

    /** Sends in transactions and receives in others, in a thread that is interrupted now and then, whatever it does. */
    void impatient() throws Exception {
        Thread sending = program.thread("sends", this::sendInterrupted);
        Thread taking = program.thread("takes", this::takeInterrupted);
        while (!program.isFinishing) {
            Thread.sleep(100 + chance.nextInt(1500));
            (chance.nextBoolean() ? sending : taking).interrupt();
            ledger.count("interrupted");
        }
        sending.join();
        taking.join();
        Thread.interrupted();
        ActiveMQConnection last = program.connection(null, "jms.prefetchPolicy.all=100");
        Session session = last.createSession(false, Session.AUTO_ACKNOWLEDGE);
        program.drain(ledger, session.createConsumer(session.createQueue(program.name)), 2000, false);
        last.close();
        ledger.conclude(program.dead());
    }

    private int one(int... of) {
        return of[chance.nextInt(of.length)];
    }

    private void pause(int most_ms) {
        try {
            Thread.sleep(chance.nextInt(most_ms));
        } catch (InterruptedException interrupted) {
            ledger.count("interrupted in between");
        }
    }

    /** Work on a connection that is opened again when it has failed. */
    private void repeat(FailoverProgram.Work work) throws Exception {
        while (!program.isFinishing) {
            try {
                work.run();
            } catch (JMSException | RuntimeException failed) {
                Thread.interrupted();
                ledger.count("failed: " + failed.getClass().getSimpleName());
            }
        }
    }

    private static void close(ActiveMQConnection connection) {
        Thread.interrupted();
        try {
            connection.close();
        } catch (JMSException failed) {
            Thread.interrupted();
        }
    }

    private void sendInterrupted() throws Exception {
        int[] number = {0};
        repeat(() -> {
            ActiveMQConnection connection = program.connection(null, "timeout=" + one(0, 0, 300, 1000), "jms.sendTimeout=" + one(0, 0, 300, 1000));
            try {
                Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
                MessageProducer producer = session.createProducer(session.createQueue(program.name));
                while (!program.isFinishing) {
                    program.doing = "sends " + number[0];
                    sendOne(session, producer, number);
                    program.stepped();
                    pause(15);
                }
            } finally {
                close(connection);
            }
        });
    }

    private void sendOne(Session session, MessageProducer producer, int[] number) throws JMSException {
        List<String> batch = new ArrayList<>();
        boolean isAsked = false;
        try {
            for (int more = chance.nextInt(4); more >= 0; more--) {
                String text = "i." + number[0]++;
                batch.add(text);
                ledger.note(text, "is sent");
                producer.send(session.createTextMessage(text));
            }
            isAsked = true;
            session.commit();
            ledger.stored(batch);
        } catch (JMSException | RuntimeException failed) {
            Thread.interrupted();
            ledger.count(isAsked ? "commit failed" : "send failed");
            if (isAsked) {
                ledger.perhaps(batch);
            } else {
                ledger.never(batch);
            }
            session.rollback();
        }
    }

    private void takeInterrupted() throws Exception {
        repeat(() -> {
            ActiveMQConnection connection = program.prefetching(null);
            try {
                Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
                MessageConsumer consumer = session.createConsumer(session.createQueue(program.name));
                while (!program.isFinishing) {
                    takeOne(session, consumer);
                    pause(15);
                }
            } finally {
                close(connection);
            }
        });
    }

    private void takeOne(Session session, MessageConsumer consumer) throws JMSException {
        Set<String> batch = new HashSet<>();
        try {
            for (int more = chance.nextInt(4); more >= 0; more--) {
                Message message = consumer.receive(FailoverProgram.IDLE_MS);
                if (message != null) {
                    String text = ((TextMessage) message).getText();
                    batch.add(text);
                    ledger.received(text, message, "it", false);
                }
            }
            session.commit();
            ledger.settled(batch, "it");
        } catch (JMSException | RuntimeException failed) {
            Thread.interrupted();
            ledger.count("receipts rolled back");
            batch.forEach(text -> ledger.note(text, "perhaps acknowledged: " + failed));
            session.rollback();
        }
    }
}
