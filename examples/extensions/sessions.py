"""A custom window: sessions, which end when no event arrives for some time.

Panes are as wide as the gap, so that two events of one pane always belong to one session, and each
pane stores its first and its last moment. A query joins panes whose moments are less than a gap
apart. A late event changes one pane, in the layer in which it arrives, and can thereby join two
sessions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilayer import State, Window


@dataclass(frozen=True)
class Session(Window):
    """Sessions of events that are less than `gap_s` seconds apart."""

    gap_s: int = 1800

    @property
    def identity(self) -> Sequence[int]:
        """The gap."""
        return (self.gap_s,)

    @property
    def states(self) -> Mapping[str, State]:
        """The first and the last moment of a pane."""
        return {
            "first": State("timestamp", "min(value)", "min(state)"),
            "last": State("timestamp", "max(value)", "max(state)"),
        }

    def pane_sql(self, time: str) -> str:
        """The start of a pane as wide as the gap."""
        return f"timestamp_seconds(unix_seconds({time}) - pmod(unix_seconds({time}), {self.gap_s}))"

    def assemble_sql(
        self, panes: str, key: str, states: Mapping[str, str], others: Sequence[str]
    ) -> str:
        """Numbers the sessions of each key; the key of a session is its first moment."""
        first, last = states["first"], states["last"]
        by = f"PARTITION BY {', '.join(others)}" if others else ""
        of_session = f"PARTITION BY {', '.join([*others, '_session'])}"
        return f"""
            WITH panes AS (SELECT * FROM {panes}),
            marked AS (
                SELECT *, {first} - lag({last}) OVER ({by} ORDER BY {key})
                    < to_seconds({self.gap_s}) IS NOT TRUE AS _begins FROM panes),
            numbered AS (
                SELECT *, count_if(_begins) OVER ({by} ORDER BY {key}) AS _session FROM marked)
            SELECT * EXCLUDE (_begins, _session)
                REPLACE (min({first}) OVER ({of_session}) AS {key}) FROM numbered"""

    def end_sql(self, key: str, states: Mapping[str, str]) -> str:
        """One gap after the last event."""
        return f"{states['last']} + to_seconds({self.gap_s})"


def session(time: str, gap_s: int) -> Window:
    """Sessions over `time` that end when no event occurs for `gap_s` seconds."""
    return Session(time, gap_s)
