"""The definition of a view, as the catalog shows it."""

from trilayer import Stream, View, count, recent, session, sliding, tumbling
from trilayer_server.introspection.objects import meaning


def test_expressions_are_written_as_they_were_declared():
    stream = Stream("s", "k string, n int, at timestamp", event_time="at")
    view = View(
        "v",
        source=stream,
        key={"day": "to_date(at)", "initial": "upper(substring(k, 1, 1))"},
        aggregates={"n": count(where="n > 10")},
    )
    assert meaning(view, by_tick=False).split("\n") == [
        " SELECT to_date(at) AS day,",
        "    upper(substring(k, 1, 1)) AS initial,",
        "    count(*) FILTER (WHERE n > 10) AS n",
        "   FROM s",
        "  GROUP BY day, initial",
    ]


def test_windows_are_written_as_they_were_declared():
    stream = Stream("s", "k int, at timestamp", event_time="at")
    for window, said in (
        (tumbling("at", "1 day"), "tumbling(at, '1 day') AS w"),
        (sliding("at", "90 seconds", "30 seconds"), "sliding(at, '90 seconds', '30 seconds') AS w"),
        (session("at", "30 minutes"), "session(at, '30 minutes') AS w"),
    ):
        view = View(
            "v", source=stream, key={"k": "k", "w": window}, aggregates={"n": count("k > 1")},
            where="k > 0",
        )  # fmt: skip
        assert said in meaning(view, by_tick=False)
        assert "WHERE k > 0" in meaning(view, by_tick=False)
    last = View("v", source=stream, key={"k": "k", "w": recent("at", "1 hour", "1 minute")},
                aggregates={"n": count()})  # fmt: skip
    assert "GROUP BY k, recent(at, '1 hour', '1 minute')" in meaning(last, by_tick=False)
