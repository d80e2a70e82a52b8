"""The Java installation for Spark, Ivy and the embedded broker."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from trilayer_core.errors import EnvironmentFault

OLDEST_JAVA = 17

OPTIONS = (
    "-Duser.language=en", "-Duser.language.format=en", "-Duser.language.display=en",
    "-Duser.country=", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8",
)  # fmt: skip
"""Language, zone and encoding of every JVM that trilayer starts.

Java takes them from the user's environment otherwise, and they change results: in Turkish, the
lower case of `I` is not `i`, by which Kafka and Spark compare names. On the command line they
take precedence over JAVA_TOOL_OPTIONS.
"""


@cache
def java_executable() -> Path:
    """The `java` of JAVA_HOME, else the one on the PATH.

    It is searched for, and asked for its version, once per process.

    Raises:
        EnvironmentFault: There is none, or it is older than 17. The message has the command that
            installs one.
    """
    home = os.environ.get("JAVA_HOME")
    executable = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if executable is None:
        place = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH"
        raise EnvironmentFault(
            f"Java must be {OLDEST_JAVA} or newer; got none ({place}); {_how_to_install()}"
        )
    answer = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False)
    version = java_version(answer.stderr)
    if version is None or version < OLDEST_JAVA:
        got = (
            version
            if version is not None
            else f"no version from {executable} -version: {answer.stderr.strip()!r}"
        )
        raise EnvironmentFault(
            f"Java must be {OLDEST_JAVA} or newer; got {got} ({executable}); {_how_to_install()}"
        )
    return Path(executable)


def environment() -> dict[str, str]:
    """Returns the environment variables of a process that starts a JVM with `OPTIONS`.

    Java decodes its arguments and file names by the locale. `_JAVA_OPTIONS` takes precedence over
    the command line, and Spark starts a JVM that only assembles the command of the next.
    """
    options, others = " ".join(OPTIONS), os.environ.get("_JAVA_OPTIONS", "")
    variables = {"LC_ALL": "C.UTF-8", "SPARK_LAUNCHER_OPTS": options}
    if others:
        variables["_JAVA_OPTIONS"] = f"{others.removesuffix(options).rstrip()} {options}"
    return variables


def check_path(path: Path) -> None:
    """Checks that a JVM, Spark and Hadoop can open files below a folder.

    Raises:
        EnvironmentFault: Its path has a character that one of them interprets.
    """
    # Class paths are separated by colons and decoded as modified UTF-8; Spark separates jars by
    # commas; Hadoop reads the others as patterns.
    bad = re.search(r"[:,*?\[\]{}\\\n]|[^\0-\uffff]", str(path))
    if bad:
        raise EnvironmentFault(
            "the path of a folder that Java reads may have letters of any script, spaces and"
            r" quotes, but none of : , * ? [ ] { } \ and no character beyond U+FFFF, such as"
            f" emoji; got {str(path)!r} with {bad[0]!r}; rename or move the folder"
        )


def java_version(banner: str) -> int | None:
    """The major version in the output of `java -version`.

    It is 17 for "17.0.15" and 8 for "1.8.0_402".
    """
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(match.group(1)) if match else None


def _how_to_install() -> str:
    if sys.platform == "darwin":
        return (
            "install it with: brew install openjdk@17, and set JAVA_HOME to what `brew --prefix"
            " openjdk@17` prints"
        )
    return "install it with: sudo apt-get install openjdk-17-jre-headless"
