"""Names of engines, and of trilayer itself, are a user's own from the event to every client."""

import json
from functools import partial

import httpx
import pytest

from serving_layer.changes import Follower
from tests.support.changelogs import Following, read
from tests.support.layers import Pipeline, quick
from tests.support.served import Serving
from tests.support.waiting import until
from trilayer import Catalog, Changelog, Stream, View, count, latest, max_, sum_
from trilayer.cli import sql as command
from trilayer.operations.verification.run import verification
from trilayer.testing import Aggregation, Event, answer, field
from trilayer_core.errors import ConflictError
from trilayer_core.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

CHUNKS = [
    ["rowid", "ctid", "xmin", "cmax", "tableoid", "oid", "file", "filename", "tick", "fold", "row"],
    ["from", "select", "true", "null", "case", "any", "current_user", "current_date", "key"],
    [
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "metadata",
        "headers",
        "columns",
        "user",
    ],
    ["event", "kind", "reject", "state", "id", "answer", "digest", "held", "batch", "merged"],
]
"""The keys of each view, which the next one aggregates. The first of them is its name, too."""

NAMES = [name for chunk in CHUNKS for name in chunk]
AT = "current_timestamp"
KINDS = [
    ("sum_", lambda name: sum_(f"`{name}`"), {}),
    ("latest", lambda name: latest(f"`{name}` + 1", by=f"`{AT}`"), {"by": field(AT)}),
    ("max_", lambda name: max_(f"`{name}`", where=f"`{name}` > 0"), {}),
    ("count", lambda name: count(where=f"`{name}` IS NOT NULL"), {}),
]


def kind_of(name):
    return KINDS[NAMES.index(name) % len(KINDS)]


def catalog_on(topic):
    columns = ", ".join(f"`{name}` bigint" for name in NAMES)
    stream = Stream("events", f"{columns}, `{AT}` timestamp not null", event_time=AT, topic=topic)
    views = [
        View(
            keys[0],
            source=stream,
            key=keys,
            aggregates={name: kind_of(name)[1](name) for name in values},
        )
        for keys, values in zip(CHUNKS, [*CHUNKS[1:], CHUNKS[0]], strict=True)
    ]
    changelogs = [Changelog(view.name, view=view, topic=f"{topic}-{view.name}") for view in views]
    return Catalog(views=views, changelogs=changelogs)


def row_of(number):
    """The columns of an event: those of every fourth are NULL, and equal otherwise."""
    group = number % 4
    values = {name: place + 100 * group if group else None for place, name in enumerate(NAMES)}
    return values | {AT: f"2026-01-01T00:{number:02d}:00Z"}


def asked(name):
    kind, _, more = kind_of(name)
    value = field(name)
    if kind == "latest":
        return Aggregation(kind, lambda row: None if row[name] is None else row[name] + 1, **more)
    if kind == "max_":
        return Aggregation(kind, value, where=lambda row: row[name] is not None and row[name] > 0)
    if kind == "count":
        return Aggregation(kind, where=lambda row: row[name] is not None)
    return Aggregation(kind, value)


class World:
    """What has been sent, and every door by which it is asked."""

    def __init__(self, pipeline, server):
        self.pipeline, self.server = pipeline, server
        self.views = pipeline.catalog.views
        self.events = []

    def send(self, numbers):
        rows = [row_of(number) for number in numbers]
        places = self.pipeline.produce([(0, json.dumps(row).encode()) for row in rows])
        self.events += [
            Event(partition, offset, row)
            for (partition, offset, _), row in zip(places, rows, strict=True)
        ]
        self.pipeline.catch_up()

    def expected(self, view, among=None):
        """The rows of a view, in some order that is always the same."""
        rows = answer(
            self.events if among is None else among,
            {key.name: field(key.name) for key in view.keys},
            {name: asked(name) for name in view.aggregates},
        )
        return ordered([*key, *values.values()] for key, values in rows.items())

    def check(self, connection, followers, speed):
        """Compares the answers by all doors; `speed` are the events after the cut."""
        among = {"merged": self.events, "speed": speed}
        if speed != self.events:
            among["batch"] = self.events[: len(self.events) - len(speed)]
        for view in self.views:
            rows = self.expected(view)
            columns = ", ".join(f't."{name}"' for name in view.output)
            sql = f'SELECT {columns} FROM "{view.name}" t'
            for layer, some in among.items():
                eventually(partial(ask, connection, sql, layer), self.expected(view, some))
            arrived = connection.sql(f'FROM arrivals."{view.name}"').dicts()
            assert {tuple(row) for row in arrived} <= {("_tick", *view.output)}
            followers[view.name].take()
            assert ordered(followers[view.name].rows.values()) == rows
            eventually(partial(self.by_wire, view), rows)
            eventually(partial(self.by_http, view), rows)
            by_first = [row for row in rows if row[0] == rows[0][0]]
            eventually(partial(self.by_point, view, rows[0][0]), by_first)
            eventually(partial(self.by_topic, view), rows)
        until(partial(is_verified, connection))

    def by_wire(self, view):
        with self.server.client() as client:
            return ordered(client.execute(f'SELECT * FROM "{view.name}"').fetchall())

    def by_point(self, view, first):
        """The rows with one value of the first key, which is a parameter of the statement."""
        statement = f'SELECT * FROM "{view.name}" WHERE "{view.output[0]}" = %s::bigint'
        with self.server.client() as client:
            return ordered(client.execute(statement, [first]).fetchall())

    def by_topic(self, view):
        """The rows that a reader of the view's changelog holds."""
        (changelog,) = (c for c in self.pipeline.catalog.changelogs if c.view is view)
        bootstrap = self.pipeline.settings.bootstrap_servers
        rows, _ = read(bootstrap, changelog.topic)
        return ordered(json.loads(row).values() for row in rows.values())

    def by_http(self, view):
        answer = httpx.post(
            f"http://{self.server.target}/v1/sql",
            json={"sql": f'FROM merged."{view.name}"', "format": "json"},
            trust_env=False,
        )
        return ordered(answer.json()["rows"])


class Holder:
    """Someone who follows a view."""

    def __init__(self, connection, view):
        self.follower, self.rows = Follower(connection, view), {}

    def take(self):
        changes = self.follower.poll()
        for key in changes.gone:
            del self.rows[key]
        self.rows |= {key: list(json.loads(row).values()) for key, row in changes.rows}


def eventually(ask, rows):
    """Asks until the answer has these rows; a reader may load what is new a moment later."""
    found = []

    def is_answered():
        found[:] = ask()
        return found == rows

    try:
        until(is_answered)
    except AssertionError:
        assert found == rows
        raise


def is_verified(connection):
    """Whether the reader's answers could be verified: not while files of theirs are merged."""
    try:
        assert connection.verify() == {}
    except ConflictError:
        return False
    return True


def ask(connection, sql, layer):
    return ordered(connection.sql(sql, layer).rows())


def ordered(rows):
    return sorted((list(row) for row in rows), key=str)


def test_names_of_engines_are_those_of_columns_and_views(
    broker, store, spark, new_topic, capsys, monkeypatch
):
    catalog = catalog_on(new_topic())
    settings = quick(broker.bootstrap, serve={"port": 0, "http_port": 0})
    project = Project(settings, catalog, store)
    monkeypatch.setattr(command, "project", lambda: project)
    with (
        Pipeline(catalog, settings, store, spark) as pipeline,
        Serving(project) as server,
        Following(project),
    ):
        connection, world = pipeline._connection, World(pipeline, server)
        world.send(range(6))
        followers = {view.name: Holder(connection, view) for view in catalog.views}
        world.check(connection, followers, world.events)
        pipeline.wait_for_tick()
        publication = pipeline.batch()
        assert publication.streams["events"].quarantined == 0
        world.check(connection, followers, [])
        before = len(world.events)
        world.send(range(3, 9))
        world.check(connection, followers, world.events[before:])
        for view in catalog.views:
            command.sql(f'FROM "{view.name}"', format_=command.Format.json)
            said = json.loads(capsys.readouterr().out)
            assert ordered(row.values() for row in said) == world.expected(view)
        assert verification(project, lambda: spark).clean
