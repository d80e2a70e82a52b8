"""Judges all events below the cut again, and compares that with the published alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_layer.alerts import spark_rules
from batch_layer.alerts.spark_rules import NEW, event_columns, generation_sql
from trilayer.operations.verification.findings import MOST_LINES, AlertFindings, Notes
from trilayer.operations.verification.records import ORIGIN, SLOT, Records
from trilayer.operations.verification.state import StreamState
from trilayer_core.compute.alerts import ORIGIN_ID
from trilayer_core.compute.formats.json import literal
from trilayer_core.definitions.alerts import Alert, AlertGroup
from trilayer_core.store.alerts import AlertGeneration, AlertGenerations, as_judged
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.publication import Publication, PublishedAlert

_PLACE = 'topic_id, "partition", "offset"'
_SCHEMA = pa.schema(
    [
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("created_us", pa.int64()),
        ("digest", pa.string()),
    ]
)


def verify_alerts(
    duck: duckdb.DuckDBPyConnection,
    state: StreamState,
    records: Records,
    published: Publication | None,
    notes: Notes,
) -> dict[str, AlertFindings]:
    """Judges the events of a stream below the cut again, by each of its alerts.

    What is remembered of each key is compared as well; a fault there is noted.

    Raises:
        IntegrityError: A file of the publication, or that of a profile, is missing or altered.
    """
    findings: dict[str, AlertFindings] = {}
    rows = _below(state, records)
    store = state.project.store
    for group in state.project.catalog.groups_of(state.stream):
        by_generations: dict[str, list[tuple[Alert, PublishedAlert]]] = {}
        kept: dict[str, list[AlertGeneration] | None] = {}
        for alert in group.alerts:
            published_alert = (published.alerts or {}).get(alert.name) if published else None
            if published_alert is None or published_alert.fingerprint != alert.fingerprint:
                findings[alert.name] = AlertFindings(
                    not_compared="the publication in force does not have its present definition"
                )
                continue
            generations = _kept(alert, published_alert, group, store)
            kept[repr(generations)] = generations
            by_generations.setdefault(repr(generations), []).append((alert, published_alert))
        for key, together in by_generations.items():
            findings |= _verified(duck, together, rows, kept[key], store, few=records.few)
        notes.wrong += _memory_faults(duck, group, rows, published, state, records)
    return findings


def _below(state: StreamState, records: Records) -> DataFrame | None:
    """Returns the events below the cut, parsed again, with the identity of their origin."""
    if records.rows is None or not state.chain:
        return None
    begun = [0, *state.begun]
    identities = ", ".join(literal(state.chain[number].origin_id) for number in begun)
    return records.counted.where(F.col(SLOT) == 0).selectExpr(
        f"element_at(array({identities}), {ORIGIN} + 1) AS {ORIGIN_ID}",
        "_partition",
        "_offset",
        "timestamp_millis(_stamp) AS _timestamp",
        *event_columns(state.stream)[4:],
    )


def _kept(
    alert: Alert, published_alert: PublishedAlert, group: AlertGroup, store: Store
) -> list[AlertGeneration] | None:
    """Returns the newest generations whose profiles are all kept; None without a profile."""
    if alert.profile is None:
        return None
    recorded = AlertGenerations(store, group).of(alert.name, alert.fingerprint)
    kept: list[AlertGeneration] = []
    for one in reversed(as_judged(recorded, published_alert.judged or ())):
        profile = one.profiles.get(alert.profile.name)
        if profile is not None and not store.exists(profile.file.path):
            break
        kept.insert(0, one)
    return kept


def _verified(
    duck: duckdb.DuckDBPyConnection,
    together: Sequence[tuple[Alert, PublishedAlert]],
    rows: DataFrame | None,
    generations: Sequence[AlertGeneration] | None,
    store: Store,
    *,
    few: bool,
) -> dict[str, AlertFindings]:
    group = AlertGroup(tuple(alert for alert, _ in together))
    _create(duck, "judged_again", ["alert VARCHAR"])
    if rows is not None:
        raised = spark_rules.raised(group, rows.withColumn(NEW, F.lit(True)), generations, store)
        table = (raised.coalesce(1) if few else raised).selectExpr("alert", *_PLACED_SPARK)
        _insert(duck, "judged_again", table.toArrow())
    findings = {}
    for alert, published_alert in together:
        _create(duck, "published")
        for file in published_alert.files:
            read = store.read_table(file, [*_SCHEMA.names[:3], "created_at", "payload"])
            duck.register("one_file", read)
            duck.execute(
                f"INSERT INTO published SELECT {_PLACE}, epoch_us(created_at), md5(payload)"
                " FROM one_file"
            )
        judged = "true"
        if generations is not None:
            by = generation_sql(generations, "topic_id", '"partition"', '"offset"')
            judged = f"{by} IS NOT NULL"
        own = f"(FROM judged_again SELECT * EXCLUDE (alert) WHERE alert = {literal(alert.name)})"
        compared = _compare(duck, own, f"(FROM published WHERE {judged})")
        findings[alert.name] = replace(
            compared,
            not_judged=_count(duck, f"FROM published WHERE NOT ({judged})"),
            since=_since(generations),
        )
    return findings


_PLACED_SPARK = (
    "topic_id", "partition", "`offset`", "unix_micros(created_at) AS created_us",
    "md5(payload) AS digest",
)  # fmt: skip


def _create(duck: duckdb.DuckDBPyConnection, table: str, extra: Sequence[str] = ()) -> None:
    columns = ", ".join(
        [
            *extra,
            'topic_id VARCHAR, "partition" INT, "offset" BIGINT, created_us BIGINT, digest VARCHAR',
        ]
    )
    duck.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")


def _insert(duck: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    duck.register("some_rows", rows)
    duck.execute(f"INSERT INTO {table} FROM some_rows")


def _count(duck: duckdb.DuckDBPyConnection, rows: str) -> int:
    row = duck.execute(f"SELECT count(*) FROM ({rows})").fetchone()
    assert row is not None
    return int(row[0])


def _compare(duck: duckdb.DuckDBPyConnection, again: str, published: str) -> AlertFindings:
    """Compares two relations with the columns of `_SCHEMA`; doubled places are extra."""
    duck.execute(
        f"""
        CREATE OR REPLACE TABLE compared AS
        WITH a AS {again},
        p AS (SELECT *, row_number() OVER (PARTITION BY {_PLACE} ORDER BY digest) AS n
              FROM {published})
        SELECT {_PLACE}, CASE
            WHEN p.digest IS NULL THEN 'missing'
            WHEN a.digest IS NULL OR p.n > 1 THEN 'extra'
            WHEN a.digest <> p.digest OR a.created_us <> p.created_us THEN 'differ'
            ELSE 'equal' END AS kind
        FROM a FULL JOIN p USING ({_PLACE})"""
    )
    counts = dict(duck.execute("SELECT kind, count(*) FROM compared GROUP BY kind").fetchall())
    first = duck.execute(
        f'SELECT kind, "partition", "offset" FROM compared WHERE kind <> \'equal\''
        f" ORDER BY ALL LIMIT {MOST_LINES}"
    ).fetchall()
    return AlertFindings(
        counts.get("equal", 0),
        counts.get("missing", 0),
        counts.get("extra", 0),
        counts.get("differ", 0),
        [
            f"the alert of partition {partition} offset {offset} {_FAULTS[kind]}"
            for kind, partition, offset in first
        ],
    )


_FAULTS = {
    "missing": "is missing",
    "extra": "should not be there, or is there twice",
    "differ": "has other content than when it is judged again",
}


def _since(generations: Sequence[AlertGeneration] | None) -> str | None:
    """Returns from where on events were evaluated again, as text."""
    if generations is None:
        return None
    if not generations:
        return "no event: no profile is kept, or the alert is not watched yet"
    first = generations[0]
    places = ", ".join(f"{p}:{offset}" for p, offset in sorted(first.alert_from.items()))
    return f"{places} (generation {first.number})"


# -- what is remembered ----------------------------------------------------------------------------


def _memory_faults(
    duck: duckdb.DuckDBPyConnection,
    group: AlertGroup,
    rows: DataFrame | None,
    published: Publication | None,
    state: StreamState,
    records: Records,
) -> Iterator[str]:
    """Differences between what a publication remembers of each key and what the events say."""
    memory = (published.memories or {}).get(group.name) if published else None
    if memory is None or memory.fingerprint != group.memory_fingerprint:
        return
    store = state.project.store
    remembered = _remembered(group, memory.files, store, records)
    for table, events in (("judged_again", rows), ("published", remembered)):
        _create(duck, table)
        if events is not None:
            own = events.where(f"{ORIGIN_ID} = {literal(state.identity)}")
            newest = spark_rules.newest(group, own)
            newest = newest.coalesce(1) if records.few else newest
            columns = ", ".join(event_columns(group.stream)[4:])
            content = f"md5(to_json(struct({columns}))) AS digest"
            place = (f"{ORIGIN_ID} AS topic_id", "_partition AS partition", "_offset AS `offset`")
            selected = newest.selectExpr(*place, "unix_micros(_timestamp) AS created_us", content)
            _insert(duck, table, selected.toArrow())
    compared = _compare(duck, "(FROM judged_again)", "(FROM published)")
    there = spark_rules.scattered(group, remembered) if remembered is not None else 0
    if memory.scattered != there:
        yield (
            f"the publication counts {memory.scattered:,} keys of {group.name} with events in"
            f" several partitions, {there:,} are there"
        )
    if not compared.same:
        yield (
            f"the newest events of each key, {group.name}, are not those of the master dataset:"
            f" {compared.missing:,} missing, {compared.extra:,} extra, {compared.differ:,} differ"
        )


def _remembered(
    group: AlertGroup, files: Sequence[StoredFile], store: Store, records: Records
) -> DataFrame | None:
    if not files:
        return None
    store.check_all(files)
    read = records.start().read.parquet(*(store.uri(file.path) for file in files))
    return read.selectExpr(*event_columns(group.stream))
