// jedis and lettuce. The argument says which. README.md says what is read and printed.

import com.google.gson.Gson;
import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanCursor;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.ExecutionException;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;

public class Conformance {
    static class Scenario {
        List<List<String>> commands, pipeline, prepare, operations;
        String transaction, scan;
        int pause_ms;
    }

    interface Client {
        Object call(List<String> command) throws Exception;
        Object pipeline(List<List<String>> commands) throws Exception;
        default Object transaction(String key) throws Exception { throw new UnsupportedOperationException("not offered in a cluster"); }
        default Object watched(String key) throws Exception { throw new UnsupportedOperationException("not offered in a cluster"); }
        int scan(String pattern) throws Exception;
        boolean isRefusal(Throwable error);
    }

    static String flat(Object reply) {
        if (reply == null) return "nil";
        if (reply instanceof byte[] bytes) return new String(bytes, StandardCharsets.UTF_8);
        if (reply instanceof Map<?, ?> map) {
            List<Object> items = new ArrayList<>();
            map.forEach((key, value) -> { items.add(key); items.add(value); });
            return flat(items);
        }
        if (reply instanceof redis.clients.jedis.util.KeyValue<?, ?> pair) return flat(pair.getKey()) + " " + flat(pair.getValue());
        if (reply instanceof Collection<?> items) {
            StringJoiner words = new StringJoiner(" ");
            items.forEach(item -> words.add(flat(item)));
            return words.toString();
        }
        if (reply instanceof Double number && number == Math.rint(number)) return String.valueOf(number.longValue());
        return reply.toString();
    }

    static void say(Object... words) {
        StringJoiner line = new StringJoiner(" ");
        for (Object word : words) line.add(String.valueOf(word).replace('\n', ' '));
        System.out.println(line);
        System.out.flush();
    }

    static Client jedis(String[] nodes) {
        Set<HostAndPort> places = new HashSet<>();
        for (String node : nodes) places.add(HostAndPort.from(node));
        var client = redis.clients.jedis.RedisClusterClient.create(places);
        return new Client() {
            public Object call(List<String> command) {
                String[] rest = command.subList(1, command.size()).toArray(new String[0]);
                return client.sendCommand(rest[0], () -> command.get(0).getBytes(), rest);
            }
            public Object pipeline(List<List<String>> commands) {
                List<redis.clients.jedis.Response<Long>> replies = new ArrayList<>();
                try (var pipeline = client.pipelined()) {
                    for (List<String> command : commands) replies.add(pipeline.rpush(command.get(1), command.get(2)));
                }
                return replies.stream().map(redis.clients.jedis.Response::get).toList();
            }
            public Object transaction(String key) {
                try (var transaction = client.transaction(true)) {
                    transaction.set(key, "1");
                    transaction.incr(key);
                    return transaction.exec();
                }
            }
            public Object watched(String key) {
                try (var transaction = client.transaction(false)) {
                    transaction.watch(key);
                    client.set(key, "meanwhile");
                    transaction.multi();
                    transaction.set(key, "lost");
                    return transaction.exec();
                }
            }
            public int scan(String pattern) {
                Set<String> found = new HashSet<>();
                client.getClusterNodes().values().forEach(pool -> {
                    try (Jedis node = new Jedis(pool.getResource())) {
                        String cursor = ScanParams.SCAN_POINTER_START;
                        do {
                            var page = node.scan(cursor, new ScanParams().match(pattern).count(20));
                            found.addAll(page.getResult());
                            cursor = page.getCursor();
                        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
                    }
                });
                return found.size();
            }
            public boolean isRefusal(Throwable error) { return error instanceof JedisDataException; }
        };
    }

    static Client lettuce(String[] nodes) {
        List<RedisURI> places = new ArrayList<>();
        for (String node : nodes) places.add(RedisURI.create("redis://" + node));
        var connection = RedisClusterClient.create(places).connect();
        return new Client() {
            RedisFuture<List<Object>> send(List<String> command) {
                ProtocolKeyword name = new ProtocolKeyword() {
                    public byte[] getBytes() { return command.get(0).getBytes(); }
                    public String toString() { return command.get(0); }
                };
                var arguments = new CommandArgs<>(StringCodec.UTF8).addKey(command.get(1));
                arguments.addValues(command.subList(2, command.size()));
                return connection.async().dispatch(name, new ArrayOutput<>(StringCodec.UTF8), arguments);
            }
            // As the synchronous commands wait: for the time-out of the connection.
            Object await(RedisFuture<List<Object>> reply) throws Exception {
                return io.lettuce.core.internal.Futures.awaitOrCancel(reply, 60, java.util.concurrent.TimeUnit.SECONDS);
            }
            public Object call(List<String> command) throws Exception { return await(send(command)); }
            public Object pipeline(List<List<String>> commands) throws Exception {
                List<Object> replies = new ArrayList<>();
                for (RedisFuture<List<Object>> reply : commands.stream().map(this::send).toList()) replies.add(await(reply));
                return replies;
            }
            public int scan(String pattern) {
                Set<String> found = new HashSet<>();
                ScanCursor cursor = ScanCursor.INITIAL;
                do {
                    KeyScanCursor<String> page = connection.sync().scan(cursor, ScanArgs.Builder.matches(pattern).limit(20));
                    found.addAll(page.getKeys());
                    cursor = page;
                } while (!cursor.isFinished());
                return found.size();
            }
            public boolean isRefusal(Throwable error) { return error instanceof RedisCommandExecutionException; }
        };
    }

    interface Check { Object run() throws Exception; }

    static void check(String what, Check check) {
        try {
            say(what, flat(check.run()));
        } catch (UnsupportedOperationException error) {
            say("note", what + ": not offered in a cluster");
        } catch (Exception error) {
            say(what, error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Scenario scenario = new Gson().fromJson(Files.readString(Path.of(System.getenv("SCENARIO"))), Scenario.class);
        String[] nodes = System.getenv("NODES").split(",");
        Client client = arguments[0].equals("jedis") ? jedis(nodes) : lettuce(nodes);
        say("version", arguments[1]);
        for (List<String> command : scenario.prepare) client.call(command);
        if (System.getenv("CHECKS") != null) {
            for (int number = 0; number < scenario.commands.size(); number++) {
                List<String> command = scenario.commands.get(number);
                if (command.get(0).equals("SLEEP")) Thread.sleep(Long.parseLong(command.get(1)));
                else check("reply " + number, () -> client.call(command));
            }
            check("piped", () -> client.pipeline(scenario.pipeline));
            check("transaction", () -> client.transaction(scenario.transaction));
            check("watched", () -> client.watched(scenario.transaction));
            check("scanned", () -> client.scan(scenario.scan));
        }
        say("ready");
        double end = System.nanoTime() + Double.parseDouble(System.getenv("SECONDS")) * 1e9;
        for (int number = 0; number < scenario.operations.size() && System.nanoTime() < end; number++) {
            long began = System.nanoTime();
            String outcome = "done", reply;
            try {
                reply = flat(client.call(scenario.operations.get(number)));
            } catch (Exception error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                outcome = client.isRefusal(cause) ? "refused" : "unknown";
                reply = cause.toString();
            }
            say("op", number, outcome, (System.nanoTime() - began) / 1_000_000, reply);
            Thread.sleep(scenario.pause_ms);
        }
        say("end");
        Runtime.getRuntime().halt(0);
    }
}
