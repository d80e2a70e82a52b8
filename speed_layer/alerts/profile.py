"""The rows of batch views by which rules evaluate, as files of the store."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from trilayer_core.compute.grouping import arrow_type, partial_schema, sql_type
from trilayer_core.compute.merging import (
    create_table_sql,
    insert_rows,
    open_duckdb,
    present_select,
    quoted_duckdb,
)
from trilayer_core.definitions.alerts import profile_columns
from trilayer_core.definitions.view import View
from trilayer_core.store import layout
from trilayer_core.store.alerts import Profile
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.publication import Publication


def stored_profile(
    view: View, publication: Publication, store: Store, profiles: Sequence[Profile]
) -> Profile | None:
    """A view's answer in a publication, as a file.

    Args:
        view: The view.
        publication: The publication.
        store: The store.
        profiles: Stored profiles of the view. One with the same content is used instead of a new
            file.

    Returns:
        The profile; None if the publication does not have the view with its present definition.
    """
    if not publication.has(view):
        return None
    stream = publication.streams[view.stream.name]
    for profile in profiles:
        if profile.version == publication.version:
            return profile
    path = layout.profile(view.name, publication.version, store.unique())
    file = store.write_table(path, _answer(view, publication, store))
    for profile in profiles:
        if _is_equal(profile.file, file):
            store.delete(path)
            return profile
    return Profile(publication.version, stream.cut, stream.origin_id, file)


def _is_equal(one: StoredFile, other: StoredFile) -> bool:
    return (one.rows, one.sha256) == (other.rows, other.sha256)


def _answer(view: View, publication: Publication, store: Store) -> pa.Table:
    """The view's answer from the publication's partials, in the order of its keys."""
    columns = profile_columns(view)
    with open_duckdb() as connection:
        for stored in view.stored:
            connection.execute(create_table_sql(quoted_duckdb(stored.name), stored))
            for file in publication.views[stored.name].files:
                rows = store.read_table(file, schema=partial_schema(stored))
                insert_rows(connection, quoted_duckdb(stored.name), rows)
        answer = present_select(view, lambda stored: [quoted_duckdb(stored.name)])
        # A total may be wider than its column; one that does not fit is NULL, as in answers.
        typed = ", ".join(
            f"TRY_CAST({quoted_duckdb(name)} AS {sql_type(type_, 'duckdb')}) AS"
            f" {quoted_duckdb(name)}"
            for name, type_ in columns.items()
        )
        keys = ", ".join(quoted_duckdb(key.name) for key in view.keys)
        rows = connection.sql(f"SELECT {typed} FROM ({answer}) ORDER BY {keys}").to_arrow_table()
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in columns.items()])
    return rows.cast(schema)
