import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The same for share groups, whose start offset is the committed one. Argument: the address. */
public class ShareOffsetRanges {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        var bytes = new ByteArrayDeserializer();
        try (Admin admin = Admin.create(settings)) {
            for (long offset : new long[] {2, 7, 999}) {
                String group = "share-" + offset;
                settings.put("group.id", group);
                var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
                var reset = new AlterConfigOp(
                    new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
                admin.incrementalAlterConfigs(Map.of(resource, List.of(reset))).all().get();
                first(settings, bytes, 20);  // joins, which creates the group
                for (int attempt = 0; ; attempt++) {
                    try {
                        admin.alterShareGroupOffsets(
                            group, Map.of(new TopicPartition("events", 0), offset)).all().get();
                        break;
                    } catch (Exception error) {  // the group still has its member
                        if (attempt == 60) throw error;
                        Thread.sleep(1000);
                    }
                }
                System.out.println(group + " " + first(settings, bytes, offset == 999 ? 15 : 20));
            }
        }
    }

    static String first(Properties settings, ByteArrayDeserializer bytes, int seconds) {
        try (var consumer = new KafkaShareConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(List.of("events"));
            long end = System.nanoTime() + seconds * 1_000_000_000L;
            while (System.nanoTime() < end)
                for (ConsumerRecord<?, ?> record : consumer.poll(Duration.ofMillis(200)))
                    return "from " + record.offset();
            return "nothing";
        } catch (RuntimeException error) {
            return error.getClass().getSimpleName();
        }
    }
}
