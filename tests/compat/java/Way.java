import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.activemq.command.CommandTypes;

/**
 * What is between an OpenWire client and one broker: it passes frames on, or loses them from a chosen one on, and can be cut.
 */
final class Way implements Closeable {
    private static final long WAIT_MS = 60_000;
    private static final int NONE = -1;

    private final InetSocketAddress broker;
    private final List<Socket> clients = new ArrayList<>();
    private final List<Socket> brokers = new ArrayList<>();
    private ServerSocket door;
    private int requestLost = NONE;
    private int answerLost = NONE;
    private boolean losesRequests;
    private boolean losesAnswers;
    private boolean isLost;
    private int dispatched;
    private final Set<Integer> passed = new HashSet<>();

    /** @param broker HOST:PORT */
    Way(String broker) throws IOException {
        String[] parts = broker.split(":");
        this.broker = new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
        open(freeDoor());
    }

    String url() {
        return "tcp://127.0.0.1:" + door.getLocalPort();
    }

    /** The next command of this type, and what the client says after it, does not reach the broker. */
    synchronized void loseRequest(int type) {
        requestLost = type;
        isLost = false;
    }

    /** The next command of this type reaches the broker; its answer, and what comes after it, does not reach the client. */
    synchronized void loseAnswer(int type) {
        answerLost = type;
        isLost = false;
    }

    /** Waits until the request or the answer is lost. */
    void awaitLost() throws InterruptedException {
        await(() -> isLost, "nothing was lost");
    }

    /** Waits until a command of this type has been passed on to the broker since the last cut. */
    void awaitPassed(int type) throws InterruptedException {
        await(() -> passed.contains(type), "the client did not ask");
    }

    /** Waits until this many messages have been dispatched since the last call or cut. */
    void awaitDispatched(int count) throws InterruptedException {
        await(() -> dispatched >= count, "fewer messages were dispatched");
        synchronized (this) {
            dispatched = 0;
        }
    }

    /** How many clients there are. */
    synchronized int count() {
        return clients.size();
    }

    /** Ends the connections that there are, on both sides or on the client's alone. What comes later passes. */
    synchronized void cut(boolean tellsBroker) {
        requestLost = NONE;
        answerLost = NONE;
        losesRequests = false;
        losesAnswers = false;
        dispatched = 0;
        passed.clear();
        clients.forEach(Way::end);
        clients.clear();
        if (tellsBroker) {
            brokers.forEach(Way::end);
            brokers.clear();
        }
    }

    /** Nobody gets through until `opens`. */
    void refuse() throws IOException {
        door.close();
        cut(true);
    }

    void opens() throws IOException, InterruptedException {
        for (long end = System.currentTimeMillis() + WAIT_MS; ; Thread.sleep(20)) {
            ServerSocket again = new ServerSocket();
            again.setReuseAddress(true);
            try {
                again.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), door.getLocalPort()));
                open(again);
                return;
            } catch (java.net.BindException taken) { // by somebody who looks for a free one
                again.close();
                if (System.currentTimeMillis() > end) {
                    throw taken;
                }
            }
        }
    }

    @Override
    public synchronized void close() throws IOException {
        door.close();
        cut(true);
    }

    /** On a port that is not given to those that connect: who tries a closed one again and again would reach itself. */
    private static ServerSocket freeDoor() throws IOException {
        for (int attempt = 0; ; attempt++) {
            try {
                int port = ThreadLocalRandom.current().nextInt(12_000, 32_000);
                return new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
            } catch (IOException taken) {
                if (attempt > 100) {
                    throw taken;
                }
            }
        }
    }

    private interface Condition {
        boolean holds();
    }

    private synchronized void await(Condition condition, String otherwise) throws InterruptedException {
        long end = System.currentTimeMillis() + WAIT_MS;
        while (!condition.holds()) {
            long left = end - System.currentTimeMillis();
            if (left <= 0) {
                throw new IllegalStateException(otherwise);
            }
            wait(left);
        }
    }

    private void open(ServerSocket opened) {
        door = opened;
        start(() -> {
            while (true) {
                connect(opened.accept());
            }
        });
    }

    private void connect(Socket client) throws IOException {
        Socket server = new Socket();
        try {
            server.connect(broker);
        } catch (IOException nobody) {
            end(client);
            return;
        }
        client.setTcpNoDelay(true);
        server.setTcpNoDelay(true);
        synchronized (this) {
            clients.add(client);
            brokers.add(server);
        }
        start(() -> pass(client, server, true));
        start(() -> pass(server, client, false));
    }

    private void pass(Socket from, Socket to, boolean isRequest) throws IOException {
        try {
            DataInputStream in = new DataInputStream(new java.io.BufferedInputStream(from.getInputStream(), 1 << 16));
            DataOutputStream out = new DataOutputStream(to.getOutputStream());
            while (true) {
                byte[] frame = new byte[in.readInt()];
                in.readFully(frame);
                if (isRequest ? requestPasses(from, frame[0]) : answerPasses(to, frame[0])) {
                    byte[] whole = java.nio.ByteBuffer.allocate(frame.length + 4).putInt(frame.length).put(frame).array();
                    out.write(whole);
                }
            }
        } finally {
            if (!isRequest || isConnected(from)) {
                end(to); // while one that was cut off may have left its broker in the dark
            }
        }
    }

    private synchronized boolean isConnected(Socket client) {
        return clients.contains(client);
    }

    private synchronized boolean requestPasses(Socket client, int type) {
        if (!clients.contains(client)) {
            return false;
        }
        if (type == requestLost) {
            losesRequests = true;
            lost();
        }
        if (type == answerLost) {
            losesAnswers = true;
            answerLost = NONE;
        }
        if (!losesRequests) {
            passed.add(type);
            notifyAll();
        }
        return !losesRequests;
    }

    private synchronized boolean answerPasses(Socket client, int type) {
        boolean isAnswer = type >= CommandTypes.RESPONSE && type <= CommandTypes.INTEGER_RESPONSE;
        if (losesAnswers && isAnswer) {
            lost();
        }
        if (losesAnswers || !clients.contains(client)) {
            return false;
        }
        if (type == CommandTypes.MESSAGE_DISPATCH) {
            dispatched++;
            notifyAll();
        }
        return true;
    }

    private void lost() {
        isLost = true;
        notifyAll();
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException ended) {
                // by one of both sides, or by a cut
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void end(Socket socket) {
        try {
            socket.close();
        } catch (IOException ignored) {
            // it has ended
        }
    }
}
