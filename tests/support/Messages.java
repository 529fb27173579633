// Reads lines "CLASS VERSION HEX", each a message, with Kafka's own generated classes, and answers
// with a line "HEX JSON": the message written again, and as Kafka's own JSON.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

public class Messages {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            short version = Short.parseShort(words[1]);
            byte[] bytes = HexFormat.of().parseHex(words.length > 2 ? words[2] : "");
            Message message = (Message) Class.forName(words[0]).getConstructor().newInstance();
            message.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), version);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(out), cache, version);
            Object json = Class.forName(words[0] + "JsonConverter")
                .getMethod("write", message.getClass(), short.class)
                .invoke(null, message, version);
            System.out.println(HexFormat.of().formatHex(out.array()) + " " + json);
        }
    }
}
