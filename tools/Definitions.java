import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarFile;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageSizeAccumulator;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.CompactArrayOf;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Prints as JSON what the classes of a Kafka release say of themselves: the fields of each message
 * in each version, the requests, the levels of features and the defaults of settings.
 *
 * <p>Argument: the directory with the jars.
 */
public class Definitions {
    private static final List<String> FEATURES = List.of(
            "TransactionVersion", "GroupVersion", "ShareVersion", "StreamsVersion",
            "EligibleLeaderReplicasVersion", "KRaftVersion");
    /** Classes with a ConfigDef, by the names under which releases have them. */
    private static final Map<String, List<String>> CONFIGS = Map.of(
            "topic", List.of("org.apache.kafka.storage.internals.log.LogConfig"),
            "broker", List.of("org.apache.kafka.server.config.AbstractKafkaConfig", "kafka.server.KafkaConfig"),
            "group", List.of("org.apache.kafka.coordinator.group.GroupConfig"),
            "client_metrics", List.of("org.apache.kafka.server.metrics.ClientMetricsConfigs"));

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("messages", messages(new File(arguments[0])));
        all.put("apis", apis());
        all.put("metadata_versions", levels("MetadataVersion"));
        Map<String, Object> features = new TreeMap<>();
        for (String name : FEATURES) {
            try {
                features.put(name, levels(name));
            } catch (ClassNotFoundException absent) {
                System.err.println("no " + name + " in this release");
            }
        }
        all.put("features", features);
        all.put("settings", settings());
        new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT).writeValue(System.out, all);
    }

    /** Each generated message with its id and its fields by version. */
    private static Map<String, Object> messages(File directory) throws Exception {
        Map<String, Object> messages = new TreeMap<>();
        for (File file : directory.listFiles()) {
            if (!file.getName().endsWith(".jar")) continue;
            try (JarFile jar = new JarFile(file)) {
                for (var entry : java.util.Collections.list(jar.entries())) {
                    String name = entry.getName();
                    if (!name.startsWith("org/apache/kafka/") || !name.endsWith(".class") || name.contains("$")) continue;
                    addMessage(messages, name.substring(0, name.length() - 6).replace('/', '.'));
                }
            }
        }
        return messages;
    }

    private static void addMessage(Map<String, Object> messages, String className) throws Exception {
        Class<?> type;
        Field lowest, highest, schemas;
        try {
            type = Class.forName(className, false, Definitions.class.getClassLoader());
            if (!Message.class.isAssignableFrom(type) || Modifier.isAbstract(type.getModifiers())) return;
            lowest = type.getField("LOWEST_SUPPORTED_VERSION");
            highest = type.getField("HIGHEST_SUPPORTED_VERSION");
            schemas = type.getField("SCHEMAS");
        } catch (LinkageError | ReflectiveOperationException noMessage) {
            return;
        }
        Message instance = (Message) type.getConstructor().newInstance();
        Map<String, Object> versions = new LinkedHashMap<>();
        for (int version = lowest.getShort(null); version <= highest.getShort(null); version++) {
            versions.put(String.valueOf(version), fields(((Schema[]) schemas.get(null))[version]));
        }
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("package", type.getPackageName());
        message.put("id", instance instanceof ApiMessage api && api.apiKey() >= 0 ? api.apiKey() : null);
        message.put("nullable_structs", nullableStructs(instance, highest.getShort(null)));
        message.put("versions", versions);
        if (messages.put(type.getSimpleName(), message) != null) {
            throw new IllegalStateException("two messages are named " + type.getSimpleName());
        }
    }

    /** The fields for structures that may be null, which no schema says: a message can be written without them. */
    private static List<String> nullableStructs(Message instance, short version) throws Exception {
        List<String> names = new ArrayList<>();
        for (Field field : instance.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) || !Message.class.isAssignableFrom(field.getType())) continue;
            field.setAccessible(true);
            Object value = field.get(instance);
            field.set(instance, null);
            try {
                instance.addSize(new MessageSizeAccumulator(), new ObjectSerializationCache(), version);
                names.add(field.getName().replaceAll("(?<=[a-z0-9])(?=[A-Z])", "_").toLowerCase(Locale.ROOT));
            } catch (NullPointerException required) {
                field.set(instance, value);
            }
        }
        return names;
    }

    private static List<Object> fields(Schema schema) throws Exception {
        List<Object> fields = new ArrayList<>();
        for (BoundField field : schema.fields()) {
            fields.add(field(field.def));
        }
        return fields;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> field(org.apache.kafka.common.protocol.types.Field field) throws Exception {
        Map<String, Object> result = new LinkedHashMap<>();
        if (field.type instanceof TaggedFields) {
            Field map = TaggedFields.class.getDeclaredField("fields");
            map.setAccessible(true);
            Map<String, Object> tagged = new LinkedHashMap<>();
            for (var each : ((Map<Integer, org.apache.kafka.common.protocol.types.Field>) map.get(field.type)).entrySet()) {
                tagged.put(String.valueOf(each.getKey()), field(each.getValue()));
            }
            result.put("tagged", tagged);
            return result;
        }
        Type element = field.type.isArray() ? field.type.arrayElementType().get() : field.type;
        result.put("name", field.name);
        String typeName = element instanceof Schema ? "struct" : element.toString().toLowerCase(Locale.ROOT);
        result.put("type", element instanceof Schema && element.isNullable() ? "nullable_struct" : typeName);
        if (field.type.isArray()) {
            String length = field.type instanceof CompactArrayOf ? "compact" : "plain";
            result.put("array", field.type.isNullable() ? "nullable " + length : length);
        }
        if (element instanceof Schema) {
            result.put("fields", fields((Schema) element));
        }
        return result;
    }

    private static List<Object> apis() {
        List<Object> apis = new ArrayList<>();
        for (ApiKeys key : ApiKeys.values()) {
            Map<String, Object> headers = new LinkedHashMap<>();
            short last = key.messageType.highestSupportedVersion(true);
            for (short version = key.messageType.lowestSupportedVersion(); version <= last; version++) {
                headers.put(String.valueOf(version),
                        List.of(key.messageType.requestHeaderVersion(version), key.messageType.responseHeaderVersion(version)));
            }
            Map<String, Object> api = new LinkedHashMap<>();
            api.put("key", key.id);
            api.put("name", key.name);
            api.put("headers", headers);
            apis.add(api);
        }
        return apis;
    }

    /** The names and feature levels of an enum of org.apache.kafka.server.common. */
    private static List<Object> levels(String enumName) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.server.common." + enumName);
        List<Object> levels = new ArrayList<>();
        for (Object constant : type.getEnumConstants()) {
            Object level = type.getMethod("featureLevel").invoke(constant);
            levels.add(List.of(enumName.equals("MetadataVersion") ? constant.toString() : ((Enum<?>) constant).name(), level));
        }
        return levels;
    }

    /** The settings of topics, brokers, groups and client metrics: type and default of each. */
    private static Map<String, Object> settings() throws Exception {
        Map<String, Object> settings = new TreeMap<>();
        for (var each : CONFIGS.entrySet()) {
            for (String className : each.getValue()) {
                ConfigDef definition = definition(className);
                if (definition == null || settings.containsKey(each.getKey())) continue;
                Map<String, Object> byName = new TreeMap<>();
                for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
                    Map<String, Object> setting = new LinkedHashMap<>();
                    setting.put("type", key.type.toString());
                    boolean isRequired = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE;
                    setting.put("default", isRequired || key.defaultValue == null ? null : String.valueOf(key.defaultValue));
                    byName.put(key.name, setting);
                }
                settings.put(each.getKey(), byName);
            }
        }
        return settings;
    }

    private static ConfigDef definition(String className) throws Exception {
        Class<?> type;
        try {
            type = Class.forName(className);
        } catch (ClassNotFoundException absent) {
            return null;
        }
        for (String name : List.of("configDef", "configDefCopy", "CONFIG")) {
            try {
                var method = type.getDeclaredMethod(name);
                method.setAccessible(true);
                if (ConfigDef.class.isAssignableFrom(method.getReturnType()) && Modifier.isStatic(method.getModifiers())) {
                    return (ConfigDef) method.invoke(null);
                }
            } catch (NoSuchMethodException next) {
                // another release's name
            }
        }
        for (String name : List.of("CONFIG_DEF", "CONFIG")) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                if (ConfigDef.class.isAssignableFrom(field.getType())) return (ConfigDef) field.get(null);
            } catch (NoSuchFieldException next) {
                // another release's name
            }
        }
        return null;
    }
}
