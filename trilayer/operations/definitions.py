"""Compares the definitions saved in a project's files with those that the stack runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from batch_layer.engine import batch_spark
from trilayer.command_lines import trilayer_command, with_parent
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.view import declared_name
from trilayer_core.errors import EnvironmentFault, UsageError
from trilayer_core.project import Project
from trilayer_core.store.publication import Publication
from trilayer_core.store.tables import check_tables

SETTLED_S = 1.0
"""How long the files must be unchanged, in seconds.

An editor may save several of them one by one.
"""

LOAD_S = 60
"""The time limit for loading the catalog and trying its changed functions, in seconds."""


@dataclass(frozen=True)
class Definitions:
    """The fingerprints of what a catalog defines, by name.

    Attributes:
        views: Fingerprints of its views, by name.
        streams: Fingerprints of its streams with the views over them, by name.
        rows: Fingerprints of its `Rows` sources, by name.
        files: The files that define it.
        changelogs: What is declared of its changelogs, by name.
        alerts: What is declared of its alerts, by name.
        queries: The SQL of its queries, by name.
        tables: Digests of its reference tables, by name.
    """

    views: dict[str, str]
    streams: dict[str, str]
    rows: dict[str, str]
    files: tuple[str, ...]
    changelogs: dict[str, list[str | int]] = field(default_factory=dict)
    alerts: dict[str, list[str | int]] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)


def loaded(catalog: Catalog, folder: Path) -> Definitions:
    """Returns the definitions of a catalog that this process has loaded from `folder`."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = sorted(file for file in files if file and _belongs(Path(file), folder))
    own += [str(table.path) for table in catalog.all_tables]
    return Definitions(
        {view.name: view.fingerprint for view in catalog.stored},
        {stream.name: catalog.stream_fingerprint(stream) for stream in catalog.streams},
        {rows.name: rows.fingerprint for rows in catalog.rows},
        tuple(own),
        {c.name: [c.view.name, c.topic, c.partitions, c.compacted] for c in catalog.changelogs},
        {alert.name: [alert.fingerprint, alert.topic] for alert in catalog.alerts},
        {query.name: query.sql for query in catalog.queries},
        {table.name: table.digest for table in catalog.all_tables},
    )


def saved(former: Definitions) -> Definitions:
    """Returns the definitions that the project's files contain now, loaded by a separate process.

    The process also tries the functions of `Rows` sources that differ from the former definitions.

    Raises:
        UsageError: They can't be loaded, or a function fails; the message says why.
        EnvironmentFault: That was not known in time, as on a busy machine.
    """
    command = with_parent(
        trilayer_command("speed", "definitions", "--former", json.dumps(former.rows))
    )
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LOAD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(
            f"the catalog did not load, and its changed functions were not tried, within {LOAD_S} s"
        ) from None
    if done.returncode:
        last_line = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UsageError(last_line.removeprefix("error: "))
    # Whatever the functions print, and Spark's own process, comes before.
    return Definitions(**json.loads(done.stdout.splitlines()[-1]))


def try_rows(p: Project, former: Mapping[str, str]) -> None:
    """Calls the changed functions of `Rows` sources without events, as a layer does at its start.

    Args:
        p: The project.
        former: Fingerprints by name of sources that are known to work.

    Raises:
        DefinitionError: A function fails, or does not return what it declares.
    """
    changed = [rows for rows in p.catalog.rows if former.get(rows.name) != rows.fingerprint]
    # If no Spark answers, the speed layer has to find out by itself.
    check_tables(p.store, changed, p.settings.table_max_mb)
    with suppress(EnvironmentFault), batch_spark(p.settings, changed) as start_spark:
        if changed:
            start_spark()


def as_line(definitions: Definitions) -> str:
    """Returns the line that `saved` reads."""
    return json.dumps(asdict(definitions))


def changes(before: Definitions, now: Definitions, publication: Publication | None) -> list[str]:
    """What the difference between two definitions means for answers.

    One sentence for each difference; empty if there is none.
    """
    if before.views == now.views and before.streams == now.streams:
        return []
    sentences = []
    for words, names in (
        (
            "changed",
            [n for n in now.views if n in before.views and before.views[n] != now.views[n]],
        ),
        ("added", [n for n in now.views if n not in before.views]),
        ("removed", [n for n in before.views if n not in now.views]),
    ):
        if names:
            sentences.append(f"Definitions were {words}: {_declared(names)}.")
    published = (
        {name: view.fingerprint for name, view in publication.views.items()} if publication else {}
    )
    waiting = [
        name for name, fingerprint in now.views.items() if published.get(name) != fingerprint
    ]
    if publication and waiting:
        sentences.append(
            "Until a batch run has computed them in full, these views have no answer:"
            f" {_declared(waiting)}. Airflow's next run does so, or `trilayer batch run`; to have"
            " the former answers, undo the change."
        )
    return sentences


def _declared(stored: Iterable[str]) -> str:
    """Returns the names of the declared views of which these are what is stored."""
    return ", ".join(dict.fromkeys(map(declared_name, stored)))


class Watch:
    """Notices when the files of a project have been saved."""

    def __init__(self, files: Iterable[str]) -> None:
        self.follow(files)

    def follow(self, files: Iterable[str]) -> None:
        """Watches these files from now on."""
        self._files = tuple(files)
        self._stamps = self._read_stamps()
        self._changed_at: float | None = None

    def again(self) -> None:
        """Has `changed` report once more what it has reported."""
        self._changed_at = time.monotonic()

    def changed(self) -> bool:
        """Returns, once, whether a file has changed and none has for a second since."""
        stamps = self._read_stamps()
        if stamps != self._stamps:
            self._stamps, self._changed_at = stamps, time.monotonic()
        if self._changed_at is None or time.monotonic() - self._changed_at < SETTLED_S:
            return False
        self._changed_at = None
        return True

    def _read_stamps(self) -> list[tuple[int, int] | None]:
        return [_stamp(Path(file)) for file in self._files]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def _belongs(file: Path, folder: Path) -> bool:
    return file.is_relative_to(folder) and not file.is_relative_to(sys.prefix)
