"""Disks that fail beneath real processes: what they say, and that nothing is lost."""

import pytest

from tests.support.project import Project, ended_with
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def project(tmp_path, broker, new_topic):
    project = Project(tmp_path, broker.bootstrap, new_topic())
    yield project
    project.end()


def test_a_write_that_fails_ends_the_speed_layer_with_the_name_of_the_file(project):
    project.produce(100)
    process = project.start("speed", "run", failpoint="store.write:error:5")
    # The first micro-batch has more writes than that.
    code, err = ended_with(process, timeout_s=300)
    assert code == 1, err
    (line,) = [line for line in err.splitlines() if "error: " in line]
    assert "its query ended: " in line, err
    assert "(failpoint store.write)" in line, err
    assert "speed/clicks/" in line, err
    process = project.start("speed", "run")
    until(project.has_all, timeout_s=300)
    project.check_answers()
    process.terminate()
    assert ended_with(process)[0] == 0
