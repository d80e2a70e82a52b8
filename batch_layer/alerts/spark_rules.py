"""How Spark evaluates the rules of alerts on rows of the master dataset.

The batch run evaluates them on what it has ingested, and `verify` on what it has parsed again, with
the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from trilayer_core.compute.alerts import (
    ORIGIN_ID,
    PROFILE_FILE,
    alerts_of,
    key_columns,
    newest_sql,
    windowed_sql,
    with_profile,
)
from trilayer_core.compute.formats.json import literal
from trilayer_core.compute.parsing import REJECT
from trilayer_core.definitions.alerts import ALERT_COLUMNS, AlertGroup, profile_columns
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.runtime.session import select_from
from trilayer_core.store.alerts import AlertGeneration
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.intervals import Interval

NEW = "_new"
"""The boolean column that is true for events to be evaluated. The others only precede them."""

GENERATION = "_generation"
"""The column with the number of the generation whose profiles count for an event."""


def event_columns(stream: Stream) -> list[str]:
    """The columns of an event, as memory files have them."""
    return [ORIGIN_ID, "_partition", "_offset", "_timestamp", *(f"`{c}`" for c in stream.columns)]


def events_in(
    stream: Stream, intervals: Sequence[Interval], store: Store, spark: SparkSession
) -> DataFrame | None:
    """The events of some intervals that fit, with the identity of their origin.

    Returns None if the intervals have no files.

    Raises:
        IntegrityError: A file is missing or altered.
    """
    by_origin: dict[str, list[StoredFile]] = {}
    for interval in intervals:
        by_origin.setdefault(interval.origin_id, []).extend(interval.files)
    store.check_all(file for files in by_origin.values() for file in files)
    return union(
        [
            spark.read.parquet(*(store.uri(file.path) for file in files))
            .where(F.col(REJECT).isNull())
            .selectExpr(f"{literal(identity)} AS {ORIGIN_ID}", *event_columns(stream)[1:])
            for identity, files in by_origin.items()
            if files
        ]
    )


def union(frames: Sequence[DataFrame | None]) -> DataFrame | None:
    """The rows of all frames; None if there are none."""
    there = [frame for frame in frames if frame is not None]
    return reduce(lambda one, more: one.unionByName(more), there) if there else None


def raised(
    group: AlertGroup,
    rows: DataFrame,
    generations: Sequence[AlertGeneration] | None,
    store: Store,
) -> DataFrame:
    """The alerts that events raise.

    Args:
        group: The alerts.
        rows: Rows with the columns of `event_columns` and `NEW`.
        generations: The generations by whose profiles the events are evaluated. Events before all
            of them are not evaluated. None if no alert has a profile.
        store: The store with the files of the profiles.

    Returns:
        Rows with `ALERT_COLUMNS`.

    Raises:
        IntegrityError: The file of a profile is missing or altered.
    """
    by = generation_sql(generations) if generations is not None else ""
    if by:
        columns = [name for name in rows.columns if name != NEW]
        rows = rows.selectExpr(
            *(f"`{name}`" for name in columns), f"{NEW} AND {by} IS NOT NULL AS {NEW}"
        )
    events = select_from(rows, lambda name: windowed_sql(group, name, NEW))
    if by:
        events = events.selectExpr("*", f"{by} AS {GENERATION}")
    for view in group.profiles:
        events = _with_profiles(events, group, view, generations or (), store)
    return alerts_of(group, events).select(*ALERT_COLUMNS)


def generation_sql(
    generations: Sequence[AlertGeneration],
    origin_id: str = ORIGIN_ID,
    partition: str = "_partition",
    offset: str = "_offset",
) -> str:
    """The SQL of the number of the generation that `profile_of` returns; NULL if there is none.

    It is the same in Spark and in DuckDB.
    """
    whens = []
    # From the newest one on, as in `profile_of`: the first WHEN that holds decides.
    for one in reversed(generations):
        froms = " ".join(
            f"WHEN {p} THEN CAST({low} AS BIGINT)" for p, low in one.alert_from.items() if low
        )
        start = f"CASE {partition} {froms} ELSE CAST(0 AS BIGINT) END" if froms else "0"
        own = f"{origin_id} = {literal(one.origin_id)}"
        whens.append(f"WHEN {own} AND {offset} >= {start} THEN {one.number}")
    return f"(CASE {' '.join(whens)} END)" if whens else "CAST(NULL AS INT)"


def _with_profiles(
    events: DataFrame,
    group: AlertGroup,
    view: View,
    generations: Sequence[AlertGeneration],
    store: Store,
) -> DataFrame:
    """Events with the row of their key in the view, as the generation of each has it."""
    spark = events.sparkSession
    profiles = {one.number: one.profiles[view.name] for one in generations
                if view.name in one.profiles}  # fmt: skip
    columns = ", ".join(f"`{name}` {type_}" for name, type_ in profile_columns(view).items())
    if not profiles:
        rows = spark.createDataFrame([], columns)
        return with_profile(events, rows, group, view, "CAST(NULL AS BIGINT)")
    files = list({profile.file.path: profile.file for profile in profiles.values()}.values())
    store.check_all(files)
    places = {file.path: place for place, file in enumerate(files)}
    rows_of_files = union(
        [
            spark.read.schema(columns)
            .parquet(store.uri(file.path))
            .withColumn(PROFILE_FILE, F.lit(place))
            for place, file in enumerate(files)
        ]
    )
    assert rows_of_files is not None
    versions = {number: f"{profile.version}L" for number, profile in profiles.items()}
    numbers = {number: str(places[profile.file.path]) for number, profile in profiles.items()}
    return with_profile(
        events, rows_of_files, group, view, _by_generation(versions), _by_generation(numbers)
    )


def _by_generation(values: Mapping[int, str]) -> str:
    whens = " ".join(f"WHEN {number} THEN {value}" for number, value in values.items())
    return f"CASE {GENERATION} {whens} END"


def newest(group: AlertGroup, rows: DataFrame) -> DataFrame:
    """The newest events of each key in some rows with the columns of `event_columns`."""
    return select_from(rows, lambda name: newest_sql(group, name))


def scattered(group: AlertGroup, rows: DataFrame) -> int:
    """The number of keys whose events are in more than one partition of the same origin."""
    keys = ", ".join([ORIGIN_ID, *key_columns(group).values()])
    counted = select_from(
        rows,
        lambda name: (
            f"SELECT count(*) AS n FROM (SELECT 1 FROM {name} GROUP BY {keys}"
            " HAVING count(DISTINCT _partition) > 1)"
        ),
    ).collect()
    return int(counted[0]["n"])
