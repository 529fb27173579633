import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/** A partition that Kafka has loaded, by the classes of the version at hand: 4.0 and 4.1 have moved them. */
final class Loader {
    private static final Class<?> LOG =
        any("kafka.log.UnifiedLog", "org.apache.kafka.storage.internals.log.UnifiedLog");
    private static final Class<?> STATS =
        any("kafka.server.BrokerTopicStats", "org.apache.kafka.storage.log.metrics.BrokerTopicStats");
    private static final Method READ = of("read", 4);
    private final Object log;

    private Loader(Object log) {
        this.log = log;
    }

    static Loader load(
            File dir, LogConfig settings, long logStart, long recoveryPoint, Scheduler scheduler, Time clock,
            ProducerStateManagerConfig producers, LogDirFailureChannel failures, boolean isClean) throws Throwable {
        boolean isScala = LOG.getName().startsWith("kafka.");
        Object stats = STATS.getConstructor(boolean.class).newInstance(false);
        List<Object> values = new ArrayList<>(Arrays.asList(
            dir, settings, logStart, recoveryPoint, scheduler, stats, clock, 900000, producers, 600000, failures, isClean));
        values.addAll(isScala ? List.of(scala.Option.empty(), true) : List.of(Optional.empty()));
        values.addAll(List.of(new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER));
        return new Loader(call(of(isScala ? "apply" : "create", values.size()), null, values.toArray()));
    }

    long logStartOffset() throws Throwable {
        return (Long) call(of("logStartOffset", 0), log);
    }

    long logEndOffset() throws Throwable {
        return (Long) call(of("logEndOffset", 0), log);
    }

    /** The last stable offset once all of the log is replicated. */
    long lastStableOffset() throws Throwable {
        Arrays.stream(LOG.getMethods())
            .filter(method -> method.getName().equals("updateHighWatermark"))
            .filter(method -> method.getParameterTypes()[0] == long.class)
            .findFirst().orElseThrow().invoke(log, logEndOffset());
        return (Long) call(of("lastStableOffset", 0), log);
    }

    Records read(long offset, int size) throws Throwable {
        Object isolation = READ.getParameterTypes()[2].getField("LOG_END").get(null);
        Object fetched = call(READ, log, offset, size, isolation, true);
        return (Records) fetched.getClass().getField("records").get(fetched);
    }

    void close() throws Throwable {
        call(of("close", 0), log);
    }

    void closeHandlers() throws Throwable {
        boolean isQuiet = Arrays.stream(LOG.getMethods()).anyMatch(it -> it.getName().equals("closeQuietly")); // since 4.4
        call(of(isQuiet ? "closeQuietly" : "closeHandlers", 0), log);
    }

    private static Object call(Method method, Object on, Object... values) throws Throwable {
        try {
            return method.invoke(on, values);
        } catch (InvocationTargetException failure) {
            throw failure.getCause();
        }
    }

    private static Method of(String name, int parameters) {
        return Arrays.stream(LOG.getMethods())
            .filter(method -> method.getName().equals(name) && method.getParameterCount() == parameters)
            .findFirst().orElseThrow();
    }

    private static Class<?> any(String... names) {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException gone) {
                // the next version's
            }
        }
        throw new IllegalStateException(String.join(", ", names));
    }
}
