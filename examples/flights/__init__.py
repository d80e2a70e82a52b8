"""The 336,776 flights that were to leave New York's airports in 2013.

As events on the day of departure.

`python -m examples.flights FILE.parquet` writes them, in the order of their schedule, for `trilayer
replay FILE.parquet --stream flights`.
"""

from trilayer import Catalog, Query, Stream, View, count, first, latest, max_, mean, sliding, sum_

# What is known when a flight leaves. A cancelled flight never did: it has no `departed` and no
# `dep_delay`, and sometimes no aircraft.
flights = Stream(
    "flights",
    schema="""
        scheduled timestamp not null,
        departed timestamp,
        dep_delay int,
        carrier string not null,
        flight int not null,
        tailnum string,
        origin string not null,
        dest string not null,
        distance int not null
    """,
    event_time="scheduled",
)

# The schedule is in UTC, a carrier's day is New York's: after seven or eight in the evening the two
# differ.
delays = View(
    "delays_by_carrier",
    source=flights,
    key={"carrier": "carrier", "day": "to_date(from_utc_timestamp(scheduled, 'America/New_York'))"},
    aggregates={
        "flights": count(),
        "departed": count("departed"),
        "late": count(where="dep_delay > 15"),
        "mean_delay": mean("dep_delay"),
        "max_delay": max_("dep_delay"),
    },
)

# `period` holds the start of each window and `period_end` its end; a flight is in the four windows
# that its schedule falls into.
busy = View(
    "busy_routes",
    source=flights,
    key={"route": "origin || '-' || dest", "period": sliding("scheduled", "1 hour", "15 minutes")},
    aggregates={"flights": count()},
)

aircraft = View(
    "aircraft",
    source=flights,
    key=["tailnum"],
    where="departed is not null",
    aggregates={
        "flights": count(),
        "miles": sum_("distance"),
        "first_origin": first("origin", by="departed"),
        "latest_dest": latest("dest", by="departed"),
        "latest_departed": max_("departed"),
    },
)

# A mean of means would weigh a quiet day like a busy one: means are weighted by what they were
# taken over.
worst_carriers = Query(
    "worst_carriers",
    """
    select carrier,
           sum(flights)::bigint as flights,
           round(100 * sum(late) / sum(departed), 1) as late_percent,
           round(sum(mean_delay * departed) / sum(departed), 1) as mean_delay,
           max(max_delay) as max_delay
    from delays_by_carrier
    group by carrier
    order by late_percent desc
    limit 5
    """,
)

worst_days = Query(
    "worst_days",
    """
    select day, sum(flights)::bigint as flights, sum(flights - departed)::bigint as cancelled
    from delays_by_carrier
    group by day
    order by cancelled desc, day
    limit 5
    """,
)

# The year is replayed, so that "now" is how far the flights have come, not now(). The newest start
# belongs to a window that has only just begun; of the windows that hold the newest flight, the one
# that ends first has been filling for the longest.
busiest_now = Query(
    "busiest_now",
    """
    select route, period, period_end, flights
    from busy_routes
    where period_end = (select max(period) + interval 15 minutes from busy_routes)
    order by flights desc, route
    limit 5
    """,
)

busiest_ever = Query(
    "busiest_ever",
    "select route, period, period_end, flights from busy_routes order by flights desc, period,"
    " route limit 5",
)

most_flown = Query("most_flown", "select * from aircraft order by flights desc, tailnum limit 5")

catalog = Catalog(
    views=[delays, busy, aircraft],
    queries=[worst_carriers, worst_days, busiest_now, busiest_ever, most_flown],
)
