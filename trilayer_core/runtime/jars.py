"""Jars, downloaded according to a lock file and checked against its digests.

A jar is put in place only after its SHA-256 has been checked, so it is either complete or missing.
If two processes download at the same time, both end up with the same files. Ivy, which is part of
pyspark, does the downloading.
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
from trilayer_core.runtime import java
from trilayer_core.runtime.file_lock import exclusive
from trilayer_core.runtime.progress import shown

_LOCKS = Path(__file__).parent / "locks"
KAFKA_BROKER = _LOCKS / "kafka-broker.lock"
SPARK_KAFKA = _LOCKS / "spark-kafka.lock"

AGAIN = "delete the file and run again to fetch it"

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
        """The name of its file."""
        return f"{self.artifact}-{self.version}.jar"


def read_lock(lock: Path) -> list[Jar]:
    """The jars in a lock file, in its order.

    A line is `sha256  group:artifact:version`, or starts with #.

    Raises:
        SettingsError: A line has another form, or two jars have the same file name. The message has
            the file and the line number.
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
    """The paths of a lock file's jars below `into`, for a class path.

    `into` may contain other jars from an older lock file.
    """
    return [into / jar.file_name for jar in read_lock(lock)]


def missing(lock: Path, into: Path) -> list[Jar]:
    """The jars of a lock file that are missing in `into`. Nothing is downloaded.

    Raises:
        IntegrityError: A jar has another digest than the lock file.
    """
    absent = []
    for jar in read_lock(lock):
        try:
            _verify(into / jar.file_name, jar, AGAIN)
        except FileNotFoundError:
            absent.append(jar)
    return absent


def fetch(lock: Path, into: Path, *, echo: Callable[[str], None]) -> list[Path]:
    """Downloads the jars of a lock file that are missing in `into`.

    A JVM is started only if one is missing. After an interruption the next call continues where
    this one stopped.

    Args:
        lock: The lock file.
        into: The folder of the jars.
        echo: Receives what is about to be downloaded, and the progress unless a terminal shows it.

    Returns:
        The paths of the jars, in the lock file's order.

    Raises:
        IntegrityError: A jar has another digest than the lock file.
        EnvironmentFault: A jar can't be downloaded.
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
    """Downloads jars in one run of Ivy.

    Ivy's cache is kept if the run fails, so that the next run only downloads the rest.
    """
    cache, scratch = into / ".ivy", into / ".fetching"
    shutil.rmtree(scratch, ignore_errors=True)  # left by a killed run
    scratch.mkdir()
    _run_ivy(missing, scratch, cache, reached)
    try:
        for jar in missing:
            _verify(
                scratch / jar.file_name,
                jar,
                "it was not put in place; run again, and if the digest is the same, compare the"
                f" lock's line for {jar.artifact} with the digest that its project publishes",
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
        str(java.java_executable()),
        *java.OPTIONS,
        "-jar",
        str(_ivy_jar()),
        "-settings",
        str(settings),
        "-ivy",
        str(module),
        "-confs",
        "default",
        "-retrieve",
        "[artifact]-[revision].[ext]",  # in the working directory, since this is a pattern
    ]
    last_lines: deque[str] = deque(maxlen=40)
    with subprocess.Popen(
        command, cwd=into, env=os.environ | java.environment(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as ivy:  # fmt: skip
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
            ivy.kill()  # otherwise leaving the block would wait for all downloads
            raise
    absent = [jar for jar in jars if not (into / jar.file_name).exists()]
    if ivy.returncode != 0 or absent:
        names = ", ".join(f"{jar.group}:{jar.artifact}:{jar.version}" for jar in absent) or "none"
        raise EnvironmentFault(
            f"Ivy must fetch {len(jars)} jars; {len(absent)} are missing ({names}), exit status"
            f" {ivy.returncode}; check the network and run again; finished downloads are kept."
            f" Ivy's last lines:\n{''.join(last_lines)}"
        )


def _settings_xml(cache: Path) -> bytes:
    """Ivy settings that use Maven Central and nothing from the user's own settings.

    POMs and checksums are not downloaded, because the lock file replaces both.
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


def pyspark_jars() -> Path:
    """The folder of the jars that come with pyspark.

    Raises:
        EnvironmentFault: pyspark is not installed.
    """
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise EnvironmentFault(
            "pyspark must be installed, because it contains Ivy; got none; run: make .venv"
        )
    return Path(pyspark.origin).parent / "jars"


def _ivy_jar() -> Path:
    archives = sorted(pyspark_jars().glob("ivy-*.jar"))
    if not archives:
        raise EnvironmentFault(
            f"pyspark must contain jars/ivy-*.jar; got none in {pyspark_jars()}; reinstall pyspark"
        )
    return archives[-1]
