import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import org.apache.activemq.broker.BrokerService;
import org.jolokia.backend.BackendManager;
import org.jolokia.config.ConfigKey;
import org.jolokia.config.Configuration;
import org.jolokia.http.HttpRequestHandler;
import org.jolokia.util.LogHandler;
import org.json.simple.JSONObject;
import org.json.simple.parser.JSONParser;

/**
 * Jolokia in the virtual machine of a real ActiveMQ, asked without HTTP: a line {"path": …, "body": …} on standard input is a request, by POST
 * if it has a body; a line on standard output is Jolokia's answer. The argument is the broker's name. Ends with its input.
 */
public final class JolokiaAnswers {
    private JolokiaAnswers() {}

    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName(arguments[0]);
        broker.setPersistent(false);
        broker.setUseJmx(true);
        broker.getManagementContext().setCreateConnector(false);
        broker.start();
        broker.waitUntilStarted();

        Configuration configuration = new Configuration(ConfigKey.AGENT_ID, "recorded", ConfigKey.AGENT_CONTEXT, "/api/jolokia");
        LogHandler log = new LogHandler.StdoutLogHandler(false) {
            @Override
            public void error(String message, Throwable cause) {
                System.err.println(message);
            }
        };
        BackendManager backend = new BackendManager(configuration, log);
        HttpRequestHandler handler = new HttpRequestHandler(configuration, backend, log);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(handler, (JSONObject) new JSONParser().parse(line)));
        }
        backend.destroy();
        broker.stop();
    }

    /** What Jolokia's servlet does with a request. */
    private static String answer(HttpRequestHandler handler, JSONObject request) {
        String path = (String) request.get("path");
        Object body = request.get("body");
        try {
            if (body == null) {
                return handler.handleGetRequest("/api/jolokia" + path, path, Collections.emptyMap()).toJSONString();
            }
            byte[] bytes = body.toString().getBytes(StandardCharsets.UTF_8);
            return handler.handlePostRequest("/api/jolokia", new ByteArrayInputStream(bytes), "UTF-8", Collections.emptyMap())
                .toJSONString();
        } catch (Exception failure) {
            return handler.handleThrowable(failure).toJSONString();
        }
    }
}
