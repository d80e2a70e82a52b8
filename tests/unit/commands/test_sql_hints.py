"""What an answer to a question says of names that SQL reads otherwise than the person meant."""

import pytest

import serving_layer
from trilayer import Catalog, Stream, View, count
from trilayer_core.errors import UsageError
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

REQUESTS = Stream("requests", "at timestamp, end string", event_time="at")
CATALOG = Catalog(
    views=[
        View("v", source=REQUESTS, key=["at", "end"], aggregates={"order": count()}),
        View("w", source=REQUESTS, key=["end"], aggregates={"group": count()}),
    ]
)


def error_of(query, folder):
    store = str(folder / "store")
    settings = Settings(store=store, home=folder / "home")
    with (
        serving_layer.connect(CATALOG, settings, Store(store)) as connection,
        pytest.raises(UsageError) as raised,
    ):
        connection.sql(query)
    return str(raised.value)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("select at from v", 'If at is the column, write "at", in double quotes'),
        ("select\n  end\nfrom v", 'If end is the column, write "end", in double quotes'),
        ("select * from v order by order", 'If order is the column, write "order"'),
        ("select group, end from w", 'If group is the column, write "group"'),
        ("select * from 'data/e.parquet'", "--table NAME=FILE"),
        ("select * from requests", "requests is a stream, which is no table: ask its views, v, w"),
    ],
)
def test_what_to_do_is_said(query, says, tmp_path):
    assert says in error_of(query, tmp_path)


def test_an_error_elsewhere_has_no_hint(tmp_path):
    assert "double quotes" not in error_of("select selec n from v from", tmp_path)
