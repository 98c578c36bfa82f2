// A round trip by influxdb-java, JSON and MessagePack. Arguments: host, port.

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.influxdb.BatchOptions;
import org.influxdb.InfluxDB;
import org.influxdb.InfluxDBException;
import org.influxdb.InfluxDBFactory;
import org.influxdb.annotation.Column;
import org.influxdb.annotation.Measurement;
import org.influxdb.dto.BatchPoints;
import org.influxdb.dto.BoundParameterQuery.QueryBuilder;
import org.influxdb.dto.Point;
import org.influxdb.dto.Pong;
import org.influxdb.dto.Query;
import org.influxdb.dto.QueryResult;
import org.influxdb.impl.InfluxDBResultMapper;
import okhttp3.OkHttpClient;

public class InfluxdbJava {
    @Measurement(name = "cpu")
    public static class Cpu {
        @Column(name = "time") public java.time.Instant time;
        @Column(name = "host", tag = true) public String host;
        @Column(name = "f") public Double f;
        @Column(name = "i") public Long i;
        @Column(name = "s") public String s;
        @Column(name = "b") public Boolean b;
    }

    interface Action { void run() throws Exception; }

    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(String.valueOf(what));
    }

    static void refused(Class<? extends Exception> kind, String words, Action action) throws Exception {
        try {
            action.run();
        } catch (Exception error) {
            check(kind.isInstance(error) && error.getMessage().contains(words), error);
            return;
        }
        throw new AssertionError("not refused: " + words);
    }

    /** The library's own ten seconds may be too short for a slow machine. */
    static OkHttpClient.Builder patient() {
        return new OkHttpClient.Builder().readTimeout(180, TimeUnit.SECONDS);
    }

    static Point point(long second, String host) {
        return Point.measurement("cpu").time(second, TimeUnit.SECONDS).tag("host", host)
            .addField("f", 1.5 * second).addField("i", second).addField("s", "text é").addField("b", second % 2 == 0).build();
    }

    static List<List<Object>> values(QueryResult result) {
        check(!result.hasError() && !result.getResults().get(0).hasError(), result);
        return result.getResults().get(0).getSeries().get(0).getValues();
    }

    public static void main(String[] arguments) throws Exception {
        String url = "http://" + arguments[0] + ":" + arguments[1];
        InfluxDB nobody = InfluxDBFactory.connect(url, patient());
        refused(InfluxDBException.class, "create admin user first", () -> nobody.query(new Query("SHOW DATABASES")));
        nobody.query(new Query("CREATE USER ann WITH PASSWORD 'secret' WITH ALL PRIVILEGES"));
        InfluxDB wrong = InfluxDBFactory.connect(url, "ann", "wrong", patient());
        refused(InfluxDBException.AuthorizationFailedException.class, "authorization failed",
            () -> wrong.query(new Query("SHOW DATABASES")));
        for (InfluxDB.ResponseFormat format : InfluxDB.ResponseFormat.values()) {
            roundTrip(InfluxDBFactory.connect(url, "ann", "secret", patient(), format), format);
        }
        System.out.println("ok");
        System.exit(0);
    }

    static void roundTrip(InfluxDB client, InfluxDB.ResponseFormat format) throws Exception {
        Pong pong = client.ping();
        check(pong.isGood() && pong.getVersion().equals("1.8.10"), pong);
        check(client.version().equals("1.8.10"), client.version());
        client.query(new Query("CREATE DATABASE d"));
        client.setDatabase("d");
        client.query(new Query("CREATE RETENTION POLICY week ON d DURATION 7d REPLICATION 1"));

        // Packed, in batches and one by one.
        client.enableGzip();
        BatchPoints batch = BatchPoints.database("d").retentionPolicy("autogen").build();
        for (long second = 1; second <= 5; second++) batch.point(point(second, "a"));
        client.write(batch);
        client.disableGzip();
        LinkedBlockingQueue<Throwable> failures = new LinkedBlockingQueue<>();
        client.enableBatch(BatchOptions.DEFAULTS.actions(3).flushDuration(50)
            .exceptionHandler((points, failure) -> failures.add(failure)));
        for (long second = 6; second <= 10; second++) client.write(point(second, "b"));
        client.flush();
        check(failures.isEmpty(), failures);
        client.disableBatch();
        client.write("d", "autogen", InfluxDB.ConsistencyLevel.ONE, "line,host=a v=1i 1");

        // It does not wait for a batch that its own thread is sending.
        Query count = new Query("SELECT count(f) FROM cpu");
        String counted = "";
        for (int tries = 0; tries < 2000 && !counted.startsWith("10"); tries++) {
            counted = values(client.query(count)).get(0).get(1).toString();
            if (!counted.startsWith("10")) Thread.sleep(50);
        }
        check(counted.startsWith("10"), counted);
        Query bound = QueryBuilder.newQuery("SELECT * FROM cpu WHERE host = $host").forDatabase("d").bind("host", "a").create();
        QueryResult found = client.query(bound);
        check(values(found).size() == 5, found);
        // Its mapper takes the integers of MessagePack, as short as they come from InfluxDB too, for another type.
        if (format == InfluxDB.ResponseFormat.JSON) {
            Cpu row = new InfluxDBResultMapper().toPOJO(found, Cpu.class).get(1);
            check(row.f == 3.0 && row.i == 2 && row.s.equals("text é") && row.b && row.host.equals("a"), row);
            check(row.time.getEpochSecond() == 2, row.time);
        }
        List<List<Object>> times = values(client.query(new Query("SELECT f FROM cpu LIMIT 1", "d"), TimeUnit.SECONDS));
        check(((Number) times.get(0).get(0)).longValue() == 1, times);
        if (format == InfluxDB.ResponseFormat.JSON) {
            List<QueryResult> chunks = new ArrayList<>();
            LinkedBlockingQueue<String> ends = new LinkedBlockingQueue<>();
            client.query(new Query("SELECT f FROM cpu", "d"), 4, (cancel, chunk) -> chunks.add(chunk),
                () -> ends.add("done"), failure -> ends.add(failure.toString()));
            String end = ends.poll(20, TimeUnit.SECONDS);
            check("done".equals(end) && chunks.size() >= 3, end);
        }

        refused(InfluxDBException.class, "error parsing query", () -> client.query(new Query("SELEC")));
        refused(InfluxDBException.DatabaseNotFoundException.class, "database not found",
            () -> client.write("nowhere", "autogen", point(1, "a")));
        refused(InfluxDBException.FieldTypeConflictException.class, "field type conflict",
            () -> client.write("d", "autogen", InfluxDB.ConsistencyLevel.ONE, "line,host=a v=\"text\" 2"));
        refused(InfluxDBException.UnableToParseException.class, "unable to parse",
            () -> client.write("d", "autogen", InfluxDB.ConsistencyLevel.ONE, "line"));
        // It skips the errors of statements in MessagePack.
        if (format == InfluxDB.ResponseFormat.JSON) {
            String error = client.query(new Query("SELECT f FROM nowhere..cpu")).getResults().get(0).getError();
            check(error.contains("database not found"), error);
        }
        client.query(new Query("DROP RETENTION POLICY week ON d"));
        client.query(new Query("DROP DATABASE d"));
        client.close();
    }
}
