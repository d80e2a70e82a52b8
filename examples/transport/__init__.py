"""A ski resort: how full its lifts are, and where its buses are and how late.

Two streams share one catalog. A lift counts the skiers who pass its gate; windows of ten minutes
begin every five minutes, so that a rush is seen whole in one of them. The names of the lifts come
from a file. A bus reports its position
every 30 seconds: the latest report says where it is, and the quantiles of the delays show what a
mean hides, that most buses are on time and a few are very late. A service of a bus is a session: it
ends when no report has come for five minutes.

`python -m examples.transport.truth FOLDER` generates rides and reports to replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilayer import (
    Catalog,
    Query,
    Rows,
    Stream,
    Table,
    View,
    collect,
    count,
    distinct,
    every,
    latest,
    max_,
    quantiles,
    session,
    sliding,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

rides = Stream(
    "rides",
    schema="passed timestamp not null, lift string not null, skier string not null",
    event_time="passed",
)

reports = Stream(
    "reports",
    schema="""
        reported timestamp not null,
        bus string not null,
        route string not null,
        latitude double not null,
        longitude double not null,
        delay_s int not null,
        passengers int not null
    """,
    event_time="reported",
)

# What the lifts are called is in a file. Its content is part of the definition: when it changes,
# the views over `named_rides` are computed anew.
lifts = Table(
    "lifts",
    path="lifts.csv",
    schema="lift string not null, name string not null, sector string not null, capacity int",
)


def name_lifts(rides: DataFrame, lifts: DataFrame) -> DataFrame:
    """Rides with the name and the sector of their lift; a new lift has neither yet."""
    return rides.join(lifts, "lift", "left").selectExpr(
        "passed", "skier", "coalesce(name, lift) as lift", "sector"
    )


named_rides = Rows(
    "named_rides",
    source=rides,
    rows=name_lifts,
    schema="passed timestamp, skier string, lift string, sector string",
    tables=[lifts],
)

# A few hundred skiers at most pass a gate in five minutes, so each one can be kept: the numbers are
# exact. An estimate could be a little larger than the number of rides.
riders = View(
    "riders",
    source=named_rides,
    key={"lift": "lift", "period": sliding("passed", "10 minutes", "5 minutes")},
    aggregates={"rides": count(), "skiers": distinct("skier", exact=True)},
)

# Many skiers ride in a sector all day, of whom an estimate needs 1,024 small numbers.
sectors = View(
    "sectors",
    source=named_rides,
    key=["sector"],
    aggregates={"rides": count(), "skiers": distinct("skier")},
)

skiers = View(
    "skiers",
    source=rides,
    key=["skier"],
    aggregates={"rides": count(), "last_lifts": collect("lift", 3, by="passed")},
)

buses = View(
    "buses",
    source=reports,
    key=["bus"],
    aggregates={
        "reports": count(),
        "reported": max_("reported"),
        "route": latest("route", by="reported"),
        "latitude": latest("latitude", by="reported"),
        "longitude": latest("longitude", by="reported"),
        "always_empty": every("passengers = 0"),
    },
)

delays = View(
    "delays_by_route",
    source=reports,
    key=["route"],
    aggregates={
        "reports": count(),
        "late": count(where="delay_s > 300"),
        "delay_s": quantiles("delay_s", [0.5, 0.9, 0.99]),
    },
)

# A bus is in service for as long as it reports at least every five minutes.
services = View(
    "services",
    source=reports,
    key={"bus": "bus", "service": session("reported", "5 minutes")},
    aggregates={
        "reports": count(),
        "most_passengers": max_("passengers"),
        "longest_delay_s": max_("delay_s"),
    },
)

# The newest ride says what time it is. Of the windows that contain it, the one that ends first has
# been filling for the longest time.
busiest_lifts = Query(
    "busiest_lifts",
    """
    select riders.lift, period, period_end, rides, skiers,
           round(100 * rides * 6 / capacity) as percent_of_capacity
    from riders left join tables.lifts on name = riders.lift
    where period_end = (select max(period) + interval 5 minutes from riders)
    order by rides desc, riders.lift
    limit 5
    """,
)

where_buses_are = Query(
    "where_buses_are",
    """
    select bus, route, latitude, longitude, reported
    from buses
    order by reported desc, bus
    limit 5
    """,
)

late_services = Query(
    "late_services",
    """
    select bus, service, service_end - interval 5 minutes as last_report, most_passengers,
           longest_delay_s
    from services
    order by longest_delay_s desc, bus, service
    limit 5
    """,
)

late_routes = Query(
    "late_routes",
    """
    select route, reports, round(100 * late / reports, 1) as late_percent,
           [round(d) for d in delay_s] as delay_s
    from delays_by_route
    order by delay_s[3] desc, route
    limit 5
    """,
)

catalog = Catalog(
    views=[riders, sectors, skiers, buses, delays, services],
    queries=[busiest_lifts, where_buses_are, late_routes, late_services],
)
