import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Runs programs, one after the other, so that a virtual machine is not started for each of them.
 *
 * <p>Reads requests from its standard input: how many words follow, then the words, each in a line: the name of the class, its
 * arguments. Answers each with a line of two numbers, 0 if the program has returned, 1 if it has thrown and 2 if it has returned and
 * threads of its own go on, and how many bytes follow: what the program has printed, or what it has thrown. Ends when its input does,
 * whatever is running.
 */
public final class Programs {
    /** How long threads of a program that has returned may take to end. */
    private static final long ENDING_MS = 1000;

    private Programs() {}

    public static void main(String[] none) throws IOException {
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String count = requests.readLine(); count != null; count = requests.readLine()) {
            String[] words = new String[Integer.parseInt(count)];
            for (int place = 0; place < words.length; place++) {
                words[place] = requests.readLine();
            }
            ThreadGroup own = new ThreadGroup(words[0]);
            new Thread(own, () -> answer(words, own, answers), words[0]).start(); // while this one hears when the input ends
        }
        System.exit(0);
    }

    private static void answer(String[] words, ThreadGroup own, PrintStream answers) {
        ByteArrayOutputStream told = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(told, true, StandardCharsets.UTF_8);
        System.setOut(out);
        int code = 0;
        try {
            run(words[0], Arrays.copyOfRange(words, 1, words.length));
            code = isLeft(own) ? 2 : 0;
        } catch (Throwable thrown) {
            told.reset();
            thrown.printStackTrace(out);
            code = 1;
        }
        out.flush();
        byte[] all = told.toByteArray(); // more may be said meanwhile
        answers.println(code + " " + all.length);
        answers.write(all, 0, all.length);
        answers.flush();
    }

    /** Whether threads go on that are not daemons, besides this one. */
    private static boolean isLeft(ThreadGroup own) throws InterruptedException {
        Thread[] threads = new Thread[2 * own.activeCount()];
        int count = own.enumerate(threads);
        long end = System.currentTimeMillis() + ENDING_MS;
        boolean isLeft = false;
        for (Thread thread : Arrays.copyOf(threads, count)) {
            if (!thread.isDaemon() && thread != Thread.currentThread()) {
                thread.join(Math.max(1, end - System.currentTimeMillis()));
                isLeft |= thread.isAlive();
            }
        }
        return isLeft;
    }

    private static void run(String program, String[] arguments) throws Throwable {
        try {
            Class.forName(program).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }
}
