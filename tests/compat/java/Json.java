import java.util.Map;

/** Writes JSON in ASCII. A value that JSON has no type for is refused, so that nothing is printed as something else. */
final class Json {
    private Json() {}

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        append(out, value);
        return out.toString();
    }

    private static void append(StringBuilder out, Object value) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            out.append(value);
        } else if (value instanceof String) {
            appendString(out, (String) value);
        } else if (value instanceof Map) {
            appendMap(out, (Map<?, ?>) value);
        } else if (value instanceof Iterable) {
            appendList(out, (Iterable<?>) value);
        } else {
            throw new IllegalArgumentException("no JSON for " + value.getClass());
        }
    }

    private static void appendMap(StringBuilder out, Map<?, ?> map) {
        String separator = "{";
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            out.append(separator);
            appendString(out, (String) entry.getKey());
            out.append(": ");
            append(out, entry.getValue());
            separator = ", ";
        }
        out.append(map.isEmpty() ? "{}" : "}");
    }

    private static void appendList(StringBuilder out, Iterable<?> list) {
        String separator = "";
        out.append('[');
        for (Object item : list) {
            out.append(separator);
            append(out, item);
            separator = ", ";
        }
        out.append(']');
    }

    private static void appendString(StringBuilder out, String text) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c >= ' ' && c < 0x7f) {
                out.append(c);
            } else {
                out.append(String.format("\\u%04x", (int) c));
            }
        }
        out.append('"');
    }
}
