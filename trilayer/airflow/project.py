"""The project that a DAG file schedules: its settings and catalog, in Airflow's terms."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from airflow.sdk import Asset, CronDataIntervalTimetable
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from trilayer.airflow.late import tell
from trilayer_core.definitions.catalog import Catalog, load_catalog
from trilayer_core.errors import TrilayerError
from trilayer_core.runtime.settings import Settings, load_settings

logger = logging.getLogger("trilayer.dags")


@dataclass(frozen=True)
class ScheduledProject:
    """A project as DAGs see it."""

    settings: Settings
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
    def kept(self) -> list[str]:
        """The versions that are kept, newest first, each as a line that begins with its number.

        None if the store can't be read.
        """
        # Imported here, because the other DAGs are parsed in half the time without the store's
        # libraries.
        from trilayer_core.store.files import Store
        from trilayer_core.store.publications import Publications

        try:
            publications = Publications(Store(self.settings.store))
            past, kept = publications.past(), publications.versions()
        except TrilayerError as error:
            logger.warning("the form of lambda_rollback offers no versions: %s", error)
            return []
        lines = []
        for version in reversed(kept):
            events = sum(stream.events for stream in version.streams.values())
            rows = sum(view.rows for view in version.views.values())
            state = ", in force" if version.version == past.version else ""
            state = state or ("" if version.version in past.by_use else ", never in force")
            lines.append(
                f"{version.version} T={version.t}, {events:,} events, {rows:,} rows,"
                f" {version.kind}{state}"
            )
        return lines

    @property
    def every(self) -> CronDataIntervalTimetable:
        """A timetable with data intervals of `batch_every_s`, aligned to the clock in UTC.

        A run's data_interval_end is T.
        """
        minutes = self.settings.batch_every_s // 60
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

        The previous cut is the start of the run's interval; too far is `late_after` intervals.
        """
        return DeadlineAlert(
            name=f"the cut lags by more than {self.settings.late_after} intervals",
            reference=DeadlineReference.DAGRUN_LOGICAL_DATE,
            interval=timedelta(seconds=self.settings.late_after_s),
            callback=AsyncCallback(tell, kwargs={"late_after_s": self.settings.late_after_s}),
        )


def load_project() -> ScheduledProject:
    """Loads the project of the working directory.

    Raises:
        SettingsError: A setting is invalid.
        UsageError: The catalog can't be loaded. Airflow shows these as the DAG's import error.
    """
    settings = load_settings()
    return ScheduledProject(settings, load_catalog(settings.catalog))
