import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import javax.jms.InvalidSelectorException;
import org.apache.activemq.command.Message;
import org.apache.activemq.filter.BooleanExpression;
import org.apache.activemq.filter.MessageEvaluationContext;
import org.apache.activemq.filter.NonCachedMessageEvaluationContext;
import org.apache.activemq.openwire.OpenWireFormat;
import org.apache.activemq.selector.SelectorParser;
import org.apache.activemq.util.ByteSequence;

/**
 * What ActiveMQ's selectors say about messages. Standard input: a line with a JSON array of messages (OpenWire frames in hexadecimal
 * digits), then a line with a JSON string for every selector. Standard output, a line for each selector: {"error": why} if it cannot be
 * read, else {"results": a letter for each message}: T true, F false, N unknown, ! an exception.
 */
public final class Selectors {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Selectors() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "US-ASCII");
        List<Message> messages = messages(JSON.readTree(in.readLine()));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(Json.write(answer(JSON.readTree(line).textValue(), messages)));
        }
        out.flush();
    }

    private static List<Message> messages(JsonNode frames) throws Exception {
        OpenWireFormat format = new OpenWireFormat();
        format.setVersion(11);
        format.setCacheEnabled(false);
        format.setTightEncodingEnabled(false);
        List<Message> messages = new ArrayList<>();
        for (JsonNode frame : frames) {
            messages.add((Message) format.unmarshal(new ByteSequence(bytes(frame.textValue()))));
        }
        return messages;
    }

    private static byte[] bytes(String digits) {
        byte[] bytes = new byte[digits.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static Object answer(String selector, List<Message> messages) {
        BooleanExpression expression;
        try {
            SelectorParser.clearCache(); // it remembers converting selectors as ones that do not convert
            expression = SelectorParser.parse(selector);
        } catch (InvalidSelectorException error) {
            return Collections.singletonMap("error", String.valueOf(error.getCause()));
        }
        StringBuilder results = new StringBuilder();
        for (Message message : messages) {
            results.append(result(expression, message));
        }
        return Collections.singletonMap("results", results.toString());
    }

    /** Both ways in which ActiveMQ asks; they have to agree. */
    private static char result(BooleanExpression expression, Message message) {
        MessageEvaluationContext context = new NonCachedMessageEvaluationContext();
        context.setMessageReference(message);
        char value;
        try {
            Object evaluated = expression.evaluate(context);
            value = evaluated == null ? 'N' : (Boolean) evaluated ? 'T' : 'F';
        } catch (Exception error) {
            value = '!';
        }
        try {
            boolean matches = expression.matches(context);
            if (value != '!' && matches != (value == 'T')) {
                throw new AssertionError(expression + " is " + value + " and matches is " + matches);
            }
        } catch (Exception error) {
            value = '!';
        }
        return value;
    }
}
