"""The project that a DAG file schedules: its settings and catalog, in Airflow's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from airflow.sdk import Asset, CronDataIntervalTimetable
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from trilayer.airflow.late import report_late
from trilayer.airflow.notifications import run_failed, task_failed
from trilayer_core.definitions.catalog import Catalog, load_catalog
from trilayer_core.errors import SettingsError
from trilayer_core.runtime.settings import Settings, load_settings


@dataclass(frozen=True)
class Scheduling:
    """What the settings say about runs and tasks."""

    settings: Settings

    @property
    def runs(self) -> Mapping[str, Any]:
        """The arguments of every DAG: what can hang ends, and is reported."""
        return {
            "dagrun_timeout": timedelta(seconds=self.settings.batch.timeout_s),
            "on_failure_callback": run_failed,
        }

    @property
    def tasks(self) -> Mapping[str, Any]:
        """The default arguments of every DAG's tasks."""
        return {
            "owner": self.settings.airflow_owner,
            "execution_timeout": timedelta(seconds=self.settings.batch.task_timeout_s),
            "on_failure_callback": task_failed,
        }

    @property
    def batch_tasks(self) -> Mapping[str, Any]:
        """Those of a batch run's tasks, which wait for a slot of the pool.

        The later tasks of a run come before the first ones of another, so that runs of a backfill
        rarely overtake each other.
        """
        pool = self.settings.airflow_pool or "default_pool"
        return {**self.tasks, "pool": pool, "weight_rule": "upstream"}


@dataclass(frozen=True)
class ScheduledProject(Scheduling):
    """A project as DAGs see it."""

    catalog: Catalog

    @property
    def streams(self) -> list[str]:
        """The names of the streams."""
        return [stream.name for stream in self.catalog.streams]

    @property
    def sinks(self) -> list[str]:
        """The names of the sinks."""
        return [sink.name for sink in self.catalog.sinks]

    @cached_property
    def assets(self) -> list[Asset]:
        """Each batch view as an Asset with the view's name, in the catalog's order.

        The name is also its URI, so that `Asset("by_user")` in another DAG refers to the same
        Asset. Airflow does not allow two URIs with one name, and refuses to run the tasks of the
        one that was defined later.
        """
        return [
            Asset(
                name=view.name,
                group="batch view",
                extra={"stream": view.stream.name, "keys": [key.name for key in view.keys]},
            )
            for view in self.catalog.views
        ]

    @property
    def every(self) -> CronDataIntervalTimetable:
        """A timetable with data intervals of `batch.every_s`, aligned to the clock in UTC.

        A run's data_interval_end is T.
        """
        minutes = self.settings.batch.every_s // 60
        cron = f"*/{minutes} * * * *" if minutes < 60 else f"0 */{minutes // 60} * * *"
        return CronDataIntervalTimetable("0 0 * * *" if minutes == 24 * 60 else cron, "UTC")

    @property
    def nightly(self) -> CronDataIntervalTimetable:
        """A timetable that runs once a day, at `full_at`."""
        hour, minute = self.settings.full_at.split(":")
        return CronDataIntervalTimetable(f"{int(minute)} {int(hour)} * * *", "UTC")

    @property
    def late(self) -> DeadlineAlert:
        """A deadline that is missed if a run has not ended when the previous cut lags too far.

        The previous cut is the start of the interval at whose end the run was created; too far is
        `late_after` intervals. It is counted from the run's creation, because the interval of a
        backfill is long past. `report_late` then asks what is in force.
        """
        every_s = self.settings.batch.every_s
        return DeadlineAlert(
            name=f"the cut lags by more than {self.settings.late_after} intervals",
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=timedelta(seconds=max(self.settings.late_after_s - every_s, 1)),
            callback=AsyncCallback(
                report_late, kwargs={"late_after_s": self.settings.late_after_s}
            ),
        )


def load_scheduling() -> Scheduling:
    """What the settings say, for a DAG that must work while the catalog, or they, are broken.

    Its tasks report settings that are broken.
    """
    try:
        return Scheduling(load_settings())
    except SettingsError:
        return Scheduling(Settings.model_construct())


def load_project() -> ScheduledProject:
    """Loads the project of the working directory.

    Raises:
        SettingsError: A setting is invalid.
        UsageError: The catalog can't be loaded. Airflow shows these as the DAG's import error.
    """
    settings = load_settings()
    return ScheduledProject(settings, load_catalog(settings.catalog))
