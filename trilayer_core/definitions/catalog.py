"""The catalog of a project: all its views, named queries and sinks."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from trilayer_core.definitions.alerts import Alert, AlertGroup, grouped
from trilayer_core.definitions.changelogs import Changelog
from trilayer_core.definitions.expressions import check_all, check_different, check_name
from trilayer_core.definitions.guards import guards_of
from trilayer_core.definitions.sinks import Sink
from trilayer_core.definitions.stream import Rows, Source, Stream, fingerprint_with
from trilayer_core.definitions.tables import Table
from trilayer_core.definitions.view import View
from trilayer_core.errors import (
    DefinitionError,
    TrilayerError,
    UsageError,
    did_you_mean,
    short_traceback,
)


@short_traceback
@dataclass(frozen=True)
class Query:
    """A named query over the views.

    Attributes:
        name: Its name, which can be used like a table.
        sql: A SELECT in DuckDB's dialect.
    """

    name: str
    sql: str

    def __post_init__(self) -> None:
        check_name(self.name, "name of a query")
        if not self.sql.strip():
            raise DefinitionError(f"query {self.name!r} must be SQL; got {self.sql!r}")


@short_traceback
@dataclass(frozen=True)
class Catalog:
    """Everything that a project computes, answers and delivers. Reading it starts no JVM.

    Attributes:
        views: The views; their sources and streams come with them.
        queries: The named queries.
        sinks: Where each publication is delivered.
        tables: Reference tables for queries, in addition to those of the views' rows.
        changelogs: The topics that hold merged views.
        alerts: The rules that are evaluated for each event as it arrives.
    """

    _: KW_ONLY
    views: Sequence[View]
    queries: Sequence[Query] = field(default=())
    sinks: Sequence[Sink] = field(default=())
    tables: Sequence[Table] = field(default=())
    changelogs: Sequence[Changelog] = field(default=())
    alerts: Sequence[Alert] = field(default=())

    def __post_init__(self) -> None:
        for subject, items, kind in (
            ("views", self.views, View),
            ("queries", self.queries, Query),
            ("changelogs", self.changelogs, Changelog),
            ("alerts", self.alerts, Alert),
            ("tables", self.tables, Table),
        ):
            check_all(f"{subject} of a catalog", items, kind)
        if not self.views:
            raise DefinitionError("a catalog must have at least one view; got none")
        names = [view.name for view in self.views] + [query.name for query in self.queries]
        check_different("views and queries", names)
        _check_declared_once("stream", [view.stream for view in self.views])
        _check_declared_once("source", [view.source for view in self.views])
        self._check_sinks()
        self._check_tables(names)
        topics = [stream.topic for stream in self.streams]
        if len(set(topics)) < len(topics):
            raise DefinitionError(
                f"each topic must belong to one stream; got {', '.join(sorted(topics))}"
            )
        self._check_changelogs(topics)
        self._check_alerts([*topics, *(changelog.topic for changelog in self.changelogs)])
        self._guard_streams()

    def _guard_streams(self) -> None:
        """Makes each stream one that sets events aside which its views and alerts can't take.

        Such an event counts in no view of its stream. Which ones these are is therefore a part of
        the stream, and of its fingerprint.
        """
        streams: dict[str, Stream] = {}
        for stream in self.streams:
            of_views = [guard for view in self.views_of(stream) for guard in view.guards]
            of_alerts = [
                key.expression for a in self.alerts if a.source == stream for key in a.keys
            ]
            by_meaning = {g.sql: g for g in [*of_views, *guards_of(of_alerts)]}
            # A filter goes before what it selects for, so that the reason names the filter.
            guards = sorted(by_meaning.values(), key=lambda g: (len(g.condition), g.sql))
            streams[stream.name] = stream.guarded_by(guards)
        sources: dict[str, Source] = {}

        def source_of(source: Source) -> Source:
            stream = streams[source.stream.name]
            if source.stream is stream:
                return source
            if not isinstance(source, Rows):
                return stream
            if source.name not in sources:
                sources[source.name] = replace(source, source=stream)
            return sources[source.name]

        def view_of(view: View) -> View:
            source = source_of(view.source)
            return view if source is view.source else replace(view, source=source)

        views = [view_of(view) for view in self.views]
        by_name = {view.name: view for view in views}
        changelogs = [replace(log, view=by_name[log.view.name]) for log in self.changelogs]
        alerts = [
            replace(
                alert,
                source=streams[alert.source.name],
                profile=alert.profile and by_name[alert.profile.name],
            )
            for alert in self.alerts
        ]
        for name, made in (("views", views), ("changelogs", changelogs), ("alerts", alerts)):
            object.__setattr__(self, name, made)

    def _check_changelogs(self, taken: Sequence[str]) -> None:
        topics = [*taken]
        for changelog in self.changelogs:
            if changelog.view not in self.views:
                raise DefinitionError(
                    f"view of changelog {changelog.name!r} must be one of the catalog's; got"
                    f" {changelog.view.name!r}; add it to the catalog's views"
                )
            if changelog.topic in topics:
                raise DefinitionError(
                    f"topic of changelog {changelog.name!r} must be its own; got"
                    f" {changelog.topic!r}, which belongs to a stream or another changelog"
                )
            topics.append(changelog.topic)
        check_different("changelogs", [changelog.name for changelog in self.changelogs])

    def _check_alerts(self, taken: Sequence[str]) -> None:
        for alert in self.alerts:
            if alert.source not in self.streams:
                raise DefinitionError(
                    f"source of alert {alert.name!r} must be the stream of a view of the catalog;"
                    f" got {alert.source.name!r}; declare a view over it, such as a count by key"
                )
            if alert.profile is not None and alert.profile not in self.views:
                raise DefinitionError(
                    f"profile of alert {alert.name!r} must be one of the catalog's views; got"
                    f" {alert.profile.name!r}; add it to the catalog's views"
                )
            if alert.topic in taken:
                raise DefinitionError(
                    f"topic of alert {alert.name!r} must be one of alerts alone; got"
                    f" {alert.topic!r}, which belongs to a stream or a changelog"
                )
        check_different("alerts", [alert.name for alert in self.alerts])
        owners: dict[str, Stream] = {}
        for alert in self.alerts:
            if owners.setdefault(alert.topic, alert.source) != alert.source:
                raise DefinitionError(
                    f"topic {alert.topic!r} must be of alerts of one stream; got"
                    f" {owners[alert.topic].name} and {alert.source.name}"
                )

    def _check_sinks(self) -> None:
        for sink in self.sinks:
            if not isinstance(sink, Sink):
                raise DefinitionError(
                    f"a sink must be an instance of a subclass of Sink; got {sink!r}"
                )
            check_name(str(getattr(sink, "name", "")), f"name of the sink {type(sink).__name__}")
        check_different("sinks", [sink.name for sink in self.sinks])

    def _check_tables(self, taken: Sequence[str]) -> None:
        of_rows = [table for rows in self.rows for table in rows.tables]
        _check_declared_once("table", [*of_rows, *self.tables])
        for table in self.all_tables:
            if table.name in taken:
                raise DefinitionError(
                    f"tables, views and queries must have different names; got {table.name} twice"
                )

    @staticmethod
    def of_view(view: View) -> Catalog:
        """A catalog of one view of another one, with the view's stream as that one has it.

        Which events count in the view also depends on the other views of its stream.
        """
        catalog = Catalog(views=[view])
        # The new catalog has guarded the stream by the expressions of this view alone.
        object.__setattr__(catalog, "views", (view,))
        return catalog

    @property
    def all_tables(self) -> list[Table]:
        """The reference tables of the views' rows and of queries, without duplicates."""
        tables = [*(table for rows in self.rows for table in rows.tables), *self.tables]
        return list({table.name: table for table in tables}.values())

    @property
    def streams(self) -> list[Stream]:
        """The streams of all views, without duplicates."""
        return list({view.stream.name: view.stream for view in self.views}.values())

    @property
    def alert_groups(self) -> tuple[AlertGroup, ...]:
        """The alerts by stream and key; those of a group are evaluated together."""
        return grouped(self.alerts)

    def groups_of(self, stream: Stream) -> tuple[AlertGroup, ...]:
        """The groups of alerts over a stream."""
        return tuple(group for group in self.alert_groups if group.stream == stream)

    def alert(self, name: str) -> Alert:
        """The alert with this name.

        Raises:
            UsageError: There is none.
        """
        return _named("alert", name, self.alerts)

    @property
    def rows(self) -> list[Rows]:
        """The `Rows` sources of the views, without duplicates."""
        rows = [view.source for view in self.views if isinstance(view.source, Rows)]
        return list({source.name: source for source in rows}.values())

    def stream(self, name: str) -> Stream:
        """The stream with this name.

        Raises:
            UsageError: There is none.
        """
        return _named("stream", name, self.streams)

    def view(self, name: str) -> View:
        """The view with this name.

        Raises:
            UsageError: There is none.
        """
        return _named("view", name, self.views)

    def views_of(self, stream: Stream) -> list[View]:
        """The views over a stream, including those over rows made from it."""
        return [view for view in self.views if view.stream.name == stream.name]

    @property
    def stored(self) -> list[View]:
        """What the layers compute and store for all views; see `View.stored`."""
        return [stored for view in self.views for stored in view.stored]

    def stored_of(self, stream: Stream) -> list[View]:
        """What the layers compute and store for the views over a stream."""
        return [stored for view in self.views_of(stream) for stored in view.stored]

    def stream_fingerprint(self, stream: Stream) -> str:
        """Identifies what one run of the speed layer computes: the stream and all views over it."""
        views = {view.name: view.fingerprint for view in self.stored_of(stream)}
        return fingerprint_with(self.stream(stream.name), views)


_Named = TypeVar("_Named", Alert, Stream, View)


def _named(subject: str, name: str, items: Sequence[_Named]) -> _Named:
    """The one of a catalog's items that has a name."""
    by_name = {item.name: item for item in items}
    if name not in by_name:
        raise UsageError(
            f"{subject} must be one of the catalog's; got {name!r}{did_you_mean(name, by_name)}"
        )
    return by_name[name]


def _check_declared_once(subject: str, items: Iterable[Source | Table]) -> None:
    by_name: dict[str, Source | Table] = {}
    for item in items:
        if by_name.setdefault(item.name, item) != item:
            raise DefinitionError(
                f"each {subject} must be declared once; got two different ones named {item.name!r}"
            )


@contextmanager
def _searched(folder: str) -> Iterator[None]:
    """Searches `folder` first when importing modules; afterwards it is searched last.

    The project's own imports must find the project's files. Later imports by trilayer, Spark or
    Airflow must not find them, because a project may contain a `cli.py` or a file with any other
    name.
    """
    if folder in sys.path:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.path.append(folder)


def load_catalog(name: str) -> Catalog:
    """Imports the catalog that `module:attribute` names.

    The module is searched for in the working directory as well. What it prints goes to stderr, so
    that it does not become a part of a command's answer.

    Raises:
        UsageError: The module or the attribute was not found, or the module fails; names the line.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise UsageError(
            f"catalog must be named as module:attribute (examples.flights:catalog); got {name!r}"
        )
    here = str(Path.cwd())
    try:
        with _searched(here), redirect_stdout(sys.stderr):
            module = importlib.import_module(module_name)
    except TrilayerError:
        raise
    # The module is the user's: anything may come, and sys.exit() is no request to end quietly.
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise UsageError(
                f"catalog {name!r} must be importable from {here}; got no module {missing!r}; run"
                " from your project's folder, or set `catalog` in trilayer.toml"
            ) from None
        raise UsageError(
            f"catalog {name!r} must be importable; got {_summary(error)}, at {_place(error, here)};"
            " correct that line"
        ) from error
    catalog = getattr(module, attribute, None)
    if not isinstance(catalog, Catalog):
        catalogs = [k for k, v in vars(module).items() if isinstance(v, Catalog)]
        raise UsageError(
            f"catalog {name!r} must be a Catalog; got"
            f" {type(catalog).__name__}{did_you_mean(attribute, catalogs)}"
        )
    return catalog


def _summary(error: BaseException) -> str:
    """The kind and the text of an error, in one line."""
    text = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place(error: BaseException, folder: str) -> str:
    """The innermost line of the project's own files that an error came from, as FILE:LINE."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if Path(frame.filename).is_relative_to(folder)
        and not Path(frame.filename).is_relative_to(sys.prefix)
    ]
    frame = (own or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"
