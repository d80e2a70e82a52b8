"""A log that loses ingested records, and one that is created again, on the seam's model."""

import json

import pytest

from batch_layer.accept import accept_loss
from batch_layer.cut import choose_t
from batch_layer.ingest import ingest
from batch_layer.publish import rollback
from serving_layer.history import segments
from tests.support.seam.world import CATALOG, STREAM, TICK_MS, Counting, ModelLog, World
from trilayer_core.errors import LogError, OvertakenError
from trilayer_core.log.broker import Mark, Topic
from trilayer_core.seam import Range
from trilayer_core.store import layout
from trilayer_core.store.continuity import NOTHING_READ
from trilayer_core.store.cover import best_cover
from trilayer_core.store.documents import decode, encode
from trilayer_core.store.fence import Fence
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origin, Origins, origin_number
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Run
from trilayer_core.store.segments import Commit, Segment


class Truncated(World):
    """A world of one partition whose log can lose its end, be taken by retention, or be created
    again.
    """

    def __init__(self):
        super().__init__(0, 0)
        self.records = [[]]
        self.topic_id = "id"
        self.ingested, self.engine = {}, Noting(self)

    def add(self, number, key):
        for _ in range(number):
            self.now += 1
            self.records[0].append((self.now, self.now, key))
        self.now += 2 * TICK_MS

    def truncate(self, offset):
        del self.records[0][offset:]
        self.now += 5000

    def create_again(self):
        self.records, self.topic_id, self.begins = [[]], self.topic_id + "x", {}

    def segment(self, tick, ranges, events, quarantined):
        """A segment that says when its newest record was appended, as those of Spark do."""
        newest = [self.records[p][r.end - 1][0] for p, r in ranges.items() if len(r)]
        return Segment(tick, ranges, events, quarantined, min(newest), max(newest), 0)

    def accept_loss(self):
        return accept_loss(
            self.project,
            STREAM,
            open_log=self.open_log,
            read_records=lambda store: self.engine,
        )

    def ingest(self, run):
        return ingest(self.project, STREAM, run, self.engine, open_log=self.open_log)

    def run(self, *, accept=False, full=False):
        """A whole batch run, as `trilayer batch run [--accept-loss] [--full]` does it."""
        if accept:
            self.accept_loss()
        self.rng.random = lambda: 0.0 if full else 0.9
        self.batch()

    def open_log(self, servers=""):
        return TruncatedLog(self)

    def answers(self):
        publication = Publications(self.store).in_force()
        assert publication
        published = publication.streams[STREAM.name]
        views = {view.name: view.fingerprint for view in CATALOG.views}
        found = best_cover(
            Generations(self.store, STREAM),
            published.origin_id,
            views,
            published.cut,
            newest_ruled_out=published.newest_ruled_out,
        )
        answer = {}
        for file in publication.views["by_key"].files:
            for key, n in self.store.content(file.path).items():
                answer[key] = answer.get(key, 0) + n
        if found:
            for key, n in self._rows("by_key", found.commits, found.ticks).items():
                answer[key] = answer.get(key, 0) + n
        return answer

    def speed_on(self):
        for _ in range(20):
            self.micro_batch()


class TruncatedLog(ModelLog):
    def find(self, stream):
        return Topic(stream.topic, self._world.topic_id, (0,))


class Noting(Counting):
    """Notes the records of each interval, in which a loss is looked for."""

    def ingest(self, stream, number, ranges):
        self.world.ingested[number] = {
            o: self.world.mark(p, o) for p, r in ranges.items() for o in range(r.start, r.end)
        }
        return super().ingest(stream, number, ranges)

    def offsets(self, interval, partition, r):
        return sorted(o for o in self.world.ingested[interval.number] if r.start <= o < r.end)

    def mark(self, interval, partition, offset):
        return self.world.ingested[interval.number][offset]


@pytest.fixture
def world():
    return Truncated()


def test_records_that_come_after_a_truncation_are_not_ingested_on_top(world):
    world.start_speed()
    world.add(100, 1)
    world.run()
    world.truncate(80)
    world.add(40, 2)
    before = dict(world.store.files)
    with pytest.raises(
        LogError, match=r"'events': partition 0 .*offset 99.*ends at offset 120.*--accept-loss"
    ):
        world.run()
    assert world.store.files == before, "nothing may be written before the log is checked"


def test_a_log_that_ends_below_what_was_ingested_is_refused(world):
    world.add(100, 1)
    world.run()
    world.truncate(80)
    with pytest.raises(
        LogError, match=r"'events': partition 0 .*ends at offset 80.*offset 100.*--accept-loss"
    ):
        world.run()


def test_a_log_truncated_between_cut_and_ingest_is_refused_by_the_ingest(world):
    world.add(100, 1)
    world.run()
    world.add(20, 1)
    t_ms = choose_t(world.project, None)
    run = world.cut_at(t_ms)
    world.truncate(110)
    with pytest.raises(LogError, match="below offset 120"):
        world.ingest(run)
    world.truncate(90)
    world.add(40, 2)
    with pytest.raises(LogError, match="offset 99"):
        world.ingest(run)
    assert len(Master(world.store, STREAM).read_chain()) == 1


@pytest.mark.parametrize("grown", [0, 30])
def test_a_log_that_changes_while_it_is_read_is_not_committed(world, grown):
    world.add(100, 1)
    world.run()
    world.add(20, 1)
    write = world.engine.ingest

    def write_and_lose(*arguments):
        made = write(*arguments)
        world.truncate(110)
        world.add(grown, 2)
        return made

    world.engine.ingest = write_and_lose
    with pytest.raises(LogError, match="offset 119 did"):
        world.run()
    assert len(Master(world.store, STREAM).read_chain()) == 1
    world.engine.ingest = write
    world.run()
    assert world.answers() == {1: 110} | ({2: grown} if grown else {})


@pytest.mark.parametrize("kept", [0, 1, 37, 80, 99])
@pytest.mark.parametrize("grown", [0, 5, 300])
def test_an_accepted_loss_keeps_what_was_ingested_and_counts_all_that_came_since(
    world, kept, grown
):
    world.add(60, 1)
    world.run()
    world.add(40, 1)
    world.run()
    world.truncate(kept)
    world.add(grown, 2)
    world.run(accept=True)
    expected = {1: 100} | ({2: grown} if grown else {})
    assert world.answers() == expected
    present = Origins(world.store, STREAM).present()
    assert (present.number, present.identity, dict(present.start)) == (2, "id#2", {0: kept})
    document = world.store.read_document(f"streams/{STREAM.name}/origins/00000002.json", dict)
    assert document["departed"] == {"0": [kept, 100]}
    assert document["before"] == "id"
    assert "partition 0" in document["reason"]
    world.start_speed()
    world.add(10, 3)
    world.speed_on()
    assert world.answers() == expected | {3: 10}
    world.run()
    world.run(full=True)
    assert world.answers() == expected | {3: 10}


def test_accepting_does_nothing_to_a_log_that_is_as_it_was(world):
    world.add(10, 1)
    world.run()
    before = dict(world.store.files)
    assert world.accept_loss() is None
    assert world.store.files == before


def test_a_second_loss_below_the_first_origin_s_end(world):
    world.add(100, 1)
    world.run()
    world.truncate(80)
    world.add(40, 2)
    world.run(accept=True)
    world.truncate(60)
    world.add(100, 3)
    world.run(accept=True)
    assert world.answers() == {1: 100, 2: 40, 3: 100}
    assert [dict(o.start) for o in Origins(world.store, STREAM).all()] == [{0: 0}, {0: 80}, {0: 60}]
    world.run(full=True)
    assert world.answers() == {1: 100, 2: 40, 3: 100}


def test_a_topic_created_again_goes_on_as_a_new_origin(world):
    world.start_speed()
    world.add(100, 1)
    world.speed_on()
    world.run()
    world.create_again()
    world.add(150, 2)
    with pytest.raises(LogError, match=r"deleted and created again.*--accept-loss"):
        world.run()
    with pytest.raises(LogError, match="deleted and created again"):
        world.start_speed()
    world.run(accept=True)
    assert Origins(world.store, STREAM).present().identity == "idx#2"
    assert world.answers() == {1: 100, 2: 150}
    world.start_speed()
    world.add(7, 3)
    world.speed_on()
    assert world.answers() == {1: 100, 2: 150, 3: 7}


def test_segments_are_below_the_cuts_of_their_own_origin(world):
    world.add(100, 1)
    world.run()
    world.create_again()
    world.add(10, 2)
    world.accept_loss()
    world.start_speed()
    world.speed_on()
    assert versions_above(world) == {None}, "version 1 ends at offset 100 of the topic before"


def versions_above(world):
    """The first version that counts the events of each segment of the newest generation."""
    newest = Generations(world.store, STREAM).all()[-1]
    rows = segments(STREAM, newest.name, world.store).arrow().to_pylist()
    return {row["batch_version"] for row in rows}


def test_a_run_that_died_after_the_new_origin_is_continued_by_the_next(world):
    world.add(100, 1)
    world.run()
    version = Publications(world.store).in_force().version
    world.truncate(80)
    world.add(40, 2)
    t_ms = choose_t(world.project, None)
    old = cut_as_it_was(world, t_ms)
    world.accept_loss()
    # What is in force stays so, and answers, until the next publication.
    assert Publications(world.store).in_force().version == version
    assert world.answers() == {1: 100}
    assert world.layer.covered_by(Publications(world.store).in_force().t_ms) is None
    with pytest.raises(OvertakenError, match="a loss was accepted since"):
        world.ingest(old)
    world.run()
    assert world.answers() == {1: 100, 2: 40}
    assert world.layer.covered_by(Publications(world.store).in_force().t_ms) is not None


def cut_as_it_was(world, t_ms):
    """A run cut before the loss, and found by its token."""
    token = Fence(world.store).take("a run under way")
    return Run(token, t_ms, False, {STREAM.name: {0: 100}}, {STREAM.name: "id"})


def test_rollback_goes_back_across_an_origin_and_forward_again(world):
    world.start_speed()
    world.add(100, 1)
    world.speed_on()
    world.run()
    first = Publications(world.store).in_force().version
    world.truncate(80)
    world.add(40, 2)
    world.run(accept=True)
    second = Publications(world.store).in_force().version
    rollback(first, world.store)
    assert world.answers() == {1: 100}
    # A run on top of the older origin's version takes in the later one's intervals.
    world.add(3, 3)
    world.run()
    assert Publications(world.store).in_force().base == first
    assert world.answers() == {1: 100, 2: 40, 3: 3}
    rollback(second, world.store)
    assert world.answers() == {1: 100, 2: 40}
    world.start_speed()
    world.speed_on()
    assert world.answers() == {1: 100, 2: 40, 3: 3}


def test_the_same_t_in_two_origins_is_two_intervals(world):
    world.add(100, 1)
    world.run()
    t_ms = Publications(world.store).in_force().t_ms
    now = world.now
    world.truncate(80)
    world.now = now
    world.accept_loss()
    world.run(full=True)
    assert [i.t_ms for i in Master(world.store, STREAM).read_chain()] == [t_ms, t_ms]
    assert world.answers() == {1: 100}


def test_what_retention_took_is_no_loss(world):
    world.add(100, 1)
    world.run()
    world.begins = {0: 100}
    world.add(20, 2)
    world.run()
    assert world.answers() == {1: 100, 2: 20}
    assert len(Origins(world.store, STREAM).all()) == 1


@pytest.mark.parametrize(
    ("first", "kept", "start"), [(50, 80, 80), (90, 90, 90), (50, 50, 50), (0, 0, 0)]
)
def test_a_loss_in_a_log_that_retention_has_shortened(world, first, kept, start):
    world.add(100, 1)
    world.run()
    world.begins = {0: first}
    world.truncate(kept)
    world.add(40, 2)
    world.run(accept=True)
    assert dict(Origins(world.store, STREAM).present().start) == {0: start}
    assert world.answers() == {1: 100, 2: 40}


def test_a_speed_layer_that_was_down_begins_anew_over_a_log_that_lost_records_above_the_cut(world):
    world.start_speed()
    world.add(50, 1)
    world.speed_on()
    world.run()
    world.add(50, 1)
    world.speed_on()
    assert world.answers() == {1: 100}
    world.truncate(80)
    world.add(40, 2)
    world.restart_speed()
    world.speed_on()
    assert world.answers() == {1: 80, 2: 40}
    known = Generations(world.store, STREAM).all()
    assert [g.anew for g in known] == [False, True]
    world.run()
    assert world.answers() == {1: 80, 2: 40}
    # What began anew stays the one to go on with.
    world.restart_speed()
    assert Generations(world.store, STREAM).all()[-1].name == known[-1].name


def test_a_head_below_the_old_one_is_not_hidden_by_what_was_read_before(world):
    world.start_speed()
    world.add(100, 1)
    world.speed_on()
    world.run()
    world.add(30, 1)
    world.speed_on()
    world.truncate(110)
    world.restart_speed()
    world.speed_on()
    assert world.answers() == {1: 110}


def test_a_speed_layer_at_work_stops_before_it_commits_over_a_log_that_lost_records(world):
    world.start_speed()
    world.add(100, 1)
    world.speed_on()
    world.truncate(80)
    world.add(40, 2)
    with pytest.raises(
        LogError,
        match="partition 0 of the log no longer has at offset 99 the record that was read there",
    ):
        world.speed_on()
    assert world.speed.loss
    world.restart_speed()
    world.speed_on()
    assert Generations(world.store, STREAM).all()[-1].anew
    world.run()
    assert world.answers() == {1: 80, 2: 40}


def test_a_micro_batch_that_was_planned_over_a_shorter_log_is_not_read(world):
    """Spark asks for the log's end first, and checks nothing."""
    world.start_speed()
    world.add(100, 1)
    world.speed_on()
    checkpoint = layout.checkpoint(STREAM, world.speed.generation.name)
    batch = max(int(name) for name in world.store.names(f"{checkpoint}/offsets")) + 1
    world.truncate(80)
    planned = "\n".join(["v1", "{}", json.dumps({STREAM.topic: {"0": 80}})])
    world.store.write(f"{checkpoint}/offsets/{batch}", planned.encode())
    with pytest.raises(
        LogError, match="ends at offset 80, below offset 100, up to which it was read"
    ):
        world.speed.process(batch, world.write_segments)
    assert world.speed.loss
    world.restart_speed()
    world.add(40, 2)
    world.speed_on()
    world.run()
    assert world.answers() == {1: 80, 2: 40}


@pytest.fixture
def noticed_by_batch(world):
    """The speed layer has read 100 records, 20 of which the log has lost; a batch run comes first,
    at offset 120.
    """
    world.start_speed()
    world.add(50, 1)
    world.speed_on()
    world.run()
    world.add(50, 1)
    world.speed_on()
    world.truncate(80)
    world.add(40, 2)
    world.run()
    assert Publications(world.store).in_force().streams[STREAM.name].newest_ruled_out == 1
    assert world.answers() == {1: 80, 2: 40}
    return world


def test_a_generation_that_a_batch_run_has_ruled_out_is_not_resumed(noticed_by_batch):
    """Retention takes the record that shows the speed layer its loss: it would read on, and no
    reader would look at that.
    """
    world = noticed_by_batch
    world.begins = {0: 100}
    world.restart_speed()
    assert [g.number for g in Generations(world.store, STREAM).all()] == [1, 2]
    world.add(5, 3)
    world.speed_on()
    assert world.answers() == {1: 80, 2: 40, 3: 5}


def test_a_generation_that_a_batch_run_has_ruled_out_ends_at_its_next_micro_batch(noticed_by_batch):
    world = noticed_by_batch
    world.begins = {0: 100}
    world.add(5, 3)
    with pytest.raises(
        LogError, match="a batch run has found that the log lost records which generation 1 "
    ):
        world.speed_on()
    assert world.speed.loss
    world.restart_speed()
    world.speed_on()
    assert world.answers() == {1: 80, 2: 40, 3: 5}


def test_a_generation_begun_in_an_empty_folder_is_not_taken_for_one_that_was_ruled_out(
    noticed_by_batch,
):
    world = noticed_by_batch
    world.store.delete(f"speed/{STREAM.name}")
    world.restart_speed()
    assert [g.number for g in Generations(world.store, STREAM).all()] == [2]
    world.add(5, 3)
    world.speed_on()
    assert world.answers() == {1: 80, 2: 40, 3: 5}


def test_an_older_generation_that_has_read_what_is_lost_is_ruled_out_below_a_newer_one(world):
    world.start_speed()
    world.add(50, 1)
    world.speed_on()
    world.run()
    world.add(50, 1)
    world.speed_on()
    world.start_speed(rebuild=True)  # and it has read nothing yet
    world.truncate(80)
    world.add(15, 2)
    world.run()
    assert Publications(world.store).in_force().streams[STREAM.name].newest_ruled_out == 1
    assert world.answers() == {1: 80, 2: 15}


def test_the_mark_before_stands_where_only_markers_of_transactions_came(world):
    def commit(number, marks):
        r = Range(10 * number, 10 * number + 10)
        return Commit(number, number, [Segment(0, {0: r, 1: r}, 20, 0)], {}, None, 0, marks)

    one, two = (Mark.of_record(offset, 0, None, b"x") for offset in (9, 19))
    commits = [commit(0, {0: one, 1: one}), commit(1, {0: None, 1: two})]
    assert dict(NOTHING_READ.and_of(commits).marks) == {0: one, 1: two}
    assert dict(NOTHING_READ.and_of([commit(0, {0: None})]).marks) == {0: None}


def test_a_speed_layer_does_not_go_on_where_the_batch_s_end_is_gone(world):
    world.start_speed()
    world.add(100, 1)
    world.speed_on()
    world.run()
    world.truncate(80)
    world.add(40, 2)
    with pytest.raises(LogError, match="--accept-loss"):
        world.restart_speed()
    world.run(accept=True)
    assert world.answers() == {1: 100, 2: 40}


def test_a_running_speed_layer_sees_that_a_new_origin_has_begun(world):
    world.add(100, 1)
    world.run()
    world.start_speed()
    assert not world.speed.overtaken()
    world.truncate(80)
    world.add(40, 2)
    world.run(accept=True)
    assert world.speed.overtaken()
    world.restart_speed()
    assert not world.speed.overtaken()
    assert Generations(world.store, STREAM).all()[-1].origin_id == "id#2"


def test_identities_of_later_origins_are_none_that_a_topic_has():
    assert Origin("t", "AbC-_9", {}).identity == "AbC-_9"
    later = Origin("t", "AbC-_9", {}, 12)
    assert later.identity == "AbC-_9#12"
    assert (origin_number("AbC-_9"), origin_number(later.identity)) == (1, 12)


def test_manifests_from_before_there_were_marks_are_read_and_the_end_is_checked(world):
    world.add(100, 1)
    world.run()
    path = f"{layout.chain(STREAM, STREAM.fingerprint)}/00000000.json"
    del world.store.files[path]["marks"]
    (interval,) = Master(world.store, STREAM).read_chain()
    assert interval.marks == {}
    world.truncate(80)
    with pytest.raises(LogError, match="ends at offset 80"):
        world.run()
    world.run(accept=True)
    assert world.answers() == {1: 100}


def test_a_manifest_s_marks_are_read_as_they_were_written():
    mark = Mark.of_record(41, 1_700_000_000_000, None, b"x")
    interval = Interval(0, 0, "id", {0: Range(0, 42)}, {}, [], 42, 0, {0: mark})
    assert decode(Interval, encode(interval), "manifest").marks == {0: mark}


def test_no_key_and_an_empty_one_have_different_marks():
    marks = {
        Mark.of_record(0, 0, key, value)
        for key in (None, b"", b"1:")
        for value in (None, b"", b"1:")
    }
    assert len(marks) == 9
