"""Checks of the store and its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import BadZipFile, ZipFile

from trilayer_core.errors import EnvironmentFault, StoreError, TrilayerError
from trilayer_core.runtime import jars, java
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.master import Master
from trilayer_core.store.orphans import Orphan, find_orphans
from trilayer_core.store.publications import Publications
from trilayer_local.doctor.examination import Note, Subject, Unchecked, writable


def check_store(p: Subject) -> Iterator[str]:
    """Checks that the store can be written, and reports the guarantees that it lacks."""
    store = p.store
    try:
        if store.local:
            java.check_path(Path(store.root))
        if store.local and not Path(store.root).exists():
            yield writable(Path(store.root))
        else:
            store.write("doctor", b"writable")
            store.delete("doctor")
            yield f"{p.settings.store} is writable"
    except (StoreError, OSError) as error:
        raise StoreError(
            f"store must be a folder or URI that can be written; got {p.settings.store!r}: {error}"
        ) from None
    yield from store.limits()


IN_SPARK = {"file", "hdfs", "webhdfs", "swebhdfs", "viewfs"}
"""The schemes of the file systems whose classes come with Spark."""

FILE_SYSTEMS = {
    "s3": ("org.apache.hadoop.fs.s3a.S3AFileSystem", "hadoop-aws"),
    "s3a": ("org.apache.hadoop.fs.s3a.S3AFileSystem", "hadoop-aws"),
    "abfs": ("org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem", "hadoop-azure"),
    "abfss": ("org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem", "hadoop-azure"),
    "gs": ("org.apache.hadoop.fs.gs.GoogleHadoopFileSystem", "hadoop-gcp"),
}
"""The class for a scheme, and the artifact of org.apache.hadoop that has it."""


def check_file_system(p: Subject) -> Iterator[str]:
    """Checks that Spark, which reads and writes tables itself, has a class for the store's scheme.

    Only jars are looked through: to start Spark takes longer than all checks may.
    """
    settings = p.settings
    scheme = urlsplit(settings.store).scheme if "://" in settings.store else "file"
    if scheme in IN_SPARK:
        yield f"{scheme} is a file system of Spark's own"
        return
    if settings.spark_remote or not settings.spark_master:
        yield Note(f"whether the Spark of others has a file system for {scheme}:// is unknown")
        return
    key, conf = f"spark.hadoop.fs.{scheme}.impl", settings.spark_conf
    usual, artifact = FILE_SYSTEMS.get(scheme, ("", ""))
    # Hadoop itself names a class for each of them but s3.
    name = conf.get(key, "" if scheme == "s3" else usual)
    if name and "spark.jars.packages" in conf:
        yield f"{scheme} is {name}; Spark fetches {conf['spark.jars.packages']} at its start"
        return
    if not (name and _has_class(settings, name)):
        hadoop = next(jars.pyspark_jars().glob("hadoop-client-api-*.jar"))
        version = hadoop.stem.rpartition("-")[2]
        wanted = f'"{key}" = "{usual or "CLASS"}"'
        package = (
            f"org.apache.hadoop:{artifact}:{version}" if artifact else "GROUP:ARTIFACT:VERSION"
        )
        raise EnvironmentFault(
            f"Spark must have a class for {scheme}://; got "
            f"{f'{name}, which is in none of its jars' if name else 'none'}; set in [spark_conf]:"
            f' {wanted} and "spark.jars.packages" = "{package}", or "spark.jars" to files'
        )
    yield f"{scheme} is {name}, which is in Spark's jars"


def _has_class(settings: Settings, name: str) -> bool:
    """Returns whether a class is in a jar of Spark, or in one of the settings that is a file."""
    given = settings.spark_conf.get("spark.jars", "").split(",")
    given += settings.spark_conf.get("spark.driver.extraClassPath", "").split(":")
    paths = [Path(unquote(path.removeprefix("file:"))) for path in given if path]
    theirs = [jar for path in paths for jar in path.parent.glob(path.name)]
    entry = f"{name.replace('.', '/')}.class"
    for jar in [*theirs, *jars.pyspark_jars().glob("*.jar")]:
        with suppress(OSError, BadZipFile), ZipFile(jar) as archive:
            if entry in archive.namelist():
                return True
    return False


def readable(p: Subject) -> Store:
    """Returns the store, for a check that reads from it."""
    store = p.store
    try:
        store.names("")
    except StoreError as error:
        raise Unchecked("the store can't be read") from error
    return store


def check_files(p: Subject) -> Iterator[str]:
    """Checks that the files of the version in force, and the manifests, are unchanged."""
    store = readable(p)
    publication = Publications(store).in_force()
    files = (
        [file for view in publication.views.values() for file in view.files] if publication else []
    )
    for file in files:  # not in a thread pool, for which the process would wait when it ends
        store.check(file)
    yield (
        f"version {publication.version} in force, {len(files)} files with the right digests"
        if publication
        else "no publication yet"
    )
    for stream in p.catalog.streams:
        Master(store, stream).read_chain()


def check_orphans(p: Subject) -> Iterator[str]:
    """Never fails, because orphaned files take up space but do no harm."""
    store = readable(p)
    orphans = find_orphans(store)
    if not orphans:
        yield "no killed process has left anything in the store"
        return
    kinds: dict[str, list[Orphan]] = {}
    for left in orphans:
        kinds.setdefault(left.kind, []).append(left)
    for kind, those in kinds.items():
        size = sum(store.size(left.path) for left in those)
        yield Note(f"{len(those)} x {kind}, {size:,} bytes, such as {those[0].path}")
    yield Note("the next batch run deletes them")


def check_definitions(p: Subject) -> Iterator[str]:
    """Checks that both layers run the present definitions."""
    catalog, store = p.catalog, readable(p)
    publication = Publications(store).in_force()
    for view in catalog.views:
        if publication and not publication.has(view):
            change = "has changed" if view.name in publication.views else "is new"
            raise TrilayerError(
                f"view {view.name!r} must be published as it is defined; it {change} since version"
                f" {publication.version}; run `trilayer batch run`"
            )
    for stream in catalog.streams:
        generations = Generations(store, stream).all()
        if generations and generations[-1].fingerprint != catalog.stream_fingerprint(stream):
            raise TrilayerError(
                f"the speed layer must run the definitions of stream {stream.name!r} as they are;"
                f" generation {generations[-1].number} runs others; run `trilayer speed restart`"
                " beside `trilayer up`, or start `trilayer speed run` again"
            )
    yield "definitions are those that both layers run" if publication else "nothing published yet"
