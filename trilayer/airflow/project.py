"""What a DAG file reads of the project that it schedules.

Its settings and catalog, as Airflow's own terms.
"""

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
class Project:
    """A project's settings and catalog."""

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
        """Each batch view as an Asset of the view's name, in the catalog's order.

        Its URI is the name too: a DAG that says `Asset("by_user")` then means the same one. Airflow
        lets no two URIs share a name, and refuses to run the tasks of whichever came second.
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
        """The versions that are kept, newest first, each as a line with its number first.

        None if the store can't be read.
        """
        # Here, since the other DAGs are parsed in half the time without the store's libraries.
        from trilayer_core.store.files import Store
        from trilayer_core.store.publications import Publications

        try:
            publications = Publications(Store(self.settings.store))
            past, found = publications.past(), publications.versions()
        except TrilayerError as error:
            logger.warning("the form of lambda_rollback offers no versions: %s", error)
            return []
        lines = []
        for version in reversed(found):
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
        """Runs with real data intervals of `batch_every_s`, aligned to the clock in UTC.

        T is a run's data_interval_end.
        """
        minutes = self.settings.batch_every_s // 60
        cron = f"*/{minutes} * * * *" if minutes < 60 else f"0 */{minutes // 60} * * *"
        return CronDataIntervalTimetable("0 0 * * *" if minutes == 24 * 60 else cron, "UTC")

    @property
    def nightly(self) -> CronDataIntervalTimetable:
        """Once a day, at `full_at`."""
        hour, minute = self.settings.full_at.split(":")
        return CronDataIntervalTimetable(f"{int(minute)} {int(hour)} * * *", "UTC")

    @property
    def late(self) -> DeadlineAlert:
        """Told when a run has not ended and the cut before it lags too much.

        The cut before it is its interval's start; too much is `late_after` intervals.
        """
        return DeadlineAlert(
            name=f"the cut lags by more than {self.settings.late_after} intervals",
            reference=DeadlineReference.DAGRUN_LOGICAL_DATE,
            interval=timedelta(seconds=self.settings.late_after_s),
            callback=AsyncCallback(tell, kwargs={"late_after_s": self.settings.late_after_s}),
        )


def load_project() -> Project:
    """The project of the working directory.

    Raises SettingsError or UsageError, which Airflow shows as the DAG's import error.
    """
    settings = load_settings()
    return Project(settings, load_catalog(settings.catalog))
