"""The integration with Airflow, which schedules the batch layer.

It has the operators, which run the `trilayer` command, and the assets and deadlines of the DAGs. It
imports neither pyspark nor duckdb, because Airflow parses DAG files continuously.
"""

from trilayer.airflow.operator import (
    CutOperator,
    PublishOperator,
    TrilayerOperator,
    check_parameters,
)
from trilayer.airflow.project import (
    ScheduledProject,
    Scheduling,
    load_project,
    load_scheduling,
)

__all__ = [
    "CutOperator",
    "PublishOperator",
    "ScheduledProject",
    "Scheduling",
    "TrilayerOperator",
    "check_parameters",
    "load_project",
    "load_scheduling",
]
