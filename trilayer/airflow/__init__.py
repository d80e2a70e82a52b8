"""How Airflow runs the batch layer.

One operator, which runs the `trilayer` command, and the assets and lateness that its DAGs declare.

Imports neither pyspark nor duckdb: Airflow parses DAG files all the time.
"""

from trilayer.airflow.operator import PublishOperator, TrilayerOperator
from trilayer.airflow.project import Project, load_project

__all__ = ["Project", "PublishOperator", "TrilayerOperator", "load_project"]
