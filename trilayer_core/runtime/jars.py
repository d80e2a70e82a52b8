"""Jars by lock file.

The exact artifacts that a lock names, fetched once, each with the digest that the lock states.

A jar stands in its place only after its SHA-256 was checked, whole or not at all; two processes
that fetch at once end with the same files. Fetching is done by Ivy, which comes with pyspark.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as xml

from trilayer_core.errors import EnvironmentFault, IntegrityError, SettingsError
from trilayer_core.runtime.file_lock import exclusive
from trilayer_core.runtime.java import java_executable
from trilayer_core.runtime.progress import shown

_LOCKS = Path(__file__).parent / "locks"
KAFKA_BROKER = _LOCKS / "kafka-broker.lock"
SPARK_KAFKA = _LOCKS / "spark-kafka.lock"

AGAIN = "delete the file and run again to fetch it anew"

_LINE = re.compile(
    r"(?P<sha256>[0-9a-f]{64})  (?P<group>[\w.-]+):(?P<artifact>[\w.-]+):(?P<version>[\w.-]+)"
)


@dataclass(frozen=True)
class Jar:
    """One line of a lock file."""

    sha256: str
    group: str
    artifact: str
    version: str

    @property
    def file_name(self) -> str:
        """What its file is called."""
        return f"{self.artifact}-{self.version}.jar"


def read_lock(lock: Path) -> list[Jar]:
    """The jars that `lock` names, in its order.

    A line is `sha256  group:artifact:version`, or starts with #.

    Raises SettingsError, with file and line number, on any other line and on two jars of one file
    name.
    """
    jars: dict[str, Jar] = {}
    for number, line in enumerate(lock.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise SettingsError(
                f"{lock}:{number} must be `sha256  group:artifact:version`; got {line!r}; correct"
                " the line"
            )
        jar = Jar(**match.groupdict())
        if jar.file_name in jars:
            raise SettingsError(
                f"{lock}:{number} must name a new jar; got {jar.file_name} again; delete one line"
            )
        jars[jar.file_name] = jar
    return list(jars.values())


def paths(lock: Path, into: Path) -> list[Path]:
    """Where the jars of `lock` stand below `into`, for a class path.

    `into` may hold others, left by an older lock.
    """
    return [into / jar.file_name for jar in read_lock(lock)]


def missing(lock: Path, into: Path) -> list[Jar]:
    """The jars of `lock` that are not in `into` yet. Nothing is fetched.

    Raises:
        IntegrityError: A jar that is there is not the one locked.
    """
    absent = []
    for jar in read_lock(lock):
        try:
            _verify(into / jar.file_name, jar, AGAIN)
        except FileNotFoundError:
            absent.append(jar)
    return absent


def fetch(lock: Path, into: Path, *, echo: Callable[[str], None]) -> list[Path]:
    """Make sure that every jar of `lock` is in `into`, and return their paths in the lock's order.

    Starts a JVM only when one is missing. `echo` is told what is about to be fetched, and how far
    that has come; on a terminal a live line says so. Interrupted, it goes on where it stopped.

    Raises IntegrityError when a jar, in place or fetched, is not the one locked, EnvironmentFault
    when one can't be had.
    """
    jars = read_lock(lock)
    with exclusive(into / ".lock"):
        missing = [jar for jar in jars if not (into / jar.file_name).exists()]
        for jar in jars:
            if jar not in missing:
                _verify(into / jar.file_name, jar, AGAIN)
        if missing:
            with shown(
                f"Fetching {len(missing)} of {len(jars)} jars into {into}", echo=echo
            ) as reached:
                _fetch_missing(missing, into, reached)
    return [into / jar.file_name for jar in jars]


def _verify(path: Path, jar: Jar, remedy: str) -> None:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != jar.sha256:
        raise IntegrityError(
            f"{path} must have sha256 {jar.sha256} (locked for"
            f" {jar.group}:{jar.artifact}:{jar.version}); got {digest} ({path.stat().st_size}"
            f" bytes); {remedy}"
        )


def _fetch_missing(missing: Sequence[Jar], into: Path, reached: Callable[[str], None]) -> None:
    """One Ivy run.

    Its cache outlives a run that failed on the way, so that the next one fetches only the rest.
    """
    cache, scratch = into / ".ivy", into / ".fetching"
    shutil.rmtree(scratch, ignore_errors=True)  # of a run that was killed
    scratch.mkdir()
    _run_ivy(missing, scratch, cache, reached)
    try:
        for jar in missing:
            _verify(
                scratch / jar.file_name,
                jar,
                "it was not put in place; run again, and if that ends the same, hold the lock's"
                f" line for {jar.artifact} against the digest that its project publishes",
            )
            os.replace(scratch / jar.file_name, into / jar.file_name)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)


def _run_ivy(jars: Sequence[Jar], into: Path, cache: Path, reached: Callable[[str], None]) -> None:
    settings, module = into / "ivysettings.xml", into / "ivy.xml"
    settings.write_bytes(_settings_xml(cache))
    module.write_bytes(_module_xml(jars))
    command = [
        str(java_executable()),
        "-jar",
        str(_ivy_jar()),
        "-settings",
        str(settings),
        "-ivy",
        str(module),
        "-confs",
        "default",
        "-retrieve",
        f"{into}/[artifact]-[revision].[ext]",
    ]
    last_lines: deque[str] = deque(maxlen=40)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy:
        fetched = 0
        assert ivy.stdout is not None
        try:
            for line in ivy.stdout:
                if "[SUCCESSFUL" in line:
                    fetched += 1
                    reached(f"{fetched} of {len(jars)}")
                if line.strip(". \n") and not re.fullmatch(r"\.* \(\d+kB\)\n", line):
                    last_lines.append(line)
        except BaseException:
            ivy.kill()  # else leaving the block waits until all is fetched
            raise
    absent = [jar for jar in jars if not (into / jar.file_name).exists()]
    if ivy.returncode != 0 or absent:
        names = ", ".join(f"{jar.group}:{jar.artifact}:{jar.version}" for jar in absent) or "none"
        raise EnvironmentFault(
            f"Ivy must fetch {len(jars)} jars; {len(absent)} are missing ({names}), exit status"
            f" {ivy.returncode}; check the network and run again, what did arrive is kept. Ivy's"
            f" last lines:\n{''.join(last_lines)}"
        )


def _settings_xml(cache: Path) -> bytes:
    """Ivy settings: Maven Central and nothing of the user's own.

    No POMs and no checksums, since the lock has both.
    """
    root = xml.Element("ivysettings")
    xml.SubElement(root, "settings", defaultResolver="central")
    xml.SubElement(root, "caches", defaultCacheDir=str(cache))
    central = {"name": "central", "m2compatible": "true", "usepoms": "false"}
    xml.SubElement(
        xml.SubElement(root, "resolvers"),
        "ibiblio",
        central,
        useMavenMetadata="false",
        checksums="",
    )
    return xml.tostring(root)


def _module_xml(jars: Sequence[Jar]) -> bytes:
    root = xml.Element("ivy-module", version="2.0")
    xml.SubElement(root, "info", organisation="trilayer", module="jars")
    dependencies = xml.SubElement(root, "dependencies")
    for jar in jars:
        wanted = {"org": jar.group, "name": jar.artifact, "rev": jar.version, "transitive": "false"}
        dependency = xml.SubElement(dependencies, "dependency", wanted)
        xml.SubElement(dependency, "artifact", name=jar.artifact, type="jar", ext="jar")
    return xml.tostring(root)


def _ivy_jar() -> Path:
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise EnvironmentFault(
            "pyspark must be installed, for Ivy is in it; got none; run: make .venv"
        )
    found = sorted((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise EnvironmentFault(
            f"pyspark must bring jars/ivy-*.jar; got none in {pyspark.origin}; reinstall pyspark"
        )
    return found[-1]
