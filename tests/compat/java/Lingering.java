import java.io.PrintStream;

/** Leaves a thread behind that speaks when the next program does. */
public final class Lingering {
    private Lingering() {}

    public static void main(String[] none) {
        PrintStream own = System.out;
        own.println("said");
        new Thread(() -> {
            while (System.out == own) {
                Thread.onSpinWait();
            }
            for (PrintStream next = System.out; ; ) {
                next.println("late");
            }
        }).start();
    }
}
