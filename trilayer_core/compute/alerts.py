"""The SQL that evaluates the rules of alerts, which both Spark layers run.

The layers differ in how they find the events before an event: the speed layer keeps the newest
events of each key in the state of a streaming query, and the batch layer takes them from the master
dataset with a window. What a rule makes of them, and the bytes of an alert, come from one SQL.

An alert is one JSON object, without anything of a clock or of a run:

- `id`: the name, the fingerprint, partition and offset. An alert that is sent twice has one id.
- `alert`, `fingerprint`, `topic_id`, `partition`, `offset`, `created_at`: the alert and the event.
- `key`, `event`, `last`, `profile`, `profile_version`: what the rule was about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trilayer_core.compute.formats.json import literal
from trilayer_core.compute.grouping import quoted
from trilayer_core.compute.parsing import FITS, parse_sql
from trilayer_core.definitions.alerts import Alert, AlertGroup, profile_columns
from trilayer_core.definitions.rules import LAST, PROFILE
from trilayer_core.definitions.view import View
from trilayer_core.log.broker import MOST_ALERT_BYTES
from trilayer_core.runtime.session import select_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORIGIN_ID = "_topic_id"
"""The column with the identity of the origin in which an event's offset counts.

Its name, and that of `topic_id` in alerts, are older than the origins after the first.
"""

EVENT = "_event"
"""The column with all columns of the stream, as a struct."""

BEFORE = "_before"
"""The column with the newest events before an event, newest first."""

_PLACE = ("_partition", "_offset", "_timestamp")

_JSON_OPTIONS = (
    "map('ignoreNullFields', 'false',"
    """ 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'","""
    """ 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")"""
)


def key_columns(group: AlertGroup) -> dict[str, str]:
    """The column of each key of the group, with its SQL.

    Adding zero makes 0.0 of -0.0, as grouping does in the speed layer, so that both layers send the
    same bytes.
    """
    return {
        f"_k{place}": f"({key.sql} + CAST(0 AS {key.type}))"
        if key.type in ("float", "double")
        else key.sql
        for place, key in enumerate(group.keys)
    }


def profile_column(group: AlertGroup, view: View) -> str:
    """The column with the row of a view."""
    return f"_profile{group.profiles.index(view)}"


def version_column(group: AlertGroup, view: View) -> str:
    """The column with the version of the publication that a view's row comes from."""
    return f"_version{group.profiles.index(view)}"


def event_struct(group: AlertGroup) -> str:
    """The SQL of all columns of the stream, as a struct."""
    return f"struct({', '.join(f'`{name}`' for name in group.stream.columns)})"


# -- the speed layer's form ------------------------------------------------------------------------


def streamed_sql(group: AlertGroup, records: str, origin_id: str) -> str:
    """The events of a stream of records, each with the newest events before it.

    In update mode each record gives one row, because the newest event of a group is the record
    itself. A record that does not fit the schema gives a row without an event.

    Args:
        group: The alerts.
        records: A table name of rows with Kafka's columns under trilayer's names.
        origin_id: The identity of the origin.

    Returns:
        A SELECT of `_topic_id`, the place, the keys, `_fits`, `_event` and `_before`.
    """
    keys = key_columns(group)
    parsed = parse_sql(group.stream, records, list(_PLACE), reasons=False)
    named = ", ".join(f"{sql} AS {column}" for column, sql in keys.items())
    keyed = f"SELECT {', '.join(_PLACE)}, {FITS}, {named}, {event_struct(group)} AS {EVENT}"
    keyed = f"{keyed} FROM ({parsed})"
    identity = f"{literal(origin_id)} AS {ORIGIN_ID}"
    if not group.last:
        return f"SELECT *, {identity}, array() AS {BEFORE} FROM ({keyed})"
    # Grouped by `_fits` instead of filtered, because Spark would parse twice, below and above a
    # filter.
    of_key = ", ".join(["_partition", FITS, *keys])
    newest = f"max_by(struct(_offset, _timestamp, {EVENT}), _offset, {group.last + 1})"
    return f"""
        SELECT {identity}, _partition, _newest[0]._offset AS _offset,
            _newest[0]._timestamp AS _timestamp, {FITS}, {", ".join(keys)},
            _newest[0].{EVENT} AS {EVENT},
            transform(slice(_newest, 2, {group.last}), _e -> _e.{EVENT}) AS {BEFORE}
        FROM (SELECT {of_key}, {newest} AS _newest FROM ({keyed}) GROUP BY {of_key})"""


# -- the batch layer's form ------------------------------------------------------------------------


def windowed_sql(group: AlertGroup, rows: str, new: str) -> str:
    """The events in some rows of the master dataset, each with the newest events before it.

    Args:
        group: The alerts.
        rows: A table name of rows with `_topic_id`, the place, the stream's columns and `new`.
        new: A boolean column: whether the rules are evaluated for a row. The others only precede.

    Returns:
        A SELECT of `_topic_id`, the place, the keys, `_event` and `_before`.
    """
    keys = key_columns(group)
    named = ", ".join(f"{sql} AS {column}" for column, sql in keys.items())
    keyed = f"SELECT {ORIGIN_ID}, {', '.join(_PLACE)}, {new}, {named}, {event_struct(group)}"
    keyed = f"{keyed} AS {EVENT} FROM {rows}"
    if not group.last:
        return f"SELECT *, array() AS {BEFORE} FROM ({keyed}) WHERE {new}"
    before = f"""reverse(collect_list({EVENT}) OVER (
        PARTITION BY {ORIGIN_ID}, _partition, {", ".join(keys)} ORDER BY _offset
        ROWS BETWEEN {group.last} PRECEDING AND 1 PRECEDING))"""
    return f"SELECT * FROM (SELECT *, {before} AS {BEFORE} FROM ({keyed})) WHERE {new}"


def newest_sql(group: AlertGroup, rows: str) -> str:
    """The newest events of each key in some rows, which rules over later events look back at.

    Args:
        group: The alerts.
        rows: A table name of rows with `_topic_id`, the place and the stream's columns.

    Returns:
        A SELECT of the same columns.
    """
    of_key = ", ".join([ORIGIN_ID, "_partition", *key_columns(group).values()])
    columns = ", ".join([ORIGIN_ID, *_PLACE, *(f"`{name}`" for name in group.stream.columns)])
    return f"""
        SELECT {columns} FROM (
            SELECT {columns}, row_number() OVER (PARTITION BY {of_key} ORDER BY _offset DESC) AS _n
            FROM {rows})
        WHERE _n <= {group.last}"""


def remembered_sql(group: AlertGroup, rows: str) -> str:
    """The newest events of each key as one row, for the speed layer's join.

    Args:
        group: The alerts.
        rows: A table name of rows as `newest_sql` returns, of one origin.

    Returns:
        A SELECT of `_partition`, the keys and `_remembered`, an array of events, newest first.
    """
    keys = key_columns(group)
    named = ", ".join(f"{sql} AS {column}" for column, sql in keys.items())
    of_key = ", ".join(["_partition", *keys])
    newest = f"max_by(struct(_offset, {EVENT}), _offset, {group.last})"
    return f"""
        SELECT {of_key}, transform({newest}, _e -> _e.{EVENT}) AS _remembered
        FROM (SELECT _partition, _offset, {named}, {event_struct(group)} AS {EVENT} FROM {rows})
        GROUP BY {of_key}"""


# -- joining earlier events and profiles -----------------------------------------------------------


def with_remembered(events: DataFrame, remembered: DataFrame, group: AlertGroup) -> DataFrame:
    """Events with the newest events before them, continued with those that are remembered."""
    keys = [*key_columns(group)]
    columns = ", ".join(f"e.{name}" for name in events.columns if name != BEFORE)
    same = " AND ".join(f"e.{key} <=> r.{key}" for key in ["_partition", *keys])
    before = f"slice(concat(e.{BEFORE}, coalesce(r._remembered, array())), 1, {group.last})"
    return events.sparkSession.sql(
        f"SELECT {columns}, {before} AS {BEFORE} FROM {{events}} e"
        f" LEFT JOIN {{remembered}} r ON {same}",
        events=events,
        remembered=remembered.hint("broadcast"),
    )


def with_profile(
    events: DataFrame,
    rows: DataFrame,
    group: AlertGroup,
    view: View,
    version: str,
    file: str | None = None,
) -> DataFrame:
    """Events with the row of their key in a view.

    Args:
        events: The events.
        rows: The view's answer, or several with their number in the column `PROFILE_FILE`.
        group: The alerts.
        view: The view.
        version: The SQL of the version that the rows come from, over the columns of `events`.
        file: The SQL of the number of the answer that counts for an event, over the columns of
            `events`; None if there is one answer, which is then sent to every task.

    Returns:
        The events with the columns of the row and of its version. Without a version there is no
        row.
    """
    keys = zip(key_columns(group), group.keys, strict=True)
    same = [f"e.{column} <=> p.{quoted(key.name)}" for column, key in keys]
    if file is not None:
        same.append(f"{file} = p.{PROFILE_FILE}")
    fields = ", ".join(f"p.{quoted(name)}" for name in profile_columns(view))
    matches = quoted(_MATCHES)
    return events.sparkSession.sql(
        f"SELECT e.*, IF(p.{matches}, struct({fields}), NULL) AS {profile_column(group, view)},"
        f" {version} AS {version_column(group, view)}"
        f" FROM {{events}} e LEFT JOIN (SELECT *, true AS {matches} FROM {{rows}}) p"
        f" ON {' AND '.join(same)}",
        events=events,
        rows=rows.hint("broadcast") if file is None else rows,
    )


def without_profile(events: DataFrame, group: AlertGroup, view: View) -> DataFrame:
    """Events whose keys have no row in a view, with the columns of `with_profile`.

    A join with an empty table would need tasks that read it, or would be planned as a join that a
    real-time query may not have.
    """
    fields = ", ".join(f"{quoted(name)}: {kind}" for name, kind in profile_columns(view).items())
    return events.sparkSession.sql(
        f"SELECT *, CAST(NULL AS STRUCT<{fields}>) AS {profile_column(group, view)},"
        f" CAST(NULL AS BIGINT) AS {version_column(group, view)} FROM {{events}}",
        events=events,
    )


PROFILE_FILE = "_profile_file"
"""The column with the number of the answer that a row of a view is from."""

_MATCHES = "_matches"


# -- what both share -------------------------------------------------------------------------------


def alerts_of(group: AlertGroup, events: DataFrame, *, may_not_fit: bool = False) -> DataFrame:
    """The alerts that events raise.

    Args:
        group: The alerts.
        events: Rows with `_topic_id`, the place, the keys, `_event`, `_before` and the columns of
            `with_profile` for each view.
        may_not_fit: Whether there is `_fits`, which must be true.

    Returns:
        Rows of `ALERT_COLUMNS`, `topic` and `key`, the JSON object of the key columns.
    """
    return select_from(events, lambda rows: alerts_sql(group, rows, may_not_fit=may_not_fit))


def alerts_sql(group: AlertGroup, rows: str, *, may_not_fit: bool = False) -> str:
    """The SELECT that `alerts_of` runs; `rows` is a table name."""
    rules = f"(SELECT *, {EVENT}.* FROM {rows}) AS _events"
    for number, alert in enumerate(group.alerts):
        rules = f"({_evaluated_sql(group, alert, number, rules)}) AS _evaluated_{number}"
    fits = f"{FITS} AND " if may_not_fit else ""
    holding = ", ".join(f"IF({fits}_holds_{number}, {number}, NULL)" for number in range(_n(group)))
    # Exploded instead of filtered, for the same reason as above.
    raised = f"SELECT *, explode(array_compact(array({holding}))) AS _rule FROM {rules}"
    key = ", ".join(
        f"{literal(key.name)}, {column}"
        for key, column in zip(group.keys, key_columns(group), strict=True)
    )
    keyed = f"SELECT *, named_struct({key}) AS _key FROM ({raised})"
    names = {number: literal(alert.name) for number, alert in enumerate(group.alerts)}
    topics = {number: literal(alert.topic) for number, alert in enumerate(group.alerts)}
    payloads = {n: _payload_sql(group, alert) for n, alert in enumerate(group.alerts)}
    return f"""
        SELECT {_case(names)} AS alert, {ORIGIN_ID} AS topic_id, _partition AS partition,
            _offset AS offset, _timestamp AS created_at, {_case(payloads)} AS payload,
            {_case(topics)} AS topic, {_record_key_sql()} AS key
        FROM ({keyed})"""


def _n(group: AlertGroup) -> int:
    return len(group.alerts)


def _evaluated_sql(group: AlertGroup, alert: Alert, number: int, rows: str) -> str:
    """The rows with `_holds_NUMBER`: whether the rule holds, evaluated in a scope of its own."""
    names = {
        **({LAST: f"slice({BEFORE}, 1, {alert.last})"} if alert.last else {}),
        **({PROFILE: profile_column(group, alert.profile)} if alert.profile else {}),
    }
    scope = ", ".join(f"{sql} AS {name}" for name, sql in names.items())
    scoped = f"(SELECT *, {scope} FROM {rows})" if scope else rows
    without = f" EXCEPT ({', '.join(names)})" if names else ""
    return f"SELECT *{without}, coalesce({alert.rule_sql}, false) AS _holds_{number} FROM {scoped}"


def _payload_sql(group: AlertGroup, alert: Alert) -> str:
    name, fingerprint = literal(alert.name), literal(alert.fingerprint)
    later = (
        f"IF(contains({ORIGIN_ID}, '#'), concat('#', substring_index({ORIGIN_ID}, '#', -1)), '')"
    )
    profile, version = "NULL", "NULL"
    if alert.profile:
        profile = profile_column(group, alert.profile)
        version = version_column(group, alert.profile)
    fields: Mapping[str, str] = {
        # As `alert_id` makes it.
        "id": f"concat(concat_ws('-', {name}, {fingerprint}, _partition, _offset), {later})",
        "alert": name,
        "fingerprint": fingerprint,
        "topic_id": ORIGIN_ID,
        "partition": "_partition",
        "offset": "_offset",
        "created_at": "_timestamp",
        "key": "_key",
        "event": EVENT,
        "last": f"slice({BEFORE}, 1, {alert.last})" if alert.last else "array()",
        "profile": profile,
        "profile_version": version,
    }
    whole = _json_sql(fields)
    *cut, least = [_json_sql(_without(fields, _CUT[: n + 1])) for n in range(len(_CUT))]
    fitting = " ".join(
        f"WHEN octet_length({sql}) + octet_length({_json_of_key()}) <= {_most_bytes()} THEN {sql}"
        for sql in (whole, *cut)
    )
    return f"CASE {fitting} ELSE {least} END"


_CUT = ("event", "last", "profile", "key")
"""What is left out of an alert that is too large for Kafka, in this order, until it is not."""

_OVERHEAD_BYTES = 64 << 10
"""More than Kafka adds to a record's key and value, and more than an alert has without `_CUT`."""


def _most_bytes() -> int:
    return MOST_ALERT_BYTES - _OVERHEAD_BYTES


def _without(fields: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The fields of an alert without some of them, which it lists in `cut`."""
    rest = {field: "NULL" if field in names else sql for field, sql in fields.items()}
    return {**rest, "cut": f"array({', '.join(map(literal, names))})"}


def _json_sql(fields: Mapping[str, str]) -> str:
    listed = ", ".join(f"{literal(field)}, {sql}" for field, sql in fields.items())
    return f"to_json(named_struct({listed}), {_JSON_OPTIONS})"


def _json_of_key() -> str:
    return f"to_json(_key, {_JSON_OPTIONS})"


def _record_key_sql() -> str:
    """The key of the record, which is NULL if there is no space for it and that of the alert."""
    return f"IF(2 * octet_length({_json_of_key()}) <= {_most_bytes()}, {_json_of_key()}, NULL)"


def _case(by_rule: Mapping[int, str]) -> str:
    """The SQL that chooses by `_rule`."""
    values: Sequence[str] = list(dict.fromkeys(by_rule.values()))
    if len(values) == 1:
        return values[0]
    whens = " ".join(f"WHEN {number} THEN {sql}" for number, sql in by_rule.items())
    return f"CASE _rule {whens} END"
