import java.util.ArrayList;
import java.util.List;

/** When the brokers of a program failed: what a client did then may have an outcome that nobody has told it. */
final class Faults {
    /** What may still be under way when a fault begins or has ended, in milliseconds. */
    private static final long MARGIN_MS = 3000;

    private final List<long[]> periods = new ArrayList<>();

    synchronized void begin() {
        periods.add(new long[] {System.currentTimeMillis(), Long.MAX_VALUE});
    }

    synchronized void end() {
        periods.get(periods.size() - 1)[1] = System.currentTimeMillis() + MARGIN_MS;
    }

    /** Whether there was one between two times, or shortly before or after. */
    synchronized boolean between(long since_ms, long until_ms) {
        return periods.stream().anyMatch(one -> one[0] <= until_ms + MARGIN_MS && one[1] >= since_ms - MARGIN_MS);
    }

    boolean since(long since_ms) {
        return between(since_ms, System.currentTimeMillis());
    }
}
