"""example_on_publish: a DAG of your own that runs whenever a view has a new version.

Copy it, and put your work in its task.
"""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task

from trilayer.airflow import load_project

view = load_project().assets[0]

with DAG(
    "example_on_publish",
    description=f"Runs when {view.name} is published",
    doc_md=(
        "Scheduled on the Asset of a batch view. The event says which version it is and how many"
        " keys have changed."
    ),
    schedule=[view],
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["trilayer", "example"],
):

    @task(doc_md="Returns what the newest event of the view's Asset carries.")
    def tell(triggering_asset_events: Any = None) -> dict:
        """Returns what the newest event of the view's Asset carries."""
        events = triggering_asset_events[
            view
        ]  # in no order; several, where the view was published more than once
        return dict(max(events, key=lambda event: event.timestamp).extra)

    tell()
