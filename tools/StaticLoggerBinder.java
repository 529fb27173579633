package org.slf4j.impl;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import org.slf4j.ILoggerFactory;
import org.slf4j.Logger;
import org.slf4j.Marker;
import org.slf4j.helpers.FormattingTuple;
import org.slf4j.helpers.MessageFormatter;
import org.slf4j.spi.LoggerFactoryBinder;

/** What Kafka logs at a level goes to a listener, whichever logging library its version comes with. */
public final class StaticLoggerBinder implements LoggerFactoryBinder {
    public static final String REQUESTED_API_VERSION = "1.6";
    private static final StaticLoggerBinder ONE = new StaticLoggerBinder();
    private static final Map<String, BiConsumer<String, Throwable>> LISTENERS = new ConcurrentHashMap<>();

    public static StaticLoggerBinder getSingleton() {
        return ONE;
    }

    /** Give what is logged at a level from now on to a listener: the words, and the exception or null. */
    public static void listen(String level, BiConsumer<String, Throwable> to) {
        LISTENERS.put(level, to);
    }

    @Override
    public ILoggerFactory getLoggerFactory() {
        return name -> (Logger) Proxy.newProxyInstance(
            Logger.class.getClassLoader(), new Class<?>[] {Logger.class}, (it, method, values) -> answer(name, method, values));
    }

    @Override
    public String getLoggerFactoryClassStr() {
        return StaticLoggerBinder.class.getName();
    }

    private static Object answer(String name, Method method, Object[] values) throws Exception {
        if (method.getDeclaringClass() == Object.class) {
            return method.invoke(name, values);
        }
        BiConsumer<String, Throwable> listener = LISTENERS.get(method.getName());
        if (listener != null) {
            List<Object> every = new ArrayList<>();
            for (Object value : values) {
                every.addAll(value instanceof Object[] ? Arrays.asList((Object[]) value) : Arrays.asList(value));
            }
            every.removeIf(value -> value instanceof Marker);
            FormattingTuple said = MessageFormatter.arrayFormat(
                String.valueOf(every.get(0)), every.subList(1, every.size()).toArray());
            listener.accept(said.getMessage(), said.getThrowable());
        }
        if (method.getReturnType() == boolean.class) {
            return LISTENERS.keySet().stream().anyMatch(it -> method.getName().equalsIgnoreCase("is" + it + "Enabled"));
        }
        return method.getReturnType() == String.class ? name : null;
    }
}
