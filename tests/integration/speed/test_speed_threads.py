"""No thread beside the speed layer's queries ends unseen."""

import logging
import threading
from types import SimpleNamespace

import pyarrow as pa
import pytest

from speed_layer import run
from speed_layer.run import Compactor
from tests.support.waiting import until
from trilayer import Catalog, Stream, View, count
from trilayer_core.errors import IntegrityError, TrilayerError
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.generations import Generations
from trilayer_core.store.segments import Generation

STREAM = Stream("sales", "user string, at timestamp", event_time="at")
CATALOG = Catalog(views=[View("by_user", source=STREAM, key=["user"], aggregates={"n": count()})])


@pytest.fixture
def stop():
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def compactor(store, stop):
    query = SimpleNamespace(stream=STREAM, generation=SimpleNamespace(name="000001-000000"))
    return Compactor(query, Project(Settings(tick_s=1), CATALOG, store), stop)


@pytest.mark.parametrize(
    "error", [pa.ArrowInvalid("no Parquet"), ValueError("wrong"), MemoryError()]
)
def test_what_ends_compaction_is_raised_where_the_process_waits(error, compactor, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(run, "compact", fail)
    compactor.check()
    compactor.start()
    compactor.join(timeout=20)
    with pytest.raises(
        TrilayerError, match=f"'sales': its compaction ended: {type(error).__name__}"
    ) as raised:
        compactor.check()
    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [IntegrityError("it is missing"), OSError(28, "No space left on device")]
)
def test_what_may_pass_is_tried_again_and_shown_meanwhile(
    error, compactor, store, monkeypatch, stop, caplog
):
    tries = []

    def fail(*_):
        tries.append(1)
        if len(tries) < 3:
            raise error

    name = compactor._query.generation.name
    generation = Generation(name, "id", "", {}, {}, 0, 1000, False)
    store.write_document(f"speed/sales/{name}/generation.json", generation)
    monkeypatch.setattr(run, "compact", fail)
    with caplog.at_level(logging.WARNING, "trilayer.speed"):
        compactor.start()
        until(lambda: Generations(store, STREAM).compaction_fault() is not None)
        assert Generations(store, STREAM).compaction_fault().reason == str(error)
        until(lambda: len(tries) > 3)
    assert Generations(store, STREAM).compaction_fault() is None
    compactor.check()
    stop.set()
    compactor.join(timeout=20)
    assert not compactor.is_alive()
    assert "not compacted this time" in caplog.text


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
def test_the_speed_layer_ends_with_the_reason(broker, spark, new_topic, store, stop, monkeypatch):
    """Spark's session is the test run's: only what `run_speed` does with a compaction that fails is
    of interest.
    """

    def fail(*_):
        raise pa.ArrowInvalid("a segment that can't be read")

    stream = Stream("sales", "user string, at timestamp", event_time="at", topic=new_topic())
    catalog = Catalog(
        views=[View("by_user", source=stream, key=["user"], aggregates={"n": count()})]
    )
    monkeypatch.setattr(run, "compact", fail)
    monkeypatch.setattr(
        run, "session", lambda *_, **__: SimpleNamespace(stop=lambda: None, **_of(spark))
    )
    settings = Settings(bootstrap_servers=broker.bootstrap, tick_s=1, settle_s=0.1)
    with pytest.raises(
        TrilayerError, match="its compaction ended: ArrowInvalid: a segment that can't be read"
    ):
        run.run_speed(Project(settings, catalog, store), stop)


def _of(spark):
    return {"readStream": spark.readStream, "sparkContext": spark.sparkContext, "sql": spark.sql}
