"""A store that is written by the product's own functions, without Spark or Kafka.

It contains publications, commits and intervals of one stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.runtime.clock import now_ms
from trilayer_core.seam import Range, tick_of
from trilayer_core.store import layout
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.publication import Publication, PublishedStream, PublishedView
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import TICK, Commit, Generation, Segment


@dataclass
class Written:
    """A store of one stream with one partition and one view, and what has been written to it.

    Attributes:
        end: The first offset that no layer has yet; at first the one where the log begins.
        batches: The number of micro-batches that have been committed.
        others: Further views of the stream. Each commit and publication has rows of them, too.
    """

    store: Store
    view: View
    tick_ms: int = 60_000
    end: int = 0
    batches: int = 0
    topic_id: str = "topic"
    others: Mapping[str, View] = field(default_factory=dict)
    generation: Generation = field(init=False)
    start: int = field(init=False)

    def __post_init__(self) -> None:
        name, self.start = self.stream.name, self.end
        origin = {"topic": self.stream.topic, "topic_id": self.topic_id, "start": {0: self.start}}
        self.store.create_document(f"streams/{name}/origin.json", origin)
        self.begin(1)

    @property
    def stream(self) -> Stream:
        """The view's stream."""
        return self.view.stream

    @property
    def catalog(self) -> Catalog:
        """The catalog, which only contains the view and the others."""
        return Catalog(views=[self.view, *self.others.values()])

    def begin(self, number: int) -> None:
        """Begins generation `number` of the speed layer at the present end."""
        self.generation = Generation(
            f"{number:06d}-000000",
            self.topic_id,
            self.catalog.stream_fingerprint(self.stream),
            {view.name: view.fingerprint for view in self.catalog.views},
            {0: self.end},
            now_ms(),
            self.tick_ms,
        )
        self.batches = 0
        path = layout.generation_record(self.stream, self.generation.name)
        self.store.create_document(path, self.generation)

    def commit(
        self,
        partials: pa.Table,
        events: int,
        at_ms: int,
        others: Mapping[str, pa.Table] | None = None,
    ) -> Commit:
        """Commits one micro-batch with a number of events, all of which arrived at `at_ms`."""
        tick = tick_of(at_ms, self.tick_ms)
        place = layout.generation(self.stream, self.generation.name)
        batch, files = self.batches, {}
        for name, rows in {self.view.name: partials, **(others or {})}.items():
            table = rows.add_column(0, TICK, pa.array([tick] * len(rows), pa.int64()))
            path = f"{place}/data/{batch:012d}-{batch:012d}-{name}.parquet"
            files[name] = self.store.write_table(path, table, durable=False)
        ranges = {0: Range(self.end, self.end + events)}
        segment = Segment(tick, ranges, events, 0, at_ms, at_ms, 0)
        commit = Commit(batch, batch, [segment], files, None, at_ms)
        path = layout.commit(self.stream, self.generation.name, batch, batch)
        self.store.create_document(path, commit, durable=False)
        self.end += events
        self.batches += 1
        return commit

    def publish(
        self,
        partials: pa.Table | list[StoredFile],
        events: int,
        t_ms: int,
        others: Mapping[str, pa.Table] | None = None,
    ) -> Publication:
        """Puts a batch view in force, with a cut `events` offsets after the end.

        The end moves to that cut. `partials` is the whole view, or the files that contain it.
        """
        token = Fence(self.store).take("written")
        self.end += events
        views = {}
        for name, rows in {self.view.name: partials, **(others or {})}.items():
            files = rows
            if isinstance(files, pa.Table):
                path = f"batch/{name}/{token:08d}-full-000000/part.parquet"
                files = [self.store.write_table(path, files, durable=False)]
            fingerprint = self.others.get(name, self.view).fingerprint
            views[name] = PublishedView(fingerprint, files)
        cut, counted = {0: self.end}, self.end - self.start
        stream = PublishedStream(self.topic_id, self.stream.fingerprint, cut, counted, 0, 0)
        publication = Publication(
            Publications(self.store).next_number(),
            t_ms,
            token,
            "full",
            None,
            now_ms(),
            {self.stream.name: stream},
            views,
            {},
        )
        Publications(self.store).put_in_force(
            Publications(self.store).write(publication).version, token, "publish"
        )
        return publication
