"""Alerts: rules over an event, the events of its key before it, and the key's row in a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

from trilayer_core.definitions.expressions import (
    A_SCALAR,
    check_name,
    check_topic,
    is_orderable,
    parse_expression,
)
from trilayer_core.definitions.guards import guarded
from trilayer_core.definitions.identity import digest
from trilayer_core.definitions.rules import LAST, PROFILE, parse_rule
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import Key, View, check_key, key_expressions
from trilayer_core.errors import DefinitionError, short_traceback

MOST_LAST = 100
"""The most events before an event that a rule can refer to."""

ALERT_COLUMNS = {
    "alert": "string",
    "topic_id": "string",
    "partition": "int",
    "offset": "bigint",
    "created_at": "timestamp",
    "payload": "string",
}
"""The columns of an alert in the batch layer's files. `payload` is the JSON object."""


@short_traceback
@dataclass(frozen=True)
class Alert:
    """A rule that is evaluated for each event of a stream, at once and again in the batch run.

    The newest events before an event are those records of its partition with a lower offset that
    fit the schema and have an equal key, with the highest offsets. Their place in the log decides,
    never a time, so that both layers see the same. NULL is a key like any other.

    Attributes:
        name: Its name: lower-case letters, digits and single underscores.
        source: The stream; at least one view of the catalog must be over it.
        key: Column name to Spark SQL expression, or a list of plain columns. The records of a key
            should be in one partition, because `last` only has events of the same partition.
        rule: The condition, in Spark SQL over the stream's columns, `last` and `profile`. `last` is
            an array of the newest events before this one, newest first, as structs of all columns.
            `profile` is a struct of the key's row in the view, and NULL if there is none. A rule
            never fails: what would be an error, such as `last[0]` of an empty array, is NULL.
        last: The number of events before an event in `last`, at most 100.
        profile: The view that `profile` is a row of, as the batch layer has published it. Its key
            must be that of the alert.
        topic: The topic to which alerts are sent; by default `alerts.STREAM`.
    """

    name: str
    _: KW_ONLY
    source: Stream
    key: Mapping[str, str] | Sequence[str]
    rule: str
    last: int = 0
    profile: View | None = None
    topic: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "name of an alert")
        subject = f"alert {self.name!r}"
        if not isinstance(self.source, Stream):
            raise DefinitionError(
                f"source of {subject} must be a Stream; got {type(self.source).__name__}"
            )
        check_key(self.key, subject)
        if type(self.last) is not int or not 0 <= self.last <= MOST_LAST:
            raise DefinitionError(
                f"last of {subject} must be a number of events from 0 to {MOST_LAST}; got"
                f" {self.last!r}"
            )
        object.__setattr__(self, "topic", self.topic or f"alerts.{self.source.name}")
        check_topic(self.topic, subject)
        self._check_record_key(subject)
        self._check_profile(subject)
        for name, used in ((LAST, self.last), (PROFILE, self.profile)):
            if used and name in self.source.columns:
                raise DefinitionError(
                    f"a rule with `{name}` must be over a stream without a column {name!r};"
                    f" {self.source.name!r} has one; read that field under another name, as in"
                    f" `its_{name} {self.source.columns[name]} from '{name}'`"
                )
        # Parsed now, so that an error is raised where the alert is declared.
        _ = self.rule_sql

    def _check_record_key(self, subject: str) -> None:
        column = self.source.record_key
        if column is None or any(key.expression.sql.strip("`") == column for key in self.keys):
            return
        raise DefinitionError(
            f"key of {subject} must contain {column!r}, the key of the records of stream"
            f" {self.source.name!r}, because the events of another key are in several partitions;"
            f" got {', '.join(key.name for key in self.keys)}"
        )

    def _check_profile(self, subject: str) -> None:
        if self.profile is None:
            return
        if not isinstance(self.profile, View):
            raise DefinitionError(f"profile of {subject} must be a View; got {self.profile!r}")
        own = {key.name: key.type for key in self.keys}
        if any(key.window for key in self.profile.keys) or own != {
            key.name: key.type for key in self.profile.keys
        }:
            raise DefinitionError(
                f"profile of {subject} must be a view with the same key, {_listed(own)}; got"
                f" {self.profile.name!r} with {', '.join(key.name for key in self.profile.keys)};"
                " declare a view by that key, without a window"
            )

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The key columns, checked."""
        return tuple(self._key(name, sql) for name, sql in key_expressions(self.key))

    def _key(self, name: str, sql: str) -> Key:
        subject = f"key {name!r} of alert {self.name!r}"
        check_name(name, subject)
        expression = guarded(
            parse_expression(sql, self.source.columns, subject), subject, self.source
        )
        if not is_orderable(expression.type):
            raise DefinitionError(f"{subject} must be {A_SCALAR}; got {expression.type}")
        return Key(name, expression)

    @cached_property
    def rule_sql(self) -> str:
        """The rule in Spark SQL, in a form that never raises."""
        return parse_rule(
            self.rule,
            self.source.columns,
            f"rule of alert {self.name!r}",
            required=self.source.event_time,
            last=self.last,
            profile=profile_columns(self.profile) if self.profile else None,
        )

    @property
    def stream(self) -> Stream:
        """The stream."""
        return self.source

    @cached_property
    def fingerprint(self) -> str:
        """Changes if the alert's meaning may have changed."""
        return digest(
            "alert",
            self.name,
            self.source.fingerprint,
            [(key.name, key.sql, key.type) for key in self.keys],
            self.last,
            self.rule_sql,
            self.profile and [view.fingerprint for view in self.profile.stored],
        )


def profile_columns(view: View) -> dict[str, str]:
    """The columns of a view's answer that has no windows, with their Spark types."""
    keys = {key.name: key.type for key in view.keys}
    return keys | {measure.name: measure.type for measure in view.measures}


def alert_id(alert: str, fingerprint: str, origin_id: str, partition: int, offset: int) -> str:
    """The id of an alert, which is the same if it is sent again.

    `origin_id` is the identity of the origin in which the offset counts. Offsets are used again in
    a later origin, whose number is then a part of the id, as in `often-0a1b-0-17#2`.
    """
    _, later, number = origin_id.partition("#")
    return f"{alert}-{fingerprint}-{partition}-{offset}{later}{number}"


@dataclass(frozen=True)
class AlertGroup:
    """The alerts that are evaluated together, in one query: those of one stream and key.

    Attributes:
        alerts: The alerts, at least one, by name.
    """

    alerts: tuple[Alert, ...]

    @property
    def stream(self) -> Stream:
        """The stream."""
        return self.alerts[0].source

    @property
    def keys(self) -> tuple[Key, ...]:
        """The key columns."""
        return self.alerts[0].keys

    @property
    def last(self) -> int:
        """The number of events before an event that the rules refer to."""
        return max(alert.last for alert in self.alerts)

    @cached_property
    def profiles(self) -> tuple[View, ...]:
        """The views of the rules' profiles, without duplicates."""
        views = {alert.profile.name: alert.profile for alert in self.alerts if alert.profile}
        return tuple(views.values())

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to which alerts are sent, without duplicates."""
        return tuple(dict.fromkeys(alert.topic for alert in self.alerts))

    @cached_property
    def name(self) -> str:
        """Its name in paths and messages: the stream and the names of the key columns."""
        columns = "_".join(key.name for key in self.keys)
        return f"{self.stream.name}-{columns}-{digest(self._key_identity)[:4]}"

    @cached_property
    def fingerprint(self) -> str:
        """Changes if the meaning of one of its alerts may have changed, or one comes or goes."""
        return digest("alerts", [(alert.name, alert.fingerprint) for alert in self.alerts])

    @cached_property
    def memory_fingerprint(self) -> str:
        """Changes with what is remembered of each key: its newest events at a cut."""
        return digest("memory", self.stream.fingerprint, self._key_identity, self.last)

    @property
    def _key_identity(self) -> list[tuple[str, str, str]]:
        return [(key.name, key.sql, key.type) for key in self.keys]


def grouped(alerts: Sequence[Alert]) -> tuple[AlertGroup, ...]:
    """The groups of some alerts."""
    groups: dict[str, list[Alert]] = {}
    for alert in sorted(alerts, key=lambda alert: alert.name):
        groups.setdefault(AlertGroup((alert,)).name, []).append(alert)
    return tuple(AlertGroup(tuple(of_key)) for of_key in groups.values())


def _listed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns.items())
