// Reads keys, one a line in hex, and answers with the hash and, of 12, the partition that Kafka's
// producer chooses.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

public class Keys {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            byte[] key = HexFormat.of().parseHex(line);
            int partition = BuiltInPartitioner.partitionForKey(key, 12);
            System.out.println(Utils.murmur2(key) + " " + partition);
        }
    }
}
