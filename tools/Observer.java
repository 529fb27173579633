import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Exit;
import org.slf4j.impl.StaticLoggerBinder;

/**
 * Starts of Kafka's KRaft server on log directories that may be damaged, and what became of each.
 *
 * <p>Standard input is JSON: "parallel", how many servers may run at once, and "starts", a list of plans as
 * in Broker.java without "isolation" but with "as_is", for directories that are formatted already, and with "probes": for each topic the isolation levels to read it with
 * ("isolations"), timestamps to look up ("times") and offsets to begin a read at ("seeks"). Standard output
 * has one JSON object a start, in their order: whether the server came up ("up"), why it did not or what it
 * logged as errors ("errors"), and for each topic its log end offset, its reads, look-ups and seeks.
 */
public class Observer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    /** A consumer that gets neither records nor an error for so long is stuck. */
    private static final Duration STUCK = Duration.ofSeconds(30);
    private static final Duration LOOK_UP = Duration.ofSeconds(8);
    /** A server that is neither up nor down for so long shows nothing. */
    private static final Duration STARTING = Duration.ofSeconds(150);
    private static final int READERS = 6;
    /** A server that changes nothing for so long has done what it does at once. */
    private static final Duration CALM = Duration.ofSeconds(3);
    /** The start that a thread, and all that it starts, belongs to. */
    private static final InheritableThreadLocal<Start> CURRENT = new InheritableThreadLocal<>();

    /** What stops the thread that tries to end the process. */
    private static final class Halted extends Error {
        Halted(String words) {
            super(words);
        }
    }

    /** One start of a server. */
    private static final class Start {
        final CompletableFuture<Boolean> up = new CompletableFuture<>();
        /** Done when the server has tried to end the process. */
        final CompletableFuture<Void> down = new CompletableFuture<>();
        final List<String> errors = new ArrayList<>();

        synchronized void log(String words) {
            errors.add(words);
        }

        synchronized List<String> logged() {
            return new ArrayList<>(errors);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Exit.setExitProcedure(Observer::halted);
        Exit.setHaltProcedure(Observer::halted);
        StaticLoggerBinder.listen("error", (said, failure) -> { // each start is given what its threads log
            Start start = CURRENT.get();
            if (start != null) {
                start.log(failure == null ? said : said + " < " + words(failure));
            }
        });
        JsonNode plan = JSON.readTree(System.in);
        ExecutorService servers = Executors.newFixedThreadPool(plan.get("parallel").asInt());
        List<Future<Map<String, Object>>> done = new ArrayList<>();
        for (JsonNode start : plan.get("starts")) {
            done.add(servers.submit(() -> observe(start)));
        }
        int status = 0;
        try {
            for (Future<Map<String, Object>> it : done) {
                out.write(JSON.writeValueAsBytes(it.get()));
                out.write('\n');
            }
            out.flush();
        } catch (Throwable failure) { // the threads of servers would keep the process alive
            failure.printStackTrace();
            status = 1;
        }
        System.err.flush();
        Runtime.getRuntime().halt(status);
    }

    private static void halted(int status, String message) {
        Start start = CURRENT.get();
        if (start != null) {
            start.up.complete(false);
            start.down.complete(null);
        }
        throw new Halted("exit status " + status);
    }

    /** Start a server, look at each topic, and stop it. */
    private static Map<String, Object> observe(JsonNode plan) throws Exception {
        Start start = new Start();
        Properties settings = new Properties();
        plan.get("server").fields().forEachRemaining(it -> settings.put(it.getKey(), it.getValue().asText()));
        settings.put("node.id", "1");
        KafkaConfig config = KafkaConfig.fromProps(settings, false);
        if (!plan.path("as_is").asBoolean()) {
            Broker.format(Path.of(config.metadataLogDir()), plan.get("topics"));
        }
        if (plan.has("instead")) { // files of the log directory that formatting has just written
            for (Map.Entry<String, JsonNode> it : plan.get("instead").properties()) {
                Files.write(Path.of(config.metadataLogDir(), it.getKey()), it.getValue().binaryValue());
            }
        }
        CompletableFuture<KafkaRaftServer> made = new CompletableFuture<>();
        Thread starter = new Thread(() -> {
            CURRENT.set(start);
            try {
                String now = settings.getProperty("clock", Long.toString(OtherClock.EARLY));
                KafkaRaftServer server = new KafkaRaftServer(config, new OtherClock(Long.parseLong(now)));
                made.complete(server);
                server.startup();
                start.up.complete(true);
            } catch (Throwable failure) {
                start.log(words(failure));
                start.up.complete(false);
                made.complete(null);
            }
        });
        starter.setDaemon(true);
        starter.start();
        Map<String, Object> result = new LinkedHashMap<>();
        boolean up = start.up.get(STARTING.toSeconds(), TimeUnit.SECONDS);
        Map<String, Object> topics = new LinkedHashMap<>();
        try {
            if (up) {
                CompletableFuture<Map<String, Object>> looks = new CompletableFuture<>();
                look(settings.getProperty("listeners"), plan.get("probes"), looks);
                CompletableFuture.anyOf(looks, start.down).get();
                if (start.down.isDone()) { // it ended itself after it had come up
                    up = false;
                } else {
                    rest(Path.of(settings.getProperty("log.dirs").split(",")[0]), plan.get("pause").asLong());
                    topics.putAll(looks.get());
                }
            }
        } finally {
            stop(made.getNow(null), up);
        }
        result.put("up", up);
        result.put("errors", start.logged());
        result.put("topics", topics);
        return result;
    }

    /** Wait until nothing has changed in a directory for a while, or for as many milliseconds. */
    private static void rest(Path data, long most) throws Exception {
        long end = System.nanoTime() + Duration.ofMillis(most).toNanos();
        long still = System.nanoTime() + CALM.toNanos();
        Map<Path, Long> before = sizes(data);
        while (System.nanoTime() < Math.min(end, still)) {
            Thread.sleep(100);
            Map<Path, Long> now = sizes(data);
            if (!now.equals(before)) {
                still = System.nanoTime() + CALM.toNanos();
                before = now;
            }
        }
    }

    /** The files of the partitions in a directory, but those of the metadata log, which grows by itself. */
    private static Map<Path, Long> sizes(Path data) throws Exception {
        Map<Path, Long> found = new LinkedHashMap<>();
        try (Stream<Path> files = Files.walk(data)) {
            for (Path file : (Iterable<Path>) files::iterator) {
                if (!file.toString().contains("__cluster_metadata") && !file.getParent().equals(data)) {
                    found.put(file, file.toFile().length());
                }
            }
        } catch (UncheckedIOException vanished) {
            return Map.of();
        }
        return found;
    }

    /** Stop a server; one that did not come up may not be able to stop, either. */
    private static void stop(KafkaRaftServer server, boolean up) throws Exception {
        if (server == null) {
            return;
        }
        CompletableFuture<Void> stopped = new CompletableFuture<>();
        Thread stopper = new Thread(() -> {
            try {
                server.shutdown();
                if (up) {
                    server.awaitShutdown();
                }
            } catch (Throwable failure) {
                System.err.println(words(failure));
            }
            stopped.complete(null);
        });
        stopper.setDaemon(true);
        stopper.start();
        try {
            stopped.get(up ? 60 : 5, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            System.err.println("a server did not stop");
        }
    }

    /** Look at all topics, several at once, in threads of its own. */
    private static void look(String listeners, JsonNode probes, CompletableFuture<Map<String, Object>> looks) {
        Thread looker = new Thread(() -> {
            try {
                looks.complete(lookAtAll(listeners, probes));
            } catch (Throwable failure) {
                looks.completeExceptionally(failure);
            }
        });
        looker.setDaemon(true);
        looker.start();
    }

    private static Map<String, Object> lookAtAll(String listeners, JsonNode probes) throws InterruptedException {
        Map<String, Object> topics = new LinkedHashMap<>();
        String server = listeners.replaceAll(".*PLAINTEXT://([^,]*).*", "$1");
        ExecutorService readers = Executors.newFixedThreadPool(READERS);
        Map<String, Future<Map<String, Object>>> done = new LinkedHashMap<>();
        probes.fields().forEachRemaining(
            it -> done.put(it.getKey(), readers.submit(() -> lookAt(server, it.getKey(), it.getValue()))));
        for (Map.Entry<String, Future<Map<String, Object>>> it : done.entrySet()) {
            try {
                topics.put(it.getKey(), it.getValue().get());
            } catch (ExecutionException failure) {
                topics.put(it.getKey(), Map.of("failed", words(failure.getCause())));
            }
        }
        readers.shutdown();
        return topics;
    }

    private static Map<String, Object> lookAt(String server, String topic, JsonNode probe) {
        Map<String, Object> found = new LinkedHashMap<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        Map<String, Object> reads = new LinkedHashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(server, "read_uncommitted")) {
            consumer.assign(List.of(partition));
            found.put("log_start", consumer.beginningOffsets(List.of(partition), PATIENCE).get(partition));
            found.put("log_end", consumer.endOffsets(List.of(partition), PATIENCE).get(partition));
        }
        for (JsonNode isolation : probe.get("isolations")) {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(server, isolation.asText())) {
                reads.put(isolation.asText(), read(consumer, partition, -1, Integer.MAX_VALUE));
            }
        }
        found.put("reads", reads);
        List<Object> seeks = new ArrayList<>();
        List<Object> times = new ArrayList<>();
        if (probe.get("seeks").size() + probe.get("times").size() > 0) {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(server, "read_uncommitted")) {
                for (JsonNode offset : probe.get("seeks")) {
                    seeks.add(read(consumer, partition, offset.asLong(), 1));
                }
                for (JsonNode time : probe.get("times")) {
                    times.add(lookUp(consumer, partition, time.asLong()));
                }
            }
        }
        found.put("seeks", seeks);
        found.put("times", times);
        return found;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String server, String isolation) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", server,
            "isolation.level", isolation,
            "enable.auto.commit", "false",
            "fetch.max.wait.ms", "100",
            "allow.auto.create.topics", "false");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(settings, bytes, bytes);
    }

    /** Read from an offset, or the first one (-1), to the end, the second error at one place, or a standstill. */
    private static Map<String, Object> read(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long from, int most) {
        List<Long> offsets = new ArrayList<>();
        String error = null;
        consumer.assign(List.of(partition));
        long end = consumer.endOffsets(List.of(partition), PATIENCE).get(partition);
        if (from < 0) {
            consumer.seekToBeginning(List.of(partition));
        } else {
            consumer.seek(partition, from);
        }
        long position = consumer.position(partition, PATIENCE);
        long deadline = System.nanoTime() + STUCK.toNanos();
        while (position < end && offsets.size() < most) {
            try {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    offsets.add(record.offset());
                }
            } catch (Exception failure) {
                if (error != null) {
                    break;
                }
                error = words(failure);
                continue;
            }
            long now = consumer.position(partition, PATIENCE);
            if (now != position) {
                position = now;
                error = null;
                deadline = System.nanoTime() + STUCK.toNanos();
            } else if (System.nanoTime() > deadline) {
                error = "stuck";
                break;
            }
        }
        Map<String, Object> read = new LinkedHashMap<>();
        read.put("offsets", offsets);
        read.put("position", consumer.position(partition, PATIENCE));
        read.put("error", error);
        return read;
    }

    /** The offset that a look-up by time finds, null where it finds none, or the words of its error. */
    private static Object lookUp(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long time) {
        try {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time), LOOK_UP).get(partition);
            return found == null ? null : found.offset();
        } catch (Exception failure) {
            return words(failure);
        }
    }

    /** An error with its causes. */
    private static String words(Throwable failure) {
        StringBuilder words = new StringBuilder();
        for (Throwable it = failure; it != null; it = it.getCause()) {
            words.append(words.length() > 0 ? " < " : "").append(it);
        }
        return words.toString();
    }
}
