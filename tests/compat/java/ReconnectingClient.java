import java.io.IOException;
import java.net.SocketTimeoutException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.apache.activemq.transport.stomp.Stomp;
import org.apache.activemq.transport.stomp.StompConnection;
import org.apache.activemq.transport.stomp.StompFrame;

/**
 * A program on ActiveMQ's own STOMP client for Java, with two addresses and a loop that connects again.
 *
 * <p>{@code ReconnectingClient PORT PORT PRODUCER}. What it does and prints is that of tests/failover/stomp_py_client.py.
 */
public final class ReconnectingClient {
    private static final String LIVE = "/queue/LIVE";
    private static final String HELD = "/queue/HELD";
    private static final int WINDOW = 20;
    private static final long ANSWER_MS = 10_000;

    private final int[] ports;
    private final String producer;
    private final Set<Integer> unanswered = new LinkedHashSet<>();
    private final Set<Integer> taken = new HashSet<>();
    private volatile boolean isFinishing;
    private volatile boolean isAllSent;
    private volatile int last;
    private int consumers;

    private ReconnectingClient(int[] ports, String producer) {
        this.ports = ports;
        this.producer = producer;
    }

    public static void main(String[] arguments) throws Exception {
        int[] ports = {Integer.parseInt(arguments[0]), Integer.parseInt(arguments[1])};
        new ReconnectingClient(ports, arguments[2]).run();
    }

    private void run() throws Exception {
        Thread sending = new Thread(() -> again("sender", this::send));
        Thread consuming = new Thread(() -> again("consumer", this::consume));
        consuming.start();
        sending.start();
        System.in.read();
        isFinishing = true;
        sending.join();
        isAllSent = true;
        consuming.join();
        say("done");
    }

    private interface Work {
        /** Works with a connection until everything is done, or throws when the connection is lost. */
        void with(StompConnection connection) throws Exception;
    }

    /** Connects to one address after the other until the work is done. */
    private void again(String role, Work work) {
        for (int attempt = 0; ; attempt++) {
            int port = ports[attempt % ports.length];
            StompConnection connection = new StompConnection();
            try {
                connection.open("127.0.0.1", port);
                HashMap<String, String> headers = new HashMap<>();
                headers.put(Stomp.Headers.Connect.ACCEPT_VERSION, Stomp.V1_2);
                headers.put(Stomp.Headers.Connect.HOST, "localhost");
                connection.connect(headers);
                if (role.equals("sender")) {
                    say("connected " + port);
                }
                work.with(connection);
                connection.disconnect();
                return;
            } catch (Exception lost) {
                pause();
            } finally {
                close(connection);
            }
        }
    }

    private void send(StompConnection connection) throws Exception {
        for (int number : unanswered) {
            transmit(connection, number);
        }
        while (!isFinishing || !unanswered.isEmpty()) {
            if (!isFinishing && unanswered.size() < WINDOW) {
                unanswered.add(++last);
                transmit(connection, last);
                Thread.sleep(1);
                continue;
            }
            StompFrame answer = connection.receive(ANSWER_MS);
            if (!answer.getAction().equals(Stomp.Responses.RECEIPT)) {
                throw new IOException(answer.toString());
            }
            String number = answer.getHeaders().get(Stomp.Headers.Response.RECEIPT_ID);
            unanswered.remove(Integer.parseInt(number));
            say("receipted " + number);
        }
    }

    private void transmit(StompConnection connection, int number) throws Exception {
        HashMap<String, String> headers = new HashMap<>();
        headers.put("persistent", "true");
        headers.put("receipt", String.valueOf(number));
        headers.put("producer-id", producer);
        headers.put("producer-sequence", String.valueOf(number));
        connection.send(LIVE, String.valueOf(number), null, headers);
    }

    private void consume(StompConnection connection) throws Exception {
        consumers++;
        Set<Integer> unacknowledged = new HashSet<>();
        for (String queue : new String[] {LIVE, HELD}) {
            HashMap<String, String> headers = new HashMap<>();
            headers.put("id", queue);
            headers.put("activemq.prefetchSize", "50");
            connection.subscribe(queue, "client-individual", headers);
        }
        while (!isAllSent || taken.size() < last || !unacknowledged.isEmpty()) {
            StompFrame frame;
            try {
                frame = connection.receive(200);
            } catch (SocketTimeoutException nothing) {
                continue;
            }
            Map<String, String> headers = frame.getHeaders();
            if (frame.getAction().equals(Stomp.Responses.RECEIPT)) {
                String number = headers.get(Stomp.Headers.Response.RECEIPT_ID);
                unacknowledged.remove(Integer.parseInt(number));
                say("acked " + number);
            } else if (!frame.getAction().equals(Stomp.Responses.MESSAGE)) {
                throw new IOException(frame.toString());
            } else {
                if (headers.get("subscription").equals(LIVE)) {
                    taken.add(Integer.parseInt(frame.getBody()));
                    unacknowledged.add(Integer.parseInt(frame.getBody()));
                }
                take(connection, headers, frame.getBody());
            }
        }
    }

    private void take(StompConnection connection, Map<String, String> headers, String body) throws Exception {
        String count = headers.getOrDefault("JMSXDeliveryCount", "1");
        boolean isLive = headers.get("subscription").equals(LIVE);
        say((isLive ? "got " : "held ") + body + " " + count);
        if (isLive || consumers > 1) {
            String receipt = isLive ? "receipt:" + body + "\n" : "";
            connection.sendFrame("ACK\nid:" + headers.get("ack") + "\n" + receipt + "\n" + Stomp.NULL);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void pause() {
        try {
            Thread.sleep(100);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static void close(StompConnection connection) {
        try {
            connection.close();
        } catch (IOException | NullPointerException gone) {
            // it was not open
        }
    }
}
