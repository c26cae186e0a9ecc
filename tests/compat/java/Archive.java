import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.zip.GZIPInputStream;
import org.apache.activemq.command.ActiveMQTextMessage;
import org.apache.activemq.command.Message;
import org.apache.activemq.console.command.store.StoreExporter;
import org.apache.activemq.console.command.store.proto.MessagePB;
import org.apache.activemq.console.command.store.proto.QueueEntryPB;
import org.apache.activemq.console.command.store.proto.QueuePB;
import org.apache.activemq.console.command.store.tar.TarEntry;
import org.apache.activemq.console.command.store.tar.TarInputStream;
import org.apache.activemq.openwire.OpenWireFormat;
import org.apache.activemq.store.PersistenceAdapter;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;
import org.fusesource.hawtbuf.DataByteArrayInputStream;

/** Archives by ActiveMQ's own classes: "export DIRECTORY FILE" writes one of a KahaDB directory, "read FILE" prints one. */
public final class Archive {
    private Archive() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("export")) {
            export(new File(arguments[1]), new File(arguments[2]));
        } else {
            read(new File(arguments[1]));
        }
    }

    private static void export(File directory, File file) throws Exception {
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(directory);
        store.start();
        Method export =
                StoreExporter.class.getDeclaredMethod("export", PersistenceAdapter.class, BufferedOutputStream.class);
        export.setAccessible(true);
        try (BufferedOutputStream out = new BufferedOutputStream(new FileOutputStream(file))) {
            export.invoke(new StoreExporter(), store, out);
        } finally {
            store.stop();
        }
    }

    private static void read(File file) throws IOException, javax.jms.JMSException {
        Map<Long, String> queues = new HashMap<>();
        Map<Long, Message> messages = new HashMap<>();
        try (TarInputStream in = new TarInputStream(new GZIPInputStream(new FileInputStream(file)))) {
            for (TarEntry entry = in.getNextEntry(); entry != null; entry = in.getNextEntry()) {
                byte[] data = new byte[(int) entry.getSize()];
                for (int read = 0; read < data.length; ) {
                    read += in.read(data, read, data.length - read);
                }
                if (entry.getName().endsWith(".que")) {
                    QueuePB.Buffer queue = QueuePB.FACTORY.parseFramed(data);
                    queues.put(queue.getKey(), queue.getBindingKind() + " " + queue.getBindingData().utf8());
                } else if (entry.getName().endsWith(".msg")) {
                    MessagePB.Buffer message = MessagePB.FACTORY.parseFramed(data);
                    messages.put(message.getMessageKey(), unmarshal(message));
                } else if (entry.getName().endsWith(".qen")) {
                    print(QueueEntryPB.FACTORY.parseFramed(data), queues, messages);
                }
            }
        }
    }

    private static Message unmarshal(MessagePB.Buffer record) throws IOException {
        DataByteArrayInputStream in = new DataByteArrayInputStream(record.getValue());
        OpenWireFormat format = new OpenWireFormat();
        format.setCacheEnabled(false);
        format.setTightEncodingEnabled(in.readBoolean());
        format.setVersion(in.readVarInt());
        return (Message) format.unmarshal(in);
    }

    private static void print(QueueEntryPB.Buffer entry, Map<Long, String> queues, Map<Long, Message> messages)
            throws javax.jms.JMSException {
        Message message = messages.get(entry.getMessageKey());
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("queue", queues.get(entry.getQueueKey()));
        line.put("place", entry.getQueueSeq());
        line.put("id", message.getMessageId().toString());
        line.put("kind", message.getClass().getSimpleName());
        line.put("text", message instanceof ActiveMQTextMessage ? ((ActiveMQTextMessage) message).getText() : null);
        line.put("redeliveries", entry.getRedeliveries());
        line.put("expiration", entry.getExpiration());
        System.out.println(Json.write(line));
    }
}
