"""An Airflow plugin that ends a run at once if it could not begin for a long time.

Airflow starts no task of a run whose logical date is in the future. Such a run, which the trigger
form makes possible, would stay active until then, and no scheduled run would begin.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin
from airflow.utils.state import DagRunState

logger = logging.getLogger("trilayer.dags")

DAGS = ("lambda_batch", "lambda_full_recompute", "lambda_rollback", "lambda_release")


class _RunListener:
    """Is called by the scheduler, in the transaction in which it starts a run."""

    @hookimpl
    def on_dag_run_running(self, dag_run: Any, msg: str) -> None:
        """Ends a run as failed that has a logical date in the future."""
        date = dag_run.logical_date
        if dag_run.dag_id in DAGS and date is not None and date > datetime.now(UTC):
            reason = (
                f"the logical date must not be in the future; got {date.isoformat()}; Airflow would"
                " start no task until then; trigger a run without a logical date"
            )
            logger.error("run %s of %s has failed: %s", dag_run.run_id, dag_run.dag_id, reason)
            dag_run.set_state(DagRunState.FAILED)
            dag_run.note = reason


class TrilayerPlugin(AirflowPlugin):
    """Found by Airflow through the entry point `airflow.plugins`."""

    name = "trilayer"
    listeners = [_RunListener()]  # noqa: RUF012  # as Airflow declares it
