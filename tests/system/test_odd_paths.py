"""The whole loop below a path with all kinds of characters, on a Turkish machine far from UTC."""

import json
import os
import re
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.jvm import QUICK_JVM
from tests.support.places import JARS, PROJECT
from tests.support.waiting import until
from trilayer_core.errors import EnvironmentFault
from trilayer_core.runtime import jars, java
from trilayer_core.runtime.session import JAVA_OPTIONS

ODD = unicodedata.normalize("NFC", "José ") + unicodedata.normalize(
    "NFD", """'ü' "İı" #1 100%41 $HOME & 日本 Ж;+=~`"""
)
"""A name with composed and decomposed letters of several scripts, and what shells, URIs, ini files
and lists interpret.
"""

TURKISH = {
    "JAVA_TOOL_OPTIONS": (
        "-Duser.language=tr -Duser.country=TR -Dfile.encoding=ISO-8859-9 -Duser.timezone=Asia/Tokyo"
    ),
    "LC_ALL": "tr_TR.UTF-8",
    "TZ": "America/St_Johns",
}

CATALOG = """
from trilayer import Catalog, Stream, View, count

s = Stream("s", schema="k string, at timestamp", event_time="at", partitions=2)
catalog = Catalog(
    views=[View("v", source=s, key={"upper": "upper(k)", "day": "to_date(at)"},
                aggregates={"n": count()})],
)
"""

SETTINGS = f"""
catalog = "shop:catalog"
jars = "jars"
class_archive = false
tick_s = 1
serve.port = 0
serve.http_port = 0
[spark_conf]
"{JAVA_OPTIONS}" = "{QUICK_JVM}"
"""


@pytest.fixture
def folder(tmp_path, kafka_jars):
    """A project with its jars and its environment, hence pyspark, and nothing else, in its path."""
    folder = tmp_path / ODD
    folder.mkdir()
    (folder / "shop.py").write_text(CATALOG)
    (folder / "trilayer.toml").write_text(SETTINGS)
    (folder / "environment").symlink_to(sys.prefix)
    fetched = {
        "spark": jars.fetch(jars.SPARK_KAFKA, JARS / "spark", echo=lambda _: None),
        "kafka": jars.paths(jars.KAFKA_BROKER, kafka_jars),
    }
    for kind, paths in fetched.items():
        into = folder / "jars" / kind
        into.mkdir(parents=True)
        for jar in paths:
            os.link(jar, into / jar.name)
    return folder


class Shop:
    """Commands in the folder, with the Turkish environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | TURKISH | {"PYTHONPATH": str(PROJECT)}
        self.command = [
            str(folder / "environment" / "bin" / "python"), "-P", "-m", "trilayer.cli",
        ]  # fmt: skip

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self.command, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def counts(self) -> list[dict[str, object]]:
        return json.loads(self.run("sql", "select * from v order by all", "--format", "json"))

    @contextmanager
    def up(self) -> Iterator[None]:
        log = self.folder / "up.log"
        with (
            log.open("wb") as output,
            subprocess.Popen(
                [*self.command, "up", "--no-airflow"],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=output,
            ) as stack,
        ):
            try:
                until(
                    lambda: "Ctrl-C" in log.read_text() or stack.poll() is not None, timeout_s=120
                )
                assert stack.poll() is None, log.read_text()
                yield
            finally:
                stack.send_signal(signal.SIGINT)
            assert stack.wait(timeout=60) == 0, log.read_text()


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_the_loop_runs_below_any_path_in_a_turkish_environment(folder):
    """Capital letters are those of no language, in both layers, and days are those of UTC."""
    shop = Shop(folder)
    event = {"k": "ışi i\u0307", "at": "2026-01-01T23:59:59Z"}
    (folder / "events.jsonl").write_text(json.dumps(event) + "\n")
    expected = [{"upper": "IŞI I\u0307", "day": "2026-01-01", "n": 1}]
    with shop.up():
        shop.run("replay", "events.jsonl", "--stream", "s")
        until(lambda: shop.counts() == expected, timeout_s=60)
        shop.run("batch", "run")
        assert shop.counts() == expected
        assert json.loads(shop.run("verify", "--json"))["clean"]
        assert "fail" not in shop.run("doctor")
    assert {path.name for path in folder.parent.iterdir()} == {folder.name}
    # Python keeps what it has compiled of the catalog, unless the shell says otherwise.
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {
        "shop.py", "trilayer.toml", "environment", "jars", "events.jsonl", "up.log", ".trilayer",
    }  # fmt: skip


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"])
def test_a_jvm_takes_language_zone_and_encoding_from_us(variable, monkeypatch):
    monkeypatch.setenv("LC_ALL", "POSIX")
    monkeypatch.setenv(variable, TURKISH["JAVA_TOOL_OPTIONS"] + " -Duser.language.format=tr")
    for _ in range(2):  # a process that starts a JVM may have been started so itself
        for name, value in java.environment().items():
            monkeypatch.setenv(name, value)
    shown = subprocess.run(
        [java.java_executable(), *java.OPTIONS, "-XshowSettings:all", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    wanted = {
        "default locale": "English",
        "default format locale": "English",
        "user.timezone": "UTC",
        "file.encoding": "UTF-8",
        "sun.jnu.encoding": "UTF-8",
    }
    assert wanted == {name: re.search(rf"{name} = (.*)", shown)[1] for name in wanted}


def test_a_path_that_java_can_not_read_is_named(tmp_path):
    for name in ("a:b", "a,b", "{a}", "[a]", "a*", "a?", "a\\b", "🐧", "\U00020bb7"):
        with pytest.raises(EnvironmentFault, match="rename or move the folder"):
            java.check_path(tmp_path / name)
