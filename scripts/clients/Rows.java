// pgjdbc: what it sends by itself and servers are known to refuse, and values of types, in text and in binary.
//
// Usage: java -cp postgresql.jar Rows.java HOST PORT DATABASE
//
// Prints `DIFFERS`, what, what was found and what PostgreSQL 15 gives, with tabs between, for each that is not as there; last, how many are.

import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.PGResultSetMetaData;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PGobject;

public class Rows {
    static int passed = 0;

    interface Asked {
        Object get() throws Exception;
    }

    static String outcome(Asked asked) {
        try {
            return String.valueOf(asked.get());
        } catch (SQLException error) {
            return "ERROR " + error.getSQLState();
        } catch (Exception error) {
            return "ERROR " + error;
        }
    }

    static void hold(String what, Object expected, Asked asked) {
        hold(what, expected, 1, asked);
    }

    /** Seven times: past the fifth the driver names the statement, and asks for binary results. */
    static void always(String what, Object expected, Asked asked) {
        hold(what, expected, 7, asked);
    }

    static void hold(String what, Object expected, int times, Asked asked) {
        Set<String> found = new LinkedHashSet<>();
        for (int time = 0; time < times; time++) found.add(outcome(asked));
        if (found.equals(Set.of(String.valueOf(expected)))) {
            passed++;
        } else {
            System.out.println(("DIFFERS\t" + what + "\t" + String.join(" or ", found) + "\t" + expected).replace("\n", " "));
        }
    }

    static String first(PreparedStatement select) throws SQLException {
        try (ResultSet set = select.executeQuery()) {
            set.next();
            return set.getString(1);
        }
    }

    static List<String> row(ResultSet set) throws SQLException {
        List<String> row = new ArrayList<>();
        for (int at = 1; at <= set.getMetaData().getColumnCount(); at++) row.add(set.getString(at));
        return row;
    }

    static List<List<String>> rows(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet set = statement.executeQuery(sql)) {
            List<List<String>> rows = new ArrayList<>();
            while (set.next()) rows.add(row(set));
            return rows;
        }
    }

    static void execute(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String sql : statements) statement.execute(sql);
        }
    }

    /** setDate writes `2020-06-01 +02`, and leaves the type of it to the server. */
    static void dates(Connection connection, String mode) throws Exception {
        execute(connection, "CREATE TABLE java_days (n INT, d DATE, t TIMESTAMP, z TIMESTAMPTZ, h TIME)");
        java.sql.Date day = java.sql.Date.valueOf("2020-06-01");
        Timestamp moment = Timestamp.valueOf("2020-06-01 10:11:12.5");
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_days VALUES (?, ?, ?, ?, ?)")) {
            for (int kind = 0; kind < 2; kind++) {
                insert.setInt(1, kind);
                for (int at = 2; at <= 4; at++) {
                    if (kind == 0) insert.setDate(at, day);
                    else insert.setTimestamp(at, moment);
                }
                insert.setTime(5, Time.valueOf("10:11:12"));
                always("INSERT by " + (kind == 0 ? "setDate" : "setTimestamp") + mode, 1, () -> insert.executeUpdate());
            }
        }
        String of = "SELECT DISTINCT d::text, t::text, (z AT TIME ZONE 'UTC')::text, h::text FROM java_days WHERE n = %d";
        hold("what setDate wrote" + mode, "[[2020-06-01, 2020-06-01 00:00:00, 2020-05-31 22:00:00, 10:11:12]]", () -> rows(connection, String.format(of, 0)));
        hold("what setTimestamp wrote" + mode, "[[2020-06-01, 2020-06-01 10:11:12.5, 2020-06-01 08:11:12.5, 10:11:12]]", () -> rows(connection, String.format(of, 1)));
        for (String column : List.of("d", "t", "z")) {
            try (PreparedStatement select = connection.prepareStatement("SELECT count(*) FROM java_days WHERE " + column + " = ?")) {
                select.setDate(1, day);
                // The DATE is the same for both kinds of rows.
                always("WHERE " + column + " = setDate" + mode, column.equals("d") ? "14" : "7", () -> first(select));
            }
        }
        try (PreparedStatement select = connection.prepareStatement("SELECT d, t, z, h FROM java_days WHERE n = ?")) {
            select.setInt(1, 0);
            always("getDate and its kin" + mode, "2020-06-01|2020-06-01 00:00:00.0|2020-06-01 00:00:00.0|10:11:12|2020-05-31T22:00Z", () -> {
                try (ResultSet set = select.executeQuery()) {
                    set.next();
                    return set.getDate(1) + "|" + set.getTimestamp(2) + "|" + set.getTimestamp(3) + "|" + set.getTime(4) + "|" + set.getObject(3, OffsetDateTime.class).withOffsetSameInstant(ZoneOffset.UTC);
                }
            });
        }
        execute(connection, "DROP TABLE java_days");
    }

    static void tableNames(Connection connection, String mode) throws Exception {
        execute(connection, "CREATE TABLE java_names (id INT NOT NULL, label TEXT)");
        try (PreparedStatement select = connection.prepareStatement("SELECT n.label AS x, id, id + 1 FROM java_names AS n"); ResultSet set = select.executeQuery()) {
            PGResultSetMetaData about = set.getMetaData().unwrap(PGResultSetMetaData.class);
            hold("getTableName" + mode, "java_names|java_names|", () -> set.getMetaData().getTableName(1) + "|" + about.getBaseTableName(2) + "|" + about.getBaseTableName(3));
            hold("getBaseColumnName" + mode, "label|id|", () -> about.getBaseColumnName(1) + "|" + about.getBaseColumnName(2) + "|" + about.getBaseColumnName(3));
            hold("getBaseSchemaName" + mode, "public", () -> about.getBaseSchemaName(1));
            hold("isNullable" + mode, "1|0|2", () -> set.getMetaData().isNullable(1) + "|" + set.getMetaData().isNullable(2) + "|" + set.getMetaData().isNullable(3));
        }
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY); ResultSet set = statement.executeQuery("SELECT 1 AS a")) {
            hold("a column of no table" + mode, "", () -> set.getMetaData().getTableName(1));
        }
        execute(connection, "DROP TABLE java_names");
    }

    static void calls(Connection connection) {
        always("{? = call upper(?)}", "ABC", () -> {
            try (CallableStatement call = connection.prepareCall("{? = call upper(?)}")) {
                call.registerOutParameter(1, Types.VARCHAR);
                call.setString(2, "abc");
                call.execute();
                return call.getString(1);
            }
        });
        hold("{? = call abs(?)}", "5", () -> {
            try (CallableStatement call = connection.prepareCall("{? = call abs(?)}")) {
                call.registerOutParameter(1, Types.INTEGER);
                call.setInt(2, -5);
                call.execute();
                return call.getInt(1);
            }
        });
        hold("{? = call current_schema()}", "public", () -> {
            try (CallableStatement call = connection.prepareCall("{? = call current_schema()}")) {
                call.registerOutParameter(1, Types.VARCHAR);
                call.execute();
                return call.getString(1);
            }
        });
        hold("{fn ...}", "[[ABC, 3, 2020, x1]]", () -> rows(connection, "SELECT {fn ucase('abc')}, {fn length('abc')}, {fn year(date '2020-06-01')}, {fn concat('x', '1')}"));
    }

    /** Metabase's way to a zone; Flyway's to a lock. */
    static void others(Connection connection, String url) throws Exception {
        execute(connection, "CREATE TABLE java_moments (z TIMESTAMPTZ)", "INSERT INTO java_moments VALUES ('2020-06-01 12:00:00+00')", "SET SESSION TIMEZONE TO 'America/New_York'");
        hold("a moment in a zone", "[[2020-06-01 08:00:00-04]]", () -> rows(connection, "SELECT z FROM java_moments"));
        hold("a day in a zone", "[[2020-06-01 00:00:00-04]]", () -> rows(connection, "SELECT date_trunc('day', z) FROM java_moments"));
        execute(connection, "SET SESSION TIMEZONE TO 'UTC'", "DROP TABLE java_moments");
        try (Connection other = DriverManager.getConnection(url)) {
            String lock = "SELECT pg_try_advisory_xact_lock(77433833903598)";
            connection.setAutoCommit(false);
            hold("a lock", "[[t]]", () -> rows(connection, lock));
            hold("a lock that another has", "[[f]]", () -> rows(other, lock));
            connection.commit();
            hold("a lock that was left", "[[t]]", () -> rows(other, lock));
            connection.setAutoCommit(true);
        }
    }

    static PGobject object(String type, String value) throws SQLException {
        PGobject object = new PGobject();
        object.setType(type);
        object.setValue(value);
        return object;
    }

    static void types(Connection connection, String mode) throws Exception {
        execute(connection, "CREATE TABLE java_types (n INT, u UUID, j JSON, b JSONB, h TIME, i INTERVAL, p NUMERIC, c CHAR(5), w NUMERIC(20, 0), x NUMERIC(38, 10))");
        UUID id = UUID.fromString("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
        PGInterval span = new PGInterval(-1, -2, 3, -4, -5, -6.789);
        BigDecimal large = new BigDecimal("-12345678901234567890.125"), unsigned = new BigDecimal("18446744073709551615"), wide = new BigDecimal("1234567890123456789012.1234567890");
        String json = "{\"b\":  1, \"ü\": \"😀\"}", jsonb = "{\"b\": 1, \"ü\": [\"😀\", null]}";
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_types VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")) {
            insert.setInt(1, 1);
            insert.setObject(2, id);
            insert.setObject(3, object("json", json));
            insert.setObject(4, object("jsonb", jsonb.replace(" ", "")));
            insert.setObject(5, LocalTime.of(23, 59, 59, 999999000));
            insert.setObject(6, span);
            insert.setBigDecimal(7, large);
            insert.setString(8, "ab");
            insert.setBigDecimal(9, unsigned);
            insert.setBigDecimal(10, wide);
            always("types, INSERT" + mode, 1, () -> insert.executeUpdate());
            insert.setInt(1, 0);
            int[] kinds = {Types.OTHER, Types.OTHER, Types.OTHER, Types.TIME, Types.OTHER, Types.NUMERIC, Types.CHAR, Types.NUMERIC, Types.NUMERIC};
            for (int at = 0; at < kinds.length; at++) insert.setNull(at + 2, kinds[at]);
            hold("types, NULLs" + mode, 1, () -> insert.executeUpdate());
        }
        String texts = "SELECT DISTINCT u::text, j::text, b::text, h::text, i::text, p::text, rpad(c, 5), w::text, x::text FROM java_types WHERE n = 1";
        List<String> written = List.of(id.toString(), json, jsonb, "23:59:59.999999", "-1 years -2 mons +3 days -04:05:06.789", large.toString(), "ab   ", unsigned.toString(), wide.toString());
        hold("types, what was written" + mode, List.of(written), () -> rows(connection, texts));
        try (PreparedStatement select = connection.prepareStatement("SELECT u, j, b, h, i, p, c, w, x FROM java_types WHERE n = ? LIMIT 1")) {
            select.setInt(1, 1);
            List<Object> read = List.of(id, json, jsonb, LocalTime.of(23, 59, 59, 999999000), "-1 years -2 mons 3 days -4 hours -5 mins -6.789 secs", large, "ab   ", unsigned, wide);
            always("types, a row" + mode, read, () -> {
                try (ResultSet set = select.executeQuery()) {
                    set.next();
                    return List.of(
                        set.getObject(1, UUID.class), set.getString(2), ((PGobject) set.getObject(3)).getValue(), set.getObject(4, LocalTime.class), set.getObject(5).toString(), set.getBigDecimal(6),
                        set.getString(7), set.getBigDecimal(8), set.getBigDecimal(9));
                }
            });
            select.setInt(1, 0);
            always("types, a row of NULLs" + mode, Arrays.toString(new String[9]), () -> {
                try (ResultSet set = select.executeQuery()) {
                    set.next();
                    return row(set);
                }
            });
            hold("types, their names" + mode, "uuid 2147483647,0|json 2147483647,0|jsonb 2147483647,0|time 15,6|interval 49,6|numeric 0,0|bpchar 5,0|numeric 20,0|numeric 38,10|", () -> {
                ResultSetMetaData about = select.getMetaData();
                StringBuilder names = new StringBuilder();
                for (int at = 1; at <= about.getColumnCount(); at++) names.append(about.getColumnTypeName(at)).append(' ').append(about.getPrecision(at)).append(',').append(about.getScale(at)).append('|');
                return names;
            });
        }
        Object[][] sought = {
            {"u", "uuid", id}, {"b", "jsonb", object("jsonb", "{\"ü\": [\"😀\", null], \"b\": 1}")}, {"h", "time", LocalTime.of(23, 59, 59, 999999000)}, {"i", "interval", span},
            {"p", "numeric", large.setScale(5)}, {"c", "bpchar", "ab"}, {"w", "numeric", unsigned}, {"x", "numeric", wide},
        };
        for (Object[] one : sought) {
            try (PreparedStatement select = connection.prepareStatement("SELECT count(*) FROM java_types WHERE " + one[0] + " = ?")) {
                // In the simple protocol the driver does not ask for types of parameters.
                if (mode.isEmpty()) hold("types, the parameter beside a column of " + one[1] + " " + one[0], one[1], () -> select.getParameterMetaData().getParameterTypeName(1));
                select.setObject(1, one[2]);
                always("types, WHERE " + one[0] + " = ?" + mode, "7", () -> first(select));
            }
        }
        try (PreparedStatement select = connection.prepareStatement("SELECT count(*) FROM java_types WHERE u = ANY(?)")) {
            select.setArray(1, connection.createArrayOf("uuid", new UUID[] {id, new UUID(0, 0)}));
            always("types, an array of UUIDs" + mode, "7", () -> first(select));
        }
        BigDecimal most = new BigDecimal("-9999999999999999999999999999.9999999999");
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_types (n, x) VALUES (2, ?)"); PreparedStatement select = connection.prepareStatement("SELECT x FROM java_types WHERE n = 2 AND x = ?")) {
            insert.setBigDecimal(1, most);
            select.setBigDecimal(1, most);
            always("38 digits, INSERT" + mode, 1, () -> insert.executeUpdate());
            always("38 digits, WHERE" + mode, most, () -> first(select));
        }
        execute(connection, "DELETE FROM java_types WHERE n = 2");
        hold("types, getColumns" + mode, "u uuid 2147483647 0|j json 2147483647 0|b jsonb 2147483647 0|h time 15 6|i interval 49 6|p numeric 0 0|c bpchar 5 0|w numeric 20 0|x numeric 38 10|", () -> {
            StringBuilder names = new StringBuilder();
            try (ResultSet set = connection.getMetaData().getColumns(null, "public", "java_types", "%")) {
                while (set.next()) {
                    if (!set.getString("COLUMN_NAME").equals("n")) names.append(set.getString("COLUMN_NAME") + " " + set.getString("TYPE_NAME") + " " + set.getInt("COLUMN_SIZE") + " " + set.getInt("DECIMAL_DIGITS") + "|");
                }
            }
            return names;
        });
        for (String format : List.of("text", "csv", "binary")) {
            hold("types, COPY out and in, " + format + mode, "50", () -> {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                var copies = connection.unwrap(PGConnection.class).getCopyAPI();
                copies.copyOut("COPY java_types TO STDOUT (FORMAT " + format + ")", bytes);
                execute(connection, "CREATE TABLE java_copied (n INT, u UUID, j JSON, b JSONB, h TIME, i INTERVAL, p NUMERIC, c CHAR(5), w NUMERIC(20, 0), x NUMERIC(38, 10))");
                copies.copyIn("COPY java_copied FROM STDIN (FORMAT " + format + ")", new java.io.ByteArrayInputStream(bytes.toByteArray()));
                String same = "SELECT count(*) FROM java_types AS a JOIN java_copied AS b ON a.n = b.n AND (a.n = 0 AND b.u IS NULL AND b.x IS NULL OR (a.u, a.b, a.h, a.i, a.p, a.c, a.w, a.x) = (b.u, b.b, b.h, b.i, b.p, b.c, b.w, b.x) AND a.j::text = b.j::text)";
                try {
                    return rows(connection, same).get(0).get(0);
                } finally {
                    execute(connection, "DROP TABLE java_copied");
                }
            });
        }
        execute(connection, "DROP TABLE java_types");
    }

    public static void main(String[] args) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("Europe/Berlin"));
        String url = "jdbc:postgresql://" + args[0] + ":" + args[1] + "/" + args[2] + "?user=alluvia";
        for (String mode : List.of("extended", "simple")) {
            String name = mode.equals("simple") ? ", simple" : "";
            try (Connection connection = DriverManager.getConnection(url + "&preferQueryMode=" + mode)) {
                hold("the session's zone" + name, "[[Europe/Berlin]]", () -> rows(connection, "SHOW TimeZone"));
                dates(connection, name);
                tableNames(connection, name);
                types(connection, name);
                if (mode.equals("simple")) continue;
                // In the simple protocol the driver neither calls functions so nor asks for types of parameters.
                calls(connection);
                others(connection, url);
            }
        }
        System.out.println("pgjdbc " + org.postgresql.Driver.getVersion() + ", " + passed + " passed");
    }
}
