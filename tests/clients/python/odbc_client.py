"""psqlODBC, through pyodbc: what it says of tables, and queries with and without parameters."""

import json
import sys

import pyodbc

port, driver = sys.argv[1:]
connection = pyodbc.connect(
    f"Driver={driver};Server=127.0.0.1;Port={port};Database=trilayer;Uid=analyst;Pwd=none;",
    autocommit=True,
)
cursor = connection.cursor()


def listed(rows):
    return [list(row) for row in rows]


query = "SELECT buyer, minute, n, revenue FROM merged.by_minute "
sys.stdout.write(
    json.dumps(
        {
            "tables": [row.table_name for row in cursor.tables(schema="merged").fetchall()],
            "columns": [
                [row.column_name, row.type_name]
                for row in cursor.columns(table="by_minute", schema="merged").fetchall()
            ],
            "primary": listed(cursor.primaryKeys("by_minute", schema="merged").fetchall()),
            "foreign": listed(cursor.foreignKeys("by_minute", schema="merged").fetchall()),
            "statistics": len(cursor.statistics("by_minute", schema="merged").fetchall()),
            "procedures": len(cursor.procedures().fetchall()) >= 0,
            "types": len(cursor.getTypeInfo().fetchall()) > 0,
            "all": listed(cursor.execute(query + "ORDER BY buyer").fetchall()),
            "parameters": listed(
                cursor.execute(
                    query + "WHERE revenue > ? AND buyer <> ? ORDER BY 1", 11, "bob"
                ).fetchall()
            ),
            "described": [column[0] for column in cursor.description],
            "some": listed(cursor.execute(query + "ORDER BY buyer").fetchmany(2)),
        },
        default=lambda value: value.item() if hasattr(value, "item") else str(value),
    )
)
