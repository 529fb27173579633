import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.fault.FaultHandler;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Loads partitions of internal topics with the classes that a broker loads them with. Reads a JSON array of
 * {"loader", "dir"}, prints for each an object: {} if it loads, else {"offset", "error"}.
 */
public class Loading {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Object CONFIG = config();

    /** What a record failed with. */
    private static final class Failure extends Exception {
        final long offset;

        Failure(long offset, Throwable cause) {
            super(cause);
            this.offset = offset;
        }
    }

    /** A record that a loader gets. */
    private interface Replay {
        void apply(RecordBatch batch, Record record) throws Throwable;
    }

    public static void main(String[] arguments) throws Exception {
        for (Map<?, ?> given : JSON.readValue(System.in, Map[].class)) {
            Map<String, Object> result = new LinkedHashMap<>();
            try {
                load((String) given.get("loader"), new File((String) given.get("dir")));
            } catch (Failure failure) {
                result.put("offset", failure.offset);
                result.put("error", failure.getCause().toString());
            } catch (Throwable error) {
                result.put("offset", null);
                result.put("error", error.toString());
            }
            System.out.println(JSON.writeValueAsString(result));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void load(String loader, File directory) throws Throwable {
        switch (loader) {
            case "groups": loadShard(directory, groups(), serde("GroupCoordinatorRecordSerde", "CoordinatorRecordSerde", "group")); break;
            case "shares": loadShard(directory, shares(), serde("ShareCoordinatorRecordSerde", null, "share")); break;
            case "classic groups": each(directory, Loading::readClassic); break;
            case "transactions": each(directory, Loading::readTransaction); break;
            case "metadata": loadMetadata(directory); break;
            case "metadata log": openMetadataLog(directory); break;
            default: throw new IllegalArgumentException(loader);
        }
    }

    private static void each(File directory, Replay replay) throws Throwable {
        File[] logs = directory.listFiles((parent, name) -> name.endsWith(".log"));
        Arrays.sort(logs, Comparator.comparing(File::getName));
        for (File log : logs) {
            try (FileRecords records = FileRecords.open(log, false)) {
                for (RecordBatch batch : records.batches()) {
                    for (Record record : batch) {
                        try {
                            replay.apply(batch, record);
                        } catch (InvocationTargetException thrown) {
                            throw new Failure(record.offset(), thrown.getCause());
                        } catch (Throwable thrown) {
                            throw new Failure(record.offset(), thrown);
                        }
                    }
                }
            }
        }
    }

    // Coordinators that load records one by one: CoordinatorLoaderImpl.

    private static void loadShard(File directory, Object shard, Object serde) throws Throwable {
        Method deserialize = method(serde.getClass(), "deserialize", 2);
        Method replay = Arrays.stream(shard.getClass().getMethods())
            .filter(it -> it.getName().equals("replay") && it.getParameterTypes()[3] != Object.class).findFirst().get();
        Method end = method(shard.getClass(), "replayEndTransactionMarker", 3);
        each(directory, (batch, record) -> {
            if (batch.isControlBatch()) {
                ControlRecordType type = ControlRecordType.parse(record.key());
                if (type == ControlRecordType.COMMIT || type == ControlRecordType.ABORT) {
                    end.invoke(shard, batch.producerId(), batch.producerEpoch(), TransactionResult.forId(type == ControlRecordType.COMMIT));
                }
                return;
            }
            Object read;
            try {
                read = deserialize.invoke(serde, record.key(), record.value());
            } catch (InvocationTargetException thrown) {
                if (thrown.getCause().getClass().getSimpleName().equals("UnknownRecordTypeException")) return;
                throw thrown;
            }
            replay.invoke(shard, record.offset(), batch.producerId(), batch.producerEpoch(), read);
        });
    }

    private static Object serde(String name, String earlierName, String room) throws Exception {
        String prefix = "org.apache.kafka.coordinator." + room + ".";
        return any(prefix + name, prefix + earlierName).getConstructor().newInstance();
    }

    private static Object groups() throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.coordinator.group.GroupCoordinatorShard$Builder");
        Constructor<?> constructor = type.getConstructors()[0];
        Object config = CONFIG.getClass().getMethod("groupCoordinatorConfig").invoke(CONFIG);
        Object builder;
        if (constructor.getParameterCount() == 1) {
            builder = constructor.newInstance(config);
        } else {
            Constructor<?> manager = constructor.getParameterTypes()[1].getConstructors()[0];
            Object[] values = Arrays.stream(manager.getParameterTypes()).map(it -> valueOf(it, config)).toArray();
            builder = constructor.newInstance(config, manager.newInstance(values));
        }
        return shard(builder, Class.forName("org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics"));
    }

    private static Object valueOf(Class<?> type, Object groupConfig) {
        try {
            if (type.isInstance(groupConfig)) return groupConfig;
            if (type == Map.class) return new java.util.HashMap<>();
            return CONFIG.getClass().getMethod("shareGroupConfig").invoke(CONFIG);
        } catch (ReflectiveOperationException unknown) {
            throw new IllegalStateException(unknown);
        }
    }

    private static Object shares() throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.coordinator.share.ShareCoordinatorShard$Builder");
        Object config = CONFIG.getClass().getMethod("shareCoordinatorConfig").invoke(CONFIG);
        return shard(type.getConstructors()[0].newInstance(config),
            Class.forName("org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics"));
    }

    private static Object shard(Object builder, Class<?> metrics) throws Exception {
        Object measured = metrics.getConstructor().newInstance();
        for (Method with : builder.getClass().getMethods()) {
            if (!with.getName().startsWith("with") || with.isBridge()) continue;
            Class<?> wanted = with.getParameterTypes()[0];
            Object value;
            if (wanted == SnapshotRegistry.class) value = new SnapshotRegistry(new LogContext());
            else if (wanted == LogContext.class) value = new LogContext();
            else if (wanted == Time.class) value = Time.SYSTEM;
            else if (wanted == TopicPartition.class) value = new TopicPartition("given", 0);
            else if (wanted == Optional.class) value = Optional.empty();
            else if (wanted.isInstance(measured)) value = measured;
            else value = Proxy.newProxyInstance(Loading.class.getClassLoader(), new Class<?>[] {wanted}, (self, called, values) -> null);
            with.invoke(builder, value);
        }
        return method(builder.getClass(), "build", 0).invoke(builder);
    }

    // The coordinators that 3.9 has by default, and that of transactions.

    private static void readClassic(RecordBatch batch, Record record) throws Throwable {
        if (batch.isControlBatch()) return;
        if (!record.hasKey()) throw new IllegalArgumentException("requirement failed: Group metadata/offset entry key should not be null");
        Object manager = Class.forName("kafka.coordinator.group.GroupMetadataManager$").getField("MODULE$").get(null);
        Object key = method(manager.getClass(), "readMessageKey", 1).invoke(manager, record.key());
        String kind = key.getClass().getSimpleName();
        if (kind.equals("OffsetKey")) {
            method(manager.getClass(), "readOffsetMessageValue", 1).invoke(manager, record.value());
        } else if (kind.equals("GroupMetadataKey")) {
            String group = (String) method(key.getClass(), "key", 0).invoke(key);
            method(manager.getClass(), "readGroupMessageValue", 3).invoke(manager, group, record.value(), Time.SYSTEM);
        }
    }

    private static void readTransaction(RecordBatch batch, Record record) throws Throwable {
        if (!record.hasKey()) throw new IllegalArgumentException("requirement failed: Transaction state log's key should not be null");
        Class<?> log = any("org.apache.kafka.coordinator.transaction.TransactionLog", "kafka.coordinator.transaction.TransactionLog");
        if (Arrays.stream(log.getMethods()).anyMatch(it -> it.getName().equals("read"))) {
            method(log, "read", 2).invoke(null, record.key(), record.value());
            return;
        }
        Object key = method(log, "readTxnRecordKey", 1).invoke(null, record.key());
        if (key.getClass().getSimpleName().equals("TxnKey")) {
            String id = (String) method(key.getClass(), "transactionalId", 0).invoke(key);
            method(log, "readTxnRecordValue", 2).invoke(null, id, record.value());
        }
    }

    // The metadata log.

    private static void loadMetadata(File directory) throws Throwable {
        FaultHandler faults = (message, cause) -> {
            throw new RuntimeException(message + ": " + cause);
        };
        Constructor<?> constructor = MetadataBatchLoader.class.getConstructors()[0];
        MetadataBatchLoader.MetadataUpdater updater = null;
        MetadataBatchLoader[] loader = {null};
        updater = (delta, image, manifest) -> loader[0].resetToImage(image);
        List<Object> values = new ArrayList<>(List.of(new LogContext(), Time.SYSTEM, faults, updater));
        if (constructor.getParameterCount() > 4) {
            values.add(constructor.getParameterTypes()[4].getField("TRUE").get(null));
        }
        loader[0] = (MetadataBatchLoader) constructor.newInstance(values.toArray());
        long start = 0;
        File[] snapshots = directory.listFiles((parent, name) -> name.endsWith(".checkpoint"));
        if (snapshots.length > 0) {
            File newest = Arrays.stream(snapshots).max(Comparator.comparing(File::getName)).get();
            start = Long.parseLong(newest.getName().substring(0, 20));
            loader[0].resetToImage(snapshotImage(newest, start));
        }
        LeaderAndEpoch leader = new LeaderAndEpoch(OptionalInt.empty(), 1);
        File[] logs = directory.listFiles((parent, name) -> name.endsWith(".log"));
        Arrays.sort(logs, Comparator.comparing(File::getName));
        for (File log : logs) {
            try (FileRecords records = FileRecords.open(log, false)) {
                for (RecordBatch batch : records.batches()) {
                    if (batch.isControlBatch() || batch.lastOffset() < start) continue;
                    List<ApiMessageAndVersion> messages = new ArrayList<>();
                    for (Record record : batch) messages.add(message(record));
                    try {
                        loader[0].loadBatch(Batch.data(batch.baseOffset(), 1, 0, batch.sizeInBytes(), messages), leader);
                    } catch (RuntimeException fault) {
                        throw new Failure(batch.baseOffset(), fault);
                    }
                }
            }
        }
        Method flush = Arrays.stream(MetadataBatchLoader.class.getMethods()).filter(it -> it.getName().equals("maybeFlushBatches")).findFirst().get();
        try {
            if (flush.getParameterCount() == 1) flush.invoke(loader[0], leader);
            else flush.invoke(loader[0], leader, true);
        } catch (InvocationTargetException thrown) {
            throw new Failure(-1, thrown.getCause());
        }
    }

    private static MetadataImage snapshotImage(File snapshot, long end) throws Throwable {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        int index = 0;
        try (FileRecords records = FileRecords.open(snapshot, false)) {
            for (RecordBatch batch : records.batches()) {
                if (batch.isControlBatch()) continue;
                for (Record record : batch) {
                    try {
                        delta.replay(message(record).message());
                    } catch (RuntimeException fault) {
                        throw new Failure(index, fault);
                    }
                    ++index;
                }
            }
        }
        delta.finishSnapshot();
        Constructor<?> provenance = MetadataProvenance.class.getConstructors()[0];
        List<Object> values = new ArrayList<>(List.of(end - 1, 1, 0L));
        if (provenance.getParameterCount() > 3) values.add(true);
        return delta.apply((MetadataProvenance) provenance.newInstance(values.toArray()));
    }

    private static ApiMessageAndVersion message(Record record) {
        return MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(record.value()), record.valueSize());
    }

    private static void openMetadataLog(File directory) throws Throwable {
        TopicPartition partition = new TopicPartition("__cluster_metadata", 0);
        Uuid id = new Uuid(0L, 1L);
        Object scheduler = Class.forName("org.apache.kafka.server.util.KafkaScheduler").getConstructor(int.class).newInstance(1);
        try {
            Object log;
            Class<?> type = any("org.apache.kafka.raft.internals.KafkaRaftLog", "kafka.raft.KafkaMetadataLog");
            if (type.getSimpleName().equals("KafkaRaftLog")) {
                Method create = method(type, "createLog", 7);
                Object settings = create.getParameterTypes()[5].getConstructors()[0].newInstance(CONFIG);
                log = create.invoke(null, partition, id, directory, Time.SYSTEM, scheduler, settings, 1);
            } else {
                Object settings = Class.forName("kafka.raft.MetadataLogConfig").getConstructors()[0].newInstance(
                    1 << 30, 8 << 20, 604800000L, 100L << 20, 604800000L, 8 << 20, 8 << 20, 60000L, 1);
                log = method(type, "apply", 6).invoke(null, partition, id, directory, Time.SYSTEM, scheduler, settings);
            }
            Object end = method(type, "endOffset", 0).invoke(log);
            Object epoch = method(type, "lastFetchedEpoch", 0).invoke(log);
            throw new Failure((Long) method(type, "startOffset", 0).invoke(log), new Exception("opened " + end + " " + epoch));
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }

    private static Object config() {
        Properties settings = new Properties();
        settings.put("process.roles", "broker,controller");
        settings.put("node.id", "1");
        settings.put("controller.quorum.voters", "1@localhost:9093");
        settings.put("controller.listener.names", "CONTROLLER");
        settings.put("listeners", "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093");
        settings.put("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT");
        try {
            return Class.forName("kafka.server.KafkaConfig").getConstructor(Map.class).newInstance(settings);
        } catch (ReflectiveOperationException unknown) {
            throw new IllegalStateException(unknown);
        }
    }

    private static Method method(Class<?> type, String name, int parameters) {
        Method found = Arrays.stream(type.getMethods())
            .filter(it -> it.getName().equals(name) && it.getParameterCount() == parameters && !it.isBridge()).findFirst().get();
        found.setAccessible(true);
        return found;
    }

    private static Class<?> any(String... names) throws ClassNotFoundException {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException next) {
                // another release's name
            }
        }
        throw new ClassNotFoundException(String.join(", ", names));
    }
}
