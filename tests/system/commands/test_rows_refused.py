"""Both layers report in a line what a `Rows` function does wrong, on a Spark server too."""

import json
import re

import pytest

from tests.support.project import Project, wait_for_settled_tick

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_both_layers_end_with_the_line(tmp_path, broker, new_topic, spark_connect):
    project = Project(
        tmp_path, broker.bootstrap, new_topic(), spark_remote=spark_connect, partitions=1
    )
    project.produce(3)
    text = (project.folder / f"{project.module}.py").read_text()

    def declare(function, *commands):
        """What the commands report about the function."""
        rows = (
            f'Rows("lines", source=clicks, rows=lambda e: {function}, schema="user string, n'
            ' bigint")'
        )
        added = f'View("lined", source={rows}, key=["user"], aggregates={{"n": count()}})'
        imports = text.replace("import ", "import Rows, ", 1)
        project.write_catalog(imports.replace("views=[by_user,", f"views=[by_user, {added},"))
        for command in commands:
            _, err = project.run(*command, expect=2)
            assert "rows of 'lines'" in err
            assert "Traceback" not in err
            yield err.replace("\n", "")

    wait_for_settled_tick(project)
    batch, speed, tried = ("batch", "run"), ("speed", "run"), ("speed", "definitions")
    says = "must return the column 'user', which its schema declares; it returns usr,"
    for err in declare('e.withColumnRenamed("user", "usr")', batch, speed):
        assert says in err
    written = (project.folder / f"{project.module}.py").read_text().splitlines()
    line = 1 + next(number for number, line in enumerate(written) if "Rows(" in line)
    says = rf"the function fails at \S+\.py:{line}: there is no column 'usr'; .*'user'"
    # `up` tries a changed function like this before it replaces a speed layer that works.
    for err in declare('e.select("usr")', batch, tried):
        assert re.search(says, err)
    (lines,) = project.catalog().rows
    former = json.dumps({"lines": lines.fingerprint})
    found, _ = project.run(*tried, "--former", former)
    assert json.loads(found)["rows"] == {"lines": lines.fingerprint}
