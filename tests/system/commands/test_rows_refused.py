"""Both layers say in a line what a `Rows` function does wrong, on a Spark server too."""

import json
import re

import pytest

from tests.support.project import Project, wait_for_settled_tick


@pytest.mark.kafka
@pytest.mark.slow
def test_both_layers_end_with_the_line(tmp_path, broker, new_topic, spark_connect):
    project = Project(
        tmp_path, broker.bootstrap, new_topic(), spark_remote=spark_connect, partitions=1
    )
    project.produce(3)
    text = (project.folder / f"{project.module}.py").read_text()

    def declare(function):
        lines = (
            f'Rows("lines", source=clicks, rows=lambda e: {function}, schema="user string, n'
            ' bigint")'
        )
        added = f'View("lined", source={lines}, key=["user"], aggregates={{"n": count()}})'
        imports = text.replace("import ", "import Rows, ", 1)
        project.write_catalog(imports.replace("views=[by_user,", f"views=[by_user, {added},"))

    wait_for_settled_tick(project)
    declare("e")
    written = (project.folder / f"{project.module}.py").read_text().splitlines()
    line = 1 + next(number for number, line in enumerate(written) if "Rows(" in line)
    for function, says, commands in (
        (
            'e.withColumnRenamed("user", "usr")',
            "must return the column 'user', which its schema declares; it returns usr,",
            ["batch", "speed"],
        ),
        (
            'e.select("usr")',
            f"the function fails at {project.folder / project.module}.py:{line}: there is no column"
            " 'usr'; did you mean 'user'?",
            ["batch"],
        ),
        (
            'e.selectExpr("user", "1 AS n")',
            "must return 'n' as bigint, as its schema declares; it returns int;",
            ["batch"],
        ),
    ):
        declare(function)
        for command in commands:
            _, err = project.run(command, "run", expect=2)
            assert says in err.replace("\n", "")
            assert "rows of 'lines'" in err
            assert "Traceback" not in err


@pytest.mark.spark
@pytest.mark.slow
def test_a_changed_function_is_tried_before_the_speed_layer_is_replaced(tmp_path, spark_connect):
    """`up` ended a speed layer that worked for one that could not start."""
    project = Project(tmp_path, "127.0.0.1:1", "clicks", spark_remote=spark_connect)
    text = (tmp_path / f"{project.module}.py").read_text()
    added = (
        'View("lined", source=Rows("lines", source=clicks, rows=lambda e: e.select("usr"),'
        ' schema="user string"), key=["user"], aggregates={"n": count()})'
    )
    text = text.replace("import ", "import Rows, ", 1)
    project.write_catalog(text.replace("views=[by_user,", f"views=[by_user, {added},"))
    _, said = project.run("speed", "definitions", expect=2)
    says = r"rows of 'lines': the function fails at \S+\.py:\d+: there is no column 'usr'; .*'user'"
    assert re.search(says, said.replace("\n", ""))
    (lines,) = project.catalog().rows
    former = json.dumps({"lines": lines.fingerprint})
    said, _ = project.run("speed", "definitions", "--former", former)
    assert json.loads(said)["rows"] == {"lines": lines.fingerprint}
