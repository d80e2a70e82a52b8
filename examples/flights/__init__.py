"""The 336,776 flights scheduled to leave New York's airports in 2013, as departure events.

`python -m examples.flights FILE.parquet` writes them in the order of their schedule, for `trilayer
replay FILE.parquet --stream flights`.
"""

from trilayer import (
    Catalog,
    Query,
    Stream,
    View,
    count,
    distinct,
    first,
    latest,
    max_,
    mean,
    quantiles,
    session,
    sliding,
    sum_,
)

# The schema has what is known when a flight leaves. A cancelled flight has no `departed` and no
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

# The schedule is in UTC, but a carrier's day is New York's: from seven or eight in the evening on
# the two differ.
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

# `period` contains the start of each window and `period_end` its end. A flight is in the four
# windows that contain its scheduled time.
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

# A mean hides the flights that are hours late. Negative delays are early departures.
delay_quantiles = View(
    "delay_quantiles",
    source=flights,
    key=["carrier"],
    aggregates={
        "departed": count("dep_delay"),
        "delay": quantiles("dep_delay", [0.5, 0.9, 0.99]),
    },
)

routes = View(
    "routes",
    source=flights,
    key={"route": "origin || '-' || dest"},
    aggregates={"flights": count(), "aircraft": distinct("tailnum")},
)

# A tour ends when an aircraft does not leave New York for more than three days. Each flight can be
# delayed by another time, so the order of departures is not that of the schedule.
tours = View(
    "tours",
    source=flights,
    key={"tailnum": "tailnum", "tour": session("departed", "3 days")},
    where="departed is not null",
    aggregates={"flights": count(), "miles": sum_("distance"), "latest": max_("departed")},
)

# A mean of means would give a quiet day the weight of a busy one, so each mean is weighted by the
# number of its flights.
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

# The year is replayed, so "now" is the time that the replay has reached, not now(). The window with
# the latest start has only just begun. Of the windows that contain the newest flight, the one that
# ends first has been filling for the longest time.
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

longest_tours = Query(
    "longest_tours",
    """
    select tailnum, tour, latest, flights, miles
    from tours
    order by latest - tour desc, tailnum
    limit 5
    """,
)

most_flown = Query("most_flown", "select * from aircraft order by flights desc, tailnum limit 5")

catalog = Catalog(
    views=[delays, busy, aircraft, delay_quantiles, routes, tours],
    queries=[worst_carriers, worst_days, busiest_now, busiest_ever, longest_tours, most_flown],
)
