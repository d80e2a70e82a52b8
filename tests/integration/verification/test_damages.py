"""A test of the test: `verify` finds every way in which a layer could get something wrong, and says
where.
"""

import pytest

from tests.support.verification.damages import DAMAGES, Damage
from tests.support.verification.healthy import build
from trilayer_core.errors import TrilayerError
from trilayer_core.store.files import Store

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def healthy(broker, spark, new_topic, tmp_path_factory):
    store = Store(str(tmp_path_factory.mktemp("damages") / "store"))
    return build(broker.bootstrap, new_topic(), store, spark)


def found_by_verify(healthy):
    """What it says, a line a fault. An error that names what is damaged is one."""
    try:
        found = healthy.verification()
    except TrilayerError as error:
        return [str(error)]
    faults = list(found.faults())
    assert found.clean == (not faults)
    return faults


def test_what_is_healthy_is_clean(healthy):
    assert found_by_verify(healthy) == []


@pytest.mark.parametrize("kind", DAMAGES)
def test_found_and_located(healthy, tmp_path, kind):
    copy = healthy.copy(tmp_path)
    expected = DAMAGES[kind](Damage(copy))
    said = found_by_verify(copy)
    assert any(all(text in line for text in expected) for line in said), (expected, said)


def test_there_are_at_least_forty_kinds():
    assert len(DAMAGES) >= 40
