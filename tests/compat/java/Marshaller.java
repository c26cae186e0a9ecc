import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.activemq.command.WireFormatInfo;
import org.apache.activemq.openwire.OpenWireFormat;
import org.apache.activemq.util.ByteSequence;

/**
 * ActiveMQ's own reading and writing of OpenWire. Standard input: a line for each connection, {"version", "tight", "cache", "cacheSize",
 * "stackTrace", "frames": hexadecimal digits, "loose": the same commands as a store holds them}. Standard output, a line for each:
 * {"read": the frames, each read by one end of a connection and written loose again, "written": the loose ones, each read and written by
 * the other end}, or {"error": why}.
 */
public final class Marshaller {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Marshaller() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "US-ASCII");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(Json.write(answer(JSON.readTree(line))));
        }
        out.flush();
    }

    private static Object answer(JsonNode asked) {
        try {
            int version = asked.get("version").intValue();
            boolean stackTrace = asked.get("stackTrace").booleanValue();
            OpenWireFormat stored = format(version, false, stackTrace);
            OpenWireFormat receiver = connection(asked);
            List<String> read = new ArrayList<>();
            for (JsonNode frame : asked.get("frames")) {
                read.add(digits(stored.marshal(receiver.unmarshal(new ByteSequence(bytes(frame.textValue()))))));
            }
            OpenWireFormat sender = connection(asked);
            List<String> written = new ArrayList<>();
            for (JsonNode frame : asked.get("loose")) {
                written.add(digits(sender.marshal(stored.unmarshal(new ByteSequence(bytes(frame.textValue()))))));
            }
            return Map.of("read", read, "written", written);
        } catch (Exception failure) {
            return Map.of("error", String.valueOf(failure));
        }
    }

    private static OpenWireFormat connection(JsonNode asked) throws Exception {
        int version = asked.get("version").intValue();
        boolean tight = asked.get("tight").booleanValue();
        boolean stackTrace = asked.get("stackTrace").booleanValue();
        OpenWireFormat format = format(version, tight, stackTrace);
        if (asked.get("cache").booleanValue()) {
            WireFormatInfo info = new WireFormatInfo();
            info.setMaxFrameSize(Long.MAX_VALUE);
            info.setVersion(version);
            info.setCacheEnabled(true);
            info.setCacheSize(asked.get("cacheSize").intValue());
            info.setTightEncodingEnabled(tight);
            info.setStackTraceEnabled(stackTrace);
            format.setPreferedWireFormatInfo(info);
            format.renegotiateWireFormat(info);
        }
        return format;
    }

    private static OpenWireFormat format(int version, boolean tight, boolean stackTrace) {
        OpenWireFormat format = new OpenWireFormat();
        format.setVersion(version);
        format.setCacheEnabled(false);
        format.setTightEncodingEnabled(tight);
        format.setStackTraceEnabled(stackTrace);
        return format;
    }

    private static String digits(ByteSequence frame) {
        StringBuilder digits = new StringBuilder();
        for (int i = frame.offset; i < frame.offset + frame.length; i++) {
            digits.append(String.format("%02x", frame.data[i]));
        }
        return digits.toString();
    }

    private static byte[] bytes(String digits) {
        byte[] bytes = new byte[digits.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }
}
