import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.Session;
import javax.jms.StreamMessage;

/** One message of every JMS type, with a property of every type and every header a sender can set. */
final class Samples {
    /** ASCII, Latin, Han, a supplementary character, NUL: each takes another path through modified UTF-8. */
    static final String TEXT = "Gr\u00fc\u00dfe, \u4f60\u597d, \ud83d\ude80, a\u0000b, \"quoted\"\n";

    /** For top-level properties and map values, in which ActiveMQ's own reader mistakes NUL and supplementary characters. */
    static final String PLANE_0_TEXT = "Gr\u00fc\u00dfe, \u4f60\u597d, \u0001, \"quoted\"\n";

    private Samples() {}

    static List<Message> all(Session session) throws JMSException {
        List<Message> messages = new ArrayList<>();
        messages.add(session.createTextMessage(TEXT));
        messages.add(session.createTextMessage());
        messages.add(bytes(session));
        messages.add(map(session));
        messages.add(stream(session));
        messages.add(session.createObjectMessage("an object: " + TEXT));
        messages.add(session.createObjectMessage(new ArrayList<>(Arrays.asList("one", TEXT, 3, 4L, 5.5, true))));
        messages.add(session.createMessage());
        for (int i = 0; i < messages.size(); i++) {
            address(session, messages.get(i), i);
        }
        return messages;
    }

    /** Headers and properties; priority and time to live are the producer's to give. */
    private static void address(Session session, Message message, int number) throws JMSException {
        message.setJMSCorrelationID("correlation-" + number + "-\u00e9");
        message.setJMSReplyTo(number % 2 == 0 ? session.createQueue("replies.queue") : session.createTopic("replies.topic"));
        message.setJMSType("type-" + number);
        message.setStringProperty("JMSXGroupID", "group-" + number);
        message.setIntProperty("JMSXGroupSeq", number + 1);
        message.setBooleanProperty("aBoolean", true);
        message.setByteProperty("aByte", Byte.MIN_VALUE);
        message.setShortProperty("aShort", Short.MIN_VALUE);
        message.setIntProperty("anInt", Integer.MIN_VALUE);
        message.setLongProperty("aLong", Long.MIN_VALUE);
        message.setFloatProperty("aFloat", 1.1f);
        message.setDoubleProperty("aDouble", Math.PI);
        message.setStringProperty("aString", PLANE_0_TEXT);
        message.setStringProperty("anEmptyString", "");
        message.setObjectProperty("aCharacter", '\u00e4');
        message.setObjectProperty("aNull", null);
        message.setObjectProperty("aList", new ArrayList<>(Arrays.asList(TEXT, 1, 2L)));
        message.setObjectProperty("aMap", new HashMap<>(Map.of("key", TEXT)));
    }

    private static Message bytes(Session session) throws JMSException {
        BytesMessage message = session.createBytesMessage();
        byte[] every = new byte[256];
        for (int i = 0; i < every.length; i++) {
            every[i] = (byte) i;
        }
        message.writeBytes(every);
        return message;
    }

    private static Message map(Session session) throws JMSException {
        MapMessage message = session.createMapMessage();
        for (Map.Entry<String, Object> entry : values().entrySet()) {
            message.setObject(entry.getKey(), entry.getValue());
        }
        message.setObject("list", new ArrayList<>(Arrays.asList("x", 1)));
        message.setObject("map", new HashMap<>(Map.of("key", 2L)));
        return message;
    }

    private static Message stream(Session session) throws JMSException {
        StreamMessage message = session.createStreamMessage();
        for (Object value : values().values()) {
            message.writeObject(value);
        }
        message.writeString(TEXT);
        return message;
    }

    private static Map<String, Object> values() {
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("boolean", false);
        values.put("byte", Byte.MAX_VALUE);
        values.put("char", '\u4f60');
        values.put("short", Short.MAX_VALUE);
        values.put("int", Integer.MAX_VALUE);
        values.put("long", Long.MAX_VALUE);
        values.put("float", Float.MIN_VALUE);
        values.put("double", Double.MAX_VALUE);
        values.put("string", PLANE_0_TEXT);
        values.put("bytes", new byte[] {0, 1, -1, 127, -128});
        values.put("null", null);
        return values;
    }
}
