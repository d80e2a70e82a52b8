"""The views that the README shows for every kind are computed, and their queries answered."""

import json
from datetime import UTC, datetime, timedelta

import pytest

import trilayer
from tests.support.answers import answers_to_files
from tests.support.readme import blocks
from trilayer import Catalog, Query, View

pytestmark = pytest.mark.spark


def test_each_view_of_the_readme_has_an_answer(spark, tmp_path):
    names = {name: getattr(trilayer, name) for name in trilayer.__all__}
    shop, querying, *kinds = blocks("python")
    assert "serving_layer" in querying
    (tmp_path / "shop.py").write_text("\n".join([shop, *kinds]))
    (tmp_path / "products.csv").write_text("product,category\ntea,drinks\n")
    exec(compile((tmp_path / "shop.py").read_text(), tmp_path / "shop.py", "exec"), names)
    views = {value.name: value for value in names.values() if isinstance(value, View)}
    queries = [value for value in names.values() if isinstance(value, Query)]
    catalog = Catalog(views=list(views.values()), queries=queries)
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    orders = [
        {
            "customer": customer,
            "product": product,
            "quantity": number,
            "price": "1.50",
            "at": (now - timedelta(minutes=20 * number)).isoformat(),
        }
        for number, (customer, product) in enumerate(
            [("Ann", "tea"), ("Bob", "tea"), ("Ann", "jam"), ("Ann", "tea")], 1
        )
    ]
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(json.dumps(order) + "\n" for order in orders))
    moment = f"TIMESTAMPTZ '{now.isoformat()}'"
    connection = answers_to_files(spark, catalog, {"orders": path}, now=moment)

    for name in [*views, *(query.name for query in catalog.queries)]:
        assert connection.sql(f"from {name}").fetchall(), name
    assert connection.sql("from just_now order by product").fetchall() == [("jam", 1), ("tea", 2)]
    assert connection.sql("select customer, orders from visits order by all").fetchall() == [
        ("Ann", 1),
        ("Ann", 2),
        ("Bob", 1),
    ]
    assert connection.sql("select best_sellers from habits").fetchall() == [
        ([{"value": "tea", "n": 3}, {"value": "jam", "n": 1}],)
    ]
    assert connection.sql("from by_category order by category").fetchall() == [
        ("drinks", 7),
        (None, 3),
    ]
    assert connection.sql("select uses from by_letter where letter = 't'").fetchall() == [(3,)]
