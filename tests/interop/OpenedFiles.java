import java.io.File;
import java.util.concurrent.Callable;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.TimeIndex;
import org.apache.kafka.storage.internals.log.TransactionIndex;

/** Opens the files of a directory as a broker does; prints for each its name and "opened", or the exception. */
public class OpenedFiles {
    private static final int MAX_BYTES = 1 << 20;

    public static void main(String[] arguments) {
        for (File file : new File(arguments[0]).listFiles()) {
            String name = file.getName();
            Callable<?> open = name.endsWith(".log") ? () -> FileRecords.open(file, true)
                : name.endsWith(".timeindex") ? () -> new TimeIndex(file, 0L, MAX_BYTES, true)
                : name.endsWith(".txnindex") ? () -> new TransactionIndex(0L, file).allAbortedTxns()
                : name.endsWith(".index") ? () -> new OffsetIndex(file, 0L, MAX_BYTES, true)
                : name.endsWith(".snapshot") ? () -> ProducerStateManager.readSnapshot(file)
                : null;
            if (open != null) {
                System.out.println(name + " " + outcome(open));
            }
        }
    }

    private static String outcome(Callable<?> open) {
        try {
            open.call();
            return "opened";
        } catch (Exception | InternalError error) {
            return error.toString();
        }
    }
}
