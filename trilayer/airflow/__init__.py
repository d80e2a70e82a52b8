"""The integration with Airflow, which schedules the batch layer.

It has one operator, which runs the `trilayer` command, and the assets and deadlines of the DAGs. It
imports neither pyspark nor duckdb, because Airflow parses DAG files continuously.
"""

from trilayer.airflow.operator import PublishOperator, TrilayerOperator
from trilayer.airflow.project import ScheduledProject, load_project

__all__ = ["PublishOperator", "ScheduledProject", "TrilayerOperator", "load_project"]
