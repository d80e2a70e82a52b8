"""A small catalog over one topic of sales, and events for it: what a store is made from where a
test is about the store, not about views.
"""

import json

from trilayer import Catalog, Query, Stream, View, count, sum_


def catalog_on(topic, *, where=None, more=()):
    stream = Stream("sales", "shop string, price int, at timestamp", event_time="at", topic=topic)
    totals = View(
        "totals",
        source=stream,
        key=["shop"],
        aggregates={"n": count(), "revenue": sum_("price")},
        where=where,
    )
    other = View("per_price", source=stream, key=["price"], aggregates={"n": count()})
    views = [
        totals,
        other,
        *(View(name, source=stream, key=["shop"], aggregates={"n": count()}) for name in more),
    ]
    return Catalog(
        views=views,
        queries=[Query("best", "select shop from totals order by revenue desc limit 1")],
    )


def sales(shops):
    return [
        (n % 2, json.dumps({"shop": s, "price": n, "at": "2026-01-01T00:00:00Z"}).encode())
        for n, s in enumerate(shops)
    ]


def fill(pipeline):
    """Four events below the published cut, two above it, in a segment."""
    pipeline.produce(sales("aabb"))
    pipeline.catch_up()
    pipeline.wait_for_tick()
    pipeline.batch()
    pipeline.produce(sales("ac"))
    pipeline.catch_up()


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])
