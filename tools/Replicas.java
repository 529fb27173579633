import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.MetaPropertiesVersion;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.slf4j.impl.StaticLoggerBinder;

/**
 * Two brokers of one cluster that meet with replicas that are already there.
 *
 * <p>Standard input is a plan in JSON: the settings of the two servers ("servers"), whose node ids are 1 and 2 and of
 * which the first is the controller, too, and for each topic, whose only partition is the directory TOPIC-0 in log.dirs
 * of both, the node that leads it ("leaders"). Standard output has a JSON object for each topic once both replicas are in
 * sync: its name and the offsets that logs were cut to, by node, in order.
 */
public class Replicas {
    private static final Duration PATIENCE = Duration.ofSeconds(120);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Pattern CUT =
        Pattern.compile("partition=(.*)-0, dir=.*/node-(\\d)\\].*Truncating to offset (\\d+)");

    /** What logs say of being cut, by topic and node. */
    private static final Map<String, Map<String, List<Long>>> CUTS = new ConcurrentHashMap<>();

    private static void notice(String words) {
        Matcher found = CUT.matcher(words);
        if (found.find()) {
            CUTS.computeIfAbsent(found.group(1), it -> new TreeMap<>())
                .computeIfAbsent(found.group(2), it -> new ArrayList<>())
                .add(Long.parseLong(found.group(3)));
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        JsonNode plan = JSON.readTree(System.in);
        StaticLoggerBinder.listen("info", (words, failure) -> notice(words));
        List<KafkaConfig> configs = new ArrayList<>();
        for (JsonNode server : plan.get("servers")) {
            Properties settings = new Properties();
            server.fields().forEachRemaining(it -> settings.put(it.getKey(), it.getValue().asText()));
            configs.add(KafkaConfig.fromProps(settings, false));
        }
        format(configs, plan.get("leaders"));
        List<KafkaRaftServer> servers = new ArrayList<>();
        int status = 0;
        try {
            for (KafkaConfig config : configs) {
                KafkaRaftServer server = new KafkaRaftServer(config, new OtherClock(OtherClock.EARLY));
                servers.add(server);
                server.startup();
            }
            List<String> topics = new ArrayList<>();
            plan.get("leaders").fieldNames().forEachRemaining(topics::add);
            String listener = configs.get(0).originals().get("listeners").toString();
            await(listener.replaceAll(".*PLAINTEXT://([^,]*).*", "$1"), topics);
            for (String topic : topics) {
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("topic", topic);
                row.put("cuts", CUTS.getOrDefault(topic, Map.of()));
                out.write(JSON.writeValueAsBytes(row));
                out.write('\n');
            }
        } catch (Throwable failure) {
            failure.printStackTrace();
            status = 1;
        }
        for (int i = servers.size() - 1; i >= 0; i--) {
            servers.get(i).shutdown();
            servers.get(i).awaitShutdown();
        }
        out.flush();
        System.exit(status);
    }

    /** Write what a cluster of two brokers that has these topics would have on its disks. */
    private static void format(List<KafkaConfig> configs, JsonNode leaders) throws Exception {
        String cluster = Uuid.randomUuid().toString();
        List<Uuid> directories = new ArrayList<>();
        for (int i = 0; i < configs.size(); i++) {
            Uuid directory = Uuid.randomUuid();
            directories.add(directory);
            MetaProperties meta = new MetaProperties.Builder()
                .setVersion(MetaPropertiesVersion.V1)
                .setClusterId(cluster)
                .setNodeId(i + 1)
                .setDirectoryId(directory)
                .build();
            String file = Path.of(configs.get(i).metadataLogDir(), "meta.properties").toString();
            PropertiesUtils.writePropertiesFile(meta.toProperties(), file, false);
        }
        MetadataVersion version = MetadataVersion.latestProduction();
        List<ApiMessageAndVersion> image = new ArrayList<>();
        add(image, 0, new FeatureLevelRecord()
            .setName(MetadataVersion.FEATURE_NAME)
            .setFeatureLevel(version.featureLevel()));
        for (Map.Entry<String, JsonNode> topic : leaders.properties()) {
            Uuid id = Uuid.randomUuid();
            for (KafkaConfig config : configs) {
                Path folder = Path.of(config.metadataLogDir(), topic.getKey() + "-0");
                Files.writeString(folder.resolve("partition.metadata"), "version: 0\ntopic_id: " + id);
            }
            add(image, 0, new TopicRecord().setName(topic.getKey()).setTopicId(id));
            add(image, version.partitionRecordVersion(), new PartitionRecord()
                .setTopicId(id)
                .setPartitionId(0)
                .setReplicas(List.of(1, 2))
                .setIsr(List.of(topic.getValue().asInt()))
                .setDirectories(directories)
                .setLeader(-1)
                .setLeaderRecoveryState(LeaderRecoveryState.RECOVERED.value())
                .setLeaderEpoch(Broker.LEADER_EPOCH));
        }
        Broker.writeBootstrap(Path.of(configs.get(0).metadataLogDir()), BootstrapMetadata.fromRecords(image, "the plan"));
    }

    private static void add(List<ApiMessageAndVersion> image, int version, ApiMessage message) {
        image.add(new ApiMessageAndVersion(message, (short) version));
    }

    /** Wait until both replicas of every topic are in sync. */
    private static void await(String server, List<String> topics) throws Exception {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", server))) {
            while (true) {
                long inSync = 0;
                try {
                    Map<String, TopicDescription> found = admin.describeTopics(topics).allTopicNames().get();
                    inSync = found.values().stream().filter(it -> it.partitions().get(0).isr().size() == 2).count();
                } catch (java.util.concurrent.ExecutionException notYet) {
                    System.err.println(notYet);
                }
                if (inSync == topics.size()) {
                    return;
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(inSync + " of " + topics.size() + " topics are in sync");
                }
                Thread.sleep(200);
            }
        }
    }
}
