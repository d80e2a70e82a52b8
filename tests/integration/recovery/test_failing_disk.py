"""A disk that fails beneath the speed layer: what it says, and that nothing is lost."""

import pytest

from tests.support.in_process import ProjectInProcess
from tests.support.layers import Pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def test_a_write_that_fails_ends_the_speed_layer_with_the_name_of_the_file(
    tmp_path, broker, new_topic, spark
):
    project = ProjectInProcess(tmp_path, broker.bootstrap, new_topic(), spark)
    project.produce(100)
    # The first micro-batch has more writes than that.
    _, err = project.run("speed", "run", failpoint="store.write:error:5", expect=1)
    (line,) = [line for line in err.splitlines() if "error: " in line]
    assert "its query ended: " in line, err
    assert "(failpoint store.write)" in line, err
    assert "speed/clicks/" in line, err
    with Pipeline(project.catalog(), project.settings(), project.store, spark) as pipeline:
        pipeline.catch_up()
        project.check_answers()
