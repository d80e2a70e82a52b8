"""Packets of a network: who sends how much, and who behaves differently from before.

The views count packets and bytes of each source in each second, and the different ports that it has
tried. Whether a source is suspicious is not a view but a question: `scanners` finds sources that
try many ports, and `unusual` compares the last seconds of each source with all seconds before, with
nothing but the totals by second. `strangers` are sources from outside that are in no list. The
answers are as fresh as the speed layer and as complete as the batch layer: a source's history may
reach back years.

`python -m examples.network.truth FOLDER` generates packets to replay, with a scan of ports and a
burst among them.
"""

from trilayer import (
    Catalog,
    Query,
    Stream,
    Table,
    View,
    count,
    distinct,
    histogram,
    max_,
    min_,
    sum_,
    tumbling,
)

packets = Stream(
    "packets",
    schema="""
        seen timestamp not null,
        source string not null,
        destination string not null,
        port int not null,
        bytes int not null
    """,
    event_time="seen",
)

# The hosts that someone has entered in a list. Only queries use it, so that a new list applies to
# all packets, old and new.
hosts = Table(
    "hosts",
    path="hosts.csv",
    schema="address string not null, name string not null, role string",
)

by_second = View(
    "traffic_by_second",
    source=packets,
    key={"source": "source", "second": tumbling("seen", "1 second")},
    aggregates={"packets": count(), "bytes": sum_("bytes")},
)

# The number of ports is an estimate, for which a source needs at most 1,024 small numbers. The
# number of destinations is exact, for which each one is kept.
by_source = View(
    "sources",
    source=packets,
    key=["source"],
    aggregates={
        "packets": count(),
        "bytes": sum_("bytes"),
        "ports": distinct("port"),
        "destinations": distinct("destination", exact=True),
        "first_seen": min_("seen"),
        "last_seen": max_("seen"),
        "sizes": histogram("bytes", [128, 512, 1024]),
    },
)

scanners = Query(
    "scanners",
    """
    select source, ports, packets, first_seen, last_seen
    from sources
    where ports > 100
    order by ports desc, source
    """,
)

# A source without packets in a second has no row for it, so sums are divided by the number of
# seconds that have passed since the source was first seen. The variance is that of the packets of
# all those seconds, empty ones included.
unusual = Query(
    "unusual",
    """
    with clock as (
        select max(second) - interval 9 seconds as start from traffic_by_second
    ),
    history as (
        select source,
               greatest(date_diff('second', min(second), any_value(start)), 1) as seconds,
               sum(packets) / seconds as mean,
               sqrt(greatest(sum(packets * packets) / seconds - mean * mean, 0)) as deviation
        from traffic_by_second, clock
        where second < start
        group by source
    ),
    recent as (
        select source, sum(packets) / 10 as rate
        from traffic_by_second, clock
        where second >= start
        group by source
    )
    select source,
           round(rate, 1) as packets_per_second,
           round(mean, 3) as before,
           round((rate - mean) / greatest(deviation, 0.1), 1) as deviations
    from recent left join history using (source)
    where history.source is null or rate > mean + 4 * greatest(deviation, 0.1)
    order by deviations desc nulls first, source
    """,
)

loudest = Query(
    "loudest",
    """
    select source, name, role, packets, bytes, destinations
    from sources left join tables.hosts on address = source
    order by bytes desc, source
    limit 5
    """,
)

strangers = Query(
    "strangers",
    """
    select source, packets, first_seen
    from sources anti join tables.hosts on address = source
    where source not like '10.%'
    order by packets desc, source
    """,
)

catalog = Catalog(
    views=[by_second, by_source], queries=[scanners, unusual, loudest, strangers], tables=[hosts]
)
