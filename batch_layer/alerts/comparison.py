"""Compares the alerts that were sent for the events of a run's new intervals with the batch's.

Both are compared by the event's place and byte for byte. An alert that was sent and is not in the
batch's set is withdrawn; one that is in the batch's set alone is added.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import duckdb
import pyarrow as pa

from batch_layer.alerts.evaluation import History
from trilayer_core.compute.merging import open_duckdb
from trilayer_core.definitions.alerts import Alert
from trilayer_core.errors import CoverageError, IntegrityError
from trilayer_core.project import Project
from trilayer_core.runtime.retries import retried
from trilayer_core.store.alerts import (
    UNEXPLAINED,
    AlertGenerations,
    Evaluators,
    sent_alerts,
)
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.intervals import Interval
from trilayer_core.store.origins import Origins
from trilayer_core.store.publication import Publication
from trilayer_core.store.runs import Recomputed, ReconciledAlert, Run

logger = logging.getLogger("trilayer.batch")

EXAMPLES = 20
"""How many alerts that are not confirmed are stored with the run."""

CONFIRMED, WITHDRAWN, ADDED, DIFFER = "confirmed", "withdrawn", "added", "differ"


def reconcile_alerts(
    project: Project, run: Run, recomputed: Recomputed, base: Publication | None
) -> dict[str, ReconciledAlert]:
    """Compares each alert, and logs a line about it.

    Raises:
        IntegrityError: A file of the batch layer is missing or altered.
    """
    catalog, store = project.catalog, project.store
    alerts: dict[str, ReconciledAlert] = {}
    for stream in catalog.streams:
        groups = catalog.groups_of(stream)
        if not groups:
            continue
        history = History(stream, run, base, store)
        starts = {origin.identity: origin.start for origin in Origins(store, stream).all()}
        for group in groups:
            generations = AlertGenerations(store, group)
            for alert in group.alerts:
                recorded = generations.of(alert.name, alert.fingerprint)
                judged = recomputed.alerts[alert.name].judged
                reasons = _Reasons(alert, Evaluators.of(alert, recorded, judged, starts))
                try:
                    with open_duckdb(project.settings.serving.memory_mb) as duck:
                        compared = _compare(duck, reasons, recomputed, history, store)
                except CoverageError as error:
                    compared = ReconciledAlert(not_compared=str(error))
                alerts[alert.name] = compared
                _say(alert.name, compared)
    return alerts


@dataclass
class _Reasons:
    """Counts why alerts were not confirmed.

    Attributes:
        alert: The alert.
        evaluators: By what its events were evaluated.
        why: The number of alerts by state and reason.
        examples: The first alerts.
    """

    alert: Alert
    evaluators: Evaluators
    why: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, str]] = field(default_factory=list)
    unexplained: int = 0

    def add(
        self, state: str, origin_id: str, partition: int, offset: int, sent: str | None
    ) -> None:
        """Counts an alert; `sent` is what was sent of it last."""
        place = (origin_id, partition, offset)
        if state == ADDED:
            reason = self.evaluators.why_added(*place)
        else:
            has_profile = self.evaluators.view is not None
            version = json.loads(sent)["profile_version"] if sent and has_profile else None
            reason = self.evaluators.why_withdrawn(*place, version)
            self.unexplained += reason == UNEXPLAINED
        self.why[f"{state}: {reason}"] += 1
        if len(self.examples) < EXAMPLES:
            shown = {"topic_id": origin_id, "partition": str(partition), "offset": str(offset)}
            self.examples.append({"state": state, "why": reason, **shown})


def _compare(
    duck: duckdb.DuckDBPyConnection,
    reasons: _Reasons,
    recomputed: Recomputed,
    history: History,
    store: Store,
) -> ReconciledAlert:
    alert, ours = reasons.alert, recomputed.alerts[reasons.alert.name]
    published = history.published_alert(alert)
    places = _places(history.new if published else history.whole)
    duck.register("places", places)
    files = ours.files if ours.added is None else ours.added
    _load(duck, "batch", files, store)
    result = _compare_sent(duck, reasons, store)
    if ours.kind == "full" and published is not None:
        _load(duck, "before", published.files, store)
        result = replace(result, changed=_count_changed(duck))
    return result


def _compare_sent(
    duck: duckdb.DuckDBPyConnection, reasons: _Reasons, store: Store
) -> ReconciledAlert:
    alert = reasons.alert
    try:
        if not _load_sent(duck, alert, store):
            return ReconciledAlert(not_compared=f"no alerts were read from topic {alert.topic}")
    except IntegrityError as error:
        return ReconciledAlert(not_compared=f"what was sent can't be read: {error}")
    counts: Counter[str] = Counter()
    for state, origin_id, partition, offset, sent in _states(duck):
        if state == CONFIRMED:
            counts[CONFIRMED] += offset  # the row with their number
            continue
        counts[state] += 1
        reasons.add(state, origin_id, partition, offset, sent)
    return ReconciledAlert(
        counts[CONFIRMED] + counts[DIFFER],
        counts[WITHDRAWN],
        counts[ADDED],
        counts[DIFFER],
        reasons.unexplained,
        dict(sorted(reasons.why.items())),
        reasons.examples,
    )


def _places(intervals: Sequence[Interval]) -> pa.Table:
    """The ranges of offsets that are compared, by origin and partition."""
    ranges: dict[tuple[str, int], list[int]] = {}
    for interval in intervals:
        for partition, r in interval.ranges.items():
            # The intervals of an origin follow each other without gaps.
            ranges.setdefault((interval.origin_id, partition), [r.start, r.end])[1] = r.end
    rows = [(origin_id, p, start, end) for (origin_id, p), (start, end) in ranges.items()]
    names = {
        "topic_id": pa.string(), "partition": pa.int32(), "low": pa.int64(), "high": pa.int64(),
    }  # fmt: skip
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    arrays = (pa.array(list(c), t) for c, t in zip(columns, names.values(), strict=True))
    return pa.table(dict(zip(names, arrays, strict=True)))


_PLACED = """EXISTS (FROM places p WHERE p.topic_id = f.topic_id AND p."partition" = f."partition"
    AND f."offset" >= p.low AND f."offset" < p.high)"""
_PLACE = 'topic_id, "partition", "offset"'


def _load(
    duck: duckdb.DuckDBPyConnection, table: str, files: Sequence[StoredFile], store: Store
) -> None:
    """Loads the batch layer's alerts, with a digest instead of the content, and `placed`."""
    duck.execute(
        f'CREATE OR REPLACE TABLE {table} (topic_id VARCHAR, "partition" INT, "offset" BIGINT,'
        " digest VARCHAR, placed BOOLEAN)"
    )
    for file in files:
        rows = store.read_table(file, ["topic_id", "partition", "offset", "payload"])
        duck.register("one_file", rows)
        duck.execute(
            f"INSERT INTO {table} SELECT {_PLACE}, md5(payload), {_PLACED} FROM one_file f"
        )


def _load_sent(duck: duckdb.DuckDBPyConnection, alert: Alert, store: Store) -> bool:
    """Loads what was sent of an alert for the compared places; False if nothing was ever read.

    Files that were merged meanwhile are deleted; the list is then read again.

    Raises:
        IntegrityError: A file is missing or altered.
    """

    def attempt() -> bool:
        sent = sent_alerts(store, alert.topic)
        if sent is None:
            return False
        duck.execute(
            'CREATE OR REPLACE TABLE sent (topic_id VARCHAR, "partition" INT, "offset" BIGINT,'
            " seen_at TIMESTAMPTZ, payload VARCHAR)"
        )
        for file in sent.files:
            duck.register("one_file", store.read_table(file))
            duck.execute(
                f"INSERT INTO sent SELECT {_PLACE}, seen_at, payload FROM one_file f"
                f" WHERE alert = $1 AND fingerprint = $2 AND {_PLACED}",
                [alert.name, alert.fingerprint],
            )
        return True

    return retried(attempt, (IntegrityError,), 3)


def _states(
    duck: duckdb.DuckDBPyConnection,
) -> Iterator[tuple[str, str, int, int, str | None]]:
    """The alerts that are not confirmed: state, place, and what was sent last.

    One row more has the number of those that are, in the place of the offset.
    """
    # An alert may have been sent twice with different profiles; one that equals the batch's counts.
    duck.execute(
        f"""
        CREATE OR REPLACE TABLE compared AS
        WITH s AS (
            SELECT {_PLACE}, list(md5(payload)) AS digests, max_by(payload, seen_at) AS payload
            FROM sent GROUP BY ALL),
        b AS (SELECT {_PLACE}, digest FROM batch WHERE placed)
        SELECT {_PLACE}, s.payload, CASE
            WHEN b.digest IS NULL THEN '{WITHDRAWN}'
            WHEN s.digests IS NULL THEN '{ADDED}'
            WHEN list_contains(s.digests, b.digest) THEN '{CONFIRMED}'
            ELSE '{DIFFER}' END AS state
        FROM s FULL JOIN b USING ({_PLACE})"""
    )
    rows = duck.execute(
        f"SELECT state, {_PLACE}, payload FROM compared WHERE state <> '{CONFIRMED}'"
        " UNION ALL SELECT state, '', 0, count(*), NULL FROM compared"
        f" WHERE state = '{CONFIRMED}' GROUP BY state ORDER BY ALL"
    )
    while chunk := rows.fetchmany(10_000):
        yield from chunk


def _count_changed(duck: duckdb.DuckDBPyConnection) -> int:
    """The number of alerts below the places that are not the same in `batch` and `before`."""
    row = duck.execute(
        f"""
        WITH now AS (SELECT {_PLACE}, digest FROM batch WHERE NOT placed),
        before AS (SELECT {_PLACE}, digest FROM before)
        SELECT count(*) FROM (SELECT DISTINCT {_PLACE} FROM (
            (FROM now EXCEPT FROM before) UNION ALL (FROM before EXCEPT FROM now)))"""
    ).fetchone()
    assert row is not None
    return int(row[0])


def _say(name: str, alert: ReconciledAlert) -> None:
    if alert.not_compared is not None:
        logger.info("reconcile alert %s: not compared, %s", name, alert.not_compared)
        return
    counts = (alert.confirmed, alert.withdrawn, alert.added, alert.differ)
    logger.log(
        logging.WARNING if alert.different else logging.INFO,
        "reconcile alert %s: confirmed %s, withdrawn %s, added %s, differ %s%s",
        name,
        *(f"{count or 0:,}" for count in counts),
        "".join(f"; {count:,} {why}" for why, count in (alert.why or {}).items()),
    )
