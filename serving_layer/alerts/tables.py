"""A reader's native tables of alerts, and the relations over them.

For each alert there is a table of what the batch layer's files have, and one of what was sent. The
state of an alert follows from both and from the cut of the publication when it is asked for:

- `early`: it was sent, and the publication does not reach its event.
- `confirmed`: it was sent, and is in the batch layer's set.
- `withdrawn`: it was sent, and is not in the batch layer's set, which reaches its event.
- `added`: it is in the batch layer's set, and was not sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from serving_layer.alerts.content import CONTENT, content_sql, content_types
from serving_layer.alerts.reasons import Evaluations, Place, Reach, Reason, Span
from serving_layer.state import FilesPlan
from trilayer_core.compute.merging import quoted_duckdb
from trilayer_core.definitions.alerts import Alert
from trilayer_core.store.files import StoredFile

LAYER = "trilayer_layer"
"""The variable of a DuckDB cursor with the layer in which alerts are selected."""

SCHEMA = "alerts"
"""The schema with the relation of each alert."""

OUTPUT = (
    "state", "why", "created_at", "seen_at", "id", "partition", "offset", *CONTENT,
)  # fmt: skip
"""The columns of the relation of an alert."""

_PLACE = {"topic_id": "VARCHAR", "partition": "INTEGER", "offset": "BIGINT"}
_BATCH = {"_file": "INTEGER", **_PLACE, "created_at": "TIMESTAMPTZ", "digest": "UHUGEINT"}
_SENT = {
    **_PLACE,
    "created_at": "TIMESTAMPTZ",
    "seen_at": "TIMESTAMPTZ",
    "digest": "UHUGEINT",
}
_OTHERS = {**_PLACE, "digest": "UHUGEINT"}
_REASONS = {
    "state": "VARCHAR",
    "topic_id": "VARCHAR",
    "partition": "INTEGER",
    "version": "BIGINT",
    "first": "BIGINT",
    "beyond": "BIGINT",
    "why": "VARCHAR",
}
_AT = ", ".join(map(quoted_duckdb, _PLACE))


@dataclass(frozen=True)
class AlertChange:
    """How the batch layer's set of an alert changes with a publication.

    Attributes:
        alert: The alert.
        files: The files whose rows go, stay and come.
        reach: How far the publication reaches.
        evaluations: By what events were evaluated.
    """

    alert: Alert
    files: FilesPlan
    reach: Reach
    evaluations: Evaluations


@dataclass(frozen=True)
class AlertArrival:
    """What was sent of an alert.

    Attributes:
        alert: The alert.
        rows: Rows of `SENT_SCHEMA`, also of other alerts.
        reload: Whether the rows that were added before are not valid any more.
        evaluations: By what events were evaluated.
    """

    alert: Alert
    rows: Sequence[pa.Table]
    reload: bool
    evaluations: Evaluations


@dataclass
class _Contents:
    """What the tables of an alert contain, as far as reasons depend on it.

    Attributes:
        sent: The offsets of what was sent.
        batch: The offsets of the batch layer's set.
        reach: How far the publication reaches.
        reasons: The reasons in the table.
    """

    sent: dict[Place, Span] = field(default_factory=dict)
    batch: dict[Place, Span] = field(default_factory=dict)
    reach: Reach = field(default_factory=Reach)
    reasons: list[Reason] = field(default_factory=list)


class AlertTables:
    """The tables of all alerts, in one DuckDB. They are changed in the caller's transaction."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, alerts: Sequence[Alert]) -> None:
        """Creates empty tables and the relations over them; nothing if there are no alerts."""
        self._connection = connection
        self._alerts = {alert.name: alert for alert in alerts}
        self._contents = {name: _Contents() for name in self._alerts}
        self._batch_sql = {
            name: content_sql(alert, "_arriving") for name, alert in self._alerts.items()
        }
        self._arrived_sql = {name: _arrived_sql(alert) for name, alert in self._alerts.items()}
        if not alerts:
            return
        connection.execute(f"CREATE SCHEMA _alerts; CREATE SCHEMA {SCHEMA}")
        for alert in alerts:
            self._create(alert)
            connection.execute(
                f"CREATE VIEW {SCHEMA}.{quoted_duckdb(alert.name)} AS {_relation_sql(alert)}"
            )

    def clear(self) -> None:
        """Empties all tables."""
        for name, alert in self._alerts.items():
            for table in ("batch", "sent", "others", "reach", "reasons"):
                self._connection.execute(f"DROP TABLE {_table(alert, table)}")
            self._create(alert)
            self._contents[name] = _Contents()

    def replace(self, change: AlertChange, rows: Mapping[StoredFile, pa.Table]) -> None:
        """Changes the batch layer's set to that of a publication.

        Args:
            change: The change.
            rows: The rows of each file that comes.
        """
        alert, plan = change.alert, change.files
        table = _table(alert, "batch")
        if plan.staying is not None:
            next_ = _table(alert, "next")
            self._create_table(next_, alert, _BATCH)
            if plan.staying:
                self._connection.execute(
                    f"INSERT INTO {next_} FROM {table} WHERE {in_files(plan.staying)}"
                )
            self._connection.execute(
                f"DROP TABLE {table};"
                f" ALTER TABLE {next_} RENAME TO {quoted_duckdb(_name(alert, 'batch'))}"
            )
        elif plan.gone:
            self._connection.execute(f"DELETE FROM {table} WHERE {in_files(plan.gone)}")
        for file, number in plan.arriving.items():
            self._connection.register("_arriving", rows[file])
            self._connection.execute(
                f"INSERT INTO {table} BY NAME SELECT {number} AS _file, * EXCLUDE (alert)"
                f" FROM ({self._batch_sql[alert.name]}) ORDER BY created_at"
            )
            self._connection.unregister("_arriving")
        self._write_reach(alert, change.reach)
        self._contents[alert.name].batch = self._spans(table, "-1")
        self._write_reasons(alert, change.evaluations)

    def insert(self, arrival: AlertArrival) -> None:
        """Adds what was sent. What the table has already changes nothing."""
        alert, run, table = arrival.alert, self._connection.execute, _table(arrival.alert, "sent")
        contents = self._contents[alert.name]
        if arrival.reload:
            run(f"DELETE FROM {table}; DELETE FROM {_table(alert, 'others')}")
            contents.sent = {}
        rows = [own for each in arrival.rows if len(own := _own(each, alert))]
        if rows:
            self._connection.register("_arriving", pa.concat_tables(rows))
            run(self._arrived_sql[alert.name])
            self._connection.unregister("_arriving")
            if self._are_several(table):
                self._choose(alert, arrival.evaluations)
            for place, span in self._spans("_arrived", "coalesce(profile_version, -1)").items():
                before = contents.sent.get(place)
                contents.sent[place] = before.with_(span) if before else span
            run(f"INSERT INTO {table} BY NAME FROM _arrived ORDER BY created_at")
        if rows or arrival.reload:
            self._write_reasons(alert, arrival.evaluations)

    def _are_several(self, table: str) -> bool:
        """Whether one of the alerts in `_arrived` is there twice, or in the table already."""
        ((rows, places, repeated),) = self._connection.execute(
            f"SELECT count(*), count(DISTINCT ({_AT})), (SELECT count(*) FROM {table} AS t"
            f" SEMI JOIN _arrived AS a ON {_same('a', 't')}) FROM _arrived"
        ).fetchall()
        return bool(repeated or places < rows)

    def _choose(self, alert: Alert, evaluations: Evaluations) -> None:
        """Leaves one payload of each alert, in `_arrived` or in the table.

        It is the one whose profile is that of the event's generation; otherwise the first. The
        digests of the others are kept, because the batch layer may have evaluated as they say.
        """
        table = _table(alert, "sent")
        columns = f"{_AT}, seen_at, coalesce(profile_version, -1) AS version, digest"
        several = self._connection.execute(
            f"""
            SELECT *, count(*) OVER (PARTITION BY {_AT}) AS n FROM (
                SELECT {columns}, true AS arrived, rowid AS row FROM _arrived
                UNION ALL
                SELECT {columns}, false, rowid FROM {table} AS t SEMI JOIN _arrived AS a
                    ON {_same("a", "t")})
            QUALIFY n > 1
            ORDER BY {_AT}, seen_at, digest"""
        ).fetchall()
        best: dict[tuple[str, int, int], tuple[bool, int]] = {}
        fitting: dict[tuple[str, int, int], bool] = {}
        lost: dict[bool, list[int]] = {True: [], False: []}
        for origin_id, partition, offset, _, version, _, arrived, row, _ in several:
            at = (origin_id, partition, offset)
            fits = version == evaluations.version(Place(origin_id, partition), offset)
            if at in best and (fitting[at] or not fits):
                lost[arrived].append(row)
                continue
            if at in best:
                lost[best[at][0]].append(best[at][1])
            best[at], fitting[at] = (arrived, row), fits
        for where, rows in (("_arrived", lost[True]), (table, lost[False])):
            if rows:
                listed = ", ".join(map(str, rows))
                self._connection.execute(
                    f"INSERT INTO {_table(alert, 'others')}"
                    f" SELECT {_AT}, digest FROM {where} WHERE rowid IN ({listed})"
                    f" EXCEPT FROM {_table(alert, 'others')};"
                    f" DELETE FROM {where} WHERE rowid IN ({listed})"
                )

    # -- what states and reasons follow from -------------------------------------------------------

    def _write_reach(self, alert: Alert, reach: Reach) -> None:
        self._contents[alert.name].reach = reach
        table = _table(alert, "reach")
        self._connection.execute(f"DELETE FROM {table}")
        self._connection.execute(
            f"INSERT INTO {table} SELECT $past, $origin_id, map($partitions, $offsets)",
            {
                "past": list(reach.past),
                "origin_id": reach.origin_id,
                "partitions": list(reach.cut),
                "offsets": list(reach.cut.values()),
            },
        )

    def _write_reasons(self, alert: Alert, evaluations: Evaluations) -> None:
        contents = self._contents[alert.name]
        below = {
            place: part
            for place, span in contents.sent.items()
            if (part := contents.reach.below(place, span)) is not None
        }
        reasons = evaluations.reasons("withdrawn", below) + evaluations.reasons(
            "added", contents.batch
        )
        if reasons == contents.reasons:
            return
        contents.reasons = reasons
        columns = [
            [one.state for one in reasons],
            [one.place.origin_id for one in reasons],
            [one.place.partition for one in reasons],
            [one.place.version for one in reasons],
            [one.start for one in reasons],
            [one.end for one in reasons],
            [one.why for one in reasons],
        ]
        table = _table(alert, "reasons")
        self._connection.execute(f"DELETE FROM {table}")
        if reasons:
            self._connection.register("_arriving", pa.table(columns, [*_REASONS]))
            self._connection.execute(f"INSERT INTO {table} FROM _arriving")
            self._connection.unregister("_arriving")

    def _spans(self, table: str, version: str) -> dict[Place, Span]:
        spans = self._connection.execute(
            f'SELECT topic_id, "partition", {version}, min("offset"), max("offset") FROM {table}'
            " GROUP BY ALL"
        ).fetchall()
        return {Place(*place): Span(first, last) for *place, first, last in spans}

    def _create(self, alert: Alert) -> None:
        self._create_table(_table(alert, "batch"), alert, _BATCH)
        self._create_table(_table(alert, "sent"), alert, _SENT)
        self._connection.execute(
            f"CREATE TABLE {_table(alert, 'others')} ({_columns(_OTHERS)});"
            f" CREATE TABLE {_table(alert, 'reach')}"
            " (past VARCHAR[], topic_id VARCHAR, cut MAP(INTEGER, BIGINT));"
            f" INSERT INTO {_table(alert, 'reach')} VALUES ([], NULL, MAP {{}});"
            f" CREATE TABLE {_table(alert, 'reasons')} ({_columns(_REASONS)})"
        )

    def _create_table(self, table: str, alert: Alert, columns: Mapping[str, str]) -> None:
        types = {**columns, **content_types(alert)}
        self._connection.execute(f"CREATE TABLE {table} ({_columns(types)})")


def in_files(numbers: Sequence[int]) -> str:
    """The SQL condition for the rows of these files in a batch table."""
    return f"_file IN ({', '.join(map(str, numbers))})"


def _own(rows: pa.Table, alert: Alert) -> pa.Table:
    """The rows of an alert's present definition."""
    same = pc.and_(
        pc.equal(rows["alert"], alert.name), pc.equal(rows["fingerprint"], alert.fingerprint)
    )
    return rows.filter(same)


def _arrived_sql(alert: Alert) -> str:
    """SQL that makes the table `_arrived` of those rows of `_arriving` that are new.

    An alert of which two payloads were sent is there twice.
    """
    selected = f"""(
        SELECT {_AT}, min(created_at) AS created_at, min(seen_at) AS seen_at, payload
        FROM _arriving GROUP BY {_AT}, payload)"""
    return (
        f"CREATE OR REPLACE TEMP TABLE _arrived AS FROM ({content_sql(alert, selected)}) AS a"
        f" ANTI JOIN {_table(alert, 'sent')} AS t ON {_same('a', 't')} AND a.digest = t.digest"
        " AND a.seen_at >= t.seen_at"
    )


def _name(alert: Alert, table: str) -> str:
    """The name of a table, which is that of no view or query: these do not begin so."""
    return f"_{table}_{alert.name}"


def _table(alert: Alert, table: str) -> str:
    return f"_alerts.{quoted_duckdb(_name(alert, table))}"


def _columns(types: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted_duckdb(name)} {type_}" for name, type_ in types.items())


def _same(one: str, other: str) -> str:
    return " AND ".join(f"{one}.{c} = {other}.{c}" for c in map(quoted_duckdb, _PLACE))


def _either(names: Iterable[str]) -> str:
    return ", ".join(f"coalesce(b.{c}, s.{c}) AS {c}" for c in map(quoted_duckdb, names))


def _relation_sql(alert: Alert) -> str:
    """The SELECT of all alerts of a definition in the layer that the cursor has chosen."""
    batch, sent = _table(alert, "batch"), _table(alert, "sent")
    layer = f"coalesce(getvariable('{LAYER}'), 'merged')"
    has_batch, has_sent = "b.topic_id IS NOT NULL", "s.topic_id IS NOT NULL"
    below = (
        "coalesce(list_contains(r.past, s.topic_id)"
        ' OR (s.topic_id = r.topic_id AND s."offset" < coalesce(r.cut[s."partition"], 0)), false)'
    )
    # Of an alert that both layers have, the batch layer's content is the exact one.
    theirs = f"{has_sent} AND (b.topic_id IS NULL OR {layer} = 'speed')"
    content = ", ".join(
        f"CASE WHEN {theirs} THEN s.{c} ELSE b.{c} END AS {c}" for c in map(quoted_duckdb, CONTENT)
    )
    prefix = f"{alert.name}-{alert.fingerprint}-"  # as `alert_id` makes it
    later = "CASE WHEN contains(j.topic_id, '#') THEN '#' || split_part(j.topic_id, '#', 2) END"
    return f"""
        WITH judged AS (
            SELECT {_either((*_PLACE, "created_at"))}, s.seen_at, {content},
                CASE WHEN {has_batch} AND {has_sent} THEN 'confirmed'
                    WHEN {has_batch} THEN 'added'
                    WHEN {below} THEN 'withdrawn'
                    ELSE 'early' END AS state,
                CASE WHEN {has_batch} AND {has_sent} AND b.digest <> s.digest
                        AND o.digest IS NULL THEN 'withdrawn'
                    WHEN {has_batch} AND {has_sent} THEN NULL
                    WHEN {has_batch} THEN 'added'
                    WHEN {below} THEN 'withdrawn' END AS _cause,
                CASE WHEN {has_sent} THEN coalesce(s.profile_version, -1) ELSE -1 END AS _version
            FROM {batch} AS b FULL JOIN {sent} AS s ON {_same("b", "s")}
            LEFT JOIN {_table(alert, "others")} AS o ON {_same("b", "o")} AND b.digest = o.digest
            CROSS JOIN {_table(alert, "reach")} AS r
            WHERE CASE {layer} WHEN 'batch' THEN {has_batch} WHEN 'speed' THEN {has_sent}
                ELSE true END)
        SELECT j.state, w.why, j.created_at, j.seen_at,
            concat('{prefix}', j."partition", '-', j."offset", {later}) AS id,
            j."partition", j."offset",
            {", ".join(f"j.{quoted_duckdb(name)}" for name in CONTENT)}
        FROM judged AS j LEFT JOIN {_table(alert, "reasons")} AS w
            ON w.state = j._cause AND w.topic_id = j.topic_id AND w."partition" = j."partition"
                AND w.version = j._version AND j."offset" >= w.first AND j."offset" < w.beyond"""
