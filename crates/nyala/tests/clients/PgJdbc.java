// pgJDBC: SCRAM, statements that it prepares on the server after some executions, binary values, rows in parts, timeouts.
import java.io.StringReader;
import java.io.StringWriter;
import java.sql.*;
import java.time.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyIn;
import org.postgresql.copy.CopyManager;

public class PgJdbc {
    static Connection connection;

    static String ask(String text, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            for (int place = 0; place < values.length; place++) statement.setObject(place + 1, values[place]);
            StringBuilder all = new StringBuilder();
            ResultSet rows = statement.executeQuery();
            while (rows.next()) {
                for (int column = 1; column <= rows.getMetaData().getColumnCount(); column++) {
                    all.append(rows.getString(column)).append(column == rows.getMetaData().getColumnCount() ? ";" : ",");
                }
            }
            return all.toString();
        }
    }

    static void check(String expected, String found) {
        if (!expected.equals(found)) throw new AssertionError("expected " + expected + ", found " + found);
    }

    interface Step { void run() throws SQLException; }

    static void refused(String code, Step step) {
        try {
            step.run();
        } catch (SQLException error) {
            check(code, error.getSQLState());
            return;
        }
        throw new AssertionError("not refused with " + code);
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://" + arguments[0] + ":" + arguments[1] + "/d?user=ann&password=";
        connection = DriverManager.getConnection(url + "pencil");
        check("15.18", connection.getMetaData().getDatabaseProductVersion());
        // From the sixth execution on it is prepared, and values are binary.
        for (int turn = 0; turn < 8; turn++) {
            check("a,1.5,3,t;", ask("SELECT host, usage, n, up FROM cpu WHERE usage > ? AND host = ?", 1.0, "a"));
        }
        check("a;", ask("SELECT host FROM cpu WHERE time < ?", Timestamp.from(Instant.ofEpochSecond(2))));
        check("a;", ask("SELECT host FROM cpu WHERE time < ?", OffsetDateTime.parse("1970-01-01T00:00:02Z")));
        check("a;", ask("SELECT host FROM cpu WHERE host = ANY(?)", connection.createArrayOf("text", new String[] {"a"})));
        check("5,null,1.250;", ask("SELECT ?::int8, ?::text, ?::numeric(10,3)", 5, null, new java.math.BigDecimal("1.25")));
        check("a;", ask("SELECT host FROM cpu ORDER BY time LIMIT ?", 1));
        refused("42703", () -> ask("SELECT nothing FROM cpu"));
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement("SELECT generate_series FROM generate_series(1, 10000)")) {
            statement.setFetchSize(100);
            ResultSet rows = statement.executeQuery();
            long sum = 0;
            while (rows.next()) sum += rows.getLong(1);
            check("50005000", Long.toString(sum));
        }
        connection.commit();
        refused("22012", () -> ask("SELECT 1/0"));
        refused("25P02", () -> ask("SELECT 1"));
        connection.rollback();
        check("1;", ask("SELECT 1"));
        connection.commit();
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement()) {
            // The driver cancels once, which is in vain before the statement runs.
            statement.setQueryTimeout(5);
            refused("57014", () -> statement.executeQuery(
                "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b WHERE a * b % 7 = 3"));
        }
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE copied (a int PRIMARY KEY, b text)");
        }
        CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
        check("2", Long.toString(copies.copyIn("COPY copied FROM STDIN (FORMAT csv)", new StringReader("1,\"x,y\"\n2,\n"))));
        StringWriter copied = new StringWriter();
        check("2", Long.toString(copies.copyOut("COPY (SELECT * FROM copied ORDER BY a) TO STDOUT", copied)));
        check("1\tx,y\n2\t\\N\n", copied.toString());
        refused("23505", () -> {
            try {
                copies.copyIn("COPY copied FROM STDIN", new StringReader("3\tz\n1\tz\n"));
            } catch (java.io.IOException error) {
                throw new AssertionError(error);
            }
        });
        CopyIn half = copies.copyIn("COPY copied FROM STDIN");
        byte[] row = "4\tz\n".getBytes();
        half.writeToCopy(row, 0, row.length);
        half.cancelCopy();
        check("2;", ask("SELECT count(*) FROM copied"));
        check("true", Boolean.toString(connection.isValid(120)));
        connection.close();
        refused("28P01", () -> DriverManager.getConnection(url + "wrong"));
    }
}
