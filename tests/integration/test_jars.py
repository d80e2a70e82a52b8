"""Only the jars that a lock names, with the digest that it states, get into place."""

import hashlib

import pytest

from trilayer_core.errors import EnvironmentFault, IntegrityError, SettingsError
from trilayer_core.runtime import jars, java

LINE = f"{'0' * 64}  org.apache.commons:commons-pool2:2.13.1"


@pytest.fixture
def no_ivy(monkeypatch):
    def fail(*_):
        raise AssertionError("Ivy must not run")

    monkeypatch.setattr(jars, "_run_ivy", fail)


@pytest.fixture
def lock(tmp_path):
    """A lock of two jars that no repository has."""
    lines = ["# two jars", ""]
    lines += [
        f"{hashlib.sha256(name.encode()).hexdigest()}  com.example:{name}:1.0"
        for name in ("one", "two")
    ]
    path = tmp_path / "two.lock"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def repository(monkeypatch):
    """Stands in for Ivy: gives each artifact the content that its name is, or what a test puts into
    it.
    """
    contents: dict[str, bytes] = {}
    runs: list[list[str]] = []

    def run(missing, into, cache, _):
        cache.mkdir(exist_ok=True)
        runs.append([jar.artifact for jar in missing])
        for jar in missing:
            (into / jar.file_name).write_bytes(contents.get(jar.artifact, jar.artifact.encode()))

    monkeypatch.setattr(jars, "_run_ivy", run)
    return contents, runs


def fetch(lock, into):
    said: list[str] = []
    return jars.fetch(lock, into, echo=said.append), said


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_the_locks_hold_what_the_design_names():
    broker, spark = jars.read_lock(jars.KAFKA_BROKER), jars.read_lock(jars.SPARK_KAFKA)
    assert len(broker) == 46
    assert "kafka_2.13-4.3.1.jar" in {jar.file_name for jar in broker}
    assert {f"{jar.artifact}:{jar.version}" for jar in spark} == {
        "spark-sql-kafka-0-10_2.13:4.2.0",
        "spark-token-provider-kafka-0-10_2.13:4.0.0",
        "kafka-clients:3.9.2",
        "commons-pool2:2.13.1",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"# first\n{LINE[1:]}", r"lock:2 must be `sha256  group:artifact:version`; got '0"),
        (LINE.replace("  ", " "), r"lock:1 must be"),
        (LINE.replace(":2.13.1", ""), r"lock:1 must be"),
        (LINE.replace("commons-pool2", "../pool"), r"lock:1 must be"),
        (f"{LINE}\n{LINE}", r"lock:2 must name a new jar; got commons-pool2-2.13.1.jar again"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(tmp_path, text, message):
    lock = tmp_path / "lock"
    lock.write_text(text)
    with pytest.raises(SettingsError, match=message):
        jars.read_lock(lock)


def test_fetch_puts_all_in_place_and_then_fetches_nothing(lock, repository, tmp_path):
    _, runs = repository
    paths, said = fetch(lock, tmp_path / "jars")
    assert [path.name for path in paths] == ["one-1.0.jar", "two-1.0.jar"]
    assert paths == jars.paths(lock, tmp_path / "jars")
    assert said == [f"Fetching 2 of 2 jars into {tmp_path / 'jars'}"]
    assert fetch(lock, tmp_path / "jars") == (paths, [])
    assert runs == [["one", "two"]]
    assert names(tmp_path / "jars") == ["one-1.0.jar", "two-1.0.jar"]


def test_only_what_is_missing_is_fetched(lock, repository, tmp_path):
    _, runs = repository
    (first, _), _ = fetch(lock, tmp_path / "jars")
    first.unlink()
    fetch(lock, tmp_path / "jars")
    assert runs == [["one", "two"], ["one"]]


def test_what_is_altered_on_the_way_does_not_get_into_place(lock, repository, tmp_path):
    contents, _ = repository
    contents["two"] = b"twoo"
    expected, got = hashlib.sha256(b"two").hexdigest(), hashlib.sha256(b"twoo").hexdigest()
    with pytest.raises(
        IntegrityError, match=rf"two-1.0.jar must have sha256 {expected} .*got {got} \(4 bytes\)"
    ):
        fetch(lock, tmp_path / "jars")
    assert names(tmp_path / "jars") == ["one-1.0.jar"]
    del contents["two"]
    fetch(lock, tmp_path / "jars")
    assert names(tmp_path / "jars") == ["one-1.0.jar", "two-1.0.jar"]


@pytest.mark.parametrize("damage", [b"", b"tw", b"twp"])
def test_what_is_damaged_in_place_is_an_error_that_says_what_to_do(lock, no_ivy, tmp_path, damage):
    into = tmp_path / "jars"
    into.mkdir()
    (into / "one-1.0.jar").write_bytes(b"one")
    (into / "two-1.0.jar").write_bytes(damage)
    with pytest.raises(
        IntegrityError, match=rf"two-1.0.jar must have .*\({len(damage)} bytes\); delete the file"
    ):
        fetch(lock, into)


def test_java_is_not_needed_when_all_are_there(lock, repository, tmp_path, monkeypatch):
    fetch(lock, tmp_path / "jars")
    monkeypatch.undo()
    monkeypatch.setattr(java, "java_executable", lambda: pytest.fail("java was asked for"))
    fetch(lock, tmp_path / "jars")


def test_a_repository_that_does_not_have_it_is_an_error_with_ivys_words(tmp_path):
    lock = tmp_path / "lock"
    lock.write_text(f"{'0' * 64}  org.apache.commons:commons-pool2:0.0.0-none")
    with pytest.raises(
        EnvironmentFault,
        match=r"(?s)1 are missing \(org.apache.commons:commons-pool2:0.0.0-none\).*UNRESOLVED",
    ):
        fetch(lock, tmp_path / "jars")


def test_a_real_jar_with_another_digest_is_refused(tmp_path):
    lock = tmp_path / "lock"
    lock.write_text(LINE)
    with pytest.raises(
        IntegrityError, match=rf"must have sha256 {'0' * 64} .*got f77a5060.*commons-pool2"
    ):
        fetch(lock, tmp_path / "jars")
    assert names(tmp_path / "jars") == []


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("no java here", None),
    ],
)
def test_java_version_is_read_from_its_banner(banner, version):
    assert java.java_version(banner) == version


@pytest.fixture
def fresh_java():
    java.java_executable.cache_clear()
    yield
    java.java_executable.cache_clear()


def test_no_java_is_an_error_with_the_command_that_installs_it(tmp_path, monkeypatch, fresh_java):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        EnvironmentFault, match=r"must be 17 or newer; got none \(no java on the PATH\).*install"
    ):
        java.java_executable()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=rf"JAVA_HOME is {tmp_path}"):
        java.java_executable()


def test_an_old_java_is_an_error(tmp_path, monkeypatch, fresh_java):
    java_8 = tmp_path / "bin" / "java"
    java_8.parent.mkdir()
    java_8.write_text("#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n")
    java_8.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=rf"must be 17 or newer; got 8 \({java_8}\)"):
        java.java_executable()
