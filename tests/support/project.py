"""A project of its own in a folder, and its commands as real processes: what can be killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

import serving_layer
from tests.support.jvm import QUICK_JVM
from tests.support.places import JARS, PROJECT
from tests.support.waiting import until
from trilayer.command_lines import trilayer_command
from trilayer_core.definitions.catalog import Catalog, load_catalog
from trilayer_core.log.broker import Log
from trilayer_core.runtime.session import JAVA_OPTIONS
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

CATALOG = """
from trilayer import Catalog, Query, Stream, View, count, latest, mean, sliding, sum_, tumbling

clicks = Stream(
    "clicks", schema="user string, amount bigint, at timestamp", event_time="at", topic="TOPIC",
    partitions=PARTITIONS,
)
by_user = View(
    "by_user", source=clicks, key=["user"],
    aggregates={
        "n": count(), "total": sum_("amount"), "mean_amount": mean("amount"),
        "last": latest("amount", by="at"),
    },
)
by_minute = View(
    "by_minute", source=clicks, key={"minute": tumbling("at", "1 minute")},
    aggregates={"n": count()},
)
hourly = View(
    "hourly", source=clicks, key={"hour": sliding("at", "1 hour", "15 minutes")},
    aggregates={"n": count(where="amount > 5")},
)
catalog = Catalog(
    views=[by_user, by_minute, hourly],
    queries=[Query("top", "select * from by_user order by n desc limit 3")],
)
"""


class Project:
    """`trilayer.toml` and a catalog module in `folder`.

    Commands run there, as a user would run them.
    """

    def __init__(
        self,
        folder: Path,
        bootstrap_servers: str,
        topic: str,
        *,
        spark_remote: str = "",
        partitions: int = 2,
        **settings: Any,
    ) -> None:
        self.folder, self.topic = folder, topic
        folder.mkdir(parents=True, exist_ok=True)
        self.module = f"catalog_{topic.replace('-', '_')}"
        self.write_catalog(CATALOG.replace("TOPIC", topic).replace("PARTITIONS", str(partitions)))
        values = {
            "catalog": f"{self.module}:catalog",
            "store": str(folder / "store"),
            "jars": str(JARS),
            "bootstrap_servers": bootstrap_servers,
            "spark_remote": spark_remote,
            "tick_s": 1,
            "settle_s": 0.2,
            "batch.memory_mb": 512,
            "speed.memory_mb": 512,
        } | settings
        lines = [
            f"{name} = {json.dumps(value)}" for name, value in values.items() if value is not None
        ]
        lines += ["[spark_conf]", f'"{JAVA_OPTIONS}" = "{QUICK_JVM}"']
        (folder / "trilayer.toml").write_text("\n".join(lines) + "\n")
        self.sent = 0
        self.broken = 0
        self._started: list[subprocess.Popen[str]] = []

    def write_catalog(self, text: str) -> None:
        (self.folder / f"{self.module}.py").write_text(text)

    def set(self, name: str, value: Any) -> None:
        """Changes a setting in `trilayer.toml`."""
        file = self.folder / "trilayer.toml"
        file.write_text(
            re.sub(rf"(?m)^{name} = .*$", f"{name} = {json.dumps(value)}", file.read_text())
        )

    @property
    def store(self) -> Store:
        return Store(str(self.folder / "store"))

    def catalog(self) -> Catalog:
        sys.path.insert(0, str(self.folder))
        try:
            sys.modules.pop(self.module, None)
            return load_catalog(f"{self.module}:catalog")
        finally:
            sys.path.remove(str(self.folder))

    def settings(self) -> Settings:
        import tomllib

        return Settings(**tomllib.loads((self.folder / "trilayer.toml").read_text()))

    # -- commands ----------------------------------------------------------------------------------

    def start(self, *arguments: str, failpoint: str = "") -> subprocess.Popen[str]:
        """A command under way."""
        environment = (
            os.environ
            | {"PYTHONPATH": str(PROJECT)}
            | ({"TRILAYER_FAILPOINT": failpoint} if failpoint else {})
        )
        command = trilayer_command(*arguments)
        self._started.append(
            subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
            )
        )
        return self._started[-1]

    def end(self) -> None:
        """Ends what a test that failed has left running."""
        for process in self._started:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=60)

    def run(
        self, *arguments: str, failpoint: str = "", expect: int = 0, timeout_s: float = 540
    ) -> tuple[str, str]:
        """(stdout, stderr) of a command that must end with the exit code `expect`."""
        process = self.start(*arguments, failpoint=failpoint)
        out, err = process.communicate(timeout=timeout_s)
        assert process.returncode == expect, (
            f"trilayer {' '.join(arguments)} ended with {process.returncode}, not"
            f" {expect}:\n{out}\n{err}"
        )
        return out, err

    def killed(self, failpoint: str, *arguments: str) -> None:
        """Runs a command that must be killed at the failpoint."""
        self.run(*arguments, failpoint=failpoint, expect=-signal.SIGKILL)

    # -- events and answers ------------------------------------------------------------------------

    def produce(self, count: int, *, broken: int = 0, to: str = "") -> None:
        """Appends events whose totals are known: event i has user i % 7 and amount i % 11; and some
        that are no JSON. `to` is the broker, if the settings name none.
        """
        servers = to or self.settings().bootstrap_servers
        with Log(servers) as log:
            log.ensure(self.catalog().streams[0])
        producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5)
        for number in range(self.sent, self.sent + count):
            producer.send(self.topic, event(number))
        for number in range(broken):
            producer.send(self.topic, b"{broken %d" % number)
        producer.flush()
        producer.close()
        self.sent += count
        self.broken += broken

    def answers(self) -> dict[str, list[dict[str, Any]]]:
        """View to its merged rows, on one snapshot."""
        catalog = self.catalog()
        with (
            serving_layer.connect(catalog, self.settings(), self.store) as connection,
            connection.snapshot() as snapshot,
        ):
            return {
                view.name: snapshot.sql(f"from {view.name} order by all").dicts()
                for view in catalog.views
            }

    def expected_by_user(self) -> list[dict[str, Any]]:
        """What `by_user` must say of everything sent, worked out here."""
        rows: dict[str, list[int]] = {}
        for number in range(self.sent):
            rows.setdefault(f"u{number % 7}", []).append(number)
        return [
            {"user": user, "n": len(numbers), "total": sum(n % 11 for n in numbers),
             "mean_amount": sum(n % 11 for n in numbers) / len(numbers), "last": numbers[-1] % 11}
            for user, numbers in sorted(rows.items())
        ]  # fmt: skip

    def check_answers(self) -> None:
        """Every event sent is in the merged view, once."""
        assert self.answers()["by_user"] == self.expected_by_user()

    def has_all(self) -> bool:
        """Whether the merged view has counted as many events as were sent."""
        with self._connection() as connection:
            return self._counted_all(connection)

    def wait_for_all(self, *, timeout_s: float = 240) -> None:
        """Returns when the merged view has counted as many events as were sent.

        It is asked on one connection: to open one takes a third of a second of the processor.
        """
        with self._connection() as connection:
            until(lambda: self._counted_all(connection), timeout_s=timeout_s)

    def _connection(self) -> serving_layer.Connection:
        return serving_layer.connect(self.catalog(), self.settings(), self.store)

    def _counted_all(self, connection: serving_layer.Connection) -> bool:
        (row,) = connection.sql("select coalesce(sum(n), 0) as n from by_user").dicts()
        return bool(row["n"] >= self.sent)


def event(number: int) -> bytes:
    """Event `number`: its time grows with it, so that the latest is the last."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    event = {"user": f"u{number % 7}", "amount": number % 11, "at": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
    return json.dumps(event).encode()


def wait_for_settled_tick(project: Project) -> None:
    """Returns when the newest settled tick is one that began after this call: a cut there has all
    that was sent before.
    """
    from trilayer_core.runtime.clock import now_ms
    from trilayer_core.seam import latest_tick

    settings, moment = project.settings(), now_ms()
    until(lambda: latest_tick(now_ms(), settings.tick_ms, settings.settle_ms) > moment)


def kill_group(process: subprocess.Popen[str]) -> None:
    """kill -9, and the end of it."""
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=20)


def ended(process: subprocess.Popen[str], timeout_s: float = 180) -> int:
    """Exit code of a process that ends by itself."""
    deadline = time.monotonic() + timeout_s
    out, err = process.communicate(timeout=timeout_s)
    assert time.monotonic() <= deadline, (out, err)
    return process.returncode


def ended_with(process: subprocess.Popen[str], timeout_s: float = 360) -> tuple[int, str]:
    """Exit code of a process that ends by itself, and what it said on stderr."""
    _, err = process.communicate(timeout=timeout_s)
    return process.returncode, err


def clean(out: str) -> bool:
    """Whether `verify --json` said that all is well."""
    return bool(json.loads(out)["clean"])


def places(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [f"{row['partition']}:{row['offset']}" for row in rows]
