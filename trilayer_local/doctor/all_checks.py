"""All checks, and those that come before a start."""

from __future__ import annotations

import logging

from trilayer_core.errors import EnvironmentFault
from trilayer_local.doctor import log, machine, store
from trilayer_local.doctor.examination import Check, Subject, examine

logger = logging.getLogger("trilayer.checks")

WITHIN_S = 3.0
"""The time limit of `trilayer doctor` by default, in seconds."""

BEFORE_START_S = 2.0
"""The time for which `trilayer up` waits for its checks, in seconds.

A check that has not finished by then does not prevent the start.
"""

CHECKS = (
    Check("settings", machine.check_settings),
    Check("java", machine.check_java),
    Check("memory", machine.check_memory),
    Check("disk", machine.check_disk),
    Check("home", machine.check_home),
    Check("jars", machine.check_jars),
    Check("airflow", machine.check_airflow),
    Check("ports", machine.check_ports),
    Check("spark", machine.check_spark_server),
    Check("catalog", machine.check_catalog),
    Check("store", store.check_store),
    Check("filesystem", store.check_file_system),
    Check("broker", log.check_broker),
    Check("topics", log.check_topics),
    Check("fields", log.check_fields),
    Check("clocks", log.check_clocks),
    Check("alerts", machine.check_alerts),
    Check("files", store.check_files),
    Check("leftovers", store.check_orphans),
    Check("definitions", store.check_definitions),
)
"""All checks, in the order of their lines."""

_NEEDED = ("java", "memory", "disk", "home", "store", "filesystem", "spark")

BEFORE_START = (
    *(check for check in CHECKS if check.name in _NEEDED),
    Check("broker", log.check_broker_there),
)
"""The checks of `trilayer up`, with and without Airflow."""

WITH_AIRFLOW = (
    Check("airflow", machine.check_airflow_needed),
    Check("ports", machine.check_ports),
)
"""The additional checks if Airflow is to be started."""


def require(subject: Subject, *, with_airflow: bool) -> None:
    """Checks what `trilayer up` needs, within two seconds, before anything is started.

    Args:
        subject: The project that is to be started.
        with_airflow: Whether Airflow is to be started as well.

    Raises:
        EnvironmentFault: Something is missing; the message lists everything that is.
    """
    checks = [*BEFORE_START, *(WITH_AIRFLOW if with_airflow else ())]
    faults = []
    for line in examine(subject, checks, BEFORE_START_S):
        if not line.finished:
            logger.warning(
                "%s: not checked, no answer within %g s; going on", line.check, BEFORE_START_S
            )
        elif line.mark == "note":
            logger.warning("%s", line.says)
        elif line.mark == "fail":
            faults.append(line.says)
    if len(faults) == 1:
        raise EnvironmentFault(faults[0])
    if faults:
        listed = "\n".join(f"  {number}. {fault}" for number, fault in enumerate(faults, 1))
        raise EnvironmentFault(f"{len(faults)} things must be mended before the start:\n{listed}")
