// pgjdbc: statements, batches, arrays, COPY, savepoints, and what DatabaseMetaData asks.
//
// Usage: java -cp postgresql.jar Metadata.java PORT

import java.io.StringReader;
import java.math.BigDecimal;
import java.sql.*;
import java.util.*;
import org.postgresql.PGConnection;

public class Metadata {
    static int passed = 0;

    static void check(Object found, Object expected, String what) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(what + ": " + found + ", and " + expected + " is expected");
        }
        passed++;
    }

    interface Asked {
        ResultSet get() throws SQLException;
    }

    /** The rows of an answer, with some of its columns, as texts. */
    static List<String> rows(Asked asked, String... columns) throws SQLException {
        List<String> rows = new ArrayList<>();
        try (ResultSet set = asked.get()) {
            while (set.next()) {
                StringJoiner row = new StringJoiner("|");
                for (String column : columns) row.add(set.getString(column));
                rows.add(row.toString());
            }
        }
        return rows;
    }

    static String state(String sql, Statement statement) {
        try {
            statement.execute(sql);
            return "taken";
        } catch (SQLException error) {
            return error.getSQLState();
        }
    }

    static void statements(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE j (a INT NOT NULL, b BIGINT, c TEXT, d DOUBLE PRECISION, e DECIMAL(12, 2), f BOOLEAN, g DATE, h TIMESTAMP, i BYTEA)");
            check(state("SELECT nothing FROM j", statement), "42703", "SQLSTATE of an error");
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO j VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")) {
            for (int row = 0; row < 20; row++) {
                insert.setInt(1, row);
                insert.setLong(2, 1L << 40);
                insert.setString(3, "it's ä\n" + row);
                insert.setDouble(4, 0.5);
                insert.setBigDecimal(5, new BigDecimal("12.34"));
                insert.setBoolean(6, true);
                insert.setObject(7, java.time.LocalDate.of(2026, 11, 21));
                insert.setObject(8, java.time.LocalDateTime.of(2026, 11, 21, 10, 11, 12, 345678000));
                insert.setBytes(9, new byte[] {0, (byte) 255});
                insert.addBatch();
            }
            check(Arrays.stream(insert.executeBatch()).sum(), 20, "a batch of inserts");
        }
        // Past the fifth time the driver asks for binary results.
        try (PreparedStatement select = connection.prepareStatement("SELECT * FROM j WHERE a = ?")) {
            for (int row = 0; row < 8; row++) {
                select.setInt(1, row);
                try (ResultSet found = select.executeQuery()) {
                    check(found.next(), true, "a row");
                    check(found.getInt(1), row, "INT");
                    check(found.getLong(2), 1L << 40, "BIGINT");
                    check(found.getString(3), "it's ä\n" + row, "TEXT");
                    check(found.getDouble(4), 0.5, "DOUBLE");
                    check(found.getBigDecimal(5), new BigDecimal("12.34"), "DECIMAL");
                    check(found.getBoolean(6), true, "BOOLEAN");
                    check(found.getObject(7, java.time.LocalDate.class), java.time.LocalDate.of(2026, 11, 21), "DATE");
                    check(found.getObject(8, java.time.LocalDateTime.class), java.time.LocalDateTime.of(2026, 11, 21, 10, 11, 12, 345678000), "TIMESTAMP");
                    check(Arrays.toString(found.getBytes(9)), "[0, -1]", "BYTEA");
                    check(found.next(), false, "no other row");
                }
            }
        }
        for (Object[] list : new Object[][] {
            {"int4", new Integer[] {3, 5, 99}, "a"}, {"int8", new Long[] {3L, 5L}, "a"}, {"text", new String[] {"it's ä\n3", "it's ä\n5"}, "c"},
        }) {
            try (PreparedStatement any = connection.prepareStatement("SELECT count(*) FROM j WHERE " + list[2] + " = ANY(?)")) {
                for (int time = 0; time < 7; time++) {
                    any.setArray(1, connection.createArrayOf((String) list[0], (Object[]) list[1]));
                    try (ResultSet found = any.executeQuery()) {
                        found.next();
                        check(found.getLong(1), 2L, "ANY of " + list[0]);
                    }
                }
            }
        }
        try (Statement statement = connection.createStatement();
            ResultSet found = statement.executeQuery("SELECT array_agg(a ORDER BY a) AS l, array_agg(d) AS m FROM j WHERE a < 3")) {
            found.next();
            check(Arrays.toString((Object[]) found.getArray(1).getArray()), "[0, 1, 2]", "an array");
            check(found.getMetaData().getColumnTypeName(1), "_int4", "the type of an array");
            check(found.getMetaData().getColumnTypeName(2), "_float8", "the type of another");
        }
        long copied = connection.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY j (a, c) FROM STDIN", new StringReader("100\tx\n101\t\\N\n"));
        check(copied, 2L, "COPY in");
    }

    static void transactions(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.execute("INSERT INTO j (a) VALUES (200)");
            Savepoint savepoint = connection.setSavepoint("named");
            statement.execute("INSERT INTO j (a) VALUES (201)");
            check(state("SELECT 1 / 0", statement).substring(0, 2), "22", "an error in a transaction");
            check(state("SELECT 1", statement), "25P02", "a transaction that has failed");
            connection.rollback(savepoint);
            Savepoint unnamed = connection.setSavepoint();
            statement.execute("INSERT INTO j (a) VALUES (202)");
            connection.releaseSavepoint(unnamed);
            connection.commit();
            check(rows(() -> statement.executeQuery("SELECT a FROM j WHERE a >= 200 ORDER BY a"), "a"), List.of("200", "202"), "savepoints");
            // Rows a few at a time.
            statement.setFetchSize(7);
            int seen = 0;
            try (ResultSet all = statement.executeQuery("SELECT value FROM generate_series(1, 100) AS value ORDER BY value")) {
                while (all.next()) check(all.getInt(1), ++seen, "a row of a portal");
            }
            check(seen, 100, "all rows of a portal");
            connection.commit();
        }
        connection.setAutoCommit(true);
    }

    static void metadata(Connection connection) throws Exception {
        DatabaseMetaData about = connection.getMetaData();
        check(about.getDatabaseProductName(), "PostgreSQL", "the product");
        check(about.getDatabaseMajorVersion() >= 15, true, "the version");
        check(rows(() -> about.getSchemas(), "TABLE_SCHEM").contains("public"), true, "getSchemas");
        check(rows(() -> about.getSchemas(null, "pub%"), "TABLE_SCHEM"), List.of("public"), "getSchemas, by pattern");
        check(rows(() -> about.getCatalogs(), "TABLE_CAT").contains("alluvia"), true, "getCatalogs");
        check(rows(() -> about.getTableTypes(), "TABLE_TYPE").contains("TABLE"), true, "getTableTypes");
        String[] types = {"TABLE", "VIEW"};
        check(rows(() -> about.getTables(null, "public", "%", types), "TABLE_NAME", "TABLE_TYPE"), List.of("j|TABLE"), "getTables");
        check(rows(() -> about.getTables(null, null, "j", null), "TABLE_SCHEM"), List.of("public"), "getTables, of any type");
        check(rows(() -> about.getTables("alluvia", "pg_catalog", "pg_class", null), "TABLE_TYPE"), List.of("SYSTEM TABLE"), "getTables, of the catalog");
        check(
            rows(() -> about.getColumns(null, "public", "j", "%"), "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "COLUMN_SIZE", "DECIMAL_DIGITS", "IS_NULLABLE", "ORDINAL_POSITION"),
            List.of(
                "a|int4|4|10|0|NO|1", "b|int8|-5|19|0|YES|2", "c|text|12|2147483647|0|YES|3", "d|float8|8|17|17|YES|4",
                "e|numeric|2|12|2|YES|5", "f|bool|-7|1|0|YES|6", "g|date|91|13|0|YES|7", "h|timestamp|93|29|6|YES|8",
                "i|bytea|-2|2147483647|0|YES|9"),
            "getColumns");
        check(rows(() -> about.getPrimaryKeys(null, "public", "j"), "COLUMN_NAME"), List.of(), "getPrimaryKeys");
        check(rows(() -> about.getIndexInfo(null, "public", "j", false, true), "INDEX_NAME"), List.of(), "getIndexInfo");
        check(rows(() -> about.getImportedKeys(null, "public", "j"), "FK_NAME"), List.of(), "getImportedKeys");
        check(rows(() -> about.getExportedKeys(null, "public", "j"), "FK_NAME"), List.of(), "getExportedKeys");
        check(rows(() -> about.getCrossReference(null, "public", "j", null, "public", "j"), "FK_NAME"), List.of(), "getCrossReference");
        check(rows(() -> about.getBestRowIdentifier(null, "public", "j", DatabaseMetaData.bestRowSession, true), "COLUMN_NAME"), List.of(), "getBestRowIdentifier");
        check(rows(() -> about.getVersionColumns(null, "public", "j"), "COLUMN_NAME").size() > 0, true, "getVersionColumns");
        check(rows(() -> about.getTypeInfo(), "TYPE_NAME").containsAll(List.of("int4", "text", "numeric", "timestamptz")), true, "getTypeInfo");
        rows(() -> about.getTablePrivileges(null, "public", "j"), "PRIVILEGE");
        rows(() -> about.getColumnPrivileges(null, "public", "j", "%"), "PRIVILEGE");
        check(rows(() -> about.getProcedures(null, "public", "%"), "PROCEDURE_NAME"), List.of(), "getProcedures");
        // The driver does not tell functions from procedures here.
        check(rows(() -> about.getProcedureColumns(null, null, "upper", "%"), "COLUMN_NAME"), List.of("returnValue", "$1"), "getProcedureColumns");
        check(rows(() -> about.getFunctions(null, null, "upper"), "FUNCTION_SCHEM", "FUNCTION_NAME"), List.of("pg_catalog|upper"), "getFunctions");
        check(rows(() -> about.getFunctions(null, "public", "%"), "FUNCTION_NAME").contains("list_sort"), true, "getFunctions, of public");
        check(rows(() -> about.getFunctionColumns(null, null, "upper", "%"), "TYPE_NAME"), List.of("text", "text"), "getFunctionColumns");
        rows(() -> about.getUDTs(null, "public", "%", null), "TYPE_NAME");
        check(rows(() -> about.getClientInfoProperties(), "NAME").contains("ApplicationName"), true, "getClientInfoProperties");
        check(about.getSQLKeywords().contains("ilike"), true, "getSQLKeywords");
        check(about.getMaxColumnNameLength(), 63, "getMaxColumnNameLength");
        check(about.getMaxColumnsInIndex(), 32, "getMaxColumnsInIndex");
        check(about.getDefaultTransactionIsolation() > 0, true, "getDefaultTransactionIsolation");
        check(about.getUserName(), "alluvia", "getUserName");
        check(connection.getTransactionIsolation() > 0, true, "getTransactionIsolation");
        check(connection.getSchema(), "public", "getSchema");
        check(connection.isValid(5), true, "isValid");
        try (PreparedStatement select = connection.prepareStatement("SELECT a, e AS x FROM j WHERE a = ?")) {
            ResultSetMetaData columns = select.getMetaData();
            check(columns.getColumnName(2) + columns.getColumnTypeName(2) + columns.getPrecision(2) + "," + columns.getScale(2), "xnumeric12,2", "columns of a statement");
            check(select.getParameterMetaData().getParameterTypeName(1), "int4", "the parameter of a statement");
        }
    }

    public static void main(String[] args) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + args[0] + "/alluvia?user=alluvia";
        try (Connection connection = DriverManager.getConnection(url)) {
            statements(connection);
            transactions(connection);
            metadata(connection);
            try (Statement statement = connection.createStatement()) {
                statement.execute("DROP TABLE j");
            }
        }
        // A savepoint before each statement, so that an error undoes no more than itself.
        try (Connection connection = DriverManager.getConnection(url + "&autosave=always"); Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE k (a INT)");
            connection.setAutoCommit(false);
            statement.execute("INSERT INTO k VALUES (1)");
            check(state("INSERT INTO k VALUES ('x')", statement).startsWith("22"), true, "an error with autosave");
            statement.execute("INSERT INTO k VALUES (2)");
            connection.commit();
            check(rows(() -> statement.executeQuery("SELECT a FROM k ORDER BY a"), "a"), List.of("1", "2"), "autosave");
            connection.setAutoCommit(true);
            statement.execute("DROP TABLE k");
        }
        System.out.println("pgjdbc " + org.postgresql.Driver.getVersion() + ", " + passed + " passed");
    }
}
