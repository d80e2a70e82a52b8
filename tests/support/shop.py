"""A catalog with views of several kinds over one stream, for what is about their descriptions."""

from trilayer import (
    Alert,
    Catalog,
    Query,
    Stream,
    View,
    count,
    distinct,
    max_,
    mean,
    sum_,
    tumbling,
)

SCHEMA = (
    "shop string, price int, card string, ratio double, cost decimal(10,2), tags array<string>,"
    " at timestamp"
)


def shop_catalog():
    sales = Stream("sales", SCHEMA, event_time="at", topic="sales")
    by_shop = {"n": count(), "revenue": sum_("price"), "cost": sum_("cost"),
               "ratio": mean("ratio"), "last_at": max_("at")}  # fmt: skip
    views = [
        View("totals", source=sales, key=["shop"], aggregates=by_shop),
        View(
            "by_minute",
            source=sales,
            key={"shop": "shop", "minute": tumbling("at", "1 minute")},
            aggregates={"n": count(), "revenue": sum_("price")},
        ),
        View("cards", source=sales, key=["shop"], aggregates={"cards": distinct("card")}),
        View("per_price", source=sales, key=["price"], aggregates={"n": count()}),
    ]
    best = Query("best", "select shop, revenue from totals order by revenue desc limit 1")
    dear = Alert("dear", source=sales, key=["shop"], rule="price > 100")
    return Catalog(views=views, queries=[best], alerts=[dear])
