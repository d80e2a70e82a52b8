"""The table of products of a shop's database, followed by change data capture.

Debezium sends each change of a row to a topic. The view keeps the latest state of each product, in
the order of the database, and says whether its row was deleted; the query leaves out the products
that are gone. The same catalog follows MySQL and PostgreSQL, since `__position` is the position of
a change in either.

`python -m examples.inventory.truth FOLDER` generates a history, and the table at its end.
"""

from trilayer import Catalog, Debezium, Query, Stream, View, count, latest, sum_

UNAVAILABLE = "__debezium_unavailable_value"
"""What PostgreSQL's connector sends for long text that an update has not changed."""

changes = Stream(
    "product_changes",
    schema="""
        id int not null,
        name string,
        price decimal(10,2),
        description string,
        updated_at timestamp in microseconds,
        op string from '__op',
        deleted boolean not null from '__deleted',
        tombstone boolean not null from '__tombstone',
        changed_at timestamp not null from '__ts_ms' in milliseconds,
        position string from '__position'
    """,
    event_time="changed_at",
    format=Debezium(decimals="precise"),
)

# A tombstone follows each delete and has no position of its own. A connector that was restarted
# sends some changes again: they change nothing, because their positions are the same.
products = View(
    "products_ever",
    source=changes,
    key=["id"],
    aggregates={
        "name": latest("name", by="position"),
        "price": latest("price", by="position"),
        "description": latest(
            "description", by="position", where=f"coalesce(description, '') <> '{UNAVAILABLE}'"
        ),
        "updated_at": latest("updated_at", by="position"),
        "deleted": latest("deleted", by="position"),
        "tombstones": count(where="tombstone"),
    },
)

by_day = View(
    "changes_by_day",
    source=changes,
    key={"day": "to_date(changed_at)", "op": "coalesce(op, 'tombstone')"},
    aggregates={"changes": count(), "prices": sum_("price")},
)

table = Query(
    "products",
    "select id, name, price, description, updated_at from products_ever where not deleted",
)

catalog = Catalog(views=[products, by_day], queries=[table])
