// The JDBC driver of Arrow Flight SQL: queries, parameters, changes, batches, what there is.
import java.sql.*;
import java.util.ArrayList;
import java.util.List;

public class FlightJdbc {
    static Connection connection;

    static String rows(ResultSet rows) throws SQLException {
        StringBuilder all = new StringBuilder();
        int count = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            for (int column = 1; column <= count; column++) {
                all.append(rows.getString(column)).append(column == count ? ";" : ",");
            }
        }
        rows.close();
        return all.toString();
    }

    static String ask(String text, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            for (int place = 0; place < values.length; place++) statement.setObject(place + 1, values[place]);
            return rows(statement.executeQuery());
        }
    }

    static void check(Object expected, Object found) {
        if (!expected.equals(found)) throw new AssertionError("expected " + expected + ", found " + found);
    }

    interface Step { void run() throws SQLException; }

    static void refused(String words, Step step) {
        try {
            step.run();
        } catch (Exception error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (String.valueOf(cause.getMessage()).contains(words)) return;
            }
            throw new AssertionError("not refused with " + words, error);
        }
        throw new AssertionError("not refused with " + words);
    }

    static String names(ResultSet rows, String column) throws SQLException {
        List<String> all = new ArrayList<>();
        while (rows.next()) all.add(rows.getString(column));
        rows.close();
        return String.join(",", all);
    }

    public static void main(String[] arguments) {
        int status = 0;
        try {
            run(arguments);
        } catch (Throwable error) {
            error.printStackTrace();
            status = 1;
        }
        // The driver leaves threads behind.
        System.exit(status);
    }

    static void run(String[] arguments) throws Exception {
        String url = "jdbc:arrow-flight-sql://" + arguments[0] + ":" + arguments[1]
            + "/?useEncryption=false&database=d&user=ann&password=";
        refused("authorization failed", () -> {
            try (Connection wrong = DriverManager.getConnection(url + "wrong")) { wrong.createStatement().executeQuery("SELECT 1"); }
        });
        connection = DriverManager.getConnection(url + "pencil");
        DatabaseMetaData about = connection.getMetaData();
        check("nyala", about.getDatabaseProductName());
        try (Statement statement = connection.createStatement()) {
            check("1;", rows(statement.executeQuery("SELECT 1")));
            check("a,1.5,3,true;b,2.5,null,null;null,-0.1,-5,null;",
                rows(statement.executeQuery("SELECT host, usage, n, up FROM cpu ORDER BY time")));
            ResultSet times = statement.executeQuery("SELECT time FROM cpu ORDER BY time LIMIT 1");
            check(true, times.next());
            check(1000L, times.getTimestamp(1).getTime());
            times.close();
            ResultSet many = statement.executeQuery("SELECT n FROM generate_series(1, 200000) AS s(n)");
            long sum = 0;
            while (many.next()) sum += many.getLong(1);
            many.close();
            check(200000L * 200001 / 2, sum);
            check(false, statement.execute("CREATE TABLE j (id bigint PRIMARY KEY, words text, amount numeric(10, 2), day date)"));
            check(2, statement.executeUpdate("INSERT INTO j (id, words) VALUES (1, 'one'), (2, 'two')"));
            check(1, statement.executeUpdate("UPDATE j SET words = 'zwei', amount = 2.50, day = '2024-03-01' WHERE id = 2"));
            refused("SQLSTATE 42P01", () -> statement.executeQuery("SELECT * FROM nowhere"));
            refused("SQLSTATE 23505", () -> statement.executeUpdate("INSERT INTO j (id) VALUES (1)"));
        }
        check("2,zwei,2.50,2024-03-01;", ask("SELECT * FROM j WHERE id = ?", 2L));
        check("b;", ask("SELECT host FROM cpu WHERE usage > ? AND host = ?", 1.0, "b"));
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO j (id, words) VALUES (?, ?)")) {
            for (long id = 10; id < 110; id++) {
                insert.setLong(1, id);
                insert.setString(2, "row " + id);
                insert.addBatch();
            }
            insert.executeBatch();
            insert.setLong(1, 200);
            insert.setString(2, "last");
            check(1, insert.executeUpdate());
        }
        check("103;", ask("SELECT count(*) FROM j"));
        check("j", names(about.getTables("d", "public", "%", new String[] {"TABLE"}), "TABLE_NAME"));
        check("cpu", names(about.getTables(null, null, "cpu", null), "TABLE_NAME"));
        check("id,words,amount,day", names(about.getColumns("d", "public", "j", "%"), "COLUMN_NAME"));
        check("id", names(about.getPrimaryKeys("d", "public", "j"), "COLUMN_NAME"));
        check("", names(about.getImportedKeys("d", "public", "j"), "FKCOLUMN_NAME"));
        check(true, names(about.getCatalogs(), "TABLE_CAT").contains("d"));
        check("autogen,public", names(about.getSchemas("d", "%u%"), "TABLE_SCHEM"));
        // The driver asks no server for types (its class has the default of Avatica, which knows none): `flight_calls.py` asks.
        check("", names(about.getTypeInfo(), "TYPE_NAME"));
        check("SYSTEM TABLE,TABLE,VIEW", names(about.getTableTypes(), "TABLE_TYPE"));
        connection.close();
    }
}
