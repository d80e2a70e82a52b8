"""Purchases of a shop: exact revenue, current best sellers, and rows that a function makes.

Totals are exact, because sums of money must be. What can't be added up is kept in a form that can:
the number of different buyers and the quantiles of what a purchase costs are estimates with a
stated bound, and the variance of a customer's spending is exact again. The best sellers are asked
for in two ways: `top_sellers` is a query over the exact revenue of each product, while `top` keeps
the number of purchases of each product in an hour. `sales_of_last_hour` is as of the question: it
changes while no purchase is made.

`python -m examples.retail.generate FILE.jsonl` generates purchases to replay, together with the
correct answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilayer import (
    Catalog,
    Query,
    Rows,
    Stream,
    View,
    any_,
    collect,
    count,
    distinct,
    histogram,
    latest,
    max_,
    mode,
    quantiles,
    recent,
    stddev,
    sum_,
    top,
    tumbling,
    variance,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# `customer` is NULL for a guest. The price is a decimal, because sums of money must be exact and
# floating-point sums are not.
purchases = Stream(
    "purchases",
    schema="""
        purchase_id string not null,
        purchased_at timestamp not null,
        customer string,
        product string not null,
        quantity int not null,
        unit_price decimal(10,2) not null,
        coupons array<string>
    """,
    event_time="purchased_at",
    event_id="purchase_id",
)

# Arithmetic on decimals needs an explicit type. This one can hold any int times any decimal(10,2).
# An expression that overflows is an error, and one absurd event must not stop the stream.
AMOUNT = "cast(quantity * unit_price as decimal(20,2))"

# Definitions are plain Python, so what several views have in common can be written once.
SALES = {"purchases": count(), "items": sum_("quantity"), "revenue": sum_(AMOUNT)}

by_product = View(
    "sales_by_product",
    source=purchases,
    key=["product"],
    aggregates=SALES | {"latest_price": latest("unit_price", by="purchased_at")},
)

by_customer = View(
    "sales_by_customer",
    source=purchases,
    key=["customer"],
    aggregates=SALES
    | {"largest": max_(AMOUNT), "latest_product": latest("product", by="purchased_at")},
)

of_last_hour = View(
    "sales_of_last_hour",
    source=purchases,
    key={"product": "product", "minute": recent("purchased_at", "1 hour", "1 minute")},
    aggregates=SALES,
)

by_minute = View(
    "sales_by_minute",
    source=purchases,
    key={"product": "product", "minute": tumbling("purchased_at", "1 minute")},
    aggregates=SALES,
)


buyers = View(
    "buyers_by_product",
    source=purchases,
    key=["product"],
    aggregates={"buyers": distinct("customer"), "with_coupon": count("coupons")},
)

# `variance` takes decimals of at most 18 digits. An amount that does not fit is NULL, and not
# counted.
SPENT = "try_cast(quantity * unit_price as decimal(18,2))"

spending = View(
    "spending_by_customer",
    source=purchases,
    key=["customer"],
    aggregates={
        "purchases": count(),
        "variance": variance(SPENT),
        "deviation": stddev(SPENT),
        "last_products": collect("product", 3, by="purchased_at"),
        "favourite": mode("product"),
        "bought_in_bulk": any_("quantity >= 5"),
    },
)

baskets = View(
    "baskets_by_hour",
    source=purchases,
    key={"hour": tumbling("purchased_at", "1 hour")},
    aggregates={
        "purchases": count(),
        "amounts": quantiles(SPENT, [0.5, 0.9, 0.99]),
        "sizes": histogram(SPENT, [5, 10, 20, 50]),
        "best_sellers": top("product", 3),
    },
)


def explode_coupons(purchases: DataFrame) -> DataFrame:
    """A row for each coupon of a purchase; none for a purchase without."""
    return purchases.selectExpr("explode(coupons) as coupon", "quantity", "unit_price")


coupon_uses = Rows(
    "coupon_uses",
    source=purchases,
    rows=explode_coupons,
    schema="coupon string, quantity int, unit_price decimal(10,2)",
)

by_coupon = View("sales_by_coupon", source=coupon_uses, key=["coupon"], aggregates=SALES)

top_sellers = Query(
    "top_sellers", "select * from sales_by_product order by revenue desc, product limit 10"
)

best_customers = Query(
    "best_customers",
    "select * from sales_by_customer where customer is not null order by revenue desc, customer"
    " limit 10",
)

# Customers whose purchases differ the most: an average would not show them.
erratic_customers = Query(
    "erratic_customers",
    """
    select customer, purchases, round(deviation, 2) as deviation, favourite, last_products
    from spending_by_customer
    where customer is not null and purchases >= 10
    order by deviation desc, customer
    limit 5
    """,
)

latest_baskets = Query(
    "latest_baskets",
    """
    select hour, purchases, [round(a, 2) for a in amounts] as amounts,
           [b.value || ' ' || b.n for b in best_sellers] as best_sellers
    from baskets_by_hour
    order by hour desc
    limit 5
    """,
)

# The view `sales_of_last_hour` gives the same rows. This query filters the rows of all minutes,
# while the view merges only the minutes that it needs. The expressions of a view may not read a
# clock, because both layers must get the same result.
last_hour = Query(
    "last_hour",
    """
    select product,
           sum(purchases)::bigint as purchases,
           sum(items)::bigint as items,
           sum(revenue) as revenue
    from sales_by_minute
    where minute >= now() - interval 1 hour
    group by product
    order by revenue desc, product
    """,
)

catalog = Catalog(
    views=[by_product, by_customer, by_minute, by_coupon, buyers, spending, baskets, of_last_hour],
    queries=[top_sellers, best_customers, last_hour, erratic_customers, latest_baskets],
)
