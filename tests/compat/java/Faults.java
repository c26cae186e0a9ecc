import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** When the brokers of a program failed: what a client did then may have an outcome that nobody has told it. */
final class Faults {
    /** What may still be under way when a fault begins or has ended, in milliseconds. */
    private static final long MARGIN_MS = 3000;

    private final List<long[]> periods = new ArrayList<>();
    private final long start_ms = System.currentTimeMillis();

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
