import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.filter.DestinationMapEntry;
import org.apache.activemq.jaas.GroupPrincipal;
import org.apache.activemq.security.AuthorizationEntry;
import org.apache.activemq.security.DefaultAuthorizationMap;

/**
 * Asks ActiveMQ's authorization map. Each line of standard input is a question, tab separated: a default group or -,
 * destination, and patterns; the pattern at position n lets group "g<n>" read. The answer is the groups that may.
 */
public final class Authorization {
    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            System.out.println(String.join(" ", answer(line.split("\t"))));
        }
    }

    private static Set<String> answer(String[] question) throws Exception {
        List<DestinationMapEntry> entries = new ArrayList<>();
        for (int number = 2; number < question.length; number++) {
            AuthorizationEntry entry = new AuthorizationEntry();
            ActiveMQDestination pattern = ActiveMQDestination.createDestination(question[number], (byte) 1);
            entry.setDestination(pattern);
            entry.setRead("g" + (number - 2));
            entries.add(entry);
        }
        DefaultAuthorizationMap map = new DefaultAuthorizationMap(entries);
        if (!question[0].equals("-")) {
            AuthorizationEntry entry = new AuthorizationEntry();
            entry.setRead(question[0]);
            map.setDefaultEntry(entry);
        }
        Set<String> groups = new TreeSet<>();
        for (Object group : map.getReadACLs(ActiveMQDestination.createDestination(question[1], (byte) 1))) {
            groups.add(((GroupPrincipal) group).getName());
        }
        return groups;
    }
}
