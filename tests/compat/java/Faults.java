import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** When the brokers of a program failed: what a client did then may have an outcome that nobody has told it. And when a Java broker served. */
final class Faults {
    /** What may still be under way when a fault begins or has ended, in milliseconds. */
    private static final long MARGIN_MS = 3000;

    private final List<long[]> periods = new ArrayList<>();
    /** From when on and until when a Java broker may have answered, and when it has taken over. */
    private final List<long[]> ofJava = new ArrayList<>();
    private final long start_ms = System.currentTimeMillis();

    Faults(boolean isJavaFirst) {
        if (isJavaFirst) {
            ofJava.add(new long[] {start_ms, Long.MAX_VALUE, start_ms});
        }
    }

    /** Milliseconds since the programs began, as `toString` has them. */
    long now() {
        return System.currentTimeMillis() - start_ms;
    }

    /** From when to when there was a fault. */
    @Override
    public synchronized String toString() {
        return periods.stream().map(one -> (one[0] - start_ms) + " to " + (one[1] - MARGIN_MS - start_ms)).collect(Collectors.joining(", "));
    }

    synchronized void begin() {
        periods.add(new long[] {System.currentTimeMillis(), Long.MAX_VALUE});
    }

    /** Another broker serves. */
    synchronized void end(boolean isJava) {
        long[] period = periods.get(periods.size() - 1);
        long now_ms = System.currentTimeMillis();
        period[1] = now_ms + MARGIN_MS;
        ofJava.stream().filter(one -> one[1] == Long.MAX_VALUE).forEach(one -> one[1] = period[1]);
        if (isJava) {
            ofJava.add(new long[] {period[0], Long.MAX_VALUE, now_ms});
        }
    }

    /** Whether there was one between two times, or shortly before or after. */
    synchronized boolean between(long since_ms, long until_ms) {
        return periods.stream().anyMatch(one -> one[0] <= until_ms + MARGIN_MS && one[1] >= since_ms - MARGIN_MS);
    }

    /** Whether a Java broker may have answered what was heard then. */
    synchronized boolean isOfJava(long when_ms) {
        return ofJava.stream().anyMatch(one -> one[0] <= when_ms && when_ms <= one[1]);
    }

    /** Until when a Java broker may have answered that took over between two times, and has failed since; 0 if none did. */
    synchronized long untilJavaThatTookOver(long since_ms, long until_ms) {
        return ofJava.stream().filter(one -> one[0] <= until_ms && one[2] >= since_ms && one[1] != Long.MAX_VALUE)
            .mapToLong(one -> one[1]).max().orElse(0);
    }

    /** How often a Java broker has failed since a time. */
    synchronized long endsOfJava(long since_ms) {
        return ofJava.stream().filter(one -> one[1] != Long.MAX_VALUE && one[1] >= since_ms).count();
    }

    boolean since(long since_ms) {
        return between(since_ms, System.currentTimeMillis());
    }
}
