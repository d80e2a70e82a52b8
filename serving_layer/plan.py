"""Plans how a reader's tables change to what they should contain, without DuckDB.

From what is loaded, the publication in force, and what the speed layer has above its cut,
`replacing` makes a `Plan`, which `Tables` carries out in one transaction:

- A batch file is read once. If both publications have it, its rows stay where they are.
- The rows of unwanted files are deleted, or the table is rewritten without them once too many of
  its rows would be deleted ones.
- The speed tables of a stream are reloaded if they can't be extended to the present state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from serving_layer.alert_reasons import published_alert
from serving_layer.state import Found, Loaded
from trilayer_core.definitions.alerts import Alert
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.view import View
from trilayer_core.store import layout
from trilayer_core.store.cover import Cover
from trilayer_core.store.files import StoredFile
from trilayer_core.store.publication import Publication

MOST_DELETED = 0.25
"""A view's batch table is rewritten once the ratio of deleted to remaining rows exceeds this.

DuckDB frees deleted rows only at a moment when no read transaction is open, which may never come. A
table that is dropped is freed when the last transaction that saw it ends.
"""


@dataclass(frozen=True)
class ViewPlan:
    """The changes to the tables of one view.

    Attributes:
        view: The view.
        gone: The numbers of the batch files whose rows are removed.
        staying: The numbers of the batch files whose rows stay, if the table is rewritten without
            the others; None if the others are deleted from it.
        arriving: The batch files whose rows are added, with their numbers.
        speed_anew: Whether its speed table is reloaded; otherwise it stays as it is.
        cover: The segments from which it is reloaded; None if it becomes empty.
    """

    view: View
    gone: Sequence[int]
    staying: Sequence[int] | None
    arriving: Mapping[StoredFile, int]
    speed_anew: bool
    cover: Cover | None


@dataclass(frozen=True)
class FilesPlan:
    """The changes to a table that holds the rows of batch files.

    The attributes are those of a `ViewPlan`.
    """

    gone: Sequence[int]
    staying: Sequence[int] | None
    arriving: Mapping[StoredFile, int]


@dataclass(frozen=True)
class AlertPlan:
    """The changes to the table with the batch layer's set of one alert."""

    alert: Alert
    files: FilesPlan


@dataclass(frozen=True)
class Plan:
    """The changes to all tables, to be made in one transaction.

    Attributes:
        views: The changes to each view's tables.
        alerts: The changes to the batch layer's set of each alert; empty if the publication stays
            the same.
        loaded: What the tables contain afterwards, except for the numbers of rows in speed tables.
    """

    views: Sequence[ViewPlan]
    loaded: Loaded
    alerts: Sequence[AlertPlan] = ()


def replacing(
    before: Loaded,
    catalog: Catalog,
    pointer: bytes | None,
    publication: Publication | None,
    streams: Mapping[str, Found],
    stale: Set[str],
) -> Plan:
    """Plans the change to a publication, and of stale streams to their present segments.

    Args:
        before: What the tables contain.
        catalog: The definitions.
        pointer: The bytes of the pointer that named the publication.
        publication: The publication; None before the first.
        streams: What the tables of each stream should contain.
        stale: The streams whose speed tables are reloaded.
    """
    missing = {name: why for each in streams.values() for name, why in each.missing.items()}
    plans, next_file = [], before.next_file
    files: dict[str, Mapping[StoredFile, int]] = {}
    deleted: dict[str, int] = {}

    def change(name: str, wanted: Sequence[StoredFile]) -> FilesPlan:
        nonlocal next_file
        held = before.files.get(name, {})
        new = [file for file in wanted if file not in held]
        arriving = {file: next_file + place for place, file in enumerate(new)}
        next_file += len(new)
        files[name] = {file: arriving.get(file, held.get(file, 0)) for file in wanted}
        gone = [file for file in held if file not in files[name]]
        staying = [file for file in held if file in files[name]]
        rows = sum(file.rows for file in gone) + before.deleted_rows.get(name, 0)
        anew = bool(gone) and rows > MOST_DELETED * sum(file.rows for file in staying)
        deleted[name] = 0 if anew else rows
        return FilesPlan(
            [held[file] for file in gone],
            [held[file] for file in staying] if anew else None,
            arriving,
        )

    for view in catalog.stored:
        answered = view.declared_name not in missing
        answers = publication and view.name in publication.views and answered
        changed = change(
            view.name, publication.views[view.name].files if publication and answers else []
        )
        plans.append(
            ViewPlan(
                view,
                changed.gone,
                changed.staying,
                changed.arriving,
                view.stream.name in stale,
                streams[view.stream.name].cover if answered else None,
            )
        )
    alerts = []
    for alert in catalog.alerts:
        published = published_alert(alert, publication)
        changed = change(layout.alert_files(alert.name), published.files if published else [])
        alerts.append(AlertPlan(alert, changed))
    moved = pointer != before.pointer or not before.streams
    of_stale = {view.name for view in catalog.stored if view.stream.name in stale}
    return Plan(
        plans,
        Loaded(
            pointer,
            publication,
            files,
            {
                name: each.state if name in stale else before.streams[name]
                for name, each in streams.items()
            },
            missing,
            {name: rows for name, rows in before.speed_rows.items() if name not in of_stale},
            {name: rows for name, rows in before.merged_rows.items() if name not in of_stale},
            deleted,
            next_file,
            before.sent,
        ),
        alerts if moved else (),
    )
