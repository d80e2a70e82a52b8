import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;

/** Asks a server by PostgreSQL's JDBC driver. tests/support/sql_clients.py has the requests. */
public class Client {
    private static final String NULL = "\\N";

    private static Connection connection;

    public static void main(String[] arguments) throws IOException {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line; (line = in.readLine()) != null; ) {
            out.println(json(answer(line.split("\t", -1))));
        }
    }

    private static Map<String, Object> answer(String[] request) {
        try {
            return Map.of("rows", rows(request));
        } catch (SQLException error) {
            var said = new LinkedHashMap<String, Object>();
            said.put("code", error.getSQLState());
            said.put("message", error.getMessage());
            if (error instanceof PSQLException psql && psql.getServerErrorMessage() != null) {
                said.put("position", psql.getServerErrorMessage().getPosition());
            }
            return Map.of("error", said);
        }
    }

    private static List<Object> rows(String[] request) throws SQLException {
        return switch (request[0]) {
            case "connect" -> connect(request[1]);
            case "ask" -> ask(request);
            case "prepared", "batch" -> prepared(request);
            case "portions" -> portions(request[1], Integer.parseInt(request[2]));
            case "slow" -> slow(request[1], Integer.parseInt(request[2]));
            case "metadata" -> metadata(request);
            default -> throw new SQLException(request[0] + " is no request");
        };
    }

    private static List<Object> connect(String url) throws SQLException {
        if (connection != null) {
            connection.close();
        }
        connection = DriverManager.getConnection(url);
        return List.of();
    }

    private static List<Object> ask(String[] request) throws SQLException {
        try (var statement = prepare(request[1])) {
            for (int place = 2; place + 1 < request.length; place += 2) {
                set(statement, place / 2, request[place], request[place + 1]);
            }
            return read(statement.executeQuery());
        }
    }

    private static List<Object> prepared(String[] request) throws SQLException {
        var found = new ArrayList<Object>();
        try (var statement = prepare(request[1])) {
            for (int place = 3; place < request.length; place++) {
                set(statement, 1, request[2], request[place]);
                found.addAll(read(statement.executeQuery()));
            }
        }
        return found;
    }

    /** Reads two answers of one transaction in turn, and so by portions. */
    private static List<Object> portions(String sql, int size) throws SQLException {
        connection.setAutoCommit(false);
        try (var statement = prepare(sql); var other = prepare(sql)) {
            statement.setFetchSize(size);
            other.setFetchSize(size / 2);
            var found = new ArrayList<Object>();
            try (var row = statement.executeQuery(); var beside = other.executeQuery()) {
                while (row.next() && beside.next()) {
                    if (!row.getObject(1).equals(beside.getObject(1))) {
                        throw new SQLException("two readers have found different rows");
                    }
                    found.add(values(row));
                }
            }
            return found;
        } finally {
            connection.rollback();
            connection.setAutoCommit(true);
        }
    }

    /** Has a question time out. The driver's limit is in seconds. */
    private static List<Object> slow(String sql, int milliseconds) throws SQLException {
        try (var statement = connection.createStatement()) {
            statement.setQueryTimeout(Math.max(1, milliseconds / 1000));
            return read(statement.executeQuery(sql));
        }
    }

    private static List<Object> metadata(String[] request) throws SQLException {
        DatabaseMetaData known = connection.getMetaData();
        String schema = request.length > 2 ? request[2] : null;
        String table = request.length > 3 ? request[3] : null;
        return read(switch (request[1]) {
            case "catalogs" -> known.getCatalogs();
            case "schemas" -> known.getSchemas();
            case "table types" -> known.getTableTypes();
            case "types" -> known.getTypeInfo();
            case "client properties" -> known.getClientInfoProperties();
            case "tables" -> known.getTables(null, schema, table, new String[] {"VIEW", "TABLE"});
            case "columns" -> known.getColumns(null, schema, table, null);
            case "primary keys" -> known.getPrimaryKeys(null, schema, table);
            case "imported keys" -> known.getImportedKeys(null, schema, table);
            case "exported keys" -> known.getExportedKeys(null, schema, table);
            case "indexes" -> known.getIndexInfo(null, schema, table, false, true);
            case "best row" -> known.getBestRowIdentifier(
                    null, schema, table, DatabaseMetaData.bestRowSession, true);
            case "version columns" -> known.getVersionColumns(null, schema, table);
            case "privileges" -> known.getTablePrivileges(null, schema, table);
            case "column privileges" -> known.getColumnPrivileges(null, schema, table, "%");
            case "functions" -> known.getFunctions(null, schema, null);
            case "procedures" -> known.getProcedures(null, schema, null);
            case "user types" -> known.getUDTs(null, schema, null, null);
            default -> throw new SQLException(request[1] + " is no metadata");
        });
    }

    private static PreparedStatement prepare(String sql) throws SQLException {
        return connection.prepareStatement(sql.replaceAll("\\$\\d+", "?"));
    }

    private static void set(PreparedStatement to, int place, String type, String text)
            throws SQLException {
        if (text.equals(NULL)) {
            to.setObject(place, null);
            return;
        }
        switch (type) {
            case "bool" -> to.setBoolean(place, text.equals("true"));
            case "int4" -> to.setInt(place, Integer.parseInt(text));
            case "int8" -> to.setLong(place, Long.parseLong(text));
            case "float8" -> to.setDouble(place, Double.parseDouble(text));
            case "numeric" -> to.setBigDecimal(place, new BigDecimal(text));
            case "text" -> to.setString(place, text);
            case "bytea" -> to.setBytes(place, HexFormat.of().parseHex(text));
            case "uuid" -> to.setObject(place, UUID.fromString(text));
            case "date" -> to.setDate(place, Date.valueOf(text));
            case "local date" -> to.setObject(place, LocalDate.parse(text));
            case "timestamp" -> to.setObject(place, LocalDateTime.parse(text));
            case "timestamptz" -> to.setObject(place, OffsetDateTime.parse(text));
            case "int4[]", "text[]" -> to.setArray(place, connection.createArrayOf(
                    type.replace("[]", ""),
                    Arrays.stream(text.split(","))
                            .map(each -> each.equals(NULL) ? null : each)
                            .map(each -> each == null || type.equals("text[]")
                                    ? each : (Object) Integer.valueOf(each))
                            .toArray()));
            default -> throw new SQLException(type + " is no type");
        }
    }

    private static List<Object> read(ResultSet answer) throws SQLException {
        var found = new ArrayList<Object>();
        try (answer) {
            while (answer.next()) {
                found.add(values(answer));
            }
        }
        return found;
    }

    private static List<Object> values(ResultSet row) throws SQLException {
        var columns = row.getMetaData();
        var found = new ArrayList<Object>();
        for (int place = 1; place <= columns.getColumnCount(); place++) {
            found.add(plain(switch (columns.getColumnTypeName(place)) {
                case "date" -> row.getObject(place, LocalDate.class);
                case "time" -> row.getObject(place, LocalTime.class);
                case "timestamp" -> row.getObject(place, LocalDateTime.class);
                case "timestamptz" -> row.getObject(place, OffsetDateTime.class);
                default -> row.getObject(place);
            }));
        }
        return found;
    }

    private static Object plain(Object value) throws SQLException {
        if (value == null || value instanceof Boolean) {
            return value;
        } else if (value instanceof BigDecimal number) {
            return number.toPlainString();
        } else if (value instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        } else if (value instanceof PGInterval i) {
            long seconds = i.getHours() * 3600L + i.getMinutes() * 60L + i.getWholeSeconds();
            return List.of(i.getYears() * 12 + i.getMonths(), i.getDays(),
                    seconds * 1_000_000 + i.getMicroSeconds());
        } else if (value instanceof PGobject other) {
            return other.getValue();
        } else if (value instanceof Array array) {
            var found = new ArrayList<Object>();
            for (Object each : (Object[]) array.getArray()) {
                found.add(plain(each));
            }
            return found;
        }
        return value.toString();
    }

    private static String json(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Number) {
            return String.valueOf(value);
        } else if (value instanceof List<?> list) {
            return list.stream().map(Client::json).collect(Collectors.joining(",", "[", "]"));
        } else if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                    .map(each -> json(each.getKey()) + ":" + json(each.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        }
        var quoted = new StringBuilder("\"");
        value.toString().chars().forEach(c -> quoted.append(
                c < ' ' || c == '"' || c == '\\' ? String.format("\\u%04x", c) : (char) c));
        return quoted.append('"').toString();
    }
}
