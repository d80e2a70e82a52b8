"""A server by HTTP on a store that the product's own functions have written."""

import pytest

from tests.support.served_http import ScriptedEngine, counts, opened


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server with two publications; tests of a file share it, and change nothing."""
    made = opened(tmp_path_factory.mktemp("site"))
    made.written.publish(counts(ann=1, bob=2), 3, 60_000)
    made.written.publish(counts(ann=2, bob=2), 1, 120_000)
    made.written.begin(1)
    made.written.commit(counts(bob=1, cy=1), 2, 180_000)
    with made.connection, made.served:
        yield made


@pytest.fixture
def own(tmp_path):
    """A server with one publication, which a test may change."""
    made = opened(tmp_path)
    made.written.publish(counts(ann=1, bob=2), 3, 60_000)
    made.written.begin(1)
    with made.connection, made.served:
        yield made


@pytest.fixture
def serving(tmp_path):
    """Serves an engine whose answers the test writes."""
    running = []

    def serve(access=None, limits=None, **answers):
        engine = ScriptedEngine(**answers)
        served = opened(tmp_path, access, limits, engine).served
        running.append(served)
        return served.__enter__()

    yield serve
    for served in running:
        served.__exit__(None, None, None)
