"""The archive of the classes that Spark loads, which halves the start-up time of a session.

This is a feature of the JVM (JEP 350, dynamic class-data sharing). The JVM silently ignores an
archive that does not match it or the jars. `trilayer_local.class_archive` creates it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from shlex import quote

import pyspark

from trilayer_core.runtime.java import java_executable
from trilayer_core.runtime.settings import Settings

CONTENT = 1
"""Identifies what the archive is filled with: increase it with each change of that code."""


def archive(settings: Settings) -> Path:
    """Returns the path of the archive, whether it exists or not.

    Its name identifies this Java, this pyspark and what the archive is filled with.
    """
    fits = (
        f"{Path(java_executable()).resolve()} {pyspark.__version__}"
        f" {Path(pyspark.__file__).parent} {CONTENT}"
    )
    digest = hashlib.sha256(fits.encode()).hexdigest()[:12]
    return settings.jars.resolve() / "spark" / f"classes-{digest}.jsa"


def java_option(settings: Settings) -> str:
    """Returns the JVM option that uses the archive; empty if there is none or it is off."""
    path = archive(settings)
    if not settings.class_archive or not path.exists():
        return ""
    return f"{quote(f'-XX:SharedArchiveFile={path}')} -Xlog:cds*=off"
