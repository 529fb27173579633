import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.MetaPropertiesVersion;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * One start and one clean stop of Kafka's KRaft server on partition directories that are already there.
 *
 * <p>Standard input is a plan in JSON: the server's settings ("server"), the settings of each topic
 * ("topics"), whose only partition is the directory TOPIC-0 in log.dirs, and the isolation level
 * ("isolation") to consume every topic with, or null. Standard output has a JSON array for each record:
 * [topic, offset, timestamp, timestamp type, key, value, [[header key, header value], ...]], bytes in
 * hexadecimal. Everything else that is printed goes to standard error.
 */
public class Broker {
    private static final int NODE = 1;
    /** Above the epochs of any batch: a leader of a lower epoch cuts the history it recovered. */
    static final int LEADER_EPOCH = 1_000_000_000;
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream records = System.out;
        System.setOut(System.err);
        JsonNode plan = JSON.readTree(System.in);
        Properties settings = new Properties();
        plan.get("server").fields().forEachRemaining(it -> settings.put(it.getKey(), it.getValue().asText()));
        settings.put("node.id", Integer.toString(NODE));
        KafkaConfig config = KafkaConfig.fromProps(settings, false);
        format(Path.of(config.metadataLogDir()), plan.get("topics"));
        int status = 0;
        try {
            KafkaRaftServer server = new KafkaRaftServer(config, new OtherClock(OtherClock.EARLY));
            try {
                server.startup();
                List<TopicPartition> partitions = new ArrayList<>();
                plan.get("topics").fieldNames().forEachRemaining(it -> partitions.add(new TopicPartition(it, 0)));
                consume(settings.getProperty("listeners"), partitions, plan.get("isolation"), records);
            } finally {
                server.shutdown();
                server.awaitShutdown();
            }
        } catch (Throwable failure) {
            failure.printStackTrace();
            status = 1;
        }
        records.flush();
        System.exit(status);
    }

    /** Write what formatting the directory and creating the topics would lead to. */
    static void format(Path data, JsonNode topics) throws Exception {
        Uuid directory = Uuid.randomUuid();
        MetaProperties meta = new MetaProperties.Builder()
            .setVersion(MetaPropertiesVersion.V1)
            .setClusterId(Uuid.randomUuid().toString())
            .setNodeId(NODE)
            .setDirectoryId(directory)
            .build();
        PropertiesUtils.writePropertiesFile(meta.toProperties(), data.resolve("meta.properties").toString(), false);
        MetadataVersion version = MetadataVersion.latestProduction();
        List<ApiMessageAndVersion> image = new ArrayList<>();
        add(image, 0, new FeatureLevelRecord()
            .setName(MetadataVersion.FEATURE_NAME)
            .setFeatureLevel(version.featureLevel()));
        for (Map.Entry<String, JsonNode> topic : topics.properties()) {
            String name = topic.getKey();
            Uuid id = Uuid.randomUuid();
            Files.writeString(data.resolve(name + "-0").resolve("partition.metadata"), "version: 0\ntopic_id: " + id);
            add(image, 0, new TopicRecord().setName(name).setTopicId(id));
            add(image, version.partitionRecordVersion(), new PartitionRecord()
                .setTopicId(id)
                .setPartitionId(0)
                .setReplicas(List.of(NODE))
                .setIsr(List.of(NODE))
                .setDirectories(List.of(directory))
                .setLeader(-1)
                .setLeaderRecoveryState(LeaderRecoveryState.RECOVERED.value())
                .setLeaderEpoch(LEADER_EPOCH));
            topic.getValue().fields().forEachRemaining(it -> add(image, 0, new ConfigRecord()
                .setResourceType(ConfigResource.Type.TOPIC.id())
                .setResourceName(name)
                .setName(it.getKey())
                .setValue(it.getValue().asText())));
        }
        writeBootstrap(data, BootstrapMetadata.fromRecords(image, "the plan"));
    }

    /** Write the first records of a cluster's metadata log, where formatting with this release does. */
    static void writeBootstrap(Path data, BootstrapMetadata image) throws Exception {
        Class<?> directory;
        try {
            directory = Class.forName("org.apache.kafka.metadata.bootstrap.BootstrapDirectory");
        } catch (ClassNotFoundException since44) {
            for (Method write : Class.forName("org.apache.kafka.metadata.storage.Formatter").getMethods()) {
                if (write.getName().equals("writeBoostrapSnapshot")) {
                    write.invoke(null, data.toString(), image, Optional.empty(), (short) 0, "CONTROLLER");
                }
            }
            return;
        }
        Constructor<?> of = directory.getConstructors()[0]; // since 4.0 with the directory alone
        Object[] values = {data.toString(), Optional.empty()};
        Object writer = of.newInstance(Arrays.copyOf(values, of.getParameterCount()));
        directory.getMethod("writeBinaryFile", BootstrapMetadata.class).invoke(writer, image);
    }

    private static void add(List<ApiMessageAndVersion> image, int version, ApiMessage message) {
        image.add(new ApiMessageAndVersion(message, (short) version));
    }

    /** Wait for every partition's leader; with an isolation level, print what a consumer reads. */
    private static void consume(String listeners, List<TopicPartition> partitions, JsonNode isolation, PrintStream out)
            throws Exception {
        String server = listeners.replaceAll(".*PLAINTEXT://([^,]*).*", "$1");
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", server,
            "isolation.level", isolation.asText("read_uncommitted"),
            "enable.auto.commit", "false",
            "allow.auto.create.topics", "false");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions, PATIENCE);
            if (isolation.isNull()) {
                return;
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long left = Long.MAX_VALUE;
            long deadline = 0;
            for (long now = left(consumer, ends); now > 0; now = left(consumer, ends)) {
                if (now < left) {
                    left = now;
                    deadline = System.nanoTime() + PATIENCE.toNanos();
                } else if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the consumer got no further: " + left + " offsets are left");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    print(record, out);
                }
            }
        }
    }

    /** The offsets before the ends; control records move the position, too, and are never returned. */
    private static long left(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, Long> ends) {
        return ends.entrySet().stream()
            .mapToLong(it -> Math.max(0, it.getValue() - consumer.position(it.getKey(), PATIENCE)))
            .sum();
    }

    private static void print(ConsumerRecord<byte[], byte[]> record, PrintStream out) throws Exception {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(Arrays.asList(header.key(), hexadecimal(header.value())));
        }
        out.write(JSON.writeValueAsBytes(Arrays.asList(
            record.topic(), record.offset(), record.timestamp(), record.timestampType().toString(),
            hexadecimal(record.key()), hexadecimal(record.value()), headers)));
        out.write('\n');
    }

    private static String hexadecimal(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }
}
