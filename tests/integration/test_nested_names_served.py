"""Fields inside structs, arrays and maps whose names have capitals, from the event to clients."""

import json
from decimal import Decimal

import httpx
import pytest

from tests.support.layers import Pipeline, quick
from tests.support.served import Serving
from tests.support.waiting import until
from trilayer import Catalog, Stream, View, count, max_, sum_
from trilayer_core.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SCHEMA = """at timestamp, ship struct<zipCode:string,`Home Town`:struct<Lat:double>>,
    lines array<struct<skuId:string,Price:decimal(8,2)>> from 'Lines',
    places map<string,struct<Floor:int>>"""
EVENT = {
    "at": "2026-01-01",
    "ship": {"zipCode": "01234", "Home Town": {"Lat": 50.7}, "zipcode": "unknown"},
    "Lines": [{"skuId": "A", "Price": 2.5}],
    "places": {"Main": {"Floor": 3}, "main": {"Floor": 9}},
}


def catalog_on(topic):
    orders = Stream("orders", SCHEMA, event_time="at", topic=topic)
    by_zip = View(
        "by_zip",
        source=orders,
        key={"exact": "ship.zipCode", "other": "ship.ZIPCODE", "sku": "lines[0].skuid"},
        aggregates={
            "n": count(where="lines[0].PRICE > 1 and ship.`home town`.lat > 50"),
            "paid": sum_("lines[0].price * 2"),
            "floor": max_("places['Main'].floor"),
        },
    )
    return Catalog(views=[by_zip])


def test_nested_names_keep_their_spelling(broker, store, spark, new_topic):
    catalog, value = catalog_on(new_topic()), json.dumps(EVENT).encode()
    key = ("01234", "01234", "A")
    once = {key: {"n": 1, "paid": Decimal("5.00"), "floor": 3}}
    twice = {key: {"n": 2, "paid": Decimal("10.00"), "floor": 3}}
    settings = quick(broker.bootstrap, serve={"port": 0, "http_port": 0})
    with Pipeline(catalog, settings, store, spark) as pipeline:
        pipeline.produce([(0, value)])
        pipeline.catch_up()
        assert pipeline.answers("speed")[0] == {"by_zip": once}
        pipeline.wait_for_tick()
        assert pipeline.batch().streams["orders"].quarantined == 0
        assert pipeline.answers("batch")[0] == {"by_zip": once}
        pipeline.produce([(1, value)])
        pipeline.catch_up()
        # A reader looks once a second for a commit that does not follow one it has loaded.
        until(lambda: pipeline.answers("merged")[0] == {"by_zip": twice})
        with Serving(Project(settings, catalog, store)) as server:
            with server.client() as client:
                rows = client.execute("SELECT * FROM by_zip").fetchall()
                assert rows == [(*key, *twice[key].values())]
            url = f"http://{server.target}/v1/sql"
            sql = {"sql": "SELECT * FROM by_zip", "format": "json"}
            answer = httpx.post(url, json=sql, trust_env=False).json()
            assert answer["rows"] == [[*key, 2, "10.00", 3]], answer
