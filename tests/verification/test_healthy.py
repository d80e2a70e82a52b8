"""What `verify` must not say: that something is wrong where nothing is."""

import pytest

from tests.verification.healthy import build

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def healthy(broker, spark, new_topic, tmp_path_factory):
    from trilayer.store import Store

    return build(broker.bootstrap, new_topic(), Store(str(tmp_path_factory.mktemp("v") / "store")), spark)


def test_clean(healthy):
    import time
    from cli.verify import faults

    for _ in range(3):
        t = time.time()
        found = healthy.verification()
        print("TOOK", time.time() - t)
    print(
        found.streams,
        found.views,
        {k: {l: (c.match, c.keys) for l, c in v.items()} for k, v in found.layers.items()},
    )
    assert faults(found) == []
    assert found.clean
