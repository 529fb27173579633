import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What consumers get at a committed offset that the log does not contain. Arguments: the address,
 * and the group protocols. Writes a line for each group: its name, and the offset of the first record
 * or the exception; the groups commit nothing more. The topic has the offsets 5 to 9. */
public class OffsetRanges {
    static final TopicPartition EVENTS = new TopicPartition("events", 0);

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic("events", 1, (short) 1))).all().get();
            try (var producer = new KafkaProducer<>(
                    settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int i = 0; i < 10; i++)
                    producer.send(new ProducerRecord<>("events", 0, new byte[1], new byte[1])).get();
            }
            admin.deleteRecords(Map.of(EVENTS, RecordsToDelete.beforeOffset(5))).all().get();
            for (long offset : new long[] {2, 7, 10, 999})
                for (String protocol : arguments[1].split(","))
                    for (String policy : new String[] {"earliest", "latest", "none"})
                        consume(admin, arguments[0], offset, protocol, policy);
        }
    }

    static void consume(Admin admin, String address, long offset, String protocol, String policy)
            throws Exception {
        String group = protocol + "-" + policy + "-" + offset;
        admin.alterConsumerGroupOffsets(group, Map.of(EVENTS, new OffsetAndMetadata(offset))).all().get();
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", address, "group.id", group, "group.protocol", protocol,
            "auto.offset.reset", policy, "enable.auto.commit", "false"));
        var bytes = new ByteArrayDeserializer();
        String result = "nothing";
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(List.of("events"));
            long end = System.nanoTime() + 20_000_000_000L;
            List<String> offsets = new ArrayList<>();
            while (System.nanoTime() < end && offsets.isEmpty()) {
                for (ConsumerRecord<?, ?> record : consumer.poll(Duration.ofMillis(200)))
                    offsets.add(Long.toString(record.offset()));
                if (offsets.isEmpty() && consumer.assignment().contains(EVENTS)) {
                    long position = consumer.position(EVENTS);
                    if (position == 10 && offset != 7 && !policy.equals("earliest")) {
                        result = "waits at " + position;
                        if (System.nanoTime() > end - 18_000_000_000L) break;
                    }
                    if (position == 10 && offset == 10 && System.nanoTime() > end - 18_000_000_000L) {
                        result = "waits at " + position;
                        break;
                    }
                }
            }
            if (!offsets.isEmpty()) result = "from " + offsets.get(0);
        } catch (RuntimeException error) {
            result = error.getClass().getSimpleName();
        }
        System.out.println(group + " " + result);
    }
}
