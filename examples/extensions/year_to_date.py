"""A custom window: each day with everything that has happened in its year so far.

Panes are days, and each pane stores its last moment. A query adds to each day with events the
earlier days of the same year. A late event changes one pane, in the layer in which it arrives, and
thereby all later days of its year.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilayer import State, Window


@dataclass(frozen=True)
class YearToDate(Window):
    """A window from the beginning of the year to the end of each day that has events.

    Its states make it `alone`: which windows there are depends on all days of a key.
    """

    @property
    def identity(self) -> Sequence[str]:
        """Its name; all windows of this kind are alike."""
        return ("year to date",)

    @property
    def states(self) -> Mapping[str, State]:
        """The last moment of a pane."""
        return {"last": State("timestamp", "max(value)", "max(state)")}

    def pane_sql(self, time: str) -> str:
        """The start of the day."""
        return f"date_trunc('day', {time})"

    def assemble_sql(
        self, panes: str, key: str, states: Mapping[str, str], others: Sequence[str]
    ) -> str:
        """Repeats each pane for itself and for each later day of its year."""
        same = [f"days.{column} IS NOT DISTINCT FROM panes.{column}" for column in others]
        until = (
            f"days.{key} IS NOT DISTINCT FROM panes.{key}"
            f" OR (days.{key} > panes.{key} AND year(days.{key}) = year(panes.{key}))"
        )
        return f"""
            WITH panes AS (SELECT * FROM {panes}),
            days AS (SELECT {", ".join([*others, key])} FROM panes)
            SELECT panes.* REPLACE (days.{key} AS {key})
            FROM panes JOIN days ON {" AND ".join([*same, f"({until})"])}"""

    def end_sql(self, key: str, states: Mapping[str, str]) -> str:
        """The moment of the last event that is counted."""
        return states["last"]


def year_to_date(time: str) -> Window:
    """The totals of each year over `time`, as they were at the end of each day."""
    return YearToDate(time)
