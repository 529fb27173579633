import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Loads partition directories as a starting broker does, with Kafka's own UnifiedLog, hundreds in one process.
 *
 * <p>Standard input is a JSON array of cases: the partition's directory ("dir", which is changed), whether the last
 * shutdown was clean ("clean"), the offsets of the checkpoints ("recovery_point", "log_start"), the topic's settings
 * ("settings"), up to which offset to seek ("seek_to", 0 for not at all), and whether to close the log as a clean
 * shutdown does ("close"), so that its files can be read, and whether producers expire by today's clock ("now"). Standard output has a JSON object a case:
 * whether the log was loaded ("starts"), the error if not ("error"), "log_start", "log_end", the size of each file that
 * is left ("files"), and the ranges of offsets that a consumer with its default settings is given when it seeks to each
 * of them ("reached"), and whether the heap was too small for any of it ("out_of_memory"). A load that takes longer than "seconds" fails with the error "waits". One source for every version: Loader.java.
 */
public class Judge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int DAY = 24 * 3600 * 1000;
    private static final int FETCH_BYTES = 1 << 20;
    private static final int MAX_POLL_RECORDS = 500;
    private static boolean isOutOfMemory;

    /** Never does anything, so that files stay where loading has left them. */
    private static final class Idle implements Scheduler {
        private final ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);

        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            return executor.schedule(() -> { }, 1000, TimeUnit.DAYS);
        }

        @Override
        public void resizeThreadPool(int size) {
        }
    }

    public static void main(String[] arguments) throws Throwable {
        PrintStream out = System.out;
        System.setOut(System.err);
        int status = 0;
        try {
            for (JsonNode plan : JSON.readTree(System.in)) {
                out.write(JSON.writeValueAsBytes(judgeInTime(plan)));
                out.write('\n');
            }
            out.flush();
        } catch (Throwable failure) { // threads of the logs would keep the process alive
            failure.printStackTrace();
            status = 1;
        }
        System.err.flush();
        Runtime.getRuntime().halt(status);
    }

    private static Map<String, Object> judgeInTime(JsonNode plan) throws Throwable {
        FutureTask<Map<String, Object>> task = new FutureTask<>(() -> judge(plan));
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        try {
            return task.get(plan.get("seconds").asLong(), TimeUnit.SECONDS);
        } catch (TimeoutException waiting) {
            return Map.of("starts", false, "error", "waits");
        }
    }

    private static Map<String, Object> judge(JsonNode plan) throws Exception {
        try {
            return judged(plan);
        } catch (Error | Exception failure) {
            throw failure;
        } catch (Throwable failure) {
            throw new Exception(failure);
        }
    }

    private static Map<String, Object> judged(JsonNode plan) throws Throwable {
        Map<String, Object> found = new LinkedHashMap<>();
        File dir = new File(plan.get("dir").asText());
        Map<String, String> settings = new HashMap<>();
        plan.get("settings").fields().forEachRemaining(it -> settings.put(it.getKey(), it.getValue().asText()));
        Loader log = null;
        isOutOfMemory = false;
        boolean isNow = plan.get("now").asBoolean();
        try {
            log = Loader.load(
                dir, new LogConfig(settings), plan.get("log_start").asLong(), plan.get("recovery_point").asLong(),
                new Idle(), isNow ? Time.SYSTEM : new OtherClock(OtherClock.EARLY),
                new ProducerStateManagerConfig(isNow ? DAY : Integer.MAX_VALUE, false), new LogDirFailureChannel(1),
                plan.get("clean").asBoolean());
        } catch (Throwable failure) {
            found.put("error", words(failure));
            isOutOfMemory = failure instanceof OutOfMemoryError;
        }
        found.put("starts", log != null);
        if (log != null) {
            found.put("log_start", log.logStartOffset());
            found.put("log_end", log.logEndOffset());
            Map<String, Long> files = new LinkedHashMap<>();
            for (File it : dir.listFiles()) {
                files.put(it.getName(), it.length());
            }
            found.put("files", files);
            found.put("reached", reached(log, plan.get("seek_to").asLong()));
            found.put("last_stable", log.lastStableOffset());
            if (plan.get("close").asBoolean()) {
                log.close();
            } else {
                log.closeHandlers();
            }
        }
        found.put("out_of_memory", isOutOfMemory);
        return found;
    }

    /** The ranges of offsets that seeks to them are answered with. */
    private static List<long[]> reached(Loader log, long until) throws Throwable {
        List<long[]> ranges = new ArrayList<>();
        for (long offset = log.logStartOffset(); offset < Math.min(until, log.logEndOffset()); offset++) {
            boolean isGiven;
            try {
                isGiven = isGiven(log, offset);
            } catch (Throwable failure) {
                isGiven = false;
                isOutOfMemory |= failure instanceof OutOfMemoryError;
            }
            if (!isGiven) {
                continue;
            }
            long[] last = ranges.isEmpty() ? null : ranges.get(ranges.size() - 1);
            if (last != null && last[1] == offset - 1) {
                last[1] = offset;
            } else {
                ranges.add(new long[] {offset, offset});
            }
        }
        return ranges;
    }

    /** What the consumer's CompletedFetch does with the first poll of a fetch from an offset. */
    private static boolean isGiven(Loader log, long offset) throws Throwable {
        Records records = log.read(offset, FETCH_BYTES);
        MemoryRecords fetched = records instanceof MemoryRecords ? (MemoryRecords) records : inMemory((FileRecords) records);
        boolean isGiven = false;
        int given = 0;
        long next = offset;
        try {
            for (RecordBatch batch : fetched.batches()) {
                if (batch.magic() >= RecordBatch.MAGIC_VALUE_V2) {
                    batch.ensureValid();
                }
                try (CloseableIterator<Record> each = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                    while (each.hasNext()) {
                        Record record = each.next();
                        if (record.offset() < next) {
                            continue;
                        }
                        record.ensureValid();
                        next = record.offset() + 1;
                        if (batch.isControlBatch()) {
                            continue;
                        }
                        record.key();
                        record.value();
                        isGiven |= record.offset() == offset;
                        if (++given == MAX_POLL_RECORDS) {
                            return isGiven;
                        }
                    }
                }
            }
        } catch (KafkaException failure) {
            return isGiven; // the records before it are handed out first
        }
        return isGiven;
    }

    private static MemoryRecords inMemory(FileRecords records) throws Exception {
        ByteBuffer buffer = ByteBuffer.allocate(records.sizeInBytes());
        records.readInto(buffer, 0);
        return MemoryRecords.readableRecords(buffer);
    }

    private static String words(Throwable failure) {
        StringBuilder words = new StringBuilder();
        for (Throwable it = failure; it != null; it = it.getCause()) {
            words.append(words.length() > 0 ? " < " : "").append(it);
        }
        return words.toString();
    }
}
