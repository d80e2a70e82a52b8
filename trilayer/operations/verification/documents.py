"""Checks what documents say that no answer depends on: T, lists of files, and what was sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from trilayer_core.definitions.catalog import Catalog
from trilayer_core.errors import IntegrityError
from trilayer_core.store import layout
from trilayer_core.store.alerts import Sent, writes_in
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.intervals import Interval
from trilayer_core.store.publication import Publication
from trilayer_core.store.runs import Runs


def check_chain_files(chain: Sequence[Interval]) -> Iterator[str]:
    """Checks that no file is in two intervals, or twice in one."""
    yield from _listed_twice("the master dataset", (f for i in chain for f in i.files))


def publication_faults(store: Store, publication: Publication) -> Iterator[str]:
    """What a version says that is not so: of its run, and of files that are listed twice."""
    run = Runs(store).begun(publication.token)
    if run is not None:
        own = {name: stream.cut for name, stream in publication.streams.items()}
        identities = {name: stream.origin_id for name, stream in publication.streams.items()}
        for what, stated, actual in (
            ("T", publication.t, run.t),
            ("cuts", own, {name: cut for name, cut in run.cuts.items() if name in own}),
            ("origins", identities, {n: i for n, i in run.origin_ids.items() if n in own}),
        ):
            if stated != actual:
                yield f"its {what} must be that of its run {run.token}, {actual}; got {stated}"
    if publication.kind not in ("incremental", "full"):
        yield f"its kind must be incremental or full; got {publication.kind!r}"
    if publication.base is not None and publication.base >= publication.version:
        yield f"its base must be an older version; got {publication.base}"
    yield from _listed_twice("it", publication.files)


def sent_faults(store: Store, catalog: Catalog) -> Iterator[str]:
    """What is missing of the alerts that were read from their topics."""
    for topic in sorted({alert.topic for alert in catalog.alerts}):
        path, folder = layout.sent(topic), layout.sent_folder(topic)
        files = [name for name in store.names(folder) if name.endswith(".parquet")]
        if not store.exists(path):
            if files:
                yield (
                    f"{path} is missing, which lists {len(files)} files of alerts that were sent;"
                    " restore it from a copy, or delete the folder, and they are read again"
                )
            continue
        listed = store.read_document(path, Sent).files
        if files and not listed:
            yield f"{path} lists no file of alerts that were sent, and {len(files)} are there"
        yield from _listed_twice(path, listed)
        end = 0
        for first, last in sorted(w for file in listed if (w := writes_in(file)) is not None):
            if first != end + 1:
                yield f"{path} lists write {first} of alerts after write {end}"
            end = last
        for file in listed:
            try:
                store.check(file)
            except IntegrityError as error:
                yield str(error)


def _listed_twice(what: str, files: Iterable[StoredFile]) -> Iterator[str]:
    counts = Counter(file.path for file in files)
    for path, number in counts.items():
        if number > 1:
            yield f"{what} lists {path} {number} times"
