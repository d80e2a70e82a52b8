"""ibis: tables, and expressions that it sends as SQL."""

import json
import sys

import ibis

connection = ibis.postgres.connect(
    host="127.0.0.1", port=int(sys.argv[1]), user="analyst", password="", database="trilayer"
)
views = connection.table("by_minute", database="merged")
grouped = views.group_by("minute").aggregate(
    total=views.revenue.sum(), buyers=views.buyer.nunique(), most=views.n.max()
)
other = connection.table("by_minute")
twins = other.select(twin="buyer", other="revenue")
joined = views.inner_join(twins, views.buyer == twins.twin)


def listed(expression):
    frame = expression.to_pandas()
    return [list(row) for row in frame.itertuples(index=False)]


sys.stdout.write(
    json.dumps(
        {
            "tables": connection.list_tables(database="merged"),
            "schema": {name: str(kind) for name, kind in views.schema().items()},
            "grouped": listed(grouped.order_by("minute")),
            "joined": listed(joined["buyer", "revenue", "other"].order_by("buyer")),
            "filtered": listed(
                views.filter((views.revenue > 11) & views.buyer.like("%o%"))
                .mutate(day=views.minute.truncate("D"), text=views.minute.strftime("%Y-%m"))
                .select("buyer", "day", "text")
                .order_by("buyer")
            ),
            "window": listed(
                views.mutate(place=ibis.row_number().over(order_by=ibis.desc("revenue")))
                .select("buyer", "place")
                .order_by("buyer")
            ),
            "counted": int(views.count().execute()),
        },
        default=lambda value: value.item() if hasattr(value, "item") else str(value),
    )
)
