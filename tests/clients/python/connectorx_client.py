"""connectorx: frames, read at once and in partitions."""

import json
import sys

import connectorx

url = f"postgresql://analyst@127.0.0.1:{sys.argv[1]}/trilayer"
query = "SELECT buyer, minute, n, revenue FROM merged.by_minute"


def listed(frame):
    return sorted([list(row) for row in frame.itertuples(index=False)], key=str)


sys.stdout.write(
    json.dumps(
        {
            "at once": listed(connectorx.read_sql(url, query)),
            "partitioned": listed(
                connectorx.read_sql(url, query, partition_on="revenue", partition_num=3)
            ),
            "given": listed(
                connectorx.read_sql(url, [f"{query} WHERE n = 3", f"{query} WHERE n = 4"])
            ),
            "aggregated": listed(
                connectorx.read_sql(
                    url, "SELECT n, sum(revenue)::bigint AS r FROM by_minute GROUP BY n"
                )
            ),
            "cursor": listed(connectorx.read_sql(url, query, protocol="cursor")),
            "csv": listed(connectorx.read_sql(url, query, protocol="csv")),
        },
        default=lambda value: value.item() if hasattr(value, "item") else str(value),
    )
)
