import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.JMSException;
import javax.jms.Message;

/** What a program has sent and received, by the texts of its messages, and what of that is not as it has to be. */
final class Ledger {
    /** What a sender knows about a message. */
    private enum Fate {
        STORED, PERHAPS, NEVER
    }

    private final Faults faults;
    private final Map<String, Fate> sent = new LinkedHashMap<>();
    /** When their sender heard that they are stored, or that nobody knows. */
    private final Map<String, Long> answered = new HashMap<>();
    private final Map<String, Long> settled = new HashMap<>();
    private final Map<String, Integer> received = new HashMap<>();
    private final List<List<String>> whole = new ArrayList<>();
    /** Branches that are committed: when each began, and when its sender heard that it is. */
    private final List<long[]> branches = new ArrayList<>();
    private final Map<String, Integer> latest = new HashMap<>();
    private final Map<String, Integer> counts = new TreeMap<>();
    private final Map<String, List<String>> history = new HashMap<>();
    /** Where these are notes of who receives, those of who sends. */
    private final Map<String, List<String>> sending = new HashMap<>();
    private final List<String> wrong = new ArrayList<>();
    private long progress_ms = System.currentTimeMillis();

    Ledger(Faults faults) {
        this.faults = faults;
    }

    /** Something has become of a message, which is told if something is wrong with it. */
    synchronized void note(String text, String what) {
        history.computeIfAbsent(text, ignored -> new ArrayList<>()).add(faults.now() + " " + what);
    }

    synchronized void stored(Collection<String> texts) {
        texts.forEach(text -> sent.put(text, Fate.STORED));
        texts.forEach(text -> note(text, "stored"));
        texts.forEach(text -> answered.put(text, System.currentTimeMillis()));
        progress_ms = System.currentTimeMillis();
    }

    /** Whether these were stored is not known; all were, or none. */
    synchronized void perhaps(Collection<String> texts) {
        texts.forEach(text -> sent.put(text, Fate.PERHAPS));
        texts.forEach(text -> note(text, "perhaps stored"));
        texts.forEach(text -> answered.put(text, System.currentTimeMillis()));
        whole.add(new ArrayList<>(texts));
        count("perhaps");
    }

    /** A branch is committed that was begun at a time, and prepared. */
    synchronized void committed(long since_ms) {
        branches.add(new long[] {since_ms, System.currentTimeMillis()});
    }

    synchronized void never(Collection<String> texts) {
        texts.forEach(text -> sent.put(text, Fate.NEVER));
        texts.forEach(text -> note(text, "given up"));
    }

    /**
     * A program has been given a message.
     *
     * @param by who was given it
     * @param isOrdered whether it has to come in the order in which it was sent
     */
    synchronized void received(String text, Message message, String by, boolean isOrdered) throws JMSException {
        progress_ms = System.currentTimeMillis();
        int count = message.getIntProperty("JMSXDeliveryCount");
        note(text, by + " is given " + message.getJMSMessageID() + ", for the " + count + ". time as it says");
        int times = received.merge(text, 1, Integer::sum);
        Long before = settled.get(text);
        if (times > 1) {
            count(count > 1 ? "again" : "again, not marked");
        }
        if (before != null) {
            count("again although acknowledged");
            if (!faults.since(before)) {
                wrong("acknowledged, and there was no fault, but it comes again", text);
            }
        }
        if (isOrdered && times == 1) {
            int dot = text.lastIndexOf('.');
            int number = Integer.parseInt(text.substring(dot + 1));
            // What waits for the consumer that has its group is overtaken by other groups.
            Integer last = latest.put(by + " " + message.getStringProperty("JMSXGroupID") + " " + text.substring(0, dot), number);
            if (last != null && last > number) {
                count("out of order");
                if (!faults.since(System.currentTimeMillis() - 1000)) {
                    wrong("it comes after number " + last, text);
                }
            }
        }
    }

    /** A program is done with messages that it was given. */
    synchronized void settled(Collection<String> texts, String by) {
        texts.forEach(text -> settled.put(text, System.currentTimeMillis()));
        texts.forEach(text -> note(text, by + " has acknowledged it"));
    }

    synchronized void count(String what) {
        counts.merge(what, 1, Integer::sum);
    }

    synchronized void count(String what, int more) {
        counts.merge(what, more, Integer::sum);
    }

    /** What was sent is known to each subscriber. */
    synchronized void copyTo(Ledger subscriber) {
        synchronized (subscriber) {
            subscriber.sent.clear();
            subscriber.sent.putAll(sent);
            subscriber.answered.clear();
            subscriber.answered.putAll(answered);
            subscriber.whole.clear();
            subscriber.whole.addAll(whole);
            subscriber.branches.clear();
            subscriber.branches.addAll(branches);
            subscriber.sending.clear();
            subscriber.sending.putAll(history);
        }
    }

    synchronized void wrong(String what) {
        wrong.add(faults.now() + " " + what);
    }

    /** Likewise, of a message. */
    synchronized void wrong(String what, String text) {
        List<String> told = new ArrayList<>(sending.getOrDefault(text, Collections.emptyList()));
        told.addAll(history.getOrDefault(text, Collections.emptyList()));
        wrong(what + ": " + text + ", " + told);
    }

    /** How many messages that were stored nobody has been given. */
    synchronized long missing() {
        return sent.entrySet().stream().filter(one -> one.getValue() == Fate.STORED && !received.containsKey(one.getKey())).count();
    }

    synchronized long progress_ms() {
        return progress_ms;
    }

    synchronized int size() {
        return sent.size();
    }

    /** At the end, when everything was received. */
    synchronized void conclude(Collection<String> dead) {
        conclude(dead, false);
    }

    /**
     * Likewise.
     *
     * @param isOvertaken whether several send to a durable subscription: a Java broker may pass over what one of them sends while another
     *     does (test_overtaken.py)
     */
    synchronized void conclude(Collection<String> dead, boolean isOvertaken) {
        counts.put("sent", sent.size());
        if (!dead.isEmpty()) {
            counts.put("dead", dead.size());
        }
        long unseen = dead.stream().distinct().filter(text -> !received.containsKey(text)).count();
        if (unseen > 0) {
            count("dead, and never received", (int) unseen);
        }
        sent.forEach((text, fate) -> {
            if (fate == Fate.STORED && !received.containsKey(text) && !dead.contains(text)) {
                if (isJavas(text, isOvertaken)) {
                    count("lost by a Java broker");
                } else {
                    wrong("lost", text);
                }
            }
            if (fate == Fate.NEVER && (received.containsKey(text) || dead.contains(text))) {
                wrong("rolled back, but there", text);
            }
        });
        for (List<String> texts : whole) {
            long there = texts.stream().filter(text -> received.containsKey(text) || dead.contains(text)).count();
            if (there != 0 && there != texts.size() && !isJavas(texts.get(0), isOvertaken)) {
                wrong("of a transaction only a part is there: " + texts);
            }
        }
        received.keySet().stream().filter(text -> !sent.containsKey(text)).forEach(text -> wrong("never sent", text));
    }

    /**
     * Whether a Java broker may have lost it. One that has committed a branch that it found prepared removes what it has still to deliver,
     * which is lost when it fails (test_xa_taken_over.py).
     */
    private boolean isJavas(String text, boolean isOvertaken) {
        long when_ms = answered.get(text);
        return isOvertaken && faults.isOfJava(when_ms)
            || branches.stream().anyMatch(one -> when_ms <= faults.untilJavaThatTookOver(one[0], one[1]));
    }

    /**
     * That each message was there once, if nobody received before the last fault: what is stored twice the client refuses when it comes
     * again, and it is a dead letter.
     *
     * @param dead all dead letters
     */
    synchronized void requireOnce(Collection<String> dead) {
        received.forEach((text, times) -> {
            int count = times + Collections.frequency(dead, text);
            if (count > 1) {
                wrong("stored " + count + " times", text);
            }
        });
    }

    synchronized Map<String, Integer> counts() {
        return counts;
    }

    synchronized List<String> wrong() {
        return new ArrayList<>(wrong);
    }
}
