"""Checks of this machine and of the project's definitions."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from trilayer_core.errors import EnvironmentFault, TrilayerError
from trilayer_core.runtime import jars, java
from trilayer_core.runtime.settings import FILE, settings_folder
from trilayer_local import airflow, processes
from trilayer_local.doctor.examination import Here, Note, Subject, Unchecked, writable
from trilayer_local.doctor.log import own_broker
from trilayer_local.ports import is_free

LEAST_DISK_MB = 256
AMPLE_DISK_MB = 2048


def check_settings(p: Subject) -> Iterator[str]:
    """Checks that the settings can be read, and reports where they are."""
    if isinstance(p, Here) and p.fault:
        raise p.fault
    here = Path.cwd()
    folder = settings_folder()
    if folder == here:
        yield f"{here / FILE} can be read"
    elif folder:
        yield Note(
            f"no {FILE} in {here}, so that defaults hold; {folder} has one: run trilayer in that"
            " folder"
        )
    else:
        yield f"no {FILE} in {here}: defaults hold, and variables TRILAYER_*"


def check_catalog(p: Subject) -> Iterator[str]:
    """Checks that the catalog can be imported."""
    name = p.settings.catalog
    try:
        catalog = p.catalog
    except Unchecked as error:
        raise error.__cause__ or error from None
    yield f"{name}: {len(catalog.views)} views on {', '.join(s.name for s in catalog.streams)}"


def check_alerts(p: Subject) -> Iterator[str]:
    """Checks that alerts get all events of a key; `trilayer status` shows whether they run."""
    for group in p.catalog.alert_groups:
        names = ", ".join(alert.name for alert in group.alerts)
        if group.last and group.stream.record_key is None:
            yield Note(
                f"{names}: a rule looks at earlier events of its partition, and stream"
                f" {group.stream.name!r} has no record_key; declare the column whose value is the"
                " key of each record, so that all events of a key are in one partition"
            )
        else:
            yield f"{names}: on {group.stream.name}"
    if not p.catalog.alerts:
        yield "the catalog has none"


def check_java(p: Subject) -> Iterator[str]:
    """Checks that there is a Java for Spark and Kafka."""
    yield f"Java 17 or newer: {java.java_executable()}"


def check_memory(p: Subject) -> Iterator[str]:
    """Checks that there is enough memory for a batch run."""
    s = p.settings
    # In addition to its heap a Spark driver takes about 350 MiB in the JVM and 200 MiB in Python.
    needed = s.batch.memory_mb + s.speed.memory_mb + 1100 + s.broker_memory_mb
    needed += s.alerts.memory_mb + 550 if _has_alerts(p) else 0
    used = sum(
        processes.memory_mib(process.pid) for process in processes.list_running(s.home.resolve())
    )
    still = max(needed - used, 0)
    free = psutil.virtual_memory().available >> 20
    advice = "lower batch.memory_mb and speed.memory_mb, or end other programs"
    if free < still // 2:
        raise EnvironmentFault(
            f"free memory must be {still} MiB for broker, speed layer and a batch run; got {free}"
            f" MiB; {advice}"
        )
    if free < still:
        yield Note(
            f"{free} MiB of memory free; broker, speed layer and a batch run may need {still}:"
            f" {advice}"
        )
    else:
        yield f"{free} MiB of memory free, {still} needed at most"


def _has_alerts(p: Subject) -> bool:
    """Returns whether alerts have a process; a catalog that can't be loaded has another check."""
    try:
        return bool(p.catalog.alerts)
    except (TrilayerError, Unchecked):
        return False


def check_disk(p: Subject) -> Iterator[str]:
    """Checks that the disks of home and store have free space."""
    settings = p.settings
    folders = {"home": settings.home.resolve()}
    # Decided from the text, so that a store that does not answer does not delay this check.
    if "://" not in settings.store or settings.store.startswith("file://"):
        folders["store"] = Path(p.store.root)
    seen: set[int] = set()
    for name, folder in folders.items():
        try:
            there = next(parent for parent in [folder, *folder.parents] if parent.exists())
            device = there.stat().st_dev
        except OSError as error:
            raise Unchecked(f"{name} can't be looked at: {error.strerror}") from error
        if device in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(there).free >> 20
        if free < LEAST_DISK_MB:
            raise EnvironmentFault(
                f"the disk of {name}, {folder}, must have {LEAST_DISK_MB} MiB free; got {free} MiB;"
                f" free space there, or set {name} to a folder on another disk"
            )
        if free < AMPLE_DISK_MB:
            yield Note(
                f"{free} MiB free on the disk of {name}, {folder}, which events and logs fill"
            )
        else:
            yield f"{free} MiB free on the disk of {name}, {folder}"


def check_home(p: Subject) -> Iterator[str]:
    """Checks that the folder `home` can be written, and that Java can open files there."""
    home = p.settings.home.resolve()
    for folder in (home, p.settings.jars.resolve(), Path(sys.prefix)):
        java.check_path(folder)
    try:
        yield writable(home)
    except OSError as error:
        raise EnvironmentFault(
            f"home must be a folder that can be written; got {home}: {error.strerror}; correct"
            " that, or set another home"
        ) from None


def check_jars(p: Subject) -> Iterator[str]:
    """Checks that the jars exist with the right digests."""
    s = p.settings
    wanted = [("the Kafka connector", s.spark_connector_lock or jars.SPARK_KAFKA, s.jars / "spark")]
    if own_broker(s):
        wanted.append(("Kafka", jars.KAFKA_BROKER, s.jars / "kafka"))
    for what, lock, folder in wanted:
        missing = jars.missing(lock, folder.resolve())
        if missing:
            yield Note(
                f"{len(missing)} jars of {what} are not there yet; the first start fetches them"
            )
        else:
            yield f"{len(jars.read_lock(lock))} jars of {what}, digests right"


def check_airflow(p: Subject) -> Iterator[str]:
    """Checks whether Airflow is installed, which is optional."""
    if airflow.is_installed():
        yield "Airflow is installed"
    else:
        yield Note(airflow.NOT_INSTALLED)


def check_airflow_needed(p: Subject) -> Iterator[str]:
    """Checks that Airflow, which is to be started, is installed."""
    if not airflow.is_installed():
        raise EnvironmentFault(airflow.NOT_INSTALLED)
    yield "Airflow is installed"


def check_ports(p: Subject) -> Iterator[str]:
    """Checks that the configured port is free."""
    port = p.settings.airflow_port
    if not port:
        yield "none is set: broker, Spark and Airflow take free ones"
        return
    home = p.settings.home.resolve()
    # A process that a crash has left is ended before its successor starts.
    if processes.running(home, airflow.PROCESSES[0]):
        yield f"airflow_port {port}: this project's Airflow has it"
    elif is_free(port):
        yield f"airflow_port {port} is free"
    else:
        raise EnvironmentFault(
            f"airflow_port must be a port that is free on 127.0.0.1; got {port}, which"
            f" {_holder(port)} has; end that, or set another airflow_port (0: a free one)"
        )


def _holder(port: int) -> str:
    """Returns the process that listens on a port, if this user may know it."""
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            listens_there = connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (
                port,
            )
            if listens_there and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return "another program"


def check_spark_server(p: Subject) -> Iterator[str]:
    """Checks that the configured Spark Connect server accepts connections."""
    remote = p.settings.spark_remote
    if not remote:
        yield "spark_remote is not set"
        return
    from trilayer_core.runtime.session import listens  # pyspark takes a while

    if not listens(remote):
        raise EnvironmentFault(
            f"no Spark Connect server answers at spark_remote, {remote}; start it,"
            " or leave spark_remote empty"
        )
    yield f"spark_remote {remote} takes connections"
