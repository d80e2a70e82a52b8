import java.sql.DriverManager;
import java.sql.SQLException;

/** Reads an answer by JDBC, so many rows at a time, and prints how long it took. */
public class ReadAll {
    public static void main(String[] arguments) throws SQLException {
        int size = Integer.parseInt(arguments[0]);
        String sql = arguments[1];
        for (int place = 2; place < arguments.length; place++) {
            System.out.println(seconds(arguments[place], sql, size));
        }
    }

    private static double seconds(String url, String sql, int size) throws SQLException {
        try (var connection = DriverManager.getConnection(url);
                var statement = connection.prepareStatement(sql)) {
            connection.setAutoCommit(false); // otherwise the driver reads everything at once
            statement.setFetchSize(size);
            long began = System.nanoTime();
            try (var rows = statement.executeQuery()) {
                int columns = rows.getMetaData().getColumnCount();
                while (rows.next()) {
                    for (int column = 1; column <= columns; column++) {
                        rows.getObject(column);
                    }
                }
            }
            return (System.nanoTime() - began) / 1e9;
        }
    }
}
