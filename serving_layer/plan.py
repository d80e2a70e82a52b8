"""How a reader's tables come to hold what they should: decided without DuckDB.

From what is loaded, the publication in force and what the speed layer has above its cut,
`replacing` makes a `Plan`, which `Tables` carries out in one transaction:

- A batch file is read once. One that both publications have stays where it is.
- The rows of files that are no longer wanted are deleted, or the table is written anew without them
  once too much of it would be deleted rows.
- The speed tables of a stream are loaded anew if it is stale: what is loaded can't be grown to what
  is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from serving_layer.state import Found, Loaded
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.view import View
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
    """How the tables of one view come to hold what they should.

    Attributes:
        view: The view.
        gone: Numbers of the batch files whose rows go.
        staying: Numbers of the batch files whose rows stay, if the table is written anew without
            the others; None if the others are deleted from it.
        arriving: Batch files whose rows come, with their numbers.
        speed_anew: Whether its speed table is loaded anew; else that stays as it is.
        cover: The segments that it is loaded from then; None if it is to be empty.
    """

    view: View
    gone: Sequence[int]
    staying: Sequence[int] | None
    arriving: Mapping[StoredFile, int]
    speed_anew: bool
    cover: Cover | None


@dataclass(frozen=True)
class Plan:
    """How the tables come to hold what they should, in one transaction.

    Attributes:
        views: Each view's part.
        loaded: What they hold then, but for the number of rows in the speed tables.
    """

    views: Sequence[ViewPlan]
    loaded: Loaded


def replacing(
    before: Loaded,
    catalog: Catalog,
    pointer: bytes | None,
    publication: Publication | None,
    streams: Mapping[str, Found],
    stale: Set[str],
) -> Plan:
    """How the tables come to the publication, and those of stale streams to what was found of them.

    Args:
        before: What they hold.
        catalog: The definitions.
        pointer: The pointer's bytes that named the publication.
        publication: The publication; None before the first.
        streams: Per stream, what was found of it.
        stale: The streams whose speed tables are loaded anew.
    """
    missing = {name: why for each in streams.values() for name, why in each.missing.items()}
    plans, next_file = [], before.next_file
    files: dict[str, Mapping[StoredFile, int]] = {}
    deleted: dict[str, int] = {}
    for view in catalog.views:
        answers = publication and view.name in publication.views and view.name not in missing
        wanted = publication.views[view.name].files if publication and answers else []
        held = before.files.get(view.name, {})
        new = [file for file in wanted if file not in held]
        arriving = {file: next_file + place for place, file in enumerate(new)}
        next_file += len(new)
        files[view.name] = {file: arriving.get(file, held.get(file, 0)) for file in wanted}
        gone = [file for file in held if file not in files[view.name]]
        staying = [file for file in held if file in files[view.name]]
        rows = sum(file.rows for file in gone) + before.deleted_rows.get(view.name, 0)
        anew = bool(gone) and rows > MOST_DELETED * sum(file.rows for file in staying)
        deleted[view.name] = 0 if anew else rows
        plans.append(
            ViewPlan(
                view,
                [held[file] for file in gone],
                [held[file] for file in staying] if anew else None,
                arriving,
                view.stream.name in stale,
                streams[view.stream.name].cover if view.name not in missing else None,
            )
        )
    of_stale = {view.name for view in catalog.views if view.stream.name in stale}
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
        ),
    )
