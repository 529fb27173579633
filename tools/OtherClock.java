import java.time.Duration;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;

/**
 * A clock that begins at another time. What a producer's expiry and retention go by is the age of a record,
 * so that the hour decides what is old; a day after 1970 began, no record is.
 */
final class OtherClock implements Time {
    static final long EARLY = Duration.ofDays(1).toMillis();
    private final long start;

    OtherClock(long now) {
        start = SYSTEM.milliseconds() - now;
    }

    @Override
    public long milliseconds() {
        return SYSTEM.milliseconds() - start;
    }

    @Override
    public long nanoseconds() {
        return SYSTEM.nanoseconds();
    }

    @Override
    public void sleep(long milliseconds) {
        SYSTEM.sleep(milliseconds);
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadline) throws InterruptedException {
        SYSTEM.waitObject(object, condition, deadline + start);
    }
}
