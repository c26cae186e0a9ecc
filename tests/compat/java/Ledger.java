import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What a program has sent and received, by the texts of its messages, and what of that is not as it has to be. */
final class Ledger {
    /** What a sender knows about a message. */
    private enum Fate {
        STORED, PERHAPS, NEVER
    }

    private final Faults faults;
    private final Map<String, Fate> sent = new LinkedHashMap<>();
    private final Map<String, Long> settled = new HashMap<>();
    private final Map<String, Integer> received = new HashMap<>();
    private final List<List<String>> whole = new ArrayList<>();
    private final Map<String, Integer> latest = new HashMap<>();
    private final Map<String, Integer> counts = new TreeMap<>();
    private final List<String> wrong = new ArrayList<>();
    private long progress_ms = System.currentTimeMillis();

    Ledger(Faults faults) {
        this.faults = faults;
    }

    synchronized void stored(Collection<String> texts) {
        texts.forEach(text -> sent.put(text, Fate.STORED));
        progress_ms = System.currentTimeMillis();
    }

    /** Whether these were stored is not known; all were, or none. */
    synchronized void perhaps(Collection<String> texts) {
        texts.forEach(text -> sent.put(text, Fate.PERHAPS));
        whole.add(new ArrayList<>(texts));
        count("perhaps");
    }

    synchronized void never(Collection<String> texts) {
        texts.forEach(text -> sent.put(text, Fate.NEVER));
    }

    /**
     * A program has been given a message.
     *
     * @param order whose messages have to come in their order; null if there is none
     */
    synchronized void received(String text, boolean saysAgain, String order) {
        progress_ms = System.currentTimeMillis();
        int times = received.merge(text, 1, Integer::sum);
        Long before = settled.get(text);
        if (times > 1) {
            count(saysAgain ? "again" : "again, not marked");
        }
        if (before != null) {
            count("again although acknowledged");
            if (!faults.since(before)) {
                wrong("acknowledged, and there was no fault, but it comes again: " + text);
            }
        }
        if (order != null && times == 1) {
            int dot = text.lastIndexOf('.');
            int number = Integer.parseInt(text.substring(dot + 1));
            Integer last = latest.put(order + text.substring(0, dot), number);
            if (last != null && last > number) {
                count("out of order");
                if (!faults.since(System.currentTimeMillis() - 1000)) {
                    wrong("after number " + last + " comes " + text);
                }
            }
        }
    }

    /** A program is done with messages that it was given. */
    synchronized void settled(Collection<String> texts) {
        texts.forEach(text -> settled.put(text, System.currentTimeMillis()));
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
            subscriber.whole.clear();
            subscriber.whole.addAll(whole);
        }
    }

    synchronized void wrong(String what) {
        wrong.add(what);
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
                wrong("lost: " + text);
            }
            if (fate == Fate.NEVER && (received.containsKey(text) || dead.contains(text))) {
                wrong("rolled back, but there: " + text);
            }
        });
        for (List<String> texts : whole) {
            long there = texts.stream().filter(text -> received.containsKey(text) || dead.contains(text)).count();
            if (there != 0 && there != texts.size()) {
                wrong("of a transaction only a part is there: " + texts);
            }
        }
        received.keySet().stream().filter(text -> !sent.containsKey(text)).forEach(text -> wrong("never sent: " + text));
    }

    /** That each message was received once: if nobody received before the last fault, none is there twice. */
    synchronized void requireOnce() {
        received.forEach((text, times) -> {
            if (times > 1) {
                wrong("stored " + times + " times: " + text);
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
