import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What Java and Kafka read in texts, many in one process.
 *
 * <p>Standard input is a JSON array of inputs: the parser ("kind") and the bytes in base64 ("data"). Standard output
 * has a JSON object for each: "value", or the class of the exception ("error").
 */
public class Parsers {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Path directory = Files.createTempDirectory("parsers");
        for (JsonNode input : JSON.readTree(System.in)) {
            byte[] data = Base64.getDecoder().decode(input.get("data").asText());
            Map<String, Object> found = new LinkedHashMap<>();
            try {
                found.put("value", parse(input.get("kind").asText(), data, directory));
            } catch (Throwable failure) {
                Throwable cause = failure.getCause() == null ? failure : failure.getCause();
                found.put("error", cause.getClass().getSimpleName());
                found.put("message", String.valueOf(cause.getMessage()));
            }
            out.write(JSON.writeValueAsBytes(found));
            out.write('\n');
        }
        out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Object parse(String kind, byte[] data, Path directory) throws Exception {
        String text = new String(data, "UTF-8");
        switch (kind) {
            case "int":
                return Integer.parseInt(text);
            case "long":
                return Long.parseLong(text);
            case "uuid":
                return Uuid.fromString(text).toString();
            case "json":
                return JSON.readTree(data) != null;
            case "properties":
                return properties(data);
            case "meta.properties":
                MetaProperties meta = new MetaProperties.Builder(properties(data)).build();
                Map<String, Object> values = new TreeMap<>();
                values.put("version", meta.version().number());
                values.put("cluster_id", meta.clusterId().orElse(null));
                values.put("node_id", meta.nodeId().isPresent() ? meta.nodeId().getAsInt() : null);
                values.put("directory_id", meta.directoryId().map(Uuid::toString).orElse(null));
                return values;
            case "partition.metadata":
                return topicId(write(directory, "partition.metadata", data));
            case "leader-epoch-checkpoint":
                return epochs(write(directory, "leader-epoch-checkpoint", data));
            case "recovery-point-offset-checkpoint":
                return offsets(write(directory, kind, data));
            default:
                throw new IllegalStateException(kind);
        }
    }

    private static Properties properties(byte[] data) throws Exception {
        Properties properties = new Properties();
        properties.load(new ByteArrayInputStream(data));
        return properties;
    }

    private static Object topicId(File file) throws Exception {
        return new PartitionMetadataFile(file, null).read().topicId().toString();
    }

    private static Object epochs(File file) throws Exception {
        return new LeaderEpochCheckpointFile(file, new LogDirFailureChannel(1)).read().stream()
            .map(Object::toString).collect(Collectors.toList()); // "EpochEntry(epoch=…, startOffset=…)"
    }

    /** The entries of a checkpoint, whose class was Scala's until 3.9. */
    private static Object offsets(File file) throws Exception {
        Class<?> reader;
        try {
            reader = Class.forName("org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile");
        } catch (ClassNotFoundException earlier) {
            reader = Class.forName("kafka.server.checkpoints.OffsetCheckpointFile");
        }
        Object checkpoint = reader.getConstructor(File.class, LogDirFailureChannel.class)
            .newInstance(file, new LogDirFailureChannel(1));
        Object read = reader.getMethod("read").invoke(checkpoint);
        Map<?, ?> entries = read instanceof Map ? (Map<?, ?>) read
            : CollectionConverters.asJava((scala.collection.Map<?, ?>) read);
        Map<String, Object> offsets = new TreeMap<>();
        entries.forEach((partition, offset) -> offsets.put(
            ((TopicPartition) partition).topic() + " " + ((TopicPartition) partition).partition(), offset));
        return offsets;
    }

    private static File write(Path directory, String name, byte[] data) throws Exception {
        Path path = directory.resolve(name);
        Files.write(path, data);
        return path.toFile();
    }
}
